"""HTML: the page becomes Markdown; headings, lists, tables and code stay, navigation goes.

In: bytes in the encoding that the option ``encoding``, a byte-order mark, ``<meta charset>`` or the XML declaration
names, else UTF-8. Out: one document of format ``markdown``; its title is the first ``<h1>``, else ``<title>``. A page
on which only a table of contents would be left keeps it as a list. What is navigation is decided by evidence
(``html_navigation.py``) and told in ``left_out``; the option ``navigation=keep`` keeps it. Bytes that do not decode, a
page without text and elements nested deeper than any page's are ReaderErrors; broken markup is repaired as browsers do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import BinaryIO

from selectolax.lexbor import LexborHTMLParser

from ...errors import ReaderError
from .decoding import WEB_ENCODING_PATTERN, decode_file, detect_marked_encoding, is_utf8
from .html_blocks import convert_page
from .html_navigation import KeepLevel
from .html_parts import strip_numbering
from .html_survey import PageSurvey
from .markdown_blocks import MarkdownBlock, join_blocks
from .raw_document import LeftOut, Origin, RawDocument, ReadOptions

_ENCODING_DECLARATION_PATTERN = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w:.-]{1,40})"""
    rb"""|<\?xml[^>]{0,80}encoding\s*=\s*["']([\w.-]{1,40})""",
    re.I,
)
_WESTERN_ENCODING_PATTERN = re.compile(r"us-ascii|ascii|iso-?8859-?1|latin-?1", re.I)
#: XHTML may close any element in the start tag; HTML parsers would take the rest of the page for the content of those
#: that are not empty by themselves.
_SELF_CLOSED_PATTERN = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)([a-z][\w:-]*)([^<>]*)/>", re.I
)
#: In XHTML this is text, in HTML a comment.
_CHARACTER_DATA_PATTERN = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.S)
_TAG_PATTERN = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
#: Elements that are empty or that the parser closes by itself, so that they do not pile up.
_UNNESTED_TAGS = frozenset(
    "area base br col embed hr img input link meta source track wbr p li dt dd tr td th option thead tbody tfoot "
    "html head body a".split()
)
#: Elements that are often left open and cost the parser less.
_FORMATTING_TAGS = frozenset("b big em font i nobr s small strike strong tt u".split())
#: The parser's time grows with the square of the depth; pages of real sites stay below 1,000.
_MAX_DEPTH = 5_000


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the page as one document."""
    tree, blocks, left_out = parse_page(stream.read(), origin.name, options)
    if not blocks:
        raise ReaderError(f"{origin.name}: has no text (an empty page, a frame set, or one that scripts fill)")
    yield RawDocument(
        origin.key, _find_title(tree, blocks), join_blocks(blocks) + "\n", {}, "markdown", tuple(left_out)
    )


def parse_page(
    data: bytes, name: str, options: ReadOptions
) -> tuple[LexborHTMLParser, list[MarkdownBlock], list[LeftOut]]:
    """A page's tree, its blocks and what was left out; raises ReaderError, but not for a page without text."""
    markup = _decode_page(data, name, options.encoding)
    if not markup or markup.isspace():
        raise ReaderError(f"{name}: is empty; there is nothing to store")
    if "xmlns" in markup[:2000]:
        markup = _close_elements(markup)
    _check_depth(markup, name)
    tree = LexborHTMLParser(markup)
    return tree, *_convert_content(tree, KeepLevel.ALL if options.navigation == "keep" else KeepLevel.CONTENT)


def convert_markup(markup: str, name: str, options: ReadOptions) -> list[MarkdownBlock]:
    """The blocks of markup that a document of another format holds; nothing is left out as navigation."""
    return parse_page(markup.encode(), name, replace(options, encoding="utf-8", navigation="keep"))[1]


def _convert_content(tree: LexborHTMLParser, keep: KeepLevel) -> tuple[list[MarkdownBlock], list[LeftOut]]:
    """The blocks of a page, and what was left out: as much as leaves more than headings."""
    body = tree.body
    if body is None:
        return [], []
    survey = PageSurvey(tree, body)
    content: tuple[list[MarkdownBlock], list[LeftOut]] = [], []
    for level in KeepLevel:
        if level >= keep:
            content = convert_page(body, survey, level)
            if any(block.kind != "heading" for block in content[0]):
                break
    return content


def _decode_page(data: bytes, name: str, encoding: str | None) -> str:
    """Decode by the encoding declared; a page that declares another but is valid UTF-8 is read as UTF-8."""
    if encoding is None and detect_marked_encoding(data) is None:
        declaration = _ENCODING_DECLARATION_PATTERN.search(data[:4096])
        label = (declaration[1] or declaration[2]).decode("ascii", "replace") if declaration else ""
        if WEB_ENCODING_PATTERN.fullmatch(label) and (
            b"\x1b" in data or not is_utf8(data)
        ):  # ISO-2022-JP is ASCII and ESC
            # As browsers do: what calls itself ASCII or Latin-1 is Windows-1252, whose quotes Latin-1 lacks.
            encoding = "cp1252" if _WESTERN_ENCODING_PATTERN.fullmatch(label) else label
    return decode_file(data, name, encoding)


def _close_elements(markup: str) -> str:
    """XHTML as HTML: elements that are closed in the start tag are closed by end tags, character data are escaped."""
    if "<![CDATA[" in markup:
        markup = _CHARACTER_DATA_PATTERN.sub(lambda data: escape(data[1], quote=False), markup)
    pieces = []
    copied_end = search_start = 0
    slash = markup.find("/>")
    while slash >= 0:
        start, end = markup.rfind("<", search_start, slash), slash + 2
        tag = _SELF_CLOSED_PATTERN.match(markup, start, end) if start >= 0 else None
        if tag is not None:
            pieces.append(f"{markup[copied_end:start]}<{tag[1]}{tag[2]}></{tag[1]}>")
            copied_end = end
        search_start = end
        slash = markup.find("/>", end)
    return "".join((*pieces, markup[copied_end:]))


def _check_depth(markup: str, name: str) -> None:
    if markup.count("<") <= _MAX_DEPTH:
        return
    depth = 0.0
    for tag in _TAG_PATTERN.finditer(markup):
        element = tag[2].lower()
        if element in _UNNESTED_TAGS:
            continue
        levels = 0.25 if element in _FORMATTING_TAGS else 1
        depth = max(0, depth - levels) if tag[1] else depth + levels
        if depth > _MAX_DEPTH:
            raise ReaderError(
                f"{name}: nests elements more than {_MAX_DEPTH:,} deep near character {tag.start()}; "
                "close what is left open, or ingest it AS text"
            )


def _find_title(tree: LexborHTMLParser, blocks: list[MarkdownBlock]) -> str | None:
    for block in blocks:
        if block.kind == "heading" and block.text.startswith("# "):
            return block.text[2:]
    title_node = tree.css_first("head > title")
    title = " ".join(title_node.text(deep=True).split()) if title_node is not None else ""
    return strip_numbering(title) or None
