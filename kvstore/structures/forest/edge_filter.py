"""Which of the edges stated in a tree are accepted (CFT-RAG §2.3), as a function of the set of stated edges alone.

In: the edges of one tree, child → parent, and which is the stronger of two. Out: for each edge whether it lies on a
cycle, and whether it is accepted or why not. No edge points to itself, and an edge stated often is one edge.

The rule, in two steps:

1. *Cycles.* An edge lies on a cycle exactly when both its ends are in one strongly connected component. The edges of a
   component are taken in order of their strength, the strongest first, and each is kept unless it closes a cycle with
   those kept before it. Edges between components are all kept. What is kept has no cycle: one would lie within a
   component, and its weakest edge would have closed it.
2. *Transitive edges.* Of what was kept, an edge is accepted unless a longer way leads from its child to its parent.
   That is the transitive reduction, which a graph without cycles has only one of (Aho, Garey and Ullman 1972).

Strongly connected components and the transitive reduction are properties of the set, and the order of strength is total
and made of what is stated (:class:`Strength`, then the names), so nothing depends on ids or on history. Every end of a
stated edge has an accepted edge: an edge is left out only where accepted ones lead from its child to its parent, or
from its parent to its child.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

#: Child and parent.
Edge = tuple[int, int]

ACCEPTED = 0
#: Refused because a longer way of accepted edges leads from the child to the parent.
REDUNDANT = 1
#: Refused because stronger edges lead from the parent to the child.
CYCLIC = 2

#: Nodes that are looked for at once above all others.
_BITS = 2048


class Strength(NamedTuple):
    """How firmly an edge is stated; the stronger of two sorts first.

    More evidence is stronger (``support`` is the sum of all confidences, in thousandths, negative), then nearer
    evidence (``distance`` is the bytes of the shortest sentence that states the edge, 0 where data or the user do),
    then what is said earlier in its document (``position``, in bytes).
    """

    support: int
    distance: int
    position: int


def judge(edges: Iterable[Edge], looped: Sequence[Edge]) -> dict[Edge, int]:
    """The verdict on every edge of a tree; ``looped`` are those that lie on cycles, the strongest first."""
    cyclic = set(looped).difference(acyclic(looped))
    verdicts = {edge: CYCLIC if edge in cyclic else ACCEPTED for edge in edges}
    for edge in redundant(edge for edge, verdict in verdicts.items() if verdict == ACCEPTED):
        verdicts[edge] = REDUNDANT
    return verdicts


def on_cycles(edges: Iterable[Edge]) -> set[Edge]:
    """The edges both of whose ends are in one strongly connected component (Tarjan 1972)."""
    parents = _parents(edges)
    component: dict[int, int] = {}
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    for root in parents:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        open_nodes.append(root)
        walk = [(root, iter(parents[root]))]
        while walk:
            node, above = walk[-1]
            for parent in above:
                if parent not in index:
                    index[parent] = low[parent] = len(index)
                    open_nodes.append(parent)
                    walk.append((parent, iter(parents.get(parent, ()))))
                    break
                if parent not in component:
                    low[node] = min(low[node], index[parent])
            else:
                walk.pop()
                if walk:
                    below = walk[-1][0]
                    low[below] = min(low[below], low[node])
                if low[node] == index[node]:
                    while component.get(node) is None:
                        component[open_nodes.pop()] = node
    return {
        (child, parent) for child, above in parents.items() for parent in above if component[child] == component[parent]
    }


def acyclic(edges: Sequence[Edge]) -> list[Edge]:
    """Each of some edges, in their order, unless it closes a cycle with those kept before it.

    A topological order of what is kept is maintained, so that only the nodes between the two ends are searched (Pearce
    and Kelly 2006).
    """
    order = {node: place for place, node in enumerate(dict.fromkeys(node for edge in edges for node in edge))}
    above: dict[int, list[int]] = {node: [] for node in order}
    below: dict[int, list[int]] = {node: [] for node in order}
    kept = []
    for child, parent in edges:
        lowest, highest = order[parent], order[child]
        if lowest < highest:
            between = range(lowest, highest + 1)
            reached = _reach(parent, above, order, between)
            if child in reached:
                continue
            leading = _reach(child, below, order, between)
            moved = sorted(leading, key=order.__getitem__) + sorted(reached, key=order.__getitem__)
            order.update(zip(moved, sorted(order[node] for node in moved), strict=True))
        above[child].append(parent)
        below[parent].append(child)
        kept.append((child, parent))
    return kept


def redundant(edges: Iterable[Edge]) -> list[Edge]:
    """Those of the edges of a graph without cycles whose parent is reached from the child by a longer way too.

    What lies above a node is a set of bits, joined from those of its parents; only parents of nodes that have several
    have a bit, and so many have one at a time that a large graph needs little memory.
    """
    parents = _parents(edges)
    several = [child for child, direct in parents.items() if len(direct) > 1]
    wanted = list(dict.fromkeys(parent for child in several for parent in parents[child]))
    upwards = _parents_first(parents)
    found = []
    for first in range(0, len(wanted), _BITS):
        bit = {node: 1 << place for place, node in enumerate(wanted[first : first + _BITS])}
        above: dict[int, int] = {}
        for node in upwards:
            reached = 0
            for parent in parents[node]:
                reached |= above[parent] | bit.get(parent, 0)
            above[node] = reached
        for child in several:
            farther = 0
            for parent in parents[child]:
                farther |= above[parent]
            found += [(child, parent) for parent in parents[child] if farther & bit.get(parent, 0)]
    return found


def _parents(edges: Iterable[Edge]) -> dict[int, list[int]]:
    parents: dict[int, list[int]] = {}
    for child, parent in edges:
        parents.setdefault(child, []).append(parent)
        parents.setdefault(parent, [])
    return parents


def _parents_first(parents: Mapping[int, Sequence[int]]) -> list[int]:
    """The nodes of a graph without cycles, each after all of its parents."""
    done: dict[int, None] = {}
    for start in parents:
        waiting = [start]
        while waiting:
            node = waiting[-1]
            unknown = [parent for parent in parents[node] if parent not in done]
            if unknown:
                waiting += unknown
                continue
            waiting.pop()
            done[node] = None
    return list(done)


def _reach(start: int, onward: Mapping[int, Sequence[int]], order: Mapping[int, int], between: range) -> set[int]:
    """The nodes reached from one over nodes whose place in the order is ``between`` two others."""
    seen = {start}
    waiting = [start]
    while waiting:
        for node in onward[waiting.pop()]:
            if node not in seen and order[node] in between:
                seen.add(node)
                waiting.append(node)
    return seen
