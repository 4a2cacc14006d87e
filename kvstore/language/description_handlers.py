"""The handlers of statements that describe the store: SHOW and DESCRIBE.
A *handler* executes a statement in its *context* and returns a cursor. ``context.queryable`` is what it reads: the open
transaction, or else the last commit.

In: a statement. Out: cursors. DESCRIBE of a document, an entity or a strategy returns rows of property and value. A
missing name is an error that suggests the nearest name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, fields
from typing import Any

from ..arguments import Choice
from ..errors import InputError
from ..registry import SYSTEMS, get_strategy, list_strategies
from ..sql import descriptions
from ..structures.spending import Spending
from . import statements
from .cursor import Cursor, Row
from .query_handlers import select
from .statement_context import StatementContext

_PROPERTIES = ("property", "value")


def show(context: StatementContext, statement: statements.Show) -> Cursor:
    """Execute SHOW: list tables, indexes, strategies, settings, statistics, or the tokens that models used (SPENT)."""
    match statement.subject:
        case "tables":
            rows = (
                (table.name, ", ".join(column.name for column in table.columns), table.description)
                for table in descriptions.list_tables()
            )
            return _make_list_cursor(("name", "columns", "description"), rows)
        case "indexes":
            return select(context, statements.Select("SELECT kind, state, built, stale, detail FROM indexes"))
        case "strategies":
            return _make_list_cursor(
                ("name", "description"), ((strategy.name, strategy.description) for strategy in list_strategies())
            )
        case "settings":
            return _make_list_cursor(("name", "value", "fixed"), context.database.settings_table())
        case "spent":
            columns = tuple(field.name for field in fields(Spending))
            return _make_list_cursor(columns, map(astuple, context.database.spent()))
        case "stats":
            return _make_list_cursor(("name", "value"), context.database.statistics().items())


def _make_list_cursor(columns: tuple[str, ...], rows: Iterable[Row], kind: str = "SHOW") -> Cursor:
    """Return a cursor of rows, which are all read now; ``kind`` is the first word of the statement."""
    row_list = list(rows)
    return Cursor(kind, columns, row_list, rowcount=len(row_list))


def describe_table(context: StatementContext, statement: statements.DescribeTable) -> Cursor:
    """Execute DESCRIBE of a table: list its columns. Raises StatementError for an unknown table."""
    try:
        columns = descriptions.get_table(statement.table).columns
    except InputError as error:
        raise context.make_error(str(error), excerpt=statement.table) from None
    return _make_list_cursor(("column", "type", "index"), map(astuple, columns), "DESCRIBE")


def describe_document(context: StatementContext, statement: statements.DescribeDocument) -> Cursor:
    """Execute DESCRIBE DOCUMENT: list the properties of a document, such as its size and its metadata."""
    return _make_property_cursor(context.queryable.describe_document(statement.key))


def describe_entity(context: StatementContext, statement: statements.DescribeEntity) -> Cursor:
    """Execute DESCRIBE ENTITY: list the properties of an entity, such as its trees and the number of its mentions."""
    return _make_property_cursor(context.queryable.describe_entity(statement.name))


def list_strategy_names() -> list[str]:
    """Return the names that USING accepts, including those from installed packages."""
    return [strategy.name for strategy in list_strategies()]


def list_described_kinds() -> list[str]:
    """Return the kinds of items that DESCRIBE accepts, as in ``DESCRIBE community 'key'``."""
    return [description.name for system in SYSTEMS.values() for description in system.descriptions]


def describe_item(context: StatementContext, statement: statements.DescribeItem) -> Cursor:
    """Execute DESCRIBE for a topic, a community or another item of an index."""
    return _make_property_cursor(context.queryable.describe(statement.kind, statement.key))


def _make_property_cursor(properties: Mapping[str, Any]) -> Cursor:
    """Return a cursor with one row (name, value) per property.

    The elements of a list are joined with semicolons, and a mapping becomes JSON.
    """
    rows: list[Row] = []
    for name, value in properties.items():
        if isinstance(value, list):
            rows.append((name, "; ".join(value)))
        else:
            rows.append((name, json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value))
    return _make_list_cursor(_PROPERTIES, rows, "DESCRIBE")


def describe_strategy(context: StatementContext, statement: statements.DescribeStrategy) -> Cursor:
    """Execute DESCRIBE STRATEGY: list the description and the options of a strategy."""
    strategy = get_strategy(statement.strategy)
    rows: list[Row] = [("name", strategy.name), ("description", strategy.description)]
    for name, option in strategy.options.items():
        if isinstance(option, Choice):
            limits = f"one of {', '.join(option.choices)}, by default {option.default}"
        else:
            limits = f"{option.low:g} to {option.high:g}, by default {option.default:g}"
        rows.append((f"option {name}", f"{option.description} ({limits})"))
    return _make_list_cursor(_PROPERTIES, rows, "DESCRIBE")
