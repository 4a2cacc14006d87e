"""Entities: the names a store knows, who introduced them, and where they are mentioned.

On disk: ``entities`` (block of ids → for each id its slots: forms and kinds, counted by introduction),
``entity_names`` (normal form → id, in order, for prefixes), ``get_introductions`` (document → the names it introduces, each
as an entity and one of its slots). An entity exists while its counts are not all zero. Where it is found is told by
``mentions.py``, and by the entity filter and its block lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack

from kvstore_cext.msgpack_rows import elements, with_elements

from ...errors import CorruptionError
from ...storage import records
from ...storage.environment import View, WriteView
from ...text.normalize import to_entity_key
from .. import tables

#: What makes a name one; a slot is stored with the place of its kind in this list.
KINDS = ("name", "term", "title", "heading", "code", "tree", "alias", "triple")

#: Entities whose records are stored together: each would be smaller than what LMDB and a checksum add to it.
BLOCK_SIZE = 16
_EMPTY_BLOCK = records.pack([None] * BLOCK_SIZE)
#: A record as it is stored: form, kind and count of each slot.
EntityRow = list[Any]


class Slot(NamedTuple):
    """A form and a kind in which an entity is introduced, and how often; a slot that is free has the form ""."""

    form: str
    kind: str
    times: int


_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
#: A slot that is free, as it is stored.
_FREE_SLOT = ["", 0, 0]


@dataclass(slots=True)
class EntityRecord:
    """What is known of an entity: how it is introduced; ``row`` is as stored.

    Documents refer to slots by their places, so a slot keeps its place as long as it is in use.
    """

    row: EntityRow = field(default_factory=list)

    @property
    def slots(self) -> list[Slot]:
        """The slots in order of their places."""
        values = iter(self.row)
        return [Slot(form, KINDS[kind], times) for form, kind, times in zip(values, values, values, strict=True)]

    @property
    def is_introduced(self) -> bool:
        """Whether anything introduces it."""
        return bool(self.row)

    @property
    def key(self) -> str:
        """The normal form, which all forms share."""
        row = self.row
        return to_entity_key(row[next(offset for offset in range(0, len(row), 3) if row[offset + 2])])

    @property
    def forms(self) -> dict[str, int]:
        """How it is written, each form with its number of introductions."""
        return _sum_counts((slot.form, slot.times) for slot in self.slots)

    @property
    def kinds(self) -> dict[str, int]:
        """What kinds of name it is, each with its number of introductions."""
        return _sum_counts((slot.kind, slot.times) for slot in self.slots)

    @property
    def name(self) -> str:
        """The form it was introduced in most often; the first in code-point order among equals."""
        # Most have one slot.
        return self.row[0] if len(self.row) == 3 else _select_most_frequent(self.forms)

    @property
    def kind(self) -> str:
        """The kind it was introduced as most often; the first in code-point order among equals."""
        return _select_most_frequent(self.kinds)

    def get_slot_index(self, form: str, kind: str) -> int:
        """The place of the slot of a form and kind; raises CorruptionError where there is none."""
        slot_index = self._find_slot(form, _KIND_NUMBERS[kind])
        if slot_index is None:
            raise CorruptionError(f"the name {form!r} is not introduced as {kind}; run CHECK")
        return slot_index

    def add_introduction(self, form: str, kind: str) -> int:
        """Count one more introduction; the place of its slot."""
        kind_number = _KIND_NUMBERS[kind]
        if not self.row:  # as of a new name
            self.row = [form, kind_number, 1]
            return 0
        slot_index = self._find_slot(form, kind_number)
        if slot_index is not None:
            self.row[3 * slot_index + 2] += 1
            return slot_index
        counts = self.row[2::3]
        free = counts.index(0) if 0 in counts else len(counts)
        self.row[3 * free : 3 * free + 3] = form, kind_number, 1
        return free

    def remove_introduction(self, slot_index: int) -> None:
        """Count one introduction less, of the slot at ``get_slot_index``; raises CorruptionError where it is free."""
        offset = 3 * slot_index
        if offset >= len(self.row) or not self.row[offset + 2]:
            raise CorruptionError(f"an introduction refers to slot {slot_index} of an entity, which is free; run CHECK")
        self.row[offset + 2] -= 1
        if not self.row[offset + 2]:
            self.row[offset : offset + 3] = _FREE_SLOT
            while self.row and not self.row[-1]:
                del self.row[-3:]

    def _find_slot(self, form: str, kind: int) -> int | None:
        row = self.row
        for offset in range(0, len(row), 3):
            if row[offset] == form and row[offset + 1] == kind and row[offset + 2]:
                return offset // 3
        return None


def _sum_counts(name_counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, times in name_counts:
        if times:
            sums[name] = sums.get(name, 0) + times
    return sums


def _select_most_frequent(counts: dict[str, int]) -> str:
    return min(counts, key=lambda name: (-counts[name], name))


def _decode(row: EntityRow, entity: int) -> EntityRecord:
    if len(row) % 3 or not any(row[2::3]):
        raise CorruptionError(f"entity {entity} is stored, but nothing introduces it; run CHECK")
    return EntityRecord(row.copy())


def _unpack_rows(key: bytes, value: memoryview | None, entities: Sequence[int]) -> list[EntityRow | None]:
    """Some rows of a block, by entities in order."""
    if value is None:
        return [None] * len(entities)
    try:
        packed_rows = elements(value, [entity % BLOCK_SIZE for entity in entities])
        return [None if row is None else msgpack.unpackb(row) for row in packed_rows]
    except ValueError as error:
        raise _make_corruption_error(key, error) from error


def _make_corruption_error(key: bytes, error: ValueError) -> CorruptionError:
    return CorruptionError(
        f"table {tables.ENTITIES}, key {key.hex()}: {error}; run CHECK REPAIR, or restore from a backup"
    )


class Entities:
    """The entities of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, entity: int) -> EntityRecord:
        """The record of an entity that must exist; raises CorruptionError where it does not."""
        return self.get_many([entity])[0]

    def get_many(self, entities: Sequence[int]) -> list[EntityRecord]:
        """The records of entities that must exist; raises CorruptionError for one that does not."""
        records = []
        for entity, record in zip(entities, self.find_many(entities), strict=True):
            if record is None:
                raise CorruptionError(f"entity {entity} is referred to but not stored; run CHECK")
            records.append(record)
        return records

    def find_many(self, entities: Sequence[int]) -> list[EntityRecord | None]:
        """Return the record of each of some entities, or None if there is no such entity."""
        records_by_id: dict[int, EntityRecord | None] = {}
        for key, value, members in self._read_blocks(entities):
            for entity, row in zip(members, _unpack_rows(key, value, members), strict=True):
                records_by_id[entity] = None if row is None else _decode(row, entity)
        return [records_by_id[entity] for entity in entities]

    def __contains__(self, entity: int) -> bool:
        """Whether there is an entity with this number, which may be any."""
        if not 0 <= entity < 1 << 32:
            return False
        ((key, value, members),) = self._read_blocks([entity])
        return _unpack_rows(key, value, members) != [None]

    def has_many(self, entities: Sequence[int]) -> list[bool]:
        """Whether there is an entity with each of some numbers."""
        is_stored: dict[int, bool] = {}
        for key, value, members in self._read_blocks(entities):
            is_stored.update(
                (entity, row is not None)
                for entity, row in zip(members, _unpack_rows(key, value, members), strict=True)
            )
        return [is_stored[entity] for entity in entities]

    def find_id(self, key: str) -> int | None:
        """The id under a normal form, from the ordered index; raises CorruptionError where it is another's."""
        value = self._view.get(tables.ENTITY_NAMES, key.encode())
        if value is None:
            return None
        entity = int(records.U32.unpack(value)[0])
        self._get_checked(key, entity)
        return entity

    def scan(self) -> Iterator[tuple[int, EntityRecord]]:
        """All entities in order of their ids."""
        for key, value in self._view.scan(tables.ENTITIES):
            first = BLOCK_SIZE * records.U32.unpack(key)[0]
            for entity, row in enumerate(records.unpack(value, tables.ENTITIES, key), first):
                if row is not None:
                    yield entity, _decode(row, entity)

    def iter_names(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Normal forms in order of their bytes, those beginning with ``prefix``, with their ids."""
        start = prefix.encode()
        for key, value in self._view.scan(tables.ENTITY_NAMES, start):
            encoded_name = bytes(key)
            if not encoded_name.startswith(start):
                return
            yield encoded_name.decode(), int(records.U32.unpack(value)[0])

    def iter_with_prefix(self, prefix: str) -> Iterator[EntityRecord]:
        """The entities whose normal form begins with ``prefix``, in order; raises CorruptionError where one is
        another's."""
        for key, entity in self.iter_names(prefix):
            yield self._get_checked(key, entity)

    def _get_checked(self, key: str, entity: int) -> EntityRecord:
        """The record of the entity that a name leads to, which must be that name's."""
        record = self.get(entity)
        if record.key != key:
            raise CorruptionError(f"the name {key!r} leads to another entity; run CHECK")
        return record

    def _read_blocks(self, entities: Iterable[int]) -> Iterator[tuple[bytes, memoryview | None, list[int]]]:
        """The blocks of some entities: the key of each, its value, and those of the entities that are in it, in
        order."""
        members: dict[bytes, list[int]] = {}
        for entity in sorted(set(entities)):
            members.setdefault(records.encode_u32(entity // BLOCK_SIZE), []).append(entity)
        values = self._view.get_many(tables.ENTITIES, list(members))
        return zip(members, values, members.values(), strict=True)

    def get_introductions(self, *documents: int) -> list[tuple[int, int]]:
        """What documents introduce: entity id, and the place of a slot of that entity."""
        keys = list(map(records.encode_u64, documents))
        found: list[tuple[int, int]] = []
        for key, value in zip(keys, self._view.get_many(tables.INTRODUCTIONS, keys), strict=True):
            row = iter(() if value is None else records.unpack(value, tables.INTRODUCTIONS, key))
            found.extend(zip(row, row, strict=True))
        return found

    def iter_introduced_names(self, document: int) -> Iterator[tuple[int, str, str]]:
        """What a document introduces: entity id, form, kind; raises CorruptionError where it refers to nothing."""
        for entity, slot_index in self.get_introductions(document):
            slots = self.get(entity).slots
            if slot_index >= len(slots) or not slots[slot_index].times:
                raise CorruptionError(
                    f"document {document} introduces entity {entity} in a way it does not know; run CHECK"
                )
            yield entity, slots[slot_index].form, slots[slot_index].kind


class EntityWriter(Entities):
    """The entities of one write transaction."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view

    def put_many(self, changes: Mapping[int, EntityRecord]) -> None:
        """Write the records of some entities in place of what was known of them."""
        self._put_rows({entity: record.row for entity, record in changes.items()})

    def put_names(self, new_names: Mapping[str, int]) -> None:
        """Store which entities the normal forms of new names lead to."""
        self._write.change_many(
            tables.ENTITY_NAMES, {key.encode(): records.encode_u32(entity) for key, entity in new_names.items()}
        )

    def remove(self, removed: Mapping[int, str]) -> None:
        """Forget entities, whose normal forms are given."""
        self._put_rows(dict.fromkeys(removed))
        self._write.change_many(tables.ENTITY_NAMES, dict.fromkeys(key.encode() for key in removed.values()))

    def put_introductions(self, document: int, rows: list[tuple[int, int]]) -> None:
        """Store what a document introduces: entity ids, each with the place of a slot."""
        if rows:
            row = [number for pair in rows for number in pair]
            self._write.put(tables.INTRODUCTIONS, records.encode_u64(document), records.pack(row))

    def remove_introductions(self, documents: Iterable[int]) -> None:
        """Forget what documents introduce."""
        self._write.change_many(tables.INTRODUCTIONS, dict.fromkeys(map(records.encode_u64, documents)))

    def _put_rows(self, changes: Mapping[int, EntityRow | None]) -> None:
        block_changes: dict[bytes, bytes | None] = {}
        for key, value, members in self._read_blocks(changes):
            rows = {entity % BLOCK_SIZE: changes[entity] for entity in members}
            packed_rows = {index: None if row is None else records.encode_msgpack(row) for index, row in rows.items()}
            try:
                new_value = with_elements(_EMPTY_BLOCK if value is None else value, packed_rows)
            except ValueError as error:
                raise _make_corruption_error(key, error) from error
            if new_value != value:
                block_changes[key] = new_value
        self._write.change_many(tables.ENTITIES, block_changes)
