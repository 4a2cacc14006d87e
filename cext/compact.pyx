# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Compressed ascending numbers, and lists of them in blocks, changed many at a time.

In: a block as stored, with the first number from its key, and the numbers to remove and to add. Out: packed arrays, or
the resulting blocks. Only the differences between consecutive numbers are stored. Invalid bytes raise ValueError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

include "leb128.pxi"
include "sealed.pxi"

cdef enum:
    _MOST = 1 << 30


cdef bytes _bytes(vector[uint8_t]& out):
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


# A payload has the distances of all numbers except the first, which is in the key.


cdef int _read_numbers(uint64_t first, const uint8_t* at, size_t length, vector[uint64_t]& numbers) except -1:
    cdef const uint8_t* end = at + length
    cdef uint64_t distance
    numbers.push_back(first)
    while at < end:
        at = _read(at, end, &distance)
        numbers.push_back(numbers.back() + distance)
    return 0


def unpack_numbers(uint64_t first, payload) -> bytes:
    """Return the numbers of a payload, as packed u64."""
    cdef vector[uint64_t] numbers
    cdef Py_buffer buffer
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        _read_numbers(first, <const uint8_t*> buffer.buf, buffer.len, numbers)
    finally:
        PyBuffer_Release(&buffer)
    return PyBytes_FromStringAndSize(<char*> numbers.data(), 8 * numbers.size())


def pack_numbers(numbers) -> bytes:
    """Return the payload of ascending numbers after 0. Raises ValueError if they do not ascend."""
    cdef vector[uint8_t] out
    cdef uint64_t number, last = 0
    for number in numbers:
        if number < last:
            raise ValueError(f"the numbers do not ascend: {number} follows {last}")
        _write(out, number - last)
        last = number
    return _bytes(out)


cdef int _change(
    vector[uint64_t]& old, vector[uint64_t]& new, gone, added, size_t* removed, size_t* fresh
) except -1:
    """Remove numbers from ``old`` and add others, both ascending; the result is in ``new``. Raises ValueError if they
    do not ascend."""
    cdef uint64_t number, last = 0
    cdef size_t at = 0
    removed[0] = fresh[0] = 0
    new.clear()
    for number in gone:
        if number < last:
            raise ValueError(f"the numbers do not ascend: {number} follows {last}")
        last = number
        while at < old.size() and old[at] < number:
            new.push_back(old[at])
            at += 1
        if at < old.size() and old[at] == number:
            at += 1
            removed[0] += 1
    while at < old.size():
        new.push_back(old[at])
        at += 1
    if added:
        old.swap(new)
        new.clear()
        at = last = 0
        for number in added:
            if number < last or (number == last and fresh[0]):
                raise ValueError(f"the numbers do not ascend: {number} follows {last}")
            last = number
            while at < old.size() and old[at] < number:
                new.push_back(old[at])
                at += 1
            if at < old.size() and old[at] == number:
                continue
            new.push_back(number)
            fresh[0] += 1
        while at < old.size():
            new.push_back(old[at])
            at += 1
    return 0


cdef bytes _key(uint32_t owner, uint64_t first):
    """Return the key of a block: its owner and its first number, both big-endian."""
    cdef uint8_t[12] packed
    _put_big_endian(packed, owner, 4)
    _put_big_endian(packed + 4, first, 8)
    return packed[:12]


cdef uint64_t _last(numbers) except? 0:
    return numbers[len(numbers) - 1] if numbers else 0


def locate_last_blocks(dict changes) -> list:
    """Return for each owner the range of keys of the block that contains its largest number. ``changes`` are as in
    :func:`change_blocks`."""
    cdef uint64_t largest
    ranges = []
    for owner, (gone, added) in changes.items():
        largest = max(_last(gone), _last(added))
        ranges.append((_key(owner, 0)[:4], _key(owner, largest) + b"\0"))
    return ranges


def change_blocks(dict changes, blocks, size_t max_numbers, size_t small, dict written) -> tuple:
    """Change the last affected block of each of some lists of numbers.

    ``changes``: owner → the numbers to remove and those to add, both ascending. ``blocks``: key and sealed value of
    each block, whose first number is below the largest changed number or which is the list's first; None for an empty
    list. Resulting keys and values, None for a removed block, are added to ``written``. A block has at most
    ``max_numbers`` numbers (1 or more).

    Returns for each owner how many numbers were removed and how many were added; the changes that remain for earlier
    blocks; and the blocks that are now smaller than ``small``: owner → key and size. Raises ValueError for numbers that
    do not ascend, for a different number of blocks than of owners and, with the key, for a damaged block.
    """
    cdef vector[uint64_t] old, new
    cdef vector[uint8_t] out
    cdef Py_buffer buffer
    cdef Py_ssize_t size
    cdef size_t removed, fresh, here, coming, part, parts, begin, end, at
    cdef bytes key
    cdef const uint8_t* number
    counted = []
    before = {}
    fallen = {}
    if not 0 < max_numbers <= _MOST:
        raise ValueError(f"a block can have 1 to {_MOST} numbers, not {max_numbers}")
    for (owner, (gone, added)), block in zip(changes.items(), blocks, strict=True):
        old.clear()
        key = None
        here = coming = 0
        if block is not None:
            key, value = block
            if len(key) != 12:
                raise ValueError(f"key {key.hex()}: not the key of a block")
            number = <const uint8_t*> PyBytes_AS_STRING(key) + 4
            PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
            try:
                size = _unsealed(<const uint8_t*> buffer.buf, buffer.len)
                if size < 0:
                    raise ValueError(f"key {key.hex()}: the block fails its checksum")
                _read_numbers(_big_endian(number), <const uint8_t*> buffer.buf, size, old)
            finally:
                PyBuffer_Release(&buffer)
            here, coming = _below(gone, old[0]), _below(added, old[0])
            if here == <size_t> len(gone) and coming == <size_t> len(added):
                here = coming = 0  # the first block of a list takes the numbers below it
            elif here or coming:
                before[owner] = gone[:here], added[:coming]
                gone, added = gone[here:], added[coming:]
        _change(old, new, gone, added, &removed, &fresh)
        counted.append((removed, fresh))
        if not removed and not fresh:
            continue
        if key is not None and (new.empty() or key != _key(owner, new[0])):
            written[key] = None
        parts = (new.size() + max_numbers - 1) // max_numbers
        end = 0
        for part in range(parts):
            begin, end = end, (part + 1) * new.size() // parts
            out.clear()
            for at in range(begin + 1, end):
                _write(out, new[at] - new[at - 1])
            _seal(out)
            written[_key(owner, new[begin])] = _bytes(out)
        if 0 < new.size() < small <= new.size() + removed - fresh:
            fallen[owner] = _key(owner, new[0]), new.size()
    return counted, before, fallen


cdef size_t _below(numbers, uint64_t limit) except? 0:
    """Count the ascending numbers below a limit."""
    cdef size_t count = 0
    cdef uint64_t number
    for number in numbers:
        if number >= limit:
            break
        count += 1
    return count
