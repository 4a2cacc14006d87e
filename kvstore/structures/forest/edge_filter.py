"""The selection of accepted edges among the asserted edges of a tree (CFT-RAG §2.3). An edge leads from child to
parent. It is *cyclic* if it closes a cycle with stronger edges, *redundant* if a longer path leads from its child to
its parent, and otherwise *accepted*.

In: the edges of one tree, child → parent, and a total order of their strength. Out: for each edge, whether it lies on a
cycle, and whether it is accepted or the reason why not. The result depends only on the set of asserted edges. No edge
points to itself. An edge asserted several times is one edge.

The rule has two steps:

1. *Cycles.* An edge lies on a cycle exactly if both its ends are in one strongly connected component. The edges of a
   component are processed in order of strength, the strongest first. Each is kept unless it closes a cycle with the
   edges kept before it. Edges between components are all kept. The kept edges have no cycle: a cycle would lie within a
   component, and its weakest edge would have closed it.
2. *Transitive edges.* A kept edge is accepted unless a longer path leads from its child to its parent. The result is
   the transitive reduction, which is unique for an acyclic graph (Aho, Garey and Ullman 1972).

Strongly connected components and the transitive reduction are properties of the set. The order of strength is total and
derived from the assertions (:class:`Strength`, then the names), so nothing depends on ids or on history. Every end of
an asserted edge has an accepted edge: an edge is refused only if accepted edges lead from its child to its parent, or
from its parent to its child.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

#: Child and parent.
Edge = tuple[int, int]

ACCEPTED = 0
#: Refused because a longer path of accepted edges leads from the child to the parent.
REDUNDANT = 1
#: Refused because stronger edges lead from the parent to the child.
CYCLIC = 2

#: The number of target nodes processed at once: bits of the masks.
_TARGET_BATCH = 2048


class Strength(NamedTuple):
    """The strength of the assertions of an edge; the stronger of two sorts first.

    More evidence is stronger: ``support`` is the sum of all confidences, in thousandths, negated. Then nearer evidence
    is stronger: ``distance`` is the length in bytes of the shortest sentence that asserts the edge, 0 if the
    structure of a document or the user asserts it. Then an earlier assertion in a document is stronger: ``position``,
    in bytes.
    """

    support: int
    distance: int
    position: int


def classify_edges(edges: Iterable[Edge], cycle_edges: Sequence[Edge]) -> dict[Edge, int]:
    """Return the status of every edge of a tree; the accepted edges form a transitive reduction.

    CYCLIC edges close a cycle, REDUNDANT edges join nodes that a longer path joins too, and the others are ACCEPTED.
    ``cycle_edges`` are the edges on cycles, the strongest first.
    """
    cyclic = set(cycle_edges).difference(select_acyclic(cycle_edges))
    statuses = {edge: CYCLIC if edge in cyclic else ACCEPTED for edge in edges}
    for edge in find_redundant_edges(edge for edge, status in statuses.items() if status == ACCEPTED):
        statuses[edge] = REDUNDANT
    return statuses


def find_cycle_edges(edges: Iterable[Edge]) -> set[Edge]:
    """Return the edges that lie on a cycle: both ends are in one strongly connected component."""
    parents = _group_parents(edges)
    component = _find_components(parents)
    return {
        (child, parent)
        for child, upper_nodes in parents.items()
        for parent in upper_nodes
        if component[child] == component[parent]
    }


def _find_components(parents: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return for each node its strongly connected component, given the parents of every node (Tarjan 1972).

    A component is identified by one of its nodes, the first visited.
    """
    component: dict[int, int] = {}
    index: dict[int, int] = {}  # the order in which nodes are visited
    low: dict[int, int] = {}  # the lowest index reached from a node within its component
    open_nodes: list[int] = []  # visited nodes without a component; the recursion is an explicit stack, ``path``
    for root in parents:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        open_nodes.append(root)
        path = [(root, iter(parents[root]))]
        while path:
            node, upper_nodes = path[-1]
            for parent in upper_nodes:
                if parent not in index:
                    index[parent] = low[parent] = len(index)
                    open_nodes.append(parent)
                    path.append((parent, iter(parents.get(parent, ()))))
                    break
                if parent not in component:
                    low[node] = min(low[node], index[parent])
            else:
                path.pop()
                if path:
                    lower_node = path[-1][0]
                    low[lower_node] = min(low[lower_node], low[node])
                if low[node] == index[node]:
                    while component.get(node) is None:
                        component[open_nodes.pop()] = node
    return component


def select_acyclic(edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges in the same order, without each edge that closes a cycle with the edges kept before it.

    The function maintains a topological order of the kept edges, so it searches only the nodes between the two ends of
    an edge (Pearce and Kelly 2006).
    """
    nodes = dict.fromkeys(node for edge in edges for node in edge)
    order = {node: position for position, node in enumerate(nodes)}
    upper_nodes: dict[int, list[int]] = {node: [] for node in order}
    lower_nodes: dict[int, list[int]] = {node: [] for node in order}
    acyclic_edges = []
    for child, parent in edges:
        lowest, highest = order[parent], order[child]
        if lowest < highest:  # every child must precede its parents, so the order has to change
            affected_range = range(lowest, highest + 1)
            ancestors = _find_reachable(parent, upper_nodes, order, affected_range)
            if child in ancestors:
                continue
            descendants = _find_reachable(child, lower_nodes, order, affected_range)
            # The descendants of the child take the lowest of the positions, its new ancestors the highest.
            reordered_nodes = sorted(descendants, key=order.__getitem__) + sorted(ancestors, key=order.__getitem__)
            order.update(zip(reordered_nodes, sorted(order[node] for node in reordered_nodes), strict=True))
        upper_nodes[child].append(parent)
        lower_nodes[parent].append(child)
        acyclic_edges.append((child, parent))
    return acyclic_edges


def find_redundant_edges(edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges of an acyclic graph whose parent is also reached from the child by a longer path.

    The ancestors of a node are a bit mask: the union of its parents and their ancestors. Only parents of nodes with
    several parents need a bit. They are processed in batches, so a large graph needs little memory.
    """
    parents = _group_parents(edges)
    branching_nodes = [child for child, direct_parents in parents.items() if len(direct_parents) > 1]
    targets = list(dict.fromkeys(parent for child in branching_nodes for parent in parents[child]))
    ordered_nodes = _sort_parents_first(parents)
    redundant_edges = []
    for first in range(0, len(targets), _TARGET_BATCH):
        bits = {node: 1 << position for position, node in enumerate(targets[first : first + _TARGET_BATCH])}
        ancestor_masks: dict[int, int] = {}
        for node in ordered_nodes:
            ancestor_mask = 0
            for parent in parents[node]:
                ancestor_mask |= ancestor_masks[parent] | bits.get(parent, 0)
            ancestor_masks[node] = ancestor_mask
        for child in branching_nodes:
            far_mask = 0  # the targets that the child reaches in two or more steps
            for parent in parents[child]:
                far_mask |= ancestor_masks[parent]
            redundant_edges += [(child, parent) for parent in parents[child] if far_mask & bits.get(parent, 0)]
    return redundant_edges


def _group_parents(edges: Iterable[Edge]) -> dict[int, list[int]]:
    """Return the parents of every node of the edges; an empty list for a root."""
    parents: dict[int, list[int]] = {}
    for child, parent in edges:
        parents.setdefault(child, []).append(parent)
        parents.setdefault(parent, [])
    return parents


def _sort_parents_first(parents: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the nodes of an acyclic graph, each after all of its parents."""
    visited: dict[int, None] = {}
    for start in parents:
        stack = [start]
        while stack:
            node = stack[-1]
            unvisited = [parent for parent in parents[node] if parent not in visited]
            if unvisited:
                stack += unvisited
                continue
            stack.pop()
            visited[node] = None
    return list(visited)


def _find_reachable(
    start: int, neighbors: Mapping[int, Sequence[int]], order: Mapping[int, int], order_range: range
) -> set[int]:
    """Return the nodes reached from ``start``, including ``start``, by steps to neighbors.

    Only nodes whose position in ``order`` is in ``order_range`` are visited.
    """
    seen = {start}
    stack = [start]
    while stack:
        for node in neighbors[stack.pop()]:
            if node not in seen and order[node] in order_range:
                seen.add(node)
                stack.append(node)
    return seen
