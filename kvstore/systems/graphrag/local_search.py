"""Strategy ``local``: from the entities of a question to their passages, relations and communities (GraphRAG).

The question's entities are those it names; where they are fewer than ``entities``, those that its nearest passages
name come behind them, as the published search takes the entities whose descriptions are nearest (Edge et al. 2024;
microsoft/graphrag, "Local Search"). What is found is parted among three kinds of text by shares: reports of the
communities that most of the entities are in, lines about the entities from the forest, and passages. A passage counts
by the entities it names, each by its weight and rarity, by its cosine and by the question's words: the published order,
by the first entity and then by relations, puts everything about the first name ahead of passages about two of them.

In: a query, and the index ``communities``. Out: evidence: passages, behind them reports (hits of the kind ``report``);
lines about the entities as its context. A question that leads to no entity is answered by the nearest passages.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...retrieval.dense_search import compute_cosines, rank_by_vector
from ...retrieval.evidence import Evidence, Hit
from ...retrieval.hierarchy import Hierarchy
from ...retrieval.lexical_search import find_question_terms, score_by_terms
from ...retrieval.ordered_addresses import sort_nodes
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import recognize_entities
from ...retrieval.word_search import rank_by_words
from ...structures.ranking import Ranking, scale_to_best, best
from ...text.words import count_text_tokens
from ..passage_graph.edges import CAPITALISED, INSIDE, LOWER, TRIPLE, EntityRows
from ..passage_graph.structure import GRAPH
from .communities import Communities
from .community_index import COMMUNITIES
from .report_hits import fit_reports, renumber_hits, require_communities

#: Passages near the question, by vector and by words each, whose entities may stand beside those it names.
_NUM_NEAREST = 20
#: Passages of an entity that are read at most: one in more leads nowhere in particular.
_MAX_ENTITY_CHUNKS = 2000
#: Passages by their entities whose cosines are read.
_MAX_CANDIDATES = 200
#: What says that a passage itself writes of an entity, not the title or heading above it.
_OWN_TEXT_FEATURES = CAPITALISED | INSIDE | TRIPLE
#: What an entity counts that the question does not name.
_UNNAMED_WEIGHT = 0.5
#: Ancestors and descendants of a place in the forest that are told.
_MAX_RELATIVES = 3


class StartEntity(NamedTuple):
    """An entity that the search starts at; ``is_named`` says whether the question names it."""

    entity: int
    key: str
    weight: float
    is_named: bool


class LocalStrategy:
    """From the question's entities to their passages, relations and communities."""

    name = "local"
    description = "GraphRAG, local: the question's entities lead to their passages, relations and communities"
    needs = COMMUNITIES.name
    options: Mapping[str, Option] = {
        "entities": Option(10, 1, 100, "entities that the search starts at"),
        "reports": Option(0.15, 0, 0.9, "share of what is found that reports of communities have"),
        "relations": Option(0.35, 0, 0.9, "lines about the entities, as a share of WITHIN"),
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
        """Reports of the communities that most of the entities are in, within their share."""
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
        """What the forest says of the entities, those that the question names first, within their share."""
        share = option(query, self, "relations")
        room = math.inf if query.within is None else share * query.within
        with query.trace.step("relations of the entities") as step:
            hierarchy = Hierarchy(query.view, _MAX_RELATIVES)
            lines: list[str] = []
            for start in starts if share else ():
                nodes = [node for node_group in hierarchy.find_nodes([start.key]) for node in node_group]
                for line in hierarchy.build_sentences(sort_nodes(query.view, nodes)[:_MAX_RELATIVES]):
                    room -= count_text_tokens(line)
                    if room >= 0:
                        lines.append(line)
            step.count = len(lines)
        return lines


def find_question_entities(query: Query) -> list[StartEntity]:
    """The entities that a question names, the rarest first."""
    seeds = recognize_entities(query, capitalized_only=True)
    return [StartEntity(entity, seed.key, 1.0, True) for seed in seeds for entity in seed.identity.entities]


def find_near_entities(
    query: Query, rankings: Iterable[Ranking], excluded: Container[int], limit: int
) -> list[StartEntity]:
    """The entities that some rankings of passages name most tellingly, best first: each counts with its rarity, times
    the share of the best score that the passage has."""
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
    """The entities that a question names; behind them those of its nearest passages."""
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
    """Passages by the entities they name, their cosines with the question, and its words, each as a share of the best;
    best first, and why each is there.

    ``rankings`` are rankings by vector and by words, whose passages are candidates too.
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
    """The weights of the entities that each passage names, added up in their order, and which these are."""
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
    """A query with the room that some hits leave."""
    within = None if query.within is None else query.within - sum(count_text_tokens(hit.text) for hit in hits)
    narrowed_query = replace(query, top=query.top - len(hits), within=within)
    narrowed_query.trace, narrowed_query.reading = query.trace, query.reading
    return narrowed_query
