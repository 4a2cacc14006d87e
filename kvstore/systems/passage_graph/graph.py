"""The graph of passages and entities: which chunks name an entity and how, and which entities belong together.

In: for a chunk the entities it names, each with a *strength* (what :mod:`.rows` counts in it); links between
entities. On disk: ``passage_entities`` (chunk → entities), its reverse ``entity_passages`` (entity → chunks, in blocks
as :mod:`.block_lists` lays them out), ``entity_heads`` (by entity: its only passage, or how many it has, and whether it
has links) and ``entity_links`` (entity, other entity, kind → count, both ways). Out: rows as packed arrays, many at a
time. Counts are stored and weights are made when a question is asked, since rarity changes with every document. Damage
is a CorruptionError.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore_cext.compact import pack_numbers, unpack_numbers

from ...errors import CorruptionError
from ...storage import records
from ...storage.view import View, WriteView
from ...structures.filter.block_lists import BlockLists

PASSAGE_ENTITIES = "passage_entities"
ENTITY_PASSAGES = "entity_passages"
ENTITY_HEADS = "entity_heads"
ENTITY_LINKS = "entity_links"

#: The entities that a passage names, with their strengths.
Row = Mapping[int, int]
Numbers = npt.NDArray[np.uint64]

# A strength: mentions with a capital or a digit (or in a script without capitals), such mentions inside a longer one,
# other mentions; then what stands above the passage, or was imported for it.
CAPITALISED = 0x000F
INSIDE_SHIFT, INSIDE = 4, 0x0030
LOWER_SHIFT, LOWER = 6, 0x00C0
TITLE_WHOLE = 0x0100  # the document's title, or its title without the bracket at its end
TITLE_PART = 0x0200
HEADING_WHOLE = 0x0400
HEADING_PART = 0x0800
TRIPLE = 0x1000  # a triple that was imported for the document names it
_ROW_BITS = 13
#: Above every strength.
STRENGTHS = 1 << _ROW_BITS

#: The kind of link between a title and the same without the bracket at its end, beside those of a
#: :class:`~kvstore.systems.contract.Delta`.
TITLE_LINK = 1

_HEAD_ENCODING = b"KVG1"
_HEAD_HEADER = struct.Struct("<4sI")
#: Entities to a page of heads.
HEADS = (records.page_value_size(1) - _HEAD_HEADER.size) // 8
# A head: 0; or the entity's only passage; or MANY, the number of passages and the number of telling ones. LINKED where
# there are links.
_MANY = 1 << 63
_LINKED = 1 << 62
_PASSAGE = _LINKED - 1
_DEGREE = (1 << 31) - 1
_TELLING_SHIFT = 31
_STRENGTH_BITS = 16
_STRENGTH = (1 << _STRENGTH_BITS) - 1

_LINK_KEY = struct.Struct(">IIB")
_COUNT = struct.Struct("<I")


class PassageRows(NamedTuple):
    """Entities of some passages: those of passage *i* are from ``bounds[i]`` to ``bounds[i + 1]``."""

    bounds: npt.NDArray[np.int64]
    entities: npt.NDArray[np.uint32]
    strengths: npt.NDArray[np.uint16]


class EntityRows(NamedTuple):
    """Passages of some entities: those of entity *i* are from ``bounds[i]`` to ``bounds[i + 1]``."""

    bounds: npt.NDArray[np.int64]
    passages: Numbers
    strengths: npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Heads:
    """What is known of some entities without their rows; ``values`` are as stored."""

    values: Numbers

    @cached_property
    def degrees(self) -> npt.NDArray[np.int64]:
        """The number of passages of each."""
        return np.where(self._many, self._passage & _DEGREE, self._passage > 0)

    @cached_property
    def telling(self) -> npt.NDArray[np.int64]:
        """The number of those passages that do not only mention it in lower case."""
        return np.where(self._many, self._passage >> _TELLING_SHIFT, _is_telling(self._passage & _STRENGTH))

    @property
    def only(self) -> npt.NDArray[np.int64]:
        """The passage of each that has no other, with its strength, as :class:`PassageGraph` keeps them; else 0."""
        return np.where(self._many, 0, self._passage)

    @cached_property
    def _many(self) -> npt.NDArray[np.bool_]:
        many: npt.NDArray[np.bool_] = (self.values & np.uint64(_MANY)) != 0
        return many

    @cached_property
    def _passage(self) -> npt.NDArray[np.int64]:
        return (self.values & np.uint64(_PASSAGE)).astype(np.int64)

    @property
    def linked(self) -> npt.NDArray[np.bool_]:
        """Which have links."""
        linked: npt.NDArray[np.bool_] = (self.values & np.uint64(_LINKED)) != 0
        return linked


class Link(NamedTuple):
    """An entity that belongs to another: by what kind of link, and how often that is said."""

    other: int
    kind: int
    times: int


class PassageGraph:
    """The graph of one view."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._lists = BlockLists(view, ENTITY_PASSAGES)
        # Pages of heads that were read, one below the other, and where each is.
        self._pages = np.zeros((16, HEADS), np.uint64)
        self._page_places: dict[int, int] = {}

    def passages(self, chunks: Numbers) -> PassageRows:
        """The entities of passages, each once; a passage without any, or that is not stored, has an empty row."""
        found = self._view.get_below(PASSAGE_ENTITIES, list(map(records.u64, chunks.tolist())))
        stored = np.frombuffer(b"".join(key for key, _ in found), ">u8").astype(np.uint64)
        rows = [_unpacked(key, value) for key, value in found]
        lengths = np.zeros(len(chunks), np.int64)
        lengths[np.isin(chunks, stored)] = [len(row) // 8 for row in rows]
        numbers = np.frombuffer(b"".join(rows), np.uint64)
        return PassageRows(
            _bounds(lengths),
            (numbers >> np.uint64(_ROW_BITS)).astype(np.uint32),
            (numbers & np.uint64(STRENGTHS - 1)).astype(np.uint16),
        )

    def heads(self, entities: npt.NDArray[np.uint32]) -> Heads:
        """How many passages each of some entities has, and whether it has links; their rows are not read."""
        blocks = (entities // np.uint32(HEADS)).tolist()
        self._read_pages(set(blocks))
        places = [self._page_places[block] for block in blocks]
        return Heads(self._pages[places, entities % np.uint32(HEADS)])

    def entities(self, entities: npt.NDArray[np.uint32], heads: Heads, most: int) -> EntityRows:
        """The passages of entities, ascending; ``heads`` are theirs. One with more than ``most`` has an empty row."""
        degrees = heads.degrees
        several = (degrees > 1) & (degrees <= most)
        blocks = self._lists.read_many(entities[several].tolist())
        numbers = np.array([entity for entity, _ in blocks], np.uint32)
        sizes = np.array([len(block) for _, block in blocks], np.int64)
        single = degrees == 1
        owners = np.concatenate((entities[single], np.repeat(numbers, sizes)))
        entries = np.concatenate((heads.values[single] & np.uint64(_PASSAGE), *(block for _, block in blocks)))
        rows = np.argsort(entities)[np.searchsorted(np.sort(entities), owners)]
        order = np.argsort(rows, kind="stable")
        entries = entries[order]
        bounds = np.searchsorted(rows[order], np.arange(len(entities) + 1))
        return EntityRows(bounds, entries >> np.uint64(_STRENGTH_BITS), entries.astype(np.uint16))

    def links(self, entity: int) -> Iterator[Link]:
        """The links of an entity, in order of the others and kinds."""
        for key, value in self._view.scan(ENTITY_LINKS, records.u32(entity), records.u32(entity + 1)):
            _, other, kind = _LINK_KEY.unpack(key)
            yield Link(other, kind, _link_count(key, value))

    def counts(self) -> dict[str, int]:
        """How many passages name an entity, and how many links there are, from either side."""
        return {"passages": self._view.count(PASSAGE_ENTITIES), "links": self._view.count(ENTITY_LINKS)}

    def joining(self, entity: int) -> list[int]:
        """The passages of which somebody has stated that they join an entity to another."""
        number = np.array([entity], np.uint32)
        _, passages, strengths = self.entities(number, self.heads(number), most=1 << 62)
        found: list[int] = passages[(strengths & TRIPLE) != 0].tolist()
        return found

    def all_passages(self) -> Iterator[tuple[int, Row]]:
        """Every passage that names an entity, with its row."""
        for key, value in self._view.scan(PASSAGE_ENTITIES):
            yield records.U64.unpack(key)[0], dict(_pairs(_unpacked(key, value)))

    def all_entities(self) -> Iterator[tuple[int, int, int, bool, int, int]]:
        """Every entity that has passages or links: its number, how many passages and telling ones, whether it has
        links; and where it has one passage alone that passage with the strength there (else 0, 0)."""
        for key, _ in self._view.scan(ENTITY_HEADS):
            first = records.U32.unpack(key)[0] * HEADS
            numbers = np.arange(first, first + HEADS, dtype=np.uint32)
            heads = self.heads(numbers)
            columns = (numbers, heads.degrees, heads.telling, heads.linked, heads.only)
            for number, degree, telling, linked, only in zip(*(column.tolist() for column in columns), strict=True):
                if degree or linked:
                    yield number, degree, telling, linked, only >> _STRENGTH_BITS, only & _STRENGTH

    def all_links(self) -> Iterator[tuple[int, Link]]:
        """Every link, with the entity it belongs to."""
        for key, value in self._view.scan(ENTITY_LINKS):
            entity, other, kind = _LINK_KEY.unpack(key)
            yield entity, Link(other, kind, _link_count(key, value))

    def all_listed(self) -> Iterator[tuple[int, int, int]]:
        """Every entity with a passage that its blocks in ``entity_passages`` hold, and the strength there."""
        for entity, _, block in self._lists.scan():
            for entry in block.tolist():
                yield entity, entry >> _STRENGTH_BITS, entry & _STRENGTH

    def _read_pages(self, blocks: Set[int]) -> None:
        """Have the pages of heads of some blocks of entities in memory."""
        missing = sorted(blocks - self._page_places.keys())
        if not missing:
            return
        first, needed = len(self._page_places), len(self._page_places) + len(missing)
        if needed > len(self._pages):
            more = np.zeros((max(needed, 2 * len(self._pages)) - len(self._pages), HEADS), np.uint64)
            self._pages = np.concatenate((self._pages, more))
        keys = list(map(records.u32, missing))
        for place, (key, value) in enumerate(zip(keys, self._view.get_many(ENTITY_HEADS, keys), strict=True), first):
            if value is not None:
                self._pages[place] = _decoded(key, value)
        self._page_places.update(zip(missing, range(first, needed), strict=True))


class GraphWriter(PassageGraph):
    """The graph of one write transaction; what entities are told of changed passages and links is gathered and written
    by :meth:`flush`."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view
        self._added: dict[int, list[int]] = {}
        self._removed: dict[int, list[int]] = {}
        self._link_changes: dict[tuple[int, int, int], int] = {}

    def put_passage(self, chunk: int, row: Row) -> None:
        """Store what a passage names in place of what it named; an empty row forgets it."""
        key = records.u64(chunk)
        value = self._view.get(PASSAGE_ENTITIES, key)
        before = set(_pairs(b"" if value is None else _unpacked(key, value)))
        after = set(row.items())
        if before == after:
            return
        for changes, entries in ((self._removed, before - after), (self._added, after - before)):
            for entity, strength in entries:
                changes.setdefault(entity, []).append(chunk << _STRENGTH_BITS | strength)
        if after:
            packed = pack_numbers(sorted(entity << _ROW_BITS | strength for entity, strength in after))
            self._write.put(PASSAGE_ENTITIES, key, records.seal(packed))
        else:
            self._write.delete(PASSAGE_ENTITIES, key)

    def change_link(self, entity: int, other: int, kind: int, by: int) -> None:
        """Say that two entities belong together so many times more (or less) often."""
        for pair in ((entity, other), (other, entity)):
            self._link_changes[*pair, kind] = self._link_changes.get((*pair, kind), 0) + by

    def flush(self) -> None:
        """Carry the gathered changes to the entities' side."""
        linked = {entity: self._flush_links(entity, changes) for entity, changes in self._links_by_entity().items()}
        entities = sorted(self._added.keys() | self._removed.keys() | linked.keys())
        before = dict(zip(entities, self.heads(np.array(entities, np.uint32)).values.tolist(), strict=True))
        heads = self._flush_passages(before)
        written: dict[bytes, bytes | None] = {}
        for block, here in groupby(entities, lambda entity: entity // HEADS):
            page = self._pages[self._page_places[block]]
            kept = False
            for entity in here:
                head = heads[entity] | (_LINKED if linked.get(entity, before[entity] & _LINKED) else 0)
                page[entity % HEADS] = head
                kept |= head > 0
            written[records.u32(block)] = _encoded(page) if kept or page.any() else None
        self._write.change_many(ENTITY_HEADS, written)
        self._added.clear()
        self._removed.clear()
        self._link_changes.clear()

    def _flush_passages(self, before: Mapping[int, int]) -> dict[int, int]:
        """Write the changed passages of entities, whose heads are given; returns their heads, links left out."""
        heads: dict[int, int] = {}
        lists: dict[int, tuple[list[int], list[int]]] = {}
        for entity, head in before.items():
            removed, added = sorted(self._removed.get(entity, ())), sorted(self._added.get(entity, ()))
            if head & _MANY:
                lists[entity] = removed, added
                continue
            single = {head & _PASSAGE} if head & _PASSAGE else set[int]()
            left = sorted(single.difference(removed).union(added))
            if not single.issuperset(removed):
                raise _unknown_passage(entity)
            if len(left) > 1:
                lists[entity] = [], left
            heads[entity] = _head(len(left), _telling(left)) if len(left) > 1 else left[0] if left else 0
        for entity, changed in self._lists.change_many(lists).items():
            if entity in heads:
                continue
            removed, added = lists[entity]
            if changed.removed != len(removed):
                raise _unknown_passage(entity)
            degree = (before[entity] & _DEGREE) + changed.new - changed.removed
            telling = (before[entity] & _PASSAGE) >> _TELLING_SHIFT
            heads[entity] = _head(degree, telling + _telling(added) - _telling(removed))
            if degree < 2:
                heads[entity] = int.from_bytes(self._lists.take(entity), "little")
        return heads

    def _links_by_entity(self) -> dict[int, dict[tuple[int, int], int]]:
        found: dict[int, dict[tuple[int, int], int]] = {}
        for (entity, other, kind), by in self._link_changes.items():
            if by:
                found.setdefault(entity, {})[other, kind] = by
        return found

    def _flush_links(self, entity: int, changes: dict[tuple[int, int], int]) -> bool:
        """Write the changed links of an entity; says whether it has any then."""
        for (other, kind), by in sorted(changes.items()):
            key = _LINK_KEY.pack(entity, other, kind)
            value = self._view.get(ENTITY_LINKS, key)
            count = by if value is None else _link_count(key, value) + by
            if count:
                self._write.put(ENTITY_LINKS, key, records.seal(_COUNT.pack(count)))
            else:
                self._write.delete(ENTITY_LINKS, key)
        return next(self.links(entity), None) is not None


def _is_telling(strengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    telling: npt.NDArray[np.bool_] = (strengths & ~LOWER) != 0
    return telling


def _telling(entries: list[int]) -> int:
    return sum(entry & _STRENGTH & ~LOWER != 0 for entry in entries)


def _unknown_passage(entity: int) -> CorruptionError:
    return CorruptionError(f"entity {entity}: a passage that names it is not among its passages; run CHECK")


def _head(degree: int, telling: int) -> int:
    return _MANY | telling << _TELLING_SHIFT | degree


def _bounds(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def _unpacked(key: bytes, value: memoryview) -> bytes:
    """The numbers of a passage's row, packed as u64."""
    try:
        return unpack_numbers(0, records.unseal(value, PASSAGE_ENTITIES, key))[8:]
    except ValueError as error:
        raise CorruptionError(f"table {PASSAGE_ENTITIES}, key {key.hex()}: {error}; run CHECK") from error


def _pairs(row: bytes) -> Iterator[tuple[int, int]]:
    """The entities and strengths of a passage's row."""
    return ((number >> _ROW_BITS, number & (STRENGTHS - 1)) for number in memoryview(row).cast("Q"))


def _link_count(key: bytes, value: memoryview) -> int:
    return int(_COUNT.unpack(records.unseal(value, ENTITY_LINKS, key))[0])


def _encoded(page: Numbers) -> bytes:
    packed = page.astype("<u8", copy=False).tobytes()
    return _HEAD_HEADER.pack(_HEAD_ENCODING, zlib.crc32(packed)) + packed


def _decoded(key: bytes, value: memoryview) -> Numbers:
    packed = value[_HEAD_HEADER.size :]
    if len(packed) != 8 * HEADS or _HEAD_HEADER.unpack(value[: _HEAD_HEADER.size]) != (
        _HEAD_ENCODING,
        zlib.crc32(packed),
    ):
        raise CorruptionError(f"table {ENTITY_HEADS}, key {key.hex()}: the page fails its checksum; run CHECK")
    return np.frombuffer(packed, "<u8")
