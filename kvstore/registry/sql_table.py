"""A table of SELECT: its columns, and the access paths (lookups) to its rows.
A *row* is a small key internal to the store, such as an id. Its *record* is loaded when a column needs it.

In: a :class:`~kvstore.registry.table_reader.TableReader` of one state of the store. Out: rows, which are small keys
internal to the store, and the values of their columns, each read on demand. An access path can return too many rows but
never too few: SQLite checks every condition again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from ..process.frozen_dataclass import frozen_dataclass
from .table_reader import TableReader

#: The types of the value of a column or a parameter.
SqlValue = str | int | float | bool | bytes | None
Parameters = Sequence[SqlValue] | Mapping[str, SqlValue]
TableRow = Any
TableRows = Iterator[TableRow]

#: The greatest number of a row: keys are unsigned 64-bit integers.
_MAX_NUMBER = (1 << 64) - 1

#: A function that returns the value of a column, from the reader, the row and its record.
ReadColumn = Callable[[TableReader, TableRow, Any], SqlValue]


@frozen_dataclass
class SqlTable:
    """One table of the language.

    ``columns`` maps a name to (SQL type, reading function). ``hidden_columns`` are further columns, which a query must
    name because ``*`` omits them. ``scan`` returns all rows, and ``load`` the record of a row, which the reading
    functions get. The lookups are access paths by column, the most selective first. They return the rows that may have
    a value, a value in a range, or words that match a full-text query. A range has a lowest and a highest value, both
    inclusive; None means no limit. ``get_rowid`` returns SQLite's ``rowid`` of a row, and ``estimate_rows`` an estimate
    of the number of rows for SQLite's query planner.
    """

    name: str
    description: str
    columns: Mapping[str, tuple[str, ReadColumn]]
    scan: Callable[[TableReader], TableRows]
    load: Callable[[TableReader, TableRow], Any] = lambda reader, row: None
    get_rowid: Callable[[TableReader, TableRow], int] = lambda reader, row: row
    equality_lookups: Mapping[str, Callable[[TableReader, Any], TableRows]] = field(default_factory=dict)
    range_lookups: Mapping[str, Callable[[TableReader, Any, Any], TableRows]] = field(default_factory=dict)
    match_lookups: Mapping[str, Callable[[TableReader, str], TableRows]] = field(default_factory=dict)
    estimate_rows: Callable[[TableReader], int] = lambda reader: 1000
    hidden_columns: Mapping[str, tuple[str, ReadColumn]] = field(default_factory=dict)

    @property
    def all_columns(self) -> Mapping[str, tuple[str, ReadColumn]]:
        """The columns that a query can name, with (SQL type, reading function), the hidden ones last."""
        return {**self.columns, **self.hidden_columns}

    @property
    def declaration(self) -> str:
        """The CREATE TABLE statement without the hidden columns, for display."""
        return self._format_declaration(self.columns)

    @property
    def full_declaration(self) -> str:
        """The CREATE TABLE statement that SQLite gets, hidden columns included."""
        hidden_columns = {name: (f"{sql_type} HIDDEN", read) for name, (sql_type, read) in self.hidden_columns.items()}
        return self._format_declaration({**self.columns, **hidden_columns})

    def _format_declaration(self, columns: Mapping[str, tuple[str, ReadColumn]]) -> str:
        """Return the CREATE TABLE statement with these columns."""
        column_list = ", ".join(f'"{name}" {sql_type}' for name, (sql_type, _) in columns.items())
        return f'CREATE TABLE "{self.name}" ({column_list})'


def iter_optional(row: TableRow | None) -> TableRows:
    """Return an iterator over ``row`` alone, or an empty iterator if it is None (no such row)."""
    return iter(()) if row is None else iter((row,))


def make_row_lookup(table: str) -> Callable[[TableReader, int], TableRows]:
    """Return a function that looks up a row by its number, for an SQL table whose rows are the keys of an LMDB table.

    ``table`` is the name of the LMDB table, whose keys are integers.
    """
    return lambda reader, number: iter_optional(number if reader.has_row(table, number) else None)


def make_range_scan(table: str) -> Callable[[TableReader, int | None, int | None], TableRows]:
    """Return a function that scans a range of row numbers, for an SQL table whose rows are the keys of an LMDB table.

    ``table`` is the name of the LMDB table, whose keys are integers.
    """

    def scan_range(reader: TableReader, minimum: int | None, maximum: int | None) -> TableRows:
        """Yield the row numbers from ``minimum`` to ``maximum``, both included; None means no limit."""
        start = min(max(minimum or 0, 0), _MAX_NUMBER)
        stop = None if maximum is None or maximum >= _MAX_NUMBER else max(maximum + 1, 0)
        return reader.iter_ids(table, start, stop)

    return scan_range


def make_row_counter(table: str) -> Callable[[TableReader], int]:
    """Return a function that counts the records of ``table``, an LMDB table."""
    return lambda reader: reader.state.lmdb.count(table)


def hash_row(reader: TableReader, row: TableRow) -> int:
    """Return a ``rowid`` for a row that has no number: 63 bits of a hash, the same in every statement.

    Two of a million rows share a number with probability 5 × 10^-8. Only a query that uses ``rowid`` would notice.
    """
    import hashlib  # imported here because it loads all of OpenSSL, and few queries read such a number

    return int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest()) >> 1


def make_list_table(
    name: str, description: str, columns: Mapping[str, str], rows: Callable[[TableReader], Iterable[Any]]
) -> SqlTable:
    """Build a small table from a function that returns its rows as tuples; ``rowid`` counts from 1.

    ``columns`` maps each name to its SQL type. ``description`` is shown to users.
    """

    def make_column_reader(index: int) -> ReadColumn:
        """Return a function that returns the value with this index in a record, the tuple of a row's values."""
        return lambda reader, row, record: record[index]

    readers = map(make_column_reader, range(len(columns)))
    return SqlTable(
        name,
        description,
        {column: (sql_type, read) for (column, sql_type), read in zip(columns.items(), readers, strict=True)},
        scan=lambda reader: enumerate(rows(reader), 1),  # each row is (number, tuple of the values of its columns)
        load=lambda reader, row: row[1],
        get_rowid=lambda reader, row: row[0],
        estimate_rows=lambda reader: 20,  # an estimate for SQLite's planner: such lists are short
    )
