"""The accepted edges of the entity forest: the transitive reduction of the asserted edges, kept up to date. An edge
from child to parent is *cyclic* if it closes a cycle with stronger edges, *redundant* if a longer path joins its ends,
else *accepted*. A *deferred* tree is later classified as a whole.

In: one edge at a time that gains its first assertion, changes its strength, or loses its last assertion. On disk:
``edges_up`` and ``edges_down`` (accepted edges), ``refused_up`` and ``refused_down`` (the others, with the reason), and
``looped_edges`` (edges on a cycle of asserted edges, with their strength). Out: the changes in the numbers of accepted
edges between entities.

The result equals that of :mod:`~kvstore.structures.forest.edge_filter`. A change searches only the nodes it can affect:

- Let D be the asserted edges after cycles are broken, and A the accepted edges, the transitive reduction of D. Both
  have the same reachability, so D's reachability is searched in A. A new edge (c, p) of D is redundant if A already has
  a path from c to p. Then nothing else changes, because any longer path through the edge has a detour around it.
  Otherwise the edge is accepted. The accepted edges (x, y) with x at or below c and y at or above p now have a longer
  path and become redundant.
- If (c, p) leaves D and was redundant, nothing else changes. If it was accepted, only redundant edges (x, y) with x at
  or below c and y at or above p may have lost their longer path. They are added again one by one, as if new. Their
  order does not matter, because an acyclic graph has one transitive reduction.
- D itself changes by one edge while that edge lies on no cycle of asserted edges. Otherwise the cycles of the strongly
  connected component that the edge creates, or belonged to, are broken again. Edges that this removes from D leave it
  first; edges that it adds enter afterwards.

A path search alternates between both ends and stops when the smaller side is exhausted. Work is counted in visited
nodes, plus a cost for each component whose cycles are broken again. If a transaction has done more work in a tree than
classifying the whole tree would take, it defers the tree to :meth:`TransitiveReduction.classify_deferred_trees`, which
classifies the whole tree. Loading a large hierarchy therefore takes one pass.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

from ...storage import records
from ...storage.environment import WriteView
from ...storage.view import ViewWriter
from .. import tables
from ..counters import Counters
from .edge_filter import ACCEPTED, CYCLIC, REDUNDANT, Edge, classify_edges, find_cycle_edges, select_acyclic
from .forest import STRENGTH_STRUCT, Forest

_GetNeighbors = Callable[[int], Iterable[int]]

#: Work that a transaction may always do edge by edge in a tree, and additional work per asserted edge.
_MIN_WORK = 4096
_WORK_PER_EDGE = 1
#: The cost of breaking the cycles of a component per edge, in visited nodes.
_WORK_PER_CYCLE_EDGE = 4
#: The maximum number of (table, node) pairs whose edges are cached.
_MAX_CACHED_NODES = 1 << 16


class _CachedForest(ViewWriter, Forest):
    """The edges of a forest in one write transaction, with a cache of the edges of each node.

    All changes must go through this object: a change of an edge invalidates the cached edges of its node.
    """

    def __init__(self, transaction: WriteView) -> None:
        """Open the forest of a write transaction, with an empty cache of neighbors."""
        super().__init__(transaction)
        self._neighbor_cache: dict[tuple[str, int], tuple[int, ...]] = {}  # by table and node

    def put_edge(self, table: str, node: int, neighbor: int, value: bytes) -> None:
        """Store a node's edge in an edge table (such as ``EDGES_UP``); forget the node's cached neighbors there."""
        self._neighbor_cache.pop((table, node), None)
        self._write_view.put(table, records.U64_PAIR.pack(node, neighbor), value)

    def delete_edge(self, table: str, node: int, neighbor: int) -> None:
        """Delete a node's edge from an edge table (such as ``EDGES_UP``); forget the node's cached neighbors there."""
        self._neighbor_cache.pop((table, node), None)
        self._write_view.delete(table, records.U64_PAIR.pack(node, neighbor))

    def _iter_neighbors(self, table: str, node: int) -> Iterator[int]:
        """Yield the nodes at the other ends of a node's edges in an edge table (such as ``EDGES_UP``); cache them."""
        neighbors = self._neighbor_cache.get((table, node))
        if neighbors is None:
            if len(self._neighbor_cache) == _MAX_CACHED_NODES:
                self._neighbor_cache.clear()
            neighbors = self._neighbor_cache[table, node] = tuple(super()._iter_neighbors(table, node))
        return iter(neighbors)


class TransitiveReduction:
    """The statuses of the edges of a forest (accepted, redundant or cyclic), in one write transaction. Edges are
    classified one by one, and the work in each tree is counted in visited nodes. A tree with too much work is deferred:
    :meth:`classify_deferred_trees` classifies all of its edges at once.
    """

    def __init__(self, view: WriteView, counters: Counters) -> None:
        """Open the forest of ``view``, a write transaction; no edge has changed yet, and no tree is deferred.

        ``counters`` has the number of asserted edges, which limits the work done edge by edge.
        """
        self._forest = _CachedForest(view)
        self._counters = counters
        self._work_by_tree: Counter[int] = Counter()  # by tree, in visited nodes
        self._deferred_trees: set[int] = set()  # see :meth:`classify_deferred_trees`
        self._tree = 0  # the tree that work is counted for
        #: The change in the number of accepted edges from one entity to another since the last call to
        #: :meth:`classify_deferred_trees`.
        self._pair_counts: Counter[tuple[int, int]] = Counter()

    def classify_new_edge(self, child: int, parent: int) -> None:
        """Store the status of an edge that has just gained its first assertion, and update the edges that it affects.

        A status is ACCEPTED, REDUNDANT (a longer path exists) or CYCLIC (the edge closes a cycle). In a deferred tree,
        the edge is accepted until :meth:`classify_deferred_trees` classifies it.
        """
        forest = self._forest
        is_deferred = self._defer_if_costly(child)
        if is_deferred:
            self._put_edge_status(child, parent, ACCEPTED)
        elif self._has_path(parent, child, forest.iter_asserted_parents, forest.iter_asserted_children):
            # The edge closes a cycle, so it creates or extends a strongly connected component.
            # Its nodes are those on paths of asserted edges from ``parent`` up to ``child``, including both.
            ancestors = self._compute_closure(parent, forest.iter_asserted_parents)
            component_nodes = self._compute_closure(
                child, lambda node: ancestors.intersection(forest.iter_asserted_children(node))
            )
            edges = {
                (node, upper_node)
                for node in component_nodes
                for upper_node in forest.iter_asserted_parents(node)
                if upper_node in component_nodes
            }
            self._break_cycles({*edges, (child, parent)})
        else:
            self._insert_acyclic_edge(child, parent)

    def update_strength(self, child: int, parent: int) -> None:
        """Break the cycles through an edge again after it gained or lost one of several assertions.

        The weakest edges of a cycle are excluded, and the assertions of an edge determine its strength. An edge on no
        cycle keeps its status. A deferred tree is left to :meth:`classify_deferred_trees`.
        """
        is_deferred = self._defer_if_costly(child)
        if not is_deferred and self._forest.is_on_cycle(child, parent):
            self._put_cycle_edge(child, parent)  # stores its new strength
            self._break_cycles(self._find_component_edges(child))

    def remove_edge(self, child: int, parent: int) -> None:
        """Delete the status of an edge that nothing asserts anymore, and update the statuses that depend on the edge.

        The update is left to :meth:`classify_deferred_trees` if its tree is deferred because of too much work.
        """
        status = self._forest.get_edge_status(child, parent)
        is_on_cycle = self._forest.is_on_cycle(child, parent)
        is_deferred = self._defer_if_costly(child)
        component: set[Edge] = set()  # the other edges on cycles with this one
        if is_on_cycle and not is_deferred:
            component = self._find_component_edges(child) - {(child, parent)}
        if is_on_cycle:
            self._forest.delete_edge(tables.LOOPED_EDGES, child, parent)
        if is_deferred:
            self._delete_edge_status(child, parent, status)
        else:
            self._remove_acyclic_edge(child, parent, status)
            self._break_cycles(component)

    def classify_deferred_trees(self) -> dict[tuple[int, int], int]:
        """Store the statuses of the edges of each deferred tree; must be called before the statuses are read.

        A tree is deferred if deciding edge by edge is too costly. Returns the changes in the number of accepted edges
        from one entity to another since the last call, by (child, parent) entity.
        """
        forest = self._forest
        for tree in sorted(self._deferred_trees):
            statuses, old_cycle_edges = forest.read_edge_statuses(tree)
            # The edges on cycles are stored with their strengths, which decide where the cycles are broken.
            cycle_edges = find_cycle_edges(statuses)
            for edge in sorted(old_cycle_edges - cycle_edges):
                forest.delete_edge(tables.LOOPED_EDGES, *edge)
            for edge in sorted(cycle_edges):
                self._put_cycle_edge(*edge)
            for edge, status in classify_edges(statuses, forest.sort_strongest_first(cycle_edges)).items():
                if status != statuses[edge]:
                    self._delete_edge_status(*edge, statuses[edge])
                    self._put_edge_status(*edge, status)
        self._work_by_tree.clear()
        self._deferred_trees.clear()
        pair_counts, self._pair_counts = self._pair_counts, Counter()
        return pair_counts

    def _defer_if_costly(self, node: int) -> bool:
        """Defer the tree of a node if its work (visited nodes) exceeds a limit; return True if it is deferred.

        :meth:`classify_deferred_trees` classifies all edges of a deferred tree later. Subsequent work is counted for
        this tree.
        """
        self._tree = tree = self._forest.get_node(node).tree
        if self._work_by_tree[tree] > _MIN_WORK + _WORK_PER_EDGE * self._counters.edges:
            self._deferred_trees.add(tree)
        return tree in self._deferred_trees

    # -- Changes by one edge of D, the asserted edges that remain after cycles are broken

    def _insert_acyclic_edge(self, child: int, parent: int) -> None:
        """Store the status of a new edge that closes no cycle; refuse the accepted edges that it makes redundant."""
        forest = self._forest
        if self._has_path(child, parent, forest.iter_parents, forest.iter_children):
            self._put_edge_status(child, parent, REDUNDANT)
        else:
            for edge in self._find_newly_redundant(child, parent):
                self._delete_edge_status(*edge, ACCEPTED)
                self._put_edge_status(*edge, REDUNDANT)
            self._put_edge_status(child, parent, ACCEPTED)

    def _remove_acyclic_edge(self, child: int, parent: int, status: int | None) -> None:
        """Delete the ``status`` of an edge (None: no status), and reclassify edges that were redundant because of it.

        An edge is redundant if a longer path also leads from its child to its parent. If the deleted edge was accepted,
        it may have been on this path for edges from a node at or below ``child`` to a node at or above ``parent``.
        """
        self._delete_edge_status(child, parent, status)
        if status != ACCEPTED:
            return
        forest = self._forest
        nodes, is_below = self._find_smaller_side(child, parent)
        if is_below:
            candidates = [(node, neighbor) for node in nodes for neighbor in forest.iter_refused_parents(node)]
        else:
            candidates = [(neighbor, node) for node in nodes for neighbor in forest.iter_refused_children(node)]
        for edge in sorted(candidates):
            if forest.get_edge_status(*edge) == REDUNDANT:
                self._delete_edge_status(*edge, REDUNDANT)
                self._insert_acyclic_edge(*edge)

    def _find_newly_redundant(self, child: int, parent: int) -> list[Edge]:
        """Return the accepted edges that have a longer path once ``child`` is placed under ``parent``.

        They lead from a node at or below ``child`` to a node at or above ``parent``.
        """
        forest = self._forest
        nodes, is_below = self._find_smaller_side(child, parent)
        if is_below:  # these are the nodes at or below the child; edges lead up from them to other nodes
            edges = [
                (node, neighbor) for node in nodes for neighbor in forest.iter_parents(node) if neighbor not in nodes
            ]
            ancestors = self._compute_closure(parent, forest.iter_parents) if edges else set()
            return [(lower_node, upper_node) for lower_node, upper_node in edges if upper_node in ancestors]
        # The nodes are at or above the parent; edges lead up to them from other nodes.
        edges = [(neighbor, node) for node in nodes for neighbor in forest.iter_children(node) if neighbor not in nodes]
        descendants = self._find_nodes_between(child, {lower_node for lower_node, _ in edges}, nodes)
        return [(lower_node, upper_node) for lower_node, upper_node in edges if lower_node in descendants]

    def _break_cycles(self, edges: set[Edge]) -> None:
        """Break the cycles among ``edges``: from the strongest on, an edge that would close a cycle gets status CYCLIC.

        ``edges`` are the edges of a strongly connected component. If one of them was just removed, the others may form
        several components, or no cycle. Stores the new statuses, and which of the edges are on a cycle.
        """
        forest = self._forest
        self._work_by_tree[self._tree] += _WORK_PER_CYCLE_EDGE * len(edges)
        cycle_edges = find_cycle_edges(edges)
        for edge in edges:  # record which of them are on a cycle
            if edge not in cycle_edges:
                forest.delete_edge(tables.LOOPED_EDGES, *edge)
            elif not forest.is_on_cycle(*edge):
                self._put_cycle_edge(*edge)
        cyclic = cycle_edges.difference(select_acyclic(forest.sort_strongest_first(cycle_edges)))
        for edge in sorted(cyclic):  # refused edges leave D before others enter it
            status = forest.get_edge_status(*edge)
            if status != CYCLIC:
                self._remove_acyclic_edge(*edge, status)
                self._put_edge_status(*edge, CYCLIC)
        for edge in sorted(edges - cyclic):
            status = forest.get_edge_status(*edge)
            if status in (None, CYCLIC):
                self._delete_edge_status(*edge, status)
                self._insert_acyclic_edge(*edge)

    # -- Search

    def _has_path(self, start: int, goal: int, get_successors: _GetNeighbors, get_predecessors: _GetNeighbors) -> bool:
        """True if a path leads from ``start`` to ``goal``; the search alternates between both ends."""
        visited = ({start}, {goal})
        queues = (deque([start]), deque([goal]))
        while all(queues):
            for direction, get_neighbors in enumerate((get_successors, get_predecessors)):
                for node in get_neighbors(self._pop_node(queues[direction])):
                    if node in visited[1 - direction]:
                        return True
                    if node not in visited[direction]:
                        visited[direction].add(node)
                        queues[direction].append(node)
                if not queues[direction]:
                    return False
        return False

    def _find_smaller_side(self, child: int, parent: int) -> tuple[set[int], bool]:
        """Return the nodes at or below ``child`` and True, or those at or above ``parent`` and False.

        The search alternates between both sides and returns the side that is exhausted first.
        """
        visited = ({child}, {parent})
        queues = (deque([child]), deque([parent]))
        neighbor_getters = (self._forest.iter_children, self._forest.iter_parents)
        while True:
            for side, get_neighbors in enumerate(neighbor_getters):
                for node in get_neighbors(self._pop_node(queues[side])):
                    if node not in visited[side]:
                        visited[side].add(node)
                        queues[side].append(node)
                if not queues[side]:
                    return visited[side], side == 0

    def _compute_closure(self, start: int, get_neighbors: _GetNeighbors) -> set[int]:
        """Return the set of ``start`` and all nodes reached from it by repeated steps to neighbors."""
        seen = {start}
        queue = deque([start])
        while queue:
            for node in get_neighbors(self._pop_node(queue)):
                if node not in seen:
                    seen.add(node)
                    queue.append(node)
        return seen

    def _find_nodes_between(self, goal: int, starts: set[int], excluded_nodes: set[int]) -> set[int]:
        """Return the nodes on upward paths from ``starts`` to ``goal`` that avoid ``excluded_nodes``."""
        children_by_parent: dict[int, list[int]] = {}
        seen = set(starts)
        queue = deque(sorted(starts))
        while queue:
            node = self._pop_node(queue)
            for parent in self._forest.iter_parents(node) if node != goal else ():
                if parent not in excluded_nodes:
                    children_by_parent.setdefault(parent, []).append(node)
                    if parent not in seen:
                        seen.add(parent)
                        queue.append(parent)
        return self._compute_closure(goal, lambda node: children_by_parent.get(node, ())) if goal in seen else set()

    def _find_component_edges(self, node: int) -> set[Edge]:
        """Return the edges of the strongly connected component of a node: edges on a cycle through the node."""
        nodes = self._compute_closure(node, self._forest.iter_cycle_parents)
        return {
            (lower_node, upper_node)
            for lower_node in nodes
            for upper_node in self._forest.iter_cycle_parents(lower_node)
        }

    def _pop_node(self, queue: deque[int]) -> int:
        """Remove and return the next node of a search, and count it as work in the tree."""
        self._work_by_tree[self._tree] += 1
        return queue.popleft()

    # -- Writes

    def _put_edge_status(self, child: int, parent: int, status: int) -> None:
        """Store the status of an edge (ACCEPTED, REDUNDANT or CYCLIC) under both of its nodes; count accepted edges."""
        if status == ACCEPTED:
            self._forest.put_edge(tables.EDGES_UP, child, parent, b"")
            self._forest.put_edge(tables.EDGES_DOWN, parent, child, b"")
            self._pair_counts[self._get_entities(child, parent)] += 1
        else:
            self._forest.put_edge(tables.REFUSED_UP, child, parent, records.pack(status))
            self._forest.put_edge(tables.REFUSED_DOWN, parent, child, b"")

    def _delete_edge_status(self, child: int, parent: int, status: int | None) -> None:
        """Delete the ``status`` of an edge (None: no status) under both of its nodes, and update the counts."""
        if status is not None:
            is_accepted = status == ACCEPTED
            self._forest.delete_edge(tables.EDGES_UP if is_accepted else tables.REFUSED_UP, child, parent)
            self._forest.delete_edge(tables.EDGES_DOWN if is_accepted else tables.REFUSED_DOWN, parent, child)
            if is_accepted:
                self._pair_counts[self._get_entities(child, parent)] -= 1

    def _get_entities(self, child: int, parent: int) -> tuple[int, int]:
        """Return the entities at two nodes of the forest, the child's and the parent's."""
        return self._forest.get_node(child).entity, self._forest.get_node(parent).entity

    def _put_cycle_edge(self, child: int, parent: int) -> None:
        """Record that an edge lies on a cycle, with its current strength."""
        strength = records.seal(STRENGTH_STRUCT.pack(*self._forest.compute_strength(child, parent)))
        self._forest.put_edge(tables.LOOPED_EDGES, child, parent, strength)
