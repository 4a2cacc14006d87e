"""Values as bytes: a payload and its checksum.

In: any msgpack-able value, or raw bytes. On disk: the payload followed by its CRC-32 (zlib, little-endian, 4 bytes).
Out: the payload, verified. Damaged bytes raise :class:`~kvstore.errors.CorruptionError` naming the table and the key.
Page-like values (bucket pages, block-list pages, vector blocks) have their own header and checksum; see FORMAT.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgpack

from kvstore_cext.msgpack_rows import compute_checksum, get_payload, read_numbers

from ..errors import CorruptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CHECKSUM = struct.Struct("<I")
U64 = struct.Struct(">Q")
U32 = struct.Struct(">I")
U32_PAIR = struct.Struct(">II")
U64_PAIR = struct.Struct(">QQ")

PAGE_SIZE = 4096
#: The size of the header that LMDB puts before a value that fills whole pages.
PAGE_OVERHEAD = 16


def compute_max_value_size(num_pages: int) -> int:
    """Return the maximum size of a value that LMDB stores in ``num_pages`` overflow pages, after their header."""
    return num_pages * PAGE_SIZE - PAGE_OVERHEAD


def seal(payload: bytes | bytearray | memoryview) -> bytes:
    """Return ``payload`` followed by its checksum (CRC-32), as it is stored."""
    return b"".join((payload, CHECKSUM.pack(compute_checksum(payload))))


def unseal(value: bytes | memoryview, table: str, key: bytes) -> memoryview:
    """Return a stored value without its checksum (CRC-32) at the end; raise CorruptionError if it does not match."""
    payload = get_payload(value)
    if payload is None:
        raise CorruptionError(
            f"table {table}, key {key.hex()}: the value fails its checksum; run CHECK REPAIR, or restore from a backup"
        )
    return payload


def make_missing_error(label: str) -> CorruptionError:
    """Return the error for a missing record that other records refer to; ``label`` describes the record."""
    return CorruptionError(f"{label} is missing, but other records refer to it; run CHECK")


def pack(value: Any) -> bytes:
    """Encode ``value`` as msgpack, followed by its checksum (CRC-32)."""
    return seal(encode_msgpack(value))


#: Unused packers: creating one takes longer than packing a record.
_idle_packers: list[msgpack.Packer] = []


def encode_msgpack(value: Any) -> bytes:
    """Encode ``value`` as msgpack. Safe in any thread, and while another value is being encoded."""
    try:
        packer = _idle_packers.pop()
    except IndexError:
        packer = msgpack.Packer(use_bin_type=True)
    payload: bytes = packer.pack(value)
    _idle_packers.append(packer)  # not after an error, because the packer may hold a partial value
    return payload


def unpack(value: bytes | memoryview, table: str, key: bytes) -> Any:
    """Verify the checksum at the end of a stored value, and decode its msgpack; raise CorruptionError for damage.

    ``table`` and ``key`` are the location of the value, for messages.
    """
    payload = unseal(value, table, key)
    try:
        return msgpack.unpackb(payload, raw=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:  # TypeError: a list as a key of a map
        raise CorruptionError(f"table {table}, key {key.hex()}: not msgpack: {error}") from error


def unpack_numbers(
    values: list[memoryview | None], table: str, keys: Sequence[bytes], num_columns: int
) -> npt.NDArray[np.int64]:
    """Decode ``values``, the stored msgpack lists of integers under ``keys``, into the rows of one array.

    The array has the shape (number of keys, num_columns), and nil becomes -1. Raises CorruptionError if a record is
    damaged or missing, or does not have ``num_columns`` integers.
    """
    import numpy as np

    rows = np.empty((len(values), num_columns), np.int64)
    bad_index = read_numbers(values, rows)
    if bad_index >= 0:
        key, value = keys[bad_index], values[bad_index]
        if value is None:
            raise make_missing_error(f"table {table}: key {key.hex()}")
        unpack(value, table, key)  # raises the error for a failed checksum or invalid msgpack
        raise CorruptionError(f"table {table}, key {key.hex()}: not a list of {num_columns} integers; run CHECK REPAIR")
    return rows


#: Functions that encode a number as eight or four big-endian bytes, so that key order is numeric order.
encode_u64: Callable[[int], bytes] = U64.pack
encode_u32: Callable[[int], bytes] = U32.pack
