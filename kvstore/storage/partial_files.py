"""Files and folders in the making, beside the place where they are to appear, and those that killed processes left.

In: the path of a copy or an export. On disk: ``.NAME.partial-PID``, locked by ``flock`` as long as its maker lives.
Out: its path; what other makers of the same path have left is removed if they are gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from .file_lock import release_lock


def partial_path(target: Path) -> Path:
    """Return where this process makes what is to appear at ``target``, and remove what ended processes left there."""
    mark = f".{target.name}.partial-"
    for path in target.parent.iterdir():
        digits = path.name.removeprefix(mark)
        if path.name.startswith(mark) and digits.isdecimal() and not _is_running(int(digits)):
            remove_abandoned(path)
    return target.with_name(f"{mark}{os.getpid()}")


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of an existing file or folder in the making within the block."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: then the process number alone says it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned(path: Path) -> None:
    """Remove a file or a folder in the making unless a process holds its lock; does nothing if that is not allowed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        finally:
            release_lock(descriptor)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True
