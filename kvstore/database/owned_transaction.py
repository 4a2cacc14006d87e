"""A write transaction that belongs to one thread, from its beginning to commit or rollback.
*Pending* changes are in memory; *applied* changes are in LMDB's transaction. If the *map* of the data file (LMDB's
limit of its size) is too small for them, they are applied again in a larger one.

In: the session of an open store, and changes (:mod:`.batched_changes`). On disk: nothing visible until
:meth:`OwnedTransaction.commit`. It holds the writer's lock from start to end. Only the thread that began it can use or
end it; it is rolled back when it is garbage-collected or its store is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from ..changes.document_completion import complete_pending
from ..errors import ClosedError, TransactionError
from ..storage.environment import MapFull, WriteTransaction
from ..storage.free_memory import release_free_memory
from ..structures.state import State
from .batched_changes import BatchedChanges
from .queryable import Queryable
from .session import Session

Method = TypeVar("Method", bound=Callable[..., Any])


def in_owner_thread(method: Method) -> Method:
    """Return a transaction method that requires the owner thread and an open transaction, and then calls ``method``.

    The two have the same type variable, because type checkers then know the type of the method early. Otherwise, mypy
    takes it for Any in the methods of Store that have the signature of this one.
    """

    @wraps(method)
    def call(self: OwnedTransaction, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method; raise TransactionError in another thread, and ClosedError if the transaction has ended."""
        self._require_thread()
        with self._keep_open():
            return method(self, *args, **kwargs)

    return cast(Method, call)


class OwnedTransaction(Queryable):
    """The beginning, commit and rollback of a write transaction, and its owner thread; Transaction adds the changes."""

    _is_open = False
    #: True if the caller ended the transaction, by commit or rollback. An error, or closing the store, also ends it.
    _was_ended_by_caller = False

    def __init__(self, session: Session, timeout: float | None) -> None:
        """Begin a write transaction in this thread, waiting at most ``timeout`` seconds for another writer."""
        self._session = session
        self._timeout = timeout
        self._thread = threading.current_thread()
        #: The number of methods that the owner thread executes and of states that are open; closing the store waits
        #: until it is 0. It is not a lock that a method holds, because any thread may end an unfinished dump().
        self._num_uses = 0
        self._lock = threading.RLock()
        self._use_ended = threading.Condition(self._lock)
        self._closed_message = "this transaction has ended; begin another with store.transaction()"
        self._write_transaction: WriteTransaction = session.environment.write(timeout)
        try:
            self._changes = BatchedChanges(session, self._write_transaction)
        except BaseException:
            self._write_transaction.abort()
            raise
        self._is_open = True

    @property
    def open(self) -> bool:
        """True if the transaction can still be used."""
        return self._is_open

    @contextmanager
    def state(self) -> Iterator[State]:
        """Apply all pending changes, write them to LMDB's transaction, and yield the state with them.

        Raises TransactionError in another thread, and ClosedError if the transaction has ended.
        """
        self._require_thread()
        with self._keep_open():
            self._apply()
            self._changes.write_back()
            with State(
                self._write_transaction, self._session.store.settings, self._session.store.open_indexes
            ) as state:
                yield state

    @in_owner_thread
    def commit(self) -> None:
        """Make the changes durable and visible; an error leaves the store unchanged and ends the transaction.

        Raises StoreFullError if the store cannot grow, and the embedder's errors. In a thread that did not
        begin the transaction, raises TransactionError and the transaction stays open.

        >>> transaction = store.transaction()
        >>> _ = transaction.put("milk", "Milk goes into tea.")
        >>> transaction.commit()
        >>> store.keys("milk"), transaction.open
        (['milk'], False)
        """
        self._was_ended_by_caller = True
        try:
            try:
                self._apply()
                is_applied = True
            except MapFull:  # LMDB's map is too small; the changes are applied again in a larger one
                is_applied = False
            if not self._changes.has_applied:
                self._close()
                return
            # Lookups of names are counted in memory, and written with the next commit.
            with self._session.store.lookups.take_batch() as lookup_counts:
                self._write_changes(lookup_counts, is_applied)
        except BaseException:
            self._close()
            raise
        self._is_open = False
        self._finish_commit()

    def _finish_commit(self) -> None:
        """Free the memory of the committed transaction, and start extending the indexes that are due."""
        was_large = self._write_transaction.is_large
        if was_large:
            # A load touches pages throughout the file; without this, resident memory would grow with the file.
            self._session.environment.release_pages()
        next_chunk, has_new_chunks = self._changes.state.counters.next_chunk, self._changes.has_new_chunks
        del self._changes  # no longer needed, and large after a load
        if was_large:
            release_free_memory()
        if has_new_chunks:  # otherwise the previous commit has begun the extension, if one was due
            self._session.store.index_manager.extend_due_indexes(next_chunk)

    def _write_changes(self, lookup_counts: Mapping[str, int], is_applied: bool) -> None:
        """Commit the changes; if LMDB's map of the file is too small, apply them again in a larger one.

        ``lookup_counts`` has the number of lookups by entity key. ``is_applied`` is False if applying the changes
        already failed because the map was too small. Raises StoreFullError if a larger map is not possible.
        """
        if is_applied:
            try:
                self._changes.commit(lookup_counts)
                return
            except MapFull:
                self._write_transaction.abort()
        if not self._changes.keeps_batches:  # the batches that were applied are lost
            raise self._session.environment.make_map_full_error()
        self._session.environment.write_with_growth(
            lambda view: self._changes.replay(view, lookup_counts), self._timeout
        )

    def rollback(self) -> None:
        """Discard all changes; does nothing if the transaction has ended.

        In a thread that did not begin the transaction, raises TransactionError and the transaction stays open.

        >>> transaction = store.transaction()
        >>> _ = transaction.put("milk", "Milk goes into tea.")
        >>> transaction.rollback()
        >>> store.keys("milk")
        []
        """
        self._require_thread()
        with self._lock:
            self._was_ended_by_caller = True
            if self._is_open:
                self._close()

    def __enter__(self) -> Self:
        """Return the transaction itself, which has begun already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back after an error; do nothing if the block has called commit or rollback.

        Raises ClosedError if something else has ended the transaction: an error that the block caught, or closing the
        store.
        """
        if kind is not None:
            self.rollback()
        elif not self._was_ended_by_caller:
            self.commit()  # raises ClosedError if something else ended it

    def _apply(self, *, expect_more: bool = False) -> None:
        """Derive and embed the missing data of pending changes, and apply them; an error in applying them rolls back.

        ``expect_more`` is True if further changes are likely before the next read.
        """
        if not self._changes.pending:
            return
        complete_pending(self._changes.pending, self._changes.state, self._session.store.embedder.embed)
        with self._roll_back_on_error(BaseException):
            self._changes.apply(expect_more=expect_more)

    @contextmanager
    def _roll_back_on_error(self, error_class: type[BaseException]) -> Iterator[None]:
        """Roll the transaction back if the block raises an ``error_class``, because a change may be incomplete."""
        try:
            yield
        except error_class as error:
            if self._is_open:
                reason = str(error) or type(error).__name__
                self._closed_message = (
                    f"this transaction has ended: an error undid its changes ({reason}); begin another"
                )
                self._close()
            raise

    def _close(self) -> None:
        """End the transaction without a commit: roll it back, and close its state."""
        self._is_open = False
        self._changes.state.close()
        self._write_transaction.abort()

    @contextmanager
    def _keep_open(self) -> Iterator[None]:
        """Keep other threads from ending the transaction within the block. Raises ClosedError if it has ended."""
        with self._lock:
            self._require_open()
            self._num_uses += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_uses -= 1
                self._use_ended.notify_all()

    def _require_open(self) -> None:
        """Raise ClosedError if the transaction has ended."""
        if not self._is_open:
            raise ClosedError(self._closed_message)

    def _require_thread(self) -> None:
        """Raise TransactionError if another thread began this open transaction."""
        owner = self._get_other_owner()
        if owner is not None:
            raise TransactionError(
                f"the transaction was begun in thread {owner!r}, and this is thread "
                f"{threading.current_thread().name!r}; use and end it there, or begin another here"
            )

    def _get_other_owner(self) -> str | None:
        """Return the name of the owner thread, or None if this is that thread or the transaction has ended."""
        return self._thread.name if self._is_open and self._thread is not threading.current_thread() else None

    def _roll_back_before_close(self, timeout: float) -> None:
        """Roll back, from any thread, because the store is being closed.

        In a thread other than the owner, raises TransactionError if the transaction is in use for longer than
        ``timeout`` seconds.
        """
        with self._lock:
            is_other_thread = self._get_other_owner() is not None
            max_wait = min(timeout, threading.TIMEOUT_MAX)
            if is_other_thread and not self._use_ended.wait_for(lambda: self._num_uses == 0, max_wait):
                raise TransactionError(
                    f"{self._session.environment.path}: thread {self._thread.name!r} is executing a method of a "
                    "transaction, or has not finished its dump(), so the store cannot be closed; wait for the thread, "
                    "then close the store"
                )
            if self._is_open:
                self._closed_message = "the store was closed, which rolled this transaction back; open the store again"
                self._close()

    def __del__(self) -> None:
        """Roll back a transaction that was garbage-collected before it ended; no thread is executing its methods."""
        if self._is_open:
            self._close()
