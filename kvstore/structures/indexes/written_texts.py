"""What a language model has written, kept by what it was written from.

In: the digest of some sources, and what was written from them. On disk: ``text`` (digest → kind of index, model,
time, plain data). Out: the same again. Such a text costs money and cannot be made again, so it outlasts the generation
of an index that first named it, and a repair; as its key is the digest of its sources, it is never wrong, only absent.
Whoever shows one holds it against the documents that it was written from.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...storage import records
from ...storage.view import View, WriteView
from .. import tables

#: Bytes of the digest of what a text is written from.
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class WrittenText:
    """What a model wrote, for a kind of index: plain data; ``written_at`` is the second since 1970."""

    kind: str
    model: str
    written_at: int
    value: Mapping[str, Any]


class WrittenTexts:
    """The texts of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, content: bytes) -> WrittenText | None:
        """What was written from the sources of this digest, or None; raises CorruptionError."""
        value = self._view.get(tables.WRITTEN, content)
        return None if value is None else WrittenText(*records.unpack(value, tables.WRITTEN, content))

    def iter_contents(self) -> Iterator[bytes]:
        """The digests of all, in order."""
        for key, _ in self._view.scan(tables.WRITTEN):
            yield bytes(key)

    def iter_contents_of_kind(self, kind: str) -> Iterator[bytes]:
        """The digests of those written for a kind of index; raises CorruptionError."""
        for key, value in self._view.scan(tables.WRITTEN):
            if WrittenText(*records.unpack(value, tables.WRITTEN, bytes(key))).kind == kind:
                yield bytes(key)


class WrittenTextWriter(WrittenTexts):
    """The texts of one write transaction."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view

    def put(self, content: bytes, kind: str, model: str, value: Mapping[str, Any]) -> None:
        """Keep what was written just now."""
        self._write.put(tables.WRITTEN, content, records.pack([kind, model, int(time.time()), dict(value)]))

    def copy(self, content: bytes, text: WrittenText) -> None:
        """Keep what was kept before."""
        row = [text.kind, text.model, text.written_at, dict(text.value)]
        self._write.put(tables.WRITTEN, content, records.pack(row))

    def remove(self, contents: Iterable[bytes]) -> None:
        """Forget some."""
        for content in contents:
            self._write.delete(tables.WRITTEN, content)


def get_written_text(view: View, content: bytes) -> WrittenText | None:
    """What a model wrote from the sources of this digest, or None; raises CorruptionError."""
    return WrittenTexts(view).get(content)
