"""The entity forest: named trees of entities, stated as child–parent pairs (CFT-RAG §2).

In: edges between entities of one tree, each stated by documents, by the user, or by both. On disk: ``trees`` (id →
name), ``tree_names`` (name → id), ``nodes`` (id → tree and entity), ``node_names`` (tree, entity → id), ``edges_up``
(child, parent → who states the edge), ``edges_down`` (parent, child → nothing) and ``stated_edges`` (child, parent →
the names as the user typed them). A node is stored once a tree and lives while an edge touches it; a tree lives while
it has nodes. Self-pointing edges are refused by the caller; cycles may be stated, so every walk keeps what it has seen.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import CorruptionError
from ..text.normalize import entity_key
from . import records, tables
from .counters import Counters
from .environment import View, WriteView

_NODE = struct.Struct("<II")

#: Stands for the user among those who state an edge; documents are numbered from 1.
USER = 0


class Node(NamedTuple):
    """A place of an entity in a tree."""

    tree: int
    entity: int


#: A tree and the normal forms of a child and a parent in it.
EdgeKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class StatedEdge:
    """An edge that the user states, its names as typed."""

    child: str
    parent: str
    tree: str

    @property
    def key(self) -> EdgeKey:
        return self.tree, entity_key(self.child), entity_key(self.parent)


@dataclass(frozen=True, slots=True)
class Step:
    """A node met on a walk: how many edges away, and the node it was reached from."""

    node: int
    distance: int
    via: int


class Forest:
    """The entity forest of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def node(self, node: int) -> Node:
        """Tree and entity of a node that must exist; raises CorruptionError where it does not."""
        key = records.u64(node)
        value = self._view.get(tables.NODES, key)
        if value is None:
            raise CorruptionError(f"tree node {node} is referred to but not stored; run CHECK")
        return Node._make(_NODE.unpack(records.unseal(value, tables.NODES, key)))

    def find(self, tree: int, entity: int) -> int | None:
        """The node of an entity in a tree, or None."""
        value = self._view.get(tables.NODE_NAMES, records.U32_PAIR.pack(tree, entity))
        return None if value is None else int(records.U64.unpack(value)[0])

    def tree(self, name: str) -> int | None:
        """The id of the tree of this name, or None."""
        value = self._view.get(tables.TREE_NAMES, name.encode())
        return None if value is None else int(records.U32.unpack(value)[0])

    def tree_name(self, tree: int) -> str:
        key = records.u32(tree)
        value = self._view.get(tables.TREES, key)
        if value is None:
            raise CorruptionError(f"tree {tree} is referred to but not stored; run CHECK")
        name: str = records.unpack(value, tables.TREES, key)
        return name

    def trees(self) -> Iterator[tuple[int, str]]:
        """All trees in order of their names."""
        for key, value in self._view.scan(tables.TREE_NAMES):
            yield int(records.U32.unpack(value)[0]), bytes(key).decode()

    def nodes(self, tree: int | None = None) -> Iterator[tuple[int, Node]]:
        """Nodes of one tree in order of their entities, or all nodes in order of their ids."""
        if tree is None:
            for key, value in self._view.scan(tables.NODES):
                yield records.U64.unpack(key)[0], Node._make(_NODE.unpack(value[: _NODE.size]))
        else:
            prefix = records.u32(tree)
            for key, value in self._view.scan(tables.NODE_NAMES, prefix, records.u32(tree + 1)):
                yield int(records.U64.unpack(value)[0]), Node(tree, records.U32_PAIR.unpack(key)[1])

    def parents(self, node: int) -> Iterator[int]:
        """The node's parents, in order of their ids."""
        return self._neighbours(tables.EDGES_UP, node)

    def children(self, node: int) -> Iterator[int]:
        """The node's children, in order of their ids."""
        return self._neighbours(tables.EDGES_DOWN, node)

    def edges(self) -> Iterator[tuple[int, int, list[int]]]:
        """All edges: child node, parent node, who states it (see :meth:`stated_by`)."""
        for key, value in self._view.scan(tables.EDGES_UP):
            child, parent = records.U64_PAIR.unpack(key)
            yield child, parent, records.unpack(value, tables.EDGES_UP, bytes(key))

    def stated_by(self, child: int, parent: int) -> list[int]:
        """Ids of the documents that state an edge, and USER where the user does; empty where there is no such edge."""
        key = records.U64_PAIR.pack(child, parent)
        value = self._view.get(tables.EDGES_UP, key)
        stated: list[int] = [] if value is None else records.unpack(value, tables.EDGES_UP, key)
        return stated

    def pair(self, tree: str, child: int, parent: int) -> tuple[int, int] | None:
        """The nodes of two entities in the tree of this name, or None where one of them has none."""
        number = self.tree(tree)
        if number is None:
            return None
        lower, upper = self.find(number, child), self.find(number, parent)
        return None if lower is None or upper is None else (lower, upper)

    def stated_edge(self, child: int, parent: int) -> StatedEdge | None:
        """The edge between two nodes as the user stated it, or None."""
        key = records.U64_PAIR.pack(child, parent)
        value = self._view.get(tables.STATED_EDGES, key)
        if value is None:
            return None
        lower, upper = records.unpack(value, tables.STATED_EDGES, key)
        return StatedEdge(lower, upper, self.tree_name(self.node(child).tree))

    def stated_edges(self) -> Iterator[tuple[int, int, StatedEdge]]:
        """All edges that the user states: child node, parent node, the edge as stated."""
        for key, value in self._view.scan(tables.STATED_EDGES):
            child, parent = records.U64_PAIR.unpack(key)
            lower, upper = records.unpack(value, tables.STATED_EDGES, bytes(key))
            yield child, parent, StatedEdge(lower, upper, self.tree_name(self.node(child).tree))

    def walk(self, starts: Sequence[int], *, up: bool, depth: int, limit: int) -> tuple[list[Step], bool]:
        """Nodes above (or below) some nodes, nearest first, each once: at most ``limit``, at most ``depth`` edges away.

        Also says whether the limit cut anything off.
        """
        seen = set(starts)
        steps: list[Step] = []
        queue = deque((node, 0) for node in starts)
        while queue:
            here, distance = queue.popleft()
            if distance == depth:
                continue
            for other in self.parents(here) if up else self.children(here):
                if other in seen:
                    continue
                if len(steps) == limit:
                    return steps, True
                seen.add(other)
                steps.append(Step(other, distance + 1, here))
                queue.append((other, distance + 1))
        return steps, False

    def level(self, node: int, limit: int = 10_000) -> int:
        """Edges to the nearest root above the node; 0 for a root, or where a cycle has none."""
        queue = deque([(node, 0)])
        seen = {node}
        while queue and len(seen) < limit:
            here, distance = queue.popleft()
            above = list(self.parents(here))
            if not above:
                return distance
            for other in above:
                if other not in seen:
                    seen.add(other)
                    queue.append((other, distance + 1))
        return 0

    def _neighbours(self, table: str, node: int) -> Iterator[int]:
        for key, _ in self._view.scan(table, records.u64(node), records.u64(node + 1)):
            yield records.U64_PAIR.unpack(key)[1]


class ForestWriter(Forest):
    """The entity forest of one write transaction."""

    def __init__(self, view: WriteView, counters: Counters) -> None:
        super().__init__(view)
        self._write = view
        self._counters = counters

    def add_edge(
        self, tree: str, child: int, parent: int, stated_by: int, names: tuple[str, str]
    ) -> list[tuple[int, int]]:
        """State that entity ``child`` stands under entity ``parent``; returns the nodes made for it, as (node, entity).

        Stating what the same document (or USER) stated before changes nothing. Of the user's edges the ``names`` are
        kept, child and parent as typed.
        """
        number = self._tree_for(tree)
        made: list[tuple[int, int]] = []
        lower, upper = (self._node_for(number, entity, made) for entity in (child, parent))
        stated = self.stated_by(lower, upper)
        if stated_by not in stated:
            key = records.U64_PAIR.pack(lower, upper)
            self._write.put(tables.EDGES_UP, key, records.pack(sorted([*stated, stated_by])))
            if not stated:
                self._write.put(tables.EDGES_DOWN, records.U64_PAIR.pack(upper, lower), b"")
                self._counters.edges += 1
            if stated_by == USER:
                self._write.put(tables.STATED_EDGES, key, records.pack(names))
        return made

    def remove_edge(self, tree: str, child: int, parent: int, stated_by: int) -> list[tuple[int, int]]:
        """Withdraw what a document (or USER) stated; returns the nodes that went with the edge, as (node, entity)."""
        nodes = self.pair(tree, child, parent)
        if nodes is None:
            return []
        lower, upper = nodes
        stated = self.stated_by(lower, upper)
        if stated_by not in stated:
            return []
        stated.remove(stated_by)
        key = records.U64_PAIR.pack(lower, upper)
        if stated_by == USER:
            self._write.delete(tables.STATED_EDGES, key)
        if stated:
            self._write.put(tables.EDGES_UP, key, records.pack(stated))
            return []
        self._write.delete(tables.EDGES_UP, key)
        self._write.delete(tables.EDGES_DOWN, records.U64_PAIR.pack(upper, lower))
        self._counters.edges -= 1
        number = self.node(lower).tree
        gone = [(node, entity) for node, entity in ((lower, child), (upper, parent)) if self._is_lone(node)]
        for node, entity in gone:
            self._write.delete(tables.NODES, records.u64(node))
            self._write.delete(tables.NODE_NAMES, records.U32_PAIR.pack(number, entity))
        if next(self.nodes(number), None) is None:
            self._write.delete(tables.TREES, records.u32(number))
            self._write.delete(tables.TREE_NAMES, tree.encode())
        return gone

    def _is_lone(self, node: int) -> bool:
        return next(self.parents(node), None) is None and next(self.children(node), None) is None

    def _tree_for(self, name: str) -> int:
        number = self.tree(name)
        if number is None:
            number = self._counters.next_tree
            self._counters.next_tree += 1
            self._write.put(tables.TREES, records.u32(number), records.pack(name))
            self._write.put(tables.TREE_NAMES, name.encode(), records.u32(number))
        return number

    def _node_for(self, tree: int, entity: int, made: list[tuple[int, int]]) -> int:
        node = self.find(tree, entity)
        if node is None:
            node = self._counters.next_node
            self._counters.next_node += 1
            self._write.put(tables.NODES, records.u64(node), records.seal(_NODE.pack(tree, entity)))
            self._write.put(tables.NODE_NAMES, records.U32_PAIR.pack(tree, entity), records.u64(node))
            made.append((node, entity))
        return node
