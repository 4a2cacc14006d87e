"""The assignments of UPDATE documents: the columns that change, and a query for their new values.

In: the text after SET, such as ``title = upper(title) WHERE key LIKE 'hr/%'``. Out: the columns and the query, which
SQLite evaluates. A column that UPDATE cannot change, a repeated column, and a missing ``=``, value or
condition raise a :class:`~kvstore.sql.condition.ConditionError` that points at them.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import suggest
from .condition import ConditionError
from .tokens import Token, split_statements, unquote

#: The columns of ``documents`` that UPDATE can change.
_COLUMNS = ("content", "meta", "title")
_QUERY_START, _FROM_CLAUSE = "SELECT key, ", " FROM documents WHERE ("


class Assignments(NamedTuple):
    """The ``columns`` that an UPDATE changes, and the ``query`` for the key and the new values of each document.

    In the text after SET, the values end at the offset ``values_end``, and the condition begins at ``condition_start``.
    """

    columns: tuple[str, ...]
    query: str
    values_end: int
    condition_start: int

    def map_offset(self, offset: int) -> int:
        """Return the offset in the text after SET that corresponds to an offset in the query."""
        source_offset = max(0, offset - len(_QUERY_START))
        if source_offset <= self.values_end:
            return source_offset
        return self.condition_start + max(0, source_offset - self.values_end - len(_FROM_CLAUSE))


def parse_assignments(source: str) -> Assignments:
    """Return the assignments in the text after SET; raises ConditionError."""
    (tokens,) = split_statements(source)
    columns: list[str] = []
    values: list[str] = []  # the source with spaces in place of each "column =", which keeps the offsets
    position = values_end = 0
    while True:
        next_position = _find_assignment_end(tokens, position)
        columns.append(_parse_column(source, tokens[position:next_position], columns))
        value_start = tokens[position + 1].end  # after the "="
        comma = "," if values else ""
        values.append(comma.ljust(value_start - values_end) + source[value_start : tokens[next_position - 1].end])
        values_end = tokens[next_position - 1].end
        if next_position == len(tokens) or tokens[next_position].text != ",":
            break
        position = next_position + 1
    condition_start = tokens[next_position].end if next_position < len(tokens) else len(source)
    if next_position == len(tokens) - 1:
        raise ConditionError(source, condition_start, "expected a condition after WHERE")
    condition = source[condition_start:] or "true"
    query = f"{_QUERY_START}{''.join(values)}{_FROM_CLAUSE}{condition})"
    return Assignments(tuple(columns), query, values_end, condition_start)


def _find_assignment_end(tokens: list[Token], position: int) -> int:
    """Return the index of the comma or WHERE after the assignment that begins at ``position``, else of the end."""
    depth = 0
    for index in range(position, len(tokens)):
        text = tokens[index].text.upper()
        if depth == 0 and text in (",", "WHERE"):
            return index
        depth += {"(": 1, ")": -1}.get(text, 0)
    return len(tokens)


def _parse_column(source: str, assignment: list[Token], earlier_columns: list[str]) -> str:
    """Return the column of an assignment ``column = value``, given as tokens; raises ConditionError."""
    if not assignment or assignment[0].kind not in ("word", "quoted"):
        offset = assignment[0].start if assignment else len(source)
        raise ConditionError(source, offset, f"expected an assignment, such as {_COLUMNS[-1]} = 'New title'")
    name = unquote(assignment[0].text) if assignment[0].kind == "quoted" else assignment[0].text
    column = name.lower()
    if column not in _COLUMNS:
        suggestion = "content" if column == "text" else suggest(column, _COLUMNS)
        remedy = f"did you mean {suggestion}?" if suggestion else f"it can change {', '.join(_COLUMNS)}"
        raise ConditionError(source, assignment[0].start, f"UPDATE cannot change {name}; {remedy}")
    if column in earlier_columns:
        raise ConditionError(source, assignment[0].start, f"{column} is assigned twice")
    if len(assignment) < 3 or assignment[1].text != "=":
        offset = assignment[1].start if len(assignment) > 1 else assignment[0].end
        raise ConditionError(source, offset, f"expected {column} = and a value")
    return column
