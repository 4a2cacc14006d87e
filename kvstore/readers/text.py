"""Plain text: the file becomes one document, verbatim.
Its title is found by its position. *Columns* are texts on one line with a wide gap between them.

In: bytes in UTF-8, or in the encoding that a byte-order mark or the ``encoding`` option names. Out: one document of
format ``text``. Its title is found at the beginning: an underlined line, centered lines, or a single line that is
neither a sentence nor the first of several fields like ``Alarm code: 4711``. A log has no title. Invalid bytes, a NUL
and an empty file are ReaderErrors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

from .decoding import decode_text
from .line_markup import get_indent
from .raw_document import Origin, RawDocument, ReadOptions

#: The range searched for a title, in characters and in paragraphs.
_MAX_BEGINNING_CHARACTERS = 4096
_MAX_PARAGRAPHS = 3
#: The maximum numbers of lines, characters, and words of a title that only its position identifies.
_MAX_TITLE_LINES, _MAX_TITLE_CHARACTERS, _MAX_TITLE_WORDS = 3, 160, 12
#: The minimum indentation of a centered line, absolute or relative to the next lines.
_MIN_CENTERED_INDENT, _MIN_FURTHER_INDENT = 8, 4
#: The minimum width of a page for right-aligned lines to be detected.
_MIN_PAGE_WIDTH = 60

_PARAGRAPH_PATTERN = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_UNDERLINE_PATTERN = re.compile(r"\s*([=*~#^\"_-])\1{2,}\s*")  # ====
#: Two columns on a line, as on the first page of a memorandum or a standard (RFC 7322, 4.1).
_COLUMNS_PATTERN = re.compile(r"\S {3,}\S")
#: Text that a title does not contain: an address, a copyright notice, only a date or only a page number.
_NO_TITLE_PATTERN = re.compile(r"://|\S@\S|^(?:copyright|\(c\)|©)|^[\W\d]*$", re.I)
#: A name and a value, as in a list of fields.
_FIELD_PATTERN = re.compile(r"\s*[^\s:][^:\n]*: +\S")
_SENTENCE_END_PATTERN = re.compile(r"[.,;:!]$")
_TITLE_START_PATTERN = re.compile(r"[\"'“‘«(]?[^\W\d_]|\d+(?![\w.):/-])")  # a letter, or a number, but not "1. tea"
#: The marks of a quotation, and the line above a signature in mail.
_QUOTE_PREFIX_PATTERN = re.compile(r"\s?(?:>\s?)+")
SIGNATURE_PATTERN = re.compile(r"--\s?$")


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield a plain text file as one document. Raises ReaderError if it is blank, or cannot be decoded."""
    text = decode_text(stream.read(), origin.name, options.encoding)
    title = None if origin.name.lower().endswith(".log") else find_title(text)
    yield RawDocument(origin.key, title, text, meta={}, format="text")


def find_title(text: str) -> str | None:
    r"""Return the title at the beginning of a plain text, on one line, or None if it begins without a title.

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
        if len(lines) > 1 and _UNDERLINE_PATTERN.fullmatch(lines[0]):  # an overline
            lines = lines[1:]
        if len(lines) > 1 and _UNDERLINE_PATTERN.fullmatch(lines[1]):
            return _format_title(lines[:1])
        if all(_UNDERLINE_PATTERN.fullmatch(line) or _is_right_aligned(line, width) for line in lines):
            continue
        # A centered title has a wide indentation, or a wider one than the paragraph below it.
        min_indent = min(_MIN_CENTERED_INDENT, get_indent(next_lines[0]) + _MIN_FURTHER_INDENT)
        is_centered = len(lines) <= _MAX_TITLE_LINES and max(map(get_indent, lines)) >= min_indent
        is_first_field = all(  # True for "Alarm code: 4711" above another line of this form
            len(paragraph_lines) == 1 and _FIELD_PATTERN.match(paragraph_lines[0])
            for paragraph_lines in (lines, next_lines)
        )
        is_single_title = len(lines) == 1 and _is_title_like(lines[0]) and not is_first_field
        if is_centered or is_single_title:
            return _format_title(lines)
        # Any other paragraph before the title must have a line in columns, such as the head of a letter.
        if not any(_COLUMNS_PATTERN.search(line.strip()) for line in lines):
            return None
    return None


def _is_right_aligned(line: str, width: int) -> bool:
    """True if a line is right-aligned on a page of ``width`` characters, as dates and authors are.

    Such a line is not a title.
    """
    # Its center is in the last quarter of the page: (start + end) / 2 > 0.75 * width.
    return width >= _MIN_PAGE_WIDTH and get_indent(line) + len(line.rstrip()) > 1.5 * width


def _is_title_like(line: str) -> bool:
    """True if a single line can be a title: a few words, not one lowercase word, and no long number."""
    num_words = len(line.split())
    return (
        num_words <= _MAX_TITLE_WORDS
        and (num_words > 1 or not line.strip()[:1].islower())
        and re.search(r"\d{5}", line) is None  # a number of five digits or more
    )


def _format_title(lines: list[str]) -> str | None:
    """Join lines into a title; return None for a sentence, a list item, text in columns, or text that is too long.

    Lines with an address, a copyright notice or only digits are dropped. None is also returned if no line is left.
    """
    title_lines = [" ".join(line.split()) for line in lines if not _NO_TITLE_PATTERN.search(line.strip())]
    if (
        not title_lines
        or _SENTENCE_END_PATTERN.search(title_lines[-1])
        or not _TITLE_START_PATTERN.match(title_lines[0])
    ):
        return None
    title = title_lines[0]
    for line in title_lines[1:]:
        title += (" " if line[0].islower() else ", ") + line
    return title if len(title) <= _MAX_TITLE_CHARACTERS and not _COLUMNS_PATTERN.search(lines[0].strip()) else None


def join_flowed_lines(text: str, delete_space: bool = False) -> str:
    """Join each line that ends with a space and the next line of the same quotation depth (RFC 3676, 4).

    If ``delete_space``, that space is removed.
    """
    pieces: list[str] = []
    open_depth: int | None = None  # the depth of an unfinished line, None if it ends
    for line in text.split("\n"):
        depth = get_quote_depth(line)
        if depth != open_depth:
            pieces += ["\n", line]
            open_depth = depth if line.endswith(" ") and not SIGNATURE_PATTERN.match(line) else None
            continue
        if delete_space:
            pieces[-1] = pieces[-1].removesuffix(" ")
        line = line.lstrip(">").lstrip() if depth else line
        if line:
            pieces.append(line)
        if not pieces[-1].endswith(" "):
            open_depth = None
    return "".join(pieces[1:])


def get_quote_depth(line: str) -> int:
    """Return the number of ``>`` at the beginning of a line of mail, the depth of its quotation."""
    prefix = _QUOTE_PREFIX_PATTERN.match(line)
    return prefix[0].count(">") if prefix else 0
