"""Values written as text: a CSV cell or a line of front matter becomes a JSON number where it is plainly one.

A condition such as ``meta ->> 'year' >= 2024`` compares numbers only if numbers were stored. Digits with a leading
zero or a plus sign are codes, not quantities, and stay strings; so does what a 64-bit number cannot hold.
"""

from __future__ import annotations

import re

from .raw_document import JSON

_INTEGER_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]{0,17})$")
_DECIMAL_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}$")


def parse_number(value: str) -> str | int | float:
    """``value`` as an int or float if it is written like one, else as it is."""
    if _INTEGER_PATTERN.match(value):
        return int(value)
    if _DECIMAL_PATTERN.match(value):
        return float(value)
    return value


def parse_scalar(value: str) -> JSON:
    """One front matter value: a quoted string, a number, ``true``, ``false``, ``null`` or a bare string."""
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    constants: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None}
    return constants[value] if value in constants else parse_number(value)
