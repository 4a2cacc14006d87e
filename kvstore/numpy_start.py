"""numpy imported so that the threads which its linear algebra starts do not spin.

In: nothing. Out: numpy, loaded. OpenBLAS, which numpy brings, starts a thread for every other core when it is loaded,
and each looks for work for 2^26 cycles before it sleeps (``OPENBLAS_THREAD_TIMEOUT`` in OpenBLAS' documentation of its
runtime variables): some 25 ms of processor time a thread, as much as the rest of the import, for a process that asks
one question. Here they sleep after 2^20 cycles, still longer than what lies between two products of one computation.
What the environment says of it already holds, and nothing of this is left in the environment.
"""

from __future__ import annotations

import os
import sys

_VARIABLE, _CYCLES = "OPENBLAS_THREAD_TIMEOUT", "20"


def _import_numpy() -> None:
    """Import numpy, unless that is done or the environment says how long its threads spin."""
    if "numpy" in sys.modules or _VARIABLE in os.environ:
        return
    os.environ[_VARIABLE] = _CYCLES
    try:
        import numpy  # noqa: F401
    finally:
        os.environ.pop(_VARIABLE, None)


_import_numpy()
