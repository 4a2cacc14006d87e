# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Counts of the mentions of names in a text, by spelling.

In: a text and its mentions. Out: for each entity three counts, packed into one number. Mentions inside a longer one
("York" in "New York") and mentions in lower case are counted separately. No object is created per mention. Also:
filters stored rows of mentions for those that are not inside a longer one.
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
    _MAX_WORD_BYTES = 32  # most bytes of a word that may be left out
    _CAPITALISED = 0
    _INSIDE = 1
    _LOWER = 2


cdef struct Form:
    bint plain   # ASCII
    bint spaced
    bint lower   # in lower case, and no digit in it


cdef inline Form _classify_spelling(const unsigned char* at, Py_ssize_t size, char* lowered) noexcept:
    """Determine the spelling of a piece of text; writes up to ``_MAX_WORD_BYTES`` bytes of it in lower case."""
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
        if i < _MAX_WORD_BYTES:
            lowered[i] = <char> c
    form.lower = cased and not capital and not digit
    return form


def count_spellings(
    bytes text not None, mentions not None, leaving_out not None, written_as not None, tuple most not None,
    tuple shifts not None,
) -> dict:
    """Count the ``mentions`` (entity, start and length in bytes) of each entity: with a capital or a digit, the same
    inside a longer mention, and in lower case. Each count is limited to ``most`` and shifted by ``shifts``.

    Mentions of a word of ``leaving_out`` are not counted, but mentions inside them count as inside. ``written_as``
    tests a form (UTF-8) that is not ASCII: whether it counts, and whether it is in lower case. Raises ValueError for a
    mention that is not in the text.
    """
    cdef vector[pair[uint64_t, uint32_t]] sorted_mentions
    cdef const unsigned char* data = <const unsigned char*> PyBytes_AS_STRING(text)
    cdef char[_MAX_WORD_BYTES] lowered
    cdef int64_t size = len(text), start, length, end, reach = -1
    cdef uint64_t last = 0, position
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
            raise ValueError(f"a mention of bytes {start} to {start + length} is outside a text of {size} bytes")
        sorted_mentions.push_back(pair[uint64_t, uint32_t](
            <uint64_t> start << 32 | (0xFFFFFFFFU - <uint32_t> (start + length)), entity))
    sort(sorted_mentions.begin(), sorted_mentions.end())
    packed_counts = {}
    for i in range(sorted_mentions.size()):
        position = sorted_mentions[i].first
        start, end = <int64_t> (position >> 32), <int64_t> (0xFFFFFFFFU - <uint32_t> position)
        inside = end <= reach and (i == 0 or position != last)
        if not inside:
            reach, last = end, position
        form = _classify_spelling(data + start, end - start, &lowered[0])
        if form.plain:
            lower = form.lower
            counts = (
                form.spaced or end - start > _MAX_WORD_BYTES
                or PyUnicode_DecodeASCII(&lowered[0], end - start, NULL) not in leaving_out
            )
        else:
            counts, lower = written_as(text[start:end])
        if not counts:
            continue
        which = _LOWER if lower else _INSIDE if inside else _CAPITALISED
        entity = sorted_mentions[i].second
        packed = packed_counts.get(entity, 0)
        count = <int> (<uint32_t> packed >> shift[which]) & highest[which]
        packed_counts[entity] = packed + (1 << shift[which]) if count < highest[which] else packed
    return packed_counts


#: A mention: start, negated length, and entity, so that mentions sort in reading order, the longer first.
ctypedef pair[int64_t, pair[int64_t, int64_t]] Mention


cdef bint _read_mentions(const Py_buffer& sealed, vector[Mention]& mentions) noexcept:
    """Read a stored row: repeatedly entity, distance from the previous mention, and length; False if it is invalid."""
    cdef const uint8_t* at = <const uint8_t*> sealed.buf
    cdef const uint8_t* end
    cdef Py_ssize_t size = _get_payload_size(at, sealed.len)
    cdef uint64_t count, number
    cdef int64_t[3] three
    cdef int64_t start = 0
    mentions.clear()
    if size < 0:
        return False
    end = at + size
    at = _read_array_length(at, end, &count)
    if at == NULL or count % 3:
        return False
    for number in range(count):
        at = _read_integer(at, end, &three[number % 3])
        if at == NULL:
            return False
        if number % 3 == 2:
            start += three[1]
            mentions.push_back(Mention(start, pair[int64_t, int64_t](-three[2], three[0])))
    return at == end


def select_outermost_mentions(list rows not None) -> list:
    """Return from stored rows of mentions (None: no row) the mentions that are not inside a longer one. A result row
    has entity, start and end of each, packed as i64, in text order. Raises ValueError for a damaged or invalid row."""
    cdef Py_buffer buffer
    cdef vector[Mention] mentions
    cdef vector[int64_t] out
    cdef size_t number
    cdef int64_t start, end, reach, last_start, last_end
    cdef bint sound
    results = []
    for value in rows:
        out.clear()
        if value is not None:
            PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
            try:
                sound = _read_mentions(buffer, mentions)
            finally:
                PyBuffer_Release(&buffer)
            if not sound:
                raise ValueError("a row of mentions is damaged")
            sort(mentions.begin(), mentions.end())
            reach = last_start = last_end = -1
            for number in range(mentions.size()):
                start = mentions[number].first
                end = start - mentions[number].second.first
                if end > reach or (start == last_start and end == last_end):
                    reach, last_start, last_end = end, start, end
                    out.push_back(mentions[number].second.second)
                    out.push_back(start)
                    out.push_back(end)
        results.append(PyBytes_FromStringAndSize(<char*> out.data(), 8 * out.size()))
    return results
