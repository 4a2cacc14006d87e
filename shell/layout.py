"""Text layout for a terminal: columns, wrapped cells and tables, measured in terminal cells.

In: rows and a width in cells (None: no limit, every row on one line). Out: lines. Control characters of a document
never reach the terminal, so no text can move the cursor or change colors. All white space is shown as single spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

from kvstore.rendering.row_formats import format_plain

from .masking import mask_line

#: The maximum number of lines of a cell before it is cut.
_MAX_CELL_LINES = 4
#: The minimum width of a column.
MIN_COLUMN_WIDTH = 12
#: The number of rows that determine the widths of columns; later rows are cut to them.
_MAX_MEASURED_ROWS = 1000

PrintedRow = Sequence[Any]


def _measure_character(character: str) -> int:
    """Return the number of terminal cells of a character: 0 to 2."""
    if " " <= character <= "~":
        return 1
    from wcwidth import wcwidth  # large, and most texts do not need it

    return max(0, wcwidth(character))


def measure_width(text: str) -> int:
    """Return the number of terminal cells of ``text``, which has no control characters."""
    if text.isascii():
        return len(text)
    return sum(map(_measure_character, text))


def to_printable(text: str) -> str:
    """Return ``text`` on one line: white space as single spaces, other control characters as ``�``."""
    return mask_line(" ".join(text.split()))


def format_value(value: Any) -> str:
    """Format a value for people: on one line, with NULL for None, and a number with at most four decimal places.

    A very small or large number has at most six significant digits, and an exponent if needed.
    """
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if 1e-3 <= abs(value) < 1e12 else f"{value:g}"
    return to_printable(format_plain(value))


def truncate(text: str, width: int) -> str:
    """Return ``text`` cut to at most ``width`` cells, with an ellipsis if it was longer."""
    if measure_width(text) <= width:
        return text
    characters, used_width = [], 0
    for character in text:
        used_width += _measure_character(character)
        if used_width > width - 1:  # no room for the ellipsis
            break
        characters.append(character)
    return "".join(characters) + "…"


def wrap(text: str, width: int) -> Iterator[str]:
    """Yield the text as lines of at most ``width`` cells, broken at spaces, or inside a word that exceeds a line."""
    line, used_width = "", 0
    for word in text.split(" "):
        size = measure_width(word)
        if line and used_width + 1 + size > width:
            yield line
            line, used_width = "", 0
        while size > width:
            piece = _get_fitting_prefix(word, width)
            yield piece
            word = word[len(piece) :]
            size = measure_width(word)
        line, used_width = (f"{line} {word}", used_width + 1 + size) if line else (word, size)
    yield line


def wrap_message(text: str, width: int | None) -> str:
    """Return a message with its lines broken at spaces to fit ``width`` cells (None: unchanged).

    Indented lines show statements and stay unbroken.
    """
    if width is None:
        return text
    lines = (("\n".join(wrap(line, width)) if line[:1].strip() else line) for line in text.split("\n"))
    return "\n".join(lines)


def format_definitions(pairs: Sequence[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Yield the lines of pairs of a term and its description in two columns, wrapped to ``width`` (None: no limit)."""
    widest = max((measure_width(term) for term, _ in pairs), default=0)
    for term, text in pairs:
        yield from wrap_labeled_text(f"{term}{' ' * (widest - measure_width(term))}  ", text, width)


def wrap_labeled_text(label: str, text: str, width: int | None) -> Iterator[str]:
    """Yield the lines of a text, broken at spaces to fit ``width`` cells: the first after a label, the others indented.

    Without a ``width``, the text stays one line.
    """
    indent = measure_width(label)
    lines = [text] if width is None else list(wrap(text, max(width - indent, MIN_COLUMN_WIDTH)))
    yield label + lines[0]
    yield from (f"{'':{indent}}{line}" for line in lines[1:])


def _get_fitting_prefix(text: str, width: int) -> str:
    """Return the longest prefix of ``text`` that fits in ``width`` cells, at least one character."""
    used_width = 0
    for index, character in enumerate(text):
        used_width += _measure_character(character)
        if used_width > width and index:
            return text[:index]
    return text


def wrap_cell(text: str, width: int) -> list[str]:
    """Return the lines of a table cell, wrapped to ``width``; text after the last allowed line becomes an ellipsis."""
    lines = list(wrap(text, width))
    if len(lines) > _MAX_CELL_LINES:
        lines = lines[:_MAX_CELL_LINES]
        lines[-1] = truncate(lines[-1] + "…", width)
    return lines


# Tables --------------------------------------------------------------------------------------------------------------


def fit_widths(natural_widths: Sequence[int], are_fixed: Sequence[bool], available_width: int) -> list[int] | None:
    """Return the widths of columns whose sum is at most ``available_width``, in cells.

    The widest columns shrink first; those that ``are_fixed`` never shrink. Returns None if a column would become too
    narrow to read.

    >>> fit_widths([3, 40, 80], [True, False, False], 63), fit_widths([3, 40, 80], [True, False, False], 20)
    ([3, 30, 30], None)
    """
    if sum(natural_widths) <= available_width:
        return list(natural_widths)
    # From the narrowest column on, each gets its natural width or an equal share of what is left.
    shrinkable = sorted((width, index) for index, width in enumerate(natural_widths) if not are_fixed[index])
    widths = list(natural_widths)
    available_width -= sum(width for index, width in enumerate(natural_widths) if are_fixed[index])
    for position, (width, index) in enumerate(shrinkable):
        widths[index] = min(width, max(available_width, 0) // (len(shrinkable) - position))
        available_width -= widths[index]
        if widths[index] < min(width, MIN_COLUMN_WIDTH):
            return None
    return widths if available_width >= 0 else None


class Rule(NamedTuple):
    """The characters of a horizontal line of a table."""

    left_end: str
    line: str
    crossing: str
    right_end: str


@dataclass(frozen=True, slots=True)
class Grid:
    """The drawing style of a table: the texts before, between and after the cells of a row, and the horizontal lines.

    A line is at the top, below the header or at the foot of the table; None: there is no such line.
    """

    left: str
    separator: str
    right: str
    top_rule: Rule | None = None
    head_rule: Rule | None = None
    foot_rule: Rule | None = None

    @staticmethod
    def render_rule(rule: Rule | None, widths: Sequence[int]) -> Iterator[str]:
        """Yield one line, a horizontal rule for columns of these widths, or nothing without a rule."""
        if rule is not None:
            segments = [rule.line * (width + 2) for width in widths]  # a cell has a space on both sides
            yield rule.left_end + rule.crossing.join(segments) + rule.right_end

    def render_row(
        self, cells: Sequence[Sequence[str]], widths: Sequence[int], right_aligned: Sequence[bool]
    ) -> Iterator[str]:
        """Yield the lines of a row. Each cell is the list of its wrapped lines, each at most its column's width.

        The cells of a column are aligned right if ``right_aligned`` is True for it.
        """
        for index in range(max(map(len, cells))):
            pieces = []
            for lines, width, is_right_aligned in zip(cells, widths, right_aligned, strict=True):
                text = lines[index] if index < len(lines) else ""
                pad = " " * (width - measure_width(text))
                pieces.append(pad + text if is_right_aligned else text + pad)
            yield (self.left + self.separator.join(pieces) + self.right).rstrip()


TABLE = Grid(" ", " | ", " ", head_rule=Rule("", "-", "+", ""))
BOX = Grid(
    left="│ ",
    separator=" │ ",
    right=" │",
    top_rule=Rule("┌", "─", "┬", "┐"),
    head_rule=Rule("├", "─", "┼", "┤"),
    foot_rule=Rule("└", "─", "┴", "┘"),
)


def render_table(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None, grid: Grid) -> Iterator[str]:
    """Yield the lines of a table, drawn in the style ``grid``, that fits ``width`` cells (None: no limit).

    The first ``_MAX_MEASURED_ROWS`` rows decide the widths, so later rows can be streamed. If the columns cannot fit,
    each row is printed as lines of ``name = value``.
    """
    remaining_rows = iter(rows)
    measured_rows = list(islice(remaining_rows, _MAX_MEASURED_ROWS))
    names = [to_printable(name) for name in columns]
    cells = [[format_value(value) for value in row] for row in measured_rows]
    natural_widths = [
        max([measure_width(name), *(measure_width(row[column]) for row in cells)]) for column, name in enumerate(names)
    ]
    # Columns of numbers are right-aligned and keep their width.
    are_numeric = [
        bool(measured_rows) and all(isinstance(row[column], (int, float, type(None))) for row in measured_rows)
        for column in range(len(names))
    ]
    widths: list[int] | None = natural_widths
    if width is not None:
        border_width = len(grid.left) + len(grid.right) + len(grid.separator) * (len(names) - 1)
        widths = fit_widths(natural_widths, are_numeric, width - border_width)
    if widths is None:
        yield from render_vertical(columns, chain(measured_rows, remaining_rows), width)
        return
    yield from grid.render_rule(grid.top_rule, widths)
    yield from grid.render_row(
        [[truncate(name, size)] for name, size in zip(names, widths, strict=True)], widths, are_numeric
    )
    yield from grid.render_rule(grid.head_rule, widths)
    for row in chain(measured_rows, remaining_rows):
        wrapped_cells = []
        for value, size, is_number_column in zip(row, widths, are_numeric, strict=True):
            text = format_value(value)
            # A number is never divided, even if it is wider than the measured numbers.
            is_whole = is_number_column and isinstance(value, (int, float))
            wrapped_cells.append([text] if is_whole else wrap_cell(text, max(size, 1)))
        yield from grid.render_row(wrapped_cells, widths, are_numeric)
    yield from grid.render_rule(grid.foot_rule, widths)


def render_vertical(columns: Sequence[str], rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield each row as lines of ``name = value``, with an empty line between rows; values are wrapped to ``width``."""
    names = [to_printable(name) for name in columns]
    widest = max(map(measure_width, names), default=0)
    for index, row in enumerate(rows):
        if index:
            yield ""
        for name, value in zip(names, row, strict=True):
            label = " " * (widest - measure_width(name)) + name + " = "
            yield from map(str.rstrip, wrap_labeled_text(label, format_value(value), width))
