"""The parser of a script: statements of the language, separated by ``;``, with parameters (``?`` or ``:name``).

In: one statement or a script, and the values of its parameters. Out: for each statement its dataclass and its offset.
Invalid input raises a :class:`~kvstore.errors.StatementError` that shows the line with a caret under the error. SQLite
parses a query; the grammar of all other statements is loaded with the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ..arguments import check_path
from ..registry.sql_table import Parameters
from ..sql import condition as conditions
from ..sql.diagnosis import make_quote_error, make_statement_error
from ..sql.literals import format_literal
from ..sql.tokens import Token, split_statements
from . import statements
from .parameters import Parameter, bind_parameters, build_query
from .questions import find_plain_question, find_unquoted_question

_EXPLAIN_WORDS = frozenset({"EXPLAIN", "ANALYZE"})
#: Statements that can store something in an empty store, or prepare for it.
_FILLING_STATEMENTS = (
    statements.Ingest,
    statements.ImportFile,
    statements.InsertDocument,
    statements.InsertEdge,
    statements.CreateIndex,
    statements.Begin,
    statements.SetSetting,
)


class ParsedStatement(NamedTuple):
    """A statement, its offset in the text, and the map from offsets in its condition to offsets in the text."""

    statement: statements.Statement
    start: int
    offset_map: conditions.OffsetMap


def parse(text: str, parameters: Parameters = ()) -> list[ParsedStatement]:
    """Return the parsed statements of a script, in which ``;`` separates them.

    ``parameters`` are the values of ``?`` (a sequence, in order over the whole script) or of ``:name`` (a mapping).
    Raises StatementError for the first error, including a wrong number or type of parameters.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise make_statement_error(
            text.encode(errors="replace").decode(), error.start, "this character is not Unicode"
        ) from None
    question = find_plain_question(text)
    if question is not None:
        start = len(text) - len(text.lstrip())
        raise make_statement_error(text, start, f"to ask a question, write ASK {format_literal(question)};")
    token_lists = list(split_statements(text))  # the tokens of each statement
    for tokens in token_lists:
        _require_quotes(text, tokens)
        _require_doubled_quotes(text, tokens)
    parameter_tokens = [token for tokens in token_lists for token in tokens if token.kind == "parameter"]
    parameters_by_offset = bind_parameters(text, parameter_tokens, parameters)
    return [_parse_statement(text, tokens, parameters_by_offset) for tokens in token_lists]


def _require_quotes(text: str, tokens: Sequence[Token]) -> None:
    """Raise StatementError if the text after ASK, RETRIEVE or SEARCH is not in quotes, as in ``EXPLAIN ASK who?``.

    ``tokens`` are the tokens of the statement. The caller checks this before it binds parameters, because the question
    mark of an unquoted text looks like one.
    """
    index = next((index for index, token in enumerate(tokens) if token.text.upper() not in _EXPLAIN_WORDS), 0)
    question = find_unquoted_question(text[tokens[index].start :])
    if question is not None:
        word = tokens[index].text.upper()
        reason = f"the text after {word} is not in single quotes; write {word} {format_literal(question)}"
        raise make_statement_error(text, tokens[index + 1].start, reason)


def _require_doubled_quotes(text: str, tokens: Sequence[Token]) -> None:
    """Raise StatementError if a quote inside a string, as in ``'What's that?'``, leaves another string unclosed.

    ``tokens`` are the tokens of the statement. The caller checks this before it binds parameters, because the question
    mark of such text looks like one.
    """
    if tokens[-1].kind == "string" and not tokens[-1].is_closed:
        for string, token in pairwise(tokens):
            if string.kind == "string" and token.kind == "word" and string.end == token.start:
                raise make_quote_error(text, token.start - 1)


def can_fill_store(text: str, parameters: Parameters = ()) -> bool:
    """True if a script has a statement that stores something in an empty store, or BEGIN, SET or CREATE INDEX.

    Raises StatementError for an invalid script, and ReaderError or InputError if the path of an INGEST or IMPORT cannot
    be read.
    """
    script = [parsed_statement.statement for parsed_statement in parse(text, parameters)]
    for statement in script:
        if isinstance(statement, statements.Ingest):
            from ..ingest.sources import check_source

            check_path("a path to ingest", statement.path)
            check_source(statement.path, statement.format)
        elif isinstance(statement, statements.ImportFile):
            from ..database.exchange import check_export

            check_path("a path to import", statement.path)
            check_export(statement.path)
    return any(isinstance(statement, _FILLING_STATEMENTS) for statement in script)


def _parse_statement(text: str, tokens: list[Token], parameters: dict[int, Parameter]) -> ParsedStatement:
    """Return the statement that ``tokens`` of a script form. A query is not parsed, because SQLite parses it.

    ``parameters`` has the parameters by offset in ``text``.
    """
    start = tokens[0].start
    if tokens[0].kind == "word" and tokens[0].text.upper() in statements.QUERY_WORDS:
        for token in tokens:
            conditions.check_token(text, token)
        return ParsedStatement(build_query(text, start, tokens[-1].end, parameters), start, offset_map=())
    from .grammar_parsing import parse_by_grammar

    statement, offset_map = parse_by_grammar(text, tokens, parameters)
    return ParsedStatement(statement, start, offset_map)
