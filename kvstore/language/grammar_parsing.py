"""Parsing by the grammar: every statement except a query, and the *terminals* that may follow a text. A terminal is a
keyword or a kind of token of the grammar. CONDITION, ASSIGNMENTS and QUERY are terminals of several tokens, which
SQLite parses. Lark's ``choices`` are the next possible terminals.

In: the tokens of one statement, and the values of its parameters. Out: its dataclass. The error for an invalid token
lists the expected terminals and suggests the nearest keyword. The grammar is ``grammar.lark`` (LALR); it is loaded with
the first statement that needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import islice
from typing import Any, NamedTuple

from lark import Lark
from lark import Token as Terminal
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer

from ..errors import StatementError, shorten, suggest
from ..sql import condition as conditions
from ..sql.diagnosis import MAX_COPIED, make_quote_error, make_statement_error
from ..sql.literals import format_literal
from ..sql.tokens import Token, iter_tokens, unquote
from . import statements
from .builder import Builder
from .parameters import Parameter

#: The names that errors use for the grammar's terminals other than keywords.
_DESCRIPTIONS = {
    "STRING": "a string in single quotes",
    "NUMBER": "a number",
    "NAME": "a name",
    "CONDITION": "a condition",
    "ASSIGNMENTS": "an assignment",
    "QUERY": "SELECT",
    "COMMA": "','",
    "EQUAL": "'='",
    "LPAR": "'('",
    "RPAR": "')'",
    "$END": "the end of the statement",
}
#: The terminals that are SQL text of several tokens.
_EXPRESSION_TERMINALS = frozenset({"CONDITION", "ASSIGNMENTS"})
#: Terminals that errors omit, since another listed terminal covers them.
_UNMENTIONED_TERMINALS = frozenset({"PARAMETER", "QUOTED", "MINUS"})
_OPERATOR_TERMINALS = {",": "COMMA", "=": "EQUAL", "(": "LPAR", ")": "RPAR", "-": "MINUS"}


class _NoLexer(Lexer):
    """A placeholder lexer: the parser is fed token by token."""

    def __init__(self, lexer_conf: Any) -> None:
        """Accept the configuration that Lark passes, which is not needed."""

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Terminal]:
        """Return no terminals: the parser is fed with tokens of kvstore's own lexer."""
        return iter(())


_FIXED = "the tables are fixed; SHOW TABLES lists them"
_INSERT = "INSERT DOCUMENT 'key' TITLE '...' TEXT '...' META '{...}' stores a document with your own fields"
_LEAVE = ".exit leaves the shell"
_OTHER_STORE = "a statement works on one store; .open STORE in the shell, and kvstore.open() in Python, open another"
_PLAIN_TRANSACTION = "BEGIN, COMMIT and ROLLBACK take no options"
_NO_SAVEPOINT = "a transaction has no savepoints; ROLLBACK undoes all of it"
_UPDATE = "UPDATE DOCUMENT 'key' SET TITLE = '...', META = '{...}' changes a document"

#: The first words of other databases' statements, and the equivalent here; * matches any word.
_OTHER_DATABASE_HINTS = {
    "ABORT": "did you mean ROLLBACK?",
    "ALTER": f"{_FIXED}; to add fields of your own, use META",
    "ANALYZE": "did you mean EXPLAIN ANALYZE?",
    "ATTACH": _OTHER_STORE,
    "BEGIN *": _PLAIN_TRANSACTION,
    "COMMIT *": _PLAIN_TRANSACTION,
    "COPY *": "COPY (SELECT ...) TO 'file' writes rows to a file; INGEST 'file' stores the rows of a file as documents",
    "CREATE * TABLE": f"{_FIXED}; {_INSERT}",
    "CREATE INDEX * ON": "keys and the fields of META are always indexed; CREATE INDEX takes a kind that SHOW "
    "INDEXES lists",
    "CREATE TABLE": f"{_FIXED}; {_INSERT}",
    "CREATE VIEW": f"{_FIXED}; WITH name AS (SELECT ...) SELECT ... names a query",
    "DELETE DOCUMENTS": "did you mean DELETE FROM documents WHERE?",
    "DELETE FROM *": "the other tables are derived from the documents; did you mean DELETE FROM documents WHERE?",
    "DETACH": _OTHER_STORE,
    "DROP DOCUMENT": "did you mean DELETE DOCUMENT?",
    "DROP TABLE": f"{_FIXED}; DELETE FROM documents WHERE ... deletes documents",
    "DUMP": "did you mean EXPORT?",
    "END": "did you mean COMMIT?",
    "EXIT": _LEAVE,
    "EXPLAIN QUERY": "did you mean EXPLAIN SELECT?",
    "FROM CHUNKS": "did you mean SELECT * FROM chunks?",
    "FROM DOCUMENTS": "did you mean SELECT * FROM documents?",
    "FROM ENTITIES": "did you mean SELECT * FROM entities?",
    "HELP": "SHOW TABLES lists the tables, SHOW STRATEGIES the strategies, and .help the commands of the shell",
    "INSERT INTO": _INSERT,
    "INSERT OR": f"{_INSERT}; {_UPDATE}",
    "LOAD": "did you mean INGEST?",
    "MERGE INTO": f"{_INSERT}; {_UPDATE}",
    "PRAGMA INTEGRITY_CHECK": "did you mean CHECK?",
    "PRAGMA TABLE_INFO": "did you mean DESCRIBE table?",
    "PRAGMA": "SHOW SETTINGS lists the settings, SET name = value changes one, and CHECK verifies the store",
    "QUIT": _LEAVE,
    "REINDEX": "did you mean REFRESH?",
    "RELEASE": _NO_SAVEPOINT,
    "REPAIR": "did you mean CHECK REPAIR?",
    "REPLACE": f"{_INSERT}; {_UPDATE}",
    "ROLLBACK TO": _NO_SAVEPOINT,
    "ROLLBACK *": _PLAIN_TRANSACTION,
    "SAVEPOINT": _NO_SAVEPOINT,
    "SHOW ALL": "did you mean SHOW SETTINGS?",
    "SHOW COLUMNS": "did you mean DESCRIBE table?",
    "SHOW CREATE": "did you mean DESCRIBE table?",
    "SHOW DATABASES": _OTHER_STORE,
    "SHOW DOCUMENTS": "did you mean SELECT key FROM documents?",
    "SHOW ENTITIES": "did you mean SELECT name FROM entities?",
    "SHOW SCHEMAS": _OTHER_STORE,
    "SHOW VARIABLES": "did you mean SHOW SETTINGS?",
    "START": "did you mean BEGIN?",
    "TABLES": "did you mean SHOW TABLES?",
    "TRUNCATE": "did you mean DELETE FROM documents WHERE?",
    "UPDATE * SET": "the other tables are derived from the documents; did you mean UPDATE documents SET?",
    "UPSERT": f"{_INSERT}; {_UPDATE}",
    "USE": _OTHER_STORE,
    "VACUUM": "did you mean COMPACT?",
}
#: The maximum number of words that identify a statement of another database.
_MAX_HINT_WORDS = 4
#: The number of tokens of a long text that are parsed before the rest is read.
_NUM_FIRST_TOKENS = 64


@functools.cache
def _load_grammar() -> Lark:
    """Return the parser of ``grammar.lark``, built once per process."""
    text = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer=_NoLexer, propagate_positions=True, maybe_placeholders=True)


@functools.cache
def get_keywords() -> frozenset[str]:
    """Return every keyword of the language in capitals, including the first words of a query."""
    keywords = {terminal.name for terminal in _load_grammar().terminals if str(terminal.pattern.value).isalpha()}
    return frozenset(keywords | statements.QUERY_WORDS)


def _make_unexpected_error(
    text: str, token: Token | None, expected: set[str], tokens: Sequence[Token] = ()
) -> StatementError:
    """Return the error for an invalid ``token``, or for the end of the text if it is None.

    ``expected`` are the terminals of the grammar (keywords and kinds of tokens) that are valid there. ``tokens`` are
    the tokens of the statement, for a hint if it is a statement of another database (empty: no hint).
    """
    names = [_DESCRIPTIONS.get(terminal, terminal) for terminal in expected - _UNMENTIONED_TERMINALS]
    names.sort(key=lambda name: (not name.isupper(), name))  # keywords first
    expectation = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    if token is None:
        if expected == {"WHERE"}:
            expectation += "; WHERE true selects all documents"
        return make_statement_error(text, len(text.rstrip()), f"the statement ends too early; expected {expectation}")
    hint = _find_other_database_hint(tokens, token)
    if "COPY" in expected:  # where COPY is valid, a statement begins
        reason = f"no statement begins with {shorten(token.text)}"
        advice = hint or _suggest_statement(token, expected, tokens) or f"a statement begins with {expectation}"
        return make_statement_error(text, token.start, f"{reason}; {advice}")
    if token.kind == "word" and text[: token.start].endswith("'"):  # 'Widow's and Bob's'
        return make_quote_error(text, token.start - 1)
    reason = f"expected {expectation}, found {shorten(token.text)}"
    remedy = hint or _suggest_correction(token, expected)
    return make_statement_error(text, token.start, f"{reason}; {remedy}" if remedy else reason)


def _suggest_statement(token: Token, expected: set[str], tokens: Sequence[Token]) -> str | None:
    """Return the remedy for a ``token`` that begins no statement, or None if nothing can be suggested.

    It is a similar keyword of those in ``expected`` or, if all ``tokens`` of the text are words, a SEARCH for them.
    """
    suggestion = suggest(token.text, _list_keywords(expected))
    if suggestion:
        return f"did you mean {suggestion}?"
    if len(tokens) > 1 and all(word.kind == "word" for word in tokens):  # parental leave
        words = " ".join(word.text for word in tokens[:MAX_COPIED])
        return f"to search for text, write SEARCH {format_literal(shorten(words, MAX_COPIED))};"
    return None


def _suggest_correction(token: Token, expected: set[str]) -> str | None:
    """Return the remedy for a ``token`` in place of the ``expected`` terminals, or None if nothing can be suggested."""
    word = token.text.upper()
    if "STRING" in expected and word == "STDOUT":
        return "a SELECT prints its rows; .mode csv, or --mode csv on the command line, prints them as CSV"
    if "STRING" in expected and token.kind in ("word", "quoted"):
        unquoted_text = token.text if token.kind == "word" else unquote(token.text)
        return f"text is written in single quotes: {format_literal(shorten(unquoted_text, MAX_COPIED))}"
    if "TOP" in expected and word == "LIMIT":
        return "did you mean TOP?"
    if "$END" in expected and word in _list_keywords(list_expected_terminals("")):  # it begins a statement
        return "if a statement begins here, end the one before it with ';'"
    suggestion = suggest(token.text, _list_keywords(expected)) if token.kind == "word" else None
    return f"did you mean {suggestion}?" if suggestion else None


def _find_other_database_hint(tokens: Sequence[Token], token: Token) -> str | None:
    """Return a hint if ``tokens`` begin with a statement of another database, such as VACUUM, else None.

    ``token`` is the invalid token. It must be one of the words that identify the statement. In a pattern of these
    words, ``*`` matches any word.
    """
    first_tokens = tokens[:_MAX_HINT_WORDS]
    words = [first_token.text.upper() for first_token in first_tokens]
    token_index = next(
        (index for index, first_token in enumerate(first_tokens) if first_token.start == token.start), len(words)
    )
    for pattern, hint in _OTHER_DATABASE_HINTS.items():
        pattern_words = pattern.split(" ")
        if token_index < len(pattern_words) <= len(words) and all(
            pattern_word in ("*", word) for pattern_word, word in zip(pattern_words, words, strict=False)
        ):
            return hint
    return None


def _list_keywords(terminals: Iterable[str]) -> list[str]:
    """Return the terminals of the grammar that are keywords.

    If the terminal QUERY (a SQL query) is among them, the keywords that a query can begin with are also returned.
    """
    keywords = [terminal for terminal in terminals if terminal in get_keywords()]
    return keywords + sorted(statements.QUERY_WORDS) if "QUERY" in terminals else keywords


def parse_by_grammar(
    text: str, tokens: list[Token], parameters: dict[int, Parameter]
) -> tuple[statements.Statement, conditions.OffsetMap]:
    """Return the statement that ``tokens`` of ``text`` form, and the map that locates errors in its condition.

    The map is from offsets in the condition to offsets in ``text``; it is empty without a condition. ``parameters`` has
    the parameters by offset in ``text``. Raises StatementError for invalid tokens.
    """
    parser: Any = _load_grammar().parse_interactive()
    position = 0
    offset_map: conditions.OffsetMap = ()
    while position < len(tokens):
        step = _feed_token(parser, text, tokens, position, parameters)
        position, offset_map = step.next_position, offset_map or step.offset_map
    try:
        tree = parser.feed_eof(_make_terminal("$END", tokens[-1]))
    except UnexpectedToken:
        raise _make_unexpected_error(text[: tokens[-1].end], token=None, expected=parser.accepts()) from None
    return Builder(text, parameters).build_statement(tree), offset_map


def list_expected_terminals(text: str) -> frozenset[str]:
    """Return the terminals (keywords in capitals, and kinds of tokens) that may follow the beginning of a statement.

    QUERY means that a query may begin, CONDITION that a condition may begin. QUERY_TEXT and CONDITION_TEXT mean that
    a query or a condition may continue; with CONDITION_TEXT, the keywords of the clauses that may follow are also
    returned. For invalid text the result is empty, except in a condition, which may continue.
    """
    first_tokens = list(islice(_iter_first_statement(text), _NUM_FIRST_TOKENS))
    if len(first_tokens) == _NUM_FIRST_TOKENS:
        # An error in the first tokens of a long text is found without reading the rest.
        terminals = _list_terminals_after(text, first_tokens, has_more_tokens=True)
        if terminals is not None:
            return terminals
        first_tokens = list(_iter_first_statement(text))
    return _list_terminals_after(text, first_tokens) or frozenset()


def _iter_first_statement(text: str) -> Iterator[Token]:
    """Yield the tokens of the first statement of a script, without white space, complete comments and semicolons."""
    is_empty = True
    for token in iter_tokens(text):
        if token.kind == "semicolon" and not is_empty:
            return
        if token.kind not in ("space", "comment", "semicolon") or not token.is_closed:
            is_empty = False
            yield token


def _list_terminals_after(text: str, tokens: list[Token], *, has_more_tokens: bool = False) -> frozenset[str] | None:
    """Return the terminals that may follow ``tokens``, the beginning of a statement.

    QUERY_TEXT and CONDITION_TEXT mean that a query or a condition may continue. For invalid tokens the result is empty,
    except in a condition. With ``has_more_tokens``, further tokens follow. The result is then None unless ``tokens``
    are invalid, because the further tokens decide.
    """
    parser: Any = _load_grammar().parse_interactive()
    parameters = {token.start: Parameter(name="", value=None) for token in tokens}  # their values do not matter here
    position = 0
    condition_terminals: frozenset[str] = frozenset()
    while position < len(tokens):
        choices = parser.choices()
        begins_query = _is_query_start(tokens[position], choices)
        begins_expression = not choices.keys().isdisjoint(_EXPRESSION_TERMINALS)
        if has_more_tokens and (begins_query or begins_expression):
            return None
        if begins_query and _find_query_end(tokens, position) == len(tokens):
            return frozenset({"QUERY_TEXT"})
        condition_terminals = frozenset({"CONDITION_TEXT"} if "CONDITION" in choices else ())
        if "ASSIGNMENTS" in choices:
            condition_terminals = frozenset({"CONDITION_TEXT", "WHERE"})
        try:
            position = _feed_token(parser, text, tokens, position, parameters).next_position
        except StatementError:
            return condition_terminals  # a parenthesis of the condition may still be closed
    if has_more_tokens:
        return None
    # AS SVG is a clause of the enclosing EXPLAIN.
    is_explain = tokens and tokens[0].text.upper() == "EXPLAIN"
    return (condition_terminals | frozenset(parser.accepts())) - (frozenset() if is_explain else {"SVG"})


def _make_terminal(kind: str, token: Token, *, text: str | None = None, end: int | None = None) -> Terminal:
    """Return a terminal of the grammar for a token. ``kind`` is the terminal's name, such as ``STRING``.

    A terminal of several tokens begins with ``token``, has this ``text``, and ends at character ``end``.
    """
    return Terminal(
        kind, token.text if text is None else text, start_pos=token.start, end_pos=token.end if end is None else end
    )


class _ParseStep(NamedTuple):
    """A step of the parser: a terminal of the grammar that it reads, and the position of the token after it.

    ``offset_map`` maps the offsets in the text of a condition or of assignments to offsets in the statement; it is
    empty for other terminals.
    """

    terminal: Terminal
    next_position: int
    offset_map: conditions.OffsetMap = ()


def _feed_token(
    parser: Any, text: str, tokens: list[Token], position: int, parameters: Mapping[int, Parameter]
) -> _ParseStep:
    """Feed the parser the terminal that begins with token ``position``; return the terminal and the next position.

    A query, a condition and assignments are one terminal each. ``parameters`` has the parameters by offset in ``text``.
    Raises StatementError if the terminal is invalid here.
    """
    token = tokens[position]
    conditions.check_token(text, token)
    choices = parser.choices()
    if _is_query_start(token, choices):
        step = _make_query_step(text, tokens, position)
    elif kinds := choices.keys() & _EXPRESSION_TERMINALS:
        (kind,) = kinds
        step = _make_expression_step(kind, text, tokens, position, parameters)
    else:
        step = _ParseStep(_make_terminal(_get_terminal_name(token, choices), token), position + 1)
    try:
        parser.feed_token(step.terminal)
    except UnexpectedToken:
        raise _make_unexpected_error(text, token, parser.accepts(), tokens) from None
    return step


def _make_query_step(text: str, tokens: list[Token], position: int) -> _ParseStep:
    """Return the step that reads the query from token ``position`` on as one terminal; SQLite parses it later.

    Raises StatementError for an invalid token.
    """
    end_position = _find_query_end(tokens, position)
    for token in tokens[position:end_position]:
        conditions.check_token(text, token)
    start, end = tokens[position].start, tokens[end_position - 1].end
    return _ParseStep(_make_terminal("QUERY", tokens[position], text=text[start:end], end=end), end_position)


def _make_expression_step(
    kind: str, text: str, tokens: list[Token], position: int, parameters: Mapping[int, Parameter]
) -> _ParseStep:
    """Return the step that reads the condition or assignments (``kind``) from token ``position`` on as one terminal.

    In its text, literals of the values replace the parameters; the offset map of the step maps that text to the
    statement. Raises StatementError if it is empty.
    """
    end_position = conditions.find_condition_end(text, tokens, position, with_where=kind == "ASSIGNMENTS")
    if end_position == position:
        raise _make_unexpected_error(text, tokens[position], {kind})
    values = {offset: parameter.value for offset, parameter in parameters.items()}
    source, offset_map = conditions.inline_parameters(tokens[position:end_position], values)
    terminal = _make_terminal(kind, tokens[position], text=source, end=tokens[end_position - 1].end)
    return _ParseStep(terminal, end_position, offset_map)


def _is_query_start(token: Token, choices: Mapping[str, Any]) -> bool:
    """True if a token begins a query, which SQLite parses; ``choices`` are the terminals that are valid there."""
    return "QUERY" in choices and token.kind == "word" and token.text.upper() in statements.QUERY_WORDS


def _find_query_end(tokens: Sequence[Token], position: int) -> int:
    """Return the position of the token after the query that begins with token ``position``.

    A query ends before the ``)`` that closes the parenthesis around it, or else with the last token.
    """
    depth = 0
    for index in range(position, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth < 0:
            return index
    return len(tokens)


def _get_terminal_name(token: Token, choices: Mapping[str, Any]) -> str:
    """Return the name of the terminal for ``token``. A word is a keyword only if ``choices`` has the keyword.

    ``choices`` are the terminals that are valid at the token.
    """
    if token.kind == "word":
        word = token.text.upper()
        return word if word in choices and word in get_keywords() else "NAME"
    if token.kind == "operator":
        return _OPERATOR_TERMINALS.get(token.text, "OPERATOR")
    return token.kind.upper()
