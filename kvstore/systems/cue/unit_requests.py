"""The read requests of a path search: units of a state with their vectors, texts and mentioned entities. A *unit* is a
sentence with its own vector. *Mention bits* say how a chunk mentions an entity, such as in its title or only in lower
case. *Known* chunks are those whose units the caller has read.

In: entities, chunks or units found before, and the vector of a question. Out: units with their vectors, their texts,
and the entities that they mention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...derived.passage_graph import edges
from ...derived.passage_graph.structure import GRAPH
from ...derived.synonyms.synonym_index import SYNONYMS
from ...structures.documents.allowed import ChunkList
from ...structures.documents.documents import build_heading_path
from ...structures.indexes.index_reading import bind_index
from ...structures.indexes.vector_search import find_nearest_chunks
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...structures.vectors.vectors import Matrix, Vector
from .units import UNITS, StoredUnit

#: The maximum number of chunks of an entity on a path; an entity with more is ignored.
_MAX_CHUNKS = 2000
#: Mention bits of a chunk that count as a mention of the entity in a unit: the title mentions the entity, or the text
#: mentions it with a capital. A name only in lower case or in a heading does not count.
_TITLE_BITS = edges.TITLE_WHOLE | edges.TITLE_PART
_COUNTED_BITS = np.uint16(edges.CAPITALIZED | _TITLE_BITS)

#: The chunks whose units can mention an entity, each with its mention bits.
_MentionBitsByChunk = Mapping[int, int]


class UnitAvailability(NamedTuple):
    """``is_present`` is True if the ``units`` index exists, and ``is_complete`` if it covers every document."""

    is_present: bool
    is_complete: bool


class UnitAvailabilityRequest(ReadRequest[UnitAvailability]):
    """A request for the availability of the ``units`` index. The answer says if the index exists, and if it covers
    every document.
    """

    def fetch(self, state: State) -> UnitAvailability:
        reader = state.get_part(UNITS)
        return UnitAvailability(reader.is_present, reader.is_complete)


class UnitRecord(NamedTuple):
    """A unit: its id, its chunk and the key of its document."""

    id: int
    chunk: int
    document: str


class UnitBatch(NamedTuple):
    """The units of ``chunks``, in the same order, and the vectors of the units, shape (units, dimension)."""

    chunks: list[int]
    units: list[UnitRecord]
    vectors: Matrix


def _list_units(state: State, chunks: Iterable[int]) -> dict[int, list[StoredUnit]]:
    """Return the units of each chunk, by chunk id, in ascending order of the ids."""
    ordered_chunks = sorted(chunks)
    return dict(zip(ordered_chunks, state.get_part(UNITS).list_chunk_units(ordered_chunks), strict=True))


def _read_batch(state: State, units_by_chunk: Mapping[int, Sequence[StoredUnit]], known_chunks: Set[int]) -> UnitBatch:
    """Return the units of the chunks that are not in ``known_chunks``, with their vectors."""
    reader = state.get_part(UNITS)
    chunks = [chunk for chunk in units_by_chunk if chunk not in known_chunks]
    units = [unit for chunk in chunks for unit in units_by_chunk[chunk]]
    documents = reader.get_documents(unit.document for unit in units)
    records = [UnitRecord(unit.id, unit.chunk, documents[unit.document].key) for unit in units]
    return UnitBatch(chunks, records, reader.get_vectors([unit.id for unit in units]))


class NearestUnitsAnswer(NamedTuple):
    """The ids and cosines of the nearest units, best first; ``batch`` has all units of their chunks.

    Chunks that the caller already knows are omitted from ``batch``.
    """

    ids: list[int]
    cosines: list[float]
    batch: UnitBatch


class NearestUnitsRequest(ReadRequest[NearestUnitsAnswer]):
    """A request for the ``count`` units of ``chunks`` nearest to ``vector``, which has unit length. The answer omits
    the records and vectors of the units of ``known_chunks``, which the caller already has. This is the knowledge
    anchoring of CUE-RAG (Algorithm 4): a path search starts at these units.
    """

    vector: Vector
    count: int
    chunks: Sequence[int]
    known_chunks: Set[int]

    def fetch(self, state: State) -> NearestUnitsAnswer:
        reader = state.get_part(UNITS)
        ids, cosines = reader.find_nearest(self.vector, self.count, self.chunks)
        nearest = ids.tolist()
        units_by_chunk = _list_units(state, {unit.chunk for unit in reader.get(nearest)})
        batch = _read_batch(state, units_by_chunk, self.known_chunks)
        return NearestUnitsAnswer(nearest, cosines.tolist(), batch)


class EntityUnitsAnswer(NamedTuple):
    """The ids of the units that mention each entity; ``batch`` has all units of their chunks.

    Chunks that the caller already knows are omitted from ``batch``.
    """

    ids_by_entity: dict[int, list[int]]
    batch: UnitBatch


class EntityUnitsRequest(ReadRequest[EntityUnitsAnswer]):
    """A request for the units that mention each entity, in their own text or in the title of their document. Reads at
    most ``max_chunks`` chunks per entity, those nearest to the unit vector ``vector``. The answer omits the records and
    vectors of the units of ``known_chunks``, which the caller already has. The answer also has all other units of these
    chunks.
    """

    entities: Sequence[int]
    max_chunks: int
    vector: Vector
    known_chunks: Set[int]

    def fetch(self, state: State) -> EntityUnitsAnswer:
        reader = state.get_part(UNITS)
        mentions = [
            (entity, chunk, mention_bits)
            for entity, bits_by_chunk in self._read_mentions(state).items()
            for chunk, mention_bits in self._select_nearest_chunks(state, bits_by_chunk).items()
        ]
        units_by_chunk = _list_units(state, {chunk for _, chunk, _ in mentions})
        # If the title mentions the entity, all units of the chunk count, and the names in the chunk are not needed.
        reader.load_names(chunk for _, chunk, mention_bits in mentions if not mention_bits & _TITLE_BITS)
        ids_by_entity: dict[int, list[int]] = {entity: [] for entity in self.entities}
        for entity, chunk, mention_bits in mentions:
            mentioning_units: Sequence[StoredUnit] = units_by_chunk[chunk]
            if not mention_bits & _TITLE_BITS:
                mentioning_units = reader.find_units_mentioning(
                    entity, mentioning_units, is_always_capitalized=not mention_bits & edges.LOWER
                )
            ids_by_entity[entity] += [unit.id for unit in mentioning_units]
        return EntityUnitsAnswer(ids_by_entity, _read_batch(state, units_by_chunk, self.known_chunks))

    def list_chunks(self, answer: EntityUnitsAnswer) -> Iterable[int]:
        """Return the ids of the chunks whose units are in ``answer``."""
        return answer.batch.chunks

    def _read_mentions(self, state: State) -> dict[int, _MentionBitsByChunk]:
        """Return, by entity, the chunks whose units can mention it, each with its mention bits.

        A chunk is returned if it mentions the entity in its title, or with a capital in the text, and if the query's
        condition allows the chunk. The result is empty for an entity in more than :data:`_MAX_CHUNKS` chunks.
        """
        graph = state.get_part(GRAPH)
        entities = np.array(self.entities, np.uint32)
        bounds, chunks, mention_bits = graph.read_entity_rows(entities, graph.read_degrees(entities), _MAX_CHUNKS)
        is_mention = (mention_bits & _COUNTED_BITS) != 0
        if state.allowed is not None:
            is_mention &= state.allowed.get_chunk_mask(chunks)
        # The mentions of entity i are from ``bounds[i]`` to before ``bounds[i + 1]``.
        bits_by_entity: dict[int, _MentionBitsByChunk] = {}
        for entity, start, stop in zip(self.entities, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            mask = is_mention[start:stop]
            bits_by_entity[entity] = dict(
                zip(chunks[start:stop][mask].tolist(), mention_bits[start:stop][mask].tolist(), strict=True)
            )
        return bits_by_entity

    def _select_nearest_chunks(self, state: State, bits_by_chunk: _MentionBitsByChunk) -> _MentionBitsByChunk:
        """Return the ``max_chunks`` chunks in ``bits_by_chunk`` nearest to the question, with their mention bits."""
        if len(bits_by_chunk) <= self.max_chunks:
            return bits_by_chunk
        # This search uses vectors in memory or in an index, and avoids reading them from the store.
        chunk_set = ChunkList(np.array(sorted(bits_by_chunk), np.uint64))
        nearest, _ = find_nearest_chunks(state, self.vector, self.max_chunks, chunk_set)
        return {chunk: bits_by_chunk[chunk] for chunk, _ in nearest}


class UnitContent(NamedTuple):
    """The text of a unit, the title of its document (None: no title), and the headings above it.

    The outermost heading comes first.
    """

    text: str
    title: str | None
    headings: list[str]


class UnitContentsRequest(ReadRequest[list[UnitContent]]):
    """A request for the texts of units, with the title and the headings above each."""

    ids: Sequence[int]

    def fetch(self, state: State) -> list[UnitContent]:
        reader = state.get_part(UNITS)
        texts, stored_units = reader.list_texts(self.ids), reader.get(self.ids)
        # The document and section of each chunk; section -1 is the text before the first heading.
        locations = {unit.chunk: reader.get_section(unit) for unit in stored_units}
        sections = state.documents.get_sections_many(
            document.id for document, section in locations.values() if section >= 0
        )
        title_and_headings = {
            chunk: (document.title, build_heading_path(sections[document.id], section) if section >= 0 else [])
            for chunk, (document, section) in locations.items()
        }
        return [
            UnitContent(text, *title_and_headings[unit.chunk]) for text, unit in zip(texts, stored_units, strict=True)
        ]


class KeyedEntity(NamedTuple):
    """An entity (its id) and its key, the normal form of its name."""

    entity: int
    key: str


class MentionedEntitiesRequest(ReadRequest[list[list[KeyedEntity]]]):
    """A request for the entities in each unit and in the title of its document, sorted by key."""

    ids: Sequence[int]

    def fetch(self, state: State) -> list[list[KeyedEntity]]:
        return _sort_by_key(state, state.get_part(UNITS).list_entities(self.ids))


def _sort_by_key(state: State, groups: Sequence[Iterable[int]]) -> list[list[KeyedEntity]]:
    """Return each group of entities sorted by key; reads all keys together."""
    entities = list(dict.fromkeys(chain.from_iterable(groups)))
    records = state.entities.get_many(entities)
    keyed_entities = {entity: KeyedEntity(entity, record.key) for entity, record in zip(entities, records, strict=True)}
    return [
        sorted(map(keyed_entities.__getitem__, group), key=lambda keyed_entity: keyed_entity.key) for group in groups
    ]


class NamedEntities(NamedTuple):
    """The entities of each name, sorted by key. ``has_name_index`` is True with an index of kind ``synonyms``."""

    entities: list[list[KeyedEntity]]
    has_name_index: bool


class TitleVariantsRequest(ReadRequest[NamedEntities]):
    """A request for the entities of names and of title variants: names with an addition in parentheses at the end, such
    as "Paris (film)" for "Paris". ``entity_groups`` has the known entities of each name. A link in the passage graph
    connects an entity with its variants. The answer also says if the store has a ``synonyms`` index.
    """

    entity_groups: Sequence[Sequence[int]]

    def fetch(self, state: State) -> NamedEntities:
        graph = state.get_part(GRAPH)
        entities = np.array(list(chain.from_iterable(self.entity_groups)), np.uint32)
        links = graph.read_link_rows(entities[graph.read_degrees(entities).has_links])
        is_title_link = links.kinds == edges.TITLE_LINK
        variants_by_entity: dict[int, list[int]] = {}
        for entity, variant in zip(
            links.entities[is_title_link].tolist(), links.other_entities[is_title_link].tolist(), strict=True
        ):
            variants_by_entity.setdefault(entity, []).append(variant)
        groups = [
            {*group, *chain.from_iterable(variants_by_entity.get(entity, ()) for entity in group)}
            for group in self.entity_groups
        ]
        has_name_index = bind_index(state, SYNONYMS) is not None
        return NamedEntities(_sort_by_key(state, groups), has_name_index)
