"""How introductions of names change in one set of changes: gathered name by name, written once.

In: names introduced and withdrawn, by documents, edges and aliases alike. On disk: the counts of ``entities``. Out:
which names are new, and which nothing introduces any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..storage.entities import EntityRecord, EntityWriter
from ..storage.entity_filter import EntityFilter


class NameChanges:
    """How introductions change in one apply, name by name; written once at the end."""

    def __init__(self, entities: EntityWriter, entity_filter: EntityFilter) -> None:
        self._entities = entities
        self._filter = entity_filter
        self._known: dict[int, EntityRecord] = {}
        self._deltas: dict[str, list[tuple[str, str, int]]] = {}
        self._ids: dict[str, int] = {}

    def introduce(self, key: str, form: str, kind: str) -> None:
        self._deltas.setdefault(key, []).append((form, kind, 1))

    def withdraw(self, entity: int, form: str, kind: str) -> None:
        record = self._known.get(entity)
        if record is None:
            record = self._known[entity] = self._entities.get(entity)
            self._ids[record.key] = entity
        _count(record, form, kind, -1)

    def without_introduction(self) -> list[tuple[int, EntityRecord]]:
        """Known names that nothing introduces any more, in this apply or before."""
        return [
            (entity, record)
            for entity, record in self._known.items()
            if not record.forms and record.key not in self._deltas
        ]

    def new_keys(self) -> list[str]:
        """Names introduced that the store does not know yet, in order."""
        unknown = [key for key in self._deltas if key not in self._ids]
        for key, entity in zip(unknown, self._filter.find_many(unknown), strict=True):
            if entity:
                self._ids[key] = int(entity)
        return sorted(key for key in unknown if key not in self._ids)

    def settle(self, new: Mapping[str, int]) -> dict[str, int]:
        """Write the records of all names touched and still introduced; returns the ids of those introduced here."""
        self._ids.update(new)
        for key, changes in self._deltas.items():
            entity = self._ids[key]
            if entity not in self._known:
                self._known[entity] = EntityRecord(key) if key in new else self._entities.get(entity)
            for form, kind, delta in changes:
                _count(self._known[entity], form, kind, delta)
        for entity, record in self._known.items():
            if record.forms:
                self._entities.put(entity, record)
        return {key: self._ids[key] for key in self._deltas}


def _count(record: EntityRecord, form: str, kind: str, delta: int) -> None:
    for counts, item in ((record.forms, form), (record.kinds, kind)):
        counts[item] = counts.get(item, 0) + delta
        if not counts[item]:
            del counts[item]
