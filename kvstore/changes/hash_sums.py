"""Sums of hashes: what two sides of a comparison hold, whatever its order, in a few bytes.

Sums are 64 bits wide; two that are equal stand for equal contents but once in 2^64.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

#: The lowest 64 bits.
MASK = (1 << 64) - 1
#: Sums that rows are divided into; where two differ, the rows of that sum are compared.
_PARTS = 256

Row = TypeVar("Row", bound=Hashable)


class HashSums:
    """What belongs to each of many numbers, at eight bytes a number up to ``size``."""

    def __init__(self, size: int) -> None:
        self._sums = array("Q", bytes(8 * size))
        self._above: dict[int, int] = {}

    def add(self, number: int, item: Hashable, times: int = 1) -> None:
        """Count something that belongs to a number."""
        if number < len(self._sums):
            self._sums[number] = (self._sums[number] + hash(item) * times) & MASK
        else:
            self._above[number] = (self._above.get(number, 0) + hash(item) * times) & MASK

    def __getitem__(self, number: int) -> int:
        return self._sums[number] if number < len(self._sums) else self._above.get(number, 0)

    def take(self, number: int) -> int:
        """The sum of a number, which is 0 from now on."""
        total = self[number]
        if total:
            (self._sums if number < len(self._sums) else self._above)[number] = 0
        return total

    def left(self) -> Iterator[int]:
        """The numbers whose sums are not 0."""
        yield from (number for number, total in enumerate(self._sums) if total)
        yield from (number for number, total in self._above.items() if total)


def differing(one: Callable[[], Iterable[Row]], other: Callable[[], Iterable[Row]]) -> Iterator[tuple[Row, int]]:
    """The rows that the first has more often than the second, or less often (negative), and how often."""
    sums = [[0] * _PARTS, [0] * _PARTS]
    for part_sums, rows in zip(sums, (one, other), strict=True):
        for row in rows():
            row_hash = hash(row)
            part_sums[row_hash % _PARTS] += row_hash
    for part in (part for part in range(_PARTS) if sums[0][part] != sums[1][part]):
        counts = Counter(row for row in one() if hash(row) % _PARTS == part)
        counts.subtract(row for row in other() if hash(row) % _PARTS == part)
        yield from ((row, times) for row, times in counts.items() if times)
