"""The page of names: the store's entities, the most mentioned first, with a filter by text and kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...errors import QueryInterruptedError
from .list_page import RowQuery
from .page import ExplorerPage, PageContent, PageRequest

#: Finding a mention by its entity takes about this many times as long as reading it together with all others.
_LOOKUP_COST = 5


def build_content(request: PageRequest) -> PageContent:
    """Return the entities that match the request's ``q`` (text) and ``kind``, the most mentioned first.

    A kind is a type of entities, such as persons. Each entity has its numbers of mentions, documents and trees; the
    number of documents is None if counting them takes too long. ``of`` is the number of all entities.
    """
    names = RowQuery(request, "entities")
    text = names.filter_by_text("name")
    kinds = names.count_values("kind", "count(*) DESC, kind")
    kind = request.get_text("kind")
    if kind:
        names.add_condition("kind = ?", kind)
    content = names.build_page(
        "name, kind, mentions",
        "mentions DESC, key",
        details="(SELECT count(*) FROM nodes WHERE entity = name) AS trees",
    )
    num_documents = _count_documents(request, content["rows"])
    for row in content["rows"]:
        row["documents"] = None if num_documents is None else num_documents.get(row["name"], 0)
    return content | {"q": text, "kind": kind, "kinds": kinds, "of": int(request.store.statistics()["entities"])}


def _count_documents(request: PageRequest, rows: Sequence[dict[str, Any]]) -> dict[str, int] | None:
    """Return the number of documents that mention each entity in ``rows``; None if it takes half of the page's time.

    If the entities have a small share of all mentions, their mentions are looked up by entity. Otherwise it is faster
    to read all mentions.
    """
    ((num_mentions,),) = request.store.query("SELECT sum(mentions) FROM entities", timeout=request.seconds_left)
    condition, parameters = "", list[str]()
    if _LOOKUP_COST * sum(row["mentions"] for row in rows) < (num_mentions or 0):
        condition = "WHERE entity IN (SELECT value FROM json_each(?))"
        parameters.append(json.dumps([row["name"] for row in rows]))
    try:
        counts = request.store.query(
            f"SELECT entity, count(DISTINCT document) FROM mentions {condition} GROUP BY entity",
            parameters,
            timeout=request.seconds_left / 2,
        )
    except QueryInterruptedError:
        return None
    return dict(counts.fetchall())


PAGE = ExplorerPage("/names", build_content, "names.html", label="Names")
