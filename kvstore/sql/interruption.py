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
MAX_VALUE_BYTES = 1 << 20

_thread_state = threading.local()


@contextmanager
def allow_interruption(event: threading.Event) -> Iterator[None]:
    """Let queries of this thread be stopped, and bounded, within the block."""
    _thread_state.event = event
    try:
        yield
    finally:
        _thread_state.event = None


def is_bounded() -> bool:
    """Whether the queries of this thread are bounded."""
    return getattr(_thread_state, "event", None) is not None


def is_interrupted() -> bool:
    """Whether the query of this thread is to stop."""
    event = getattr(_thread_state, "event", None)
    return event is not None and event.is_set()
