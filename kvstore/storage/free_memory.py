"""Return freed memory of the process to the system.

In: nothing. Out: less resident memory. The GNU C library keeps freed memory that lies below memory still in use,
because the process may request it again (malloc_trim(3)). A load of documents needs much memory only temporarily, so
the memory is returned afterwards.
"""

from __future__ import annotations

import ctypes
import sys


def release_free_memory() -> None:
    """Return unused pages of the C library's heap to the system; does nothing if the library cannot."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))
