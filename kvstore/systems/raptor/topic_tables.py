"""SQL tables of topics: ``topics`` and ``topic_members``. A *topic* is a group of similar chunks of all documents, with
a summary; coarse topics contain finer ones. A second tree has topics of related content: sentences that mention the
same entity.

In: one state of the store. Out: rows; no rows if the index does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...registry.sql_table import SqlTable, TableRows, make_list_table
from ...registry.table_reader import TableReader
from ...structures.indexes.generations import bind_generation
from .topic_index import TOPICS
from .topics import Topics


class _TopicRow(NamedTuple):
    """A row of the ``topics`` SQL table: a topic of an index."""

    topics: Topics
    id: int


def _iter_topic_rows(reader: TableReader) -> TableRows:
    """Yield the rows of the ``topics`` SQL table; topics without chunks are omitted.

    There are no rows without a ``topics`` index.
    """
    topics = bind_generation(reader.state, TOPICS)
    if topics is not None:
        yield from (_TopicRow(topics, topic) for topic in range(len(topics)) if topics.is_visible(topic))


def _find_topic(reader: TableReader, topic: int) -> TableRows:
    """Yield the row of a topic, if it exists."""
    topics = bind_generation(reader.state, TOPICS)
    if topics is not None and 0 <= topic < len(topics) and topics.is_visible(topic):
        yield _TopicRow(topics, topic)


def _count_documents(reader: TableReader, row: _TopicRow) -> int:
    """Return the number of documents that the chunks of a topic belong to."""
    chunks = row.topics.list_chunks(row.id)
    return len({record.document for record in reader.state.chunks.get_many(chunks)})


def _get_model(row: _TopicRow) -> str | None:
    """Return the name of the language model that wrote the text of a topic; None if the text is extractive."""
    text = row.topics.get_written_text(row.id)
    return None if text is None else text.model


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
    SqlTable(
        "topics",
        "topics in the topics index; level 0 is the finest; stale is true if a chunk was added or deleted later",
        {
            "topic": ("INTEGER", lambda reader, row, record: row.id),
            "level": ("INTEGER", lambda reader, row, record: int(row.topics.trees.levels[row.id])),
            "parent": ("INTEGER", lambda reader, row, record: row.topics.trees.get_parent(row.id)),
            "title": ("TEXT", lambda reader, row, record: row.topics.get_title(row.id)),
            "chunks": ("INTEGER", lambda reader, row, record: row.topics.count_chunks(row.id)),
            "documents": ("INTEGER", lambda reader, row, record: _count_documents(reader, row)),
            "stale": ("INTEGER", lambda reader, row, record: row.topics.is_stale(row.id)),
            "written_by": ("TEXT", lambda reader, row, record: _get_model(row)),
            "text": ("TEXT", lambda reader, row, record: row.topics.get_text(row.id)),
            "tree": ("TEXT", lambda reader, row, record: _get_tree_name(row.topics, row.id)),
        },
        scan=_iter_topic_rows,
        get_rowid=lambda reader, row: row.id + 1,
        equality_lookups={"topic": _find_topic},
    ),
    make_list_table(
        "topic_members",
        "chunks of the finest topics; newer is true if the chunk was added after the topics were built",
        {"topic": "INTEGER", "document": "TEXT", "chunk": "INTEGER", "newer": "INTEGER", "tree": "TEXT"},
        _iter_member_rows,
    ),
)
