# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Compressed postings, and their changes, which are collected by term and applied to many blocks at once.

In: blocks as stored (posting_block.pxi), with the first chunk from their keys; terms of chunks that are removed and
added. Out: packed arrays, or the resulting blocks and the changes in the terms' numbers of postings and blocks. Bytes
that are not such a block raise ValueError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp
from libcpp.algorithm cimport lower_bound, reverse, sort
from libcpp.vector cimport vector

include "posting_block.pxi"

cdef enum:
    _MAX_BLOCK_POSTINGS = 1 << 30
    _FREQUENCIES = 256
    # The maximum size of a posting: a distance of 64 bits, a frequency and a length of 16 bits.
    _MAX_POSTING_BYTES = 10 + 1 + 3


cdef void _find_bounds(const Posting* postings, size_t count, vector[Posting]& bounds) noexcept:
    """Set ``bounds`` to the postings that no other dominates, in ascending order of frequency, and so of length.

    A posting dominates another if its frequency is not lower and its length not greater: its score is not lower.
    """
    cdef int32_t[_FREQUENCIES] min_lengths
    cdef int32_t min_length = 1 << 16  # above every length
    cdef Posting bound
    cdef size_t position
    cdef int frequency
    for frequency in range(_FREQUENCIES):
        min_lengths[frequency] = 1 << 16
    for position in range(count):
        if postings[position].length < min_lengths[postings[position].frequency]:
            min_lengths[postings[position].frequency] = postings[position].length
    bounds.clear()
    bound.chunk = 0
    for frequency in range(_FREQUENCIES - 1, -1, -1):
        if min_lengths[frequency] < min_length:
            min_length = min_lengths[frequency]
            bound.frequency, bound.length = <uint8_t> frequency, <uint16_t> min_length
            bounds.push_back(bound)
    reverse(bounds.begin(), bounds.end())


cdef inline uint8_t* _put_leb128(uint8_t* cursor, uint64_t number) noexcept:
    """Write a number as LEB128 to ``cursor``, which has room for it; return the address after it."""
    while number >= 128:
        cursor[0] = <uint8_t> (number | 128)
        cursor += 1
        number >>= 7
    cursor[0] = <uint8_t> number
    return cursor + 1


cdef void _write_payload(const Posting* postings, size_t count, vector[uint8_t]& out) noexcept:
    """Encode some postings of one term as the payload of a block in ``out``; posting_block.pxi has the format.

    A posting has a chunk that contains the term, the frequency of the term in it, and the length of the chunk.
    """
    cdef uint64_t chunk = postings[0].chunk, distance
    cdef vector[Posting] bounds
    cdef uint32_t crc
    cdef size_t position, size
    cdef uint8_t* cursor
    out.clear()
    _write_leb128(out, count)
    if count >= MIN_BOUNDED_POSTINGS:
        _find_bounds(postings, count, bounds)
        _write_leb128(out, bounds.size())
        for position in range(bounds.size()):
            out.push_back(bounds[position].frequency)
            _write_leb128(out, bounds[position].length)
        crc = kv_crc(out.data(), out.size())
        out.push_back(<uint8_t> crc)
        out.push_back(<uint8_t> (crc >> 8))
    size = out.size()
    out.resize(size + _MAX_POSTING_BYTES * count)  # at first more than needed, so that no byte needs a check
    cursor = out.data() + size
    for position in range(count):
        distance = postings[position].chunk - chunk
        chunk = postings[position].chunk
        if postings[position].frequency == 1:
            cursor = _put_leb128(cursor, distance << 1 | 1)
        else:
            cursor = _put_leb128(cursor, distance << 1)
            cursor[0] = postings[position].frequency
            cursor += 1
        cursor = _put_leb128(cursor, postings[position].length)
    out.resize(cursor - out.data())


def count_postings(payload) -> int:
    """Return the number of postings in the payload of a block."""
    cdef Py_buffer buffer
    cdef uint64_t count
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        _read_leb128(<const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + buffer.len, &count)
    finally:
        PyBuffer_Release(&buffer)
    return count


def unpack_postings(uint64_t first, payload) -> tuple:
    """Return the columns of a payload: chunks (packed u64), frequencies (bytes) and lengths of the chunks (packed u16).

    ``first`` is the first chunk, which is not in the payload. Raises ValueError if the payload or its bounds are
    invalid.
    """
    cdef vector[Posting] postings
    cdef vector[uint8_t] expected
    cdef Py_buffer buffer
    cdef size_t i
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        _read_postings(<const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + buffer.len, first, postings)
        if postings.size() >= MIN_BOUNDED_POSTINGS:
            _write_payload(postings.data(), postings.size(), expected)
            if <Py_ssize_t> expected.size() != buffer.len or memcmp(expected.data(), buffer.buf, buffer.len) != 0:
                raise ValueError("the bounds do not match the postings")
    finally:
        PyBuffer_Release(&buffer)
    chunks = PyBytes_FromStringAndSize(NULL, 8 * postings.size())
    frequencies = PyBytes_FromStringAndSize(NULL, postings.size())
    lengths = PyBytes_FromStringAndSize(NULL, 2 * postings.size())
    cdef uint64_t* chunk = <uint64_t*> <char*> chunks
    cdef uint8_t* frequency = <uint8_t*> <char*> frequencies
    cdef uint16_t* length = <uint16_t*> <char*> lengths
    for i in range(postings.size()):
        chunk[i] = postings[i].chunk
        frequency[i] = postings[i].frequency
        length[i] = postings[i].length
    return chunks, frequencies, lengths


cdef bytes _make_key(bytes prefix, uint64_t number, bytes suffix):
    """Return the key of a block: the prefix of its term, its first chunk as eight bytes (big-endian), and a suffix."""
    cdef uint8_t[8] packed
    _write_big_endian(packed, number, 8)
    return prefix + packed[:8] + suffix


cdef int _change_postings(
    const vector[Posting]& old,
    const vector[uint64_t]& removals,
    size_t first_removal,
    const vector[Posting]& additions,
    vector[Posting]& new,
) except -1:
    """Set ``new`` to the postings ``old`` without the chunks in ``removals``, followed by ``additions``.

    Removals before the index ``first_removal`` are for earlier blocks. All are in order of chunks. Raises ValueError if
    an added chunk does not follow all others.
    """
    cdef size_t index, begin, position = 0
    new.clear()
    for index in range(first_removal, removals.size()):
        begin = position
        while position < old.size() and old[position].chunk < removals[index]:
            position += 1
        new.insert(new.end(), old.begin() + begin, old.begin() + position)
        if position < old.size() and old[position].chunk == removals[index]:
            position += 1
    new.insert(new.end(), old.begin() + position, old.end())
    for index in range(additions.size()):
        if new.size() and additions[index].chunk <= new.back().chunk:
            raise ValueError("an added chunk is before an existing one")
        new.push_back(additions[index])
    return 0


cdef struct TermCount:
    # The postings of the term's last block before the change; the changes of the numbers of postings and blocks.
    uint64_t last
    int64_t postings, blocks
    bint is_known


cdef class PostingChanges:
    """Removed and added postings by term. :meth:`change_blocks` applies them to a term's blocks, the last one first."""

    cdef dict _slots
    cdef vector[TermCount] _counts
    cdef vector[vector[uint64_t]] _removed_chunks
    cdef vector[vector[Posting]] _added_postings
    cdef size_t _max_postings

    def __cinit__(self, size_t max_postings):
        """Begin without changes; a full block has ``max_postings``. Raises ValueError if that is not possible."""
        if not 0 < max_postings <= _MAX_BLOCK_POSTINGS:
            raise ValueError(f"a block can have 1 to {_MAX_BLOCK_POSTINGS} postings, not {max_postings}")
        self._slots = {}
        self._max_postings = max_postings

    def add(self, uint64_t chunk, counts, length) -> None:
        """Add the postings of a chunk: ``counts`` has each term's frequency, ``length`` is its number of words.

        Both are capped at their maximum.
        """
        cdef Posting posting
        cdef size_t slot
        posting.chunk, posting.length = chunk, min(length, 65535)
        for term, count in counts.items():
            slot = self._get_slot(term)
            posting.frequency = min(count, 255)
            self._added_postings[slot].push_back(posting)

    def remove(self, uint64_t chunk, terms) -> None:
        """Remove the postings of a chunk for some terms."""
        for term in terms:
            self._removed_chunks[self._get_slot(term)].push_back(chunk)

    def list_terms(self, among=None) -> list:
        """Return the terms with changes, sorted; with ``among``, only the terms that it contains."""
        if among is None:
            return sorted(self._slots)
        return sorted([term for term in set(among) if term in self._slots]) if self._slots else []

    def forget(self, terms) -> None:
        """Forget the changes of these terms; :meth:`change_blocks` must have applied all of them."""
        for term in terms:
            del self._slots[term]
        if not self._slots:
            self.clear()

    def clear(self) -> None:
        """Forget the changes of all terms."""
        self._slots.clear()
        self._removed_chunks.clear()
        self._added_postings.clear()
        self._counts.clear()

    def get_counts(self, terms) -> list:
        """Return for each term (size of its last block before, change of its postings, change of its blocks).

        Sizes are numbers of postings. Call it after :meth:`change_blocks`. Raises ValueError for a term without
        changes.
        """
        cdef TermCount count
        results: list = []
        for term in terms:
            slot = self._slots.get(term)
            if slot is None:
                raise ValueError(f"{term!r} has no changes")
            count = self._counts[slot]
            results.append((count.last, count.postings, count.blocks))
        return results

    def change_blocks(self, terms, prefixes, blocks, dict written) -> tuple:
        """Change one block of each of ``terms``, and return the terms with changes in earlier blocks.

        The first call changes the last block of each term. It returns three lists: the terms with changes in earlier
        blocks, their prefixes, and an upper limit of the keys of those blocks. The next call is for these terms and the
        last block of each below its limit, and so on. ``prefixes`` begin the keys of the terms' blocks. ``blocks`` are
        their keys and sealed values, None for a term without blocks. Keys and new values, None for a removed block, are
        added to ``written``. Raises ValueError, with the key, for a damaged block, or for an added chunk that is not
        above the remaining ones; and if the numbers of terms, prefixes and blocks differ or a term has no changes.
        """
        remaining: list = []
        remaining_prefixes: list = []
        stops: list = []
        cdef vector[Posting] old, new
        cdef vector[uint8_t] out
        cdef bytes prefix
        for term, prefix, block in zip(terms, prefixes, blocks, strict=True):
            slot = self._slots.get(term)
            if slot is None:
                raise ValueError(f"{term!r} has no changes")
            remaining_removals = self._change_block(slot, prefix, block, old, new, out, written)
            self._added_postings[slot].clear()
            if remaining_removals:
                remaining.append(term)
                remaining_prefixes.append(prefix)
                stops.append(_make_key(prefix, self._removed_chunks[slot].back(), b"\0"))
        return remaining, remaining_prefixes, stops

    cdef size_t _get_slot(self, term) except? 0:
        """Return the index of a term in the vectors of this class; a new term is appended."""
        cdef TermCount empty_count
        slot = self._slots.get(term)
        if slot is None:
            empty_count.last = empty_count.postings = empty_count.blocks = empty_count.is_known = 0
            self._counts.push_back(empty_count)
            slot = self._slots[term] = self._removed_chunks.size()
            self._removed_chunks.push_back(vector[uint64_t]())
            self._added_postings.push_back(vector[Posting]())
        return slot

    cdef size_t _change_block(
        self,
        size_t slot,
        bytes prefix,
        block,
        vector[Posting]& old,
        vector[Posting]& new,
        vector[uint8_t]& out,
        dict written,
    ) except? 0:
        """Apply the changes of a term to one block of its postings; return how many removals remain.

        They remain because their chunks are before the block. ``slot`` is the index of the term in the vectors of this
        class, ``prefix`` the beginning of the keys of its blocks, and ``block`` a key and a sealed value, or None.
        ``old``, ``new`` and ``out`` are working memory. Changed values, None for a removed block, are added to
        ``written`` by key.
        """
        cdef Py_buffer buffer
        cdef bytes key = None
        cdef size_t begin, end, remaining_removals = 0
        cdef Py_ssize_t size = -1
        cdef bint unchanged = False
        cdef vector[uint64_t]* removals = &self._removed_chunks[slot]
        if not self._counts[slot].is_known:  # the first of the blocks
            sort(removals.begin(), removals.end())
        old.clear()
        if block is not None:
            key, value = block
            PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
        try:
            if key is not None:
                size = _get_payload_size(<const uint8_t*> buffer.buf, buffer.len)
                if size < 0 or len(key) != len(prefix) + 8:
                    raise ValueError(f"key {key.hex()}: the block fails its checksum, or its key is invalid")
                _read_postings(
                    <const uint8_t*> buffer.buf,
                    <const uint8_t*> buffer.buf + size,
                    _read_big_endian(<const uint8_t*> PyBytes_AS_STRING(key) + len(key) - 8),
                    old,
                )
                if old.empty():
                    raise ValueError(f"key {key.hex()}: the block has no postings")
                remaining_removals = lower_bound(removals.begin(), removals.end(), old[0].chunk) - removals.begin()
            if not self._counts[slot].is_known:
                self._counts[slot].is_known = True
                self._counts[slot].last = old.size()
            _change_postings(old, removals[0], remaining_removals, self._added_postings[slot], new)
            self._counts[slot].postings += <int64_t> new.size() - <int64_t> old.size()
            self._counts[slot].blocks += (new.size() + self._max_postings - 1) // self._max_postings - (key is not None)
            if key is not None and (not new.size() or new[0].chunk != old[0].chunk):
                written[key] = None
            for begin in range(0, new.size(), self._max_postings):
                end = min(begin + self._max_postings, new.size())
                _write_payload(&new[begin], end - begin, out)
                unchanged = (
                    key is not None
                    and begin == 0
                    and new[0].chunk == old[0].chunk
                    and <Py_ssize_t> out.size() == size
                    and memcmp(out.data(), buffer.buf, size) == 0
                )
                if not unchanged:
                    _seal(out)
                    written[_make_key(prefix, new[begin].chunk, b"")] = PyBytes_FromStringAndSize(
                        <char*> out.data(), out.size()
                    )
        finally:
            if key is not None:
                PyBuffer_Release(&buffer)
        removals.resize(remaining_removals)
        return remaining_removals
