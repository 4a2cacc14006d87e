"""Dense search over the chunks of one state: all of them compared, or by the index file.

In: a state of the store (a snapshot or a write transaction) and a unit vector. In memory, shared by the threads of a
process: vectors read once, and the index file while it has its name. Out: chunks that the state has, best first, in the
order of :mod:`.ranking`. The graph of the file only proposes: what it finds is compared again. What was read at one
state is corrected for every other: chunks that are new are read, and what the state does not have is left out. A file
that cannot be used is as good as none, and the reason is told by SHOW INDEXES.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from ...storage.view import View
from ..counters import Counters
from ..documents.chunks import GROUP, Chunks
from ..documents.documents import Documents
from ..ranking import Ranking, best
from ..vectors.vectors import Ids, Matrix, Vectors, nearest
from .index_file import LoadedFile, being_drafted, path_of
from .indexes import VECTORS, Indexes, IndexRecord, IndexStatus
from .vector_index import Coverage, VectorIndex, covered_further, reach

Part = tuple[Ids, Matrix]

#: How a search was done that compared every chunk.
EXACTLY = "exact cosine over all chunks"
#: Up to so many chunks that may answer are compared one by one, which takes about a millisecond.
_COMPARED = 5_000
#: A search that would walk more of the graph than this share of it compares all vectors instead.
_WALKED = 0.1
#: How far a cosine of the graph's library may be from ours, at most: both add float32, in different orders.
_INEXACT = 1e-4


class ChunkState(Protocol):
    """The parts of one state that a search reads."""

    @property
    def lmdb(self) -> View: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def chunks(self) -> Chunks: ...
    @property
    def documents(self) -> Documents: ...
    @property
    def vectors(self) -> Vectors: ...
    @property
    def indexes(self) -> Indexes: ...


@dataclass(frozen=True)
class _Held:
    """Vectors in memory: those of an index file, or none, and the parts that were read after it."""

    coverage: Coverage
    parts: tuple[Part, ...] = ()
    index: VectorIndex | None = None

    @property
    def rows(self) -> int:
        return sum(len(ids) for ids, _ in self.parts)


class VectorSearch:
    """Dense search for all views of one open store; ``directory`` is where its index file lies.

    ``trusted`` says whether a token stands in the newest record. ``limit`` is the most bytes of vectors that are kept
    in memory for exact search; beyond it they are read every time.
    """

    def __init__(self, directory: Path, dimension: int, trusted: Callable[[bytes], bool], limit: int = 1 << 30) -> None:
        path = path_of(directory, VECTORS)
        self.file = LoadedFile(path, lambda path: VectorIndex.read(path, dimension, trusted))
        self._limit = limit
        self._lock = threading.Lock()
        self._exact: _Held | None = None
        self._indexed: _Held | None = None

    def nearest(
        self, state: ChunkState, query: Matrix, top: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> tuple[Ranking, str]:
        """The ``top`` chunks of largest cosine with ``query``, best first, and how they were found.

        ``allowed`` restricts the chunks (ids, ascending); ``exact`` compares all, whether or not there is an index.
        """
        record = state.indexes.get(VECTORS)
        if not exact and record is not None and uses_file(record, state.counters):
            index = self._index(record)
            if index is not None:
                found = self._by_index(state, index, query, top, allowed, record)
                if found is not None:
                    return found, f"HNSW graph of change {index.change}, what is newer exactly"
        return self._exactly(state, query, top, allowed), EXACTLY

    def status(self, state: ChunkState) -> IndexStatus:
        """How the index stands, as the state sees it."""
        record, change = state.indexes.get(VECTORS), state.counters.change
        if record is None:
            return IndexStatus(VECTORS, "exact", change, 0, "dropped; every chunk is compared")
        if not uses_file(record, state.counters):
            return IndexStatus(
                VECTORS, "exact", change, 0, f"every chunk is compared below {record.count('exact_below'):,}"
            )
        index = self._index(record)
        built = 0 if index is None else index.change
        current = index is not None and (reach(index.coverage, change) or 0) >= _stop(state)
        stale = 0 if current else max(0, change - built)
        if being_drafted(self.file.path):
            return IndexStatus(
                VECTORS, "building", built, stale, "chunks that the last file has not are compared exactly"
            )
        if index is None:
            return self.file.missing(VECTORS, change)
        return IndexStatus(
            VECTORS, "ready", built, stale, f"{len(index.labels):,} vectors; newer chunks are compared exactly"
        )

    def _index(self, record: IndexRecord) -> VectorIndex | None:
        """What the file holds, unless ids were handed out anew since."""
        index = self.file.get()
        return index if index is not None and index.epoch == record.epoch else None

    def _by_index(
        self, state: ChunkState, index: VectorIndex, query: Matrix, top: int, allowed: Ids | None, record: IndexRecord
    ) -> Ranking | None:
        with self._lock:
            held = self._indexed
            if held is None or held.index is not index:
                held = _Held(index.coverage, index=index)
            read = _corrected(state, held)
            if read is None:
                return None
            self._indexed = read[0]
        fresh = [*read[0].parts, *read[1]]
        count = max(record.count("ef_search"), 2 * top)
        if allowed is not None:
            if len(allowed) <= _COMPARED:
                return self._compared(state, index, fresh, query, top, allowed)
            count = max(count, 2 * top * state.counters.chunks // len(allowed))
        while count < max(_WALKED * len(index.graph), 4 * top):
            labels, walked = index.graph.search(query, count)
            if len(labels) < min(count, len(index.graph)):
                break
            last, all_met = float(walked[-1]), len(labels) == len(index.graph)
            if allowed is not None:
                kept = np.isin(labels, allowed)
                labels, walked = labels[kept], walked[kept]
            near = labels[_present(state, labels, walked, top, _INEXACT)]
            rows = index.rows_of(near)
            part = (index.labels[rows], index.vectors[rows])
            found = ranked(state, [part, *fresh], query, top, allowed)
            # What the walk has not met is no nearer than the last that it has.
            if len(found) == top and (all_met or found[-1][1] >= last + _INEXACT):
                return found
            count *= 4
        return self._compared(state, index, fresh, query, top, allowed)

    def _compared(
        self, state: ChunkState, index: VectorIndex, fresh: Sequence[Part], query: Matrix, top: int, allowed: Ids | None
    ) -> Ranking:
        """Search with every vector of the index that may answer compared."""
        if allowed is None:
            part = (index.labels, index.vectors)
        else:
            rows = index.rows_of(allowed)
            part = (index.labels[rows], index.vectors[rows])
        return ranked(state, [part, *fresh], query, top, allowed)

    # Exact search

    def _exactly(self, state: ChunkState, query: Matrix, top: int, allowed: Ids | None) -> Ranking:
        chunks, change = state.counters.chunks, state.counters.change
        with self._lock:
            held = self._exact
            read = None if held is None else _corrected(state, held)
            if read is not None and read[0].rows <= 1.5 * chunks + 1000:
                self._exact = read[0]
                parts = [*read[0].parts, *read[1]]
            else:
                parts = list(state.vectors.scan())
                keep = not state.lmdb.writable and chunks * state.vectors.dimension * 4 <= self._limit
                if parts and keep and (held is None or held.coverage[-1][0] <= change):
                    parts = [_joined(parts)]
                    self._exact = _Held(((change, _stop(state)),), tuple(parts))
        return ranked(state, parts, query, top, allowed)


def uses_file(record: IndexRecord, counters: Counters) -> bool:
    """Whether a store has chunks enough for its index file."""
    return counters.chunks >= max(1, record.count("exact_below"))


def _stop(state: ChunkState) -> int:
    return GROUP * state.counters.next_group


def _corrected(state: ChunkState, held: _Held) -> tuple[_Held, list[Part]] | None:
    """What is held with the chunks after it, and parts that only this state needs; None where it cannot be had."""
    change, stop = state.counters.change, _stop(state)
    start = reach(held.coverage, change)
    if start is None:
        return None
    if start >= stop:
        return held, []
    stored = list(state.chunks.scan(start, stop))
    ids: Ids = np.array([chunk for chunk, _ in stored], np.uint64)
    part = (ids, state.vectors.gather([(record.block, record.row) for _, record in stored]))
    # What a write transaction adds may be rolled back; an older state than the newest says nothing of later chunks.
    if state.lmdb.writable or change < held.coverage[-1][0]:
        return held, [part]
    parts = [*held.parts, part]
    while len(parts) > 1 and len(parts[-2][0]) <= 2 * len(parts[-1][0]):
        parts[-2:] = [_joined(parts[-2:])]
    return replace(held, coverage=covered_further(held.coverage, change, stop), parts=tuple(parts)), []


def _joined(parts: Sequence[Part]) -> Part:
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([matrix for _, matrix in parts])


def ranked(state: ChunkState, parts: Sequence[Part], query: Matrix, top: int, allowed: Ids | None) -> Ranking:
    """The ``top`` chunks of largest cosine among some parts that the state has; every vector is compared."""
    wanted = top + 16
    while True:
        chunks, scores = nearest(parts, query, wanted, allowed)
        all_met = len(chunks) < wanted
        present = _present(state, chunks, scores, top)
        if len(present) >= top or all_met:
            return best(state, chunks[present], scores[present], top)
        wanted *= 4


def _present(state: ChunkState, chunks: Ids, scores: Matrix, top: int, within: float = 0.0) -> list[int]:
    """Of chunks, best first, the places of the first ``top`` that the state has, and of those further ones whose score
    is no further than ``within`` from the last of them; each chunk once: what an older state reads for itself may have
    been read for a newer one."""
    found: dict[int, int] = {}
    least = -np.inf
    for place, (chunk, score) in enumerate(zip(chunks.tolist(), scores.tolist(), strict=True)):
        if score < least:
            break
        if chunk not in found and state.chunks.find(chunk) is not None:
            found[chunk] = place
            if len(found) == top:
                least = score - within
    return list(found.values())
