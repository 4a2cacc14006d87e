"""Strategy ``sprag``: hybrid search whose chunks are combined into segments (spRAG, relevant segment extraction). A
*segment* is a sequence of neighboring chunks of one document.

The strategy is the same as ``RETRIEVE ... USING hybrid AS SEGMENTS``, see :mod:`kvstore.retrieval.segments`. The ``AS
SEGMENTS`` clause combines any other strategy's ranking into segments.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Option
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of
from ...retrieval.segments import NUM_JOINABLE, SEGMENT_OPTIONS
from ..hybrid.direct_search import search_hybrid


class SpragStrategy:
    """Retrieval of segments: the chunks of hybrid search with their neighbors."""

    name = "sprag"
    description = "spRAG: hybrid search that returns neighboring chunks as one segment of their document"
    options: Mapping[str, Option] = SEGMENT_OPTIONS

    def retrieve(self, query: Query) -> Evidence:
        """Return the best chunks of a hybrid search, with neighboring chunks of a document combined into segments.

        This is relevant segment extraction of spRAG. At least ``NUM_JOINABLE`` chunks are ranked to find neighbors.
        """
        hybrid = search_hybrid(query)
        ranking = hybrid.rank(query, min_length=NUM_JOINABLE)
        return evidence_of(
            query, self.name, ranking, paths=hybrid.format_paths(), pool=len(hybrid.chunks), as_segments=True
        )
