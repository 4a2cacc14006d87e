"""Packages of extras, imported when they are first needed.

In: the name of a module, and of the extra that installs it. Out: the module, or one error that names both.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module, util
from typing import Any

from ..errors import KvstoreError, MissingExtraError

#: The name under which kvstore is installed. On the package index, ``kvstore`` is another project.
DISTRIBUTION = "kvstore-db"


def import_extra(
    module: str, extra: str, purpose: str, *, package: str | None = None, error: type[KvstoreError] = MissingExtraError
) -> Any:
    """Import and return a module. If it is not installed, raise ``error``, which says that ``purpose`` needs it.

    ``package`` is the name of the distribution (None: the first part of the module's name). Raises ModuleNotFoundError
    if another module that the package imports is not installed.

    >>> import_extra("json", "arrow", "EXPORT TO a .parquet file").__name__
    'json'
    >>> import_extra("no_such_package.part", "arrow", "EXPORT TO a .parquet file")
    Traceback (most recent call last):
    kvstore.errors.MissingExtraError: EXPORT TO a .parquet file needs no_such_package; pip install 'kvstore-db[arrow]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as import_error:
        top_level = module.partition(".")[0]
        if (import_error.name or "").partition(".")[0] != top_level:
            raise  # the package is installed, but one of its dependencies is not
        raise error(f"{purpose} needs {package or top_level}; {format_install(extra)}") from None


def format_install(extra: str) -> str:
    """Return the command that installs an extra.

    >>> format_install("llm")
    "pip install 'kvstore-db[llm]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def find_first_missing(packages: Iterable[str]) -> str | None:
    """Return the first of these packages that is not installed, or None, without importing any."""
    return next((package for package in packages if util.find_spec(package) is None), None)
