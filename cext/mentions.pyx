# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""How a text mentions names: each name's mentions counted by how they are written.

In: a text and its mentions. Out: for each entity three counts, packed into one number. A mention inside a longer one
("York" in "New York") is told from others, and one in lower case from both. No object is made of a mention. Of stored
rows of mentions: those that are in no longer one.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libcpp.algorithm cimport sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

include "sealed.pxi"
include "whole_numbers.pxi"

cdef enum:
    _LONGEST_WORD = 32  # bytes of a word that may be one of those left out
    _CAPITALISED = 0
    _INSIDE = 1
    _LOWER = 2


cdef struct Form:
    bint plain   # ASCII
    bint spaced
    bint lower   # in lower case, and no digit in it


cdef inline Form _form(const unsigned char* at, Py_ssize_t size, char* lowered) noexcept:
    """How a piece of text is written; up to ``_LONGEST_WORD`` bytes of it in lower case."""
    cdef Form form
    cdef bint cased = False, capital = False, digit = False
    cdef Py_ssize_t i
    cdef unsigned char c
    form.plain, form.spaced, form.lower = True, False, False
    for i in range(size):
        c = at[i]
        if c >= 128:
            form.plain = False
            return form
        if 65 <= c <= 90:
            cased = capital = True
            c += 32
        elif 97 <= c <= 122:
            cased = True
        elif 48 <= c <= 57:
            digit = True
        elif c <= 32:
            form.spaced = True
        if i < _LONGEST_WORD:
            lowered[i] = <char> c
    form.lower = cased and not capital and not digit
    return form


def counted_mentions(
    bytes text not None, mentions not None, leaving_out not None, written_as not None, tuple most not None,
    tuple shifts not None,
) -> dict:
    """The counts of each entity among the ``mentions`` (entity, start and length in bytes): with a capital or a digit,
    such ones inside a longer mention, and in lower case; each at most what ``most`` says, shifted by ``shifts``.

    Mentions of a word of ``leaving_out`` are not counted, but what is inside them is inside.
    ``written_as`` says of a form (UTF-8) that is not ASCII whether it counts, and whether it is in lower case.
    Raises ValueError for a mention that is not in the text.
    """
    cdef vector[pair[uint64_t, uint32_t]] places
    cdef const unsigned char* data = <const unsigned char*> PyBytes_AS_STRING(text)
    cdef char[_LONGEST_WORD] lowered
    cdef int64_t size = len(text), start, length, end, reach = -1
    cdef uint64_t last = 0, place
    cdef uint32_t entity
    cdef size_t i
    cdef Form form
    cdef bint inside, counts, lower
    cdef int which, count
    cdef int[3] highest
    cdef int[3] shift
    for which in range(3):
        highest[which], shift[which] = most[which], shifts[which]
    for entity, start, length in mentions:
        if start < 0 or length <= 0 or start + length > size or size > 0x7FFFFFFF:
            raise ValueError(f"a mention of bytes {start} to {start + length} in a text of {size}")
        places.push_back(pair[uint64_t, uint32_t](
            <uint64_t> start << 32 | (0xFFFFFFFFU - <uint32_t> (start + length)), entity))
    sort(places.begin(), places.end())
    found = {}
    for i in range(places.size()):
        place = places[i].first
        start, end = <int64_t> (place >> 32), <int64_t> (0xFFFFFFFFU - <uint32_t> place)
        inside = end <= reach and (i == 0 or place != last)
        if not inside:
            reach, last = end, place
        form = _form(data + start, end - start, &lowered[0])
        if form.plain:
            lower = form.lower
            counts = (
                form.spaced or end - start > _LONGEST_WORD
                or PyUnicode_DecodeASCII(&lowered[0], end - start, NULL) not in leaving_out
            )
        else:
            counts, lower = written_as(text[start:end])
        if not counts:
            continue
        which = _LOWER if lower else _INSIDE if inside else _CAPITALISED
        entity = places[i].second
        packed = found.get(entity, 0)
        count = <int> (<uint32_t> packed >> shift[which]) & highest[which]
        found[entity] = packed + (1 << shift[which]) if count < highest[which] else packed
    return found


#: A mention: where it begins, its length below 0, and the entity. So they sort as names are read, the longer first.
ctypedef pair[int64_t, pair[int64_t, int64_t]] Placed


cdef bint _read_mentions(const Py_buffer& sealed, vector[Placed]& found) noexcept:
    """Read a stored row: entity, distance from the mention before, and length, again and again; False where it is none.
    """
    cdef const uint8_t* at = <const uint8_t*> sealed.buf
    cdef const uint8_t* end
    cdef Py_ssize_t size = _unsealed(at, sealed.len)
    cdef uint64_t count, number
    cdef int64_t[3] three
    cdef int64_t start = 0
    found.clear()
    if size < 0:
        return False
    end = at + size
    at = _array_of(at, end, &count)
    if at == NULL or count % 3:
        return False
    for number in range(count):
        at = _whole_number(at, end, &three[number % 3])
        if at == NULL:
            return False
        if number % 3 == 2:
            start += three[1]
            found.push_back(Placed(start, pair[int64_t, int64_t](-three[2], three[0])))
    return at == end


def outermost_mentions(list rows not None) -> list:
    """Of stored rows of mentions (None: there are none) those that lie in no longer mention, a row each: entity, start
    and end of each, packed as i64, in order of the text. Raises ValueError for a row that is damaged or none."""
    cdef Py_buffer buffer
    cdef vector[Placed] placed
    cdef vector[int64_t] out
    cdef size_t number
    cdef int64_t start, end, reach, last_start, last_end
    cdef bint sound
    found = []
    for value in rows:
        out.clear()
        if value is not None:
            PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
            try:
                sound = _read_mentions(buffer, placed)
            finally:
                PyBuffer_Release(&buffer)
            if not sound:
                raise ValueError("a row of mentions is damaged")
            sort(placed.begin(), placed.end())
            reach = last_start = last_end = -1
            for number in range(placed.size()):
                start = placed[number].first
                end = start - placed[number].second.first
                if end > reach or (start == last_start and end == last_end):
                    reach, last_start, last_end = end, start, end
                    out.push_back(placed[number].second.second)
                    out.push_back(start)
                    out.push_back(end)
        found.append(PyBytes_FromStringAndSize(<char*> out.data(), 8 * out.size()))
    return found
