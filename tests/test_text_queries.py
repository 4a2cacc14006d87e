"""Full-text queries: phrases, beginnings and words near each other, by the postings and by plain evaluation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvstore
from kvstore.errors import InputError, StatementError
from kvstore.retrieval import phrase_search
from kvstore.sql.document_filter import filter_documents
from kvstore.text import text_query
from kvstore.text.text_query import build_text_matcher, parse_text_query
from kvstore.text.words import get_stemmer

OPTIONS: dict[str, Any] = {"embedder": "hashing:16", "settings": {"language": "rules", "chunk_tokens": 16}}
LEAVE = "Parental leave lasts twenty weeks. Maria Jensen approves it."


@pytest.mark.parametrize(
    ("query", "text", "is_match"),
    [
        ("leaves", "Parental leave", True),
        ('"leaves"', "Parental leave", False),
        ('"PARENTAL leave"', "parental  leave", True),
        ('"leave parental"', "parental leave", False),
        ("parent + leaves", "parental leave", True),
        ('"parental"+"leave"', "parental (leave)", True),
        ("write-ahead", "the write-ahead log", True),
        ("write-ahead", "write it ahead", False),
        ("immun*", "immunization", True),
        ('"twenty we"*', LEAVE, True),
        ('"twenty we"', LEAVE, False),
        ("NEAR(leave approves, 5)", LEAVE, True),
        ("NEAR(leave approves, 4)", LEAVE, False),
        ('NEAR("maria jensen" "parental leave", 3)', LEAVE, True),
        ('NEAR("maria jensen" "parental leave", 2)', LEAVE, False),
        ("NEAR(weeks leave)", LEAVE, True),
        ("NEAR(twenty twenty, 0)", LEAVE, True),
        ("leave NOT sick", LEAVE, True),
        ("leave NOT jensen weeks", LEAVE, False),
        ("sick OR leave AND weeks", LEAVE, True),
        ("(sick OR leave) AND never", LEAVE, False),
        ("cafe", "im Café", True),
        ('"大学"', "北京大学。", True),
        ('"学大"', "北京大学。", False),
        ('"and"', "you and me", True),
        ('near + by', "near by", True),
        ("it*", "", False),
    ],
)  # fmt: skip
def test_a_text_matches_a_query(query: str, text: str, is_match: bool) -> None:
    assert build_text_matcher(query, "english")(text) is is_match


def test_white_space_is_skipped_without_scanning_it_again() -> None:
    assert [match.span() for match in text_query._TOKEN_PATTERN.finditer("\r\r word \r\r")] == [(3, 7)]
    for text in ("\r" * 20_000, "leave AND" + " " * 20_000):
        with pytest.raises(InputError, match="at the end of") as caught:
            parse_text_query(text)
        assert len(str(caught.value)) < 500
    assert parse_text_query("leave" + "\r" * 20_000) == parse_text_query("leave")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "expected a word or a phrase in double quotes at the end of ''"),
        ("tea AND", "expected a word or a phrase in double quotes at the end of 'tea AND'"),
        ('"tea', "character 1: this double quote is not closed"),
        ("(tea", r"expected '\)'"),
        ("tea)", r"character 4: expected AND, OR, NOT or a word, found '\)'"),
        ("NEAR(tea leaf, soon)", "character 16: expected a whole number, the maximum number of words between"),
        ("tea -draft", "character 5: `-` cannot precede a word; NOT draft excludes texts"),
        ("title:tea", "cannot name a column"),
        ("tea * leaf +", "at the end"),
        ("te* + leaf", r"character 5: `\+` cannot follow `\*`"),
        ('"..."', "no letter or digit"),
        ("(" * 60 + "tea", "more than 50 nested"),
        ("tea " * 1001, "more than 1,000 words"),
    ],
)
def test_the_error_of_an_invalid_query_has_a_position(query: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_text_query(query)


@pytest.fixture
def leave_store(make_store: Any) -> kvstore.Store:
    store: kvstore.Store = make_store(**OPTIONS)
    store.put("a", LEAVE, title="Leave", meta={"note": "sick leave"})
    store.put("b", "The leaves of parental trees fall. " * 4, title="Trees")
    store.put("c", "one two three four", chunks=[(0, 3), (8, 18)])
    return store


def test_a_condition_composes_with_every_statement(leave_store: kvstore.Store) -> None:
    def list_rows(statement: str) -> list[Any]:
        return [tuple(row) for row in leave_store.execute(statement)]

    phrase = """content MATCH '"parental leave"'"""
    ((_, detail, count),) = list_rows(f"EXPLAIN SEARCH 'leave' USING lexical WHERE {phrase}")[:1]
    assert (detail, count) == ("by the word index and the metadata index, 2 documents read", 1)
    for using in ("lexical", "vector", "hybrid", "adaptive"):
        assert {row[2] for row in list_rows(f"RETRIEVE 'leave' USING {using} WHERE {phrase}")} == {"a"}
    assert list_rows("SELECT key FROM documents WHERE NOT content MATCH 'parental'") == [("c",)]
    assert (
        list_rows("EXPLAIN SELECT key FROM documents WHERE content MATCH 'tree'")[0][1]
        == "SCAN documents BY content MATCH ?"
    )
    assert list_rows("SELECT key FROM documents WHERE meta ->> 'note' MATCH 'leave' OR title MATCH 'tree*'") == [
        ("a",), ("b",),
    ]  # fmt: skip
    assert list_rows("SELECT document, ordinal FROM chunks WHERE text MATCH 'three'") == [("c", 1)]
    # No other table has a column of this name, so that one which has a text is joined without saying whose is meant.
    joined = "SELECT key, text FROM documents JOIN chunks ON document = key WHERE content MATCH 'one' AND ordinal = 1"
    assert list_rows(joined) == [("c", "three four")]
    # What lies between the chunks of one who has cut a text is kept and not searched.
    assert list_rows("SELECT key, content FROM documents WHERE content MATCH '\"one three\"'") == [
        ("c", "one\n\nthree four")
    ]
    assert list_rows("SELECT key FROM documents WHERE content MATCH 'two'") == []
    assert list_rows("SELECT title MATCH NULL, content MATCH 'leave' FROM documents WHERE key = 'c'") == [(None, 0)]
    assert leave_store.keys(where={"$content": {"$match": "NEAR(leave approves)"}}) == ["a"]
    assert leave_store.keys(where={"note": {"$match": "leaves"}, "$content": {"$substring": "Maria"}}) == ["a"]
    assert leave_store.keys(where={"$not": {"$content": {"$match": "parental"}}}) == ["c"]
    with leave_store.transaction() as transaction:
        transaction.put("d", "Parental leave again.")
        assert transaction.delete_where(phrase) == 2
    assert leave_store.keys() == ["b", "c"]


def test_hundreds_of_conditions_are_read_once_and_split_a_text_once(
    make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store("many", **OPTIONS)
    for number in range(5):
        store.put(f"key {number}", f"Letter {number}: {LEAVE}")
    done: Counter[str] = Counter()

    def count_calls(name: str) -> None:
        function = getattr(text_query, name)
        monkeypatch.setattr(text_query, name, lambda *arguments: (done.update([name]), function(*arguments))[1])

    count_calls("_Parser")
    count_calls("_TextWords")
    conditions = " OR ".join(f"content || '' MATCH 'never{number}'" for number in range(150))
    assert store.execute(f"SELECT key FROM documents WHERE {conditions} OR content || '' MATCH '3'").fetchall() == [
        ("key 3",)
    ]
    assert done["_Parser"] <= 151
    assert done["_TextWords"] <= 6


def test_a_wrong_query_is_refused_at_its_place(leave_store: kvstore.Store) -> None:
    with pytest.raises(StatementError, match="column 51: full-text query: expected a word") as refused:
        leave_store.execute("SEARCH 'leave' WHERE key = 'z' AND content  MATCH 'parental AND'")
    assert refused.value.column == 51
    with pytest.raises(InputError, match=r"expected '\)'"):
        leave_store.execute("SELECT key FROM documents WHERE content MATCH '(tea'").fetchall()
    with pytest.raises(InputError, match=r"\$match takes a full-text query such as"):
        leave_store.keys(where={"$content": {"$match": 1}})


def test_words_in_quotes_count_as_a_whole(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"language": "rules"})
    store.put("apart", "South of the river, due at noon; due to the south, the south is due and south.")
    store.put("together", "The series Due South was made for television in the north, and is often shown on Fridays.")
    store.put("titled", "It was made for television, and somebody from a town in it wrote of it.", title="Due South")
    store.put("none", "Nothing of this.")

    def rank_documents(
        question: str, top: int = 10, where: str | None = None, phrases: float = 0.5
    ) -> list[tuple[str, float]]:
        with mock.patch.object(phrase_search, "_PHRASE_SHARE", phrases):
            evidence = store.retrieve(question, using="lexical", top=top, where=where)
        return [(hit.document, hit.score) for hit in evidence.hits]

    bare = rank_documents("due south")
    assert bare[0][0] == "apart"
    assert (
        bare
        == rank_documents('"due" "south"')
        == rank_documents('"due south')
        == rank_documents('"due south"', phrases=0)
    )
    quoted = rank_documents('"due south"', phrases=4)
    assert quoted == rank_documents("\u201cDue  South\u201d", phrases=4)
    assert [document for document, _ in quoted] == ["titled", "together", "apart"]
    assert dict(quoted)["apart"] == dict(bare)["apart"]
    # The first are the first of all, though their words alone would not bring them there.
    assert [rank_documents('"due south"', top, phrases=4) for top in (1, 2)] == [quoted[:1], quoted[:2]]
    assert [document for document, _ in rank_documents('"due south"', where="key <> 'titled'", phrases=4)] == [
        "together", "apart",
    ]  # fmt: skip
    # What no chunk has word for word changes nothing, nor does a run of words that say nothing.
    assert rank_documents('"south due" of it', phrases=4)[1:] == rank_documents("south due of it")[1:]
    assert rank_documents('"of it" town', phrases=4) == rank_documents("of it town")
    (step,) = (row for row in store.execute("EXPLAIN SEARCH '\"due south\" town' USING lexical") if "BM25" in row[1])
    assert step[1] == 'BM25 of due, south, town; exact phrases "due south"'


# Against plain evaluation --------------------------------------------------------------------------------------------

WORDS = [
    "walk",
    "walked",
    "walking",
    "happy",
    "happiness",
    "hoping",
    "hope",
    "ab",
    "abc",
    "é",
    "東",
    "京",
    "a_b",
    "Tea",
]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).map(" ".join)
PHRASES = st.builds(
    lambda words, star, quote: ('"{}"' if quote else "{}").format(words) + star,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    st.sampled_from(["", "", "*"]),
    st.just(True),
) | st.sampled_from([*WORDS, "wal*", "happ*", "hop*", "happy*", "hopi*", "a*", "walk + hope", "東京"])
QUERIES = st.recursive(
    PHRASES | st.builds(lambda some, far: f"NEAR({' '.join(some)}, {far})", st.lists(PHRASES, min_size=2, max_size=3),
                        st.integers(0, 6)).filter(lambda query: "+" not in query),
    lambda inner: st.builds(lambda one, by, other: f"({one}) {by} ({other})", inner,
                            st.sampled_from(["AND", "OR", "NOT"]), inner),
    max_leaves=3,
)  # fmt: skip
STEM = get_stemmer("english")


def is_text_match(query: str, text: str) -> bool:
    """True if a text matches one of the queries above, compared word by word as LANGUAGE.md defines."""
    words = re.findall("[東京]|[^\\W東京]+", text.lower().replace("é", "e"))
    for operator in (" AND ", " OR ", " NOT "):
        if query.startswith("("):
            depth = 0
            end = next(
                place
                for place, sign in enumerate(query)
                if (depth := depth + {"(": 1, ")": -1}.get(sign, 0)) == 0 and sign == ")"
            )
            if query[end + 1 :].startswith(operator):
                left = is_text_match(query[1:end], text)
                right = is_text_match(query[end + len(operator) + 2 : -1], text)
                return {" AND ": left and right, " OR ": left or right, " NOT ": left and not right}[operator]
    if query.startswith("NEAR("):
        listed, far = query[5:-1].rsplit(", ", 1)
        phrases = re.findall(r'"[^"]*"\*?|\S+', listed)
        places = [find_occurrences(phrase, words) for phrase in phrases]

        def has_near_choice(
            occurrence_lists: Sequence[list[tuple[int, int]]], first_end: float, last_start: int
        ) -> bool:
            if not occurrence_lists:
                return last_start - first_end <= int(far)
            return any(
                has_near_choice(occurrence_lists[1:], min(first_end, end), max(last_start, start))
                for start, end in occurrence_lists[0]
            )

        return has_near_choice(places, float("inf"), -1)
    return bool(find_occurrences(query, words))


def find_occurrences(phrase: str, words: list[str]) -> list[tuple[int, int]]:
    exact, prefix = phrase.startswith('"'), phrase.endswith("*")
    phrase_words = re.findall("[東京]|[^\\W東京]+", phrase.lower().replace("é", "e"))

    def is_match(word: str, place: int) -> bool:
        if prefix and place == len(phrase_words) - 1:
            return word.startswith(phrase_words[place])
        return word == phrase_words[place] if exact else STEM(word) == STEM(phrase_words[place])

    size = len(phrase_words)
    return [
        (start, start + size)
        for start in range(len(words) - size + 1)
        if all(is_match(words[start + place], place) for place in range(size))
    ]


@pytest.fixture(scope="module")
def filled_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    with kvstore.open(tmp_path_factory.mktemp("queries") / "store", **OPTIONS) as store:
        yield store


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.lists(QUERIES, min_size=10, max_size=10))
def test_the_postings_agree_with_plain_evaluation(
    filled_store: kvstore.Store, texts: list[str], queries: list[str]
) -> None:
    with filled_store.transaction() as transaction:
        transaction.delete_many(filled_store.keys()[::2])
    with filled_store.transaction() as transaction:
        for number, text in enumerate(texts):
            transaction.put(str(number), text, title=texts[0][:20], meta={"text": text})
    stored = {document.key: document.text for document in map(filled_store.get, filled_store.keys()) if document}
    chunks = list(filled_store.execute("SELECT document, ordinal, text FROM chunks"))
    for query in queries:
        expected = sorted(key for key, text in stored.items() if is_text_match(query, text))
        with filled_store.state() as state:
            for condition, value in (("content MATCH ?", (query,)), ("NOT (content MATCH ?) IS NOT TRUE", (query,))):
                documents = filter_documents(state, condition, value).allowed.documents.tolist()
                assert sorted(map(state.documents.get_key, documents)) == expected, query
            others = filter_documents(state, "NOT content MATCH ?", (query,)).allowed.documents.tolist()
            assert sorted(map(state.documents.get_key, others)) == sorted(stored.keys() - expected), query
        assert sorted(filled_store.keys(where={"$content": {"$match": query}})) == expected
        assert sorted(filled_store.keys(where={"text": {"$match": query}})) == expected
        selected = filled_store.execute("SELECT document, ordinal FROM chunks WHERE text MATCH ?", (query,))
        assert sorted(map(tuple, selected)) == sorted((key, n) for key, n, text in chunks if is_text_match(query, text))
