"""Decoded nodes of the entity forest, shared by the snapshots of the same commit.

In: a change number. Out: the kernel's cache of decoded nodes for that state; nodes are decoded on first use.
"""

from __future__ import annotations

from threading import Lock

from kvstore_cext.hierarchy import NodeSentences

#: The maximum number of decoded nodes; if there are more, the cache is cleared.
_MAX_NODES = 1 << 17


class NodeCache:
    """The decoded nodes of the state requested last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._change = -1
        self._nodes: dict[int, NodeSentences] = {}
        self._keys: dict[int, str] = {}

    def get_keys(self, change: int) -> dict[int, str]:
        """Return the shared cache of normal forms of node names as of commit number ``change``."""
        with self._lock:
            self._switch_change(change)
            return self._keys

    def get_nodes(self, change: int, relatives: int) -> NodeSentences:
        """Return the decoded nodes as of commit number ``change``, each rendered with up to ``relatives`` relatives."""
        with self._lock:
            self._switch_change(change)
            if relatives not in self._nodes:
                self._nodes[relatives] = NodeSentences(relatives, _MAX_NODES)
            return self._nodes[relatives]

    def _switch_change(self, change: int) -> None:
        """Drop the cached data of another state."""
        if change != self._change:
            self._change, self._nodes, self._keys = change, {}, {}
