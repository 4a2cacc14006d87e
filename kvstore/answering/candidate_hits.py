"""The hits whose passages the answer reader reads, in addition to those of the strategy.

In: the hits and their query. Out: the hits, followed by the chunks with the nearest vectors. If the question names the
date or number of a document, chunks of that document follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np

from ..retrieval.dense_search import compute_cosines, rank_by_vector
from ..retrieval.evidence import Hit
from ..retrieval.query import Query, evidence_of
from ..structures.ranking import Ranking, best
from ..text.words import find_reference_numbers
from .extractive import MAX_CHUNKS

#: The maximum number of chunks examined in a document that the question identifies by a number.
_MAX_DOCUMENT_CHUNKS = 500


def add_candidate_hits(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Return the hits, then the nearest chunks by vector, then those of a document that the question identifies.

    Each chunk is returned once. The embedder must be able to embed the question.
    """
    limited_query = query.copy_with_limits(min(query.top, MAX_CHUNKS), None)
    explained_rankings = [
        (rank_by_vector(limited_query, MAX_CHUNKS), "near the question"),
        (_rank_identified_document(hits, query), "in the document with the number that the question names"),
    ]
    hits_by_chunk = {(hit.document, hit.ordinal): hit for hit in hits}
    for ranking, explanation in explained_rankings:
        if ranking:
            for hit in evidence_of(limited_query, "vector", ranking, explanation, query.chunk_count).hits:
                hits_by_chunk.setdefault((hit.document, hit.ordinal), hit)
    return list(hits_by_chunk.values())


def _rank_identified_document(hits: Sequence[Hit], query: Query) -> Ranking:
    """Rank the chunks of the document that has all reference numbers of the question, nearest to the question first.

    It is the first document of the hits that has these dates, invoice numbers or versions in its name, its title or the
    text of its hit. Return an empty ranking if the question has no reference number, or if no document has all of them.
    """
    numbers = set(find_reference_numbers(query.question))
    if not numbers:
        return []
    for hit in hits:
        text = f"{PurePosixPath(hit.document).stem} {hit.title or ''} {hit.text}"
        record = query.state.documents.find_by_key(hit.document)
        if record is not None and numbers.issubset(find_reference_numbers(text)):
            ordinals = range(min(record.chunk_count, _MAX_DOCUMENT_CHUNKS))
            chunks = np.array([record.get_chunk_id(ordinal) for ordinal in ordinals], np.uint64)
            return best(query.state, chunks, compute_cosines(query.state, chunks, query.vector), MAX_CHUNKS)
    return []
