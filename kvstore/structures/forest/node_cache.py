"""Names of nodes of the entity forest, and sentences about nodes, cached for all snapshots of the same commit. A *node*
is an entity in a tree. Its sentence lists its nearest ancestors (nodes above it) and descendants (nodes below it).
``change`` is the number of the commit.

In: a change number. Out: the caches for that state. The forest adds names, and compiled code adds sentences, both on
first use.
"""

from __future__ import annotations

from threading import Lock

from kvstore_cext.hierarchy import NodeSentences

#: The maximum number of nodes with a cached sentence; if there are more, the cache is cleared.
_MAX_NODES = 1 << 17


class NodeCache:
    """The sentences about nodes, and the names of nodes, in the last requested state; another request drops them."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._lock = Lock()
        self._change = -1  # the number of the commit that the cached data belongs to
        self._sentences: dict[int, NodeSentences] = {}  # by the maximum number of relatives in a sentence
        self._names: dict[int, str] = {}  # normal forms of node names, by node

    def get_name_cache(self, change: int) -> dict[int, str]:
        """Return the shared cache of node names at commit number ``change``: the normal form of each name, by node.

        :class:`.Forest` adds the names that it reads to the returned dict. Cached data of any other commit is dropped.
        """
        with self._lock:
            self._discard_other_commits(change)
            return self._names

    def get_sentence_cache(self, change: int, max_relatives: int) -> NodeSentences:
        """Return the shared cache of sentences about nodes of the entity forest at commit number ``change``.

        Compiled code adds the sentences. Each describes a node with at most ``max_relatives`` ancestors and as many
        descendants. Cached data of any other commit is dropped.
        """
        with self._lock:
            self._discard_other_commits(change)
            if max_relatives not in self._sentences:
                self._sentences[max_relatives] = NodeSentences(max_relatives, _MAX_NODES)
            return self._sentences[max_relatives]

    def _discard_other_commits(self, change: int) -> None:
        """Drop the cached data if it belongs to a commit other than number ``change``."""
        if change != self._change:
            self._change, self._sentences, self._names = change, {}, {}
