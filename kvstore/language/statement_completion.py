"""Completion of statements: a pure function of the text before the cursor.
A *terminal* is a keyword or a kind of token of the grammar that may come next. *Words* are the tokens of a statement in
capitals. The *catalog* lists the names in the store.

In: that text, and a :class:`StatementCatalog` of the names in the store and the file system. Out: completions, each
with the offset from which it replaces the text. The grammar decides what is valid, so no completion leads to an error.
Invalid text has no completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from .. import language
from ..sql.assignments import ASSIGNABLE_COLUMNS
from ..sql.descriptions import list_tables
from . import Token, format_identifier, format_literal, iter_tokens

if TYPE_CHECKING:
    from ..database.database import Database

#: The words of SQL that completion offers inside a query or a condition.
SQL_WORDS = (
    "AND", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "COLLATE", "COUNT", "CROSS", "DESC", "DISTINCT", "ELSE", "END",
    "EXCEPT", "EXISTS", "FROM", "GLOB", "GROUP", "HAVING", "IN", "INNER", "INTERSECT", "IS", "JOIN", "LEFT", "LIKE",
    "LIMIT", "MATCH", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OVER", "PARTITION", "RECURSIVE", "SELECT", "THEN",
    "UNION", "USING", "VALUES", "WHEN", "WHERE", "WITH",
)  # fmt: skip
#: The terminals that are SQL expressions, or the rest of one.
_EXPRESSIONS = frozenset({"CONDITION", "CONDITION_TEXT", "ASSIGNMENTS"})
#: The words that can occur in an expression.
_EXPRESSION_WORDS = frozenset(
    {"AND", "BETWEEN", "CASE", "CAST", "COLLATE", "ELSE", "END", "EXISTS", "GLOB", "IN", "IS", "LIKE", "MATCH", "NOT",
     "NULL", "OR", "THEN", "WHEN"}
)  # fmt: skip
_DIRECTIONS = frozenset({"UP", "DOWN", "BOTH"})
#: The keywords of clauses, each of which a statement may have once.
_CLAUSES = _DIRECTIONS | {
    "DEPTH", "IN", "LIMIT", "META", "MODEL", "SOURCE", "TABLE", "TEXT", "TITLE", "TOP", "USING", "WHERE", "WITH",
    "WITHIN", "WORDS",
}  # fmt: skip
_MAX_COMPLETIONS = 50


class StatementCatalog:
    """The names in the store that ``get_store`` returns, which completion may offer. Tables, strategies and trees are
    cached until :meth:`clear_cache`; everything else is read at every call.
    """

    def __init__(self, get_store: Callable[[], Database]) -> None:
        """Create a catalog of the store that ``get_store`` returns, with an empty cache."""
        self._get_store = get_store
        self.clear_cache()

    def clear_cache(self) -> None:
        """Clear the cache, so that names added since the last completion are offered."""
        self._tables: dict[str, list[str]] = {}
        self._strategies: dict[str, list[str]] = {}
        self._trees: list[str] | None = None

    def list_tables(self) -> Mapping[str, Sequence[str]]:
        """Return the tables by name, each with the names of its columns. They are cached."""
        if not self._tables:
            self._tables = {table.name: [column.name for column in table.columns] for table in list_tables()}
        return self._tables

    def list_strategies(self) -> Mapping[str, Sequence[str]]:
        """Return the strategies by name, each with the names of its options. They are cached."""
        if not self._strategies:
            self._strategies = {strategy.name: list(strategy.options) for strategy in self._get_store().strategies()}
        return self._strategies

    def list_settings(self) -> Sequence[str]:
        """Return the names of the settings that SET may change."""
        return [name for name, _, is_fixed in self._get_store().settings_table() if not is_fixed]

    def list_trees(self) -> Sequence[str]:
        """Return the names of at most 100 entity trees. They are cached."""
        if self._trees is None:
            from .executor import execute  # most completions need no query

            self._trees = [name for (name,) in execute(self._get_store(), "SELECT name FROM trees LIMIT 100")]
        return self._trees

    def list_entity_names(self, prefix: str, limit: int) -> Sequence[str]:
        """Return at most ``limit`` names of entities that begin with a prefix."""
        with self._get_store().snapshot() as snapshot:
            return snapshot.names(prefix, limit)

    def list_document_keys(self, prefix: str, limit: int) -> Sequence[str]:
        """Return at most ``limit`` document keys that begin with a prefix."""
        with self._get_store().snapshot() as snapshot:
            return snapshot.keys(prefix, limit)

    def list_paths(self, prefix: str) -> Sequence[str]:
        """Return the paths that begin with a prefix: none, unless a subclass knows files."""
        return []


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion: ``text`` replaces the input from character ``start``; ``kind`` labels it, such as ``table``."""

    text: str
    start: int
    kind: str


def complete_statement(typed_text: str, catalog: StatementCatalog) -> list[Completion]:
    """Return the completions of ``typed_text``, the text before the cursor, the most likely kinds first.

    ``catalog`` lists the names in the store.
    """
    statement_start, last_token = _find_partial_token(typed_text)
    start = len(typed_text) if last_token is None else last_token.start
    partial_token = typed_text[start:]
    statement = typed_text[statement_start:start]
    return [
        Completion(suggestion.text, start, suggestion.kind)
        for suggestion in _iter_suggestions(statement, partial_token, catalog)
    ]


class _Suggestion(NamedTuple):
    """A text that may follow a statement, and its kind."""

    text: str
    kind: str


def _make_suggestions(texts: Iterable[str], kind: str) -> Iterator[_Suggestion]:
    """Yield a suggestion of this kind for each text."""
    return (_Suggestion(text, kind) for text in texts)


def _find_partial_token(typed_text: str) -> tuple[int, Token | None]:
    """Return the character offset of the last statement of a script, and the last token if the user may be typing it.

    The token is None if it is finished, such as white space or a string with its closing quote.
    """
    statement_start, last_token = 0, None
    for token in iter_tokens(typed_text):
        if token.kind == "semicolon":
            statement_start = token.end
        last_token = token
    if last_token is None:
        return statement_start, None
    is_closed_string = last_token.kind == "string" and last_token.is_closed
    is_finished = is_closed_string or last_token.kind in ("space", "semicolon", "operator", "number")
    return statement_start, None if is_finished else last_token


def _iter_suggestions(statement: str, partial_token: str, catalog: StatementCatalog) -> Iterator[_Suggestion]:
    """Yield the suggestions to complete ``partial_token``, the unfinished last token of the text, after ``statement``.

    ``catalog`` lists the names in the store.
    """
    if partial_token.startswith(("--", "/*", ":", "?")):
        return
    words = [token.text.upper() for token in iter_tokens(statement) if token.kind not in ("space", "comment")]
    used_clauses = _CLAUSES.intersection(words)  # they are not offered again
    if used_clauses & _DIRECTIONS:
        used_clauses |= _DIRECTIONS  # UP, DOWN and BOTH exclude each other
    valid_terminals = language.list_expected_terminals(statement) - used_clauses
    name_prefix = partial_token.lstrip('"')
    columns = _list_assignable_columns(words)
    if columns is not None:
        yield from _filter_matching(_make_suggestions(columns, "column"), name_prefix)
    elif partial_token.startswith("'"):
        yield from _iter_strings(words, valid_terminals, partial_token[1:].replace("''", "'"), catalog)
    elif partial_token.startswith('"') and valid_terminals & {"QUERY_TEXT", *_EXPRESSIONS}:
        names = dict.fromkeys(column for columns in catalog.list_tables().values() for column in columns)
        yield from _make_suggestions((f'"{name}"' for name in names if name.startswith(partial_token[1:])), "column")
    elif "QUERY_TEXT" in valid_terminals:
        yield from _filter_matching(_iter_query_words(words, catalog), name_prefix)
    else:
        yield from _filter_matching(_iter_words(words, valid_terminals, catalog), name_prefix)
        if "STRING" in valid_terminals and "NAME" not in valid_terminals:
            yield from _iter_strings(words, valid_terminals, name_prefix, catalog)


def _iter_words(
    words: Sequence[str], valid_terminals: frozenset[str], catalog: StatementCatalog
) -> Iterator[_Suggestion]:
    """Yield the columns, keywords and names that can follow the ``words`` of a statement outside of a query."""
    if valid_terminals & _EXPRESSIONS:
        yield from _make_suggestions(catalog.list_tables()["documents"], "column")
        yield from _make_suggestions(sorted(_EXPRESSION_WORDS), "keyword")
    yield from _make_suggestions(sorted(valid_terminals & language.get_keywords()), "keyword")
    if "QUERY" in valid_terminals:
        yield from _make_suggestions(("SELECT", "VALUES", "WITH"), "keyword")
    if "NAME" in valid_terminals:
        yield from _iter_names(words, catalog)


def _list_assignable_columns(words: Sequence[str]) -> list[str] | None:
    """Return the columns that can follow ``words``, the beginning of an UPDATE documents, as the next to assign.

    After ``UPDATE documents SET title = 'Tea',`` these are ``content`` and ``meta``. The list is empty after a column,
    where only ``=`` is valid. Return None if the words begin another statement, or end inside a value or after WHERE.
    """
    if list(words[:3]) != ["UPDATE", "DOCUMENTS", "SET"]:
        return None
    depth = 0
    assigned_columns = []
    for previous_word, word in pairwise(["", *words]):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and word == "WHERE":
            return None
        if depth == 0 and previous_word in ("SET", ","):
            assigned_columns.append(word)
    if depth != 0:
        return None  # in the parentheses of a value
    if words[-1] in ("SET", ","):
        return [column for column in ASSIGNABLE_COLUMNS if column.upper() not in assigned_columns]
    ends_with_column = words[-2] in ("SET", ",")
    return [] if ends_with_column else None


def _filter_matching(suggestions: Iterable[_Suggestion], partial_token: str) -> Iterator[_Suggestion]:
    """Yield the suggestions whose texts begin with ``partial_token``, ignoring case."""
    return (suggestion for suggestion in suggestions if suggestion.text.lower().startswith(partial_token.lower()))


def _iter_strings(
    words: Sequence[str], valid_terminals: frozenset[str], prefix: str, catalog: StatementCatalog
) -> Iterator[_Suggestion]:
    """Yield the document keys, entities, paths or trees that begin with ``prefix``, as literals that may come next.

    ``words`` are the words of the statement so far, and ``valid_terminals`` the terminals that may follow them.
    ``catalog`` lists the names in the store.
    """
    if "STRING" not in valid_terminals or not words:
        return
    names: Sequence[str]
    begins_with_path = words[0] in ("INGEST", "BACKUP", "EXPORT", "IMPORT") and len(words) <= 2
    is_copy_target = words[-2:] == [")", "TO"]  # COPY (query) TO
    if words[-1] == "TREE":
        kind, names = "tree", [tree for tree in catalog.list_trees() if tree.startswith(prefix)]
    elif begins_with_path or is_copy_target:
        kind, names = "path", catalog.list_paths(prefix)
    elif words[-1] == "DOCUMENT" and words[0] != "INSERT":
        kind, names = "document", catalog.list_document_keys(prefix, _MAX_COMPLETIONS)
    elif words[-1] in ("LOOKUP", "EXPAND", "ENTITY", "UNDER", "INTO", "FOR", ",", "EDGE", "ALIAS"):
        kind, names = "entity", catalog.list_entity_names(prefix, _MAX_COMPLETIONS)
    else:
        return
    yield from _make_suggestions(map(format_literal, names), kind)


def _iter_names(words: Sequence[str], catalog: StatementCatalog) -> Iterator[_Suggestion]:
    """Yield the names, such as strategies and tables of ``catalog``, that can follow ``words`` of a statement."""
    last_word = words[-1] if words else ""
    if last_word in ("USING", "STRATEGY") or (words[:1] == ["SET"] and words[-2:] == ["STRATEGY", "="]):
        strategies: Iterable[str] = catalog.list_strategies()
        if words[0] == "SEARCH":
            strategies = [name for name in strategies if name in ("vector", "lexical", "hybrid")]
        yield from _make_suggestions(strategies, "strategy")
    elif last_word == "TABLE":
        yield from _make_suggestions(catalog.list_tables(), "table")
    elif last_word == "DESCRIBE":
        yield from _make_suggestions(catalog.list_tables(), "table")
        yield from _make_suggestions(language.list_described_kinds(), "kind")
    elif last_word == "INDEX":
        yield from _make_suggestions(language.list_index_kinds(), "index")
    elif last_word == "EXPAND":
        yield from _make_suggestions(language.list_outlined_kinds(), "index")
    elif last_word == "EXTRACT":
        yield from _make_suggestions(language.list_extraction_kinds(), "kind")
    elif last_word == "SET":
        yield from _make_suggestions(catalog.list_settings(), "setting")
    elif last_word in ("(", ",") and words[0] == "INGEST":
        yield from _make_suggestions(language.list_ingest_options(), "option")
    elif last_word in ("(", ","):
        yield from _make_suggestions(map(format_identifier, _list_options(words, catalog)), "option")


def _list_options(words: Sequence[str], catalog: StatementCatalog) -> Sequence[str]:
    """Return the options of the index or strategy in a statement, or of all strategies if it has neither.

    ``reranker`` is valid for every strategy.
    """
    if words[:2] == ["CREATE", "INDEX"]:
        index_kind = words[2].lower()
        return language.list_index_kinds().get(index_kind, ())
    strategies = catalog.list_strategies()
    strategy_name = words[words.index("USING") + 1].lower() if "USING" in words[:-1] else ""
    if strategy_name in strategies:
        return [*strategies[strategy_name], "reranker"]
    return sorted({"reranker", *(option for options in strategies.values() for option in options)})


def _iter_query_words(words: Sequence[str], catalog: StatementCatalog) -> Iterator[_Suggestion]:
    """Yield tables and columns of ``catalog`` and keywords that can follow the words (in capitals) of a query."""
    tables = catalog.list_tables()
    if words[-1] in ("FROM", "JOIN") or (words[-1] == "," and _is_after_from(words)):
        yield from _make_suggestions(tables, "table")
        return
    named_tables = [table for table in tables if table.upper() in words] or list(tables)
    columns = dict.fromkeys(column for table in named_tables for column in tables[table])
    yield from _make_suggestions(
        (f'"{column}"' if column.upper() in SQL_WORDS else column for column in columns), "column"
    )
    yield from _make_suggestions(SQL_WORDS, "keyword")
    yield from _make_suggestions(tables, "table")


def _is_after_from(words: Sequence[str]) -> bool:
    """True if FROM is the last clause that the words of a query begin."""
    clauses = [word for word in words if word in ("SELECT", "FROM", "WHERE", "GROUP", "ORDER")]
    return clauses[-1:] == ["FROM"]
