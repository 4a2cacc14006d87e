"""Org: the notes of Emacs become Markdown, by their structure.

In: an ``.org`` file, in UTF-8 (or as marked or named). Out: one document of format ``markdown``: headings with their
states and tags below them, lists, definitions, tables, code, examples, quotations, plans and footnotes. Comments,
drawers, keywords and what is marked as a comment are left out; nothing is included from elsewhere and no code is run.
Its title is ``#+TITLE``, else the first heading of level one; its metadata ``author``, ``date`` and ``tags``; what
``#+DESCRIPTION`` says is its first paragraph. A file without text is a ReaderError.

Source: Org Syntax (Orgmode.org), worg/org-syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from ...errors import ReaderError
from .decoding import decode_text
from .list_nesting import Gathered
from .markdown import find_first_title, introduced
from .markdown_blocks import MarkdownBlock, code_block, document, heading, make_code_span, make_table, paragraph, quote
from .raw_document import JSON, Origin, RawDocument, ReadOptions

#: Blocks within blocks that are parsed; what stands deeper is text.
_DEEPEST = 24
#: Lines of a drawer, which else is taken for a line that only looks like the beginning of one.
_MAX_DRAWER_LINES = 500

_HEADING_PATTERN = re.compile(r"(\*{1,50}) +(.*\S)\s*$")
_STATE_PATTERN = re.compile(r"(TODO|NEXT|WAITING|STARTED|HOLD|DONE|CANCELL?ED)(?: +|$)")
_PRIORITY_PATTERN = re.compile(r"\[#\w\] *")
_TAGS = re.compile(r"(?<!\s)\s+:((?:[\w@#%]+:)+)$")
_KEYWORD_PATTERN = re.compile(r"\s*#\+([\w-]+):[ \t]*(.*)$")
_BEGIN_PATTERN = re.compile(r"\s*#\+begin_(\S+)(?:[ \t]+(\S+))?.*$", re.I)
_DRAWER_PATTERN = re.compile(r"\s*:[\w-]+:\s*$")
_PLAN_PATTERN = re.compile(r"\s*(?:DEADLINE|SCHEDULED|CLOSED): *[<\[]")
_ITEM_PATTERN = re.compile(r"(\s*)([-+]|(?<= )\*|\d{1,9}[.)]|[A-Za-z][.)])(?: +|$)(?:\[[ Xx-]\] +)?")
_NUMBER = re.compile(r"\d")
_TABLE = re.compile(r"\s*\|")
_RULE = re.compile(r"\s*\|[-+|]*$")
_FIXED = re.compile(r"\s*:(?: (.*)|)$")
_NOTE = re.compile(r"\[fn:([\w-]{1,60})\]\s*(.*)$")

_LINK = re.compile(r"\[\[([^\[\]\n]{1,2000})\](?:\[([^\[\]\n]{1,1000})\])?\]")
_CODE = re.compile(r"(?<![\w=~])([=~])(?=\S)([^\n]{1,500}?)(?<=\S)\1(?![\w=~])")
_STRONG_PATTERN = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]{1,500}?)(?<=\S)\*(?![\w*])")
_ITALIC_PATTERN = re.compile(r"(?<![\w/:.])/(?=[^\s/])([^/\n]{1,500}?)(?<=[^\s/])/(?![\w/])")
_UNDERLINE_PATTERN = re.compile(r"(?<![\w_+])([_+])(?=\S)([^_+\n]{1,500}?)(?<=\S)\1(?![\w_+])")
_DATE_PATTERN = re.compile(r"[<\[](\d{4}-\d\d-\d\d[^<>\[\]\n]{0,60})[>\]]")
_CITED = re.compile(r"\[fn:([\w-]{1,60})\]")


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the file's one document."""
    text = decode_text(stream.read(), origin.name, options.encoding)
    page = _OrgFile()
    blocks = page.blocks([line.expandtabs(8).rstrip() for line in text.split("\n")], 0)
    written = introduced(document(blocks), page.described)
    if not written.strip():
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    yield RawDocument(origin.key, page.title or find_first_title(written), written + "\n", page.meta, "markdown")


class _OrgFile:
    """The blocks of one file; ``title``, ``meta`` and ``described`` are what its keywords say."""

    def __init__(self) -> None:
        self.title = ""
        self.meta: dict[str, JSON] = {}
        self.described: list[JSON] = []

    def blocks(self, lines: Sequence[str], depth: int) -> list[MarkdownBlock]:
        """The blocks of lines."""
        builder = Gathered()
        index = 0
        while index < len(lines):
            index = self._block(lines, index, depth, builder)
        return builder.finished()

    def _block(self, lines: Sequence[str], at: int, depth: int, gathered: Gathered) -> int:
        """Add the block that begins at a line, and give the line behind it."""
        line = lines[at]
        if not line.strip():
            return at + 1
        if (heading_match := _HEADING_PATTERN.match(line)) and depth == 0:
            gathered.add(*_build_heading(len(heading_match[1]), heading_match[2]))
            return at + 1
        if begin := _BEGIN_PATTERN.match(line):
            return self._parse_delimited(lines, at, begin, depth, gathered)
        if keyword := _KEYWORD_PATTERN.match(line):
            self._set(keyword[1].lower(), keyword[2].strip(), gathered)
            return at + 1
        if line.lstrip().startswith(("# ", "#+")) or line.strip() == "#":
            return at + 1
        if _DRAWER_PATTERN.match(line):
            end = _end(lines[at : at + _MAX_DRAWER_LINES], 0, ":end:")
            return at + end + 1 if end < min(len(lines) - at, _MAX_DRAWER_LINES) else at + 1
        if _TABLE.match(line):
            end = next(
                (line_number for line_number in range(at, len(lines)) if not _TABLE.match(lines[line_number])),
                len(lines),
            )
            rows = [_cells(line_number) for line_number in lines[at:end] if not _RULE.match(line_number)]
            if rows:
                gathered.add(make_table(rows[0], rows[1:]))
            return end
        if _FIXED.match(line):
            end = next(
                (line_number for line_number in range(at, len(lines)) if not _FIXED.match(lines[line_number])),
                len(lines),
            )
            gathered.add(
                code_block("\n".join((_FIXED.match(line_number) or [""])[1] or "" for line_number in lines[at:end]))
            )
            return end
        if item := _ITEM_PATTERN.match(line):
            return self._item(lines, at, item, gathered)
        if note := _NOTE.match(line):
            end = _find_paragraph_end(lines, at)
            gathered.add(
                paragraph(_inline(" ".join([f"[fn:{note[1]}] {note[2]}", *map(str.strip, lines[at + 1 : end])])))
            )
            return end
        end = _find_paragraph_end(lines, at)
        gathered.add(paragraph(_inline(" ".join(line_number.strip() for line_number in lines[at:end]))))
        return end

    def _set(self, name: str, value: str, gathered: Gathered) -> None:
        if name == "title":
            self.title = " ".join(filter(None, [self.title, _inline(value)]))
        elif name == "subtitle" and value:
            gathered.add(paragraph(_inline(value)))
        elif name in ("author", "date", "language") and value:
            self.meta[name] = _DATE_PATTERN.sub(r"\1", value)
        elif name == "filetags" and value.strip(":"):
            self.meta["tags"] = list(value.strip(":").split(":"))
        elif name == "description" and value:
            self.described.append(_inline(value))
        elif name == "caption" and value:
            gathered.add(paragraph(_inline(value)))

    def _parse_delimited(
        self, lines: Sequence[str], at: int, begin: re.Match[str], depth: int, gathered: Gathered
    ) -> int:
        kind = begin[1].lower()
        end = _end(lines, at, f"#+end_{kind}")
        body = list(lines[at + 1 : end])
        if kind in ("src", "example", "export") or depth >= _DEEPEST:
            margin = min((len(body_line) - len(body_line.lstrip()) for body_line in body if body_line), default=0)
            language = begin[2] or "" if kind == "src" else ""
            if any(body):
                code = "\n".join(re.sub(r"^(\s*),(?=[*,]|#\+)", r"\1", body_line[margin:]) for body_line in body)
                gathered.add(code_block(code, language if re.fullmatch(r"[\w+#.-]+", language) else ""))
        elif kind != "comment":
            inner_blocks = self.blocks(body, depth + 1)
            gathered.add(*([quote(inner_blocks)] if inner_blocks and kind in ("quote", "verse") else inner_blocks))
        return end + 1

    def _item(self, lines: Sequence[str], at: int, item: re.Match[str], gathered: Gathered) -> int:
        """An item of a list, with the lines that are indented below its mark."""
        indent = len(item[1])
        end = at + 1
        while (
            end < len(lines) and lines[end] and not _ITEM_PATTERN.match(lines[end]) and _get_indent(lines[end]) > indent
        ):
            if _BEGIN_PATTERN.match(lines[end]) or _TABLE.match(lines[end]):
                break
            end += 1
        text = " ".join([lines[at][item.end() :], *map(str.strip, lines[at + 1 : end])]).strip()
        text = re.sub(r"(?<!\s)\s+::(?:\s+|$)", ": ", text, count=1).strip()
        marker = f"{item[2][:-1]}." if _NUMBER.match(item[2]) else "-"
        if text:
            gathered.add_item(min(indent // 2, _DEEPEST), marker, [MarkdownBlock("paragraph", _inline(text))])
        return end


def _build_heading(level: int, title: str) -> Iterator[MarkdownBlock]:
    """A heading, and its state and tags below it."""
    details: list[str] = []
    if state := _STATE_PATTERN.match(title):
        details.append(f"State: {state[1]}")
        title = title[state.end() :]
    title = _PRIORITY_PATTERN.sub("", title, count=1)
    if tags := _TAGS.search(title):
        details.append(f"Tags: {', '.join(tags[1].strip(':').split(':'))}")
        title = title[: tags.start()]
    yield heading(min(6, level), _inline(title, plain=True) or "…")
    if details:
        yield paragraph("; ".join(details))


def _end(lines: Sequence[str], at: int, mark: str) -> int:
    """The line that ends what begins at one, or the end of the text."""
    return next(
        (line_number for line_number in range(at + 1, len(lines)) if lines[line_number].strip().lower() == mark),
        len(lines),
    )


def _get_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _find_paragraph_end(lines: Sequence[str], at: int) -> int:
    if _PLAN_PATTERN.match(lines[at]):
        return at + 1
    block_patterns = (
        _HEADING_PATTERN,
        _BEGIN_PATTERN,
        _KEYWORD_PATTERN,
        _TABLE,
        _FIXED,
        _ITEM_PATTERN,
        _NOTE,
        _DRAWER_PATTERN,
    )
    return next(
        (
            line_number
            for line_number in range(at + 1, len(lines))
            if not lines[line_number] or any(pattern.match(lines[line_number]) for pattern in block_patterns)
        ),
        len(lines),
    )


def _cells(line: str) -> list[str]:
    return [_inline(cell.strip()) for cell in line.strip().strip("|").split("|")]


def _inline(text: str, plain: bool = False) -> str:
    """Running text with its marks as Markdown has them; with ``plain`` without any."""
    protected: list[str] = []

    def keep(shown: str) -> str:
        protected.append(shown)
        return f"\0{len(protected) - 1}\0"

    mark = "" if plain else "*"
    text = _CODE.sub(lambda found: keep(found[2] if plain else make_code_span(found[2])), text)
    text = _LINK.sub(lambda found: found[2] or keep(found[1].removeprefix("file:")), text)
    text = _CITED.sub(r"[\1]", text)
    text = _DATE_PATTERN.sub(lambda found: keep(found[1].strip()), text)
    text = _STRONG_PATTERN.sub(lambda found: f"{mark}{found[1]}{mark}", text)
    text = _ITALIC_PATTERN.sub(lambda found: f"{mark}{found[1]}{mark}", text)
    text = _UNDERLINE_PATTERN.sub(lambda found: found[2], text)
    return re.sub(r"\0(\d+)\0", lambda found: protected[int(found[1])], text).strip()
