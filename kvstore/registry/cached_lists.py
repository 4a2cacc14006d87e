"""Caches of the lists that are computed from the registries of systems, strategies and indexes.

In: functions without arguments. Out: functions that compute their result again only after the registries changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Value = TypeVar("Value")

#: Replaced by a new object at each change of the registries.
_registry_state = object()


def invalidate_lists() -> None:
    """Invalidate every cached list. Call it after a system was imported, added or removed."""
    global _registry_state
    _registry_state = object()


def cache_list(function: Callable[[], Value]) -> Callable[[], Value]:
    """Return ``function`` with a cache of its result.

    A result is not used again if the registries changed since its computation began, even in another thread.
    """
    cached_result: tuple[object, Value] | None = None

    @wraps(function)
    def compute_once() -> Value:
        """Return the cached result, or compute it again if the registries changed since it was computed."""
        nonlocal cached_result
        current_cache = cached_result  # another thread may replace it
        if current_cache is not None:
            cached_state, cached_value = current_cache
            if cached_state is _registry_state:
                return cached_value
        state = _registry_state
        value = function()
        cached_result = state, value
        return value

    return compute_once
