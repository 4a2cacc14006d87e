"""An in-memory cache of chunk vectors. A *batch* is a pair of chunk ids and their vectors. A *coverage* is a list of
(change, stop) pairs: the cache has every chunk with an id below ``stop`` that the store had at the change number
``change``. It can also have chunks that the reading state lacks.

In: the vectors of one state, read once, and the new vectors of later states. Out: all vectors of a state. Ids only grow
and a chunk never changes, so the cache also has the chunks below ``stop`` of any later state. The other chunks of that
state begin at ``stop``. Deleted chunks stay cached for the states that still have them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .vectors import Ids, Matrix

#: Chunk ids and their vectors.
VectorBatch = tuple[Ids, Matrix]


class CoveredRange(NamedTuple):
    """The chunks with an id below ``stop`` that the store had at the change number ``change``."""

    change: int
    stop: int


#: The chunks that a cache or an index file has; both fields of the ranges are ascending.
CoveredRanges = tuple[CoveredRange, ...]

#: The maximum number of pairs kept; a state older than all of them is searched exactly.
_MAX_COVERAGE_PAIRS = 32


def find_covered_stop(coverage: CoveredRanges, change: int) -> int | None:
    """Return the chunk id below which a cache or file has every chunk of the state at the change number ``change``.

    ``coverage`` are the ranges of chunks that it has. Returns None if they begin after ``change``.
    """
    return next((covered_range.stop for covered_range in reversed(coverage) if covered_range.change <= change), None)


def extend_coverage(coverage: CoveredRanges, change: int, stop: int) -> CoveredRanges:
    """Append a range to ``coverage``, the list of ranges of chunks in a cache or index file, and return the result.

    The range (``change``, ``stop``) says that the file has every chunk with an id below ``stop`` that existed at the
    change number ``change``. Only the newest ranges are kept.
    """
    return (*coverage, CoveredRange(change, stop))[-_MAX_COVERAGE_PAIRS:]


class VectorCacheContent:
    """An immutable version of the content of a :class:`VectorCache`: vectors, and which chunks they include."""

    def __init__(self, coverage: CoveredRanges, batches: tuple[VectorBatch, ...] = ()) -> None:
        """Create the content from ``batches``, pairs of chunk ids and vectors; ``coverage`` describes their chunks."""
        self.coverage = coverage
        self.batches = batches

    def get_many(self, chunks: Ids) -> tuple[Matrix, npt.NDArray[np.bool_]]:
        """Return the vectors of the cached chunks among ``chunks``, in the same order, and a mask of these chunks.

        The vector of a chunk never changes, so the result is valid for any state.
        """
        is_cached = np.zeros(len(chunks), np.bool_)
        dimension = 0
        if self.batches:
            _, first_vectors = self.batches[0]
            dimension = first_vectors.shape[1]
        matrix = np.empty((len(chunks), dimension), np.float32)
        for (ids, vectors), order in zip(self.batches, self._batch_orders, strict=True):
            if not len(ids):
                continue
            positions = np.searchsorted(ids, chunks, sorter=order)
            rows = order[np.minimum(positions, len(ids) - 1)]
            is_in_batch = ids[rows] == chunks
            matrix[is_in_batch] = vectors[rows[is_in_batch]]
            is_cached |= is_in_batch
        return matrix[is_cached], is_cached

    @cached_property
    def _batch_orders(self) -> list[npt.NDArray[np.intp]]:
        """The row numbers of each batch, in order of ascending id."""
        return [np.argsort(ids, kind="stable") for ids, _ in self.batches]

    def extend(self, new_vectors: VectorBatch, change: int, stop: int) -> VectorCacheContent:
        """Return this content with ``new_vectors`` added.

        The result has all chunks with ids below ``stop`` that existed after the commit with the number ``change``.
        """
        batches = [*self.batches, new_vectors]
        # Join batches of similar size, so that their number grows only with the logarithm of the vectors.
        while len(batches) > 1:
            (previous_ids, _), (last_ids, _) = batches[-2:]
            if len(previous_ids) > 2 * len(last_ids):  # not similar
                break
            batches[-2:] = [concatenate_batches(batches[-2:])]
        return VectorCacheContent(extend_coverage(self.coverage, change, stop), tuple(batches))


class VectorCache:
    """The vectors shared by the states of one open store. A thread must hold ``lock`` to change ``vectors``."""

    def __init__(self, vectors: VectorCacheContent | None = None) -> None:
        """Create a cache of these vectors; None for an empty one."""
        self.vectors = vectors
        #: The maximum size in bytes. The vectors of a larger store are not cached, but read for every search.
        self.max_bytes = 1 << 30
        self.lock = threading.Lock()


def concatenate_batches(batches: Sequence[VectorBatch]) -> VectorBatch:
    """Concatenate batches (chunk ids and their vectors) into one."""
    return np.concatenate([ids for ids, _ in batches]), np.concatenate([matrix for _, matrix in batches])
