# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""BM25 of chunks, a term at a time over blocks of postings: of all chunks the best, or of some chunks.

In: the blocks of each term as stored (posting_block.pxi), the rarest term first. Out: packed ids and scores. What
cannot be among the best is passed over: a chunk whose score so far, with the most that the terms to come can add, is
below the score of as many others as are wanted (MaxScore: Turtle and Flood 1995, "Query evaluation: strategies and
optimizations", section 4.2), and a block whose best posting (Ding and Suel 2011, "Faster top-k document retrieval using
block-max indexes") brings no chunk so far. Such a block is neither decoded nor, once no further chunk can come in,
looked at. A score is added up in the order of the terms, so that it is the same bits whatever was passed over. Bytes
that are no block raise ValueError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr
from libcpp.algorithm cimport nth_element
from libcpp.functional cimport greater
from libcpp.vector cimport vector

include "posting_block.pxi"

cdef double _ROUNDING = 1 - 1e-12
cdef uint64_t _GROUP = 5


cdef uint64_t _first_of(bytes key) except? 0:
    """The first chunk of a block, by its key."""
    if PyBytes_GET_SIZE(key) < 8:
        raise ValueError(f"key {key.hex()}: too short for a block of postings")
    return _big_endian(<const uint8_t*> PyBytes_AS_STRING(key) + PyBytes_GET_SIZE(key) - 8)


cdef int _firsts_of(list blocks, vector[uint64_t]& firsts) except -1:
    """The first chunks of some blocks, which ascend."""
    cdef uint64_t first
    firsts.clear()
    firsts.reserve(len(blocks))
    for record in blocks:
        first = _first_of(record[0])
        if not firsts.empty() and first <= firsts.back():
            raise ValueError(f"key {record[0].hex()}: the block is out of order")
        firsts.push_back(first)
    return 0


cdef int _decode(tuple record, uint64_t first, vector[Posting]& postings) except -1:
    """The postings of a block, verified by its checksum."""
    cdef Py_buffer buffer
    cdef Py_ssize_t size
    key, value = record
    postings.clear()
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        size = _unsealed(<const uint8_t*> buffer.buf, buffer.len)
        if size < 0:
            raise ValueError(f"key {key.hex()}: the block fails its checksum")
        _payload_end(<const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + size, first, postings)
    finally:
        PyBuffer_Release(&buffer)
    return 0


cdef inline size_t _at_least(const vector[uint64_t]& ids, size_t start, uint64_t least) noexcept:
    """The place of the first id from ``start`` on that is not below ``least``: in steps that double, then by halves."""
    cdef size_t step = 1, low = start, high = start, middle
    while high < ids.size() and ids[high] < least:
        low = high + 1
        high += step
        step *= 2
    if high > ids.size():
        high = ids.size()
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


def chunks_among(const uint64_t[::1] chunks not None, list blocks not None) -> bytes:
    """Which of some chunks, ascending, have a posting in a term's blocks, as packed u64.

    ``blocks`` are keys and sealed values, ascending: all of a term, or those that the chunks may lie in. Blocks that
    none of them lies in are not read.
    """
    cdef vector[uint64_t] firsts, ids, found
    cdef vector[Posting] postings
    cdef size_t at = 0, end, block, place
    cdef Py_ssize_t i
    ids.reserve(chunks.shape[0])
    for i in range(chunks.shape[0]):
        ids.push_back(chunks[i])
    _firsts_of(blocks, firsts)
    for block in range(firsts.size()):
        at = _at_least(ids, at, firsts[block])
        end = ids.size() if block + 1 == firsts.size() else _at_least(ids, at, firsts[block + 1])
        if at == end:
            continue
        _decode(blocks[block], firsts[block], postings)
        place = 0
        while at < end:
            while place < postings.size() and postings[place].chunk < ids[at]:
                place += 1
            if place < postings.size() and postings[place].chunk == ids[at]:
                found.push_back(ids[at])
            at += 1
    return PyBytes_FromStringAndSize(<char*> found.data(), 8 * found.size())


cdef class WordScores:
    """The chunks that may be among the best by BM25, and their scores by the terms so far.

    Either all chunks that some term has, as far as they may be among the ``top``, or exactly those of :meth:`score_only`.
    """

    cdef vector[uint64_t] _chunks, _next_chunks
    cdef vector[double] _scores, _next_scores
    cdef double _k1, _b, _average, _least
    cdef size_t _top
    cdef bint _open
    cdef const uint8_t[::1] _groups
    cdef bint _filtered

    def __init__(self, double k1, double b, double average, size_t top, const uint8_t[::1] groups=None):
        """BM25 with ``k1``, ``b`` and the average length of a chunk; ``groups`` are 1 for each five chunks (by number
        // 5) that may answer, None: all may. Raises ValueError where none are wanted."""
        if not top:
            raise ValueError("the best 0 chunks are asked for")
        self._k1, self._b, self._average, self._top = k1, b, average, top
        self._least = 0
        self._open = True
        self._filtered = groups is not None
        if self._filtered:
            self._groups = groups

    def score_only(self, const uint64_t[::1] chunks not None) -> None:
        """Score these chunks and no others, whatever their scores; before any term.

        Raises ValueError where they do not ascend.
        """
        cdef Py_ssize_t i
        for i in range(1, chunks.shape[0]):
            if chunks[i] <= chunks[i - 1]:
                raise ValueError("chunks to be scored are not in order")
        self._chunks.clear()
        for i in range(chunks.shape[0]):
            self._chunks.push_back(chunks[i])
        self._scores.assign(self._chunks.size(), 0.0)
        self._open = False
        self._top = self._chunks.size() + 1
        self._least = -1

    def bound(self, double weight, list blocks not None) -> float:
        """What no posting of a term's blocks scores more than; ``weight`` is the term's rarity."""
        cdef double best = 0
        for record in blocks:
            best = max(best, self._bound(weight, record))
        return best

    def bound_of_any(self, double weight) -> float:
        """What no posting of any term scores more than."""
        return self._score(weight, 255, 0)

    def takes(self, double bound) -> bool:
        """Whether a chunk may still come in that scores at most ``bound``."""
        return self._open and bound >= self._least

    def chunks(self) -> bytes:
        """The chunks so far, ascending, as packed u64."""
        return PyBytes_FromStringAndSize(<char*> self._chunks.data(), 8 * self._chunks.size())

    def add(self, double weight, list blocks not None, double bound, double rest) -> None:
        """Add a term's part to the scores; ``bound`` is the most that this one adds, ``rest`` that the terms to come add.

        ``blocks`` are keys and sealed values, ascending: all of the term, or, where :meth:`takes` says that no chunk comes
        in, those that :meth:`chunks` may lie in.
        """
        cdef vector[uint64_t] firsts
        cdef vector[Posting] postings
        cdef size_t at = 0, end, block, place
        cdef double score
        cdef bint takes = self.takes(bound + rest), enter
        _firsts_of(blocks, firsts)
        self._next_chunks.clear()
        self._next_scores.clear()
        for block in range(firsts.size()):
            at = self._carry(at, _at_least(self._chunks, at, firsts[block]), rest)
            end = self._chunks.size()
            if block + 1 < firsts.size():
                end = _at_least(self._chunks, at, firsts[block + 1])
            if at == end and not takes:
                continue
            if at == end and not self._any_may_answer(firsts, block):
                continue
            score = self._bound(weight, blocks[block]) + rest
            enter = takes and score >= self._least
            if not enter and not self._any_at_least(at, end, self._least - score):
                at = end  # with the most of the block they would still not be among the best
                continue
            _decode(blocks[block], firsts[block], postings)
            for place in range(postings.size()):
                while at < end and self._chunks[at] < postings[place].chunk:
                    at = self._carry(at, at + 1, rest)
                score = self._score(weight, postings[place].frequency, postings[place].length)
                if at < end and self._chunks[at] == postings[place].chunk:
                    self._keep(self._chunks[at], self._scores[at] + score, rest)
                    at += 1
                elif enter and self._may_answer(postings[place].chunk):
                    self._keep(postings[place].chunk, score, rest)
            at = self._carry(at, end, rest)
        self._carry(at, self._chunks.size(), rest)
        self._chunks.swap(self._next_chunks)
        self._scores.swap(self._next_scores)
        self._raise_least()

    def best(self) -> tuple:
        """The chunks whose scores are among the ``top``, with all that tie with the last of them: packed ids (u64),
        ascending, and scores (f64)."""
        cdef size_t at, kept = 0
        cdef double least = self._top_score() if self._scores.size() > self._top else -1
        for at in range(self._chunks.size()):
            if self._scores[at] >= least:
                self._chunks[kept], self._scores[kept] = self._chunks[at], self._scores[at]
                kept += 1
        self._chunks.resize(kept)
        self._scores.resize(kept)
        return self.chunks(), PyBytes_FromStringAndSize(<char*> self._scores.data(), 8 * kept)

    cdef inline double _score(self, double weight, double frequency, double length) noexcept:
        return weight * frequency * (self._k1 + 1) / (
            frequency + self._k1 * (1 - self._b + self._b * length / self._average)
        )

    cdef double _bound(self, double weight, tuple record) except? -1:
        """What no posting of a block scores more than."""
        cdef Py_buffer buffer
        cdef uint64_t count
        cdef vector[Posting] bounds
        cdef const uint8_t* begin
        cdef const uint8_t* end
        cdef double best = 0
        cdef size_t at
        key, value = record
        PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
        try:
            begin, end = <const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + buffer.len
            _bounds_end(begin, _count_end(begin, end, &count), end, count, bounds)
        except ValueError as error:
            raise ValueError(f"key {key.hex()}: {error}") from error
        finally:
            PyBuffer_Release(&buffer)
        if bounds.empty():
            return self._score(weight, 255, 0)
        for at in range(bounds.size()):
            best = max(best, self._score(weight, bounds[at].frequency, bounds[at].length))
        return best

    cdef inline bint _may_answer(self, uint64_t chunk) noexcept:
        cdef uint64_t group = chunk // _GROUP
        return not self._filtered or (group < <uint64_t> self._groups.shape[0] and self._groups[group] != 0)

    cdef bint _any_may_answer(self, const vector[uint64_t]& firsts, size_t block) noexcept:
        """Whether any chunk may answer that lies in a block, or between it and the next."""
        cdef uint64_t first = firsts[block] // _GROUP, end
        if not self._filtered:
            return True
        end = self._groups.shape[0]
        if block + 1 < firsts.size():
            end = min(end, firsts[block + 1] // _GROUP + 1)
        return first < end and memchr(&self._groups[first], 1, end - first) != NULL

    cdef inline void _keep(self, uint64_t chunk, double score, double rest) noexcept:
        if score + rest >= self._least:
            self._next_chunks.push_back(chunk)
            self._next_scores.push_back(score)

    cdef inline size_t _carry(self, size_t at, size_t end, double rest) noexcept:
        """Keep chunks that the term has not; returns where they end."""
        while at < end:
            self._keep(self._chunks[at], self._scores[at], rest)
            at += 1
        return at

    cdef inline bint _any_at_least(self, size_t at, size_t end, double least) noexcept:
        while at < end:
            if self._scores[at] >= least:
                return True
            at += 1
        return False

    cdef double _top_score(self) noexcept:
        """The score of the last of the ``top``."""
        cdef vector[double] scores = self._scores
        nth_element(scores.begin(), scores.begin() + (self._top - 1), scores.end(), greater[double]())
        return scores[self._top - 1]

    cdef void _raise_least(self) noexcept:
        if self._open and self._scores.size() >= self._top:
            self._least = max(self._least, self._top_score() * _ROUNDING)
