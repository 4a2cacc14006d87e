"""Interruption of a running query, checked by the thread that runs it.

In: an event for this thread. Out: True if it is set. SQLite checks between its steps (:mod:`.relational`), so a loop of
any length ends soon. It does not check within a call to one of its functions, so the values that a bounded query
creates are limited too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Bytes of the longest text that a bounded query can create or read.
MAX_VALUE_BYTES = 1 << 20

_thread_state = threading.local()


@contextmanager
def allow_interruption(event: threading.Event) -> Iterator[None]:
    """Interrupt the queries of this thread in the ``with`` block as soon as ``event`` is set.

    The queries are also bounded: SQLite limits the length of their values (:data:`MAX_VALUE_BYTES`).
    """
    _thread_state.event = event
    try:
        yield
    finally:
        _thread_state.event = None


def limits_value_size() -> bool:
    """True if the queries of this thread can be interrupted, and so run with a limit on the size of values.

    SQLite cannot be interrupted while one of its functions creates a value.
    """
    return getattr(_thread_state, "event", None) is not None


def is_interrupted() -> bool:
    """True if the query of this thread must stop: the event that interrupts it is set."""
    event = getattr(_thread_state, "event", None)
    return event is not None and event.is_set()
