"""The text of an entry with fields, such as an appointment or an address card: lines ``name: value``, then paragraphs.

In: fields in order, and paragraphs. Out: plain text. Short fields are consecutive lines, as for a row of a table.
A long field is a separate paragraph, which can be quoted without the others. :func:`align_columns` renders a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..text import name_words

#: English month names, independent of the locale of the process.
MONTHS = [month.title() for month in name_words.MONTHS]
#: The maximum number of words of a short field.
_MAX_SHORT_WORDS = 10


def format_entry(fields: Iterable[tuple[str, str]], paragraphs: Iterable[str]) -> str:
    r"""Return an entry as text: lines ``name: value`` for the short fields, then the long fields and the paragraphs.

    Fields without a value and repeated lines are dropped.

    >>> format_entry([("Where", "Quay 3"), ("When", "at noon"), ("With", "")], ["Ring twice."])
    'Where: Quay 3\nWhen: at noon\n\nRing twice.\n'
    """
    # Each line once, with True for a short one.
    lines = {f"{name}: {value}": len(value.split()) <= _MAX_SHORT_WORDS for name, value in fields if value}
    short_text = "\n".join(line for line, is_short in lines.items() if is_short)
    long_lines = [line for line, is_short in lines.items() if not is_short]
    return "\n\n".join(filter(None, (short_text, *long_lines, *paragraphs))) + "\n"


def align_columns(rows: Sequence[Sequence[str]], *, has_header: bool = False) -> str:
    """Return a table as plain text: a line for each row, aligned by spaces, and dashes below a header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if has_header:
        rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
