"""The communities of one build of the index, as they were built. A *community* is a group of related entities, its
*members*; coarse communities contain finer ones. A chunk is assigned to the community in which its names have the most
weight; its *share* is the fraction of their weight there.

In: the rows of one generation of the ``communities`` index (:mod:`.community_rows`). Out: communities, their tree, home
chunks, terms and vectors, the same for every state. Missing rows raise a CorruptionError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ...errors import CorruptionError
from ...retrieval.evidence import StoredSpan
from ...storage import records
from ...structures.clustering.affinity import IntArray
from ...structures.indexes.generations import GenerationRows
from ...structures.vectors.vectors import Matrix, Vector, cosines
from .community_building import NO_COMMUNITY
from .community_reports import Finding
from .community_rows import (
    CHILDREN_FIELD,
    CHUNK_HOMES,
    COMMUNITIES,
    ENTITY_COMMUNITIES,
    FINDINGS_FIELD,
    MEMBERS,
    SUMMARY_FIELD,
    TERMS,
    VECTORS,
)
from .stored_tree import StoredTree

Value = TypeVar("Value")

_REMEDY = "DROP INDEX communities, and create it again"


class Community(NamedTuple):
    """A community as it was built.

    Level 0 is the coarsest. ``parent`` is the id of the community that contains it one level above (None: a root).
    ``rating`` is 10 times its number of chunks divided by the number of chunks of the largest community of its level.
    ``content_digest`` is the digest of the material that its report is written from.
    """

    id: int
    level: int
    parent: int | None
    children: tuple[int, ...]
    entity_count: int
    chunk_count: int
    document_count: int
    rating: float
    content_digest: bytes


class CommunityMember(NamedTuple):
    """An entity of a community, and the total weight of its edges within the community."""

    entity: int
    weight: float


class HomeChunk(NamedTuple):
    """A chunk assigned to a community; ``share`` is the fraction of its names that belong to it, by weight."""

    chunk: int
    share: float


class StoredCommunities:
    """The communities of one build of the index, as stored, including deleted members and chunks."""

    def __init__(self, rows: GenerationRows, dimension: int) -> None:
        """Open the communities that one build of the index stored in ``rows``; they are read on demand.

        The vectors of communities have ``dimension`` numbers.
        """
        self._rows = rows
        self._dimension = dimension
        #: The number of the change after which the communities were built, and the id after its last chunk.
        self.change, self.chunk_stop = rows.change, rows.chunk_stop
        #: The number of levels.
        self.levels: int = rows.header["levels"]
        self._count: int = rows.header["communities"]
        self._records: dict[int, list[Any]] = {}

    def __len__(self) -> int:
        """Return the number of communities of all levels."""
        return self._count

    def get_cached(self, name: str, make: Callable[[], Value]) -> Value:
        """Return the value cached under ``name``; ``make`` computes it on the first call.

        All snapshots that read this build of the index share the value, so it must depend on the build alone.
        """
        return self._rows.get_cached(name, lambda _: make())

    def get(self, community: int) -> Community:
        """Return a community by its id, which must be valid. Raises CorruptionError if its record is missing."""
        row = self._get_record(community)
        level, parent, children, entity_count, chunk_count, document_count, tenfold_rating, content_digest = row[:8]
        counts = (entity_count, chunk_count, document_count)
        return Community(community, level, parent, tuple(children), *counts, tenfold_rating / 10, content_digest)

    @property
    def tree(self) -> StoredTree:
        """The hierarchy of communities; cached. Raises CorruptionError if the stored records do not form a tree."""
        return self._rows.get_cached("tree", self._read_tree)

    def _read_tree(self, rows: GenerationRows) -> StoredTree:
        """Read the tree; raise CorruptionError if a community or parent is missing, or a level is invalid."""
        tree = StoredTree.from_rows(rows)
        children = np.flatnonzero(tree.parents != NO_COMMUNITY)
        parents = tree.parents[children]
        if len(tree) != self._count or not ((parents >= 0) & (parents < len(tree))).all():
            raise _make_missing_error(int(parents.max(initial=self._count)))
        has_coarser_parents = (tree.levels[parents] < tree.levels[children]).all()
        has_valid_levels = (tree.levels < max(self.levels, 1)).all()
        if not has_coarser_parents or not has_valid_levels:
            raise CorruptionError(f"index communities: the levels of communities contradict each other; {_REMEDY}")
        return tree

    def preload(self, communities: Sequence[int]) -> None:
        """Read the records of communities into the cache, all together. Raises CorruptionError if one is missing."""
        missing_communities = [community for community in communities if community not in self._records]
        for community, row in zip(
            missing_communities,
            self._rows.get_many(COMMUNITIES, list(map(records.encode_u32, missing_communities))),
            strict=True,
        ):
            if row is None:
                raise _make_missing_error(community)
            self._records[community] = row

    def get_built_terms(self, communities: Sequence[int]) -> list[str]:
        """Return, for each community, the terms (stemmed words) of its title and report at build time, as one string.

        They are outdated if anything changed since the build, or a model has written a report. Raises CorruptionError
        if they are not stored.
        """
        terms: list[str | None] = self._rows.get_many(TERMS, list(map(records.encode_u32, communities)))
        if None in terms:
            raise _make_missing_error(communities[terms.index(None)])
        return cast(list[str], terms)

    @property
    def entity_count(self) -> int:
        """The number of entities that were nodes of the graph when the communities were built; cached."""
        return self._rows.get_cached("nodes", lambda rows: sum(1 for _ in rows.scan(ENTITY_COMMUNITIES)))

    def compute_cosines(self, communities: IntArray, vector: Vector) -> Matrix:
        """Return the cosines of the centroids of communities with a unit vector."""
        return cosines(self._vectors, vector, communities)

    def get_vectors(self, communities: Sequence[int]) -> Matrix:
        """Return the unit vectors of communities, the centroids of their members' vectors, shape (n, dimension)."""
        return self._vectors[np.asarray(communities, np.int64)]

    def _get_record(self, community: int) -> list[Any]:
        """Return the stored row of a community, a list of fields such as its level, parent and first member; cached."""
        if community not in self._records:
            self.preload([community])
        return self._records[community]

    def iter_row_faults(self, *, needs_terms: bool) -> Iterator[str]:
        """Yield an error message for each inconsistency in the stored rows.

        Checks the number of communities and, if it is right, their parents, children, levels and members. If
        ``needs_terms``, each community must also have the terms of its report, which word search needs.
        """
        stored_count = sum(1 for _ in self._rows.scan(COMMUNITIES))
        if stored_count != self._count:
            yield f"index communities: {stored_count} communities are stored, not {self._count}"
            return
        for community in range(self._count):
            record = self.get(community)
            has_parent = record.parent is not None and 0 <= record.parent < self._count
            parent = self.get(record.parent) if record.parent is not None and has_parent else None
            if parent is None and record.parent is not None:
                yield f"index communities: community {community} is below {record.parent}, which is not stored"
            elif parent is not None and community not in parent.children:
                yield f"index communities: community {community} is not among the children of its parent {parent.id}"
            elif (parent is not None and parent.level >= record.level) or record.level >= self.levels:
                yield f"index communities: community {community} has the wrong level {record.level}"
            if self._rows.get(MEMBERS, records.encode_u32(community)) is None:
                yield f"index communities: the members of community {community} are not stored"
            if needs_terms and self._rows.get(TERMS, records.encode_u32(community)) is None:
                yield f"index communities: the terms of community {community} are not stored"

    def _list_stored_members(self, community: int) -> Sequence[int]:
        """Return the entities that were members of a community at build time, strongest first."""
        row = self._rows.get(MEMBERS, records.encode_u32(community)) or ()
        return cast(Sequence[int], row[::2])  # a row alternates entities and weights

    def _get_summary_spans(self, community: int) -> list[StoredSpan]:
        """Return the spans of the sentences that were the summary of a community at build time."""
        return [StoredSpan(*span) for span in self._get_record(community)[SUMMARY_FIELD]]

    def _get_findings(self, community: int) -> list[Finding]:
        """Return the findings of a community's report (sentences about two members) at build time, strongest first."""
        return [
            Finding((first, second), weight, StoredSpan(*span))
            for first, second, weight, *span in self._get_record(community)[FINDINGS_FIELD]
        ]

    def _list_home_chunks(self, community: int) -> list[HomeChunk]:
        """Return the chunks assigned to the community itself, not to its children, at build time, largest share first.

        A chunk is assigned level by level, from the coarsest, to the community in which its names have the most weight.
        The share of a chunk is the fraction of its names' weight that is in the community.
        """
        return _decode_homes(self._rows.get(CHUNK_HOMES, records.encode_u32(community)))

    def _list_stored_chunks(self, communities: Sequence[int]) -> list[list[HomeChunk]]:
        """Return, for each community, the chunks assigned to it or its descendants; all are read in one batch.

        The chunks were assigned at build time and can have been deleted since.
        """
        level = communities
        while level:  # load the records with one read for each level
            self.preload(level)
            level = [child for community in level for child in self._get_record(community)[CHILDREN_FIELD]]
        subtrees = [list(self._iter_subtree(community)) for community in communities]
        community_ids = list(dict.fromkeys(chain.from_iterable(subtrees)))
        rows = self._rows.get_many(CHUNK_HOMES, list(map(records.encode_u32, community_ids)))
        chunks_by_community = dict(zip(community_ids, map(_decode_homes, rows), strict=True))
        return [[chunk for community in subtree for chunk in chunks_by_community[community]] for subtree in subtrees]

    def _iter_subtree(self, community: int) -> Iterator[int]:
        """Yield a community and its descendants, each before its children."""
        yield community
        for child in self._get_record(community)[CHILDREN_FIELD]:
            yield from self._iter_subtree(child)

    @property
    def _content_digests(self) -> list[bytes]:
        """For each community, the digest of the texts that a model's report on it is written from; cached."""
        return self._rows.get_cached("contents", self._read_content_digests)

    def _read_content_digests(self, _: GenerationRows) -> list[bytes]:
        """Read, for each community, the digest of the texts that a model's report on it is written from."""
        self.preload(range(self._count))
        return [self.get(community).content_digest for community in range(self._count)]

    def _get_root_path(self, community: int) -> list[int]:
        """Return a community and its ancestors, coarsest first; empty for :data:`NO_COMMUNITY`."""
        path: list[int] = []
        while community != NO_COMMUNITY:
            path.append(community)
            community = int(self.tree.parents[community])  # NO_COMMUNITY for a root
        return path[::-1]

    @property
    def _first_chunks(self) -> IntArray:
        """For each community, one of the chunks assigned to it or to a descendant, -1 if there are none; cached."""
        return self._rows.get_cached("first chunks", lambda rows: _read_first_chunks(rows, self.tree))

    def _find_finest(self, entities: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Return two arrays: the finest community of each entity, and the entity's number of chunks at build time.

        An entity that was added after the build has :data:`NO_COMMUNITY` and 0. Raises CorruptionError if a community
        is not stored.
        """
        # ``indexes`` are the positions in ``entities`` of the entities that have a row.
        indexes, rows = self._rows.read_numbers(
            ENTITY_COMMUNITIES, list(map(records.encode_u32, entities)), num_columns=2
        )
        finest, degrees = np.full(len(entities), NO_COMMUNITY), np.zeros(len(entities), np.int64)
        finest[indexes], degrees[indexes] = rows.T
        if finest.max(initial=NO_COMMUNITY) >= len(self.tree):
            raise _make_missing_error(int(finest.max()))
        return finest, degrees

    @property
    def _vectors(self) -> Matrix:
        """The unit vectors of all communities, shape (communities, dimension); cached."""
        return self._rows.get_cached("vectors", self._read_vectors)

    def _read_vectors(self, rows: GenerationRows) -> Matrix:
        """Return the unit vectors of all communities, shape (communities, dimension)."""
        blocks = [np.frombuffer(block, "<f4") for _, block in rows.scan(VECTORS)]
        return np.concatenate([np.empty(0, np.float32), *blocks]).reshape(self._count, self._dimension)


def _read_first_chunks(rows: GenerationRows, tree: StoredTree) -> IntArray:
    """Return, for each community, the first chunk in it or in a descendant; -1 (NO_COMMUNITY) if it has no chunk."""
    first_chunks = np.full(len(tree), NO_COMMUNITY, np.int64)
    for key, (chunk, *_) in rows.scan(CHUNK_HOMES):
        (community,) = records.U32.unpack(key)
        while community != NO_COMMUNITY and first_chunks[community] == NO_COMMUNITY:
            first_chunks[community] = chunk
            community = tree.parents[community]
    return first_chunks


def _decode_homes(row: Sequence[int] | None) -> list[HomeChunk]:
    """Return the chunks of a stored row, which alternates chunk ids and shares in 1/10,000; empty for None (no row)."""
    values = iter(row or ())
    return [HomeChunk(chunk, share / 10_000) for chunk, share in zip(values, values, strict=True)]


def _make_missing_error(community: int) -> CorruptionError:
    """Return the error for a community that another record refers to and that is not stored."""
    return CorruptionError(f"index communities: community {community} is referred to but not stored; {_REMEDY}")


def iter_largest_indexes(values: Matrix, expected_count: int) -> Iterator[int]:
    """Yield the indexes of values in descending order of value, ties by index.

    A caller that stops after ``expected_count`` of them does not cause all values to be sorted.
    """
    num_yielded = 0
    if expected_count < len(values):
        cutoff_index = len(values) - expected_count
        largest = np.flatnonzero(values >= np.partition(values, cutoff_index)[cutoff_index])
        yield from largest[np.argsort(-values[largest], kind="stable")].tolist()
        num_yielded = len(largest)
    yield from np.argsort(-values, kind="stable")[num_yielded:].tolist()
