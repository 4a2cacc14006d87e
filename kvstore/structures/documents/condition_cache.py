"""What conditions over documents have been found to allow, in memory, while the store is as it was then.

In: the text of a condition, its parameters, and the change number of a state. Out: the documents that may answer there,
and the columns by which they were found. Those asked for last are kept, of a bounded number of documents together;
shared by the threads of a process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from .allowed import AllowedDocuments

#: Conditions, and documents of all of them, that are kept.
_MAX_CONDITIONS = 256
_MAX_DOCUMENTS = 2_000_000
#: Numbers of all columns that are kept: 32 MiB.
_MAX_NUMBERS = 1 << 22

#: Columns of documents by name, a row a document.
NumberColumns = dict[str, npt.NDArray[np.int64]]


class ConditionCache:
    """Allowed documents by condition, parameters and change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, AllowedDocuments] = OrderedDict()
        self._document_count = 0
        self._columns: tuple[int, NumberColumns] | None = None

    def get_columns(self, change: int) -> NumberColumns | None:
        """The columns of all documents as they are since a change, where they are kept."""
        entry = self._columns
        return None if entry is None or entry[0] != change else entry[1]

    def put_columns(self, change: int, columns: NumberColumns) -> None:
        """Keep the columns of all documents in place of those of another change, unless they are many."""
        if sum(len(column) for column in columns.values()) <= _MAX_NUMBERS:
            self._columns = change, columns

    def get(self, key: Hashable) -> AllowedDocuments | None:
        """What is kept under a key, or None."""
        with self._lock:
            allowed = self._entries.get(key)
            if allowed is not None:
                self._entries.move_to_end(key)
            return allowed

    def put(self, key: Hashable, allowed: AllowedDocuments) -> None:
        """Keep what was found, as far as there is room."""
        with self._lock:
            previous = self._entries.pop(key, None)
            self._document_count += len(allowed) - (0 if previous is None else len(previous))
            self._entries[key] = allowed
            while self._entries and (self._document_count > _MAX_DOCUMENTS or len(self._entries) > _MAX_CONDITIONS):
                _, oldest = self._entries.popitem(last=False)
                self._document_count -= len(oldest)
