# The hash of a name: a polynomial over its UTF-8 bytes modulo the Mersenne prime 2^61 - 1, then a bijective mixer.
#
# Polynomial hashing over a prime field is Carter and Wegman's universal family (1979): for a base drawn from the seed
# two different names of n bytes collide with probability at most n / 2^61. It also makes recognition cheap: the hash of
# any substring of a text follows from the hashes of two prefixes (Rabin and Karp, 1987), in constant time.
# The mixer is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), published by Vigna in the public domain.

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>

    #define KV_PRIME ((UINT64_C(1) << 61) - 1)

    /* wide modulo KV_PRIME. */
    static inline uint64_t kv_reduce(unsigned __int128 wide) {
        /* wide < 2^124: two folds of the bits above the 61st bring it below 2^61 + 4. */
        uint64_t low = ((uint64_t)wide & KV_PRIME) + (uint64_t)(wide >> 61);
        low = (low & KV_PRIME) + (low >> 61);
        return low >= KV_PRIME ? low - KV_PRIME : low;
    }

    /* The product modulo KV_PRIME. */
    static inline uint64_t kv_multiply(uint64_t a, uint64_t b) {
        return kv_reduce((unsigned __int128)a * b);
    }

    /* Appends n bytes to a polynomial; powers[k] is base^k. Eight bytes share one reduction. */
    static inline uint64_t kv_append(uint64_t sum, const uint8_t *data, size_t n, const uint64_t *powers) {
        while (n >= 8) {
            unsigned __int128 wide = (unsigned __int128)sum * powers[8];
            for (int k = 0; k < 8; k++)
                wide += (unsigned __int128)((uint64_t)data[k] + 1) * powers[7 - k];
            sum = kv_reduce(wide);
            data += 8;
            n -= 8;
        }
        if (n) {
            unsigned __int128 wide = (unsigned __int128)sum * powers[n];
            for (size_t k = 0; k < n; k++)
                wide += (unsigned __int128)((uint64_t)data[k] + 1) * powers[n - 1 - k];
            sum = kv_reduce(wide);
        }
        return sum;
    }

    /* The mixer: every bit of x changes about half of the bits of the result. */
    static inline uint64_t kv_mix(uint64_t x) {
        x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
        return x ^ (x >> 31);
    }

    static inline uint16_t kv_get16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return v; }
    static inline uint32_t kv_get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
    static inline uint64_t kv_get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
    static inline uint32_t kv_get24(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16; }
    static inline void kv_put16(uint8_t *p, uint16_t v) { memcpy(p, &v, 2); }
    static inline void kv_put32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }
    static inline void kv_put64(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }
    static inline void kv_put24(uint8_t *p, uint32_t v) { p[0] = v; p[1] = v >> 8; p[2] = v >> 16; }
    /* memcpy must not get the null pointer of an empty vector, not even for 0 bytes. */
    static inline void kv_copy(void *to, const void *from, size_t n) { if (n) memcpy(to, from, n); }
    static inline void kv_prefetch(const void *p) { __builtin_prefetch(p); }
    static inline int kv_lowest_bit(uint64_t v) { return __builtin_ctzll(v); }
    """
    const uint64_t KV_PRIME
    uint64_t kv_multiply(uint64_t a, uint64_t b) noexcept nogil
    uint64_t kv_append(uint64_t total, const uint8_t* data, size_t n, const uint64_t* powers) noexcept nogil
    uint64_t kv_mix(uint64_t x) noexcept nogil
    uint16_t kv_get16(const uint8_t* p) noexcept nogil
    uint32_t kv_get32(const uint8_t* p) noexcept nogil
    uint64_t kv_get64(const uint8_t* p) noexcept nogil
    uint32_t kv_get24(const uint8_t* p) noexcept nogil
    void kv_put16(uint8_t* p, uint16_t v) noexcept nogil
    void kv_put32(uint8_t* p, uint32_t v) noexcept nogil
    void kv_put64(uint8_t* p, uint64_t v) noexcept nogil
    void kv_put24(uint8_t* p, uint32_t v) noexcept nogil
    void kv_copy(void* to, const void* source, size_t n) noexcept nogil
    void kv_prefetch(const void* p) noexcept nogil
    int kv_lowest_bit(uint64_t v) noexcept nogil


@cython.final
cdef class NameHash:
    """The 64-bit hash of names under one seed."""

    cdef uint64_t powers[_KEY_BYTES + 1]

    def __cinit__(self, seed: int) -> None:
        """Derive the base of the polynomial from the seed, and compute its powers."""
        cdef uint64_t base = kv_mix(<uint64_t> (seed & 0xFFFFFFFFFFFFFFFF)) % KV_PRIME
        cdef int k
        self.powers[0] = 1
        for k in range(1, _KEY_BYTES + 1):
            self.powers[k] = kv_multiply(self.powers[k - 1], base)

    cdef inline uint64_t hash_bytes(self, const uint8_t* data, size_t n) noexcept nogil:
        """Return the hash of a name in UTF-8."""
        return kv_mix(kv_append(0, data, n, self.powers))

    cdef inline uint64_t hash_between(self, uint64_t before, uint64_t after, size_t n) noexcept nogil:
        """Return the hash of ``n`` bytes of a text, from the polynomials of the text ``before`` and ``after`` them."""
        cdef uint64_t shifted = kv_multiply(before, self.powers[n])
        return kv_mix(after - shifted if after >= shifted else after + KV_PRIME - shifted)

    def __call__(self, key: str) -> int:
        """Return the hash of a name; raise ValueError if the name is too long to be stored."""
        cdef Py_ssize_t n
        cdef const char* data = PyUnicode_AsUTF8AndSize(key, &n)
        if n > _KEY_BYTES:
            raise ValueError(f"a key has at most {_KEY_BYTES} bytes of UTF-8, not {n}")
        return self.hash_bytes(<const uint8_t*> data, n)
