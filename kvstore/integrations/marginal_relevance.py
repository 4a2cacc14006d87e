"""Maximal marginal relevance: results that are similar to a question but not to each other.

Source: Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering Documents and Producing
Summaries", SIGIR 1998, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import Hit, Snapshot


def search_by_mmr(
    state: Snapshot,
    vector: Sequence[float],
    *,
    top: int,
    num_candidates: int,
    weight: float,
    where: str | Mapping[str, Any] | None,
) -> list[tuple[Hit, float]]:
    """Return ``top`` diverse hits among the ``num_candidates`` nearest to a vector, with their marginal relevance.

    The hits are in documents that satisfy ``where``. ``weight`` is from 0 (diversity alone) to 1 (relevance alone).
    """
    hits = state.search("", using="vector", vector=vector, top=max(top, num_candidates), where=where)
    vectors = state.vectors([(hit.document, hit.ordinal) for hit in hits])
    question = np.asarray(vector, np.float32)
    selections = select_by_mmr(question / np.linalg.norm(question), vectors, top, weight)
    return [(hits[row], score) for row, score in selections]


def select_by_mmr(
    question: npt.NDArray[np.float32], vectors: npt.NDArray[np.float32], top: int, weight: float
) -> list[tuple[int, float]]:
    """Return the indexes of the selected vectors in order, at most ``top``, each with its marginal relevance.

    ``question``, shape (dimension,), and ``vectors``, shape (n, dimension), have length 1. ``weight`` (lambda) is 1 for
    relevance alone, and 0 for diversity alone. The earlier of equal rows is selected.

    >>> rows = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    >>> [row for row, _ in select_by_mmr(rows[0], rows, 2, 1.0)]
    [0, 1]
    >>> [row for row, _ in select_by_mmr(rows[0], rows, 2, 0.2)]
    [0, 2]
    """
    relevance = weight * (vectors @ question)
    # The similarity of each row to the nearest selected one; zero before the first selection.
    max_similarities = np.zeros(len(vectors), np.float32)
    is_remaining = np.ones(len(vectors), np.bool_)
    selections: list[tuple[int, float]] = []
    while len(selections) < top and is_remaining.any():
        scores = np.where(is_remaining, relevance - (1 - weight) * max_similarities, -np.inf)
        row = int(np.argmax(scores))
        similarity = vectors @ vectors[row]
        max_similarities = similarity if not selections else np.maximum(max_similarities, similarity)
        is_remaining[row] = False
        selections.append((row, float(scores[row])))
    return selections
