"""Statements carried out: text in, a cursor out.

In: a session (a store), a text of one or more statements, the values of its parameters. Out: the
:class:`~kvstore.query.cursor.Cursor` of the last one. The whole text is parsed before anything is done. A statement
that changes data is a transaction of its own unless BEGIN is open; inside BEGIN a statement that fails leaves the
transaction to the user, unless the error ended it. A reading statement reads one state of the store: the open
transaction's, else the last commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import StatementError, TransactionError
from . import changing, describing, explaining, finding
from . import statements as s
from .cursor import Cursor
from .running import Running
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
    s.SetSetting: changing.set_setting,
    s.Backup: changing.backup,
    s.Show: describing.show,
    s.DescribeTable: describing.describe_table,
    s.DescribeDocument: describing.describe_document,
    s.DescribeEntity: describing.describe_entity,
    s.DescribeStrategy: describing.describe_strategy,
    s.Check: describing.check,
    s.Explain: explaining.explain,
}

_BY_DOCUMENTS = "an entity exists while a document names it"
#: What parses but cannot be done yet: its name, and what can be done.
_UNAVAILABLE: dict[type, tuple[str, str]] = {
    s.InsertEdge: ("INSERT EDGE", "INGEST 'file.csv' AS pairs brings edges in"),
    s.DeleteEdge: ("DELETE EDGE", "DELETE DOCUMENT takes the edges that a document states with it"),
    s.MergeEntity: ("MERGE ENTITY", _BY_DOCUMENTS),
    s.UnmergeEntity: ("UNMERGE ENTITY", _BY_DOCUMENTS),
    s.CreateAlias: ("ALIAS", _BY_DOCUMENTS),
    s.DropAlias: ("DROP ALIAS", _BY_DOCUMENTS),
    s.CreateIndex: ("CREATE INDEX", "every search is exact without one"),
    s.DropIndex: ("DROP INDEX", "SHOW INDEXES lists those that are always there"),
    s.Refresh: ("REFRESH", "everything derived is renewed by the commit that changes it"),
    s.Check: ("CHECK REPAIR", "CHECK finds damage, and a copy made by BACKUP is sound"),
    s.Compact: ("COMPACT", "kvstore backup STORE COPY --compact writes a compact copy"),
    s.Export: ("EXPORT", "BACKUP TO 'path' copies the store"),
    s.Import: ("IMPORT", "INGEST 'file.jsonl' brings documents in"),
}


def execute(session: Session, sql: str, parameters: Parameters = ()) -> Cursor:
    """Run the statements of ``sql`` one after another; returns the cursor of the last.

    Raises StatementError for what cannot be parsed, before anything is done, and what the statements raise.
    """
    parsed = parse(sql, parameters)
    if not parsed:
        raise StatementError("there is no statement here; one such as SHOW TABLES was expected")
    for one in parsed[:-1]:
        _run(Running(session, sql, one.start), one.statement).close()
    return _run(Running(session, sql, parsed[-1].start), parsed[-1].statement)


def _run(running: Running, statement: s.Statement) -> Cursor:
    begun = running.session.begun
    if begun is not None and not begun.open and not isinstance(statement, (s.Commit, s.Rollback)):
        raise TransactionError("an error has ended the transaction and undone its changes; ROLLBACK, and begin again")
    handler = _HANDLERS.get(type(statement))
    if handler is None or (isinstance(statement, s.Check) and statement.repair):
        name, remedy = _UNAVAILABLE[type(statement)]
        raise running.failure(f"{name} is not available in this version; {remedy}")
    return handler(running, statement)
