"""Vectors of chunks in memory, as far as they were read.

In: vectors of one state, read once, and those of later states. Out: all that a state of some change number has, and
perhaps more. What is held is described by a coverage, a list of (change, stop): every chunk with an id below ``stop``
that the store had at ``change`` is held. Ids only grow and a chunk never changes, so what is there at a later state too
is held as well; the rest begins at ``stop``. Chunks that are no more stay, for the states that still have them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .vectors import Ids, Matrix

#: Ids of chunks and their vectors.
VectorPart = tuple[Ids, Matrix]
#: (change, stop) pairs, both ascending.
ChangeRanges = tuple[tuple[int, int], ...]

#: Pairs kept; a state older than all of them is searched exactly.
_MAX_COVERAGE_PAIRS = 32


def find_covered_stop(coverage: ChangeRanges, change: int) -> int | None:
    """The id up to which a coverage holds what the store had at ``change``; None where it begins later."""
    return next((stop for covered_change, stop in reversed(coverage) if covered_change <= change), None)


def extend_coverage(coverage: ChangeRanges, change: int, stop: int) -> ChangeRanges:
    """A coverage to which the chunks below ``stop`` were added, as they were at ``change``."""
    return (*coverage, (change, stop))[-_MAX_COVERAGE_PAIRS:]


@dataclass(frozen=True)
class CachedVectors:
    """Vectors in memory, and how far they go."""

    coverage: ChangeRanges
    parts: tuple[VectorPart, ...] = ()

    def get_many(self, chunks: Ids) -> tuple[Matrix, npt.NDArray[np.bool_]]:
        """The vectors of those of some chunks that are held, in their order, and which those are. A chunk has the same
        vector as long as there is one, so it does not matter how far a state is."""
        is_cached = np.zeros(len(chunks), np.bool_)
        matrix = np.empty((len(chunks), self.parts[0][1].shape[1] if self.parts else 0), np.float32)
        for (ids, vectors), order in zip(self.parts, self._part_orders, strict=True):
            positions = np.searchsorted(ids, chunks, sorter=order)
            rows = order[np.minimum(positions, len(ids) - 1)] if len(ids) else positions
            is_in_part = (ids[rows] == chunks) if len(ids) else np.zeros(len(chunks), np.bool_)
            matrix[is_in_part] = vectors[rows[is_in_part]]
            is_cached |= is_in_part
        return matrix[is_cached], is_cached

    @cached_property
    def _part_orders(self) -> list[npt.NDArray[np.intp]]:
        """Of each part its rows in order of the ids."""
        return [np.argsort(ids, kind="stable") for ids, _ in self.parts]

    def extend(self, part: VectorPart, change: int, stop: int) -> CachedVectors:
        """These and those that were new at ``change``."""
        parts = [*self.parts, part]
        while len(parts) > 1 and len(parts[-2][0]) <= 2 * len(parts[-1][0]):
            parts[-2:] = [join_parts(parts[-2:])]
        return CachedVectors(extend_coverage(self.coverage, change, stop), tuple(parts))


@dataclass
class VectorCache:
    """The vectors that the states of one open store share; whoever changes ``vectors`` has the lock.

    ``limit`` is the most bytes that are held; beyond it they are read every time.
    """

    vectors: CachedVectors | None = None
    limit: int = 1 << 30
    lock: threading.Lock = field(default_factory=threading.Lock)


def join_parts(parts: Sequence[VectorPart]) -> VectorPart:
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([matrix for _, matrix in parts])
