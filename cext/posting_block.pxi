# A block of postings as bytes: how many there are; of a block of LISTED or more its bounds, and a check of these; then of
# each posting the distance from the chunk before, the frequency and the chunk's length, as LEB128 numbers. Chunks are
# written as Lucene's first format did: the lowest bit of a distance says that the term occurs once. Bounds are the
# postings of a block that none of the others beats with more occurrences in a shorter chunk (Lucene's "impacts"; block
# maxima: Ding and Suel 2011): whatever the average length, no posting scores more than the best of them.

include "leb128.pxi"
include "sealed.pxi"

cdef enum:
    #: Postings from which on a block says its bounds.
    LISTED = 32


cdef struct Posting:
    uint64_t chunk
    uint16_t length
    uint8_t frequency


cdef inline const uint8_t* _count_end(const uint8_t* at, const uint8_t* end, uint64_t* count) except NULL:
    """Read how many postings a payload announces."""
    cdef const uint8_t* begin = at
    at = _read(at, end, count)
    if count[0] > <uint64_t> (end - begin):
        raise ValueError("more postings are announced than there can be")
    return at


cdef const uint8_t* _bounds_end(
    const uint8_t* begin, const uint8_t* at, const uint8_t* end, uint64_t count, vector[Posting]& bounds
) except NULL:
    """Read the bounds of a block whose payload begins at ``begin``, and verify their check; none of a small block."""
    cdef uint64_t pairs, length
    cdef Posting bound
    cdef uint32_t crc
    bounds.clear()
    if count < LISTED:
        return at
    at = _read(at, end, &pairs)
    bound.chunk = 0
    while pairs:
        if at == end:
            raise ValueError("the bounds are cut short")
        bound.frequency = at[0]
        at = _read(at + 1, end, &length)
        bound.length = <uint16_t> length
        bounds.push_back(bound)
        pairs -= 1
    if end - at < 2:
        raise ValueError("the bounds are cut short")
    crc = kv_crc(begin, at - begin)
    if at[0] != <uint8_t> crc or at[1] != <uint8_t> (crc >> 8) or bounds.empty():
        raise ValueError("the bounds fail their check")
    return at + 2


cdef const uint8_t* _payload_end(const uint8_t* at, const uint8_t* end, uint64_t first, vector[Posting]& postings) except NULL:
    """Read the postings of a payload."""
    cdef const uint8_t* begin = at
    cdef uint64_t count, distance, length
    cdef vector[Posting] bounds
    cdef Posting posting
    posting.chunk = first
    at = _count_end(at, end, &count)
    at = _bounds_end(begin, at, end, count, bounds)
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
    return at
