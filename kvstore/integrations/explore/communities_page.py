"""The pages of communities: the list of communities, and one community with its names."""

from __future__ import annotations

from ...errors import EntityNotFoundError, InputError
from ..store_queries import fetch_named_rows, list_built_indexes
from .list_page import RowQuery, build_index_page
from .page import ExplorerPage, PageContent, PageRequest

_COLUMNS = "community, level, parent, title, entities, passages, documents, stale, text"


def build_list(request: PageRequest) -> PageContent:
    """Return the communities that contain ``q`` in their title or text; ``level`` selects a level."""
    return build_index_page(request, "communities", _COLUMNS, "level, entities DESC, community")


def build_community(request: PageRequest) -> PageContent:
    """Return a community with its parent, its parts (the communities directly below it) and its names.

    Raises EntityNotFoundError if there is no such community.
    """
    store, key = request.store, request.name
    try:
        description = store.describe("community", key) if "communities" in list_built_indexes(store) else None
    except InputError:
        description = None
    if description is None:
        raise EntityNotFoundError(f"there is no community {key[:80]!r}; /communities lists the communities")
    members = RowQuery(request, "community_members LEFT JOIN entities ON name = entity", size=100)
    members.add_condition("community = ?", key)
    content = members.build_page("entity, weight, mentions", "weight DESC, entity")
    parts = fetch_named_rows(
        store.query(
            "SELECT community, title, entities FROM communities WHERE parent = ? ORDER BY entities DESC", (key,)
        )
    )
    parent = description["parent"] and store.describe("community", description["parent"])
    return content | {"community": description, "parent": parent, "parts": parts}


PAGE = ExplorerPage("/communities", build_list, "levels.html", label="Communities")
COMMUNITY_PAGE = ExplorerPage("/community/", build_community, "community.html", is_named=True)
