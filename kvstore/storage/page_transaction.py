"""Transactions of LMDB that meet no damaged page.

In: a transaction of LMDB and the address of its map. Out: records of the same snapshot, read from pages that
are verified on the way to them (``cext/pages.pyx``), because LMDB follows a damaged page until the process ends or a
stored record is not found. A write transaction reads through LMDB, which alone knows its own pages; the committed pages
on the way are verified before. Damage raises :class:`kvstore_cext.pages.PageError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import lmdb

from kvstore_cext.pages import Cursor, Pages, Tree

from .lmdb_errors import LONGEST_KEY

if TYPE_CHECKING:
    from lmdb import _Database as Handle

Record = tuple[bytes, memoryview]


class TableTrees(Mapping[str, Tree]):
    """The trees of all tables that a transaction sees, by name, read when they are asked for."""

    def __init__(self, pages: Pages | None) -> None:
        self._main = None if pages is None else pages.tree(pages.main)
        self._pages = pages
        self._trees: dict[str, Tree | None] = {}

    def get(self, table: str, default: object = None) -> Tree | None:  # type: ignore[override]
        try:
            return self._trees[table]
        except KeyError:
            record = None if self._main is None else self._main.get(os.fsencode(table))
            tree = None if record is None or self._pages is None else self._pages.tree(record)
            self._trees[table] = tree
            return tree

    def __getitem__(self, table: str) -> Tree:
        tree = self.get(table)
        if tree is None:
            raise KeyError(table)
        return tree

    def __iter__(self) -> Iterator[str]:
        if self._main is not None:
            for name, _ in self._main.cursor():
                yield os.fsdecode(name)

    def __len__(self) -> int:
        return 0 if self._main is None else self._main.statistics["entries"]


class PageTransaction:
    """A read transaction whose records are read from verified pages."""

    def __init__(self, transaction: lmdb.Transaction[memoryview], pages: Pages | None) -> None:
        self._transaction = transaction
        self._pages = pages
        #: The trees of the tables.
        self.trees = TableTrees(pages)
        #: Whether cursors go on behind damage, where they otherwise raise.
        self.passes_damage = False

    def id(self) -> int:
        """The number of the commit that it sees."""
        return self._transaction.id()

    def get(self, key: bytes, *, db: Tree) -> memoryview | None:
        """The value under a key, or None."""
        if not 0 < len(key) <= LONGEST_KEY:
            raise lmdb.BadValsizeError("mdb_get")
        return db.get(key)

    def cursor(self, db: Tree) -> Cursor:
        """A cursor over a table."""
        return db.cursor(self.passes_damage)

    def stat(self, db: Tree) -> dict[str, int]:
        """The counts of a table's pages and records."""
        return db.statistics

    def find_damage(self, table: str) -> list[str]:
        """Every damaged branch and leaf page of a table, as text."""
        tree = self.trees.get(table)
        if tree is None:
            return []
        with tree.cursor(True) as cursor:
            more = cursor.first()
            while more:
                more = cursor.next()
            return cursor.passed

    def abort(self) -> None:
        """End the transaction; what it gave must not be read any more."""
        if self._pages is not None:
            self._pages.close()
        self._transaction.abort()


class VerifiedTransaction:
    """A write transaction of LMDB that verifies committed pages before LMDB reads them."""

    def __init__(
        self,
        transaction: lmdb.Transaction[memoryview],
        pages: Pages | None,
        handles: Mapping[str, Handle],
    ) -> None:
        #: The transaction itself, for what reads no page.
        self.lmdb = transaction
        self._pages = pages
        self._trees = TableTrees(pages)
        self._names = {handle: table for table, handle in handles.items()}
        self.id = transaction.id

    def _tree(self, handle: Handle) -> Tree | None:
        """The committed tree of a table; None for one that this transaction has made."""
        table = self._names.get(handle)
        return None if table is None else self._trees.get(table)

    def get(self, key: bytes, *, db: Handle) -> memoryview | None:
        """The value under a key, or None."""
        tree = self._tree(db)
        if tree is not None:
            tree.verify_path(key)
        return self.lmdb.get(key, db=db)

    def cursor(self, db: Handle) -> VerifiedCursor:
        """A cursor over a table."""
        return VerifiedCursor(self.lmdb.cursor(db=db), self._tree(db))

    def stat(self, db: Handle) -> dict[str, int]:
        """The counts of a table's pages and records."""
        return dict(self.lmdb.stat(db))  # type: ignore[arg-type]

    def put(self, key: bytes, value: bytes | bytearray | memoryview, *, db: Handle) -> bool:
        """Store a value."""
        tree = self._tree(db)
        if tree is not None:
            tree.verify_path(key)
        return self.lmdb.put(key, value, db=db)

    def put_many(self, records: Sequence[tuple[bytes, bytes | bytearray | memoryview]], db: Handle) -> None:
        """Store many values, in order of their keys."""
        tree = self._tree(db)
        if tree is not None:
            tree.verify_paths(records)
        with self.lmdb.cursor(db=db) as cursor:
            cursor.putmulti(records)

    def delete(self, key: bytes, *, db: Handle) -> bool:
        """Remove a key; False if it is missing."""
        tree = self._tree(db)
        if tree is not None:
            tree.verify_path(key, siblings=True)
        return self.lmdb.delete(key, db=db)

    def clear(self, db: Handle) -> None:
        """Remove every record of a table."""
        tree = self._tree(db)
        if tree is not None:
            tree.verify()
        self.lmdb.drop(db, delete=False)

    def commit(self) -> None:
        """Make the changes durable and visible."""
        self._close_pages()
        self.lmdb.commit()

    def abort(self) -> None:
        """Roll everything back."""
        self._close_pages()
        self.lmdb.abort()

    def _close_pages(self) -> None:
        if self._pages is not None:
            self._pages.close()


class VerifiedCursor:
    """A cursor of a write transaction, which verifies the committed pages that it comes to."""

    def __init__(self, cursor: lmdb.Cursor[memoryview], tree: Tree | None) -> None:
        self._cursor = cursor
        self._tree = tree
        self.key = cursor.key
        self.value = cursor.value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cursor.close()

    def get(self, key: bytes) -> memoryview | None:
        """The value under a key, or None."""
        if self._tree is not None:
            self._tree.verify_path(key)
        return self._cursor.get(key)

    def first(self) -> bool:
        """Go to the first record; False if there is none."""
        self._verify(b"", forward=True)
        return self._cursor.first()

    def last(self) -> bool:
        """Go to the last record; False if there is none."""
        self._verify(_ABOVE, forward=False)
        return self._cursor.last()

    def set_range(self, key: bytes) -> bool:
        """Go to the first record whose key is not below a key; False if there is none."""
        self._verify(key, forward=True)
        return self._cursor.set_range(key)

    def next(self) -> bool:
        """Go to the next record; False if there is none."""
        self._verify(bytes(self._cursor.key()), forward=True)
        return self._cursor.next()

    def prev(self) -> bool:
        """Go to the record before; False if there is none."""
        self._verify(bytes(self._cursor.key()) or _ABOVE, forward=False)
        return self._cursor.prev()

    def iternext(self) -> Iterator[Record]:
        """The records from this one on."""
        yield from self._iterate(self._cursor.iternext(), forward=True)

    def iterprev(self) -> Iterator[Record]:
        """The records from this one back."""
        yield from self._iterate(self._cursor.iterprev(), forward=False)

    def _iterate(self, records: Iterator[tuple[memoryview, memoryview]], *, forward: bool) -> Iterator[Record]:
        limit: bytes | None = None
        verified = self._tree is None
        for key, value in records:
            record = bytes(key)
            yield record, value
            # The cursor may go on within the page of the limit, and to the page behind it.
            if not verified and (limit is None or (record > limit if forward else record < limit)):
                limit = self._verify(record, forward=forward)
                verified = limit is None

    def _verify(self, key: bytes, *, forward: bool) -> bytes | None:
        return None if self._tree is None else self._tree.verify_near(key, forward)


#: Above every key.
_ABOVE = b"\xff" * (LONGEST_KEY + 1)
