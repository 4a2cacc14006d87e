"""Lexical search: BM25 over the postings (Robertson and Zaragoza 2009, with the non-negative idf of Lucene)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..structures.ranking import Ranking, best
from ..structures.state import State
from ..structures.vectors.vectors import Ids
from ..text.words import content_terms, joined_parts, segments, stemmer, technical_tokens
from .query import Query

#: How soon repeating a word stops counting, and how much long chunks are held back.
K1 = 1.2
B = 0.75


def term_rarity(chunks: int, containing: int) -> float:
    """How much a term says that ``containing`` of all ``chunks`` have (idf, never negative)."""
    return math.log(1 + (chunks - containing + 0.5) / (containing + 0.5))


def question_terms(view: State, text: str) -> list[str]:
    """The terms of a question that are looked up, each once: words, technical tokens, and the parts of joined words
    that no chunk has as a whole."""
    stem = stemmer(view.settings.stemmer)
    found = [*technical_tokens(text), *content_terms(text, stem)]
    for word in segments(text):
        if (parts := joined_parts(word)) and not view.postings.count(stem(word)):
            found += map(stem, parts)
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class WordSearch:
    """BM25 of a whole store: ids of all chunks with any of some terms, ascending, and their scores; ``rarities`` are
    those of the terms that some chunk has."""

    rarities: dict[str, float]
    chunks: Ids
    scores: npt.NDArray[np.float64]

    def of(self, chunks: Ids) -> npt.NDArray[np.float64]:
        """The scores of some chunks, 0 for those without any of the terms."""
        if not len(self.chunks):
            return np.zeros(len(chunks))
        places = np.minimum(np.searchsorted(self.chunks, chunks), len(self.chunks) - 1)
        return np.where(self.chunks[places] == chunks, self.scores[places], 0.0)


def search_words(view: State, terms: Sequence[str], k1: float = K1, b: float = B) -> WordSearch:
    """Score all chunks that have any of some terms."""
    counters = view.counters
    average = counters.words / max(1, counters.chunks)
    rarities: dict[str, float] = {}
    chunk_parts: list[Ids] = []
    score_parts: list[npt.NDArray[np.float64]] = []
    for term in terms:
        chunks, frequencies, lengths = view.postings.get(term)
        if len(chunks):
            rarity = rarities[term] = term_rarity(counters.chunks, len(chunks))
            norm = k1 * (1 - b + b * lengths / average)
            chunk_parts.append(chunks)
            score_parts.append(rarity * frequencies * (k1 + 1) / (frequencies + norm))
    if not chunk_parts:
        return WordSearch({}, np.empty(0, np.uint64), np.empty(0))
    found, places = np.unique(np.concatenate(chunk_parts), return_inverse=True)
    scores = np.asarray(np.bincount(places, np.concatenate(score_parts), len(found)), np.float64)
    return WordSearch(rarities, found, scores)


def word_scores_of(view: State, terms: Sequence[str], chunks: Ids) -> npt.NDArray[np.float64]:
    """The BM25 scores of some chunks, 0 for those without any of the terms."""
    return search_words(view, terms).of(chunks)


def ranked_words(query: Query, top: int, k1: float = K1, b: float = B) -> tuple[WordSearch, Ranking]:
    """The scores of all chunks for a question, and the ``top`` of those that may answer, best first."""
    with query.trace.step("lexical search") as step:
        terms = question_terms(query.view, query.question)
        search = search_words(query.view, terms, k1, b)
        keep = query.keep_allowed(search.chunks)
        ranking = best(query.view, search.chunks[keep], search.scores[keep], top)
        step.detail, step.count = "BM25 of " + ", ".join(terms), len(ranking)
    return search, ranking


def rank_by_words(query: Query, top: int, k1: float = K1, b: float = B) -> Ranking:
    """The ``top`` chunks by BM25 score, best first; chunks without any term of the question are left out."""
    return ranked_words(query, top, k1, b)[1]
