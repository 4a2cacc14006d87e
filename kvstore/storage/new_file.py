"""A new file that appears whole or not at all.

In: a path at which nothing stands. Out: a path beside it to write to; it is flushed and renamed into place when all is
written, and removed when it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import StoreFullError
from .data_file import flush
from .location import require_free_path
from .partial_files import hold_lock, partial_path


@contextmanager
def create_file_atomically(target: Path) -> Iterator[Path]:
    """Where to write what is to stand at ``target``.

    Raises InputError when something stands there or its folder does not exist, StoreFullError when it cannot be
    written.
    """
    require_free_path(target)
    partial = partial_path(target)
    try:
        partial.touch()
        with hold_lock(partial):
            yield partial
            flush(partial)
            partial.rename(target)
        flush(target.resolve().parent)
    except OSError as error:
        raise StoreFullError(f"{target}: cannot be written ({error.strerror}); choose another place") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
