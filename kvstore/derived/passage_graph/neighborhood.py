"""Requests of a walk to the passage graph: degrees of entities, neighborhoods of nodes, and names of nodes. A *node* is
an entity (its id with the highest bit set) or a chunk (its id). Its *row* has its edges. The *degree* of an entity is
its number of chunks.

In: batches of nodes. Out: rows as they are stored, with the degrees of all nodes that they lead to, so that a step of a
walk needs one request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...retrieval.dense_search import compute_cosines
from ...structures.id_sets import merge_distinct, subtract_ids
from ...structures.indexes.index_reading import bind_index
from ...structures.read_requests import Ids, Matrix, ReadRequest, Vector
from ...structures.state import State
from ..synonyms.synonym_graph import Synonyms
from ..synonyms.synonym_index import SYNONYMS
from .edges import SYNONYM_LINK, ChunkRows, Degrees, EntityRows, LinkRows
from .structure import GRAPH

_ENTITY_BIT = 1 << 63

#: Nodes: entities and chunks in one number space.
Nodes = npt.NDArray[np.uint64]
EntityIds = npt.NDArray[np.uint32]


def make_chunk_node(chunk: int) -> int:
    """Return the node of a chunk: its id."""
    return chunk


def make_entity_node(entity: int) -> int:
    """Return the node of an entity: its id with the highest bit set."""
    return _ENTITY_BIT | entity


def is_entity(node: int) -> bool:
    """True if a node represents an entity (its highest bit is set), False if it represents a chunk."""
    return node >= _ENTITY_BIT


def get_entity(node: int) -> int:
    """Return the id of the entity that a node represents; the node must not represent a chunk."""
    return node ^ _ENTITY_BIT


def mask_entities(nodes: Nodes) -> npt.NDArray[np.bool_]:
    """Return the mask of the nodes that are entities (their highest bit is set), not chunks."""
    return nodes >= np.uint64(_ENTITY_BIT)


def make_entity_nodes(entities: npt.NDArray[np.unsignedinteger]) -> Nodes:
    """Return the nodes of entities: their ids with the highest bit set."""
    return entities | np.uint64(_ENTITY_BIT)


class EntityDegreesRequest(ReadRequest[Degrees]):
    """A request for the degrees of entities: their numbers of chunks, and flags of the entities with links."""

    entities: EntityIds

    def fetch(self, state: State) -> Degrees:
        return state.get_part(GRAPH).read_degrees(self.entities)


class NameDegreesRequest(ReadRequest[list[Degrees]]):
    """A request for the degrees (numbers of chunks) of the entities of some names, in documents the query allows.

    ``entities`` has a group of entities for each name.
    """

    entities: Sequence[Sequence[int]]

    def fetch(self, state: State) -> list[Degrees]:
        all_entities = np.fromiter(chain.from_iterable(self.entities), np.uint32)
        degrees = state.get_part(GRAPH).read_visible_degrees(all_entities)
        ends = np.cumsum(list(map(len, self.entities)))
        return [Degrees(values) for values in np.split(degrees.values, ends)[:-1]]


class NamesInChunksRequest(ReadRequest[EntityIds]):
    """A request for the entities that chunks mention, in the order of the chunks, with repetitions."""

    chunks: Ids

    def fetch(self, state: State) -> EntityIds:
        return state.get_part(GRAPH).read_chunk_rows(self.chunks).entities


class ChunkNeighborhood(NamedTuple):
    """Rows of chunks (the entities they mention), with the degrees of these entities, in the order of the edges."""

    rows: ChunkRows
    degrees: Degrees


class EntityNeighborhood(NamedTuple):
    """Rows of entities with their degrees, their links with the degrees of the other entities, and requested cosines.

    ``cosine_chunks`` are the chunks, ids ascending, whose cosines with the vector of the request are ``cosines``.
    """

    rows: EntityRows
    degrees: Degrees
    links: LinkRows | None
    other_degrees: Degrees | None
    cosine_chunks: Ids
    cosines: Matrix


class Neighborhood(NamedTuple):
    """The rows of the chunks and of the entities among some nodes, each None if there are none."""

    chunks: ChunkNeighborhood | None
    entities: EntityNeighborhood | None


class NeighborhoodRequest(ReadRequest[Neighborhood]):
    """A request for the rows of nodes, with the degrees of their neighbors.

    An entity in more than ``max_chunks`` chunks has an empty row. ``with_links`` requests the links of entities, and
    ``with_synonyms`` links to their synonyms if the store has the index. A unit ``vector`` requests its cosines with
    the chunks of entities, except ``known_chunks`` (ids ascending), whose cosines the caller has. Rows of a kind that
    is not requested are None.
    """

    chunks: Ids
    entities: EntityIds
    max_chunks: int
    with_links: bool
    vector: Vector | None = None
    known_chunks: Ids | None = None
    with_synonyms: bool = False

    def fetch(self, state: State) -> Neighborhood:
        return Neighborhood(
            self._read_chunks(state) if len(self.chunks) else None,
            self._read_entities(state) if len(self.entities) else None,
        )

    def _read_chunks(self, state: State) -> ChunkNeighborhood:
        """Read the rows of the chunks (the entities they mention), and the numbers of chunks of these entities."""
        graph = state.get_part(GRAPH)
        rows = graph.read_chunk_rows(self.chunks)
        return ChunkNeighborhood(rows, graph.read_degrees(rows.entities))

    def _read_entities(self, state: State) -> EntityNeighborhood:
        """Read the chunks and links of the entities, and compute the cosines of these chunks with the vector, if any.

        With ``with_synonyms``, links to synonyms are added. Without any link, the links and their degrees are None. The
        cosines of ``known_chunks`` are not computed again.
        """
        graph = state.get_part(GRAPH)
        degrees = graph.read_degrees(self.entities)
        rows = graph.read_entity_rows(self.entities, degrees, self.max_chunks)
        links = other_degrees = None
        if self.with_links and degrees.has_links.any():
            links = graph.read_link_rows(self.entities[degrees.has_links])
        synonyms = bind_index(state, SYNONYMS) if self.with_synonyms else None
        if synonyms is not None:
            links = _add_synonyms(links, self.entities, synonyms)
        if links is not None:
            other_degrees = graph.read_degrees(links.other_entities)
        cosine_chunks, cosines = self._compute_new_cosines(state, rows.chunks)
        return EntityNeighborhood(
            rows, degrees, links=links, other_degrees=other_degrees, cosine_chunks=cosine_chunks, cosines=cosines
        )

    def _compute_new_cosines(self, state: State, chunks: Ids) -> tuple[Ids, Matrix]:
        """Return the ``chunks`` that are not in ``known_chunks``, and their cosines with the vector of the request.

        Both are empty without a vector.
        """
        no_cosines = np.empty(0, np.float32)
        if self.vector is None:
            return np.empty(0, np.uint64), no_cosines
        new_chunks = chunks if self.known_chunks is None else subtract_ids(chunks, self.known_chunks)
        if not len(new_chunks):
            return new_chunks, no_cosines
        return new_chunks, compute_cosines(state, new_chunks, self.vector)


def _add_synonyms(links: LinkRows | None, entities: EntityIds, synonyms: Synonyms) -> LinkRows | None:
    """Return ``links`` with an additional link of kind ``SYNONYM_LINK`` from each entity to each of its synonyms.

    The result is None if ``links`` is None and no entity has a synonym.
    """
    pairs = [(entity, synonym) for entity in entities.tolist() for synonym, _ in synonyms.list_neighbors(entity)]
    if not pairs:
        return links
    linked_entities, synonym_entities = np.array(pairs, np.uint32).T
    kinds, ones = np.full(len(pairs), SYNONYM_LINK, np.uint8), np.ones(len(pairs), np.uint32)
    synonym_links = LinkRows(linked_entities, synonym_entities, kinds, ones)
    if links is None:
        return synonym_links
    return LinkRows(
        np.concatenate((links.entities, synonym_links.entities)),
        np.concatenate((links.other_entities, synonym_links.other_entities)),
        np.concatenate((links.kinds, synonym_links.kinds)),
        np.concatenate((links.multiplicities, synonym_links.multiplicities)),
    )


class NamedNeighborhoods(NamedTuple):
    """The entity of each requested name, 0 if unknown, and the rows of these entities.

    ``distinct_entities`` are the known entities without repetitions, with their ``degrees``. ``neighborhood`` answers
    ``request``, which excludes entities that too many chunks mention.
    """

    entities: EntityIds
    distinct_entities: EntityIds
    degrees: Degrees
    request: NeighborhoodRequest
    neighborhood: Neighborhood


class NamedNeighborhoodRequest(ReadRequest[NamedNeighborhoods]):
    """A request for the entities of names (normal forms), and for the rows (chunks and links) of these entities.

    ``row_request`` has the parameters of the rows. Rows of entities in more than ``max_chunks`` chunks are not read.
    """

    names: Sequence[str]
    row_request: NeighborhoodRequest
    max_chunks: int

    def fetch(self, state: State) -> NamedNeighborhoods:
        # A filter restricted to the allowed documents would lack names that only imported triples contain.
        entities = state.unrestricted.filter.find_entities(self.names)
        distinct_entities = merge_distinct(entities[entities > 0])  # an unknown name has entity 0
        degrees = state.get_part(GRAPH).read_degrees(distinct_entities)
        request = replace(
            self.row_request,
            chunks=np.empty(0, np.uint64),
            entities=distinct_entities[degrees.total <= self.max_chunks],
        )
        return NamedNeighborhoods(
            entities, distinct_entities, degrees=degrees, request=request, neighborhood=request.fetch(state)
        )


class NodeName(NamedTuple):
    """The name of a node, by which nodes are sorted: entities before chunks.

    ``name`` is the normal form of an entity's name, or the key of a chunk's document. ``ordinal`` is the ordinal of the
    chunk in the document; 0 for an entity.
    """

    is_chunk: bool
    name: str
    ordinal: int


class NodeNamesRequest(ReadRequest[list[NodeName]]):
    """A request for the names of nodes, in the order of ``nodes``. All nodes must exist. The name is the normal form of
    an entity, or the document key and the ordinal of a chunk.
    """

    nodes: Sequence[int]

    def fetch(self, state: State) -> list[NodeName]:
        chunks = [node for node in self.nodes if not is_entity(node)]
        entities = [get_entity(node) for node in self.nodes if is_entity(node)]
        names: dict[int, NodeName] = {}
        for entity, record in zip(entities, state.entities.get_many(entities), strict=True):
            names[make_entity_node(entity)] = NodeName(is_chunk=False, name=record.key, ordinal=0)
        records = state.chunks.get_many(chunks)
        keys = state.documents.get_keys(chunk.document for chunk in records)
        for node, chunk in zip(chunks, records, strict=True):
            names[node] = NodeName(is_chunk=True, name=keys[chunk.document], ordinal=chunk.ordinal)
        return [names[node] for node in self.nodes]
