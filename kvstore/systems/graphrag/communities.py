"""Communities as one state may use them: nothing is named that the state does not have.

In: the rows of one generation of the index ``communities``, and a state. Out: members, passages, sentences, texts and
vectors. Documents and chunks are never numbered twice, so what is gone is told by its number, and a chunk that came
after the generation by being numbered behind it: such a one is placed on the spot, by the names in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...errors import CorruptionError
from ...storage import records
from ...structures.clustering.affinity import Partition
from ...structures.indexes.generations import GenerationRows
from ...structures.indexes.written_texts import WrittenText, written_text
from ...structures.shown_entities import shown_entities
from ...structures.state import State
from ...structures.vectors.vectors import Matrix, cosines
from ...text.normalize import entity_key
from ..passage_graph.edges import LOWER
from ..passage_graph.structure import GRAPH
from .community_building import NOWHERE, home_weights, homes_of
from .community_reports import NAMED, PASSAGES, Finding, SentencePlace
from .community_rows import COMMUNITIES, ENTITY_COMMUNITIES, MEMBERS, PASSAGE_HOMES, VECTORS
from .entity_graph import strengths

Made = TypeVar("Made")

#: Names of members that make a title.
_TITLE = 3
#: Newer chunks that are placed, the first of them; strategies look at newer chunks themselves.
_PLACED = 20_000


class Community(NamedTuple):
    """A community as it was built: ``level`` 0 is the coarsest; how many entities, passages and documents there are.

    ``rating`` is 10 times its share of the passages of the largest of its level. ``content`` is the digest of what a
    text on it is written from.
    """

    id: int
    level: int
    parent: int | None
    children: tuple[int, ...]
    entities: int
    passages: int
    documents: int
    rating: float
    content: bytes


class _Placement(NamedTuple):
    """Where names belong: the entities that are nodes, ascending; how many passages each had, and its community at
    every level (coarsest first)."""

    entities: Partition
    degrees: Partition
    levels: Partition


class Communities:
    """The communities of one generation in one state."""

    def __init__(self, rows: GenerationRows, state: State) -> None:
        self._rows = rows
        self._state = state
        self.change = rows.change
        self.chunk_stop = rows.chunk_stop
        #: How many levels there are.
        self.levels: int = rows.head["levels"]
        self._count: int = rows.head["communities"]
        self._records: dict[int, list[Any]] = {}
        self._living: dict[int, bool] = {}

    def __len__(self) -> int:
        return self._count

    def memory(self, name: str, make: Callable[[], Made]) -> Made:
        """What ``make`` makes, kept for all states that read this generation: it must be the same for all."""
        return self._rows.memory(name, lambda _: make())

    def get(self, community: int) -> Community:
        """A community by its number, which must be one; raises CorruptionError where it is not stored."""
        row = self._record(community)
        level, parent, children, entities, passages, documents, rating, content = row[:8]
        return Community(community, level, parent, tuple(children), entities, passages, documents, rating / 10, content)

    def at_level(self, level: int) -> list[int]:
        """The living communities of a level, and those above that are not parted further: a partition."""
        levels = self._all_levels
        parents = self._with_children
        return [
            number
            for number, at in enumerate(levels)
            if (at == level or (at < level and number not in parents)) and self.alive(number)
        ]

    def roots(self) -> list[int]:
        """The living communities of the coarsest level."""
        return self.at_level(0)

    def key(self, community: int) -> str:
        """What a community is called in statements: its level and its first living member, as in ``1/vienna``."""
        least = self._record(community)[8]
        living = [least] if self._has_entity(least) else (entity for entity, _ in self.members(community))
        keys = (self._state.entities.get(entity).key for entity in living)
        return f"{self.get(community).level}/{min(keys, default='')}"

    def find(self, key: str) -> int | None:
        """The community that is called so, or None."""
        level, _, name = key.partition("/")
        identity = self._state.resolve(entity_key(name)) if level.isdecimal() and name else None
        found = [] if identity is None else self.of_entity(identity.entry.entity)
        called = f"{level}/{entity_key(name)}"
        return next((one for one in found if self.key(one) == called), None)

    def members(self, community: int) -> list[tuple[int, float]]:
        """The entities in it that the state has, with the weight of what joins each to the others, strongest first."""
        row = iter(self._rows.get(MEMBERS, records.u32(community)) or ())
        return [
            (entity, weight / (1 << 16)) for entity, weight in zip(row, row, strict=True) if self._has_entity(entity)
        ]

    def named_members(self, community: int) -> list[str]:
        """The names of the living members that a text on it is written from, the strongest, in order of names."""
        strongest = [entity for entity, _ in self.members(community)[:NAMED]]
        return [record.name for record in sorted(self._state.entities.get_many(strongest), key=lambda one: one.key)]

    def passages(self, community: int) -> list[tuple[int, float]]:
        """The chunks at home in it that the state has, newer ones among them, each with the share of its names that
        belong there, the largest share first."""
        found = [(chunk, share) for chunk, share in self._stored_passages(community) if self._has_chunk(chunk)]
        found += self._newer_by_community.get(community, ())
        return sorted(found, key=lambda one: -one[1])

    def documents(self, community: int) -> int:
        """The documents of its passages that the state has."""
        records = (self._state.chunks.find(chunk) for chunk, _ in self.passages(community))
        return len({record.document for record in records if record is not None})

    def title(self, community: int) -> str:
        """The names of its strongest living members, which are no parts of each other."""
        names: list[str] = []
        for entity, _ in self.members(community)[: 4 * _TITLE]:
            name = self._state.entities.get(entity).name
            if not any(name in other or other in name for other in names):
                names.append(name)
            if len(names) == _TITLE:
                break
        return ", ".join(names)

    def summary(self, community: int) -> list[SentencePlace]:
        """The sentences that sum it up, of documents that the state has, in order of documents and places."""
        return [span for span in self._spans(community) if self._has_chunk(span.chunk)]

    def findings(self, community: int) -> list[Finding]:
        """Sentences that say how members belong together, of documents that the state has, the strongest first."""
        row = self._record(community)[10]
        found = (Finding((one, other), weight, SentencePlace(*place)) for one, other, weight, *place in row)
        return [finding for finding in found if self._has_chunk(finding.span.chunk)]

    def written(self, community: int) -> WrittenText | None:
        """What a language model wrote of it; None where nothing did, or a document that it was written from is gone
        or has changed."""
        found = written_text(self._state.lmdb, self.get(community).content)
        return found if found is not None and self.has_all(self.sources(community)) else None

    def text_at(self, place: SentencePlace) -> str:
        """The text at a place of a document that the state has."""
        return self._state.documents.text_slice(place.document, place.start, place.end)

    def has_all(self, places: Sequence[SentencePlace]) -> bool:
        """Whether the state has all of some places."""
        return all(self._has_chunk(place.chunk) for place in places)

    def sources(self, community: int) -> list[SentencePlace]:
        """The places that a text on it is written from: the sentences chosen below it, then its own passages, whole, in
        order of document keys and ordinals (those that are gone first)."""
        below = [self._record(child) for child in self.get(community).children]
        sentences = (place for row in below for place in (*row[9], *(finding[3:] for finding in row[10])))
        found = dict.fromkeys(SentencePlace(*place) for place in sentences)
        own: list[tuple[str, SentencePlace]] = []
        for chunk, _ in self._homes(community)[:PASSAGES]:
            record = self._state.chunks.find(chunk)
            if record is None:
                own.append(("", SentencePlace(0, chunk, 0, 0)))
            else:
                place = SentencePlace(record.document, chunk, record.start, record.end)
                own.append((self._state.documents.key_of(record.document), place))
        found.update((place, None) for _, place in sorted(own))
        return list(found)

    def stale(self, community: int) -> bool:
        """Whether a member, a passage or a sentence of it is gone, or a newer chunk is at home in it."""
        row = iter(self._rows.get(MEMBERS, records.u32(community)) or ())
        members = zip(row, row, strict=True)
        return (
            community in self._newer_by_community
            or not all(self._has_entity(entity) for entity, _ in members)
            or not all(self._has_chunk(chunk) for chunk, _ in self._stored_passages(community))
            or not all(self._has_chunk(span.chunk) for span in self._spans(community))
        )

    def alive(self, community: int) -> bool:
        """Whether it has a living member, and a living passage unless it was built without any."""
        # A write transaction numbers its change when it commits.
        if self._state.counters.change == self.change and not self._state.lmdb.writable:
            return True
        found = self._living.get(community)
        if found is None:
            found = self._living[community] = self._has_member(community) and self._has_passage(community)
        return found

    def of_entity(self, entity: int) -> list[int]:
        """The communities of an entity, the coarsest first; none where it has none, or is newer."""
        row = self._rows.get(ENTITY_COMMUNITIES, records.u32(self._shown.one(entity)))
        return [] if row is None or row[0] is None else self._down_to(row[0])

    def of_chunk(self, chunk: int) -> list[int]:
        """The communities that a chunk is at home in, the coarsest first; from the names in it."""
        home, _ = self._placed([chunk])
        return [] if home[0] == NOWHERE else self._down_to(int(home[0]))

    def newer(self) -> list[int]:
        """The chunks that came after this was built, in order of document keys and ordinals."""
        found = list(self._state.chunks.scan(self.chunk_stop))
        key_of = self._state.documents.key_of
        found.sort(key=lambda one: (key_of(one[1].document), one[1].ordinal))
        return [chunk for chunk, _ in found]

    def entities(self) -> list[int]:
        """The living entities that were looked at, in order of normal forms; not all belong to a community."""
        nodes = set(self._placement.entities.tolist())
        return [entity for _, entity in self._state.entities.names() if entity in nodes]

    @property
    def nodes(self) -> int:
        """How many entities were looked at."""
        return len(self._placement.entities)

    def faults(self) -> Iterator[str]:
        """What does not fit together, as sentences."""
        if len(self._all_levels) != self._count:
            yield f"index communities: {len(self._all_levels)} communities are stored, not {self._count}"
            return
        for number in range(self._count):
            community = self.get(number)
            parent = self._stored(community.parent)
            if parent is None and (community.parent is not None or community.level >= self.levels):
                yield f"index communities: community {number} is below {community.parent}, which is not stored"
            elif parent is not None and (number not in parent.children or parent.level >= community.level):
                yield f"index communities: community {number} is not one of those below its parent {parent.id}"
            if self._rows.get(MEMBERS, records.u32(number)) is None:
                yield f"index communities: the members of community {number} are not stored"

    def vectors(self, communities: Sequence[int]) -> Matrix:
        """Unit vectors of communities, the centroids of their members', shape (n, dimension)."""
        return self._vectors[np.asarray(communities, np.int64)]

    def nearest(self, vector: Matrix, count: int, level: int | None = None) -> list[tuple[int, float]]:
        """The ``count`` living communities (of a partition, see :meth:`at_level`) nearest to a unit vector, with their
        cosines, best first."""
        near = cosines(self._vectors, vector)
        among = None if level is None else set(self.at_level(level))
        found: list[tuple[int, float]] = []
        for number in np.argsort(-near, kind="stable").tolist():
            if len(found) == count:
                break
            if self.alive(number) if among is None else number in among:
                found.append((number, float(near[number])))
        return found

    # What is read -----------------------------------------------------------------------------------------------------

    def _has_member(self, community: int) -> bool:
        first = self._record(community)[8]
        return self._has_entity(first) or any(
            self._has_entity(entity) for entity in (self._rows.get(MEMBERS, records.u32(community)) or ())[::2]
        )

    def _has_passage(self, community: int) -> bool:
        first = self._first_passages.get(community)
        if first is None or self._has_chunk(first):
            return True
        passages = (chunk for chunk, _ in self._stored_passages(community))
        return any(map(self._has_chunk, passages)) or community in self._newer_by_community

    @property
    def _first_passages(self) -> Mapping[int, int]:
        return self._rows.memory("first passages", _read_first_passages)

    def _record(self, community: int) -> list[Any]:
        row = self._records.get(community)
        if row is None:
            row = self._rows.get(COMMUNITIES, records.u32(community))
            if row is None:
                raise _lacking(community)
            self._records[community] = row
        return row

    def _stored(self, community: int | None) -> Community | None:
        return self.get(community) if community is not None and 0 <= community < self._count else None

    def _spans(self, community: int) -> list[SentencePlace]:
        return [SentencePlace(*place) for place in self._record(community)[9]]

    def _homes(self, community: int) -> list[tuple[int, float]]:
        """The chunks whose finest community it was."""
        row = iter(self._rows.get(PASSAGE_HOMES, records.u32(community)) or ())
        return [(chunk, share / 10_000) for chunk, share in zip(row, row, strict=True)]

    def _stored_passages(self, community: int) -> Iterator[tuple[int, float]]:
        yield from self._homes(community)
        for child in self.get(community).children:
            yield from self._stored_passages(child)

    def _down_to(self, community: int) -> list[int]:
        """A community with those above it, the coarsest first."""
        found = [community]
        while (parent := self.get(found[-1]).parent) is not None:
            found.append(parent)
        return found[::-1]

    def _has_chunk(self, chunk: int) -> bool:
        return self._state.chunks.find(chunk) is not None

    def _has_entity(self, entity: int) -> bool:
        return entity in self._state.entities

    @cached_property
    def _shown(self) -> Any:
        return shown_entities(self._state)

    @property
    def _all_levels(self) -> list[int]:
        return self._rows.memory("levels", lambda rows: [row[0] for _, row in rows.scan(COMMUNITIES)])

    @property
    def _with_children(self) -> set[int]:
        def parents(rows: GenerationRows) -> set[int]:
            return {row[1] for _, row in rows.scan(COMMUNITIES) if row[1] is not None}

        return self._rows.memory("parents", parents)

    @property
    def _vectors(self) -> Matrix:
        return self._rows.memory("vectors", self._read_vectors)

    def _read_vectors(self, rows: GenerationRows) -> Matrix:
        blocks = [np.frombuffer(block, "<f4") for _, block in rows.scan(VECTORS)]
        return np.concatenate([np.empty(0, np.float32), *blocks]).reshape(self._count, self._state.settings.dimension)

    # Chunks that came later -------------------------------------------------------------------------------------------

    @property
    def _placement(self) -> _Placement:
        return self._rows.memory("placement", self._read_placement)

    def _read_placement(self, rows: GenerationRows) -> _Placement:
        found = [(records.U32.unpack(key)[0], *row) for key, row in rows.scan(ENTITY_COMMUNITIES)]
        above = {records.U32.unpack(key)[0]: (row[0], row[1]) for key, row in rows.scan(COMMUNITIES)}
        levels = np.full((self.levels, len(found)), NOWHERE, np.int64)
        for place, (_, community, _) in enumerate(found):
            stop = self.levels
            while community is not None:
                if community not in above:
                    raise _lacking(community)
                level, parent = above[community]
                levels[level:stop, place] = community
                community, stop = parent, level
        entities, degrees = (
            np.array(column, np.int64) for column in ([e for e, _, _ in found], [d for *_, d in found])
        )
        return _Placement(entities, degrees, levels)

    def _placed(self, chunks: Sequence[int]) -> tuple[Partition, Any]:
        """The finest community that each chunk is at home in, and the share."""
        placement = self._placement
        ids = np.array(chunks, np.uint64)
        order = np.argsort(ids)  # rows are read in order of ids
        bounds, entities, features = self._state.part(GRAPH).chunk_rows(ids[order])
        naming = np.repeat(order, np.diff(bounds))
        nodes = self._shown.of(entities).astype(np.int64)
        places = np.minimum(np.searchsorted(placement.entities, nodes), max(len(placement.entities) - 1, 0))
        known = (features & ~np.uint16(LOWER)) != 0
        if len(placement.entities):
            known &= placement.entities[places] == nodes
        else:
            known &= False
        places, naming = places[known], naming[known]
        weights = home_weights(strengths(features[known]), placement.degrees[places])
        return homes_of(len(chunks), naming, placement.levels[:, places], weights)

    @cached_property
    def _newer_by_community(self) -> Mapping[int, list[tuple[int, float]]]:
        """The newer chunks at home in each community, in those above it too."""
        chunks = self.newer()[:_PLACED]
        found: dict[int, list[tuple[int, float]]] = {}
        if chunks:
            homes, shares = self._placed(chunks)
            for chunk, home, share in zip(chunks, homes.tolist(), shares.tolist(), strict=True):
                for community in [] if home == NOWHERE else self._down_to(home):
                    found.setdefault(community, []).append((chunk, share))
        return found


def _read_first_passages(rows: GenerationRows) -> dict[int, int]:
    """Of each community that had passages one of them."""
    parents = {records.U32.unpack(key)[0]: row[1] for key, row in rows.scan(COMMUNITIES)}
    found: dict[int, int] = {}
    for key, row in rows.scan(PASSAGE_HOMES):
        community: int | None = records.U32.unpack(key)[0]
        while community is not None and community not in found:
            found[community] = row[0]
            community = parents.get(community)
    return found


def _lacking(community: int) -> CorruptionError:
    return CorruptionError(
        f"index communities: community {community} is referred to but not stored; DROP INDEX communities, and make it "
        "anew"
    )
