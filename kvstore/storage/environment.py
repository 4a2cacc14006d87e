"""The environment of one open store: snapshots, the one writer, growth of the map, copies, closing.

In: a path and how to open it. On disk: see ``location.py``. Out: views (see ``view.py``). What is wrong with a path, a
file, a lock or the space left is told by an error of ``kvstore.errors`` that names it and the remedy; nothing is lost
by any of them.

Four rules that LMDB sets and this module keeps: the map changes size only while no transaction of this process is open;
a table's handle is opened by one transaction at a time, of the writer where the file is open for writing, and used by
later ones only; nothing of the environment is touched after a fork; closing waits for every open snapshot, because a
buffer read after that would crash the process.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import lmdb

from ..errors import (
    ClosedError,
    CorruptionError,
    InputError,
    LockTimeoutError,
    ReadOnlyError,
    StoreFullError,
    TransactionError,
)
from .data_file import MAX_READERS, SMALLEST_MAP, DataFile, FileStatistics, flush
from .location import WRITER_FILE, examine
from .transaction_gate import TransactionGate
from .view import LmdbView, MapFull, Snapshot, View, WriteTransaction, WriteView, translate
from .writer_lock import WriterLock

if TYPE_CHECKING:
    from lmdb import _Database as Handle

__all__ = ["Environment", "FileStatistics", "MapFull", "Snapshot", "View", "WriteTransaction", "WriteView"]

#: The map is address space, not disk, so it starts as large as the system may allow.
LARGEST_MAP = 1 << 40
PAGE = 4096

DURABILITIES = ("full", "relaxed")

Result = TypeVar("Result")

_environments: weakref.WeakSet[Environment] = weakref.WeakSet()


class Environment:
    """One open store directory; see :meth:`open`. Any thread may use it."""

    def __init__(
        self, file: DataFile, lock: WriterLock, *, readonly: bool, max_bytes: int | None, lock_timeout: float
    ) -> None:
        self.path = file.directory
        self.readonly = readonly
        self.max_bytes = max_bytes
        self.lock_timeout = lock_timeout
        self.gate = TransactionGate()
        self._file = file
        self._writer_lock = lock
        self._tables_lock = threading.RLock()
        self._handles: Mapping[str, Handle] = {}
        self._views: weakref.WeakSet[LmdbView] = weakref.WeakSet()
        self._unusable: str | None = None
        _environments.add(self)

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
    ) -> Environment:
        """Open the store at ``path``, making its directory where there is none and ``create`` says so.

        ``map_size`` is the address space in bytes to begin with (default: 1 TiB, or what the system allows); it grows
        when it must. ``max_bytes`` is the most that ``data.mdb`` may take. ``lock_timeout`` is how many seconds to
        wait for another writer, and for open snapshots when the map grows or the environment closes. With
        ``durability="relaxed"`` a commit is flushed without its meta page: a crash of the machine may undo the last
        commits, never damage the store.

        Raises StoreNotFoundError, NotAStoreError, CorruptionError (the data file was cut), StoreFullError (no space to
        begin), ReadOnlyError (no right to write), LockTimeoutError (another process is making this store), InputError.
        """
        if durability not in DURABILITIES:
            raise InputError(f"durability={durability!r} is unknown; use one of {', '.join(DURABILITIES)}")
        for name, size in (("map_size", map_size), ("max_bytes", max_bytes)):
            if size is not None and size < SMALLEST_MAP:
                raise InputError(f"{name}={size} is too small for any store; allow at least {SMALLEST_MAP}")
        if lock_timeout < 0:
            raise InputError(f"lock_timeout={lock_timeout} is negative; give seconds, 0 for one attempt")
        directory = Path(path)
        create = create and not readonly
        try:
            missing = examine(directory, create=create)
        except CorruptionError:
            # Cut short, or in the making by another process, which holds the lock until it is whole.
            with _shared(WriterLock(directory / WRITER_FILE), lock_timeout):
                missing = examine(directory, create=create)
        for other in list(_environments):
            if other._unusable is None and not missing and other.path.exists() and directory.samefile(other.path):
                raise InputError(f"{path}: already open in this process; share that store, or close it first")
        size = min(map_size or LARGEST_MAP, (max_bytes or LARGEST_MAP) // PAGE * PAGE)
        if missing:
            _make_directory(directory)
        lock = WriterLock(directory / WRITER_FILE)
        # The lock is needed to open the tables for writing, and keeps others from meeting a file half made. While
        # another process writes, the file is opened to read, and opened again when this process comes to write.
        locked = False
        if not readonly:
            try:
                lock.acquire(lock_timeout if missing else 0)
                locked = True
            except LockTimeoutError:
                if missing:
                    raise
        try:
            file = DataFile(directory, readonly=not locked, durability=durability, map_size=size)
            environment = cls(file, lock, readonly=readonly, max_bytes=max_bytes, lock_timeout=lock_timeout)
            try:
                environment._begin_use(new=missing, locked=locked)
            except BaseException:
                environment.close()
                raise
            return environment
        finally:
            if locked:
                lock.release()

    def _begin_use(self, *, new: bool, locked: bool) -> None:
        if new:
            flush(self.path)
            flush(self.path.resolve().parent)
        if self._file.is_short():
            with contextlib.nullcontext() if locked else self._without_writers():
                self._file.refuse_cut()
        self._open_tables(self._handles)

    def close(self, timeout: float | None = None) -> None:
        """Close the environment once every snapshot and write transaction of this process is over.

        Waits at most ``timeout`` seconds (default: the lock timeout), then raises TransactionError and stays open.
        Does nothing when it is closed already.
        """
        if self._unusable is not None:
            return
        wait = self.lock_timeout if timeout is None else timeout
        with self.gate.alone(wait, TransactionError, f"{self.path}: the store was to be closed"):
            self._unusable = "it was closed; open it again"
            self._handles = {}
            self._file.close()
        _environments.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether the environment can be used no more: closed, or inherited through a fork."""
        return self._unusable is not None

    # -- Transactions

    def snapshot(self) -> Snapshot:
        """A read transaction on the last commit; raises ClosedError after :meth:`close` or in the child of a fork."""
        while True:
            handles = self._handles
            self._require_open()
            shared = None if self._file.registers else self._writer_lock.share(self.lock_timeout)
            try:
                transaction = self._begin(write=False)
            except BaseException:
                if shared is not None:
                    os.close(shared)
                raise
            snapshot = Snapshot(self, transaction, handles)
            self._views.add(snapshot)
            snapshot.shared_lock = shared
            # Another process may have added tables; a transaction begun before their handles cannot use them.
            if transaction.stat()["entries"] == len(handles):
                return snapshot
            snapshot.close()
            self._open_tables(handles)

    def write(self, timeout: float | None = None) -> WriteTransaction:
        """Begin the store's one write transaction, waiting at most ``timeout`` seconds (default: the lock timeout).

        Raises LockTimeoutError naming the holder, TransactionError when this thread has one open already,
        ReadOnlyError for an environment opened to read, and ClosedError.
        """
        self._take_writer_lock(timeout)
        try:
            if self._file.readonly:
                self._open_for_writing()
            elif self._file.used > self._file.map_size // 2:
                with contextlib.suppress(StoreFullError):  # early, while nobody must wait for it
                    self._grow(0)
            while True:
                handles = self._handles
                transaction = self._begin(write=True)
                if transaction.stat()["entries"] == len(handles):
                    break
                transaction.abort()
                self.gate.leave()
                self._open_tables(handles)
            view = WriteTransaction(self, transaction, handles)
            self._views.add(view)
            return view
        except BaseException:
            self._writer_lock.release()
            raise

    def write_with_growth(self, function: Callable[[WriteTransaction], Result], timeout: float | None = None) -> Result:
        """Run ``function`` in a write transaction and commit; when the map is full, grow it and run ``function`` again.

        ``function`` must be able to run more than once: each run begins from the last commit. Raises StoreFullError
        when ``max_bytes``, the system or an open snapshot forbids growth, whatever ``function`` raises, and what
        :meth:`write` raises.
        """
        while True:
            try:
                with self.write(timeout) as transaction:
                    return function(transaction)
            except MapFull:
                self._grow(self.lock_timeout)

    @contextlib.contextmanager
    def raw(self, timeout: float | None = None) -> Iterator[lmdb.Environment]:
        """The LMDB environment itself, under the writer's lock: for migrations, which know bytes and no tables."""
        self._take_writer_lock(timeout)
        try:
            if self._file.readonly:
                self._open_for_writing()
            with self.gate.entering():
                self._require_open()
            try:
                yield self._file.environment
            except lmdb.Error as error:
                raise translate(error, str(self.path)) from error
            finally:
                self.gate.leave()
            self._open_tables(self._handles)
        finally:
            self._writer_lock.release()

    # -- Copies and figures

    def copy_to(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Copy the last commit into a new store directory.

        With ``compact`` free pages are left out, and others read and write meanwhile. Without, the file is copied page
        by page, and writers wait. Raises InputError when ``path`` exists or its folder does not, StoreFullError when it
        cannot be written, and LockTimeoutError; the copy appears complete or not at all.
        """
        with (
            contextlib.nullcontext() if compact else self._without_writers(),
            self.snapshot(),  # keeps the map as it is and the environment open
        ):
            self._file.copy_to(Path(path), compact=compact)

    def verify(self) -> list[str]:
        """Every fault of the file's page structure, as sentences; nothing when it is sound.

        Reads every page and keeps writers out meanwhile; raises LockTimeoutError while another is at work.
        """
        self._require_open()
        with self._without_writers():
            return self._file.verify()

    def sync(self) -> None:
        """Flush every commit to the disk; with ``durability="full"`` each commit has done so already."""
        self._require_open()
        if not self._file.readonly:
            self._file.environment.sync(True)

    def statistics(self) -> FileStatistics:
        """Sizes and counts as they are now."""
        self._require_open()
        return self._file.statistics()

    @property
    def map_size(self) -> int:
        """Bytes of address space the data may fill before the map must grow."""
        self._require_open()
        return self._file.map_size

    # -- What views call

    def create_table(self, transaction: lmdb.Transaction[memoryview], table: str) -> Handle:
        """Make ``table`` within a write transaction."""
        return self._file.create_table(transaction, table)

    def committed(self, created: Mapping[str, Handle]) -> None:
        """Take over the tables that a commit has added."""
        if created:
            self._handles = {**self._handles, **created}
        self._file.extend()

    def ended(self, view: LmdbView) -> None:
        """Forget a view whose transaction is over."""
        self._views.discard(view)
        self.gate.leave()
        if view.shared_lock is not None:
            os.close(view.shared_lock)
        if view.writable:
            self._writer_lock.release()

    def map_full(self) -> MapFull:
        """The error for a transaction that the map could not take."""
        if self._at_limit():
            return MapFull(
                f"{self.path}: the store has reached max_bytes={self.max_bytes} and nothing was changed; open it with "
                "a larger max_bytes, or delete documents and COMPACT"
            )
        return MapFull(
            f"{self.path}: the memory map of {self._file.map_size} bytes was too small for this transaction, and "
            "nothing was changed; run it again, and the map grows"
        )

    # -- Transactions and the map

    def _begin(self, *, write: bool) -> lmdb.Transaction[memoryview]:
        """Begin a transaction and count it, adopting the map's size where another process has grown it."""
        cleared = False
        while True:
            try:
                with self.gate.entering():
                    self._require_open()
                    return self._file.begin(write=write)
            except lmdb.MapResizedError:
                self._resize(0, self.lock_timeout)
            except lmdb.ReadersFullError as error:
                if cleared:
                    raise TransactionError(
                        f"{self.path}: all {MAX_READERS} snapshots that may be open at once, over all processes, are; "
                        "close some"
                    ) from error
                self._file.environment.reader_check()
                cleared = True
            except lmdb.Error as error:
                raise translate(error, str(self.path)) from error

    def _at_limit(self) -> bool:
        return self.max_bytes is not None and self._file.map_size >= self.max_bytes // PAGE * PAGE

    def _grow(self, wait: float) -> None:
        """Double the map, up to ``max_bytes``; raises StoreFullError where that may not or cannot be done."""
        if self._at_limit():
            raise self.map_full()
        size = 2 * self._file.map_size
        self._resize(size if self.max_bytes is None else min(size, self.max_bytes // PAGE * PAGE), wait)

    def _resize(self, size: int, wait: float) -> None:
        with self.gate.alone(wait, StoreFullError, f"{self.path}: the memory map must grow"):
            self._require_open()
            opened = self._file.environment
            try:
                self._file.resize(size)
            finally:
                if self._file.environment is not opened:
                    self._handles = {}

    def _open_for_writing(self) -> None:
        """Open a file that is open to read again, for writing; this thread holds the writer's lock."""
        purpose = f"{self.path}: another process wrote while this one opened the store, so it must be opened again"
        with self.gate.alone(self.lock_timeout, TransactionError, purpose):
            self._require_open()
            self._file.reopen_for_writing()
            self._handles = {}

    def _open_tables(self, known: Mapping[str, Handle]) -> None:
        """Open the tables that others have made, unless that has been done since ``known`` was read.

        Where the file is open for writing this takes the writer's lock, for handles last only when a write transaction
        has opened them; that transaction writes nothing.
        """
        with self._tables_lock if self._file.readonly else self._writer_lock.holding(self.lock_timeout):
            if self._handles is not known:
                return
            transaction = self._begin(write=not self._file.readonly)
            try:
                opener = None if self._file.readonly else transaction
                names = self._file.table_names(transaction)
                handles = {os.fsdecode(name): self._file.open_table(name, opener) for name in names}
                transaction.commit()
            finally:
                transaction.abort()
                self.gate.leave()
            self._handles = handles

    def _take_writer_lock(self, timeout: float | None) -> None:
        self._require_open()
        if self.readonly:
            raise ReadOnlyError(f"{self.path}: opened with readonly=True; open it without to change it")
        self._writer_lock.acquire(self.lock_timeout if timeout is None else timeout)

    @contextlib.contextmanager
    def _without_writers(self) -> Iterator[None]:
        if self._file.readonly:
            with _shared(self._writer_lock, self.lock_timeout):
                yield
        else:
            self._writer_lock.acquire(self.lock_timeout)
            try:
                yield
            finally:
                self._writer_lock.release()

    def _require_open(self) -> None:
        if self._unusable is not None:
            raise ClosedError(f"{self.path}: {self._unusable}")

    def _after_fork(self) -> None:
        # The references are dropped, which LMDB's binding takes for no closing in a process that did not open it; then
        # the child can open the store itself.
        self._unusable = "it was opened before a fork; open it again in this process"
        self.gate = TransactionGate()
        self._handles = {}
        for view in list(self._views):
            view._after_fork()
        del self._file


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise ReadOnlyError(f"{directory}: cannot be made ({error.strerror}); choose another path") from error


@contextlib.contextmanager
def _shared(lock: WriterLock, timeout: float) -> Iterator[None]:
    shared = lock.share(timeout)
    try:
        yield
    finally:
        if shared is not None:
            os.close(shared)


def _forget_in_child() -> None:
    for environment in list(_environments):
        if environment._unusable is None:
            environment._after_fork()


os.register_at_fork(after_in_child=_forget_in_child)
