"""The statements of the language: one dataclass each, whose fields are the values of its clauses.
``str(statement)`` is its text, which parses to an equal statement. A missing clause is None (or an empty mapping), so
that the store's default applies.

In: the values that :mod:`.parser` found in a text, with parameters already substituted. The executor checks ranges.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, dataclass_transform

from ..registry.sql_table import SqlValue
from ..sql.literals import Value, format_identifier, format_literal, quote_name

#: The first words of a query, which SQLite parses.
QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES"})

Direction = Literal["up", "down", "both"]
Subject = Literal["tables", "indexes", "strategies", "settings", "stats", "spent"]


def _format_clauses(*pairs: tuple[str, SqlValue]) -> str:
    """Return the text of a statement's clauses, given as (keyword, value), each after a space; omit the value None."""
    return "".join(f" {keyword} {format_literal(value)}" for keyword, value in pairs if value is not None)


def _format_options(options: Mapping[str, Value]) -> str:
    """Return the clause WITH for some options, after a space; empty without options."""
    pairs = ", ".join(f"{format_identifier(option)} = {format_literal(value)}" for option, value in options.items())
    return f" WITH ({pairs})" if options else ""


class _TemplateValue:
    """A value of a statement in its template. ``{field}`` is its literal, or the clause WITH for options.

    ``{field:name}`` is an identifier, ``{field:text}`` is text of the language, and ``{field: IN TREE}`` is a clause
    after a space, which the value None omits.
    """

    def __init__(self, value: Any) -> None:
        """Wrap the value of a field."""
        self._value = value

    def __format__(self, form: str) -> str:
        """Return the text of the value in the ``form`` that the template selects."""
        if form in ("name", "text"):
            return format_identifier(self._value) if form == "name" else str(self._value)
        if isinstance(self._value, Mapping):
            return _format_options(self._value)
        return _format_clauses((form.strip(), self._value)) if form else format_literal(self._value)


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


class Lookup(Statement):
    entities: tuple[str, ...]
    limit: int | None = None

    def __str__(self) -> str:
        return "LOOKUP " + ", ".join(map(format_literal, self.entities)) + _format_clauses(("LIMIT", self.limit))


class Expand(Statement):
    """EXPAND of an entity; without one, of the result of the session's last LOOKUP."""

    entity: str | None = None
    direction: Direction = "both"
    depth: int | None = None
    tree: str | None = None
    limit: int | None = None

    def __str__(self) -> str:
        entity = "" if self.entity is None else " " + format_literal(self.entity)
        clauses = _format_clauses(("DEPTH", self.depth), ("IN TREE", self.tree), ("LIMIT", self.limit))
        return f"EXPAND{entity} {self.direction.upper()}{clauses}"


class ExpandIndex(Statement):
    """EXPAND of an index: its groups, from the coarsest down."""

    kind: str
    depth: int | None = None

    def __str__(self) -> str:
        # An index with the name of a clause of EXPAND is quoted.
        is_bare = self.kind.upper() not in ("UP", "DOWN", "BOTH", "DEPTH", "IN", "LIMIT")
        kind = format_identifier(self.kind) if is_bare else quote_name(self.kind)
        return f"EXPAND {kind}" + _format_clauses(("DEPTH", self.depth))


class Search(Statement):
    text: str
    using: str | None = None
    where: str | None = None
    top: int | None = None

    def __str__(self) -> str:
        clauses = _format_retrieval_clauses(using=self.using, top=self.top, where=self.where)
        return f"SEARCH {format_literal(self.text)}{clauses}"


class Retrieve(Statement):
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

    def __str__(self) -> str:
        questions = self.question if isinstance(self.question, tuple) else (self.question,)
        text = ", ".join(map(format_literal, questions))
        return f"RETRIEVE {text if isinstance(self.question, str) else f'({text})'}" + _format_retrieval_clauses(
            self.using, self.depth, self.top, self.within, self.where, self.options, self.as_segments
        )


class Ask(Statement):
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

    def __str__(self) -> str:
        clauses = _format_retrieval_clauses(
            self.using, self.depth, self.top, self.within, self.where, self.options, self.as_segments
        )
        own_clauses = _format_clauses(("MODEL", self.model), ("WORDS", self.words))
        return f"ASK {format_literal(self.question)}{clauses}{own_clauses}"


def _format_retrieval_clauses(
    using: str | None = None,
    depth: int | None = None,
    top: int | None = None,
    within: int | None = None,
    where: str | None = None,
    options: Mapping[str, Value] | None = None,
    as_segments: bool = False,
) -> str:
    """Return the clauses of a SEARCH, RETRIEVE or ASK with these values, each after a space; None omits a clause."""
    text = "" if using is None else f" USING {', '.join(map(format_identifier, using.split(', ')))}"
    text += _format_clauses(("DEPTH", depth), ("TOP", top)) + (" AS SEGMENTS" if as_segments else "")
    text += "" if within is None else f" WITHIN {within} TOKENS"
    text += "" if where is None else f" WHERE {where}"
    return text + _format_options(options or {})


class Ingest(Statement):
    path: str
    format: str | None = None
    options: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        format_clause = "" if self.format is None else f" AS {format_identifier(self.format)}"
        return f"INGEST {format_literal(self.path)}{format_clause}{_format_options(self.options)}"


class Extract(Statement):
    """EXTRACT: ``share`` (of all tokens to send) or ``within`` limits the tokens sent.

    ``by`` is the method that chooses chunks if there are too many.
    """

    kind: str
    share: float | None = None
    within: int | None = None
    by: str | None = None
    where: str | None = None
    model: str | None = None

    def __str__(self) -> str:
        text = f"EXTRACT {format_identifier(self.kind)}{_format_clauses(('SHARE', self.share))}"
        text += "" if self.within is None else f" WITHIN {self.within} TOKENS"
        text += "" if self.by is None else f" BY {format_identifier(self.by)}"
        text += "" if self.where is None else f" WHERE {self.where}"
        return text + _format_clauses(("MODEL", self.model))


class InsertDocument(Statement):
    """INSERT DOCUMENT; ``meta`` is JSON text. A ``whole`` document is stored as a single chunk."""

    key: str
    text: str
    title: str | None = None
    meta: str | None = None
    source: str | None = None
    format: str | None = None
    whole: bool = False

    def __str__(self) -> str:
        format_clause = "" if self.format is None else f" AS {self.format}"
        source_and_title = _format_clauses(("SOURCE", self.source), ("TITLE", self.title))
        meta = _format_clauses(("META", self.meta))
        whole = " WHOLE" if self.whole else ""
        key, text = format_literal(self.key), format_literal(self.text)
        return f"INSERT DOCUMENT {key}{format_clause}{source_and_title} TEXT {text}{meta}{whole}"


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


class UpdateDocuments(Statement, template="UPDATE documents SET {assignments:text}"):
    """UPDATE documents; ``assignments`` is the text after SET, with the condition."""

    assignments: str


class DeleteDocument(Statement, template="DELETE DOCUMENT {key}"):
    key: str


class DeleteDocuments(Statement, template="DELETE FROM documents WHERE {where:text}"):
    where: str


class InsertEdge(Statement, template="INSERT EDGE {child} UNDER {parent}{tree: IN TREE}"):
    child: str
    parent: str
    tree: str | None = None


class DeleteEdge(Statement, template="DELETE EDGE {child} UNDER {parent}{tree: IN TREE}"):
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


class CreateIndex(Statement, template="CREATE INDEX {kind:name}{options}"):
    kind: str
    options: Mapping[str, Value] = field(default_factory=dict)


class DropIndex(Statement, template="DROP INDEX {kind:name}"):
    kind: str


class Refresh(Statement):
    """REFRESH of everything stale, or of one index.

    ``model`` writes the texts of the index, in requests of at most ``within`` tokens in total.
    """

    index: str | None = None
    model: str | None = None
    within: int | None = None

    def __str__(self) -> str:
        index = "" if self.index is None else f" INDEX {format_identifier(self.index)}"
        tokens = "" if self.within is None else f" WITHIN {self.within} TOKENS"
        return f"REFRESH{index}{_format_clauses(('MODEL', self.model))}{tokens}"


class Begin(Statement, template="BEGIN"):
    pass


class Commit(Statement, template="COMMIT"):
    pass


class Rollback(Statement, template="ROLLBACK"):
    pass


class Select(Statement, template="{text:text}"):
    """A query for SQLite, as the user typed it, with the values of its parameters."""

    text: str
    parameters: Sequence[SqlValue] | Mapping[str, SqlValue] = ()


class Show(Statement):
    subject: Subject

    def __str__(self) -> str:
        return f"SHOW {self.subject.upper()}"


class DescribeTable(Statement):
    table: str

    def __str__(self) -> str:
        """Return the text of the statement. The name of a table is quoted if it is a keyword here, such as ENTITY."""
        is_bare = self.table.upper() not in ("DOCUMENT", "ENTITY", "STRATEGY")
        return f"DESCRIBE {format_identifier(self.table) if is_bare else quote_name(self.table)}"


class DescribeDocument(Statement, template="DESCRIBE DOCUMENT {key}"):
    key: str


class DescribeEntity(Statement, template="DESCRIBE ENTITY {name}"):
    name: str


class DescribeStrategy(Statement, template="DESCRIBE STRATEGY {strategy:name}"):
    strategy: str


class DescribeItem(Statement):
    """DESCRIBE of an item that a system keeps; ``kind`` is the system's name for such items, such as a community."""

    kind: str
    key: str

    def __str__(self) -> str:
        """Return the text of the statement, in which the kind of the item is quoted like the name of a table."""
        return f"{DescribeTable(self.kind)} {format_literal(self.key)}"


class Check(Statement):
    repair: bool = False

    def __str__(self) -> str:
        return "CHECK REPAIR" if self.repair else "CHECK"


class Compact(Statement, template="COMPACT"):
    pass


class Backup(Statement, template="BACKUP TO {path}"):
    path: str


class Export(Statement):
    """EXPORT of everything, or of one table."""

    path: str
    table: str | None = None

    def __str__(self) -> str:
        table = "" if self.table is None else f" TABLE {format_identifier(self.table)}"
        return f"EXPORT TO {format_literal(self.path)}{table}"


class Copy(Statement, template="COPY ({statement:text}) TO {path}"):
    """COPY of the rows of a reading statement to a file."""

    statement: Statement
    path: str


class ImportFile(Statement, template="IMPORT FROM {path}"):
    path: str


class SetSetting(Statement, template="SET {name:name} = {value}"):
    name: str
    value: Value


class Explain(Statement):
    """EXPLAIN: the steps by which ``statement`` finds its rows; ``analyze`` adds costs, ``as_svg`` draws a picture."""

    statement: Statement
    analyze: bool = False
    as_svg: bool = False

    def __str__(self) -> str:
        return f"EXPLAIN {'ANALYZE ' if self.analyze else ''}{self.statement}{' AS SVG' if self.as_svg else ''}"
