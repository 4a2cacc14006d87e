"""The handlers of statements that relate names to each other: edges of trees, aliases and merges.
A *handler* executes a statement in its *context*, which opens the transaction, and returns a cursor.

In: a statement. On disk: one commit, that of the statement or of the transaction that BEGIN opened. Out: cursors that
report the change. Repeating an existing fact changes nothing. Removing a fact that does not exist, or using an unknown
name, is an error.
"""

from __future__ import annotations

from ..errors import InputError
from ..sql.literals import format_literal
from . import statements
from .cursor import Cursor
from .query_handlers import omit_none
from .statement_context import StatementContext


def _make_change_cursor(kind: str, is_changed: bool, message: str) -> Cursor:
    """Return the cursor of a statement (``kind``, such as ``INSERT``) that adds one alias, merge or edge.

    ``message`` is used only if ``is_changed``.
    """
    return Cursor(kind, rowcount=int(is_changed), message=message if is_changed else "nothing to change")


def insert_edge(context: StatementContext, statement: statements.InsertEdge) -> Cursor:
    """Execute INSERT EDGE: place one name under another in a tree. The message says whether anything changed."""
    with context.open_transaction() as transaction:
        is_changed = transaction.put_edge(statement.child, statement.parent, **omit_none(tree=statement.tree))
    return _make_change_cursor("INSERT", is_changed, "1 edge inserted")


def delete_edge(context: StatementContext, statement: statements.DeleteEdge) -> Cursor:
    """Execute DELETE EDGE: undo INSERT EDGE. Raises InputError unless INSERT EDGE added this edge."""
    with context.open_transaction() as transaction:
        if not transaction.delete_edge(statement.child, statement.parent, **omit_none(tree=statement.tree)):
            edge = f"{format_literal(statement.child)} under {format_literal(statement.parent)}"
            tree = "" if statement.tree is None else f" in tree {format_literal(statement.tree)}"
            raise InputError(
                f"there is no edge {edge}{tree} to delete; SELECT * FROM edges WHERE document IS NULL lists the edges "
                "that DELETE EDGE can delete"
            )
    return Cursor("DELETE", rowcount=1, message="1 edge deleted")


def create_alias(context: StatementContext, statement: statements.CreateAlias) -> Cursor:
    """Execute ALIAS: make a name another name of a known entity."""
    with context.open_transaction() as transaction:
        is_changed = transaction.alias(statement.name, statement.entity)
    return _make_change_cursor(
        "ALIAS", is_changed, f"{format_literal(statement.name)} is an alias of {format_literal(statement.entity)}"
    )


def drop_alias(context: StatementContext, statement: statements.DropAlias) -> Cursor:
    """Execute DROP ALIAS: undo ALIAS. Raises InputError if the name is not an alias."""
    with context.open_transaction() as transaction:
        if not transaction.drop_alias(statement.name):
            raise _make_alias_error(statement.name, "an alias")
    return Cursor("DROP", rowcount=1, message=f"{format_literal(statement.name)} is no longer an alias")


def merge_entity(context: StatementContext, statement: statements.MergeEntity) -> Cursor:
    """Execute MERGE ENTITY: make two known names one entity."""
    with context.open_transaction() as transaction:
        is_changed = transaction.merge(statement.name, statement.into)
    return _make_change_cursor(
        "MERGE", is_changed, f"{format_literal(statement.name)} is merged into {format_literal(statement.into)}"
    )


def unmerge_entity(context: StatementContext, statement: statements.UnmergeEntity) -> Cursor:
    """Execute UNMERGE ENTITY: undo MERGE ENTITY. Raises InputError if the name is not merged."""
    with context.open_transaction() as transaction:
        if not transaction.unmerge(statement.name):
            raise _make_alias_error(statement.name, "merged")
    return Cursor("UNMERGE", rowcount=1, message=f"{format_literal(statement.name)} is an entity of its own again")


def _make_alias_error(name: str, role: str) -> InputError:
    """Return the error for DROP ALIAS or UNMERGE of a name that is not ``role``, which is "an alias" or "merged"."""
    return InputError(f"{format_literal(name)} is not {role}; SELECT * FROM aliases lists the aliases and merges")
