"""The count of open transactions, and moments without any.

LMDB's file may be mapped anew or closed only while no transaction of the process is open: a buffer read afterwards
would crash the process. In: transactions that begin and end. Out: :meth:`TransactionGate.alone`, which waits for those
that are open, keeps new ones waiting, and raises the error it is told when its time is over.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ..errors import KvstoreError


class CountedTransaction(Protocol):
    """What is open as long as it is counted."""

    counted: bool


class TransactionGate:
    """One gate for all threads of a process and one environment."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.open = 0
        self._alone = False

    @contextmanager
    def entering(self) -> Iterator[None]:
        """Begin a transaction within the block; it counts as open unless the block raises."""
        with self.condition:
            self.condition.wait_for(lambda: not self._alone)
            yield
            self.open += 1

    def leave(self) -> None:
        """Count a transaction as ended."""
        with self.condition:
            self.open -= 1
            self.condition.notify_all()

    def forget(self, one: CountedTransaction) -> bool:
        """Count a transaction as ended that is counted; returns whether it was."""
        with self.condition:
            if not one.counted:
                return False
            self.open -= 1
            one.counted = False  # nothing comes between this line and the one before, not even an interrupt
            self.condition.notify_all()
            return True

    @contextmanager
    def alone(self, wait: float, error: type[KvstoreError], purpose: str) -> Iterator[None]:
        """Run the block while no transaction is open; raises ``error`` when some still are after ``wait`` seconds."""
        with self.condition:
            self.condition.wait_for(lambda: not self._alone)
            self._alone = True
            try:
                if not self.condition.wait_for(lambda: self.open == 0, wait):
                    raise error(
                        f"{purpose}, but {self.open} snapshots or transactions of this process are still open after "
                        f"{wait:g} s; end them and try again"
                    )
                yield
            finally:
                self._alone = False
                self.condition.notify_all()
