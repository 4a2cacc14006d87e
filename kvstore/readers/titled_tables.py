"""Tables with titles above their headers, and forms, as Markdown.
In: the cell texts of a table in an office document, row by row. Out: blocks. A *title row* has one cell, and is above
the *header*, the row with the names of the columns. A *form* has no header: each label has its value to its right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from .markdown_blocks import MarkdownBlock, make_paragraph, make_table

#: The maximum number of title rows above the header of a table.
_MAX_TITLE_ROWS = 5
DIGIT_PATTERN = re.compile(r"\d")
#: A year or quarter, which can be the name of a column.
_YEAR_PATTERN = re.compile(r"\b(?:(?:19|20)\d\d|[QH][1-4])\b")


def make_titled_table(
    rows: Sequence[Sequence[str]], num_titles: int, is_form: bool | None = None
) -> list[MarkdownBlock]:
    """Return a table of cell texts as blocks: its first ``num_titles`` rows as paragraphs, and a table of the others.

    Empty titles are omitted. A form becomes a table without a header, with a row for each label and its value.
    ``is_form`` is True for a form (None: the texts decide).
    """
    titles = filter(None, (" ".join("".join(cells).split()) for cells in rows[:num_titles]))
    blocks = [make_paragraph(title) for title in titles]
    other_rows = join_header_rows(rows[num_titles:])
    if _is_form(other_rows) if is_form is None else is_form:
        pairs = [pair for cells in other_rows for pair in _pair_cells(cells) if any(pair)]
        return [*blocks, make_table([], pairs)]
    return [*blocks, make_table(other_rows[0], other_rows[1:])] if other_rows else blocks


def join_header_rows(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Return the rows of a table, with a header of two rows joined: ``Income`` above ``2025`` as ``Income / 2025``.

    The first row then has a group of columns: a text and empty cells to its right, where a merged cell continues. The
    second row names each column of a group. Any other column is named in only one of the rows, or by a merged cell.

    >>> join_header_rows([["Season", "Income", ""], ["", "2024", "2025"], ["Matinées", "£3", "£4"]])[0]
    ['Season', 'Income / 2024', 'Income / 2025']
    """
    if len(rows) < 3:
        return rows
    columns = list(zip_longest(rows[0], rows[1], fillvalue=""))
    groups: dict[int, str] = {}
    group = ""
    for column, (text, _) in enumerate(columns):
        begins_group = text and column + 1 < len(columns) and not columns[column + 1][0]
        group = text or group
        if begins_group or (group and not text):
            groups[column] = group
    header = join_two_row_header(columns, groups)
    return rows if header is None else [header, *rows[2:]]


def join_two_row_header(columns: Sequence[tuple[str, str]], groups: Mapping[int, str]) -> list[str] | None:
    """Return the names of the columns below a header of two rows, with the groups of columns: ``Income / 2025``.

    ``columns`` has the texts of both rows in each column, and ``groups`` the name of the group by column. Returns None
    if the rows are not such a header: some columns, but not all, must be in groups, and have a name in the second row.
    The others have at most one name, and it has no digits in the second row, where it would be data.
    """
    header: list[str] = []
    for column, (text, name) in enumerate(columns):
        if column in groups:
            if not name:
                return None
            header.append(" / ".join(dict.fromkeys((groups[column], name))))
        # A cell merged over both rows repeats its text.
        elif name not in ("", text) and (text or DIGIT_PATTERN.search(name)):
            return None
        else:
            header.append(text or name)
    return header if 0 < len(groups) < len(columns) else None


def _is_form(rows: Sequence[Sequence[str]]) -> bool:
    """True if rows of cell texts are a form without a header: pairs of a label and its value.

    Either every label ends with a colon, or the labels are distinct and have no digits, and the first row has a value
    with a digit. Years and texts above numbers are no such values, because they can be names of columns.

    >>> _is_form([["Boat", "Petrel 22", "Owner", "Ada"], ["Length", "9 m", "Berth", "B 12"]])
    True
    >>> _is_form([["Boat", "Length in 2024"], ["Petrel", "9 m"]])
    False
    >>> _is_form([["Owner", "Phone 1"], ["Ada", "555-01"], ["Bo", "555-02"]])
    False
    """
    pairs = [pair for cells in rows for pair in _pair_cells(cells) if any(pair)]
    labels = [label for label, _ in pairs]
    if len(rows) < 2 or any(len(cells) % 2 for cells in rows) or not all(labels):
        return False
    if all(label.endswith(":") for label in labels):
        return True
    has_value = any(  # in the first row
        DIGIT_PATTERN.search(_YEAR_PATTERN.sub("", first)) and not _is_above_numbers(first, others)
        for first, *others in zip(*(cells[1::2] for cells in rows), strict=False)
    )
    return has_value and len(set(labels)) == len(labels) and not any(map(DIGIT_PATTERN.search, labels))


def _is_above_numbers(text: str, others: Sequence[str]) -> bool:
    """True if a text begins with a letter, and all of several ``others``, the texts below it, begin with a digit."""
    return len(others) > 1 and text[:1].isalpha() and all(other[:1].isdigit() for other in others)


def _pair_cells(cells: Sequence[str]) -> list[tuple[str, str]]:
    """Return the cells of a row of a form as pairs: each label with its value."""
    return list(zip_longest(cells[::2], cells[1::2], fillvalue=""))


def count_title_rows(is_wide: Iterable[bool]) -> int:
    """Return the number of title rows above the header of a table; 0 if there are none.

    ``is_wide`` is True for each row of several cells. A title row has one cell; the header is the first row with
    several. The rows above it count as data if there are more than ``_MAX_TITLE_ROWS``, or if no row follows the
    header. They also do if more than three quarters of the rows below have one cell too, as in a list with one note.
    """
    is_wide = list(is_wide)
    num_titles = is_wide.index(True) if any(is_wide[: _MAX_TITLE_ROWS + 1]) else 0
    is_wide_below = is_wide[num_titles + 1 :]
    return num_titles if is_wide_below and 4 * sum(is_wide_below) >= len(is_wide_below) else 0
