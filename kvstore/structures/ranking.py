"""The one order of what is found: by score, equals by their document's key and their place in it.

In: chunks with scores, in any order. Out: the best of them, best first. Answers are a function of documents and
settings: ids tell when a document came, and decide nothing. So whoever takes the first *n* of some chunks, by score or
otherwise, takes them with :func:`best` or :func:`sort_chunks`, and whoever turns a ranking into ranks takes
:func:`assign_ranks`. Records are read of chunks alone that tie with others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .state import ChunkSortKey

#: (chunk id, score), best first.
Ranking = list[tuple[int, float]]


class SortKeySource(Protocol):
    """What knows what orders chunks: a state, or what reads one."""

    def get_sort_keys(self, chunks: Sequence[int]) -> list[ChunkSortKey]:
        """What orders chunks that are equals, of each."""
        ...


def best(
    state: SortKeySource,
    chunks: Sequence[int] | npt.NDArray[np.uint64],
    scores: npt.NDArray[np.floating[Any]],
    top: int,
) -> Ranking:
    """The ``top`` chunks of highest score, best first; equal scores by document key, then by place in the document.

    ``chunks`` are ids that ``state`` has, each once; ``scores`` are theirs, and compared bit for bit: whoever adds them
    up does so in an order that no id decides.
    """
    ids = np.asarray(chunks, np.uint64)
    if len(ids) > 4 * top:
        cutoff = np.partition(scores, len(ids) - top)[len(ids) - top]
        # All that ties with the last one taken stays in.
        candidates = np.flatnonzero(scores >= cutoff)
        ids, scores = ids[candidates], scores[candidates]
    order = np.argsort(-scores, kind="stable")
    ids, scores = ids[order], scores[order]
    ordered_chunks = ids.tolist()
    starts = [0, *(np.flatnonzero(scores[1:] != scores[:-1]) + 1).tolist(), len(ordered_chunks)]
    tied_ranges = [(start, end) for start, end in pairwise(starts) if end - start > 1 and start < top]
    if tied_ranges:
        tied_chunks = [chunk for start, end in tied_ranges for chunk in ordered_chunks[start:end]]
        sort_keys = iter(state.get_sort_keys(tied_chunks))
        for start, end in tied_ranges:
            ordered_chunks[start:end] = [chunk for _, chunk in sorted(islice(sort_keys, end - start))]
    return list(zip(ordered_chunks[:top], scores[:top].tolist(), strict=True))


def sort_chunks(state: SortKeySource, chunks: Iterable[int]) -> list[int]:
    """Chunks, by their ids, by document key and then by place in the document."""
    ids = list(chunks)
    return ids if len(ids) < 2 else [chunk for _, chunk in sorted(state.get_sort_keys(ids))]


def assign_ranks(ranking: Ranking) -> Iterator[tuple[int, int]]:
    """Each chunk of a ranking with its rank, from 1; chunks of equal score share that of the first of them."""
    rank, previous_score = 0, None
    for position, (chunk, score) in enumerate(ranking, 1):
        if score != previous_score:
            rank, previous_score = position, score
        yield chunk, rank


def scale_to_best(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scores as shares of the best, none below 0."""
    best_score = scores.max(initial=0.0)
    return np.maximum(scores, 0.0) / best_score if best_score > 0 else np.zeros(len(scores))
