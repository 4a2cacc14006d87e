"""The local server of the explorer, which runs until it is stopped.

In: the path of a store. Out: a server at a port of 127.0.0.1, and its URL with the access token.

The server runs in a daemon thread, and so do its worker threads: Ctrl-C ends the process within seconds, even if a page
is still being read.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path

from ...errors import InputError, KvstoreError, TransactionError
from ...extensions.extras import import_extra
from .followed_store import FollowedStore

import_extra("uvicorn", "explore", "the explorer")

import uvicorn  # noqa: E402

from .application import make_explorer  # noqa: E402
from .connections import LOGGING, MAX_ACCEPTED, make_connection_factory  # noqa: E402

_HOST = "127.0.0.1"
#: The maximum number of bytes of a request head: the URL contains an SQL statement.
_MAX_HEAD_BYTES = 1 << 18
#: After Ctrl-C: the seconds that the server waits for running responses, that the caller waits for the server to end,
#: and that the caller then waits for the store to close.
_SHUTDOWN_SECONDS = 1
_END_SECONDS = 2.5
_CLOSE_SECONDS = 1.0


def serve(
    path: str | os.PathLike[str], *, port: int = 0, browser: bool = True, announce: Callable[[str], None]
) -> None:
    """Serve the store at a path until Ctrl-C, at a port of this machine (0: any free port).

    ``announce`` receives the URL. With ``browser`` the URL is also opened. Raises InputError if the port is taken,
    MissingExtraError, and the errors of :func:`kvstore.open`.
    """
    store = FollowedStore(path)
    try:
        with _open_listener(port) as listener:
            _, port = listener.getsockname()
            token = secrets.token_urlsafe(24)
            server = uvicorn.Server(
                uvicorn.Config(
                    make_explorer(store, token=token, port=port),
                    http=make_connection_factory(),
                    ws="none",
                    backlog=MAX_ACCEPTED,
                    log_config=LOGGING,
                    log_level="warning",
                    access_log=False,
                    server_header=False,
                    h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
                    timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                )
            )
            url = f"http://{_HOST}:{port}/?token={token}"
            announce(url)
            threading.Thread(target=_load_embedder, args=(store,), daemon=True).start()
            with tempfile.TemporaryDirectory(prefix="kvstore-explore-") as folder:
                if browser:
                    _open_browser(url, Path(folder))
                _run_server(server, listener, store)
    finally:
        # Closing waits for readers; a reader that cannot be stopped ends with the process.
        closer = threading.Thread(target=_close_store, args=(store,), daemon=True)
        closer.start()
        closer.join(_CLOSE_SECONDS)


def _close_store(store: FollowedStore) -> None:
    """Close the store. The error for an open transaction is ignored, because the process ends."""
    with suppress(TransactionError):
        store.close()


def _run_server(server: uvicorn.Server, listener: socket.socket, store: FollowedStore) -> None:
    """Run the server in a thread until Ctrl-C, which also interrupts running pages.

    Raises the error that ends the server.
    """
    failures: list[BaseException] = []

    def run() -> None:
        """Run the server, and record the error that ends it in ``failures``."""
        try:
            server.run(sockets=[listener])
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="kvstore explore", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        server.should_exit = True
        store.interrupt()
        thread.join(_END_SECONDS)
    if failures:
        raise failures[0]


def _open_listener(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine. Raises InputError if the port is not available."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, port))
        listener.listen()  # clients may connect before the server starts to accept
    except OSError as error:
        listener.close()
        raise InputError(f"port {port} is not available ({error.strerror}); choose another with --port") from None
    return listener


def _load_embedder(store: FollowedStore) -> None:
    """Load the embedder in advance, because the first question needs it. Ignore errors; the question reports them."""
    try:
        with store.open_session() as session:
            session.embed(["warm"])
    except KvstoreError:
        pass  # the first question reports it


def _open_browser(url: str, folder: Path) -> None:
    """Open a URL without exposing it in the process list: through a page that only its owner can read."""
    page = folder / "open.html"
    page.touch(0o600)
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><title>kvstore</title>'
        f'<meta http-equiv="refresh" content="0; url={escape(url)}"><a href="{escape(url)}">kvstore</a>'
    )
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
