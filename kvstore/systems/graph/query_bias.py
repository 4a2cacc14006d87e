"""A bias of the walk towards those chunks of a name that match what the question asks about it.

A walk that leaves a name by all its chunks equally loses its way if the name has many. Here the weight of the step from
an entity to a chunk is multiplied by e to the power of strength · the chunk's cosine with the question *without its
names*, as a share of the best chunk's. This is a topic-sensitive walk (Haveliwala 2002, "Topic-Sensitive PageRank"; a
biased walk in the terms of Backstrom and Leskovec 2011, "Supervised Random Walks") whose topic is the rest of the
question. Steps from chunks to entities are unchanged, because the names in a chunk do not depend on the question.

In: a query and its parts. Out: factors for chunks, or None if the rest of the question cannot distinguish chunks. This
    is so if the question names nothing, or asks so little in addition to its names ("X's husband") that every chunk
    about such things is as near as the right one. It is also so if the user supplied the vector, which covers the names
    as well.
"""

from __future__ import annotations

import numpy as np

from ...derived.passage_graph.pagerank import Masses
from ...retrieval.decomposition import Decomposition
from ...retrieval.dense_search import NearestChunksRequest
from ...retrieval.query import Query
from ...structures.ranking import Ranking
from ...structures.read_requests import Ids, Matrix
from ...text.words import get_informative_terms, get_stemmer

#: The number of informative words, in addition to names, needed to distinguish chunks.
_MIN_INFORMATIVE_TERMS = 3


class QueryBias:
    """Factors of the steps from entities to chunks, from 1 to e^strength, computed from the chunks' cosines with
    ``vector``. ``chunks`` are the chunks whose factors are known, ascending."""

    def __init__(self, vector: Matrix, max_cosine: float, strength: float) -> None:
        self.vector = vector
        self.chunks: Ids = np.empty(0, np.uint64)
        self._scale = strength / max_cosine
        self._factors: Masses = np.empty(0)

    def add_cosines(self, chunks: Ids, cosines: Matrix) -> None:
        """Add the cosines of further chunks, ids ascending."""
        if len(chunks):
            factors = np.exp(self._scale * np.maximum(0.0, cosines))
            order = np.argsort(np.concatenate((self.chunks, chunks)))
            self.chunks = np.concatenate((self.chunks, chunks))[order]
            self._factors = np.concatenate((self._factors, factors))[order]

    def get_factors(self, chunks: Ids) -> Masses:
        """Return the factors of chunks, all of which :meth:`add_cosines` has added."""
        factors: Masses = self._factors[np.searchsorted(self.chunks, chunks)]
        return factors


def has_informative_remainder(query: Query, parts: Decomposition) -> bool:
    """True if a question without its names has enough informative terms to rank chunks."""
    if parts.remainder == query.question:
        return False
    terms = get_informative_terms(parts.remainder, get_stemmer(query.reading.settings.stemmer))
    # A single letter is the remainder of a name: "'s".
    return sum(len(term) > 1 or not term.isascii() for term in terms) >= _MIN_INFORMATIVE_TERMS


def make_nearest_request(query: Query, parts: Decomposition, strength: float) -> NearestChunksRequest | None:
    """Return a request for the chunk nearest to the question without its names, or None if the walk has no bias."""
    if strength <= 0 or query.given_vector is not None or not has_informative_remainder(query, parts):
        return None
    return NearestChunksRequest(query.embed_part(parts.remainder), 1)


def build_query_bias(request: NearestChunksRequest, nearest_ranking: Ranking, strength: float) -> QueryBias | None:
    """Return the bias of a walk from the result of :func:`make_nearest_request`, or None if no chunk is similar to the
    rest."""
    if not nearest_ranking or nearest_ranking[0][1] <= 0:
        return None
    return QueryBias(request.vector, nearest_ranking[0][1], strength)
