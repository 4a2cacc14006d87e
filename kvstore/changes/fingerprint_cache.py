"""Fingerprints of the texts that this process stored last, which rule out that a name occurs in a text.

In: the documents of write transactions as they are put. On disk: nothing. Out: the chunks that must be read to find a
name, among the chunks that contain all its words. Ids are never reused, so the fingerprint of a chunk stays valid,
except after a transaction that was rolled back; fingerprints are therefore kept only after the commit. Chunks without a
fingerprint are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..structures.counters import Counters
from ..structures.filter.entity_filter import TextTraces

#: The maximum size in bytes of all fingerprints, enough for about 80,000 chunks of 80 words.
MAX_BYTES = 24 << 20
#: If a change number grows by more than this, REPAIR has rebuilt the counters, and ids may repeat.
_MAX_CHANGE_STEP = 1 << 32


class FingerprintCache:
    """The fingerprints of one open store, used by one write transaction at a time.

    A fingerprint (a Bloom filter of the words of a text) can rule out that a name occurs in the text.
    """

    def __init__(self) -> None:
        """Create an empty cache."""
        self._fingerprints = TextTraces(MAX_BYTES)
        #: The first document id that no commit has used; documents from it on may belong to a failed transaction.
        self._next_uncommitted_document = 0
        #: The change number at the last :meth:`begin`.
        self._change = 0

    def begin(self, counters: Counters) -> None:
        """Prepare for a transaction: drop the fingerprints (Bloom filters) of documents that were not committed.

        If the change number has increased by more than ``_MAX_CHANGE_STEP``, REPAIR has rebuilt the counters, and
        all fingerprints are dropped.
        """
        is_reset = counters.change > self._change + _MAX_CHANGE_STEP
        self._fingerprints.remove_from(0 if is_reset else min(self._next_uncommitted_document, counters.next_document))
        self._change = counters.change

    def commit(self, counters: Counters) -> None:
        """Keep the fingerprints (Bloom filters) added since :meth:`begin`; ``counters`` are the committed counters."""
        self._next_uncommitted_document = counters.next_document

    def add(self, document: int, headings: Sequence[bytes], chunks: Mapping[int, bytes]) -> None:
        """Add the fingerprints (Bloom filters of words) of the texts of a new document, given by its id.

        ``headings`` are its title and headings, and ``chunks`` the texts of its chunks by id, all in normal form.
        """
        self._fingerprints.add(document, list(headings), dict(chunks))

    def filter_candidates(self, key: str, chunks: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return the ``chunks`` that can contain the name with this key (normal form), by their fingerprints.

        A fingerprint covers a text and its headings. Chunks without a fingerprint are included.
        """
        return np.frombuffer(self._fingerprints.select_candidates(key.encode(), chunks), np.uint64)
