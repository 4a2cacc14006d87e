"""Strategy ``local``: from the entities in a question to their chunks, relations and communities (GraphRAG). A *start*
is an entity at which a search begins, with its weight. *Mention bits* say how a chunk mentions an entity, such as in
the title or only in lower case.

The search starts at the entities that the question mentions. If these are fewer than ``entities``, the entities that
its nearest chunks mention are added; the published search takes the entities with the nearest descriptions (Edge et al.
2024; microsoft/graphrag, "Local Search"). The result is divided by shares among three kinds of text: reports of the
communities that most of the entities belong to, lines about the entities from the forest and from descriptions that a
model wrote (EXTRACT descriptions), and chunks.

A chunk is scored by the entities it mentions, each by weight and rarity, by its cosine and by the question's words. The
published order, by the first entity and then by relations, ranks every chunk about the first name above chunks about
two of the names.

In: a query, and the ``communities`` index. Out: evidence: chunks and reports (hits of the kind ``report``), with lines
about the entities as its context. If a question leads to no entity, the nearest chunks are returned.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...derived.passage_graph.edges import CAPITALIZED, INSIDE, LOWER, TRIPLE, Degrees, EntityRows
from ...derived.passage_graph.neighborhood import ChunkNeighborhood, NeighborhoodRequest
from ...retrieval.dense_search import CosineRequest, rank_by_vector
from ...retrieval.evidence import Evidence, Hit
from ...retrieval.lexical_search import (
    TermWeights,
    WordScoreRequest,
    build_count_request,
    build_term_weights,
    parse_question_words,
    rank_by_words,
)
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import EntityKeyRequest, recognize_entities
from ...structures.ranking import Ranking, append_tails, best, list_chunk_ids, scale_to_best, select_highest
from ...text.words import count_text_tokens
from ..descriptions.written_descriptions import EntityDescriptionsRequest
from .community_index import COMMUNITIES
from .community_requests import EntityChunksRequest, FinestCommunitiesRequest, HierarchySentencesRequest
from .report_hits import ReportCandidate, insert_reports, select_reports

#: The number of chunks near the question, by vector and by words each, whose entities can be added.
_NUM_NEAREST = 20
#: The maximum number of chunks read for an entity; an entity with more is too general.
_MAX_ENTITY_CHUNKS = 2000
#: The maximum number of chunks found by entities whose cosines are read.
_MAX_CANDIDATES = 200
#: Mention bits of an entity that is mentioned in the chunk's own text, rather than in its title or heading.
_OWN_TEXT_BITS = CAPITALIZED | INSIDE | TRIPLE
#: The weight of an entity that the question does not mention.
_UNNAMED_WEIGHT = 0.5
#: The maximum number of ancestors and descendants listed for a node of the forest.
_MAX_RELATIVES = 3
#: The maximum number of descriptions of an entity.
_MAX_DESCRIPTIONS = 3

#: The share of WITHIN for lines about the entities.
_RELATIONS_SHARE = 0.35


class StartEntity(NamedTuple):
    """An entity that the search starts at, its key (normal form of the name), and its weight in scores.

    ``is_named`` is True if the question mentions it.
    """

    entity: int
    key: str
    weight: float
    is_named: bool


class LocalSearch(NamedTuple):
    """The input of a local search: the entities it starts at, and rankings whose chunks are also candidates."""

    starts: Sequence[StartEntity]
    rankings: Sequence[Ranking] = ()


class LocalResult(NamedTuple):
    """The ranking of a local search, and the reason (path) for each chunk."""

    ranking: Ranking
    paths: dict[int, str]


class LocalStrategy:
    """A strategy that goes from the question's entities to their chunks, relations and communities."""

    name = "local"
    description = "GraphRAG, local search: chunks, relations and communities of the question's entities"
    needs = COMMUNITIES.name
    options: Mapping[str, Option] = {
        "entities": Option(10, 1, 100, "number of entities that the search starts at"),
        "reports": Option(0.15, 0, 0.9, "share of the results that are reports on communities"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Return chunks and community reports about the question's entities (local search of GraphRAG).

        The context of the evidence has lines about these entities. If the question leads to no entity, returns the
        nearest chunks.
        """
        nearest_chunks = rank_by_vector(query, max(_NUM_NEAREST, query.reach))
        rankings = [nearest_chunks[:_NUM_NEAREST], rank_by_words(query, _NUM_NEAREST)]
        starts = _find_start_entities(query, rankings, int(option(query, self, "entities")))
        if not starts:
            path = "near the question (no entity is known)"
            return evidence_of(query, self.name, nearest_chunks, paths=path, pool=len(nearest_chunks))
        with query.trace.step("chunks of the entities") as step:
            ((ranking, paths),) = search_locally(query, [LocalSearch(starts, rankings)], query.reach)
            ranking = append_tails(ranking, nearest_chunks, top=query.reach)
            step.detail, step.count = "by the entities they mention, cosine and words", len(ranking)
        share = option(query, self, "reports")
        # Chunks are searched within the limits (hits and tokens) that the reports leave.
        evidence, _ = insert_reports(
            query,
            share,
            self._build_reports(query, starts, share),
            lambda limited_query: evidence_of(limited_query, self.name, ranking, paths, pool=len(ranking)),
        )
        return replace(evidence, context=self._list_entity_lines(query, starts))

    def _build_reports(self, query: Query, starts: Sequence[StartEntity], share: float) -> dict[int, Hit]:
        """Return the reports on the communities with the most start entities, by community, best first.

        If several communities have equally many, the community with the higher rating (number of chunks relative to its
        level) comes first. ``share`` is the fraction of the query's hits and tokens for reports.
        """
        names: dict[int, list[str]] = {}
        ratings: dict[int, int] = {}
        with query.trace.step("communities of the entities") as step:
            finest = query.reading.fetch(FinestCommunitiesRequest([start.entity for start in starts]))
            for start, finest_community in zip(starts, finest, strict=True):
                if finest_community is not None:
                    names.setdefault(finest_community.community, []).append(start.key)
                    ratings[finest_community.community] = finest_community.rating
            order = sorted(names, key=lambda community: (-len(names[community]), -ratings[community], community))
            candidates = [
                ReportCandidate(community, f"community of {', '.join(names[community])}") for community in order
            ]
            reports = select_reports(query, candidates, share)
            step.detail, step.count = f"{len(reports)} reports", len(order)
        return reports

    def _list_entity_lines(self, query: Query, starts: Sequence[StartEntity]) -> list[str]:
        """Return lines about each start entity: sentences that a model wrote, then its parents and children.

        If the tokens are limited, the lines have at most :data:`_RELATIONS_SHARE` of them; the first line that does not
        fit ends the list.
        """
        remaining_tokens = math.inf if query.within is None else _RELATIONS_SHARE * query.within
        with query.trace.step("relations of the entities") as step:
            lines: dict[str, None] = {}
            relations, descriptions = query.reading.fetch(
                HierarchySentencesRequest([start.key for start in starts], _MAX_RELATIVES, _MAX_RELATIVES),
                EntityDescriptionsRequest([start.entity for start in starts], _MAX_DESCRIPTIONS),
            )
            # The lines of one entity after another: first its descriptions, then its relations.
            for line in chain.from_iterable(chain.from_iterable(zip(descriptions, relations, strict=True))):
                if line in lines:
                    continue
                remaining_tokens -= count_text_tokens(line)
                if remaining_tokens < 0:
                    break
                lines[line] = None
            step.count = len(lines)
            if any(descriptions):
                step.detail = f"{sum(map(len, descriptions))} descriptions that a model wrote"
        return list(lines)


def find_question_entities(query: Query) -> list[StartEntity]:
    """Return the entities that a question mentions, rarest first."""
    names = recognize_entities(query)
    return [
        StartEntity(entity, name.key, weight=1.0, is_named=True)
        for name in names
        for entity in name.identity.entity_ids
    ]


def find_near_entities(
    query: Query, rankings: Iterable[Ranking], excluded_entities: Container[int], limit: int
) -> list[StartEntity]:
    """Return at most ``limit`` of the entities that rank highest in rankings of chunks, best first.

    Each mention in a chunk's own text, not in its title or heading, adds to the score of the entity: its rarity times
    the chunk's score relative to the best. Entities in ``excluded_entities`` are skipped.
    """
    scores = _score_entities(query, rankings, excluded_entities)
    candidates = select_highest(scores, limit)
    if not candidates:
        return []
    keys = query.reading.fetch(EntityKeyRequest(candidates))
    best_score = max(scores.values()) or 1.0  # not 0, because it is a divisor
    order = sorted(candidates, key=lambda entity: (-scores[entity], keys[entity]))[:limit]
    return [
        StartEntity(entity, keys[entity], weight=_UNNAMED_WEIGHT * scores[entity] / best_score, is_named=False)
        for entity in order
    ]


def _score_entities(query: Query, rankings: Iterable[Ranking], excluded_entities: Container[int]) -> dict[int, float]:
    """Return the scores of the entities that ranked chunks mention in their text, not only in headings, by entity.

    Each mention adds the rarity of the entity times the chunk's score relative to the best of its ranking. Entities in
    ``excluded_entities`` are skipped.
    """
    scores: dict[int, float] = {}
    rankings = list(filter(None, rankings))
    chunk_lists = list(map(list_chunk_ids, rankings))
    no_entities = np.empty(0, np.uint32)
    requests = [NeighborhoodRequest(chunks, no_entities, max_chunks=0, with_links=False) for chunks in chunk_lists]
    for ranking, (neighborhood, _) in zip(rankings, query.reading.fetch_all(requests), strict=True):
        max_score = max(score for _, score in ranking) or 1.0  # not 0, because it is a divisor
        for (_, score), mentions in zip(ranking, _iter_own_mentions(query, neighborhood), strict=True):
            for entity, rarity in mentions:
                if entity not in excluded_entities:
                    scores[entity] = scores.get(entity, 0.0) + rarity * max(0.0, score) / max_score
    return scores


def _iter_own_mentions(query: Query, neighborhood: ChunkNeighborhood) -> Iterator[list[tuple[int, float]]]:
    """Yield, for each chunk, the entities that its own text mentions, each with its rarity (IDF).

    Entities that only the title or a heading of the chunk mentions are omitted. ``neighborhood`` has all mentions.
    """
    rows = neighborhood.rows
    rarities = _compute_rarities(query, neighborhood.degrees)
    is_in_own_text = (rows.mention_bits & np.uint16(_OWN_TEXT_BITS)) != 0
    mentions = list(zip(rows.entities.tolist(), rarities.tolist(), is_in_own_text.tolist(), strict=True))
    for start, stop in pairwise(rows.bounds.tolist()):  # the range of the mentions of a chunk
        yield [(entity, rarity) for entity, rarity, is_own in mentions[start:stop] if is_own]


def _find_start_entities(query: Query, rankings: Sequence[Ranking], limit: int) -> list[StartEntity]:
    """Return at most ``limit`` entities: first the names in the question, then names in the chunks of ``rankings``."""
    named_starts = find_question_entities(query)[:limit]
    with query.trace.step("entities of near chunks") as step:
        top_rankings = [ranking[:_NUM_NEAREST] for ranking in rankings]
        near_starts = find_near_entities(
            query, top_rankings, {start.entity for start in named_starts}, limit - len(named_starts)
        )
        step.detail, step.count = ", ".join(start.key for start in near_starts) or "none", len(near_starts)
    return named_starts + near_starts


def search_locally(query: Query, searches: Sequence[LocalSearch], top: int) -> list[LocalResult]:
    """Run several local searches together, so that they share reads of the store; each returns at most ``top`` chunks.

    A local search ranks the chunks that mention its start entities by the sum of three scores: the weights of these
    entities, the cosine similarity and BM25. Each score is divided by its maximum in the search.
    """
    words = parse_question_words(query.question, query.stem)
    entities = np.array([start.entity for search in searches for start in search.starts], np.uint32)
    (rows, degrees), counts = query.reading.fetch(
        EntityChunksRequest(entities, _MAX_ENTITY_CHUNKS), build_count_request(words)
    )
    word_weights = build_term_weights(query.reading.counters, words.list_lookup_terms(counts), counts)
    rarities = _compute_rarities(query, degrees)
    pools = []
    # The entities of all searches are in one array; a search has the range from ``first`` to before ``stop``. Its
    # bounds need not begin at 0, because they are positions in the shared arrays.
    bounds = accumulate((len(search.starts) for search in searches), initial=0)
    for search, (first, stop) in zip(searches, pairwise(bounds), strict=True):
        search_rows = EntityRows(rows.bounds[first : stop + 1], rows.chunks, rows.mention_bits)
        entity_weights = np.array([start.weight for start in search.starts]) * rarities[first:stop]
        pools.append(_select_candidates(query, search, search_rows, entity_weights))
    return _rank_pools(query, searches, pools, word_weights, top)


class _SearchPool(NamedTuple):
    """The chunks that one search ranks (ids ascending), with their scores by entities.

    ``start_indexes_by_chunk`` has the start entities that each chunk mentions, as indexes into the search's ``starts``.
    """

    chunks: npt.NDArray[np.uint64]
    scores: npt.NDArray[np.float64]
    start_indexes_by_chunk: Mapping[int, Sequence[int]]


def _select_candidates(
    query: Query, search: LocalSearch, rows: EntityRows, weights: npt.NDArray[np.float64]
) -> _SearchPool:
    """Return the candidate chunks of a search, with their scores and the start entities that they mention.

    The candidates are the chunks whose start entities have the largest total weight, and the chunks of the search's
    ``rankings``. ``rows`` has the chunks of each start entity, and ``weights`` the weight of each start entity.
    """
    scores, start_indexes_by_chunk = _score_chunks(rows, weights)
    chunks = np.array(sorted(scores), np.uint64)
    chunks = chunks[query.mask_allowed(chunks)]
    chunk_scores = np.array([scores[chunk] for chunk in chunks.tolist()])
    rankings = (best(query.reading, chunks, chunk_scores, _MAX_CANDIDATES), *search.rankings)
    candidates = np.unique(np.array([chunk for ranking in rankings for chunk, _ in ranking], np.uint64))
    candidate_scores = np.array([scores.get(chunk, 0.0) for chunk in candidates.tolist()])
    return _SearchPool(candidates, candidate_scores, start_indexes_by_chunk)


def _rank_pools(
    query: Query, searches: Sequence[LocalSearch], pools: Sequence[_SearchPool], weights: TermWeights, top: int
) -> list[LocalResult]:
    """Return the ranking of each search's candidate chunks (``pools``) by entities, cosine and the question's words.

    Reads the cosines and word scores of all searches together. ``weights`` are the BM25 weights of the words. A ranking
    has at most ``top`` chunks.
    """
    all_chunks = np.unique(np.concatenate([pool.chunks for pool in pools]))
    if not len(all_chunks):
        return [LocalResult([], {}) for _ in searches]
    cosines, word_scores = query.reading.fetch(
        CosineRequest(all_chunks, query.vector), WordScoreRequest(weights, all_chunks)
    )
    results = []
    for search, pool in zip(searches, pools, strict=True):
        indexes = np.searchsorted(all_chunks, pool.chunks)
        total = scale_to_best(pool.scores) + scale_to_best(cosines[indexes].astype(np.float64))
        total += scale_to_best(word_scores[indexes])
        ranking = best(query.reading, pool.chunks, total, top)
        paths = {chunk: _format_path(search.starts, pool.start_indexes_by_chunk.get(chunk, ())) for chunk, _ in ranking}
        results.append(LocalResult(ranking, paths))
    return results


def _format_path(starts: Sequence[StartEntity], indexes: Iterable[int]) -> str:
    """Return the ``path`` of a hit, a phrase that says why its chunk was retrieved.

    It lists the start entities that the chunk mentions; ``indexes`` are their indexes in ``starts``.
    """
    names = ", ".join(dict.fromkeys(starts[index].key for index in indexes))
    return f"names {names}" if names else "near the question"


def _compute_rarities(query: Query, degrees: Degrees) -> npt.NDArray[np.float64]:
    """Return the rarity (IDF) of entities: ln(1 + number of all chunks / number of chunks that mention the entity).

    ``degrees`` has the numbers of chunks that mention each entity. Chunks that mention an entity only in lower case
    count only if there are no others.
    """
    chunk_counts = np.maximum(1, np.where(degrees.informative, degrees.informative, degrees.total))
    return np.asarray(np.log(1 + query.reading.counters.chunks / chunk_counts), np.float64)


def _score_chunks(rows: EntityRows, weights: npt.NDArray[np.float64]) -> tuple[dict[int, float], dict[int, list[int]]]:
    """Return two mappings from the chunks in ``rows``: the sum of the weights of their entities, and these entities.

    Row i of ``rows`` has the chunks that mention entity i, and ``weights[i]`` is its weight; the second mapping lists
    these indexes i. The mention bits say how a chunk mentions an entity; a mention only in lower case does not count.
    """
    scores: dict[int, float] = {}
    entities_by_chunk: dict[int, list[int]] = {}
    for index, weight in enumerate(weights.tolist()):
        mentions = slice(rows.bounds[index], rows.bounds[index + 1])
        for chunk, mention_bits in zip(
            rows.chunks[mentions].tolist(), rows.mention_bits[mentions].tolist(), strict=True
        ):
            if mention_bits & ~LOWER:  # has a mention that is not in lower case
                scores[chunk] = scores.get(chunk, 0.0) + weight
                entities_by_chunk.setdefault(chunk, []).append(index)
    return scores, entities_by_chunk
