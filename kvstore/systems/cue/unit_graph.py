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

from ...retrieval.dense_search import cosines_of
from ...retrieval.lexical_search import question_terms, term_rarity
from ...retrieval.query import Query
from ...structures.derived_parts import vector_owner
from ...structures.documents.documents import heading_path
from ...structures.ranking import best
from ...structures.vectors.vectors import Ids, Matrix, cosines
from ...text.words import chunk_terms, stemmer
from ..passage_graph import graph
from ..passage_graph.structure import GRAPH
from .units import UNITS

#: Passages of an entity whose units are read: of one that has more, those nearest to the question.
_NEAREST_PASSAGES = 50
#: An entity in more passages is walked neither to nor through.
_MOST_PASSAGES = 2000

Rows = npt.NDArray[np.int64]

#: What an edge of the passage graph has where a unit may name the entity: in its text, or in the title.
_NAMING = np.uint16(graph.CAPITALISED | graph.TITLE_WHOLE | graph.TITLE_PART)


class UnitGraph:
    """Units read so far, a row each."""

    def __init__(self, query: Query) -> None:
        view = query.view
        self._query = query
        self._units = view.part(UNITS)
        self._stem: Callable[[str], str] = stemmer(view.settings.stemmer)
        chunks = view.counters.chunks
        found = {term: view.postings.count(term) for term in question_terms(view, query.question)}
        self._rarity = {term: term_rarity(chunks, count) for term, count in found.items() if count}
        self._all_words = sum(self._rarity.values()) or 1.0
        self._shares: dict[int, float] = {}
        self._row_of: dict[int, int] = {}
        self._of_entity: dict[int, Rows] = {}
        self._of_chunk: dict[int, list[tuple[int, frozenset[int]]]] = {}
        #: By row: the unit's id, its chunk, and the entities that it names.
        self.ids: list[int] = []
        self.chunks: list[int] = []
        self.entities: list[frozenset[int]] = []
        self.vectors: Matrix = np.empty((0, view.settings.dimension), np.float32)
        self.cosines: npt.NDArray[np.float64] = np.empty(0)
        self.squares: npt.NDArray[np.float64] = np.empty(0)
        self._words: dict[int, int] = {}
        self._texts: dict[int, str] = {}
        self._above = lru_cache(None)(self._headed)
        self._key = lru_cache(None)(lambda entity: view.entities.get(entity).key)

    def of_entities(self, entities: Iterable[int]) -> Mapping[int, Rows]:
        """The rows of the units of some entities, by entity."""
        wanted = list(dict.fromkeys(entities))
        missing = np.array([entity for entity in wanted if entity not in self._of_entity], np.uint32)
        if len(missing):
            stored = self._query.view.part(GRAPH)
            bounds, chunks, features = stored.entity_rows(missing, stored.degrees(missing), _MOST_PASSAGES)
            naming = ((features & _NAMING) != 0) & self._query.keep_allowed(chunks)
            passages = {
                entity: self._nearest(chunks[start:stop][naming[start:stop]])
                for entity, start, stop in zip(missing.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
            }
            self._read({chunk for found in passages.values() for chunk in found})
            for entity, found in passages.items():
                rows = [row for chunk in found for row, named in self._of_chunk[chunk] if entity in named]
                self._of_entity[entity] = np.array(rows, np.int64)
        return {entity: self._of_entity[entity] for entity in wanted}

    def rows(self, ids: Sequence[int]) -> list[int]:
        """The rows of some units."""
        self._read({unit.chunk for unit in self._units.get(ids)})
        return [self._row_of[id] for id in ids]

    def named(self, row: int) -> list[int]:
        """The entities that a unit names, in the order of their names."""
        return sorted(self.entities[row], key=self._key)

    def words(self, row: int) -> int:
        """Which of the question's words a unit has, in its text or above it, as bits."""
        found = self._words.get(row)
        if found is None:
            terms = chunk_terms(*self._above(self.chunks[row]), self.text(row), self._stem)
            found = self._words[row] = sum(1 << place for place, term in enumerate(self._rarity) if term in terms)
        return found

    def share(self, words: int) -> float:
        """The share of the question that some of its words are, weighed by rarity, from 0 to 1."""
        found = self._shares.get(words)
        if found is None:
            held = sum(rarity for place, rarity in enumerate(self._rarity.values()) if words >> place & 1)
            found = self._shares[words] = held / self._all_words
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
        document, number = vector_owner(self.ids[row])
        return self._query.view.documents.key_of(document), number

    def likeness(self, rows: Rows, vector: Matrix) -> npt.NDArray[np.float64]:
        """The products of some units' vectors with another."""
        return cosines(self.vectors[rows], vector).astype(np.float64)

    def _headed(self, chunk: int) -> tuple[str | None, list[str]]:
        """The title and the headings above a chunk."""
        stored = self._query.view.chunks.get(chunk)
        documents = self._query.view.documents
        headings = heading_path(documents.outline(stored.document), stored.section) if stored.section >= 0 else []
        return documents.get(stored.document).title, headings

    def _nearest(self, chunks: Ids) -> list[int]:
        if len(chunks) <= _NEAREST_PASSAGES:
            found: list[int] = chunks.tolist()
            return found
        view = self._query.view
        return [
            chunk for chunk, _ in best(view, chunks, cosines_of(view, chunks, self._query.vector), _NEAREST_PASSAGES)
        ]

    def _read(self, chunks: Iterable[int]) -> None:
        """Have the units of some chunks as rows."""
        missing = sorted(chunk for chunk in chunks if chunk not in self._of_chunk)
        if not missing:
            return
        found = self._units.of_chunks(missing)
        ids = [unit.id for units in found for unit in units]
        named = [frozenset(entities) for entities in self._units.entities_of(ids)]
        first = len(self.ids)
        for chunk, units in zip(missing, found, strict=True):
            rows = range(len(self.ids), len(self.ids) + len(units))
            self.ids += [unit.id for unit in units]
            self.chunks += [chunk] * len(units)
            self._of_chunk[chunk] = [(row, named[row - first]) for row in rows]
        self._row_of.update((id, row) for row, id in enumerate(ids, first))
        self.entities += named
        vectors = self._units.vectors(ids)
        self.vectors = np.concatenate((self.vectors, vectors))
        self.squares = np.concatenate((self.squares, np.einsum("ij,ij->i", vectors, vectors).astype(np.float64)))
        self.cosines = np.concatenate((self.cosines, cosines(vectors, self._query.vector).astype(np.float64)))
