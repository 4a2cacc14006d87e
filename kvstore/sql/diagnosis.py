"""Error messages that point at the position of an error in a text.

In: a text, an offset in it and a reason. Out: a :class:`~kvstore.errors.StatementError` with the line and column, which
shows the line with a caret under the offset.
"""

from __future__ import annotations

import unicodedata

from ..errors import StatementError

#: Characters of a line shown before and after the caret: with two of indent and two ellipses, 80 at most.
_WINDOW_CHARACTERS = 38


def make_statement_error(text: str, offset: int, reason: str) -> StatementError:
    """Return the error for the character ``offset`` of ``text``. An offset past the end means the end."""
    offset = min(offset, len(text))
    start = text.rfind("\n", 0, offset) + 1
    stop = text.find("\n", offset)
    stop = len(text) if stop < 0 else stop
    line, column = text.count("\n", 0, offset) + 1, offset - start + 1
    left, right = max(start, offset - _WINDOW_CHARACTERS), min(stop, offset + _WINDOW_CHARACTERS)
    prefix = ("…" if left > start else "") + text[left:offset]
    excerpt = prefix + text[offset:right] + ("…" if right < stop else "")
    padding = "".join(map(_make_blank, prefix))
    return StatementError(
        f"line {line}, column {column}: {reason}\n  {excerpt}\n  {padding}^", line=line, column=column
    )


def _make_blank(character: str) -> str:
    """Return white space as wide as ``character`` on a terminal."""
    if character == "\t":
        return character
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "
