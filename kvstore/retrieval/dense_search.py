"""Dense search: chunks by their cosine with a question, by exact comparison or with the index of kind ``vectors``. A
*request* (ReadRequest) reads from a *state*, a snapshot of the store. A *ranking* is chunk ids with scores.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..structures.documents.allowed import AllowedDocuments
from ..structures.ranking import Ranking
from ..structures.read_requests import ReadRequest
from ..structures.state import State
from ..structures.vectors.vectors import Ids, Matrix, Vector, cosines
from .query import Query


class NearestChunksRequest(ReadRequest[tuple[Ranking, str]]):
    """A request for the ``top`` chunks nearest to a unit vector, best first, and a description of the search.

    ``exact`` compares all chunks even if there is an index.
    """

    vector: Vector
    top: int
    allowed: AllowedDocuments | None = None
    exact: bool = False

    def fetch(self, state: State) -> tuple[Ranking, str]:
        """Return the nearest chunks of allowed documents, best first, and a description of the search for the trace."""
        from ..structures.indexes.vector_search import find_nearest_chunks

        return find_nearest_chunks(state, self.vector, self.top, self.allowed, exact=self.exact)

    def list_chunks(self, answer: tuple[Ranking, str]) -> Iterable[int]:
        """Return the ids of the chunks in ``answer``, a ranking and a description of the search."""
        ranking, _ = answer
        return (chunk for chunk, _ in ranking)


class CosineRequest(ReadRequest[npt.NDArray[np.float32]]):
    """A request for the cosines of some chunks with a unit vector."""

    chunks: Ids
    vector: Vector

    def fetch(self, state: State) -> npt.NDArray[np.float32]:
        """Return the cosine of each requested chunk with the request's vector, in order."""
        return compute_cosines(state, self.chunks, self.vector)


def compute_cosines(state: State, chunks: Ids, vector: Vector) -> npt.NDArray[np.float32]:
    """Return the cosine of each chunk's vector with a unit vector, in the order of ``chunks`` (ids).

    Vectors that are not cached are read from disk.
    """
    # Vectors are cached in memory only for states of a store that keeps its indexes open.
    vector_cache = None if state.open_indexes is None else state.open_indexes.vectors.vectors
    if vector_cache is None:
        return cosines(_read_vectors(state, chunks), vector)
    matrix, is_cached = vector_cache.get_many(chunks)
    if is_cached.all():
        return cosines(matrix, vector)
    values = np.empty(len(chunks), np.float32)
    values[is_cached] = cosines(matrix, vector)
    values[~is_cached] = cosines(_read_vectors(state, chunks[~is_cached]), vector)
    return values


def _read_vectors(state: State, chunks: Ids) -> Matrix:
    """Read the vectors of chunks (ids) from disk, and return them as the rows of a matrix, in order."""
    return state.vectors.gather(state.chunks.get_vector_locations(chunks.tolist()))


def rank_by_vector(query: Query, top: int, *, exact: bool = False) -> Ranking:
    """Return the ``top`` chunks nearest to the question by cosine, best first, and record the step in the trace.

    ``exact`` compares all chunks even if there is an index.
    """
    request = NearestChunksRequest(query.vector, top, query.allowed, exact)  # the question is embedded on first use
    with query.trace.step("vector search") as step:
        ranking, step.detail = query.reading.fetch(request)
        step.count = len(ranking)
    return ranking
