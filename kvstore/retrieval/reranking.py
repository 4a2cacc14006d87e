"""Another order for what a strategy found: by words and meaning together, or by a cross-encoder.

In: the ranking of a strategy. Out: its first candidates in the order of new scores. Rerankers by name: ``none``,
``combination``, and whatever cross-encoder sentence-transformers loads, by the name or path that it has there.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import RerankerError
from ..models.reranker import CrossEncoderReranker
from ..structures.documents.documents import build_heading_path
from ..structures.ranking import Ranking, assign_ranks, best
from .dense_search import compute_cosines
from .lexical_search import question_terms, score_by_terms
from .query import Query

Rerank = Callable[[Query, Ranking], Ranking]

NO_RERANKER = "none"
COMBINATION = "combination"

#: Shares of the three parts of a combined score.
DENSE = 1.0
LEXICAL = 0.5
RANK = 0.5


def make_reranker(name: str) -> Rerank | None:
    """The reranker of this name, None for ``none``; raises RerankerError for a name that can be none.

    A cross-encoder is loaded when it is first used.
    """
    if name == NO_RERANKER:
        return None
    if name == COMBINATION:
        return combined
    if "/" not in name and not _is_there(name):
        suggestions = difflib.get_close_matches(name, (NO_RERANKER, COMBINATION), 1)
        hint = f"did you mean {suggestions[0]}? " if suggestions else ""
        raise RerankerError(
            f"there is no reranker {name!r}; {hint}there are none, combination, and cross-encoders by their name "
            "(ORGANISATION/MODEL) or the path of their folder"
        )
    return QueryReranker(CrossEncoderReranker(name))


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # no path
        return False


def combined(query: Query, ranking: Ranking) -> Ranking:
    """By cosine, BM25 and the rank that the strategy gave, each between 0 and 1.

    A convex combination with min-max normalisation (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
    Retrieval", TOIS 2023, section 4), the strategy's own rank being a third voice.
    """
    candidates = ranking[: query.wanted]
    if not candidates:
        return []
    vector = query.vector
    with query.trace.step("rerank") as step:
        state = query.view
        chunks = np.array([chunk for chunk, _ in candidates], np.uint64)
        cosines = compute_cosines(state, chunks, vector)
        word_scores = score_by_terms(state, question_terms(state, query.question), chunks)
        rank_scores = 1 / np.array([rank for _, rank in assign_ranks(candidates)])
        scores = DENSE * _spread(cosines) + LEXICAL * _spread(word_scores) + RANK * rank_scores
        step.detail, step.count = f"{COMBINATION}: cosine, BM25 and rank of the candidates", len(chunks)
    return best(query.view, chunks, scores, len(chunks))


def _spread(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """Values moved and stretched so that the least is 0 and the greatest 1; all 0 where they are equal."""
    low, high = float(values.min()), float(values.max())
    return np.zeros(len(values)) if high == low else (values.astype(np.float64) - low) / (high - low)


class QueryReranker:
    """By a cross-encoder, which reads the question and each chunk together."""

    def __init__(self, model: CrossEncoderReranker) -> None:
        self._model = model

    def __call__(self, query: Query, ranking: Ranking) -> Ranking:
        candidates = ranking[: query.wanted]
        with query.trace.step("rerank") as step:
            chunks = [chunk for chunk, _ in candidates]
            scores = self.scores(query.question, [_text(query, chunk) for chunk in chunks])
            step.detail, step.count = f"{self._model.name} on the candidates", len(chunks)
        return best(query.view, chunks, scores, len(chunks))

    def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """How well each of some texts answers a question, shape (texts,), the higher the better."""
        return self._model.scores(question, texts)


def _text(query: Query, chunk: int) -> str:
    """A chunk with the title and the headings above it."""
    documents = query.view.documents
    chunk_record = query.view.chunks.get(chunk)
    record = documents.get(chunk_record.document)
    above = dict.fromkeys([record.title or "", *build_heading_path(documents.outline(record.id), chunk_record.section)])
    return "\n".join([*filter(None, above), documents.text_slice(record.id, chunk_record.start, chunk_record.end)])
