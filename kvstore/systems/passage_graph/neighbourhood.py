"""What a walk asks of the passage graph: degrees of entities, whole neighbourhoods of nodes, and what nodes are called.

In: nodes, many at a time: an entity's number with the highest bit set, or a chunk's id. Out: rows as they are stored,
with what is known of all that they lead to, so that a step of a walk asks once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...retrieval.dense_search import compute_cosines
from ...structures.id_sets import subtract_ids
from ...structures.reading import Ids, Matrix, ReadRequest
from ...structures.state import State
from .edges import ChunkRows, Degrees, EntityRows, LinkRows
from .graph import StoredDegrees
from .structure import GRAPH

_ENTITY_BIT = 1 << 63

#: Nodes: entities and chunks in one space of numbers.
Nodes = npt.NDArray[np.uint64]
EntityNumbers = npt.NDArray[np.uint32]


def make_chunk_node(chunk: int) -> int:
    """The node of a chunk."""
    return chunk


def make_entity_node(entity: int) -> int:
    """The node of an entity."""
    return _ENTITY_BIT | entity


def is_entity(node: int) -> bool:
    """Whether a node is that of an entity; else it is a chunk's id."""
    return node >= _ENTITY_BIT


def get_entity(node: int) -> int:
    """The entity of a node that is one's."""
    return node ^ _ENTITY_BIT


def mask_entities(nodes: Nodes) -> npt.NDArray[np.bool_]:
    """Which nodes are those of entities."""
    return nodes >= np.uint64(_ENTITY_BIT)


def make_entity_nodes(entities: npt.NDArray[np.unsignedinteger]) -> Nodes:
    """The nodes of entities."""
    return entities | np.uint64(_ENTITY_BIT)


@dataclass(frozen=True, slots=True)
class EntityDegrees(ReadRequest[Degrees]):
    """How many chunks each of some entities has."""

    entities: EntityNumbers

    def fetch(self, state: State) -> Degrees:
        return state.get_part(GRAPH).read_degrees(self.entities)


@dataclass(frozen=True, slots=True)
class NameDegrees(ReadRequest[list[Degrees]]):
    """How many chunks the entities of each of some names have."""

    entities: Sequence[Sequence[int]]

    def fetch(self, state: State) -> list[Degrees]:
        values = (
            state.get_part(GRAPH)
            .read_visible_degrees(np.fromiter(chain.from_iterable(self.entities), np.uint32))
            .values
        )
        ends = np.cumsum(list(map(len, self.entities)))
        return [StoredDegrees(name_values) for name_values in np.split(values, ends)[:-1]]


@dataclass(frozen=True, slots=True)
class NamedEntities(ReadRequest[EntityNumbers]):
    """The entities of names (normal forms) that a document in sight has, 0 for one that is not known."""

    names: Sequence[str]

    def fetch(self, state: State) -> EntityNumbers:
        # A name that only an imported triple has is found at no place of its own.
        return state.unrestricted.filter.find_many(self.names)


@dataclass(frozen=True, slots=True)
class NamesInChunks(ReadRequest[EntityNumbers]):
    """The entities that chunks name."""

    chunks: Ids

    def fetch(self, state: State) -> EntityNumbers:
        return state.get_part(GRAPH).read_chunk_rows(self.chunks).entities


class ChunkSurroundings(NamedTuple):
    """Rows of chunks, with the degrees of the entities they name."""

    rows: ChunkRows
    degrees: Degrees


class EntitySurroundings(NamedTuple):
    """Rows of entities with their degrees; their links with the degrees of the others; and the cosines of chunks that
    were asked for, ids ascending."""

    rows: EntityRows
    degrees: Degrees
    links: LinkRows | None
    linked: Degrees | None
    compared: Ids
    cosines: Matrix


class Surroundings(NamedTuple):
    """The rows of the chunks and of the entities among some nodes, where there are such."""

    chunks: ChunkSurroundings | None
    entities: EntitySurroundings | None


@dataclass(frozen=True, slots=True)
class Neighbourhood(ReadRequest[Surroundings]):
    """The rows of nodes, with what is known of their neighbours.

    An entity in more than ``max_chunks`` chunks has an empty row. ``with_links`` asks for the links of entities; with a unit
    ``vector`` come its cosines with the chunks of entities, those ``compared`` before (ids ascending) left out.
    """

    chunks: Ids
    entities: EntityNumbers
    max_chunks: int
    with_links: bool
    vector: Matrix | None = None
    compared: Ids | None = None

    def fetch(self, state: State) -> Surroundings:
        return Surroundings(
            self._read_chunks(state) if len(self.chunks) else None,
            self._read_entities(state) if len(self.entities) else None,
        )

    def _read_chunks(self, state: State) -> ChunkSurroundings:
        graph = state.get_part(GRAPH)
        rows = graph.read_chunk_rows(self.chunks)
        return ChunkSurroundings(rows, graph.read_degrees(rows.entities))

    def _read_entities(self, state: State) -> EntitySurroundings:
        graph = state.get_part(GRAPH)
        degrees = graph.read_degrees(self.entities)
        rows = graph.read_entity_rows(self.entities, degrees, self.max_chunks)
        links = linked = None
        if self.with_links and degrees.linked.any():
            links = graph.read_link_rows(self.entities[degrees.linked])
            linked = graph.read_degrees(links.others)
        compared, cosines = np.empty(0, np.uint64), np.empty(0, np.float32)
        if self.vector is not None:
            compared = rows.chunks if self.compared is None else subtract_ids(rows.chunks, self.compared)
            cosines = compute_cosines(state, compared, self.vector) if len(compared) else cosines
        return EntitySurroundings(rows, degrees, links, linked, compared, cosines)


#: What a node is called, so that names order nodes: an entity before a chunk, by its normal form; a chunk by the key of
#: its document and its number there.
NodeName = tuple[bool, str, int]


@dataclass(frozen=True, slots=True)
class NodeNames(ReadRequest[list[NodeName]]):
    """What nodes are called, each of which must exist."""

    nodes: Sequence[int]

    def fetch(self, state: State) -> list[NodeName]:
        chunks = [node for node in self.nodes if not is_entity(node)]
        entities = [get_entity(node) for node in self.nodes if is_entity(node)]
        names: dict[int, NodeName] = {}
        for entity, record in zip(entities, state.entities.get_many(entities), strict=True):
            names[make_entity_node(entity)] = False, record.key, 0
        records = state.chunks.get_many(chunks)
        keys = state.documents.get_keys(chunk.document for chunk in records)
        for node, chunk in zip(chunks, records, strict=True):
            names[node] = True, keys[chunk.document], chunk.ordinal
        return [names[node] for node in self.nodes]
