"""The children of each node of a forest, computed from the parent of each node.

In: an array with the parent of each node, as a position in that array; negative for a root. Out: the children of one or
several nodes, ascending, without a scan of the other nodes. It takes 16 bytes per node.
"""

from __future__ import annotations

import numpy as np

from .affinity import IntArray


class ChildIndex:
    """The children of each node, built from the ``parents`` of the nodes, shape (n,)."""

    def __init__(self, parents: IntArray) -> None:
        """Build the index from the parent of each node, which is negative for a root."""
        order = np.argsort(parents, kind="stable")
        #: All nodes with a parent, sorted by parent; those of parent p are at ``_bounds[p]`` to ``_bounds[p + 1]``.
        self._by_parent = order[np.searchsorted(parents[order], 0) :]
        self._bounds = np.searchsorted(parents[self._by_parent], np.arange(len(parents) + 1))

    @property
    def counts(self) -> IntArray:
        """The number of children of each node, shape (n,)."""
        return np.diff(self._bounds)

    def get_children(self, node: int) -> IntArray:
        """Return the children of a node, ascending."""
        start, stop = self._bounds[node : node + 2]
        return self._by_parent[start:stop]

    def get_children_of_nodes(self, nodes: IntArray) -> IntArray:
        """Return the children of the given nodes, concatenated in the order of the nodes."""
        starts, sizes = self._bounds[nodes], self._bounds[nodes + 1] - self._bounds[nodes]
        # The position of each child among the children of its node.
        offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        children: IntArray = self._by_parent[np.repeat(starts, sizes) + offsets]
        return children
