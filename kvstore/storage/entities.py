"""Entities: the names a store knows, who introduced them, and where they are mentioned.

On disk: ``entities`` (id → forms and kinds, counted by introduction), ``entity_names`` (normal form → id, in order,
for prefixes), ``introductions`` (document → the names it introduces), ``mentions`` (chunk → occurrences in its text),
``place_mentions`` (document → occurrences in its title and headings). An entity exists while its counts are not all
zero. Where an entity is found is told by the entity filter and its block lists, not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from . import records, tables
from .environment import View, WriteView

#: An occurrence inside a chunk: offsets in bytes from the chunk's start.
MENTION = np.dtype([("entity", "<u4"), ("start", "<u2"), ("length", "<u2")])
#: An occurrence in a title or heading: the abstract that stands for it and the rank of its address.
PLACE_MENTION = np.dtype([("entity", "<u4"), ("rank", "<u4"), ("abstract", "<u8")])

MentionArray = npt.NDArray[np.void]


@dataclass(slots=True)
class EntityRecord:
    """What is known of an entity: how it was written and what kind of name it is, each with its number of
    introductions."""

    key: str
    forms: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The form it was introduced in most often; the first in code-point order among equals."""
        return min(self.forms, key=lambda form: (-self.forms[form], form))

    @property
    def kind(self) -> str:
        """The kind it was introduced as most often; the first in code-point order among equals."""
        return min(self.kinds, key=lambda kind: (-self.kinds[kind], kind))


class Entities:
    """The entities of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, entity: int) -> EntityRecord:
        """The record of an entity that must exist; raises CorruptionError where it does not."""
        key = records.u32(entity)
        value = self._view.get(tables.ENTITIES, key)
        if value is None:
            raise CorruptionError(f"entity {entity} is referred to but not stored; run CHECK")
        return EntityRecord(*records.unpack(value, tables.ENTITIES, key))

    def identify(self, key: str) -> int | None:
        """The id under a normal form, from the ordered index; raises CorruptionError where it is another's."""
        value = self._view.get(tables.ENTITY_NAMES, key.encode())
        if value is None:
            return None
        entity = int(records.U32.unpack(value)[0])
        self._confirmed(key, entity)
        return entity

    def scan(self) -> Iterator[tuple[int, EntityRecord]]:
        """All entities in order of their ids."""
        for key, value in self._view.scan(tables.ENTITIES):
            yield records.U32.unpack(key)[0], EntityRecord(*records.unpack(value, tables.ENTITIES, bytes(key)))

    def names(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Normal forms in order of their bytes, those beginning with ``prefix``, with their ids."""
        start = prefix.encode()
        for key, value in self._view.scan(tables.ENTITY_NAMES, start):
            plain = bytes(key)
            if not plain.startswith(start):
                return
            yield plain.decode(), int(records.U32.unpack(value)[0])

    def beginning(self, prefix: str) -> Iterator[EntityRecord]:
        """The entities whose normal form begins with ``prefix``, in order; raises CorruptionError where one is
        another's."""
        for key, entity in self.names(prefix):
            yield self._confirmed(key, entity)

    def _confirmed(self, key: str, entity: int) -> EntityRecord:
        """The record of the entity that a name leads to, which must be that name's."""
        record = self.get(entity)
        if record.key != key:
            raise CorruptionError(f"the name {key!r} leads to another entity; run CHECK")
        return record

    def introduced(self, document: int) -> list[tuple[int, str, str]]:
        """What a document introduces: entity id, form, kind."""
        key = records.u64(document)
        value = self._view.get(tables.INTRODUCTIONS, key)
        return [] if value is None else [tuple(row) for row in records.unpack(value, tables.INTRODUCTIONS, key)]


class EntityWriter(Entities):
    """The entities of one write transaction."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view

    def put(self, entity: int, record: EntityRecord) -> None:
        body = [record.key, record.forms, record.kinds]
        self._write.put(tables.ENTITIES, records.u32(entity), records.pack(body))

    def put_name(self, key: str, entity: int) -> None:
        self._write.put(tables.ENTITY_NAMES, key.encode(), records.u32(entity))

    def remove(self, entity: int, key: str) -> None:
        self._write.delete(tables.ENTITIES, records.u32(entity))
        self._write.delete(tables.ENTITY_NAMES, key.encode())

    def put_introduced(self, document: int, rows: list[tuple[int, str, str]]) -> None:
        if rows:
            self._write.put(tables.INTRODUCTIONS, records.u64(document), records.pack(rows))

    def remove_introduced(self, document: int) -> None:
        self._write.delete(tables.INTRODUCTIONS, records.u64(document))


class Mentions:
    """Where entities occur, by chunk and by document."""

    def __init__(self, view: View) -> None:
        self._view = view

    def in_chunk(self, chunk: int) -> MentionArray:
        """Occurrences in a chunk's text, in order of start, length and entity; dtype MENTION."""
        return self._array(tables.MENTIONS, chunk, MENTION)

    def in_places(self, document: int) -> MentionArray:
        """Occurrences in a document's title and headings; dtype PLACE_MENTION."""
        return self._array(tables.PLACE_MENTIONS, document, PLACE_MENTION)

    def scan(self) -> Iterator[tuple[int, MentionArray]]:
        """All chunks with mentions, in order of their ids."""
        for key, value in self._view.scan(tables.MENTIONS):
            chunk = records.U64.unpack(key)[0]
            yield chunk, np.frombuffer(records.unseal(value, tables.MENTIONS, bytes(key)), dtype=MENTION)

    def _array(self, table: str, number: int, dtype: np.dtype[np.void]) -> MentionArray:
        key = records.u64(number)
        value = self._view.get(table, key)
        if value is None:
            return np.empty(0, dtype)
        # Copied: a buffer of a write transaction goes stale at the next put.
        return np.frombuffer(records.unseal(value, table, key), dtype=dtype).copy()


class MentionWriter(Mentions):
    """The mentions of one write transaction; an empty array removes the row."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view

    def put_chunk(self, chunk: int, mentions: MentionArray) -> None:
        ordered = np.sort(mentions, order=("start", "length", "entity"))
        self._put(tables.MENTIONS, chunk, ordered)

    def put_places(self, document: int, mentions: MentionArray) -> None:
        ordered = np.sort(mentions, order=("rank", "abstract", "entity"))
        self._put(tables.PLACE_MENTIONS, document, ordered)

    def _put(self, table: str, number: int, mentions: MentionArray) -> None:
        if len(mentions):
            self._write.put(table, records.u64(number), records.seal(mentions.tobytes()))
        else:
            self._write.delete(table, records.u64(number))
