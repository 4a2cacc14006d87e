"""Statements carried out: text in, a cursor out.

In: a session (a store), a text of one or more statements, the values of its parameters. Out: the
:class:`~kvstore.language.cursor.Cursor` of the last one. The whole text is parsed before anything is done. A statement
that changes data is a transaction of its own unless BEGIN is open; inside BEGIN a statement that fails leaves the
transaction to the user, unless the error ended it. A reading statement reads one state of the store: the open
transaction's, else the last commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import StatementError, TransactionError
from ..retrieval.evidence import Step
from . import changing, describing, explaining, finding, indexing, keeping, naming
from . import statements as s
from .cursor import Cursor
from .running import Progress, Running
from .session import Session
from .syntax import Parameters, parse

_HANDLERS: dict[type, Callable[[Running, Any], Cursor]] = {
    s.Lookup: finding.lookup,
    s.Expand: finding.expand,
    s.Search: finding.search,
    s.Retrieve: finding.retrieve,
    s.Ask: finding.ask,
    s.Select: finding.select,
    s.Ingest: changing.ingest,
    s.InsertDocument: changing.insert_document,
    s.UpdateDocument: changing.update_document,
    s.DeleteDocument: changing.delete_document,
    s.DeleteDocuments: changing.delete_documents,
    s.Begin: changing.begin,
    s.Commit: changing.commit,
    s.Rollback: changing.rollback,
    s.InsertEdge: naming.insert_edge,
    s.DeleteEdge: naming.delete_edge,
    s.MergeEntity: naming.merge_entity,
    s.UnmergeEntity: naming.unmerge_entity,
    s.CreateAlias: naming.create_alias,
    s.DropAlias: naming.drop_alias,
    s.CreateIndex: indexing.create_index,
    s.DropIndex: indexing.drop_index,
    s.Refresh: indexing.refresh,
    s.SetSetting: keeping.set_setting,
    s.Backup: keeping.backup,
    s.Compact: keeping.compact,
    s.Export: keeping.export,
    s.Import: keeping.import_file,
    s.Show: describing.show,
    s.DescribeTable: describing.describe_table,
    s.DescribeDocument: describing.describe_document,
    s.DescribeEntity: describing.describe_entity,
    s.DescribeStrategy: describing.describe_strategy,
    s.Check: keeping.check,
    s.Explain: explaining.explain,
}


def execute(
    session: Session,
    sql: str,
    parameters: Parameters = (),
    *,
    progress: Progress | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Cursor:
    """Run the statements of ``sql`` one after another; returns the cursor of the last.

    ``progress`` hears how far an INGEST or an index is, ``on_text`` what a language model writes. Raises
    StatementError for what cannot be parsed, before anything is done, and what the statements raise.
    """
    parsed = parse(sql, parameters)
    if not parsed:
        raise StatementError("there is no statement here; one such as SHOW TABLES was expected")
    *before, last = ((Running(session, sql, one.start, one.places, progress, on_text), one.statement) for one in parsed)
    for running, statement in before:
        _run(running, statement).close()
    return _run(*last)


def explain(session: Session, sql: str, parameters: Parameters = (), *, analyze: bool = False) -> list[Step]:
    """The steps of the one statement of ``sql``; raises StatementError where it is not one, and what it raises."""
    parsed = parse(sql, parameters)
    if len(parsed) != 1 or isinstance(parsed[0].statement, s.Explain):
        raise StatementError("what is explained is one statement, LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK or SELECT")
    running = Running(session, sql, parsed[0].start, parsed[0].places)
    with running.placing():
        return explaining.steps(running, parsed[0].statement, analyze=analyze)


def _run(running: Running, statement: s.Statement) -> Cursor:
    begun = running.session._begun
    if begun is not None and not begun.open and not isinstance(statement, (s.Commit, s.Rollback)):
        raise TransactionError("an error has ended the transaction and undone its changes; ROLLBACK, and begin again")
    with running.placing():
        return _HANDLERS[type(statement)](running, statement)
