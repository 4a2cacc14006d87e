"""Rows of numpy and pandas as documents and values, and cursors that other libraries read as Arrow streams."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvstore
from kvstore import errors


def test_scalars_of_numpy_are_metadata(store: kvstore.Store) -> None:
    values = {"whole": np.int64(3), "real": np.float32(0.5), "double": np.float64(1.5), "yes": np.bool_(True)}
    assert store.put("tea", "Tea.", meta={**values, "list": [np.int8(1)], "word": np.str_("green")})
    expected = {"whole": 3, "real": 0.5, "double": 1.5, "yes": True, "list": [1], "word": "green"}
    document = store.get("tea")
    assert document is not None and document.meta == expected
    assert not store.put("tea", "Tea.", meta=expected)  # the same document


def test_missing_values_are_null(store: kvstore.Store) -> None:
    store.put("tea", "Tea.", meta={"year": math.nan, "price": np.float32("nan")})
    document = store.get("tea")
    assert document is not None and document.meta == {"year": None, "price": None}
    with pytest.raises(errors.InputError, match="JSON"):
        store.put("sea", "Sea.", meta={"year": math.inf})
    with pytest.raises(errors.InputError, match="ndarray"):
        store.put("sea", "Sea.", meta={"year": np.arange(3)})


def test_rows_with_missing_optional_values(store: kvstore.Store) -> None:
    rows: list[dict[str, Any]] = [
        {"key": "tea", "text": "Tea is hot.", "title": "Tea", "source": math.nan},
        {"key": "sea", "text": "The sea is salty.", "title": math.nan, "source": "sea.txt"},
    ]
    assert store.put_many(rows) == [True, True]
    assert store.execute("SELECT key, title, source FROM documents ORDER BY key").fetchall() == [
        ("sea", None, "sea.txt"),
        ("tea", "Tea", None),
    ]
    for missing in (math.nan, np.float64("nan"), np.float32("nan")):
        with pytest.raises(errors.ArgumentError, match="title must be text, not float"):
            store.put("rum", "Rum.", title=missing)  # type: ignore[arg-type]
        assert store.execute("INSERT DOCUMENT ? TITLE ? TEXT 'Rum.'", ("rum", missing)).rowcount == 1
        rum = store.get("rum")
        assert rum is not None and rum.title is None and store.delete("rum")
    with pytest.raises(errors.InputError, match="document 1 of 1: put.*text must be text, not float nan"):
        store.put_many([{"key": "rum", "text": math.nan}])


def test_scalars_of_numpy_are_parameters(store: kvstore.Store) -> None:
    store.put("tea", "Tea.", meta={"year": 1848, "price": 1.5})
    assert store.execute("SELECT ?, ?, :c".replace(":c", "?"), (np.int64(3), np.float32(0.5), np.nan)).fetchall() == [
        (3, 0.5, None)
    ]
    assert store.execute("SELECT :n + 1", {"n": np.int32(1)}).fetchall() == [(2,)]
    for parameters in ((np.int64(1848),), {"year": np.int16(1848)}):
        mark = ":year" if isinstance(parameters, dict) else "?"
        assert store.count(f"meta ->> 'year' = {mark}", parameters) == 1
        assert store.search("tea", using="lexical", where=f"meta ->> 'year' = {mark}", parameters=parameters) != []
    assert store.count({"price": {"$gte": np.float32(1.5)}, "year": np.int64(1848)}) == 1
    assert store.keys(limit=np.int32(1)) == ["tea"]  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_numpy_are_text_at_any_resolution(store: kvstore.Store, unit: str) -> None:
    # Python has no nanoseconds, so numpy returns such a time as a number.
    time = np.datetime64("2026-01-31T12:00:00", unit)
    assert store.put("tea", "Tea.", meta={"time": time, "list": [time]})
    document = store.get("tea")
    assert document is not None and document.meta == {"time": "2026-01-31T12:00:00", "list": ["2026-01-31T12:00:00"]}
    assert store.keys(where={"time": {"$gte": time}}) == ["tea"]
    assert store.keys(where="meta ->> 'time' = ?", parameters=(time,)) == ["tea"]
    assert store.execute("SELECT ?", (np.datetime64("NaT", unit),)).fetchall() == [(None,)]


def test_durations_of_numpy_are_rejected(store: kvstore.Store) -> None:
    for unit in ("D", "ns"):
        duration = np.timedelta64(3, unit)
        with pytest.raises(errors.InputError, match="invalid metadata field 'age': timedelta64 is not a JSON value"):
            store.put("tea", "Tea.", meta={"age": duration})
        with pytest.raises(errors.KvstoreError, match="a parameter must be text, a number, a date"):
            store.execute("SELECT ?", (duration,))
        with pytest.raises(errors.InputError, match="age can be compared with"):
            store.keys(where={"age": duration})
    with pytest.raises(errors.InputError, match="datetime64 is not a JSON value"):
        store.put("tea", "Tea.", meta={"day": np.datetime64("12026-01-31")})


def test_rows_of_a_data_frame(store: kvstore.Store) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "key": ["tea", "sea"],
            "text": ["Tea is hot.", "The sea is salty."],
            "title": ["Tea", None],
            "year": pandas.array([1848, None], dtype="Int64"),
            "day": pandas.to_datetime(["2024-01-02", None]),
        }
    )
    rows = frame.to_dict("records")
    store.put_many({**{name: row.pop(name) for name in ("key", "text", "title")}, "meta": row} for row in rows)
    documents = store.get_many(["tea", "sea"])
    assert [(document.title, document.meta) for document in documents if document is not None] == [
        ("Tea", {"year": 1848, "day": "2024-01-02T00:00:00"}),
        (None, {"year": None, "day": None}),
    ]


def test_arrow_streams(store: kvstore.Store) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    store.put("tea", "Tea is made from leaves.", meta={"year": 1848})
    store.put("sea", "The sea is salty.")
    query = "SELECT key, bytes, meta ->> 'year' AS year FROM documents ORDER BY key"
    table = pyarrow.table(store.execute(query))
    assert table.to_pydict() == {"key": ["sea", "tea"], "bytes": [17, 24], "year": [None, 1848]}
    assert pyarrow.table(store.retrieve("tea", using="lexical"))["document"].to_pylist() == ["tea"]
    assert pyarrow.table(store.ask("What is tea made from?"))["document"].to_pylist() == ["tea"]
    empty = pyarrow.table(store.execute("SELECT key FROM documents WHERE 0"))
    assert (empty.num_rows, empty.schema.names) == (0, ["key"])


def test_other_libraries_read_a_cursor(store: kvstore.Store) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    store.put("tea", "Tea is made from leaves.")
    assert polars.DataFrame(store.execute("SELECT key, chunks FROM documents")).to_dicts() == [
        {"key": "tea", "chunks": 1}
    ]
    cursor = store.execute("SELECT key, chunks FROM documents")
    assert duckdb.sql("SELECT key, chunks + 1 FROM cursor").fetchall() == [("tea", 2)]
    assert cursor.fetchall() == []


def test_a_parquet_file_is_ingested_by_rows(store: kvstore.Store, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {
            "id": 7,
            "title": "Tea",
            "text": "Tea is hot.",
            "year": 1848,
            "day": date(2024, 1, 2),
            "price": Decimal("1.50"),
        },
        {"id": 8, "title": None, "text": "The sea is salty.", "year": None, "tags": ["wet"], "vector": [0.5, 0.5]},
        {"id": 9, "title": "Void", "text": "a\0b", "raw": b"\x00"},
        {"id": 10, "title": "Rum", "text": None, "nested": {"from": "cane"}, "ratio": math.nan},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=make_schema(pyarrow)), tmp_path / "rows.parquet")
    report = store.ingest(tmp_path / "rows.parquet", workers=0)
    (problem,) = report.problems
    assert report.added == 3 and problem.endswith("rows.parquet:3: contains a NUL character; remove it")
    tea, sea, rum = store.get_many(["7", "8", "10"])
    assert tea is not None and sea is not None and rum is not None
    assert (tea.title, tea.text) == ("Tea", "Tea is hot.")
    assert (tea.meta["year"], tea.meta["day"], tea.meta["price"]) == (1848, "2024-01-02", "1.50")
    assert (sea.meta["year"], sea.meta["tags"], "vector" in sea.meta) == (None, ["wet"], False)
    assert rum.meta["ratio"] is None and rum.text == "nested.from: cane"
    assert store.ingest(tmp_path / "rows.parquet", workers=0).added == 0
    store.execute("EXPORT TO ? TABLE chunks", (str(tmp_path / "chunks.parquet"),))
    with kvstore.open(tmp_path / "copy", embedder="hashing", settings={"language": "rules"}) as copy:
        assert copy.ingest(tmp_path / "chunks.parquet", workers=0).added == 3
        assert copy.search("salty", using="lexical")[0].text == "The sea is salty."


@pytest.mark.parametrize("size", [5, 40, -9])
def test_an_invalid_parquet_file_is_reported(store: kvstore.Store, tmp_path: Path, size: int) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"text": ["Tea is hot."]}), tmp_path / "whole.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:size])
    (problem,) = store.ingest(tmp_path / "cut.parquet", workers=0).problems
    assert "cut.parquet: is not a valid Parquet file" in problem


def make_schema(pa: Any) -> Any:
    """Return the schema of the rows of the test above."""
    return pa.schema(
        {
            "id": pa.int64(),
            "title": pa.string(),
            "text": pa.string(),
            "year": pa.int32(),
            "day": pa.date32(),
            "price": pa.decimal128(6, 2),
            "tags": pa.list_(pa.string()),
            "vector": pa.list_(pa.float32(), 2),
            "raw": pa.binary(),
            "nested": pa.struct({"from": pa.string()}),
            "ratio": pa.float64(),
        }
    )
