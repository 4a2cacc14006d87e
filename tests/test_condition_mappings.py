"""Conditions as dictionaries: what they find is what evaluating them on every document finds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore import errors
from kvstore.sql.condition_mapping import parse_condition_mapping
from kvstore.sql.document_filter import filter_documents
from kvstore.storage.view import LmdbView

TEXT = "Tea is made from leaves."
BOOKS: dict[str, dict[str, Any]] = {
    "emma": {"year": 1815, "tags": ["novel", "english"], "author": {"name": "Austen", "born": 1775}, "read": True},
    "faust": {"year": 1808, "tags": ["play"], "author": {"name": "Goethe", "born": 1749}, "read": False},
    "poems": {"year": "1798", "tags": [], "day": "2024-05-01"},
    "blank": {"year": None},
    "x.y": {"a.b": 1.5, "long": "k" * 300 + "end", "100%": "50% off"},
}


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    path: Path = tmp_path_factory.mktemp("books") / "store"
    with kvstore.open(path, embedder="hashing:16", settings={"language": "rules"}) as store:
        with store.transaction() as transaction:
            for key, meta in BOOKS.items():
                transaction.put(key, TEXT, title=key.title(), meta=meta)
        yield store


def find_keys(store: kvstore.Store, condition: Mapping[str, Any]) -> set[str]:
    return {hit.document for hit in store.search("tea", where=condition)}


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ({}, set(BOOKS)),
        ({"year": 1815}, {"emma"}),
        ({"year": {"$gte": 1808}}, {"emma", "faust"}),
        ({"year": {"$gte": "1700"}}, {"poems"}),
        ({"year": {"$lt": "1900"}}, {"poems"}),
        ({"year": {"$gt": 1808, "$lt": 1900}}, {"emma"}),
        ({"year": {"$ne": 1815}}, {"faust", "poems", "blank", "x.y"}),
        ({"year": None}, {"blank", "x.y"}),
        ({"year": {"$exists": True}}, {"emma", "faust", "poems"}),
        ({"year": {"$in": [1808, "1798", None]}}, {"faust", "poems", "blank", "x.y"}),
        ({"year": {"$nin": [1808, 1815]}}, {"poems", "blank", "x.y"}),
        ({"year": {"$in": []}}, set()),
        ({"tags": "novel"}, {"emma"}),
        ({"tags": {"$in": ["play", "english"]}}, {"emma", "faust"}),
        ({"tags": {"$like": "%L%"}}, {"emma", "faust"}),
        ({"tags": {"$exists": True}}, {"emma", "faust", "poems"}),
        ({"author": {"name": "Goethe"}}, {"faust"}),
        ({"author": {"born": {"$lt": 1760}, "name": {"$like": "go%"}}}, {"faust"}),
        ({"read": True}, {"emma"}),
        ({"read": {"$in": [False]}}, {"faust"}),
        ({"a.b": {"$gt": 1}}, {"x.y"}),
        ({"day": date(2024, 5, 1)}, {"poems"}),
        ({"day": {"$lt": datetime(2024, 5, 2, tzinfo=UTC)}}, {"poems"}),
        ({"long": {"$substring": "kend"}}, {"x.y"}),
        ({"100%": {"$substring": "% o"}}, {"x.y"}),
        ({"long": {"$gt": "kk"}}, {"x.y"}),
        ({"$key": "emma"}, {"emma"}),
        ({"$key": {"$in": ["emma", "x.y", "none"]}, "$title": {"$like": "e%"}}, {"emma"}),
        ({"$key": {"$substring": "oem"}}, {"poems"}),
        ({"tags": {"$isubstring": "OVE"}}, {"emma"}),
        ({"tags": {"$empty": True}}, {"poems", "blank", "x.y"}),
        ({"tags": {"$empty": False}}, {"emma", "faust"}),
        ({"$source": {"$empty": True}, "$bytes": {"$empty": False}}, set(BOOKS)),
        ({"$bytes": {"$gte": len(TEXT)}, "$chunks": 1, "$left_out": 0}, set(BOOKS)),
        ({"$source": None}, set(BOOKS)),
        ({"$key": 1}, set()),
        ({"$changed": {"$gt": "2020"}}, set(BOOKS)),
        ({"$or": [{"year": 1808}, {"tags": "novel"}]}, {"emma", "faust"}),
        ({"$and": [{"year": {"$gt": 0}}, {"$not": {"tags": "novel"}}]}, {"faust"}),
        ({"year": {"$not": {"$gt": 0}}}, {"poems", "blank", "x.y"}),
    ],
)
def test_a_dictionary_selects_documents(books: kvstore.Store, condition: Mapping[str, Any], keys: set[str]) -> None:
    assert find_keys(books, condition) == keys
    assert books.count(condition) == len(keys)


def test_a_dictionary_is_accepted_wherever_a_condition_is(books: kvstore.Store) -> None:
    condition = {"year": {"$gte": 1800}}
    assert {hit.document for hit in books.retrieve("tea", using="vector", where=condition).hits} == {"emma", "faust"}
    assert {span.document for span in books.ask("What is tea?", where=condition).citations} <= {"emma", "faust"}
    assert books.forecast_extract("units", where=condition).passages == 2
    evidence = books.retrieve("tea", where=condition)
    steps = {step.name: step for step in evidence.steps}
    assert (steps["filter documents"].detail, steps["filter documents"].count) == (
        "from the cache", 2
    )  # fmt: skip
    transaction = books.transaction()
    assert transaction.delete_where({"tags": "novel"}) == 1
    assert (transaction.count({"year": 1815}), "emma" in transaction) == (0, False)
    transaction.rollback()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"year": {"$gtx": 1}}, r"year: there is no operator \$gtx \(did you mean \$gt\?\); operators are \$eq"),
        (
            {"year": {"$contains": 1}},
            r"year: there is no operator \$contains \(use \$substring or \$match for text; a plain value also finds an "
            r"element of a list\); operators are \$eq",
        ),
        ({"$contains": "tea"}, r"there is no \$contains \(use \$substring or \$match"),
        (
            {"title": {"$regex": "a+"}},
            r"there is no operator \$regex \(use \$like, \$substring or \$match\); operators",
        ),
        ({"$keys": "a"}, r"there is no \$keys \(did you mean \$key\?\)"),
        ({"$nor": [{"year": 1}]}, r"operators are \$and, \$or, \$not, and columns are \$key"),
        ({"$or": {"year": 1}}, r"\$or takes a list of conditions, not dict"),
        ({"$and": []}, r"\$and needs at least one condition"),
        ({"$or": [1]}, "a condition must be a mapping such as"),
        ({"year": {"$in": "abc"}}, r"\$in takes a list of values, not str 'abc'"),
        (
            {"year": [1, 2]},
            r"year can be compared with text, numbers, True, False and None, not list \[1, 2\]; \$in takes",
        ),
        ({"year": {"$gt": None}}, r"year: \$gt takes text or a number"),
        ({"year": {"$gt": 1, "month": 2}}, "year takes a value, or operators"),
        ({"year": {}}, "year takes a value, or operators"),
        ({"year": float("nan")}, "NaN cannot be compared"),
        ({"year": np.float32("nan")}, "NaN cannot be compared"),
        ({"year": 1 << 70}, "more than 64 bits"),
        ({"year": {"$exists": 1}}, r"\$exists takes True or False"),
        ({"year": {"$like": 1}}, r"\$like takes text of up to 1,000 characters"),
        ({"$key": {"a": 1}}, r"\$key is a column and has no fields"),
        ({1: 2}, "the name of a field must be text, not int 1"),
        ({"a": "\ud800"}, "half of a surrogate pair"),
    ],
)
def test_an_invalid_condition_is_refused_with_the_reason(books: kvstore.Store, condition: Any, message: str) -> None:
    with pytest.raises(errors.InputError, match=message):
        books.search("tea", where=condition)


def test_a_column_without_its_dollar_gives_a_warning(books: kvstore.Store) -> None:
    with pytest.warns(
        UserWarning, match=r"no document has the metadata field 'key'; for the column, write '\$key'"
    ) as caught:
        assert books.count({"key": "emma"}) == 0
    assert caught[0].filename == __file__, "the warning points at the call"
    with pytest.warns(UserWarning, match=r"write '\$title'"):
        assert books.search("tea", where={"title": "Emma", "year": 1815}) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert books.count({"$key": "emma"}) == 1
        assert books.count({"genre": "novel"}) == books.count({"year": 1}) == 0
        transaction = books.transaction()
        transaction.update("emma", meta={"key": "C major"})
        assert (transaction.count({"key": "C major"}), transaction.count({"key": "emma"})) == (1, 0)
        transaction.rollback()


def test_an_operator_without_its_dollar_gives_a_warning(books: kvstore.Store) -> None:
    with pytest.warns(
        UserWarning, match=r"no document has the metadata field 'gte' in 'year'; for the operator, write '\$gte'"
    ) as caught:
        assert books.count({"year": {"gte": 1800}}) == 0
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert books.count({"year": {"$gte": 9999}}) == books.count({"year": {"month": 5}}) == 0
        transaction = books.transaction()
        transaction.update("emma", meta={"set": {"in": "England"}})
        assert transaction.count({"set": {"in": "England"}}) == 1
        assert transaction.count({"set": {"in": "Wales"}}) == 0
        transaction.rollback()


def test_a_condition_takes_every_integer_that_metadata_can_contain(books: kvstore.Store) -> None:
    for key, number in (("a", 1 << 63), ("b", (1 << 64) - 1), ("c", -(1 << 63)), ("d", 7)):
        books.put(key, "A text.", meta={"n": number})
    for where, sql, keys in (
        ({"n": 1 << 63}, f"meta ->> 'n' = {1 << 63}", ["a"]),
        ({"n": (1 << 64) - 1}, f"meta ->> 'n' = {(1 << 64) - 1}", ["b"]),
        ({"n": {"$lt": 1 << 63}}, f"meta ->> 'n' < {1 << 63}", ["c", "d"]),
        ({"n": {"$gte": 1 << 63}}, f"meta ->> 'n' >= {1 << 63}", ["a", "b"]),
        ({"n": {"$gt": (1 << 63) - 1}}, f"meta ->> 'n' > {(1 << 63) - 1}", ["a", "b"]),
        ({"n": {"$in": [7, (1 << 64) - 1]}}, f"meta ->> 'n' IN (7, {(1 << 64) - 1})", ["b", "d"]),
    ):
        assert books.keys(where=where) == books.keys(where=sql) == keys, where


def test_a_dictionary_takes_no_parameters_and_is_not_too_deep(books: kvstore.Store) -> None:
    with pytest.raises(errors.InputError, match="takes no parameters"):
        books.count({"year": 1}, (1,))
    deep: dict[str, Any] = {"year": 1}
    for _ in range(60):
        deep = {"$not": deep}
    with pytest.raises(errors.InputError, match="more than 50 levels deep"):
        books.count(deep)
    with pytest.raises(errors.ArgumentError, match="where must be text or a mapping"):
        books.count(7)  # type: ignore[arg-type]


# Against plain evaluation --------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "a", "b.c", 'q"'])
TEXTS = st.sampled_from(["", "a", "A", "ab", "Ab%", "a_b", "b", "10", "ß", "\0x", "k" * 300, "k" * 300 + "l", "東"])
NUMBERS = st.sampled_from(
    [
        *(0, 1, -2, 3, True, False, 0.5, -0.0, 1.0, 1e300, 0.1 + 0.2, 1 / 3, 1 << 53, (1 << 53) + 1, float(1 << 53)),
        *((1 << 63) - 1, 1 << 63, (1 << 64) - 1, float(1 << 64), -(1 << 63)),
    ]
)
SCALARS = st.none() | NUMBERS | TEXTS


def test_many_values_are_looked_up_together(books: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup of each value made a list of 100,000 numbers take six seconds in the smallest store."""
    num_scans = 0
    scan = LmdbView.scan

    def count_scan(*arguments: Any, **options: Any) -> Any:
        nonlocal num_scans
        num_scans += 1
        return scan(*arguments, **options)

    monkeypatch.setattr(LmdbView, "scan", count_scan)
    numbers = [*range(1000, 3000), 0.1, 0.30000000000000004]
    assert find_keys(books, {"year": {"$in": numbers}}) == {"emma", "faust"}
    others = {"year": {"$nin": [*map(str, numbers), 1815]}, "$key": {"$in": list(BOOKS)}}
    assert find_keys(books, others) == {"faust", "blank", "x.y"}
    assert find_keys(books, {"tags": {"$in": [f"tag {number}" for number in numbers] + ["play"]}}) == {"faust"}
    sql = f"meta ->> 'year' IN ({', '.join(map(str, numbers))})"
    assert {hit.document for hit in books.search("tea", where=sql)} == {"emma", "faust"}
    assert num_scans < 100


VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b", "A/b", "é", "k" * 490, "k" * 490 + "l", "x_1"]),
        "title": st.none() | TEXTS.filter(lambda text: "\0" not in text),
        "meta": st.dictionaries(NAMES, VALUES, max_size=3),
    }
)
OPERATIONS = st.one_of(
    st.builds(lambda name, value: {name: value}, st.sampled_from(["$eq", "$ne"]), SCALARS),
    st.builds(lambda name, value: {name: value}, st.sampled_from(["$lt", "$lte", "$gt", "$gte"]), NUMBERS | TEXTS),
    st.builds(lambda name, values: {name: values}, st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=3)),
    st.builds(lambda value: {"$exists": value}, st.booleans()),
    st.builds(lambda value: {"$empty": value}, st.booleans()),
    st.builds(lambda name, text: {name: text}, st.sampled_from(["$substring", "$isubstring"]), TEXTS),
    st.builds(lambda text: {"$like": text}, st.sampled_from(["a%", "%B%", "_", "%", "k%l", "1%", "é"])),
)
OPERANDS = st.one_of(SCALARS, OPERATIONS, st.builds(lambda first, second: {**first, **second}, OPERATIONS, OPERATIONS))
FIELDS = st.one_of(
    st.dictionaries(NAMES, OPERANDS, max_size=2),
    st.builds(lambda outer, inner, operand: {outer: {inner: operand}}, NAMES, NAMES, OPERANDS),
    st.builds(
        lambda column, operand: {column: operand}, st.sampled_from(["$key", "$title", "$bytes", "$chunks"]), OPERANDS
    ),
)
WHERES = st.recursive(
    FIELDS,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"$and": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"$or": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"$not": part}, inner),
    ),
    max_leaves=4,
)


def satisfies(condition: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """True if a document satisfies a condition by the definitions in LANGUAGE.md."""

    def is_satisfied(name: str, operand: Any) -> bool:
        if name == "$and":
            return all(satisfies(part, document) for part in operand)
        if name == "$or":
            return any(satisfies(part, document) for part in operand)
        if name == "$not":
            return not satisfies(operand, document)
        columns = {"$key": document["key"], "$title": document["title"], "$bytes": len(TEXT), "$chunks": 1}
        return matches_value(columns[name] if name in columns else document["meta"].get(name), operand)

    return all(is_satisfied(name, operand) for name, operand in condition.items())


def matches_value(value: Any, condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return is_equal(value, condition)
    if condition and not any(name.startswith("$") for name in condition):
        within = value if isinstance(value, dict) else {}
        return all(matches_value(within.get(name), inner) for name, inner in condition.items())
    return all(matches_operator(value, name, operand) for name, operand in condition.items())


def matches_operator(value: Any, name: str, operand: Any) -> bool:
    match name:
        case "$ne" | "$nin":
            return not matches_operator(value, {"$ne": "$eq", "$nin": "$in"}[name], operand)
        case "$eq":
            return is_equal(value, operand)
        case "$in":
            return any(is_equal(value, element) for element in operand)
        case "$exists":
            return (value is not None) == operand
        case "$empty":
            # A list fulfils what one of its elements does.
            return (value in (None, "", []) or (isinstance(value, list) and "" in value)) == operand
    elements = value if isinstance(value, list) else [value]
    if name == "$substring":
        return any(isinstance(element, str) and operand in element for element in elements)
    if name == "$isubstring":
        return any(isinstance(element, str) and operand.lower() in element.lower() for element in elements)
    if name == "$like":
        return any(isinstance(element, str) and matches_pattern(element, operand) for element in elements)
    compare = {"$lt": lt, "$lte": le, "$gt": gt, "$gte": ge}[name]
    return any(get_kind(element) == get_kind(operand) and compare(element, operand) for element in elements)


def is_equal(value: Any, operand: Any) -> bool:
    if operand is None:
        return value is None
    return any(
        get_kind(element) == get_kind(operand) and element == operand
        for element in (value if isinstance(value, list) else [value])
    )


def get_kind(value: Any) -> str:
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def matches_pattern(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(matches_pattern(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return (
        bool(text)
        and (pattern[0] == "_" or lower_letter(text[0]) == lower_letter(pattern[0]))
        and matches_pattern(text[1:], pattern[1:])
    )


def lower_letter(letter: str) -> str:
    return letter.lower() if letter.isascii() else letter


def test_equalities_of_a_field_joined_by_or_are_one_condition() -> None:
    for field in ("a", "$key"):
        alternatives = {"$or": [{field: "x"}, {field: "y"}, {"b": 1}, {field: "z"}]}
        membership = {"$or": [{"b": 1}, {field: {"$in": ["x", "y", "z"]}}]}
        assert parse_condition_mapping(alternatives) == parse_condition_mapping(membership)


@settings(max_examples=num_examples(40), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    documents=st.lists(DOCUMENTS, min_size=1, max_size=6, unique_by=lambda item: str(item["key"])),
    conditions=st.lists(WHERES, min_size=5, max_size=15),
)
def test_dictionaries_select_the_same_as_plain_evaluation(
    books: kvstore.Store, documents: list[dict[str, Any]], conditions: list[dict[str, Any]]
) -> None:
    transaction = books.transaction()
    try:
        transaction.delete_many(books.keys())
        for document in documents:
            transaction.put(document["key"], TEXT, title=document["title"], meta=document["meta"])
        for condition in conditions:
            expected = {item["key"] for item in documents if satisfies(condition, item)}
            with transaction.state() as state:
                allowed_documents = filter_documents(state, condition).allowed.documents.tolist()
                assert {state.documents.get_key(item) for item in allowed_documents} == expected, condition
    finally:
        transaction.rollback()
