"""COPY: the rows of a reading statement in a new file for other programs.

In: a statement and a path, whose suffix selects the format. Out: a file that appears complete or not at all. Text is
written row by row; the rows of a Parquet or Arrow file are collected in memory first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from ..arguments import format_count
from ..database.exchange import TABLE_SUFFIXES
from ..database.table_export import open_table_writer
from ..errors import InputError
from ..extensions.extras import import_extra
from ..rendering.row_formats import ROW_FORMATS, RowCounter, Rows, number_repeated_names, render_csv
from ..storage.new_file import create_file_atomically
from . import statements
from .cursor import Cursor
from .executor import load_handler
from .statement_context import StatementContext

#: The functions that render a text file, by suffix.
_TEXT_FORMATS: dict[str, Callable[[Sequence[str], Rows], Iterator[str]]] = {
    ".csv": render_csv,
    ".tsv": partial(render_csv, delimiter="\t"),  # in quotes, as INGEST and spreadsheets read it
    ".json": ROW_FORMATS["json"],
    ".jsonl": ROW_FORMATS["jsonl"],
    ".ndjson": ROW_FORMATS["jsonl"],
    ".md": ROW_FORMATS["markdown"],
}


def copy(context: StatementContext, statement: statements.Copy) -> Cursor:
    """Execute COPY: write the rows of a statement to a new file; ``~`` in its path is the home directory.

    Raises InputError for an unknown suffix or an existing path, and MissingExtraError for Parquet and Arrow without
    pyarrow. Also raises ReadOnlyError if the store is read-only, StoreFullError if the file cannot be written, and the
    errors of the statement.
    """
    context.require_writable("COPY cannot write a file")
    target = Path(os.path.expanduser(statement.path))
    if target.suffix.lower() not in (*_TEXT_FORMATS, *TABLE_SUFFIXES):
        suffixes = ", ".join((*_TEXT_FORMATS, *TABLE_SUFFIXES))
        raise InputError(f"{target}: the suffix selects the format of COPY; choose one of {suffixes}")
    if target.suffix.lower() in TABLE_SUFFIXES:
        import_extra("pyarrow", "arrow", f"a {target.suffix} file")
    run = load_handler(type(statement.statement))
    with create_file_atomically(target) as partial_path, run(context, statement.statement) as cursor:
        num_rows = _write_rows(cursor, partial_path, target.suffix.lower())
    message = f"{format_count(num_rows, 'row')} written to {target}"
    return Cursor("COPY", rowcount=num_rows, message=message)


def _write_rows(cursor: Cursor, path: Path, suffix: str) -> int:
    """Write the rows of a cursor to a file in the format of ``suffix``, such as ``.csv``; return the number of rows."""
    if suffix in TABLE_SUFFIXES:
        table = cursor.to_arrow().rename_columns(number_repeated_names(cursor.columns))
        with path.open("wb") as table_file, open_table_writer(suffix, table_file, table.schema) as writer:
            writer.write_table(table)
        return int(table.num_rows)
    rows = RowCounter(cursor)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in _TEXT_FORMATS[suffix](cursor.columns, rows):
            file.write(line + "\n")
    return rows.count
