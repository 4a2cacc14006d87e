"""The steps of tools/bench_scale.py, each in a separate process.

In: a job, one JSON object as the only argument. On disk: the figures, one JSON object, in the file that the job names.
``_s`` and ``_ms`` are processor time (:mod:`peers.spent`) unless they say ``wall``.
"""

from __future__ import annotations

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

QUESTIONS, REPLACED, OPENED = 40, 60, 5
#: After this processor time a strategy gets no further question, but at least ten.
SECONDS = 60.0
FILTERS = {"1": "drawer", "10": "shelf"}


class IndexBytes(threading.Thread):
    """A thread that counts the bytes written to index files, from the sizes of the files in the folder of a store."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.written = 0
        self._folder, self._over = folder, threading.Event()
        self._sizes: dict[int, int] = {}

    def run(self) -> None:
        """Look at the files 50 times per second until :meth:`end` is called."""
        while not self._over.wait(0.02):
            self._add_growth()

    def end(self) -> int:
        """Stop watching; return the number of bytes."""
        self._over.set()
        self.join()
        self._add_growth()
        return self.written

    def _add_growth(self) -> None:
        """Add the growth of each index file since the last look; a file that shrank counts as rewritten."""
        sizes = {}
        for file in self._folder.iterdir():
            if "index" in file.name:
                try:
                    status = file.stat()
                except FileNotFoundError:
                    continue
                sizes[status.st_ino] = status.st_size
        for inode, size in sizes.items():
            before = self._sizes.get(inode, 0)
            self.written += size - before if size >= before else size
        self._sizes = sizes


def load(store: Path, first: int, last: int, log: Path, until: float, workers: int, **settings: Any) -> Figures:
    """Ingest parts one after the other until time runs out, and append the figures of each part to a log."""
    vocabulary = made_documents.generate_vocabulary()
    file = store.with_name("part.jsonl")
    embedder = settings.pop("embedder")
    done = -1
    with kvstore.open(store, embedder=embedder, settings=settings) as opened:
        index = IndexBytes(store)
        index.start()
        for number in range(first, last):
            if time.time() > until:
                break
            texts = made_documents.write_part(file, number, vocabulary)
            process, all_seconds = time.process_time(), get_processor_seconds()
            wall, written, index_written_before = time.time(), get_bytes_written()[0], index.written
            report = opened.ingest(file, workers=workers)
            if report.failures:
                raise SystemExit(f"part {number}: {report.failures[:3]}")
            if number == last - 1 and any(status.kind == "vectors" for status in opened.indexes()):
                opened.refresh("vectors")
            line = {
                "part": number,
                "documents": report.documents,
                "chunks": report.chunks,
                "text_bytes": texts,
                "writer_s": time.process_time() - process,
                "all_s": get_processor_seconds() - all_seconds,
                "wall_s": time.time() - wall,
                "written": get_bytes_written()[0] - written,
                "index_written": index.written - index_written_before,
                "memory_mb": get_peak_megabytes(),
            }
            with log.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            done = number
        closing = time.process_time(), get_bytes_written()[0]
    index.end()
    file.unlink(missing_ok=True)
    return {
        "last": done,
        "closing_s": time.process_time() - closing[0],
        "closing_written": get_bytes_written()[0] - closing[1],
        **_measure_files(store),
    }


def ask(store: Path, paragraphs: int) -> Figures:
    """Measure every strategy, and vector search with filters: the median and the 95th percentile of a question."""
    questions = made_documents.generate_questions(paragraphs, QUESTIONS, made_documents.generate_vocabulary())
    figures: Figures = {}
    with kvstore.open(store, readonly=True) as opened:
        figures["chunks"] = opened.statistics()["chunks"]
        for strategy in opened.strategies():
            try:
                times = _time_questions(
                    questions, lambda text, name=strategy.name: opened.retrieve(text, using=name, top=10)
                )
            except KvstoreError as error:
                figures[f"{strategy.name}_not_asked"] = str(error)
                continue
            figures |= _compute_percentiles(strategy.name, times)
        for share, field in FILTERS.items():
            where, values = f"meta ->> '{field}' = ?", 100 if field == "drawer" else 10
            for using in ("vector", "hybrid"):
                numbers = iter(range(10**9))
                times = _time_questions(
                    questions,
                    lambda text, using=using, where=where, numbers=numbers, values=values: opened.search(
                        text, using=using, where=where, parameters=(next(numbers) % values,)
                    ),
                )
                figures |= _compute_percentiles(f"{using}_filter_{share}", times)
    return figures | {"memory_mb": get_peak_megabytes(), "anonymous_mb": _get_anonymous_megabytes()}


def open_(store: Path) -> Figures:
    """Measure opening a store in a process that has already imported everything."""
    times = []
    for _ in range(OPENED):
        start, wall = time.process_time(), time.perf_counter()
        with kvstore.open(store, readonly=True) as opened:
            times.append((1000 * (time.process_time() - start), 1000 * (time.perf_counter() - wall)))
            len(opened)
    return {
        "open_first_ms": times[0][0],
        "open_ms": statistics.median(spent for spent, _ in times),
        "open_wall_ms": statistics.median(wall for _, wall in times),
    }


def replace(store: Path, paragraphs: int) -> Figures:
    """Measure replacing documents, one per commit.

    The cost of deferred work until the store is closed is divided among them.
    """
    vocabulary = made_documents.generate_vocabulary()
    last = paragraphs // made_documents.PART - 1
    parts = sorted({round(share * last / 5) for share in range(6)})
    documents_per_part = REPLACED // len(parts)
    documents = []
    for number in parts:
        part_documents = list(made_documents.generate_part(number, vocabulary))
        documents += part_documents[:: len(part_documents) // documents_per_part][:documents_per_part]
    with kvstore.open(store) as opened:
        before, written, times = get_processor_seconds(), get_bytes_written()[0], []
        for document in documents:
            text = f"{document['text']} It was said again by {made_documents.name(7)}."
            start = time.process_time()
            opened.put(
                str(document["id"]),
                text,
                title=str(document["title"]),
                meta={field: document[field] for field in FILTERS.values()},
            )
            times.append(time.process_time() - start)
    return {
        "replace_p50_ms": 1000 * statistics.median(times),
        "replace_ms": 1000 * (get_processor_seconds() - before) / len(documents),
        "replace_written_kb": (get_bytes_written()[0] - written) / len(documents) / 1000,
    }


def check(store: Path) -> Figures:
    """Measure CHECK, and return the problems that it found."""
    with kvstore.open(store, readonly=True) as opened:
        figures = _measure_time("check", opened.check)
    return {"check_found": figures.pop("result")} | figures | {"check_memory_mb": get_peak_megabytes()}


def measure_backup(store: Path) -> Figures:
    """Measure BACKUP in its default form, which omits free pages."""
    with kvstore.open(store, readonly=True) as opened:
        figures = _measure_time("backup", lambda: opened.backup(store.with_name("backup")))
    figures.pop("result")
    return figures | {"backup_mb": sum(_read_file_sizes(store.with_name("backup")).values()) / 1e6}


def index(store: Path, kind: str) -> Figures:
    """Measure building or refreshing an index."""
    with kvstore.open(store) as opened:
        exists = any(status.kind == kind for status in opened.indexes())
        figures = _measure_time(f"index_{kind}", lambda: opened.refresh(kind) if exists else opened.create_index(kind))
    figures.pop("result")
    return figures


def compact(store: Path) -> Figures:
    """Measure COMPACT, and return the size of the data file before and after."""
    with kvstore.open(store) as opened:
        figures = _measure_time("compact", opened.compact)
    report = figures.pop("result")
    return figures | {"compact_before_mb": report.bytes_before / 1e6, "compact_after_mb": report.bytes_after / 1e6}


STEPS: dict[str, Callable[..., Figures]] = {
    "load": load,
    "ask": ask,
    "index": index,
    "open": open_,
    "replace": replace,
    "check": check,
    "backup": measure_backup,
    "compact": compact,
}


def main() -> None:
    """Run the job that the command line describes, and write its figures."""
    job = json.loads(sys.argv[1])
    out, step = Path(job.pop("out")), job.pop("step")
    for name in ("store", "log"):
        if name in job:
            job[name] = Path(job[name])
    out.write_text(json.dumps(STEPS[step](**job)))


def _time_questions(questions: list[str], ask: Callable[[str], object]) -> list[float]:
    """Return the processor seconds of each question, after three that do not count."""
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
    """Return the median and the 95th percentile in milliseconds."""
    ordered = sorted(times)
    return {
        f"{name}_ms": 1000 * statistics.median(ordered),
        f"{name}_p95_ms": 1000 * ordered[int(0.95 * (len(ordered) - 1))],
    }


def _measure_time(name: str, run_step: Callable[[], Any]) -> Figures:
    """Return the processor time and the elapsed time of a call, and its result."""
    start, wall = get_processor_seconds(), time.perf_counter()
    result = run_step()
    return {
        f"{name}_s": get_processor_seconds() - start,
        f"{name}_wall_s": time.perf_counter() - wall,
        "result": result,
    }


def _measure_files(store: Path) -> Figures:
    """Return the megabytes of the data file, of index files and of all files of a store."""
    sizes = _read_file_sizes(store)
    index = sum(size for name, size in sizes.items() if "index" in name)
    return {"data_mb": sizes["data.mdb"] / 1e6, "index_mb": index / 1e6, "files_mb": sum(sizes.values()) / 1e6}


def _read_file_sizes(store: Path) -> dict[str, int]:
    """Return the size of each file in the folder of a store."""
    return {file.name: file.stat().st_size for file in store.iterdir() if file.is_file()}


def _get_anonymous_megabytes() -> float:
    """Return the anonymous memory of this process in MiB."""
    with open("/proc/self/status") as lines:
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith("RssAnon"))
    return int(kilobytes) / 1024
