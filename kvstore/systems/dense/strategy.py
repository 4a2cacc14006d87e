"""Strategy ``vector``: dense retrieval, by cosine with every chunk or by the index of kind ``vectors``."""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Option
from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of, option


class VectorStrategy:
    """Retrieval of the chunks whose vectors have the largest cosine with the question's vector."""

    name = "vector"
    description = "dense retrieval: the chunks whose vectors have the largest cosine with the question's vector"
    options: Mapping[str, Option] = {
        "exact": Option(0, 0, 1, "1: compares the question with every chunk, even if the vectors index exists")
    }

    def retrieve(self, query: Query) -> Evidence:
        """Return the chunks nearest to the question as evidence, by exact or approximate vector search."""
        is_exact = option(query, self, "exact") == 1
        ranking = rank_by_vector(query, top=query.reach, exact=is_exact)
        return evidence_of(query, self.name, ranking, paths="near the question", pool=query.chunk_count)
