"""Strategy ``adaptive``: hybrid search plus a walk, in one score. The *walk* is personalized PageRank over chunks and
entities, from the question's names; its weight grows with its likely use. The *remainder* is the question without its
names. A *spread* is the estimated number of a name's chunks.

The walk answers a question that mentions something rare and asks for a fact stated elsewhere. Hybrid search answers a
question about the content of one chunk. Most questions do not show which kind they are, so a chunk's score is a sum:
its score in hybrid search (:mod:`~kvstore.systems.hybrid.direct_search`) plus its score in the walk
(:mod:`~kvstore.systems.graph.strategy`) times the weight of the walk. The weight depends on three properties that the
store can measure:

- How specific the names are. Names in few chunks lead somewhere; names that are everywhere lead everywhere.
- How much of the question its names leave. If they leave almost everything, they say little. If they leave almost
  nothing, the walk has no direction. If they leave a single word ("What is meant by X?", "X's husband"), the chunks of
  the name contain the answer: a chain of facts needs one word for its first step and one for its end. A comparison of
  names needs no such words.
- How much of the question the best chunk of hybrid search already covers.

Names in too many chunks are not starts and remain part of the question. If the weight is close to zero, there is no
walk. For any weight of the walk, the best result of hybrid search keeps a place near the top. If documents have
triples, the names that these connect to the question lead to further chunks (:mod:`.triple_joins`).

After Adaptive-RAG (Jeong et al. 2024), in which a trained classifier selects between retrieving once and in several
steps. Here nothing is trained, and both are weighted instead of one being selected. In: a query. Out: evidence; EXPLAIN
shows the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import Option, format_count
from ...derived.passage_graph.walk import (
    Spread,
    compute_spreads,
    describe_paths,
    make_all_words_request,
    make_degree_request,
)
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import (
    Decomposition,
    QuestionEntity,
    RecognitionRequest,
    decompose,
    decompose_question,
    is_written_as_name,
    record_recognized_entities,
)
from ...structures.id_sets import merge_distinct
from ...structures.ranking import append_tails, best, scale_to_best
from ...structures.read_requests import Ids
from ...text.languages import detect_question_language, get_main_language
from ...text.normalize import to_entity_key
from ...text.words import get_informative_terms
from ..graph.graph_requests import HasTriplesRequest
from ..graph.strategy import NUM_NEAREST, WalkResult, walk_graph
from ..hybrid.direct_search import HybridResult, combine_searches, search_by_vector, search_by_words
from .triple_joins import JoinedChunks, JoinedChunksRequest

#: A name in one of n chunks carries log n of information. Below this share of the rarest possible name's information,
#: the walk gets less weight; the exponent sets how fast the weight falls.
_MIN_INFORMATION = 0.75
_SPECIFICITY_EXPONENT = 8
#: The minimum fraction of information at which a name is a start and not just a word in the question.
_MIN_NAME_INFORMATION = 0.5
#: The fraction of the question outside its names below which the walk gets less weight.
_MIN_REMAINDER_FRACTION = 0.15
#: The fraction of the question in its names below which the weight of the walk falls with its square.
_MIN_NAMES_FRACTION = 0.3
#: The number of words a chain of facts needs in addition to the names: one for its first step, and one for its end.
_MIN_CHAIN_WORDS = 2
#: The fraction of the question missing from the best chunk below which the walk gets less weight.
_MIN_MISSING_FRACTION = 0.3
#: Exponent that flattens the scores of a walk: the chunks at its end have small scores.
_WALK_SCORE_EXPONENT = 0.25
#: The fraction of the walk's weight that the best result of hybrid search gets as a bonus, and the exponent by which
#: the bonus falls with the score.
_TOP_BONUS = 0.3
_TOP_EXPONENT = 16
#: The number of best chunks whose triples are read, and the greatest bonus of a chunk that they lead to, as a fraction
#: of the greatest other score.
_NUM_JOINING_CHUNKS = 3
_JOINED_BONUS = 0.2
#: The exponent of a chunk's cosine in its bonus.
_JOINED_EXPONENT = 4
#: The maximum weight of the walk in a store that is not in English. On single facts in German, Spanish and Russian, a
#: higher weight only loses hits.
_MAX_FOREIGN_WALK_WEIGHT = 0.5
#: The minimum weight for which a walk is run.
_MIN_WALK_WEIGHT = 0.05


class AdaptiveStrategy:
    """Hybrid search plus a walk from the question's names, weighted by how much the walk can contribute."""

    name = "adaptive"
    description = "hybrid search and the walk of graph in one ranking; rare names give the walk more weight"
    options: Mapping[str, Option] = {
        "walk": Option(32, 0, 1000, "maximum weight of the walk; direct search has weight 1"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Rank chunks by hybrid search plus a weighted walk over the entity graph (personalized PageRank).

        The walk is skipped if its weight for this question is too small. If documents have triples (subject, relation,
        object), the chunks of names that triples connect to the question are added.
        """
        # The names in the question and the numbers of their chunks are read in the two rounds of hybrid search.
        dense, (names,) = search_by_vector(query, [RecognitionRequest(query.question, capitalized_only=True)])
        name_requests = [make_degree_request(names), make_all_words_request(names, query.stem), HasTriplesRequest()]
        lexical, (degrees, all_words_counts, has_triples) = search_by_words(query, dense, other_requests=name_requests)
        hybrid = combine_searches(query, dense, lexical)
        with query.trace.step("recognize entities") as step:
            record_recognized_entities(query, names, step)
        spreads = compute_spreads(names, degrees, all_words_counts)
        start_names = _select_start_names(query, names, spreads)  # without names in too many chunks
        decomposition = decompose_question(query, start_names)
        with query.trace.step("weigh walk") as step:
            factors = _compute_walk_factors(query, hybrid, names, decomposition, spreads)
            weight = self._choose_max_walk_weight(query) * factors.weight_fraction
            step.detail = f"{weight:.3g}: {factors}"  # the weight, and the quantities that determine it
        walk_result = None
        if weight >= _MIN_WALK_WEIGHT:
            start_degrees = [degree for name, degree in zip(names, degrees, strict=True) if name in start_names]
            rankings = [hybrid.dense_ranking[:NUM_NEAREST], hybrid.lexical_ranking[:NUM_NEAREST]]
            walk_result = walk_graph(query, start_names, start_degrees, decomposition, rankings)
            if walk_result is not None and not len(walk_result.chunks):  # it reaches no chunk that the query allows
                walk_result = None
        chunks, scores, paths = hybrid.chunks, hybrid.scores, hybrid.format_paths()
        if walk_result is not None:
            chunks, scores = _merge_scores(hybrid, walk_result, weight)
            paths = {}  # replaced below by the paths of the walk, for the best chunks only
        if has_triples:
            chunks, scores, triple_paths = _add_triple_chunks(query, hybrid, decomposition, chunks, scores)
            paths |= triple_paths
        ranking = best(query.reading, chunks, scores, query.reach)
        if walk_result is not None:
            unexplained_chunks = [chunk for chunk, _ in ranking if chunk not in paths]
            paths |= describe_paths(query.reading, walk_result.ranks, unexplained_chunks)
        # If there are fewer candidates than the query needs, the other results of both searches follow.
        ranking = append_tails(ranking, *hybrid.full_rankings, top=query.reach)
        return evidence_of(query, self.name, ranking, paths=paths, pool=len(chunks))

    def _choose_max_walk_weight(self, query: Query) -> float:
        """Return the maximum weight of the graph walk in the score of a chunk: the ``walk`` option.

        If the query does not set it, the default is lower for a language other than English. The language of most
        documents decides, or the question's language if the store has no main language (stemmer ``none``).
        """
        if "walk" not in query.options:
            reader = query.reading
            main_language = get_main_language(reader.settings.stemmer, reader.counters.languages)
            language = main_language or detect_question_language(query.question)  # None: unknown
            if language not in (None, "english"):
                return _MAX_FOREIGN_WALK_WEIGHT
        return option(query, self, "walk")


def _select_start_names(
    query: Query, names: Sequence[QuestionEntity], spreads: Mapping[str, Spread]
) -> list[QuestionEntity]:
    """Return the names in a question at which the graph walk starts: names in at least one chunk, but not in too many.

    A name that the question compares with another can be in many chunks. ``spreads`` has the estimated number of chunks
    about each name, by the name's key.
    """
    compared_keys = decompose(query.question, names).compared_keys
    # A name in one of n chunks carries log n of information; in more than ``max_chunks`` chunks, it carries too little.
    max_chunks = math.pow(query.chunk_count, 1 - _MIN_NAME_INFORMATION)
    return [
        name
        for name in names
        if spreads[name.key].chunks > 0 and (name.key in compared_keys or spreads[name.key].chunks <= max_chunks)
    ]


class _WalkFactors(NamedTuple):
    """The quantities that determine the weight of the walk, and that EXPLAIN shows. ``name`` is the rarest name (None:
    none is suitable), in about ``name_chunks`` of ``total_chunks`` chunks. ``num_words`` is the number of informative
    words outside names, ``remainder_fraction`` their share of the question.

    The share is weighted by rarity. ``is_comparison`` is true if the question compares names. ``coverage`` is the
    fraction of the question that the best chunk covers.
    """

    name: str | None
    name_chunks: float
    total_chunks: int
    remainder_fraction: float
    num_words: int
    is_comparison: bool
    coverage: float

    @property
    def weight_fraction(self) -> float:
        """The weight of the graph walk for a question, as a fraction of its maximum weight, from 0 to 1.

        It is 0 if the question has no name, or has few words outside its names and is not a comparison. It is reduced
        if the name is frequent, or if the best chunk covers almost all of the question. It is also reduced if the
        names, or the words outside them, are a small part of the question.
        """
        if self.name is None or (self.num_words < _MIN_CHAIN_WORDS and not self.is_comparison):
            return 0.0
        remainder_factor = min(1.0, self.remainder_fraction / _MIN_REMAINDER_FRACTION)
        names_factor = min(1.0, (1 - self.remainder_fraction) / _MIN_NAMES_FRACTION) ** 2
        missing_factor = min(1.0, (1 - self.coverage) / _MIN_MISSING_FRACTION)
        # A name in at most this many chunks is specific; beyond that, the factor falls quickly.
        max_chunks = math.pow(self.total_chunks, 1 - _MIN_INFORMATION)
        specificity = min(1.0, math.pow(max_chunks / self.name_chunks, _SPECIFICITY_EXPONENT))
        return specificity * (remainder_factor * names_factor) * missing_factor

    def __str__(self) -> str:
        """Return a sentence for EXPLAIN that lists the quantities that determine the weight of the walk."""
        name_text = (
            "no name to start at"
            if self.name is None
            else f"{self.name} is in about {self.name_chunks:.3g} of {self.total_chunks} chunks"
        )
        words = format_count(self.num_words, "word")
        remainder_text = f"{self.remainder_fraction:.0%} of the question is not names ({words})"
        if self.is_comparison:
            remainder_text += "; it compares names"
        return f"{name_text}; {remainder_text}; the best chunk covers {self.coverage:.0%} of the question"


def _compute_walk_factors(
    query: Query,
    hybrid: HybridResult,
    names: Sequence[QuestionEntity],
    decomposition: Decomposition,
    spreads: Mapping[str, Spread],
) -> _WalkFactors:
    """Return the quantities that determine the weight of the graph walk for a question.

    ``names`` are its known names, ``spreads`` the estimated number of chunks about each, and ``decomposition`` the
    names that it compares and its remainder without names. ``hybrid`` is the result of hybrid search, with the rarity
    (IDF) of each term in the question.
    """
    stem = query.stem
    informative_terms = get_informative_terms(query.question, stem)
    remainder = decomposition.remainder
    remainder_terms = get_informative_terms(remainder, stem) if remainder != query.question else informative_terms
    total_rarity = math.fsum(rarity for term, rarity in hybrid.rarities.items() if term in informative_terms)
    remainder_rarities = [
        rarity for term, rarity in hybrid.rarities.items() if term in informative_terms and term in remainder_terms
    ]  # one per informative word outside the names
    remainder_fraction = math.fsum(remainder_rarities) / total_rarity if total_rarity else 0.0
    candidates = [
        (spreads[name.key].chunks, name.key)
        for name in names
        if spreads[name.key].chunks
        and is_written_as_name(query.question, name, allow_phrases=spreads[name.key].is_proper)
    ]
    num_name_chunks, rarest_name = min(candidates, default=(0.0, None))  # ties are in order of keys
    return _WalkFactors(
        name=rarest_name,
        name_chunks=num_name_chunks,
        total_chunks=query.chunk_count,
        remainder_fraction=remainder_fraction,
        num_words=len(remainder_rarities),
        is_comparison=bool(decomposition.compared_keys),
        coverage=hybrid.coverage,
    )


def _merge_scores(hybrid: HybridResult, walk_result: WalkResult, weight: float) -> tuple[Ids, npt.NDArray[np.float64]]:
    """Return the chunks that hybrid search or the graph walk found, ids ascending, with weighted sums of their scores.

    ``weight`` is the weight of the walk; hybrid search has weight 1. The best hybrid scores get a bonus that grows with
    ``weight``, so that they stay near the top. All scores are divided by the sum of the weights and the bonus.
    """
    chunks = merge_distinct(hybrid.chunks, walk_result.chunks)
    scores = np.zeros(len(chunks))
    max_score = hybrid.scores.max(initial=0.0) or 1.0  # not 0, because it is a divisor
    top_scores = (hybrid.scores / max_score) ** _TOP_EXPONENT
    scores[np.searchsorted(chunks, hybrid.chunks)] = hybrid.scores + weight * _TOP_BONUS * top_scores
    walk_scores = (walk_result.scores / walk_result.scores.max()) ** _WALK_SCORE_EXPONENT
    scores[np.searchsorted(chunks, walk_result.chunks)] += weight * walk_scores
    return chunks, scores / (1 + weight * (1 + _TOP_BONUS))


def _add_triple_chunks(
    query: Query, hybrid: HybridResult, decomposition: Decomposition, chunks: Ids, scores: npt.NDArray[np.float64]
) -> tuple[Ids, npt.NDArray[np.float64], dict[int, str]]:
    """Add the chunks that the triples of the best chunks lead to, or raise their scores (HippoRAG 2, section 3.2).

    They are chunks of the names in triples (subject, relation, object) that share words with the question. The bonus of
    a chunk grows with the match of the triple and the cosine of the chunk. ``chunks`` (ids ascending) have ``scores``.
    ``hybrid`` has the rarity (IDF) of each term in the question, and ``decomposition`` the question without its names.
    Returns all chunks, their scores, rescaled to at most 1, and, for EXPLAIN, the paths of the chunks that were added.
    """
    best_chunks = [chunk for chunk, _ in best(query.reading, chunks, scores, _NUM_JOINING_CHUNKS)]
    joined = _find_joined_chunks(query, hybrid, decomposition, best_chunks)
    bonuses = _JOINED_BONUS * joined.match_scores * scale_to_best(joined.cosines) ** _JOINED_EXPONENT
    candidates = set(chunks.tolist())
    joined_rows = list(zip(joined.chunks.tolist(), joined.pairs, strict=True))
    # If several triples lead to a chunk, the path shows the best of them, whose row is the first.
    paths = {chunk: f"triple: {' → '.join(pair)}" for chunk, pair in reversed(joined_rows) if chunk not in candidates}
    all_chunks = merge_distinct(chunks, joined.chunks)
    all_scores = np.zeros(len(all_chunks))
    np.maximum.at(all_scores, np.searchsorted(all_chunks, joined.chunks), bonuses)
    all_scores[np.searchsorted(all_chunks, chunks)] += scores
    return all_chunks, all_scores / (1 + _JOINED_BONUS), paths


def _find_joined_chunks(
    query: Query, hybrid: HybridResult, decomposition: Decomposition, best_chunks: Sequence[int]
) -> JoinedChunks:
    """Return the chunks of the names that the triples of the documents of ``best_chunks`` connect to the question.

    ``hybrid`` has the rarity (IDF) of each term in the question, and ``decomposition`` the question without its names.
    Chunks that the query's condition does not allow are omitted.
    """
    remainder_terms = get_informative_terms(decomposition.remainder, query.stem)
    rarities = {term: rarity for term, rarity in hybrid.rarities.items() if term in remainder_terms}
    vector, question_key = query.embed_part(decomposition.remainder), to_entity_key(query.question)
    with query.trace.step("names that triples join") as step:
        answer = query.reading.fetch(
            JoinedChunksRequest(best_chunks, question_key, rarities=rarities, vector=vector, stem=query.stem)
        )
        step.detail = "; ".join(dict.fromkeys(map(" → ".join, answer.pairs))) or "none"
        step.count = len(answer.chunks)
    is_allowed = query.mask_allowed(answer.chunks)
    return JoinedChunks(
        chunks=answer.chunks[is_allowed],
        match_scores=answer.match_scores[is_allowed],
        cosines=answer.cosines[is_allowed],
        pairs=list(compress(answer.pairs, is_allowed)),
    )
