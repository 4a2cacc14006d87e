"""Change buffer: scattered changes of small commits, kept together until there are enough of them to be merged.

A document names dozens of entities and hundreds of terms, and what is kept of each lies on a page of its own, as does
what is kept of each chunk and abstract: a commit that wrote them into their tables would write many hundreds of pages
for a few bytes on each. So a small commit writes its changes of the buffered tables as one record, a *segment*: of a
value that was there before, only what is different (:mod:`kvstore_cext.patches`). Once the segments are many, or large,
one commit merges them into the tables, each page once however many segments changed it, and removes them. A large
transaction merges its changes, and the segments before it, at once, and so does closing a store, unless they are few.

In: changes of records, oldest first. On disk: ``recent``: number of the segment (u32) and eight random bytes → sealed
msgpack map: table → map from keys to what is said of the record: a piece of a chain (:mod:`kvstore_cext.patches`), nil
where it is removed. Out: for every table and key what the segments say of it together. Views read
through it (:mod:`.view`), and nothing above them knows of it. A damaged segment is a CorruptionError.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from kvstore_cext.patches import add_pieces, piece, value_of

from ..errors import CorruptionError
from . import engine_tables, records

#: Bytes of changes beyond which a transaction is large, and segments and bytes beyond which they are merged.
LARGE = 1 << 20
MOST_SEGMENTS = 512
MOST_BYTES = 4 << 20
#: Bytes that are read in no time: as many may wait when a store is closed.
SOON_READ = 1 << 19
#: Patches of one record that are applied one after the other when it is read.
MOST_PATCHES = 8

_TOKEN_BYTES = 8
#: What a chain begins with that does without what the table holds.
_VALUE = b"\x00"
#: Keys from which on a merge is faster than to insert each.
_FEW = 16


#: What the segments say of a record: a chain of values and patches (:mod:`kvstore_cext.patches`), empty where they say
#: nothing, and None where it is removed.
Chain = bytes | None
UNCHANGED = b""

#: Of one table: what is said of each record changed.
TableChanges = dict[bytes, Chain]


def needs_stored(chain: Chain) -> bool:
    """Whether the value of a record depends on what its table holds."""
    return chain is not None and chain[:1] != _VALUE


def piece_of(table: str, key: bytes, value: bytes, chain: Chain, stored: memoryview | None) -> bytes:
    """What a further segment says of a record that it makes ``value``; raises CorruptionError where ``chain`` does not
    belong to the record."""
    try:
        return piece(value, chain, stored, MOST_PATCHES)
    except ValueError as error:
        raise _foreign(table, key, error) from error


def value_in(table: str, key: bytes, chain: Chain, stored: memoryview | None) -> memoryview | None:
    """The value of a record, None where there is none; raises CorruptionError where ``chain`` does not belong to it."""
    try:
        value = value_of(chain, stored)
    except ValueError as error:
        raise _foreign(table, key, error) from error
    return None if value is None else memoryview(value)


def _foreign(table: str, key: bytes, error: ValueError) -> CorruptionError:
    return CorruptionError(
        f"table {engine_tables.RECENT}, of table {table}, key {key.hex()}: {error}; run CHECK REPAIR, or restore from "
        "a backup"
    )


class ChangeBuffer:
    """What some segments say together; :meth:`copy` gives one that can be changed further."""

    def __init__(self, segments: Iterable[tuple[bytes, int]] = ()) -> None:
        #: Keys and sizes of the segments, oldest first.
        self.segments = tuple(segments)
        self._changes: dict[str, TableChanges] = {}
        self._keys: dict[str, list[bytes]] = {}
        #: How many records more than the table itself holds, where that has been counted.
        self._added: dict[str, int] = {}

    def copy(self) -> ChangeBuffer:
        """The same again, to be changed by itself."""
        other = ChangeBuffer(self.segments)
        other._changes = {table: changes.copy() for table, changes in self._changes.items()}
        other._keys = {table: keys.copy() for table, keys in self._keys.items()}
        other._added = self._added.copy()
        return other

    def of(self, table: str) -> Mapping[bytes, Chain]:
        """What is changed of a table, by key."""
        return self._changes.get(table, {})

    def added(self, table: str, is_stored: Callable[[bytes], bool]) -> int:
        """How many records more there are than the table itself holds."""
        added = self._added.get(table)
        if added is None:
            added = 0
            for key, change in self.of(table).items():
                if not needs_stored(change):
                    added += (change is not None) - is_stored(key)
            self._added[table] = added
        return added

    def add_segment(self, key: bytes, value: memoryview) -> None:
        """Change what a further segment says; raises CorruptionError where it is damaged."""
        for table, pieces in unpacked_segment(key, value).items():
            self._note(table, pieces)
            add_pieces(self._changes.setdefault(table, {}), pieces)
        self.segments = (*self.segments, (key, len(value)))

    def update(self, table: str, chains: TableChanges) -> None:
        """Put these chains of some records in place of what was known of them."""
        self._note(table, chains)
        self._changes.setdefault(table, {}).update(chains)

    def _note(self, table: str, changes: TableChanges) -> None:
        """Take note of the keys of records that are about to be changed."""
        self._added.pop(table, None)
        keys = self._keys.get(table)
        if keys is None:
            return
        before = self.of(table)
        new = sorted(key for key in changes if key not in before)
        if len(new) < _FEW:
            for key in new:
                insort(keys, key)
        else:
            keys.extend(new)
            keys.sort()  # of two runs, which is a merge

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

    def all(self) -> Iterator[tuple[str, bytes, Chain]]:
        """Every changed record: table, key and chain, in order of the keys within a table."""
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
                yield from _present(table, waiting[-1], changes[waiting.pop()], None)
            if waiting and waiting[-1] == record[0]:
                yield from _present(table, waiting[-1], changes[waiting.pop()], record[1])
            else:
                yield record
        while waiting:
            yield from _present(table, waiting[-1], changes[waiting.pop()], None)

    @property
    def full(self) -> bool:
        """Whether the segments are to be merged."""
        return len(self.segments) >= MOST_SEGMENTS or sum(size for _, size in self.segments) >= MOST_BYTES


def _present(table: str, key: bytes, chain: Chain, stored: memoryview | None) -> Iterator[tuple[bytes, memoryview]]:
    value = value_in(table, key, chain, stored)
    if value is not None:
        yield key, value


def segment_key(last: bytes | None) -> bytes:
    """A key for the segment that follows the one of key ``last``."""
    number = 1 if last is None else records.U32.unpack_from(last)[0] + 1
    return records.u32(number) + os.urandom(_TOKEN_BYTES)


def packed_segment(changes: Mapping[str, TableChanges]) -> bytes:
    """A segment as it is stored: keys in order, so that whoever reads many segments has little to sort."""
    return records.pack({table: dict(sorted(pieces.items())) for table, pieces in changes.items()})


def unpacked_segment(key: bytes, value: memoryview) -> dict[str, TableChanges]:
    """What a segment says of each table; raises CorruptionError where it is damaged."""
    segment = records.unpack(value, engine_tables.RECENT, key)
    if not isinstance(segment, dict) or not all(isinstance(pieces, dict) for pieces in segment.values()):
        raise CorruptionError(
            f"table {engine_tables.RECENT}, key {key.hex()}: not a segment; run CHECK REPAIR, or restore from a backup"
        )
    found: dict[str, TableChanges] = segment
    return found


#: What reads the stored segments from a key on.
StoredSegments = Callable[[bytes], Iterator[tuple[bytes, memoryview]]]


class ChangeBufferReader:
    """Reads the segments that views see; segments never change, so each is read once in this process."""

    def __init__(self, buffered: Set[str]) -> None:
        #: The tables that are buffered.
        self.buffered = buffered
        self._read = ChangeBuffer()

    def buffer(self, stored: StoredSegments) -> ChangeBuffer:
        """What the stored segments say together; raises CorruptionError for a damaged one."""
        known = self._read
        last = known.segments[-1][0] if known.segments else b""
        segments = stored(last)
        # Segments are removed all at once, and no other has the random bytes of this one: it stands for those before.
        if last and next(segments, (b"",))[0] != last:
            known, segments = ChangeBuffer(), stored(b"")
        found = None
        for key, value in segments:
            found = found or known.copy()
            found.add_segment(key, value)
        self._read = found or known
        return self._read

    def adopt(self, buffer: ChangeBuffer) -> None:
        """Take over what a commit has left."""
        self._read = buffer


def undamaged(stored: StoredSegments) -> tuple[ChangeBuffer, list[str]]:
    """What the segments that can be read say together, and a sentence for those that cannot, or are missing.

    Patches of a record that a lost segment has changed may belong to it no more.
    """
    buffer, lost, expected = ChangeBuffer(), [], 1
    for key, value in stored(b""):
        number = records.U32.unpack_from(key)[0]
        if number > expected:
            lost.append(
                f"the changes of {number - expected} commits: table {engine_tables.RECENT} lacks their segments"
            )
        expected = number + 1
        try:
            buffer.add_segment(key, value)
        except CorruptionError as error:
            lost.append(f"the changes of a commit: {error}")
    return buffer, lost


def check_change_buffer(stored: Iterable[tuple[bytes, memoryview]], buffered: Set[str]) -> Iterator[str]:
    """What is wrong with the stored segments, read anew, as sentences."""
    last = None
    for key, value in stored:
        number = records.U32.unpack_from(key)[0]
        if number != 1 + (last or 0):
            yield f"table {engine_tables.RECENT}: segment {number} follows segment {last or 0}"
        last = number
        if not unpacked_segment(key, value).keys() <= buffered:
            yield f"table {engine_tables.RECENT}, key {key.hex()}: changes of other tables"
