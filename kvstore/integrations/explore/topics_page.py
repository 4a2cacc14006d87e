"""The pages of topics: the list of topics, and one topic with its chunks."""

from __future__ import annotations

from typing import Any

from ...errors import EntityNotFoundError
from ..store_queries import fetch_named_rows, list_built_indexes
from .list_page import RowQuery, build_index_page
from .page import ExplorerPage, PageContent, PageRequest

_COLUMNS = "topic, level, tree, parent, title, chunks, documents, stale, text"


def build_list(request: PageRequest) -> PageContent:
    """Return the topics that contain ``q`` in their title or text; ``level`` selects a level.

    They are in order of tree and level, both descending; within a level, the largest come first.
    """
    return build_index_page(request, "topics", _COLUMNS, "tree DESC, level DESC, chunks DESC, topic", key="topic")


def build_topic(request: PageRequest) -> PageContent:
    """Return a topic with its parent, its subtopics and its chunks. Raises EntityNotFoundError for an unknown id."""
    topic_id, store = request.name, request.store
    rows = (
        _load_topics(request, "topic", topic_id)
        if topic_id.isdecimal() and "topics" in list_built_indexes(store)
        else []
    )
    if not rows:
        raise EntityNotFoundError(f"there is no topic {topic_id[:40]!r}; /topics lists the topics")
    topic = rows[0]
    subtopics = _load_topics(request, "parent", topic_id)
    members = RowQuery(
        request,
        "topic_members JOIN chunks ON chunks.document = topic_members.document "
        "AND chunks.ordinal = topic_members.chunk JOIN documents ON key = chunks.document",
    )
    members.add_condition("topic = ?", int(topic_id))
    content = members.build_page(
        'chunks.document AS document, documents.title AS title, heading, start, "end", chunks.text AS text',
        "chunks.document, ordinal",
    )
    # The parent is missing if the index is rebuilt meanwhile.
    parent = None if topic["parent"] is None else next(iter(_load_topics(request, "topic", topic["parent"])), None)
    return content | {"topic": topic, "parent": parent, "subtopics": subtopics}


def _load_topics(request: PageRequest, column: str, topic_id: Any) -> list[dict[str, Any]]:
    """Return up to 200 topics whose ``column`` (``topic`` or ``parent``) has this id, the largest first."""
    query = f"SELECT {_COLUMNS} FROM topics WHERE {column} = ? ORDER BY chunks DESC, topic LIMIT 200"
    return fetch_named_rows(request.store.query(query, (int(topic_id),)))


PAGE = ExplorerPage("/topics", build_list, "levels.html", label="Topics")
TOPIC_PAGE = ExplorerPage("/topic/", build_topic, "topic.html", is_named=True)
