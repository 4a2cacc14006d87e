"""Framed messages of plain data between the ingesting process and its workers.

In: plain data and instances of the classes below. On the wire: eight bytes of length (big-endian), then msgpack; an
instance is the tag of its class and the list of its fields. Out: an equal message. No code is transferred: any other
object is a ValueError at the sender. An unknown tag or field is an EngineError at the receiver, since only a different
version sends it.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

import msgpack
import numpy as np

from ..errors import EngineError
from ..extraction.abstracts import AbstractNode, AbstractTree
from ..extraction.document_names import Introduction
from ..extraction.extraction import ChunkDraft, ExtractedDocument
from ..extraction.stated_relations import Relation
from ..readers import NavigationPart, RawFact, SkippedPart
from ..settings import FixedSettings
from ..structures.documents.documents import Section
from .file_documents import Failure, FileDocument
from .sources import Source

_LENGTH = struct.Struct(">Q")
#: The tag of each class. Tags are never reused, since a cluster may run an older version.
_TAGS: dict[type, int] = {
    FixedSettings: 0,
    Section: 1,
    AbstractTree: 2,
    AbstractNode: 3,
    ChunkDraft: 4,
    ExtractedDocument: 5,
    Introduction: 6,
    Failure: 7,
    FileDocument: 8,
    RawFact: 9,
    Relation: 10,
    Source: 11,
    NavigationPart: 12,
    SkippedPart: 13,
}
_CLASSES = {tag: message_class for message_class, tag in _TAGS.items()}
#: The tags of values of other types.
_TUPLE, _PATH, _MATRIX = 100, 101, 102


def frame_message(message: object) -> bytes:
    """Encode a message, prefixed with its length."""
    body = _pack(message)
    return _LENGTH.pack(len(body)) + body


def read_message(stream: BinaryIO) -> Any:
    """Read and return the next message of a stream. Raises EOFError if the stream ends before or within it."""
    header = stream.read(_LENGTH.size)
    size = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else 0  # 0: the end; no message is empty
    body = stream.read(size)
    if not size or len(body) < size:
        raise EOFError
    return _unpack(body)


class Inbox:
    """A decoder of messages whose bytes arrive in pieces of any size."""

    def __init__(self) -> None:
        """Create a decoder that has received no bytes yet."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[Any, int]]:
        """Add received bytes; return the messages that are now complete, each with its size in bytes."""
        self._buffer += data
        messages: list[tuple[Any, int]] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            body_bytes = _LENGTH.unpack_from(self._buffer, start)[0]
            body_start = start + _LENGTH.size
            if len(self._buffer) - body_start < body_bytes:
                break
            messages.append((_unpack(bytes(self._buffer[body_start : body_start + body_bytes])), body_bytes))
            start = body_start + body_bytes
        del self._buffer[:start]
        return messages


def _pack(value: object) -> bytes:
    """Encode a value with msgpack; raises ValueError for a type that cannot be sent."""
    packed: bytes = msgpack.packb(value, default=_encode, strict_types=True, unicode_errors="surrogatepass")
    return packed


def _unpack(data: bytes) -> Any:
    """Decode a value from msgpack; raises EngineError for an object that a different version encoded."""
    return msgpack.unpackb(data, ext_hook=_decode, strict_map_key=False, unicode_errors="surrogatepass")


def _encode(value: Any) -> object:
    """Return a value for msgpack to encode in place of ``value``; raises ValueError for a type that cannot be sent."""
    tag = _TAGS.get(type(value))
    if tag is not None:  # a named tuple or a dataclass
        values = value if isinstance(value, tuple) else [getattr(value, field.name) for field in fields(value)]
        return msgpack.ExtType(tag, _pack(list(values)))
    if isinstance(value, tuple):
        return msgpack.ExtType(_TUPLE, _pack(list(value)))
    if isinstance(value, Path):
        return msgpack.ExtType(_PATH, _pack(str(value)))
    if isinstance(value, dict):  # a subclass, such as Counter
        return dict(value)
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(_MATRIX, _pack([list(value.shape), value.astype("<f4").tobytes()]))
    raise ValueError(f"a {type(value).__name__} cannot be sent between processes")


def _decode(tag: int, data: bytes) -> object:
    """Return the object of the type with this ``tag`` whose fields are packed in ``data``.

    Raises EngineError for an unknown tag, or if the class has different fields.
    """
    content = _unpack(data)
    if tag == _TUPLE:
        return tuple(content)
    if tag == _PATH:
        return Path(content)
    if tag == _MATRIX:
        shape, matrix_bytes = content
        return np.frombuffer(matrix_bytes, "<f4").reshape(shape)
    remedy = "run the same version of kvstore in all processes of an ingest"
    message_class = _CLASSES.get(tag)
    if message_class is None:
        raise EngineError(f"a message between processes of an ingest has the unknown tag {tag}; {remedy}")
    try:
        return message_class(*content)
    except TypeError as error:
        raise EngineError(
            f"a message between processes of an ingest has unexpected fields ({error}); {remedy}"
        ) from error
