# Sealed records: a payload and its CRC-32, little-endian, as kvstore/storage/records.py writes them; and the numbers in
# their keys.

include "crc32.pxi"


cdef inline Py_ssize_t _get_payload_size(const uint8_t* value, Py_ssize_t length) noexcept:
    """Return the size of a value without the checksum (CRC-32) at its end; -1 if the checksum does not match."""
    cdef Py_ssize_t end = length - 4
    if end < 0:
        return -1
    cdef uint32_t stored = value[end] | value[end + 1] << 8 | value[end + 2] << 16 | <uint32_t> value[end + 3] << 24
    return end if stored == kv_crc(value, end) else -1


cdef inline void _seal(vector[uint8_t]& out) noexcept:
    """Append the checksum (CRC-32, little-endian) of ``out`` to it."""
    cdef uint32_t crc = kv_crc(out.data(), out.size())
    cdef int shift
    for shift in range(0, 32, 8):
        out.push_back(<uint8_t> (crc >> shift))


cdef inline void _write_big_endian(uint8_t* cursor, uint64_t number, int size) noexcept:
    """Write a number as ``size`` bytes, big-endian."""
    cdef int i
    for i in range(size):
        cursor[i] = <uint8_t> (number >> 8 * (size - 1 - i))


cdef inline uint64_t _read_big_endian(const uint8_t* cursor) noexcept:
    """Return eight bytes as a big-endian number."""
    cdef uint64_t number = 0
    cdef int i
    for i in range(8):
        number = number << 8 | cursor[i]
    return number
