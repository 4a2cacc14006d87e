"""Rendering of Markdown as HTML, with marked, linked and anchored spans of its source. An *insert* is a pair of HTML
tags around a span. A *marker* is a sequence of Unicode noncharacters that shows in the rendered HTML where a span
begins or ends.

In: a text in Markdown, and :class:`Insert` objects for spans of it. Out: markup without raw HTML, scripts, styles or
images of the document: HTML in the text is shown as text, a picture as its description, and a link only if it leads to
a website, an address of mail or another document of the store.

Markdown treats markers as letters. After rendering, the text between the markers of a span is wrapped in its elements,
piece by piece between the tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from posixpath import join, normpath
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from .urls import build_document_url

#: The first characters of the markers that begin and end a span, and the last character of both. Between them is the
#: index of the span.
_MARKER_BEGIN, _MARKER_END, _MARKER_CLOSE = "\ufdd0", "\ufdd1", "\ufdd2"
#: The order of markers at the same offset: the end of a span precedes the beginning of the next one, unless the span is
#: empty.
_ORDER_END, _ORDER_BEGIN, _ORDER_EMPTY_END = range(3)
#: A marker, with its index; and, to split HTML, a tag or a marker.
_MARKER_PATTERN = re.compile(f"[{_MARKER_BEGIN}{_MARKER_END}](\\d+){_MARKER_CLOSE}")
_PIECE_PATTERN = re.compile(f"(<[^>]*>|[{_MARKER_BEGIN}{_MARKER_END}]\\d+{_MARKER_CLOSE})")
#: The characters that begin a block of Markdown, which a marker must not precede.
_BLOCK_START_PATTERN = re.compile(r"[ \t]*(?:(?:#{1,6}|[-*+]|\d{1,9}[.)]|>|\|)[ \t]+|```[^\n]*\n|~~~[^\n]*\n|\|)*")
#: A line that shows no text: a rule, the rule of a table, or a link definition.
_RULE_PATTERN = re.compile(r"[ \t]*(?:[-=*_:| \t]{3,}|\[[^\]\n]+\]:[^\n]*)$", re.MULTILINE)
#: The schemes of the links that are kept.
_SCHEMES = frozenset({"http", "https", "mailto"})


@dataclass(frozen=True, slots=True)
class Insert:
    """HTML around a span of a source text, in characters or bytes; an empty span inserts the HTML at its place.

    ``is_link`` prevents a link within another one.
    """

    start: int
    end: int
    start_tag: str
    end_tag: str
    is_link: bool = False


class _MarkdownParser(MarkdownIt):
    """A parser whose URLs contain no markers."""

    def normalizeLink(self, url: str) -> str:
        """Return the URL of a link without the markers that this module inserts into the text."""
        return super().normalizeLink(_MARKER_PATTERN.sub("", url))


@cache
def _get_parser() -> MarkdownIt:
    """Return the Markdown parser, which shows HTML in a text as text."""
    parser = _MarkdownParser("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _render_image)
    return parser


def _render_image(renderer: RendererHTML, tokens: Sequence[Token], index: int, *_: object) -> str:
    """Render the picture ``tokens[index]`` as its description, since pages load nothing that a document names."""
    return f'<span class="quiet picture-text">[picture: {escapeHtml(tokens[index].content)}]</span>'


def render_markdown(
    text: str,
    inserts: Iterable[Insert] = (),
    *,
    key: str | None = None,
    has_document: Callable[[str], bool] = lambda key: False,
    inline: bool = False,
) -> Markup:
    """Render Markdown text as HTML, with the two tags of each insert around its span of characters.

    Relative links are resolved against the document ``key``, and kept only if ``has_document`` is true for their
    target. ``inline`` renders without paragraphs.

    >>> render_markdown("*Ann* <b>", [Insert(1, 4, "<mark>", "</mark>")])
    Markup('<p><em><mark>Ann</mark></em> &lt;b&gt;</p>\\n')
    """
    inserts = list(inserts)
    parser = _get_parser()
    source = _insert_markers(re.sub(f"[{_MARKER_BEGIN}{_MARKER_END}{_MARKER_CLOSE}]", "\ufffd", text), inserts)
    tokens = parser.parseInline(source) if inline else parser.parse(source)
    _adapt_tokens(tokens, lambda url: _resolve_link(url, key, has_document))
    return Markup("".join(_replace_markers(parser.renderer.render(tokens, parser.options, {}), inserts)))


def _insert_markers(text: str, inserts: Sequence[Insert]) -> str:
    """Return the Markdown with a start and an end marker around the span of every insert.

    A marker contains the index of the insert, and never precedes block syntax such as a list bullet. A span that
    contains only syntax gets no markers. An empty span gets markers, because its insert is at a point.
    """
    markers: list[tuple[int, int, str]] = []  # offset, order of markers at the same offset, marker
    for index, insert in enumerate(inserts):
        start = _skip_block_start(text, insert.start)
        # After the last bar of a row of a table there is no cell.
        end = insert.start + len(text[insert.start : insert.end].rstrip(" \t\r\n|"))
        has_only_syntax = start is not None and end <= start and insert.start < insert.end
        if start is None or has_only_syntax:
            continue
        markers.append((start, _ORDER_BEGIN, f"{_MARKER_BEGIN}{index}{_MARKER_CLOSE}"))
        end_order = _ORDER_EMPTY_END if end <= start else _ORDER_END
        markers.append((max(start, end), end_order, f"{_MARKER_END}{index}{_MARKER_CLOSE}"))
    pieces, position = [], 0
    for offset, _, marker in sorted(markers, key=lambda marker: marker[:2]):
        pieces += [text[position:offset], marker]
        position = offset
    return "".join([*pieces, text[position:]])


def _skip_block_start(text: str, offset: int) -> int | None:
    """Return the first offset from ``offset`` on that is after the block syntax of its line.

    Blank lines, rules and link definitions are skipped. Returns None if no line follows them.
    """
    line_start = text.rfind("\n", 0, offset) + 1
    while text[line_start : line_start + 1] == "\n" or _RULE_PATTERN.match(text, line_start):
        line_end = text.find("\n", line_start)
        if line_end < 0:
            return None
        line_start = line_end + 1
    block_start = _BLOCK_START_PATTERN.match(text, line_start)
    return max(offset, block_start.end() if block_start else line_start)


def _adapt_tokens(tokens: Iterable[Token], resolve: Callable[[str], str | None]) -> None:
    """Change markdown-it's tokens in place: resolve links, replace styles with classes, and lower headings by a level.

    ``resolve`` returns the URL of a link, or None for a link that is rendered as text.
    """
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
        style = token.attrs.pop("style", None)
        if style is not None:
            css_class = "centered" if "center" in str(style) else ""
            token.attrSet("class", "number" if "right" in str(style) else css_class)
        if token.type == "link_open":
            url = resolve(str(token.attrs.pop("href", "")))
            token.attrs.pop("title", None)
            token.tag = "a" if url is not None else "span"
            if url is not None:
                token.attrs |= {"href": url} | ({} if url.startswith("/") else {"rel": "noopener noreferrer"})
        _adapt_tokens(token.children or (), resolve)
    open_tags: list[str] = []
    for token in tokens:  # a closing tag gets the tag of its link
        if token.type == "link_open":
            open_tags.append(token.tag)
        elif token.type == "link_close":
            token.tag = open_tags.pop()


def _resolve_link(url: str, key: str | None, has_document: Callable[[str], bool]) -> str | None:
    """Return the URL that a link in the document ``key`` leads to: a website, or the page of another document.

    Return None for any other link, for a document for which ``has_document`` is false, and for every relative link if
    ``key`` is None.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme or parts.netloc:
        return url if parts.scheme in _SCHEMES else None
    if key is None or not parts.path:
        return None
    target = normpath(join(key.rpartition("/")[0], unquote(parts.path)))
    return build_document_url(target) if has_document(target) else None


def _select_inserts(inserts: Sequence[Insert], open_indexes: Sequence[int], *, in_link: bool) -> list[int]:
    """Return the indexes of the inserts to render around a text, outermost first.

    ``open_indexes`` are the indexes of all inserts whose span contains the text. Empty inserts are omitted, and so are
    links except the innermost one. Inside a link of the text itself (``in_link``), all links are omitted.
    """
    spanning_indexes = [index for index in open_indexes if inserts[index].start < inserts[index].end]
    link_indexes = [] if in_link else [index for index in spanning_indexes if inserts[index].is_link]
    return [index for index in spanning_indexes if not inserts[index].is_link] + link_indexes[-1:]


def _replace_markers(html: str, inserts: Sequence[Insert]) -> Iterable[str]:
    """Yield ``html``, rendered from Markdown with markers, with the tags of the ``inserts`` in place of the markers.

    Each text between the two markers of an insert is surrounded by its tags.
    """
    # A marker is lost in text that is not rendered, such as a URL; a span without an end is ignored.
    ended_indexes = {int(index) for index in re.findall(f"{_MARKER_END}(\\d+){_MARKER_CLOSE}", html)}
    open_indexes: list[int] = []
    shown_indexes: set[int] = set()  # the inserts that already surround a text
    num_open_links = 0
    for piece in _PIECE_PATTERN.split(html):
        marker = _MARKER_PATTERN.fullmatch(piece)
        if marker is not None:
            index = int(marker[1])
            if index not in ended_indexes:
                continue
            if piece[0] == _MARKER_BEGIN:
                open_indexes.append(index)
                if inserts[index].start >= inserts[index].end:
                    yield inserts[index].start_tag + inserts[index].end_tag
            elif index in open_indexes:
                open_indexes.remove(index)
        elif piece.startswith("<"):
            if piece == "</a>":
                num_open_links -= 1
            elif piece.startswith("<a "):
                num_open_links += 1
            yield _MARKER_PATTERN.sub("", piece)
        elif piece.strip():
            indexes = _select_inserts(inserts, open_indexes, in_link=num_open_links > 0)
            yield _surround(piece, [inserts[index] for index in indexes], [index in shown_indexes for index in indexes])
            shown_indexes.update(indexes)
        else:
            yield piece


def _surround(text: str, inserts: Sequence[Insert], are_shown: Sequence[bool]) -> str:
    """Return a text between the tags of ``inserts``, outermost first.

    An insert that already surrounds an earlier text (``are_shown``) is repeated without its id.
    """
    start_tags = [
        re.sub(r' id="[^"]*"', "", insert.start_tag) if is_shown else insert.start_tag
        for insert, is_shown in zip(inserts, are_shown, strict=True)
    ]
    return "".join(start_tags) + text + "".join(insert.end_tag for insert in reversed(inserts))
