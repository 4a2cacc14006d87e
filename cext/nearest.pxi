# The nodes that a search of a graph returns, for hnsw.pyx and chnsw.pyx.

from libcpp.algorithm cimport partial_sort
from libcpp.utility cimport pair
from libcpp.vector cimport vector

#: A cosine and the tie-breaker: -(number) if the largest is wanted first.
ctypedef pair[float, int64_t] Near


cdef void sort_results(vector[Near]& results, size_t limit) noexcept nogil:
    """Sort results, which are negated cosines, the largest cosine first, ties by number; keep at most ``limit``, and
    make their cosines positive again."""
    cdef size_t i
    if results.size() < limit:
        limit = results.size()
    partial_sort(results.begin(), results.begin() + limit, results.end())
    results.resize(limit)
    for i in range(results.size()):
        results[i].first = -results[i].first
