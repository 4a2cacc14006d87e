"""The Python database API over a store: transactions, values, errors, and the types of columns."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvstore
from kvstore import dbapi

pytestmark = pytest.mark.public_api

#: A statement, and the types of its columns.
TYPED = [
    ("SELECT key, bytes, meta ->> 'year', 1.5, x'00', NULL FROM documents", "TEXT INTEGER INTEGER REAL BLOB None"),
    ("SELECT key, bytes FROM documents WHERE 0", "TEXT INTEGER"),
    ("VALUES (1, 'a'), (2.5, 2)", "REAL None"),
    ("LOOKUP 'nobody'", "TEXT INTEGER TEXT INTEGER TEXT TEXT INTEGER TEXT"),
    ("EXPAND 'India'", "TEXT TEXT INTEGER TEXT TEXT TEXT"),
    ("SEARCH 'tea' USING lexical", "INTEGER REAL TEXT INTEGER TEXT INTEGER"),
    ("RETRIEVE 'tea' USING lexical", "INTEGER REAL TEXT INTEGER TEXT TEXT TEXT JSON INTEGER"),
    ("ASK 'What is tea made from?'", "TEXT JSON INTEGER TEXT JSON REAL INTEGER TEXT JSON TEXT JSON"),
    ("SHOW INDEXES", "TEXT TEXT INTEGER INTEGER TEXT"),
    ("EXPLAIN LOOKUP 'India'", "TEXT TEXT INTEGER"),
    ("DELETE DOCUMENT 'coffee'", ""),
]


@pytest.fixture
def connect(make_store: Callable[..., kvstore.Store]) -> Callable[..., dbapi.StoreConnection]:
    """Return a function that connects to a store of two documents."""
    store = make_store()
    store.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", meta={"year": 1848})
    store.put("coffee", "Coffee is brewed from roasted seeds.", meta={"year": 1700})
    return lambda **options: dbapi.connect(store.path, timeout=0.05, **options)


@pytest.mark.parametrize(("statement", "types"), TYPED)
def test_columns_have_types(connect: Callable[..., Any], statement: str, types: str) -> None:
    cursor = connect().cursor().execute(statement)
    assert [str(code) for _, code, *_ in cursor.description or ()] == types.split()


def test_a_bounded_query_has_types_too(store: kvstore.Store) -> None:
    store.put("tea", "Tea is made from leaves.")
    assert store.query("SELECT key, bytes + 0, NULL FROM documents").types == ("TEXT", "INTEGER", None)


def test_a_change_is_seen_by_others_once_it_is_committed(connect: Callable[..., Any]) -> None:
    first, second = connect(), connect()
    inserted = first.execute("INSERT DOCUMENT ? TEXT ? META ?", ("milk", "Milk is white.", '{"year": 2024}'))
    assert (inserted.rowcount, inserted.description, first.in_transaction, second.in_transaction) == (
        1,
        None,
        True,
        False,
    )
    count = "SELECT count(*) FROM documents"
    assert [c.execute(count).fetchone() for c in (first, second)] == [(3,), (2,)]
    first.commit()
    assert second.execute(count).fetchone() == (3,)
    with pytest.raises(ZeroDivisionError), first:
        first.execute("ALIAS 'Bharat' FOR 'India'")
        assert first.in_transaction
        first.execute("DELETE FROM documents WHERE key = :key", {"key": "milk"})
        raise ZeroDivisionError
    assert first.execute("SELECT (SELECT count(*) FROM aliases), count(*) FROM documents").fetchall() == [(0, 3)]
    first.execute("DELETE DOCUMENT 'milk'")
    first.close()  # without a commit
    assert second.execute(count).fetchone() == (3,)
    second.autocommit = True
    second.execute("DELETE DOCUMENT 'milk'")
    assert not second.in_transaction
    assert connect().execute(count).fetchone() == (2,)


def test_statements_that_commit_themselves_need_no_commit(connect: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "milk.txt").write_text("Milk is white.")
    connection = connect()
    ingested = connection.execute("INGEST ?", (str(tmp_path / "milk.txt"),))
    assert (ingested.fetchone()[0], connection.in_transaction) == (1, False)
    connection.execute("DELETE DOCUMENT 'milk.txt'")
    with pytest.raises(dbapi.OperationalError, match="outside BEGIN"):
        connection.execute("INGEST ?", (str(tmp_path / "milk.txt"),))


def test_executemany_is_one_transaction(connect: Callable[..., Any]) -> None:
    cursor = connect().cursor()
    cursor.executemany("INSERT DOCUMENT ? TEXT ?", [(f"d{n}", f"Document {n}.") for n in range(3)])
    assert (cursor.rowcount, len(connect().session)) == (3, 2)
    cursor.connection.rollback()
    with pytest.raises(dbapi.ProgrammingError, match="without rows"):
        cursor.executemany("SELECT ?", [(1,), (2,)])


def test_dates_and_bytes_are_values(connect: Callable[..., Any]) -> None:
    connection = connect()
    values = (dbapi.Date(2024, 2, 29), dbapi.Timestamp(2024, 2, 29, 12, 30), dbapi.Time(1, 2), bytearray(b"ab"))
    row = connection.execute("SELECT ?, ?, ?, hex(?)", values).fetchone()
    assert row == ("2024-02-29", "2024-02-29T12:30:00", "01:02:00", "6162")
    ticks = dbapi.Timestamp(2024, 2, 29, 12, 30).timestamp()
    assert dbapi.TimestampFromTicks(ticks) == dbapi.Timestamp(2024, 2, 29, 12, 30)
    assert (dbapi.DateFromTicks(ticks), dbapi.TimeFromTicks(ticks)) == (dbapi.Date(2024, 2, 29), dbapi.Time(12, 30))


@pytest.mark.parametrize(
    ("statement", "parameters", "kind", "message"),
    [
        ("SELEC 1", (), "ProgrammingError", "line 1, column 1"),
        ("SELECT absent FROM documents", (), "ProgrammingError", "no column absent"),
        ("SELECT ?", (), "ProgrammingError", "parameter"),
        ("SELECT ?", (object(),), "ProgrammingError", "must be text, a number, a date, bytes or None"),
        ("SELECT 1; SELECT 2", (), "ProgrammingError", "one statement"),
        ("", (), "ProgrammingError", "no statement"),
        ("INSERT DOCUMENT 'tea' TEXT 'Again.'", (), "IntegrityError", "already"),
        ("DELETE DOCUMENT 'cocoa'", (), "ProgrammingError", "cocoa"),
        ("BACKUP TO ?", ("/dev/null/no",), "DatabaseError", "/dev/null"),
        ("COMMIT", (), "OperationalError", "transaction"),
    ],
)
def test_errors_are_those_of_the_interface(
    connect: Callable[..., Any], statement: str, parameters: Any, kind: str, message: str
) -> None:
    connection = connect()
    cursor = connection.cursor()
    with pytest.raises(getattr(dbapi, kind), match=message) as caught:
        cursor.execute(statement, parameters)
    assert isinstance(caught.value, getattr(connection, kind))
    assert isinstance(caught.value.__cause__, kvstore.KvstoreError)
    assert not connection.in_transaction
    with pytest.raises(dbapi.ProgrammingError, match="no rows"):
        cursor.fetchone()


def test_a_closed_object_reports_it(connect: Callable[..., Any]) -> None:
    connection = connect()
    cursor = connection.cursor()
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")
    connection.close()
    connection.close()
    for use in (connection.__enter__, connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            use()


def test_a_writer_elsewhere_and_a_missing_store_are_operational(connect: Callable[..., Any], tmp_path: Path) -> None:
    writer = connect()
    writer.execute("DELETE DOCUMENT 'tea'")
    blocked = connect()
    with pytest.raises(dbapi.OperationalError):
        blocked.execute("DELETE DOCUMENT 'coffee'")
    writer.rollback()
    blocked.execute("DELETE DOCUMENT 'coffee'")
    blocked.rollback()
    with pytest.raises(dbapi.OperationalError, match="no store"):
        dbapi.connect(tmp_path / "none", create=False)
    reader = connect(readonly=True)
    with pytest.raises(dbapi.OperationalError, match="read-only"):
        reader.execute("DELETE DOCUMENT 'tea'")


def test_the_timeout_of_a_connection_to_an_open_store_applies(store: kvstore.Store) -> None:
    connection = dbapi.connect(store, timeout=0.05)
    with store.transaction(), ThreadPoolExecutor() as threads:
        error = threads.submit(connection.execute, "INSERT DOCUMENT 'tea' TEXT 'Tea.'").exception()
    assert isinstance(error, dbapi.OperationalError)
    assert "in 0.05 s" in str(error)
    for timeout in (-1, "soon"):
        with pytest.raises(dbapi.ProgrammingError, match="negative|a number"):
            dbapi.connect(store, timeout=timeout)  # type: ignore[arg-type]


def test_another_thread_cannot_end_a_transaction(store: kvstore.Store) -> None:
    connection = dbapi.connect(store)
    with ThreadPoolExecutor() as threads:
        threads.submit(connection.commit).result()  # there is nothing to commit
        connection.execute("INSERT DOCUMENT 'a' TEXT 'The harbour.'")
        for end in (connection.commit, connection.rollback):
            error = threads.submit(end).exception()
            assert isinstance(error, dbapi.OperationalError) and "no transaction is open in this thread" in str(error)
    assert store.get("a") is None
    connection.commit()
    assert store.get("a") is not None


def test_a_connection_may_be_a_session_of_an_open_store(store: kvstore.Store) -> None:
    connection = dbapi.connect(store)
    connection.execute("SET top = 3")
    connection.execute("INSERT DOCUMENT 'a' TEXT 'The harbour.'")
    connection.commit()
    connection.close()
    assert ("a" in store, dict(row[:2] for row in store.settings_table())["top"]) == (True, 8)
    with pytest.raises(dbapi.ProgrammingError, match="accepts no options for an open store; omit readonly"):
        dbapi.connect(store, readonly=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((b"SELECT 1",), "a statement must be text, not bytes"),
        ((None,), "a statement must be text, not NoneType"),
        (("SELECT ?", 5), "parameters must be a sequence, or a mapping of names to values, not int"),
        (("SELECT 1", 0), "parameters must be a sequence, or a mapping of names to values, not int"),
        (("SELECT ?, ?", np.arange(2)), "parameters must be a sequence, or a mapping .* not ndarray"),
        (("SELECT ?, ?", {"a", "b"}), "parameters must be a sequence, or a mapping of names to values, not set"),
    ],
)
def test_arguments_of_the_wrong_kind(store: kvstore.Store, arguments: tuple[Any, ...], message: str) -> None:
    cursor = dbapi.connect(store).cursor()
    for run in (cursor.execute, lambda sql, *rows: cursor.executemany(sql, [*rows, ()])):
        with pytest.raises(dbapi.ProgrammingError, match=message):
            run(*arguments)


def test_type_objects_are_equal_to_their_codes() -> None:
    assert (dbapi.NUMBER == "REAL", dbapi.NUMBER == "INTEGER", dbapi.STRING == "TEXT", dbapi.BINARY == "BLOB") == (
        True,
    ) * 4
    assert dbapi.NUMBER != "TEXT"
    assert dbapi.STRING != dbapi.NUMBER
    assert len({dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID, dbapi.JSON}) == 6
    assert repr(dbapi.NUMBER) == "TypeObject('INTEGER', 'REAL')"


def test_the_example_gives_the_stated_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert doctest.testmod(dbapi) == (0, 9)
