"""Word search in rounds: first the chunk counts of the terms, then the best chunks by BM25.

In: a question. Out: rankings by BM25 (see :mod:`.lexical_search`), and the further scores that a strategy requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ..structures.documents.allowed import AllowedDocuments
from ..structures.ranking import Ranking, best
from ..structures.read_requests import Ids, ReadRequest, Vector
from ..structures.state import State
from .lexical_search import (
    K1,
    B,
    QuestionWords,
    TermWeights,
    build_term_weights,
    find_best_by_words,
    parse_question_words,
    score_by_weights,
)
from .query import Query

if TYPE_CHECKING:
    from ..text.text_query import Phrase

#: Characters that open a phrase.
_QUOTE_CHARACTERS = frozenset('"\u201c')


class TermCountRequest(ReadRequest[Mapping[str, int]]):
    """A request for the number of chunks that contain each term."""

    terms: Sequence[str]

    def fetch(self, state: State) -> Mapping[str, int]:
        """Read the number of chunks that contain each term."""
        return state.postings.count_chunks_by_term(self.terms)


class WordSearchResult(NamedTuple):
    """The best chunks by BM25, best first, and the requested scores of other chunks.

    ``other_scores`` are the scores of the other chunks, in order; a chunk without any of the terms has 0. ``cosines``
    has the cosine of each of the best chunks, in order, or is None if no vector was given.
    """

    ranking: Ranking
    other_scores: npt.NDArray[np.float64]
    cosines: npt.NDArray[np.float32] | None


class WordSearchRequest(ReadRequest[WordSearchResult]):
    """A request for the ``top`` chunks of allowed documents by BM25; chunks without any term are omitted.

    The result also has the scores of ``other_chunks``, which are distinct, and the cosines of the best chunks with a
    unit ``vector``.
    """

    weights: TermWeights
    top: int
    allowed: AllowedDocuments | None = None
    other_chunks: Ids | None = None
    vector: Vector | None = None

    def fetch(self, state: State) -> WordSearchResult:
        """Return the best chunks by BM25 and, if requested, the scores of other chunks and the cosines of the best."""
        ranking = best(state, *find_best_by_words(state, self.weights, self.top, self.allowed), self.top)
        other_scores = (
            np.empty(0) if self.other_chunks is None else score_by_weights(state, self.weights, self.other_chunks)
        )
        cosines = None
        if self.vector is not None:
            from .dense_search import compute_cosines

            cosines = compute_cosines(state, np.array([chunk for chunk, _ in ranking], np.uint64), self.vector)
        return WordSearchResult(ranking, other_scores, cosines)

    def list_chunks(self, answer: WordSearchResult) -> Iterable[int]:
        """Return the ids of the best chunks in the answer to this request."""
        return (chunk for chunk, _ in answer.ranking)


class WordScoreRequest(ReadRequest[npt.NDArray[np.float64]]):
    """A request for the BM25 scores of distinct chunks; 0 for chunks without any of the terms."""

    weights: TermWeights
    chunks: Ids

    def fetch(self, state: State) -> npt.NDArray[np.float64]:
        """Return the BM25 score of each chunk."""
        return score_by_weights(state, self.weights, self.chunks)


class TermSetCountRequest(ReadRequest[list[int]]):
    """A request for the number of allowed chunks that contain all terms of each set; 0 for an empty set."""

    term_sets: Sequence[Collection[str]]

    def fetch(self, state: State) -> list[int]:
        """Return for each set of terms, in order, the number of allowed chunks that contain all of them."""
        if state.allowed is not None:
            matching_chunks = (state.postings.find_chunks_with_terms(terms) for terms in self.term_sets)
            return [int(state.allowed.get_chunk_mask(chunks).sum()) for chunks in matching_chunks]
        # The count of a single term is stored, so its postings need not be read.
        single_terms = [term for terms in self.term_sets if len(terms) == 1 for term in terms]
        single_counts = state.postings.count_chunks_by_term(single_terms)

        def count_chunks(terms: Collection[str]) -> int:
            """Return the number of chunks that contain all terms of a set; 0 for an empty set."""
            if len(terms) == 1:
                return single_counts[next(iter(terms))]
            return len(state.postings.find_chunks_with_terms(terms)) if terms else 0

        return [count_chunks(terms) for terms in self.term_sets]


def build_count_request(words: QuestionWords) -> TermCountRequest:
    """Return a request for the chunk counts of all terms of a question.

    The counts decide which terms are searched (:meth:`.QuestionWords.list_lookup_terms`) and their rarity.
    """
    compound_terms = (term for compound, parts in words.compounds for term in (compound, *parts))
    return TermCountRequest(list(dict.fromkeys((*words.terms, *compound_terms, *words.variants))))


def _find_phrases(question: str) -> list[Phrase]:
    """Return the phrases in double quotes of a question; phrase search is not imported for one without quotes."""
    if _QUOTE_CHARACTERS.isdisjoint(question):
        return []
    from .phrase_search import find_quoted_phrases

    return find_quoted_phrases(question)


def rank_by_words(query: Query, top: int, k1: float = K1, b: float = B, phrase_share: float = 0) -> Ranking:
    """Return the ``top`` chunks by BM25, best first, and record the step; chunks without any term are omitted.

    ``k1`` and ``b`` are the parameters of BM25. Text in double quotes also counts as a phrase, weighted by
    ``phrase_share``.
    """
    reading = query.reading
    with query.trace.step("lexical search") as step:
        words = parse_question_words(query.question, query.stem)
        counts = reading.fetch(build_count_request(words))
        terms = words.list_lookup_terms(counts)
        weights = build_term_weights(reading.counters, terms, counts, k1, b)
        step.detail = "BM25 of " + ", ".join(terms)
        quoted_phrases = _find_phrases(query.question) if phrase_share else []
        if quoted_phrases:
            from .phrase_search import PhraseSearchRequest

            ranking = reading.fetch(
                PhraseSearchRequest(weights, tuple(quoted_phrases), phrase_share, top, query.allowed)
            )
            quotations = ('"' + " ".join(pattern.word for pattern in phrase.words) + '"' for phrase in quoted_phrases)
            step.detail += f"; exact phrases {', '.join(quotations)}"
        else:
            ranking = reading.fetch(WordSearchRequest(weights, top, query.allowed)).ranking
        step.count = len(ranking)
    return ranking
