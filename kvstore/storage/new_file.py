"""A new file, such as the data file of a new store, or the directory of a new store, that appears complete or not at
all.

In: a free path. Out: a path next to it to write to. It is flushed and renamed into place once all is written, and
removed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import lmdb

from ..errors import InputError, StoreFullError
from .lmdb_errors import NO_SPACE_ERRNOS, STORAGE_ERRORS, translate_error
from .location import DATA_FILE, NEW_DATA_FILE, flush, require_free_path, require_utf8_path
from .partial_files import hold_lock, prepare_partial_path


@contextmanager
def create_file_atomically(target: Path) -> Iterator[Path]:
    """Yield the path of an empty file for the block to write, which is renamed to ``target`` if the block succeeds.

    Raises InputError if ``target`` exists or its parent directory does not, StoreFullError if it cannot be written.
    """
    require_free_path(target)
    partial_path = prepare_partial_path(target)
    try:
        partial_path.touch()
        with hold_lock(partial_path):
            yield partial_path
            flush(partial_path)
            partial_path.rename(target)
        flush(target.resolve().parent)
    except OSError as error:
        raise StoreFullError(f"{target}: cannot be written ({error.strerror}); choose another path") from error
    finally:
        with suppress(OSError):
            partial_path.unlink(missing_ok=True)


def create_store_copy(store: Path, target: Path, write: Callable[[Path], None]) -> None:
    """Create the ``target`` directory, in which ``write`` writes a copy of the data file of ``store``.

    Raises InputError if ``target`` exists, its parent does not, it is inside the store, or it is not UTF-8;
    StoreFullError if it cannot be written.
    """
    require_utf8_path(target)
    require_free_path(target)
    if target.resolve().is_relative_to(store.resolve()):
        raise InputError(f"{target}: is inside the store, and would be deleted with it; choose a path outside it")
    partial_path = prepare_partial_path(target)
    try:
        partial_path.mkdir()
        with hold_lock(partial_path):
            write(partial_path / DATA_FILE)
            flush(partial_path / DATA_FILE)
            flush(partial_path)
            partial_path.rename(target)
        flush(target.resolve().parent)
    except STORAGE_ERRORS as error:
        raise translate_error(error, str(target)) from error
    except OSError as error:
        raise StoreFullError(f"{target}: cannot be written ({error.strerror}); choose another path") from error
    finally:
        with suppress(OSError):
            (partial_path / DATA_FILE).unlink(missing_ok=True)
            partial_path.rmdir()


def create_data_file(directory: Path) -> None:
    """Create the data file of a new store, without tables, and make it durable; the writer lock must be held.

    Raises StoreFullError if it cannot be written.
    """
    data_path, partial_path = directory / DATA_FILE, directory / NEW_DATA_FILE
    try:
        partial_path.unlink(missing_ok=True)
        # lib_version=0: LMDB 0.9, whose file format kvstore reads.
        lmdb.open(str(partial_path), subdir=False, lock=False, lib_version=0).close()
        flush(partial_path)
        partial_path.rename(data_path)
        flush(directory)
        flush(directory.resolve().parent)
    except lmdb.Error as error:
        raise translate_error(error, str(data_path)) from error
    except OSError as error:
        if error.errno not in NO_SPACE_ERRNOS:
            raise
        raise StoreFullError(
            f"{data_path}: cannot be created ({error.strerror}); free some space and try again"
        ) from error
    finally:
        with suppress(OSError):
            partial_path.unlink(missing_ok=True)
