"""An import of numpy whose linear algebra threads do not spin.

In: nothing. Out: numpy, loaded. On load, numpy's OpenBLAS starts a thread for every other core. Each polls for work for
2^26 cycles before it sleeps (``OPENBLAS_THREAD_TIMEOUT`` in OpenBLAS' documentation of its runtime variables). That
is about 25 ms of processor time per thread, as much as the rest of the import, for a process that asks one
question. Here the threads sleep after 2^20 cycles, which is still longer than the pause between two products of one
computation. A value in the environment takes precedence, and the environment is restored afterwards.
"""

from __future__ import annotations

import os
import sys

_VARIABLE, _CYCLES = "OPENBLAS_THREAD_TIMEOUT", "20"


def _import_numpy() -> None:
    """Import numpy, unless it is loaded or the environment already sets how long its threads spin."""
    if "numpy" in sys.modules or _VARIABLE in os.environ:
        return
    os.environ[_VARIABLE] = _CYCLES
    try:
        import numpy  # noqa: F401
    finally:
        os.environ.pop(_VARIABLE, None)


_import_numpy()
