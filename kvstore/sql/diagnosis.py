"""What is wrong with a text, said so that it can be put right.

In: a text, a place in it and a reason. Out: a :class:`~kvstore.errors.StatementError` that names line and column and
shows the line with a caret under the place; and the known word nearest to a misspelt one.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

from ..errors import StatementError

#: Characters of a line shown before and after the caret: with two of indent and two ellipses, 80 at most.
_WINDOW_CHARACTERS = 38


def make_statement_error(text: str, offset: int, reason: str) -> StatementError:
    """The error for the character ``offset`` of ``text``; an offset past the end means the end."""
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
    """White space as wide as ``character`` is on a terminal."""
    if character == "\t":
        return character
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "


def suggest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` was probably meant to be, ignoring case; None where none is near.

    >>> suggest("documnets", ["chunks", "documents"]), suggest("x", ["documents"])
    ('documents', None)
    """
    folded = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None
