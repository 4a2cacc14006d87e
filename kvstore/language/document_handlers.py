"""The handlers of statements that change documents: INSERT, UPDATE, DELETE, INGEST, and BEGIN, COMMIT, ROLLBACK.
A *handler* executes a statement in its *context* (the database, and the transaction that BEGIN opened, if any), and
returns a cursor of its result.

In: a statement. On disk: one commit, that of the statement or of the transaction that BEGIN opened. INGEST commits in
batches, so it is not allowed in a transaction. Out: cursors with the number of changed documents. An existing key, a
missing key and META that is not a JSON object are errors, and nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn

from ..arguments import format_count
from ..errors import DocumentExistsError, TransactionError, shorten, suggest
from ..ingest.sources import format_skipped
from ..readers import ReadOptions
from ..registry.sql_table import SqlValue
from ..registry.table_reader import TableReader
from ..sql.assignments import parse_assignments
from ..sql.literals import format_literal
from ..sql.relational import Selection
from ..sql.suggestions import make_document_error
from . import statements
from .cursor import Cursor
from .query_handlers import omit_none
from .statement_context import StatementContext

if TYPE_CHECKING:
    from ..database.transaction import Transaction

#: The arguments of :meth:`.Transaction.update` for the columns that UPDATE documents changes.
_ARGUMENTS = {"content": "text", "title": "title", "meta": "meta"}
#: Options of INGEST itself; all others are options of readers.
INGEST_OPTIONS = ("prune", "include", "exclude", "workers", "engine", "time_limit", "memory_limit")


def list_ingest_options() -> list[str]:
    """Return the options that INGEST accepts: its own, and those of the readers."""
    return [*INGEST_OPTIONS, *(field.name for field in fields(ReadOptions))]


def select_reader_options(context: StatementContext, statement: statements.Ingest) -> dict[str, Any]:
    """Return the options of an INGEST that are for the readers of files; the readers check their names.

    Raises StatementError for an unknown option that is probably a misspelled option of INGEST itself.
    """
    options = {name: value for name, value in statement.options.items() if name not in INGEST_OPTIONS}
    all_options = list_ingest_options()
    for name in options.keys() - all_options:
        suggestion = suggest(name, all_options)
        if suggestion in INGEST_OPTIONS:
            raise context.make_error(f"INGEST has no option {name}; did you mean {suggestion}?")
    return options


def select_ingest_patterns(context: StatementContext, statement: statements.Ingest) -> dict[str, Any]:
    """Return the values of the options ``include`` and ``exclude`` (patterns of file names) that an INGEST has.

    Raises StatementError for a value that is not a pattern.
    """
    patterns = {name: statement.options[name] for name in ("include", "exclude") if name in statement.options}
    for name, pattern in patterns.items():
        if not (isinstance(pattern, str) and pattern.strip("/")):
            raise context.make_error(f"the option {name} must be a pattern of file names, such as '*.adoc'")
    return patterns


def ingest(context: StatementContext, statement: statements.Ingest) -> Cursor:
    """Execute INGEST, and return the counts of its report, such as documents and failures, as one row.

    Raises TransactionError inside a transaction, and StatementError for an invalid option.
    """
    context.require_no_transaction("INGEST commits batch by batch")
    options = select_reader_options(context, statement)
    ingest_options: dict[str, Any] = {
        name: value for name, value in statement.options.items() if name in INGEST_OPTIONS
    }
    if not isinstance(ingest_options.get("prune", False), bool):
        raise context.make_error("the option prune must be true or false")
    ingest_options |= select_ingest_patterns(context, statement)
    report = context.database.ingest(
        statement.path, format=statement.format, options=options, progress=context.progress, **ingest_options
    )
    columns = ("added", "changed", "unchanged", "removed", "skipped", "failed", "chunks", "left_out", "seconds")
    row = (
        report.added,
        report.changed,
        report.unchanged,
        report.removed,
        report.skipped,
        len(report.failures),
        report.chunks,
        sum(report.left_out.values()),
        round(report.seconds, 3),
    )
    problems = tuple(report.problems)
    skip_remarks = [f"skipped: {format_skipped(report.skipped_by)}"] if report.skipped else []
    message = "; ".join([*skip_remarks, *report.remarks]) or None
    return Cursor("INGEST", columns, [row], rowcount=report.documents, message=message, problems=problems)


def insert_document(context: StatementContext, statement: statements.InsertDocument) -> Cursor:
    """Execute INSERT DOCUMENT: store a new document. Raises DocumentExistsError if the key is in use."""
    meta = _parse_meta(context, statement.meta)
    with context.open_transaction(models=True) as transaction:
        if statement.key and transaction._has_document(statement.key):
            raise DocumentExistsError(
                f"document {format_literal(statement.key)} already exists; UPDATE DOCUMENT changes it"
            )
        properties = omit_none(title=statement.title, source=statement.source, format=statement.format)
        chunks = "whole" if statement.whole else None
        transaction.put(statement.key, statement.text, meta=meta, chunks=chunks, **properties)
    return Cursor("INSERT", rowcount=1, message="1 document inserted")


def update_document(context: StatementContext, statement: statements.UpdateDocument) -> Cursor:
    """Execute UPDATE DOCUMENT: change the properties of a document that the statement names, such as its title.

    Raises DocumentNotFoundError if the key is unknown, and StatementError for invalid metadata.
    """
    meta = _parse_meta(context, statement.meta)
    changes_text = statement.text is not None or statement.title is not None  # only texts need the embedder
    with context.open_transaction(models=changes_text) as transaction:
        is_changed = transaction.update(statement.key, text=statement.text, title=statement.title, meta=meta)
    return Cursor(
        "UPDATE", rowcount=int(is_changed), message="1 document updated" if is_changed else "nothing to change"
    )


def update_documents(context: StatementContext, statement: statements.UpdateDocuments) -> Cursor:
    """Execute UPDATE documents: assign values of SQL expressions to the documents that satisfy its condition.

    If a value is invalid, nothing is changed, even in a transaction that BEGIN opened.
    """
    assignments = parse_assignments(statement.assignments)
    changes_text = assignments.columns != ("meta",)  # only texts need the embedder
    with context.open_transaction(models=changes_text) as transaction:
        with transaction.state() as state:
            reader = TableReader(state, context.database.settings_table)
            selection = Selection(assignments.query, parameters=(), reader=reader, make_error=assignments.make_error)
            rows = _compare_contents(assignments.columns, selection)
        if context.database._open_transaction is not None:
            # An invalid value changes nothing and leaves this transaction open, so all values are checked first.
            for key, properties in _iter_updates(context, assignments.columns, rows):
                transaction._check_update(key, **properties)
        updates = _iter_updates(context, assignments.columns, rows)
        # Any later error, such as one of the embedder, ends the transaction, because some documents are changed.
        with transaction._roll_back_on_error(Exception):
            num_changed = sum(transaction.update(key, **properties) for key, properties in updates)
    return Cursor("UPDATE", rowcount=num_changed, message=f"{format_count(num_changed, 'document')} updated")


def _compare_contents(columns: Sequence[str], rows: Iterable[Sequence[SqlValue]]) -> list[Sequence[SqlValue]]:
    """Replace the old content in the rows of an UPDATE's query by True if the new content equals it, else by False.

    A row is (key, new values of ``columns``, old content). It has no old content, and is returned unchanged, if the
    content is not one of the assigned columns.
    """
    if "content" not in columns:
        return list(rows)
    position = 1 + columns.index("content")  # after the key
    return [(*row[:-1], row[position] == row[-1]) for row in rows]


def _iter_updates(
    context: StatementContext, columns: Sequence[str], rows: Iterable[Sequence[SqlValue]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key of each document to change, and the other arguments of :meth:`.Transaction.update` by name.

    Each of ``rows`` has a key, the new values of ``columns`` and, if the content is assigned, whether it is unchanged.
    Unchanged content is not an argument: for a document with the user's own chunks, it is not the whole text. Raises
    StatementError for a value of a wrong type.
    """
    for key, *values in rows:
        is_content_unchanged = "content" in columns and values.pop()
        properties = {
            _ARGUMENTS[column]: _convert_value(context, str(key), column, value)
            for column, value in zip(columns, values, strict=True)
            if column != "content" or not is_content_unchanged
        }
        yield str(key), properties


def _convert_value(context: StatementContext, key: str, column: str, value: SqlValue) -> Any:
    """Return the new ``value`` of a ``column`` as an argument of :meth:`.Transaction.update`.

    NULL removes the title or the metadata of a document. Raises StatementError for a value of the wrong type; ``key``
    names the document in the error.
    """
    name = f"the new {column} of document {format_literal(key)}"
    if isinstance(value, str):
        return _parse_meta(context, value, name) if column == "meta" else value
    if value is not None or column == "content":
        raise context.make_error(f"{name} must be text, not {shorten(format_literal(value))}")
    return "" if column == "title" else {}


def _reject_constant(name: str) -> NoReturn:
    """Raise ValueError for the constant NaN, Infinity or -Infinity, which Python's JSON parser would accept."""
    raise ValueError(f"{name} is not a JSON value; use null")


def _parse_meta(context: StatementContext, text: str | None, name: str = "META") -> dict[str, Any] | None:
    """Parse metadata from JSON text; return None for None. Raises StatementError unless the text is a JSON object.

    ``name`` is what the error message calls the text.
    """
    if text is None:
        return None
    try:
        meta = json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise context.make_error(f"{name} is not JSON: {error}; write it as '{{\"year\": 2024}}'") from None
    if not isinstance(meta, dict):
        raise context.make_error(f"{name} must be a JSON object, such as '{{\"year\": 2024}}'")
    return meta


def delete_document(context: StatementContext, statement: statements.DeleteDocument) -> Cursor:
    """Execute DELETE DOCUMENT. Raises DocumentNotFoundError if the key is unknown."""
    with context.open_transaction() as transaction:
        is_deleted = bool(statement.key) and transaction.delete(statement.key)
        if not is_deleted:
            with transaction.state() as state:
                raise make_document_error(state, statement.key)
    return Cursor("DELETE", rowcount=1, message="1 document deleted")


def delete_documents(context: StatementContext, statement: statements.DeleteDocuments) -> Cursor:
    """Execute DELETE FROM documents: delete the documents that satisfy a condition."""
    with context.open_transaction() as transaction:
        num_deleted = transaction.delete_where(statement.where)
    return Cursor("DELETE", rowcount=num_deleted, message=f"{format_count(num_deleted, 'document')} deleted")


def begin(context: StatementContext, statement: statements.Begin) -> Cursor:
    """Execute BEGIN: open a transaction in this thread. Raises TransactionError if one is open already.

    The models are loaded before the writer's lock is taken, because the transaction may store a document.
    """
    if context.database._open_transaction is not None:
        raise TransactionError("a transaction is already open; COMMIT or ROLLBACK ends it")
    context.database._open_transaction = context.database.transaction()
    return Cursor("BEGIN", message="transaction begun")


def commit(context: StatementContext, statement: statements.Commit) -> Cursor:
    """Execute COMMIT: commit the transaction that BEGIN opened in this thread.

    Raises TransactionError if there is none, or if an error has ended it.
    """
    transaction = _pop_transaction(context)
    if not transaction.open:
        raise TransactionError("an error ended the transaction, and none of its changes were committed")
    transaction.commit()
    return Cursor("COMMIT", message="transaction committed")


def rollback(context: StatementContext, statement: statements.Rollback) -> Cursor:
    """Execute ROLLBACK: discard the transaction that BEGIN opened in this thread.

    Raises TransactionError if there is none.
    """
    _pop_transaction(context).rollback()
    return Cursor("ROLLBACK", message="transaction rolled back")


def _pop_transaction(context: StatementContext) -> Transaction:
    """Detach and return the transaction that BEGIN opened in this thread; raise TransactionError if it opened none."""
    transaction, context.database._open_transaction = context.database._open_transaction, None
    if transaction is not None:
        return transaction
    other_thread = context.database._other_transaction_thread
    if other_thread is not None:
        raise TransactionError(
            f"no transaction is open in this thread; only thread {other_thread!r}, which opened one, can COMMIT or "
            "ROLLBACK it"
        )
    raise TransactionError("no transaction is open; BEGIN opens one")
