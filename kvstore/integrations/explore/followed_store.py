"""The store that the explorer shows, reopened if it is replaced on disk.

In: a path. Out: read-only sessions on the current store, each of which sees every commit from its next read on. If
another store replaces the one at the path, that one is opened.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kvstore

from ...errors import StoreNotFoundError
from ...language.bounded_query import BoundedQueries


class FollowedStore:
    """The read-only store at a path, reopened if another store replaces it there.

    The constructor and every session raise the errors of :func:`kvstore.open`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the store at ``path`` read-only."""
        self.path = Path(path)
        self._lock = threading.Lock()
        self._file_identity: tuple[int, int] | None = None
        self._store: kvstore.Store | None = None
        self._sessions: set[kvstore.Store] = set()
        #: The bounded calls of pages, in addition to the queries of their sessions.
        self.calls = BoundedQueries()
        self._get_store()

    @contextmanager
    def open_session(self) -> Iterator[kvstore.Store]:
        """Yield a session on the store at the path, which is reopened if another store has replaced it there."""
        with self._get_store().session() as session:
            with self._lock:
                self._sessions.add(session)
            try:
                yield session
            finally:
                with self._lock:
                    self._sessions.discard(session)

    def interrupt(self) -> None:
        """Interrupt the reads of all pages, which raise QueryInterruptedError."""
        with self._lock:
            sessions = list(self._sessions)
        self.calls.interrupt()
        for session in sessions:
            session.interrupt()

    def _get_store(self) -> kvstore.Store:
        """Return the open store, reopened if another one has replaced it at the path."""
        with self._lock:
            if self._store is not None and (self._store.closed or identify_file(self.path) != self._file_identity):
                self._store.close()  # waits for the readers of the old store
                self._store = None
            if self._store is None:
                self._store = kvstore.open(self.path, readonly=True)
                self._file_identity = identify_file(self.path)
            return self._store

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()


def identify_file(path: Path) -> tuple[int, int]:
    """Return the device and inode of the data file of the store at ``path``; they change if the store is replaced.

    Raises StoreNotFoundError if the file does not exist or cannot be reached.
    """
    try:
        status = os.stat(path / "data.mdb")
    except (FileNotFoundError, NotADirectoryError):
        raise StoreNotFoundError(f"{path}: the store no longer exists; create it again, or stop the explorer") from None
    except OSError as error:
        raise StoreNotFoundError(
            f"{path}: the store cannot be read any more ({error.strerror}); make it readable, or stop the explorer"
        ) from None
    return status.st_dev, status.st_ino
