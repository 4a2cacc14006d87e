# The nodes that a search of a graph returns, for hnsw.pyx and chnsw.pyx.

from libcpp.algorithm cimport partial_sort
from libcpp.utility cimport pair
from libcpp.vector cimport vector

#: A cosine, negated if the largest is to sort first, and the node, negated in the other case.
ctypedef pair[float, int64_t] Near


cdef void sort_results(vector[Near]& results, size_t limit) noexcept nogil:
    """Sort results by descending cosine, then by node, and keep at most ``limit``.

    The cosines must be negated in the input, and are not negated in the output.
    """
    cdef size_t i
    if results.size() < limit:
        limit = results.size()
    partial_sort(results.begin(), results.begin() + limit, results.end())
    results.resize(limit)
    for i in range(results.size()):
        results[i].first = -results[i].first
