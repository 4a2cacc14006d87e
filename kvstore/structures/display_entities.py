"""Display entities: the entity that each entity is shown as, according to the aliases.

In: one state, whose aliases are read. Out: a mapping of entity ids, for single ids or arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .state import State


class DisplayEntities:
    """The entity that each entity is shown as, according to the aliases."""

    def __init__(self, display_by_entity: dict[int, int]) -> None:
        self._display_by_entity = display_by_entity
        self._sources = np.array(sorted(display_by_entity), np.uint32)
        self._displayed = np.array([display_by_entity[entity] for entity in sorted(display_by_entity)], np.uint32)

    def resolve_entity(self, entity: int) -> int:
        """Return the entity that an entity is shown as."""
        return self._display_by_entity.get(entity, entity)

    def list_names(self, entity: int) -> list[int]:
        """Return the entities that are shown as this one: first itself."""
        names = (name for name, display_entity in self._display_by_entity.items() if display_entity == entity)
        return [entity, *(name for name in names if name != entity)]

    @property
    def targets(self) -> set[int]:
        """The entities that others are shown as."""
        return set(self._display_by_entity.values())

    def resolve(self, entities: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the entities that the given ones are shown as."""
        if not len(self._sources):
            return entities
        positions = np.minimum(np.searchsorted(self._sources, entities), len(self._sources) - 1)
        return np.where(self._sources[positions] == entities, self._displayed[positions], entities).astype(np.uint32)


def load_display_entities(state: State) -> DisplayEntities:
    """Return the mapping of the entities of a state to those they are shown as."""
    display_by_entity: dict[int, int] = {}
    for key, _ in state.aliases.scan():
        identity = state.resolve(key)
        if identity is not None:
            display_by_entity.update((entity, identity.entry.entity) for entity in identity.entities)
    return DisplayEntities(display_by_entity)
