"""Conversion of OpenDocument text to Markdown blocks, in the order of its body.
A *span* is a stretch of text with a style. *Notes* are footnotes and endnotes. ``plain`` text has no emphasis.

In: the body of a text, or a shape of a slide, and the trees with its styles. Out: blocks: headings by their outline
level, lists, tables, code, quotations, text boxes and notes. Tables of contents, other indexes, deleted text and
comments are dropped.

Source: OASIS OpenDocument 1.3, part 3; the numbers below are its sections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element

from ..text.blocks import remove_struck_text
from .list_nesting import BlockBuilder, label_line
from .list_numbers import parse_list_number
from .markdown_blocks import (
    MAX_REPEATED_CHARACTERS,
    InlineBuilder,
    MarkdownBlock,
    find_contact_address,
    make_heading,
    make_paragraph,
    make_quote,
    render_one_line,
)
from .opendocument import (
    DRAW,
    OFFICE,
    PRESENTATION,
    STYLE,
    TABLE,
    TEXT,
    get_repetition,
    get_span,
    iter_cells,
    iter_rows,
)
from .opendocument_numbering import OpenDocumentNumbering
from .titled_tables import count_title_rows, make_titled_table

_FORMATTING_NAMESPACE = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_LINK_TARGET_ATTRIBUTE = "{http://www.w3.org/1999/xlink}href"
_CODE_STYLE_PATTERN = re.compile(r"(?:preformatted|source|teletype|code|listing)", re.I)
_QUOTE_STYLE_PATTERN = re.compile(r"quot", re.I)
_RAISED_PATTERN = re.compile(r"0*[1-9]")  # 33% 58%
#: Ignored elements: indexes (8), deleted text (5.5), comments (14), forms, notes of slides, and declarations.
_IGNORED_TAGS = frozenset(
    [
        *(
            f"{TEXT}{name}"
            for name in "tracked-changes sequence-decls variable-decls user-field-decls ruby-text".split()
        ),
        *(f"{TEXT}{name}-index" for name in "alphabetical illustration object table user".split()),
        f"{TEXT}table-of-content",
        f"{OFFICE}annotation",
        f"{OFFICE}annotation-end",
        f"{OFFICE}forms",
        f"{PRESENTATION}notes",
    ]
)
#: The maximum number of repetitions of a cell or row; files can declare any number (9.1.2), to fill a sheet.
_MAX_REPETITIONS = 64
#: The maximum length of a run of spaces in code.
_MAX_SPACES = 1000


class OpenDocumentConverter:
    """The converter of one document; ``title`` is the first paragraph styled as title or level-one heading.
    ``_styles`` has the style elements by name, and ``_notes`` the notes that the text cites, in order.
    """

    def __init__(self, trees: Sequence[Element]) -> None:
        """Read the styles and list styles of a document; ``trees`` are the root elements of its XML files."""
        self.title: str | None = None
        self._styles = {  # by name
            (style.get(f"{STYLE}name") or ""): style for tree in trees for style in tree.iter(f"{STYLE}style")
        }
        self._numbering = OpenDocumentNumbering(trees)
        self._notes: list[Element] = []  # the bodies of the cited notes, in the order of their numbers
        self._heading_shift = 0  # added to the level of each heading

    def build_document_blocks(self, body: Element) -> list[MarkdownBlock]:
        """Return all Markdown blocks of the document, notes last.

        If it has a title, the following headings are moved down by one level (``_heading_shift``).
        """
        # If there is a title, level-one headings are its sections.
        self._heading_shift = int(
            any(self._list_style_names(paragraph)[-1:] == ["Title"] for paragraph in body.iter(f"{TEXT}p"))
        )
        blocks = self.build_blocks(body)
        for number, note in enumerate(self._notes, 1):  # the list grows, because a note can cite another
            text = render_one_line(self.build_blocks(note))
            blocks.append(make_paragraph(f"[{number}] {text}"))
        return blocks

    def build_blocks(self, elements: Iterable[Element], plain: bool = False) -> list[MarkdownBlock]:
        """Return the blocks of elements; ``plain`` text has no emphasis. The notes that they cite go to ``_notes``."""
        builder = BlockBuilder()
        self._add_elements(elements, builder, plain)
        return builder.finish_blocks()

    def _add_elements(self, elements: Iterable[Element], builder: BlockBuilder, plain: bool) -> None:
        """Add the blocks of elements to ``builder``; ``plain`` text has no emphasis."""
        for element in elements:
            if element.tag in _IGNORED_TAGS:
                continue
            if element.tag in (f"{TEXT}p", f"{TEXT}h"):
                self._add_paragraph(element, builder, plain)
            elif element.tag == f"{TEXT}list":
                self._add_list(element, builder, depth=0, style=None)
            elif element.tag == f"{TABLE}table":
                builder.add_blocks(*self._build_table(element))
            else:  # sections, frames and groups, whose content is added
                self._add_elements(element, builder, plain)

    def _add_paragraph(self, element: Element, builder: BlockBuilder, plain: bool) -> None:
        """Add a paragraph or heading to ``builder`` as the block that its style names, then the text boxes in it.

        Headings and ``plain`` paragraphs have no emphasis. The first title or level-one heading becomes ``title``.
        """
        style_names = self._list_style_names(element)
        is_title = "Title" in style_names
        if element.tag == f"{TEXT}p" and not is_title and any(map(_CODE_STYLE_PATTERN.match, style_names)):
            builder.add_code("".join(_iter_verbatim(element)))
            return
        boxes: list[Element] = []
        is_heading = element.tag == f"{TEXT}h" or is_title
        inline = InlineBuilder(plain=plain or is_heading)
        self._add_inline(element, inline, boxes)
        texts = inline.take_paragraphs()
        if texts and is_heading:
            level = 0 if is_title else parse_list_number(element.get(f"{TEXT}outline-level"), 1)
            title = " ".join(" ".join(texts).split())
            if level <= 1 and self.title is None:
                self.title = remove_struck_text(title) or title
            label = "" if is_title else self._numbering.number_heading(element, level)
            builder.add_blocks(make_heading(level + self._heading_shift, label_line(label, title)))
        elif texts:
            paragraphs = [make_paragraph(text) for text in texts]
            is_quote = any(map(_QUOTE_STYLE_PATTERN.match, style_names))
            builder.add_blocks(*([make_quote(paragraphs)] if is_quote else paragraphs))
        for box in boxes:
            builder.add_blocks(*self.build_blocks(box))

    def _list_style_names(self, element: Element) -> list[str]:
        """Return the names of the style of a paragraph or span and of its parent styles, nearest first.

        The last one can be undefined. See OpenDocument 1.3, 16.2.
        """
        name = element.get(f"{TEXT}style-name")
        names: list[str] = []
        while name in self._styles and name not in names:
            assert name is not None
            names.append(name)
            name = self._styles[name].get(f"{STYLE}parent-style-name")
        return [*names, name] if name and name not in names else names

    def _add_inline(self, element: Element, inline: InlineBuilder, boxes: list[Element]) -> None:
        """Add the text of an element to the paragraph ``inline``, and the frames (text boxes) in it to ``boxes``.

        The notes in it are added to ``_notes``; their numbers become text.
        """
        starts_strike = self._is_struck(element) and inline.start_strike()
        inline.add_text(element.text or "")
        for part in element:
            is_span = part.tag == f"{TEXT}span"
            if part.tag in _IGNORED_TAGS:
                pass
            elif part.tag == f"{TEXT}s" or part.tag == f"{TEXT}tab":
                inline.add_text(" ")
            elif part.tag == f"{TEXT}line-break":
                inline.break_line()
            elif part.tag == f"{TEXT}note":
                body = part.find(f"{TEXT}note-body")
                if body is not None:
                    self._notes.append(body)
                    inline.add_text(f"[{len(self._notes)}]")
            elif part.tag.startswith(DRAW):
                boxes.append(part)
            elif is_span and self._is_code(part):
                inline.add_code("".join(_iter_verbatim(part)))
            elif is_span and not len(part) and self._is_superscript(part) and inline.add_exponent(part.text or ""):
                pass
            else:
                emphasis_start = inline.start_emphasis() if is_span and self._is_emphasized(part) else None
                self._add_inline(part, inline, boxes)
                inline.end_emphasis(emphasis_start)
                if part.tag == f"{TEXT}a":
                    address = find_contact_address(part.get(_LINK_TARGET_ATTRIBUTE, ""), "".join(part.itertext()))
                    inline.add_text(f" ({address})" if address else "")
            inline.add_text(part.tail or "")
        if starts_strike:
            inline.end_strike()

    def _is_code(self, span: Element) -> bool:
        """True if the name of the style of a span, or of one of its parent styles, says that it is for code."""
        return any(map(_CODE_STYLE_PATTERN.match, self._list_style_names(span)))

    def _is_emphasized(self, span: Element) -> bool:
        """True if the style of a span, or one of its parent styles, is bold, italic or named emphasis."""
        return any(name.endswith("Emphasis") for name in self._list_style_names(span)) or any(
            properties.get(f"{_FORMATTING_NAMESPACE}font-weight") == "bold"
            or properties.get(f"{_FORMATTING_NAMESPACE}font-style") == "italic"
            for properties in self._iter_text_properties(span)
        )

    def _is_struck(self, element: Element) -> bool:
        """True if the style of a paragraph or span, or its nearest parent style that decides it, strikes text out."""
        lines = (
            properties.get(f"{STYLE}text-line-through-style") for properties in self._iter_text_properties(element)
        )
        return next((line for line in lines if line is not None), "none") != "none"

    def _is_superscript(self, span: Element) -> bool:
        """True if the style of a span raises its text (OpenDocument 1.3, 20.415)."""
        positions = (properties.get(f"{STYLE}text-position") for properties in self._iter_text_properties(span))
        position = next(filter(None, positions), "")
        return position.startswith("super") or bool(_RAISED_PATTERN.match(position))

    def _iter_text_properties(self, element: Element) -> Iterator[Element]:
        """Yield the text properties of the style of a paragraph or span, then of its parent styles."""
        for name in self._list_style_names(element):
            properties = self._styles[name].find(f"{STYLE}text-properties") if name in self._styles else None
            if properties is not None:
                yield properties

    def _add_list(self, element: Element, builder: BlockBuilder, depth: int, style: str | None) -> None:
        """Add the items of a list and of its inner lists to ``builder``; ``depth`` is 0 for the outermost list.

        ``style`` is the style of the list around it, which applies if the list has no style.
        """
        style = element.get(f"{TEXT}style-name") or style or ""
        self._numbering.begin_list(element, style, depth + 1)
        for item in element:
            if item.tag not in (f"{TEXT}list-item", f"{TEXT}list-header"):
                continue
            label = self._numbering.number_item(item, style, depth + 1) if item.tag == f"{TEXT}list-item" else ""
            is_first = True  # until the first block of the item is added
            for child in item:
                if child.tag == f"{TEXT}list":
                    self._add_list(child, builder, depth + 1, style)
                    continue
                blocks = self.build_blocks([child])
                if not blocks:
                    continue
                if any(block.kind == "heading" for block in blocks):  # a numbered heading is a list item in some files
                    builder.add_blocks(*([_label_heading(blocks[0], label), *blocks[1:]] if is_first else blocks))
                elif is_first:
                    builder.add_item(depth, label or "-", blocks)
                else:
                    builder.extend_item(blocks)
                is_first = False

    def _build_table(self, table: Element) -> list[MarkdownBlock]:
        """Return the blocks of a table, none for a table without text.

        A table of one cell becomes the blocks of that cell. Rows of one merged cell above the header become paragraphs
        before the table. Rows and cells with a number of repetitions are repeated, up to ``_MAX_REPETITIONS`` times.
        The text of merged cells is repeated in each of their rows.
        """
        rows: list[list[str]] = []
        spanning_cells: dict[int, tuple[int, str]] = {}  # by column: the index of the last row, and the text
        table_rows = list(iter_rows(table))
        if len(table_rows) == 1 and len(list(iter_cells(table_rows[0]))) == 1:  # a box around text
            return self.build_blocks(next(iter_cells(table_rows[0])))
        num_titles = count_title_rows(not _is_merged(row) for row in table_rows)
        for index, row in enumerate(table_rows):
            texts: list[str] = []
            is_plain = len(rows) <= num_titles  # titles and the header
            for cell in iter_cells(row):
                text = render_one_line(self.build_blocks(cell, plain=is_plain))
                repetition = get_repetition(cell, "columns")
                if not text and repetition > _MAX_REPETITIONS:  # an empty cell that fills the rest of a sheet
                    repetition = 1
                for column in range(len(texts), len(texts) + min(repetition, _MAX_REPETITIONS)):
                    last_index, text_above = spanning_cells.get(column, (-1, ""))
                    texts.append(text or (text_above if index <= last_index else ""))
                if get_span(cell, "rows") > 1 and len(text) <= MAX_REPEATED_CHARACTERS:
                    spanning_cells[len(texts) - 1] = index + get_span(cell, "rows") - 1, text
            while texts and not texts[-1]:
                texts.pop()
            if index < num_titles:
                rows.append(texts)
            elif texts:
                rows += [texts] * min(get_repetition(row, "rows"), _MAX_REPETITIONS)
        return make_titled_table(rows, num_titles)


def _is_merged(row: Element) -> bool:
    """True if one cell spans all columns of a table row (OpenDocument 1.3, 9.1.4)."""
    cells = list(iter_cells(row))
    span = cells[0].get(f"{TABLE}number-columns-spanned", "1") if cells else "1"
    return span == str(sum(get_repetition(cell, "columns") for cell in cells))


def _iter_verbatim(element: Element) -> Iterator[str]:
    """Yield the pieces of the text of a line of code, including repeated spaces (OpenDocument 1.3, 6.1.3)."""
    yield element.text or ""
    for part in element:
        if part.tag == f"{TEXT}s":
            yield " " * min(_MAX_SPACES, parse_list_number(part.get(f"{TEXT}c"), 1))
        elif part.tag == f"{TEXT}tab":
            yield "\t"
        elif part.tag == f"{TEXT}line-break":
            yield "\n"
        elif part.tag not in _IGNORED_TAGS:
            yield from _iter_verbatim(part)
        yield part.tail or ""


def _label_heading(heading: MarkdownBlock, label: str) -> MarkdownBlock:
    """Return a heading, which is an item of a list, with the label of the item, unless it begins with that already."""
    marks, _, title = heading.text.partition(" ")
    return MarkdownBlock(heading.kind, f"{marks} {label_line(label, title)}")
