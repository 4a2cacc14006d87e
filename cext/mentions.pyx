# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Counts of the mentions of names in a text, by spelling.

In: a text and its mentions. Out: for each entity three counts, packed into one number. Mentions inside a longer one
("York" in "New York") and mentions in lower case are counted separately. No object is created per mention. Also:
writes rows of mentions as they are stored, and filters, changes and counts stored rows.
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
    _CAPITALIZED = 0
    _INSIDE = 1
    _LOWER = 2


cdef struct Form:
    bint is_ascii
    bint has_space
    bint is_lower  # in lower case, without digits


cdef inline Form _classify_spelling(const unsigned char* cursor, Py_ssize_t size, char* lowered) noexcept:
    """Return how a piece of text is spelled; write its first ``_MAX_WORD_BYTES`` bytes in lower case to ``lowered``.

    If the piece is not ASCII, only the ``is_ascii`` field is valid.
    """
    cdef Form form
    cdef bint cased = False, capital = False, digit = False
    cdef Py_ssize_t i
    cdef unsigned char c
    form.is_ascii, form.has_space, form.is_lower = True, False, False
    for i in range(size):
        c = cursor[i]
        if c >= 128:
            form.is_ascii = False
            return form
        if 65 <= c <= 90:
            cased = capital = True
            c += 32
        elif 97 <= c <= 122:
            cased = True
        elif 48 <= c <= 57:
            digit = True
        elif c <= 32:
            form.has_space = True
        if i < _MAX_WORD_BYTES:
            lowered[i] = <char> c
    form.is_lower = cased and not capital and not digit
    return form


def count_spellings(
    bytes text not None, mentions not None, excluded not None, classify_form not None, tuple max_counts not None,
    tuple shifts not None,
) -> dict:
    """Count the mentions of each entity by spelling, and return the counts by entity, each packed into one integer.

    ``mentions`` are (entity, start, length), in bytes. There are three counts: of mentions with a capital or a digit,
    of such mentions inside a longer mention, and of mentions in lower case. Count i is at most ``max_counts[i]``, a bit
    mask, and is shifted by ``shifts[i]`` bits. Mentions of a word in ``excluded`` (in lower case) are not counted, but
    mentions inside them count as inside. For a form (UTF-8) that is not ASCII, ``classify_form`` returns (True if it is
    counted, True if it is in lower case). Raises ValueError for a mention that is not in the text.
    """
    cdef vector[pair[uint64_t, uint32_t]] sorted_mentions
    cdef const unsigned char* data = <const unsigned char*> PyBytes_AS_STRING(text)
    cdef char[_MAX_WORD_BYTES] lowered
    cdef int64_t size = len(text), start, length, end, outer_end = -1
    cdef uint64_t outer_position = 0, position
    cdef uint32_t entity
    cdef size_t i
    cdef Form form
    cdef bint inside, is_counted, lower
    cdef int category, count
    cdef int[3] max_count
    cdef int[3] shift
    for category in range(3):
        max_count[category], shift[category] = max_counts[category], shifts[category]
    for entity, start, length in mentions:
        if start < 0 or length <= 0 or start + length > size or size > 0x7FFFFFFF:
            raise ValueError(f"a mention of bytes {start} to {start + length} is outside a text of {size} bytes")
        # By start; of mentions with the same start, the longest comes first.
        sorted_mentions.push_back(pair[uint64_t, uint32_t](
            <uint64_t> start << 32 | (0xFFFFFFFFU - <uint32_t> (start + length)), entity))
    sort(sorted_mentions.begin(), sorted_mentions.end())
    packed_counts = {}
    for i in range(sorted_mentions.size()):
        position = sorted_mentions[i].first
        start, end = <int64_t> (position >> 32), <int64_t> (0xFFFFFFFFU - <uint32_t> position)
        inside = end <= outer_end and (i == 0 or position != outer_position)
        if not inside:
            outer_end, outer_position = end, position
        form = _classify_spelling(data + start, end - start, &lowered[0])
        if form.is_ascii:
            lower = form.is_lower
            is_counted = (
                form.has_space or end - start > _MAX_WORD_BYTES
                or PyUnicode_DecodeASCII(&lowered[0], end - start, NULL) not in excluded
            )
        else:
            is_counted, lower = classify_form(text[start:end])
        if not is_counted:
            continue
        category = _LOWER if lower else _INSIDE if inside else _CAPITALIZED
        entity = sorted_mentions[i].second
        packed = packed_counts.get(entity, 0)
        count = <int> (<uint32_t> packed >> shift[category]) & max_count[category]
        packed_counts[entity] = packed + (1 << shift[category]) if count < max_count[category] else packed
    return packed_counts


#: A mention: start, negated length, and entity, so that mentions sort in reading order, the longer first.
ctypedef pair[int64_t, pair[int64_t, int64_t]] Mention


cdef bint _read_mentions(const Py_buffer& sealed, vector[Mention]& mentions) noexcept:
    """Set ``mentions`` to the mentions in a stored row; return False if the row is invalid.

    A row has three numbers per mention: entity, distance from the start of the previous mention, and length.
    """
    cdef const uint8_t* cursor = <const uint8_t*> sealed.buf
    cdef const uint8_t* end
    cdef Py_ssize_t size = _get_payload_size(cursor, sealed.len)
    cdef uint64_t count, index
    cdef int64_t[3] triple
    cdef int64_t start = 0
    mentions.clear()
    if size < 0:
        return False
    end = cursor + size
    cursor = _read_array_length(cursor, end, &count)
    if cursor == NULL or count % 3:
        return False
    for index in range(count):
        cursor = _read_integer(cursor, end, &triple[index % 3])
        if cursor == NULL:
            return False
        if index % 3 == 2:
            start += triple[1]
            mentions.push_back(Mention(start, pair[int64_t, int64_t](-triple[2], triple[0])))
    return cursor == end


cdef int _read_row(value, vector[Mention]& mentions) except -1:
    """Set ``mentions`` to the mentions in a stored row, in its order. Raises ValueError for a damaged or invalid row."""
    cdef Py_buffer buffer
    cdef bint sound
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        sound = _read_mentions(buffer, mentions)
    finally:
        PyBuffer_Release(&buffer)
    if not sound:
        raise ValueError("a row of mentions is damaged")
    return 0


def unpack_mentions(value not None, kind not None) -> list:
    """Return the mentions in a stored row, in its order, as tuples (entity, start, length) of the class ``kind``.

    Raises ValueError for a damaged or invalid row.
    """
    cdef vector[Mention] mentions
    cdef size_t index
    make_tuple = tuple.__new__
    results: list = []
    _read_row(value, mentions)
    for index in range(mentions.size()):
        numbers = mentions[index].second.second, mentions[index].first, -mentions[index].second.first
        results.append(make_tuple(kind, numbers))
    return results


def select_outermost_mentions(list rows not None) -> list:
    """Return, for each stored row of mentions (None: no row), those that are not inside a longer one.

    A result row has the entity, start and end of each mention, packed as i64, in text order. Raises ValueError for a
    damaged or invalid row.
    """
    cdef vector[Mention] mentions
    cdef vector[int64_t] out
    cdef size_t index
    cdef int64_t start, end, outer_end, last_start, last_end
    results = []
    for value in rows:
        out.clear()
        if value is not None:
            _read_row(value, mentions)
            sort(mentions.begin(), mentions.end())
            outer_end = last_start = last_end = -1
            for index in range(mentions.size()):
                start = mentions[index].first
                end = start - mentions[index].second.first  # minus the negative length
                # Several entities can have the same mention.
                if end > outer_end or (start == last_start and end == last_end):
                    outer_end, last_start, last_end = end, start, end
                    out.push_back(mentions[index].second.second)
                    out.push_back(start)
                    out.push_back(end)
        results.append(PyBytes_FromStringAndSize(<char*> out.data(), 8 * out.size()))
    return results


cdef int _write_integer(vector[uint8_t]& out, int64_t number) except -1:
    """Append a number to ``out`` in msgpack; raise ValueError if it is negative."""
    cdef int size
    if number < 0:
        raise ValueError(f"a mention has a negative number, or a start before the previous one: {number}")
    if number < 0x80:
        out.push_back(<uint8_t> number)
        return 0
    size = 0 if number <= 0xFF else 1 if number <= 0xFFFF else 2 if number <= 0xFFFFFFFF else 3
    out.push_back(<uint8_t> (0xCC + size))
    _write_big_endian_bytes(out, <uint64_t> number, 1 << size)
    return 0


cdef inline void _write_big_endian_bytes(vector[uint8_t]& out, uint64_t number, int size) noexcept:
    """Append a number to ``out`` as ``size`` bytes, big-endian."""
    cdef int i
    for i in range(size):
        out.push_back(<uint8_t> (number >> 8 * (size - 1 - i)))


cdef bytes _pack_row(const vector[Mention]& mentions):
    """Return mentions, in order of their starts, as a row to store: sealed msgpack. None without mentions."""
    cdef vector[uint8_t] out
    cdef uint64_t count = 3 * mentions.size()
    cdef size_t index
    cdef int64_t last_start = 0
    if not count:
        return None
    if count < 16:
        out.push_back(<uint8_t> (0x90 | count))
    elif count <= 0xFFFF:
        out.push_back(<uint8_t> 0xDC)
        _write_big_endian_bytes(out, count, 2)
    else:
        out.push_back(<uint8_t> 0xDD)
        _write_big_endian_bytes(out, count, 4)
    for index in range(mentions.size()):
        _write_integer(out, mentions[index].second.second)
        _write_integer(out, mentions[index].first - last_start)
        _write_integer(out, -mentions[index].second.first)
        last_start = mentions[index].first
    _seal(out)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


def pack_mentions(mentions not None) -> bytes | None:
    """Return the row to store for mentions (entity, start, length), in order of their starts; None without mentions.

    Raises ValueError for a negative number, or a start before the previous one.
    """
    cdef vector[Mention] packed
    cdef int64_t entity, start, length
    for entity, start, length in mentions:
        packed.push_back(Mention(start, pair[int64_t, int64_t](-length, entity)))
    return _pack_row(packed)


def remove_mentions(list rows not None, removed not None) -> list:
    """Remove the mentions of the entities in ``removed`` from stored rows of mentions (None: no row).

    Returns None for each row without such a mention. For each other row, returns the new row (None if it is empty), the
    set of the entities that it had and that are removed, and True if a removed mention covers a remaining one. Raises
    ValueError for a damaged or invalid row.
    """
    cdef vector[Mention] mentions, remaining, dropped
    cdef Mention mention
    cdef size_t index
    results: list = []
    for value in rows:
        remaining.clear()
        dropped.clear()
        if value is not None:
            _read_row(value, mentions)
            for index in range(mentions.size()):
                mention = mentions[index]
                if mention.second.second in removed:
                    dropped.push_back(mention)
                else:
                    remaining.push_back(mention)
        if dropped.empty():
            results.append(None)
            continue
        entities = {dropped[index].second.second for index in range(dropped.size())}
        results.append((_pack_row(remaining), entities, _has_nested(remaining, dropped)))
    return results


cdef bint _has_nested(const vector[Mention]& mentions, const vector[Mention]& outer_mentions) noexcept:
    """True if one of ``outer_mentions`` covers one of the ``mentions``, which are in order of their starts."""
    cdef size_t outer_index, index
    cdef int64_t start, end
    for outer_index in range(outer_mentions.size()):
        start = outer_mentions[outer_index].first
        end = start - outer_mentions[outer_index].second.first  # minus the negative length
        index = _find_start(mentions, start)
        while index < mentions.size() and mentions[index].first <= end:
            if mentions[index].first - mentions[index].second.first <= end:
                return True
            index += 1
    return False


cdef inline size_t _find_start(const vector[Mention]& mentions, int64_t start) noexcept:
    """Return the index of the first mention that does not start before ``start``."""
    cdef size_t low = 0, high = mentions.size(), middle
    while low < high:
        middle = (low + high) // 2
        if mentions[middle].first < start:
            low = middle + 1
        else:
            high = middle
    return low


def collect_groups(chunks not None, list rows not None, uint64_t group_size, tuple addends not None) -> dict:
    """Return for each entity in stored rows of mentions the groups of chunks that mention it, as numbers.

    ``rows`` has the row of each of ``chunks``, None for a missing row. A chunk belongs to the group with its number
    divided by ``group_size``. ``addends`` has the number that is added to a group for each number of mentions, from 0;
    its last one is also that for more. Raises ValueError for a damaged or invalid row.
    """
    cdef vector[Mention] mentions
    cdef vector[pair[int64_t, uint64_t]] groups
    cdef uint64_t chunk
    cdef size_t index, first
    cdef vector[uint64_t] group_addends = addends
    cdef size_t max_count = len(addends) - 1
    if not group_size or not addends:
        raise ValueError("a group has at least one chunk, and there is at least one addend")
    for chunk, value in zip(chunks, rows, strict=True):
        if value is not None:
            _read_row(value, mentions)
            for index in range(mentions.size()):
                groups.push_back(pair[int64_t, uint64_t](mentions[index].second.second, chunk // group_size))
    sort(groups.begin(), groups.end())
    results: dict = {}
    numbers: list = []
    first = 0
    for index in range(groups.size()):
        if index + 1 < groups.size() and groups[index + 1] == groups[index]:
            continue
        if not first or groups[first - 1].first != groups[index].first:
            numbers = results[groups[index].first] = []
        numbers.append(groups[index].second + group_addends[min(index + 1 - first, max_count)])
        first = index + 1
    return results
