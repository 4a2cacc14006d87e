"""The passage graph: the chunks that mention an entity and how, and the entities linked with each other. The *row* of a
chunk has an edge to each entity that it mentions, and the row of an entity the reverse. *Mention bits* say how. The
*degree* of an entity is its number of chunks, or its only edge.

In: for a chunk its entities, with the *mention bits* of each edge (counted by :mod:`.rows`); links between entities. On
disk: ``passage_entities`` (chunk → entities), its reverse ``entity_passages`` (entity → chunks, in the blocks of
:mod:`~kvstore.structures.filter.block_lists`), ``entity_heads`` (by entity: its *degree*, which is its only chunk or
the number of its chunks, and if it has links) and ``entity_links`` (entity, other entity, kind → count, in both
directions). Out: rows as packed arrays, in batches. Counts are stored, and weights are computed per question, since
rarity changes with every document. Damage raises CorruptionError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore_cext.compact import EdgeChanges, unpack_numbers
from kvstore_cext.msgpack_rows import compute_checksum

from ...errors import CorruptionError
from ...storage import records
from ...storage.view import View, ViewReader, ViewWriter, WriteView
from ...structures.filter.block_lists import BlockLists
from .edges import (
    CHUNK_EDGE_MENTION_MASK,
    CHUNK_EDGE_SHIFT,
    CONTEXT_BITS,
    COUNT_BITS,
    INFORMATIVE_SHIFT,
    LINKED_FLAG,
    NO_CHUNK_LIMIT,
    NUM_MENTION_BITS,
    NUM_MENTION_VALUES,
    PAYLOAD_MASK,
    SEVERAL_FLAG,
    TOTAL_MASK,
    TRIPLE,
    ChunkRows,
    Degrees,
    EdgeRow,
    EntityRows,
    Link,
    LinkRows,
    UInt64Array,
    count_informative,
    encode_degree,
)

PASSAGE_ENTITIES = "passage_entities"
ENTITY_PASSAGES = "entity_passages"
ENTITY_DEGREES = "entity_heads"
ENTITY_LINKS = "entity_links"

_PAGE_ENCODING = b"KVG1"
_PAGE_HEADER = struct.Struct("<4sI")
ENTITIES_PER_PAGE = (records.compute_max_value_size(1) - _PAGE_HEADER.size) // 8
#: Chunks whose rows are changed in one batch.
CHUNKS_PER_BATCH = 4096
#: The number of edges collected before they are written, if more are expected; each takes 16 bytes.
_MAX_COLLECTED_EDGES = 1 << 18
#: Entities whose chunks and degrees are written in one batch.
_ENTITIES_PER_BATCH = 8192

#: Selects the mention bits of a packed edge.
_MENTION_MASK = NUM_MENTION_VALUES - 1
_LINK_KEY = struct.Struct(">IIB")
_LINK_KEYS = np.dtype([("entity", ">u4"), ("other", ">u4"), ("kind", "u1")])
_COUNT = struct.Struct("<I")


_NO_ENTITIES: frozenset[int] = frozenset()


class DecodedDegree(NamedTuple):
    """The decoded degree of an entity: how many chunks mention it (``total``), and how many of these are informative.

    A chunk that mentions it only in lower case is not informative. If exactly one chunk mentions it,
    ``only_chunk`` is that chunk, and ``mention_bits`` say how the chunk mentions it; otherwise both are 0.
    """

    entity: int
    total: int
    informative: int
    has_links: bool
    only_chunk: int
    mention_bits: int


class PassageGraph(ViewReader):
    """The passage graph in one state of the store. Pages of degrees (chunk counts) that were read are cached."""

    def __init__(self, view: View) -> None:
        """Open the graph through ``view``, a snapshot or write transaction; its data are read on demand."""
        super().__init__(view)
        self._lists = BlockLists(view, ENTITY_PASSAGES)
        # The pages of degrees that were read (room for 16, which grows), and the index of each by its number.
        self._pages = np.zeros((16, ENTITIES_PER_PAGE), np.uint64)
        self._page_indexes: dict[int, int] = {}

    def read_chunk_rows(self, chunks: UInt64Array) -> ChunkRows:
        """Return the entities that each chunk mentions, with mention bits (how it mentions them).

        The row of an unknown chunk is empty.
        """
        keys = list(map(records.encode_u64, chunks.tolist()))
        records_by_key = zip(keys, self._view.get_many(PASSAGE_ENTITIES, keys), strict=True)
        rows = [b"" if value is None else _decode_row(key, value) for key, value in records_by_key]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows)) // 8
        packed_edges = np.frombuffer(b"".join(rows), np.uint64)
        return ChunkRows(
            np.concatenate(([0], np.cumsum(lengths))),  # the bounds of the rows
            (packed_edges >> np.uint64(NUM_MENTION_BITS)).astype(np.uint32),
            (packed_edges & np.uint64(_MENTION_MASK)).astype(np.uint16),
        )

    def read_degrees(self, entities: npt.NDArray[np.uint32]) -> Degrees:
        """Return the degrees (numbers of chunks) of ``entities``, in order, without reading the chunks themselves."""
        return Degrees(self._read_degree_values(entities))

    def _read_degree_values(self, entities: npt.NDArray[np.uint32]) -> UInt64Array:
        """Return the degrees of ``entities`` as stored, one number for each, in order."""
        page_numbers = (entities // np.uint32(ENTITIES_PER_PAGE)).tolist()
        self._read_pages(set(page_numbers))
        indexes = [self._page_indexes[number] for number in page_numbers]
        return self._pages[indexes, entities % np.uint32(ENTITIES_PER_PAGE)]

    def read_visible_degrees(self, entities: npt.NDArray[np.uint32]) -> Degrees:
        """Return the degrees of entities (numbers of chunks); subclasses count only documents that a query allows."""
        return self.read_degrees(entities)

    def read_entity_rows(self, entities: npt.NDArray[np.uint32], degrees: Degrees, max_chunks: int) -> EntityRows:
        """Return a row for each of ``entities``: the chunks that mention it, with mention bits, which say how.

        ``entities`` can be in any order, and ``degrees`` are their degrees. A row is in order of chunk ids; it is empty
        if the entity has more than ``max_chunks`` chunks. The degree of an entity with one chunk is its packed edge, so
        only entities with more chunks are read from their block lists.
        """
        has_one, has_several = degrees.total == 1, (degrees.total > 1) & (degrees.total <= max_chunks)
        blocks = self._lists.read_many(entities[has_several].tolist())
        block_entities = np.array([entity for entity, _ in blocks], np.uint32)
        sizes = np.array([len(block) for _, block in blocks], np.int64)
        edge_entities = np.concatenate((entities[has_one], np.repeat(block_entities, sizes)))
        edges = np.concatenate((degrees.values[has_one] & np.uint64(PAYLOAD_MASK), *(block for _, block in blocks)))
        # Group the edges by the index of their entity in ``entities``; the edges of an entity keep their order.
        row_indexes = np.argsort(entities)[np.searchsorted(np.sort(entities), edge_entities)]
        order = np.argsort(row_indexes, kind="stable")
        bounds, edges = np.searchsorted(row_indexes[order], np.arange(len(entities) + 1)), edges[order]
        return EntityRows(bounds, edges >> np.uint64(CHUNK_EDGE_SHIFT), edges.astype(np.uint16))

    def read_link_rows(self, entities: npt.NDArray[np.uint32]) -> LinkRows:
        """Return the links of entities, in the order of ``entities``, then by linked entity and kind.

        A link has a kind (such as a triple) and a multiplicity, the number of documents that assert it.
        """
        stored_links = self._view.scan_prefixes(ENTITY_LINKS, list(map(records.encode_u32, entities.tolist())))
        keys = np.frombuffer(b"".join(key for key, _ in stored_links), _LINK_KEYS)
        counts = b"".join(records.unseal(value, ENTITY_LINKS, key) for key, value in stored_links)
        return LinkRows(
            keys["entity"].astype(np.uint32),
            keys["other"].astype(np.uint32),
            keys["kind"].copy(),
            np.frombuffer(counts, "<u4").astype(np.uint32),
        )

    def count_records(self) -> dict[str, int]:
        """Return the numbers of chunks that mention any entity, and of links in both directions, for SHOW STATS."""
        return {"passages": self._view.count(PASSAGE_ENTITIES), "links": self._view.count(ENTITY_LINKS)}

    def list_triple_chunks(self, entity: int) -> list[int]:
        """Return the chunks that mention an entity in a triple of their document; their text can mention it too."""
        entities = np.array([entity], np.uint32)
        _, chunks, mention_bits = self.read_entity_rows(entities, self.read_degrees(entities), NO_CHUNK_LIMIT)
        triple_chunks: list[int] = chunks[(mention_bits & TRIPLE) != 0].tolist()
        return triple_chunks

    def iter_chunk_rows(self) -> Iterator[tuple[int, EdgeRow]]:
        """Yield every chunk that mentions an entity, with its entities and mention bits (how it mentions them)."""
        for key, value in self._view.scan(PASSAGE_ENTITIES):
            numbers = memoryview(_decode_row(key, value)).cast("Q")  # an edge is an entity and its mention bits
            yield records.U64.unpack(key)[0], {number >> NUM_MENTION_BITS: number & _MENTION_MASK for number in numbers}

    def iter_degrees(self) -> Iterator[DecodedDegree]:
        """Yield the degree (numbers of chunks, or the only chunk) of every entity that has chunks or links."""
        for key, _ in self._view.scan(ENTITY_DEGREES):
            first_entity = records.U32.unpack(key)[0] * ENTITIES_PER_PAGE
            entities = np.arange(first_entity, first_entity + ENTITIES_PER_PAGE, dtype=np.uint32)
            degrees = self.read_degrees(entities)
            columns = (entities, degrees.total, degrees.informative, degrees.has_links, degrees.only_edges)
            for entity, total, informative, has_links, edge in zip(*map(np.ndarray.tolist, columns), strict=True):
                if total or has_links:
                    only_chunk, mention_bits = edge >> CHUNK_EDGE_SHIFT, edge & CHUNK_EDGE_MENTION_MASK
                    yield DecodedDegree(entity, total, informative, has_links, only_chunk, mention_bits)

    def iter_links(self) -> Iterator[tuple[int, Link]]:
        """Yield (entity, link to another entity) for every link, in both directions."""
        for key, value in self._view.scan(ENTITY_LINKS):
            entity, other_entity, kind = _LINK_KEY.unpack(key)
            yield entity, Link(other_entity, kind, _decode_link_count(key, value))

    def iter_block_list_edges(self) -> Iterator[tuple[int, int, int]]:
        """Yield (entity, chunk, mention bits) for every edge of an entity with several chunks, from the block lists.

        The mention bits say how the chunk mentions the entity. An entity's only chunk is stored with its degree
        instead.
        """
        for entity, _, block in self._lists.scan():
            for edge in block.tolist():
                yield entity, edge >> CHUNK_EDGE_SHIFT, edge & CHUNK_EDGE_MENTION_MASK

    def _read_pages(self, page_numbers: Set[int]) -> None:
        """Read pages of degrees (chunk counts of consecutive entities) into the cache, unless they are cached."""
        missing_pages = sorted(page_numbers - self._page_indexes.keys())
        if not missing_pages:
            return
        first_index, num_pages = len(self._page_indexes), len(self._page_indexes) + len(missing_pages)
        if num_pages > len(self._pages):
            capacity = max(num_pages, 2 * len(self._pages))
            new_pages = np.zeros((capacity - len(self._pages), ENTITIES_PER_PAGE), np.uint64)
            self._pages = np.concatenate((self._pages, new_pages))
        keys = list(map(records.encode_u32, missing_pages))
        stored_pages = zip(keys, self._view.get_many(ENTITY_DEGREES, keys), strict=True)
        for index, (key, value) in enumerate(stored_pages, first_index):
            if value is not None:
                self._pages[index] = _decode_page(key, value)
        self._page_indexes.update(zip(missing_pages, range(first_index, num_pages), strict=True))


class GraphWriter(ViewWriter, PassageGraph):
    """The passage graph of one write transaction. Rows of chunks are written immediately. Changes to the rows, links
    and degrees of entities are collected, and written by :meth:`flush`. A *page* has the degrees of entities with
    consecutive ids. A *block list* has the row of an entity with several chunks.
    """

    def __init__(self, view: WriteView) -> None:
        """Create a writer without pending changes, which reads and writes the graph through ``view``."""
        super().__init__(view)
        #: The edges (chunk and mention bits) removed from and added to the rows of entities.
        self._edge_changes = EdgeChanges(NUM_MENTION_BITS, CHUNK_EDGE_SHIFT)
        #: By entity, other entity and kind, the change of the count of a link.
        self._link_changes: dict[tuple[int, int, int], int] = {}

    def put_chunks(self, rows: Mapping[int, EdgeRow]) -> None:
        """Replace the rows of chunks: the entities that each chunk mentions, with mention bits (how it mentions them).

        The record of a chunk with an empty row is deleted.
        """
        self._change_chunks(((chunk, row, _NO_ENTITIES) for chunk, row in rows.items()), 0)

    def remove_entities(self, removed_entities: Mapping[int, Set[int]]) -> None:
        """Remove entities from the rows of chunks; the row of a chunk lists the entities that it mentions.

        ``removed_entities`` has, by chunk, the entities to remove.
        """
        self._change_chunks(((chunk, {}, entities) for chunk, entities in removed_entities.items()), _MENTION_MASK)

    def put_mentions(self, counts: Mapping[int, EdgeRow], removed_entities: Set[int]) -> None:
        """Replace the counts of mentions in the rows of chunks: how often and how each chunk mentions its entities.

        ``counts`` has, by chunk and entity, mention bits with the new counts. The stored mention bits for names in a
        title, a heading or a triple are kept. ``removed_entities`` are no longer in any row.
        """
        self._change_chunks(((chunk, row, removed_entities) for chunk, row in counts.items()), CONTEXT_BITS)

    def put_headings(self, flags: Mapping[int, EdgeRow], removed_entities: Set[int]) -> None:
        """Replace the mention bits for names in titles, headings and triples in the rows of chunks.

        ``flags`` has these bits by chunk and entity. The counts of mentions (``COUNT_BITS``) are kept. Edges to
        ``removed_entities`` are dropped.
        """
        self._change_chunks(((chunk, row, removed_entities) for chunk, row in flags.items()), COUNT_BITS)

    def _change_chunks(self, changes: Iterable[tuple[int, EdgeRow, Set[int]]], kept_bits: int) -> None:
        """Write new rows of some chunks, and collect the changes for the rows of their entities.

        A change is a chunk, its new edges, and the entities to remove from its row. Of the mention bits in the old row,
        which say how the chunk mentions an entity, only ``kept_bits`` are kept; they are added to those of the new
        edge. Raises CorruptionError if a stored row is damaged.
        """
        change_row, remaining_changes = self._edge_changes.change_row, iter(changes)
        while batch := list(islice(remaining_changes, CHUNKS_PER_BATCH)):
            keys = [records.encode_u64(chunk) for chunk, _, _ in batch]
            values = self._view.get_many(PASSAGE_ENTITIES, keys)
            new_values: dict[bytes, bytes | None] = {}
            try:
                for (chunk, new_edges, removed_entities), key, value in zip(batch, keys, values, strict=True):
                    change_row(chunk, key, value, new_edges, removed_entities, kept_bits, new_values)
            except ValueError as error:
                raise CorruptionError(f"table {PASSAGE_ENTITIES}, {error}; run CHECK") from error
            self._write_view.change_many(PASSAGE_ENTITIES, new_values)

    def change_link(self, entity: int, other_entity: int, kind: int, change: int) -> None:
        """Add ``change`` to the count of links of a kind between two entities, in both directions.

        :meth:`flush` writes the new counts.
        """
        for ends in ((entity, other_entity), (other_entity, entity)):
            self._link_changes[*ends, kind] = self._link_changes.get((*ends, kind), 0) + change

    def flush(self, *, expect_more: bool = False) -> None:
        """Write the collected changes to the chunks, links and degrees (chunk counts) of entities, and forget them.

        With ``expect_more``, changes of another batch follow, and nothing is written until many are collected: the
        batches of a load change the same entities.
        """
        if expect_more and len(self._edge_changes) < _MAX_COLLECTED_EDGES:
            return
        changes_by_entity: dict[int, dict[tuple[int, int], int]] = {}
        for (entity, other_entity, kind), change in self._link_changes.items():
            if change:
                changes_by_entity.setdefault(entity, {})[other_entity, kind] = change
        has_links = self._flush_links(changes_by_entity) if changes_by_entity else {}
        linked_entities = list(has_links)  # all in the first batch, even if their edges change in a later batch
        while linked_entities or len(self._edge_changes):
            edge_changes = self._edge_changes.take(_ENTITIES_PER_BATCH)
            entities = sorted(edge_changes.keys() | linked_entities)
            linked_entities = []
            old_values = self._read_degree_values(np.array(entities, np.uint32)).tolist()
            old_degrees = dict(zip(entities, old_values, strict=True))
            new_degrees: dict[int, int] = {}
            for entity, degree in self._flush_chunks(edge_changes, old_degrees).items():
                old_degree = old_degrees[entity]
                # The links of an entity are unchanged if ``has_links`` lacks it: keep the stored flag.
                if has_links.get(entity, old_degree & LINKED_FLAG):
                    degree |= LINKED_FLAG
                # Many degrees do not change, such as those of frequent entities in both versions of a document.
                if degree != old_degree:
                    new_degrees[entity] = degree
            self._flush_degrees(new_degrees)
        self._link_changes.clear()

    def _flush_degrees(self, degrees: Mapping[int, int]) -> None:
        """Write the new degrees of entities to their pages, which must be cached; delete pages without a degree."""
        entities = np.fromiter(degrees, np.uint32, len(degrees))
        page_numbers = (entities // np.uint32(ENTITIES_PER_PAGE)).tolist()
        indexes = [self._page_indexes[number] for number in page_numbers]
        values = np.fromiter(degrees.values(), np.uint64, len(degrees))
        self._pages[indexes, entities % np.uint32(ENTITIES_PER_PAGE)] = values
        pages: dict[bytes, bytes | None] = {}
        for page_number in sorted(set(page_numbers)):
            page = self._pages[self._page_indexes[page_number]]  # a view of the cached page
            pages[records.encode_u32(page_number)] = _encode_page(page) if page.any() else None
        self._write_view.change_many(ENTITY_DEGREES, pages)

    def _flush_chunks(
        self, edge_changes: Mapping[int, tuple[list[int], list[int]]], old_degrees: Mapping[int, int]
    ) -> dict[int, int]:
        """Write the changed chunks of entities, and return their new degrees by entity, without LINKED_FLAG.

        A degree is a 64-bit number: the packed edge (chunk id and mention bits) to the only chunk of an entity, 0
        without chunks, or the counts of its chunks, whose edges are then in a block list. ``edge_changes`` has the
        removed and added edges by entity, and ``old_degrees`` the stored degrees of all changed entities. Raises
        CorruptionError if an edge to remove is not stored.
        """
        degrees: dict[int, int] = {}
        lists: dict[int, tuple[list[int], list[int]]] = {}
        for entity, degree in old_degrees.items():
            removed_edges, added_edges = edge_changes.get(entity, ([], []))
            if degree & SEVERAL_FLAG:
                lists[entity] = removed_edges, added_edges
                continue
            only_edge = degree & PAYLOAD_MASK  # 0: the entity has no chunk
            new_edges = _change_only_edge(entity, only_edge, removed_edges, added_edges)
            if len(new_edges) > 1:
                lists[entity] = [], new_edges
                degrees[entity] = encode_degree(len(new_edges), count_informative(new_edges))
            else:
                degrees[entity] = new_edges[0] if new_edges else 0
        return degrees | self._flush_lists(lists, old_degrees)

    def _flush_lists(
        self, lists: Mapping[int, tuple[list[int], list[int]]], old_degrees: Mapping[int, int]
    ) -> dict[int, int]:
        """Write the changes of block lists, and return the new degrees of the entities that had a list before.

        ``lists`` has the packed edges (chunk id and mention bits) removed from each entity's list and those added to
        it. A list that is left with fewer than two edges is deleted; the degree is then the packed edge, or 0 for an
        empty list, instead of two counts. Raises CorruptionError if an edge to remove is not stored.
        """
        degrees: dict[int, int] = {}
        short_lists: list[int] = []
        for entity, (num_removed, num_new) in self._lists.change_many(lists).items():
            old_degree = old_degrees[entity]
            if not old_degree & SEVERAL_FLAG:  # a new list
                continue
            removed_edges, added_edges = lists[entity]
            if num_removed != len(removed_edges):
                raise _make_chunk_error(entity)
            total = (old_degree & TOTAL_MASK) + num_new - num_removed
            informative = (old_degree & PAYLOAD_MASK) >> INFORMATIVE_SHIFT
            informative += count_informative(added_edges) - count_informative(removed_edges)
            degrees[entity] = encode_degree(total, informative)
            if total < 2:
                short_lists.append(entity)
        if short_lists:
            for entity, packed_edge in self._lists.take_many(short_lists).items():
                degrees[entity] = int.from_bytes(packed_edge, "little")  # 0 for an empty list
        return degrees

    def _flush_links(self, changes_by_entity: Mapping[int, Mapping[tuple[int, int], int]]) -> dict[int, bool]:
        """Write the changed counts of links; return, by entity, True if the entity has any link afterwards.

        ``changes_by_entity`` has, by entity, then by (linked entity, kind of link), the change of the count. A link
        with count 0 is deleted.
        """
        count_changes = {
            _LINK_KEY.pack(entity, *link): change
            for entity, changes in changes_by_entity.items()
            for link, change in changes.items()
        }
        keys = sorted(count_changes)
        new_values: dict[bytes, bytes | None] = {}
        for key, value in zip(keys, self._view.get_many(ENTITY_LINKS, keys), strict=True):
            new_count = count_changes[key] + (0 if value is None else _decode_link_count(key, value))
            if new_count or value is not None:
                new_values[key] = records.seal(_COUNT.pack(new_count)) if new_count else None
        self._write_view.change_many(ENTITY_LINKS, new_values)
        ranges = [(records.encode_u32(entity), records.encode_u32(entity + 1)) for entity in changes_by_entity]
        last_links = self._view.get_last_many(ENTITY_LINKS, ranges)
        return {entity: link is not None for entity, link in zip(changes_by_entity, last_links, strict=True)}


def _change_only_edge(entity: int, only_edge: int, removed_edges: list[int], added_edges: list[int]) -> list[int]:
    """Return the new edges, ascending, of an entity that had only one edge, or none (``only_edge`` is 0).

    The edges to remove and to add are ascending. Raises CorruptionError if an edge to remove is another one.
    """
    # Two frequent cases first: a new name, and a name whose only chunk is removed.
    if not only_edge and not removed_edges:
        return added_edges
    if removed_edges == [only_edge] and not added_edges:
        return []
    old_edges = {only_edge} if only_edge else set[int]()
    if not old_edges.issuperset(removed_edges):
        raise _make_chunk_error(entity)
    return sorted(old_edges.difference(removed_edges).union(added_edges))


def _make_chunk_error(entity: int) -> CorruptionError:
    """Return the error that a chunk is missing from an entity's list of chunks."""
    return CorruptionError(f"entity {entity}: a chunk that names it is missing from its list of chunks; run CHECK")


def _decode_row(key: bytes, value: memoryview) -> bytes:
    """Decode a row of ``passage_entities``: the edges from a chunk to the entities it mentions, each packed as u64.

    Raises CorruptionError, with ``key``, if the row is damaged.
    """
    try:
        # The first unpacked number is the base 0 that is passed, and not an edge.
        return unpack_numbers(0, records.unseal(value, PASSAGE_ENTITIES, key))[8:]
    except ValueError as error:
        raise CorruptionError(f"table {PASSAGE_ENTITIES}, key {key.hex()}: {error}; run CHECK") from error


def _decode_link_count(key: bytes, value: memoryview) -> int:
    """Decode the number of documents that state a link of entities; raise CorruptionError if it is damaged."""
    return int(_COUNT.unpack(records.unseal(value, ENTITY_LINKS, key))[0])


def _encode_page(page: UInt64Array) -> bytes:
    """Encode the degrees (chunk counts) of a page of entities: a header with a checksum, then a number per entity."""
    packed = page.astype("<u8", copy=False).tobytes()
    return _PAGE_HEADER.pack(_PAGE_ENCODING, compute_checksum(packed)) + packed


def _decode_page(key: bytes, value: memoryview) -> UInt64Array:
    """Decode the degrees (chunk counts) of a page of entities; raise CorruptionError if the page is damaged."""
    header, packed = value[: _PAGE_HEADER.size], value[_PAGE_HEADER.size :]  # 8 bytes for each entity
    expected_header = _PAGE_HEADER.pack(_PAGE_ENCODING, compute_checksum(packed))
    if len(packed) != 8 * ENTITIES_PER_PAGE or header != expected_header:
        raise CorruptionError(f"table {ENTITY_DEGREES}, key {key.hex()}: the page fails its checksum; run CHECK")
    return np.frombuffer(packed, "<u8")
