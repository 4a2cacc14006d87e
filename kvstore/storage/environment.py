"""The environment of one open store: opening, transactions, copies, compaction, closing. The *writer lock* excludes
other writers in all processes. The *gate* counts the open transactions of this process. The *map* is the file mapped
into memory; it can grow only while no transaction is open.

In: a path and options. On disk: see ``location.py``. Out: views (see ``view.py``). Every problem with a path, a file, a
lock or disk space raises an error of ``kvstore.errors`` that names it and the remedy; none of them loses data.

LMDB imposes two rules that this module enforces (``open_file.py`` enforces those of the map and the tables). Nothing of
the environment is used after a fork. Closing waits for every open snapshot, because reading a buffer afterwards would
crash the process.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import lmdb

from ..errors import CorruptionError, InputError, LockTimeoutError, ReadOnlyError, StoreFullError
from ..process.closed_on_exit import ClosedOnExit
from .data_file import CompactReport, FileStatistics
from .index_file import remove_leftovers
from .lmdb_errors import MapFull, translate_error, translate_system_errors
from .location import (
    DATA_FILE,
    READERS_FILE,
    REPAIR_DIRECTORY,
    WRITER_FILE,
    explain_hard_links,
    get_file_size,
    is_creation_needed,
    make_directory,
    resolve_data_link,
)
from .locks import WriterLock, get_file_identity, release_lock
from .new_file import create_data_file, create_store_copy
from .open_file import OpenFile
from .open_options import check_options, compute_map_size
from .partial_files import remove_directory
from .view import ReadTransaction, View, WriteView
from .write_transaction import WriteTransaction

if TYPE_CHECKING:
    from lmdb import _Database as Handle

    #: An LMDB transaction and the handles of the tables that it can use.
    _LmdbTransaction = tuple[lmdb.Transaction[memoryview], Mapping[str, Handle]]

__all__ = [
    "CompactReport",
    "Environment",
    "FileStatistics",
    "MapFull",
    "ReadTransaction",
    "View",
    "WriteTransaction",
    "WriteView",
]

Result = TypeVar("Result")

#: The environments that this process has opened, without those closed.
_environments: weakref.WeakSet[Environment] = weakref.WeakSet()


class Environment(ClosedOnExit, OpenFile):
    """One open store directory: its transactions, copies and compaction. Any thread may use it."""

    #: True if this object created the store.
    _is_new = False

    # -- Opening and closing

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        readonly: bool = False,
        create: bool = True,
        map_size: int | None = None,
        max_bytes: int | None = None,
        lock_timeout: float = 5.0,
        durability: str = "full",
        buffered_tables: Set[str] = frozenset(),
        scratch: bool = False,
    ) -> Environment:
        """Open the store at ``path``; create its directory if it is missing and ``create`` is true.

        ``map_size`` is the initial address space in bytes (default: 16 GiB, or 16 times the file if that is more, or
        what the system allows); it grows when necessary. ``max_bytes`` is the maximum size of ``data.mdb``.
        ``lock_timeout`` is the time in seconds to wait for another writer, for a COMPACT of another process, and for
        open snapshots when the map grows or the environment closes. With ``durability="relaxed"`` a commit is flushed
        without its meta page: a crash of the machine may lose the last commits, but never damages the store.
        ``buffered_tables`` are the tables with small, scattered records: small commits buffer their changes
        (:mod:`.change_buffer`). A ``scratch`` store is deleted by its creator: no write waits for the disk, and a crash
        of the machine may leave it in any condition. A data file with several hard links is opened read-only.

        Raises StoreNotFoundError, NotAStoreError, CorruptionError (the data file was truncated), StoreFullError (no
        space to begin), ReadOnlyError (no permission to write), LockTimeoutError (another process is creating or
        compacting this store), InputError.
        """
        check_options(durability, map_size, max_bytes, lock_timeout)
        lock_timeout = float(lock_timeout)  # numpy's numbers cannot be added to clocks
        with translate_system_errors(str(path)):
            directory = Path(path)
            create = create and not readonly
            is_missing = is_creation_needed(directory, create=create)
            if not is_missing:
                _require_not_open(path)
                directory = resolve_data_link(directory)
            refusal = None if is_missing or readonly else explain_hard_links(directory)
            readonly = readonly or refusal is not None
            size = compute_map_size(map_size, max_bytes, 0 if is_missing else get_file_size(directory / DATA_FILE))
            if is_missing:
                make_directory(directory)
            lock = WriterLock(directory / WRITER_FILE)
            # The writer lock is needed to create the data file, and to open the tables for writing. An existing store
            # opens without it while another process writes: it is opened read-only first, so that opening does not
            # wait.
            is_locked = not readonly and _lock_for_opening(lock, lock_timeout, is_new=is_missing)
            try:
                # Another process may have created it while this one waited for the lock.
                is_new = is_missing and not (directory / DATA_FILE).exists()
                if is_new:
                    create_data_file(directory)
                environment = cls(
                    directory,
                    lock,
                    readonly=readonly,
                    opens_readonly=not is_locked,
                    durability="none" if scratch else durability,
                    map_size=size,
                    max_bytes=max_bytes,
                    lock_timeout=lock_timeout,
                    buffered_tables=buffered_tables,
                )
                environment._is_new = is_new
                if refusal is not None:
                    environment.refuse_changes(refusal)
                _environments.add(environment)
                try:
                    environment._begin_use(is_locked=is_locked)
                except BaseException:
                    environment.close()
                    raise
                return environment
            finally:
                if is_locked:
                    lock.release()

    def _begin_use(self, *, is_locked: bool) -> None:
        """Verify the length of the file and open its tables.

        If this process holds the writer lock (``is_locked``), files that killed processes left behind are removed.
        """
        data_file = self.data
        if data_file.is_short():
            with contextlib.nullcontext() if is_locked else self._exclude_writers():
                data_file.verify_length()
        self.open_tables()
        if is_locked:
            data_file.remove_leftover_files()
            remove_leftovers(self.path)

    def close(self, timeout: float | None = None) -> None:
        """Close the environment once every snapshot and write transaction of this process has ended.

        Waits at most ``timeout`` seconds (default: the lock timeout), then raises TransactionError and stays open. Does
        nothing if it is closed already.
        """
        if not self.closed:
            self._close_file(self.lock_timeout if timeout is None else timeout)
            self.transaction_thread.stop()
            _environments.discard(self)

    def refuse_changes(self, reason: str) -> None:
        """Make the environment read-only from now on; later writes raise ReadOnlyError with ``reason``."""
        self.readonly, self.readonly_reason = True, f"{self.path}: {reason}"

    # -- Transactions

    def snapshot(self) -> ReadTransaction:
        """Begin a read transaction on the last commit.

        Raises ClosedError after the environment was closed, and in the child of a fork.
        """
        while True:
            if self.unusable_reason is not None:  # saves a call in the common case
                self.require_open()
            snapshot = ReadTransaction(self)
            transaction: lmdb.Transaction[memoryview] | None = None
            try:
                if not self.data.registers_readers:  # LMDB does not know of this reader, so keep writers out
                    snapshot.shared_lock = self._writer_lock.acquire_shared(self.lock_timeout)
                transaction, _ = self.begin_transaction(write=False, view=snapshot)
                page_transaction = self.data.wrap_read_transaction(transaction)
                if page_transaction is not None:  # None: later commits have overtaken it
                    snapshot.attach(page_transaction)
                    self._views.add(snapshot)
                    return snapshot
                self._abandon_snapshot(snapshot, transaction)
            except BaseException:  # perhaps an interruption (Ctrl-C), whose traceback keeps ``snapshot`` alive
                self._abandon_snapshot(snapshot, transaction)
                raise

    def _abandon_snapshot(self, snapshot: ReadTransaction, transaction: lmdb.Transaction[memoryview] | None) -> None:
        """End a snapshot that is not returned to a caller; ``transaction`` is its LMDB transaction, if known."""
        if transaction is not None:
            transaction.abort()
        if snapshot.is_counted:
            self.release_view(snapshot)
        elif snapshot.shared_lock is not None:  # the transaction did not begin
            release_lock(snapshot.shared_lock)
            snapshot.shared_lock = None

    def write(self, timeout: float | None = None) -> WriteTransaction:
        """Begin the store's only write transaction, waiting at most ``timeout`` seconds (default: the lock timeout).

        Raises LockTimeoutError, which names the holder of the lock; TransactionError if this thread has a write
        transaction open; ReadOnlyError if the environment is read-only; and ClosedError if it is closed.
        """
        # Filled in the transaction thread, so that an interruption (Ctrl-C) cannot lose a transaction that has begun.
        begun_transactions: list[_LmdbTransaction] = []
        view: WriteTransaction | None = None
        was_held = self._writer_lock.is_held  # by this thread; then it cannot be acquired
        try:
            self._acquire_writer_lock(timeout)
            with self.gate.lock:  # keeps the file open and its map unchanged
                self.require_open()
                must_grow = self.must_grow or self.data.used_bytes > self.data.map_size // 2
            if must_grow:
                with contextlib.suppress(StoreFullError):  # without waiting: only if no transaction is open
                    self.grow_map(wait=0)
            while True:
                self.transaction_thread.run(lambda: begun_transactions.append(self.begin_transaction(write=True)))
                transaction, handles = begun_transactions[0]
                if transaction.stat()["entries"] == len(handles):  # LMDB's main tree has an entry for each table
                    break
                # Another process has created tables: open them.
                self.transaction_thread.run(lambda: self._abort_transaction(begun_transactions.pop()))
                self.open_tables(handles)
            view = WriteTransaction(self, self.data.wrap_write_transaction(transaction, handles))
            self._views.add(view)
            return view
        except BaseException:
            # If the interruption came between creating the view and assigning it, the view's finalizer has already
            # ended the transaction; then the lock is no longer held.
            if view is not None:
                view.abort()
            elif self._writer_lock.is_held and not was_held:
                try:
                    if begun_transactions:
                        self.transaction_thread.run(lambda: self._abort_transaction(begun_transactions.pop()))
                finally:
                    self._writer_lock.release()
            raise

    def write_with_growth(self, function: Callable[[WriteTransaction], Result], timeout: float | None = None) -> Result:
        """Run ``function`` in a write transaction and commit; if the map is full, grow it and run ``function`` again.

        Waits at most ``timeout`` seconds for another writer (default: the lock timeout). Returns the result of
        ``function``, which must be able to run more than once: each run begins from the last commit. Raises
        StoreFullError if the map cannot grow, and the errors of ``function`` and :meth:`write`.
        """
        while True:
            try:
                with self.write(timeout) as transaction:
                    return function(transaction)
            except MapFull:
                self.grow_map(self.lock_timeout)

    def _abort_transaction(self, transaction_and_handles: _LmdbTransaction) -> None:
        """Abort a write transaction of LMDB that no view wraps yet; call this in the thread that began it."""
        transaction, _ = transaction_and_handles
        transaction.abort()
        self.gate.leave()

    def _acquire_writer_lock(self, timeout: float | None = None) -> None:
        """Acquire the writer lock, and open the file for writing if it is open read-only.

        Waits for it at most ``timeout`` seconds (default: the lock timeout). Raises the errors of :meth:`write`.
        """
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

    @contextlib.contextmanager
    def _hold_writer_lock(self, timeout: float | None = None) -> Iterator[None]:
        """Hold the writer lock within the block; see :meth:`_acquire_writer_lock`."""
        self._acquire_writer_lock(timeout)
        try:
            yield
        finally:
            self._writer_lock.release()

    def _exclude_writers(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that holds the writer lock, or shares it if the file is read-only."""
        self.require_open()
        if self.data.readonly:
            return self._writer_lock.hold_shared(self.lock_timeout)
        return self._writer_lock.hold(self.lock_timeout)

    def _invalidate_in_child(self) -> None:
        """Make the environment and its views unusable in a forked child."""
        self._reset_after_fork()
        for view in list(self._views):
            view._invalidate_in_child()

    # -- Access for migrations

    @contextlib.contextmanager
    def hold_lmdb(self) -> Iterator[lmdb.Environment]:
        """Hold the writer lock within the block, and yield the LMDB environment itself to a migration.

        Raises CorruptionError if a page is damaged, and the errors of :meth:`write`.
        """
        with self._hold_writer_lock():
            with self.hold_open() as data:
                faults = data.verify()
                if faults:
                    raise CorruptionError(
                        f"{self.path}: the data file is damaged ({faults[0]}); restore a backup, or run CHECK "
                        "REPAIR with the version of kvstore that wrote it"
                    )
                try:
                    yield data.environment
                except lmdb.Error as error:
                    raise translate_error(error, str(self.path)) from error
            self.open_tables()

    # -- Copies and statistics

    def copy_to(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Copy the last commit into a new store directory.

        With ``compact``, all pages of the copy are full and in use, and others can read and write during the copy.
        Without it, the file is copied page by page, and writers wait. Raises InputError if ``path`` exists or its
        parent does not, StoreFullError if it cannot be written, CorruptionError if records are missing (``compact``
        only), and LockTimeoutError. The copy appears complete or not at all.
        """
        with (
            contextlib.nullcontext() if compact else self._exclude_writers(),
            self.snapshot() as snapshot,  # keeps the map unchanged and the environment open
        ):
            data = self.data
            write = partial(snapshot.copy_to, max_bytes=data.used_bytes) if compact else data.copy_pages
            create_store_copy(self.path, Path(path), write)

    def compact(self, timeout: float | None = None) -> CompactReport:
        """Return the space of deleted data to the file system by replacing the file with a compacted copy.

        This needs room for the copy next to the file. Until the end, threads of this process that begin a snapshot or a
        transaction, and processes that open the store, wait. A crash at any point leaves either the old file or the new
        one, complete.

        Waits at most ``timeout`` seconds (default: the lock timeout) for another writer, and as long for the snapshots
        and transactions of this process to end. Raises TransactionError if another process has the store open, or if
        snapshots or transactions of this one stay open; ReadOnlyError, LockTimeoutError (another process writes),
        StoreFullError (no room for the copy), CorruptionError, InputError (``data.mdb`` is a symbolic link). The store
        is then unchanged.
        """
        with self._hold_writer_lock(timeout):
            report = self._compact_file(self.lock_timeout if timeout is None else timeout)
            self.open_tables()
            return report

    def delete_if_unused(self, tables: Set[str], other_files: Sequence[str] = ()) -> bool:
        """Delete the files of a store with no records except in these tables, close it, and return True.

        Returns False if there are other records, or if this object did not create the store. ``other_files`` lists the
        other files to delete. All files are deleted before the lock is released, because another process may then
        create a new store here. Raises TransactionError if another process has the store open, and the errors of
        :meth:`write`.
        """
        if not self._is_new:
            return False
        with self._hold_writer_lock(timeout=0):
            with self.snapshot() as snapshot:
                statistics = snapshot.get_table_statistics()
            if any(table["entries"] for name, table in statistics.items() if name not in tables):
                return False
            with self._open_lock.hold_exclusively():
                for name in (*other_files, DATA_FILE, READERS_FILE, WRITER_FILE):
                    (self.path / name).unlink(missing_ok=True)
                self.close()
        return True

    def rewrite(self, function: Callable[[ReadTransaction, WriteTransaction], Result]) -> Result:
        """Replace the data file with a new one, which ``function`` fills from a snapshot of the last commit.

        This is for a file with damaged pages, which cannot be changed safely. ``function`` gets the snapshot and a
        write transaction in the new file; its result is returned. Waits at most the lock timeout for another writer,
        and as long for open transactions. Raises the errors of :meth:`compact` and of ``function``; the old file then
        remains. A crash leaves the old file or, at the end, the new one; either is complete.
        """
        results: list[Result] = []  # ``write`` appends the result of ``function``
        directory = self.path / REPAIR_DIRECTORY
        open_successor = partial(
            Environment.open, directory, lock_timeout=self.lock_timeout, buffered_tables=self._buffered_tables
        )

        def write(copy: Path) -> None:
            """Run ``function`` in a new store, and move its data file to ``copy``."""
            remove_directory(directory)
            directory.mkdir(mode=0o700)
            with open_successor() as successor, self.snapshot() as old_snapshot:
                results.append(successor.write_with_growth(partial(function, old_snapshot)))
            (directory / DATA_FILE).rename(copy)

        with self._hold_writer_lock():
            self._rewrite_file(write, self.lock_timeout)
            self.open_tables()
        return results[0]

    def describe_page_faults(self) -> list[str]:
        """Return a sentence for each fault of the pages of the last commit. Reads every page; others can write."""
        with self.snapshot():  # keeps the pages that are read
            faults = self.data.verify()
        # A commit may have written its meta page during the check: verify again without writers.
        return self.verify() if faults else []

    def verify(self) -> list[str]:
        """Return a sentence for each fault of the file's page structure.

        Reads every page and keeps writers out until the end; raises LockTimeoutError while another process writes.
        """
        with self._exclude_writers():
            return self.data.verify()


def _lock_for_opening(lock: WriterLock, timeout: float, *, is_new: bool) -> bool:
    """Acquire the writer lock of a store. Return False if another process writes to an existing store.

    The file is then opened read-only, and reopened once this process needs to write. A store that ``is_new`` cannot be
    opened read-only: raises LockTimeoutError if another process holds the lock for ``timeout`` seconds.
    """
    try:
        lock.acquire(timeout if is_new else 0)
    except LockTimeoutError:
        if is_new:
            raise
        return False
    return True


def _require_not_open(path: str | os.PathLike[str]) -> None:
    """Raise InputError if this process has the store at ``path`` open already; LMDB allows a file to be opened once."""
    identity = get_file_identity(Path(path) / DATA_FILE)
    open_identities = {environment.identity for environment in list(_environments)}
    if identity is not None and identity in open_identities:
        raise InputError(f"{path}: already open in this process; use the open store, or close it first")


def _reset_environments_in_child() -> None:
    """Make all environments of the parent unusable in a forked child."""
    for environment in list(_environments):
        if not environment.closed:
            environment._invalidate_in_child()


os.register_at_fork(after_in_child=_reset_environments_in_child)
