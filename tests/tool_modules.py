"""The programs below ``tools/`` as modules: they are no package, and nothing installs them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def import_tool(name: str) -> ModuleType:
    """Import a tool again and return its module."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for theirs
    spec.loader.exec_module(module)
    return module
