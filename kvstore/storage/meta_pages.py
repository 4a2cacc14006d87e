"""Pages of an LMDB file that are read from the file itself: the two meta pages, and the path to the first table. A meta
page has the number of a commit and the root of its *main tree*, whose records are the tables. Commits alternate between
the two: even numbers write page 0, odd ones page 1.

In: the data file. Out: the page number of the first leaf of the main tree, whose records are the tables; or an error
that names the damaged page. There are two reasons to read these pages. If a meta page is damaged, LMDB would open the
commit before the last without an error. And LMDB does not reveal the address of its map, which can be computed from
the address and the page number of a record.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..errors import CorruptionError, NotAStoreError

#: Number, flags, magic, version, page size and change of a meta page.
_META = struct.Struct("<Q2xH4xII16xI100xQ")
_META_FLAG, _MAGIC, _VERSION = 8, 0xBEEFC0DE, 1
_PAGE_HEADER_BYTES = 16
#: Number, flags, lower and upper bound of a page, and the offset of its first node.
_PAGE = struct.Struct("<Q2xHHHH")
_BRANCH_FLAG, _LEAF_FLAG = 1, 2
#: The low, middle and high 16 bits of the page number in a node of a branch page.
_CHILD_NUMBER = struct.Struct("<HHH")
#: Bytes of the value and flags of a node of a leaf page, and bytes of its key; the key and the value follow.
_NODE = struct.Struct("<IHH")
#: The flag of a node whose value is the record of a table, and the bytes of such a record.
_TABLE_FLAG, _TABLE_BYTES = 2, 48
#: Depth and root page of a tree in its record. The record of the main tree is in the meta page, at this offset.
_TREE = struct.Struct("<6xH32xQ")
_MAIN_TREE_OFFSET = 16 + 72
_NO_PAGE = (1 << 64) - 1


class _MetaPage(NamedTuple):
    """The fields of a meta page: its page number, and ``change``, the number of the commit that wrote it."""

    number: int
    flags: int
    magic: int
    version: int
    page_size: int
    change: int


def verify_meta_pages(path: Path) -> None:
    """Raise CorruptionError if a meta page is damaged; does nothing if the file is missing or not an LMDB file."""
    try:
        with path.open("rb") as file:
            first_meta = _parse_meta_page(file.read(_META.size))
            page_size = (first_meta.page_size if first_meta else 0) or mmap.PAGESIZE
            file.seek(page_size)
            second_meta = _parse_meta_page(file.read(_META.size))
    except FileNotFoundError:  # not yet created
        return
    metas = [meta for meta in (first_meta, second_meta) if meta is not None]
    if all((meta.magic, meta.version) != (_MAGIC, _VERSION) for meta in metas):
        return  # not an LMDB file; LMDB reports what it is instead
    for page_number, meta in enumerate(metas):
        # Even changes are in page 0, odd ones in page 1; a new file has change 0 in both.
        is_on_its_page = not meta.change or meta.change & 1 == page_number
        is_valid = meta == _MetaPage(
            page_number, _META_FLAG, magic=_MAGIC, version=_VERSION, page_size=page_size, change=meta.change
        )
        if not (is_valid and is_on_its_page):
            raise CorruptionError(
                f"{path}: meta page {page_number} is damaged, and without it the last commit cannot be known; restore "
                "a backup"
            )


def _parse_meta_page(page_start: bytes) -> _MetaPage | None:
    """Parse the first bytes of a meta page; return None if there are too few, because the file is too short."""
    return _MetaPage._make(_META.unpack(page_start)) if len(page_start) == _META.size else None


def make_foreign_file_error(path: Path) -> NotAStoreError:
    """Return the error for a main tree with records that are not those of tables."""
    return NotAStoreError(
        f"{path}: an LMDB file of another application, or a damaged copy of a data file; choose another path, or "
        "restore a backup"
    )


def find_first_leaf(
    path: Path, descriptor: int, page_size: int, change: int, verify_meta: Callable[[], None]
) -> int | None:
    """Return the page number of the first leaf of the main tree in commit number ``change``; None if it is empty.

    The caller computes the address of LMDB's map from it. The pages of ``page_size`` bytes are read through
    ``descriptor``; ``path`` is for messages. ``verify_meta`` is called after the meta page is read, and raises an error
    if a later commit may already have overwritten it. Raises CorruptionError if a page on the path is damaged, and
    NotAStoreError if the first record of the leaf is not that of a table.
    """
    meta = os.pread(descriptor, page_size, (change & 1) * page_size)
    verify_meta()
    depth, page_number = _TREE.unpack_from(meta, _MAIN_TREE_OFFSET)
    if page_number == _NO_PAGE:
        return None
    for level in range(depth, 0, -1):
        page = os.pread(descriptor, page_size, page_number * page_size)
        is_damaged = len(page) < page_size
        first_node_offset = 0
        if not is_damaged:
            recorded_number, flags, _, _, first_node_offset = _PAGE.unpack_from(page)
            expected_flags = _LEAF_FLAG if level == 1 else _BRANCH_FLAG
            is_damaged = (recorded_number, flags) != (page_number, expected_flags) or not (
                _PAGE_HEADER_BYTES < first_node_offset <= page_size - _NODE.size
            )
        if is_damaged:
            raise CorruptionError(
                f"{path}: page {page_number}, which leads to the tables, is damaged; restore a backup"
            )
        if level > 1:  # descend to the first child
            low_bits, middle_bits, high_bits = _CHILD_NUMBER.unpack_from(page, first_node_offset)
            page_number = low_bits | middle_bits << 16 | high_bits << 32
        else:
            value_bytes, flags, key_bytes = _NODE.unpack_from(page, first_node_offset)
            node_end = first_node_offset + _NODE.size + key_bytes + value_bytes
            # The value of another record can be on another page than its node.
            if (value_bytes, flags) != (_TABLE_BYTES, _TABLE_FLAG) or node_end > page_size:
                raise make_foreign_file_error(path)
    return int(page_number)
