"""Strategy ``vector``: dense retrieval, exact cosine over all chunks."""

from __future__ import annotations

from collections.abc import Mapping

from ..storage.vectors import nearest
from .evidence import Evidence
from .query import Option, Query, Ranking, evidence_of


def rank_by_vector(query: Query, top: int) -> Ranking:
    """The ``top`` chunks nearest to the question, best first."""
    vector = query.vector
    with query.trace.step("vector search") as step:
        ranking = nearest(query.view.all_vectors(), vector, top, query.allowed_chunks)
        step.detail, step.count = "exact cosine over all chunks", len(ranking)
    return ranking


class VectorStrategy:
    """Nearest chunks by cosine of their vectors with the question's."""

    name = "vector"
    description = "dense retrieval: exact cosine between the question and every chunk"
    options: Mapping[str, Option] = {}

    def retrieve(self, query: Query) -> Evidence:
        ranking = rank_by_vector(query, query.reach)
        return evidence_of(query, self.name, ranking, "near the question", query.view.counters.chunks)
