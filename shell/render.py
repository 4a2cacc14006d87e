"""Formatting of results as text. A *mode* is a format, such as csv; a *kind* is a statement's first word, such as ASK.

In: column names and rows. Out: text written to a stream as the rows arrive. ``tsv``, ``csv``, ``json``, ``jsonl`` and
``markdown`` are for programs: every value can be read back, and NULL is an empty field (in JSON: ``null``). ``table``,
``box`` and ``line`` are for people. An unknown mode raises a ValueError that lists the modes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from kvstore.rendering.row_formats import ROW_FORMATS, RowCounter

from . import layout
from .layout import PrintedRow
from .statement_layout import render_answer, render_groups, render_hits, render_locations, render_relatives

MODES = ("table", "box", *ROW_FORMATS, "line")


class Writable(Protocol):
    """The destination of a result."""

    def write(self, text: str, /) -> int:
        """Write text, and return the number of characters."""
        ...


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

    ``kind`` is the statement's first word. ``width`` is the width of a terminal in cells, which tables and answers
    fit; None if ``out`` is not a terminal. In mode ``table``, EXPAND is drawn as a tree, and an answer is prose with
    numbered citations. On a terminal, LOOKUP (with the name marked), SEARCH and RETRIEVE are prose too. CHECK of a
    sound store has no rows; only JSON modes then write anything. ``is_answer_shown`` is True if the text of a model's
    answer was shown while the model wrote it.
    """
    counter = RowCounter(rows)
    for line in _render_lines(kind, columns, counter, mode, width, is_answer_shown):
        out.write(line)
        out.write("\n")
    return counter.count


def print_rows(columns: Sequence[str], rows: Iterable[PrintedRow], mode: str | None) -> None:
    """Print rows to standard output in the format ``mode`` (None: a table on a terminal, else TSV)."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    write_result("", columns, rows, sys.stdout, mode=mode or ("table" if width else "tsv"), width=width)


def _render_lines(
    kind: str, columns: Sequence[str], rows: Iterable[PrintedRow], mode: str, width: int | None, is_answer_shown: bool
) -> Iterator[str]:
    """Return the lines of a result in the format ``mode``; in mode "table", some kinds have their own layout.

    ``kind`` is the statement's first word. ``width`` is the width of the terminal in cells, None without a terminal.
    ``is_answer_shown`` is True if the answer was printed while the model wrote it, so that only its citations are left.
    Raises ValueError for an unknown mode.
    """
    if mode == "table":
        if kind == "EXPAND":
            return render_groups(rows, width) if "count" in columns else render_relatives(rows, width)
        if kind == "ASK":
            answers = (dict(zip(columns, row, strict=True)) for row in rows)
            return (line for answer in answers for line in render_answer(answer, width, is_shown=is_answer_shown))
        if kind == "LOOKUP" and width is not None:
            return render_locations(columns, rows, width)
        if kind in ("SEARCH", "RETRIEVE") and width is not None:
            return render_hits(columns, rows, width)
    is_picture = kind == "EXPLAIN" and tuple(columns) == ("svg",)
    if is_picture and mode in ("table", "box", "tsv", "line"):
        return (picture for (picture,) in rows)  # the output is a file that browsers show
    if mode not in MODES:
        raise ValueError(f"there is no mode {mode}; modes are {', '.join(MODES)}")
    if kind == "CHECK" and mode not in ("json", "jsonl"):
        first = next(iter(rows), None)
        if first is None:
            return iter(())  # the message reports that the store is sound
        rows = chain([first], rows)
    if mode in ROW_FORMATS:
        return ROW_FORMATS[mode](columns, rows)
    if mode == "line":
        return layout.render_vertical(columns, rows, width)
    return layout.render_table(columns, rows, width, layout.BOX if mode == "box" else layout.TABLE)
