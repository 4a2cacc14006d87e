"""HTTP endpoints of the OpenAI protocol: one JSON request, its answer, whole or streamed, and clear errors. A request
is sent in one or several *attempts*. Words of a server's message that share characters with the API key are *masked*.

In: a path and a payload. Out: the decoded answer, or what the caller reads from a :class:`Reply`. If a server is busy
or a connection breaks, the request is repeated after growing pauses, or at the time that the server names. kvstore
waits for a server that is loading its model as long as for the first part of an answer. A final failure raises the
given error class, with the address, the status and the server's message. The key is sent only in the header of the
request: never along with a redirection to another address, and never in a message or in an exception that caused it.
Therefore a key is checked when it is read, and an invalid address is not repeated.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..errors import KvstoreError
from ..process.logger import get_logger
from .text_pieces import join_surrogates
from .timeouts import Timeouts

if TYPE_CHECKING:
    from .http_client import Reply

#: The address of OpenAI, and the environment variables for another address and for the key.
DEFAULT_BASE_URL = "https://api.openai.com/v1"
BASE_URL_VARIABLES = ("KVSTORE_OPENAI_BASE_URL", "OPENAI_BASE_URL")
KEY_VARIABLE = "OPENAI_API_KEY"

#: The HTTP statuses after which a request is sent again: the server is busy, or fails.
RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504})

#: Seconds between two requests to a server that is loading its model.
LOADING_PAUSE = 0.5
#: Seconds before the second attempt, doubled for each further one, and the longest wait that a server can request.
FIRST_PAUSE = 0.5
MAX_PAUSE = 30.0

Result = TypeVar("Result")

#: The number of characters that a word of a server's message and the key must share for the word to be masked.
_MIN_SHARED_LENGTH = 5
#: The maximum length of a server's message in an error.
_MAX_MESSAGE_CHARACTERS = 300


def check_address(url: str, error: type[KvstoreError], name: str = "base_url") -> None:
    """Raise ``error`` for an invalid server address, or for an address with a user, password or query.

    Messages show addresses, so they must contain no secret. ``name`` is the source of the address, such as an
    environment variable. The message of ``error`` does not repeat the address, because it can contain a secret.
    """
    with contextlib.suppress(ValueError):
        parts = urllib.parse.urlsplit(url)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise error(
                f"{name}: the URL of an endpoint must not contain a user, password or query; put the key into the "
                "environment"
            )
        parts.port  # noqa: B018 (raises ValueError if it is not a number)
        is_printable = url.isascii() and url.isprintable() and " " not in url
        if is_printable and parts.scheme in ("http", "https") and parts.hostname:
            return
    raise error(f"{name} is not the URL of an endpoint; use a URL such as http://HOST:PORT/v1 or https://...")


def _clean_key(key: str, error: type[KvstoreError], name: str) -> str | None:
    """Return an API key without surrounding white space, or None if it is empty.

    Raises ``error`` if the key cannot be sent in an HTTP header; ``name`` is the source of the key in the message.
    """
    if not isinstance(key, str):
        raise error(f"{name} must be a string, not {type(key).__name__}")
    key = key.strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise error(
            f"{name}: the key contains a space, line break, control character or non-ASCII letter; set it again"
        )
    return key or None


class _FailedAttempt(NamedTuple):
    """A failed attempt of a request, which another attempt may repeat with success.

    ``requested_wait`` is the number of seconds that the server asks kvstore to wait, if it does. ``is_loading`` is
    True if the server is up but its model is not ready.
    """

    reason: str
    requested_wait: float | None = None
    is_loading: bool = False


class Endpoint:
    """One server with its address and API key. It raises one class of errors (*unavailable*) if the server is down,
    busy or too slow, and another for any other failure.
    """

    def __init__(
        self,
        error: type[KvstoreError],
        *,
        timeouts: Timeouts,
        base_url: str | None = None,
        api_key: str | None = None,
        base_url_name: str = "base_url",
        key_variables: Sequence[str] = (KEY_VARIABLE,),
        unavailable: type[KvstoreError] | None = None,
        remedy: str = "check that the server is running, or set another base_url, timeout or attempts",
    ) -> None:
        """Take a server's address and key from ``base_url`` and ``api_key`` or else the environment, and check them.

        ``base_url_name`` names the address in messages, and ``key_variables`` are the environment variables for the
        key, tried in order. Raises ``error`` if the address, the key or a timeout is invalid. Later requests raise
        ``unavailable`` (None: ``error``), with ``remedy``, if the server is down, busy or too slow, else ``error``.
        """
        source_name, url = self._resolve_base_url(base_url, base_url_name)
        check_address(url, error, source_name)
        self.base_url = url.rstrip("/")
        self.timeouts = timeouts
        self._error = error
        self._unavailable = unavailable or error
        self._key_name = "api_key"
        self._key = None if api_key is None else _clean_key(api_key, error, "api_key")
        for variable in key_variables:
            if self._key is None:
                self._key_name = variable
                self._key = _clean_key(os.environ.get(variable, ""), error, variable)
        self._remedy = remedy
        if timeouts.attempts < 1 or min(timeouts.connect, timeouts.first_part, timeouts.next_part, timeouts.total) <= 0:
            raise error(f"attempts={timeouts.attempts} must be at least 1, and every timeout more than 0 seconds")

    @property
    def secret(self) -> str:
        """The API key, which an answer must not repeat; empty without a key, and if the key is short.

        A short key, such as ``none`` or ``ollama``, is a word that a local server requires, and can be part of an
        answer.
        """
        return self._key if self._key is not None and len(self._key) >= 2 * _MIN_SHARED_LENGTH else ""

    def post(self, path: str, payload: dict[str, Any], seconds: float = math.inf) -> Any:
        """Send ``payload`` as JSON to ``path`` below the base address, and return the decoded JSON of the answer.

        ``seconds`` limits each attempt as a whole. Raises the error class of this endpoint.
        """
        return self.exchange(path, payload, lambda reply: reply.read_json(), seconds)

    def exchange(
        self, path: str, payload: dict[str, Any], read_reply: Callable[[Reply], Result], seconds: float = math.inf
    ) -> Result:
        """Send ``payload`` as JSON, and return the result of ``read_reply`` for the reply, which stays open.

        A busy or failing server is asked again after the pause that it requests, or else after growing pauses. A server
        that is loading its model is asked again until the timeout of the first token. ``seconds`` limits each attempt,
        from the connection to the last byte. An OSError in ``read_reply`` counts as a broken connection and is retried;
        a ValueError counts as an invalid answer and is not. Raises this endpoint's class for an unavailable server if
        no attempt gets an answer, otherwise its error class.
        """
        url = f"{self.base_url}/{path}"
        if self._key is None and self.base_url == DEFAULT_BASE_URL:
            raise self._error(f"{url} needs a key; set {self._key_name}, or name another server with base_url")
        start = time.monotonic()
        deadline = start + self.timeouts.total
        pause = FIRST_PAUSE
        attempt = 1
        while True:
            outcome = self._attempt_request(url, payload, read_reply, min(deadline, time.monotonic() + seconds))
            if not isinstance(outcome, _FailedAttempt):
                return outcome
            reason = outcome.reason
            if outcome.is_loading:
                # Waiting for the model is part of waiting for the first token, and does not count as an attempt.
                if time.monotonic() + LOADING_PAUSE < min(deadline, start + self.timeouts.first_part):
                    time.sleep(LOADING_PAUSE)
                    continue
                reason += f", for {self.timeouts.first_part:g} s"
                break
            wait = pause if outcome.requested_wait is None else outcome.requested_wait
            if wait > MAX_PAUSE:
                reason += f" (the server asked kvstore to wait {wait:.0f} s)"
                break
            if attempt == self.timeouts.attempts or time.monotonic() + wait > deadline:
                break
            get_logger().info("%s: attempt %d failed (%s); the next in %.1f s", url, attempt, reason, wait)
            time.sleep(wait)
            pause *= 2
            attempt += 1
        plural = "" if attempt == 1 else "s"
        raise self._unavailable(f"{url}: no answer after {attempt} attempt{plural} ({reason}); {self._remedy}")

    def _attempt_request(
        self, url: str, payload: dict[str, Any], read_reply: Callable[[Reply], Result], deadline: float
    ) -> Result | _FailedAttempt:
        """Send a request once; return the result of ``read_reply``, or the failure if another attempt can succeed.

        ``deadline`` is a time of ``time.monotonic``. Raises the error class of this endpoint for any other failure.
        """
        try:
            reply = self._send(url, payload, deadline)
            if 200 <= reply.status < 300:
                return self._read_or_close(reply, read_reply)
            body = reply.read_error_body().decode("utf-8", "replace")
            message = self.extract_message(body) or self.extract_message(reply.reason)
            reason = f"status {reply.status}: {message}"
            if reply.status in RETRIED_STATUSES:
                requested_wait = _parse_retry_after(reply.headers.get("Retry-After"))
                is_loading = reply.status == 503 and "loading" in message.lower()
                return _FailedAttempt(reason, requested_wait, is_loading)
            final_error = self._error(f"{url}: {reason}{self._get_status_hint(reply.status)}")
        except OSError as problem:
            return _FailedAttempt(self.extract_message(str(problem)) or type(problem).__name__)
        except ValueError as problem:
            final_error = self._error(f"{url}: {self.extract_message(str(problem))}; is this the right address?")
        # Raised outside of the except clauses, because the cause can contain what the server repeated.
        raise final_error

    def _send(self, url: str, payload: dict[str, Any], deadline: float) -> Reply:
        """Send ``payload`` as JSON with the API key, if there is one, and return the reply.

        ``deadline`` is a time of ``time.monotonic``.
        """
        from .http_client import post

        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return post(url, headers, json.dumps(payload).encode(), self.timeouts, deadline, self._error)

    @staticmethod
    def _read_or_close(reply: Reply, read_reply: Callable[[Reply], Result]) -> Result:
        """Return the result of ``read_reply``; close the reply if that fails."""
        try:
            return read_reply(reply)
        except BaseException:
            reply.close()
            raise

    def extract_message(self, body: str) -> str:
        """Return a server's error message in ``body`` as one line, with the API key and substrings of it masked.

        The message of an OpenAI server is a field of JSON. Any other body is the message itself.
        """
        with contextlib.suppress(ValueError, KeyError, TypeError):
            body = json.loads(body)["error"]["message"]
        return " ".join(map(self._mask_key, join_surrogates(str(body)).split()))[:_MAX_MESSAGE_CHARACTERS]

    def _mask_key(self, word: str) -> str:
        """Return a word of a server's message, or stars if it shares several consecutive characters with the API key.

        A short key is replaced within the word. OpenAI's server repeats the first and last letters of a wrong key.
        """
        key = self._key or ""
        if len(key) < 2 * _MIN_SHARED_LENGTH:
            return word.replace(key, "***") if key else word
        substrings = (key[start : start + _MIN_SHARED_LENGTH] for start in range(len(key) - _MIN_SHARED_LENGTH + 1))
        return "***" if any(substring in word for substring in substrings) else word

    def _resolve_base_url(self, base_url: str | None, argument_name: str) -> tuple[str, str]:
        """Return the name of the source of the base URL, for error messages, and the URL.

        The source is the argument, called ``argument_name``, else the first environment variable that is set, else the
        default.
        """
        if base_url:
            return argument_name, base_url.strip()
        for variable in BASE_URL_VARIABLES:
            if url := os.environ.get(variable, "").strip():
                return variable, url
        return "base_url", DEFAULT_BASE_URL

    def _get_status_hint(self, status: int) -> str:
        """Return a hint for the user about an error with this HTTP status, or an empty string."""
        if status in (401, 403):
            return f"; check {self._key_name}"
        if status == 404:
            return "; check the model's name and the base URL"
        return ""


def _parse_retry_after(header: str | None) -> float | None:
    """Return the seconds to wait according to an HTTP header Retry-After, which has a number of seconds or a date.

    Returns None if the header is missing or invalid.
    """
    from email.utils import parsedate_to_datetime

    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    with contextlib.suppress(ValueError):
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    return None
