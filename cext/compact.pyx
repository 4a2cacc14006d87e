# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Compressed ascending numbers, and lists of them in blocks, changed many at a time.

In: a block as stored, with the first number from its key, and the numbers to remove and to add. Out: packed arrays, or
the resulting blocks. Only the differences between consecutive numbers are stored. Invalid bytes raise ValueError. Also:
changes of the rows of a graph, which are such lists, and the resulting changes by the other end of each edge.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.algorithm cimport is_sorted, sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

include "leb128.pxi"
include "sealed.pxi"

cdef enum:
    _MAX_BLOCK_NUMBERS = 1 << 30


cdef bytes _to_bytes(vector[uint8_t]& out):
    """Return the content of a vector as bytes."""
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


# A payload has the distances of all numbers except the first, which is in the key.


cdef int _read_numbers(uint64_t first, const uint8_t* cursor, size_t length, vector[uint64_t]& numbers) except -1:
    """Append the numbers of a payload to ``numbers``: ``first``, which is not in the payload, and the others.

    The payload has ``length`` bytes from ``cursor``: the distance of each number from the previous one, as LEB128.
    """
    cdef const uint8_t* end = cursor + length
    cdef uint64_t distance
    numbers.push_back(first)
    while cursor < end:
        cursor = _read_leb128(cursor, end, &distance)
        numbers.push_back(numbers.back() + distance)
    return 0


def unpack_numbers(uint64_t first, payload) -> bytes:
    """Return ``first`` and the numbers of a payload as packed native u64.

    The payload has the distance of each number after ``first`` from the previous one, as LEB128.
    """
    cdef vector[uint64_t] numbers
    cdef Py_buffer buffer
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        _read_numbers(first, <const uint8_t*> buffer.buf, buffer.len, numbers)
    finally:
        PyBuffer_Release(&buffer)
    return PyBytes_FromStringAndSize(<char*> numbers.data(), 8 * numbers.size())


def pack_numbers(numbers) -> bytes:
    """Return ascending numbers as a payload: the distance of each from the previous one, of the first from 0.

    Raises ValueError if they do not ascend.
    """
    cdef vector[uint8_t] out
    cdef uint64_t number, last = 0
    for number in numbers:
        if number < last:
            raise ValueError(f"the numbers do not ascend: {number} follows {last}")
        _write_leb128(out, number - last)
        last = number
    return _to_bytes(out)


cdef int _change_numbers(
    vector[uint64_t]& old, vector[uint64_t]& new, removals, additions, size_t* removed, size_t* added
) except -1:
    """Set ``new`` to the numbers of ``old`` without ``removals`` and with ``additions``, all ascending.

    Sets ``removed`` and ``added`` to the counts of the numbers that were actually removed and added, and may overwrite
    ``old``. Raises ValueError if ``removals`` or ``additions`` do not ascend.
    """
    cdef uint64_t number, last = 0
    cdef size_t position = 0
    removed[0] = added[0] = 0
    new.clear()
    for number in removals:
        if number < last:
            raise ValueError(f"the numbers do not ascend: {number} follows {last}")
        last = number
        while position < old.size() and old[position] < number:
            new.push_back(old[position])
            position += 1
        if position < old.size() and old[position] == number:
            position += 1
            removed[0] += 1
    while position < old.size():
        new.push_back(old[position])
        position += 1
    if additions:
        old.swap(new)
        new.clear()
        position = last = 0
        for number in additions:
            if number < last or (number == last and added[0]):
                raise ValueError(f"the numbers do not ascend: {number} follows {last}")
            last = number
            while position < old.size() and old[position] < number:
                new.push_back(old[position])
                position += 1
            if position < old.size() and old[position] == number:
                continue
            new.push_back(number)
            added[0] += 1
        while position < old.size():
            new.push_back(old[position])
            position += 1
    return 0


cdef bytes _encode_key(uint32_t owner, uint64_t first):
    """Return the key of a block: its owner and its first number, both big-endian."""
    cdef uint8_t[12] packed
    _write_big_endian(packed, owner, 4)
    _write_big_endian(packed + 4, first, 8)
    return packed[:12]


cdef uint64_t _get_largest(numbers) except? 0:
    """Return the last of ascending numbers, or 0 without numbers."""
    return numbers[len(numbers) - 1] if numbers else 0


def locate_last_blocks(dict changes) -> list:
    """Return for each owner a key range (start, stop), which ends with the key of the block to change first.

    That is the block in which the owner's largest changed number belongs. ``changes`` maps owners, such as entities, to
    the numbers to remove and the numbers to add, both ascending.
    """
    cdef uint64_t largest
    ranges = []
    for owner, (removals, additions) in changes.items():
        largest = max(_get_largest(removals), _get_largest(additions))
        ranges.append((_encode_key(owner, 0)[:4], _encode_key(owner, largest) + b"\0"))
    return ranges


def change_blocks(dict changes, blocks, size_t max_numbers, size_t min_numbers, dict written) -> tuple:
    """Change one block of the list of numbers of each owner: the last block that the changes affect.

    ``changes`` maps owners to the numbers to remove and the numbers to add, both ascending. ``blocks`` has an item for
    each owner, in the same order: the key and the sealed value of the block in which the owner's largest changed number
    belongs (see :func:`locate_last_blocks`), the first block of the list if that number precedes all blocks, or None
    for an empty list. A changed block is split into blocks of at most ``max_numbers`` numbers (1 or more). Their keys
    and values are added to ``written``, with the value None for a removed block.

    Returns a list, with the counts of removed and of added numbers of each owner; the changes that remain for earlier
    blocks, like ``changes``; and a dictionary from owners to the key and size of the block, for each block that had at
    least ``min_numbers`` numbers and now has fewer, but is not empty. Raises ValueError for numbers that do not ascend,
    for a different number of blocks than of owners and, with the key, for a damaged block.
    """
    cdef vector[uint64_t] old, new
    cdef vector[uint8_t] out
    cdef size_t removed, added, removals_below, additions_below
    cdef bytes key
    counts = []
    remaining = {}
    undersized = {}
    if not 0 < max_numbers <= _MAX_BLOCK_NUMBERS:
        raise ValueError(f"a block can have 1 to {_MAX_BLOCK_NUMBERS} numbers, not {max_numbers}")
    for (owner, (removals, additions)), block in zip(changes.items(), blocks, strict=True):
        old.clear()
        key = None
        removals_below = additions_below = 0
        if block is not None:
            key, value = block
            _read_block(key, value, old)
            removals_below, additions_below = _count_below(removals, old[0]), _count_below(additions, old[0])
            if removals_below == <size_t> len(removals) and additions_below == <size_t> len(additions):
                removals_below = additions_below = 0  # the first block of a list takes the numbers below it
            elif removals_below or additions_below:
                remaining[owner] = removals[:removals_below], additions[:additions_below]
                removals, additions = removals[removals_below:], additions[additions_below:]
        _change_numbers(old, new, removals, additions, &removed, &added)
        counts.append((removed, added))
        if not removed and not added:
            continue
        if key is not None and (new.empty() or key != _encode_key(owner, new[0])):
            written[key] = None
        _write_blocks(owner, new, max_numbers, out, written)
        if 0 < new.size() < min_numbers <= new.size() + removed - added:
            undersized[owner] = _encode_key(owner, new[0]), new.size()
    return counts, remaining, undersized


cdef int _read_block(bytes key, value, vector[uint64_t]& numbers) except -1:
    """Append the numbers of a stored block to ``numbers``. Raises ValueError if the block is damaged."""
    cdef Py_buffer buffer
    cdef Py_ssize_t size
    if len(key) != 12:
        raise ValueError(f"key {key.hex()}: not the key of a block")
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        size = _get_payload_size(<const uint8_t*> buffer.buf, buffer.len)
        if size < 0:
            raise ValueError(f"key {key.hex()}: the block fails its checksum")
        _read_numbers(
            _read_big_endian(<const uint8_t*> PyBytes_AS_STRING(key) + 4), <const uint8_t*> buffer.buf, size, numbers
        )
    finally:
        PyBuffer_Release(&buffer)
    return 0


cdef int _write_blocks(
    owner, const vector[uint64_t]& numbers, size_t max_numbers, vector[uint8_t]& out, dict written
) except -1:
    """Add the numbers of an owner to ``written``, as blocks of about the same size with at most ``max_numbers``.

    ``out`` is working memory.
    """
    cdef size_t num_blocks = (numbers.size() + max_numbers - 1) // max_numbers
    cdef size_t block, begin, end = 0, position
    for block in range(num_blocks):
        begin, end = end, (block + 1) * numbers.size() // num_blocks
        out.clear()
        for position in range(begin + 1, end):
            _write_leb128(out, numbers[position] - numbers[position - 1])
        _seal(out)
        written[_encode_key(owner, numbers[begin])] = _to_bytes(out)
    return 0


cdef size_t _count_below(numbers, uint64_t limit) except? 0:
    """Return how many of some ascending numbers are below a limit."""
    cdef size_t low = 0, high = len(numbers), middle
    while low < high:
        middle = (low + high) // 2
        if <uint64_t> numbers[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low


#: The end of an edge, and the edge as that end's row has it.
ctypedef pair[uint32_t, uint64_t] ReverseEdge


cdef class EdgeChanges:
    """Removed and added edges from chunks to entities, collected by entity while the rows of chunks change.

    The row of a chunk has a number for each of its entities: the entity, and in the low bits the *label* of the edge.
    The edge in the row of an entity is the chunk, and the label in the low bits.
    """

    cdef vector[ReverseEdge] _removed_edges, _added_edges
    cdef int _label_bits, _chunk_shift

    def __cinit__(self, int label_bits, int chunk_shift):
        """Begin without changes. Labels have ``label_bits`` bits; ``chunk_shift`` is the position of a chunk's id."""
        if not 0 < label_bits <= chunk_shift <= 32:
            raise ValueError(f"labels of {label_bits} bits below a chunk at bit {chunk_shift} are not possible")
        self._label_bits, self._chunk_shift = label_bits, chunk_shift

    def change_row(
        self, uint64_t chunk, bytes key, value, new_edges, removed_entities, uint64_t kept_labels, dict written
    ) -> None:
        """Replace the row of a chunk, and collect the changes of its edges.

        ``key`` and ``value`` are its record as stored; the value is None for a missing row. The new row has
        ``new_edges``, the labels by entity, and the labels of the old row, of which only the bits ``kept_labels`` are
        kept, and none for ``removed_entities``. An edge without a label is dropped. Adds the new value, None for an
        empty row, to ``written`` if the row changes. Raises ValueError for a damaged row, or a number that is too large.
        """
        cdef vector[uint64_t] old_row, new_row
        cdef vector[uint8_t] out
        cdef uint64_t entity, label, last = 0
        cdef uint64_t mask = (<uint64_t> 1 << self._label_bits) - 1
        cdef size_t index, old_index = 0, num_edges = 0
        cdef size_t num_changes = self._removed_edges.size() + self._added_edges.size()
        if chunk >> (64 - self._chunk_shift):
            raise ValueError(f"the chunk {chunk} is too large")
        if value is not None:
            _read_row(key, value, old_row)
        for entity, label in new_edges.items():
            if entity >> 32 or label & ~mask:
                raise ValueError(f"the edge to {entity} with the label {label} is too large")
            new_row.push_back(entity << self._label_bits | label)
        if kept_labels:
            for index in range(old_row.size()):
                entity, label = old_row[index] >> self._label_bits, old_row[index] & kept_labels & mask
                if label and (not removed_entities or entity not in removed_entities):
                    new_row.push_back(entity << self._label_bits | label)
        sort(new_row.begin(), new_row.end())
        for index in range(new_row.size()):  # unite the labels of each entity
            if num_edges and new_row[num_edges - 1] >> self._label_bits == new_row[index] >> self._label_bits:
                new_row[num_edges - 1] |= new_row[index]
            else:
                new_row[num_edges] = new_row[index]
                num_edges += 1
        new_row.resize(num_edges)
        for index in range(num_edges):
            while old_index < old_row.size() and old_row[old_index] < new_row[index]:
                self._collect(self._removed_edges, chunk, old_row[old_index])
                old_index += 1
            if old_index < old_row.size() and old_row[old_index] == new_row[index]:
                old_index += 1
            else:
                self._collect(self._added_edges, chunk, new_row[index])
        while old_index < old_row.size():
            self._collect(self._removed_edges, chunk, old_row[old_index])
            old_index += 1
        if self._removed_edges.size() + self._added_edges.size() == num_changes:
            return
        for index in range(num_edges):
            _write_leb128(out, new_row[index] - last)
            last = new_row[index]
        if num_edges:
            _seal(out)
        written[key] = _to_bytes(out) if num_edges else None

    cdef inline void _collect(self, vector[ReverseEdge]& edges, uint64_t chunk, uint64_t edge) noexcept:
        """Append an edge of the row of ``chunk`` to ``edges``, as the row of its entity has it."""
        cdef uint64_t label = edge & ((<uint64_t> 1 << self._label_bits) - 1)
        edges.push_back(ReverseEdge(<uint32_t> (edge >> self._label_bits), chunk << self._chunk_shift | label))

    def __len__(self) -> int:
        """Return the number of collected edges, removed and added."""
        return self._removed_edges.size() + self._added_edges.size()

    def take(self, size_t max_entities) -> dict:
        """Return the changes of the first ``max_entities`` entities, and forget them.

        The result has, by entity, the removed and the added edges of its row. The entities, and the edges of each,
        ascend.
        """
        cdef vector[ReverseEdge]* removed = &self._removed_edges
        cdef vector[ReverseEdge]* added = &self._added_edges
        cdef size_t removed_index = 0, added_index = 0
        cdef uint32_t entity
        changes = {}
        _sort_edges(removed[0])
        _sort_edges(added[0])
        while <size_t> len(changes) < max_entities and (removed_index < removed.size() or added_index < added.size()):
            if added_index == added.size() or (
                removed_index < removed.size() and removed[0][removed_index].first < added[0][added_index].first
            ):
                entity = removed[0][removed_index].first
            else:
                entity = added[0][added_index].first
            changes[entity] = _take_edges(removed[0], &removed_index, entity), _take_edges(added[0], &added_index, entity)
        self._removed_edges = vector[ReverseEdge](removed.begin() + removed_index, removed.end())
        self._added_edges = vector[ReverseEdge](added.begin() + added_index, added.end())
        return changes


cdef int _sort_edges(vector[ReverseEdge]& edges) except -1:
    """Sort edges by entity, unless they are sorted: what remains after a call of :meth:`EdgeChanges.take` is."""
    if not is_sorted(edges.begin(), edges.end()):
        sort(edges.begin(), edges.end())
    return 0


cdef list _take_edges(const vector[ReverseEdge]& edges, size_t* index, uint32_t entity):
    """Return the edges of an entity, which begin at ``index``, and set ``index`` to the first edge after them."""
    result: list = []
    while index[0] < edges.size() and edges[index[0]].first == entity:
        result.append(edges[index[0]].second)
        index[0] += 1
    return result


cdef int _read_row(bytes key, value, vector[uint64_t]& numbers) except -1:
    """Append the numbers of a sealed payload to ``numbers``; the first is a distance from 0. ``key`` is for messages.

    Raises ValueError if the value is damaged.
    """
    cdef Py_buffer buffer
    cdef Py_ssize_t size
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        size = _get_payload_size(<const uint8_t*> buffer.buf, buffer.len)
        if size < 0:
            raise ValueError(f"key {key.hex()}: the value fails its checksum")
        _read_numbers(0, <const uint8_t*> buffer.buf, size, numbers)
    finally:
        PyBuffer_Release(&buffer)
    numbers.erase(numbers.begin())  # 0, the base
    return 0
