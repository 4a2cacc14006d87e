"""Values written as text: a CSV cell or a front matter line becomes a JSON number if it is clearly one.

A condition such as ``meta ->> 'year' >= 2024`` compares numbers only if numbers were stored. Digits with a leading zero
or a plus sign are codes and stay strings. Numbers that do not fit into 64 bits also stay strings.
"""

from __future__ import annotations

import re

from .raw_document import JSON

_INTEGER_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]{0,17})$")
_DECIMAL_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}$")


def parse_number(value: str) -> str | int | float:
    """Return a text as an int or float if it is clearly a number, else unchanged."""
    if _INTEGER_PATTERN.match(value):
        return int(value)
    if _DECIMAL_PATTERN.match(value):
        return float(value)
    return value


def parse_scalar(value: str) -> JSON:
    """Parse a front matter value: a quoted string, a number, ``true``, ``false``, ``null`` or a bare string."""
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    constants: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None}
    return constants[value] if value in constants else parse_number(value)
