# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Postings in few bytes, and what changes of them gathered by term and carried into many blocks at a time.

In: blocks as stored (posting_block.pxi), with the first chunk that their keys give; terms of chunks that go and come.
Out: packed arrays, or the blocks that result and by how much terms have more postings and blocks. Bytes that are no
such block raise ValueError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp
from libcpp.algorithm cimport lower_bound, reverse, sort
from libcpp.vector cimport vector

include "posting_block.pxi"

cdef enum:
    _MOST = 1 << 30
    _FREQUENCIES = 256


cdef void _bounds_of(const Posting* postings, size_t count, vector[Posting]& bounds) noexcept:
    """The postings that no other beats: ascending by frequency and by length."""
    cdef int32_t[_FREQUENCIES] least
    cdef int32_t shortest = 1 << 16
    cdef Posting bound
    cdef size_t at
    cdef int frequency
    for frequency in range(_FREQUENCIES):
        least[frequency] = 1 << 16
    for at in range(count):
        if postings[at].length < least[postings[at].frequency]:
            least[postings[at].frequency] = postings[at].length
    bounds.clear()
    bound.chunk = 0
    for frequency in range(_FREQUENCIES - 1, -1, -1):
        if least[frequency] < shortest:
            shortest = least[frequency]
            bound.frequency, bound.length = <uint8_t> frequency, <uint16_t> shortest
            bounds.push_back(bound)
    reverse(bounds.begin(), bounds.end())


cdef void _write_payload(const Posting* postings, size_t count, vector[uint8_t]& out) noexcept:
    cdef uint64_t chunk = postings[0].chunk, distance
    cdef vector[Posting] bounds
    cdef uint32_t crc
    cdef size_t at
    out.clear()
    out.reserve(4 * count + 32)
    _write(out, count)
    if count >= LISTED:
        _bounds_of(postings, count, bounds)
        _write(out, bounds.size())
        for at in range(bounds.size()):
            out.push_back(bounds[at].frequency)
            _write(out, bounds[at].length)
        crc = kv_crc(out.data(), out.size())
        out.push_back(<uint8_t> crc)
        out.push_back(<uint8_t> (crc >> 8))
    for at in range(count):
        distance = postings[at].chunk - chunk
        chunk = postings[at].chunk
        if postings[at].frequency == 1:
            _write(out, distance << 1 | 1)
        else:
            _write(out, distance << 1)
            out.push_back(postings[at].frequency)
        _write(out, postings[at].length)


def count_postings(payload) -> int:
    """How many postings a payload holds."""
    cdef Py_buffer buffer
    cdef uint64_t count
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        _read(<const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + buffer.len, &count)
    finally:
        PyBuffer_Release(&buffer)
    return count


def unpack_postings(uint64_t first, payload) -> tuple:
    """Chunks (packed u64), frequencies (bytes) and chunk lengths (packed u16) of a payload, whose bounds are verified."""
    cdef vector[Posting] postings
    cdef vector[uint8_t] again
    cdef Py_buffer buffer
    cdef size_t i
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        _payload_end(<const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + buffer.len, first, postings)
        if postings.size() >= LISTED:
            _write_payload(postings.data(), postings.size(), again)
            if <Py_ssize_t> again.size() != buffer.len or memcmp(again.data(), buffer.buf, buffer.len) != 0:
                raise ValueError("the bounds are not those of the postings")
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


cdef bytes _with_number(bytes prefix, uint64_t number, bytes after):
    """A prefix, a number as eight bytes, big-endian, and something after it."""
    cdef uint8_t[8] packed
    _put_big_endian(packed, number, 8)
    return prefix + packed[:8] + after


cdef struct TermCount:
    # Postings of the term's last block before the change; how many more postings and blocks there are after it.
    uint64_t last
    int64_t postings, blocks
    bint known


cdef class PostingChanges:
    """What goes and comes, gathered by term; carried into stored blocks by :meth:`change`, from each term's last."""

    cdef dict _places
    cdef vector[TermCount] _counts
    cdef vector[vector[uint64_t]] _gone
    cdef vector[vector[Posting]] _added
    cdef size_t _most

    def __cinit__(self, size_t most):
        """``most``: postings of a full block, 1 or more; raises ValueError for none."""
        if not 0 < most <= _MOST:
            raise ValueError(f"a block holds 1 to {_MOST} postings, not {most}")
        self._places = {}
        self._most = most

    def add(self, uint64_t chunk, counts, length) -> None:
        """A chunk is to have postings: how often it has each term, and its length; both are stored as far as they
        fit."""
        cdef Posting posting
        cdef size_t place
        posting.chunk, posting.length = chunk, min(length, 65535)
        for term, count in counts.items():
            place = self._place(term)
            posting.frequency = min(count, 255)
            self._added[place].push_back(posting)

    def remove(self, uint64_t chunk, terms) -> None:
        """A chunk is to have no postings under some terms any more."""
        for term in terms:
            self._gone[self._place(term)].push_back(chunk)

    def terms(self, among=None) -> list:
        """The terms, or those among some terms, of which something changes, in order."""
        if among is None:
            return sorted(self._places)
        return sorted([term for term in set(among) if term in self._places]) if self._places else []

    def forget(self, terms) -> None:
        """Forget some terms, of which :meth:`change` has changed everything."""
        for term in terms:
            del self._places[term]
        if not self._places:
            self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._places.clear()
        self._gone.clear()
        self._added.clear()
        self._counts.clear()

    def counts(self, terms) -> list:
        """Of each of some terms: the postings that its last block had, and by how much the term has more postings and
        more blocks after :meth:`change`. Raises ValueError for a term of which nothing changes."""
        cdef TermCount count
        found: list = []
        for term in terms:
            place = self._places.get(term)
            if place is None:
                raise ValueError(f"nothing of {term!r} changes")
            count = self._counts[place]
            found.append((count.last, count.postings, count.blocks))
        return found

    def change(self, terms, prefixes, blocks, dict written) -> tuple:
        """Change one block of each of some terms: the last, or what :meth:`change` said of an earlier call.

        ``prefixes`` are what the keys of the terms' blocks begin with, ``blocks`` their keys and sealed values, None for
        a term that has none. Keys and new values, None for a block that goes, are put into ``written``. Returns the
        terms of which an earlier block changes, their prefixes, and above which key that block does not lie. Raises
        ValueError, with the key, for a damaged block, or a chunk that is not above those that stay, and for terms that
        are not as many as prefixes and blocks, or of which nothing changes.
        """
        further: list = []
        further_prefixes: list = []
        stops: list = []
        cdef vector[Posting] old, new
        cdef vector[uint8_t] out
        cdef bytes prefix
        for term, prefix, found in zip(terms, prefixes, blocks, strict=True):
            place = self._places.get(term)
            if place is None:
                raise ValueError(f"nothing of {term!r} changes")
            here = self._change_block(place, prefix, found, old, new, out, written)
            self._added[place].clear()
            if here:
                further.append(term)
                further_prefixes.append(prefix)
                stops.append(_with_number(prefix, self._gone[place].back(), b"\0"))
        return further, further_prefixes, stops

    cdef size_t _place(self, term) except? 0:
        cdef TermCount none
        place = self._places.get(term)
        if place is None:
            none.last = none.postings = none.blocks = none.known = 0
            self._counts.push_back(none)
            place = self._places[term] = self._gone.size()
            self._gone.push_back(vector[uint64_t]())
            self._added.push_back(vector[Posting]())
        return place

    cdef size_t _change_block(
        self,
        size_t place,
        bytes prefix,
        found,
        vector[Posting]& old,
        vector[Posting]& new,
        vector[uint8_t]& out,
        dict written,
    ) except? 0:
        """Change one block; returns how many chunks that go lie before it, which are all that is left of the change."""
        cdef Py_buffer buffer
        cdef bytes key = None
        cdef uint64_t chunk
        cdef size_t at = 0, begin, end, here = 0
        cdef Py_ssize_t size = -1
        cdef bint unchanged = False
        cdef vector[uint64_t]* gone = &self._gone[place]
        cdef vector[Posting]* added = &self._added[place]
        sort(gone.begin(), gone.end())
        old.clear()
        new.clear()
        if found is not None:
            key, value = found
            PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
        try:
            if key is not None:
                size = _unsealed(<const uint8_t*> buffer.buf, buffer.len)
                if size < 0 or len(key) != len(prefix) + 8:
                    raise ValueError(f"key {key.hex()}: the block fails its checksum, or has a key that is none")
                _payload_end(
                    <const uint8_t*> buffer.buf,
                    <const uint8_t*> buffer.buf + size,
                    _big_endian(<const uint8_t*> PyBytes_AS_STRING(key) + len(key) - 8),
                    old,
                )
                if old.empty():
                    raise ValueError(f"key {key.hex()}: a block without postings")
                here = lower_bound(gone.begin(), gone.end(), old[0].chunk) - gone.begin()
            if not self._counts[place].known:
                self._counts[place].known = True
                self._counts[place].last = old.size()
            for begin in range(here, gone.size()):
                chunk = gone[0][begin]
                while at < old.size() and old[at].chunk < chunk:
                    new.push_back(old[at])
                    at += 1
                if at < old.size() and old[at].chunk == chunk:
                    at += 1
            while at < old.size():
                new.push_back(old[at])
                at += 1
            for at in range(added.size()):
                if new.size() and added[0][at].chunk <= new.back().chunk:
                    raise ValueError("a chunk is added before one that is there")
                new.push_back(added[0][at])
            self._counts[place].postings += <int64_t> new.size() - <int64_t> old.size()
            self._counts[place].blocks += (new.size() + self._most - 1) // self._most - (key is not None)
            if key is not None and (not new.size() or new[0].chunk != old[0].chunk):
                written[key] = None
            for begin in range(0, new.size(), self._most):
                end = min(begin + self._most, new.size())
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
                    written[_with_number(prefix, new[begin].chunk, b"")] = PyBytes_FromStringAndSize(
                        <char*> out.data(), out.size()
                    )
        finally:
            if key is not None:
                PyBuffer_Release(&buffer)
        gone.resize(here)
        return here
