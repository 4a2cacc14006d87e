r"""Manual pages: what ``man`` shows becomes Markdown, by its structure.

In: a page in roff with the macros of man or of mdoc, in UTF-8 or as its first line (``-*- coding: latin-1 -*-``) or the
option ``encoding`` says. Out: one document of format ``markdown``: sections, paragraphs, lists of terms, examples and
tables. Its first heading is the name and section (``ls(1)``), its title that and what NAME says; its metadata are
``section``, ``date``, ``source`` and ``manual``. Fonts are left out, so that options and names stand as they are typed.
A page that only says where another is (``.so man1/other.1``) is passed over; one without text, and one whose
definitions have no end, is a ReaderError.

Source: man(7) and mdoc(7) of mandoc, groff_man(7), tbl(1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from ...errors import ReaderError
from .decoding import decode_text, is_utf8
from .markdown_blocks import MarkdownBlock, code_block, document, heading, make_list, make_table, paragraph
from .mdoc import INLINE, Mdoc, RunningText
from .raw_document import JSON, Origin, PassedOver, RawDocument, ReadOptions
from .roff import Roff, RoffError, arguments

#: Lists within lists that are indented; what stands deeper is not indented further.
_DEEPEST = 12

_CODING_PATTERN = re.compile(rb"-\*-.{0,80}?coding:\s*([\w.-]{1,40})")
_LETTERS = dict.fromkeys(("utf-8", "utf8", "ascii", "us-ascii"), "utf-8")
_BULLETS = frozenset("•·○◦*-–—+o□")
_NUMBER = re.compile(r"\(?(\d{1,3}|[a-z])[.)\]]")
_LEADING_BULLET_PATTERN = re.compile(r"([•·])\s*|(\d{1,3})\.[\s\u00a0]*(?=\D)")
_TABLE_OPTIONS_PATTERN = re.compile(r"tab\s*\(\s*(.)\s*\)")
#: A term that docbook sets as a paragraph before what is set in.
_LONGEST_TERM = 200
_FONT_MACROS = frozenset("B I R SB SM BI BR IB IR RB RI".split())
_ALTERNATING_FONT_MACROS = frozenset("BI BR IB IR RB RI".split())


@dataclass(slots=True)
class _ManualItem:
    """An item of a list: its terms, or the mark that stands before it."""

    terms: list[str]
    marker: str = "-"
    blocks: list[MarkdownBlock] = field(default_factory=list)

    def finished(self) -> tuple[str, list[MarkdownBlock]]:
        """Its mark and its blocks, the first of which begins with the terms."""
        term = ", ".join(filter(None, self.terms))
        if not term:
            return self.marker, self.blocks or [MarkdownBlock("paragraph", "")]
        if self.blocks and self.blocks[0].kind == "paragraph":
            said = self.blocks[0].text.removeprefix("\\")
            return self.marker, [MarkdownBlock("paragraph", f"{term.removesuffix(':')}: {said}"), *self.blocks[1:]]
        return self.marker, [MarkdownBlock("paragraph", term), *self.blocks]


@dataclass(slots=True)
class _IndentLevel:
    """What stands at one indentation: blocks, and a list not finished yet; ``kind`` is how an mdoc list was begun."""

    blocks: list[MarkdownBlock] = field(default_factory=list)
    items: list[_ManualItem] = field(default_factory=list)
    closing: bool = False  # whether what comes next is not of the list, unless it is a term itself
    kind: str = ""
    rows: list[list[str]] = field(default_factory=list)

    def add(self, *blocks: MarkdownBlock) -> None:
        """Add blocks to the item that is open, or behind the list that is finished."""
        if self.items and not self.closing:
            self.items[-1].blocks += blocks
        else:
            self.close()
            self.blocks += blocks

    def open(self, item: _ManualItem) -> None:
        """Begin an item."""
        if self.items and (self.items[-1].marker == "-") != (item.marker == "-"):
            self.close()
        self.closing = False
        self.items.append(item)

    def close(self) -> None:
        """Finish the list."""
        if self.items:
            self.blocks.append(make_list([item.finished() for item in self.items]))
        self.items = []
        self.closing = False


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | PassedOver]:
    """Yield the page as one document."""
    data = stream.read()
    coding_match = _CODING_PATTERN.search(data[:400])
    named = (
        coding_match[1].decode("ascii").lower()
        if coding_match and options.encoding is None and not is_utf8(data)
        else None
    )
    text = decode_text(data, origin.name, options.encoding or (named if named and _is_known(named) else None))
    try:
        page = _ManualPage(text)
    except RoffError as error:
        raise ReaderError(f"{origin.name}: {error}") from None
    blocks = page.finished()
    if not blocks and page.included_page:
        yield PassedOver(origin.name, "pages that stand for others")
        return
    if not blocks:
        raise ReaderError(f"{origin.name}: has no text (macros and nothing else); there is nothing to store")
    if page.named:
        blocks = [heading(1, page.named), *blocks]
    yield RawDocument(origin.key, page.title(), document(blocks) + "\n", page.meta, "markdown")


def _is_known(encoding: str) -> bool:
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        return False
    return True


class _ManualPage:
    """The blocks of one page; ``named`` is its name and section, ``included_page`` the page that it names in its
    place."""

    def __init__(self, text: str) -> None:
        self.meta: dict[str, JSON] = {}
        self.named = ""
        self.included_page = ""
        self._described = ""
        self._in_name = False
        self._levels = [_IndentLevel()]
        self._num_unindented = 0  # how many levels are open that are not set in further
        self._running = RunningText()
        self._take_next_line: Callable[[str], None] | None = None  # who takes the next line of text
        self._is_continued = False  # whether the line before ended with \c
        self._code: list[str] | None = None
        self._link = ""
        self._reference: list[str] | None = None
        self._mdoc = Mdoc()
        self._roff = Roff(text, frozenset(self._MACROS) | _FONT_MACROS | INLINE)
        for line in self._roff.lines():
            if line.macro:
                self._macro(line.macro, line.rest)
            else:
                self._text(line.rest)

    def finished(self) -> list[MarkdownBlock]:
        """The blocks, in order."""
        self._finish_code()
        self._flush_paragraph()
        while len(self._levels) > 1:
            self._leave()
        self._levels[0].close()
        return self._levels[0].blocks

    def title(self) -> str | None:
        """The name and section, and what the page says that it is about."""
        description = self._described
        for dash in (" - ", " — ", " – ", " -- "):
            _, separator, purpose = description.partition(dash)
            if separator:
                description = purpose
                break
        shown = ": ".join(filter(None, (self.named, " ".join(description.split()).rstrip("."))))
        return shown[:300] or None

    # --- text ---------------------------------------------------------------------------------------------------------

    def _text(self, source: str) -> None:
        is_continued = source.endswith("\\c")
        if self._code is not None:
            code_line = self._roff.text(source).replace("\u00a0", " ").expandtabs(8).rstrip()
            if self._is_continued and self._code:
                self._code[-1] += code_line
            else:
                self._code.append(code_line)
            self._is_continued = is_continued
            return
        text = self._roff.text(source)
        if not text.strip():
            if not source.strip():
                self._flush_paragraph()
            return
        if self._take_next_line is not None:
            take_line, self._take_next_line = self._take_next_line, None
            take_line(_join_whitespace(text))
            return
        if source[0] == " ":
            self._running.break_line()
        if self._reference is not None:
            self._reference.append(_join_whitespace(text))
            return
        self._running.add(text.replace("\u00a0", " ").strip(), before=self._is_continued)
        self._is_continued = is_continued and not text[-1].isspace()

    def _flush_paragraph(self) -> None:
        """Finish the paragraph."""
        text = self._running.take()
        self._is_continued = False
        if text:
            if self._in_name and not self._described:
                self._described = _join_whitespace(text)
            self._levels[-1].add(paragraph(text))

    def _await_line(self, take: Callable[[str], None]) -> None:
        self._take_next_line = take

    def _finish_code(self) -> None:
        code_lines, self._code = self._code, None
        if code_lines and any(code_lines):
            self._levels[-1].add(code_block("\n".join(code_lines).strip("\n")))

    # --- macros -------------------------------------------------------------------------------------------------------

    def _macro(self, name: str, rest: str) -> None:
        if name in _FONT_MACROS:
            texts = [self._roff.text(argument) for argument in arguments(rest)]
            if texts:
                ending = "\\c" if rest.endswith("\\c") else ""
                self._add_text("".join(texts) if name in _ALTERNATING_FONT_MACROS else " ".join(texts), ending)
        elif name in self._MACROS:
            self._MACROS[name](self, rest)
        elif name in INLINE:
            self._inline([name, *self._tokens(rest)])

    def _add_text(self, text: str, ends: str = "") -> None:
        """Text that has no escapes any more."""
        self._text(text.replace("\\", "\\e") + ends)

    def _tokens(self, rest: str) -> list[str]:
        return [
            self._roff.text(token) + ("\0" if token.startswith("\\&") and len(token) > 2 else "")
            for token in arguments(rest)
        ]

    def _inline(self, tokens: Sequence[str]) -> None:
        """A line of mdoc."""
        if self._code is not None:
            output = RunningText()
            self._mdoc.line(tokens, output)
            self._code.append(output.take())
            return
        if self._take_next_line is not None:
            output = RunningText()
            self._mdoc.line(tokens, output)
            take_line, self._take_next_line = self._take_next_line, None
            take_line(output.take())
            return
        if self._reference is not None and tokens[0].startswith("%"):
            self._reference.append(" ".join(tokens[1:]).replace("\0", ""))
            return
        if tokens[0] == "Nm" and not self._in_name and self._in_synopsis:
            self._running.break_line()
        if tokens[0] == "In" and self._in_synopsis:
            self._running.add("#include")
        self._mdoc.line(tokens, self._running, defines_name=self._in_name)
        if tokens[0] in ("In", "Ft", "Vt", "Cd") and self._in_synopsis:
            self._running.break_line()

    _in_synopsis = False

    def _header(self, rest: str) -> None:
        fields = [_join_whitespace(self._roff.text(argument)) for argument in arguments(rest)]
        if self.named or not fields:
            return
        name, section, *other_fields = [*fields, "", ""][:5] if len(fields) < 2 else fields
        self.named = f"{_to_typed_name(name)}({section})" if section else _to_typed_name(name)
        for field_name, value in zip(("section", "date", "source", "manual"), (section, *other_fields), strict=False):
            if value:
                self.meta[field_name] = value

    def _read_document_title(self, rest: str) -> None:
        fields = [_join_whitespace(self._roff.text(argument)) for argument in arguments(rest)]
        if fields and not self.named:
            section = fields[1] if len(fields) > 1 else ""
            self.named = f"{_to_typed_name(fields[0])}({section})" if section else _to_typed_name(fields[0])
            if section:
                self.meta["section"] = section

    def _read_document_date(self, rest: str) -> None:
        date = re.sub(r"\$Mdocdate:?\s*(.*?)\s*\$", r"\1", _join_whitespace(self._roff.text(rest)))
        if date and date != "$Mdocdate$":
            self.meta["date"] = date

    def _read_system(self, rest: str) -> None:
        if rest.strip():
            self.meta["source"] = _join_whitespace(" ".join(map(self._roff.text, arguments(rest))))

    def _section(self, rest: str, level: int = 2) -> None:
        self._finish_code()
        self._flush_paragraph()
        while len(self._levels) > 1:
            self._leave()
        self._num_unindented = 0
        self._levels[0].close()
        title = " ".join(self._roff.text(argument).replace("\0", "") for argument in arguments(rest))
        if not title.strip():
            self._await_line(lambda text: self._add_section_heading(text, level))
            return
        self._add_section_heading(title, level)

    def _add_section_heading(self, title: str, level: int) -> None:
        title = _join_whitespace(title)
        if level == 2:
            self._in_name = not self._described and (not self._levels[0].blocks)
            self._in_synopsis = title.upper() == "SYNOPSIS"
        self._levels[0].add(heading(level, title))

    def _paragraph(self, rest: str) -> None:
        if self._code is not None:
            self._code.append("")
            return
        self._flush_paragraph()
        self._take_next_line = None
        if not self._levels[-1].kind:
            self._levels[-1].closing = True

    def _space(self, rest: str) -> None:
        if self._code is not None:
            self._code.append("")
        elif not rest.strip().startswith("-"):
            self._flush_paragraph()

    def _break(self, rest: str) -> None:
        if self._code is None:
            self._running.break_line()

    def _start_term(self, rest: str) -> None:
        """``.TP``: the next line is a term."""
        self._begin_item()
        self._await_line(lambda term: self._levels[-1].open(_make_item(term)))

    def _add_further_term(self, rest: str) -> None:
        """``.TQ``: and so is this one, for the same text."""
        self._flush_paragraph()
        items = self._levels[-1].items
        if items and not items[-1].blocks:
            self._await_line(items[-1].terms.append)
        else:
            self._start_term(rest)

    def _indented(self, rest: str) -> None:
        """``.IP``: a paragraph that is set in, behind a mark or a term."""
        arguments_given = arguments(rest)
        self._begin_item()
        term = _join_whitespace(self._roff.text(arguments_given[0])) if arguments_given else ""
        if term:
            self._levels[-1].open(_make_item(term))
        else:
            self._levels[-1].closing = False

    def _begin_item(self) -> None:
        self._finish_code()
        self._flush_paragraph()
        self._take_next_line = None

    def _enter(self, rest: str) -> None:
        """``.RS``: what follows is set in; a short paragraph before it that is no sentence is a term."""
        was_code = self._code is not None
        self._finish_code()
        if len(self._levels) > _DEEPEST:
            self._flush_paragraph()
            self._num_unindented += 1
            return
        level = self._levels[-1]
        text_before = self._running.take()
        if text_before and (level.closing or not level.items) and "\n\n" not in text_before and _is_term(text_before):
            level.open(_make_item(_join_whitespace(text_before.replace("\n", ", "))))
        elif text_before:
            self._levels[-1].add(paragraph(text_before))
            if level.closing or not level.items:
                level.close()
        elif level.closing:
            level.close()
        self._levels.append(_IndentLevel())
        if was_code:
            self._code = []

    def _unindent(self, rest: str) -> None:
        """``.RE``."""
        was_code = self._code is not None
        self._finish_code()
        self._flush_paragraph()
        if self._num_unindented:
            self._num_unindented -= 1
        elif len(self._levels) > 1 and not self._levels[-1].kind:
            self._leave()
        if was_code:
            self._code = []

    def _leave(self) -> None:
        """End what is set in."""
        self._flush_paragraph()
        level = self._levels.pop()
        level.close()
        if level.rows:
            level.blocks.append(make_table(level.rows[0], level.rows[1:]))
        parent = self._levels[-1]
        first_block = level.blocks[0] if level.blocks else None
        if (
            first_block is not None
            and first_block.kind == "paragraph"
            and (mark := _LEADING_BULLET_PATTERN.match(first_block.text))
        ):
            parent.open(_ManualItem([], f"{mark[2]}." if mark[2] else "-"))
            level.blocks[0] = MarkdownBlock("paragraph", first_block.text[mark.end() :])
            parent.add(*level.blocks)
            parent.closing = True
        else:
            parent.add(*level.blocks)

    def _verbatim(self, rest: str) -> None:
        self._flush_paragraph()
        if self._code is None:
            self._code = []

    def _finish_verbatim(self, rest: str) -> None:
        self._finish_code()

    def _start_link(self, rest: str) -> None:
        link_arguments = arguments(rest)
        self._link = self._roff.text(link_arguments[0]) if link_arguments else ""

    def _finish_link(self, rest: str) -> None:
        if self._link:
            self._add_text(f"<{self._link}>{''.join(map(self._roff.text, arguments(rest)[:1]))}")
        self._link = ""

    def _add_inline_link(self, rest: str) -> None:
        """``.URL`` and ``.MTO``: an address, what it is called, and what stands close behind it."""
        address, label, suffix = [*map(self._roff.text, arguments(rest)), "", "", ""][:3]
        self._add_text((f"{label} <{address}>" if label else address) + suffix)

    def _command(self, rest: str) -> None:
        """``.SY``: a synopsis begins with the name of a command."""
        self._flush_paragraph()
        self._text(" ".join(arguments(rest)[:1]))

    def _option(self, rest: str) -> None:
        self._add_text("[" + " ".join(map(self._roff.text, arguments(rest))) + "]")

    def _read_include(self, rest: str) -> None:
        self.included_page = rest.strip()

    def _nothing(self, rest: str) -> None:
        """Of the look of a page."""

    # --- displays, lists and tables -----------------------------------------------------------------------------------

    def _start_list(self, rest: str) -> None:
        self._flush_paragraph()
        kind = next((option.lstrip("-") for option in arguments(rest) if option in _LISTS), "item")
        if len(self._levels) <= _DEEPEST:
            self._levels.append(_IndentLevel(kind=kind))
        else:
            self._num_unindented += 1

    def _finish_list(self, rest: str) -> None:
        self._finish_code()
        self._flush_paragraph()
        self._take_next_line = None
        if self._num_unindented:
            self._num_unindented -= 1
        elif len(self._levels) > 1:
            self._leave()

    def _start_list_item(self, rest: str) -> None:
        self._finish_code()
        self._flush_paragraph()
        self._take_next_line = None
        level = self._levels[-1]
        tokens = self._tokens(rest)
        if level.kind == "column":
            row: list[str] = []
            for part in _split_cells(rest):
                output = RunningText()
                self._mdoc.line(self._tokens(part), output)
                row.append(output.take())
            level.rows.append(row)
            return
        output = RunningText()
        self._mdoc.line(tokens, output)
        term = output.take()
        if level.kind in ("tag", "hang", "ohang", "inset", "diag"):
            level.open(_ManualItem([term]))
            if self._mdoc.open_tags:
                self._await_line(self._extend_term)
        else:
            level.open(_ManualItem([], f"{len(level.items) + 1}." if level.kind == "enum" else "-"))

    def _extend_term(self, text: str) -> None:
        """More of a term that is several lines long (``Xo``)."""
        items = self._levels[-1].items
        if items:
            items[-1].terms[-1] = f"{items[-1].terms[-1]} {text}".strip()
        if self._mdoc.open_tags:
            self._await_line(self._extend_term)

    def _start_display(self, rest: str) -> None:
        self._flush_paragraph()
        display_options = arguments(rest)
        if "-literal" in display_options or "-unfilled" in display_options:
            self._code = []

    def _add_code_line(self, rest: str) -> None:
        """``.Dl`` and ``.D1``: one line set apart."""
        self._flush_paragraph()
        output = RunningText()
        self._mdoc.line(self._tokens(rest), output)
        line = output.take()
        if self._code is not None:
            self._code.append(line)
        elif line:
            self._levels[-1].add(code_block(line))

    def _start_reference(self, rest: str) -> None:
        self._reference = []

    def _finish_reference(self, rest: str) -> None:
        parts, self._reference = self._reference, None
        if parts:
            self._running.add(", ".join(parts) + ".")

    def _table(self, rest: str) -> None:
        """``.TS``: a table as tbl has it."""
        self._finish_code()
        self._flush_paragraph()
        separator = "\t"
        rows: list[list[str]] = []
        in_format = True
        lines = iter(self._roff.read_raw_lines("TE"))
        for number, line in enumerate(lines):
            if in_format:
                if number == 0 and line.rstrip().endswith(";"):
                    option = _TABLE_OPTIONS_PATTERN.search(line)
                    separator = option[1] if option else separator
                elif line.rstrip().endswith("."):
                    in_format = False
                continue
            if line.startswith((".T&", "'T&")):
                in_format = True
                continue
            if line[:1] == "." and not line[1:2].isdigit():
                continue  # a macro between the rows: of the look of the table
            if line.strip() in ("_", "=") or not line.strip():
                continue
            cells = [""]
            remaining = line
            while True:
                # A cell of several lines stands between T{ and T}.
                *complete_cells, open_cell = remaining.split(separator)
                cells[-1] += complete_cells[0] if complete_cells else ""
                cells += complete_cells[1:]
                if complete_cells:
                    cells.append("")
                if open_cell.strip() != "T{":
                    cells[-1] += open_cell
                    break
                cell_lines: list[str] = []
                remaining = ""
                for cell_line in lines:
                    if cell_line.startswith("T}"):
                        remaining = cell_line[2:]
                        break
                    cell_lines.append(" ".join(arguments(cell_line[1:])[1:]) if cell_line[:1] == "." else cell_line)
                cells[-1] = " ".join(cell_lines)
                if not remaining:
                    break
            rows.append([_cell(self._roff.text(cell)) for cell in cells])
        if rows:
            self._levels[-1].add(make_table(rows[0], rows[1:]))

    def _read_equation(self, rest: str) -> None:
        text = " ".join(self._roff.read_raw_lines("EN"))
        if text.strip():
            self._add_text(" ".join(text.split()))

    _MACROS: Mapping[str, Callable[[_ManualPage, str], None]] = {
        "TH": _header, "SH": _section, "SS": lambda page, rest: page._section(rest, 3),
        "PP": _paragraph, "P": _paragraph, "LP": _paragraph, "HP": _paragraph, "Pp": _paragraph, "Lp": _paragraph,
        "sp": _space, "Sp": _space, "br": _break, "IP": _indented, "TP": _start_term, "TQ": _add_further_term,
        "RS": _enter, "RE": _unindent, "INDENT": _enter, "UNINDENT": _unindent,
        "nf": _verbatim, "fi": _finish_verbatim, "EX": _verbatim, "EE": _finish_verbatim, "Vb": _verbatim,
        "Ve": _finish_verbatim, "UR": _start_link, "MT": _start_link, "UE": _finish_link, "ME": _finish_link,
        "URL": _add_inline_link, "MTO": _add_inline_link,
        "SY": _command, "OP": _option, "so": _read_include, "TS": _table, "EQ": _read_equation,
        "Dd": _read_document_date, "Dt": _read_document_title, "Os": _read_system, "Sh": _section,
        "Ss": lambda page, rest: page._section(rest, 3), "Bl": _start_list, "It": _start_list_item, "El": _finish_list,
        "Bd": _start_display, "Ed": _finish_verbatim, "D1": _add_code_line, "Dl": _add_code_line,
        "Rs": _start_reference, "Re": _finish_reference,
        **dict.fromkeys("IX YS PD DT AT UC TE EN ad na nh hy ne ll in ti ta ps vs ft fam cs nop tr".split(), _nothing),
    }  # fmt: skip


_LISTS = frozenset("-bullet -column -dash -diag -enum -hang -hyphen -inset -item -ohang -tag".split())


def _make_item(term: str) -> _ManualItem:
    """An item that a mark, a number or a term stands before."""
    if term in _BULLETS:
        return _ManualItem([])
    if number := _NUMBER.fullmatch(term):
        return _ManualItem([], f"{number[1]}.") if number[1].isdigit() else _ManualItem([term])
    return _ManualItem([term])


def _is_term(text: str) -> bool:
    return len(text) <= _LONGEST_TERM and (text.endswith("...") or not text.endswith((".", "!", "?", ":", ";")))


def _to_typed_name(name: str) -> str:
    """The name of a program, which headers often have in capitals."""
    return name.lower() if name.isupper() else name


def _join_whitespace(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """A cell of a table without what says how it is drawn."""
    text = _join_whitespace(text)
    return "" if text in ("\\^", "\\_", "_", "=") else text


def _split_cells(rest: str) -> list[str]:
    """The cells of a row of an mdoc list of columns."""
    return [part for cell in rest.split("\t") for part in re.split(r"(?:^|\s)Ta(?:\s|$)", cell)]
