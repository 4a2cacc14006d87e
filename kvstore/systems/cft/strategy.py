"""Strategy ``cft``: chunks by vector, with the relations of the question's entities in the entity forest (CFT-RAG
§3.4). The *entity forest* has trees of parent and child entities, such as *tug* under *ship*. A *relation* is an edge
of it as text, "tug under ship".

The question's nearest chunks (Figure 1) and its entities → filter → the nodes of each entity in the forest → the first
*n* ancestors and descendants of each node (Algorithm 3) → template sentences, the evidence's ``context``. The chunks
that assert those relations are ranked by cosine, and fused with the nearest chunks by reciprocal rank fusion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...arguments import Option
from ...retrieval.dense_search import NearestChunksRequest
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import QuestionEntity, RecognitionRequest, record_recognized_entities
from ...structures.ranking import Ranking, SortKeySource, append_tails, assign_ranks, best
from .rendered_relations import (
    RelationChunksRequest,
    RelationMention,
    RelationsRequest,
    RenderedRelations,
    ScoredRelation,
)

#: The maximum number of nodes of an entity to describe.
_MAX_NODES = 8
#: The number of best chunks of each ranking that are fused, however many hits are requested.
_NUM_FUSED = 8
#: The constant of reciprocal rank fusion: the larger, the less the first ranks count more than later ones.
_FUSION_CONSTANT = 10


class CftStrategy:
    """Retrieval of chunks by vector, with sentences about the question's entities in the forest."""

    name = "cft"
    description = "CFT-RAG: chunks by vector, with sentences about the question's entities in the entity forest"
    options: Mapping[str, Option] = {
        "relatives": Option(3, 1, 100, "maximum number of ancestors, and of descendants, to describe for each node"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Fuse the nearest chunks with the chunks that assert the parents and children of the question's entities.

        The ``context`` of the evidence has sentences about the ancestors and descendants of these entities (CFT-RAG,
        section 3.4).
        """
        reader = query.reading
        # Only the first chunks are fused; the further ones fill the result if more hits are requested.
        nearest_request = NearestChunksRequest(query.vector, max(_NUM_FUSED, query.reach), query.allowed)
        with query.trace.record_requests(reader, "vector search", "recognize entities") as (search, recognition):
            (near_ranking, search.detail), entities = reader.fetch(nearest_request, RecognitionRequest(query.question))
            search.count = len(near_ranking)
            record_recognized_entities(query, entities, recognition)
        rendered = _read_relations(query, entities, max_relatives=int(option(query, self, "relatives")))
        relation_ranking, relations_by_chunk = _rank_chunks_by_relation(query, rendered.relations)
        ranking, paths = _fuse_rankings(
            reader, [("vector", near_ranking[:_NUM_FUSED]), ("relations", relation_ranking)]
        )
        paths |= {
            chunk: f"{path}, states {relations_by_chunk[chunk]}"
            for chunk, path in paths.items()
            if chunk in relations_by_chunk
        }
        ranking = append_tails(ranking, near_ranking, top=query.reach)
        evidence = evidence_of(query, self.name, ranking, paths, pool=query.chunk_count)
        return replace(evidence, context=rendered.sentences)


def _read_relations(query: Query, entities: Sequence[QuestionEntity], max_relatives: int) -> RenderedRelations:
    """Return the relations of the question's entities in the entity forest, as sentences and as citable edges.

    Each of an entity's nodes in the forest has at most ``max_relatives`` ancestors and as many descendants.
    """
    names = [[name for name, _ in entity.identity.names] for entity in entities]
    with query.trace.step("find nodes in the forest") as step:
        rendered = query.reading.fetch(RelationsRequest(names, _MAX_NODES, max_relatives))
        node_counts = [f"{entity.key} ({count})" for entity, count in zip(entities, rendered.node_counts, strict=True)]
        step.detail = ", ".join(node_counts) or "no entity known: dense search alone"
        step.count = sum(rendered.node_counts)
    with query.trace.step("ancestors and descendants") as step:
        step.detail = f"the first {max_relatives} of each node"
        step.count = len(rendered.sentences)
    return rendered


def _rank_chunks_by_relation(query: Query, relations: Sequence[RelationMention]) -> tuple[Ranking, dict[int, str]]:
    """Return the ranking by cosine of the chunks that assert ``relations``, and each chunk's first relation as text.

    A relation is "child under parent", with its document and offset. The ranking has at most :data:`_NUM_FUSED` chunks.
    """
    ranking: Ranking = []
    chunk_relations: dict[int, ScoredRelation] = {}
    request = RelationChunksRequest(relations, query.vector)
    with query.trace.step("chunks that state the relations") as step:
        if relations:
            chunk_relations = query.reading.fetch(request)
            ids = sorted(chunk_relations)
            cosines = np.array([chunk_relations[chunk].cosine for chunk in ids], np.float32)
            ranking = best(query.reading, ids, cosines, _NUM_FUSED)
        step.detail, step.count = "by cosine with the question", len(chunk_relations)
    return ranking, {chunk: scored_relation.relation for chunk, scored_relation in chunk_relations.items()}


def _fuse_rankings(state: SortKeySource, rankings: Sequence[tuple[str, Ranking]]) -> tuple[Ranking, dict[int, str]]:
    """Merge named rankings into one by the ranks of the chunks (reciprocal rank fusion, Cormack et al. 2009).

    The score of a chunk is the sum of 1 / (:data:`_FUSION_CONSTANT` + rank) over the rankings. Equal scores in a
    ranking share a rank. Also returns, for each chunk, its rank in each named ranking as text.
    """
    scores: dict[int, float] = {}
    paths: dict[int, list[str]] = {}
    for name, ranking in rankings:
        for chunk, rank in assign_ranks(ranking):
            scores[chunk] = scores.get(chunk, 0.0) + 1 / (_FUSION_CONSTANT + rank)
            paths.setdefault(chunk, []).append(f"{name} #{rank}")
    fused_ranking = best(state, list(scores), np.array(list(scores.values())), len(scores))
    return fused_ranking, {chunk: ", ".join(chunk_ranks) for chunk, chunk_ranks in paths.items()}
