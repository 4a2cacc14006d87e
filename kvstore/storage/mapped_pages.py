"""Release the memory that a process holds of a mapped file.

In: a buffer of an open transaction, which keeps the map in place; or the number of records read. Out: pages of the file
no longer count as memory of the process. The system keeps them as long as it likes, and maps them again on the next
read. Does nothing if the system does not list the mappings of a process (Linux does, in ``/proc``).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path

from kvstore_cext.pages import get_address

#: Bytes of mapped files above which a process releases those of a store. More would count as its memory and hardly make
#: it faster, because the system caches the pages anyway.
MAX_MAPPED_BYTES = 1 << 29
#: Lookups of records release nothing before the process uses this many bytes in total. In a store of a million chunks,
#: mapping pages again takes a fifth of the time of the lookups of consecutive queries.
MIN_TOTAL_BYTES = 1 << 31
#: Records between two checks of memory use. The system maps about 64 KiB around a page that is read.
_CHECK_INTERVAL = 1024

_MAPPINGS = Path("/proc/self/maps")
_MEMORY_STATISTICS = Path("/proc/self/statm")


class PageReleaser:
    """Releases the pages of one mapped file if the process holds more than :data:`MAX_MAPPED_BYTES` of mapped files.

    For lookups, the process must also use more than :data:`MIN_TOTAL_BYTES`. Code that reads the file reports the
    number of records. Any thread may call it; pages that are read meanwhile are mapped again.
    """

    def __init__(self, release: Callable[[], None]) -> None:
        """Create a releaser; ``release`` releases the pages of the file."""
        self._release = release
        #: The numbers of records since the last check: read sequentially or to be written, and looked up.
        self._unchecked_reads = [0, 0]
        #: Bytes of other mapped files in memory: what was left after the last release.
        self._other_bytes = 0

    def count_reads(self, records: int, *, looked_up: bool = False) -> None:
        """Count records that were read, and release the pages of the file if too many of them are in memory.

        ``looked_up`` means that the records were looked up, so their pages may be read again.
        """
        # The index is False (0) for records read sequentially, and True (1) for records looked up.
        self._unchecked_reads[looked_up] += records
        if self._unchecked_reads[looked_up] >= _CHECK_INTERVAL:
            self._unchecked_reads[looked_up] = 0
            total_bytes, mapped_bytes = measure_memory()
            self._other_bytes = min(self._other_bytes, mapped_bytes)
            if mapped_bytes > self._other_bytes + MAX_MAPPED_BYTES and (not looked_up or total_bytes > MIN_TOTAL_BYTES):
                self._release()
                self._other_bytes = measure_memory()[1]


def measure_memory() -> tuple[int, int]:
    """Return the bytes of memory of this process, and the bytes of mapped files among them; 0, 0 if unknown."""
    try:  # the second and third field of the file
        total_pages, mapped_pages = map(int, _MEMORY_STATISTICS.read_bytes().split()[1:3])
    except OSError:
        return 0, 0
    return total_pages * mmap.PAGESIZE, mapped_pages * mmap.PAGESIZE


def release_pages(value: memoryview) -> None:
    """Release all pages of the shared mapping that contains ``value``; does nothing for other kinds of memory."""
    if not len(value) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    address = get_address(value)
    try:
        mappings = _MAPPINGS.read_text(errors="replace").splitlines()
    except OSError:
        return
    for mapping in mappings:
        span, permissions = mapping.split(maxsplit=2)[:2]
        start, end = (int(digits, 16) for digits in span.split("-"))
        # A shared mapping loses nothing; a private one would.
        if start <= address < end and permissions.endswith("s"):
            advise = ctypes.CDLL(None).madvise
            advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
            advise(start, end - start, mmap.MADV_DONTNEED)
            return
