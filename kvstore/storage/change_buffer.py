"""Change buffer: collects scattered changes of commits until there are enough of them to merge into their tables. A
*segment* is a stored batch of changes. The *chain* of a record has its buffered changes, oldest first: a whole value or
a patch (difference), then patches. A removed record has None.

A document mentions dozens of entities and contains hundreds of terms. The record of each is on a separate page, as are
those of its chunks and abstracts. A commit that wrote them into their tables would write many hundreds of pages for a
few bytes on each. Instead, a commit writes its changes of the buffered tables as segments, records of one table. For a
value that existed before, a segment has only the difference (:mod:`kvstore_cext.patches`). Once there are many
segments, or large ones, one commit merges them into the tables and removes them; it writes each page once, however many
segments changed it. A larger store has more pages to change, so more changes are collected before a merge (the
differential files of Severance and Lohman 1976; a log-structured merge tree of two levels, O'Neil et al. 1996). A
transaction too large even for segments merges its changes and all earlier segments at once. Closing a store does the
same, unless the segments are few.

In: changes of records, oldest first. On disk: ``recent``: segment number (u32) and eight random bytes → sealed msgpack
map: table → map from keys to the change of the record: a piece of its version chain (:mod:`kvstore_cext.patches`), or
nil if it is removed. Out: for every table and key, the combined changes of the segments. Views read through it
(:mod:`.view`), and no code above them knows of it. A damaged segment raises CorruptionError.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from heapq import merge

from kvstore_cext.patches import add_pieces, apply_chain, find_last_keys

from ..errors import CorruptionError
from . import engine_tables, records

#: Bytes of changes above which a transaction is large, and the maximum size of a segment.
MAX_SEGMENT_BYTES = 1 << 20
#: Limits above which segments are merged: their number, and their bytes as a fraction of the store's pages, between two
#: bounds. Until the merge, every process that reads the store holds the segments in memory.
MAX_SEGMENTS = 512
STORE_DIVISOR = 16
MIN_BYTES, MAX_BYTES = 4 << 20, 64 << 20
#: Bytes that are read in negligible time: segments of at most this size may remain when a store is closed.
QUICK_READ_BYTES = 1 << 22
#: The maximum number of patches of one record that are applied one after the other on reading.
MAX_PATCHES = 8

_TOKEN_BYTES = 8
#: Copies of a buffer share ``older_chains`` while ``newer_chains`` has at most 1 / this as many keys; then a copy
#: merges the layers.
_COPY_DIVISOR = 16
#: From this number of keys on, sorting is faster than inserting each.
_MIN_MERGE_KEYS = 16
#: The first byte of a chain that does not depend on the stored value.
_VALUE_KIND = b"\x00"

#: The version chain of a record: its changes by the segments, oldest first, each a whole value or a patch
#: (:mod:`kvstore_cext.patches`). It is empty if the record is unchanged, and None if the record is removed.
Chain = bytes | None
UNCHANGED = b""

#: The version chain of each changed record of one table.
TableChanges = dict[bytes, Chain]


def needs_stored_value(chain: Chain) -> bool:
    """True if the value in the table itself is needed to resolve the chain of a record.

    It is not needed if the chain removes the record (None) or begins with a whole value.
    """
    return chain is not None and chain[:1] != _VALUE_KIND


def resolve_value(table: str, key: bytes, chain: Chain, stored_value: memoryview | None) -> memoryview | None:
    """Return the current value of a record, or None if it was removed.

    It is the result of applying the ``chain`` of the record to ``stored_value``, its value in the table (None: no
    value). Raises CorruptionError if the patches of the chain do not fit that value.
    """
    try:
        value = apply_chain(chain, stored_value)
    except ValueError as error:
        raise make_chain_error(table, f"key {key.hex()}: {error}") from error
    return None if value is None else memoryview(value)


def make_chain_error(table: str, detail: object) -> CorruptionError:
    """Return the error for a record whose chain does not fit its value in ``table``.

    ``detail`` begins with the key of the record, and gives the reason.
    """
    return CorruptionError(
        f"table {engine_tables.RECENT}, of table {table}, {detail}; run CHECK REPAIR, or restore from a backup"
    )


class TableBuffer:
    """The buffered changes of one table: the chain (:data:`Chain`) of each changed record, in two layers. For a key in
    both ``older_chains`` and ``newer_chains``, the newer chain is current. Copies share ``older_chains``, which is
    never modified. The keys of both are cached in order.
    """

    __slots__ = ("_newer_keys", "_older_keys", "newer_chains", "num_added", "older_chains")

    def __init__(self) -> None:
        """Create a buffer without changes."""
        self.older_chains: TableChanges = {}
        self.newer_chains: TableChanges = {}
        # The ascending keys of ``older_chains``; and the keys only in ``newer_chains``: an ascending list and a list of
        # unordered additions. None if the list has not been requested yet. Threads that read replace these lists, and
        # never modify one.
        self._older_keys: list[bytes] | None = None
        self._newer_keys: tuple[list[bytes], list[bytes]] | None = None
        #: The number of records that the changes add to the table, less those they remove; None if not counted.
        self.num_added: int | None = None

    def copy(self) -> TableBuffer:
        """Return an independent copy of the buffered changes, which shares the layer ``older_chains`` (never modified).

        If ``newer_chains`` is no longer small, both layers become ``older_chains`` in the copy. On average, a copy
        therefore copies only a few times as many entries as records were changed.
        """
        other = TableBuffer()
        other.num_added = self.num_added
        if len(self.newer_chains) * _COPY_DIVISOR > len(self.older_chains):
            other.older_chains = {**self.older_chains, **self.newer_chains}
            if self._newer_keys is not None:  # the ordered keys are cached, so merge them too
                older_keys, newer_keys = self._list_keys()
                other._older_keys = sorted(older_keys + newer_keys)
        else:
            other.older_chains, other._older_keys = self.older_chains, self._older_keys
            other.newer_chains = self.newer_chains.copy()
            key_lists = self._newer_keys  # read once, because a reading thread may replace it
            if key_lists is not None:
                ordered_keys, unordered_keys = key_lists
                other._newer_keys = ordered_keys, unordered_keys.copy()
        return other

    def __contains__(self, key: bytes) -> bool:
        """True if the record with this key has buffered changes."""
        return key in self.newer_chains or key in self.older_chains

    def __bool__(self) -> bool:
        """True if any record of the table has buffered changes."""
        return bool(self.newer_chains or self.older_chains)

    def get_chain(self, key: bytes) -> Chain:
        """Return the chain of a record: None if removed, :data:`UNCHANGED` if unchanged."""
        if key in self.newer_chains:
            return self.newer_chains[key]
        return self.older_chains.get(key, UNCHANGED)

    def add(self, pieces: TableChanges) -> None:
        """Append to the chain of each record in ``pieces`` its next change, made by a newer commit.

        A change is a whole value, a patch, or None, which removes the record. The result is stored in ``newer_chains``.
        """
        self._register_keys(pieces)
        add_pieces(self.newer_chains, self.older_chains, pieces)

    def update(self, chains: TableChanges) -> None:
        """Replace the chains of the given records."""
        self._register_keys(chains)
        self.newer_chains.update(chains)

    def discard(self, keys: Iterable[bytes]) -> None:
        """Drop the chains of records; none of these may be in the layer ``older_chains``."""
        for key in keys:
            del self.newer_chains[key]
        self._newer_keys, self.num_added = None, None

    def iter_keys(self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False) -> Iterator[bytes]:
        """Yield the keys of the changed records with ``start <= key < stop``.

        ``reverse`` yields them in descending order.
        """
        key_runs: list[Iterator[bytes]] = []
        for keys in self._list_keys():
            first_position = bisect_left(keys, start) if start else 0
            positions = range(first_position, len(keys) if stop is None else bisect_left(keys, stop, first_position))
            if positions:
                key_runs.append(map(keys.__getitem__, reversed(positions) if reverse else positions))
        if len(key_runs) < 2:
            return key_runs[0] if key_runs else iter(())
        return merge(*key_runs, reverse=reverse)

    def find_last_keys(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        """Return for each range the key of the last changed record with ``start <= key < stop``, or None."""
        return find_last_keys(list(ranges), self._list_keys())

    def _list_keys(self) -> tuple[list[bytes], list[bytes]]:
        """Return the ascending keys of the changed records in ``older_chains``, and those only in ``newer_chains``.

        Both are cached: ``_newer_keys`` has the ascending keys of the last call, and those added since, unordered.
        """
        if self._older_keys is None:
            self._older_keys = sorted(self.older_chains)
        if self._newer_keys is None:
            self._newer_keys = sorted(key for key in self.newer_chains if key not in self.older_chains), []
        ordered_keys, unordered_keys = self._newer_keys
        if unordered_keys:
            if len(unordered_keys) < _MIN_MERGE_KEYS:
                ordered_keys = ordered_keys.copy()
                for key in unordered_keys:
                    insort(ordered_keys, key)
            else:
                ordered_keys = sorted(ordered_keys + unordered_keys)  # two runs, the first of them sorted
            self._newer_keys = ordered_keys, []
        return self._older_keys, ordered_keys

    def _register_keys(self, changes: TableChanges) -> None:
        """Update the cached keys, and reset ``num_added``, before ``changes`` are stored in ``newer_chains``."""
        self.num_added = None
        if self._newer_keys is not None:
            (_, unordered_keys), newer, older = self._newer_keys, self.newer_chains, self.older_chains
            unordered_keys.extend([key for key in changes if key not in newer and key not in older])


class ChangeBuffer:
    """The combined changes of a sequence of segments, by table. Views share a buffer, so a write transaction adds its
    changes to a :meth:`copy`.
    """

    def __init__(self) -> None:
        """Create a buffer without segments."""
        #: The keys of the segments, oldest first.
        self.segment_keys: tuple[bytes, ...] = ()
        #: The total size of the values of the segments in bytes.
        self.bytes = 0
        #: The buffered changes of each table, by its name.
        self._tables: dict[str, TableBuffer] = {}

    def copy(self) -> ChangeBuffer:
        """Return a copy that can be changed independently, for a write transaction."""
        other = ChangeBuffer()
        other.segment_keys, other.bytes = self.segment_keys, self.bytes
        # Other threads may read this buffer meanwhile, and reading a table without changes adds it to ``_tables``.
        other._tables = {name: table.copy() for name, table in self._tables.copy().items()}
        return other

    def get_table(self, table: str) -> TableBuffer:
        """Return the buffered changes of a table; if there are no changes, first add an empty buffer for the table.

        Only the write transaction that copied this buffer may modify them.
        """
        buffer = self._tables.get(table)
        if buffer is None:
            buffer = self._tables[table] = TableBuffer()
        return buffer

    @property
    def tables(self) -> list[str]:
        """The names of the tables with changes, sorted; a table that was only read may also be included."""
        return sorted(self._tables)

    def count_added(self, table: str, is_stored: Callable[[bytes], bool]) -> int:
        """Return how many more records a table has with these changes; negative if they remove more than they add.

        ``is_stored`` returns True if the table itself contains a key. The result is cached until the next change.
        """
        table_buffer = self.get_table(table)
        if table_buffer.num_added is None:
            num_added = 0
            for key in table_buffer.iter_keys():
                chain = table_buffer.get_chain(key)
                if needs_stored_value(chain):
                    continue  # only patches, so the table has the record already
                exists = chain is not None
                if exists and not is_stored(key):
                    num_added += 1
                elif not exists and is_stored(key):
                    num_added -= 1
            table_buffer.num_added = num_added
        return table_buffer.num_added

    def add_segment(self, key: bytes, value: memoryview) -> None:
        """Add the changes of the next stored segment; raise CorruptionError if it is damaged."""
        for table, pieces in unpack_segment(key, value).items():
            self.get_table(table).add(pieces)
        self.segment_keys = (*self.segment_keys, key)
        self.bytes += len(value)

    def register_segment(self, segment: bytes) -> bytes:
        """Add a segment, whose changes this buffer already has, to the list of stored segments.

        Returns the key under which the caller must store it: the number of the segment (u32) and random bytes, which
        make it unique in the history of the store.
        """
        segment_number = 1 + (records.U32.unpack_from(self.segment_keys[-1])[0] if self.segment_keys else 0)
        key = records.encode_u32(segment_number) + os.urandom(_TOKEN_BYTES)
        self.segment_keys = (*self.segment_keys, key)
        self.bytes += len(segment)
        return key

    def merge_changes(
        self,
        table: str,
        keys: Iterator[bytes],
        stored_records: Iterator[tuple[bytes, memoryview]],
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, memoryview]]:
        """Merge the ``stored_records`` of a table with its changed records, and yield the current records.

        ``keys`` are the keys of the changed records, from :meth:`TableBuffer.iter_keys`. Both inputs and the output are
        in key order, or with ``reverse`` in the opposite order.
        """
        first_key = next(keys, None)
        return (
            stored_records if first_key is None else self._iter_overlay(table, first_key, keys, stored_records, reverse)
        )

    def _iter_overlay(
        self,
        table: str,
        first_key: bytes,
        keys: Iterator[bytes],
        stored_records: Iterator[tuple[bytes, memoryview]],
        reverse: bool,
    ) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the current records of a table: ``stored_records`` with the buffered changes applied, in key order.

        The changed records have the keys ``first_key`` and the following ``keys``. With ``reverse``, all keys descend.
        """
        get_chain = self.get_table(table).get_chain
        changed_key: bytes | None = first_key
        for key, value in stored_records:
            while changed_key is not None and (changed_key > key if reverse else changed_key < key):
                yield from _yield_if_present(table, changed_key, get_chain(changed_key), None)
                changed_key = next(keys, None)
            if changed_key == key:
                yield from _yield_if_present(table, key, get_chain(key), value)
                changed_key = next(keys, None)
            else:
                yield key, value
        while changed_key is not None:
            yield from _yield_if_present(table, changed_key, get_chain(changed_key), None)
            changed_key = next(keys, None)


def _yield_if_present(
    table: str, key: bytes, chain: Chain, stored_value: memoryview | None
) -> Iterator[tuple[bytes, memoryview]]:
    """Yield a changed record with its current value, unless it was removed.

    ``chain`` has its buffered changes, and ``stored_value`` is its value in the table, if it has one.
    """
    value = resolve_value(table, key, chain, stored_value)
    if value is not None:
        yield key, value


def pack_segments(changes: Mapping[str, TableChanges]) -> Iterator[bytes]:
    """Yield the changes as packed segments of at most about :data:`MAX_SEGMENT_BYTES` bytes each.

    Keys are in order, so that a process that reads many segments has little to sort.
    """
    nonempty_changes = {table: table_changes for table, table_changes in changes.items() if table_changes}
    if sum(map(count_bytes, nonempty_changes.values())) <= MAX_SEGMENT_BYTES:  # as for most transactions
        if nonempty_changes:
            yield records.pack(
                {
                    table: {key: table_changes[key] for key in sorted(table_changes)}
                    for table, table_changes in nonempty_changes.items()
                }
            )
        return
    segment: dict[str, TableChanges] = {}
    segment_bytes = 0
    for table, table_changes in nonempty_changes.items():
        segment_changes: TableChanges = {}
        for key in sorted(table_changes):
            if segment_bytes > MAX_SEGMENT_BYTES:
                yield records.pack(segment)
                segment, segment_changes, segment_bytes = {}, {}, 0
            if not segment_changes:
                segment[table] = segment_changes
            change = segment_changes[key] = table_changes[key]
            segment_bytes += len(key) if change is None else len(key) + len(change)
    if segment:
        yield records.pack(segment)


def count_bytes(changes: TableChanges) -> int:
    """Return the number of bytes of the keys and changes of a table."""
    return sum(map(len, changes)) + sum(map(len, filter(None, changes.values())))


def unpack_segment(key: bytes, value: memoryview) -> dict[str, TableChanges]:
    """Return the changes in a segment, by table; raise CorruptionError if it is damaged."""
    segment = records.unpack(value, engine_tables.RECENT, key)
    if not isinstance(segment, dict) or not all(isinstance(table_changes, dict) for table_changes in segment.values()):
        raise CorruptionError(
            f"table {engine_tables.RECENT}, key {key.hex()}: not a segment; run CHECK REPAIR, or restore from a backup"
        )
    changes_by_table: dict[str, TableChanges] = segment
    return changes_by_table


#: A function that reads the stored segments from a key on.
SegmentScanner = Callable[[bytes], Iterator[tuple[bytes, memoryview]]]


class BufferedTableCache(dict[str, bool]):
    """A map from the names of tables to True if changes to the table are buffered, else False.

    A lookup in it is faster than a membership test, and every read of a record makes one.
    """

    def __init__(self, names: Set[str]) -> None:
        """Create an empty map; entries are added on first use. ``names`` are the names of the buffered tables."""
        super().__init__()
        self.names = names

    def __missing__(self, table: str) -> bool:
        """Cache and return True if changes to ``table`` are buffered, else False."""
        self[table] = table in self.names
        return self[table]


class ChangeBufferReader:
    """A reader of segments. They never change, so each is read once in this process."""

    def __init__(self, buffered_tables: Set[str]) -> None:
        """Create a reader that has read no segments yet.

        ``buffered_tables`` are the names of the tables whose changes are buffered.
        """
        self.buffered_tables = BufferedTableCache(buffered_tables)
        #: The combined changes of the segments that were read last, or committed last by this process.
        self.buffer = ChangeBuffer()

    def read_buffer(self, scan_segments: SegmentScanner) -> ChangeBuffer:
        """Return and cache the combined changes of the stored segments.

        ``scan_segments`` reads the segments from a key on. If the cached segments are still stored, only later ones are
        read. Raises CorruptionError for a damaged segment.
        """
        cached_buffer = self.buffer
        last_key = cached_buffer.segment_keys[-1] if cached_buffer.segment_keys else b""
        segments = scan_segments(last_key)
        if last_key:
            first_key, _ = next(segments, (b"", None))
            # Segments are removed all at once, and the random bytes of a key are unique. So if the last cached segment
            # is still stored, all cached segments are.
            if first_key != last_key:
                cached_buffer, segments = ChangeBuffer(), scan_segments(b"")
        updated_buffer = None
        for key, value in segments:
            updated_buffer = updated_buffer or cached_buffer.copy()
            updated_buffer.add_segment(key, value)
        self.buffer = updated_buffer or cached_buffer
        return self.buffer


def salvage_segments(scan_segments: SegmentScanner) -> tuple[ChangeBuffer, list[str]]:
    """Combine the readable segments; return them, and a sentence for each damaged or missing one.

    A buffered patch of a record that a lost segment also changed may not fit the record; reading it then raises
    CorruptionError.
    """
    buffer, losses, next_number = ChangeBuffer(), [], 1  # segments are numbered from 1
    for key, value in scan_segments(b""):
        segment_number = records.U32.unpack_from(key)[0]
        if segment_number > next_number:
            num_lost = segment_number - next_number
            losses.append(f"the changes of {num_lost} commits: table {engine_tables.RECENT} lacks their segments")
        next_number = segment_number + 1
        try:
            buffer.add_segment(key, value)
        except CorruptionError as error:
            losses.append(f"the changes of a commit: {error}")
    return buffer, losses


def check_change_buffer(segments: Iterable[tuple[bytes, memoryview]], buffered_tables: Set[str]) -> Iterator[str]:
    """Yield a sentence for each segment out of sequence, or with changes of unbuffered tables.

    Raises CorruptionError for a damaged segment.
    """
    last_number = 0
    for key, value in segments:
        segment_number = records.U32.unpack_from(key)[0]
        if segment_number != last_number + 1:
            yield f"table {engine_tables.RECENT}: segment {segment_number} follows segment {last_number}"
        last_number = segment_number
        if not unpack_segment(key, value).keys() <= buffered_tables:
            yield f"table {engine_tables.RECENT}, key {key.hex()}: changes of other tables"
