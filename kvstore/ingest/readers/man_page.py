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
from .decoding import is_utf8, whole_text
from .markdown_blocks import MarkdownBlock, code_block, document, heading, item_list, paragraph, pipe_table
from .mdoc import INLINE, Mdoc, RunningText
from .raw_document import JSON, Origin, PassedOver, RawDocument, ReadOptions
from .roff import Roff, RoffError, arguments

#: Lists within lists that are indented; what stands deeper is not indented further.
_DEEPEST = 12

_CODING = re.compile(rb"-\*-.{0,80}?coding:\s*([\w.-]{1,40})")
_LETTERS = dict.fromkeys(("utf-8", "utf8", "ascii", "us-ascii"), "utf-8")
_BULLETS = frozenset("•·○◦*-–—+o□")
_NUMBER = re.compile(r"\(?(\d{1,3}|[a-z])[.)\]]")
_LEADING_BULLET = re.compile(r"([•·])\s*|(\d{1,3})\.[\s\u00a0]*(?=\D)")
_TABLE_OPTIONS = re.compile(r"tab\s*\(\s*(.)\s*\)")
#: A term that docbook sets as a paragraph before what is set in.
_LONGEST_TERM = 200
_FONTS = frozenset("B I R SB SM BI BR IB IR RB RI".split())
_ALTERNATING = frozenset("BI BR IB IR RB RI".split())


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
class _Level:
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
            self.blocks.append(item_list([item.finished() for item in self.items]))
        self.items = []
        self.closing = False


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | PassedOver]:
    """Yield the page as one document."""
    data = stream.read()
    coding_match = _CODING.search(data[:400])
    named = (
        coding_match[1].decode("ascii").lower()
        if coding_match and options.encoding is None and not is_utf8(data)
        else None
    )
    text = whole_text(data, origin.name, options.encoding or (named if named and _is_known(named) else None))
    try:
        page = _ManualPage(text)
    except RoffError as error:
        raise ReaderError(f"{origin.name}: {error}") from None
    blocks = page.finished()
    if not blocks and page.stands_for:
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
    """The blocks of one page; ``named`` is its name and section, ``stands_for`` the page that it names in its place."""

    def __init__(self, text: str) -> None:
        self.meta: dict[str, JSON] = {}
        self.named = ""
        self.stands_for = ""
        self._described = ""
        self._in_name = False
        self._levels = [_Level()]
        self._deeper = 0  # how many levels are open that are not set in further
        self._running = RunningText()
        self._awaited: Callable[[str], None] | None = None  # who takes the next line of text
        self._glued = False  # whether the line before ended with \c
        self._code: list[str] | None = None
        self._link = ""
        self._reference: list[str] | None = None
        self._mdoc = Mdoc()
        self._roff = Roff(text, frozenset(self._MACROS) | _FONTS | INLINE)
        for line in self._roff.lines():
            if line.macro:
                self._macro(line.macro, line.rest)
            else:
                self._text(line.rest)

    def finished(self) -> list[MarkdownBlock]:
        """The blocks, in order."""
        self._end_code()
        self._flush()
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
            if self._glued and self._code:
                self._code[-1] += code_line
            else:
                self._code.append(code_line)
            self._glued = is_continued
            return
        text = self._roff.text(source)
        if not text.strip():
            if not source.strip():
                self._flush()
            return
        if self._awaited is not None:
            take_line, self._awaited = self._awaited, None
            take_line(_one_line(text))
            return
        if source[0] == " ":
            self._running.break_line()
        if self._reference is not None:
            self._reference.append(_one_line(text))
            return
        self._running.add(text.replace("\u00a0", " ").strip(), before=self._glued)
        self._glued = is_continued and not text[-1].isspace()

    def _flush(self) -> None:
        """Finish the paragraph."""
        text = self._running.take()
        self._glued = False
        if text:
            if self._in_name and not self._described:
                self._described = _one_line(text)
            self._levels[-1].add(paragraph(text))

    def _await(self, take: Callable[[str], None]) -> None:
        self._awaited = take

    def _end_code(self) -> None:
        code_lines, self._code = self._code, None
        if code_lines and any(code_lines):
            self._levels[-1].add(code_block("\n".join(code_lines).strip("\n")))

    # --- macros -------------------------------------------------------------------------------------------------------

    def _macro(self, name: str, rest: str) -> None:
        if name in _FONTS:
            texts = [self._roff.text(argument) for argument in arguments(rest)]
            if texts:
                ending = "\\c" if rest.endswith("\\c") else ""
                self._text_of("".join(texts) if name in _ALTERNATING else " ".join(texts), ending)
        elif name in self._MACROS:
            self._MACROS[name](self, rest)
        elif name in INLINE:
            self._inline([name, *self._tokens(rest)])

    def _text_of(self, text: str, ends: str = "") -> None:
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
        if self._awaited is not None:
            output = RunningText()
            self._mdoc.line(tokens, output)
            take_line, self._awaited = self._awaited, None
            take_line(output.take())
            return
        if self._reference is not None and tokens[0].startswith("%"):
            self._reference.append(" ".join(tokens[1:]).replace("\0", ""))
            return
        if tokens[0] == "Nm" and not self._in_name and self._synopsis:
            self._running.break_line()
        if tokens[0] == "In" and self._synopsis:
            self._running.add("#include")
        self._mdoc.line(tokens, self._running, named_here=self._in_name)
        if tokens[0] in ("In", "Ft", "Vt", "Cd") and self._synopsis:
            self._running.break_line()

    _synopsis = False

    def _header(self, rest: str) -> None:
        fields = [_one_line(self._roff.text(argument)) for argument in arguments(rest)]
        if self.named or not fields:
            return
        name, section, *other_fields = [*fields, "", ""][:5] if len(fields) < 2 else fields
        self.named = f"{_as_typed(name)}({section})" if section else _as_typed(name)
        for field_name, value in zip(("section", "date", "source", "manual"), (section, *other_fields), strict=False):
            if value:
                self.meta[field_name] = value

    def _document_title(self, rest: str) -> None:
        fields = [_one_line(self._roff.text(argument)) for argument in arguments(rest)]
        if fields and not self.named:
            section = fields[1] if len(fields) > 1 else ""
            self.named = f"{_as_typed(fields[0])}({section})" if section else _as_typed(fields[0])
            if section:
                self.meta["section"] = section

    def _document_date(self, rest: str) -> None:
        date = re.sub(r"\$Mdocdate:?\s*(.*?)\s*\$", r"\1", _one_line(self._roff.text(rest)))
        if date and date != "$Mdocdate$":
            self.meta["date"] = date

    def _system(self, rest: str) -> None:
        if rest.strip():
            self.meta["source"] = _one_line(" ".join(map(self._roff.text, arguments(rest))))

    def _section(self, rest: str, level: int = 2) -> None:
        self._end_code()
        self._flush()
        while len(self._levels) > 1:
            self._leave()
        self._deeper = 0
        self._levels[0].close()
        title = " ".join(self._roff.text(argument).replace("\0", "") for argument in arguments(rest))
        if not title.strip():
            self._await(lambda text: self._begin_section(text, level))
            return
        self._begin_section(title, level)

    def _begin_section(self, title: str, level: int) -> None:
        title = _one_line(title)
        if level == 2:
            self._in_name = not self._described and (not self._levels[0].blocks)
            self._synopsis = title.upper() == "SYNOPSIS"
        self._levels[0].add(heading(level, title))

    def _paragraph(self, rest: str) -> None:
        if self._code is not None:
            self._code.append("")
            return
        self._flush()
        self._awaited = None
        if not self._levels[-1].kind:
            self._levels[-1].closing = True

    def _space(self, rest: str) -> None:
        if self._code is not None:
            self._code.append("")
        elif not rest.strip().startswith("-"):
            self._flush()

    def _break(self, rest: str) -> None:
        if self._code is None:
            self._running.break_line()

    def _term(self, rest: str) -> None:
        """``.TP``: the next line is a term."""
        self._begin_item()
        self._await(lambda term: self._levels[-1].open(_item_of(term)))

    def _further_term(self, rest: str) -> None:
        """``.TQ``: and so is this one, for the same text."""
        self._flush()
        items = self._levels[-1].items
        if items and not items[-1].blocks:
            self._await(items[-1].terms.append)
        else:
            self._term(rest)

    def _indented(self, rest: str) -> None:
        """``.IP``: a paragraph that is set in, behind a mark or a term."""
        arguments_given = arguments(rest)
        self._begin_item()
        term = _one_line(self._roff.text(arguments_given[0])) if arguments_given else ""
        if term:
            self._levels[-1].open(_item_of(term))
        else:
            self._levels[-1].closing = False

    def _begin_item(self) -> None:
        self._end_code()
        self._flush()
        self._awaited = None

    def _enter(self, rest: str) -> None:
        """``.RS``: what follows is set in; a short paragraph before it that is no sentence is a term."""
        was_code = self._code is not None
        self._end_code()
        if len(self._levels) > _DEEPEST:
            self._flush()
            self._deeper += 1
            return
        level = self._levels[-1]
        text_before = self._running.take()
        if text_before and (level.closing or not level.items) and "\n\n" not in text_before and _is_term(text_before):
            level.open(_item_of(_one_line(text_before.replace("\n", ", "))))
        elif text_before:
            self._levels[-1].add(paragraph(text_before))
            if level.closing or not level.items:
                level.close()
        elif level.closing:
            level.close()
        self._levels.append(_Level())
        if was_code:
            self._code = []

    def _leave_indented(self, rest: str) -> None:
        """``.RE``."""
        was_code = self._code is not None
        self._end_code()
        self._flush()
        if self._deeper:
            self._deeper -= 1
        elif len(self._levels) > 1 and not self._levels[-1].kind:
            self._leave()
        if was_code:
            self._code = []

    def _leave(self) -> None:
        """End what is set in."""
        self._flush()
        level = self._levels.pop()
        level.close()
        if level.rows:
            level.blocks.append(pipe_table(level.rows[0], level.rows[1:]))
        parent = self._levels[-1]
        first_block = level.blocks[0] if level.blocks else None
        if (
            first_block is not None
            and first_block.kind == "paragraph"
            and (mark := _LEADING_BULLET.match(first_block.text))
        ):
            parent.open(_ManualItem([], f"{mark[2]}." if mark[2] else "-"))
            level.blocks[0] = MarkdownBlock("paragraph", first_block.text[mark.end() :])
            parent.add(*level.blocks)
            parent.closing = True
        else:
            parent.add(*level.blocks)

    def _verbatim(self, rest: str) -> None:
        self._flush()
        if self._code is None:
            self._code = []

    def _end_verbatim(self, rest: str) -> None:
        self._end_code()

    def _begin_link(self, rest: str) -> None:
        link_arguments = arguments(rest)
        self._link = self._roff.text(link_arguments[0]) if link_arguments else ""

    def _end_link(self, rest: str) -> None:
        if self._link:
            self._text_of(f"<{self._link}>{''.join(map(self._roff.text, arguments(rest)[:1]))}")
        self._link = ""

    def _link_in_line(self, rest: str) -> None:
        """``.URL`` and ``.MTO``: an address, what it is called, and what stands close behind it."""
        address, label, suffix = [*map(self._roff.text, arguments(rest)), "", "", ""][:3]
        self._text_of((f"{label} <{address}>" if label else address) + suffix)

    def _command(self, rest: str) -> None:
        """``.SY``: a synopsis begins with the name of a command."""
        self._flush()
        self._text(" ".join(arguments(rest)[:1]))

    def _option(self, rest: str) -> None:
        self._text_of("[" + " ".join(map(self._roff.text, arguments(rest))) + "]")

    def _included(self, rest: str) -> None:
        self.stands_for = rest.strip()

    def _nothing(self, rest: str) -> None:
        """Of the look of a page."""

    # --- displays, lists and tables -----------------------------------------------------------------------------------

    def _begin_list(self, rest: str) -> None:
        self._flush()
        kind = next((option.lstrip("-") for option in arguments(rest) if option in _LISTS), "item")
        if len(self._levels) <= _DEEPEST:
            self._levels.append(_Level(kind=kind))
        else:
            self._deeper += 1

    def _end_list(self, rest: str) -> None:
        self._end_code()
        self._flush()
        self._awaited = None
        if self._deeper:
            self._deeper -= 1
        elif len(self._levels) > 1:
            self._leave()

    def _list_item(self, rest: str) -> None:
        self._end_code()
        self._flush()
        self._awaited = None
        level = self._levels[-1]
        tokens = self._tokens(rest)
        if level.kind == "column":
            row: list[str] = []
            for part in _cells_of(rest):
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
                self._await(self._go_on_with_term)
        else:
            level.open(_ManualItem([], f"{len(level.items) + 1}." if level.kind == "enum" else "-"))

    def _go_on_with_term(self, text: str) -> None:
        """More of a term that is several lines long (``Xo``)."""
        items = self._levels[-1].items
        if items:
            items[-1].terms[-1] = f"{items[-1].terms[-1]} {text}".strip()
        if self._mdoc.open_tags:
            self._await(self._go_on_with_term)

    def _display(self, rest: str) -> None:
        self._flush()
        display_options = arguments(rest)
        if "-literal" in display_options or "-unfilled" in display_options:
            self._code = []

    def _code_line(self, rest: str) -> None:
        """``.Dl`` and ``.D1``: one line set apart."""
        self._flush()
        output = RunningText()
        self._mdoc.line(self._tokens(rest), output)
        line = output.take()
        if self._code is not None:
            self._code.append(line)
        elif line:
            self._levels[-1].add(code_block(line))

    def _begin_reference(self, rest: str) -> None:
        self._reference = []

    def _end_reference(self, rest: str) -> None:
        parts, self._reference = self._reference, None
        if parts:
            self._running.add(", ".join(parts) + ".")

    def _table(self, rest: str) -> None:
        """``.TS``: a table as tbl has it."""
        self._end_code()
        self._flush()
        separator = "\t"
        rows: list[list[str]] = []
        in_format = True
        lines = iter(self._roff.raw_lines("TE"))
        for number, line in enumerate(lines):
            if in_format:
                if number == 0 and line.rstrip().endswith(";"):
                    option = _TABLE_OPTIONS.search(line)
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
            self._levels[-1].add(pipe_table(rows[0], rows[1:]))

    def _equation(self, rest: str) -> None:
        text = " ".join(self._roff.raw_lines("EN"))
        if text.strip():
            self._text_of(" ".join(text.split()))

    _MACROS: Mapping[str, Callable[[_ManualPage, str], None]] = {
        "TH": _header, "SH": _section, "SS": lambda page, rest: page._section(rest, 3),
        "PP": _paragraph, "P": _paragraph, "LP": _paragraph, "HP": _paragraph, "Pp": _paragraph, "Lp": _paragraph,
        "sp": _space, "Sp": _space, "br": _break, "IP": _indented, "TP": _term, "TQ": _further_term,
        "RS": _enter, "RE": _leave_indented, "INDENT": _enter, "UNINDENT": _leave_indented,
        "nf": _verbatim, "fi": _end_verbatim, "EX": _verbatim, "EE": _end_verbatim, "Vb": _verbatim,
        "Ve": _end_verbatim, "UR": _begin_link, "MT": _begin_link, "UE": _end_link, "ME": _end_link,
        "URL": _link_in_line, "MTO": _link_in_line,
        "SY": _command, "OP": _option, "so": _included, "TS": _table, "EQ": _equation,
        "Dd": _document_date, "Dt": _document_title, "Os": _system, "Sh": _section,
        "Ss": lambda page, rest: page._section(rest, 3), "Bl": _begin_list, "It": _list_item, "El": _end_list,
        "Bd": _display, "Ed": _end_verbatim, "D1": _code_line, "Dl": _code_line,
        "Rs": _begin_reference, "Re": _end_reference,
        **dict.fromkeys("IX YS PD DT AT UC TE EN ad na nh hy ne ll in ti ta ps vs ft fam cs nop tr".split(), _nothing),
    }  # fmt: skip


_LISTS = frozenset("-bullet -column -dash -diag -enum -hang -hyphen -inset -item -ohang -tag".split())


def _item_of(term: str) -> _ManualItem:
    """An item that a mark, a number or a term stands before."""
    if term in _BULLETS:
        return _ManualItem([])
    if number := _NUMBER.fullmatch(term):
        return _ManualItem([], f"{number[1]}.") if number[1].isdigit() else _ManualItem([term])
    return _ManualItem([term])


def _is_term(text: str) -> bool:
    return len(text) <= _LONGEST_TERM and (text.endswith("...") or not text.endswith((".", "!", "?", ":", ";")))


def _as_typed(name: str) -> str:
    """The name of a program, which headers often have in capitals."""
    return name.lower() if name.isupper() else name


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """A cell of a table without what says how it is drawn."""
    text = _one_line(text)
    return "" if text in ("\\^", "\\_", "_", "=") else text


def _cells_of(rest: str) -> list[str]:
    """The cells of a row of an mdoc list of columns."""
    return [part for cell in rest.split("\t") for part in re.split(r"(?:^|\s)Ta(?:\s|$)", cell)]
