"""Opening of a store in the background while the user looks at the first prompt.

Loading what a store needs takes half of the startup time.

In: the path of a store, and a function that opens it. Out: the store, for every caller, as soon as it is open. An error
from opening is raised to every caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from kvstore.process.collection_pause import pause_collection

if TYPE_CHECKING:
    import kvstore


class StoreOpener:
    """A store that a background thread opens; :meth:`start` starts the thread."""

    def __init__(self, path: Path, open_store: Callable[[], kvstore.Store]) -> None:
        """Prepare to open the store at ``path``; the thread calls ``open_store``."""
        self.path = path
        self._open_store = open_store
        self._thread: threading.Thread | None = None
        self._future: Future[kvstore.Store] = Future()

    @property
    def is_started(self) -> bool:
        """True after :meth:`start`, even if opening has failed."""
        return self._thread is not None

    @property
    def is_done(self) -> bool:
        """True if the store is open, or cannot be opened."""
        return self._future.done()

    def start(self) -> None:
        """Start opening the store, unless that has already started."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._open_into_future, daemon=True)
            self._thread.start()

    def _open_into_future(self) -> None:
        """Open the store, and set it, or the error that opening raises, as the result of the future."""
        try:
            with pause_collection():  # loading modules and models leaves nothing to collect
                self._future.set_result(self._open_store())
        except Exception as error:
            self._future.set_exception(error)

    def wait_for_store(self) -> kvstore.Store:
        """Wait for the store and return it; raises the error that opening raised."""
        return self._future.result()

    def close(self) -> None:
        """Close the store if it is open; if it is being opened, wait until it is, and close it."""
        if self._thread is not None and self._future.exception() is None:
            self._future.result().close()
