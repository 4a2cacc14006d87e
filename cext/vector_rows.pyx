# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows of many vector blocks, verified and copied in one go.

In: blocks as they are stored (kvstore/structures/vectors/vectors.py says how), and of each row wanted the block and the
row there. Out: the rows as float32; those of a quantised block are whole numbers times a scale, in float32. A block
that was verified before is known by its checksum and not verified again.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int8_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

include "crc32.pxi"

cdef enum:
    # A header: encoding, checksum of what follows that, rows (16 bits), used (16 bits), dimension; then the ids.
    _CHECKED = 8
    _HEADER = 16

# Tells a checksum that was noted from none.
cdef uint64_t _NOTED = <uint64_t> 1 << 32


cdef bint _is_sound(
    const uint8_t* block, Py_ssize_t size, const uint8_t* encoding, uint16_t rows, uint32_t dimension, uint64_t* noted
) noexcept nogil:
    """Whether a block is one of this shape and what was written; takes note of its checksum."""
    cdef uint32_t checksum, its_dimension
    cdef uint16_t its_rows
    memcpy(&checksum, block + 4, 4)
    memcpy(&its_rows, block + 8, 2)
    memcpy(&its_dimension, block + 12, 4)
    if memcmp(block, encoding, 4) or its_rows != rows or its_dimension != dimension:
        return False
    if noted[0] != (_NOTED | checksum):
        if kv_crc(block + _CHECKED, size - _CHECKED) != checksum:
            return False
        noted[0] = _NOTED | checksum
    return True


cdef void _copy(
    const uint8_t* block, Py_ssize_t rows, Py_ssize_t row, Py_ssize_t dimension, bint quantised, float* out
) noexcept nogil:
    """Write the vector of a row."""
    cdef const uint8_t* behind_ids = block + _HEADER + 8 * rows
    cdef const int8_t* codes
    cdef float scale
    cdef Py_ssize_t place
    if not quantised:
        memcpy(out, behind_ids + 4 * row * dimension, 4 * dimension)
        return
    memcpy(&scale, behind_ids + 4 * row, 4)
    codes = <const int8_t*> (behind_ids + 4 * rows + row * dimension)
    for place in range(dimension):
        out[place] = codes[place] * scale


def gather_rows(list blocks not None, Py_ssize_t size, bytes encoding not None, uint16_t rows_of_block, bint quantised,
                uint64_t[::1] noted not None, const int64_t[::1] places not None, const int64_t[::1] rows not None,
                const int64_t[::1] order not None, float[:, ::1] out not None) -> int:
    """Write row ``rows[i]`` of ``blocks[places[i]]`` to ``out[order[i]]``; the places ascend.

    ``noted`` has of each block the checksum that was verified, plus 2^32, or 0, and has it of each afterwards. Returns
    the place of the first block that is None, damaged, or none of this size, encoding and shape; -1 where all are
    sound. Raises ValueError where the arguments do not fit each other, IndexError for a row or a block that is not.
    """
    cdef Py_ssize_t count = places.shape[0], dimension = out.shape[1], at = 0, place, needed
    cdef const uint8_t* name = encoding
    cdef Py_buffer buffer
    cdef bint sound
    needed = _HEADER + rows_of_block * (8 + (4 + dimension if quantised else 4 * dimension))
    if rows.shape[0] != count or order.shape[0] != count or out.shape[0] != count or noted.shape[0] != len(blocks):
        raise ValueError(f"{count} places, {rows.shape[0]} rows, {order.shape[0]} and {out.shape[0]} to write, and of "
                         f"{len(blocks)} blocks {noted.shape[0]} noted")
    if len(encoding) != 4 or size < needed:
        raise ValueError(f"{size} bytes are no block of {rows_of_block} rows of {dimension} numbers")
    while at < count:
        place = places[at]
        if not 0 <= place < len(blocks):
            raise IndexError(f"there is no block {place} among {len(blocks)}")
        if blocks[place] is None:
            return place
        PyObject_GetBuffer(blocks[place], &buffer, PyBUF_SIMPLE)
        try:
            sound = buffer.len == size and _is_sound(
                <const uint8_t*> buffer.buf, size, name, rows_of_block, <uint32_t> dimension, &noted[place]
            )
            if not sound:
                return place
            while at < count and places[at] == place:
                if not 0 <= rows[at] < rows_of_block:
                    raise IndexError(f"there is no row {rows[at]} among {rows_of_block}")
                if not 0 <= order[at] < count:
                    raise IndexError(f"there is no row {order[at]} among {count} to write")
                _copy(<const uint8_t*> buffer.buf, rows_of_block, rows[at], dimension, quantised, &out[order[at], 0])
                at += 1
        finally:
            PyBuffer_Release(&buffer)
    return -1
