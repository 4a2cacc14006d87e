# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Ascending numbers in few bytes, and changes of them without a way through arrays.

In: a payload as stored, with the number that its key gives, and what is to go and to come. Out: packed arrays, or the
new payloads. Of numbers in order only the distances are written. Bytes that are no such payload raise ValueError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libcpp.vector cimport vector

include "leb128.pxi"


cdef bytes _bytes(vector[uint8_t]& out):
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


# A payload holds the distances of all numbers but the first, which is in the key.


cdef int _read_numbers(uint64_t first, object payload, vector[uint64_t]& numbers) except -1:
    cdef Py_buffer buffer
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef uint64_t distance
    numbers.push_back(first)
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        at = <const uint8_t*> buffer.buf
        end = at + buffer.len
        while at < end:
            at = _read(at, end, &distance)
            numbers.push_back(numbers.back() + distance)
    finally:
        PyBuffer_Release(&buffer)
    return 0


def unpack_numbers(uint64_t first, payload) -> bytes:
    """The numbers of a payload, as packed u64."""
    cdef vector[uint64_t] numbers
    _read_numbers(first, payload, numbers)
    return PyBytes_FromStringAndSize(<char*> numbers.data(), 8 * numbers.size())


def pack_numbers(numbers) -> bytes:
    """The payload of ascending numbers after 0."""
    cdef vector[uint8_t] out
    cdef uint64_t number, last = 0
    for number in numbers:
        _write(out, number - last)
        last = number
    return _bytes(out)


def change_numbers(first, payload, gone, added, size_t most) -> tuple:
    """Take numbers out of a payload and put others in; ``first`` is None where there is no payload yet.

    ``gone`` and ``added`` are ascending. Returns the payloads that result, each with its first number, of equal size
    and no longer than ``most``; how many numbers they hold, how many were there to go, and how many were new.
    """
    cdef vector[uint64_t] old, new
    cdef vector[uint8_t] out
    cdef uint64_t number
    cdef size_t at = 0, removed = 0, fresh = 0, part, parts, begin, end
    if first is not None:
        _read_numbers(first, payload, old)
    for number in gone:
        while at < old.size() and old[at] < number:
            new.push_back(old[at])
            at += 1
        if at < old.size() and old[at] == number:
            at += 1
            removed += 1
    while at < old.size():
        new.push_back(old[at])
        at += 1
    if added:
        old.swap(new)
        new.clear()
        at = 0
        for number in added:
            while at < old.size() and old[at] < number:
                new.push_back(old[at])
                at += 1
            if at < old.size() and old[at] == number:
                continue
            new.push_back(number)
            fresh += 1
        while at < old.size():
            new.push_back(old[at])
            at += 1
    found = []
    parts = (new.size() + most - 1) // most
    end = 0
    for part in range(parts):
        begin, end = end, (part + 1) * new.size() // parts
        out.clear()
        for at in range(begin + 1, end):
            _write(out, new[at] - new[at - 1])
        found.append((new[begin], _bytes(out)))
    return found, new.size(), removed, fresh
