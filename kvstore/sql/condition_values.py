"""The values in a SQL condition: numbers, parameters and JSON paths, as SQLite reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..arguments import is_text
from ..registry.sql_table import Parameters
from ..text.patterns import compile_lazily
from .tokens import Token

#: A name in a JSON path, plain or in quotes; and the syntax of JSON paths that SQLite accepts.
_STEP_PATTERN = compile_lazily(r'\.(?:(?P<plain_name>[\w-]+)|"(?P<quoted_name>[^"\\]+)")')
_PATH_PATTERN = compile_lazily(r'\$(\.[^.\["]+|\."[^"]*"|\[(#(-\d+)?|\d+)\])*')
#: The value NULL.
NULL = object()


class UnsupportedForm(Exception):
    """The condition has no form that the parser supports, so SQLite must evaluate it."""


class InvalidPath(Exception):
    """A JSON path is invalid. SQLite reports the error when it reads the first document."""


class ParameterValues:
    """The values of a condition's parameters, with ``?`` numbered as in SQLite."""

    def __init__(self, tokens: Sequence[Token], parameters: Parameters) -> None:
        """Assign the values to the parameters among ``tokens``. Raises UnsupportedForm if one has no value."""
        self._values_by_offset: dict[int, object] = {}
        is_named = isinstance(parameters, Mapping)
        values: Mapping[Any, object] = parameters if isinstance(parameters, Mapping) else dict(enumerate(parameters, 1))
        max_number = 0
        for token in tokens:
            if token.kind != "parameter":
                continue
            if token.text[0] == "?":
                number = int(token.text[1:] or max_number + 1)  # after ?5, a ? is the sixth
                max_number = max(max_number, number)
                if is_named or number not in values:
                    raise UnsupportedForm
                self._values_by_offset[token.start] = values[number]
            elif is_named and token.text[1:] in values:
                self._values_by_offset[token.start] = values[token.text[1:]]
            else:
                raise UnsupportedForm
        #: True if there are more values than parameters.
        self.has_unused = not is_named and max_number != len(parameters)

    def get_value(self, token: Token) -> Any:
        """Return the value of the parameter ``token`` like the value of a literal: :data:`NULL`, a number or a string.

        Raises UnsupportedForm for other types.
        """
        value = self._values_by_offset[token.start]
        if value is None:
            return NULL
        if isinstance(value, bool):
            return int(value)
        if type(value) is int and -(1 << 63) <= value < 1 << 63:
            return value
        if type(value) is float:
            return NULL if math.isnan(value) else value  # SQLite stores NaN as NULL
        if type(value) is str and is_text(value):
            return value
        raise UnsupportedForm


def parse_number(text: str) -> float:
    """Return the number of a literal as SQLite reads it: an integer if it fits in 64 bits, else a float."""
    try:
        integer = int(text)
    except ValueError:
        return float(text)
    return integer if -(1 << 63) <= integer < 1 << 63 else float(text)


def parse_json_key(text: str) -> tuple[str, ...]:
    """Return the names in the right operand of -> or ->>: a single name, or a path if the operand begins with ``$``.

    Raises InvalidPath for an invalid path, and UnsupportedForm for an empty name or an array index.
    """
    if text.startswith("$"):
        return parse_path(text)
    if not text or text.startswith("["):
        raise UnsupportedForm
    return (text,)


def parse_path(text: str) -> tuple[str, ...]:
    """Return the names of a path such as ``$.a."b c"``.

    Raises InvalidPath for a path that is invalid in SQLite, and UnsupportedForm for one with an array index or without
    a name.
    """
    if not _PATH_PATTERN.fullmatch(text):
        raise InvalidPath
    names: list[str] = []
    position = 1
    while position < len(text):
        name_match = _STEP_PATTERN.match(text, position)
        if name_match is None:
            raise UnsupportedForm
        names.append(name_match["plain_name"] or name_match["quoted_name"])
        position = name_match.end()
    if not names:
        raise UnsupportedForm
    return tuple(names)
