"""ODP: an OpenDocument presentation becomes Markdown, with one section for each slide.
*Running* texts are on every slide: the date, the footer and the slide number. A *shape* is a text, list or table.

In: an ``.odp`` file. Out: one document of format ``markdown``, as for PPTX (:mod:`.slides`). A slide becomes a heading
(its title or number), its texts, lists and tables in the order of its shapes, and the speaker's notes after the word
``Notes:``. Dates, footers, slide numbers and hidden slides (unless all are hidden) are dropped and reported in
``left_out``; the ``navigation=keep`` option keeps them. The title is the one in the file's properties, else the first
slide title. A file that is not ODP, is locked with a password or has no text is a ReaderError.

Source: OASIS OpenDocument 1.3, part 3, 10 (shapes) and 19.392 (classes of presentation shapes).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO
from xml.etree.ElementTree import Element

from .markdown_blocks import MarkdownBlock, make_heading, prepend_term, render_one_line
from .opendocument import DRAW, PRESENTATION, STYLE, find_hidden_styles, open_opendocument
from .opendocument_text import OpenDocumentConverter
from .raw_document import MAX_EXCERPT_CHARACTERS, NavigationPart, Origin, RawDocument, ReadOptions
from .slides import build_slides, make_presentation

_CLASS_ATTRIBUTE = f"{PRESENTATION}class"
#: Shapes with the same text on every slide.
_RUNNING_CLASSES = {"date-time": "date", "footer": "footer", "header": "header", "page-number": "slide number"}


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert an OpenDocument presentation to Markdown, and yield it as one document.

    Hidden slides, and the headers, footers, dates and numbers of slides, are omitted, unless the ``navigation`` option
    is ``keep``. If all slides are hidden, none is omitted.
    Raises ReaderError if the file is not ODP, is damaged or locked, or has no text.
    """
    left_out: list[NavigationPart] | None = None if options.navigation == "keep" else []
    with open_opendocument(stream, origin.name, "ODP", "presentation") as presentation:
        converter = OpenDocumentConverter(presentation.trees)
        pages = presentation.body.findall(f"{DRAW}page")
        hidden_styles = find_hidden_styles(
            presentation.trees, f"{STYLE}drawing-page-properties", f"{PRESENTATION}visibility"
        )
        are_hidden = [page.get(f"{DRAW}style-name") in hidden_styles for page in pages]
        slides = build_slides(pages, are_hidden, partial(_build_slide, converter), left_out)
    yield make_presentation(origin, presentation.title, slides, left_out)


def _build_slide(
    converter: OpenDocumentConverter, page: Element, number: int, left_out: list[NavigationPart] | None
) -> tuple[str, list[MarkdownBlock]]:
    """Return the title of a slide, empty if it has none, and its blocks, which begin with a heading.

    The speaker notes come last. The date, header, footer and number of the slide are added to ``left_out``
    instead (None: they become blocks too). ``page`` is the element of the slide, ``number`` its number, from 1, and
    ``converter`` converts the shapes of the file.
    """
    title = ""
    title_shape: Element | None = None
    for shape in page:
        title = _render_line(converter, shape) if shape.get(_CLASS_ATTRIBUTE) == "title" else ""
        if title:
            title_shape = shape
            break
    blocks = [make_heading(2, title or f"Slide {number}")]
    for shape in page:
        running_kind = None if left_out is None else _RUNNING_CLASSES.get(shape.get(_CLASS_ATTRIBUTE, ""))
        if running_kind is None or left_out is None:
            blocks += [] if shape is title_shape else converter.build_blocks([shape])
            continue
        running_text = _render_line(converter, shape)
        if running_text:
            excerpt = running_text[:MAX_EXCERPT_CHARACTERS]
            left_out.append(NavigationPart(f"slide {number}", running_kind, len(running_text), excerpt))
    for notes in page.findall(f"{PRESENTATION}notes"):
        note_blocks = converter.build_blocks([shape for shape in notes if shape.get(_CLASS_ATTRIBUTE) == "notes"])
        blocks += prepend_term("Notes", note_blocks) if note_blocks else []
    return title, blocks


def _render_line(converter: OpenDocumentConverter, shape: Element) -> str:
    """Return the text of a shape of a slide on one line, without emphasis. ``converter`` has the styles of the file."""
    return render_one_line(converter.build_blocks([shape], plain=True))
