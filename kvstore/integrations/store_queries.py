"""Helpers that several integrations use to query a store.

In: a store, or the result of a statement. Out: plain values.
"""

from __future__ import annotations

from typing import Any

import kvstore


def get_default_strategy(store: kvstore.Store) -> str:
    """Return the name of the strategy that answers a question if the question names none: the ``strategy`` setting."""
    return str(next(value for name, value, _ in store.settings_table() if name == "strategy"))


def list_built_indexes(store: kvstore.Store) -> set[str]:
    """Return the kinds of the indexes that can be read, such as ``topics``, including stale indexes."""
    return {index.kind for index in store.indexes() if index.state not in ("absent", "building")}


def fetch_named_rows(cursor: kvstore.Cursor) -> list[dict[str, Any]]:
    """Return all rows of a result as dictionaries keyed by column name."""
    return [dict(zip(cursor.columns, row, strict=True)) for row in cursor]
