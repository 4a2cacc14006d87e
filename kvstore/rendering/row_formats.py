"""Rows as text for other programs: CSV, TSV, JSON, JSON Lines and Markdown.

In: column names and rows of SQL values. Out: lines of text, without line ends, as the rows arrive. Every value can be
read back, except that NULL and empty text are both an empty field in CSV, TSV and Markdown (in JSON, NULL is ``null``).
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NoReturn

Rows = Iterable[Sequence[Any]]


class RowCounter:
    """An iterable of rows that counts them."""

    def __init__(self, rows: Rows) -> None:
        """Wrap ``rows``; ``count`` is the number of rows that were iterated so far."""
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Sequence[Any]]:
        """Yield the rows, and count them."""
        for row in self._rows:
            self.count += 1
            yield row


def format_plain(value: Any) -> str:
    """Return the full text of a value other than None: JSON for lists and objects, ``X'…'`` for bytes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


def number_repeated_names(columns: Sequence[str]) -> list[str]:
    """Return the names of columns, with a number appended to each repetition, so that no column is lost.

    >>> number_repeated_names(["key", "title", "key"])
    ['key', 'title', 'key:1']
    """
    names: list[str] = []
    for position, name in enumerate(columns):
        num_earlier = columns[:position].count(name)
        names.append(f"{name}:{num_earlier}" if num_earlier else name)
    return names


def _render_tsv(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Yield the header and each row as fields separated by tabs; backslashes, tabs and line ends are escaped."""
    for row in chain([columns], rows):
        yield "\t".join(_format_field(value).translate(_TSV_ESCAPES) for value in row)


_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def render_csv(columns: Sequence[str], rows: Rows, delimiter: str = ",") -> Iterator[str]:
    """Yield the header and each row as a record of RFC 4180, with this delimiter and without the line end."""
    written_texts: list[str] = []  # the texts that the CSV writer has written for the current row

    class RecordWriter:
        """The file to which the CSV writer writes."""

        def write(self, text: str) -> None:
            """Store a text that the CSV writer has formatted."""
            written_texts.append(text)

    # With this line terminator, the writer quotes fields that contain a line end.
    writer = csv.writer(RecordWriter(), delimiter=delimiter, lineterminator="\r\n")
    for row in chain([columns], rows):
        writer.writerow([_format_field(value) for value in row])
        yield "".join(written_texts).removesuffix("\r\n")
        written_texts.clear()


def _format_field(value: Any) -> str:
    """Return the text of a field of TSV, CSV or Markdown, not yet escaped; NULL is empty."""
    return "" if value is None else format_plain(value)


def _render_jsonl(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Yield each row as a JSON object on one line. Metadata becomes an object instead of a string of JSON."""
    names = number_repeated_names(columns)
    # DESCRIBE returns a row for each property of a document.
    is_description = tuple(columns) == ("property", "value")
    for row in rows:
        values = list(map(_to_json_value, row))
        for index, name in enumerate(columns):
            is_described_metadata = is_description and name == "value" and row[0] == "meta"
            if name == "meta" or is_described_metadata:
                values[index] = _parse_metadata(values[index])
        yield json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)


def _to_json_value(value: Any) -> Any:
    """Convert a value to one that JSON can express: bytes, NaN and infinities become text."""
    return format_plain(value) if isinstance(value, bytes) or is_non_finite(value) else value


def is_non_finite(value: Any) -> bool:
    """True for infinities and NaN, which JSON cannot express."""
    return isinstance(value, float) and not math.isfinite(value)


def _parse_metadata(value: Any) -> Any:
    """Parse a document's metadata, which SQL returns as JSON text; return any other value unchanged."""
    if not (isinstance(value, str) and value.startswith("{")):
        return value
    try:
        return json.loads(value, parse_constant=_reject_constant)
    except ValueError:
        return value


def _reject_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN and infinities, which JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def _render_json(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Yield the lines of a JSON array with an object for each row."""
    previous: str | None = None  # a row is yielded when the next one is known, because the last row has no comma
    for line in _render_jsonl(columns, rows):
        yield "[" if previous is None else previous + ","
        previous = line
    yield from ["[]"] if previous is None else [previous, "]"]


def _render_markdown(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Yield the lines of a table in GitHub Markdown. Markdown in cells is escaped, and line ends become ``<br>``."""
    yield _render_markdown_row(columns)
    yield "|" + " --- |" * len(columns)
    for row in rows:
        yield _render_markdown_row(row)


_MARKDOWN_ESCAPES = str.maketrans(
    {"\\": "\\\\", "|": "\\|", "&": "&amp;", "<": "&lt;", "\n": "<br>", "\r": "&#13;", "\t": "&#9;"}
)


def _render_markdown_row(row: Sequence[Any]) -> str:
    """Return a row of a Markdown table as a line of text, with escaped cells."""
    return "| " + " | ".join(_format_field(value).translate(_MARKDOWN_ESCAPES) for value in row) + " |"


#: The functions that render rows, by format.
ROW_FORMATS: dict[str, Callable[[Sequence[str], Rows], Iterator[str]]] = {
    "json": _render_json,
    "jsonl": _render_jsonl,
    "csv": render_csv,
    "tsv": _render_tsv,
    "markdown": _render_markdown,
}
