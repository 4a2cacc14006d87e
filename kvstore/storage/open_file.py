"""The open data file shared by all threads of a process: transactions, tables, and exclusive operations. The *gate*
counts the open transactions of this process. The *map* is the file mapped into memory. A *handle* is LMDB's number of
an open table. The *open lock* prevents replacement of the file.

In: a store's directory. Out: LMDB transactions, each with the handles of the tables it may use; a larger map; a
compacted file. The map changes its size, and the file its path or its mode, only while no transaction of this process
is open. One transaction at a time opens a table's handle (the writer's, if the file is open for writing), and only
later ones use it. LMDB errors are raised as errors of ``kvstore.errors``.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import lmdb

from ..errors import ClosedError, KvstoreError, StoreFullError, StoreNotFoundError, TransactionError
from .change_buffer import ChangeBufferReader
from .data_file import CompactReport, DataFile, FileStatistics, OvertakenError
from .lmdb_errors import MapFull, translate_error, translate_system_errors
from .location import DATA_FILE, flush
from .locks import FileIdentity, SharedOpenLock, WriterLock, get_file_identity, release_lock
from .mapped_pages import PageReleaser
from .readers_table import MAX_READERS
from .records import PAGE_SIZE
from .transaction_thread import TransactionThread

if TYPE_CHECKING:
    from lmdb import _Database as Handle


class CountedTransaction(Protocol):
    """A view with an LMDB transaction, which is open as long as the view is counted among the open transactions.

    ``shared_lock`` is the descriptor of the writer lock, shared by a reader that cannot register itself with LMDB.
    """

    is_counted: bool
    writable: bool
    shared_lock: int | None


class TransactionGate:
    """The count of the open transactions on one file, for all threads of the process. LMDB's file may be remapped or
    closed only while none is open: reading a buffer afterwards would crash the process.
    """

    def __init__(self) -> None:
        """Create a gate without open transactions; transactions are allowed to begin."""
        #: The lock of the condition. Callers use the lock itself, because Ctrl-C inside the methods of a Condition,
        #: which are written in Python, can leave it locked.
        self.lock = threading.RLock()
        self.condition = threading.Condition(self.lock)
        #: The number of open transactions.
        self.num_open = 0
        #: True while transactions are excluded.
        self.is_exclusive = False

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Run a block that begins a transaction, and count the transaction as open unless the block raises an error.

        Waits first while transactions are excluded.
        """
        with self.lock:
            self.wait_for_entry()
            yield
            self.num_open += 1

    def wait_for_entry(self) -> None:
        """Wait while transactions are excluded; the caller must hold ``lock``."""
        while self.is_exclusive:
            self.condition.wait()

    def leave(self) -> None:
        """Count a transaction as ended, and wake the threads that wait until none is open."""
        with self.lock:
            self.num_open -= 1
            self.condition.notify_all()

    def leave_if_counted(self, transaction: CountedTransaction) -> bool:
        """Count a transaction as ended unless that was done already; return True if it was still counted as open."""
        with self.lock:
            if not transaction.is_counted:
                return False
            self.num_open -= 1
            # No interrupt can come between this line and the previous one.
            transaction.is_counted = False
            self.condition.notify_all()
            return True

    @contextmanager
    def exclude_transactions(self, wait: float, error_type: type[KvstoreError], purpose: str) -> Iterator[None]:
        """Run the block while no transaction is open; raise ``error_type`` if any stays open for ``wait`` seconds.

        ``purpose`` is the beginning of the error message.
        """
        with self.lock:
            self.condition.wait_for(lambda: not self.is_exclusive)
            self.is_exclusive = True
            try:
                if not self.condition.wait_for(lambda: self.num_open == 0, wait):
                    raise error_type(
                        f"{purpose}, but snapshots, transactions or unfinished dumps of this process "
                        f"({self.num_open}) are still open after {wait:g} s; close them and try again"
                    )
                yield
            finally:
                self.is_exclusive = False
                self.condition.notify_all()


class OpenFile:
    """One open data file (``data``), until it is closed or the process forks. ``lock_timeout`` is the maximum time in
    seconds to wait for other threads and processes; a ``wait`` parameter replaces it. ``handles`` has LMDB's handles of
    the tables.

    ``readonly`` refuses write transactions. With ``opens_readonly``, only the file is read-only at first, because
    another process writes. Small commits buffer their changes to ``buffered_tables`` (:mod:`.change_buffer`).
    """

    def __init__(
        self,
        directory: Path,
        writer_lock: WriterLock,
        *,
        readonly: bool,
        opens_readonly: bool,
        durability: str,
        map_size: int,
        max_bytes: int | None,
        lock_timeout: float,
        buffered_tables: Set[str],
    ) -> None:
        """Lock and open the data file in ``directory``.

        ``readonly`` refuses write transactions. With ``opens_readonly``, the file is opened read-only, and reopened
        before the first write transaction, because another process is writing. ``map_size`` is the initial size of the
        memory map, and ``max_bytes`` the maximum size of the file (None: no limit). Changes to ``buffered_tables`` go
        to the change buffer.
        """
        self.path = directory
        self.readonly = readonly
        #: The reason why a store opened for writing is read-only, or None.
        self.readonly_reason: str | None = None
        #: The maximum size of the data file in bytes, or None.
        self.max_bytes = max_bytes
        self.lock_timeout = lock_timeout
        #: The count of this process's open transactions.
        self.gate = TransactionGate()
        #: The reader of the change buffer, which caches the segments that this process has read.
        self.buffer_reader = ChangeBufferReader(buffered_tables)
        self._buffered_tables = buffered_tables
        #: The thread that begins and ends write transactions.
        self.transaction_thread = TransactionThread()
        #: LMDB's handles of the known tables, by name.
        self.handles: Mapping[str, Handle] = {}
        #: The reason why the file can no longer be used, or None.
        self.unusable_reason: str | None = None
        #: True if the map was too small for the last transaction.
        self.must_grow = False
        #: The open views.
        self._views: weakref.WeakSet[Any] = weakref.WeakSet()
        self._tables_lock = threading.RLock()
        self._writer_lock = writer_lock
        self._open_lock = SharedOpenLock(directory / DATA_FILE)
        try:
            self._open_lock.acquire(lock_timeout)
            self.data = DataFile(
                directory,
                self._open_lock.get_descriptor,
                readonly=opens_readonly,
                durability=durability,
                map_size=map_size,
            )
            #: Counts the records that views read, and releases pages; an open view keeps the map unchanged.
            self.page_releaser = PageReleaser(self.data.release_pages)
        except BaseException:
            self._open_lock.release()
            raise

    # -- Use and close

    def require_open(self) -> None:
        """Raise ClosedError if the file can no longer be used."""
        if self.unusable_reason is not None:
            raise ClosedError(f"{self.path}: {self.unusable_reason}")

    def require_no_write_transaction(self) -> None:
        """Raise TransactionError if this thread has a write transaction open, and can therefore begin no other."""
        self._writer_lock.require_not_held()

    @property
    def closed(self) -> bool:
        """True if the file can no longer be used: closed, or inherited through a fork."""
        return self.unusable_reason is not None

    @property
    def identity(self) -> FileIdentity | None:
        """Device and inode of the data file; None if it is closed."""
        return self._open_lock.identity

    def verify_path(self) -> None:
        """Raise StoreNotFoundError if the data file is no longer at its path: writes would be lost."""
        with self.gate.lock:  # another thread that compacts the store replaces the file
            self.require_open()
            with translate_system_errors(str(self.path)):
                current_identity, opened_identity = get_file_identity(self.path / DATA_FILE), self._open_lock.identity
        if current_identity is None:
            raise StoreNotFoundError(
                f"{self.path}: the store was deleted, moved or unmounted while it was open, and nothing was changed; "
                "close it, and open it where it is now"
            )
        if current_identity != opened_identity:
            raise StoreNotFoundError(
                f"{self.path}: another store has replaced the one that is open here, and nothing was changed; "
                "close this one, and open the path again"
            )

    @contextmanager
    def hold_open(self) -> Iterator[DataFile]:
        """Keep the file open and its memory map unchanged within the block, and yield the file."""
        with self.gate.enter():
            self.require_open()
        try:
            yield self.data
        finally:
            self.gate.leave()

    def statistics(self) -> FileStatistics:
        """Return the current sizes of the file, the number of its last commit and the number of open snapshots."""
        with self.gate.lock:  # keeps the file open and its map unchanged
            self.require_open()
            return self.data.statistics()

    def release_pages(self) -> None:
        """Release the memory that holds pages of the file, which can all be read again."""
        with self.hold_open() as data:
            data.release_pages()

    def _close_file(self, wait: float) -> None:
        """Close the file once no transaction is open; after ``wait`` seconds, raise TransactionError and stay open."""
        with self.gate.exclude_transactions(wait, TransactionError, f"{self.path}: the store was to be closed"):
            if self.unusable_reason is None:  # another thread may have closed it meanwhile
                self._shut_down("it was closed; open it again")

    def _reset_after_fork(self) -> None:
        """Make the object unusable in a forked child, which can then open the store itself."""
        # The child keeps LMDB's environment until it exits. To close it, LMDB's binding would wait for the operations
        # that other threads ran during the fork, and for the transaction of a writer. In the child, they never end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.data.environment))
        self.unusable_reason = "it was opened before a fork; open it again in this process"
        self.gate = TransactionGate()
        self.handles = {}
        self.transaction_thread = TransactionThread()
        self._open_lock.reset_after_fork()
        del self.data, self.page_releaser

    def _shut_down(self, reason: str) -> None:
        """Close the file and release its lock; later uses raise ClosedError with this reason."""
        self.unusable_reason = reason
        self.handles = {}
        self.data.close()
        self._open_lock.release()

    # -- Transactions and tables

    def begin_transaction(
        self, *, write: bool, view: CountedTransaction | None = None
    ) -> tuple[lmdb.Transaction[memoryview], Mapping[str, Handle]]:
        """Begin a transaction, and count it as open; adopt the size of the map if another process has grown it.

        ``view`` will own the transaction; it is marked as counted, so that it decrements the gate when it ends, even
        after an interruption. With None, the caller must decrement the gate.

        Returns the transaction, and the table handles that it can use, which were opened before it began. If an earlier
        write failed inside LMDB, the file is reopened first. Raises ClosedError, TransactionError if too many snapshots
        are open, and the kvstore errors for LMDB errors.
        """
        has_cleared_readers = has_reopened = False
        while True:
            try:
                # :meth:`TransactionGate.enter` and :meth:`require_open` are inlined, because every query begins a
                # transaction.
                gate = self.gate
                with gate.lock:
                    if gate.is_exclusive:
                        gate.wait_for_entry()
                    if self.unusable_reason is not None:
                        self.require_open()
                    transaction = self.data.environment.begin(write=write, buffers=True)
                    gate.num_open += 1
                    if view is not None:  # no interrupt can come between the previous line and this one
                        view.is_counted = True
                    return transaction, self.handles
            except lmdb.MapResizedError:
                self._resize_map(0, self.lock_timeout)  # 0: adopt the size that another process has set
            except lmdb.PanicError as error:
                # A meta page could not be written, and LMDB begins nothing more; the last commit is complete on the
                # disk.
                if has_reopened:
                    raise translate_error(error, str(self.path)) from error
                self._reopen()
                has_reopened = True
            except lmdb.ReadersFullError as error:
                if has_cleared_readers:
                    raise TransactionError(
                        f"{self.path}: {MAX_READERS} snapshots are open across all processes, which is the "
                        "maximum; close some"
                    ) from error
                with self.hold_open() as data:
                    data.environment.reader_check()
                has_cleared_readers = True
            except lmdb.Error as error:
                raise translate_error(error, str(self.path)) from error

    def open_tables(self, known_handles: Mapping[str, Handle] | None = None) -> None:
        """Open the tables that other processes have created.

        Does nothing if ``known_handles`` are given and no longer current: another thread has opened the tables. If the
        file is open for writing, this takes the writer lock, because only handles opened by a write transaction are
        permanent. That transaction writes nothing.
        """
        with self._tables_lock if self.data.readonly else self._writer_lock.ensure_held(self.lock_timeout):
            if known_handles is not None and self.handles is not known_handles:
                return
            while True:
                transaction, _ = self.begin_transaction(write=not self.data.readonly)
                try:
                    opening_transaction = None if self.data.readonly else transaction
                    # The id of a write transaction is the id of the commit it makes, one above the last.
                    last_change = transaction.id() if self.data.readonly else transaction.id() - 1
                    names = self.data.list_table_names(self.data.open_pages(transaction, last_change))
                    handles = {name: self.data.open_table(os.fsencode(name), opening_transaction) for name in names}
                    transaction.commit()
                    break
                except OvertakenError:
                    pass  # overtaken by another process; its commit is read instead
                finally:
                    transaction.abort()  # has no effect after the commit
                    self.gate.leave()
            self.handles = handles

    def register_commit(self, created_handles: Mapping[str, Handle]) -> None:
        """Register the tables that a commit has created; extend the file if it ends before its last used page."""
        if created_handles:
            self.handles = {**self.handles, **created_handles}
        self.data.extend_to_used_pages()

    def release_view(self, view: CountedTransaction) -> None:
        """Count a view's transaction as ended, and release its locks; a second call does nothing."""
        if not self.gate.leave_if_counted(view):
            return
        if view.shared_lock is not None:
            release_lock(view.shared_lock)
        if view.writable:
            self._writer_lock.release()

    # -- Operations without transactions

    def _open_for_writing(self) -> None:
        """Reopen a read-only file for writing; this thread must hold the writer lock.

        Raises TransactionError if a transaction of this process stays open for longer than the lock timeout.
        """
        purpose = f"{self.path}: another process wrote while this one opened the store, so it must be opened again"
        with self.gate.exclude_transactions(self.lock_timeout, TransactionError, purpose):
            self.require_open()
            self._open_lock.ensure_reader_table(self.lock_timeout)
            self.data.reopen_for_writing()
            self.handles = {}

    def grow_map(self, wait: float) -> None:
        """Double the map, up to ``max_bytes``, once no transaction is open; wait for that at most ``wait`` seconds.

        Raises StoreFullError if the map cannot grow.
        """
        max_map_size = self._compute_max_map_size()
        if self.data.map_size >= max_map_size:
            raise self.make_map_full_error()
        self.must_grow = False
        self._resize_map(min(2 * self.data.map_size, max_map_size), wait)

    def make_map_full_error(self) -> MapFull:
        """Return the error for a transaction that did not fit into the map.

        Unless the map has its maximum size, this also makes it grow before the next transaction.
        """
        if self.data.map_size >= self._compute_max_map_size():
            return MapFull(
                f"{self.path}: the store has reached max_bytes={self.max_bytes}, and nothing was changed; open it with "
                "a larger max_bytes (deleting also needs free space, which COMPACT reclaims)"
            )
        self.must_grow = True
        return MapFull(
            f"{self.path}: the memory map of {self.data.map_size} bytes was too small for this transaction, and "
            "nothing was changed; run it again, and the map will grow"
        )

    def _compact_file(self, wait: float) -> CompactReport:
        """Replace the file with a copy without free pages; this thread must hold the writer lock.

        Returns the sizes before and after. Raises TransactionError if another process has the file open or a
        transaction of this one stays open for ``wait`` seconds, and the errors of :meth:`DataFile.create_successor`;
        the file is then unchanged.
        """
        with self.gate.exclude_transactions(wait, TransactionError, f"{self.path}: COMPACT replaces the data file"):
            self.require_open()
            size_before = self.data.size
            with self._open_lock.hold_exclusively(), self.data.create_successor(self.data.write_compact_copy) as copy:
                self._replace_data_file(copy)
            return CompactReport(size_before, self.data.size)

    def exclude_other_processes(self) -> AbstractContextManager[None]:
        """Return a context manager that keeps other processes from opening the file; for use in a write transaction.

        Raises TransactionError if another process has it open.
        """
        return self._open_lock.hold_exclusively()

    def _rewrite_file(self, write: Callable[[Path], None], wait: float) -> None:
        """Replace the data file with a file that ``write`` creates; this thread must hold the writer lock.

        A repair does this. Raises TransactionError if another process has the file open, or a transaction of this
        process has not ended after ``wait`` seconds. ``write`` may open snapshots, and must close them.
        """
        with (
            self._open_lock.hold_exclusively(),
            self.data.create_successor(write) as copy,
            self.gate.exclude_transactions(wait, TransactionError, f"{self.path}: a repair replaces the data file"),
        ):
            self.require_open()
            self._replace_data_file(copy)

    def _replace_data_file(self, copy: Path) -> None:
        """Rename ``copy`` to the data file and open it, under the exclusive lock."""
        try:
            self._open_lock.replace(copy)
            flush(self.path)
            self.data.open_successor()
            self.handles = {}
        except BaseException:
            if not copy.exists():  # it has been renamed already, so the open file must not be used
                self._shut_down("its data file was replaced, but the new one could not be opened; open it again")
            raise

    def _compute_max_map_size(self) -> int:
        """Return the maximum size of the map: ``max_bytes`` in whole pages, or ``sys.maxsize`` if it is not set."""
        return sys.maxsize if self.max_bytes is None else self.max_bytes // PAGE_SIZE * PAGE_SIZE

    def _reopen(self) -> None:
        """Reopen the file after a write that LMDB could not finish.

        Raises TransactionError if a transaction of this process stays open for longer than the lock timeout.
        """
        purpose = f"{self.path}: a write failed, so the store must be opened again"
        with self.gate.exclude_transactions(self.lock_timeout, TransactionError, purpose):
            self.require_open()
            self.data.reopen()
            self.handles = {}

    def _resize_map(self, size: int, wait: float) -> None:
        """Resize the map to ``size`` bytes (0: the size that another process has grown it to).

        Raises StoreFullError if a transaction is still open after ``wait`` seconds, or if the system refuses. The
        second case reopens LMDB, so its table handles are dropped.
        """
        with self.gate.exclude_transactions(wait, StoreFullError, f"{self.path}: the memory map must grow"):
            self.require_open()
            environment_before = self.data.environment
            try:
                self.data.resize(size)
            finally:
                if self.data.environment is not environment_before:
                    self.handles = {}
