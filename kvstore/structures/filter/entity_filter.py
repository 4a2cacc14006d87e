"""The entity filter: the names a store knows, and the addresses of each. A *key* is a name in normal form. An *address*
is a place where the name occurs, packed into an integer: a rank, and the id of a forest node or an abstract. A *long
list* of addresses is stored outside the filter's pages.

In: keys (``to_entity_key``) and addresses (u64). On disk: a directory of cuckoo-filter pages whose slots lead to block
lists (``filter_pages.py``, ``block_lists.py``, FORMAT.md). Out: entities, addresses, and the occurrences of known names
in a text. Every hit is confirmed against the stored key, so a lookup never returns another name's entry. Invalid input
raises InputError or EntityNotFoundError, damage CorruptionError.

Follows CFT-RAG (section 3: cuckoo filter, block linked list, temperature) and Bridge-RAG (section 4.2), made exact and
durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from kvstore_cext.filter import (
    BUCKET_SLOTS,
    KEY_BYTES,
    EntityIndex,
    NameHash,
    SearchKeys,
    TextTraces,
    find_many,
    find_mentions,
    find_occurrences,
    list_addresses_below,
    recognize,
    select_longest,
    select_occurring_keys,
)

from ...errors import EntityNotFoundError, InputError, ReadOnlyError
from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.environment import ReadTransaction, View, WriteTransaction, WriteView
from ...text.normalize import FoldedText
from .block_lists import BlockLists
from .filter_check import check_filter
from .filter_pages import FilterPages

__all__ = [
    "EntityFilter",
    "FilterCache",
    "FilterEntry",
    "FilterPage",
    "FilterStatistics",
    "Matches",
    "SearchKeys",
    "TextTraces",
    "find_occurrences",
    "select_longest_matches",
    "select_occurring_keys",
]

Mention = TypeVar("Mention", bound=tuple[int, int, int])

#: The maximum number of 4 KiB pages of a cached filter.
MAX_CACHED_PAGES = 4096
_MAX_U32 = (1 << 32) - 1
_MAX_U64 = (1 << 64) - 1
#: Addresses read at once from a long list that is read only as far as needed.
_ADDRESS_BATCH = 256
#: Depth, entries, prefix, kicks and splits in the header of a bucket page, and their offset.
_BUCKET_HEADER = Struct("<BxHQII")
_BUCKET_COUNTS_OFFSET = 12


@frozen_dataclass
class FilterEntry:
    """A known name: its entity, the number of its occurrences (addresses), and of its lookups (``temperature``)."""

    entity: int
    count: int
    temperature: int


class Matches(NamedTuple):
    """Matches of known names in a text, ordered by start and end: byte offsets in the folded text, and entities."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    entity: npt.NDArray[np.uint32]


class FilterPage(NamedTuple):
    """Statistics of a bucket page.

    ``depth`` is the number of hash bits that lead to it. ``entries`` is the number of used slots, and ``load`` their
    fraction of all slots. ``kicks`` is the number of moved slots, and ``splits`` the number of splits that the page
    results from. ``bytes`` is the size of the page.
    """

    page: int
    depth: int
    entries: int
    load: float
    kicks: int
    splits: int
    bytes: int


@frozen_dataclass
class FilterStatistics:
    """Statistics of a whole filter.

    ``load`` is the used fraction of the slots for names. ``depth`` is the number of hash bits by which the directory
    finds a bucket page, and ``forks`` the number of its entries that need further bits. ``kicks`` counts moves of
    names to their other bucket; ``splits`` and ``merges`` count those of pages. ``bytes`` is the size of all pages in
    LMDB, without long lists.
    """

    entities: int
    addresses: int
    bucket_pages: int
    block_pages: int
    directory_pages: int
    fork_pages: int
    depth: int
    forks: int
    load: float
    kicks: int
    splits: int
    merges: int
    bytes: int


@lru_cache(maxsize=8)
def _get_hasher(seed: int) -> NameHash:
    """Return the hash function of names for a hash seed, shared by all filters with that seed."""
    return NameHash(seed & _MAX_U64)


def _as_addresses(addresses: Any) -> npt.NDArray[np.uint64]:
    """Convert an array, packed bytes or integers to a contiguous u64 array; raise InputError for other numbers."""
    if isinstance(addresses, bytes):
        return np.frombuffer(addresses, np.uint64)
    array = np.asarray(addresses)
    if array.dtype != np.uint64:
        if array.size and (array.dtype.kind not in "iu" or array.min() < 0):
            raise InputError("addresses are integers from 0 to 2^64 - 1")
        array = array.astype(np.uint64)
    return np.ascontiguousarray(array).reshape(-1)


class EntityFilter:
    """The known names and the addresses of each, in a snapshot or a write transaction, which can change them. Changes
    are made in private copies of pages; :meth:`flush`, which must be called before the commit, writes them. The *index*
    is compiled code that finds and changes entries in the pages.

    Several threads may read through one filter of a snapshot.
    """

    def __init__(self, view: View, *, hash_seed: int) -> None:
        """Open the entity filter, a cuckoo filter in pages, for ``view``, a snapshot or a write transaction.

        ``hash_seed`` is the store's seed for hashes of names.
        """
        self._view = view
        self._snapshot = view if isinstance(view, ReadTransaction) else None
        # Only one thread at a time may use a snapshot's transaction.
        self._lock = Lock()
        self._pages = FilterPages(view, _get_hasher(hash_seed), self._lock)
        self._lists = BlockLists(view)
        # The kernel that finds and changes entries in the pages.
        self._index = EntityIndex(
            _get_hasher(hash_seed),
            self._pages.directory,
            self._pages.blocks,
            self._lists,
            _as_addresses,
            self._pages.counts,
        )

    def switch_view(self, view: WriteView) -> None:
        """Continue in another write transaction, which must see the pages that this filter wrote before."""
        self._view = self._pages.reader.view = self._lists.view = view

    # -- Reading

    def find(self, key: str) -> FilterEntry | None:
        """Return a name's entity, number of occurrences and number of lookups; None for an unknown name."""
        self._pages.reader.require_open()
        entry_fields = self._index.find(key)
        return None if entry_fields is None else FilterEntry(*entry_fields)

    def find_entities(self, keys: Sequence[str]) -> npt.NDArray[np.uint32]:
        """Return the entity of each name; 0 for an unknown name."""
        entities = np.empty(len(keys), np.uint32)
        with self._pin_snapshot():
            find_many(self._index, keys, entities)
        return entities

    def lookup(self, key: str, limit: int | None = None) -> tuple[FilterEntry, npt.NDArray[np.uint64]] | None:
        """Return a name's entry (entity and counts), and its first ``limit`` addresses (default: all), ascending.

        Returns None if the name is unknown. Raises InputError if ``limit`` is negative.
        """
        return self._look_up(key, limit, start=0)

    def lookup_many(self, keys: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
        """Return two arrays: the entity of each name, and its first address. Both are 0 for an unknown name."""
        entities, first_addresses = np.empty(len(keys), np.uint32), np.zeros(len(keys), np.uint64)
        with self._pin_snapshot():
            # The kernel returns the positions of the names whose addresses are in a long list.
            for position in find_many(self._index, keys, entities, first_addresses):
                with self._lock:
                    first_addresses[position] = self._lists.get_first(int(entities[position]))
        return entities, first_addresses

    def get_addresses(self, key: str, limit: int | None = None, after: int | None = None) -> npt.NDArray[np.uint64]:
        """Return the first ``limit`` addresses of a name that are greater than ``after``, ascending.

        None means no limit. The result is empty for an unknown name.
        """
        start = 0 if after is None else max(0, after + 1)
        entry_with_addresses = self._look_up(key, limit, start) if start <= _MAX_U64 else None
        if entry_with_addresses is None:
            return np.empty(0, np.uint64)
        _, addresses = entry_with_addresses
        return addresses

    def list_addresses_below(self, keys: Sequence[str], stop: int) -> list[tuple[int, ...]]:
        """Return each name's addresses below ``stop``, ascending; empty for an unknown name."""
        with self._pin_snapshot():
            # None for a name whose addresses are in a long list.
            address_tuples = list_addresses_below(self._index, keys, stop)
        return [
            self._read_addresses_below(key, stop) if addresses is None else addresses
            for key, addresses in zip(keys, address_tuples, strict=True)
        ]

    def _read_addresses_below(self, key: str, stop: int) -> tuple[int, ...]:
        """Return the addresses of a name below ``stop``, read in batches from a long list."""
        addresses: list[int] = []
        while True:
            batch = self.get_addresses(key, _ADDRESS_BATCH, addresses[-1] if addresses else None).tolist()
            addresses += [address for address in batch if address < stop]
            if len(batch) < _ADDRESS_BATCH or batch[-1] >= stop:
                return tuple(addresses)

    def recognize(self, folded: FoldedText, max_words: int) -> Matches:
        """Return every occurrence of every known name of at most ``max_words`` words, including overlapping ones.

        ``folded`` is the text in normal form; occurrences are byte offsets in ``folded``. Names with more than 16
        punctuation marks are not recognized.
        """
        with self._pin_snapshot():
            starts, ends, entities = recognize(self._index, folded.data, max_words)
        return Matches(
            np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64), np.frombuffer(entities, np.uint32)
        )

    def find_mentions(
        self, folded: FoldedText, max_words: int, keys: dict[int, str], mention_type: type[Mention]
    ) -> list[Mention]:
        """Return all occurrences of known names of up to ``max_words`` words; names without a word are skipped.

        ``folded`` is the text in normal form. Each occurrence is a ``mention_type`` (entity, start and length in bytes
        of the original text), ordered by start and end. Adds the normal forms of the entities to ``keys``, by id.
        """
        with self._pin_snapshot():
            return find_mentions(self._index, folded.data, folded.offsets, max_words, mention_type, keys)

    def iter_entries(self) -> Iterator[tuple[str, FilterEntry]]:
        """Yield every name with its entity, and the numbers of its occurrences and of its lookups, in any order."""
        for page_number in self._pages.list_block_pages():
            for key, entity, occurrence_count, lookup_count in self._index.list_records(page_number):
                yield key, FilterEntry(entity, occurrence_count, lookup_count)

    # -- Changes

    def insert(self, key: str, entity: int) -> None:
        """Add a name.

        Raises InputError if the name is present, empty or too long, or if ``entity`` is not a u32 above 0.
        """
        self.insert_many([key], [entity])

    def insert_many(self, keys: Sequence[str], entities: Sequence[int] | npt.NDArray[np.uint32]) -> None:
        """Add many names with their entities, all or none.

        Raises InputError if a name is present, given twice, empty or too long, if an entity is not a u32 above 0, or if
        the numbers of names and entities differ.
        """
        self._require_writable()
        if len(keys) != len(entities):
            raise InputError(f"{len(keys)} names were given with {len(entities)} entities; give one for each")
        invalid_index = self._index.find_invalid(keys)
        if invalid_index >= 0:
            raise InputError(
                f"a name must be 1 to {KEY_BYTES} bytes of UTF-8; this one is not: {keys[invalid_index][:80]!r}"
            )
        numbers = np.asarray(entities)
        if len(numbers) and (numbers.dtype.kind not in "iu" or not 0 < numbers.min() <= numbers.max() <= _MAX_U32):
            raise InputError(f"an entity's id is from 1 to {_MAX_U32}, not {min(entities)} or {max(entities)}")
        if len(set(keys)) != len(keys):
            raise InputError("a name occurs twice; pass each name once")
        present_indexes = np.flatnonzero(self.find_entities(keys))
        if len(present_indexes):
            raise InputError(
                f"the name {keys[present_indexes[0]]!r} is in the filter already; add to its addresses instead"
            )
        self._index.insert_many(keys, np.ascontiguousarray(numbers, np.uint32))

    def delete_many(self, keys: Iterable[str]) -> int:
        """Remove names with all their addresses; return how many were present."""
        self._require_writable()
        # The entity if its addresses are in a long list, 0 if they were removed with the entry, -1 without an entry.
        long_list_entities = list(map(self._index.delete, keys))
        self._lists.take_many([entity for entity in long_list_entities if entity > 0])
        return len(long_list_entities) - long_list_entities.count(-1)

    def add_addresses(self, key: str, addresses: npt.NDArray[np.uint64]) -> int:
        """Add addresses to a name; return how many were new.

        Raises EntityNotFoundError if the name is absent.
        """
        return self.add_address_lists([key], [_as_addresses(addresses)])

    def remove_addresses(self, key: str, addresses: npt.NDArray[np.uint64]) -> int:
        """Remove addresses from a name and return how many existed (0 for an absent name)."""
        return self.remove_address_lists([key], [_as_addresses(addresses)])

    def add_address_lists(self, keys: Sequence[str], addresses: Sequence[npt.NDArray[np.uint64] | list[int]]) -> int:
        """Add to each name in ``keys`` its addresses; return how many were new.

        Raises EntityNotFoundError if a name is absent.
        """
        self._require_writable()
        num_changed, absent_index = self._index.change_addresses(keys, addresses, adding=True)
        if absent_index >= 0:
            raise EntityNotFoundError(f"the name {keys[absent_index]!r} is not in the filter; insert it first")
        return num_changed

    def remove_address_lists(self, keys: Sequence[str], addresses: Sequence[npt.NDArray[np.uint64] | list[int]]) -> int:
        """Remove from each name in ``keys`` its addresses; return how many existed in total.

        Absent names are ignored.
        """
        self._require_writable()
        num_removed, _ = self._index.change_addresses(keys, addresses, adding=False)
        return num_removed

    def add_hits(self, hits: Mapping[str, int]) -> None:
        """Add to the temperatures (numbers of lookups) of names, and move the hottest to the front of their buckets.

        ``hits`` has the number of new lookups by name. Absent names are ignored.
        """
        self._require_writable()
        for key, count in hits.items():
            self._index.add_hits(key, count, order=True)

    def flush(self) -> None:
        """Write the changed pages of the filter to the write transaction; must be called before it commits."""
        view = self._require_writable()
        self._pages.flush(view, self._index.entities, self._index.addresses)

    # -- Statistics and checks

    def compute_statistics(self) -> FilterStatistics:
        """Return statistics of the whole entity filter: its names, addresses, pages and load."""
        pages, directory = self._pages, self._pages.directory
        page_tables = pages.buckets, pages.block_pages, pages.directory_table, pages.forks
        return FilterStatistics(
            entities=self._index.entities,
            addresses=self._index.addresses,
            bucket_pages=pages.buckets.live,
            block_pages=pages.block_pages.live,
            directory_pages=pages.directory_table.live,
            fork_pages=pages.forks.live,
            depth=directory.depth,
            forks=directory.live_forks,
            load=self._index.entities / (BUCKET_SLOTS * max(1, pages.buckets.live)),
            kicks=directory.kicks,
            splits=directory.splits,
            merges=directory.merges,
            bytes=sum(page_table.live for page_table in page_tables) * records.PAGE_SIZE,
        )

    def iter_pages(self) -> Iterator[FilterPage]:
        """Yield the statistics of every bucket page (cuckoo table), in order of the page numbers."""
        for page_number in self._pages.list_bucket_pages():
            page = self._pages.buckets.get_page(page_number)
            depth, num_entries, _, kicks, splits = _BUCKET_HEADER.unpack_from(page, _BUCKET_COUNTS_OFFSET)
            yield FilterPage(
                page_number,
                depth,
                entries=num_entries,
                load=num_entries / BUCKET_SLOTS,
                kicks=kicks,
                splits=splits,
                bytes=records.PAGE_SIZE,
            )

    def check(self) -> Iterator[str]:
        """Yield a sentence for each violated invariant of the filter's pages and address lists."""
        self._pages.reader.require_open()
        yield from check_filter(self._index, self._pages, self._lists)

    def _look_up(self, key: str, limit: int | None, start: int) -> tuple[FilterEntry, npt.NDArray[np.uint64]] | None:
        """Return a name's entry (entity, counts) and its addresses from ``start`` on; None for an unknown name.

        At most ``limit`` are returned (None: all). Raises InputError if ``limit`` is negative, and ClosedError if the
        view is closed.
        """
        self._pages.reader.require_open()
        if limit is not None and limit < 0:
            raise InputError(f"limit={limit} is negative; pass a number of addresses, or None for all")
        record = self._index.look_up(key, _MAX_U32 if limit is None else min(limit, _MAX_U32), start)
        if record is None:
            return None
        entity, occurrence_count, lookup_count, packed_addresses = record
        entry = FilterEntry(entity, occurrence_count, lookup_count)
        if packed_addresses is not None:
            return entry, np.frombuffer(packed_addresses, np.uint64)
        with self._lock:  # the addresses are in a long list
            return entry, self._lists.read(entity, limit, start)

    def _require_writable(self) -> WriteView:
        """Return the view as a write view; raise ReadOnlyError if it is a snapshot, ClosedError if it is closed."""
        self._pages.reader.require_open()
        if not self._view.writable:
            raise ReadOnlyError("names and addresses can be changed only in a write transaction")
        return cast(WriteView, self._view)

    def _pin_snapshot(self) -> AbstractContextManager[object]:
        """Return a context manager that keeps a snapshot open while compiled code reads its pages without the GIL."""
        return nullcontext() if self._snapshot is None else self._snapshot.hold_open()


def select_longest_matches(matches: Matches) -> Matches:
    """Select non-overlapping matches from left to right; among matches with the same start, select the longest."""
    positions = select_longest(matches.start, matches.end)
    return Matches(matches.start[positions], matches.end[positions], matches.entity[positions])


class FilterCache:
    """A cache that passes the entity filter of one write transaction to the next one; any thread may call it.

    It saves reading, verifying and copying the pages of the filter. It holds at most one filter.
    """

    def __init__(self) -> None:
        """Create an empty cache."""
        self._cached_filter_and_change: tuple[EntityFilter, int] | None = None  # with its change number

    def take_filter(self, transaction: WriteTransaction, *, hash_seed: int) -> EntityFilter:
        """Return the filter of known names for a write transaction that has just begun, and empty the cache.

        ``hash_seed`` is the store's seed for hashes of names. The cached filter is reused if nothing was committed
        since it was cached; otherwise the filter is new.
        """
        filter_and_change, self._cached_filter_and_change = self._cached_filter_and_change, None
        if filter_and_change is not None:
            cached_filter, change = filter_and_change
            if transaction.change == change + 1:  # the number of the commit that the transaction makes
                cached_filter.switch_view(transaction)
                return cached_filter
        return EntityFilter(transaction, hash_seed=hash_seed)

    def put(self, entity_filter: EntityFilter, change: int) -> None:
        """Cache an entity filter whose changes were committed as change number ``change``.

        A filter with too many pages (4 KiB each) in memory is not cached.
        """
        if entity_filter._pages.cached_count <= MAX_CACHED_PAGES:
            self._cached_filter_and_change = entity_filter, change
