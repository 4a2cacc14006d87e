"""Disk space for LMDB's reader table (the list of open snapshots in ``lock.mdb``), allocated before LMDB maps it. A
full disk is then an ordinary error. Otherwise, the system would kill the process when LMDB writes to a page of the map
that the disk has no room for (SIGBUS).

LMDB creates the file by setting its length, and writes to it only through its map: when the store is opened, or when a
reader takes an entry on another page. In: a store's directory. On disk: a file of zeros as long as LMDB would make it,
which LMDB fills in under its own lock. If the file exists already, its holes are filled and its content is kept.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ..errors import StoreFullError
from .lmdb_errors import NO_SPACE_ERRNOS
from .location import READERS_FILE, open_store_file

#: The maximum number of open snapshots, over all processes.
MAX_READERS = 1024

#: The size according to LMDB 0.9: an entry is a cache line, after a header of three. If the header is larger, the file
#: grows within its last block.
TABLE_BYTES = 64 * (MAX_READERS - 1) + 192

#: Errors of a system that does not support this allocation.
_UNSUPPORTED_ERRNOS = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


def can_create_reader_table(directory: Path) -> bool:
    """True if LMDB's reader table does not exist and this user has the permission to create it."""
    return not (directory / READERS_FILE).exists() and os.access(directory, os.W_OK)


def reserve_reader_table(directory: Path) -> None:
    """Allocate disk space for LMDB's reader table, unless it is allocated already or this user may not write.

    Raises StoreFullError if the disk is full. It may be called while others use the table.
    """
    path = directory / READERS_FILE
    try:
        descriptor = open_store_file(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in NO_SPACE_ERRNOS:
            raise _make_full_error(path, error) from error
        return  # LMDB gets the same error, and the code that opens the store handles it
    try:
        status = os.fstat(descriptor)
        num_bytes = max(TABLE_BYTES, status.st_size)
        if status.st_size < num_bytes or 512 * status.st_blocks < num_bytes:  # st_blocks counts units of 512 bytes
            _allocate_blocks(descriptor, status.st_size, num_bytes)
    except OSError as error:
        raise _make_full_error(path, error) from error
    finally:
        os.close(descriptor)


def _allocate_blocks(descriptor: int, file_size: int, num_bytes: int) -> None:
    """Allocate blocks for the first ``num_bytes`` bytes of a file of ``file_size`` bytes, keeping its content."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, num_bytes)
            return
        except OSError as error:
            if error.errno not in _UNSUPPORTED_ERRNOS:
                raise
    # Existing content may be in use, so do not overwrite it; a new file has no content yet.
    while file_size < num_bytes:
        file_size += os.pwrite(descriptor, bytes(num_bytes - file_size), file_size)


def _make_full_error(path: Path, error: OSError) -> StoreFullError:
    """Return the error for a file system without enough space for the reader table."""
    reason = "the disk is full" if error.errno in NO_SPACE_ERRNOS else error.strerror
    return StoreFullError(
        f"{path}: no room for the table of readers, {TABLE_BYTES} bytes ({reason}); nothing was changed: free some "
        "space and open the store again"
    )
