# Products of rows with a vector. Each product depends only on its own row: the bits are the same for any number of
# other rows, and on every processor with fused multiply-add. 32 partial sums per row are computed in parallel, for
# several rows at a time, and are added up pairwise at the end.

cdef extern from *:
    """
    #include <cstdint>
    #include <cstring>

    namespace {

    typedef float FourFloats __attribute__((vector_size(16)));
    typedef float EightFloats __attribute__((vector_size(32)));
    typedef float SixteenFloats __attribute__((vector_size(64)));

    /* Partial sums per row: independent of the register width, so that all processors compute the same bits. */
    constexpr int64_t NUM_PARTIAL_SUMS = 32;
    typedef float PartialSums __attribute__((vector_size(NUM_PARTIAL_SUMS * sizeof(float))));

    /* Writes the products of BATCH_ROWS rows of k numbers with y, which is zero-padded to a multiple of
       NUM_PARTIAL_SUMS. next: the following rows, which are prefetched; an address beyond the last row is allowed. */
    template <int64_t BATCH_ROWS>
    __attribute__((always_inline)) inline void dot_batch(
        const float *const *rows, const float *const *next, int64_t k, const float *y, float *out
    ) {
        const int64_t simd_end = k / NUM_PARTIAL_SUMS * NUM_PARTIAL_SUMS;
        PartialSums sums[BATCH_ROWS], row_part, y_part;
        for (int64_t r = 0; r < BATCH_ROWS; r++)
            sums[r] = PartialSums{};
        for (int64_t p = 0; p < simd_end; p += NUM_PARTIAL_SUMS) {
            std::memcpy(&y_part, y + p, sizeof y_part);
            for (int64_t r = 0; r < BATCH_ROWS; r++) {
                __builtin_prefetch(next[r] + p);
                __builtin_prefetch(next[r] + p + NUM_PARTIAL_SUMS / 2);
                std::memcpy(&row_part, rows[r] + p, sizeof row_part);
                sums[r] += row_part * y_part;
            }
        }
        if (simd_end < k) {
            std::memcpy(&y_part, y + simd_end, sizeof y_part);
            for (int64_t r = 0; r < BATCH_ROWS; r++) {
                float padded[NUM_PARTIAL_SUMS] = {};
                for (int64_t p = simd_end; p < k; p++)
                    padded[p - simd_end] = rows[r][p];
                std::memcpy(&row_part, padded, sizeof row_part);
                sums[r] += row_part * y_part;
            }
        }
        for (int64_t r = 0; r < BATCH_ROWS; r++) {
            SixteenFloats halves[2];
            EightFloats quarters[2];
            FourFloats eighths[2];
            std::memcpy(halves, &sums[r], sizeof halves);
            halves[0] += halves[1];
            std::memcpy(quarters, halves, sizeof quarters);
            quarters[0] += quarters[1];
            std::memcpy(eighths, quarters, sizeof eighths);
            eighths[0] += eighths[1];
            out[r] = (eighths[0][0] + eighths[0][2]) + (eighths[0][1] + eighths[0][3]);
        }
    }

    /* The products of n consecutive rows with y. */
    template <int64_t BATCH_ROWS>
    __attribute__((always_inline)) inline void dot_consecutive_rows(
        const float *x, int64_t n, int64_t k, const float *y, float *out
    ) {
        for (int64_t row = 0; row < n; row += BATCH_ROWS) {
            const float *rows[BATCH_ROWS], *next[BATCH_ROWS];
            float products[BATCH_ROWS];
            for (int64_t r = 0; r < BATCH_ROWS; r++) {
                rows[r] = x + (row + r < n ? row + r : n - 1) * k;
                next[r] = rows[r] + BATCH_ROWS * k;
            }
            dot_batch<BATCH_ROWS>(rows, next, k, y, products);
            std::memcpy(out + row, products, (n - row < BATCH_ROWS ? n - row : BATCH_ROWS) * sizeof(float));
        }
    }

    /* The products of n rows at arbitrary addresses with y. */
    template <int64_t BATCH_ROWS>
    __attribute__((always_inline)) inline void dot_rows_by_address(
        const float *const *rows, int64_t n, int64_t k, const float *y, float *out
    ) {
        int64_t row = 0;
        for (; n - row >= BATCH_ROWS; row += BATCH_ROWS) {
            const float *next[BATCH_ROWS];
            for (int64_t r = 0; r < BATCH_ROWS; r++)
                next[r] = rows[row + BATCH_ROWS + r < n ? row + BATCH_ROWS + r : n - 1];
            dot_batch<BATCH_ROWS>(rows + row, next, k, y, out + row);
        }
        if constexpr (BATCH_ROWS > 1)
            if (row < n)
                dot_rows_by_address<BATCH_ROWS / 2>(rows + row, n - row, k, y, out + row);
    }

    #if defined(__x86_64__)
    __attribute__((target("fma"))) void dot_consecutive_rows_fma(
        const float *x, int64_t n, int64_t k, const float *y, float *out
    ) {
        dot_consecutive_rows<2>(x, n, k, y, out);
    }

    __attribute__((target("avx512f"))) void dot_consecutive_rows_avx512(
        const float *x, int64_t n, int64_t k, const float *y, float *out
    ) {
        dot_consecutive_rows<8>(x, n, k, y, out);
    }

    __attribute__((target("fma"))) void dot_rows_by_address_fma(
        const float *const *rows, int64_t n, int64_t k, const float *y, float *out
    ) {
        dot_rows_by_address<2>(rows, n, k, y, out);
    }

    __attribute__((target("avx512f"))) void dot_rows_by_address_avx512(
        const float *const *rows, int64_t n, int64_t k, const float *y, float *out
    ) {
        dot_rows_by_address<8>(rows, n, k, y, out);
    }
    #endif

    /* Like dot_consecutive_rows, with the instructions of this processor. */
    inline void dot_rows(const float *x, int64_t n, int64_t k, const float *y, float *out) {
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
            return dot_consecutive_rows_avx512(x, n, k, y, out);
        if (__builtin_cpu_supports("fma"))
            return dot_consecutive_rows_fma(x, n, k, y, out);
    #endif
        dot_consecutive_rows<1>(x, n, k, y, out);
    }

    /* Like dot_rows_by_address, with the instructions of this processor. */
    inline void dot_gathered(const float *const *rows, int64_t n, int64_t k, const float *y, float *out) {
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
            return dot_rows_by_address_avx512(rows, n, k, y, out);
        if (__builtin_cpu_supports("fma"))
            return dot_rows_by_address_fma(rows, n, k, y, out);
    #endif
        dot_rows_by_address<1>(rows, n, k, y, out);
    }

    }
    """
    const Py_ssize_t NUM_PARTIAL_SUMS
    void dot_rows(const float *x, Py_ssize_t n, Py_ssize_t k, const float *y, float *out) noexcept nogil
    void dot_gathered(const float *const *rows, Py_ssize_t n, Py_ssize_t k, const float *y, float *out) noexcept nogil
