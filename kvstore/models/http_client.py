"""HTTP to the endpoints of models, by httpx (the ``llm`` extra), with one connection pool per process. All requests run
in the event loop of one thread. Errors of httpx become OSError, or ValueError if another attempt would not help.

In: an address, headers, a body, and timeouts. Out: a :class:`Reply`, read as it arrives. Proxies (``HTTP_PROXY``,
``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``) and certificates (``SSL_CERT_FILE``, ``SSL_CERT_DIR``) come from the
environment. Connections are reused, redirections are not followed, and cookies are not stored. Every wait, for a name,
a connection or a byte, ends at its timeout, and the caller can be interrupted. A broken connection raises OSError, a
slow one TimeoutError; an invalid address, proxy, certificate or answer raises ValueError.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import socket
import ssl
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeVar

from ..errors import KvstoreError
from ..extensions.extras import import_extra
from ..process.closed_on_exit import ClosedOnExit
from .timeouts import Timeouts

Result = TypeVar("Result")

#: The maximum size in bytes of an answer that is read whole: 128 vectors of 16,384 numbers in 24 characters are 50 MB.
MAX_JSON_BYTES = 1 << 26
#: The number of bytes of a server's error message that are read.
MAX_ERROR_BYTES = 1 << 16
#: The seconds that the end of a stream can take after its last event.
_FINISH_SECONDS = 0.1

_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_ENVIRONMENT_VARIABLES = (*_PROXY_VARIABLES, *map(str.upper, _PROXY_VARIABLES), *_CERTIFICATE_VARIABLES)


class Reply(ClosedOnExit):
    """An answer that is being received, until a deadline in monotonic time. Close it with ``close`` or by leaving its
    context.
    """

    def __init__(self, response: Any, connections: _Connections, timeouts: Timeouts, deadline: float) -> None:
        """Wrap an httpx response, read in the event loop of ``connections`` until ``deadline`` (monotonic time)."""
        self._response = response
        self._body = response.aiter_bytes()
        self._connections = connections
        self._timeouts = timeouts
        self._deadline = deadline
        self.status: int = response.status_code
        self.reason: str = response.reason_phrase
        self.headers: Mapping[str, str] = response.headers
        self.content_type: str = response.headers.get("Content-Type", "text/plain").partition(";")[0].strip().lower()

    def read(self, seconds: float) -> bytes:
        """Return the next bytes of the body as they arrive; empty bytes at its end.

        Raises TimeoutError if nothing arrives within ``seconds`` or before the deadline of the reply.
        """
        remaining_seconds = min(seconds, self._deadline - time.monotonic())
        if remaining_seconds <= 0:
            raise TimeoutError("timed out")
        return self._connections.run(self._read_available(), remaining_seconds)

    async def _read_available(self) -> bytes:
        """Wait for the next bytes of the body, and return them; empty bytes at the end."""
        async for data in self._body:
            if data:
                return bytes(data)
        return b""

    def read_error_body(self) -> bytes:
        """Return the body of an error reply, up to :data:`MAX_ERROR_BYTES` bytes, and close the reply.

        A broken connection or a timeout only ends the body, because the status is already known.
        """
        body = b""
        self._deadline = min(self._deadline, time.monotonic() + self._timeouts.next_part)
        with self, suppress(OSError, ValueError):
            while len(body) < MAX_ERROR_BYTES:
                data = self.read(self._timeouts.next_part)
                if not data:
                    break
                body += data
        return body[:MAX_ERROR_BYTES]

    def read_json(self) -> Any:
        """Return the answer decoded from JSON, and close the reply; raises ValueError if it is too long or not JSON."""
        body = bytearray()
        with self:
            while data := self.read(self._timeouts.next_part):
                body += data
                if len(body) > MAX_JSON_BYTES:
                    raise ValueError(f"the answer is longer than {MAX_JSON_BYTES >> 20} MiB")
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"the answer is not JSON ({problem})") from None

    def finish(self) -> None:
        """Read the end of a complete answer if it is available immediately, so that the connection can be reused."""
        with suppress(OSError, ValueError):
            self.read(_FINISH_SECONDS)

    def close(self) -> None:
        """Close the connection, which stops a server that is still writing."""
        # The garbage collector can close a reply in the thread of the event loop, which cannot wait for itself.
        is_in_loop = threading.current_thread().name == _THREAD
        run = self._connections.start if is_in_loop else self._connections.run
        with suppress(OSError, ValueError):
            run(self._response.aclose(), self._timeouts.connect)


def post(
    url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts, deadline: float, error: type[KvstoreError]
) -> Reply:
    """Send a POST request and return the reply once its header has arrived; the caller reads the reply's body.

    Every wait, even for the reply's body, ends at ``deadline`` (monotonic time). Raises ``error`` if httpx is not
    installed, OSError (such as TimeoutError) for a broken connection, and ValueError for an error that another attempt
    would not fix.
    """
    httpx = import_extra("httpx", "llm", "to ask an endpoint", error=error)
    connections = _get_connections()
    remaining_seconds = deadline - time.monotonic()
    # Answers must not be compressed: a part of a stream would wait for more data.
    all_headers = {"Accept-Encoding": "identity", **headers}
    connect, first_part = min(timeouts.connect, remaining_seconds), min(timeouts.first_part, remaining_seconds)
    timeout = httpx.Timeout(connect=connect, pool=connect, read=first_part, write=first_part)

    async def send() -> Any:
        """Send the request in the event loop, and return httpx's response, whose body is not read yet."""
        client = connections.get_client(httpx)
        return await client.send(
            client.build_request("POST", url, headers=all_headers, content=body, timeout=timeout), stream=True
        )

    # The limit of the whole request, in addition to the timeouts of each wait.
    return Reply(connections.run(send(), min(connect + first_part, remaining_seconds)), connections, timeouts, deadline)


#: The thread of all requests. httpx must not log there: servers can repeat a key.
_THREAD = "kvstore-http"
for _logger in ("httpx", "httpcore.http11"):
    logging.getLogger(_logger).addFilter(lambda record: record.threadName != _THREAD)


class _Connections:
    """The event loop of all requests in its thread, and an httpx client for each environment used so far."""

    def __init__(self) -> None:
        """Start the thread of the event loop in which all requests run; connections are opened on first use."""
        self._loop = asyncio.new_event_loop()
        #: The httpx client for each set of values of the environment variables for proxies and certificates.
        self._clients: dict[tuple[str | None, ...], Any] = {}
        threading.Thread(target=self._loop.run_forever, name=_THREAD, daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Run a coroutine in the event loop, and wait for its result. Raises TimeoutError after ``seconds``."""
        future = self.start(coroutine, seconds)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, Result], seconds: float) -> Future[Result]:
        """Start a coroutine in the event loop, which cancels it after ``seconds``, and return its future."""
        return asyncio.run_coroutine_threadsafe(_run_timed(coroutine, seconds), self._loop)

    def get_client(self, httpx: Any) -> Any:
        """Return the httpx client with the proxies and certificates of the current environment variables.

        A client is created once per environment, because it holds the open connections. Raises ValueError if a variable
        names an invalid proxy or certificate.
        """
        environment = tuple(os.environ.get(name) for name in _ENVIRONMENT_VARIABLES)
        if environment not in self._clients:
            self._clients[environment] = _create_client(httpx)
        return self._clients[environment]


async def _run_timed(coroutine: Coroutine[Any, Any, Result], seconds: float) -> Result:
    """Await a coroutine for up to ``seconds``, and convert the errors of httpx to OSError and ValueError."""
    try:
        async with asyncio.timeout(None if seconds == math.inf else max(0, seconds)):
            return await coroutine
    except TimeoutError:
        raise TimeoutError("timed out") from None
    except (OSError, ValueError):
        raise
    except Exception as problem:
        error = _convert_error(problem)
    raise error  # outside of the except clause, so that it does not refer to the original error


def _create_client(httpx: Any) -> Any:
    """Return a new httpx client; raises ValueError if the environment names an invalid proxy or certificate."""
    variable_names = ", ".join(_CERTIFICATE_VARIABLES)
    try:
        context = httpx.create_ssl_context()
    except (OSError, ValueError) as problem:
        raise ValueError(
            f"the certificates that {variable_names} name cannot be read ({_find_reason(problem)}); correct the "
            "variable"
        ) from None
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    try:
        return httpx.AsyncClient(verify=context, cookies=cookies, follow_redirects=False)
    except ImportError:
        raise ValueError("a SOCKS proxy needs the package socksio; run pip install 'httpx[socks]'") from None
    except Exception:
        # The message can contain the password of a proxy.
        message = "an address in HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY is invalid; correct the variable"
    raise ValueError(message)  # outside of the except clause, so that it does not refer to the original error


def _convert_error(problem: Exception) -> Exception:
    """Return the standard exception for an error of httpx: TimeoutError, ConnectionError or ValueError.

    A ValueError is an error that another attempt would not fix.
    """
    import httpx

    if isinstance(problem, httpx.TimeoutException):
        return TimeoutError("timed out")
    for cause in _list_causes(problem):
        if isinstance(cause, ssl.SSLCertVerificationError):
            remedy = f"set {_CERTIFICATE_VARIABLES[0]} to the certificate of your own authority"
            return ValueError(f"the server's certificate is not trusted ({cause.verify_message}); {remedy}")
    if isinstance(problem, (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.DecodingError)):
        return ValueError(_find_reason(problem))
    return ConnectionError(_find_reason(problem))


def _list_causes(problem: BaseException | None) -> list[BaseException]:
    """Return an exception and the chain of exceptions that led to it (causes or contexts); empty for None.

    A group of exceptions in the chain is replaced by its first exception.
    """
    causes: list[BaseException] = []
    while problem is not None and problem not in causes:
        causes.append(problem)
        cause = problem.__cause__ or problem.__context__
        problem = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
    return causes


def _find_reason(problem: BaseException) -> str:
    """Return the message of the first system error among an error and its causes, or the error's own message."""
    for cause in _list_causes(problem):
        if isinstance(cause, (ssl.SSLError, socket.gaierror)) and cause.strerror:
            return str(cause.strerror)
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno)
    return str(problem) or type(problem).__name__


_process_connections: _Connections | None = None
_lock = threading.Lock()


def _get_connections() -> _Connections:
    """Return the connections of this process, which the first call creates."""
    global _process_connections
    with _lock:
        if _process_connections is None:
            _process_connections = _Connections()
        return _process_connections


def _reset_after_fork() -> None:
    """Drop the connections in a forked child, which lacks the parent's thread."""
    global _process_connections, _lock
    _process_connections, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_reset_after_fork)
