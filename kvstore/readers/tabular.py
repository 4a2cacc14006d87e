"""CSV and TSV: each row becomes a document, or (``AS pairs``) an edge of a tree.
The options of the ingest can name the columns with the key, the title and the text of a row.

In: text with a header line. The delimiter is the ``delimiter`` option, or the one in a first line such as ``sep=;``.
Without them, it is a tab in ``.tsv`` files, else the comma, semicolon, tab or bar that fits the first two lines. Out:
one document of format ``text`` for each row, or one document of format ``pairs`` for the whole file. A row whose length
differs from the header's, or with an unclosed quote, is a ReadFailure. Invalid bytes, a header with a duplicate or
missing column or too many columns, and any pair that is not two names are ReaderErrors.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from ..errors import ReaderError
from .decoding import check_nul, clean_text, iter_decoded_lines
from .raw_document import JSON, Item, Origin, RawDocument, ReadFailure, ReadOptions, choose_other_key
from .scalars import parse_number

_TEXT_COLUMNS = ("text", "content", "body")
_TITLE_COLUMNS = ("title",)
_KEY_COLUMNS = ("id", "key")
_DELIMITERS = ",;\t|"
_DELIMITER_LINE_PATTERN = re.compile(r'"?sep=(.)"?\r?\n?', re.I)  # sep=;
#: The maximum number of columns; every row is split into as many cells.
_MAX_COLUMNS = 10_000


class NumberedRow(NamedTuple):
    """A row of a table: the number of the row or of its first line, from 1, and its cells.

    An invalid row has no cells; ``error`` is the reason.
    """

    number: int
    cells: list[str]
    error: str = ""


def _iter_rows(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[NumberedRow]:
    """Yield the rows of a CSV file, numbered by their first lines. Blank rows are skipped.

    An invalid row has an error instead of cells. Raises ReaderError if the file is binary or not in the encoding that
    the options name.
    """
    # The limit is global to the process; raising it only allows longer cells elsewhere.
    csv.field_size_limit(sys.maxsize)
    lines = iter_decoded_lines(stream, origin.name, options.encoding)
    first_line, second_line = next(lines, ""), next(lines, "")
    check_nul(first_line, origin.name)
    delimiter_match = _DELIMITER_LINE_PATTERN.fullmatch(first_line)
    if delimiter_match is not None:  # written by spreadsheet programs; a blank line keeps the numbers of the lines
        first_line = "\n"
    detected_delimiter = delimiter_match[1] if delimiter_match else _detect_delimiter(first_line, second_line, origin)
    delimiter = options.delimiter or detected_delimiter
    first_lines = chain([first_line, second_line], lines)
    reader = csv.reader(first_lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        line_number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield NumberedRow(line_number, [], _describe_csv_error(error))
            continue
        if any("\0" in cell for cell in cells):
            yield NumberedRow(line_number, [], "contains a NUL character; remove it")
        elif any(cell.strip() for cell in cells):
            yield NumberedRow(line_number, [clean_text(cell).strip() for cell in cells])


def _detect_delimiter(header: str, first_row: str, origin: Origin) -> str:
    """Return the delimiter that the suffix of the file or its first two lines indicate; by default a comma.

    It splits both lines into the same number of cells. If several delimiters do, the one with the most cells is
    returned. If none does, the first one in the header is returned.
    """
    if PurePosixPath(origin.name).suffix.lower() == ".tsv":
        return "\t"
    num_cells = {
        delimiter: _count_cells(header, delimiter)
        for delimiter in _DELIMITERS
        if delimiter in header and _count_cells(header, delimiter) == _count_cells(first_row, delimiter) > 0
    }
    if num_cells:
        return max(num_cells, key=lambda delimiter: num_cells[delimiter])
    return next((delimiter for delimiter in _DELIMITERS if delimiter in header), ",")


def _count_cells(line: str, delimiter: str) -> int:
    """Return the number of cells of a line; 0 if the delimiter cuts a quoted cell."""
    cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    return 0 if any('"' in cell for cell in cells) else len(cells)


def _describe_csv_error(error: csv.Error) -> str:
    """Return the reason why a row is invalid, given the error of the csv module, and the remedy."""
    if "unexpected end of data" in str(error):
        return "a quote that opens in this row is not closed, so the rest of the file belongs to it; close or double it"
    return f"is not valid CSV ({error}); double every quote inside a quoted cell"


def read_rows(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document, or a failure, for each row below the header.

    The key is the row's ``id`` or ``key`` column. If the column is empty, or another file uses the key, it is the
    file's key and the line number. The text is the ``text``, ``content`` or ``body`` column, else a line
    ``column: value`` for every other nonempty column. The title is the ``title`` column; if neither it nor the text
    column exists, it is the name of the file. The options can name other columns. Columns other than key, title and
    text become metadata, with plain numbers as numbers. Raises the ReaderErrors of :func:`iter_row_documents`.
    """
    yield from iter_row_documents(_iter_rows(stream, origin, options), origin, options)


def iter_row_documents(rows: Iterator[NumberedRow], origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document for each valid row below the header, which is the first row, and a failure for each other row.

    Raises ReaderError if the header is invalid, if it lacks a column that the options name, or if no row follows it.
    """
    header = _read_header(rows, origin)
    key_column = _find_column(header, origin, options.key, "key", _KEY_COLUMNS)
    title_column = _find_column(header, origin, options.title, "title", _TITLE_COLUMNS)
    text_column = _find_column(header, origin, options.text, "text", _TEXT_COLUMNS)
    other_columns = [index for index in range(len(header)) if index not in (key_column, title_column, text_column)]
    # The fields of a row name no subject; the name of the file does ("prices-2026").
    default_title = PurePosixPath(origin.name).stem if text_column is None else ""
    is_empty = True
    used_keys: set[str] = set()
    for number, cells, error in rows:
        is_empty = False
        position = f"{origin.name}:{number}"
        if error:
            yield ReadFailure(position, error)
            continue
        if len(cells) != len(header):
            reason = f"has {_format_cell_count(len(cells))}, but the header has {len(header)}; quote or add cells"
            yield ReadFailure(position, reason)
            continue
        nonblank_cells = [(header[index], cells[index]) for index in other_columns if cells[index]]
        if text_column is None:
            body = "\n".join(f"{name.removesuffix(':')}: {value}" for name, value in nonblank_cells)
        else:
            body = cells[text_column]
        title = default_title if title_column is None else cells[title_column]
        if not body and (title_column is None or not title):
            yield ReadFailure(position, "has no text; fill in the cell or specify another column WITH (text = ...)")
            continue
        meta: dict[str, JSON] = {column: parse_number(value) for column, value in nonblank_cells}
        default_key = f"{origin.key}:{number}"
        own_key = default_key if key_column is None else cells[key_column] or default_key
        other_key = choose_other_key(own_key, default_key, used_keys)
        yield RawDocument(
            own_key, title=title or None, text=body or title, meta=meta, format="text", other_key=other_key
        )
    if is_empty:
        raise ReaderError(f"{origin.name}: has a header but no rows; there is nothing to store")


def _format_cell_count(count: int) -> str:
    """Return a number of cells in words: ``1 cell``, ``2 cells``."""
    return "1 cell" if count == 1 else f"{count} cells"


def _read_header(rows: Iterator[NumberedRow], origin: Origin) -> list[str]:
    """Read the first row and return its cells as the names of the columns; a blank one becomes ``column N``.

    Raises ReaderError if the row is invalid or missing, has too many cells, or names a column twice.
    """
    row = next(rows, NumberedRow(1, []))
    position = f"{origin.name}:{row.number}"
    if row.error:
        raise ReaderError(f"{position}: the header {row.error}")
    if not row.cells:
        raise ReaderError(f"{origin.name}: is empty; there is nothing to store")
    if len(row.cells) > _MAX_COLUMNS:
        raise ReaderError(
            f"{position}: the header has {len(row.cells):,} columns; the limit is {_MAX_COLUMNS:,}: remove some, or "
            "ingest the file AS text"
        )
    header = [cell or f"column {number}" for number, cell in enumerate(row.cells, 1)]
    counts = Counter(header)
    duplicate = next((name for name in header if counts[name] > 1), None)
    if duplicate is not None:
        raise ReaderError(f"{position}: the header contains the column {duplicate!r} twice; rename one of them")
    return header


def _find_column(
    header: list[str], origin: Origin, column_name: str | None, option: str, default_names: tuple[str, ...] = ()
) -> int | None:
    """Return the index of the column ``column_name`` (None: the index of the first default name in the header).

    Return None if no default name is in the header. Case is ignored. Raises ReaderError, which names the option
    ``option``, if the header has no column ``column_name``.
    """
    lowercase_header = [name.lower() for name in header]
    if column_name is not None:
        if column_name in header:
            return header.index(column_name)
        if column_name.lower() in lowercase_header:
            return lowercase_header.index(column_name.lower())
        columns = ", ".join(header)
        raise ReaderError(
            f"{origin.name}: has no column {column_name!r}; the option {option} must name one of: {columns}"
        )
    return next((lowercase_header.index(name) for name in default_names if name in lowercase_header), None)


def read_pairs(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the whole file as one document of edges of an entity tree: CSV lines ``child,parent`` without duplicates.

    A first row ``child,parent`` or ``parent,child``, ignoring case, is a header. The first row is also a header if the
    options ``child`` and ``parent`` name columns; other columns are then allowed. ``meta['tree']`` names the tree: the
    ``tree`` option, else the file's name without its suffix. Raises ReaderError for an invalid row, without any pairs,
    and if the options do not name two columns.
    """
    pairs: dict[tuple[str, str], None] = {}
    columns: tuple[int, int] | None = None
    width = 2
    for number, cells, error in _iter_rows(stream, origin, options):
        position = f"{origin.name}:{number}"
        if error:
            raise ReaderError(f"{position}: {error}")
        if columns is None:
            columns = _find_pair_columns(cells, origin, options)
            width = len(cells) if options.child or options.parent else 2
            if options.child or options.parent or sorted(map(str.lower, cells)) == ["child", "parent"]:
                continue
        if len(cells) != width:
            expected = "child and parent" if width == 2 else f"the {width} cells of the header"
            raise ReaderError(
                f"{position}: has {_format_cell_count(len(cells))} instead of {expected}; correct the row"
            )
        child, parent = (" ".join(cells[column].split()) for column in columns)
        if not child or not parent:
            empty = "child" if not child else "parent"
            raise ReaderError(f"{position}: the {empty} is empty; name both, or remove the row")
        pairs[child, parent] = None
    if not pairs:
        raise ReaderError(f"{origin.name}: has no pairs; write one row child,parent for each pair")
    tree = options.tree or PurePosixPath(origin.key).stem
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(pairs)
    yield RawDocument(origin.key, title=None, text=lines.getvalue(), meta={"tree": tree}, format="pairs")


def _find_pair_columns(first_row: list[str], origin: Origin, options: ReadOptions) -> tuple[int, int]:
    """Return (child, parent), the indexes of their columns, from the options or the first row; by default (0, 1).

    Raises ReaderError if the options do not name two columns of the first row.
    """
    if options.child or options.parent:
        child = _find_column(first_row, origin, options.child or "child", "child")
        parent = _find_column(first_row, origin, options.parent or "parent", "parent")
        if child is None or parent is None or child == parent:
            raise ReaderError(
                f"{origin.name}: child and parent must be two different columns; specify them WITH (child = ..., "
                "parent = ...)"
            )
        return child, parent
    return (1, 0) if [cell.lower() for cell in first_row] == ["parent", "child"] else (0, 1)
