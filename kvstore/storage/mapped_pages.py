"""The memory that a process holds of a mapped file, let go.

In: a buffer that an open transaction gave, which keeps the map where it is; or how many records were read. Out: pages
of the file that were read count no more as memory of the process; the system keeps them as long as it likes, and maps
them again when they are read. Does nothing where the system does not tell of the mappings of a process (Linux does, in
``/proc``).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path

import numpy as np

#: Bytes of mapped files beyond which a process lets go those of a store: more would count as its memory and make it
#: little faster, because the system keeps the pages of files all the same.
MAX_MAPPED_BYTES = 1 << 29
#: Who looks up records lets go nothing before the process takes so many bytes in all: to map anew what one question
#: after another looks up is a fifth of what they take in a store of a million chunks.
MIN_TOTAL_BYTES = 1 << 31
#: Records between two looks at how much is held. The system maps about 64 KiB around a page that is read.
_CHECK_INTERVAL = 1024

_MAPPINGS = Path("/proc/self/maps")
_MEMORY_STATISTICS = Path("/proc/self/statm")


class PageReleaser:
    """Lets go the pages of one mapped file whenever the process holds more of mapped files than :data:`MAX_MAPPED_BYTES` and,
    where records are looked up, takes more than :data:`MIN_TOTAL_BYTES`.

    Whoever reads the file tells how much. Any thread may; what it reads meanwhile is mapped again.
    """

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        #: Records since the last look: of those read one after the other or to be written, and of those looked up.
        self._unchecked_reads = [0, 0]
        #: Bytes of other files, as of the last time that something was let go.
        self._other_bytes = 0

    def note_reads(self, records: int, *, looked_up: bool = False) -> None:
        """So many records were read, or one that stands for a few pages; ``looked_up`` says that they may be again."""
        self._unchecked_reads[looked_up] += records
        if self._unchecked_reads[looked_up] >= _CHECK_INTERVAL:
            self._unchecked_reads[looked_up] = 0
            total_bytes, mapped_bytes = measure_memory()
            self._other_bytes = min(self._other_bytes, mapped_bytes)
            if mapped_bytes > self._other_bytes + MAX_MAPPED_BYTES and (not looked_up or total_bytes > MIN_TOTAL_BYTES):
                self._release()
                self._other_bytes = measure_memory()[1]


def measure_memory() -> tuple[int, int]:
    """Bytes that count as memory of this process, and those of mapped files among them; 0 where the system does not
    tell."""
    try:
        total_pages, mapped_pages = map(int, _MEMORY_STATISTICS.read_bytes().split()[1:3])
    except OSError:
        return 0, 0
    return total_pages * mmap.PAGESIZE, mapped_pages * mmap.PAGESIZE


def release_pages(value: memoryview) -> None:
    """Let go all pages of the shared mapping that ``value`` lies in; nothing where it lies in memory of other kinds."""
    if not len(value) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    address = np.frombuffer(value, np.uint8).ctypes.data
    try:
        mappings = _MAPPINGS.read_text(errors="replace").splitlines()
    except OSError:
        return
    for mapping in mappings:
        span, permissions = mapping.split(maxsplit=2)[:2]
        start, end = (int(bound, 16) for bound in span.split("-"))
        # Of a shared mapping nothing is lost; what is private to the process would be.
        if start <= address < end and permissions.endswith("s"):
            advise = ctypes.CDLL(None).madvise
            advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
            advise(start, end - start, mmap.MADV_DONTNEED)
            return
