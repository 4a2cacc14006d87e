# Variable-length integers (LEB128): groups of seven bits, lowest first, with the eighth bit set on all but the last.

cdef inline void _write_leb128(vector[uint8_t]& out, uint64_t number) noexcept:
    """Append a number to ``out`` as LEB128."""
    while number >= 128:
        out.push_back(<uint8_t> (number | 128))
        number >>= 7
    out.push_back(<uint8_t> number)


cdef inline const uint8_t* _read_leb128(const uint8_t* cursor, const uint8_t* end, uint64_t* number) except NULL:
    """Read a LEB128 number into ``number``; return the address after it. Raises ValueError if ``end`` comes first."""
    cdef int shift = 0
    if cursor < end and cursor[0] < 128:  # as nearly all numbers in postings
        number[0] = cursor[0]
        return cursor + 1
    number[0] = 0
    while cursor < end and shift < 64:
        number[0] |= <uint64_t> (cursor[0] & 127) << shift
        if cursor[0] < 128:
            return cursor + 1
        cursor += 1
        shift += 7
    raise ValueError("a number is truncated")
