"""Selection of the most valuable chunks that a language model can read within a token budget, and scores for their
value. The selection is the knapsack of CUE-RAG's Algorithm 2.

In: the weight in tokens and the value of each passage, and the token budget. Out: the passages to read. Chunks are
valued by one of :data:`SCORE_FUNCTIONS`:

- ``confusability``: the cosine with the nearest other chunk. The paper gives this as its reason for selecting at all;
  it takes one search per chunk.
- ``bleu``: the paper's own value (Papineni et al., ACL 2002), with all other chunks as references.
- ``pagerank``: KET-RAG's value (Huang et al., 2025), PageRank over the graph of each chunk's nearest by vector and by
  words.
- ``random``: a digest of the text.

All are functions of the texts and vectors.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..retrieval.lexical_search import find_best_by_words, read_term_weights
from ..structures.clustering.nearest_rows import find_nearest_rows
from ..structures.state import State
from ..text.languages import get_text_stemmer
from ..text.words import list_content_terms, segment_words

Floats = npt.NDArray[np.float64]
_Ngram = tuple[str, ...]

#: Parameters of KET-RAG: the damping factor, the number of neighbors of each kind, and the number of iterations.
_DAMPING, _NUM_NEIGHBORS, _NUM_STEPS = 0.85, 5, 50
#: The number of rarest terms of a chunk that are used to search for its neighbors.
_NUM_TERMS = 10
#: The number of bytes of a digest that is used as a pseudorandom number.
_SCORE_BYTES = 6
#: The BLEU precision of an order without matches ("floor" smoothing, as in the published code).
_PRECISION_FLOOR = 0.1
_MAX_ORDER = 4
_ROWS_PER_BATCH = 1024


def select_passages(weights: Sequence[int], values: Sequence[float] | Floats, budget: int) -> list[int]:
    """Return the indexes of the passages (chunks) that a model should read within a token budget, ascending.

    Their weights (numbers of tokens) sum to at most ``budget``, and their total value is close to the maximum. Takes
    passages by value per weight if they fit, then makes the best single exchange of a selected passage for another.
    Equal passages are taken in order. This approximates the 0-1 knapsack of CUE-RAG's Algorithm 2, whose table
    would have passages × tokens cells; the loss is less than the value of one passage.

    >>> select_passages([50, 40, 60], [1.0, 0.9, 1.5], 100)
    [1, 2]
    >>> select_passages([50, 99], [1.0, 1.5], 100)
    [1]
    """
    weight_array, value_array = np.asarray(weights, np.int64), np.asarray(values, np.float64)
    is_selected = np.zeros(len(weight_array), bool)
    remaining_budget = budget
    for index in np.argsort(-(value_array / np.maximum(weight_array, 1)), kind="stable").tolist():
        if weight_array[index] <= remaining_budget:
            is_selected[index] = True
            remaining_budget -= int(weight_array[index])
    exchange = _find_best_exchange(weight_array, value_array, is_selected, remaining_budget)
    if exchange is not None:
        removed_index, inserted_index = exchange
        is_selected[removed_index], is_selected[inserted_index] = False, True
    return [int(index) for index in np.flatnonzero(is_selected)]


def _find_best_exchange(
    weights: npt.NDArray[np.int64], values: Floats, is_selected: npt.NDArray[np.bool_], budget_left: int
) -> tuple[int, int] | None:
    """Find the exchange of a selected passage for an unselected one that fits and increases the total value most.

    ``weights`` and ``values`` have a number for each passage; ``is_selected`` is True for a selected passage.
    ``budget_left`` is the unused part of the budget. Returns the index to remove and the index to insert, or None if no
    exchange increases the value.
    """
    selected_indexes, other_indexes = np.flatnonzero(is_selected), np.flatnonzero(~is_selected)
    if not len(selected_indexes) or not len(other_indexes):
        return None
    selected_indexes = selected_indexes[np.argsort(-weights[selected_indexes], kind="stable")]

    def get_less_valuable(passage: int, lighter_passage: int) -> int:
        """Return the passage with the lower value; if the values are equal, the lighter passage."""
        return lighter_passage if values[lighter_passage] <= values[passage] else passage

    # The least valuable of the n + 1 heaviest selected passages, for each n.
    least_valuable = np.array(list(accumulate(selected_indexes.tolist(), get_less_valuable)))
    # For each other passage, the number of selected passages that are heavy enough to make room for it.
    counts = np.searchsorted(-weights[selected_indexes], -(weights[other_indexes] - budget_left), side="right")
    other_indexes, counts = other_indexes[counts > 0], counts[counts > 0]
    if not len(other_indexes):
        return None
    removed_indexes = least_valuable[counts - 1]
    gains = values[other_indexes] - values[removed_indexes]
    best = int(np.argmax(gains))
    return (int(removed_indexes[best]), int(other_indexes[best])) if gains[best] > 0 else None


def score_chunks(name: str, state: State) -> tuple[npt.NDArray[np.uint64], Floats]:
    """Return all chunks of a store, in order of document key and ordinal, and their scores.

    ``name`` (in any case) is the name of a function in :data:`SCORE_FUNCTIONS`, which computes the scores.
    """
    compute_scores = SCORE_FUNCTIONS[name.lower()]
    keys = sorted(state.documents.iter_keys())
    records = [record for record in map(state.documents.find_by_key, keys) if record is not None]
    chunks = np.array([chunk for record in records for chunk in record.chunk_ids()], np.uint64)
    scores = compute_scores(state, chunks) if len(chunks) else np.empty(0)
    return chunks, scores


def _load_vectors(state: State, chunks: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
    """Return the vectors of ``chunks``, which are all chunks of the state, shape (chunks, dimension)."""
    vectors = np.empty((len(chunks), state.settings.dimension), np.float32)
    order = np.argsort(chunks)
    for ids, matrix in state.vectors.scan():
        positions = order[np.searchsorted(chunks, ids, sorter=order)]  # of ``ids`` in ``chunks``
        vectors[positions] = matrix
    return vectors


def _score_confusability(state: State, chunks: npt.NDArray[np.uint64]) -> Floats:
    """Return the cosine of each chunk with the nearest other chunk, at least 0."""
    _, cosines = find_nearest_rows(_load_vectors(state, chunks))  # in units of 1/10,000
    return np.maximum(cosines, 0) / 10_000


def _score_by_digest(state: State, chunks: npt.NDArray[np.uint64]) -> Floats:
    """Return a pseudorandom score from 0 to 1 for each chunk, from a digest of its text; equal on every machine."""
    texts = map(state.read_chunk_text, chunks.tolist())
    digests = [hashlib.blake2b(text.encode(), digest_size=_SCORE_BYTES).digest() for text in texts]
    return np.array([int.from_bytes(digest) / (1 << 8 * _SCORE_BYTES) for digest in digests])


def _score_bleu(state: State, chunks: npt.NDArray[np.uint64]) -> Floats:
    """Return the BLEU (Papineni et al., 2002) of each chunk, with all other chunks as references.

    A count is clipped by the largest count in any other chunk, so the two largest counts of each n-gram are enough.
    """
    texts = [segment_words(state.read_chunk_text(chunk).lower()) for chunk in chunks.tolist()]
    lengths = np.sort(np.array([len(text) for text in texts]))
    matches, totals = _count_matching_ngrams(texts)
    scores = np.zeros(len(texts))
    # BLEU is the geometric mean of the precisions of all orders, times a penalty for texts shorter than the reference.
    for index, text in enumerate(texts):
        has_ngrams = totals[index] > 0
        if len(text) and has_ngrams.any():
            smoothed_matches = np.where(matches[index] > 0, matches[index], _PRECISION_FLOOR)
            precisions = smoothed_matches[has_ngrams] / totals[index][has_ngrams]
            reference_length = _find_nearest_length(lengths, len(text))
            log_brevity_penalty = min(0.0, 1 - reference_length / len(text))
            scores[index] = math.exp(log_brevity_penalty + float(np.log(precisions).mean()))
    return scores


def _count_matching_ngrams(texts: Sequence[Sequence[str]]) -> tuple[Floats, Floats]:
    """Return the number of n-grams of each text that occur in another text, and the number of all, by text and order.

    Both arrays have the shape (texts, :data:`_MAX_ORDER`); the column of an order n is n - 1. ``texts`` are lists of
    words. An n-gram matches at most as often as it occurs in any other text.
    """
    matches, totals = np.zeros((len(texts), _MAX_ORDER)), np.zeros((len(texts), _MAX_ORDER))
    for order in range(1, _MAX_ORDER + 1):
        counts_by_text = [_count_ngrams(text, order) for text in texts]
        largest_counts = _find_largest_counts(counts_by_text)
        for index, counts in enumerate(counts_by_text):
            for ngram, count in counts.items():
                largest = largest_counts[ngram]
                reference_count = largest.second_count if largest.text_index == index else largest.first_count
                matches[index, order - 1] += min(count, reference_count)
                totals[index, order - 1] += count
    return matches, totals


class _LargestCount(NamedTuple):
    """The largest count of an n-gram in a text, the index of that text, and the largest count in another text."""

    first_count: int = 0
    text_index: int = -1
    second_count: int = 0


def _find_largest_counts(counts_by_text: Sequence[Counter[_Ngram]]) -> dict[_Ngram, _LargestCount]:
    """Return, for each n-gram, its largest count in a text, that text, and its largest count in another text.

    ``counts_by_text`` has the number of occurrences of each n-gram in each text.
    """
    largest_counts: dict[_Ngram, _LargestCount] = {}
    for index, counts in enumerate(counts_by_text):
        for ngram, count in counts.items():
            largest = largest_counts.get(ngram, _LargestCount())
            if count > largest.first_count:
                largest_counts[ngram] = _LargestCount(count, index, largest.first_count)
            elif count > largest.second_count:
                largest_counts[ngram] = largest._replace(second_count=count)
    return largest_counts


def _count_ngrams(words: Sequence[str], order: int) -> Counter[_Ngram]:
    """Count the occurrences of each n-gram of ``order`` words."""
    return Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))


def _find_nearest_length(lengths: npt.NDArray[Any], length: int) -> int:
    """Return the length of the other text nearest in length, the shorter of two; ``length`` if there is no other text.

    ``lengths`` are the ascending lengths of all texts, including the text of length ``length``.
    """
    position = int(np.searchsorted(lengths, length))  # the text itself, or another of the same length
    neighbors = [int(lengths[index]) for index in (position - 1, position + 1) if 0 <= index < len(lengths)]
    return min(neighbors, key=lambda neighbor: (abs(neighbor - length), neighbor), default=length)


def _score_pagerank(state: State, chunks: npt.NDArray[np.uint64]) -> Floats:
    """Return the PageRank of each chunk in the undirected graph of nearest chunks by vector and by words."""
    num_chunks = len(chunks)
    if num_chunks < 2:
        return np.ones(num_chunks)
    pairs = np.concatenate((_find_vector_neighbors(_load_vectors(state, chunks)), _find_word_neighbors(state, chunks)))
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    starts, ends = np.concatenate((pairs, pairs[:, ::-1])).T  # each undirected edge in both directions
    degrees = np.bincount(starts, minlength=num_chunks)
    ranks = np.full(num_chunks, 1 / num_chunks)
    for _ in range(_NUM_STEPS):
        outgoing = np.where(degrees > 0, ranks / np.maximum(degrees, 1), 0)
        dangling_mass = ranks[degrees == 0].sum()  # chunks without neighbors spread their rank over all chunks
        ranks = (1 - _DAMPING) / num_chunks + _DAMPING * (
            np.bincount(ends, outgoing[starts], num_chunks) + dangling_mass / num_chunks
        )
    return np.round(ranks, 12)  # so that the order of summation does not matter


def _find_vector_neighbors(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return pairs of a row and one of its nearest rows by inner product, as indexes, shape (n, 2)."""
    count = min(_NUM_NEIGHBORS, len(vectors) - 1)
    pair_arrays = []
    for start in range(0, len(vectors), _ROWS_PER_BATCH):
        products = vectors[start : start + _ROWS_PER_BATCH] @ vectors.T
        rows = np.arange(start, start + len(products))
        products[np.arange(len(products)), rows] = -np.inf  # a row is not its own neighbor
        # Products are rounded, so that the order does not depend on the machine; of equal ones, the lower row is first.
        order = np.argsort(-np.round(products, 4), axis=1, kind="stable")[:, :count]
        pair_arrays.append(np.stack((np.repeat(rows, count), order.ravel()), axis=1))
    return np.concatenate(pair_arrays)


def _find_word_neighbors(state: State, chunks: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return pairs of a chunk and one of its nearest chunks by BM25 of its rarest shared terms, as indexes, (n, 2).

    A term is shared if several chunks have it. ``chunks`` are the ids of all chunks of the store.
    """
    order = np.argsort(chunks)
    pairs: list[tuple[int, int]] = []
    for index, chunk in enumerate(chunks.tolist()):
        text = state.read_chunk_text(chunk)
        terms = dict.fromkeys(list_content_terms(text, get_text_stemmer(state.settings.stemmer, text)))
        counts = state.postings.count_chunks_by_term(list(terms))
        shared_terms = [(count, term) for term, count in counts.items() if count > 1]
        weights = read_term_weights(state, [term for _, term in sorted(shared_terms)[:_NUM_TERMS]])
        ids, scores = find_best_by_words(state, weights, _NUM_NEIGHBORS + 1)  # one may be the chunk itself
        candidates = order[np.searchsorted(chunks, ids, sorter=order)]  # the positions of ``ids`` in ``chunks``
        best_first = candidates[np.lexsort((candidates, -scores))][: _NUM_NEIGHBORS + 1].tolist()
        neighbors = [neighbor for neighbor in best_first if neighbor != index]
        pairs += ((index, neighbor) for neighbor in neighbors[:_NUM_NEIGHBORS])
    return np.array(pairs, np.int64).reshape(-1, 2)


#: The functions that value chunks, by the name that BY takes. The first is the default.
SCORE_FUNCTIONS: dict[str, Callable[[State, npt.NDArray[np.uint64]], Floats]] = {
    "confusability": _score_confusability,
    "bleu": _score_bleu,
    "pagerank": _score_pagerank,
    "random": _score_by_digest,
}
