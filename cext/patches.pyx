# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Patches: the difference between two values in few bytes, as copies of parts of the old value and literal bytes.

In: an old and a new value, or an old value and a patch. Out: the patch, or the new value. A patch has the length of the
old and of the new value, then alternately the number of literal bytes and the bytes, and the number of copied bytes and
the distance of the copy's start from the end of the previous copy, advanced by the literal bytes (doubled, minus one if
it is negative). All numbers are LEB128. Bytes that are not a patch of the value raise ValueError.

Copies are found as in the string-to-string correction with block moves by Karp and Rabin and by Tichy (Tichy 1984,
section 4: greedy minimizes the number of copies): where the value continues as before, else where the same eight bytes
occur.

The changes of a record by several commits are a *chain* of pieces, oldest first. A piece is a byte with its kind, the
number of bytes that follow (LEB128), and these bytes: the value (0), a patch of the previous value (1), or a patch of
the value in the table (2), which like a value begins a new chain. An empty chain means no change.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from libcpp.vector cimport vector

include "leb128.pxi"

cdef enum:
    # The bytes that a copy must save, because it costs two or three numbers.
    _MIN_COPY_BYTES = 8
    # Bits of a hash of eight bytes. A longer value is indexed only at every step of several bytes.
    _HASH_BITS = 12
    _POSITIONS = 1 << _HASH_BITS
    # A patch of a value of the same size that is not longer than this is used without a search for moved bytes.
    _MAX_ALIGNED_BYTES = 64
    # A larger value is stored as a whole.
    _MAX_VALUE_BYTES = 1 << 24
    # The kinds of pieces.
    _VALUE = 0
    _PATCH = 1
    _PATCH_OF_STORED = 2


#: The positions in the old value of a patch, by the hash of eight bytes, added to a number that grows with every patch.
#: So the slots of earlier patches are recognized without clearing the table for each patch. Protected by the GIL.
cdef uint32_t[_POSITIONS] _slots
cdef uint32_t _first_slot_value = 1, _next_slot_value = 1


cdef inline uint64_t _read_eight_bytes(const uint8_t* cursor) noexcept:
    """Return eight bytes as one number, to compare or hash them at once."""
    cdef uint64_t number
    memcpy(&number, cursor, 8)
    return number


cdef inline uint32_t _hash_eight_bytes(uint64_t eight) noexcept:
    """Return the slot of eight bytes in the table of positions (Fibonacci hashing)."""
    return <uint32_t> ((eight * <uint64_t> 0x9E3779B97F4A7C15) >> (64 - _HASH_BITS))


cdef inline Py_ssize_t _count_equal(const uint8_t* first, const uint8_t* second, Py_ssize_t limit) noexcept:
    """Return how many bytes from two addresses on are equal, up to the first difference and at most ``limit``."""
    cdef Py_ssize_t count = 0
    while count + 8 <= limit and _read_eight_bytes(first + count) == _read_eight_bytes(second + count):
        count += 8
    while count < limit and first[count] == second[count]:
        count += 1
    return count


cdef inline void _write_literal(vector[uint8_t]& out, const uint8_t* cursor, Py_ssize_t count) noexcept:
    """Append ``count`` literal bytes to a patch, after their number."""
    _write_leb128(out, count)
    out.insert(out.end(), cursor, cursor + count)


cdef bint _write_aligned_patch(const uint8_t* old, const uint8_t* new, Py_ssize_t size, vector[uint8_t]& out) noexcept:
    """Append the patch between two values of equal size to ``out``, if it needs no moved bytes and is short.

    Returns False, and leaves ``out`` empty, if it is not short. This takes a small part of the time of a search.
    """
    cdef Py_ssize_t index = 0, literal_start = 0, length
    _write_leb128(out, size)
    _write_leb128(out, size)
    while index < size and index - literal_start <= _MAX_ALIGNED_BYTES and out.size() <= _MAX_ALIGNED_BYTES:
        length = _count_equal(old + index, new + index, size - index)
        if length < _MIN_COPY_BYTES and length < size - index:
            index += length + 1
            continue
        _write_literal(out, new + literal_start, index - literal_start)
        _write_leb128(out, length)
        out.push_back(0)  # the copy begins where the literal bytes end
        index += length
        literal_start = index
    if index > literal_start:
        _write_literal(out, new + literal_start, index - literal_start)
    if out.size() > _MAX_ALIGNED_BYTES:
        out.clear()
        return False
    return True


cdef bint _write_patch(
    const uint8_t* old, Py_ssize_t old_size, const uint8_t* new, Py_ssize_t new_size, vector[uint8_t]& out
) noexcept:
    """Append the patch from ``old`` to ``new`` to ``out``; False if it would not be shorter than ``new``.

    The patch alternates literal bytes with copies of bytes of the old value, as LZ4 does.
    """
    global _first_slot_value, _next_slot_value
    cdef bint has_positions = False
    cdef Py_ssize_t step = 1 + old_size // _POSITIONS
    cdef Py_ssize_t index = 0, literal_start = 0, expected_source = 0, source, length, position, match_length
    if old_size == new_size and _write_aligned_patch(old, new, new_size, out):
        return <Py_ssize_t> out.size() < new_size
    _write_leb128(out, old_size)
    _write_leb128(out, new_size)
    while index < new_size:
        # The old value continues here if the literal bytes replaced as many.
        source = expected_source + index - literal_start
        length = 0
        if source < old_size:
            length = _count_equal(old + source, new + index, min(old_size - source, new_size - index))
        if length < _MIN_COPY_BYTES and length < new_size - index and index + 8 <= new_size:
            if not has_positions:
                if _next_slot_value + <uint64_t> old_size > 0xFFFFFFFFU:
                    memset(_slots, 0, sizeof(_slots))
                    _next_slot_value = 1
                _first_slot_value, _next_slot_value = _next_slot_value, _next_slot_value + <uint32_t> old_size
                position = 0
                while position + 8 <= old_size:
                    _slots[_hash_eight_bytes(_read_eight_bytes(old + position))] = _first_slot_value + <uint32_t> position
                    position += step
                has_positions = True
            # Negative if the slot is of an earlier patch.
            position = <Py_ssize_t> _slots[_hash_eight_bytes(_read_eight_bytes(new + index))] - _first_slot_value
            if position >= 0 and position != source:
                match_length = _count_equal(old + position, new + index, min(old_size - position, new_size - index))
                if match_length > length:
                    source, length = position, match_length
        if length < _MIN_COPY_BYTES and length < new_size - index:
            index += 1
            if index - literal_start >= new_size:
                return False
            continue
        # Also copy equal bytes before the match, which a step has skipped.
        while index > literal_start and source > 0 and old[source - 1] == new[index - 1]:
            source, index, length = source - 1, index - 1, length + 1
        _write_literal(out, new + literal_start, index - literal_start)
        _write_leb128(out, length)
        expected_source += index - literal_start
        if source >= expected_source:
            _write_leb128(out, 2 * <uint64_t> (source - expected_source))
        else:
            _write_leb128(out, 2 * <uint64_t> (expected_source - source) - 1)
        index += length
        literal_start, expected_source = index, source + length
        if <Py_ssize_t> out.size() >= new_size:
            return False
    if index > literal_start:
        _write_literal(out, new + literal_start, index - literal_start)
    return <Py_ssize_t> out.size() < new_size


def make_patch(old, new):
    """Return the patch from ``old`` to ``new``: copies of parts of the old value, and literal bytes.

    Returns None if the patch would not be shorter than ``new``, or if a value is too long.
    """
    cdef Py_buffer before, after
    cdef vector[uint8_t] out
    cdef bint shorter
    PyObject_GetBuffer(old, &before, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(new, &after, PyBUF_SIMPLE)
        try:
            shorter = (
                after.len > _MIN_COPY_BYTES
                and before.len < _MAX_VALUE_BYTES
                and after.len < _MAX_VALUE_BYTES
                and _write_patch(<const uint8_t*> before.buf, before.len, <const uint8_t*> after.buf, after.len, out)
            )
        finally:
            PyBuffer_Release(&after)
    finally:
        PyBuffer_Release(&before)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size()) if shorter else None


cdef bytes _apply_patch(const uint8_t* old, uint64_t old_size, const uint8_t* cursor, const uint8_t* end):
    """Apply the patch from ``cursor`` to ``end`` to ``old``, and return the new value.

    Raises ValueError if it does not fit.
    """
    cdef uint64_t expected_size, new_size, written = 0, length, distance, source = 0
    cdef bytes new_value
    cdef uint8_t* new
    cursor = _read_leb128(cursor, end, &expected_size)
    cursor = _read_leb128(cursor, end, &new_size)
    if expected_size != old_size or new_size >= _MAX_VALUE_BYTES:
        raise ValueError(f"the patch is for a value of {expected_size} bytes, not of {old_size}")
    new_value = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> new_size)
    new = <uint8_t*> PyBytes_AS_STRING(new_value)
    while cursor < end:
        cursor = _read_leb128(cursor, end, &length)
        if length > <uint64_t> (end - cursor) or length > new_size - written:
            raise ValueError("literal bytes of a patch are truncated")
        memcpy(new + written, cursor, length)
        cursor, written, source = cursor + length, written + length, source + length
        if cursor == end:
            break
        cursor = _read_leb128(cursor, end, &length)
        cursor = _read_leb128(cursor, end, &distance)
        # The lowest bit is the sign; see the module.
        source = source - ((distance >> 1) + 1) if distance & 1 else source + (distance >> 1)
        if source > old_size or length > old_size - source or length > new_size - written:
            raise ValueError("a patch copies bytes outside the value")
        memcpy(new + written, old + source, length)
        written, source = written + length, source + length
    if written != new_size:
        raise ValueError(f"a patch produces {written} bytes, not {new_size}")
    return new_value


def apply_patch(old, patch) -> bytes:
    """Return the new value, given ``old`` and a patch: copies of parts of ``old``, and literal bytes.

    Raises ValueError if the patch is not one of ``old``.
    """
    cdef Py_buffer before, changes
    PyObject_GetBuffer(old, &before, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(patch, &changes, PyBUF_SIMPLE)
        try:
            return _apply_patch(
                <const uint8_t*> before.buf,
                before.len,
                <const uint8_t*> changes.buf,
                <const uint8_t*> changes.buf + changes.len,
            )
        finally:
            PyBuffer_Release(&changes)
    finally:
        PyBuffer_Release(&before)


cdef object _apply_chain(bytes chain, stored):
    """Apply a chain, the buffered changes of a record, and return its value now; None if it has none.

    ``stored`` is its value in the table, or None. A piece of the chain is one change, oldest first: a whole value, a
    patch (difference) to the value so far, or a patch to ``stored``.
    """
    cdef const uint8_t* begin = <const uint8_t*> PyBytes_AS_STRING(chain)
    cdef const uint8_t* cursor = begin
    cdef const uint8_t* end = begin + len(chain)
    cdef uint64_t length
    cdef uint8_t kind
    cdef Py_buffer before
    value = stored
    while cursor < end:
        kind = cursor[0]
        cursor = _read_leb128(cursor + 1, end, &length)
        if kind > _PATCH_OF_STORED or length > <uint64_t> (end - cursor):
            raise ValueError("a piece of a chain is truncated")
        if kind == _VALUE:
            value = memoryview(chain)[cursor - begin : cursor - begin + <Py_ssize_t> length]
        else:
            old = stored if kind == _PATCH_OF_STORED else value
            if old is None:
                raise ValueError("a patch changes a missing record")
            PyObject_GetBuffer(old, &before, PyBUF_SIMPLE)
            try:
                value = _apply_patch(<const uint8_t*> before.buf, before.len, cursor, cursor + length)
            finally:
                PyBuffer_Release(&before)
        cursor += length
    return value


def apply_chain(chain, stored):
    """Return the value of a record, as bytes or a view of them, or None if it has none.

    ``chain`` has the buffered changes of the record (None: removed), and ``stored`` is its value in the table or None.
    Raises ValueError if the chain does not belong to this record.
    """
    return None if chain is None else _apply_chain(chain, stored)


#: The value for a record without a chain, because a chain may be None.
cdef object _NOTHING = object()


cdef inline bint _needs_stored(chain) except -1:
    """True if the value of a record depends on its value in the table: its changes do not begin with a whole value.

    The chain of a removed record is None.
    """
    return chain is not None and (len(<bytes> chain) == 0 or PyBytes_AS_STRING(chain)[0] != _VALUE)


cdef bytes _encode_piece(uint8_t kind, const uint8_t* content, Py_ssize_t size):
    """Encode a piece of a chain, one change of a record: its kind, the size of the content in LEB128, the content."""
    cdef vector[uint8_t] out
    out.reserve(size + 8)
    out.push_back(kind)
    _write_leb128(out, size)
    out.insert(out.end(), content, content + size)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


cdef int _count_pieces(bytes chain) except -1:
    """Return the number of pieces of a chain: the buffered changes of a record."""
    cdef const uint8_t* cursor = <const uint8_t*> PyBytes_AS_STRING(chain)
    cdef const uint8_t* end = cursor + len(chain)
    cdef uint64_t length
    cdef int count = 0
    while cursor < end:
        cursor = _read_leb128(cursor + 1, end, &length)
        if length > <uint64_t> (end - cursor):
            raise ValueError("a piece of a chain is truncated")
        cursor += length
        count += 1
    return count


cdef bint _are_equal(first, second) except -1:
    """True if two values have the same bytes."""
    cdef Py_buffer first_buffer, second_buffer
    PyObject_GetBuffer(first, &first_buffer, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(second, &second_buffer, PyBUF_SIMPLE)
        try:
            return first_buffer.len == second_buffer.len and not memcmp(
                first_buffer.buf, second_buffer.buf, first_buffer.len
            )
        finally:
            PyBuffer_Release(&second_buffer)
    finally:
        PyBuffer_Release(&first_buffer)


cdef bytes _make_piece(value, chain, stored, int max_pieces, bint is_first):
    """Encode the change of a record to ``value`` as a piece of its chain: a patch if that is shorter, else the value.

    ``chain`` has the earlier changes (None: removed), and ``stored`` is the value in the table or None. If the chain
    has ``max_pieces`` pieces, the piece replaces the chain, so a patch is then made from ``stored``. Returns None if
    the record has the value already, and ``is_first``: no piece was made for it yet that this one replaces.
    """
    cdef Py_buffer after
    if chain is not None:
        if _count_pieces(chain) < max_pieces:
            old = _apply_chain(chain, stored)
            if is_first and old is not None and _are_equal(old, value):
                return None
            piece = None if old is None else make_patch(old, value)
            if piece is not None:
                return _encode_piece(_PATCH, <const uint8_t*> PyBytes_AS_STRING(piece), len(piece))
        elif stored is not None:
            piece = make_patch(stored, value)
            if piece is not None:
                return _encode_piece(_PATCH_OF_STORED, <const uint8_t*> PyBytes_AS_STRING(piece), len(piece))
    PyObject_GetBuffer(value, &after, PyBUF_SIMPLE)
    try:
        return _encode_piece(_VALUE, <const uint8_t*> after.buf, after.len)
    finally:
        PyBuffer_Release(&after)


cdef inline object _extend_chain(chain, piece):
    """Return a chain, the buffered changes of a record, extended by one change.

    ``piece`` is the encoded change: a patch to the newest value is appended to the chain, a whole value or a patch to
    the value in the table replaces the chain. None removes the record, and is returned as its chain.
    """
    if piece is not None and chain is not None and PyBytes_AS_STRING(piece)[0] == _PATCH:
        return <bytes> chain + <bytes> piece
    return piece


def record_changes(changes, dict newer, dict older, stored, int max_pieces, dict pieces, dict chains) -> int:
    """Encode changed records for a new segment (a batch of changes); return the bytes of their keys and pieces.

    ``changes`` has the new value of each key (None: removed). For each key, its encoded change (a piece) for the new
    segment is added to ``pieces``, and the chain of its changes in all segments to ``chains``. A record that has the
    new value already is left out, unless ``pieces`` has an earlier change of it.

    The chain so far is the one in ``newer`` or, if the key is missing there, the one in ``older``. ``stored(key)``
    returns the value in the table, or None. A chain gets at most ``max_pieces`` pieces. Raises ValueError, with the
    key, if a chain does not belong to its record.
    """
    cdef Py_ssize_t size = 0
    for key, value in changes.items():
        chain = newer.get(key, _NOTHING)
        if chain is _NOTHING:
            chain = older.get(key, b"")
        piece = None
        if value is not None:
            try:
                stored_value = stored(key) if _needs_stored(chain) else None
                piece = _make_piece(value, chain, stored_value, max_pieces, key not in pieces)
            except ValueError as error:
                raise ValueError(f"key {key.hex()}: {error}") from error
            if piece is None:
                continue
            size += len(<bytes> piece)
        size += len(<bytes> key)
        pieces[key] = piece
        chains[key] = _extend_chain(chain, piece)
    return size


def apply_chains(keys, dict newer, dict older, stored) -> list:
    """Return the values of some records, in the order of ``keys``; None for a record without a value.

    The chain (changes) of a record is in ``newer`` or, if that lacks it, in ``older``; if both lack it, the record is
    unchanged. ``stored`` returns the value in the table for a key, or None. Values are memoryviews. Raises ValueError,
    with the key, if a chain does not belong to its record.
    """
    cdef list values = []
    for key in keys:
        chain = newer.get(key, _NOTHING)
        if chain is _NOTHING:
            chain = older.get(key, b"")
        try:
            value = None if chain is None else _apply_chain(chain, stored(key) if _needs_stored(chain) else None)
        except ValueError as error:
            raise ValueError(f"key {key.hex()}: {error}") from error
        values.append(memoryview(value) if type(value) is bytes else value)
    return values


cdef inline int _compare_keys(bytes first, bytes second) noexcept:
    """Return a number below, equal to or above 0 if ``first`` is before, equal to or after ``second``."""
    cdef Py_ssize_t first_size = PyBytes_GET_SIZE(first), second_size = PyBytes_GET_SIZE(second)
    cdef int order = memcmp(PyBytes_AS_STRING(first), PyBytes_AS_STRING(second), min(first_size, second_size))
    return order if order else (first_size > second_size) - (first_size < second_size)


def find_last_keys(list ranges not None, tuple key_lists not None) -> list:
    """Return for each range (start, stop) the last key with ``start <= key < stop`` in any of the lists, or None.

    The keys of each list ascend.
    """
    cdef Py_ssize_t low, high, middle
    cdef bytes start, stop, key
    cdef list keys
    last_keys: list = []
    for start, stop in ranges:
        if start is None or stop is None:
            raise TypeError("a range must be two bytes objects, not None")
        last_key = None
        for keys in key_lists:
            if keys is None:
                raise TypeError("a list of keys must not be None")
            low, high = 0, len(keys)
            while low < high:
                middle = (low + high) // 2
                key = keys[middle]
                if key is None:
                    raise TypeError("keys must be bytes, not None")
                if _compare_keys(key, stop) < 0:
                    low = middle + 1
                else:
                    high = middle
            key = keys[low - 1] if low else None  # compared before, so it is bytes
            if key is not None and _compare_keys(key, start) >= 0:
                last_key = start = key
        last_keys.append(last_key)
    return last_keys


def add_pieces(dict newer, dict older, dict pieces):
    """Extend the chains (earlier changes) of some records in ``newer`` by ``pieces``, one encoded change per key.

    Chains that ``newer`` lacks are taken from ``older``, which stays as it is.
    """
    for key, piece in pieces.items():
        chain = newer.get(key, _NOTHING)
        if chain is _NOTHING:
            chain = older.get(key)
        newer[key] = _extend_chain(chain, piece)
