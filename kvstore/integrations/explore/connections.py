"""Limits on the number and duration of the explorer's connections, and on the server's log. A connection *waits* until
its request has arrived.

In: connections from anyone who can reach this machine's loopback. Out: uvicorn's protocol, which closes a connection
whose request has not arrived after :data:`HEAD_SECONDS`, and the oldest such connection if there are more than
:data:`MAX_WAITING`. uvicorn's own settings limit the time between two requests and the number of requests, but not of
connections that send nothing. The log has at most one line per second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: The number of seconds in which a request must arrive.
HEAD_SECONDS = 10.0
#: The maximum number of connections whose request has not arrived.
MAX_WAITING = 200
#: The number of connections accepted before the event loop runs their protocols, which close excess ones. Together with
#: those above they stay below 1,024, the usual limit of open files.
MAX_ACCEPTED = 64


class _BoundedProtocol(H11Protocol):
    """A connection that is closed if its request does not arrive in time, or if too many connections wait. Its timer
    runs while it waits.
    """

    def __init__(self, *arguments: Any, waiting_connections: dict[_BoundedProtocol, None], **options: Any) -> None:
        """Create a connection with uvicorn's arguments.

        ``waiting_connections`` has the server's connections whose request has not arrived, the oldest first. It is an
        ordered set, the keys of a dictionary, which all connections of the server share.
        """
        super().__init__(*arguments, **options)
        self._waiting_connections = waiting_connections
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the timer of a new connection. If too many connections wait for a request, close the oldest of them."""
        super().connection_made(transport)
        self._update_request_timeout()
        if len(self._waiting_connections) > MAX_WAITING:
            next(iter(self._waiting_connections))._abort()  # the one that has waited longest

    def data_received(self, data: bytes) -> None:
        """Pass received data on, and stop or start the timer of the request."""
        super().data_received(data)
        self._update_request_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of the request, because the connection has ended."""
        super().connection_lost(exc)
        self._cancel_request_timeout()

    def _update_request_timeout(self) -> None:
        """Start the timer of an expected request, unless it runs; stop it if the request has arrived."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY) or self.transport.is_closing():
            self._cancel_request_timeout()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._abort)
            self._waiting_connections[self] = None

    def _cancel_request_timeout(self) -> None:
        """Cancel the timeout for a request, and remove the connection from the waiting connections."""
        self._waiting_connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _abort(self) -> None:
        """Close the connection without a response."""
        self._cancel_request_timeout()
        self.transport.abort()


def make_connection_factory() -> Callable[..., asyncio.Protocol]:
    """Return a factory of connections for one server, which share its limit on waiting connections."""
    return partial(_BoundedProtocol, waiting_connections={})


class _RateLimitFilter(logging.Filter):
    """A filter that passes one record per second."""

    def __init__(self) -> None:
        """Create a filter that passes the first record."""
        super().__init__()
        self._lock = threading.Lock()
        self._next_time = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """True if no record has passed in the last second."""
        now = time.monotonic()
        with self._lock:
            if now < self._next_time:
                return False
            self._next_time = now + 1
        return True


class _OneLineFormatter(logging.Formatter):
    """A one-line formatter: an error is its last line, or the whole traceback if KVSTORE_TRACEBACK is set."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line, or with its traceback if ``KVSTORE_TRACEBACK`` is set."""
        if os.environ.get("KVSTORE_TRACEBACK"):
            return super().format(record)
        line = record.getMessage().partition("\n")[0]
        error = record.exc_info[1] if record.exc_info else None
        return line if error is None else f"{line}: {traceback.format_exception_only(error)[-1].strip()}"


#: The configuration of the server's log, for :func:`logging.config.dictConfig`.
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"rate limit": {"()": _RateLimitFilter}},
    "formatters": {"one line": {"()": _OneLineFormatter}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["rate limit"], "formatter": "one line"}},
    "loggers": {
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "asyncio": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}
