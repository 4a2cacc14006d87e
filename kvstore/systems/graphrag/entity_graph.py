"""The graph for community detection: entities, the strength of their relations, and the chunks that mention them. A
*node* is an entity, given by its index in order of names. A *mention* is a chunk and a node; its *bits* say how the
chunk mentions it. A *degree* is a node's number of chunks.

In: a state, through the stored graph of chunks and entities. Out: an :class:`EntityGraph`, a function of documents,
edges and aliases. Entities are sorted by normal form, chunks by document key and ordinal. Weights are integers, and
every truncation is by weight, with ties broken by that order.

A node is an entity with 2 to :data:`MAX_NODE_CHUNKS` chunks, not counting chunks that only mention it in lower case.
All names of one entity are one node. An entity with one chunk belongs with that chunk, and nothing distinguishes the
names of a chunk that occur nowhere else. An entity with very many chunks is uninformative. Two nodes are connected by
the chunks that mention both, and by links. The weight is c / sqrt(d · d'), which depends only on the two nodes, so a
document only changes the weights of the names it mentions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...derived.passage_graph.edges import CAPITALIZED, INSIDE, INSIDE_SHIFT, TITLE_PART, TITLE_WHOLE, mask_informative
from ...derived.passage_graph.graph import PassageGraph
from ...derived.passage_graph.neighbors import LINK_WEIGHTS
from ...derived.passage_graph.structure import GRAPH
from ...structures.clustering.affinity import FIXED_ONE, Edges, IntArray, select_strongest_edges
from ...structures.display_entities import DisplayEntities, load_display_entities
from ...structures.state import State

#: The minimum and maximum number of chunks of an entity that is a node.
MIN_NODE_CHUNKS, MAX_NODE_CHUNKS = 2, 200
#: The maximum number of edges of each node, the strongest ones; an edge stays if either end selects it.
MAX_NODE_EDGES = 10
#: The maximum number of nodes that one chunk connects, the rarest ones: names in a long list are not closely related.
_MAX_CHUNK_NODES = 64
#: The strength that a mention in the title adds, as much as 19 mentions in the text.
_TITLE_STRENGTH = 3.0
#: The number of chunks read, and of pairs gathered, at a time.
_CHUNK_BATCH_SIZE, _PAIR_BATCH_SIZE = 4096, 1 << 21


@dataclass(frozen=True)
class EntityGraph:
    """Entities and the chunks that mention them. Chunk ``mention_chunks[i]`` mentions node ``mention_nodes[i]`` with
    ``mention_bits[i]``; chunks and nodes are indexes, and mentions are sorted by chunk, then node. ``entities`` (ids)
    are the nodes, ``keys`` their normal forms, and ``chunks`` the chunk ids.

    ``documents`` is the document of each chunk, numbered in order of keys. ``edges`` has an edge if it is among the
    strongest of either end.
    """

    entities: npt.NDArray[np.uint32]
    keys: list[str]
    chunks: npt.NDArray[np.uint64]
    documents: IntArray
    mention_chunks: IntArray
    mention_nodes: IntArray
    mention_bits: npt.NDArray[np.uint16]
    edges: Edges

    @cached_property
    def degrees(self) -> IntArray:
        """The number of chunks of each node."""
        return np.bincount(self.mention_nodes, minlength=len(self.entities)).astype(np.int64)

    @cached_property
    def strengths(self) -> npt.NDArray[np.float64]:
        """The strength of each mention: it grows with the number of occurrences, and is greatest in a title."""
        return compute_strengths(self.mention_bits)


def compute_strengths(mention_bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float64]:
    """Return how strongly chunks mention entities, from the ``mention_bits`` of their edges in the passage graph.

    It is ln(1 + mentions with a capital + half of the mentions inside longer names), plus a bonus in a title.
    """
    # Some of the bits are counts: of the mentions inside longer names, and (the lowest bits) of those with a capital.
    bits = mention_bits.astype(np.int64)
    inside_counts = (bits & INSIDE) >> INSIDE_SHIFT
    strengths: npt.NDArray[np.float64] = np.log1p((bits & CAPITALIZED) + 0.5 * inside_counts)
    strengths[(bits & (TITLE_WHOLE | TITLE_PART)) != 0] += _TITLE_STRENGTH
    return strengths


def build_entity_graph(state: State) -> EntityGraph:
    """Build the graph of a store's entities: which chunks mention them, and edges for co-occurrences and links."""
    graph = build_mention_graph(state)
    degrees = graph.degrees
    links = _sum_links(state.get_part(GRAPH), load_display_entities(state), graph.entities)
    edges = compute_edge_weights(
        len(graph.keys), _sum_cooccurrences(graph.mention_chunks, graph.mention_nodes, degrees), links, degrees
    )
    return replace(graph, edges=edges)


def build_mention_graph(state: State) -> EntityGraph:
    """Build the entity graph of a store with its mentions (which chunks mention which entities), but without edges."""
    passage_graph = state.get_part(GRAPH)
    chunks, documents = _list_chunks(state)
    mention_chunks, entities, mention_bits = _read_mentions(passage_graph, chunks)
    entities = load_display_entities(state).resolve(entities)  # an alias counts as the entity it refers to
    mention_chunks, entities, mention_bits = _merge_mentions(mention_chunks, entities, mention_bits)
    known_entities = set(np.unique(entities).tolist())
    names = [(key, entity) for key, entity in state.entities.iter_names() if entity in known_entities]  # sorted
    keys, node_entities = [key for key, _ in names], np.array([entity for _, entity in names], np.uint32)
    mention_nodes = _find_nodes(entities, node_entities)
    order = np.argsort(mention_chunks * len(keys) + mention_nodes, kind="stable")  # by chunk, then node
    mention_chunks, mention_nodes, mention_bits = mention_chunks[order], mention_nodes[order], mention_bits[order]
    return EntityGraph(
        entities=node_entities,
        keys=keys,
        chunks=chunks,
        documents=documents,
        mention_chunks=mention_chunks,
        mention_nodes=mention_nodes,
        mention_bits=mention_bits,
        edges=_sum_edges(len(keys), []),  # no edges
    )


class NodeMentionReader:
    """A reader of the positions at which chunks mention the nodes of a graph.

    Chunks are given by their index in ``graph.chunks``.
    """

    def __init__(self, state: State, graph: EntityGraph, display: DisplayEntities) -> None:
        """Create a reader of the mentions in ``state``; ``display`` replaces an alias by the entity it refers to."""
        self._state, self._graph, self._display = state, graph, display
        #: Offsets into the graph's mentions, which are sorted by chunk: those of chunk i are ``starts[i]`` up to
        #: ``starts[i + 1]``.
        self._starts: list[int] = graph.mention_chunks.searchsorted(range(len(graph.chunks) + 1)).tolist()

    def list_mentions(self, chunk_index: int) -> list[tuple[int, int, int]]:
        """Return the mentions of nodes in a chunk as (node, start, end), in bytes from the start of the chunk."""
        graph = self._graph
        first, stop = self._starts[chunk_index : chunk_index + 2]
        if first == stop:
            return []
        nodes_by_entity = {int(graph.entities[node]): node for node in graph.mention_nodes[first:stop].tolist()}
        mentions = []
        for entity, start, length in self._state.mentions.get_occurrences(int(graph.chunks[chunk_index])):
            node = nodes_by_entity.get(self._display.resolve_entity(entity))
            if node is not None:
                mentions.append((node, start, start + length))
        return mentions


def _list_chunks(state: State) -> tuple[npt.NDArray[np.uint64], IntArray]:
    """Return all chunks by document key and ordinal, and the index of each chunk's document in order of keys."""
    records = sorted(state.documents.scan(), key=lambda record: record.key)
    groups = [list(record.chunk_ids()) for record in records]
    chunks = np.array([chunk for group in groups for chunk in group], np.uint64)
    return chunks, np.repeat(np.arange(len(groups)), [len(group) for group in groups])


#: Parallel arrays of mentions: index of the chunk, id of the entity, mention bits (how the chunk mentions it).
_MentionArrays = tuple[IntArray, npt.NDArray[np.uint32], npt.NDArray[np.uint16]]


def _read_mentions(passage_graph: PassageGraph, chunks: npt.NDArray[np.uint64]) -> _MentionArrays:
    """Return the mentions of entities in chunks as arrays: chunk index, entity, and mention bits.

    The bits say how the chunk mentions the entity. Mentions only in lower case are omitted.
    """
    batches: list[_MentionArrays] = [(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint16))]
    order = np.argsort(chunks, kind="stable")  # rows are read in order of chunk ids
    for first in range(0, len(chunks), _CHUNK_BATCH_SIZE):
        chunk_indexes = order[first : first + _CHUNK_BATCH_SIZE]
        bounds, entities, mention_bits = passage_graph.read_chunk_rows(chunks[chunk_indexes])
        mention_chunks = np.repeat(chunk_indexes, np.diff(bounds))
        is_informative = mask_informative(mention_bits)
        batches.append((mention_chunks[is_informative], entities[is_informative], mention_bits[is_informative]))
    mention_chunks, entities, mention_bits = (np.concatenate(column) for column in zip(*batches, strict=True))
    return mention_chunks, entities, mention_bits


def _merge_mentions(
    mention_chunks: IntArray, entities: npt.NDArray[np.uint32], mention_bits: npt.NDArray[np.uint16]
) -> _MentionArrays:
    """Merge the mentions of an entity in a chunk, and drop entities with too few or too many chunks to be nodes.

    Chunk ``mention_chunks[i]`` mentions ``entities[i]`` with ``mention_bits[i]``, which say how (in the title, with a
    capital, how often). A merged mention has the greatest of their bits as a number, which describes the most prominent
    mention. The result, three such arrays, is sorted by chunk and entity.
    """
    # A chunk and an entity (a 32-bit integer) are packed into one number, so that sorting groups equal pairs.
    codes = mention_chunks << 32 | entities.astype(np.int64)
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    starts = find_group_starts(codes)
    mention_bits = np.maximum.reduceat(mention_bits[order], starts)
    codes = codes[starts]
    mention_chunks, entities = codes >> 32, (codes & 0xFFFFFFFF).astype(np.uint32)
    _, entity_indexes, chunk_counts = np.unique(entities, return_inverse=True, return_counts=True)
    is_node = ((chunk_counts >= MIN_NODE_CHUNKS) & (chunk_counts <= MAX_NODE_CHUNKS))[entity_indexes]
    return mention_chunks[is_node], entities[is_node], mention_bits[is_node]


def find_group_starts(sorted_numbers: IntArray) -> IntArray:
    """Return the index at which each group of equal numbers begins."""
    is_start = np.ones(len(sorted_numbers), np.bool_)
    is_start[1:] = sorted_numbers[1:] != sorted_numbers[:-1]
    return np.flatnonzero(is_start)


def _sum_cooccurrences(mention_chunks: IntArray, mention_nodes: IntArray, degrees: IntArray) -> Edges:
    """Return the pairs of nodes mentioned in the same chunk, weighted by the number of such chunks.

    Chunk ``mention_chunks[i]`` mentions node ``mention_nodes[i]``, sorted by chunk and node. ``degrees`` has the number
    of chunks of each node. A chunk with more than :data:`_MAX_CHUNK_NODES` nodes connects only the rarest of them.
    """
    num_nodes = len(degrees)
    pending_codes: list[IntArray] = []  # a pair of nodes is first * num_nodes + second
    code_counts: list[tuple[IntArray, IntArray]] = []
    num_pending = 0
    for chunk_nodes in _iter_groups_by_size(mention_chunks, mention_nodes, degrees):
        first_columns, second_columns = np.triu_indices(chunk_nodes.shape[1], 1)  # all pairs of two columns
        batch_size = max(1, _PAIR_BATCH_SIZE // len(first_columns))
        for start in range(0, len(chunk_nodes), batch_size):
            batch = chunk_nodes[start : start + batch_size]
            pending_codes.append((batch[:, first_columns] * num_nodes + batch[:, second_columns]).ravel())
            num_pending += pending_codes[-1].size
            if num_pending > _PAIR_BATCH_SIZE:  # count equal pairs before all are collected, to save memory
                code_counts.append(np.unique(np.concatenate(pending_codes), return_counts=True))
                pending_codes, num_pending = [], 0
    if pending_codes:
        code_counts.append(np.unique(np.concatenate(pending_codes), return_counts=True))
    return _sum_edges(num_nodes, code_counts)


def _iter_groups_by_size(mention_chunks: IntArray, mention_nodes: IntArray, degrees: IntArray) -> Iterator[IntArray]:
    """Yield an array for each number of nodes from 2: the nodes of the chunks with that number, shape (chunks, nodes).

    Chunk ``mention_chunks[i]`` mentions node ``mention_nodes[i]``, sorted by chunk and node, and ``degrees`` has the
    number of chunks of each node. If a chunk has more than :data:`_MAX_CHUNK_NODES` nodes, only the rarest are
    included.
    """
    starts = find_group_starts(mention_chunks)  # the first mention of each chunk
    sizes = np.diff(starts, append=len(mention_chunks))
    is_long = sizes > _MAX_CHUNK_NODES
    rarest_nodes: list[IntArray] = []  # of each chunk with too many nodes
    for start, size in zip(starts[is_long], sizes[is_long], strict=True):
        nodes = mention_nodes[start : start + size]
        rarest_first = nodes[np.lexsort((nodes, degrees[nodes]))]
        rarest_nodes.append(np.sort(rarest_first[:_MAX_CHUNK_NODES]))
    nodes_by_size: dict[int, list[IntArray]] = {}
    for size in np.unique(sizes[~is_long]).tolist():
        starts_of_size = starts[sizes == size]
        nodes_by_size[size] = [mention_nodes[starts_of_size[:, None] + np.arange(size)]]
    if rarest_nodes:
        nodes_by_size.setdefault(_MAX_CHUNK_NODES, []).append(np.stack(rarest_nodes))
    for size, node_arrays in sorted(nodes_by_size.items()):
        if size > 1:
            yield np.concatenate(node_arrays)


def _sum_links(passage_graph: PassageGraph, display: DisplayEntities, node_entities: npt.NDArray[np.uint32]) -> Edges:
    """Return the pairs of nodes connected by links between entities, weighted by the kinds and numbers of the links.

    ``node_entities`` has the entity of each node. ``display`` replaces an alias at the end of a link by its entity.
    """
    links = [
        (entity, link.other, LINK_WEIGHTS[link.kind] * link.multiplicity) for entity, link in passage_graph.iter_links()
    ]
    if not links or not len(node_entities):
        return _sum_edges(len(node_entities), [])
    first_ends, second_ends, weights = (np.array(column, np.int64) for column in zip(*links, strict=True))
    ends = display.resolve(np.concatenate((first_ends, second_ends)).astype(np.uint32))
    first_nodes, second_nodes = np.split(_find_nodes(ends, node_entities), 2)
    # Each of the two entities stores a link; it is counted once, and not at all if one of them is unknown (-1).
    is_counted = (first_nodes >= 0) & (first_nodes < second_nodes)
    codes = first_nodes[is_counted] * len(node_entities) + second_nodes[is_counted]
    return _sum_edges(len(node_entities), [(codes, weights[is_counted])])


def _find_nodes(entities: npt.NDArray[np.uint32], node_entities: npt.NDArray[np.uint32]) -> IntArray:
    """Return the node of each entity, its index in ``node_entities``, or -1 for an entity that is not a node."""
    order = np.argsort(node_entities)
    sorted_entities = node_entities[order]
    indexes = np.minimum(np.searchsorted(sorted_entities, entities), len(sorted_entities) - 1)
    return np.where(sorted_entities[indexes] == entities, order[indexes], -1)


def _sum_edges(num_nodes: int, weighted_codes: list[tuple[IntArray, IntArray]]) -> Edges:
    """Build edges of ``num_nodes`` nodes, summing the weights of equal pairs.

    ``weighted_codes`` are pairs of parallel arrays, codes and weights. The code of a pair of nodes is first * num_nodes
    + second.
    """
    if not weighted_codes:
        empty = np.empty(0, np.int64)
        return Edges(empty, empty, empty)
    all_codes = np.concatenate([codes for codes, _ in weighted_codes])
    codes, code_indexes = np.unique(all_codes, return_inverse=True)
    sums = np.zeros(len(codes), np.int64)
    np.add.at(sums, code_indexes, np.concatenate([weights for _, weights in weighted_codes]))
    return Edges(codes // num_nodes, codes % num_nodes, sums)


def compute_edge_weights(num_nodes: int, cooccurrences: Edges, links: Edges, degrees: IntArray) -> Edges:
    """Return the strongest edges of each of ``num_nodes`` nodes, normalized by the degrees of both ends.

    The weight of an edge is the sum of its weights in ``cooccurrences`` and ``links``, divided by the square root of
    the product of the ends' degrees. Weights are integers in units of 2^-16.
    """
    nonempty_edges = (edges for edges in (cooccurrences, links) if len(edges.first))
    coded_edges = [(edges.first * num_nodes + edges.second, edges.weights) for edges in nonempty_edges]
    summed_edges = _sum_edges(num_nodes, coded_edges)
    chunk_counts = degrees.astype(np.float64)
    # sqrt and division are correctly rounded, so the integer is the same on every platform.
    degree_norms = np.sqrt(chunk_counts[summed_edges.first] * chunk_counts[summed_edges.second])
    weights = np.maximum(np.rint(FIXED_ONE * summed_edges.weights / degree_norms).astype(np.int64), 1)
    return select_strongest_edges(num_nodes, summed_edges._replace(weights=weights), MAX_NODE_EDGES)
