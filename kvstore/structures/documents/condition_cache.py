"""An in-memory cache of the documents that match conditions (WHERE clauses). An entry is valid for one change number,
the number of the last commit that a state sees.

In: the text of a condition, its parameters, and the change number of a state. Out: the matching documents, and the
columns used to find them. The most recently used entries are kept, up to a bounded total number of documents. The
threads of a process share the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from .allowed import AllowedDocuments

#: The maximum numbers of cached conditions, and of documents in all of them together.
_MAX_CONDITIONS = 256
_MAX_DOCUMENTS = 2_000_000
#: The maximum number of values in all cached columns together: 32 MiB.
_MAX_NUMBERS = 1 << 22

#: Columns of documents by name, one row per document.
NumberColumns = dict[str, npt.NDArray[np.int64]]


class ConditionCache:
    """A cache of the documents that match a condition; a key is the condition, its parameters and the change number."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, AllowedDocuments] = OrderedDict()
        self._document_count = 0  # the documents of all entries together
        self._columns: tuple[int, NumberColumns] | None = None  # (change number, numbers that conditions compare)

    def get_columns(self, change: int) -> NumberColumns | None:
        """Return the numeric columns of all documents (arrays by name) at a change number, or None if not cached."""
        if self._columns is None:
            return None
        cached_change, columns = self._columns
        return columns if cached_change == change else None

    def put_columns(self, change: int, columns: NumberColumns) -> None:
        """Cache ``columns``, the numeric columns of all documents at a change number; replace the cached columns.

        Does nothing if ``columns`` have too many values.
        """
        if sum(len(column) for column in columns.values()) <= _MAX_NUMBERS:
            self._columns = change, columns

    def get(self, key: Hashable) -> AllowedDocuments | None:
        """Return the documents cached for ``key`` (a condition, its parameters and the change number), or None."""
        with self._lock:
            allowed = self._entries.get(key)
            if allowed is not None:
                self._entries.move_to_end(key)
            return allowed

    def put(self, key: Hashable, allowed: AllowedDocuments) -> None:
        """Cache the documents that match a condition, and evict the least recently used entries beyond the limits.

        ``key`` is the condition, its parameters and the change number.
        """
        with self._lock:
            previous = self._entries.pop(key, None)
            self._document_count += len(allowed) - (0 if previous is None else len(previous))
            self._entries[key] = allowed
            while self._entries and (self._document_count > _MAX_DOCUMENTS or len(self._entries) > _MAX_CONDITIONS):
                _, oldest = self._entries.popitem(last=False)
                self._document_count -= len(oldest)
