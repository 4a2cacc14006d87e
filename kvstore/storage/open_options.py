"""The options with which a store is opened: their checks, and the initial size of the memory map."""

from __future__ import annotations

from ..errors import InputError
from .data_file import SMALLEST_MAP
from .records import PAGE_SIZE

#: The default size of the map of a small file. The map is address space, not disk space, so it is larger than the file.
#: It can grow only while no transaction is open. A process has 128 TiB of address space on most systems, enough for
#: thousands of stores.
MIN_MAP_BYTES = 16 << 30
#: The size of the map of a large file, in multiples of the file's size.
_MAP_FACTOR = 16

DURABILITIES = ("full", "relaxed")


def check_options(durability: str, map_size: int | None, max_bytes: int | None, lock_timeout: float) -> None:
    """Raise InputError if an option of :meth:`.environment.Environment.open` is invalid."""
    if durability not in DURABILITIES:
        raise InputError(f"durability={durability!r} is unknown; use one of {', '.join(DURABILITIES)}")
    for name, size in (("map_size", map_size), ("max_bytes", max_bytes)):
        if size is not None and size < SMALLEST_MAP:
            raise InputError(f"{name}={size} is too small for any store; allow at least {SMALLEST_MAP}")
    check_lock_timeout(lock_timeout)


def check_lock_timeout(lock_timeout: float) -> None:
    """Raise InputError if a lock timeout is negative."""
    if lock_timeout < 0:
        raise InputError(f"lock_timeout={lock_timeout} is negative; specify seconds, or 0 to try only once")


def compute_map_size(map_size: int | None, max_bytes: int | None, file_bytes: int) -> int:
    """Return the initial size of the memory map of a data file with ``file_bytes`` bytes, which is 0 for a new file.

    ``map_size`` is the size that the caller of kvstore.open requested (None: none). ``max_bytes`` limits the result, in
    whole pages (None: no limit).
    """
    size = map_size or max(MIN_MAP_BYTES, _MAP_FACTOR * file_bytes)
    return size if max_bytes is None else min(size, max_bytes // PAGE_SIZE * PAGE_SIZE)
