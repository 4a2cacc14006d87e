"""A cache that passes the entity filter of one write transaction to the next in the same process.

In: the filter of a committed write transaction. On disk: nothing. Out: the same filter for the next write transaction,
unless there was another commit in between; then a new one. Reusing it saves reading, verifying and copying its pages. A
filter with many pages is not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...storage.write_transaction import WriteTransaction
    from .entity_filter import EntityFilter

#: The maximum number of 4 KiB pages of a cached filter.
MAX_PAGES = 4096


class FilterCache:
    """A holder of at most one filter; any thread may call it."""

    def __init__(self) -> None:
        self._cached: tuple[EntityFilter, int] | None = None

    def take_filter(self, transaction: WriteTransaction, *, hash_seed: int) -> EntityFilter:
        """Return the filter for a write transaction that has just begun, and empty the cache.

        The cached filter is reused if nothing was committed since it was cached; otherwise the filter is new.
        """
        cached, self._cached = self._cached, None
        if cached is None or transaction.change != cached[1] + 1:
            from .entity_filter import EntityFilter

            return EntityFilter(transaction, hash_seed=hash_seed)
        cached[0].switch_view(transaction)
        return cached[0]

    def put(self, entity_filter: EntityFilter, change: int) -> None:
        """Cache a filter whose changes were committed as change number ``change``, unless it has too many pages."""
        if entity_filter.cached_page_count <= MAX_PAGES:
            self._cached = entity_filter, change
