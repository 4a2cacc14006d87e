"""Strategy ``bridge``: entity → abstract → chunk (Bridge-RAG, Algorithm 1 and §4.3).

Entities of the question → filter → abstracts → expand ``depth`` levels up and down → candidate chunks → cosine → the
top ones, with their abstracts. The rarest entities come first and the pool of candidates is capped, so that a common
name does not make it an exact scan. Where no entity is known, or none that leads anywhere in particular, the search is
dense, and EXPLAIN says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np

from ...arguments import Option
from ...retrieval.dense_search import rank_by_vector
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import Seed, recognise
from ...structures.documents.chunks import FIRST_UPPER, ChunkRecord
from ...structures.filter import addresses
from ...structures.ranking import Ranking, best
from ...structures.state import State
from ...structures.vectors.vectors import cosines

#: Addresses taken of one entity, the most telling first. Of a rank whose addresses are more than that are left, none is
#: taken: names in that many places lead nowhere in particular.
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
        led = [(seed, numbers) for seed in seeds if len(numbers := _abstracts_of(query.view, seed))]
        if not led:
            ranking = rank_by_vector(query, query.reach)
            why = "no entity of it is known" if not seeds else "its entities are all over the store"
            with query.trace.step("no entity known" if not seeds else "no entity that leads anywhere") as step:
                step.detail = "dense search over all chunks instead"
            return evidence_of(query, self.name, ranking, f"near the question ({why})", query.view.counters.chunks)
        cap = max(50, int(option(query, self, "pool") * query.view.counters.chunks))
        pool = _candidates(query, led, cap)
        ranking = _rank(query, pool)
        paths = {chunk: _told(query.view, *pool[chunk]) for chunk, _ in ranking}
        return evidence_of(query, self.name, ranking, paths, len(pool))


class _Way(NamedTuple):
    """How an abstract was reached: from which abstract of the entity, and over how many levels up (negative: down)."""

    entity: str
    abstract: int
    levels: int
    reached: int


CandidatePool = dict[int, tuple[ChunkRecord, _Way]]


def _abstracts_of(view: State, seed: Seed) -> list[int]:
    """Addresses of the abstracts of an entity, whole ranks, the most telling first."""
    found: list[int] = view.addresses_of(seed.identity, _MOST_ADDRESSES + 1).tolist()
    if len(found) > _MOST_ADDRESSES:
        rank, _ = addresses.split(found[-1])
        found = found[: bisect_left(found, addresses.address(rank, 0))]
    return found[bisect_left(found, addresses.address(addresses.NODE + 1, 0)) :]


def _candidates(query: Query, seeds: Iterable[tuple[Seed, list[int]]], cap: int) -> CandidatePool:
    """Candidate chunks, at most ``cap``, each with its record and the way that led to it."""
    pool: CandidatePool = {}
    seen: set[int] = set()
    with query.trace.step("filter to abstracts to chunks") as step:
        for seed, numbers in seeds:
            room, met = cap - len(pool), set[int]()
            new = dict(islice(_chunks(query, seed, numbers, pool, seen, met), room + 1))
            if len(new) > room:
                # Only where not all have room does it matter which of them come first.
                met.clear()
                new = dict(islice(_chunks(query, seed, _in_order(query.view, numbers), pool, seen, met), room))
            pool |= new
            seen |= met
            if len(pool) == cap:
                break
        step.detail = f"{len(seen)} abstracts at depth {query.depth}, pool capped at {cap} chunks"
        step.count = len(pool)
    return pool


def _in_order(view: State, numbers: Iterable[int]) -> list[int]:
    """Addresses of abstracts by rank, document key and place."""

    def order(number: int) -> tuple[int, str, int]:
        rank, abstract = addresses.split(number)
        return rank, view.documents.key_of(view.abstracts.get(abstract).document), abstract

    return sorted(numbers, key=order)


def _chunks(
    query: Query, seed: Seed, numbers: Iterable[int], pool: CandidatePool, seen: set[int], met: set[int]
) -> Iterator[tuple[int, tuple[ChunkRecord, _Way]]]:
    """The chunks below the abstracts of a seed and their relatives, as far as they are not in the pool; abstracts are
    put into ``met``, those seen before are passed over."""
    view = query.view
    given: set[int] = set()
    for number in numbers:
        _, place = addresses.split(number)
        for levels, abstract in _relatives(view, place, query.depth):
            if abstract in seen or abstract in met:
                continue
            met.add(abstract)
            way = _Way(seed.key, place, levels, abstract)
            for chunk in view.abstracts.chunk_ids(abstract):
                if chunk in pool or chunk in given or not query.may_answer(chunk):
                    continue
                stored = view.chunks.find(chunk)
                if stored is not None:
                    given.add(chunk)
                    yield chunk, (stored, way)


def _relatives(view: State, abstract: int, depth: int) -> Iterator[tuple[int, int]]:
    """The abstract itself, its descendants and its ancestors, up to ``depth`` levels away (equation 1): how many levels
    above it each is, and its id."""
    yield 0, abstract
    if not depth:
        return
    record = view.abstracts.get(abstract)
    parent, level = record.parent, 1
    children = record.children
    for level in range(1, depth + 1):
        below: list[int] = []
        for child in children:
            yield -level, child
            if child >= FIRST_UPPER:
                below += view.abstracts.get(child).children
        children = below
    for level in range(1, depth + 1):
        if parent is None:
            return
        yield level, parent
        parent = view.abstracts.get(parent).parent


def _told(view: State, stored: ChunkRecord, way: _Way) -> str:
    """A way in words; abstracts are called by their numbers in the document."""
    document = view.documents.get(stored.document)
    told = f"{way.entity} → abstract {document.abstract_ordinal(way.abstract)}"
    if not way.levels:
        return told
    direction = "up" if way.levels > 0 else "down"
    return f"{told} → {abs(way.levels)} {direction} {document.abstract_ordinal(way.reached)}"


def _rank(query: Query, pool: CandidatePool) -> Ranking:
    vector = query.vector
    with query.trace.step("cosine") as step:
        chunks = sorted(pool)
        matrix = query.view.vectors.gather([(pool[chunk][0].block, pool[chunk][0].row) for chunk in chunks])
        ranking = best(query.view, np.array(chunks, np.uint64), cosines(matrix, vector), query.reach)
        step.detail, step.count = "question against the pool", len(chunks)
    return ranking
