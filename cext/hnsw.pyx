# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""HNSW over codes: hierarchical navigable small worlds (Malkov, Yashunin 2018) of vectors quantised to a byte a number.

In: labels, ascending; for each a code and a scale, whose product is a unit vector. Built: for each node its links in the
lowest layer, and in as many above it as ``bounds`` says. Searched: the nodes nearest to a vector, over arrays as they
lie in a mapped file. Products of codes are whole numbers (codes.pxi), so an outcome is the same on every machine.

A node's bytes are verified when it is first met, before anything in them is followed. A search gives nodes with cosines
of the codes: they differ from the vectors' by about 0.0003 at 384 dimensions, so whoever wants exact ones compares again.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.math cimport fabs, lrint
from libcpp.algorithm cimport partial_sort
from libcpp.queue cimport priority_queue
from libcpp.utility cimport pair
from libcpp.vector cimport vector

import numpy as np

include "codes.pxi"
include "crc32.pxi"

#: No link; pads a node's links.
NONE = 0xFFFFFFFF
#: Codes are so many numbers long, or a multiple of it: zeros fill them up.
CODE_SIDE = KV_CODE_SIDE

cdef uint32_t _NONE = 0xFFFFFFFF
# How many ranges ahead of the one that is compared codes are fetched into the cache.
cdef Py_ssize_t _RANGES_AHEAD = 8

#: A cosine with what orders ties: -(number) where the largest is wanted first.
ctypedef pair[float, int64_t] Near


cdef struct Graph:
    # The arrays of a graph; the layers of node i above the lowest are rows ``bounds[i]`` to ``bounds[i + 1]`` of
    # ``upper``. ``checks`` is NULL while it is built.
    const uint64_t* labels
    const int8_t* codes
    const float* scales
    uint32_t* links
    const uint32_t* bounds
    uint32_t* upper
    const uint32_t* checks
    uint8_t* checked
    Py_ssize_t nodes, side, wide, narrow, upper_rows


cdef struct Filter:
    # Which labels may answer: all, or those whose group, of so many labels, is not 0.
    bint all
    const uint8_t* groups
    uint64_t count, size


cdef inline const int8_t* code_of(const Graph& graph, uint32_t node) noexcept nogil:
    return graph.codes + <Py_ssize_t> node * graph.side


cdef inline Py_ssize_t height_of(const Graph& graph, uint32_t node) noexcept nogil:
    """How many layers above the lowest a node stands in."""
    return <Py_ssize_t> graph.bounds[node + 1] - <Py_ssize_t> graph.bounds[node]


cdef inline uint32_t* row_of(const Graph& graph, uint32_t node, Py_ssize_t layer) noexcept nogil:
    """The links of a node in a layer that it stands in."""
    if layer == 0:
        return graph.links + <Py_ssize_t> node * graph.wide
    return graph.upper + (<Py_ssize_t> graph.bounds[node] + layer - 1) * graph.narrow


cdef inline Py_ssize_t width_of(const Graph& graph, Py_ssize_t layer) noexcept nogil:
    return graph.wide if layer == 0 else graph.narrow


cdef inline bint is_allowed(const Filter& filter, uint64_t label) noexcept nogil:
    return filter.all or (label / filter.size < filter.count and filter.groups[label / filter.size] != 0)


cdef uint32_t checksum_of(const Graph& graph, uint32_t node) noexcept nogil:
    """CRC-32 of a node's label, scale, code, links, and, where it stands in other layers, bounds and links there."""
    cdef uint32_t crc = kv_crc(<const uint8_t*> (graph.labels + node), sizeof(uint64_t))
    cdef Py_ssize_t height
    crc = kv_crc_further(crc, <const uint8_t*> (graph.scales + node), sizeof(float))
    crc = kv_crc_further(crc, <const uint8_t*> code_of(graph, node), graph.side)
    if graph.wide:
        crc = kv_crc_further(crc, <const uint8_t*> row_of(graph, node, 0), graph.wide * sizeof(uint32_t))
        crc = kv_crc_further(crc, <const uint8_t*> (graph.bounds + node), 2 * sizeof(uint32_t))
        height = height_of(graph, node)
        if height > 0 and <Py_ssize_t> graph.bounds[node] + height <= graph.upper_rows:
            crc = kv_crc_further(crc, <const uint8_t*> row_of(graph, node, 1), height * graph.narrow * sizeof(uint32_t))
    return crc


cdef inline bint is_sound(const Graph& graph, uint32_t node) noexcept nogil:
    """Whether a node is what was written, as far as it was not verified before."""
    if graph.checks == NULL or graph.checked[node]:
        return True
    if checksum_of(graph, node) != graph.checks[node]:
        return False
    graph.checked[node] = 1
    return True


cdef cppclass Walk:
    # What one search needs, and keeps for the next: marks of nodes met, by epoch; what is looked for, as whole numbers
    # with a scale; results, best first.
    vector[uint16_t] marks
    uint16_t epoch
    vector[int16_t] wanted
    float scale
    vector[uint32_t] fresh, starts
    vector[Near] found
    int64_t damaged

    __init__():
        this.epoch = 0
        this.scale = 0
        this.damaged = -1


cdef void look_for_vector(Walk* walk, const float* what, Py_ssize_t dimension, Py_ssize_t side) noexcept nogil:
    """Let the walk be for a vector, its numbers in twelve bits: finer than codes, and no sum of products overflows."""
    cdef Py_ssize_t place
    cdef double peak = 0, finest = min(<double> 2047, <double> 0x7FFFFFFF / (127 * <double> side))
    walk.wanted.assign(side, 0)
    for place in range(dimension):
        if fabs(what[place]) > peak:
            peak = fabs(what[place])
    walk.scale = 0
    if peak > 0:
        for place in range(dimension):
            walk.wanted[place] = <int16_t> lrint(what[place] * (finest / peak))
        walk.scale = <float> (peak / finest)


cdef void look_for_node(Walk* walk, const Graph& graph, uint32_t node) noexcept nogil:
    """Let the walk be for the vector of a node."""
    cdef Py_ssize_t place
    cdef const int8_t* code = code_of(graph, node)
    walk.wanted.resize(graph.side)
    for place in range(graph.side):
        walk.wanted[place] = code[place]
    walk.scale = graph.scales[node]


cdef inline float cosine_with(Walk* walk, const Graph& graph, uint32_t node) noexcept nogil:
    return <float> kv_product(walk.wanted.data(), code_of(graph, node), graph.side) * (walk.scale * graph.scales[node])


cdef void begin(Walk* walk, size_t nodes) noexcept nogil:
    """Forget which nodes were met."""
    walk.epoch += 1
    if walk.marks.size() != nodes or not walk.epoch:
        walk.marks.assign(nodes, 0)
        walk.epoch = 1


cdef void finish(Walk* walk, size_t most) noexcept nogil:
    """Order what was found, given as negated cosines: the largest first, ties by number."""
    cdef size_t i
    if walk.found.size() < most:
        most = walk.found.size()
    partial_sort(walk.found.begin(), walk.found.begin() + most, walk.found.end())
    walk.found.resize(most)
    for i in range(walk.found.size()):
        walk.found[i].first = -walk.found[i].first


cdef inline void keep(priority_queue[Near]& kept, float cosine, int64_t node, size_t most) noexcept nogil:
    """Keep a node if it is among the best; the top is the worst, and the larger number among equals."""
    if kept.size() < most or Near(-cosine, node) < kept.top():
        kept.push(Near(-cosine, node))
        if kept.size() > most:
            kept.pop()


cdef bint walk_layer(
    Walk* walk, const Graph& graph, const Filter& filter, Py_ssize_t layer, size_t ef
) noexcept nogil:
    """Find about the ``ef`` nearest nodes of a layer from ``walk.starts``; False where a node fails its checksum.

    Algorithm 2, SearchLayer: ``ahead`` are nodes whose links were not followed yet, ``kept`` the best so far that are
    allowed.
    """
    cdef priority_queue[Near] ahead, kept
    cdef Near nearest
    cdef uint32_t node, other
    cdef const uint32_t* links
    cdef Py_ssize_t place, width = width_of(graph, layer)
    cdef size_t i
    cdef float cosine
    begin(walk, graph.nodes)
    walk.found.clear()
    walk.fresh.clear()
    for i in range(walk.starts.size()):
        node = walk.starts[i]
        if node < graph.nodes and walk.marks[node] != walk.epoch:
            walk.marks[node] = walk.epoch
            walk.fresh.push_back(node)
    while True:
        for i in range(walk.fresh.size()):
            node = walk.fresh[i]
            if not is_sound(graph, node):
                walk.damaged = node
                return False
            cosine = cosine_with(walk, graph, node)
            if not cosine == cosine:
                continue
            if kept.size() < ef or Near(-cosine, <int64_t> node) < kept.top():
                ahead.push(Near(cosine, -<int64_t> node))
                if is_allowed(filter, graph.labels[node]):
                    keep(kept, cosine, node, ef)
        if ahead.empty():
            break
        nearest = ahead.top()
        if kept.size() == ef and -nearest.first > kept.top().first:
            break
        ahead.pop()
        node = <uint32_t> (-nearest.second)
        walk.fresh.clear()
        if layer > height_of(graph, node):
            continue
        links = row_of(graph, node, layer)
        for place in range(width):
            other = links[place]
            if other < graph.nodes and walk.marks[other] != walk.epoch:
                walk.marks[other] = walk.epoch
                walk.fresh.push_back(other)
                kv_prefetch(code_of(graph, other), graph.side)
    while not kept.empty():
        walk.found.push_back(kept.top())
        kept.pop()
    finish(walk, ef)
    return True


cdef bint walk_down(
    Walk* walk, const Graph& graph, uint32_t entry, Py_ssize_t lowest
) noexcept nogil:
    """Let ``walk.starts`` be the nearest node of the layers from the entry's highest down to the one above ``lowest``;
    False where a node fails its checksum."""
    cdef Py_ssize_t layer
    cdef Filter everything
    everything.all = True
    walk.starts.assign(1, entry)
    if not is_sound(graph, entry):
        walk.damaged = entry
        return False
    for layer in range(height_of(graph, entry), lowest, -1):
        if not walk_layer(walk, graph, everything, layer, 1):
            return False
        if not walk.found.empty():
            walk.starts.assign(1, <uint32_t> walk.found[0].second)
    return True


cdef bint compare_rows(
    Walk* walk, const Graph& graph, const Filter& filter, const int64_t[::1] first, const int64_t[::1] last, size_t most
) noexcept nogil:
    """Find the ``most`` nearest allowed nodes of ranges of nodes, all compared; False where one fails its checksum."""
    cdef priority_queue[Near] kept
    cdef Py_ssize_t part, parts = first.shape[0]
    cdef int64_t node, stop
    cdef float cosine
    walk.found.clear()
    for part in range(parts):
        # Where ranges are short, only we know where the next ones lie.
        if part + _RANGES_AHEAD < parts and 0 <= first[part + _RANGES_AHEAD] < graph.nodes:
            kv_prefetch(code_of(graph, <uint32_t> first[part + _RANGES_AHEAD]), graph.side)
        node, stop = max(first[part], <int64_t> 0), min(last[part], <int64_t> graph.nodes)
        while node < stop:
            if is_allowed(filter, graph.labels[node]):
                if not is_sound(graph, <uint32_t> node):
                    walk.damaged = node
                    return False
                cosine = cosine_with(walk, graph, <uint32_t> node)
                if cosine == cosine:
                    keep(kept, cosine, node, most)
            node += 1
    while not kept.empty():
        walk.found.push_back(kept.top())
        kept.pop()
    finish(walk, most)
    return True


cdef class Searching:
    # What a search keeps for the next one.
    cdef Walk walk


cdef class CodeGraph:
    """A graph of codes over arrays as they are, for instance of a mapped file; any number of threads may search it.

    For n nodes: ``labels`` (n), ascending; ``codes`` (n, side), a multiple of :data:`CODE_SIDE` wide; ``scales`` (n);
    ``links`` (n, 2 m), :data:`NONE` where there is none, no columns where nodes are compared only; ``bounds`` (n + 1)
    (1 where there are no links) and ``upper`` (rows, m): the links of node i in the layers above the lowest are the rows from ``bounds[i]`` to
    ``bounds[i + 1]``; ``checks`` (n) the checksum of each node, verified when it is first met; ``entry`` the node where
    the highest layer is entered. Raises ValueError where shapes do not fit.
    """

    cdef const uint64_t[::1] _labels
    cdef const int8_t[:, ::1] _codes
    cdef const float[::1] _scales
    cdef const uint32_t[:, ::1] _links, _upper
    cdef const uint32_t[::1] _bounds, _checks
    cdef vector[uint8_t] _checked
    cdef Graph _graph
    cdef uint32_t _entry
    cdef list _idle

    def __cinit__(self, const uint64_t[::1] labels not None, const int8_t[:, ::1] codes not None,
                  const float[::1] scales not None, const uint32_t[:, ::1] links not None,
                  const uint32_t[::1] bounds not None, const uint32_t[:, ::1] upper not None,
                  const uint32_t[::1] checks not None, uint32_t entry) -> None:
        cdef Py_ssize_t nodes = labels.shape[0]
        check_shapes(nodes, codes, scales, links, bounds, upper)
        if checks.shape[0] != nodes or (nodes and entry >= nodes):
            raise ValueError(f"{checks.shape[0]} checksums and an entry at {entry} do not fit {nodes} nodes")
        self._labels, self._codes, self._scales, self._links = labels, codes, scales, links
        self._bounds, self._upper, self._checks, self._entry = bounds, upper, checks, entry
        self._checked.assign(nodes, 0)
        fill_graph(&self._graph, labels, codes, scales, <uint32_t*> &links[0, 0] if nodes and links.shape[1] else NULL, links.shape[1],
                   bounds, <uint32_t*> &upper[0, 0] if upper.shape[0] and upper.shape[1] else NULL, upper.shape[0], upper.shape[1])
        self._graph.checks, self._graph.checked = &checks[0] if nodes else NULL, self._checked.data()
        self._idle = []

    def search(self, const float[::1] query not None, Py_ssize_t ef, const uint8_t[::1] groups=None,
               Py_ssize_t group_size=1):
        """About the ``ef`` nodes nearest to a unit vector, by walking: (labels, cosines of codes, scales), best first.

        Where ``groups`` is given, label i may only answer where ``groups[i // group_size]`` is there and not 0. Raises
        ValueError where there are no links or shapes do not fit, and for a node that fails its checksum.
        """
        if query.shape[0] > self._graph.side or ef < 1 or group_size < 1 or not self._graph.wide:
            raise ValueError(f"a query of {query.shape[0]} numbers with ef {ef} fits no graph of {self._graph.side} "
                             f"numbers and {self._graph.wide} links")
        cdef Searching searching = self._searching()
        cdef Walk* walk = &searching.walk
        cdef Filter filter = filter_of(groups, group_size)
        cdef const float* wanted = &query[0] if query.shape[0] else NULL
        cdef Py_ssize_t dimension = query.shape[0]
        cdef bint sound
        with nogil:
            look_for_vector(walk, wanted, dimension, self._graph.side)
            walk.found.clear()
            sound = not self._graph.nodes or (walk_down(walk, self._graph, self._entry, 0)
                                              and walk_layer(walk, self._graph, filter, 0, ef))
        return self._result(searching, sound)

    def compare(self, const float[::1] query not None, Py_ssize_t most, const int64_t[::1] first not None,
                const int64_t[::1] last not None, const uint8_t[::1] groups=None, Py_ssize_t group_size=1):
        """The ``most`` nodes nearest to a unit vector among those from ``first[i]`` to ``last[i]``, every one compared:
        (labels, cosines of codes, scales), best first; ``groups`` as :meth:`search` has them.

        Raises ValueError where shapes do not fit, and for a node that fails its checksum.
        """
        if query.shape[0] > self._graph.side or most < 1 or group_size < 1 or first.shape[0] != last.shape[0]:
            raise ValueError(f"a query of {query.shape[0]} numbers for {most} of {first.shape[0]} ranges fits no graph "
                             f"of {self._graph.side} numbers")
        cdef Searching searching = self._searching()
        cdef Walk* walk = &searching.walk
        cdef Filter filter = filter_of(groups, group_size)
        cdef const float* wanted = &query[0] if query.shape[0] else NULL
        cdef Py_ssize_t dimension = query.shape[0]
        cdef bint sound
        with nogil:
            look_for_vector(walk, wanted, dimension, self._graph.side)
            sound = compare_rows(walk, self._graph, filter, first, last, most)
        return self._result(searching, sound)

    def verify(self):
        """Verify all nodes; raises ValueError for one that fails its checksum."""
        cdef Py_ssize_t node
        cdef bint sound = True
        with nogil:
            for node in range(self._graph.nodes):
                if not is_sound(self._graph, <uint32_t> node):
                    sound = False
                    break
        if not sound:
            raise ValueError(f"node {node} fails its checksum")

    cdef Searching _searching(self):
        try:
            return self._idle.pop()  # one thread has it at a time
        except IndexError:
            return Searching()

    cdef object _result(self, Searching searching, bint sound):
        cdef Walk* walk = &searching.walk
        if not sound:
            raise ValueError(f"node {walk.damaged} fails its checksum")
        cdef size_t i
        cdef size_t count = walk.found.size()
        labels, cosines, scales = np.empty(count, np.uint64), np.empty(count, np.float32), np.empty(count, np.float32)
        cdef uint64_t[::1] all_labels = labels
        cdef float[::1] all_cosines = cosines, all_scales = scales
        for i in range(count):
            all_labels[i] = self._graph.labels[walk.found[i].second]
            all_cosines[i] = walk.found[i].first
            all_scales[i] = self._graph.scales[walk.found[i].second]
        self._idle.append(searching)
        return labels, cosines, scales


cdef Filter filter_of(const uint8_t[::1] groups, Py_ssize_t group_size):
    """The filter of a table of groups; of None one that allows all."""
    cdef Filter filter
    filter.all, filter.count, filter.size = groups is None, 0, group_size
    filter.groups = NULL
    if groups is not None and groups.shape[0]:
        filter.groups, filter.count = &groups[0], groups.shape[0]
    return filter


cdef int check_shapes(Py_ssize_t nodes, const int8_t[:, ::1] codes, const float[::1] scales,
                      const uint32_t[:, ::1] links, const uint32_t[::1] bounds, const uint32_t[:, ::1] upper) except -1:
    """Raise ValueError unless arrays are those of so many nodes."""
    if not (nodes < _NONE and codes.shape[0] == scales.shape[0] == links.shape[0] == nodes
            and (bounds.shape[0] == nodes + 1 or not links.shape[1] and bounds.shape[0]) and codes.shape[1] and codes.shape[1] % KV_CODE_SIDE == 0):
        raise ValueError(f"{nodes} labels, {codes.shape[0]} codes of {codes.shape[1]} numbers, {scales.shape[0]} scales, "
                         f"{links.shape[0]} rows of links and {bounds.shape[0]} bounds do not fit each other")
    return 0


cdef void fill_graph(Graph* graph, const uint64_t[::1] labels, const int8_t[:, ::1] codes, const float[::1] scales,
                     uint32_t* links, Py_ssize_t wide, const uint32_t[::1] bounds, uint32_t* upper,
                     Py_ssize_t upper_rows, Py_ssize_t narrow) noexcept:
    if labels.shape[0]:
        graph.labels, graph.codes, graph.scales = &labels[0], &codes[0, 0], &scales[0]
    graph.links, graph.bounds, graph.upper = links, &bounds[0], upper
    graph.nodes, graph.side, graph.wide = labels.shape[0], codes.shape[1], wide
    graph.upper_rows, graph.narrow = upper_rows, narrow
    graph.checks = NULL
    graph.checked = NULL


cdef class CodeGraphBuilder:
    """Links nodes: :meth:`advance` until nothing is left, or as far as wanted; then the arrays are those of a graph.

    The arrays are as :class:`CodeGraph` has them, with room for all nodes: the first ``linked`` of them have their links
    already, entered at ``entry``, and rows of the others hold :data:`NONE`. A node gets as many links as ``upper`` has
    columns, and has up to twice as many in the lowest layer with those that link to it; ``ef_construction`` candidates
    are looked at for them. Raises ValueError where the arrays do not fit.
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
    cdef vector[uint32_t] _chosen

    def __cinit__(self, const uint64_t[::1] labels not None, const int8_t[:, ::1] codes not None,
                  const float[::1] scales not None, uint32_t[:, ::1] links not None,
                  const uint32_t[::1] bounds not None, uint32_t[:, ::1] upper not None, *, Py_ssize_t linked=0,
                  uint32_t entry=0, Py_ssize_t ef_construction=200) -> None:
        cdef Py_ssize_t nodes = labels.shape[0], node
        check_shapes(nodes, codes, scales, links, bounds, upper)
        if not (upper.shape[1] >= 2 and bounds.shape[0] == nodes + 1 and links.shape[1] == 2 * upper.shape[1] and 0 <= linked <= nodes
                and (linked == 0 or entry < linked) and ef_construction >= 1):
            raise ValueError(f"{links.shape[1]} and {upper.shape[1]} links with {linked} of {nodes} nodes linked, entered "
                             f"at {entry}, do not fit each other")
        for node in range(nodes):
            if bounds[node] > bounds[node + 1]:
                raise ValueError(f"bounds of node {node} descend")
        if bounds[nodes] > upper.shape[0]:
            raise ValueError(f"{bounds[nodes]} rows of links above the lowest layer are wanted, {upper.shape[0]} there")
        self._labels, self._codes, self._scales = labels, codes, scales
        self._links, self._bounds, self._upper = links, bounds, upper
        fill_graph(&self._graph, labels, codes, scales, &links[0, 0] if nodes else NULL, links.shape[1], bounds,
                   &upper[0, 0] if upper.shape[0] else NULL, upper.shape[0], upper.shape[1])
        self._m, self._ef, self._linked, self._entry = upper.shape[1], ef_construction, linked, entry

    @property
    def entry(self) -> int:
        """The node where the highest layer is entered."""
        return self._entry

    def advance(self, Py_ssize_t count) -> int:
        """Link up to so many nodes; how many are left."""
        with nogil:
            while count > 0 and self._linked < self._graph.nodes:
                self._insert(<uint32_t> self._linked)
                self._linked += 1
                count -= 1
        return self._graph.nodes - self._linked

    cdef void _insert(self, uint32_t node) noexcept nogil:
        """Algorithm 1, Insert."""
        cdef Py_ssize_t layer, height = height_of(self._graph, node)
        cdef size_t i
        cdef Filter everything
        cdef vector[uint32_t] own
        everything.all = True
        if not self._linked:
            self._entry = node
            return
        look_for_node(&self._walk, self._graph, node)
        walk_down(&self._walk, self._graph, self._entry, height)
        for layer in range(min(height, height_of(self._graph, self._entry)), -1, -1):
            look_for_node(&self._walk, self._graph, node)
            walk_layer(&self._walk, self._graph, everything, layer, self._ef)
            self._candidates = self._walk.found
            self._walk.starts.clear()
            for i in range(self._candidates.size()):
                self._walk.starts.push_back(<uint32_t> self._candidates[i].second)
            self._choose(self._m)
            own = self._chosen
            self._set(node, layer)
            for i in range(own.size()):
                self._link_back(own[i], node, layer)
        if height > height_of(self._graph, self._entry):
            self._entry = node

    cdef void _choose(self, size_t most) noexcept nogil:
        """Choose links among ``_candidates`` (best first): those that no chosen one is nearer to than the node itself
        (Algorithm 4)."""
        cdef size_t i, place
        cdef uint32_t other, one
        cdef float cosine
        cdef bint apart
        self._chosen.clear()
        for i in range(self._candidates.size()):
            if self._chosen.size() == most:
                break
            other, apart = <uint32_t> self._candidates[i].second, True
            for place in range(self._chosen.size()):
                one = self._chosen[place]
                cosine = <float> kv_codes(code_of(self._graph, other), code_of(self._graph, one), self._graph.side) * (
                    self._graph.scales[other] * self._graph.scales[one])
                if not cosine < self._candidates[i].first:
                    apart = False
                    break
            if apart:
                self._chosen.push_back(other)

    cdef void _set(self, uint32_t node, Py_ssize_t layer) noexcept nogil:
        """Let a node have the chosen links in a layer."""
        cdef uint32_t* row = row_of(self._graph, node, layer)
        cdef Py_ssize_t place, width = width_of(self._graph, layer)
        for place in range(width):
            row[place] = self._chosen[place] if place < <Py_ssize_t> self._chosen.size() else _NONE

    cdef void _link_back(self, uint32_t node, uint32_t new, Py_ssize_t layer) noexcept nogil:
        """Let a node have a link to a new one too, if that is among its best."""
        cdef uint32_t* row = row_of(self._graph, node, layer)
        cdef Py_ssize_t place, width = width_of(self._graph, layer)
        for place in range(width):
            if row[place] == _NONE:
                row[place] = new
                return
        look_for_node(&self._walk, self._graph, node)
        self._walk.found.clear()
        for place in range(width):
            self._walk.found.push_back(Near(-cosine_with(&self._walk, self._graph, row[place]), <int64_t> row[place]))
        self._walk.found.push_back(Near(-cosine_with(&self._walk, self._graph, new), <int64_t> new))
        finish(&self._walk, self._walk.found.size())
        self._candidates = self._walk.found
        self._choose(width)
        self._set(node, layer)


def checksums(const uint64_t[::1] labels not None, const int8_t[:, ::1] codes not None,
              const float[::1] scales not None, const uint32_t[:, ::1] links not None,
              const uint32_t[::1] bounds not None, const uint32_t[:, ::1] upper not None) -> np.ndarray:
    """The checksums of nodes, as :class:`CodeGraph` wants them; raises ValueError where the arrays do not fit."""
    cdef Py_ssize_t nodes = labels.shape[0], node
    cdef Graph graph
    check_shapes(nodes, codes, scales, links, bounds, upper)
    fill_graph(&graph, labels, codes, scales, <uint32_t*> &links[0, 0] if nodes and links.shape[1] else NULL, links.shape[1], bounds,
               <uint32_t*> &upper[0, 0] if upper.shape[0] and upper.shape[1] else NULL, upper.shape[0], upper.shape[1])
    cdef uint32_t[::1] sums = (checks := np.zeros(nodes, np.uint32))
    with nogil:
        for node in range(nodes):
            sums[node] = checksum_of(graph, <uint32_t> node)
    return checks
