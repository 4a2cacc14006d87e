"""HTTP endpoints that speak the OpenAI protocol: one JSON request, its answer, and clear errors.

In: a path and a payload. Out: the decoded answer. Busy and broken connections are tried again with growing pauses; what
remains raises the error class given, naming the address, the status and what the server said. The key goes into the
request's header only: never into a message, and never along with a redirection to another address.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ..errors import KvstoreError

DEFAULT_BASE_URL = "https://api.openai.com/v1"
BASE_URL_VARIABLES = ("KVSTORE_OPENAI_BASE_URL", "OPENAI_BASE_URL")
KEY_VARIABLE = "OPENAI_API_KEY"

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
#: Seconds before the second attempt, doubled for each further one, and the longest wait that a server may ask for.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Endpoint:
    """One server; ``base_url`` and ``api_key`` come from the arguments, else from the environment."""

    def __init__(
        self,
        error: type[KvstoreError],
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        attempts: int = 4,
    ) -> None:
        given = (os.environ.get(variable) for variable in BASE_URL_VARIABLES)
        self.base_url = (base_url or next(filter(None, given), DEFAULT_BASE_URL)).rstrip("/")
        self.timeout = timeout
        self.attempts = attempts
        self._error = error
        self._key = api_key or os.environ.get(KEY_VARIABLE)
        if urllib.parse.urlsplit(self.base_url).scheme not in ("http", "https"):
            raise error(f"the endpoint {self.base_url!r} is not an address; write http://HOST:PORT/v1 or https://...")
        if attempts < 1 or timeout <= 0:
            raise error(f"attempts={attempts} and timeout={timeout} must be at least 1 and more than 0 seconds")
        self._opener = urllib.request.build_opener(_NoRedirection)

    def post(self, path: str, payload: dict[str, Any]) -> Any:
        """Send ``payload`` to ``path`` below the base address and return the decoded answer; raises the error class."""
        url = f"{self.base_url}/{path}"
        if self._key is None and self.base_url == DEFAULT_BASE_URL:
            raise self._error(f"{url} needs a key; set {KEY_VARIABLE}, or name another server with base_url")
        pause = FIRST_PAUSE
        for attempt in range(1, self.attempts + 1):
            asked: float | None = None
            try:
                return self._request(url, payload)
            except urllib.error.HTTPError as problem:
                with problem:
                    reason = f"status {problem.code}: {self._said(problem)}"
                    asked = _seconds(problem.headers.get("Retry-After"))
                    if problem.code not in RETRIED:
                        raise self._error(f"{url}: {reason}{_remedy(problem.code)}") from None
            except (OSError, http.client.HTTPException) as problem:
                reason = str(getattr(problem, "reason", "")) or str(problem) or type(problem).__name__
            except ValueError as problem:
                raise self._error(f"{url}: the answer is not JSON ({problem}); is this the right address?") from None
            if attempt < self.attempts:
                time.sleep(min(asked if asked is not None else pause, LONGEST_PAUSE))
                pause *= 2
        raise self._error(
            f"{url}: no answer after {self.attempts} attempts of at most {self.timeout:g} s ({reason}); check that the "
            "server runs, or give another base_url, timeout or attempts"
        )

    def _request(self, url: str, payload: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(url, data=json.dumps(payload).encode(), headers=headers, method="POST")
        with self._opener.open(request, timeout=self.timeout) as answer:
            return json.loads(answer.read())

    def _said(self, problem: urllib.error.HTTPError) -> str:
        """What the server said, in one line, without the key should it repeat it."""
        body = problem.read(2000).decode("utf-8", "replace")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            body = json.loads(body)["error"]["message"]
        text = " ".join(str(body).split())[:300] or str(problem.reason)
        return text.replace(self._key, "***") if self._key else text


def _remedy(status: int) -> str:
    if status in (401, 403):
        return f"; check {KEY_VARIABLE}"
    if status == 404:
        return "; check the model's name and the base address"
    return ""


def _seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.strip().isdigit() else None
