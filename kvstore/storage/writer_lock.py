"""The writer lock: one writer at a time over all processes and threads, with a timeout and the holder's name.

Waiting for LMDB's writer mutex has no timeout, and the mutex does not identify its holder, so every write transaction
first takes this lock. On disk: ``writer.lock`` next to the data, locked by ``flock`` (the system drops the lock if the
holder dies). While held, it contains the holder's process id in decimal and a newline; otherwise it is empty. A timeout
raises :class:`~kvstore.errors.LockTimeoutError` naming the holder. If the file is deleted while it is locked, the next
writer creates another, and then waits for LMDB's mutex, without a timeout, until the first is done.
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
from .data_file import flush
from .file_lock import is_file_at, lock_until, release_lock
from .lmdb_errors import NO_SPACE_ERRNOS

#: Seconds that a waiting thread waits once more if its time runs out while the lock passes from one thread to another.
_HANDOVER_SECONDS = 0.2

_locks: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class MaintenanceThread(threading.Thread):
    """A thread for background maintenance of the store.

    Another thread of the process that waits for the lock does not time out while this thread holds it.
    """


class WriterLock:
    """The exclusive right to write to one store.

    One object serves all threads of a process. Only the thread that holds the lock may release it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread_lock = threading.Lock()  # the lock among the threads of this process
        self._holder: threading.Thread | None = None
        self._descriptor: int | None = None  # of the file, while this process has it locked
        _locks.add(self)

    def acquire(self, timeout: float) -> None:
        """Acquire the lock, waiting at most ``timeout`` seconds (0: one attempt).

        The wait starts again while a :class:`MaintenanceThread` of this process holds the lock. Raises LockTimeoutError
        naming the holder after the timeout, TransactionError if this thread already holds the lock, ReadOnlyError if
        the lock file cannot be written, and StoreFullError if there is no room to create it.
        """
        if self._holder is threading.current_thread():
            raise TransactionError("this thread already has a write transaction open; commit or abort it first")
        deadline = self._lock_thread(timeout)
        try:
            self._holder = threading.current_thread()
            self._descriptor = self._lock_file(fcntl.LOCK_EX, deadline, timeout)
            if os.pread(self._descriptor, 1, 0):
                # The last holder was killed, perhaps before the renaming of a compacted file was durable.
                with contextlib.suppress(OSError):
                    flush(self.path.parent)
            with contextlib.suppress(OSError):  # a full disk may refuse the process id; the lock works without it
                os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:
            self._unlock()
            raise

    def release(self) -> None:
        """Release the lock; the next writer may continue."""
        try:
            if self._descriptor is not None:
                with contextlib.suppress(OSError):  # a failing disk; only the holder's process id stays
                    os.ftruncate(self._descriptor, 0)
        finally:  # also after an interrupt
            self._unlock()

    @contextlib.contextmanager
    def hold(self, timeout: float) -> Iterator[None]:
        """Hold the lock within the block; raise the errors of :meth:`acquire`."""
        self.acquire(timeout)
        try:
            yield
        finally:
            self.release()

    def ensure_held(self, timeout: float) -> contextlib.AbstractContextManager[None]:
        """Hold the lock within the block; does nothing if this thread holds it already."""
        if self._holder is threading.current_thread():
            return contextlib.nullcontext()
        return self.hold(timeout)

    @contextlib.contextmanager
    def hold_shared(self, timeout: float) -> Iterator[None]:
        """Keep writers out within the block; raise the errors of :meth:`acquire_shared`."""
        descriptor = self.acquire_shared(timeout)
        try:
            yield
        finally:
            if descriptor is not None:
                release_lock(descriptor)

    def acquire_shared(self, timeout: float) -> int | None:
        """Keep writers out while a reader that cannot register itself with LMDB reads.

        Returns a file descriptor to release after the reads, or None if there is no lock file and therefore no writer.
        Raises LockTimeoutError if a writer holds the lock for ``timeout`` seconds.
        """
        try:
            return self._lock_file(fcntl.LOCK_SH, time.monotonic() + timeout, timeout)
        except FileNotFoundError:
            return None

    def _lock_thread(self, timeout: float) -> float:
        """Acquire the lock among the threads of this process; return the deadline for the lock among processes."""
        while True:
            deadline = time.monotonic() + timeout
            if self._thread_lock.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX)):
                return deadline
            # Without a holder, a thread is about to release the lock, or has just acquired it.
            if self._holder is None and self._thread_lock.acquire(timeout=_HANDOVER_SECONDS):
                return deadline
            holder = self._holder
            if timeout <= 0 or not isinstance(holder, MaintenanceThread):
                name = holder.name if holder is not None else "another thread"
                raise self._make_timeout_error(timeout, f"thread {name!r} of this process ({os.getpid()})")

    def _lock_file(self, kind: int, deadline: float, timeout: float) -> int:
        """Lock the file (``kind``: LOCK_SH or LOCK_EX) and return its descriptor.

        Raises LockTimeoutError, which names ``timeout``, if another process holds the lock at ``deadline``.
        """
        while True:
            descriptor = self._open_lock_file(kind)
            try:
                if not lock_until(descriptor, kind, deadline):
                    raise self._make_timeout_error(timeout, describe_holder(self.path))
                if is_file_at(descriptor, self.path):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            release_lock(descriptor)  # deleted while this process waited: the next process locks another file

    def _open_lock_file(self, kind: int) -> int:
        """Open the file, and create it for an exclusive lock; raise an error that names the remedy."""
        try:
            return os.open(self.path, os.O_RDONLY if kind == fcntl.LOCK_SH else os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise ReadOnlyError(
                    f"{self.path}: {error.strerror}; open the store read-only, or give this user the right "
                    "to write to its directory"
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
        """Release the lock among processes, then the lock among threads."""
        descriptor, self._descriptor = self._descriptor, None
        try:
            if descriptor is not None:
                release_lock(descriptor)
        finally:
            # Only the holder may clear it, so do that before another thread can acquire the lock.
            self._holder = None
            self._thread_lock.release()

    def _make_timeout_error(self, timeout: float, holder: str) -> LockTimeoutError:
        """Return the error for a lock that ``holder`` has held for ``timeout`` seconds."""
        return LockTimeoutError(
            f"{self.path.parent}: {holder} has held the writer lock for {timeout:g} s; wait for it to finish, or allow "
            "more time with lock_timeout (of the command: --lock-timeout)"
        )

    def _reset_after_fork(self) -> None:
        """Drop the copied descriptor in a forked child, so that the lock ends with the parent that holds it."""
        descriptor, self._descriptor, self._holder = self._descriptor, None, None
        self._thread_lock = threading.Lock()
        if descriptor is not None:
            os.close(descriptor)


def describe_holder(path: Path) -> str:
    """Return a description of the process that holds the lock at ``path``, for a message."""
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
