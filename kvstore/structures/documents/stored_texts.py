"""The encoding of the texts of documents in the table ``texts``: a byte that identifies the encoding, then the text,
compressed or not. A *long* text (more than :data:`MAX_COMPRESSED_TEXT` bytes) is never compressed, so that a slice of
it can be read without the rest.
"""

from __future__ import annotations

import zlib

from ...errors import CorruptionError
from ...storage import records
from .. import tables

#: The maximum size of a compressed text. Slices of longer texts are served without reading the whole text.
MAX_COMPRESSED_TEXT = 1 << 16
#: The first byte of a stored text: its encoding.
PLAIN, ZLIB, DEFLATED = b"\x00", b"\x01", b"\x02"
#: A deflate stream without a header or checksum, since the stored record is sealed anyway.
_RAW_WINDOW = -zlib.MAX_WBITS


def encode_stored_text(text: bytes) -> bytes:
    """Encode the text of a document (UTF-8) for its record, without the checksum.

    The result is a byte that identifies the encoding, and the text. It is compressed if that makes it shorter, unless
    it is longer than MAX_COMPRESSED_TEXT.
    """
    compressed_text = zlib.compress(text, wbits=_RAW_WINDOW) if len(text) <= MAX_COMPRESSED_TEXT else text
    return DEFLATED + compressed_text if len(compressed_text) < len(text) else PLAIN + text


def decode_stored_text(value: memoryview, key: bytes, max_bytes: int | None = None) -> bytes:
    """Decode a stored text (the encoding, then the text), or at least its first ``max_bytes`` bytes (None: all).

    ``key`` is the key of its record, for the error message. Raises CorruptionError for an unknown encoding, or a
    damaged or truncated stream.
    """
    encoding, body = bytes(value[:1]), bytes(value[1:])
    if encoding == PLAIN:
        return body
    try:
        if encoding in (ZLIB, DEFLATED):
            window = zlib.MAX_WBITS if encoding == ZLIB else _RAW_WINDOW
            if max_bytes is None:
                return zlib.decompress(body, window)
            max_length = max(1, max_bytes)  # to zlib, 0 means no limit
            decompressor = zlib.decompressobj(window)
            text = decompressor.decompress(body, max_length)
            if len(text) == max_length or decompressor.eof:
                return text
    except zlib.error:
        pass
    raise CorruptionError(
        f"table {tables.TEXTS}, key {key.hex()}: its encoding is unknown, or its compressed stream is damaged; restore "
        "the store from a backup"
    )


def require_stored_text(document: int, value: memoryview | None) -> memoryview:
    """Return ``value``, the stored text of a document; raise CorruptionError if it is missing (None)."""
    if value is None:
        raise CorruptionError(f"document {document} has no stored text; run CHECK")
    return value


def get_long_text(value: memoryview) -> memoryview | None:
    """Return the text in a record of the ``texts`` table if it is longer than MAX_COMPRESSED_TEXT, otherwise None.

    Such a text is stored uncompressed, so that slices are read without the rest; only CHECK verifies its checksum.
    """
    stored_text = value[len(PLAIN) : -records.CHECKSUM.size]
    return stored_text if len(stored_text) > MAX_COMPRESSED_TEXT else None


def decode_slice(document: int, text: bytes | memoryview, start: int, end: int) -> str:
    """Decode bytes ``start`` to ``end`` of a text; raise CorruptionError if they are missing or not UTF-8."""
    if not 0 <= start <= end <= len(text):
        raise CorruptionError(
            f"document {document}: its text has {len(text)} bytes, so bytes {start} to {end} do not exist; run CHECK"
        )
    try:
        return bytes(text[start:end]).decode()
    except UnicodeDecodeError as error:
        raise CorruptionError(f"document {document}: bytes {start} to {end} are not UTF-8; run CHECK") from error
