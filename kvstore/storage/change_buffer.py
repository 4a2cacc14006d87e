"""Change buffer: scattered changes of small commits, kept together until there are enough of them to be merged.

A document names dozens of entities and hundreds of terms, and what is kept of each lies on a page of its own: a commit
that wrote them into their tables would write many hundreds of pages for a few bytes on each. So a small commit writes
its changes of the buffered tables as one record, a *segment*. Once the segments are many, or large, one commit merges
them into the tables, each page once however many segments changed it, and removes them. A large transaction merges its
changes, and the segments before it, at once, and so does closing a store, unless they are few.

In: changes of records, oldest first. On disk: ``recent``: number of the segment (u32) and eight random bytes → sealed
msgpack map: table → map of keys to values, nil for a record that is removed. Out: for every table and key what the
segments say of it last. Views read through it (:mod:`.view`), and nothing above them knows of it. A damaged segment is
a CorruptionError.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from . import engine_tables, records

#: Bytes of changes beyond which a transaction is large, and segments and bytes beyond which they are merged.
LARGE = 2 << 20
#: Bytes that are read in no time: as many may wait when a store is closed.
SOON_READ = 1 << 17
MOST_SEGMENTS = 32
MOST_BYTES = 16 << 20

_TOKEN_BYTES = 8
#: Keys from which on a merge is faster than to insert each.
_FEW = 16

#: Of one table: the new value of each record changed, None where it is removed.
TableChanges = dict[bytes, bytes | None]


class ChangeBuffer:
    """What some segments say together; :meth:`copy` gives one that can be changed further."""

    def __init__(self, segments: Iterable[tuple[bytes, int]] = ()) -> None:
        #: Keys and sizes of the segments, oldest first.
        self.segments = tuple(segments)
        self._changes: dict[str, TableChanges] = {}
        self._keys: dict[str, list[bytes]] = {}

    def copy(self) -> ChangeBuffer:
        """The same again, to be changed by itself."""
        other = ChangeBuffer(self.segments)
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

    def overlaid(
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
        """Whether the segments are to be merged."""
        return len(self.segments) >= MOST_SEGMENTS or sum(size for _, size in self.segments) >= MOST_BYTES


def _present(key: bytes, value: bytes | None) -> Iterator[tuple[bytes, memoryview]]:
    if value is not None:
        yield key, memoryview(value)


def segment_key(last: bytes | None) -> bytes:
    """A key for the segment that follows the one of key ``last``."""
    number = 1 if last is None else records.U32.unpack_from(last)[0] + 1
    return records.u32(number) + os.urandom(_TOKEN_BYTES)


class ChangeBufferReader:
    """Reads the segments that views see; segments never change, so each is read once in this process."""

    def __init__(self, buffered: Set[str]) -> None:
        #: The tables that are buffered: those with a record for each entity or term that a document names.
        self.buffered = buffered
        self._read = ChangeBuffer()

    def buffer(self, stored: Iterable[tuple[bytes, memoryview]]) -> ChangeBuffer:
        """What the stored segments say together; raises CorruptionError for a damaged one."""
        segments = list(stored)
        known = self._read
        keys = [key for key, _ in segments]
        if keys == [key for key, _ in known.segments]:
            return known
        follows = keys[: len(known.segments)] == [key for key, _ in known.segments]
        found = known.copy() if follows else ChangeBuffer()
        for key, value in segments[len(found.segments) :]:
            for table, changes in records.unpack(value, engine_tables.RECENT, key).items():
                found.update(table, changes)
        found.segments = tuple((key, len(value)) for key, value in segments)
        self._read = found
        return found

    def adopt(self, buffer: ChangeBuffer) -> None:
        """Take over what a commit has left."""
        self._read = buffer


def check_change_buffer(stored: Iterable[tuple[bytes, memoryview]], buffered: Set[str]) -> Iterator[str]:
    """What is wrong with the stored segments, read anew, as sentences."""
    last = None
    for key, value in stored:
        number = records.U32.unpack_from(key)[0]
        if number != 1 + (last or 0):
            yield f"table {engine_tables.RECENT}: segment {number} follows segment {last or 0}"
        last = number
        if not records.unpack(value, engine_tables.RECENT, key).keys() <= buffered:
            yield f"table {engine_tables.RECENT}, key {key.hex()}: changes of other tables"
