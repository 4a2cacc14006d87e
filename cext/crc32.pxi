# CRC-32 as zlib has it, taken eight bytes at a time.

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

    /* The checksum of what had the checksum `before` (of nothing: 0) and these bytes behind it. */
    static uint32_t kv_crc_further(uint32_t before, const uint8_t *at, size_t length) {
        uint32_t crc = ~before;
        for (; length >= 8; at += 8, length -= 8) {
            uint32_t low = crc ^ ((uint32_t) at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24);
            crc = kv_crc_table[7][low & 255] ^ kv_crc_table[6][low >> 8 & 255] ^ kv_crc_table[5][low >> 16 & 255]
                ^ kv_crc_table[4][low >> 24] ^ kv_crc_table[3][at[4]] ^ kv_crc_table[2][at[5]]
                ^ kv_crc_table[1][at[6]] ^ kv_crc_table[0][at[7]];
        }
        for (; length; at++, length--) crc = crc >> 8 ^ kv_crc_table[0][(crc ^ *at) & 255];
        return ~crc;
    }

    static inline uint32_t kv_crc(const uint8_t *at, size_t length) { return kv_crc_further(0, at, length); }
    """
    void kv_crc_begin()
    uint32_t kv_crc(const uint8_t* at, size_t length) nogil
    uint32_t kv_crc_further(uint32_t before, const uint8_t* at, size_t length) nogil

kv_crc_begin()
