"""Neighbors of an entity: the names with the strongest connection to it in the stored graph. Aliases of an entity are
entities too; *display entities* map each to the entity under whose name it is shown.

In: one state and a name. Out: :class:`Neighbour` rows, strongest first, from three sources: the names directly above or
below the entity in a tree, the entities linked with it, and the names in the same chunks.

The score of two names is c / sqrt(d · d'), as in the graph of communities
(:mod:`kvstore.systems.graphrag.entity_graph`). Here c is the number of chunks that mention both plus the weights of
their links, and d and d' are the numbers of chunks that mention each.

Only the rows of the entity and of its chunks are read, so the cost depends on the number of its chunks and not on the
store's size. A chunk mentions the names in its text and in the title and the headings above it. Chunks that mention a
name only in lower case do not count, unless the entity has no others. Names of the same entity are merged under the
entity's name. Equal scores are ordered by fewer chunks, then by normal form.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from ...registry.contract import RELATION_LINK, TRIPLE_LINK
from ...rendering.columnar import Columnar, NamedRows
from ...structures.display_entities import DisplayEntities, load_display_entities
from ...structures.filter import addresses
from ...structures.names.aliases import Identity
from ...structures.state import State
from .edges import NO_CHUNK_LIMIT, TITLE_LINK, UInt64Array, mask_informative
from .graph import CHUNKS_PER_BATCH, PassageGraph
from .neighborhood import EntityIds
from .structure import GRAPH

#: The number of shared chunks that a link is worth.
LINK_WEIGHTS = {TITLE_LINK: 1, TRIPLE_LINK: 3, RELATION_LINK: 3}
#: Names of the kinds of links that are not edges of a tree.
_LINK_NAMES = {TITLE_LINK: "title", TRIPLE_LINK: "triple"}

_COLUMNS = ("entity", "name", "score", "passages", "above", "below", "links", "document", "chunk")
_TYPES = ("TEXT", "TEXT", "REAL", "INTEGER", "JSON", "JSON", "JSON", "TEXT", "INTEGER")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A name connected with ``entity``.

    ``above`` and ``below`` are the trees in which it is directly above or below the entity. ``links`` are the other
    connections: ``title`` (a title, and the same title without the bracket at its end), ``triple`` (imported or
    extracted for a document). ``passages`` is the number of chunks that mention both. ``document`` and ``chunk`` are
    the first such chunk by document key and ordinal, or None.
    """

    entity: str
    name: str
    score: float
    passages: int
    above: tuple[str, ...]
    below: tuple[str, ...]
    links: tuple[str, ...]
    document: str | None
    chunk: int | None


class Neighbours(Columnar, list[Neighbour]):
    """Neighbors of an entity, strongest first."""

    def _get_named_rows(self) -> NamedRows:
        """Return the names of the columns, the values of each neighbor, and the SQL types of the columns."""
        return _COLUMNS, [[*astuple(neighbor)] for neighbor in self], _TYPES

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook."""
        from ...rendering.markup import render_table

        # Without the first column, the entity itself, which is the same in all rows.
        return render_table(_COLUMNS[1:], [astuple(neighbor)[1:] for neighbor in self])


def find_neighbors(state: State, identity: Identity, limit: int) -> Neighbours:
    """Return at most ``limit`` neighbors of a known entity: names in the same chunks, or connected by links or trees.

    ``identity`` is the entity with its aliases. The neighbor with the highest score comes first. A score is the number
    of shared chunks plus the weight of the links, divided by √(d · d'). Here d and d' are the numbers of chunks of the
    two entities.
    """
    graph, display_entities = state.get_part(GRAPH), load_display_entities(state)
    # A name and its aliases are separate entities; only one of them is shown.
    own_entities = np.array(sorted(identity.entity_ids), np.uint32)
    entity = identity.entry.entity
    chunks = _list_chunks(graph, own_entities)
    named_entities, chunk_indexes = _list_cooccurrences(graph, display_entities, chunks, entity)
    link_weights, links = _collect_links(graph, display_entities, own_entities, entity)
    trees_above, trees_below = _collect_trees(state, display_entities, identity)
    joined_entities = np.array(sorted({*link_weights, *trees_above, *trees_below} - {entity}), np.uint32)
    candidates = np.union1d(named_entities, joined_entities)
    if not len(candidates):
        return Neighbours()
    shared_counts = np.bincount(np.searchsorted(candidates, named_entities), minlength=len(candidates))
    joint_weights = shared_counts + np.array([link_weights.get(candidate, 0) for candidate in candidates.tolist()])
    counts = _count_chunks(graph, display_entities, candidates)
    # Rounded, so that scores that are displayed as equal are equal.
    scores = np.round(joint_weights / np.sqrt(np.maximum(counts, 1) * max(len(chunks), 1)), 6)
    ranked_candidates = _rank_candidates(state, candidates, scores, counts, limit)  # (index in ``candidates``, name)
    shared_chunks = {
        int(candidates[index]): chunks[chunk_indexes[named_entities == candidates[index]]]
        for index, _ in ranked_candidates
    }
    first_chunks = _find_first_chunks(state, shared_chunks)
    name = state.entities.get(entity).name
    neighbors = Neighbours()
    for index, display_name in ranked_candidates:
        candidate = int(candidates[index])
        document, chunk = first_chunks.get(candidate, (None, None))
        trees = tuple(sorted(trees_above[candidate])), tuple(sorted(trees_below[candidate]))
        link_names = tuple(sorted(links[candidate]))
        score, passages = float(scores[index]), int(shared_counts[index])
        neighbors.append(Neighbour(name, display_name, score, passages, *trees, link_names, document, chunk))
    return neighbors


def _rank_candidates(
    state: State, candidates: EntityIds, scores: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], limit: int
) -> list[tuple[int, str]]:
    """Return the index and the name of at most ``limit`` candidates with the highest scores, best first.

    ``scores`` and ``counts`` have the score and the number of chunks of each candidate. Candidates with equal scores
    are sorted by fewer chunks, then by key (normal form).
    """
    min_score = np.sort(scores)[max(0, len(scores) - limit)]
    selected_indexes = np.flatnonzero(scores >= min_score)
    records = state.entities.get_many(candidates[selected_indexes].tolist())
    ranked_candidates = sorted(
        (-scores[index], counts[index], record.key, index, record.name)
        for index, record in zip(selected_indexes.tolist(), records, strict=True)
    )
    return [(index, name) for *_, index, name in ranked_candidates[:limit]]


def _list_chunks(graph: PassageGraph, entities: EntityIds) -> UInt64Array:
    """Return the chunks that mention at least one of the entities, ascending.

    Chunks that mention the entities only in lower case are omitted, unless there are no others.
    """
    _, chunks, mention_bits = graph.read_entity_rows(entities, graph.read_degrees(entities), NO_CHUNK_LIMIT)
    is_informative = mask_informative(mention_bits)
    return np.unique(chunks[is_informative] if is_informative.any() else chunks)


def _list_cooccurrences(
    graph: PassageGraph, display_entities: DisplayEntities, chunks: UInt64Array, entity: int
) -> tuple[EntityIds, npt.NDArray[np.int64]]:
    """Return the other entities that ``chunks`` mention, as two arrays: an entity, and the index of a chunk.

    Pairs are distinct, and ``entity`` itself is omitted. An alias counts as the entity that it is displayed as. Chunks
    that mention an entity only in lower case are ignored, since they often use its name as an ordinary word.
    """
    # An entity and the index of a chunk are packed into one number, so that np.unique drops duplicate pairs.
    code_arrays = [np.empty(0, np.int64)]
    for start in range(0, len(chunks), CHUNKS_PER_BATCH):
        bounds, entities, mention_bits = graph.read_chunk_rows(chunks[start : start + CHUNKS_PER_BATCH])
        chunk_indexes = np.repeat(np.arange(start, start + len(bounds) - 1), np.diff(bounds))
        is_informative = mask_informative(mention_bits)
        other_entities = display_entities.resolve(entities[is_informative])
        codes = other_entities.astype(np.int64) << 32 | chunk_indexes[is_informative]
        code_arrays.append(np.unique(codes[other_entities != entity]))
    all_codes = np.concatenate(code_arrays)
    return (all_codes >> 32).astype(np.uint32), all_codes & 0xFFFFFFFF


def _collect_links(
    graph: PassageGraph, display_entities: DisplayEntities, own_entities: EntityIds, entity: int
) -> tuple[dict[int, int], defaultdict[int, set[str]]]:
    """Return two maps from each entity linked with ``entity``: the total weight of the links, and their kinds by name.

    ``own_entities`` are the entity and its aliases. An alias counts as the entity that it is displayed as. Links that
    are edges of trees have a weight, but no name.
    """
    weights: dict[int, int] = {}
    names: defaultdict[int, set[str]] = defaultdict(set)
    _, linked_entities, kinds, multiplicities = graph.read_link_rows(own_entities)
    other_entities = display_entities.resolve(linked_entities).tolist()
    for other_entity, kind, multiplicity in zip(other_entities, kinds.tolist(), multiplicities.tolist(), strict=True):
        if other_entity == entity:
            continue
        weights[other_entity] = weights.get(other_entity, 0) + LINK_WEIGHTS[kind] * multiplicity
        if kind in _LINK_NAMES:
            names[other_entity].add(_LINK_NAMES[kind])
    return weights, names


_TreesByEntity = defaultdict[int, set[str]]


def _collect_trees(
    state: State, display_entities: DisplayEntities, identity: Identity
) -> tuple[_TreesByEntity, _TreesByEntity]:
    """Return the parents and the children of an entity in trees, as two maps from an entity to the names of the trees.

    ``identity`` is the entity with its names and aliases. An alias counts as the entity that it is displayed as.
    """
    trees_above: _TreesByEntity = defaultdict(set)
    trees_below: _TreesByEntity = defaultdict(set)
    forest, own_entity = state.forest, identity.entry.entity
    names: dict[int, str] = {}
    for rank, node in map(addresses.split_address, state.find_addresses(identity).tolist()):
        if rank != addresses.NODE_RANK:
            break  # addresses of tree nodes come first
        tree = forest.get_node(node).tree
        if tree not in names:
            names[tree] = forest.get_tree_name(tree)
        for neighbor_nodes, trees_by_entity in (
            (forest.iter_parents(node), trees_above),
            (forest.iter_children(node), trees_below),
        ):
            for neighbor_node in neighbor_nodes:
                neighbor = display_entities.resolve_entity(forest.get_node(neighbor_node).entity)
                if neighbor != own_entity:
                    trees_by_entity[neighbor].add(names[tree])
    return trees_above, trees_below


def _count_chunks(graph: PassageGraph, display_entities: DisplayEntities, entities: EntityIds) -> npt.NDArray[np.int64]:
    """Return the number of chunks that mention each entity or an alias of it, in the order of ``entities``.

    Chunks that mention it only in lower case count only if there are no others.
    """
    degrees = graph.read_degrees(entities)
    counts = np.where(degrees.informative > 0, degrees.informative, degrees.total)
    shown_entities = display_entities.shown_entities
    for index, entity in enumerate(entities.tolist()):
        if entity in shown_entities:  # it has aliases, which are merged into it
            merged_entities = np.array(sorted(display_entities.list_merged_entities(entity)), np.uint32)
            counts[index] = len(_list_chunks(graph, merged_entities))
    return counts


def _find_first_chunks(state: State, chunks: dict[int, UInt64Array]) -> dict[int, tuple[str, int]]:
    """Return, by entity, the document key and the ordinal of the first of its chunks.

    ``chunks`` has the chunks of each entity; entities without chunks are omitted.
    """
    all_chunks = np.unique(np.concatenate([*chunks.values(), np.empty(0, np.uint64)])).astype(np.uint64)
    # The sort key of a chunk is its document key and its id.
    sort_keys = dict(zip(all_chunks.tolist(), state.get_sort_keys(all_chunks.tolist()), strict=True))
    first_keys = {
        entity: min(sort_keys[chunk] for chunk in entity_chunks.tolist())
        for entity, entity_chunks in chunks.items()
        if len(entity_chunks)
    }
    records = state.chunks.get_many([chunk for _, chunk in first_keys.values()])
    first_items = zip(first_keys.items(), records, strict=True)
    return {entity: (document_key, record.ordinal) for (entity, (document_key, _)), record in first_items}
