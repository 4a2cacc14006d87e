"""The candidates of ``bridge``: from entities through abstracts to chunks. An *abstract* summarizes consecutive chunks
of a document, or lower abstracts; a document's abstracts are a tree, whose *leaves* are directly above chunks. The
lower the *rank* of a mention, the more specific it is.

In: the entities in a question, rarest first, and how many levels of abstracts to expand. Out: :class:`CandidatePool`,
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
from ...retrieval.recognition import QuestionEntity
from ...structures.documents.allowed import AllowedDocuments
from ...structures.documents.chunks import FIRST_UPPER_ABSTRACT, GROUP_SIZE, AbstractRecord
from ...structures.filter import addresses
from ...structures.read_requests import Ids, Matrix, ReadRequest, Vector
from ...structures.state import State

#: The maximum number of addresses read per entity, the most specific first. If not all addresses of a rank fit, the
#: whole rank is skipped: a name in that many abstracts is not specific.
_MAX_ADDRESSES = 512
#: Abstracts expanded in one batch. Their chunks usually fill the pool.
_ABSTRACTS_PER_READ = 64
#: Chunks of one abstract read in one batch.
_CHUNKS_PER_READ = 256


class AbstractRoute(NamedTuple):
    """The route from an entity to the abstract ``target``, above the chunk.

    It starts at ``abstract``, which mentions the entity, and goes ``levels`` levels up the tree (negative: down).
    """

    entity: str
    abstract: int
    levels: int
    target: int


class _TreeNeighbor(NamedTuple):
    """An abstract ``levels`` levels above another (negative: below)."""

    levels: int
    abstract: int


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Candidate chunks, ids ascending, their cosines with the question, and the route to the abstract above each.

    ``num_abstracts`` is the number of abstracts visited. ``has_specific_entities`` is false if no abstract was
    searched, because each entity is in no abstract or in too many.
    """

    chunks: Ids
    cosines: Matrix
    routes: Mapping[int, AbstractRoute]
    num_abstracts: int
    has_specific_entities: bool


class CandidateRequest(ReadRequest[CandidatePool]):
    """A request for the chunks below the abstracts that mention ``entities`` (the question's, rarest first), and below
    abstracts up to ``depth`` levels above or below these. Returns at most ``max_chunks`` chunks of ``allowed``
    documents (None: all), with their cosines with the unit-length ``vector``. This is Algorithm 1 of Bridge-RAG. An
    entity that no abstract or too many abstracts mention is skipped.
    """

    entities: Sequence[QuestionEntity]
    depth: int
    max_chunks: int
    vector: Vector
    allowed: AllowedDocuments | None = None

    def fetch(self, state: State) -> CandidatePool:
        specific_entities = [
            (entity, abstracts) for entity in self.entities if (abstracts := _list_mentioning_abstracts(state, entity))
        ]
        pool_builder = _PoolBuilder(state, self)
        pool_builder.fill_pool(specific_entities)
        chunks = np.array(sorted(pool_builder.pool), np.uint64)
        return CandidatePool(
            chunks=chunks,
            cosines=compute_cosines(state, chunks, self.vector),
            routes=pool_builder.pool,
            num_abstracts=len(pool_builder.visited_abstracts),
            has_specific_entities=bool(specific_entities),
        )

    def list_chunks(self, answer: CandidatePool) -> Iterable[int]:
        """Return the ids of the chunks in ``answer``, the pool that was collected for this request."""
        chunk_ids: list[int] = answer.chunks.tolist()
        return chunk_ids


def _is_leaf(abstract: int) -> bool:
    """True if an abstract is directly above chunks, and not above other abstracts."""
    return abstract < FIRST_UPPER_ABSTRACT


class _RankedAbstract(NamedTuple):
    """The id of an abstract that mentions an entity; a lower ``rank`` means a more specific mention."""

    rank: int
    abstract: int


def _list_mentioning_abstracts(state: State, entity: QuestionEntity) -> list[_RankedAbstract]:
    """Return the abstracts that mention an entity, most specific mentions first.

    At most :data:`_MAX_ADDRESSES` are returned; a rank that does not fit completely is omitted.
    """
    # An address packs a rank and the id of an abstract, so that addresses sort by rank.
    packed_addresses: list[int] = state.find_addresses(entity.identity, _MAX_ADDRESSES + 1).tolist()
    if len(packed_addresses) > _MAX_ADDRESSES:  # drop all addresses of the last rank
        last_rank, _ = addresses.split_address(packed_addresses[-1])
        packed_addresses = packed_addresses[: bisect_left(packed_addresses, addresses.make_address(last_rank, 0))]
    # The entity's nodes in the entity forest, which are not abstracts, have the lowest rank.
    first = bisect_left(packed_addresses, addresses.make_address(addresses.NODE_RANK + 1, 0))
    return [_RankedAbstract(*addresses.split_address(address)) for address in packed_addresses[first:]]


class _PoolBuilder:
    """Collects candidate chunks below abstracts. Caches the abstracts that it read, and which chunk ids exist. ``pool``
    maps each collected chunk to its route: the abstracts from a name in the question to the chunk.
    """

    def __init__(self, state: State, request: CandidateRequest) -> None:
        """Create an empty pool of chunks; ``request`` has its maximum size, the depth and the allowed documents."""
        self._state = state
        self._request = request
        #: Caches by id: the records of abstracts, and True or False for chunk ids that exist or not.
        self._abstracts: dict[int, AbstractRecord] = {}
        self._chunk_exists: dict[int, bool] = {}
        self.pool: dict[int, AbstractRoute] = {}
        self.visited_abstracts: set[int] = set()

    def fill_pool(self, entities: Sequence[tuple[QuestionEntity, list[_RankedAbstract]]]) -> None:
        """Add chunks to the pool, with the route to each from a name in the question, until the pool is full.

        ``entities`` has each entity in the question with the abstracts that mention it. The chunks of these abstracts
        come first. The chunks of their ancestors and descendants follow, level by level.
        """
        passes = [
            (level, entity, abstracts) for level in range(self._request.depth + 1) for entity, abstracts in entities
        ]
        for level, entity, abstracts in passes:
            capacity, newly_visited = self._request.max_chunks - len(self.pool), set[int]()
            # One chunk more than fits shows that there are too many.
            routes = dict(islice(self._iter_new_chunks(entity, abstracts, level, newly_visited), capacity + 1))
            if len(routes) > capacity:
                # Only now does the order of the abstracts matter: start again with sorted abstracts.
                newly_visited.clear()
                sorted_abstracts = self._sort_abstracts(abstracts)
                routes = dict(islice(self._iter_new_chunks(entity, sorted_abstracts, level, newly_visited), capacity))
            self.pool |= routes
            self.visited_abstracts |= newly_visited
            if len(self.pool) == self._request.max_chunks:
                return

    def _sort_abstracts(self, abstracts: Sequence[_RankedAbstract]) -> list[_RankedAbstract]:
        """Sort abstracts by rank, document key and id."""
        self._cache_abstracts(abstract for _, abstract in abstracts)
        keys = self._state.documents.get_keys(self._abstracts[abstract].document for _, abstract in abstracts)

        def get_sort_key(ranked: _RankedAbstract) -> tuple[int, str, int]:
            """Return the sort key of an abstract: its rank, its document's key and its id."""
            return ranked.rank, keys[self._abstracts[ranked.abstract].document], ranked.abstract

        return sorted(abstracts, key=get_sort_key)

    def _iter_new_chunks(
        self, entity: QuestionEntity, abstracts: Sequence[_RankedAbstract], level: int, newly_visited: set[int]
    ) -> Iterator[tuple[int, AbstractRoute]]:
        """Yield the allowed chunks that are not in the pool yet, each with its route from ``entity``.

        ``abstracts`` are the summaries that mention the entity. The chunks are below the abstracts ``level`` levels
        above and below these (0: below these themselves). Each abstract is visited once. The visited ones are added to
        ``newly_visited``, so that the caller can reset them.
        """
        allowed = self._request.allowed
        yielded_chunks: set[int] = set()
        for first in range(0, len(abstracts), _ABSTRACTS_PER_READ):
            starts = [abstract for _, abstract in abstracts[first : first + _ABSTRACTS_PER_READ]]
            neighbor_groups = self._list_tree_neighbors(starts, level)
            # The chunks of all leaves are looked up together.
            leaves = [abstract for group in neighbor_groups for _, abstract in group if _is_leaf(abstract)]
            self._cache_existing_chunks(chunk for leaf in leaves for chunk in self._get_chunk_ids(leaf))
            for start, neighbors in zip(starts, neighbor_groups, strict=True):
                for levels, abstract in neighbors:
                    if abstract in self.visited_abstracts or abstract in newly_visited:
                        continue
                    newly_visited.add(abstract)
                    route = AbstractRoute(entity.key, start, levels, abstract)
                    for chunk in self._iter_stored_chunks(abstract):
                        is_new = chunk not in self.pool and chunk not in yielded_chunks
                        if is_new and (allowed is None or allowed.is_chunk_allowed(chunk)):
                            yielded_chunks.add(chunk)
                            yield chunk, route

    def _list_tree_neighbors(self, abstracts: Sequence[int], level: int) -> list[list[_TreeNeighbor]]:
        """Return, for each abstract, its descendants and its ancestor ``level`` levels away (Bridge-RAG, equation 1).

        With ``level`` 0, only the abstract itself is returned. Reads the abstracts on the way into the cache.
        """
        # The record of a leaf is needed only for its parent.
        self._cache_abstracts(abstract for abstract in abstracts if level or not _is_leaf(abstract))
        if not level:
            return [[_TreeNeighbor(0, abstract)] for abstract in abstracts]
        descendants = [[abstract] for abstract in abstracts]
        ancestors: list[int | None] = list(abstracts)
        for _ in range(level):
            descendants = [self._list_children(group) for group in descendants]
            ancestors = [None if abstract is None else self._abstracts[abstract].parent for abstract in ancestors]
            self._cache_abstracts(child for group in descendants for child in group if not _is_leaf(child))
            self._cache_abstracts(abstract for abstract in ancestors if abstract is not None)
        neighbor_groups = [[_TreeNeighbor(-level, descendant) for descendant in group] for group in descendants]
        for neighbors, ancestor in zip(neighbor_groups, ancestors, strict=True):
            if ancestor is not None:
                neighbors.append(_TreeNeighbor(level, ancestor))
        return neighbor_groups

    def _list_children(self, abstracts: Iterable[int]) -> list[int]:
        """Return the abstracts directly below some abstracts. Leaves have no abstracts below, only chunks.

        The records of the abstracts above the leaves must be cached.
        """
        return [
            child for abstract in abstracts if not _is_leaf(abstract) for child in self._abstracts[abstract].children
        ]

    def _get_chunk_ids(self, abstract: int) -> range:
        """Return the range of the chunk ids that an abstract summarizes; some of these ids can be unused.

        Call :meth:`_cache_abstracts` first, unless the abstract is a leaf.
        """
        if _is_leaf(abstract):  # leaf n has the n-th group of chunk ids
            return range(GROUP_SIZE * abstract, GROUP_SIZE * abstract + GROUP_SIZE)
        record = self._abstracts[abstract]
        return range(record.first_chunk, record.last_chunk + 1)

    def _iter_stored_chunks(self, abstract: int) -> Iterator[int]:
        """Yield the chunks that an abstract summarizes and that exist, ids ascending.

        Call :meth:`_cache_abstracts` first, unless the abstract is a leaf.
        """
        ids = self._get_chunk_ids(abstract)
        for first in range(0, len(ids), _CHUNKS_PER_READ):
            batch = ids[first : first + _CHUNKS_PER_READ]
            self._cache_existing_chunks(batch)
            yield from filter(self._chunk_exists.__getitem__, batch)

    def _cache_abstracts(self, abstracts: Iterable[int]) -> None:
        """Read the records of abstracts into the cache, in one batch, unless they are there already."""
        missing_abstracts = [abstract for abstract in dict.fromkeys(abstracts) if abstract not in self._abstracts]
        if missing_abstracts:
            self._abstracts.update(
                zip(missing_abstracts, self._state.abstracts.get_many(missing_abstracts), strict=True)
            )

    def _cache_existing_chunks(self, chunks: Iterable[int]) -> None:
        """Look up the chunk ids that are not in the cache yet, and cache True if the chunk exists, else False."""
        missing_chunks = [chunk for chunk in dict.fromkeys(chunks) if chunk not in self._chunk_exists]
        if missing_chunks:
            self._chunk_exists.update(zip(missing_chunks, self._state.chunks.has_many(missing_chunks), strict=True))
