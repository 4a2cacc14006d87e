"""Locks of a store between processes, by ``flock``: the lock of the writer, and the shared *open lock* of all processes
that have the store open. COMPACT, which replaces the data file, needs the open lock exclusively, and so does the
creation of LMDB's *reader table*, the list of open snapshots.

The system drops a lock with the last copy of the descriptor that holds it, and therefore even if the process dies. All
attempts have a deadline, and the error names the holder and the remedy.

The writer lock allows one writer at a time over all processes and threads. Waiting for LMDB's writer mutex has no
timeout, and the mutex does not identify its holder, so every write transaction first takes this lock. On disk:
``writer.lock`` next to the data. While held, it contains the holder's process id in decimal and a newline; otherwise it
is empty. If the file is deleted while it is locked, the next writer creates another, and then waits for LMDB's mutex,
without a timeout, until the first is done.

The open lock is on the data file. COMPACT gives the data file's name to another file. A process that had the old
file open would continue in a file without a name, and lose everything it wrote. So no other process may have it open,
and COMPACT takes the lock exclusively. A process that opens the store checks, after acquiring the lock, that the locked
file still has the name. LMDB's reader table must also not be recreated while a process has the store open: a writer
with a separate table would consider pages free that others read. A process that finds no table therefore creates it
while no other has the store open. The lock needs no write permission.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from ..errors import LockTimeoutError, ReadOnlyError, StoreFullError, StoreNotFoundError, TransactionError
from .lmdb_errors import NO_SPACE_ERRNOS, translate_system_errors
from .location import READERS_FILE, WRITER_FILE, flush, open_store_file
from .readers_table import can_create_reader_table, reserve_reader_table

#: Device and inode of a file, which are unique while it is open.
FileIdentity = tuple[int, int]

#: Seconds between two attempts: the first, and the maximum after doubling.
FIRST_PAUSE = 0.001
MAX_PAUSE = 0.05


def lock_until(descriptor: int, kind: int, deadline: float) -> bool:
    """Lock a file (``kind``: LOCK_SH or LOCK_EX), and return True once it is locked.

    Returns False if others still hold it at ``deadline`` (monotonic seconds). Makes at least one attempt. If this
    returns False, a lock that the descriptor held before is lost.
    """
    pause = FIRST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            remaining_seconds = deadline - time.monotonic()
            if remaining_seconds <= 0:
                return False
            time.sleep(min(pause, remaining_seconds))
            pause = min(2 * pause, MAX_PAUSE)


def get_file_identity(file: int | Path) -> FileIdentity | None:
    """Return device and inode of an open file or of the file at a path; None if there is no such file."""
    try:
        stat = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_dev, stat.st_ino


def is_current_file(descriptor: int, path: Path) -> bool:
    """True if an open file is still the file at this path, so it was neither deleted nor replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def release_lock(descriptor: int) -> None:
    """Release a lock and close its descriptor."""
    try:
        # Unlock explicitly: a child forked meanwhile may hold a copy of the descriptor. If the system refuses, closing
        # the descriptor still releases the lock, unless there is such a child.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:  # also after an interrupt
        os.close(descriptor)


#: Seconds that a waiting thread waits once more if its time runs out while the lock passes from one thread to another.
_HANDOVER_SECONDS = 0.2

_locks: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class MaintenanceThread(threading.Thread):
    """A thread for background maintenance of the store.

    Another thread of the process that waits for the lock does not time out while this thread holds it.
    """


class WriterLock:
    """The exclusive right to write to one store: a lock for the threads of this process, and a lock on a file for other
    processes, both held together. One object serves all threads. Any thread may release it.
    """

    def __init__(self, path: Path) -> None:
        """Create the writer lock of a store: a thread lock, and a lock on the file at ``path``; neither is held yet."""
        self.path = path
        self._thread_lock = threading.Lock()  # for the threads of this process
        self._holder: threading.Thread | None = None
        self._descriptor: int | None = None  # of the file, while this process has it locked
        _locks.add(self)

    def acquire(self, timeout: float) -> None:
        """Acquire the lock, waiting at most ``timeout`` seconds (0: one attempt).

        The wait starts again while a :class:`MaintenanceThread` of this process holds the lock. Raises LockTimeoutError
        naming the holder after the timeout, TransactionError if this thread already holds the lock, ReadOnlyError if
        the lock file cannot be written, StoreFullError if there is no room to create it, and KvstoreError for any other
        error of the system.
        """
        self.require_not_held()
        attempts: list[bool] = []  # the outcomes, known here even if an interrupt arrives before the return
        try:
            deadline = self._acquire_thread_lock(timeout, attempts)
            self._holder = threading.current_thread()
            with translate_system_errors(str(self.path)):
                self._descriptor = self._lock_file(fcntl.LOCK_EX, deadline, timeout)
                was_killed = bool(os.pread(self._descriptor, 1, 0))
            if was_killed:
                # A process id remains in the file only if the last holder was killed, perhaps before the renaming of a
                # compacted file was durable.
                with contextlib.suppress(OSError):
                    flush(self.path.parent)
            with contextlib.suppress(OSError):  # a full disk may refuse the process id; the lock works without it
                os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:
            if True in attempts:
                self._unlock()
            raise

    def release(self) -> None:
        """Remove this process's id from the lock file, then release the interprocess lock and the thread lock."""
        try:
            if self._descriptor is not None:
                with contextlib.suppress(OSError):  # a failing disk; only the holder's process id stays
                    os.ftruncate(self._descriptor, 0)
        finally:  # also after an interrupt
            self._unlock()

    @contextlib.contextmanager
    def hold(self, timeout: float) -> Iterator[None]:
        """Hold the lock within the block; wait for it at most ``timeout`` seconds, else raise LockTimeoutError."""
        self.acquire(timeout)
        try:
            yield
        finally:
            self.release()

    @property
    def is_held(self) -> bool:
        """True if this thread holds the lock."""
        return self._holder is threading.current_thread()

    def require_not_held(self) -> None:
        """Raise TransactionError if this thread holds the lock, and would therefore wait for itself."""
        if self.is_held:
            raise TransactionError(
                "this thread has a write transaction open; use its methods, or commit it or roll it back first"
            )

    def ensure_held(self, timeout: float) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that holds the lock within its block; does nothing if this thread holds it."""
        if self.is_held:
            return contextlib.nullcontext()
        return self.hold(timeout)

    @contextlib.contextmanager
    def hold_shared(self, timeout: float) -> Iterator[None]:
        """Keep writers out within the block; raise LockTimeoutError if one does not finish in ``timeout`` seconds.

        Does nothing if there is no lock file, and therefore no writer.
        """
        descriptor = self.acquire_shared(timeout)
        try:
            yield
        finally:
            if descriptor is not None:
                release_lock(descriptor)

    def acquire_shared(self, timeout: float) -> int | None:
        """Share the lock, which keeps writers out, for a reader that cannot register itself with LMDB.

        Returns the descriptor of the locked file, which the caller passes to :func:`release_lock` after the reads.
        Returns None if there is no lock file, and therefore no writer. Raises LockTimeoutError if a writer holds the
        lock for ``timeout`` seconds.
        """
        with translate_system_errors(str(self.path)):
            try:
                return self._lock_file(fcntl.LOCK_SH, time.monotonic() + timeout, timeout)
            except FileNotFoundError:
                return None

    def _acquire_thread_lock(self, timeout: float, attempts: list[bool]) -> float:
        """Acquire the thread lock of this process; return the deadline for the interprocess lock.

        ``attempts`` receives the outcome of each attempt, so that the caller knows whether it holds the lock even if an
        interruption (Ctrl-C) prevents the return.

        While a maintenance thread holds the lock, the wait begins again, unless ``timeout`` is 0. Raises
        LockTimeoutError if another thread holds it at the end of the wait.
        """
        while True:
            deadline = time.monotonic() + timeout
            # ``map`` calls the lock and appends the outcome in one step, which no interruption can divide.
            attempts.extend(map(self._thread_lock.acquire, (True,), (min(max(timeout, 0.0), threading.TIMEOUT_MAX),)))
            # Without a holder, a thread is about to release the lock, or has just acquired it.
            if not attempts[-1] and self._holder is None:
                attempts.extend(map(self._thread_lock.acquire, (True,), (_HANDOVER_SECONDS,)))
            if attempts[-1]:
                return deadline
            holder = self._holder
            if timeout <= 0 or not isinstance(holder, MaintenanceThread):
                name = holder.name if holder is not None else "another thread"
                raise self._make_timeout_error(
                    timeout,
                    f"thread {name!r} of this process ({os.getpid()})",
                    "wait for it to finish (within a transaction, use the methods of the transaction)",
                )

    def _lock_file(self, kind: int, deadline: float, timeout: float) -> int:
        """Lock the file (``kind``: LOCK_SH or LOCK_EX) and return its descriptor.

        Raises LockTimeoutError, which names ``timeout``, if another process holds the lock at ``deadline``.
        """
        while True:
            descriptor = self._open_lock_file(kind)
            try:
                if not lock_until(descriptor, kind, deadline):
                    raise self._make_timeout_error(timeout, describe_holder(self.path))
                if is_current_file(descriptor, self.path):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            release_lock(descriptor)  # deleted while this process waited: the next process locks another file

    def _open_lock_file(self, kind: int) -> int:
        """Open the lock file (``kind``: LOCK_SH or LOCK_EX), and return its descriptor; LOCK_EX also creates it.

        Raises ReadOnlyError without permission, StoreFullError without disk space, StoreNotFoundError if the directory
        of an exclusive lock is missing, and OSError otherwise.
        """
        try:
            return open_store_file(self.path, os.O_RDONLY if kind == fcntl.LOCK_SH else os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise ReadOnlyError(
                    f"{self.path}: {error.strerror}; open the store read-only (in kvstore shell: --readonly), or "
                    "give this user write permission on its directory"
                ) from error
            if error.errno in NO_SPACE_ERRNOS:
                raise StoreFullError(
                    f"{self.path}: cannot be created ({error.strerror}); free some space and try again"
                ) from error
            if error.errno in (errno.ENOENT, errno.ENOTDIR) and kind == fcntl.LOCK_EX:
                raise StoreNotFoundError(
                    f"{self.path.parent}: the store was deleted, moved or unmounted while it was open; open it where "
                    "it is now"
                ) from error
            raise

    def _unlock(self) -> None:
        """Release the interprocess lock, then the thread lock."""
        descriptor, self._descriptor = self._descriptor, None
        try:
            if descriptor is not None:
                release_lock(descriptor)
        finally:
            # Only the holder may clear it, so do that before another thread can acquire the lock.
            self._holder = None
            self._thread_lock.release()

    def _make_timeout_error(
        self, timeout: float, holder: str, remedy: str = "wait for it to finish"
    ) -> LockTimeoutError:
        """Return the error for a lock that ``holder`` has not released in ``timeout`` seconds."""
        return LockTimeoutError(
            f"{self.path.parent}: {holder} has the writer lock and did not release it within {timeout:g} s; {remedy}, "
            "or allow more time with lock_timeout (on the command line: --lock-timeout)"
        )

    def _reset_after_fork(self) -> None:
        """Drop the copied descriptor in a forked child, so that the lock ends with the parent that holds it."""
        descriptor, self._descriptor, self._holder = self._descriptor, None, None
        self._thread_lock = threading.Lock()
        if descriptor is not None:
            os.close(descriptor)


def has_living_holder(path: Path) -> bool:
    """True if the lock file at ``path`` has the id of a process that exists. Reads the file and takes no lock."""
    try:
        process_id = int(path.read_text("ascii", "replace"))
    except (OSError, ValueError):
        return False
    return is_running(process_id)


def is_running(process_id: int) -> bool:
    """True if a process with this id exists."""
    try:
        os.kill(process_id, 0)  # signal 0 is not sent, only checked
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's process
        return True
    return True


def describe_holder(path: Path) -> str:
    """Return "process" and the id of the process that holds the lock at ``path``, or "another process"."""
    try:
        process_id = path.read_text("ascii", "replace").strip()
    except OSError:
        process_id = ""
    return f"process {process_id}" if process_id else "another process"


def _reset_locks_in_child() -> None:
    """Drop the copies of all locks in a forked child."""
    for lock in list(_locks):
        lock._reset_after_fork()


os.register_at_fork(after_in_child=_reset_locks_in_child)


class SharedOpenLock:
    """The shared lock on the data file of one open store, which keeps other processes from replacing the file. The
    *successor* is the file by which COMPACT or a repair replaces it, locked before it gets the name.

    Not thread-safe: ``open_file.py`` serializes its use.
    """

    def __init__(self, path: Path) -> None:
        """Create the shared lock by which processes mark that they have the data file open; nothing is locked yet."""
        self.path = path
        #: Device and inode of the locked file; None if it is not locked.
        self.identity: FileIdentity | None = None
        #: The descriptor of the locked file; None if it is not locked.
        self._descriptor: int | None = None
        #: The descriptor of the file that will replace the locked one, or None.
        self._successor: int | None = None

    def acquire(self, timeout: float) -> None:
        """Acquire the shared lock on the data file; does nothing if it is held already.

        Raises LockTimeoutError if a COMPACT of another process lasts longer than ``timeout`` seconds, or if another
        process has the store open that long and the reader table is missing; StoreNotFoundError and ReadOnlyError if
        the file is missing or not readable; StoreFullError if there is no room for the table.
        """
        deadline = time.monotonic() + timeout
        while self._descriptor is None:
            try:
                descriptor = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError as error:
                raise StoreNotFoundError(f"{self.path}: this file no longer exists; check the path") from error
            except PermissionError as error:
                raise ReadOnlyError(
                    f"{self.path}: cannot be opened ({error.strerror}); give this user read permission on it"
                ) from error
            try:
                if not lock_until(descriptor, fcntl.LOCK_SH, deadline):
                    raise LockTimeoutError(
                        f"{self.path.parent}: {describe_holder(self.path.with_name(WRITER_FILE))} has been compacting "
                        f"the store for {timeout:g} s; wait for it to finish, or allow more time with lock_timeout (of "
                        "the command: --lock-timeout)"
                    )
                # If another process has replaced the file meanwhile, open the new one.
                if is_current_file(descriptor, self.path) and self._create_missing_table(descriptor, deadline):
                    self._descriptor, self.identity = descriptor, get_file_identity(descriptor)
            finally:
                if self._descriptor is None:
                    os.close(descriptor)

    def get_descriptor(self) -> int:
        """Return the descriptor of the locked file, which may have been deleted or replaced since."""
        assert self._descriptor is not None
        return self._descriptor

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        for descriptor in self._take_descriptors():
            release_lock(descriptor)

    def __del__(self) -> None:
        """Release the lock of a store that was dropped without being closed."""
        self.release()

    def reset_after_fork(self) -> None:
        """Drop the copied descriptors in a forked child, so that the lock ends with the parent."""
        for descriptor in self._take_descriptors():
            os.close(descriptor)

    @contextlib.contextmanager
    def hold_exclusively(self) -> Iterator[None]:
        """Hold the lock exclusively within the block, and share it again afterwards; the writer lock must be held.

        Raises TransactionError immediately if another process has the store open, or if the file was replaced by
        another program.
        """
        assert self._descriptor is not None
        try:
            if not lock_until(self._descriptor, fcntl.LOCK_EX, deadline=0):  # one attempt
                raise TransactionError(
                    f"{self.path.parent}: another process has this store open, and COMPACT replaces the file that it "
                    f"reads; close the store there and try again (lsof {self.path} lists the processes)"
                )
            if not is_current_file(self._descriptor, self.path):
                raise TransactionError(
                    f"{self.path}: another file has replaced the one that is open here, and COMPACT would overwrite "
                    "it; close this store and open it again"
                )
            yield
        finally:
            if self._successor is not None:  # the lock on a new data file that has not replaced this one
                release_lock(self._successor)
                self._successor = None
            # A failed attempt has lost the shared lock. Only a holder of the writer lock could be in the way now, so
            # this never blocks.
            if self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def replace(self, successor: Path) -> None:
        """Rename ``successor`` to the data file, and lock it before another process can open it by that name.

        Must be called within :meth:`hold_exclusively`. Raises OSError; then nothing has changed.
        """
        assert self._descriptor is not None
        self._successor = os.open(successor, os.O_RDONLY)
        fcntl.flock(self._successor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(successor, self.path)
        # From here on, this object holds the lock of the new file.
        old_descriptor, self._descriptor, self._successor = self._descriptor, self._successor, None
        self.identity = get_file_identity(self._descriptor)
        release_lock(old_descriptor)

    def ensure_reader_table(self, timeout: float) -> None:
        """Create LMDB's reader table, the list of open snapshots, if it is missing, before the store is reopened.

        The shared lock is held again afterwards. Raises LockTimeoutError if another process has the store open for
        ``timeout`` seconds while the table is missing, and StoreFullError if there is no room for the table.
        """
        assert self._descriptor is not None
        try:
            self._create_missing_table(self._descriptor, time.monotonic() + timeout)
        finally:  # an attempt to lock the file exclusively loses the shared lock
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def _create_missing_table(self, descriptor: int, deadline: float) -> bool:
        """Create the reader table if it is missing; return False if the lock on the data file was lost meanwhile.

        ``descriptor`` is the descriptor of the data file. Raises LockTimeoutError if another process still has the
        store open at ``deadline`` (monotonic seconds).
        """
        directory = self.path.parent
        if not can_create_reader_table(directory):
            return True
        # No other process may have the store open. Wait in short attempts, because another process may create the
        # table.
        while not lock_until(descriptor, fcntl.LOCK_EX, time.monotonic() + MAX_PAUSE):
            if not can_create_reader_table(directory):
                return False  # another process was about to create it
            if time.monotonic() >= deadline:
                raise LockTimeoutError(
                    f"{self.path.with_name(READERS_FILE)}: deleted while another process has the store open, so a "
                    "writer could not know which pages are being read; close the store there and open it again (lsof "
                    f"{self.path} lists the processes)"
                )
        if can_create_reader_table(directory) and is_current_file(descriptor, self.path):
            reserve_reader_table(directory)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return is_current_file(descriptor, self.path)

    def _take_descriptors(self) -> list[int]:
        """Clear the descriptors of the locked file and of the file that will replace it, and return them.

        The caller must close them.
        """
        descriptors = [descriptor for descriptor in (self._descriptor, self._successor) if descriptor is not None]
        self._descriptor = self._successor = self.identity = None
        return descriptors
