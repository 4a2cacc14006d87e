"""Measure retrieval quality and speed on question sets and on a printed index.

    python tools/evaluate.py --data FOLDER[:N] ... [--strategy NAME ...] [--compare] [--triples] [--answers] [--json]
    python tools/evaluate.py --index FILE.jsonl [--json]

``--data`` names a folder with ``corpus.jsonl`` (id, title, text) and ``questions.jsonl`` (question, gold: ids of every
passage needed; perhaps answer), ``:N`` its first N passages. Each passage becomes one document through the public API.
``--compare`` measures other systems over the same chunks in the same run; what the first strategy gains over each comes
with a 95 % interval. ``--index`` names a printed index (term, subterm, gold pages) beside the archive of HTML pages it
belongs to; the pages are ingested as ``kvstore ingest`` does, and every term is looked up.

One set and one strategy print one flat object; otherwise ``rows`` has an object a set and system, and ``differences``
what the first system gains over each other.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from evaluation.answers import answer_outcomes
from evaluation.measures import Outcome, differences, summary
from evaluation.printed_index import evaluate_index
from evaluation.question_sets import QuestionSet, fill, load
from evaluation.retrievers import Retriever, StrategyRetriever, outcomes_of

import kvstore
from kvstore.settings import FixedSettings


@click.command()
@click.option("--data", multiple=True, metavar="FOLDER[:N]", help="A question set, perhaps its first N passages only.")
@click.option("--index", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A printed index, JSONL.")
@click.option("--strategy", multiple=True, help="Strategy to measure (default: the store's).")
@click.option(
    "--reranker", default="none", show_default=True, help="What puts the chunks of a strategy in order again."
)
@click.option("--limit-corpus", type=int, help="Take the first N passages of every set only.")
@click.option("--compare", is_flag=True, help="Measure bm25s, a dense index, Tree RAG and Graph RAG as well.")
@click.option("--triples", is_flag=True, help="Import the triples.jsonl of the sets that have one.")
@click.option("--answers", is_flag=True, help="Measure the answers of ASK as well (ROUGE, BLEU, F1, BERTScore).")
@click.option("--model", help="Language model that answers (default: $KVSTORE_LLM_MODEL, else none).")
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Embedder of the store.")
@click.option("--language", default=FixedSettings().language, show_default=True, help="Language setting of the store.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep stores in this folder, and use them again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: tuple[str, ...],
    index: Path | None,
    strategy: tuple[str, ...],
    reranker: str,
    limit_corpus: int | None,
    compare: bool,
    triples: bool,
    answers: bool,
    model: str | None,
    embedder: str,
    language: str,
    store: Path | None,
    as_json: bool,
) -> None:
    """Measure retrieval on question sets (--data) or lookups on a printed index (--index)."""
    if bool(data) == (index is not None):
        raise click.UsageError("give either --data or --index")
    with tempfile.TemporaryDirectory() as scratch:
        folder = store or Path(scratch)
        folder.mkdir(exist_ok=True)
        if index is not None:
            with kvstore.open(folder / "index", embedder=embedder, settings={"language": language}) as opened:
                report = evaluate_index(opened, index, Path(scratch), tell)
        else:
            rows: list[dict[str, Any]] = []
            gains: list[dict[str, Any]] = []
            for place in data:
                questions = load(place, limit_corpus)
                imported = triples and (questions.folder / "triples.jsonl").exists()
                path = folder / (questions.name.replace(":", "-") + ("-triples" if imported else ""))
                with kvstore.open(path, embedder=embedder, settings={"language": language}) as opened:
                    opened.set("reranker", reranker)
                    seconds = fill(opened, questions, imported, tell)
                    retrievers: list[Retriever] = [StrategyRetriever(opened, name) for name in strategy or (None,)]
                    if compare:
                        from evaluation.baselines import baselines

                        retrievers += baselines(opened, tell)
                    head = {"dataset": path.name, "ingest_s": round(seconds, 1)}
                    measured = {each.name: outcomes_of(each, questions, tell) for each in retrievers}
                    if answers:
                        for name in strategy or (None,):
                            label = f"ASK {name or opened.session.strategy}"
                            measured[label] = answer_outcomes(opened, questions, name, model, tell)
                    rows += [head | row(opened, questions, name, found) for name, found in measured.items()]
                    gains += compared(path.name, measured)
            report = rows[0] if len(rows) == 1 else {"rows": rows, "differences": gains}
    if as_json:
        print(json.dumps(report))
    elif "rows" in report:
        print(table(report["rows"]))
        print(table([flat(gain) for gain in report["differences"]]))
    else:
        for name, value in report.items():
            print(f"{name:28} {value}")


def row(store: kvstore.Store, questions: QuestionSet, system: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """The figures of one system on one set."""
    chunks = int(store.statistics()["chunks"])
    pool = statistics.median(outcome.pool for outcome in outcomes)
    return {
        "strategy": system,
        "questions": len(outcomes),
        **summary(outcomes),
        "median_pool": round(pool / chunks, 4),
        "passages": len(questions.passages),
        "chunks": chunks,
    }


def compared(dataset: str, measured: dict[str, list[Outcome]]) -> list[dict[str, Any]]:
    """What the first strategy gains over every other system, on the questions of one set."""
    first, *others = measured
    return [
        {"dataset": dataset, "strategy": first, "over": other, **differences(measured[first], measured[other])}
        for other in others
        if len(measured[other]) == len(measured[first])
    ]


def flat(gain: dict[str, Any]) -> dict[str, Any]:
    """A row of differences as people read it."""
    return {
        name: f"{value['difference']:+.3f} [{value['low']:+.3f}, {value['high']:+.3f}]"
        if isinstance(value, dict)
        else value
        for name, value in gain.items()
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a table of text, a column for everything that some row has."""
    columns = list(dict.fromkeys(name for each in rows for name in each))
    cells = [columns, *([str(each.get(name, "")) for name in columns] for each in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def tell(text: str) -> None:
    """Show progress to a person; a log needs none."""
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr)


if __name__ == "__main__":
    main()
