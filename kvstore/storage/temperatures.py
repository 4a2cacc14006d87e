"""Hits of entities, counted in memory until a commit folds them into the filter (CFT-RAG §3.1, Bridge-RAG §4.2).

In: normal forms of names that were found. Out: a bounded number of counts for each commit. A crash loses what is not
folded in.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

#: Counts folded in with one commit, at most.
_HITS_A_COMMIT = 10_000


class HitCounts:
    """Hits of entities since they were last folded in; shared by the threads of a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, keys: Iterable[str]) -> None:
        with self._lock:
            self._counts.update(keys)

    def some(self) -> dict[str, int]:
        """A bounded number of the counts, to be folded in."""
        with self._lock:
            return dict(islice(self._counts.items(), _HITS_A_COMMIT))

    def forget(self, folded: Mapping[str, int]) -> None:
        """Take off what a commit has folded in."""
        with self._lock:
            for key, count in folded.items():
                left = self._counts[key] - count
                if left:
                    self._counts[key] = left
                else:
                    del self._counts[key]

    def __len__(self) -> int:
        return len(self._counts)
