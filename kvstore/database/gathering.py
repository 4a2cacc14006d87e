"""What a write transaction gathers before it is applied: changes that wait, and the state they will be applied to.

In: documents, edges, names and triples as they are stated. On disk: nothing; applying puts them into the LMDB
transaction, which its owner commits. Out: a view that sees them. What is gathered is kept until the commit, so that it
can be applied once more when the map has to grow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from ..changes.changes import Changes
from ..changes.pending import Pending
from ..errors import ClosedError, TransactionError
from ..storage.environment import WriteTransaction
from ..structures.state import State
from .context import Context
from .queryable import Queryable

Owner = TypeVar("Owner", bound="Gathering")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Chunks and edges that may wait before they are applied, so that a long transaction does not hold all its texts in
#: memory twice.
_MOST_PENDING = 4096


class Gathering(Queryable):
    """Changes gathered, applied in turn when there are many, or when something is read."""

    _open = False

    def __init__(self, store: Context, timeout: float | None) -> None:
        self._store = store
        self._context = store
        self._timeout = timeout
        self._thread = threading.current_thread()
        #: Held by the thread while it is in a method.
        self._at_work = threading.RLock()
        self._why_over = "this transaction is over; begin another with store.transaction()"
        self._view: WriteTransaction = store.environment.write(timeout)
        try:
            self._changes = self._changes_of(self._view)
        except BaseException:
            self._view.abort()
            raise
        self._pending = Pending()
        self._applied: list[Pending] = []
        self._open = True

    @property
    def open(self) -> bool:
        """Whether the transaction can still be used."""
        return self._open

    @contextmanager
    def state(self) -> Iterator[State]:
        with self._working():
            self._apply()
            self._changes.write_back()
            yield State(self._view, self._store.settings, self._store.open_indexes)

    def _apply_many(self) -> None:
        """Apply what is pending where that is much."""
        if self._pending.size > _MOST_PENDING:
            self._apply()

    def _apply(self) -> None:
        """Carry what is pending into the LMDB transaction."""
        if not self._pending:
            return
        self._pending.embed(State(self._view, self._store.settings), self._store.embed)
        pending, self._pending = self._pending, Pending()
        self._applied.append(pending)
        try:
            self._changes.apply(pending)
        except BaseException as error:
            self._why_over = f"this transaction is over: an error ended it and undid its changes ({error})"
            self._close()
            raise

    def _replay(self, view: WriteTransaction, hits: Mapping[str, int]) -> None:
        changes = self._changes_of(view)
        for pending in self._applied:
            changes.apply(pending)
        changes.finish(hits)

    def _changes_of(self, view: WriteTransaction) -> Changes:
        settings = self._store.settings
        sorts = self._store.session.temperature_sort
        entity_filter = self._store.kept_filter.take(view, hash_seed=settings.hash_seed, temperature_sort=sorts)
        return Changes(view, settings, entity_filter)

    def _close(self) -> None:
        self._open = False
        self._view.abort()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Use the transaction within the block: raises TransactionError in a thread that has not begun it, ClosedError
        when it is over."""
        self._require_thread()
        with self._at_work:
            if not self._open:
                raise ClosedError(self._why_over)
            yield

    def _require_thread(self) -> None:
        owner = self._other_owner()
        if owner is not None:
            raise TransactionError(
                f"the transaction was begun in thread {owner!r}, and this is thread "
                f"{threading.current_thread().name!r}; use and end it there, or begin another here"
            )

    def _other_owner(self) -> str | None:
        """The name of the thread that has begun this, where it is open and that is not the current thread."""
        return self._thread.name if self._open and self._thread is not threading.current_thread() else None

    def _end_with_store(self, wait: float) -> None:
        """Roll back, in whatever thread, because the store is closed; raises TransactionError where the owner is in a
        method for longer than ``wait`` seconds."""
        if not self._at_work.acquire(timeout=min(wait, threading.TIMEOUT_MAX)):
            raise TransactionError(
                f"{self._store.environment.path}: thread {self._thread.name!r} is at work in a transaction, so the "
                "store cannot be closed; close it when that is over"
            )
        try:
            if self._open:
                self._why_over = "the store was closed, which rolled this transaction back; open the store again"
                self._close()
        finally:
            self._at_work.release()

    def __del__(self) -> None:
        # Nobody holds a reference, so nobody is in a method.
        if self._open:
            self._close()


def working(
    method: Callable[Concatenate[Owner, Parameters], Result],
) -> Callable[Concatenate[Owner, Parameters], Result]:
    """A method of a transaction that is for its thread, while it is open."""

    @wraps(method)
    def checked(self: Owner, /, *args: Parameters.args, **named: Parameters.kwargs) -> Result:
        with self._working():
            return method(self, *args, **named)

    return checked
