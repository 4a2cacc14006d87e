"""Hits of entities, counted in memory until a commit adds them to the filter (CFT-RAG §3.1, Bridge-RAG §4.2).

In: normal forms of names that were looked up. Out: a bounded number of counts for each commit. A crash loses counts
that were not yet committed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

#: The maximum number of names whose counts are written in one commit.
_MAX_HITS_PER_COMMIT = 10_000


class HitCounts:
    """Hits (lookups) of names, not yet added to their temperatures in the filter; shared by the threads of a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._thread = threading.local()  # ``paused``: do not count the hits of this thread

    def add(self, keys: Iterable[str]) -> None:
        """Count a hit of each name (normal form), unless this thread has paused counting."""
        if getattr(self._thread, "paused", False):
            return
        with self._lock:
            self._counts.update(keys)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Ignore the hits of this thread within the block."""
        self._thread.paused = True
        try:
            yield
        finally:
            self._thread.paused = False

    @contextmanager
    def take_batch(self) -> Iterator[Mapping[str, int]]:
        """Take a bounded number of counts for the block to write to the filter; restore them if it raises.

        Each count is taken by one caller at a time, so it is written once, even if other threads commit meanwhile.
        """
        with self._lock:
            counts = {key: self._counts.pop(key) for key in list(islice(self._counts, _MAX_HITS_PER_COMMIT))}
        try:
            yield counts
        except BaseException:
            with self._lock:
                self._counts.update(counts)
            raise

    def __len__(self) -> int:
        return len(self._counts)
