"""Strategy ``sprag``: hybrid search, whose chunks are taken together as segments (spRAG, relevant segment extraction).

What ``RETRIEVE ... USING hybrid AS SEGMENTS`` does, see :mod:`kvstore.retrieval.segments`; any other strategy's ranking
becomes segments by the clause.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Option
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of
from ...retrieval.segments import MAX_CONSIDERED, SEGMENT_OPTIONS
from ...structures.ranking import best
from ..hybrid.direct import DIRECT_OPTIONS, get_weights, search_directly


class SpragStrategy:
    """What hybrid search finds, with what stands around it and between."""

    name = "sprag"
    description = "spRAG: hybrid search, neighbouring chunks that belong together given as one slice of their document"
    options: Mapping[str, Option] = {**SEGMENT_OPTIONS, **DIRECT_OPTIONS}

    def retrieve(self, query: Query) -> Evidence:
        direct = search_directly(query, get_weights(query, self))
        ranking = best(query.reading, direct.chunks, direct.scores, max(query.reach, MAX_CONSIDERED))
        return evidence_of(query, self.name, ranking, direct.format_paths(), len(direct.chunks), as_segments=True)
