"""What is to stop a query that is under way, asked by the thread that runs it.

In: an event for this thread. Out: whether it is set. SQLite asks between its steps (:mod:`.relational`), so a loop of
any length ends soon; within one call of one of its functions it does not ask, which is why the values that a bounded
query makes are bounded too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Bytes of the longest text that a bounded query may make or read.
LONGEST_VALUE = 1 << 20

_of_thread = threading.local()


@contextmanager
def interruptible(by: threading.Event) -> Iterator[None]:
    """Let queries of this thread be stopped, and bounded, within the block."""
    _of_thread.event = by
    try:
        yield
    finally:
        _of_thread.event = None


def bounded() -> bool:
    """Whether the queries of this thread are bounded."""
    return getattr(_of_thread, "event", None) is not None


def interrupted() -> bool:
    """Whether the query of this thread is to stop."""
    event = getattr(_of_thread, "event", None)
    return event is not None and event.is_set()
