"""The memory that a process holds of a mapped file, let go.

In: a buffer that an open transaction gave, which keeps the map where it is. Out: pages of the file that were read count
no more as memory of the process; the system keeps them as long as it likes, and maps them again when they are read.
Does nothing where the system does not list the mappings of a process (Linux does, in ``/proc``).
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import numpy as np

_MAPPINGS = Path("/proc/self/maps")


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
        start, end = (int(place, 16) for place in span.split("-"))
        # Of a shared mapping nothing is lost; what is private to the process would be.
        if start <= address < end and permissions.endswith("s"):
            advise = ctypes.CDLL(None).madvise
            advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
            advise(start, end - start, mmap.MADV_DONTNEED)
            return
