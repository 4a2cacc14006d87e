"""Shared open lock: each process that has a store open shares a lock on the data file, and COMPACT takes it alone.

COMPACT gives the data file's name to another file. A process that had the old one open would go on in a file without a
name, and what it wrote there would be lost; so nobody may have it open, and whoever opens it makes sure, once the lock
is got, that the file locked still has the name. Nor may LMDB's table of readers be made anew while anybody has the
store open: a writer with a table of its own would take pages for free that others read. So who finds none makes it
while nobody else is there. In: the data file's path. On disk: nothing but the ``flock``, which needs no right to write
and which the system drops when its holder dies. A lock held by others raises the error that says who and what to do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import LockTimeoutError, ReadOnlyError, StoreNotFoundError, TransactionError
from .file_lock import MAX_PAUSE, FileIdentity, identity_of, is_file_at, lock_until, release_lock
from .location import READERS_FILE, WRITER_FILE
from .readers_table import is_reader_table_missing, reserve_reader_table
from .writer_lock import describe_holder


class SharedOpenLock:
    """The lock of one open store. Not for concurrent use: ``open_file.py`` decides when."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Device and inode of the file that is locked; None before and after.
        self.identity: FileIdentity | None = None
        self._descriptor: int | None = None
        self._successor: int | None = None

    def acquire(self, timeout: float) -> None:
        """Share the lock on the file that has the name; does nothing when that is done already.

        Raises LockTimeoutError when a COMPACT of another process lasts longer than ``timeout`` seconds, or when another
        process has the store open for so long and the table of readers is gone; StoreNotFoundError and ReadOnlyError
        when the file is not there or may not be read; StoreFullError where there is no room for the table.
        """
        deadline = time.monotonic() + timeout
        while self._descriptor is None:
            try:
                descriptor = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError as error:
                raise StoreNotFoundError(f"{self.path}: there is no such file any more; check the path") from error
            except OSError as error:
                raise ReadOnlyError(
                    f"{self.path}: cannot be opened ({error.strerror}); get the right to read it"
                ) from error
            try:
                if not lock_until(descriptor, fcntl.LOCK_SH, deadline):
                    raise LockTimeoutError(
                        f"{self.path.parent}: {describe_holder(self.path.with_name(WRITER_FILE))} has been compacting "
                        f"the store for the whole {timeout:g} s; wait for it to finish, or allow more time with "
                        "lock_timeout (of the command: --lock-timeout)"
                    )
                if is_file_at(descriptor, self.path) and self._ensure_reader_table(descriptor, deadline):
                    self._descriptor, self.identity = descriptor, identity_of(descriptor)
            finally:
                if self._descriptor is None:
                    os.close(descriptor)

    def get_descriptor(self) -> int:
        """Return the descriptor of the file that is locked, which may have no name any more."""
        assert self._descriptor is not None
        return self._descriptor

    def release(self) -> None:
        """Give the lock up; does nothing when it is not held."""
        for descriptor in self._take_descriptors():
            release_lock(descriptor)

    def __del__(self) -> None:
        self.release()  # a store that is dropped without being closed

    def reset_after_fork(self) -> None:
        """In a forked child: drop the copied descriptors, so that the lock ends with the parent."""
        for descriptor in self._take_descriptors():
            os.close(descriptor)

    @contextlib.contextmanager
    def hold_exclusively(self) -> Iterator[None]:
        """Hold the lock alone within the block, and share it again afterwards; the writer's lock must be held.

        Raises TransactionError at once when another process has the store open, or when the file was replaced by
        somebody else.
        """
        assert self._descriptor is not None
        try:
            if not lock_until(self._descriptor, fcntl.LOCK_EX, 0):
                raise TransactionError(
                    f"{self.path.parent}: another process has this store open, and COMPACT replaces the file that it "
                    f"reads; close the store there and try again (lsof {self.path} shows who has it)"
                )
            if not is_file_at(self._descriptor, self.path):
                raise TransactionError(
                    f"{self.path}: another file was put in place of the one that is open here, so COMPACT would "
                    "destroy it; close this store and open it again"
                )
            yield
        finally:
            if self._successor is not None:
                release_lock(self._successor)
                self._successor = None
            # An attempt that failed has given the shared lock up. Only a holder of the writer's lock could be in the
            # way now, so this waits for nobody.
            if self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def replace(self, successor: Path) -> None:
        """Give the data file's name to ``successor``, which is locked before anybody can open it by that name.

        To be called within :meth:`hold_exclusively`. Raises OSError; then nothing has changed.
        """
        assert self._descriptor is not None
        self._successor = os.open(successor, os.O_RDONLY)
        fcntl.flock(self._successor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(successor, self.path)
        old_descriptor, self._descriptor, self._successor = self._descriptor, self._successor, None
        self.identity = identity_of(self._descriptor)
        release_lock(old_descriptor)

    def require_reader_table(self, timeout: float) -> None:
        """See to it that there is a table of readers when the store is opened again; raises as :meth:`acquire` does."""
        assert self._descriptor is not None
        try:
            self._ensure_reader_table(self._descriptor, time.monotonic() + timeout)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def _ensure_reader_table(self, descriptor: int, deadline: float) -> bool:
        """See to it that there is a table of readers; False where the lock on the data file was lost over that."""
        directory = self.path.parent
        if not is_reader_table_missing(directory):
            return True
        while not lock_until(descriptor, fcntl.LOCK_EX, time.monotonic() + MAX_PAUSE):
            if not is_reader_table_missing(directory):
                return False  # somebody else was about to make it
            if time.monotonic() >= deadline:
                raise self._make_table_error()
        if is_reader_table_missing(directory) and is_file_at(descriptor, self.path):
            reserve_reader_table(directory)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return is_file_at(descriptor, self.path)

    def _make_table_error(self) -> LockTimeoutError:
        return LockTimeoutError(
            f"{self.path.with_name(READERS_FILE)}: deleted while another process has the store open, so a writer could "
            f"not tell which pages are being read; close the store there and open it again (lsof {self.path} shows who "
            "has it)"
        )

    def _take_descriptors(self) -> list[int]:
        descriptors = [descriptor for descriptor in (self._descriptor, self._successor) if descriptor is not None]
        self._descriptor = self._successor = self.identity = None
        return descriptors
