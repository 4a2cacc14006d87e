"""Folders kept in a store while they change: ``kvstore watch``.

In: folders, and what ingests them. Out: one ingest at the beginning and one after each change, when nothing has changed
for a moment: what an editor or a checkout does in one go is one batch, and one commit. The system tells of changes
where the package watchfiles is installed (the extra ``watch``); else, and where asked, the folders are looked at again
and again. Nothing that changes while an ingest runs is missed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from kvstore import IngestReport
from kvstore.errors import KvstoreError

#: Seconds without a change before what changed is ingested, and the most that are waited for them.
QUIET = 0.5
_MAX_QUIET_WAIT = 20.0
#: Seconds between two looks at the folders where the system does not tell.
LOOKED_AT = 2.0
#: Seconds after which an ingest that failed is tried again.
_RETRY_SECONDS = 5.0
#: Seconds between two looks whether a folder is another than before.
_WAKE_SECONDS = 1.0

#: Of each file its time of change and its size.
Look = dict[str, tuple[int, int]]


class Watcher(Protocol):
    """Tells of changes; what changes between two calls is told by the second."""

    def changed(self) -> bool:
        """Wait for a while; whether anything has changed, and is quiet now."""
        ...


class SystemWatcher:
    """Changes as the system tells them, through watchfiles."""

    def __init__(self, folders: Sequence[Path], apart: Path, quiet: float) -> None:
        self._folders = folders
        self._apart = f"{apart.resolve()}{os.sep}"
        self._quiet = quiet
        self._begin()

    def changed(self) -> bool:
        if self._list_identities() != self._known:
            self._begin()  # what was watched is gone, or another folder stands there now
            return True
        return bool(next(self._told))

    def _begin(self) -> None:
        from watchfiles import watch

        self._known = self._list_identities()
        self._told: Iterator[set[Any]] = watch(
            *(folder.resolve() for folder in self._folders if folder.is_dir()),
            watch_filter=lambda _, path: not path.startswith(self._apart),
            debounce=int(1000 * _MAX_QUIET_WAIT),
            step=max(1, int(1000 * self._quiet)),
            rust_timeout=int(1000 * _WAKE_SECONDS),
            yield_on_timeout=True,
            raise_interrupt=True,
            recursive=True,
        )
        if any(self._known):
            next(self._told)  # it watches from now on
        else:
            self._told = _nothing()

    def _list_identities(self) -> list[tuple[int, int] | None]:
        return [_identity(folder) for folder in self._folders]


class PollingWatcher:
    """Changes as they are seen by looking at every file again and again."""

    def __init__(self, folders: Sequence[Path], apart: Path, quiet: float, every: float) -> None:
        self._folders = folders
        self._apart = os.path.realpath(apart)
        self._quiet = quiet
        self._every = every
        self._seen = self._look()

    def changed(self) -> bool:
        time.sleep(self._every)
        states = self._look()
        if states == self._seen:
            return False
        deadline = time.monotonic() + _MAX_QUIET_WAIT
        while states != self._seen and time.monotonic() < deadline:
            self._seen = states
            time.sleep(self._quiet)
            states = self._look()
        self._seen = states
        return True

    def _look(self) -> Look:
        states: Look = {}
        for top in self._folders:
            for folder, inner, names in os.walk(top):
                inner[:] = [name for name in inner if os.path.realpath(os.path.join(folder, name)) != self._apart]
                for name in names:
                    path = os.path.join(folder, name)
                    try:
                        status = os.stat(path)
                    except OSError:
                        continue
                    states[path] = status.st_mtime_ns, status.st_size
        return states


def watcher(folders: Sequence[Path], apart: Path, *, quiet: float, every: float | None) -> Watcher:
    """What tells of changes in some folders but in ``apart``, the store; ``every`` so many seconds by looking, where
    that is given or nothing else is installed."""
    if every is None:
        try:
            return SystemWatcher(folders, apart, quiet)
        except ModuleNotFoundError:
            every = LOOKED_AT
    return PollingWatcher(folders, apart, quiet, every)


def follow(
    changes: Watcher,
    ingest: Callable[[], IngestReport],
    told: Callable[[IngestReport], None],
    failed: Callable[[str], None],
) -> None:
    """Ingest, and again after each change, until an interrupt; reports are ``told``, and errors, after which it is
    tried again, each once until another comes."""
    is_due, last_error = True, ""
    while True:
        if is_due:
            try:
                told(ingest())
                is_due, last_error = False, ""
            except KvstoreError as error:
                if str(error) != last_error:
                    last_error = str(error)
                    failed(last_error)
                time.sleep(_RETRY_SECONDS)
                continue
        is_due = changes.changed()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _nothing() -> Iterator[set[Any]]:
    while True:
        time.sleep(_WAKE_SECONDS)
        yield set()
