"""ODS: the sheets of an OpenDocument spreadsheet, as rows of texts.
A file stores equal adjacent rows or cells once, with their number of *repetitions*. A *span* is the number of rows and
columns of a merged cell.

In: an ``.ods`` file. Out: the cells of each sheet that is not hidden: numbers as stored, dates in ISO 8601, and other
values as displayed. Formulas yield their saved values. Comments are dropped. A file that is not ODS or is locked with a
password is a ReaderError.

Source: OASIS OpenDocument 1.3, part 3, 9.1 (tables) and 19.387 (the values of cells).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO
from xml.etree.ElementTree import Element

from .decoding import clean_text
from .opendocument import (
    OFFICE,
    STYLE,
    TABLE,
    TEXT,
    find_hidden_styles,
    get_repetition,
    get_span,
    iter_cells,
    iter_rows,
    open_opendocument,
)
from .sheet_rows import CellSpan, SheetRow, Sheets

_SPACES = {f"{TEXT}s": " ", f"{TEXT}tab": " ", f"{TEXT}line-break": "\n"}
#: The maximum size of a sheet in any spreadsheet program. Cells beyond it are not read: a file can declare any number
#: of repetitions (9.1.2).
_MAX_ROWS, _MAX_COLUMNS = 1 << 20, 1 << 14


@contextmanager
def open_workbook(stream: BinaryIO, file_name: str, *, includes_hidden: bool) -> Iterator[Sheets]:
    """Open a workbook, and yield a mapping from the name of each sheet, in order, to an iterator over its rows.

    Without ``includes_hidden``, hidden sheets are left out, unless all are hidden. Any failure while the rows are read
    is a ReaderError.
    """
    with open_opendocument(stream, file_name, "ODS", "spreadsheet") as opendocument:
        tables = list(enumerate(opendocument.body.findall(f"{TABLE}table"), 1))
        hidden_styles = find_hidden_styles(opendocument.trees, f"{STYLE}table-properties", f"{TABLE}display")
        visible_tables = [
            (number, table) for number, table in tables if table.get(f"{TABLE}style-name") not in hidden_styles
        ]
        if includes_hidden or not visible_tables:
            visible_tables = tables
        yield {table.get(f"{TABLE}name") or f"Sheet {number}": _iter_rows(table) for number, table in visible_tables}


def _iter_rows(table: Element) -> Iterator[SheetRow]:
    """Yield the rows of a sheet; a repeated row is yielded several times.

    At most ``_MAX_ROWS`` rows are yielded. If the last declared row is empty and its repetitions reach this limit, they
    are omitted: they only fill the sheet to its end. Other empty rows are yielded.
    """
    num_rows = 0
    for row in iter_rows(table):
        cells, spans = _read_cells(row)
        repetitions = min(get_repetition(row, "rows"), _MAX_ROWS - num_rows)
        num_rows += repetitions
        if not cells and num_rows == _MAX_ROWS:
            return
        for _ in range(repetitions):
            yield SheetRow(cells.copy(), spans)


def _read_cells(row: Element) -> SheetRow:
    """Return the texts of the cells of a row, without trailing empty cells, and the spans of its merged cells.

    A repeated cell is returned several times. Cells after ``_MAX_COLUMNS`` are not read.
    """
    cells: list[str] = []
    spans: dict[int, CellSpan] = {}
    num_empty_cells = 0  # since the last cell with text; added to ``cells`` only before another cell with text
    for cell in iter_cells(row):
        num_repetitions = min(get_repetition(cell, "columns"), _MAX_COLUMNS)
        cell_text = _format_cell(cell)
        if cell_text:
            span = CellSpan(get_span(cell, "rows"), get_span(cell, "columns"))
            if span != (1, 1):
                spans[len(cells) + num_empty_cells] = span
            cells += [""] * num_empty_cells + [cell_text] * num_repetitions
        num_empty_cells = 0 if cell_text else num_empty_cells + num_repetitions
        if len(cells) + num_empty_cells >= _MAX_COLUMNS:
            break
    return SheetRow(cells, spans)


def _format_cell(cell: Element) -> str:
    """Return the value of a cell: a number as stored, a date in ISO 8601, TRUE or FALSE, or else the displayed text."""
    value_type, value = cell.get(f"{OFFICE}value-type"), cell.get(f"{OFFICE}value", "")
    date, truth_value = cell.get(f"{OFFICE}date-value"), cell.get(f"{OFFICE}boolean-value")
    if value_type == "float" and value:
        return value
    if value_type == "date" and date:
        return date.replace("T", " ").removesuffix(" 00:00:00")
    if value_type == "boolean" and truth_value:
        return truth_value.upper()
    text = "\n".join("".join(_iter_text(paragraph)) for paragraph in cell if paragraph.tag == f"{TEXT}p")
    return clean_text(text or cell.get(f"{OFFICE}string-value") or value).strip()


def _iter_text(element: Element) -> Iterator[str]:
    """Yield the texts in a paragraph and its elements in order, without comments."""
    yield element.text or ""
    for part in element:
        if part.tag in _SPACES:
            yield _SPACES[part.tag]
        elif part.tag != f"{OFFICE}annotation":
            yield from _iter_text(part)
        yield part.tail or ""
