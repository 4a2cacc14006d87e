"""Strategy ``vector``: dense retrieval, by cosine with every chunk or by the index of kind ``vectors``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..storage.ranking import Ranking
from ..storage.store_view import StoreView
from ..storage.vectors import Ids, Matrix, cosines
from .evidence import Evidence
from .query import Option, Query, evidence_of, option


def cosines_of(view: StoreView, chunks: Ids, vector: Matrix) -> npt.NDArray[np.float32]:
    """The cosines of some chunks with a unit vector."""
    records = view.chunks.get_many(chunks.tolist())
    return cosines(view.vectors.gather([(record.block, record.row) for record in records]), vector)


def rank_by_vector(query: Query, top: int, *, exact: bool = False) -> Ranking:
    """The ``top`` chunks nearest to the question, best first; ``exact`` compares all, whether or not there is an
    index."""
    vector = query.vector
    with query.trace.step("vector search") as step:
        ranking, step.detail = query.view.nearest_chunks(vector, top, query.allowed_chunks, exact=exact)
        step.count = len(ranking)
    return ranking


class VectorStrategy:
    """Nearest chunks by cosine of their vectors with the question's."""

    name = "vector"
    description = "dense retrieval: the chunks whose vectors have the largest cosine with the question's"
    options: Mapping[str, Option] = {
        "exact": Option(0, 0, 1, "1 compares every chunk, whether or not there is an index")
    }

    def retrieve(self, query: Query) -> Evidence:
        ranking = rank_by_vector(query, query.reach, exact=option(query, self, "exact") == 1)
        return evidence_of(query, self.name, ranking, "near the question", query.view.counters.chunks)
