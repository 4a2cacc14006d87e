"""Block lists: the numbers of an entity, such as its addresses, in blocks that stay cheap to change however many.

On disk: a table such as ``address_blocks``, entity (u32) and first number (u64), both big-endian → up to 124 numbers,
ascending: the distances between them, sealed. Blocks lie in LMDB's own tree, so one number among n is added or removed
in O(log n). Out: ascending arrays of u64. Damage gives CorruptionError. The entity filter keeps its long lists of
addresses so, the graph the passages of an entity.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kvstore_cext.compact import change_numbers, unpack_numbers

from ..errors import CorruptionError, ReadOnlyError
from . import records, tables
from .environment import View, WriteView
from .view import Record

Addresses = npt.NDArray[np.uint64]

#: Numbers of a full block.
BLOCK = 124
#: A block that falls below this many is joined with the next, where the two come to no more than ``_JOINED``.
_SMALL = 31
_JOINED = 93

_LAST = (1 << 64) - 1


class BlockLists:
    """The lists of one table in one view."""

    def __init__(self, view: View, table: str = tables.ADDRESS_BLOCKS) -> None:
        self._view = view
        self._table = table

    def read(self, entity: int, limit: int | None = None, start: int = 0) -> Addresses:
        """The addresses of an entity from ``start`` on, at most ``limit`` of them, ascending."""
        parts: list[Addresses] = []
        wanted = _LAST if limit is None else limit
        before = self._view.last(self._table, records.u32(entity), _key(entity, start) + b"\x00") if start else None
        for _, block in self._blocks(entity, start if before is None else _first(before[0])):
            part = block[np.searchsorted(block, np.uint64(start)) :][:wanted]
            parts.append(part)
            wanted -= len(part)
            if wanted <= 0:
                break
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)

    def read_many(self, entities: Sequence[int]) -> list[tuple[int, Addresses]]:
        """All blocks of some entities, entity by entity in the order given: the entity, and numbers of its own."""
        found = self._view.get_below(self._table, list(map(records.u32, entities)))
        return [(records.U32.unpack_from(key)[0], _decode(self._table, key, value)) for key, value in found]

    def first(self, entity: int) -> int:
        """The first address of an entity that must have a long list; raises CorruptionError where it has none."""
        for first, _ in self._blocks(entity, 0):
            return first
        raise CorruptionError(f"table {self._table}: entity {entity} has no addresses here; run CHECK")

    def change(self, entity: int, gone: Sequence[int], added: Sequence[int]) -> tuple[int, int]:
        """Remove and add numbers, both ascending; returns how many were there to remove, and how many were new."""
        view = self._writable()
        removed = fresh = 0
        kept, new = len(gone), len(added)
        while kept or new:
            # From the end: the block that the largest number left belongs to takes all that begin with it or later.
            reach = max(gone[kept - 1] if kept else 0, added[new - 1] if new else 0)
            found = view.last(self._table, records.u32(entity), _key(entity, reach) + b"\x00")
            if found is None:
                found = next(view.scan(self._table, records.u32(entity), _end(entity)), None)
                begins = 0
            else:
                begins = _first(found[0])
            from_gone, from_new = bisect_left(gone, begins, 0, kept), bisect_left(added, begins, 0, new)
            here = self._change_block(view, entity, found, gone[from_gone:kept], added[from_new:new])
            removed, fresh = removed + here[0], fresh + here[1]
            kept, new = from_gone, from_new
        return removed, fresh

    def _change_block(
        self, view: WriteView, entity: int, found: Record | None, gone: Sequence[int], added: Sequence[int]
    ) -> tuple[int, int]:
        """Change one block, or make the first of a list."""
        first = payload = None
        if found is not None:
            first, payload = _first(found[0]), records.unseal(found[1], self._table, found[0])
        blocks, size, removed, fresh = self._changed(first, payload, gone, added)
        if 0 < size < _SMALL <= size + removed - fresh:
            following = next(view.scan(self._table, _key(entity, first or 0) + b"\x00", _end(entity)), None)
            numbers = [] if following is None else _decode(self._table, *following).tolist()
            if following is not None and size + len(numbers) <= _JOINED:
                view.delete(self._table, following[0])
                blocks = self._changed(*blocks[0], (), numbers)[0]
        if removed or fresh:
            if found is not None and (not blocks or blocks[0][0] != first):
                view.delete(self._table, found[0])
            for start, changed in blocks:
                view.put(self._table, _key(entity, start), records.seal(changed))
        return removed, fresh

    def take(self, entity: int) -> bytes:
        """Remove a whole list; returns its numbers as packed little-endian u64."""
        view = self._writable()
        blocks = list(view.scan(self._table, records.u32(entity), _end(entity)))
        numbers = b"".join(_unpacked(self._table, key, value) for key, value in blocks)
        for key, _ in blocks:
            view.delete(self._table, key)
        return numbers

    def scan(self) -> Iterator[tuple[int, int, Addresses]]:
        """Every block: entity, first address by its key, addresses."""
        for key, value in self._view.scan(self._table):
            yield records.U32.unpack_from(key)[0], _first(key), _decode(self._table, key, value)

    def _writable(self) -> WriteView:
        if not self._view.writable:
            raise ReadOnlyError("addresses can be changed in a write transaction only")
        return self._view  # type: ignore[return-value]

    def _changed(
        self, first: int | None, payload: memoryview | bytes | None, gone: Sequence[int], added: Sequence[int]
    ) -> tuple[list[tuple[int, bytes]], int, int, int]:
        try:
            return change_numbers(first, payload, gone, added, BLOCK)
        except ValueError as error:
            raise CorruptionError(
                f"table {self._table}: the block of first number {first}: {error}; run CHECK"
            ) from error

    def _blocks(self, entity: int, start: int) -> Iterator[tuple[int, Addresses]]:
        """Blocks of an entity that begin at ``start`` or later: the first number by the key, and the numbers."""
        for key, value in self._view.scan(self._table, _key(entity, start), _end(entity)):
            yield _first(key), _decode(self._table, key, value)


def _key(entity: int, first: int) -> bytes:
    return records.u32(entity) + records.u64(first)


def _end(entity: int) -> bytes:
    """Above every key of the entity, below every key of the next."""
    return records.u32(entity) + b"\xff" * 9


def _first(key: bytes) -> int:
    return int(records.U64.unpack_from(key, 4)[0])


def _decode(table: str, key: bytes, value: memoryview) -> Addresses:
    return np.frombuffer(_unpacked(table, key, value), np.uint64)


def _unpacked(table: str, key: bytes, value: memoryview) -> bytes:
    """The numbers of a block as packed u64."""
    payload = records.unseal(value, table, key)
    try:
        return unpack_numbers(_first(key), payload)
    except (ValueError, struct.error) as error:
        raise CorruptionError(f"table {table}, key {key.hex()}: not a block of numbers: {error}; run CHECK") from error
