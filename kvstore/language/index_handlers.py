"""The statements about indexes: CREATE INDEX, DROP INDEX, REFRESH.

In: a statement. On disk: the record of an index in a commit of its own, and its file beside the store's; so they stand
outside a transaction. Out: cursors that say what was done. A kind, an option or an index that is not there is an error
with the nearest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..systems import INDEXES
from . import statements as s
from .cursor import Cursor
from .statement_context import StatementContext


def index_kinds() -> Mapping[str, Sequence[str]]:
    """The kinds of index that a statement may name, and the options of each."""
    return {kind.name: list(kind.options) for kind in INDEXES.values()}


def create_index(context: StatementContext, statement: s.CreateIndex) -> Cursor:
    context.require_no_transaction("CREATE INDEX commits by itself")
    context.database.create_index(statement.kind, statement.options, progress=context.progress)
    return Cursor("CREATE", message=f"index {statement.kind.lower()} created")


def drop_index(context: StatementContext, statement: s.DropIndex) -> Cursor:
    context.require_no_transaction("DROP INDEX commits by itself")
    context.database.drop_index(statement.kind)
    return Cursor("DROP", message=f"index {statement.kind.lower()} dropped")


def refresh(context: StatementContext, statement: s.Refresh) -> Cursor:
    context.require_no_transaction("REFRESH commits by itself")
    kinds = context.database.refresh(statement.index, progress=context.progress)
    message = None if kinds else "nothing to refresh"
    return Cursor("REFRESH", ("kind",), [(kind,) for kind in kinds], rowcount=len(kinds), message=message)
