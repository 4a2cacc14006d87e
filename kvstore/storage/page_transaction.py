"""Transactions of LMDB that never read a damaged page.

In: a transaction of LMDB and the address of its map. Out: records of the same snapshot, read from pages that are
verified on the way to them (``cext/pages.pyx``). LMDB itself would follow a damaged page until the process crashes or a
stored record is not found. A write transaction reads through LMDB, because only LMDB knows the pages it has written;
the committed pages on the path are verified first. Damage raises :class:`kvstore_cext.pages.PageError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import lmdb

from kvstore_cext.pages import Cursor, Pages, Tree

from .lmdb_errors import ABOVE_ALL_KEYS, MAX_KEY_BYTES

if TYPE_CHECKING:
    from lmdb import _Database as Handle

Record = tuple[bytes, memoryview]


class PageTransaction:
    """A read transaction that reads its records from verified pages."""

    #: True if cursors skip damaged pages instead of raising an error.
    skips_damage = False

    def __init__(self, transaction: lmdb.Transaction[memoryview], pages: Pages | None, change: int) -> None:
        self._transaction = transaction
        self._pages = pages
        #: The number of the commit that this transaction sees; it only grows while the file is open.
        self.change = change
        #: A function that returns the tree of a table, or None.
        self.find_table: Callable[[str], Tree | None] = _find_no_table if pages is None else pages.get

    def get_tables(self) -> dict[str, Tree]:
        """Return the trees of all tables, by name."""
        names = [] if self._pages is None else self._pages.names()
        return {name: tree for name in names if (tree := self.find_table(name)) is not None}

    def get(self, key: bytes, *, db: Tree) -> memoryview | None:
        """Return the value of a key, or None; raise lmdb.BadValsizeError for a key of 0 or more than 511 bytes."""
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise lmdb.BadValsizeError("mdb_get")
        return db.get(key)

    def get_many(self, keys: Sequence[bytes], *, db: Tree) -> list[memoryview | None]:
        """Return the value of each key, or None."""
        return db.get_many(list(keys))

    def scan_prefixes(self, prefixes: Sequence[bytes], *, db: Tree) -> list[list[Record]]:
        """Return for each prefix the records with keys that begin with it, in key order."""
        return db.scan_prefixes(list(prefixes), self.skips_damage)

    def cursor(self, db: Tree) -> Cursor:
        """Return a cursor over a table."""
        return db.cursor(self.skips_damage)

    def count(self, db: Tree) -> int:
        """Return the number of records of a table."""
        return db.entries

    def statistics(self, db: Tree) -> dict[str, int]:
        """Return the counts of a table's pages and records."""
        return db.statistics

    def find_damage(self, table: str) -> list[str]:
        """Return a description of every damaged branch and leaf page of a table."""
        tree = self.find_table(table)
        if tree is None:
            return []
        cursor = tree.cursor(skip_damage=True)
        has_record = cursor.first()
        while has_record:
            has_record = cursor.next()
        return cursor.damage

    def abort(self) -> None:
        """End the transaction; buffers it returned must not be read any more."""
        if self._pages is not None:
            self._pages.close()
        self._transaction.abort()


def _find_no_table(table: str) -> None:
    """Return None: the file has no tables yet."""


class WrittenTable:
    """A table in a write transaction."""

    __slots__ = ("changed", "handle", "tree")

    def __init__(self, handle: Handle, tree: Tree | None) -> None:
        self.handle = handle
        #: The committed B+ tree of the table; None if this transaction created the table.
        self.tree = tree
        #: True if the transaction may have written to the table, so that ``tree`` may be out of date.
        self.changed = tree is None


class VerifiedTransaction:
    """A write transaction of LMDB that verifies committed pages before LMDB reads them."""

    def __init__(
        self,
        transaction: lmdb.Transaction[memoryview],
        pages: Pages | None,
        handles: Mapping[str, Handle],
        change: int,
    ) -> None:
        #: The LMDB transaction, for calls that read no page.
        self.lmdb = transaction
        self._pages = pages
        self._handles = handles
        self._tables: dict[str, WrittenTable] = {}
        #: The number of the commit that this transaction makes.
        self.change = change

    def find_table(self, name: str) -> WrittenTable | None:
        """Return a table by name, or None if it does not exist."""
        table = self._tables.get(name)
        if table is None and name in self._handles:
            tree = None if self._pages is None else self._pages.get(name)
            table = self._tables[name] = WrittenTable(self._handles[name], tree)
        return table

    def add_table(self, name: str, handle: Handle) -> WrittenTable:
        """Register a table that was created within this transaction, and return it."""
        self._tables[name] = WrittenTable(handle, None)
        return self._tables[name]

    def get_tables(self) -> dict[str, WrittenTable]:
        """Return all tables, by name."""
        names = [*self._handles, *(name for name in self._tables if name not in self._handles)]
        return {name: table for name in names if (table := self.find_table(name)) is not None}

    def get(self, key: bytes, *, db: WrittenTable) -> memoryview | None:
        """Return the value of a key, or None."""
        # LMDB reads a changed table, because only LMDB knows the changed pages.
        if db.tree is not None:
            if not db.changed and 0 < len(key) <= MAX_KEY_BYTES:
                return db.tree.get(key)
            db.tree.verify_path(key)
        return self.lmdb.get(key, db=db.handle)

    def cursor(self, db: WrittenTable) -> VerifiedCursor | Cursor:
        """Return a cursor over a table."""
        if db.tree is not None and not db.changed:
            return db.tree.cursor()
        return VerifiedCursor(self.lmdb.cursor(db=db.handle), db.tree)

    def get_many(self, keys: Sequence[bytes], *, db: WrittenTable) -> list[memoryview | None]:
        """Return the value of each key, or None. The cursor finds keys near its position without a new descent."""
        with self.cursor(db) as cursor:
            return [cursor.get(key) for key in keys]

    def scan_prefixes(self, prefixes: Sequence[bytes], *, db: WrittenTable) -> list[list[Record]]:
        """Return for each prefix the records with keys that begin with it, in key order."""
        if db.tree is not None and not db.changed:
            return db.tree.scan_prefixes(list(prefixes))
        records_by_prefix: list[list[Record]] = [[] for _ in prefixes]
        with self.cursor(db) as cursor:
            for prefix, records in zip(prefixes, records_by_prefix, strict=True):
                has_record = cursor.set_range(prefix)
                while has_record and (key := bytes(cursor.key())).startswith(prefix):
                    records.append((key, cursor.value()))
                    has_record = cursor.next()
        return records_by_prefix

    def count(self, db: WrittenTable) -> int:
        """Return the number of records of a table."""
        return self.lmdb.stat(db.handle)["entries"]

    def statistics(self, db: WrittenTable) -> dict[str, int]:
        """Return the counts of a table's pages and records."""
        return dict(self.lmdb.stat(db.handle))  # type: ignore[arg-type]

    def put(self, key: bytes, value: bytes | bytearray | memoryview, *, db: WrittenTable) -> bool:
        """Store a value."""
        db.changed = True
        if db.tree is not None:
            db.tree.verify_path(key)
        return self.lmdb.put(key, value, db=db.handle)

    def put_many(self, records: list[tuple[bytes, bytes | bytearray | memoryview]], db: WrittenTable) -> None:
        """Store many values, in key order."""
        db.changed = True
        if db.tree is not None:
            db.tree.verify_paths(records)
        with self.lmdb.cursor(db=db.handle) as cursor:
            cursor.putmulti(records)

    def delete(self, key: bytes, *, db: WrittenTable) -> bool:
        """Remove a key; return False if it is missing."""
        db.changed = True
        if db.tree is not None:
            db.tree.verify_path(key, siblings=True)  # LMDB may merge a page with a sibling after a deletion
        return self.lmdb.delete(key, db=db.handle)

    def clear(self, db: WrittenTable) -> None:
        """Remove every record of a table."""
        db.changed = True
        if db.tree is not None:
            db.tree.verify()
        self.lmdb.drop(db.handle, delete=False)

    def commit(self) -> None:
        """Make the changes durable and visible."""
        self._close_pages()
        self.lmdb.commit()

    def abort(self) -> None:
        """Roll the transaction back."""
        self._close_pages()
        self.lmdb.abort()

    def _close_pages(self) -> None:
        """End reading through kvstore's own page reader, because the pages may change from now on."""
        if self._pages is not None:
            self._pages.close()


class VerifiedCursor:
    """A cursor of a write transaction, which verifies committed pages before LMDB reads them."""

    def __init__(self, cursor: lmdb.Cursor[memoryview], tree: Tree | None) -> None:
        self._cursor = cursor
        self._tree = tree
        #: The methods that return the key and the value of the current record.
        self.key = cursor.key
        self.value = cursor.value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cursor.close()

    def get(self, key: bytes) -> memoryview | None:
        """Return the value of a key, or None."""
        if self._tree is not None:
            self._tree.verify_path(key)
        return self._cursor.get(key)

    def first(self) -> bool:
        """Go to the first record; return False if the table is empty."""
        self._verify(b"", forward=True)
        return self._cursor.first()

    def last(self) -> bool:
        """Go to the last record; return False if the table is empty."""
        self._verify(ABOVE_ALL_KEYS, forward=False)
        return self._cursor.last()

    def set_range(self, key: bytes) -> bool:
        """Go to the first record with a key at or above ``key``; return False at the end."""
        self._verify(key, forward=True)
        return self._cursor.set_range(key)

    def next(self) -> bool:
        """Go to the next record; return False at the end."""
        self._verify(bytes(self._cursor.key()), forward=True)
        return self._cursor.next()

    def prev(self) -> bool:
        """Go to the previous record; return False at the beginning."""
        self._verify(bytes(self._cursor.key()) or ABOVE_ALL_KEYS, forward=False)
        return self._cursor.prev()

    def iternext(self) -> Iterator[Record]:
        """Return an iterator from this record forward."""
        return self._iterate(self._cursor.iternext(), forward=True)

    def iterprev(self) -> Iterator[Record]:
        """Return an iterator from this record backward."""
        return self._iterate(self._cursor.iterprev(), forward=False)

    def _iterate(self, records: Iterator[tuple[memoryview, memoryview]], *, forward: bool) -> Iterator[Record]:
        """Yield the records of a cursor, and verify the pages ahead of it in its direction, before LMDB reads them."""
        limit: bytes | None = None
        is_all_verified = self._tree is None
        for key_view, value in records:
            key = bytes(key_view)
            yield key, value
            # The cursor may continue within the page of the limit, and to the page after it.
            if not is_all_verified and (limit is None or (key > limit if forward else key < limit)):
                limit = self._verify(key, forward=forward)
                is_all_verified = limit is None

    def _verify(self, key: bytes, *, forward: bool) -> bytes | None:
        """Verify the checksums of the page that holds ``key`` and of the next page in the direction of reading.

        Return the last key (if ``forward``, else the first) of that next page: a cursor can move as far as this key
        without reaching an unverified page. Return None if there is no next page, or if nothing needs verification.
        """
        return None if self._tree is None else self._tree.verify_near(key, forward)
