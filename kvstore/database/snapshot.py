"""One state of a store, held open.

In: what an open store shares. On disk: nothing; the pages of the state are kept while it is open. Out: the reading
methods on that state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from ..storage.measured_view import MeasuredView
from ..structures.state import State
from .context import Context
from .queryable import Queryable


class Snapshot(Queryable):
    """One state of a store, unchanged by later commits; made by :meth:`Store.snapshot`, closed by its context or
    ``close()``.

    >>> with store.snapshot() as snapshot:
    ...     _ = store.delete("tea")
    ...     snapshot.get("tea") is None, store.get("tea") is None
    (False, True)
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._snapshot = context.environment.snapshot()
        self._state = context.build_state(self._snapshot)

    def close(self) -> None:
        """Let the snapshot go; using it afterwards raises ClosedError."""
        self._snapshot.close()
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_state"):  # not if it could not be opened
            self._state.close()

    def _measure_pages(self) -> MeasuredView:
        """Count the pages that are read from now on."""
        measured = MeasuredView(self._snapshot)
        self._state.close()
        self._state = self._context.build_state(measured)
        return measured

    @contextmanager
    def state(self) -> Iterator[State]:
        with self._snapshot.pin():
            yield self._state
