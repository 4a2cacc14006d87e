"""Index files built, extended and renamed into place, while others read and write.

In: an open environment. On disk: the index file, and its token in the table ``indexes``, committed before the file gets
its name. Out: whether a file was made. One process and thread makes a file at a time. Snapshots are held for a batch
only, so that neither COMPACT nor a growing map waits for a build.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import IndexUnavailableError, LockTimeoutError
from ...storage.environment import Environment
from ..counters import Counters
from ..documents.chunks import GROUP, Chunks
from ..vectors.hnsw import Graph
from ..vectors.vectors import Vectors
from . import index_file
from .indexes import VECTORS, Indexes, IndexRecord, IndexWriter, graph_options
from .vector_index import Coverage, VectorIndex, covered_further, file_of
from .vector_search import uses_file

#: Chunks that are read in one snapshot, and added between two looks at whether to go on.
_READ, _ADDED = 4096, 128
#: A graph is built anew when more than this share of it is chunks that are no more.
MOST_DEAD = 0.2
#: Seconds between two attempts to get the writer's lock for a moment.
_PATIENCE = 0.5


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an index is: steps done of all."""

    kind: str
    done: int
    total: int


#: Hears how far an index is.
Progress = Callable[[IndexProgress], None]


def trusts(environment: Environment, kind: str, token: bytes) -> bool:
    """Whether a token stands in the newest record of a kind of index."""
    with environment.snapshot() as snapshot:
        record = Indexes(snapshot).get(kind)
    return record is not None and token in record.tokens


def publish(
    environment: Environment,
    draft: index_file.Draft,
    record: IndexRecord,
    token: bytes,
    cancelled: Callable[[], bool] | None = None,
) -> bool:
    """Let a written file be trusted and give it its name; False where its index was dropped or made anew meanwhile.

    Waits for other writers as long as the store's lock timeout says; with ``cancelled``, until that is true. Raises
    LockTimeoutError.
    """
    while True:
        try:
            trusted = environment.write_with_growth(
                lambda view: IndexWriter(view).trust(record, token), None if cancelled is None else _PATIENCE
            )
            break
        except LockTimeoutError:
            if cancelled is None or cancelled():
                raise
    if trusted:
        draft.publish()
    return trusted


class VectorIndexBuilder:
    """Builds the index file of chunk vectors; ``dimension`` is the store's."""

    def __init__(self, environment: Environment, path: Path, dimension: int) -> None:
        self._environment = environment
        self._path = path
        self._dimension = dimension

    def refresh(self, progress: Progress | None = None, cancelled: Callable[[], bool] | None = None) -> bool:
        """Bring the file up to the last commit; True when there is a new one.

        ``progress`` hears of chunks done. When ``cancelled`` says so the work ends, and what was done until then is
        kept. False where the store is too small for a file, or the file is as new as the store. Raises
        IndexUnavailableError, LockTimeoutError.
        """
        with index_file.drafting(self._path) as draft:
            with self._state() as (record, counters, _, _):
                if record is None or not uses_file(record, counters):
                    return False
            graph, coverage, total = self._begin(record)
            start = coverage[-1][1] if coverage else 0
            if start >= GROUP * counters.next_group and coverage:
                return False
            graph, coverage = self._grow(graph, coverage, start, total, progress, cancelled)
            if not coverage:
                return False
            token = os.urandom(16)
            draft.write(*file_of(graph, coverage, token, record))
            del graph
            return publish(self._environment, draft, record, token, cancelled)

    def lag(self) -> tuple[int, int]:
        """How many chunks of the store the file does not hold, and the number that the next new chunk may have."""
        try:
            head = index_file.read_head(self._path, VECTORS, self._dimension, self._trusted)
            stop = head["coverage"][-1][1]
        except (FileNotFoundError, IndexUnavailableError):
            stop = 0
        with self._state() as (_, counters, chunks, _):
            return sum(1 for _ in chunks.scan(stop)), GROUP * counters.next_group

    def _begin(self, record: IndexRecord) -> tuple[Graph, Coverage, int]:
        """The graph to go on with, or an empty one where that is better; and how many chunks it lacks."""
        try:
            index = VectorIndex.read(self._path, self._dimension, self._trusted)
        except (FileNotFoundError, IndexUnavailableError):
            index = None
        with self._state() as (_, counters, chunks, _):
            if index is not None and index.epoch == record.epoch and index.options == graph_options(record):
                lacking = sum(1 for _ in chunks.scan(index.coverage[-1][1]))
                alive = counters.chunks - lacking
                if len(index.labels) - alive <= MOST_DEAD * len(index.labels):
                    return index.graph, index.coverage, lacking
        return Graph.new(self._dimension, **graph_options(record)), (), counters.chunks

    def _grow(
        self,
        graph: Graph,
        coverage: Coverage,
        start: int,
        total: int,
        progress: Progress | None,
        cancelled: Callable[[], bool] | None,
    ) -> tuple[Graph, Coverage]:
        """Add the chunks from ``start`` on, as far as there are any when this begins, or until it is cancelled."""
        with self._state() as (_, counters, _, _):
            end = GROUP * counters.next_group
        covered, done = coverage, 0
        while start < end:
            with self._state() as (_, counters, chunks, vectors):
                stored = list(itertools.islice(chunks.scan(start, end), _READ))
                matrix = vectors.gather([(chunk.block, chunk.row) for _, chunk in stored])
            ids = np.array([chunk for chunk, _ in stored], np.uint64)
            for first in range(0, len(ids), _ADDED):
                graph.add(ids[first : first + _ADDED], matrix[first : first + _ADDED])
                added = min(first + _ADDED, len(ids))
                if progress is not None:
                    progress(IndexProgress(VECTORS, done + added, total))
                if cancelled is not None and cancelled():
                    return graph, covered_further(coverage, counters.change, int(ids[added - 1]) + 1)
            done += len(ids)
            start = int(ids[-1]) + 1 if len(ids) == _READ else end
            # Each batch is as of its own state, and all of them hold what is there at the last.
            covered = covered_further(coverage, counters.change, start)
        return graph, covered

    def _trusted(self, token: bytes) -> bool:
        return trusts(self._environment, VECTORS, token)

    @contextmanager
    def _state(self) -> Iterator[tuple[IndexRecord | None, Counters, Chunks, Vectors]]:
        with self._environment.snapshot() as snapshot:
            yield (
                Indexes(snapshot).get(VECTORS),
                Counters.load(snapshot),
                Chunks(snapshot),
                Vectors(snapshot, self._dimension),
            )
