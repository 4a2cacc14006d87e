"""Mentions: where entities occur, by chunk and by document.

On disk: ``mentions`` (chunk → occurrences in its text) and ``place_mentions`` (document → occurrences in its title and
headings), each a list of three numbers an occurrence. Damage is a CorruptionError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from . import records, tables
from .environment import View, WriteView

#: An occurrence inside a chunk: offsets in bytes from the chunk's start.
MENTION = np.dtype([("entity", "<u4"), ("start", "<u2"), ("length", "<u2")])
#: An occurrence in a title or heading: the abstract that stands for it and the rank of its address.
PLACE_MENTION = np.dtype([("entity", "<u4"), ("rank", "<u4"), ("abstract", "<u8")])

MentionArray = npt.NDArray[np.void]


class Mentions:
    """Where entities occur, by chunk and by document."""

    def __init__(self, view: View) -> None:
        self._view = view

    def in_chunk(self, chunk: int) -> MentionArray:
        """Occurrences in a chunk's text, in order of start, length and entity; dtype MENTION."""
        return self.in_chunks([chunk])[0]

    def in_chunks(self, chunks: Iterable[int]) -> list[MentionArray]:
        """Occurrences in each of some chunks; see :meth:`in_chunk`."""
        keys = list(map(records.u64, chunks))
        return [
            np.empty(0, MENTION) if value is None else _chunk_mentions(value, key)
            for key, value in zip(keys, self._view.get_many(tables.MENTIONS, keys), strict=True)
        ]

    def in_places(self, document: int) -> MentionArray:
        """Occurrences in a document's title and headings; dtype PLACE_MENTION."""
        key = records.u64(document)
        value = self._view.get(tables.PLACE_MENTIONS, key)
        return (
            np.empty(0, PLACE_MENTION) if value is None else _decoded(value, tables.PLACE_MENTIONS, key, PLACE_MENTION)
        )

    def scan(self) -> Iterator[tuple[int, MentionArray]]:
        """All chunks with mentions, in order of their ids."""
        for key, value in self._view.scan(tables.MENTIONS):
            yield records.U64.unpack(key)[0], _chunk_mentions(value, key)


class MentionWriter(Mentions):
    """The mentions of one write transaction; an empty array removes the row."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view

    def put_chunk(self, chunk: int, mentions: MentionArray) -> None:
        last = 0
        row: list[int] = []
        for start, length, entity in sorted((start, length, entity) for entity, start, length in mentions.tolist()):
            row += entity, start - last, length
            last = start
        self._put(tables.MENTIONS, chunk, row)

    def put_places(self, document: int, mentions: MentionArray) -> None:
        ordered = sorted((rank, abstract, entity) for entity, rank, abstract in mentions.tolist())
        row = [number for rank, abstract, entity in ordered for number in (entity, rank, abstract)]
        self._put(tables.PLACE_MENTIONS, document, row)

    def _put(self, table: str, number: int, row: list[int]) -> None:
        if row:
            self._write.put(table, records.u64(number), records.pack(row))
        else:
            self._write.delete(table, records.u64(number))


def _chunk_mentions(value: memoryview, key: bytes) -> MentionArray:
    mentions = _decoded(value, tables.MENTIONS, key, MENTION)
    mentions["start"] = np.cumsum(mentions["start"])
    return mentions


def _decoded(value: memoryview, table: str, key: bytes, dtype: np.dtype[np.void]) -> MentionArray:
    """The occurrences in a stored list."""
    row = records.unpack(value, table, key)
    mentions = np.empty(len(row) // 3, dtype)
    for place, name in enumerate(dtype.names or ()):
        mentions[name] = row[place::3]
    return mentions
