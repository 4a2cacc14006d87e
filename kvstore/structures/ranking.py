"""The single order of results: by score, ties by document key and position in the document. A *sort key* is a pair of
document key and chunk id; chunk ids ascend along the text of a document. Ids of different documents are never compared,
because they depend on the order of arrival.

In: chunks with scores, in any order. Out: the best of them, best first. Answers are a function of documents and
settings. Every truncation of a list of chunks therefore goes through :func:`best` or :func:`sort_chunks`, and every
conversion of a ranking into ranks through :func:`assign_ranks`. Records are read only for chunks that tie with others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, zip_longest
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .state import ChunkSortKey

#: Pairs (chunk id, score), best first.
Ranking = list[tuple[int, float]]


class SortKeySource(Protocol):
    """An object that returns the sort keys of chunks: a state, or a reader of a state."""

    def get_sort_keys(self, chunks: Sequence[int]) -> list[ChunkSortKey]:
        """Return the sort key of each chunk, which decides the order of chunks with equal scores."""
        ...


def best(
    state: SortKeySource,
    chunks: Sequence[int] | npt.NDArray[np.uint64],
    scores: npt.NDArray[np.floating[Any]],
    top: int,
) -> Ranking:
    """Return the ``top`` chunks of highest score, best first; ties by document key, then by position in the document.

    ``chunks`` are distinct ids that ``state`` has, with their ``scores``. Scores are compared bit for bit, so the
    caller must compute sums in an order that does not depend on ids.
    """
    ids = np.asarray(chunks, np.uint64)
    if len(ids) > 4 * top:  # with fewer, sorting all takes no longer
        cutoff = np.partition(scores, len(ids) - top)[len(ids) - top]
        # Keep every chunk that ties with the last selected one.
        candidates = np.flatnonzero(scores >= cutoff)
        ids, scores = ids[candidates], scores[candidates]
    # The few candidates are sorted faster as lists than as arrays.
    chunk_list, score_list = ids.tolist(), scores.tolist()
    order = sorted(range(len(chunk_list)), key=score_list.__getitem__, reverse=True)
    ordered_chunks = [chunk_list[position] for position in order]
    ordered_scores = [score_list[position] for position in order]
    starts = [index for index in range(len(order)) if not index or ordered_scores[index] != ordered_scores[index - 1]]
    # The ranges of several equal scores that begin among the first ``top``.
    tied_ranges = [span for span in pairwise([*starts, len(order)]) if span[1] - span[0] > 1 and span[0] < top]
    if tied_ranges:
        tied_chunks = [chunk for start, end in tied_ranges for chunk in ordered_chunks[start:end]]
        sort_keys = iter(state.get_sort_keys(tied_chunks))
        for start, end in tied_ranges:
            # A sort key is (document key, chunk).
            ordered_chunks[start:end] = [chunk for _, chunk in sorted(islice(sort_keys, end - start))]
    return list(zip(ordered_chunks[:top], ordered_scores[:top], strict=True))


def list_chunk_ids(ranking: Ranking) -> npt.NDArray[np.uint64]:
    """Return the ids of the chunks of a ranking, best first."""
    return np.array([chunk for chunk, _ in ranking], np.uint64)


def append_tails(ranking: Ranking, *tails: Ranking, top: int) -> Ranking:
    """Return the first ``top`` chunks of a ranking, extended by chunks from other rankings (tails) if it is shorter.

    A strategy scores a fixed number of candidates, so that the first k results do not depend on how many are requested.
    The added chunks are taken from the ``tails`` in turns; these are results of searches without such a limit. Their
    scores decrease with the rank, starting from the last score of the ranking. An empty ranking is not extended.
    """
    if len(ranking) >= top or not ranking:
        return ranking[:top]
    ranked = {chunk for chunk, _ in ranking}
    tail_chunks = ([chunk for chunk, _ in tail] for tail in tails)
    # The first chunk of each tail, then the second of each, and so on; each chunk once.
    candidates = dict.fromkeys(chunk for turn in zip_longest(*tail_chunks) for chunk in turn if chunk is not None)
    added_chunks = [chunk for chunk in candidates if chunk not in ranked][: top - len(ranking)]
    (_, last_score), size = ranking[-1], len(ranking)
    # A negative score would increase if it were multiplied by the ratio of ranks, so it is used unchanged.
    return [
        *ranking,
        *((chunk, min(last_score, last_score * size / rank)) for rank, chunk in enumerate(added_chunks, size + 1)),
    ]


def sort_chunks(state: SortKeySource, chunks: Iterable[int]) -> list[int]:
    """Sort chunk ids by document key, then by position in the document."""
    ids = list(chunks)
    return ids if len(ids) < 2 else [chunk for _, chunk in sorted(state.get_sort_keys(ids))]


def assign_ranks(ranking: Ranking) -> Iterator[tuple[int, int]]:
    """Yield each chunk of a ranking with its rank, from 1.

    Chunks of equal score share the rank of the first of them.
    """
    rank, previous_score = 0, None
    for position, (chunk, score) in enumerate(ranking, 1):
        if score != previous_score:
            rank, previous_score = position, score
        yield chunk, rank


def select_highest(scores: Mapping[int, float], limit: int) -> list[int]:
    """Return the ids with the ``limit`` highest scores, and all that tie with the last of them, unsorted.

    A caller that breaks ties can then sort only these.
    """
    if limit <= 0:
        return []
    highest_scores = sorted(scores.values(), reverse=True)[:limit]
    return [id for id, score in scores.items() if score >= highest_scores[-1]]


def scale_to_best(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return scores divided by the best score, and 0 for negative scores; all are 0 if no score is positive."""
    best_score = scores.max(initial=0.0)
    return np.maximum(scores, 0.0) / best_score if best_score > 0 else np.zeros(len(scores))
