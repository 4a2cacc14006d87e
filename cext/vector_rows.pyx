# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows of many vector blocks, verified and copied in one call.

In: blocks as stored (kvstore/structures/vectors/vectors.py has the layout), and for each wanted row its block and its
index there, or all used rows. Out: the rows as float32; rows of a quantized block are integers times a scale, in
float32. A block that was verified before is recognized by its checksum and not verified again.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int8_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

include "crc32.pxi"

cdef enum:
    # A header: encoding, checksum of the bytes after it, rows (16 bits), used (16 bits), dimension; then the ids.
    _CHECKED = 8
    _HEADER = 16

# The id of a free row.
cdef uint64_t _FREE_ID = 0xFFFFFFFFFFFFFFFF
# Set in a recorded checksum, so that 0 means no checksum.
cdef uint64_t _VERIFIED = <uint64_t> 1 << 32


cdef bint _is_sound(
    const uint8_t* block, Py_ssize_t size, const uint8_t* encoding, uint16_t rows, uint32_t dimension,
    uint64_t* verified
) noexcept nogil:
    """True if a block has this encoding and shape and matches its checksum, which is then recorded in ``verified``."""
    cdef uint32_t checksum, block_dimension
    cdef uint16_t block_rows
    memcpy(&checksum, block + 4, 4)
    memcpy(&block_rows, block + 8, 2)
    memcpy(&block_dimension, block + 12, 4)
    if memcmp(block, encoding, 4) or block_rows != rows or block_dimension != dimension:
        return False
    if verified[0] != (_VERIFIED | checksum):
        if kv_crc(block + _CHECKED, size - _CHECKED) != checksum:
            return False
        verified[0] = _VERIFIED | checksum
    return True


cdef void _copy_row(
    const uint8_t* block, Py_ssize_t rows, Py_ssize_t row, Py_ssize_t dimension, bint quantized, float* out
) noexcept nogil:
    """Write the vector in a row of a block to ``out``. ``rows`` is the number of rows of the block."""
    # The ids, 8 bytes each, are between the header and the vectors.
    cdef const uint8_t* data = block + _HEADER + 8 * rows
    cdef const int8_t* codes
    cdef float scale
    cdef Py_ssize_t index
    if not quantized:
        memcpy(out, data + 4 * row * dimension, 4 * dimension)
        return
    memcpy(&scale, data + 4 * row, 4)
    codes = <const int8_t*> (data + 4 * rows + row * dimension)
    for index in range(dimension):
        out[index] = codes[index] * scale


cdef int _check_shape(
    Py_ssize_t size, bytes encoding, uint16_t rows_of_block, Py_ssize_t dimension, bint quantized
) except -1:
    """Raise ValueError if a block of this shape does not fit into ``size`` bytes."""
    cdef Py_ssize_t needed_bytes = _HEADER + rows_of_block * (8 + (4 + dimension if quantized else 4 * dimension))
    if len(encoding) != 4 or size < needed_bytes:
        raise ValueError(f"a block of {rows_of_block} rows of {dimension} numbers does not fit into {size} bytes")
    return 0


def gather_rows(list blocks not None, Py_ssize_t size, bytes encoding not None, uint16_t rows_of_block, bint quantized,
                uint64_t[::1] verified not None, const int64_t[::1] block_indexes not None,
                const int64_t[::1] rows not None, const int64_t[::1] order not None, float[:, ::1] out not None) -> int:
    """Write row ``rows[i]`` of ``blocks[block_indexes[i]]`` to ``out[order[i]]``; ``block_indexes`` ascends.

    ``size`` is the number of bytes of a block, ``encoding`` the four bytes at its beginning, and ``rows_of_block`` the
    number of its rows; numbers are int8 with a scale per row if ``quantized``, else float32. ``verified`` has for each
    block the checksum that was verified before, plus 2^32, or 0, and is updated. Returns the index of the first block
    that is missing, damaged, or of a different size, encoding or shape; -1 if all are valid. Raises ValueError if the
    arguments do not match, IndexError for an invalid row or block.
    """
    cdef Py_ssize_t count = block_indexes.shape[0], dimension = out.shape[1], position = 0, block
    cdef const uint8_t* encoding_bytes = encoding
    cdef Py_buffer buffer
    cdef bint sound
    if rows.shape[0] != count or order.shape[0] != count or out.shape[0] != count or verified.shape[0] != len(blocks):
        raise ValueError(f"{count} blocks, {rows.shape[0]} rows, {order.shape[0]} numbers and {out.shape[0]} rows to "
                         f"write do not match, or {len(blocks)} blocks do not match {verified.shape[0]} checksums")
    _check_shape(size, encoding, rows_of_block, dimension, quantized)
    while position < count:
        block = block_indexes[position]
        if not 0 <= block < len(blocks):
            raise IndexError(f"block {block} does not exist: there are {len(blocks)}")
        if blocks[block] is None:
            return block
        PyObject_GetBuffer(blocks[block], &buffer, PyBUF_SIMPLE)
        try:
            sound = buffer.len == size and _is_sound(
                <const uint8_t*> buffer.buf, size, encoding_bytes, rows_of_block, <uint32_t> dimension, &verified[block]
            )
            if not sound:
                return block
            while position < count and block_indexes[position] == block:
                if not 0 <= rows[position] < rows_of_block:
                    raise IndexError(f"row {rows[position]} does not exist: a block has {rows_of_block}")
                if not 0 <= order[position] < count:
                    raise IndexError(f"row {order[position]} to write does not exist: there are {count}")
                _copy_row(
                    <const uint8_t*> buffer.buf, rows_of_block, rows[position], dimension, quantized,
                    &out[order[position], 0],
                )
                position += 1
        finally:
            PyBuffer_Release(&buffer)
    return -1


def read_used_rows(list blocks not None, Py_ssize_t size, bytes encoding not None, uint16_t rows_of_block,
                   bint quantized, uint64_t[::1] verified not None, uint64_t[::1] ids not None,
                   float[:, ::1] out not None) -> tuple[int, int]:
    """Write the ids and the vectors of all used rows of ``blocks``, in order, to ``ids`` and ``out``.

    ``size`` is the number of bytes of a block, ``encoding`` the four bytes at its beginning, and ``rows_of_block`` the
    number of its rows; numbers are int8 with a scale per row if ``quantized``, else float32. ``verified`` has for each
    block the checksum that was verified before, plus 2^32, or 0, and is updated. Returns the number of rows, and the
    index of the first block that is damaged, or of a different size, encoding or shape; -1 if all are valid. Raises
    ValueError if the arguments do not match, or have no room for the rows.
    """
    cdef Py_ssize_t count = 0, block, row, dimension = out.shape[1]
    cdef const uint8_t* encoding_bytes = encoding
    cdef const uint8_t* data
    cdef uint64_t row_id
    cdef Py_buffer buffer
    cdef Py_ssize_t most_rows = len(blocks) * rows_of_block
    if verified.shape[0] != len(blocks) or ids.shape[0] < most_rows or out.shape[0] < most_rows:
        raise ValueError(f"{verified.shape[0]} checksums, {ids.shape[0]} ids and {out.shape[0]} rows to write do not "
                         f"match {len(blocks)} blocks of {rows_of_block} rows")
    _check_shape(size, encoding, rows_of_block, dimension, quantized)
    for block in range(len(blocks)):
        PyObject_GetBuffer(blocks[block], &buffer, PyBUF_SIMPLE)
        try:
            data = <const uint8_t*> buffer.buf
            if buffer.len != size or not _is_sound(
                data, size, encoding_bytes, rows_of_block, <uint32_t> dimension, &verified[block]
            ):
                return count, block
            for row in range(rows_of_block):
                memcpy(&row_id, data + _HEADER + 8 * row, 8)
                if row_id != _FREE_ID:
                    ids[count] = row_id
                    _copy_row(data, rows_of_block, row, dimension, quantized, &out[count, 0])
                    count += 1
        finally:
            PyBuffer_Release(&buffer)
    return count, -1
