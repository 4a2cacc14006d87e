"""Sets of documents, as bitmaps divided into containers.

In: the offsets of documents in a container, below 8,192. On disk: the smallest of three forms, as in roaring bitmaps
(Chambi, Lemire et al. 2016): the offsets, runs of offsets, or one bit each. Equal sets have equal bytes. Out: the
offsets, or a mask over all documents. A container that fails its checksum raises CorruptionError.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import sub

import numpy as np
import numpy.typing as npt

from ...errors import CorruptionError
from ...storage import records

#: Documents per container.
DOCUMENTS_PER_CONTAINER = 8192
#: Bytes at the end of a container's key that hold the container's index.
CONTAINER_INDEX_BYTES = 4
_LISTED, _RUNS, _BITS = 0, 1, 2
#: The first byte of containers with runs and with bits.
_RUNS_FORM, _BITS_FORM = bytes((_RUNS,)), bytes((_BITS,))
_BITMAP_BYTES = DOCUMENTS_PER_CONTAINER // 8
_SINGLE_NUMBER = struct.Struct("<BH")
#: Bytes of a container of one document.
_SINGLE_NUMBER_BYTES = _SINGLE_NUMBER.size + records.CHECKSUM.size

ContainerNumbers = npt.NDArray[np.uint16]
#: True for each document of a set, by document id.
DocumentMask = npt.NDArray[np.bool_]


def pack_container(offsets: Iterable[int]) -> bytes:
    """Encode the distinct offsets of documents, below 8,192, as a container with a checksum."""
    ordered = sorted(offsets)
    # A run continues where the difference of neighbors is 1.
    num_runs = len(ordered) - sum(map((1).__eq__, map(sub, ordered[1:], ordered)))
    # A list if it is no larger than runs and smaller than a bitmap: two bytes per offset, four bytes per run.
    if 2 * len(ordered) <= min(4 * num_runs, _BITMAP_BYTES - 1):
        return records.seal(struct.pack(f"<B{len(ordered)}H", _LISTED, *ordered))
    flags = np.zeros(DOCUMENTS_PER_CONTAINER, np.bool_)
    flags[ordered] = True
    return _pack_bits(int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little"))


def _pack_bits(bits: int) -> bytes:
    """Encode a set of offsets, the positions of the set bits, as a container with a checksum, in the smallest form."""
    run_starts, run_ends = bits & ~(bits << 1), bits & ~(bits >> 1)
    list_bytes, run_bytes = 2 * bits.bit_count(), 4 * run_starts.bit_count()
    if min(list_bytes, run_bytes) >= _BITMAP_BYTES:
        return records.seal(_BITS_FORM + bits.to_bytes(_BITMAP_BYTES, "little"))
    if list_bytes <= run_bytes:
        return records.seal(struct.pack(f"<B{list_bytes // 2}H", _LISTED, *_iter_bits(bits)))
    runs = chain.from_iterable(zip(_iter_bits(run_starts), _iter_bits(run_ends), strict=True))
    return records.seal(struct.pack(f"<B{run_bytes // 2}H", _RUNS, *runs))


def _iter_bits(bits: int) -> Iterator[int]:
    """Yield the position of each set bit of an integer, ascending."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def change_container(
    old_container: memoryview | None, added: set[int], removed: set[int], table: str, key: bytes
) -> bytes | None:
    """Return the bytes of a container after offsets are removed and others added, or None if none is left.

    ``old_container`` is the old container, or None if it does not exist. ``table`` and ``key`` are named in errors.
    """
    if old_container is None or bytes(old_container[:1]) not in (_RUNS_FORM, _BITS_FORM):
        old_offsets = [] if old_container is None else unpack_container(old_container, table, key).tolist()
        remaining = {*old_offsets} - removed | added
        return pack_container(remaining) if remaining else None
    # One integer, because Python changes and counts a few of its bits much faster than numpy does.
    bits = _unpack_bits(old_container, table, key)
    for offset in removed:
        bits &= ~(1 << offset)
    for offset in added:
        bits |= 1 << offset
    return _pack_bits(bits) if bits else None


def build_mask(containers: Iterable[tuple[bytes, memoryview]], num_documents: int, table: str) -> DocumentMask:
    """Return the union of containers as a mask over ``num_documents`` ids.

    Each container comes with its key, which ends with the index of the container. Raises CorruptionError for a damaged
    container.
    """
    mask = np.zeros(num_documents, np.bool_)
    single_ids: list[int] = []
    for key, container in containers:
        first_document = records.U32.unpack_from(key, len(key) - CONTAINER_INDEX_BYTES)[0] * DOCUMENTS_PER_CONTAINER
        # Most containers have one document. Decoding them here is faster.
        if len(container) == _SINGLE_NUMBER_BYTES and container[0] == _LISTED:
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


def unpack_container(container: memoryview, table: str, key: bytes) -> ContainerNumbers:
    """Return the offsets in a container, ascending. Raises CorruptionError if it is damaged."""
    body = records.unseal(container, table, key)
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
    raise _make_corruption_error(table, key)


def _unpack_bits(container: memoryview, table: str, key: bytes) -> int:
    """Return the offsets in a container of runs or bits as the set bits of an integer.

    Raises CorruptionError if the container is damaged or empty.
    """
    body = records.unseal(container, table, key)
    bits = 0
    if body[0] == _BITS:
        bits = int.from_bytes(body[1:], "little")
    elif len(body) % 4 == 1:
        for first, last in struct.iter_unpack("<2H", body[1:]):
            bits |= (2 << last) - (1 << first)  # the bits from first to last
    if not 0 < bits < 1 << DOCUMENTS_PER_CONTAINER:
        raise _make_corruption_error(table, key)
    return bits


def _make_corruption_error(table: str, key: bytes) -> CorruptionError:
    """Return the error for a value that is not a container."""
    return CorruptionError(f"table {table}, key {key.hex()}: the value is not a set of documents; run CHECK REPAIR")


def _expand_runs(runs: npt.NDArray[np.int64]) -> ContainerNumbers:
    """Return all offsets in runs, ascending. ``runs`` has the first and last offset of each, shape (runs, 2)."""
    lengths = runs[:, 1] - runs[:, 0] + 1
    starts = np.cumsum(lengths) - lengths  # of each run in the result
    return (np.repeat(runs[:, 0] - starts, lengths) + np.arange(int(lengths.sum()))).astype(np.uint16)
