"""Conditions over documents: what the index of their values finds is what SQLite finds, after any history."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvstore
from kvstore.derived.metadata_index import column_blocks
from kvstore.derived.metadata_index import metadata_encoding as encoding
from kvstore.derived.metadata_index.metadata_encoding import (
    decode_value,
    encode_field_prefix,
    encode_number,
    encode_number_bound,
)
from kvstore.derived.metadata_index.metadata_structure import METADATA
from kvstore.errors import CorruptionError, KvstoreError, StatementError
from kvstore.registry.contract import AddedDocument, Delta
from kvstore.sql.document_filter import filter_documents
from kvstore.sql.relational import select_documents
from kvstore.storage.environment import WriteTransaction
from kvstore.structures.documents.allowed import AllowedDocuments
from kvstore.structures.documents.documents import DocumentRecord
from kvstore.structures.state import State

OPTIONS: dict[str, Any] = {"embedder": "hashing:16", "settings": {"language": "rules"}}

# Keys and sets -------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), st.integers(-3, 3), st.just(float(1 << 53))
)


@given(NUMBERS, NUMBERS)
def test_keys_of_numbers_sort_as_the_numbers(first: float, second: float) -> None:
    assert decode_value(encode_number(first)) == first
    assert (encode_number_bound(first) < encode_number_bound(second)) == (first < second)
    assert (encode_number_bound(first) == encode_number_bound(second)) == (first == second)


@given(st.sets(st.integers(0, 8191), min_size=1), st.sets(st.integers(0, 8191)), st.sets(st.integers(0, 9000)))
def test_a_set_is_changed_as_sets_are_and_equal_sets_have_equal_bytes(
    stored: set[int], added: set[int], removed: set[int]
) -> None:
    stored |= set(range(min(removed, default=0), min(max(removed, default=0), 8192)))
    removed &= stored
    added -= stored
    if not stored:
        return
    before = memoryview(encoding.pack_container(stored))
    after = encoding.change_container(before, added, removed, "t", b"k")
    expected = (stored - removed) | added
    assert after == (encoding.pack_container(expected) if expected else None)
    if after is not None:
        assert encoding.unpack_container(memoryview(after), "t", b"k").tolist() == sorted(expected)
        assert encoding.unpack_bits(memoryview(after), "t", b"k") == sum(1 << offset for offset in expected)
        assert len(after) <= 1 + 1024 + 4


@pytest.mark.parametrize("damaged_set", [b"", b"\x02", encoding.pack_container(range(5000))[:-1]])
def test_a_damaged_set_is_an_error(damaged_set: bytes) -> None:
    for unpack in (encoding.unpack_container, encoding.unpack_bits):
        with pytest.raises(CorruptionError, match="table t, key 6b"):
            unpack(memoryview(damaged_set), "t", b"k")


# Conditions ----------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c d", "é", "x.y", "$z"])
TEXTS = st.sampled_from(
    ["", "a", "A", "ab", "Ab%", "a_b", "b", "zebra", "10", "2024-05-01", "ß", "\0x", "k" * 300, "東"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1 << 53, (1 << 53) + 1, -(1 << 63), (1 << 63) - 1, (1 << 64) - 1]),
    st.sampled_from([0.5, -0.0, 1.0, 2.5, 1e300, -1e-7, 0.1 + 0.2, math.pi, 1 / 3, float(1 << 53)]),
    TEXTS,
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=3)


@st.composite
def draw_document(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    key = draw(st.sampled_from(["a", "b", "A/b", "a/c", "docs/x", "Docs/y", "é", "k" * 490, "k" * 490 + "l", "x_1"]))
    return key, {
        "title": draw(st.none() | st.sampled_from(["A", "a", "ab", "b", "Zebra", "t" * 250])),
        "source": draw(st.none() | st.sampled_from(["/data/a", "/data/b", "other"])),
        "meta": draw(FIELDS),
    }


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@st.composite
def draw_field(draw: st.DrawFn) -> str:
    name, subfield = draw(NAMES), draw(NAMES)
    return draw(
        st.sampled_from(
            [
                "key", "title", "source", "bytes", "chunks", "changed", "left_out", "language", '"key"',
                "documents.title",
                f"meta ->> {quote(name)}", f"(meta ->> {quote(name)})", f"""json_extract(meta, '$."{name}"')""",
                f"meta -> {quote(name)} ->> {quote(subfield)}", f"""meta ->> '$."{name}"."{subfield}"'""",
                "meta ->> '$.a.b'", f"json_extract(meta, '$.{name}')", "meta ->> '$.b[0]'", "meta", "rowid",
                "length(title)", f"meta -> {quote(name)}",
            ]
        )
    )  # fmt: skip


LITERALS = st.one_of(
    st.sampled_from(
        ["NULL", "TRUE", "0", "1", "-2", "2.5", "1.0", "0.30000000000000004", "1e300", "9007199254740993", "9e999",
         "3.141592653589793", "99999999999999999999", "'a'", "'ab'", "'A'", "''", "'b'", "'10'", "'2024'", "'k'",
         "'2026-01-01'", "X'61'", "'docs/x'", "-9223372036854775808", "0.3333333333333333"]
    ),
    TEXTS.filter(lambda text: "\0" not in text).map(quote),
)  # fmt: skip
PATTERNS = st.sampled_from(
    ["'a%'", "'%b%'", "'docs/%'", "'_'", "'A_'", "'%'", "'1%'", "'ab%'", "'é'", "'k%l'", "'/data/%'", "'2%'"]
)
GLOBS = st.sampled_from(["'a*'", "'*b*'", "'[ab]*'", "'?'", "'docs/*'", "'*'", "'1*'"])


@st.composite
def draw_predicate(draw: st.DrawFn) -> str:
    field, name = draw(draw_field()), draw(NAMES)
    not_ = draw(st.sampled_from(["", "NOT "]))
    first, second = draw(LITERALS), draw(LITERALS)
    operator = draw(st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "IS", "IS NOT"]))
    values = draw(
        st.sampled_from(
            [f"json_each(meta, '$.{name}')", f"""json_each(meta, '$."{name}"')""", f"json_each(meta -> {quote(name)})"]
        )
    )
    return draw(
        st.sampled_from(
            [
                f"{field} {operator} {first}", f"{field} {operator} {first}", f"{first} {operator} {field}",
                f"{field} IS {not_}NULL", f"{field} {not_}IN ({first}, {second})",
                f"{field} {not_}BETWEEN {first} AND {second}", f"{field} ISNULL", f"{field} NOTNULL",
                f"{field} {not_}LIKE {draw(PATTERNS)}", f"{field} {not_}GLOB {draw(GLOBS)}", f"{field} NOT NULL",
                f"{not_}EXISTS (SELECT 1 FROM {values} WHERE value = {first})",
                f"{first} {not_}IN (SELECT value FROM {values})",
                f"EXISTS (SELECT * FROM {values} WHERE json_each.value IN ({first}, {second}))",
                f"{field} = {first} COLLATE NOCASE", f"{field} {operator} {first} = {second}",
                f"CASE WHEN {field} = {first} THEN 1 ELSE 0 END", f"{field}", f"{field} LIKE 'a%' ESCAPE 'a'",
                f"{field} + 1 = {first}", f"({field} = {first}) = {second}", "1", "NULL",
            ]
        )
    )  # fmt: skip


CONDITIONS = st.recursive(
    draw_predicate(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR ", " and "]), inner).map("".join),
        inner.map(lambda part: f"NOT {part}"),
        inner.map(lambda part: f"({part})"),
    ),
    max_leaves=4,
)


def list_keys(state: State, find: Any) -> Any:
    """Return the keys of documents, or "refused" if the condition is not supported."""
    try:
        return sorted(state.documents.get_key(document) for document in find())
    except StatementError:
        return "refused"


def filter_both_ways(state: State, condition: str, parameters: Any = ()) -> tuple[Any, Any]:
    return (
        list_keys(state, lambda: filter_documents(state, condition, parameters).allowed.documents.tolist()),
        list_keys(state, lambda: select_documents(state, condition, parameters)),
    )


@pytest.fixture(scope="module")
def filled_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    with kvstore.open(tmp_path_factory.mktemp("filled") / "store", **OPTIONS) as store:
        yield store
        assert store.check() == []


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.lists(draw_document(), max_size=4), max_size=3), st.lists(CONDITIONS, min_size=12, max_size=12))
def test_a_condition_agrees_with_sqlite(
    filled_store: kvstore.Store, batches: Sequence[Sequence[tuple[str, dict[str, Any]]]], conditions: list[str]
) -> None:
    with filled_store.transaction() as transaction:
        transaction.delete_many(filled_store.keys()[::2])
    for batch in batches:
        with filled_store.transaction() as transaction:
            for key, fields in batch:
                transaction.put(key, f"Text of {key[:3]}.", **fields)
    with filled_store.state() as state:
        for condition in conditions:
            mine, plain = filter_both_ways(state, condition)
            if mine == "refused" and "'$z'" in condition:
                continue  # an invalid path is rejected everywhere; SQLite may never evaluate it
            assert mine == plain, condition
            assert list_keys(state, lambda c=condition: filter_documents(state, c).allowed.documents.tolist()) == plain


@pytest.mark.parametrize(
    ("condition", "parameters"),
    [
        ("meta ->> 'n' > ? AND title LIKE ?", (1, "t%")),
        ("meta ->> 'n' IN (?2, ?1)", (1, 2)),
        ("meta ->> :field = :value", {"field": "n", "value": 2, "more": 3}),
        ("meta ->> 'n' = ?", (None,)),
        ("meta ->> 'n' = ? OR ?", (2.0, True)),
        ("? < meta ->> 'n' AND meta ->> 'n' <= ?", (-0.5, 1e308)),
        ("key = ? AND key = ?", ("a", "b")),
    ],
)
def test_parameters_are_those_of_sqlite(store: kvstore.Store, condition: str, parameters: Any) -> None:
    for number, key in enumerate("abcd"):
        store.put(key, f"Text {key}.", title=f"T{key}", meta={"n": number})
    with store.state() as state:
        mine, plain = filter_both_ways(state, condition, parameters)
        assert mine == plain


@pytest.mark.parametrize(
    "condition", ["key = 'none' AND colour = 'red'", "key = 'none' AND 1 = = 2", "key = ?", "meta ->> '$a' = 1"]
)
def test_a_wrong_condition_is_refused_whether_or_not_a_document_is_left(store: kvstore.Store, condition: str) -> None:
    store.put("a", "Tea.")
    with pytest.raises(KvstoreError):
        store.search("tea", using="lexical", where=condition)


def get_filter_step(store: kvstore.Store, where: str) -> tuple[int | None, str]:
    (step,) = (row for row in store.execute(f"EXPLAIN SEARCH 'tea' WHERE {where}") if row[0] == "filter documents")
    return step[2], step[1]


def test_explain_shows_how_documents_were_found_and_sees_changes(store: kvstore.Store) -> None:
    for number in range(6):
        store.put(str(number), "Tea is drunk hot.", meta={"n": number, "long": "l" * (100 * number)})
    assert get_filter_step(store, "meta ->> 'n' < 3") == (3, "by the metadata index")
    assert get_filter_step(store, "meta ->> 'n' < 3") == (3, "from the cache")
    assert get_filter_step(store, "length(meta) < 230") == (3, "6 documents read")
    assert get_filter_step(store, "meta ->> 'n' < 5 AND length(meta) > 230") == (
        2,
        "by the metadata index, 5 documents read",
    )
    assert get_filter_step(store, "meta ->> 'long' >= 'l'") == (5, "by the metadata index, 3 documents read")
    for _ in range(2):
        assert get_filter_step(store, "changed > datetime('now', '-1 day')") == (6, "6 documents read")
    store.delete("1")
    assert get_filter_step(store, "meta ->> 'n' < 3") == (2, "by the metadata index")


def test_select_enters_documents_by_title_and_source(store: kvstore.Store) -> None:
    for number in range(12):
        store.put(str(number), "Tea.", title=f"T{number % 4}" if number else "t" * 300, source=f"/data/{number % 3}")
    select = "SELECT key FROM documents WHERE "
    for condition, read in [("title = 'T2'", 3), ("source = '/data/1'", 4), ("title = 'none'", 0), ("title = 5", 12)]:
        steps_taken = store.execute(f"EXPLAIN ANALYZE {select}{condition}")
        assert [row[2] for row in steps_taken if row[0] == "read"] == [read]
    assert list(store.execute(f"{select}title = ?", ("t" * 300,))) == [("0",)]
    assert list(store.execute(f"{select}title = 'T2' AND source = '/data/0'")) == [("6",)]


def test_a_transaction_finds_its_own_documents(store: kvstore.Store) -> None:
    store.put("old", "Tea.", meta={"n": 1})
    with store.transaction() as transaction:
        transaction.put("new", "Tea.", meta={"n": 1})
        transaction.put("other", "Tea.", meta={"n": 2})
        assert transaction.delete_where("meta ->> 'n' = 1") == 2
        assert transaction.delete_where("meta ->> 'n' = 1") == 0
    assert store.keys() == ["other"]


def test_searches_give_the_first_of_those_that_may_answer(store: kvstore.Store) -> None:
    words = ["tea", "milk", "cocoa", "water", "cup", "pot", "leaf"]
    with store.transaction() as transaction:
        for number in range(40):
            text = " ".join(words[(number * step) % 7] for step in range(1, 1 + number % 9)) or "none"
            transaction.put(str(number), f"{text}.", meta={"n": number % 4})
    allowed = {str(number) for number in range(40) if number % 4 == 2}
    for using in ("vector", "lexical"):
        every = [(hit.document, hit.score) for hit in store.search("tea leaf cup", using=using, top=40)]
        some = store.search("tea leaf cup", using=using, top=5, where="meta ->> 'n' = 2")
        assert [(hit.document, hit.score) for hit in some] == [row for row in every if row[0] in allowed][:5]


def test_chunks_may_answer_whose_documents_may() -> None:
    rows = [(2, 1, 0, 0), (3, 1, 2, 7), (5, 3, 1, 1), (9, 7, 3, 12)]
    first, groups = (np.array([row[place] for row in rows], np.uint64) for place in (1, 2))
    allowed = AllowedDocuments(np.array([row[0] for row in rows], np.uint64), first, groups, 20)
    inside = [*range(5, 20), *range(35, 50)]
    chunks = np.array([49, 3, 5, 5, 20, 34, 35, 50, 1 << 40], np.uint64)
    assert allowed.get_chunk_mask(chunks).tolist() == [chunk in inside for chunk in chunks.tolist()]
    assert [chunk for chunk in range(60) if allowed.is_chunk_allowed(chunk)] == inside
    assert [number for number in range(12) if number in allowed] == [2, 3, 5, 9]
    empty = np.empty(0, np.uint64)
    none = AllowedDocuments(empty, empty, empty, 0)
    assert not none.get_chunk_mask(chunks).any()
    assert (len(none), none.is_chunk_allowed(0)) == (0, False)


@pytest.mark.slow
def test_sets_of_many_documents_are_found_across_containers(tmp_path: Path) -> None:
    documents = 20_000
    with kvstore.open(tmp_path / "store", **OPTIONS) as store, store.state() as empty:
        counters = replace(empty.counters, next_document=documents + 1, documents=documents)

        def fill_index(view: WriteTransaction) -> None:
            follower = METADATA.make_maintainer(empty, view)
            records = (
                DocumentRecord(
                    number, f"d{number}", f"Title {number}", None, "text",
                    {"lang": "en", "n": number % 7, "even": number % 2 == 0, "share": number / documents}, b"",
                    number % 1000,
                    1_700_000_000 + number // 100, number, [number % 5],
                )
                for number in range(1, documents + 1)
            )  # fmt: skip
            follower.apply_delta(Delta([AddedDocument(record, [], (), {}, "english") for record in records]))

        store._session.environment.write_with_growth(fill_index)
        numbers = np.arange(1, documents + 1)
        with store.state() as state:
            state.counters = counters
            state.open_indexes = None
            for condition, expected in {
                "meta ->> 'n' = 3": numbers % 7 == 3,
                "meta ->> 'even'= true AND NOT meta ->> 'n' > 1": (numbers % 2 == 0) & (numbers % 7 <= 1),
                "meta ->> 'share' BETWEEN 0.25 AND 0.75": (numbers >= 5000) & (numbers <= 15000),
                "bytes >= 990.5": numbers % 1000 >= 991,
                "title LIKE 'TITLE 1999_'": numbers >= 19_990,
                "changed <= '2023-11-14T22:13:21+00:00'": numbers < 200,
            }.items():
                document_filter = filter_documents(state, condition)
                expected_numbers = numbers[expected & (numbers < documents)]
                numbers_in_range = document_filter.allowed.documents[document_filter.allowed.documents < documents]
                assert (numbers_in_range.tolist(), document_filter.detail) == (
                    expected_numbers.tolist(),
                    "by the metadata index",
                )
                assert document_filter.allowed.num_chunks == int((document_filter.allowed.documents % 5).sum())


def test_columns_of_distant_numbers_stay_exact() -> None:
    row = (3, 1, 1, 5, (1 << 53) + 1, 0, 0)
    other = (4, 2, 1, 5, -(1 << 62), 0, 0)
    key = bytes(4)
    stored = memoryview(column_blocks.pack_columns(np.array([row, other]).T))
    unpacked = column_blocks.unpack_columns(0, stored, "t", key)
    assert [column.dtype for column in unpacked] == [np.int64] * len(column_blocks.COLUMN_NAMES)
    assert list(zip(*(column.tolist() for column in unpacked), strict=True)) == [row, other]


COLUMN_ROWS = st.dictionaries(
    st.integers(256, 511), st.tuples(st.integers(-9, 9), st.just(7), *[st.integers(-(2**62), 2**62)] * 4)
)


@given(COLUMN_ROWS, COLUMN_ROWS, st.sets(st.integers(256, 511)))
def test_rows_of_a_block_are_changed_as_those_of_a_dict(
    old: dict[int, tuple[int, ...]], new: dict[int, tuple[int, ...]], removed: set[int]
) -> None:
    blocks: list[bytes | None] = [None]
    expected: dict[int, tuple[int, ...]] = {}
    for changes in (old, {**dict.fromkeys(removed | set(list(old)[::2])), **new}, dict.fromkeys((*old, *new))):
        rows = {document: row and (document, *row) for document, row in changes.items()}
        stored = None if blocks[-1] is None else memoryview(blocks[-1])
        blocks.append(column_blocks.change_rows(1, stored, rows, "t", bytes(4)))
        expected = {document: row for document, row in sorted((expected | rows).items()) if row}
        columns = [] if blocks[-1] is None else column_blocks.unpack_columns(1, memoryview(blocks[-1]), "t", bytes(4))
        assert list(zip(*map(np.ndarray.tolist, columns), strict=True)) == list(expected.values())


def test_the_worked_examples_of_the_format_hold() -> None:
    page = files("kvstore.storage").joinpath("FORMAT.md").read_text(encoding="utf-8")
    text = " ".join(page.split())  # lines can be broken within an example
    key = (encode_field_prefix(("year",)) or b"") + encode_number(2024) + bytes(4)
    assert f"`{key[:1].hex()} {key[1:5].hex()} 00 10 {key[7:15].hex()} {key[15:17].hex()} 00 00000000`" in text
    assert f"`{encoding.pack_container([7])[:-4].hex(' ')}`" in text
