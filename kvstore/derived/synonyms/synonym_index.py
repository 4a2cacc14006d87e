"""The build and refresh of the index of kind ``synonyms``: pairs of names with nearly the same meaning. The *row* of a
name is its number in the index. A search graph over the vectors of names (HNSW) finds the pairs.

In: the names of a store's entities, and its embedder. Out: the content of the index file, see :mod:`.synonym_graph`. A
name is embedded once, in the form that the store shows; vectors of earlier builds are kept. The graph finds the pairs,
so their number and the time grow linearly with the number of names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import Option, format_count
from ...structures.indexes.index import BuildTools, FileIndex, IndexContent, IndexRecord, States
from ...structures.state import State
from ...structures.vectors.hnsw import GRAPH_OPTIONS, MAX_DELETED_SHARE, CodedRows, HnswBuilder, HnswGraph
from ...structures.vectors.vectors import Matrix, cosines
from .synonym_graph import MIN_CANDIDATES, EntityIds, SynonymGraph, Synonyms

#: Names embedded, and names added to the graph, between two reports of progress.
_EMBED_BATCH, _GRAPH_BATCH = 256, 512
#: The arrays of the file, without the arrays of the graph.
_COLUMNS = ("vectors", "entities", "digests", "first", "second", "cosines")

#: The maximum number of synonyms of a name, the nearest.
_MAX_SYNONYMS = 32
_GRAPH_OPTIONS = {name: int(option.default) for name, option in GRAPH_OPTIONS.items()}


class _SynonymPairs(NamedTuple):
    """Pairs of rows of names with nearly the same meaning, and the cosine of each pair; arrays of the same length."""

    first: EntityIds
    second: EntityIds
    cosines: Matrix


_NO_PAIRS = _SynonymPairs(np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0, np.float32))


class SynonymIndex(FileIndex[SynonymGraph, Synonyms]):
    """The index of names of entities with nearly the same meaning."""

    name = "synonyms"
    description = "vectors of the names of entities, and the pairs of names with nearly the same meaning"
    options: Mapping[str, Option] = {"similarity": Option(0.8, 0.3, 1, "the minimum cosine of two synonyms")}

    def build(self, states: States, old: SynonymGraph | None, record: IndexRecord, tools: BuildTools) -> IndexContent:
        """Build the content of the index file from the names of all entities.

        ``states()`` opens a snapshot of the store, and ``tools`` embeds names and reports progress. The graph and the
        pairs of the ``old`` file (None: no file) are extended. If the options changed, or too many names in the file
        were removed or changed, only its vectors are reused. Each new name counts as two steps of progress: embedding
        it, and finding its neighbors.
        """
        with states() as state:
            change, dimension = state.counters.change, state.settings.dimension
            names = {entity: stored.name for entity, stored in state.entities.scan()}
        digests = {entity: _hash_name(name) for entity, name in names.items()}
        similarity = record.get_float_option("similarity")
        options = {"similarity": similarity, "neighbours": _MAX_SYNONYMS, **_GRAPH_OPTIONS}
        reused_rows = _reuse_rows(old, options, digests, dimension)
        new_entities = sorted(names.keys() - set(reused_rows.entities.tolist()))
        start = 0 if reused_rows.graph is None else len(reused_rows.vectors)  # the first row to add to the graph
        steps = 2 * len(new_entities) + len(reused_rows.vectors) - start
        new_vectors = _embed_names([names[entity] for entity in new_entities], steps, tools)
        vectors = np.concatenate([reused_rows.vectors, *new_vectors])
        entities = np.concatenate([reused_rows.entities, np.array(new_entities, np.uint32)])
        graph = _build_graph(vectors, reused_rows.graph, start)
        new_pairs = _find_new_pairs(
            graph, vectors, entities, start, similarity, lambda done: tools.progress(len(new_entities) + done, steps)
        )
        tools.progress(steps, steps)
        row_digests = np.array([digests.get(entity, 0) for entity in entities.tolist()], np.uint64)
        column_values = (vectors, entities, row_digests, *_symmetrize_pairs([reused_rows.pairs, *new_pairs]))
        columns: dict[str, npt.NDArray[Any]] = dict(zip(_COLUMNS, column_values, strict=True))
        head = {"options": options, "change": change, "entry": graph.entry_row}
        return IndexContent(head, {**graph.arrays, **columns})

    def read(self, stored_content: IndexContent) -> SynonymGraph:
        """Return the graph of names in an index file, given its header and arrays."""
        head, arrays = stored_content.head, stored_content.arrays
        return SynonymGraph(
            graph=HnswGraph(arrays, head["entry"]),
            change=head["change"],
            options=head["options"],
            **{name: arrays[name] for name in _COLUMNS},
        )

    def bind(self, content: SynonymGraph, record: IndexRecord, state: State) -> Synonyms:
        """Return the synonyms in an index, limited to the entities that still exist in ``state``."""
        return Synonyms(content, state.entities)

    def describe(self, content: SynonymGraph) -> str:
        """Return a summary for SHOW INDEXES, such as "12 names, 5 pairs"."""
        # A deleted name has entity 0, and each pair is stored in both directions.
        num_names, num_pairs = int(np.count_nonzero(content.entities)), len(content.first) // 2
        return f"{format_count(num_names, 'name')}, {format_count(num_pairs, 'pair')}"


class _ReusedRows(NamedTuple):
    """The first rows of a new file, which an old file has too: names and their vectors, and the pairs among them.

    ``graph`` is the search graph of these rows, to be extended (None: build a new one).
    """

    entities: EntityIds
    vectors: Matrix
    pairs: _SynonymPairs
    graph: HnswGraph | None


def _reuse_rows(
    old_graph: SynonymGraph | None, options: Mapping[str, Any], digests: Mapping[int, int], dimension: int
) -> _ReusedRows:
    """Return the rows of the old file that can be reused; no rows without an old file (None).

    ``digests`` are the digests of the current names, and ``dimension`` is the length of a vector. If the options
    changed, or too many names were removed or changed, only the rows of unchanged names are reused, without pairs or
    the graph. Otherwise, rows of removed and changed names stay, with entity 0, because the graph refers to them.
    """
    if old_graph is None:
        return _ReusedRows(np.empty(0, np.uint32), np.empty((0, dimension), np.float32), _NO_PAIRS, graph=None)
    old_names = zip(old_graph.entities.tolist(), old_graph.digests.tolist(), strict=True)
    is_unchanged = np.array([digests.get(entity) == digest for entity, digest in old_names], np.bool_)
    entities = np.where(is_unchanged, old_graph.entities, 0).astype(np.uint32)
    num_outdated = len(is_unchanged) - is_unchanged.sum()
    if old_graph.options != options or num_outdated > MAX_DELETED_SHARE * len(is_unchanged):
        return _ReusedRows(entities[is_unchanged], old_graph.vectors[is_unchanged], _NO_PAIRS, graph=None)
    is_pair_unchanged = is_unchanged[old_graph.first] & is_unchanged[old_graph.second]
    pairs = _SynonymPairs(
        old_graph.first[is_pair_unchanged], old_graph.second[is_pair_unchanged], old_graph.cosines[is_pair_unchanged]
    )
    return _ReusedRows(entities, old_graph.vectors, pairs, old_graph.graph)


def _build_graph(vectors: Matrix, base_graph: HnswGraph | None, start: int) -> HnswGraph:
    """Return the graph of all vectors: ``base_graph`` (None: empty) with the rows from ``start`` on added."""
    coded_rows = [] if base_graph is None else [base_graph.rows]
    coded_rows.append(CodedRows.from_vectors(np.arange(start, len(vectors), dtype=np.uint64), vectors[start:]))
    builder = HnswBuilder(CodedRows.concatenate(coded_rows), base_graph, **_GRAPH_OPTIONS)
    while builder.link_nodes(_GRAPH_BATCH):
        pass
    return builder.build_graph()


def _embed_names(names: Sequence[str], steps: int, tools: BuildTools) -> list[Matrix]:
    """Embed names in batches, report the progress out of ``steps``, and return the vectors of each batch."""
    matrices = []
    for start in range(0, len(names), _EMBED_BATCH):
        matrices.append(tools.embed(names[start : start + _EMBED_BATCH]))
        tools.progress(min(start + _EMBED_BATCH, len(names)), steps)
    return matrices


def _hash_name(name: str) -> int:
    """Return a 64-bit digest of a name as it is written, by which a changed spelling is detected."""
    import hashlib  # imported here because it loads all of OpenSSL, and only building the index needs it

    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def _find_new_pairs(
    graph: HnswGraph,
    vectors: Matrix,
    entities: EntityIds,
    start: int,
    similarity: float,
    report_progress: Callable[[int], None],
) -> list[_SynonymPairs]:
    """Return the pairs of each row from ``start`` on; report the number of rows done after each batch of rows."""
    pairs_by_row = []
    for row in range(start, len(vectors)):
        pairs_by_row.append(_find_near_rows(graph, vectors, row, entities, similarity))
        if len(pairs_by_row) % _GRAPH_BATCH == 0:
            report_progress(len(pairs_by_row))
    return pairs_by_row


def _find_near_rows(
    graph: HnswGraph, vectors: Matrix, row: int, entities: EntityIds, similarity: float
) -> _SynonymPairs:
    """Return a name's pairs: its ``row`` with the row and the cosine of each of the nearest names, nearest first.

    The cosines are at least ``similarity``. At most ``_MAX_SYNONYMS`` pairs are returned, without rows of deleted names
    (entity 0). ``entities`` has the entity of each row.
    """
    other_rows = graph.find_nearest(vectors[row], max(MIN_CANDIDATES, 2 * _MAX_SYNONYMS)).labels.astype(np.uint32)
    # The graph only proposes rows: their cosines are computed exactly.
    scores = cosines(vectors[other_rows], vectors[row])
    order = np.lexsort((other_rows, -scores))
    other_rows, scores = other_rows[order], scores[order]
    is_synonym = (scores >= similarity) & (other_rows != row) & (entities[other_rows] != 0)
    other_rows, scores = other_rows[is_synonym][:_MAX_SYNONYMS], scores[is_synonym][:_MAX_SYNONYMS]
    return _SynonymPairs(np.full(len(other_rows), row, np.uint32), other_rows, scores)


def _symmetrize_pairs(pair_groups: Sequence[_SynonymPairs]) -> _SynonymPairs:
    """Return all pairs of synonyms in both directions, without duplicates, in order of the first row, then the second.

    A row is the number of a name in the index.
    """
    first, second, cosines = (np.concatenate(column) for column in zip(*pair_groups, strict=True))
    # Both rows of a pair in one number, so that sorting the numbers sorts the pairs.
    pair_codes = np.concatenate([first, second]).astype(np.uint64) << np.uint64(32) | np.concatenate([second, first])
    distinct_codes, indexes = np.unique(pair_codes, return_index=True)
    return _SynonymPairs(
        (distinct_codes >> np.uint64(32)).astype(np.uint32),
        (distinct_codes & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        np.concatenate([cosines, cosines])[indexes],
    )


#: The index that strategies ask for.
SYNONYMS = SynonymIndex()
