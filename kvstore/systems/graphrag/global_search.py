"""Strategy ``global``: what the communities of the whole store say about a question (GraphRAG, global search). A
*community* is a group of related entities; its *report* has the main sentences about it. *Unassigned* chunks are in no
community, or newer than the communities; they share one report.

*Selection* descends the tree of communities (microsoft/graphrag, dynamic community selection). It starts at the
coarsest and goes on to each child that scores at least as high as its parent. An overview question stays with the
coarsest. The score of a community is the cosine of its centroid, plus the fraction of the question's words in its
report, weighted by rarity (BM25); no model is needed to rate it. *Map*: each selected community contributes points,
which are the sentences of its report, or sentences of its chunks chosen by the greedy cover. *Reduce*: the points of
the best-scoring communities come first, until the limit is reached (Edge et al. 2024, section 3.1.6). All chunks in no
community, or newer than the communities, act as one more community.

With a model, ASK makes it rate the reports on the way down, from 0 to 5. The model then extracts points from the
relevant reports, in as many parts as prompts can hold, and writes the answer from the points, best first.

In: a query, and the ``communities`` index. Out: evidence whose hits are reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...retrieval.cover import CoverSentence, extract_question_words, select_cover
from ...retrieval.dense_search import CosineRequest, NearestChunksRequest
from ...retrieval.distillation import Distiller, Point, build_distilled_evidence
from ...retrieval.evidence import Evidence, Hit, TextSpan
from ...retrieval.lexical_search import build_count_request, build_term_weights, parse_question_words
from ...retrieval.query import Query, option
from ...structures.clustering.affinity import IntArray
from ...text.words import count_text_tokens
from .community_index import COMMUNITIES
from .community_requests import (
    ChunkTextsRequest,
    CommunityChunksRequest,
    CommunityLabel,
    CommunityLabelsRequest,
    CoverSentencesRequest,
)
from .report_hits import CommunityReportsRequest, ReportContent, build_report_hit, renumber_hits
from .report_terms import join_terms
from .tree_requests import (
    ScoredChildrenRequest,
    ScoredCommunities,
    UnassignedChunksRequest,
    find_best_indexes,
    score_terms,
)

#: The default number of levels that the selection descends.
_MAX_LEVELS = 8
#: The number of chunks near the question checked for having a community; the maximum number of unassigned chunks
#: read; and the number of them that determine their score.
_NUM_NEAR_CHUNKS, _MAX_UNASSIGNED, _NUM_SCORING_CHUNKS = 50, 500, 8
#: The maximum number of tokens of the report on unassigned chunks if the query has no limit.
_UNASSIGNED_TOKENS = 400
#: The maximum number of chunks that a cover report is chosen from, and the tokens of the shortest such report.
_MAX_COVER_CHUNKS, _MIN_REPORT_TOKENS = 200, 80
#: The names of the report on unassigned chunks, and its path.
_UNASSIGNED_LABEL = CommunityLabel("", "in no community", 0)
_UNASSIGNED_PATH = "in no community, or newer than the communities"

#: The number of reports of each level that a language model rates.
_NUM_RATED = 24


class GlobalStrategy:
    """A strategy that answers from reports on the communities of the whole store."""

    name = "global"
    description = "GraphRAG, global search: reports on the best-matching communities of the whole store"
    needs = COMMUNITIES.name
    overview = True
    options: Mapping[str, Option] = {
        "levels": Option(_MAX_LEVELS, 0, 100, "maximum number of levels to descend from the coarsest communities"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Return reports on the communities that match the question best as evidence, a hit for each (GraphRAG, 3.1.6).

        One hit can report on the chunks that are in no community. An overview question is answered from the coarsest
        communities only.
        """
        scoring = _CommunityScoring.from_query(query)
        with query.trace.step("select communities") as step:
            levels = 0 if query.asks_for_overview else int(option(query, self, "levels"))
            selection = _select_communities(scoring, levels, query.top)
            step.detail = f"{selection.num_scored} scored, down to level {selection.deepest_level}"
            step.count = selection.num_candidates
        with query.trace.step("points of communities") as step:
            hits = _build_reports(query, selection.groups, scoring)
            suffix = f", {scoring.num_omitted} chunks in no community omitted" if scoring.num_omitted else ""
            step.detail = f"{len(hits)} of {selection.num_candidates} communities{suffix}"
            step.count = sum(len(hit.spans) for hit in hits)
        return Evidence(query.question, self.name, hits, steps=query.trace.steps, pool=selection.num_scored)

    def distill(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """Return the evidence with the points (rated statements) that the model extracts from the relevant reports.

        ``distiller`` runs the model. The model rates reports from the coarsest communities to finer ones. If it rates
        none as relevant, it reads the reports of the evidence.
        """
        rated_hits = _rate_reports(evidence.question, distiller)
        # The report on the unassigned chunks, which the model did not rate, has no heading.
        hits = [*rated_hits, *(hit for hit in evidence.hits if not hit.heading)] if rated_hits else evidence.hits
        points: list[Point] = []
        for batch in distiller.split_into_batches(evidence.question, hits):
            points += distiller.extract_points(evidence.question, batch).points
        return build_distilled_evidence(evidence, points, distiller.trace)


@dataclass(frozen=True)
class _CommunityScoring:
    """Scores the communities with documents that match the query's condition, and chunks in no community. ``rarities``
    has the rarity (IDF) of the question's terms. ``allowed`` masks the communities with matching documents (None: all).
    ``unassigned_chunks`` are in no community, or in ``newer_chunks``.

    The unassigned chunks match the condition, too: nearby chunks in no community, nearest first, then the newer chunks.
    ``num_omitted`` is the number of such chunks that are left out.
    """

    query: Query
    rarities: Mapping[str, float]
    allowed: npt.NDArray[np.bool_] | None
    newer_chunks: frozenset[int]
    unassigned_chunks: list[int]
    num_omitted: int

    @classmethod
    def from_query(cls, query: Query) -> _CommunityScoring:
        """Read the data by which communities are scored for a query, and return the scoring.

        The data are the rarities of the query's words, the mask of the communities that match its condition, and the
        matching chunks in no community. The last include the chunks added since the build.
        """
        reader = query.reading
        words = parse_question_words(query.question, query.stem)
        with query.trace.step("vector search") as step:
            (near_ranking, search_description), counts = reader.fetch(
                NearestChunksRequest(query.vector, _NUM_NEAR_CHUNKS, query.allowed), build_count_request(words)
            )
            step.detail, step.count = search_description, len(near_ranking)
        rarities = build_term_weights(reader.counters, words.list_lookup_terms(counts), counts).rarities
        placement = reader.fetch(UnassignedChunksRequest(near_chunks=[chunk for chunk, _ in near_ranking]))
        # An overview, or a report that fills a limit of tokens, covers many chunks. Else the nearest are sufficient.
        covers_many = query.within is not None or query.asks_for_overview
        unassigned = placement.unassigned_chunks[: _MAX_UNASSIGNED if covers_many else _NUM_SCORING_CHUNKS]
        num_omitted = len(placement.unassigned_chunks) - len(unassigned)
        return cls(
            query,
            rarities,
            allowed=placement.allowed,
            newer_chunks=placement.newer_chunks,
            unassigned_chunks=unassigned,
            num_omitted=num_omitted,
        )

    def score_children(self, parents: IntArray | None) -> ScoredCommunities:
        """Return the children of ``parents`` (None: the coarsest communities) with their scores for the question."""
        return self.query.reading.fetch(ScoredChildrenRequest(parents, self.allowed, self.query.vector, self.rarities))

    def score_unassigned(self) -> float:
        """Return the score of the chunks in no community: mean cosine of the nearest, plus BM25 score of all.

        There must be at least one such chunk.
        """
        ids = np.array(self.unassigned_chunks, np.uint64)
        all_cosines, texts = self.query.reading.fetch(
            CosineRequest(ids, self.query.vector), ChunkTextsRequest(self.unassigned_chunks if self.rarities else [])
        )
        cosines = np.sort(all_cosines)[::-1][:_NUM_SCORING_CHUNKS]
        terms = join_terms("\n".join(texts), self.query.stem)
        return float(cosines.mean(dtype=np.float64)) + score_terms(terms, self.rarities)


class _SelectedGroup(NamedTuple):
    """A group of chunks with a report of its own: a community, or the unassigned chunks (None)."""

    community: int | None
    score: float


class _SelectedGroups(NamedTuple):
    """The selected groups, best first, out of ``num_candidates``; ``num_scored`` communities were scored for that.

    ``deepest_level`` is the finest level of a scored community.
    """

    groups: list[_SelectedGroup]
    num_candidates: int
    num_scored: int
    deepest_level: int


def _select_communities(scoring: _CommunityScoring, levels: int, limit: int) -> _SelectedGroups:
    """Return the ``limit`` best groups: communities, and the unassigned chunks as one group.

    This is the dynamic community selection of microsoft/graphrag, by the scores that ``scoring`` computes instead of a
    model's ratings. It descends at most ``levels`` levels from the coarsest communities.
    """
    selected_communities, scored_communities = _select_levels(scoring, levels)
    communities = np.concatenate([level.communities for level in selected_communities])
    # The factor of a community, from 1 to 2, grows with its number of chunks.
    scores = np.concatenate([level.scores * level.factors for level in selected_communities])
    best = find_best_indexes(communities, scores, limit)
    groups = [_SelectedGroup(*pair) for pair in zip(communities[best].tolist(), scores[best].tolist(), strict=True)]
    if scoring.unassigned_chunks:
        score = scoring.score_unassigned()
        index = len([group for group in groups if group.score >= score])  # after all groups with at least this score
        groups.insert(index, _SelectedGroup(community=None, score=score))
    return _SelectedGroups(
        groups[:limit],
        num_candidates=len(communities) + (1 if scoring.unassigned_chunks else 0),
        num_scored=sum(len(level.communities) for level in scored_communities),
        deepest_level=max(int(level.levels.max(initial=0)) for level in scored_communities),
    )


def _select_levels(scoring: _CommunityScoring, levels: int) -> tuple[list[ScoredCommunities], list[ScoredCommunities]]:
    """Return the selected communities and all scored ones, each as a list by level, from the coarsest.

    The selection descends at most ``levels`` levels, to each child that scores at least as high as its parent by
    ``scoring``. A community is selected if the selection reaches it and descends to none of its children.
    """
    current_level = scoring.score_children(parents=None)
    selected_levels, scored_levels = list[ScoredCommunities](), [current_level]
    for _ in range(levels):
        if not len(current_level.communities):
            break
        children = scoring.score_children(current_level.communities)
        scored_levels.append(children)
        parent_indexes = np.searchsorted(current_level.communities, children.parents)
        is_better = children.scores >= current_level.scores[parent_indexes]
        # A community is selected itself if none of its children scores as high.
        is_selected = np.ones(len(current_level.communities), np.bool_)
        is_selected[parent_indexes[is_better]] = False
        selected_levels.append(current_level.select(is_selected))
        current_level = children.select(is_better)
    selected_levels.append(current_level)
    return selected_levels, scored_levels


def _build_reports(query: Query, groups: Sequence[_SelectedGroup], scoring: _CommunityScoring) -> list[Hit]:
    """Return a report on each selected group of chunks as a hit, in order; groups without a report are omitted.

    A group is a community, or all chunks in no community (listed in ``scoring``). If the query limits the tokens, each
    report has as many sentences as fit its share. Together they contain most of the content of the group's chunks.
    """
    if query.within is not None:
        max_reports = max(1, query.within // _MIN_REPORT_TOKENS)
        return _build_reports_within(query, groups[:max_reports], scoring, query.within)
    community_ids = [group.community for group in groups if group.community is not None]
    reports: dict[int | None, ReportContent] = dict(
        zip(community_ids, query.reading.fetch(CommunityReportsRequest(community_ids)), strict=True)
    )
    if len(community_ids) < len(groups):  # the chunks in no community are one of them
        candidates = _fetch_candidates(query, [(None, scoring.unassigned_chunks)])
        reports[None] = _build_cover(query, candidates[None], _UNASSIGNED_LABEL, _UNASSIGNED_TOKENS)
    hits = []
    for community, score in groups:
        content = reports[community]
        path = _UNASSIGNED_PATH if community is None else f"community of level {content.level}"
        hits.append(build_report_hit(content, path, score))
    return renumber_hits(hit for hit in hits if hit is not None)


def _build_reports_within(
    query: Query, groups: Sequence[_SelectedGroup], scoring: _CommunityScoring, max_tokens: int
) -> list[Hit]:
    """Return reports on ``groups`` (communities, or the chunks in none), of at most ``max_tokens`` tokens in total.

    The share of each is proportional to its score times its number of chunks. Tokens that a report leaves unused go to
    reports with larger shares. A group without a sentence that fits has no report. ``scoring`` has the chunks in no
    community.
    """
    community_ids = [group.community for group in groups if group.community is not None]
    chunk_groups, labels = query.reading.fetch(
        CommunityChunksRequest(community_ids), CommunityLabelsRequest(community_ids)
    )
    chunks_by_group = _list_allowed_chunks(query, scoring, zip(community_ids, chunk_groups, strict=True))
    labels_by_group: dict[int | None, CommunityLabel] = dict(zip(community_ids, labels, strict=True))
    labels_by_group[None] = _UNASSIGNED_LABEL
    candidates = _fetch_candidates(query, [(group.community, chunks_by_group[group.community]) for group in groups])
    shares = {community: max(0.0, score) * len(chunks_by_group[community]) for community, score in groups}
    remaining_share, remaining_tokens = math.fsum(shares.values()), max_tokens
    hits: dict[int | None, Hit | None] = {}
    # Ties are in order of communities, after the unassigned chunks.
    smallest_first = sorted(
        groups, key=lambda group: (shares[group.community], -1 if group.community is None else group.community)
    )
    for community, score in smallest_first:
        num_tokens = int(remaining_tokens * shares[community] / remaining_share) if remaining_share > 0 else 0
        label = labels_by_group[community]
        content = _build_cover(query, candidates[community], label, num_tokens)
        path = _UNASSIGNED_PATH if community is None else f"community of level {label.level}"
        hits[community] = hit = build_report_hit(content, path, score)
        remaining_share -= shares[community]
        remaining_tokens -= 0 if hit is None else sum(count_text_tokens(line) for line in hit.text.split("\n"))
    ordered_hits = (hits[group.community] for group in groups)
    return renumber_hits(hit for hit in ordered_hits if hit is not None)


def _list_allowed_chunks(
    query: Query, scoring: _CommunityScoring, communities: Iterable[tuple[int, Sequence[int]]]
) -> dict[int | None, list[int]]:
    """Return, by community, its chunks that match the query's condition.

    ``communities`` are pairs (id, chunks). The key None has the chunks in no community, which are in ``scoring``; these
    include the chunks added after the communities were built.
    """
    chunks_by_group: dict[int | None, list[int]] = {None: list(filter(query.is_allowed, scoring.unassigned_chunks))}
    for community, chunks in communities:
        chunks_by_group[community] = [
            chunk for chunk in chunks if chunk not in scoring.newer_chunks and query.is_allowed(chunk)
        ]
    return chunks_by_group


class _CoverSource(NamedTuple):
    """The sentences of a group of chunks, from which the group's report is selected.

    ``preferred_sentences`` are from the chunk nearest to the question. They are selected first, and are empty if the
    group is a community. ``other_sentences`` are the rest. ``positions`` maps chunks to document keys and ordinals.
    """

    preferred_sentences: list[CoverSentence]
    other_sentences: list[CoverSentence]
    positions: Mapping[int, tuple[str, int]]


def _fetch_candidates(
    query: Query, groups: Sequence[tuple[int | None, Sequence[int]]]
) -> dict[int | None, _CoverSource]:
    """Return, by community, the sentences of its chunks, from which its report is selected.

    ``groups`` are pairs (community, its chunks, the nearest to the question first). The community is None for the
    chunks in no community.
    """
    chunk_lists: list[Sequence[int]] = []  # two for each group: preferred chunks, and others
    for community, chunks in groups:
        # Chunks in no community have little in common, so the nearest can be the only one about the question.
        num_preferred = 1 if community is None else 0
        chunk_lists += chunks[:num_preferred], chunks[num_preferred:_MAX_COVER_CHUNKS]
    sentence_lists, positions = query.reading.fetch(CoverSentencesRequest(chunk_lists))
    preferred_lists, other_lists = sentence_lists[::2], sentence_lists[1::2]
    return {
        community: _CoverSource(preferred, others, positions)
        for (community, _), preferred, others in zip(groups, preferred_lists, other_lists, strict=True)
    }


def _build_cover(query: Query, source: _CoverSource, label: CommunityLabel, max_tokens: int) -> ReportContent:
    """Return a report of at most ``max_tokens`` tokens: sentences that together cover the content of their chunks.

    They are selected from the sentences in ``source``. Preferred sentences, from the nearest chunk, get at most half of
    the tokens. ``label`` has the key, title and level of the report.
    """
    sentences = select_cover(source.preferred_sentences, max_tokens // 2) if source.preferred_sentences else []
    remaining_tokens = max_tokens - sum(count_text_tokens(sentence.text) for sentence in sentences)
    question_words = extract_question_words(query.question)
    sentences += select_cover(source.other_sentences, remaining_tokens, question_words=question_words)
    spans = [TextSpan(*source.positions[sentence.chunk], sentence.start, sentence.end) for sentence in sentences]
    text = "\n".join(sentence.text for sentence in sentences)
    return ReportContent(label.key, label.title, label.level, text=text, spans=spans)


def _rate_reports(question: str, distiller: Distiller) -> list[Hit]:
    """Return the reports that a model (``distiller``) rates above 0, best first, from the coarsest communities down.

    The children of each relevant community are rated next, and replace it if any of them is relevant too. No snapshot
    of the store is open while the model rates. The descent stops if the communities are rebuilt in the meantime.
    """
    ratings: dict[int, int] = {}  # of the relevant communities without relevant children
    reports: dict[int, Hit] = {}
    relevant_communities: list[int] | None = None  # of the level rated last; None before the coarsest is rated
    change: int | None = None  # identifies the build of the communities; None before the first read
    while relevant_communities is None or relevant_communities:
        with distiller.open_query(question) as query:
            children = _CommunityScoring.from_query(query).score_children(
                None if relevant_communities is None else np.array(relevant_communities, np.int64)
            )
            if change not in (None, children.change):
                break
            change = children.change
            parents = dict(zip(children.communities.tolist(), children.parents.tolist(), strict=True))
            hits = _fetch_best_reports(query, children)
        reports |= hits
        relevant_communities = []
        for community, rating in zip(hits, distiller.rate_passages(question, list(hits.values())), strict=True):
            if rating:
                ratings[community] = rating
                relevant_communities.append(community)
        for community in relevant_communities:
            ratings.pop(parents[community], None)
    return [reports[community] for community in sorted(ratings, key=lambda community: -ratings[community])]


def _fetch_best_reports(query: Query, scored: ScoredCommunities) -> dict[int, Hit]:
    """Return reports on the :data:`_NUM_RATED` communities in ``scored`` with the highest scores, best first.

    A community is omitted if its chunks were deleted, or if its documents do not match the query's condition.
    """
    best_first = np.lexsort((scored.communities, -scored.scores))
    community_ids = scored.communities[best_first[:_NUM_RATED]].tolist()
    contents = query.reading.fetch(CommunityReportsRequest(community_ids))
    hits = (build_report_hit(content, "rated by the model", score=0.0) for content in contents)
    return {community: hit for community, hit in zip(community_ids, hits, strict=True) if hit is not None}
