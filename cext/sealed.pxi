# Sealed records: a payload and its CRC-32 (zlib's, taken eight bytes at a time), little-endian, as
# kvstore/storage/records.py writes them; and the numbers in their keys.

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    static uint32_t kv_crc_table[8][256];

    static void kv_crc_begin(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t value = byte;
            for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
            kv_crc_table[0][byte] = value;
        }
        for (int step = 1; step < 8; step++)
            for (int byte = 0; byte < 256; byte++) {
                uint32_t before = kv_crc_table[step - 1][byte];
                kv_crc_table[step][byte] = before >> 8 ^ kv_crc_table[0][before & 255];
            }
    }

    static uint32_t kv_crc(const uint8_t *at, size_t length) {
        uint32_t crc = 0xFFFFFFFFu;
        for (; length >= 8; at += 8, length -= 8) {
            uint32_t low = crc ^ ((uint32_t) at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24);
            crc = kv_crc_table[7][low & 255] ^ kv_crc_table[6][low >> 8 & 255] ^ kv_crc_table[5][low >> 16 & 255]
                ^ kv_crc_table[4][low >> 24] ^ kv_crc_table[3][at[4]] ^ kv_crc_table[2][at[5]]
                ^ kv_crc_table[1][at[6]] ^ kv_crc_table[0][at[7]];
        }
        for (; length; at++, length--) crc = crc >> 8 ^ kv_crc_table[0][(crc ^ *at) & 255];
        return ~crc;
    }
    """
    void kv_crc_begin()
    uint32_t kv_crc(const uint8_t* at, size_t length) nogil

kv_crc_begin()


cdef inline Py_ssize_t _unsealed(const uint8_t* value, Py_ssize_t length) noexcept:
    """How many bytes of a sealed value are its payload; -1 where it fails its checksum."""
    cdef Py_ssize_t end = length - 4
    if end < 0:
        return -1
    cdef uint32_t stored = value[end] | value[end + 1] << 8 | value[end + 2] << 16 | <uint32_t> value[end + 3] << 24
    return end if stored == kv_crc(value, end) else -1


cdef inline void _seal(vector[uint8_t]& out) noexcept:
    """Put the checksum behind what ``out`` holds."""
    cdef uint32_t crc = kv_crc(out.data(), out.size())
    cdef int shift
    for shift in range(0, 32, 8):
        out.push_back(<uint8_t> (crc >> shift))


cdef inline void _put_big_endian(uint8_t* at, uint64_t number, int size) noexcept:
    """Write a number as so many bytes."""
    cdef int i
    for i in range(size):
        at[i] = <uint8_t> (number >> 8 * (size - 1 - i))


cdef inline uint64_t _big_endian(const uint8_t* at) noexcept:
    """Eight bytes as a number."""
    cdef uint64_t number = 0
    cdef int i
    for i in range(8):
        number = number << 8 | at[i]
    return number
