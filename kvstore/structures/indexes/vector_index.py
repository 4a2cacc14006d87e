"""The index of kind ``vectors``: a graph of chunk vectors, and how far it goes.

In: the chunks of a store. On disk: the graph, and its coverage (see :mod:`..vectors.vector_cache`). Out: candidates for
a query vector, for :mod:`.vector_search` to compare again. Snapshots are held for a batch only.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...storage.index_file import Arrays, FileHead
from ..state import State
from ..vectors.hnsw import GRAPH_OPTIONS, MOST_DEAD, HnswGraph, stored_vectors
from ..vectors.vector_cache import Coverage, HeldVectors, VectorCache, covered_further, reach
from ..vectors.vectors import Ids, Matrix
from .index import BuildTools, Content, FileIndex, IndexRecord, States

#: Chunks that are read in one snapshot, and added between two looks at whether to go on.
_READ, _ADDED = 4096, 128


@dataclass(frozen=True)
class ChunkGraph:
    """A graph of chunk vectors as it was read from its file; ``newer`` are vectors that were read after it."""

    graph: HnswGraph
    labels: Ids
    vectors: Matrix
    coverage: Coverage
    options: Mapping[str, int]
    newer: VectorCache = field(default_factory=VectorCache)

    @property
    def change(self) -> int:
        """The last change whose chunks were added."""
        return self.coverage[-1][0]

    def rows_of(self, chunks: Ids) -> npt.NDArray[np.intp]:
        """The rows of those chunks that are in the graph."""
        order, labels = self._order
        places = np.minimum(np.searchsorted(labels, chunks), len(labels) - 1)
        rows: npt.NDArray[np.intp] = order[places[labels[places] == chunks]]
        return rows

    @cached_property
    def _order(self) -> tuple[npt.NDArray[np.intp], Ids]:
        order = np.argsort(self.labels)
        return order, self.labels[order]


class VectorIndex(FileIndex[ChunkGraph, ChunkGraph]):
    """A graph of near neighbours (HNSW) for dense search in large stores."""

    name = "vectors"
    description = "a graph of near neighbours (HNSW) for dense search in large stores"
    automatic = True
    building = "chunks that the last file has not are compared exactly"
    options: Mapping[str, Option] = {
        "exact_below": Option(20_000, 0, 1e9, "with fewer chunks every one is compared, and there is no file"),
        "extend_after": Option(5_000, 1, 1e9, "chunks that may be new before they are added in the background"),
        "ef_search": Option(400, 10, 10_000, "candidates kept during a search; more find more, and take longer"),
        **GRAPH_OPTIONS,
    }

    def build(self, states: States, old: ChunkGraph | None, record: IndexRecord, tools: BuildTools) -> Content | None:
        """The chunks of ``old``, unless too many of them are no more, and those after them."""
        options = record.counts(GRAPH_OPTIONS)
        with states() as state:
            graph: HnswGraph | None = None
            coverage: Coverage = ()
            total = state.counters.chunks
            if old is not None and old.options == options:
                lacking = sum(1 for _ in state.chunks.scan(old.coverage[-1][1]))
                alive = total - lacking
                if len(old.labels) - alive <= MOST_DEAD * len(old.labels):
                    graph, coverage, total = old.graph, old.coverage, lacking
            dimension, end = state.settings.dimension, state.counters.next_chunk
        start = coverage[-1][1] if coverage else 0
        if start >= end and coverage:
            return None
        if graph is None:
            graph = HnswGraph.new(dimension, **options)
        coverage = _grow(graph, coverage, states, start, end, total, tools)
        if not coverage:
            return None
        numbers, arrays = graph.parts()
        head = {"options": options, "coverage": [list(pair) for pair in coverage], "numbers": numbers}
        return Content(head, arrays)

    def read(self, arrays: Arrays, head: FileHead) -> ChunkGraph:
        labels, vectors = stored_vectors(head["numbers"], arrays)
        coverage = tuple((int(change), int(stop)) for change, stop in head["coverage"])
        newer = VectorCache(HeldVectors(coverage))
        return ChunkGraph(
            HnswGraph.restored(head["numbers"], arrays), labels, vectors, coverage, head["options"], newer
        )

    def bound(self, read: ChunkGraph, record: IndexRecord, state: State) -> ChunkGraph:
        """The graph: what it proposes is looked up in the state, see :mod:`.vector_search`."""
        return read

    def describe(self, read: ChunkGraph) -> str:
        return f"{len(read.labels):,} vectors; newer chunks are compared exactly"

    def lag(self, read: ChunkGraph, state: State) -> int:
        """Nothing while no chunk is new: what was deleted is no lag."""
        covered = reach(read.coverage, state.counters.change) or 0
        return 0 if covered >= state.counters.next_chunk else super().lag(read, state)

    def without_file(self, record: IndexRecord | None, state: State) -> str | None:
        if record is None:
            return "dropped; every chunk is compared"
        least = record.count("exact_below")
        return f"every chunk is compared below {least:,}" if state.counters.chunks < max(1, least) else None

    def extended_from(self, head: FileHead | None, record: IndexRecord, state: State) -> int:
        lacking = sum(1 for _ in state.chunks.scan(0 if head is None else head["coverage"][-1][1]))
        return state.counters.next_chunk + record.count("extend_after") - lacking


def _grow(
    graph: HnswGraph, coverage: Coverage, states: States, start: int, end: int, total: int, tools: BuildTools
) -> Coverage:
    """Add the chunks with ``start`` <= id < ``end``, or until it is cancelled; what the graph covers then."""
    covered, done = coverage, 0
    while start < end:
        with states() as state:
            change = state.counters.change
            stored = list(itertools.islice(state.chunks.scan(start, end), _READ))
            matrix = state.vectors.gather([(chunk.block, chunk.row) for _, chunk in stored])
        chunks = np.array([chunk for chunk, _ in stored], np.uint64)
        for first in range(0, len(chunks), _ADDED):
            graph.add(chunks[first : first + _ADDED], matrix[first : first + _ADDED])
            added = min(first + _ADDED, len(chunks))
            tools.progress(done + added, total)
            if tools.cancelled():
                return covered_further(coverage, change, int(chunks[added - 1]) + 1)
        done += len(chunks)
        start = int(chunks[-1]) + 1 if len(chunks) == _READ else end
        # Each batch is as of its own state, and all of them hold what is there at the last.
        covered = covered_further(coverage, change, start)
    return covered


#: The one that dense search asks for.
VECTORS = VectorIndex()
