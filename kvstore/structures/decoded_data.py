"""An in-memory cache of decoded data, shared by the snapshots of the same commit. ``change`` is the number of that
commit; a request for another number empties the cache. The threads of a process share the cache, and never modify a
cached object.

In: the change number of a snapshot. Out: what earlier states of that commit decoded: counters, records, outlines and
texts of documents, records of chunks, and the sizes of posting lists.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic, TypeVar

#: The maximum size of all cached texts together, and the maximum numbers of cached documents, chunks and terms. A part
#: of the cache that would exceed its limit is emptied first.
_MAX_TEXT_BYTES = 4 << 20
_MAX_DOCUMENTS = 1 << 13
_MAX_CHUNKS = 1 << 14
_MAX_TERMS = 1 << 14

Key = TypeVar("Key")
Value = TypeVar("Value")


class EntryCache(Generic[Key, Value]):
    """Decoded values by key, at most ``max_entries``; a full cache is emptied first. With 0, nothing is cached."""

    def __init__(self, max_entries: int) -> None:
        """Create an empty cache of at most ``max_entries`` entries."""
        self.entries: dict[Key, Value] = {}
        self._max_entries = max_entries

    def get_many(self, keys: Collection[Key], read: Callable[[list[Key]], Iterable[Value]]) -> dict[Key, Value]:
        """Return a map from each key to its value, in the order of ``keys``.

        ``read`` returns the values of the keys that are not cached. They are then cached, unless they are more than
        ``max_entries``. A full cache is emptied first.
        """
        if not self._max_entries:  # as in a write transaction
            distinct_keys = list(dict.fromkeys(keys))
            return dict(zip(distinct_keys, read(distinct_keys) if distinct_keys else (), strict=True))
        # Another thread may add entries to the dictionary or replace it, but never removes an entry from it.
        entries = self.entries
        try:
            return {key: entries[key] for key in keys}  # most calls
        except KeyError:
            cached_entries = {key: entries[key] for key in keys if key in entries}
        missing_keys = list(dict.fromkeys(key for key in keys if key not in cached_entries))
        if not missing_keys:
            return cached_entries
        additions = dict(zip(missing_keys, read(missing_keys), strict=True))
        if len(entries) + len(additions) <= self._max_entries:
            entries.update(additions)
        elif len(additions) <= self._max_entries:  # full: begin again, in a new dictionary
            self.entries = dict(additions)
        cached_entries.update(additions)
        return {key: cached_entries[key] for key in keys}


class DecodedData:
    """The data decoded by the states of one commit, which cache it here for each other."""

    def __init__(self) -> None:
        """Create empty caches."""
        #: Records, sections and texts of documents and records of chunks, by id, and sizes of posting lists, by term.
        #: Their modules import this one, which therefore does not name their types.
        self.records: EntryCache[int, Any] = EntryCache(_MAX_DOCUMENTS)
        self.chunks: EntryCache[int, Any] = EntryCache(_MAX_CHUNKS)
        self.sections: EntryCache[int, Any] = EntryCache(_MAX_DOCUMENTS)
        self.term_sizes: EntryCache[str, Any] = EntryCache(_MAX_TERMS)
        self.texts: dict[int, bytes] = {}
        #: The counters, which no reader may change; None before they are read.
        self.counters: Any = None
        self._lock = threading.Lock()
        self._num_text_bytes = 0

    def add_text(self, document: int, text: bytes) -> None:
        """Cache the text of a document unless it is too long.

        If all texts together would exceed the limit of the cache, the other texts are dropped first.
        """
        with self._lock:
            if document in self.texts or len(text) > _MAX_TEXT_BYTES:
                return
            self._num_text_bytes += len(text)
            if self._num_text_bytes > _MAX_TEXT_BYTES:
                self.texts, self._num_text_bytes = {}, len(text)
            self.texts[document] = text


class DecodedDataCache:
    """The decoded data of the last requested commit."""

    def __init__(self) -> None:
        """Create a cache that does not belong to any commit yet."""
        self._lock = threading.Lock()
        self._change = -1  # the change number of the cached data; no commit has the number -1
        self._data = DecodedData()

    def get(self, change: int) -> DecodedData:
        """Return the cache of the data decoded from commit number ``change``; drop the data of any other commit."""
        with self._lock:
            if change != self._change:
                self._change, self._data = change, DecodedData()
            return self._data
