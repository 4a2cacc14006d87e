"""Formatting of results as text, in the selected mode.

In: column names and rows. Out: text written to a stream as the rows arrive. ``tsv``, ``csv``, ``json``, ``jsonl`` and
``markdown`` are for programs: every value can be read back, and NULL is an empty field (in JSON: ``null``). ``table``,
``box`` and ``line`` are for people. An unknown mode raises a ValueError that lists the modes.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NoReturn, Protocol

from . import layout

PrintedRow = Sequence[Any]


class Writable(Protocol):
    """The destination of a result."""

    def write(self, text: str, /) -> int: ...


def write_result(
    kind: str,
    columns: Sequence[str],
    rows: Iterable[PrintedRow],
    out: Writable,
    *,
    mode: str,
    width: int | None = None,
    is_answer_shown: bool = False,
) -> int:
    """Write a result to ``out``; return the number of rows.

    ``kind`` is the statement's first word. ``width``, in cells, is given if ``out`` is a terminal; tables and answers
    fit it. In mode ``table``, EXPAND is drawn as a tree, and an answer is prose with numbered citations. On a terminal,
    LOOKUP, with the name marked, and SEARCH and RETRIEVE are prose too. CHECK of a sound
    store has no rows; only JSON modes then write anything. ``is_answer_shown`` is True if the text of a model's answer
    was shown while the model wrote it.
    """
    counter = RowCounter(rows)
    for line in _render_lines(kind, columns, counter, mode, width, is_answer_shown):
        out.write(line)
        out.write("\n")
    return counter.count


class RowCounter:
    """An iterable of rows that counts them."""

    def __init__(self, rows: Iterable[PrintedRow]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[PrintedRow]:
        for row in self._rows:
            self.count += 1
            yield row


def _render_lines(
    kind: str, columns: Sequence[str], rows: Iterable[PrintedRow], mode: str, width: int | None, is_answer_shown: bool
) -> Iterator[str]:
    """Return the lines of a result in a mode, or in the layout of its kind. Raises ValueError for an unknown mode."""
    if mode == "table":
        if kind == "EXPAND":
            return layout.render_groups(rows, width) if "count" in columns else layout.render_relatives(rows, width)
        if kind == "ASK":
            return (line for row in rows for line in layout.render_answer(row, width, is_shown=is_answer_shown))
        if kind == "LOOKUP" and width is not None:
            return layout.render_locations(rows, width)
        if kind in ("SEARCH", "RETRIEVE") and width is not None:
            return layout.render_hits(columns, rows, width)
    if kind == "EXPLAIN" and tuple(columns) == ("svg",) and mode in ("table", "box", "tsv", "line"):
        return (picture for (picture,) in rows)  # the output is a file that browsers show
    if mode not in MODES:
        raise ValueError(f"there is no mode {mode}; modes are {', '.join(MODES)}")
    if kind == "CHECK" and mode not in ("json", "jsonl"):
        first = next(iter(rows), None)
        if first is None:
            return iter(())  # the message reports that the store is sound
        rows = chain([first], rows)
    return MODES[mode](columns, rows, width)


def _render_table(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield the lines of an ASCII table."""
    return layout.render_table(columns, rows, width, layout.TABLE)


def _render_box(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield the lines of a table with box-drawing characters."""
    return layout.render_table(columns, rows, width, layout.BOX)


def _render_tsv(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield tab-separated fields, escaping backslash, tab, line feed and carriage return as ``\\\\``, ``\\t``, ``\\n``,
    ``\\r``.
    """
    for row in chain([columns], rows):
        yield "\t".join(_format_field(value).translate(_TSV_ESCAPES) for value in row)


_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _render_csv(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield lines of RFC 4180, which end in a line feed."""
    line: list[str] = []

    class LineWriter:
        def write(self, text: str) -> None:
            line.append(text)

    writer = csv.writer(LineWriter(), lineterminator="\r\n")  # line ends inside a field are quoted
    for row in chain([columns], rows):
        writer.writerow([_format_field(value) for value in row])
        yield "".join(line).removesuffix("\r\n")
        line.clear()


def _format_field(value: Any) -> str:
    """Return the text of a field of TSV, CSV or Markdown, not yet escaped; NULL is empty."""
    return "" if value is None else layout.format_plain(value)


def _render_objects(columns: Sequence[str], rows: Iterable[PrintedRow]) -> Iterator[str]:
    """Yield each row as a JSON object."""
    names: list[str] = []
    for name in columns:  # number repeated column names, so that no column is lost
        num_same = sum(1 for earlier in columns[: len(names)] if earlier == name)
        names.append(f"{name}:{num_same}" if num_same else name)
    is_description = tuple(columns) == ("property", "value")
    for row in rows:
        values = list(map(_to_json_value, row))
        for index, name in enumerate(columns):
            if name == "meta" or (is_description and name == "value" and row[0] == "meta"):
                values[index] = _parse_metadata(values[index])
        yield json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)


def _to_json_value(value: Any) -> Any:
    """Convert a value to one that JSON can express: bytes, NaN and infinities become text."""
    if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return _format_field(value)
    return value


def _parse_metadata(value: Any) -> Any:
    """Parse a document's metadata, which SQL returns as JSON text; return any other value unchanged."""
    if not (isinstance(value, str) and value.startswith("{")):
        return value
    try:
        return json.loads(value, parse_constant=_refuse_constant)
    except ValueError:
        return value


def _refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN and infinities, which JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def _render_jsonl(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield each row as a JSON object."""
    return _render_objects(columns, rows)


def _render_json(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield the lines of a JSON array of the rows."""
    previous = "["
    for line in _render_objects(columns, rows):
        yield from [previous] if previous == "[" else []
        if previous != "[":
            yield previous + ","
        previous = line
    yield "[]" if previous == "[" else previous
    if previous != "[":
        yield "]"


def _render_markdown(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield a GitHub table; Markdown syntax in cells is escaped, and line ends become ``<br>``."""
    yield _render_markdown_row(columns)
    yield "|" + " --- |" * len(columns)
    for row in rows:
        yield _render_markdown_row(row)


_MARKDOWN_ESCAPES = str.maketrans(
    {"\\": "\\\\", "|": "\\|", "&": "&amp;", "<": "&lt;", "\n": "<br>", "\r": "&#13;", "\t": "&#9;"}
)


def _render_markdown_row(row: PrintedRow) -> str:
    """Format a row of a Markdown table."""
    return "| " + " | ".join(_format_field(value).translate(_MARKDOWN_ESCAPES) for value in row) + " |"


def _render_line(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield each row as lines of ``name = value``."""
    return layout.render_vertical(columns, rows, width)


#: The modes and their formatters.
MODES: dict[str, Callable[[Sequence[str], Iterable[PrintedRow], int | None], Iterator[str]]] = {
    "table": _render_table,
    "box": _render_box,
    "json": _render_json,
    "jsonl": _render_jsonl,
    "csv": _render_csv,
    "tsv": _render_tsv,
    "markdown": _render_markdown,
    "line": _render_line,
}
