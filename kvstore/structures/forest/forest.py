"""The entity forest: named trees of entities, asserted as child–parent pairs (CFT-RAG §2). A *node* is an entity in a
tree. Documents and the user *assert* edges. An asserted edge is *accepted*, or *refused* because it is redundant (a
longer path exists) or cyclic (stronger edges close the cycle).

In: edges between entities of one tree, each asserted by documents, by the user, or by both. On disk: ``trees`` (id →
name), ``tree_names`` (name → id), ``nodes`` (id → tree and entity), ``node_names`` (tree, entity → id), ``statements``
(child, parent, document → how and where the document asserts the edge), ``document_edges`` (document → its edges),
``stated_edges`` (child, parent → the user's statement, as typed), and the tables that
:mod:`~kvstore.structures.forest.transitive_reduction` derives from the asserted edges. A tree has at most one node per
entity. A node exists while an asserted edge leads to or from it, and a tree while it has nodes. The caller refuses
edges from a node to itself. The accepted edges of a tree have no cycle.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from itertools import chain, groupby
from typing import NamedTuple

from ...errors import CorruptionError
from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.environment import View
from ...storage.view import ViewReader
from ...text.normalize import to_entity_key
from .. import tables
from ..names.entities import Entities
from .edge_filter import ACCEPTED, Edge, Strength

NODE_STRUCT = struct.Struct("<II")
STRENGTH_STRUCT = struct.Struct("<qII")

#: An edge that a document asserts: its child and its parent.
EDGE_STRUCT = struct.Struct("<QQ")

#: The pseudo-document id of the user, for edges that the user asserts. The ids of documents begin at 1.
USER = 0
#: The kind of an edge asserted by the user.
STATED = "stated"
#: Kinds of assertions that are not found in prose: made by the user, or found in rows of pairs, nested lists and
#: headings.
DATA_KINDS = frozenset({STATED, "pair", "list", "heading"})
#: The tree of all relations found in prose.
RELATIONS_TREE = "relations"


class Node(NamedTuple):
    """A position of an entity in a tree."""

    tree: int
    entity: int


#: A tree and the normal forms of a child and a parent in it.
EdgeKey = tuple[str, str, str]


@frozen_dataclass
class StatedEdge:
    """An edge asserted by the user, with its names as typed."""

    child: str
    parent: str
    tree: str

    @property
    def key(self) -> EdgeKey:
        """The tree, and the normal forms of the child and the parent."""
        return self.tree, to_entity_key(self.child), to_entity_key(self.parent)


class Assertion(NamedTuple):
    """One assertion of an edge: its document (or USER, the user), kind, confidence, and span in the text."""

    document: int
    kind: str
    confidence: float
    start: int
    end: int


#: The maximum number of cached names of nodes, used to sort nodes.
_MAX_KEYS = 1 << 17
#: The maximum number of nodes that a search for the nearest root visits.
_MAX_LEVEL_NODES = 10_000

#: The only assertion of an edge asserted by the user.
USER_ASSERTION = Assertion(USER, STATED, confidence=1.0, start=0, end=0)


@frozen_dataclass
class WalkStep:
    """An edge of a walk, from the node ``via`` to ``node``; ``distance`` is the distance of ``node`` from the start."""

    node: int
    distance: int
    via: int


class Forest(ViewReader):
    """The entity forest of one view, a snapshot or a write transaction. An edge is a pair of nodes, child and parent.
    Stored for each edge: its assertions, its status (ACCEPTED, REDUNDANT or CYCLIC) and, if it lies on a cycle, its
    *strength*: the weakest edges of a cycle are refused.
    """

    def __init__(self, view: View, keys: dict[int, str] | None = None) -> None:
        """Create a reader of the forest in ``view``, a snapshot or transaction.

        ``keys`` is a shared cache of the normal forms of the names of nodes (None: a new cache).
        """
        super().__init__(view)
        self._entities = Entities(view)
        self._key_cache = {} if keys is None else keys  # normal forms of the names of nodes, by node

    def get_node(self, node: int) -> Node:
        """Return the tree and the entity of a node that must exist; raise CorruptionError if it does not."""
        key = records.encode_u64(node)
        value = self._view.get(tables.NODES, key)
        if value is None:
            raise records.make_missing_error(f"tree node {node}")
        return Node._make(NODE_STRUCT.unpack(records.unseal(value, tables.NODES, key)))

    def find_node(self, tree: int, entity: int) -> int | None:
        """Return the node of an entity in a tree, or None if the entity has no node there."""
        value = self._view.get(tables.NODE_NAMES, records.U32_PAIR.pack(tree, entity))
        return None if value is None else self._decode_node(Node(tree, entity), value)

    def find_tree(self, name: str) -> int | None:
        """Return the id of the tree with this name, or None."""
        value = self._view.get(tables.TREE_NAMES, name.encode())
        return None if value is None else self._decode_tree(value, name)

    def _decode_tree(self, value: memoryview, name: str) -> int:
        """Decode the tree id stored under a tree's name; raise CorruptionError if that tree has another name."""
        tree = int(records.U32.unpack(value)[0])
        if self.get_tree_name(tree) != name:
            raise CorruptionError(f"the name {name!r} refers to another tree; run CHECK")
        return tree

    def get_tree_name(self, tree: int) -> str:
        """Return the name of a tree; raise CorruptionError if it is missing."""
        key = records.encode_u32(tree)
        value = self._view.get(tables.TREES, key)
        if value is None:
            raise records.make_missing_error(f"tree {tree}")
        name: str = records.unpack(value, tables.TREES, key)
        return name

    def iter_trees(self) -> Iterator[tuple[int, str]]:
        """Yield the id and name of all trees, in order of the names; raise CorruptionError for an inconsistent name."""
        for key, value in self._view.scan(tables.TREE_NAMES):
            name = bytes(key).decode()
            yield self._decode_tree(value, name), name

    def iter_nodes(self, tree: int | None = None) -> Iterator[tuple[int, Node]]:
        """Yield the nodes of one tree in order of their entities, or all nodes (None) in order of their ids."""
        if tree is None:
            for key, value in self._view.scan(tables.NODES):
                tree_and_entity = NODE_STRUCT.unpack(records.unseal(value, tables.NODES, bytes(key)))
                yield records.U64.unpack(key)[0], Node._make(tree_and_entity)
        else:
            prefix = records.encode_u32(tree)
            for key, value in self._view.scan(tables.NODE_NAMES, prefix, records.encode_u32(tree + 1)):
                _, entity = records.U32_PAIR.unpack(key)
                tree_node = Node(tree, entity)
                yield self._decode_node(tree_node, value), tree_node

    def iter_parents(self, node: int) -> Iterator[int]:
        """Yield the node's parents by accepted edges (neither redundant nor closing a cycle), in order of ids."""
        return self._iter_neighbors(tables.EDGES_UP, node)

    def iter_children(self, node: int) -> Iterator[int]:
        """Yield the node's children by accepted edges (neither redundant nor closing a cycle), in order of ids."""
        return self._iter_neighbors(tables.EDGES_DOWN, node)

    def iter_refused_parents(self, node: int) -> Iterator[int]:
        """Yield the node's parents whose edges were refused, because they are redundant or close a cycle."""
        return self._iter_neighbors(tables.REFUSED_UP, node)

    def iter_refused_children(self, node: int) -> Iterator[int]:
        """Yield the node's children whose edges were refused, because they are redundant or close a cycle."""
        return self._iter_neighbors(tables.REFUSED_DOWN, node)

    def iter_asserted_parents(self, node: int) -> Iterator[int]:
        """Yield all parents of the node, including those whose edges were refused (redundant or closing a cycle)."""
        return chain(self.iter_parents(node), self.iter_refused_parents(node))

    def iter_asserted_children(self, node: int) -> Iterator[int]:
        """Yield all children of the node, including those whose edges were refused (redundant or closing a cycle)."""
        return chain(self.iter_children(node), self.iter_refused_children(node))

    def iter_cycle_parents(self, node: int) -> Iterator[int]:
        """Yield the node's parents whose edges lie on a cycle of asserted edges (in a strongly connected component)."""
        return self._iter_neighbors(tables.LOOPED_EDGES, node)

    def iter_edges(self) -> Iterator[Edge]:
        """Yield all asserted edges, as (child node, parent node), in order of these ids."""
        previous: Edge | None = None
        for key, _ in self._view.scan(tables.STATEMENTS):
            edge: Edge = records.U64_PAIR.unpack(key[: records.U64_PAIR.size])
            if edge != previous:
                previous = edge
                yield edge

    def read_edge_statuses(self, tree: int) -> tuple[dict[Edge, int], set[Edge]]:
        """Return the statuses of a tree's asserted edges, and the edges that lie on cycles.

        A status is ACCEPTED, REDUNDANT (a longer path exists) or CYCLIC (it closes a cycle). Reads the whole forest, so
        it is meant for a tree that makes up most of the forest.
        """
        nodes = {node for node, tree_node in self.iter_nodes() if tree_node.tree == tree}
        statuses = dict.fromkeys((edge for edge, _ in self._scan_parent_edges(tables.EDGES_UP, nodes)), ACCEPTED)
        for edge, stored_status in self._scan_parent_edges(tables.REFUSED_UP, nodes):
            statuses[edge] = int(records.unpack(stored_status, tables.REFUSED_UP, records.U64_PAIR.pack(*edge)))
        return statuses, {edge for edge, _ in self._scan_parent_edges(tables.LOOPED_EDGES, nodes)}

    def _scan_parent_edges(self, table: str, nodes: Set[int]) -> Iterator[tuple[Edge, memoryview]]:
        """Yield the edges of a table whose child is among ``nodes``, with their stored values."""
        for key, value in self._view.scan(table):
            child, parent = records.U64_PAIR.unpack(key)
            if child in nodes:
                yield (child, parent), value

    def get_edge_status(self, child: int, parent: int) -> int | None:
        """Return the status of an edge, or None if neither the user nor a document asserts it.

        ACCEPTED edges form the tree. REDUNDANT edges (a longer path exists) and CYCLIC edges (they close a cycle) are
        refused.
        """
        key = records.U64_PAIR.pack(child, parent)
        if self._view.get(tables.EDGES_UP, key) is not None:
            return ACCEPTED
        value = self._view.get(tables.REFUSED_UP, key)
        return None if value is None else int(records.unpack(value, tables.REFUSED_UP, key))

    def compute_strength(self, child: int, parent: int) -> Strength:
        """Compute the strength of an edge's evidence from its assertions by documents and the user.

        Strengths sort the strongest first. The edge must have an assertion.
        """
        assertions = list(self.iter_assertions(child, parent))
        # Integers, thousandths of the confidences, because a sum of floats would depend on the order. Negative, so that
        # more support sorts first.
        return Strength(
            support=-sum(round(1000 * assertion.confidence) for assertion in assertions),
            distance=min(
                0 if assertion.kind in DATA_KINDS else assertion.end - assertion.start for assertion in assertions
            ),
            position=min(assertion.start for assertion in assertions),
        )

    def is_on_cycle(self, child: int, parent: int) -> bool:
        """True if an edge lies on a cycle of asserted edges."""
        return self._view.get(tables.LOOPED_EDGES, records.U64_PAIR.pack(child, parent)) is not None

    def get_strength(self, child: int, parent: int) -> Strength:
        """Return the stored strength of the evidence of an edge on a cycle; raise CorruptionError for other edges."""
        key = records.U64_PAIR.pack(child, parent)
        value = self._view.get(tables.LOOPED_EDGES, key)
        if value is None:
            raise CorruptionError(f"edge {child} under {parent} should be on a cycle and is not; run CHECK")
        return Strength(*STRENGTH_STRUCT.unpack(records.unseal(value, tables.LOOPED_EDGES, key)))

    def sort_strongest_first(self, edges: Collection[Edge]) -> list[Edge]:
        """Sort edges that lie on cycles by the strength of their evidence, the strongest first.

        Equally strong edges are ordered by the names of the child and the parent. Raises CorruptionError if an edge is
        on no cycle, because only the strengths of edges on cycles are stored.
        """
        strengths = {edge: self.get_strength(*edge) for edge in edges}
        sorted_edges: list[Edge] = []
        for _, group in groupby(sorted(edges, key=strengths.__getitem__), strengths.__getitem__):
            equally_strong = list(group)
            if len(equally_strong) > 1:  # names are read only if they decide
                equally_strong.sort(key=lambda edge: [self.get_key(node) for node in edge])
            sorted_edges += equally_strong
        return sorted_edges

    def get_key(self, node: int) -> str:
        """Return the normal form of the name of a node's entity."""
        return self.get_keys([node])[node]

    def sort_by_name(self, nodes: Iterable[int]) -> list[int]:
        """Sort nodes of one tree by the normal forms of their entities' names."""
        node_list = list(nodes)
        return node_list if len(node_list) < 2 else sorted(node_list, key=self.get_keys(node_list).__getitem__)

    def get_keys(self, nodes: Collection[int]) -> dict[int, str]:
        """Return the normal forms of the names of nodes, by node; read the missing ones together and cache them."""
        # One lookup per node, because another thread may clear the cache.
        keys = {node: key for node in nodes if (key := self._key_cache.get(node)) is not None}
        if len(keys) < len(nodes):
            missing_nodes = [node for node in nodes if node not in keys]
            missing_keys = dict(zip(missing_nodes, self._read_keys(missing_nodes), strict=True))
            if len(self._key_cache) + len(missing_keys) > _MAX_KEYS:
                self._key_cache.clear()
            self._key_cache.update(missing_keys)
            keys.update(missing_keys)
        return keys

    def _read_keys(self, nodes: Sequence[int]) -> list[str]:
        """Read the normal form of the name of each node's entity; raise CorruptionError if a node does not exist."""
        keys = list(map(records.encode_u64, nodes))
        entities = []
        for node, key, value in zip(nodes, keys, self._view.get_many(tables.NODES, keys), strict=True):
            if value is None:
                raise records.make_missing_error(f"tree node {node}")
            _, entity = NODE_STRUCT.unpack(records.unseal(value, tables.NODES, key))
            entities.append(entity)
        return [record.key for record in self._entities.get_many(entities)]

    def iter_assertions(self, child: int, parent: int) -> Iterator[Assertion]:
        """Yield the assertions of an edge: the user's, then those of documents, in order of their ids.

        An assertion says which document asserts the edge, how, and in which span of its text.
        """
        return iter(self.get_assertions([(child, parent)])[child, parent])

    def get_assertions(self, edges: Iterable[Edge]) -> dict[Edge, list[Assertion]]:
        """Return the assertions of each edge: the user's, then those of documents, in order of their ids."""
        assertions: dict[Edge, list[Assertion]] = {edge: [] for edge in edges}
        edge_bytes = records.U64_PAIR.size
        for key, value in self._view.scan_prefixes(  # a key is the edge, then the document
            tables.STATEMENTS, [records.U64_PAIR.pack(*edge) for edge in assertions]
        ):
            document = records.U64.unpack(key[edge_bytes:])[0]
            rows = records.unpack(value, tables.STATEMENTS, key)
            assertions[records.U64_PAIR.unpack(key[:edge_bytes])] += (Assertion(document, *row) for row in rows)
        return assertions

    def list_asserting_documents(self, child: int, parent: int) -> list[int]:
        """Return the ids of the documents that assert an edge, ascending.

        The list begins with the pseudo-document USER if the user asserts the edge too. It is empty if the edge does not
        exist.
        """
        return list(dict.fromkeys(assertion.document for assertion in self.iter_assertions(child, parent)))

    def list_document_edges(self, documents: Sequence[int]) -> dict[int, list[Edge]]:
        """Return the edges that each document asserts, as (child node, parent node), in order of these ids.

        Documents without edges are omitted.
        """
        keys = list(map(records.encode_u64, documents))
        values = zip(documents, keys, self._view.get_many(tables.DOCUMENT_EDGES, keys), strict=True)
        return {
            document: list(EDGE_STRUCT.iter_unpack(records.unseal(value, tables.DOCUMENT_EDGES, key)))
            for document, key, value in values
            if value is not None
        }

    def find_node_pair(self, tree: str, child: int, parent: int) -> tuple[int, int] | None:
        """Return the nodes (child, parent) of two entities in the tree named ``tree``, which need not have an edge.

        Returns None if the tree has no node for one of the entities.
        """
        tree_id = self.find_tree(tree)
        if tree_id is None:
            return None
        child_node, parent_node = self.find_node(tree_id, child), self.find_node(tree_id, parent)
        return None if child_node is None or parent_node is None else (child_node, parent_node)

    def find_stated_edge(self, child: int, parent: int) -> StatedEdge | None:
        """Return the edge between two nodes, with names as typed; None if the user did not assert it."""
        key = records.U64_PAIR.pack(child, parent)
        value = self._view.get(tables.STATED_EDGES, key)
        if value is None:
            return None
        return StatedEdge(*records.unpack(value, tables.STATED_EDGES, key))

    def iter_stated_edges(self) -> Iterator[tuple[int, int, StatedEdge]]:
        """Yield all edges asserted by the user: child node, parent node, and the edge as typed."""
        for key, value in self._view.scan(tables.STATED_EDGES):
            child, parent = records.U64_PAIR.unpack(key)
            yield child, parent, StatedEdge(*records.unpack(value, tables.STATED_EDGES, bytes(key)))

    def walk(self, starts: Sequence[int], *, up: bool, depth: int) -> Iterator[WalkStep]:
        """Yield the accepted edges above (``up``) or below some nodes of one tree, at most ``depth`` steps away.

        The nearest edges come first. The edges of one node are ordered by the names at their other ends. A node is
        yielded once for each edge that leads to it, but its own edges are followed only once.
        """
        visited = set(starts)
        queue = deque((node, 0) for node in starts)
        while queue:
            node, distance = queue.popleft()
            if distance == depth:  # the nodes after it in the queue are at least as far
                return
            for neighbor in self.sort_by_name(self.iter_parents(node) if up else self.iter_children(node)):
                yield WalkStep(neighbor, distance + 1, node)
                if neighbor not in visited:
                    visited.add(neighbor)
                    queue.append((neighbor, distance + 1))

    def compute_level(self, node: int) -> int:
        """Return the number of accepted edges from a node up to the nearest root (node without parents).

        Also 0 if the search visits ``_MAX_LEVEL_NODES`` nodes without finding a root.
        """
        queue = deque([(node, 0)])
        visited = {node}
        while queue and len(visited) < _MAX_LEVEL_NODES:
            current_node, distance = queue.popleft()
            parents = list(self.iter_parents(current_node))
            if not parents:
                return distance
            for parent in parents:
                if parent not in visited:
                    visited.add(parent)
                    queue.append((parent, distance + 1))
        return 0

    def _decode_node(self, expected_node: Node, value: bytes | memoryview) -> int:
        """Decode the id of ``expected_node``; raise CorruptionError if the node has another tree or entity."""
        node = int(records.U64.unpack(value)[0])
        if self.get_node(node) != expected_node:
            raise CorruptionError(
                f"entity {expected_node.entity} of tree {expected_node.tree} refers to the node of another entity; run "
                "CHECK"
            )
        return node

    def _iter_neighbors(self, table: str, node: int) -> Iterator[int]:
        """Yield the nodes at the other ends of a node's edges in an edge table, such as ``EDGES_UP`` (its parents)."""
        for key, _ in self._view.scan(table, records.encode_u64(node), records.encode_u64(node + 1)):
            _, neighbor = records.U64_PAIR.unpack(key)
            yield neighbor
