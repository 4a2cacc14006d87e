"""The first page: the store's content, the state of its indexes, and its latest documents."""

from __future__ import annotations

from dataclasses import asdict

from ..store_queries import fetch_named_rows
from .page import ExplorerPage, PageContent, PageRequest

#: The number of listed documents.
_NUM_RECENT = 8


def build_content(request: PageRequest) -> PageContent:
    """Return the content of the overview page: counts, settings, indexes, and the most recently changed documents."""
    store = request.store
    recent_cursor = store.query(
        "SELECT key, title, bytes, chunks, changed FROM documents ORDER BY changed DESC, key LIMIT ?", (_NUM_RECENT,)
    )
    return {
        "path": str(store.path),
        "statistics": store.statistics(),
        "settings": {name: value for name, value, is_fixed in store.settings_table() if is_fixed},
        "indexes": [asdict(index) for index in store.indexes()],
        "recent": fetch_named_rows(recent_cursor),
    }


PAGE = ExplorerPage("/", build_content, "overview.html", label="Store")
