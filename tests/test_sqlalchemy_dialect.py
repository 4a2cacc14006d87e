"""Stores through SQLAlchemy, and libraries based on it: pandas.read_sql and the magics of jupysql."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvstore

ROOT = Path(__file__).resolve().parent.parent
ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["sqlalchemy.dialects"]


def test_without_its_extra_the_dialect_names_it() -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "import kvstore\n"
        "try:\n    import kvstore.integrations.sqlalchemy_dialect\n"
        "except kvstore.KvstoreError as error:\n    print(error)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "the dialect of SQLAlchemy needs SQLAlchemy; pip install 'kvstore-db[sqlalchemy]'\n"


@pytest.fixture
def address(make_store: Callable[..., kvstore.Store]) -> str:
    """Return the address of a store with rows in every table that needs no model; it registers the dialect."""
    registry = pytest.importorskip("sqlalchemy.dialects").registry
    registry.register("kvstore", *ENTRY["kvstore"].split(":"))
    store = make_store()
    store.put(
        "tea", "# Tea\n\nTea is made from leaves. Robert Fortune took it to India.", format="markdown", title="Tea"
    )
    store.put("travel", "Robert Fortune sailed to India in 1848.", meta={"year": 1848, "tags": ["sea"]})
    store.put_edge("Darjeeling", "India", tree="places")
    store.put_triples("tea", [("Robert Fortune", "took", "tea")])
    store.alias("Bharat", "India")
    for kind in ("units", "topics", "communities"):
        store.create_index(kind)
    return f"kvstore:///{store.path}"


@pytest.fixture
def engine(address: str) -> Iterator[Any]:
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"{address}?timeout=0.5")
    yield engine
    engine.dispose()


@pytest.mark.conformance
def test_the_installed_entry_point_is_the_dialect() -> None:
    module, _, name = ENTRY["kvstore"].partition(":")
    assert importlib.util.find_spec(module) is not None
    pytest.importorskip("sqlalchemy")
    assert getattr(importlib.import_module(module), name).name == "kvstore"


@pytest.mark.conformance
def test_queries_changes_and_statements_of_our_own(engine: Any) -> None:
    import sqlalchemy as sa

    text = sa.text
    with engine.connect() as connection:
        places = connection.execute(text("LOOKUP :name"), {"name": "Darjeeling"})
        assert places.mappings().first()["parent"] == "India"
        answer = connection.execute(text("ASK 'Who sailed to India?' USING lexical")).mappings().one()
        assert answer["citations"][0]["document"] == "travel"
        assert connection.execute(text("INSERT DOCUMENT 'milk' TEXT :text"), {"text": "Milk is white."}).rowcount == 1
        connection.rollback()
        assert connection.scalar(text("SELECT count(*) FROM documents")) == 2
    with engine.begin() as connection:
        connection.execute(text("DELETE DOCUMENT 'tea'"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.scalar(text("SELECT count(*) FROM documents")) == 1
        connection.execute(text("INSERT DOCUMENT 'milk' TEXT 'Milk is white.'"))
    documents = sa.Table("documents", sa.MetaData(), autoload_with=engine)
    year = sa.func.json_extract(documents.c.meta, "$.year")
    with engine.connect() as connection:
        rows = connection.execute(sa.select(documents.c.key, year).order_by(documents.c.key.desc()).limit(2)).all()
        assert rows == [("travel", 1848), ("milk", None)]
        with pytest.raises(sa.exc.ProgrammingError, match="line 1, column 1") as caught:
            connection.execute(text("LOKUP 'tea'"))
        assert isinstance(caught.value.orig, kvstore.dbapi.ProgrammingError)  # type: ignore[attr-defined]


@pytest.mark.conformance
def test_tables_are_reflected_and_pandas_reads_each(engine: Any, make_store: Callable[..., kvstore.Store]) -> None:
    import pandas
    import sqlalchemy as sa

    store = make_store()
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == [table.name for table in store.tables()]
    assert (inspector.has_table("Chunks"), inspector.has_table("chunk")) == (True, False)
    with pytest.raises(sa.exc.NoSuchTableError):
        inspector.get_columns("chunk")
    assert {str(column["type"]) for column in inspector.get_columns("chunks")} == {"INTEGER", "TEXT"}
    metadata = sa.MetaData()
    metadata.reflect(engine)
    filled = 0
    for table in store.tables():
        names = ", ".join(f'"{column.name}"' for column in table.columns)  # hidden ones too, which SELECT * leaves out
        for sql, frame in (
            (f"SELECT * FROM {table.name}", pandas.read_sql(f"SELECT * FROM {table.name}", engine)),
            (f"SELECT {names} FROM {table.name}", pandas.read_sql_table(table.name, engine, schema="main")),
        ):
            cursor = store.execute(sql)
            rows = [list(row) for row in cursor]
            assert tuple(frame.columns) == cursor.columns
            assert frame.astype(object).where(frame.notna(), None).to_numpy().tolist() == rows, table.name
        filled += bool(rows)
        assert set(metadata.tables[table.name].columns.keys()) == {column.name for column in table.columns}
    assert filled >= 16
    hits = pandas.read_sql("RETRIEVE 'Who sailed to India?' USING bridge TOP 1", engine)
    assert hits["document"].tolist() == ["travel"]
    assert hits["spans"][0][0]["document"] == "travel"
    assert pandas.read_sql("LOOKUP 'nobody'", engine).shape == (0, 8)


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("readonly=maybe", "readonly in the URL of a store must be true or false, not 'maybe'"),
        ("timeout=soon", "timeout in the URL of a store must be a number of seconds, not 'soon'"),
        ("format=2", "accepts the options readonly, create, embedder, timeout, durability, each once, not format"),
    ],
)
def test_invalid_addresses_are_explained(address: str, query: str, message: str) -> None:
    import sqlalchemy as sa

    with pytest.raises(kvstore.errors.InputError, match=message):
        sa.create_engine(f"{address}?{query}").connect()
    with pytest.raises(kvstore.errors.InputError, match="kvstore:///relative/path"):
        sa.create_engine("kvstore://").connect()


@pytest.mark.conformance
def test_an_engine_may_only_read(address: str, tmp_path: Path) -> None:
    import sqlalchemy as sa

    with sa.create_engine(f"{address}?readonly=true").connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM documents")) == 2
        with pytest.raises(sa.exc.OperationalError, match="read-only"):
            connection.execute(sa.text("DELETE DOCUMENT 'tea'"))
    with pytest.raises(sa.exc.OperationalError, match="no store"):
        sa.create_engine(f"kvstore:///{tmp_path}/none?create=false").connect()


@pytest.mark.conformance
def test_magics_of_a_notebook_run_our_statements(address: str) -> None:
    pytest.importorskip("sql.magic")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:

        def run_cell(cell: str) -> Any:
            result = shell.run_cell(cell)
            result.raise_error()
            return result.result

        run_cell("%load_ext sql")
        run_cell(f"%sql {address}")
        assert run_cell("%%sql\nLOOKUP 'Robert Fortune'").DataFrame()["document"].tolist() == ["tea", "travel"]
        assert run_cell("%%sql\nASK 'Who sailed to India?' USING lexical").DataFrame()["extractive"].tolist() == [1]
        run_cell("%%sql\nINSERT DOCUMENT 'milk' TEXT 'Milk is white.'")  # commits by itself, as the magic has it
        frame = run_cell("found = %sql SELECT key FROM documents ORDER BY key\nfound.DataFrame()")
        assert frame["key"].tolist() == ["milk", "tea", "travel"]
        run_cell("%sql --close " + address)
    finally:
        InteractiveShell.clear_instance()
