"""Spans in documents. Question sets have spans in characters; a *passage*, a retrieved chunk, has a span in bytes.

In: the chunks of a store. Out: the span of each in its document, in characters, so that it can be compared with the
spans of a question set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import kvstore


class TextSpan(NamedTuple):
    """Characters ``start`` to ``end`` of a document's text; the document is given by its key."""

    document: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved chunk: its document key, its byte span in the stored text, and its text."""

    document: str
    start: int
    end: int
    text: str


class Texts:
    """The texts of a store's documents, addressed by characters and by chunks."""

    def __init__(self, store: kvstore.Store) -> None:
        """Read the byte spans of all chunks of a store; texts are read on demand and cached."""
        self._store = store
        with store.state() as state:
            self._chunks: dict[str, list[tuple[int, int]]] = {}
            keys: dict[int, str] = {}
            for _, record in state.chunks.scan():
                key = keys.get(record.document)
                if key is None:
                    key = keys[record.document] = state.documents.get(record.document).key
                self._chunks.setdefault(key, []).append((record.start, record.end))
        self._read_cached = lru_cache(maxsize=64)(self._read)

    def get_text(self, document: str) -> str:
        """Return the stored text of a document."""
        text, _ = self._read_cached(document)
        return text

    def locate_passage(self, passage: Passage) -> TextSpan:
        """Return the span in characters of a passage, whose offsets are in bytes."""
        _, character_offsets = self._read_cached(passage.document)
        return TextSpan(passage.document, int(character_offsets[passage.start]), int(character_offsets[passage.end]))

    def find_chunks(self, spans: Sequence[TextSpan]) -> set[tuple[str, int]]:
        """Return (document key, first byte) of each chunk that overlaps one of the spans."""
        chunks = set()
        for document, start, end in spans:
            text, character_offsets = self._read_cached(document)
            start, end = strip_span(text, start, end)
            for chunk_start, chunk_end in self._chunks.get(document, ()):
                if max(int(character_offsets[chunk_start]), start) < min(int(character_offsets[chunk_end]), end):
                    chunks.add((document, chunk_start))
        return chunks

    def _read(self, document: str) -> tuple[str, npt.NDArray[np.int64]]:
        """Return the text of a document, and the character offset of each of its bytes and of its end."""
        document_record = self._store.get(document)
        assert document_record is not None
        data = np.frombuffer(document_record.text.encode(), np.uint8)
        starts_character = (data & 0xC0) != 0x80  # False for the further bytes of a character in UTF-8
        offsets = np.cumsum(starts_character) - starts_character
        return document_record.text, np.concatenate([offsets, [int(starts_character.sum())]])


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at its ends."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
