"""PPTX: a presentation becomes Markdown, a section a slide.

In: a ``.pptx`` file. Out: one document of format ``markdown``: a slide is a heading (its title, or its number) with its
texts, lists, tables and charts in the order of their shapes, and the speaker's notes behind the word ``Notes:``. Hidden
slides are read too. The title is that of the file's properties, else that of the first slide. A file that is no PPTX,
is locked with a password or has no text is a ReaderError, and so is the absence of python-pptx.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from ...errors import ReaderError
from ...extras import required
from .list_nesting import Gathered
from .markdown_blocks import Inline, MarkdownBlock, document, heading, paragraph, pipe_table
from .packages import Package
from .raw_document import Origin, RawDocument, ReadOptions

#: Groups of shapes within groups.
_DEEPEST = 20
_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_DIAGRAM = "/diagramData"


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the presentation as one document."""
    pptx = required("pptx", "documents", f"{origin.name}: reading PPTX", error=ReaderError)
    package = Package(stream, origin.name, "PPTX")
    stream.seek(0)
    with package.guarded():
        presentation: Any = pptx.Presentation(stream)
        titled = " ".join((presentation.core_properties.title or "").split())
        slides = [_slide(slide, number) for number, slide in enumerate(presentation.slides, 1)]
    if not any(len(blocks) > 1 or title for title, blocks in slides):
        raise ReaderError(f"{origin.name}: has no text (slides of pictures?); there is nothing to store")
    if titled == "PowerPoint Presentation":  # what programs write where nobody named it
        titled = ""
    title = titled or next((title for title, _ in slides if title), "")
    blocks = [block for _, blocks in slides for block in blocks]
    yield RawDocument(origin.key, title or None, document(blocks) + "\n", {"slides": len(slides)}, "markdown")


def _slide(slide: Any, number: int) -> tuple[str, list[MarkdownBlock]]:
    """The title of a slide, and its blocks."""
    shape = slide.shapes.title
    title = " ".join(shape.text_frame.text.split()) if shape is not None and shape.has_text_frame else ""
    blocks = [heading(2, title or f"Slide {number}")]
    for other in slide.shapes:
        if shape is None or other.shape_id != shape.shape_id:
            blocks += _shape(other, 0)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = [" ".join(each.text.split()) for each in slide.notes_slide.notes_text_frame.paragraphs]
        blocks += [
            paragraph(f"Notes: {text}" if first else text)
            for first, text in zip([True, *[False] * len(notes)], filter(None, notes), strict=False)
        ]
    return title, blocks


def _shape(shape: Any, depth: int) -> list[MarkdownBlock]:
    if hasattr(shape, "shapes"):
        return [block for inner in shape.shapes for block in _shape(inner, depth + 1)] if depth < _DEEPEST else []
    if getattr(shape, "has_table", False):
        rows = [[" ".join(cell.text.split()) for cell in row.cells] for row in shape.table.rows]
        return [pipe_table(rows[0], rows[1:])] if any(map(any, rows)) else []
    if getattr(shape, "has_chart", False):
        return _chart(shape.chart)
    if shape.has_text_frame:
        return _frame(shape)
    return _diagram(shape)


def _frame(shape: Any) -> list[MarkdownBlock]:
    """The paragraphs of a shape; in a placeholder for a list they are its items, by their levels."""
    gathered = Gathered()
    filled = [each for each in shape.text_frame.paragraphs if each.text.strip()]
    listed = shape.is_placeholder and (len(filled) > 1 or any(each.level for each in filled))
    for each in filled:
        inline = Inline()
        inline.text(each.text.replace("\v", "\n"))
        texts = inline.take()
        if not texts:
            continue
        if listed or each.level:
            gathered.add_item(each.level, "-", [MarkdownBlock("paragraph", "\n".join(texts))])
        else:
            gathered.add(*map(paragraph, texts))
    return gathered.finished()


def _chart(chart: Any) -> list[MarkdownBlock]:
    """The title of a chart, and a table of its numbers."""
    blocks = []
    if chart.has_title and chart.chart_title.has_text_frame and chart.chart_title.text_frame.text.strip():
        blocks.append(paragraph(" ".join(chart.chart_title.text_frame.text.split())))
    for plot in chart.plots:
        series = list(plot.series)
        names = [str(category) for category in plot.categories]
        rows = [
            [name, *(_number(each.values[row]) if row < len(each.values) else "" for each in series)]
            for row, name in enumerate(names)
        ]
        if rows:
            blocks.append(pipe_table(["", *(each.name or "" for each in series)], rows))
    return blocks


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"


def _diagram(shape: Any) -> list[MarkdownBlock]:
    """The texts of a diagram (SmartArt), which stand in a part of their own."""
    frame = shape.element
    identifiers = {value for element in frame.iter() for name, value in element.attrib.items() if name.endswith("}dm")}
    blocks = []
    for identifier in sorted(identifiers):
        relation = shape.part.rels.get(identifier) if identifier in shape.part.rels else None
        if relation is None or not relation.reltype.endswith(_DIAGRAM):
            continue
        from .xml_tree import parsed

        words = [" ".join((each.text or "").split()) for each in parsed(relation.target_part.blob).iter(_TEXT)]
        blocks += [paragraph(text) for text in words if text]
    return blocks
