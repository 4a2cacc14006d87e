"""Conditions over documents: what the index of their values finds is what SQLite finds, after any history."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvstore
from kvstore.errors import StatementError
from kvstore.sql.document_filter import documents_where
from kvstore.sql.relational import documents_fulfilling
from kvstore.structures.state import State
from kvstore.systems.metadata_index import document_sets
from kvstore.systems.metadata_index.value_keys import FIELD, names_key, number_bound, number_key, stored_value

OPTIONS: dict[str, Any] = {"embedder": "hashing:16", "settings": {"language": "rules"}}

# Keys and sets -------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), st.integers(-3, 3), st.just(float(1 << 53))
)


@given(NUMBERS, NUMBERS)
def test_keys_of_numbers_sort_as_the_numbers(one: float, other: float) -> None:
    assert stored_value(number_key(one)) == one
    assert (number_bound(one) < number_bound(other)) == (one < other)
    assert (number_bound(one) == number_bound(other)) == (one == other)


@given(st.sets(st.integers(0, 8191), min_size=1), st.sets(st.integers(0, 8191)), st.sets(st.integers(0, 9000)))
def test_a_set_is_changed_as_sets_are_and_equal_sets_have_equal_bytes(
    stored: set[int], added: set[int], removed: set[int]
) -> None:
    stored |= set(range(min(removed, default=0), min(max(removed, default=0), 8192)))
    removed &= stored
    added -= stored
    if not stored:
        return
    before = memoryview(document_sets.packed(stored))
    after = document_sets.changed(before, added, removed, "t", b"k")
    left = (stored - removed) | added
    assert after == (document_sets.packed(left) if left else None)
    if after is not None:
        assert document_sets.unpacked(memoryview(after), "t", b"k").tolist() == sorted(left)
        assert len(after) <= 1 + 1024 + 4


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
METADATA = st.dictionaries(NAMES, VALUES, max_size=3)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    key = draw(st.sampled_from(["a", "b", "A/b", "a/c", "docs/x", "Docs/y", "é", "k" * 490, "k" * 490 + "l", "x_1"]))
    return key, {
        "title": draw(st.none() | st.sampled_from(["A", "a", "ab", "b", "Zebra", "t" * 250])),
        "source": draw(st.none() | st.sampled_from(["/data/a", "/data/b", "other"])),
        "meta": draw(METADATA),
    }


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@st.composite
def fields(draw: st.DrawFn) -> str:
    name, other = draw(NAMES), draw(NAMES)
    return draw(
        st.sampled_from(
            [
                "key", "title", "source", "bytes", "chunks", "changed", "left_out", '"key"', "documents.title",
                f"meta ->> {quoted(name)}", f"(meta ->> {quoted(name)})", f"""json_extract(meta, '$."{name}"')""",
                f"meta -> {quoted(name)} ->> {quoted(other)}", f"""meta ->> '$."{name}"."{other}"'""",
                "meta ->> '$.a.b'", f"json_extract(meta, '$.{name}')", "meta ->> '$.b[0]'", "meta", "rowid",
                "length(title)", f"meta -> {quoted(name)}",
            ]
        )
    )  # fmt: skip


LITERALS = st.one_of(
    st.sampled_from(
        ["NULL", "TRUE", "0", "1", "-2", "2.5", "1.0", "0.30000000000000004", "1e300", "9007199254740993", "9e999",
         "3.141592653589793", "99999999999999999999", "'a'", "'ab'", "'A'", "''", "'b'", "'10'", "'2024'", "'k'",
         "'2026-01-01'", "X'61'", "'docs/x'", "-9223372036854775808", "0.3333333333333333"]
    ),
    TEXTS.filter(lambda text: "\0" not in text).map(quoted),
)  # fmt: skip
PATTERNS = st.sampled_from(
    ["'a%'", "'%b%'", "'docs/%'", "'_'", "'A_'", "'%'", "'1%'", "'ab%'", "'é'", "'k%l'", "'/data/%'", "'2%'"]
)
GLOBS = st.sampled_from(["'a*'", "'*b*'", "'[ab]*'", "'?'", "'docs/*'", "'*'", "'1*'"])


@st.composite
def predicates(draw: st.DrawFn) -> str:
    field, name = draw(fields()), draw(NAMES)
    not_ = draw(st.sampled_from(["", "NOT "]))
    one, other = draw(LITERALS), draw(LITERALS)
    operator = draw(st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "IS", "IS NOT"]))
    each = draw(
        st.sampled_from(
            [f"json_each(meta, '$.{name}')", f"""json_each(meta, '$."{name}"')""", f"json_each(meta -> {quoted(name)})"]
        )
    )
    return draw(
        st.sampled_from(
            [
                f"{field} {operator} {one}", f"{field} {operator} {one}", f"{one} {operator} {field}",
                f"{field} IS {not_}NULL", f"{field} {not_}IN ({one}, {other})",
                f"{field} {not_}BETWEEN {one} AND {other}", f"{field} ISNULL", f"{field} NOTNULL",
                f"{field} {not_}LIKE {draw(PATTERNS)}", f"{field} {not_}GLOB {draw(GLOBS)}", f"{field} NOT NULL",
                f"{not_}EXISTS (SELECT 1 FROM {each} WHERE value = {one})",
                f"{one} {not_}IN (SELECT value FROM {each})",
                f"EXISTS (SELECT * FROM {each} WHERE json_each.value IN ({one}, {other}))",
                f"{field} = {one} COLLATE NOCASE", f"{field} {operator} {one} = {other}",
                f"CASE WHEN {field} = {one} THEN 1 ELSE 0 END", f"{field}", f"{field} LIKE 'a%' ESCAPE 'a'",
                f"{field} + 1 = {one}", f"({field} = {one}) = {other}", "1", "NULL",
            ]
        )
    )  # fmt: skip


CONDITIONS = st.recursive(
    predicates(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR ", " and "]), inner).map("".join),
        inner.map(lambda part: f"NOT {part}"),
        inner.map(lambda part: f"({part})"),
    ),
    max_leaves=4,
)


def outcome(state: State, found: Any) -> Any:
    """Keys of documents, or that the condition is refused."""
    try:
        return sorted(state.documents.key_of(document) for document in found())
    except StatementError:
        return "refused"


def both(state: State, condition: str, parameters: Any = ()) -> tuple[Any, Any]:
    return (
        outcome(state, lambda: documents_where(state, condition, parameters).allowed.documents.tolist()),
        outcome(state, lambda: documents_fulfilling(state, condition, parameters)),
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    with kvstore.open(tmp_path_factory.mktemp("filled") / "store", **OPTIONS) as store:
        yield store


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.lists(documents(), max_size=4), max_size=3), st.lists(CONDITIONS, min_size=12, max_size=12))
def test_a_condition_finds_what_sqlite_finds(
    filled: kvstore.Store, batches: Sequence[Sequence[tuple[str, dict[str, Any]]]], asked: list[str]
) -> None:
    with filled.transaction() as transaction:
        transaction.delete_many(filled.keys()[::2])
    for batch in batches:
        with filled.transaction() as transaction:
            for key, given in batch:
                transaction.put(key, f"Text of {key[:3]}.", **given)
    with filled.state() as state:
        for condition in asked:
            mine, plain = both(state, condition)
            assert mine == plain, condition
            assert outcome(state, lambda c=condition: documents_where(state, c).allowed.documents.tolist()) == plain


def test_the_worked_examples_of_the_format_hold() -> None:
    text = files("kvstore.storage").joinpath("FORMAT.md").read_text(encoding="utf-8")
    key = (names_key(FIELD, ["year"]) or b"") + number_key(2024) + bytes(4)
    assert f"`{key[:1].hex()} {key[1:5].hex()} 00 10 {key[7:15].hex()} {key[15:17].hex()} 00 00000000`" in text
    assert f"`{document_sets.packed([7])[:-4].hex(' ')}`" in text
