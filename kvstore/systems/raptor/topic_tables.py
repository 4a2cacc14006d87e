"""Topics as tables of SELECT: ``topics`` and ``topic_members``.

In: one state of the store. Out: rows; none where the index is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...structures.indexes.generations import bind_generation
from ..reader import Reader
from ..sql_table import listed
from .topic_index import TOPICS
from .topics import Topics


def _topics(reader: Reader) -> Iterator[tuple[Any, ...]]:
    topics = bind_generation(reader.view, TOPICS)
    for number, one in topics.stored() if topics is not None else ():
        if topics is not None and topics.alive(number):
            model_text = topics.written(number)
            chunks = topics.chunks(number)
            yield (
                number,
                one.level,
                one.parent,
                topics.title(number),
                len(chunks),
                len({record.document for record in reader.view.chunks.get_many(chunks)}),
                topics.stale(number),
                None if model_text is None else model_text.model,
                topics.text(number),
                _tree(topics, number),
            )


def _members(reader: Reader) -> Iterator[tuple[Any, ...]]:
    topics = bind_generation(reader.view, TOPICS)
    if topics is None:
        return
    for topic in (*topics.at(0), *topics.at(0, related=True)):
        chunks = topics.chunks(topic)
        for chunk, record in zip(chunks, reader.view.chunks.get_many(chunks), strict=True):
            is_newer = chunk >= topics.chunk_stop
            yield topic, reader.view.documents.key_of(record.document), record.ordinal, is_newer, _tree(topics, topic)


def _tree(bound: Topics, topic: int) -> str:
    """Which tree a topic is of."""
    return "relatedness" if bound.is_related(topic) else "similarity"


TABLES = (
    listed(
        "topics",
        "what the documents are about, by CREATE INDEX topics; level 0 is the finest; stale where a chunk came or went",
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
        _topics,
    ),
    listed(
        "topic_members",
        "the chunks of the finest topics; newer where the chunk came after the topics were made",
        {"topic": "INTEGER", "document": "TEXT", "chunk": "INTEGER", "newer": "INTEGER", "tree": "TEXT"},
        _members,
    ),
)
