"""COPY (query) TO 'file': write the result of a query to a CSV, TSV, JSON or Parquet file.

In: a statement, and a function that runs the query. Out: the file, written next to its place and then renamed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .render import write_result

if TYPE_CHECKING:
    import kvstore

_COPY_PATTERN = re.compile(
    r"\s*copy\s*\((?P<query>.*)\)\s*to\s*'(?P<path>(?:[^']|'')+)'\s*;?\s*", re.IGNORECASE | re.DOTALL
)
#: The modes in which files are written, by suffix; Parquet is written from Arrow.
_MODES = {".csv": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "jsonl", ".md": "markdown"}
_PARQUET = ".parquet"
#: The first words of statements that read and have rows.
_READING_WORDS = frozenset("ask describe expand explain lookup retrieve search select show values with".split())


def parse_copy(statement: str) -> tuple[str, Path] | None:
    """Return the query and the file of a COPY statement, or None for any other statement.

    >>> parse_copy("COPY (SELECT 1 AS one) TO 'one.csv';")
    ('SELECT 1 AS one', PosixPath('one.csv'))
    """
    match = _COPY_PATTERN.fullmatch(statement)
    return None if match is None else (match["query"].strip(), Path(match["path"].replace("''", "'")))


def copy_result(query: str, path: Path, execute: Callable[[str], kvstore.Cursor]) -> int:
    """Write the result of a query to a file, replacing it; return the number of rows.

    Raises ValueError for an unknown suffix or a statement without a result.
    """
    suffix = path.suffix.lower()
    if suffix not in (*_MODES, _PARQUET):
        raise ValueError(f"{path}: COPY writes files that end in {', '.join((*_MODES, _PARQUET))}; choose one of these")
    if query.split(maxsplit=1)[0].lower() not in _READING_WORDS:
        raise ValueError("COPY needs a statement that reads, such as SELECT, SEARCH or RETRIEVE")
    part = path.with_name(f".{path.name}.part")
    try:
        with execute(query) as cursor:
            if suffix == _PARQUET:
                table = cursor.to_arrow()
                import pyarrow.parquet

                pyarrow.parquet.write_table(table, part)
                num_rows = int(table.num_rows)
            else:
                with part.open("w", encoding="utf-8", newline="") as file:
                    num_rows = write_result(cursor.kind, cursor.columns, cursor, file, mode=_MODES[suffix])
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return num_rows
