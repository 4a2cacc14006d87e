"""Shared open lock: each process with an open store shares a lock on the data file, and COMPACT holds it exclusively.

COMPACT gives the data file's name to another file. A process that had the old file open would continue in a file
without a name, and lose everything it wrote. So no other process may have it open. A process that opens the store
checks, after acquiring the lock, that the locked file still has the name. LMDB's reader table must also not be
recreated while a process has the store open: a writer with a separate table would consider pages free that others read.
A process that finds no table therefore creates it while no other has the store open. In: the data file's path. On disk:
only the ``flock``, which needs no write permission and which the system drops if its holder dies. If others hold the
lock, the error names the holder and the remedy.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import LockTimeoutError, ReadOnlyError, StoreNotFoundError, TransactionError
from .file_lock import MAX_PAUSE, FileIdentity, get_file_identity, is_file_at, lock_until, release_lock
from .location import READERS_FILE, WRITER_FILE
from .readers_table import can_create_reader_table, reserve_reader_table
from .writer_lock import describe_holder


class SharedOpenLock:
    """The lock of one open store. Not thread-safe: ``open_file.py`` serializes its use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Device and inode of the locked file; None if it is not locked.
        self.identity: FileIdentity | None = None
        self._descriptor: int | None = None
        #: The descriptor of the file that will replace the locked one, or None.
        self._successor: int | None = None

    def acquire(self, timeout: float) -> None:
        """Acquire the shared lock on the file that has the name; does nothing if that is already done.

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
            except OSError as error:
                raise ReadOnlyError(
                    f"{self.path}: cannot be opened ({error.strerror}); give this user the right to read it"
                ) from error
            try:
                if not lock_until(descriptor, fcntl.LOCK_SH, deadline):
                    raise LockTimeoutError(
                        f"{self.path.parent}: {describe_holder(self.path.with_name(WRITER_FILE))} has been compacting "
                        f"the store for {timeout:g} s; wait for it to finish, or allow more time with lock_timeout (of "
                        "the command: --lock-timeout)"
                    )
                if is_file_at(descriptor, self.path) and self._create_missing_table(descriptor, deadline):
                    self._descriptor, self.identity = descriptor, get_file_identity(descriptor)
            finally:
                if self._descriptor is None:
                    os.close(descriptor)

    def get_descriptor(self) -> int:
        """Return the descriptor of the locked file, which may have been deleted or replaced meanwhile."""
        assert self._descriptor is not None
        return self._descriptor

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        for descriptor in self._take_descriptors():
            release_lock(descriptor)

    def __del__(self) -> None:
        self.release()  # a store that is dropped without being closed

    def reset_after_fork(self) -> None:
        """Drop the copied descriptors in a forked child, so that the lock ends with the parent."""
        for descriptor in self._take_descriptors():
            os.close(descriptor)

    @contextlib.contextmanager
    def hold_exclusively(self) -> Iterator[None]:
        """Hold the lock exclusively within the block, and share it again afterwards; the writer lock must be held.

        Raises TransactionError at once if another process has the store open, or if the file was replaced by another
        program.
        """
        assert self._descriptor is not None
        try:
            if not lock_until(self._descriptor, fcntl.LOCK_EX, deadline=0):  # one attempt
                raise TransactionError(
                    f"{self.path.parent}: another process has this store open, and COMPACT replaces the file that it "
                    f"reads; close the store there and try again (lsof {self.path} lists the processes)"
                )
            if not is_file_at(self._descriptor, self.path):
                raise TransactionError(
                    f"{self.path}: another file has replaced the one that is open here, and COMPACT would overwrite "
                    "it; close this store and open it again"
                )
            yield
        finally:
            if self._successor is not None:
                release_lock(self._successor)
                self._successor = None
            # A failed attempt has lost the shared lock. Only a holder of the writer lock could be in the way now, so
            # this never blocks.
            if self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def replace(self, successor: Path) -> None:
        """Give the data file's name to ``successor``, which is locked before another process can open it by that name.

        Must be called within :meth:`hold_exclusively`. Raises OSError; then nothing has changed.
        """
        assert self._descriptor is not None
        self._successor = os.open(successor, os.O_RDONLY)
        fcntl.flock(self._successor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(successor, self.path)
        old_descriptor, self._descriptor, self._successor = self._descriptor, self._successor, None
        self.identity = get_file_identity(self._descriptor)
        release_lock(old_descriptor)

    def ensure_reader_table(self, timeout: float) -> None:
        """Create the reader table if it is missing, before the store is reopened.

        Raises the errors of :meth:`acquire`.
        """
        assert self._descriptor is not None
        try:
            self._create_missing_table(self._descriptor, time.monotonic() + timeout)
        finally:  # an attempt to lock the file exclusively loses the shared lock
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def _create_missing_table(self, descriptor: int, deadline: float) -> bool:
        """Create the reader table if it is missing; return False if the lock on the data file was lost meanwhile."""
        directory = self.path.parent
        if not can_create_reader_table(directory):
            return True
        # No other process may have the store open. Wait in short attempts, because another process may create the
        # table.
        while not lock_until(descriptor, fcntl.LOCK_EX, time.monotonic() + MAX_PAUSE):
            if not can_create_reader_table(directory):
                return False  # another process was about to create it
            if time.monotonic() >= deadline:
                raise self._make_table_error()
        if can_create_reader_table(directory) and is_file_at(descriptor, self.path):
            reserve_reader_table(directory)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return is_file_at(descriptor, self.path)

    def _make_table_error(self) -> LockTimeoutError:
        """Return the error for a missing reader table while another process has the store open."""
        return LockTimeoutError(
            f"{self.path.with_name(READERS_FILE)}: deleted while another process has the store open, so a writer could "
            f"not know which pages are being read; close the store there and open it again (lsof {self.path} lists the "
            "processes)"
        )

    def _take_descriptors(self) -> list[int]:
        """Forget the locked files, and return their descriptors."""
        descriptors = [descriptor for descriptor in (self._descriptor, self._successor) if descriptor is not None]
        self._descriptor = self._successor = self.identity = None
        return descriptors
