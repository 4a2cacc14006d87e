"""Views: what every storage structure reads through (a snapshot) or writes through (a write transaction).

In: a table's name and raw keys (1 to 511 bytes). Out: raw values as memoryviews into LMDB's map, copied nowhere. A
buffer of a snapshot lives as long as the snapshot, a buffer of a write transaction until its next put or delete. A
table that nobody has written to yet is simply empty. Errors of LMDB leave as the errors of ``kvstore.errors``.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import lmdb

from ..errors import (
    ClosedError,
    CorruptionError,
    InputError,
    KvstoreError,
    ReadOnlyError,
    StoreFullError,
    TransactionError,
)
from .dense_copy import write_densely
from .transaction_gate import TransactionGate

if TYPE_CHECKING:
    from lmdb import _Database as Handle

Record = tuple[bytes, memoryview]

#: LMDB answers EIO when a write ended early, which is what a disk does that runs full.
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class View(Protocol):
    """One consistent state of the store, to read from."""

    @property
    def writable(self) -> bool:
        """Whether this is a :class:`WriteView`."""
        ...

    def get(self, table: str, key: bytes) -> memoryview | None:
        """The value under ``key``, or None."""
        ...

    def get_below(self, table: str, prefixes: Sequence[bytes]) -> list[Record]:
        """The records whose keys begin with one of some prefixes, prefix by prefix in the order given."""
        ...

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """The records with ``start <= key < stop``, in key order, or in the opposite order with ``reverse``."""
        ...

    def count(self, table: str) -> int:
        """The number of records in ``table``."""
        ...


class WriteView(View, Protocol):
    """A view whose changes become visible to others all at once, or never."""

    def put(self, table: str, key: bytes, value: bytes | bytearray | memoryview) -> None:
        """Store ``value`` under ``key``, in place of what was there."""
        ...

    def delete(self, table: str, key: bytes) -> bool:
        """Remove ``key``; False when it was not there."""
        ...


class MapFull(StoreFullError):
    """The memory map is full and the transaction rolled back; in a larger map it may succeed."""


def translate(error: lmdb.Error, place: str) -> KvstoreError:
    """The error of this project that says what an error of LMDB means at ``place`` (a path or a table)."""
    code = getattr(error, "code", 0)
    if isinstance(error, lmdb.DiskError) or code in NO_SPACE:
        return StoreFullError(
            f"{place}: the disk is full or failing ({error.reason}); nothing was changed: free some space and try again"
        )
    if isinstance(error, lmdb.TxnFullError):
        return StoreFullError(f"{place}: too much for one transaction; split the work over several")
    if isinstance(error, lmdb.BadValsizeError):
        return InputError(f"{place}: a key must be 1 to 511 bytes long")
    if isinstance(error, lmdb.ReadonlyError) or code in (errno.EPERM, errno.EROFS):
        return ReadOnlyError(f"{place}: may not be written; open the store read-only, or get the right to")
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError)):
        return CorruptionError(f"{place}: LMDB found the data file damaged ({error}); restore it from a backup")
    if isinstance(error, lmdb.BadTxnError):
        return TransactionError(f"{place}: an earlier error ended this transaction; abort it and begin another")
    if "closed" in str(error):
        return ClosedError(f"{place}: the snapshot or transaction was closed; open another")
    return KvstoreError(f"{place}: LMDB could not do this: {error}")


class TransactionOwner(Protocol):
    """What a view needs of the environment that made it."""

    lock_timeout: float

    @property
    def gate(self) -> TransactionGate:
        """The count of this process's open transactions."""
        ...

    def change_of(self, transaction: lmdb.Transaction[memoryview]) -> int:
        """The number of the change that ``transaction`` sees or makes."""
        ...

    def create_table(self, transaction: lmdb.Transaction[memoryview], table: str) -> Handle:
        """Make ``table`` within a write transaction."""
        ...

    def ended(self, view: LmdbView) -> None:
        """Learn that the transaction of ``view`` is over."""
        ...

    def committed(self, created: Mapping[str, Handle]) -> None:
        """Learn that a commit has succeeded, and which tables it has added."""
        ...

    def map_full(self) -> MapFull:
        """Learn that the map is full; the error to raise says what can be done about it."""
        ...


class LmdbView:
    """Reading, as snapshots and write transactions share it."""

    writable = False
    #: Descriptor of the writer's lock, shared by a reader that cannot register itself with LMDB.
    shared_lock: int | None = None

    def __init__(
        self, owner: TransactionOwner, transaction: lmdb.Transaction[memoryview], handles: Mapping[str, Handle]
    ) -> None:
        self._owner = owner
        self._transaction: lmdb.Transaction[memoryview] | None = transaction
        self._handles = handles
        #: Number of the change this view sees: it grows by one with every commit, and is the same for equal states.
        self.change = owner.change_of(transaction)

    def get(self, table: str, key: bytes) -> memoryview | None:
        """The value under ``key``, or None; raises InputError for a key of 0 or more than 511 bytes."""
        transaction = self._current()
        handle = self._handles.get(table)
        if handle is None:
            return None
        try:
            return transaction.get(key, db=handle)
        except lmdb.Error as error:
            raise translate(error, f"table {table}") from error

    def get_below(self, table: str, prefixes: Sequence[bytes]) -> list[Record]:
        """The records whose keys begin with one of some prefixes, prefix by prefix in the order given."""
        transaction = self._current()
        handle = self._handles.get(table)
        if handle is None:
            return []
        found: list[Record] = []
        try:
            with transaction.cursor(db=handle) as cursor:
                for prefix in prefixes:
                    more = cursor.set_range(prefix)
                    while more and (key := bytes(cursor.key())).startswith(prefix):
                        found.append((key, cursor.value()))
                        more = cursor.next()
        except lmdb.Error as error:
            raise translate(error, f"table {table}") from error
        return found

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """The records with ``start <= key < stop``, in key order, or in the opposite order with ``reverse``."""
        transaction = self._current()
        handle = self._handles.get(table)
        if handle is None:
            return iter(())
        return self._records(transaction, handle, table, start, stop, reverse)

    def count(self, table: str) -> int:
        """The number of records in ``table``."""
        transaction = self._current()
        handle = self._handles.get(table)
        try:
            return 0 if handle is None else transaction.stat(handle)["entries"]
        except lmdb.Error as error:
            raise translate(error, f"table {table}") from error

    def tables(self) -> dict[str, dict[str, int]]:
        """LMDB's page and record counts of every table, by name (for statistics)."""
        transaction = self._current()
        return {name: dict(transaction.stat(handle)) for name, handle in sorted(self._handles.items())}  # type: ignore[arg-type]

    @property
    def closed(self) -> bool:
        """Whether the view is over."""
        return self._transaction is None

    def _records(
        self,
        transaction: lmdb.Transaction[memoryview],
        handle: Handle,
        table: str,
        start: bytes,
        stop: bytes | None,
        reverse: bool,
    ) -> Iterator[Record]:
        try:
            with transaction.cursor(db=handle) as cursor:
                if reverse:
                    found = cursor.prev() if stop is not None and cursor.set_range(stop) else cursor.last()
                    for key, value in cursor.iterprev() if found else ():
                        record = bytes(key)
                        if record < start:
                            return
                        yield record, value
                elif cursor.set_range(start) if start else cursor.first():
                    for key, value in cursor.iternext():
                        record = bytes(key)
                        if stop is not None and record >= stop:
                            return
                        yield record, value
        except lmdb.Error as error:
            raise translate(error, f"table {table}") from error

    def _current(self) -> lmdb.Transaction[memoryview]:
        if self._transaction is None:
            raise ClosedError(
                "this snapshot or transaction is closed, or belongs to the parent of a fork; open another"
            )
        return self._transaction

    def _after_fork(self) -> None:
        # Dropped, not ended: ending it would free the parent's place in the table of readers.
        self._transaction = None
        self._handles = {}


class Snapshot(LmdbView):
    """A read transaction: the store as it was when the snapshot was taken, whatever others commit meanwhile.

    A context manager. Any thread may use it, one at a time. Drop every buffer it gave before closing it: the bytes
    behind a buffer may change afterwards, and are gone once the environment is closed.
    """

    _pins = 0

    def copy_to(self, target: Path, most_bytes: int) -> None:
        """Write every record to a new file with full pages; raises what :func:`.dense_copy.write_densely` raises."""
        write_densely(self._current(), self._handles, target, most_bytes)

    @contextmanager
    def pin(self) -> Iterator[Self]:
        """Keep the snapshot open while a kernel reads its buffers without the interpreter's lock."""
        with self._owner.gate.condition:
            self._current()
            self._pins += 1
        try:
            yield self
        finally:
            with self._owner.gate.condition:
                self._pins -= 1
                self._owner.gate.condition.notify_all()

    def close(self) -> None:
        """End the snapshot, waiting for pins; does nothing when it is closed already.

        Raises TransactionError when a pin outlasts the environment's lock timeout; the snapshot then stays open.
        """
        with self._owner.gate.condition:
            if not self._owner.gate.condition.wait_for(lambda: self._pins == 0, self._owner.lock_timeout):
                raise TransactionError(
                    f"the snapshot is still in use by {self._pins} running kernels; wait for them, then close it"
                )
            transaction, self._transaction = self._transaction, None
            if transaction is None:
                return
            transaction.abort()
            self._owner.ended(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_transaction", None) is not None:
            self.close()


class WriteTransaction(LmdbView):
    """The one write transaction of a store: reads see its own changes, others see them after :meth:`commit`.

    A context manager that commits on a clean exit and rolls back on an error. It belongs to the thread that began it.
    Any error that LMDB reports while changing something ends the transaction: nothing of it remains.
    """

    writable = True

    def __init__(
        self, owner: TransactionOwner, transaction: lmdb.Transaction[memoryview], handles: Mapping[str, Handle]
    ) -> None:
        super().__init__(owner, transaction, handles)
        self._thread = threading.get_ident()
        self._created: dict[str, Handle] = {}
        self._changes = 0

    def put(self, table: str, key: bytes, value: bytes | bytearray | memoryview) -> None:
        """Store ``value`` under ``key``, in place of what was there; every buffer given before goes stale.

        Raises InputError for a key of 0 or more than 511 bytes and StoreFullError when there is no space.
        """
        transaction = self._current()
        handle = self._handles.get(table)
        try:
            if handle is None:
                handle = self._owner.create_table(transaction, table)
                self._created[table] = handle
                self._handles = {**self._handles, table: handle}
            self._changes += 1
            transaction.put(key, value, db=handle)
        except lmdb.Error as error:
            raise self._failed(error, f"table {table}") from error

    def delete(self, table: str, key: bytes) -> bool:
        """Remove ``key``; False when it was not there. Every buffer given before goes stale."""
        transaction = self._current()
        handle = self._handles.get(table)
        if handle is None:
            return False
        self._changes += 1
        try:
            return transaction.delete(key, db=handle)
        except lmdb.Error as error:
            raise self._failed(error, f"table {table}") from error

    def clear(self, table: str) -> None:
        """Remove every record of ``table``."""
        transaction = self._current()
        handle = self._handles.get(table)
        if handle is None:
            return
        self._changes += 1
        try:
            transaction.drop(handle, delete=False)
        except lmdb.Error as error:
            raise self._failed(error, f"table {table}") from error

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """As :meth:`LmdbView.scan`; raises TransactionError when something is changed before the scan is over.

        LMDB may skip or repeat records then, and the buffers given are stale: make a list of the scan first.
        """
        changes = self._changes
        for record in super().scan(table, start, stop, reverse=reverse):
            yield record
            if self._changes != changes:
                raise TransactionError(f"table {table}: changed during a scan; read the scan into a list first")

    def commit(self) -> None:
        """Make the changes durable and visible.

        Raises StoreFullError when there is no space; the transaction is rolled back then.
        """
        transaction = self._current()
        try:
            transaction.commit()
        except lmdb.Error as error:
            raise self._failed(error, "commit") from error
        self._owner.committed(self._created)
        self._end()

    def abort(self) -> None:
        """Roll everything back; does nothing when the transaction is over."""
        if self._transaction is not None:
            self._current().abort()
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._transaction is not None:
            self.commit()
        else:
            self.abort()

    def __del__(self) -> None:
        if getattr(self, "_transaction", None) is not None and self._thread == threading.get_ident():
            self.abort()

    def _current(self) -> lmdb.Transaction[memoryview]:
        if threading.get_ident() != self._thread:
            raise TransactionError("a write transaction belongs to the thread that began it; this is another thread")
        return super()._current()

    def _failed(self, error: lmdb.Error, place: str) -> KvstoreError:
        if not isinstance(error, lmdb.BadValsizeError):
            self.abort()
        return self._owner.map_full() if isinstance(error, lmdb.MapFullError) else translate(error, place)

    def _end(self) -> None:
        self._transaction = None
        self._owner.ended(self)
