"""The statements that look at the store itself: SHOW, DESCRIBE and CHECK.

In: a statement. Out: cursors. DESCRIBE of a document, an entity or a strategy gives rows of property and value; what is
not there is an error with the nearest name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..errors import EntityNotFoundError
from ..retrieval.strategies import STRATEGIES, strategy_named
from ..storage.addresses import NODE
from ..storage.store_view import StoreView
from ..text.normalize import entity_key
from . import statements as s
from .changing import counted, find_document, not_found
from .cursor import Cursor, Row
from .diagnosis import nearest
from .finding import select, unknown_entity
from .reader import Reader
from .running import Running
from .sql_table import SqlTable
from .tables import TABLES

_PROPERTIES = ("property", "value")


def show(running: Running, statement: s.Show) -> Cursor:
    match statement.subject:
        case "tables":
            return _listed(
                ("name", "columns", "description"),
                ((table.name, ", ".join(table.columns), table.description) for table in TABLES.values()),
            )
        case "indexes":
            return select(running, s.Select("SELECT kind, state, built, stale FROM indexes"))
        case "strategies":
            return _listed(
                ("name", "description"), ((strategy.name, strategy.description) for strategy in STRATEGIES.values())
            )
        case "settings":
            return _listed(("name", "value", "fixed"), running.session.settings_table())
        case "stats":
            return _listed(("name", "value"), running.session.statistics().items())


def _listed(columns: tuple[str, ...], rows: Iterable[Row], kind: str = "SHOW") -> Cursor:
    found = list(rows)
    return Cursor(kind, columns, found, rowcount=len(found))


def describe_table(running: Running, statement: s.DescribeTable) -> Cursor:
    table = TABLES.get(statement.table.lower())
    if table is None:
        near = nearest(statement.table, TABLES)
        remedy = f"did you mean {near}?" if near else f"there are {', '.join(TABLES)}"
        raise running.failure(f"there is no table {statement.table}; {remedy}", at=statement.table)
    rows = ((name, kind or None, _ways_in(table, name)) for name, (kind, _) in table.columns.items())
    return _listed(("column", "type", "index"), rows, "DESCRIBE")


def _ways_in(table: SqlTable, column: str) -> str | None:
    """Which conditions on a column reach its rows without a scan."""
    ways = [way for way, columns in (("equality", table.equal), ("range", table.between)) if column in columns]
    return ", ".join(ways) or None


def describe_document(running: Running, statement: s.DescribeDocument) -> Cursor:
    with running.target.reading() as view:
        record = find_document(view, statement.key)
        if record is None:
            raise not_found(view.documents, statement.key)
        headings = [section.title for section in view.documents.outline(record.id)]
        introduced = sorted({view.entities.get(entity).name for entity, _, _ in view.entities.introduced(record.id)})
        rows = [
            ("key", record.key),
            ("title", record.title),
            ("source", record.source),
            ("format", record.format),
            ("meta", json.dumps(record.meta, ensure_ascii=False)),
            ("bytes", record.size),
            ("chunks", record.chunk_count),
            ("abstracts", sum(1 for _ in record.abstract_ids())),
            ("changed", record.changed),
            ("headings", "; ".join(headings)),
            ("introduces", "; ".join(introduced)),
        ]
    return _listed(_PROPERTIES, rows, "DESCRIBE")


def describe_entity(running: Running, statement: s.DescribeEntity) -> Cursor:
    with running.target.reading() as view:
        reader = Reader(view, running.session.settings_table)
        key = entity_key(statement.name)
        entity = reader.entity_id(key)
        if entity is None:
            raise EntityNotFoundError(unknown_entity(running, statement.name))
        record = view.entities.get(entity)
        entry = view.filter.find(key)
        places = reader.addresses_of(key)
        stated = view.aliases.get(key)
        trees = sorted({reader.tree_name(view.forest.node(place).tree) for rank, place in places if rank == NODE})
        rows = [
            ("name", record.name),
            ("key", record.key),
            ("kind", record.kind),
            ("forms", "; ".join(sorted(record.forms))),
            ("stands for", "" if stated is None else stated.entity),
            ("also called", "; ".join(_names_for(view, key))),
            ("mentions", reader.mention_count(entity, key)),
            ("abstracts", sum(1 for rank, _ in places if rank != NODE)),
            ("trees", "; ".join(trees)),
            ("temperature", 0 if entry is None else entry.temperature),
        ]
    return _listed(_PROPERTIES, rows, "DESCRIBE")


def _names_for(view: StoreView, key: str) -> list[str]:
    """The names that stand for an entity, as typed."""
    stated = map(view.aliases.get, view.aliases.stated_for(key))
    return [alias.name for alias in stated if alias is not None]


def describe_strategy(running: Running, statement: s.DescribeStrategy) -> Cursor:
    strategy = strategy_named(statement.strategy)
    rows: list[Row] = [("name", strategy.name), ("description", strategy.description)]
    for name, option in strategy.options.items():
        limits = f"{option.low:g} to {option.high:g}, by default {option.default:g}"
        rows.append((f"option {name}", f"{option.description} ({limits})"))
    return _listed(_PROPERTIES, rows, "DESCRIBE")


def check(running: Running, statement: s.Check) -> Cursor:
    problems = running.session.check()
    message = f"{counted(len(problems), 'problem')} found" if problems else "the store is sound"
    return Cursor(
        "CHECK",
        ("problem",),
        ((problem,) for problem in problems),
        rowcount=len(problems),
        message=message,
        failed=bool(problems),
    )
