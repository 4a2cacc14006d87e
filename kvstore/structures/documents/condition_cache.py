"""What conditions over documents have been found to allow, in memory, while the store is as it was then.

In: the text of a condition, its parameters, and the change number of a state. Out: the documents that may answer there.
Those asked for last are kept, of a bounded number of documents together; shared by the threads of a process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from .allowed import Allowed

#: Conditions, and documents of all of them, that are kept.
_MOST_CONDITIONS = 256
_MOST_DOCUMENTS = 2_000_000


class ConditionCache:
    """Allowed documents by condition, parameters and change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Allowed] = OrderedDict()
        self._documents = 0

    def get(self, key: Hashable) -> Allowed | None:
        """What is kept under a key, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def keep(self, key: Hashable, allowed: Allowed) -> None:
        """Keep what was found, as far as there is room."""
        with self._lock:
            before = self._kept.pop(key, None)
            self._documents += len(allowed) - (0 if before is None else len(before))
            self._kept[key] = allowed
            while self._kept and (self._documents > _MOST_DOCUMENTS or len(self._kept) > _MOST_CONDITIONS):
                _, oldest = self._kept.popitem(last=False)
                self._documents -= len(oldest)
