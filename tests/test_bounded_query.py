"""query(): exactly one reading statement, within its bounds, whatever is asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kvstore
from kvstore import errors

MakeStore = Callable[..., kvstore.Store]

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
#: Loops within SQLite, loops that give rows, and single calls of functions that take long.
LONG = [
    ENDLESS,
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    "SELECT count(*) FROM documents a, documents b, documents c, documents d, documents e, documents f",
    "SELECT instr(replace(hex(zeroblob(520000)), '00', 'a'), replace(hex(zeroblob(260000)), '00', 'a') || 'b')",
    "EXPLAIN ANALYZE " + ENDLESS,
]


@pytest.fixture
def tea_store(make_store: MakeStore) -> kvstore.Store:
    # An abandoned computation continues for a while, and closing waits for it.
    store = make_store(lock_timeout=60)
    with store.transaction() as transaction:
        for number in range(40):
            transaction.put(f"tea {number:02}", f"Robert Fortune took tea {number} to India.", meta={"year": number})
    return store


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT key FROM documents WHERE key < ?",
        "SHOW TABLES",
        "LOOKUP 'India'",
        "EXPAND 'India'",
        "SEARCH 'tea'",
        "RETRIEVE 'Who took tea to India?'",
        "ASK 'Who took tea to India?' MODEL 'none'",
        "EXPLAIN SELECT key FROM documents",
        "DESCRIBE documents",
    ],
)
def test_query_returns_the_rows_of_execute(tea_store: kvstore.Store, sql: str) -> None:
    parameters = ("tea 03",) if "?" in sql and sql.startswith("SELECT") else ()
    expected = tea_store.execute(sql, parameters)
    result = tea_store.query(sql, parameters)
    assert (result.kind, result.columns) == (expected.kind, expected.columns)
    rows = result.fetchall()
    assert rows
    if "EXPLAIN" not in sql:
        assert rows == expected.fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; DELETE FROM documents WHERE 1",
        "DELETE DOCUMENT 'tea 01'",
        "DELETE FROM documents WHERE 1",
        "INGEST '/etc'",
        "EXPLAIN INGEST '/etc'",
        "EXPORT TO 'x.jsonl'",
        "BACKUP TO 'copy'",
        "SET base_url = 'http://127.0.0.1:9'",
        "BEGIN",
        "CHECK REPAIR",
        "REFRESH",
        "CREATE INDEX units",
        "",
        "SELECT 1 FROM",
    ],
)
def test_anything_else_is_refused_before_it_runs(
    tea_store: kvstore.Store, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = sorted(tmp_path.iterdir())
    with pytest.raises(errors.StatementError):
        tea_store.query(sql)
    assert len(tea_store.keys()) == 40
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.slow
@pytest.mark.parametrize("sql", LONG)
def test_a_timeout_ends_the_wait_whatever_is_computed(tea_store: kvstore.Store, sql: str) -> None:
    with pytest.raises(
        errors.QueryInterruptedError, match=r"its limit of 0\.3 seconds; narrow it, or allow more time$"
    ):
        tea_store.query(sql, timeout=0.300004, max_rows=None)  # the message rounds it
    with pytest.raises(errors.QueryInterruptedError, match="its limit of 1 second;"):
        tea_store.query(ENDLESS, timeout=1, max_rows=None)
    assert tea_store.query("SELECT count(*) FROM documents").fetchall() == [(40,)]


def test_interrupt_ends_the_queries_of_a_session(tea_store: kvstore.Store) -> None:
    session = tea_store.session()
    stopped: list[str] = []

    def run_query(store: kvstore.Store) -> None:
        try:
            store.query(ENDLESS, timeout=20)
        except errors.QueryInterruptedError as error:
            stopped.append(str(error))

    threads = [threading.Thread(target=run_query, args=(store,)) for store in (tea_store, tea_store, session)]
    for thread in threads:
        thread.start()
    while len(tea_store._bounded_queries._running_queries) < 2 or not session._bounded_queries._running_queries:
        time.sleep(0.01)
    tea_store.interrupt()
    for thread in threads[:2]:
        thread.join(10)
    assert stopped == ["the query was stopped: interrupted"] * 2
    session.interrupt()
    threads[2].join(10)
    assert len(stopped) == 3


def test_rows_and_bytes_are_bounded(tea_store: kvstore.Store) -> None:
    cursor = tea_store.query("SELECT key FROM documents ORDER BY key", max_rows=3)
    assert (cursor.rowcount, cursor.message) == (3, "the first 3 rows; there are more")
    assert cursor.fetchall() == [("tea 00",), ("tea 01",), ("tea 02",)]
    assert tea_store.query("SELECT key FROM documents", max_rows=40).message is None
    with pytest.raises(errors.StatementError, match="a value is too long"):
        tea_store.query("SELECT hex(zeroblob(1000000))")
    assert tea_store.execute("SELECT length(hex(zeroblob(1000000)))").fetchall() == [(2_000_000,)]
    wide = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT zeroblob(1000000) FROM n"
    with pytest.raises(errors.KvstoreError, match="more than 64 MB"):
        tea_store.query(wide)
    for options in ({"timeout": 0}, {"timeout": "1"}, {"max_rows": 0}, {"max_rows": 1.5}, {"max_rows": True}):
        with pytest.raises(errors.InputError):
            tea_store.query("SELECT 1", **options)  # type: ignore[arg-type]


def test_it_reads_the_last_commit(tea_store: kvstore.Store) -> None:
    tea_store.execute("BEGIN")
    with pytest.raises(errors.InputError, match="a transaction is open in this thread"):
        tea_store.query("SELECT 1")
    tea_store.execute("ROLLBACK")
    with pytest.raises(errors.StatementError, match="there is no column"):
        tea_store.query("SELECT no_such FROM documents")


def test_a_read_only_store_writes_no_file_and_asks_no_other_server(
    tea_store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = sorted(tmp_path.iterdir())
    with kvstore.open(tea_store.path, readonly=True) as reader:
        for sql in (
            "EXPORT TO 'x.jsonl'",
            "BACKUP TO 'copy'",
            "SET base_url = 'http://127.0.0.1:9'",
            "EXPLAIN INGEST '/etc'",
            "INGEST '/etc'",
        ):
            with pytest.raises(errors.ReadOnlyError, match="read-only"):
                reader.execute(sql)
    assert sorted(tmp_path.iterdir()) == paths
