# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""BM25 scores of the best chunks, or of given chunks, term by term over blocks of postings.

In: the blocks of each term as stored (posting_block.pxi), the rarest term first. Out: packed ids and scores. Chunks and
blocks that cannot be among the best are skipped. A chunk is dropped if its score so far, plus the most that the
remaining terms can add, is below the scores of as many other chunks as are requested (MaxScore: Turtle and Flood 1995,
"Query evaluation: strategies and optimizations", section 4.2). A block whose best posting cannot bring a new chunk into
the best is not decoded (Ding and Suel 2011, "Faster top-k document retrieval using block-max indexes"). Once no new
chunk can enter, such a block is not even examined. A score is added up in the order of the terms, so its bits do not
depend on what was skipped. Bytes that are not a block raise ValueError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr
from libcpp.algorithm cimport nth_element
from libcpp.functional cimport greater
from libcpp.vector cimport vector

include "posting_block.pxi"

cdef enum:
    # Chunks with fewer words than this have their penalty in a table.
    _NUM_TABULATED_LENGTHS = 256
    # Up to this many best scores are selected by insertion, which is then faster than a partition.
    _MAX_INSERTED = 64

# Scores down to this fraction of the minimum still enter, because sums of bounds are rounded.
cdef double _TIE_FACTOR = 1 - 1e-12
# A filter has one flag for each group of this many consecutive chunk ids, which belong to one document.
cdef uint64_t _CHUNKS_PER_GROUP = 5


cdef uint64_t _get_first_chunk(bytes key) except? 0:
    """Return the id of the first chunk of a block, which is the end of the block's key."""
    if PyBytes_GET_SIZE(key) < 8:
        raise ValueError(f"key {key.hex()}: too short for the key of a block of postings")
    return _read_big_endian(<const uint8_t*> PyBytes_AS_STRING(key) + PyBytes_GET_SIZE(key) - 8)


cdef int _list_first_chunks(list blocks, vector[uint64_t]& firsts) except -1:
    """Set ``firsts`` to the first chunks of blocks (pairs of key and value). Raises ValueError unless they ascend."""
    cdef uint64_t first
    firsts.clear()
    firsts.reserve(len(blocks))
    for block in blocks:
        first = _get_first_chunk(block[0])
        if not firsts.empty() and first <= firsts.back():
            raise ValueError(f"key {block[0].hex()}: the block is out of order")
        firsts.push_back(first)
    return 0


cdef int _decode_block(tuple block, uint64_t first, vector[Posting]& postings) except -1:
    """Set ``postings`` to the postings of a block (key and value) whose first chunk is ``first``.

    Raises ValueError if the block fails its checksum.
    """
    cdef Py_buffer buffer
    cdef Py_ssize_t size
    key, value = block
    postings.clear()
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        size = _get_payload_size(<const uint8_t*> buffer.buf, buffer.len)
        if size < 0:
            raise ValueError(f"key {key.hex()}: the block fails its checksum")
        _read_postings(<const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + size, first, postings)
    finally:
        PyBuffer_Release(&buffer)
    return 0


cdef inline size_t _search_from(const vector[uint64_t]& ids, size_t start, uint64_t minimum) noexcept:
    """Return the index of the first of ascending ids, from index ``start`` on, that is at least ``minimum``.

    Galloping search: the result is usually near ``start``.
    """
    cdef size_t step = 1, low = start, high = start, middle
    while high < ids.size() and ids[high] < minimum:
        low = high + 1
        high += step
        step *= 2
    if high > ids.size():
        high = ids.size()
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < minimum:
            low = middle + 1
        else:
            high = middle
    return low


def select_chunks_with_postings(const uint64_t[::1] chunks not None, list blocks not None) -> bytes:
    """Return the ids in ``chunks`` (ascending) that have a posting in a term's blocks, as packed u64.

    ``blocks`` are keys and sealed values, ascending: all blocks of a term, or those that may contain the chunks. Blocks
    outside the ranges of the chunks are not decoded.
    """
    cdef vector[uint64_t] firsts, ids, selected
    cdef vector[Posting] postings
    cdef size_t position = 0, end, block, posting
    cdef Py_ssize_t i
    ids.reserve(chunks.shape[0])
    for i in range(chunks.shape[0]):
        ids.push_back(chunks[i])
    _list_first_chunks(blocks, firsts)
    for block in range(firsts.size()):
        position = _search_from(ids, position, firsts[block])
        end = ids.size() if block + 1 == firsts.size() else _search_from(ids, position, firsts[block + 1])
        if position == end:
            continue
        _decode_block(blocks[block], firsts[block], postings)
        posting = 0
        while position < end:
            while posting < postings.size() and postings[posting].chunk < ids[position]:
                posting += 1
            if posting < postings.size() and postings[posting].chunk == ids[position]:
                selected.push_back(ids[position])
            position += 1
    return PyBytes_FromStringAndSize(<char*> selected.data(), 8 * selected.size())


cdef class WordScores:
    """The chunks that may be among the best by BM25, and their scores for the terms added so far.

    These are all chunks with any of the terms, unless they cannot be among the ``top``, or exactly those of
    :meth:`restrict_to`.
    """

    cdef vector[uint64_t] _chunks, _next_chunks
    cdef vector[double] _scores, _next_scores
    cdef double _k1, _b, _average, _minimum
    cdef size_t _top
    cdef bint _admits_new
    cdef const uint8_t[::1] _allowed_groups
    cdef bint _filtered
    #: The penalty of each of the most frequent lengths.
    cdef double _penalties[_NUM_TABULATED_LENGTHS]

    def __init__(self, double k1, double b, double average, size_t top, const uint8_t[::1] groups=None):
        """Store the parameters of BM25 (``k1``, ``b`` and the ``average`` length of a chunk) and of the selection.

        ``top`` is the number of best chunks to return. ``groups`` has a 1 for each group of five consecutive ids
        (id // 5) whose chunks may be returned; None allows all. Raises ValueError if ``top`` is 0.
        """
        cdef size_t length
        if not top:
            raise ValueError("top must be at least 1")
        self._k1, self._b, self._average, self._top = k1, b, average, top
        self._minimum = 0
        for length in range(_NUM_TABULATED_LENGTHS):
            self._penalties[length] = self._compute_penalty(length)
        self._admits_new = True
        self._filtered = groups is not None
        if self._filtered:
            self._allowed_groups = groups

    def restrict_to(self, const uint64_t[::1] chunks not None) -> None:
        """Score exactly these chunks, regardless of their scores. Call it before the first term.

        Raises ValueError if they do not ascend.
        """
        cdef Py_ssize_t i
        for i in range(1, chunks.shape[0]):
            if chunks[i] <= chunks[i - 1]:
                raise ValueError("chunks to be scored are not in order")
        self._chunks.clear()
        for i in range(chunks.shape[0]):
            self._chunks.push_back(chunks[i])
        self._scores.assign(self._chunks.size(), 0.0)
        self._admits_new = False
        self._top = self._chunks.size() + 1  # more than there are, so that no chunk is dropped
        self._minimum = -1

    def compute_bound(self, double weight, list blocks not None) -> float:
        """Return an upper bound of the scores of a term's postings in these blocks; ``weight`` is the term's rarity."""
        cdef double best = 0
        for block in blocks:
            best = max(best, self._compute_block_bound(weight, block))
        return best

    def compute_term_bound(self, double weight) -> float:
        """Return an upper bound of the score that a term of this weight adds to any chunk."""
        return self._compute_score(weight, 255, 0)  # the largest stored frequency in the shortest chunk

    def can_enter(self, double bound) -> bool:
        """True if a chunk without a score so far can be among the best with a score of at most ``bound``."""
        return self._admits_new and bound >= self._minimum

    def list_chunks(self) -> bytes:
        """Return the ids of the candidates: the chunks that can still be among the best, ascending, as packed u64."""
        return PyBytes_FromStringAndSize(<char*> self._chunks.data(), 8 * self._chunks.size())

    def add_term(self, double weight, list blocks not None, double bound, double remaining) -> None:
        """Add the scores of a term, with MaxScore pruning: chunks that can no longer be among the best are dropped.

        ``weight`` is the term's rarity. ``bound`` is the maximum score of this term in a chunk, ``remaining`` the sum
        of these maxima for all later terms. ``blocks`` are pairs of key and stored value, ascending: all blocks of the
        term or, if ``can_enter(bound + remaining)`` is false, the blocks that may contain the chunks of
        :meth:`list_chunks`.
        """
        cdef vector[uint64_t] firsts
        cdef vector[Posting] postings
        cdef size_t candidate = 0, end, block, index
        cdef double score
        cdef bint accepts_new = self.can_enter(bound + remaining), block_accepts_new
        _list_first_chunks(blocks, firsts)
        self._next_chunks.clear()
        self._next_scores.clear()
        for block in range(firsts.size()):
            candidate = self._carry_over(candidate, _search_from(self._chunks, candidate, firsts[block]), remaining)
            end = self._chunks.size()
            if block + 1 < firsts.size():
                end = _search_from(self._chunks, candidate, firsts[block + 1])
            if candidate == end and not accepts_new:
                continue
            if candidate == end and not self._may_contain_allowed(firsts, block):
                continue
            score = self._compute_block_bound(weight, blocks[block]) + remaining
            block_accepts_new = accepts_new and score >= self._minimum
            if not block_accepts_new and not self._has_any_reaching(candidate, end, self._minimum - score):
                candidate = end  # even the best score of the block would not put them among the best: dropped
                continue
            _decode_block(blocks[block], firsts[block], postings)
            for index in range(postings.size()):
                while candidate < end and self._chunks[candidate] < postings[index].chunk:
                    candidate = self._carry_over(candidate, candidate + 1, remaining)
                score = self._compute_score(weight, postings[index].frequency, postings[index].length)
                if candidate < end and self._chunks[candidate] == postings[index].chunk:
                    self._keep_if_promising(self._chunks[candidate], self._scores[candidate] + score, remaining)
                    candidate += 1
                elif block_accepts_new and self._is_allowed(postings[index].chunk):
                    self._keep_if_promising(postings[index].chunk, score, remaining)
            candidate = self._carry_over(candidate, end, remaining)
        self._carry_over(candidate, self._chunks.size(), remaining)
        self._chunks.swap(self._next_chunks)
        self._scores.swap(self._next_scores)
        self._raise_minimum()

    def select_best(self) -> tuple:
        """Return the chunks with the ``top`` best scores, and all that tie with the last of them.

        Returns their ids, ascending, as packed u64, and their scores as packed f64.
        """
        cdef size_t candidate, count = 0
        cdef double minimum = self._find_cutoff_score() if self._scores.size() > self._top else -1
        for candidate in range(self._chunks.size()):
            if self._scores[candidate] >= minimum:
                self._chunks[count], self._scores[count] = self._chunks[candidate], self._scores[candidate]
                count += 1
        self._chunks.resize(count)
        self._scores.resize(count)
        return self.list_chunks(), PyBytes_FromStringAndSize(<char*> self._scores.data(), 8 * count)

    cdef inline double _compute_score(self, double weight, double frequency, size_t length) noexcept:
        """Return the BM25 score of a term of this rarity and frequency in a chunk of ``length`` words."""
        cdef double penalty
        penalty = self._penalties[length] if length < _NUM_TABULATED_LENGTHS else self._compute_penalty(length)
        return weight * frequency * (self._k1 + 1) / (frequency + penalty)

    cdef inline double _compute_penalty(self, size_t length) noexcept:
        """Return the summand of BM25's divisor that depends only on the length of a chunk."""
        return self._k1 * (1 - self._b + self._b * length / self._average)

    cdef double _compute_block_bound(self, double weight, tuple block) except? -1:
        """Return an upper bound of the scores of the postings of a block (key and value), from its stored bounds."""
        cdef Py_buffer buffer
        cdef uint64_t count
        cdef vector[Posting] bounds
        cdef const uint8_t* begin
        cdef const uint8_t* end
        cdef double best = 0
        cdef size_t index
        key, value = block
        PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
        try:
            begin, end = <const uint8_t*> buffer.buf, <const uint8_t*> buffer.buf + buffer.len
            _read_bounds(begin, _read_count(begin, end, &count), end, count, bounds)
        except ValueError as error:
            raise ValueError(f"key {key.hex()}: {error}") from error
        finally:
            PyBuffer_Release(&buffer)
        if bounds.empty():  # without stored bounds: the largest frequency in the shortest chunk
            return self._compute_score(weight, 255, 0)
        for index in range(bounds.size()):
            best = max(best, self._compute_score(weight, bounds[index].frequency, bounds[index].length))
        return best

    cdef inline bint _is_allowed(self, uint64_t chunk) noexcept:
        """True if the filter allows the group of a chunk, and so the chunk, to be returned."""
        cdef uint64_t group = chunk // _CHUNKS_PER_GROUP
        if not self._filtered:
            return True
        return group < <uint64_t> self._allowed_groups.shape[0] and self._allowed_groups[group] != 0

    cdef bint _may_contain_allowed(self, const vector[uint64_t]& firsts, size_t block) noexcept:
        """True if the filter allows a chunk id from the first id of a block to the first id of the next block."""
        cdef uint64_t first = firsts[block] // _CHUNKS_PER_GROUP, end
        if not self._filtered:
            return True
        end = self._allowed_groups.shape[0]
        if block + 1 < firsts.size():
            end = min(end, firsts[block + 1] // _CHUNKS_PER_GROUP + 1)
        return first < end and memchr(&self._allowed_groups[first], 1, end - first) != NULL

    cdef inline void _keep_if_promising(self, uint64_t chunk, double score, double remaining) noexcept:
        """Keep a chunk as a candidate if its score plus ``remaining`` reaches the minimum.

        ``remaining`` is the most that later terms can add.
        """
        if score + remaining >= self._minimum:
            self._next_chunks.push_back(chunk)
            self._next_scores.push_back(score)

    cdef inline size_t _carry_over(self, size_t candidate, size_t end, double remaining) noexcept:
        """Keep the promising candidates from index ``candidate`` to ``end``, which lack the current term.

        Returns the index of the next candidate, which is ``end``, or ``candidate`` if that is not below ``end``.
        """
        while candidate < end:
            self._keep_if_promising(self._chunks[candidate], self._scores[candidate], remaining)
            candidate += 1
        return candidate

    cdef inline bint _has_any_reaching(self, size_t candidate, size_t end, double minimum) noexcept:
        """True if a candidate from index ``candidate`` to ``end`` has a score of at least ``minimum``."""
        while candidate < end:
            if self._scores[candidate] >= minimum:
                return True
            candidate += 1
        return False

    cdef double _find_cutoff_score(self) noexcept:
        """Return the cutoff score: the lowest of the ``top`` best scores."""
        cdef vector[double] scores
        cdef size_t candidate, rank, last = self._top - 1
        cdef double score
        if self._top > _MAX_INSERTED:
            scores = self._scores
            nth_element(scores.begin(), scores.begin() + last, scores.end(), greater[double]())
            return scores[last]
        scores.assign(self._top, -1.0)  # the best scores so far, descending
        for candidate in range(self._scores.size()):
            score = self._scores[candidate]
            if score <= scores[last]:
                continue
            rank = last
            while rank and scores[rank - 1] < score:
                scores[rank] = scores[rank - 1]
                rank -= 1
            scores[rank] = score
        return scores[last]

    cdef void _raise_minimum(self) noexcept:
        """Raise the minimum score of a result to the lowest of the ``top`` best scores so far."""
        if self._admits_new and self._scores.size() >= self._top:
            self._minimum = max(self._minimum, self._find_cutoff_score() * _TIE_FACTOR)
