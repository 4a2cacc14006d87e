"""Changes to the entity forest: added and withdrawn assertions of edges, and the resulting accepted edges and nodes. An
*assertion* says that a document or the user places an entity (the child) under another (the parent) in a tree. A *node*
is an entity in a tree; it exists while it has an edge.

In: assertions of documents and of the user, by tree name and entity. On disk: the tables of
:mod:`~kvstore.structures.forest.forest`. Out: the added or removed nodes, for the block lists of the entities. The
accepted edges follow from the asserted ones (:mod:`~kvstore.structures.forest.transitive_reduction`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ...storage import records
from ...storage.environment import WriteView
from ...storage.view import ViewWriter
from .. import tables
from ..counters import Counters
from .forest import EDGE_STRUCT, NODE_STRUCT, USER, USER_ASSERTION, Assertion, Forest
from .transitive_reduction import TransitiveReduction

#: Nodes with their entities.
NodeEntityPairs = list[tuple[int, int]]


class ForestWriter(ViewWriter, Forest):
    """The entity forest of one write transaction. Changes return the nodes that they add or remove, each with its
    entity, so that the caller can update the addresses of the entities.
    """

    def __init__(self, view: WriteView, counters: Counters) -> None:
        """Create a writer of the forest in ``view``, a write transaction.

        ``counters`` has the next ids of nodes and trees, and the number of edges; changes update it.
        """
        super().__init__(view)
        self._counters = counters
        self.reduction = TransitiveReduction(view, counters)

    def add_document_edges(
        self, document: int, edges: Mapping[tuple[str, int, int], Sequence[Assertion]]
    ) -> NodeEntityPairs:
        """Add all edges that a document asserts, and return the added nodes with their entities.

        ``edges`` holds the assertions by tree name, child entity and parent entity.
        """
        new_nodes: NodeEntityPairs = []
        node_edges = [
            self._put_assertions(tree, child, parent, assertions, new_nodes)
            for (tree, child, parent), assertions in edges.items()
        ]
        if node_edges:
            rows = b"".join(EDGE_STRUCT.pack(*edge) for edge in sorted(node_edges))
            self._write_view.put(tables.DOCUMENT_EDGES, records.encode_u64(document), records.seal(rows))
        return new_nodes

    def remove_document_edges(self, documents: Sequence[int]) -> NodeEntityPairs:
        """Withdraw all edges that documents assert; return the removed nodes with their entities."""
        removed_nodes: NodeEntityPairs = []
        for document, edges in self.list_document_edges(documents).items():
            for child, parent in edges:
                self._remove_assertions(child, parent, document, removed_nodes)
            self._write_view.delete(tables.DOCUMENT_EDGES, records.encode_u64(document))
        return removed_nodes

    def add_user_edge(self, tree: str, child: int, parent: int, names: tuple[str, str]) -> NodeEntityPairs:
        """Add an edge that the user asserts between two entities; return the added nodes with their entities.

        ``names`` are the names of the child and the parent as the user typed them.
        """
        new_nodes: NodeEntityPairs = []
        child_node, parent_node = self._put_assertions(tree, child, parent, [USER_ASSERTION], new_nodes)
        key = records.U64_PAIR.pack(child_node, parent_node)
        self._write_view.put(tables.STATED_EDGES, key, records.pack((*names, tree)))
        return new_nodes

    def remove_user_edge(self, child: int, parent: int) -> NodeEntityPairs:
        """Withdraw the user's assertion of the edge between two nodes; return the removed nodes with their entities."""
        removed_nodes: NodeEntityPairs = []
        self._write_view.delete(tables.STATED_EDGES, records.U64_PAIR.pack(child, parent))
        self._remove_assertions(child, parent, USER, removed_nodes)
        return removed_nodes

    def _put_assertions(
        self, tree: str, child: int, parent: int, assertions: Sequence[Assertion], new_nodes: NodeEntityPairs
    ) -> tuple[int, int]:
        """Write the assertions of an edge by one document (or the user); return the child node and the parent node.

        Updates the strength of a known edge; counts a new one, and decides whether it is accepted. Appends each node
        that had to be added, with its entity, to ``new_nodes``.
        """
        tree_id = self._get_or_add_tree(tree)
        child_node, parent_node = (self._get_or_add_node(tree_id, entity, new_nodes) for entity in (child, parent))
        key = records.U64_PAIR.pack(child_node, parent_node)
        ordered_assertions = sorted(
            assertions, key=lambda assertion: (assertion.start, assertion.end, assertion.kind, assertion.confidence)
        )
        rows = [assertion[1:] for assertion in ordered_assertions]  # without the document, which is in the key
        is_known = self.get_edge_status(child_node, parent_node) is not None
        self._write_view.put(tables.STATEMENTS, key + records.encode_u64(assertions[0].document), records.pack(rows))
        if is_known:
            self.reduction.update_strength(child_node, parent_node)
        else:
            self._counters.edges += 1
            self.reduction.classify_new_edge(child_node, parent_node)
        return child_node, parent_node

    def _remove_assertions(self, child: int, parent: int, document: int, removed_nodes: NodeEntityPairs) -> None:
        """Remove all assertions of an edge by one document, or by the user (``document`` is USER).

        The edge remains, with a new strength, if another document or the user asserts it. Otherwise the edge is
        removed, and so are its two nodes if they have no other edge. Each removed node is appended to ``removed_nodes``
        with its entity.
        """
        key = records.U64_PAIR.pack(child, parent)
        self._write_view.delete(tables.STATEMENTS, key + records.encode_u64(document))
        if next(self.iter_assertions(child, parent), None) is not None:
            self.reduction.update_strength(child, parent)
            return
        self._counters.edges -= 1
        self.reduction.remove_edge(child, parent)
        for node in (child, parent):
            if next(chain(self.iter_asserted_parents(node), self.iter_asserted_children(node)), None) is None:
                removed_nodes.append((node, self._remove_node(node)))

    def _remove_node(self, node: int) -> int:
        """Remove a node, and its tree if it was the last node; return its entity."""
        tree, entity = self.get_node(node)
        self._write_view.delete(tables.NODES, records.encode_u64(node))
        self._write_view.delete(tables.NODE_NAMES, records.U32_PAIR.pack(tree, entity))
        if next(self.iter_nodes(tree), None) is None:
            self._write_view.delete(tables.TREE_NAMES, self.get_tree_name(tree).encode())
            self._write_view.delete(tables.TREES, records.encode_u32(tree))
        return entity

    def _get_or_add_tree(self, name: str) -> int:
        """Return the id of the tree with this name; add the tree if it is missing."""
        tree_id = self.find_tree(name)
        if tree_id is None:
            tree_id = self._counters.next_tree
            self._counters.next_tree += 1
            self._write_view.put(tables.TREES, records.encode_u32(tree_id), records.pack(name))
            self._write_view.put(tables.TREE_NAMES, name.encode(), records.encode_u32(tree_id))
        return tree_id

    def _get_or_add_node(self, tree: int, entity: int, new_nodes: NodeEntityPairs) -> int:
        """Return the node of an entity in a tree; add it if it is missing, and append it to ``new_nodes``."""
        node = self.find_node(tree, entity)
        if node is None:
            node = self._counters.next_node
            self._counters.next_node += 1
            self._write_view.put(tables.NODES, records.encode_u64(node), records.seal(NODE_STRUCT.pack(tree, entity)))
            self._write_view.put(tables.NODE_NAMES, records.U32_PAIR.pack(tree, entity), records.encode_u64(node))
            new_nodes.append((node, entity))
        return node
