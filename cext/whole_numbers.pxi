# Integers in msgpack.


cdef inline const uint8_t* _read_integer(const uint8_t* at, const uint8_t* end, int64_t* number) noexcept:
    """Read a signed 64-bit integer. Returns the address after it; NULL if there is no integer."""
    cdef uint64_t read = 0
    cdef uint8_t kind
    cdef int size, place
    if at >= end:
        return NULL
    kind = at[0]
    at += 1
    if kind < 0x80 or kind >= 0xE0:
        number[0] = <int8_t> kind
        return at
    if not 0xCC <= kind <= 0xD3:
        return NULL
    size = 1 << (kind - 0xCC & 3)
    if end - at < size:
        return NULL
    for place in range(size):
        read = read << 8 | at[place]
    if kind == 0xCF and read >> 63:
        return NULL
    if kind < 0xD0:
        number[0] = <int64_t> read
    elif size == 1:
        number[0] = <int8_t> read
    elif size == 2:
        number[0] = <int16_t> read
    elif size == 4:
        number[0] = <int32_t> read
    else:
        number[0] = <int64_t> read
    return at + size


cdef inline const uint8_t* _read_array_length(const uint8_t* at, const uint8_t* end, uint64_t* count) noexcept:
    """Read the length of an array. Returns the address of its elements; NULL if there is no array."""
    cdef int size, place
    count[0] = 0
    if at >= end:
        return NULL
    if 0x90 <= at[0] < 0xA0:
        count[0] = at[0] & 15
        return at + 1
    if at[0] != 0xDC and at[0] != 0xDD:
        return NULL
    size = 2 if at[0] == 0xDC else 4
    at += 1
    if end - at < size:
        return NULL
    for place in range(size):
        count[0] = count[0] << 8 | at[place]
    return at + size
