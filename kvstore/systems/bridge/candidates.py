"""The candidates of bridge: from entities over the abstracts that name them, and their relatives, to chunks.

In: the entities of a question, rarest first, and how many levels of abstracts are walked. Out: :class:`CandidatePool`,
chunks with the way that led to each and their cosines with the question. Abstracts and chunks are read many at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from ...retrieval.dense_search import compute_cosines
from ...retrieval.recognition import Seed
from ...structures.documents.allowed import Allowed
from ...structures.documents.chunks import FIRST_UPPER_ABSTRACT, GROUP, AbstractRecord
from ...structures.filter import addresses
from ...structures.reading import Ids, Matrix, ReadRequest
from ...structures.state import State

#: Addresses taken of one entity, the most telling first. Of a rank whose addresses are more than that are left, none is
#: taken: names in that many places lead nowhere in particular.
_MAX_ADDRESSES = 512
#: Addresses whose surroundings are read together, where the pool has seldom room for more.
_PORTION = 64
#: Chunks of one abstract that are read together.
_CHUNKS_PER_READ = 256


class Way(NamedTuple):
    """How an abstract was reached: from which abstract of the entity, and over how many levels up (negative: down)."""

    entity: str
    abstract: int
    levels: int
    reached: int


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Candidate chunks, ids ascending, their cosines with the question, and the way to each.

    ``abstracts`` says how many were looked at; ``leading`` is false where no entity leads anywhere in particular.
    """

    chunks: Ids
    cosines: Matrix
    ways: Mapping[int, Way]
    abstracts: int
    leading: bool


@dataclass(frozen=True, slots=True)
class Candidates(ReadRequest[CandidatePool]):
    """The chunks below the abstracts of some entities and their relatives up to ``depth`` levels away, at most
    ``most`` of those that may answer, with their cosines with a unit ``vector``."""

    seeds: Sequence[Seed]
    depth: int
    most: int
    vector: Matrix
    allowed: Allowed | None = None

    def fetch(self, state: State) -> CandidatePool:
        seed_addresses = [(seed, numbers) for seed in self.seeds if len(numbers := _list_abstracts(state, seed))]
        pool_builder = _PoolBuilder(state, self)
        pool_builder.gather(seed_addresses)
        chunks = np.array(sorted(pool_builder.pool), np.uint64)
        return CandidatePool(
            chunks,
            compute_cosines(state, chunks, self.vector),
            pool_builder.pool,
            len(pool_builder.seen),
            bool(seed_addresses),
        )

    def placed(self, answer: CandidatePool) -> Iterable[int]:
        chunk_ids: list[int] = answer.chunks.tolist()
        return chunk_ids


def _list_abstracts(view: State, seed: Seed) -> list[int]:
    """Addresses of the abstracts of an entity, whole ranks, the most telling first."""
    numbers: list[int] = view.addresses_of(seed.identity, _MAX_ADDRESSES + 1).tolist()
    if len(numbers) > _MAX_ADDRESSES:
        rank, _ = addresses.split(numbers[-1])
        numbers = numbers[: bisect_left(numbers, addresses.address(rank, 0))]
    return numbers[bisect_left(numbers, addresses.address(addresses.NODE + 1, 0)) :]


class _PoolBuilder:
    """The pool as it fills, and what was read for it."""

    def __init__(self, view: State, wanted: Candidates) -> None:
        self._view = view
        self._wanted = wanted
        self._abstracts: dict[int, AbstractRecord] = {}
        self._present: dict[int, bool] = {}
        self.pool: dict[int, Way] = {}
        self.seen: set[int] = set()

    def gather(self, led: Iterable[tuple[Seed, list[int]]]) -> None:
        """Fill the pool from entities with their addresses."""
        for seed, numbers in led:
            capacity, visited = self._wanted.most - len(self.pool), set[int]()
            routes = dict(islice(self._new(seed, numbers, visited), capacity + 1))
            if len(routes) > capacity:
                # Only where not all have room does it matter which of them come first.
                visited.clear()
                routes = dict(islice(self._new(seed, self._in_order(numbers), visited), capacity))
            self.pool |= routes
            self.seen |= visited
            if len(self.pool) == self._wanted.most:
                return

    def _in_order(self, numbers: Sequence[int]) -> list[int]:
        """Addresses of abstracts by rank, document key and place."""
        positions = {number: addresses.split(number) for number in numbers}
        self._read_abstracts(abstract for _, abstract in positions.values())
        documents = {number: self._abstracts[abstract].document for number, (_, abstract) in positions.items()}
        keys = self._view.documents.get_keys(documents.values())

        def order(number: int) -> tuple[int, str, int]:
            rank, abstract = positions[number]
            return rank, keys[documents[number]], abstract

        return sorted(numbers, key=order)

    def _new(self, seed: Seed, numbers: Sequence[int], met: set[int]) -> Iterator[tuple[int, Way]]:
        """The chunks below the abstracts of an entity and their relatives, as far as they are not in the pool;
        abstracts are put into ``met``, those seen before are passed over."""
        allowed = self._wanted.allowed
        yielded: set[int] = set()
        for first in range(0, len(numbers), _PORTION):
            starts = [addresses.split(number)[1] for number in numbers[first : first + _PORTION]]
            related = self._relatives(starts)
            leaves = [abstract for its in related for _, abstract in its if abstract < FIRST_UPPER_ABSTRACT]
            self._load_presence(chunk for leaf in leaves for chunk in self._chunk_ids(leaf))
            for start, its in zip(starts, related, strict=True):
                for levels, abstract in its:
                    if abstract in self.seen or abstract in met:
                        continue
                    met.add(abstract)
                    route = Way(seed.key, start, levels, abstract)
                    for chunk in self._stored(abstract):
                        if chunk in self.pool or chunk in yielded or not (allowed is None or allowed.has(chunk)):
                            continue
                        yielded.add(chunk)
                        yield chunk, route

    def _relatives(self, places: Sequence[int]) -> list[list[tuple[int, int]]]:
        """Of each abstract itself, its descendants and its ancestors, up to ``depth`` levels away (equation 1): how
        many levels above it each is, and its id."""
        depth, records = self._wanted.depth, self._abstracts
        found = [[(0, place)] for place in places]
        # Of a leaf without relatives nothing has to be read.
        self._read_abstracts(place for place in places if depth or place >= FIRST_UPPER_ABSTRACT)
        if not depth:
            return found
        children = [records[place].children for place in places]
        for level in range(1, depth + 1):
            self._read_abstracts(child for group in children for child in group if child >= FIRST_UPPER_ABSTRACT)
            for group, new_children in zip(found, children, strict=True):
                group += ((-level, child) for child in new_children)
            children = [
                [
                    grandchild
                    for child in group
                    if child >= FIRST_UPPER_ABSTRACT
                    for grandchild in records[child].children
                ]
                for group in children
            ]
        parents = [records[place].parent for place in places]
        for level in range(1, depth + 1):
            self._read_abstracts(parent for parent in parents if parent is not None)
            for group, parent in zip(found, parents, strict=True):
                if parent is not None:
                    group.append((level, parent))
            parents = [None if parent is None else records[parent].parent for parent in parents]
        return found

    def _chunk_ids(self, abstract: int) -> range:
        """Ids that the chunks of an abstract that was read lie in; holes included."""
        if abstract < FIRST_UPPER_ABSTRACT:
            return range(GROUP * abstract, GROUP * abstract + GROUP)
        record = self._abstracts[abstract]
        return range(record.first_chunk, record.last_chunk + 1)

    def _stored(self, abstract: int) -> Iterator[int]:
        """The chunks of an abstract."""
        ids = self._chunk_ids(abstract)
        for first in range(0, len(ids), _CHUNKS_PER_READ):
            batch = ids[first : first + _CHUNKS_PER_READ]
            self._load_presence(batch)
            yield from filter(self._present.__getitem__, batch)

    def _read_abstracts(self, abstracts: Iterable[int]) -> None:
        missing = [abstract for abstract in dict.fromkeys(abstracts) if abstract not in self._abstracts]
        if missing:
            self._abstracts.update(zip(missing, self._view.abstracts.get_many(missing), strict=True))

    def _load_presence(self, chunks: Iterable[int]) -> None:
        missing = [chunk for chunk in dict.fromkeys(chunks) if chunk not in self._present]
        if missing:
            self._present.update(zip(missing, self._view.chunks.has_many(missing), strict=True))
