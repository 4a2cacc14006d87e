"""A snapshot: one state of a store (its content after one commit), held open.

In: a session of an open store. On disk: nothing is written; pages of the state are not reused while the snapshot is
open. Out: the reading methods on that state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..process.closed_on_exit import ClosedOnExit
from ..storage.measured_view import MeasuredView
from ..structures.state import State
from .queryable import Queryable
from .session import Session


class Snapshot(ClosedOnExit, Queryable):
    """One state of a store, unaffected by later commits; created by :meth:`Store.snapshot`.

    It is closed by leaving its context or by ``close()``.

    >>> with store.snapshot() as snapshot:
    ...     _ = store.delete("tea")
    ...     snapshot.get("tea") is None, store.get("tea") is None
    (False, True)
    """

    def __init__(self, session: Session) -> None:
        """Open a snapshot of the last commit."""
        self._session = session
        self._snapshot = session.environment.snapshot()
        self._state = session.store.build_state(self._snapshot)

    def __repr__(self) -> str:
        """Return the path of the store, and ``closed`` if the snapshot is closed."""
        closed = ", closed" if self._snapshot.closed else ""
        return f"<kvstore.Snapshot {str(self._session.environment.path)!r}{closed}>"

    def close(self) -> None:
        """Close the snapshot; using it afterwards raises ClosedError."""
        self._snapshot.close()
        self._state.close()

    def __del__(self) -> None:
        """Close the state of a snapshot that was dropped without being closed."""
        if hasattr(self, "_state"):  # missing if opening failed
            self._state.close()

    def _start_measuring_pages(self) -> MeasuredView:
        """Reopen the state through a view that counts the pages of the data file read from now on; return the view."""
        measured_view = MeasuredView(self._snapshot)
        self._state.close()
        self._state = self._session.store.build_state(measured_view)
        return measured_view

    @contextmanager
    def state(self) -> Iterator[State]:
        """Yield the state of the snapshot, which stays open within the ``with`` block."""
        with self._snapshot.hold_open():
            yield self._state
