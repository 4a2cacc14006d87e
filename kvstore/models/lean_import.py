"""Import of spaCy without modules that kvstore does not need: torch, and the programs of spaCy's command line.

In: nothing. Out: a context manager within which the current thread imports spaCy in this way. This saves a
second and 170 MB if torch is installed, which thinc imports, and 18 MB for the programs. Other threads and later
imports are not affected, except that ``spacy.info`` stays None.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: The imports of ``spacy/__init__.py`` from its command line, and their package.
_CLI_MODULES = ("spacy.cli", "spacy.cli.info")


class _LeanImporter(MetaPathFinder, Loader):
    """An importer that hides torch from one thread, and returns empty modules for spaCy's programs."""

    def __init__(self) -> None:
        """Remember the current thread: unneeded modules are hidden only from its imports."""
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of an empty module if ``fullname`` is a module from spaCy's command line, else None.

        Raises ModuleNotFoundError for torch. Python calls this method for each import before its own finders.
        """
        if threading.get_ident() != self._thread:  # other threads import as usual
            return None
        if fullname == "torch":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        if fullname not in _CLI_MODULES:
            return None
        return ModuleSpec(fullname, self, is_package=fullname == _CLI_MODULES[0])  # the first is the package

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that Python creates an ordinary empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Define ``info`` as None in an empty module: spaCy imports only this name from its programs."""
        module.info = None  # type: ignore[attr-defined]


@contextmanager
def hide_unneeded_modules() -> Iterator[None]:
    """Make imports of spaCy in this thread skip torch and spaCy's programs, within the ``with`` block."""
    finder = _LeanImporter()
    # The list is replaced, not modified: another thread that iterates over it could skip a finder after a removal.
    sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [other for other in sys.meta_path if other is not finder]
        for name in _CLI_MODULES:
            if getattr(sys.modules.get(name), "__loader__", None) is finder:
                del sys.modules[name]
