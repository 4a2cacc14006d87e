"""Passages: chunks as they are read, with their texts, places and headings, and the summary above them.

In: ids of chunks that a state has. Out: a :class:`Passage` each. Records, keys and outlines of documents are read once
for all chunks asked for together; a text is decoded when it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..structures.documents.chunks import GROUP, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section, heading_path
from ..structures.reading import Request
from ..structures.state import State
from .evidence import AbstractNote


class Passage:
    """One chunk: its id, its record and that of its document."""

    def __init__(
        self, state: State, chunk: int, record: ChunkRecord, document: DocumentRecord, outline: Sequence[Section]
    ) -> None:
        self.chunk = chunk
        self.record = record
        self.document = document
        self._state = state
        self._outline = outline

    @cached_property
    def text(self) -> str:
        """Its text."""
        return self._state.documents.text_slice(self.document.id, self.record.start, self.record.end)

    @cached_property
    def headings(self) -> list[str]:
        """The headings around it, outermost first."""
        return self.headings_of(self.record.section)

    def headings_of(self, section: int) -> list[str]:
        """The headings around a section of its document, outermost first; none for -1."""
        return heading_path(self._outline, section)

    @property
    def begun(self) -> Iterable[str]:
        """The titles of the sections that begin in it."""
        for section in self._outline[max(0, self.record.section) :]:
            if section.start >= self.record.end:
                return
            if section.start >= self.record.start:
                yield section.title

    @property
    def leaf(self) -> int:
        """The id of the leaf abstract above it."""
        return self.chunk // GROUP

    @property
    def note(self) -> AbstractNote:
        """The leaf abstract above it."""
        abstract = self._state.abstracts.get(self.leaf)
        number = self.document.abstract_ordinal(self.leaf)
        return AbstractNote(number, self.document.key, abstract.level, self._state.abstracts.text(abstract))


@dataclass(frozen=True, slots=True)
class Passages(Request[list[Passage]]):
    """The passages of chunks that must exist, in their order."""

    chunks: Sequence[int]

    def fetch(self, state: State) -> list[Passage]:
        records = state.chunks.get_many(self.chunks)
        documents = state.documents.get_many(record.document for record in records)
        outlines = state.documents.outlines(documents)
        return [
            Passage(state, chunk, record, documents[record.document], outlines[record.document])
            for chunk, record in zip(self.chunks, records, strict=True)
        ]

    def placed(self, answer: list[Passage]) -> Sequence[int]:
        return self.chunks
