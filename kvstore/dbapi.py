"""The Python database API 2.0 (PEP 249) for stores, for programs and libraries that access databases through it.
A connection is a session of the store: a handle with its own settings and transaction.

In: the path of a store, statements of its language with values for ``?`` or ``:name``. Out: connections and cursors. A
statement that changes documents, edges or aliases begins a transaction. :meth:`StoreConnection.commit` makes it durable
and visible to others, unless the connection commits automatically (``autocommit``). Statements that cannot run in a
transaction, such as INGEST, commit as they run.

>>> import kvstore.dbapi, tempfile
>>> path = tempfile.mkdtemp() + "/store"
>>> connection = kvstore.dbapi.connect(path, embedder="hashing", settings={"language": "rules"})
>>> cursor = connection.cursor()
>>> cursor.execute("INSERT DOCUMENT ? TEXT ?", ("tea", "Tea is made from leaves.")).rowcount
1
>>> connection.commit()
>>> cursor.execute("SELECT key, bytes FROM documents").fetchall()
[('tea', 24)]
>>> cursor.description[1][1] == kvstore.dbapi.NUMBER
True
>>> connection.close()
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import errors
from .language import iter_tokens
from .process.closed_on_exit import ClosedOnExit

if TYPE_CHECKING:
    from .language import Cursor
    from .store.store import Store

#: The version of the API, the level of thread safety (threads must not share connections), and the parameter style.
apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

Row = tuple[Any, ...]
StatementValues = Sequence[Any] | Mapping[str, Any]

# Constructors of values; dates are stored as ISO 8601 text.
Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """Return the local date of a time in seconds since the epoch."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """Return the local time of day of a time in seconds since the epoch."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """Return the local date and time of a time in seconds since the epoch."""
    return Timestamp(*time.localtime(ticks)[:6])


class TypeObject:
    """A group of type codes. It equals each of the codes in :attr:`StoreCursor.description`."""

    def __init__(self, *codes: str) -> None:
        """Create an object that equals each of the type codes, such as "INTEGER" and "REAL"."""
        self.codes = frozenset(codes)

    def __eq__(self, other: object) -> bool:
        """True if ``other`` is one of the type codes, or this object."""
        return other in self.codes if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        """Return the hash of the set of type codes."""
        return hash(self.codes)

    def __repr__(self) -> str:
        """Return the Python expression that creates this object."""
        return f"TypeObject({', '.join(map(repr, sorted(self.codes)))})"


STRING = TypeObject("TEXT")
NUMBER = TypeObject("INTEGER", "REAL")
BINARY = TypeObject("BLOB")
#: Lists and mappings, such as the citations of an answer.
JSON = TypeObject("JSON")
#: No column has these types: dates are text, and a row is identified by its key.
DATETIME = TypeObject("DATETIME")
ROWID = TypeObject("ROWID")


class Warning(Exception):
    """The class of PEP 249 for warnings; kvstore never raises it."""


class Error(errors.KvstoreError):
    """The base of the errors of this module. Its ``__cause__`` is kvstore's own error, with its line and column."""


class InterfaceError(Error):
    """A connection or cursor was used after it was closed, or rows were fetched without a result."""


class DatabaseError(Error):
    """The base of the store's errors."""


class DataError(DatabaseError):
    """A value cannot be stored."""


class OperationalError(DatabaseError):
    """The store is missing, locked, full or read-only, so it cannot be opened or changed, or a model is unavailable."""


class IntegrityError(DatabaseError):
    """A document with this key already exists."""


class InternalError(DatabaseError):
    """The store is damaged."""


class ProgrammingError(DatabaseError):
    """A statement or a parameter is invalid, or names something that does not exist."""


class NotSupportedError(DatabaseError):
    """The store does not support the operation."""


#: The class for each of kvstore's errors, by the first match. All other errors are operational.
_ERROR_CLASSES: tuple[tuple[type[errors.KvstoreError], type[Error]], ...] = (
    (Error, Error),
    (errors.DocumentExistsError, IntegrityError),
    (errors.CorruptionError, InternalError),
    (errors.ClosedError, InterfaceError),
    (errors.StatementError, ProgrammingError),
    (errors.InputError, ProgrammingError),
    (errors.DocumentNotFoundError, ProgrammingError),
    (errors.EntityNotFoundError, ProgrammingError),
)

#: The first words of the statements that begin a transaction.
_CHANGE_WORDS = frozenset({"INSERT", "UPDATE", "DELETE", "ALIAS", "MERGE", "UNMERGE"})


class _ErrorTranslation:
    """A context that converts a kvstore error to the error of this module that PEP 249 asks for.

    It does not use ``contextlib``, whose frames keep the error, and with it the connection, since Python 3.12.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raise the corresponding error of this module, from the original, if the block raised a kvstore error."""
        if isinstance(error, errors.KvstoreError) and not isinstance(error, Error):
            error_class = next(
                (error_class for kvstore_class, error_class in _ERROR_CLASSES if isinstance(error, kvstore_class)),
                OperationalError,
            )
            raise error_class(str(error)) from error


def connect(
    store: Store | str | os.PathLike[str], *, autocommit: bool = False, timeout: float | None = None, **options: Any
) -> StoreConnection:
    """Return a connection to the store at a path, created if it is missing, or to a new session of an open store.

    With ``autocommit``, each statement commits its changes, as in :attr:`StoreConnection.autocommit`. ``timeout`` is
    how many seconds a change waits for another writer (default: 5, or the timeout of the open store). Further
    ``options`` for a path are those of :func:`kvstore.open` (``create``, ``readonly``, ``embedder``, ``settings``,
    ``durability``). Raises OperationalError if the store cannot be opened, and ProgrammingError for an invalid option.
    """
    from .arguments import check_clauses
    from .storage.open_options import check_lock_timeout
    from .store.opening import open_store
    from .store.store import Store

    with _ErrorTranslation():
        if isinstance(store, Store):
            if options:
                raise errors.InputError(f"connect() accepts no options for an open store; omit {next(iter(options))}")
            if timeout is not None:
                check_clauses("connect", {"timeout": timeout}, {"timeout": "float"})
                check_lock_timeout(timeout)
            session = store.session()
            if timeout is not None:
                session._session.lock_timeout = float(timeout)
            return StoreConnection(session, autocommit=autocommit)
        if timeout is not None:
            options["lock_timeout"] = timeout
        return StoreConnection(open_store(store, **options), autocommit=autocommit)


class StoreConnection:
    """A connection of PEP 249 to a store. ``session`` is its session, which has all methods of a store.

    As a context manager it commits at the end, or rolls back after an error, and stays open.
    """

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, session: Store, *, autocommit: bool = False) -> None:
        """Create a connection that runs statements in ``session``, each in its own transaction if ``autocommit``."""
        self.session = session
        self._autocommit = autocommit

    @property
    def autocommit(self) -> bool:
        """True if each statement commits automatically. Setting it to True commits an open transaction."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        """Turn automatic commits on, after committing an open transaction, or off."""
        if value:
            self.commit()
        self._autocommit = value

    @property
    def in_transaction(self) -> bool:
        """True if there are changes to commit or roll back, or BEGIN was run."""
        return self.session.in_transaction

    def cursor(self) -> StoreCursor:
        """Return a new cursor; all cursors of a connection share its transaction. Raises InterfaceError if closed."""
        self._require_open()
        return StoreCursor(self)

    def execute(self, sql: str, parameters: StatementValues = ()) -> StoreCursor:
        """Run a statement with a new cursor, and return the cursor."""
        return self.cursor().execute(sql, parameters)

    def commit(self) -> None:
        """Make the changes since the last commit durable and visible. Does nothing if there are none.

        Raises OperationalError if another thread made them: only that thread can end its transaction.
        """
        self._end_transaction("COMMIT")

    def rollback(self) -> None:
        """Undo the changes since the last commit. Does nothing if there are none.

        Raises OperationalError if another thread made them: only that thread can end its transaction.
        """
        self._end_transaction("ROLLBACK")

    def _end_transaction(self, statement: str) -> None:
        """Run ``statement``, COMMIT or ROLLBACK, if a transaction is open.

        Raises OperationalError if another thread opened it, and InterfaceError if the connection is closed.
        """
        self._require_open()
        if self.session.in_transaction or self.session._other_transaction_thread is not None:
            with _ErrorTranslation():
                self.session.execute(statement)

    def close(self) -> None:
        """Roll back uncommitted changes and end the session. Does nothing if it is already closed, as in sqlite3."""
        with _ErrorTranslation():
            self.session.close()

    def _require_open(self) -> None:
        """Raise InterfaceError if the connection is closed."""
        if self.session.closed:
            raise InterfaceError("the connection is closed; connect() opens another")

    def __enter__(self) -> StoreConnection:
        """Return this connection. Raises InterfaceError if it is closed."""
        self._require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, or roll back if the block raised an error; the connection stays open."""
        if kind is None:
            self.commit()
        else:
            self.rollback()


class StoreCursor(ClosedOnExit):
    """A cursor that runs statements on a connection and holds the rows of the last one, one result at a time."""

    #: Always None: no statement assigns row ids.
    lastrowid: None = None

    def __init__(self, connection: StoreConnection) -> None:
        """Create a cursor of ``connection`` without a result."""
        self.connection = connection
        #: The default number of rows that :meth:`fetchmany` returns.
        self.arraysize = 1
        #: The number of rows or of changed documents, or -1 if unknown.
        self.rowcount = -1
        self._result: Cursor | None = None
        self._is_closed = False

    @property
    def description(self) -> tuple[tuple[str, str | None, None, None, None, None, None], ...] | None:
        """The columns of the last statement, or None if it returns no rows.

        Each column is the 7-tuple of PEP 249: its name, its type code, such as "TEXT" (None: unknown), and five None.
        """
        return None if self._result is None else self._result.description

    @property
    def message(self) -> str | None:
        """The message of the last statement in addition to its rows, such as "1 document inserted", or None."""
        return None if self._result is None else self._result.message

    def execute(self, operation: str, parameters: StatementValues | None = ()) -> StoreCursor:
        """Run one statement, and return this cursor, which iterates over its rows.

        A statement that changes something begins a transaction unless one is open. If this first statement of the
        transaction fails, the transaction is rolled back.
        """
        self._run_statement(operation, () if parameters is None else parameters)
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[StatementValues]) -> StoreCursor:
        """Run one statement, which must not return rows, with each of several sets of parameters; return this cursor.

        ``rowcount`` is then the number of changed documents of all runs together. Raises ProgrammingError if the
        statement returns rows.
        """
        num_changed = 0
        self._result = None
        for parameters in seq_of_parameters:
            result = self._run_statement(operation, parameters)
            if result.columns:
                result.close()
                self._result = None
                raise ProgrammingError(
                    "executemany() takes a statement without rows; use execute() for one that returns rows"
                )
            num_changed += max(0, result.rowcount)
        self.rowcount = num_changed
        return self

    def _run_statement(self, operation: str, parameters: StatementValues) -> Cursor:
        """Run one statement, and return its result.

        Without autocommit, a change outside of a transaction begins one. The cursor's previous result is closed. If the
        first statement of a transaction fails, the transaction is rolled back. Raises the errors of this module.
        """
        self._require_open()
        if self._result is not None:
            self._result.close()
        self._result, self.rowcount = None, -1
        if not isinstance(operation, str):
            raise ProgrammingError(f"a statement must be text, not {type(operation).__name__}")
        with _ErrorTranslation():
            words = _parse_first_words(operation)
            session = self.connection.session
            starts_transaction = not self.connection.autocommit and not session.in_transaction and _is_change(words)
            if starts_transaction:
                session.execute("BEGIN")
            try:
                self._result = session.execute(operation, _bind_parameters(parameters))
            except BaseException:
                if starts_transaction and session.in_transaction:
                    session.execute("ROLLBACK")
                raise
        self.rowcount = self._result.rowcount
        return self._result

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last. Raises ProgrammingError if the statement returns no rows."""
        with _ErrorTranslation():
            return self._get_result().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next rows, at most ``size`` (None: ``arraysize``); an empty list after the last."""
        with _ErrorTranslation():
            return self._get_result().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """Return all remaining rows."""
        with _ErrorTranslation():
            return self._get_result().fetchall()

    def __iter__(self) -> Iterator[Row]:
        """Yield the remaining rows."""
        while (row := self.fetchone()) is not None:
            yield row

    def _get_result(self) -> Cursor:
        """Return the result of the last statement. Raises ProgrammingError if it returns no rows, or none was run."""
        self._require_open()
        if self._result is None or not self._result.columns:
            raise ProgrammingError("there are no rows: no statement was run, or the last statement returns no rows")
        return self._result

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing, as PEP 249 allows: values can have any size."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows: values can have any size."""

    def close(self) -> None:
        """Discard the remaining rows. A closed cursor cannot run statements."""
        if self._result is not None:
            self._result.close()
        self._result, self._is_closed = None, True

    def _require_open(self) -> None:
        """Raise InterfaceError if the cursor or its connection is closed."""
        self.connection._require_open()
        if self._is_closed:
            raise InterfaceError("the cursor is closed; cursor() returns another")


def _parse_first_words(operation: str) -> list[str]:
    """Return the first two words of one statement, in upper case. Raises StatementError for several statements."""
    words: list[str] = []
    has_ended = False  # by a semicolon
    for token in iter_tokens(operation):
        if token.kind in ("space", "comment"):
            continue
        if has_ended and token.kind != "semicolon":
            raise errors.StatementError("execute() takes one statement; call it once per statement")
        has_ended = has_ended or (token.kind == "semicolon" and bool(words))
        if len(words) < 2 and token.kind != "semicolon":
            words.append(token.text.upper())
    return words


def _is_change(words: Sequence[str]) -> bool:
    """True if a statement with these first words changes the store, and so begins a transaction."""
    return bool(words) and (words[0] in _CHANGE_WORDS or words == ["DROP", "ALIAS"])


def _bind_parameters(parameters: StatementValues) -> StatementValues:
    """Return the parameters with every value converted to an SQLite type.

    Raises ProgrammingError for other kinds of parameters, such as a set, which has no order.
    """
    if isinstance(parameters, Mapping):
        return {name: _convert_value(value) for name, value in parameters.items()}
    if not isinstance(parameters, Sequence):
        raise ProgrammingError(
            f"parameters must be a sequence, or a mapping of names to values, not {type(parameters).__name__}"
        )
    return [_convert_value(value) for value in parameters]


def _convert_value(value: Any) -> Any:
    """Convert a date or time to ISO 8601, and a buffer to bytes, for SQLite; return other values unchanged."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value
