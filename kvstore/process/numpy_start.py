"""An import of numpy whose linear algebra threads do not spin.

In: nothing. Out: a hook that changes how this process imports numpy, if nothing has imported it yet. On load, numpy's
OpenBLAS starts a thread for every other core. Each polls for work for 2^26 cycles before it sleeps
(``OPENBLAS_THREAD_TIMEOUT`` in OpenBLAS' documentation of its runtime variables). That is about 25 ms of processor time
per thread, as much as the rest of the import, for a process that asks one question. With the hook, the threads sleep
after 2^20 cycles, which is still longer than the pause between two products of one computation. A value in the
environment takes precedence, and the environment is restored after the import.

kvstore does not import numpy to open a store, because a process that only runs a SELECT does not need it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from .collection_pause import pause_collection

#: The variable, and its value: the logarithm to base 2 of the cycles.
_VARIABLE, _LOG_CYCLES = "OPENBLAS_THREAD_TIMEOUT", "20"


class _NumpyFinder:
    """A finder that sets ``_VARIABLE`` while numpy is loaded.

    It is never removed from the list of finders, because the imports of other threads that use the list could then
    fail.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of numpy, with a loader that limits how long OpenBLAS' threads spin.

        Returns None for every other module. If the user has set ``_VARIABLE``, OpenBLAS' limit, the loader is
        unchanged.
        """
        if fullname != "numpy":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or _VARIABLE in os.environ:
            return spec
        load = spec.loader.exec_module

        def load_with_variable(module: ModuleType) -> None:
            """Load numpy with ``_VARIABLE`` set, and remove the variable afterwards."""
            os.environ[_VARIABLE] = _LOG_CYCLES
            try:
                with pause_collection():  # an import leaves no garbage
                    load(module)
            finally:
                os.environ.pop(_VARIABLE, None)

        spec.loader.exec_module = load_with_variable  # type: ignore[method-assign]
        return spec


if "numpy" not in sys.modules:
    sys.meta_path.insert(0, _NumpyFinder())
