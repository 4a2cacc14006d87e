"""Strategy ``lexical``: BM25 over the postings (Robertson and Zaragoza 2009, with the non-negative idf of Lucene)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..text.words import content_terms, stemmer
from .evidence import Evidence
from .query import Option, Query, Ranking, evidence_of, option, ranked

_K1 = 1.2
_B = 0.75


def term_rarity(chunks: int, containing: int) -> float:
    """How much a term says that ``containing`` of all ``chunks`` have (idf, never negative)."""
    return math.log(1 + (chunks - containing + 0.5) / (containing + 0.5))


def rank_by_words(query: Query, top: int, k1: float = _K1, b: float = _B) -> Ranking:
    """The ``top`` chunks by BM25 score, best first; chunks without any term of the question are left out."""
    with query.trace.step("lexical search") as step:
        found, scores = word_scores(query, k1, b)
        keep = query.keep_allowed(found)
        ranking = ranked(found[keep], scores[keep], top)
        step.detail, step.count = "BM25 of " + ", ".join(_question_terms(query)), len(ranking)
    return ranking


def word_scores(query: Query, k1: float = _K1, b: float = _B) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """The BM25 score of every chunk that has a term of the question, by chunk id, ascending."""
    view = query.view
    counters = view.counters
    chunk_parts: list[npt.NDArray[np.uint64]] = [np.empty(0, np.uint64)]
    score_parts: list[npt.NDArray[np.float64]] = [np.empty(0)]
    average = counters.words / max(1, counters.chunks)
    for term in _question_terms(query):
        chunks, frequencies, lengths = view.postings.get(term)
        if not len(chunks):
            continue
        rarity = term_rarity(counters.chunks, len(chunks))
        norm = k1 * (1 - b + b * lengths / average)
        chunk_parts.append(chunks)
        score_parts.append(rarity * frequencies * (k1 + 1) / (frequencies + norm))
    found, places = np.unique(np.concatenate(chunk_parts), return_inverse=True)
    return found, np.asarray(np.bincount(places, np.concatenate(score_parts), len(found)), np.float64)


def _question_terms(query: Query) -> list[str]:
    return list(dict.fromkeys(content_terms(query.question, stemmer(query.view.settings.stemmer))))


class LexicalStrategy:
    """Chunks that share the question's words, rare words first."""

    name = "lexical"
    description = "BM25 over the words of chunks, titles and headings"
    options: Mapping[str, Option] = {
        "k1": Option(_K1, 0, 10, "how soon repeating a word stops counting"),
        "b": Option(_B, 0, 1, "how much long chunks are held back"),
    }

    def retrieve(self, query: Query) -> Evidence:
        ranking = rank_by_words(query, query.reach, option(query, self, "k1"), option(query, self, "b"))
        return evidence_of(query, self.name, ranking, "shares words with the question", len(ranking))
