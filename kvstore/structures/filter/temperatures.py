"""Hits of entities, counted in memory until a commit folds them into the filter (CFT-RAG §3.1, Bridge-RAG §4.2).

In: normal forms of names that were found. Out: a bounded number of counts for each commit. A crash loses what is not
folded in.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

#: Counts folded in with one commit, at most.
_MAX_HITS_PER_COMMIT = 10_000


class HitCounts:
    """Hits of entities since they were last folded in; shared by the threads of a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._thread = threading.local()

    def add(self, keys: Iterable[str]) -> None:
        if getattr(self._thread, "paused", False):
            return
        with self._lock:
            self._counts.update(keys)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Count no hit of this thread within the block."""
        self._thread.paused = True
        try:
            yield
        finally:
            self._thread.paused = False

    @contextmanager
    def take_batch(self) -> Iterator[Mapping[str, int]]:
        """Take a bounded number of the counts out, to be folded in within the block; put back where it raises.

        Each count is in one hand at a time, so that it is folded in once, whatever other threads commit meanwhile.
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
