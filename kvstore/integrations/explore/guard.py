"""Access control of the explorer, and the security headers of its pages. A browser exchanges the *token*, which is in
the first URL, for a cookie. An ASGI *scope* describes a request, and *send* is the function that sends the response.

In: requests. Out: requests from the user who started the explorer reach the application; all others are rejected. A web
page may make a browser send requests to this machine, and other users may share the machine. A request therefore needs

- a cookie, which a browser gets in exchange for the token in the first URL (HttpOnly, SameSite=Strict, of this port);
- the Host 127.0.0.1 or localhost with the port, so that no foreign name works (DNS rebinding);
- if it has an Origin, that of the explorer, and no other site as its Sec-Fetch-Site, unless it follows a link;
- the method GET (or HEAD), or POST to submit a token or to save a statement of the user's; the latter needs an Origin.

Every response restricts the browser to resources of this server, without inline code.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Iterable
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

#: The path at which a token is submitted.
ENTRANCE = "/enter"
#: The other paths with the method POST, which store something for the user outside of the store.
_SAVING_PATHS = frozenset({"/sql/saved"})
#: The maximum number of bytes of a POST request with a token.
_MAX_FORM_BYTES = 4096
_STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.6 system-ui,sans-serif;max-width:34rem;margin:15vh auto;"
    "padding:0 1.2rem}h1{font-size:1.2rem}input,button{font:inherit;padding:.3rem .6rem}code{word-break:break-all}"
)


def build_content_policy(style: str = "'self'") -> str:
    """Return the Content-Security-Policy of a page, which allows only resources of this server and inline images.

    ``style`` is the allowed source of styles, such as the hash of an inline style.
    """
    return (
        f"default-src 'none'; script-src 'self'; style-src {style}; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def hash_source(text: str) -> str:
    """Return the hash of an inline style or script for a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


#: The security headers of a response, unless it has its own.
HEADERS = {
    "content-security-policy": build_content_policy(),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class _Rejection(NamedTuple):
    """The status of the response to a rejected request, and the reason that it shows."""

    status: int
    reason: str


class Guard:
    """ASGI middleware: only clients with the token can reach the application that it wraps. The value of the cookie is
    a random *secret*.

    ``port`` is the port in a request's Host; a browser omits 80.
    """

    def __init__(self, application: Callable[..., Any], token: str, port: int) -> None:
        """Protect ``application`` with a token, which each browser exchanges for a cookie with a random value."""
        self._application = application
        self._token = token
        names = "127.0.0.1", "localhost"
        # The Host header omits the default port.
        self._hosts = frozenset([*(f"{name}:{port}" for name in names), *(names if port == 80 else ())])
        self._secret = secrets.token_urlsafe(32)
        # The name has the port, because all ports of a host share their cookies.
        self.cookie = f"kvstore-explore-{port}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond to an ASGI request: reject it, exchange a token for a cookie, or pass it on to the application."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":  # rejects a web socket before it is accepted
            await send({"type": "websocket.close", "code": 1008})
            return
        rejection = self._find_rejection(scope)
        if rejection is not None:
            page = _render_page("Request rejected", f"<p>{escape(rejection.reason)}</p>")
            await _send_page(scope, send, rejection.status, page)
        elif _submits_token(scope):
            await self._exchange_token(scope, receive, send)
        elif not self._has_cookie(scope):
            await _send_page(scope, send, 403, _render_page("This explorer needs its token", _TOKEN_FORM))
        else:
            await self._application(scope, receive, _add_security_headers(send))

    def _find_rejection(self, scope: Any) -> _Rejection | None:
        """Return the rejection of the request with this ASGI scope, or None if its headers and method are allowed."""
        hosts, origins, sites = (_get_header_values(scope, name) for name in (b"host", b"origin", b"sec-fetch-site"))
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _Rejection(403, "The explorer only answers at 127.0.0.1 and localhost with its port.")
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return _Rejection(403, "The explorer does not answer requests from other sites.")
        is_navigation = _get_header_values(scope, b"sec-fetch-mode") == ["navigate"]
        if any(site not in ("same-origin", "none") for site in sites) and not is_navigation:
            return _Rejection(403, "The explorer does not answer requests from other sites.")
        # A request to save must state its origin, which was checked above.
        can_post = scope["path"] == ENTRANCE or (scope["path"] in _SAVING_PATHS and len(origins) == 1)
        allowed_methods = ("GET", "HEAD", "POST") if can_post else ("GET", "HEAD")
        if scope["method"] not in allowed_methods:
            return _Rejection(405, "The explorer is read-only: its only method is GET.")
        return None

    def _has_cookie(self, scope: Any) -> bool:
        """True if the request with this ASGI scope has the cookie that the token was exchanged for."""
        cookies = (
            cookie.strip().partition("=")
            for header_value in _get_header_values(scope, b"cookie")
            for cookie in header_value.split(";")
        )
        return any(
            name == self.cookie and _matches_secret(cookie_value, self._secret) for name, _, cookie_value in cookies
        )

    async def _exchange_token(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond with the cookie if the request has the right token, else with the form for a token."""
        submission = scope["query_string"] if scope["method"] != "POST" else await _read_body(receive)
        token = dict(parse_qsl(submission.decode("latin-1"))).get("token", "")
        if not _matches_secret(token.strip(), self._token):
            await _send_page(scope, send, 403, _render_page("That is not the token of this explorer", _TOKEN_FORM))
            return
        # Not a redirect: after a link from another site, the browser would not send the cookie with it.
        cookie = f"{self.cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
        page = _render_page(
            "Welcome", '<p><a href="/">Open the store</a></p>', '<meta http-equiv="refresh" content="0; url=/">'
        )
        await _send_page(scope, send, 200, page, [("set-cookie", cookie)])


_TOKEN_FORM = (
    "<p>Open the URL that <code>kvstore explore</code> printed when it started, or enter its token here. A token "
    f'is valid until the explorer stops.</p><form method="post" action="{ENTRANCE}">'
    '<label>Token <input name="token" autocomplete="off" required autofocus></label> <button>Continue</button></form>'
)


def _render_page(title: str, main: str, head: str = "") -> str:
    """Return an HTML page with a title, the content ``main``, and further elements of its ``head``; all are HTML."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">{head}'
        f"<style>{_STYLE}</style></head>"
        f"<body><main><h1>{title}</h1>{main}</main></body></html>"
    )


def _submits_token(scope: Any) -> bool:
    """True if a request (an ASGI scope) submits a token: the form's request, or ``/`` with a token in its query."""
    return scope["path"] == ENTRANCE or (scope["path"] == "/" and b"token=" in scope["query_string"])


def _matches_secret(value: str, secret: str) -> bool:
    """True if a value is the secret, compared in constant time."""
    return secrets.compare_digest(value.encode(), secret.encode())


def _get_header_values(scope: Any, name: bytes) -> list[str]:
    """Return the values of all headers with this lower-case name in the request with this ASGI scope."""
    return [value.decode("latin-1") for header, value in scope["headers"] if header.lower() == name]


async def _read_body(receive: Any) -> bytes:
    """Return the body of a request; give up and return ``b""`` if it is unfinished after ``_MAX_FORM_BYTES`` bytes."""
    body = b""
    while len(body) <= _MAX_FORM_BYTES:
        message: dict[str, Any] = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return body
    return b""


async def _send_page(scope: Any, send: Any, status: int, page: str, headers: Iterable[tuple[str, str]] = ()) -> None:
    """Send a page as the whole response, with the security headers and ``headers``."""
    page_headers = HEADERS | {
        "content-security-policy": build_content_policy(hash_source(_STYLE)),
        "content-type": "text/html; charset=utf-8",
    }
    raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in [*page_headers.items(), *headers]]
    await send({"type": "http.response.start", "status": status, "headers": raw_headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else page.encode()})


def _add_security_headers(send: Any) -> Any:
    """Wrap ``send``, which sends the messages of an ASGI response, so that the response has the security headers."""

    async def send_with_headers(message: Any) -> None:
        """Send a message; the start of a response gets the headers that it lacks."""
        if message["type"] == "http.response.start":
            present_names = {name.lower() for name, _ in message["headers"]}
            missing_headers = [
                (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in present_names
            ]
            message = {**message, "headers": [*message["headers"], *missing_headers]}
        await send(message)

    return send_with_headers
