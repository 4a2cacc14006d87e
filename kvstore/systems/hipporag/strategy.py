"""Strategy ``hipporag``: personalized PageRank over passages and entities (Gutiérrez et al. 2024, HippoRAG, section 2).
The *starts* are the nodes at which the walk begins, each with a *mass*, its relative probability.

The walk starts at the entities in the question, weighted by how specific they are. If no entity is known, it starts at
the nearest names by embedding (with an index of kind ``synonyms``), or else at the names in the nearest passage. With
that index, the walk also goes between names with nearly the same meaning (section 2.3). Passages are ranked only by the
probability mass that reaches them. If no name is found, kvstore uses dense search, and the paths say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...arguments import Option
from ...derived.passage_graph.neighborhood import NamesInChunksRequest, make_entity_node
from ...derived.passage_graph.pagerank import DEFAULT_WEIGHTS, compute_personalized_pagerank
from ...derived.passage_graph.walk import compute_name_masses, describe_paths, make_degree_request
from ...derived.synonyms.nearest_names import NearestNamesRequest
from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import recognize_entities
from ...structures.ranking import best, list_chunk_ids

#: The number of nearest names used in place of names in the question.
_NUM_NEAREST_NAMES = 5


class HippoRagStrategy:
    """Retrieval from the question's names over the graph to passages, ranked by PageRank alone."""

    name = "hipporag"
    description = "HippoRAG: personalized PageRank from the question's entities over chunks and entities"
    options: Mapping[str, Option] = {
        "restart": Option(0.5, 0.01, 0.99, "probability that the walk goes back to an entity in the question"),
        "synonyms": Option(
            0.05, 0, 10, "weight of a step to a synonym (a step to a related name: 0.05); needs the synonyms index"
        ),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Rank the chunks by personalized PageRank from the question's entities (HippoRAG, section 2).

        If no entity in the question is known, the walk starts at the names nearest to the question by embedding.
        Without the ``synonyms`` index, it starts at the names in the nearest chunk. If no walk can start, chunks are
        ranked by cosine.
        """
        reader = query.reading
        names = recognize_entities(query)
        # The start nodes of the walk with their masses; a name in fewer chunks has more mass.
        starts = compute_name_masses(names, reader.fetch(make_degree_request(names))) if names else {}
        if not starts:
            starts = _find_nearest_starts(query)
        if not starts:
            ranking = rank_by_vector(query, query.reach)
            path = "near the question (the question names no entity)"
            return evidence_of(query, self.name, ranking, paths=path, pool=len(ranking))
        with query.trace.step("personalized PageRank") as step:
            weights = replace(DEFAULT_WEIGHTS, synonym_link=option(query, self, "synonyms"))
            ranks = compute_personalized_pagerank(
                reader, starts, restart=option(query, self, "restart"), weights=weights
            )
            is_allowed = query.mask_allowed(ranks.chunks)
            ranking = best(reader, ranks.chunks[is_allowed], ranks.chunk_masses[is_allowed], query.reach)
            step.detail, step.count = ranks.cost, len(ranks.chunks)
        paths = describe_paths(reader, ranks, [chunk for chunk, _ in ranking])
        return evidence_of(query, self.name, ranking, paths=paths, pool=len(ranks.chunks))


def _find_nearest_starts(query: Query) -> dict[int, float]:
    """Return the start nodes of a PageRank walk, mapped to their masses (weights), for a question without a known name.

    They are the names nearest to the question by embedding, with their cosines, if positive, as masses. Without the
    ``synonyms`` index, they are the names in the nearest chunk, with equal masses.
    """
    with query.trace.step("nearest names") as step:
        # Pairs (entity, cosine), or None without the ``synonyms`` index.
        nearest_names = query.reading.fetch(NearestNamesRequest(query.vector, _NUM_NEAREST_NAMES))
        masses = {entity: cosine for entity, cosine in nearest_names or () if cosine > 0}
        reason = "no entity of the question is known"  # for EXPLAIN
        step.detail = f"by embedding: {reason}" if nearest_names is not None else "there is no index synonyms"
        step.count = len(masses)
    if nearest_names is None:
        nearest_chunk = list_chunk_ids(rank_by_vector(query, 1))
        with query.trace.step("names of the nearest chunk") as step:
            masses = dict.fromkeys(query.reading.fetch(NamesInChunksRequest(nearest_chunk)).tolist(), 1.0)
            step.detail, step.count = reason, len(masses)
    return {make_entity_node(entity): mass for entity, mass in masses.items()}
