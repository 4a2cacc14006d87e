"""Rendering of a part of a document as HTML, with marked citations, linked names, headings and code. A *mark* is a byte
span that an answer cites. A *layer* is a list of inserts, pairs of HTML tags around byte spans, that do not overlap.

In: the bytes of a text, and spans in it. Out: markup whose text is exactly that of the bytes: nothing is added, omitted
or moved, so that a mark contains exactly the cited text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from markupsafe import Markup

from ...rendering.markup import escape
from .markdown_view import Insert, render_markdown
from .urls import build_entity_url

#: The start and end of a span, in bytes.
ByteSpan = tuple[int, int]
#: Fenced code and headings in Markdown, the format in which documents with a layout are stored.
_BLOCK_PATTERN = re.compile(rb"^```[^\n]*\n.*?^```[^\n]*|^#{1,6} [^\n]+", re.MULTILINE | re.DOTALL)
#: Patterns of Markdown syntax, which is hidden in an excerpt: the groups of each pattern, or else its whole match. In
#: order: marks of headings and quotations, fences and table rules; emphasis; links; links between notes; backslash
#: escapes.
_SYNTAX_PATTERNS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rb"^(?:#{1,6} +|(?:> ?)+|```[^\n]*\n?|\|(?: *:?-+:? *\|)+\n?)",
        rb"(?<![\w*])(\*{1,3})(?=[^\s*])[^*\n]{1,1000}(?<=[^\s*])(\1)(?![\w*])",
        rb"(!?\[)[^\]\[\n]{1,500}(\](?:\([^()\s]{0,2000}\)|\[[^\]\n]{0,200}\]))",
        rb"(!?\[\[(?:[^\[\]|\n]{1,500}\|)?)(?=[^\s\[\]|])[^\[\]|\n]{1,500}(?<!\s)(\]\])",
        rb"\\(?=[!-/:-@\[-`{-~])",
    )
)
#: The headings at the start of a text that goes on after them.
_LEADING_HEADINGS_PATTERN = re.compile(r"\A(?:#{1,6} [^\n]*\s+)+(?=\S)")
#: The maximum number of characters of a cut word, which an excerpt then omits; scripts without spaces have longer ones.
_MAX_CUT_WORD = 30
#: Code within a line, between equal numbers of backquotes.
_CODE_SPAN_PATTERN = re.compile(rb"(?P<opening>`+)(?=[^`])(?P<code>[^`\n]{1,1000})(?P<closing>(?P=opening))(?!`)")


def render_marked_text(
    text: bytes,
    part: ByteSpan,
    *,
    marks: Sequence[ByteSpan],
    names: Iterable[tuple[str, int, int]],
    anchors: Sequence[int],
) -> Markup:
    """Render the bytes ``part`` of a text as inline HTML.

    ``marks`` are highlighted; overlapping ones are merged. ``names`` are entities with their spans; of nested spans the
    longest is linked. Only the first link of a name is in the keyboard tab order. ``anchors`` are offsets of link
    targets (``#byte-N``). Everything outside ``part`` is omitted.
    """
    layers = [number_marks(marks), _find_headings_and_code(text, part), link_names(text, names)]
    part_start, part_end = part
    layers = [[insert for insert in layer if insert.start < part_end and insert.end > part_start] for layer in layers]
    part_anchors = frozenset(anchor for anchor in anchors if part_start <= anchor < part_end)
    all_boundaries = {*part, *part_anchors, *_iter_boundaries(layers)}
    boundaries = sorted(boundary for boundary in all_boundaries if part_start <= boundary <= part_end)
    return Markup("".join(_render_layers(text, boundaries, layers, part_anchors)))


def render_passage(text: str, marks: Sequence[ByteSpan] = (), format: str = "text") -> Markup:
    """Return the HTML of a passage in which the byte spans ``marks`` are highlighted.

    A passage of a document in ``markdown`` format is rendered. In other formats, all of the text is kept, so that a
    mark contains exactly the cited text; headings and code are styled, and other Markdown syntax is hidden.
    """
    encoded_text = text.encode()
    if format == "markdown":
        header = _make_table_header(text)  # without one, the rest of a table is not rendered as a table
        offsets = [
            [len(header + encoded_text[:offset].decode(errors="ignore")) for offset in span]
            for span in merge_spans(marks)
        ]
        return render_markdown(header + text, [Insert(start, end, "<mark>", "</mark>") for start, end in offsets])
    layers = [
        [Insert(start, end, "<mark>", "</mark>") for start, end in merge_spans(marks)],
        _find_headings_and_code(encoded_text, (0, len(encoded_text))),
        [Insert(start, end, '<span class="sign">', "</span>") for start, end in _find_syntax(encoded_text)],
    ]
    boundaries = sorted({0, len(encoded_text), *_iter_boundaries(layers)})
    return Markup("".join(_render_layers(encoded_text, boundaries, layers, frozenset())))


def _iter_boundaries(layers: Iterable[Iterable[Insert]]) -> Iterator[int]:
    """Yield the offsets in the text at which an insert of any layer begins or ends."""
    for insert in chain.from_iterable(layers):
        yield insert.start
        yield insert.end


def _make_table_header(text: str) -> str:
    """Return an empty header for a passage that begins inside a Markdown table, else an empty string."""
    first_line, _, rest = text.partition("\n")
    # The second line of a complete table is the delimiter row.
    if not first_line.startswith("|") or rest.startswith(("|-", "| -", "|:", "| :")):
        return ""
    num_columns = first_line.rstrip().rstrip("|").count("|")
    return f"{'| ' * num_columns}|\n{'|---' * num_columns}|\n"


def strip_markdown(text: str) -> str:
    """Return a text without Markdown syntax, for an excerpt.

    >>> strip_markdown("## Lamps\\n> Trim the *wick*, says [Ann](a.md) to [[people/Bo|Bo]].")
    'Lamps\\nTrim the wick, says Ann to Bo.'
    """
    data = text.encode()
    plain_text, position = bytearray(), 0
    for start, end in _find_syntax(data):
        plain_text += data[position:start]
        position = end
    return (plain_text + data[position:]).decode(errors="replace")


def make_excerpt(text: str, max_chars: int) -> str:
    """Return the beginning of a chunk as an excerpt, without Markdown syntax and without the headings at its start.

    An excerpt has about ``max_chars`` characters; one that is cut ends with ``…``, after a whole word if possible.

    >>> make_excerpt("# Lamps\\n\\n## Care\\n\\nTrim the *wick* every evening.", 20)
    'Trim the wick…'
    """
    body = _LEADING_HEADINGS_PATTERN.sub("", text)
    excerpt = strip_markdown(body[:max_chars]).rstrip()
    if len(body.rstrip()) <= max_chars:
        return excerpt
    beginning, _, last_word = excerpt.rpartition(" ")
    is_cut_in_word = beginning != "" and len(last_word) <= _MAX_CUT_WORD and not body[max_chars].isspace()
    return f"{beginning if is_cut_in_word else excerpt}…"


def split_heading(heading: str | None, title: str | None) -> list[str]:
    """Return the titles of a chunk's heading, a path, without the first one if it is the title of the document.

    >>> split_heading("Tea > Leaves", "Tea"), split_heading(None, "Tea")
    (['Leaves'], [])
    """
    titles = [strip_markdown(part) for part in (heading or "").split(" > ") if part]
    return titles[1:] if titles and title and titles[0] == strip_markdown(title) else titles


def _find_syntax(text: bytes) -> list[ByteSpan]:
    """Return the spans of Markdown syntax in order, except in code, whose text is literal."""
    code_matches = list(_CODE_SPAN_PATTERN.finditer(text))
    code_spans = merge_spans(chain((match.span("code") for match in code_matches), _iter_fenced_code(text)))
    syntax_spans = [match.span(group) for match in code_matches for group in ("opening", "closing")]
    for pattern in _SYNTAX_PATTERNS:
        for match in pattern.finditer(text):
            # The groups of a pattern are its syntax; without groups, the whole match is. Absent groups are empty.
            syntax_spans += [match.span(group) for group in range(1, pattern.groups + 1)] or [match.span()]
    code_starts, code_ends = [start for start, _ in code_spans], [end for _, end in code_spans]

    def is_outside_code(start: int, end: int) -> bool:
        """True if a span overlaps no code: the first code that ends after its start begins after its end."""
        index = bisect_right(code_ends, start)
        return index == len(code_spans) or end <= code_starts[index]

    return merge_spans(span for span in syntax_spans if is_outside_code(*span))


def _iter_fenced_code(text: bytes) -> Iterator[ByteSpan]:
    """Yield the span of the code between each two fences, which are on lines of their own."""
    for block in _BLOCK_PATTERN.finditer(text):
        if block[0].startswith(b"`"):  # not a heading
            yield block.start() + block[0].index(b"\n") + 1, block.start() + block[0].rindex(b"\n") + 1


def merge_spans(spans: Iterable[ByteSpan]) -> list[ByteSpan]:
    """Return spans in order; overlapping spans are merged, and empty spans are omitted.

    >>> merge_spans([(8, 9), (0, 3), (2, 5), (5, 6)])
    [(0, 5), (5, 6), (8, 9)]
    """
    merged_spans: list[ByteSpan] = []
    for start, end in sorted(spans):
        last_start, last_end = merged_spans[-1] if merged_spans else (0, 0)
        if merged_spans and start < last_end:
            merged_spans[-1] = last_start, max(end, last_end)
        elif start < end:
            merged_spans.append((start, end))
    return merged_spans


def _find_headings_and_code(text: bytes, part: ByteSpan) -> list[Insert]:
    """Return HTML elements around the headings and blocks of code in the bytes ``part`` of a Markdown text."""
    return [
        Insert(*match.span(), f'<span class="{"heading" if match[0].startswith(b"#") else "block"}">', "</span>")
        for match in _BLOCK_PATTERN.finditer(text, *part)
    ]


def number_marks(marks: Sequence[ByteSpan]) -> list[Insert]:
    """Return the highlights of ``marks``, merged where they overlap, with the ids ``mark``, ``mark-2``, ``mark-3``…"""
    return [
        Insert(start, end, f'<mark id="mark{f"-{number}" if number > 1 else ""}">', "</mark>")
        for number, (start, end) in enumerate(merge_spans(marks), start=1)
    ]


def link_names(text: bytes, names: Iterable[tuple[str, int, int]]) -> list[Insert]:
    """Return links to the pages of entities, in text order; ``names`` are entities with their spans, in bytes.

    Of overlapping mentions the first is linked, at the same start the longest. Mentions in lower case get the CSS class
    ``common``. Only the first link to an entity is in the keyboard tab order.
    """
    links: list[Insert] = []
    previous_end, linked_names = 0, set()

    def get_sort_key(mention: tuple[str, int, int]) -> tuple[int, int]:
        """Return the sort key of a mention: by start, the longest first."""
        _, start, end = mention
        return start, -end

    for name, start, end in sorted(names, key=get_sort_key):
        if start < previous_end:
            continue
        tabindex = "" if name not in linked_names else ' tabindex="-1"'
        linked_names.add(name)
        css_class = "name common" if text[start:end].islower() else "name"
        start_tag = f'<a class="{css_class}" href="{escape(build_entity_url(name))}"{tabindex}>'
        links.append(Insert(start, end, start_tag, "</a>", is_link=True))
        previous_end = end
    return links


def _find_insert(layer: Sequence[Insert], ends: Sequence[int], offset: int) -> Insert | None:
    """Return the insert of a layer around the byte at ``offset``, or None; ``ends`` are the ends of its inserts."""
    index = bisect_right(ends, offset)
    return layer[index] if index < len(layer) and layer[index].start <= offset else None


def _render_layers(
    text: bytes, boundaries: Sequence[int], layers: Sequence[Sequence[Insert]], anchors: frozenset[int]
) -> Iterable[str]:
    """Yield the HTML of a text between boundaries (offsets), inside the tags of all layers that contain it.

    The inserts of a layer are in order, and the first layer is outermost. Inserts of different layers can overlap, so
    their tags are closed and opened again at the boundaries. Each offset in ``anchors`` gets a link target.
    """
    ends_by_layer = [[insert.end for insert in layer] for layer in layers]
    open_inserts: list[Insert | None] = [None] * len(layers)
    for start, end in pairwise(boundaries):
        next_inserts = [_find_insert(layer, ends, start) for layer, ends in zip(layers, ends_by_layer, strict=True)]
        num_unchanged = 0  # the outer layers whose tag stays open
        while num_unchanged < len(layers) and next_inserts[num_unchanged] is open_inserts[num_unchanged]:
            num_unchanged += 1
        yield from (insert.end_tag for insert in reversed(open_inserts[num_unchanged:]) if insert is not None)
        if start in anchors:
            yield f'<span id="byte-{start}"></span>'
        yield from (insert.start_tag for insert in next_inserts[num_unchanged:] if insert is not None)
        open_inserts = next_inserts
        piece = text[start:end].decode(errors="replace")
        yield escape(piece).replace("\r", "&#13;")  # a parser would convert a carriage return to a line feed
    yield from (insert.end_tag for insert in reversed(open_inserts) if insert is not None)
