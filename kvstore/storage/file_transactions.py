"""The transactions of one open store: snapshots and the single writer.

In: an open data file and the lock of the writer. On disk: what transactions commit. Out: views (see ``view.py``).
Every transaction of the process is counted, so that the environment can wait for its end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import lmdb

from ..errors import ReadOnlyError, StoreFullError
from .file_lock import release_lock
from .lmdb_errors import MapFull
from .open_file import OpenFile
from .page_transaction import PageTransaction
from .view import ReadTransaction
from .write_transaction import WriteTransaction

if TYPE_CHECKING:
    from lmdb import _Database as Handle

    #: An LMDB transaction and the handles of the tables that it can use.
    _LmdbTransaction = tuple[lmdb.Transaction[memoryview], Mapping[str, Handle]]

Result = TypeVar("Result")


class FileTransactions(OpenFile):
    """The transactions on the data file of an open store. Any thread may use them."""

    def refuse_changes(self, reason: str) -> None:
        """Make the environment read-only from now on, for a reason found in the store."""
        self.readonly, self.readonly_reason = True, f"{self.path}: {reason}"

    # -- Transactions

    def snapshot(self) -> ReadTransaction:
        """Begin a read transaction on the last commit.

        Raises ClosedError after the environment was closed, and in the child of a fork.
        """
        while True:
            if self.unusable_reason is not None:
                self.require_open()
            shared_lock = None
            if not self.data.registers_readers:
                shared_lock = self._writer_lock.acquire_shared(self.lock_timeout)
            reading: PageTransaction | None = None
            try:
                transaction, _ = self.begin_transaction(write=False)
                try:
                    reading = self.data.begin_reading(transaction)
                finally:
                    if reading is None:  # later commits have overtaken it, or an error is raised
                        transaction.abort()
                        self.gate.leave()
            finally:
                if reading is None and shared_lock is not None:
                    release_lock(shared_lock)
            if reading is not None:
                snapshot = ReadTransaction(self, reading)
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
            with self.hold_open_briefly() as data:
                must_grow = self.must_grow or data.used_bytes > data.map_size // 2
            if must_grow:
                with contextlib.suppress(StoreFullError):  # early, while no transaction must wait for it
                    self.grow_map(0)
            while True:
                transaction, handles = self.transaction_thread.run(
                    partial(self.begin_transaction, write=True), self._undo_begin
                )
                if transaction.stat()["entries"] == len(handles):
                    break
                self.transaction_thread.run(transaction.abort)
                self.gate.leave()
                self.open_tables(handles)
            try:
                view = WriteTransaction(self, self.data.begin_writing(transaction, handles))
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
                self.grow_map(self.lock_timeout)

    def _undo_begin(self, transaction_and_handles: _LmdbTransaction) -> None:
        """Abort a write transaction whose caller was interrupted while it began."""
        transaction, _ = transaction_and_handles
        transaction.abort()
        self.gate.leave()

    def _acquire_writer_lock(self, timeout: float | None = None) -> None:
        """Acquire the writer lock, and open the file for writing if it is open read-only."""
        self.require_open()
        if self.readonly:
            reason = self.readonly_reason or f"{self.path}: was opened read-only; open it for writing to change it"
            raise ReadOnlyError(reason)
        self.verify_path()
        self._writer_lock.acquire(self.lock_timeout if timeout is None else timeout)
        try:
            self.require_open()
            if self.data.readonly:
                self._open_for_writing()
        except BaseException:
            self._writer_lock.release()
            raise

    def _exclude_writers(self) -> contextlib.AbstractContextManager[None]:
        """Hold the writer lock within the block; a read-only file only shares it."""
        self.require_open()
        if self.data.readonly:
            return self._writer_lock.hold_shared(self.lock_timeout)
        return self._writer_lock.hold(self.lock_timeout)

    def _after_fork(self) -> None:
        """Make the environment and its views unusable in a forked child."""
        self._reset_after_fork()
        for view in list(self._views):
            view._after_fork()
