"""One reading statement with limits on time, rows and bytes, for queries from untrusted users.
A query is *abandoned* if the caller no longer waits for its result; its thread may continue for a while.

In: the text of one statement. Out: all its rows, so that nothing stays open. Anything but exactly one reading statement
is rejected before it runs. The statement runs in its own thread, and the caller stops waiting after the timeout or an
interrupt; SQLite stops at its next step.

A single call to an SQLite function cannot be stopped, so an abandoned thread may continue for a while, with values of
at most :data:`~kvstore.sql.interruption.MAX_VALUE_BYTES` bytes. If :data:`MAX_ABANDONED` threads do, the next query
waits for one.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeVar, cast

from ..database.database import Database
from ..errors import InputError, QueryInterruptedError, ResultTooLargeError, StatementError
from ..registry.sql_table import Parameters
from ..sql.interruption import allow_interruption
from . import statements
from .cursor import Cursor, Row
from .executor import run as run_statement
from .parser import ParsedStatement, parse

#: The maximum total length of the values in all rows of a query: texts count their characters, binary values their
#: bytes.
MAX_RESULT_BYTES = 64 << 20
#: The maximum number of threads that still run an abandoned query.
MAX_ABANDONED = 4

_Result = TypeVar("_Result")

READ_STATEMENTS = (
    statements.Lookup,
    statements.Expand,
    statements.ExpandIndex,
    statements.Search,
    statements.Retrieve,
    statements.Ask,
    statements.Select,
    statements.Show,
    statements.DescribeTable,
    statements.DescribeDocument,
    statements.DescribeEntity,
    statements.DescribeStrategy,
    statements.DescribeItem,
)
_READ_STATEMENT_NAMES = "LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK, SELECT, SHOW, DESCRIBE, or EXPLAIN of one of these"


class BoundedQueries:
    """The bounded queries of one session."""

    def __init__(self) -> None:
        """Create the registry of a session's running queries, which is empty."""
        self._lock = threading.Lock()
        self._running_queries: set[_RunningQuery] = set()

    def run(
        self, database: Database, sql: str, parameters: Parameters, timeout: float | None, max_rows: int | None
    ) -> Cursor:
        """Execute the one read-only statement in ``sql``, and return its rows.

        Returns at most ``max_rows`` rows, and raises QueryInterruptedError after ``timeout`` seconds (None: no limit).
        Also raises StatementError unless ``sql`` is exactly one read-only statement, InputError for an invalid limit or
        in an open transaction, and the errors of the statement.
        """
        _check_limit(
            "the timeout", timeout, f"a number of seconds above 0, at most {threading.TIMEOUT_MAX:,.0f}, or None"
        )
        _check_limit("max_rows", max_rows, "a whole number above 0, or None", is_integer=True)
        parsed_statement = _parse_read_statement(sql, parameters)
        if database.in_transaction:
            raise InputError(
                "query() reads the last commit, but a transaction is open in this thread; use execute() to read "
                "inside it"
            )
        return self.call(
            lambda: _read_rows(run_statement(database, sql, parsed_statement), max_rows),
            None if timeout is None else float(timeout),
        )

    def call(self, read_function: Callable[[], _Result], timeout: float | None) -> _Result:
        """Call ``read_function`` in a new thread, and return its result.

        Raises the errors of ``read_function``, and QueryInterruptedError after ``timeout`` seconds or
        :meth:`interrupt`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        query = _RunningQuery(read_function)
        with self._lock:
            self._running_queries.add(query)
        try:
            return cast(_Result, query.run_in_thread(deadline, timeout))
        finally:
            with self._lock:
                self._running_queries.discard(query)

    def interrupt(self) -> None:
        """Interrupt all running queries."""
        with self._lock:
            for query in self._running_queries:
                query.interrupt("interrupted")


class _RunningQuery:
    """A query that runs in its own thread, and the caller's wait for its result."""

    #: The number of abandoned queries that still run, and the lock that protects it.
    _num_abandoned = 0
    _abandoned_condition = threading.Condition()

    def __init__(self, read_function: Callable[[], Any]) -> None:
        """Prepare a query that calls ``read_function`` in a new thread."""
        self._read_function = read_function
        #: Set to make the query's thread stop.
        self._stop = threading.Event()
        #: Protects the attributes below; notified when the query ends or is interrupted.
        self._condition = threading.Condition()
        self._result: Any = None
        self._error: BaseException | None = None
        #: The reason of the interruption, or None.
        self._reason: str | None = None
        #: True once the thread has ended; true if the caller no longer waits for the result.
        self._has_ended = self._is_abandoned = False

    def interrupt(self, reason: str) -> None:
        """Wake the waiting caller, which then raises an error with the first ``reason`` that was given."""
        with self._condition:
            self._reason = self._reason or reason
            self._condition.notify_all()

    def run_in_thread(self, deadline: float | None, timeout: float | None) -> Any:
        """Run the query in its own thread, and return its result. Raises the query's error.

        Raises QueryInterruptedError at the deadline or if the query is interrupted; its thread then stops in the
        background. ``deadline`` is a time of ``time.monotonic`` (None: no limit). ``timeout`` is the number of seconds
        from which it was computed, for the error message. The start waits while ``MAX_ABANDONED`` such threads run.
        """

        def get_seconds_left() -> float | None:
            """Return the seconds until the deadline, at least 0; None without a deadline."""
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        with self._abandoned_condition:
            can_start = self._abandoned_condition.wait_for(
                lambda: _RunningQuery._num_abandoned < MAX_ABANDONED, get_seconds_left()
            )
        if not can_start:
            raise QueryInterruptedError(f"{MAX_ABANDONED} interrupted queries are still running; try again later")
        threading.Thread(target=self._run, name="kvstore query", daemon=True).start()
        try:
            with self._condition:
                is_over = self._condition.wait_for(
                    lambda: self._has_ended or self._reason is not None, get_seconds_left()
                )
                if not is_over:
                    limit = "" if timeout is None else f"{round(timeout, 2):g} second{'' if timeout == 1 else 's'}"
                    self._reason = f"it took longer than its limit of {limit}; narrow it, or allow more time"
        finally:  # also on Ctrl-C
            self._abandon()
        return self._take_result()

    def _take_result(self) -> Any:
        """Return the result of the query. Raises its error, and QueryInterruptedError if it was interrupted."""
        error, self._error = self._error, None
        try:
            if self._reason is not None:
                raise QueryInterruptedError(f"the query was stopped: {self._reason}")
            if error is not None:
                raise error
        finally:
            del error  # its traceback refers to this frame: break the reference cycle
        assert self._result is not None
        return self._result

    def _abandon(self) -> None:
        """Ask the query to stop if it is still running, and count it as abandoned until its thread ends."""
        self._stop.set()
        with self._condition, self._abandoned_condition:
            if not self._has_ended:
                self._is_abandoned = True
                _RunningQuery._num_abandoned += 1

    def _run(self) -> None:
        """Run the query in its thread, and report its result or error to the caller."""
        try:
            with allow_interruption(self._stop):
                self._result = self._read_function()
        except BaseException as error:
            self._error = error
        del self._read_function  # it refers to the store, which can then be freed as soon as the caller continues
        with self._condition, self._abandoned_condition:
            self._has_ended = True
            self._condition.notify_all()
            if self._is_abandoned:
                self._error = None
                _RunningQuery._num_abandoned -= 1
                self._abandoned_condition.notify_all()


def _parse_read_statement(sql: str, parameters: Parameters) -> ParsedStatement:
    """Return the statement of ``sql`` with its parameters.

    Raises StatementError unless ``sql`` is exactly one statement, and one that only reads.
    """
    parsed_statements = parse(sql, parameters)
    if len(parsed_statements) != 1:
        raise StatementError(
            f"query() runs exactly one statement, not {len(parsed_statements)}; use execute() to run several"
        )
    statement = parsed_statements[0].statement
    read_statement = statement.statement if isinstance(statement, statements.Explain) else statement
    if not isinstance(read_statement, READ_STATEMENTS):
        raise StatementError(
            f"query() only runs statements that read: {_READ_STATEMENT_NAMES}; run other "
            "statements with execute(), or in kvstore shell"
        )
    return parsed_statements[0]


def _read_rows(cursor: Cursor, max_rows: int | None) -> Cursor:
    """Return a new cursor with at most ``max_rows`` rows (None: all) of ``cursor``, which is closed.

    If there are more rows, the message of the new cursor says so. Raises ResultTooLargeError if the texts and binary
    values together are longer than :data:`MAX_RESULT_BYTES`.
    """
    rows: list[Row] = []
    total_length = 0
    has_more = False
    with cursor:
        for row in cursor:
            if max_rows is not None and len(rows) == max_rows:
                has_more = True
                break
            total_length += sum(len(value) for value in row if isinstance(value, (str, bytes)))
            if total_length > MAX_RESULT_BYTES:
                raise ResultTooLargeError(
                    f"the rows have more than {MAX_RESULT_BYTES >> 20} MB; select fewer rows or shorter values"
                )
            rows.append(row)
    message = f"the first {max_rows:,} rows; there are more" if has_more else cursor.message
    return Cursor(
        cursor.kind,
        cursor.columns,
        rows,
        types=cursor.types,
        rowcount=len(rows),
        message=message,
        problems=cursor.problems,
    )


def _check_limit(name: str, value: Any, requirement: str, *, is_integer: bool = False) -> None:
    """Raise InputError unless a limit is None or valid: a positive integer if ``is_integer``, otherwise a timeout.

    A timeout is a positive number of seconds. ``name`` and ``requirement`` are for the error message.
    """
    if value is None:
        return
    is_number = isinstance(value, Integral if is_integer else Real) and not isinstance(value, bool)
    max_value = math.inf if is_integer else threading.TIMEOUT_MAX
    if not (is_number and 0 < value <= max_value):
        raise InputError(f"{name} must be {requirement}, not {value!r}")
