"""A new file that appears complete or not at all.

In: a free path. Out: a path next to it to write to. The file is flushed and renamed into place once all is written, and
removed otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import StoreFullError
from .location import flush, require_free_path
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
