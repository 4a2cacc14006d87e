"""The statements that say how names stand to one another: edges of trees, aliases and merges.

In: a statement. On disk: one commit, that of the statement or of the transaction that BEGIN opened. Out: cursors that
say what was changed. What stands already is said again without a change; taking back what was never said, and a name
that is not known, are errors.
"""

from __future__ import annotations

from ..errors import InputError
from ..sql.literals import literal
from . import statements as s
from .cursor import Cursor
from .query_handlers import given
from .statement_context import StatementContext


def _done(kind: str, changed: bool, message: str) -> Cursor:
    return Cursor(kind, rowcount=int(changed), message=message if changed else "nothing to change")


def insert_edge(context: StatementContext, statement: s.InsertEdge) -> Cursor:
    with context.writing() as transaction:
        is_changed = transaction.put_edge(statement.child, statement.parent, **given(tree=statement.tree))
    return _done("INSERT", is_changed, "1 edge inserted")


def delete_edge(context: StatementContext, statement: s.DeleteEdge) -> Cursor:
    with context.writing() as transaction:
        if not transaction.delete_edge(statement.child, statement.parent, **given(tree=statement.tree)):
            edge = f"{literal(statement.child)} under {literal(statement.parent)}"
            where = "" if statement.tree is None else f" in tree {literal(statement.tree)}"
            raise InputError(
                f"there is no edge of {edge}{where}; SELECT * FROM edges WHERE document IS NULL lists those"
            )
    return _done("DELETE", True, "1 edge deleted")


def create_alias(context: StatementContext, statement: s.CreateAlias) -> Cursor:
    with context.writing() as transaction:
        is_changed = transaction.alias(statement.name, statement.entity)
    return _done("ALIAS", is_changed, f"{literal(statement.name)} stands for {literal(statement.entity)}")


def drop_alias(context: StatementContext, statement: s.DropAlias) -> Cursor:
    with context.writing() as transaction:
        if not transaction.drop_alias(statement.name):
            raise _make_alias_error(statement.name, "an alias")
    return _done("DROP", True, f"{literal(statement.name)} is an alias no longer")


def merge_entity(context: StatementContext, statement: s.MergeEntity) -> Cursor:
    with context.writing() as transaction:
        is_changed = transaction.merge(statement.name, statement.into)
    return _done("MERGE", is_changed, f"{literal(statement.name)} is read as {literal(statement.into)}")


def unmerge_entity(context: StatementContext, statement: s.UnmergeEntity) -> Cursor:
    with context.writing() as transaction:
        if not transaction.unmerge(statement.name):
            raise _make_alias_error(statement.name, "merged")
    return _done("UNMERGE", True, f"{literal(statement.name)} stands for itself again")


def _make_alias_error(name: str, what: str) -> InputError:
    return InputError(f"{literal(name)} is not {what}; SELECT * FROM aliases lists what stands for what")
