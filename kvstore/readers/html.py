"""HTML: the page becomes Markdown with headings, lists, tables and code, but without navigation.
A *block* is a heading, paragraph, list, table or code block in Markdown.

In: bytes in the encoding that the ``encoding`` option, a byte-order mark, ``<meta charset>`` or the XML declaration
names, else UTF-8. Out: one document of format ``markdown``; its title is the first ``<h1>``, else ``<title>``. A page
that would have no other text keeps its table of contents as a list. ``html_navigation.py`` detects navigation, and
``left_out`` lists it; the ``navigation=keep`` option keeps it. Invalid bytes, a page without text and excessively deep
nesting are ReaderErrors. Broken markup is repaired as browsers do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import BinaryIO, NamedTuple

from selectolax.lexbor import LexborHTMLParser

from ..errors import ReaderError
from ..text.blocks import strip_numbering
from .decoding import WEB_ENCODING_PATTERN, decode_file, detect_bom_encoding, is_utf8
from .html_analysis import PageAnalysis
from .html_blocks import convert_page
from .html_navigation import KeepLevel
from .markdown_blocks import MarkdownBlock, join_blocks
from .raw_document import NavigationPart, Origin, RawDocument, ReadOptions

_ENCODING_DECLARATION_PATTERN = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w:.-]{1,40})"""
    rb"""|<\?xml[^>]{0,80}encoding\s*=\s*["']([\w.-]{1,40})""",
    re.I,
)
_WESTERN_ENCODING_PATTERN = re.compile(r"us-ascii|ascii|iso-?8859-?1|latin-?1", re.I)
#: XHTML can close any element in its start tag. An HTML parser would treat the rest of the page as the content of a
#: nonvoid element.
_SELF_CLOSED_PATTERN = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)([a-z][\w:-]*)([^<>]*)/>", re.I
)
#: Character data: text in XHTML, a comment in HTML.
_CHARACTER_DATA_PATTERN = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.S)
#: A tag: </div, <path d="…" />. A comment and a label of a picture, <title>Map</title>, have no name. As in HTML, ``<``
#: and ``>`` in a quoted value, and ``<`` in a tag, begin and end nothing; a quote inside an unquoted value or a name is
#: an ordinary character.
_TAG_PATTERN = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<(?P<label>title|desc)\b[^<>]*>[^<]*</(?P=label)\s*>|"
    r"<(?P<slash>/?)(?P<name>[a-z][^ \t\n\f\r/>]*)"
    r"(?:[ \t\n\f\r/]++|(?:=[^ \t\n\f\r/>=]*+|[^ \t\n\f\r/>=]++)"  # the name of an attribute
    r"""(?:[ \t\n\f\r]*+=[ \t\n\f\r]*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^ \t\n\f\r>"'][^ \t\n\f\r>]*+)?)?+)*+>?""",
    re.S | re.I,
)
#: Void elements, and elements that the parser closes automatically, so that they do not accumulate.
_UNNESTED_TAGS = frozenset(
    "area base br col embed hr img input link meta source track wbr p li dt dd tr td th option thead tbody tfoot "
    "html head body a".split()
)
#: Elements of SVG pictures whose content is SVG too. There, a tag such as ``<path/>`` closes its element.
_SVG_TAGS = frozenset(
    "svg a circle clippath defs ellipse g image line lineargradient marker mask path pattern polygon polyline "
    "radialgradient rect stop style symbol text textpath tspan use".split()
)
#: Formatting elements are often left open, and cost the parser less: they count as a fraction of a level.
_FORMATTING_DEPTH = 0.25
_FORMATTING_TAGS = frozenset("b big em font i nobr s small strike strong tt u".split())
#: The range at the start of a page that is searched for a declared encoding, and for the namespace of XHTML.
_MAX_DECLARATION_OFFSET = 4096
_MAX_NAMESPACE_OFFSET = 2000
#: The parser's time grows with the square of the depth; pages of real sites stay below 1,000.
_MAX_DEPTH = 5_000


class ParsedPage(NamedTuple):
    """A page: its tree of elements, its Markdown blocks, and the elements that were left out as navigation."""

    tree: LexborHTMLParser
    blocks: list[MarkdownBlock]
    left_out: list[NavigationPart]


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert an HTML page to Markdown, and yield it as one document.

    Navigation is omitted, unless the ``navigation`` option is ``keep``. Raises ReaderError if the page has no text,
    cannot be decoded, or nests elements too deeply.
    """
    page = parse_page(stream.read(), origin.name, options)
    if not page.blocks:
        raise ReaderError(f"{origin.name}: has no text (an empty page, a frame set, or one that scripts fill)")
    yield RawDocument(
        origin.key,
        _find_title(page.tree, page.blocks),
        join_blocks(page.blocks) + "\n",
        meta={},
        format="markdown",
        left_out=tuple(page.left_out),
    )


def parse_page(data: bytes, file_name: str, options: ReadOptions) -> ParsedPage:
    """Parse an HTML page and convert its content to Markdown blocks; a page without text has no blocks.

    ``file_name`` is the file in messages; ``options`` name the encoding and say if navigation is kept. Raises
    ReaderError if the file is blank, cannot be decoded, or nests elements too deeply.
    """
    markup = _decode_page(data, file_name, options.encoding)
    if not markup or markup.isspace():
        raise ReaderError(f"{file_name}: is empty; there is nothing to store")
    if "xmlns" in markup[:_MAX_NAMESPACE_OFFSET]:
        markup = _convert_xhtml(markup)
    _check_depth(markup, file_name)
    tree = LexborHTMLParser(markup)
    keep = KeepLevel.ALL if options.navigation == "keep" else KeepLevel.CONTENT
    blocks, left_out = _convert_content(tree, keep)
    return ParsedPage(tree, blocks, left_out)


def convert_markup(markup: str, file_name: str, options: ReadOptions) -> list[MarkdownBlock]:
    """Return the Markdown blocks of HTML in a document of a different format, such as mail; navigation is kept.

    ``file_name`` is the file in messages. Raises the ReaderErrors of :func:`parse_page`.
    """
    return parse_page(markup.encode(), file_name, replace(options, encoding="utf-8", navigation="keep")).blocks


def _convert_content(tree: LexborHTMLParser, keep: KeepLevel) -> tuple[list[MarkdownBlock], list[NavigationPart]]:
    """Return the Markdown blocks of the page ``tree``, and the elements left out as navigation.

    ``keep`` is the strictest level of the navigation filter to try. The next level keeps more; levels are tried until
    there are blocks other than headings.
    """
    body = tree.body
    if body is None:
        return [], []
    analysis = PageAnalysis(tree, body)
    blocks: list[MarkdownBlock] = []
    left_out: list[NavigationPart] = []
    for level in KeepLevel:
        if level >= keep:
            blocks, left_out = convert_page(body, analysis, level)
            if any(block.kind != "heading" for block in blocks):
                break
    return blocks, left_out


def _decode_page(data: bytes, file_name: str, encoding: str | None) -> str:
    """Decode a page by ``encoding``, its byte-order mark or its declaration; without these, as UTF-8.

    Valid UTF-8 without escape characters is read as UTF-8 even if the page declares another encoding. ``file_name`` is
    the file in messages. Raises ReaderError for invalid bytes.
    """
    if encoding is None and detect_bom_encoding(data) is None:
        declaration = _ENCODING_DECLARATION_PATTERN.search(data[:_MAX_DECLARATION_OFFSET])
        label = (declaration[1] or declaration[2]).decode("ascii", "replace") if declaration else ""
        # ISO-2022-JP has escape sequences in ASCII, so it is valid UTF-8.
        may_be_iso_2022 = b"\x1b" in data
        if WEB_ENCODING_PATTERN.fullmatch(label) and (may_be_iso_2022 or not is_utf8(data)):
            # Like browsers, read ASCII and Latin-1 as Windows-1252, which adds typographic quotes.
            encoding = "cp1252" if _WESTERN_ENCODING_PATTERN.fullmatch(label) else label
    return decode_file(data, file_name, encoding)


def _convert_xhtml(markup: str) -> str:
    """Convert XHTML ``markup`` to HTML: expand self-closed elements (``<p/>``) and escape character data (CDATA)."""
    if "<![CDATA[" in markup:
        markup = _CHARACTER_DATA_PATTERN.sub(lambda data: escape(data[1], quote=False), markup)
    pieces = []
    copied_end = search_start = 0  # the offsets up to which markup is copied and searched
    slash_offset = markup.find("/>")
    while slash_offset >= 0:
        start, end = markup.rfind("<", search_start, slash_offset), slash_offset + 2
        self_closed = _SELF_CLOSED_PATTERN.match(markup, start, end) if start >= 0 else None
        if self_closed is not None:
            tag, attributes = self_closed.groups()
            pieces.append(f"{markup[copied_end:start]}<{tag}{attributes}></{tag}>")
            copied_end = end
        search_start = end
        slash_offset = markup.find("/>", end)
    return "".join((*pieces, markup[copied_end:]))


def _check_depth(markup: str, file_name: str) -> None:
    """Raise ReaderError if the page ``markup`` is nested so deeply that the parser would take too long.

    ``file_name`` is the file in the message.
    """
    if markup.count("<") <= _MAX_DEPTH:
        return
    depth = 0.0
    is_in_svg = False
    for tag in _TAG_PATTERN.finditer(markup):
        if tag["name"] is None:  # a comment or a label
            continue
        name = tag["name"].lower()
        is_self_closed = tag[0].endswith("/>")
        if name == "svg":
            is_in_svg = not (tag["slash"] or is_self_closed)
        elif name not in _SVG_TAGS:  # HTML, which ends SVG or is inside an element of it
            is_in_svg = False
        if name in _UNNESTED_TAGS or (is_in_svg and is_self_closed):
            continue
        levels = _FORMATTING_DEPTH if name in _FORMATTING_TAGS else 1
        depth = max(0, depth - levels) if tag["slash"] else depth + levels
        if depth > _MAX_DEPTH:
            raise ReaderError(
                f"{file_name}: nests elements more than {_MAX_DEPTH:,} levels deep near character {tag.start()}; "
                "close the elements that are left open, or ingest it AS text"
            )


def _find_title(tree: LexborHTMLParser, blocks: list[MarkdownBlock]) -> str | None:
    """Return the title of the page ``tree``: the first level-one heading in ``blocks``, else ``<title>``, else None."""
    for block in blocks:
        if block.kind == "heading" and block.text.startswith("# "):
            return block.text[2:]
    title_node = tree.css_first("head > title")
    title = " ".join(title_node.text(deep=True).split()) if title_node is not None else ""
    return strip_numbering(title) or None
