"""The health page: sizes, indexes, strategies, the entity filter, and the last ingests with their failures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ...language import read_ingests
from ..store_queries import fetch_named_rows, get_default_strategy
from .page import ExplorerPage, PageContent, PageRequest

#: The number of listed ingests and of documents with omitted text.
_NUM_LISTED = 20
#: The labels of the sizes that the page shows, and their names in the statistics.
_SIZES = (
    ("texts", "text_bytes"),
    ("data file", "file_bytes"),
    ("used in the data file", "file_used_bytes"),
    ("entity filter", "filter_bytes"),
)


def build_content(request: PageRequest) -> PageContent:
    """Return sizes, indexes, strategies, settings, the last ingests, and the load factors of the entity filter's pages.

    ``omitted`` are the documents with the most omitted text, and ``changes`` has the numbers of documents by the day of
    their last change.
    """
    store = request.store
    statistics = store.statistics()
    sizes = [(label, int(statistics[name])) for label, name in _SIZES]
    sizes += [
        (f"index {name.removeprefix('index_').removesuffix('_bytes')}", int(value))
        for name, value in statistics.items()
        if name.startswith("index_") and name.endswith("_bytes")
    ]
    omitted_cursor = store.query(
        "SELECT key, title, left_out FROM documents WHERE left_out > 0 ORDER BY left_out DESC, key LIMIT ?",
        (_NUM_LISTED,),
    )
    changes_cursor = store.query(
        "SELECT substr(changed, 1, 10) AS day, count(*) AS documents FROM documents GROUP BY 1 ORDER BY 1 DESC LIMIT ?",
        (_NUM_LISTED,),
        timeout=request.seconds_left,
    )
    return {
        "statistics": statistics,
        "sizes": [{"label": label, "bytes": size} for label, size in sizes],
        "indexes": [asdict(index) for index in store.indexes()],
        "filter_loads": [load for (load,) in store.query("SELECT load FROM filter_pages ORDER BY page").fetchall()],
        "strategy": get_default_strategy(store),
        "strategies": [{"name": strategy.name, "description": strategy.description} for strategy in store.strategies()],
        "settings": [{"name": name, "value": value} for name, value, _ in store.settings_table()],
        "ingests": read_ingests(Path(store.path))[:_NUM_LISTED],
        "omitted": fetch_named_rows(omitted_cursor),
        "changes": fetch_named_rows(changes_cursor),
    }


PAGE = ExplorerPage("/health", build_content, "health.html", label="Health")
