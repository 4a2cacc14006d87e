# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Sentences about places in the entity forest, from decoded nodes (CFT-RAG, Algorithm 3).

In: nodes, and a callable that decodes one when it is first needed: (name, tree, parents, children), the names in UTF-8.
Out: for each node a sentence with the first ancestors and descendants, nearest first. Nodes stay decoded, and sentences
as they were told, so the forest must not change meanwhile. Names and neighbours lie one behind the other in the order in which they were first needed,
so that a node and its relatives share cache lines.
"""

from cython.operator cimport dereference
from libc.stdint cimport uint32_t, uint64_t
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from threading import Lock


cdef struct Place:
    uint64_t name      # where it begins in the texts, and its bytes
    uint64_t tree
    uint32_t name_size
    uint32_t tree_size
    uint64_t others    # where the parents begin among the neighbours, and after them the children
    uint32_t parents
    uint32_t children


cdef class Places:
    """Decoded nodes; at most ``relatives`` ancestors and as many descendants of each are told.

    When there are ``most``, all are forgotten. Several threads may ask: decoding a node may let another one in.
    """

    cdef unordered_map[uint64_t, Place] places
    cdef unordered_map[string, uint64_t] trees
    cdef string texts
    cdef vector[uint64_t] others
    cdef vector[uint64_t] found
    cdef string sentence
    cdef dict told
    cdef object load
    cdef object lock
    cdef size_t relatives
    cdef size_t most

    def __cinit__(self, size_t relatives, size_t most) -> None:
        self.lock = Lock()
        self.told = {}
        self.relatives = relatives
        self.most = most

    def sentences(self, nodes, load) -> list:
        """A sentence for each node: ``a (in tree) is under b, c; above d, e``."""
        with self.lock:
            if self.places.size() >= self.most:
                self.told.clear()
                self.places.clear()
                self.trees.clear()
                self.texts.clear()
                self.others.clear()
            self.load = load
            try:
                return [self._told(node) for node in nodes]
            finally:
                self.load = None

    cdef str _told(self, node):
        told = self.told.get(node)
        if told is None:
            told = self.told[node] = self._sentence(node)
        return told

    cdef str _sentence(self, uint64_t node):
        cdef Place place = self._place(node)
        self.sentence.clear()
        self.sentence.append(self.texts, place.name, place.name_size)
        self.sentence.append(b" (in ").append(self.texts, place.tree, place.tree_size).append(b")")
        self._near(node, True)
        self._tell(b" is under ")
        above = self.found.size()
        self._near(node, False)
        self._tell(b"; above " if above else b" is above ")
        return self.sentence.decode("utf-8")

    cdef Place _place(self, uint64_t node) except *:
        cdef unordered_map[uint64_t, Place].iterator known = self.places.find(node)
        cdef Place place
        cdef string text
        if known != self.places.end():
            return dereference(known).second
        name, tree, parents, children = self.load(node)
        text = name
        place.name, place.name_size = self.texts.size(), <uint32_t> text.size()
        self.texts.append(text)
        text = tree
        if not self.trees.count(text):
            self.trees[text] = self.texts.size()
            self.texts.append(text)
        place.tree, place.tree_size = self.trees[text], <uint32_t> text.size()
        place.others = self.others.size()
        for other in parents:
            self.others.push_back(other)
        place.parents = <uint32_t> (self.others.size() - place.others)
        for other in children:
            self.others.push_back(other)
        place.children = <uint32_t> (self.others.size() - place.others - place.parents)
        self.places[node] = place
        return place

    cdef int _near(self, uint64_t node, bint up) except -1:
        """Put the first ancestors (or descendants) of a node, nearest first, into ``found``."""
        cdef Place place
        cdef size_t gone_on = 0, at, end, known
        cdef uint64_t here = node
        self.found.clear()
        while True:
            place = self._place(here)
            at = place.others + (0 if up else place.parents)
            end = at + (place.parents if up else place.children)
            while at < end:
                if self.found.size() == self.relatives:
                    return 0
                known = 0
                while known < self.found.size() and self.found[known] != self.others[at]:
                    known += 1
                if known == self.found.size():
                    self.found.push_back(self.others[at])
                at += 1
            if gone_on == self.found.size() or self.found.size() == self.relatives:
                return 0
            here = self.found[gone_on]
            gone_on += 1

    cdef int _tell(self, const char* lead) except -1:
        """Add the names of ``found`` to the sentence, behind ``lead``."""
        cdef Place place
        cdef size_t i
        for i in range(self.found.size()):
            place = self._place(self.found[i])
            self.sentence.append(lead)
            self.sentence.append(self.texts, place.name, place.name_size)
            lead = b", "
        return 0
