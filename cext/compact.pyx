# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Ascending numbers and postings in few bytes, and changes of them without a way through arrays.

In: a payload as stored, with the number that its key gives, and what is to go and to come. Out: packed arrays, or the
new payloads. A number is written in groups of seven bits, lowest first, the eighth bit set on all but the last (LEB128);
of numbers in order only the distances are written. The chunks of postings are written as Lucene's first format did: the
lowest bit of a distance says that the term occurs once. Bytes that are no such payload raise ValueError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint64_t
from libcpp.vector cimport vector


cdef struct Posting:
    uint64_t chunk
    uint16_t length
    uint8_t frequency


cdef inline void _write(vector[uint8_t]& out, uint64_t number) noexcept:
    while number >= 128:
        out.push_back(<uint8_t> (number | 128))
        number >>= 7
    out.push_back(<uint8_t> number)


cdef inline const uint8_t* _read(const uint8_t* at, const uint8_t* end, uint64_t* number) except NULL:
    cdef int shift = 0
    number[0] = 0
    while at < end and shift < 64:
        number[0] |= <uint64_t> (at[0] & 127) << shift
        if at[0] < 128:
            return at + 1
        at += 1
        shift += 7
    raise ValueError("a number is cut short")


cdef bytes _bytes(vector[uint8_t]& out):
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


# -- Ascending numbers; a payload holds the distances of all but the first, which is in the key


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


# -- Postings; a payload holds their number, then of each the distance from the one before, frequency and chunk length


cdef int _read_postings(uint64_t first, object payload, vector[Posting]& postings) except -1:
    cdef Py_buffer buffer
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef uint64_t count, distance, length
    cdef Posting posting
    posting.chunk = first
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        at = <const uint8_t*> buffer.buf
        end = at + buffer.len
        at = _read(at, end, &count)
        if count > <uint64_t> buffer.len:
            raise ValueError("more postings are announced than there can be")
        postings.reserve(count)
        while count:
            at = _read(at, end, &distance)
            posting.chunk += distance >> 1
            posting.frequency = 1
            if not distance & 1:
                if at == end:
                    raise ValueError("a posting is cut short")
                posting.frequency = at[0]
                at += 1
            at = _read(at, end, &length)
            posting.length = <uint16_t> length
            postings.push_back(posting)
            count -= 1
        if at != end:
            raise ValueError("something follows the postings")
    finally:
        PyBuffer_Release(&buffer)
    return 0


def count_postings(payload) -> int:
    """How many postings a payload holds."""
    cdef Py_buffer buffer
    cdef uint64_t count
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        _read(<const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + buffer.len, &count)
    finally:
        PyBuffer_Release(&buffer)
    return count


def unpack_postings(uint64_t first, payload) -> tuple:
    """Chunks (packed u64), frequencies (bytes) and chunk lengths (packed u16) of a payload."""
    cdef vector[Posting] postings
    cdef size_t i
    _read_postings(first, payload, postings)
    chunks = PyBytes_FromStringAndSize(NULL, 8 * postings.size())
    frequencies = PyBytes_FromStringAndSize(NULL, postings.size())
    lengths = PyBytes_FromStringAndSize(NULL, 2 * postings.size())
    cdef uint64_t* chunk = <uint64_t*> <char*> chunks
    cdef uint8_t* frequency = <uint8_t*> <char*> frequencies
    cdef uint16_t* length = <uint16_t*> <char*> lengths
    for i in range(postings.size()):
        chunk[i] = postings[i].chunk
        frequency[i] = postings[i].frequency
        length[i] = postings[i].length
    return chunks, frequencies, lengths


def change_postings(first, payload, gone, added, size_t most) -> list:
    """Take the postings of chunks out of a payload and put others behind the rest; ``first`` is None where there is no
    payload yet.

    ``gone`` are ascending chunks, ``added`` ascending (chunk, frequency, chunk length), all above those that stay.
    Returns the payloads that result, each with its first chunk; all but the last hold ``most`` postings.
    """
    cdef vector[Posting] old, new
    cdef vector[uint8_t] out
    cdef Posting posting
    cdef uint64_t chunk, distance
    cdef size_t at = 0, begin, end
    if first is not None:
        _read_postings(first, payload, old)
    for chunk in gone:
        while at < old.size() and old[at].chunk < chunk:
            new.push_back(old[at])
            at += 1
        if at < old.size() and old[at].chunk == chunk:
            at += 1
    while at < old.size():
        new.push_back(old[at])
        at += 1
    for chunk, frequency, length in added:
        if new.size() and chunk <= new.back().chunk:
            raise ValueError("a chunk is added before one that is there")
        posting.chunk, posting.frequency, posting.length = chunk, frequency, length
        new.push_back(posting)
    found = []
    for begin in range(0, new.size(), most):
        end = min(begin + most, new.size())
        out.clear()
        _write(out, end - begin)
        chunk = new[begin].chunk
        for at in range(begin, end):
            distance = new[at].chunk - chunk
            chunk = new[at].chunk
            if new[at].frequency == 1:
                _write(out, distance << 1 | 1)
            else:
                _write(out, distance << 1)
                out.push_back(new[at].frequency)
            _write(out, new[at].length)
        found.append((new[begin].chunk, _bytes(out)))
    return found
