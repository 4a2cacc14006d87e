"""Views: all storage structures read through a snapshot, or read and write through a write transaction. The changes of
*buffered* tables are kept in the change buffer at first. The *chain* of a record has its changes there: a new value, or
patches to apply to the value in the table; None: removed.

In: a table's name and raw keys (1 to 511 bytes). Out: raw values as memoryviews into LMDB's map, without a copy. A
buffer of a snapshot is valid as long as the snapshot, a buffer of a write transaction until its next put or delete. A
table that was never written to is empty. Changes in the change buffer (:mod:`.change_buffer`) are read as if they were
in their tables. LMDB errors are raised as errors of ``kvstore.errors``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from kvstore_cext.patches import apply_chains

from ..errors import ClosedError, CorruptionError, TransactionError
from ..process.closed_on_exit import ClosedOnExit
from . import engine_tables
from .change_buffer import (
    UNCHANGED,
    ChangeBuffer,
    TableBuffer,
    make_chain_error,
    needs_stored_value,
    resolve_value,
    salvage_segments,
)
from .dense_copy import write_dense_copy
from .lmdb_errors import ABOVE_ALL_KEYS, STORAGE_ERRORS, translate_error
from .mapped_pages import PageTransaction, VerifiedTransaction

if TYPE_CHECKING:
    from .open_file import OpenFile

Record = tuple[bytes, memoryview]

#: The number of records of a scan after which the amount read is reported.
_REPORT_INTERVAL = 256
#: The changes of a table that is not buffered.
_NO_CHANGES = TableBuffer()


def _read_nothing(key: bytes) -> None:
    """Return None for every key, because the table does not exist yet."""


class View(Protocol):
    """One consistent state of the store, for reading."""

    @property
    def writable(self) -> bool:
        """True if this is a :class:`WriteView`: a write transaction, whose data can be changed."""
        ...

    def get(self, table: str, key: bytes) -> memoryview | None:
        """Return the value of ``key``, or None if the table lacks it."""
        ...

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[memoryview | None]:
        """Return the value of each key, None for a missing key."""
        ...

    def scan_prefixes(self, table: str, prefixes: Sequence[bytes]) -> list[Record]:
        """Return the records with keys that begin with one of the prefixes, prefix by prefix in the order given."""
        ...

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """Yield the records with ``start <= key < stop``, in key order, or in the opposite order with ``reverse``."""
        ...

    def get_last_many(self, table: str, ranges: Sequence[tuple[bytes, bytes]]) -> list[Record | None]:
        """Return the last record of each range (``start <= key < stop``), or None for an empty range."""
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

    def change_many(self, table: str, changes: Mapping[bytes, bytes | bytearray | None]) -> None:
        """Store many values, replacing old ones; None removes a key."""
        ...

    def expect_changes(self, share: float) -> None:
        """Prepare for changes of about this ``share`` of the store."""
        ...


class ViewReader:
    """The base class of all classes that read tables through one view."""

    def __init__(self, view: View) -> None:
        """Create a reader of tables in ``view``, a snapshot or a write transaction."""
        self._view = view


class ViewWriter(ViewReader):
    """The base class of all classes that also write to tables.

    In a list of base classes, it comes before the class that reads the same tables.
    """

    def __init__(self, view: WriteView) -> None:
        """Create a reader and writer of tables in ``view``, a write transaction."""
        super().__init__(view)
        self._write_view = view


class LmdbView:
    """The read operations shared by snapshots and write transactions. A record is read from its table, and then its
    changes in the change buffer are applied to it. Accesses are reported to the *page releaser*, which frees the memory
    of mapped pages.
    """

    writable = False
    #: Descriptor of the writer lock, shared by a reader that cannot register itself with LMDB.
    shared_lock: int | None = None
    #: True while its owner counts it among the open transactions.
    is_counted = True

    def __init__(self, owner: OpenFile, transaction: VerifiedTransaction | None = None) -> None:
        """Create a view of the store of ``owner`` (the open data file) that reads through ``transaction``."""
        self._owner = owner
        self._transaction: Any = transaction
        self._cached_buffer: ChangeBuffer | None = None  # the change buffer as this view sees it; None: not read yet
        self._buffered_tables = owner.buffer_reader.buffered_tables
        #: The number of the last commit that this view sees; equal for equal states.
        self.change = 0 if transaction is None else transaction.change

    def get(self, table: str, key: bytes) -> memoryview | None:
        """Return the value of ``key``, or None if it is missing; raise InputError for a key of 0 or over 511 bytes."""
        transaction = self._get_transaction()
        try:
            is_buffered = self._buffered_tables[table]
            chain = self._get_buffer().get_table(table).get_chain(key) if is_buffered else UNCHANGED
            stored_table = transaction.find_table(table) if needs_stored_value(chain) else None
            stored_value = None if stored_table is None else transaction.get(key, table=stored_table)
        except STORAGE_ERRORS as error:
            raise translate_error(error, f"table {table}") from error
        return stored_value if chain == UNCHANGED else resolve_value(table, key, chain, stored_value)

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[memoryview | None]:
        """Return the value of each key, None for a missing key.

        A key must have 1 to 511 bytes; unlike :meth:`get`, this method need not raise an error for others.
        """
        transaction = self._get_transaction()
        self._record_lookups(len(keys))
        changes = self._get_buffer().get_table(table) if self._buffered_tables[table] else _NO_CHANGES
        try:
            stored_table = transaction.find_table(table)
            if not changes:
                return [None] * len(keys) if stored_table is None else transaction.get_many(keys, table=stored_table)
            # A cursor finds keys near its position without descending the tree again.
            with nullcontext() if stored_table is None else transaction.cursor(table=stored_table) as cursor:
                read_stored = _read_nothing if cursor is None else cursor.get
                return apply_chains(keys, changes.newer_chains, changes.older_chains, read_stored)
        except ValueError as error:
            raise make_chain_error(table, error) from error
        except STORAGE_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def scan_prefixes(self, table: str, prefixes: Sequence[bytes]) -> list[Record]:
        """Return the records with keys that begin with one of the prefixes, prefix by prefix in the order given.

        Raises CorruptionError for damage.
        """
        transaction = self._get_transaction()
        self._record_lookups(len(prefixes))
        records_by_prefix: list[list[Record]] = [[] for _ in prefixes]
        try:
            stored_table = transaction.find_table(table)
            if stored_table is not None:
                records_by_prefix = transaction.scan_prefixes(prefixes, table=stored_table)
        except STORAGE_ERRORS as error:
            raise translate_error(error, f"table {table}") from error
        if self._buffered_tables[table]:
            buffer = self._get_buffer()
            changes = buffer.get_table(table)
            if changes:
                for index, prefix in enumerate(prefixes):
                    keys = changes.iter_keys(prefix, prefix + ABOVE_ALL_KEYS)
                    records_by_prefix[index] = list(buffer.merge_changes(table, keys, iter(records_by_prefix[index])))
        return list(itertools.chain.from_iterable(records_by_prefix))

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """Return the records with ``start <= key < stop``, in key order, or in the opposite order with ``reverse``."""
        stored_records = self._scan_stored(table, start, stop, reverse)
        if not self._buffered_tables[table]:
            return stored_records
        buffer = self._get_buffer()
        changes = buffer.get_table(table)
        if not changes:
            return stored_records
        keys = changes.iter_keys(start, stop, reverse=reverse)
        return buffer.merge_changes(table, keys, stored_records, reverse=reverse)

    def get_last_many(self, table: str, ranges: Sequence[tuple[bytes, bytes]]) -> list[Record | None]:
        """Return the last record of each range (``start <= key < stop``), or None for an empty range.

        Raises CorruptionError for damage.
        """
        transaction = self._get_transaction()
        self._record_lookups(len(ranges))
        changes = self._get_buffer().get_table(table) if self._buffered_tables[table] else _NO_CHANGES
        try:
            stored_table = transaction.find_table(table)
            last_records: list[Record | None] = (
                [None] * len(ranges) if stored_table is None else transaction.find_last(ranges, table=stored_table)
            )
            last_changed_keys = changes.find_last_keys(ranges)
            stored_values: dict[bytes, memoryview] = {}
            changed_keys: dict[int, bytes] = {}  # by index of the range
            for index, (changed_key, last_record) in enumerate(zip(last_changed_keys, last_records, strict=True)):
                if changed_key is None:
                    continue
                if last_record is not None:
                    stored_key, stored_value = last_record
                    if stored_key > changed_key:  # a record after the last changed one is unchanged
                        continue
                    if stored_key == changed_key:
                        stored_values[changed_key] = stored_value
                changed_keys[index] = changed_key
            # ``stored_values`` is enough for these keys: each is at or after the last stored key of its range, so the
            # table has a value only for an equal key.
            values = apply_chains(changed_keys.values(), changes.newer_chains, changes.older_chains, stored_values.get)
            for (index, changed_key), value in zip(changed_keys.items(), values, strict=True):
                if value is None:  # removed, so an earlier record is the last
                    start, _ = ranges[index]
                    last_records[index] = next(self.scan(table, start, changed_key, reverse=True), None)
                else:
                    last_records[index] = changed_key, value
        except ValueError as error:
            raise make_chain_error(table, error) from error
        except STORAGE_ERRORS as error:
            raise translate_error(error, f"table {table}") from error
        return last_records

    def count(self, table: str) -> int:
        """Return the number of records in ``table`` with its buffered changes; raise CorruptionError for damage."""
        transaction = self._get_transaction()
        try:
            stored_table = transaction.find_table(table)
            count = 0 if stored_table is None else transaction.count(stored_table)
            if not self._buffered_tables[table]:
                return count
            return count + self._get_buffer().count_added(
                table, lambda key: stored_table is not None and transaction.get(key, table=stored_table) is not None
            )
        except STORAGE_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def get_table_statistics(self) -> dict[str, dict[str, int]]:
        """Return LMDB's page and record counts of every table by name; the change buffer is a separate table."""
        transaction = self._get_transaction()
        return {name: transaction.get_statistics(table) for name, table in sorted(transaction.get_tables().items())}

    @property
    def closed(self) -> bool:
        """True if the view is closed."""
        return self._transaction is None

    def _record_lookups(self, num_records: int) -> None:
        """Record lookups of records, and release the pages of the file if too many of them are in memory.

        A snapshot may read the same pages again, so they are released later than those of a write transaction.
        """
        self._owner.page_releaser.record_accesses(num_records, is_lookup=not self.writable)

    def _get_buffer(self) -> ChangeBuffer:
        """Return the change buffer (changes not yet in their tables) as this view sees it; read it on first use."""
        if self._cached_buffer is None:
            scan_segments = partial(self._scan_stored, engine_tables.RECENT)  # segments: stored batches of changes
            self._cached_buffer = self._owner.buffer_reader.read_buffer(scan_segments)
        return self._cached_buffer

    def _scan_stored(
        self, table: str, start: bytes, stop: bytes | None = None, reverse: bool = False
    ) -> Iterator[Record]:
        """Yield the records with ``start <= key < stop`` in the table itself, without the change buffer.

        They are in key order, or in descending order if ``reverse``.
        """
        transaction = self._get_transaction()
        stored_table = self._find_table(table)
        if stored_table is None:
            return iter(())
        return self._iter_records(transaction, stored_table, table, start, stop, reverse)

    def _iter_records(
        self, transaction: Any, stored_table: Any, table: str, start: bytes, stop: bytes | None, reverse: bool
    ) -> Iterator[Record]:
        """Yield the records of ``stored_table`` with ``start <= key < stop``, in descending order if ``reverse``.

        ``table`` is its name, for error messages. The number of records read is reported to the page releaser, which
        frees the memory of mapped pages after many reads. Raises CorruptionError for damage.
        """
        page_releaser = self._owner.page_releaser
        page_releaser.record_accesses(1)
        try:
            with transaction.cursor(table=stored_table) as cursor:
                if reverse:
                    has_record = cursor.prev() if stop is not None and cursor.set_range(stop) else cursor.last()
                    for num_read, (key_view, value) in enumerate(cursor.iterprev() if has_record else (), 1):
                        key = bytes(key_view)
                        if key < start:
                            return
                        yield key, value
                        if not num_read % _REPORT_INTERVAL:
                            page_releaser.record_accesses(_REPORT_INTERVAL)
                elif cursor.set_range(start) if start else cursor.first():
                    for num_read, (key_view, value) in enumerate(cursor.iternext(), 1):
                        key = bytes(key_view)
                        if stop is not None and key >= stop:
                            return
                        yield key, value
                        if not num_read % _REPORT_INTERVAL:
                            page_releaser.record_accesses(_REPORT_INTERVAL)
        except STORAGE_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def _find_table(self, table: str) -> Any:
        """Return the table with this name, to read it without the change buffer; None if it does not exist.

        Raises CorruptionError if a page that leads to it is damaged.
        """
        transaction = self._get_transaction()
        try:
            return transaction.find_table(table)
        except STORAGE_ERRORS as error:
            raise translate_error(error, f"table {table}") from error

    def _get_transaction(self) -> Any:
        """Return the open transaction; raise ClosedError if the view is closed."""
        if self._transaction is None:
            raise ClosedError(
                "this snapshot or transaction is closed, or belongs to the parent of a fork; open another"
            )
        return self._transaction

    def _invalidate_in_child(self) -> None:
        """Make the view unusable in a forked child, without ending the transaction of the parent."""
        # Drop it without ending it: ending it would free the parent's entry in the reader table.
        self._transaction = None
        self.is_counted = False


class ReadTransaction(ClosedOnExit, LmdbView):
    """A read transaction: the store as it was when the snapshot was taken, unaffected by later commits.

    A context manager. Any thread may use it, one at a time. Drop every buffer it returned before closing it: the bytes
    of a buffer may change afterwards, and are gone once the environment is closed.
    """

    is_counted = False  # until its transaction has begun
    #: The number of :meth:`hold_open` blocks that use the snapshot now.
    _num_pins = 0

    def attach(self, transaction: PageTransaction) -> None:
        """Read through ``transaction`` from now on."""
        self.change = transaction.change
        self._transaction = transaction

    def skip_damage(self) -> list[str]:
        """Skip damaged pages and damaged parts of the change buffer from now on.

        Returns a sentence for each commit whose changes are lost. A record whose buffered changes no longer fit
        its stored value is treated as removed.
        """
        self._get_transaction().skips_damage = True
        self._cached_buffer, losses = salvage_segments(partial(self._scan_stored, engine_tables.RECENT))
        buffer = self._cached_buffer
        for table in buffer.tables:
            changes = buffer.get_table(table)
            for key in list(changes.iter_keys()):
                try:
                    self.get(table, key)
                except CorruptionError:
                    changes.update({key: None})
        return losses

    def describe_damaged_pages(self, table: str) -> list[str]:
        """Return a description of each damaged branch or leaf page of a table; the records in or below it are lost."""
        return self._get_transaction().describe_damaged_pages(table)  # type: ignore[no-any-return]

    def copy_to(self, target: Path, max_bytes: int) -> None:
        """Write every record in key order to a new data file of full pages, of at most ``max_bytes`` bytes."""
        write_dense_copy(self._get_transaction(), target, max_bytes)

    @contextmanager
    def hold_open(self) -> Iterator[Self]:
        """Keep the snapshot open within the block, in which compiled code reads its buffers without the GIL."""
        with self._owner.gate.lock:
            self._get_transaction()
            self._num_pins += 1
        try:
            yield self
        finally:
            with self._owner.gate.lock:
                self._num_pins -= 1
                self._owner.gate.condition.notify_all()

    def close(self) -> None:
        """End the snapshot once no :meth:`hold_open` block uses it; does nothing if it is closed already.

        Raises TransactionError if a block outlasts the environment's lock timeout; the snapshot then stays open.
        """
        with self._owner.gate.lock:
            wait_for = self._owner.gate.condition.wait_for
            if self._num_pins and not wait_for(lambda: self._num_pins == 0, self._owner.lock_timeout):
                raise TransactionError(
                    "the snapshot is in use by another thread or by an unfinished dump(); wait for it to finish, then "
                    "close the snapshot"
                )
            transaction, self._transaction = self._transaction, None
            if transaction is None:
                return
            try:
                transaction.abort()
            finally:  # an interrupt is raised after the abort has ended
                self._owner.release_view(self)

    def __del__(self) -> None:
        """End a snapshot that was dropped without being closed."""
        # An interrupted constructor leaves an object without attributes.
        if getattr(self, "_transaction", None) is not None:
            self.close()
        elif self.is_counted and hasattr(self, "_owner"):  # :meth:`close` was interrupted before it reported the end
            self._owner.release_view(self)
