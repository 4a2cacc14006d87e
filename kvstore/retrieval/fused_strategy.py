"""Fusion by rank (RRF): one ranking for several questions, several strategies, or both. A *result* is the evidence of
one strategy for one question. The *id* of a hit is its chunk id or, for a summary or report, a negative number. A
*segment* is adjacent chunks merged into one text.

Each strategy answers each question, as dsRAG (D-Star-AI) searches for several queries at once. A hit scores the sum of
1 / (constant + rank) over the results that contain it (Cormack, Clarke and Büttcher 2009), so that scores of different
strategies are never compared. The chunks of the fused ranking then become hits as those of any strategy: a reranker,
WITHIN and AS SEGMENTS apply once. Reports and summaries are hits of their own among them.

In: a query, whose question is all questions together. Out: evidence, in which the path of each hit names the results
that contain it, with its rank in each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

from ..arguments import Choice, Option
from ..structures.ranking import Ranking, append_tails, assign_ranks
from ..text.words import count_text_tokens
from .evidence import Evidence, Hit
from .query import Query, Strategy, evidence_of
from .respelling import respell_question

#: The constant of the fusion. A larger constant reduces the advantage of the first ranks.
_FUSION_CONSTANT = 10
#: The number of hits of each result that are fused; later hits follow them, alternating between results.
_NUM_FUSED = 50


class _StrategyResult(NamedTuple):
    """The evidence of one strategy for one question, and the label that EXPLAIN and the fused hits show for it."""

    label: str
    evidence: Evidence


class FusedStrategy:
    """A strategy that fuses the results of several strategies for several questions.

    Each strategy receives only the options that it declares.
    """

    def __init__(self, strategies: Sequence[Strategy], questions: Sequence[str] = ()) -> None:
        """Create a strategy that runs ``strategies`` for each of ``questions`` (empty: for the query's question)."""
        self.strategies = strategies
        self.questions = questions
        self.name = ", ".join(strategy.name for strategy in strategies)
        self.description = f"{self.name}, fused by rank"

    @property
    def options(self) -> Mapping[str, Option | Choice]:
        """The options of all strategies. If two have the same name, the first strategy's is used."""
        return {name: option for strategy in reversed(self.strategies) for name, option in strategy.options.items()}

    @property
    def overview(self) -> bool:
        """True if any of the strategies answers overview questions."""
        return any(getattr(strategy, "overview", False) for strategy in self.strategies)

    def retrieve(self, query: Query) -> Evidence:
        """Run each strategy for each question, and return the hits of all results, fused by rank."""
        results = list(self._iter_results(query))
        with query.trace.step("fuse by rank") as step:
            fusion = _fuse_results(query, results)
            step.detail = f"1 / ({_FUSION_CONSTANT} + rank), of {', '.join(label for label, _ in results)}"
            step.count = len(fusion.ranking)
        # Hits of chunks are built again, with abstracts, segments and the reranker; other hits are kept as they are.
        chunk_ranking = [(hit_id, score) for hit_id, score in fusion.ranking if hit_id not in fusion.other_hits]
        num_ranked = max(result.evidence.pool for result in results)
        evidence = evidence_of(query, self.name, chunk_ranking, fusion.explanations, pool=num_ranked)
        other_hits = [
            replace(fusion.other_hits[hit_id], score=score, path=fusion.explanations[hit_id])
            for hit_id, score in fusion.ranking
            if hit_id in fusion.other_hits
        ]
        context = dict.fromkeys(line for result in results for line in result.evidence.context)
        return replace(evidence, hits=_merge_hits(query, evidence.hits, other_hits), context=list(context))

    def _iter_results(self, query: Query) -> Iterator[_StrategyResult]:
        """Run each strategy for each question, and yield the results.

        If the strategy has its own questions, each is respelled here. The question of the query is already respelled.
        """
        for number, question in enumerate(self.questions or (query.question,), 1):
            question_query = copy(query)
            if self.questions:
                question_query.question, _ = respell_question(question, query.state)
            for strategy in self.strategies:  # they share the cached vector of the question
                evidence = strategy.retrieve(_copy_for_strategy(question_query, strategy))
                label = f"question {number}, {strategy.name}" if self.questions else strategy.name
                with query.trace.step(f"hits of {label}") as step:
                    step.detail, step.count = question_query.question, len(evidence.hits)
                yield _StrategyResult(label, evidence)


def _copy_for_strategy(query: Query, strategy: Strategy) -> Query:
    """Return a copy of a query for one of the fused strategies, which requests at least ``_NUM_FUSED`` hits.

    It has only the options of this strategy, and no token limit, reranker, segments or abstracts, because these apply
    to the fused hits.
    """
    limited_query = query.copy_with_limits(top=max(_NUM_FUSED, query.reach), within=None)
    limited_query.rerank, limited_query.segments, limited_query.abstracts = None, "none", False
    limited_query.options = {name: value for name, value in query.options.items() if name in strategy.options}
    return limited_query


class _Fusion(NamedTuple):
    """The fused ranking, with the explanation of each hit (its ``path``).

    An id in ``ranking`` is a chunk id or, if negative, a key of ``other_hits``, which are not single chunks.
    """

    ranking: Ranking
    explanations: dict[int, str]
    other_hits: dict[int, Hit]


def _fuse_results(query: Query, results: Sequence[_StrategyResult]) -> _Fusion:
    """Return the fusion of the first ``_NUM_FUSED`` hits of each result by reciprocal rank (RRF).

    Hits of lower ranks are appended. Identical hits from several results are one hit. Equal scores are ordered by
    document key and position.
    """
    # The distinct hits, by key. In reverse order, the first of identical hits replaces the others.
    hits = {_get_hit_key(hit): hit for result in reversed(results) for hit in reversed(result.evidence.hits)}
    hit_ids = {
        key: _find_chunk_id(query, hit) if hit.kind == "chunk" else -number
        for number, (key, hit) in enumerate(hits.items(), 1)
    }
    hit_rankings = [[(hit_ids[_get_hit_key(hit)], hit.score) for hit in result.evidence.hits] for result in results]
    scores: dict[int, float] = {}
    explanations: dict[int, list[str]] = {}  # of the score of each hit, one for each result that has the hit
    for (label, evidence), hit_ranking in zip(results, hit_rankings, strict=True):
        paths = {hit_ids[_get_hit_key(hit)]: hit.path for hit in evidence.hits}
        for hit_id, rank in assign_ranks(hit_ranking[:_NUM_FUSED]):
            scores[hit_id] = scores.get(hit_id, 0.0) + 1 / (_FUSION_CONSTANT + rank)
            explanations.setdefault(hit_id, []).append(f"{label} #{rank} ({paths[hit_id]})")
    # The keys by which hits with equal scores are ordered.
    tie_keys = {hit_ids[key]: (hit.document, hit.ordinal, hit.start, hit.kind) for key, hit in hits.items()}
    order = sorted(scores, key=lambda hit_id: (-scores[hit_id], tie_keys[hit_id]))
    ranking = [(hit_id, scores[hit_id]) for hit_id in order]
    # The hits of lower ranks follow, alternating between the results.
    ranking = append_tails(ranking, *hit_rankings, top=max(_NUM_FUSED, query.reach))
    explanation_texts = {hit_id: "; ".join(explanations.get(hit_id, ["after the fused hits"])) for hit_id, _ in ranking}
    other_hits = {hit_ids[key]: hit for key, hit in hits.items() if hit.kind != "chunk"}
    return _Fusion(ranking, explanation_texts, other_hits)


def _get_hit_key(hit: Hit) -> tuple[str, str, int, str]:
    """Return the kind, document key, start and text of a hit, which identify it across results."""
    return hit.kind, hit.document, hit.start, hit.text


def _find_chunk_id(query: Query, hit: Hit) -> int:
    """Return the chunk id of a hit of kind ``chunk``."""
    return query.state.documents.get_by_key(hit.document).get_chunk_id(hit.ordinal)


def _merge_hits(query: Query, chunk_hits: Sequence[Hit], other_hits: Sequence[Hit]) -> list[Hit]:
    """Return hits by descending score: at most ``query.top``, with at most ``query.within`` tokens together.

    Reranked chunks come first, because their scores are not comparable with those of ``other_hits`` (summaries,
    reports). Scores are lowered so that none exceeds the score before it.
    """
    hits = [*chunk_hits, *other_hits]
    if query.rerank is None:
        hits.sort(key=lambda hit: -hit.score)
    tokens_left = math.inf if query.within is None else query.within
    merged_hits: list[Hit] = []
    for hit in hits:
        num_tokens = count_text_tokens(hit.text)
        if len(merged_hits) < query.top and num_tokens <= tokens_left:
            tokens_left -= num_tokens
            score = min(hit.score, merged_hits[-1].score) if merged_hits else hit.score
            merged_hits.append(replace(hit, rank=len(merged_hits) + 1, score=score))
    return merged_hits
