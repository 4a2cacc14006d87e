"""The pages of the mapped file: LMDB transactions that never read a damaged page, and the release of their memory. The
*tree* of a table is its B+ tree at the last commit. When its pages are read, their numbers, kinds and bounds are
verified, but not the bytes of records. LMDB reads only tables that the transaction has changed.

In: an LMDB transaction and the address of its map. Out: records of the same snapshot, read from pages that are verified
on the way to them (``cext/pages.pyx``). LMDB itself would follow a damaged page until the process crashes or a stored
record is not found. A write transaction reads a changed table through LMDB, because only LMDB knows the pages it has
written; the committed pages on the path are verified first. Damage raises :class:`kvstore_cext.pages.PageError`.

Release: in: a buffer of an open transaction, which keeps the map in place; or the number of records read. Out: pages of
the file no longer count as memory of the process. The system keeps them as long as it likes, and maps them again on the
next read. Does nothing if the system does not list the mappings of a process (Linux does, in ``/proc``).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import lmdb

from kvstore_cext.pages import Cursor, Pages, Tree, get_address

from .lmdb_errors import ABOVE_ALL_KEYS, MAX_KEY_BYTES

if TYPE_CHECKING:
    from lmdb import _Database as Handle

Record = tuple[bytes, memoryview]


class PageTransaction:
    """A read transaction that reads its records from verified pages."""

    #: True if cursors skip damaged pages instead of raising an error.
    skips_damage = False

    def __init__(self, transaction: lmdb.Transaction[memoryview], pages: Pages | None, change: int) -> None:
        """Wrap a read transaction on commit number ``change``, whose ``pages`` are read (None: it has no table)."""
        self._transaction = transaction
        self._pages = pages
        #: The number of the commit that this transaction sees; it only grows while the file is open.
        self.change = change
        #: A function that returns the tree of a table, or None.
        self.find_table: Callable[[str], Tree | None] = _find_no_table if pages is None else pages.get

    def get_tables(self) -> dict[str, Tree]:
        """Return the B+ trees of all tables, by name."""
        names = [] if self._pages is None else self._pages.names()
        trees = ((name, self.find_table(name)) for name in names)
        return {name: tree for name, tree in trees if tree is not None}

    def get(self, key: bytes, *, table: Tree) -> memoryview | None:
        """Return the value of a key, or None if it is missing; raise lmdb.BadValsizeError for an invalid length."""
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise lmdb.BadValsizeError("mdb_get")
        return table.get(key)

    def get_many(self, keys: Sequence[bytes], *, table: Tree) -> list[memoryview | None]:
        """Return the value of each key, None for a missing key."""
        return table.get_many(list(keys))

    def scan_prefixes(self, prefixes: Sequence[bytes], *, table: Tree) -> list[list[Record]]:
        """Return for each prefix the records with keys that begin with it, in key order."""
        return table.scan_prefixes(list(prefixes), self.skips_damage)

    def find_last(self, ranges: Sequence[tuple[bytes, bytes]], *, table: Tree) -> list[Record | None]:
        """Return for each range the last record with ``start <= key < stop``, or None."""
        return table.find_last(list(ranges), self.skips_damage)

    def cursor(self, table: Tree) -> Cursor:
        """Return a cursor over a table."""
        return table.cursor(self.skips_damage)

    def count(self, table: Tree) -> int:
        """Return the number of records of a table."""
        return table.entries

    def get_statistics(self, table: Tree) -> dict[str, int]:
        """Return the counts of a table's pages and records."""
        return table.statistics

    def describe_damaged_pages(self, table: str) -> list[str]:
        """Return a description of each damaged branch or leaf page of a table; empty if there is no such table."""
        tree = self.find_table(table)
        if tree is None:
            return []
        cursor = tree.cursor(skip_damage=True)  # which lists the damaged pages that it skips
        has_record = cursor.first()
        while has_record:
            has_record = cursor.next()
        return cursor.damage

    def abort(self) -> None:
        """End the transaction; buffers that it returned must no longer be read."""
        if self._pages is not None:
            self._pages.close()
        self._transaction.abort()


def _find_no_table(table: str) -> None:
    """Return None for every table, because the file has no tables yet."""


class WritableTable:
    """A table in a write transaction."""

    __slots__ = ("handle", "is_changed", "tree")

    def __init__(self, handle: Handle, tree: Tree | None) -> None:
        """Create a table of a write transaction; ``tree`` is its B+ tree at the last commit (None: a new table)."""
        self.handle = handle
        #: The committed B+ tree of the table; None if this transaction created the table.
        self.tree = tree
        #: True if the transaction may have written to the table, so that ``tree`` may be out of date.
        self.is_changed = tree is None


class VerifiedTransaction:
    """An LMDB write transaction that verifies committed pages before LMDB reads them."""

    def __init__(
        self, transaction: lmdb.Transaction[memoryview], pages: Pages | None, handles: Mapping[str, Handle], change: int
    ) -> None:
        """Wrap a write transaction that will make the commit number ``change``.

        ``pages`` are the pages of the last commit (None: it has no table), and ``handles`` has LMDB's handles of its
        tables, by name.
        """
        #: The LMDB transaction, for calls that read no page.
        self.lmdb = transaction
        self._pages = pages
        self._handles = handles
        #: The tables used so far, by name, including those that this transaction created.
        self._tables: dict[str, WritableTable] = {}
        #: The number of the commit that this transaction makes.
        self.change = change

    def find_table(self, name: str) -> WritableTable | None:
        """Return the table with this name, or None if it does not exist. The result is cached."""
        table = self._tables.get(name)
        if table is None and name in self._handles:
            tree = None if self._pages is None else self._pages.get(name)
            table = self._tables[name] = WritableTable(self._handles[name], tree)
        return table

    def add_table(self, name: str, handle: Handle) -> WritableTable:
        """Register a table that was created within this transaction, and return it."""
        self._tables[name] = WritableTable(handle, tree=None)
        return self._tables[name]

    def get_tables(self) -> dict[str, WritableTable]:
        """Return all tables, by name."""
        names = [*self._handles, *(name for name in self._tables if name not in self._handles)]
        tables = ((name, self.find_table(name)) for name in names)
        return {name: table for name, table in tables if table is not None}

    def get(self, key: bytes, *, table: WritableTable) -> memoryview | None:
        """Return the value of a key, or None if it is missing."""
        # LMDB reads a changed table, because only LMDB knows the changed pages.
        if table.tree is not None:
            if not table.is_changed and 0 < len(key) <= MAX_KEY_BYTES:
                return table.tree.get(key)
            table.tree.verify_paths([key])
        return self.lmdb.get(key, db=table.handle)

    def make_reader(self, table: WritableTable) -> Callable[[bytes], memoryview | None]:
        """Return a function that maps a valid key to its value, or to None if the key is missing.

        The function is usable until this transaction changes the table.
        """
        return partial(self.get, table=table) if table.tree is None or table.is_changed else table.tree.get

    def cursor(self, table: WritableTable) -> VerifiedCursor | Cursor:
        """Return a cursor over a table, which reads through LMDB only if this transaction changed the table."""
        if table.tree is not None and not table.is_changed:
            return table.tree.cursor()
        return VerifiedCursor(self.lmdb.cursor(db=table.handle), table.tree)

    def get_many(self, keys: Sequence[bytes], *, table: WritableTable) -> list[memoryview | None]:
        """Return the value of each key, None for a missing key."""
        if table.tree is not None:
            if not table.is_changed:
                return table.tree.get_many(list(keys))
            table.tree.verify_paths(list(keys))
        # The cursor finds keys near its position without descending the tree again.
        with self.lmdb.cursor(db=table.handle) as cursor:
            return list(map(cursor.get, keys))

    def scan_prefixes(self, prefixes: Sequence[bytes], *, table: WritableTable) -> list[list[Record]]:
        """Return for each prefix the records with keys that begin with it, in key order."""
        if table.tree is not None and not table.is_changed:
            return table.tree.scan_prefixes(list(prefixes))
        records_by_prefix: list[list[Record]] = [[] for _ in prefixes]
        with self.cursor(table) as cursor:
            for prefix, records in zip(prefixes, records_by_prefix, strict=True):
                has_record = cursor.set_range(prefix)
                while has_record:
                    key = bytes(cursor.key())
                    if not key.startswith(prefix):
                        break
                    records.append((key, cursor.value()))
                    has_record = cursor.next()
        return records_by_prefix

    def find_last(self, ranges: Sequence[tuple[bytes, bytes]], *, table: WritableTable) -> list[Record | None]:
        """Return for each range the last record with ``start <= key < stop``, or None."""
        if table.tree is not None and not table.is_changed:
            return table.tree.find_last(list(ranges))
        if table.tree is not None:
            table.tree.verify_around([stop for _, stop in ranges])
        last_records: list[Record | None] = []
        with self.lmdb.cursor(db=table.handle) as cursor:
            for start, stop in ranges:
                has_record = cursor.prev() if cursor.set_range(stop) else cursor.last()
                key = bytes(cursor.key()) if has_record else b""
                last_records.append((key, cursor.value()) if has_record and key >= start else None)
        return last_records

    def count(self, table: WritableTable) -> int:
        """Return the number of records of a table."""
        return self.lmdb.stat(table.handle)["entries"]

    def get_statistics(self, table: WritableTable) -> dict[str, int]:
        """Return the counts of a table's pages and records."""
        return dict(self.lmdb.stat(table.handle))  # type: ignore[arg-type]

    def put(self, key: bytes, value: bytes | bytearray | memoryview, *, table: WritableTable) -> bool:
        """Store a value, after verifying the pages that lead to its key; return True, as LMDB does."""
        table.is_changed = True
        if table.tree is not None:
            table.tree.verify_paths([key])
        return self.lmdb.put(key, value, db=table.handle)

    def put_many(self, records: list[tuple[bytes, bytes | bytearray | memoryview]], table: WritableTable) -> None:
        """Store many records, given in key order, after verifying the pages that lead to their keys.

        The table counts as changed afterwards, so LMDB reads it.
        """
        table.is_changed = True
        if table.tree is not None:
            table.tree.verify_paths([key for key, _ in records])
        with self.lmdb.cursor(db=table.handle) as cursor:
            cursor.putmulti(records)

    def delete(self, key: bytes, *, table: WritableTable) -> bool:
        """Remove a key, after verifying the pages that lead to it and their siblings; return False if it is missing."""
        table.is_changed = True
        if table.tree is not None:
            table.tree.verify_paths([key], siblings=True)  # LMDB may merge a page with a sibling after a deletion
        return self.lmdb.delete(key, db=table.handle)

    def delete_many(self, keys: Sequence[bytes], table: WritableTable) -> None:
        """Remove many keys, after verifying the pages as :meth:`delete` does; missing keys are ignored."""
        table.is_changed = True
        if table.tree is not None:
            table.tree.verify_paths(list(keys), siblings=True)
        for key in keys:
            self.lmdb.delete(key, db=table.handle)

    def clear(self, table: WritableTable) -> None:
        """Remove every record of a table, after verifying all its pages."""
        table.is_changed = True
        if table.tree is not None:
            table.tree.verify()
        self.lmdb.drop(table.handle, delete=False)

    def commit(self) -> None:
        """Commit: make the changes durable, and visible to transactions that begin later."""
        self._close_pages()
        self.lmdb.commit()

    def abort(self) -> None:
        """Roll the transaction back."""
        self._close_pages()
        self.lmdb.abort()

    def _close_pages(self) -> None:
        """Stop reading committed pages directly from the map, because LMDB may change them from now on."""
        if self._pages is not None:
            self._pages.close()


class VerifiedCursor:
    """A cursor of a write transaction, which verifies committed pages before LMDB reads them."""

    def __init__(self, cursor: lmdb.Cursor[memoryview], tree: Tree | None) -> None:
        """Wrap a cursor over a table; ``tree`` is the table at the last commit, None if it is new."""
        self._cursor = cursor
        self._tree = tree
        #: The methods that return the key and the value of the current record.
        self.key = cursor.key
        self.value = cursor.value

    def __enter__(self) -> Self:
        """Return the cursor itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the cursor."""
        self._cursor.close()

    def get(self, key: bytes) -> memoryview | None:
        """Return the value of a key, after verifying the pages that lead to it, or None if the table lacks it."""
        if self._tree is not None:
            self._tree.verify_paths([key])
        return self._cursor.get(key)

    def first(self) -> bool:
        """Go to the first record; return False if the table is empty."""
        self._verify_pages_near(b"", forward=True)
        return self._cursor.first()

    def last(self) -> bool:
        """Go to the last record; return False if the table is empty."""
        self._verify_pages_near(ABOVE_ALL_KEYS, forward=False)
        return self._cursor.last()

    def set_range(self, key: bytes) -> bool:
        """Go to the first record with a key at or above ``key``; return False at the end."""
        self._verify_pages_near(key, forward=True)
        return self._cursor.set_range(key)

    def next(self) -> bool:
        """Go to the next record; return False at the end."""
        self._verify_pages_near(bytes(self._cursor.key()), forward=True)
        return self._cursor.next()

    def prev(self) -> bool:
        """Go to the previous record, or to the last if there is no current record; return False at the beginning."""
        # Without a current record, the key is empty and LMDB goes to the last record.
        self._verify_pages_near(bytes(self._cursor.key()) or ABOVE_ALL_KEYS, forward=False)
        return self._cursor.prev()

    def iternext(self) -> Iterator[Record]:
        """Return an iterator over this record and those after it, in key order."""
        return self._iter_verified(self._cursor.iternext(), forward=True)

    def iterprev(self) -> Iterator[Record]:
        """Return an iterator over this record and those before it, in descending order."""
        return self._iter_verified(self._cursor.iterprev(), forward=False)

    def _iter_verified(self, records: Iterator[tuple[memoryview, memoryview]], *, forward: bool) -> Iterator[Record]:
        """Yield ``records``, read from the cursor forward or backward, and verify each page before LMDB reads it."""
        safe_key: bytes | None = None  # the last key from which the cursor cannot reach an unverified page
        is_all_verified = self._tree is None
        for key_view, value in records:
            key = bytes(key_view)
            yield key, value
            if is_all_verified:
                continue
            # The cursor may continue within the page of the safe key, and to the page after it.
            is_past_safe_key = safe_key is None or (key > safe_key if forward else key < safe_key)
            if is_past_safe_key:
                safe_key = self._verify_pages_near(key, forward=forward)
                is_all_verified = safe_key is None

    def _verify_pages_near(self, key: bytes, *, forward: bool) -> bytes | None:
        """Verify the page that holds ``key``, and the next page in the direction of reading.

        Returns the last key (if ``forward``, else the first) of the page that holds ``key``. From there, a cursor can
        move to the next record without reaching an unverified page. Returns None if there is no next page, or if
        nothing needs verification.
        """
        return None if self._tree is None else self._tree.verify_near(key, forward)


#: Bytes of mapped files above which a process releases the pages of a store. More would count as its memory and hardly
#: make it faster, because the system caches the pages anyway.
MAX_MAPPED_BYTES = 1 << 29
#: Lookups of records release nothing before the process uses this many bytes in total. In a store of a million chunks,
#: mapping pages again takes a fifth of the time of the lookups of consecutive queries.
MIN_TOTAL_BYTES = 1 << 31
#: Records between two checks of memory use. The system maps about 64 KiB around a page that is read.
_CHECK_INTERVAL = 1024

_MAPPINGS = Path("/proc/self/maps")
_MEMORY_STATISTICS = Path("/proc/self/statm")


class PageReleaser:
    """Releases the pages of one mapped file if the process holds more than :data:`MAX_MAPPED_BYTES` of mapped files.

    For lookups, the process must also use more than :data:`MIN_TOTAL_BYTES`. Code that reads the file reports the
    number of records. Any thread may call it; pages that are read during the call are mapped again.
    """

    def __init__(self, release: Callable[[], None]) -> None:
        """Create a counter of the accesses to a mapped file; ``release`` releases the pages of the file."""
        self._release = release
        #: The numbers of records since the last check: looked up (True); read sequentially or to be written (False).
        self._unchecked_accesses = {False: 0, True: 0}
        #: Bytes of other mapped files in memory: what was left after the last release.
        self._other_bytes = 0

    def record_accesses(self, num_records: int, *, is_lookup: bool = False) -> None:
        """Record accesses to records, and release the file's pages if too many of them are in memory.

        ``is_lookup`` is True for records found by key, not by a scan: their pages may soon be read again, so they are
        released only if the process has more than :data:`MIN_TOTAL_BYTES` in memory.
        """
        self._unchecked_accesses[is_lookup] += num_records
        if self._unchecked_accesses[is_lookup] >= _CHECK_INTERVAL:
            self._unchecked_accesses[is_lookup] = 0
            total_bytes, mapped_bytes = measure_memory()
            # The rest of the mapped bytes are pages of this file. Other files can have been unmapped meanwhile.
            self._other_bytes = min(self._other_bytes, mapped_bytes)
            if mapped_bytes > self._other_bytes + MAX_MAPPED_BYTES and (not is_lookup or total_bytes > MIN_TOTAL_BYTES):
                self._release()
                _, self._other_bytes = measure_memory()


def measure_memory() -> tuple[int, int]:
    """Return the bytes of memory of this process, and the bytes of mapped files among them; 0, 0 if unknown."""
    try:  # the second and third field of the file
        total_pages, mapped_pages = map(int, _MEMORY_STATISTICS.read_bytes().split()[1:3])
    except OSError:
        return 0, 0
    return total_pages * mmap.PAGESIZE, mapped_pages * mmap.PAGESIZE


def release_pages(value: memoryview) -> None:
    """Release all pages of the shared mapping that contains ``value``; does nothing for other kinds of memory."""
    if not len(value) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    address = get_address(value)
    try:
        mappings = _MAPPINGS.read_text(errors="replace").splitlines()
    except OSError:
        return
    for mapping in mappings:
        span, permissions = mapping.split(maxsplit=2)[:2]
        start, end = (int(digits, 16) for digits in span.split("-"))
        # A shared mapping loses nothing; a private one would.
        if start <= address < end and permissions.endswith("s"):
            advise = ctypes.CDLL(None).madvise
            advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
            advise(start, end - start, mmap.MADV_DONTNEED)
            return
