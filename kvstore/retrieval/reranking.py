"""Reranking: a new order for the results of a strategy, by words and meaning together or by a cross-encoder.

In: the ranking of a strategy. Out: the ranking, its first 50 chunks in the order of new scores. Rerankers by name:
``none``, ``combination``, and every cross-encoder that sentence-transformers loads, by name or path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import RerankerError, suggest
from ..models.reranker import CrossEncoderReranker
from ..structures.ranking import Ranking, append_tails, assign_ranks, best, list_chunk_ids
from .dense_search import CosineRequest
from .evidence import LoadedChunk
from .lexical_search import WordScoreRequest, read_question_weights
from .query import NUM_RERANK_CANDIDATES, Query

RerankFunction = Callable[[Query, Ranking], Ranking]

NO_RERANKER = "none"
COMBINATION = "combination"

#: The weights of the three parts of a combined score.
DENSE_WEIGHT = 1.0
LEXICAL_WEIGHT = 0.5
RANK_WEIGHT = 0.5


def make_reranker(name: str) -> RerankFunction | None:
    """Return the function that reorders rankings, by the name of a reranker; None for the name ``none``.

    A cross-encoder is loaded when it is first used. Raises RerankerError for an invalid name.
    """
    if name == NO_RERANKER:
        return None
    if name == COMBINATION:
        return rerank_combined
    if "/" not in name and not _path_exists(name):
        suggestion = suggest(name, (NO_RERANKER, COMBINATION))
        hint = f"did you mean {suggestion}? " if suggestion else ""
        raise RerankerError(
            f"there is no reranker {name!r}; {hint}use none, combination, or a cross-encoder by its name "
            "(ORGANIZATION/MODEL) or the path of its folder"
        )
    return QueryReranker(CrossEncoderReranker(name))


def _path_exists(name: str) -> bool:
    """True if ``name`` is the path of a file or folder."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # not a valid path
        return False


def rerank_combined(query: Query, ranking: Ranking) -> Ranking:
    """Reorder the first 50 chunks of a ranking by a weighted sum of cosine, BM25 and the reciprocal of their rank.

    This is a convex combination with min-max normalization of the first two (Bruch, Gai and Ingber, "An Analysis of
    Fusion Functions for Hybrid Retrieval", TOIS 2023, section 4); the third is the rank by the strategy itself. The
    other chunks follow in their original order.
    """
    candidates = ranking[:NUM_RERANK_CANDIDATES]
    if not candidates:
        return []
    vector = query.vector
    with query.trace.step("rerank") as step:
        reading, chunks = query.reading, list_chunk_ids(candidates)
        _, weights = read_question_weights(query)
        cosines, word_scores = reading.fetch(CosineRequest(chunks, vector), WordScoreRequest(weights, chunks))
        rank_scores = 1 / np.array([rank for _, rank in assign_ranks(candidates)])
        scores = (
            DENSE_WEIGHT * _normalize_scores(cosines)
            + LEXICAL_WEIGHT * _normalize_scores(word_scores)
            + RANK_WEIGHT * rank_scores
        )
        step.detail, step.count = f"{COMBINATION}: cosine, BM25 and rank of the candidates", len(chunks)
    return append_tails(best(query.reading, chunks, scores, len(chunks)), ranking, top=len(ranking))


def _normalize_scores(scores: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """Return values scaled linearly so that the smallest is 0 and the largest 1; all 0 if they are equal."""
    lowest, highest = float(scores.min()), float(scores.max())
    return np.zeros(len(scores)) if highest == lowest else (scores.astype(np.float64) - lowest) / (highest - lowest)


class QueryReranker:
    """A rerank function that scores the question and each chunk together with a cross-encoder."""

    def __init__(self, model: CrossEncoderReranker) -> None:
        """Create a rerank function that scores with a cross-encoder."""
        self._model = model

    def __call__(self, query: Query, ranking: Ranking) -> Ranking:
        """Reorder the first 50 chunks of a ranking by the cross-encoder's scores; the others keep their order."""
        candidates = ranking[:NUM_RERANK_CANDIDATES]
        with query.trace.step("rerank") as step:
            chunks = [chunk for chunk, _ in candidates]
            scores = self.score_texts(query.question, list(map(_format_chunk, query.load_chunks(chunks))))
            step.detail, step.count = f"{self._model.name} on the candidates", len(chunks)
        return append_tails(best(query.reading, chunks, scores, len(chunks)), ranking, top=len(ranking))

    def score_texts(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the model's score of each text for a question, shape (texts,); higher is better."""
        return self._model.scores(question, texts)


def _format_chunk(chunk: LoadedChunk) -> str:
    """Return the text of a chunk after the title of its document and the headings above it, for the cross-encoder."""
    headings = dict.fromkeys([chunk.document.title or "", *chunk.headings])
    return "\n".join([*filter(None, headings), chunk.text])
