"""Entities: the names a store knows, and their introductions: the statements that make a name known. A *slot* of an
entity counts the introductions of its name with one spelling and one kind (such as title or alias). Documents refer to
a slot by its index. The *key* is the normal form of the name.

On disk: ``entities`` (block of ids → for each id its slots: spellings and kinds with counts of introductions),
``entity_names`` (normal form → id, in order, for prefixes), ``introductions`` (document → the names it introduces, each
as an entity and one of its slots). An entity exists while one of its counts is positive. Its occurrences are stored in
``mentions`` and ``place_mentions``, and in the entity filter and its block lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack

from kvstore_cext.msgpack_rows import read_elements, replace_elements

from ...errors import CorruptionError
from ...storage import records
from ...storage.view import ViewReader, ViewWriter
from ...text.normalize import to_entity_key
from .. import tables

#: The kinds of names. A slot stores the position of its kind in this list.
KINDS = ("name", "term", "title", "heading", "code", "tree", "alias", "triple")

#: The number of entities whose records are stored together. A single record is smaller than the overhead of LMDB and a
#: checksum.
ENTITIES_PER_BLOCK = 16
_EMPTY_BLOCK = records.pack([None] * ENTITIES_PER_BLOCK)
#: A stored record: spelling, kind and count of each slot.
EntityRow = list[Any]
#: The number of fields of a slot, and the position of its count among them.
_SLOT_LENGTH = 3
_COUNT_FIELD = 2


class Slot(NamedTuple):
    """A spelling and a kind of a name, and the number of statements that introduce the name with both.

    A free slot has the spelling "".
    """

    spelling: str
    kind: str
    num_introductions: int


_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
#: A free slot, as it is stored.
_FREE_SLOT = ["", 0, 0]


@dataclass(slots=True)
class EntityRecord:
    """The introductions of an entity, counted in slots by spelling and kind. ``row`` is stored: three fields for each
    slot, the spelling, the number of the kind and the count. A free slot has an empty spelling and the count 0. A slot
    keeps its position while it is in use, because documents refer to it.
    """

    row: EntityRow = field(default_factory=list)

    @property
    def slots(self) -> list[Slot]:
        """The slots of the entity; a slot counts the statements that make it known with one spelling and kind."""
        fields = iter(self.row)  # three fields per slot
        return [
            Slot(spelling, KINDS[kind], count) for spelling, kind, count in zip(fields, fields, fields, strict=True)
        ]

    @property
    def is_introduced(self) -> bool:
        """True if any document, edge, triple or alias still makes the name known."""
        return bool(self.row)  # free slots at the end are removed, so a row without introductions is empty

    @property
    def key(self) -> str:
        """The normal form of the entity's name, which all its spellings have."""
        if len(self.row) == _SLOT_LENGTH:  # a single slot, which is never free; most entities have only one
            return to_entity_key(self.row[0])
        spellings, counts = self.row[::_SLOT_LENGTH], self.row[_COUNT_FIELD::_SLOT_LENGTH]
        # A free slot has no spelling and the count 0.
        return to_entity_key(next(spelling for spelling, count in zip(spellings, counts, strict=True) if count))

    @property
    def spellings(self) -> dict[str, int]:
        """The spellings of the entity, each with the number of statements that make it known."""
        return _sum_counts((slot.spelling, slot.num_introductions) for slot in self.slots)

    @property
    def kinds(self) -> dict[str, int]:
        """The kinds of the name, each with the number of statements that make it known."""
        return _sum_counts((slot.kind, slot.num_introductions) for slot in self.slots)

    @property
    def name(self) -> str:
        """The most frequent spelling of the name in the statements that make it known; ties in code-point order."""
        has_single_slot = len(self.row) == _SLOT_LENGTH  # most entities have only one spelling and kind
        return self.row[0] if has_single_slot else _select_most_frequent(self.spellings)

    @property
    def kind(self) -> str:
        """The most frequent kind of the name in the statements that make it known; ties in code-point order."""
        return _select_most_frequent(self.kinds)

    def get_slot_index(self, spelling: str, kind: str) -> int:
        """Return the index of the slot for a spelling and a kind of name; raise CorruptionError if it is missing."""
        slot_index = self._find_slot(spelling, _KIND_NUMBERS[kind])
        if slot_index is None:
            raise CorruptionError(f"the name {spelling!r} is not introduced as {kind}; run CHECK")
        return slot_index

    def add_introduction(self, spelling: str, kind: str) -> int:
        """Count one more statement that makes the entity known with a spelling and a kind.

        Returns the index of the slot; if it is missing, it replaces a slot whose count is 0, or is added.
        """
        kind_number = _KIND_NUMBERS[kind]
        if not self.row:  # a new name
            self.row = [spelling, kind_number, 1]
            return 0
        slot_index = self._find_slot(spelling, kind_number)
        if slot_index is not None:
            self.row[_SLOT_LENGTH * slot_index + _COUNT_FIELD] += 1
            return slot_index
        counts = self.row[_COUNT_FIELD::_SLOT_LENGTH]
        free_index = counts.index(0) if 0 in counts else len(counts)
        offset = _SLOT_LENGTH * free_index
        self.row[offset : offset + _SLOT_LENGTH] = spelling, kind_number, 1
        return free_index

    def remove_introduction(self, slot_index: int) -> None:
        """Subtract 1 from the count of a slot, after a statement that introduced the name was removed.

        At 0, it is freed. Raises CorruptionError if it is free already or does not exist.
        """
        offset = _SLOT_LENGTH * slot_index
        if offset >= len(self.row) or not self.row[offset + _COUNT_FIELD]:
            raise CorruptionError(f"an introduction refers to slot {slot_index} of an entity, which is free; run CHECK")
        self.row[offset + _COUNT_FIELD] -= 1
        if not self.row[offset + _COUNT_FIELD]:
            self.row[offset : offset + _SLOT_LENGTH] = _FREE_SLOT
            while self.row and not self.row[-1]:  # free slots at the end are not stored
                del self.row[-_SLOT_LENGTH:]

    def _find_slot(self, spelling: str, kind_number: int) -> int | None:
        """Return the index of the used slot with a spelling and a kind (its index in ``KINDS``), or None."""
        row = self.row
        for offset in range(0, len(row), _SLOT_LENGTH):
            # The fields of a slot are its spelling, its kind and its count, which is 0 in a free slot.
            if row[offset] == spelling and row[offset + 1] == kind_number and row[offset + _COUNT_FIELD]:
                return offset // _SLOT_LENGTH
        return None


def _sum_counts(name_counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Add up the counts of each name, and omit names with a count of 0."""
    totals: dict[str, int] = {}
    for name, count in name_counts:
        if count:
            totals[name] = totals.get(name, 0) + count
    return totals


def _select_most_frequent(counts: dict[str, int]) -> str:
    """Return the key with the highest count; of equal counts, the first key in code-point order."""
    return min(counts, key=lambda name: (-counts[name], name))


def _decode(row: EntityRow, entity: int) -> EntityRecord:
    """Return the record of an entity from its stored row.

    The row has a slot for each way in which the name was introduced: its spelling, its kind, and how often. Raises
    CorruptionError if the row is incomplete, or all counts are 0.
    """
    if len(row) % _SLOT_LENGTH or not any(row[_COUNT_FIELD::_SLOT_LENGTH]):
        raise CorruptionError(f"entity {entity} is stored, but nothing introduces it; run CHECK")
    return EntityRecord(row)


def _unpack_rows(key: bytes, value: memoryview | None, entities: Sequence[int]) -> list[EntityRow | None]:
    """Decode the stored records (rows) of ``entities``, all of one block, in order; None for a missing entity.

    Raises CorruptionError if the block is damaged.
    """
    if value is None:
        return [None] * len(entities)
    try:
        packed_rows = read_elements(value, [entity % ENTITIES_PER_BLOCK for entity in entities])
        return [None if row is None else msgpack.unpackb(row) for row in packed_rows]
    except ValueError as error:
        raise _make_corruption_error(key, error) from error


def _make_corruption_error(key: bytes, error: ValueError) -> CorruptionError:
    """Return the error for a damaged block of entity records."""
    return CorruptionError(
        f"table {tables.ENTITIES}, key {key.hex()}: {error}; run CHECK REPAIR, or restore from a backup"
    )


class Entities(ViewReader):
    """The entities of one view, a snapshot or a write transaction. The records of :data:`ENTITIES_PER_BLOCK`
    consecutive ids are stored together, as a *block*.
    """

    def get(self, entity: int) -> EntityRecord:
        """Return the record of an entity that must exist; raise CorruptionError if it does not."""
        return self.get_many([entity])[0]

    def get_many(self, entities: Sequence[int]) -> list[EntityRecord]:
        """Return the records of entities that must exist; raise CorruptionError if one does not."""
        entity_records = []
        for entity, record in zip(entities, self.find_many(entities), strict=True):
            if record is None:
                raise records.make_missing_error(f"entity {entity}")
            entity_records.append(record)
        return entity_records

    def find_many(self, entities: Sequence[int]) -> list[EntityRecord | None]:
        """Return the record of each entity, or None for an id that no entity has."""
        records_by_id: dict[int, EntityRecord | None] = {}
        for key, value, ids in self._read_blocks(entities):
            for entity, row in zip(ids, _unpack_rows(key, value, ids), strict=True):
                records_by_id[entity] = None if row is None else _decode(row, entity)
        return [records_by_id[entity] for entity in entities]

    def __contains__(self, entity: int) -> bool:
        """True if an entity has this id; any integer is allowed."""
        if not 0 <= entity < 1 << 32:
            return False
        ((key, value, ids),) = self._read_blocks([entity])
        return _unpack_rows(key, value, ids) != [None]

    def has_many(self, entities: Sequence[int]) -> list[bool]:
        """Return for each id True if an entity with this id exists, else False."""
        is_stored: dict[int, bool] = {}
        for key, value, ids in self._read_blocks(entities):
            is_stored.update(
                (entity, row is not None) for entity, row in zip(ids, _unpack_rows(key, value, ids), strict=True)
            )
        return [is_stored[entity] for entity in entities]

    def find_id(self, key: str) -> int | None:
        """Return the id of the entity whose name has the normal form ``key``, or None.

        Raises CorruptionError if the entity has another name.
        """
        value = self._view.get(tables.ENTITY_NAMES, key.encode())
        if value is None:
            return None
        entity = int(records.U32.unpack(value)[0])
        self._get_with_key(key, entity)  # verifies the entity's name
        return entity

    def scan(self) -> Iterator[tuple[int, EntityRecord]]:
        """Yield all entities in order of their ids."""
        for key, value in self._view.scan(tables.ENTITIES):
            first_entity = ENTITIES_PER_BLOCK * records.U32.unpack(key)[0]
            for entity, row in enumerate(records.unpack(value, tables.ENTITIES, key), first_entity):
                if row is not None:
                    yield entity, _decode(row, entity)

    def iter_names(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield the normal forms that begin with ``prefix``, in byte order, with the ids of their entities."""
        start = prefix.encode()
        for key, value in self._view.scan(tables.ENTITY_NAMES, start):
            encoded_name = bytes(key)
            if not encoded_name.startswith(start):
                return
            yield encoded_name.decode(), int(records.U32.unpack(value)[0])

    def iter_with_prefix(self, prefix: str) -> Iterator[EntityRecord]:
        """Yield the records of the entities whose normal form begins with ``prefix``, in byte order.

        Raises CorruptionError if the entity stored under a name has another name.
        """
        for key, entity in self.iter_names(prefix):
            yield self._get_with_key(key, entity)

    def _get_with_key(self, key: str, entity: int) -> EntityRecord:
        """Return the record of ``entity``, whose id is stored under the name ``key`` (a normal form).

        Raises CorruptionError if the entity has another name.
        """
        record = self.get(entity)
        if record.key != key:
            raise CorruptionError(f"the name {key!r} refers to another entity; run CHECK")
        return record

    def _read_blocks(self, entities: Iterable[int]) -> Iterator[tuple[bytes, memoryview | None, list[int]]]:
        """Yield the blocks that store some entities: the key, the value (None if missing), and the ids of the entities.

        A block has the records of 16 entities with consecutive ids.
        """
        ids_by_block: dict[bytes, list[int]] = {}
        for entity in sorted(set(entities)):
            ids_by_block.setdefault(records.encode_u32(entity // ENTITIES_PER_BLOCK), []).append(entity)
        values = self._view.get_many(tables.ENTITIES, list(ids_by_block))
        return zip(ids_by_block, values, ids_by_block.values(), strict=True)

    def get_introductions(self, *documents: int) -> list[tuple[int, int]]:
        """Return the names that documents make known, in one list, as pairs of an entity id and a slot index.

        The slot with this index in the entity's record has the spelling and the kind of the name.
        """
        keys = list(map(records.encode_u64, documents))
        introductions: list[tuple[int, int]] = []
        for key, value in zip(keys, self._view.get_many(tables.INTRODUCTIONS, keys), strict=True):
            # Stored as a flat list: an entity, a slot, the next entity, the next slot, and so on.
            numbers = iter(() if value is None else records.unpack(value, tables.INTRODUCTIONS, key))
            introductions.extend(zip(numbers, numbers, strict=True))
        return introductions

    def iter_introduced_names(self, document: int) -> Iterator[tuple[int, str, str]]:
        """Yield the names that a document makes known: entity id, spelling, kind.

        Raises CorruptionError if the entity's record does not count the introduction of a name (its slot is free).
        """
        for entity, slot_index in self.get_introductions(document):
            slots = self.get(entity).slots
            if slot_index >= len(slots) or not slots[slot_index].num_introductions:
                raise CorruptionError(f"document {document} introduces entity {entity} in a free slot; run CHECK")
            yield entity, slots[slot_index].spelling, slots[slot_index].kind


class EntityWriter(ViewWriter, Entities):
    """The entities of one write transaction."""

    def put_many(self, changes: Mapping[int, EntityRecord | None]) -> None:
        """Store the records of entities, replacing their old ones; None removes an entity.

        The records of 16 entities with consecutive ids form a block, which is stored as a whole. Raises CorruptionError
        if a stored block is damaged.
        """
        block_changes: dict[bytes, bytes | None] = {}
        for key, value, ids in self._read_blocks(changes):
            packed_rows = {
                entity % ENTITIES_PER_BLOCK: None
                if (record := changes[entity]) is None
                else records.encode_msgpack(record.row)
                for entity in ids
            }
            try:
                new_value = replace_elements(_EMPTY_BLOCK if value is None else value, packed_rows)
            except ValueError as error:
                raise _make_corruption_error(key, error) from error
            if new_value != value:
                block_changes[key] = new_value
        self._write_view.change_many(tables.ENTITIES, block_changes)

    def put_names(self, changes: Mapping[str, int | None]) -> None:
        """Store the entity of each name (normal form); None removes a name."""
        self._write_view.change_many(
            tables.ENTITY_NAMES,
            {key.encode(): None if entity is None else records.encode_u32(entity) for key, entity in changes.items()},
        )

    def put_introductions(self, document: int, introductions: list[tuple[int, int]]) -> None:
        """Store the names that a document makes known, as pairs (entity, index of the slot that counts the name).

        Stores nothing if there are none.
        """
        if introductions:
            numbers = [number for introduction in introductions for number in introduction]
            self._write_view.put(tables.INTRODUCTIONS, records.encode_u64(document), records.pack(numbers))

    def remove_introductions(self, documents: Iterable[int]) -> None:
        """Delete the lists of the names that documents make known; the counts in the names' slots are not changed."""
        self._write_view.change_many(tables.INTRODUCTIONS, dict.fromkeys(map(records.encode_u64, documents)))
