"""PPTX: a presentation becomes Markdown, with one section for each slide.
A *shape* is a text, table, chart, diagram or group on a slide. A *placeholder* is a shape that the layout defines, such
as the title or the footer.

In: a ``.pptx`` file, a slide show, a template, or a file with macros (``.pptm``), which are ignored. Out: one document
of format ``markdown``. A slide becomes a heading (its title or number), its texts, lists, tables, charts and diagrams
in the order of their shapes, and the speaker's notes after the word ``Notes:``. Dates, footers, slide numbers and
hidden slides (unless all are hidden) are dropped and reported in ``left_out``; the ``navigation=keep`` option keeps
them. The title is the one in the file's properties, else the first slide title. A file that is not PPTX, is locked with
a password or has no text is a ReaderError, and so is a missing python-pptx.

Source: ECMA-376 part 1, 19.3 (slides), 21.1.2 (text) and 21.4 (diagrams); part 3, 9.3 (alternatives).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, TypeVar
from xml.etree.ElementTree import Element

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .list_nesting import BlockBuilder
from .markdown_blocks import (
    MAX_REPEATED_CHARACTERS,
    InlineBuilder,
    MarkdownBlock,
    is_exponent,
    join_blocks,
    make_heading,
    make_paragraph,
    make_table,
)
from .office_math import format_formula
from .packages import Package, open_main_part
from .raw_document import (
    MAX_EXCERPT_CHARACTERS,
    NavigationPart,
    Origin,
    RawDocument,
    ReadOptions,
    clean_property_title,
)
from .titled_tables import join_header_rows
from .xml_tree import parse_xml

_Slide = TypeVar("_Slide")
#: The maximum depth of nested groups of shapes, and of nested points of a diagram.
_MAX_DEPTH = 20
_DRAWING_NAMESPACE = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_DIAGRAM_NAMESPACE = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_COMPATIBILITY_NAMESPACE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_FORMULA_TAG = "{http://schemas.microsoft.com/office/drawing/2010/main}m"
#: The ``baseline`` of superscript text, in thousandths of a percent, or in percent.
_RAISED_PATTERN = re.compile(r"0*[1-9]")
_DIAGRAM_RELATION_SUFFIX = "/diagramData"
#: Other content types of the main part (MS-OFFMACRO2, 2.2).
_MAIN_PART_TYPES = (
    "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
    "application/vnd.ms-powerpoint.template.macroEnabled.main+xml",
)
#: Placeholders with the same text on every slide (19.7.10).
_RUNNING_PLACEHOLDERS = {"dt": "date", "ftr": "footer", "sldNum": "slide number"}


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert a presentation (PPTX) to Markdown, and yield it as one document.

    Hidden slides, and the footers, dates and numbers of slides, are omitted, unless the ``navigation`` option is
    ``keep``. Raises ReaderError if the file is not PPTX, is locked or has no text, or if python-pptx is not installed.
    """
    import_extra("pptx", "documents", f"{origin.name}: reading PPTX", error=ReaderError)
    from pptx.opc.package import PartFactory
    from pptx.package import Package as PresentationPackage
    from pptx.parts.presentation import PresentationPart

    package = Package(stream, origin.name, "PPTX")
    stream.seek(0)
    with package.convert_errors():
        part = open_main_part(stream, PresentationPackage, PartFactory, PresentationPart, _MAIN_PART_TYPES)
        presentation = part.presentation
        property_title = clean_property_title(presentation.core_properties.title)
        left_out: list[NavigationPart] | None = None if options.navigation == "keep" else []
        all_slides = list(presentation.slides)
        are_hidden = [slide.element.get("show") in ("0", "false") for slide in all_slides]  # ECMA-376, 19.3.1.38
        slides = build_slides(all_slides, are_hidden, _build_slide, left_out)
    yield make_presentation(origin, property_title, slides, left_out)


def make_presentation(
    origin: Origin,
    title: str,
    slides: Sequence[tuple[str, list[MarkdownBlock]]],
    left_out: Sequence[NavigationPart] | None,
) -> RawDocument:
    """Return the document of a presentation; without a ``title``, its title is the first title of a slide.

    Each slide is its title, empty if it has none, and its blocks, of which the first is a heading. ``left_out`` has the
    parts that were omitted. Raises ReaderError if no slide has text.
    """
    if not any(len(blocks) > 1 or slide_title for slide_title, blocks in slides):
        raise ReaderError(f"{origin.name}: has no text (slides of pictures?); there is nothing to store")
    return RawDocument(
        origin.key,
        title=title or next((slide_title for slide_title, _ in slides if slide_title), None),
        text=join_blocks([block for _, blocks in slides for block in blocks]) + "\n",
        meta={"slides": len(slides)},
        format="markdown",
        left_out=tuple(left_out or ()),
    )


def build_slides(
    slides: Sequence[_Slide],
    are_hidden: Sequence[bool],
    build_slide: Callable[[_Slide, int, list[NavigationPart] | None], tuple[str, list[MarkdownBlock]]],
    left_out: list[NavigationPart] | None,
) -> list[tuple[str, list[MarkdownBlock]]]:
    """Return the title and the blocks of each slide that is shown, and add the hidden slides to ``left_out``.

    If ``left_out`` is None, or if all slides are hidden, hidden slides are returned too. ``build_slide`` gets a slide,
    its number, and the list to which it adds omitted parts (None: it omits none).
    """
    contents = []
    for number, (slide, is_hidden) in enumerate(zip(slides, are_hidden, strict=True), 1):
        if left_out is None or not is_hidden or all(are_hidden):
            contents.append(build_slide(slide, number, left_out))
            continue
        _, blocks = build_slide(slide, number, None)
        text = " ".join(join_blocks(blocks).removeprefix("## ").split())
        left_out.append(NavigationPart(f"slide {number}", "hidden slide", len(text), text[:MAX_EXCERPT_CHARACTERS]))
    return contents


def _build_slide(slide: Any, number: int, left_out: list[NavigationPart] | None) -> tuple[str, list[MarkdownBlock]]:
    """Return the title of a slide, empty if it has none, and its blocks, which begin with a heading.

    The speaker notes come last. The date, footer and number of the slide are added to ``left_out`` instead
    (None: they become blocks too). ``number`` is the number of the slide, from 1.
    """
    _resolve_alternatives(slide.shapes.element)
    title_shape = slide.shapes.title
    title = _get_text_line(title_shape) if title_shape is not None and title_shape.has_text_frame else ""
    blocks = [make_heading(2, title or f"Slide {number}")]
    for other_shape in slide.shapes:
        if title_shape is not None and other_shape.shape_id == title_shape.shape_id:
            continue
        placeholder = other_shape.element.ph if other_shape.is_placeholder else None
        running_kind = (
            None if placeholder is None or left_out is None else _RUNNING_PLACEHOLDERS.get(placeholder.get("type", ""))
        )
        if running_kind is None or left_out is None:
            blocks += _build_shape_blocks(other_shape, depth=0)
            continue
        text = _get_text_line(other_shape)
        if text:
            left_out.append(NavigationPart(f"slide {number}", running_kind, len(text), text[:MAX_EXCERPT_CHARACTERS]))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        paragraphs = [" ".join(paragraph.text.split()) for paragraph in slide.notes_slide.notes_text_frame.paragraphs]
        notes = list(filter(None, paragraphs))
        blocks += [make_paragraph(text if index else f"Notes: {text}") for index, text in enumerate(notes)]
    return title, blocks


def _resolve_alternatives(shapes: Any) -> None:
    """Replace each group of alternatives in the ``shapes`` element with the first that has text, else with the last.

    For example, the alternatives of a text with a formula are the text and a picture of it.
    """
    for alternatives in list(shapes.iter(f"{_COMPATIBILITY_NAMESPACE}AlternateContent")):
        parent = alternatives.getparent()
        choices = [
            choice
            for choice in alternatives
            if choice.tag in (f"{_COMPATIBILITY_NAMESPACE}Choice", f"{_COMPATIBILITY_NAMESPACE}Fallback")
        ]
        if parent is None or not choices:
            continue
        best_choice = next((choice for choice in choices if any(map(str.strip, choice.itertext()))), choices[-1])
        index = parent.index(alternatives)
        parent[index : index + 1] = list(best_choice)


def _build_shape_blocks(shape: Any, depth: int) -> list[MarkdownBlock]:
    """Return the blocks of a shape: a group, a table, a chart, a text or a diagram.

    ``depth`` is the number of groups around it; a group that is nested too deeply has no blocks.
    """
    if hasattr(shape, "shapes"):  # a group
        inner_shapes = shape.shapes if depth < _MAX_DEPTH else ()
        return [block for inner_shape in inner_shapes for block in _build_shape_blocks(inner_shape, depth + 1)]
    if getattr(shape, "has_table", False):
        return _build_table_blocks(shape.table)
    if getattr(shape, "has_chart", False):
        return _build_chart_blocks(shape.chart)
    if shape.has_text_frame:
        return _build_text_blocks(shape)
    return _build_diagram_blocks(shape)


def _build_table_blocks(table: Any) -> list[MarkdownBlock]:
    """Return a table as a block, or none for a table without text.

    The text of vertically merged cells is repeated in each of their rows, unless it is too long.
    """
    rows: list[list[str]] = []
    for row in table.rows:
        texts = [" ".join(cell.text.split()) for cell in row.cells]
        for column, cell in enumerate(row.cells):
            if cell._tc.vMerge and not cell._tc.hMerge and rows and column < len(rows[-1]):  # merged upward
                text = rows[-1][column]
                texts[column] = text if len(text) <= MAX_REPEATED_CHARACTERS else ""
        rows.append(texts)
    joined_rows = join_header_rows(rows)
    return [make_table(joined_rows[0], joined_rows[1:])] if any(map(any, rows)) else []


def _get_text_line(shape: Any) -> str:
    """Return the text of a shape of a slide on one line."""
    texts = [_get_paragraph_text(paragraph._p) for paragraph in shape.text_frame.paragraphs]
    return " ".join(" ".join(texts).split())


def _get_paragraph_text(paragraph: Any) -> str:
    """Return the text of a paragraph, given its XML element, including its formulas."""
    text = ""
    for part in paragraph:
        if part.tag in (f"{_DRAWING_NAMESPACE}r", f"{_DRAWING_NAMESPACE}fld"):
            run_text = "".join(text_element.text or "" for text_element in part.iter(f"{_DRAWING_NAMESPACE}t"))
            properties = part.find(f"{_DRAWING_NAMESPACE}rPr")
            is_raised = properties is not None and _RAISED_PATTERN.match(properties.get("baseline") or "")
            text += f"^{run_text}" if is_raised and is_exponent(run_text, text[-1:]) else run_text
        elif part.tag == f"{_DRAWING_NAMESPACE}br":
            text += "\n"
        elif part.tag == _FORMULA_TAG:
            text += format_formula(part)
    return text.replace("\v", "\n")


def _build_text_blocks(shape: Any) -> list[MarkdownBlock]:
    """Return the text of a shape as blocks: paragraphs, and nested lists.

    A paragraph becomes a list item if it has a bullet or is below the first level. In a placeholder with several
    paragraphs, all become items. A paragraph whose bullet is switched off does not.
    """
    builder = BlockBuilder()  # combines consecutive items into lists
    paragraphs = [(paragraph, _get_paragraph_text(paragraph._p)) for paragraph in shape.text_frame.paragraphs]
    nonblank_paragraphs = [(paragraph, text) for paragraph, text in paragraphs if text.strip()]
    is_list = shape.is_placeholder and (
        len(nonblank_paragraphs) > 1 or any(paragraph.level for paragraph, _ in nonblank_paragraphs)
    )
    item_numbers: dict[int, int] = {}  # the number of the last item of each open level, 0 after a bullet
    for paragraph, text in nonblank_paragraphs:
        inline = InlineBuilder()
        for line in text.split("\n"):
            inline.add_text(line)
            inline.break_line()
        texts = inline.take_paragraphs()
        if not texts:
            continue
        bullet_kind = _get_bullet_kind(paragraph._p)
        if bullet_kind != "no" and (bullet_kind or is_list or paragraph.level):
            item_numbers = {
                level: item_number for level, item_number in item_numbers.items() if level <= paragraph.level
            }
            item_numbers[paragraph.level] = item_numbers.get(paragraph.level, 0) + 1 if bullet_kind == "number" else 0
            marker = f"{item_numbers[paragraph.level]}." if bullet_kind == "number" else "-"
            builder.add_item(paragraph.level, marker, [MarkdownBlock("paragraph", "\n".join(texts))])
        else:
            item_numbers = {}
            builder.add_blocks(*map(make_paragraph, texts))
    return builder.finish_blocks()


def _get_bullet_kind(paragraph: Any) -> str:
    """Return the kind of bullet of a paragraph: ``bullet``, ``number`` or ``no``; empty if the layout decides.

    ``paragraph`` is its XML element. See ECMA-376, 21.1.2.4.
    """
    kinds_by_tag = {
        f"{_DRAWING_NAMESPACE}buChar": "bullet",
        f"{_DRAWING_NAMESPACE}buBlip": "bullet",
        f"{_DRAWING_NAMESPACE}buAutoNum": "number",
        f"{_DRAWING_NAMESPACE}buNone": "no",
    }
    properties = paragraph.find(f"{_DRAWING_NAMESPACE}pPr")
    if properties is None:
        return ""
    return next((kinds_by_tag[part.tag] for part in properties if part.tag in kinds_by_tag), "")


def _build_chart_blocks(chart: Any) -> list[MarkdownBlock]:
    """Return the title of a chart as a paragraph, and a table of the numbers of each plot."""
    blocks = []
    if chart.has_title and chart.chart_title.has_text_frame and chart.chart_title.text_frame.text.strip():
        blocks.append(make_paragraph(" ".join(chart.chart_title.text_frame.text.split())))
    for plot in chart.plots:
        series = list(plot.series)
        names = [str(category) for category in plot.categories]
        columns = [data_series.values for data_series in series]
        rows = []
        for index, name in enumerate(names):
            values = [column[index] if index < len(column) else None for column in columns]
            rows.append([name, *("" if value is None else f"{value:.12g}" for value in values)])
        if rows:
            blocks.append(make_table(["", *(data_series.name or "" for data_series in series)], rows))
    return blocks


def _build_diagram_blocks(shape: Any) -> list[MarkdownBlock]:
    """Return the texts of a diagram (SmartArt) as nested lists; empty if the shape is not a diagram.

    The texts are in another part (file) of the PPTX package.
    """
    # The attribute r:dm of an element names the relation to the part with the data of the diagram.
    relation_ids = {
        attribute
        for element in shape.element.iter()
        for name, attribute in element.attrib.items()
        if name.endswith("}dm")
    }
    blocks = []
    for relation_id in sorted(relation_ids):
        relation = shape.part.rels.get(relation_id)
        if relation is not None and relation.reltype.endswith(_DIAGRAM_RELATION_SUFFIX):
            blocks += _build_point_blocks(parse_xml(relation.target_part.blob))
    return blocks


def _build_point_blocks(data_model: Element) -> list[MarkdownBlock]:
    """Return nested lists of the points of a diagram, which are its nodes with text (ECMA-376, 21.4.3).

    ``data_model`` is the root element of the data of the diagram. Each point is below its parent; points without a
    parent come last.
    """
    points = list(data_model.iter(f"{_DIAGRAM_NAMESPACE}pt"))
    texts = {point.get("modelId", ""): _get_point_text(point) for point in points}  # by the id of the point
    roots = [point.get("modelId", "") for point in points if point.get("type") == "doc"]  # usually without text
    inner_points: dict[str, list[tuple[int, str]]] = {}  # by the id of the parent: (order, id)
    for connection in data_model.iter(f"{_DIAGRAM_NAMESPACE}cxn"):
        if connection.get("type", "parOf") == "parOf":  # its source is the parent of its destination
            order = connection.get("srcOrd", "0")
            ordered_point = (int(order) if order.isdecimal() else 0, connection.get("destId", ""))
            inner_points.setdefault(connection.get("srcId", ""), []).append(ordered_point)
    builder = BlockBuilder()
    seen_points: set[str] = set()
    # The last point of the stack is read first: the roots, then all points that have no parent.
    stack = [(identifier, 0) for identifier in [*reversed(texts), *reversed(roots)]]
    while stack:
        identifier, depth = stack.pop()
        if identifier in seen_points:
            continue
        seen_points.add(identifier)
        text = texts.get(identifier, "")
        if text:
            builder.add_item(depth, "-", [MarkdownBlock("paragraph", text)])
        inner_depth = min(_MAX_DEPTH, depth + 1) if text else depth
        ordered_points = sorted(inner_points.get(identifier, ()), key=lambda point: point[0])
        stack += [(inner_point, inner_depth) for _, inner_point in reversed(ordered_points)]
    return builder.finish_blocks()


def _get_point_text(point: Element) -> str:
    """Return the text of a point of a diagram, with a line for each paragraph that is not blank."""
    paragraphs = (
        "".join(part.text or "" for part in paragraph.iter(f"{_DRAWING_NAMESPACE}t"))
        for paragraph in point.iter(f"{_DRAWING_NAMESPACE}p")
    )
    return "\n".join(filter(None, (" ".join(text.split()) for text in paragraphs)))
