"""The informative terms of a question, and how rare they are in a store. A *term* is the stem of a word; its *rarity*
is its IDF. A *bigram* is two adjacent characters of writing without spaces.

In: a question and a state of the store. Out: the rarity of each term, and :class:`QuestionTerms`, which measures how
much of the question the best passage covers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from ..retrieval.lexical_search import compute_term_rarity
from ..retrieval.query import Query
from ..structures.state import State
from ..text.patterns import compile_lazily
from ..text.question_words import load_question_words
from ..text.segmenters import Segmenter
from ..text.words import (
    WORD_PATTERN,
    QuestionStemmer,
    get_function_words,
    is_bigram,
    list_content_terms,
    list_content_words,
    list_informative_words,
    list_search_words,
)
from .question_form import find_topic
from .question_names import QuestionName, drop_crossing_bigrams, find_question_names

#: The length of a window of a passage in words, without function words.
_MAX_WINDOW_WORDS = 25
#: An abbreviation without vowels, such as "dvd", whose plural has another stem.
_ABBREVIATION_PATTERN = compile_lazily(r"[b-df-hj-np-tv-xz]{2,}")
#: Words of a question that only say what kind of quantity it asks for.
_HOW_MUCH_PATTERN = compile_lazily(
    r"\bhow (?:long|many|much|old|often|far|large|big|tall|high|fast|deep|wide)\b", re.IGNORECASE
)
#: The number of chunks from other texts assumed in addition to the store's, to smooth the rarity of terms.
_BACKGROUND_CHUNKS = 1000


def compute_question_rarities(
    question: str, state: State, language: str | None, stem: Callable[[str], str]
) -> dict[str, float]:
    """Return the rarity in the store of each content term of a question.

    ``language`` is the language of the question (None: English), and ``stem`` its stemming function. Words that only
    say what is asked for ("how long") are omitted, unless there are no others. Rarities are smoothed by adding
    ``_BACKGROUND_CHUNKS`` chunks from other texts: in a store of ten chunks, a word in five of them is not necessarily
    common.
    """
    chunks = state.counters.chunks + _BACKGROUND_CHUNKS
    subject = _strip_question_words(question, language)
    subject = subject if WORD_PATTERN.search(subject) else question
    # The given language is used, because the rest of the question can be too short to show its language.
    is_english = language in (None, "english")
    words = [] if is_english else list_content_words(subject, get_function_words(language), stem)
    terms = sorted(set(map(stem, words) if words else list_content_terms(subject, stem)))
    counts = _count_chunks(question, terms, state, stem)
    return {term: compute_term_rarity(chunks, counts[term]) for term in terms}


def _strip_question_words(question: str, language: str | None) -> str:
    """Return the topic of a question, or the question if it has none, without words that ask, such as "how long".

    ``language`` is the language of the question (None: English).
    """
    subject = find_topic(question) or question
    vocabulary = load_question_words(language)  # None for English
    if vocabulary is not None:
        subject = vocabulary.remove_interrogatives(subject)
    return _HOW_MUCH_PATTERN.sub(" ", subject)


def _count_chunks(question: str, terms: Iterable[str], state: State, stem: Callable[[str], str]) -> dict[str, int]:
    """Return about how many chunks have each of the ``terms`` of a question.

    The number is a sum over the variants of a term: the stems of its word in each language of the documents, and the
    plural of an abbreviation. A chunk with several variants counts several times, which is rare.
    """
    variants: dict[str, list[str]] = {}
    if isinstance(stem, QuestionStemmer):  # the documents have several languages
        variants = {stem(word): stem.list_variants(word) for word in list_search_words(question, stem)}
    forms_by_term: dict[str, list[str]] = {}
    for term in terms:
        forms = variants.get(term, [term])
        plurals = [f"{form}s" for form in forms if _ABBREVIATION_PATTERN.fullmatch(form)]
        forms_by_term[term] = [*forms, *plurals]
    counts = state.postings.count_chunks_by_term(list(chain.from_iterable(forms_by_term.values())))
    return {term: sum(counts[form] for form in forms) for term, forms in forms_by_term.items()}


class QuestionTerms(NamedTuple):
    """A question prepared for comparison with passages: its informative terms with their ``rarities``.

    ``pairs`` maps consecutive terms to the lower rarity of the two. ``names`` maps its names to the total rarity of
    their terms. ``total_rarity`` is the sum of ``rarities``, or 1 without terms, and ``max_rarity`` the rarity of a
    term that almost no chunk has. ``missing_fraction`` is the fraction of the terms, by rarity, that no chunk has, and
    ``unknown_names`` are the names with such a term. ``stem`` stems words.
    """

    rarities: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    names: Mapping[QuestionName, float]
    total_rarity: float
    max_rarity: float
    missing_fraction: float
    unknown_names: tuple[str, ...]
    stem: Callable[[str], str]

    @classmethod
    def from_question(cls, query: Query, language: str | None) -> QuestionTerms:
        """Parse the question of a query in a language (None: English), and look up how rare its terms are in the store.

        The rarity of a pair of consecutive terms is the lower of their rarities, and the rarity of a name is the sum of
        the rarities of its words. A name is unknown, and a term is missing, if no chunk of the store has it.
        """
        question, state, stem = query.question, query.state, query.stem
        function_words = get_function_words(language)
        consecutive_terms = _list_consecutive_terms(query, language)
        question_terms = sorted(set(consecutive_terms or list_content_terms(question, stem)))
        name_terms = {
            name: [stem(word) for word in name.words if word not in function_words]
            for name in find_question_names(question, language)
        }
        counts = _count_chunks(question, chain(question_terms, *name_terms.values()), state, stem)
        chunks = state.counters.chunks + _BACKGROUND_CHUNKS
        term_rarities = {term: compute_term_rarity(chunks, count) for term, count in counts.items()}
        rarities = {term: term_rarities[term] * _compute_size_in_words(term, stem) for term in question_terms}
        total_rarity = math.fsum(rarities.values()) or 1.0  # not 0, because it is a divisor
        missing_rarity = math.fsum(rarity for term, rarity in rarities.items() if not counts[term])
        return cls(
            rarities,
            pairs={pair: min(rarities[term] for term in pair) for pair in sorted(set(pairwise(consecutive_terms)))},
            names={name: math.fsum(term_rarities[term] for term in terms) for name, terms in name_terms.items()},
            total_rarity=total_rarity,
            max_rarity=math.log(chunks),
            missing_fraction=missing_rarity / total_rarity,
            unknown_names=tuple(
                name.text for name, terms in name_terms.items() if not all(counts[term] for term in terms)
            ),
            stem=stem,
        )

    def compute_coverage(self, terms: Sequence[str]) -> float:
        """Return the rarity of the question's terms in the best window of a passage, divided by ``total_rarity``.

        ``terms`` are the terms of the passage in order. A window is consecutive terms of at most ``_MAX_WINDOW_WORDS``
        words.
        """
        word_offsets = accumulate(_compute_size_in_words(term, self.stem) for term in terms)
        matches = [(offset, term) for offset, term in zip(word_offsets, terms, strict=True) if term in self.rarities]
        max_covered_rarity, first, covered_rarity = 0.0, 0, 0.0
        counts = dict.fromkeys(self.rarities, 0)  # of the matches in the window
        for offset, term in matches:
            covered_rarity += 0 if counts[term] else self.rarities[term]
            counts[term] += 1
            while offset - matches[first][0] > _MAX_WINDOW_WORDS:  # move the start of the window
                _, first_term = matches[first]
                counts[first_term] -= 1
                covered_rarity -= 0 if counts[first_term] else self.rarities[first_term]
                first += 1
            max_covered_rarity = max(max_covered_rarity, covered_rarity)
        return min(1.0, max_covered_rarity / self.total_rarity)

    def compute_signals(
        self, passage_terms: Sequence[Sequence[str]], coverage: float, missing_names: Sequence[QuestionName]
    ) -> dict[str, float]:
        """Return the signals of a :class:`Confidence` that need no vectors, by name.

        ``passage_terms`` are the terms (stems) of each passage. ``coverage`` is the fraction (0 to 1) of the question
        that the best passage covers. ``missing_names`` are the names of the question that occur in no passage.
        """
        missing_rarity = math.fsum(self.names[name] for name in missing_names)
        max_missing_rarity = max(self.total_rarity, math.fsum(self.names.values()))
        num_tokens = sum(name.is_token for name in self.names)
        num_missing_tokens = sum(name.is_token for name in missing_names)
        # The total rarity of the pairs of consecutive terms that the question shares with a passage, for the best one.
        phrase_rarity = max(
            math.fsum(self.pairs[pair] for pair in self.pairs.keys() & set(pairwise(terms))) for terms in passage_terms
        )
        return {
            "coverage": coverage,
            # High for two rare terms, and low for one common term: the unit is two terms of the greatest rarity.
            "amount": 1 - math.exp(-coverage * self.total_rarity / (2 * self.max_rarity)),
            "phrases": 1 - math.exp(-phrase_rarity / self.max_rarity),
            "unnamed": missing_rarity / max_missing_rarity if missing_rarity else 0.0,
            "lacking": num_missing_tokens / num_tokens if num_tokens else 0.0,
            "missing": self.missing_fraction,
        }


def _list_consecutive_terms(query: Query, language: str | None) -> list[str]:
    """Return the informative terms of the question of a query in a language (None: English), in order.

    Terms of a script without spaces are bigrams of characters; those that cross the boundary of two words are omitted.
    """
    stem = query.stem
    subject = _strip_question_words(query.question, language)
    terms = list(map(stem, list_informative_words(subject, get_function_words(language), stem)))
    bigrams = list(filter(is_bigram, terms))
    if bigrams and not isinstance(stem, Segmenter):  # a segmenter yields words instead of bigrams
        return drop_crossing_bigrams(terms, query.state.postings.count_chunks_by_term(bigrams))
    return terms


def _compute_size_in_words(term: str, stem: Callable[[str], str]) -> float:
    """Return the size of a term in words: 0.5 for a bigram of characters, because neighboring bigrams overlap.

    With a segmenter as the stemmer, every term is a word.
    """
    return 0.5 if is_bigram(term) and not isinstance(stem, Segmenter) else 1.0
