# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Reading and replacing elements of sealed msgpack arrays without decoding the others.

In: a record as stored: a msgpack array and its checksum. Out: the msgpack of one element, the record with other
elements, or, for records of integers only, a table. Only nil, numbers, strings, bytes and arrays of them are supported.
Other bytes raise ValueError. Also: the checksum of any record.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

include "sealed.pxi"
include "whole_numbers.pxi"

cdef enum:
    _NIL = 0xC0


def compute_checksum(data) -> int:
    """Return the CRC-32 of some bytes, as zlib computes it, but faster."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        return kv_crc(<const uint8_t*> buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)


def get_payload(value):
    """Return a view of a sealed value without the checksum (CRC-32) at its end; None if the checksum does not match."""
    cdef Py_buffer buffer
    cdef Py_ssize_t size
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        size = _get_payload_size(<const uint8_t*> buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)
    return None if size < 0 else memoryview(value)[:size]


cdef inline const uint8_t* _read_length(
    const uint8_t* cursor, const uint8_t* end, int size, uint64_t* length
) except NULL:
    """Read a big-endian length of ``size`` bytes at ``cursor`` into ``length``. Return the address after it."""
    if end - cursor < size:
        raise ValueError("an element is truncated")
    length[0] = 0
    for _ in range(size):
        length[0] = length[0] << 8 | cursor[0]
        cursor += 1
    return cursor


cdef const uint8_t* _skip_element(const uint8_t* cursor, const uint8_t* end) except NULL:
    """Return the address after the msgpack element at ``cursor``, including the elements of an array."""
    cdef uint64_t remaining = 1, length
    cdef uint8_t kind
    while remaining:
        remaining -= 1
        if cursor >= end:
            raise ValueError("an element is truncated")
        kind = cursor[0]
        cursor += 1
        length = 0
        if kind < 0x80 or kind >= 0xE0 or kind == _NIL:  # positive or negative fixint
            continue
        elif 0x90 <= kind < 0xA0:  # fixarray
            remaining += kind & 15
        elif 0xA0 <= kind < 0xC0:  # fixstr
            length = kind & 31
        elif 0xC4 <= kind <= 0xC6:  # bin 8, 16, 32
            cursor = _read_length(cursor, end, 1 << (kind - 0xC4), &length)
        elif 0xCC <= kind <= 0xD3:  # uint 8 to 64, int 8 to 64
            length = 1 << (kind - 0xCC & 3)
        elif kind == 0xCA or kind == 0xCB:  # float 32, 64
            length = 4 if kind == 0xCA else 8
        elif 0xD9 <= kind <= 0xDB:  # str 8, 16, 32
            cursor = _read_length(cursor, end, 1 << (kind - 0xD9), &length)
        elif kind == 0xDC or kind == 0xDD:  # array 16, 32
            cursor = _read_length(cursor, end, 2 if kind == 0xDC else 4, &length)
            remaining += length
            length = 0
        else:
            raise ValueError("an element has an unsupported type")
        if length > <uint64_t> (end - cursor):
            raise ValueError("an element is truncated")
        cursor += length
    return cursor


cdef const uint8_t* _find_elements(const Py_buffer& sealed, const uint8_t** end, uint64_t* count) except NULL:
    """Return the address of the elements of a record; set ``end`` of its payload and the ``count`` of elements."""
    cdef const uint8_t* cursor = <const uint8_t*> sealed.buf
    cdef Py_ssize_t size = _get_payload_size(cursor, sealed.len)
    if size < 0:
        raise ValueError("the value fails its checksum")
    end[0] = cursor + size
    if size and 0x90 <= cursor[0] < 0xA0:
        count[0] = cursor[0] & 15
        return cursor + 1
    if size and cursor[0] == 0xDC:
        return _read_length(cursor + 1, end[0], 2, count)
    raise ValueError("not an array")


def read_elements(value, positions) -> list:
    """Return the msgpack bytes of the elements of a record at ascending ``positions``, in this order; None for nil.

    Raises ValueError for a damaged record or an invalid position.
    """
    cdef Py_buffer buffer
    cdef const uint8_t* cursor
    cdef const uint8_t* end
    cdef const uint8_t* element_end
    cdef uint64_t count, index = 0, position
    results = []
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        cursor = _find_elements(buffer, &end, &count)
        for position in positions:
            if position >= count:
                raise ValueError("fewer elements than expected")
            if position < index:
                raise ValueError("the positions do not ascend")
            while index < position:
                cursor = _skip_element(cursor, end)
                index += 1
            element_end = _skip_element(cursor, end)
            if cursor[0] == _NIL:
                results.append(None)
            else:
                results.append(PyBytes_FromStringAndSize(<const char*> cursor, element_end - cursor))
    finally:
        PyBuffer_Release(&buffer)
    return results


def replace_elements(value, replacements) -> bytes | None:
    """Return a record with some elements replaced, or None if all elements are then nil.

    ``replacements`` has msgpack bytes by position, None for nil. The record keeps its number of elements.
    """
    cdef Py_buffer buffer
    cdef const uint8_t* cursor
    cdef const uint8_t* end
    cdef const uint8_t* element_end
    cdef const uint8_t* replacement_bytes
    cdef uint64_t count, index
    cdef vector[uint8_t] out
    cdef bint empty = True
    cdef bytes element
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        cursor = _find_elements(buffer, &end, &count)
        out.reserve(buffer.len + 64)
        out.insert(out.end(), <const uint8_t*> buffer.buf, cursor)
        for index in range(count):
            element_end = _skip_element(cursor, end)
            if index in replacements:
                element = replacements[index]
                if element is None:
                    out.push_back(_NIL)
                else:
                    replacement_bytes = element
                    out.insert(out.end(), replacement_bytes, replacement_bytes + len(element))
                    empty = False
            else:
                out.insert(out.end(), cursor, element_end)
                empty &= cursor[0] == _NIL
            cursor = element_end
        if cursor != end:
            raise ValueError("there are extra bytes after the elements")
    finally:
        PyBuffer_Release(&buffer)
    if empty:
        return None
    _seal(out)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


cdef bint _read_row(const Py_buffer& sealed, int64_t nil, int64_t[:, ::1] out, Py_ssize_t row) noexcept:
    """Decode a record into a row of ``out``, with ``nil`` for nil.

    Returns False unless it has one integer or nil per column.
    """
    cdef const uint8_t* cursor = <const uint8_t*> sealed.buf
    cdef const uint8_t* end
    cdef Py_ssize_t size = _get_payload_size(cursor, sealed.len), column
    if size < 1 or cursor[0] != (0x90 | out.shape[1]):  # the header of a fixarray of this length
        return False
    end = cursor + size
    cursor += 1
    for column in range(out.shape[1]):
        if cursor < end and cursor[0] == _NIL:
            out[row, column] = nil
            cursor += 1
            continue
        cursor = _read_integer(cursor, end, &out[row, column])
        if cursor == NULL:
            return False
    return cursor == end


def read_numbers(list values not None, int64_t[:, ::1] out not None, int64_t nil = -1) -> int:
    """Decode records of integers into the rows of ``out``, with at most 15 numbers each; ``nil`` replaces nil.

    Returns the position of the first value that is None, damaged, or not a record of that many integers; -1 if all are
    valid. Raises ValueError if ``out`` has a different number of rows.
    """
    cdef Py_buffer buffer
    cdef Py_ssize_t row
    cdef bint is_valid
    if out.shape[0] != len(values) or out.shape[1] > 15:
        raise ValueError(f"{len(values)} records do not match {out.shape[0]} rows of {out.shape[1]} numbers")
    for row in range(len(values)):
        if values[row] is None:
            return row
        PyObject_GetBuffer(values[row], &buffer, PyBUF_SIMPLE)
        try:
            is_valid = _read_row(buffer, nil, out, row)
        finally:
            PyBuffer_Release(&buffer)
        if not is_valid:
            return row
    return -1
