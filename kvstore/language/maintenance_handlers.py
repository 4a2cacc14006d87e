"""The handlers of statements that maintain the store and the session: CHECK, BACKUP, COMPACT, EXPORT, IMPORT, SET.
A *handler* executes a statement in its *context* (the database and the open transaction), and returns a cursor.

In: a statement. On disk: a copy, an exported file, or the store's own file, compacted or, by CHECK REPAIR, repaired.
CHECK REPAIR, IMPORT and COMPACT are not allowed in a transaction. Out: cursors that report what was found or done.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..arguments import format_count
from ..changes.facts import list_fact_kinds
from ..database.exchange import TABLE_SUFFIXES
from ..sql.literals import format_literal
from . import statements
from .cursor import Cursor, Row
from .statement_context import StatementContext

if TYPE_CHECKING:
    from ..changes.facts import ExportReport


def set_setting(context: StatementContext, statement: statements.SetSetting) -> Cursor:
    """Execute SET: change a setting of the session. Raises ReadOnlyError for ``base_url`` in a read-only store."""
    if statement.name == "base_url":
        context.require_writable("SET cannot change the address of models")
    context.database.set(statement.name, statement.value)
    return Cursor("SET", message=f"{statement.name} = {format_literal(statement.value)}")


def check(context: StatementContext, statement: statements.Check) -> Cursor:
    """Execute CHECK, and return a row for each problem; with REPAIR, rebuild the derived data."""
    if statement.repair:
        return _repair(context)
    rows = [(problem,) for problem in context.database.check()]
    message = f"{format_count(len(rows), 'problem')} found" if rows else "the store is sound"
    return Cursor("CHECK", ("problem",), rows, rowcount=len(rows), message=message, failed=bool(rows))


def _repair(context: StatementContext) -> Cursor:
    """Execute CHECK REPAIR, and return a row for each problem with its outcome: repaired, lost or remains."""
    context.require_no_transaction("CHECK REPAIR makes its own commit")
    report = context.database.repair()
    rows: list[Row] = [(problem, "repaired") for problem in report.found if problem not in report.remaining]
    rows += [(loss, "lost") for loss in report.lost]
    rows += [(problem, "remains") for problem in report.remaining]
    if report.rebuilt is None:
        message = "the store is sound"
    else:
        message = f"rebuilt from {format_count(report.rebuilt.documents, 'document')}; " + (
            f"{len(report.lost):,} lost, {format_count(len(report.remaining), 'problem')} left"
        )
    has_failed = bool(report.lost or report.remaining)
    return Cursor("CHECK", ("problem", "outcome"), rows, rowcount=len(rows), message=message, failed=has_failed)


def backup(context: StatementContext, statement: statements.Backup) -> Cursor:
    """Execute BACKUP: copy the store to a new directory. Raises ReadOnlyError if the store is read-only."""
    context.require_writable("BACKUP cannot write a file")
    path = os.path.expanduser(statement.path)
    context.database.backup(path)
    return Cursor("BACKUP", message=f"copied to {path}")


def export(context: StatementContext, statement: statements.Export) -> Cursor:
    """Execute EXPORT of the whole store, or of one table if the statement or the suffix of the file asks for it."""
    context.require_writable("EXPORT cannot write a file")
    path = os.path.expanduser(statement.path)
    if statement.table is not None or Path(path).suffix.lower() in TABLE_SUFFIXES:
        table = statement.table or "chunks"
        rows = context.database.export_table(path, table)
        return Cursor("EXPORT", rowcount=rows, message=f"{format_count(rows, 'row')} of {table} written to {path}")
    report = context.database.export(path)
    return Cursor("EXPORT", rowcount=report.documents, message=f"{_format_counts(report)} written to {path}")


def compact(context: StatementContext, statement: statements.Compact) -> Cursor:
    """Execute COMPACT, and return the size of the data file before and after it."""
    context.require_no_transaction("COMPACT waits until no process writes")
    report = context.database.compact()
    row = (report.bytes_before, report.bytes_after)
    return Cursor("COMPACT", ("bytes_before", "bytes_after"), [row], rowcount=1)


def import_file(context: StatementContext, statement: statements.ImportFile) -> Cursor:
    """Execute IMPORT of a file that EXPORT wrote."""
    context.require_no_transaction("IMPORT commits batch by batch")
    report = context.database.import_(os.path.expanduser(statement.path))
    message = f"{_format_counts(report)} imported, {report.unchanged:,} unchanged"
    return Cursor("IMPORT", rowcount=report.documents, message=message)


def _format_counts(report: ExportReport) -> str:
    """Return the numbers of documents, edges and other facts of a report, such as "2 documents and 1 edge"."""
    count_texts = (fact_kind.format_count(getattr(report, fact_kind.plural)) for fact_kind in list_fact_kinds())
    # The text of a count of 0 is empty, except for documents, so there is always a last count.
    *counts, last_count = filter(None, count_texts)
    return f"{', '.join(counts)} and {last_count}" if counts else last_count
