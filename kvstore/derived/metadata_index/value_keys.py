"""Values of documents as keys that sort in the order in which SQLite compares values.

In: a document's record and language. Out: a key for each value that a condition can ask for: its title, source and
language, the fields of its metadata, and the elements of lists in these. A key is the location of the value (a space,
and the path of field names), followed by the value. Numbers sort before texts. Numbers, whole or not, sort by size, and
texts by their UTF-8 bytes. A value without such a key (a long text, a list, an object, a text with a NUL) is *unclear*:
a separate key lists the documents that have one, and SQLite evaluates conditions on it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...structures.documents.documents import TEXT_COLUMNS, DocumentRecord

#: The space of a value: a column of the table ``documents``, a field of the metadata, an element of such a field.
COLUMN, FIELD, ELEMENT = b"\x01", b"\x02", b"\x03"
#: The column that only the index has.
LANGUAGE_COLUMN = "language"
#: The kind, after the names: a value that is not null, an unclear value, a number, a text.
PRESENT, UNCLEAR, NUMBER, TEXT = b"\x01", b"\x02", b"\x10", b"\x20"
#: Sorts after every kind of value.
AFTER_TEXT = b"\x21"
#: The end of a path or text, and the separator of the names in a path.
_TERMINATOR, _SEPARATOR = b"\x00", b"\x1f"
#: The key of the documents with more values than :data:`_MAX_VALUES`: all their metadata is unclear.
UNINDEXED_KEY = b"\x04" + _TERMINATOR + UNCLEAR

#: The limits of indexed fields: the length of a path and of a text in bytes, the nesting, the values per document.
_MAX_NAME_BYTES, _MAX_TEXT_BYTES = 120, 200
_MAX_DEPTH = 4
_MAX_VALUES = 512
#: A number in a key: the sortable bits of the nearest double, the difference from it plus :data:`_REMAINDER_ZERO`, and
#: 0 for an integer or 1 for a float.
_NUMBER = struct.Struct(">QHB")
_REMAINDER_ZERO = 1 << 15
_DOUBLE, _U64 = struct.Struct(">d"), struct.Struct(">Q")
_SIGN_BIT, _ALL_BITS = 1 << 63, (1 << 64) - 1
_INT64 = range(-(1 << 63), 1 << 63)
#: The limits up to which a decimal number takes one rounding to a double.
_MAX_EXACT_DIGITS, _MAX_EXACT_EXPONENT = 15, 15


def encode_field_prefix(space: bytes, names: Sequence[str]) -> bytes | None:
    """Return the prefix of the keys of a field's values, or None if the field is not indexed.

    ``space`` is FIELD or ELEMENT. A field is not indexed if a name on its path is empty or needs escapes in JSON, or if
    it is nested too deeply.
    """
    if not 0 < len(names) <= _MAX_DEPTH or not all(map(_is_plain, names)):
        return None
    joined = _SEPARATOR.join(name.encode() for name in names)
    return space + joined + _TERMINATOR if len(joined) <= _MAX_NAME_BYTES else None


def encode_column_prefix(name: str) -> bytes:
    """Return the prefix of the keys of a column's values."""
    return COLUMN + name.encode() + _TERMINATOR


def encode_value(value: Any) -> bytes | None:
    """Encode a value as the end of its key (kind and value); return None if the value is unclear (has no key)."""
    if isinstance(value, (bool, int)):
        return encode_number(value) if value in _INT64 else None
    if isinstance(value, float):
        return encode_number(value)
    if isinstance(value, str):
        return encode_text(value)
    return None


def encode_text(text: str) -> bytes | None:
    """Encode a text as the end of its key, or return None if it has more than 200 bytes or a NUL."""
    packed = text.encode()
    return TEXT + packed + _TERMINATOR if len(packed) <= _MAX_TEXT_BYTES and _TERMINATOR not in packed else None


def encode_number(number: float) -> bytes:
    """Encode a 64-bit number as the end of its key. Keys sort by value, and an integer before an equal float."""
    is_whole = isinstance(number, int)
    nearest_double = float(number)
    # Whole numbers beyond 2**53 are distinguished by their difference from the nearest double.
    remainder = int(number) - int(nearest_double) if is_whole else 0
    return NUMBER + _NUMBER.pack(_to_sortable_bits(nearest_double), remainder + _REMAINDER_ZERO, 0 if is_whole else 1)


def encode_number_bound(number: float) -> bytes:
    """Return the common prefix of the keys of an integer and an equal float. Keys of smaller numbers sort before it."""
    return encode_number(number)[:-1]


def decode_value(key: bytes) -> str | float:
    """Decode a text or number from the end of a key, which begins with its kind."""
    if key[:1] == TEXT:
        return key[1:-1].decode()
    bits, remainder, is_float = _NUMBER.unpack(key[1:])
    number: float = _DOUBLE.unpack(_U64.pack(bits ^ (_SIGN_BIT if bits & _SIGN_BIT else _ALL_BITS)))[0]
    return number if is_float else int(number) + remainder - _REMAINDER_ZERO


def is_exact_decimal(number: float) -> bool:
    """True if every parser of decimal numbers reads Python's text of a number as the same double.

    A number of at most 15 digits and a small power of ten takes one rounding (Clinger 1990, How to read floating point
    numbers accurately). SQLite can read other numbers as a neighbor of the intended one.
    """
    if isinstance(number, int):
        return True
    digits, _, exponent = repr(abs(number)).partition("e")
    return (
        len(digits.replace(".", "").strip("0")) <= _MAX_EXACT_DIGITS and abs(int(exponent or 0)) <= _MAX_EXACT_EXPONENT
    )


def build_index_keys(record: DocumentRecord, language: str | None) -> set[bytes]:
    """Return the index keys of a document's values.

    ``language`` is the code of its language. Metadata with more than 512 keys has only :data:`UNINDEXED_KEY`.
    """
    keys = set[bytes]()
    for name in TEXT_COLUMNS:
        value = language if name == LANGUAGE_COLUMN else getattr(record, name)
        if value is not None:
            keys.update(_make_value_keys(encode_column_prefix(name), value))
    metadata_keys = set[bytes]()
    for key in _iter_metadata_keys(record.meta, ()):
        metadata_keys.add(key)
        if len(metadata_keys) > _MAX_VALUES:
            metadata_keys = {UNINDEXED_KEY}
            break
    return keys | metadata_keys


def _iter_metadata_keys(fields: Mapping[str, Any], parents: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the keys of all values of a document's metadata, or of the object in it at the path ``parents``."""
    for name, value in fields.items():
        names = (*parents, name)
        field_prefix = encode_field_prefix(FIELD, names)
        if field_prefix is None or value is None:
            continue
        element_prefix = ELEMENT + field_prefix[1:]
        yield from _make_value_keys(field_prefix, value)
        if isinstance(value, list):
            for element in value:
                key = encode_value(element)
                yield element_prefix + (UNCLEAR if key is None else key)
        elif encode_value(value) is None:
            yield element_prefix + UNCLEAR
        if isinstance(value, dict):
            yield from _iter_metadata_keys(value, names)


def _make_value_keys(field_prefix: bytes, value: Any) -> tuple[bytes, bytes]:
    """Return the key that records that a field is not NULL, and the key of its value or of an unclear value."""
    key = encode_value(value)
    return field_prefix + PRESENT, field_prefix + (UNCLEAR if key is None else key)


def _is_plain(name: str) -> bool:
    """True if a field name is not empty and needs no escapes in JSON."""
    return bool(name) and min(name) > "\x1f" and not {'"', "\\"} & set(name)


def _to_sortable_bits(number: float) -> int:
    """Return the bits of a double as an integer with the same order."""
    if not math.isfinite(number):  # NaN becomes infinity, because JSON has neither
        number = math.copysign(math.inf, number)
    bits: int = _U64.unpack(_DOUBLE.pack(number + 0.0))[0]  # + 0.0: -0.0 becomes 0.0
    return bits ^ (_ALL_BITS if bits & _SIGN_BIT else _SIGN_BIT)
