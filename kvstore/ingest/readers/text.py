"""Plain text: the file is one document, kept word for word.

In: bytes in UTF-8, or what a byte-order mark or the option ``encoding`` says. Out: one document of format ``text``
without a title. Invalid bytes, a NUL and an empty file are ReaderErrors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from .decoding import whole_text
from .raw_document import Origin, RawDocument, ReadOptions


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the file's one document."""
    text = whole_text(stream.read(), origin.name, options.encoding)
    yield RawDocument(origin.key, None, text, {}, "text")
