"""Change buffer: scattered changes of commits, kept together until there are enough of them to be merged.

A document names dozens of entities and hundreds of terms, and what is kept of each lies on a page of its own, as does
what is kept of each chunk and abstract: a commit that wrote them into their tables would write many hundreds of pages
for a few bytes on each. So a commit writes its changes of the buffered tables as records of one table, *segments*: of a
value that was there before, only what is different (:mod:`kvstore_cext.patches`). Once the segments are many, or
large, one commit merges them into the tables, each page once however many segments changed it, and removes them: the
larger the store, the more pages there are to be changed, and the more is gathered before (the differential files of
Severance and Lohman 1976; a log-structured merge tree of two levels, O'Neil et al. 1996). A transaction too large even
for that merges its changes, and the segments before it, at once, and so does closing a store, unless they are few.

In: changes of records, oldest first. On disk: ``recent``: number of the segment (u32) and eight random bytes → sealed
msgpack map: table → map from keys to what is said of the record: a piece of a chain (:mod:`kvstore_cext.patches`), nil
where it is removed. Out: for every table and key what the segments say of it together. Views read
through it (:mod:`.view`), and nothing above them knows of it. A damaged segment is a CorruptionError.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from heapq import merge
from typing import cast

from kvstore_cext.patches import add_pieces, value_of

from ..errors import CorruptionError
from . import engine_tables, records

#: Bytes of changes beyond which a transaction is large, and the most that a segment has.
MAX_SEGMENT_BYTES = 1 << 20
#: Segments beyond which they are merged, and bytes: this share of those of the store's pages, between two bounds. The
#: segments are in the memory of whoever reads the store meanwhile.
MAX_SEGMENTS = 512
STORE_DIVISOR = 16
MIN_BYTES, MAX_BYTES = 4 << 20, 64 << 20
#: Bytes that are read in no time: as many may wait when a store is closed.
QUICK_READ_BYTES = 1 << 22
#: Patches of one record that are applied one after the other when it is read.
MAX_PATCHES = 8

_TOKEN_BYTES = 8
#: What is copied of a buffer to be changed is at most this share of it, but for the times when all of it is.
_COPY_DIVISOR = 16
#: Keys from which on a merge is faster than to insert each.
_MIN_MERGE_KEYS = 16
#: What a chain begins with that does without what the table holds.
_VALUE_MARK = b"\x00"

#: What the segments say of a record: a chain of values and patches (:mod:`kvstore_cext.patches`), empty where they say
#: nothing, and None where it is removed.
Chain = bytes | None
UNCHANGED = b""

#: Of one table: what is said of each record changed.
TableChanges = dict[bytes, Chain]


def depends_on_stored(chain: Chain) -> bool:
    """Whether the value of a record depends on what its table holds."""
    return chain is not None and chain[:1] != _VALUE_MARK


def resolve_value(table: str, key: bytes, chain: Chain, stored: memoryview | None) -> memoryview | None:
    """The value of a record, None where there is none; raises CorruptionError where ``get_chain`` does not belong to it."""
    try:
        value = value_of(chain, stored)
    except ValueError as error:
        raise make_chain_error(table, f"key {key.hex()}: {error}") from error
    return None if value is None else memoryview(value)


def make_chain_error(table: str, detail: object) -> CorruptionError:
    """What to raise where a chain does not belong to its record; ``detail`` begins with the key."""
    return CorruptionError(
        f"table {engine_tables.RECENT}, of table {table}, {detail}; run CHECK REPAIR, or restore from a backup"
    )


def compute_max_bytes(store_bytes: int) -> int:
    """Bytes of segments that are merged, in a store whose pages have so many."""
    return min(max(store_bytes // STORE_DIVISOR, MIN_BYTES), MAX_BYTES)


class TableBuffer:
    """What the segments say of the records of one table: ``newer``, and of what that lacks ``older``, which copies
    share and nobody changes."""

    __slots__ = ("_newer_keys", "_older_keys", "added", "newer", "older")

    def __init__(self) -> None:
        self.older: TableChanges = {}
        self.newer: TableChanges = {}
        # The keys of ``older``, ascending, and those that only ``newer`` has, ascending and further ones in no order;
        # None: not listed, because nobody has asked. Threads that read list them anew, and change no list.
        self._older_keys: list[bytes] | None = None
        self._newer_keys: tuple[list[bytes], list[bytes]] | None = None
        #: How many records more than the table itself holds, where that has been counted.
        self.added: int | None = None

    def copy(self) -> TableBuffer:
        """The same again, to be changed by itself; what is copied is on average a few times what was changed."""
        other = TableBuffer()
        other.added = self.added
        if len(self.newer) * _COPY_DIVISOR > len(self.older):
            other.older = {**self.older, **self.newer}
            if self._newer_keys is not None:
                older, newer = self._list_keys()
                other._older_keys = sorted(older + newer)
        else:
            other.older, other._older_keys = self.older, self._older_keys
            other.newer = self.newer.copy()
            other._newer_keys = None if self._newer_keys is None else (self._newer_keys[0], self._newer_keys[1].copy())
        return other

    def __contains__(self, key: bytes) -> bool:
        return key in self.newer or key in self.older

    def get_chain(self, key: bytes) -> Chain:
        """What is said of a record."""
        if key in self.newer:
            return self.newer[key]
        return self.older.get(key, UNCHANGED)

    def add(self, pieces: TableChanges) -> None:
        """Extend the chains of some records."""
        self._note_keys(pieces)
        add_pieces(self.newer, self.older, pieces)

    def update(self, chains: TableChanges) -> None:
        """Put these chains of some records in place of what was known of them."""
        self._note_keys(chains)
        self.newer.update(chains)

    def discard(self, keys: Iterable[bytes]) -> None:
        """Say nothing more of some records of which ``older`` says nothing."""
        for key in keys:
            del self.newer[key]
        self._newer_keys, self.added = None, None

    def iter_keys(self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False) -> Iterator[bytes]:
        """The keys of the changed records with ``start <= key < stop``, ascending or in the opposite order."""
        key_runs: list[Iterator[bytes]] = []
        for keys in self._list_keys():
            first = bisect_left(keys, start) if start else 0
            positions = range(first, len(keys) if stop is None else bisect_left(keys, stop, first))
            if positions:
                key_runs.append(map(keys.__getitem__, reversed(positions) if reverse else positions))
        if len(key_runs) < 2:
            return key_runs[0] if key_runs else iter(())
        return merge(*key_runs, reverse=reverse)

    def find_last_keys(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        """Of each range the key of the last changed record with ``start <= key < stop``, or None."""
        older, newer = self._list_keys()
        if not older and not newer:
            return [None] * len(ranges)
        last_keys: list[bytes | None] = []
        for start, stop in ranges:
            last: bytes | None = None
            position = bisect_left(older, stop)
            if position and older[position - 1] >= start:
                last = older[position - 1]
            position = bisect_left(newer, stop)
            if position and newer[position - 1] >= (start if last is None else last):
                last = newer[position - 1]
            last_keys.append(last)
        return last_keys

    def _list_keys(self) -> tuple[list[bytes], list[bytes]]:
        if self._older_keys is None:
            self._older_keys = sorted(self.older)
        if self._newer_keys is None:
            self._newer_keys = sorted(key for key in self.newer if key not in self.older), []
        ordered_keys, unordered_keys = self._newer_keys
        if unordered_keys:
            if len(unordered_keys) < _MIN_MERGE_KEYS:
                ordered_keys = ordered_keys.copy()
                for key in unordered_keys:
                    insort(ordered_keys, key)
            else:
                ordered_keys = sorted(ordered_keys + unordered_keys)  # of two runs, the first of them in order
            self._newer_keys = ordered_keys, []
        return self._older_keys, ordered_keys

    def _note_keys(self, changes: TableChanges) -> None:
        """Take note of the keys of records that are about to be changed."""
        self.added = None
        if self._newer_keys is not None:
            self._newer_keys[1].extend(key for key in changes if key not in self)


class ChangeBuffer:
    """What some segments say together; :meth:`copy` gives one that can be changed further."""

    def __init__(self) -> None:
        #: Keys of the segments, oldest first, and their bytes.
        self.segments: tuple[bytes, ...] = ()
        self.bytes = 0
        self._tables: dict[str, TableBuffer] = {}

    def copy(self) -> ChangeBuffer:
        """The same again, to be changed by itself."""
        other = ChangeBuffer()
        other.segments, other.bytes = self.segments, self.bytes
        other._tables = {name: table.copy() for name, table in self._tables.items()}
        return other

    def get_table(self, table: str) -> TableBuffer:
        """What is changed of a table, to be changed only where this is nobody else's."""
        buffer = self._tables.get(table)
        if buffer is None:
            buffer = self._tables[table] = TableBuffer()
        return buffer

    @property
    def tables(self) -> list[str]:
        """The tables of which something is changed, in order."""
        return sorted(self._tables)

    def count_added(self, table: str, is_stored: Callable[[bytes], bool]) -> int:
        """How many records more there are than the table itself holds."""
        table_buffer = self.get_table(table)
        if table_buffer.added is None:
            num_added = 0
            for key in table_buffer.iter_keys():
                chain = table_buffer.get_chain(key)
                if not depends_on_stored(chain):
                    num_added += (chain is not None) - is_stored(key)
            table_buffer.added = num_added
        return table_buffer.added

    def add_segment(self, key: bytes, value: memoryview) -> None:
        """Change what a further segment says; raises CorruptionError where it is damaged."""
        for table, pieces in unpack_segment(key, value).items():
            self.get_table(table).add(pieces)
        self.note_segment(key, len(value))

    def note_segment(self, key: bytes, size: int) -> None:
        """Take note of a segment that says what is known here already."""
        self.segments = (*self.segments, key)
        self.bytes += size

    def overlay(
        self, table: str, keys: Iterator[bytes], stored: Iterator[tuple[bytes, memoryview]], *, reverse: bool = False
    ) -> Iterator[tuple[bytes, memoryview]]:
        """Records as stored, with those of ``keys`` (from :meth:`TableBuffer.iter_keys`) as they are now.

        All are in order of their keys, or with ``reverse`` in the opposite order.
        """
        first = next(keys, None)
        return stored if first is None else self._iter_overlay(table, first, keys, stored, reverse)

    def _iter_overlay(
        self, table: str, first: bytes, keys: Iterator[bytes], stored: Iterator[tuple[bytes, memoryview]], reverse: bool
    ) -> Iterator[tuple[bytes, memoryview]]:
        get_chain, pending = self.get_table(table).get_chain, cast(bytes | None, first)
        for record in stored:
            while pending is not None and (pending > record[0] if reverse else pending < record[0]):
                yield from _yield_present(table, pending, get_chain(pending), None)
                pending = next(keys, None)
            if pending == record[0]:
                yield from _yield_present(table, record[0], get_chain(record[0]), record[1])
                pending = next(keys, None)
            else:
                yield record
        while pending is not None:
            yield from _yield_present(table, pending, get_chain(pending), None)
            pending = next(keys, None)

    def is_full(self, max_bytes: int) -> bool:
        """Whether the segments are to be merged, of which there may be ``max_bytes`` bytes."""
        return len(self.segments) >= MAX_SEGMENTS or self.bytes >= max_bytes


def _yield_present(
    table: str, key: bytes, chain: Chain, stored: memoryview | None
) -> Iterator[tuple[bytes, memoryview]]:
    value = resolve_value(table, key, chain, stored)
    if value is not None:
        yield key, value


def make_segment_key(last: bytes | None) -> bytes:
    """A key for the segment that follows the one of key ``last``."""
    number = 1 if last is None else records.U32.unpack_from(last)[0] + 1
    return records.encode_u32(number) + os.urandom(_TOKEN_BYTES)


def pack_segments(changes: Mapping[str, TableChanges]) -> Iterator[bytes]:
    """Segments as they are stored, together saying what is given, each of about :data:`MAX_SEGMENT_BYTES` bytes at most: keys in
    order, so that whoever reads many segments has little to sort."""
    nonempty = {table: pieces for table, pieces in changes.items() if pieces}
    sizes = (sum(map(len, pieces)) + sum(map(len, filter(None, pieces.values()))) for pieces in nonempty.values())
    if sum(sizes) <= MAX_SEGMENT_BYTES:  # as of most transactions
        if nonempty:
            yield records.pack(
                {table: {key: pieces[key] for key in sorted(pieces)} for table, pieces in nonempty.items()}
            )
        return
    segment: dict[str, TableChanges] = {}
    size = 0
    for table, pieces in nonempty.items():
        for key in sorted(pieces):
            if size > MAX_SEGMENT_BYTES:
                yield records.pack(segment)
                segment, size = {}, 0
            piece = pieces[key]
            segment.setdefault(table, {})[key] = piece
            size += len(key) + len(piece or b"")
    if segment:
        yield records.pack(segment)


def unpack_segment(key: bytes, value: memoryview) -> dict[str, TableChanges]:
    """What a segment says of each table; raises CorruptionError where it is damaged."""
    segment = records.unpack(value, engine_tables.RECENT, key)
    if not isinstance(segment, dict) or not all(isinstance(pieces, dict) for pieces in segment.values()):
        raise CorruptionError(
            f"table {engine_tables.RECENT}, key {key.hex()}: not a segment; run CHECK REPAIR, or restore from a backup"
        )
    changes_by_table: dict[str, TableChanges] = segment
    return changes_by_table


#: What reads the stored segments from a key on.
SegmentScanner = Callable[[bytes], Iterator[tuple[bytes, memoryview]]]


class BufferedTableCache(dict[str, bool]):
    """Whether a table is buffered, of each that was asked for."""

    def __init__(self, names: Set[str]) -> None:
        super().__init__()
        self.names = names

    def __missing__(self, table: str) -> bool:
        self[table] = table in self.names
        return self[table]


class ChangeBufferReader:
    """Reads the segments that views see; segments never change, so each is read once in this process."""

    def __init__(self, buffered: Set[str]) -> None:
        #: The tables that are buffered.
        self.buffered = BufferedTableCache(buffered)
        self._buffer = ChangeBuffer()

    def read_buffer(self, scan_segments: SegmentScanner) -> ChangeBuffer:
        """What the stored segments say together; raises CorruptionError for a damaged one."""
        cached = self._buffer
        last = cached.segments[-1] if cached.segments else b""
        segments = scan_segments(last)
        # Segments are removed all at once, and no other has the random bytes of this one: it stands for those before.
        if last and next(segments, (b"",))[0] != last:
            cached, segments = ChangeBuffer(), scan_segments(b"")
        updated = None
        for key, value in segments:
            updated = updated or cached.copy()
            updated.add_segment(key, value)
        self._buffer = updated or cached
        return self._buffer

    def adopt(self, buffer: ChangeBuffer) -> None:
        """Take over what a commit has left."""
        self._buffer = buffer


def salvage_segments(scan_segments: SegmentScanner) -> tuple[ChangeBuffer, list[str]]:
    """What the segments that can be read say together, and a sentence for those that cannot, or are missing.

    Patches of a record that a lost segment has changed may belong to it no more.
    """
    buffer, losses, expected = ChangeBuffer(), [], 1
    for key, value in scan_segments(b""):
        number = records.U32.unpack_from(key)[0]
        if number > expected:
            losses.append(
                f"the changes of {number - expected} commits: table {engine_tables.RECENT} lacks their segments"
            )
        expected = number + 1
        try:
            buffer.add_segment(key, value)
        except CorruptionError as error:
            losses.append(f"the changes of a commit: {error}")
    return buffer, losses


def check_change_buffer(segments: Iterable[tuple[bytes, memoryview]], buffered: Set[str]) -> Iterator[str]:
    """What is wrong with the stored segments, read anew, as sentences."""
    last = None
    for key, value in segments:
        number = records.U32.unpack_from(key)[0]
        if number != 1 + (last or 0):
            yield f"table {engine_tables.RECENT}: segment {number} follows segment {last or 0}"
        last = number
        if not unpack_segment(key, value).keys() <= buffered:
            yield f"table {engine_tables.RECENT}, key {key.hex()}: changes of other tables"
