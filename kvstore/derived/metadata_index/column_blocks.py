"""The numeric columns of documents on disk: blocks of 256 documents. A block stores each column as its minimum and the
*distances* of the values from the minimum.

In: the rows of a block, one per document. On disk: each column as distances from its minimum, in as few bytes as the
greatest distance needs (frame of reference: Goldstein, Ramakrishnan and Shaft 1998). Out: arrays with one row per
document. A block that fails its checksum raises CorruptionError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ...errors import CorruptionError
from ...storage import records
from ...structures.documents.documents import DocumentRecord

DOCUMENTS_PER_BLOCK = 256

#: The columns of a row, in order. ``document`` is the position in the block on disk, and the id in memory.
COLUMN_NAMES = ("document", "first_group", "groups", "chunks", "bytes", "changed", "left_out")
ColumnValues = npt.NDArray[np.int64]
DocumentColumns = tuple[int, ...]

#: The number of documents in a block.
_COUNT = struct.Struct("<H")
#: The minimum of a column, and the bytes per distance.
_FRAME = struct.Struct("<qB")
#: The type of the distances, by bytes per distance; with 0 bytes, all are 0.
_TYPES = {0: None, 1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def get_column_values(record: DocumentRecord) -> DocumentColumns:
    """Return the values of a document's numeric columns, in the order of :data:`COLUMN_NAMES`."""
    return (
        record.id,
        record.first_group,
        len(record.groups),
        record.chunk_count,
        record.size,
        record.changed_at,
        record.left_out,
    )


def change_rows(
    block_number: int,
    block: memoryview | None,
    row_changes: Mapping[int, DocumentColumns | None],
    table: str,
    key: bytes,
) -> bytes | None:
    """Return the block after replacing, adding or removing (None) the rows of the documents in ``row_changes``.

    Returns None if no document is left. ``block`` is None if the block is new. Raises CorruptionError, with ``table``
    and ``key``, if it is invalid.
    """
    new_rows = [row for row in row_changes.values() if row is not None]
    columns: ColumnValues = np.array(new_rows, np.int64).reshape(-1, len(COLUMN_NAMES)).T
    if block is not None:
        old_columns = np.array(unpack_columns(block_number, block, table, key))
        changed_documents = np.fromiter(row_changes, np.int64, len(row_changes))
        is_unchanged = (old_columns[0] != changed_documents[:, None]).all(axis=0)
        # take() is several times as fast as an index of the columns, and its result is in the order of columns.
        unchanged_columns = old_columns.take(is_unchanged.nonzero()[0], axis=1)
        columns = np.concatenate((unchanged_columns, columns), axis=1) if new_rows else unchanged_columns
    if not columns.shape[1]:
        return None
    by_document = columns[0].argsort()  # the first column is the document id
    return pack_columns(columns.take(by_document, axis=1))


def pack_columns(columns: ColumnValues) -> bytes:
    """Encode the columns of one block's documents, in order of the document id, as a block with a checksum.

    Each column is stored as distances from its minimum, in as few bytes as they need (frame of reference). ``columns``
    has the shape (columns, documents), and is overwritten.
    """
    columns[0] %= DOCUMENTS_PER_BLOCK  # the positions of the documents in the block
    minima = columns.min(axis=1)
    # Unsigned, because the distance of two 64-bit numbers can need all 64 bits.
    distances = columns.view(np.uint64) - minima.view(np.uint64)[:, None]
    headers = [_COUNT.pack(columns.shape[1])]
    encoded_columns = []
    for minimum, maximum, column in zip(minima.tolist(), distances.max(axis=1).tolist(), distances, strict=True):
        width = next(width for width in _TYPES if maximum < 1 << (8 * width))
        headers.append(_FRAME.pack(minimum, width))
        if width:
            encoded_columns.append(column.astype(_TYPES[width]).tobytes())
    return records.seal(b"".join((*headers, *encoded_columns)))


def unpack_columns(
    block_number: int, block: memoryview, table: str, key: bytes, names: Sequence[str] = COLUMN_NAMES
) -> list[ColumnValues]:
    """Decode the numeric columns ``names`` of a block of documents, in order, each with a value for each document.

    ``names`` is a subset of :data:`COLUMN_NAMES` in the same order, beginning with ``document``. Raises
    CorruptionError, with ``table`` and ``key``, for an invalid block.
    """
    body = records.unseal(block, table, key)
    try:
        (num_rows,) = _COUNT.unpack_from(body)
        data_offset = _COUNT.size + len(COLUMN_NAMES) * _FRAME.size
        columns: list[ColumnValues] = []
        for index, name in enumerate(COLUMN_NAMES):
            minimum, width = _FRAME.unpack_from(body, _COUNT.size + index * _FRAME.size)
            if name in names:
                number_type = _TYPES[width]
                if number_type is None:
                    columns.append(np.full(num_rows, minimum, np.int64))
                else:
                    distances = np.frombuffer(body, number_type, num_rows, data_offset).astype(np.int64)
                    columns.append(distances + np.int64(minimum))
            data_offset += width * num_rows
    except (struct.error, ValueError, KeyError) as error:
        raise CorruptionError(f"table {table}, key {key.hex()}: not a block of columns: {error}") from error
    columns[0] += block_number * DOCUMENTS_PER_BLOCK  # ``document``: the positions in the block become ids
    return columns


def concatenate_blocks(
    blocks: Iterable[Sequence[ColumnValues]], names: Sequence[str] = COLUMN_NAMES
) -> dict[str, ColumnValues]:
    """Concatenate the columns of several blocks of documents, and return them by name.

    ``names`` are the names of the columns in each block, in order.
    """
    block_list = list(blocks)
    if not block_list:
        return {name: np.empty(0, np.int64) for name in names}
    return {name: np.concatenate([block[index] for block in block_list]) for index, name in enumerate(names)}
