"""Measure bulk ingest: time and memory compared with embedding alone, size, replacing, compacting, checking. *Content*
is the texts and vectors of a store; a *program* is Python code that is measured in a process of its own.

    python tools/bench_ingest.py --data FOLDER [--limit N] [--chunks N] [--only PART] --json

In: a folder with ``corpus.jsonl`` (id, title, text), one passage per line. Out: one object. Two programs run one after
another: one embeds the texts of all chunks (the model is loaded before; all texts in one call, which is fastest), the
other ingests them (one worker, including its start). Both embed with OMP_NUM_THREADS threads, by default one per
processor. Embedding alone then uses all processors, so everything else in an ingest adds to its time.
Memory is the sum of the peaks of the processes of an ingest, including mapped pages of the store. Standard error also
shows the processor time of all processes, and the sampled peak of their anonymous memory. ``--chunks`` is the size of
the generated stores of the other parts, whose vectors are given, so that nothing is embedded. Keys:

passages, embed_s, ingest_s; ratio: ingest_s / embed_s, ``language = rules``; ratio_parser: the same with the parser;
peak_mb_above_embedder; file_ratio: bytes of data.mdb right after the ingest / (text + vectors of chunks as stored);
file_ratio_names: bytes of all files with the ``synonyms`` index, for which names are embedded / (text + vectors of
chunks and of names); replace_p50_ms: a durable put of a document of 20 chunks; compact_ratio: size of the file after
deleting a tenth of the documents and COMPACT / that of a new store of the others; check_s: CHECK; ask_s:
``kvstore ask`` with an extractive answer to a question about the first passage, from start to end of its process.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from made_names import generate_names

import kvstore
from kvstore.extraction.extraction import extract
from kvstore.models.language import LanguagePipeline
from kvstore.registry.chunked_text import build_chunked_text
from kvstore.registry.derivation import build_embedding_texts

KEYS = """passages embed_s ingest_s ratio ratio_parser peak_mb_above_embedder file_ratio file_ratio_names
replace_p50_ms edit_p50_ms compact_ratio check_s ask_s""".split()
EMBEDDER = "all-MiniLM-L6-v2"
DIMENSION = 384
NUM_REPLACEMENTS = 60

EMBED = """
import json, sys, time
from kvstore.models.embedder import open_embedder
texts = json.load(open(sys.argv[1]))
embedder = open_embedder(sys.argv[2])
embedder.embed(texts[:1])
start = time.perf_counter()
embedder.embed(texts)
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
import json, sys, time, kvstore
start = time.perf_counter()
with kvstore.open(sys.argv[1]) as store:
    store.create_index("synonyms")
    names = store.statistics()["entities"]
print(json.dumps({"seconds": time.perf_counter() - start, "names": names}))
"""


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of a corpus.")
@click.option("--limit", type=int, help="Use only the first N passages.")
@click.option("--chunks", type=int, default=100_000, show_default=True, help="Chunks of the generated stores.")
@click.option("--embedder", default=EMBEDDER, show_default=True, help="Embedder of the ingests.")
@click.option("--only", type=click.Choice(["ingest", "replace", "compact"]), help="Measure one part.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(data: Path | None, limit: int | None, chunks: int, embedder: str, only: str | None, as_json: bool) -> None:
    """Measure bulk ingest."""
    figures: dict[str, Any] = dict.fromkeys(KEYS)
    with tempfile.TemporaryDirectory() as scratch:
        if only in (None, "ingest"):
            if data is None:
                raise click.UsageError("--data names the folder of a corpus; --only leaves the ingest out")
            figures |= measure_ingest(data, limit, embedder, Path(scratch))
        if only in (None, "replace"):
            figures |= measure_replace(Path(scratch), chunks)
        if only in (None, "compact"):
            figures |= measure_compact(Path(scratch), chunks)
    if as_json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:24} {value}")


# -- Ingest compared with embedding alone


def measure_ingest(data: Path, limit: int | None, embedder: str, scratch: Path) -> dict[str, Any]:
    """Return the figures of ingesting a corpus, with names by rule and by the parser, and of only embedding its texts.

    These are seconds, peak memory, the size of the files, and the time of ``ask``.
    """
    lines = (data / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:limit]
    corpus, texts, path = scratch / "corpus.jsonl", scratch / "texts.json", scratch / "rules"
    corpus.write_text("\n".join(lines), encoding="utf-8")
    with kvstore.open(scratch / "empty", embedder="hashing", settings={"language": "rules"}) as store:
        settings = store.settings
    passages = [json.loads(line) for line in lines]
    extracted = (extract(passage["id"], passage["text"], settings, title=passage.get("title")) for passage in passages)
    texts_by_document = (
        build_embedding_texts(build_chunked_text(document, facts={}), settings) for document in extracted
    )
    texts.write_text(json.dumps([text for document_texts in texts_by_document for text in document_texts]))
    embedding = run_program("embedding alone", EMBED, texts, embedder)
    rules = run_program("ingest, names by rule", INGEST, corpus, path, embedder, "rules")
    assert rules.printed["documents"] == len(passages)
    ingests = [rules]
    if has_parser():
        ingests.append(run_program("ingest, with the parser", INGEST, corpus, scratch / "parser", embedder, "en"))
    ratios = [round(ingest.seconds / embedding.seconds, 3) for ingest in ingests]
    return {
        "passages": len(passages),
        "embed_s": round(embedding.seconds, 2),
        "ingest_s": round(rules.seconds, 2),
        "ratio": ratios[0],
        "ratio_parser": ratios[1] if len(ratios) > 1 else None,
        "peak_mb_above_embedder": round(max(ingest.megabytes for ingest in ingests) - embedding.megabytes, 1),
        "ask_s": measure_ask(path, f"Who or what is {passages[0].get('title') or passages[0]['id']}?"),
    } | measure_growth_by_names(path)


def measure_ask(path: Path, question: str) -> float:
    """Return the median seconds of seven processes that open a store and answer a question."""
    command = [sys.executable, "-c", "from kvstore_shell.cli import main; main()", "ask", str(path), question]
    times = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return round(statistics.median(times), 2)


def measure_growth_by_names(path: Path) -> dict[str, float]:
    """Create the index ``synonyms``, which embeds all names; return the size of files before and after it.

    Sizes are divided by that of the content. ``file_ratio`` is that of the data file before. ``file_ratio_names`` is
    that of all files after, with the vectors of names as content.
    """
    with kvstore.open(path, readonly=True) as store:
        figures, vector_bytes = store.statistics(), 4 * store.settings.dimension
    content_bytes = int(figures["text_bytes"]) + int(figures["chunks"]) * vector_bytes
    data_file_ratio = (path / "data.mdb").stat().st_size / content_bytes
    names = run_program("names embedded", EMBED_NAMES, path).printed["names"]
    files = {file.name: file.stat().st_size for file in path.iterdir()}
    log(f"{names} names embedded: {files}")
    total_ratio = sum(files.values()) / (content_bytes + names * vector_bytes)
    return {"file_ratio": round(data_file_ratio, 3), "file_ratio_names": round(total_ratio, 3)}


def has_parser() -> bool:
    """True if the language pipeline ``en`` is installed; otherwise log that the parser is not measured."""
    try:
        list(LanguagePipeline("en").parse_texts(["A ship."], lambda text, parses: None))
    except kvstore.errors.LanguageError as error:
        log(f"the parser is not measured: {error}")
        return False
    return True


@dataclass(frozen=True)
class ProgramResult:
    """The JSON object that a program printed, and the sum of the peaks of memory of its processes."""

    printed: dict[str, Any]
    megabytes: float

    @property
    def seconds(self) -> float:
        """The seconds that the program measured itself, without its start."""
        return float(self.printed["seconds"])


def run_program(name: str, code: str, *arguments: object) -> ProgramResult:
    """Run the Python program ``code`` in a new process, log its costs, and return its output and its peak memory.

    The last line of its output is one JSON object.
    """
    usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    memory = MemoryPeaks()
    has_ended = threading.Event()
    recorder = threading.Thread(target=record_memory, args=(process.pid, memory, has_ended))
    recorder.start()
    output, _ = process.communicate()
    has_ended.set()
    recorder.join()
    if process.returncode:
        raise click.ClickException(f"a measured program ended with status {process.returncode}")
    result = ProgramResult(json.loads(output.splitlines()[-1]), sum(memory.peaks.values()) / 1024)
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_seconds = usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    log(
        f"{name}: {result.seconds:.1f} s, {processor_seconds:.1f} s of processor time with the start; "
        f"{result.megabytes:.0f} MB, at most {memory.anonymous / 1024:.0f} MB of anonymous memory"
    )
    return result


@dataclass
class MemoryPeaks:
    """Memory in KiB: the peak of each process (VmHWM), and the peak of the anonymous memory of all (RssAnon)."""

    peaks: dict[int, int] = field(default_factory=dict)
    anonymous: int = 0


def record_memory(process_id: int, memory: MemoryPeaks, has_ended: threading.Event) -> None:
    """Record the memory of a process and of all processes below it every 50 ms, until ``has_ended`` is set.

    ``memory`` gets the peak of each process, and the highest sum of their anonymous memory, in KiB.
    """
    while not has_ended.wait(0.05):
        anonymous = 0
        for listed_id in iter_process_tree(process_id):
            try:
                lines = Path(f"/proc/{listed_id}/status").read_text().splitlines()
            except OSError:
                continue
            status = dict(line.split(":", 1) for line in lines)
            if "VmHWM" in status:
                memory.peaks[listed_id] = max(memory.peaks.get(listed_id, 0), int(status["VmHWM"].split()[0]))
                anonymous += int(status["RssAnon"].split()[0])
        memory.anonymous = max(memory.anonymous, anonymous)


def iter_process_tree(process_id: int) -> Iterator[int]:
    """Yield the id of a process and of all processes below it, as Linux lists them in ``/proc``."""
    yield process_id
    for children_file in Path(f"/proc/{process_id}/task").glob("*/children"):
        try:
            children = children_file.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from iter_process_tree(int(child))


# -- Synthetic stores


def generate_documents(count: int, num_paragraphs: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield (key, text) of ``count`` documents with ``num_paragraphs`` paragraphs about generated names.

    A paragraph has about 90 words, so each becomes a chunk.
    """
    generator = random.Random(seed)
    names = generate_names(seed=11)
    known_names = [next(names).title() for _ in range(20_000)]
    words = "harbour river letter council year bridge winter school paper engine market garden field summer".split()
    for key in range(count):
        paragraphs = []
        for _ in range(num_paragraphs):
            subjects = generator.choices(known_names, k=3)
            filler = " ".join(generator.choices(words, k=85))
            paragraphs.append(f"{subjects[0]} wrote to {subjects[1]} of the {filler} near {subjects[2]}.")
        yield f"document {key}", "\n\n".join(paragraphs)


def make_vectors(store: kvstore.Store, text: str, generator: np.random.Generator) -> Any:
    """Return random vectors for the chunks of a text, shape (chunks, DIMENSION)."""
    return generator.standard_normal((len(extract("key", text, store.settings).chunks), DIMENSION), np.float32)


def fill_store(store: kvstore.Store, documents: list[tuple[str, str]]) -> None:
    """Store documents with random vectors, 100 per transaction."""
    generator = np.random.default_rng(3)
    for start in range(0, len(documents), 100):
        with store.transaction() as transaction:
            for key, text in documents[start : start + 100]:
                transaction.put(key, text, vectors=make_vectors(store, text, generator))


def create_store(path: Path, documents: list[tuple[str, str]]) -> kvstore.Store:
    """Create a store of documents with random vectors."""
    store = kvstore.open(path, embedder=f"none:{DIMENSION}", settings={"language": "rules"})
    fill_store(store, documents)
    log(f"{path.name}: {store.statistics()['chunks']} chunks")
    return store


def measure_replace(scratch: Path, chunks: int) -> dict[str, Any]:
    """Return the times of replacing documents of 20 chunks, of editing a paragraph of others, and of CHECK."""
    documents = list(generate_documents(chunks // 20, 20, 1))
    replacements = list(generate_documents(NUM_REPLACEMENTS, 20, 2))
    with create_store(scratch / "replace", documents) as store:
        store.refresh("vectors")  # otherwise the background would extend the index during the measurement
        # Every seventh document, so that the changes are scattered over the store.
        changed_documents = [documents[index * 7 % len(documents)] for index in range(2 * NUM_REPLACEMENTS)]
        replace_ms = replace_documents(
            store, [(key, text) for (key, _), (_, text) in zip(changed_documents, replacements, strict=False)]
        )
        edits = []
        for (key, text), (_, replacement) in zip(changed_documents[NUM_REPLACEMENTS:], replacements, strict=True):
            paragraphs = text.split("\n\n")
            paragraphs[10] = replacement.split("\n\n")[10]  # one in the middle
            edits.append((key, "\n\n".join(paragraphs)))
        edit_ms = replace_documents(store, edits)
        start = time.perf_counter()
        problems = store.check()
        check_seconds = time.perf_counter() - start
        assert not problems, problems[:3]
    return {"replace_p50_ms": replace_ms, "edit_p50_ms": edit_ms, "check_s": round(check_seconds, 1)}


def replace_documents(store: kvstore.Store, documents: list[tuple[str, str]]) -> float:
    """Return the median time of replacing existing documents with new random vectors, in milliseconds."""
    generator = np.random.default_rng(5)
    times = []
    for key, text in documents:
        vectors = make_vectors(store, text, generator)
        start = time.perf_counter()
        store.put(key, text, vectors=vectors)
        times.append(1000 * (time.perf_counter() - start))
    log(f"replaced: {statistics.median(times):.1f} ms, mean {statistics.mean(times):.1f}, maximum {max(times):.1f}")
    return round(statistics.median(times), 2)


def measure_compact(scratch: Path, num_documents: int) -> dict[str, Any]:
    """Return the size of a store after deleting a tenth of its documents and COMPACT, as a ratio.

    It is divided by the size of a new store of the remaining documents.
    """
    documents = list(generate_documents(num_documents, 1, 4))
    deleted_keys = {key for key, _ in random.Random(6).sample(documents, num_documents // 10)}
    remaining_documents = [document for document in documents if document[0] not in deleted_keys]
    with create_store(scratch / "compacted", documents) as store:
        with store.transaction() as transaction:
            transaction.delete_many(sorted(deleted_keys))
        bytes_after_compact = store.compact().bytes_after
    with create_store(scratch / "fresh", remaining_documents) as store:
        fresh_bytes = (store.path / "data.mdb").stat().st_size
        fresh_compacted_bytes = store.compact().bytes_after
    log(
        f"compacted: {bytes_after_compact} bytes; a fresh store: {fresh_bytes} bytes, {fresh_compacted_bytes} compacted"
    )
    return {"compact_ratio": round(bytes_after_compact / fresh_bytes, 3)}


def log(text: str) -> None:
    """Print a line to standard error."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
