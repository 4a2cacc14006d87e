"""Decoded nodes of the entity forest, shared by the snapshots of the same commit.

In: a change number. Out: the kernel's cache of decoded nodes for that state; nodes are decoded on first use. A decoded
node is described by a sentence that names its nearest relatives: ancestors (nodes above it) and descendants (below it).
"""

from __future__ import annotations

from threading import Lock

from kvstore_cext.hierarchy import NodeSentences

#: The maximum number of decoded nodes; if there are more, the cache is cleared.
_MAX_NODES = 1 << 17


class NodeCache:
    """The decoded nodes of the last requested state; a request for another state drops them."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._lock = Lock()
        self._change = -1  # the number of the commit that the cached data belongs to
        self._nodes: dict[int, NodeSentences] = {}  # decoded nodes, by the maximum number of relatives of each
        self._keys: dict[int, str] = {}  # normal forms of node names, by node

    def get_keys(self, change: int) -> dict[int, str]:
        """Return the shared cache of the normal forms of node names, by node, at commit number ``change``."""
        with self._lock:
            self._switch_change(change)
            return self._keys

    def get_nodes(self, change: int, max_relatives: int) -> NodeSentences:
        """Return the cache of sentences about nodes of the entity forest at commit number ``change``.

        A node is described with at most ``max_relatives`` ancestors and as many descendants.
        """
        with self._lock:
            self._switch_change(change)
            if max_relatives not in self._nodes:
                self._nodes[max_relatives] = NodeSentences(max_relatives, _MAX_NODES)
            return self._nodes[max_relatives]

    def _switch_change(self, change: int) -> None:
        """Drop the cached data if it belongs to a commit other than number ``change``."""
        if change != self._change:
            self._change, self._nodes, self._keys = change, {}, {}
