# Bloom filters of the tokens of texts, and of pairs of adjacent tokens. They can prove that a name does not occur.
#
# There is a filter (Bloom 1970) for each chunk, and one for the title and headings of each document. It contains the
# tokens of recognition.pxi and each two consecutive ones with the space between them. A name can occur only if the bits
# of all its tokens and pairs are set.

cdef enum:
    _BITS_PER_ITEM = 8
    _PROBES = 3
    _TRACE_OVERHEAD = 96      # bytes of overhead per text


cdef inline uint64_t _hash_bytes(const uint8_t* cursor, const uint8_t* end) noexcept nogil:
    """Return the hash of the bytes between two positions."""
    cdef uint64_t value = 0xCBF29CE484222325ULL  # FNV-1a
    while cursor < end:
        value = (value ^ cursor[0]) * 0x100000001B3ULL
        cursor += 1
    # FNV-1a mixes too few bytes into the upper bits: apply the last steps of murmur3.
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCDULL
    return value ^ value >> 33


cdef int _add_items(const uint8_t* data, size_t n, vector[uint64_t]& items) except -1 nogil:
    """Append the hashes of the tokens of a text, and of each pair of consecutive tokens, to ``items``."""
    cdef vector[Token] tokens
    cdef vector[uint8_t] copy
    cdef size_t i
    _tokenize(data, n, None, tokens, copy)
    for i in range(tokens.size()):
        items.push_back(_hash_bytes(copy.data() + tokens[i].start, copy.data() + tokens[i].end))
        if i:
            items.push_back(_hash_bytes(copy.data() + tokens[i - 1].start, copy.data() + tokens[i].end))
    return 0


cdef inline uint64_t _get_probe_bit(uint64_t item, int probe, uint64_t bits) noexcept nogil:
    """Return the position of bit number ``probe`` of an item (a hash) in a Bloom filter of ``bits`` bits.

    The positions are those of double hashing (Kirsch and Mitzenmacher 2006).
    """
    cdef uint32_t mixed = <uint32_t> item + <uint32_t> probe * (<uint32_t> (item >> 32) | 1)
    return <uint64_t> mixed * bits >> 32


cdef int _set_bits(const vector[uint64_t]& items, vector[uint64_t]& bits) except -1 nogil:
    """Append the Bloom filter of some items (hashes of the tokens of a text) to ``bits``."""
    cdef size_t first = bits.size(), i
    cdef uint64_t num_words = (items.size() * _BITS_PER_ITEM + 63) // 64, bit
    cdef int probe
    bits.resize(first + num_words)
    for i in range(items.size()):
        for probe in range(_PROBES):
            bit = _get_probe_bit(items[i], probe, 64 * num_words)
            bits[first + (bit >> 6)] |= <uint64_t> 1 << (bit & 63)
    return 0


cdef bint _has_items(const vector[uint64_t]& items, const vector[uint64_t]& bits, size_t first) noexcept nogil:
    """True if a trace, the Bloom filter in ``bits`` from index ``first`` on, may contain all items (hashes)."""
    cdef uint64_t num_words = bits.size() - first, bit
    cdef size_t i
    cdef int probe
    if not num_words:
        return False
    for i in range(items.size()):
        for probe in range(_PROBES):
            bit = _get_probe_bit(items[i], probe, 64 * num_words)
            if not bits[first + (bit >> 6)] >> (bit & 63) & 1:
                return False
    return True


cdef class TextTraces:
    """Traces of the texts of recent documents, in at most ``max_bytes`` of memory. The oldest are dropped first.

    A trace is a Bloom filter of the words of a chunk, or of a title and headings: it can show that a name is not there.
    """

    cdef unordered_map[uint64_t, vector[uint64_t]] _chunks     # by chunk: document and bits
    cdef unordered_map[uint64_t, vector[uint64_t]] _documents  # by document: number of chunks, chunks, bits
    cdef deque[uint64_t] _order
    cdef readonly size_t held_bytes
    cdef size_t _max_bytes

    def __init__(self, size_t max_bytes):
        """Start without traces; they may use at most ``max_bytes`` bytes."""
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        """Return the number of chunks with a trace."""
        return <Py_ssize_t> self._chunks.size()

    def add(self, uint64_t document, list headings not None, dict chunks not None) -> None:
        """Add a document: its title and headings, and the texts of its chunks by id, all in normal form.

        Raises ValueError unless its id is above those added before.
        """
        cdef vector[uint64_t] items
        cdef vector[uint64_t]* bits
        cdef bytes data
        cdef uint64_t chunk
        if self._order.size() and document <= self._order.back():
            raise ValueError(f"document {document} cannot be added after document {self._order.back()}")
        for data in headings:
            _prepare_text(data)
            _add_items(data, len(data), items)
        bits = &self._documents[document]
        bits.push_back(len(chunks))
        for chunk in chunks:
            bits.push_back(chunk)
        _set_bits(items, bits[0])
        self._order.push_back(document)
        self.held_bytes += _TRACE_OVERHEAD + 8 * bits.size()
        for chunk, data in chunks.items():
            items.clear()
            _prepare_text(data)
            _add_items(data, len(data), items)
            bits = &self._chunks[chunk]
            bits.clear()
            bits.push_back(document)
            _set_bits(items, bits[0])
            self.held_bytes += _TRACE_OVERHEAD + 8 * bits.size()
        while self.held_bytes > self._max_bytes:
            self._forget(self._order.front())
            self._order.pop_front()

    def remove_from(self, uint64_t document) -> None:
        """Remove the documents with ids of at least ``document``."""
        while self._order.size() and self._order.back() >= document:
            self._forget(self._order.back())
            self._order.pop_back()

    cdef int _forget(self, uint64_t document) except -1:
        """Remove the traces of a document and its chunks."""
        cdef vector[uint64_t]* bits = &self._documents[document]
        cdef size_t i
        for i in range(1, 1 + bits[0][0]):
            self.held_bytes -= _TRACE_OVERHEAD + 8 * self._chunks[bits[0][i]].size()
            self._chunks.erase(bits[0][i])
        self.held_bytes -= _TRACE_OVERHEAD + 8 * bits.size()
        self._documents.erase(document)
        return 0

    def select_candidates(self, bytes key not None, const uint64_t[::1] chunks not None) -> bytes:
        """Return those of ``chunks`` in which, or in whose headings, a key may occur, in their order, packed as u64.

        A chunk is dropped only if the traces (Bloom filters) of both exclude the key. ``key`` is the normal form of a
        name.
        """
        cdef vector[uint64_t] items, candidates
        cdef unordered_map[uint64_t, vector[uint64_t]].iterator chunk, document
        cdef Py_ssize_t i
        _prepare_text(key)
        _add_items(key, len(key), items)
        for i in range(chunks.shape[0]):
            chunk = self._chunks.find(chunks[i])
            if chunk != self._chunks.end() and not _has_items(items, deref(chunk).second, 1):
                document = self._documents.find(deref(chunk).second[0])
                if not _has_items(items, deref(document).second, 1 + deref(document).second[0]):
                    continue
            candidates.push_back(chunks[i])
        return PyBytes_FromStringAndSize(<const char*> candidates.data(), 8 * candidates.size())
