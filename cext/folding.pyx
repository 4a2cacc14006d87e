# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""A text brought into normal form piece by piece: what is ASCII here, each run of anything else by whom it is handed to.

In: any string. Out: its normal form as UTF-8, and where each byte of that begins in the UTF-8 of the string. Runs end
where white space ends or begins, so that no character that others combine with stands in another run than they.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector


cdef inline bint _is_space(Py_UCS4 c) noexcept:
    return c == 32 or 9 <= c <= 13 or 28 <= c <= 31 if c < 128 else c.isspace()


def fold_pieces(str text not None, folded not None, bint placed=True) -> tuple:
    """The normal form of a text, and with ``placed`` the bytes of an array of uint64: for each byte of the form, and for
    its end, the byte of the text that it begins at.

    ``folded`` says of a piece that is not ASCII its form, the byte of the piece that each of its bytes begins at, and
    how many bytes the piece has.
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
    if placed:
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
            if placed:
                offsets.push_back(position)
            position += 1
        if stop > start:
            form, places, taken = folded(text[start:stop])
            more, length = form, len(form)
            data.insert(data.end(), more, more + length)
            if placed:
                for inner in places:
                    offsets.push_back(position + inner)
            position += <uint64_t> taken
        done = stop
    if not placed:
        return PyBytes_FromStringAndSize(<const char*> data.data(), data.size()), b""
    offsets.push_back(position)
    return (
        PyBytes_FromStringAndSize(<const char*> data.data(), data.size()),
        PyBytes_FromStringAndSize(<const char*> offsets.data(), 8 * offsets.size()),
    )
