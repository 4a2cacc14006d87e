"""Dense search: chunks by their cosine with a question, every chunk compared or by the index of kind ``vectors``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..structures.indexes.vector_search import nearest_chunks
from ..structures.ranking import Ranking
from ..structures.state import State
from ..structures.vectors.vectors import Ids, Matrix, cosines
from .query import Query


def cosines_of(view: State, chunks: Ids, vector: Matrix) -> npt.NDArray[np.float32]:
    """The cosines of some chunks with a unit vector."""
    records = view.chunks.get_many(chunks.tolist())
    return cosines(view.vectors.gather([(record.block, record.row) for record in records]), vector)


def rank_by_vector(query: Query, top: int, *, exact: bool = False) -> Ranking:
    """The ``top`` chunks nearest to the question, best first; ``exact`` compares all, whether or not there is an
    index."""
    vector = query.vector
    with query.trace.step("vector search") as step:
        ranking, step.detail = nearest_chunks(query.view, vector, top, query.allowed, exact=exact)
        step.count = len(ranking)
    return ranking
