"""Baselines of CFT-RAG: other methods to find every occurrence of an entity in a forest and to describe its relatives.

In: trees as child–parent pairs, the root's first. Out: for a name every node with it, and for names the same sentences
that the strategy ``cft`` writes. Three methods are from the paper (§4.1): breadth-first search over all trees, the same
with a Bloom filter in every node, and that without the filters directly above the leaves. Two are added: a dictionary,
and an LMDB B-tree keyed by name, which is on disk like the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Any, Protocol

import lmdb
import msgpack

Pair = tuple[str, str]
_ID = Struct(">I")


class TreeNode:
    """A node of one tree; ``bloom`` contains the names of its subtree after :class:`BloomSearch` has filled it."""

    __slots__ = ("above_leaves", "bloom", "children", "name", "parent", "tree")

    def __init__(self, name: str, tree: str, parent: TreeNode | None) -> None:
        self.name = name
        self.tree = tree
        self.parent = parent
        self.children: list[TreeNode] = []
        self.bloom = 0
        self.above_leaves = False
        if parent is not None:
            parent.children.append(self)


def build_trees(trees: Mapping[str, Sequence[Pair]]) -> list[TreeNode]:
    """Build trees from pairs, every parent before its children; return the roots. Children are ordered by name."""
    roots = []
    for tree, pairs in trees.items():
        root = TreeNode(pairs[0][1], tree, None)
        nodes = {root.name: root}
        for child, parent in pairs:
            nodes[child] = TreeNode(child, tree, nodes[parent])
        for node in nodes.values():
            node.children.sort(key=lambda child: child.name)
        roots.append(root)
    return roots


def describe_node(node: TreeNode, relatives: int) -> str:
    """Return the sentence about a node: its first ancestors and descendants, the nearest first."""
    above: list[str] = []
    parent = node.parent
    while parent is not None and len(above) < relatives:
        above.append(parent.name)
        parent = parent.parent
    below: list[str] = []
    queue = deque([node])
    while queue and len(below) < relatives:
        for child in queue.popleft().children:
            below.append(child.name)
            queue.append(child)
    return format_sentence(node.name, node.tree, above, below[:relatives])


def format_sentence(name: str, tree: str, above: Sequence[str], below: Sequence[str]) -> str:
    """Format the sentence about one occurrence of a name."""
    if not below:
        return f"{name} (in {tree}) is under {', '.join(above)}"
    if not above:
        return f"{name} (in {tree}) is above {', '.join(below)}"
    return f"{name} (in {tree}) is under {', '.join(above)}; above {', '.join(below)}"


class Search(Protocol):
    """A method of finding a name."""

    def build_context(self, names: Iterable[str], relatives: int) -> list[str]:
        """Return the sentences about every node of every name."""
        ...


class _InMemory(ABC):
    """A method that finds the nodes of a name among nodes in memory."""

    @abstractmethod
    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return every node with a name."""

    def build_context(self, names: Iterable[str], relatives: int) -> list[str]:
        """Return the sentences about every node of every name."""
        return [describe_node(node, relatives) for name in names for node in self.find_nodes(name)]


class NaiveSearch(_InMemory):
    """Naive T-RAG: breadth-first search over all trees for each name."""

    def __init__(self, roots: Sequence[TreeNode]) -> None:
        self._roots = roots

    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return every node with a name, comparing the names of all nodes."""
        found = []
        queue = deque(self._roots)
        while queue:
            node = queue.popleft()
            if node.name == name:
                found.append(node)
            queue.extend(node.children)
        return found


class BloomSearch(_InMemory):
    """Bloom Filter T-RAG: a subtree is skipped if the Bloom filter of its root does not contain the name.

    Ten bits per name of the largest tree and seven hashes: one false positive in 120.
    """

    def __init__(self, roots: Sequence[TreeNode]) -> None:
        self._roots = roots
        largest = max(_mark_leaf_parents(root) for root in roots)
        self._bits = 10 * largest
        for root in roots:
            self._fill_blooms(root)

    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return every node with a name, skipping subtrees whose filters lack it."""
        mask = self._compute_mask(name)
        found = []
        queue = deque(self._roots)
        while queue:
            node = queue.popleft()
            if node.bloom & mask == mask:
                if node.name == name:
                    found.append(node)
                queue.extend(node.children)
        return found

    def _compute_mask(self, name: str) -> int:
        """Return the seven bits of a name in a Bloom filter."""
        digest = blake2b(name.encode(), digest_size=28).digest()
        mask = 0
        for start in range(0, 28, 4):
            mask |= 1 << int.from_bytes(digest[start : start + 4]) % self._bits
        return mask

    def _fill_blooms(self, node: TreeNode) -> int:
        """Fill the filters of a node and of all nodes below it; return the filter of the node."""
        node.bloom = self._compute_mask(node.name)
        for child in node.children:
            node.bloom |= self._fill_blooms(child)
        return node.bloom


class ImprovedBloomSearch(BloomSearch):
    """Improved Bloom Filter T-RAG: nodes just above the leaves are not checked."""

    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return every node with a name, without testing filters directly above the leaves."""
        mask = self._compute_mask(name)
        found = []
        queue = deque(self._roots)
        while queue:
            node = queue.popleft()
            if node.above_leaves or node.bloom & mask == mask:
                if node.name == name:
                    found.append(node)
                queue.extend(node.children)
        return found


def _mark_leaf_parents(node: TreeNode) -> int:
    """Mark the nodes in a subtree whose children are all leaves, and return the number of its nodes."""
    node.above_leaves = bool(node.children) and not any(child.children for child in node.children)
    return 1 + sum(_mark_leaf_parents(child) for child in node.children)


class DictionarySearch(_InMemory):
    """A Python dictionary from names to nodes."""

    def __init__(self, roots: Sequence[TreeNode]) -> None:
        self._nodes: dict[str, list[TreeNode]] = {}
        queue = deque(roots)
        while queue:
            node = queue.popleft()
            self._nodes.setdefault(node.name, []).append(node)
            queue.extend(node.children)

    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return every node with a name."""
        return self._nodes.get(name, [])


class LmdbSearch:
    """An LMDB B-tree from names to node ids, and one from ids to nodes, with one read transaction per question."""

    def __init__(self, roots: Sequence[TreeNode], path: Path) -> None:
        self._environment = lmdb.open(str(path), map_size=1 << 30, max_dbs=2)
        self._names = self._environment.open_db(b"names")
        self._nodes = self._environment.open_db(b"nodes")
        ids: dict[TreeNode, int] = {}
        places: dict[str, list[int]] = {}
        queue = deque(roots)
        while queue:
            node = queue.popleft()
            ids[node] = len(ids)
            places.setdefault(node.name, []).append(ids[node])
            queue.extend(node.children)
        with self._environment.begin(write=True) as transaction:
            for name, found in places.items():
                transaction.put(name.encode(), msgpack.packb(found), db=self._names)
            for node, number in ids.items():
                parent = None if node.parent is None else ids[node.parent]
                body = [node.name, node.tree, parent, [ids[child] for child in node.children]]
                transaction.put(_ID.pack(number), msgpack.packb(body), db=self._nodes)

    def close(self) -> None:
        """Close the LMDB environment."""
        self._environment.close()

    def build_context(self, names: Iterable[str], relatives: int) -> list[str]:
        """Return the sentences about every node of every name."""
        sentences = []
        with self._environment.begin(buffers=True) as transaction:
            for name in names:
                found = transaction.get(name.encode(), db=self._names)
                for number in () if found is None else msgpack.unpackb(found):
                    sentences.append(self._build_sentence(transaction, number, relatives))
        return sentences

    def _build_sentence(self, transaction: Any, number: int, relatives: int) -> str:
        """Return the sentence about the node with this number."""

        def get_node(number: int) -> Any:
            """Return the stored node: name, tree, parent and children."""
            return msgpack.unpackb(transaction.get(_ID.pack(number), db=self._nodes))

        name, tree, parent, children = get_node(number)
        names_above: list[str] = []
        while parent is not None and len(names_above) < relatives:
            name_above, _, parent, _ = get_node(parent)
            names_above.append(name_above)
        names_below: list[str] = []
        queue = deque(children)
        while queue and len(names_below) < relatives:
            name_below, _, _, children = get_node(queue.popleft())
            names_below.append(name_below)
            queue.extend(children)
        return format_sentence(name, tree, names_above, names_below)
