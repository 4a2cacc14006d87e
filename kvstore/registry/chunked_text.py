"""A document cut into chunks, as read by derivations, which compute data from one document alone.
A *section* is the text below a heading. A *fact* is stated about the document by a user or a model, such as a triple.

In: an extracted document, or the record of a stored one. Out: the same :class:`ChunkedText` for both, so a derivation
gives the same result before and after the document is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..process.frozen_dataclass import frozen_dataclass
from ..structures.documents.documents import DocumentRecord, Section, build_heading_path
from ..text.languages import find_document_language

if TYPE_CHECKING:
    from ..extraction.extraction import ExtractedDocument
    from ..structures.state import State


class ChunkSpan(NamedTuple):
    """A chunk: bytes ``start`` to ``end`` of the text, and its section (-1: before the first heading)."""

    start: int
    end: int
    section: int


@frozen_dataclass
class ChunkedText:
    """A document with its sections and chunks, and ``facts``, such as triples, by kind.

    ``language`` is the name of its language, or None if it is unknown.
    """

    key: str
    title: str | None
    format: str
    text: bytes
    sections: Sequence[Section]
    chunks: Sequence[ChunkSpan]
    language: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def get_chunk_text(self, ordinal: int) -> bytes:
        """Return the text of a chunk, by its ordinal in the document."""
        return self.text[self.chunks[ordinal].start : self.chunks[ordinal].end]

    def list_headings(self, ordinal: int) -> list[str]:
        """Return the titles of the sections around a chunk, given by its ordinal, outermost first."""
        return build_heading_path(self.sections, self.chunks[ordinal].section)


def build_chunked_text(extracted_document: ExtractedDocument, facts: Mapping[str, Any]) -> ChunkedText:
    """Build the chunked text of ``extracted_document``, a document that is not stored yet.

    ``facts`` has the data that users or models stated about it, such as triples, by kind.
    """
    chunks = [ChunkSpan(chunk.start, chunk.end, chunk.section) for chunk in extracted_document.chunks]
    return ChunkedText(
        key=extracted_document.key,
        title=extracted_document.title,
        format=extracted_document.format,
        text=extracted_document.text,
        sections=extracted_document.sections,
        chunks=chunks,
        language=extracted_document.language,
        facts=facts,
    )


def load_chunked_text(state: State, record: DocumentRecord, facts: Mapping[str, Any]) -> ChunkedText:
    """Load the chunked text of a stored document: its text with its sections and chunks.

    ``facts`` has the data that users or models stated about it, such as triples, by kind.
    """
    text, sections = state.documents.read_text(record.id), state.documents.get_sections(record.id)
    chunks = [ChunkSpan(chunk.start, chunk.end, chunk.section) for chunk in state.chunks.get_many(record.chunk_ids())]
    language = find_document_language(record.meta, text)
    return ChunkedText(
        key=record.key,
        title=record.title,
        format=record.format,
        text=text,
        sections=sections,
        chunks=chunks,
        language=language,
        facts=facts,
    )
