"""Names and what joins them, as a network to be drawn: around one name, or the trees of a store.

In: a store, and perhaps a name or a tree. Out: an :class:`EntityNetwork` of names and joins; a join is *solid* where a
tree has it, from the name below to the name above, and *dashed* where links or shared passages do. It stands on the
public face: the walk asks :meth:`~kvstore.database.queryable.Queryable.neighbours` of name after name, nearest and
strongest first, so that what is cut is what says least. Everything is a function of what the store holds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import kvstore
from kvstore import Neighbour

from ..errors import InputError

#: Neighbours taken of the name in the middle, and of each further on.
MAX_NEIGHBOURS, MAX_FURTHER_NEIGHBOURS = 40, 8
#: Neighbours of a name that are looked through for joins between names that are there.
MAX_SCANNED_NEIGHBOURS = 60
#: Dashed joins that a name brings to names that are there, beside the one by which it came.
_MAX_CROSS_EDGES = 2


@dataclass(frozen=True, slots=True)
class NetworkName:
    """A name, and how many steps it is from the middle; of a whole store 0 is a root, and 1 any other."""

    name: str
    distance: int


@dataclass(frozen=True, slots=True)
class NetworkEdge:
    """What joins two names: ``trees`` in which ``source`` stands directly under ``target``; or else ``links`` and how
    many ``passages`` name both, with their ``score``."""

    source: str
    target: str
    trees: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    passages: int = 0
    score: float = 0.0

    @property
    def solid(self) -> bool:
        """Whether a tree has it."""
        return bool(self.trees)


@dataclass(slots=True)
class EntityNetwork:
    """Names and joins, the nearest and strongest first; ``left_out`` counts names that the limit cut, as far as they
    were met."""

    names: list[NetworkName] = field(default_factory=list)
    edges: list[NetworkEdge] = field(default_factory=list)
    left_out: int = 0


def build_edges(neighbour: Neighbour) -> list[NetworkEdge]:
    """The joins of an entity to one of its neighbours: a solid one for each way, or one that is dashed."""
    entity, other = neighbour.entity, neighbour.name
    details = neighbour.links, neighbour.passages, neighbour.score
    solid = [NetworkEdge(entity, other, neighbour.above, *details)] if neighbour.above else []
    solid += [NetworkEdge(other, entity, neighbour.below, *details)] if neighbour.below else []
    return solid or [NetworkEdge(entity, other, (), *details)]


def build_network_around(
    store: kvstore.Store,
    name: str,
    *,
    depth: int = 2,
    tree: str | None = None,
    limit: int = 150,
    breadth: int = MAX_NEIGHBOURS,
    known_neighbours: Sequence[Neighbour] | None = None,
) -> EntityNetwork:
    """The network around a name, ``depth`` steps wide, of at most ``limit`` names; with ``tree`` of that tree alone.

    ``breadth`` is how many neighbours of the name itself are taken. ``near`` are these, where they are known already:
    at least so many, and :data:`MAX_SCANNED_NEIGHBOURS`, if there are.

    Raises EntityNotFoundError for an unknown name, InputError for an unknown tree.
    """
    if tree is not None:
        return _build_tree_network(store, name, depth, tree, limit)
    network = EntityNetwork()
    middle_neighbours = (
        store.neighbours(name, max(breadth, MAX_SCANNED_NEIGHBOURS)) if known_neighbours is None else known_neighbours
    )
    middle = middle_neighbours[0].entity if middle_neighbours else str(store.describe_entity(name)["name"])
    distances = {middle: 0}
    neighbours_by_name = {middle: list(middle_neighbours)}
    queue = deque([middle])
    edges: dict[tuple[str, str], NetworkEdge] = {}
    while queue:
        current = queue.popleft()
        distance = distances[current]
        if distance == depth:
            continue
        for neighbour in _get_neighbours(store, neighbours_by_name, current)[
            : breadth if distance == 0 else MAX_FURTHER_NEIGHBOURS
        ]:
            if neighbour.name not in distances:
                if len(distances) >= limit:
                    network.left_out += 1
                    continue
                distances[neighbour.name] = distance + 1
                queue.append(neighbour.name)
            _add_edges(edges, build_edges(neighbour))
    _add_cross_edges(store, neighbours_by_name, distances, edges)
    network.names = [NetworkName(node, distance) for node, distance in distances.items()]
    network.edges = list(edges.values())
    return network


def build_whole_network(store: kvstore.Store, *, tree: str | None = None, limit: int | None = 150) -> EntityNetwork:
    """The trees of a store (or one of them) with what else joins their names, of at most ``limit`` names (None: all):
    the names of most edges, each with what lies around it. A store without trees has its most mentioned names.

    Raises InputError for an unknown tree.
    """
    tree_edges = _load_tree_edges(store, tree)
    neighbours: dict[str, list[str]] = {}
    for child, parent in tree_edges:
        neighbours.setdefault(child, []).append(parent)
        neighbours.setdefault(parent, []).append(child)
    names = _order_names(neighbours, limit)
    if not neighbours:
        max_names = 2**31 - 1 if limit is None else limit
        query = "SELECT name FROM entities ORDER BY mentions DESC, key LIMIT ?"
        names = [name for (name,) in store.execute(query, (max_names,))]
    selected = dict.fromkeys(names, 0)
    edges: dict[tuple[str, str], NetworkEdge] = {}
    _add_edges(
        edges,
        (NetworkEdge(*pair, tuple(sorted(trees))) for pair, trees in tree_edges.items() if {*pair} <= selected.keys()),
    )
    if tree is None:
        _add_cross_edges(store, {}, selected, edges)
    children = {edge.source for edge in edges.values() if edge.solid}
    roots = {edge.target for edge in edges.values() if edge.solid} - children
    network_names = [NetworkName(name, 0 if name in roots else 1) for name in names]
    return EntityNetwork(network_names, list(edges.values()), max(0, len(neighbours) - len(names)))


def _load_tree_edges(store: kvstore.Store, tree: str | None) -> dict[tuple[str, str], set[str]]:
    """The accepted edges, as child and parent, with the trees that have each."""
    if tree is not None and not store.execute("SELECT 1 FROM trees WHERE name = ?", (tree,)).fetchone():
        tree_names = (
            ", ".join(name for (name,) in store.execute("SELECT name FROM trees ORDER BY name LIMIT 5")) or "none"
        )
        raise InputError(f"there is no tree {tree!r}; trees are {tree_names}")
    condition, values = ("AND tree = ?", (tree,)) if tree is not None else ("", ())
    query = f"SELECT DISTINCT child, parent, tree FROM edges WHERE accepted {condition} ORDER BY tree, parent, child"
    tree_edges: dict[tuple[str, str], set[str]] = {}
    for child, parent, name in store.execute(query, values):
        tree_edges.setdefault((child, parent), set()).add(name)
    return tree_edges


def _order_names(neighbours: dict[str, list[str]], limit: int | None) -> list[str]:
    """Names in order of how many edges they have, each followed by what lies around it, step by step."""
    seeds = sorted(neighbours, key=lambda name: (-len(neighbours[name]), name))
    ordered: dict[str, None] = {}
    for seed in seeds:
        queue = deque([seed] if seed not in ordered else [])
        while queue and (limit is None or len(ordered) < limit):
            name = queue.popleft()
            if name in ordered:
                continue
            ordered[name] = None
            queue.extend(
                sorted(set(neighbours[name]) - ordered.keys(), key=lambda other: (-len(neighbours[other]), other))
            )
    return list(ordered)


def _build_tree_network(store: kvstore.Store, name: str, depth: int, tree: str, limit: int) -> EntityNetwork:
    """What stands above and below a name in one tree."""
    rows = store.expand(name, depth=depth, tree=tree, limit=4 * limit)
    network = EntityNetwork()
    distances: dict[str, int] = {}
    edges: dict[tuple[str, str], NetworkEdge] = {}
    for row in rows:
        if row.relative == "…":
            network.left_out += 1
            continue
        if row.relative not in distances and len(distances) >= limit:
            network.left_out += 1
            continue
        distances.setdefault(row.relative, abs(row.level))
        if row.via and row.via in distances:
            pair = (row.relative, row.via) if row.level > 0 else (row.via, row.relative)
            _add_edges(edges, [NetworkEdge(*pair, (tree,))])
    network.names = [NetworkName(node, distance) for node, distance in distances.items()]
    network.edges = list(edges.values())
    return network


def _get_neighbours(store: kvstore.Store, cache: dict[str, list[Neighbour]], name: str) -> list[Neighbour]:
    if name not in cache:
        cache[name] = list(store.neighbours(name, MAX_SCANNED_NEIGHBOURS))
    return cache[name]


def _add_edges(edges: dict[tuple[str, str], NetworkEdge], new_edges: Iterable[NetworkEdge]) -> None:
    """Keep a join of each two names; one that a tree has stands for what else joins them."""
    for edge in new_edges:
        pair, reverse = (edge.source, edge.target), (edge.target, edge.source)
        if edge.solid or not (pair in edges or reverse in edges):
            if reverse in edges and not edges[reverse].solid:
                del edges[reverse]
            edges[pair] = edge


def _add_cross_edges(
    store: kvstore.Store,
    cache: dict[str, list[Neighbour]],
    names: dict[str, int],
    edges: dict[tuple[str, str], NetworkEdge],
) -> None:
    """Add what joins the names that are there among each other: all that trees have, of the rest the strongest."""
    num_added: Counter[str] = Counter()
    for name in names:
        for neighbour in _get_neighbours(store, cache, name):
            if neighbour.name not in names:
                continue
            for edge in build_edges(neighbour):
                is_known = (edge.source, edge.target) in edges or (edge.target, edge.source) in edges
                if edge.solid or (not is_known and num_added[name] < _MAX_CROSS_EDGES):
                    _add_edges(edges, [edge])
                    num_added[name] += not edge.solid
