"""Changes to the entity forest: edges stated and withdrawn, with the nodes and trees that come and go with them.

In: assertions of documents and of the user, by tree name and entity. On disk: the tables of
:mod:`~kvstore.structures.forest.forest`. Out: the nodes made or gone, for the entities' block lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from ...storage import records
from ...storage.environment import WriteView
from .. import tables
from ..counters import Counters
from .forest import EDGE_DTYPE, NODE, USER, USER_ASSERTION, Assertion, Forest
from .transitive_reduction import TransitiveReduction

#: Nodes with their entities.
NodePairs = list[tuple[int, int]]


class ForestWriter(Forest):
    """The entity forest of one write transaction."""

    def __init__(self, view: WriteView, counters: Counters) -> None:
        super().__init__(view)
        self._write = view
        self._counters = counters
        self._reduction = TransitiveReduction(view, counters)

    def add_document_edges(self, document: int, edges: Mapping[tuple[str, int, int], Sequence[Assertion]]) -> NodePairs:
        """Take in all that a document states, by tree, child and parent entity; returns the nodes made for it."""
        new_nodes: NodePairs = []
        pairs = []
        for (tree, child, parent), assertions in edges.items():
            pairs.append(self._state(tree, child, parent, assertions, new_nodes))
        if pairs:
            rows = np.array(sorted(pairs), EDGE_DTYPE)
            self._write.put(tables.DOCUMENT_EDGES, records.u64(document), records.seal(rows.tobytes()))
        return new_nodes

    def remove_document_edges(self, document: int) -> NodePairs:
        """Take back all that a document states; returns the nodes that went with it."""
        removed_nodes: NodePairs = []
        for child, parent in self.document_edges(document):
            self._withdraw(child, parent, document, removed_nodes)
        self._write.delete(tables.DOCUMENT_EDGES, records.u64(document))
        return removed_nodes

    def state(self, tree: str, child: int, parent: int, names: tuple[str, str]) -> NodePairs:
        """State an edge for the user, who typed these names; returns the nodes made for it."""
        new_nodes: NodePairs = []
        key = records.U64_PAIR.pack(*self._state(tree, child, parent, [USER_ASSERTION], new_nodes))
        self._write.put(tables.STATED_EDGES, key, records.pack((*names, tree)))
        return new_nodes

    def withdraw(self, child: int, parent: int) -> NodePairs:
        """Take back what the user stated of two nodes; returns the nodes that went with it."""
        removed_nodes: NodePairs = []
        self._write.delete(tables.STATED_EDGES, records.U64_PAIR.pack(child, parent))
        self._withdraw(child, parent, USER, removed_nodes)
        return removed_nodes

    def settle(self) -> dict[tuple[int, int], int]:
        """Judge what is left to be judged; must come after a set of changes, before anybody reads.

        Returns how many more (or fewer) accepted edges lead from an entity to another than before those changes.
        """
        return self._reduction.settle()

    def _state(
        self, tree: str, child: int, parent: int, assertions: Sequence[Assertion], made: NodePairs
    ) -> tuple[int, int]:
        """Write what one document (or the user) states of an edge; returns its nodes."""
        tree_id = self._get_or_add_tree(tree)
        child_node, parent_node = (self._get_or_add_node(tree_id, entity, made) for entity in (child, parent))
        key = records.U64_PAIR.pack(child_node, parent_node)
        rows = sorted((assertion[1:] for assertion in assertions), key=lambda row: (*row[2:], *row[:2]))
        is_known = self.verdict(child_node, parent_node) is not None
        self._write.put(tables.STATEMENTS, key + records.u64(assertions[0].document), records.pack(rows))
        if is_known:
            self._reduction.strengthen(child_node, parent_node)
        else:
            self._counters.edges += 1
            self._reduction.add(child_node, parent_node)
        return child_node, parent_node

    def _withdraw(self, child: int, parent: int, document: int, gone: NodePairs) -> None:
        key = records.U64_PAIR.pack(child, parent)
        self._write.delete(tables.STATEMENTS, key + records.u64(document))
        if next(self.assertions(child, parent), None) is not None:
            self._reduction.strengthen(child, parent)
            return
        self._counters.edges -= 1
        self._reduction.remove(child, parent)
        for node in (child, parent):
            if next(chain(self.iter_stated_parents(node), self.iter_stated_children(node)), None) is None:
                gone.append((node, self._remove_node(node)))

    def _remove_node(self, node: int) -> int:
        """Remove a node, and its tree where it was the last; returns its entity."""
        tree, entity = self.node(node)
        self._write.delete(tables.NODES, records.u64(node))
        self._write.delete(tables.NODE_NAMES, records.U32_PAIR.pack(tree, entity))
        if next(self.nodes(tree), None) is None:
            self._write.delete(tables.TREE_NAMES, self.tree_name(tree).encode())
            self._write.delete(tables.TREES, records.u32(tree))
        return entity

    def _get_or_add_tree(self, name: str) -> int:
        tree_id = self.tree(name)
        if tree_id is None:
            tree_id = self._counters.next_tree
            self._counters.next_tree += 1
            self._write.put(tables.TREES, records.u32(tree_id), records.pack(name))
            self._write.put(tables.TREE_NAMES, name.encode(), records.u32(tree_id))
        return tree_id

    def _get_or_add_node(self, tree: int, entity: int, made: NodePairs) -> int:
        node = self.find(tree, entity)
        if node is None:
            node = self._counters.next_node
            self._counters.next_node += 1
            self._write.put(tables.NODES, records.u64(node), records.seal(NODE.pack(tree, entity)))
            self._write.put(tables.NODE_NAMES, records.U32_PAIR.pack(tree, entity), records.u64(node))
            made.append((node, entity))
        return node
