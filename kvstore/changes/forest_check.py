"""CHECK of the entity forest: asserted edges, their statuses, nodes and trees, which must agree with each other.
Documents and the user assert *edges*: a child is below a parent in a tree. An edge that is redundant or closes a cycle
is not accepted.

In: one view and the stored documents with their sizes. Out: a sentence for each violation. The accepted edges must be
the edges that :mod:`~kvstore.structures.forest.edge_filter` derives from the asserted edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..storage.records import U64_PAIR
from ..structures import tables
from ..structures.forest.edge_filter import ACCEPTED, CYCLIC, REDUNDANT, Edge, classify_edges, find_cycle_edges
from ..structures.forest.forest import USER
from ..structures.state import State
from ..text.normalize import to_entity_key

#: The stored statuses of edges, for messages; an edge without a status is "not accepted".
_STATUS_LABELS: Mapping[int | None, str] = {
    ACCEPTED: "accepted",
    REDUNDANT: "not accepted (as redundant)",
    CYCLIC: "not accepted (as closing a cycle)",
}


def check_forest(state: State, sizes: Mapping[int, int]) -> Iterator[str]:
    """Yield every violated invariant of the forest (the trees of names) as a sentence.

    ``sizes`` has the text sizes of documents by id.
    """
    forest = state.forest
    edges = list(forest.iter_edges())
    yield from _check_assertions(state, sizes, edges)
    connected_nodes = {node for edge in edges for node in edge}
    for node, node_record in forest.iter_nodes():
        if forest.find_node(node_record.tree, node_record.entity) != node or node not in connected_nodes:
            yield f"tree node {node} is not found by its name, or has no edges"
    edges_by_tree: dict[int, list[Edge]] = {}
    for child, parent in edges:
        tree = forest.get_node(child).tree
        edges_by_tree.setdefault(tree, []).append((child, parent))
        if forest.get_node(parent).tree != tree:
            yield f"edge {child} under {parent} goes from one tree to another"
    for tree, name in forest.iter_trees():
        if forest.get_tree_name(tree) != name or tree not in edges_by_tree:
            yield f"tree {name!r} has no edges or another name"
    if state.lmdb.count(tables.TREES) != state.lmdb.count(tables.TREE_NAMES):
        yield "some trees are not found by their names"
    yield from _check_edge_statuses(state, edges_by_tree)
    yield from _check_directions(state, edges)


def _check_assertions(state: State, sizes: Mapping[int, int], edges: Sequence[Edge]) -> Iterator[str]:
    """Yield a sentence for each disagreement between the edges and the documents (or the user) that assert them.

    ``sizes`` has the text sizes of documents by id.
    """
    forest = state.forest
    sizes = {USER: 0, **sizes}
    edges_by_document: dict[int, list[Edge]] = {document: [] for document in sizes}
    for child, parent in edges:
        for document, _, _, start, end in forest.iter_assertions(child, parent):
            if not 0 <= start <= end <= sizes.get(document, -1):
                yield f"edge {child} under {parent} is asserted by a document that is not stored, or outside its text"
        for document in forest.list_asserting_documents(child, parent):
            edges_by_document.setdefault(document, []).append((child, parent))
    for document, asserted_edges in edges_by_document.items():
        if document == USER:
            recorded_edges = [(child, parent) for child, parent, _ in forest.iter_stated_edges()]
        else:
            recorded_edges = forest.list_document_edges([document]).get(document, [])
        for child, parent in sorted(set(asserted_edges) ^ set(recorded_edges)):
            owner = "the user" if document == USER else f"document {document}"
            yield f"edge {child} under {parent}: records disagree on whether {owner} asserts it"
    yield from _check_stated_edges(state)


def _check_stated_edges(state: State) -> Iterator[str]:
    """Yield a sentence for each edge of the user whose names or tree differ from those of its nodes."""
    forest = state.forest
    for child, parent, edge in forest.iter_stated_edges():
        if forest.get_tree_name(forest.get_node(child).tree) != edge.tree:
            yield f"tree node {child} is not in tree {edge.tree!r}, the tree of an edge of the user"
        for node, name in ((child, edge.child), (parent, edge.parent)):
            if forest.get_key(node) != to_entity_key(name):
                yield f"tree node {node} is not that of {name!r}, a name in an edge of the user"


def _check_edge_statuses(state: State, edges_by_tree: dict[int, list[Edge]]) -> Iterator[str]:
    """Yield a sentence for each edge whose status does not follow from the asserted edges of its tree.

    Strengths, computed from the assertions of edges, decide which edges of a cycle are accepted; the stored strengths
    are checked too.
    """
    forest = state.forest
    num_cycle_edges = 0
    for tree, edges in edges_by_tree.items():
        cycle_edges = find_cycle_edges(edges)
        num_cycle_edges += len(cycle_edges)
        wrong_edges = [edge for edge in cycle_edges if forest.get_strength(*edge) != forest.compute_strength(*edge)]
        for child, parent in sorted(wrong_edges):
            yield f"edge {child} under {parent}: its strength does not follow from its assertions"
        for (child, parent), status in classify_edges(edges, forest.sort_strongest_first(cycle_edges)).items():
            stored_status = forest.get_edge_status(child, parent)
            if stored_status != status:
                label = _STATUS_LABELS.get(stored_status, "not accepted")
                yield f"edge {child} under {parent} is {label}, which does not follow from the edges of tree {tree}"
    if num_cycle_edges != state.lmdb.count(tables.LOOPED_EDGES):
        yield "edges are recorded as part of a cycle that are not"


def _check_directions(state: State, edges: Sequence[Edge]) -> Iterator[str]:
    """Yield a sentence for each disagreement between the child-to-parent and parent-to-child tables of edges."""
    num_recorded = 0
    for up, down in ((tables.EDGES_UP, tables.EDGES_DOWN), (tables.REFUSED_UP, tables.REFUSED_DOWN)):
        upward_edges = {U64_PAIR.unpack(key) for key, _ in state.lmdb.scan(up)}
        downward_edges = {U64_PAIR.unpack(key)[::-1] for key, _ in state.lmdb.scan(down)}
        num_recorded += len(upward_edges)
        for child, parent in sorted(upward_edges - downward_edges):
            yield f"edge {child} under {parent} is missing from the parent-to-child table"
        if downward_edges - upward_edges:
            yield "edges are missing from the child-to-parent table"
    if num_recorded != len(edges):
        yield f"{len(edges)} edges are asserted, but {num_recorded} are accepted or refused"
