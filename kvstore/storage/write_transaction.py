"""The write transaction of a store, and the destination of its changes. Changes of *buffered* tables go to the change
buffer: each adds a *piece* to the record's *chain*, a new value or a patch (difference). A commit stores the new pieces
as a *segment*, or merges all segments into the tables.

In: values under keys of tables. On disk: nothing before the commit. A commit writes changes of buffered tables as
segments of the change buffer (:mod:`.change_buffer`), and all others to their tables. A large transaction also writes
records appended to a table directly, because they fill whole pages. Out: the same as for other views, including its own
changes. LMDB errors are raised as errors of ``kvstore.errors``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import lmdb

from kvstore_cext.pages import PageError
from kvstore_cext.patches import apply_chains, record_changes

from ..errors import KvstoreError, TransactionError
from . import change_buffer, engine_tables
from .change_buffer import MAX_SEGMENT_BYTES, ChangeBuffer, TableChanges, count_bytes, make_chain_error, pack_segments
from .lmdb_errors import MAX_KEY_BYTES, STORAGE_ERRORS, make_key_error, translate_error
from .mapped_pages import VerifiedTransaction, WritableTable
from .view import LmdbView, Record

if TYPE_CHECKING:
    from lmdb import _Database as Handle

    from .open_file import OpenFile

Bytes = bytes | bytearray | memoryview

#: Bytes of free map that hardly any transaction fills.
_MIN_FREE_BYTES = 8 << 30
#: The number of records that are merged at once.
_MERGE_BATCH = 1024


class WriteTransaction(LmdbView):
    """The single write transaction of a store: its reads see its changes, others see them after :meth:`commit`. If it
    is too large for one segment, it *appends directly*: new records beyond the last key of a table go to that table.
    The *page releaser* frees the memory of mapped pages after many accesses.

    A context manager that commits on a clean exit and rolls back on an error. It belongs to the thread that began it.
    Any LMDB error during a change rolls the transaction back and ends it.
    """

    writable = True
    #: True once the view is complete. The transaction of an incomplete one is ended by the code that began it.
    _is_complete = False

    def __init__(self, owner: OpenFile, transaction: VerifiedTransaction) -> None:
        """Wrap a transaction on ``owner``, the open data file; only the current thread may use it."""
        super().__init__(owner, transaction)
        self._thread = get_ident()  # only this thread may use the transaction
        self._created_tables: dict[str, Handle] = {}
        self._num_changes = 0  # so that a scan can detect a change while it runs
        #: The buffered changes of this transaction, by table.
        self._own_changes: dict[str, TableChanges] = {}
        #: The size of these changes in bytes.
        self._own_bytes = 0
        #: False once the transaction is too large for the change buffer, and writes to the tables directly.
        self._is_buffering = True
        #: True once this transaction is large, and writes records beyond the last key of a table to the table itself.
        self._appends_directly = False
        #: The last key of each table before this transaction wrote to the table itself.
        self._last_keys: dict[str, bytes] = {}
        #: The change buffer as the last commit left it.
        self._committed_buffer = ChangeBuffer()
        used_bytes = self._used_bytes = owner.data.used_bytes
        #: The size of the change buffer in bytes at which it is merged into the tables.
        self._max_buffer_bytes = min(
            max(used_bytes // change_buffer.STORE_DIVISOR, change_buffer.MIN_BYTES), change_buffer.MAX_BYTES
        )
        #: True if the free part of the map is so small that the transaction may have to run again in a larger map.
        self.may_outgrow_map = owner.data.map_size - used_bytes < _MIN_FREE_BYTES
        self._is_complete = True  # from here on, ``__del__`` rolls the transaction back if nothing else ends it

    @property
    def is_large(self) -> bool:
        """True if this transaction has made more changes than fit into one segment of the change buffer.

        From then on it writes appended records, or even all records, to their tables instead of the buffer.
        """
        return not self._is_buffering or self._appends_directly

    def put(self, table: str, key: bytes, value: Bytes) -> None:
        """Store ``value`` under ``key``, replacing any old value; this invalidates every buffer returned before.

        Raises InputError for a key of 0 or more than 511 bytes and StoreFullError if there is no space.
        """
        if self._is_buffering and self._buffered_tables[table] and not self._is_append(table, key):
            self._buffer_changes(table, {key: bytes(value)})
        else:
            self._write_record(table, key, value)

    def delete(self, table: str, key: bytes) -> bool:
        """Remove ``key``; return False if it did not exist. This invalidates every buffer returned before."""
        if self._is_buffering and self._buffered_tables[table]:
            exists = self.get(table, key) is not None
            if exists:
                self._buffer_changes(table, {key: None})
            return exists
        return self._delete_record(table, key)

    def change_many(self, table: str, changes: Mapping[bytes, Bytes | None]) -> None:
        """Store many values, replacing old ones; None removes a key.

        This invalidates every buffer returned before. Raises InputError for a key of 0 or more than 511 bytes and
        StoreFullError if there is no space.
        """
        if self._is_buffering and self._buffered_tables[table]:
            self._buffer_changes(table, changes)
        else:
            self._write_records(table, changes)

    def clear(self, table: str) -> None:
        """Remove every record of ``table``. If the table is buffered, first merge the whole buffer into all tables.

        The buffer then has no changes of the table. Clearing the table of the change buffer itself drops the buffered
        changes of all tables. An LMDB error rolls the transaction back.
        """
        if table == engine_tables.RECENT:
            self._cached_buffer = self._committed_buffer = ChangeBuffer()
            self._own_changes = {}
        elif self._buffered_tables[table]:
            self.merge_buffer()
        transaction = self._get_transaction()
        stored_table = self._find_table(table)
        if stored_table is None:
            return
        self._num_changes += 1
        try:
            transaction.clear(stored_table)
        except STORAGE_ERRORS as error:
            raise self._abort_and_translate(error, f"table {table}") from error

    def expect_changes(self, share: float) -> None:
        """Write later changes directly to their tables if about this ``share`` of the store will change, which is too
        much for the change buffer.

        Otherwise, each of these changes would be buffered as a patch, and then applied when the buffer is merged.
        """
        if self._is_buffering and share * self._used_bytes > self._max_buffer_bytes:
            self.merge_buffer()

    def merge_buffer(self) -> None:
        """Write the changes in the change buffer to their tables, empty it, and write later changes directly.

        Raises CorruptionError if a change does not fit its record. An LMDB error rolls the transaction back.
        """
        buffer = self._get_buffer()
        for table in buffer.tables:
            changes = buffer.get_table(table)
            keys = changes.iter_keys()
            while batch := list(islice(keys, _MERGE_BATCH)):
                try:
                    read_stored = self._make_table_reader(table)
                    values = apply_chains(batch, changes.newer_chains, changes.older_chains, read_stored)
                except ValueError as error:
                    raise make_chain_error(table, error) from error
                except STORAGE_ERRORS as error:
                    raise self._abort_and_translate(error, f"table {table}") from error
                self._write_records(table, dict(zip(batch, values, strict=True)))
        for key in buffer.segment_keys:
            self._delete_record(engine_tables.RECENT, key)
        self._cached_buffer = self._committed_buffer = ChangeBuffer()
        self._own_changes, self._is_buffering = {}, False

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """Yield the records with ``start <= key < stop``, in key order, or in the opposite order with ``reverse``.

        Raises TransactionError if anything is changed before the scan ends. LMDB could then skip or repeat records, and
        the returned buffers are invalid: read the scan into a list first.
        """
        num_changes = self._num_changes
        for record in super().scan(table, start, stop, reverse=reverse):
            yield record
            if self._num_changes != num_changes:
                raise TransactionError(f"table {table}: changed during a scan; read the scan into a list first")

    def commit(self) -> None:
        """Make the changes durable and visible. Buffered changes become segments.

        If the stored segments are many or large, all of them are merged into the tables instead. Raises StoreFullError
        if there is no space; the transaction is then rolled back.
        """
        buffer = self._cached_buffer
        if buffer is not None and self._own_changes:
            if len(buffer.segment_keys) >= change_buffer.MAX_SEGMENTS or buffer.bytes >= self._max_buffer_bytes:
                self.merge_buffer()
            else:
                for segment in pack_segments(self._own_changes):
                    self._write_record(engine_tables.RECENT, buffer.register_segment(segment), segment)
        self._get_transaction()  # raises an error in another thread, or after the end
        try:
            self._owner.transaction_thread.run(self._commit_and_end)
        except STORAGE_ERRORS as error:
            raise self._abort_and_translate(error, "commit") from error
        except BaseException:  # such as an interruption; does nothing if it came after the commit
            self.abort()
            raise

    def abort(self) -> None:
        """Roll the transaction back; does nothing if it has ended.

        Any thread may call it while the transaction's own thread is not using the transaction.
        """
        if self._transaction is None:
            return
        try:
            self._owner.transaction_thread.run(self._abort_and_end)
        except BaseException:
            if self._transaction is not None:  # an interruption that came before the rollback
                self._owner.transaction_thread.run(self._abort_and_end)
            raise

    def __enter__(self) -> Self:
        """Return the transaction itself, which has begun already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back if the block raised an error."""
        if kind is None and self._transaction is not None:
            self.commit()
        else:
            self.abort()

    def __del__(self) -> None:
        """Roll back a transaction that was dropped without a commit or rollback."""
        if self._is_complete and self._transaction is not None:
            self.abort()

    def _get_transaction(self) -> Any:
        """Return the transaction; raise TransactionError in a thread that did not begin it, ClosedError if it ended."""
        if get_ident() != self._thread:
            raise TransactionError("a write transaction belongs to the thread that began it; this is another thread")
        return self._transaction or super()._get_transaction()

    def _buffer_changes(self, table: str, changes: Mapping[bytes, Bytes | None]) -> None:
        """Add changes of a table to the change buffer, which collects them until they are merged into the tables.

        A change is the new value of a key, or None to remove it. Once the changes of this transaction exceed a segment,
        new keys beyond the last one of a table are written to the table itself. Once they exceed the whole buffer, it
        is merged. Raises InputError for an invalid key, and CorruptionError if a buffered change does not fit its
        record. An LMDB error rolls the transaction back.
        """
        self._get_transaction()  # raises an error in another thread, or after the end
        if not changes:
            return
        if b"" in changes or max(map(len, changes)) > MAX_KEY_BYTES:
            raise make_key_error(f"table {table}")
        if self._appends_directly:
            changes = self._write_appends(table, changes)
            if not changes:
                return
        buffer = self._get_private_buffer()
        self._num_changes += 1
        committed_buffer = self._committed_buffer.get_table(table)
        own_changes = self._own_changes.setdefault(table, {})
        chains: TableChanges = {}
        read_stored = self._make_table_reader(table)
        self._owner.page_releaser.record_accesses(len(changes))
        try:
            # A change is buffered as the new value or, if that is shorter, as a patch: the difference from the last
            # value. ``own_changes`` gets that piece; ``chains`` gets all pieces that the buffer then has for the key.
            self._own_bytes += record_changes(
                changes,
                committed_buffer.newer_chains,
                committed_buffer.older_chains,
                read_stored,
                change_buffer.MAX_PATCHES,
                own_changes,
                chains,
            )
        except ValueError as error:
            raise make_chain_error(table, error) from error
        except STORAGE_ERRORS as error:
            raise self._abort_and_translate(error, f"table {table}") from error
        buffer.get_table(table).update(chains)
        if self._own_bytes > MAX_SEGMENT_BYTES and not self._appends_directly:
            self._begin_appending()
        if self._own_bytes > self._max_buffer_bytes:
            self.merge_buffer()

    def _get_private_buffer(self) -> ChangeBuffer:
        """Return the change buffer to add changes to: before the first change, a copy of the one that views share."""
        buffer = self._get_buffer()
        if not self._own_changes:
            self._committed_buffer, buffer = buffer, buffer.copy()
            self._cached_buffer = buffer
        return buffer

    def _begin_appending(self) -> None:
        """Move buffered records beyond the last key of a table to the table, and write later ones to it directly.

        Called once, when the transaction becomes too large for one segment of the change buffer. These records are at
        the end of a table and not scattered, so buffering them saves nothing.
        """
        buffer = self._get_buffer()
        self._appends_directly, self._own_bytes = True, 0
        for table, own_changes in self._own_changes.items():
            last_key = self._find_last_key(table)
            committed_changes = self._committed_buffer.get_table(table)
            appended_keys = [key for key in own_changes if key > last_key and key not in committed_changes]
            buffered_changes = buffer.get_table(table)
            # The table itself has no values under these keys, which are above its last one.
            values = apply_chains(appended_keys, buffered_changes.newer_chains, {}, lambda key: None)
            buffered_changes.discard(appended_keys)
            for key in appended_keys:
                del own_changes[key]
            new_records = {key: value for key, value in zip(appended_keys, values, strict=True) if value is not None}
            self._write_records(table, new_records)
            self._own_bytes += count_bytes(own_changes)

    def _write_appends(self, table: str, changes: Mapping[bytes, Bytes | None]) -> Mapping[bytes, Bytes | None]:
        """Write the changes beyond the last key of a table directly to it; return the other changes, to be buffered.

        Keys that already have buffered changes are among the others.
        """
        last_key, buffered_changes = self._find_last_key(table), self._get_buffer().get_table(table)
        appends = {key: value for key, value in changes.items() if key > last_key and key not in buffered_changes}
        if not appends:
            return changes
        self._write_records(table, appends)
        return {key: value for key, value in changes.items() if key not in appends}

    def _is_append(self, table: str, key: bytes) -> bool:
        """True if a record is written to its table directly, because its key is beyond the table's last key.

        Only a large transaction does this, and not for a record with buffered changes.
        """
        if not self._appends_directly or len(key) > MAX_KEY_BYTES:
            return False
        return key > self._find_last_key(table) and key not in self._get_buffer().get_table(table)

    def _find_last_key(self, table: str) -> bytes:
        """Return the last key that a table had when this method was first called for it; empty for an empty table."""
        if table not in self._last_keys:
            last_key, _ = next(self._scan_stored(table, b"", None, reverse=True), (b"", None))
            self._last_keys[table] = last_key
        return self._last_keys[table]

    def _make_table_reader(self, table: str) -> Callable[[bytes], memoryview | None]:
        """Return a function that maps a key to its value in the table itself, without the change buffer, or to None."""
        stored_table = self._find_table(table)
        if stored_table is None:
            return lambda key: None
        reader: Callable[[bytes], memoryview | None] = self._get_transaction().make_reader(stored_table)
        return reader

    def _write_records(self, table: str, changes: Mapping[bytes, Bytes | None]) -> None:
        """Store many values directly in a table, without the change buffer; None removes a key.

        Any LMDB error except an invalid key rolls the transaction back.
        """
        if not changes:
            return
        removed_keys = [key for key, value in changes.items() if value is None]
        new_records = sorted(record for record in changes.items() if record[1] is not None)
        transaction = self._get_transaction()
        self._owner.page_releaser.record_accesses(len(changes))  # changing records reads their pages first
        try:
            stored_table = self._ensure_table(table) if new_records else self._find_table(table)
            if stored_table is None:
                return
            self._num_changes += 1
            if removed_keys:
                transaction.delete_many(removed_keys, stored_table)
            if new_records:
                transaction.put_many(new_records, stored_table)
        except STORAGE_ERRORS as error:
            raise self._abort_and_translate(error, f"table {table}") from error

    def _ensure_table(self, table: str) -> WritableTable:
        """Return a table, and create it if it is missing; the commit registers created tables with the data file."""
        transaction = self._get_transaction()
        stored_table: WritableTable | None = transaction.find_table(table)
        if stored_table is None:
            handle = self._owner.data.environment.open_db(table.encode(), txn=transaction.lmdb, create=True)
            self._created_tables[table] = handle
            stored_table = transaction.add_table(table, handle)
        return stored_table

    def _write_record(self, table: str, key: bytes, value: Bytes) -> None:
        """Store a value directly in a table, without the change buffer.

        Any LMDB error except an invalid key rolls the transaction back.
        """
        transaction = self._get_transaction()
        self._owner.page_releaser.record_accesses(1)
        try:
            stored_table = self._ensure_table(table)
            self._num_changes += 1
            transaction.put(key, value, table=stored_table)
        except STORAGE_ERRORS as error:
            raise self._abort_and_translate(error, f"table {table}") from error

    def _delete_record(self, table: str, key: bytes) -> bool:
        """Remove a key directly from a table, without the change buffer; return False if it is missing there.

        Any LMDB error except an invalid key rolls the transaction back.
        """
        transaction = self._get_transaction()
        stored_table = self._find_table(table)
        if stored_table is None:
            return False
        self._owner.page_releaser.record_accesses(1)
        self._num_changes += 1
        try:
            was_present: bool = transaction.delete(key, table=stored_table)
            return was_present
        except STORAGE_ERRORS as error:
            raise self._abort_and_translate(error, f"table {table}") from error

    def _abort_and_translate(self, error: lmdb.Error | PageError, location: str) -> KvstoreError:
        """Roll the transaction back, except after an invalid key, and return the kvstore error to raise."""
        if not isinstance(error, lmdb.BadValsizeError):
            self.abort()
        if isinstance(error, lmdb.MapFullError):
            return self._owner.make_map_full_error()
        return translate_error(error, f"{self._owner.path}, {location}")

    def _commit_and_end(self) -> None:
        """Commit, make the changes known to later transactions, and end this one; after an LMDB error, it stays open.

        Runs in the transaction thread, so an interruption (Ctrl-C) cannot leave its locks held.
        """
        self._transaction.commit()
        try:
            self._owner.register_commit(self._created_tables)  # so that later transactions find the created tables
            if self._cached_buffer is not None:
                self._owner.buffer_reader.buffer = self._cached_buffer  # so that its segments are not read again
        finally:
            self._end()

    def _abort_and_end(self) -> None:
        """Roll back and end the transaction; runs in the transaction thread, like :meth:`_commit_and_end`."""
        try:
            self._transaction.abort()
        finally:
            self._end()

    def _end(self) -> None:
        """Close the view, and report the end of the transaction to the data file, which releases its locks."""
        self._transaction = None
        self._owner.release_view(self)
