"""Import of spaCy without modules that kvstore does not need: torch, which thinc looks for, and the programs of spaCy's
command line.

In: nothing. Out: a context in which the current thread imports spaCy in this way, which saves a second and 170 MB if
torch is installed, and 18 MB for the programs. Other threads are not affected, and neither are later imports; only
``spacy.info`` stays None.
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


class _LeanImport(MetaPathFinder, Loader):
    """Hides torch from one thread, and gives it empty modules for spaCy's programs."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() != self._thread:
            return None
        if fullname == "torch":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return ModuleSpec(fullname, self, is_package=fullname == _CLI_MODULES[0]) if fullname in _CLI_MODULES else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.info = None  # type: ignore[attr-defined]  # what spaCy takes from there


@contextmanager
def lean_import() -> Iterator[None]:
    """Import spaCy without torch and its programs, unless it is imported already."""
    finder = _LeanImport()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in _CLI_MODULES:
            if getattr(sys.modules.get(name), "__loader__", None) is finder:
                del sys.modules[name]
