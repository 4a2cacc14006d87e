# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""How a text mentions names: each name's mentions counted by how they are written.

In: a text and its mentions. Out: for each entity three counts, packed into one number. A mention inside a longer one
("York" in "New York") is told from others, and one in lower case from both. No object is made of a mention.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.algorithm cimport sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

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
