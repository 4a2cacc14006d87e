"""Filter cache: the entity filter as this process's last commit left it, for the next one.

In: the filter of a write transaction that has committed. On disk: nothing. Out: the same filter in the next write
transaction, if nobody has written in between, else a new one: its pages need not be read, verified and copied again. It
is let go when it has many pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...storage.write_transaction import WriteTransaction
    from .entity_filter import EntityFilter

#: Pages of 4 KiB that are kept at most.
MAX_PAGES = 4096


class FilterCache:
    """Keeps one filter at most; any thread may call it."""

    def __init__(self) -> None:
        self._cached: tuple[EntityFilter, int] | None = None

    def take(self, view: WriteTransaction, *, hash_seed: int, temperature_sort: bool) -> EntityFilter:
        """The filter of a write transaction that has just begun."""
        from .entity_filter import EntityFilter

        cached, self._cached = self._cached, None
        if cached is None or view.change != cached[1] + 1:
            return EntityFilter(view, hash_seed=hash_seed, temperature_sort=temperature_sort)
        cached[0].switch_view(view, temperature_sort=temperature_sort)
        return cached[0]

    def put(self, entity_filter: EntityFilter, change: int) -> None:
        """Keep a filter whose changes have been committed as change number ``change``."""
        if entity_filter.cached_page_count <= MAX_PAGES:
            self._cached = entity_filter, change
