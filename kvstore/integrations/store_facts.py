"""What several integrations ask of a store, each in one way.

In: a store, or what a statement gave. Out: plain values.
"""

from __future__ import annotations

from typing import Any

import kvstore


def get_default_strategy(store: kvstore.Store) -> str:
    """The strategy of a question that names none."""
    return str(next(value for name, value, _ in store.settings_table() if name == "strategy"))


def list_built_indexes(store: kvstore.Store) -> set[str]:
    """The kinds of indexes that can be read, be they behind the last commit or not."""
    return {index.kind for index in store.indexes() if index.state not in ("absent", "building")}


def fetch_named_rows(cursor: kvstore.Cursor) -> list[dict[str, Any]]:
    """All rows of a result, as mappings from the names of its columns."""
    return [dict(zip(cursor.columns, row, strict=True)) for row in cursor]
