"""Phrase search: chunks that contain a quoted phrase from the question score higher. A *term* is the stem of a word;
its *rarity* is its IDF. A *request* (ReadRequest) reads from a *state*, a snapshot of the store.

In: a question, and the weights of its words. Out: a ranking by BM25 in which each phrase counts as one more term. Its
rarity is the sum of its words' rarities (as in Lucene), times a share, since its words count already. Only chunks that
have all words of a phrase, and could reach the top with it, are read. Questions without quotes rank as usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..structures.documents.allowed import AllowedDocuments
from ..structures.ranking import Ranking, best
from ..structures.read_requests import ReadRequest
from ..structures.state import State
from ..structures.text_candidates import find_chunks_with_all
from ..structures.vectors.vectors import Ids
from ..text.languages import open_document_stemmers
from ..text.patterns import compile_lazily
from ..text.text_query import Phrase, WordPattern, count_occurrences
from ..text.words import is_unspaced, list_terms, segment_words
from .evidence import ChunkReadRequest
from .lexical_search import (
    Scores,
    TermWeights,
    compute_bm25_scores,
    find_best_by_words,
    rank_by_words,
    read_question_weights,
)
from .query import Query

#: The share of a quoted phrase in the score, relative to its single words.
_PHRASE_SHARE = 0.5
_QUOTED_PATTERN = compile_lazily('"([^"]+)"|\u201c([^\u201c\u201d]+)\u201d')


def find_quoted_phrases(question: str) -> list[Phrase]:
    """Return the distinct phrases of two words or more in double quotes in a question.

    >>> [len(phrase.words) for phrase in find_quoted_phrases('Is "sick leave" paid, and "leave"?')]
    [2]
    """
    quotations = (segment_words(match[1] or match[2]) for match in _QUOTED_PATTERN.finditer(question))
    patterns = (tuple(WordPattern(word, is_exact=True) for word in words) for words in quotations)
    return list(dict.fromkeys(Phrase(words) for words in patterns if len(words) > 1))


def _list_terms(phrase: Phrase, stem: Callable[[str], str]) -> list[str]:
    """Return the terms (stems) by which the words of a phrase are indexed.

    Words in a script without spaces are joined first, because such text is indexed by character bigrams.
    """
    words = [pattern.word for pattern in phrase.words]
    return list_terms("".join(word if is_unspaced(word) else f" {word} " for word in words), stem)


class PhraseSearchRequest(ReadRequest[Ranking]):
    """A request for the ``top`` chunks by BM25 and by the ``phrases`` they contain, each weighted by ``share``."""

    weights: TermWeights
    phrases: tuple[Phrase, ...]
    share: float
    top: int
    allowed: AllowedDocuments | None = None

    def fetch(self, state: State) -> Ranking:
        """Return the ``top`` chunks by BM25, with each phrase counted as one more term.

        The rarity of a phrase is the sum of the rarities of its words, times ``share``.
        """
        scores_by_chunk = dict(best(state, *find_best_by_words(state, self.weights, self.top, self.allowed), self.top))
        min_score = min(scores_by_chunk.values()) if len(scores_by_chunk) == self.top else 0.0
        # A phrase can have different stems in each language of the store; the language with the rarest stems counts.
        stemmers = open_document_stemmers(state.settings.stemmer, state.counters.languages)
        rarities = [
            self.share * max(self._sum_rarities(_list_terms(phrase, stem)) for stem in stemmers)
            for phrase in self.phrases
        ]
        weighted_phrases = [
            (phrase, rarity) for phrase, rarity in zip(self.phrases, rarities, strict=True) if rarity > 0
        ]
        candidates, scores = self._find_candidates(state, weighted_phrases, min_score)
        loaded_chunks = ChunkReadRequest(candidates.tolist()).fetch(state)
        for score, loaded_chunk in zip(scores.tolist(), loaded_chunks, strict=True):
            texts = dict.fromkeys([loaded_chunk.document.title or "", *loaded_chunk.headings, loaded_chunk.text])
            for phrase, rarity in weighted_phrases:
                # The words of a quoted phrase are compared exactly, so any stemmer will do.
                num_occurrences = sum(count_occurrences(phrase, text, stemmers[0]) for text in texts)
                score += rarity * self._compute_bm25_factor(num_occurrences, loaded_chunk.record.words)
            scores_by_chunk[loaded_chunk.chunk] = score
        return best(state, list(scores_by_chunk), np.array(list(scores_by_chunk.values())), self.top)

    def _find_candidates(
        self, state: State, weighted_phrases: Sequence[tuple[Phrase, float]], min_score: float
    ) -> tuple[Ids, Scores]:
        """Return the chunks whose score can reach ``min_score`` with the bonuses for phrases, and their scores without.

        Each is a chunk of an allowed document that contains all words of a phrase, not necessarily adjacent.
        ``weighted_phrases`` pairs each phrase with its rarity.
        """
        matching_chunks = [find_chunks_with_all(state, phrase) for phrase, _ in weighted_phrases]
        if self.allowed is not None:
            matching_chunks = [chunks[self.allowed.get_chunk_mask(chunks)] for chunks in matching_chunks]
        chunks = np.unique(np.concatenate([np.empty(0, np.uint64), *matching_chunks]))
        scores = compute_bm25_scores(state, self.weights, chunks)
        max_bonuses = np.zeros(len(chunks))  # the most that the phrases can add to each score
        for ids, (_, rarity) in zip(matching_chunks, weighted_phrases, strict=True):
            # The BM25 factor is at most k1 + 1, however often a phrase occurs.
            max_bonuses[np.searchsorted(chunks, ids)] += rarity * (self.weights.k1 + 1)
        can_reach = scores + max_bonuses >= min_score
        return chunks[can_reach], scores[can_reach]

    def _sum_rarities(self, terms: Iterable[str]) -> float:
        """Return the sum of the rarities of terms; 0 for a term that no chunk contains."""
        return math.fsum(self.weights.rarities.get(term, 0.0) for term in terms)

    def _compute_bm25_factor(self, num_occurrences: int, num_words: int) -> float:
        """Return the BM25 factor of a phrase by its number of occurrences in a chunk of ``num_words`` words.

        The score of the phrase is this factor times its rarity.
        """
        if not num_occurrences:
            return 0.0
        k1, b = self.weights.k1, self.weights.b
        average_length = max(self.weights.average_length, 1e-9)  # a divisor
        return num_occurrences * (k1 + 1) / (num_occurrences + k1 * (1 - b + b * num_words / average_length))

    def list_chunks(self, answer: Ranking) -> Iterable[int]:
        """Return the ids of the chunks in ``answer``, the ranking that this request fetched."""
        return (chunk for chunk, _ in answer)


def rank_by_words_and_phrases(query: Query, top: int, k1: float, b: float) -> Ranking:
    """Return the ``top`` chunks by BM25, with each phrase in double quotes as one more term; record the step.

    ``k1`` and ``b`` are the parameters of BM25. A question without such phrases is ranked by its words only.
    """
    phrases = find_quoted_phrases(query.question)
    if not phrases:
        return rank_by_words(query, top, k1, b)
    with query.trace.step("lexical search") as step:
        terms, weights = read_question_weights(query, k1, b)
        request = PhraseSearchRequest(weights, tuple(phrases), _PHRASE_SHARE, top, query.allowed)
        ranking = query.reading.fetch(request)
        quotations = ('"' + " ".join(pattern.word for pattern in phrase.words) + '"' for phrase in phrases)
        step.detail = f"BM25 of {', '.join(terms)}; exact phrases {', '.join(quotations)}"
        step.count = len(ranking)
    return ranking
