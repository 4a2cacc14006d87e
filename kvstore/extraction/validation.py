"""Validation of the fields of a document, before anything but its digest is derived from it. The *own chunks* of a
document are set by the user, in place of automatic chunking. ``left_out`` is the number of characters of the source
page that were removed as navigation.

In: a key, a text, and the document's other fields. Out: a :class:`ValidDocument`. Its digest shows if the store already
has the same document, before any expensive work. An invalid document is an InputError.

The user's chunks are the whole document, or spans of its text. In: the ``chunks`` argument given with a document. Out:
checked :data:`OwnChunks`, in characters of the text with ``\\n``
line ends. On disk, in the document's record: None, ``whole``, or two numbers per chunk: the distance in characters from
the end of the previous chunk (or the beginning of the text), and the length.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..arguments import check_integer, format_value, to_plain_value
from ..errors import InputError
from ..storage.records import pack

if TYPE_CHECKING:
    from ..models.protocol import Embeddings

#: The chunking of a document: automatic (None), one chunk, or these spans in characters, end excluded.
OwnChunks = Literal["whole"] | tuple[tuple[int, int], ...] | None
#: The maximum size of a chunk in bytes, so that offsets inside it fit 16 bits.
MAX_OWN_CHUNK_BYTES = 65_535
#: The maximum depth of nested lists and objects in metadata, so that every later encoding of them succeeds.
MAX_METADATA_DEPTH = 100


def parse_own_chunks(key: str, chunks: str | Sequence[Sequence[int]], text: str) -> OwnChunks:
    """Check the user's chunks of a document; return ``whole``, or their offsets in the text with ``\\n`` line ends.

    ``whole`` makes the text one chunk. A list ``chunks`` has offsets in ``text``, in characters, with any line ends.
    Raises InputError.
    """
    if isinstance(chunks, str):
        if chunks != "whole":
            raise InputError(f"document {key!r}: chunks must be 'whole' or a list of (start, end), not {chunks!r}")
        _check_length(key, text.replace("\r\n", "\n"), "the chunk of the whole text")
        return "whole"
    spans: list[tuple[int, int]] = []
    previous_end = 0
    num_dropped = 0  # carriage returns removed from CRLF line ends so far
    for ordinal, bounds in enumerate(chunks):
        start, end = _parse_span(key, ordinal, bounds)
        if not previous_end <= start < end <= len(text):
            raise InputError(
                f"document {key!r}: chunk {ordinal} is ({start:,}, {end:,}), not between {previous_end:,} and "
                f"{len(text):,}: chunks must be in order and must not overlap; store overlapping texts as separate "
                "documents"
            )
        chunk = text[start:end]
        if not chunk.strip():
            raise InputError(f"document {key!r}: chunk {ordinal}, ({start:,}, {end:,}), is blank; remove it")
        _check_length(key, chunk, f"chunk {ordinal}")
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


def _parse_span(key: str, ordinal: int, bounds: Any) -> tuple[int, int]:
    """Return (start, end), the ``bounds`` of a chunk as integers. Raises InputError if they are not two integers.

    The message identifies the document by its ``key``, and the chunk by its ``ordinal``.
    """
    try:
        start, end = (operator.index(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InputError(
            f"document {key!r}: chunk {ordinal} must be two whole numbers, (start, end), not {format_value(bounds)}"
        ) from None
    return start, end


def _check_length(key: str, chunk: str, label: str) -> None:
    """Raise InputError if ``chunk``, the text of a user's chunk, is too long.

    The message identifies the document by its ``key``, and the chunk by ``label``.
    """
    length = len(chunk.encode(errors="replace"))
    if length > MAX_OWN_CHUNK_BYTES:
        raise InputError(
            f"document {key!r}: {label} has {length:,} bytes; the limit is {MAX_OWN_CHUNK_BYTES:,}: split it, or omit "
            "chunks"
        )


def pack_chunks(chunks: OwnChunks) -> str | list[int] | None:
    """Encode the user's chunks for a document's record: as None, ``whole``, or a list of two numbers per chunk.

    None means that kvstore chunks the document, and ``whole`` that it is one chunk. The numbers are the gap after the
    previous chunk and the length, in characters.
    """
    if chunks is None or chunks == "whole":
        return chunks
    packed: list[int] = []
    previous_end = 0
    for start, end in chunks:
        packed += start - previous_end, end - start
        previous_end = end
    return packed


def unpack_chunks(packed: str | Sequence[int] | None) -> OwnChunks:
    """Decode the chunks that the user set for a document, as in its record.

    Returns None if kvstore chunks the document, "whole" if it is one chunk, else the (start, end) of each chunk in
    characters. A list ``packed`` has two numbers per chunk: the gap after the previous chunk and the length.
    """
    if packed is None:
        return None
    if isinstance(packed, str):  # always "whole"
        return "whole"
    spans: list[tuple[int, int]] = []
    previous_end = 0
    for gap, length in zip(packed[::2], packed[1::2], strict=True):
        spans.append((previous_end + gap, previous_end + gap + length))
        previous_end += gap + length
    return tuple(spans)


#: The format of a document with the rows of a tree instead of text.
PAIRS_FORMAT = "pairs"
FORMATS = ("text", "markdown", PAIRS_FORMAT)
#: The maximum size of the text of one document in bytes.
MAX_TEXT_BYTES = 32 << 20
#: The maximum size of a document key in bytes.
MAX_KEY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ValidDocument:
    """A document as given, with ``\\n`` line ends; ``digest`` changes if any part of it does.

    ``left_out`` is the number of characters of the source page that were removed as navigation. ``own_chunks`` are the
    chunks set by the user, in characters of the text.
    """

    key: str
    title: str | None
    source: str | None
    format: str
    meta: dict[str, Any]
    text: bytes
    digest: bytes
    left_out: int = 0
    own_chunks: OwnChunks = None


def validate(
    key: str,
    text: str,
    *,
    title: str | None = None,
    source: str | None = None,
    meta: Mapping[str, Any] | None = None,
    format: str = "text",
    left_out: int = 0,
    chunks: str | Sequence[Sequence[int]] | None = None,
) -> ValidDocument:
    """Check the fields of a document and return a :class:`ValidDocument`. Raises InputError if one is invalid.

    ``source`` is the file that the document comes from, ``meta`` is its metadata, and ``format`` is ``text``,
    ``markdown`` or ``pairs`` (rows of a tree). ``left_out`` is the number of characters of the source page that were
    removed as navigation. ``chunks`` are the chunks that the user sets: ``whole``, or spans in characters; None to
    chunk automatically.
    """
    check_integer("left_out", left_out, 0, MAX_TEXT_BYTES)
    for field, value in (("key", key), ("text", text), ("title", title), ("source", source)):
        if not isinstance(value, str) and (value is not None or field in ("key", "text")):
            subject = f"document {key!r}: its" if isinstance(key, str) and field != "key" else "a document's"
            raise InputError(f"{subject} {field} must be a string, not {type(value).__name__}")
    if meta is not None and not isinstance(meta, Mapping):
        raise InputError(
            f"document {key!r}: metadata must be a mapping of names to JSON values, not {type(meta).__name__}"
        )
    original_text, text = text, text.replace("\r\n", "\n").replace("\r", "\n")
    encoded = _validate_and_encode(key, text, format)
    if chunks is not None and format == PAIRS_FORMAT:
        raise InputError(f"document {key!r} consists of pairs, which have no chunks; omit chunks")
    own_spans = None if chunks is None else parse_own_chunks(key, chunks, original_text)
    try:
        metadata = _to_json_values(meta) if meta else {}
        pack(metadata)  # raises an error for values that a record cannot store, such as very large integers
        digest = compute_digest(title, source, metadata, format, encoded, left_out=left_out, own_chunks=own_spans)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _make_record_error(key, meta or {}, error) from None
    return ValidDocument(
        key=key,
        title=title,
        source=source,
        format=format,
        meta=metadata,
        text=encoded,
        digest=digest,
        left_out=left_out,
        own_chunks=own_spans,
    )


def _make_record_error(key: str, meta: Mapping[str, Any], error: Exception) -> InputError:
    """Return the InputError for ``error``; it names the first field of ``meta`` that a record cannot store, if any."""
    for name, value in meta.items():
        try:
            values = _to_json_values({name: value})
            pack(values)
            _DIGEST_ENCODER.encode(values).encode()
        except (TypeError, ValueError, OverflowError, RecursionError) as field_error:
            return InputError(f"document {key!r}: invalid metadata field {name!r}: {_explain(field_error)}")
    return InputError(
        f"document {key!r}: its title and source must be strings, and its metadata must be JSON values: "
        f"{_explain(error)}"
    )


def _explain(error: Exception) -> str:
    """Return the reason for an error of a record, with a remedy if the error's own message has none."""
    if str(error).startswith("Out of range float"):  # json's message for an infinity
        return "infinity is not a JSON value; store None or text"
    if str(error).startswith("Circular reference"):  # json's message for a list or mapping that contains itself
        return "a list or a mapping contains itself; copy it without that reference"
    if isinstance(error, UnicodeEncodeError):
        return "it contains half of a surrogate pair, which is not valid text; replace or remove it"
    return _REASONS.get(type(error), str(error))


def _to_json_values(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a document's metadata to the JSON values that an export would contain.

    For example, keys become strings, dates become ISO 8601 strings, and NaN becomes None. Raises TypeError for a value
    without a JSON form, ValueError for two equal keys or a value that contains itself, and RecursionError for deep
    nesting.
    """
    if all(type(name) is str and name.isascii() and _is_json_value(value) for name, value in meta.items()):
        return dict(meta)  # the common case
    values: dict[str, Any] = json.loads(
        _METADATA_ENCODER.encode(dict(meta)),
        parse_constant=_CONSTANTS.__getitem__,  # NaN becomes None; compute_digest rejects infinities
        object_pairs_hook=_build_object,
    )
    _check_depth(values, MAX_METADATA_DEPTH)
    return values


def _check_depth(value: object, max_depth: int) -> None:
    """Raise RecursionError if lists and objects of JSON are nested more than ``max_depth`` deep."""
    if isinstance(value, (dict, list)):
        if not max_depth:
            raise RecursionError
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, max_depth - 1)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, given as (key, value) pairs, as a dictionary; this is a hook of json.loads.

    Raises ValueError if two keys, such as 1 and "1", have become the same string.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two of its keys are the same string {repeated!r} in JSON; rename one")
    return values


def _is_json_value(value: object) -> bool:
    """True if JSON certainly represents a value unchanged.

    For a string, this is certain only if it is ASCII, because JSON joins surrogate pairs.
    """
    return value.isascii() if type(value) is str else type(value) in _PLAIN_TYPES


def _encode_value(value: object) -> str | int | float | None:
    """Convert a date or time to ISO 8601, or a scalar of numpy or pandas to a JSON value (None if it is missing).

    Raises TypeError for any other object; json calls this function for values that it cannot encode.
    """
    plain_value = to_plain_value(value)
    if plain_value is None or isinstance(plain_value, (str, int, float)):
        return plain_value
    raise TypeError(f"{type(value).__name__} is not a JSON value; use text, a number, a list or a mapping")


#: The types of the values, other than strings, that JSON represents as they are.
_PLAIN_TYPES = frozenset((int, bool, type(None)))
#: The reasons for errors whose own messages do not mention the limit.
_REASONS = {
    OverflowError: "a whole number does not fit into 64 bits; store it as a string",
    RecursionError: f"lists and objects are nested more than {MAX_METADATA_DEPTH} levels deep; flatten them",
}
#: The values of JavaScript's constants. Infinities are not JSON values; compute_digest rejects them.
_CONSTANTS = {"NaN": None, "Infinity": math.inf, "-Infinity": -math.inf}
#: Encoders are created once, because creating one takes longer than a small encoding.
_METADATA_ENCODER = json.JSONEncoder(default=_encode_value)
_DIGEST_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False)


def compute_digest(
    title: str | None,
    source: str | None,
    meta: Mapping[str, Any],
    format: str,
    text: bytes,
    vectors: bytes = b"",
    left_out: int = 0,
    own_chunks: OwnChunks = None,
) -> bytes:
    """Return a digest of 16 bytes (BLAKE2b) that changes if any field of a document does.

    ``vectors`` are the bytes of the vectors supplied by the user, if any; ``left_out`` is the number of characters
    removed as navigation, and ``own_chunks`` are the chunks that the user set. Fields that older stores lack are
    omitted if they have their default, so that the digests of stored documents stay valid. Raises ValueError if
    ``meta`` contains an infinity.
    """
    fields: list[Any] = [title, source, meta, format, len(vectors)]
    if left_out:
        fields.append(left_out)
    if own_chunks is not None:
        fields.append(["chunks", pack_chunks(own_chunks)])
    header = _DIGEST_ENCODER.encode(fields).encode()
    import hashlib  # imported here because it loads all of OpenSSL, and deleting documents does not need it

    digest = hashlib.blake2b(len(header).to_bytes(8, "big"), digest_size=16)
    for data in (header, vectors, text):
        digest.update(data)
    return digest.digest()


Document = TypeVar("Document", bound=ValidDocument)


def add_vectors_to_digest(document: Document, vectors: Embeddings) -> Document:
    """Return the document with a digest that includes the user's own vectors.

    The vectors have shape (chunks, dimension).
    """
    return replace(document, digest=compute_document_digest(document, vectors.astype("<f4").tobytes()))


def compute_document_digest(document: ValidDocument, vectors: bytes = b"") -> bytes:
    """Return the digest (16 bytes) of the fields of a document and of ``vectors``, the bytes of the user's vectors."""
    return compute_digest(
        document.title,
        document.source,
        document.meta,
        document.format,
        document.text,
        vectors=vectors,
        left_out=document.left_out,
        own_chunks=document.own_chunks,
    )


def _validate_and_encode(key: str, text: str, format: str) -> bytes:
    """Return a document's text in UTF-8. Raises InputError if its key, format or text is invalid."""
    if not key:
        raise InputError("a document's key is empty; choose a key of at least 1 byte")
    if len(key.encode("utf-8", "replace")) > MAX_KEY_BYTES:
        raise InputError(
            f"a document's key must have 1 to {MAX_KEY_BYTES:,} bytes, not {len(key):,} characters; shorten it"
        )
    if format not in FORMATS:
        raise InputError(f"document {key!r}: its format must be one of {', '.join(FORMATS)}, not {format!r}")
    if not text.strip():
        raise InputError(f"document {key!r} is empty; give it some text, or delete it")
    try:
        key.encode()
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"document {key!r}: character {error.start:,} is half of a surrogate pair, which is not valid text; remove "
            "it"
        ) from None
    if len(encoded) > MAX_TEXT_BYTES:
        raise InputError(
            f"document {key!r} has {len(encoded):,} bytes of text; the limit is {MAX_TEXT_BYTES:,}: "
            "split it into several documents"
        )
    return encoded
