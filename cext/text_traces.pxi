# Which tokens stand in a text and which of them side by side, as bits: what tells that a name is not there.
#
# A Bloom filter (Bloom 1970) of each chunk, and of what stands above the chunks of each document, with the tokens of
# recognition.pxi and every two of them in a row, with the space between. A name occurs only where all of its tokens,
# or of several all in a row, have their bits.

cdef enum:
    _BITS_AN_ITEM = 8
    _PROBES = 3
    _TRACE_OVERHEAD = 96      # bytes of a text beside its bits


cdef inline uint64_t _hash_bytes(const uint8_t* at, const uint8_t* end) noexcept nogil:
    cdef uint64_t value = 0xCBF29CE484222325ULL  # FNV-1a
    while at < end:
        value = (value ^ at[0]) * 0x100000001B3ULL
        at += 1
    # Its upper bits follow from too few bytes: murmur3's last steps mix them.
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCDULL
    return value ^ value >> 33


cdef int _add_items(const uint8_t* data, size_t n, vector[uint64_t]& items) except -1 nogil:
    """The hashes of the tokens of a text, and of every two in a row."""
    cdef vector[Token] tokens
    cdef vector[uint8_t] copy
    cdef size_t i
    _tokenise(data, n, None, tokens, copy)
    for i in range(tokens.size()):
        items.push_back(_hash_bytes(copy.data() + tokens[i].start, copy.data() + tokens[i].end))
        if i:
            items.push_back(_hash_bytes(copy.data() + tokens[i - 1].start, copy.data() + tokens[i].end))
    return 0


cdef inline uint64_t _probe(uint64_t item, int number, uint64_t bits) noexcept nogil:
    """One of the bits of an item among so many (Kirsch and Mitzenmacher 2006)."""
    cdef uint32_t mixed = <uint32_t> item + <uint32_t> number * (<uint32_t> (item >> 32) | 1)
    return <uint64_t> mixed * bits >> 32


cdef int _set_bits(const vector[uint64_t]& items, vector[uint64_t]& bits) except -1 nogil:
    """A filter of some items, behind what ``bits`` holds before."""
    cdef size_t first = bits.size(), i
    cdef uint64_t words = (items.size() * _BITS_AN_ITEM + 63) // 64, place
    cdef int number
    bits.resize(first + words)
    for i in range(items.size()):
        for number in range(_PROBES):
            place = _probe(items[i], number, 64 * words)
            bits[first + (place >> 6)] |= <uint64_t> 1 << (place & 63)
    return 0


cdef bint _has_items(const vector[uint64_t]& items, const vector[uint64_t]& bits, size_t first) noexcept nogil:
    cdef uint64_t words = bits.size() - first, place
    cdef size_t i
    cdef int number
    if not words:
        return False
    for i in range(items.size()):
        for number in range(_PROBES):
            place = _probe(items[i], number, 64 * words)
            if not bits[first + (place >> 6)] >> (place & 63) & 1:
                return False
    return True


cdef class TextTraces:
    """Traces of the chunks of the documents noted last, in ``most_bytes`` of memory or less; those noted first go
    first."""

    cdef unordered_map[uint64_t, vector[uint64_t]] _chunks     # by chunk: its document, then its bits
    cdef unordered_map[uint64_t, vector[uint64_t]] _documents  # by document: how many chunks, these, then its bits
    cdef deque[uint64_t] _order
    cdef readonly size_t held
    cdef size_t _most_bytes

    def __init__(self, size_t most_bytes):
        self._most_bytes = most_bytes

    def __len__(self) -> int:
        return <Py_ssize_t> self._chunks.size()

    def note(self, uint64_t document, list above not None, dict chunks not None) -> None:
        """Note a document of a greater number than any before: the texts above its chunks, and those of its chunks by their
        numbers; all in normal form."""
        cdef vector[uint64_t] items
        cdef vector[uint64_t]* bits
        cdef bytes data
        cdef uint64_t chunk
        if self._order.size() and document <= self._order.back():
            raise ValueError(f"document {document} is noted behind document {self._order.back()}")
        for data in above:
            _begin(data)
            _add_items(data, len(data), items)
        bits = &self._documents[document]
        bits.push_back(len(chunks))
        for chunk in chunks:
            bits.push_back(chunk)
        _set_bits(items, bits[0])
        self._order.push_back(document)
        self.held += _TRACE_OVERHEAD + 8 * bits.size()
        for chunk, data in chunks.items():
            items.clear()
            _begin(data)
            _add_items(data, len(data), items)
            bits = &self._chunks[chunk]
            bits.clear()
            bits.push_back(document)
            _set_bits(items, bits[0])
            self.held += _TRACE_OVERHEAD + 8 * bits.size()
        while self.held > self._most_bytes:
            self._forget(self._order.front())
            self._order.pop_front()

    def forget_from(self, uint64_t document) -> None:
        """Forget the documents with this number and greater ones; each must have been noted with a greater one than
        those before it."""
        while self._order.size() and self._order.back() >= document:
            self._forget(self._order.back())
            self._order.pop_back()

    cdef int _forget(self, uint64_t document) except -1:
        cdef vector[uint64_t]* bits = &self._documents[document]
        cdef size_t i
        for i in range(1, 1 + bits[0][0]):
            self.held -= _TRACE_OVERHEAD + 8 * self._chunks[bits[0][i]].size()
            self._chunks.erase(bits[0][i])
        self.held -= _TRACE_OVERHEAD + 8 * bits.size()
        self._documents.erase(document)
        return 0

    def that_may_have(self, bytes key not None, const uint64_t[::1] chunks not None) -> bytes:
        """Those of some chunks, as an array of uint64 in the order given, in which or above which a key may occur: all
        but those whose traces tell that it does not."""
        cdef vector[uint64_t] items, found
        cdef unordered_map[uint64_t, vector[uint64_t]].iterator chunk, document
        cdef Py_ssize_t i
        _begin(key)
        _add_items(key, len(key), items)
        for i in range(chunks.shape[0]):
            chunk = self._chunks.find(chunks[i])
            if chunk != self._chunks.end() and not _has_items(items, deref(chunk).second, 1):
                document = self._documents.find(deref(chunk).second[0])
                if not _has_items(items, deref(document).second, 1 + deref(document).second[0]):
                    continue
            found.push_back(chunks[i])
        return PyBytes_FromStringAndSize(<const char*> found.data(), 8 * found.size())
