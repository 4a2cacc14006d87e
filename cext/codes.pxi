# Inner products of codes: rows of integers between -127 and 127. They are exact, so every machine computes the same.

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__x86_64__)
    #include <immintrin.h>
    #endif

    enum { KV_CODE_MULTIPLE = 64 };

    /* The product of a query, of 12-bit integers, with a code of k numbers. */
    static int32_t kv_dot_query_plain(const int16_t *query, const int8_t *code, int64_t k) {
        int32_t sum = 0;
        for (int64_t i = 0; i < k; i++) sum += (int32_t) query[i] * code[i];
        return sum;
    }

    /* The product of two codes of k numbers. */
    static int32_t kv_dot_codes_plain(const int8_t *one, const int8_t *other, int64_t k) {
        int32_t sum = 0;
        for (int64_t i = 0; i < k; i++) sum += (int32_t) one[i] * other[i];
        return sum;
    }

    /* The same two products with the vector instructions of x86-64. */
    #if defined(__x86_64__)
    /* The sum of eight 32-bit integers. */
    __attribute__((target("avx2"))) static int32_t kv_sum_avx2(__m256i sums) {
        __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
        half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1));
        return _mm_cvtsi128_si32(half);
    }

    __attribute__((target("avx2"))) static int32_t kv_dot_query_avx2(
        const int16_t *query, const int8_t *code, int64_t k
    ) {
        __m256i even = _mm256_setzero_si256(), odd = _mm256_setzero_si256();
        for (int64_t i = 0; i < k; i += 32) {
            __m256i low = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (code + i)));
            __m256i high = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (code + i + 16)));
            even = _mm256_add_epi32(even, _mm256_madd_epi16(low, _mm256_loadu_si256((const __m256i *) (query + i))));
            __m256i query_high = _mm256_loadu_si256((const __m256i *) (query + i + 16));
            odd = _mm256_add_epi32(odd, _mm256_madd_epi16(high, query_high));
        }
        return kv_sum_avx2(_mm256_add_epi32(even, odd));
    }

    __attribute__((target("avx2"))) static int32_t kv_dot_codes_avx2(
        const int8_t *one, const int8_t *other, int64_t k
    ) {
        __m256i sums = _mm256_setzero_si256();
        for (int64_t i = 0; i < k; i += 16) {
            __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (one + i)));
            __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (other + i)));
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
        }
        return kv_sum_avx2(sums);
    }

    __attribute__((target("avx512bw"))) static int32_t kv_dot_query_avx512(
        const int16_t *query, const int8_t *code, int64_t k
    ) {
        __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
        for (int64_t i = 0; i < k; i += 64) {
            __m512i low = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) (code + i)));
            __m512i high = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) (code + i + 32)));
            even = _mm512_add_epi32(even, _mm512_madd_epi16(low, _mm512_loadu_si512(query + i)));
            odd = _mm512_add_epi32(odd, _mm512_madd_epi16(high, _mm512_loadu_si512(query + i + 32)));
        }
        return _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd));
    }

    __attribute__((target("avx512bw"))) static int32_t kv_dot_codes_avx512(
        const int8_t *one, const int8_t *other, int64_t k
    ) {
        __m512i sums = _mm512_setzero_si512();
        for (int64_t i = 0; i < k; i += 32) {
            __m512i a = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) (one + i)));
            __m512i b = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) (other + i)));
            sums = _mm512_add_epi32(sums, _mm512_madd_epi16(a, b));
        }
        return _mm512_reduce_add_epi32(sums);
    }

    /* The instruction multiplies four unsigned numbers by four signed ones. So 128 is added to the numbers of the other
       code, and its product is subtracted again. Sums wrap around, so the difference is right even on overflow. */
    __attribute__((target("avx512bw,avx512vnni"))) static int32_t kv_dot_codes_vnni(
        const int8_t *one, const int8_t *other, int64_t k
    ) {
        const __m512i shift = _mm512_set1_epi8((char) 0x80);
        __m512i sums = _mm512_setzero_si512(), added = _mm512_setzero_si512();
        for (int64_t i = 0; i < k; i += 64) {
            __m512i a = _mm512_loadu_si512(one + i);
            __m512i b = _mm512_xor_si512(_mm512_loadu_si512(other + i), shift);
            sums = _mm512_dpbusd_epi32(sums, b, a);
            added = _mm512_dpbusd_epi32(added, shift, a);
        }
        return _mm512_reduce_add_epi32(_mm512_sub_epi32(sums, added));
    }
    #endif

    static int32_t (*kv_dot_query)(const int16_t *, const int8_t *, int64_t) = kv_dot_query_plain;
    static int32_t (*kv_dot_codes)(const int8_t *, const int8_t *, int64_t) = kv_dot_codes_plain;

    /* Sets kv_dot_query and kv_dot_codes to the fastest functions that this processor supports. */
    static void kv_choose_code_products(void) {
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512bw")) {
            kv_dot_query = kv_dot_query_avx512;
            kv_dot_codes = __builtin_cpu_supports("avx512vnni") ? kv_dot_codes_vnni : kv_dot_codes_avx512;
        } else if (__builtin_cpu_supports("avx2")) {
            kv_dot_query = kv_dot_query_avx2;
            kv_dot_codes = kv_dot_codes_avx2;
        }
    #endif
    }

    /* Prefetches a code of k bytes. */
    static inline void kv_prefetch(const int8_t *code, int64_t k) {
        for (int64_t i = 0; i < k; i += 64) __builtin_prefetch(code + i);
    }
    """
    # The length of a code is a multiple of this.
    const Py_ssize_t KV_CODE_MULTIPLE
    void kv_choose_code_products()
    int32_t kv_dot_query(const int16_t* query, const int8_t* code, Py_ssize_t k) nogil
    int32_t kv_dot_codes(const int8_t* one, const int8_t* other, Py_ssize_t k) nogil
    void kv_prefetch(const int8_t* code, Py_ssize_t k) nogil

kv_choose_code_products()
