"""Dense search over the chunks of one state: all of them compared, or by the index of kind ``vectors``.

In: a state of the store (a snapshot or a write transaction) and a unit vector. In memory, shared by the threads of a
process: vectors read once, and the index file while it has its name. Out: chunks that the state has, best first, in the
order of :mod:`..ranking`. The graph of the file only proposes: what it finds is compared again. What was read at one
state is corrected for every other: chunks that are new are read, and what the state does not have is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ...errors import IndexUnavailableError
from ..documents.allowed import ChunkSet
from ..ranking import Ranking, best
from ..state import State
from ..vectors.hnsw import INEXACT, NearCodes
from ..vectors.vector_cache import HeldVectors, VectorCache, VectorPart, joined, reach
from ..vectors.vectors import Ids, Matrix, nearest
from .index import IndexRecord
from .index_reading import bound_index, reject
from .indexes import Indexes
from .vector_index import VECTORS, ChunkSegments

#: How a search was done that compared every chunk.
EXACTLY = "exact cosine over all chunks"


def nearest_chunks(
    state: State, query: Matrix, top: int, allowed: ChunkSet | None = None, *, exact: bool = False
) -> tuple[Ranking, str]:
    """The ``top`` chunks of largest cosine with a unit vector, best first, and how they were found.

    ``allowed`` restricts the chunks; ``exact`` compares all, whether or not there is an index.
    """
    state = state.whole  # vectors that are read are kept for every state
    if state.open_indexes is None:
        return ranked(state, list(state.vectors.scan()), query, top, allowed), EXACTLY
    record = Indexes(state.lmdb).get(VECTORS)
    if not exact and record is not None and VECTORS.without_file(record, state) is None:
        index = bound_index(state, VECTORS)
        found = None if index is None else _by_index(state, index, query, top, allowed, record)
        if index is not None and found is not None:
            return found, f"HNSW graphs of change {index.change}, what is newer exactly"
    return ranked(state, _all_parts(state, state.open_indexes.vectors), query, top, allowed), EXACTLY


def _by_index(
    state: State, index: ChunkSegments, query: Matrix, top: int, allowed: ChunkSet | None, record: IndexRecord
) -> Ranking | None:
    with index.newer.lock:
        fresh = _corrected(state, index.newer)
    if fresh is None:
        return None
    ef = max(record.count("ef_search"), 2 * top)
    while True:
        try:
            met = [segment.nearest(query, ef, allowed) for segment in index.segments]
        except IndexUnavailableError as error:
            reject(state, VECTORS, error)
            return None
        part = _compared_again(state, met, top)
        found = ranked(state, [part, *fresh], query, top, allowed, frozenset(part[0].tolist()))
        # What a search has not met in a segment is no nearer than the last that it has.
        unmet = [near.cosines[-1] + INEXACT * near.scales[-1] for near in met if not near.all_met]
        if not unmet or (len(found) == top and found[-1][1] >= max(unmet)):
            return found
        ef *= 4


def _compared_again(state: State, met: Sequence[NearCodes], top: int) -> VectorPart:
    """Of what was met, the chunks that the state has and that may be among the ``top`` nearest, with the vectors that
    the store holds."""
    labels, cosines, scales = (np.concatenate(column) for column in list(zip(*met, strict=True))[:3])
    order = np.argsort(-cosines, kind="stable")
    within = 2 * INEXACT * float(scales.max(initial=0))
    places: dict[int, tuple[int, int]] = {}
    least = -np.inf
    for some in _in_portions(order, top):
        if cosines[some[0]] < least:
            break
        chunks = labels[some].tolist()
        for chunk, cosine, record in zip(chunks, cosines[some].tolist(), state.chunks.find_many(chunks), strict=True):
            if record is not None and cosine >= least:
                places[chunk] = record.block, record.row
                if len(places) == top:
                    least = cosine - within
    return np.array([*places], np.uint64), state.vectors.gather([*places.values()])


def _all_parts(state: State, cache: VectorCache) -> list[VectorPart]:
    """All vectors of a state, and perhaps more; what was read is kept for the next."""
    chunks, change = state.counters.chunks, state.counters.change
    with cache.lock:
        parts = _corrected(state, cache, most=1.5 * chunks + 1000)
        if parts is None:
            parts = list(state.vectors.scan())
            keep = not state.lmdb.writable and chunks * state.vectors.dimension * 4 <= cache.limit
            if parts and keep and (cache.held is None or cache.held.coverage[-1][0] <= change):
                parts = [joined(parts)]
                cache.held = HeldVectors(((change, state.counters.next_chunk),), tuple(parts))
    return parts


def _corrected(state: State, cache: VectorCache, most: float = np.inf) -> list[VectorPart] | None:
    """The vectors held, with those of the chunks after them; None where they cannot be had, or would be more than
    ``most``."""
    held, change, stop = cache.held, state.counters.change, state.counters.next_chunk
    start = None if held is None else reach(held.coverage, change)
    if held is None or start is None:
        return None
    own: list[VectorPart] = []
    if start < stop:
        stored = list(state.chunks.scan(start, stop))
        ids: Ids = np.array([chunk for chunk, _ in stored], np.uint64)
        part = (ids, state.vectors.gather([(record.block, record.row) for _, record in stored]))
        # What a write transaction adds may be rolled back; an older state than the newest says nothing of later chunks.
        if state.lmdb.writable or change < held.coverage[-1][0]:
            own = [part]
        else:
            held = held.and_then(part, change, stop)
    if sum(len(ids) for ids, _ in held.parts) > most:
        return None
    cache.held = held
    return [*held.parts, *own]


def ranked(
    state: State,
    parts: Sequence[VectorPart],
    query: Matrix,
    top: int,
    allowed: ChunkSet | None,
    known: Collection[int] = (),
) -> Ranking:
    """The ``top`` chunks of largest cosine among some parts that the state has; every vector is compared.

    Of ``known`` chunks it is known that the state has them.
    """
    wanted = top + 16
    while True:
        chunks, scores = nearest(parts, query, wanted, allowed)
        all_met = len(chunks) < wanted
        present = _present(state, chunks, scores, top, known)
        if len(present) >= top or all_met:
            return best(state, chunks[present], scores[present], top)
        wanted *= 4


def _present(state: State, chunks: Ids, scores: Matrix, top: int, known: Collection[int]) -> list[int]:
    """Of chunks, best first, the places of the first ``top`` that the state has, and of those that tie with the last of
    them; each chunk once: what an older state reads for itself may have been read for a newer one."""
    found: dict[int, int] = {}
    least = -np.inf
    for some in _in_portions(np.arange(len(chunks)), top):
        if scores[some[0]] < least:
            break
        ids = chunks[some].tolist()
        looked_up = [chunk for chunk in ids if chunk not in known]
        there = set(itertools.compress(looked_up, state.chunks.has_many(looked_up))) if looked_up else ()
        for place, chunk, score in zip(some.tolist(), ids, scores[some].tolist(), strict=True):
            if (chunk in known or chunk in there) and chunk not in found and score >= least:
                found[chunk] = place
                if len(found) == top:
                    least = score
    return list(found.values())


def _in_portions(places: npt.NDArray[np.intp], top: int) -> Iterator[npt.NDArray[np.intp]]:
    """Places, best first, as many at once as are looked up together: mostly one portion is enough."""
    size = top + 16
    return (places[start : start + size] for start in range(0, len(places), size))
