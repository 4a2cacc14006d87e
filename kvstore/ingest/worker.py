"""A worker: a process that reads, extracts and embeds files for the one that ingests.

In (standard input, messages of ``transport.py``): a :class:`Job`'s fields, then tasks, each a list of ``(number, items
to leave out, Source)``. Out (standard output): ``("begin", number)``, ``("found", number, Found)`` in the order of the
file, ``("embedding",)`` before vectors are made, ``("done", number)``; ``("failed", class, message)`` for what ends the
ingest. The store is opened to read only, to tell which documents are in it already. When standard input ends, because
the other process closed it or died, the worker ends too, whatever it is doing.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from ..errors import KvstoreError
from ..models.embedder import open_embedder
from ..models.protocol import Embedder
from ..settings import FixedSettings
from ..storage.documents import Documents
from ..storage.environment import Environment
from .file_documents import FileDocument, Found, documents_of
from .sources import Source
from .transport import frame, read_message

#: Chunks that are embedded at once, and sent together.
PORTION = 128


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of a worker shares; ``embedder`` is None where its vectors are made elsewhere."""

    store: str
    settings: FixedSettings
    format: str | None
    options: dict[str, Any]
    embedder: str | None

    def message(self) -> tuple[Any, ...]:
        """The first message to a worker."""
        return self.store, self.settings, self.format, self.options, self.embedder


def main() -> None:
    """Work until standard input ends."""
    tasks = sys.stdin.buffer
    # Whatever a library prints goes to standard error: standard output is for messages.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job = Job(*read_message(tasks))
    waiting: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(tasks, waiting), daemon=True).start()
    try:
        with Environment.open(job.store, readonly=True, create=False) as environment:
            worker = _Worker(job, environment, results)
            while True:
                worker.work(waiting.get())
    except KvstoreError as error:
        results.write(frame(("failed", type(error).__name__, str(error))))
        results.flush()
    except BrokenPipeError:
        os._exit(1)


def _receive(tasks: BinaryIO, waiting: queue.SimpleQueue[list[Any]]) -> None:
    while True:
        try:
            waiting.put(read_message(tasks))
        except (EOFError, OSError):
            os._exit(0)


class _Worker:
    def __init__(self, job: Job, environment: Environment, results: BinaryIO) -> None:
        self._job = job
        self._environment = environment
        self._results = results
        self._embedder: Embedder | None = None
        self._waiting: list[tuple[Any, ...]] = []
        self._chunks = 0

    def work(self, task: list[tuple[int, int, Source]]) -> None:
        """Read the files of a task, and send what is found."""
        for number, known, source in task:
            self._send(("begin", number))
            for index, found in enumerate(self._documents(source)):
                if index < known:
                    continue
                self._waiting.append(("found", number, found))
                extracted = found.extracted if isinstance(found, FileDocument) else None
                self._chunks += len(extracted.chunks) if extracted else 0
                if self._chunks >= PORTION:
                    self._deliver()
                    self._send(("begin", number))
            self._waiting.append(("done", number))
        self._deliver()

    def _documents(self, source: Source) -> Iterator[Found]:
        return documents_of(source, self._job.format, self._job.options, self._job.settings, self._stored)

    def _stored(self, key: str) -> bytes | None:
        with self._environment.snapshot() as snapshot:
            record = Documents(snapshot).find(key)
            return None if record is None else record.digest

    def _deliver(self) -> None:
        """Embed what waits, and send it."""
        vectors = self._embedded() if self._job.embedder is not None and self._chunks else None
        row = 0
        for message in self._waiting:
            found = message[-1]
            if vectors is not None and isinstance(found, FileDocument) and found.extracted is not None:
                end = row + len(found.extracted.chunks)
                message = (*message[:-1], replace(found, vectors=vectors[row:end]))
                row = end
            self._results.write(frame(message))
        self._results.flush()
        self._waiting, self._chunks = [], 0

    def _embedded(self) -> Any:
        self._send(("embedding",))
        if self._embedder is None:
            self._embedder = open_embedder(str(self._job.embedder))
        found = [message[-1].extracted for message in self._waiting if isinstance(message[-1], FileDocument)]
        texts = [text for extracted in found if extracted for text in extracted.embedding_texts()]
        portions = range(0, len(texts), PORTION)
        return np.concatenate([self._embedder.embed(texts[start : start + PORTION]) for start in portions])

    def _send(self, message: tuple[Any, ...]) -> None:
        self._results.write(frame(message))
        self._results.flush()
