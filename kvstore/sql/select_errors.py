"""Errors of SELECT: what SQLite reports, in kvstore's terms, with a suggestion for a wrong name or word.
The *position* of an error is its offset in the text of the query, or None if SQLite does not report it.

In: an SQLite error and the text of the query. Out: a :class:`~kvstore.errors.StatementError` that points at the error,
or an :class:`~kvstore.errors.InputError` for a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import apsw

from ..arguments import format_count
from ..errors import InputError, StatementError, shorten, suggest
from .diagnosis import MAX_COPIED, describe_parameter_error
from .literals import format_literal
from .table_catalog import get_sql_tables
from .tokens import unquote

#: Makes the error for an offset in the query (None: unknown) and a reason.
MakeError = Callable[[int | None, str], StatementError]
_UNKNOWN_POSITION = None

#: Words that a misspelled word of a query is compared with.
_SQL_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "HAVING", "LIMIT", "OFFSET", "JOIN", "LEFT", "RIGHT", "FULL",
    "INNER", "OUTER", "CROSS", "NATURAL", "ON", "USING", "UNION", "ALL", "EXCEPT", "INTERSECT", "DISTINCT", "AS",
    "AND", "OR", "NOT", "LIKE", "GLOB", "MATCH", "BETWEEN", "IN", "IS", "NULL", "EXISTS", "CASE", "WHEN", "THEN",
    "ELSE", "END", "CAST", "COLLATE", "WITH", "RECURSIVE", "OVER", "PARTITION", "WINDOW", "FILTER", "ASC", "DESC",
    "NULLS", "FIRST", "LAST", "VALUES",
)  # fmt: skip

_TOO_DEEP = "the expression is nested too deeply; use fewer parentheses, or IN with a list"
#: The reasons for messages of SQLite that begin with these words.
_REASONS_BY_MESSAGE = {
    "Recursion limit": _TOO_DEEP,
    "parser stack overflow": _TOO_DEEP,
    "Expression tree is too large": _TOO_DEEP,
    "string or blob too big": "a value is too long; shorten it, or select less text",
    "datatype mismatch": "the value of LIMIT or OFFSET is not a whole number",
    "too many SQL variables": (
        "the query has more than 32,766 parameters; pass a JSON list as one parameter, and write "
        "IN (SELECT value FROM json_each(?))"
    ),
}

_LIMIT = "LIMIT n at the end of a query limits its rows"
_NO_PATTERNS = "there are no regular expressions; use LIKE, GLOB or MATCH"
_DATE_PART = "strftime('%Y', date) returns the year of a date"
#: Words and functions of other databases, and the equivalent here.
_OTHER_DATABASE_HINTS = {
    "ARRAY_AGG": "json_group_array() returns values as a list",
    "DATE_TRUNC": "date(date, 'start of month') truncates a date",
    "EXTRACT": _DATE_PART,
    "FETCH": _LIMIT,
    "ILIKE": "LIKE ignores the case of ASCII letters",
    "LEFT": "substr(text, 1, n) returns the first n characters",
    "NOW": "datetime('now') returns the time in UTC",
    "REGEXP": _NO_PATTERNS,
    "REGEXP_MATCHES": _NO_PATTERNS,
    "REGEXP_REPLACE": _NO_PATTERNS,
    "RIGHT": "substr(text, -n) returns the last n characters",
    "RLIKE": _NO_PATTERNS,
    "SIMILAR": _NO_PATTERNS,
    "TO_CHAR": _DATE_PART,
    "TOP": _LIMIT,
    "UNNEST": "json_each() returns the elements of a list as rows",
    "YEAR": _DATE_PART,
    "~": _NO_PATTERNS,
    "~*": _NO_PATTERNS,
}

#: The beginning of a statement of kvstore where a query must have a table or a subquery.
_STATEMENT_PATTERN = re.compile(
    r"(?:\(|\bFROM)\s*(?P<statement>SEARCH|RETRIEVE|ASK|LOOKUP|EXPAND)\s+['?:]", re.IGNORECASE
)


def translate_error(error: Exception, text: str, make_error: MakeError) -> Exception:
    """Return the kvstore error for an SQLite error, or an error in a parameter, in the query ``text``.

    ``make_error`` creates the error for a position in the query and a reason. Any other error is returned unchanged.
    """
    if isinstance(error, apsw.BindingsError):
        # "The current statement uses 2 and there are 1 supplied."
        counts = re.search(r"uses (?P<expected>\d+) and there are (?P<passed>\d+)", str(error))
        if counts is not None:
            values = format_count(int(counts["expected"]), "parameter value")
            return make_error(_UNKNOWN_POSITION, f"expected {values}, one for each ?, but got {counts['passed']}")
    if isinstance(error, apsw.Error):
        offset = getattr(error, "error_offset", -1)
        position = len(text.encode()[:offset].decode()) if offset >= 0 else None
        return _explain_message(str(error), position, text, make_error)
    if isinstance(error, KeyError):
        name = f":{error.args[0]}"
        return make_error(max(0, text.find(name)), f"no value was given for {shorten(name)}")
    if isinstance(error, OverflowError):
        return InputError("a parameter is a whole number of more than 64 bits; pass it as text")
    if isinstance(error, UnicodeDecodeError):
        return make_error(
            _UNKNOWN_POSITION, "a text in the result is not valid UTF-8; hex() shows the bytes of a blob as text"
        )
    if isinstance(error, UnicodeEncodeError):
        return InputError("a parameter contains half of a surrogate pair, which is not valid text")
    if isinstance(error, TypeError):
        _, _, type_name = str(error).rpartition(" type ")
        return InputError(describe_parameter_error(type_name))
    return error


def _explain_message(message: str, position: int | None, text: str, make_error: MakeError) -> StatementError:
    """Return the error for an SQLite message in kvstore's terms, with a suggestion for a wrong name.

    ``position`` is the position of the error in the query ``text``, or None if SQLite does not report it.
    ``make_error`` creates the error for a position and a reason.
    """
    kind, _, name = message.partition(": ")
    name = name.removeprefix("main.")
    is_misplaced = kind == "no such table" or kind.startswith('near "')
    statement_match = _STATEMENT_PATTERN.search(text) if is_misplaced else None
    if statement_match is not None:
        statement = statement_match["statement"].upper()
        return make_error(
            statement_match.start("statement"),
            f"{statement} is a statement, which cannot be part of a query; run it first, then select the documents of "
            "its rows",
        )
    if kind == "no such table":
        position = text.lower().find(name.lower()) if position is None else position
        tables = get_sql_tables()
        suggestion = suggest(name, tables)
        remedy = f"did you mean {suggestion}?" if suggestion else f"the tables are {', '.join(tables)}"
        return make_error(max(position, 0), f"there is no table {shorten(name)}; {remedy}")
    if kind == "no such column":
        return make_error(position, _explain_missing_column(name, text))
    if kind in ("not authorized", "authorization denied") or message.startswith("not authorized"):
        return make_error(position, "SELECT can only read, and only the tables of the store")
    reason = next((reason for beginning, reason in _REASONS_BY_MESSAGE.items() if message.startswith(beginning)), None)
    if reason is not None:
        return make_error(position, reason)
    if kind == "ambiguous column name":
        return make_error(position, f"several tables have a column {shorten(name)}; write table.{shorten(name)}")
    if kind == "no such function":
        return make_error(position, f"{message}; {_suggest_function(name)}")
    if kind == "incomplete input":
        return make_error(len(text), "the query ends too early")
    return make_error(position, _explain_syntax_error(message, position, text) or message)


def _explain_syntax_error(message: str, position: int | None, text: str) -> str | None:
    """Return the reason for SQLite's message ``near "FORM": syntax error``, with a suggestion; None for other messages.

    Also returns None if the token is not a word, such as the 3 of ``LIMT 3``, and nothing can be suggested.
    """
    token_match = re.match(r'near "(?P<token>.+)": syntax error', message)
    if token_match is None:
        return None
    token = token_match["token"]
    suggestion = _suggest_word(token, position, text)
    if re.fullmatch(r"[^\W\d]\w*", token):  # a word
        return f"{token} is not valid here{suggestion}"
    return f"{shorten(token)} is not valid here{suggestion}" if suggestion else None


def _explain_missing_column(name: str, text: str) -> str:
    """Return the reason for SQLite's message on a missing column in the query ``text``, with a suggestion.

    ``name`` is the rest of the message: the column, optionally with its table or with a question about quotes.
    """
    # "tea" - should this be a string literal in single-quotes?
    quoted_match = re.match(r'(?P<quoted_name>"[^"]+") - should this be a string', name)
    if quoted_match:
        quoted_name = quoted_match["quoted_name"]
        literal = format_literal(shorten(unquote(quoted_name), MAX_COPIED))
        return f"there is no column {shorten(quoted_name)}; text is written in single quotes: {literal}"
    qualifier, _, column = name.split(" ")[0].rpartition(".")
    # For a column with a table, such as chunks.txt, only the columns of that table are suggested.
    query = f"SELECT * FROM {qualifier}" if qualifier in get_sql_tables() else text
    hint = _suggest_columns(column.strip('"'), query)
    return f"there is no column {shorten(name)}{hint}"


def _suggest_word(unexpected_word: str, position: int | None, text: str) -> str:
    """Return a suggestion for the word ``unexpected_word``, which SQLite rejected, or else for the word before it.

    ``unexpected_word`` is at ``position`` in ``text``, the query (None: at the end). For a word of another database,
    such as ILIKE, the suggestion is the equivalent. Returns "" if both words are correct or no SQL word is similar.
    """
    text_before = text if position is None else text[:position]
    preceding_match = re.search(r"(?P<word>[^\W\d]\w*)\s+$", text_before)  # the last word
    words = [unexpected_word] if preceding_match is None else [unexpected_word, preceding_match["word"]]
    for word in words:
        hint = _OTHER_DATABASE_HINTS.get(word.upper())
        if hint is not None and word.upper() not in _SQL_WORDS:
            return f"; {hint}"
        suggestion = suggest(word, _SQL_WORDS)
        if suggestion and suggestion.lower() != word.lower():
            return f"; did you mean {suggestion}" + ("?" if word == unexpected_word else f" instead of {word}?")
    return ""


def _suggest_function(name: str) -> str:
    """Return the remedy for an unknown function: its equivalent, the SQLite function with a similar name, or advice."""
    if hint := _OTHER_DATABASE_HINTS.get(name.upper()):
        return hint
    functions = apsw.Connection(":memory:").execute("SELECT DISTINCT name FROM pragma_function_list")
    suggestion = suggest(name, (function for (function,) in functions))
    return f"did you mean {suggestion}?" if suggestion else "use the functions of SQLite"


def _suggest_columns(column: str, text: str) -> str:
    """Return a hint for a column that the query ``text`` cannot use.

    It names the tables that have the column. If no table has it, it suggests a similar column of the tables in the
    query. Otherwise, it only says how to read a metadata field or list the columns. It can be empty.
    """
    tables_by_name = get_sql_tables()
    reading_hint = _make_reading_hint(column, text)
    tables_by_column: dict[str, list[str]] = {}
    for table in tables_by_name.values():
        for name in table.all_columns:
            tables_by_column.setdefault(name.lower(), []).append(table.name)
    if table_names := tables_by_column.get(column.lower()):
        return f"; tables that have it: {', '.join(table_names)}{reading_hint}"
    words = set(re.findall(r"\w+", text.lower()))
    queried_tables = [table for name, table in tables_by_name.items() if name.lower() in words]
    if suggestion := suggest(column, [name for table in queried_tables for name in table.all_columns]):
        return f"; did you mean {suggestion}?"
    return reading_hint


def _make_reading_hint(column: str, text: str) -> str:
    """Return how to read ``column`` as a field of the metadata if the query ``text`` reads documents.

    For another table, return how to list its columns; return "" if the query reads no known table.
    """
    # A condition is checked in a query that reads documents, or candidates AS documents.
    read_names = re.findall(r'\b(?:from|join|as)\s+"?(\w+)', text.lower())
    if "documents" in read_names:
        return f"; meta ->> {format_literal(shorten(column))} reads a field of the metadata"
    read_table = next((name for name in read_names if name in get_sql_tables()), None)
    return f"; DESCRIBE {read_table} lists the columns" if read_table else ""
