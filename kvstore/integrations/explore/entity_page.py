"""The page of an entity: its neighbors as a picture and a list, its mentions, and its communities and topics."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import kvstore

from ...errors import EntityNotFoundError
from ..entity_network import NUM_SCANNED_NEIGHBORS, build_network_around
from ..store_queries import list_built_indexes
from .page import ExplorerPage, PageContent, PageRequest

#: The default number of neighbors, and the maximum number of listed documents.
_NUM_NEIGHBORS, _MAX_DOCUMENTS = 24, 12
#: The maximum number of entities in a picture, and the maximum distance of an entity from the middle.
MAX_NAMES, _MAX_DEPTH = 150, 3


def build_content(request: PageRequest) -> PageContent:
    """Return the properties of an entity, its nearest neighbors with their edges, and its most relevant documents.

    The request's argument ``limit`` is the number of neighbors, and ``depth`` the maximum distance of the entities in
    the picture. In the content, ``names`` and ``joins`` are the nodes and edges of the picture, and ``places`` the
    documents. Raises EntityNotFoundError for an unknown entity.
    """
    store = request.store
    if not request.name:
        raise EntityNotFoundError("the URL names no entity; open /entity/NAME")
    limit = request.get_number("limit", _NUM_NEIGHBORS, minimum=1, maximum=MAX_NAMES)
    depth = request.get_number("depth", 1, minimum=1, maximum=_MAX_DEPTH)
    properties = store.describe_entity(request.name)
    neighbors = store.neighbours(request.name, max(limit, NUM_SCANNED_NEIGHBORS))
    max_names = limit + 1 if depth == 1 else MAX_NAMES
    network = build_network_around(
        store, request.name, depth=depth, limit=max_names, breadth=limit, known_neighbors=neighbors
    )
    return {
        "name": network.nodes[0].name,
        "properties": properties,
        "neighbours": [asdict(neighbor) for neighbor in neighbors[:limit]],
        "names": [asdict(node) for node in network.nodes],
        "depth": depth,
        "max_depth": _MAX_DEPTH,
        "joins": [asdict(edge) | {"solid": edge.is_solid} for edge in network.edges],
        "places": _list_documents(store, request.name),
        "communities": [_load_community(store, key) for key in properties.get("communities", ())],
        "topics": _list_topics(store, request.name),
        "most_names": MAX_NAMES,
    }


def _list_documents(store: kvstore.Store, name: str) -> list[dict[str, Any]]:
    """Return up to ``_MAX_DOCUMENTS`` documents that mention an entity, the most relevant first, as JSON data.

    Each has the heading and text of its most relevant mention, and the byte span of its first one (None if unknown).
    """
    mentions: dict[str, dict[str, Any]] = {}  # the most relevant one of each document
    # Several mentions can be in the same document.
    for mention in store.lookup(name, limit=8 * _MAX_DOCUMENTS):
        if mention.document is not None and mention.document not in mentions:
            mentions[mention.document] = {"document": mention.document, "heading": mention.parent, "text": mention.text}
    rows = list(mentions.values())[:_MAX_DOCUMENTS]
    span_query = 'SELECT start, "end" FROM mentions WHERE document = ? AND entity = ? ORDER BY start LIMIT 1'
    for row, document in zip(rows, store.get_many([row["document"] for row in rows]), strict=True):
        row["title"] = None if document is None else document.title
        first_span = store.query(span_query, (row["document"], name)).fetchone()
        row["start"], row["end"] = first_span or (None, None)
    return rows


def _load_community(store: kvstore.Store, key: str) -> dict[str, Any]:
    """Return the key and the displayed properties of a community."""
    description = store.describe("community", key)
    return {"key": key, **{name: description[name] for name in ("level", "title", "entities", "strongest", "text")}}


def _list_topics(store: kvstore.Store, name: str) -> list[dict[str, Any]]:
    """Return up to five of the finest topics of the chunks that mention an entity, by descending number of chunks.

    The list is empty if the index ``topics`` is not built.
    """
    if "topics" not in list_built_indexes(store):
        return []
    # Chunks are ids in mentions, but ordinals in topic_members. Each of the two tables is read once: a join would read
    # topic_members for every chunk.
    counts = store.query(
        "WITH counts AS MATERIALIZED (SELECT topic, count(*) AS chunks FROM topic_members WHERE tree = 'similarity' "
        "AND (document, chunk) IN (SELECT chunks.document, ordinal FROM "
        "(SELECT DISTINCT chunk FROM mentions WHERE entity = ?) AS named JOIN chunks ON chunks.id = named.chunk) "
        "GROUP BY topic ORDER BY count(*) DESC, topic LIMIT 5) "
        "SELECT counts.topic, title, counts.chunks FROM counts JOIN topics ON topics.topic = counts.topic "
        "ORDER BY counts.chunks DESC, counts.topic",
        (name,),
    )
    return [{"topic": topic, "title": title, "chunks": chunks} for topic, title, chunks in counts]


def _has_entity(store: kvstore.Store, name: str) -> bool:
    """True if the store has an entity with this name."""
    try:
        store.neighbours(name, 1)
    except EntityNotFoundError:
        return False
    return True


PAGE = ExplorerPage("/entity/", build_content, "entity.html", is_named=True, exists=_has_entity)
