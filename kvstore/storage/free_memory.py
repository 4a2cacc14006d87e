"""Memory that the process has freed, given back to the system.

In: nothing. Out: less resident memory. The C library of GNU keeps what was freed below anything still in use, for it
may be asked for again (malloc_trim(3)); after a load, which takes much once, it is not.
"""

from __future__ import annotations

import ctypes
import sys


def release_free_memory() -> None:
    """Have the C library give back the pages of its heap that nothing lies in; does nothing where it cannot."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))
