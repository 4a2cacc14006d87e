"""The metadata index on disk: the keys of values, and the sets of documents with a value. A set is stored in
*containers* of 8,192 consecutive ids; the *offset* of a document is its position in its container. An *unclear* value,
such as a long text, has no key of its own.

Keys sort in the order in which SQLite compares values. In: a document's record and language. Out: a key for each value
that a condition can ask for: its title, source and language, the fields of its metadata, and the elements of lists in
these. A key is the location of the value (a space, and the path of field names), followed by the value. Numbers sort
before texts. Numbers, whole or not, sort by size, and texts by their UTF-8 bytes. A value without such a key (a long
text, a list, an object, a text with a NUL) is *unclear*: a separate key lists the documents that have one, and SQLite
evaluates conditions on it.

Sets of documents are bitmaps divided into containers. In: the offsets of documents in a container, below 8,192. On
disk: the smallest of three forms, as in roaring bitmaps (Chambi, Lemire et al. 2016): the offsets, runs of offsets, or
one bit each. Equal sets have equal bytes. Out: the offsets, or a mask over all documents. A container that fails its
checksum raises CorruptionError.
"""

from __future__ import annotations

import math
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from operator import sub
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import CorruptionError
from ...storage import records
from ...structures.documents.documents import TEXT_COLUMNS, DocumentRecord

#: The space of a value: a column of the ``documents`` table, a field of the metadata, an element of such a field.
COLUMN, FIELD, ELEMENT = b"\x01", b"\x02", b"\x03"
#: The column that only the index has.
LANGUAGE_COLUMN = "language"
#: The kind, after the names: a value that is not null, an unclear value, a number, a text.
NOT_NULL, UNCLEAR, NUMBER, TEXT = b"\x01", b"\x02", b"\x10", b"\x20"
#: Sorts after every kind of value.
AFTER_TEXT = b"\x21"
#: The end of a path or text, and the separator of the names in a path.
_TERMINATOR, _SEPARATOR = b"\x00", b"\x1f"
#: The key of the documents with more values than :data:`_MAX_VALUES`: all their metadata is unclear.
UNINDEXED_KEY = b"\x04" + _TERMINATOR + UNCLEAR

#: The limits of indexed fields: the length of a path and of a text in bytes, the nesting, the values per document.
_MAX_NAME_BYTES, _MAX_TEXT_BYTES = 120, 200
_MAX_DEPTH, _MAX_VALUES = 4, 512
#: A number in a key: the sortable bits of the nearest double, the difference from it plus :data:`_REMAINDER_ZERO`, and
#: 0 for an integer or 1 for a float.
_NUMBER_STRUCT = struct.Struct(">QHB")
_REMAINDER_ZERO = 1 << 15
_DOUBLE_STRUCT, _U64_STRUCT = struct.Struct(">d"), struct.Struct(">Q")
_SIGN_BIT, _ALL_BITS = 1 << 63, (1 << 64) - 1
_INT64 = range(-(1 << 63), 1 << 63)
#: The limits up to which a decimal number takes one rounding to a double.
_MAX_EXACT_DIGITS, _MAX_EXACT_EXPONENT = 15, 15
#: A parser of decimal numbers reads a double that is at most this many doubles away from the nearest one.
_MAX_PARSE_ERROR = 16


@lru_cache(maxsize=1024)  # documents share fields
def encode_field_prefix(names: tuple[str, ...]) -> bytes | None:
    """Return the prefix of the index keys of a field's values, or None if the field is not indexed.

    A field is not indexed if its path has too many names or bytes, or if a name is empty or needs escapes in JSON.
    """
    if not 0 < len(names) <= _MAX_DEPTH or not all(map(_is_plain, names)):
        return None
    path = _SEPARATOR.join(name.encode() for name in names)
    return FIELD + path + _TERMINATOR if len(path) <= _MAX_NAME_BYTES else None


def encode_column_prefix(name: str) -> bytes:
    """Return the prefix of the index keys of the values in a column of texts of the ``documents`` table."""
    return COLUMN + name.encode() + _TERMINATOR


#: The prefix of the keys of each indexed column of texts.
_TEXT_COLUMN_PREFIXES = {name: encode_column_prefix(name) for name in TEXT_COLUMNS}


def encode_value(value: Any) -> bytes | None:
    """Encode a value as the last part of an index key (kind and value); return None if it cannot be indexed.

    True and False are encoded as 1 and 0. Not indexed are null, lists, objects, integers beyond 64 bits, and texts that
    have more than 200 bytes or a NUL.
    """
    if isinstance(value, (bool, int)):
        return encode_number(value) if value in _INT64 else None
    if isinstance(value, float):
        return encode_number(value)
    if isinstance(value, str):
        return encode_text_value(value)
    return None


def encode_text_value(text: str) -> bytes | None:
    """Encode a text as the last part of an index key; return None if it has more than 200 bytes or a NUL."""
    packed = text.encode()
    is_indexed = len(packed) <= _MAX_TEXT_BYTES and _TERMINATOR not in packed
    return TEXT + packed + _TERMINATOR if is_indexed else None


def encode_number(number: float) -> bytes:
    """Encode a 64-bit number as the last part of an index key.

    Keys sort by value; an integer sorts before an equal float.
    """
    is_integer = isinstance(number, int)
    nearest_double = float(number)
    # Integers beyond 2**53 are distinguished by their difference from the nearest double, stored with an offset so that
    # it is never negative.
    remainder = int(number) - int(nearest_double) if is_integer else 0
    is_float = 0 if is_integer else 1
    return NUMBER + _NUMBER_STRUCT.pack(_to_sortable_bits(nearest_double), remainder + _REMAINDER_ZERO, is_float)


def encode_number_bound(number: float) -> bytes:
    """Return the common prefix of the keys of an integer and an equal float. Keys of smaller numbers sort before it."""
    return encode_number(number)[:-1]  # the last byte says if the number is a float


def decode_value(key: bytes) -> str | float:
    """Return the text or number encoded in the last part of an index key; ``key`` begins with the kind of the value."""
    if key[:1] == TEXT:
        return key[1:-1].decode()
    bits, remainder, is_float = _NUMBER_STRUCT.unpack(key[1:])
    # The inverse of `_to_sortable_bits`.
    number: float = _DOUBLE_STRUCT.unpack(_U64_STRUCT.pack(bits ^ (_SIGN_BIT if bits & _SIGN_BIT else _ALL_BITS)))[0]
    return number if is_float else int(number) + remainder - _REMAINDER_ZERO


def is_exact_decimal(number: float) -> bool:
    """True if every parser returns the same number for the decimal text that Python writes for ``number``.

    This is certain for an integer, and for a float of at most 15 digits and a small power of ten, which is parsed with
    one rounding (Clinger 1990, How to read floating point numbers accurately). For other floats, SQLite can return a
    neighboring float.
    """
    if isinstance(number, int):
        return True
    digits, _, exponent = repr(abs(number)).partition("e")
    num_digits = len(digits.replace(".", "").strip("0"))
    return num_digits <= _MAX_EXACT_DIGITS and abs(int(exponent or 0)) <= _MAX_EXACT_EXPONENT


def compute_parse_range(number: float) -> tuple[float, float]:
    """Return the least and the greatest double that a parser could return for the decimal form of ``number``."""
    lowest = highest = float(number)
    for _ in range(_MAX_PARSE_ERROR):
        lowest, highest = math.nextafter(lowest, -math.inf), math.nextafter(highest, math.inf)
    return lowest, highest


def build_index_keys(record: DocumentRecord, language: str | None) -> set[bytes]:
    """Return the index keys of a document's values: text columns and metadata.

    ``language`` is the code of its language, or None. Metadata with more than 512 keys has only :data:`UNINDEXED_KEY`.
    """
    keys = set[bytes]()
    for name in TEXT_COLUMNS:
        value = language if name == LANGUAGE_COLUMN else getattr(record, name)
        if value is not None:
            keys.update(_make_value_keys(_TEXT_COLUMN_PREFIXES[name], encode_value(value)))
    metadata_keys = set[bytes]()
    for key in _iter_metadata_keys(record.meta, parents=()):
        metadata_keys.add(key)
        if len(metadata_keys) > _MAX_VALUES:
            metadata_keys = {UNINDEXED_KEY}
            break
    return keys | metadata_keys


def _iter_metadata_keys(fields: Mapping[str, Any], parents: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the index keys of all values in ``fields``, the object at the path ``parents`` in a document's metadata.

    An empty path is the metadata itself. Null values and paths that are too long or deep are skipped. A value that
    cannot be encoded, such as a long text, has the key :data:`UNCLEAR`.
    """
    for name, value in fields.items():
        names = (*parents, name)
        field_prefix = encode_field_prefix(names)
        if field_prefix is None or value is None:
            continue
        element_prefix = ELEMENT + field_prefix[1:]  # the first byte, FIELD or ELEMENT, is the space
        encoded_value = encode_value(value)
        yield from _make_value_keys(field_prefix, encoded_value)
        if isinstance(value, list):
            for element in value:
                key = encode_value(element)
                yield element_prefix + (UNCLEAR if key is None else key)
        elif encoded_value is None:  # a condition on elements also applies to a value that is not a list
            yield element_prefix + UNCLEAR
        if isinstance(value, dict):
            yield from _iter_metadata_keys(value, names)


def _make_value_keys(field_prefix: bytes, encoded_value: bytes | None) -> tuple[bytes, bytes]:
    """Return the key that records that a field is not NULL, and the key of its value.

    Values that cannot be indexed (``encoded_value`` is None) share one key.
    """
    return field_prefix + NOT_NULL, field_prefix + (UNCLEAR if encoded_value is None else encoded_value)


def _is_plain(name: str) -> bool:
    """True if a field name is not empty and needs no escapes in JSON: no control character, quote or backslash."""
    return bool(name) and min(name) > "\x1f" and '"' not in name and "\\" not in name


def _to_sortable_bits(number: float) -> int:
    """Return the bits of a double as an unsigned integer with the same order.

    All bits of a negative number are inverted, and the sign bit of a positive one is set.
    """
    if not math.isfinite(number):  # NaN becomes infinity, because JSON has neither
        number = math.copysign(math.inf, number)
    bits: int = _U64_STRUCT.unpack(_DOUBLE_STRUCT.pack(number + 0.0))[0]  # + 0.0: -0.0 becomes 0.0
    return bits ^ (_ALL_BITS if bits & _SIGN_BIT else _SIGN_BIT)


DOCUMENTS_PER_CONTAINER = 8192
#: Bytes at the end of a container's key that hold the container's index.
CONTAINER_INDEX_BYTES = 4
_LIST, _RUNS, _BITS = 0, 1, 2
#: The first byte of containers with runs and with bits.
_RUNS_BYTE, _BITS_BYTE = bytes((_RUNS,)), bytes((_BITS,))
_BITMAP_BYTES = DOCUMENTS_PER_CONTAINER // 8
#: Python lists up to this many bits of a container faster than numpy, which takes 20 microseconds for any number.
_MAX_SINGLE_BITS = 20
_SINGLE_NUMBER_STRUCT = struct.Struct("<BH")
#: Bytes of a container of one document.
_SINGLE_NUMBER_BYTES = _SINGLE_NUMBER_STRUCT.size + records.CHECKSUM.size

ContainerNumbers = npt.NDArray[np.uint16]
#: True for each document of a set, by document id.
DocumentMask = npt.NDArray[np.bool_]


def pack_container(offsets: Iterable[int]) -> bytes:
    """Encode distinct offsets of documents, below 8,192, as a container with a checksum.

    The container has the smallest of three forms: a list of offsets, runs of offsets, or one bit for each offset.
    """
    sorted_offsets = sorted(offsets)
    differences = list(map(sub, sorted_offsets[1:], sorted_offsets))
    num_runs = len(sorted_offsets) - differences.count(1)  # a difference of 1 continues a run
    # A list if it is no larger than runs and smaller than a bitmap: two bytes per offset, four bytes per run.
    if 2 * len(sorted_offsets) <= min(4 * num_runs, _BITMAP_BYTES - 1):
        return records.seal(struct.pack(f"<B{len(sorted_offsets)}H", _LIST, *sorted_offsets))
    flags = np.zeros(DOCUMENTS_PER_CONTAINER, np.bool_)
    flags[sorted_offsets] = True
    return _pack_bits(int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little"))


def _pack_bits(bits: int) -> bytes:
    """Encode the positions of the set bits of an integer, which are offsets of documents, as a container.

    The container has a checksum, and the smallest of three forms: a list, runs, or bits.
    """
    # ``run_starts`` has the first bit of each run of set bits, ``run_ends`` the last.
    run_starts, run_ends = bits & ~(bits << 1), bits & ~(bits >> 1)
    list_bytes, run_bytes = 2 * bits.bit_count(), 4 * run_starts.bit_count()
    if min(list_bytes, run_bytes) >= _BITMAP_BYTES:
        return records.seal(_BITS_BYTE + bits.to_bytes(_BITMAP_BYTES, "little"))
    if list_bytes <= run_bytes:
        return records.seal(struct.pack(f"<B{list_bytes // 2}H", _LIST, *_list_bits(bits)))
    runs = chain.from_iterable(zip(_list_bits(run_starts), _list_bits(run_ends), strict=True))
    return records.seal(struct.pack(f"<B{run_bytes // 2}H", _RUNS, *runs))


def _list_bits(bits: int) -> list[int]:
    """Return the position of each set bit of an integer, ascending."""
    if bits.bit_count() > _MAX_SINGLE_BITS:
        packed = np.frombuffer(bits.to_bytes(_BITMAP_BYTES, "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(packed, bitorder="little")).tolist()
    positions = []
    while bits:
        positions.append((bits & -bits).bit_length() - 1)  # of the lowest set bit
        bits &= bits - 1  # clears it
    return positions


def change_container(
    old_container: memoryview | None, added_offsets: set[int], removed_offsets: set[int], table: str, key: bytes
) -> bytes | None:
    """Return the new bytes of a container (a set of document offsets) after a change, or None if it becomes empty.

    ``removed_offsets`` are removed before ``added_offsets`` are added. ``old_container`` is None for a new set.
    Raises CorruptionError, with ``table`` and ``key``, if it is damaged. A container has one of three forms: a list of
    offsets, runs of offsets, or one bit for each offset.
    """
    encoding = b"" if old_container is None else bytes(old_container[:1])
    if old_container is not None and encoding == _RUNS_BYTE:
        boundaries = _unpack_boundaries(old_container, table, key)
        for is_added, offsets in ((False, removed_offsets), (True, added_offsets)):
            for offset in offsets:
                # An offset in a run is after an odd number of boundaries.
                if (bisect_right(boundaries, offset) % 2 == 1) != is_added:
                    _toggle_offset(boundaries, offset)
        return _pack_boundaries(boundaries) if boundaries else None
    if old_container is not None and encoding == _BITS_BYTE:
        # One integer, because Python changes and counts a few of its bits much faster than numpy does.
        bits = int.from_bytes(records.unseal(old_container, table, key)[1:], "little")
        if not 0 < bits < 1 << DOCUMENTS_PER_CONTAINER:
            raise _make_corruption_error(table, key)
        for offset in removed_offsets:
            bits &= ~(1 << offset)
        for offset in added_offsets:
            bits |= 1 << offset
        return _pack_bits(bits) if bits else None
    old_offsets = [] if old_container is None else unpack_container(old_container, table, key).tolist()
    new_offsets = {*old_offsets} - removed_offsets | added_offsets
    return pack_container(new_offsets) if new_offsets else None


def build_mask(containers: Iterable[tuple[bytes, memoryview]], num_documents: int, table: str) -> DocumentMask:
    """Return the union of containers (stored parts of sets of documents) as a mask over ``num_documents`` ids.

    ``containers`` are pairs of a key and a container; a key ends with the index of the container. Raises
    CorruptionError, with ``table``, for a damaged container.
    """
    mask = np.zeros(num_documents, np.bool_)
    single_ids: list[int] = []
    for key, container in containers:
        first_document = records.U32.unpack_from(key, len(key) - CONTAINER_INDEX_BYTES)[0] * DOCUMENTS_PER_CONTAINER
        # Most containers have one document. Decoding them here is faster.
        if len(container) == _SINGLE_NUMBER_BYTES and container[0] == _LIST:
            body = container[: _SINGLE_NUMBER_STRUCT.size]
            (checksum,) = records.CHECKSUM.unpack_from(container, _SINGLE_NUMBER_STRUCT.size)
            if zlib.crc32(body) == checksum:
                single_ids.append(first_document + body[1] + (body[2] << 8))  # an offset of two bytes
                continue
        mask[unpack_container(container, table, key).astype(np.intp) + first_document] = True
    mask[single_ids] = True
    return mask


def unpack_container(container: memoryview, table: str, key: bytes) -> ContainerNumbers:
    """Return the document offsets in a container (a part of a set), ascending; raise CorruptionError if it is damaged.

    ``table`` and ``key`` appear in the error.
    """
    body = records.unseal(container, table, key)
    encoding = body[0] if len(body) else -1
    try:
        if encoding == _LIST:
            return np.frombuffer(body, "<u2", offset=1)
        if encoding == _BITS and len(body) == 1 + _BITMAP_BYTES:
            bits = np.unpackbits(np.frombuffer(body, np.uint8, offset=1), bitorder="little")
            return np.flatnonzero(bits).astype(np.uint16)
        if encoding == _RUNS:
            return _expand_runs(np.frombuffer(body, "<u2", offset=1).reshape(-1, 2).astype(np.int64))
    except ValueError:
        pass
    raise _make_corruption_error(table, key)


def unpack_bits(container: memoryview, table: str, key: bytes) -> int:
    """Return a container, a set of document offsets, as an integer with a bit for each offset.

    Raises CorruptionError, with ``table`` and ``key``, if it is damaged.
    """
    if container[:1] == _BITS_BYTE:
        body = records.unseal(container, table, key)
        if len(body) == 1 + _BITMAP_BYTES:
            return int.from_bytes(body[1:], "little")
    if container[:1] == _RUNS_BYTE:
        return _set_bits_of_runs(_unpack_boundaries(container, table, key))
    offsets = unpack_container(container, table, key)
    if len(offsets) <= _MAX_SINGLE_BITS:
        return sum(1 << offset for offset in offsets.tolist())
    flags = np.zeros(DOCUMENTS_PER_CONTAINER, np.bool_)
    flags[offsets] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _unpack_boundaries(container: memoryview, table: str, key: bytes) -> list[int]:
    """Return the boundaries of the runs in a container, ascending: the first offset of each and the offset after it.

    Raises CorruptionError if the container is damaged or empty.
    """
    body = records.unseal(container, table, key)
    # After the byte of the encoding, the first and the last offset of each run, two bytes each.
    has_valid_size = len(body) % 4 == 1
    boundaries = list(struct.unpack(f"<{len(body) // 2}H", body[1:])) if has_valid_size else []
    boundaries[1::2] = [last + 1 for last in boundaries[1::2]]
    if not boundaries or boundaries[-1] > DOCUMENTS_PER_CONTAINER:
        raise _make_corruption_error(table, key)
    return boundaries


def _pack_boundaries(boundaries: list[int]) -> bytes:
    """Encode a set of document offsets as a container with a checksum: a list, runs or bits, whichever is smallest.

    ``boundaries`` has, for each run of consecutive offsets, the first offset and the offset after the run, ascending.
    """
    starts, ends = boundaries[::2], boundaries[1::2]
    num_offsets = sum(ends) - sum(starts)
    list_bytes, run_bytes = 2 * num_offsets, 4 * len(starts)
    if run_bytes >= min(list_bytes, _BITMAP_BYTES):
        # Runs are not the smallest form, so ``_pack_bits`` encodes a list or bits.
        return _pack_bits(_set_bits_of_runs(boundaries))
    runs = boundaries.copy()  # the first and the last offset of each run
    runs[1::2] = [end - 1 for end in ends]
    return records.seal(struct.pack(f"<B{len(runs)}H", _RUNS, *runs))


def _set_bits_of_runs(boundaries: list[int]) -> int:
    """Return an integer with a bit for each offset in the runs with these boundaries (:func:`_pack_boundaries`)."""
    # (1 << end) - (1 << start) has the bits of a run set.
    return sum((1 << end) - (1 << start) for start, end in zip(boundaries[::2], boundaries[1::2], strict=True))


def _toggle_offset(boundaries: list[int], offset: int) -> None:
    """Add an offset to runs of offsets, or remove it if it is in a run, in place.

    ``boundaries`` has the first offset of each run and the offset after the run. In both cases, the boundaries at the
    offset and at the next offset are toggled: removed if they exist, otherwise added.
    """
    for boundary in (offset, offset + 1):
        position = bisect_left(boundaries, boundary)
        if boundaries[position : position + 1] == [boundary]:
            del boundaries[position]
        else:
            boundaries.insert(position, boundary)


def _make_corruption_error(table: str, key: bytes) -> CorruptionError:
    """Return the error for a damaged container (a stored set of documents) in ``table``, under ``key``."""
    return CorruptionError(f"table {table}, key {key.hex()}: the value is not a set of documents; run CHECK REPAIR")


def _expand_runs(runs: npt.NDArray[np.int64]) -> ContainerNumbers:
    """Return all offsets in runs of consecutive offsets, ascending.

    ``runs`` has the first and the last offset of each run, shape (runs, 2).
    """
    first_offsets, last_offsets = runs.T
    lengths = last_offsets - first_offsets + 1
    starts = np.cumsum(lengths) - lengths  # the index of each run in the result
    return (np.repeat(first_offsets - starts, lengths) + np.arange(int(lengths.sum()))).astype(np.uint16)
