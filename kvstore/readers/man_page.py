r"""Manual pages: the roff source of a page of ``man`` becomes Markdown that follows its structure.
A *macro* is a line such as ``.SH NAME``; ``macro_args`` is the text after its name. BSD pages use the *mdoc* macros,
such as ``.Bl`` for a list; others use the *man* macros.

In: a roff page with man or mdoc macros, in UTF-8 or in the encoding of its first line (``-*- coding: latin-1 -*-``) or
of the ``encoding`` option. Out: one document of format ``markdown`` with sections, paragraphs, lists of terms, examples
and tables. The first heading is the name and section (``ls(1)``); the title adds the description in NAME. Metadata are
``section``, ``date``, ``source`` and ``manual``. Fonts are dropped, so that options and names appear as typed. A page
that only refers to another (``.so man1/other.1``) is skipped. A page without text, or with endless definitions, is a
ReaderError.

Source: man(7) and mdoc(7) of mandoc, groff_man(7), tbl(1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

from ..errors import ReaderError
from .decoding import collapse_whitespace, decode_text, is_utf8
from .man_blocks import MAX_LIST_DEPTH, IndentLevel, ManualBlocks, ManualItem, make_item
from .markdown_blocks import join_blocks, make_code_block, make_heading, make_table
from .mdoc import INLINE_MACROS, MdocInterpreter, RunningText
from .raw_document import JSON, Origin, RawDocument, ReadOptions, SkippedPart, is_known_encoding
from .roff import RoffError, RoffInterpreter, split_arguments

_CODING_PATTERN = re.compile(rb"-\*-.{0,80}?coding:\s*([\w.-]{1,40})")  # -*- coding: latin-1 -*-

#: The number of bytes that are searched for the declared encoding.
_MAX_CODING_OFFSET = 400
_MAX_TITLE_CHARACTERS = 300
_TABLE_OPTIONS_PATTERN = re.compile(r"tab\s*\(\s*(.)\s*\)")  # tab(!): the separator of cells
_FONT_MACROS = frozenset("B I R SB SM BI BR IB IR RB RI".split())
_ALTERNATING_FONT_MACROS = frozenset("BI BR IB IR RB RI".split())


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | SkippedPart]:
    """Convert a manual page to Markdown; yield it as one document, or a SkippedPart if it only names another page.

    Raises ReaderError if it has no text, cannot be decoded, or has definitions that expand without end.
    """
    page_bytes, encoding = stream.read(), options.encoding
    if encoding is None and not is_utf8(page_bytes):
        coding_match = _CODING_PATTERN.search(page_bytes[:_MAX_CODING_OFFSET])
        declared_encoding = coding_match[1].decode("ascii").lower() if coding_match else ""
        encoding = declared_encoding if declared_encoding and is_known_encoding(declared_encoding) else None
    text = decode_text(page_bytes, origin.name, encoding)
    try:
        page = _ManPageConverter(text)
    except RoffError as error:
        raise ReaderError(f"{origin.name}: {error}") from None
    blocks = page.finish_blocks()
    if not blocks and page.included_page:
        yield SkippedPart(origin.name, "pages that only refer to others")
        return
    origin.require_content(blocks, "has no text (only macros)")
    if page.heading:
        blocks = [make_heading(1, page.heading), *blocks]
    title, text = page.build_title(), join_blocks(blocks) + "\n"
    yield RawDocument(origin.key, title=title, text=text, meta=page.meta, format="markdown")


class _ManPageConverter(ManualBlocks):
    """The converter of one page; each macro has a method. ``heading`` is the name and section of the page. ``_levels``
    are the open indentations and lists, innermost last, ``_code_lines`` the lines of the open code block (None: no
    block is open), and ``_running_text`` is the open paragraph.

    ``included_page`` is the page to which the page refers, if it has no text of its own.
    """

    def __init__(self, text: str) -> None:
        """Convert the roff source ``text`` of a manual page to Markdown blocks and metadata.

        Raises RoffError if its definitions expand without end.
        """
        super().__init__(RoffInterpreter(text, frozenset(self._MACROS) | _FONT_MACROS | INLINE_MACROS))
        self.meta: dict[str, JSON] = {}
        self.heading = ""
        self.included_page = ""
        self._link = ""  # the address of the open link
        self._in_synopsis = False
        self._mdoc = MdocInterpreter()
        for line in self._roff.iter_lines():
            if line.macro:
                self._handle_macro(line.macro, line.content)
            else:
                self._add_source(line.content)

    def build_title(self) -> str | None:
        """Return ``name(section): description``, or the part of it that the page has; None if it has neither part.

        The description is the text after the dash in the section NAME (``ls - list files``). A long title is truncated.
        """
        description = self._description
        for dash in (" - ", " — ", " – ", " -- "):
            _, separator, purpose = description.partition(dash)
            if separator:
                description = purpose
                break
        title = ": ".join(filter(None, (self.heading, collapse_whitespace(description).rstrip("."))))
        return title[:_MAX_TITLE_CHARACTERS] or None

    # --- macros -------------------------------------------------------------------------------------------------------

    def _handle_macro(self, name: str, macro_args: str) -> None:
        """Process a macro: a font, a macro in ``_MACROS``, or an inline macro of mdoc; others are ignored.

        The arguments of a font are text. Those of alternating fonts, such as ``.BR``, are joined without spaces.
        """
        if name in _FONT_MACROS:
            texts = [self._roff.render_text(argument) for argument in split_arguments(macro_args)]
            if texts:
                ending = "\\c" if macro_args.endswith("\\c") else ""
                self._add_text("".join(texts) if name in _ALTERNATING_FONT_MACROS else " ".join(texts), ending)
        elif name in self._MACROS:
            self._MACROS[name](self, macro_args)
        elif name in INLINE_MACROS:
            self._add_mdoc_line([name, *self._render_tokens(macro_args)])

    def _render_tokens(self, macro_args: str) -> list[str]:
        r"""Return the arguments of an mdoc macro as text.

        An argument that begins with ``\&`` is text even if it has the name of a macro. It gets a NUL at its end, so
        that :class:`RunningText` treats it as text; the NUL is removed there.
        """
        tokens = split_arguments(macro_args)
        marks = ("\0" if token.startswith("\\&") and len(token) > 2 else "" for token in tokens)
        return [self._roff.render_text(token) + mark for token, mark in zip(tokens, marks, strict=True)]

    def _add_mdoc_line(self, tokens: Sequence[str]) -> None:
        """Add a line of inline mdoc macros to the open code block or paragraph, or a field (``%T``) to the reference.

        If a macro waits for this line, such as ``.TP`` for its term, the line goes to the ``_next_line_handler``.
        ``tokens`` are the first macro and its arguments, which can be macros too.
        """
        if self._code_lines is not None:
            self._code_lines.append(self._render_mdoc_line(tokens))
            return
        if self._next_line_handler is not None:
            handle_line, self._next_line_handler = self._next_line_handler, None
            handle_line(self._render_mdoc_line(tokens))
            return
        if self._reference_parts is not None and tokens[0].startswith("%"):
            self._reference_parts.append(" ".join(tokens[1:]).replace("\0", ""))
            return
        # In a synopsis, a line begins at the name of the command, and ends after an include, a type or a declaration.
        if tokens[0] == "Nm" and not self._in_name_section and self._in_synopsis:
            self._running_text.break_line()
        if tokens[0] == "In" and self._in_synopsis:
            self._running_text.add("#include")
        self._mdoc.add_line(tokens, self._running_text, defines_name=self._in_name_section)
        if tokens[0] in ("In", "Ft", "Vt", "Cd") and self._in_synopsis:
            self._running_text.break_line()

    def _render_mdoc_line(self, tokens: Sequence[str]) -> str:
        """Return the text of a line of inline mdoc macros; ``tokens`` are the macros and their arguments."""
        output = RunningText()
        self._mdoc.add_line(tokens, output)
        return output.take_text()

    def _render_fields(self, macro_args: str) -> list[str]:
        """Return the arguments of a macro, each as text on one line."""
        return [collapse_whitespace(self._roff.render_text(argument)) for argument in split_arguments(macro_args)]

    def _store_header(self, macro_args: str) -> None:
        """Handle the first macro ``.TH``: store ``heading`` (name and section), and all but the name in ``meta``."""
        fields = self._render_fields(macro_args)
        if self.heading or not fields:
            return
        name, section, *other_fields = [*fields, ""] if len(fields) < 2 else fields
        self.heading = _format_heading(name, section)
        for field_name, value in zip(("section", "date", "source", "manual"), (section, *other_fields), strict=False):
            if value:
                self.meta[field_name] = value

    def _store_document_title(self, macro_args: str) -> None:
        """Handle the first macro ``.Dt``: store ``heading`` (name and section), and the section in ``meta``."""
        fields = self._render_fields(macro_args)
        if fields and not self.heading:
            section = fields[1] if len(fields) > 1 else ""
            self.heading = _format_heading(fields[0], section)
            if section:
                self.meta["section"] = section

    def _store_document_date(self, macro_args: str) -> None:
        """Handle the macro ``.Dd``: store the date in ``meta``."""
        date = collapse_whitespace(self._roff.render_text(macro_args))
        date = re.sub(r"\$Mdocdate:?\s*(.*?)\s*\$", r"\1", date)  # "$Mdocdate: March 2 2026 $" is March 2 2026
        if date:
            self.meta["date"] = date

    def _store_system(self, macro_args: str) -> None:
        """Handle the macro ``.Os``: store the operating system as the source in ``meta``."""
        if macro_args.strip():
            self.meta["source"] = collapse_whitespace(
                " ".join(map(self._roff.render_text, split_arguments(macro_args)))
            )

    def _start_section(self, macro_args: str, level: int = 2) -> None:
        """Handle the macros ``.SH`` and ``.Sh``, and at level 3 ``.SS`` and ``.Ss``: begin a section with its heading.

        All open lists and indentations end. Without arguments, the next line is the title.
        """
        self.finish_blocks()
        self._num_excess_levels = 0
        title = " ".join(self._roff.render_text(argument).replace("\0", "") for argument in split_arguments(macro_args))
        if not title.strip():
            self._next_line_handler = lambda text: self._add_section_heading(text, level)
            return
        self._add_section_heading(title, level)

    def _add_section_heading(self, title: str, level: int) -> None:
        """Add the heading of a section (``level`` 2) or subsection (3).

        For a section, also record whether it is NAME (the first section) or SYNOPSIS.
        """
        title = collapse_whitespace(title)
        if level == 2:
            self._in_name_section = not self._description and not self._levels[0].blocks
            self._in_synopsis = title.upper() == "SYNOPSIS"
        self._levels[0].add_blocks(make_heading(level, title))

    def _start_paragraph(self, macro_args: str) -> None:
        """Handle the macro ``.PP`` and its synonyms: end the paragraph and the list item; in code, add a blank line."""
        if self._code_lines is not None:
            self._code_lines.append("")
            return
        self._flush_paragraph()
        # A macro such as ``.TP`` no longer waits for the next line.
        self._next_line_handler = None
        # Text after this macro is not part of the list, but a further term continues the list. A list of the mdoc
        # macros ends only at its own end macro, ``.El``.
        if not self._levels[-1].mdoc_list_type:
            self._levels[-1].is_list_ending = True

    def _add_space(self, macro_args: str) -> None:
        """Handle the macro ``.sp``: space that is not negative ends the paragraph; in code, it is a blank line."""
        if self._code_lines is not None:
            self._code_lines.append("")
        elif not macro_args.strip().startswith("-"):
            self._flush_paragraph()

    def _break_line(self, macro_args: str) -> None:
        """Handle the macro ``.br``: add a line break to the paragraph; in code, lines are kept anyway."""
        if self._code_lines is None:
            self._running_text.break_line()

    def _start_term(self, macro_args: str) -> None:
        """Handle the macro ``.TP``: begin a list item whose term is the next line, which is not read yet."""
        self._finish_open_text()
        self._next_line_handler = lambda term: self._levels[-1].open_item(make_item(term))

    def _add_further_term(self, macro_args: str) -> None:
        """Handle the macro ``.TQ``: the next line is one more term of the last item or, if it has text, a new item."""
        self._flush_paragraph()
        items = self._levels[-1].items
        if items and not items[-1].blocks:
            self._next_line_handler = items[-1].terms.append
        else:
            self._start_term(macro_args)

    def _start_indented_item(self, macro_args: str) -> None:
        """Handle the macro ``.IP``: begin a list item with its bullet, number or term.

        Without an argument, the current item continues.
        """
        self._finish_open_text()
        term = next(iter(self._render_fields(macro_args)), "")
        if term:
            self._levels[-1].open_item(make_item(term))
        else:
            self._levels[-1].is_list_ending = False  # the text after the macro belongs to the item

    def _start_verbatim(self, macro_args: str) -> None:
        """Handle the macros ``.nf``, ``.EX`` and ``.Vb``: begin a code block."""
        self._flush_paragraph()
        if self._code_lines is None:
            self._code_lines = []

    def _finish_verbatim(self, macro_args: str) -> None:
        """Handle the macros ``.fi``, ``.EE`` and ``.Ve``: end the code block."""
        self._finish_code()

    def _start_link(self, macro_args: str) -> None:
        """Handle the macros ``.UR`` and ``.MT``: remember the address of the link whose text follows."""
        link_arguments = split_arguments(macro_args)
        self._link = self._roff.render_text(link_arguments[0]) if link_arguments else ""

    def _finish_link(self, macro_args: str) -> None:
        """Handle the macros ``.UE`` and ``.ME``: end a link, and add its address and the punctuation after it."""
        if self._link:
            self._add_text(f"<{self._link}>{''.join(map(self._roff.render_text, split_arguments(macro_args)[:1]))}")
        self._link = ""

    def _add_inline_link(self, macro_args: str) -> None:
        """Handle the macros ``.URL`` and ``.MTO``: add a link from its address, its label, and the text after it."""
        texts = list(map(self._roff.render_text, split_arguments(macro_args)))
        address, label, suffix = [*texts, "", "", ""][:3]  # missing arguments are empty
        self._add_text((f"{label} <{address}>" if label else address) + suffix)

    def _start_synopsis(self, macro_args: str) -> None:
        """Handle the macro ``.SY``: begin a synopsis with the name of a command."""
        self._flush_paragraph()
        self._add_source(" ".join(split_arguments(macro_args)[:1]))

    def _add_option(self, macro_args: str) -> None:
        """Handle the macro ``.OP``: add an optional argument of a command in brackets."""
        self._add_text("[" + " ".join(map(self._roff.render_text, split_arguments(macro_args))) + "]")

    def _store_included_page(self, macro_args: str) -> None:
        """Handle the macro ``.so``: store the path of the page that this page refers to in ``included_page``."""
        self.included_page = macro_args.strip()

    def _ignore_macro(self, macro_args: str) -> None:
        """Ignore a macro that only changes the layout."""

    # --- displays, lists and tables -----------------------------------------------------------------------------------

    def _start_list(self, macro_args: str) -> None:
        """Handle the mdoc macro ``.Bl``: begin a list of the type that its options name, such as ``-bullet``.

        A list that is nested too deeply is only counted, so that ``.El`` can end it.
        """
        self._flush_paragraph()
        list_type = next(
            (option.lstrip("-") for option in split_arguments(macro_args) if option in _LIST_OPTIONS), "item"
        )
        if len(self._levels) <= MAX_LIST_DEPTH:
            self._levels.append(IndentLevel(mdoc_list_type=list_type))
        else:
            self._num_excess_levels += 1

    def _finish_list(self, macro_args: str) -> None:
        """Handle the mdoc macro ``.El``: end the innermost list, which was only counted if it is too deep."""
        self._finish_code()
        self._flush_paragraph()
        self._next_line_handler = None
        if self._num_excess_levels:
            self._num_excess_levels -= 1
        elif len(self._levels) > 1:
            self._close_level()

    def _start_list_item(self, macro_args: str) -> None:
        """Handle the mdoc macro ``.It``: begin a list item with its term; in a column list, add a row.

        The type of the list is an argument of its macro ``.Bl``, such as ``-tag`` for a list of terms. A term that the
        macro ``Xo`` opens continues on the next lines, up to ``Xc``.
        """
        self._finish_open_text()
        level = self._levels[-1]
        if level.mdoc_list_type == "column":
            level.rows.append([self._render_mdoc_line(self._render_tokens(cell)) for cell in _split_cells(macro_args)])
            return
        term = self._render_mdoc_line(self._render_tokens(macro_args))
        if level.mdoc_list_type in ("tag", "hang", "ohang", "inset", "diag"):  # lists of terms
            level.open_item(ManualItem([term]))
            if self._mdoc.open_tags:
                self._next_line_handler = self._extend_term
        else:
            level.open_item(ManualItem([], f"{len(level.items) + 1}." if level.mdoc_list_type == "enum" else "-"))

    def _extend_term(self, text: str) -> None:
        """Append ``text``, a further line, to the term of the last item.

        While the macro ``Xo`` is open (``open_tags``), the next line is appended too.
        """
        items = self._levels[-1].items
        if items:
            items[-1].terms[-1] = f"{items[-1].terms[-1]} {text}".strip()
        if self._mdoc.open_tags:
            self._next_line_handler = self._extend_term

    def _start_display(self, macro_args: str) -> None:
        """Handle the mdoc macro ``.Bd``: begin a code block if the lines are to be displayed as they are."""
        self._flush_paragraph()
        display_options = split_arguments(macro_args)
        if "-literal" in display_options or "-unfilled" in display_options:
            self._code_lines = []

    def _add_code_line(self, macro_args: str) -> None:
        """Handle the mdoc macros ``.Dl`` and ``.D1``: add a code block of one line or, in code, a line to it."""
        self._flush_paragraph()
        line = self._render_mdoc_line(self._render_tokens(macro_args))
        if self._code_lines is not None:
            self._code_lines.append(line)
        elif line:
            self._levels[-1].add_blocks(make_code_block(line))

    def _start_reference(self, macro_args: str) -> None:
        """Handle the macro ``.Rs``: begin a bibliographic reference."""
        self._reference_parts = []

    def _finish_reference(self, macro_args: str) -> None:
        """Handle the macro ``.Re``: add the parts of a reference as one sentence."""
        parts, self._reference_parts = self._reference_parts, None
        if parts:
            self._running_text.add(", ".join(parts) + ".")

    def _add_table(self, macro_args: str) -> None:
        """Handle the macro ``.TS``: read a table of the preprocessor tbl up to ``.TE``, and add it."""
        self._finish_code()
        self._flush_paragraph()
        rows = list(self._iter_table_rows(iter(self._roff.read_raw_lines("TE"))))
        if rows:
            self._levels[-1].add_blocks(make_table(rows[0], rows[1:]))

    def _iter_table_rows(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Yield the rows of a table of the preprocessor tbl as texts of cells.

        ``lines`` are its source lines. The layout is described by the first lines, up to one that ends with a period,
        and again after the macro ``.T&``.
        """
        separator = "\t"
        in_format = True  # in lines that describe the layout
        for index, line in enumerate(lines):
            if in_format:
                if index == 0 and line.rstrip().endswith(";"):
                    option = _TABLE_OPTIONS_PATTERN.search(line)
                    separator = option[1] if option else separator
                elif line.rstrip().endswith("."):  # the last line of the format
                    in_format = False
                continue
            if line.startswith((".T&", "'T&")):
                in_format = True
                continue
            if line[:1] == "." and not line[1:2].isdigit():
                continue  # a layout macro between the rows
            if line.strip() in ("_", "=") or not line.strip():  # a horizontal line, or nothing
                continue
            cells = _read_table_cells(line, lines, separator)  # a cell can continue on the next lines
            yield [_clean_cell(self._roff.render_text(cell)) for cell in cells]

    def _add_equation(self, macro_args: str) -> None:
        """Handle the macro ``.EQ``: read a formula of the preprocessor eqn up to ``.EN``, and add its source."""
        text = " ".join(self._roff.read_raw_lines("EN"))
        if text.strip():
            self._add_text(" ".join(text.split()))

    _MACROS: Mapping[str, Callable[[_ManPageConverter, str], None]] = {
        "TH": _store_header, "SH": _start_section, "SS": lambda page, rest: page._start_section(rest, 3),
        **dict.fromkeys("PP P LP HP Pp Lp".split(), _start_paragraph),
        "sp": _add_space, "Sp": _add_space, "br": _break_line,
        "IP": _start_indented_item, "TP": _start_term, "TQ": _add_further_term,
        "RS": ManualBlocks._indent, "RE": ManualBlocks._unindent,
        "INDENT": ManualBlocks._indent, "UNINDENT": ManualBlocks._unindent,
        **dict.fromkeys("nf EX Vb".split(), _start_verbatim),
        **dict.fromkeys("fi EE Ve".split(), _finish_verbatim),
        "UR": _start_link, "MT": _start_link, "UE": _finish_link, "ME": _finish_link,
        "URL": _add_inline_link, "MTO": _add_inline_link,
        "SY": _start_synopsis, "OP": _add_option, "so": _store_included_page, "TS": _add_table, "EQ": _add_equation,
        "Dd": _store_document_date, "Dt": _store_document_title, "Os": _store_system, "Sh": _start_section,
        "Ss": lambda page, rest: page._start_section(rest, 3),
        "Bl": _start_list, "It": _start_list_item, "El": _finish_list,
        "Bd": _start_display, "Ed": _finish_verbatim, "D1": _add_code_line, "Dl": _add_code_line,
        "Rs": _start_reference, "Re": _finish_reference,
        **dict.fromkeys("IX YS PD DT AT UC TE EN ad na nh hy".split(), _ignore_macro),
        **dict.fromkeys("ne ll in ti ta ps vs ft fam cs nop tr".split(), _ignore_macro),
    }  # fmt: skip


_LIST_OPTIONS = frozenset("-bullet -column -dash -diag -enum -hang -hyphen -inset -item -ohang -tag".split())


def _format_heading(name: str, section: str) -> str:
    """Return the heading of a manual page, such as ``ls(1)``; ``section`` is the section of the manual, or empty."""
    return f"{_to_typed_name(name)}({section})" if section else _to_typed_name(name)


def _to_typed_name(name: str) -> str:
    """Return the name of a program as users type it: a name in capitals, as headers often have it, in lowercase."""
    return name.lower() if name.isupper() else name


def _read_table_cells(first_line: str, next_lines: Iterator[str], separator: str) -> list[str]:
    """Return the cells of a row of a tbl table, which begins with ``first_line``; ``separator`` separates them.

    A cell of several lines is enclosed in ``T{`` and ``T}``; its lines are read from ``next_lines``.
    """
    cells = [""]  # the last one is not complete yet
    remaining = first_line
    while True:
        *complete_cells, open_cell = remaining.split(separator)
        cells[-1] += complete_cells[0] if complete_cells else ""  # after T}, the rest of the cell that it ends
        cells += complete_cells[1:]
        if complete_cells:
            cells.append("")
        if open_cell.strip() != "T{":  # the cell ends with the line
            cells[-1] += open_cell
            return cells
        cell_lines: list[str] = []
        remaining = ""
        for cell_line in next_lines:
            if cell_line.startswith("T}"):
                remaining = cell_line[2:]
                break
            if cell_line.startswith("."):  # a macro, such as ".B bold text", counts as its arguments
                _, *arguments = split_arguments(cell_line[1:]) or [""]
                cell_line = " ".join(arguments)
            cell_lines.append(cell_line)
        cells[-1] = " ".join(cell_lines)
        if not remaining:
            return cells


def _clean_cell(text: str) -> str:
    """Return the text of a table cell on one line; empty if the cell draws a line or continues the cell above."""
    text = collapse_whitespace(text)
    return "" if text in ("\\^", "\\_", "_", "=") else text


def _split_cells(macro_args: str) -> list[str]:
    """Return the cells of a row in an mdoc column list, which are separated by tabs or by the macro ``Ta``."""
    return [part for cell in macro_args.split("\t") for part in re.split(r"(?:^|\s)Ta(?:\s|$)", cell)]
