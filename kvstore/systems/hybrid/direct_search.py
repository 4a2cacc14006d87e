"""Direct search: the chunks that resemble the question itself, each with one score between 0 and 1.

Candidates are the best by cosine and the best by BM25. Both scores become shares of the best one's, so that they can be
added: a convex combination (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023).

The zero of a cosine's share is the score of an unrelated chunk, which differs between embedders. The scores of
unrelated chunks are assumed to be normally distributed (Manmatha, Rath and Feng 2001, section 3), and their mean is
estimated from two ranks. The search that separates its best results more clearly gets more weight: the spread of scores
at the top predicts how well a search performs (Shtok et al., "Predicting Query Performance by Query-Drift Estimation",
TOIS 2012). Dense search loses its weight if the chunks that share the question's words are no nearer to it than
unrelated chunks, because then the embedder does not know the language (Shtok, Kurland and Carmel, "Query Performance
Prediction Using Reference Lists", TOIS 2016; the reference is lexical search).

The best candidates get three bonuses, in which rare words count for more:

- the share of the question in the headings above the chunk;
- the proximity of words that are adjacent in the question (term proximity: Tao and Zhai 2007; sequential dependence:
  Metzler and Croft 2005);
- how well the name of something that begins in the chunk (a section, the entry of a list, an option) matches the
  question. Many chunks mention a thing, as a list of changes does, but one defines it.

A number by which the question identifies something, such as an invoice or a version, is searched for as written. A
document without a title is called by the name of its file.

In: a query. Out: :class:`DirectResult`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...models.protocol import MULTILINGUAL_EMBEDDER
from ...retrieval.dense_search import CosineRequest, build_nearest_request
from ...retrieval.lexical_search import build_term_weights, parse_question_words
from ...retrieval.loaded_chunks import LoadedChunk
from ...retrieval.query import Query
from ...retrieval.word_search import WordSearchRequest, WordSearchResult, build_count_request
from ...structures.id_sets import merge_distinct
from ...structures.ranking import Ranking, append_tails, assign_ranks, best, scale_to_best
from ...structures.read_requests import Ids
from ...text.blocks import find_entry_terms
from ...text.normalize import fold_case
from ...text.words import (
    count_chunk_terms,
    count_heading_terms,
    find_reference_numbers,
    get_informative_terms,
    get_stemmer,
    is_unspaced,
    list_content_words,
    list_terms,
)

#: The lower of the two ranks from which the noise is estimated is divided by this to get the upper one.
_UPPER_RANK_DIVISOR = 5
#: The rank at which the fall of the scores is measured, and the smallest fall that is used.
_FALL_RANK = 10
_MIN_FALL = 0.02
#: The separation at which dense search begins to get weight, and at which it gets all of it. It is the distance of the
#: chunks with the question's words from unrelated chunks, in standard deviations of the cosines of the latter.
_SEPARATION_RANGE = (0.5, 1.0)
#: The fall of lexical scores from which lexical search is a full reference for dense search. A flat ranking is no
#: reference.
_MIN_REFERENCE_FALL = 0.1
#: How many times the weight of lexical search dense search gets with an embedder, if both separate their best results
#: equally well. Measured on six languages; another embedder has 1.
_DENSE_ADVANTAGES = {MULTILINGUAL_EMBEDDER: 7 / 3}
#: The number of chunks taken from dense and from lexical search each.
_NUM_CANDIDATES = 100
#: The weight of a number of the question, such as an order number, which is compared as a whole.
_NUMBER_WEIGHT = 1.0
#: The number of best candidates whose headings and texts are read.
_NUM_READ = 40
#: Characters of an average word with the space before it, and the greatest distance of two words, in words.
_WORD_LENGTH = 6
_MAX_WORD_DISTANCE = 8

_NO_CHUNKS: Ids = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the parts of a score.

    ``words`` is the share of lexical search; dense search has the rest, if it separates its best results as well. The
    others are bonuses: for question words that occur close together, for headings with words of the question, and for
    a section or entry that begins in the chunk and is named in the question.
    """

    words: float = 0.5
    nearness: float = 0.2
    headings: float = 0.1
    entries: float = 0.3


@dataclass(frozen=True, slots=True)
class DirectResult:
    """The result of direct search.

    ``chunks`` are ids, ascending, with their ``scores``. ``tails`` are the rankings of the two searches in full length,
    if more hits are requested than there are candidates. ``rarities`` are those of the question's terms that the store
    has; ``coverage`` is the share of them that the best chunk has.
    """

    chunks: Ids
    scores: npt.NDArray[np.float64]
    dense_ranking: Ranking
    lexical_ranking: Ranking
    tails: tuple[Ranking, Ranking]
    rarities: Mapping[str, float]
    coverage: float

    def rank(self, query: Query, min_length: int = 0) -> Ranking:
        """Return the chunks, best first: as many as the query needs, and at least ``min_length``."""
        top = max(query.reach, min_length)
        return append_tails(best(query.reading, self.chunks, self.scores, top), *self.tails, top=top)

    def format_paths(self) -> dict[int, str]:
        """Return the path of each chunk: its ranks in the two searches, such as "vector #2, words #1"."""
        parts: dict[int, list[str]] = {}
        for name, ranking in (("vector", self.dense_ranking), ("words", self.lexical_ranking)):
            for chunk, rank in assign_ranks(ranking):
                parts.setdefault(chunk, []).append(f"{name} #{rank}")
        return {chunk: ", ".join(ranks) for chunk, ranks in parts.items()}


def search_directly(query: Query, weights: Weights = Weights(), extra_chunks: Ids = _NO_CHUNKS) -> DirectResult:
    """Return the chunks that resemble the question. ``extra_chunks`` are further allowed chunks to score."""
    dense_tail, word_search, rarities = _run_searches(query, max(_NUM_CANDIDATES, query.reach), extra_chunks)
    dense_ranking, lexical_ranking = dense_tail[:_NUM_CANDIDATES], word_search.ranking[:_NUM_CANDIDATES]
    tails = dense_tail, word_search.ranking
    with query.trace.step("resemblance") as step:
        chunks = merge_distinct(_list_ids(dense_ranking), _list_ids(lexical_ranking), extra_chunks)
        if not len(chunks):
            return DirectResult(chunks, np.empty(0), dense_ranking, lexical_ranking, tails, rarities, 0.0)
        cosines = _collect_cosines(query, dense_ranking, word_search, chunks)
        noise = fit_noise([cosine for _, cosine in dense_ranking], query.chunk_count)
        dense = scale_to_best(cosines - noise.mean)
        other_chunks = _list_other_chunks(dense_tail, extra_chunks)
        lexical = scale_to_best(_collect_lexical_scores(word_search, other_chunks, chunks))
        separation = compute_dense_share(cosines, lexical, noise)
        dense_factor = separation * _DENSE_ADVANTAGES.get(query.reading.settings.embedder, 1.0)
        word_share = _compute_word_share(weights.words, dense, lexical, dense_factor)
        scores = (1 - word_share) * dense + word_share * lexical
        read_chunks = np.array(sorted(chunk for chunk, _ in best(query.reading, chunks, scores, _NUM_READ)), np.uint64)
        scorer = _ResemblanceScorer(query, rarities)
        positions = np.searchsorted(chunks, read_chunks)
        for position, loaded_chunk in zip(positions.tolist(), query.load_chunks(read_chunks.tolist()), strict=True):
            resemblance = scorer.score(loaded_chunk)
            scores[position] += weights.nearness * resemblance.nearness + weights.headings * resemblance.headings
            scores[position] += weights.entries * resemblance.entries + _NUMBER_WEIGHT * resemblance.numbers
        scores /= 1 + weights.nearness + weights.headings + weights.entries + _NUMBER_WEIGHT * scorer.has_numbers
        (best_chunk,) = query.load_chunks(chunk for chunk, _ in best(query.reading, chunks, scores, 1))
        step.count = len(chunks)
        step.detail = (
            f"{1 - word_share:.0%} cosine and {word_share:.0%} BM25 as shares of the best; "
            f"bonuses for headings, entries and close words of {len(read_chunks)} chunks"
        )
        if separation < 1:
            step.detail += (
                f"; cosine has {separation:.0%} of its usual weight: chunks with the question's words are hardly "
                "nearer to it than others"
            )
    coverage = scorer.compute_coverage(best_chunk)
    return DirectResult(chunks, scores, dense_ranking, lexical_ranking, tails, rarities, coverage)


def _list_ids(ranking: Ranking) -> Ids:
    return np.array([chunk for chunk, _ in ranking], np.uint64)


def _list_other_chunks(dense_ranking: Ranking, extra_chunks: Ids) -> Ids:
    """Return the chunks whose BM25 is requested in addition to the best, ascending."""
    return merge_distinct(_list_ids(dense_ranking), extra_chunks)


def _run_searches(query: Query, top: int, extra_chunks: Ids) -> tuple[Ranking, WordSearchResult, Mapping[str, float]]:
    """Return the ranking by vector, the result of the search by words, and the rarities of the question's terms.

    Takes two rounds of reads; the first counts the terms.
    """
    reading = query.reading
    nearest = build_nearest_request(query, top)
    words = parse_question_words(query.question, get_stemmer(reading.settings.stemmer))
    with query.trace.step("vector search") as step:
        (dense_ranking, step.detail), counts = reading.fetch(nearest, build_count_request(words))
        step.count = len(dense_ranking)
    with query.trace.step("lexical search") as step:
        terms = words.list_lookup_terms(counts)
        weights = build_term_weights(reading.counters, terms, counts)
        others = _list_other_chunks(dense_ranking, extra_chunks)
        word_search = reading.fetch(WordSearchRequest(weights, top, query.allowed, others, nearest.vector))
        step.detail, step.count = "BM25 of " + ", ".join(terms), len(word_search.ranking)
    return dense_ranking, word_search, weights.rarities


def _collect_lexical_scores(word_search: WordSearchResult, other_chunks: Ids, chunks: Ids) -> npt.NDArray[np.float64]:
    """Return BM25 of some chunks, all of which are in the ranking of a search or among its other chunks."""
    scores = dict(word_search.ranking)
    scores.update(zip(other_chunks.tolist(), word_search.other_scores.tolist(), strict=True))
    return np.array([scores[chunk] for chunk in chunks.tolist()])


def _compute_word_share(
    base_share: float, dense: npt.NDArray[np.float64], lexical: npt.NDArray[np.float64], dense_factor: float
) -> float:
    """Return the share of lexical search.

    It is ``base_share`` if both searches separate their best results equally well. Each is weighted by the root of the
    fall of its scores, and dense search also by ``dense_factor``.
    """
    lexical_weight = base_share * math.sqrt(_measure_fall(lexical))
    dense_weight = (1 - base_share) * math.sqrt(_measure_fall(dense)) * dense_factor
    return lexical_weight / (lexical_weight + dense_weight) if lexical_weight else 0.0


def _measure_fall(shares: npt.NDArray[np.float64]) -> float:
    """Return how far the shares of a search fall from the best result to rank 10, from slightly above 0 to 1."""
    if len(shares) < _FALL_RANK:
        return 1.0
    index = len(shares) - _FALL_RANK
    return max(_MIN_FALL, 1 - float(np.partition(shares, index)[index]))


def _collect_cosines(
    query: Query, dense_ranking: Ranking, word_search: WordSearchResult, chunks: Ids
) -> npt.NDArray[np.float64]:
    """Return the cosines of some chunks with the question; 0 if dense search has no ranking."""
    if not dense_ranking:
        return np.zeros(len(chunks))
    known_cosines = dict(dense_ranking)
    if word_search.cosines is not None:
        for (chunk, _), cosine in zip(word_search.ranking, word_search.cosines.tolist(), strict=True):
            known_cosines.setdefault(chunk, cosine)
    missing = np.array([chunk for chunk in chunks.tolist() if chunk not in known_cosines], np.uint64)
    if len(missing):
        cosines = query.reading.fetch(CosineRequest(missing, query.vector))
        known_cosines.update(zip(missing.tolist(), cosines.tolist(), strict=True))
    return np.array([known_cosines[chunk] for chunk in chunks.tolist()], np.float64)


class Noise(NamedTuple):
    """The normal distribution of the cosines of chunks that are unrelated to a question.

    ``deviation`` is 0 if it is unknown. ``sample_size`` is the upper of the two ranks that the distribution is fitted
    to, which is the number of cosines from the best down to it.
    """

    mean: float
    deviation: float
    sample_size: int


def fit_noise(cosines: Sequence[float], num_chunks: int) -> Noise:
    """Fit the normal distribution of ``num_chunks`` cosines, given the greatest of them in order.

    The fit goes through the cosines at two ranks. Mean and deviation are 0 if there are too few.
    """
    lower_rank = min(len(cosines), num_chunks // 2)
    upper_rank = lower_rank // _UPPER_RANK_DIVISOR
    if not upper_rank:
        return Noise(0.0, 0.0, 0)
    from statistics import NormalDist

    normal = NormalDist()
    # The expected distance of each rank above the mean, in standard deviations.
    low, high = (normal.inv_cdf(1 - rank / (num_chunks + 1)) for rank in (lower_rank, upper_rank))
    deviation = (cosines[upper_rank - 1] - cosines[lower_rank - 1]) / (high - low)
    return Noise(cosines[lower_rank - 1] - low * deviation, deviation, upper_rank)


def compute_dense_share(cosines: npt.NDArray[np.float64], lexical: npt.NDArray[np.float64], noise: Noise) -> float:
    """Return the factor for the weight of dense search, from 0 to 1.

    Both searches judge the same chunks independently. If the embedder supports the language, the best chunks of one are
    better than noise in the other. The cosines of all chunks are averaged as deviations from the noise, each weighted
    by the square of its lexical score. The standard error of the noise's mean is added, so that dense search does not
    lose weight by chance in a small store.
    """
    weights = lexical**2
    if not noise.deviation > 0 or not weights.any():
        return 1.0
    # fsum rounds only once, so the order of chunks, which is that of their ids, does not matter.
    mean = math.fsum((weights * cosines).tolist()) / math.fsum(weights.tolist())
    deviations = (mean - noise.mean) / noise.deviation
    low, high = _SEPARATION_RANGE
    share = min(1.0, max(0.0, (deviations + 1 / math.sqrt(noise.sample_size) - low) / (high - low)))
    return 1 - (1 - share) * min(1.0, _measure_fall(lexical) / _MIN_REFERENCE_FALL)


@dataclass(frozen=True, slots=True)
class _Resemblance:
    """The parts of a chunk's resemblance to the question, each from 0 to 1.

    They are the proximity of the question's words in the text, the question's words in the headings, the match of an
    entry that begins in the chunk, and the share of the question's numbers.
    """

    nearness: float
    headings: float
    entries: float
    numbers: float


class _ResemblanceScorer:
    """A scorer of the resemblance of candidates to a question, by words."""

    def __init__(self, query: Query, rarities: Mapping[str, float]) -> None:
        self._stem = get_stemmer(query.reading.settings.stemmer)
        self._rarities = rarities
        self._total_rarity = sum(rarities.values()) or 1.0
        self._pairs = _WordPairs(query.question, self._stem, rarities)
        # Words that any question can contain identify nothing.
        generic_terms = set(list_terms(query.question, self._stem))
        generic_terms -= get_informative_terms(query.question, self._stem)
        self._informative = {term: rarity for term, rarity in rarities.items() if term not in generic_terms} or rarities
        self._informative_rarity = sum(self._informative.values()) or 1.0
        self._numbers = frozenset(find_reference_numbers(query.question))

    @property
    def has_numbers(self) -> bool:
        """True if the question identifies something by a number."""
        return bool(self._numbers)

    def score(self, chunk: LoadedChunk) -> _Resemblance:
        """Score the resemblance of a chunk to the question."""
        name = chunk.document.title or PurePosixPath(chunk.document.key).stem
        context_terms = count_heading_terms(name, chunk.headings, self._stem)
        heading_share = (
            sum(rarity for term, rarity in self._rarities.items() if term in context_terms) / self._total_rarity
        )
        entry_names = [*chunk.starting_titles, *find_entry_terms(chunk.text)]
        if not chunk.record.start and not chunk.document.title:
            entry_names.append(name)
        entry_score = max(map(self._score_name, entry_names), default=0.0)
        number_share = 0.0
        if self._numbers:
            text_numbers = find_reference_numbers(" ".join((name, *chunk.headings, chunk.text)))
            number_share = len(self._numbers.intersection(text_numbers)) / len(self._numbers)
        return _Resemblance(self._pairs.measure_nearness(chunk.text), heading_share, entry_score, number_share)

    def _score_name(self, name: str) -> float:
        """Score how well a name matches the question: the share of the question in the name, times the root of the
        share of the name in the question."""
        terms = count_chunk_terms(None, (), name, self._stem)
        share = sum(rarity for term, rarity in self._informative.items() if term in terms) / self._informative_rarity
        if not share:
            return 0.0
        words = list(map(self._stem, list_content_words(name, stem=self._stem)))
        return share * math.sqrt(sum(word in self._rarities for word in words) / len(words)) if words else 0.0

    def compute_coverage(self, chunk: LoadedChunk) -> float:
        """Return the share of the question's terms that a chunk has, weighted by rarity."""
        terms = count_chunk_terms(chunk.document.title, chunk.headings, chunk.text, self._stem)
        return sum(rarity for term, rarity in self._rarities.items() if term in terms) / self._total_rarity


class _WordPairs:
    """Pairs of words that are adjacent in a question without its function words. A pair weighs the sum of its words."""

    def __init__(self, question: str, stem: Callable[[str], str], rarities: Mapping[str, float]) -> None:
        content = list(map(stem, list_content_words(question, stem=stem)))
        self._weights = {
            (word, other): rarities[word] + rarities[other]
            for word, other in pairwise(content)
            if word != other and word in rarities and other in rarities
        }
        self._total_weight = sum(self._weights.values())
        self._stem = stem
        self._pairs_by_term: dict[str, list[tuple[str, str]]] = {}
        for pair in self._weights:
            for term in pair:
                self._pairs_by_term.setdefault(term, []).append(pair)
        # Stems begin as their words do, except for the last letter ("fly", "flies").
        prefixes = sorted({re.escape(term[: max(1, min(3, len(term) - 1))]) for term in self._pairs_by_term})
        self._word_pattern = re.compile(rf"(?<!\w)(?:{'|'.join(prefixes)})\w*") if prefixes else None
        if any(map(is_unspaced, self._pairs_by_term)):  # pairs of characters, which overlap
            self._word_pattern = re.compile(rf"(?=({'|'.join(sorted(map(re.escape, self._pairs_by_term)))}))")

    def measure_nearness(self, text: str) -> float:
        """Return the best proximity of the words of the pairs, from 0 to 1 (adjacent and in order)."""
        if self._word_pattern is None:
            return 0.0
        pair_scores: dict[tuple[str, str], float] = {}
        ends: dict[str, int] = {}
        for match in self._word_pattern.finditer(fold_case(text)):
            group = match.lastindex or 0
            term = self._stem(match.group(group))
            for pair in self._pairs_by_term.get(term, ()):
                is_second = pair[1] == term
                end = ends.get(pair[0] if is_second else pair[1])
                if end is None:
                    continue
                distance = 1 + max(0, match.start(group) - end - 1) / _WORD_LENGTH
                if distance <= _MAX_WORD_DISTANCE:
                    pair_scores[pair] = max(
                        pair_scores.get(pair, 0.0), self._weights[pair] / (distance if is_second else 1 + distance)
                    )
            ends[term] = match.end(group)
        return sum(pair_scores[pair] for pair in self._weights if pair in pair_scores) / self._total_weight
