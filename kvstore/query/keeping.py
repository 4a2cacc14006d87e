"""The statements that keep the store and the session: BACKUP, COMPACT, EXPORT, IMPORT, SET.

In: a statement. On disk: a copy, one file, or the store's own file made smaller; IMPORT and COMPACT stand outside a
transaction. Out:
cursors that say what was done.
"""

from __future__ import annotations

from ..errors import TransactionError
from . import statements as s
from .changing import counted
from .cursor import Cursor
from .literals import literal
from .running import Running
from .session import Exchanged


def set_setting(running: Running, statement: s.SetSetting) -> Cursor:
    running.session.set(statement.name, statement.value)
    return Cursor("SET", message=f"{statement.name} = {literal(statement.value)}")


def backup(running: Running, statement: s.Backup) -> Cursor:
    running.session.backup(statement.path)
    return Cursor("BACKUP", message=f"copied to {statement.path}")


def export(running: Running, statement: s.Export) -> Cursor:
    report = running.session.export(statement.path)
    return Cursor("EXPORT", rowcount=report.documents, message=f"{_counts(report)} written to {statement.path}")


def compact(running: Running, statement: s.Compact) -> Cursor:
    if running.session.begun is not None:
        raise TransactionError(
            "COMPACT waits until nobody writes, so it stands outside BEGIN; COMMIT or ROLLBACK first"
        )
    report = running.session.compact()
    row = (report.bytes_before, report.bytes_after)
    return Cursor("COMPACT", ("bytes_before", "bytes_after"), [row], rowcount=1)


def import_file(running: Running, statement: s.Import) -> Cursor:
    if running.session.begun is not None:
        raise TransactionError("IMPORT commits batch by batch, so it stands outside BEGIN; COMMIT or ROLLBACK first")
    report = running.session.import_(statement.path)
    message = f"{_counts(report)} imported, {report.unchanged:,} unchanged"
    return Cursor("IMPORT", rowcount=report.documents, message=message)


def _counts(report: Exchanged) -> str:
    aliases = f"{report.aliases:,} {'alias' if report.aliases == 1 else 'aliases'}"
    return f"{counted(report.documents, 'document')}, {counted(report.edges, 'edge')} and {aliases}"
