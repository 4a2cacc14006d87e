# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""HNSW over codes: hierarchical navigable small worlds (Malkov, Yashunin 2018) of vectors quantized to one byte a
number.

In: labels, ascending; for each a code and a scale, whose product is a unit vector. Built: for each node its links in
the lowest layer and in as many layers above as ``bounds`` specifies; these are then packed as differences. Searched:
the nodes nearest to a vector, over arrays that may lie in a mapped file. Products of codes are integers (codes.pxi), so
results are the same on every machine.

A node's bytes are verified at its first visit, before its links are followed. A search returns nodes with the cosines
of their codes. These differ from the exact cosines by about 0.0003 at 384 dimensions; a caller that needs exact ones
must compute them.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.math cimport fabs, lrint
from libc.string cimport memcpy, memmove
from libcpp.algorithm cimport sort
from libcpp.queue cimport priority_queue
from libcpp.vector cimport vector

import numpy as np

include "codes.pxi"
include "crc32.pxi"
include "nearest.pxi"

#: The value of an absent link, which pads the links of a node.
NONE = 0xFFFFFFFF
#: The length of a code is a multiple of this; zeros pad it.
CODE_MULTIPLE = KV_CODE_MULTIPLE

cdef uint32_t _NONE = 0xFFFFFFFF
# The number of ranges for which codes are prefetched ahead of the comparison.
cdef Py_ssize_t _RANGES_AHEAD = 8


cdef struct Graph:
    # The arrays of a graph. During the build, links are rows of numbers: the layers of node i above the lowest are
    # rows ``bounds[i]`` to ``bounds[i + 1]`` of ``upper``. Packed links of node i are the bytes from its entry in
    # ``starts`` (or ``starts_u64``) to the next entry. Absent arrays are NULL.
    const uint64_t* labels
    const int8_t* codes
    const float* scales
    uint32_t* links
    const uint32_t* bounds
    uint32_t* upper
    const uint8_t* packed
    const uint32_t* starts
    const uint64_t* starts_u64
    const uint32_t* checks
    uint8_t* checked
    Py_ssize_t nodes, code_length, bottom_width, upper_width, upper_rows
    uint64_t packed_bytes


cdef struct Filter:
    # The labels that may be returned: all, or those whose group, of ``group_size`` labels, is not 0.
    bint allows_all
    const uint8_t* groups
    uint64_t num_groups, group_size


cdef inline const int8_t* get_code(const Graph& graph, uint32_t node) noexcept nogil:
    """Return the code of a node: its vector, quantized to 8 bits per number."""
    return graph.codes + <Py_ssize_t> node * graph.code_length


cdef inline bint is_packed(const Graph& graph) noexcept nogil:
    """True if the links of the graph are packed as on disk, not in rows as during the build."""
    return graph.starts != NULL or graph.starts_u64 != NULL


cdef inline uint64_t get_start(const Graph& graph, Py_ssize_t node) noexcept nogil:
    """Return the offset of the packed links of a node."""
    return graph.starts[node] if graph.starts != NULL else graph.starts_u64[node]


cdef inline bint read_leb128(const uint8_t** cursor, const uint8_t* end, uint32_t* number) noexcept nogil:
    """Read a LEB128 number into ``number`` and advance ``cursor``.

    Returns False if it is truncated or has more than 32 bits.
    """
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor[0] < end and shift < 35:
        byte = cursor[0][0]
        cursor[0] += 1
        value |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            number[0] = <uint32_t> value
            return value >> 32 == 0
        shift += 7
    return False


cdef inline bint skip_layer(const uint8_t** cursor, const uint8_t* end) noexcept nogil:
    """Advance ``cursor`` past the packed links of a layer; False if they are missing or truncated."""
    cdef uint32_t count
    if not read_leb128(cursor, end, &count):
        return False
    while count and cursor[0] < end:
        count -= cursor[0][0] < 0x80  # the last byte of a link
        cursor[0] += 1
    return count == 0


cdef inline bint find_packed_links(
    const Graph& graph, uint32_t node, const uint8_t** cursor, const uint8_t** end
) noexcept nogil:
    """Set ``cursor`` and ``end`` to the packed links of a node; False if they are not within the packed bytes."""
    cdef uint64_t start = get_start(graph, node), stop = get_start(graph, node + 1)
    if not start <= stop <= graph.packed_bytes:
        return False
    cursor[0], end[0] = graph.packed + start, graph.packed + stop
    return True


cdef Py_ssize_t get_height(const Graph& graph, uint32_t node) noexcept nogil:
    """Return the number of layers above the lowest that a node belongs to."""
    cdef const uint8_t* cursor
    cdef const uint8_t* end
    cdef Py_ssize_t layers = 0
    if not is_packed(graph):
        return <Py_ssize_t> graph.bounds[node + 1] - <Py_ssize_t> graph.bounds[node]
    if find_packed_links(graph, node, &cursor, &end):
        while cursor < end and skip_layer(&cursor, end):
            layers += 1
    return layers - 1 if layers else 0


cdef inline const uint32_t* get_links(
    const Graph& graph, uint32_t node, Py_ssize_t layer, vector[uint32_t]* links, size_t* count
) noexcept nogil:
    """Return the links of a node in a layer, and set ``count``; NULL and 0 if the node is not in that layer.

    Packed links are decoded into ``links``; others are returned in place. If packed links are damaged, the result is
    NULL, or the links before the damage.
    """
    cdef const uint32_t* row
    cdef const uint8_t* cursor
    cdef const uint8_t* end
    cdef uint32_t* out
    cdef size_t i
    cdef uint32_t limit, distance, other = 0
    count[0] = 0
    if not is_packed(graph):
        if layer > get_height(graph, node):
            return NULL
        row, limit = get_link_row(graph, node, layer), <uint32_t> get_row_width(graph, layer)
        while count[0] < limit and row[count[0]] != _NONE:  # the padding after the links
            count[0] += 1
        return row
    if not find_packed_links(graph, node, &cursor, &end):
        return NULL
    while layer:
        if not skip_layer(&cursor, end):
            return NULL
        layer -= 1
    if not read_leb128(&cursor, end, &limit) or limit > end - cursor:
        return NULL
    if links.size() < limit:
        links.resize(limit)
    out = links.data()
    for i in range(limit):
        if end - cursor >= 2 and cursor[1] < 0x80 <= cursor[0]:  # most distances
            other += cursor[0] & 0x7F | <uint32_t> cursor[1] << 7
            cursor += 2
        elif read_leb128(&cursor, end, &distance):
            other += distance
        else:
            break
        out[i] = other
        count[0] += 1
    return out


cdef inline uint32_t* get_link_row(const Graph& graph, uint32_t node, Py_ssize_t layer) noexcept nogil:
    """Return the row of links of a node, during the build, in a layer that it belongs to."""
    if layer == 0:
        return graph.links + <Py_ssize_t> node * graph.bottom_width
    return graph.upper + (<Py_ssize_t> graph.bounds[node] + layer - 1) * graph.upper_width


cdef inline Py_ssize_t get_row_width(const Graph& graph, Py_ssize_t layer) noexcept nogil:
    """Return the maximum number of links of a node in a layer."""
    return graph.bottom_width if layer == 0 else graph.upper_width


cdef inline void prefetch_links(const Graph& graph, uint32_t node) noexcept nogil:
    """Prefetch the packed links of a node or, during the build, its links in the lowest layer."""
    cdef uint64_t start
    if is_packed(graph):
        start = get_start(graph, node)
        if start < graph.packed_bytes:
            kv_prefetch(<const int8_t*> (graph.packed + start), 64)  # one cache line
    else:
        kv_prefetch(<const int8_t*> get_link_row(graph, node, 0), graph.bottom_width * <Py_ssize_t> sizeof(uint32_t))


cdef inline bint is_allowed(const Filter& filter, uint64_t label) noexcept nogil:
    """True if a search may return the node with this label."""
    if filter.allows_all:
        return True
    return label / filter.group_size < filter.num_groups and filter.groups[label / filter.group_size] != 0


cdef uint32_t compute_checksum(const Graph& graph, uint32_t node) noexcept nogil:
    """Return the CRC-32 of a node's label, scale and code and, if the graph has packed links, of these.

    The links follow their two starts, as eight bytes each.
    """
    cdef uint32_t crc = kv_crc(<const uint8_t*> (graph.labels + node), sizeof(uint64_t))
    cdef uint64_t[2] starts
    cdef const uint8_t* cursor
    cdef const uint8_t* end
    crc = kv_crc_extend(crc, <const uint8_t*> (graph.scales + node), sizeof(float))
    crc = kv_crc_extend(crc, <const uint8_t*> get_code(graph, node), graph.code_length)
    if is_packed(graph):
        starts[0], starts[1] = get_start(graph, node), get_start(graph, node + 1)
        crc = kv_crc_extend(crc, <const uint8_t*> starts, sizeof(starts))
        if find_packed_links(graph, node, &cursor, &end):
            crc = kv_crc_extend(crc, cursor, end - cursor)
    return crc


cdef inline bint is_sound(const Graph& graph, uint32_t node) noexcept nogil:
    """True if a node matches its checksum, which is computed only at the first visit."""
    if graph.checks == NULL or graph.checked[node]:
        return True
    if compute_checksum(graph, node) != graph.checks[node]:
        return False
    graph.checked[node] = 1
    return True


cdef cppclass Walk:
    # Working memory of one search, reused by the next: marks of visited nodes, by epoch; the query, as integers or as
    # the code of a node, with a scale; the best so far, and which of them have been followed; results, best first.
    vector[uint16_t] marks
    uint16_t epoch
    vector[int16_t] query
    const int8_t* code
    float scale
    vector[uint32_t] new_nodes, starts, links
    vector[uint64_t] best
    vector[uint8_t] followed
    vector[Near] results
    int64_t damaged

    __init__():
        this.epoch = 0
        this.code = NULL
        this.scale = 0
        this.damaged = -1


cdef void set_query_vector(
    Walk* walk, const float* values, Py_ssize_t dimension, Py_ssize_t code_length
) noexcept nogil:
    """Set the query of a search (``walk``) to a vector, as 12-bit integers.

    These are finer than codes, and no sum of products overflows. Zeros follow the ``dimension`` numbers up to
    ``code_length``, the length of the codes. ``walk.scale`` is the factor that turns the integers into the numbers.
    """
    cdef Py_ssize_t index
    cdef double peak = 0, max_magnitude = min(<double> 2047, <double> 0x7FFFFFFF / (127 * <double> code_length))
    walk.code = NULL
    walk.query.assign(code_length, 0)
    for index in range(dimension):
        if fabs(values[index]) > peak:
            peak = fabs(values[index])
    walk.scale = 0
    if peak > 0:
        for index in range(dimension):
            walk.query[index] = <int16_t> lrint(values[index] * (max_magnitude / peak))
        walk.scale = <float> (peak / max_magnitude)


cdef inline void set_query_node(Walk* walk, const Graph& graph, uint32_t node) noexcept nogil:
    """Set the query of a search (``walk``) to the code of a node."""
    walk.code, walk.scale = get_code(graph, node), graph.scales[node]


cdef inline float compute_cosine(Walk* walk, const Graph& graph, uint32_t node) noexcept nogil:
    """Return the cosine of a node's code with the query of a search (``walk``), a code or a vector of integers."""
    cdef int32_t product
    if walk.code != NULL:
        product = kv_dot_codes(walk.code, get_code(graph, node), graph.code_length)
    else:
        product = kv_dot_query(walk.query.data(), get_code(graph, node), graph.code_length)
    return <float> product * (walk.scale * graph.scales[node])


cdef inline uint64_t encode_sort_key(float cosine, uint32_t node) noexcept nogil:
    """Return an integer by which nodes sort: the largest cosine first, then the smallest node."""
    cdef uint32_t bits
    cosine += 0  # turns -0 into 0
    # The bits of positive floats ascend with the number, those of negative floats with its magnitude.
    memcpy(&bits, &cosine, sizeof(bits))
    return <uint64_t> (bits if bits >> 31 else ~bits & 0x7FFFFFFF) << 32 | node


cdef inline float decode_cosine(uint64_t sort_key) noexcept nogil:
    """Return the cosine of a sort key, which :func:`encode_sort_key` made."""
    cdef uint32_t bits = <uint32_t> (sort_key >> 32)
    cdef float cosine
    bits = bits if bits >> 31 else ~bits & 0x7FFFFFFF
    memcpy(&cosine, &bits, sizeof(cosine))
    return cosine


cdef void clear_marks(Walk* walk, size_t nodes) noexcept nogil:
    """Mark all nodes as not visited. A new epoch makes old marks invalid; they are cleared only when it overflows."""
    walk.epoch += 1
    if walk.marks.size() != nodes or not walk.epoch:
        walk.marks.assign(nodes, 0)
        walk.epoch = 1


cdef inline void push_best(priority_queue[Near]& best, float cosine, int64_t node, size_t limit) noexcept nogil:
    """Add a node to the ``limit`` best if it is among them.

    The top of the heap is the worst of the best: the least cosine, and of equal ones the larger node.
    """
    if best.size() < limit or Near(-cosine, node) < best.top():
        best.push(Near(-cosine, node))
        if best.size() > limit:
            best.pop()


cdef inline size_t insert_best(Walk* walk, uint64_t sort_key, size_t limit) noexcept nogil:
    """Insert a node's sort key into the sorted list of the ``limit`` best, ``walk.best``, and return its index there.

    The node must be among the best.
    """
    cdef const uint64_t* best = walk.best.data()
    cdef size_t index = 0, half, num_left = walk.best.size(), num_after
    while num_left:  # a binary search without an unpredictable branch
        half = num_left - num_left / 2
        index += half if best[index + half - 1] < sort_key else 0
        num_left -= half
    num_after = walk.best.size() - index
    if walk.best.size() < limit:
        walk.best.push_back(0)
        walk.followed.push_back(0)
    else:
        num_after -= 1
    memmove(walk.best.data() + index + 1, walk.best.data() + index, num_after * sizeof(uint64_t))
    memmove(walk.followed.data() + index + 1, walk.followed.data() + index, num_after)
    walk.best[index], walk.followed[index] = sort_key, 0
    return index


cdef bint search_layer(
    Walk* walk, const Graph& graph, const Filter& filter, Py_ssize_t layer, size_t ef
) noexcept nogil:
    """Find about the ``ef`` nearest nodes of a layer from ``walk.starts``; False if a node fails its checksum.

    Malkov, Yashunin 2018, Algorithm 2 (SEARCH-LAYER); the result is ``walk.results``. The best allowed nodes so far are
    in one sorted list, as sort keys, whose lower 32 bits are the node. A node that drops out of the list need not be
    followed. ``next_index`` is the index of the first node in the list whose links have not been followed yet.
    ``disallowed`` are nodes to follow that are not allowed as results.
    """
    cdef priority_queue[uint64_t] disallowed  # as complements: the largest is on top
    cdef uint32_t node, other
    cdef uint64_t sort_key
    cdef size_t i, count, next_index = 0
    cdef const uint32_t* links
    cdef float cosine
    clear_marks(walk, graph.nodes)
    walk.best.clear()
    walk.followed.clear()
    walk.results.clear()
    walk.new_nodes.clear()
    for i in range(walk.starts.size()):
        node = walk.starts[i]
        if node < graph.nodes and walk.marks[node] != walk.epoch:
            walk.marks[node] = walk.epoch
            walk.new_nodes.push_back(node)
    while True:
        for i in range(walk.new_nodes.size()):
            node = walk.new_nodes[i]
            if not is_sound(graph, node):
                walk.damaged = node
                return False
            cosine = compute_cosine(walk, graph, node)
            if not cosine == cosine:  # NaN
                continue
            sort_key = encode_sort_key(cosine, node)
            if walk.best.size() == ef and walk.best.back() < sort_key:
                continue
            if is_allowed(filter, graph.labels[node]):
                next_index = min(next_index, insert_best(walk, sort_key, ef))
            else:
                disallowed.push(~sort_key)
        while next_index < walk.best.size() and walk.followed[next_index]:
            next_index += 1
        if not disallowed.empty() and (next_index == walk.best.size() or ~disallowed.top() < walk.best[next_index]):
            sort_key = ~disallowed.top()
            disallowed.pop()
            if walk.best.size() == ef and walk.best.back() < sort_key:
                break
        elif next_index < walk.best.size():
            sort_key = walk.best[next_index]
            walk.followed[next_index] = 1
        else:
            break
        if next_index + 1 < walk.best.size():  # its links are most often followed next
            prefetch_links(graph, <uint32_t> walk.best[next_index + 1])
        walk.new_nodes.clear()
        links = get_links(graph, <uint32_t> sort_key, layer, &walk.links, &count)
        for i in range(count):
            other = links[i]
            if other < graph.nodes and walk.marks[other] != walk.epoch:
                walk.marks[other] = walk.epoch
                walk.new_nodes.push_back(other)
                kv_prefetch(get_code(graph, other), graph.code_length)
    for i in range(walk.best.size()):
        walk.results.push_back(Near(decode_cosine(walk.best[i]), <int64_t> <uint32_t> walk.best[i]))
    return True


cdef bint descend_to_layer(
    Walk* walk, const Graph& graph, uint32_t entry, Py_ssize_t target_layer
) noexcept nogil:
    """Set ``walk.starts`` to the node at which the search of ``target_layer`` starts.

    It is the nearest node of the layer above, which is found from the entry's highest layer down, or the ``entry``
    itself if it is not in the layer above. Returns False if a node fails its checksum.
    """
    cdef Py_ssize_t layer
    cdef Filter everything
    everything.allows_all = True
    walk.starts.assign(1, entry)
    if not is_sound(graph, entry):
        walk.damaged = entry
        return False
    for layer in range(get_height(graph, entry), target_layer, -1):
        if not search_layer(walk, graph, everything, layer, 1):
            return False
        if not walk.results.empty():
            walk.starts.assign(1, <uint32_t> walk.results[0].second)
    return True


cdef bint scan_ranges(
    Walk* walk, const Graph& graph, const Filter& filter, const int64_t[::1] starts, const int64_t[::1] stops,
    size_t limit
) noexcept nogil:
    """Find the ``limit`` allowed nodes of ranges nearest to the query of ``walk``, by comparing it with all of them.

    Range i has the nodes with ``starts[i]`` <= node < ``stops[i]``. The result is ``walk.results``. Returns False if a
    node fails its checksum; that node is ``walk.damaged``.
    """
    cdef priority_queue[Near] best
    cdef Py_ssize_t index, num_ranges = starts.shape[0]
    cdef int64_t node, stop
    cdef float cosine
    walk.results.clear()
    for index in range(num_ranges):
        # The processor cannot predict the next range if ranges are short, so prefetch it.
        if index + _RANGES_AHEAD < num_ranges and 0 <= starts[index + _RANGES_AHEAD] < graph.nodes:
            kv_prefetch(get_code(graph, <uint32_t> starts[index + _RANGES_AHEAD]), graph.code_length)
        node, stop = max(starts[index], <int64_t> 0), min(stops[index], <int64_t> graph.nodes)
        while node < stop:
            if is_allowed(filter, graph.labels[node]):
                if not is_sound(graph, <uint32_t> node):
                    walk.damaged = node
                    return False
                cosine = compute_cosine(walk, graph, <uint32_t> node)
                if cosine == cosine:  # not NaN
                    push_best(best, cosine, node, limit)
            node += 1
    while not best.empty():
        walk.results.push_back(best.top())
        best.pop()
    sort_results(walk.results, limit)
    return True


cdef class PooledWalk:
    # The working memory of a search, which the next one reuses.
    cdef Walk walk


cdef class CodeGraph:
    """A graph of codes over existing arrays, for example of a mapped file. Any number of threads may search it.

    For n nodes: ``labels`` (n), ascending. ``codes`` (n, code_length), where the length is a multiple of
    :data:`CODE_MULTIPLE`. ``scales`` (n). ``links``: the bytes of the links, as :func:`pack_links` returns them, those
    of node i from ``starts[i]`` to ``starts[i + 1]`` (n + 1, of 32 or 64 bits; without links only one zero). ``checks``
    (n): the checksum of each node, verified at its first visit. ``entry``: the node at which the highest layer is
    entered. Raises ValueError if the shapes do not match.
    """

    cdef const uint64_t[::1] _labels
    cdef const int8_t[:, ::1] _codes
    cdef const float[::1] _scales
    cdef const uint8_t[::1] _links
    cdef object _starts
    cdef const uint32_t[::1] _checks
    cdef vector[uint8_t] _checked
    cdef Graph _graph
    cdef uint32_t _entry
    cdef list _idle

    def __cinit__(self, const uint64_t[::1] labels not None, const int8_t[:, ::1] codes not None,
                  const float[::1] scales not None, starts not None, const uint8_t[::1] links not None,
                  const uint32_t[::1] checks not None, uint32_t entry) -> None:
        """Open a graph over arrays of nodes (label, code, scale, links, checksum): check shapes, keep references.

        ``entry`` is the node at which a search enters the highest layer.
        """
        cdef Py_ssize_t nodes = labels.shape[0]
        if checks.shape[0] != nodes or (nodes and entry >= nodes):
            raise ValueError(f"{checks.shape[0]} checksums and an entry at {entry} do not match {nodes} nodes")
        self._labels, self._codes, self._scales, self._links = labels, codes, scales, links
        self._starts, self._checks, self._entry = starts, checks, entry
        self._checked.assign(nodes, 0)
        set_packed_links(&self._graph, labels, codes, scales, starts, links)
        self._graph.checks, self._graph.checked = &checks[0] if nodes else NULL, self._checked.data()
        self._idle = []

    def search(self, const float[::1] query not None, Py_ssize_t ef, const uint8_t[::1] groups=None,
               Py_ssize_t group_size=1):
        """Return about the ``ef`` nodes nearest to a unit vector, best first: their (labels, cosines of codes, scales).

        With ``groups``, label i may be returned only if ``groups[i // group_size]`` exists and is not 0. Raises
        ValueError if there are no links or the shapes do not match, and for a node that fails its checksum.
        """
        if query.shape[0] > self._graph.code_length or ef < 1 or group_size < 1 or (
            self._graph.nodes and not is_packed(self._graph)):
            raise ValueError(f"a query of {query.shape[0]} numbers with ef {ef} does not match a graph of "
                             f"{self._graph.code_length} numbers and {self._graph.packed_bytes} bytes of links")
        cdef PooledWalk pooled = self._take_walk()
        cdef Walk* walk = &pooled.walk
        cdef Filter filter = make_filter(groups, group_size)
        cdef const float* numbers = &query[0] if query.shape[0] else NULL
        cdef Py_ssize_t dimension = query.shape[0]
        cdef bint sound
        with nogil:
            set_query_vector(walk, numbers, dimension, self._graph.code_length)
            walk.results.clear()
            sound = not self._graph.nodes or (descend_to_layer(walk, self._graph, self._entry, 0)
                                              and search_layer(walk, self._graph, filter, 0, ef))
        return self._build_result(pooled, sound)

    def compare(self, const float[::1] query not None, Py_ssize_t limit, const int64_t[::1] starts not None,
                const int64_t[::1] stops not None, const uint8_t[::1] groups=None, Py_ssize_t group_size=1):
        """Return the ``limit`` nodes in ranges that are nearest to a unit vector, best first.

        Returns (labels, cosines of codes, scales). Range i has the nodes with ``starts[i]`` <= node < ``stops[i]``, and
        all of them are compared. With ``groups``, label i may be returned only if ``groups[i // group_size]`` exists
        and is not 0.

        Raises ValueError if the shapes do not match, and for a node that fails its checksum.
        """
        if query.shape[0] > self._graph.code_length or limit < 1 or group_size < 1 or starts.shape[0] != stops.shape[0]:
            raise ValueError(f"a query of {query.shape[0]} numbers for {limit} of {starts.shape[0]} ranges does not "
                             f"match a graph of {self._graph.code_length} numbers")
        cdef PooledWalk pooled = self._take_walk()
        cdef Walk* walk = &pooled.walk
        cdef Filter filter = make_filter(groups, group_size)
        cdef const float* numbers = &query[0] if query.shape[0] else NULL
        cdef Py_ssize_t dimension = query.shape[0]
        cdef bint sound
        with nogil:
            set_query_vector(walk, numbers, dimension, self._graph.code_length)
            sound = scan_ranges(walk, self._graph, filter, starts, stops, limit)
        return self._build_result(pooled, sound)

    def verify(self):
        """Verify all nodes. Raises ValueError for one that fails its checksum."""
        cdef Py_ssize_t node
        cdef bint sound = True
        with nogil:
            for node in range(self._graph.nodes):
                if not is_sound(self._graph, <uint32_t> node):
                    sound = False
                    break
        if not sound:
            raise ValueError(f"node {node} fails its checksum")

    cdef PooledWalk _take_walk(self):
        """Return the working memory of an earlier search that no thread uses now, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return PooledWalk()

    cdef object _build_result(self, PooledWalk pooled, bint sound):
        """Return (labels, cosines, scales) of a finished search, and put its memory back in the pool.

        Raises ValueError if the search is not ``sound``, because it reached a damaged node.
        """
        cdef Walk* walk = &pooled.walk
        if not sound:
            raise ValueError(f"node {walk.damaged} fails its checksum")
        cdef size_t i
        cdef size_t count = walk.results.size()
        labels, cosines, scales = np.empty(count, np.uint64), np.empty(count, np.float32), np.empty(count, np.float32)
        cdef uint64_t[::1] all_labels = labels
        cdef float[::1] all_cosines = cosines, all_scales = scales
        for i in range(count):
            all_labels[i] = self._graph.labels[walk.results[i].second]
            all_cosines[i] = walk.results[i].first
            all_scales[i] = self._graph.scales[walk.results[i].second]
        self._idle.append(pooled)
        return labels, cosines, scales


cdef Filter make_filter(const uint8_t[::1] groups, Py_ssize_t group_size):
    """Return the filter for a table of groups of ``group_size`` labels; for None, one that allows all labels."""
    cdef Filter filter
    filter.allows_all, filter.num_groups, filter.group_size = groups is None, 0, group_size
    filter.groups = NULL
    if groups is not None and groups.shape[0]:
        filter.groups, filter.num_groups = &groups[0], groups.shape[0]
    return filter


cdef int set_codes(Graph* graph, const uint64_t[::1] labels, const int8_t[:, ::1] codes,
                   const float[::1] scales) except -1:
    """Set the arrays of a graph of codes without links. Raises ValueError if the shapes do not match."""
    cdef Py_ssize_t nodes = labels.shape[0]
    if not (nodes < _NONE and codes.shape[0] == scales.shape[0] == nodes and codes.shape[1]
            and codes.shape[1] % KV_CODE_MULTIPLE == 0):
        raise ValueError(f"{nodes} labels, {codes.shape[0]} codes of {codes.shape[1]} numbers and {scales.shape[0]} "
                         "scales do not match in shape")
    if nodes:
        graph.labels, graph.codes, graph.scales = &labels[0], &codes[0, 0], &scales[0]
    graph.nodes, graph.code_length = nodes, codes.shape[1]
    graph.links = graph.upper = NULL
    graph.bounds = graph.starts = graph.checks = NULL
    graph.starts_u64 = NULL
    graph.packed = graph.checked = NULL
    graph.bottom_width = graph.upper_width = graph.upper_rows = 0
    graph.packed_bytes = 0
    return 0


cdef int set_link_rows(Graph* graph, const uint64_t[::1] labels, const int8_t[:, ::1] codes, const float[::1] scales,
                       uint32_t[:, ::1] links, const uint32_t[::1] bounds, uint32_t[:, ::1] upper) except -1:
    """Set the arrays of a graph with links in rows. Raises ValueError if the shapes do not match.

    ``links`` has the links of each node in the lowest layer. Rows ``bounds[i]`` to ``bounds[i + 1]`` of ``upper`` have
    the links of node i in the layers above, the lowest first.
    """
    cdef Py_ssize_t nodes = labels.shape[0], node
    set_codes(graph, labels, codes, scales)
    if not (upper.shape[1] >= 2 and links.shape[0] == nodes and links.shape[1] == 2 * upper.shape[1]
            and bounds.shape[0] == nodes + 1):
        raise ValueError(f"{links.shape[0]} rows of {links.shape[1]} and {upper.shape[1]} links and {bounds.shape[0]} "
                         f"bounds do not match {nodes} nodes")
    for node in range(nodes):
        if bounds[node] > bounds[node + 1]:
            raise ValueError(f"bounds of node {node} descend")
    if bounds[nodes] > upper.shape[0]:
        raise ValueError(f"the bounds need {bounds[nodes]} rows of links above the lowest layer, not {upper.shape[0]}")
    graph.links, graph.bottom_width = &links[0, 0] if nodes else NULL, links.shape[1]
    graph.upper, graph.upper_width = &upper[0, 0] if upper.shape[0] else NULL, upper.shape[1]
    graph.bounds, graph.upper_rows = &bounds[0], upper.shape[0]
    return 0


cdef int set_packed_links(Graph* graph, const uint64_t[::1] labels, const int8_t[:, ::1] codes, const float[::1] scales,
                          starts, const uint8_t[::1] links) except -1:
    """Set the arrays of a graph with packed links or without links. Raises ValueError if the shapes do not match.

    ``starts`` are uint32 or uint64; a graph without links has the single start 0.
    """
    cdef Py_ssize_t nodes = labels.shape[0], count = len(starts)
    cdef const uint32_t[::1] starts_u32
    cdef const uint64_t[::1] starts_u64
    set_codes(graph, labels, codes, scales)
    graph.packed, graph.packed_bytes = &links[0] if links.shape[0] else NULL, links.shape[0]
    if count == 1 and not starts[0] and not links.shape[0]:
        return 0
    if count != nodes + 1 or starts[nodes] != links.shape[0]:
        raise ValueError(f"{links.shape[0]} bytes of links with {count} starts do not match {nodes} nodes")
    if starts.dtype == np.uint32:
        starts_u32 = starts
        graph.starts = &starts_u32[0]
    else:
        starts_u64 = starts
        graph.starts_u64 = &starts_u64[0]
    return 0


cdef class CodeGraphBuilder:
    """Links nodes: call :meth:`link_nodes` until it returns 0 or enough nodes are linked; then the arrays form a graph.

    The arrays are as in :class:`CodeGraph`, with room for all nodes. The first ``linked`` nodes already have links,
    entered at ``entry``; rows of the others are filled with :data:`NONE`. A node gets as many links as ``upper`` has
    columns, and at most twice as many in the lowest layer with those from other nodes. They are chosen from
    ``ef_construction`` candidates. Raises ValueError if the arrays do not match.
    """

    cdef const uint64_t[::1] _labels
    cdef const int8_t[:, ::1] _codes
    cdef const float[::1] _scales
    cdef uint32_t[:, ::1] _links, _upper
    cdef const uint32_t[::1] _bounds
    cdef Graph _graph
    cdef Walk _walk
    cdef size_t _m, _ef
    cdef Py_ssize_t _linked
    cdef uint32_t _entry
    cdef vector[Near] _candidates
    cdef vector[uint32_t] _selected

    def __cinit__(self, const uint64_t[::1] labels not None, const int8_t[:, ::1] codes not None,
                  const float[::1] scales not None, uint32_t[:, ::1] links not None,
                  const uint32_t[::1] bounds not None, uint32_t[:, ::1] upper not None, *, Py_ssize_t linked=0,
                  uint32_t entry=0, Py_ssize_t ef_construction=200) -> None:
        """Check the shapes of the arrays of all nodes, and keep references to them; the links are written in place.

        The first ``linked`` nodes are linked already; a search of them begins at the node ``entry``.
        """
        cdef Py_ssize_t nodes = labels.shape[0]
        set_link_rows(&self._graph, labels, codes, scales, links, bounds, upper)
        if not (0 <= linked <= nodes and (linked == 0 or entry < linked) and ef_construction >= 1):
            raise ValueError(f"{linked} of {nodes} nodes linked and an entry at {entry} are not valid together")
        self._labels, self._codes, self._scales = labels, codes, scales
        self._links, self._bounds, self._upper = links, bounds, upper
        self._m, self._ef, self._linked, self._entry = upper.shape[1], ef_construction, linked, entry

    @property
    def entry(self) -> int:
        """The node at which the highest layer is entered."""
        return self._entry

    def link_nodes(self, Py_ssize_t count) -> int:
        """Link up to ``count`` further nodes; return the number of nodes left to link."""
        with nogil:
            while count > 0 and self._linked < self._graph.nodes:
                self._insert(<uint32_t> self._linked)
                self._linked += 1
                count -= 1
        return self._graph.nodes - self._linked

    cdef void _insert(self, uint32_t node) noexcept nogil:
        """Link a node in each of its layers (Malkov, Yashunin 2018, Algorithm 1)."""
        cdef Py_ssize_t layer, height = get_height(self._graph, node)
        cdef size_t i
        cdef Filter everything
        cdef vector[uint32_t] links
        everything.allows_all = True
        if not self._linked:
            self._entry = node
            return
        set_query_node(&self._walk, self._graph, node)
        descend_to_layer(&self._walk, self._graph, self._entry, height)
        for layer in range(min(height, get_height(self._graph, self._entry)), -1, -1):
            set_query_node(&self._walk, self._graph, node)
            search_layer(&self._walk, self._graph, everything, layer, self._ef)
            self._candidates = self._walk.results
            self._walk.starts.clear()
            for i in range(self._candidates.size()):
                self._walk.starts.push_back(<uint32_t> self._candidates[i].second)
            self._select_links(self._m)
            links = self._selected
            self._set_links(node, layer)
            for i in range(links.size()):
                self._link_back(links[i], node, layer)
        if height > get_height(self._graph, self._entry):
            self._entry = node

    cdef void _select_links(self, size_t limit) noexcept nogil:
        """Select links among ``_candidates`` (best first): each is nearer to the node than to any link selected before.

        Malkov, Yashunin 2018, Algorithm 4 (SELECT-NEIGHBORS-HEURISTIC); the result is ``_selected``, at most ``limit``.
        """
        cdef size_t i, index
        cdef uint32_t other, selected_node
        cdef float cosine
        cdef bint is_apart
        self._selected.clear()
        for i in range(self._candidates.size()):
            if self._selected.size() == limit:
                break
            other, is_apart = <uint32_t> self._candidates[i].second, True
            for index in range(self._selected.size()):
                selected_node = self._selected[index]
                cosine = <float> kv_dot_codes(
                    get_code(self._graph, other), get_code(self._graph, selected_node), self._graph.code_length
                ) * (self._graph.scales[other] * self._graph.scales[selected_node])
                if not cosine < self._candidates[i].first:  # the cosine of the candidate and the node
                    is_apart = False
                    break
            if is_apart:
                self._selected.push_back(other)

    cdef void _set_links(self, uint32_t node, Py_ssize_t layer) noexcept nogil:
        """Replace the links of a node in a layer with the selected ones."""
        cdef uint32_t* row = get_link_row(self._graph, node, layer)
        cdef Py_ssize_t index, width = get_row_width(self._graph, layer)
        for index in range(width):
            row[index] = self._selected[index] if index < <Py_ssize_t> self._selected.size() else _NONE

    cdef void _link_back(self, uint32_t node, uint32_t new, Py_ssize_t layer) noexcept nogil:
        """Link a node to a new node that links to it. If its row is full, select among all its links again."""
        cdef uint32_t* row = get_link_row(self._graph, node, layer)
        cdef Py_ssize_t index, width = get_row_width(self._graph, layer)
        for index in range(width):
            if row[index] == _NONE:
                row[index] = new
                return
        set_query_node(&self._walk, self._graph, node)
        self._walk.results.clear()
        for index in range(width):
            self._walk.results.push_back(
                Near(-compute_cosine(&self._walk, self._graph, row[index]), <int64_t> row[index])
            )
        self._walk.results.push_back(Near(-compute_cosine(&self._walk, self._graph, new), <int64_t> new))
        sort_results(self._walk.results, self._walk.results.size())
        self._candidates = self._walk.results
        self._select_links(width)
        self._set_links(node, layer)


cdef void write_leb128(vector[uint8_t]* out, uint32_t number) noexcept nogil:
    """Append a LEB128 number."""
    while number >= 0x80:
        out.push_back(<uint8_t> (number & 0x7F | 0x80))
        number >>= 7
    out.push_back(<uint8_t> number)


cdef void pack_row(
    vector[uint8_t]* out, const uint32_t* row, Py_ssize_t width, vector[uint32_t]* ordered
) noexcept nogil:
    """Append the links of a row, packed: their number, and the difference of each from the previous one, sorted.

    ``ordered`` is working memory.
    """
    cdef Py_ssize_t index
    cdef size_t i
    cdef uint32_t previous = 0
    ordered.clear()
    for index in range(width):
        if row[index] != _NONE:
            ordered.push_back(row[index])
    sort(ordered.begin(), ordered.end())
    write_leb128(out, <uint32_t> ordered.size())
    for i in range(ordered.size()):
        write_leb128(out, ordered[0][i] - previous)
        previous = ordered[0][i]


def pack_links(uint32_t[:, ::1] links not None, const uint32_t[::1] bounds not None,
           uint32_t[:, ::1] upper not None) -> tuple[np.ndarray, np.ndarray]:
    """Pack the link arrays of a :class:`CodeGraphBuilder` for :class:`CodeGraph`, and return (starts, data).

    The links of node i are the bytes ``data[starts[i]:starts[i + 1]]``. For each layer of the node, the lowest first,
    they have the number of links and the sorted links, each as the difference from the previous link (the first from
    0). All are LEB128 numbers. ``starts`` is u32, or u64 if the data has 4 GiB or more. Raises ValueError if the arrays
    do not match.
    """
    cdef Py_ssize_t nodes = links.shape[0], node
    cdef uint32_t layer
    cdef vector[uint8_t] out
    cdef vector[uint32_t] ordered
    starts = np.zeros(nodes + 1, np.uint64)
    cdef uint64_t[::1] all_starts = starts
    if bounds.shape[0] != nodes + 1 or bounds[nodes] > upper.shape[0]:
        raise ValueError(f"{nodes} rows of links, {bounds.shape[0]} bounds and {upper.shape[0]} upper do not match")
    with nogil:
        for node in range(nodes):
            pack_row(&out, &links[node, 0], links.shape[1], &ordered)
            for layer in range(bounds[node], bounds[node + 1]):
                pack_row(&out, &upper[layer, 0], upper.shape[1], &ordered)
            all_starts[node + 1] = out.size()
    data = np.empty(out.size(), np.uint8)
    cdef uint8_t[::1] all_data = data
    if out.size():
        memcpy(&all_data[0], out.data(), out.size())
    return starts if out.size() >> 32 else starts.astype(np.uint32), data


def unpack_links(starts not None, const uint8_t[::1] data not None, uint32_t[:, ::1] links not None,
                 const uint32_t[::1] bounds not None, uint32_t[:, ::1] upper not None) -> None:
    """Write the packed links (``starts``, ``data``) of nodes into the rows for a :class:`CodeGraphBuilder`.

    The rows of these nodes in ``links`` and ``upper`` must be filled with :data:`NONE`; there may be more rows. Raises
    ValueError if the rows have no room for the links.
    """
    cdef Graph graph
    cdef Py_ssize_t nodes = len(starts) - 1, node, layer, i
    cdef size_t count
    cdef const uint32_t* row
    cdef uint64_t[::1] labels = np.zeros(nodes, np.uint64)
    cdef vector[uint32_t] results
    codes = np.zeros((nodes, KV_CODE_MULTIPLE), np.int8)  # placeholders, because only the links are read
    set_packed_links(&graph, labels, codes, np.zeros(nodes, np.float32), starts, data)
    if nodes > links.shape[0] or bounds.shape[0] <= nodes or bounds[nodes] > upper.shape[0]:
        raise ValueError(f"{links.shape[0]} rows and {bounds.shape[0]} bounds have no room for links of {nodes} nodes")
    for node in range(nodes):
        for layer in range(1 + <Py_ssize_t> bounds[node + 1] - <Py_ssize_t> bounds[node]):
            row = get_links(graph, <uint32_t> node, layer, &results, &count)
            if <Py_ssize_t> count > (upper.shape[1] if layer else links.shape[1]):
                raise ValueError(f"node {node} has {count} links in layer {layer}")
            for i in range(<Py_ssize_t> count):
                if layer:
                    upper[bounds[node] + layer - 1, i] = row[i]
                else:
                    links[node, i] = row[i]


def compute_checksums(const uint64_t[::1] labels not None, const int8_t[:, ::1] codes not None,
              const float[::1] scales not None, starts not None, const uint8_t[::1] links not None) -> np.ndarray:
    """Return the checksum (u32) of each node, shape (n,), from the arrays of a :class:`CodeGraph`, with its shapes.

    Raises ValueError if the arrays do not match.
    """
    cdef Py_ssize_t nodes = labels.shape[0], node
    cdef Graph graph
    set_packed_links(&graph, labels, codes, scales, starts, links)
    cdef uint32_t[::1] sums = (checks := np.zeros(nodes, np.uint32))
    with nogil:
        for node in range(nodes):
            sums[node] = compute_checksum(graph, <uint32_t> node)
    return checks
