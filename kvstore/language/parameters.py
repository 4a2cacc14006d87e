"""Parameters of statements: the placeholders of a script, each with its value.

In: the ``?`` and ``:name`` tokens of a script, and the values that the caller passed. Out: the values by offset, and a
query with the values of its own parameters. A value that is missing, surplus or not storable raises a
:class:`~kvstore.errors.StatementError` that points at the parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..arguments import MAX_DIGITS, format_count, is_representable, is_text, to_plain_value
from ..errors import StatementError, shorten
from ..registry.sql_table import Parameters, SqlValue
from ..sql.diagnosis import describe_parameter_error, make_statement_error
from ..sql.tokens import Token, iter_tokens
from ..text.patterns import compile_lazily
from . import statements

#: White space of the language that is not white space in SQLite.
_FOREIGN_SPACE_PATTERN = compile_lazily(r"[^\S \t\n\f\r]")


class Parameter(NamedTuple):
    """The value of a ``:name`` parameter, or of a ``?`` if the name is empty."""

    name: str
    value: SqlValue


def bind_parameters(text: str, parameter_tokens: list[Token], parameters: Parameters) -> dict[int, Parameter]:
    """Return the value of each parameter of a script, by the offset of its token in ``text``.

    ``parameters`` is a sequence for ``?`` or a mapping for ``:name``. Raises StatementError for a missing, surplus or
    invalid value.
    """
    if isinstance(parameters, (str, bytes)):
        raise StatementError("parameters must be a sequence or a mapping; for one value write (value,)")
    is_named = isinstance(parameters, Mapping)
    parameters_by_offset: dict[int, Parameter] = {}
    for position, token in enumerate(parameter_tokens):
        name = token.text[1:]
        has_colon = token.text[0] == ":"
        is_numbered = bool(name) and not has_colon  # ?1, which is not supported
        if has_colon and text[token.start - 1 : token.start] == ":":  # key::text
            raise make_statement_error(
                text, token.start - 1, f"write CAST(value AS {shorten(name)}) instead of value::{shorten(name)}"
            )
        if has_colon != is_named or is_numbered:
            remedy = "give the values as a mapping" if has_colon else f"write {':name' if is_named else '?'}"
            problem = "is a numbered parameter" if is_numbered else "does not match the kind of parameters"
            raise make_statement_error(text, token.start, f"{shorten(token.text)} {problem}; {remedy}")
        if isinstance(parameters, Mapping):
            if name not in parameters:
                raise make_statement_error(text, token.start, f"no value was given for {shorten(token.text)}")
            value = parameters[name]
        else:
            value = parameters[position] if position < len(parameters) else None  # too few: an error below
        parameters_by_offset[token.start] = Parameter(name, _check_value(text, token.start, to_plain_value(value)))
    if not is_named and len(parameter_tokens) != len(parameters):
        num_expected = len(parameter_tokens)
        raise StatementError(
            f"expected {format_count(num_expected, 'parameter value')}, one for each ?, but got {len(parameters)}"
        )
    return parameters_by_offset


def _check_value(text: str, offset: int, value: Any) -> SqlValue:
    """Return the value of the parameter at ``offset`` unchanged. Raises StatementError if SQL cannot express it."""
    if value is not None and not isinstance(value, (str, int, float, bytes)):
        raise make_statement_error(text, offset, describe_parameter_error(type(value).__name__))
    if isinstance(value, int) and not is_representable(value):
        raise make_statement_error(
            text, offset, f"the value is a number of more than {MAX_DIGITS} digits; pass it as text"
        )
    if isinstance(value, str) and not is_text(value):
        raise make_statement_error(text, offset, "the value contains a character that is not Unicode")
    return value


def build_query(text: str, start: int, end: int, parameters: Mapping[int, Parameter]) -> statements.Select:
    """Return the query in characters ``start`` to ``end`` of a script, with the values of its parameters.

    ``parameters`` has the parameters of the whole script, by offset.
    """
    query_parameters = [parameter for offset, parameter in parameters.items() if start <= offset < end]
    values_by_name = {parameter.name: parameter.value for parameter in query_parameters if parameter.name}
    query = text[start:end]
    if _FOREIGN_SPACE_PATTERN.search(query):
        # White space that SQLite does not know, such as a no-break space, becomes a space.
        query = "".join(
            _FOREIGN_SPACE_PATTERN.sub(" ", token.text) if token.kind == "space" else token.text
            for token in iter_tokens(query)
        )
    return statements.Select(query, values_by_name or tuple(parameter.value for parameter in query_parameters))
