"""Recent changes: records of small commits that are kept together until there are enough of them to be put in order.

A document names dozens of entities and hundreds of terms, and what is kept of each lies on a page of its own: a commit
that wrote them where they belong would write many hundreds of pages for a few bytes on each. So a small commit writes
its changes of the buffered tables as one record, a *part*; once the parts are many, or large, one commit puts
all that they hold in its place, each page once however many parts changed it, and removes them. A large transaction
puts its changes, and those of the parts before it, in place at once, and so does closing a store, unless they are few.

In: changes of records, oldest first. On disk: ``recent``: number of the part (u32) and eight random bytes → sealed
msgpack map: table → map of keys to values, nil for a record that is removed. Out: for every table and key what the
parts say of it last. Views read through it (:mod:`.view`), and nothing above them knows of it. A damaged part is a
CorruptionError.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from ..errors import CorruptionError
from . import records, tables

#: Bytes of changes beyond which a transaction is large, and parts and bytes beyond which they are put in place.
LARGE = 2 << 20
#: Bytes that are read in no time: as many may wait when a store is closed.
SOON_READ = 1 << 17
MOST_PARTS = 32
MOST_BYTES = 16 << 20

_TOKEN_BYTES = 8
#: Keys from which on a merge is faster than to insert each.
_FEW = 16

#: Of one table: the new value of each record changed, None where it is removed.
Changes = dict[bytes, bytes | None]


class Recent:
    """What some parts say together; :meth:`copy` gives one that can be changed further."""

    def __init__(self, parts: Iterable[tuple[bytes, int]] = ()) -> None:
        #: Keys and sizes of the parts, oldest first.
        self.parts = tuple(parts)
        self._changes: dict[str, Changes] = {}
        self._keys: dict[str, list[bytes]] = {}

    def copy(self) -> Recent:
        """The same again, to be changed by itself."""
        other = Recent(self.parts)
        other._changes = {table: changes.copy() for table, changes in self._changes.items()}
        other._keys = {table: keys.copy() for table, keys in self._keys.items()}
        return other

    def of(self, table: str) -> Mapping[bytes, bytes | None]:
        """What is changed of a table: values by key, None where a record is removed."""
        return self._changes.get(table, {})

    def update(self, table: str, changes: Mapping[bytes, bytes | None]) -> None:
        """Change some records."""
        before = self._changes.setdefault(table, {})
        keys = self._keys.get(table)
        if keys is not None:
            new = sorted(key for key in changes if key not in before)
            if len(new) < _FEW:
                for key in new:
                    insort(keys, key)
            else:
                keys.extend(new)
                keys.sort()  # of two runs, which is a merge
        before.update(changes)

    def keys(self, table: str) -> list[bytes]:
        """The keys of the changed records of a table, ascending; not to be changed by the caller."""
        keys = self._keys.get(table)
        if keys is None:
            keys = self._keys[table] = sorted(self.of(table))
        return keys

    def between(self, table: str, start: bytes, stop: bytes | None) -> list[bytes]:
        """The keys of the changed records with ``start <= key < stop``, ascending."""
        keys = self.keys(table)
        first = bisect_left(keys, start)
        return keys[first : len(keys) if stop is None else bisect_left(keys, stop, first)]

    def all(self) -> Iterator[tuple[str, bytes, bytes | None]]:
        """Every changed record: table, key and value, in order of the keys within a table."""
        for table in sorted(self._changes):
            for key in self.keys(table):
                yield table, key, self._changes[table][key]

    def merged(
        self, table: str, keys: Sequence[bytes], stored: Iterator[tuple[bytes, memoryview]], *, reverse: bool = False
    ) -> Iterator[tuple[bytes, memoryview]]:
        """Records as stored, with those of ``keys`` (from :meth:`between`) as they are now.

        ``stored``, and what is given, are in order of their keys, or with ``reverse`` in the opposite order.
        """
        changes = self.of(table)
        waiting = list(keys if reverse else reversed(keys))
        for record in stored:
            while waiting and (waiting[-1] > record[0] if reverse else waiting[-1] < record[0]):
                yield from _present(waiting[-1], changes[waiting.pop()])
            if waiting and waiting[-1] == record[0]:
                yield from _present(waiting[-1], changes[waiting.pop()])
            else:
                yield record
        while waiting:
            yield from _present(waiting[-1], changes[waiting.pop()])

    @property
    def full(self) -> bool:
        """Whether the parts are to be put in place."""
        return len(self.parts) >= MOST_PARTS or sum(size for _, size in self.parts) >= MOST_BYTES


def _present(key: bytes, value: bytes | None) -> Iterator[tuple[bytes, memoryview]]:
    if value is not None:
        yield key, memoryview(value)


def part_key(last: bytes | None) -> bytes:
    """A key for the part that follows the one of key ``last``."""
    number = 1 if last is None else records.U32.unpack_from(last)[0] + 1
    return records.u32(number) + os.urandom(_TOKEN_BYTES)


class RecentReader:
    """Reads the parts that views see; parts never change, so each is read once in this process."""

    def __init__(self, buffered: Set[str]) -> None:
        #: The tables whose changes are gathered: those with a record for each entity or term that a document names.
        self.buffered = buffered
        self._read = Recent()

    def recent(self, stored: Iterable[tuple[bytes, memoryview]]) -> Recent:
        """What the stored parts say together; raises CorruptionError for a damaged one."""
        parts = list(stored)
        known = self._read
        keys = [key for key, _ in parts]
        if keys == [key for key, _ in known.parts]:
            return known
        follows = keys[: len(known.parts)] == [key for key, _ in known.parts]
        found = known.copy() if follows else Recent()
        for key, value in parts[len(found.parts) :]:
            for table, changes in _decoded(key, value, self.buffered).items():
                found.update(table, changes)
        found.parts = tuple((key, len(value)) for key, value in parts)
        self._read = found
        return found

    def written(self, recent: Recent) -> None:
        """Take over what a commit has left."""
        self._read = recent


def check_recent(stored: Iterable[tuple[bytes, memoryview]], buffered: Set[str]) -> Iterator[str]:
    """What is wrong with the stored parts, read anew, as sentences."""
    last = None
    for key, value in stored:
        number = records.U32.unpack_from(key)[0]
        if number != 1 + (last or 0):
            yield f"table {tables.RECENT}: part {number} follows part {last or 0}"
        last = number
        _decoded(key, value, buffered)


def _decoded(key: bytes, value: memoryview, buffered: Set[str]) -> dict[str, Changes]:
    changes: dict[str, Changes] = records.unpack(value, tables.RECENT, key)
    if not changes.keys() <= buffered:
        raise CorruptionError(f"table {tables.RECENT}, key {key.hex()}: changes of other tables; run CHECK")
    return changes
