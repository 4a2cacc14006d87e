"""Measure retrieval quality and speed on question sets and on a printed index.

    python tools/evaluate.py --data FOLDER [--strategy NAME] [--limit-corpus N] [--json]
    python tools/evaluate.py --index FILE.jsonl [--json]

``--data`` names a folder with ``corpus.jsonl`` (id, title, text) and ``questions.jsonl`` (question, gold: ids of
every passage needed). Each passage becomes one document through the public API. ``--index`` names a printed index
(term, subterm, gold pages) beside the archive of HTML pages it belongs to; the pages are ingested as ``kvstore
ingest`` does, and every term is looked up.
"""

from __future__ import annotations

import json
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import click

import kvstore
from kvstore.text.normalize import entity_key, fold

#: Documents looked at for each question, and chunks asked for so that as many different documents are among them.
DEPTH = 8
CHUNKS = 60


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of a question set.")
@click.option("--index", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A printed index, JSONL.")
@click.option("--strategy", help="Strategy to measure (default: the store's).")
@click.option("--limit-corpus", type=int, help="Take the first N passages only.")
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Embedder of the store.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the store here, and use it again if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: Path | None,
    index: Path | None,
    strategy: str | None,
    limit_corpus: int | None,
    embedder: str,
    store: Path | None,
    as_json: bool,
) -> None:
    """Measure retrieval on a question set (--data) or lookups on a printed index (--index)."""
    if (data is None) == (index is None):
        raise click.UsageError("give either --data or --index")
    with (
        tempfile.TemporaryDirectory() as scratch,
        kvstore.open(store or Path(scratch) / "store", embedder=embedder) as opened,
    ):
        if data is not None:
            report = evaluate_questions(opened, data, strategy, limit_corpus)
        else:
            assert index is not None
            report = evaluate_index(opened, index, Path(scratch))
    if as_json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:24} {value}")


def read_lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def evaluate_questions(
    store: kvstore.Store, data: Path, strategy: str | None, limit_corpus: int | None
) -> dict[str, Any]:
    """Recall of the gold passages among the first documents, and the time of a retrieval."""
    passages = read_lines(data / "corpus.jsonl")[:limit_corpus]
    started = time.perf_counter()
    batch = 500
    for start in range(0, len(passages), batch):
        with store.transaction() as transaction:
            for passage in passages[start : start + batch]:
                transaction.put(passage["id"], passage["text"], title=passage.get("title"))
        _tell(f"{min(start + batch, len(passages))} of {len(passages)} passages")
    ingest_seconds = time.perf_counter() - started
    known = {passage["id"] for passage in passages}
    questions = [q for q in read_lines(data / "questions.jsonl") if known.issuperset(q["gold"])]
    recalls: dict[int, list[float]] = {2: [], 5: []}
    complete, whole_ms, bare_ms, pools = [], [], [], []
    store.retrieve(questions[0]["question"], using=strategy, top=CHUNKS)  # loads the embedder and warms the caches
    used = ""
    for question in questions:
        started = time.perf_counter()
        evidence = store.retrieve(question["question"], using=strategy, top=CHUNKS)
        elapsed = 1000 * (time.perf_counter() - started)
        used = evidence.strategy
        embedding = sum(step.milliseconds for step in evidence.steps if step.name == "embed question")
        whole_ms.append(elapsed)
        bare_ms.append(elapsed - embedding)
        pools.append(evidence.pool)
        found = list(dict.fromkeys(hit.document for hit in evidence.hits))[:DEPTH]
        gold = set(question["gold"])
        for cut, values in recalls.items():
            values.append(len(gold.intersection(found[:cut])) / len(gold))
        complete.append(gold.issubset(found))
    chunks = int(store.statistics()["chunks"])
    report: dict[str, Any] = {"dataset": data.name, "strategy": used, "questions": len(questions)}
    report |= {f"recall@{cut}": round(statistics.mean(values), 4) for cut, values in recalls.items()}
    report["all@8"] = round(statistics.mean(complete), 4)
    for name, times in (("", whole_ms), ("_without_embedding", bare_ms)):
        report[f"p50_ms{name}"] = round(statistics.median(times), 2)
        report[f"p95_ms{name}"] = round(statistics.quantiles(times, n=20)[18], 2)
    report |= {
        "median_pool": round(statistics.median(pools) / chunks, 4),
        "passages": len(passages),
        "chunks": chunks,
        "ingest_s": round(ingest_seconds, 1),
    }
    return report


def evaluate_index(store: kvstore.Store, index: Path, scratch: Path) -> dict[str, Any]:
    """Share of index terms that LOOKUP leads to a gold page for, over the terms that stand in one."""
    archive = next(index.parent.glob(index.name.replace("-index.jsonl", "-html.tar.*")), None)
    if archive is None:
        raise click.UsageError(f"there is no archive of pages beside {index}")
    folder = scratch / "pages"
    with tarfile.open(archive) as pages:
        pages.extractall(folder, filter="data")
    report = store.ingest(folder, progress=_progress)
    for failure in report.failures:
        print(f"{failure.place}: {failure.reason}", file=sys.stderr)
    texts: dict[str, bytes] = {}
    for key in sorted(store.keys()):
        document = store.get(key)
        assert document is not None
        texts.setdefault(Path(key).name, b"")
        texts[Path(key).name] += fold(f"{document.title or ''}\n\n{document.text}").data
    entries = read_lines(index)
    answerable = hits = first_hits = 0
    for entry in entries:
        gold = {place["page"] for place in entry["gold"]}
        term = entity_key(entry["term"]).encode()
        if not any(term in texts.get(page, b"") for page in gold):
            continue
        answerable += 1
        pages_found = [Path(row.document).name for row in store.lookup(entry["term"], limit=1000) if row.document]
        hits += not gold.isdisjoint(pages_found)
        first_hits += not gold.isdisjoint(pages_found[:5])
    figures = store.statistics()
    return {
        "index": index.name,
        "entries": len(entries),
        "answerable": answerable,
        "lookup_hit": round(hits / answerable, 4),
        "lookup_hit@5": round(first_hits / answerable, 4),
        "entities_per_chunk": round(int(figures["introductions"]) / int(figures["chunks"]), 2),
        "pages": len(texts),
        "failures": len(report.failures),
        "chunks": figures["chunks"],
        "entities": figures["entities"],
        "ingest_s": round(report.seconds, 1),
    }


def _tell(text: str) -> None:
    """Show progress to a person; a log needs none."""
    if sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr)


def _progress(now: kvstore.IngestProgress) -> None:
    _tell(f"{now.done} of {now.total} files, {now.chunks} chunks")


if __name__ == "__main__":
    main()
