"""Plain text: the file is one document, kept word for word.

In: bytes in UTF-8, or what a byte-order mark or the option ``encoding`` says. Out: one document of format ``text``,
its title what stands at its beginning as one: a line that is underlined, lines in the middle of the page, or a line
alone that is no sentence, nor the first of several like ``Alarm code: 4711``. A log has none. Invalid bytes, a NUL and
an empty file are ReaderErrors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

from .decoding import decode_text
from .raw_document import Origin, RawDocument, ReadOptions

#: What is looked at for a title, in characters, and in paragraphs.
_MAX_BEGINNING_CHARACTERS = 4096
_MAX_PARAGRAPHS = 3
#: A title has at most so many lines, characters, and words where nothing but its place tells it.
_MAX_TITLE_LINES, _MAX_TITLE_CHARACTERS, _MAX_TITLE_WORDS = 3, 160, 12
#: Columns that a line in the middle of a page is set in, or set in further than what follows.
_MIN_CENTRED_INDENT, _MIN_FURTHER_INDENT = 8, 4
#: Columns of what is wide enough to have sides.
_MIN_PAGE_WIDTH = 60

_PARAGRAPH_PATTERN = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_UNDERLINE_PATTERN = re.compile(r"\s*([=*~#^\"_-])\1{2,}\s*")
#: Two things on a line, as on the first page of a memorandum or a standard (RFC 7322, 4.1).
_COLUMNS_PATTERN = re.compile(r"\S {3,}\S")
#: What no title has: an address, a notice of rights, a date or a number of a page and nothing else.
_NO_TITLE_PATTERN = re.compile(r"://|\S@\S|^(?:copyright|\(c\)|©)|^[\W\d]*$", re.I)
#: A name and a value, of which notes have one after the other.
_FIELD_PATTERN = re.compile(r"\s*[^\s:][^:\n]*: +\S")
_SENTENCE_END_PATTERN = re.compile(r"[.,;:!]$")
_TITLE_START_PATTERN = re.compile(r"[\"'“‘«(]?[^\W\d_]|\d+(?![\w.):/-])")


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the file's one document."""
    text = decode_text(stream.read(), origin.name, options.encoding)
    title = None if origin.name.lower().endswith(".log") else find_title(text)
    yield RawDocument(origin.key, title, text, {}, "text")


def find_title(text: str) -> str | None:
    r"""The title that stands at the beginning of a plain text, on one line; None where none does.

    >>> find_title("Release notes\n=============\nAll that is new.")
    'Release notes'
    >>> find_title("        GNU GENERAL PUBLIC LICENSE\n          Version 2, June 1991\n\n Copyright (C) 1989")
    'GNU GENERAL PUBLIC LICENSE, Version 2, June 1991'
    >>> find_title("The pump was stopped at noon.\n\nIt runs again."), find_title("Dear Ann,\n\nthank you.")
    (None, None)
    """
    paragraphs = [
        match[0].expandtabs().split("\n")
        for match in islice(_PARAGRAPH_PATTERN.finditer(text[:_MAX_BEGINNING_CHARACTERS]), _MAX_PARAGRAPHS + 1)
    ]
    width = max((len(line.rstrip()) for lines in paragraphs for line in lines), default=0)
    for lines, next_lines in zip(paragraphs[:_MAX_PARAGRAPHS], [*paragraphs[1:], [""]], strict=False):
        if len(lines) > 1 and _UNDERLINE_PATTERN.fullmatch(lines[0]):
            lines = lines[1:]
        if len(lines) > 1 and _UNDERLINE_PATTERN.fullmatch(lines[1]):
            return _format_title(lines[:1])
        if all(_UNDERLINE_PATTERN.fullmatch(line) or _is_right_aligned(line, width) for line in lines):
            continue
        is_indented = max(_get_indent(line) for line in lines) >= min(
            _MIN_CENTRED_INDENT, _get_indent(next_lines[0]) + _MIN_FURTHER_INDENT
        )
        is_first_field = all(
            len(paragraph_lines) == 1 and _FIELD_PATTERN.match(paragraph_lines[0])
            for paragraph_lines in (lines, next_lines)
        )
        if (is_indented and len(lines) <= _MAX_TITLE_LINES) or (
            len(lines) == 1 and _is_title_like(lines[0]) and not is_first_field
        ):
            return _format_title(lines)
        if not any(_COLUMNS_PATTERN.search(line.strip()) for line in lines):
            return None
    return None


def _is_right_aligned(line: str, width: int) -> bool:
    """Whether a line is set to the right side of a page, as dates and authors are, which no title is."""
    return width >= _MIN_PAGE_WIDTH and _get_indent(line) + len(line.rstrip()) > 1.5 * width


def _is_title_like(line: str) -> bool:
    """Whether a line that stands alone may be a title: some words, or one that is written as a title."""
    num_words = len(line.split())
    return (
        num_words <= _MAX_TITLE_WORDS
        and (num_words > 1 or not line.strip()[:1].islower())
        and re.search(r"\d{5}", line) is None
    )


def _get_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _format_title(lines: list[str]) -> str | None:
    """The lines as a title, without those that no title has; None where what is left is none."""
    kept_lines = [" ".join(line.split()) for line in lines if not _NO_TITLE_PATTERN.search(line.strip())]
    if not kept_lines or _SENTENCE_END_PATTERN.search(kept_lines[-1]) or not _TITLE_START_PATTERN.match(kept_lines[0]):
        return None
    title = kept_lines[0]
    for line in kept_lines[1:]:
        title += (" " if line[0].islower() else ", ") + line
    return title if len(title) <= _MAX_TITLE_CHARACTERS and not _COLUMNS_PATTERN.search(lines[0].strip()) else None
