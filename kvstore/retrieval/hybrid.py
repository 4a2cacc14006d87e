"""Strategy ``hybrid``: reciprocal rank fusion of dense and lexical search (Cormack, Clarke and Büttcher 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..storage.ranking import Ranking, best, shared_ranks
from ..storage.store_view import StoreView
from .evidence import Evidence
from .lexical import rank_by_words
from .query import Option, Query, evidence_of, option
from .vector import rank_by_vector


def fuse(view: StoreView, rankings: Sequence[tuple[str, Ranking]], constant: float) -> tuple[Ranking, dict[int, str]]:
    """Join named rankings by the sum of 1 / (constant + rank), where equals share a rank; also says which ranks each
    chunk had."""
    scores: dict[int, float] = {}
    paths: dict[int, list[str]] = {}
    for name, ranking in rankings:
        for chunk, rank in shared_ranks(ranking):
            scores[chunk] = scores.get(chunk, 0.0) + 1 / (constant + rank)
            paths.setdefault(chunk, []).append(f"{name} #{rank}")
    order = best(view, list(scores), np.array(list(scores.values())), len(scores))
    return order, {chunk: ", ".join(parts) for chunk, parts in paths.items()}


class HybridStrategy:
    """Dense and lexical search together, joined by rank."""

    name = "hybrid"
    description = "reciprocal rank fusion of vector and lexical"
    options: Mapping[str, Option] = {
        "constant": Option(10, 0, 1000, "how little the first ranks stand out (the article used 60 for long rankings)"),
        "candidates": Option(50, 1, 10_000, "chunks taken from each of the two"),
    }

    def retrieve(self, query: Query) -> Evidence:
        candidates = max(int(option(query, self, "candidates")), query.top)
        rankings = [("vector", rank_by_vector(query, candidates)), ("words", rank_by_words(query, candidates))]
        ranking, paths = fuse(query.view, rankings, option(query, self, "constant"))
        return evidence_of(query, self.name, ranking, paths, len(ranking))
