"""The steps of tools/bench_scale.py: measurements of a store, each in a separate process. A *part* is a file of
documents with 10,000 paragraphs. Figures in ``_s`` and ``_ms`` are processor time unless they say ``wall``.

In: a job, one JSON object as the only argument. On disk: the figures, one JSON object, in the file that the job names.
For processor time, see :mod:`peers.spent`.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers.spent import get_bytes_written, get_peak_megabytes, get_processor_seconds

import kvstore
from kvstore.errors import KvstoreError

from . import made_documents

Figures = dict[str, Any]

NUM_QUESTIONS, NUM_REPLACED, NUM_OPENINGS = 40, 60, 5
#: After this processor time a strategy gets no further question, but at least ten.
SECONDS = 60.0
FILTERS = {"1": "drawer", "10": "shelf"}


class IndexBytes(threading.Thread):
    """A thread that counts the bytes written to index files, from the sizes of the files in the folder of a store."""

    def __init__(self, folder: Path) -> None:
        """Create the thread for the folder of a store; :meth:`start` begins to count."""
        super().__init__(daemon=True)
        self.written = 0
        self._folder, self._has_ended = folder, threading.Event()
        self._sizes: dict[int, int] = {}

    def run(self) -> None:
        """Check the sizes of the files 50 times per second until :meth:`end` is called."""
        while not self._has_ended.wait(0.02):
            self._add_growth()

    def end(self) -> int:
        """Stop counting, and return the number of bytes written since the start."""
        self._has_ended.set()
        self.join()
        self._add_growth()
        return self.written

    def _add_growth(self) -> None:
        """Add the growth of each index file since the last check; a file that shrank counts as rewritten."""
        sizes = {}
        for file in self._folder.iterdir():
            if "index" in file.name:
                try:
                    status = file.stat()
                except FileNotFoundError:  # deleted since it was listed
                    continue
                sizes[status.st_ino] = status.st_size
        for inode, size in sizes.items():
            size_before = self._sizes.get(inode, 0)
            self.written += size - size_before if size >= size_before else size
        self._sizes = sizes


def load_parts(store: Path, first: int, last: int, log: Path, until: float, workers: int, **settings: Any) -> Figures:
    """Generate and ingest the parts from ``first`` to ``last`` - 1; append the figures of each to the ``log`` file.

    The returned figures are ``last``, the index of the last ingested part (-1: none), the costs of closing the store,
    and the sizes of its files. No part begins after ``until``, in seconds since 1970. ``settings`` are those of a new
    store, with its ``embedder``.
    """
    vocabulary = made_documents.generate_vocabulary()
    part_file = store.with_name("part.jsonl")
    embedder = settings.pop("embedder")
    last_part = -1
    with kvstore.open(store, embedder=embedder, settings=settings) as opened_store:
        index_bytes = IndexBytes(store)
        index_bytes.start()
        for part in range(first, last):
            if time.time() > until:
                break
            text_bytes = made_documents.write_part(part_file, part, vocabulary)
            figures = _load_part(
                opened_store, part, part_file, index_bytes, workers, refreshes_vectors=part == last - 1
            )
            line = {"part": part, "text_bytes": text_bytes, **figures}
            with log.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            last_part = part
        seconds_before_closing, written_before_closing = time.process_time(), get_bytes_written().by_calls
    index_bytes.end()
    part_file.unlink(missing_ok=True)
    return {
        "last": last_part,
        "closing_s": time.process_time() - seconds_before_closing,
        "closing_written": get_bytes_written().by_calls - written_before_closing,
        **_measure_files(store),
    }


def _load_part(
    store: kvstore.Store, part: int, part_file: Path, index_bytes: IndexBytes, workers: int, *, refreshes_vectors: bool
) -> Figures:
    """Ingest the documents of a part, and return the figures of this ingest.

    With ``refreshes_vectors``, the vector index is brought up to date too, if there is one.
    """
    writer_seconds_before, all_seconds_before = time.process_time(), get_processor_seconds()
    wall_before, index_written_before = time.time(), index_bytes.written
    written_before = get_bytes_written().by_calls
    report = store.ingest(part_file, workers=workers)
    if report.failures:
        raise SystemExit(f"part {part}: {report.failures[:3]}")
    if refreshes_vectors and any(status.kind == "vectors" for status in store.indexes()):
        store.refresh("vectors")
    return {
        "documents": report.documents,
        "chunks": report.chunks,
        "writer_s": time.process_time() - writer_seconds_before,
        "all_s": get_processor_seconds() - all_seconds_before,
        "wall_s": time.time() - wall_before,
        "written": get_bytes_written().by_calls - written_before,
        "index_written": index_bytes.written - index_written_before,
        "memory_mb": get_peak_megabytes(),
    }


def measure_strategies(store: Path, paragraphs: int) -> Figures:
    """Return the median and 95th percentile time of a question, for every strategy and for search with filters.

    A strategy that cannot answer has the error message as its figure ``NAME_not_asked``.
    """
    questions = made_documents.generate_questions(paragraphs, NUM_QUESTIONS, made_documents.generate_vocabulary())
    figures: Figures = {}
    with kvstore.open(store, readonly=True) as opened_store:
        figures["chunks"] = opened_store.statistics()["chunks"]
        for strategy in opened_store.strategies():
            try:
                times = _time_questions(
                    questions, lambda text, name=strategy.name: opened_store.retrieve(text, using=name, top=10)
                )
            except KvstoreError as error:
                figures[f"{strategy.name}_not_asked"] = str(error)
                continue
            figures |= _compute_percentiles(strategy.name, times)
        for share, field in FILTERS.items():
            for strategy_name in ("vector", "hybrid"):
                times = _time_filtered_questions(opened_store, questions, strategy_name, field)
                figures |= _compute_percentiles(f"{strategy_name}_filter_{share}", times)
    return figures | {"memory_mb": get_peak_megabytes(), "anonymous_mb": _get_anonymous_megabytes()}


def measure_opening(store: Path) -> Figures:
    """Return the times of opening a store, the first and the median, in a process that has imported everything."""
    times = []
    for _ in range(NUM_OPENINGS):
        start, wall_start = time.process_time(), time.perf_counter()
        with kvstore.open(store, readonly=True) as opened_store:
            times.append((1000 * (time.process_time() - start), 1000 * (time.perf_counter() - wall_start)))
            len(opened_store)
    return {
        "open_first_ms": times[0][0],
        "open_ms": statistics.median(milliseconds for milliseconds, _ in times),
        "open_wall_ms": statistics.median(wall_milliseconds for _, wall_milliseconds in times),
    }


def measure_replacement(store: Path, paragraphs: int) -> Figures:
    """Return the times and written bytes of replacing documents, one per commit.

    The cost of work that kvstore defers until the store is closed is divided among the documents.
    """
    documents = _select_documents(paragraphs)
    with kvstore.open(store) as opened_store:
        seconds_before, written_before, times = get_processor_seconds(), get_bytes_written().by_calls, []
        for document in documents:
            text = f"{document['text']} It was said again by {made_documents.generate_name(7)}."
            start = time.process_time()
            opened_store.put(
                str(document["id"]),
                text,
                title=str(document["title"]),
                meta={field: document[field] for field in FILTERS.values()},
            )
            times.append(time.process_time() - start)
    return {
        "replace_p50_ms": 1000 * statistics.median(times),
        "replace_ms": 1000 * (get_processor_seconds() - seconds_before) / len(documents),
        "replace_written_kb": (get_bytes_written().by_calls - written_before) / len(documents) / 1000,
    }


def _select_documents(paragraphs: int) -> list[dict[str, str | int]]:
    """Return NUM_REPLACED documents of six parts that are evenly spread over a store of ``paragraphs`` paragraphs."""
    vocabulary = made_documents.generate_vocabulary()
    last_part = paragraphs // made_documents.PARAGRAPHS_PER_PART - 1
    parts = sorted({round(share * last_part / 5) for share in range(6)})
    documents_per_part = NUM_REPLACED // len(parts)
    documents: list[dict[str, str | int]] = []
    for part in parts:
        part_documents = list(made_documents.generate_part(part, vocabulary))
        documents += part_documents[:: len(part_documents) // documents_per_part][:documents_per_part]
    return documents


def measure_check(store: Path) -> Figures:
    """Return the time and memory of CHECK, and the problems that it reports."""
    with kvstore.open(store, readonly=True) as opened_store:
        figures = _measure_time("check", opened_store.check)
    return {"check_found": figures.pop("result")} | figures | {"check_memory_mb": get_peak_megabytes()}


def measure_backup(store: Path) -> Figures:
    """Return the time and size of a backup in its default form, which omits free pages."""
    with kvstore.open(store, readonly=True) as opened_store:
        figures = _measure_time("backup", lambda: opened_store.backup(store.with_name("backup")))
    figures.pop("result")
    return figures | {"backup_mb": sum(_read_file_sizes(store.with_name("backup")).values()) / 1e6}


def measure_index_build(store: Path, kind: str) -> Figures:
    """Return the times of creating an index, or of refreshing it if it exists."""
    with kvstore.open(store) as opened_store:
        exists = any(status.kind == kind for status in opened_store.indexes())
        figures = _measure_time(
            f"index_{kind}", lambda: opened_store.refresh(kind) if exists else opened_store.create_index(kind)
        )
    figures.pop("result")
    return figures


def measure_compaction(store: Path) -> Figures:
    """Return the time of COMPACT, and the size of the data file before and after."""
    with kvstore.open(store) as opened_store:
        figures = _measure_time("compact", opened_store.compact)
    report = figures.pop("result")
    return figures | {"compact_before_mb": report.bytes_before / 1e6, "compact_after_mb": report.bytes_after / 1e6}


STEPS: dict[str, Callable[..., Figures]] = {
    "load": load_parts,
    "ask": measure_strategies,
    "index": measure_index_build,
    "open": measure_opening,
    "replace": measure_replacement,
    "check": measure_check,
    "backup": measure_backup,
    "compact": measure_compaction,
}


def main() -> None:
    """Run the job that the command line describes, and write its figures.

    A job is a JSON object: the name of the ``step``, the ``out`` file, and the arguments of the step's function.
    """
    job = json.loads(sys.argv[1])
    output_file, step = Path(job.pop("out")), job.pop("step")
    for name in ("store", "log"):  # the arguments that are paths
        if name in job:
            job[name] = Path(job[name])
    output_file.write_text(json.dumps(STEPS[step](**job)))


def _time_filtered_questions(store: kvstore.Store, questions: list[str], strategy: str, field: str) -> list[float]:
    """Return the processor seconds of each question with a filter; each filters by the next value of ``field``."""
    num_values = 100 if field == "drawer" else 10
    values = itertools.cycle(range(num_values))
    where = f"meta ->> '{field}' = ?"
    return _time_questions(
        questions, lambda text: store.search(text, using=strategy, where=where, parameters=(next(values),))
    )


def _time_questions(questions: list[str], ask: Callable[[str], object]) -> list[float]:
    """Return the processor seconds of each question, after three that do not count.

    After ten questions, it stops as soon as they have taken more than SECONDS together.
    """
    for question in questions[:3]:
        ask(f"{question} And then?")
    times: list[float] = []
    for question in questions:
        start = time.process_time()
        ask(question)
        times.append(time.process_time() - start)
        if sum(times) > SECONDS and len(times) >= 10:
            break
    return times


def _compute_percentiles(name: str, times: list[float]) -> Figures:
    """Return the median and the 95th percentile of times in seconds, converted to milliseconds."""
    sorted_times = sorted(times)
    return {
        f"{name}_ms": 1000 * statistics.median(sorted_times),
        f"{name}_p95_ms": 1000 * sorted_times[int(0.95 * (len(sorted_times) - 1))],
    }


def _measure_time(name: str, function: Callable[[], Any]) -> Figures:
    """Return the processor time and the elapsed time of a call, and its result as ``result``."""
    seconds_before, wall_before = get_processor_seconds(), time.perf_counter()
    result = function()
    return {
        f"{name}_s": get_processor_seconds() - seconds_before,
        f"{name}_wall_s": time.perf_counter() - wall_before,
        "result": result,
    }


def _measure_files(store: Path) -> Figures:
    """Return the megabytes of the data file, of index files and of all files of a store."""
    sizes = _read_file_sizes(store)
    index_bytes = sum(size for name, size in sizes.items() if "index" in name)
    return {"data_mb": sizes["data.mdb"] / 1e6, "index_mb": index_bytes / 1e6, "files_mb": sum(sizes.values()) / 1e6}


def _read_file_sizes(store: Path) -> dict[str, int]:
    """Return the size of each file in the folder of a store."""
    return {file.name: file.stat().st_size for file in store.iterdir() if file.is_file()}


def _get_anonymous_megabytes() -> float:
    """Return the anonymous memory of this process in MiB."""
    with open("/proc/self/status") as lines:
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith("RssAnon"))
    return int(kilobytes) / 1024
