"""SQL tables of topics: ``topics`` and ``topic_members``.

In: one state of the store. Out: rows; no rows if the index does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...registry.sql_table import make_list_table
from ...registry.table_reader import TableReader
from ...structures.indexes.generations import bind_generation
from .topic_index import TOPICS
from .topics import Topics


def _iter_topic_rows(reader: TableReader) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the ``topics`` SQL table, in the order of its columns; topics without chunks are omitted.

    There are no rows without a ``topics`` index.
    """
    topics = bind_generation(reader.state, TOPICS)
    if topics is None:
        return
    for topic_id, topic in topics.iter_stored():
        if topics.is_visible(topic_id):
            model_text = topics.get_written_text(topic_id)
            chunks = topics.list_chunks(topic_id)
            yield (
                topic_id,
                topic.level,
                topic.parent,
                topics.get_title(topic_id),
                len(chunks),
                len({record.document for record in reader.state.chunks.get_many(chunks)}),
                topics.is_stale(topic_id),
                None if model_text is None else model_text.model,
                topics.get_text(topic_id),
                _get_tree_name(topics, topic_id),
            )


def _iter_member_rows(reader: TableReader) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the ``topic_members`` SQL table, in the order of its columns: the chunks of the finest topics.

    The topics of both trees (of similar chunks, and of related content) are included. ``is_newer`` is True for a chunk
    added after the build. There are no rows without a ``topics`` index.
    """
    topics = bind_generation(reader.state, TOPICS)
    if topics is None:
        return
    for topic in (*topics.list_level(0), *topics.list_level(0, in_related_tree=True)):
        chunks = topics.list_chunks(topic)
        for chunk, record in zip(chunks, reader.state.chunks.get_many(chunks), strict=True):
            is_newer = chunk >= topics.chunk_stop  # added after the topics were built
            yield (
                topic,
                reader.state.documents.get_key(record.document),
                record.ordinal,
                is_newer,
                _get_tree_name(topics, topic),
            )


def _get_tree_name(topics: Topics, topic: int) -> str:
    """Return the value of the ``tree`` column: ``relatedness`` (by entities) or ``similarity`` (by vectors)."""
    return "relatedness" if topics.is_in_related_tree(topic) else "similarity"


TABLES = (
    make_list_table(
        "topics",
        "topics in the topics index; level 0 is the finest; stale is true if a chunk was added or deleted later",
        {
            "topic": "INTEGER",
            "level": "INTEGER",
            "parent": "INTEGER",
            "title": "TEXT",
            "chunks": "INTEGER",
            "documents": "INTEGER",
            "stale": "INTEGER",
            "written_by": "TEXT",
            "text": "TEXT",
            "tree": "TEXT",
        },
        _iter_topic_rows,
    ),
    make_list_table(
        "topic_members",
        "chunks of the finest topics; newer is true if the chunk was added after the topics were built",
        {"topic": "INTEGER", "document": "TEXT", "chunk": "INTEGER", "newer": "INTEGER", "tree": "TEXT"},
        _iter_member_rows,
    ),
)
