"""Units: the sentences of a document, each with a vector (CUE-RAG, section 4.1: the middle part of its graph).

In: a document cut into chunks, and the units that a model has written for some of these. Out, for each document, plain
data: of each chunk the places of its units, and how many a model wrote in place of those. A unit is a sentence of
prose, an item of a list, or a row of a table, of four words or more where it is no row; a chunk that has none is one
unit itself. What is embedded is the title, the headings and the sentence: where it stands says whom a sentence means,
as the full names do that the paper has a model write. A chunk of one unit is not embedded twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...extraction.chunking import chunk_text
from ...extraction.extraction import byte_offsets, embedding_text
from ...settings import FixedSettings
from ...text.blocks import after_marker, blocks, plain, without_braces, without_links
from ...text.mail import is_mail_head
from ..contract import ChunkedText, Derivation, MaintainedIndex

#: The fact of a document that says which units a model wrote.
WRITTEN = "units"

#: Kinds of blocks of which the parts are units.
_TOLD = ("prose", "item", "table")
#: Words of the shortest sentence.
_LEAST_WORDS = 4


class Place(NamedTuple):
    """Where a unit of a chunk stands: bytes of the document's text."""

    start: int
    end: int


class UnitPart(NamedTuple):
    """What is derived of a document: of each chunk the places of its units, and how many texts a model wrote of it.

    A chunk of which a model wrote some has no places.
    """

    places: list[list[Place]]
    written: list[int]

    @property
    def counts(self) -> list[int]:
        """How many units each chunk has."""
        return [len(places) or written for places, written in zip(self.places, self.written, strict=True)]


def encoded(part: UnitPart, chunks: Sequence[Any]) -> Any:
    """A part as plain data: of each chunk a list of distances and lengths, or how many texts a model wrote."""
    rows: list[Any] = []
    for chunk, places, written in zip(chunks, part.places, part.written, strict=True):
        row: list[int] = []
        last = chunk.start
        for start, end in places:
            row += start - last, end - start
            last = end
        rows.append(row if places else written)
    return rows


def decoded(rows: Any, starts: Sequence[int]) -> UnitPart:
    """The part that is plain data; ``starts`` are those of the chunks."""
    part = UnitPart([], [])
    for row, start in zip(rows, starts, strict=True):
        places: list[Place] = []
        if not isinstance(row, int):
            numbers = iter(row)
            for distance, length in zip(numbers, numbers, strict=True):
                start += distance
                places.append(Place(start, start + length))
                start += length
        part.places.append(places)
        part.written.append(row if isinstance(row, int) else 0)
    return part


def shown(piece: str) -> str:
    """A unit as a reader sees it: without the marks of its list, of emphasis and of links."""
    told = plain(without_braces(without_links(piece[after_marker(piece, 0, len(piece)) :])))
    return ", ".join(cell for cell in map(str.strip, told.strip("|").split("|")) if cell) if told[:1] == "|" else told


def embedded_text(title: str | None, headings: Sequence[str], text: str) -> str:
    """What the vector of a unit is made from: where it stands, then what it says."""
    return ". ".join([*dict.fromkeys(part for part in [title, *headings] if part), text])


class UnitDerivation(Derivation):
    """The units of a document."""

    name = "units"
    version = 1
    facts = (WRITTEN,)
    quantised = True

    def derive(self, document: ChunkedText, settings: FixedSettings, options: Mapping[str, float | str]) -> Any:
        part = UnitPart([[] for _ in document.chunks], [0] * len(document.chunks))
        if not document.chunks:
            return []
        starts = np.array([chunk.start for chunk in document.chunks])
        for start, end in _sentences(document, settings):
            number = int(np.searchsorted(starts, start, "right")) - 1
            if number >= 0 and start < document.chunks[number].end:
                part.places[number].append(Place(start, min(end, document.chunks[number].end)))
        for number, chunk in enumerate(document.chunks):
            if not part.places[number]:
                part.places[number].append(Place(chunk.start, chunk.end))
        return encoded(part, document.chunks)

    def texts(self, part: Any, document: ChunkedText) -> Sequence[str]:
        found: list[str] = []
        unit_part = decoded(part, [chunk.start for chunk in document.chunks])
        for number, places in enumerate(unit_part.places):
            headings = document.headings(number)
            if len(places) == 1:
                found.append(embedding_text(document.title, headings, document.piece(number).decode()))
                continue
            for start, end in places:
                found.append(embedded_text(document.title, headings, shown(document.text[start:end].decode())))
        return found

    def faults(self, part: Any, document: ChunkedText) -> Iterator[str]:
        if len(part) != len(document.chunks):
            yield f"there are units of {len(part)} chunks, and it has {len(document.chunks)}"
            return
        for number, places in enumerate(decoded(part, [chunk.start for chunk in document.chunks]).places):
            for start, end in places:
                if not start < end <= document.chunks[number].end:
                    yield f"a unit lies outside chunk {number}"


def _sentences(document: ChunkedText, settings: FixedSettings) -> Iterator[Place]:
    """The places of sentences, items and rows, in bytes of the text, in its order."""
    text = document.text.decode()
    to_byte = byte_offsets(text, len(document.text))
    _, chunks = chunk_text(text, blocks(text, document.format), settings.chunk_tokens)
    for chunk in chunks:
        for unit, after in zip(chunk.units, [*chunk.units[1:], None], strict=True):
            piece = text[unit.start : unit.end]
            if unit.kind not in _TOLD or _is_rule(piece) or is_mail_head(text, unit.start, unit.end):
                continue
            if after is not None and _is_rule(text[after.start : after.end]):
                continue  # the names of columns say nothing alone
            words = sum(any(map(str.isalnum, word)) for word in shown(piece).split())
            if words >= (1 if unit.kind == "table" else _LEAST_WORDS):
                yield Place(int(to_byte[unit.start]), int(to_byte[unit.end]))


def _is_rule(piece: str) -> bool:
    """Whether a row only parts the head of a table from its body."""
    return piece.startswith(("|--", "|:", "| -", "| :")) and not any(map(str.isalnum, piece))


UNIT_DERIVATION = UnitDerivation()
UNIT_INDEX = MaintainedIndex(UNIT_DERIVATION, "sentences with vectors of their own, for the strategy cue", {})
