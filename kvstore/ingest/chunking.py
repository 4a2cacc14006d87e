"""Chunks of a text: whole sentences under one heading, about as long as asked for.

In: a text, its blocks and a size in tokens. Out: the outline (sections by heading) and the chunks, with spans in
characters of that text. Sentences, list items, table rows and lines of code are kept whole; one that alone is more
than twice the size is cut between words. Every character that is not white space lies in exactly one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..text.blocks import Block
from ..text.sentences import sentences
from ..text.words import TOKEN, token_count

#: A chunk is at most this long whatever its tokens are, so that offsets inside it fit 16 bits.
LONGEST_CHUNK = 16_000

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Heading:
    """A section: its heading's level and title, the index of the enclosing section (-1: none), and its span."""

    level: int
    title: str
    parent: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unit:
    """What is never parted: a sentence, item, row or line, with its size and the kind of the block it is of."""

    start: int
    end: int
    tokens: int
    kind: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk: its span, the innermost section it lies in (-1: none), and its units (sentences, items, lines)."""

    start: int
    end: int
    section: int
    units: list[Unit] = field(default_factory=list)


def chunk_text(text: str, found: Sequence[Block], tokens: int) -> tuple[list[Heading], list[Chunk]]:
    """Sections and chunks of a text, in order of the text; ``found`` are its blocks."""
    sections = _sections(found, len(text))
    chunks: list[Chunk] = []
    units: list[Unit] = []
    lead: list[Unit] = []  # headings that still wait for a body
    section = here = -1
    for block in found:
        if block.kind == "heading":
            if units:
                chunks += _pack([*lead, *units], here, tokens)
                lead, units = [], []
            section += 1
            lead.append(_unit(text, block.start, block.end, block.kind))
        else:
            here = section
            units += _units(text, block, tokens)
    if lead or units:
        chunks += _pack([*lead, *units], section, tokens)
    return sections, chunks


def _sections(found: Sequence[Block], end: int) -> list[Heading]:
    headings = [block for block in found if block.kind == "heading"]
    parents: list[int] = []
    stops = [end] * len(headings)
    open_sections: list[int] = []
    for index, heading in enumerate(headings):
        while open_sections and headings[open_sections[-1]].level >= heading.level:
            stops[open_sections.pop()] = heading.start
        parents.append(open_sections[-1] if open_sections else -1)
        open_sections.append(index)
    return [
        Heading(heading.level, heading.title, parent, heading.start, stop)
        for heading, parent, stop in zip(headings, parents, stops, strict=True)
    ]


def _unit(text: str, start: int, end: int, kind: str) -> Unit:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    piece = piece.strip()
    return Unit(start, start + len(piece), token_count(piece), kind)


def _units(text: str, block: Block, tokens: int) -> Iterator[Unit]:
    if block.kind in ("code", "table"):
        spans = _lines(text, block.start, block.end)
    else:
        spans = ((block.start + a, block.start + b) for a, b in sentences(text[block.start : block.end]))
    for start, end in spans:
        unit = _unit(text, start, end, block.kind)
        if unit.tokens > 2 * tokens or unit.end - unit.start > LONGEST_CHUNK // 2:
            yield from _cut(text, unit, tokens)
        else:
            yield unit


def _lines(text: str, start: int, end: int) -> Iterator[Span]:
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop + 1
        if text[start:stop].strip():
            yield start, stop
        start = stop


def _cut(text: str, unit: Unit, tokens: int) -> Iterator[Unit]:
    """Parts of a unit that is too long, cut before a token."""
    start, count = unit.start, 0
    for match in TOKEN.finditer(text, unit.start, unit.end):
        if count == tokens or (count and match.end() - start > LONGEST_CHUNK // 2):
            yield _unit(text, start, match.start(), unit.kind)
            start, count = match.start(), 0
        count += 1
    if start < unit.end:
        # White space without end is no text: only what stands before it is kept together.
        yield _unit(text, start, unit.end, unit.kind)


def _pack(units: list[Unit], section: int, tokens: int) -> Iterator[Chunk]:
    """Chunks of about equal size from the units of one section."""
    total = sum(unit.tokens for unit in units)
    quota = total / max(1, round(total / tokens))
    taken: list[Unit] = []
    filled = 0.0
    for unit in units:
        too_long = taken and unit.end - taken[0].start > LONGEST_CHUNK
        if taken and (too_long or filled + unit.tokens / 2 > quota):
            yield _chunk(taken, section)
            filled = max(-quota / 2, filled - quota) if not too_long else 0.0
            taken = []
        taken.append(unit)
        filled += unit.tokens
    yield _chunk(taken, section)


def _chunk(units: list[Unit], section: int) -> Chunk:
    return Chunk(units[0].start, units[-1].end, section, units)
