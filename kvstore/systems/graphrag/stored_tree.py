"""The tree of communities of a generation as arrays, so that all of a level is looked at together.

In: the rows of the table ``communities``. Out: a :class:`StoredTree`; communities are places in its arrays. It takes
some 30 bytes a community, and is made once for all states that read the generation.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...structures.clustering.affinity import Partition
from ...structures.clustering.children import ChildIndex
from ...structures.indexes.generations import GenerationRows
from .community_building import NO_COMMUNITY
from .community_rows import COMMUNITIES


class StoredTree:
    """Of each community its level, the one above it (:data:`NO_COMMUNITY`: none), its rating in tenths, and the first of its
    members in order of names."""

    def __init__(self, levels: Partition, parents: Partition, ratings: Partition, first_members: Partition) -> None:
        self.levels = levels
        self.parents = parents
        self.ratings = ratings
        self.first_members = first_members

    @classmethod
    def from_rows(cls, rows: GenerationRows) -> StoredTree:
        """That of a generation."""
        columns = [
            (row[0], NO_COMMUNITY if row[1] is None else row[1], row[6], row[8]) for _, row in rows.scan(COMMUNITIES)
        ]
        return cls(*np.array(columns, np.int64).reshape(len(columns), 4).T.copy())

    def __len__(self) -> int:
        return len(self.levels)

    def list_children(self, communities: Partition) -> Partition:
        """The communities that some are parted into, those of each one after the other."""
        return self._children.get_children_of_all(communities)

    def get_partition(self, level: int) -> Partition:
        """The communities of a level, and those above that are not parted further."""
        has_children = self._children.counts > 0
        return np.flatnonzero((self.levels == level) | ((self.levels < level) & ~has_children))

    def map_to_levels(self, communities: Partition, levels: int) -> Partition:
        """The community at each level (coarsest first) that some are at or below, shape (levels, n); where one is of a
        coarser level, itself. ``communities`` may be :data:`NO_COMMUNITY`."""
        communities_by_level: Partition = np.full((levels, len(communities)), NO_COMMUNITY, np.int64)
        current, stops = communities, np.full(len(communities), levels)
        while (active := np.flatnonzero(current != NO_COMMUNITY)).size:
            level = self.levels[current[active]]
            for number in range(levels):
                covered = active[(level <= number) & (number < stops[active])]
                communities_by_level[number, covered] = current[covered]
            stops[active] = level
            current = np.where(current == NO_COMMUNITY, NO_COMMUNITY, self.parents[current])
        return communities_by_level

    @cached_property
    def _children(self) -> ChildIndex:
        return ChildIndex(self.parents)
