# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Sentences about places in the entity forest, from decoded nodes (CFT-RAG, Algorithm 3).

In: nodes, and a callable that decodes one when it is first needed: (name, tree, parents, children), the names in UTF-8.
Out: for each node a sentence with the first ancestors and descendants, nearest first. Nodes stay decoded, so the forest
must not change meanwhile.
"""

from cython.operator cimport dereference
from libc.stdint cimport uint64_t
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from threading import Lock


cdef struct Place:
    string name
    string tree
    vector[uint64_t] parents
    vector[uint64_t] children


cdef class Places:
    """Decoded nodes; at most ``relatives`` ancestors and as many descendants of each are told.

    When there are ``most``, all are forgotten. Several threads may ask: decoding a node may let another one in.
    """

    cdef unordered_map[uint64_t, Place] places
    cdef object load
    cdef object lock
    cdef size_t relatives
    cdef size_t most

    def __init__(self, size_t relatives, size_t most) -> None:
        self.lock = Lock()
        self.relatives = relatives
        self.most = most

    def sentences(self, nodes, load) -> list:
        """A sentence for each node: ``a (in tree) is under b, c; above d, e``."""
        with self.lock:
            if self.places.size() >= self.most:
                self.places.clear()
            self.load = load
            try:
                return [self._sentence(node) for node in nodes]
            finally:
                self.load = None

    cdef str _sentence(self, uint64_t node):
        cdef Place* place = self._place(node)
        cdef vector[uint64_t] above = self._near(node, True), below = self._near(node, False)
        cdef string text = place.name
        text.append(b" (in ").append(place.tree).append(b")")
        if above.size():
            text.append(b" is under ")
            self._join(&text, above)
        if below.size():
            text.append(b"; above " if above.size() else b" is above ")
            self._join(&text, below)
        return text.decode("utf-8")

    cdef Place* _place(self, uint64_t node) except NULL:
        cdef unordered_map[uint64_t, Place].iterator found = self.places.find(node)
        cdef Place place
        if found == self.places.end():
            name, tree, parents, children = self.load(node)
            place.name, place.tree = name, tree
            place.parents, place.children = parents, children
            self.places[node] = place
            return &self.places[node]
        return &dereference(found).second

    cdef vector[uint64_t] _near(self, uint64_t node, bint up) except *:
        cdef vector[uint64_t] found
        cdef vector[uint64_t]* others
        cdef Place* place
        cdef size_t gone_on = 0, i, j
        cdef uint64_t here = node
        while True:
            place = self._place(here)
            others = &place.parents if up else &place.children
            for i in range(others.size()):
                if found.size() == self.relatives:
                    return found
                j = 0
                while j < found.size() and found[j] != others[0][i]:
                    j += 1
                if j == found.size():
                    found.push_back(others[0][i])
            if gone_on == found.size() or found.size() == self.relatives:
                return found
            here = found[gone_on]
            gone_on += 1

    cdef int _join(self, string* text, vector[uint64_t]& nodes) except -1:
        cdef size_t i
        for i in range(nodes.size()):
            if i:
                text.append(b", ")
            text.append(self._place(nodes[i]).name)
        return 0
