"""File locks by ``flock``: attempts until a deadline, and release.

In: an open descriptor and the kind of lock. Out: whether the lock was acquired. The system drops a lock with the last
copy of the descriptor that holds it, and therefore also if the process dies.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

#: Device and inode of a file, which are unique while it is open.
FileIdentity = tuple[int, int]

#: Seconds between two attempts: the first, and the maximum after doubling.
FIRST_PAUSE = 0.001
MAX_PAUSE = 0.05


def lock_until(descriptor: int, kind: int, deadline: float) -> bool:
    """Lock a file (``kind``: LOCK_SH or LOCK_EX).

    Returns False if others still hold it at ``deadline`` (monotonic seconds). Makes at least one attempt. If this
    returns False, a lock that the descriptor held before is lost.
    """
    pause = FIRST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, MAX_PAUSE)


def get_file_identity(file: int | Path) -> FileIdentity | None:
    """Return device and inode of an open file or of the file at a path; None if there is no such file."""
    try:
        stat = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_dev, stat.st_ino


def is_file_at(descriptor: int, path: Path) -> bool:
    """True if an open file is still the file at this path, so it was neither deleted nor replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def release_lock(descriptor: int) -> None:
    """Release a lock and close its descriptor."""
    # Unlock explicitly: a child forked meanwhile may hold a copy of the descriptor.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
