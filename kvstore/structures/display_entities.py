"""Display entities. The *display entity* of an entity is the one under whose name it is shown, usually itself. If its
name is an alias, or merged with another name, that is the entity of the name that the user's aliases and merges lead
to.

In: one state, whose aliases are read. Out: a mapping of entity ids, for single ids or arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .state import State


class DisplayEntities:
    """Maps each entity to its display entity, according to the user's aliases and merges.

    ``display_by_entity`` maps aliases, and entities with aliases, to their display entity. All other entities are their
    own display entity.
    """

    def __init__(self, display_by_entity: dict[int, int]) -> None:
        """Store the mapping from each alias, and each entity with aliases, to its display entity."""
        self._display_by_entity = display_by_entity
        # The same mapping as two arrays, ascending by entity.
        self._mapped_entities = np.array(sorted(display_by_entity), np.uint32)
        self._display_entities = np.array(
            [display_by_entity[entity] for entity in sorted(display_by_entity)], np.uint32
        )

    def resolve_entity(self, entity: int) -> int:
        """Return the display entity of an entity."""
        return self._display_by_entity.get(entity, entity)

    def list_merged_entities(self, entity: int) -> list[int]:
        """Return the entities whose display entity is ``entity``: first itself, then its aliases."""
        aliases = (other for other, display_entity in self._display_by_entity.items() if display_entity == entity)
        return [entity, *(other for other in aliases if other != entity)]

    @property
    def shown_entities(self) -> set[int]:
        """The display entities of all aliases."""
        return set(self._display_by_entity.values())

    def resolve(self, entities: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the display entity of each of ``entities``."""
        if not len(self._mapped_entities):
            return entities
        positions = np.minimum(np.searchsorted(self._mapped_entities, entities), len(self._mapped_entities) - 1)
        is_mapped = self._mapped_entities[positions] == entities
        return np.where(is_mapped, self._display_entities[positions], entities).astype(np.uint32)


def load_display_entities(state: State) -> DisplayEntities:
    """Load the aliases and merges of a state as a map from each entity to its display entity."""
    display_by_entity: dict[int, int] = {}
    for alias_key, _ in state.aliases.iter_all():
        identity = state.resolve(alias_key)
        if identity is not None:
            display_by_entity.update((entity, identity.entry.entity) for entity in identity.entity_ids)
    return DisplayEntities(display_by_entity)
