"""Reciprocal rank fusion of rankings (Cormack, Clarke and Büttcher 2009)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..structures.ranking import Ranking, SortKeySource, assign_ranks, best


def fuse_rankings(
    state: SortKeySource, rankings: Sequence[tuple[str, Ranking]], constant: float
) -> tuple[Ranking, dict[int, str]]:
    """Fuse named rankings: the score of a chunk is the sum of 1 / (constant + rank) over the rankings.

    Equal scores in a ranking share a rank. Also returns, for each chunk, its rank in each named ranking as text.
    """
    scores: dict[int, float] = {}
    paths: dict[int, list[str]] = {}
    for name, ranking in rankings:
        for chunk, rank in assign_ranks(ranking):
            scores[chunk] = scores.get(chunk, 0.0) + 1 / (constant + rank)
            paths.setdefault(chunk, []).append(f"{name} #{rank}")
    fused_ranking = best(state, list(scores), np.array(list(scores.values())), len(scores))
    return fused_ranking, {chunk: ", ".join(chunk_ranks) for chunk, chunk_ranks in paths.items()}
