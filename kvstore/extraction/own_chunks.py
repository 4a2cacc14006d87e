"""Chunks set by the user, in place of automatic chunking: the whole document, or spans of its text.

In: the ``chunks`` argument given with a document. Out: checked :data:`OwnChunks`, in characters of the text with
``\\n`` line ends. On disk, in the document's record: None, ``whole``, or two numbers per chunk: the distance in
characters from the end of the previous chunk (or the beginning of the text), and the length. Invalid chunks are an
InputError.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Literal

from ..arguments import format_value
from ..errors import InputError

#: The chunking of a document: automatic (None), one chunk, or these spans in characters, end excluded.
OwnChunks = Literal["whole"] | tuple[tuple[int, int], ...] | None
#: The maximum size of a chunk in bytes, so that offsets inside it fit 16 bits.
MAX_OWN_CHUNK_BYTES = 65_535


def parse_own_chunks(key: str, chunks: str | Sequence[Sequence[int]] | None, text: str) -> OwnChunks:
    """Check the user's chunks of a document, and return them with offsets in the text with ``\\n`` line ends.

    ``chunks`` has offsets in ``text``, in characters, with any line ends. Raises InputError.
    """
    if chunks is None:
        return None
    if isinstance(chunks, str):
        if chunks != "whole":
            raise InputError(f"document {key!r}: chunks are 'whole' or a list of (start, end), not {chunks!r}")
        _check_length(key, text.replace("\r\n", "\n"), "the chunk of the whole text")
        return "whole"
    spans: list[tuple[int, int]] = []
    previous_end = num_dropped = 0  # characters removed with CRLF line ends so far
    for number, bounds in enumerate(chunks):
        start, end = _parse_span(key, number, bounds)
        if not previous_end <= start < end <= len(text):
            raise InputError(
                f"document {key!r}: chunk {number} is ({start:,}, {end:,}), not between {previous_end:,} and "
                f"{len(text):,}: chunks are in order and do not overlap; store overlapping texts as separate documents"
            )
        piece = text[start:end]
        if not piece.strip():
            raise InputError(f"document {key!r}: chunk {number}, ({start:,}, {end:,}), is blank; remove it")
        _check_length(key, piece, f"chunk {number}")
        chunk_start = start - num_dropped - _count_crlf_ends(text, previous_end, start)
        num_dropped += _count_crlf_ends(text, previous_end, end)
        spans.append((chunk_start, end - num_dropped))
        previous_end = end
    if not spans:
        raise InputError(f"document {key!r}: the list of chunks is empty; omit chunks to split the text automatically")
    return tuple(spans)


def _count_crlf_ends(text: str, start: int, end: int) -> int:
    """Return the number of CRLF line ends whose line feed is in the span from ``start`` to before ``end``."""
    return text.count("\r\n", max(0, start - 1), end)  # a carriage return can be right before the span


def _parse_span(key: str, number: int, bounds: Any) -> tuple[int, int]:
    """Return the ``bounds`` of chunk ``number`` as two integers. Raises InputError if they are not."""
    try:
        start, end = (index(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InputError(
            f"document {key!r}: chunk {number} is two whole numbers, (start, end), not {format_value(bounds)}"
        ) from None
    return start, end


def _check_length(key: str, piece: str, label: str) -> None:
    """Raise InputError if a chunk is too long; ``label`` names it in the message."""
    length = len(piece.encode(errors="replace"))
    if length > MAX_OWN_CHUNK_BYTES:
        raise InputError(
            f"document {key!r}: {label} has {length:,} bytes; the limit is {MAX_OWN_CHUNK_BYTES:,}: split it, or omit "
            "chunks"
        )


def pack_chunks(chunks: OwnChunks) -> str | list[int] | None:
    """Return chunks as a record stores them: None, ``whole``, or a gap and a length per chunk."""
    if chunks is None or chunks == "whole":
        return chunks
    packed: list[int] = []
    previous_end = 0
    for start, end in chunks:
        packed += start - previous_end, end - start
        previous_end = end
    return packed


def unpack_chunks(packed: str | Sequence[int] | None) -> OwnChunks:
    """Return the chunks that :func:`pack_chunks` stored in a record."""
    if packed is None or isinstance(packed, str):
        return None if packed is None else "whole"
    spans: list[tuple[int, int]] = []
    previous_end = 0
    for gap, length in zip(packed[::2], packed[1::2], strict=True):
        spans.append((previous_end + gap, previous_end + gap + length))
        previous_end += gap + length
    return tuple(spans)
