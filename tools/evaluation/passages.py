"""Places in documents: what is asked for, and what is found.

In: the chunks of a store. Out: where each stands in its document, in characters, so that it can be compared with spans
that a question set gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import kvstore


class Place(NamedTuple):
    """Characters ``start`` to ``end`` of a document's text, the document given by its key."""

    document: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that was found: its document's key, its bytes in the stored text, and what it says."""

    document: str
    start: int
    end: int
    text: str


class Texts:
    """The documents of a store as places are counted in: characters of a text, chunks of a document."""

    def __init__(self, store: kvstore.Store) -> None:
        self._store = store
        with store.state() as view:
            self._chunks: dict[str, list[tuple[int, int]]] = {}
            keys: dict[int, str] = {}
            for _, record in view.chunks.scan():
                key = keys.get(record.document)
                if key is None:
                    key = keys[record.document] = view.documents.get(record.document).key
                self._chunks.setdefault(key, []).append((record.start, record.end))
        self._texts = lru_cache(maxsize=64)(self._read)

    def text(self, document: str) -> str:
        """The stored text of a document."""
        return self._texts(document)[0]

    def place(self, passage: Passage) -> Place:
        """Where a chunk stands, in characters."""
        to_characters = self._texts(passage.document)[1]
        return Place(passage.document, int(to_characters[passage.start]), int(to_characters[passage.end]))

    def chunks(self, places: Sequence[Place]) -> set[tuple[str, int]]:
        """Keys and first bytes of the chunks that some places lie in, in part at least."""
        found = set()
        for document, start, end in places:
            text, to_characters = self._texts(document)
            start, end = bare(text, start, end)
            for first, last in self._chunks.get(document, ()):
                if max(int(to_characters[first]), start) < min(int(to_characters[last]), end):
                    found.add((document, first))
        return found

    def _read(self, document: str) -> tuple[str, npt.NDArray[np.int64]]:
        stored = self._store.get(document)
        assert stored is not None
        data = np.frombuffer(stored.text.encode(), np.uint8)
        begins = (data & 0xC0) != 0x80  # no byte that continues a character
        return stored.text, np.concatenate([np.cumsum(begins) - begins, [int(begins.sum())]])


def bare(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space at its ends."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
