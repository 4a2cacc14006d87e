# Integers in msgpack.


cdef inline const uint8_t* _read_integer(const uint8_t* cursor, const uint8_t* end, int64_t* number) noexcept:
    """Read a signed 64-bit integer into ``number``. Return the address after it; NULL if it is not such an integer."""
    cdef uint64_t value = 0
    cdef uint8_t kind
    cdef int size, i
    if cursor >= end:
        return NULL
    kind = cursor[0]
    cursor += 1
    if kind < 0x80 or kind >= 0xE0:
        number[0] = <int8_t> kind
        return cursor
    if not 0xCC <= kind <= 0xD3:
        return NULL
    size = 1 << (kind - 0xCC & 3)
    if end - cursor < size:
        return NULL
    for i in range(size):
        value = value << 8 | cursor[i]
    if kind == 0xCF and value >> 63:
        return NULL
    if kind < 0xD0:
        number[0] = <int64_t> value
    elif size == 1:
        number[0] = <int8_t> value
    elif size == 2:
        number[0] = <int16_t> value
    elif size == 4:
        number[0] = <int32_t> value
    else:
        number[0] = <int64_t> value
    return cursor + size


cdef inline const uint8_t* _read_array_length(const uint8_t* cursor, const uint8_t* end, uint64_t* count) noexcept:
    """Read the length of an array into ``count``. Return the address of its elements; NULL if it is not an array."""
    cdef int size, i
    count[0] = 0
    if cursor >= end:
        return NULL
    if 0x90 <= cursor[0] < 0xA0:
        count[0] = cursor[0] & 15
        return cursor + 1
    if cursor[0] != 0xDC and cursor[0] != 0xDD:
        return NULL
    size = 2 if cursor[0] == 0xDC else 4
    cursor += 1
    if end - cursor < size:
        return NULL
    for i in range(size):
        count[0] = count[0] << 8 | cursor[i]
    return cursor + size
