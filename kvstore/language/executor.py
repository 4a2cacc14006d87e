"""Execution of statements: text in, a cursor out.
A *handler* is the function that runs a class of statements. It is imported when its first statement runs.

In: a database, a text of one or more statements, the values of its parameters. Out: the
:class:`~kvstore.language.cursor.Cursor` of the last one. The whole text is parsed before any statement runs. Unless
BEGIN is open, a statement that changes data is its own transaction. If a statement fails inside BEGIN, the transaction
stays open, unless the error, or Ctrl-C, can have left half of a change: then it is rolled back. A reading statement
reads one state of the store: that of the open transaction, else the last commit.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..database.database import Database
from ..errors import StatementError, TransactionError
from ..registry.sql_table import Parameters
from . import statements
from .cursor import Cursor
from .parser import ParsedStatement, parse
from .statement_context import Progress, StatementContext

if TYPE_CHECKING:
    from ..retrieval.evidence import Step

#: The statements that the functions of each module run. A function has the name of the grammar rule of its statement.
_HANDLER_MODULES = {
    "query_handlers": "lookup expand search retrieve ask select",
    "index_handlers": "expand_index create_index drop_index refresh",
    "document_handlers": "ingest insert_document update_document update_documents delete_document delete_documents "
    "begin commit rollback",
    "extraction_handlers": "extract",
    "alias_handlers": "insert_edge delete_edge merge_entity unmerge_entity create_alias drop_alias",
    "maintenance_handlers": "set_setting backup compact export import_file check",
    "copy_handler": "copy",
    "description_handlers": "show describe_table describe_document describe_entity describe_strategy describe_item",
    "explain_handlers": "explain",
}


def load_handler(statement_class: type[statements.Statement]) -> Callable[[StatementContext, Any], Cursor]:
    """Import and return the function that runs statements of a class."""
    rule = statement_class.rule
    module = next(module for module, rules in _HANDLER_MODULES.items() if rule in rules.split())
    handler: Callable[[StatementContext, Any], Cursor] = getattr(import_module(f".{module}", __package__), rule)
    return handler


def execute(
    database: Database,
    sql: str,
    parameters: Parameters = (),
    *,
    progress: Progress | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Cursor:
    """Run the statements of ``sql`` in order and return the cursor of the last.

    ``progress`` receives the progress of an INGEST or an index build, ``on_text`` the text that a language model
    generates. Raises StatementError if the text cannot be parsed, before any statement runs, and the errors of the
    statements.
    """
    parsed_statements = parse(sql, parameters)
    if not parsed_statements:
        raise StatementError("the text contains no statement; write one, such as SHOW TABLES")

    for parsed_statement in parsed_statements[:-1]:
        run(database, sql, parsed_statement, progress, on_text).close()
    return run(database, sql, parsed_statements[-1], progress, on_text)


def explain(database: Database, sql: str, parameters: Parameters = (), *, analyze: bool = False) -> list[Step]:
    """Return the steps by which the single statement of ``sql`` finds its rows; with ``analyze`` also their costs.

    Raises StatementError unless there is exactly one statement, which is not itself an EXPLAIN, and the errors of the
    statement.
    """
    from . import explain_handlers

    parsed_statements = parse(sql, parameters)
    if len(parsed_statements) != 1 or isinstance(parsed_statements[0].statement, statements.Explain):
        raise StatementError(f"EXPLAIN takes exactly one statement: {explain_handlers.EXPLAINABLE}")
    (parsed_statement,) = parsed_statements
    context = StatementContext(database, sql, parsed_statement.start, parsed_statement.offset_map)
    with context.locate_errors():
        return explain_handlers.list_steps(context, parsed_statement.statement, analyze=analyze)


def run(
    database: Database,
    sql: str,
    parsed_statement: ParsedStatement,
    progress: Progress | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Cursor:
    """Run one parsed statement of the text ``sql``.

    ``progress`` receives the progress of an INGEST or an index build, ``on_text`` the text that a model generates.
    Raises the errors of the statement, and TransactionError if an error has ended the transaction that BEGIN opened
    and the statement is not COMMIT or ROLLBACK.
    """
    context = StatementContext(database, sql, parsed_statement.start, parsed_statement.offset_map, progress, on_text)
    statement = parsed_statement.statement
    transaction = context.database._open_transaction
    has_failed = transaction is not None and not transaction.open
    if has_failed and not isinstance(statement, (statements.Commit, statements.Rollback)):
        raise TransactionError("an error ended the transaction and undid its changes; ROLLBACK, then BEGIN again")
    with context.locate_errors():
        return load_handler(type(statement))(context, statement)
