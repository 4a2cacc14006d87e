# Products of rows with a vector. Each product depends only on its own row: the bits are the same for any number of
# other rows, and on every processor with fused multiply-add. 32 partial sums per row are computed in parallel, for
# several rows at a time, and are added up pairwise at the end.

cdef extern from *:
    """
    #include <cstdint>
    #include <cstring>

    namespace {

    typedef float four __attribute__((vector_size(16)));
    typedef float eight __attribute__((vector_size(32)));
    typedef float sixteen __attribute__((vector_size(64)));

    /* Partial sums per row: independent of the register width, so that all processors compute the same bits. */
    constexpr int64_t SIDE = 32;
    typedef float side __attribute__((vector_size(SIDE * sizeof(float))));

    /* y: the vector, zero-padded to a multiple of SIDE. next: the following rows, which are prefetched; an address
       beyond the last row is allowed. */
    template <int64_t TOGETHER>
    __attribute__((always_inline)) inline void dot(
        const float *const *rows, const float *const *next, int64_t k, const float *y, float *out
    ) {
        const int64_t whole = k / SIDE * SIDE;
        side sums[TOGETHER], left, right;
        for (int64_t r = 0; r < TOGETHER; r++)
            sums[r] = side{};
        for (int64_t p = 0; p < whole; p += SIDE) {
            std::memcpy(&right, y + p, sizeof right);
            for (int64_t r = 0; r < TOGETHER; r++) {
                __builtin_prefetch(next[r] + p);
                __builtin_prefetch(next[r] + p + SIDE / 2);
                std::memcpy(&left, rows[r] + p, sizeof left);
                sums[r] += left * right;
            }
        }
        if (whole < k) {
            std::memcpy(&right, y + whole, sizeof right);
            for (int64_t r = 0; r < TOGETHER; r++) {
                float rest[SIDE] = {};
                for (int64_t p = whole; p < k; p++)
                    rest[p - whole] = rows[r][p];
                std::memcpy(&left, rest, sizeof left);
                sums[r] += left * right;
            }
        }
        for (int64_t r = 0; r < TOGETHER; r++) {
            sixteen halves[2];
            eight quarters[2];
            four eighths[2];
            std::memcpy(halves, &sums[r], sizeof halves);
            halves[0] += halves[1];
            std::memcpy(quarters, halves, sizeof quarters);
            quarters[0] += quarters[1];
            std::memcpy(eighths, quarters, sizeof eighths);
            eighths[0] += eighths[1];
            out[r] = (eighths[0][0] + eighths[0][2]) + (eighths[0][1] + eighths[0][3]);
        }
    }

    /* Consecutive rows. */
    template <int64_t TOGETHER>
    __attribute__((always_inline)) inline void dot_all(
        const float *x, int64_t n, int64_t k, const float *y, float *out
    ) {
        for (int64_t row = 0; row < n; row += TOGETHER) {
            const float *rows[TOGETHER], *next[TOGETHER];
            float products[TOGETHER];
            for (int64_t r = 0; r < TOGETHER; r++) {
                rows[r] = x + (row + r < n ? row + r : n - 1) * k;
                next[r] = rows[r] + TOGETHER * k;
            }
            dot<TOGETHER>(rows, next, k, y, products);
            std::memcpy(out + row, products, (n - row < TOGETHER ? n - row : TOGETHER) * sizeof(float));
        }
    }

    /* Rows at arbitrary addresses. */
    template <int64_t TOGETHER>
    __attribute__((always_inline)) inline void dot_some(
        const float *const *rows, int64_t n, int64_t k, const float *y, float *out
    ) {
        int64_t row = 0;
        for (; n - row >= TOGETHER; row += TOGETHER) {
            const float *next[TOGETHER];
            for (int64_t r = 0; r < TOGETHER; r++)
                next[r] = rows[row + TOGETHER + r < n ? row + TOGETHER + r : n - 1];
            dot<TOGETHER>(rows + row, next, k, y, out + row);
        }
        if constexpr (TOGETHER > 1)
            if (row < n)
                dot_some<TOGETHER / 2>(rows + row, n - row, k, y, out + row);
    }

    #if defined(__x86_64__)
    __attribute__((target("fma"))) void dot_all_fused(
        const float *x, int64_t n, int64_t k, const float *y, float *out
    ) {
        dot_all<2>(x, n, k, y, out);
    }

    __attribute__((target("avx512f"))) void dot_all_wide(
        const float *x, int64_t n, int64_t k, const float *y, float *out
    ) {
        dot_all<8>(x, n, k, y, out);
    }

    __attribute__((target("fma"))) void dot_some_fused(
        const float *const *rows, int64_t n, int64_t k, const float *y, float *out
    ) {
        dot_some<2>(rows, n, k, y, out);
    }

    __attribute__((target("avx512f"))) void dot_some_wide(
        const float *const *rows, int64_t n, int64_t k, const float *y, float *out
    ) {
        dot_some<8>(rows, n, k, y, out);
    }
    #endif

    inline void dot_rows(const float *x, int64_t n, int64_t k, const float *y, float *out) {
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
            return dot_all_wide(x, n, k, y, out);
        if (__builtin_cpu_supports("fma"))
            return dot_all_fused(x, n, k, y, out);
    #endif
        dot_all<1>(x, n, k, y, out);
    }

    inline void dot_gathered(const float *const *rows, int64_t n, int64_t k, const float *y, float *out) {
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
            return dot_some_wide(rows, n, k, y, out);
        if (__builtin_cpu_supports("fma"))
            return dot_some_fused(rows, n, k, y, out);
    #endif
        dot_some<1>(rows, n, k, y, out);
    }

    }
    """
    const Py_ssize_t SIDE
    void dot_rows(const float *x, Py_ssize_t n, Py_ssize_t k, const float *y, float *out) noexcept nogil
    void dot_gathered(const float *const *rows, Py_ssize_t n, Py_ssize_t k, const float *y, float *out) noexcept nogil
