"""Sums of hashes: compare the content of two sides, regardless of order, in a few bytes.

Sums have 64 bits; different contents have equal sums with probability 2^-64.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from ..errors import KvstoreError
from ..storage.view import View

#: The lowest 64 bits.
MASK = (1 << 64) - 1
#: The number of partitions of rows by their hash. Only rows of partitions with different sums are compared.
_NUM_PARTITIONS = 256
#: The maximum length of an array of sums, per stored key.
_MAX_ELEMENTS_PER_KEY = 64

Row = TypeVar("Row", bound=Hashable)


class HashSums:
    """For each of many ids, the sum of the hashes of its items. Ids with equal items have equal sums, in any order.

    Ids below ``size`` take eight bytes each; others are stored in a dictionary.
    """

    def __init__(self, size: int) -> None:
        """Set all sums to 0. The sums of ids below ``size`` are stored in an array, the others in a dictionary."""
        self._sums = array("Q", bytes(8 * size))
        self._overflow_sums: dict[int, int] = {}

    def add(self, id: int, item: Hashable) -> None:
        """Add the hash of an item to the sum of an id."""
        if id < len(self._sums):
            self._sums[id] = (self._sums[id] + hash(item)) & MASK
        else:
            self._overflow_sums[id] = (self._overflow_sums.get(id, 0) + hash(item)) & MASK

    def __getitem__(self, id: int) -> int:
        """Return the sum of an id; 0 if nothing was added."""
        return self._sums[id] if id < len(self._sums) else self._overflow_sums.get(id, 0)

    def pop_sum(self, id: int) -> int:
        """Return the sum of the hashes that were added for an id, and reset it to 0."""
        if id >= len(self._sums):
            return self._overflow_sums.pop(id, 0)
        total = self._sums[id]
        self._sums[id] = 0
        return total

    def iter_nonzero(self) -> Iterator[int]:
        """Yield the ids whose sums are not 0."""
        yield from (id for id, total in enumerate(self._sums) if total)
        yield from (id for id, total in self._overflow_sums.items() if total)


def choose_array_size(view: View, table: str) -> int:
    """Return the size of an array indexed by the integer keys of a table.

    Its last index is the largest key, or a smaller key if the largest would leave almost all of the array empty. The
    size is 0 if the table is empty or cannot be read.
    """
    try:
        last_record = next(view.scan(table, reverse=True), None)
        if last_record is None:
            return 0
        largest_key = int.from_bytes(last_record[0], "big")
        return min(largest_key, _MAX_ELEMENTS_PER_KEY * view.count(table)) + 1
    except KvstoreError:  # the check that reads the whole table reports the error
        return 0


def find_differences(
    read_first: Callable[[], Iterable[Row]], read_second: Callable[[], Iterable[Row]]
) -> Iterator[tuple[Row, int]]:
    """Compare two tables as multisets: yield each row whose counts differ, with the first count minus the second.

    The rows are partitioned by their hash. Each function is called again for every partition that differs, so that only
    the rows of one partition are in memory.
    """
    sums_by_side = [[0] * _NUM_PARTITIONS, [0] * _NUM_PARTITIONS]
    for partition_sums, rows in zip(sums_by_side, (read_first, read_second), strict=True):
        for row in rows():
            row_hash = hash(row)
            partition_sums[row_hash % _NUM_PARTITIONS] += row_hash
    differing_partitions = [
        partition for partition, (first, second) in enumerate(zip(*sums_by_side, strict=True)) if first != second
    ]
    for partition in differing_partitions:
        counts = Counter(row for row in read_first() if hash(row) % _NUM_PARTITIONS == partition)
        counts.subtract(row for row in read_second() if hash(row) % _NUM_PARTITIONS == partition)
        yield from ((row, times) for row, times in counts.items() if times)
