"""The transactions of one open store: snapshots and the single writer.

In: an open data file and the lock of the writer. On disk: what transactions commit. Out: views (see ``view.py``), which
return to this module when they end. Every transaction of the process is counted, so that the environment can wait for
its end.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, TypeVar

import lmdb

from ..errors import ReadOnlyError, StoreFullError
from .change_buffer import ChangeBufferReader
from .file_lock import FileIdentity, release_lock
from .lmdb_errors import MapFull
from .mapped_pages import PageReleaser
from .open_file import OpenFile
from .page_transaction import PageTransaction, VerifiedTransaction
from .transaction_gate import TransactionGate
from .transaction_thread import TransactionThread
from .view import LmdbView, ReadTransaction
from .write_transaction import WriteTransaction
from .writer_lock import WriterLock

if TYPE_CHECKING:
    from lmdb import _Database as Handle

    #: An LMDB transaction and the handles of the tables that it can use.
    _LmdbTransaction = tuple[lmdb.Transaction[memoryview], Mapping[str, Handle]]

Result = TypeVar("Result")


class FileTransactions:
    """The transactions on the data file of an open store. Any thread may use them."""

    def __init__(
        self, file: OpenFile, lock: WriterLock, *, readonly: bool, lock_timeout: float, buffered: Set[str]
    ) -> None:
        self.path = file.path
        self.readonly = readonly
        #: The reason why a store opened for writing is read-only, or None.
        self.readonly_reason: str | None = None
        self.lock_timeout = lock_timeout
        self._file = file
        self._writer_lock = lock
        self._views: weakref.WeakSet[LmdbView] = weakref.WeakSet()
        #: The thread that begins and ends write transactions.
        self.transaction_thread = TransactionThread()
        #: The reader of the change buffer.
        self.buffer_reader = ChangeBufferReader(buffered)
        self._buffered_tables = buffered
        #: Counts the records that views read, and releases pages; an open view keeps the map unchanged meanwhile.
        self.page_releaser = PageReleaser(file.release_pages)

    @property
    def closed(self) -> bool:
        """True if the environment can no longer be used: closed, or inherited through a fork."""
        return self._file.unusable_reason is not None

    @property
    def identity(self) -> FileIdentity | None:
        """Device and inode of the data file; None if it is closed."""
        return self._file.identity

    def verify_path(self) -> None:
        """Raise StoreNotFoundError if the path no longer leads to this store: it was moved, deleted or replaced."""
        self._file.verify_path()

    def require_open(self) -> None:
        """Raise ClosedError if the environment can no longer be used."""
        self._file.require_open()

    @property
    def gate(self) -> TransactionGate:
        """The count of this process's open transactions."""
        return self._file.gate

    def refuse_changes(self, reason: str) -> None:
        """Make the environment read-only from now on, for a reason found in the store."""
        self.readonly, self.readonly_reason = True, f"{self.path}: {reason}"

    # -- Transactions

    def snapshot(self) -> ReadTransaction:
        """Begin a read transaction on the last commit.

        Raises ClosedError after :meth:`close` or in the child of a fork.
        """
        while True:
            self._file.require_open()
            shared_lock = None
            if not self._file.data.registers_readers:
                shared_lock = self._writer_lock.acquire_shared(self.lock_timeout)
            reading: PageTransaction | None = None
            try:
                transaction, _ = self._file.begin_transaction(self.lock_timeout, write=False)
                try:
                    reading = self._file.data.begin_reading(transaction)
                finally:
                    if reading is None:  # later commits have overtaken it, or an error is raised
                        transaction.abort()
                        self.gate.leave()
            finally:
                if reading is None and shared_lock is not None:
                    release_lock(shared_lock)
            if reading is not None:
                snapshot = ReadTransaction(self, reading, self._file.data.get_change_number(reading))
                self._views.add(snapshot)
                snapshot.shared_lock = shared_lock
                return snapshot

    def write(self, timeout: float | None = None) -> WriteTransaction:
        """Begin the store's only write transaction, waiting at most ``timeout`` seconds (default: the lock timeout).

        Raises LockTimeoutError naming the holder, TransactionError if this thread already has one open, ReadOnlyError
        for an environment opened read-only, and ClosedError.
        """
        self._acquire_writer_lock(timeout)
        try:
            if self._file.must_grow or self._is_map_half_full():
                with contextlib.suppress(StoreFullError):  # early, while no transaction must wait for it
                    self._file.grow_map(0)
            while True:
                transaction, handles = self.transaction_thread.run(self._begin_writing, self._undo_begin)
                if transaction.stat()["entries"] == len(handles):
                    break
                self.transaction_thread.run(transaction.abort)
                self.gate.leave()
                self._file.open_tables(handles, self.lock_timeout)
            try:
                pages = self._file.data.find_pages(transaction, transaction.id() - 1)
                self._file.data.verify_for_writing(pages)
                verified = VerifiedTransaction(transaction, pages, handles)
                view = WriteTransaction(self, verified, self._file.data.get_change_number(verified))
            except BaseException:
                self.transaction_thread.run(transaction.abort)
                self.gate.leave()
                raise
            self._views.add(view)
            return view
        except BaseException:
            self._writer_lock.release()
            raise

    def write_with_growth(self, function: Callable[[WriteTransaction], Result], timeout: float | None = None) -> Result:
        """Run ``function`` in a write transaction and commit; if the map is full, grow it and run ``function`` again.

        ``function`` must be able to run more than once: each run begins from the last commit. Raises StoreFullError if
        ``max_bytes``, the system or an open snapshot prevents growth, and the errors of ``function`` and :meth:`write`.
        """
        while True:
            try:
                with self.write(timeout) as transaction:
                    return function(transaction)
            except MapFull:
                self._file.grow_map(self.lock_timeout)

    def exclude_other_processes(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from opening the store within the block, inside a write transaction.

        Raises TransactionError if another process has it open.
        """
        return self._file.exclude_other_processes()

    # -- Used by views

    @property
    def used_bytes(self) -> int:
        """Bytes of the file up to the last page that was ever used, as of the last commit."""
        return self._file.data.used_bytes

    def create_table(self, transaction: lmdb.Transaction[memoryview], table: str) -> Handle:
        """Create ``table`` within a write transaction."""
        return self._file.data.create_table(transaction, table)

    def handle_commit(self, created: Mapping[str, Handle]) -> None:
        """Register the tables that a commit has created."""
        self._file.adopt_commit(created)

    def handle_end(self, view: LmdbView) -> None:
        """Release the locks of a view whose transaction has ended; does nothing if that was done already."""
        if not self.gate.leave_if_counted(view):
            return
        self._views.discard(view)
        if view.shared_lock is not None:
            release_lock(view.shared_lock)
        if view.writable:
            self._writer_lock.release()

    def make_map_full_error(self) -> MapFull:
        """Return the error for a transaction that did not fit into the map; the map grows before the next one."""
        return self._file.make_map_full_error()

    # -- Locks

    def _begin_writing(self) -> _LmdbTransaction:
        """Begin an LMDB write transaction, and return it with the handles of the tables that it can use."""
        return self._file.begin_transaction(self.lock_timeout, write=True)

    def _undo_begin(self, transaction_and_handles: _LmdbTransaction) -> None:
        """Abort a write transaction whose caller was interrupted while it began."""
        transaction, _ = transaction_and_handles
        transaction.abort()
        self.gate.leave()

    def _is_map_half_full(self) -> bool:
        """True if the used pages take more than half of the map."""
        with self._file.hold_open_briefly() as data:
            return data.used_bytes > data.map_size // 2

    def _acquire_writer_lock(self, timeout: float | None = None) -> None:
        """Acquire the writer lock, and open the file for writing if it is open read-only."""
        self._file.require_open()
        if self.readonly:
            reason = self.readonly_reason or f"{self.path}: was opened read-only; open it for writing to change it"
            raise ReadOnlyError(reason)
        self._file.verify_path()
        self._writer_lock.acquire(self.lock_timeout if timeout is None else timeout)
        try:
            self._file.require_open()
            if self._file.data.readonly:
                self._file.open_for_writing(self.lock_timeout)
        except BaseException:
            self._writer_lock.release()
            raise

    def _exclude_writers(self) -> contextlib.AbstractContextManager[None]:
        """Hold the writer lock within the block; a read-only file only shares it."""
        self._file.require_open()
        if self._file.data.readonly:
            return self._writer_lock.hold_shared(self.lock_timeout)
        return self._writer_lock.hold(self.lock_timeout)

    def _after_fork(self) -> None:
        """Make the environment and its views unusable in a forked child."""
        self.transaction_thread = TransactionThread()
        self._file.reset_after_fork()
        for view in list(self._views):
            view._after_fork()
