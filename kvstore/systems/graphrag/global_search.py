"""Strategy ``global``: what the communities of the whole store say about a question (GraphRAG, global search).

*Selection* descends the tree of communities (microsoft/graphrag, dynamic community selection). It starts at the
coarsest and goes on to each child that scores at least as high as its parent. An overview question stays with the
coarsest. The score of a community is the cosine of its centroid, plus the share of the question's words in its report,
weighted by rarity (BM25); no model is needed to rate it. *Map*: each selected community contributes points, which are
the sentences of its report, or sentences of its chunks chosen by the greedy cover. *Reduce*: the points of the
best-scoring communities come first, until the limit is reached (Edge et al. 2024, section 3.1.6). All chunks in no
community, or newer than the communities, act as one more community.

With a model, ASK makes it rate the reports on the way down, from 0 to 5. The model then extracts points from the
relevant reports, in as many parts as prompts can hold, and writes the answer from the points, best first.

In: a query, and the index ``communities``. Out: evidence whose hits are reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...retrieval.cover import collect_cover_sentences, extract_question_words, select_cover
from ...retrieval.dense_search import compute_cosines, rank_by_vector
from ...retrieval.distillation import Distiller, Point, build_distilled_evidence
from ...retrieval.evidence import Evidence, Hit
from ...retrieval.lexical_search import K1, compute_term_rarity, find_question_terms
from ...retrieval.overview import is_overview_question
from ...retrieval.query import Query, option
from ...storage import records
from ...structures.clustering.affinity import Partition
from ...structures.ranking import sort_chunks
from ...text.words import count_text_tokens, get_stemmer
from .communities import Communities
from .community_index import COMMUNITIES
from .report_hits import (
    build_community_report,
    build_report_hit,
    find_report_source,
    render_reports,
    renumber_hits,
    require_communities,
)
from .report_terms import build_report_terms, frame_terms

#: The default number of levels that the selection descends.
_MAX_LEVELS = 8
#: The number of nearest communities, of those compared at once, whose reports are read.
_NUM_SCORED_REPORTS = 50
#: The number of chunks near the question checked for having a community; the maximum number of unassigned chunks
#: read; and the number of them that determine their score.
_NUM_NEAR_CHUNKS, _MAX_UNASSIGNED, _NUM_SCORING_CHUNKS = 50, 500, 8
#: The maximum number of reports whose terms are cached, about 2 kB each.
_MAX_CACHED_TERMS = 1 << 14
#: The maximum tokens of the report on unassigned chunks if the query has no limit.
_UNASSIGNED_TOKENS = 400
#: The maximum number of chunks that a cover report is chosen from, and the tokens of the shortest such report.
_MAX_COVER_CHUNKS, _MIN_REPORT_TOKENS = 200, 80


class GlobalStrategy:
    """A strategy that answers from reports on the communities of the whole store."""

    name = "global"
    description = "GraphRAG, global: the communities of the whole store that say most, each with its points"
    needs = COMMUNITIES.name
    overview = True
    options: Mapping[str, Option] = {
        "levels": Option(_MAX_LEVELS, 0, 100, "levels that the selection goes down from the coarsest communities"),
        "rated": Option(24, 0, 1000, "reports of each level that a language model rates, where one answers"),
    }

    def retrieve(self, query: Query) -> Evidence:
        communities = require_communities(query)
        tree = _ScoredTree(query, communities)
        with query.trace.step("select communities") as step:
            levels = 0 if is_overview_question(query.question) else int(option(query, self, "levels"))
            selected, count = _select_communities(tree, levels, query.top)
            step.detail, step.count = f"{tree.scored_count} looked at, down to level {tree.deepest_level}", count
        with query.trace.step("points of communities") as step:
            hits = _build_reports(query, communities, selected, tree)
            suffix = f", {tree.omitted_count} newer chunks left out" if tree.omitted_count else ""
            step.detail = f"{len(hits)} of {count} communities{suffix}"
            step.count = sum(len(hit.spans) for hit in hits)
        return Evidence(query.question, self.name, hits, [], query.trace.steps, tree.scored_count)

    def distil(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """Rate reports on the way down, extract points from the relevant ones, and answer from the points."""
        rated_hits = _rate_reports(self, evidence.question, distiller)
        hits = [*rated_hits, *(hit for hit in evidence.hits if not hit.heading)] if rated_hits else evidence.hits
        points: list[Point] = []
        for batch in distiller.split_into_batches(evidence.question, hits):
            points += distiller.read(evidence.question, batch).points
        return build_distilled_evidence(evidence, points, distiller.trace)


class _ScoredTree:
    """The tree of communities limited to what may answer, with scores for the question.

    ``unassigned`` are chunks that may answer but are reported apart from the communities: nearby chunks in no
    community, and ``newer_chunks`` ones, nearest first. ``omitted_count`` is the number of further such chunks.
    """

    def __init__(self, query: Query, communities: Communities) -> None:
        state = query.view
        self._query = query
        self._communities = communities
        self._stem = get_stemmer(state.settings.stemmer)
        counts = {term: state.postings.count_chunks(term) for term in find_question_terms(state, query.question)}
        self._rarities = {
            term: compute_term_rarity(state.counters.chunks, count) for term, count in counts.items() if count
        }
        self._max_word_score = sum(self._rarities.values()) * (K1 + 1) or 1.0
        allowed = None if query.allowed is None else query.allowed.documents.tolist()
        chunks = (chunk for document in allowed or () for chunk in state.documents.get(document).chunk_ids())
        near_chunks = [chunk for chunk, _ in rank_by_vector(query, _NUM_NEAR_CHUNKS)]
        newer_chunks = np.array(communities.list_newer_chunks(), np.uint64)
        self.newer_chunks = frozenset(newer_chunks[query.mask_allowed(newer_chunks)].tolist())
        candidates = list(dict.fromkeys((*near_chunks, *chunks)))
        homes = dict(zip(candidates, communities.find_by_chunks(candidates), strict=True))
        self._is_allowed = None
        if allowed is not None:
            self._is_allowed = np.zeros(len(communities), np.bool_)
            self._is_allowed[list({community for path in homes.values() for community in path})] = True
        unassigned = [chunk for chunk, path in homes.items() if not path or chunk in self.newer_chunks]
        unassigned = list(dict.fromkeys((*unassigned, *sort_chunks(state, self.newer_chunks))))
        self.unassigned = unassigned[
            : _MAX_UNASSIGNED
            if query.within is not None or is_overview_question(query.question)
            else _NUM_SCORING_CHUNKS
        ]
        self.omitted_count = len(unassigned) - len(self.unassigned)
        self.scored_count = 0
        self.deepest_level = 0

    def list_roots(self) -> Partition:
        """Return the coarsest communities."""
        return self._filter_alive(self._communities.tree.get_partition(0))

    def list_children(self, communities: Partition) -> Partition:
        """Return the children of communities, in order of their numbers."""
        return self._filter_alive(np.sort(self._communities.tree.list_children(communities)))

    def get_parents(self, communities: Partition) -> Partition:
        """Return the parent of each community."""
        return self._communities.tree.parents[communities]

    def compute_weights(self, communities: Partition) -> npt.NDArray[np.float64]:
        """Return the factor of each community's score, from 1 to 2, which grows with its number of chunks."""
        return 1 + self._communities.tree.ratings[communities] / 10 / 10

    def score_communities(self, communities: Partition) -> npt.NDArray[np.float64]:
        """Return the scores of communities: the cosine, plus the share of the question's words."""
        self.scored_count += len(communities)
        self.deepest_level = max(self.deepest_level, int(self._communities.tree.levels[communities].max(initial=0)))
        scores = self._communities.compute_cosines(communities, self._query.vector).astype(np.float64).round(6)
        if self._rarities:
            best = _find_best(communities, scores, _NUM_SCORED_REPORTS)
            scores[best] += [self._score_terms(terms) for terms in self._get_terms(communities[best].tolist())]
        return scores

    def score_unassigned(self) -> float:
        """Return the score of the unassigned chunks, from the nearest chunks and the words of all of them."""
        ids = np.array(self.unassigned, np.uint64)
        cosines = np.sort(compute_cosines(self._query.view, ids, self._query.vector))[::-1][:_NUM_SCORING_CHUNKS]
        state = self._query.view
        records = state.chunks.get_many(self.unassigned) if self._rarities else []
        texts = (state.documents.text_slice(record.document, record.start, record.end) for record in records)
        return float(cosines.mean(dtype=np.float64)) + self._score_terms(frame_terms("\n".join(texts), self._stem))

    def _filter_alive(self, communities: Partition) -> Partition:
        return (
            self._communities.filter_alive(communities)
            if self._is_allowed is None
            else communities[self._is_allowed[communities]]
        )

    def _get_terms(self, communities: Sequence[int]) -> list[str]:
        """Return the terms of reports, from the store if everything may answer and is unchanged since the build."""
        if self._query.allowed is None and self._communities.is_as_built:
            return self._communities.get_built_terms(communities)
        return self._build_terms(communities)

    def _build_terms(self, numbers: Sequence[int]) -> list[str]:
        """Return the terms of reports, cached across questions while the reports are the same."""
        communities = self._communities
        communities.preload(numbers)
        titles = communities.get_titles(numbers)
        reports = [find_report_source(self._query, communities, number) for number in numbers]
        cache: dict[int, tuple[bytes, str]] = communities.get_cached("terms of reports", dict)
        sources = [
            records.pack([title, report.spans if report.model_text is None else report.model_text])
            for title, report in zip(titles, reports, strict=True)
        ]
        entries = [cache.get(number, (b"", "")) for number in numbers]
        changed_positions = [position for position, source in enumerate(sources) if entries[position][0] != source]
        if len(cache) + len(changed_positions) > _MAX_CACHED_TERMS:
            cache.clear()
        for position, text in zip(
            changed_positions,
            render_reports(self._query, [reports[position] for position in changed_positions]),
            strict=True,
        ):
            new_terms = build_report_terms(titles[position], text, self._stem)
            entries[position] = cache[numbers[position]] = sources[position], new_terms
        return [terms for _, terms in entries]

    def _score_terms(self, terms: str) -> float:
        """Return the share of the question's words in a text with these terms, by BM25 without length normalization."""
        counts = ((rarity, terms.count(f" {term} ")) for term, rarity in self._rarities.items())
        return (
            math.fsum(rarity * count * (K1 + 1) / (count + K1) for rarity, count in counts if count)
            / self._max_word_score
        )


def _find_best(communities: Partition, scores: npt.NDArray[np.float64], limit: int) -> npt.NDArray[np.intp]:
    """Return the indices of the highest-scoring communities, best first, ties by number."""
    if not 0 < limit < len(scores):
        return np.lexsort((communities, -scores))[:limit]
    last = len(scores) - limit
    candidates = np.flatnonzero(scores >= np.partition(scores, last)[last])
    return candidates[np.lexsort((communities[candidates], -scores[candidates]))[:limit]]


def _select_communities(tree: _ScoredTree, levels: int, limit: int) -> tuple[list[tuple[int | None, float]], int]:
    """Return the ``limit`` best communities with their scores, best first, and the total number of candidates.

    The selection descends from the coarsest to each child that scores at least as high as its parent. None represents
    the unassigned chunks.
    """
    current = tree.list_roots()
    scores = tree.score_communities(current)
    selected: list[tuple[Partition, npt.NDArray[np.float64]]] = []
    for _ in range(levels):
        children = tree.list_children(current)
        child_scores = tree.score_communities(children)
        parents = np.searchsorted(current, tree.get_parents(children))
        is_better = child_scores >= scores[parents]
        is_final = np.ones(len(current), np.bool_)
        is_final[parents[is_better]] = False
        selected.append((current[is_final], scores[is_final]))
        current, scores = children[is_better], child_scores[is_better]
    communities, scores = map(np.concatenate, zip(*selected, (current, scores), strict=True))
    scores = scores * tree.compute_weights(communities)
    best = _find_best(communities, scores, limit)
    ranking: list[tuple[int | None, float]] = list(zip(communities[best].tolist(), scores[best].tolist(), strict=True))
    if tree.unassigned:
        score = tree.score_unassigned()
        ranking.insert(sum(1 for _, other_score in ranking if other_score >= score), (None, score))
    return ranking[:limit], len(communities) + bool(tree.unassigned)


def _build_reports(
    query: Query, communities: Communities, selected: Sequence[tuple[int | None, float]], tree: _ScoredTree
) -> list[Hit]:
    """Return a report of each selected community.

    If the query limits the tokens, each report is a cover of the community's chunks that fills its share.
    """
    if query.within is not None:
        return _build_reports_within(
            query, communities, selected[: max(1, query.within // _MIN_REPORT_TOKENS)], tree, query.within
        )
    hits: list[Hit | None] = []
    for community, score in selected:
        if community is None:
            hits.append(_build_cover_report(query, communities, community, tree.unassigned, score, _UNASSIGNED_TOKENS))
        else:
            path = f"community of level {communities.get(community).level}"
            hits.append(build_community_report(query, communities, community, path=path, score=score))
    return renumber_hits(hit for hit in hits if hit is not None)


def _build_reports_within(
    query: Query, communities: Communities, selected: Sequence[tuple[int | None, float]], tree: _ScoredTree, tokens: int
) -> list[Hit]:
    """Return reports that together have at most ``tokens`` tokens.

    The share of each is its score times its number of chunks. Room that one leaves unused goes to those with larger
    shares.
    """
    chunks_by_community: dict[int | None, list[int]] = {}
    for community, _ in selected:
        chunks = tree.unassigned if community is None else [chunk for chunk, _ in communities.list_chunks(community)]
        # Newer chunks are reported separately.
        older_chunks = (chunk for chunk in chunks if community is None or chunk not in tree.newer_chunks)
        chunks_by_community[community] = [chunk for chunk in older_chunks if query.is_allowed(chunk)]
    shares = {community: max(0.0, score) * len(chunks_by_community[community]) for community, score in selected}
    remaining_share = math.fsum(shares.values())
    hits: dict[int | None, Hit | None] = {}
    for community, score in sorted(selected, key=lambda one: (shares[one[0]], -1 if one[0] is None else one[0])):
        room = int(tokens * shares[community] / remaining_share) if remaining_share > 0 else 0
        hit = _build_cover_report(
            query, communities, community, chunks_by_community[community][:_MAX_COVER_CHUNKS], score, room
        )
        hits[community] = hit
        remaining_share -= shares[community]
        tokens -= 0 if hit is None else sum(count_text_tokens(line) for line in hit.text.split("\n"))
    ordered = (hits[community] for community, _ in selected)
    return renumber_hits(hit for hit in ordered if hit is not None)


def _build_cover_report(
    query: Query, communities: Communities, community: int | None, chunks: Sequence[int], score: float, tokens: int
) -> Hit | None:
    """Return a report made of the sentences that cover most of what some chunks say."""
    state = query.view
    if community is None:
        heading, title, path = "", "in no community", "in no community, or newer than these"
    else:
        heading, title = communities.get_key(community), communities.get_title(community)
        path = f"community of level {communities.get(community).level}"
    # Among unassigned chunks the nearest comes first: it can be the only one about the question.
    first_sentences = (
        [] if community is not None else select_cover(collect_cover_sentences(state, chunks[:1]), tokens // 2)
    )
    room = tokens - sum(count_text_tokens(sentence.text) for sentence in first_sentences)
    other_chunks = chunks if community is not None else chunks[1:]
    sentences = first_sentences + select_cover(
        collect_cover_sentences(state, other_chunks), room, question_words=extract_question_words(query.question)
    )
    text = "\n".join(sentence.text for sentence in sentences)
    return build_report_hit([sentence.to_span(state) for sentence in sentences], text, heading, title, path, score)


def _rate_reports(strategy: GlobalStrategy, question: str, distiller: Distiller) -> list[Hit]:
    """Return the reports that a model rates above 0, best first, descending from the coarsest communities.

    The children of each relevant community are rated next, and replace it if any of them is relevant too. No state is
    held while the model rates. The descent stops if the communities are rebuilt in the meantime.
    """
    hits_by_community: dict[int, tuple[int, Hit]] = {}
    expanded: list[int] | None = None
    change: int | None = None
    while expanded is None or expanded:
        with distiller.open_state_with_query(question) as query:
            communities = require_communities(query)
            if change not in (None, communities.change):
                break
            change = communities.change
            tree = _ScoredTree(query, communities)
            candidates = tree.list_roots() if expanded is None else tree.list_children(np.array(expanded, np.int64))
            order = candidates[np.lexsort((candidates, -tree.score_communities(candidates)))][
                : int(option(query, strategy, "rated"))
            ].tolist()
            reports = {
                community: build_community_report(query, communities, community, path="rated by the model")
                for community in order
            }
            parents = dict(zip(order, tree.get_parents(np.array(order, np.int64)).tolist(), strict=True))
        hits = {community: hit for community, hit in reports.items() if hit is not None}
        expanded = []
        for community, rating in zip(hits, distiller.rate(question, list(hits.values())), strict=True):
            if rating:
                hits_by_community[community] = rating, hits[community]
                expanded.append(community)
        for community in expanded:
            hits_by_community.pop(parents[community], None)
    return [hit for _, hit in sorted(hits_by_community.values(), key=lambda one: -one[0])]
