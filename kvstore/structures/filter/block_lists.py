"""Block lists: ascending lists of numbers per entity, in blocks that are cheap to change. A *block* is a record with up
to 124 numbers of one list; its key is the entity and the first of these numbers. The entity filter stores long lists of
addresses this way, and the graph the chunks of an entity.

On disk: a table such as ``address_blocks``: entity (u32) and first number (u64), both big-endian → the numbers of the
block, ascending, stored as differences and sealed. Blocks are records in LMDB's B+ tree, so one number among n is added
or removed in O(log n). Out: ascending u64 arrays. Damage raises CorruptionError.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from kvstore_cext.compact import change_blocks, locate_last_blocks, unpack_numbers

from ...errors import CorruptionError
from ...storage import records
from ...storage.environment import View, WriteView
from ...storage.view import Record
from .. import tables

Numbers = npt.NDArray[np.uint64]

#: The maximum number of numbers in a block.
BLOCK_SIZE = 124
#: A block with fewer numbers than ``_MIN_BLOCK`` is merged with the next if both together have at most
#: ``_MAX_MERGED_BLOCK``.
_MIN_BLOCK = 31
_MAX_MERGED_BLOCK = 93

_MAX_NUMBER = (1 << 64) - 1

_KEY_STRUCT = struct.Struct(">IQ")


#: By entity: the numbers to remove from its list, and the numbers to add, both ascending.
ListChanges = Mapping[int, tuple[Sequence[int], Sequence[int]]]


class _ChangedBlocks(NamedTuple):
    """The result of changing one block of the list of each of several entities.

    ``counts`` has the numbers of removed and of new numbers of each entity, in order. ``remaining`` has the changes
    that belong to earlier blocks, by entity. ``small_blocks`` has the key and the size of each block that became too
    small, by entity.
    """

    counts: list[tuple[int, int]]
    remaining: dict[int, tuple[Sequence[int], Sequence[int]]]
    small_blocks: dict[int, tuple[bytes, int]]


class BlockLists:
    """The lists of numbers of entities, such as addresses, that one table stores in blocks."""

    def __init__(self, view: View, table: str = tables.ADDRESS_BLOCKS) -> None:
        """Create a reader of the lists that ``table`` has in ``view``: the ascending numbers of each entity.

        The lists can be changed if ``view`` is a write transaction.
        """
        self.view = view
        self._table = table

    def read(self, entity: int, limit: int | None = None, start: int = 0) -> Numbers:
        """Return the first ``limit`` numbers (None: all) of an entity's list that are at least ``start``, ascending."""
        ranges: list[Numbers] = []
        num_remaining = _MAX_NUMBER if limit is None else limit
        # The block that contains ``start`` may begin before it. A byte more makes the end of the key range inclusive.
        key_range = records.encode_u32(entity), _make_key(entity, start) + b"\x00"
        (first_block,) = self.view.get_last_many(self._table, [key_range]) if start else (None,)
        block_start = start
        if first_block is not None:
            first_key, _ = first_block
            block_start = _get_first_number(first_key)
        for _, block in self._iter_blocks(entity, block_start):
            numbers = block[np.searchsorted(block, np.uint64(start)) :][:num_remaining]
            ranges.append(numbers)
            num_remaining -= len(numbers)
            if num_remaining <= 0:
                break
        return np.concatenate(ranges) if ranges else np.empty(0, np.uint64)

    def read_many(self, entities: Sequence[int]) -> list[tuple[int, Numbers]]:
        """Return all blocks of the lists of several entities, in order, each as (entity, stored numbers)."""
        block_records = self.view.scan_prefixes(self._table, list(map(records.encode_u32, entities)))
        return [(records.U32.unpack_from(key)[0], _decode(self._table, key, value)) for key, value in block_records]

    def get_first(self, entity: int) -> int:
        """Return the first number in the list of an entity; raise CorruptionError if the list is missing."""
        for first_number, _ in self._iter_blocks(entity, 0):
            return first_number
        raise CorruptionError(f"table {self._table}: entity {entity} has no addresses here; run CHECK")

    def change_many(self, changes: ListChanges) -> dict[int, tuple[int, int]]:
        """Remove and add numbers in the lists of many entities; return by entity how many were removed and are new.

        ``changes`` holds for each entity the numbers to remove and the numbers to add, both ascending. A list is split
        into blocks of ascending numbers; each block is a record of the table. Numbers to remove that are not in the
        list, and numbers to add that are in it, are not counted.
        """
        view = cast(WriteView, self.view)
        totals: dict[int, tuple[int, int]] = dict.fromkeys(changes, (0, 0))
        pending_changes = {entity: change for entity, change in changes.items() if any(change)}
        new_blocks: dict[bytes, bytes | None] = {}
        small_blocks: list[dict[int, tuple[bytes, int]]] = []
        while pending_changes:
            # Work from the end: one block of each list takes all changes at or above its first number. The others are
            # left for earlier blocks.
            ranges = locate_last_blocks(pending_changes)
            blocks = view.get_last_many(self._table, ranges)
            if None in blocks:  # a number below all blocks belongs to the first block of its list
                if new_blocks:  # written first, because one of them can be that block
                    self._write_blocks(new_blocks, small_blocks)
                    blocks = view.get_last_many(self._table, ranges)
                blocks = [
                    next(view.scan(self._table, records.encode_u32(entity), _make_end_key(entity)), None)
                    if block is None
                    else block
                    for entity, block in zip(pending_changes, blocks, strict=True)
                ]
            outcome = self._change_blocks(pending_changes, blocks, _MIN_BLOCK, new_blocks)
            for entity, (num_removed, num_new) in zip(pending_changes, outcome.counts, strict=True):
                total_removed, total_new = totals[entity]
                totals[entity] = total_removed + num_removed, total_new + num_new
            small_blocks.append(outcome.small_blocks)
            pending_changes = outcome.remaining
        self._write_blocks(new_blocks, small_blocks)
        return totals

    def _write_blocks(
        self, new_blocks: dict[bytes, bytes | None], small_blocks: list[dict[int, tuple[bytes, int]]]
    ) -> None:
        """Write new blocks, and merge the small ones with the next block of the same entity; empty both arguments.

        They are written together, because a search must look through the changes that were written since the last
        commit. ``small_blocks`` are in order of the changes, the last block of an entity first. Two blocks are merged
        only if they are small enough together.
        """
        view = cast(WriteView, self.view)
        view.change_many(self._table, new_blocks)
        for blocks in small_blocks:
            merged_blocks: dict[bytes, bytes | None] = {}
            for entity, (key, num_numbers) in blocks.items():
                next_block = next(view.scan(self._table, key + b"\x00", _make_end_key(entity)), None)
                if next_block is None:
                    continue
                next_key, next_value = next_block
                next_numbers = _decode(self._table, next_key, next_value).tolist()
                if num_numbers + len(next_numbers) <= _MAX_MERGED_BLOCK:
                    small_block = key, memoryview(new_blocks[key] or b"")
                    self._change_blocks({entity: ((), next_numbers)}, [small_block], 0, merged_blocks)
                    merged_blocks[next_key] = None
            view.change_many(self._table, merged_blocks)
        new_blocks.clear()
        small_blocks.clear()

    def take(self, entity: int) -> bytes:
        """Remove the whole list of an entity, and return its numbers, such as addresses, as little-endian u64 bytes."""
        return self.take_many([entity])[entity]

    def take_many(self, entities: Collection[int]) -> dict[int, bytes]:
        """Remove the whole lists of entities, and return the numbers of each entity as little-endian u64 bytes."""
        view = cast(WriteView, self.view)
        blocks = view.scan_prefixes(self._table, list(map(records.encode_u32, entities)))
        numbers = dict.fromkeys(entities, b"")
        for key, value in blocks:
            numbers[records.U32.unpack_from(key)[0]] += _decompress_block(self._table, key, value)
        view.change_many(self._table, dict.fromkeys(key for key, _ in blocks))
        return numbers

    def scan(self) -> Iterator[tuple[int, int, Numbers]]:
        """Yield every block of every list: its entity, its first number according to its key, and all its numbers."""
        for key, value in self.view.scan(self._table):
            yield records.U32.unpack_from(key)[0], _get_first_number(key), _decode(self._table, key, value)

    def _change_blocks(
        self,
        changes: dict[int, tuple[Sequence[int], Sequence[int]]],
        blocks: Sequence[Record | None],
        min_block: int,
        block_changes: dict[bytes, bytes | None],
    ) -> _ChangedBlocks:
        """Remove and add numbers in one block of the list of each entity, by compiled code (:func:`change_blocks`).

        ``changes`` maps each entity to the numbers to remove and to add, and ``blocks`` has the entity's block (None:
        it has no block yet), in the same order. Adds the resulting blocks to ``block_changes``. A block with fewer than
        ``min_block`` numbers is too small. Raises CorruptionError if a block is damaged.
        """
        try:
            return _ChangedBlocks._make(change_blocks(changes, blocks, BLOCK_SIZE, min_block, block_changes))
        except ValueError as error:
            raise CorruptionError(f"table {self._table}: {error}; run CHECK") from error

    def _iter_blocks(self, entity: int, start: int) -> Iterator[tuple[int, Numbers]]:
        """Yield (first number, all numbers) for each block of an entity whose first number is at least ``start``."""
        for key, value in self.view.scan(self._table, _make_key(entity, start), _make_end_key(entity)):
            yield _get_first_number(key), _decode(self._table, key, value)


def _make_key(entity: int, first: int) -> bytes:
    """Return the key of the block of an entity's list whose smallest number is ``first``."""
    return _KEY_STRUCT.pack(entity, first)


def _make_end_key(entity: int) -> bytes:
    """Return a key above the keys of all blocks of an entity's list, and below those of the next entity."""
    return records.encode_u32(entity) + b"\xff" * 9  # longer than every number, which has 8 bytes


def _get_first_number(key: bytes) -> int:
    """Return the smallest number in a stored block of a list, which its key contains."""
    return int(records.U64.unpack_from(key, 4)[0])  # after the entity, which has 4 bytes


def _decode(table: str, key: bytes, value: memoryview) -> Numbers:
    """Return the numbers in a stored block of a list, as an array."""
    return np.frombuffer(_decompress_block(table, key, value), np.uint64)


def _decompress_block(table: str, key: bytes, value: memoryview) -> bytes:
    """Return the numbers of a stored block as the bytes of a u64 array; raise CorruptionError for a damaged block."""
    payload = records.unseal(value, table, key)
    try:
        return unpack_numbers(_get_first_number(key), payload)
    except (ValueError, struct.error) as error:
        raise CorruptionError(f"table {table}, key {key.hex()}: not a block of numbers: {error}; run CHECK") from error
