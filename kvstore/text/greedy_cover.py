"""Extractive summaries: a *cover* is sentences that together contain most of the words a text is about. A word has a
weight (TF-IDF). The *gain* of a sentence is the weight of its words that the selected sentences lack, for its length.
The sentence with the highest gain is selected next.

In: sentences, by their words and lengths, and the weight of each word. Out: the sentences to take within a length.
Words of selected sentences count little. The gain of a sentence never grows as others are selected, so the greedy
choice reaches a fixed share of the optimum (Nemhauser, Wolsey and Fisher 1978; for summaries Takamura and Okumura 2009,
Lin and Bilmes 2011), and the gain of a sentence is recomputed only when it is the best candidate (Minoux 1978).
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

from kvstore_cext.words import find_words

from .normalize import fold_text
from .patterns import compile_lazily
from .words import FUNCTION_WORDS, UNSPACED_RANGES, segment_words

#: Words with fewer letters are ignored, except in writing without spaces, where a character is a word.
_MIN_WORD_LENGTH = 4
_UNSPACED_PATTERN = compile_lazily(f"[{UNSPACED_RANGES}]")
#: The factor of the weight of a word that occurs only once: nothing else in the text is about it.
_SINGLE_USE_FACTOR = 0.3
#: The fraction of a word's weight that remains each time a sentence with it is taken.
_REPEAT_FACTOR = 0.1
#: A record of fields with values, and the factor of its gain, so that it is selected after all real sentences.
_RECORD_PATTERN = compile_lazily(r"\w[\w-]*: \S.*?\s\w[\w-]*: \S", re.DOTALL)
_RECORD_FACTOR = 0.1
#: The cost of a sentence in words beyond its own, so that the shortest are not always best; and the minimum number of
#: its words, because a word alone says nothing.
_BASE_COST = 4
_MIN_WORDS = 2


class SentenceWords(NamedTuple):
    """A candidate sentence: its content words (repeated as they occur), and its length in words.

    ``gain_factor`` multiplies its gain: 1 for running text, and less for a record of fields with values.
    """

    words: Sequence[str]
    length: int
    gain_factor: float = 1.0


def extract_sentence_words(text: str) -> SentenceWords:
    """Return the content words of a sentence in order, its length in words, and its gain factor.

    The factor is 1 for running text, and less for a record of fields with values.

    >>> extract_sentence_words("The Moon is about as old as the Earth.")
    SentenceWords(words=['moon', 'earth'], length=9, gain_factor=1.0)
    """
    folded, is_unspaced = fold_text(text), not text.isascii() and _UNSPACED_PATTERN.search(text) is not None
    content_words = [
        word
        for word in find_words(folded, _MIN_WORD_LENGTH)
        # A shorter word is a single character of a script without spaces.
        if word not in FUNCTION_WORDS and (is_unspaced or len(word) >= _MIN_WORD_LENGTH)
    ]
    length = len(find_words(folded)) if is_unspaced else len(text.split())
    return SentenceWords(content_words, length, _RECORD_FACTOR if _is_record(text) else 1.0)


def count_sentence_words(text: str) -> int:
    """Return the length of a sentence in words; in a script without spaces, each character is a word."""
    if not text.isascii() and _UNSPACED_PATTERN.search(text) is not None:
        return len(segment_words(text))
    return len(text.split())


def _is_record(text: str) -> bool:
    """True if a text is a record of fields with values, such as a table row, and not a sentence.

    >>> _is_record("child: Pellow Buoy\\nparent: South District"), _is_record("Note: it is late.")
    (True, False)
    """
    return _RECORD_PATTERN.match(text) is not None and not text.rstrip().endswith((".", "!", "?"))


def compute_cover_weights(
    sentences: Iterable[SentenceWords], part_frequencies: Mapping[str, int], num_parts: int
) -> dict[str, float]:
    """Return the TF-IDF weight of each word of some sentences of a text, by word.

    The parts of the text, such as its chunks, take the place of the documents in IDF: ``part_frequencies`` has, for
    each word, the number of parts that contain it, out of ``num_parts``.
    """
    counts = Counter(chain.from_iterable(sentence.words for sentence in sentences))
    return {word: _compute_weight(count, num_parts, part_frequencies[word]) for word, count in counts.items()}


@lru_cache(maxsize=1 << 10)  # many words have the same frequency
def _compute_weight(term_frequency: int, num_parts: int, part_frequency: int) -> float:
    """Return the TF-IDF weight of a word that occurs ``term_frequency`` times in the sentences.

    It occurs in ``part_frequency`` of the ``num_parts`` parts of the text. A word that occurs once weighs less.
    """
    single_use_factor = _SINGLE_USE_FACTOR if term_frequency == 1 else 1.0
    return math.sqrt(term_frequency) * math.log1p(num_parts / part_frequency) * single_use_factor


def select_greedy_cover(
    sentences: Sequence[SentenceWords],
    weights: Mapping[str, float],
    capacity: int,
    *,
    sizes: Sequence[int] = (),
    max_sentences: int | None = None,
    documents: Sequence[Hashable] = (),
    max_per_document: int | None = None,
) -> list[int]:
    """Select sentences that together cover the most word weight, greedily; return their indexes in order of selection.

    They have at most ``capacity`` words in total or, with ``sizes`` (one for each sentence), sizes that sum to at most
    ``capacity``. At most ``max_sentences`` are selected and, with ``documents`` (the document of each sentence), at
    most ``max_per_document`` from the same document; None means no limit. Words without a weight are ignored. Sentences
    of fewer than two words, those that exceed the remaining capacity, and those that add no weight are skipped. Ties go
    to the earlier sentence.
    """
    # The distinct words of each sentence that have a weight, with their weights.
    weighted_words = [
        [(word, weight) for word in set(sentence.words) if (weight := weights.get(word))] for sentence in sentences
    ]
    word_counts: dict[str, int] = {}
    document_counts: Counter[Hashable] = Counter()

    def compute_gain(index: int) -> float:
        """Return the word weight that a sentence adds to the sentences selected so far, relative to its length."""
        # Added exactly, because a set has no order, and the same text must always get the same summary.
        gain = math.fsum(
            [
                weight * _REPEAT_FACTOR ** word_counts[word] if word in word_counts else weight
                for word, weight in weighted_words[index]
            ]
        )
        return sentences[index].gain_factor * gain / (_BASE_COST + sentences[index].length)

    costs = sizes or [sentence.length for sentence in sentences]
    heap = [
        (-compute_gain(index), index)
        for index, (sentence, size) in enumerate(zip(sentences, costs, strict=True))
        if sentence.length >= _MIN_WORDS and size <= capacity
    ]
    heapq.heapify(heap)
    selected_indexes: list[int] = []
    while heap and len(selected_indexes) != max_sentences:
        negative_gain, index = heapq.heappop(heap)
        if costs[index] > capacity or (documents and document_counts[documents[index]] == max_per_document):
            continue
        # A gain in the heap can be outdated, and gains never grow: recompute it, and push the sentence back if it is
        # no longer the best.
        if selected_indexes:
            negative_gain = -compute_gain(index)
        if negative_gain >= 0:
            continue
        if heap and (negative_gain, index) > heap[0]:
            heapq.heappush(heap, (negative_gain, index))
            continue
        for word, _ in weighted_words[index]:  # each word once
            word_counts[word] = word_counts.get(word, 0) + 1
        selected_indexes.append(index)
        capacity -= costs[index]
        if documents:
            document_counts[documents[index]] += 1
    return selected_indexes
