# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Products of a matrix with another matrix or a vector, in which each row depends only on its own row of the first.

In: float32 matrices x (n, k) and w (m, k), rows contiguous. Out: x wᵀ, float32 (n, m), bit for bit the same for any
other rows and any number of them. Linear algebra libraries do not guarantee that: they choose other kernels, which add
in a different order, for other shapes and for the rows at an edge. Here every row runs through the same instructions,
six rows at a time in registers, one step of k after the other. At the edges, a row is computed twice and columns of
zeros are discarded. (Goto, van de Geijn 2008, "Anatomy of high-performance matrix multiplication", section 5: panels of
w are packed, blocks of x stay in the cache.) Products with a vector: dots.pxi.
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

include "dots.pxi"

cdef extern from *:
    """
    #include <cstdint>
    #include <cstring>

    namespace {

    /* Columns of a packed panel; rows in registers; rows per block, which all panels use while it is in the cache. */
    constexpr int64_t PANEL = 32, ROWS = 6, BLOCK = 96;

    /* Writes the products of the n rows of x with the m rows of w to out, shape (n, m). panels: w, 32 rows at a time,
       transposed: (panels, k, 32), the last one zero-padded. Lanes: a vector register. */
    template <typename Lanes>
    __attribute__((always_inline)) inline void multiply(
        const float *x, int64_t n, int64_t k, const float *panels, int64_t m, float *out
    ) {
        constexpr int64_t width = 2 * sizeof(Lanes) / sizeof(float);
        for (int64_t block = 0; block < n; block += BLOCK) {
            const int64_t block_end = block + BLOCK < n ? block + BLOCK : n;
            for (int64_t column = 0; column < m; column += width) {
                const float *panel = panels + column / PANEL * PANEL * k + column % PANEL;
                const size_t wanted = (m - column < width ? m - column : width) * sizeof(float);
                for (int64_t row = block; row < block_end; row += ROWS) {
                    const float *rows[ROWS];
                    for (int64_t r = 0; r < ROWS; r++)
                        rows[r] = x + (row + r < n ? row + r : n - 1) * k;
                    /* Separate variables keep the sums in registers. */
                    #define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
                    #define BEGIN(r) Lanes left##r = {}, right##r = {};
                    #define ADD(r) left##r += rows[r][p] * left; right##r += rows[r][p] * right;
                    #define KEEP(r) sums[r][0] = left##r; sums[r][1] = right##r;
                    EACH_ROW(BEGIN)
                    for (int64_t p = 0; p < k; p++) {
                        Lanes left, right;
                        std::memcpy(&left, panel + p * PANEL, sizeof left);
                        std::memcpy(&right, panel + p * PANEL + width / 2, sizeof right);
                        EACH_ROW(ADD)
                    }
                    Lanes sums[ROWS][2];
                    EACH_ROW(KEEP)
                    for (int64_t r = 0; r < ROWS && row + r < block_end; r++)
                        std::memcpy(out + (row + r) * m + column, sums[r], wanted);
                }
            }
        }
    }

    #if defined(__x86_64__)
    __attribute__((target("fma"))) void multiply_fused(
        const float *x, int64_t n, int64_t k, const float *panels, int64_t m, float *out
    ) {
        multiply<EightFloats>(x, n, k, panels, m, out);
    }

    /* The same steps for each number with twice as many numbers at once: the same bits. */
    __attribute__((target("avx512f"))) void multiply_wide(
        const float *x, int64_t n, int64_t k, const float *panels, int64_t m, float *out
    ) {
        multiply<SixteenFloats>(x, n, k, panels, m, out);
    }
    #endif

    void multiply_rows(const float *x, int64_t n, int64_t k, const float *panels, int64_t m, float *out) {
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
            return multiply_wide(x, n, k, panels, m, out);
        if (__builtin_cpu_supports("fma"))
            return multiply_fused(x, n, k, panels, m, out);
    #endif
        multiply<FourFloats>(x, n, k, panels, m, out);
    }

    }
    """
    const Py_ssize_t PANEL
    void multiply_rows(const float *x, Py_ssize_t n, Py_ssize_t k, const float *panels, Py_ssize_t m,
                       float *out) noexcept nogil


def compute_row_products(
    const float[:, ::1] x not None, const float[:, ::1] w not None, float[:, ::1] out not None
) -> None:
    """Write the products of the rows of x with the rows of w (x wᵀ) to ``out``, shape (len(x), len(w)).

    Raises ValueError if the shapes do not match.
    """
    cdef Py_ssize_t n = x.shape[0], k = x.shape[1], m = w.shape[0], column, index
    cdef vector[float] panels
    if w.shape[1] != k or out.shape[0] != n or out.shape[1] != m:
        raise ValueError(f"{n} rows of {k} numbers, {m} of {w.shape[1]} and an output of shape "
                         f"({out.shape[0]}, {out.shape[1]}) do not match")
    if not (n and m):
        return
    if not k:
        out[:] = 0
        return
    with nogil:
        # The numbers of PANEL rows of w are interleaved, as multiply_rows reads them.
        panels.resize((m + PANEL - 1) // PANEL * PANEL * k)
        for column in range(m):
            for index in range(k):
                panels[(column - column % PANEL) * k + index * PANEL + column % PANEL] = w[column, index]
        multiply_rows(&x[0, 0], n, k, panels.data(), m, &out[0, 0])


cdef vector[float] _pad_vector(const float[::1] y) noexcept nogil:
    """Return a vector padded with zeros to a multiple of ``NUM_PARTIAL_SUMS``, as dots.pxi reads it."""
    cdef vector[float] padded
    cdef Py_ssize_t index, k = y.shape[0]
    padded.assign((k + NUM_PARTIAL_SUMS - 1) // NUM_PARTIAL_SUMS * NUM_PARTIAL_SUMS, 0)
    for index in range(k):
        padded[index] = y[index]
    return padded


def compute_row_dots(const float[:, ::1] x not None, const float[::1] y not None, float[::1] out not None) -> None:
    """Write the product of each row of x with the vector y to ``out``, shape (len(x),).

    Raises ValueError if the shapes do not match.
    """
    cdef Py_ssize_t n = x.shape[0], k = x.shape[1]
    cdef vector[float] padded
    if y.shape[0] != k or out.shape[0] != n:
        raise ValueError(f"{n} rows of {k} numbers, {y.shape[0]} numbers and an output of {out.shape[0]} do not match")
    if not n:
        return
    if not k:
        out[:] = 0
        return
    with nogil:
        padded = _pad_vector(y)
        dot_rows(&x[0, 0], n, k, padded.data(), &out[0])


def compute_selected_row_dots(
    const float[:, ::1] x not None, const int64_t[::1] rows not None, const float[::1] y not None,
    float[::1] out not None,
) -> None:
    """Write the product of row ``rows[i]`` of x with the vector y to ``out[i]``.

    A product has the same bits as if all rows were multiplied. Raises ValueError if the shapes do not match, and
    IndexError for an invalid row of x.
    """
    cdef Py_ssize_t n = rows.shape[0], k = x.shape[1], index
    cdef vector[float] padded
    cdef vector[const float *] selected_rows
    if y.shape[0] != k or out.shape[0] != n:
        raise ValueError(f"{n} rows of {k} numbers, {y.shape[0]} numbers and an output of {out.shape[0]} do not match")
    for index in range(n):
        if not 0 <= rows[index] < x.shape[0]:
            raise IndexError(f"row {rows[index]} does not exist: there are {x.shape[0]} rows")
    if not n:
        return
    if not k:
        out[:] = 0
        return
    with nogil:
        padded = _pad_vector(y)
        selected_rows.resize(n)
        for index in range(n):
            selected_rows[index] = &x[rows[index], 0]
        dot_gathered(selected_rows.data(), n, k, padded.data(), &out[0])
