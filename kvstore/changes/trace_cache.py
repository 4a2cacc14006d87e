"""Trace cache: of the texts that this process stored last, what tells that a name does not occur in them.

In: the documents of write transactions, as they are put in. On disk: nothing. Out: of chunks in which all words of a
name stand, those that need be read to find it. Ids are never used twice, so what is noted of a chunk stays true; but
those of a transaction that was given up are, so its traces count from the commit on. What is not noted is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..structures.counters import Counters
from ..structures.filter.entity_filter import TextTraces

#: Bytes of traces that are kept at most: those of some 80,000 chunks of 80 words.
MAX_BYTES = 24 << 20
#: A change number grows by more than this where REPAIR has made the counters anew, and ids perhaps come again.
_MAX_CHANGE_STEP = 1 << 32


class TraceCache:
    """The traces of one open store; used by the one write transaction there is, or between two."""

    def __init__(self) -> None:
        self._traces = TextTraces(MAX_BYTES)
        self._committed = 0
        self._change = 0

    def begin(self, counters: Counters) -> None:
        """Forget what a transaction has noted that did not commit; ``counters`` are those that the next begins with."""
        is_reset = counters.change > self._change + _MAX_CHANGE_STEP
        self._traces.forget_from(0 if is_reset else min(self._committed, counters.next_document))
        self._change = counters.change

    def commit(self, counters: Counters) -> None:
        """Keep what was noted in the transaction that has committed with these counters."""
        self._committed = counters.next_document

    def note(self, document: int, headings: Sequence[bytes], chunks: Mapping[int, bytes]) -> None:
        """Note what stands in a new document above its chunks, and in each of them; all in normal form."""
        self._traces.note(document, list(headings), dict(chunks))

    def filter_candidates(self, key: str, chunks: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Those of some chunks in which or above which a name may occur."""
        return np.frombuffer(self._traces.that_may_have(key.encode(), chunks), np.uint64)
