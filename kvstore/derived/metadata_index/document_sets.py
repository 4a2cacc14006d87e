"""Sets of documents, as bitmaps divided into containers.

In: the document numbers below 8,192 of one container. On disk: the smallest of three forms, as in roaring bitmaps
(Chambi, Lemire et al. 2016): the numbers, runs of numbers, or one bit each. Equal sets have equal bytes. Out: the
numbers, or a mask over all documents. A container that fails its checksum raises CorruptionError.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ...errors import CorruptionError
from ...storage import records

#: Documents per container.
DOCUMENTS_PER_CONTAINER = 8192
_LISTED, _RUNS, _BITS = 0, 1, 2
_BITMAP_BYTES = DOCUMENTS_PER_CONTAINER // 8
#: The largest container that is changed as a set of Python: most values belong to few documents.
_MAX_SMALL_SET = 16
_SINGLE_NUMBER = struct.Struct("<BH")
#: Bytes of a container of one number.
_SINGLE_NUMBER_BYTES = _SINGLE_NUMBER.size + records.CHECKSUM.size

ContainerNumbers = npt.NDArray[np.uint16]
#: True for each document of a set, by document id.
DocumentMask = npt.NDArray[np.bool_]


def pack_container(numbers: Iterable[int]) -> bytes:
    """Encode distinct numbers below 8,192 as a sealed container."""
    ordered = sorted(numbers)
    if len(ordered) == 1:  # most containers have one number: a title, a date
        return records.seal(_SINGLE_NUMBER.pack(_LISTED, ordered[0]))
    return _pack_array(np.array(ordered, np.uint16))


def _pack_array(numbers: ContainerNumbers) -> bytes:
    """Encode ascending numbers as a sealed container, in the smallest of the three forms."""
    breaks = np.flatnonzero(np.diff(numbers) > 1)
    num_runs = len(breaks) + 1
    list_bytes, run_bytes = 2 * len(numbers), 4 * num_runs
    if min(list_bytes, run_bytes) >= _BITMAP_BYTES:
        flags = np.zeros(DOCUMENTS_PER_CONTAINER, np.bool_)
        flags[numbers] = True
        return records.seal(bytes((_BITS,)) + np.packbits(flags, bitorder="little").tobytes())
    if list_bytes <= run_bytes:
        return records.seal(bytes((_LISTED,)) + numbers.astype("<u2").tobytes())
    runs = np.empty((num_runs, 2), "<u2")
    runs[:, 0] = numbers[np.concatenate(([0], breaks + 1))]
    runs[:, 1] = numbers[np.concatenate((breaks, [len(numbers) - 1]))]
    return records.seal(bytes((_RUNS,)) + runs.tobytes())


def change_container(
    stored: memoryview | None, added: set[int], removed: set[int], table: str, key: bytes
) -> bytes | None:
    """Return the new bytes of a container after numbers are removed and others added, or None if no number is left.

    ``stored`` is the old container, None if there is none. ``table`` and ``key`` are named in errors.
    """
    old_numbers = () if stored is None else unpack_container(stored, table, key)
    if len(old_numbers) <= _MAX_SMALL_SET:
        remaining = {*map(int, old_numbers)} - removed | added
        return pack_container(remaining) if remaining else None
    # Use bits whatever the form: numpy's set operations sort and hash all numbers, which takes ten times as long.
    flags = np.zeros(DOCUMENTS_PER_CONTAINER, np.bool_)
    flags[old_numbers] = True
    flags[list(removed)] = False
    flags[list(added)] = True
    numbers = np.flatnonzero(flags).astype(np.uint16)
    return _pack_array(numbers) if len(numbers) else None


def build_mask(stored: Iterable[tuple[bytes, memoryview]], num_documents: int, table: str) -> DocumentMask:
    """Return the union of containers as a mask over ``num_documents`` ids.

    ``stored`` are the containers with their keys, whose last four bytes are the number of the container. Raises
    CorruptionError for a damaged container.
    """
    mask = np.zeros(num_documents, np.bool_)
    single_ids: list[int] = []
    for key, container in stored:
        first_document = records.U32.unpack_from(key, len(key) - 4)[0] * DOCUMENTS_PER_CONTAINER
        if len(container) == _SINGLE_NUMBER_BYTES and container[0] == _LISTED:  # decoded here, because most are
            body, checksum = (
                container[: _SINGLE_NUMBER.size],
                records.CHECKSUM.unpack_from(container, _SINGLE_NUMBER.size)[0],
            )
            if zlib.crc32(body) == checksum:
                single_ids.append(first_document + body[1] + (body[2] << 8))
                continue
        mask[unpack_container(container, table, key).astype(np.intp) + first_document] = True
    mask[single_ids] = True
    return mask


def unpack_container(stored: memoryview, table: str, key: bytes) -> ContainerNumbers:
    """Decode the numbers of a container, ascending. Raises CorruptionError if it is damaged."""
    body = records.unseal(stored, table, key)
    form = body[0] if len(body) else -1
    try:
        if form == _LISTED:
            return np.frombuffer(body, "<u2", offset=1)
        if form == _BITS and len(body) == 1 + _BITMAP_BYTES:
            bits = np.unpackbits(np.frombuffer(body, np.uint8, offset=1), bitorder="little")
            return np.flatnonzero(bits).astype(np.uint16)
        if form == _RUNS:
            return _expand_runs(np.frombuffer(body, "<u2", offset=1).reshape(-1, 2).astype(np.int64))
    except ValueError:
        pass
    raise CorruptionError(f"table {table}, key {key.hex()}: the value is not a set of documents; run CHECK REPAIR")


def _expand_runs(runs: npt.NDArray[np.int64]) -> ContainerNumbers:
    """Return all numbers in runs, ascending. ``runs`` has the first and last number of each, shape (runs, 2)."""
    lengths = runs[:, 1] - runs[:, 0] + 1
    offsets = np.cumsum(lengths) - lengths
    return (np.repeat(runs[:, 0] - offsets, lengths) + np.arange(int(lengths.sum()))).astype(np.uint16)
