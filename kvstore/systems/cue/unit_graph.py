"""The part of the graph of units and entities that a search has read so far. A *unit* is a sentence with its own
vector; its *row* is its number in this graph. The *key* of an entity is its name in normal form.

In: requests for the units of a state (:mod:`.unit_requests`). Out: the units of entities as rows of one matrix. Each
row has the entities that the unit mentions, its cosine with the question, and the question's words in it. Everything is
requested at most once, and everything that a step of the search needs is requested together. For an entity in many
chunks, the chunks near the question are read; an entity in very many chunks is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ...retrieval.lexical_search import TermWeights
from ...retrieval.query import Query
from ...structures.derived_parts import split_vector_id
from ...structures.vectors.vectors import Matrix, Vector, cosines
from ...text.words import count_chunk_terms
from .unit_requests import (
    EntityUnitsRequest,
    KeyedEntity,
    MentionedEntitiesRequest,
    NearestUnitsAnswer,
    NearestUnitsRequest,
    UnitBatch,
    UnitContent,
    UnitContentsRequest,
)

#: The maximum number of chunks whose units are read for an entity, at the start of a path and along it. If there are
#: more, the chunks nearest to the question are read.
MAX_START_CHUNKS = 50
_MAX_REACHED_CHUNKS = 8

#: Row numbers of units in a :class:`UnitGraph`.
UnitRows = npt.NDArray[np.int64]


class UnitGraph:
    """The units read so far, and the entities that they mention. A unit is identified by its row: its index in ``ids``,
    ``chunks``, ``vectors``, ``cosines`` (with the question) and ``squared_norms`` (the squared norms of the vectors).
    """

    def __init__(self, query: Query, weights: TermWeights) -> None:
        """Create a graph without units; ``weights`` are the BM25 weights of the question's words."""
        self._query = query
        self._reader = query.reading
        self._stem: Callable[[str], str] = query.stem
        self.weights = weights
        self._rarities = weights.rarities
        self._total_rarity = math.fsum(self._rarities.values()) or 1.0  # not 0, because it is a divisor
        # Caches. A word mask has a bit for each of the question's words that a unit has.
        self._rarity_fractions: dict[int, float] = {}  # by word mask
        self._rows_by_id: dict[int, int] = {}  # by unit id
        self._rows_by_entity: dict[int, UnitRows] = {}
        self._known_chunks: set[int] = set()  # their units were read
        self._entities_by_row: dict[int, list[int]] = {}
        self._keys: dict[int, str] = {}  # by entity
        self._word_masks: dict[int, int] = {}  # by row
        self._contents: dict[int, UnitContent] = {}  # by row
        #: The id, the chunk and the document key of each row's unit.
        self.ids: list[int] = []
        self.chunks: list[int] = []
        self._documents: list[str] = []
        self.vectors: Matrix = np.empty((0, query.reading.settings.dimension), np.float32)
        self.cosines: npt.NDArray[np.float64] = np.empty(0)
        self.squared_norms: npt.NDArray[np.float64] = np.empty(0)

    @property
    def num_chunks(self) -> int:
        """The number of chunks whose units were read."""
        return len(self._known_chunks)

    def get_entity_rows(self, entities: Iterable[int]) -> Mapping[int, UnitRows]:
        """Return, for each entity, the row numbers of the units that mention it.

        Units that are not cached are read.
        """
        entity_ids = list(dict.fromkeys(entities))
        self.load_entity_units(entity_ids)
        return {entity: self._rows_by_entity[entity] for entity in entity_ids}

    def load_entity_units(self, entities: Iterable[int], max_chunks: int = _MAX_REACHED_CHUNKS) -> None:
        """Read the units that mention some entities, in one batch, for :meth:`get_entity_rows`.

        They come from the ``max_chunks`` chunks of each entity that are nearest to the question. The units of an entity
        are cached, so they are read only once.
        """
        missing_entities = [entity for entity in dict.fromkeys(entities) if entity not in self._rows_by_entity]
        if missing_entities:
            request = EntityUnitsRequest(
                missing_entities, max_chunks, self._query.vector, frozenset(self._known_chunks)
            )
            ids_by_entity, batch = self._reader.fetch(request)
            self._add_units(batch)
            for entity, ids in ids_by_entity.items():
                self._rows_by_entity[entity] = np.array([self._rows_by_id[id] for id in ids], np.int64)

    def make_nearest_request(self, count: int, chunks: Sequence[int]) -> NearestUnitsRequest:
        """Return a request for the ``count`` units of ``chunks`` nearest to the question, by vector.

        The answer also has the units of these chunks that the graph does not have yet.
        """
        return NearestUnitsRequest(self._query.vector, count, chunks, frozenset(self._known_chunks))

    def add_nearest(self, answer: NearestUnitsAnswer) -> list[tuple[int, float]]:
        """Add the units that a search has found to the graph; return the units nearest to the question.

        They are returned as (row of the unit in the graph, cosine), the nearest first. Reads their texts and entities.
        """
        self._add_units(answer.batch)
        rows = [self._rows_by_id[id] for id in answer.ids]
        if rows:
            contents, groups = self._reader.fetch(UnitContentsRequest(answer.ids), MentionedEntitiesRequest(answer.ids))
            self._contents.update(zip(rows, contents, strict=True))
            self._add_entities(rows, groups)
        return list(zip(rows, answer.cosines, strict=True))

    def load_entities(self, rows: Iterable[int]) -> None:
        """Read the entities that the units in some rows mention, in one batch, for :meth:`get_entities`."""
        missing_rows = [row for row in dict.fromkeys(rows) if row not in self._entities_by_row]
        if missing_rows:
            self._add_entities(
                missing_rows, self._reader.fetch(MentionedEntitiesRequest([self.ids[row] for row in missing_rows]))
            )

    def get_entities(self, row: int) -> list[int]:
        """Return the entities in a unit, sorted by key; :meth:`load_entities` must have read them.

        ``row`` is the row number of the unit in this graph.
        """
        return self._entities_by_row[row]

    def add_keys(self, entities: Iterable[KeyedEntity]) -> None:
        """Add the keys of entities (their names in normal form), for :meth:`get_key`."""
        self._keys.update(entities)

    def get_key(self, entity: int) -> str:
        """Return the key of an entity (its name in normal form); :meth:`add_keys` must have added it."""
        return self._keys[entity]

    def load_contents(self, rows: Iterable[int]) -> None:
        """Read the texts and headings of the units in some rows into the cache, in one batch.

        :meth:`get_text` and :meth:`get_word_mask` need them.
        """
        missing_rows = [row for row in dict.fromkeys(rows) if row not in self._contents]
        if missing_rows:
            contents = self._reader.fetch(UnitContentsRequest([self.ids[row] for row in missing_rows]))
            self._contents.update(zip(missing_rows, contents, strict=True))

    def get_text(self, row: int) -> str:
        """Return the text of the unit in a row; :meth:`load_contents` must have read it."""
        return self._contents[row].text

    def get_word_mask(self, row: int) -> int:
        """Return a bit mask of the question's words in the unit of a row, its headings and title; cached.

        Bit i is set if the i-th word is present. :meth:`load_contents` must have read the unit.
        """
        mask = self._word_masks.get(row)
        if mask is None:
            content = self._contents[row]
            terms = count_chunk_terms(content.title, content.headings, content.text, self._stem)
            mask = 0
            for index, term in enumerate(self._rarities):
                if term in terms:
                    mask |= 1 << index
            self._word_masks[row] = mask
        return mask

    def compute_rarity_fraction(self, word_mask: int) -> float:
        """Return the fraction of the question's total rarity (IDF) that the words in a bit mask have; cached.

        Bit i of ``word_mask`` is the i-th word in the question.
        """
        fraction = self._rarity_fractions.get(word_mask)
        if fraction is None:
            rarity_sum = math.fsum(
                rarity for index, rarity in enumerate(self._rarities.values()) if word_mask & (1 << index)
            )
            fraction = self._rarity_fractions[word_mask] = rarity_sum / self._total_rarity
        return fraction

    def get_sort_key(self, row: int) -> tuple[str, int]:
        """Return a key that breaks ties: the document key of a row's unit, and its number there."""
        _, number = split_vector_id(self.ids[row])  # the id of a unit packs its document and its number
        return self._documents[row], number

    def compute_dot_products(self, rows: UnitRows, vector: Vector) -> npt.NDArray[np.float64]:
        """Return the dot products of the vectors of units with ``vector``, which has any length.

        ``rows`` are the row numbers of the units in this graph.
        """
        # ``cosines`` returns dot products, which are cosines only for vectors of length 1.
        return cosines(self.vectors[rows], vector).astype(np.float64)

    def _add_entities(self, rows: Iterable[int], groups: Iterable[Sequence[KeyedEntity]]) -> None:
        """Store the entities that units mention: a group for each unit's row."""
        for row, entities in zip(rows, groups, strict=True):
            self.add_keys(entities)
            self._entities_by_row[row] = [entity for entity, _ in entities]

    def _add_units(self, batch: UnitBatch) -> None:
        """Append the units of a batch as new rows of the graph, and mark their chunks as read."""
        self._known_chunks.update(batch.chunks)
        if not batch.units:
            return
        ids = [unit.id for unit in batch.units]
        self._rows_by_id.update((id, row) for row, id in enumerate(ids, len(self.ids)))
        self.ids += ids
        self.chunks += [unit.chunk for unit in batch.units]
        self._documents += [unit.document for unit in batch.units]
        self.vectors = np.concatenate((self.vectors, batch.vectors))
        squared_norms = np.einsum("ij,ij->i", batch.vectors, batch.vectors).astype(np.float64)
        self.squared_norms = np.concatenate((self.squared_norms, squared_norms))
        batch_cosines = cosines(batch.vectors, self._query.vector).astype(np.float64)
        self.cosines = np.concatenate((self.cosines, batch_cosines))
