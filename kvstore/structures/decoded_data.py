"""An in-memory cache of decoded data, shared by the snapshots of the same commit.

In: the change number of a snapshot. Out: what earlier states of that commit decoded: records, outlines and texts of
documents, records of chunks, and the sizes of posting lists. Another change number drops all of it. The threads of a
process share the cache; what one of them adds is never changed afterwards.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The maximum numbers of bytes of all cached texts together, of documents, of chunks, and of terms. Beyond one of them,
#: what it limits is dropped.
_MAX_TEXT_BYTES = 4 << 20
_MAX_DOCUMENTS = 1 << 13
_MAX_CHUNKS = 1 << 14
_MAX_TERMS = 1 << 14

Key = TypeVar("Key")
Value = TypeVar("Value")


class DecodedData:
    """The data decoded by the states of one commit. A dictionary that is full is replaced, so read it only once."""

    def __init__(self) -> None:
        #: Records, outlines and texts of documents and records of chunks, by id, and sizes of posting lists, by term.
        #: Their modules import this one, which therefore does not name their types.
        self.records: dict[int, Any] = {}
        self.chunks: dict[int, Any] = {}
        self.outlines: dict[int, Any] = {}
        self.texts: dict[int, bytes] = {}
        self.term_sizes: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._num_text_bytes = 0

    def add_text(self, document: int, text: bytes) -> None:
        """Add the text of a document."""
        with self._lock:
            if document in self.texts or len(text) > _MAX_TEXT_BYTES:
                return
            self._num_text_bytes += len(text)
            if self._num_text_bytes > _MAX_TEXT_BYTES:
                self.texts, self._num_text_bytes = {}, len(text)
            self.texts[document] = text

    def add_records(self, records: Mapping[int, Any]) -> None:
        """Add the records of documents."""
        self.records = _extend(self.records, records, _MAX_DOCUMENTS)

    def add_chunks(self, chunks: Mapping[int, Any]) -> None:
        """Add the records of chunks."""
        self.chunks = _extend(self.chunks, chunks, _MAX_CHUNKS)

    def add_outlines(self, outlines: Mapping[int, Any]) -> None:
        """Add the outlines of documents."""
        self.outlines = _extend(self.outlines, outlines, _MAX_DOCUMENTS)

    def add_term_sizes(self, sizes: Mapping[str, Any]) -> None:
        """Add the sizes of posting lists."""
        self.term_sizes = _extend(self.term_sizes, sizes, _MAX_TERMS)


class DecodedDataCache:
    """The decoded data of the last requested commit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._change = -1
        self._data = DecodedData()

    def get(self, change: int) -> DecodedData:
        """Return the shared data of a commit, by its change number."""
        with self._lock:
            if change != self._change:
                self._change, self._data = change, DecodedData()
            return self._data


def _extend(entries: dict[Key, Value], additions: Mapping[Key, Value], max_entries: int) -> dict[Key, Value]:
    """Add entries to a cache and return it, or return a new one with only the additions if it would have too many.

    A dictionary that a thread reads only grows, so an entry that is in it stays in it.
    """
    if len(entries) + len(additions) > max_entries:
        return dict(additions)
    entries.update(additions)
    return entries
