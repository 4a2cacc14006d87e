"""The catalog of SELECT: the tables of every store and of the systems, by name.

In: the name of a table. Out: the table. Its module is imported when a query first names it, so a query imports neither
the other tables nor the systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from ..errors import InputError, suggest
from ..registry import SQL_TABLES
from ..registry.sql_table import SqlTable

#: The module and the variable of each table whose rows depend only on the last change.
_FACT_TABLES = {
    "documents": "document_tables:DOCUMENTS",
    "chunks": "document_tables:CHUNKS",
    "abstracts": "document_tables:ABSTRACTS",
    "entities": "store_tables:ENTITIES",
    "mentions": "store_tables:MENTIONS",
    "trees": "store_tables:TREES",
    "nodes": "store_tables:NODES",
    "edges": "store_tables:EDGES",
    "triples": "store_tables:TRIPLES",
    "aliases": "store_tables:ALIASES",
}
#: The same for settings, files and indexes, which can change without the documents.
_STORE_TABLES = {
    "files": "document_tables:FILES",
    "settings": "store_tables:SETTINGS",
    "filter_pages": "store_tables:FILTER_PAGES",
    "indexes": "store_tables:INDEX_STATUSES",
}
_CORE_TABLES = {**_FACT_TABLES, **_STORE_TABLES}

#: The names of the tables whose rows depend only on the last change.
CACHEABLE_TABLES = frozenset(_FACT_TABLES)


class _TableCatalog(Mapping[str, SqlTable]):
    """All tables by name: the tables of every store, then the tables of the systems."""

    def __getitem__(self, name: str) -> SqlTable:
        """Return a table, whose module is imported at its first use. Raises KeyError for an unknown name."""
        if name not in _CORE_TABLES:
            return SQL_TABLES[name]
        module, _, variable = _CORE_TABLES[name].partition(":")
        table: SqlTable = getattr(import_module(f".{module}", __package__), variable)
        return table

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all tables; this imports none of their modules."""
        yield from _CORE_TABLES
        yield from SQL_TABLES

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(_CORE_TABLES) + len(SQL_TABLES)

    def __contains__(self, name: object) -> bool:
        """True if there is a table with this name; unlike the method of Mapping, this one imports no module."""
        return name in _CORE_TABLES or name in SQL_TABLES


_CATALOG = _TableCatalog()


def get_sql_tables() -> Mapping[str, SqlTable]:
    """Return a mapping of table names to tables. The module of a table is imported when it is first looked up."""
    return _CATALOG


def get_sql_table(name: str) -> SqlTable:
    """Return the table with a name, ignoring case. Raises InputError if it does not exist."""
    tables_by_name = get_sql_tables()
    table = tables_by_name.get(name.lower())
    if table is None:
        suggestion = suggest(name, tables_by_name)
        remedy = f"did you mean {suggestion}?" if suggestion else f"the tables are {', '.join(tables_by_name)}"
        raise InputError(f"there is no table {name}; {remedy}")
    return table
