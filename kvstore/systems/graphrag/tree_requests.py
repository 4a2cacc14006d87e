"""Requests of ``global`` to the tree of communities: chunks outside the communities, and scored communities. A
community is *allowed* if it has a chunk of a document that matches the query's condition. A *newer* chunk was added
after the build. A *term* is a stemmed word; its *rarity* is its IDF.

In: the chunks near a question, or communities whose children are requested. Out: which chunks belong to no community,
or are newer than the communities; and the children with chunks that the query allows, with their scores for the
question.

The score of a community is the cosine of its centroid, plus the fraction of the question's words in its report,
weighted by rarity (BM25).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...retrieval.lexical_search import K1
from ...storage import records
from ...structures.clustering.affinity import IntArray
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...structures.vectors.vectors import Vector
from .communities import Communities
from .report_hits import find_report_sources, render_reports, require_communities
from .report_terms import build_report_terms

#: The number of nearest communities, out of the communities compared at once, whose reports are read.
_NUM_SCORED_REPORTS = 50
#: The number of decimals of a cosine.
_DECIMALS = 6
#: The maximum number of reports whose terms are cached, about 2 kB each.
_MAX_CACHED_TERMS = 1 << 14


class ChunkPlacement(NamedTuple):
    """The chunks that are in no community of the build, and the communities that may be shown.

    ``unassigned_chunks`` are the chunks in no community, then the ``newer_chunks``, added after the build. ``allowed``
    is the mask of the communities with a document that matches the query's condition; None if the query has no
    condition.
    """

    unassigned_chunks: list[int]
    newer_chunks: frozenset[int]
    allowed: npt.NDArray[np.bool_] | None


class UnassignedChunksRequest(ReadRequest[ChunkPlacement]):
    """A request for the chunks in no community. They are selected from ``near_chunks``, the chunks near the question,
    and, if the query allows only some documents, from all chunks of these documents. The answer also has all chunks
    added after the build, and the mask of the communities that may be shown, which have a chunk of an allowed document
    (None: the query has no condition).
    """

    near_chunks: Sequence[int]

    def fetch(self, state: State) -> ChunkPlacement:
        communities, allowed = require_communities(state), state.allowed
        allowed_chunks: list[int] = []
        newer_ids = np.array(communities.list_newer_chunks(), np.uint64)
        if allowed is not None:
            documents = state.documents.get_many(allowed.documents.tolist())
            allowed_chunks = [chunk for record in documents.values() for chunk in record.chunk_ids()]
            newer_ids = newer_ids[allowed.get_chunk_mask(newer_ids)]
        newer_chunks: list[int] = newer_ids.tolist()
        candidates = list(dict.fromkeys((*self.near_chunks, *allowed_chunks)))
        communities_by_chunk = dict(zip(candidates, communities.find_by_chunks(candidates), strict=True))
        is_allowed = None
        if allowed is not None:
            is_allowed = np.zeros(len(communities), np.bool_)
            is_allowed[list(set(chain.from_iterable(communities_by_chunk.values())))] = True
        newer_set = frozenset(newer_chunks)
        unassigned = [chunk for chunk, path in communities_by_chunk.items() if not path or chunk in newer_set]
        return ChunkPlacement(
            unassigned_chunks=list(dict.fromkeys((*unassigned, *newer_chunks))),
            newer_chunks=newer_set,
            allowed=is_allowed,
        )


class ScoredCommunities(NamedTuple):
    """Communities (ids ascending), their parents, levels, scores, and factors by which scores are multiplied. A factor
    is from 1 to 2 and grows with the number of chunks. ``change`` identifies the build of the communities.
    """

    change: int
    communities: IntArray
    parents: IntArray
    levels: IntArray
    scores: npt.NDArray[np.float64]
    factors: npt.NDArray[np.float64]

    def select(self, mask: npt.NDArray[np.bool_]) -> ScoredCommunities:
        """Return the communities for which the mask is true."""
        return self._replace(
            communities=self.communities[mask],
            parents=self.parents[mask],
            levels=self.levels[mask],
            scores=self.scores[mask],
            factors=self.factors[mask],
        )


class ScoredChildrenRequest(ReadRequest[ScoredCommunities]):
    """A request for the children of ``parents`` (None: the coarsest communities), with their scores. ``allowed`` is the
    mask of the allowed communities (None: all); others are omitted. ``vector`` is the question's unit vector, and
    ``rarities`` has the rarity (IDF) of each of its terms. Without ``allowed``, communities without members or chunks
    are omitted. If the question has words with a rarity, the nearest communities also get a score for these words in
    their reports. These scores replace the ratings by a model in the dynamic community selection of microsoft/graphrag.
    """

    parents: IntArray | None
    allowed: npt.NDArray[np.bool_] | None
    vector: Vector
    rarities: Mapping[str, float]

    def fetch(self, state: State) -> ScoredCommunities:
        communities = require_communities(state)
        tree = communities.tree
        all_ids = tree.get_partition(0) if self.parents is None else np.sort(tree.list_children(self.parents))
        ids = communities.filter_visible(all_ids) if self.allowed is None else all_ids[self.allowed[all_ids]]
        # Rounded, so that cosines that differ only by rounding errors tie.
        scores = communities.compute_cosines(ids, self.vector).astype(np.float64).round(_DECIMALS)
        if self.rarities:
            nearest_indexes = find_best_indexes(ids, scores, _NUM_SCORED_REPORTS)
            scores[nearest_indexes] += [
                score_terms(terms, self.rarities)
                for terms in _get_terms(state, communities, ids[nearest_indexes].tolist())
            ]
        factors = 1 + tree.ratings[ids] / 100  # ten times a rating from 0 to 10
        return ScoredCommunities(
            communities.change,
            communities=ids,
            parents=tree.parents[ids],
            levels=tree.levels[ids],
            scores=scores,
            factors=factors,
        )


def find_best_indexes(communities: IntArray, scores: npt.NDArray[np.float64], limit: int) -> npt.NDArray[np.intp]:
    """Return the indexes of the ``limit`` highest scores, best first, ties by community."""
    if not 0 < limit < len(scores):
        return np.lexsort((communities, -scores))[:limit]
    # Only scores of at least the ``limit``-th highest are sorted.
    cutoff_index = len(scores) - limit
    candidates = np.flatnonzero(scores >= np.partition(scores, cutoff_index)[cutoff_index])
    return candidates[np.lexsort((communities[candidates], -scores[candidates]))[:limit]]


def score_terms(terms: str, rarities: Mapping[str, float]) -> float:
    """Return how well a text matches the question's words, 0 to 1.

    This is BM25 without length normalization, divided by its upper bound. ``rarities`` are the IDF weights of the
    question's words. ``terms`` are the terms of the text in one string, each between spaces and as often as it occurs.
    """
    term_counts = ((rarity, terms.count(f" {term} ")) for term, rarity in rarities.items())
    score = math.fsum(rarity * count * (K1 + 1) / (count + K1) for rarity, count in term_counts if count)
    max_score = math.fsum(rarities.values()) * (K1 + 1)  # for infinite counts
    return score / (max_score or 1.0)  # 0 cannot be a divisor


class _CachedTerms(NamedTuple):
    """The terms of a community's title and report, and these (``source``, encoded), from which the terms were made."""

    source: bytes
    terms: str


def _get_terms(state: State, communities: Communities, community_ids: Sequence[int]) -> list[str]:
    """Return, for each community, the terms of its report in one string, each between spaces and as often as it occurs.

    The stored terms are used if the query allows all documents and nothing changed since the build. Otherwise, the
    terms come from the current title and text. They are cached together with the title and the text or spans that they
    come from, and rebuilt if these have changed.
    """
    if state.allowed is None and communities.is_unchanged:
        return communities.get_built_terms(community_ids)
    titles = communities.get_titles(community_ids)
    reports = find_report_sources(state, communities, community_ids)
    cache: dict[int, _CachedTerms] = communities.get_cached("terms of reports", dict)
    sources = [
        records.pack([title, report.spans if report.model_text is None else report.model_text])
        for title, report in zip(titles, reports, strict=True)
    ]
    cached_items = [cache.get(community, _CachedTerms(b"", "")) for community in community_ids]
    terms = [item.terms for item in cached_items]
    changed_indexes = [
        index for index, (source, item) in enumerate(zip(sources, cached_items, strict=True)) if item.source != source
    ]
    if len(cache) + len(changed_indexes) > _MAX_CACHED_TERMS:
        cache.clear()
    texts = render_reports(state, [reports[index] for index in changed_indexes])
    for index, text in zip(changed_indexes, texts, strict=True):
        terms[index] = build_report_terms(titles[index], text, state.settings.stemmer)
        cache[community_ids[index]] = _CachedTerms(sources[index], terms[index])
    return terms
