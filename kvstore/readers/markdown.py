"""Markdown: the file becomes one document, verbatim; a front matter block becomes its metadata.

In: bytes in UTF-8 (or the encoding that a byte-order mark or option names). Out: one document of format ``markdown``.
The title is the front matter's ``title``, else the first level-one heading. The front matter fields ``description``,
``summary`` and ``abstract`` also become the first paragraphs, below an initial level-one heading, unless the text
already contains them. They are often the best sentences of the page, and only text can be found and cited.

Front matter is a block between ``---`` lines at the start of the file whose lines read ``key: value``. Values are
strings, numbers, ``true``, ``false``, ``[a, b]`` and lists of ``- item`` lines; other values are kept as strings. Any
other block is part of the text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ..text.blocks import unwrap_links
from .decoding import clean_text, decode_file
from .markdown_blocks import make_paragraph
from .raw_document import JSON, Origin, RawDocument, ReadOptions
from .scalars import parse_scalar

_FRONT_MATTER_PATTERN = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_NAME_PATTERN = re.compile(r"\w[\w .-]*")  # title
#: An element of a list, in quotes if it contains a comma: ``"Hill, Ann"``.
_LIST_ELEMENT_PATTERN = re.compile(r"""\s*((?:"[^"]*"|'[^']*')(?=\s*(?:,|$))|[^,]+)""")
_FENCE_PATTERN = re.compile(r" {0,3}(`{3,}|~{3,})")  # ```python
_TITLE_PATTERN = re.compile(r" {0,3}#(?=[ \t])")  # # Green tea
#: A level-one heading at the beginning of a text.
_OPENING_HEADING_PATTERN = re.compile(r"\s*?(?: {0,3}#[ \t]+\S.*|\S.*\n {0,3}=+[ \t]*)(?:\n|\Z)")
_UNDERLINE_PATTERN = re.compile(r" {0,3}=+\s*$")  # ====

#: Front matter fields that describe a page in whole sentences.
_INTRODUCTION_FIELDS = frozenset(("description", "summary", "abstract"))


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield a Markdown file as one document, with the fields of its front matter as metadata.

    Introductions in the front matter are put before the text. Raises ReaderError if the file has no text, or cannot be
    decoded.
    """
    text = clean_text(decode_file(stream.read(), origin.name, options.encoding))
    meta, text = split_front_matter(text)
    text = prepend_paragraphs(
        text, [introduction for name, introduction in meta.items() if name.lower() in _INTRODUCTION_FIELDS]
    )
    origin.require_content(text, "is empty")
    title = meta.get("title")
    if not isinstance(title, str) or not title:
        title = unwrap_links(find_first_title(text) or "") or None
    yield RawDocument(origin.key, title=title, text=text, meta=meta, format="markdown")


def prepend_paragraphs(text: str, paragraphs: Iterable[JSON]) -> str:
    """Return a text with further paragraphs at its beginning, after an initial level-one heading.

    Paragraphs that the text already contains, and values that are not strings, are left out.
    """
    new_paragraphs: list[str] = []
    for value in paragraphs:
        words = value.split() if isinstance(value, str) else []
        present_words = " ".join([*new_paragraphs, text]).split()
        if words and " ".join(words) not in " ".join(present_words):
            lines = [line.strip() for line in str(value).strip().split("\n")]
            new_paragraphs.append(make_paragraph("\n".join(lines)).text)
    if not new_paragraphs:
        return text
    heading_match = _OPENING_HEADING_PATTERN.match(text)
    offset = heading_match.end() if heading_match is not None else 0
    return "\n\n".join(
        block for block in (text[:offset].rstrip("\n"), *new_paragraphs, text[offset:].lstrip("\n")) if block
    )


def split_front_matter(text: str) -> tuple[dict[str, JSON], str]:
    """Return the fields of a front matter block and the text after it, or ``({}, text)`` if there is no valid block."""
    block = _FRONT_MATTER_PATTERN.match(text)
    if block is None:
        return {}, text
    values: dict[str, list[str]] = {}
    last_lines: list[str] | None = None
    for line in block[1].splitlines():
        name, colon, value = line.partition(":")
        has_value = bool(colon) and (not value or value[0] in " \t")  # "key: value", but not "https://"
        if has_value and _NAME_PATTERN.fullmatch(name):
            last_lines = values[name.rstrip()] = [value]
        elif not line.strip() or line.startswith("#"):
            continue
        elif last_lines is not None and line.startswith((" ", "\t", "- ", "]")):
            last_lines.append(line)
        else:
            return {}, text  # a thematic break with prose below it
    return {name: _parse_value(lines) for name, lines in values.items()}, text[block.end() :].lstrip("\n")


def _parse_value(lines: list[str]) -> JSON:
    """Return the value of a front matter field: a string, a number, a boolean, None for null, or a list of these.

    The first of ``lines`` is the rest of the line with the name of the field; the others are the lines below it.
    """
    first_line, *other_lines = (line.strip() for line in lines)
    if first_line.startswith("[") and lines[-1].rstrip().endswith("]"):
        elements = _LIST_ELEMENT_PATTERN.findall(" ".join([first_line, *other_lines])[1:-1])
        return [parse_scalar(element) for element in elements if element.strip()]
    if not other_lines:
        return parse_scalar(first_line)
    if not first_line and all(line.startswith("- ") for line in other_lines):
        return [parse_scalar(line[2:]) for line in other_lines]
    is_block_scalar = first_line in ("", ">", "|", ">-", "|-")
    return "\n".join(other_lines if is_block_scalar else [first_line, *other_lines])


def find_first_title(text: str) -> str | None:
    """Return the text of the first level-one heading outside fenced code, or None."""
    fence = ""
    previous_line = ""
    for line in io.StringIO(text):
        fence_match = _FENCE_PATTERN.match(line)
        if fence:
            if fence_match is not None and fence_match[1].startswith(fence) and not line.strip(" `~\t\n"):
                fence = ""
            continue
        if fence_match is not None:
            fence = fence_match[1]
            continue
        heading = _TITLE_PATTERN.match(line)
        if heading is not None:
            title = line[heading.end() :].strip()
            without_hashes = title.rstrip("#")
            if not without_hashes or without_hashes[-1].isspace():  # a closing sequence needs a space before it
                title = without_hashes.rstrip()
            if title:
                return title
        if previous_line and _UNDERLINE_PATTERN.match(line):
            return previous_line
        previous_line = line.strip()
    return None
