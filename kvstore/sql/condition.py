"""SQL conditions inside statements: where a condition ends, and its text with the parameter values.
An *offset map* maps offsets in that text to offsets in the statement, so that errors point at the statement.

In: tokens of a statement, or a condition alone (``where=`` of the Python API). Out: the condition's end and its text
for SQLite. An unclosed or stray quote or parenthesis, or an invalid character, raises a
:class:`~kvstore.errors.StatementError` that points at it. SQLite validates the rest of the condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..errors import StatementError, shorten
from ..registry.sql_table import SqlValue
from .diagnosis import make_statement_error
from .literals import format_literal
from .tokens import Token, split_statements

#: Words that end a condition outside parentheses. None of them occurs there in SQL expressions (the AS of CAST is in
#: parentheses).
_END_WORDS = frozenset({"USING", "WHERE", "DEPTH", "TOP", "WITHIN", "WITH", "MODEL", "WORDS", "AS"})

_PARAMETER_REMEDY = "; write a parameter as ? or :name"
#: The remedy for each character that is not valid in a statement.
_REMEDIES = {
    "$": _PARAMETER_REMEDY,
    "@": _PARAMETER_REMEDY,
    "\\": "; a statement ends with ';'",  # SELECT 1 \g
    "{": "; write JSON in single quotes: '{\"year\": 2024}'",
}
#: A field or an element of a list in brackets directly after a value, as in ``meta['year']`` and ``tags[0]``. After a
#: space, brackets are the quotes of a name, as in ``AS [2024]``.
_SUBSCRIPT_PATTERN = re.compile(r"(?<=[\w'\")\]])\[(?:['\"][^]]*|\d+)\]")

#: For each token of a condition, its offset in the condition and its offset in the statement's text.
OffsetMap = tuple[tuple[int, int], ...]


class ConditionError(StatementError):
    """An error in a condition, at character ``offset`` (None if unknown)."""

    def __init__(self, condition: str, offset: int | None, reason: str) -> None:
        """Build the message: the ``reason``, and a line of ``condition``, a SQL text, with a caret at the offset."""
        located_error = StatementError(reason) if offset is None else make_statement_error(condition, offset, reason)
        super().__init__(str(located_error), line=located_error.line, column=located_error.column)
        self.offset = offset
        self.reason = reason


def check_token(text: str, token: Token) -> None:
    """Raise StatementError for an unknown character, and for a string, quoted name or comment that is not closed.

    Also raise it for ``meta['year']``, because SQLite would read the brackets as quotes of an alias.
    """
    if token.kind == "bad":
        remedy = _REMEDIES.get(token.text, "")
        raise make_statement_error(text, token.start, f"{token.text!r} is not valid in a statement{remedy}")
    if _SUBSCRIPT_PATTERN.match(text, token.start):
        raise make_statement_error(
            text, token.start, f"brackets do not read a field or an element; write ->> {shorten(token.text[1:-1])}"
        )
    if not token.is_closed:
        opening = "/*" if token.kind == "comment" else token.text[0]
        raise make_statement_error(text, token.start, f"the {opening} opened here is never closed")


def find_condition_end(text: str, tokens: Sequence[Token], position: int, *, with_where: bool = False) -> int:
    """Return the index of the first token after the condition that begins at token ``position``.

    ``tokens`` are the tokens of the statement, and ``text`` is its text. The condition ends before the next clause, at
    the end of the statement, or at the ``)`` that encloses the statement. With ``with_where``, a WHERE does not end it;
    this is for the assignments of UPDATE, whose condition follows them. Raises StatementError for an invalid token, an
    unbalanced parenthesis, or a query without parentheses.
    """
    earlier_texts = [token.text for token in tokens[:position]]
    # True for a condition in a statement in parentheses, as in COPY (SEARCH 'tea' WHERE ...) TO 'tea.csv'.
    is_enclosed = earlier_texts.count("(") > earlier_texts.count(")")
    open_parentheses: list[Token] = []
    end_words = _END_WORDS - {"WHERE"} if with_where else _END_WORDS
    if position < len(tokens) and tokens[position].text.upper() in ("SELECT", "VALUES"):
        raise make_statement_error(
            text, tokens[position].start, "a condition is an expression; put parentheses around a query in it"
        )
    while position < len(tokens):
        token = tokens[position]
        check_token(text, token)
        if token.text == "(":
            open_parentheses.append(token)
        elif token.text == ")":
            if not open_parentheses:
                if is_enclosed:
                    break
                raise make_statement_error(text, token.start, "this ')' has no matching '('")
            open_parentheses.pop()
        elif token.kind == "word" and not open_parentheses and token.text.upper() in end_words:
            break
        position += 1
    if open_parentheses:
        raise make_statement_error(text, open_parentheses[-1].start, "this '(' is never closed")
    return position


def inline_parameters(condition: Sequence[Token], values: Mapping[int, SqlValue]) -> tuple[str, OffsetMap]:
    """Return the text of a condition, with parameters replaced by literals and comments by spaces, and its offset map.

    Spaces separate a literal from other tokens, so that ``2-?`` with the value -3 does not begin a comment. The map has
    for each token its offset in the returned text and its offset in the statement. ``values`` has the value of each
    parameter by the parameter's offset in the statement.
    """
    pieces: list[str] = []
    offsets: list[tuple[int, int]] = []
    num_written, previous = 0, condition[0]
    for token in condition:
        space = " " if token.start > previous.end or "parameter" in (token.kind, previous.kind) else ""
        piece = _format_sql_literal(values[token.start]) if token.kind == "parameter" else token.text
        pieces += [space, piece]
        offsets.append((num_written + len(space), token.start))
        num_written += len(space) + len(piece)
        previous = token
    return "".join(pieces), tuple(offsets)


def map_offset(offset: int, offset_map: OffsetMap) -> int:
    """Return the offset in the statement's text that corresponds to character ``offset`` of the condition.

    ``offset_map`` has for each token of the condition its offset in the condition and in the statement, in order.
    """
    token_offset, statement_offset = offset_map[0]  # of the last token that begins at or before ``offset``
    for next_token_offset, next_statement_offset in offset_map:
        if next_token_offset <= offset:
            token_offset, statement_offset = next_token_offset, next_statement_offset
    return statement_offset + max(0, offset - token_offset)


def _format_sql_literal(value: SqlValue) -> str:
    """Return a value as a SQL expression. A text with a NUL becomes a CAST, because no SQL literal can contain it."""
    if isinstance(value, str) and "\0" in value:  # SQLite ends a statement at the first NUL
        return f"CAST(X'{value.encode().hex()}' AS TEXT)"
    return format_literal(value)


def check_condition(condition: str) -> None:
    """Raise StatementError unless ``condition`` is one SQL expression, without a clause or statement after it."""
    statements = list(split_statements(condition))
    if not statements:
        raise StatementError("the condition is empty; the condition true selects all documents")
    tokens, *further_statements = statements
    if further_statements:
        second_statement = further_statements[0]
        raise make_statement_error(condition, second_statement[0].start, "a condition is one expression, without ';'")
    position = find_condition_end(condition, tokens, 0)
    if position < len(tokens):
        raise make_statement_error(
            condition, tokens[position].start, f"{tokens[position].text} is not part of a condition"
        )
