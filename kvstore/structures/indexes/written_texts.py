"""Texts written by a language model, stored by a *digest* of the sources that they were written from. The *value* of a
text is plain data: fields such as its title and summary, and often its vector.

In: the digest of the sources, and the text written from them. On disk: ``written`` (digest → kind of index, model,
time, plain data). Out: the same data. Such a text costs money and cannot be reproduced, so it outlives the index
generation that first requested it, and a repair. Its key is the digest of its sources, so it is never wrong, only
missing. Code that shows such a text checks it against the documents it was written from.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.view import View, ViewReader, ViewWriter
from .. import tables
from ..vectors.vectors import Matrix

#: The field with the vector of a text.
_VECTOR = "vector"


@frozen_dataclass
class WrittenText:
    """A text that a model wrote for a kind of index, as plain data; ``written_at`` is in seconds since 1970."""

    kind: str
    model: str
    written_at: int
    value: Mapping[str, Any]

    @property
    def vector(self) -> Matrix | None:
        """The unit vector of the text, or None if the text was stored without a vector."""
        packed_vector = self.value.get(_VECTOR)
        return None if packed_vector is None else np.frombuffer(packed_vector, "<f4")


class WrittenTexts(ViewReader):
    """The texts that a language model wrote, by the digest of their sources, in one snapshot or write transaction."""

    def get(self, digest: bytes) -> WrittenText | None:
        """Return the text that a language model wrote from the sources with this digest, or None.

        Raises CorruptionError if it is damaged.
        """
        value = self._view.get(tables.WRITTEN, digest)
        return None if value is None else WrittenText(*records.unpack(value, tables.WRITTEN, digest))

    def iter_digests(self) -> Iterator[bytes]:
        """Yield the digests (of sources) under which texts by language models are stored, in order."""
        for key, _ in self._view.scan(tables.WRITTEN):
            yield bytes(key)

    def iter_digests_of_kind(self, kind: str) -> Iterator[bytes]:
        """Yield the digests under which texts for a kind of index are stored, in order.

        Raises CorruptionError if a text is damaged.
        """
        for key, value in self._view.scan(tables.WRITTEN):
            if WrittenText(*records.unpack(value, tables.WRITTEN, bytes(key))).kind == kind:
                yield bytes(key)


class WrittenTextWriter(ViewWriter, WrittenTexts):
    """The texts of one write transaction that a language model wrote."""

    def put(self, digest: bytes, kind: str, model: str, value: Mapping[str, Any]) -> None:
        """Store a text that a language model has just written, under the digest of its sources."""
        self.copy(digest, WrittenText(kind, model, int(time.time()), value))

    def copy(self, digest: bytes, text: WrittenText) -> None:
        """Store a text that was read from another state, and keep its original time."""
        row = [text.kind, text.model, text.written_at, dict(text.value)]
        self._write_view.put(tables.WRITTEN, digest, records.pack(row))

    def remove(self, digests: Iterable[bytes]) -> None:
        """Remove the texts stored under these digests."""
        for digest in digests:
            self._write_view.delete(tables.WRITTEN, digest)


def get_embedded_text(value: Mapping[str, Any]) -> str:
    """Return the text to embed for a text that a model wrote, given its fields (``value``): its title and summary.

    A missing field is omitted; without both, the result is empty.
    """
    return "\n".join(value[field] for field in ("title", "summary") if field in value)


def add_vector(value: Mapping[str, Any], vector: Matrix) -> Mapping[str, Any]:
    """Return a copy of the fields of a text that a model wrote (``value``), with its unit vector as another field."""
    return {**value, _VECTOR: vector.astype("<f4").tobytes()}


def load_text_vectors(view: View, cache: dict[bytes, Matrix | None]) -> dict[bytes, Matrix]:
    """Return the vectors of the texts that language models wrote, by the digest of a text's sources.

    Texts without a vector are omitted. ``cache`` has the vectors (None: no vector) that were read before; the others
    are added to it. A digest identifies a text, so a cached vector stays valid.
    """
    texts = WrittenTexts(view)
    vectors: dict[bytes, Matrix] = {}
    for digest in texts.iter_digests():
        if digest not in cache:
            text = texts.get(digest)
            cache[digest] = None if text is None else text.vector
        vector = cache[digest]
        if vector is not None:
            vectors[digest] = vector
    return vectors
