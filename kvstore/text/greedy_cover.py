"""Summaries without a language model: sentences that together have most of the words a text is about.

In: sentences, by their words and lengths, and what each word weighs. Out: which of them to take within a length. The
one taken next is always that whose words weigh most for its length, and a word weighs little once it has been taken.
What a sentence adds never grows by taking others, so the greedy choice has a fixed share of what the best one has
(Nemhauser, Wolsey and Fisher 1978; for summaries Takamura and Okumura 2009, Lin and Bilmes 2011), and a sentence need
be weighed again only when its turn comes (Minoux 1978).
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from .words import FUNCTION_WORDS, UNSPACED_RANGES, segment_words

#: Words of fewer letters are passed over, but in writing without spaces, where a character is a word.
_MIN_WORD_LENGTH = 4
_UNSPACED_PATTERN = re.compile(f"[{UNSPACED_RANGES}]")
#: What a word weighs that occurs once, as a share: nothing else in the text is about it.
_SINGLE_USE_SHARE = 0.3
#: What is left of a word's weight each time that a sentence with it is taken.
_REPEAT_FACTOR = 0.1
#: Fields with values, and what a sentence of them counts: it is taken where there are no others.
_RECORD_PATTERN = re.compile(r"\w[\w-]*: \S.*?\s\w[\w-]*: \S", re.DOTALL)
_RECORD_SHARE = 0.1
#: Words that a sentence costs beside its own, lest the shortest are always the best buy; and the fewest that it has: a
#: word alone says nothing.
_BASE_COST = 4
_MIN_WORDS = 2


class SentenceWords(NamedTuple):
    """A sentence to choose: those of its words that a summary should have, as often as they occur, its length in
    words, and what it counts, as a share of what one of running text does."""

    words: Sequence[str]
    length: int
    share: float = 1.0


def extract_sentence_words(text: str) -> SentenceWords:
    """The words of a sentence.

    >>> extract_sentence_words("The Moon is about as old as the Earth.")
    SentenceWords(words=['moon', 'earth'], length=9, share=1.0)
    """
    all_words = segment_words(text)
    is_unspaced = not text.isascii() and _UNSPACED_PATTERN.search(text) is not None
    content_words = [
        word
        for word in all_words
        if (len(word) >= _MIN_WORD_LENGTH and word not in FUNCTION_WORDS)
        or (is_unspaced and _UNSPACED_PATTERN.match(word))
    ]
    return SentenceWords(
        content_words, len(all_words) if is_unspaced else len(text.split()), _RECORD_SHARE if _is_record(text) else 1.0
    )


def count_sentence_words(text: str) -> int:
    """The length of a sentence in words, as :func:`extract_sentence_words` gives it."""
    if not text.isascii() and _UNSPACED_PATTERN.search(text) is not None:
        return len(segment_words(text))
    return len(text.split())


def _is_record(text: str) -> bool:
    """Whether it is fields with their values, such as a row of a table has, and no sentence.

    >>> _is_record("child: Pellow Buoy\\nparent: South District"), _is_record("Note: it is late.")
    (True, False)
    """
    return _RECORD_PATTERN.match(text) is not None and not text.rstrip().endswith((".", "!", "?"))


def compute_cover_weights(
    sentences: Iterable[SentenceWords], part_counts: Mapping[str, int], num_parts: int
) -> dict[str, float]:
    """What each word of some sentences weighs: more the more often it occurs in them, and the fewer of all ``num_parts`` of
    the whole have it (``spread``)."""
    counts = Counter(chain.from_iterable(sentence.words for sentence in sentences))
    return {word: _compute_weight(count, num_parts, part_counts[word]) for word, count in counts.items()}


@lru_cache(maxsize=1 << 10)  # most words are as frequent as many others
def _compute_weight(count: int, num_parts: int, part_count: int) -> float:
    return math.sqrt(count) * math.log1p(num_parts / part_count) * (_SINGLE_USE_SHARE if count == 1 else 1.0)


def select_greedy_cover(
    sentences: Sequence[SentenceWords],
    weights: Mapping[str, float],
    capacity: int,
    *,
    sizes: Sequence[int] = (),
    max_sentences: int | None = None,
    owners: Sequence[Hashable] = (),
    max_per_owner: int | None = None,
) -> list[int]:
    """The numbers of the sentences to take, the best first: at most ``capacity`` words and ``max_sentences`` sentences.

    Where ``sizes`` say what each takes of the room, that is not counted in words. A word without a weight counts
    nothing. Where ``owners`` say whose each sentence is, at most ``max_per_owner`` of the
    same owner are taken. What is too long for the room that is left is passed over, and a sentence that adds nothing is
    not taken. Of equals the earlier one comes first.
    """
    weighted_words = [
        [(word, weight) for word in set(sentence.words) if (weight := weights.get(word))] for sentence in sentences
    ]
    word_counts: Counter[str] = Counter()
    owner_counts: Counter[Hashable] = Counter()

    def compute_gain(number: int) -> float:
        # Added exactly: a set has no order, and the same text always gets the same summary.
        added = math.fsum(
            [
                weight * _REPEAT_FACTOR ** word_counts[word] if word in word_counts else weight
                for word, weight in weighted_words[number]
            ]
        )
        return sentences[number].share * added / (_BASE_COST + sentences[number].length)

    costs = sizes or [sentence.length for sentence in sentences]
    heap = [
        (-compute_gain(number), number)
        for number, (sentence, size) in enumerate(zip(sentences, costs, strict=True))
        if sentence.length >= _MIN_WORDS and size <= capacity
    ]
    heapq.heapify(heap)
    selected: list[int] = []
    while heap and len(selected) != max_sentences:
        _, number = heapq.heappop(heap)
        if costs[number] > capacity or (owners and owner_counts[owners[number]] == max_per_owner):
            continue
        entry = (-compute_gain(number), number)
        if entry[0] >= 0:
            continue
        if heap and entry > heap[0]:
            heapq.heappush(heap, entry)
            continue
        word_counts.update(word for word, _ in weighted_words[number])
        selected.append(number)
        capacity -= costs[number]
        if owners:
            owner_counts[owners[number]] += 1
    return selected
