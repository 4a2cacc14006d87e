# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Reading and replacing elements of sealed msgpack arrays without decoding the others.

In: a record as stored: a msgpack array and its checksum. Out: the msgpack of one element, the record with other
elements, or, for records of integers only, a table. Only nil, numbers, strings, bytes and arrays of them are supported.
Other bytes raise ValueError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

include "sealed.pxi"
include "whole_numbers.pxi"

cdef enum:
    _NIL = 0xC0


cdef inline const uint8_t* _read_length(const uint8_t* at, const uint8_t* end, int size, uint64_t* length) except NULL:
    """Read a length of ``size`` bytes, big-endian. Returns the address after it."""
    if end - at < size:
        raise ValueError("an element is truncated")
    length[0] = 0
    for _ in range(size):
        length[0] = length[0] << 8 | at[0]
        at += 1
    return at


cdef const uint8_t* _skip_element(const uint8_t* at, const uint8_t* end) except NULL:
    """Return the address after the element at ``at``."""
    cdef uint64_t remaining = 1, length
    cdef uint8_t kind
    while remaining:
        remaining -= 1
        if at >= end:
            raise ValueError("an element is truncated")
        kind = at[0]
        at += 1
        length = 0
        if kind < 0x80 or kind >= 0xE0 or kind == _NIL:
            continue
        elif 0x90 <= kind < 0xA0:
            remaining += kind & 15
        elif 0xA0 <= kind < 0xC0:
            length = kind & 31
        elif 0xC4 <= kind <= 0xC6:
            at = _read_length(at, end, 1 << (kind - 0xC4), &length)
        elif 0xCC <= kind <= 0xD3:
            length = 1 << (kind - 0xCC & 3)
        elif kind == 0xCA or kind == 0xCB:
            length = 4 if kind == 0xCA else 8
        elif 0xD9 <= kind <= 0xDB:
            at = _read_length(at, end, 1 << (kind - 0xD9), &length)
        elif kind == 0xDC or kind == 0xDD:
            at = _read_length(at, end, 2 if kind == 0xDC else 4, &length)
            remaining += length
            length = 0
        else:
            raise ValueError("an element has an unsupported type")
        if length > <uint64_t> (end - at):
            raise ValueError("an element is truncated")
        at += length
    return at


cdef const uint8_t* _find_elements(const Py_buffer& sealed, const uint8_t** end, uint64_t* count) except NULL:
    """Return the address of a record's elements; sets the end of its payload and the number of elements."""
    cdef const uint8_t* at = <const uint8_t*> sealed.buf
    cdef Py_ssize_t size = _get_payload_size(at, sealed.len)
    if size < 0:
        raise ValueError("the value fails its checksum")
    end[0] = at + size
    if size and 0x90 <= at[0] < 0xA0:
        count[0] = at[0] & 15
        return at + 1
    if size and at[0] == 0xDC:
        return _read_length(at + 1, end[0], 2, count)
    raise ValueError("not an array")


def read_elements(value, positions) -> list:
    """Return the msgpack of the elements at some positions, which ascend; None for nil."""
    cdef Py_buffer buffer
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef const uint8_t* element_end
    cdef uint64_t count, number = 0, position
    results = []
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        at = _find_elements(buffer, &end, &count)
        for position in positions:
            if position >= count:
                raise ValueError("fewer elements than expected")
            if position < number:
                raise ValueError("the positions do not ascend")
            while number < position:
                at = _skip_element(at, end)
                number += 1
            element_end = _skip_element(at, end)
            results.append(None if at[0] == _NIL else PyBytes_FromStringAndSize(<const char*> at, element_end - at))
    finally:
        PyBuffer_Release(&buffer)
    return results


def replace_elements(value, changed) -> bytes | None:
    """Replace some elements of a record (position → msgpack, None for nil). Returns None if all elements are then nil.

    The record keeps its length.
    """
    cdef Py_buffer buffer
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef const uint8_t* element_end
    cdef const uint8_t* replacement
    cdef uint64_t count, number
    cdef vector[uint8_t] out
    cdef bint empty = True
    cdef bytes element
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        at = _find_elements(buffer, &end, &count)
        out.reserve(buffer.len + 64)
        out.insert(out.end(), <const uint8_t*> buffer.buf, at)
        for number in range(count):
            element_end = _skip_element(at, end)
            if number in changed:
                element = changed[number]
                if element is None:
                    out.push_back(_NIL)
                else:
                    replacement = element
                    out.insert(out.end(), replacement, replacement + len(element))
                    empty = False
            else:
                out.insert(out.end(), at, element_end)
                empty &= at[0] == _NIL
            at = element_end
        if at != end:
            raise ValueError("there are extra bytes after the elements")
    finally:
        PyBuffer_Release(&buffer)
    if empty:
        return None
    _seal(out)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


cdef bint _read_row(const Py_buffer& sealed, int64_t nil, int64_t[:, ::1] out, Py_ssize_t row) noexcept:
    """Decode a record into a row; False unless it has exactly one integer or nil per column."""
    cdef const uint8_t* at = <const uint8_t*> sealed.buf
    cdef const uint8_t* end
    cdef Py_ssize_t size = _get_payload_size(at, sealed.len), column
    if size < 1 or at[0] != (0x90 | out.shape[1]):
        return False
    end = at + size
    at += 1
    for column in range(out.shape[1]):
        if at < end and at[0] == _NIL:
            out[row, column] = nil
            at += 1
            continue
        at = _read_integer(at, end, &out[row, column])
        if at == NULL:
            return False
    return at == end


def read_numbers(list values not None, int64_t[:, ::1] out not None, int64_t nil = -1) -> int:
    """Decode records of integers into the rows of ``out``, with at most 15 numbers each; ``nil`` replaces nil.

    Returns the position of the first value that is None, damaged, or not a record of that many integers; -1 if all are
    valid. Raises ValueError if ``out`` has a different number of rows.
    """
    cdef Py_buffer buffer
    cdef Py_ssize_t row
    cdef bint read
    if out.shape[0] != len(values) or out.shape[1] > 15:
        raise ValueError(f"{len(values)} records do not match {out.shape[0]} rows of {out.shape[1]} numbers")
    for row in range(len(values)):
        if values[row] is None:
            return row
        PyObject_GetBuffer(values[row], &buffer, PyBUF_SIMPLE)
        try:
            read = _read_row(buffer, nil, out, row)
        finally:
            PyBuffer_Release(&buffer)
        if not read:
            return row
    return -1
