"""The tables, list items and blocks of code of a stored document that a place lies inside of.

In: a document and a byte of its text. Out: the :class:`PlacedBlock` around that byte, or None where it is at a border
or in prose. Text is read as far as the section goes that the byte is in, or a few thousand bytes around it where that
is longer; plain text has paragraphs alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..text.blocks import after_marker, parts

if TYPE_CHECKING:
    from ..structures.documents.documents import DocumentRecord, Documents, Section

#: Bytes before and after a place that are read of a section longer than both.
_AROUND = 4000
_FENCE = re.compile(rb"^[ >]*(`{3,}|~{3,})", re.MULTILINE)
#: What a line begins with in a text that has blocks at all.
_OPENS = re.compile(r"^[ \t>]*(?:[-*+|]|\d{1,9}[.)]|```|~~~)|^(?: {4}|\t)", re.MULTILINE)
_KINDS = frozenset(("table", "item", "code"))


class PlacedBlock(NamedTuple):
    """Bytes ``start`` to ``end`` of a document's text; ``before`` is where what stands before the block ends, ``after``
    where what stands behind it begins."""

    start: int
    end: int
    before: int
    after: int


class BlockBorders:
    """The blocks of documents in one state; what was read for one place is kept for the next."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._read: dict[tuple[int, int, int], list[PlacedBlock]] = {}

    def around(self, record: DocumentRecord, outline: Sequence[Section], at: int) -> PlacedBlock | None:
        """The block that byte ``at`` of a document is inside of: neither where it begins nor where it ends."""
        number = bisect_right(outline, at, key=lambda section: section.start)
        start = outline[number - 1].start if number else 0
        end = outline[number].start if number < len(outline) else record.size
        if end - start > 4 * _AROUND:
            start, end = self._nearby(record.id, start, end, at)
        if (record.id, start, end) not in self._read:
            self._read[record.id, start, end] = self._blocks(record.id, start, end)
        found = self._read[record.id, start, end]
        return next((block for block in found if block.start < at < block.end), None)

    def _nearby(self, document: int, start: int, end: int, at: int) -> tuple[int, int]:
        """Where to read of a long section: from a blank line, outside of code."""
        text = self._documents.text(document)
        first = text.rfind(b"\n\n", start, max(start, at - _AROUND)) + 2
        if first > start + 1:
            fence, opened = b"", start
            for match in _FENCE.finditer(text, start, first):
                if not fence:
                    fence, opened = match[1], match.start()
                elif match[1].startswith(fence):
                    fence = b""
            start = opened if fence else first
        last = text.find(b"\n\n", at + _AROUND, end)
        return start, end if last < 0 else last

    def _blocks(self, document: int, start: int, end: int) -> list[PlacedBlock]:
        text = self._documents.text_slice(document, start, end)
        if _OPENS.search(text) is None:
            return []
        spans: list[tuple[int, int]] = []
        before = ""
        for part in parts(text):
            goes_on = part.kind == before == "item" and after_marker(text, part.start, part.end) == part.start
            if goes_on:  # another paragraph of the same item
                spans[-1] = (spans[-1][0], part.end)
            elif part.kind in _KINDS:
                spans.append((part.start, part.end))
            before = part.kind
        return [self._placed(text, first, last, start) for first, last in spans]

    def _placed(self, text: str, first: int, last: int, start: int) -> PlacedBlock:
        """A block at some characters of a text that begins at byte ``start``."""
        outer = len(text[:first].rstrip()), len(text) - len(text[last:].lstrip())
        begin, stop, before, after = (start + len(text[:at].encode()) for at in (first, last, *outer))
        return PlacedBlock(begin, stop, before, after)
