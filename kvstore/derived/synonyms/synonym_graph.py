"""The index of kind ``synonyms``: the names of entities as vectors, and pairs of names with nearly the same meaning.
Each name has a *row*, and the labels of the graph are rows. A row with entity 0 belongs to a deleted name.

In: an index file made by :mod:`.synonym_index`. Out: entities near another entity or a vector, limited to entities of
the state. The index is as current as the last REFRESH: it lacks newer names, and deleted names are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...structures.names.entities import Entities
from ...structures.vectors.hnsw import HnswGraph
from ...structures.vectors.vectors import Matrix, Vector, cosines

#: The minimum number of candidates kept during a search.
MIN_CANDIDATES = 64

EntityIds = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class SynonymGraph:
    """Names as rows of ``vectors``, ``entities`` and ``digests``, and pairs of synonyms.

    Pair *i* is the rows ``first[i]`` and ``second[i]`` with ``cosines[i]``. Each pair is in both directions, in order
    of the first row. ``digests`` identify the embedded form of a name. ``change`` is the number of the last change
    before the build, and ``options`` are the options of the build.
    """

    graph: HnswGraph
    vectors: Matrix
    entities: EntityIds
    digests: npt.NDArray[np.uint64]
    first: EntityIds
    second: EntityIds
    cosines: Matrix
    change: int
    options: Mapping[str, float]

    def find_row(self, entity: int) -> int | None:
        """Return the row of an entity's name, or None if the index lacks it."""
        order, entities = self._entity_order
        position = int(np.searchsorted(entities, entity))
        is_indexed = position < len(order) and entities[position] == entity
        # Entity 0 marks the rows of deleted names.
        return int(order[position]) if is_indexed and entity else None

    @cached_property
    def _entity_order(self) -> tuple[npt.NDArray[np.intp], EntityIds]:
        """The rows in order of their entities, and the entities in this order."""
        order = np.argsort(self.entities)
        return order, self.entities[order]


class Synonyms:
    """The synonyms in an index, limited to the entities that the store still has."""

    def __init__(self, index: SynonymGraph, entities: Entities) -> None:
        """Create a reader of the synonyms in ``index`` that omits entities missing from ``entities``, the store's."""
        self._index = index
        self._entities = entities

    def list_neighbors(self, entity: int) -> list[tuple[int, float]]:
        """Return the synonyms of an entity, with their cosines, nearest first; empty if it is not indexed."""
        row = self._index.find_row(entity)
        if row is None:
            return []
        index = self._index
        start, stop = np.searchsorted(index.first, [row, row + 1])
        neighbors = index.entities[index.second[start:stop]].tolist()
        pairs = list(zip(neighbors, index.cosines[start:stop].tolist(), strict=True))
        return self._sort_pairs(self._select_existing(pairs))

    def find_nearest(self, vector: Vector, max_names: int) -> list[tuple[int, float]]:
        """Return the (entity, cosine) pairs of at most ``max_names`` names nearest to a unit vector, nearest first."""
        num_candidates = max(MIN_CANDIDATES, 2 * max_names)
        while True:
            rows = self._index.graph.find_nearest(vector, num_candidates).labels.astype(np.intp)
            # The graph only proposes rows: their cosines are computed exactly, as for chunks.
            scores = cosines(self._index.vectors[rows], vector).tolist()
            pairs = self._select_existing(list(zip(self._index.entities[rows].tolist(), scores, strict=True)))
            if len(pairs) >= max_names or len(rows) < num_candidates:
                return self._sort_pairs(pairs)[:max_names]
            num_candidates *= 4

    def _sort_pairs(self, pairs: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Sort pairs of entity and cosine by descending cosine, then by the key of the entity."""
        ranked = sorted((-cosine, self._entities.get(entity).key, entity, cosine) for entity, cosine in pairs)
        return [(entity, cosine) for _, _, entity, cosine in ranked]

    def _select_existing(self, pairs: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Return the pairs (entity, cosine) whose entity still exists; entity 0 represents a deleted name."""
        return [(entity, cosine) for entity, cosine in pairs if entity and entity in self._entities]
