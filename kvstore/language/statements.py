"""The statements of the language: one dataclass each, whose fields are the values of its clauses.
``str(statement)`` is its text, which parses to an equal statement. A missing clause is None (or an empty mapping), so
that the store's default applies.

In: the values that :mod:`.parser` found in a text, with parameters already substituted. The executor checks ranges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, dataclass_transform

from ..registry.sql_table import SqlValue
from ..sql.literals import Value, format_identifier, format_literal, quote_name

#: The first words of a query, which SQLite parses.
QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES"})

Direction = Literal["up", "down", "both"]
Subject = Literal["tables", "indexes", "strategies", "settings", "stats", "spent"]


def _format_questions(question: str | tuple[str, ...]) -> str:
    """Return the literal of a question, or of several questions in parentheses."""
    return format_literal(question) if isinstance(question, str) else f"({_format_literals(question)})"


def _format_literals(values: tuple[str, ...]) -> str:
    """Return the literals of some values, separated by commas."""
    return ", ".join(map(format_literal, values))


def _format_options(options: Mapping[str, Value]) -> str:
    """Return the clause WITH for some options, after a space; empty without options."""
    pairs = ", ".join(f"{format_identifier(option)} = {format_literal(value)}" for option, value in options.items())
    return f" WITH ({pairs})" if options else ""


def _format_unreserved(keywords: Collection[str], name: str) -> str:
    """Return a name as an identifier, in quotes if it equals one of ``keywords``, which are valid in its place."""
    return quote_name(name) if name.upper() in keywords else format_identifier(name)


#: The functions that format values in a template, by the names that the template uses.
_FORMS: Mapping[str, Callable[[Any], str]] = {
    "": format_literal,
    "index": partial(_format_unreserved, ("UP", "DOWN", "BOTH", "DEPTH", "IN", "LIMIT")),
    "literals": _format_literals,
    "name": format_identifier,
    "names": lambda names: ", ".join(map(format_identifier, names.split(", "))),
    "options": _format_options,
    "questions": _format_questions,
    "table": partial(_format_unreserved, ("DOCUMENT", "ENTITY", "STRATEGY")),
    "text": str,
    "tokens": "{} TOKENS".format,
    "upper": str.upper,
}


class _TemplateValue:
    """A value of a statement in its template, where ``{field}`` is the literal of the value.

    ``{field:|form}`` is the value in another form of ``_FORMS``. ``{field:KEYWORDS}`` and ``{field:KEYWORDS|form}`` are
    a clause after a space. It is omitted for None and False, and consists only of its keywords for True.
    """

    def __init__(self, value: Any) -> None:
        """Wrap the value of a field."""
        self._value = value

    def __format__(self, specification: str) -> str:
        """Return the text of the value or of its clause; ``specification`` is ``KEYWORDS``, ``|form`` or both."""
        keywords, _, form = specification.partition("|")
        if keywords and (self._value is None or isinstance(self._value, bool)):
            return f" {keywords}" if self._value else ""
        text = _FORMS[form](self._value)
        return f" {keywords} {text}" if keywords else text


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Statement:
    """A statement; ``str`` returns its text, without clauses that have no value.

    A subclass is a dataclass of the values of its clauses. It has a template of its text, or its own ``__str__``. Only
    mypy rejects assignments to the fields. Creating a frozen class takes twice as long, and the first statement of a
    process creates all of these classes.
    """

    #: The name of the grammar rule and of the handler: ``insert_edge`` for InsertEdge.
    rule: ClassVar[str]
    _template: ClassVar[str]

    def __init_subclass__(cls, template: str = "") -> None:
        """Make the subclass a dataclass, so that no subclass needs a decorator."""
        dataclass(cls)
        cls.rule = re.sub(r"\B[A-Z]", r"_\g<0>", cls.__name__).lower()
        cls._template = template

    def __str__(self) -> str:
        """Return the text of the statement, from its template."""
        return self._template.format_map({name: _TemplateValue(value) for name, value in vars(self).items()})


class Lookup(Statement, template="LOOKUP {entities:|literals}{limit:LIMIT}"):
    entities: tuple[str, ...]
    limit: int | None = None


class Expand(Statement, template=" {direction:|upper}{depth:DEPTH}{tree:IN TREE}{limit:LIMIT}"):
    """EXPAND of an entity; without one, of the result of the session's last LOOKUP."""

    entity: str | None = None
    direction: Direction = "both"
    depth: int | None = None
    tree: str | None = None
    limit: int | None = None

    def __str__(self) -> str:
        """Return the text of the statement; the entity, which has no keyword, precedes the clauses of the template."""
        return "EXPAND" + ("" if self.entity is None else f" {format_literal(self.entity)}") + super().__str__()


class ExpandIndex(Statement, template="EXPAND {kind:|index}{depth:DEPTH}"):
    """EXPAND of an index: its groups, from the coarsest down."""

    kind: str
    depth: int | None = None


class Search(Statement, template="SEARCH {text}{using:USING|names}{top:TOP}{where:WHERE|text}"):
    text: str
    using: str | None = None
    where: str | None = None
    top: int | None = None


class Retrieve(
    Statement,
    template="RETRIEVE {question:|questions}{using:USING|names}{depth:DEPTH}{top:TOP}{as_segments:AS SEGMENTS}"
    "{within:WITHIN|tokens}{where:WHERE|text}{options:|options}",
):
    """RETRIEVE: ``question`` is one question or several, ``top`` a number of hits, ``within`` a number of tokens.

    ``as_segments`` joins neighboring chunks into segments. ``options`` are the options of the strategy or of segments.
    """

    question: str | tuple[str, ...]
    using: str | None = None
    depth: int | None = None
    top: int | None = None
    within: int | None = None
    where: str | None = None
    options: Mapping[str, Value] = field(default_factory=dict)
    as_segments: bool = False


class Ask(
    Statement,
    template="ASK {question}{using:USING|names}{depth:DEPTH}{top:TOP}{as_segments:AS SEGMENTS}{within:WITHIN|tokens}"
    "{where:WHERE|text}{options:|options}{model:MODEL}{words:WORDS}",
):
    """ASK: a RETRIEVE, and an answer from its evidence, written by ``model`` or extracted in up to ``words`` words."""

    question: str
    using: str | None = None
    depth: int | None = None
    top: int | None = None
    within: int | None = None
    where: str | None = None
    options: Mapping[str, Value] = field(default_factory=dict)
    model: str | None = None
    as_segments: bool = False
    words: int | None = None


class Ingest(Statement, template="INGEST {path}{format:AS|name}{options:|options}"):
    path: str
    format: str | None = None
    options: Mapping[str, Value] = field(default_factory=dict)


class Extract(
    Statement,
    template="EXTRACT {kind:|name}{share:SHARE}{within:WITHIN|tokens}{by:BY|name}{where:WHERE|text}{model:MODEL}",
):
    """EXTRACT: ``share`` (of all tokens to send) or ``within`` limits the tokens sent.

    ``by`` is the method that chooses chunks if there are too many.
    """

    kind: str
    share: float | None = None
    within: int | None = None
    by: str | None = None
    where: str | None = None
    model: str | None = None


class InsertDocument(
    Statement,
    template="INSERT DOCUMENT {key}{format:AS|text}{source:SOURCE}{title:TITLE} TEXT {text}{meta:META}{whole:WHOLE}",
):
    """INSERT DOCUMENT; ``meta`` is JSON text. A ``whole`` document is stored as a single chunk."""

    key: str
    text: str
    title: str | None = None
    meta: str | None = None
    source: str | None = None
    format: str | None = None
    whole: bool = False


class UpdateDocument(Statement):
    """UPDATE DOCUMENT; fields that are None are not changed, and an empty title is removed. ``meta`` is JSON text."""

    key: str
    text: str | None = None
    title: str | None = None
    meta: str | None = None

    def __str__(self) -> str:
        changes = (("TEXT", self.text), ("TITLE", self.title), ("META", self.meta))
        assignments = ", ".join(f"{column} = {format_literal(value)}" for column, value in changes if value is not None)
        return f"UPDATE DOCUMENT {format_literal(self.key)} SET {assignments}"


class UpdateDocuments(Statement, template="UPDATE documents SET {assignments:|text}"):
    """UPDATE documents; ``assignments`` is the text after SET, with the condition."""

    assignments: str


class DeleteDocument(Statement, template="DELETE DOCUMENT {key}"):
    key: str


class DeleteDocuments(Statement, template="DELETE FROM documents WHERE {where:|text}"):
    where: str


class InsertEdge(Statement, template="INSERT EDGE {child} UNDER {parent}{tree:IN TREE}"):
    child: str
    parent: str
    tree: str | None = None


class DeleteEdge(Statement, template="DELETE EDGE {child} UNDER {parent}{tree:IN TREE}"):
    child: str
    parent: str
    tree: str | None = None


class MergeEntity(Statement, template="MERGE ENTITY {name} INTO {into}"):
    name: str
    into: str


class UnmergeEntity(Statement, template="UNMERGE ENTITY {name}"):
    name: str


class CreateAlias(Statement, template="ALIAS {name} FOR {entity}"):
    name: str
    entity: str


class DropAlias(Statement, template="DROP ALIAS {name}"):
    name: str


class CreateIndex(Statement, template="CREATE INDEX {kind:|name}{options:|options}"):
    kind: str
    options: Mapping[str, Value] = field(default_factory=dict)


class DropIndex(Statement, template="DROP INDEX {kind:|name}"):
    kind: str


class Refresh(Statement, template="REFRESH{index:INDEX|name}{model:MODEL}{within:WITHIN|tokens}"):
    """REFRESH of everything stale, or of one index.

    ``model`` writes the texts of the index, in requests of at most ``within`` tokens in total.
    """

    index: str | None = None
    model: str | None = None
    within: int | None = None


class Begin(Statement, template="BEGIN"):
    pass


class Commit(Statement, template="COMMIT"):
    pass


class Rollback(Statement, template="ROLLBACK"):
    pass


class Select(Statement, template="{text:|text}"):
    """A query for SQLite, as the user typed it, with the values of its parameters."""

    text: str
    parameters: Sequence[SqlValue] | Mapping[str, SqlValue] = ()


class Show(Statement, template="SHOW {subject:|upper}"):
    subject: Subject


class DescribeTable(Statement, template="DESCRIBE {table:|table}"):
    table: str


class DescribeDocument(Statement, template="DESCRIBE DOCUMENT {key}"):
    key: str


class DescribeEntity(Statement, template="DESCRIBE ENTITY {name}"):
    name: str


class DescribeStrategy(Statement, template="DESCRIBE STRATEGY {strategy:|name}"):
    strategy: str


class DescribeItem(Statement, template="DESCRIBE {kind:|table} {key}"):
    """DESCRIBE of an item that a system keeps; ``kind`` is the system's name for such items, such as a community."""

    kind: str
    key: str


class Check(Statement, template="CHECK{repair:REPAIR}"):
    repair: bool = False


class Compact(Statement, template="COMPACT"):
    pass


class Backup(Statement, template="BACKUP TO {path}"):
    path: str


class Export(Statement, template="EXPORT TO {path}{table:TABLE|name}"):
    """EXPORT of everything, or of one table."""

    path: str
    table: str | None = None


class Copy(Statement, template="COPY ({statement:|text}) TO {path}"):
    """COPY of the rows of a reading statement to a file."""

    statement: Statement
    path: str


class ImportFile(Statement, template="IMPORT FROM {path}"):
    path: str


class SetSetting(Statement, template="SET {name:|name} = {value}"):
    name: str
    value: Value


class Explain(Statement, template="EXPLAIN{analyze:ANALYZE} {statement:|text}{as_svg:AS SVG}"):
    """EXPLAIN: the steps by which ``statement`` finds its rows; ``analyze`` adds costs, ``as_svg`` draws a picture."""

    statement: Statement
    analyze: bool = False
    as_svg: bool = False
