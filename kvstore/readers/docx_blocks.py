"""Conversion of the body of a Word document to Markdown blocks.
A *run* is a stretch of text with the same formatting in a paragraph. Elements are XML elements: ``w:p`` is a
paragraph, ``w:pPr`` its properties, ``w:r`` a run.

In: a document that python-docx has opened. Out: blocks in body order. The XML is walked directly, because python-docx
ignores content controls, inserted revisions, text boxes and footnotes. Section and table numbers below (``17.3.1``)
refer to ECMA-376 part 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from docx.oxml.ns import nsmap, qn

from ..text.blocks import remove_struck_text
from .docx_numbering import MAX_LEVEL, ListNumbering, get_value
from .docx_runs import (
    BREAK_TAG,
    FALLBACK_TAG,
    HYPHEN_TAG,
    PARAGRAPH_TAG,
    RETURN_TAG,
    RUN_TAG,
    TAB_TAG,
    TEXT_TAG,
    VALUE_ATTRIBUTE,
    add_link_addresses,
    get_verbatim,
    is_on,
    iter_unwrapped,
    parse_part,
    read_properties,
)
from .list_nesting import BlockBuilder, label_line
from .list_numbers import parse_list_number
from .markdown_blocks import (
    MAX_REPEATED_CHARACTERS,
    EmphasisStart,
    InlineBuilder,
    MarkdownBlock,
    make_heading,
    make_paragraph,
    make_quote,
    render_one_line,
)
from .office_math import MATH_NAMESPACE, format_formula
from .symbol_fonts import decode_symbol
from .titled_tables import count_title_rows, make_titled_table

_HEADING_STYLE_PATTERN = re.compile(r"heading ([1-9])$")  # heading 1
_LIST_STYLE_PATTERN = re.compile(r"list (?P<kind>bullet|number)(?: (?P<level>[2-9]))?$")  # list bullet 2
_CONTENTS_STYLE_PATTERN = re.compile(r"toc (?:\d|heading)$|table of figures$")  # toc 1
#: The name of a style of code: ``source code``, ``html preformatted``.
_CODE_STYLE_PATTERN = re.compile(r"(?:source |html )?(?:code|preformatted|macro|verbatim)(?: text| block| char)?$")
_QUOTE_STYLE_PATTERN = re.compile(r"(?:intense )?quote$|quotations$")  # intense quote
_EMPHASIS_STYLE_PATTERN = re.compile(r"(?:intense |subtle )?emphasis$|strong$")  # subtle emphasis
#: The beginning of the name of a style whose paragraphs are not headings: ``list paragraph``.
_NON_HEADING_STYLE_PATTERN = re.compile(r"list\b|toc\b|caption|quote|.*(?:code|preformatted|verbatim)")
#: The outline levels of headings, from 0; level 9 means body text.
_OUTLINE_LEVELS = frozenset("012345678")
#: The properties of a paragraph mark (the end of a paragraph) that is not shown.
_REMOVALS = ("del", "moveFrom", "vanish")

#: The kinds of notes, by the element that refers to one.
_NOTE_KINDS = {qn(f"w:{kind}Reference"): kind for kind in ("footnote", "endnote")}
_TABLE_TAG, _ROW_TAG, _CELL_TAG, _BOX_TAG = (qn(f"w:{name}") for name in ("tbl", "tr", "tc", "txbxContent"))
_POSITION_TAB_TAG, _SYMBOL_TAG, _RUBY_TAG = (qn(f"w:{name}") for name in ("ptab", "sym", "ruby"))
#: The maximum number of columns of a table (17.4.16).
_MAX_COLUMNS = 63
#: The maximum number of characters of a bold paragraph that serves as a heading.
_MAX_BOLD_HEADING = 80


class DocxBody:
    """The body of one python-docx document; ``title`` is the first paragraph styled as title or level-one heading.
    A *note* is a footnote or an endnote. ``_numbering`` makes the labels of numbered headings and list items.
    """

    def __init__(self, document: Any) -> None:
        """Read the styles, notes and list numberings of a Word document, which python-docx has opened."""
        self.title: str | None = None  # the text of the first title or level-one heading; set by build_blocks
        self._body = document.element.body
        relations = {relation.reltype.rsplit("/", 1)[-1]: relation for relation in document.part.rels.values()}
        # Style elements by id, note elements by kind and id, and the cited notes in the order of their numbers.
        self._styles = {style.get(qn("w:styleId")): style for style in document.styles.element.iter(qn("w:style"))}
        self._style_names = {key: get_value(style, "w:name", "").lower() for key, style in self._styles.items()}
        self._style_properties: dict[tuple[str, str], Any] = {}  # by style id and path; see _find_property
        add_link_addresses(self._body, document.part.rels)
        self._notes = {
            (kind, note_id): note
            for kind in _NOTE_KINDS.values()
            if f"{kind}s" in relations
            for note_id, note in _read_notes(relations[f"{kind}s"].target_part, kind).items()
        }
        self._cited_notes: list[Any] = []
        self._numbering = ListNumbering(
            relations["numbering"].target_part.element if "numbering" in relations else None
        )
        self._bold_headings = self._find_bold_headings()
        # If there is a title, level-one headings are its sections.
        self._heading_shift = int(
            any(self._get_paragraph_style(element) == "title" for element in self._body.iter(PARAGRAPH_TAG))
        )

    def _find_bold_headings(self) -> dict[Any, int]:
        """Return the heading level of each bold paragraph that serves as a heading, by element.

        Such a paragraph is a short line without punctuation at its end, and text that is not bold follows. The level is
        1 at the beginning of the body, and 2 elsewhere. The result is empty if any paragraph has a heading style.
        """
        paragraphs = [
            element for element in self._body if element.tag == PARAGRAPH_TAG and get_verbatim(element).strip()
        ]
        if any(
            self._get_heading_level(element, self._get_paragraph_style(element)) is not None
            for element in self._body.iter(PARAGRAPH_TAG)
        ):
            return {}
        lines = [
            "" if _NON_HEADING_STYLE_PATTERN.match(self._get_paragraph_style(element)) else _get_bold_line(element)
            for element in paragraphs
        ]
        return {
            element: 1 if element is paragraphs[0] else 2
            # The last paragraph precedes no text, so it is not a heading.
            for element, line, next_line in zip(paragraphs, lines, lines[1:], strict=False)
            if line and not next_line
        }

    def build_blocks(self) -> list[MarkdownBlock]:
        """Return the blocks of the document, footnotes and endnotes last, and set ``title``."""
        blocks = self._build_container_blocks(self._body)
        for number, note in enumerate(self._cited_notes, 1):  # the list grows, as a note can cite another
            text = render_one_line(self._build_container_blocks(note))
            blocks.append(make_paragraph(f"[{number}] {text}"))
        return blocks

    def _build_container_blocks(self, container: Any, plain: bool = False) -> list[MarkdownBlock]:
        """Return the blocks of ``container``: the body, a table cell, a text box or a note.

        The text has no emphasis if ``plain``.
        """
        builder = BlockBuilder()
        for element in iter_unwrapped(container):
            if element.tag == _TABLE_TAG:
                builder.add_blocks(*self._build_table(element))
            elif element.tag == PARAGRAPH_TAG:
                self._add_paragraph(element, plain, builder)
                # Boxes in boxes, and fallbacks, which repeat boxes for older programs, are dropped.
                for box in element.iter(_BOX_TAG):
                    if not any(ancestor.tag in (_BOX_TAG, FALLBACK_TAG) for ancestor in box.iterancestors()):
                        builder.add_blocks(*self._build_container_blocks(box))
        return builder.finish_blocks()

    def _add_paragraph(self, element: Any, plain: bool, builder: BlockBuilder) -> None:
        """Add a paragraph to ``builder`` as the block that its style or format shows, such as a heading or code.

        Headings and ``plain`` paragraphs have no emphasis. The lines of a table of contents are skipped. The first
        heading of level 1 (or 0, the style "Title") becomes ``self.title``.
        """
        style = self._get_paragraph_style(element)
        if _CONTENTS_STYLE_PATTERN.match(style):
            return
        if _CODE_STYLE_PATTERN.match(style):
            builder.add_code(get_verbatim(element))
            return
        level = self._get_heading_level(element, style)
        if level is None:
            level = self._bold_headings.get(element)
        texts = self._build_inline(element, plain=plain or level is not None).take_paragraphs()
        if not texts and _is_removed(element):
            return
        depth_and_label = self._number_paragraph(element, style)  # counts paragraphs without text, as Word does
        if not texts:
            return
        if level is not None:
            title = " ".join(" ".join(texts).split())
            if level <= 1 and self.title is None:
                self.title = remove_struck_text(title) or title
            label = depth_and_label[1] if depth_and_label is not None else ""
            builder.add_blocks(make_heading(level + self._heading_shift, label_line(label, title)))
            return
        paragraphs = [make_paragraph(text) for text in texts]
        if depth_and_label is not None:
            depth, label = depth_and_label
            item_text = "\n".join(block.text for block in paragraphs)
            builder.add_item(depth, label or "-", [MarkdownBlock("paragraph", item_text)])
        elif _QUOTE_STYLE_PATTERN.match(style):
            builder.add_blocks(make_quote(paragraphs))
        else:
            builder.add_blocks(*paragraphs)

    def _find_property(self, element: Any, path: str) -> Any:
        """Return the element at ``path``, such as ``w:pPr/w:numPr``, that applies to a paragraph, or None.

        It is the element in the paragraph, else the element in its style or in the nearest base style (ECMA-376,
        17.7.2).
        """
        value = element.find(path, nsmap)
        if value is not None:
            return value
        style_id = get_value(element, "w:pPr/w:pStyle", "")
        if (style_id, path) not in self._style_properties:
            self._style_properties[style_id, path] = self._find_style_property(style_id, path)
        return self._style_properties[style_id, path]

    def _find_style_property(self, style_id: str, path: str) -> Any:
        """Return the element at ``path`` in a style or in its nearest base style, or None."""
        for _ in range(len(self._styles)):  # a limit, because base styles can form a cycle
            if style_id not in self._styles:
                return None
            value = self._styles[style_id].find(path, nsmap)
            if value is not None:
                return value
            style_id = get_value(self._styles[style_id], "w:basedOn", "")
        return None

    def _get_paragraph_style(self, paragraph: Any) -> str:
        """Return the name of the style of a paragraph in lowercase; empty if it has no style."""
        return self._get_style_name(get_value(paragraph, "w:pPr/w:pStyle", ""))

    def _get_style_name(self, style_id: str) -> str:
        """Return the name of a style in lowercase; empty for an unknown style."""
        return self._style_names.get(style_id, "")

    def _get_heading_level(self, element: Any, style: str) -> int | None:
        """Return the heading level of a paragraph: 0 for the title, 1 to 9 for headings, None for other paragraphs.

        The name of its style or, for other styles, its outline level determines the level.
        """
        if style == "title":
            return 0
        style_match = _HEADING_STYLE_PATTERN.match(style)
        if style_match is not None:
            return int(style_match[1])
        outline = self._find_property(element, "w:pPr/w:outlineLvl")
        level = None if outline is None else outline.get(VALUE_ATTRIBUTE)
        return int(level) + 1 if level in _OUTLINE_LEVELS else None

    def _number_paragraph(self, element: Any, style: str) -> tuple[int, str] | None:
        """Return the depth in a list (from 0) and the label of a numbered paragraph; None for other paragraphs.

        The label, such as ``4.2``, is empty for a bullet. The numbering counts the paragraph. ``style`` is the name of
        its style.
        """
        style_match = _LIST_STYLE_PATTERN.match(style)
        list_element = self._find_property(element, "w:pPr/w:numPr/w:numId")
        level_element = self._find_property(element, "w:pPr/w:numPr/w:ilvl")
        list_id = "0" if list_element is None else list_element.get(VALUE_ATTRIBUTE, "0")
        if list_id == "0":  # in no list, unless the style is a list
            if style_match is None:
                return None
            list_id = style
        if level_element is not None:
            level = min(MAX_LEVEL, parse_list_number(level_element.get(VALUE_ATTRIBUTE), 0))
        else:
            level = self._numbering.find_level(list_id, get_value(element, "w:pPr/w:pStyle", ""))
        default_format = "decimal" if style_match is not None and style_match["kind"] == "number" else "bullet"
        label = self._numbering.number_paragraph(list_id, level, default_format)
        # The style can be deeper than the numbering: items of the style "List Bullet 2" are on the second level.
        return max(level, int(style_match["level"] or 1) - 1) if style_match is not None else level, label

    def _build_inline(self, element: Any, plain: bool) -> InlineBuilder:
        """Return a builder with the text, code, formulas and note marks of a paragraph, and its emphasis.

        Emphasis is dropped if ``plain``. Hidden runs are dropped, and struck-out runs are marked. Struck-out text
        encloses emphasis, so emphasis ends, and begins again, where struck-out text begins or ends.
        """
        inline = InlineBuilder(plain=plain)
        emphasis_start: EmphasisStart | None = None
        is_emphasized = is_struck = False
        for run in iter_unwrapped(element):
            if run.tag.startswith(MATH_NAMESPACE):
                inline.add_text(format_formula(run))
                continue
            if run.tag != RUN_TAG:
                continue
            properties = read_properties(run)
            if is_on(properties, "vanish"):
                continue
            style = self._get_style_name(properties.get("rStyle", ""))
            was_emphasized, was_struck = is_emphasized, is_struck
            has_emphasis_style = _EMPHASIS_STYLE_PATTERN.match(style) is not None
            is_emphasized = has_emphasis_style or is_on(properties, "b") or is_on(properties, "i")
            is_struck = is_on(properties, "strike") or is_on(properties, "dstrike")
            changes_strike = is_struck != was_struck
            if was_emphasized and (changes_strike or not is_emphasized):
                inline.end_emphasis(emphasis_start)
            if changes_strike and is_struck:
                inline.start_strike()
            elif changes_strike:
                inline.end_strike()
            if is_emphasized and (changes_strike or not was_emphasized):
                emphasis_start = inline.start_emphasis()
            if _CODE_STYLE_PATTERN.match(style):
                inline.add_code(get_verbatim(run))
                continue
            self._add_run(run, inline, is_superscript=properties.get("vertAlign") == "superscript")
        if is_emphasized:
            inline.end_emphasis(emphasis_start)
        if is_struck:
            inline.end_strike()
        return inline

    def _add_run(self, run: Any, inline: InlineBuilder, *, is_superscript: bool) -> None:
        """Add a run to ``inline``: its text, symbols, tabs, breaks and note numbers.

        A reference to a note becomes its number (``[2]``), and the note is added to ``_cited_notes``.
        """
        for child in run:
            if child.tag == TEXT_TAG:
                text = child.text or ""
                if not (is_superscript and inline.add_exponent(text)):
                    inline.add_text(text)
            elif child.tag == _SYMBOL_TAG:
                inline.add_text(decode_symbol(child.get(qn("w:font")) or "", child.get(qn("w:char")) or ""))
            elif child.tag == _RUBY_TAG:  # text with its pronunciation above, which is dropped
                for base_run in child.iterfind("w:rubyBase/w:r", nsmap):
                    self._add_run(base_run, inline, is_superscript=is_superscript)
            elif child.tag in (TAB_TAG, _POSITION_TAB_TAG):
                inline.add_text(" ")
            elif child.tag in (BREAK_TAG, RETURN_TAG):
                inline.break_line()
            elif child.tag == HYPHEN_TAG:
                inline.add_text("-")
            elif (note := (_NOTE_KINDS.get(child.tag), child.get(qn("w:id")))) in self._notes:
                self._cited_notes.append(self._notes[note])
                inline.add_text(f"[{len(self._cited_notes)}]")

    def _has_header_style(self, table: Any) -> bool:
        """True if the style of a table makes its first row bold or gives it a background (17.7.6)."""
        look = table.find("w:tblPr/w:tblLook", nsmap)
        if look is None or look.get(qn("w:firstRow")) not in ("1", "true", "on"):
            return False
        style_id = get_value(table, "w:tblPr/w:tblStyle", "")
        first_row = "w:tblStylePr[@w:type='firstRow']"
        return any(
            self._find_style_property(style_id, f"{first_row}/{path}") is not None
            for path in ("w:rPr/w:b", "w:tcPr/w:shd")
        )

    def _build_table(self, table: Any) -> list[MarkdownBlock]:
        """Return the blocks of a table, none for a table without text.

        A table of one cell becomes the blocks of that cell. Rows of one merged cell above the header become paragraphs
        before the table. The text of vertically merged cells is repeated in each of their rows.
        """
        rows = [
            [cell for cell in iter_unwrapped(row) if cell.tag == _CELL_TAG]
            for row in iter_unwrapped(table)
            if row.tag == _ROW_TAG
        ]
        cells = [cell for row in rows for cell in row]
        if len(cells) == 1:  # a box around text
            return self._build_container_blocks(cells[0])
        num_titles = count_title_rows(len(row) > 1 for row in rows)
        is_form = False if self._has_header_style(table) else _is_marked_as_form(table, rows[num_titles:])
        texts: list[list[str]] = []
        for index, row in enumerate(rows):
            row_texts: list[str] = []
            for cell in row:
                if _continues_cell_above(cell):
                    text = texts[-1][len(row_texts)] if texts and len(row_texts) < len(texts[-1]) else ""
                    text = text if len(text) <= MAX_REPEATED_CHARACTERS else ""
                else:  # the texts of titles, of the header, and of the labels of a form have no emphasis
                    is_plain = len(texts) <= num_titles or (bool(is_form) and len(row_texts) % 2 == 0)
                    text = render_one_line(self._build_container_blocks(cell, plain=is_plain))
                num_columns = min(_MAX_COLUMNS, parse_list_number(get_value(cell, "w:tcPr/w:gridSpan", ""), 1))
                row_texts += [text, *[""] * (num_columns - 1)]
            if index < num_titles or any(row_texts):
                texts.append(row_texts)
        return make_titled_table(texts, num_titles, is_form)


def _is_marked_as_form(table: Any, rows: Sequence[Sequence[Any]]) -> bool | None:
    """True if the format of cells shows that ``rows`` of a table are a form: labels, each with its value to its right.

    All labels, and no value in the first row, are bold or have a background. Return False if the first row is a header
    instead, and None if the format shows neither.
    """
    if not rows or table.find("w:tr/w:trPr/w:tblHeader", nsmap) is not None:  # repeated on each page (17.4.49)
        return False
    if all(map(_is_bold_or_shaded, rows[0])):
        return False
    labels = [cell for row in rows for cell in row[::2] if get_verbatim(cell).strip()]
    has_pairs = len(rows) > 1 and all(len(row) == 1 or len(row) % 2 == 0 for row in rows)
    first_values = rows[0][1::2]
    is_form = has_pairs and all(map(_is_bold_or_shaded, labels)) and not any(map(_is_bold_or_shaded, first_values))
    return is_form or None


def _is_bold_or_shaded(cell: Any) -> bool:
    """True if all text of a table cell is bold, or if the cell has a background color (17.4.32)."""
    shading = cell.find("w:tcPr/w:shd", nsmap)
    if shading is not None and (shading.get(qn("w:fill")) or "auto").lower() not in ("auto", "ffffff"):
        return True
    return _are_bold(cell.iter(RUN_TAG))


def _are_bold(runs: Iterable[Any]) -> bool:
    """True if all runs that have text are bold; False if none has text."""
    are_bold = [is_on(read_properties(run), "b") for run in runs if get_verbatim(run).strip()]
    return bool(are_bold) and all(are_bold)


def _continues_cell_above(cell: Any) -> bool:
    """True if a table cell is merged with the cell above it."""
    vertical_merge = cell.find("w:tcPr/w:vMerge", nsmap)
    return vertical_merge is not None and vertical_merge.get(VALUE_ATTRIBUTE, "continue") == "continue"


def _is_removed(paragraph: Any) -> bool:
    """True if a paragraph without text is not shown: its paragraph mark is deleted, hidden, or moved (17.13.5)."""
    properties = paragraph.find("w:pPr/w:rPr", nsmap)
    return properties is not None and any(properties.find(f"w:{name}", nsmap) is not None for name in _REMOVALS)


def _get_bold_line(paragraph: Any) -> str:
    """Return the text of a paragraph that looks like a heading, or "" for any other paragraph.

    Such a paragraph is bold and short, and is neither a list item nor a sentence.
    """
    text = get_verbatim(paragraph).strip()
    is_list_item = paragraph.find("w:pPr/w:numPr", nsmap) is not None
    if is_list_item or not 0 < len(text) <= _MAX_BOLD_HEADING:
        return ""
    if "\n" in text or text[-1] in ".,;:।۔。．，、；：":  # several lines, or a sentence
        return ""
    return text if _are_bold(run for run in iter_unwrapped(paragraph) if run.tag == RUN_TAG) else ""


def _read_notes(part: Any, kind: str) -> dict[str, Any]:
    """Return the elements of footnotes or endnotes by id, without Word's separators.

    ``part`` is the part of the package with all notes of the ``kind``.
    """
    notes = parse_part(part).iter(qn(f"w:{kind}"))
    return {note.get(qn("w:id")): note for note in notes if note.get(qn("w:type")) in (None, "normal")}
