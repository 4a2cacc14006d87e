"""The candidates of ``bridge``: from entities through the abstracts that name them, and their relatives, to chunks.

In: the entities of a question, rarest first, and how many levels of abstracts to expand. Out: :class:`CandidatePool`,
    chunks with the route to each and their cosines with the question. Abstracts and chunks are read in batches.
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
from ...structures.documents.allowed import AllowedDocuments
from ...structures.documents.chunks import FIRST_UPPER_ABSTRACT, GROUP_SIZE, AbstractRecord
from ...structures.filter import addresses
from ...structures.read_requests import Ids, Matrix, ReadRequest
from ...structures.state import State

#: Addresses read per entity, the most specific first. A rank with more addresses than remain is skipped entirely: a
#: name in that many places is not specific.
_MAX_ADDRESSES = 512
#: Addresses expanded in one batch. The pool rarely has room for more.
_ADDRESSES_PER_READ = 64
#: Chunks of one abstract read in one batch.
_CHUNKS_PER_READ = 256


class AbstractRoute(NamedTuple):
    """The route from an entity to the abstract ``target``.

    It starts at ``abstract``, which mentions the entity, and goes ``levels`` levels up the tree (negative: down).
    """

    entity: str
    abstract: int
    levels: int
    target: int


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Candidate chunks, ids ascending, their cosines with the question, and the route to the abstract above each.

    ``num_abstracts`` is the number of abstracts visited. ``has_leads`` is false if every entity is in too many
    abstracts, so that none was searched.
    """

    chunks: Ids
    cosines: Matrix
    routes: Mapping[int, AbstractRoute]
    num_abstracts: int
    has_leads: bool


@dataclass(frozen=True, slots=True)
class Candidates(ReadRequest[CandidatePool]):
    """A request for the chunks below the abstracts of some entities and their relatives up to ``depth`` levels away.

    Returns at most ``max_chunks`` allowed chunks with their cosines with the unit ``vector``.
    """

    seeds: Sequence[Seed]
    depth: int
    max_chunks: int
    vector: Matrix
    allowed: AllowedDocuments | None = None

    def fetch(self, state: State) -> CandidatePool:
        """Read the relatives of the entities, and collect the chunks below their abstracts."""
        seed_addresses = [(seed, numbers) for seed in self.seeds if len(numbers := _list_abstracts(state, seed))]
        pool_builder = _PoolBuilder(state, self)
        pool_builder.fill(seed_addresses)
        chunks = np.array(sorted(pool_builder.pool), np.uint64)
        return CandidatePool(
            chunks,
            compute_cosines(state, chunks, self.vector),
            pool_builder.pool,
            len(pool_builder.visited_abstracts),
            bool(seed_addresses),
        )

    def list_chunks(self, answer: CandidatePool) -> Iterable[int]:
        chunk_ids: list[int] = answer.chunks.tolist()
        return chunk_ids


def _list_abstracts(state: State, seed: Seed) -> list[int]:
    """Return the abstract addresses of an entity, the most specific rank first, in complete ranks."""
    numbers: list[int] = state.find_addresses(seed.identity, _MAX_ADDRESSES + 1).tolist()
    if len(numbers) > _MAX_ADDRESSES:
        rank, _ = addresses.split_address(numbers[-1])
        numbers = numbers[: bisect_left(numbers, addresses.make_address(rank, 0))]
    return numbers[bisect_left(numbers, addresses.make_address(addresses.NODE_RANK + 1, 0)) :]


class _PoolBuilder:
    """A builder of the pool, with a cache of the abstracts it read and of which chunk ids exist."""

    def __init__(self, state: State, request: Candidates) -> None:
        self._state = state
        self._request = request
        self._abstracts: dict[int, AbstractRecord] = {}
        self._chunk_exists: dict[int, bool] = {}
        self.pool: dict[int, AbstractRoute] = {}
        self.visited_abstracts: set[int] = set()

    def fill(self, seed_addresses: Sequence[tuple[Seed, list[int]]]) -> None:
        """Fill the pool from entities and their addresses: first from the abstracts that mention one of them, then from
        the relatives of these, level by level, as far as there is room."""
        turns = [(level, *seed) for level in range(self._request.depth + 1) for seed in seed_addresses]
        for level, seed, numbers in turns:
            capacity, visited = self._request.max_chunks - len(self.pool), set[int]()
            routes = dict(islice(self._iter_new_chunks(seed, numbers, level, visited), capacity + 1))
            if len(routes) > capacity:
                # The order of chunks matters only if they do not all fit.
                visited.clear()
                ordered_numbers = self._sort_addresses(numbers)
                routes = dict(islice(self._iter_new_chunks(seed, ordered_numbers, level, visited), capacity))
            self.pool |= routes
            self.visited_abstracts |= visited
            if len(self.pool) == self._request.max_chunks:
                return

    def _sort_addresses(self, numbers: Sequence[int]) -> list[int]:
        """Return addresses of abstracts in order of rank, document key and abstract id."""
        positions = {number: addresses.split_address(number) for number in numbers}
        self._read_abstracts(abstract for _, abstract in positions.values())
        documents = {number: self._abstracts[abstract].document for number, (_, abstract) in positions.items()}
        keys = self._state.documents.get_keys(documents.values())

        def get_sort_key(number: int) -> tuple[int, str, int]:
            rank, abstract = positions[number]
            return rank, keys[documents[number]], abstract

        return sorted(numbers, key=get_sort_key)

    def _iter_new_chunks(
        self, seed: Seed, numbers: Sequence[int], level: int, visited: set[int]
    ) -> Iterator[tuple[int, AbstractRoute]]:
        """Yield the chunks below the relatives of an entity's abstracts ``level`` levels away that are not in the pool.

        Visited abstracts are added to ``visited``, and abstracts seen before are skipped.
        """
        allowed = self._request.allowed
        yielded: set[int] = set()
        for first in range(0, len(numbers), _ADDRESSES_PER_READ):
            starts = [addresses.split_address(number)[1] for number in numbers[first : first + _ADDRESSES_PER_READ]]
            related = self._list_relatives(starts, level)
            leaves = [abstract for relatives in related for _, abstract in relatives if abstract < FIRST_UPPER_ABSTRACT]
            self._check_chunks_exist(chunk for leaf in leaves for chunk in self._get_chunk_ids(leaf))
            for start, relatives in zip(starts, related, strict=True):
                for levels, abstract in relatives:
                    if abstract in self.visited_abstracts or abstract in visited:
                        continue
                    visited.add(abstract)
                    route = AbstractRoute(seed.key, start, levels, abstract)
                    for chunk in self._iter_stored_chunks(abstract):
                        if chunk in self.pool or chunk in yielded or not (allowed is None or allowed.has_chunk(chunk)):
                            continue
                        yielded.add(chunk)
                        yield chunk, route

    def _list_relatives(self, abstracts: Sequence[int], level: int) -> list[list[tuple[int, int]]]:
        """Return for each abstract its descendants and its ancestors ``level`` levels away (equation 1; 0: itself).

        Each is the number of levels above the abstract, and the id.
        """
        # A leaf without relatives needs no record.
        self._read_abstracts(abstract for abstract in abstracts if level or abstract >= FIRST_UPPER_ABSTRACT)
        descendants = [[abstract] for abstract in abstracts]
        ancestors: list[int | None] = list(abstracts)
        for _ in range(level):
            descendants = [
                [
                    child
                    for abstract in group
                    if abstract >= FIRST_UPPER_ABSTRACT
                    for child in self._abstracts[abstract].children
                ]
                for group in descendants
            ]
            ancestors = [None if abstract is None else self._abstracts[abstract].parent for abstract in ancestors]
            self._read_abstracts(child for group in descendants for child in group if child >= FIRST_UPPER_ABSTRACT)
            self._read_abstracts(abstract for abstract in ancestors if abstract is not None)
        if not level:
            return [[(0, abstract)] for abstract in abstracts]
        return [
            [*((-level, child) for child in group), *([] if parent is None else [(level, parent)])]
            for group, parent in zip(descendants, ancestors, strict=True)
        ]

    def _get_chunk_ids(self, abstract: int) -> range:
        """Return the id range of the chunks of an abstract already read. Some ids can be unused."""
        if abstract < FIRST_UPPER_ABSTRACT:
            return range(GROUP_SIZE * abstract, GROUP_SIZE * abstract + GROUP_SIZE)
        record = self._abstracts[abstract]
        return range(record.first_chunk, record.last_chunk + 1)

    def _iter_stored_chunks(self, abstract: int) -> Iterator[int]:
        """Yield the chunks of an abstract already read."""
        ids = self._get_chunk_ids(abstract)
        for first in range(0, len(ids), _CHUNKS_PER_READ):
            batch = ids[first : first + _CHUNKS_PER_READ]
            self._check_chunks_exist(batch)
            yield from filter(self._chunk_exists.__getitem__, batch)

    def _read_abstracts(self, abstracts: Iterable[int]) -> None:
        missing = [abstract for abstract in dict.fromkeys(abstracts) if abstract not in self._abstracts]
        if missing:
            self._abstracts.update(zip(missing, self._state.abstracts.get_many(missing), strict=True))

    def _check_chunks_exist(self, chunks: Iterable[int]) -> None:
        missing = [chunk for chunk in dict.fromkeys(chunks) if chunk not in self._chunk_exists]
        if missing:
            self._chunk_exists.update(zip(missing, self._state.chunks.has_many(missing), strict=True))
