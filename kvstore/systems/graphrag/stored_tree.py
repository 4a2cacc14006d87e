"""The tree of communities (groups of related entities) of one build as arrays, for processing a whole level at once.
Level 0 is the coarsest.

In: the rows of the ``communities`` table. Out: a :class:`StoredTree`; communities are indexes into its arrays. It takes
about 30 bytes for each community, and is built once for all states that read the generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...structures.clustering.affinity import IntArray
from ...structures.clustering.children import ChildIndex
from ...structures.indexes.generations import GenerationRows
from .community_building import NO_COMMUNITY
from .community_rows import COMMUNITIES, FIRST_MEMBER_FIELD, LEVEL_FIELD, PARENT_FIELD, RATING_FIELD


@dataclass(eq=False)
class StoredTree:
    """The tree of communities as parallel arrays, with an element for each community: ``levels`` (0: the coarsest),
    ``parents`` (:data:`NO_COMMUNITY` for a root), ``ratings`` (multiplied by ten), and ``first_members``, the first
    member of each by name.
    """

    levels: IntArray
    parents: IntArray
    ratings: IntArray
    first_members: IntArray

    @classmethod
    def from_rows(cls, rows: GenerationRows) -> StoredTree:
        """Read the tree of one build: the columns level, parent, rating and first member of each community."""
        fields = [
            (
                row[LEVEL_FIELD],
                NO_COMMUNITY if row[PARENT_FIELD] is None else row[PARENT_FIELD],
                row[RATING_FIELD],
                row[FIRST_MEMBER_FIELD],
            )
            for _, row in rows.scan(COMMUNITIES)
        ]
        return cls(*np.array(fields, np.int64).reshape(len(fields), 4).T.copy())  # one array for each of the 4 columns

    def __len__(self) -> int:
        """Return the number of communities; ``levels`` has the level of each."""
        return len(self.levels)

    def list_children(self, communities: IntArray) -> IntArray:
        """Return the children of communities, grouped by parent."""
        return self._children.get_children_of_nodes(communities)

    def get_partition(self, level: int) -> IntArray:
        """Return the communities of a level, and the communities of coarser levels that have no children."""
        has_children = self._children.counts > 0
        return np.flatnonzero((self.levels == level) | ((self.levels < level) & ~has_children))

    def map_to_levels(self, communities: IntArray, levels: int) -> IntArray:
        """Return the ancestor of each community at each level, coarsest level first, shape (levels, communities).

        At its own level and finer ones, the result has the community itself. At levels coarser than its root, and for
        the element :data:`NO_COMMUNITY`, the result is :data:`NO_COMMUNITY`.
        """
        communities_by_level: IntArray = np.full((levels, len(communities)), NO_COMMUNITY, np.int64)
        # In each round, every community fills its own level and the finer ones that no descendant has filled; then its
        # parent takes its place.
        current, filled_from = communities, np.full(len(communities), levels)
        while (current != NO_COMMUNITY).any():
            active = np.flatnonzero(current != NO_COMMUNITY)
            own_levels = self.levels[current[active]]
            for level in range(levels):
                covered_indexes = active[(own_levels <= level) & (level < filled_from[active])]
                communities_by_level[level, covered_indexes] = current[covered_indexes]
            filled_from[active] = own_levels
            current = np.where(current == NO_COMMUNITY, NO_COMMUNITY, self.parents[current])
        return communities_by_level

    @cached_property
    def _children(self) -> ChildIndex:
        """The children of each community."""
        return ChildIndex(self.parents)
