"""Decoded nodes of the entity forest, shared by the snapshots of a store that saw the same commit.

In: a change number. Out: the kernel's store of decoded nodes for that state; nothing is decoded until it is asked for.
"""

from __future__ import annotations

from threading import Lock

from kvstore_cext.hierarchy import Places

#: Nodes kept decoded; when there are more, all are forgotten.
_MAX_NODES = 1 << 17


class NodeCache:
    """The nodes decoded in the newest state that was asked about."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._change = -1
        self._nodes: dict[int, Places] = {}
        self._keys: dict[int, str] = {}

    def get_keys(self, change: int) -> dict[int, str]:
        """Normal forms of the names of nodes as of commit number ``change``, for all to read and to fill."""
        with self._lock:
            self._switch_change(change)
            return self._keys

    def get_nodes(self, change: int, relatives: int) -> Places:
        """The nodes decoded as of commit number ``change``, each to be told with so many relatives."""
        with self._lock:
            self._switch_change(change)
            if relatives not in self._nodes:
                self._nodes[relatives] = Places(relatives, _MAX_NODES)
            return self._nodes[relatives]

    def _switch_change(self, change: int) -> None:
        """Forget what is of another state."""
        if change != self._change:
            self._change, self._nodes, self._keys = change, {}, {}
