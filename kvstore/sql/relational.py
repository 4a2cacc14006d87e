"""SELECT over the store: SQLite runs the query, and the store's tables are its virtual tables.
A *scan* reads the rows that a *plan* selects: the text of one or two comparisons of a column, such as ``key >= ?``. A
*reader* reads one state of the store. Connections are pooled.

In: the text of a query or of a condition, parameters, and a :class:`~kvstore.registry.table_reader.TableReader`. Out:
column names and rows, or the documents that satisfy the condition. A query only reads, and reads a single state through
the reader. A query that SQLite rejects raises a :class:`~kvstore.errors.StatementError` that points at the error and
suggests the nearest table, column or word. Opening a connection costs more than a short query, so connections are
pooled; each serves one query at a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from ..errors import StatementError
from ..registry.sql_table import Parameters, SqlTable, SqlValue, TableRow, TableRows
from ..registry.table_reader import TableReader
from ..structures.state import State
from . import condition as conditions
from .interruption import MAX_VALUE_BYTES, is_interrupted, limits_value_size
from .select_errors import MakeError, translate_error
from .table_catalog import get_sql_tables

if TYPE_CHECKING:
    from ..text.text_query import TextMatcher

_OPERATORS = {
    apsw.SQLITE_INDEX_CONSTRAINT_EQ: "=",
    apsw.SQLITE_INDEX_CONSTRAINT_GE: ">=",
    apsw.SQLITE_INDEX_CONSTRAINT_GT: ">",
    apsw.SQLITE_INDEX_CONSTRAINT_LE: "<=",
    apsw.SQLITE_INDEX_CONSTRAINT_LT: "<",
    apsw.SQLITE_INDEX_CONSTRAINT_MATCH: "MATCH",
}
_ALLOWED_ACTIONS = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE})
#: Columns whose values identify at most one row of their table.
_UNIQUE_COLUMNS = frozenset({"rowid", "id", "key", "name"})
#: Rough estimates for SQLite's planner: the rows per value of a column that is not unique, and the fraction of
#: rows that a full-text query, a range with two ends, and a range with one end leave.
_ROWS_PER_VALUE, _MATCH_FRACTION, _RANGE_FRACTION, _OPEN_RANGE_FRACTION = 20, 1 / 20, 1 / 8, 1 / 2
#: The number of instructions of SQLite's virtual machine between two checks for an interruption.
_INSTRUCTIONS_BETWEEN_CHECKS = 20_000
#: The table of the documents for which a condition is evaluated.
_CANDIDATE_DOCUMENTS = "_candidate_documents"
_END_OF_ROWS, _NOT_LOADED = object(), object()
_MAX_IDLE_CONNECTIONS = 8


class _TableScan:
    """A cursor of a virtual table. SQLite calls its capitalized methods (https://sqlite.org/vtab.html).

    :meth:`_VirtualTable.BestIndexObject` chooses its plan.
    """

    def __init__(self, connection: _Connection, table: SqlTable) -> None:
        """Prepare a scan of a table for the running query of a connection."""
        self._reader = connection.active_reader
        self._table = table
        self._column_types = {name: sql_type for name, (sql_type, _) in table.all_columns.items()}
        self._read_functions = [read_column for _, read_column in table.all_columns.values()]
        self._rows: TableRows = iter(())
        self._row: TableRow = _END_OF_ROWS
        #: The record of the row; _NOT_LOADED until a column of the row is read.
        self._record: Any = _NOT_LOADED

    def Filter(self, number: int, plan: str | None, arguments: Sequence[SqlValue]) -> None:
        """Start a scan of the rows that the plan selects, or of all rows without a plan (xFilter).

        ``arguments`` are the values of the plan's parameters. ``number`` is SQLite's idxNum, which is not used.
        """
        self.Close()
        self._rows = self._find_rows(plan, arguments) if plan else self._table.scan(self._reader)
        self.Next()

    def _find_rows(self, plan: str, arguments: Sequence[SqlValue]) -> TableRows:
        """Return the rows to read for a plan and ``arguments``, the values of its parameters.

        A plan is one or two comparisons of one column, such as ``key >= ? AND key < ?`` or ``text MATCH ?``. There are
        no rows for NULL, and all rows for a value of another type than the column: SQLite checks each row once more.
        """
        operands: dict[str, SqlValue] = {}  # by the first character of the operator: "=", "<", ">" or "M" of MATCH
        for comparison, value in zip(plan.split(" AND "), arguments, strict=True):
            column, operator, _ = comparison.split(" ")
            if value is None:
                return iter(())  # a comparison with NULL is never true
            python_type = str if self._column_types.get(column, "INTEGER") == "TEXT" else int  # a rowid is an integer
            if not isinstance(value, python_type):
                return self._table.scan(self._reader)  # all rows: SQLite converts and compares the value
            operands[operator[0]] = value
        if "M" in operands:
            return self._table.match_lookups[column](self._reader, str(operands["M"]))
        if "=" in operands:
            return self._table.equality_lookups[column](self._reader, operands["="])
        return self._table.range_lookups[column](self._reader, operands.get(">"), operands.get("<"))

    def Eof(self) -> bool:
        """True if the scan has moved past its last row (xEof)."""
        return self._row is _END_OF_ROWS

    def Next(self) -> None:
        """Move to the next row, and count it in the costs of the query (xNext)."""
        self._record = _NOT_LOADED
        self._row = next(self._rows, _END_OF_ROWS)
        if self._row is not _END_OF_ROWS:
            self._reader.costs[self._table.name].rows += 1

    def Column(self, number: int) -> SqlValue:
        """Return the value of the column ``number`` (-1: the rowid) of the current row (xColumn).

        The row's record is loaded when the first of its columns is read.
        """
        if number < 0:
            return self.Rowid()
        if self._record is _NOT_LOADED:
            self._record = self._table.load(self._reader, self._row)
        return self._read_functions[number](self._reader, self._row, self._record)

    def Rowid(self) -> int:
        """Return the rowid of the current row, which is unique in its table (xRowid)."""
        return self._table.get_rowid(self._reader, self._row)

    def Close(self) -> None:
        """End the scan, and drop its remaining rows (xClose)."""
        close = getattr(self._rows, "close", None)
        if close is not None:
            close()  # also ends the LMDB scan
        self._rows = iter(())


class _MeasuredScan(_TableScan):
    """A scan that measures its cost: the time it takes and the database pages that it reads."""

    _is_measuring = False

    def Filter(self, number: int, plan: str | None, arguments: Sequence[SqlValue]) -> None:
        """Start a scan, and measure its cost."""
        with self._measure_cost():
            super().Filter(number, plan, arguments)

    def Next(self) -> None:
        """Move to the next row, and measure the cost."""
        with self._measure_cost():
            super().Next()

    def Column(self, number: int) -> SqlValue:
        """Return the value of the column ``number`` of the current row, and measure the cost."""
        with self._measure_cost():
            return super().Column(number)

    @contextmanager
    def _measure_cost(self) -> Iterator[None]:
        """Add the time that the body of the ``with`` statement takes, and the pages it reads, to the table's cost.

        Nested calls measure nothing, so that no cost counts twice.
        """
        measured, cost = self._reader.measured_view, self._reader.costs[self._table.name]
        if measured is None or self._is_measuring:  # a nested call: Filter calls Next
            yield
            return
        self._is_measuring = True
        pages, start = measured.pages, time.perf_counter()
        try:
            yield
        finally:
            self._is_measuring = False
            cost.seconds += time.perf_counter() - start
            cost.pages += measured.pages - pages


class _Constraint(NamedTuple):
    """A comparison of a column that SQLite may pass to a scan; ``sqlite_index`` is its index in SQLite's list."""

    sqlite_index: int
    column: str
    operator: str


class _VirtualTable:
    """A virtual table of one connection, which chooses the plan of a query, and opens scans."""

    def __init__(self, connection: _Connection, table: SqlTable) -> None:
        """Create the virtual table by which a SQLite connection reads a table of the store."""
        self._connection = connection
        self._table = table
        self._column_names = list(table.all_columns)

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:
        """Choose the plan of a query; called by SQLite's planner (xBestIndex).

        ``info`` has the constraints of the query, and receives the plan (``idxStr``, None for a scan of all rows) and
        its estimated cost. Returns True, which accepts the query: SQLite checks every constraint itself.
        """
        constraints = []
        for index in range(info.nConstraint):
            operator = _OPERATORS.get(info.get_aConstraint_op(index))
            # Lookups compare bytes, so comparisons with another collation, such as NOCASE, are left to SQLite.
            if operator and info.get_aConstraint_usable(index) and info.get_aConstraint_collation(index) == "BINARY":
                column = info.get_aConstraint_iColumn(index)  # -1 is the rowid
                column_name = self._column_names[column] if column >= 0 else "rowid"
                constraints.append(_Constraint(index, column_name, operator))
        num_table_rows = self._table.estimate_rows(self._connection.active_reader)
        selected, num_rows = self._choose_constraints(constraints, num_table_rows)
        for position, constraint in enumerate(selected, 1):  # SQLite passes the operands to Filter in this order
            info.set_aConstraintUsage_argvIndex(constraint.sqlite_index, position)
        info.idxStr = " AND ".join(f"{constraint.column} {constraint.operator} ?" for constraint in selected) or None
        info.estimatedRows = max(1, int(num_rows))
        info.estimatedCost = 10 + num_rows  # starting a scan costs as much as reading about 10 rows
        return True

    def _choose_constraints(
        self, constraints: Sequence[_Constraint], num_rows: int
    ) -> tuple[Sequence[_Constraint], float]:
        """Return the constraints of the best plan, and the estimated number of rows that satisfy them.

        An equality is better than a full-text query, which is better than a range. If no lookup of the table supports
        a constraint, the result is an empty list and ``num_rows``, the number of rows of the table.
        """
        for column in self._table.equality_lookups:
            for constraint in constraints:
                if constraint.column == column and constraint.operator == "=":
                    return [constraint], 1 if column in _UNIQUE_COLUMNS else min(num_rows, _ROWS_PER_VALUE)
        for constraint in constraints:
            if constraint.operator == "MATCH" and constraint.column in self._table.match_lookups:
                return [constraint], num_rows * _MATCH_FRACTION
        for column in self._table.range_lookups:
            on_column = [constraint for constraint in constraints if constraint.column == column]
            lower = [constraint for constraint in on_column if constraint.operator[0] == ">"][:1]
            upper = [constraint for constraint in on_column if constraint.operator[0] == "<"][:1]
            if lower or upper:
                return lower + upper, num_rows * (_RANGE_FRACTION if lower and upper else _OPEN_RANGE_FRACTION)
        return [], num_rows

    def Open(self) -> _TableScan:
        """Return a new scan (xOpen); it measures its cost if the caller of the query asked for costs."""
        is_measured = self._connection.active_reader.measured_view is not None
        return (_MeasuredScan if is_measured else _TableScan)(self._connection, self._table)

    def Disconnect(self) -> None:
        """Do nothing, because the table holds no resources. SQLite calls it when the connection is closed."""

    Destroy = Disconnect


class _Module:
    """A virtual-table module for one table of one connection. SQLite calls it when a query first names the table."""

    def __init__(self, connection: _Connection, name: str) -> None:
        """Create the module of the table ``name``, which is loaded when a query of ``connection`` first uses it."""
        self._connection = connection
        self._name = name

    def Connect(self, *_: object) -> tuple[str, _VirtualTable]:
        """Return the declaration of the table (CREATE TABLE), and a new virtual table; SQLite calls it (xConnect)."""
        table = self._connection.load_table(self._name)
        return table.full_declaration, _VirtualTable(self._connection, table)

    Create = Connect


class _Connection:
    """A SQLite connection with the store's tables. ``reader`` has the state that the running query reads."""

    def __init__(self) -> None:
        """Open a SQLite database in memory, in which a query can only read the tables of the store."""
        self.reader: TableReader | None = None
        self._text_matcher: TextMatcher | None = None
        self._table_names = tuple(get_sql_tables())
        self._loaded_tables: dict[str, SqlTable] = {}
        self._has_schema = False
        self.sqlite = apsw.Connection(":memory:")
        # An unknown name in double quotes must be an error, not a string.
        self.sqlite.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        self.sqlite.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        for name in (*self._table_names, _CANDIDATE_DOCUMENTS):
            module: Any = _Module(self, name)
            self.sqlite.create_module(name, module, use_bestindex_object=True, eponymous_only=True, read_only=True)
        # Deny everything but reading, such as ATTACH or PRAGMA.
        self.sqlite.authorizer = lambda action, *_: apsw.SQLITE_OK if action in _ALLOWED_ACTIONS else apsw.SQLITE_DENY
        # SQLite calls this handler regularly, so that Ctrl-C or an interruption stops a long query.
        self.sqlite.set_progress_handler(is_interrupted, _INSTRUCTIONS_BETWEEN_CHECKS)
        # SQLite calls match(query, text) for ``text MATCH query``: to check a row, also if the table looked the row up.
        self.sqlite.create_scalar_function("match", self._match, 2, deterministic=True)
        self._max_value_bytes = self.sqlite.limit(apsw.SQLITE_LIMIT_LENGTH)

    def load_table(self, name: str) -> SqlTable:
        """Return the table ``name``; its module is imported on first use.

        The table is recorded, so that :meth:`is_current` detects if the catalog replaces it. The table of candidate
        documents is not recorded, because it is not in the catalog.
        """
        if name == _CANDIDATE_DOCUMENTS:
            from .document_tables import CANDIDATE_DOCUMENTS

            return CANDIDATE_DOCUMENTS
        table = self._loaded_tables[name] = get_sql_tables()[name]
        return table

    def is_current(self) -> bool:
        """True if the catalog still has the same tables as when the connection was opened.

        The tables of a system are added when it is registered.
        """
        catalog = get_sql_tables()
        return self._table_names == tuple(catalog) and all(
            catalog[name] is table for name, table in self._loaded_tables.items()
        )

    def begin_query(self, reader: TableReader, text: str) -> None:
        """Prepare the connection for the query ``text`` on the state of ``reader``.

        Set the maximum size of values, and fill ``sqlite_master`` if the query mentions a table of the schema.
        """
        self.reader = reader
        if not self._has_schema and "sqlite_" in text.lower():
            self._fill_schema()
        self.sqlite.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES if limits_value_size() else self._max_value_bytes)

    def _fill_schema(self) -> None:
        """Add the tables to ``sqlite_master``, where clients look for them. SQLite does not add these tables itself."""
        authorizer, self.sqlite.authorizer = self.sqlite.authorizer, None
        self.sqlite.pragma("writable_schema", True)
        self.sqlite.executemany(
            "INSERT INTO sqlite_master VALUES ('table', ?1, ?1, 0, ?2)",
            [(name, get_sql_tables()[name].declaration) for name in self._table_names],
        )
        self.sqlite.pragma("writable_schema", False)
        self.sqlite.authorizer = authorizer
        self._has_schema = True

    def end_query(self) -> None:
        """Drop the reader and the text matcher of the finished query."""
        self.reader, self._text_matcher = None, None

    def _match(self, *arguments: SqlValue) -> int | None:
        """Implement the SQL function ``match(query, text)``: return 1 if the text matches the query, else 0.

        Return None if one of the arguments is NULL, or if the text is a blob.
        """
        from ..text.text_query import TextMatcher
        from .text_matching import match_text

        query, text = arguments
        if self._text_matcher is None:
            self._text_matcher = TextMatcher(self.active_reader.state.settings.stemmer)
        return match_text(self._text_matcher, query, text)

    @property
    def active_reader(self) -> TableReader:
        """The reader of the running query."""
        assert self.reader is not None  # set before a query is prepared, and cleared when it ends
        return self.reader


class _Pool:
    """A pool of idle connections, for any thread. A forked process starts with an empty pool."""

    def __init__(self) -> None:
        """Create an empty pool, which keeps at most ``_MAX_IDLE_CONNECTIONS`` connections for later queries."""
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []

    def take_connection(self, reader: TableReader, text: str) -> _Connection:
        """Return a connection prepared for the query ``text``: an idle one, removed from the pool, or a new one.

        An idle connection is dropped if the tables of the catalog have changed.
        """
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None or not connection.is_current():
            connection = _Connection()
        connection.begin_query(reader, text)
        return connection

    def give_back(self, connection: _Connection) -> None:
        """Return a connection to the pool, or drop it if the pool is full."""
        connection.end_query()
        with self._lock:
            if len(self._idle) < _MAX_IDLE_CONNECTIONS:
                self._idle.append(connection)

    def reset_after_fork(self) -> None:
        """Drop the connections of the parent process, which the child must not use."""
        self._lock = threading.Lock()
        self._idle = []


_pool = _Pool()
os.register_at_fork(after_in_child=_pool.reset_after_fork)


class Selection:
    """A running query. Iterate it to read its rows. It ends after the last row or when it is closed.

    ``columns`` are the names of its columns, and ``types`` their declared types (None: an expression, or a column of
    any type).
    """

    _connection: _Connection | None = None

    def __init__(self, text: str, parameters: Parameters, reader: TableReader, make_error: MakeError) -> None:
        """Start the query ``text`` with its parameters on the state of ``reader``.

        Raises the error that ``make_error`` creates for a position in the text, or an InputError for a parameter.
        """
        self.columns: tuple[str, ...] = ()
        self.types: tuple[str | None, ...] = ()
        self._text = text
        self._make_error = make_error
        self._connection = _pool.take_connection(reader, text)
        self._cursor = self._connection.sqlite.cursor()
        self._cursor.exec_trace = self._record_columns
        try:
            self._cursor.execute(text, parameters)
        except Exception as error:
            self.close()
            raise translate_error(error, self._text, self._make_error) from error
        except BaseException:
            self.close()
            raise

    def _record_columns(self, cursor: apsw.Cursor, text: str, bindings: object) -> bool:
        """Record the columns of the query; apsw calls this with the cursor, text and parameters before the first row.

        For a query without rows, the columns are known only here. Returns True to let the query run.
        """
        description = cursor.get_description()
        self.columns = tuple(name for name, _ in description)
        self.types = tuple(declared_type or None for _, declared_type in description)
        return True

    def __iter__(self) -> Iterator[tuple[SqlValue, ...]]:
        """Return the query itself, which is an iterator over its rows."""
        return self

    def __next__(self) -> tuple[SqlValue, ...]:
        """Return the next row; close the query at the end and after an error, which is translated."""
        if self._connection is None:
            raise StopIteration
        try:
            return next(self._cursor)
        except StopIteration:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise translate_error(error, self._text, self._make_error) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the query and return its connection to the pool."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._cursor.close(force=True)
            _pool.give_back(connection)

    def __del__(self) -> None:
        """End a query that was not read to its end, so that its connection returns to the pool."""
        self.close()


def select_documents(
    state: State, condition: str, parameters: Parameters = (), candidate_ids: Sequence[int] | None = None
) -> Iterator[int]:
    """Yield the ids of documents for which ``condition``, a SQL expression over the ``documents`` table, is true.

    ``parameters`` are the values of its ``?`` or names. SQLite reads the candidates, or all documents if
    ``candidate_ids`` is None. Raises a StatementError that points at the error for an invalid condition.
    """
    from ..structures.language_version import list_fixed_settings

    table = "documents" if candidate_ids is None else f"{_CANDIDATE_DOCUMENTS} AS documents"
    prefix = f"SELECT rowid FROM {table} WHERE (\n"

    def make_error(position: int | None, reason: str) -> StatementError:
        """Return an error that shows the position in the condition instead of the query around it."""
        offset = None if position is None else max(0, position - len(prefix))
        if offset is not None and offset > len(condition):  # at the parenthesis that is added here
            offset, reason = len(condition), "the condition ends too early"
        return conditions.ConditionError(condition, offset, reason)

    reader = TableReader(state, lambda: list_fixed_settings(state), candidate_ids or ())
    rows = Selection(f"{prefix}{condition}\n)", parameters, reader, make_error)
    return (int(document_id) for (document_id,) in rows)  # type: ignore[arg-type]
