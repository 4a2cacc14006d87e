# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Personalised PageRank by forward push, over rows of a graph that arrive as they are needed, whatever their order.

In: seeds with masses, a restart probability, an error bound, and rows (a node, its neighbours, the weights of its
edges). Out: the nodes whose rows are wanted next; in the end the mass of every node touched. Nodes are u64 and mean
nothing here.

Andersen, Chung, Lang 2006, "Local graph partitioning using PageRank vectors", section 3: every node has an estimate
p and a residual r; a push keeps the share ``restart`` of the residual as estimate and hands the rest to the
neighbours. p + (PageRank of r) never changes, so the sum of the residuals is the distance to the exact vector. A
node is pushed while r > epsilon * size, where the size is at least 1 and stands for the length of its row. Every push
takes more than restart * epsilon * size from a total of at most 1: so the sizes of all pushes add up to less than
1 / (restart * epsilon), whatever the graph, and the work does not depend on what lies beyond.

The outcome is the same to the last bit in whatever order seeds, rows and neighbours come and however nodes are
numbered: all nodes above their bound are pushed at once, round by round, masses are whole numbers of 2^-60, whose sums
know no order, and the weights of a row are made whole numbers before they are added up.
"""

from libc.math cimport INFINITY, frexp, ldexp
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.queue cimport priority_queue
from libcpp.utility cimport pair
from libcpp.vector cimport vector

import numpy as np


#: The least restart · epsilon: its inverse bounds the work.
cdef double SMALLEST_STEP = 1e-15

#: A mass of 1, and the bits of a row's greatest weight; the weights of so many neighbours can be added up. A row whose
#: greatest weight has a smaller exponent is a dead end, for what it is multiplied by would be no number any more.
cdef int64_t ONE = 1 << 60
cdef int WEIGHT_BITS = 40
cdef int64_t MOST_NEIGHBOURS = 1 << 22
cdef int LEAST_EXPONENT = -900


cdef struct Way:
    # That a node may come before another on the likeliest walk to it, as long as that is no likelier.
    int64_t node, before
    double likelihood


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    """SplitMix64's finalizer: spreads ids that follow one another."""
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EB
    return x ^ (x >> 31)


cdef class ForwardPush:
    """One PageRank: :meth:`run`, answer what it wants with :meth:`add_rows`, and again until it wants nothing."""

    cdef double _restart, _epsilon
    # An open-addressed table from nodes to their numbers + 1, and by number: node, estimate, residual, size.
    cdef vector[int64_t] _table
    cdef vector[uint64_t] _nodes
    cdef vector[int64_t] _estimate, _residual
    cdef vector[double] _size
    cdef vector[uint8_t] _known, _queued
    # Rows, where they are known: begin and end in the neighbours (numbers) and in their shares (which sum to 1).
    cdef vector[int64_t] _begin, _end, _neighbours
    cdef vector[double] _shares
    cdef vector[int64_t] _seeds
    cdef vector[double] _seed_shares
    cdef vector[int64_t] _queue, _wanted, _pushed
    cdef vector[int64_t] _masses
    # How likely the likeliest walk to each node is, once asked for, and what may come before each on such a walk.
    cdef vector[double] _likelihood
    cdef vector[int64_t] _before
    cdef vector[Way] _ways
    # What left dead ends, on its way back to the seeds.
    cdef int64_t _returning
    cdef readonly int64_t pushes, rows
    #: The sizes of all pushes added up.
    cdef readonly double work

    def __cinit__(self, const uint64_t[::1] seeds not None, const double[::1] masses not None,
                  const double[::1] sizes not None, double restart, double epsilon) -> None:
        """Masses are above 0 and sum to 1; sizes are at least 1; restart and epsilon lie between 0 and 1.

        Raises ValueError where they do not, where the arrays are of different lengths, and where restart · epsilon is
        so small that the pushes would not end.
        """
        cdef Py_ssize_t i
        cdef int64_t number
        cdef double total = 0
        if not (0 < restart < 1 and 0 < epsilon < 1 and restart * epsilon >= SMALLEST_STEP):
            raise ValueError(f"restart {restart} and epsilon {epsilon} do not lie between 0 and 1, or their product is "
                             f"below {SMALLEST_STEP}")
        if not seeds.shape[0] == masses.shape[0] == sizes.shape[0]:
            raise ValueError(f"{seeds.shape[0]} seeds have {masses.shape[0]} masses and {sizes.shape[0]} sizes")
        for i in range(seeds.shape[0]):
            if not (masses[i] > 0 and 1 <= sizes[i] < INFINITY):
                raise ValueError(f"seed {i} has mass {masses[i]} and size {sizes[i]}")
            total += masses[i]
        if seeds.shape[0] and not -1e-6 <= total - 1 <= 1e-6:
            raise ValueError(f"the masses of the seeds sum to {total}, not to 1")
        self._restart = restart
        self._epsilon = epsilon
        self._table.assign(1 << 10, 0)
        for i in range(seeds.shape[0]):
            number = self._number(seeds[i], sizes[i])
            self._seeds.push_back(number)
            self._seed_shares.push_back(masses[i])
            self._receive(number, <int64_t> (masses[i] * ONE))

    cdef int64_t _number(self, uint64_t node, double size) noexcept nogil:
        """The number of a node, which is new with this size where it has not been met."""
        cdef uint64_t mask = self._table.size() - 1
        cdef uint64_t place = mixed(node) & mask
        cdef int64_t number
        while self._table[place]:
            if self._nodes[self._table[place] - 1] == node:
                return self._table[place] - 1
            place = (place + 1) & mask
        number = self._nodes.size()
        self._nodes.push_back(node)
        self._estimate.push_back(0)
        self._residual.push_back(0)
        self._size.push_back(size)
        self._known.push_back(0)
        self._queued.push_back(0)
        self._begin.push_back(0)
        self._end.push_back(0)
        self._table[place] = number + 1
        if 2 * self._nodes.size() > self._table.size():
            self._grow()
        return number

    cdef void _grow(self) noexcept nogil:
        cdef uint64_t mask = 2 * self._table.size() - 1, place
        cdef size_t number
        self._table.assign(mask + 1, 0)
        for number in range(self._nodes.size()):
            place = mixed(self._nodes[number]) & mask
            while self._table[place]:
                place = (place + 1) & mask
            self._table[place] = number + 1

    cdef inline void _receive(self, int64_t number, int64_t mass) noexcept nogil:
        self._residual[number] += mass
        if not self._queued[number] and self._residual[number] > self._epsilon * self._size[number] * ONE:
            self._queued[number] = 1
            self._queue.push_back(number)

    def add_rows(self, const uint64_t[::1] nodes not None, const int64_t[::1] bounds not None,
                 const uint64_t[::1] neighbours not None, const double[::1] weights not None,
                 const double[::1] sizes not None) -> None:
        """Rows of nodes, in any order: row i is ``neighbours[bounds[i]:bounds[i + 1]]``, with the weights of its edges.

        Weights are not negative; a row whose weights sum to 0 is a dead end. ``sizes`` are those of the neighbours,
        for nodes met the first time, 1 or more. A row that came before is passed over. Raises ValueError, and changes
        nothing, where bounds lead outside the arrays, these are of different lengths, or a number is out of range.
        """
        cdef Py_ssize_t i, j
        cdef int64_t number, total, weight
        cdef double greatest, scale
        cdef int exponent
        cdef Py_ssize_t count = neighbours.shape[0]
        if bounds.shape[0] != nodes.shape[0] + 1 or weights.shape[0] != count or sizes.shape[0] != count:
            raise ValueError(f"{nodes.shape[0]} rows have {bounds.shape[0]} bounds, and {count} neighbours "
                             f"{weights.shape[0]} weights and {sizes.shape[0]} sizes")
        if not 0 <= bounds[0] <= bounds[nodes.shape[0]] <= count:
            raise ValueError(f"bounds go from {bounds[0]} to {bounds[nodes.shape[0]]}, the neighbours from 0 to {count}")
        for i in range(nodes.shape[0]):
            if bounds[i] > bounds[i + 1] or bounds[i] + MOST_NEIGHBOURS < bounds[i + 1]:
                raise ValueError(f"row {i} goes from {bounds[i]} to {bounds[i + 1]}: 0 to {MOST_NEIGHBOURS} neighbours")
        for j in range(bounds[0], bounds[nodes.shape[0]]):
            if not (0 <= weights[j] < INFINITY and 1 <= sizes[j] < INFINITY):
                raise ValueError(f"neighbour {j} has weight {weights[j]} and size {sizes[j]}")
        with nogil:
            for i in range(nodes.shape[0]):
                number = self._number(nodes[i], 1)
                if self._known[number]:
                    continue
                total, greatest = 0, 0
                for j in range(bounds[i], bounds[i + 1]):
                    greatest = max(greatest, weights[j])
                frexp(greatest, &exponent)
                scale = ldexp(1, WEIGHT_BITS - exponent) if exponent >= LEAST_EXPONENT else 0
                for j in range(bounds[i], bounds[i + 1]):
                    total += <int64_t> (scale * weights[j])
                self._begin[number] = self._neighbours.size()
                if total > 0:
                    for j in range(bounds[i], bounds[i + 1]):
                        weight = <int64_t> (scale * weights[j])
                        if weight > 0:
                            self._neighbours.push_back(self._number(neighbours[j], sizes[j]))
                            self._shares.push_back(<double> weight / <double> total)
                self._end[number] = self._neighbours.size()
                self._known[number] = 1
                self.rows += 1

    def run(self):
        """Push as far as the rows go; returns the nodes whose rows are wanted (u64), in no order; none when it is
        done."""
        with nogil:
            self._queue.insert(self._queue.end(), self._wanted.begin(), self._wanted.end())
            self._wanted.clear()
            self._push_all()
        return self._nodes_of(self._wanted)

    cdef void _push_all(self) noexcept nogil:
        cdef int64_t mass
        cdef size_t i
        while True:
            while not self._queue.empty():
                self._push_round()
            if not self._wanted.empty() or self._returning == 0:
                return
            mass = self._returning
            self._returning = 0
            for i in range(self._seeds.size()):
                self._receive(self._seeds[i], <int64_t> (mass * self._seed_shares[i]))

    cdef void _push_round(self) noexcept nogil:
        """Push every queued node whose row is known, all with what had arrived before."""
        cdef int64_t node, j, mass, kept
        cdef size_t i
        self._pushed.clear()
        self._masses.clear()
        for i in range(self._queue.size()):
            node = self._queue[i]
            if not self._known[node]:
                # It stays marked as queued, and is when its row has come.
                self._wanted.push_back(node)
                continue
            self._queued[node] = 0
            mass = self._residual[node]
            kept = <int64_t> (self._restart * mass)
            self._residual[node] = 0
            self._estimate[node] += kept
            self._pushed.push_back(node)
            self._masses.push_back(mass - kept)
            self.pushes += 1
            self.work += self._size[node]
        self._queue.clear()
        for i in range(self._pushed.size()):
            node, mass = self._pushed[i], self._masses[i]
            if self._begin[node] == self._end[node]:
                self._returning += mass
            for j in range(self._begin[node], self._end[node]):
                self._receive(self._neighbours[j], <int64_t> (mass * self._shares[j]))

    def masses(self):
        """Every node met (u64) with its mass (f64), and how much of the total mass of 1 is still missing from them."""
        cdef size_t i
        cdef int64_t missing = 0, kept
        cdef vector[int64_t] numbers
        for i in range(self._nodes.size()):
            numbers.push_back(i)
        found = np.empty(numbers.size(), np.float64)
        cdef double[::1] out = found
        for i in range(numbers.size()):
            # What a push would keep of the residual is certain already.
            kept = <int64_t> (self._restart * self._residual[i])
            out[i] = <double> (self._estimate[i] + kept) / ONE
            missing += self._residual[i] - kept
        return self._nodes_of(numbers), found, <double> missing / ONE

    def before(self, uint64_t node):
        """The nodes (u64), in no order, that come before a node on the likeliest walks to it from a seed: the node itself
        where such a walk begins; none where no walk leads there.

        To be called when :meth:`run` wants nothing any more. Dijkstra 1959 over the rows that came, where the length of
        an edge is -ln of its share; found for all nodes at once, and again when further ones have been met.
        """
        cdef uint64_t mask = self._table.size() - 1
        cdef uint64_t place = mixed(node) & mask
        cdef int64_t number
        cdef size_t i
        cdef vector[int64_t] found
        if self._before.size() != self._nodes.size():
            with nogil:
                self._find_ways()
        while self._table[place] and self._nodes[self._table[place] - 1] != node:
            place = (place + 1) & mask
        number = self._table[place] - 1
        if number >= 0 and self._before[number] >= 0:
            found.push_back(self._before[number])
            for i in range(self._ways.size()):
                if self._ways[i].node == number and self._ways[i].likelihood == self._likelihood[number]:
                    found.push_back(self._ways[i].before)
        return self._nodes_of(found)

    cdef void _find_ways(self) noexcept nogil:
        """For every node one before it on a likeliest walk: itself at the start of one, -1 where there is none; and the
        others that are as good."""
        cdef priority_queue[pair[double, int64_t]] waiting
        cdef pair[double, int64_t] nearest
        cdef double further
        cdef int64_t j, other
        cdef size_t i
        cdef Way way
        self._likelihood.assign(self._nodes.size(), 0)
        self._before.assign(self._nodes.size(), -1)
        self._ways.clear()
        for i in range(self._seeds.size()):
            self._likelihood[self._seeds[i]] = self._seed_shares[i]
            self._before[self._seeds[i]] = self._seeds[i]
            waiting.push(pair[double, int64_t](self._seed_shares[i], self._seeds[i]))
        while not waiting.empty():
            nearest = waiting.top()
            waiting.pop()
            if nearest.first < self._likelihood[nearest.second]:
                continue
            for j in range(self._begin[nearest.second], self._end[nearest.second]):
                further = nearest.first * (1 - self._restart) * self._shares[j]
                other = self._neighbours[j]
                if further > self._likelihood[other]:
                    self._likelihood[other] = further
                    self._before[other] = nearest.second
                    waiting.push(pair[double, int64_t](further, other))
                elif further == self._likelihood[other] and further > 0:
                    way.node, way.before, way.likelihood = other, nearest.second, further
                    self._ways.push_back(way)

    cdef object _nodes_of(self, const vector[int64_t]& numbers):
        cdef size_t i
        found = np.empty(numbers.size(), np.uint64)
        cdef uint64_t[::1] out = found
        for i in range(numbers.size()):
            out[i] = self._nodes[numbers[i]]
        return found
