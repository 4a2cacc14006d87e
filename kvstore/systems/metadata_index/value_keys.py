"""Values of documents as keys that sort as SQLite compares values.

In: a document's record. Out: a key for each value that a condition can ask for: of its title and source, of the fields
of its metadata, and of the elements of lists among these. A key is where the value is found (a space, the names of the
fields that lead to it), then the value: numbers before texts, numbers by size whether whole or not, texts by their
bytes in UTF-8. What has no such key (long texts, lists, objects, texts with a NUL) is *unclear*: a key of its own says
which documents have it, and a condition on it is for SQLite to judge.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...structures.documents.documents import DocumentRecord

#: Where a value is found: a column of the table ``documents``, a field of the metadata, an element of such a field.
COLUMN, FIELD, ELEMENT = b"\x01", b"\x02", b"\x03"
#: What follows the names: that there is a value which is not null, that it is unclear, a number, a text.
PRESENT, UNCLEAR, NUMBER, TEXT = b"\x01", b"\x02", b"\x10", b"\x20"
#: Follows every kind of value.
AFTER_TEXT = b"\x21"
#: Documents with more values than :data:`_MAX_VALUES`: all their metadata is unclear.
CROWDED = b"\x04"

#: Columns of documents that are kept by value.
TEXT_COLUMNS = ("title", "source")

_TERMINATOR, _SEPARATOR = b"\x00", b"\x1f"
_MAX_NAME_BYTES, _MAX_TEXT_BYTES = 120, 200
_MAX_DEPTH = 4
_MAX_VALUES = 512
_NUMBER = struct.Struct(">QHB")
_DOUBLE, _U64 = struct.Struct(">d"), struct.Struct(">Q")
_SIGN = 1 << 63
_MIDDLE = 1 << 15
_INT64 = range(-(1 << 63), 1 << 63)


def encode_names(space: bytes, names: Sequence[str]) -> bytes | None:
    """The beginning of the keys of a field's values; None for a field of which none are kept.

    These have a name that is empty, or that JSON writes in other characters than its own, or lie too deep.
    """
    if not 0 < len(names) <= _MAX_DEPTH or not all(map(_is_plain, names)):
        return None
    joined = _SEPARATOR.join(name.encode() for name in names)
    return space + joined + _TERMINATOR if len(joined) <= _MAX_NAME_BYTES else None


def encode_column(name: str) -> bytes:
    """The beginning of the keys of a column's values."""
    return COLUMN + name.encode() + _TERMINATOR


def encode_value(value: Any) -> bytes | None:
    """The end of a value's key, from its kind on; None for one that is unclear."""
    if isinstance(value, (bool, int)):
        return encode_number(value) if value in _INT64 else None
    if isinstance(value, float):
        return encode_number(value)
    if isinstance(value, str):
        return encode_text(value)
    return None


def encode_text(text: str) -> bytes | None:
    """The end of the key of a text; None for one that is long, or has a NUL."""
    packed = text.encode()
    return TEXT + packed + _TERMINATOR if len(packed) <= _MAX_TEXT_BYTES and _TERMINATOR not in packed else None


def encode_number(number: float) -> bytes:
    """The end of the key of a number of 64 bits: by its size, then whole numbers first."""
    is_whole = isinstance(number, int)
    nearest_double = float(number)
    # Whole numbers beyond 2**53 are told apart by how far they are from their double.
    remainder = int(number) - int(nearest_double) if is_whole else 0
    return NUMBER + _NUMBER.pack(_to_sortable_bits(nearest_double), remainder + _MIDDLE, 0 if is_whole else 1)


def encode_number_bound(number: float) -> bytes:
    """What the keys of all numbers equal to one begin with: those of smaller ones lie before it."""
    return encode_number(number)[:-1]


def decode_value(key: bytes) -> str | float:
    """The value of which a key ends so."""
    if key[:1] == TEXT:
        return key[1:-1].decode()
    bits, remainder, is_real = _NUMBER.unpack(key[1:])
    number: float = _DOUBLE.unpack(_U64.pack(bits ^ _SIGN if bits & _SIGN else bits ^ ((1 << 64) - 1)))[0]
    return number if is_real else int(number) + remainder - _MIDDLE


def is_exact_decimal(number: float) -> bool:
    """Whether every reader of decimal numbers makes the same of a number as Python writes it.

    One of at most 15 digits and a small power of ten takes one rounding (Clinger 1990, How to read floating point
    numbers accurately); other numbers SQLite may read as a neighbour of what was meant.
    """
    if isinstance(number, int):
        return True
    digits, _, exponent = repr(abs(number)).partition("e")
    return len(digits.replace(".", "").strip("0")) <= 15 and abs(int(exponent or 0)) < 16


def list_document_keys(record: DocumentRecord) -> set[bytes]:
    """The keys of all values of a document, without its number."""
    keys = set[bytes]()
    for name in TEXT_COLUMNS:
        value = getattr(record, name)
        if value is not None:
            keys.update(_make_value_keys(encode_column(name), value))
    metadata_keys = set[bytes]()
    for key in _iter_metadata_keys(record.meta, ()):
        metadata_keys.add(key)
        if len(metadata_keys) > _MAX_VALUES:
            metadata_keys = {CROWDED + _TERMINATOR + UNCLEAR}
            break
    return keys | metadata_keys


def _iter_metadata_keys(fields: Mapping[str, Any], parents: tuple[str, ...]) -> Iterator[bytes]:
    for name, value in fields.items():
        names = (*parents, name)
        field = encode_names(FIELD, names)
        if field is None or value is None:
            continue
        element = ELEMENT + field[1:]
        yield from _make_value_keys(field, value)
        if isinstance(value, list):
            for item in value:
                key = encode_value(item)
                yield element + (UNCLEAR if key is None else key)
        elif encode_value(value) is None:
            yield element + UNCLEAR
        if isinstance(value, dict):
            yield from _iter_metadata_keys(value, names)


def _make_value_keys(field: bytes, value: Any) -> tuple[bytes, bytes]:
    key = encode_value(value)
    return field + PRESENT, field + (UNCLEAR if key is None else key)


def _is_plain(name: str) -> bool:
    return bool(name) and min(name) > "\x1f" and not {'"', "\\"} & set(name)


def _to_sortable_bits(number: float) -> int:
    """The bits of a double as a number that grows with it."""
    if not math.isfinite(number):
        number = math.copysign(math.inf, number)
    bits: int = _U64.unpack(_DOUBLE.pack(number + 0.0))[0]  # + 0.0: there is one zero
    return bits ^ ((1 << 64) - 1) if bits & _SIGN else bits ^ _SIGN
