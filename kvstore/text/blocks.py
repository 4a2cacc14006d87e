"""The blocks of a text: headings, paragraphs, list items, tables and code, with where each stands.

In: plain text (paragraphs only) or CommonMark with tables; lines end with ``\\n``. Out: :class:`Block` spans in
characters, in order, that together hold everything but blank lines. Any string is legal input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_BLANK_LINES = re.compile(r"\n\s*\n")
#: The longest sentence of a summary.
_SENTENCE_WORDS, _SENTENCE_CHARACTERS = 60, 600
_MARKS = re.compile(r"(?<!\\)[*`]+|\\(?=[^\w\s])")


@dataclass(frozen=True, slots=True)
class Block:
    """One block: ``kind`` is heading, prose, item, table or code.

    A heading has its ``level`` and plain ``title``; so has the first paragraph of a list item, its level the depth of
    the list (1: the outermost). What follows in the same item has the level alone.
    """

    kind: str
    start: int
    end: int
    level: int = 0
    title: str = ""


def plain(text: str) -> str:
    """A piece of Markdown without its emphasis marks, on one line."""
    return " ".join(_unmarked(text).split())


def summary_sentence(text: str) -> str:
    """A sentence as a summary gives it: in plain words, cut where it is longer than a summary."""
    return " ".join(_unmarked(text).split(None, _SENTENCE_WORDS)[:_SENTENCE_WORDS])[:_SENTENCE_CHARACTERS]


def _unmarked(text: str) -> str:
    marked = "*" in text or "`" in text or "\\" in text  # as few texts are
    return _MARKS.sub("", text) if marked else text


def blocks(text: str, format: str) -> list[Block]:
    """The blocks of a text whose format is ``text`` or ``markdown``."""
    if format == "markdown":
        return _markdown_blocks(text)
    return list(_paragraphs(text))


def _paragraphs(text: str) -> Iterator[Block]:
    start = 0
    for end in [*(match.start() for match in _BLANK_LINES.finditer(text)), len(text)]:
        piece = text[start:end]
        if piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            yield Block("prose", first, first + len(piece.strip()))
        start = end


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Inline rules are not run: only the blocks and their lines are needed.
    return MarkdownIt("commonmark").enable("table").disable(["inline", "reference"])


_LEAVES = {"fence": "code", "code_block": "code", "table_open": "table", "html_block": "prose"}


def _markdown_blocks(text: str) -> list[Block]:
    line_starts = [0]
    for line in text.split("\n"):
        line_starts.append(line_starts[-1] + len(line) + 1)
    line_starts[-1] = len(text)
    found: list[Block] = []
    tokens = _parser().parse(text)
    index = 0
    in_item = 0
    while index < len(tokens):
        token = tokens[index]
        in_item += token.nesting if token.type.startswith("list_item") else 0
        opens_item = index > 0 and tokens[index - 1].type == "list_item_open"
        kind = _LEAVES.get(token.type)
        if token.type == "heading_open":
            found.append(_heading(tokens[index : index + 2], line_starts))
        elif kind or token.type == "paragraph_open":
            title = plain(tokens[index + 1].content) if opens_item and not kind else ""
            found += _span(text, token, line_starts, kind or ("item" if in_item else "prose"), in_item, title)
        if token.type == "table_open":
            while tokens[index].type != "table_close":
                index += 1
        index += 1
    return _with_gaps(text, found)


def _with_gaps(text: str, found: list[Block]) -> list[Block]:
    """The blocks, and as prose whatever else stands between them: rules, empty items, lone markers."""
    every: list[Block] = []
    position = 0
    for block in [*found, Block("end", len(text), len(text))]:
        gap = text[position : block.start]
        if gap.strip():
            start = position + len(gap) - len(gap.lstrip())
            every.append(Block("prose", start, start + len(gap.strip())))
        every.append(block)
        position = max(position, block.end)
    return every[:-1]


def _span(text: str, token: Token, line_starts: list[int], kind: str, level: int = 0, title: str = "") -> list[Block]:
    assert token.map is not None
    last = len(line_starts) - 1
    start, end = (line_starts[min(line, last)] for line in token.map)
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return [Block(kind, start, start + len(piece.strip()), level, title)] if piece.strip() else []


def _heading(tokens: list[Token], line_starts: list[int]) -> Block:
    opening, inline = tokens
    assert opening.map is not None
    last = len(line_starts) - 1
    start, end = (line_starts[min(line, last)] for line in opening.map)
    return Block("heading", start, end, int(opening.tag[1]), plain(inline.content))
