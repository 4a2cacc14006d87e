"""Loaded chunks: their texts, spans and headings, and the abstracts above them.

In: ids of chunks of a state. Out: a :class:`LoadedChunk` for each. Records, keys and outlines of documents are read
once for all chunks of a request; a text is decoded on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..structures.documents.chunks import GROUP_SIZE, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section, build_heading_path
from ..structures.read_requests import ReadRequest
from .evidence import AbstractNote

if TYPE_CHECKING:
    from ..structures.state import State


class LoadedChunk:
    """One chunk: its id, its record and the record of its document. The text is read on first use."""

    __slots__ = ("_outline", "_state", "_text", "chunk", "document", "record")

    def __init__(
        self, state: State, chunk: int, record: ChunkRecord, document: DocumentRecord, outline: Sequence[Section]
    ) -> None:
        self.chunk = chunk
        self.record = record
        self.document = document
        self._state = state
        self._outline = outline
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The text of the chunk."""
        if self._text is None:
            self._text = self._state.documents.read_text_slice(self.document.id, self.record.start, self.record.end)
        return self._text

    @property
    def headings(self) -> list[str]:
        """The headings around the chunk, outermost first."""
        return self.list_headings(self.record.section)

    def list_headings(self, section: int) -> list[str]:
        """Return the headings of a section and its ancestors, outermost first; empty for section -1 (no section)."""
        return build_heading_path(self._outline, section)

    @property
    def starting_titles(self) -> Iterable[str]:
        """The titles of the sections that begin in the chunk."""
        for section in self._outline[max(0, self.record.section) :]:
            if section.start >= self.record.end:
                return
            if section.start >= self.record.start:
                yield section.title

    @staticmethod
    def build_abstract_notes(chunks: Sequence[LoadedChunk]) -> list[AbstractNote]:
        """Return the distinct leaf abstracts above some chunks, in the order of the chunks."""
        first_chunks: dict[int, LoadedChunk] = {}
        for chunk in chunks:
            first_chunks.setdefault(chunk.chunk // GROUP_SIZE, chunk)
        if not first_chunks:
            return []
        abstracts = chunks[0]._state.abstracts
        return [
            AbstractNote(
                chunk.document.get_abstract_ordinal(leaf),
                chunk.document.key,
                record.level,
                abstracts.read_text(record),
            )
            for (leaf, chunk), record in zip(first_chunks.items(), abstracts.get_many(first_chunks), strict=True)
        ]


class ChunkReadRequest(ReadRequest[list[LoadedChunk]]):
    """A request for the loaded chunks with some ids, all of which must exist, in their order."""

    chunks: Sequence[int]

    def fetch(self, state: State) -> list[LoadedChunk]:
        """Read the records of chunks, their documents and their outlines."""
        records = state.chunks.get_many(self.chunks)
        documents = state.documents.get_many(record.document for record in records)
        outlines = state.documents.get_outlines(documents)
        return [
            LoadedChunk(state, chunk, record, documents[record.document], outlines[record.document])
            for chunk, record in zip(self.chunks, records, strict=True)
        ]

    def list_chunks(self, answer: list[LoadedChunk]) -> Sequence[int]:
        """Return the ids of the requested chunks."""
        return self.chunks
