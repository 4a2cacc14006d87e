"""Partial files and directories next to their final path, and cleanup of those that killed processes left.

In: the path of a copy or an export. On disk: ``.NAME.kvstore-PID``, locked by ``flock`` while its creator is alive.
Out: its path. Partial files that terminated processes left in the same folder are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from .locks import is_running, release_lock

#: The name of a partial file; the group is the id of the process that creates the file.
_PARTIAL_NAME = re.compile(r"\..+\.kvstore-([0-9]+)", re.DOTALL)


def prepare_partial_path(target: Path) -> Path:
    """Return the path where this process creates ``target``, and remove partial files of terminated processes."""
    partial_path = target.with_name(f".{target.name}.kvstore-{os.getpid()}")
    for path in target.parent.iterdir():
        match = _PARTIAL_NAME.fullmatch(path.name)
        # A terminated process can have had the id of this process, as is common in containers.
        if match and (path == partial_path or not is_running(int(match[1]))):
            remove_abandoned(path)
    return partial_path


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a partial file or directory, which must exist, within the block.

    If the file system has no locks, the block runs without a lock.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: only the process id shows that it is in use
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_directory(path: Path) -> None:
    """Remove a directory and all files in it, if it exists; files that cannot be removed are left there."""
    if path.is_dir():
        import shutil  # imported here because it loads compression libraries, and opening a store rarely needs it

        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned(path: Path) -> None:
    """Remove a partial file or directory unless a process holds its lock; does nothing without the permission."""
    with contextlib.suppress(OSError):
        # O_NONBLOCK: opening a named pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                remove_directory(path)
            else:
                path.unlink()
        finally:
            release_lock(descriptor)
