# The bytes of a block of postings. It begins with the number of postings. A block of at least MIN_BOUNDED_POSTINGS
# postings then has bounds and their check. For each posting follow the distance from the previous chunk, the frequency,
# and the length of the chunk, as LEB128 numbers. As in Lucene's first format, the lowest bit of a distance means that
# the term occurs once. Bounds are the postings of a block that no other posting of the block dominates by a higher
# frequency in a shorter chunk (Lucene's "impacts"; block maxima: Ding and Suel 2011). For any average length, no
# posting scores higher than the best bound.

include "leb128.pxi"
include "sealed.pxi"

cdef enum:
    # The least number of postings of a block with bounds.
    MIN_BOUNDED_POSTINGS = 32


cdef struct Posting:
    uint64_t chunk
    uint16_t length
    uint8_t frequency


cdef inline const uint8_t* _read_count(const uint8_t* cursor, const uint8_t* end, uint64_t* count) except NULL:
    """Read the number of postings of a payload into ``count``. Return the address after it."""
    cdef const uint8_t* begin = cursor
    cursor = _read_leb128(cursor, end, count)
    if count[0] > <uint64_t> (end - begin):
        raise ValueError("the number of postings exceeds the size of the block")
    return cursor


cdef const uint8_t* _read_bounds(
    const uint8_t* payload, const uint8_t* cursor, const uint8_t* end, uint64_t count, vector[Posting]& bounds
) except NULL:
    """Read the bounds of a block, its postings that can score highest, and verify their checksum.

    Sets ``bounds``, which stays empty for a small block (of ``count`` postings). Returns the address after them.
    """
    cdef uint64_t num_remaining, length
    cdef Posting bound
    cdef uint32_t crc
    bounds.clear()
    if count < MIN_BOUNDED_POSTINGS:
        return cursor
    cursor = _read_leb128(cursor, end, &num_remaining)
    bound.chunk = 0
    while num_remaining:
        if cursor == end:
            raise ValueError("the bounds are truncated")
        bound.frequency = cursor[0]
        cursor = _read_leb128(cursor + 1, end, &length)
        bound.length = <uint16_t> length
        bounds.push_back(bound)
        num_remaining -= 1
    if end - cursor < 2:
        raise ValueError("the bounds are truncated")
    crc = kv_crc(payload, cursor - payload)
    if cursor[0] != <uint8_t> crc or cursor[1] != <uint8_t> (crc >> 8) or bounds.empty():
        raise ValueError("the bounds fail their checksum")
    return cursor + 2


cdef const uint8_t* _read_postings(
    const uint8_t* cursor, const uint8_t* end, uint64_t first, vector[Posting]& postings
) except NULL:
    """Decode the payload of a block from ``cursor`` to ``end`` into ``postings``. Return the address after them.

    ``first`` is the chunk of the first posting, which is in the key of the block and not in the payload.
    """
    cdef const uint8_t* payload = cursor
    cdef uint64_t count, distance, length, index
    cdef vector[Posting] bounds
    cdef Posting posting
    posting.chunk = first
    cursor = _read_count(cursor, end, &count)
    cursor = _read_bounds(payload, cursor, end, count, bounds)
    postings.resize(count)
    for index in range(count):
        cursor = _read_leb128(cursor, end, &distance)
        posting.chunk += distance >> 1
        posting.frequency = 1
        if not distance & 1:
            if cursor == end:
                raise ValueError("a posting is truncated")
            posting.frequency = cursor[0]
            cursor += 1
        cursor = _read_leb128(cursor, end, &length)
        posting.length = <uint16_t> length
        postings[index] = posting
    if cursor != end:
        raise ValueError("there are extra bytes after the postings")
    return cursor
