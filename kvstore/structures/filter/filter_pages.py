"""The pages of the entity filter in LMDB, read and verified for compiled code, and written by a write transaction.
*Bucket pages* have the slots of names, *block-list pages* their addresses. *Directory* and *fork pages* lead from a
hash to a bucket page. Lists name the free and the *roomy* pages.

On disk: ``bucket_pages`` and ``block_pages`` (u32 page number → page), and ``filter_directory``: the header under
``h``, directory pages under ``d`` + u32, fork pages under ``f`` + u32, and three lists of page numbers: free bucket
pages (``b``), free block-list pages (``l``), and roomy block-list pages (``r``), which have room for more. A page holds
the name of its encoding, its number and a CRC-32, which are verified once per view. Damage raises CorruptionError.
Opening a filter reads only the header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import partial
from itertools import islice
from threading import Lock
from typing import NamedTuple

from kvstore_cext.filter import (
    BLOCK_ENCODING,
    BUCKET_ENCODING,
    DIRECTORY_ENCODING,
    FORK_ENCODING,
    PAGE_BYTES,
    PAGE_LIMIT,
    ROOMY_OFFSET,
    WIDEST_DIRECTORY,
    BlockStore,
    Directory,
    NameHash,
    PageTable,
)
from kvstore_cext.msgpack_rows import compute_checksum

from ...errors import ClosedError, CorruptionError, SettingsMismatchError, StoreFullError
from ...storage import records
from ...storage.environment import View, WriteView
from ...storage.view import LmdbView
from .. import tables

ENCODING = "kvfilter1"

HEAD_KEY = b"h"
DIRECTORY_PREFIX = b"d"
FORK_PREFIX = b"f"
FREE_BUCKETS = b"b"
FREE_BLOCKS = b"l"
ROOMY_BLOCKS = b"r"

#: The start of a page (encoding, checksum, number), the position of its checksum, and the first byte it covers.
_PAGE_HEADER = struct.Struct("<4sII")
_CHECKSUM = slice(4, 8)
_COVERED_START = 8
_LISTED_VALUE = records.seal(b"")
#: Numbers read at once from a list of pages.
_LIST_BATCH = 64
#: Changed pages copied and written at once.
_WRITE_BATCH = 256
#: A name whose hash is stored in the header, so that opening a filter with another hash seed is detected.
_SAMPLE_NAME = "kvstore"
#: Entries per directory page.
DIRECTORY_ENTRIES = 1024

#: The only directory page of a store without names. It has no checksum, because it is never stored.
_EMPTY_DIRECTORY = memoryview(DIRECTORY_ENCODING + bytes(PAGE_BYTES - len(DIRECTORY_ENCODING)))


@dataclass
class _FilterHeader:
    """The stored state of a filter apart from its pages.

    ``sample`` is the hash of :data:`_SAMPLE_NAME`, and ``directory`` the state of :class:`Directory`.
    """

    encoding: str
    sample: int
    entities: int = 0
    addresses: int = 0
    #: One more than the highest page number ever used (0 is never used), and the count of pages in use.
    bucket_pages: tuple[int, int] = (1, 0)
    block_pages: tuple[int, int] = (1, 0)
    fork_pages: int = 0
    directory: tuple[int, ...] = (0, 0, 0, 0, 0, 0, 0)


class _PageHeader(NamedTuple):
    """The header of a page: its encoding, its checksum and its number."""

    encoding: bytes
    checksum: int
    number: int


class _PageKind(NamedTuple):
    """The pages of one kind, their table, and the key prefixes of the pages and of the list of their free numbers.

    ``free_list`` is the last of these prefixes (None: pages of this kind are never freed).
    """

    pages: PageTable
    table: str
    prefix: bytes = b""
    free_list: bytes | None = None


def _describe_page_fault(page: memoryview, encoding: bytes, page_number: int) -> str:
    """Return how a stored page differs from a valid page with this encoding and number; "" for a valid page."""
    if len(page) != PAGE_BYTES:
        return f"has {len(page)} bytes, not {PAGE_BYTES}"
    header = _PageHeader._make(_PAGE_HEADER.unpack_from(page))
    if header.encoding != encoding:
        return f"does not have the encoding {encoding.decode()}"
    if compute_checksum(page[_COVERED_START:]) != header.checksum:
        return "fails its checksum"
    return "has the number of another page" if header.number != page_number else ""


class PageReader:
    """Reads and verifies pages and lists of pages for the compiled page tables.

    These keep references to its methods, so it must not refer back to them. A reference cycle would keep the view, and
    with it the store, open until the garbage collector runs.
    """

    def __init__(self, view: View, lock: Lock) -> None:
        """Create a reader of the pages of the entity filter in ``view``, a snapshot or transaction.

        ``lock`` is held while a page is read.
        """
        self.view = view
        self._lock = lock
        #: True if the view has a filter.
        self.is_stored = False
        #: The block-list pages read so far, with their "has room" flag.
        self.has_room_flags: dict[int, int] = {}

    def load_page(self, table: str, prefix: bytes, encoding: bytes, page_number: int) -> memoryview:
        """Read and verify a page (4 KiB) of a table; its key is ``prefix`` and the page number.

        ``encoding`` is the expected page format. The directory of a filter that is not stored yet is empty. In a write
        transaction, this also records whether a block-list page is roomy. Raises CorruptionError if the page is
        damaged, and ClosedError if the view is closed.
        """
        if not self.is_stored and encoding == DIRECTORY_ENCODING:
            return _EMPTY_DIRECTORY
        with self._lock:
            page = self.view.get(table, prefix + records.encode_u32(page_number))
        fault = "is missing" if page is None else _describe_page_fault(page, encoding, page_number)
        if page is None or fault:
            raise CorruptionError(
                f"table {table}: page {page_number} {fault}; run CHECK REPAIR, or restore from a backup"
            )
        if encoding == BLOCK_ENCODING and self.view.writable:
            self.has_room_flags[page_number] = page[ROOMY_OFFSET]
        # Check this last, so that the snapshot cannot be closed between this check and the use of the page.
        self.require_open()
        return page

    def list_pages(self, prefix: bytes, page_table: str | None, last_number: int) -> list[int]:
        """Return the next page numbers of the stored list under ``prefix``: up to 64 above ``last_number``, ascending.

        For a list of free pages, ``page_table`` is the table of the pages; None for any other list. Raises
        CorruptionError if the table has a page that is listed as free.
        """
        stored_numbers = self.view.scan(
            tables.FILTER_DIRECTORY, prefix + records.encode_u32(last_number + 1), _make_end_key(prefix)
        )
        keys = [key[1:] for key, _ in islice(stored_numbers, _LIST_BATCH)]  # without the prefix of one byte
        for key in keys:
            if page_table is not None and self.view.get(page_table, key) is not None:
                page_number = records.U32.unpack(key)[0]
                raise CorruptionError(
                    f"table {page_table}: page {page_number} is in use, but listed as free; run CHECK"
                )
        return [records.U32.unpack(key)[0] for key in keys]

    def require_open(self) -> None:
        """Raise ClosedError if the snapshot or transaction is closed, because its pages may be freed."""
        if isinstance(self.view, LmdbView) and self.view.closed:
            raise ClosedError("the snapshot or transaction is closed; open another")


class FilterPages:
    """The pages of the entity filter in a snapshot or a write transaction, and the compiled code that uses them.

    There are four kinds: bucket pages (slots for names), block-list pages (their addresses), the directory and its
    forks (which lead from a hash to a bucket page).
    """

    def __init__(self, view: View, hasher: NameHash, lock: Lock) -> None:
        """Read the filter's header, and set up the compiled page tables, which read pages on demand.

        A filter that is not stored yet is empty. ``hasher`` hashes names with the store's seed. Pages are read from
        ``view`` while ``lock`` is held.
        """
        self._sample_hash = hasher(_SAMPLE_NAME)
        self.reader = PageReader(view, lock)
        header = self._read_header()
        self.reader.is_stored = header is not None
        header = header or _FilterHeader(ENCODING, self._sample_hash)
        self.counts = header.entities, header.addresses
        num_address_bits, *_ = header.directory
        directory_pages = -(-(1 << num_address_bits) // DIRECTORY_ENTRIES)  # rounded up
        bucket_kind = self._make_page_kind(
            BUCKET_ENCODING, tables.BUCKET_PAGES, header.bucket_pages, free_list=FREE_BUCKETS
        )
        block_kind = self._make_page_kind(BLOCK_ENCODING, tables.BLOCK_PAGES, header.block_pages, free_list=FREE_BLOCKS)
        directory_kind = self._make_page_kind(
            DIRECTORY_ENCODING, tables.FILTER_DIRECTORY, (directory_pages, directory_pages), DIRECTORY_PREFIX
        )
        fork_kind = self._make_page_kind(
            FORK_ENCODING, tables.FILTER_DIRECTORY, (header.fork_pages, header.fork_pages), FORK_PREFIX
        )
        self._page_kinds = bucket_kind, block_kind, directory_kind, fork_kind
        self.buckets, self.block_pages, self.directory_table, self.forks = (
            page_kind.pages for page_kind in self._page_kinds
        )
        self.blocks = BlockStore(self.block_pages, partial(self.reader.list_pages, ROOMY_BLOCKS, None))
        self.directory = Directory(
            self.directory_table, self.forks, self.buckets, self.blocks, hasher, header.directory
        )

    @property
    def cached_count(self) -> int:
        """The number of pages of the filter that are in memory."""
        return sum(page_kind.pages.count_loaded() for page_kind in self._page_kinds)

    def flush(self, view: WriteView, entities: int, addresses: int) -> None:
        """Write every changed page, the lists of page numbers and the header of the filter to the transaction.

        ``entities`` and ``addresses`` are their numbers in the filter, which the header records.
        """
        self.blocks.settle()  # lists the page that is being filled, if it still has room
        if not self.reader.is_stored:
            self.directory_table.mark_changed(0)  # the empty directory, which is not stored yet
            self.reader.is_stored = True
        for page_kind in self._page_kinds:
            self._flush_kind(view, page_kind)
        self.blocks.forget()  # the pages with room are now in the stored list
        header = _FilterHeader(
            encoding=ENCODING,
            sample=self._sample_hash,
            entities=entities,
            addresses=addresses,
            bucket_pages=(self.buckets.count, self.buckets.live),
            block_pages=(self.block_pages.count, self.block_pages.live),
            fork_pages=self.forks.count,
            directory=self.directory.state,
        )
        view.put(tables.FILTER_DIRECTORY, HEAD_KEY, records.pack(vars(header)))

    def iter_listed_pages(self, prefix: bytes) -> Iterator[int]:
        """Yield the page numbers of the stored list under ``prefix``, ascending; raise CorruptionError for damage."""
        for key, value in self.reader.view.scan(tables.FILTER_DIRECTORY, prefix, _make_end_key(prefix)):
            if bytes(value) != _LISTED_VALUE or len(key) != 1 + records.U32.size:
                raise CorruptionError(f"table {tables.FILTER_DIRECTORY}, key {bytes(key).hex()}: damaged; run CHECK")
            yield records.U32.unpack(key[1:])[0]

    def list_bucket_pages(self) -> list[int]:
        """Return the page numbers of the bucket pages (cuckoo tables) in use, ascending."""
        free_numbers = [0, *self.iter_listed_pages(FREE_BUCKETS)]  # page 0 is never used
        return self.buckets.list_used(free_numbers)  # all pages except these

    def list_block_pages(self) -> list[int]:
        """Return the page numbers of the block-list pages in use, ascending.

        Such a page has the records of several names: the entity, the counts and the addresses of each.
        """
        free_numbers = [0, *self.iter_listed_pages(FREE_BLOCKS)]  # page 0 is never used
        return self.block_pages.list_used(free_numbers)  # all pages except these

    def _flush_kind(self, view: WriteView, page_kind: _PageKind) -> None:
        """Write the changed pages of one kind, delete released ones, and update the stored lists of free pages.

        For block-list pages, also update the list of pages with room for more addresses.
        """
        self._flush_freed(view, page_kind)
        page_changes: dict[bytes, bytes | None] = {}
        for number, page in page_kind.pages.take_changed():
            key = records.encode_u32(number)
            page[_CHECKSUM] = records.CHECKSUM.pack(compute_checksum(page[_COVERED_START:]))
            page_changes[page_kind.prefix + key] = bytes(page)
            if page_kind.pages is self.block_pages:
                self._update_roomy_list(view, number, page[ROOMY_OFFSET])
            if len(page_changes) == _WRITE_BATCH:
                view.change_many(page_kind.table, page_changes)
                page_changes.clear()
        view.change_many(page_kind.table, page_changes)

    def _flush_freed(self, view: WriteView, page_kind: _PageKind) -> None:
        """Delete the pages of one kind that are no longer used, and update the stored list of free page numbers.

        Free pages that are used again leave that list.
        """
        freed_numbers, reused_numbers = page_kind.pages.take_freed()
        for number in freed_numbers:
            key = records.encode_u32(number)
            view.delete(page_kind.table, page_kind.prefix + key)
            if page_kind.free_list:
                view.put(tables.FILTER_DIRECTORY, page_kind.free_list + key, _LISTED_VALUE)
            if page_kind.pages is self.block_pages:
                view.delete(tables.FILTER_DIRECTORY, ROOMY_BLOCKS + key)
                self.reader.has_room_flags.pop(number, None)
        for number in reused_numbers:
            view.delete(tables.FILTER_DIRECTORY, (page_kind.free_list or b"") + records.encode_u32(number))

    def _update_roomy_list(self, view: WriteView, number: int, has_room: int) -> None:
        """Add a block-list page to the stored list of pages with room, or remove it, if its flag has changed."""
        if has_room != self.reader.has_room_flags.get(number):
            self.reader.has_room_flags[number] = has_room
            listed_value = _LISTED_VALUE if has_room else None  # None removes the page from the list
            view.change_many(tables.FILTER_DIRECTORY, {ROOMY_BLOCKS + records.encode_u32(number): listed_value})

    def _read_header(self) -> _FilterHeader | None:
        """Return the stored header of the filter (counts and directory state), or None if the store has no filter.

        Raises CorruptionError if it is damaged, and SettingsMismatchError if it was written with another hash seed: the
        header has the hash of a fixed name with the seed of its writer.
        """
        value = self.reader.view.get(tables.FILTER_DIRECTORY, HEAD_KEY)
        if value is None:
            return None
        fields = records.unpack(value, tables.FILTER_DIRECTORY, HEAD_KEY)
        header = _decode_header(fields)
        if header is None:
            raise CorruptionError(
                f"table {tables.FILTER_DIRECTORY}: the header is not valid in the encoding {ENCODING}; use the version "
                "of kvstore that wrote it, or restore from a backup"
            )
        if header.sample != self._sample_hash:
            raise SettingsMismatchError("the entity filter has another hash seed; open it with the store's own")
        return header

    def _make_page_kind(
        self, encoding: bytes, table: str, counts: tuple[int, int], prefix: bytes = b"", free_list: bytes | None = None
    ) -> _PageKind:
        """Describe one kind of pages, such as bucket pages, and create the compiled object that holds these pages.

        ``encoding`` is the format name in each page. ``counts`` are the numbers of pages ever allocated and in use. The
        keys of the pages in the LMDB table ``table`` begin with ``prefix``. The keys of the list of their free numbers
        begin with ``free_list`` (None: pages of this kind are never freed).
        """
        load = partial(self.reader.load_page, table, prefix, encoding)
        list_free = None if free_list is None else partial(self.reader.list_pages, free_list, table)
        pages = PageTable(
            table, encoding, load, list_free, CorruptionError, StoreFullError, *counts, self.reader.view.writable
        )
        return _PageKind(pages, table, prefix, free_list)


def _decode_header(fields: object) -> _FilterHeader | None:
    """Decode the stored fields of a filter's header; return None if fields are missing, unknown or inconsistent."""
    if not isinstance(fields, dict) or fields.keys() != {field.name for field in dataclass_fields(_FilterHeader)}:
        return None
    header = _FilterHeader(**fields)
    try:
        (buckets, live_buckets), (blocks, live_blocks) = header.bucket_pages, header.block_pages
        numbers = (header.sample, header.entities, header.addresses, header.fork_pages, live_buckets, live_blocks)
        are_numbers = all(isinstance(number, int) and 0 <= number < 1 << 64 for number in (*numbers, *header.directory))
        # The first number is one more than the highest page number ever used; page 0 is never used.
        has_valid_pages = (
            live_buckets < buckets <= PAGE_LIMIT
            and live_blocks < blocks <= PAGE_LIMIT
            and header.fork_pages <= PAGE_LIMIT
        )
        has_valid_directory = (
            len(header.directory) == len(_FilterHeader.directory)
            and header.directory[0] <= WIDEST_DIRECTORY  # the depth of the directory
        )
    except (TypeError, ValueError):
        return None
    is_valid = header.encoding == ENCODING and are_numbers and has_valid_pages and has_valid_directory
    return header if is_valid else None


def _make_end_key(prefix: bytes) -> bytes:
    """Return the smallest key above every key that begins with this one-byte prefix."""
    return bytes([prefix[0] + 1])
