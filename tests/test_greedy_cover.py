"""Summaries by the sentences that cover most of what a text says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kvstore.extraction.extraction import extract
from kvstore.settings import FixedSettings
from kvstore.text.greedy_cover import SentenceWords, compute_cover_weights, extract_sentence_words, select_greedy_cover

SETTINGS = FixedSettings(embedder="hashing:16", dimension=16, chunk_tokens=40, language="rules")

SENTENCES = st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=6), max_size=12).map(
    lambda drawn: [SentenceWords(words, len(words) + 1) for words in drawn]
)
WEIGHTS = st.dictionaries(st.sampled_from("abcdefghij"), st.floats(0, 10))


def select_by_rescoring(sentences: Sequence[SentenceWords], weights: Mapping[str, float], room: int) -> list[int]:
    """Return the same choice, with every sentence scored again at every step."""
    chosen: list[int] = []
    covered: Counter[str] = Counter()
    while True:
        gains = [
            (
                -math.fsum(weights.get(word, 0) * 0.1 ** covered[word] for word in set(sentence.words))
                / (4 + sentence.length),
                number,
            )
            for number, sentence in enumerate(sentences)
            if number not in chosen and 2 <= sentence.length <= room
        ]
        if not gains or min(gains)[0] >= 0:
            return chosen
        chosen.append(min(gains)[1])
        covered.update(set(sentences[chosen[-1]].words))
        room -= sentences[chosen[-1]].length


@given(SENTENCES, WEIGHTS, st.integers(0, 30))
def test_the_choice_is_the_greedy_one(sentences: list[SentenceWords], weights: dict[str, float], room: int) -> None:
    assert select_greedy_cover(sentences, weights, room) == select_by_rescoring(sentences, weights, room)


@given(SENTENCES, WEIGHTS, st.integers(0, 30), st.integers(0, 4), st.data())
def test_no_limit_is_passed(
    sentences: list[SentenceWords], weights: dict[str, float], room: int, most: int, data: st.DataObject
) -> None:
    documents = data.draw(st.lists(st.integers(0, 2), min_size=len(sentences), max_size=len(sentences)))
    chosen = select_greedy_cover(sentences, weights, room, max_sentences=most, documents=documents, max_per_document=2)
    assert len(set(chosen)) == len(chosen) <= most
    assert sum(sentences[number].length for number in chosen) <= room
    assert max(Counter(documents[number] for number in chosen).values(), default=0) <= 2


def test_a_word_counts_if_it_is_rare_and_repeated() -> None:
    sentences = [extract_sentence_words(text) for text in ("The heron fishes.", "A heron flies.", "The pond is near.")]
    weights = compute_cover_weights(sentences, {"heron": 1, "fishes": 1, "flies": 1, "pond": 4, "near": 1}, 4)
    assert weights["heron"] > weights["fishes"] > weights["pond"]


def test_informative_words_are_found_in_any_script() -> None:
    assert extract_sentence_words("It is what the heron would have done, no?").words == ["heron", "done"]
    assert extract_sentence_words("東京タワーは高い。") == SentenceWords(list("東京タワーは高い"), 8)


def list_summaries(text: str) -> list[str]:
    tree = extract("k", text, SETTINGS).tree
    assert tree is not None
    data = text.encode()
    return [" ".join(data[start:end].decode() for start, end in sorted(node.summary)) for node in tree.nodes]


def test_the_summary_of_a_document_covers_all_of_it_and_repeats_nothing() -> None:
    subjects = ["herons", "glaciers", "turbines", "violins", "orchards"]
    text = "\n\n".join(
        f"Everybody agreed and nodded. This part praises {subject}. Later {subject} were praised again. So they were. "
        + "Well, as I was saying, and as you know, it went on and on like this for hours. " * 8
        for subject in subjects
    )
    root = list_summaries(text)[-1]
    assert [subject for subject in subjects if subject not in root] == []
    assert root.count("Well, as I was saying") <= 1
    assert len(root.split()) <= 60


def test_a_short_text_is_its_own_summary() -> None:
    assert list_summaries("Tea is made from leaves. It is hot.") == ["Tea is made from leaves. It is hot."]


def test_uninformative_words_still_have_a_summary() -> None:
    assert list_summaries("So it is. " * 40)[-1] == "So it is."


def test_fields_with_values_are_used_only_if_there_is_no_sentence() -> None:
    record, statement = (
        "child: Delcourt Lens parent: Lamp Room",
        "The lamp room holds the lens that Delcourt ground in Lyon.",
    )
    sentences = [extract_sentence_words(record), extract_sentence_words(statement)]
    weights = compute_cover_weights(
        sentences, Counter(word for sentence in sentences for word in set(sentence.words)), 2
    )
    assert select_greedy_cover(sentences, weights, 14) == [1]
    assert select_greedy_cover(sentences[:1], weights, 14) == [0]
