"""Networks of entities for drawing: around one entity, or of a store's *trees*, its hierarchies of entities. An edge is
*solid* if a tree contains it, and leads from the lower entity to the higher. It is *dashed* if it comes from links or
shared passages.

In: a store, and optionally an entity or a tree. Out: an :class:`EntityNetwork` of entities and edges. The module uses
only the public API: it calls :meth:`~kvstore.database.queryable.Queryable.neighbours` entity by entity, nearest and
strongest first, so that a limit omits the least relevant entities. Results depend only on the store's content.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import kvstore
from kvstore import Neighbour

from ..errors import InputError

#: The maximum number of neighbors that the central entity adds, and that every other entity adds.
MAX_NEIGHBORS, MAX_FURTHER_NEIGHBORS = 40, 8
#: The number of an entity's neighbors that are searched for edges between nodes of the network.
NUM_SCANNED_NEIGHBORS = 60
#: The maximum number of dashed edges from an entity to nodes of the network, besides the edge that added it.
_MAX_CROSS_EDGES = 2


@dataclass(frozen=True, slots=True)
class NetworkNode:
    """An entity and its distance from the center; in the network of a whole store, roots have 0 and others 1."""

    name: str
    distance: int


@dataclass(frozen=True, slots=True)
class NetworkEdge:
    """An edge between two entities, given by their names.

    ``trees`` are the entity trees in which ``source`` is directly under ``target``. ``links`` are the other links
    between the entities, ``passages`` is the number of passages that mention both, and ``score`` is the strength of
    their connection. An edge that was read from a tree alone has only ``trees``.
    """

    source: str
    target: str
    trees: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    passages: int = 0
    score: float = 0.0

    @property
    def is_solid(self) -> bool:
        """True if an entity tree contains the edge, so that it is drawn as a solid line."""
        return bool(self.trees)


@dataclass(frozen=True, slots=True)
class EntityNetwork:
    """Entities and edges, the nearest and strongest first; the limit omitted ``num_omitted`` further entities."""

    nodes: list[NetworkNode]
    edges: list[NetworkEdge]
    num_omitted: int = 0


def build_edges(neighbor: Neighbour) -> list[NetworkEdge]:
    """Return the edges between an entity and a neighbor: a solid edge per direction in a tree, else one dashed edge."""
    # ``above`` and ``below`` are the trees in which the neighbor is directly above or below the entity.
    entity, neighbor_name = neighbor.entity, neighbor.name
    details = neighbor.links, neighbor.passages, neighbor.score
    tree_edges = [NetworkEdge(entity, neighbor_name, neighbor.above, *details)] if neighbor.above else []
    tree_edges += [NetworkEdge(neighbor_name, entity, neighbor.below, *details)] if neighbor.below else []
    return tree_edges or [NetworkEdge(entity, neighbor_name, (), *details)]


def build_network_around(
    store: kvstore.Store,
    name: str,
    *,
    depth: int = 2,
    tree: str | None = None,
    limit: int = 150,
    breadth: int = MAX_NEIGHBORS,
    known_neighbors: Sequence[Neighbour] | None = None,
) -> EntityNetwork:
    """Return the network of at most ``limit`` entities around the entity ``name``, up to the distance ``depth``.

    With ``tree``, the network contains only that tree. ``breadth`` is the maximum number of neighbors that the central
    entity adds; any other entity adds at most :data:`MAX_FURTHER_NEIGHBORS`. ``known_neighbors`` are the neighbors of
    the central entity, if the caller has already read the first max(``breadth``, :data:`NUM_SCANNED_NEIGHBORS`).

    Raises EntityNotFoundError for an unknown entity, InputError for an unknown tree.
    """
    if tree is not None:
        return _build_tree_network(store, name, depth, tree, limit)
    center_neighbors = (
        store.neighbours(name, max(breadth, NUM_SCANNED_NEIGHBORS)) if known_neighbors is None else known_neighbors
    )
    # Every neighbor has the display name of the central entity as its ``entity``.
    center = center_neighbors[0].entity if center_neighbors else str(store.describe_entity(name)["name"])
    distances = {center: 0}
    neighbors_by_name = {center: list(center_neighbors)}
    queue = deque([center])
    edges: dict[tuple[str, str], NetworkEdge] = {}
    num_omitted = 0
    while queue:
        current = queue.popleft()
        distance = distances[current]
        if distance == depth:
            continue
        max_neighbors = breadth if distance == 0 else MAX_FURTHER_NEIGHBORS
        for neighbor in _get_neighbors(store, neighbors_by_name, current)[:max_neighbors]:
            if neighbor.name not in distances:
                if len(distances) >= limit:
                    num_omitted += 1
                    continue
                distances[neighbor.name] = distance + 1
                queue.append(neighbor.name)
            _add_edges(edges, build_edges(neighbor))
    _add_cross_edges(store, neighbors_by_name, distances, edges)
    return _build_network(distances, edges, num_omitted)


def build_whole_network(store: kvstore.Store, *, tree: str | None = None, limit: int | None = 150) -> EntityNetwork:
    """Return the network of all entity trees of a store, or only of ``tree``.

    Without ``tree``, dashed edges also connect the entities. The network has at most ``limit`` entities (None: all).
    The entities with the most edges come first, each followed by the entities connected with it. For a store without
    trees, they are the most mentioned entities.

    Raises InputError for an unknown tree.
    """
    tree_edges = _load_tree_edges(store, tree)
    neighbors: dict[str, list[str]] = {}
    for child, parent in tree_edges:
        neighbors.setdefault(child, []).append(parent)
        neighbors.setdefault(parent, []).append(child)
    names, num_entities = _order_by_degree(neighbors, limit), len(neighbors)
    if not neighbors:
        names, num_entities = _load_most_mentioned(store, limit)
    selected_names = dict.fromkeys(names)  # in order, for fast look-up
    edges: dict[tuple[str, str], NetworkEdge] = {}
    selected_edges = [
        NetworkEdge(child, parent, tuple(sorted(trees)))
        for (child, parent), trees in tree_edges.items()
        if child in selected_names and parent in selected_names
    ]
    _add_edges(edges, selected_edges)
    if tree is None:
        _add_cross_edges(store, cache={}, names=selected_names, edges=edges)
    children = {edge.source for edge in edges.values() if edge.is_solid}
    roots = {edge.target for edge in edges.values() if edge.is_solid} - children
    distances = {name: 0 if name in roots else 1 for name in names}  # roots are drawn as centers
    return _build_network(distances, edges, max(0, num_entities - len(names)))


def _load_most_mentioned(store: kvstore.Store, limit: int | None) -> tuple[list[str], int]:
    """Return the ``limit`` most mentioned entities of a store (None: all), and the number of all entities."""
    ((num_entities,),) = store.execute("SELECT count(*) FROM entities")
    max_names = -1 if limit is None else limit  # LIMIT -1 means no limit
    query = "SELECT name FROM entities ORDER BY mentions DESC, key LIMIT ?"
    return [name for (name,) in store.execute(query, (max_names,))], num_entities


def _load_tree_edges(store: kvstore.Store, tree: str | None) -> dict[tuple[str, str], set[str]]:
    """Return the accepted edges as pairs (child, parent), each mapped to the trees that contain it.

    If ``tree`` is not None, only its edges are returned. Raises InputError for an unknown tree.
    """
    if tree is not None and not store.execute("SELECT 1 FROM trees WHERE name = ?", (tree,)).fetchone():
        raise InputError(f"there is no tree {tree!r}; SELECT name FROM trees lists the trees")
    condition, parameters = ("AND tree = ?", (tree,)) if tree is not None else ("", ())
    query = f"SELECT DISTINCT child, parent, tree FROM edges WHERE accepted {condition} ORDER BY tree, parent, child"
    tree_edges: dict[tuple[str, str], set[str]] = {}
    for child, parent, tree_name in store.execute(query, parameters):
        tree_edges.setdefault((child, parent), set()).add(tree_name)
    return tree_edges


def _order_by_degree(neighbors: dict[str, list[str]], limit: int | None) -> list[str]:
    """Return entities by descending number of edges, each followed by the entities connected with it, breadth first.

    ``neighbors`` has the neighbors of each entity, one for each edge. At most ``limit`` entities are returned (None: no
    limit).
    """
    names_by_degree = sorted(neighbors, key=lambda name: (-len(neighbors[name]), name))
    ordered_names: dict[str, None] = {}
    for seed in names_by_degree:
        queue = deque([seed] if seed not in ordered_names else [])
        while queue and (limit is None or len(ordered_names) < limit):
            name = queue.popleft()
            if name in ordered_names:
                continue
            ordered_names[name] = None
            queue.extend(
                sorted(
                    set(neighbors[name]) - ordered_names.keys(),
                    key=lambda neighbor: (-len(neighbors[neighbor]), neighbor),
                )
            )
    return list(ordered_names)


def _build_tree_network(store: kvstore.Store, name: str, depth: int, tree: str, limit: int) -> EntityNetwork:
    """Return the network of an entity and the entities above and below it in one tree, up to ``depth`` levels away.

    It has at most ``limit`` entities. If EXPAND itself reached its limit, all rows that it omitted are counted as one
    omitted entity.
    """
    # An entity can occur in several rows, so more rows than entities are read.
    rows = store.expand(name, depth=depth, tree=tree, limit=4 * limit)
    distances: dict[str, int] = {}
    edges: dict[tuple[str, str], NetworkEdge] = {}
    num_omitted = 0
    for row in rows:
        is_limit_row = row.relative == "…"  # the last row if EXPAND reached its limit
        if is_limit_row or (row.relative not in distances and len(distances) >= limit):
            num_omitted += 1
            continue
        distances.setdefault(row.relative, abs(row.level))
        if row.via and row.via in distances:  # ``via`` is the entity that led to this one
            # Levels below the entity are positive.
            child, parent = (row.relative, row.via) if row.level > 0 else (row.via, row.relative)
            _add_edges(edges, [NetworkEdge(child, parent, (tree,))])
    return _build_network(distances, edges, num_omitted)


def _build_network(
    distances: Mapping[str, int], edges: Mapping[tuple[str, str], NetworkEdge], num_omitted: int
) -> EntityNetwork:
    """Return the network of entities with their ``distances``, and of ``edges`` by source and target."""
    nodes = [NetworkNode(name, distance) for name, distance in distances.items()]
    return EntityNetwork(nodes, list(edges.values()), num_omitted)


def _get_neighbors(store: kvstore.Store, cache: dict[str, list[Neighbour]], name: str) -> list[Neighbour]:
    """Return up to :data:`NUM_SCANNED_NEIGHBORS` neighbors of an entity, from ``cache`` or else from the store.

    Neighbors that are read from the store are added to ``cache``.
    """
    if name not in cache:
        cache[name] = list(store.neighbours(name, NUM_SCANNED_NEIGHBORS))
    return cache[name]


def _add_edges(edges: dict[tuple[str, str], NetworkEdge], new_edges: Iterable[NetworkEdge]) -> None:
    """Add ``new_edges`` to ``edges``, keyed by source and target, in place.

    A solid edge replaces an edge in the same direction, and a dashed edge in the opposite direction. A dashed edge is
    not added if the two entities have an edge in either direction.
    """
    for edge in new_edges:
        pair, reverse = (edge.source, edge.target), (edge.target, edge.source)
        if edge.is_solid or not (pair in edges or reverse in edges):
            if reverse in edges and not edges[reverse].is_solid:
                del edges[reverse]
            edges[pair] = edge


def _add_cross_edges(
    store: kvstore.Store,
    cache: dict[str, list[Neighbour]],
    names: Collection[str],
    edges: dict[tuple[str, str], NetworkEdge],
) -> None:
    """Add edges between the entities ``names`` to ``edges``, in place: all solid edges, and the strongest dashed.

    Each entity adds at most ``_MAX_CROSS_EDGES`` dashed edges. ``cache`` has the neighbors of entities that were read
    before, by entity; missing neighbors are read and added to ``cache``.
    """
    num_added: Counter[str] = Counter()
    for name in names:
        for neighbor in _get_neighbors(store, cache, name):
            if neighbor.name not in names:
                continue
            for edge in build_edges(neighbor):
                is_known = (edge.source, edge.target) in edges or (edge.target, edge.source) in edges
                if edge.is_solid or (not is_known and num_added[name] < _MAX_CROSS_EDGES):
                    _add_edges(edges, [edge])
                    num_added[name] += 0 if edge.is_solid else 1
