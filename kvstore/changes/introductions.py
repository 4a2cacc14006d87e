"""How introductions of names change in one set of changes: gathered name by name, written once.

In: names introduced and withdrawn, by documents, edges and aliases alike. On disk: the slots of ``entities``. Out:
which names are new, and which nothing introduces any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..structures.filter.entity_filter import EntityFilter
from ..structures.names.entities import EntityRecord, EntityWriter


class NameChanges:
    """How introductions change in one apply, name by name; written once at the end."""

    def __init__(self, entities: EntityWriter, entity_filter: EntityFilter) -> None:
        self._entities = entities
        self._filter = entity_filter
        self._known: dict[int, EntityRecord] = {}
        self._introduced: dict[str, list[tuple[str, str]]] = {}
        self._ids: dict[str, int] = {}
        self._keys: dict[int, str] = {}
        self._places: dict[tuple[int, str, str], int] = {}

    def introduce(self, key: str, form: str, kind: str) -> None:
        self._introduced.setdefault(key, []).append((form, kind))

    def withdraw(self, entity: int, form: str, kind: str) -> None:
        self._read([entity])
        record = self._known[entity]
        record.remove(record.place(form, kind))

    def withdraw_slots(self, introductions: Sequence[tuple[int, int]]) -> dict[int, str]:
        """Take back introductions, each an entity and the place of its slot; returns the normal forms of the names."""
        self._read([entity for entity, _ in introductions])
        for entity, place in introductions:
            self._known[entity].remove(place)
        return {entity: self._keys[entity] for entity, _ in introductions}

    def list_unintroduced(self) -> list[tuple[int, str]]:
        """Known names (their ids and normal forms) that nothing introduces any more, in this apply or before."""
        return [
            (entity, key)
            for key, entity in self._ids.items()
            if not self._known[entity].introduced and key not in self._introduced
        ]

    def list_new_keys(self) -> list[str]:
        """Names introduced that the store does not know yet, in order."""
        unknown = [key for key in self._introduced if key not in self._ids]
        for key, entity in zip(unknown, self._filter.find_many(unknown), strict=True):
            if entity:
                self._ids[key] = int(entity)
        return sorted(key for key in unknown if key not in self._ids)

    def settle(self, new: Mapping[str, int]) -> dict[str, int]:
        """Write the records of all names touched and still introduced; returns the ids of those introduced here."""
        self._ids.update(new)
        self._known.update((entity, EntityRecord()) for entity in new.values())
        self._read([self._ids[key] for key in self._introduced])
        for key, introductions in self._introduced.items():
            entity = self._ids[key]
            record = self._known[entity]
            for form, kind in introductions:
                self._places[entity, form, kind] = record.add(form, kind)
        self._entities.put_many({entity: record for entity, record in self._known.items() if record.introduced})
        return {key: self._ids[key] for key in self._introduced}

    def place(self, entity: int, form: str, kind: str) -> int:
        """The place of the slot that an introduction of this apply is counted in; to be asked after :meth:`settle`."""
        return self._places[entity, form, kind]

    def _read(self, entities: Sequence[int]) -> None:
        """Learn what is stored of some entities, unless it is known."""
        missing = [entity for entity in dict.fromkeys(entities) if entity not in self._known]
        for entity, record in zip(missing, self._entities.get_many(missing), strict=True):
            self._known[entity] = record
            key = self._keys[entity] = record.key
            self._ids[key] = entity
