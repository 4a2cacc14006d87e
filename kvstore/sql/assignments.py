"""The assignments of UPDATE documents: the columns that change, and a query for their new values.
The *source* is the text after SET, such as ``title = upper(title) WHERE key LIKE 'hr/%'``. An *offset map* maps offsets
in the query to offsets in the source, for error messages.

In: the source. Out: the columns and the query, which SQLite evaluates. A column that UPDATE cannot change, a repeated
column, and a missing ``=``, value or condition raise a :class:`~kvstore.sql.condition.ConditionError` that points at
them.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import suggest
from .condition import ConditionError, OffsetMap, map_offset
from .tokens import Token, split_statements, unquote

#: The columns of ``documents`` that UPDATE can change.
ASSIGNABLE_COLUMNS = ("content", "meta", "title")
#: The text around the values and the condition in the query, which evaluates the values once. They are repeated in the
#: condition, where SQLite rejects an aggregate, such as max(key), as it does in an UPDATE.
_QUERY_START, _FROM_CLAUSE, _AGGREGATE_CHECK = "SELECT key, ", " FROM documents WHERE (", ") AND coalesce(true, "
#: The last column of the query if the content changes, to compare the new content with.
_OLD_CONTENT = ", content"


class Assignments(NamedTuple):
    """The ``columns`` that an UPDATE changes, and the ``query`` for the key and the new values of each document.

    If the content changes, the query also returns the old content, as the last value of each row.

    ``source`` is the text after SET, and ``offset_map`` maps offsets in the query to offsets in the source. In the
    query, a parenthesis closes each value and the condition; ``expression_ends`` has, by its offset, the word ``value``
    or ``condition`` for the error message.
    """

    columns: tuple[str, ...]
    query: str
    source: str
    offset_map: OffsetMap
    expression_ends: dict[int, str]

    def make_error(self, offset: int | None, reason: str) -> ConditionError:
        """Return an error for an ``offset`` in the query (None: unknown), which points to the place in the source.

        If SQLite rejects a parenthesis that the user did not write (``expression_ends``), the value or condition before
        it is incomplete, and the error says so instead of ``reason``.
        """
        if offset in self.expression_ends:
            reason = f"the {self.expression_ends[offset]} ends too early"
        return ConditionError(self.source, None if offset is None else map_offset(offset, self.offset_map), reason)


def parse_assignments(source: str) -> Assignments:
    """Return the assignments in ``source``, the text after SET. Raises ConditionError if it is invalid.

    The query for ``title = upper(title) WHERE key = 'a'`` is ``SELECT key, (upper(title)) FROM documents WHERE (key =
    'a') AND coalesce(true, (upper(title)))``. Its last condition is always true; it makes SQLite reject aggregates.
    """
    (tokens,) = split_statements(source)  # the source has no ";"
    values = _parse_values(source, tokens)
    where_position = values.end_position
    condition_start = tokens[where_position].end if where_position < len(tokens) else len(source)
    if where_position == len(tokens) - 1:
        raise ConditionError(source, condition_start, "expected a condition after WHERE")
    _reject_query(source, tokens[where_position + 1 :], "condition")
    query = f"{_QUERY_START}{values.text}){_OLD_CONTENT if 'content' in values.columns else ''}{_FROM_CLAUSE}"
    # Pairs of an offset in the query and the corresponding offset in the source.
    offset_map = [(0, 0), (len(_QUERY_START), 0), (len(_QUERY_START) + len(values.text), len(values.text))]
    offset_map.append((len(query), condition_start))
    query += source[condition_start:] or "true"
    expression_ends = {**{len(_QUERY_START) + end: "value" for end in values.value_ends}, len(query): "condition"}
    query += _AGGREGATE_CHECK
    offset_map.append((len(query), 0))
    query += f"{values.text}))"
    return Assignments(
        tuple(values.columns), query=query, source=source, offset_map=tuple(offset_map), expression_ends=expression_ends
    )


class _AssignedValues(NamedTuple):
    """The assigned ``columns``, and the ``text`` of their new values: SQL expressions in parentheses.

    The text is the source with a parenthesis and spaces in place of each ``column =``, which keeps the offsets. The
    parenthesis after the last value is missing. ``value_ends`` are the offsets at which the values end.
    ``end_position`` is the index of the token after the assignments: WHERE, or the number of tokens.
    """

    columns: list[str]
    text: str
    value_ends: list[int]
    end_position: int


def _parse_values(source: str, tokens: list[Token]) -> _AssignedValues:
    """Return the assigned columns and values at the beginning of ``source``, whose ``tokens`` are given.

    For ``title = upper(title), meta = '{}'``, the text of the values is ``(       upper(title)),(      '{}'``. Raises
    ConditionError if an assignment is invalid.
    """
    columns: list[str] = []
    text = ""
    value_ends: list[int] = []
    position = 0
    while True:
        next_position = _find_assignment_end(tokens, position)
        next_offset = tokens[next_position].start if next_position < len(tokens) else len(source)
        columns.append(_parse_column(source, tokens[position:next_position], columns, next_offset))
        value_start = tokens[position + 1].end  # after the "="
        opening = "),(" if text else "("
        text += opening.ljust(value_start - len(text)) + source[value_start : tokens[next_position - 1].end]
        value_ends.append(len(text))
        if next_position == len(tokens) or tokens[next_position].text != ",":
            return _AssignedValues(columns, text, value_ends, end_position=next_position)
        position = next_position + 1


def _find_assignment_end(tokens: list[Token], position: int) -> int:
    """Return the index of the comma or WHERE after the assignment that begins at token ``position``.

    Without one outside parentheses, return the number of tokens.
    """
    depth = 0
    for index in range(position, len(tokens)):
        text = tokens[index].text.upper()
        if depth == 0 and text in (",", "WHERE"):
            return index
        depth += {"(": 1, ")": -1}.get(text, 0)
    return len(tokens)


def _parse_column(source: str, assignment: list[Token], earlier_columns: list[str], end: int) -> str:
    """Return the column of ``assignment``, the tokens of ``column = value``. Raises ConditionError if it is invalid.

    A column among ``earlier_columns`` is invalid too. ``end`` is the offset in ``source`` of the token after the
    assignment, or of the end; an error about an empty assignment points there.
    """
    if not assignment or assignment[0].kind not in ("word", "quoted"):
        offset = assignment[0].start if assignment else end
        raise ConditionError(source, offset, f"expected an assignment, such as {ASSIGNABLE_COLUMNS[-1]} = 'New title'")
    name_token = assignment[0]
    name = unquote(name_token.text) if name_token.kind == "quoted" else name_token.text
    column = name.lower()
    if column not in ASSIGNABLE_COLUMNS:
        suggestion = "content" if column == "text" else suggest(column, ASSIGNABLE_COLUMNS)
        remedy = f"did you mean {suggestion}?" if suggestion else f"it can change {', '.join(ASSIGNABLE_COLUMNS)}"
        raise ConditionError(source, name_token.start, f"UPDATE cannot change {name}; {remedy}")
    if column in earlier_columns:
        raise ConditionError(source, name_token.start, f"{column} is assigned twice")
    if len(assignment) < 3 or assignment[1].text != "=":
        offset = assignment[1].start if len(assignment) > 1 else name_token.end
        raise ConditionError(source, offset, f"expected {column} = and a value")
    _reject_query(source, assignment[2:], "value")
    return column


def _reject_query(source: str, expression: list[Token], noun: str) -> None:
    """Raise ConditionError if the tokens of an expression in ``source`` begin a query, which would need parentheses.

    ``noun``, "value" or "condition", is what the error calls the expression.
    """
    if expression and expression[0].text.upper() in ("SELECT", "VALUES"):
        reason = f"a {noun} is an expression; put parentheses around a query in it"
        raise ConditionError(source, expression[0].start, reason)
