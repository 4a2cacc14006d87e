"""Org: Emacs notes become Markdown that follows their structure.
A *keyword* is a line ``#+NAME: value``; a *drawer* is the lines from ``:NAME:`` to ``:END:``. ``depth`` is the number
of blocks around the lines.

In: an ``.org`` file in UTF-8 (or in the encoding that a byte-order mark or option names). Out: one document of format
``markdown`` with headings (states and tags below them), lists, definitions, tables, code, examples, quotations, plans
and footnotes. Comments, drawers and keywords are dropped. Includes are not followed, and no code is run. The title is
``#+TITLE``, else the first level-one heading. Metadata are ``author``, ``date``, ``language`` and ``tags``.
``#+DESCRIPTION`` becomes the first paragraph. A file without text is a ReaderError.

Source: Org Syntax (Orgmode.org), worg/org-syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from .decoding import decode_text
from .line_markup import ProtectedTexts, find_line, get_indent, get_margin
from .list_nesting import BlockBuilder
from .markdown import find_first_title, prepend_paragraphs
from .markdown_blocks import (
    MarkdownBlock,
    join_blocks,
    make_code_block,
    make_code_span,
    make_heading,
    make_paragraph,
    make_quote,
    make_table,
)
from .raw_document import JSON, Origin, RawDocument, ReadOptions

#: The maximum depth of nested blocks; the content of deeper blocks becomes a code block.
_MAX_DEPTH = 24
#: The maximum number of lines of a drawer; without an end in this range, the first line is not a drawer.
_MAX_DRAWER_LINES = 500

_HEADING_PATTERN = re.compile(r"(?P<stars>\*{1,50}) +(?P<title>.*\S)\s*$")  # ** Green tea
_STATE_PATTERN = re.compile(r"(TODO|NEXT|WAITING|STARTED|HOLD|DONE|CANCELL?ED)(?: +|$)")  # TODO buy
_PRIORITY_PATTERN = re.compile(r"\[#\w\] *")  # [#A]
_TAGS_PATTERN = re.compile(r"(?<!\s)\s+:((?:[\w@#%]+:)+)$")  # Tea :green:hot:
_KEYWORD_PATTERN = re.compile(r"\s*#\+(?P<name>[\w-]+):[ \t]*(?P<value>.*)$")  # #+TITLE: Green tea
_BEGIN_PATTERN = re.compile(r"\s*#\+begin_(?P<type>\S+)(?:[ \t]+(?P<language>\S+))?.*$", re.I)  # #+begin_src python
_DRAWER_PATTERN = re.compile(r"\s*:[\w-]+:\s*$")  # :PROPERTIES:
_PLAN_PATTERN = re.compile(r"\s*(?:DEADLINE|SCHEDULED|CLOSED): *[<\[]")  # SCHEDULED: <2020-01-31>
#: A list item, perhaps with a checkbox, or with a number that replaces the marker's: ``- [X] tea``, ``1. [@7] tea``.
_ITEM_PATTERN = re.compile(
    r"(?P<indent>\s*)(?P<marker>[-+]|(?<= )\*|\d{1,9}[.)]|[A-Za-z][.)])(?: +|$)"
    r"(?:\[@(?P<number>\d{1,8})\](?: +|$))?(?:\[[ Xx-]\] +)?"
)
_TABLE_PATTERN = re.compile(r"\s*\|")
_RULE_PATTERN = re.compile(r"\s*\|[-+|]*$")  # |---+---|
_FIXED_WIDTH_PATTERN = re.compile(r"\s*:(?: (.*)|)$")  # : a code line
_FOOTNOTE_PATTERN = re.compile(r"\[fn:(?P<label>[\w-]{1,60})\]\s*(?P<text>.*)$")  # [fn:1] A note

_LINK_PATTERN = re.compile(
    r"\[\[(?P<address>[^\[\]\n]{1,2000})\](?:\[(?P<label>[^\[\]\n]{1,1000})\])?\]"  # [[tea.org][Tea]]
)
_CODE_PATTERN = re.compile(r"(?<![\w=~])([=~])(?=\S)(?P<code>[^\n]{1,500}?)(?<=\S)\1(?![\w=~])")  # =code=
_STRONG_PATTERN = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]{1,500}?)(?<=\S)\*(?![\w*])")  # *tea*
_ITALIC_PATTERN = re.compile(r"(?<![\w/:.])/(?=[^\s/])([^/\n]{1,500}?)(?<=[^\s/])/(?![\w/])")  # /tea/
#: Underlined or struck text: ``_tea_``, ``+tea+``.
_UNDERLINE_PATTERN = re.compile(r"(?<![\w_+])([_+])(?=\S)(?P<text>[^_+\n]{1,500}?)(?<=\S)\1(?![\w_+])")
_DATE_PATTERN = re.compile(r"[<\[](\d{4}-\d\d-\d\d[^<>\[\]\n]{0,60})[>\]]")  # <2020-01-31 Fri>
_FOOTNOTE_REFERENCE_PATTERN = re.compile(r"\[fn:([\w-]{1,60})\]")  # [fn:1]


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert an Org file to Markdown, and yield it as one document.

    Raises ReaderError if it has no text, or cannot be decoded.
    """
    text = decode_text(stream.read(), origin.name, options.encoding)
    parser = _OrgParser()
    blocks = parser.parse_blocks([line.expandtabs().rstrip() for line in text.split("\n")], depth=0)
    markdown = prepend_paragraphs(join_blocks(blocks), parser.descriptions)
    origin.require_content(markdown)
    yield RawDocument(
        origin.key,
        title=parser.title or find_first_title(markdown),
        text=markdown + "\n",
        meta=parser.meta,
        format="markdown",
    )


class _OrgParser:
    """The parser of one file; ``title``, ``meta`` and ``descriptions`` come from its keywords."""

    def __init__(self) -> None:
        """Prepare to parse a file, whose keywords set the title, the metadata and the descriptions."""
        self.title = ""
        self.meta: dict[str, JSON] = {}
        self.descriptions: list[JSON] = []
        # The difference, by indent, between the printed numbers and the markers' numbers after an item such as [@7].
        self._number_shifts: dict[int, int] = {}

    def parse_blocks(self, lines: Sequence[str], depth: int) -> list[MarkdownBlock]:
        """Return the Markdown blocks of the lines of a file (``depth`` 0) or of a block in it."""
        builder = BlockBuilder()
        index = 0
        while index < len(lines):
            index = self._parse_block(lines, index, depth, builder)
        return builder.finish_blocks()

    def _parse_block(self, lines: Sequence[str], start: int, depth: int, builder: BlockBuilder) -> int:
        """Add the block that begins at ``lines[start]`` to ``builder``, and return the index of the line after it.

        Blank lines, comments and drawers are skipped. Headings begin only at depth 0.
        """
        line = lines[start]
        if not line.strip():
            return start + 1
        heading_match = _HEADING_PATTERN.match(line) if depth == 0 else None
        if heading_match is not None:
            builder.add_blocks(*_iter_heading_blocks(len(heading_match["stars"]), heading_match["title"]))
            return start + 1
        if begin := _BEGIN_PATTERN.match(line):  # #+begin_src
            return self._parse_delimited(lines, start, begin, depth, builder)
        if keyword := _KEYWORD_PATTERN.match(line):  # #+TITLE: Tea
            self._process_keyword(keyword["name"].lower(), keyword["value"].strip(), builder)
            return start + 1
        if line.lstrip().startswith(("# ", "#+")) or line.strip() == "#":  # a comment
            return start + 1
        if _DRAWER_PATTERN.match(line):  # :PROPERTIES:
            return _find_drawer_end(lines, start)
        if _TABLE_PATTERN.match(line):  # | tea | green |, or a rule: |-----+-------|
            end = find_line(lines, start, lambda other: not _TABLE_PATTERN.match(other))
            rows = [_split_cells(row) for row in lines[start:end] if not _RULE_PATTERN.match(row)]
            if rows:
                builder.add_blocks(make_table(rows[0], rows[1:]))
            return end
        if _FIXED_WIDTH_PATTERN.match(line):  # : a code line
            end = find_line(lines, start, lambda other: not _FIXED_WIDTH_PATTERN.match(other))
            code_lines = [code_line.strip().removeprefix(":").removeprefix(" ") for code_line in lines[start:end]]
            builder.add_blocks(make_code_block("\n".join(code_lines)))
            return end
        if item := _ITEM_PATTERN.match(line):
            return self._parse_item(lines, start, item, builder)
        end = _find_paragraph_end(lines, start)
        footnote = _FOOTNOTE_PATTERN.match(line)
        first_line = line.strip() if footnote is None else f"[fn:{footnote['label']}] {footnote['text']}"
        text = " ".join([first_line, *map(str.strip, lines[start + 1 : end])])
        builder.add_blocks(make_paragraph(_render_inline(text)))
        return end

    def _process_keyword(self, name: str, value: str, builder: BlockBuilder) -> None:
        """Process a line ``#+name: value``; a caption and a subtitle become paragraphs of ``builder``.

        Other values are stored in ``title``, ``meta`` and ``descriptions``, or dropped.
        """
        if name == "title":
            self.title = " ".join(filter(None, [self.title, _render_inline(value)]))
        elif name == "subtitle" and value:
            builder.add_blocks(make_paragraph(_render_inline(value)))
        elif name in ("author", "date", "language") and value:
            self.meta[name] = _DATE_PATTERN.sub(r"\1", value)
        elif name == "filetags" and value.strip(":"):
            self.meta["tags"] = list(value.strip(":").split(":"))
        elif name == "description" and value:
            self.descriptions.append(_render_inline(value))
        elif name == "caption" and value:
            builder.add_blocks(make_paragraph(_render_inline(value)))

    def _parse_delimited(
        self, lines: Sequence[str], start: int, begin: re.Match[str], depth: int, builder: BlockBuilder
    ) -> int:
        """Add the block of ``#+begin_NAME`` to ``builder``, and return the index of the line after ``#+end_NAME``.

        ``begin`` is the match of its first line, ``lines[start]``. An unclosed block extends to the last line. A
        comment is dropped. A block inside too many others (``depth``) is added as code.
        """
        block_type = begin["type"].lower()
        end = _find_end_line(lines, start, f"#+end_{block_type}")
        body = list(lines[start + 1 : end])
        if block_type in ("src", "example", "export") or depth >= _MAX_DEPTH:
            margin = get_margin(body)
            language = (begin["language"] or "") if block_type == "src" else ""
            if any(body):
                # A comma escapes a line that would end the block or be a heading.
                code = "\n".join(re.sub(r"^(\s*),(?=[*,]|#\+)", r"\1", body_line[margin:]) for body_line in body)
                builder.add_blocks(make_code_block(code, language if re.fullmatch(r"[\w+#.-]+", language) else ""))
        elif block_type != "comment":
            inner_blocks = self.parse_blocks(body, depth + 1)
            builder.add_blocks(
                *([make_quote(inner_blocks)] if inner_blocks and block_type in ("quote", "verse") else inner_blocks)
            )
        return end + 1

    def _parse_item(self, lines: Sequence[str], start: int, item: re.Match[str], builder: BlockBuilder) -> int:
        """Add the list item at ``lines[start]`` to ``builder``, and return the index of the line after it.

        ``item`` is the match of its first line. The lines below that are indented deeper than its marker belong to it.
        """
        indent = len(item["indent"])
        end = start + 1
        while end < len(lines) and lines[end] and get_indent(lines[end]) > indent:
            if any(pattern.match(lines[end]) for pattern in (_ITEM_PATTERN, _BEGIN_PATTERN, _TABLE_PATTERN)):
                break
            end += 1
        text = " ".join([lines[start][item.end() :], *map(str.strip, lines[start + 1 : end])]).strip()
        text = re.sub(r"(?<!\s)\s+::(?:\s+|$)", ": ", text, count=1).strip()  # between a term and its definition
        marker = "-"
        if item["marker"][0].isdecimal():
            number = int(item["marker"][:-1])
            if number == 1:  # the beginning of a list
                self._number_shifts.pop(indent, None)
            if item["number"]:  # [@7] continues the list at 7
                self._number_shifts[indent] = int(item["number"]) - number
            marker = f"{number + self._number_shifts.get(indent, 0)}."
        if text:
            # Two columns of indentation are a level.
            builder.add_item(min(indent // 2, _MAX_DEPTH), marker, [MarkdownBlock("paragraph", _render_inline(text))])
        return end


def _iter_heading_blocks(level: int, title: str) -> Iterator[MarkdownBlock]:
    """Yield a heading with the text of an Org headline (``title``), and its task state and tags as a paragraph.

    A priority is dropped. Without text, the heading is an ellipsis.
    """
    details: list[str] = []
    if state := _STATE_PATTERN.match(title):
        details.append(f"State: {state[1]}")
        title = title[state.end() :]
    title = _PRIORITY_PATTERN.sub("", title, count=1)
    if tags := _TAGS_PATTERN.search(title):
        details.append(f"Tags: {', '.join(tags[1].strip(':').split(':'))}")
        title = title[: tags.start()]
    yield make_heading(level, _render_inline(title, plain=True) or "…")
    if details:
        yield make_paragraph("; ".join(details))


def _find_drawer_end(lines: Sequence[str], start: int) -> int:
    """Return the index of the line after the drawer at ``start``; ``start + 1`` if the drawer has no end."""
    drawer_lines = lines[start : start + _MAX_DRAWER_LINES]
    end = _find_end_line(drawer_lines, 0, ":end:")
    return start + end + 1 if end < len(drawer_lines) else start + 1


def _find_end_line(lines: Sequence[str], start: int, end_line: str) -> int:
    """Return the index of the first ``end_line`` after ``start``, ignoring case, or the number of lines."""
    return find_line(lines, start + 1, lambda line: line.strip().lower() == end_line)


def _find_paragraph_end(lines: Sequence[str], start: int) -> int:
    """Return the index of the line after the paragraph at ``start``; a blank line or another block ends it."""
    if _PLAN_PATTERN.match(lines[start]):  # the dates of a task are a paragraph of one line
        return start + 1
    block_patterns = (
        _HEADING_PATTERN,
        _BEGIN_PATTERN,
        _KEYWORD_PATTERN,
        _TABLE_PATTERN,
        _FIXED_WIDTH_PATTERN,
        _ITEM_PATTERN,
        _FOOTNOTE_PATTERN,
        _DRAWER_PATTERN,
    )
    return find_line(lines, start + 1, lambda line: not line or any(pattern.match(line) for pattern in block_patterns))


def _split_cells(line: str) -> list[str]:
    """Return the cells of a line of a table (``| tea | green |``) as Markdown."""
    return [_render_inline(cell.strip()) for cell in line.strip().strip("|").split("|")]


def _render_inline(text: str, plain: bool = False) -> str:
    """Convert inline Org markup to Markdown, or to text without markup if ``plain``."""
    protected_texts = ProtectedTexts()  # replaces code, addresses and dates by placeholders, so no pattern changes them
    emphasis = "" if plain else "*"  # for strong text too
    text = _CODE_PATTERN.sub(
        lambda match: protected_texts.protect(match["code"] if plain else make_code_span(match["code"])), text
    )
    text = _LINK_PATTERN.sub(
        lambda match: match["label"] or protected_texts.protect(match["address"].removeprefix("file:")), text
    )
    text = _FOOTNOTE_REFERENCE_PATTERN.sub(r"[\1]", text)
    text = _DATE_PATTERN.sub(lambda match: protected_texts.protect(match[1].strip()), text)
    text = _STRONG_PATTERN.sub(lambda match: f"{emphasis}{match[1]}{emphasis}", text)
    text = _ITALIC_PATTERN.sub(lambda match: f"{emphasis}{match[1]}{emphasis}", text)
    text = _UNDERLINE_PATTERN.sub(lambda match: match["text"], text)
    return protected_texts.restore(text).strip()
