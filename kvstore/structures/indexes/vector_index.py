"""The index of kind ``vectors``: HNSW graphs of the vectors of chunks, for dense search in large stores. A *segment* is
one graph, a *part* of the index file. A *row* is the quantized vector of a chunk. The *coverage* has (change, stop)
pairs: all chunks with ids below stop at that change number.

On disk: the segments, and their coverage (see :mod:`..vectors.vector_cache`). Each segment has its rows in order of the
chunk ids, with links between near ones if there are many. New chunks become a segment, merged with the last segments
while these are less than :data:`_GROWTH_FACTOR` times as large. The number of segments, and the number of times a chunk
is written, therefore grow with the logarithm of the chunks (the logarithmic method, Bentley and Saxe 1980). A snapshot
is held for one batch at a time. :mod:`.vector_search` searches the segments.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...arguments import Choice, Option
from ...errors import IndexUnavailableError
from ...process.frozen_dataclass import frozen_dataclass
from ...storage.index_file import FileHead, FilePart
from ...storage.view import WriteView
from ..state import State
from ..vectors.hnsw import (
    CHECKED_IN_PLACE,
    GRAPH_OPTIONS,
    MAX_DELETED_SHARE,
    CodedRows,
    HnswBuilder,
    HnswGraph,
    make_unlinked_graph,
)
from ..vectors.vector_cache import (
    CoveredRange,
    CoveredRanges,
    VectorCache,
    VectorCacheContent,
    extend_coverage,
    find_covered_stop,
)
from .index import BuildTools, FileIndex, IndexContent, IndexRecord, States

if TYPE_CHECKING:
    from ..vectors.hnswlib_builder import HnswlibBuilder

#: The number of chunks read in one snapshot, and of chunks linked between two checks for cancellation.
_READ_BATCH, _LINK_BATCH = 4096, 128
#: The value of the ``engine`` option for graphs built by hnswlib.
_HNSWLIB = "hnswlib"
#: The options that determine the graphs of a file.
_BuildOptions = Mapping[str, int | str]
#: A segment is merged with later ones if it is less than this many times as large as they are together.
_GROWTH_FACTOR = 2


@frozen_dataclass
class ChunkSegments:
    """The content of a file of the ``vectors`` index: its segments in order of the chunks, their ``parts`` (files), and
    their coverage. ``newer_vectors`` caches vectors of chunks added after the file was built.
    """

    segments: Sequence[HnswGraph]
    parts: Sequence[FilePart]
    coverage: CoveredRanges
    options: _BuildOptions
    newer_vectors: VectorCache = field(default_factory=VectorCache)

    @property
    def change(self) -> int:
        """The number of the last change of the store whose chunks the index file has."""
        return self.coverage[-1].change

    @property
    def stop(self) -> int:
        """The chunk id below which the index file has all chunks."""
        return self.coverage[-1].stop

    def __len__(self) -> int:
        """Return the number of vectors in all segments."""
        return sum(map(len, self.segments))


class _MergePlan(NamedTuple):
    """A plan for the next index file: which parts of the old file it takes over, and which it merges.

    A part has the codes (quantized vectors) of some chunks. ``merged_rows`` are the codes of the parts to merge, and
    ``base`` is the graph of the first of them if its links can be reused. ``coverage`` describes the chunks in these
    and in the ``unchanged_parts``. ``old_parts`` are all parts of the old file, which stay if the build is cancelled.
    """

    unchanged_parts: Sequence[FilePart] = ()
    merged_rows: Sequence[CodedRows] = ()
    base: HnswGraph | None = None
    coverage: CoveredRanges = ()
    old_parts: Sequence[FilePart] = ()


#: The number of new chunks from which a file is extended in the background.
_EXTEND_AFTER = 5_000


class VectorIndex(FileIndex[ChunkSegments, ChunkSegments]):
    """Graphs of near neighbors (HNSW) for dense search in large stores."""

    name = "vectors"
    description = "graphs of near neighbors (HNSW) for dense search in large stores"
    automatic = True
    building_detail = "chunks that are missing from the previous file are compared exactly"
    checked_in_place = CHECKED_IN_PLACE
    options: Mapping[str, Option | Choice] = {
        "engine": Choice("builtin", ("builtin", _HNSWLIB), "builder of the graphs; both engines write the same format"),
        "exact_below": Option(20_000, 0, 1e9, "with fewer chunks, a search compares all of them and needs no file"),
        "ef_search": Option(400, 10, 10_000, "number of candidates in a search; more are more accurate, but slower"),
        **GRAPH_OPTIONS,
    }

    def prepare_record(self, record: IndexRecord, view: WriteView) -> IndexRecord:
        """Check that the engine of a new index is installed, and return its record unchanged.

        Raises MissingExtraError if it is not installed.
        """
        if record.get_str_option("engine") == _HNSWLIB:
            from ..vectors.hnswlib_builder import import_hnswlib

            import_hnswlib()  # raises now, and not during a build in the background
        return record

    def build(
        self, states: States, old: ChunkSegments | None, record: IndexRecord, tools: BuildTools
    ) -> IndexContent | None:
        """Build the next file from the chunks of the old file and the new chunks; return None if nothing is new.

        ``states`` opens the newest state, and ``old`` is the content of the old file (None: no file). A row is the
        quantized vector of a chunk. A cancelled build keeps the rows linked so far. If no new row is linked, it adds
        the new rows without links to the old file, or returns None without an old file.
        """
        options: dict[str, int | str] = {**record.get_int_options(("exact_below", *GRAPH_OPTIONS))}
        if record.get_str_option("engine") == _HNSWLIB:  # a file of the default engine has no such entry
            options["engine"] = _HNSWLIB
        with states() as state:
            end = state.counters.next_chunk
            plan = _plan_merge(state, old, options)
        if plan is None:
            return None
        new_rows, coverage = _read_new_rows(states, plan.coverage, end, tools.is_cancelled)
        file_parts = list(plan.unchanged_parts)
        num_merged = sum(len(rows.labels) for rows in plan.merged_rows)
        num_new = sum(len(rows.labels) for rows in new_rows)
        if num_merged + num_new:
            rows = CodedRows.concatenate([*plan.merged_rows, *new_rows])
            del new_rows  # so that the codes are not in memory twice
            graph = _build_graph(rows, plan.base, options, tools)
            if len(graph) < num_merged + num_new:  # the build was cancelled
                if len(graph) > num_merged:  # keep the new rows that are linked
                    last_linked_chunk = int(graph.rows.labels[-1])
                    coverage = extend_coverage(plan.coverage, coverage[-1].change, last_linked_chunk + 1)
                elif num_new and plan.old_parts:  # keep the old file, and add the new rows without links
                    file_parts, graph = list(plan.old_parts), make_unlinked_graph(rows.select(slice(num_merged, None)))
                else:
                    return None
            file_parts.append(FilePart({"entry": graph.entry_row, "rows": len(graph)}, graph.arrays))
        if not file_parts:
            return None
        head = {
            "options": options,
            "coverage": [[covered_range.change, covered_range.stop] for covered_range in coverage],
        }
        num_rows = np.array([file_part.head["rows"] for file_part in file_parts], np.uint64)
        return IndexContent(head, {"rows": num_rows}, file_parts)

    def read(self, stored_content: IndexContent) -> ChunkSegments:
        """Return the segments (HNSW graphs) of an index file, with an empty cache for vectors of chunks added later.

        ``stored_content`` is the file's header, arrays and parts. Raises IndexUnavailableError if a segment does not
        have the number of vectors that the header of the file specifies.
        """
        coverage = tuple(CoveredRange(int(change), int(stop)) for change, stop in stored_content.head["coverage"])
        segments = [HnswGraph(part.arrays, part.head["entry"]) for part in stored_content.parts]
        if list(map(len, segments)) != stored_content.arrays["rows"].tolist():
            raise IndexUnavailableError("the parts of the index do not contain the number of vectors in its header")
        newer_vectors = VectorCache(VectorCacheContent(coverage))  # empty; for chunks that are not covered
        return ChunkSegments(
            segments,
            stored_content.parts,
            coverage=coverage,
            options=stored_content.head["options"],
            newer_vectors=newer_vectors,
        )

    def bind(self, content: ChunkSegments, record: IndexRecord, state: State) -> ChunkSegments:
        """Return the segments (graphs of vectors) unchanged; the search looks up their candidates in the state."""
        return content

    def describe(self, content: ChunkSegments) -> str:
        """Describe the size of the index, such as "25,000 vectors in 2 segments", for SHOW INDEXES."""
        segments = f"{len(content.segments)} segment" + ("" if len(content.segments) == 1 else "s")
        return f"{len(content):,} vectors in {segments}; newer chunks are compared exactly"

    def compute_lag(self, content: ChunkSegments, state: State) -> int:
        """Return the number of changes by which the index file lags behind ``state``; 0 if it has all of its chunks.

        It is 0 even if the file also has chunks that were deleted since.
        """
        # 0 if the whole file is newer than the state.
        covered_stop = find_covered_stop(content.coverage, state.counters.change) or 0
        return 0 if covered_stop >= state.counters.next_chunk else super().compute_lag(content, state)

    def explain_exact_search(self, record: IndexRecord | None, state: State) -> str | None:
        """Return why a state is searched exactly, or None if it has enough chunks to need an index file.

        ``record`` is the record of the index (None: it was dropped).
        """
        if record is None:
            return "dropped; every chunk is compared"
        min_chunks = record.get_int_option("exact_below")
        if state.counters.chunks < max(1, min_chunks):
            return f"every chunk is compared if there are fewer than {min_chunks:,}"
        return None

    def compute_next_check(self, record: IndexRecord | None, state: State) -> int:
        """Return the chunk id at which to check again if a store that needs no index file yet needs one.

        It is at most ``_EXTEND_AFTER`` ids ahead, because another process may change the options of the index.
        ``record`` is the record of the index (None: it was dropped).
        """
        if record is None:  # the index was dropped, but can be created again
            return state.counters.next_chunk + _EXTEND_AFTER
        num_until_needed = record.get_int_option("exact_below") - state.counters.chunks
        return state.counters.next_chunk + min(num_until_needed, _EXTEND_AFTER)

    def compute_extension_start(self, head: FileHead | None, record: IndexRecord, state: State) -> int:
        """Return the next chunk id at which ``_EXTEND_AFTER`` chunks will be missing from the file.

        ``head`` is the header of the file, or None if there is no file.
        """
        covered_stop = 0
        if head is not None:
            _, covered_stop = head["coverage"][-1]  # the change number, and the id below which the file has all chunks
        num_missing = sum(1 for _ in state.chunks.scan(covered_stop))
        return state.counters.next_chunk + _EXTEND_AFTER - num_missing


def _plan_merge(state: State, old_segments: ChunkSegments | None, options: _BuildOptions) -> _MergePlan | None:
    """Decide which segments of the index file the next file reuses, merges or drops; return None if nothing is new.

    A segment is a graph of the vectors of some chunks. Segments to be merged are verified. If one is damaged, no part
    of the file is reused.
    """
    if old_segments is None:
        return _MergePlan()
    num_new = sum(1 for _ in state.chunks.scan(old_segments.stop))
    num_live = state.counters.chunks - num_new  # chunks of the file that still exist
    num_deleted = len(old_segments) - num_live
    must_rebuild = old_segments.options != options or num_deleted > MAX_DELETED_SHARE * len(old_segments)
    if old_segments.stop >= state.counters.next_chunk and not must_rebuild:
        return None
    num_unchanged = 0 if must_rebuild else _count_unchanged(old_segments.segments, num_new)
    merged_segments = old_segments.segments[num_unchanged:]
    try:
        for segment in merged_segments:
            segment.verify()
    except IndexUnavailableError:
        return _MergePlan()
    rows = [segment.rows for segment in merged_segments]
    if not must_rebuild:
        base = merged_segments[0] if merged_segments and merged_segments[0].is_linked else None
        return _MergePlan(
            old_segments.parts[:num_unchanged],
            rows,
            base=base,
            coverage=old_segments.coverage,
            old_parts=old_segments.parts,
        )
    stored_ids = np.array([chunk for chunk, _ in state.chunks.scan(0, old_segments.stop)], np.uint64)
    live_rows = [segment.select(np.isin(segment.labels, stored_ids)) for segment in rows]
    return _MergePlan(merged_rows=live_rows, coverage=(CoveredRange(state.counters.change, old_segments.stop),))


def _count_unchanged(segments: Sequence[HnswGraph], num_new: int) -> int:
    """Return how many of the first ``segments`` are not merged with ``num_new`` new vectors.

    From the last one on, a segment is merged while it is less than _GROWTH_FACTOR times as large as all that is merged.
    """
    num_unchanged, merged_size = len(segments), num_new
    while num_unchanged:
        last_size = len(segments[num_unchanged - 1])
        if last_size >= _GROWTH_FACTOR * merged_size:
            break
        num_unchanged -= 1
        merged_size += last_size
    return num_unchanged


def _read_new_rows(
    states: States, coverage: CoveredRanges, end: int, is_cancelled: Callable[[], bool]
) -> tuple[list[CodedRows], CoveredRanges]:
    """Read the quantized vectors of the chunks below ``end`` that an index file lacks; stop if cancelled.

    ``coverage`` are the ranges of chunks that the file has. Returns the vectors in batches, and the ranges of chunks
    that the file has together with them.
    """
    new_coverage = coverage
    batches: list[CodedRows] = []
    covered_stop = coverage[-1].stop if coverage else 0
    for change, stop, rows in _iter_new_rows(states, covered_stop, end):
        # A chunk that exists at the last change was read at it or before, so the last range covers all batches.
        new_coverage = extend_coverage(coverage, change, stop)
        batches.append(rows)
        if is_cancelled():
            break
    return batches, new_coverage


def _iter_new_rows(states: States, start: int, end: int) -> Iterator[tuple[int, int, CodedRows]]:
    """Yield the quantized vectors of the chunks with ``start`` <= id < ``end`` in batches.

    Each batch is (change number, end, rows): the rows have the chunks below the id ``end`` that exist at that change.
    """
    while start < end:
        with states() as state:
            change = state.counters.change
            stored_chunks = list(itertools.islice(state.chunks.scan(start, end), _READ_BATCH))
            matrix = state.vectors.gather([(chunk.block, chunk.row) for _, chunk in stored_chunks])
        labels = np.array([chunk for chunk, _ in stored_chunks], np.uint64)
        # Each batch reflects its own state. A chunk that exists in the last state exists in all of them.
        start = int(labels[-1]) + 1 if len(stored_chunks) == _READ_BATCH else end
        yield change, start, CodedRows.from_vectors(labels, matrix)


def _build_graph(rows: CodedRows, base: HnswGraph | None, options: _BuildOptions, tools: BuildTools) -> HnswGraph:
    """Return the HNSW graph of the rows, or of the first rows if the build is cancelled before all are linked.

    Fewer rows than the option ``exact_below`` are not linked: a search compares all of them. ``base`` is the graph of
    the first rows, which is extended; if it is None, or the engine is hnswlib, every row is linked.
    """
    total = len(rows.labels)
    if total < int(options["exact_below"]):
        tools.progress(total, total)
        return make_unlinked_graph(rows)
    graph_options = {name: int(options[name]) for name in GRAPH_OPTIONS}
    builder: HnswBuilder | HnswlibBuilder
    if options.get("engine") == _HNSWLIB:  # links every row again
        from ..vectors.hnswlib_builder import HnswlibBuilder

        builder = HnswlibBuilder(rows, **graph_options)
    else:
        builder = HnswBuilder(rows, base, **graph_options)
    while builder.link_nodes(_LINK_BATCH):
        tools.progress(builder.num_linked, total)
        if tools.is_cancelled():
            break
    tools.progress(builder.num_linked, total)
    return builder.build_graph()


#: The instance that dense search uses.
VECTOR_INDEX = VectorIndex()
