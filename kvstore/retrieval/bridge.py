"""Strategy ``bridge``: entity → abstract → chunk (Bridge-RAG, Algorithm 1 and §4.3).

Entities of the question → filter → abstracts → expand ``depth`` levels up and down → candidate chunks → cosine → the
top ones, with their abstracts. The rarest entities come first and the pool of candidates is capped, so that a common
name does not make it an exact scan. Where no entity is known the search is dense, and EXPLAIN says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ..storage import addresses
from ..storage.chunks import FIRST_UPPER, ChunkRecord
from ..storage.ranking import Ranking, best
from ..storage.store_view import StoreView
from ..storage.vectors import cosines
from .evidence import Evidence
from .query import Option, Query, evidence_of, option
from .recognition import Seed, recognise
from .vector import rank_by_vector

#: Addresses read of one entity: they come in order, the most telling first.
_MOST_ADDRESSES = 512


class BridgeStrategy:
    """From the question's entities over abstracts to chunks, ranked by cosine."""

    name = "bridge"
    description = "Bridge-RAG: entities lead through the cuckoo filter to abstracts, and these to chunks"
    options: Mapping[str, Option] = {
        "pool": Option(0.1, 0.001, 1, "the most candidates, as a share of all chunks (at least 50)"),
    }

    def retrieve(self, query: Query) -> Evidence:
        seeds = recognise(query, as_written=True)
        if not seeds:
            ranking = rank_by_vector(query, query.reach)
            with query.trace.step("no entity known") as step:
                step.detail = "dense search over all chunks instead"
            path = "near the question (no entity of it is known)"
            return evidence_of(query, self.name, ranking, path, query.view.counters.chunks)
        cap = max(50, int(option(query, self, "pool") * query.view.counters.chunks))
        pool = _candidates(query, seeds, cap)
        ranking = _rank(query, pool)
        return evidence_of(query, self.name, ranking, {chunk: path for chunk, (_, path) in pool.items()}, len(pool))


Pool = dict[int, tuple[ChunkRecord, str]]


def _candidates(query: Query, seeds: Iterable[Seed], cap: int) -> Pool:
    """Candidate chunks, at most ``cap``, each with its record and the path that led to it."""
    view = query.view
    pool: Pool = {}
    allowed = None if query.allowed_chunks is None else set(query.allowed_chunks.tolist())
    with query.trace.step("filter to abstracts to chunks") as step:
        reached = 0
        for abstract, path in _expand(view, seeds, query.depth):
            reached += 1
            for chunk in view.abstracts.chunk_ids(abstract):
                if len(pool) >= cap:
                    break
                if chunk in pool or (allowed is not None and chunk not in allowed):
                    continue
                stored = view.chunks.find(chunk)
                if stored is not None:
                    pool[chunk] = (stored, path)
            if len(pool) >= cap:
                break
        step.detail = f"{reached} abstracts at depth {query.depth}, pool capped at {cap} chunks"
        step.count = len(pool)
    return pool


def _expand(view: StoreView, seeds: Iterable[Seed], depth: int) -> Iterator[tuple[int, str]]:
    """Abstracts of each seed, most telling first, each followed by its relatives up to ``depth`` levels away."""
    seen: set[int] = set()
    for seed in seeds:
        for number in view.addresses_of(seed.identity, _MOST_ADDRESSES).tolist():
            rank, place = addresses.split(number)
            if rank == addresses.NODE:
                continue
            for abstract, relation in _relatives(view, place, depth):
                if abstract not in seen:
                    seen.add(abstract)
                    yield abstract, f"{seed.key} → {relation}"


def _relatives(view: StoreView, abstract: int, depth: int) -> Iterator[tuple[int, str]]:
    """The abstract itself, its ancestors and its descendants, up to ``depth`` levels away (equation 1)."""
    yield abstract, f"abstract {abstract}"
    if not depth:
        return
    record = view.abstracts.get(abstract)
    parent, level = record.parent, 1
    children = record.children
    for level in range(1, depth + 1):
        below: list[int] = []
        for child in children:
            yield child, f"abstract {abstract} → {level} down {child}"
            if child >= FIRST_UPPER:
                below += view.abstracts.get(child).children
        children = below
    for level in range(1, depth + 1):
        if parent is None:
            return
        yield parent, f"abstract {abstract} → {level} up {parent}"
        parent = view.abstracts.get(parent).parent


def _rank(query: Query, pool: Pool) -> Ranking:
    vector = query.vector
    with query.trace.step("cosine") as step:
        chunks = sorted(pool)
        matrix = query.view.vectors.gather([(pool[chunk][0].block, pool[chunk][0].row) for chunk in chunks])
        ranking = best(query.view, np.array(chunks, np.uint64), cosines(matrix, vector), query.reach)
        step.detail, step.count = "question against the pool", len(chunks)
    return ranking
