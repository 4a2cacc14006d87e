"""The tokenizer of the default embedder and of the answer reader, compared with the library ``tokenizers``."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore.models import wordpiece_tokenizer
from kvstore.models.packaged_embedder import WEIGHTS_FOLDER
from kvstore.models.wordpiece_tokenizer import WordPieceTokenizer

tokenizers = pytest.importorskip("tokenizers")

DESCRIPTION: dict[str, Any] = json.loads((WEIGHTS_FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
PAIR_DESCRIPTION = DESCRIPTION | {
    "truncation": DESCRIPTION["truncation"] | {"max_length": 160, "strategy": "OnlySecond"}
}
OWN, OWN_PAIRS = WordPieceTokenizer(DESCRIPTION), WordPieceTokenizer(PAIR_DESCRIPTION)
LIBRARY = tokenizers.Tokenizer.from_str(json.dumps(DESCRIPTION))
LIBRARY_PAIRS = tokenizers.Tokenizer.from_str(json.dumps(PAIR_DESCRIPTION))

CODES = (*range(0xD800), *range(0xE000, 0x110000))
#: Marks that the library moves behind others without moving their offsets: Hangul tones and stems of musical notes.
MOVED_MARKS = "".join(
    chr(code) for code in range(0x300, 0x20000) if unicodedata.combining(chr(code)) and OWN._characters[code]
)

CHARACTERS = st.one_of(
    st.characters(exclude_categories=["Cs"], exclude_characters=MOVED_MARKS),
    st.characters(max_codepoint=0x7F),
    st.characters(categories=["Mn", "Mc", "Cf", "Zs", "P"], exclude_characters=MOVED_MARKS),
    st.characters(min_codepoint=0xA0, max_codepoint=0x52F, exclude_characters=MOVED_MARKS),
    st.sampled_from(
        "\u4e00\u3400\U00020000\ufa0e\U0002f800\ud55c\u1100\u200d\ufe0f\U0001f468\u0130\u03a3\u00df\ufb01\u0344"
    ),
)
TEXTS = st.lists(
    st.one_of(
        st.text(CHARACTERS, max_size=12),
        st.sampled_from(
            [" ", "[SEP]", "[UNK]", "[[MASK]", "[cls]", "a" * 100, "b" * 101, "unaffable", "\U0001f468\u200d\U0001f469"]
        ),
    ),
    max_size=12,
).map("".join)


@given(TEXTS)
def test_the_tokens_of_a_text_are_those_of_the_library(text: str) -> None:
    assert OWN.encode(text) == LIBRARY.encode(text).ids


@given(TEXTS, TEXTS)
def test_the_offsets_of_a_pair_are_those_of_the_library(first: str, second: str) -> None:
    try:
        expected = LIBRARY_PAIRS.encode(first, second)
    except Exception:  # the first text leaves no room for the second
        assert len(OWN_PAIRS.encode_pair(first, second).ids) == 160
        return
    tokens = OWN_PAIRS.encode_pair(first, second)
    assert (tokens.ids, tokens.type_ids, tokens.offsets) == (expected.ids, expected.type_ids, expected.offsets)


@pytest.mark.slow
def test_every_character_is_treated_as_by_the_library() -> None:
    for first in range(0, len(CODES), 10_000):
        texts = [f"a{chr(code)}b {chr(code)}" for code in CODES[first : first + 10_000]]
        assert list(map(OWN.encode, texts)) == [encoding.ids for encoding in LIBRARY.encode_batch_fast(texts)]


def test_texts_are_truncated_as_by_the_library() -> None:
    long = "unaffable " * 400
    assert OWN.encode(long) == LIBRARY.encode(long).ids
    expected = LIBRARY_PAIRS.encode("Which words?", long)
    assert OWN_PAIRS.encode_pair("Which words?", long) == (expected.ids, expected.type_ids, expected.offsets)


@pytest.fixture
def damaged_characters(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    file = tmp_path / "characters.json"
    file.write_bytes(wordpiece_tokenizer.CHARACTERS_FILE.read_bytes().replace(b"1", b"2", 1))
    monkeypatch.setattr(wordpiece_tokenizer, "CHARACTERS_FILE", file)
    yield


def test_a_damaged_table_of_characters_is_refused(damaged_characters: None) -> None:
    with pytest.raises(ValueError, match="damaged"):
        WordPieceTokenizer(DESCRIPTION)


@pytest.mark.parametrize("part", ["model", "truncation", "added_tokens"])
def test_an_incomplete_description_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="incomplete"):
        WordPieceTokenizer({key: value for key, value in DESCRIPTION.items() if key != part})


def test_another_tokenizer_is_refused() -> None:
    cased = DESCRIPTION | {"normalizer": DESCRIPTION["normalizer"] | {"lowercase": False}}
    with pytest.raises(ValueError, match="uncased"):
        WordPieceTokenizer(cased)
