"""Rows for other programs: files of Parquet and Arrow, tables of pyarrow, data frames of pandas."""

from __future__ import annotations

import csv
import json
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore import errors

KINDS = (
    "SELECT key, length(key) AS n, NULLIF(length(key), 3) AS some, 1.5 AS x, x'00ff' AS data, NULL AS absent, "
    "CASE key WHEN 'tea' THEN 9007199254740993 END AS big, CASE key WHEN 'tea' THEN 'text' ELSE 7 END AS mixed "
    "FROM documents ORDER BY key"
)


@pytest.fixture
def filled_store(make_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    store = make_store()
    with store.transaction() as transaction:
        transaction.put("coffee", "Coffee is brewed. Robert Fortune liked it.", title="Kaffee ☕")
        transaction.put("tea", "Tea is made from leaves.", meta={"year": 2024})
        transaction.put("mate", "Mate is drunk in Uruguay.")
        transaction.put_edge("Darjeeling", "India", tree="places")
    return store


def test_rows_become_dicts_by_the_names_of_the_columns(filled_store: kvstore.Store) -> None:
    cursor = filled_store.execute("SELECT key, title, key, meta ->> 'year' AS year FROM documents ORDER BY key DESC")
    assert cursor.fetchone() == ("tea", None, "tea", 2024)
    assert cursor.to_dicts() == [
        {"key": "mate", "title": None, "key:1": "mate", "year": None},
        {"key": "coffee", "title": "Kaffee ☕", "key:1": "coffee", "year": None},
    ]
    assert filled_store.execute("DELETE DOCUMENT 'mate'").to_dicts() == []
    (hit,) = filled_store.retrieve("brewed", using="lexical").to_dicts()
    assert (hit["rank"], hit["document"]) == (1, "coffee")
    json.dumps(filled_store.ask("Who liked coffee?").to_dicts())


def test_the_suffix_decides_the_format_of_a_file(
    filled_store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for statement, message in (
        (
            "EXPORT TO '{}/x.csv'",
            r"unsupported file type; export a whole store to a file that ends in .jsonl or .ndjson, "
            r"or one table .* \.parquet or \.arrow; COPY writes the rows of a statement to other files",
        ),
        ("EXPORT TO '{}/x.jsonl' TABLE chunks", r"unsupported file type; .* ends in \.parquet or \.arrow"),
        ("EXPORT TO '{}/x' TABLE chunks", r"ends in \.parquet or \.arrow"),
        ("EXPORT TO '{}/x.parquet' TABLE chunk", "there is no table chunk; did you mean chunks"),
    ):
        with pytest.raises(errors.InputError, match=message):
            filled_store.execute(statement.format(tmp_path))
    with pytest.raises(errors.InputError, match=r"or one table to a file that ends in \.parquet"):
        filled_store.export(tmp_path / "x.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        errors.MissingExtraError, match=r"a \.parquet file needs pyarrow; pip install 'kvstore-db\[arrow\]'"
    ):
        filled_store.export_table(tmp_path / "x.parquet")
    with pytest.raises(errors.MissingExtraError, match=r"kvstore-db\[arrow\]"):
        filled_store.execute("SELECT 1").to_arrow()
    with pytest.raises(errors.MissingExtraError, match=r"kvstore-db\[pandas\]"):
        filled_store.execute("SELECT 1").to_pandas()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_rows_are_copied_to_a_file_by_its_suffix(
    filled_store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT document, text AS document, 1.5 AS half, NULL AS none FROM chunks WHERE document = :key"
    key, text = filled_store.execute("SELECT document, text FROM chunks LIMIT 1").fetchall()[0]
    record = {"document": key, "document:1": text, "half": 1.5, "none": None}
    for suffix in ("csv", "tsv", "json", "jsonl", "ndjson", "md"):
        cursor = filled_store.execute(f"COPY ({query}) TO '{tmp_path}/x.{suffix}'", {"key": key})
        assert (cursor.rowcount, cursor.columns) == (1, ())
        assert cursor.message == f"1 row written to {tmp_path}/x.{suffix}"
    assert json.loads((tmp_path / "x.json").read_text()) == [record]
    assert json.loads((tmp_path / "x.jsonl").read_text()) == json.loads((tmp_path / "x.ndjson").read_text()) == record
    assert (tmp_path / "x.md").read_text().splitlines()[0] == "| document | document | half | none |"
    with (tmp_path / "x.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["document", "document", "half", "none"], [key, text, "1.5", ""]]
    paths = sorted(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for statement, error, message in (
        ("COPY (SELECT 1) TO '{}/x.csv'", errors.InputError, "already exists"),
        ("COPY (SELECT 1) TO '{}/no/x.csv'", errors.InputError, "no"),
        ("COPY (SELECT 1) TO '{}/y'", errors.InputError, r"choose one of \.csv, .*, \.arrow"),
        ("COPY (SELECT 1) TO '{}/y.parquet'", errors.MissingExtraError, r"a \.parquet file needs pyarrow; pip install"),
        ("COPY (SELECT x FROM chunks) TO '{}/y.csv'", errors.StatementError, "x"),
        ("COPY (EXPLAIN CHECK) TO '{}/y.csv'", errors.StatementError, "EXPLAIN"),
    ):
        with pytest.raises(error, match=message):
            filled_store.execute(statement.format(tmp_path))
    assert sorted(tmp_path.iterdir()) == paths
    with (
        kvstore.open(filled_store.path, readonly=True) as reader,
        pytest.raises(errors.ReadOnlyError, match="COPY cannot write a file"),
    ):
        reader.execute(f"COPY (SELECT 1) TO '{tmp_path}/y.csv'")


def test_a_tilde_in_the_path_of_a_statement_is_the_home_directory(
    filled_store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for statement, path in (
        ("COPY (SELECT key FROM documents) TO '~/keys.csv'", "keys.csv"),
        ("EXPORT TO '~/all.jsonl'", "all.jsonl"),
        ("BACKUP TO '~/copy'", "copy"),
    ):
        message = filled_store.execute(statement).message
        assert message is not None and message.endswith(f" to {tmp_path / path}")
        assert (tmp_path / path).exists()
    assert "imported" in str(filled_store.execute("IMPORT FROM '~/all.jsonl'").message)
    with pytest.raises(errors.InputError, match="already exists"):
        filled_store.execute("COPY (SELECT 1) TO '~/keys.csv'")


def test_copy_reads_the_open_transaction(filled_store: kvstore.Store, tmp_path: Path) -> None:
    filled_store.execute("BEGIN; INSERT DOCUMENT 'new' TEXT 'New.'")
    assert (
        filled_store.execute(f"COPY (SELECT key FROM documents WHERE key = 'new') TO '{tmp_path}/x.csv'").rowcount == 1
    )
    filled_store.execute("ROLLBACK")


#: Texts that readers leave unchanged: without control characters, and without white space at the ends of a line.
_LINES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
_TEXTS = st.lists(_LINES, min_size=1, max_size=3).map("\n".join)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", pytest.param("parquet", marks=pytest.mark.slow)])
@settings(max_examples=num_examples(20), deadline=None)
@given(documents=st.dictionaries(_LINES, st.tuples(_LINES, _TEXTS, _LINES), min_size=1, max_size=4))
def test_copied_documents_are_ingested_again(suffix: str, documents: dict[str, tuple[str, str, str]]) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow.parquet")
    query = "SELECT key, title, content, meta ->> 'note' AS note FROM documents ORDER BY key"
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/documents.{suffix}"
        with kvstore.open(f"{folder}/a", embedder="hashing") as store:
            for key, (title, text, note) in documents.items():
                store.put(key, text, title=title, meta={"note": note})
            rows = store.execute(query).fetchall()
            store.execute(f"COPY ({query}) TO ?", (file,))
        with kvstore.open(f"{folder}/b", embedder="hashing") as copied_store:
            copied_store.execute("INGEST ?", (file,))
            ingested = copied_store.execute(query).fetchall()
        # A reader takes a field that looks like a number as a number.
        assert [[str(value) for value in row[:3]] for row in ingested] == [list(row[:3]) for row in rows]
        if suffix not in ("csv", "tsv"):
            assert ingested == rows


@pytest.mark.slow
def test_chunks_go_to_parquet_with_their_vectors(
    filled_store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("kvstore.database.table_export._BATCH_ROWS", 2)
    rows = filled_store.execute("SELECT * FROM chunks").fetchall()
    cursor = filled_store.execute(f"EXPORT TO '{tmp_path}/all.parquet'")
    assert (cursor.rowcount, cursor.message) == (3, f"3 rows of chunks written to {tmp_path}/all.parquet")
    table = parquet.read_table(tmp_path / "all.parquet")
    assert [tuple(row.values())[:-1] for row in table.to_pylist()] == rows
    assert table.schema.field("vector").type == pa.list_(pa.float32(), filled_store.settings.dimension)
    assert table.schema.metadata == {b"embedder": filled_store.settings.embedder.encode()}
    vectors = np.stack(table.column("vector").to_numpy(zero_copy_only=False))
    assert np.array_equal(vectors, filled_store.vectors(table.column("id").to_pylist()))
    with pytest.raises(errors.InputError, match="already exists"):
        filled_store.execute(f"EXPORT TO '{tmp_path}/all.parquet'")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_file_that_cannot_be_written_completely_is_removed(
    filled_store: kvstore.Store, tmp_path: Path, suffix: str
) -> None:
    pytest.importorskip("pyarrow")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(errors.StoreFullError, match=r"cannot be written \(File too large\)"):
            filled_store.export_table(tmp_path / f"x.{suffix}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_every_table_can_be_exported_to_a_file(
    filled_store: kvstore.Store, make_needed_indexes: Callable[[kvstore.Store], None], tmp_path: Path, suffix: str
) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    make_needed_indexes(filled_store)
    for table in filled_store.tables():
        path = tmp_path / f"{table.name}.{suffix}"
        number = filled_store.export_table(path, table.name.upper())
        exported = parquet.read_table(path) if suffix == "parquet" else pa.ipc.open_file(path).read_all()
        expected = filled_store.execute(f"SELECT * FROM {table.name}").fetchall()
        as_text = [column.type is None for column in table.columns]
        rows = [
            tuple(str(value) if text and value is not None else value for value, text in zip(row, as_text, strict=True))
            for row in expected
        ]
        assert [tuple(row.values())[: len(as_text)] for row in exported.to_pylist()] == rows
        assert number == len(rows)


@pytest.mark.slow
def test_a_cursor_becomes_an_arrow_table(filled_store: kvstore.Store) -> None:
    pytest.importorskip("pyarrow")
    table = filled_store.execute(KINDS).to_arrow()
    assert [str(field.type) for field in table.schema] == [
        "string", "int64", "int64", "double", "binary", "null", "int64", "string",
    ]  # fmt: skip
    assert table.to_pylist()[2] == {
        "key": "tea", "n": 3, "some": None, "x": 1.5, "data": b"\0\xff", "absent": None, "big": 9007199254740993,
        "mixed": "text",
    }  # fmt: skip
    assert table.column("mixed").to_pylist() == ["7", "7", "text"]
    empty = filled_store.execute("SELECT key, chunks FROM documents WHERE 0").to_arrow().schema
    assert [str(field.type) for field in empty] == ["string", "int64"]
    assert filled_store.execute("SELECT 1 AS a, 2 AS a").to_arrow().column_names == ["a", "a"]
    assert filled_store.execute("DELETE DOCUMENT 'coffee'").to_arrow().num_columns == 0
    answer = filled_store.execute("ASK 'What is tea made from?'").to_arrow().to_pylist()[0]
    assert answer["citations"][0]["document"] == "tea"


@pytest.mark.slow
def test_a_cursor_becomes_a_data_frame(filled_store: kvstore.Store) -> None:
    pytest.importorskip("pandas")
    cursor = filled_store.execute(KINDS)
    frame = cursor.to_pandas()
    assert cursor.fetchall() == []
    assert list(frame.columns) == [name for name, *_ in filled_store.execute(KINDS).description or ()]
    assert [str(kind) for kind in frame.dtypes[["n", "some", "x", "big"]]] == ["int64", "Int64", "float64", "Int64"]
    assert frame["big"][2] == 9007199254740993
    assert frame["key"].tolist() == ["coffee", "mate", "tea"]
    assert frame["mixed"].tolist() == [7, 7, "text"]
    assert filled_store.execute("SELECT 1 AS a, 2 AS a").to_pandas().values.tolist() == [[1, 2]]
    assert filled_store.execute("SELECT key FROM documents WHERE 0").to_pandas().shape == (0, 1)
    assert filled_store.execute("LOOKUP 'Robert Fortune'").to_pandas()["document"].tolist() == ["coffee"]


@pytest.mark.slow
def test_evidence_answers_and_trees_become_tables(filled_store: kvstore.Store) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    answer = filled_store.ask("What is tea made from?")
    (cited,) = answer.to_arrow().to_pylist()
    assert (cited["number"], cited["document"], cited["text"]) == (1, "tea", "Tea is made from leaves.")
    hits = answer.evidence.to_pandas()
    assert hits["rank"].tolist() == [hit.rank for hit in answer.evidence.hits]
    assert hits["end"].tolist() == [hit.end for hit in answer.evidence.hits]
    filled_store.create_index("topics")
    for tree, statement in (
        (filled_store.expand("India"), "EXPAND 'India'"),
        (filled_store.outline("topics"), "EXPAND TOPICS"),
    ):
        assert tree.to_arrow().to_pylist() == filled_store.execute(statement).to_arrow().to_pylist() != []
    empty = filled_store.retrieve("Nothing of this", where="0").to_arrow().schema
    assert [str(field.type) for field in empty][:3] == ["int64", "double", "string"]
