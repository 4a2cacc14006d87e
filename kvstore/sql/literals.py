"""Values of the language (text, numbers, true, false, NULL, bytes) and their literals, such as ``'it''s'``.

In: a value or a name. Out: the literal of a value in a statement, which is parsed back to
the same value. Every value has a literal.
"""

from __future__ import annotations

import math

from ..registry.sql_table import SqlValue
from ..text.patterns import compile_lazily

#: The value of an option or a setting.
Value = str | int | float | bool | None

_BARE_NAME_PATTERN = compile_lazily(r"[^\W\d]\w*")


def format_literal(value: SqlValue) -> str:
    """Return the literal that is parsed back to ``value``; NaN, which SQL does not have, becomes NULL.

    >>> format_literal("it's"), format_literal(True), format_literal(None), format_literal(b"a")
    ("'it''s'", 'true', 'NULL', "X'61'")
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float) and math.isnan(value):
        return "NULL"
    if isinstance(value, float) and math.isinf(value):
        return "9e999" if value > 0 else "-9e999"  # too large for a float, and therefore parsed as infinite
    return repr(value)


def format_identifier(text: str) -> str:
    """Return ``text`` as an identifier, in double quotes if necessary."""
    return text if _BARE_NAME_PATTERN.fullmatch(text) else quote_name(text)


def quote_name(text: str) -> str:
    """Return ``text`` as an identifier in double quotes."""
    return '"' + text.replace('"', '""') + '"'
