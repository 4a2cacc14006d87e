"""Measure bulk ingest: its time and memory beside embedding alone, the store's size, replacing, compacting, checking.

    python tools/bench_ingest.py --data FOLDER [--limit N] [--chunks N] [--only PART] --json

In: a folder with ``corpus.jsonl`` (id, title, text), one passage a line. Out: one object. Embedding the texts of all
chunks alone, and each ingest (one worker), run in processes of their own, one after another; memory is the sum of the
peaks of an ingest's processes. ``--chunks`` is the size of the made stores of the other parts: vectors are given
there, so embedding is left out. Keys:

passages, embed_s, ingest_s; ratio: ingest_s / embed_s, names by rule; ratio_parser: the same with the parser on;
peak_mb_above_embedder; file_ratio: bytes of data.mdb straight after the ingest / (text + vectors of chunks as stored);
file_ratio_names: bytes of all files with the index ``synonyms``, for which names are embedded, / (text + vectors of
chunks and of names); replace_p50_ms: put of a document of 20 chunks, durable; compact_ratio: the file after a tenth of
the documents went and COMPACT, / a fresh one of the rest; check_s: CHECK.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from made_names import made_names

import kvstore
from kvstore.ingest.extraction import extract
from kvstore.models.language import LanguagePipeline

KEYS = """passages embed_s ingest_s ratio ratio_parser peak_mb_above_embedder file_ratio file_ratio_names
replace_p50_ms compact_ratio check_s""".split()
EMBEDDER = "all-MiniLM-L6-v2"
DIMENSION = 384
#: Texts that an ingest embeds at once.
PORTION = 128
REPLACEMENTS = 60

EMBED = """
import json, sys, time
from kvstore.models.embedder import open_embedder
texts = json.load(open(sys.argv[1]))
embedder = open_embedder(sys.argv[2])
embedder.embed(texts[:1])
start = time.perf_counter()
for first in range(0, len(texts), int(sys.argv[3])):
    embedder.embed(texts[first : first + int(sys.argv[3])])
print(json.dumps({"seconds": time.perf_counter() - start}))
"""
INGEST = """
import json, sys, time, kvstore
corpus, path, embedder, language = sys.argv[1:]
with kvstore.open(path, embedder=embedder, settings={"language": language}) as store:
    start = time.perf_counter()
    report = store.ingest(corpus, workers=1)
    seconds = time.perf_counter() - start
assert not report.failures, report.failures[:3]
print(json.dumps({"seconds": seconds, "documents": report.added}))
"""

EMBED_NAMES = """
import json, sys, kvstore
with kvstore.open(sys.argv[1]) as store:
    store.create_index("synonyms")
    names = store.statistics()["entities"]
print(json.dumps({"names": names}))
"""


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of a corpus.")
@click.option("--limit", type=int, help="Take the first N passages only.")
@click.option("--chunks", type=int, default=100_000, show_default=True, help="Chunks of the made stores.")
@click.option("--embedder", default=EMBEDDER, show_default=True, help="Embedder of the ingests.")
@click.option("--only", type=click.Choice(["ingest", "replace", "compact"]), help="Measure one part.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(data: Path | None, limit: int | None, chunks: int, embedder: str, only: str | None, as_json: bool) -> None:
    """Measure bulk ingest."""
    found: dict[str, Any] = dict.fromkeys(KEYS)
    with tempfile.TemporaryDirectory() as scratch:
        if only in (None, "ingest"):
            if data is None:
                raise click.UsageError("--data names the folder of a corpus; --only leaves the ingest out")
            found |= measure_ingest(data, limit, embedder, Path(scratch))
        if only in (None, "replace"):
            found |= measure_replace(Path(scratch), chunks)
        if only in (None, "compact"):
            found |= measure_compact(Path(scratch), chunks)
    if as_json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:24} {value}")


# -- Ingest beside embedding alone


def measure_ingest(data: Path, limit: int | None, embedder: str, scratch: Path) -> dict[str, Any]:
    lines = (data / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:limit]
    corpus, texts, path = scratch / "corpus.jsonl", scratch / "texts.json", scratch / "rules"
    corpus.write_text("\n".join(lines), encoding="utf-8")
    with kvstore.open(scratch / "empty", embedder="hashing") as store:
        settings = store.settings
    passages = [json.loads(line) for line in lines]
    extracted = (extract(p["id"], p["text"], settings, title=p.get("title")) for p in passages)
    texts.write_text(json.dumps([text for document in extracted for text in document.embedding_texts()]))
    alone, embedder_mb = run(EMBED, texts, embedder, PORTION)
    tell(f"embedding alone: {alone['seconds']:.1f} s, {embedder_mb:.0f} MB")
    rules, rules_mb = run(INGEST, corpus, path, embedder, "rules")
    assert rules["documents"] == len(passages)
    tell(f"ingest, names by rule: {rules['seconds']:.1f} s, {rules_mb:.0f} MB")
    ratio_parser = None
    if has_parser():
        parser, parser_mb = run(INGEST, corpus, scratch / "parser", embedder, "en")
        tell(f"ingest, with the parser: {parser['seconds']:.1f} s, {parser_mb:.0f} MB")
        ratio_parser = round(parser["seconds"] / alone["seconds"], 3)
        rules_mb = max(rules_mb, parser_mb)
    return {
        "passages": len(passages),
        "embed_s": round(alone["seconds"], 2),
        "ingest_s": round(rules["seconds"], 2),
        "ratio": round(rules["seconds"] / alone["seconds"], 3),
        "ratio_parser": ratio_parser,
        "peak_mb_above_embedder": round(rules_mb - embedder_mb, 1),
    } | measure_size(path)


def measure_size(path: Path) -> dict[str, float]:
    """The files of a store that was just ingested, against what they must hold."""
    with kvstore.open(path, readonly=True) as store:
        counted, vector = store.statistics(), 4 * store.settings.dimension
    kept = int(counted["text_bytes"]) + int(counted["chunks"]) * vector
    alone = (path / "data.mdb").stat().st_size / kept
    named, _ = run(EMBED_NAMES, path)
    files = {file.name: file.stat().st_size for file in path.iterdir()}
    tell(f"{named['names']} names embedded: {files}")
    together = sum(files.values()) / (kept + named["names"] * vector)
    return {"file_ratio": round(alone, 3), "file_ratio_names": round(together, 3)}


def has_parser() -> bool:
    """Whether the pipeline ``en`` is there to be measured."""
    try:
        list(LanguagePipeline("en").read(["A ship."], lambda text, parses: None))
    except kvstore.errors.LanguageError as error:
        tell(f"the parser is not measured: {error}")
        return False
    return True


def run(code: str, *arguments: object) -> tuple[dict[str, Any], float]:
    """What a program prints, and the sum of the peaks of resident memory of all its processes, in MB."""
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    peaks: dict[int, int] = {}
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(process.pid, peaks, ended))
    watching.start()
    output, _ = process.communicate()
    ended.set()
    watching.join()
    if process.returncode:
        raise click.ClickException(f"a measured program ended with status {process.returncode}")
    return json.loads(output.splitlines()[-1]), sum(peaks.values()) / 1024


def watch(process: int, peaks: dict[int, int], ended: threading.Event) -> None:
    """Keep the peak (VmHWM, in KiB) of a process and of all below it, as long as they are there to be asked."""
    while not ended.wait(0.05):
        for number in family(process):
            try:
                status = Path(f"/proc/{number}/status").read_text()
            except OSError:
                continue
            for line in status.splitlines():
                if line.startswith("VmHWM"):
                    peaks[number] = max(peaks.get(number, 0), int(line.split()[1]))


def family(process: int) -> Iterator[int]:
    yield process
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = listed.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


# -- Made stores


def made_documents(number: int, chunks: int, seed: int) -> Iterator[tuple[str, str]]:
    """Documents of ``chunks`` paragraphs of prose about made names, each a chunk."""
    choose = random.Random(seed)
    names = made_names(seed=11)
    known = [next(names).title() for _ in range(20_000)]
    words = "harbour river letter council year bridge winter school paper engine market garden field summer".split()
    for key in range(number):
        paragraphs = []
        for _ in range(chunks):
            about = choose.choices(known, k=3)
            filler = " ".join(choose.choices(words, k=85))
            paragraphs.append(f"{about[0]} wrote to {about[1]} of the {filler} near {about[2]}.")
        yield f"document {key}", "\n\n".join(paragraphs)


def vectors_of(store: kvstore.Store, text: str, random_numbers: np.random.Generator) -> Any:
    return random_numbers.standard_normal((len(extract("k", text, store.settings).chunks), DIMENSION), np.float32)


def fill(store: kvstore.Store, documents: list[tuple[str, str]]) -> None:
    random_numbers = np.random.default_rng(3)
    for first in range(0, len(documents), 100):
        with store.transaction() as transaction:
            for key, text in documents[first : first + 100]:
                transaction.put(key, text, vectors=vectors_of(store, text, random_numbers))


def made_store(path: Path, documents: list[tuple[str, str]]) -> kvstore.Store:
    store = kvstore.open(path, embedder=f"none:{DIMENSION}", settings={"language": "rules"})
    fill(store, documents)
    tell(f"{path.name}: {store.statistics()['chunks']} chunks")
    return store


def measure_replace(scratch: Path, chunks: int) -> dict[str, Any]:
    """Replacing documents of 20 chunks in a durable store, and CHECK of it."""
    documents = list(made_documents(chunks // 20, 20, 1))
    others = list(made_documents(REPLACEMENTS, 20, 2))
    with made_store(scratch / "replace", documents) as store:
        random_numbers = np.random.default_rng(5)
        times = []
        for number, (_, text) in enumerate(others):
            key = documents[number * 7 % len(documents)][0]
            vectors = vectors_of(store, text, random_numbers)
            start = time.perf_counter()
            store.put(key, text, vectors=vectors)
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        problems = store.check()
        check_seconds = time.perf_counter() - start
        assert not problems, problems[:3]
    return {"replace_p50_ms": round(1000 * statistics.median(times), 2), "check_s": round(check_seconds, 1)}


def measure_compact(scratch: Path, documents: int) -> dict[str, Any]:
    """Deleting a tenth of many small documents, and COMPACT, against a fresh store of the others."""
    made = list(made_documents(documents, 1, 4))
    gone = {key for key, _ in random.Random(6).sample(made, documents // 10)}
    rest = [document for document in made if document[0] not in gone]
    with made_store(scratch / "compacted", made) as store:
        with store.transaction() as transaction:
            transaction.delete_many(sorted(gone))
        after = store.compact().bytes_after
    with made_store(scratch / "fresh", rest) as store:
        fresh = (store.path / "data.mdb").stat().st_size
        compacted = store.compact().bytes_after
    tell(f"compacted: {after} bytes; a fresh store: {fresh} bytes, {compacted} compacted")
    return {"compact_ratio": round(after / fresh, 3)}


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
