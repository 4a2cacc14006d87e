# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernels of the entity filter, over pages of plain bytes.

In: pages, through a callable that verifies their checksums and is called when a page is first needed; names as ``str``;
texts as UTF-8. Out: entities, addresses, positions in a text, and changed pages. Pages are little-endian;
kvstore/storage/FORMAT.md has their layout. An inconsistent page raises the error class of its page table. Nothing reads
outside a page or loops forever.

This is one translation unit, so that the compiler sees the whole path from a hash to a result. Each included file has
one concern.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_READ, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset
from cython.operator cimport dereference as deref
from libcpp.algorithm cimport set_difference, set_union, sort, unique
from libcpp.deque cimport deque
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from unicodedata import category

cdef extern from "stdlib.h":
    int posix_memalign(void** memory, size_t alignment, size_t size) noexcept nogil

cdef enum:
    _PAGE_BYTES = 4080
    _PAGE_OVERHEAD = 16     # bytes before a page in LMDB's own page and in a private copy
    _NUMBER = 8             # offset of a page's own number
    _PAGE_LIMIT = 0x800000  # page numbers have 23 bits; the 24th bit of a directory entry marks forks
    _KEY_BYTES = 511        # LMDB's longest key, because an ordered table stores names too

cdef uint64_t _AT_FORK = <uint64_t> 1 << 62

#: The identifiers of the page encodings. They change if the format of a page becomes incompatible.
BUCKET_ENCODING = b"KVB1"
BLOCK_ENCODING = b"KVL1"
DIRECTORY_ENCODING = b"KVD1"
FORK_ENCODING = b"KVF1"

PAGE_BYTES = _PAGE_BYTES
PAGE_LIMIT = _PAGE_LIMIT
KEY_BYTES = _KEY_BYTES

include "hashing.pxi"
include "page_table.pxi"
include "bucket_page.pxi"
include "block_page.pxi"
include "directory.pxi"
include "entity_index.pxi"
include "batch.pxi"
include "filter_check.pxi"
include "recognition.pxi"
include "text_traces.pxi"

ROOMY_OFFSET = _LP_ROOMY
BUCKET_SLOTS = _SLOTS
WIDEST_DIRECTORY = _MAX_DEPTH
