# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Normalization of a text piece by piece: ASCII here, each run of other characters by a callable.

In: any string. Out: its normal form as UTF-8, and for each byte of it the offset in the UTF-8 of the string. Runs end
at the edges of white space, so that combining characters stay in the run of the characters that they combine with.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector


cdef inline bint _is_space(Py_UCS4 c) noexcept:
    """True if a character is white space, as in str.isspace."""
    return c == 32 or 9 <= c <= 13 or 28 <= c <= 31 if c < 128 else c.isspace()


def fold_pieces(str text not None, fold_piece not None, bint with_offsets=True) -> tuple:
    """Return the normal form of a text and, with ``with_offsets``, an array of uint64 as bytes: for each byte of the
    form, and for its end, the offset of the byte of the text from which it comes.

    ``fold_piece`` maps a piece that is not ASCII to its form, the offset in the piece of each byte of the form, and the
    number of bytes of the piece.
    """
    cdef Py_ssize_t size = len(text), done = 0, at, start, stop
    cdef uint64_t position = 0, inner
    cdef uint32_t c
    cdef const unsigned char* more
    cdef Py_ssize_t i, length
    cdef vector[unsigned char] data
    cdef vector[uint64_t] offsets
    cdef bytes form
    data.reserve(size + 16)
    if with_offsets:
        offsets.reserve(size + 16)
    while done < size:
        at = done
        while at < size and text[at] < 128:
            at += 1
        start = stop = at
        if at < size:
            if _is_space(text[at]):
                while start > done and _is_space(text[start - 1]):
                    start -= 1
                while stop < size and _is_space(text[stop]):
                    stop += 1
            else:
                while start > done and not _is_space(text[start - 1]):
                    start -= 1
                while stop < size and not _is_space(text[stop]):
                    stop += 1
        for i in range(done, start):
            c = <uint32_t> text[i]
            data.push_back(<unsigned char> (c + 32 if 65 <= c <= 90 else c))
            if with_offsets:
                offsets.push_back(position)
            position += 1
        if stop > start:
            form, piece_offsets, piece_size = fold_piece(text[start:stop])
            more, length = form, len(form)
            data.insert(data.end(), more, more + length)
            if with_offsets:
                for inner in piece_offsets:
                    offsets.push_back(position + inner)
            position += <uint64_t> piece_size
        done = stop
    if not with_offsets:
        return PyBytes_FromStringAndSize(<const char*> data.data(), data.size()), b""
    offsets.push_back(position)
    return (
        PyBytes_FromStringAndSize(<const char*> data.data(), data.size()),
        PyBytes_FromStringAndSize(<const char*> offsets.data(), 8 * offsets.size()),
    )
