"""Strategy ``hybrid``: dense and lexical search together, by calibrated scores; see :mod:`.direct`."""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Option
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of
from ...structures.ranking import best
from .direct_search import DIRECT_OPTIONS, get_weights, search_directly


class HybridStrategy:
    """Retrieval of chunks that resemble the question in meaning, words, headings and entries."""

    name = "hybrid"
    description = "cosine and BM25 as calibrated shares, with headings, entries and words that occur close together"
    options: Mapping[str, Option] = DIRECT_OPTIONS

    def retrieve(self, query: Query) -> Evidence:
        direct = search_directly(query, get_weights(query, self))
        ranking = best(query.reading, direct.chunks, direct.scores, query.reach)
        return evidence_of(query, self.name, ranking, direct.format_paths(), len(direct.chunks))
