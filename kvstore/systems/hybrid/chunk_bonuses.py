"""The bonuses of a chunk in hybrid search: for question words that are close together or in headings, for sections and
list items that the question names (*entries*), and for its *reference numbers*, such as an invoice number. A *term* is
a stemmed word; its *rarity* is its IDF weight.

In: a question, the rarities of its terms, and a chunk with its headings and text. Out: a :class:`Bonuses`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from ...retrieval.evidence import LoadedChunk
from ...retrieval.query import Query
from ...text.blocks import find_entry_terms, strip_numbering
from ...text.normalize import fold_text
from ...text.words import (
    count_chunk_terms,
    count_heading_terms,
    count_text_terms,
    find_reference_numbers,
    get_informative_terms,
    is_unspaced,
    list_content_words,
    list_terms,
)

#: Characters of an average word with the space before it, and the greatest distance of two words, in words.
_WORD_LENGTH = 6
_MAX_WORD_DISTANCE = 8
#: The maximum number of first letters that a word of a text must share with a term to be stemmed and compared.
_MAX_PREFIX = 3


class Bonuses(NamedTuple):
    """The bonuses of a chunk before weighting, each from 0 to 1.

    ``proximity`` is how near the question's words are to each other in the text. ``headings`` is the fraction of them,
    weighted by rarity, in the title or headings. ``entries`` is the best match of the name of a section or list item
    that begins in the chunk. ``numbers`` is the fraction of the question's reference numbers that the chunk contains.
    """

    proximity: float
    headings: float
    entries: float
    numbers: float


class BonusScorer:
    """Computes the bonuses of chunks for one question."""

    def __init__(self, query: Query, rarities: Mapping[str, float]) -> None:
        """Create a scorer for the words and numbers of a question; ``rarities`` are the IDF weights of its terms.

        The weight of two content words that are adjacent in the question is the sum of their rarities.
        """
        self._stem = query.stem
        self._rarities = rarities
        self._total_rarity = math.fsum(rarities.values()) or 1.0  # not 0, because it is a divisor
        terms = list(map(self._stem, list_content_words(query.question, stem=self._stem)))
        self._pair_weights = {
            (first, second): rarities[first] + rarities[second]
            for first, second in pairwise(terms)
            if first != second and first in rarities and second in rarities
        }
        self._pairs_by_term: dict[str, list[tuple[str, str]]] = {}
        for pair in self._pair_weights:
            for term in pair:
                self._pairs_by_term.setdefault(term, []).append(pair)
        self._word_pattern = _compile_word_pattern(self._pairs_by_term)
        # Words that any question can contain identify nothing.
        generic_terms = set(list_terms(query.question, self._stem))
        generic_terms -= get_informative_terms(query.question, self._stem)
        # If the question has no other words, all of its words count.
        self._informative_rarities = {
            term: rarity for term, rarity in rarities.items() if term not in generic_terms
        } or rarities
        self._total_informative_rarity = math.fsum(self._informative_rarities.values()) or 1.0  # also a divisor
        self.numbers = frozenset(find_reference_numbers(query.question))

    def compute_bonuses(self, chunk: LoadedChunk) -> Bonuses:
        """Return the bonuses of a chunk for its matches with the question, each from 0 to 1.

        They reward question words that are close together or in headings, and reference numbers of the question. They
        also reward question words in the names of sections and list items that begin in the chunk. If the document has
        no title, its file name is used.
        """
        name = chunk.document.title or PurePosixPath(chunk.document.key).stem
        heading_terms = count_heading_terms((name, *chunk.headings), self._stem)
        heading_fraction = (
            math.fsum(rarity for term, rarity in self._rarities.items() if term in heading_terms) / self._total_rarity
        )
        entry_names = [*map(strip_numbering, chunk.starting_titles), *find_entry_terms(chunk.text)]
        if not chunk.record.start and not chunk.document.title:  # the document begins in the chunk
            entry_names.append(name)
        entry_score = max(map(self._score_name, entry_names), default=0.0)
        number_fraction = 0.0
        if self.numbers:
            text_numbers = find_reference_numbers(" ".join((name, *chunk.headings, chunk.text)))
            number_fraction = len(self.numbers.intersection(text_numbers)) / len(self.numbers)
        return Bonuses(self._compute_proximity(chunk.text), heading_fraction, entry_score, number_fraction)

    def _score_name(self, name: str) -> float:
        """Return how well the name of a section, or of an item of a list, matches the question, from 0 to 1.

        It is the product of two factors: the rarity-weighted fraction of the question's informative words in the name,
        and the square root of the fraction of the name's content words in the question.
        """
        terms = count_text_terms(name, self._stem, technical=True)
        matched_rarity = math.fsum(rarity for term, rarity in self._informative_rarities.items() if term in terms)
        if not matched_rarity:
            return 0.0
        question_fraction = matched_rarity / self._total_informative_rarity
        # list_content_words does not stem its words. It needs the stemmer for scripts without spaces only.
        words = list(map(self._stem, list_content_words(name, stem=self._stem)))
        shared_words = [word for word in words if word in self._rarities]
        return question_fraction * math.sqrt(len(shared_words) / len(words)) if words else 0.0

    def compute_coverage(self, chunk: LoadedChunk) -> float:
        """Return the fraction of the question's terms (stemmed words) that a chunk contains, by rarity, 0 to 1."""
        terms = count_chunk_terms(chunk.document.title, chunk.headings, chunk.text, self._stem)
        return math.fsum(rarity for term, rarity in self._rarities.items() if term in terms) / self._total_rarity

    def _compute_proximity(self, text: str) -> float:
        """Return how close together the words of the pairs occur in a text, from 0 to 1 (all adjacent and in order).

        Each pair counts by its weight and its closest occurrence within :data:`_MAX_WORD_DISTANCE` words.
        """
        if self._word_pattern is None:
            return 0.0
        pair_scores: dict[tuple[str, str], float] = {}
        last_ends: dict[str, int] = {}  # the end of the last occurrence of each term so far
        for match in self._word_pattern.finditer(fold_text(text)):
            group = match.lastindex or 0  # the pattern of overlapping bigrams has a group
            term = self._stem(match.group(group))
            for pair in self._pairs_by_term.get(term, ()):
                first, second = pair
                is_in_order = second == term
                end = last_ends.get(first if is_in_order else second)
                if end is None:
                    continue
                distance = 1 + max(0, match.start(group) - end - 1) / _WORD_LENGTH  # in words; 1 if adjacent
                if distance <= _MAX_WORD_DISTANCE:
                    # Words in the order of the question count more than in the reverse order.
                    score = self._pair_weights[pair] / (distance if is_in_order else 1 + distance)
                    pair_scores[pair] = max(pair_scores.get(pair, 0.0), score)
            last_ends[term] = match.end(group)
        return math.fsum(pair_scores.values()) / math.fsum(self._pair_weights.values())


def _compile_word_pattern(terms: Collection[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds the words of a text that can have one of ``terms``; None if there are no terms.

    A match has a group with the word only if the script has no spaces. Other words are found by the first letters of
    the terms, so that only few words of a text are stemmed.
    """
    if not terms:
        return None
    if any(map(is_unspaced, terms)):
        # Terms of scripts without spaces are pairs of characters, which overlap; a lookahead finds all of them.
        return re.compile(rf"(?=({'|'.join(sorted(map(re.escape, terms)))}))")
    # The last letter of a term is ignored, because it can differ from the word's: "fly" and "flies" have one term.
    prefixes = {re.escape(term[: max(1, min(_MAX_PREFIX, len(term) - 1))]) for term in terms}
    return re.compile(rf"(?<!\w)(?:{'|'.join(sorted(prefixes))})\w*")
