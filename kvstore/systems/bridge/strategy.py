"""Strategy ``bridge``: entity → abstract → chunk (Bridge-RAG, Algorithm 1 and §4.3). An *abstract* summarizes
consecutive chunks of a document, or lower abstracts.

Entities of the question → filter → abstracts → expand ``depth`` levels up and down → candidate chunks → cosine → the
top chunks, with their abstracts. The abstracts of the rarest entities come first, then the ancestors and descendants of
these abstracts, level by level. The pool of candidates is limited, so a common name does not cause an exact scan. If no
entity is known, or every known entity is too common, kvstore uses dense search, and EXPLAIN says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...arguments import Option, format_count
from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence, LoadedChunk
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import QuestionEntity, recognize_entities
from ...structures.ranking import best
from .candidates import AbstractRoute, CandidatePool, CandidateRequest

#: The minimum size of the pool of candidates: in a small store, a fraction of the chunks would be only a handful.
_MIN_POOL_CHUNKS = 50


class BridgeStrategy:
    """Retrieval from the question's entities through abstracts to chunks, ranked by cosine."""

    name = "bridge"
    description = "Bridge-RAG: finds abstracts that mention the question's entities, and ranks the chunks below them"
    options: Mapping[str, Option] = {
        "pool": Option(0.1, 0.001, 1, "maximum number of candidates, as a share of all chunks searched (at least 50)"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Rank the chunks below the abstracts that mention the question's entities, by cosine.

        This is Bridge-RAG (section 4.3). Falls back to a vector search over all chunks if no entity is known, or if
        each known one is in no abstract or in too many.
        """
        num_chunks = query.chunk_count
        entities = recognize_entities(query)
        max_candidates = max(_MIN_POOL_CHUNKS, int(option(query, self, "pool") * num_chunks))
        pool = _collect_candidates(query, entities, max_candidates) if entities else None
        if pool is None or not pool.has_specific_entities:
            ranking = rank_by_vector(query, query.reach)
            reason = "its entities are in no abstract, or in too many" if entities else "none of its entities is known"
            with query.trace.step("no entity known" if not entities else "no specific entity") as step:
                step.detail = "dense search over all chunks instead"
            return evidence_of(query, self.name, ranking, paths=f"near the question ({reason})", pool=num_chunks)
        with query.trace.step("cosine") as step:
            ranking = best(query.reading, pool.chunks, pool.cosines, query.reach)
            step.detail, step.count = "question against the pool", len(pool.chunks)

        def format_path(loaded_chunk: LoadedChunk) -> str:
            """Return the route that led to a chunk."""
            return _format_route(loaded_chunk, pool.routes[loaded_chunk.chunk])

        return evidence_of(query, self.name, ranking, paths=format_path, pool=len(pool.chunks))


def _collect_candidates(query: Query, entities: Sequence[QuestionEntity], max_chunks: int) -> CandidatePool:
    """Return at most ``max_chunks`` chunks below the abstracts that mention ``entities``.

    Records a step for EXPLAIN.
    """
    request = CandidateRequest(entities, query.depth, max_chunks=max_chunks, vector=query.vector, allowed=query.allowed)
    with query.trace.step("search abstracts, then chunks") as step:
        pool = query.reading.fetch(request)
        step.detail = (
            f"{format_count(pool.num_abstracts, 'abstract')} at depth {query.depth}, pool capped at {max_chunks} chunks"
        )
        step.count = len(pool.chunks)
    return pool


def _format_route(loaded_chunk: LoadedChunk, route: AbstractRoute) -> str:
    """Return the path that EXPLAIN shows for a chunk, such as "tea → abstract 2 → 1 up 5".

    It is the entity, the abstract that mentions it, and the levels up or down to the abstract above the chunk.
    Abstracts are shown as their ordinals in the document.
    """
    document = loaded_chunk.document
    text = f"{route.entity} → abstract {document.get_abstract_ordinal(route.abstract)}"
    if not route.levels:
        return text
    direction = "up" if route.levels > 0 else "down"
    return f"{text} → {abs(route.levels)} {direction} {document.get_abstract_ordinal(route.target)}"
