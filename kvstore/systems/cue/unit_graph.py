"""The graph of units and entities around a question, as far as a search has read it.

In: a state's units and the passages that name an entity. Out: the units of entities, many at a time, as rows of one
matrix; for each row the entities that it names, its cosine with the question, and the share of the question's words
that it has. Everything is read once. Of an entity in many passages those come first that are near the question, and
one that is in very many leads nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ...retrieval.lexical_search import compute_term_rarity, question_terms
from ...retrieval.query import Query
from ...structures.derived_parts import split_vector_id
from ...structures.documents.allowed import ChunkList
from ...structures.documents.documents import build_heading_path
from ...structures.indexes.vector_search import find_nearest_chunks
from ...structures.vectors.vectors import Matrix, cosines
from ...text.words import count_chunk_terms, stemmer
from ..passage_graph import edges
from ..passage_graph.structure import GRAPH
from .units import UNITS, StoredUnit

#: Passages of an entity whose units are read, where a path begins and where it goes on: of one that has more, those
#: nearest to the question.
STARTING = 50
_REACHED = 8
#: An entity in more passages is walked neither to nor through.
_MOST_PASSAGES = 2000

UnitRows = npt.NDArray[np.int64]

#: What an edge of the passage graph has where the title names the entity, and where a unit may.
_TITLE = edges.TITLE_WHOLE | edges.TITLE_PART
_NAME_FLAGS = np.uint16(edges.CAPITALISED | _TITLE)


class UnitGraph:
    """Units read so far, a row each."""

    def __init__(self, query: Query) -> None:
        state = query.view
        self._query = query
        self._units = state.part(UNITS)
        self._stem: Callable[[str], str] = stemmer(state.settings.stemmer)
        chunks = state.counters.chunks
        counts = {term: state.postings.count(term) for term in question_terms(state, query.question)}
        self._rarity = {term: compute_term_rarity(chunks, count) for term, count in counts.items() if count}
        self._total_rarity = sum(self._rarity.values()) or 1.0
        self._shares: dict[int, float] = {}
        self._rows_by_id: dict[int, int] = {}
        self._of_entity: dict[int, UnitRows] = {}
        self._of_chunk: dict[int, list[StoredUnit]] = {}
        self._entities: dict[int, list[int]] = {}
        #: By row: the unit's id, and its chunk.
        self.ids: list[int] = []
        self.chunks: list[int] = []
        self.vectors: Matrix = np.empty((0, state.settings.dimension), np.float32)
        self.cosines: npt.NDArray[np.float64] = np.empty(0)
        self.squares: npt.NDArray[np.float64] = np.empty(0)
        self._words: dict[int, int] = {}
        self._texts: dict[int, str] = {}
        self._headings: dict[int, tuple[str | None, list[str]]] = {}
        #: What an entity is called.
        self.key: Callable[[int], str] = lru_cache(None)(lambda entity: state.entities.get(entity).key)

    def get_entity_rows(self, entities: Iterable[int], most: int = _REACHED) -> Mapping[int, UnitRows]:
        """The rows of the units of some entities, by entity; of ``most`` passages of each that is read now."""
        entity_ids = list(dict.fromkeys(entities))
        missing = np.array([entity for entity in entity_ids if entity not in self._of_entity], np.uint32)
        if len(missing):
            graph = self._query.view.part(GRAPH)
            bounds, chunks, features = graph.read_entity_rows(missing, graph.degrees(missing), _MOST_PASSAGES)
            is_naming = ((features & _NAME_FLAGS) != 0) & self._query.mask_allowed(chunks)
            features_by_entity: dict[int, dict[int, int]] = {}
            for entity, start, stop in zip(missing.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
                selected = is_naming[start:stop]
                chunk_features = dict(
                    zip(chunks[start:stop][selected].tolist(), features[start:stop][selected].tolist(), strict=True)
                )
                features_by_entity[entity] = {
                    chunk: chunk_features[chunk] for chunk in self._nearest(list(chunk_features), most)
                }
            self._read({chunk for entity_features in features_by_entity.values() for chunk in entity_features})
            all_features = (
                chunk_features
                for entity_features in features_by_entity.values()
                for chunk_features in entity_features.items()
            )
            self._units.read_names(chunk for chunk, flags in all_features if not flags & _TITLE)
            for entity, entity_features in features_by_entity.items():
                rows = [row for chunk, flags in entity_features.items() for row in self._naming(entity, chunk, flags)]
                self._of_entity[entity] = np.array(rows, np.int64)
        return {entity: self._of_entity[entity] for entity in entity_ids}

    def rows(self, ids: Sequence[int]) -> list[int]:
        """The rows of some units."""
        self._read({unit.chunk for unit in self._units.get(ids)})
        return [self._rows_by_id[id] for id in ids]

    def named(self, row: int) -> list[int]:
        """The entities that a unit names, in the order of their names."""
        if row not in self._entities:
            (named,) = self._units.entities_of([self.ids[row]])
            self._entities[row] = sorted(named, key=self.key)
        return self._entities[row]

    def words(self, row: int) -> int:
        """Which of the question's words a unit has, in its text or above it, as bits."""
        found = self._words.get(row)
        if found is None:
            terms = count_chunk_terms(*self._headings_above(self.chunks[row]), self.text(row), self._stem)
            found = self._words[row] = sum(1 << position for position, term in enumerate(self._rarity) if term in terms)
        return found

    def share(self, words: int) -> float:
        """The share of the question that some of its words are, weighed by rarity, from 0 to 1."""
        found = self._shares.get(words)
        if found is None:
            held_rarity = sum(rarity for position, rarity in enumerate(self._rarity.values()) if words >> position & 1)
            found = self._shares[words] = held_rarity / self._total_rarity
        return found

    def text(self, row: int) -> str:
        """A unit as a reader sees it."""
        if row not in self._texts:
            self._texts[row] = self._units.texts([self.ids[row]])[0]
        return self._texts[row]

    @property
    def passages(self) -> int:
        """The number of passages read."""
        return len(self._of_chunk)

    def order(self, row: int) -> tuple[str, int]:
        """What decides between equals: the key of a unit's document, and its place there."""
        document, number = split_vector_id(self.ids[row])
        return self._query.view.documents.key_of(document), number

    def likeness(self, rows: UnitRows, vector: Matrix) -> npt.NDArray[np.float64]:
        """The products of some units' vectors with another."""
        return cosines(self.vectors[rows], vector).astype(np.float64)

    def _headings_above(self, chunk: int) -> tuple[str | None, list[str]]:
        """Return the title and the headings above a chunk."""
        headings = self._headings.get(chunk)
        if headings is None:
            document, section = self._units.get_section(self._of_chunk[chunk][0])
            outline = self._query.view.documents.outline(document.id) if section >= 0 else []
            headings = self._headings[chunk] = document.title, build_heading_path(outline, section)
        return headings

    def _naming(self, entity: int, chunk: int, features: int) -> list[int]:
        """The rows of a chunk's units that name an entity, or whose title does."""
        units = self._of_chunk[chunk]
        if not features & _TITLE:
            units = self._units.naming(entity, units, not features & edges.LOWER)
        return [self._rows_by_id[unit.id] for unit in units]

    def _nearest(self, found: list[int], most: int) -> list[int]:
        if len(found) <= most:
            return found
        # Vectors that are in memory, or in an index, need not be read from the store.
        chunk_set = ChunkList(np.array(sorted(found), np.uint64))
        nearest, _ = find_nearest_chunks(self._query.view, self._query.vector, most, chunk_set)
        return [chunk for chunk, _ in nearest]

    def _read(self, chunks: Iterable[int]) -> None:
        """Have the units of some chunks as rows."""
        missing = sorted(chunk for chunk in chunks if chunk not in self._of_chunk)
        if not missing:
            return
        unit_lists = self._units.of_chunks(missing)
        ids = [unit.id for units in unit_lists for unit in units]
        self._rows_by_id.update((id, row) for row, id in enumerate(ids, len(self.ids)))
        self._of_chunk.update(zip(missing, unit_lists, strict=True))
        self.ids += ids
        self.chunks += [unit.chunk for units in unit_lists for unit in units]
        vectors = self._units.vectors(ids)
        self.vectors = np.concatenate((self.vectors, vectors))
        self.squares = np.concatenate((self.squares, np.einsum("ij,ij->i", vectors, vectors).astype(np.float64)))
        self.cosines = np.concatenate((self.cosines, cosines(vectors, self._query.vector).astype(np.float64)))
