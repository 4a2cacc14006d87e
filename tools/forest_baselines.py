"""Baselines of CFT-RAG: other methods to find every occurrence of an entity in a forest and to describe its relatives.
T-RAG is retrieval from trees of entities, by a search of all nodes.

In: trees as child–parent pairs, the root's first. Out: for a name every node with it, and for names the same sentences
that the ``cft`` strategy writes. Three methods are from the paper (§4.1): breadth-first search over all trees, the same
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

    __slots__ = ("bloom", "children", "is_leaf_parent", "name", "parent", "tree")

    def __init__(self, name: str, tree: str, parent: TreeNode | None) -> None:
        """Create a node of the tree with the name ``tree``, and add it to the children of its parent."""
        self.name = name
        self.tree = tree
        self.parent = parent
        self.children: list[TreeNode] = []
        self.bloom = 0  # the bits of a Bloom filter of the names in the subtree
        self.is_leaf_parent = False  # True if all children are leaves
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
    """Return the sentence about a node that names its ancestors and descendants, at most ``relatives`` of each.

    The nearest are first.
    """
    ancestors: list[str] = []
    parent = node.parent
    while parent is not None and len(ancestors) < relatives:
        ancestors.append(parent.name)
        parent = parent.parent
    descendants: list[str] = []
    queue = deque([node])
    while queue and len(descendants) < relatives:
        for child in queue.popleft().children:
            descendants.append(child.name)
            queue.append(child)
    return format_sentence(node.name, node.tree, ancestors, descendants[:relatives])


def format_sentence(name: str, tree: str, ancestors: Sequence[str], descendants: Sequence[str]) -> str:
    """Return the sentence about one occurrence of a name in a tree; one of the lists may be empty."""
    if not descendants:
        return f"{name} (in {tree}) is under {', '.join(ancestors)}"
    if not ancestors:
        return f"{name} (in {tree}) is above {', '.join(descendants)}"
    return f"{name} (in {tree}) is under {', '.join(ancestors)}; above {', '.join(descendants)}"


class Search(Protocol):
    """A method to find the nodes of names in a forest."""

    def build_context(self, names: Iterable[str], relatives: int) -> list[str]:
        """Return the sentences about every node of every name."""
        ...


class _InMemory(ABC):
    """A search among nodes in memory."""

    @abstractmethod
    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return all nodes that have this name."""

    def build_context(self, names: Iterable[str], relatives: int) -> list[str]:
        """Return the sentences about every node of every name."""
        return [describe_node(node, relatives) for name in names for node in self.find_nodes(name)]


class NaiveSearch(_InMemory):
    """Naive T-RAG: breadth-first search over all trees for each name."""

    def __init__(self, roots: Sequence[TreeNode]) -> None:
        """Search the trees with these roots, without an index."""
        self._roots = roots

    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return all nodes that have this name, by comparing it with every node."""
        nodes = []
        queue = deque(self._roots)
        while queue:
            node = queue.popleft()
            if node.name == name:
                nodes.append(node)
            queue.extend(node.children)
        return nodes


class BloomSearch(_InMemory):
    """Bloom Filter T-RAG: a subtree is skipped if the Bloom filter of its root does not contain the name.

    Ten bits per name of the largest tree and seven hashes: one false positive in 120.
    """

    def __init__(self, roots: Sequence[TreeNode]) -> None:
        """Fill the Bloom filter of every node of the trees with these roots."""
        self._roots = roots
        max_nodes = max(_mark_leaf_parents(root) for root in roots)
        self._num_bits = 10 * max_nodes  # ten for each name of the largest tree
        for root in roots:
            self._fill_blooms(root)

    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return all nodes that have this name, skipping subtrees whose filters lack it."""
        mask = self._compute_mask(name)
        nodes = []
        queue = deque(self._roots)
        while queue:
            node = queue.popleft()
            if node.bloom & mask == mask:
                if node.name == name:
                    nodes.append(node)
                queue.extend(node.children)
        return nodes

    def _compute_mask(self, name: str) -> int:
        """Return an integer in which the bits of a name in a Bloom filter are set, one for each of seven hashes."""
        digest = blake2b(name.encode(), digest_size=28).digest()  # seven hashes of four bytes
        mask = 0
        for start in range(0, 28, 4):
            mask |= 1 << int.from_bytes(digest[start : start + 4]) % self._num_bits
        return mask

    def _fill_blooms(self, node: TreeNode) -> int:
        """Fill the Bloom filters (integers of bits) of a node and of all nodes below it; return that of the node."""
        node.bloom = self._compute_mask(node.name)
        for child in node.children:
            node.bloom |= self._fill_blooms(child)
        return node.bloom


class ImprovedBloomSearch(BloomSearch):
    """Improved Bloom Filter T-RAG: nodes just above the leaves are not checked."""

    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return all nodes that have this name, without testing filters directly above the leaves."""
        mask = self._compute_mask(name)
        nodes = []
        queue = deque(self._roots)
        while queue:
            node = queue.popleft()
            if node.is_leaf_parent or node.bloom & mask == mask:
                if node.name == name:
                    nodes.append(node)
                queue.extend(node.children)
        return nodes


def _mark_leaf_parents(node: TreeNode) -> int:
    """Mark the nodes in a subtree whose children are all leaves, and return the number of its nodes."""
    node.is_leaf_parent = bool(node.children) and not any(child.children for child in node.children)
    return 1 + sum(_mark_leaf_parents(child) for child in node.children)


class DictionarySearch(_InMemory):
    """A Python dictionary from names to nodes."""

    def __init__(self, roots: Sequence[TreeNode]) -> None:
        """Collect the nodes of the trees with these roots, by name."""
        self._nodes: dict[str, list[TreeNode]] = {}
        queue = deque(roots)
        while queue:
            node = queue.popleft()
            self._nodes.setdefault(node.name, []).append(node)
            queue.extend(node.children)

    def find_nodes(self, name: str) -> list[TreeNode]:
        """Return all nodes that have this name."""
        return self._nodes.get(name, [])


class LmdbSearch:
    """An LMDB B-tree from names to node ids, and one from ids to nodes, with one read transaction per question."""

    def __init__(self, roots: Sequence[TreeNode], path: Path) -> None:
        """Write the nodes of the trees with these roots to an LMDB environment at ``path``."""
        self._environment = lmdb.open(str(path), map_size=1 << 30, max_dbs=2)
        # ``names``: the ids of the nodes of each name; ``nodes``: name, tree, parent's id and children's ids by id.
        self._names = self._environment.open_db(b"names")
        self._nodes = self._environment.open_db(b"nodes")
        ids: dict[TreeNode, int] = {}
        ids_by_name: dict[str, list[int]] = {}
        queue = deque(roots)
        while queue:
            node = queue.popleft()
            ids[node] = len(ids)
            ids_by_name.setdefault(node.name, []).append(ids[node])
            queue.extend(node.children)
        with self._environment.begin(write=True) as transaction:
            for name, name_ids in ids_by_name.items():
                transaction.put(name.encode(), msgpack.packb(name_ids), db=self._names)
            for node, node_id in ids.items():
                parent = None if node.parent is None else ids[node.parent]
                record = [node.name, node.tree, parent, [ids[child] for child in node.children]]
                transaction.put(_ID.pack(node_id), msgpack.packb(record), db=self._nodes)

    def close(self) -> None:
        """Close the LMDB environment."""
        self._environment.close()

    def build_context(self, names: Iterable[str], relatives: int) -> list[str]:
        """Return the sentences about every node of every name."""
        sentences = []
        with self._environment.begin(buffers=True) as transaction:
            for name in names:
                packed_ids = transaction.get(name.encode(), db=self._names)
                for node_id in () if packed_ids is None else msgpack.unpackb(packed_ids):
                    sentences.append(self._build_sentence(transaction, node_id, relatives))
        return sentences

    def _build_sentence(self, transaction: Any, node_id: int, relatives: int) -> str:
        """Return the sentence about the node with this id."""

        def get_node(node_id: int) -> Any:
            """Return a stored node: its name, its tree, and the ids of its parent and of its children."""
            return msgpack.unpackb(transaction.get(_ID.pack(node_id), db=self._nodes))

        name, tree, parent_id, child_ids = get_node(node_id)
        ancestors: list[str] = []
        while parent_id is not None and len(ancestors) < relatives:
            ancestor, _, parent_id, _ = get_node(parent_id)
            ancestors.append(ancestor)
        descendants: list[str] = []
        queue = deque(child_ids)
        while queue and len(descendants) < relatives:
            descendant, _, _, child_ids = get_node(queue.popleft())
            descendants.append(descendant)
            queue.extend(child_ids)
        return format_sentence(name, tree, ancestors, descendants)
