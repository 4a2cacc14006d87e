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
    _MAX_BLOCK_NUMBERS = 1 << 30


cdef bytes _to_bytes(vector[uint8_t]& out):
    """Return the content of a vector as bytes."""
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


# A payload has the distances of all numbers except the first, which is in the key.


cdef int _read_numbers(uint64_t first, const uint8_t* cursor, size_t length, vector[uint64_t]& numbers) except -1:
    """Append the numbers of a payload to ``numbers``: ``first``, which is not in the payload, and the others.

    The payload has ``length`` bytes from ``cursor``: the distance of each number from the previous one, as LEB128.
    """
    cdef const uint8_t* end = cursor + length
    cdef uint64_t distance
    numbers.push_back(first)
    while cursor < end:
        cursor = _read_leb128(cursor, end, &distance)
        numbers.push_back(numbers.back() + distance)
    return 0


def unpack_numbers(uint64_t first, payload) -> bytes:
    """Return ``first`` and the numbers of a payload as packed native u64.

    The payload has the distance of each number after ``first`` from the previous one, as LEB128.
    """
    cdef vector[uint64_t] numbers
    cdef Py_buffer buffer
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        _read_numbers(first, <const uint8_t*> buffer.buf, buffer.len, numbers)
    finally:
        PyBuffer_Release(&buffer)
    return PyBytes_FromStringAndSize(<char*> numbers.data(), 8 * numbers.size())


def pack_numbers(numbers) -> bytes:
    """Return ascending numbers as a payload: the distance of each from the previous one, of the first from 0.

    Raises ValueError if they do not ascend.
    """
    cdef vector[uint8_t] out
    cdef uint64_t number, last = 0
    for number in numbers:
        if number < last:
            raise ValueError(f"the numbers do not ascend: {number} follows {last}")
        _write_leb128(out, number - last)
        last = number
    return _to_bytes(out)


cdef int _change_numbers(
    vector[uint64_t]& old, vector[uint64_t]& new, removals, additions, size_t* removed, size_t* added
) except -1:
    """Set ``new`` to the numbers of ``old`` without ``removals`` and with ``additions``, all ascending.

    Sets ``removed`` and ``added`` to the counts of the numbers that were actually removed and added, and may overwrite
    ``old``. Raises ValueError if ``removals`` or ``additions`` do not ascend.
    """
    cdef uint64_t number, last = 0
    cdef size_t position = 0
    removed[0] = added[0] = 0
    new.clear()
    for number in removals:
        if number < last:
            raise ValueError(f"the numbers do not ascend: {number} follows {last}")
        last = number
        while position < old.size() and old[position] < number:
            new.push_back(old[position])
            position += 1
        if position < old.size() and old[position] == number:
            position += 1
            removed[0] += 1
    while position < old.size():
        new.push_back(old[position])
        position += 1
    if additions:
        old.swap(new)
        new.clear()
        position = last = 0
        for number in additions:
            if number < last or (number == last and added[0]):
                raise ValueError(f"the numbers do not ascend: {number} follows {last}")
            last = number
            while position < old.size() and old[position] < number:
                new.push_back(old[position])
                position += 1
            if position < old.size() and old[position] == number:
                continue
            new.push_back(number)
            added[0] += 1
        while position < old.size():
            new.push_back(old[position])
            position += 1
    return 0


cdef bytes _encode_key(uint32_t owner, uint64_t first):
    """Return the key of a block: its owner and its first number, both big-endian."""
    cdef uint8_t[12] packed
    _write_big_endian(packed, owner, 4)
    _write_big_endian(packed + 4, first, 8)
    return packed[:12]


cdef uint64_t _get_largest(numbers) except? 0:
    """Return the last of ascending numbers, or 0 without numbers."""
    return numbers[len(numbers) - 1] if numbers else 0


def locate_last_blocks(dict changes) -> list:
    """Return for each owner a key range (start, stop), which ends with the key of the block to change first.

    That is the block in which the owner's largest changed number belongs. ``changes`` maps owners, such as entities, to
    the numbers to remove and the numbers to add, both ascending.
    """
    cdef uint64_t largest
    ranges = []
    for owner, (removals, additions) in changes.items():
        largest = max(_get_largest(removals), _get_largest(additions))
        ranges.append((_encode_key(owner, 0)[:4], _encode_key(owner, largest) + b"\0"))
    return ranges


def change_blocks(dict changes, blocks, size_t max_numbers, size_t min_numbers, dict written) -> tuple:
    """Change one block of the list of numbers of each owner: the last block that the changes affect.

    ``changes`` maps owners to the numbers to remove and the numbers to add, both ascending. ``blocks`` has an item for
    each owner, in the same order: the key and the sealed value of the block in which the owner's largest changed number
    belongs (see :func:`locate_last_blocks`), the first block of the list if that number precedes all blocks, or None
    for an empty list. A changed block is split into blocks of at most ``max_numbers`` numbers (1 or more). Their keys
    and values are added to ``written``, with the value None for a removed block.

    Returns a list, with the counts of removed and of added numbers of each owner; the changes that remain for earlier
    blocks, like ``changes``; and a dictionary from owners to the key and size of the block, for each block that had at
    least ``min_numbers`` numbers and now has fewer, but is not empty. Raises ValueError for numbers that do not ascend,
    for a different number of blocks than of owners and, with the key, for a damaged block.
    """
    cdef vector[uint64_t] old, new
    cdef vector[uint8_t] out
    cdef size_t removed, added, removals_below, additions_below
    cdef bytes key
    counts = []
    remaining = {}
    undersized = {}
    if not 0 < max_numbers <= _MAX_BLOCK_NUMBERS:
        raise ValueError(f"a block can have 1 to {_MAX_BLOCK_NUMBERS} numbers, not {max_numbers}")
    for (owner, (removals, additions)), block in zip(changes.items(), blocks, strict=True):
        old.clear()
        key = None
        removals_below = additions_below = 0
        if block is not None:
            key, value = block
            _read_block(key, value, old)
            removals_below, additions_below = _count_below(removals, old[0]), _count_below(additions, old[0])
            if removals_below == <size_t> len(removals) and additions_below == <size_t> len(additions):
                removals_below = additions_below = 0  # the first block of a list takes the numbers below it
            elif removals_below or additions_below:
                remaining[owner] = removals[:removals_below], additions[:additions_below]
                removals, additions = removals[removals_below:], additions[additions_below:]
        _change_numbers(old, new, removals, additions, &removed, &added)
        counts.append((removed, added))
        if not removed and not added:
            continue
        if key is not None and (new.empty() or key != _encode_key(owner, new[0])):
            written[key] = None
        _write_blocks(owner, new, max_numbers, out, written)
        if 0 < new.size() < min_numbers <= new.size() + removed - added:
            undersized[owner] = _encode_key(owner, new[0]), new.size()
    return counts, remaining, undersized


cdef int _read_block(bytes key, value, vector[uint64_t]& numbers) except -1:
    """Append the numbers of a stored block to ``numbers``. Raises ValueError if the block is damaged."""
    cdef Py_buffer buffer
    cdef Py_ssize_t size
    if len(key) != 12:
        raise ValueError(f"key {key.hex()}: not the key of a block")
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        size = _get_payload_size(<const uint8_t*> buffer.buf, buffer.len)
        if size < 0:
            raise ValueError(f"key {key.hex()}: the block fails its checksum")
        _read_numbers(
            _read_big_endian(<const uint8_t*> PyBytes_AS_STRING(key) + 4), <const uint8_t*> buffer.buf, size, numbers
        )
    finally:
        PyBuffer_Release(&buffer)
    return 0


cdef int _write_blocks(
    owner, const vector[uint64_t]& numbers, size_t max_numbers, vector[uint8_t]& out, dict written
) except -1:
    """Add the numbers of an owner to ``written``, as blocks of about the same size with at most ``max_numbers``.

    ``out`` is working memory.
    """
    cdef size_t num_blocks = (numbers.size() + max_numbers - 1) // max_numbers
    cdef size_t block, begin, end = 0, position
    for block in range(num_blocks):
        begin, end = end, (block + 1) * numbers.size() // num_blocks
        out.clear()
        for position in range(begin + 1, end):
            _write_leb128(out, numbers[position] - numbers[position - 1])
        _seal(out)
        written[_encode_key(owner, numbers[begin])] = _to_bytes(out)
    return 0


cdef size_t _count_below(numbers, uint64_t limit) except? 0:
    """Return how many of some ascending numbers are below a limit."""
    cdef size_t count = 0
    cdef uint64_t number
    for number in numbers:
        if number >= limit:
            break
        count += 1
    return count
