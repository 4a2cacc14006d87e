"""Hybrid search: chunks with one score, 0 to 1, from *dense* search (cosine of vectors), *lexical* search (BM25) and
bonuses. The *noise* is the distribution of the cosines of unrelated chunks. The *drop* of a search is how far its
scores fall from rank 1 to rank 10.

Candidates are the best chunks by cosine and the best by BM25. Each score is divided by the best score of its search, so
that the two can be added: a convex combination (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
Retrieval", TOIS 2023).

A cosine is first reduced by the score of an unrelated chunk, which differs between embedders. The scores of unrelated
chunks are assumed to be normally distributed (Manmatha, Rath and Feng 2001, section 3), and their mean is estimated
from two ranks. The search that separates its best results more clearly gets more weight: the spread of scores at the
top predicts how well a search performs (Shtok et al., "Predicting Query Performance by Query-Drift Estimation", TOIS
2012). Dense search loses its weight if the chunks that share the question's words are no nearer to it than unrelated
chunks, because then the embedder does not know the language (Shtok, Kurland and Carmel, "Query Performance Prediction
Using Reference Lists", TOIS 2016; the reference is lexical search).

The best candidates get three bonuses, in which rare words count for more:

- the fraction of the question's words in the headings above the chunk;
- the proximity of words that are adjacent in the question (term proximity: Tao and Zhai 2007; sequential dependence:
  Metzler and Croft 2005);
- how well the name of something that begins in the chunk (a section, the entry of a list, an option) matches the
  question. Many chunks mention a thing, as a list of changes does, but one defines it.

A number by which the question identifies something, such as an invoice or a version, is searched for as written. The
file name replaces a missing title of a document.

In: a query. Out: :class:`HybridResult`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import format_count
from ...models.protocol import MULTILINGUAL_EMBEDDER
from ...process.frozen_dataclass import frozen_dataclass
from ...retrieval.dense_search import CosineRequest, NearestChunksRequest
from ...retrieval.lexical_search import (
    QuestionWords,
    WordSearchRequest,
    WordSearchResult,
    build_count_request,
    build_term_weights,
    parse_question_words,
)
from ...retrieval.query import Query
from ...structures.id_sets import merge_distinct
from ...structures.ranking import Ranking, append_tails, assign_ranks, best, list_chunk_ids, scale_to_best
from ...structures.read_requests import Ids, ReadRequest
from .chunk_bonuses import BonusScorer

#: The lower of the two ranks from which the noise is estimated is divided by this to get the upper one.
_UPPER_RANK_DIVISOR = 5
#: The rank down to which the drop of the scores is measured, and the smallest drop that is used.
_DROP_RANK = 10
_MIN_DROP = 0.02
#: The separation at which dense search begins to get weight, and at which it gets all of it. It is the distance of the
#: chunks with the question's words from unrelated chunks, in standard deviations of the unrelated chunks' cosines.
_SEPARATION_RANGE = (0.5, 1.0)
#: The drop of lexical scores from which lexical search is a full reference for dense search. A flat ranking is not a
#: reference.
_MIN_REFERENCE_DROP = 0.1
#: The weight of dense search relative to lexical search, by embedder, if both separate their best results equally well.
#: Measured on six languages. Other embedders have 1.
_DENSE_ADVANTAGES = {MULTILINGUAL_EMBEDDER: 7 / 3}
#: The number of chunks taken from dense and from lexical search each.
_NUM_CANDIDATES = 100
#: The weight of a number of the question, such as an order number, which is compared as a whole.
_NUMBER_WEIGHT = 1.0
#: The number of best candidates whose headings and texts are read.
_NUM_READ = 40

_NO_CHUNKS: Ids = np.empty(0, np.uint64)


@frozen_dataclass
class Weights:
    """The weights of the terms that add up to the score of a chunk.

    ``words`` is the weight of lexical search, 0 to 1, and dense search has the rest. Both are then adjusted by how well
    each search separates its best results. The others are bonuses. ``nearness`` is for question words that occur close
    together, and ``headings`` for headings with words from the question. ``entries`` is for a section or list item that
    begins in the chunk and whose name is in the question.
    """

    words: float = 0.5
    nearness: float = 0.2
    headings: float = 0.1
    entries: float = 0.3


DEFAULT_WEIGHTS = Weights()


@frozen_dataclass
class HybridResult:
    """The result of hybrid search. ``chunks`` are the ids of the candidates, ascending, with their ``scores``.
    ``dense_ranking`` (by vectors) and ``lexical_ranking`` (by words) are the best chunks of the two searches.
    ``full_rankings`` are the same rankings in full, for queries that request more hits.

    ``rarities`` are the IDF weights of the question's terms that the store has. ``coverage`` is the fraction of them,
    by rarity, in the best chunk.
    """

    chunks: Ids
    scores: npt.NDArray[np.float64]
    dense_ranking: Ranking
    lexical_ranking: Ranking
    full_rankings: tuple[Ranking, Ranking]
    rarities: Mapping[str, float]
    coverage: float

    def rank(self, query: Query, min_length: int = 0) -> Ranking:
        """Return the ranking of the chunks, best first.

        It has as many chunks as the query needs (``query.reach``), or ``min_length`` if it is greater. Chunks that are
        not candidates follow in the order of the two searches.
        """
        top = max(query.reach, min_length)
        return append_tails(best(query.reading, self.chunks, self.scores, top), *self.full_rankings, top=top)

    def format_paths(self) -> dict[int, str]:
        """Return the path to each chunk: its ranks in the two searches, such as "vector #2, words #1"."""
        ranks_by_chunk: dict[int, list[str]] = {}
        for name, ranking in (("vector", self.dense_ranking), ("words", self.lexical_ranking)):
            for chunk, rank in assign_ranks(ranking):
                ranks_by_chunk.setdefault(chunk, []).append(f"{name} #{rank}")
        return {chunk: ", ".join(ranks) for chunk, ranks in ranks_by_chunk.items()}


class DenseSearch(NamedTuple):
    """The result of the first round of reads of hybrid search.

    ``ranking`` has the chunks with the nearest vectors, best first. ``words`` are the words in the question to search
    for, and ``counts`` has the number of chunks that contain each of their terms.
    """

    ranking: Ranking
    words: QuestionWords
    counts: Mapping[str, int]


class LexicalSearch(NamedTuple):
    """The result of the second round of reads of hybrid search.

    ``result`` has the best chunks by BM25, best first. ``bm25_scores`` has the BM25 scores of these chunks, of the
    chunks of dense search, and of extra chunks, by id. ``rarities`` are the IDF weights of the question's terms.
    """

    result: WordSearchResult
    bm25_scores: Mapping[int, float]
    rarities: Mapping[str, float]


def search_hybrid(query: Query, weights: Weights = DEFAULT_WEIGHTS, extra_chunks: Ids = _NO_CHUNKS) -> HybridResult:
    """Search by vectors and by words, and score the chunks of both by a weighted sum of cosine, BM25 and bonuses.

    ``extra_chunks`` are scored too; the query's condition must allow them.
    """
    dense, _ = search_by_vector(query)
    lexical, _ = search_by_words(query, dense, extra_chunks)
    return combine_searches(query, dense, lexical, weights, extra_chunks)


def search_by_vector(query: Query, other_requests: Sequence[ReadRequest[Any]] = ()) -> tuple[DenseSearch, list[Any]]:
    """Find the chunks with the nearest vectors, and count the chunks that contain each word of the question.

    Takes one round of reads. The answers to ``other_requests``, which are sent in the same round, are returned too.
    """
    nearest_request = NearestChunksRequest(query.vector, max(_NUM_CANDIDATES, query.reach), query.allowed)
    words = parse_question_words(query.question, query.stem)
    with query.trace.step("vector search") as step:
        (ranking, step.detail), counts, *answers = query.reading.fetch_all(
            [nearest_request, build_count_request(words), *other_requests]
        )
        step.count = len(ranking)
    return DenseSearch(ranking, words, counts), answers


def search_by_words(
    query: Query, dense: DenseSearch, extra_chunks: Ids = _NO_CHUNKS, other_requests: Sequence[ReadRequest[Any]] = ()
) -> tuple[LexicalSearch, list[Any]]:
    """Find the best chunks by BM25; compute the BM25 scores of the chunks of dense search and of ``extra_chunks`` too.

    Takes one round of reads. The answers to ``other_requests``, which are sent in the same round, are returned too.
    """
    words, counts = dense.words, dense.counts
    with query.trace.step("lexical search") as step:
        terms = words.list_lookup_terms(counts)
        weights = build_term_weights(query.reading.counters, terms, counts)
        other_chunks = merge_distinct(list_chunk_ids(dense.ranking), extra_chunks)
        top = max(_NUM_CANDIDATES, query.reach)
        request = WordSearchRequest(weights, top, allowed=query.allowed, other_chunks=other_chunks, vector=query.vector)
        result, *answers = query.reading.fetch_all([request, *other_requests])
        step.detail, step.count = "BM25 of " + ", ".join(terms), len(result.ranking)
    bm25_scores = dict(result.ranking)
    bm25_scores.update(zip(other_chunks.tolist(), result.other_scores.tolist(), strict=True))
    # The variants are the terms of the same words in other languages; a word counts only once.
    own_terms = words._replace(variants=()).list_lookup_terms(counts)
    rarities = {term: weights.rarities[term] for term in own_terms if term in weights.rarities}
    return LexicalSearch(result, bm25_scores, rarities), answers


def combine_searches(
    query: Query,
    dense: DenseSearch,
    lexical: LexicalSearch,
    weights: Weights = DEFAULT_WEIGHTS,
    extra_chunks: Ids = _NO_CHUNKS,
) -> HybridResult:
    """Score chunks by a weighted sum of cosine and BM25, with bonuses for proximity, headings, entries and numbers.

    An entry is a section or list item that begins in the chunk. ``dense`` (by vectors) and ``lexical`` (by words) are
    the results of the two searches; the search that separates its best results more clearly gets more weight. The
    candidates are the best chunks of each search, and ``extra_chunks``, which the query's condition must allow. The
    steps are recorded for EXPLAIN.
    """
    dense_ranking, lexical_ranking = dense.ranking[:_NUM_CANDIDATES], lexical.result.ranking[:_NUM_CANDIDATES]
    build_result = partial(
        HybridResult,
        dense_ranking=dense_ranking,
        lexical_ranking=lexical_ranking,
        full_rankings=(dense.ranking, lexical.result.ranking),  # of all chunks, candidates or not
        rarities=lexical.rarities,
    )
    with query.trace.step("combine scores") as step:
        chunks = merge_distinct(list_chunk_ids(dense_ranking), list_chunk_ids(lexical_ranking), extra_chunks)
        if not len(chunks):
            return build_result(chunks, np.empty(0), coverage=0.0)
        # The scores of both searches, each as a fraction of its best.
        cosines = _collect_cosines(query, dense_ranking, lexical.result, chunks)
        noise = fit_noise([cosine for _, cosine in dense_ranking], query.chunk_count)
        dense_scores = scale_to_best(cosines - noise.mean)
        lexical_scores = scale_to_best(np.array([lexical.bm25_scores[chunk] for chunk in chunks.tolist()]))
        # Each search is weighted by the square root of the drop of its scores from the best result to rank 10.
        reliability = compute_dense_reliability(cosines, lexical_scores, noise)
        dense_factor = reliability * _DENSE_ADVANTAGES.get(query.reading.settings.embedder, 1.0)
        lexical_weight = weights.words * math.sqrt(_measure_drop(lexical_scores))
        if lexical_weight:
            dense_weight = (1 - weights.words) * math.sqrt(_measure_drop(dense_scores)) * dense_factor
            lexical_weight /= lexical_weight + dense_weight
        scores = (1 - lexical_weight) * dense_scores + lexical_weight * lexical_scores
        scorer = BonusScorer(query, lexical.rarities)
        num_read = _add_bonuses(query, scorer, weights, chunks, scores)  # changes ``scores``
        (best_chunk,) = query.load_chunks(chunk for chunk, _ in best(query.reading, chunks, scores, 1))
        step.count = len(chunks)
        step.detail = _describe_weights(lexical_weight, reliability, num_read)
    return build_result(chunks, scores, coverage=scorer.compute_coverage(best_chunk))


def _describe_weights(lexical_weight: float, reliability: float, num_read: int) -> str:
    """Return a description of the scoring for EXPLAIN.

    ``lexical_weight`` is the weight of BM25 (0 to 1), ``reliability`` the factor by which the weight of cosine was
    reduced, and ``num_read`` the number of chunks that were read for bonuses.
    """
    description = (
        f"{1 - lexical_weight:.0%} cosine and {lexical_weight:.0%} BM25, each relative to its maximum; "
        f"bonuses for headings, entries and nearby words in {format_count(num_read, 'chunk')}"
    )
    if reliability < 1:
        description += (
            f"; cosine has {reliability:.0%} of its usual weight: chunks with the question's words are hardly "
            "nearer to the question than other chunks"
        )
    return description


def _add_bonuses(
    query: Query, scorer: BonusScorer, weights: Weights, chunks: Ids, scores: npt.NDArray[np.float64]
) -> int:
    """Add the bonuses of the best chunks to ``scores``, the scores of ``chunks``, in place; rescale them to at most 1.

    ``weights`` has the weight of each bonus. Only the best :data:`_NUM_READ` chunks are read. Returns their number.
    """
    best_chunks = np.array(sorted(chunk for chunk, _ in best(query.reading, chunks, scores, _NUM_READ)), np.uint64)
    indexes = np.searchsorted(chunks, best_chunks)
    for index, loaded_chunk in zip(indexes.tolist(), query.load_chunks(best_chunks.tolist()), strict=True):
        bonuses = scorer.compute_bonuses(loaded_chunk)
        scores[index] += weights.nearness * bonuses.proximity + weights.headings * bonuses.headings
        scores[index] += weights.entries * bonuses.entries + _NUMBER_WEIGHT * bonuses.numbers
    # A question without reference numbers cannot get the bonus for them.
    max_number_bonus = _NUMBER_WEIGHT if scorer.numbers else 0.0
    scores /= 1 + weights.nearness + weights.headings + weights.entries + max_number_bonus
    return len(best_chunks)


def _measure_drop(scores: npt.NDArray[np.float64]) -> float:
    """Return how far the scores of a search drop from the best result (1) to rank 10, from :data:`_MIN_DROP` to 1.

    ``scores`` are fractions of the best one, in any order. The drop is 1 if there are fewer than 10.
    """
    if len(scores) < _DROP_RANK:
        return 1.0
    index = len(scores) - _DROP_RANK
    return max(_MIN_DROP, 1 - float(np.partition(scores, index)[index]))


def _collect_cosines(
    query: Query, dense_ranking: Ranking, word_search: WordSearchResult, chunks: Ids
) -> npt.NDArray[np.float64]:
    """Return the cosine of each of ``chunks`` with the question, or zeros if dense search has no results.

    ``dense_ranking`` and ``word_search`` are the results of the two searches. Reads the cosines that neither computed.
    """
    if not dense_ranking:
        return np.zeros(len(chunks))
    known_cosines = dict(dense_ranking)
    if word_search.cosines is not None:
        for (chunk, _), cosine in zip(word_search.ranking, word_search.cosines.tolist(), strict=True):
            known_cosines.setdefault(chunk, cosine)
    missing_chunks = np.array([chunk for chunk in chunks.tolist() if chunk not in known_cosines], np.uint64)
    if len(missing_chunks):
        cosines = query.reading.fetch(CosineRequest(missing_chunks, query.vector))
        known_cosines.update(zip(missing_chunks.tolist(), cosines.tolist(), strict=True))
    return np.array([known_cosines[chunk] for chunk in chunks.tolist()], np.float64)


class Noise(NamedTuple):
    """The normal distribution of the cosines of chunks that are unrelated to a question.

    ``deviation`` is 0 if it is unknown. ``sample_size`` is the number of cosines from the best down to the upper of the
    two ranks that the distribution is fitted to.
    """

    mean: float
    deviation: float
    sample_size: int


def fit_noise(cosines: Sequence[float], num_chunks: int) -> Noise:
    """Estimate the distribution of the question's cosines with unrelated chunks, as a normal distribution.

    ``cosines`` are the greatest cosines of ``num_chunks`` chunks, in descending order. The distribution is fitted to
    the cosines at two ranks; the smaller rank is its sample size. All fields are 0 if there are too few cosines.
    """
    lower_rank = min(len(cosines), num_chunks // 2)
    upper_rank = lower_rank // _UPPER_RANK_DIVISOR
    if not upper_rank:
        return Noise(mean=0.0, deviation=0.0, sample_size=0)
    # The expected distance of each rank above the mean, in standard deviations.
    low, high = (compute_normal_quantile(1 - rank / (num_chunks + 1)) for rank in (lower_rank, upper_rank))
    deviation = (cosines[upper_rank - 1] - cosines[lower_rank - 1]) / (high - low)
    mean = cosines[lower_rank - 1] - low * deviation
    return Noise(mean, deviation, sample_size=upper_rank)


#: Wichura 1988 (Applied Statistics 37, 477–484), Algorithm AS 241, PPND16: the coefficients of the numerators and
#: denominators of two rational functions, the highest power first.
_CENTRAL_QUANTILE = (
    (
        2.50908092873012267270e3, 3.34305755835881281050e4, 6.72657709270087008530e4, 4.59219539315498714570e4,
        1.37316937655094611250e4, 1.97159095030655144270e3, 1.33141667891784377450e2, 3.38713287279636660800e0,
    ),
    (
        5.22649527885285456100e3, 2.87290857357219426740e4, 3.93078958000927106100e4, 2.12137943015865958670e4,
        5.39419602142475110770e3, 6.87187007492057908300e2, 4.23133307016009112520e1, 1.0,
    ),
)  # fmt: skip
_TAIL_QUANTILE = (
    (
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
        3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
    ),
)  # fmt: skip


#: The greatest distance from 1/2 of a probability in the central region, its square, and the shift of the argument of
#: the function for the tails.
_MAX_CENTRAL_DISTANCE, _CENTRAL_SHIFT, _TAIL_SHIFT = 0.425, 0.180625, 1.6


def compute_normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution for a probability from 1e-10 to 1 - 1e-10.

    This is Wichura's algorithm AS 241, as in ``statistics.NormalDist().inv_cdf``, without the import of
    :mod:`statistics`, which takes as long as a search. One rational function serves the central region, and another the
    tails.
    """
    centered = probability - 0.5
    if abs(centered) <= _MAX_CENTRAL_DISTANCE:
        argument = _CENTRAL_SHIFT - centered * centered
        numerator, denominator = (_evaluate_polynomial(powers, argument) for powers in _CENTRAL_QUANTILE)
        return numerator * centered / denominator
    tail_probability = probability if centered <= 0 else 1 - probability
    argument = math.sqrt(-math.log(tail_probability)) - _TAIL_SHIFT
    numerator, denominator = (_evaluate_polynomial(powers, argument) for powers in _TAIL_QUANTILE)
    return math.copysign(numerator / denominator, centered)


def _evaluate_polynomial(coefficients: tuple[float, ...], value: float) -> float:
    """Return the value of a polynomial with these coefficients, the highest power first (Horner's method)."""
    result = 0.0
    for coefficient in coefficients:
        result = result * value + coefficient
    return result


def compute_dense_reliability(
    cosines: npt.NDArray[np.float64], lexical: npt.NDArray[np.float64], noise: Noise
) -> float:
    """Return a factor, 0 to 1, for the weight of dense search; it is below 1 if the embedder does not suit the texts.

    If the embedder supports the language, the best chunks of lexical search have higher cosines than unrelated chunks,
    whose distribution is ``noise``. ``cosines`` has the cosine of each candidate, and ``lexical`` its BM25 score as a
    fraction of the best.
    """
    # The distance of the chunks with the best lexical scores from the noise, in standard deviations.
    weights = lexical**2
    if not noise.deviation > 0 or not weights.any():
        return 1.0
    # fsum rounds only once, so the order of chunks, which are sorted by their internal ids, does not matter.
    mean = math.fsum((weights * cosines).tolist()) / math.fsum(weights.tolist())
    separation = (mean - noise.mean) / noise.deviation
    # Added so that dense search does not lose weight by chance in a small store.
    standard_error = 1 / math.sqrt(noise.sample_size)
    low, high = _SEPARATION_RANGE
    reliability = min(1.0, max(0.0, (separation + standard_error - low) / (high - low)))
    # A flat lexical ranking is weak evidence, so it reduces the factor less.
    evidence = min(1.0, _measure_drop(lexical) / _MIN_REFERENCE_DROP)
    return 1 - (1 - reliability) * evidence
