"""A view that counts its reads and the pages of the data file that contain the records, for EXPLAIN ANALYZE.

In: the view of a snapshot. Out: the same records, and the number of pages that contain them. A page is a page of the
memory map; a value of several pages counts with all of them. The inner pages of LMDB's trees, the pages searched for a
missing key, and reads answered by a cache are not counted. For a value in the change buffer, the pages of memory that
hold it are counted.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence

from kvstore_cext.pages import get_address

from .environment import View
from .view import Record


class MeasuredView:
    """A view that reads through another view, and counts the reads and the pages."""

    writable = False

    def __init__(self, view: View) -> None:
        """Wrap ``view`` to count the reads through it, and the pages that they touch."""
        self._view = view
        #: The numbers of the memory pages that hold the values read.
        self._pages: set[int] = set()
        #: The number of calls to the methods that read.
        self.reads = 0

    @property
    def pages(self) -> int:
        """The number of distinct pages read so far."""
        return len(self._pages)

    def get(self, table: str, key: bytes) -> memoryview | None:
        """Return the value of ``key``, or None if the table lacks it; count one read and its pages."""
        self.reads += 1
        value = self._view.get(table, key)
        if value is not None:
            self._count_pages(value)
        return value

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[memoryview | None]:
        """Return the value of each key, None for a missing key; count one read and its pages."""
        self.reads += 1
        values = self._view.get_many(table, keys)
        for value in values:
            if value is not None:
                self._count_pages(value)
        return values

    def scan_prefixes(self, table: str, prefixes: Sequence[bytes]) -> list[Record]:
        """Return the records with keys that begin with one of the prefixes, prefix by prefix in the order given.

        Counts one read and its pages.
        """
        self.reads += 1
        records = self._view.scan_prefixes(table, prefixes)
        for _, value in records:
            self._count_pages(value)
        return records

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """Yield the records with ``start <= key < stop``, in key order, or in the opposite order with ``reverse``.

        Counts one read, and the pages of each record.
        """
        self.reads += 1
        for record in self._view.scan(table, start, stop, reverse=reverse):
            _, value = record
            self._count_pages(value)
            yield record

    def get_last_many(self, table: str, ranges: Sequence[tuple[bytes, bytes]]) -> list[Record | None]:
        """Return the last record of each range (``start <= key < stop``), or None for an empty range.

        Counts one read and its pages.
        """
        self.reads += 1
        records = self._view.get_last_many(table, ranges)
        for record in records:
            if record is not None:
                _, value = record
                self._count_pages(value)
        return records

    def count(self, table: str) -> int:
        """Return the number of records in ``table``. It is measured as one read of no pages."""
        self.reads += 1
        return self._view.count(table)

    def _count_pages(self, value: memoryview) -> None:
        """Count the pages of the file that hold a value, each page once."""
        # LMDB returns the mapped file itself, so the address of a value determines its pages.
        address = get_address(value)
        if address:
            first_page, last_page = address // mmap.PAGESIZE, (address + len(value) - 1) // mmap.PAGESIZE
            self._pages.update(range(first_page, last_page + 1))
