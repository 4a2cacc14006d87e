"""The layout of lines in reStructuredText: indented blocks, fields, entries of bullet lists, and tables.
A *field* is a line ``:name: value``. A *border* is a line such as ``=== ===`` or ``+---+---+`` between rows of a table.
A cell is a list of lines.

In: the lines of a file or of a directive, without tabs. Out: the lines of each block or cell, dedented, and the index
of the line after it. A cell of a grid table that spans rows is in each of them.

Source: the reStructuredText Markup Specification.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from unicodedata import east_asian_width

from .line_markup import find_line, get_margin

BULLET_PATTERN = re.compile(r"[-*+•‣⁃](?:\s+|$)")  # - tea
FIELD_PATTERN = re.compile(r":(?![: ])((?:[^:\\]|\\.|:(?!\s|$))+):(?:\s+|$)")  # :author: Ann
GRID_BORDER_PATTERN = re.compile(r"\+(?:[-=]+\+)+\s*$")  # +---+---+
#: The border below all cells of a line, or below some of them.
_PARTIAL_BORDER_PATTERN = re.compile(r"\+(?:[-=]+\+)+")
#: The border below a cell, with the borders at its sides, in a line in which another cell continues.
_INNER_BORDER_PATTERN = re.compile(r"\+[-+]*[|+]|\|[-+]*\+")


def read_indented(lines: Sequence[str], start: int) -> tuple[list[str], int]:
    """Return the dedented lines of the indented block at ``lines[start]``, and the index of the line after the block.

    Blank lines belong to the block, except at its end. Without an indented line, return an empty list and ``start``.
    """
    end = last_end = start
    while end < len(lines) and (not lines[end] or lines[end][0] == " "):
        end += 1
        if lines[end - 1]:
            last_end = end
    body = list(lines[start:last_end])
    margin = get_margin(body)
    body = [line[margin:] for line in body]
    return body, last_end if any(body) else start


def split_fields(body: list[str]) -> tuple[list[str], dict[str, str]]:
    """Split the lines of a directive: return its content, and the values of the options (``:name: value``) before it.

    The values are by name; without options, the content is ``body``.
    """
    fields: dict[str, str] = {}
    index = 0
    while index < len(body):
        match = FIELD_PATTERN.match(body[index])
        if match is None:
            break
        fields[match[1]] = body[index][match.end() :].strip()
        index += 1
        while index < len(body) and body[index].startswith(" "):
            fields[match[1]] += f" {body[index].strip()}"
            index += 1
    return (body[index:], fields) if fields else (body, fields)


def split_list_items(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the items of a bullet list, each as its lines without the bullet; other lines are skipped."""
    start = 0
    while start < len(lines):
        match = BULLET_PATTERN.match(lines[start])
        if match is None:
            start += 1
            continue
        _, end = read_indented(lines, start + 1)
        width = match.end()
        first_line = lines[start][width:]
        # Lines below the bullet keep their relative indentation.
        other_lines = [line[width:] if line[:width].isspace() else line.lstrip() for line in lines[start + 1 : end]]
        yield [first_line, *other_lines]
        start = max(end, start + 1)


#: The rows of a table; a cell is a list of lines.
CellRows = list[list[list[str]]]


class ParsedTable(NamedTuple):
    """A table: its rows, including the header, and the index of the line after it."""

    rows: CellRows
    end: int


def parse_simple_table(lines: Sequence[str], table_start: int) -> ParsedTable | None:
    """Parse the simple table whose top border is line ``table_start``; return None if it has no closing border."""
    # A border is a line such as "=====  ===".
    borders = [index for index in range(table_start, len(lines)) if re.fullmatch(r"=[= ]*", lines[index])]
    # The table ends at the first border, other than its top border, that a blank line follows.
    next_lines = (border + 1 for border in borders[1:] if border + 1 < len(lines))
    table_end = next((index for index in next_lines if not lines[index]), len(lines))
    borders = [border for border in borders if border < table_end]
    if len(borders) < 2:
        return None
    column_starts = [match.start() for match in re.finditer(r"=+", lines[table_start])]
    # The first row below the header never continues it, so both are read separately.
    header = _read_simple_rows(lines[borders[0] + 1 : borders[1]], column_starts)
    body = _read_simple_rows(lines[borders[1] + 1 : borders[-1]], column_starts)  # empty for a table without a header
    return ParsedTable([*header, *body], end=borders[-1] + 1)


def _read_simple_rows(lines: Sequence[str], column_starts: Sequence[int]) -> CellRows:
    """Return the rows on the lines of a simple table; a line without a first cell continues the row above it.

    ``column_starts`` are the offsets at which the columns begin.
    """
    column_ends = [*column_starts[1:], sys.maxsize]
    rows: CellRows = []
    for line in lines:
        if re.fullmatch(r"[-= ]*", line):  # blank, or a line below cells that span columns
            continue
        columns = _pad_wide_characters(line)
        cells = [_unpad(columns[start:end]).strip() for start, end in zip(column_starts, column_ends, strict=True)]
        if rows and not cells[0]:
            for cell_lines, cell in zip(rows[-1], cells, strict=True):
                cell_lines.append(cell)
        else:
            rows.append([[cell] for cell in cells])
    return rows


def parse_grid_table(lines: Sequence[str], table_start: int) -> ParsedTable | None:
    """Parse the grid table that begins at line ``table_start``; return None if it is invalid.

    The text of a cell that spans columns is in the first of them. A cell that spans rows of the body is in each of them
    (as the same list of lines). Header rows that a cell spans are merged into one.
    """
    end = find_line(lines, table_start, lambda line: line[:1] not in ("+", "|"))
    table = [_pad_wide_characters(line) for line in lines[table_start:end]]
    if len(table) < 3 or not GRID_BORDER_PATTERN.match(table[-1]):
        return None
    border_offsets = _find_vertical_borders(table)
    # Lines that are much shorter than the borders are invalid, and would make more cells than the file has characters.
    if len(table) * len(border_offsets) > sum(map(len, table)):
        return None
    header_end = max(
        (index for index, line in enumerate(table) if "=" in line and GRID_BORDER_PATTERN.match(line)), default=0
    )
    rows: CellRows = []
    cells: list[list[str]] = [[] for _ in border_offsets[1:]]
    for index, line in enumerate(table[1:], 1):
        if GRID_BORDER_PATTERN.match(line):
            rows.append(cells)
            cells = [[] for _ in border_offsets[1:]]
            continue
        next_cells = list(cells)  # the row below this line, if a cell ends here
        has_ended_cell = False
        for cell in _iter_line_cells(line, border_offsets):
            if cell.text is not None:  # None: the line is the lower border of the cell
                cells[cell.start].append(cell.text)
                continue
            next_cells[cell.start : cell.end] = [[] for _ in range(cell.start, cell.end)]
            has_ended_cell = True
        if has_ended_cell and index > header_end:
            rows.append(cells)
            cells = next_cells
    return ParsedTable(rows, end)


def _find_vertical_borders(table: Sequence[str]) -> list[int]:
    """Return the sorted offsets of the vertical borders of a grid table, which ``+`` marks in horizontal borders."""
    borders = [border for line in table for border in _PARTIAL_BORDER_PATTERN.finditer(line)]
    return sorted(
        {offset for border in borders for offset, sign in enumerate(border[0], border.start()) if sign == "+"}
    )


class _GridCell(NamedTuple):
    """The part of a cell on one line of a grid table.

    The cell spans the columns from index ``start`` to before ``end``. ``text`` is its text on the line, or None if the
    line has the border below the cell.
    """

    start: int
    end: int
    text: str | None


def _iter_line_cells(line: str, border_offsets: Sequence[int]) -> Iterator[_GridCell]:
    """Yield the cells on a line of a grid table; the text of a cell is None if the line is its lower border.

    ``border_offsets`` are the offsets of the vertical borders in the whole table. A cell ends at the next border that
    the line has, so it can span several columns.
    """
    start = 0
    for column, offset in enumerate(border_offsets[1:], 1):
        if column < len(border_offsets) - 1 and line[offset : offset + 1] not in ("|", "+"):
            continue
        is_border = _INNER_BORDER_PATTERN.fullmatch(line[border_offsets[start] : offset + 1])
        text = None if is_border else _unpad(line[border_offsets[start] + 1 : offset]).strip(" |")
        yield _GridCell(start, column, text)
        start = column


def _pad_wide_characters(line: str) -> str:
    """Return a line with a NUL after each double-width character, so that the offsets of the line are columns."""
    if line.isascii():
        return line
    return "".join(f"{character}\0" if east_asian_width(character) in ("F", "W") else character for character in line)


def _unpad(line: str) -> str:
    """Return a line without the NULs that pad its double-width characters."""
    return line.replace("\0", "")
