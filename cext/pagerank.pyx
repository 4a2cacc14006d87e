# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Personalized PageRank by forward push, over rows of a graph that are added when needed, in any order.

In: seeds with masses, a restart probability, an error bound, and rows (a node, its neighbors, the weights of its
edges). Out: the nodes whose rows are needed next; in the end the mass of every visited node. Nodes are opaque u64.

Andersen, Chung, Lang 2006, "Local graph partitioning using PageRank vectors", section 3: every node has an estimate p
and a residual r. A push keeps the share ``restart`` of the residual as estimate and distributes the rest to the
neighbors. p + (PageRank of r) is invariant, so the sum of the residuals is the distance to the exact vector. A node is
pushed while r > epsilon * size, where the size is at least 1 and represents the length of its row. Every push takes
more than restart * epsilon * size from a total of at most 1. So the sizes of all pushes add up to less than 1 /
(restart * epsilon) for any graph, and the work does not depend on the part of the graph that is not reached.

The result is the same to the last bit for any order of seeds, rows and neighbors and any numbering of nodes: all nodes
above their bound are pushed at once, round by round; masses are integer multiples of 2^-60, whose sums do not depend on
order; and the weights of a row are converted to integers before they are added up.
"""

from libc.math cimport INFINITY, frexp, ldexp
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.queue cimport priority_queue
from libcpp.utility cimport pair
from libcpp.vector cimport vector

import numpy as np


#: The smallest valid restart · epsilon; its inverse bounds the work.
cdef double MIN_STEP = 1e-15

#: A mass of 1, and the bits of a row's greatest weight; the sum of so many weights does not overflow. A row whose
#: greatest weight has a smaller exponent is a dead end, because the factor that scales it would overflow.
cdef int64_t ONE = 1 << 60
cdef int WEIGHT_BITS = 40
cdef int64_t MAX_NEIGHBORS = 1 << 22
cdef int MIN_EXPONENT = -900


cdef struct Predecessor:
    # A node that may precede another one on the likeliest walk to it, with the likelihood for which that is true.
    int64_t node, predecessor
    double likelihood


cdef inline uint64_t _mix_bits(uint64_t x) noexcept nogil:
    """Return a hash of an id: SplitMix64's finalizer, which spreads consecutive ids."""
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EB
    return x ^ (x >> 31)


cdef class ForwardPush:
    """One PageRank. Call :meth:`run` and pass the rows that it needs to :meth:`add_rows`, until it needs none."""

    cdef double _restart, _epsilon
    # A node has an internal index. An open-addressed table from nodes to their indexes + 1; arrays by index: node,
    # estimate, residual, size.
    cdef vector[int64_t] _table
    cdef vector[uint64_t] _nodes
    cdef vector[int64_t] _estimate, _residual
    cdef vector[double] _size
    cdef vector[uint8_t] _has_row, _queued
    # Rows: begin and end in the neighbors (indexes) and in their shares (which sum to 1).
    cdef vector[int64_t] _begin, _end, _neighbors
    cdef vector[double] _shares
    cdef vector[int64_t] _seeds
    cdef vector[double] _seed_shares
    cdef vector[int64_t] _queue, _needed, _pushed
    cdef vector[int64_t] _masses
    # The likelihood of the likeliest walk to each node, once needed, and the possible predecessors on such a walk.
    cdef vector[double] _likelihood
    cdef vector[int64_t] _predecessor
    cdef vector[Predecessor] _other_predecessors
    # The mass that left dead ends, which returns to the seeds.
    cdef int64_t _returning
    cdef readonly int64_t pushes, rows
    #: The sum of the sizes of all pushes.
    cdef readonly double work

    def __cinit__(self, const uint64_t[::1] seeds not None, const double[::1] masses not None,
                  const double[::1] sizes not None, double restart, double epsilon) -> None:
        """Start a forward push from nodes (``seeds``) with initial ``masses`` above 0, which sum to 1.

        ``sizes`` are the lengths of the rows of the seeds, at least 1. ``restart`` and ``epsilon`` are between 0 and 1.
        Raises ValueError for other values, for arrays of different lengths, and if restart · epsilon is so small that
        the pushes would not end.
        """
        cdef Py_ssize_t i
        cdef int64_t index
        cdef double total = 0
        if not (0 < restart < 1 and 0 < epsilon < 1 and restart * epsilon >= MIN_STEP):
            raise ValueError(f"restart {restart} and epsilon {epsilon} are not between 0 and 1, or their product is "
                             f"below {MIN_STEP}")
        if not seeds.shape[0] == masses.shape[0] == sizes.shape[0]:
            raise ValueError(f"{seeds.shape[0]} seeds, but {masses.shape[0]} masses and {sizes.shape[0]} sizes")
        for i in range(seeds.shape[0]):
            if not (masses[i] > 0 and 1 <= sizes[i] < INFINITY):
                raise ValueError(f"seed {i} has an invalid mass {masses[i]} or size {sizes[i]}")
            total += masses[i]
        if seeds.shape[0] and not -1e-6 <= total - 1 <= 1e-6:
            raise ValueError(f"the masses of the seeds sum to {total}, not to 1")
        self._restart = restart
        self._epsilon = epsilon
        self._table.assign(1 << 10, 0)
        for i in range(seeds.shape[0]):
            index = self._find_or_add_node(seeds[i], sizes[i])
            self._seeds.push_back(index)
            self._seed_shares.push_back(masses[i])
            self._add_residual(index, <int64_t> (masses[i] * ONE))

    cdef int64_t _find_or_add_node(self, uint64_t node, double size) noexcept nogil:
        """Return the index of a node. A new node is added with this size."""
        cdef uint64_t mask = self._table.size() - 1
        cdef uint64_t slot = _mix_bits(node) & mask
        cdef int64_t index
        while self._table[slot]:
            if self._nodes[self._table[slot] - 1] == node:
                return self._table[slot] - 1
            slot = (slot + 1) & mask
        index = self._nodes.size()
        self._nodes.push_back(node)
        self._estimate.push_back(0)
        self._residual.push_back(0)
        self._size.push_back(size)
        self._has_row.push_back(0)
        self._queued.push_back(0)
        self._begin.push_back(0)
        self._end.push_back(0)
        self._table[slot] = index + 1
        if 2 * self._nodes.size() > self._table.size():
            self._double_table()
        return index

    cdef void _double_table(self) noexcept nogil:
        """Double the table, which must be at most half full, and put every node in its new slot."""
        cdef uint64_t mask = 2 * self._table.size() - 1, slot
        cdef size_t index
        self._table.assign(mask + 1, 0)
        for index in range(self._nodes.size()):
            slot = _mix_bits(self._nodes[index]) & mask
            while self._table[slot]:
                slot = (slot + 1) & mask
            self._table[slot] = index + 1

    cdef inline void _add_residual(self, int64_t index, int64_t mass) noexcept nogil:
        """Add mass to the residual of a node, and queue the node if its residual now exceeds epsilon times its size."""
        self._residual[index] += mass
        if not self._queued[index] and self._residual[index] > self._epsilon * self._size[index] * ONE:
            self._queued[index] = 1
            self._queue.push_back(index)

    def add_rows(self, const uint64_t[::1] nodes not None, const int64_t[::1] bounds not None,
                 const uint64_t[::1] neighbors not None, const double[::1] weights not None,
                 const double[::1] sizes not None) -> None:
        """Add the rows of ``nodes``, in any order.

        The row of ``nodes[i]`` has the neighbors ``neighbors[bounds[i]:bounds[i + 1]]``. ``weights[j]`` is the weight
        of the edge to ``neighbors[j]``, and ``sizes[j]`` the length of that neighbor's own row, which is used if the
        neighbor is new. Weights are at least 0, sizes at least 1; a row whose weights sum to 0 is a dead end. A row
        that was added before is ignored. Raises ValueError, and changes nothing, if bounds lead outside the arrays,
        these differ in length, or a number is out of range.
        """
        cdef Py_ssize_t i, j
        cdef int64_t index, total, weight
        cdef double greatest, scale
        cdef int exponent
        cdef Py_ssize_t count = neighbors.shape[0]
        if bounds.shape[0] != nodes.shape[0] + 1 or weights.shape[0] != count or sizes.shape[0] != count:
            raise ValueError(f"{nodes.shape[0]} rows, but {bounds.shape[0]} bounds, and {count} neighbors, but "
                             f"{weights.shape[0]} weights and {sizes.shape[0]} sizes")
        if not 0 <= bounds[0] <= bounds[nodes.shape[0]] <= count:
            raise ValueError(f"bounds are {bounds[0]} to {bounds[nodes.shape[0]]}, but neighbors 0 to {count}")
        for i in range(nodes.shape[0]):
            if bounds[i] > bounds[i + 1] or bounds[i] + MAX_NEIGHBORS < bounds[i + 1]:
                raise ValueError(f"row {i}, {bounds[i]} to {bounds[i + 1]}, must have 0 to {MAX_NEIGHBORS} neighbors")
        for j in range(bounds[0], bounds[nodes.shape[0]]):
            if not (0 <= weights[j] < INFINITY and 1 <= sizes[j] < INFINITY):
                raise ValueError(f"neighbor {j} has an invalid weight {weights[j]} or size {sizes[j]}")
        with nogil:
            for i in range(nodes.shape[0]):
                index = self._find_or_add_node(nodes[i], 1)
                if self._has_row[index]:
                    continue
                # Weights become integers, so that their sum does not depend on the order of the neighbors.
                total, greatest = 0, 0
                for j in range(bounds[i], bounds[i + 1]):
                    greatest = max(greatest, weights[j])
                frexp(greatest, &exponent)
                scale = ldexp(1, WEIGHT_BITS - exponent) if exponent >= MIN_EXPONENT else 0
                for j in range(bounds[i], bounds[i + 1]):
                    total += <int64_t> (scale * weights[j])
                self._begin[index] = self._neighbors.size()
                if total > 0:
                    for j in range(bounds[i], bounds[i + 1]):
                        weight = <int64_t> (scale * weights[j])
                        if weight > 0:
                            self._neighbors.push_back(self._find_or_add_node(neighbors[j], sizes[j]))
                            self._shares.push_back(<double> weight / <double> total)
                self._end[index] = self._neighbors.size()
                self._has_row[index] = 1
                self.rows += 1

    def run(self):
        """Push as far as the added rows allow, and return the nodes whose rows are needed (u64), unordered.

        The result is empty when the push is complete.
        """
        with nogil:
            self._queue.insert(self._queue.end(), self._needed.begin(), self._needed.end())
            self._needed.clear()
            self._push_all()
        return self._to_nodes(self._needed)

    cdef void _push_all(self) noexcept nogil:
        """Push until rows are needed or no node is queued.

        Mass from dead ends returns to the seeds only if no row is needed, so that the result does not depend on the
        order of the rows.
        """
        cdef int64_t mass
        cdef size_t i
        while True:
            while not self._queue.empty():
                self._push_round()
            if not self._needed.empty() or self._returning == 0:
                return
            mass = self._returning
            self._returning = 0
            for i in range(self._seeds.size()):
                self._add_residual(self._seeds[i], <int64_t> (mass * self._seed_shares[i]))

    cdef void _push_round(self) noexcept nogil:
        """Push every queued node that has a row, with the residuals from before the round; the others are needed."""
        cdef int64_t index, j, residual, kept_mass
        cdef size_t i
        self._pushed.clear()
        self._masses.clear()
        for i in range(self._queue.size()):
            index = self._queue[i]
            if not self._has_row[index]:
                # It stays marked as queued, and is queued when its row is added.
                self._needed.push_back(index)
                continue
            self._queued[index] = 0
            residual = self._residual[index]
            kept_mass = <int64_t> (self._restart * residual)
            self._residual[index] = 0
            self._estimate[index] += kept_mass
            self._pushed.push_back(index)
            self._masses.push_back(residual - kept_mass)
            self.pushes += 1
            self.work += self._size[index]
        self._queue.clear()
        for i in range(self._pushed.size()):
            index, residual = self._pushed[i], self._masses[i]
            if self._begin[index] == self._end[index]:
                self._returning += residual
            for j in range(self._begin[index], self._end[index]):
                self._add_residual(self._neighbors[j], <int64_t> (residual * self._shares[j]))

    def get_masses(self):
        """Return every visited node (u64), the mass of each (f64), and the missing part of the total mass of 1."""
        cdef size_t i
        cdef int64_t missing = 0, share
        cdef vector[int64_t] indexes
        for i in range(self._nodes.size()):
            indexes.push_back(i)
        masses = np.empty(indexes.size(), np.float64)
        cdef double[::1] out = masses
        for i in range(indexes.size()):
            # The share that a push would keep of the residual is already certain.
            share = <int64_t> (self._restart * self._residual[i])
            out[i] = <double> (self._estimate[i] + share) / ONE
            missing += self._residual[i] - share
        return self._to_nodes(indexes), masses, <double> missing / ONE

    def get_predecessors(self, uint64_t node):
        """Return the nodes (u64), unordered, that precede a node on the likeliest walks to it from a seed.

        The node itself is among them if such a walk begins there. Without a walk to the node, the result is empty. Call
        it when :meth:`run` needs no more rows. The walks are found with Dijkstra's algorithm (1959) over the added
        rows; the length of an edge is -ln of the probability of its step. They are computed for all nodes at once, and
        again after new nodes were visited.
        """
        cdef uint64_t mask = self._table.size() - 1
        cdef uint64_t slot = _mix_bits(node) & mask
        cdef int64_t index
        cdef size_t i
        cdef vector[int64_t] predecessors
        cdef Predecessor alternative
        if self._predecessor.size() != self._nodes.size():
            with nogil:
                self._find_predecessors()
        while self._table[slot] and self._nodes[self._table[slot] - 1] != node:
            slot = (slot + 1) & mask
        index = self._table[slot] - 1
        if index >= 0 and self._predecessor[index] >= 0:
            predecessors.push_back(self._predecessor[index])
            for i in range(self._other_predecessors.size()):
                alternative = self._other_predecessors[i]
                if alternative.node == index and alternative.likelihood == self._likelihood[index]:
                    predecessors.push_back(alternative.predecessor)
        return self._to_nodes(predecessors)

    cdef void _find_predecessors(self) noexcept nogil:
        """Set the predecessor of every node on a likeliest walk to it (Dijkstra 1959).

        At the start of a walk, that is the node itself; without a walk, -1. Other predecessors of the same likelihood
        are added to ``_other_predecessors``.
        """
        cdef priority_queue[pair[double, int64_t]] queue
        cdef pair[double, int64_t] likeliest
        cdef double likelihood
        cdef int64_t j, neighbor
        cdef size_t i
        cdef Predecessor alternative
        self._likelihood.assign(self._nodes.size(), 0)
        self._predecessor.assign(self._nodes.size(), -1)
        self._other_predecessors.clear()
        for i in range(self._seeds.size()):
            self._likelihood[self._seeds[i]] = self._seed_shares[i]
            self._predecessor[self._seeds[i]] = self._seeds[i]
            queue.push(pair[double, int64_t](self._seed_shares[i], self._seeds[i]))
        while not queue.empty():
            likeliest = queue.top()
            queue.pop()
            if likeliest.first < self._likelihood[likeliest.second]:
                continue  # a likelier walk to the node was found after this entry was queued
            for j in range(self._begin[likeliest.second], self._end[likeliest.second]):
                likelihood = likeliest.first * (1 - self._restart) * self._shares[j]
                neighbor = self._neighbors[j]
                if likelihood > self._likelihood[neighbor]:
                    self._likelihood[neighbor] = likelihood
                    self._predecessor[neighbor] = likeliest.second
                    queue.push(pair[double, int64_t](likelihood, neighbor))
                elif likelihood == self._likelihood[neighbor] and likelihood > 0:
                    alternative.node, alternative.predecessor = neighbor, likeliest.second
                    alternative.likelihood = likelihood
                    self._other_predecessors.push_back(alternative)

    cdef object _to_nodes(self, const vector[int64_t]& indexes):
        """Return the nodes with these internal indexes as an array (u64)."""
        cdef size_t i
        nodes = np.empty(indexes.size(), np.uint64)
        cdef uint64_t[::1] out = nodes
        for i in range(indexes.size()):
            out[i] = self._nodes[indexes[i]]
        return nodes
