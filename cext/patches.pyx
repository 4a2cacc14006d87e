# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What makes a value of the one before it, in few bytes: copies of parts of that, and literal bytes between them.

In: a value as it was and as it is, or a value as it was and a patch. Out: the patch, or the value as it is. A patch is
the length of the value before and of the value after, then by turns the number of literal bytes and the bytes, and the
number of bytes copied and how far from where the copy before it leads the copied bytes begin, literal bytes counted
(doubled, less one where it is backwards); all short numbers (LEB128). Bytes that are no patch of a value raise
ValueError.

Copies are found as in Karp and Rabin's and Tichy's string-to-string correction with block moves (Tichy 1984, section 4:
greedy is best in copies): where the value goes on as it did, else where the same eight bytes stand in it.

What several commits say of a record is a *chain* of pieces, oldest first. A piece is one byte that says what it is, the
number of bytes that follow (a short number), and these: the value (0), a patch to what the record was before (1), or a
patch to what its table holds (2), which as the value begins the chain anew. An empty chain says nothing.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

include "leb128.pxi"

cdef enum:
    # Bytes that a copy must save to be worth its two or three numbers.
    _LEAST = 8
    # Bits of a hash of eight bytes; a longer value has them looked up at every step of so many bytes only.
    _HASH_BITS = 12
    _PLACES = 1 << _HASH_BITS
    # A value larger than that is taken whole.
    _MOST = 1 << 24
    # What a piece is.
    _VALUE = 0
    _PATCH = 1
    _PATCH_OF_STORED = 2


cdef inline uint64_t _eight(const uint8_t* at) noexcept:
    cdef uint64_t number
    memcpy(&number, at, 8)
    return number


cdef inline uint32_t _hash(uint64_t eight) noexcept:
    return <uint32_t> ((eight * <uint64_t> 0x9E3779B97F4A7C15) >> (64 - _HASH_BITS))


cdef inline Py_ssize_t _same(const uint8_t* one, const uint8_t* other, Py_ssize_t most) noexcept:
    """How many bytes are the same from two places on, at most ``most``."""
    cdef Py_ssize_t count = 0
    while count + 8 <= most and _eight(one + count) == _eight(other + count):
        count += 8
    while count < most and one[count] == other[count]:
        count += 1
    return count


cdef inline void _literal(vector[uint8_t]& out, const uint8_t* at, Py_ssize_t count) noexcept:
    _write(out, count)
    out.insert(out.end(), at, at + count)


cdef bint _make(
    const uint8_t* old, Py_ssize_t old_size, const uint8_t* new, Py_ssize_t new_size, vector[uint8_t]& out
) noexcept:
    """Write a patch; False where it would not be shorter than the value."""
    cdef uint32_t[_PLACES] places  # by hash, one more than where it stands
    cdef bint hashed = False
    cdef Py_ssize_t step = 1 + old_size // _PLACES
    cdef Py_ssize_t at = 0, begun = 0, expected = 0, source, length, place
    cdef uint64_t number
    _write(out, old_size)
    _write(out, new_size)
    while at < new_size:
        # Where the value goes on as it did, literal bytes having taken the places of as many.
        source = expected + at - begun
        length = 0
        if source < old_size:
            length = _same(old + source, new + at, min(old_size - source, new_size - at))
        if length < _LEAST and length < new_size - at and at + 8 <= new_size:
            if not hashed:
                memset(places, 0, sizeof(places))
                place = 0
                while place + 8 <= old_size:
                    places[_hash(_eight(old + place))] = <uint32_t> (place + 1)
                    place += step
                hashed = True
            place = <Py_ssize_t> places[_hash(_eight(new + at))] - 1
            if place >= 0 and place != source:
                number = _same(old + place, new + at, min(old_size - place, new_size - at))
                if <Py_ssize_t> number > length:
                    source, length = place, <Py_ssize_t> number
        if length < _LEAST and length < new_size - at:
            at += 1
            if at - begun >= new_size:
                return False
            continue
        # Bytes before it that are the same too, which a step has passed over.
        while at > begun and source > 0 and old[source - 1] == new[at - 1]:
            source, at, length = source - 1, at - 1, length + 1
        _literal(out, new + begun, at - begun)
        _write(out, length)
        expected += at - begun
        if source >= expected:
            _write(out, 2 * <uint64_t> (source - expected))
        else:
            _write(out, 2 * <uint64_t> (expected - source) - 1)
        at += length
        begun, expected = at, source + length
        if <Py_ssize_t> out.size() >= new_size:
            return False
    if at > begun:
        _literal(out, new + begun, at - begun)
    return <Py_ssize_t> out.size() < new_size


def patch(old, new):
    """The patch that makes ``new`` of ``old``, or None where it would not be shorter than ``new``."""
    cdef Py_buffer before, after
    cdef vector[uint8_t] out
    cdef bint shorter
    PyObject_GetBuffer(old, &before, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(new, &after, PyBUF_SIMPLE)
        try:
            shorter = (
                after.len > _LEAST
                and before.len < _MOST
                and after.len < _MOST
                and _make(<const uint8_t*> before.buf, before.len, <const uint8_t*> after.buf, after.len, out)
            )
        finally:
            PyBuffer_Release(&after)
    finally:
        PyBuffer_Release(&before)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size()) if shorter else None


cdef bytes _apply(const uint8_t* old, uint64_t old_size, const uint8_t* at, const uint8_t* end):
    cdef uint64_t expected_size, new_size, done = 0, length, shift, source = 0
    cdef bytes made
    cdef uint8_t* new
    at = _read(at, end, &expected_size)
    at = _read(at, end, &new_size)
    if expected_size != old_size or new_size >= _MOST:
        raise ValueError(f"a patch of {expected_size} bytes, not of {old_size}")
    made = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> new_size)
    new = <uint8_t*> PyBytes_AS_STRING(made)
    while at < end:
        at = _read(at, end, &length)
        if length > <uint64_t> (end - at) or length > new_size - done:
            raise ValueError("literal bytes of a patch are cut short")
        memcpy(new + done, at, length)
        at, done, source = at + length, done + length, source + length
        if at == end:
            break
        at = _read(at, end, &length)
        at = _read(at, end, &shift)
        source = source - ((shift >> 1) + 1) if shift & 1 else source + (shift >> 1)
        if source > old_size or length > old_size - source or length > new_size - done:
            raise ValueError("a patch copies what is not there")
        memcpy(new + done, old + source, length)
        done, source = done + length, source + length
    if done != new_size:
        raise ValueError(f"a patch makes {done} bytes, not {new_size}")
    return made


def patched(old, patch) -> bytes:
    """What a patch makes of ``old``; raises ValueError where it is no patch of it."""
    cdef Py_buffer before, changes
    PyObject_GetBuffer(old, &before, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(patch, &changes, PyBUF_SIMPLE)
        try:
            return _apply(
                <const uint8_t*> before.buf,
                before.len,
                <const uint8_t*> changes.buf,
                <const uint8_t*> changes.buf + changes.len,
            )
        finally:
            PyBuffer_Release(&changes)
    finally:
        PyBuffer_Release(&before)


cdef object _value_of(bytes chain, stored):
    """What a chain makes of what the table holds; a patch is applied to bytes, which nothing else has yet."""
    cdef const uint8_t* begin = <const uint8_t*> PyBytes_AS_STRING(chain)
    cdef const uint8_t* at = begin
    cdef const uint8_t* end = begin + len(chain)
    cdef uint64_t length
    cdef uint8_t kind
    cdef Py_buffer before
    value = stored
    while at < end:
        kind = at[0]
        at = _read(at + 1, end, &length)
        if kind > _PATCH_OF_STORED or length > <uint64_t> (end - at):
            raise ValueError("a piece of a chain is cut short")
        if kind == _VALUE:
            value = memoryview(chain)[at - begin : at - begin + <Py_ssize_t> length]
        else:
            old = stored if kind == _PATCH_OF_STORED else value
            if old is None:
                raise ValueError("a patch of a record that is not there")
            PyObject_GetBuffer(old, &before, PyBUF_SIMPLE)
            try:
                value = _apply(<const uint8_t*> before.buf, before.len, at, at + length)
            finally:
                PyBuffer_Release(&before)
        at += length
    return value


def value_of(chain, stored):
    """The value of a record of which the segments say ``chain`` (None: it is removed) and its table holds ``stored``
    (None: nothing): bytes or a view of them, None where there is none. Raises ValueError where the chain is none of
    this record."""
    return None if chain is None else _value_of(chain, stored)


#: No chain, which may be None.
cdef object _NOTHING = object()


cdef inline bint _needs_stored(chain) except -1:
    """Whether the value of a record depends on what its table holds."""
    return chain is not None and (len(<bytes> chain) == 0 or PyBytes_AS_STRING(chain)[0] != _VALUE)


cdef bytes _piece(uint8_t kind, const uint8_t* content, Py_ssize_t size):
    cdef vector[uint8_t] out
    out.reserve(size + 8)
    out.push_back(kind)
    _write(out, size)
    out.insert(out.end(), content, content + size)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


cdef int _pieces(bytes chain) except -1:
    """How many pieces a chain has."""
    cdef const uint8_t* at = <const uint8_t*> PyBytes_AS_STRING(chain)
    cdef const uint8_t* end = at + len(chain)
    cdef uint64_t length
    cdef int count = 0
    while at < end:
        at = _read(at + 1, end, &length)
        if length > <uint64_t> (end - at):
            raise ValueError("a piece of a chain is cut short")
        at += length
        count += 1
    return count


cdef bytes _made(value, chain, stored, int most):
    """What makes ``value`` of a record of which the segments say ``chain`` so far."""
    cdef Py_buffer after
    if chain is not None:
        if _pieces(chain) < most:
            old = _value_of(chain, stored)
            made = None if old is None else patch(old, value)
            if made is not None:
                return _piece(_PATCH, <const uint8_t*> PyBytes_AS_STRING(made), len(made))
        elif stored is not None:
            made = patch(stored, value)
            if made is not None:
                return _piece(_PATCH_OF_STORED, <const uint8_t*> PyBytes_AS_STRING(made), len(made))
    PyObject_GetBuffer(value, &after, PyBUF_SIMPLE)
    try:
        return _piece(_VALUE, <const uint8_t*> after.buf, after.len)
    finally:
        PyBuffer_Release(&after)


cdef inline object _extended(chain, piece):
    if piece is not None and chain is not None and PyBytes_AS_STRING(piece)[0] == _PATCH:
        return <bytes> chain + <bytes> piece
    return piece


def say_many(changes, dict newer, dict older, stored, int most, dict pieces, dict chains) -> int:
    """Put what a further segment says of some records that become ``changes`` (None: it is removed) into ``pieces``,
    and what all segments then say of them into ``chains``; returns the bytes of keys and pieces.

    ``newer``, and of what that lacks ``older``, are what the segments say so far. ``stored`` gives what the table holds
    under a key, or None. A chain gets at most ``most`` pieces. Raises ValueError, with the key, where a chain is none
    of its record.
    """
    cdef Py_ssize_t size = 0
    for key, value in changes.items():
        chain = newer.get(key, _NOTHING)
        if chain is _NOTHING:
            chain = older.get(key, b"")
        made = None
        if value is not None:
            try:
                made = _made(value, chain, stored(key) if _needs_stored(chain) else None, most)
            except ValueError as error:
                raise ValueError(f"key {key.hex()}: {error}") from error
            size += len(<bytes> made)
        size += len(<bytes> key)
        pieces[key] = made
        chains[key] = _extended(chain, made)
    return size


def values_of(keys, dict newer, dict older, stored) -> list:
    """What becomes of some records of which the segments say ``newer``, or, where that lacks one, ``older``: a value
    each, None where there is none. ``stored`` gives what the table holds under a key, or None. Raises ValueError, with
    the key, where a chain is none of its record."""
    cdef list found = []
    for key in keys:
        chain = newer.get(key, _NOTHING)
        if chain is _NOTHING:
            chain = older[key]
        try:
            found.append(None if chain is None else _value_of(chain, stored(key) if _needs_stored(chain) else None))
        except ValueError as error:
            raise ValueError(f"key {key.hex()}: {error}") from error
    return found


def add_pieces(dict newer, dict older, dict pieces):
    """Extend in ``newer`` the chains of some records; those that it lacks are in ``older``, if anywhere."""
    for key, piece in pieces.items():
        chain = newer.get(key, _NOTHING)
        if chain is _NOTHING:
            chain = older.get(key)
        newer[key] = _extended(chain, piece)
