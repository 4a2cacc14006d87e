"""Notebooks: the cells of a Jupyter notebook become one Markdown document, in order.
A cell is a text or code; a code cell has *outputs*.

In: an ``.ipynb`` file (nbformat 3 or 4). Out: one document of format ``markdown``. Markdown cells are kept verbatim,
and code cells become code blocks in the notebook's language. The text outputs of a code cell (streams, results, errors)
follow it as code blocks. Markdown output is kept, and HTML output without a text form becomes Markdown. Images and
widgets are dropped. The title is the one in the metadata, else the first level-one heading. A file that is not a
notebook or has no text is a ReaderError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..errors import ReaderError
from .decoding import clean_text, decode_file
from .markdown import find_first_title
from .markdown_blocks import MarkdownBlock, join_blocks, make_code_block, make_paragraph
from .raw_document import JSON, Origin, RawDocument, ReadOptions

#: The default repr of an object that has another representation.
_OBJECT_REPR_PATTERN = re.compile(r"<[\w.]+(?: object)?(?: at 0x[0-9A-Fa-f]+)?>")
_TERMINAL_COLOR_PATTERN = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # \x1b[31m (red)


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert a Jupyter notebook to Markdown, and yield it as one document.

    Raises ReaderError if the file is not a notebook, has no text, or cannot be decoded.
    """
    text = decode_file(stream.read(), origin.name, options.encoding)
    origin.require_content(text, "is empty")
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReaderError(f"{origin.name}: is damaged or not a notebook ({error}); open it and save it again") from None
    cells = _get_cells(notebook)
    if cells is None:
        raise ReaderError(
            f"{origin.name}: is not a notebook (it has no list of cells); save it again, or ingest it AS text"
        )
    metadata = notebook.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    language = _get_language(metadata)
    blocks = [
        block
        for cell in cells
        if isinstance(cell, dict)
        for block in _iter_cell_blocks(cell, language, origin.name, options)
    ]
    origin.require_content(blocks)
    markdown = join_blocks(blocks)
    title = metadata.get("title")
    title = title if isinstance(title, str) and title.strip() else find_first_title(markdown)
    meta: dict[str, JSON] = {"language": language} if language else {}
    yield RawDocument(origin.key, title=title, text=markdown + "\n", meta=meta, format="markdown")


def _get_cells(notebook: Any) -> list[Any] | None:
    """Return the cells of a notebook, which nbformat 3 stores in worksheets, or None if it has no list of cells."""
    if not isinstance(notebook, dict):
        return None
    if isinstance(notebook.get("cells"), list):
        return list(notebook["cells"])
    sheets = notebook.get("worksheets")
    if not isinstance(sheets, list):
        return None
    valid_sheets = (sheet for sheet in sheets if isinstance(sheet, dict))
    return [cell for sheet in valid_sheets for cell in sheet.get("cells") or ()]


def _get_language(metadata: dict[str, Any]) -> str:
    """Return the programming language that the metadata name, in lowercase; empty if they do not name it."""
    for section, field in (("language_info", "name"), ("kernelspec", "language")):
        fields = metadata.get(section)
        name = fields.get(field) if isinstance(fields, dict) else ""
        if isinstance(name, str) and re.fullmatch(r"[\w+#.-]{1,40}", name):  # such as python or c++
            return name.lower()
    return ""


def _iter_cell_blocks(cell: dict[str, Any], language: str, name: str, options: ReadOptions) -> Iterator[MarkdownBlock]:
    """Yield the Markdown blocks of a notebook's cell and its outputs.

    ``language`` is the language of the notebook's code, and ``name`` is the file in messages. Outputs in HTML are read
    with the ``options`` of the ingest.
    """
    cell_type = cell.get("cell_type")
    source = _parse_multiline_text(cell.get("source", cell.get("input")))
    if cell_type == "code":
        if source.strip():
            yield make_code_block(source, language)
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, dict):
                yield from _iter_output_blocks(output, name, options)
    elif cell_type == "heading" and source.strip():  # nbformat 3
        level = cell.get("level")
        level = level if isinstance(level, int) and 0 < level < 7 else 1
        yield MarkdownBlock("heading", f"{'#' * level} {source}")
    elif source.strip():
        is_markdown = cell_type == "markdown"
        yield MarkdownBlock("paragraph", source.strip("\n")) if is_markdown else make_paragraph(source.strip())


def _iter_output_blocks(output: dict[str, Any], name: str, options: ReadOptions) -> Iterator[MarkdownBlock]:
    """Yield the blocks of one output of a code cell: printed text, a result or an error.

    A result is its Markdown, or else its plain text, or its HTML if the plain text is missing or only names an object.
    ``name`` is the file in messages. HTML is read with the ``options`` of the ingest.
    """
    output_type = output.get("output_type")
    output_data = output.get("data")
    texts_by_type = output_data if isinstance(output_data, dict) else output  # nbformat 3 has no data
    if output_type == "stream":
        text = _parse_multiline_text(output.get("text"))
    elif output_type in ("error", "pyerr"):
        text = _parse_multiline_text(output.get("traceback"), "\n") or f"{output.get('ename')}: {output.get('evalue')}"
    else:
        markdown = _parse_multiline_text(texts_by_type.get("text/markdown"))
        if markdown.strip():
            yield MarkdownBlock("paragraph", markdown.strip("\n"))
            return
        text = _parse_multiline_text(texts_by_type.get("text/plain", texts_by_type.get("text")))
        markup = _parse_multiline_text(texts_by_type.get("text/html", texts_by_type.get("html")))
        if markup.strip() and (not text.strip() or _OBJECT_REPR_PATTERN.fullmatch(text.strip())):
            from .html import convert_markup

            yield from convert_markup(markup, name, options)
            return
    if text.strip():
        yield make_code_block(_TERMINAL_COLOR_PATTERN.sub("", text))


def _parse_multiline_text(lines: Any, separator: str = "") -> str:
    """Return the text of a notebook's field, which is one string or a list of lines; empty for other values.

    ``separator`` joins the lines of a list, which usually have line ends.
    """
    if isinstance(lines, list):
        lines = separator.join(line for line in lines if isinstance(line, str))
    return clean_text(lines).replace("\0", "") if isinstance(lines, str) else ""
