"""Block lists: the numbers of an entity, such as its addresses, in blocks that stay cheap to change however many.

On disk: a table such as ``address_blocks``, entity (u32) and first number (u64), both big-endian → up to 124 numbers,
ascending, packed as little-endian u64 and sealed. Blocks lie in LMDB's own tree, so one number among n is added or
removed in O(log n). Out: ascending arrays of u64. Damage gives CorruptionError. The entity filter keeps its long lists
of addresses so, the graph the passages of an entity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError, ReadOnlyError
from . import records, tables
from .environment import View, WriteView

Addresses = npt.NDArray[np.uint64]

#: Four blocks of this many addresses fill a page of LMDB.
BLOCK = 124
#: A block left with fewer is joined with the next, where the two come to no more than ``_JOINED``.
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
        first = self._at_or_before(entity, start) if start else None
        for _, block in self._blocks(entity, start if first is None else first):
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

    def add(self, entity: int, addresses: Addresses) -> int:
        """Add ascending addresses; returns how many were new."""
        view = self._writable()
        done = added = 0
        while done < len(addresses):
            begins = self._at_or_before(entity, int(addresses[done]))
            here = list(self._next_two(entity, 0 if begins is None else begins))
            block = here[0][1] if here else np.empty(0, np.uint64)
            upto = int(np.searchsorted(addresses, np.uint64(here[1][0]))) if len(here) > 1 else len(addresses)
            more = addresses[done:upto]
            # Ids are handed out upwards, so what is new usually comes last.
            last = len(block) == 0 or more[0] > block[-1]
            merged = np.concatenate((block, more)) if last else np.union1d(block, more)
            added += len(merged) - len(block)
            if len(merged) != len(block):
                if here and here[0][0] != merged[0]:
                    view.delete(self._table, _key(entity, here[0][0]))
                self._put(view, entity, merged)
            done = upto
        return added

    def remove(self, entity: int, addresses: Addresses) -> int:
        """Remove ascending addresses; returns how many were there."""
        view = self._writable()
        done = removed = 0
        while done < len(addresses):
            begins = self._at_or_before(entity, int(addresses[done]))
            here = list(self._next_two(entity, int(addresses[done]) if begins is None else begins))
            if not here:
                break
            upto = int(np.searchsorted(addresses, np.uint64(here[1][0]))) if len(here) > 1 else len(addresses)
            first, block = here[0]
            left = np.setdiff1d(block, addresses[done:upto], assume_unique=True)
            removed += len(block) - len(left)
            if len(left) != len(block):
                if len(left) < _SMALL and len(here) > 1 and len(left) + len(here[1][1]) <= _JOINED:
                    view.delete(self._table, _key(entity, here[1][0]))
                    left = np.concatenate((left, here[1][1]))
                if len(left) == 0 or left[0] != first:
                    view.delete(self._table, _key(entity, first))
                self._put(view, entity, left)
            done = upto
        return removed

    def take(self, entity: int) -> bytes:
        """Remove a whole list; returns its addresses as packed little-endian u64."""
        view = self._writable()
        blocks = list(self._blocks(entity, 0))
        for first, _ in blocks:
            view.delete(self._table, _key(entity, first))
        return b"".join(block.tobytes() for _, block in blocks)

    def scan(self) -> Iterator[tuple[int, int, Addresses]]:
        """Every block: entity, first address by its key, addresses."""
        for key, value in self._view.scan(self._table):
            plain = bytes(key)
            yield records.U32.unpack(plain[:4])[0], records.U64.unpack(plain[4:])[0], _decode(self._table, plain, value)

    def _writable(self) -> WriteView:
        if not self._view.writable:
            raise ReadOnlyError("addresses can be changed in a write transaction only")
        return self._view  # type: ignore[return-value]

    def _at_or_before(self, entity: int, address: int) -> int | None:
        """The first address of the last block that begins at or before ``address``."""
        stop = _key(entity, address + 1) if address < _LAST else _end(entity)
        for key, _ in self._view.scan(self._table, records.u32(entity), stop, reverse=True):
            return int(records.U64.unpack(bytes(key)[4:])[0])
        return None

    def _blocks(self, entity: int, start: int) -> Iterator[tuple[int, Addresses]]:
        """Blocks of an entity that begin at ``start`` or later: the first address by the key, and the addresses."""
        for key, value in self._view.scan(self._table, _key(entity, start), _end(entity)):
            plain = bytes(key)
            yield records.U64.unpack(plain[4:])[0], _decode(self._table, plain, value)

    def _next_two(self, entity: int, start: int) -> Iterator[tuple[int, Addresses]]:
        blocks = self._blocks(entity, start)
        for _, block in zip(range(2), blocks, strict=False):
            yield block

    def _put(self, view: WriteView, entity: int, addresses: Addresses) -> None:
        """Store addresses as one block, or as several of equal size where they are too many."""
        for block in np.array_split(addresses, max(1, -(-len(addresses) // BLOCK))):
            if len(block):
                key = _key(entity, int(block[0]))
                view.put(self._table, key, records.seal(block.astype("<u8").tobytes()))


def _key(entity: int, first: int) -> bytes:
    return records.u32(entity) + records.u64(first)


def _end(entity: int) -> bytes:
    """Above every key of the entity, below every key of the next."""
    return records.u32(entity) + b"\xff" * 9


def _decode(table: str, key: bytes, value: memoryview) -> Addresses:
    payload = records.unseal(value, table, key)
    if len(key) != 12 or len(payload) % 8 or not len(payload):
        raise CorruptionError(f"table {table}, key {key.hex()}: not a block of numbers; run CHECK")
    # Copied: a buffer of a write transaction goes stale at the next put.
    return np.frombuffer(payload, "<u8").astype(np.uint64)
