"""Workbooks: each sheet becomes a document, or (``AS rows``) each row of one sheet.
A *form* has rows of labels with values, such as ``Name: | Ada``, above a table. A *title* is a row of one cell above
the header of a table. A *span* is the number of rows and columns of a merged cell.

In: an ``.xlsx`` (:mod:`.xlsx`) or ``.ods`` file (:mod:`.ods`), as its content determines. Out: one document of format
``markdown`` for each sheet, with a table whose header is the first row of several cells. Rows of one cell above it,
such as a title, become paragraphs, and so do a form above it and notes below it. A title below an empty row begins
another table. The value of merged cells is repeated in each of their rows. A header of groups above columns (``Sales``
above ``2025`` and ``2026``) becomes one row (``Sales / 2025``).

The document's title is the name of the file and of the sheet (``prices: Winter``). If the sheet's name is a default, it
is the first paragraph or, without one, the name of the file. The key is the file's key; if there are several sheets,
``/`` and the sheet's name are appended. As rows: documents as of a CSV file (:func:`.tabular.iter_row_documents`), from
the first sheet or the one in the ``sheet`` option. Hidden sheets are left out, unless all are hidden or the option
names one. Formulas yield their saved values; dates are in ISO 8601. A file that is not a workbook, is locked with a
password or has no text is a ReaderError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from ..errors import ReaderError
from .decoding import collapse_whitespace
from .markdown_blocks import MarkdownBlock, join_blocks, make_paragraph
from .opendocument import is_opendocument
from .raw_document import Item, Origin, RawDocument, ReadOptions
from .sheet_rows import CellSpan, SheetRow, Sheets
from .tabular import NumberedRow, iter_row_documents
from .titled_tables import DIGIT_PATTERN, count_title_rows, join_two_row_header, make_titled_table

#: The maximum number of cells and characters of a sheet; a file can declare any number of cells and repeat any text.
_MAX_CELLS = 20_000_000
_MAX_CHARACTERS = 64 << 20
_MAX_COLUMNS = 2_000
#: The maximum number of rows of a sheet in Excel and LibreOffice; a damaged row number is higher.
_MAX_ROWS = 1 << 20
#: The maximum number of characters that are repeated for merged cells of a sheet.
_MAX_REPEATED_CHARACTERS = 1 << 22
#: The names of new sheets, which are not titles.
_DEFAULT_NAME_PATTERN = re.compile(
    r"(?:sheet|tabelle|feuil(?:le)?|hoja|foglio|planilha|folha|blad|arkusz|лист|シート|工作表) ?\d*", re.IGNORECASE
)
#: The last characters of labels.
_COLONS = (":", "：")


class _NonblankRow(NamedTuple):
    """A row of a sheet that is not empty, with its number from 1. ``spans`` is the same as in :class:`SheetRow`."""

    number: int
    cells: list[str]
    spans: Mapping[int, CellSpan]


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield a document for each nonempty sheet of a workbook, with its tables in Markdown.

    Raises ReaderError if the file is not a workbook or is locked, if all sheets are empty, or if one is too large.
    """
    documents = []
    with _open_workbook(stream, origin, is_formatted=True, includes_hidden=False) as sheets:
        for name, sheet_rows in sheets.items():
            blocks: list[MarkdownBlock] = []
            for rows in _split_tables(list(_repeat_merged_cells(_iter_nonblank_rows(sheet_rows, origin)))):
                blocks += _convert_table(rows)
            if blocks:
                text = join_blocks(blocks) + "\n"
                key = origin.key if len(sheets) == 1 else f"{origin.key}/{name}"
                first_title = blocks[0].text if blocks[0].kind == "paragraph" else None
                workbook_name = PurePosixPath(origin.name).stem
                title = f"{workbook_name}: {name}"
                if _DEFAULT_NAME_PATTERN.fullmatch(name):  # "Sheet 1" says nothing
                    title = first_title or workbook_name
                documents.append(RawDocument(key, title=title, text=text, meta={"sheet": name}, format="markdown"))
    origin.require_content(documents)
    yield from documents


def read_rows(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document, or a failure, for each row below the header of one sheet.

    The ``sheet`` option names the sheet; by default, it is the first. Raises ReaderError if the file is not a workbook
    or is locked, if there is no such sheet or it is too large, or for an error of :func:`iter_row_documents`.
    """
    # A number with a unit would be a text.
    with _open_workbook(stream, origin, is_formatted=False, includes_hidden=bool(options.sheet)) as sheets:
        sheet_name = options.sheet or next(iter(sheets), "")
        if sheet_name not in sheets:
            raise ReaderError(
                f"{origin.name}: has no sheet {sheet_name!r}; the option sheet must name one of: {', '.join(sheets)}"
            )
        rows = list(_repeat_merged_cells(_iter_nonblank_rows(sheets[sheet_name], origin)))
    cell_rows = [row.cells for row in rows]
    num_form_rows = _count_form_rows(cell_rows)
    num_skipped = num_form_rows + _count_title_rows(cell_rows[num_form_rows:])
    rows = rows[num_skipped:] or rows  # a sheet with nothing but a form is read as a table
    rows = _join_header_rows(rows)
    width = max((len(row.cells) for row in rows), default=0)
    padded_rows = (NumberedRow(row.number, row.cells + [""] * (width - len(row.cells))) for row in rows)
    yield from iter_row_documents(padded_rows, origin, options)


def _convert_table(rows: list[_NonblankRow]) -> Iterator[MarkdownBlock]:
    """Yield the blocks of a table of a sheet: the form and the titles above it, the table, and the notes below it."""
    cell_rows = [row.cells for row in rows]
    num_form_rows = _count_form_rows(cell_rows)
    for cells in cell_rows[:num_form_rows]:
        for text in _pair_labels(cells) or ["".join(cells)]:
            yield make_paragraph(collapse_whitespace(text))
    if num_form_rows == len(rows):
        return
    num_titles = _count_title_rows(cell_rows[num_form_rows:])
    header_index = num_form_rows + num_titles
    table_rows = _join_header_rows(rows[header_index:])
    notes_index = len(table_rows) - _count_notes(table_rows)
    table = [row.cells for row in table_rows[:notes_index]]
    yield from make_titled_table(cell_rows[num_form_rows:header_index] + table, num_titles, is_form=False)
    for row in table_rows[notes_index:]:
        yield make_paragraph(collapse_whitespace(row.cells[0]))


def _join_header_rows(rows: list[_NonblankRow]) -> list[_NonblankRow]:
    """Return the rows of a table, with a header of two rows joined: ``Sales`` above ``2025`` as ``Sales / 2025``.

    The groups of columns are the cells of the first row that span several columns; none may reach beyond the last
    column. A column outside the groups must have text. The other conditions of :func:`join_two_row_header` apply too.
    """
    if len(rows) < 3:
        return rows
    columns = list(zip_longest(rows[0].cells, rows[1].cells, fillvalue=""))
    groups: dict[int, str] = {}  # by column
    for start, span in rows[0].spans.items():
        if span.num_columns > 1:
            end = min(start + span.num_columns, len(columns) + 1)  # with one column too many if the group is too wide
            groups |= dict.fromkeys(range(start, end), rows[0].cells[start])
    has_other_text = any(any(texts) for column, texts in enumerate(columns) if column not in groups)
    header = join_two_row_header(columns, groups) if has_other_text and len(columns) not in groups else None
    return rows if header is None else [_NonblankRow(rows[1].number, header, {}), *rows[2:]]


def _split_tables(rows: Sequence[_NonblankRow]) -> Iterator[list[_NonblankRow]]:
    """Yield the rows of each table of a sheet.

    After an empty row, a title begins a new table: a row of one cell, above a header of several cells without digits.
    """
    table: list[_NonblankRow] = []
    previous_number = 0
    no_row = _NonblankRow(0, [], {})
    for row, next_row in zip(rows, [*rows[1:], no_row], strict=False):
        if table and row.number > previous_number + 1:  # after an empty row
            is_title = sum(map(bool, row.cells)) == 1 and sum(map(bool, next_row.cells)) > 1
            if is_title and not any(map(DIGIT_PATTERN.search, next_row.cells)):
                yield table
                table = []
        table.append(row)
        previous_number = row.number
    if table:
        yield table


def _count_form_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows of the form above a table, with the titles above and in it; 0 if there is no form.

    A row of a form has labels that end with a colon, each before at most one value (:func:`_pair_labels`). A form has
    several such rows, which come before all other rows of several cells. After a form of one row, a table must follow
    that is clearly another: a header without digits and a row, both with more cells than the form.

    >>> _count_form_rows([["Time sheet"], ["Name:", "Ada"], ["Week:", "10"], ["Date", "Hours"], ["3 March", "7"]])
    3
    >>> _count_form_rows([["Question:", "Answer"], ["Who?", "Ada"]])  # a header
    0
    """
    num_rows = num_forms = 0
    wide_rows: list[list[str]] = []  # the nonempty cells of the rows below the form that have several
    for number, cells in enumerate(rows, 1):
        texts = list(filter(None, cells))
        if not wide_rows and _pair_labels(cells):
            num_rows, num_forms = number, num_forms + 1
        elif len(texts) > 1 or wide_rows:
            wide_rows.append(texts)
            if len(wide_rows) > 1:
                break
    if num_forms > 1:
        return num_rows
    if num_forms == 0 or len(wide_rows) < 2:
        return 0
    num_cells = len(list(filter(None, rows[num_rows - 1])))
    is_other_table = min(map(len, wide_rows)) > num_cells and not any(map(DIGIT_PATTERN.search, wide_rows[0]))
    return num_rows if is_other_table else 0


def _pair_labels(cells: Sequence[str]) -> list[str]:
    """Return the labels of a row of a form, each with its value; an empty list if the row belongs to no form.

    >>> _pair_labels(["Name:", "Ada", "", "Week:", "10"]), _pair_labels(["Name:", "Role:"]), _pair_labels(["Ada", "9"])
    (['Name: Ada', 'Week: 10'], [], [])
    """
    pairs: list[list[str]] = []
    for text in filter(None, cells):  # the first text is a label
        if text.endswith(_COLONS):
            pairs.append([text])
        elif pairs and len(pairs[-1]) == 1:
            pairs[-1].append(text)
        else:
            return []
    has_value = any(len(pair) > 1 for pair in pairs)
    return [" ".join(pair) for pair in pairs] if has_value else []


def _count_notes(rows: Sequence[_NonblankRow]) -> int:
    """Return the number of notes at the end of a table, which begins with its header; 0 if there are none.

    A note, such as ``Signed by Ada``, is a row with several words in its first cell alone. Notes come after an empty
    row, and no other row follows them. A table of one column has none.
    """
    num_notes = 0
    if sum(map(bool, rows[0].cells)) > 1:
        for index in range(len(rows) - 1, 0, -1):
            cells = rows[index].cells
            if len(cells) > 1 or len(cells[0].split()) < 2:
                break
            if rows[index].number > rows[index - 1].number + 1:
                num_notes = len(rows) - index
    return num_notes


def _count_title_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows of one nonempty cell above the header of a table; 0 if there are none."""
    return count_title_rows(sum(map(bool, cells)) > 1 for cells in rows)


def _open_workbook(
    stream: BinaryIO, origin: Origin, *, is_formatted: bool, includes_hidden: bool
) -> AbstractContextManager[Sheets]:
    """Return a context manager that yields a mapping from the name of each sheet to an iterator over its rows.

    With ``is_formatted``, numbers of an Excel workbook have the units and leading zeros of their formats: ``€480``.
    Without ``includes_hidden``, hidden sheets are left out, unless all are hidden. Any failure while the rows are read
    is a ReaderError.
    """
    if is_opendocument(stream):
        from . import ods

        return ods.open_workbook(stream, origin.name, includes_hidden=includes_hidden)
    from . import xlsx

    return xlsx.open_workbook(stream, origin.name, is_formatted=is_formatted, includes_hidden=includes_hidden)


def _iter_nonblank_rows(rows: Iterator[SheetRow], origin: Origin) -> Iterator[_NonblankRow]:
    """Yield the nonempty rows of a sheet, without trailing empty cells and cells beyond ``_MAX_COLUMNS``.

    Raises ReaderError if the sheet exceeds a limit. ``origin`` names the file in the error.
    """
    num_cells = num_characters = 0
    for number, (row, spans) in enumerate(rows, 1):
        if number > _MAX_ROWS:
            raise ReaderError(f"{origin.name}: a sheet has more than {_MAX_ROWS:,} rows, which is the limit: split it")
        num_cells += len(row)
        cells = row[:_MAX_COLUMNS]
        while cells and not cells[-1]:
            cells.pop()
        num_characters += sum(map(len, cells))
        if num_cells > _MAX_CELLS or num_characters > _MAX_CHARACTERS:
            raise ReaderError(
                f"{origin.name}: a sheet has more than {_MAX_CELLS:,} cells or {_MAX_CHARACTERS:,} characters, "
                "which is the limit: split it"
            )
        if cells:
            yield _NonblankRow(number, cells, spans)


def _repeat_merged_cells(rows: Iterable[_NonblankRow]) -> Iterator[_NonblankRow]:
    """Yield rows with the text of each cell that spans several rows in all of these rows, up to a limit.

    Spans of cells without a text are omitted.
    """
    num_repeated_characters = 0
    merged_cells: dict[int, tuple[int, str]] = {}  # by column: the number of the last row, and the text
    for row in rows:
        number, cells, spans = row
        if not spans and not merged_cells:  # the common case
            yield row
            continue
        for column, (last_row, text) in list(merged_cells.items()):
            if number > last_row or num_repeated_characters > _MAX_REPEATED_CHARACTERS:
                del merged_cells[column]
                continue
            num_repeated_characters += len(text) + max(0, column - len(cells))
            cells += [""] * (column + 1 - len(cells))
            cells[column] = cells[column] or text
        spans = {column: span for column, span in spans.items() if column < len(cells) and cells[column]}
        for column, span in spans.items():
            if span.num_rows > 1:
                merged_cells[column] = number + span.num_rows - 1, cells[column]
        yield _NonblankRow(number, cells, spans)
