"""Error messages that point at the position of an error in a text.

In: a text, an offset in it and a reason. Out: a :class:`~kvstore.errors.StatementError` with the line and column, which
shows the line with a caret under the offset.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import StatementError

#: Characters of a line shown before and after the caret: with two of indent and two ellipses, 80 at most.
_WINDOW_CHARACTERS = 38
#: The number of characters of a text that an error quotes for the user to copy.
MAX_COPIED = 200


def make_statement_error(text: str, offset: int, reason: str) -> StatementError:
    """Return an error with a ``reason``, whose message shows the line of ``text`` with a caret below ``offset``.

    ``offset`` is in characters; an offset after the end of the text means its end.
    """
    offset = min(offset, len(text))
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line_end = len(text) if line_end < 0 else line_end
    line, column = text.count("\n", 0, offset) + 1, offset - line_start + 1
    excerpt_start = max(line_start, offset - _WINDOW_CHARACTERS)
    excerpt_end = min(line_end, offset + _WINDOW_CHARACTERS)
    prefix = ("…" if excerpt_start > line_start else "") + text[excerpt_start:offset]
    excerpt = prefix + text[offset:excerpt_end] + ("…" if excerpt_end < line_end else "")
    padding = "".join(map(_make_blank, prefix))
    return StatementError(
        f"line {line}, column {column}: {reason}\n  {excerpt}\n  {padding}^", line=line, column=column
    )


def make_quote_error(text: str, offset: int) -> StatementError:
    """Return the error for the single quote at ``offset``, which ends a string before its end, as in ``'it's'``."""
    return make_statement_error(
        text, offset, "this quote ends the string; write a quote inside a string twice, as in 'it''s'"
    )


def describe_parameter_error(type_name: str) -> str:
    """Return why a value of this type, such as ``list``, cannot be a parameter, and what to do."""
    remedy = ""
    if type_name in ("list", "tuple", "set", "frozenset", "ndarray"):
        remedy = "; pass a list as JSON, and write IN (SELECT value FROM json_each(?))"
    return f"a parameter must be text, a number, a date, bytes or None, not {type_name}{remedy}"


@contextmanager
def locate_in_condition(condition: str) -> Iterator[None]:
    """Make a StatementError raised in the ``with`` block point at a position in ``condition``, not in the statement.

    The condition must begin on the second line of the statement. On the line after it, the statement must continue with
    the parenthesis that closes the condition.
    """
    try:
        yield
    except StatementError as error:
        if error.line is None or error.line == 1:
            raise
        line = error.line - 1  # in the condition
        if line > condition.count("\n") + 1:  # after the condition, at the parenthesis that closes it
            raise make_statement_error(condition, len(condition), "the condition ends too early") from error
        message = str(error).replace(f"line {error.line},", f"line {line},", 1)
        raise StatementError(message, line=line, column=error.column) from error


def _make_blank(character: str) -> str:
    """Return white space as wide as ``character`` on a terminal; "" for a combining character, which has no width."""
    if character == "\t":
        return character
    if unicodedata.combining(character):
        return ""
    is_double_width = unicodedata.east_asian_width(character) in "WF"  # wide or full-width
    return "  " if is_double_width else " "
