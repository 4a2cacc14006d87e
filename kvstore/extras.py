"""What only an extra brings: packages that are imported when something needs them.

In: the name of a module, and of the extra of this distribution that installs it. Out: the module, or one error that
names both; nothing is imported before.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module, util
from typing import Any

from .errors import KvstoreError, MissingExtraError


def import_extra(
    module: str,
    extra: str,
    purpose: str,
    *,
    package: str | None = None,
    error: type[KvstoreError] = MissingExtraError,
) -> Any:
    """The module of this name; raises ``error``, which says what ``purpose`` needs, where it is not installed.

    ``package`` is what the distribution is called, where that is not the first part of the module's name.

    >>> import_extra("json", "arrow", "EXPORT TO a .parquet file").__name__
    'json'
    >>> import_extra("no_such_package.part", "arrow", "EXPORT TO a .parquet file")
    Traceback (most recent call last):
    kvstore.errors.MissingExtraError: EXPORT TO a .parquet file needs no_such_package; pip install 'kvstore[arrow]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as import_error:
        top_level = module.partition(".")[0]
        if (import_error.name or "").partition(".")[0] != top_level:
            raise  # the package is there, and lacks one of its own
        raise error(f"{purpose} needs {package or top_level}; pip install 'kvstore[{extra}]'") from None


def find_first_missing(packages: Iterable[str]) -> str | None:
    """The first of these packages that is not installed, or None; none is imported."""
    return next((package for package in packages if util.find_spec(package) is None), None)
