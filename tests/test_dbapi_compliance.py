"""The public compliance tests of the Python database API, their tables put onto documents of a store."""

from __future__ import annotations

import json
import re
import tempfile
from types import SimpleNamespace
from typing import Any

import pytest

from kvstore import dbapi

pytestmark = pytest.mark.conformance
dbapi20 = pytest.importorskip("dbapi20")

#: Tests that cannot apply, with the reason.
INAPPLICABLE = {
    "test_nextset": "a statement gives one result, so there is no nextset()",
    "test_non_idempotent_close": "a second close() does nothing, as in sqlite3",
}
_PREFIX = "dbapi20test_"
_CREATE = re.compile(r"create table dbapi20test_(\w+) .*")
_INSERT = re.compile(r"insert into dbapi20test_(\w+) values \((.*)\)", re.DOTALL)
_SELECT = re.compile(r"select (.*) from dbapi20test_(\w+)")
_VALUE = re.compile(r"'((?:[^']|'')*)'|(\?)|(NULL)")
_COLUMNS = {"name": "key AS name", "drink": "meta ->> 'drink' AS drink"}


def translate_statement(sql: str) -> str:
    """Translate a statement of the suite: a table becomes a title, and a row a document with its name as the key."""
    if created := _CREATE.fullmatch(sql):
        return f"DELETE FROM documents WHERE title = '{created[1]}'"
    if inserted := _INSERT.fullmatch(sql):
        # A text may hold what looks like a parameter and must stay what it is.
        (name, *drink) = (match[0] for match in _VALUE.finditer(inserted[2]))
        about = {} if drink in ([], ["NULL"]) else {"drink": drink[0][1:-1]}
        return f"INSERT DOCUMENT {name} TITLE '{inserted[1]}' TEXT 'A row.' META '{json.dumps(about)}'"
    if selected := _SELECT.fullmatch(sql):
        columns = ", ".join(_COLUMNS[column] for column in selected[1].split(", "))
        return f"SELECT {columns} FROM documents WHERE title = '{selected[2]}'"
    return sql


class _DocumentCursor(dbapi.StoreCursor):
    def execute(self, operation: str, parameters: Any = ()) -> dbapi.StoreCursor:
        return super().execute(translate_statement(operation), parameters)

    def executemany(self, operation: str, seq_of_parameters: Any) -> dbapi.StoreCursor:
        return super().executemany(translate_statement(operation), seq_of_parameters)


class _DocumentConnection(dbapi.StoreConnection):
    def cursor(self) -> dbapi.StoreCursor:
        super().cursor()
        return _DocumentCursor(self)


def _connect(path: str) -> dbapi.StoreConnection:
    connection = dbapi.connect(path, embedder="hashing:16", settings={"language": "rules"})
    return _DocumentConnection(connection.session)


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc,name-defined]
    driver = SimpleNamespace(**{**vars(dbapi), "connect": _connect})

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.connect_args = (f"{self.folder.name}/store",)

    def tearDown(self) -> None:
        """Do nothing: no table exists."""

    def test_nextset(self) -> None:
        self.skipTest(INAPPLICABLE["test_nextset"])

    def test_non_idempotent_close(self) -> None:
        self.skipTest(INAPPLICABLE["test_non_idempotent_close"])

    def test_setoutputsize(self) -> None:
        connection = self._connect()
        cursor = connection.cursor()
        cursor.setoutputsize(2)
        cursor.execute("SELECT 'longer'")
        self.assertEqual(cursor.fetchone(), ("longer",))
        connection.close()


def test_only_inapplicable_tests_are_left_out() -> None:
    own_tests = {name for name in vars(TestCompliance) if name.startswith("test_")}
    assert own_tests == {*INAPPLICABLE, "test_setoutputsize"}  # the suite asks every driver for one of the latter
