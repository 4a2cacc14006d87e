"""The translation of errors of LMDB and of the system to errors of ``kvstore.errors``, with the remedy. A *PageError*
is raised by kvstore's own reader of LMDB pages, for a damaged page or a closed transaction.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import lmdb

from kvstore_cext.pages import PageError

from ..errors import (
    ClosedError,
    CorruptionError,
    InputError,
    KvstoreError,
    ReadOnlyError,
    StoreFullError,
    StoreNotFoundError,
    TransactionError,
)

#: The errors that reading or writing records raises.
STORAGE_ERRORS = (lmdb.Error, PageError)
#: The maximum length in bytes of LMDB keys; the minimum is 1.
MAX_KEY_BYTES = 511
#: A key that is too long for LMDB and greater than every key; as a suffix, greater than every suffix of a key.
ABOVE_ALL_KEYS = b"\xff" * (MAX_KEY_BYTES + 1)
#: LMDB raises EIO if a write ended early, as happens when the disk becomes full.
NO_SPACE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_TOO_MANY_FILES_ERRNOS = {errno.EMFILE, errno.ENFILE}


class MapFull(StoreFullError):
    """Raised if the memory map is full; the transaction is rolled back, and may succeed with a larger map."""


def translate_error(error: lmdb.Error | PageError, location: str) -> KvstoreError:
    """Return the kvstore error for an LMDB error at ``location`` (a path or a table)."""
    if isinstance(error, PageError) and "closed" not in str(error):
        return CorruptionError(f"{location}: the data file is damaged: {error}; run CHECK REPAIR, or restore a backup")
    if isinstance(error, PageError):
        return ClosedError(f"{location}: the snapshot or transaction was closed; open another")
    code = getattr(error, "code", 0)
    if isinstance(error, lmdb.DiskError) or code in NO_SPACE_ERRNOS:
        return StoreFullError(
            f"{location}: the disk is full or failing ({error.reason}); nothing was changed: free some space and "
            "try again"
        )
    if code == errno.ENOENT:
        return _make_deletion_error(location)
    if code in _TOO_MANY_FILES_ERRNOS:
        return _make_too_many_files_error(location)
    if isinstance(error, lmdb.MemoryError):
        return StoreFullError(
            f"{location}: the process has no memory or address space left; close other stores, or raise the limit "
            "(ulimit -v)"
        )
    if isinstance(error, lmdb.TxnFullError):
        return StoreFullError(f"{location}: too many changes for one transaction; split them into several")
    if isinstance(error, lmdb.BadValsizeError):
        return make_key_error(location)
    if isinstance(error, lmdb.ReadonlyError) or code in (errno.EPERM, errno.EROFS):
        return ReadOnlyError(
            f"{location}: this user has no permission to write to it; open the store read-only, or get write permission"
        )
    if isinstance(error, lmdb.PanicError):
        return StoreFullError(
            f"{location}: a write failed, because the disk is full or failing; the last commit is complete: free some "
            "space, close the store and open it again"
        )
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError)):
        return CorruptionError(f"{location}: LMDB found the data file damaged ({error}); restore it from a backup")
    if isinstance(error, lmdb.BadTxnError):
        return TransactionError(f"{location}: an earlier error ended this transaction; abort it and begin another")
    if "closed" in str(error):
        return ClosedError(f"{location}: the snapshot or transaction was closed; open another")
    return KvstoreError(f"{location}: LMDB failed: {error}")


@contextmanager
def translate_system_errors(location: str) -> Iterator[None]:
    """Replace an OSError from the block with a kvstore error; ``location`` is for errors that have no path."""
    try:
        yield
    except OSError as error:
        raise _translate_system_error(error, error.filename or location) from error


def _translate_system_error(error: OSError, path: str) -> KvstoreError:
    """Return the kvstore error for an OSError on one of the store's files."""
    if error.errno in NO_SPACE_ERRNOS:
        return StoreFullError(f"{path}: the disk is full or failing ({error.strerror}); free some space and try again")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return _make_deletion_error(path)
    if error.errno in _TOO_MANY_FILES_ERRNOS:
        return _make_too_many_files_error(path)
    return KvstoreError(
        f"{path}: cannot be used ({error.strerror}); check that it is a file that this user may read and write, on a "
        "local disk"
    )


def _make_deletion_error(location: str) -> StoreNotFoundError:
    """Return the error for a file of a store that another process deleted."""
    return StoreNotFoundError(
        f"{location}: the store was deleted, moved or unmounted while it was being opened; check the path, and open it "
        "again"
    )


def _make_too_many_files_error(location: str) -> KvstoreError:
    """Return the error for a process that may not open more files."""
    return KvstoreError(f"{location}: too many open files; close other stores, or raise the limit (ulimit -n)")


def make_key_error(location: str) -> InputError:
    """Return the error for a key that LMDB cannot hold."""
    return InputError(f"{location}: a key must be 1 to {MAX_KEY_BYTES} bytes long")
