"""Keep a store in sync with folders while they change: ``kvstore watch``. A *watcher* reports that files have changed.

In: folders, and a function that ingests them. Out: one ingest at the beginning, and one after each change once nothing
has changed for a moment. All changes of one save or checkout therefore form one batch and one commit. The operating
system reports changes if the package watchfiles is installed (the ``watch`` extra); otherwise, or on request, kvstore
polls the folders. Changes made during an ingest are not missed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from kvstore import IngestReport
from kvstore.errors import KvstoreError

#: The maximum number of seconds to wait until changes pause.
_MAX_QUIET_WAIT = 20.0
#: Seconds between two polls of the folders, without reports from the operating system.
POLL_SECONDS = 2.0
#: Seconds after which a failed ingest is tried again.
_RETRY_SECONDS = 5.0
#: Seconds between two checks whether a folder was replaced by another.
_WAKE_SECONDS = 1.0

#: Modification time and size of each file.
FileStates = dict[str, tuple[int, int]]


class Watcher(Protocol):
    """A source of change reports. A change between two calls is reported by the second call."""

    def wait_for_change(self) -> bool:
        """Wait a moment for changes. Return True if files changed and then stayed unchanged for some time."""
        ...


class SystemWatcher:
    """A watcher of folders to which the operating system reports changes, through watchfiles."""

    def __init__(self, folders: Sequence[Path], excluded_folder: Path, quiet_seconds: float) -> None:
        """Watch ``folders`` without ``excluded_folder``; report a change after ``quiet_seconds`` without another."""
        self._folders = folders
        self._excluded_path = f"{excluded_folder.resolve()}{os.sep}"
        self._quiet_seconds = quiet_seconds
        self._start()

    def wait_for_change(self) -> bool:
        """Wait for changes, about a second if nothing changes.

        Returns True if files changed and then stayed unchanged for ``quiet_seconds``, or if a folder was removed,
        created or replaced.
        """
        if self._list_identities() != self._known_identities:
            self._start()  # a watched folder was removed or replaced by another
            return True
        return bool(next(self._change_sets))

    def _start(self) -> None:
        """Start watching the folders that exist now, with the library watchfiles.

        Set ``_change_sets``, from which the sets of changes are read, and ``_known_identities``, the folders watched.
        """
        from watchfiles import watch

        self._known_identities = self._list_identities()
        self._change_sets: Iterator[set[Any]] = watch(
            *(folder.resolve() for folder in self._folders if folder.is_dir()),
            watch_filter=lambda _, path: not path.startswith(self._excluded_path),
            debounce=int(1000 * _MAX_QUIET_WAIT),
            step=max(1, int(1000 * self._quiet_seconds)),
            rust_timeout=int(1000 * _WAKE_SECONDS),
            yield_on_timeout=True,
            raise_interrupt=True,
            recursive=True,
        )
        if any(self._known_identities):
            next(self._change_sets)  # watching begins here
        else:  # no folder exists
            self._change_sets = _yield_empty_changes()

    def _list_identities(self) -> list[tuple[int, int] | None]:
        """Return the device and inode of each folder; None if it does not exist."""
        return [_identify_folder(folder) for folder in self._folders]


class PollingWatcher:
    """A watcher that compares the time and size of every file of its folders with those of the last poll."""

    def __init__(self, folders: Sequence[Path], excluded_folder: Path, quiet_seconds: float, interval: float) -> None:
        """Scan ``folders``, to compare them later; ``excluded_folder`` inside them is omitted.

        Each wait takes ``interval`` seconds; a change is reported after ``quiet_seconds`` without another.
        """
        self._folders = folders
        self._excluded_path = os.path.realpath(excluded_folder)
        self._quiet_seconds = quiet_seconds
        self._interval = interval
        self._last_states = self._scan_folders()

    def wait_for_change(self) -> bool:
        """Wait for the interval, and return True if any file changed in it, else False.

        After a change, first wait until nothing changes for ``quiet_seconds``, at most ``_MAX_QUIET_WAIT`` seconds.
        """
        time.sleep(self._interval)
        states = self._scan_folders()
        if states == self._last_states:
            return False
        deadline = time.monotonic() + _MAX_QUIET_WAIT
        while states != self._last_states and time.monotonic() < deadline:
            self._last_states = states
            time.sleep(self._quiet_seconds)
            states = self._scan_folders()
        self._last_states = states
        return True

    def _scan_folders(self) -> FileStates:
        """Return the modification time (ns) and size (bytes) of every file in the folders, by path.

        Files in the excluded folder are omitted.
        """
        states: FileStates = {}
        for top in self._folders:
            for folder, inner_names, names in os.walk(top):
                inner_names[:] = [
                    name for name in inner_names if os.path.realpath(os.path.join(folder, name)) != self._excluded_path
                ]
                for name in names:
                    path = os.path.join(folder, name)
                    try:
                        status = os.stat(path)
                    except OSError:
                        continue
                    states[path] = status.st_mtime_ns, status.st_size
        return states


def make_watcher(
    folders: Sequence[Path], excluded_folder: Path, *, quiet_seconds: float, interval: float | None
) -> Watcher:
    """Return a watcher of the folders that ignores ``excluded_folder``, the store.

    A change is reported after ``quiet_seconds`` without another. With ``interval``, the watcher polls the folders every
    ``interval`` seconds. Otherwise, watchfiles reports changes; if it is not installed, the watcher polls every
    ``POLL_SECONDS``.
    """
    if interval is None:
        try:
            return SystemWatcher(folders, excluded_folder, quiet_seconds)
        except ModuleNotFoundError:
            interval = POLL_SECONDS
    return PollingWatcher(folders, excluded_folder, quiet_seconds, interval)


def ingest_on_change(
    watcher: Watcher,
    ingest: Callable[[], IngestReport],
    on_report: Callable[[IngestReport], None],
    on_error: Callable[[str], None],
) -> None:
    """Call ``ingest`` now and after each change, until an interrupt.

    Reports go to ``on_report``. Errors go to ``on_error``, each once until a different one occurs, and the ingest is
    tried again.
    """
    is_due, last_error = True, ""
    while True:
        if is_due:
            try:
                on_report(ingest())
                is_due, last_error = False, ""
            except KvstoreError as error:
                if str(error) != last_error:
                    last_error = str(error)
                    on_error(last_error)
                time.sleep(_RETRY_SECONDS)
                continue
        is_due = watcher.wait_for_change()


def _identify_folder(folder: Path) -> tuple[int, int] | None:
    """Return the device and inode of a folder, or None if it does not exist or cannot be read."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _yield_empty_changes() -> Iterator[set[Any]]:
    """Yield an empty set of changes every ``_WAKE_SECONDS``, as watchfiles does while nothing changes."""
    while True:
        time.sleep(_WAKE_SECONDS)
        yield set()
