"""A store that is opened while the first prompt is looked at: half of the start is the loading of what it needs.

In: the path of a store, and what opens it. Out: the store, for whoever asks, as soon as it is open. What opening raises
is raised to everybody who asks.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import kvstore


class BackgroundOpening:
    """One opening: it goes on in a thread of its own from :meth:`start` on."""

    def __init__(self, path: Path, open_store: Callable[[], kvstore.Store]) -> None:
        self.path = path
        self._open_store = open_store
        self._thread: threading.Thread | None = None
        self._future: Future[kvstore.Store] = Future()

    @property
    def is_started(self) -> bool:
        """True once the store is opened, or is being opened."""
        return self._thread is not None

    @property
    def is_done(self) -> bool:
        """Whether the store is open, or cannot be opened."""
        return self._future.done()

    def start(self) -> None:
        """Begin to open the store, unless that was begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            with pause_garbage_collection():
                self._future.set_result(self._open_store())
        except Exception as error:
            self._future.set_exception(error)

    def wait_for_store(self) -> kvstore.Store:
        """The open store, waited for; raises what opening raised."""
        return self._future.result()

    def close(self) -> None:
        """Close the store, where it is open or about to be."""
        if self._thread is not None and self._future.exception() is None:
            self._future.result().close()


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Imports without the garbage collector: what they make stays, and to look it through takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
