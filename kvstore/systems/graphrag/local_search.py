"""Strategy ``local``: from the entities of a question to their chunks, relations and communities (GraphRAG).

The search starts at the entities that the question names. If these are fewer than ``entities``, the entities that its
nearest chunks mention are added; the published search takes the entities with the nearest descriptions (Edge et al.
2024; microsoft/graphrag, "Local Search"). The result is divided by shares among three kinds of text: reports of the
communities that most of the entities belong to, lines about the entities from the forest, and chunks.

A chunk is scored by the entities it mentions, each by weight and rarity, by its cosine and by the question's words. The
published order, by the first entity and then by relations, ranks every chunk about the first name above chunks about
two of the names.

In: a query, and the index ``communities``. Out: evidence: chunks, followed by reports (hits of the kind ``report``),
with lines about the entities as its context. If a question leads to no entity, the nearest chunks are returned.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...derived.passage_graph.edges import CAPITALISED, INSIDE, LOWER, TRIPLE, EntityRows
from ...derived.passage_graph.structure import GRAPH
from ...retrieval.dense_search import compute_cosines, rank_by_vector
from ...retrieval.evidence import Evidence, Hit
from ...retrieval.hierarchy import Hierarchy
from ...retrieval.lexical_search import find_question_terms, score_by_terms
from ...retrieval.ordered_addresses import sort_nodes
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import recognize_entities
from ...retrieval.word_search import rank_by_words
from ...structures.ranking import Ranking, best, scale_to_best
from ...text.words import count_text_tokens
from .communities import Communities
from .community_index import COMMUNITIES
from .report_hits import fit_reports, renumber_hits, require_communities

#: The number of chunks near the question, by vector and by words each, whose entities can be added.
_NUM_NEAREST = 20
#: The maximum number of chunks read for an entity; an entity with more is too general.
_MAX_ENTITY_CHUNKS = 2000
#: The maximum number of chunks found by entities whose cosines are read.
_MAX_CANDIDATES = 200
#: Features of an entity mentioned in the chunk's own text, rather than in its title or heading.
_OWN_TEXT_FEATURES = CAPITALISED | INSIDE | TRIPLE
#: The weight of an entity that the question does not name.
_UNNAMED_WEIGHT = 0.5
#: The maximum number of ancestors and descendants listed for a node of the forest.
_MAX_RELATIVES = 3

#: The share of WITHIN for lines about the entities.
_RELATIONS_SHARE = 0.35


class StartEntity(NamedTuple):
    """An entity that the search starts at; ``is_named`` is True if the question names it."""

    entity: int
    key: str
    weight: float
    is_named: bool


class LocalStrategy:
    """A strategy that goes from the question's entities to their chunks, relations and communities."""

    name = "local"
    description = "GraphRAG, local: the question's entities lead to their passages, relations and communities"
    needs = COMMUNITIES.name
    options: Mapping[str, Option] = {
        "entities": Option(10, 1, 100, "entities that the search starts at"),
        "reports": Option(0.15, 0, 0.9, "share of what is found that reports of communities have"),
    }

    def retrieve(self, query: Query) -> Evidence:
        communities = require_communities(query)
        rankings = [rank_by_vector(query, max(_NUM_NEAREST, query.reach)), rank_by_words(query, _NUM_NEAREST)]
        starts = _find_starts(query, rankings, int(option(query, self, "entities")))
        if not starts:
            return evidence_of(
                query, self.name, rankings[0], "near the question (no entity is known)", len(rankings[0])
            )
        with query.trace.step("passages of the entities") as step:
            ranking, paths = rank_entity_chunks(query, starts, rankings)
            step.detail, step.count = "by the entities they name, cosine and words", len(ranking)
        reports = self._build_reports(query, communities, starts)
        evidence = evidence_of(narrow_query(query, reports), self.name, ranking, paths, len(ranking))
        return replace(
            evidence, hits=renumber_hits([*evidence.hits, *reports]), context=self._list_relations(query, starts)
        )

    def _build_reports(self, query: Query, communities: Communities, starts: Sequence[StartEntity]) -> list[Hit]:
        """Return reports of the communities that most of the entities belong to, within their share."""
        share = option(query, self, "reports")
        max_reports = min(query.top - 1, math.ceil(share * query.top)) if share else 0
        matches: dict[int, list[str]] = {}
        with query.trace.step("communities of the entities") as step:
            for start in starts:
                for community in communities.find_by_entity(start.entity)[-1:]:
                    matches.setdefault(community, []).append(start.key)
            order = sorted(matches, key=lambda one: (-len(matches[one]), -communities.get(one).rating, one))
            paths = {community: f"community of {', '.join(matches[community])}" for community in order}
            reports = fit_reports(query, communities, paths, share, max_reports)
            step.detail, step.count = f"{len(reports)} reports", len(order)
        return reports

    def _list_relations(self, query: Query, starts: Sequence[StartEntity]) -> list[str]:
        """Return lines from the forest about the entities, those named in the question first, within their share."""
        room = math.inf if query.within is None else _RELATIONS_SHARE * query.within
        with query.trace.step("relations of the entities") as step:
            hierarchy = Hierarchy(query.view, _MAX_RELATIVES)
            lines: list[str] = []
            for start in starts:
                nodes = [node for node_group in hierarchy.find_nodes([start.key]) for node in node_group]
                for line in hierarchy.build_sentences(sort_nodes(query.view, nodes)[:_MAX_RELATIVES]):
                    room -= count_text_tokens(line)
                    if room >= 0:
                        lines.append(line)
            step.count = len(lines)
        return lines


def find_question_entities(query: Query) -> list[StartEntity]:
    """Return the entities that a question names, rarest first."""
    seeds = recognize_entities(query, capitalized_only=True)
    return [StartEntity(entity, seed.key, 1.0, True) for seed in seeds for entity in seed.identity.entities]


def find_near_entities(
    query: Query, rankings: Iterable[Ranking], excluded: Container[int], limit: int
) -> list[StartEntity]:
    """Return the most distinctive entities of some rankings of chunks, best first.

    Each mention adds the rarity of the entity times the chunk's score relative to the best.
    """
    state = query.view
    scores: dict[int, float] = {}
    for ranking in rankings:
        rows = state.get_part(GRAPH).read_chunk_rows(np.array([chunk for chunk, _ in ranking], np.uint64))
        rarities = _compute_rarities(query, rows.entities).tolist()
        entities, is_own_text = rows.entities.tolist(), ((rows.features & np.uint16(_OWN_TEXT_FEATURES)) != 0).tolist()
        top = max((score for _, score in ranking), default=0.0) or 1.0
        for number, (_, score) in enumerate(ranking):
            for position in range(rows.bounds[number], rows.bounds[number + 1]):
                if is_own_text[position] and entities[position] not in excluded:
                    gain = rarities[position] * max(0.0, score) / top
                    scores[entities[position]] = scores.get(entities[position], 0.0) + gain
    keys = {entity: state.entities.get(entity).key for entity in scores}
    best_score = max(scores.values(), default=0.0) or 1.0
    order = sorted(scores, key=lambda entity: (-scores[entity], keys[entity]))[:limit]
    return [StartEntity(entity, keys[entity], _UNNAMED_WEIGHT * scores[entity] / best_score, False) for entity in order]


def _find_starts(query: Query, rankings: Sequence[Ranking], limit: int) -> list[StartEntity]:
    """Return the entities that a question names, followed by those of its nearest chunks."""
    named_starts = find_question_entities(query)[:limit]
    with query.trace.step("entities of near passages") as step:
        top_rankings = [ranking[:_NUM_NEAREST] for ranking in rankings]
        near_starts = find_near_entities(
            query, top_rankings, {start.entity for start in named_starts}, limit - len(named_starts)
        )
        step.detail, step.count = ", ".join(start.key for start in near_starts) or "none", len(near_starts)
    return named_starts + near_starts


def rank_entity_chunks(
    query: Query, starts: Sequence[StartEntity], rankings: Sequence[Ranking] = ()
) -> tuple[Ranking, dict[int, str]]:
    """Rank chunks by their entities, their cosines and the question's words, and return the reason for each.

    Each of the three scores is scaled to its best. ``rankings`` are rankings by vector and by words whose chunks are
    candidates too.
    """
    state = query.view
    entities = np.array([start.entity for start in starts], np.uint32)
    graph = state.get_part(GRAPH)
    rows = graph.read_entity_rows(entities, graph.read_degrees(entities), _MAX_ENTITY_CHUNKS)
    weights = np.array([start.weight for start in starts]) * _compute_rarities(query, entities)
    scores, owners = _score_chunks(rows, weights)
    chunks = np.array(sorted(scores), np.uint64)
    chunks = chunks[query.mask_allowed(chunks)]
    candidates = best(
        state, chunks, np.array([scores[chunk] for chunk in chunks.tolist()]), _MAX_CANDIDATES + query.reach
    )
    ids = np.unique(np.array([chunk for ranking in (candidates, *rankings) for chunk, _ in ranking], np.uint64))
    if not len(ids):
        return [], {}
    total = scale_to_best(np.array([scores.get(chunk, 0.0) for chunk in ids.tolist()]))
    total += scale_to_best(compute_cosines(state, ids, query.vector).astype(np.float64))
    total += scale_to_best(score_by_terms(state, find_question_terms(state, query.question), ids))
    ranking = best(state, ids, total, query.reach)
    return ranking, {chunk: _format_path(starts, owners.get(chunk, ())) for chunk, _ in ranking}


def _format_path(starts: Sequence[StartEntity], owners: Iterable[int]) -> str:
    names = ", ".join(dict.fromkeys(starts[number].key for number in owners))
    return f"names {names}" if names else "near the question"


def _compute_rarities(query: Query, entities: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    degrees = query.view.get_part(GRAPH).read_degrees(entities)
    chunk_counts = np.maximum(1, np.where(degrees.informative, degrees.informative, degrees.total))
    return np.asarray(np.log(1 + query.view.counters.chunks / chunk_counts), np.float64)


def _score_chunks(rows: EntityRows, weights: npt.NDArray[np.float64]) -> tuple[dict[int, float], dict[int, list[int]]]:
    """Return the sum of the weights of the entities that each chunk mentions, and the indices of these entities."""
    scores: dict[int, float] = {}
    owners: dict[int, list[int]] = {}
    for number, weight in enumerate(weights.tolist()):
        row = slice(rows.bounds[number], rows.bounds[number + 1])
        for chunk, features in zip(rows.chunks[row].tolist(), rows.features[row].tolist(), strict=True):
            if features & ~LOWER:
                scores[chunk] = scores.get(chunk, 0.0) + weight
                owners.setdefault(chunk, []).append(number)
    return scores, owners


def narrow_query(query: Query, hits: Sequence[Hit]) -> Query:
    """Return a query with the hits and tokens that some hits take subtracted from its limits."""
    within = None if query.within is None else query.within - sum(count_text_tokens(hit.text) for hit in hits)
    narrowed_query = replace(query, top=query.top - len(hits), within=within)
    narrowed_query.trace, narrowed_query.reading = query.trace, query.reading
    return narrowed_query
