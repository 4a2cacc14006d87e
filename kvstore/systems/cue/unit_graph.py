"""The part of the graph of units and entities that a search has read so far.

In: a state's units and the chunks that mention an entity. Out: the units of entities as rows of one matrix. Each row
has the entities that the unit mentions, its cosine with the question, and the share of the question's words in it.
Everything is read at most once. For an entity in many chunks, those near the question are read; an entity in very many
chunks is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ...derived.passage_graph import edges
from ...derived.passage_graph.structure import GRAPH
from ...retrieval.lexical_search import compute_term_rarity, find_question_terms
from ...retrieval.query import Query
from ...structures.derived_parts import split_vector_id
from ...structures.documents.allowed import ChunkList
from ...structures.documents.documents import build_heading_path
from ...structures.indexes.vector_search import find_nearest_chunks
from ...structures.vectors.vectors import Matrix, cosines
from ...text.words import count_chunk_terms, get_stemmer
from .units import UNITS, StoredUnit

#: The maximum number of chunks whose units are read for an entity, at the start of a path and along it. If there are
#: more, those nearest to the question are read.
MAX_START_CHUNKS = 50
_MAX_REACHED_CHUNKS = 8
#: The maximum number of chunks of an entity on a path; an entity with more is ignored.
_MAX_CHUNKS = 2000

UnitRows = npt.NDArray[np.int64]

#: Features of an edge of the passage graph if the title names the entity, and if a unit can name it.
_TITLE_FLAGS = edges.TITLE_WHOLE | edges.TITLE_PART
_NAME_FLAGS = np.uint16(edges.CAPITALIZED | _TITLE_FLAGS)


class UnitGraph:
    """The units read so far, one row each."""

    def __init__(self, query: Query) -> None:
        state = query.view
        self._query = query
        self._units = state.get_part(UNITS)
        self._stem: Callable[[str], str] = get_stemmer(state.settings.stemmer)
        chunks = state.counters.chunks
        counts = {term: state.postings.count_chunks(term) for term in find_question_terms(state, query.question)}
        self._rarities = {term: compute_term_rarity(chunks, count) for term, count in counts.items() if count}
        self._total_rarity = sum(self._rarities.values()) or 1.0
        self._shares: dict[int, float] = {}
        self._rows_by_id: dict[int, int] = {}
        self._rows_by_entity: dict[int, UnitRows] = {}
        self._units_by_chunk: dict[int, list[StoredUnit]] = {}
        self._entities_by_row: dict[int, list[int]] = {}
        #: The id and the chunk of each row's unit.
        self.ids: list[int] = []
        self.chunks: list[int] = []
        self.vectors: Matrix = np.empty((0, state.settings.dimension), np.float32)
        self.cosines: npt.NDArray[np.float64] = np.empty(0)
        self.squares: npt.NDArray[np.float64] = np.empty(0)
        self._word_bits: dict[int, int] = {}
        self._texts: dict[int, str] = {}
        self._headings: dict[int, tuple[str | None, list[str]]] = {}
        #: Returns the key of an entity.
        self.get_key: Callable[[int], str] = lru_cache(None)(lambda entity: state.entities.get(entity).key)

    def get_entity_rows(self, entities: Iterable[int], max_chunks: int = _MAX_REACHED_CHUNKS) -> Mapping[int, UnitRows]:
        """Return the rows of the units of entities, by entity; reads at most ``max_chunks`` chunks of a new entity."""
        entity_ids = list(dict.fromkeys(entities))
        missing = np.array([entity for entity in entity_ids if entity not in self._rows_by_entity], np.uint32)
        if len(missing):
            graph = self._query.view.get_part(GRAPH)
            bounds, chunks, features = graph.read_entity_rows(missing, graph.read_degrees(missing), _MAX_CHUNKS)
            is_naming = ((features & _NAME_FLAGS) != 0) & self._query.mask_allowed(chunks)
            features_by_entity: dict[int, dict[int, int]] = {}
            for entity, start, stop in zip(missing.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
                selected = is_naming[start:stop]
                chunk_features = dict(
                    zip(chunks[start:stop][selected].tolist(), features[start:stop][selected].tolist(), strict=True)
                )
                features_by_entity[entity] = {
                    chunk: chunk_features[chunk] for chunk in self._select_nearest(list(chunk_features), max_chunks)
                }
            self._read_chunks({chunk for entity_features in features_by_entity.values() for chunk in entity_features})
            all_features = (
                chunk_features
                for entity_features in features_by_entity.values()
                for chunk_features in entity_features.items()
            )
            self._units.read_names(chunk for chunk, flags in all_features if not flags & _TITLE_FLAGS)
            for entity, entity_features in features_by_entity.items():
                rows = [
                    row
                    for chunk, flags in entity_features.items()
                    for row in self._find_naming_rows(entity, chunk, flags)
                ]
                self._rows_by_entity[entity] = np.array(rows, np.int64)
        return {entity: self._rows_by_entity[entity] for entity in entity_ids}

    def get_rows(self, ids: Sequence[int]) -> list[int]:
        """Return the rows of units."""
        self._read_chunks({unit.chunk for unit in self._units.get(ids)})
        return [self._rows_by_id[id] for id in ids]

    def get_entities(self, row: int) -> list[int]:
        """Return the entities that a unit mentions, sorted by key."""
        if row not in self._entities_by_row:
            (entities,) = self._units.list_entities([self.ids[row]])
            self._entities_by_row[row] = sorted(entities, key=self.get_key)
        return self._entities_by_row[row]

    def get_word_bits(self, row: int) -> int:
        """Return the question's words in a unit, its headings or its title, as bits."""
        bits = self._word_bits.get(row)
        if bits is None:
            terms = count_chunk_terms(*self._headings_above(self.chunks[row]), self.get_text(row), self._stem)
            bits = self._word_bits[row] = sum(
                1 << position for position, term in enumerate(self._rarities) if term in terms
            )
        return bits

    def compute_share(self, word_bits: int) -> float:
        """Return the share of some of the question's words in all of them, weighted by rarity, from 0 to 1."""
        found = self._shares.get(word_bits)
        if found is None:
            held_rarity = sum(
                rarity for position, rarity in enumerate(self._rarities.values()) if word_bits >> position & 1
            )
            found = self._shares[word_bits] = held_rarity / self._total_rarity
        return found

    def get_text(self, row: int) -> str:
        """Return the display form of a unit."""
        if row not in self._texts:
            self._texts[row] = self._units.list_texts([self.ids[row]])[0]
        return self._texts[row]

    @property
    def num_chunks(self) -> int:
        """The number of chunks read."""
        return len(self._units_by_chunk)

    def get_sort_key(self, row: int) -> tuple[str, int]:
        """Return the sort key that breaks ties: the document key of a unit, and its number there."""
        document, number = split_vector_id(self.ids[row])
        return self._query.view.documents.get_key(document), number

    def compute_similarities(self, rows: UnitRows, vector: Matrix) -> npt.NDArray[np.float64]:
        """Return the products of units' vectors with another vector."""
        return cosines(self.vectors[rows], vector).astype(np.float64)

    def _headings_above(self, chunk: int) -> tuple[str | None, list[str]]:
        """Return the title and the headings above a chunk."""
        headings = self._headings.get(chunk)
        if headings is None:
            document, section = self._units.get_section(self._units_by_chunk[chunk][0])
            outline = self._query.view.documents.get_outline(document.id) if section >= 0 else []
            headings = self._headings[chunk] = document.title, build_heading_path(outline, section)
        return headings

    def _find_naming_rows(self, entity: int, chunk: int, features: int) -> list[int]:
        """Return the rows of a chunk's units that mention an entity, or all of them if the title does."""
        units = self._units_by_chunk[chunk]
        if not features & _TITLE_FLAGS:
            units = self._units.find_units_mentioning(entity, units, not features & edges.LOWER)
        return [self._rows_by_id[unit.id] for unit in units]

    def _select_nearest(self, chunks: list[int], max_chunks: int) -> list[int]:
        if len(chunks) <= max_chunks:
            return chunks
        # This search uses vectors in memory or in an index, and avoids reading them from the store.
        chunk_set = ChunkList(np.array(sorted(chunks), np.uint64))
        nearest, _ = find_nearest_chunks(self._query.view, self._query.vector, max_chunks, chunk_set)
        return [chunk for chunk, _ in nearest]

    def _read_chunks(self, chunks: Iterable[int]) -> None:
        """Read the units of chunks into rows."""
        missing = sorted(chunk for chunk in chunks if chunk not in self._units_by_chunk)
        if not missing:
            return
        unit_lists = self._units.list_chunk_units(missing)
        ids = [unit.id for units in unit_lists for unit in units]
        self._rows_by_id.update((id, row) for row, id in enumerate(ids, len(self.ids)))
        self._units_by_chunk.update(zip(missing, unit_lists, strict=True))
        self.ids += ids
        self.chunks += [unit.chunk for units in unit_lists for unit in units]
        vectors = self._units.get_vectors(ids)
        self.vectors = np.concatenate((self.vectors, vectors))
        self.squares = np.concatenate((self.squares, np.einsum("ij,ij->i", vectors, vectors).astype(np.float64)))
        self.cosines = np.concatenate((self.cosines, cosines(vectors, self._query.vector).astype(np.float64)))
