"""Mentions: where entities occur, by chunk and by document.

On disk: ``mentions`` (chunk → occurrences in its text) and ``place_mentions`` (document → occurrences in its title and
headings), each a list of three numbers an occurrence. Damage is a CorruptionError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from ...storage import records
from ...storage.environment import View, WriteView
from .. import tables


class Occurrence(NamedTuple):
    """An occurrence inside a chunk: offset and length in bytes, from the chunk's start."""

    entity: int
    start: int
    length: int


#: What ``Occurrence._make`` does, for very many.
_occurrence = partial(tuple.__new__, Occurrence)
#: Start, length, entity.
_ORDER = itemgetter(1, 2, 0)


class HeadingOccurrence(NamedTuple):
    """An occurrence in a title or heading: the rank of its address, and the abstract that stands for it."""

    entity: int
    rank: int
    abstract: int


class Mentions:
    """Where entities occur, by chunk and by document."""

    def __init__(self, view: View) -> None:
        self._view = view

    def in_chunk(self, chunk: int) -> list[Occurrence]:
        """Occurrences in a chunk's text, in order of start, length and entity."""
        return self.in_chunks([chunk])[0]

    def in_chunks(self, chunks: Iterable[int]) -> list[list[Occurrence]]:
        """Occurrences in each of some chunks; see :meth:`in_chunk`."""
        keys = list(map(records.u64, chunks))
        values = self._view.get_many(tables.MENTIONS, keys)
        return [[] if value is None else _occurrences(value, key) for key, value in zip(keys, values, strict=True)]

    def places_in(self, chunk: int) -> Iterator[tuple[int, int, int]]:
        """The same as :meth:`in_chunk` as plain numbers, for many chunks at a time: entity, start and length."""
        key = records.u64(chunk)
        value = self._view.get(tables.MENTIONS, key)
        return iter(()) if value is None else _numbers(value, key)

    def in_headings(self, document: int) -> list[HeadingOccurrence]:
        """Occurrences in a document's title and headings, in order of rank, abstract and entity."""
        return self.in_headings_of([document])[0]

    def in_headings_of(self, documents: Iterable[int]) -> list[list[HeadingOccurrence]]:
        """Occurrences in the title and headings of each of some documents; see :meth:`in_headings`."""
        keys = list(map(records.u64, documents))
        found = []
        for key, value in zip(keys, self._view.get_many(tables.PLACE_MENTIONS, keys), strict=True):
            row = iter(() if value is None else records.unpack(value, tables.PLACE_MENTIONS, key))
            found.append(list(map(HeadingOccurrence._make, zip(row, row, row, strict=True))))
        return found

    def scan(self) -> Iterator[tuple[int, list[Occurrence]]]:
        """All chunks with mentions, in order of their ids."""
        for key, value in self._view.scan(tables.MENTIONS):
            yield records.U64.unpack(key)[0], _occurrences(value, key)


class MentionWriter(Mentions):
    """The mentions of one write transaction; no occurrences remove the row. Those of chunks put are at hand until
    :meth:`forget`."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view
        self._at_hand: dict[int, list[Occurrence]] = {}

    def in_chunks(self, chunks: Iterable[int]) -> list[list[Occurrence]]:
        chunks = list(chunks)
        stored = [chunk for chunk in chunks if chunk not in self._at_hand]
        rows = dict(zip(stored, super().in_chunks(stored), strict=True))
        return [self._at_hand[chunk] if chunk in self._at_hand else rows[chunk] for chunk in chunks]

    def put_chunk(self, chunk: int, mentions: Iterable[Occurrence]) -> list[Occurrence]:
        """Store what a chunk mentions; returns it in order."""
        return self.put_chunks({chunk: mentions})[chunk]

    def put_chunks(self, mentions: Mapping[int, Iterable[Occurrence]]) -> Mapping[int, list[Occurrence]]:
        """Store what each of some chunks mentions; returns it in order, and perhaps that of others."""
        changes: dict[bytes, bytes | None] = {}
        for chunk, found in mentions.items():
            rows = self._at_hand[chunk] = sorted(found, key=_ORDER)
            last = 0
            row: list[int] = []
            for entity, start, length in rows:
                row += entity, start - last, length
                last = start
            changes[records.u64(chunk)] = records.pack(row) if row else None
        self._write.change_many(tables.MENTIONS, changes)
        return self._at_hand

    def remove(self, chunks: Iterable[int], documents: Iterable[int]) -> None:
        """Forget what documents mention that are about to go: their chunks, their titles and headings."""
        chunks = list(chunks)
        self._at_hand.update((chunk, []) for chunk in chunks)
        self._write.change_many(tables.MENTIONS, dict.fromkeys(map(records.u64, chunks)))
        self._write.change_many(tables.PLACE_MENTIONS, dict.fromkeys(map(records.u64, documents)))

    def forget(self) -> None:
        """Read from now on what is stored."""
        self._at_hand.clear()

    def put_headings(self, document: int, mentions: Iterable[HeadingOccurrence]) -> None:
        ordered = sorted((rank, abstract, entity) for entity, rank, abstract in mentions)
        row = [number for rank, abstract, entity in ordered for number in (entity, rank, abstract)]
        key = records.u64(document)
        if row:
            self._write.put(tables.PLACE_MENTIONS, key, records.pack(row))
        else:
            self._write.delete(tables.PLACE_MENTIONS, key)


def _occurrences(value: memoryview, key: bytes) -> list[Occurrence]:
    return list(map(_occurrence, _numbers(value, key)))


def _numbers(value: memoryview, key: bytes) -> Iterator[tuple[int, int, int]]:
    """Of each occurrence the entity, the start (stored is its distance from the one before), and the length."""
    row = records.unpack(value, tables.MENTIONS, key)
    return zip(row[::3], accumulate(row[1::3]), row[2::3], strict=True)
