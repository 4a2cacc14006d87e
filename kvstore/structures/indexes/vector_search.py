"""Dense search over the chunks of one state, with the ``vectors`` index or by comparing all. The index has *segments*:
graphs of quantized vectors, which only propose candidates. Batches of vectors, (chunk ids, vectors) pairs, are cached
for all states, so they can have chunks that this state lacks.

In: a state of the store (a snapshot or a write transaction) and a unit vector. In memory, shared by the threads of a
process: vectors read before, and the index file while it has its name. Out: chunks of the state, best first, in the
order of :mod:`..ranking`. Candidates are compared again. Cached vectors are corrected for the state: new chunks are
read, and chunks that the state does not have are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ...errors import IndexUnavailableError
from ..documents.allowed import ChunkSet
from ..ranking import Ranking, best
from ..state import State
from ..vectors.hnsw import MAX_COSINE_ERROR, NearCodes
from ..vectors.vector_cache import CoveredRange, VectorBatch, VectorCache, VectorCacheContent, find_covered_stop
from ..vectors.vectors import Ids, Matrix, cosines
from .index import Indexes, IndexRecord
from .index_reading import bind_index, reject_file
from .vector_index import VECTOR_INDEX, ChunkSegments

#: The number of chunks requested in addition, because some of the nearest may be deleted or tie with the last.
_NUM_SPARE = 16
#: The factor by which a search that returned too few usable chunks requests more.
_RETRY_FACTOR = 4
#: A search uses the cached vectors if they are at most this many times as many as the chunks of the state, plus a
#: number for small stores. Beyond that, too many belong to chunks that the state does not have.
_MAX_CACHED_SHARE, _MAX_CACHED_SURPLUS = 1.5, 1000
#: The description of a search that compared every chunk.
EXACT_METHOD = "exact cosine over all chunks"


def find_nearest_chunks(
    state: State, query: Matrix, top: int, allowed: ChunkSet | None = None, *, exact: bool = False
) -> tuple[Ranking, str]:
    """Return the ``top`` chunks of largest cosine with a unit vector, best first, and a description of the search.

    ``allowed`` restricts the chunks (None: all); ``exact`` compares all of them, even if there is an index. Vectors
    that are read are cached in the state's open indexes.
    """
    state = state.unrestricted  # vectors that are read are cached for every state
    if state.open_indexes is None:
        return rank_vectors(state, list(state.vectors.scan()), query, top, allowed), EXACT_METHOD
    record = Indexes(state.lmdb).get(VECTOR_INDEX)
    if not exact and record is not None and VECTOR_INDEX.explain_exact_search(record, state) is None:
        index = bind_index(state, VECTOR_INDEX)
        ranking = None if index is None else _search_index(state, index, query, top, allowed, record)
        if index is not None and ranking is not None:
            return ranking, f"HNSW graphs of change {index.change}, newer chunks exactly"
    return rank_vectors(state, _get_all_vectors(state, state.open_indexes.vectors), query, top, allowed), EXACT_METHOD


def _search_index(
    state: State, index: ChunkSegments, query: Matrix, top: int, allowed: ChunkSet | None, record: IndexRecord
) -> Ranking | None:
    """Return the nearest chunks, or None if the index does not cover this state, or is damaged and so rejected.

    Each segment of the index is a graph of quantized vectors; newer vectors are searched exactly. The search is
    repeated with more candidates until no unvisited row can be nearer than the last result. ``record`` has the
    options of the index.
    """
    with index.newer_vectors.lock:
        newer_batches = _update_vectors(state, index.newer_vectors)
    if newer_batches is None:
        return None
    ef = max(record.get_int_option("ef_search"), 2 * top)  # HNSW's name for the number of candidates
    while True:
        try:
            candidates = [segment.find_nearest(query, ef, allowed) for segment in index.segments]
        except IndexUnavailableError as error:
            reject_file(state, VECTOR_INDEX, error)
            return None
        rerank_ids, rerank_vectors = _select_rerank_candidates(state, candidates, top)
        batches = [(rerank_ids, rerank_vectors), *newer_batches]
        ranking = rank_vectors(state, batches, query, top, allowed, frozenset(rerank_ids.tolist()))
        # A row that the search has not visited in a segment is no nearer than the last row it returned.
        max_unseen_cosines = [
            segment_candidates.cosines[-1] + MAX_COSINE_ERROR * segment_candidates.scales[-1]
            for segment_candidates in candidates
            if not segment_candidates.is_exhaustive
        ]
        if not max_unseen_cosines:
            return ranking
        if len(ranking) == top:
            _, last_cosine = ranking[-1]
            if last_cosine >= max(max_unseen_cosines):
                return ranking
        ef *= _RETRY_FACTOR


def _select_rerank_candidates(state: State, candidates: Sequence[NearCodes], top: int) -> VectorBatch:
    """Return the candidates that exist in the state and may be among the ``top`` nearest: chunk ids and stored vectors.

    ``candidates`` has the candidates of each segment of the index. Their cosines are approximate, because they are
    computed from quantized vectors; the error of a cosine is at most MAX_COSINE_ERROR times the scale of its quantized
    vector. A candidate is omitted only if the errors of its cosine and of the last of the ``top`` cannot explain
    the difference between both.
    """
    labels = np.concatenate([near_codes.labels for near_codes in candidates])
    approximate_cosines = np.concatenate([near_codes.cosines for near_codes in candidates])
    scales = np.concatenate([near_codes.scales for near_codes in candidates])
    order = np.argsort(-approximate_cosines, kind="stable")
    max_error = 2 * MAX_COSINE_ERROR * float(scales.max(initial=0))
    locations: dict[int, tuple[int, int]] = {}
    min_cosine = -np.inf
    for portion in _iter_portions(order, top):
        if approximate_cosines[portion[0]] < min_cosine:
            break
        chunks = labels[portion].tolist()
        for chunk, cosine, record in zip(
            chunks, approximate_cosines[portion].tolist(), state.chunks.find_many(chunks), strict=True
        ):
            if record is not None and cosine >= min_cosine:
                locations[chunk] = record.block, record.row
                if len(locations) == top:
                    min_cosine = cosine - max_error
    return np.array([*locations], np.uint64), state.vectors.gather([*locations.values()])


def _get_all_vectors(state: State, cache: VectorCache) -> list[VectorBatch]:
    """Return all vectors of a state as pairs (chunk ids, vectors), and cache them for the next search if they fit.

    Cached batches can also have vectors of chunks that only other states have.
    """
    chunks, change = state.counters.chunks, state.counters.change
    with cache.lock:
        batches = _update_vectors(state, cache, max_vectors=_MAX_CACHED_SHARE * chunks + _MAX_CACHED_SURPLUS)
        if batches is None:
            num_bytes = chunks * state.vectors.dimension * 4  # of components in float32
            can_cache = not state.lmdb.writable and num_bytes <= cache.max_bytes
            is_cache_newer = cache.vectors is not None and cache.vectors.coverage[-1].change > change
            if not can_cache or is_cache_newer:
                return list(state.vectors.scan())
            batches = [state.vectors.read_all()] if chunks else []
            if batches:
                cache.vectors = VectorCacheContent((CoveredRange(change, state.counters.next_chunk),), tuple(batches))
    return batches


def _update_vectors(state: State, cache: VectorCache, max_vectors: float = np.inf) -> list[VectorBatch] | None:
    """Return the cached vectors and those of later chunks, as (chunk ids, vectors) pairs; cache the added vectors.

    Added vectors of a write transaction or of an older state are not cached. Returns None if nothing usable is cached,
    or if there would be more than ``max_vectors``.
    """
    cached_content, change, stop = cache.vectors, state.counters.change, state.counters.next_chunk
    # The cache has all chunks of this state with ids below ``covered_stop``.
    covered_stop = None if cached_content is None else find_covered_stop(cached_content.coverage, change)
    if cached_content is None or covered_stop is None:
        return None
    uncached_batches: list[VectorBatch] = []
    if covered_stop < stop:
        stored_chunks = list(state.chunks.scan(covered_stop, stop))
        ids: Ids = np.array([chunk for chunk, _ in stored_chunks], np.uint64)
        batch = (ids, state.vectors.gather([(record.block, record.row) for _, record in stored_chunks]))
        # Additions of a write transaction may be rolled back, and an older state than the newest does not know later
        # chunks.
        if state.lmdb.writable or change < cached_content.coverage[-1].change:
            uncached_batches = [batch]
        else:
            cached_content = cached_content.extend(batch, change, stop)
    if sum(len(ids) for ids, _ in cached_content.batches) > max_vectors:
        return None
    cache.vectors = cached_content
    return [*cached_content.batches, *uncached_batches]


def rank_vectors(
    state: State,
    batches: Sequence[VectorBatch],
    query: Matrix,
    top: int,
    allowed: ChunkSet | None,
    known_chunks: Collection[int] = (),
) -> Ranking:
    """Return the ``top`` chunks of ``batches`` with the largest cosine, without chunks that the state does not have.

    A batch is a pair of chunk ids and their vectors. Every vector is compared. The caller knows that the state has the
    ``known_chunks``, so these are not looked up.
    """
    num_requested = top + _NUM_SPARE
    while True:
        chunks, scores = find_nearest(batches, query, num_requested, allowed)
        is_exhaustive = len(chunks) < num_requested
        stored_positions = _find_top_stored(state, chunks, scores, top, known_chunks)
        if len(stored_positions) >= top or is_exhaustive:
            return best(state, chunks[stored_positions], scores[stored_positions], top)
        num_requested *= _RETRY_FACTOR


def _find_top_stored(state: State, chunks: Ids, scores: Matrix, top: int, known_chunks: Collection[int]) -> list[int]:
    """Return the positions of the first ``top`` chunks that the state has, and of all ties with the last of these.

    ``chunks`` are sorted best first. The state is known to have ``known_chunks``. A chunk that occurs twice is returned
    once.
    """
    positions: dict[int, int] = {}
    min_score = -np.inf
    for portion in _iter_portions(np.arange(len(chunks)), top):
        if scores[portion[0]] < min_score:
            break
        ids = chunks[portion].tolist()
        unknown_chunks = [chunk for chunk in ids if chunk not in known_chunks]
        stored_chunks = (
            set(itertools.compress(unknown_chunks, state.chunks.has_many(unknown_chunks))) if unknown_chunks else ()
        )
        for position, chunk, score in zip(portion.tolist(), ids, scores[portion].tolist(), strict=True):
            is_stored = chunk in known_chunks or chunk in stored_chunks
            if is_stored and chunk not in positions and score >= min_score:
                positions[chunk] = position
                if len(positions) == top:
                    min_score = score
    return list(positions.values())


def _iter_portions(positions: npt.NDArray[np.intp], top: int) -> Iterator[npt.NDArray[np.intp]]:
    """Return an iterator over portions of ``positions`` that are looked up together; usually the first is enough.

    Each has more than ``top`` positions, except the last one.
    """
    size = top + _NUM_SPARE
    return (positions[start : start + size] for start in range(0, len(positions), size))


def find_nearest(
    batches: Iterable[tuple[Ids, Matrix]], query: Matrix, top: int, allowed: ChunkSet | None = None
) -> tuple[Ids, Matrix]:
    """Return the ids and cosines of the ``top`` vectors nearest to ``query``, best first, with all ties of the last.

    All vectors are unit vectors, and ties are in no particular order. ``batches`` are pairs of ids and vectors, as
    :meth:`Vectors.scan` yields them. ``allowed`` restricts the ids (None: all); no other cosines are computed.
    """
    best_ids: Ids = np.empty(0, np.uint64)
    best_scores: Matrix = np.empty(0, np.float32)
    for ids, matrix in batches:
        if allowed is not None:
            rows = np.flatnonzero(allowed.get_chunk_mask(ids))
            ids, scores = ids[rows], cosines(matrix, query, rows)
        else:
            scores = cosines(matrix, query)
        best_ids, best_scores = np.concatenate((best_ids, ids)), np.concatenate((best_scores, scores))
        if len(best_ids) > top:
            cut_index = len(best_scores) - top  # the position of the lowest of the top scores, in ascending order
            best_positions = np.flatnonzero(best_scores >= np.partition(best_scores, cut_index)[cut_index])
            best_ids, best_scores = best_ids[best_positions], best_scores[best_positions]
    order = np.argsort(-best_scores, kind="stable")
    return best_ids[order], best_scores[order]
