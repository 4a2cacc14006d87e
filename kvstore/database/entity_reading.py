"""Reading entities: their *locations* in trees and texts, *relatives* (parents and children in the trees) and
*neighbors* (names linked with them, or in the same chunks). The *key* of an entity is the normal form of its name.

In: a state, and names of entities. Out: locations, relatives or neighbors, or an error that suggests near names. Each
function loads the code that it needs, because a process that only searches needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ..text.normalize import to_entity_key

if TYPE_CHECKING:
    from ..derived.passage_graph.neighbors import Neighbours
    from ..retrieval.evidence import Location
    from ..retrieval.relatives import Relatives
    from ..structures.state import State


def find_all_locations(
    state: State, names: Sequence[str], limit: int, count_lookups: Callable[[Iterable[str]], None]
) -> list[Location]:
    """Return the locations of entities, at most ``limit`` per name.

    ``count_lookups`` is called with the key (normal form) of each entity that has a location, to count the lookup.
    """
    from ..retrieval.lookup import iter_locations

    locations: list[Location] = []
    for name in names:
        name_locations = list(iter_locations(state, name, limit))
        if name_locations:
            count_lookups([to_entity_key(name_locations[0].entity)])
        locations += name_locations
    return locations


def find_relatives(
    state: State, names: Sequence[str], *, direction: str, depth: int, tree: str | None, limit: int, must_exist: bool
) -> Relatives:
    """Return the relatives of entities: parents and children in the trees, up to ``depth`` levels away.

    ``direction`` is ``up``, ``down`` or ``both``. Without ``tree``, all trees are read. ``limit`` is for each name.
    ``must_exist`` is for a single name, which the user specified: raises EntityNotFoundError if it is unknown.
    """
    from ..retrieval.expansion import expand_entity
    from ..retrieval.relatives import Relatives
    from ..sql.suggestions import make_entity_error

    relatives = Relatives()
    for name in names:
        relatives += expand_entity(state, name, direction=direction, depth=depth, tree=tree, limit=limit)
    if must_exist and not relatives:
        (name,) = names
        if not state.filter.find(to_entity_key(name)):
            raise make_entity_error(state, name)
    return relatives


def find_neighbors(state: State, name: str, limit: int) -> Neighbours:
    """Return the ``limit`` names connected most closely with an entity (links, common chunks), the strongest first.

    Raises EntityNotFoundError for an unknown name.
    """
    from ..derived.passage_graph import neighbors
    from ..sql.suggestions import make_entity_error

    key = to_entity_key(name)
    identity = state.resolve(key) if key else None
    if identity is None:
        raise make_entity_error(state, name)
    return neighbors.find_neighbors(state, identity, limit)
