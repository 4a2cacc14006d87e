"""Workbooks: each sheet becomes a document, or (``AS rows``) each row of one sheet.

In: an ``.xlsx`` (:mod:`.xlsx`) or ``.ods`` file (:mod:`.ods`), as its content determines. Out: one document of format
``markdown`` for each sheet, with a table whose header is the first row of several cells. Rows of one cell above it,
such as a title, become paragraphs. A title below an empty row begins another table. The document's title is the name of
the file and of the sheet (``prices: Winter``). If the sheet's name is a default, it is the first paragraph or, without
one, the name of the file. The key is the file's key; if there are several sheets, ``/`` and the sheet's name are
appended. As rows: documents as of a CSV file (:func:`.tabular.iter_row_documents`), from the first sheet or the one in
the ``sheet`` option. Formulas yield their saved values; dates are in ISO 8601. A file that is not a workbook, is locked
with a password or has no text is a ReaderError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import PurePosixPath
from typing import BinaryIO

from ..errors import ReaderError
from .markdown_blocks import MarkdownBlock, join_blocks, make_paragraph, make_table
from .opendocument import is_opendocument
from .raw_document import Item, Origin, RawDocument, ReadOptions
from .tabular import NumberedRow, iter_row_documents

#: The sheets of a workbook by name; the rows of cells are produced on demand.
Sheets = Mapping[str, Iterator[list[str]]]

#: The maximum number of cells and characters of a sheet; a file can declare any number of cells and repeat any text.
_MAX_CELLS = 20_000_000
_MAX_CHARACTERS = 64 << 20
_MAX_COLUMNS = 2_000
#: The maximum number of rows of a sheet in Excel and LibreOffice; a damaged row number is higher.
_MAX_ROWS = 1 << 20
#: The names of new sheets, which are not titles.
_DEFAULT_NAME_PATTERN = re.compile(
    r"(?:sheet|tabelle|feuil(?:le)?|hoja|foglio|planilha|folha|blad|arkusz|лист|シート|工作表) ?\d*", re.IGNORECASE
)
_DIGIT_PATTERN = re.compile(r"\d")
#: The maximum number of rows of one cell that can precede the header of a table.
_MAX_TITLE_ROWS = 5


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield a document for each nonempty sheet of a workbook, with its tables in Markdown.

    Raises ReaderError if the file is not a workbook or is locked, if all sheets are empty, or if one is too large.
    """
    documents = []
    with _open_workbook(stream, origin, is_formatted=True) as sheets:
        for name, sheet_rows in sheets.items():
            blocks: list[MarkdownBlock] = []
            for rows in _split_tables(list(_iter_nonblank_rows(sheet_rows, origin))):
                num_titles = _count_title_rows(rows)
                titles, header, other_rows = rows[:num_titles], rows[num_titles], rows[num_titles + 1 :]
                blocks += [make_paragraph(" ".join("".join(cells).split())) for cells in titles]
                blocks.append(make_table(header, other_rows))
            if blocks:
                text = join_blocks(blocks) + "\n"
                key = origin.key if len(sheets) == 1 else f"{origin.key}/{name}"
                first_title = blocks[0].text if blocks[0].kind == "paragraph" else None
                workbook_name = PurePosixPath(origin.name).stem
                title = f"{workbook_name}: {name}"
                if _DEFAULT_NAME_PATTERN.fullmatch(name):  # "Sheet 1" says nothing
                    title = first_title or workbook_name
                documents.append(RawDocument(key, title=title, text=text, meta={"sheet": name}, format="markdown"))
    if not documents:
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    yield from documents


def read_rows(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document, or a failure, for each row below the header of one sheet.

    The ``sheet`` option names the sheet; by default, it is the first. Raises ReaderError if the file is not a workbook
    or is locked, if there is no such sheet or it is too large, or for an error of :func:`iter_row_documents`.
    """
    with _open_workbook(stream, origin, is_formatted=False) as sheets:  # a number with a unit would be a text
        sheet_name = options.sheet or next(iter(sheets), "")
        if sheet_name not in sheets:
            raise ReaderError(
                f"{origin.name}: has no sheet {sheet_name!r}; the option sheet must name one of: {', '.join(sheets)}"
            )
        rows = list(_iter_nonblank_rows(sheets[sheet_name], origin))
    rows = rows[_count_title_rows([row.cells for row in rows]) :]
    width = max((len(row.cells) for row in rows), default=0)
    padded_rows = (NumberedRow(row.number, row.cells + [""] * (width - len(row.cells))) for row in rows)
    yield from iter_row_documents(padded_rows, origin, options)


def _split_tables(rows: Sequence[NumberedRow]) -> Iterator[list[list[str]]]:
    """Yield the rows of each table of a sheet, as lists of cells.

    After an empty row, a title begins a new table: a row of one cell, above a header of several cells without digits.
    """
    table: list[list[str]] = []
    previous_number = 0
    no_row = NumberedRow(0, [])
    for row, next_row in zip(rows, [*rows[1:], no_row], strict=False):
        follows_empty_row = row.number > previous_number + 1
        # A row with one nonempty cell, above a row with several.
        is_title = sum(map(bool, row.cells)) == 1 and sum(map(bool, next_row.cells)) > 1
        begins_table = follows_empty_row and is_title and not any(map(_DIGIT_PATTERN.search, next_row.cells))
        if table and begins_table:
            yield table
            table = []
        table.append(row.cells)
        previous_number = row.number
    if table:
        yield table


def _count_title_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of title rows above the header of a table; 0 if there are none.

    A title row has one cell. The header is the first row with several cells. The rows above it count as data if there
    are more than ``_MAX_TITLE_ROWS``, or if no row follows the header. They also do if more than three quarters of the
    rows below have one cell too, as in a list with a single note.
    """
    is_wide = [sum(map(bool, cells)) > 1 for cells in rows]  # True for a row of several nonempty cells
    num_titles = is_wide.index(True) if any(is_wide[: _MAX_TITLE_ROWS + 1]) else 0
    is_wide_below = is_wide[num_titles + 1 :]
    num_wide_below = sum(is_wide_below)
    return num_titles if is_wide_below and 4 * num_wide_below >= len(is_wide_below) else 0


def _open_workbook(stream: BinaryIO, origin: Origin, *, is_formatted: bool) -> AbstractContextManager[Sheets]:
    """Return a context manager that yields a mapping from the name of each sheet to an iterator over its rows.

    With ``is_formatted``, numbers of an Excel workbook have the units and leading zeros of their formats: ``€480``.
    Any failure while the rows are read is a ReaderError.
    """
    if is_opendocument(stream):
        from . import ods

        return ods.open_workbook(stream, origin.name)
    from . import xlsx

    return xlsx.open_workbook(stream, origin.name, is_formatted=is_formatted)


def _iter_nonblank_rows(rows: Iterator[list[str]], origin: Origin) -> Iterator[NumberedRow]:
    """Yield the nonempty rows of a sheet, without trailing empty cells and cells beyond ``_MAX_COLUMNS``.

    Raises ReaderError if the sheet exceeds a limit. ``origin`` names the file in the error.
    """
    num_cells = num_characters = 0
    for number, row in enumerate(rows, 1):
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
            yield NumberedRow(number, cells)
