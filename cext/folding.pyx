# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Normalization of a text piece by piece: ASCII here, each run of other characters by a callable.

In: any string. Out: its normal form as UTF-8, and for each byte of it the offset in the UTF-8 of the string. Runs end
at the edges of white space, so that combining characters stay in the run of the characters that they combine with.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DATA, PyUnicode_KIND, PyUnicode_READ
from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector


cdef inline bint _is_space(Py_UCS4 c) noexcept:
    """True if a character is white space, as in str.isspace."""
    return c == 32 or 9 <= c <= 13 or 28 <= c <= 31 if c < 128 else c.isspace()


def fold_pieces(str text not None, fold_piece not None, bint with_offsets=True) -> tuple:
    """Return the normal form of a text in UTF-8, and the offset in the text of each byte of the form.

    The offsets, packed as u64, include the offset of the end of the form. They count bytes of the text in UTF-8.
    Without ``with_offsets``, they are empty.

    A piece is a word, or a run of white space, with a character that is not ASCII. ``fold_piece`` maps it to its form,
    the offset in the piece of each byte of the form, and the number of bytes of the piece. The rest of the text, which
    is ASCII, only becomes lower case.
    """
    cdef Py_ssize_t size = len(text), folded_end = 0, index, start, stop
    cdef uint64_t offset = 0, piece_offset
    cdef uint32_t c
    cdef const unsigned char* form_bytes
    cdef Py_ssize_t i, length
    cdef vector[unsigned char] data
    cdef vector[uint64_t] offsets
    cdef bytes form
    cdef int kind = PyUnicode_KIND(text)
    cdef void* characters = PyUnicode_DATA(text)
    data.reserve(size + 16)
    if with_offsets:
        offsets.reserve(size + 16)
    while folded_end < size:
        index = folded_end
        while index < size and PyUnicode_READ(kind, characters, index) < 128:
            index += 1
        start = stop = index
        if index < size:
            if _is_space(PyUnicode_READ(kind, characters, index)):
                while start > folded_end and _is_space(PyUnicode_READ(kind, characters, start - 1)):
                    start -= 1
                while stop < size and _is_space(PyUnicode_READ(kind, characters, stop)):
                    stop += 1
            else:
                while start > folded_end and not _is_space(PyUnicode_READ(kind, characters, start - 1)):
                    start -= 1
                while stop < size and not _is_space(PyUnicode_READ(kind, characters, stop)):
                    stop += 1
        for i in range(folded_end, start):
            c = <uint32_t> PyUnicode_READ(kind, characters, i)
            data.push_back(<unsigned char> (c + 32 if 65 <= c <= 90 else c))  # A to Z become a to z
            if with_offsets:
                offsets.push_back(offset)
            offset += 1
        if stop > start:
            form, piece_offsets, piece_size = fold_piece(text[start:stop])
            form_bytes, length = form, len(form)
            data.insert(data.end(), form_bytes, form_bytes + length)
            if with_offsets:
                for piece_offset in piece_offsets:
                    offsets.push_back(offset + piece_offset)
            offset += <uint64_t> piece_size
        folded_end = stop
    if not with_offsets:
        return PyBytes_FromStringAndSize(<const char*> data.data(), data.size()), b""
    offsets.push_back(offset)
    return (
        PyBytes_FromStringAndSize(<const char*> data.data(), data.size()),
        PyBytes_FromStringAndSize(<const char*> offsets.data(), 8 * offsets.size()),
    )
