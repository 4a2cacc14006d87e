"""The names that a change makes known or unknown: introductions, collected by name and written once. The *key* of a
name is its normal form. Each known name is an entity.

In: names introduced and withdrawn by documents, edges and aliases. On disk: the slots of ``entities``. Out: the new
names, and the names without any introduction left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..structures.filter.entity_filter import EntityFilter
from ..structures.names.entities import EntityRecord, EntityWriter


class NameChanges:
    """The introductions that one set of changes adds and withdraws, by name; written once at the end. An introduction
    is a statement that makes a name known. It has a spelling and a kind (the rule that found the name). A *slot* of a
    name's record counts the introductions with one spelling and kind.
    """

    def __init__(self, entities: EntityWriter, entity_filter: EntityFilter) -> None:
        """Create an empty set of changes; ``entities`` reads and writes records, and ``entity_filter`` finds names."""
        self._entities = entities
        self._filter = entity_filter
        #: The records loaded so far, by entity.
        self._records: dict[int, EntityRecord] = {}
        #: The spelling and kind of each new introduction, by normal form.
        self._introductions: dict[str, list[tuple[str, str]]] = {}
        #: The entities of normal forms, and the reverse.
        self._ids: dict[str, int] = {}
        self._keys: dict[int, str] = {}
        #: The index of the slot that counts the introductions of an entity with a spelling and a kind, for each of
        #: these three; complete after :meth:`write_records`.
        self.slots: dict[tuple[int, str, str], int] = {}

    def introduce(self, key: str, spelling: str, kind: str) -> None:
        """Record that a document or fact makes the name with the normal form ``key`` known, in this ``spelling``.

        ``kind`` is the kind of name, such as "alias": the rule that found it.
        """
        self._introductions.setdefault(key, []).append((spelling, kind))

    def withdraw(self, entity: int, spelling: str, kind: str) -> None:
        """Record that a document or fact no longer makes the name of an entity known, in this ``spelling``.

        ``kind`` is the kind of name, such as "alias": the rule that found it. Raises CorruptionError if the record of
        the entity counts no introduction with this spelling and kind.
        """
        self._load_records([entity])
        record = self._records[entity]
        record.remove_introduction(record.get_slot_index(spelling, kind))

    def withdraw_all(self, introductions: Sequence[tuple[int, int]]) -> dict[int, str]:
        """Record that documents no longer make names known; return the key (normal form) of each entity.

        ``introductions`` are pairs of an entity and the index of a slot in its record.
        """
        self._load_records([entity for entity, _ in introductions])
        for entity, slot in introductions:
            self._records[entity].remove_introduction(slot)
        return {entity: self._keys[entity] for entity, _ in introductions}

    def find_unintroduced(self) -> dict[int, str]:
        """Return the names that the changes make unknown, as keys (normal forms) by entity.

        For these names, no introduction remains stored, and none is added.
        """
        return {
            entity: key
            for key, entity in self._ids.items()
            if not self._records[entity].is_introduced and key not in self._introductions
        }

    def find_new_keys(self) -> list[str]:
        """Look up and cache the entities of names that the changes make known; return the keys of new names, sorted."""
        unresolved_keys = [key for key in self._introductions if key not in self._ids]
        for key, entity in zip(unresolved_keys, self._filter.find_entities(unresolved_keys), strict=True):
            if entity:  # 0: an unknown name
                self._ids[key] = int(entity)
        return sorted(key for key in unresolved_keys if key not in self._ids)

    def write_records(self, new_ids: Mapping[str, int]) -> dict[str, int]:
        """Count the new introductions in the records of their names, and write all changed records.

        The records of names without any introduction are removed. ``new_ids`` has the entities of new names, by key
        (normal form). Returns the entities of the introduced names, new or not, by key. Sets :attr:`slots` to the slots
        that count the new introductions.
        """
        self._ids.update(new_ids)
        self._records.update((entity, EntityRecord()) for entity in new_ids.values())
        self._load_records([self._ids[key] for key in self._introductions])
        for key, introductions in self._introductions.items():
            entity = self._ids[key]
            record = self._records[entity]
            for spelling, kind in introductions:
                self.slots[entity, spelling, kind] = record.add_introduction(spelling, kind)
        self._entities.put_many(
            {entity: record if record.is_introduced else None for entity, record in self._records.items()}
        )
        return {key: self._ids[key] for key in self._introductions}

    def _load_records(self, entities: Sequence[int]) -> None:
        """Load and cache the stored records of entities, with their keys, unless they are loaded already."""
        missing_ids = [entity for entity in dict.fromkeys(entities) if entity not in self._records]
        for entity, record in zip(missing_ids, self._entities.get_many(missing_ids), strict=True):
            self._records[entity] = record
            key = self._keys[entity] = record.key
            self._ids[key] = entity
