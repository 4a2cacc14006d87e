"""The table, list item or code block of a stored document that contains an offset. A *block* is one of these three;
paragraphs are none. A *section* is the text under one heading, and a *fence* the line that opens or closes code.

In: a document and a byte offset in its text. Out: the :class:`BlockSpan` around that byte, or None if the byte is at a
block's border or in prose. Only the section around the byte is read, or a few thousand bytes around it if the section
is longer. Plain text has only paragraphs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..text.blocks import skip_marker, split_chunk_blocks

if TYPE_CHECKING:
    from ..structures.documents.documents import DocumentRecord, Documents, Section

#: The number of bytes read before and after an offset in a long section.
_CONTEXT_BYTES = 4000
_FENCE_PATTERN = re.compile(rb"^[ >]*(`{3,}|~{3,})", re.MULTILINE)
#: Matches the start of a line that may begin a block; a text without a match has no blocks.
_BLOCK_START_PATTERN = re.compile(r"^[ \t>]*(?:[-*+|]|\d{1,9}[.)]|```|~~~)|^(?: {4}|\t)", re.MULTILINE)
_BLOCK_KINDS = frozenset(("table", "item", "code"))


class BlockSpan(NamedTuple):
    """A table, list item or code block: bytes ``start`` to ``end`` of a document's text.

    ``previous_end`` is the end of the text before the block; ``next_start`` is the start of the text after it.
    """

    start: int
    end: int
    previous_end: int
    next_start: int


class BlockFinder:
    """Finds the tables, list items and code blocks of documents in one state. Parsed sections are cached."""

    def __init__(self, documents: Documents) -> None:
        """Create a finder for the texts of ``documents``, the documents of the state."""
        self._documents = documents
        #: A cache of the blocks in a byte range of a document, by (document id, start, end).
        self._blocks_by_range: dict[tuple[int, int, int], list[BlockSpan]] = {}

    def find_block(self, record: DocumentRecord, sections: Sequence[Section], offset: int) -> BlockSpan | None:
        """Return the table, list item or code block that contains byte ``offset`` of a document.

        Returns None if ``offset`` is outside all blocks or at the border of one. ``sections`` has the sections of the
        document in text order.
        """
        section_index = bisect_right(sections, offset, key=lambda section: section.start)
        start = sections[section_index - 1].start if section_index else 0
        end = sections[section_index].start if section_index < len(sections) else record.size
        if end - start > 4 * _CONTEXT_BYTES:  # only a part of a long section is parsed
            start, end = self._narrow_range(record.id, start, end, offset)
        if (record.id, start, end) not in self._blocks_by_range:
            self._blocks_by_range[record.id, start, end] = self._parse_blocks(record.id, start, end)
        blocks = self._blocks_by_range[record.id, start, end]
        return next((block for block in blocks if block.start < offset < block.end), None)

    def _narrow_range(self, document: int, start: int, end: int, offset: int) -> tuple[int, int]:
        """Return the byte range (start, end) to parse around ``offset`` in a long section of a document.

        ``start`` and ``end`` are the bytes of the section. The returned range begins and ends at the nearest blank
        lines that are at least ``_CONTEXT_BYTES`` away from ``offset``, or at the borders of the section. If it would
        begin inside fenced code, it begins at the fence instead.
        """
        text = self._documents.read_text(document)
        blank_line_before = text.rfind(b"\n\n", start, max(start, offset - _CONTEXT_BYTES))
        if blank_line_before >= 0:
            new_start = blank_line_before + 2
            open_fence, fence_start = b"", start
            for match in _FENCE_PATTERN.finditer(text, start, new_start):
                if not open_fence:
                    open_fence, fence_start = match[1], match.start()
                elif match[1].startswith(open_fence):
                    open_fence = b""
            start = fence_start if open_fence else new_start
        blank_line_after = text.find(b"\n\n", offset + _CONTEXT_BYTES, end)
        return start, end if blank_line_after < 0 else blank_line_after

    def _parse_blocks(self, document: int, start: int, end: int) -> list[BlockSpan]:
        """Return the tables, list items and code blocks in bytes ``start`` to ``end`` of a document, in order.

        All paragraphs of one list item are one block.
        """
        text = self._documents.read_text_slice(document, start, end)
        if _BLOCK_START_PATTERN.search(text) is None:
            return []
        spans: list[tuple[int, int]] = []
        previous_kind = ""
        for block in split_chunk_blocks(text):
            continues_item = (
                block.kind == previous_kind == "item" and skip_marker(text, block.start, block.end) == block.start
            )
            if continues_item:  # without a list marker, it is another paragraph of the same item
                item_start, _ = spans[-1]
                spans[-1] = (item_start, block.end)
            elif block.kind in _BLOCK_KINDS:
                spans.append((block.start, block.end))
            previous_kind = block.kind
        return [self._to_block_span(text, block_start, block_end, start) for block_start, block_end in spans]

    def _to_block_span(self, text: str, char_start: int, char_end: int, text_start: int) -> BlockSpan:
        """Convert a block, characters ``char_start`` to ``char_end`` of ``text``, to a span in bytes of the document.

        ``text_start`` is the byte of the document at which ``text`` begins. White space next to the block belongs to
        neither the text before it nor the text after it.
        """
        previous_char_end = len(text[:char_start].rstrip())
        next_char_start = len(text) - len(text[char_end:].lstrip())
        block_start, block_end, previous_end, next_start = (
            text_start + len(text[:char_offset].encode())
            for char_offset in (char_start, char_end, previous_char_end, next_char_start)
        )
        return BlockSpan(block_start, block_end, previous_end, next_start)
