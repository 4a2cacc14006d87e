"""The page of names: the store's entities, the most mentioned first, with a filter by text and kind."""

from __future__ import annotations

from .list_page import RowQuery
from .page import ExplorerPage, PageContent, PageRequest


def build_content(request: PageRequest) -> PageContent:
    """Return the entities that match the request's ``q`` (text) and ``kind``, the most mentioned first.

    A kind is a type of entities, such as persons. Each entity has its numbers of mentions, documents and trees.
    ``of`` is the number of all entities.
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
        details="(SELECT count(DISTINCT document) FROM mentions WHERE entity = name) AS documents, "
        "(SELECT count(*) FROM nodes WHERE entity = name) AS trees",
    )
    return content | {"q": text, "kind": kind, "kinds": kinds, "of": int(request.store.statistics()["entities"])}


PAGE = ExplorerPage("/names", build_content, "names.html", label="Names")
