"""Room on the disk for LMDB's table of readers, taken before LMDB maps it.

LMDB makes ``lock.mdb`` by giving it a length, and writes to it through its map only: where the disk is full then, the
system has no page to put behind the write and ends the process (SIGBUS), at the opening or whenever a reader takes an
entry on a further page. So the blocks of the whole table are taken first, and a full disk is an error like others. In:
a store's directory. On disk: the file as long as LMDB would make it, of zeros, which LMDB fills in under its own lock;
or, where it is there already, with its holes filled and its content as it was.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ..errors import StoreFullError
from .lmdb_errors import NO_SPACE_ERRNOS
from .location import READERS_FILE

#: Snapshots that may be open at once, over all processes.
MAX_READERS = 1024

#: As LMDB 0.9 reckons it: an entry is a cache line, and a head of three stands before them. Where the head is larger
#: the file gets longer within its last block.
TABLE_BYTES = 64 * (MAX_READERS - 1) + 192

#: What a system answers that cannot take room so.
_UNSUPPORTED_ERRNOS = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


def is_reader_table_missing(directory: Path) -> bool:
    """Whether there is no table, and this user could make one."""
    return not (directory / READERS_FILE).exists() and os.access(directory, os.W_OK)


def reserve_reader_table(directory: Path) -> None:
    """Take the room that the table of readers needs; does nothing where it has it, or where this user may not write.

    Raises StoreFullError where the disk is full. It may be called while others use the table.
    """
    path = directory / READERS_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno in NO_SPACE_ERRNOS:
            raise _make_full_error(path, error) from error
        return  # LMDB meets the same error, and what it means for the opening is known there
    try:
        status = os.fstat(descriptor)
        num_bytes = max(TABLE_BYTES, status.st_size)
        if status.st_size < num_bytes or 512 * status.st_blocks < num_bytes:
            _allocate_blocks(descriptor, status.st_size, num_bytes)
    except OSError as error:
        raise _make_full_error(path, error) from error
    finally:
        os.close(descriptor)


def _allocate_blocks(descriptor: int, size: int, num_bytes: int) -> None:
    """Put blocks behind the first ``num_bytes`` bytes of a file of ``size`` bytes; its content stays."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, num_bytes)
            return
        except OSError as error:
            if error.errno not in _UNSUPPORTED_ERRNOS:
                raise
    # What is there may be in use, so it is not written to; a new file has nothing yet.
    while size < num_bytes:
        size += os.pwrite(descriptor, bytes(num_bytes - size), size)


def _make_full_error(path: Path, error: OSError) -> StoreFullError:
    reason = "the disk is full" if error.errno in NO_SPACE_ERRNOS else error.strerror
    return StoreFullError(
        f"{path}: no room for the table of readers, {TABLE_BYTES} bytes ({reason}); nothing was changed: free some "
        "space "
        "and open the store again"
    )
