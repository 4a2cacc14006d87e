"""Display entities: the entity that each entity is shown as. The user's aliases and merges decide it: an entity whose
name is an alias is shown under the name that the alias leads to, and any other entity under its own.

In: one state, whose aliases are read. Out: a mapping of entity ids, for single ids or arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .state import State


class DisplayEntities:
    """Resolves each entity to the one under whose name it is shown, according to the aliases and merges.

    ``display_by_entity`` maps aliases, and entities with aliases, to that entity. All other entities are shown as
    themselves.
    """

    def __init__(self, display_by_entity: dict[int, int]) -> None:
        """Store the mapping from each alias, and each entity with aliases, to the entity under which it is shown."""
        self._display_by_entity = display_by_entity
        # The same mapping as two arrays, ascending by entity.
        self._mapped_entities = np.array(sorted(display_by_entity), np.uint32)
        self._display_entities = np.array(
            [display_by_entity[entity] for entity in sorted(display_by_entity)], np.uint32
        )

    def resolve_entity(self, entity: int) -> int:
        """Return the entity under which an entity is shown according to the aliases, usually itself."""
        return self._display_by_entity.get(entity, entity)

    def list_merged_entities(self, entity: int) -> list[int]:
        """Return the entities that are shown as ``entity``: first itself, then its aliases."""
        aliases = (other for other, display_entity in self._display_by_entity.items() if display_entity == entity)
        return [entity, *(other for other in aliases if other != entity)]

    @property
    def shown_entities(self) -> set[int]:
        """The entities under which at least one alias is shown."""
        return set(self._display_by_entity.values())

    def resolve(self, entities: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the entity under which each of ``entities`` is shown according to the aliases, usually itself."""
        if not len(self._mapped_entities):
            return entities
        positions = np.minimum(np.searchsorted(self._mapped_entities, entities), len(self._mapped_entities) - 1)
        is_mapped = self._mapped_entities[positions] == entities
        return np.where(is_mapped, self._display_entities[positions], entities).astype(np.uint32)


def load_display_entities(state: State) -> DisplayEntities:
    """Load the aliases and merges of a state as a map from each entity to the entity under which it is shown."""
    display_by_entity: dict[int, int] = {}
    for alias_key, _ in state.aliases.iter_all():
        identity = state.resolve(alias_key)
        if identity is not None:
            display_by_entity.update((entity, identity.entry.entity) for entity in identity.entity_ids)
    return DisplayEntities(display_by_entity)
