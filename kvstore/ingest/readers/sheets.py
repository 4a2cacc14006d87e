"""XLSX: a sheet of a workbook is a document, or (``AS rows``) a row of one is.

In: an ``.xlsx`` or ``.xlsm`` file. Out: a document of format ``markdown`` a sheet, one table, whose head is the first
row with anything in it; its key is that of the file, in a workbook of several sheets with ``/`` and the sheet's name.
As rows: documents as of a CSV file (:func:`.tabular.row_documents`), from the first sheet or the one that the option
``sheet`` names. Formulas stand for the values that were saved with them; dates are ISO 8601. A file that is no XLSX,
is locked with a password or has no text is a ReaderError, and so is the absence of openpyxl.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from ...errors import ReaderError
from ...extras import required
from .decoding import clean
from .markdown_blocks import document, pipe_table
from .packages import Package
from .raw_document import Item, Origin, RawDocument, ReadOptions
from .tabular import row_documents

#: Cells of the largest sheet; a sheet may say that it has any number.
_MOST_CELLS = 20_000_000
_MOST_COLUMNS = 2_000


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield a document for each sheet that has anything in it."""
    documents = []
    with _workbook(stream, origin) as book:
        names = [sheet.title for sheet in book.worksheets]
        for sheet in book.worksheets:
            rows = [cells for _, cells in _rows(sheet, origin)]
            if rows:
                text = document([pipe_table(rows[0], rows[1:])]) + "\n"
                key = origin.key if len(names) == 1 else f"{origin.key}/{sheet.title}"
                documents.append(RawDocument(key, sheet.title, text, {"sheet": sheet.title}, "markdown"))
    if not documents:
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    yield from documents


def read_rows(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document, or a failure, for each row below the header of one sheet."""
    with _workbook(stream, origin) as book:
        names = [sheet.title for sheet in book.worksheets]
        wanted = options.sheet or next(iter(names), "")
        if wanted not in names:
            raise ReaderError(
                f"{origin.name}: has no sheet {wanted!r}; the option sheet must name one of: {', '.join(names)}"
            )
        rows = list(_rows(book[wanted], origin))
    width = max((len(cells) for _, cells in rows), default=0)
    padded = ((line, cells + [""] * (width - len(cells))) for line, cells in rows)
    yield from row_documents(iter(padded), origin, options)


@contextmanager
def _workbook(stream: BinaryIO, origin: Origin) -> Iterator[Any]:
    """The workbook; whatever fails while it is read is a ReaderError."""
    openpyxl = required("openpyxl", "documents", f"{origin.name}: reading XLSX", error=ReaderError)
    package = Package(stream, origin.name, "XLSX")
    stream.seek(0)
    with package.guarded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what openpyxl does not know of formats, which is not read
        book = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        try:
            yield book
        finally:
            book.close()


def _rows(sheet: Any, origin: Origin) -> Iterator[tuple[int, list[str]]]:
    """The rows that have anything in them: their numbers, and their cells without those that are empty at the end."""
    seen = 0
    sheet.reset_dimensions()  # what a sheet says of its size may be wrong
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        seen += len(row)
        if seen > _MOST_CELLS:
            raise ReaderError(
                f"{origin.name}: a sheet has more than {_MOST_CELLS:,} cells, which is the limit: divide it"
            )
        cells = [_shown(value) for value in row[:_MOST_COLUMNS]]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        plain = value.time() == datetime.time()
        return value.date().isoformat() if plain else value.isoformat(" ")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return clean(str(value)).strip()
