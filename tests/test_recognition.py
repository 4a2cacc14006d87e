"""Occurrences of names in a text: recognition, the search for one name, and a slow model of the definition agree."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore.storage.environment import Environment
from kvstore.structures.filter.entity_filter import (
    EntityFilter,
    Matches,
    SearchKeys,
    find_occurrences,
    select_longest_matches,
)
from kvstore.text.normalize import FoldedText, fold, to_entity_key

SEED = 77
MOST_PUNCTUATION = 16

Place = tuple[int, int]


def is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def list_tokens(text: str) -> list[tuple[int, int, bool]]:
    """Return start and end in characters of every token, and True if it is a word."""
    tokens = []
    at = 0
    while at < len(text):
        start, at = at, at + 1
        if text[start].isspace():
            continue
        if is_word(text[start]):
            while at < len(text) and (is_word(text[at]) or unicodedata.category(text[at])[0] == "M"):
                at += 1
        tokens.append((start, at, is_word(text[start])))
    return tokens


def iter_candidates(text: str, max_words: int) -> Iterator[tuple[str, int, int]]:
    """Yield every candidate: its name and its place in bytes."""
    tokens = list_tokens(text)
    for first in range(len(tokens)):
        name, words, marks = "", 0, 0
        for last in range(first, len(tokens)):
            start, end, word = tokens[last]
            if last > first:
                gap = text[tokens[last - 1][1] : start]
                if gap.count("\n") > 1:
                    break
                name += " " if gap else ""
            name += text[start:end]
            words, marks = words + word, marks + (not word)
            if words > max_words or marks > MOST_PUNCTUATION:
                break
            yield name, len(text[: tokens[first][0]].encode()), len(text[:end].encode())


def list_places(matches: Matches) -> list[tuple[int, int, int]]:
    return list(zip(matches.start.tolist(), matches.end.tolist(), matches.entity.tolist(), strict=True))


characters = st.sampled_from("ab éя中_1.-'& \n\n\t\r\u0301\u0940\u200d\U000e0100𝒳😀\u2028\x1c\u0345ſ߀")
texts = st.lists(st.one_of(characters, st.sampled_from(["new york", "new", "york", "c++", " \n ", "\n\n", "a.b"]))).map(
    "".join
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    with Environment.open(tmp_path_factory.mktemp("recognition") / "store") as opened:
        yield opened


@settings(deadline=None, max_examples=num_examples(300))
@given(
    text=texts, others=st.lists(texts), picked=st.lists(st.integers(0, 10**6), max_size=12), max_words=st.integers(1, 5)
)
@example("new  york\n city", ["new york", "york\tcity", "city"], [], 2)
@example("new\n\nyork new\n york", ["new york"], [], 2)
@example("new new\tyork\u2028city \u00a0hall new york", ["new york", "york city", "city hall", "new york city"], [], 3)
@example("e\u0301", ["e"], [], 1)
@example("." * 40, ["." * 16, "." * 17], [], 1)
def test_recognition_and_search_agree_with_the_definition(
    environment: Environment, text: str, others: list[str], picked: list[int], max_words: int
) -> None:
    candidates = list(iter_candidates(text, max_words))
    # Names that occur, and names that may not.
    names = {" ".join(name.split()) for name in others}
    names |= {candidates[number % len(candidates)][0] for number in picked if candidates}
    numbers = {name: number for number, name in enumerate(sorted(names - {""}), 1)}
    data = text.encode()
    with environment.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert_many(list(numbers), list(numbers.values()))
        recognized = list_places(filter_.recognize(FoldedText(data, None), max_words))
        view.abort()
    expected = [(start, end, numbers[name]) for name, start, end in candidates if name in numbers]
    assert recognized == expected
    for name, number in numbers.items():
        here = [(start, end) for start, end, entity in expected if entity == number]
        assert find_occurrences(data, name.encode(), max_words) == here
        assert find_occurrences(data, name.encode()) == [
            (a, b) for n, a, b in iter_candidates(text, 10**6) if n == name
        ]
    sought = SearchKeys([name.encode() for name in numbers], max_words)
    together = sought.find_in_text(data, [number - 1 for number in numbers.values()])
    assert sorted((start, end, number + 1) for number, start, end in together) == expected


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))))
def test_the_longest_of_the_leftmost_matches_are_kept(given_places: list[tuple[int, int]]) -> None:
    ordered = sorted({(start, start + length) for start, length in given_places})
    expected: list[Place] = []
    for start in sorted({start for start, _ in ordered}):
        if not expected or start >= expected[-1][1]:
            expected.append((start, max(end for begin, end in ordered if begin == start)))
    matches = Matches(
        np.array([start for start, _ in ordered], np.int64),
        np.array([end for _, end in ordered], np.int64),
        np.arange(1, len(ordered) + 1, dtype=np.uint32),
    )
    selected = list_places(select_longest_matches(matches))
    assert [(start, end) for start, end, _ in selected] == expected
    assert [ordered[entity - 1] for _, _, entity in selected] == expected
    assert all(before[1] <= after[0] for before, after in pairwise(selected))


def test_a_real_sentence(environment: Environment) -> None:
    names = ["Ludwig van Beethoven", "Beethoven", "Vienna", "the Eroica", "Symphony No. 3", "C++", "van"]
    text = (
        "In Vienna, Ludwig  van\nBEETHOVEN wrote “Symphony No. 3” (the Eroica) — not in C++; Beethoven’s vans.\n\nVan"
    )
    folded = fold(text)
    with environment.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert_many([to_entity_key(name) for name in names], range(1, len(names) + 1))
        every = filter_.recognize(folded, 12)
        view.abort()
    original = text.encode()

    def list_matched_texts(matches: Matches) -> list[str]:
        return [
            original[slice(*folded.to_original_span(start, end))].decode()
            for start, end in zip(matches.start.tolist(), matches.end.tolist(), strict=True)
        ]

    assert list_matched_texts(every) == [
        "Vienna", "Ludwig  van\nBEETHOVEN", "van", "BEETHOVEN", "Symphony No. 3", "the Eroica", "C++",
        "Beethoven", "Van",
    ]  # fmt: skip
    assert list_matched_texts(select_longest_matches(every)) == [
        "Vienna", "Ludwig  van\nBEETHOVEN", "Symphony No. 3", "the Eroica", "C++", "Beethoven", "Van",
    ]  # fmt: skip


def test_long_texts_are_recognized_completely(environment: Environment) -> None:
    text = " ".join(f"word{number} known name {number}." for number in range(20_000))
    with environment.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert_many([f"name {number}" for number in range(0, 20_000, 2)], range(1, 10_001))
        matches = filter_.recognize(fold(text), 6)
        view.abort()
    assert matches.entity.tolist() == list(range(1, 10_001))
    assert [text[a:b] for a, b in zip(matches.start[:3], matches.end[:3], strict=True)] == [
        "name 0",
        "name 2",
        "name 4",
    ]


def test_bytes_that_are_no_utf8_are_passed_over(tmp_path: Path, environment: Environment) -> None:
    with environment.write() as view:
        filter_ = EntityFilter(view, hash_seed=SEED)
        filter_.insert("name", 1)
        for junk in (b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\x80\x80", b"\xc3"):
            assert list_places(filter_.recognize(FoldedText(junk + b" name " + junk, None), 3)) == [
                (len(junk) + 1, len(junk) + 5, 1)
            ]
        view.abort()
