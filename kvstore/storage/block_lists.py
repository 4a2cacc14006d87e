"""Block lists: the numbers of an entity, such as its addresses, in blocks that stay cheap to change however many.

On disk: a table such as ``address_blocks``, entity (u32) and first number (u64), both big-endian → up to 124 numbers,
ascending: the distances between them, sealed. Blocks lie in LMDB's own tree, so one number among n is added or removed
in O(log n). Out: ascending arrays of u64. Damage gives CorruptionError. The entity filter keeps its long lists of
addresses so, the graph the passages of an entity.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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

_KEY = struct.Struct(">IQ")


class Changed(NamedTuple):
    """How many numbers were there to be removed, and how many were new."""

    removed: int
    new: int


class BlockLists:
    """The lists of one table in one view."""

    def __init__(self, view: View, table: str = tables.ADDRESS_BLOCKS) -> None:
        self._view = view
        self._table = table

    def read(self, entity: int, limit: int | None = None, start: int = 0) -> Addresses:
        """The addresses of an entity from ``start`` on, at most ``limit`` of them, ascending."""
        parts: list[Addresses] = []
        wanted = _LAST if limit is None else limit
        reach = records.u32(entity), _key(entity, start) + b"\x00"
        before = self._view.last_many(self._table, [reach])[0] if start else None
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

    def change(self, entity: int, gone: Sequence[int], added: Sequence[int]) -> Changed:
        """Remove and add numbers of one entity, both ascending."""
        return self.change_many({entity: (gone, added)})[entity]

    def change_many(self, changes: Mapping[int, tuple[Sequence[int], Sequence[int]]]) -> dict[int, Changed]:
        """Remove and add numbers of many entities, both ascending."""
        view = self._writable()
        done = dict.fromkeys(changes, Changed(0, 0))
        waiting = {entity: (gone, added) for entity, (gone, added) in changes.items() if gone or added}
        while waiting:
            # From the end: the block that the largest number left belongs to takes all that begin with it or later.
            reaches = [
                (records.u32(entity), _key(entity, max(gone[-1] if gone else 0, added[-1] if added else 0)) + b"\x00")
                for entity, (gone, added) in waiting.items()
            ]
            further: dict[int, tuple[Sequence[int], Sequence[int]]] = {}
            written: dict[bytes, bytes | None] = {}
            found = view.last_many(self._table, reaches)
            for (entity, (gone, added)), block in zip(waiting.items(), found, strict=True):
                if block is None:
                    block = next(view.scan(self._table, records.u32(entity), _end(entity)), None)
                    here = new = 0
                else:
                    first = _first(block[0])
                    here, new = bisect_left(gone, first), bisect_left(added, first)
                changed = self._change_block(view, entity, block, gone[here:], added[new:], written)
                done[entity] = Changed(done[entity].removed + changed.removed, done[entity].new + changed.new)
                if here or new:
                    further[entity] = gone[:here], added[:new]
            view.change_many(self._table, written)
            waiting = further
        return done

    def _change_block(
        self,
        view: WriteView,
        entity: int,
        found: Record | None,
        gone: Sequence[int],
        added: Sequence[int],
        written: dict[bytes, bytes | None],
    ) -> Changed:
        """Change one block, or make the first of a list; what is to be stored goes into ``written``."""
        first = payload = None
        if found is not None:
            first, payload = _first(found[0]), records.unseal(found[1], self._table, found[0])
        blocks, size, removed, new = self._changed(first, payload, gone, added)
        if 0 < size < _SMALL <= size + removed - new:
            following = next(view.scan(self._table, _key(entity, first or 0) + b"\x00", _end(entity)), None)
            numbers = [] if following is None else _decode(self._table, *following).tolist()
            if following is not None and size + len(numbers) <= _JOINED:
                written[following[0]] = None
                blocks = self._changed(*blocks[0], (), numbers)[0]
        if removed or new:
            if found is not None and (not blocks or blocks[0][0] != first):
                written[found[0]] = None
            for start, changed in blocks:
                written[_key(entity, start)] = records.seal(changed)
        return Changed(removed, new)

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
    return _KEY.pack(entity, first)


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
