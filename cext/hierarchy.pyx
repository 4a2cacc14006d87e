# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Sentences about the ancestors and descendants of nodes of the entity forest (CFT-RAG, Algorithm 3).

In: nodes, and a callable that decodes a node when it is first needed: (name, tree, parents, children), with names in
UTF-8. Out: a sentence for each node, with its first ancestors and descendants, nearest first. Decoded nodes and
sentences are cached, so the forest must not change meanwhile. Names and neighbors are stored in the order of their
first use, so that a node and its relatives share cache lines.
"""

from cython.operator cimport dereference
from libc.stdint cimport uint32_t, uint64_t
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from threading import Lock


cdef struct Node:
    # The name and the tree are parts of ``texts``; the parents, then the children, are a part of ``neighbors``.
    uint64_t name_start
    uint64_t tree_start
    uint64_t neighbors_start
    uint32_t name_size  # in bytes
    uint32_t tree_size
    uint32_t num_parents
    uint32_t num_children


cdef class NodeSentences:
    """A cache of decoded nodes. A sentence names at most ``max_relatives`` ancestors and as many descendants.

    When the cache has ``max_nodes`` nodes, it is cleared. Several threads may use it: decoding a node may switch
    threads.
    """

    cdef unordered_map[uint64_t, Node] nodes
    cdef unordered_map[string, uint64_t] trees
    cdef string texts
    cdef vector[uint64_t] neighbors
    cdef vector[uint64_t] collected
    cdef string sentence
    cdef dict cached_sentences
    cdef object load
    cdef object lock
    cdef size_t max_relatives
    cdef size_t max_nodes

    def __cinit__(self, size_t max_relatives, size_t max_nodes) -> None:
        """Create an empty cache of at most ``max_nodes`` nodes.

        A sentence names at most ``max_relatives`` ancestors and as many descendants.
        """
        self.lock = Lock()
        self.cached_sentences = {}
        self.max_relatives = max_relatives
        self.max_nodes = max_nodes

    def describe(self, nodes, load) -> list:
        """Return a sentence for each node: ``a (in tree) is under b, c; above d, e``.

        ``load`` returns (name, tree, parents, children) of a node that is not in the cache: two UTF-8 byte strings, and
        two sequences of nodes.
        """
        with self.lock:
            if self.nodes.size() >= self.max_nodes:
                self.cached_sentences.clear()
                self.nodes.clear()
                self.trees.clear()
                self.texts.clear()
                self.neighbors.clear()
            self.load = load
            try:
                return [self._get_sentence(node) for node in nodes]
            finally:
                self.load = None

    cdef str _get_sentence(self, node):
        """Return the cached sentence of a node, or build it."""
        sentence = self.cached_sentences.get(node)
        if sentence is None:
            sentence = self.cached_sentences[node] = self._build_sentence(node)
        return sentence

    cdef str _build_sentence(self, uint64_t node):
        """Build the sentence about a node: its name and tree, the names of its ancestors, those of its descendants."""
        cdef Node record = self._get_node(node)
        self.sentence.clear()
        self.sentence.append(self.texts, record.name_start, record.name_size)
        self.sentence.append(b" (in ").append(self.texts, record.tree_start, record.tree_size).append(b")")
        self._collect_relatives(node, True)
        self._append_names(b" is under ")
        has_ancestors = self.collected.size() > 0
        self._collect_relatives(node, False)
        self._append_names(b"; above " if has_ancestors else b" is above ")
        return self.sentence.decode("utf-8")

    cdef Node _get_node(self, uint64_t node) except *:
        """Return the cached record of a node (its names and relatives); a new record is read with ``self.load``."""
        cdef unordered_map[uint64_t, Node].iterator cached = self.nodes.find(node)
        cdef Node record
        cdef string text
        if cached != self.nodes.end():
            return dereference(cached).second
        name, tree, parents, children = self.load(node)
        text = name
        record.name_start, record.name_size = self.texts.size(), <uint32_t> text.size()
        self.texts.append(text)
        text = tree
        if not self.trees.count(text):
            self.trees[text] = self.texts.size()
            self.texts.append(text)
        record.tree_start, record.tree_size = self.trees[text], <uint32_t> text.size()
        record.neighbors_start = self.neighbors.size()
        for neighbor in parents:
            self.neighbors.push_back(neighbor)
        record.num_parents = <uint32_t> (self.neighbors.size() - record.neighbors_start)
        for neighbor in children:
            self.neighbors.push_back(neighbor)
        record.num_children = <uint32_t> (self.neighbors.size() - record.neighbors_start - record.num_parents)
        self.nodes[node] = record
        return record

    cdef int _collect_relatives(self, uint64_t node, bint up) except -1:
        """Collect the ancestors of a node if ``up``, else its descendants: the nearest, at most ``max_relatives``."""
        cdef Node record
        cdef size_t next_index = 0, position, end, index
        cdef uint64_t current_node = node
        self.collected.clear()
        while True:
            record = self._get_node(current_node)
            position = record.neighbors_start + (0 if up else record.num_parents)
            end = position + (record.num_parents if up else record.num_children)
            while position < end:
                if self.collected.size() == self.max_relatives:
                    return 0
                index = 0
                while index < self.collected.size() and self.collected[index] != self.neighbors[position]:
                    index += 1
                if index == self.collected.size():
                    self.collected.push_back(self.neighbors[position])
                position += 1
            if next_index == self.collected.size() or self.collected.size() == self.max_relatives:
                return 0
            current_node = self.collected[next_index]
            next_index += 1

    cdef int _append_names(self, const char* separator) except -1:
        """Append the names of the nodes in ``collected`` to the sentence: ``separator``, then the names with commas."""
        cdef Node record
        cdef size_t i
        for i in range(self.collected.size()):
            record = self._get_node(self.collected[i])
            self.sentence.append(separator)
            self.sentence.append(self.texts, record.name_start, record.name_size)
            separator = b", "
        return 0
