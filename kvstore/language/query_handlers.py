"""The handlers of statements that query: LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK and SELECT.
A *handler* executes a statement in its *context* and returns a cursor. ``context.queryable`` is what it reads: the open
transaction, or else the last commit.

In: a statement; a missing clause takes the default of the session or of the method. Out: cursors with the columns that
docs/language lists. An unknown name returns no rows, and the message suggests the nearest name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ..errors import InputError, StatementError
from ..registry.table_reader import TableReader
from ..sql.diagnosis import make_statement_error
from ..sql.relational import Selection
from . import statements
from .cursor import Cursor, Row, infer_types
from .statement_context import StatementContext

if TYPE_CHECKING:
    from ..answering.answer import Answer
    from ..answering.citations import Citation
    from ..retrieval.evidence import Evidence, Hit, TextSpan

#: The columns of each statement, with their types.
LOOKUP_COLUMNS = {
    "entity": "TEXT",
    "temperature": "INTEGER",
    "tree": "TEXT",
    "level": "INTEGER",
    "parent": "TEXT",
    "document": "TEXT",
    "abstract": "INTEGER",
    "text": "TEXT",
}
EXPAND_COLUMNS = {
    "entity": "TEXT",
    "tree": "TEXT",
    "level": "INTEGER",
    "relative": "TEXT",
    "via": "TEXT",
    "text": "TEXT",
}
_HIT_COLUMNS = {"rank": "INTEGER", "score": "REAL", "document": "TEXT", "ordinal": "INTEGER", "text": "TEXT"}
#: The deprecated name of ``ordinal``, always the last column.
_DEPRECATED_COLUMNS = {"chunk": "INTEGER"}
SEARCH_COLUMNS = {**_HIT_COLUMNS, **_DEPRECATED_COLUMNS}
EVIDENCE_COLUMNS = {**_HIT_COLUMNS, "path": "TEXT", "kind": "TEXT", "spans": "JSON", **_DEPRECATED_COLUMNS}
ANSWER_COLUMNS = {
    "answer": "TEXT",
    "citations": "JSON",
    "extractive": "INTEGER",
    "model": "TEXT",
    "dropped": "JSON",
    "confidence": "REAL",
    "abstained": "INTEGER",
    "outcome": "TEXT",
    "answer_span": "JSON",
    "verdict": "TEXT",
    "parts": "JSON",
}

#: A query with fewer rows does not keep its snapshot open.
_MAX_BUFFERED_ROWS = 1000


def omit_none(**clauses: Any) -> dict[str, Any]:
    """Return the clauses that are not None, so that the called method uses its own defaults for the others."""
    return {name: value for name, value in clauses.items() if value is not None}


def _make_typed_cursor(
    kind: str, columns: Mapping[str, str], rows: Iterable[Row], count: int, message: str | None = None
) -> Cursor:
    """Return the cursor of ``count`` rows with fixed columns; ``columns`` has the type of each by its name.

    ``kind`` is the first word of the statement, and ``message`` is shown to the user (None: no message).
    """
    return Cursor(kind, tuple(columns), rows, types=tuple(columns.values()), rowcount=count, message=message)


def lookup(context: StatementContext, statement: statements.Lookup) -> Cursor:
    """Execute LOOKUP; if nothing is found, the message suggests known names."""
    locations = context.queryable.lookup(*statement.entities, **omit_none(limit=statement.limit))
    message = None
    if not locations:
        from ..sql.suggestions import make_entity_error

        with context.queryable.state() as state:
            message = "\n".join(str(make_entity_error(state, name)) for name in statement.entities)
    return _make_typed_cursor("LOOKUP", LOOKUP_COLUMNS, map(astuple, locations), len(locations), message)


def expand(context: StatementContext, statement: statements.Expand) -> Cursor:
    """Execute EXPAND of an entity, and return a row for the entity and for each ancestor or descendant in a tree.

    Without an entity, the names of the last LOOKUP are expanded. Raises InputError if there are none.
    """
    clauses = omit_none(depth=statement.depth, tree=statement.tree, limit=statement.limit)
    relatives = context.queryable.expand(statement.entity, direction=statement.direction, **clauses)
    return _make_typed_cursor("EXPAND", EXPAND_COLUMNS, map(astuple, relatives), len(relatives))


def search(context: StatementContext, statement: statements.Search) -> Cursor:
    """Execute SEARCH, and return a row for each hit; the last column repeats the ordinal by its deprecated name."""
    hits = context.queryable.search(
        statement.text, **omit_none(using=statement.using, where=statement.where, top=statement.top)
    )
    return _make_typed_cursor("SEARCH", SEARCH_COLUMNS, ((*_to_hit_row(hit), hit.ordinal) for hit in hits), len(hits))


def _to_hit_row(hit: Hit) -> Row:
    """Return the values of the columns :data:`_HIT_COLUMNS` for a hit: rank, score, document, ordinal and text."""
    return hit.rank, hit.score, hit.document, hit.ordinal, hit.text


def retrieve(context: StatementContext, statement: statements.Retrieve) -> Cursor:
    """Execute RETRIEVE, and return a row for each hit; the last column repeats the ordinal by its deprecated name."""
    evidence = retrieve_evidence(context, statement)
    rows = ((*_to_hit_row(hit), hit.path, hit.kind, _to_span_mappings(hit.spans), hit.ordinal) for hit in evidence.hits)
    return _make_typed_cursor("RETRIEVE", EVIDENCE_COLUMNS, rows, len(evidence.hits), evidence.hint)


def _to_span_mappings(spans: Sequence[TextSpan]) -> list[dict[str, Any]]:
    """Return spans as the mappings that rows and citations contain; ``chunk`` is the deprecated name of ``ordinal``."""
    return [asdict(span) | {"chunk": span.ordinal} for span in spans]


def retrieve_evidence(context: StatementContext, statement: statements.Retrieve) -> Evidence:
    """Run a RETRIEVE with its clauses, and return the evidence (hits and steps) that it finds."""
    return context.queryable.retrieve(statement.question, **build_retrieval_clauses(context, statement))


def build_retrieval_clauses(
    context: StatementContext, statement: statements.Retrieve | statements.Ask
) -> dict[str, Any]:
    """Return the clauses of a RETRIEVE or ASK as arguments of :meth:`.Queryable.retrieve`; missing clauses are omitted.

    Raises StatementError for an invalid option ``reranker``.
    """
    from ..retrieval.query import get_reranker

    try:
        get_reranker(statement.options)  # only checks the option
    except InputError as error:
        raise context.make_error(str(error)) from error
    return omit_none(
        using=statement.using,
        depth=statement.depth,
        top=statement.top,
        within=statement.within,
        where=statement.where,
        options=statement.options or None,
        as_segments=statement.as_segments or None,
    )


def ask(context: StatementContext, statement: statements.Ask) -> Cursor:
    """Execute ASK, and return the answer and its citations as one row."""
    answer = ask_question(context, statement)
    with context.queryable.state() as state:
        records = {citation.document: state.documents.find_by_key(citation.document) for citation in answer.citations}
    # Another process may have deleted a document while the model was generating.
    sources = {key: None if record is None else record.source for key, record in records.items()}
    row = (
        answer.text,
        [_to_citation_mapping(citation, sources[citation.document]) for citation in answer.citations],
        answer.extractive,
        answer.model,
        answer.dropped,
        round(answer.confidence, 3),
        answer.abstained,
        answer.outcome,
        None if answer.answer_span is None else asdict(answer.answer_span),
        answer.verdict,
        list(map(asdict, answer.parts)),
    )
    return _make_typed_cursor("ASK", ANSWER_COLUMNS, [row], 1, "\n".join(answer.remarks) or None)


def _to_citation_mapping(citation: Citation, source: str | None) -> dict[str, Any]:
    """Return a citation as the mapping that the column ``citations`` of ASK contains.

    ``source`` is the path of the file of the document (None: it has no file, or was deleted).
    """
    return {
        "number": citation.number,
        "document": citation.document,
        "source": source,
        "ordinal": citation.ordinal,
        "start": citation.start,
        "end": citation.end,
        "kind": citation.kind,
        "spans": _to_span_mappings(citation.spans),
        "chunk": citation.ordinal,  # the deprecated name
    }


def ask_question(context: StatementContext, statement: statements.Ask) -> Answer:
    """Ask the question of an ASK with its clauses, and return the answer."""
    clauses = build_retrieval_clauses(context, statement)
    return context.queryable.ask(
        statement.question,
        **clauses,
        **omit_none(model=statement.model, words=statement.words, on_text=context.on_text),
    )


def select(context: StatementContext, statement: statements.Select) -> Cursor:
    """Execute SELECT; a long result is read from a snapshot while the caller fetches its rows.

    In an open transaction, all rows are read at once.
    """
    transaction = context.database._open_transaction
    if transaction is not None:  # its state changes with the next statement, so read all rows now
        with transaction.state() as state:
            selection = run_query(context, statement, TableReader(state, context.database.settings_table))
            rows = list(selection)
        return Cursor("SELECT", selection.columns, rows, types=infer_types(rows, selection.types), rowcount=len(rows))
    snapshot = context.database.snapshot()
    try:
        selection = run_query(context, statement, TableReader(snapshot._state, context.database.settings_table))
        first_rows = list(islice(selection, _MAX_BUFFERED_ROWS))
    except BaseException:
        snapshot.close()
        raise
    types = infer_types(first_rows, selection.types)
    if len(first_rows) < _MAX_BUFFERED_ROWS:
        snapshot.close()
        return Cursor("SELECT", selection.columns, first_rows, types=types, rowcount=len(first_rows))

    def release() -> None:
        """Close the query and its snapshot."""
        selection.close()
        snapshot.close()

    return Cursor("SELECT", selection.columns, chain(first_rows, selection), types=types, release=release)


def run_query(
    context: StatementContext, statement: statements.Select, reader: TableReader, prefix: str = ""
) -> Selection:
    """Start a query on the state of ``reader``, and return its rows.

    ``prefix``, such as EXPLAIN QUERY PLAN, is prepended to the query. Errors point at the position in the user's text.
    """
    start = context.text.find(statement.text, context.start)
    if start < 0:  # the query has plain spaces in place of white space that SQLite does not know
        start = context.text.find(statement.text.split(maxsplit=1)[0], context.start)

    def make_error(position: int | None, reason: str) -> StatementError:
        """Return an error that marks a position in the text that SQLite parsed (None: it marks the whole statement)."""
        if position is None:
            return context.make_error(reason)
        return make_statement_error(context.text, start + max(0, position - len(prefix)), reason)

    return Selection(prefix + statement.text, statement.parameters, reader, make_error)
