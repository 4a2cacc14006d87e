"""A bias of the walk (personalized PageRank) toward the chunks of an entity that match what the question asks about it.
The weight of a step from an entity to a chunk is multiplied by e to the power of strength · the chunk's cosine with the
question *without its names* / the best chunk's cosine.

Without it, a walk from an entity in many chunks spreads over all of them, whatever the question asks. This is a
topic-sensitive walk (Haveliwala 2002, "Topic-Sensitive PageRank"; a biased walk in the terms of Backstrom and Leskovec
2011, "Supervised Random Walks") whose topic is the rest of the question. Steps from chunks to entities are unchanged,
because the names in a chunk do not depend on the question.

In: a query and its parts. Out: factors for chunks, or None if the rest of the question cannot distinguish chunks. That
happens if the question has no names, or too few words outside its names ("X's husband"), or if the user supplied the
vector of the whole question.
"""

from __future__ import annotations

import numpy as np

from ...derived.passage_graph.pagerank import Masses
from ...retrieval.dense_search import NearestChunksRequest
from ...retrieval.query import Query
from ...retrieval.recognition import Decomposition
from ...structures.ranking import Ranking
from ...structures.read_requests import Ids, Matrix, Vector
from ...text.words import get_informative_terms

#: The number of informative words, in addition to names, needed to distinguish chunks.
_MIN_INFORMATIVE_TERMS = 3


class QueryBias:
    """The factors by which the steps from entities to chunks are multiplied, from 1 to e^strength. They are computed
    from the chunks' cosines with ``vector``. ``chunks`` are the ids of the chunks whose factors are known, ascending.
    """

    def __init__(self, vector: Vector, max_cosine: float, strength: float) -> None:
        """Create a bias toward chunks similar to the question; :meth:`add_cosines` adds the factors of chunks.

        ``vector`` is the vector of the question without its names, ``max_cosine`` its cosine with the best chunk, and
        ``strength`` how strongly the walk prefers similar chunks.
        """
        self.vector = vector
        self.chunks: Ids = np.empty(0, np.uint64)
        self._scale = strength / max_cosine
        self._factors: Masses = np.empty(0)

    def add_cosines(self, chunks: Ids, cosines: Matrix) -> None:
        """Compute and store the factors by which a graph walk prefers each of ``chunks``, which have no factors yet.

        ``cosines`` has the cosine of each chunk with the question without its names. The factor is e^(strength · cosine
        / cosine of the store's best chunk), and 1 for a negative cosine.
        """
        if len(chunks):
            # A single-precision number overflows at a strength of 89.
            factors = np.exp(self._scale * np.maximum(0.0, cosines), dtype=np.float64)
            all_chunks = np.concatenate((self.chunks, chunks))
            order = np.argsort(all_chunks)
            self.chunks = all_chunks[order]
            self._factors = np.concatenate((self._factors, factors))[order]

    def get_factors(self, chunks: Ids) -> Masses:
        """Return, for each chunk, the factor by which the weight of a step to it is multiplied.

        Every chunk must have been passed to :meth:`add_cosines`.
        """
        factors: Masses = self._factors[np.searchsorted(self.chunks, chunks)]
        return factors


def has_informative_remainder(query: Query, decomposition: Decomposition) -> bool:
    """True if the question has enough informative words outside its names to rank chunks.

    Function words, and request words such as "explain", are not informative. ``decomposition`` has the question without
    its names. A question without names has no remainder.
    """
    if decomposition.remainder == query.question:
        return False
    # A single ASCII letter is what remains of a name, such as the s of "X's".
    terms = [
        term
        for term in get_informative_terms(decomposition.remainder, query.stem)
        if len(term) > 1 or not term.isascii()
    ]
    return len(terms) >= _MIN_INFORMATIVE_TERMS


def make_bias_request(query: Query, decomposition: Decomposition, strength: float) -> NearestChunksRequest | None:
    """Build a request for the chunk nearest to the question without its names, which the bias of a walk needs.

    The bias divides the cosines of other chunks by the cosine of this chunk. ``decomposition`` has the question without
    its names. Returns None, for no bias, if ``strength`` is 0, or if the user supplied the vector of the question. It
    is also None if the question has too few informative words outside its names.
    """
    # The user's vector represents the whole question, and cannot be computed for a part of it.
    if strength <= 0 or query.user_vector is not None or not has_informative_remainder(query, decomposition):
        return None
    return NearestChunksRequest(query.embed_part(decomposition.remainder), top=1)


def build_query_bias(request: NearestChunksRequest, nearest_ranking: Ranking, strength: float) -> QueryBias | None:
    """Build the bias of a graph walk, which makes it prefer chunks similar to the question without its names.

    ``request`` asked for the chunk nearest to that part of the question, and ``nearest_ranking`` is the answer.
    ``strength`` is how strongly the walk prefers chunks similar to the question. Returns None if no chunk has a
    positive cosine with that part of the question.
    """
    max_cosine = max((cosine for _, cosine in nearest_ranking), default=0.0)
    return QueryBias(request.vector, max_cosine, strength) if max_cosine > 0 else None
