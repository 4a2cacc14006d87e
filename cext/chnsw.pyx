# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""C-HNSW: graphs of near neighbours, one a layer, joined by links from each node to the nearest one a layer below.

In: layers of unit vectors, layer 0 first, which is the widest, and the members that each node has in the layer below.
Built: for each node its links inside the layer and its link down. Searched: the nearest nodes of every layer in one
descent, over arrays as they lie in a mapped file.

ArchRAG (arXiv 2502.09891), section 3.1.3, Algorithms 2 and 3, with these repaired: the walk goes on while there are
candidates, and ends at one that is farther than the last of ``ef`` results (Malkov, Yashunin 2018, Algorithm 2); the
link down is the nearest node that a search of the finished layer below finds, not what an insertion happened to meet;
the next layer is entered at the links of all candidates kept, not of one, and at their members, which lie around them
and are told by the hierarchy without a search; the first entry of a layer is the node nearest to
its mean, not a random one, and every node of the layer can be reached from it.

The outcome is a function of the vectors, of the order given and of the options: no random numbers, ties go to the
smaller number, and a cosine is the same bits wherever it is computed (dots.pxi). Links that lead outside their layer
are passed over, and a node whose bytes fail their checksum is told, so that a damaged file does no harm.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy
from libcpp.algorithm cimport partial_sort
from libcpp.queue cimport priority_queue
from libcpp.utility cimport pair
from libcpp.vector cimport vector

import numpy as np

include "crc32.pxi"
include "dots.pxi"

#: No link; pads a node's links.
NONE = 0xFFFFFFFF
#: Layers of at most so many nodes are compared whole: cheaper than a walk, and exact.
WHOLE = 64

cdef uint32_t _NONE = 0xFFFFFFFF
#: Candidates looked at for the link down.
cdef size_t DOWN_EF = 100

#: A cosine with what orders ties: -(number) where the largest is wanted first.
ctypedef pair[float, int64_t] Near


cdef struct Layered:
    # The arrays of a graph. ``first[l]`` is the first node of layer l; a node of layer 0 has a row of ``wide`` links, of
    # others one of ``narrow``. ``checks`` is NULL while it is built.
    const float* vectors
    uint32_t* links0
    uint32_t* links
    const uint32_t* down
    const uint32_t* checks
    uint8_t* checked
    const uint32_t* first
    const uint32_t* bounds
    const uint32_t* members
    Py_ssize_t dimension, wide, narrow, all_members


cdef inline uint32_t* row_of(const Layered& graph, uint32_t node) noexcept nogil:
    """The links of a node."""
    if node < graph.first[1]:
        return graph.links0 + <Py_ssize_t> node * graph.wide
    return graph.links + <Py_ssize_t> (node - graph.first[1]) * graph.narrow


cdef inline Py_ssize_t width_of(const Layered& graph, uint32_t node) noexcept nogil:
    return graph.wide if node < graph.first[1] else graph.narrow


cdef inline const float* vector_of(const Layered& graph, uint32_t node) noexcept nogil:
    return graph.vectors + <Py_ssize_t> node * graph.dimension


cdef uint32_t checksum_of(const Layered& graph, uint32_t node) noexcept nogil:
    """CRC-32 of a node's vector, links and link down."""
    cdef uint32_t crc = kv_crc(<const uint8_t*> vector_of(graph, node), graph.dimension * sizeof(float))
    crc = kv_crc_further(crc, <const uint8_t*> row_of(graph, node), width_of(graph, node) * sizeof(uint32_t))
    if node >= graph.first[1]:
        crc = kv_crc_further(crc, <const uint8_t*> (graph.down + (node - graph.first[1])), sizeof(uint32_t))
    return crc


cdef cppclass Walk:
    # What one search needs, and keeps for the next: marks of nodes met, by epoch; what is looked for, filled up with
    # zeros; results, best first.
    vector[uint32_t] marks
    uint32_t epoch
    vector[float] wanted
    vector[uint32_t] fresh, starts
    vector[const float*] rows
    vector[float] cosines
    vector[Near] found
    int64_t compared
    int64_t damaged

    __init__():
        this.epoch = 0
        this.compared = 0
        this.damaged = -1


cdef void look_for(Walk* walk, const float* what, Py_ssize_t dimension) noexcept nogil:
    """Let the walk be for a vector."""
    walk.wanted.assign((dimension + SIDE - 1) // SIDE * SIDE, 0)
    if dimension:
        memcpy(walk.wanted.data(), what, dimension * sizeof(float))


cdef void begin(Walk* walk, size_t nodes) noexcept nogil:
    """Forget which nodes were met."""
    walk.epoch += 1
    if walk.marks.size() != nodes or not walk.epoch:
        walk.marks.assign(nodes, 0)
        walk.epoch = 1


cdef bint compare(Walk* walk, const Layered& graph) noexcept nogil:
    """Write the cosines of the fresh nodes; False where one fails its checksum."""
    cdef size_t i
    cdef uint32_t node
    walk.rows.resize(walk.fresh.size())
    walk.cosines.resize(walk.fresh.size())
    for i in range(walk.fresh.size()):
        node = walk.fresh[i]
        walk.rows[i] = vector_of(graph, node)
        if graph.checks != NULL and not graph.checked[node]:
            if checksum_of(graph, node) != graph.checks[node]:
                walk.damaged = node
                return False
            graph.checked[node] = 1
    dot_gathered(walk.rows.data(), walk.rows.size(), graph.dimension, walk.wanted.data(), walk.cosines.data())
    walk.compared += walk.fresh.size()
    return True


cdef bint compare_layer(Walk* walk, const Layered& graph, Py_ssize_t layer, size_t most) noexcept nogil:
    """Find the ``most`` nearest nodes of a layer, all compared; False where one fails its checksum."""
    cdef uint32_t node
    cdef size_t i
    walk.fresh.clear()
    walk.found.clear()
    for node in range(graph.first[layer], graph.first[layer + 1]):
        walk.fresh.push_back(node)
    if not compare(walk, graph):
        return False
    for i in range(walk.fresh.size()):
        if walk.cosines[i] == walk.cosines[i]:
            walk.found.push_back(Near(-walk.cosines[i], <int64_t> walk.fresh[i]))
    finish(walk, most)
    return True


cdef void finish(Walk* walk, size_t most) noexcept nogil:
    """Order what was found, given as negated cosines: the largest first, ties by number."""
    cdef size_t i
    if walk.found.size() < most:
        most = walk.found.size()
    partial_sort(walk.found.begin(), walk.found.begin() + most, walk.found.end())
    walk.found.resize(most)
    for i in range(walk.found.size()):
        walk.found[i].first = -walk.found[i].first


cdef bint walk_layer(Walk* walk, const Layered& graph, Py_ssize_t layer, size_t ef) noexcept nogil:
    """Find about the ``ef`` nearest nodes of a layer from ``walk.starts``; False where a node fails its checksum.

    Algorithm 2, SearchLayer: ``ahead`` are nodes whose links were not followed yet, ``kept`` the best so far.
    """
    cdef priority_queue[Near] ahead, kept
    cdef Near nearest
    cdef uint32_t node, other, low = graph.first[layer], high = graph.first[layer + 1]
    cdef const uint32_t* links
    cdef Py_ssize_t place, width
    cdef size_t i
    cdef float cosine
    walk.found.clear()
    walk.fresh.clear()
    for i in range(walk.starts.size()):
        node = walk.starts[i]
        if low <= node < high and walk.marks[node] != walk.epoch:
            walk.marks[node] = walk.epoch
            walk.fresh.push_back(node)
    while True:
        if walk.fresh.size():
            if not compare(walk, graph):
                return False
            for i in range(walk.fresh.size()):
                cosine, node = walk.cosines[i], walk.fresh[i]
                if not cosine == cosine:
                    continue
                # kept.top() is the worst: negated cosine, and the larger number among equals.
                if kept.size() < ef or Near(-cosine, <int64_t> node) < kept.top():
                    ahead.push(Near(cosine, -<int64_t> node))
                    kept.push(Near(-cosine, <int64_t> node))
                    if kept.size() > ef:
                        kept.pop()
        if ahead.empty():
            break
        nearest = ahead.top()
        if kept.size() == ef and -nearest.first > kept.top().first:
            break
        ahead.pop()
        node = <uint32_t> (-nearest.second)
        links, width = row_of(graph, node), width_of(graph, node)
        walk.fresh.clear()
        for place in range(width):
            other = links[place]
            if low <= other < high and walk.marks[other] != walk.epoch:
                walk.marks[other] = walk.epoch
                walk.fresh.push_back(other)
    while not kept.empty():
        walk.found.push_back(kept.top())
        kept.pop()
    finish(walk, ef)
    return True


cdef class Searching:
    # What a search keeps for the next one.
    cdef Walk walk


def checksums(const uint32_t[::1] layers not None, const float[:, ::1] vectors not None) -> np.ndarray:
    """The checksums of nodes without links, as :class:`LayeredGraph` wants them; raises ValueError where layers do not
    hold the vectors."""
    cdef Py_ssize_t nodes = vectors.shape[0], node
    check_layers(layers, nodes)
    cdef uint32_t none = _NONE
    cdef uint32_t[::1] sums = (checks := np.zeros(nodes, np.uint32))
    for node in range(nodes):
        sums[node] = kv_crc(<const uint8_t*> &vectors[node, 0], vectors.shape[1] * sizeof(float)) if vectors.shape[1] else 0
        if node >= layers[1]:
            sums[node] = kv_crc_further(sums[node], <const uint8_t*> &none, sizeof(uint32_t))
    return checks


cdef class LayeredGraph:
    """A C-HNSW over arrays as they are, for instance of a mapped file; any number of threads may search it.

    For n nodes of dimension d in layers 0 … L: ``layers`` (L + 2) the first node of each layer and n; ``vectors``
    (n, d); ``links0`` and ``links`` the links of the nodes of layer 0 and of the others, :data:`NONE` where there is
    none; ``down`` the link down of the others; ``entry`` (L + 1) where a layer is entered that no link leads to;
    ``checks`` (n) the checksum of each node, verified when it is first met; ``members`` those of the others, of the
    first from ``bounds[0]`` to ``bounds[1]`` and so on. Where nodes have no room for links, all are compared. Raises ValueError where shapes do not fit or an entry is not in its layer.
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
        cdef Py_ssize_t nodes = vectors.shape[0], layer
        check_layers(layers, nodes)
        cdef Py_ssize_t above = nodes - layers[1]
        if not (links0.shape[0] == layers[1] and links.shape[0] == down.shape[0] == above
                and entry.shape[0] == layers.shape[0] - 1 and checks.shape[0] == nodes
                and bounds.shape[0] == above + 1):
            raise ValueError(f"arrays of {nodes} nodes in layers that begin at {list(layers)} do not fit each other")
        for layer in range(entry.shape[0]):
            if layers[layer] < layers[layer + 1] and not layers[layer] <= entry[layer] < layers[layer + 1]:
                raise ValueError(f"layer {layer} is entered at node {entry[layer]}, which is not in it")
        self._layers, self._vectors, self._links0, self._links = layers, vectors, links0, links
        self._down, self._entry, self._checks, self._bounds, self._members = down, entry, checks, bounds, members
        self._checked.assign(nodes, 0)
        self._graph.vectors = &vectors[0, 0] if nodes and vectors.shape[1] else NULL
        self._graph.links0 = <uint32_t*> &links0[0, 0] if layers[1] and links0.shape[1] else NULL
        self._graph.links = <uint32_t*> &links[0, 0] if above and links.shape[1] else NULL
        self._graph.down = &down[0] if above else NULL
        self._graph.checks = &checks[0] if nodes else NULL
        self._graph.checked = self._checked.data()
        self._graph.first = &layers[0]
        self._graph.bounds, self._graph.all_members = &bounds[0], members.shape[0]
        self._graph.members = &members[0] if members.shape[0] else NULL
        self._graph.dimension, self._graph.wide = vectors.shape[1], links0.shape[1]
        self._graph.narrow = links.shape[1]
        self._idle = []

    def search(self, const float[::1] query not None, const int64_t[::1] counts not None, Py_ssize_t ef, *,
               bint linked=True, Py_ssize_t whole=WHOLE):
        """The nearest nodes of each layer, and their cosines, best first: (nodes, cosines, bounds, compared).

        ``counts`` (L + 1) says how many of each layer; a layer of 0 is only passed through, and the descent ends at the
        lowest that has more. Nodes and cosines of layer l are those from ``bounds[l]`` to ``bounds[l + 1]``;
        ``compared`` counts the cosines computed. At least ``ef`` candidates are kept in a layer, and in one of at most
        ``whole`` nodes all are compared. Without ``linked`` each layer is entered where it begins, not where the layer
        above leads. Raises ValueError for shapes that do not fit, and for a node that fails its checksum.
        """
        cdef Py_ssize_t levels = self._entry.shape[0], layer
        cdef size_t i
        if query.shape[0] != self._graph.dimension or counts.shape[0] != levels or ef < 1:
            raise ValueError(f"a query of {query.shape[0]} numbers with {counts.shape[0]} counts and ef {ef} fits no "
                             f"graph of dimension {self._graph.dimension} and {levels} layers")
        if not (self._graph.wide and self._graph.narrow):
            whole = self._vectors.shape[0]
        cdef Searching searching
        try:
            searching = self._idle.pop()  # one thread has it at a time
        except IndexError:
            searching = Searching()
        cdef Walk* walk = &searching.walk
        cdef vector[vector[Near]] results
        cdef bint sound
        cdef const int64_t* wanted = &counts[0] if levels else NULL
        with nogil:
            results.resize(levels)
            sound = descend(walk, self._graph, &query[0] if query.shape[0] else NULL, wanted,
                            &self._entry[0] if levels else NULL, levels, ef, linked, whole, results)
        if not sound:
            node = walk.damaged
            raise ValueError(f"node {node} fails its checksum")
        bounds = np.zeros(levels + 1, np.int64)
        cdef int64_t[::1] ends = bounds
        for layer in range(levels):
            ends[layer + 1] = ends[layer] + <int64_t> results[layer].size()
        nodes, cosines = np.empty(ends[levels], np.uint32), np.empty(ends[levels], np.float32)
        cdef uint32_t[::1] all_nodes = nodes
        cdef float[::1] all_cosines = cosines
        for layer in range(levels):
            for i in range(results[layer].size()):
                all_nodes[ends[layer] + i] = <uint32_t> results[layer][i].second
                all_cosines[ends[layer] + i] = results[layer][i].first
        compared = walk.compared
        self._idle.append(searching)
        return nodes, cosines, bounds, compared


cdef int check_layers(const uint32_t[::1] layers, Py_ssize_t nodes) except -1:
    """Raise ValueError unless layers begin one after the other, from 0 to the number of nodes."""
    cdef Py_ssize_t layer
    if layers.shape[0] < 2 or layers[0] != 0 or layers[layers.shape[0] - 1] != nodes or nodes >= _NONE:
        raise ValueError(f"layers that begin at {list(layers)} do not hold {nodes} nodes")
    for layer in range(layers.shape[0] - 1):
        if layers[layer] > layers[layer + 1]:
            raise ValueError(f"layers that begin at {list(layers)} do not follow each other")
    return 0


cdef void enter_below(Walk* walk, const Layered& graph, uint32_t node) noexcept nogil:
    """Let the layer below a node be entered where its link down leads, and at its members."""
    cdef Py_ssize_t above = node - graph.first[1], place = graph.bounds[above], end = graph.bounds[above + 1]
    walk.starts.push_back(graph.down[above])
    if end > graph.all_members:
        end = graph.all_members
    while place < end:
        walk.starts.push_back(graph.members[place])
        place += 1


cdef bint descend(Walk* walk, const Layered& graph, const float* query, const int64_t* counts, const uint32_t* entry,
                  Py_ssize_t levels, size_t ef, bint linked, Py_ssize_t whole,
                  vector[vector[Near]]& results) noexcept nogil:
    """Search the layers from the highest to the lowest that is wanted; False where a node fails its checksum."""
    cdef Py_ssize_t layer, lowest = 0
    cdef size_t i, count, most
    while lowest < levels and counts[lowest] <= 0:
        lowest += 1
    walk.compared, walk.damaged = 0, -1
    begin(walk, graph.first[levels])
    look_for(walk, query, graph.dimension)
    walk.starts.clear()
    for layer in range(levels - 1, lowest - 1, -1):
        if graph.first[layer] == graph.first[layer + 1]:
            walk.starts.clear()
            continue
        count = counts[layer] if counts[layer] > 0 else 1
        most = ef if ef > count else count
        if graph.first[layer + 1] - graph.first[layer] <= whole:
            if not compare_layer(walk, graph, layer, most):
                return False
        else:
            if not linked or walk.starts.empty():
                walk.starts.push_back(entry[layer])
            if not walk_layer(walk, graph, layer, most):
                return False
            if walk.found.empty():  # every link down led astray
                walk.starts.push_back(entry[layer])
                if not walk_layer(walk, graph, layer, most):
                    return False
        walk.starts.clear()
        if linked and layer:
            for i in range(walk.found.size()):
                enter_below(walk, graph, <uint32_t> walk.found[i].second)
        if counts[layer] > 0:
            if walk.found.size() > count:
                walk.found.resize(count)
            results[layer] = walk.found
    return True


cdef class LayeredGraphBuilder:
    """Builds a C-HNSW: :meth:`advance` until nothing is left, then :meth:`arrays`.

    ``layers`` and ``vectors`` as :class:`LayeredGraph` has them; inside a layer nodes are inserted as ``order`` (n)
    gives them, after the one nearest to the layer's mean. A node gets ``m`` links of its own, and has up to ``m`` with
    those that link to it, 2 ``m`` in layer 0; ``ef_construction`` candidates are looked at for them. Raises ValueError
    where the arrays do not fit, ``order`` holds a node twice or mixes layers, or m is below 2.
    """

    cdef const uint32_t[::1] _layers
    cdef const float[:, ::1] _vectors
    cdef vector[uint32_t] _first, _order, _links0, _links, _down, _entry, _used
    cdef Layered _graph
    cdef Walk _walk
    cdef size_t _m, _ef
    # The layer being built (from the top), and how many of its nodes stand.
    cdef Py_ssize_t _layer, _inserted
    cdef vector[Near] _candidates
    cdef vector[uint32_t] _chosen, _left
    cdef vector[const float*] _chosen_rows

    def __cinit__(self, const uint32_t[::1] layers not None, const float[:, ::1] vectors not None,
                  const uint32_t[::1] order not None, Py_ssize_t m=16, Py_ssize_t ef_construction=100) -> None:
        cdef Py_ssize_t nodes = vectors.shape[0], layer, place
        cdef vector[uint8_t] seen
        check_layers(layers, nodes)
        if order.shape[0] != nodes or not 2 <= m <= 1024 or ef_construction < m:
            raise ValueError(f"an order of {order.shape[0]} for {nodes} nodes, m {m} and ef_construction "
                             f"{ef_construction} do not fit each other")
        seen.assign(nodes, 0)
        for layer in range(layers.shape[0] - 1):
            for place in range(layers[layer], layers[layer + 1]):
                if not layers[layer] <= order[place] < layers[layer + 1] or seen[order[place]]:
                    raise ValueError(f"place {place} of the order has node {order[place]} twice or in another layer")
                seen[order[place]] = 1
        self._layers, self._vectors = layers, vectors
        self._m, self._ef = m, ef_construction
        for place in range(nodes):
            self._order.push_back(order[place])
        self._links0.assign(<size_t> layers[1] * 2 * m, _NONE)
        self._links.assign(<size_t> (nodes - layers[1]) * m, _NONE)
        self._down.assign(nodes - layers[1], _NONE)
        self._used.assign(nodes, 0)
        self._entry.assign(layers.shape[0] - 1, _NONE)
        self._graph.vectors = &vectors[0, 0] if nodes and vectors.shape[1] else NULL
        self._graph.links0, self._graph.links = self._links0.data(), self._links.data()
        self._graph.down = self._down.data()
        self._graph.checks = NULL
        self._graph.checked = NULL
        self._graph.first = &layers[0]
        self._graph.dimension, self._graph.wide, self._graph.narrow = vectors.shape[1], 2 * m, m
        self._layer = layers.shape[0] - 2
        self._inserted = 0

    def advance(self, Py_ssize_t count) -> int:
        """Insert up to so many nodes; how many are left to insert."""
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
        return self._layers[self._layer + 1] - self._inserted if self._layer >= 0 else 0

    def arrays(self):
        """What was built: (links0, links, down, entry, checks); raises ValueError while nodes are left."""
        if self._layer >= 0:
            raise ValueError("nodes are left to insert")
        cdef Py_ssize_t nodes = self._vectors.shape[0], above = nodes - self._layers[1], node
        cdef uint32_t[::1] sums = (checks := np.zeros(nodes, np.uint32))
        for node in range(nodes):
            sums[node] = checksum_of(self._graph, node)
        return (copied(self._links0).reshape(self._layers[1], 2 * self._m), copied(self._links).reshape(above, self._m),
                copied(self._down), copied(self._entry), checks)

    cdef void _begin_layer(self) noexcept nogil:
        """Let the node nearest to the layer's mean be its entry, and the first to be inserted."""
        cdef Py_ssize_t d = self._graph.dimension, place
        cdef uint32_t node, best = self._layers[self._layer]
        cdef vector[double] total
        cdef vector[float] mean
        cdef const float* numbers
        total.assign(d, 0)
        for node in range(self._layers[self._layer], self._layers[self._layer + 1]):
            numbers = vector_of(self._graph, node)
            for place in range(d):
                total[place] += numbers[place]
        for place in range(d):
            mean.push_back(<float> total[place])
        look_for(&self._walk, mean.data(), d)
        compare_layer(&self._walk, self._graph, self._layer, 1)
        if not self._walk.found.empty():
            best = <uint32_t> self._walk.found[0].second
        self._entry[self._layer] = best
        # The others keep their order behind it.
        place = self._layers[self._layer]
        while self._order[place] != best:
            place += 1
        while place > <Py_ssize_t> self._layers[self._layer]:
            self._order[place] = self._order[place - 1]
            place -= 1
        self._order[place] = best

    cdef void _insert(self, uint32_t node) noexcept nogil:
        cdef size_t i
        if not self._inserted:
            return
        self._find(node, self._layer, self._ef)
        self._candidates = self._walk.found
        self._choose(self._m)
        self._set(node)
        cdef vector[uint32_t] own = self._chosen
        for i in range(own.size()):
            self._link_back(own[i], node)

    cdef void _find(self, uint32_t node, Py_ssize_t layer, size_t ef) noexcept nogil:
        """The nearest nodes of a layer to a node."""
        begin(&self._walk, self._vectors.shape[0])
        look_for(&self._walk, vector_of(self._graph, node), self._graph.dimension)
        self._walk.starts.assign(1, self._entry[layer])
        walk_layer(&self._walk, self._graph, layer, ef)

    cdef void _choose(self, size_t most) noexcept nogil:
        """Choose links among ``_candidates`` (best first): those that no chosen one is nearer to than the node itself,
        then the best of the rest (Malkov, Yashunin 2018, Algorithm 4, with keepPrunedConnections)."""
        cdef size_t i
        cdef uint32_t other
        self._chosen.clear()
        self._chosen_rows.clear()
        self._left.clear()
        for i in range(self._candidates.size()):
            if self._chosen.size() == most:
                break
            other = <uint32_t> self._candidates[i].second
            if self._is_apart(other, self._candidates[i].first):
                self._chosen.push_back(other)
                self._chosen_rows.push_back(vector_of(self._graph, other))
            else:
                self._left.push_back(other)
        for i in range(self._left.size()):
            if self._chosen.size() == most:
                break
            self._chosen.push_back(self._left[i])

    cdef bint _is_apart(self, uint32_t other, float cosine) noexcept nogil:
        """Whether every chosen node is farther from another than its cosine with the node that links are chosen for."""
        cdef float[4] cosines
        cdef size_t place = 0, count, i
        look_for(&self._walk, vector_of(self._graph, other), self._graph.dimension)
        while place < self._chosen_rows.size():
            count = min(<size_t> 4, self._chosen_rows.size() - place)
            dot_gathered(&self._chosen_rows[place], count, self._graph.dimension, self._walk.wanted.data(), cosines)
            for i in range(count):
                if not cosines[i] < cosine:
                    return False
            place += count
        return True

    cdef void _set(self, uint32_t node) noexcept nogil:
        """Let a node have the chosen links."""
        cdef uint32_t* row = row_of(self._graph, node)
        cdef size_t i
        for i in range(self._chosen.size()):
            row[i] = self._chosen[i]
        self._used[node] = self._chosen.size()

    cdef void _link_back(self, uint32_t node, uint32_t new) noexcept nogil:
        """Let a node have a link to a new one too, if that is among its best."""
        cdef uint32_t* row = row_of(self._graph, node)
        cdef size_t i, used = self._used[node], width = width_of(self._graph, node)
        if used < width:
            row[used] = new
            self._used[node] = used + 1
            return
        look_for(&self._walk, vector_of(self._graph, node), self._graph.dimension)
        self._walk.fresh.assign(row, row + used)
        self._walk.fresh.push_back(new)
        compare(&self._walk, self._graph)
        self._walk.found.clear()
        for i in range(self._walk.fresh.size()):
            if self._walk.cosines[i] == self._walk.cosines[i]:
                self._walk.found.push_back(Near(-self._walk.cosines[i], <int64_t> self._walk.fresh[i]))
        finish(&self._walk, self._walk.found.size())
        self._candidates = self._walk.found
        self._choose(width)
        for i in range(width):
            row[i] = _NONE
        self._set(node)

    cdef void _end_layer(self) noexcept nogil:
        """Let every node of the layer be reached from its entry, and link the layer above down."""
        cdef uint32_t node
        if self._layers[self._layer] == self._layers[self._layer + 1]:
            return
        self._join()
        if self._layer + 2 < self._layers.shape[0]:
            for node in range(self._layers[self._layer + 1], self._layers[self._layer + 2]):
                self._find(node, self._layer, DOWN_EF)
                if not self._walk.found.empty():
                    self._down[node - self._layers[1]] = <uint32_t> self._walk.found[0].second

    cdef void _join(self) noexcept nogil:
        """Give nodes that no way leads to a link from the nearest node that can be reached and has one to spare.

        A link is spared where it is no link of the tree of first ways from the entry.
        """
        cdef uint32_t low = self._layers[self._layer], high = self._layers[self._layer + 1], node, near
        cdef vector[uint32_t] before
        cdef uint32_t* row
        cdef size_t i, place
        cdef bint joined
        before.assign(high - low, _NONE)
        before[self._entry[self._layer] - low] = self._entry[self._layer]
        self._spread(before, self._entry[self._layer])
        for node in range(low, high):
            if before[node - low] != _NONE:
                continue
            self._find(node, self._layer, DOWN_EF)
            self._candidates = self._walk.found
            joined = False
            for i in range(self._candidates.size()):
                near = <uint32_t> self._candidates[i].second
                row = row_of(self._graph, near)
                place = width_of(self._graph, near)
                while place and not joined:
                    place -= 1
                    if row[place] == _NONE or before[row[place] - low] != near:
                        row[place] = node
                        joined = True
                if joined:
                    before[node - low] = near
                    self._spread(before, node)
                    break

    cdef void _spread(self, vector[uint32_t]& before, uint32_t start) noexcept nogil:
        """Note what comes before each node on the first way to it, for those newly reached from a node."""
        cdef vector[uint32_t] ahead
        cdef uint32_t low = self._layers[self._layer], node
        cdef uint32_t* row
        cdef size_t i = 0
        cdef Py_ssize_t place
        ahead.push_back(start)
        while i < ahead.size():
            node = ahead[i]
            i += 1
            row = row_of(self._graph, node)
            for place in range(width_of(self._graph, node)):
                if row[place] != _NONE and before[row[place] - low] == _NONE:
                    before[row[place] - low] = node
                    ahead.push_back(row[place])


cdef copied(const vector[uint32_t]& numbers):
    """Numbers as an array."""
    cdef uint32_t[::1] out = (array := np.empty(numbers.size(), np.uint32))
    cdef size_t i
    for i in range(numbers.size()):
        out[i] = numbers[i]
    return array
