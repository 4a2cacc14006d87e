"""Views: all storage structures read through a snapshot, or read and write through a write transaction.

In: a table's name and raw keys (1 to 511 bytes). Out: raw values as memoryviews into LMDB's map, without a copy. A
buffer of a snapshot is valid as long as the snapshot, a buffer of a write transaction until its next put or delete. A
table that was never written to is empty. Changes in the change buffer (:mod:`.change_buffer`) are read as if they were
in their tables. Errors of LMDB are raised as errors of ``kvstore.errors``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import lmdb

from ..errors import ClosedError, CorruptionError, TransactionError
from . import engine_tables
from .change_buffer import (
    UNCHANGED,
    Chain,
    ChangeBuffer,
    ChangeBufferReader,
    TableBuffer,
    depends_on_stored,
    resolve_value,
    salvage_segments,
)
from .dense_copy import write_dense_copy
from .lmdb_errors import MAX_KEY_BYTES, READ_ERRORS, MapFull, translate_error
from .mapped_pages import PageReleaser
from .page_transaction import PageTransaction, VerifiedTransaction
from .transaction_gate import TransactionGate
from .transaction_thread import TransactionThread

if TYPE_CHECKING:
    from lmdb import _Database as Handle

Record = tuple[bytes, memoryview]

#: A suffix above any suffix of a key.
_ABOVE = b"\xff" * (MAX_KEY_BYTES + 1)
#: The number of records of a scan after which the amount read is reported.
_NOTED = 256
#: The changes of a table that is not buffered.
_NO_CHANGES = TableBuffer()


class View(Protocol):
    """One consistent state of the store, for reading."""

    @property
    def writable(self) -> bool:
        """True if this is a :class:`WriteView`."""
        ...

    def get(self, table: str, key: bytes) -> memoryview | None:
        """Return the value of ``key``, or None."""
        ...

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[memoryview | None]:
        """Return the value of each key, or None."""
        ...

    def scan_prefixes(self, table: str, prefixes: Sequence[bytes]) -> list[Record]:
        """Return the records with keys that begin with one of the prefixes, prefix by prefix in the order given."""
        ...

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """Yield the records with ``start <= key < stop``, in key order, or in the opposite order with ``reverse``."""
        ...

    def last_many(self, table: str, ranges: Sequence[tuple[bytes, bytes]]) -> list[Record | None]:
        """Return for each range the last record with ``start <= key < stop``, or None."""
        ...

    def count(self, table: str) -> int:
        """Return the number of records in ``table``."""
        ...


class WriteView(View, Protocol):
    """A view whose changes become visible to others all at once, or never."""

    def put(self, table: str, key: bytes, value: bytes | bytearray | memoryview) -> None:
        """Store ``value`` under ``key``, replacing any old value."""
        ...

    def delete(self, table: str, key: bytes) -> bool:
        """Remove ``key``; return False if it did not exist."""
        ...

    def change_many(self, table: str, changes: Mapping[bytes, bytes | None]) -> None:
        """Store many values, replacing old ones; None removes a key."""
        ...


class TransactionOwner(Protocol):
    """The interface of the environment that a view uses."""

    path: Path
    lock_timeout: float

    @property
    def gate(self) -> TransactionGate:
        """The count of this process's open transactions."""
        ...

    @property
    def buffer_reader(self) -> ChangeBufferReader:
        """The part of the change buffer that this process has read."""
        ...

    @property
    def page_bound(self) -> PageReleaser:
        """Counts how much of the file views read."""
        ...

    @property
    def transaction_thread(self) -> TransactionThread:
        """The thread that begins and ends write transactions."""
        ...

    @property
    def used_bytes(self) -> int:
        """Bytes of the file up to the last page that was ever used."""
        ...

    def change_of(self, transaction: PageTransaction | VerifiedTransaction) -> int:
        """Return the number of the change that ``transaction`` sees or makes."""
        ...

    def create_table(self, transaction: lmdb.Transaction[memoryview], table: str) -> Handle:
        """Create ``table`` within a write transaction."""
        ...

    def ended(self, view: LmdbView) -> None:
        """Handle the end of the transaction of ``view``."""
        ...

    def committed(self, created: Mapping[str, Handle]) -> None:
        """Handle a successful commit that has added these tables."""
        ...

    def map_full(self) -> MapFull:
        """Handle a full map, and return the error to raise, which names the remedy."""
        ...


class LmdbView:
    """The read operations shared by snapshots and write transactions."""

    writable = False
    #: Descriptor of the writer lock, shared by a reader that cannot register itself with LMDB.
    shared_lock: int | None = None
    #: True while its owner counts it as open.
    counted = True

    def __init__(self, owner: TransactionOwner, transaction: PageTransaction | VerifiedTransaction) -> None:
        self._owner = owner
        self._transaction: Any = transaction
        self._known_buffer: ChangeBuffer | None = None
        self._buffered = owner.buffer_reader.buffered
        #: The number of the change this view sees. It grows by one with every commit, and is the same for equal states.
        self.change = owner.change_of(transaction)

    def get(self, table: str, key: bytes) -> memoryview | None:
        """Return the value of ``key``, or None; raise InputError for a key of 0 or more than 511 bytes."""
        transaction = self._current()
        try:
            if self._buffered[table]:
                chain = self._buffer().get_table(table).get_chain(key)
                if chain != UNCHANGED:
                    return resolve_value(table, key, chain, self._in_table(table, key, chain))
            handle = transaction.table(table)
            return None if handle is None else transaction.get(key, db=handle)
        except READ_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[memoryview | None]:
        """Return the value of each key, or None; raise the errors of :meth:`get`."""
        transaction = self._current()
        self._owner.page_bound.note_reads(len(keys), looked_up=not self.writable)
        handle = self._find_table(table)
        changes = self._buffer().get_table(table) if self._buffered[table] else _NO_CHANGES
        newer, older = changes.newer, changes.older
        found: list[memoryview | None] = []
        try:
            # A cursor finds keys near its position without descending the tree again.
            with nullcontext() if handle is None else transaction.cursor(db=handle) as cursor:
                for key in keys:
                    if key in newer or key in older:
                        change = newer[key] if key in newer else older[key]
                        stored = cursor.get(key) if cursor is not None and depends_on_stored(change) else None
                        found.append(resolve_value(table, key, change, stored))
                    else:
                        found.append(None if cursor is None else cursor.get(key))
        except READ_ERRORS as error:
            raise translate_error(error, f"table {table}") from error
        return found

    def scan_prefixes(self, table: str, prefixes: Sequence[bytes]) -> list[Record]:
        """Return the records with keys that begin with one of the prefixes, prefix by prefix in the order given."""
        transaction = self._current()
        self._owner.page_bound.note_reads(len(prefixes), looked_up=not self.writable)
        handle = self._find_table(table)
        found: list[list[Record]] = []
        try:
            if handle is None:
                found = [[] for _ in prefixes]
            else:
                with transaction.cursor(db=handle) as cursor:
                    for prefix in prefixes:
                        found.append([])
                        more = cursor.set_range(prefix)
                        while more and (key := bytes(cursor.key())).startswith(prefix):
                            found[-1].append((key, cursor.value()))
                            more = cursor.next()
        except READ_ERRORS as error:
            raise translate_error(error, f"table {table}") from error
        if self._buffered[table]:
            for place, prefix in enumerate(prefixes):
                keys = self._buffer().get_table(table).iter_keys(prefix, prefix + _ABOVE)
                found[place] = list(self._buffer().overlay(table, keys, iter(found[place])))
        return list(itertools.chain.from_iterable(found))

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """Return the records with ``start <= key < stop``, in key order, or in the opposite order with ``reverse``."""
        stored = self._stored(table, start, stop, reverse)
        if not self._buffered[table]:
            return stored
        keys = self._buffer().get_table(table).iter_keys(start, stop, reverse=reverse)
        return self._buffer().overlay(table, keys, stored, reverse=reverse)

    def last_many(self, table: str, ranges: Sequence[tuple[bytes, bytes]]) -> list[Record | None]:
        """Return for each range the last record with ``start <= key < stop``, or None."""
        transaction = self._current()
        self._owner.page_bound.note_reads(len(ranges), looked_up=not self.writable)
        handle = self._find_table(table)
        changes = self._buffer().get_table(table) if self._buffered[table] else _NO_CHANGES
        # Records after the last changed one are unchanged.
        lasts = changes.find_last_keys(ranges)
        found: list[Record | None] = [None] * len(ranges)
        changed: list[tuple[int, bytes]] = []
        try:
            with nullcontext() if handle is None else transaction.cursor(db=handle) as cursor:
                for place, ((start, stop), last) in enumerate(zip(ranges, lasts, strict=True)):
                    record: Record | None = None
                    if cursor is not None and (cursor.prev() if cursor.set_range(stop) else cursor.last()):
                        record = bytes(cursor.key()), cursor.value()
                    if record is not None and (record[0] >= start if last is None else record[0] > last):
                        found[place] = record
                    elif last is not None:
                        changed.append((place, last))
            for place, key in changed:
                chain = changes.get_chain(key)
                needed = handle is not None and depends_on_stored(chain)
                value = resolve_value(table, key, chain, transaction.get(key, db=handle) if needed else None)
                if value is None:
                    found[place] = next(self.scan(table, ranges[place][0], key, reverse=True), None)
                else:
                    found[place] = key, value
        except READ_ERRORS as error:
            raise translate_error(error, f"table {table}") from error
        return found

    def count(self, table: str) -> int:
        """Return the number of records in ``table``."""
        transaction = self._current()
        handle = self._find_table(table)
        try:
            count = 0 if handle is None else transaction.count(handle)
            if not self._buffered[table]:
                return count
            return count + self._buffer().count_added(
                table, lambda key: handle is not None and transaction.get(key, db=handle) is not None
            )
        except READ_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def tables(self) -> dict[str, dict[str, int]]:
        """Return LMDB's page and record counts of every table by name, including the change buffer, for statistics."""
        transaction = self._current()
        return {name: transaction.statistics(table) for name, table in sorted(transaction.tables().items())}

    @property
    def closed(self) -> bool:
        """True if the view is closed."""
        return self._transaction is None

    def _buffer(self) -> ChangeBuffer:
        """Return the change buffer as this view sees it."""
        if self._known_buffer is None:
            self._known_buffer = self._owner.buffer_reader.read_buffer(self._segments)
        return self._known_buffer

    def _in_table(self, table: str, key: bytes, chain: Chain) -> memoryview | None:
        """Return the value in the table itself, or None if ``chain`` does not depend on it."""
        handle = self._find_table(table)
        if handle is None or not depends_on_stored(chain):
            return None
        try:
            value: memoryview | None = self._current().get(key, db=handle)
            return value
        except READ_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def _segments(self, start: bytes) -> Iterator[Record]:
        """Return the stored segments of the change buffer from a key on."""
        return self._stored(engine_tables.RECENT, start, None, False)

    def _stored(self, table: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Record]:
        """Return the records as :meth:`scan` does, without the change buffer."""
        transaction = self._current()
        handle = self._find_table(table)
        if handle is None:
            return iter(())
        return self._records(transaction, handle, table, start, stop, reverse)

    def _records(
        self,
        transaction: Any,
        handle: Any,
        table: str,
        start: bytes,
        stop: bytes | None,
        reverse: bool,
    ) -> Iterator[Record]:
        bound = self._owner.page_bound
        bound.note_reads(1)
        try:
            with transaction.cursor(db=handle) as cursor:
                if reverse:
                    found = cursor.prev() if stop is not None and cursor.set_range(stop) else cursor.last()
                    for number, (key, value) in enumerate(cursor.iterprev() if found else (), 1):
                        record = bytes(key)
                        if record < start:
                            return
                        yield record, value
                        if not number % _NOTED:
                            bound.note_reads(_NOTED)
                elif cursor.set_range(start) if start else cursor.first():
                    for number, (key, value) in enumerate(cursor.iternext(), 1):
                        record = bytes(key)
                        if stop is not None and record >= stop:
                            return
                        yield record, value
                        if not number % _NOTED:
                            bound.note_reads(_NOTED)
        except READ_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def _find_table(self, table: str) -> Any:
        """Return a table as the transaction knows it, or None."""
        transaction = self._current()
        try:
            return transaction.table(table)
        except READ_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def _current(self) -> Any:
        if self._transaction is None:
            raise ClosedError(
                "this snapshot or transaction is closed, or belongs to the parent of a fork; open another"
            )
        return self._transaction

    def _after_fork(self) -> None:
        # Drop it without ending it: ending it would free the parent's entry in the reader table.
        self._transaction = None
        self.counted = False


class ReadTransaction(LmdbView):
    """A read transaction: the store as it was when the snapshot was taken, unaffected by later commits.

    A context manager. Any thread may use it, one at a time. Drop every buffer it returned before closing it: the bytes
    of a buffer may change afterwards, and are gone once the environment is closed.
    """

    _pins = 0

    def pass_over_damage(self) -> list[str]:
        """Skip damaged pages and damaged parts of the change buffer from now on.

        Returns a sentence for each commit whose changes are lost. Later changes of a lost record are lost with it.
        """
        self._current().passes_damage = True
        self._known_buffer, lost = salvage_segments(self._segments)
        buffer = self._known_buffer
        for table in buffer.tables:
            changes = buffer.get_table(table)
            for key in list(changes.iter_keys()):
                chain = changes.get_chain(key)
                try:
                    resolve_value(table, key, chain, self._in_table(table, key, chain))
                except CorruptionError:
                    changes.update({key: None})
        return lost

    def find_damaged_pages(self, table: str) -> list[str]:
        """Return a text for every damaged branch and leaf page of a table; the records in or below it are lost."""
        return self._current().find_damage(table)  # type: ignore[no-any-return]

    def copy_to(self, target: Path, most_bytes: int) -> None:
        """Write every record to a new file with full pages; raise the errors of
        :func:`.dense_copy.write_dense_copy`."""
        write_dense_copy(self._current(), target, most_bytes)

    @contextmanager
    def pin(self) -> Iterator[Self]:
        """Keep the snapshot open while a kernel reads its buffers without the GIL."""
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
        """End the snapshot, after waiting for pins; does nothing if it is closed already.

        Raises TransactionError if a pin outlasts the environment's lock timeout; the snapshot then stays open.
        """
        with self._owner.gate.condition:
            if not self._owner.gate.condition.wait_for(lambda: self._pins == 0, self._owner.lock_timeout):
                raise TransactionError(
                    f"the snapshot is still in use by {self._pins} running kernels; wait for them, then close it"
                )
            transaction, self._transaction = self._transaction, None
            if transaction is None:
                return
            try:
                transaction.abort()
            finally:  # an interrupt is raised after the abort has ended
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
        elif self.counted and hasattr(self, "_owner"):  # interrupted before its end was reported
            self._owner.ended(self)
