# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""C-HNSW: a graph of near neighbors per layer, with a link from each node to the nearest one in the layer below.

In: layers of unit vectors, layer 0 first, which is the largest, and the members that each node has in the layer below.
Built: for each node its links within the layer and its link down. Searched: the nearest nodes of every layer in one
descent, over arrays that may lie in a mapped file.

ArchRAG (arXiv 2502.09891), section 3.1.3, Algorithms 2 and 3, with these corrections. The walk continues while there
are candidates, and ends at one that is farther than the last of ``ef`` results (Malkov, Yashunin 2018, Algorithm 2).
The link down is the nearest node that a search of the finished layer below finds, not the nearest that an insertion
happened to visit. The next layer is entered at the links of all remaining candidates, not of one, and at their members,
which the hierarchy gives without a search. The first entry of a layer is the node nearest to its mean, not a random
one, and every node of the layer can be reached from it.

The result is a function of the vectors, the given order and the options: there are no random numbers, ties go to the
smaller number, and a cosine has the same bits wherever it is computed (dots.pxi). Links that lead outside their layer
are skipped, and a node that fails its checksum is reported, so that a damaged file does no harm.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy
from libcpp.queue cimport priority_queue
from libcpp.vector cimport vector

import numpy as np

include "crc32.pxi"
include "dots.pxi"
include "nearest.pxi"

#: The value of an absent link, which pads the links of a node.
NONE = 0xFFFFFFFF
#: In a layer of at most this many nodes, all are compared: this is cheaper than a walk, and exact.
MAX_COMPARED_NODES = 64

cdef uint32_t _NO_NODE = 0xFFFFFFFF
#: The number of candidates for the link down.
cdef size_t DOWN_EF = 100


cdef struct Layered:
    # The arrays of a graph. ``first[l]`` is the first node of layer l. A node of layer 0 has a row of
    # ``bottom_width`` links, other nodes one of ``upper_width``. ``checks`` is NULL during the build.
    const float* vectors
    uint32_t* links0
    uint32_t* links
    const uint32_t* down
    const uint32_t* checks
    uint8_t* checked
    const uint32_t* first
    const uint32_t* bounds
    const uint32_t* members
    Py_ssize_t dimension, bottom_width, upper_width, num_members


cdef inline uint32_t* get_link_row(const Layered& graph, uint32_t node) noexcept nogil:
    """Return the row of links of a node in its layer."""
    if node < graph.first[1]:
        return graph.links0 + <Py_ssize_t> node * graph.bottom_width
    return graph.links + <Py_ssize_t> (node - graph.first[1]) * graph.upper_width


cdef inline Py_ssize_t get_max_links(const Layered& graph, uint32_t node) noexcept nogil:
    """Return the maximum number of links of a node."""
    return graph.bottom_width if node < graph.first[1] else graph.upper_width


cdef inline const float* get_vector(const Layered& graph, uint32_t node) noexcept nogil:
    """Return the vector of a node."""
    return graph.vectors + <Py_ssize_t> node * graph.dimension


cdef uint32_t compute_checksum(const Layered& graph, uint32_t node) noexcept nogil:
    """Return the CRC-32 of a node's vector, links and link down."""
    cdef uint32_t crc = kv_crc(<const uint8_t*> get_vector(graph, node), graph.dimension * sizeof(float))
    crc = kv_crc_extend(crc, <const uint8_t*> get_link_row(graph, node), get_max_links(graph, node) * sizeof(uint32_t))
    if node >= graph.first[1]:
        crc = kv_crc_extend(crc, <const uint8_t*> (graph.down + (node - graph.first[1])), sizeof(uint32_t))
    return crc


cdef cppclass Walk:
    # Working memory of one search, reused by the next: marks of visited nodes, by epoch; the query, padded with zeros;
    # results, best first.
    vector[uint32_t] marks
    uint32_t epoch
    vector[float] query
    vector[uint32_t] new_nodes, starts
    vector[const float*] rows
    vector[float] cosines
    vector[Near] results
    int64_t compared
    int64_t damaged

    __init__():
        this.epoch = 0
        this.compared = 0
        this.damaged = -1


cdef void set_query(Walk* walk, const float* values, Py_ssize_t dimension) noexcept nogil:
    """Set the query of a search (``walk``) to a vector, padded with zeros to a multiple of ``NUM_PARTIAL_SUMS``."""
    walk.query.assign((dimension + NUM_PARTIAL_SUMS - 1) // NUM_PARTIAL_SUMS * NUM_PARTIAL_SUMS, 0)
    if dimension:
        memcpy(walk.query.data(), values, dimension * sizeof(float))


cdef void clear_marks(Walk* walk, size_t nodes) noexcept nogil:
    """Mark all nodes as not visited. A new epoch makes old marks invalid; they are cleared only when it overflows."""
    walk.epoch += 1
    if walk.marks.size() != nodes or not walk.epoch:
        walk.marks.assign(nodes, 0)
        walk.epoch = 1


cdef bint compute_new_cosines(Walk* walk, const Layered& graph) noexcept nogil:
    """Set ``walk.cosines`` to the cosines of ``walk.new_nodes`` with the query.

    Returns False and sets ``walk.damaged`` if a node fails its checksum, which is verified at the first visit.
    """
    cdef size_t i
    cdef uint32_t node
    walk.rows.resize(walk.new_nodes.size())
    walk.cosines.resize(walk.new_nodes.size())
    for i in range(walk.new_nodes.size()):
        node = walk.new_nodes[i]
        walk.rows[i] = get_vector(graph, node)
        if graph.checks != NULL and not graph.checked[node]:
            if compute_checksum(graph, node) != graph.checks[node]:
                walk.damaged = node
                return False
            graph.checked[node] = 1
    dot_gathered(walk.rows.data(), walk.rows.size(), graph.dimension, walk.query.data(), walk.cosines.data())
    walk.compared += walk.new_nodes.size()
    return True


cdef bint scan_layer(Walk* walk, const Layered& graph, Py_ssize_t layer, size_t limit) noexcept nogil:
    """Compare the query with all nodes of a layer, and set ``walk.results`` to the ``limit`` nearest, best first.

    Returns False if a node fails its checksum.
    """
    cdef uint32_t node
    cdef size_t i
    walk.new_nodes.clear()
    walk.results.clear()
    for node in range(graph.first[layer], graph.first[layer + 1]):
        walk.new_nodes.push_back(node)
    if not compute_new_cosines(walk, graph):
        return False
    for i in range(walk.new_nodes.size()):
        if walk.cosines[i] == walk.cosines[i]:  # not NaN
            walk.results.push_back(Near(-walk.cosines[i], <int64_t> walk.new_nodes[i]))
    sort_results(walk.results, limit)
    return True


cdef bint search_layer(Walk* walk, const Layered& graph, Py_ssize_t layer, size_t ef) noexcept nogil:
    """Find about the ``ef`` nearest nodes of a layer from ``walk.starts``; False if a node fails its checksum.

    Malkov, Yashunin 2018, Algorithm 2 (SEARCH-LAYER); the result is ``walk.results``, best first. ``unfollowed`` are
    nodes whose links have not been followed yet, ``best`` the best so far.
    """
    cdef priority_queue[Near] unfollowed, best
    cdef Near nearest
    cdef uint32_t node, neighbor, layer_start = graph.first[layer], layer_end = graph.first[layer + 1]
    cdef const uint32_t* links
    cdef Py_ssize_t index, width
    cdef size_t i
    cdef float cosine
    walk.results.clear()
    walk.new_nodes.clear()
    for i in range(walk.starts.size()):
        node = walk.starts[i]
        if layer_start <= node < layer_end and walk.marks[node] != walk.epoch:
            walk.marks[node] = walk.epoch
            walk.new_nodes.push_back(node)
    while True:
        if walk.new_nodes.size():
            if not compute_new_cosines(walk, graph):
                return False
            for i in range(walk.new_nodes.size()):
                cosine, node = walk.cosines[i], walk.new_nodes[i]
                if not cosine == cosine:  # NaN
                    continue
                # If cosines are equal, the lower node is better. best.top() is the worst node: cosines are negated.
                # unfollowed.top() is the best node: node numbers are negated.
                if best.size() < ef or Near(-cosine, <int64_t> node) < best.top():
                    unfollowed.push(Near(cosine, -<int64_t> node))
                    best.push(Near(-cosine, <int64_t> node))
                    if best.size() > ef:
                        best.pop()
        if unfollowed.empty():
            break
        nearest = unfollowed.top()
        if best.size() == ef and -nearest.first > best.top().first:
            break
        unfollowed.pop()
        node = <uint32_t> (-nearest.second)
        links, width = get_link_row(graph, node), get_max_links(graph, node)
        walk.new_nodes.clear()
        for index in range(width):
            neighbor = links[index]
            if layer_start <= neighbor < layer_end and walk.marks[neighbor] != walk.epoch:
                walk.marks[neighbor] = walk.epoch
                walk.new_nodes.push_back(neighbor)
    while not best.empty():
        walk.results.push_back(best.top())
        best.pop()
    sort_results(walk.results, ef)
    return True


cdef class PooledWalk:
    # The working memory of a search, which the next one reuses.
    cdef Walk walk


def compute_checksums(const uint32_t[::1] layers not None, const float[:, ::1] vectors not None) -> np.ndarray:
    """Return the checksum (u32) of each node of a :class:`LayeredGraph` without links.

    Raises ValueError if the layers do not match the vectors.
    """
    cdef Py_ssize_t nodes = vectors.shape[0], node
    check_layers(layers, nodes)
    cdef uint32_t no_node = _NO_NODE
    cdef uint32_t[::1] sums = (checks := np.zeros(nodes, np.uint32))
    for node in range(nodes):
        if vectors.shape[1]:
            sums[node] = kv_crc(<const uint8_t*> &vectors[node, 0], vectors.shape[1] * sizeof(float))
        else:
            sums[node] = 0
        if node >= layers[1]:
            sums[node] = kv_crc_extend(sums[node], <const uint8_t*> &no_node, sizeof(uint32_t))
    return checks


cdef class LayeredGraph:
    """A C-HNSW over existing arrays, for example of a mapped file. Any number of threads may search it.

    For n nodes of dimension d in layers 0 … L: ``layers`` (L + 2): the first node of each layer, and n. ``vectors``
    (n, d). ``links0`` and ``links``: the links of the nodes of layer 0 and of the others, padded with :data:`NONE`.
    ``down``: the link down of the others. ``entry`` (L + 1): the node at which a layer is entered without a link from
    above. ``checks`` (n): the checksum of each node, verified at its first visit. ``members``: the members of the
    others, those of the first from ``bounds[0]`` to ``bounds[1]`` and so on. If nodes have no room for links, all are
    compared. Raises ValueError if the shapes do not match or an entry is not in its layer.
    """

    cdef const uint32_t[::1] _layers, _down, _entry, _checks, _bounds, _members
    cdef const float[:, ::1] _vectors
    cdef const uint32_t[:, ::1] _links0, _links
    cdef vector[uint8_t] _checked
    cdef Layered _graph
    cdef list _idle

    def __cinit__(self, const uint32_t[::1] layers not None, const float[:, ::1] vectors not None,
                  const uint32_t[:, ::1] links0 not None, const uint32_t[:, ::1] links not None,
                  const uint32_t[::1] down not None, const uint32_t[::1] entry not None,
                  const uint32_t[::1] checks not None, const uint32_t[::1] bounds not None,
                  const uint32_t[::1] members not None) -> None:
        """Check the shapes of the arrays, and keep references to them; the class describes them.

        ``links0`` has a row for each node of layer 0; ``links`` and ``down`` have one for each upper node, and
        ``bounds`` has its range in ``members``. ``entry`` has a node for each layer, ``checks`` a checksum for each
        node.
        """
        cdef Py_ssize_t nodes = vectors.shape[0], layer
        check_layers(layers, nodes)
        cdef Py_ssize_t num_upper = nodes - layers[1]
        if not (links0.shape[0] == layers[1] and links.shape[0] == down.shape[0] == num_upper
                and entry.shape[0] == layers.shape[0] - 1 and checks.shape[0] == nodes
                and bounds.shape[0] == num_upper + 1):
            raise ValueError(f"arrays of {nodes} nodes do not match layers that begin at {list(layers)}")
        for layer in range(entry.shape[0]):
            if layers[layer] < layers[layer + 1] and not layers[layer] <= entry[layer] < layers[layer + 1]:
                raise ValueError(f"the entry of layer {layer} is node {entry[layer]}, which is not in the layer")
        self._layers, self._vectors, self._links0, self._links = layers, vectors, links0, links
        self._down, self._entry, self._checks, self._bounds, self._members = down, entry, checks, bounds, members
        self._checked.assign(nodes, 0)
        self._graph.vectors = &vectors[0, 0] if nodes and vectors.shape[1] else NULL
        self._graph.links0 = <uint32_t*> &links0[0, 0] if layers[1] and links0.shape[1] else NULL
        self._graph.links = <uint32_t*> &links[0, 0] if num_upper and links.shape[1] else NULL
        self._graph.down = &down[0] if num_upper else NULL
        self._graph.checks = &checks[0] if nodes else NULL
        self._graph.checked = self._checked.data()
        self._graph.first = &layers[0]
        self._graph.bounds, self._graph.num_members = &bounds[0], members.shape[0]
        self._graph.members = &members[0] if members.shape[0] else NULL
        self._graph.dimension, self._graph.bottom_width = vectors.shape[1], links0.shape[1]
        self._graph.upper_width = links.shape[1]
        self._idle = []

    def search(self, const float[::1] query not None, const int64_t[::1] counts not None, Py_ssize_t ef, *,
               bint follow_links_down=True, Py_ssize_t max_compared_nodes=MAX_COMPARED_NODES):
        """Return the nearest nodes of each layer and their cosines, best first: (nodes, cosines, bounds, compared).

        ``counts`` (L + 1) are the numbers of results per layer. A layer with 0 is only traversed, and the descent ends
        at the lowest layer with more. Nodes and cosines of layer l are at ``bounds[l]`` to ``bounds[l + 1]``.
        ``compared`` is the number of computed cosines. The search of a layer keeps ``ef`` candidates, or the layer's
        count if that is more. All nodes are compared in a layer of at most ``max_compared_nodes`` nodes, and in a graph
        without links. Without ``follow_links_down``, the search of each layer starts at the layer's entry, not at the
        nodes to which links lead down. Raises ValueError for shapes that do not match, and for a node that fails its
        checksum.
        """
        cdef Py_ssize_t num_layers = self._entry.shape[0], layer
        cdef size_t i
        if query.shape[0] != self._graph.dimension or counts.shape[0] != num_layers or ef < 1:
            raise ValueError(f"a query of {query.shape[0]} numbers with {counts.shape[0]} counts and ef {ef} does not "
                             f"match a graph of dimension {self._graph.dimension} and {num_layers} layers")
        if not (self._graph.bottom_width and self._graph.upper_width):  # without links, all nodes are compared
            max_compared_nodes = self._vectors.shape[0]
        cdef PooledWalk pooled
        try:
            pooled = self._idle.pop()  # only one thread uses it at a time
        except IndexError:
            pooled = PooledWalk()
        cdef Walk* walk = &pooled.walk
        cdef vector[vector[Near]] results
        cdef bint sound
        cdef const int64_t* layer_counts = &counts[0] if num_layers else NULL
        with nogil:
            results.resize(num_layers)
            sound = search_layers(walk, self._graph, &query[0] if query.shape[0] else NULL, layer_counts,
                            &self._entry[0] if num_layers else NULL, num_layers, ef, follow_links_down,
                            max_compared_nodes, results)
        if not sound:
            node = walk.damaged
            raise ValueError(f"node {node} fails its checksum")
        bounds = np.zeros(num_layers + 1, np.int64)
        cdef int64_t[::1] ends = bounds
        for layer in range(num_layers):
            ends[layer + 1] = ends[layer] + <int64_t> results[layer].size()
        nodes, cosines = np.empty(ends[num_layers], np.uint32), np.empty(ends[num_layers], np.float32)
        cdef uint32_t[::1] all_nodes = nodes
        cdef float[::1] all_cosines = cosines
        for layer in range(num_layers):
            for i in range(results[layer].size()):
                all_nodes[ends[layer] + i] = <uint32_t> results[layer][i].second
                all_cosines[ends[layer] + i] = results[layer][i].first
        compared = walk.compared
        self._idle.append(pooled)
        return nodes, cosines, bounds, compared


cdef int check_layers(const uint32_t[::1] layers, Py_ssize_t nodes) except -1:
    """Raise ValueError unless ``layers``, the first node of each layer and then ``nodes``, ascends from 0."""
    cdef Py_ssize_t layer
    if layers.shape[0] < 2 or layers[0] != 0 or layers[layers.shape[0] - 1] != nodes or nodes >= _NO_NODE:
        raise ValueError(f"layers that begin at {list(layers)} do not match {nodes} nodes")
    for layer in range(layers.shape[0] - 1):
        if layers[layer] > layers[layer + 1]:
            raise ValueError(f"layers that begin at {list(layers)} are not consecutive")
    return 0


cdef void add_starts_below(Walk* walk, const Layered& graph, uint32_t node) noexcept nogil:
    """Add the nodes below a node, its link down and its members, to ``walk.starts``."""
    cdef Py_ssize_t row = node - graph.first[1], index = graph.bounds[row], end = graph.bounds[row + 1]
    walk.starts.push_back(graph.down[row])
    if end > graph.num_members:  # a damaged bound
        end = graph.num_members
    while index < end:
        walk.starts.push_back(graph.members[index])
        index += 1


cdef bint search_layers(
    Walk* walk, const Layered& graph, const float* query, const int64_t* counts, const uint32_t* entry,
    Py_ssize_t num_layers, size_t ef, bint follow_links_down, Py_ssize_t max_compared_nodes,
    vector[vector[Near]]& results,
) noexcept nogil:
    """Search the layers of a graph from the top, and set ``results[i]`` to the ``counts[i]`` nearest nodes of layer i.

    A layer with at most ``max_compared_nodes`` nodes is compared completely; in others, the search keeps ``ef``
    candidates, or the layer's count if that is more. It starts at the layer's node in ``entry`` or, with
    ``follow_links_down``, at the nodes to which links lead from the results above. It ends at the lowest layer with a
    count above 0. Returns False if a node fails its checksum.
    """
    cdef Py_ssize_t layer, lowest = 0
    cdef size_t i, count, limit
    while lowest < num_layers and counts[lowest] <= 0:
        lowest += 1
    walk.compared, walk.damaged = 0, -1
    clear_marks(walk, graph.first[num_layers])
    set_query(walk, query, graph.dimension)
    walk.starts.clear()
    for layer in range(num_layers - 1, lowest - 1, -1):
        if graph.first[layer] == graph.first[layer + 1]:
            walk.starts.clear()
            continue
        count = counts[layer] if counts[layer] > 0 else 1
        limit = ef if ef > count else count
        if graph.first[layer + 1] - graph.first[layer] <= max_compared_nodes:
            if not scan_layer(walk, graph, layer, limit):
                return False
        else:
            if not follow_links_down or walk.starts.empty():
                walk.starts.push_back(entry[layer])
            if not search_layer(walk, graph, layer, limit):
                return False
            if walk.results.empty():  # no link down leads into the layer
                walk.starts.push_back(entry[layer])
                if not search_layer(walk, graph, layer, limit):
                    return False
        walk.starts.clear()
        if follow_links_down and layer:
            for i in range(walk.results.size()):
                add_starts_below(walk, graph, <uint32_t> walk.results[i].second)
        if counts[layer] > 0:
            if walk.results.size() > count:
                walk.results.resize(count)
            results[layer] = walk.results
    return True


cdef class LayeredGraphBuilder:
    """Builds a C-HNSW: call :meth:`link_nodes` until it returns 0, then :meth:`build_arrays`.

    ``layers`` and ``vectors`` are as in :class:`LayeredGraph`. Within a layer, nodes are inserted in the order of
    ``order`` (n), after the one nearest to the layer's mean. A node gets ``m`` links of its own, and at most ``m`` in
    all with those from other nodes, 2 ``m`` in layer 0. They are chosen from ``ef_construction`` candidates. Raises
    ValueError if the arrays do not match, ``order`` has a node twice or mixes layers, or m is below 2.
    """

    cdef const uint32_t[::1] _layers
    cdef const float[:, ::1] _vectors
    cdef vector[uint32_t] _first, _order, _links0, _links, _down, _entry, _used
    cdef Layered _graph
    cdef Walk _walk
    cdef size_t _m, _ef
    # The layer being built (from the top), and the number of its inserted nodes.
    cdef Py_ssize_t _layer, _inserted
    cdef vector[Near] _candidates
    cdef vector[uint32_t] _selected, _remaining
    cdef vector[const float*] _selected_rows

    def __cinit__(self, const uint32_t[::1] layers not None, const float[:, ::1] vectors not None,
                  const uint32_t[::1] order not None, Py_ssize_t m=16, Py_ssize_t ef_construction=100) -> None:
        """Check the layers, vectors and insertion order of the nodes, and allocate the links of all nodes.

        ``m`` is the number of links of a node, and ``ef_construction`` the number of candidates for them.
        """
        cdef Py_ssize_t nodes = vectors.shape[0], layer, index
        cdef vector[uint8_t] seen
        check_layers(layers, nodes)
        if order.shape[0] != nodes or not 2 <= m <= 1024 or ef_construction < m:
            raise ValueError(f"an order of {order.shape[0]} for {nodes} nodes, m {m} and ef_construction "
                             f"{ef_construction} are not valid together")
        seen.assign(nodes, 0)
        for layer in range(layers.shape[0] - 1):
            for index in range(layers[layer], layers[layer + 1]):
                if not layers[layer] <= order[index] < layers[layer + 1] or seen[order[index]]:
                    raise ValueError(f"position {index} of the order repeats node {order[index]} or mixes layers")
                seen[order[index]] = 1
        self._layers, self._vectors = layers, vectors
        self._m, self._ef = m, ef_construction
        for index in range(nodes):
            self._order.push_back(order[index])
        self._links0.assign(<size_t> layers[1] * 2 * m, _NO_NODE)
        self._links.assign(<size_t> (nodes - layers[1]) * m, _NO_NODE)
        self._down.assign(nodes - layers[1], _NO_NODE)
        self._used.assign(nodes, 0)
        self._entry.assign(layers.shape[0] - 1, _NO_NODE)
        self._graph.vectors = &vectors[0, 0] if nodes and vectors.shape[1] else NULL
        self._graph.links0, self._graph.links = self._links0.data(), self._links.data()
        self._graph.down = self._down.data()
        self._graph.checks = NULL
        self._graph.checked = NULL
        self._graph.first = &layers[0]
        self._graph.dimension, self._graph.bottom_width, self._graph.upper_width = vectors.shape[1], 2 * m, m
        self._layer = layers.shape[0] - 2
        self._inserted = 0

    def link_nodes(self, Py_ssize_t count) -> int:
        """Insert up to ``count`` nodes; return the number of nodes left to insert."""
        with nogil:
            while count > 0 and self._layer >= 0:
                if self._inserted == <Py_ssize_t> (self._layers[self._layer + 1] - self._layers[self._layer]):
                    self._end_layer()
                    self._layer -= 1
                    self._inserted = 0
                    continue
                if not self._inserted:
                    self._begin_layer()
                self._insert(self._order[self._layers[self._layer] + self._inserted])
                self._inserted += 1
                count -= 1
            while self._layer >= 0 and self._inserted == <Py_ssize_t> (
                self._layers[self._layer + 1] - self._layers[self._layer]
            ):
                self._end_layer()
                self._layer -= 1
                self._inserted = 0
        # The highest layer is built first, so all nodes of the lower layers are left.
        return self._layers[self._layer + 1] - self._inserted if self._layer >= 0 else 0

    def build_arrays(self):
        """Return the built arrays (links0, links, down, entry, checks), u32, with the shapes of :class:`LayeredGraph`.

        A row of ``links0`` has 2 m links, one of ``links`` m. Raises ValueError while nodes are left.
        """
        if self._layer >= 0:
            raise ValueError("nodes are left to insert")
        cdef Py_ssize_t nodes = self._vectors.shape[0], num_upper = nodes - self._layers[1], node
        cdef uint32_t[::1] sums = (checks := np.zeros(nodes, np.uint32))
        for node in range(nodes):
            sums[node] = compute_checksum(self._graph, node)
        return (to_array(self._links0).reshape(self._layers[1], 2 * self._m),
                to_array(self._links).reshape(num_upper, self._m),
                to_array(self._down), to_array(self._entry), checks)

    cdef void _begin_layer(self) noexcept nogil:
        """Choose the node nearest to the layer's mean as its entry, and put it first in the order."""
        cdef Py_ssize_t d = self._graph.dimension, index
        cdef uint32_t node, best = self._layers[self._layer]
        cdef vector[double] total
        cdef vector[float] mean
        cdef const float* numbers
        total.assign(d, 0)
        for node in range(self._layers[self._layer], self._layers[self._layer + 1]):
            numbers = get_vector(self._graph, node)
            for index in range(d):
                total[index] += numbers[index]
        for index in range(d):
            mean.push_back(<float> total[index])
        set_query(&self._walk, mean.data(), d)  # the sum, because its length does not change which cosine is largest
        scan_layer(&self._walk, self._graph, self._layer, 1)
        if not self._walk.results.empty():
            best = <uint32_t> self._walk.results[0].second
        self._entry[self._layer] = best
        # The others keep their order after it.
        index = self._layers[self._layer]
        while self._order[index] != best:
            index += 1
        while index > <Py_ssize_t> self._layers[self._layer]:
            self._order[index] = self._order[index - 1]
            index -= 1
        self._order[index] = best

    cdef void _insert(self, uint32_t node) noexcept nogil:
        """Link a node to the nearest nodes of its layer that were inserted before, and link these back to the node."""
        cdef size_t i
        if not self._inserted:  # the first node of the layer
            return
        self._find_nearest(node, self._layer, self._ef)
        self._candidates = self._walk.results
        self._select_links(self._m)
        self._set_links(node)
        cdef vector[uint32_t] links = self._selected
        for i in range(links.size()):
            self._link_back(links[i], node)

    cdef void _find_nearest(self, uint32_t node, Py_ssize_t layer, size_t ef) noexcept nogil:
        """Set ``_walk.results`` to about the ``ef`` nodes of a layer that are nearest to a node."""
        clear_marks(&self._walk, self._vectors.shape[0])
        set_query(&self._walk, get_vector(self._graph, node), self._graph.dimension)
        self._walk.starts.assign(1, self._entry[layer])
        search_layer(&self._walk, self._graph, layer, ef)

    cdef void _select_links(self, size_t limit) noexcept nogil:
        """Set ``_selected`` to the links of a node: at most ``limit`` of ``_candidates``, which are best first.

        A candidate is selected if it is nearer to the node than to any link selected before. Then the best of the
        others are added, up to ``limit`` (Malkov, Yashunin 2018, Algorithm 4, with keepPrunedConnections).
        """
        cdef size_t i
        cdef uint32_t other
        self._selected.clear()
        self._selected_rows.clear()
        self._remaining.clear()
        for i in range(self._candidates.size()):
            if self._selected.size() == limit:
                break
            other = <uint32_t> self._candidates[i].second
            if self._is_apart(other, self._candidates[i].first):
                self._selected.push_back(other)
                self._selected_rows.push_back(get_vector(self._graph, other))
            else:
                self._remaining.push_back(other)
        for i in range(self._remaining.size()):
            if self._selected.size() == limit:
                break
            self._selected.push_back(self._remaining[i])

    cdef bint _is_apart(self, uint32_t candidate, float cosine) noexcept nogil:
        """True if a candidate is farther from every selected node than from the node to link.

        ``cosine`` is the cosine of the candidate with the node to link.
        """
        # Compared in groups of four, because most candidates fail at the first.
        cdef float[4] cosines
        cdef size_t index = 0, count, i
        set_query(&self._walk, get_vector(self._graph, candidate), self._graph.dimension)
        while index < self._selected_rows.size():
            count = min(<size_t> 4, self._selected_rows.size() - index)
            dot_gathered(&self._selected_rows[index], count, self._graph.dimension, self._walk.query.data(), cosines)
            for i in range(count):
                if not cosines[i] < cosine:
                    return False
            index += count
        return True

    cdef void _set_links(self, uint32_t node) noexcept nogil:
        """Write the selected links to the row of a node, which has no others."""
        cdef uint32_t* row = get_link_row(self._graph, node)
        cdef size_t i
        for i in range(self._selected.size()):
            row[i] = self._selected[i]
        self._used[node] = self._selected.size()

    cdef void _link_back(self, uint32_t node, uint32_t new) noexcept nogil:
        """Link a node to a new node that links to it. If its row is full, select among all its links again."""
        cdef uint32_t* row = get_link_row(self._graph, node)
        cdef size_t i, used = self._used[node], width = get_max_links(self._graph, node)
        if used < width:
            row[used] = new
            self._used[node] = used + 1
            return
        set_query(&self._walk, get_vector(self._graph, node), self._graph.dimension)
        self._walk.new_nodes.assign(row, row + used)
        self._walk.new_nodes.push_back(new)
        compute_new_cosines(&self._walk, self._graph)
        self._walk.results.clear()
        for i in range(self._walk.new_nodes.size()):
            if self._walk.cosines[i] == self._walk.cosines[i]:  # not NaN
                self._walk.results.push_back(Near(-self._walk.cosines[i], <int64_t> self._walk.new_nodes[i]))
        sort_results(self._walk.results, self._walk.results.size())
        self._candidates = self._walk.results
        self._select_links(width)
        for i in range(width):
            row[i] = _NO_NODE
        self._set_links(node)

    cdef void _end_layer(self) noexcept nogil:
        """Finish the current layer: make all its nodes reachable, and set the links down of the layer above."""
        cdef uint32_t node
        if self._layers[self._layer] == self._layers[self._layer + 1]:
            return
        self._connect_unreachable()
        if self._layer + 2 < self._layers.shape[0]:
            for node in range(self._layers[self._layer + 1], self._layers[self._layer + 2]):
                self._find_nearest(node, self._layer, DOWN_EF)
                if not self._walk.results.empty():
                    self._down[node - self._layers[1]] = <uint32_t> self._walk.results[0].second

    cdef void _connect_unreachable(self) noexcept nogil:
        """Link each unreachable node from the nearest reachable node that has a link to spare.

        A link can be spared if it is not part of the tree of first paths from the entry.
        """
        cdef uint32_t layer_start = self._layers[self._layer], layer_end = self._layers[self._layer + 1], node, nearest
        cdef vector[uint32_t] predecessors
        cdef uint32_t* row
        cdef size_t i, index
        cdef bint is_linked
        predecessors.assign(layer_end - layer_start, _NO_NODE)
        predecessors[self._entry[self._layer] - layer_start] = self._entry[self._layer]
        self._mark_reachable(predecessors, self._entry[self._layer])
        for node in range(layer_start, layer_end):
            if predecessors[node - layer_start] != _NO_NODE:
                continue
            self._find_nearest(node, self._layer, DOWN_EF)
            self._candidates = self._walk.results
            is_linked = False
            for i in range(self._candidates.size()):
                nearest = <uint32_t> self._candidates[i].second
                row = get_link_row(self._graph, nearest)
                index = get_max_links(self._graph, nearest)
                while index and not is_linked:
                    index -= 1
                    if row[index] == _NO_NODE or predecessors[row[index] - layer_start] != nearest:
                        row[index] = node
                        is_linked = True
                if is_linked:
                    predecessors[node - layer_start] = nearest
                    self._mark_reachable(predecessors, node)
                    break

    cdef void _mark_reachable(self, vector[uint32_t]& predecessors, uint32_t start) noexcept nogil:
        """Set the predecessor of each node that is newly reached from ``start``, breadth first.

        ``predecessors`` are indexed by the position in the layer.
        """
        cdef vector[uint32_t] queue
        cdef uint32_t layer_start = self._layers[self._layer], node
        cdef uint32_t* row
        cdef size_t i = 0
        cdef Py_ssize_t index
        queue.push_back(start)
        while i < queue.size():
            node = queue[i]
            i += 1
            row = get_link_row(self._graph, node)
            for index in range(get_max_links(self._graph, node)):
                if row[index] != _NO_NODE and predecessors[row[index] - layer_start] == _NO_NODE:
                    predecessors[row[index] - layer_start] = node
                    queue.push_back(row[index])


cdef to_array(const vector[uint32_t]& numbers):
    """Return a copy of a vector as a NumPy array (u32)."""
    cdef uint32_t[::1] out = (array := np.empty(numbers.size(), np.uint32))
    cdef size_t i
    for i in range(numbers.size()):
        out[i] = numbers[i]
    return array
