"""The count of open transactions, and exclusive operations without any.

LMDB's file may be remapped or closed only while no transaction of the process is open: reading a buffer afterwards
would crash the process. In: transactions that begin and end. Out: :meth:`TransactionGate.exclude_transactions`, which
waits for the open ones, makes new ones wait, and raises the caller's error after a timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ..errors import KvstoreError


class CountedTransaction(Protocol):
    """A view whose transaction is open as long as it is counted.

    ``shared_lock`` is the descriptor of the writer lock, shared by a reader that cannot register itself with LMDB.
    """

    is_counted: bool
    writable: bool
    shared_lock: int | None


class TransactionGate:
    """The count of the open transactions on one environment, for all threads of the process."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.num_open = 0
        self._is_exclusive = False

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Begin a transaction within the block; it counts as open unless the block raises."""
        with self.condition:
            while self._is_exclusive:
                self.condition.wait()
            yield
            self.num_open += 1

    def leave(self) -> None:
        """Count a transaction as ended."""
        with self.condition:
            self.num_open -= 1
            self.condition.notify_all()

    def leave_if_counted(self, transaction: CountedTransaction) -> bool:
        """Count a transaction as ended unless that was done already; return True if it was still counted."""
        with self.condition:
            if not transaction.is_counted:
                return False
            self.num_open -= 1
            # No interrupt can come between this line and the previous one.
            transaction.is_counted = False
            self.condition.notify_all()
            return True

    @contextmanager
    def exclude_transactions(self, wait: float, error_type: type[KvstoreError], purpose: str) -> Iterator[None]:
        """Run the block while no transaction is open; raise ``error_type`` if any stays open for ``wait`` seconds."""
        with self.condition:
            self.condition.wait_for(lambda: not self._is_exclusive)
            self._is_exclusive = True
            try:
                if not self.condition.wait_for(lambda: self.num_open == 0, wait):
                    raise error_type(
                        f"{purpose}, but {self.num_open} snapshots or transactions of this process are still open "
                        f"after {wait:g} s; end them and try again"
                    )
                yield
            finally:
                self._is_exclusive = False
                self.condition.notify_all()
