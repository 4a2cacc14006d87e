# CRC-32 as in zlib, eight bytes at a time, or 64 at a time on processors with carry-less multiplication (Gopal and
# others 2009, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel): the bytes are folded
# into 16, and Barrett reduction computes the checksum from these.

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #if defined(__x86_64__)
    #include <smmintrin.h>  /* not all of immintrin.h, which takes half a second to compile */
    #include <wmmintrin.h>
    #endif

    static uint32_t kv_crc_table[8][256];

    /* Fills kv_crc_table: in row i, the checksum of each byte followed by i zero bytes. */
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

    #if defined(__x86_64__)
    /* Folds 16 bytes forward by the distance that the factors encode, and adds the 16 bytes there. */
    __attribute__((target("pclmul,sse4.1"))) static inline __m128i kv_crc_fold(
        __m128i sum, __m128i factors, __m128i more
    ) {
        const __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00), high = _mm_clmulepi64_si128(sum, factors, 0x11);
        return _mm_xor_si128(_mm_xor_si128(low, high), more);
    }

    /* Returns the CRC register after `length` bytes, which is at least 64 and a multiple of 16. */
    __attribute__((target("pclmul,sse4.1"))) static uint32_t kv_crc_blocks(
        uint32_t crc, const uint8_t *data, size_t length
    ) {
        const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
        const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        const __m128i by_4 = _mm_set_epi64x(0, 0x0163cd6124);
        const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
        const __m128i halves = _mm_setr_epi32(-1, 0, -1, 0);
        __m128i sums[4], sum, rest;
        int lane;
        for (lane = 0; lane < 4; lane++) sums[lane] = _mm_loadu_si128((const __m128i *) data + lane);
        sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int) crc));
        for (data += 64, length -= 64; length >= 64; data += 64, length -= 64)
            for (lane = 0; lane < 4; lane++)
                sums[lane] = kv_crc_fold(sums[lane], by_64, _mm_loadu_si128((const __m128i *) data + lane));
        sum = sums[0];
        for (lane = 1; lane < 4; lane++) sum = kv_crc_fold(sum, by_16, sums[lane]);
        for (; length; data += 16, length -= 16) sum = kv_crc_fold(sum, by_16, _mm_loadu_si128((const __m128i *) data));
        sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, by_16, 0x10));
        rest = _mm_srli_si128(sum, 4);
        sum = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, halves), by_4, 0x00), rest);
        rest = _mm_clmulepi64_si128(_mm_and_si128(sum, halves), barrett, 0x10);
        rest = _mm_clmulepi64_si128(_mm_and_si128(rest, halves), barrett, 0x00);
        return (uint32_t) _mm_extract_epi32(_mm_xor_si128(sum, rest), 1);
    }
    #endif

    /* Returns the checksum of data whose checksum was `before` (0 if empty), extended by these bytes. */
    static uint32_t kv_crc_extend(uint32_t before, const uint8_t *data, size_t length) {
        uint32_t crc = ~before;
    #if defined(__x86_64__)
        if (length >= 64 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
            const size_t blocks_length = length & ~(size_t) 15;
            crc = kv_crc_blocks(crc, data, blocks_length);
            data += blocks_length;
            length -= blocks_length;
        }
    #endif
        for (; length >= 8; data += 8, length -= 8) {
            uint32_t low = crc ^ (
                (uint32_t) data[0] | (uint32_t) data[1] << 8 | (uint32_t) data[2] << 16 | (uint32_t) data[3] << 24);
            crc = kv_crc_table[7][low & 255] ^ kv_crc_table[6][low >> 8 & 255] ^ kv_crc_table[5][low >> 16 & 255]
                ^ kv_crc_table[4][low >> 24] ^ kv_crc_table[3][data[4]] ^ kv_crc_table[2][data[5]]
                ^ kv_crc_table[1][data[6]] ^ kv_crc_table[0][data[7]];
        }
        for (; length; data++, length--) crc = crc >> 8 ^ kv_crc_table[0][(crc ^ *data) & 255];
        return ~crc;
    }

    static inline uint32_t kv_crc(const uint8_t *data, size_t length) { return kv_crc_extend(0, data, length); }
    """
    void kv_crc_begin()
    uint32_t kv_crc(const uint8_t* data, size_t length) nogil
    uint32_t kv_crc_extend(uint32_t before, const uint8_t* data, size_t length) nogil

kv_crc_begin()
