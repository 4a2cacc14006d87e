"""CHECK for the entity filter: every invariant of its pages, page lists and long lists. *Bucket pages* have the slots
of names, and *block-list pages* their addresses. A *page list* has numbers of free pages, or of pages with room. A
*long list* has the addresses of a frequent name, outside the pages.

In: the parts of one view's filter. Out: a sentence for each violated invariant, and for damage found during the check.
Compiled code checks pages against each other; this module checks the lists that are stored in LMDB.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvstore_cext.filter import ROOMY_OFFSET, EntityIndex, PageCheck

from ...errors import CorruptionError
from .. import tables
from .block_lists import BLOCK_SIZE, BlockLists
from .filter_pages import FREE_BLOCKS, FREE_BUCKETS, ROOMY_BLOCKS, FilterPages


def check_filter(index: EntityIndex, pages: FilterPages, lists: BlockLists) -> Iterator[str]:
    """Yield a sentence for each violated invariant of the entity filter's pages and address lists.

    The caller must flush the filter of a write transaction first.
    """
    try:
        bucket_pages, block_pages = pages.list_bucket_pages(), pages.list_block_pages()
        pages_with_room = set(pages.iter_listed_pages(ROOMY_BLOCKS))
    except CorruptionError as error:
        yield str(error)
        return
    yield from _check_page_lists(pages, bucket_pages, block_pages, pages_with_room)
    # The kernel checks the pages, and collects the counts of addresses in block lists.
    check = PageCheck(index, bucket_pages, block_pages)
    yield from check.faults
    yield from _check_long_lists(lists, check.long_lists)


def _check_page_lists(
    pages: FilterPages, bucket_pages: list[int], block_pages: list[int], pages_with_room: set[int]
) -> Iterator[str]:
    """Yield a sentence for each difference between pages in use, stored pages, free lists and ``pages_with_room``."""
    for table, page_numbers, page_table in (
        (tables.BUCKET_PAGES, bucket_pages, pages.buckets),
        (tables.BLOCK_PAGES, block_pages, pages.block_pages),
    ):
        if len(page_numbers) != page_table.live:
            yield f"table {table}: {len(page_numbers)} pages are in use, but the counter says {page_table.live}"
        num_stored = pages.reader.view.count(table)
        if num_stored != len(page_numbers):
            yield f"table {table}: {num_stored} pages are stored, but {len(page_numbers)} are in use"
    for prefix, page_table in ((FREE_BUCKETS, pages.buckets), (FREE_BLOCKS, pages.block_pages)):
        for page in pages.iter_listed_pages(prefix):
            if not 0 < page < page_table.count:
                yield f"table {tables.FILTER_DIRECTORY}: page {page} is on list {prefix.decode()}, but does not exist"
    for page in block_pages:
        try:
            has_flag = bool(pages.block_pages.get_page(page)[ROOMY_OFFSET])
        except CorruptionError:
            continue  # reported by the check of the pages
        if has_flag != (page in pages_with_room):
            yield f"block-list page {page}: its flag disagrees with the list of pages with room"
    for page in sorted(pages_with_room.difference(block_pages)):
        yield f"block-list page {page} is on the list of pages with room, but not in use"


def _check_long_lists(lists: BlockLists, expected_counts: dict[int, int]) -> Iterator[str]:
    """Yield a sentence for each wrong block of addresses (its key, order or size), and each entity with a wrong count.

    ``expected_counts`` holds the number of addresses in blocks by entity, according to the entity records.
    """
    counts: dict[int, int] = {}
    last_addresses: dict[int, int] = {}
    try:
        for entity, first_number, block in lists.scan():
            counts[entity] = counts.get(entity, 0) + len(block)
            first_address, last_address = int(block[0]), int(block[-1])
            if first_address != first_number:
                yield f"address block {first_number} of entity {entity} begins with another address"
            if first_address <= last_addresses.get(entity, -1) or not np.all(block[1:] > block[:-1]):
                yield f"address block {first_number} of entity {entity} is out of order"
            if len(block) > BLOCK_SIZE:
                yield (
                    f"address block {first_number} of entity {entity} has {len(block)} addresses, more than "
                    f"{BLOCK_SIZE}"
                )
            last_addresses[entity] = last_address
    except CorruptionError as error:
        yield str(error)
    for entity in sorted(counts.keys() | expected_counts.keys()):
        if counts.get(entity, 0) != expected_counts.get(entity, 0):
            yield (
                f"entity {entity} has {counts.get(entity, 0)} addresses in blocks, but its record counts "
                f"{expected_counts.get(entity, 0)}"
            )
