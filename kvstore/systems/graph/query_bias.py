"""A bias of the walk: of the passages of a name it goes to those the more that talk about what is asked beside it.

A walk that leaves a name by every passage alike goes astray where the name has many. Here the weight of the step from
an entity to a passage is multiplied by e to the power of strength · the passage's cosine with the question *without its
names*, as a share of the best passage's: a topic-sensitive walk (Haveliwala 2002, "Topic-Sensitive PageRank"; a biased
one, in the terms of Backstrom and Leskovec 2011, "Supervised Random Walks") whose topic is the rest of the question.
Steps from passages to entities stay as they are: what a passage names does not depend on what is asked.

In: a query and its parts. Out: factors for chunks, or nothing where the rest tells no passage from another: where the
question names nothing, or asks so little beside its names ("X's husband") that every passage about such things is as
near as the one on the way; and where the user gave the vector, which speaks of the names as well.
"""

from __future__ import annotations

import numpy as np

from ...retrieval.decomposition import Decomposition
from ...retrieval.dense_search import NearestChunksRequest
from ...retrieval.query import Query
from ...structures.ranking import Ranking
from ...structures.reading import Ids, Matrix
from ...text.words import get_informative_terms, get_stemmer
from ..passage_graph.pagerank import Masses

#: Informative words beside the names that tell passages apart.
_MIN_TELLING_TERMS = 3


class QueryBias:
    """Factors of the steps from entities to chunks, from 1 to e^strength, by the cosines of chunks with ``vector``;
    ``chunks`` are those that were compared."""

    def __init__(self, vector: Matrix, max_cosine: float, strength: float) -> None:
        self.vector = vector
        self.chunks: Ids = np.empty(0, np.uint64)
        self._scale = strength / max_cosine
        self._factors: Masses = np.empty(0)

    def add_cosines(self, chunks: Ids, cosines: Matrix) -> None:
        """Take note of the cosines of further chunks, ids ascending."""
        if len(chunks):
            factors = np.exp(self._scale * np.maximum(0.0, cosines))
            order = np.argsort(np.concatenate((self.chunks, chunks)))
            self.chunks = np.concatenate((self.chunks, chunks))[order]
            self._factors = np.concatenate((self._factors, factors))[order]

    def get_factors(self, chunks: Ids) -> Masses:
        """The factors of chunks that were compared."""
        found: Masses = self._factors[np.searchsorted(self.chunks, chunks)]
        return found


def can_distinguish_chunks(query: Query, parts: Decomposition) -> bool:
    """Whether a question names something, and asks enough beside it for one passage to fit better than another."""
    if parts.remainder == query.question:
        return False
    terms = get_informative_terms(parts.remainder, get_stemmer(query.reading.settings.stemmer))
    # A letter alone is what a name leaves behind when it is cut out: "'s".
    return sum(len(term) > 1 or not term.isascii() for term in terms) >= _MIN_TELLING_TERMS


def make_nearest_request(query: Query, parts: Decomposition, strength: float) -> NearestChunksRequest | None:
    """What asks for the passage nearest to the rest of a question; None where the walk has no bias."""
    if strength <= 0 or query.given_vector is not None or not can_distinguish_chunks(query, parts):
        return None
    return NearestChunksRequest(query.embed_part(parts.remainder), 1)


def build_query_bias(request: NearestChunksRequest, nearest_ranking: Ranking, strength: float) -> QueryBias | None:
    """The bias of a walk, by what :func:`make_nearest_request` found; None where nothing resembles the rest."""
    if not nearest_ranking or nearest_ranking[0][1] <= 0:
        return None
    return QueryBias(request.vector, nearest_ranking[0][1], strength)
