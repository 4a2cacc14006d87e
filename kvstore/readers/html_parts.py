"""Unfinished parts of a page: running text, lists, definition lists and tables, which become Markdown *blocks*.
An *admonition* is a box such as "Note"; its title becomes the label of its first paragraph.

In: finished paragraphs, items and cells, in the order of the page. Out: the resulting blocks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest

from selectolax.lexbor import LexborNode

from ..text.blocks import strip_numbering
from .list_nesting import remove_typed_label
from .list_numbers import format_list_number
from .markdown_blocks import (
    MAX_SPAN,
    InlineBuilder,
    ListItem,
    MarkdownBlock,
    make_image,
    make_list,
    make_paragraph,
    make_table,
    prepend_label,
    prepend_term,
)

#: The mark of a footnote or citation that is alone on its line or in its cell.
_FOOTNOTE_MARK_PATTERN = re.compile(r"\[[\w*†‡.:+-]{1,20}\]")
#: The maximum number of digits of a number in an attribute.
_MAX_DIGITS = 8
#: The style of numbers in a ``style`` attribute, and the formats of numbers by such a style or by a ``type`` attribute.
_LIST_STYLE_PATTERN = re.compile(r"\blist-style(?:-type)?\s*:\s*((?:lower|upper)-(?:alpha|latin|roman))", re.IGNORECASE)
_NUMBER_FORMATS = {
    **dict.fromkeys(("a", "lower-alpha", "lower-latin"), "lowerAlphabetic"),
    **dict.fromkeys(("A", "upper-alpha", "upper-latin"), "upperAlphabetic"),
    **dict.fromkeys(("i", "lower-roman"), "lowerRoman"),
    **dict.fromkeys(("I", "upper-roman"), "upperRoman"),
}


def get_span(cell: LexborNode, name: str) -> int:
    """Return the number of columns or rows that a cell spans, from 1 to ``MAX_SPAN``; 1 if the attribute is invalid.

    ``name`` is the name of the attribute: ``colspan`` or ``rowspan``.
    """
    value = cell.attributes.get(name) or "1"
    is_valid = value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS
    return min(max(1, int(value)), MAX_SPAN) if is_valid else 1


def is_layout_table(table: LexborNode) -> bool:
    """True if a table is only used for layout.

    Its role says so, it contains headings or other tables, or it has at most one row and no header cell.
    """
    if table.attributes.get("role") in ("presentation", "none"):
        return True
    if len(table.css("table")) > 1 or table.css_first("h1, h2, h3, h4, h5, h6") is not None:
        return True
    return len(table.css("tr")) < 2 and table.css_first("th") is None


@dataclass
class BlockContainer:
    """A container of blocks: the page, a heading, a list item, a table cell or a quotation.
    ``inline`` collects the text of the current paragraph; finished blocks are in ``blocks``. ``pending_label`` is the
    label of an admonition that waits for its first paragraph.
    """

    inline: InlineBuilder = field(default_factory=InlineBuilder)
    blocks: list[MarkdownBlock] = field(default_factory=list)
    in_toc: bool = False  # True in a table of contents
    keeps_images_inline: bool = False  # True in a heading, cell or term, whose images are its text
    pending_label: str = ""  # the label of an admonition, until its first paragraph

    def flush_paragraph(self) -> None:
        """End the current paragraph: move the running text from ``inline`` to ``blocks``.

        Unless ``keeps_images_inline``, images without text around them become blocks, which answers do not quote.
        """
        images = [] if self.keeps_images_inline else self.inline.take_lone_images()
        if images:
            self.add_blocks(*map(make_image, images))
        for text in self.inline.take_paragraphs():
            if self.inline.plain:  # a heading: it has no label, and its title is not escaped
                self.blocks.append(MarkdownBlock("paragraph", text))
            else:
                self._add_paragraph(text)
            self.pending_label = ""

    def _add_paragraph(self, text: str) -> None:
        """Add a paragraph to ``blocks``, preceded by the ``pending_label`` ("Note:"), if any.

        If the last block is only a footnote mark such as ``[1]``, it becomes the beginning of this paragraph. An entry
        of a table of contents loses its number.
        """
        label = self.pending_label
        last_block = self.blocks[-1] if self.blocks else None
        if last_block and last_block.kind == "paragraph" and _FOOTNOTE_MARK_PATTERN.fullmatch(last_block.text):
            self.blocks.pop()
            label = f"{last_block.text} {label}"
        self.blocks.append(make_paragraph(label + (strip_numbering(text) if self.in_toc else text)))

    def add_blocks(self, *blocks: MarkdownBlock) -> None:
        """End the current paragraph and add finished blocks to ``self.blocks``.

        The label of an admonition ("Note:") that still waits for a paragraph becomes a paragraph before them.
        """
        self.flush_paragraph()
        if self.pending_label:
            self.blocks.append(make_paragraph(self.pending_label.strip()))
            self.pending_label = ""
        self.blocks += blocks

    def finish_blocks(self) -> list[MarkdownBlock]:
        """End the current paragraph and return all blocks, including a label that still waits for a paragraph."""
        self.add_blocks()
        return self.blocks


@dataclass
class HtmlList:
    """An unfinished list or definition list. ``terms`` are the terms whose definition has not been read yet.
    ``next_number`` is the number of the next item (None: it has a bullet), and ``number_format`` is its format.
    ``step`` is the difference between two numbers, which is -1 in a reversed list.
    """

    next_number: int | None
    number_format: str
    in_toc: bool  # True in a table of contents
    step: int = 1
    items: list[ListItem] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)  # terms whose definition has not been read

    @classmethod
    def from_node(cls, node: LexborNode, *, is_numbered: bool, in_toc: bool) -> HtmlList:
        """Return an empty list for an element, with the first number and the number format of its attributes."""
        style_match = _LIST_STYLE_PATTERN.search(node.attributes.get("style") or "")
        format_name = node.attributes.get("type") if style_match is None else style_match[1].lower()
        html_list = cls(1 if is_numbered else None, _NUMBER_FORMATS.get(format_name or "", "decimal"), in_toc)
        if is_numbered and "reversed" in node.attributes:
            html_list.next_number = sum(child.tag == "li" for child in node.iter())
            html_list.step = -1
        html_list.set_next_number(node.attributes.get("start"))
        return html_list

    def set_next_number(self, value: str | None) -> None:
        """Set the number of the next item to the value of an attribute, if it is a number and items have no bullets."""
        is_number = value is not None and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS
        if value is not None and is_number and self.next_number is not None:
            self.next_number = int(value)

    def add_item(self, blocks: list[MarkdownBlock]) -> None:
        """Add an item with a bullet or the next number, unless ``blocks`` is empty.

        A number in letters or in Roman digits begins the text, because Markdown has no such numbers.
        """
        if not blocks:
            return
        marker = "-"
        if self.next_number is not None and self.next_number >= 0:  # Markdown has no negative numbers
            marker = f"{format_list_number(self.next_number, self.number_format)}."
            self.next_number += self.step
            blocks = remove_typed_label(marker, blocks)
            if self.number_format != "decimal":
                blocks, marker = prepend_label(marker, blocks), "-"
        self.items.append(ListItem(marker, blocks))

    def add_definition(self, blocks: list[MarkdownBlock]) -> None:
        """Add an item with the pending ``terms``, which are cleared, and their definition ``blocks``.

        Without pending terms, the definition extends the last item or, if there is none, becomes an item.
        """
        terms = ", ".join(self.terms)
        self.terms.clear()
        if not terms and self.items:  # another definition of the same term
            self.items[-1].blocks.extend(blocks)
            return
        if not terms or self.in_toc:  # the terms of a table of contents are entries, which get no colon
            self.add_item([MarkdownBlock("paragraph", terms), *blocks] if terms else blocks)
            return
        self.add_item(prepend_term(terms, blocks))

    def add_undefined_terms(self) -> None:
        """Add each of the pending ``terms`` as an item without a definition, and clear them."""
        for term in self.terms:
            self.add_item([MarkdownBlock("paragraph", term)])
        self.terms.clear()


@dataclass
class HtmlTable:
    """An unfinished table.
    A cell that spans rows is repeated in each of them. The text of a cell that spans columns is in the first of them;
    in the header, it is repeated in each of them.
    ``current_row`` is the unfinished row, which has ``num_cells`` cells; ``num_plain_cells`` of them are not headers.
    """

    caption: list[MarkdownBlock] = field(default_factory=list)
    header: list[list[str]] = field(default_factory=list)  # its rows
    rows: list[list[str]] = field(default_factory=list)
    current_row: list[str] = field(default_factory=list)
    in_head: bool = False  # True within <thead>
    num_cells: int = 0
    num_plain_cells: int = 0
    #: The texts that the columns of the current row have if it belongs to the header.
    header_texts: dict[int, str] = field(default_factory=dict)
    #: By column: the number of further rows that a cell spans, and its text.
    row_spans: dict[int, tuple[int, str]] = field(default_factory=dict)

    def start_row(self) -> None:
        """Begin a new current row with the texts of cells of earlier rows that extend into its first columns."""
        self.current_row = []
        self.num_cells = self.num_plain_cells = 0
        self.header_texts.clear()
        self._fill_row_spans()

    def add_cell(self, text: str, is_header: bool, num_columns: int, num_rows: int) -> None:
        """Add a cell that spans ``num_columns`` columns and ``num_rows`` rows to the current row.

        ``is_header`` is True for the header of a column or row.
        """
        column = len(self.current_row)
        # A cell beyond MAX_SPAN columns is not repeated, because this would multiply the text.
        further_columns = range(column + 1, min(column + num_columns, MAX_SPAN))
        self.header_texts |= dict.fromkeys(further_columns, text)
        if num_rows > 1:
            self.row_spans[column] = (num_rows - 1, text)
            for next_column in further_columns:
                self.row_spans.setdefault(next_column, (num_rows - 1, ""))
        self.current_row += [text, *[""] * (num_columns - 1)]
        self.num_cells += 1
        self.num_plain_cells += int(not is_header)
        self._fill_row_spans()

    def end_row(self) -> None:
        """Add the current row, if it has text, to the header or to the other rows.

        Rows of ``<thead>``, and initial rows that have only header cells, belong to the header. A first row of one
        header cell that spans several columns, as in an infobox, is a caption.
        """
        if not any(self.current_row):
            return
        is_header = self.in_head or (not self.num_plain_cells and not self.rows)
        if is_header and not self.header and self.num_cells == 1 < len(self.current_row):
            self.caption.append(make_paragraph(self.current_row[0]))
        elif is_header:
            texts = self.header_texts if self.num_cells > 1 else {}  # a row of one cell names no columns
            self.header.append([texts.get(column, text) for column, text in enumerate(self.current_row)])
        else:
            self.rows.append(self.current_row)

    def _fill_row_spans(self) -> None:
        """Append to the current row the texts of cells of earlier rows (``rowspan``) that extend into its next columns.

        The numbers of further rows in ``row_spans`` decrease by one.
        """
        while (span := self.row_spans.pop(len(self.current_row), None)) is not None:
            num_further_rows, text = span
            if num_further_rows > 1:
                self.row_spans[len(self.current_row)] = (num_further_rows - 1, text)
            self.current_row.append(text)

    def _join_term_rows(self) -> None:
        """Join each row that has only a term, in the first column, with the next row if that has only its definition.

        The definition is in the second column. Such tables lay out definition lists.
        """
        joined_rows: list[list[str]] = []
        term = ""  # of the last row, if that has no other text
        for row in self.rows:
            first_cell, *other_cells = row
            is_definition = not first_cell and len(other_cells) == 1 and other_cells[0]
            if term and is_definition:
                joined_rows[-1] = [term, *other_cells]
                term = ""
            else:
                joined_rows.append(row)
                term = "" if any(other_cells) else first_cell
        self.rows = joined_rows

    def build_blocks(self) -> list[MarkdownBlock]:
        """Return the caption and the table; a single column without a header becomes a list.

        A table without rows has only the caption. If a row has only a term and the next row only its definition, they
        become one row.
        """
        if not self.header and not self.rows:
            return self.caption
        if not self.header and max(map(len, self.rows)) == 1:
            items = [ListItem("-", [MarkdownBlock("paragraph", text)]) for (text,) in self.rows]
            return [*self.caption, make_list(items)]
        self._join_term_rows()
        columns = zip_longest(*self.header, fillvalue="")  # a header of several rows becomes a single row
        header = [" / ".join(dict.fromkeys(filter(None, column))) for column in columns]
        return [*self.caption, make_table(header, self.rows)]
