"""The communities of one build of the index, filtered to what one state of the store contains. A *community* is a group
of related entities, its *members*; coarse communities contain finer ones. A chunk's *home* is the finest community to
which most of its names belong, by weight.

In: the rows of one generation of the ``communities`` index, and a state. Out: members, chunks, sentences, texts and
vectors. Document and chunk ids are never reused, so a deleted chunk is recognized by its missing id. A chunk added
after the build has an id past the end of the generation; it is assigned to a community on read, by its entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress, islice

import numpy as np
import numpy.typing as npt

from ...derived.passage_graph.edges import mask_informative
from ...derived.passage_graph.structure import GRAPH
from ...retrieval.evidence import StoredSpan
from ...storage import records
from ...structures import tables
from ...structures.clustering.affinity import IntArray
from ...structures.display_entities import DisplayEntities, load_display_entities
from ...structures.indexes.generations import GenerationRows
from ...structures.indexes.written_texts import WrittenText, WrittenTexts, load_text_vectors
from ...structures.names.entities import EntityRecord
from ...structures.ranking import sort_chunks
from ...structures.state import State
from ...structures.vectors.vectors import Matrix, Vector
from ...text.normalize import to_entity_key
from ..descriptions.written_descriptions import has_descriptions, iter_descriptions
from .community_building import NO_COMMUNITY, assign_homes, compute_home_weights
from .community_reports import (
    MAX_NAMED_MEMBERS,
    MAX_REPORT_CHUNKS,
    MAX_TITLE_CANDIDATES,
    MAX_TITLE_NAMES,
    Finding,
    build_title,
    list_report_spans,
)
from .community_rows import ENTITY_COMMUNITIES, FIRST_MEMBER_FIELD, LEVEL_FIELD, MEMBERS
from .entity_graph import compute_strengths
from .stored_communities import CommunityMember, HomeChunk, StoredCommunities, Value, iter_largest_indexes

#: Marks a community whose visibility is not yet known; otherwise the value is 0 or 1.
_UNKNOWN = -1
#: Stored weights are integers in units of 1 / _WEIGHT_SCALE.
_WEIGHT_SCALE = 1 << 16
#: The maximum number of newer chunks assigned to communities; strategies search the others themselves.
_MAX_ASSIGNED_CHUNKS = 20_000


class _StateCache:
    """Cached titles of communities, and flags that show which are visible; valid for all readers of one commit."""

    def __init__(self, count: int) -> None:
        """Create an empty cache of titles and visibility flags for ``count`` communities."""
        self.titles: dict[int, str] = {}
        #: 1 for visible communities, 0 for others, _UNKNOWN if not looked up yet.
        self.visibility: npt.NDArray[np.int8] = np.full(count, _UNKNOWN, np.int8)


class Communities(StoredCommunities):
    """The communities of one build of the index in one state of the store; ids count from 0. A member or chunk *exists*
    if the state contains it. A community is *visible* if one of its members exists and, unless it was built without
    chunks, one of its chunks. A *newer* chunk was added after the build.
    """

    def __init__(self, rows: GenerationRows, state: State) -> None:
        """Open the communities stored in ``rows``; members and chunks that the store's ``state`` lacks are hidden."""
        super().__init__(rows, state.settings.dimension)
        self._state = state

    def list_level(self, level: int) -> list[int]:
        """Return the visible communities of a level, and of coarser levels if they have no children, ids ascending.

        No entity is in two of them. A visible community still has members and, if it was built with any, chunks.
        """
        communities: list[int] = self.filter_visible(self.tree.get_partition(level)).tolist()
        return communities

    def get_key(self, community: int) -> str:
        """Return the key of a community in statements, such as ``1/vienna``: level and first member that exists."""
        return self.get_keys([community])[0]

    def get_keys(self, communities: Sequence[int]) -> list[str]:
        """Return the key of each community, such as ``1/vienna``: level and first member by name that exists."""
        self.preload(communities)
        first_members = [self._get_record(community)[FIRST_MEMBER_FIELD] for community in communities]
        member_exists = [True] * len(communities) if self._is_current else self._state.entities.has_many(first_members)
        # If the member whose name sorts first was deleted, the names of all others are compared.
        member_groups = [
            [first_member] if exists else [entity for entity, _ in self.iter_members(community)]
            for community, first_member, exists in zip(communities, first_members, member_exists, strict=True)
        ]
        records = iter(self._state.entities.get_many([entity for members in member_groups for entity in members]))
        names = [min((record.key for record in islice(records, len(group))), default="") for group in member_groups]
        levels = (self._get_record(community)[LEVEL_FIELD] for community in communities)
        return [f"{level}/{name}" for level, name in zip(levels, names, strict=True)]

    def find(self, key: str) -> int | None:
        """Return the community with a key such as ``1/vienna`` (its level and first member by name), or None."""
        level, _, name = key.partition("/")
        identity = self._state.resolve(to_entity_key(name)) if level.isdecimal() and name else None
        candidates = [] if identity is None else self.find_by_entity(identity.entry.entity)
        normalized_key = f"{level}/{to_entity_key(name)}"
        return next((community for community in candidates if self.get_key(community) == normalized_key), None)

    def list_members(self, community: int) -> list[CommunityMember]:
        """Return the members (entities with weights) that still exist, strongest first."""
        return list(self.iter_members(community))

    def iter_members(self, community: int) -> Iterator[CommunityMember]:
        """Yield the members (entities with weights) that still exist, strongest first; looks them up one by one."""
        return self._iter_existing_members(self._rows.get(MEMBERS, records.encode_u32(community)))

    def list_strongest_members(self, communities: Sequence[int], count: int) -> list[list[int]]:
        """Return the ``count`` members (entities) of each community that exist and have the most edge weight."""
        rows = self._rows.get_many(MEMBERS, list(map(records.encode_u32, communities)))
        members = [(row or ())[: 2 * count : 2] for row in rows]  # a row alternates entities and weights
        if self._is_current:
            return [list(entities) for entities in members]
        all_entities = list(dict.fromkeys(chain.from_iterable(members)))
        existing_entities = set(compress(all_entities, self._state.entities.has_many(all_entities)))
        # If one of the first members was deleted, further members are read.
        return [
            list(entities)
            if existing_entities.issuperset(entities)
            else [entity for entity, _ in islice(self._iter_existing_members(row), count)]
            for row, entities in zip(rows, members, strict=True)
        ]

    def list_top_members(self, community: int) -> list[EntityRecord]:
        """Return the entities that a report lists: members with the most edge weight that exist, sorted by key."""
        entities = [entity for entity, _ in islice(self.iter_members(community), MAX_NAMED_MEMBERS)]
        return sorted(self._state.entities.get_many(entities), key=lambda record: record.key)

    def list_descriptions(self, community: int) -> list[tuple[int, str]]:
        """Return the sentences that a model wrote about the strongest members, each as (document id, sentence).

        Only the documents that the report is written from are read, in order.
        """
        if not has_descriptions(self._state):
            return []
        keys = {record.key for record in self.list_top_members(community)}
        documents = dict.fromkeys(span.document for span in self.list_sources(community))
        return list(iter_descriptions(self._state, keys, documents))

    def list_chunks(self, community: int) -> list[HomeChunk]:
        """Return the chunks of a community or of its descendants that exist, largest share of names first.

        Chunks added after the build are included.
        """
        return self.list_chunk_groups([community])[0]

    def list_chunk_groups(self, communities: Sequence[int]) -> list[list[HomeChunk]]:
        """Return, by community, its chunks and those of its descendants that exist, largest share of names first."""
        groups = self._list_stored_chunks(communities)
        if not self._is_current:
            existing_chunks = self._find_existing_chunks(chunk for group in groups for chunk, _ in group)
            groups = [[home_chunk for home_chunk in group if home_chunk.chunk in existing_chunks] for group in groups]
        return [
            sorted((*group, *self._newer_chunks_by_community.get(community, ())), key=lambda chunk: -chunk.share)
            for community, group in zip(communities, groups, strict=True)
        ]

    def count_documents(self, community: int) -> int:
        """Return the number of documents with an existing chunk in a community or in its descendants."""
        records = (self._state.chunks.find(chunk) for chunk, _ in self.list_chunks(community))
        return len({record.document for record in records if record is not None})

    def get_title(self, community: int) -> str:
        """Return the title of a community: the names of its strongest members that exist; see :meth:`get_titles`."""
        return self.get_titles([community])[0]

    def get_titles(self, communities: Sequence[int]) -> list[str]:
        """Return the title of each community: the names of its strongest members that exist; cached.

        A name that contains another one, or is contained in it, is skipped.
        """
        titles = self._cache.titles
        missing_communities = [community for community in dict.fromkeys(communities) if community not in titles]
        members = self.list_strongest_members(missing_communities, MAX_TITLE_CANDIDATES)
        # The first few names usually suffice, since few names contain each other.
        first_entities = list({entity for entities in members for entity in entities[: MAX_TITLE_NAMES + 1]})
        first_records = self._state.entities.get_many(first_entities)
        names = {entity: record.name for entity, record in zip(first_entities, first_records, strict=True)}
        for community, entities in zip(missing_communities, members, strict=True):
            titles[community] = build_title(
                names[entity] if entity in names else self._state.entities.get(entity).name for entity in entities
            )
        return [titles[community] for community in communities]

    def list_summary_spans(self, community: int) -> list[StoredSpan]:
        """Return the spans of the sentences of a report's summary whose chunks still exist, in text order."""
        return self._filter_existing(self._get_summary_spans(community), lambda span: span.chunk)

    def list_findings(self, community: int) -> list[Finding]:
        """Return the findings (sentences that mention two related members) whose chunks exist, strongest first."""
        return self._filter_existing(self._get_findings(community), lambda finding: finding.span.chunk)

    def list_extracted_spans(self, communities: Sequence[int]) -> list[list[StoredSpan]]:
        """Return, for each community, the spans of the sentences of its extractive report, which no model wrote.

        They are the sentences of its summary and its findings whose chunks still exist, without duplicates.
        """
        self.preload(communities)
        groups = [
            list_report_spans(self._get_summary_spans(community), self._get_findings(community))
            for community in communities
        ]
        if self._is_current:
            return groups
        existing_chunks = self._find_existing_chunks(span.chunk for spans in groups for span in spans)
        return [[span for span in spans if span.chunk in existing_chunks] for spans in groups]

    def get_written_text(self, community: int) -> WrittenText | None:
        """Return the report that a language model wrote on a community; None if there is no valid report.

        A report is valid while every chunk, member and description that it was written from exists unchanged.
        """
        if not self._has_written_texts:
            return None
        text = WrittenTexts(self._state.lmdb).get(self.get(community).content_digest)
        if text is None or not self.has_spans(self.list_sources(community)):
            return None
        listed_members = self._list_stored_members(community)[:MAX_NAMED_MEMBERS]
        if not self._is_current and not all(self._state.entities.has_many(listed_members)):
            return None  # a member that the report lists was deleted
        used_descriptions = set(text.value.get("descriptions", ()))
        # Most reports use none, and listing those that exist is expensive.
        if used_descriptions and used_descriptions - {sentence for _, sentence in self.list_descriptions(community)}:
            return None
        return text

    def read_text(self, span: StoredSpan) -> str:
        """Return the text of a span; its document must still exist."""
        return self._state.documents.read_text_slice(span.document, span.start, span.end)

    def has_spans(self, spans: Sequence[StoredSpan]) -> bool:
        """True if the chunks of all spans still exist."""
        return all(self._state.chunks.has_many(span.chunk for span in spans))

    def list_sources(self, community: int) -> list[StoredSpan]:
        """Return the spans that a report on the community is written from.

        They are the sentences chosen for its children, then the chunks assigned to the community itself, in order of
        document keys and ordinals. For a deleted chunk, there is an empty span of document 0, before the other chunks.
        """
        sources = dict.fromkeys(
            span
            for child in self.get(community).children
            for span in list_report_spans(self._get_summary_spans(child), self._get_findings(child))
        )
        own_spans: list[tuple[str, StoredSpan]] = []
        for chunk, _ in self._list_home_chunks(community)[:MAX_REPORT_CHUNKS]:
            record = self._state.chunks.find(chunk)
            if record is None:  # so that ``has_spans`` is False
                own_spans.append(("", StoredSpan(document=0, chunk=chunk, start=0, end=0)))
            else:
                span = StoredSpan(record.document, chunk, record.start, record.end)
                own_spans.append((self._state.documents.get_key(record.document), span))
        sources.update((span, None) for _, span in sorted(own_spans))
        return list(sources)

    def is_stale(self, community: int) -> bool:
        """True if, since the build, a community gained a chunk, or lost a member, chunk or summary sentence."""
        (home_chunks,) = self._list_stored_chunks([community])
        return (
            community in self._newer_chunks_by_community
            or not all(entity in self._state.entities for entity in self._list_stored_members(community))
            or not all(self._state.chunks.has_many(chunk for chunk, _ in home_chunks))
            or not self.has_spans(self._get_summary_spans(community))
        )

    def is_visible(self, community: int) -> bool:
        """True if a community still has a member and, unless it was built without chunks, a chunk."""
        return len(self.filter_visible(np.array([community], np.int64))) > 0

    def filter_visible(self, communities: IntArray) -> IntArray:
        """Return the communities that still have a member and (unless they were built without chunks) a chunk.

        The result of the test is cached for each community.
        """
        if self._is_current:
            return communities
        flags = self._cache.visibility  # by community: 1 (visible), 0 (not) or _UNKNOWN
        unknown = communities[flags[communities] == _UNKNOWN]
        if len(unknown):
            flags[unknown] = self._mask_with_members(unknown) & self._mask_with_chunks(unknown)
        visible_communities: IntArray = communities[flags[communities] == 1]
        return visible_communities

    def find_by_entity(self, entity: int) -> list[int]:
        """Return the communities of an entity (or of an alias's entity), coarsest first; empty for a newer entity."""
        # A row has the finest community (None: the entity is in none), and the entity's number of chunks.
        row = self._rows.get(ENTITY_COMMUNITIES, records.encode_u32(self._display.resolve_entity(entity)))
        finest, _ = row or (None, 0)
        return [] if finest is None else self._get_root_path(finest)

    def find_finest(self, entities: Sequence[int]) -> list[int | None]:
        """Return the finest community of each entity (or of an alias's entity); None if it is in no community."""
        finest, _ = self._find_finest(list(map(self._display.resolve_entity, entities)))
        return [None if community == NO_COMMUNITY else community for community in finest.tolist()]

    def find_by_chunks(self, chunks: Sequence[int]) -> list[list[int]]:
        """Return, for each chunk, its communities, coarsest first.

        At each level, it is the community in which the names in the chunk have the most weight.
        """
        homes, _ = self._compute_homes(chunks)
        return [self._get_root_path(home) for home in homes.tolist()]

    def list_newer_chunks(self) -> list[int]:
        """Return the chunks added after the build, in order of document keys and ordinals."""
        return sort_chunks(self._state, [chunk for chunk, _ in self._state.chunks.scan(self.chunk_stop)])

    def list_entities(self) -> list[int]:
        """Return the entities that exist and were nodes of the graph, in a community or not, sorted by normal form."""
        nodes = {records.U32.unpack(key)[0] for key, _ in self._rows.scan(ENTITY_COMMUNITIES)}
        return [entity for _, entity in self._state.entities.iter_names() if entity in nodes]

    def iter_faults(self) -> Iterator[str]:
        """Yield an error message for each inconsistency in the stored rows of the communities."""
        # The stored terms of reports quote documents, so they are deleted after any change, and can be missing then.
        return self.iter_row_faults(needs_terms=self._is_current)

    def compute_cosines(self, communities: IntArray, vector: Vector) -> Matrix:
        """Return the cosines of communities with a unit vector.

        The vector of a community is the vector of its report by a model, if there is one, else its centroid.
        """
        scores = super().compute_cosines(communities, vector)
        for index in np.flatnonzero(np.isin(communities, list(self.text_vectors))).tolist():
            scores[index] = self.text_vectors[int(communities[index])] @ vector
        return scores

    @cached_property
    def text_vectors(self) -> Mapping[int, Matrix]:
        """The vectors of the reports that models wrote and that may be shown, by community."""
        if not self._has_written_texts:
            return {}
        cache: dict[bytes, Matrix | None] = self._rows.get_cached("text vectors", lambda _: {})
        vectors = load_text_vectors(self._state.lmdb, cache)
        return {
            community: vectors[digest]
            for community, digest in enumerate(self._content_digests)
            if digest in vectors and (self._is_current or self.get_written_text(community) is not None)
        }

    def find_nearest(self, vector: Vector, count: int, level: int | None = None) -> list[tuple[int, float]]:
        """Return the ``count`` communities nearest to a unit vector that still have members and chunks, with cosines.

        With ``level``, only communities of that level, and of coarser levels without children, are considered (None:
        all).
        """
        scores = self.compute_cosines(np.arange(self._count), vector)
        candidates = None if level is None else set(self.list_level(level))
        nearest_communities: list[tuple[int, float]] = []
        # Usually, the first few communities include enough suitable ones; otherwise, all are sorted.
        for community in iter_largest_indexes(scores, expected_count=4 * count):
            if len(nearest_communities) == count:
                break
            is_candidate = self.is_visible(community) if candidates is None else community in candidates
            if is_candidate:
                nearest_communities.append((community, float(scores[community])))
        return nearest_communities

    # Reading rows -----------------------------------------------------------------------------------------------------

    def _iter_existing_members(self, row: Sequence[int] | None) -> Iterator[CommunityMember]:
        """Yield the members in a stored row (None: no row) that still exist, in order."""
        values = iter(row or ())  # entity, weight, entity, weight, and so on
        for entity, weight in zip(values, values, strict=True):
            if self._is_current or entity in self._state.entities:
                yield CommunityMember(entity, weight / _WEIGHT_SCALE)

    @cached_property
    def _is_current(self) -> bool:
        """True if nothing changed since the build, so that all stored members and chunks exist, and no others.

        False in a write transaction, whose changes are counted only at commit, and for a condition on documents.
        """
        is_unchanged = self._state.counters.change == self.change and not self._state.lmdb.writable
        return is_unchanged and self._state.allowed is None

    @cached_property
    def _has_written_texts(self) -> bool:
        """True if the store has any text written by a model."""
        return self._state.lmdb.count(tables.WRITTEN) > 0

    @property
    def is_unchanged(self) -> bool:
        """True if nothing changed since the build and no model has written a report.

        Everything that the communities return then depends only on the build.
        """
        return self._is_current and not self._has_written_texts

    @cached_property
    def _cache(self) -> _StateCache:
        """The cached titles and visibility flags, which all readers of the same commit share.

        A write transaction, and a query limited to some documents, have a cache of their own, since they may see other
        communities.
        """
        if self._state.lmdb.writable or self._state.allowed is not None:
            return _StateCache(self._count)
        caches: dict[int, _StateCache] = self._rows.get_cached("state caches", lambda _: {})
        change = self._state.counters.change
        cache = caches.get(change)
        if cache is None:
            caches.clear()
            cache = caches[change] = _StateCache(self._count)
        return cache

    def _filter_existing(self, items: list[Value], get_chunk: Callable[[Value], int]) -> list[Value]:
        """Return the ``items`` whose chunks still exist; ``get_chunk`` returns the chunk of an item."""
        if self._is_current:
            return items
        return list(compress(items, self._state.chunks.has_many(map(get_chunk, items))))

    def _find_existing_chunks(self, chunks: Iterable[int]) -> set[int]:
        """Return the chunks that still exist, without duplicates."""
        distinct_chunks = list(dict.fromkeys(chunks))
        return set(compress(distinct_chunks, self._state.chunks.has_many(distinct_chunks)))

    def _mask_with_members(self, communities: IntArray) -> npt.NDArray[np.bool_]:
        """Return a mask of the communities that still have a member."""
        # Usually, the first member exists, and the others need not be looked up.
        mask = np.array(self._state.entities.has_many(self.tree.first_members[communities].tolist()), np.bool_)
        for index in np.flatnonzero(~mask).tolist():
            mask[index] = next(self.iter_members(int(communities[index])), None) is not None
        return mask

    def _mask_with_chunks(self, communities: IntArray) -> npt.NDArray[np.bool_]:
        """Return a mask of the communities that still have a chunk, old or new, or that were built without any."""
        first_chunks = self._first_chunks[communities]
        mask: npt.NDArray[np.bool_] = first_chunks == NO_COMMUNITY  # built without chunks
        mask[~mask] = self._state.chunks.has_many(first_chunks[~mask].tolist())
        for index in np.flatnonzero(~mask).tolist():
            community = int(communities[index])
            chunks = [chunk for chunk, _ in self._list_stored_chunks([community])[0]]
            mask[index] = any(self._state.chunks.has_many(chunks)) or community in self._newer_chunks_by_community
        return mask

    @cached_property
    def _display(self) -> DisplayEntities:
        """The mapping of each entity to the entity that it is displayed as; the two differ for an alias."""
        return load_display_entities(self._state)

    # Chunks newer than the generation ---------------------------------------------------------------------------------

    def _compute_homes(self, chunks: Sequence[int]) -> tuple[IntArray, npt.NDArray[np.float64]]:
        """Return two arrays: the home community of each chunk, and the fraction of its names' weight that is in it.

        The home is found level by level, from the coarsest: the community inside the previous one in which the chunk's
        names have the most weight. It is NO_COMMUNITY if no name is in a community. Only names that were in the entity
        graph at build time count, without names that the chunk mentions only in lower case.
        """
        ids = np.array(chunks, np.uint64)
        order = np.argsort(ids)  # rows are read in order of ids
        # Chunk i has the mentions ``bounds[i]`` to before ``bounds[i + 1]``. Mention bits say how it mentions them.
        bounds, entities, mention_bits = self._state.get_part(GRAPH).read_chunk_rows(ids[order])
        mention_chunks = np.repeat(order, np.diff(bounds))
        distinct_entities, entity_indexes = np.unique(self._display.resolve(entities), return_inverse=True)
        finest, degrees = self._find_finest(distinct_entities.tolist())
        # Mentions in lower case only do not count, as in the graph. An entity that is not in the graph has degree 0.
        is_counted = mask_informative(mention_bits) & (degrees[entity_indexes] > 0)
        entity_indexes, mention_chunks = entity_indexes[is_counted], mention_chunks[is_counted]
        weights = compute_home_weights(compute_strengths(mention_bits[is_counted]), degrees[entity_indexes])
        # The communities of the entity of each mention, by level.
        partitions = self.tree.map_to_levels(finest, self.levels)[:, entity_indexes]
        return assign_homes(len(chunks), mention_chunks, partitions, weights)

    @cached_property
    def _newer_chunks_by_community(self) -> Mapping[int, list[HomeChunk]]:
        """The chunks added after the build, by community: those whose home is the community or a descendant of it.

        The home is the community of most of the names in a chunk; each chunk is returned with the share of its names
        that are in its home. Only the first ``_MAX_ASSIGNED_CHUNKS`` new chunks get a home.
        """
        chunks = self.list_newer_chunks()[:_MAX_ASSIGNED_CHUNKS]
        chunks_by_community: dict[int, list[HomeChunk]] = {}
        if chunks:
            homes, shares = self._compute_homes(chunks)  # the community of each chunk, and the share of names in it
            for chunk, home, share in zip(chunks, homes.tolist(), shares.tolist(), strict=True):
                for community in self._get_root_path(home):
                    chunks_by_community.setdefault(community, []).append(HomeChunk(chunk, share))
        return chunks_by_community
