# The pages of one LMDB table by number.
#
# In a snapshot, a page is a pointer into the map. It is set when the page is first needed, and is valid as long as the
# snapshot. Other threads may read the array meanwhile: an entry changes once from NULL to its pointer, with the GIL
# held. In a write transaction every page is a private copy, because a buffer of the map becomes invalid at the next
# put. `take_changed` returns the changed copies. Copies are aligned like LMDB's own pages, so that buckets do not
# straddle cache lines.

@cython.final
cdef class PageTable:
    """Pages of ``PAGE_BYTES`` bytes by number.

    ``encoding`` is the identifier at the beginning of each page. ``load(number)`` returns the bytes of a stored page
    with its checksum verified, or raises. ``more(after)`` returns some numbers of free pages above ``after``,
    ascending, or nothing. ``error`` is the class raised for damage, ``full`` the class raised if all page numbers are
    in use. ``count`` is one more than the highest number, and ``live`` is the number of pages in use. Raises ValueError
    for an invalid encoding, for impossible counts, and for a change if the table is not ``writable``.
    """

    cdef object _load, _list_more, _error, _full
    cdef str _table
    cdef bytes _encoding
    cdef bint _writable
    cdef uint8_t** _pages
    cdef uint8_t* _changed
    cdef readonly uint32_t count, live
    cdef size_t _capacity
    cdef vector[uint32_t] _dirty
    cdef list _owners         # objects that own the pages of a snapshot, if not the map
    cdef list _free
    cdef set _vacant        # free now, but in use at some time since the last flush
    cdef set _reused         # in use, but on the stored list of free pages
    cdef set _released      # free, but not on that list
    cdef int64_t _last_free

    def __cinit__(self, table, encoding, load, more, error, full, count, live, writable) -> None:
        """Create the table ``table`` of ``count`` pages, ``live`` of them in use; ``load`` reads a page when needed.

        ``more`` lists free pages, ``error`` and ``full`` are classes of errors, and ``writable`` allows changes.
        """
        if len(encoding) != 4:
            raise ValueError(f"an encoding has four bytes; {encoding!r} does not")
        if not 0 <= live <= count <= _PAGE_LIMIT:
            raise ValueError(f"invalid counts: {live} of {count} pages in use; a table has at most {_PAGE_LIMIT}")
        self._table = table
        self._encoding = encoding
        self._owners = []
        self._load = load
        self._list_more = more
        self._error = error
        self._full = full
        self._writable = writable
        self.count = count
        self.live = live
        self._free = []
        self._vacant = set()
        self._reused = set()
        self._released = set()
        self._last_free = -1
        self._capacity = self.count + 8
        self._pages = <uint8_t**> calloc(self._capacity, sizeof(uint8_t*))
        self._changed = <uint8_t*> calloc(self._capacity, 1) if writable else NULL
        if self._pages == NULL or (writable and self._changed == NULL):
            raise MemoryError()

    def __dealloc__(self) -> None:
        """Free the private copies of pages, and the arrays."""
        cdef size_t i
        if self._writable and self._pages != NULL:
            for i in range(self._capacity):
                self._drop(i)
        free(self._pages)
        free(self._changed)

    cdef inline const uint8_t* peek(self, uint32_t number) noexcept nogil:
        """Return a page if it was read before, else NULL."""
        return self._pages[number] if number < self.count else NULL

    cdef inline const uint8_t* read(self, uint32_t number) except NULL:
        """Return a page, which is fetched and verified at the first call."""
        if number < self.count and self._pages[number] != NULL:
            return self._pages[number]
        return self._fetch(number)

    cdef const uint8_t* _fetch(self, uint32_t number) except NULL:
        """Fetch a page from the store, and verify its size and its content."""
        cdef Py_buffer buffer
        cdef uint8_t* page
        if number >= self.count:
            raise self.make_error(f"page {number} is referred to, but the table has {self.count} pages")
        if number in self._vacant:
            raise self.make_error(f"page {number} is referred to, but is free")
        loaded = self._load(number)
        PyObject_GetBuffer(loaded, &buffer, PyBUF_SIMPLE)
        try:
            if buffer.len != _PAGE_BYTES:
                raise self.make_error(f"page {number} has {buffer.len} bytes, not {_PAGE_BYTES}")
            if not self._is_consistent(<const uint8_t*> buffer.buf):
                raise self.make_error(f"page {number} is inconsistent")
            if self._writable:
                page = self._allocate_copy()
                memcpy(page, buffer.buf, _PAGE_BYTES)
            else:
                page = <uint8_t*> buffer.buf
                if not isinstance(loaded, memoryview) or (<object> loaded).obj is not None:
                    self._owners.append(loaded)
        finally:
            PyBuffer_Release(&buffer)
        self._pages[number] = page
        return page

    cdef bint _is_consistent(self, const uint8_t* page) noexcept:
        """True if nothing in a page refers outside it, so that the kernels can work on it."""
        if self._encoding == BUCKET_ENCODING:
            return is_bucket_page_consistent(page)
        if self._encoding == BLOCK_ENCODING:
            return is_block_page_consistent(page) and (not self._writable or are_records_disjoint(page))
        return True

    cdef uint8_t* get_writable(self, uint32_t number) except NULL:
        """Return the private copy of a page, marked as changed."""
        self._require_writable()
        cdef uint8_t* page = <uint8_t*> self.read(number)
        if not self._changed[number]:
            self._changed[number] = 1
            self._dirty.push_back(number)
        return page

    cdef uint32_t append(self) except 0xFFFFFFFF:
        """Add a zeroed page after the last one, and return its number."""
        self._require_writable()
        cdef uint32_t number = self.count
        if number >= _PAGE_LIMIT:
            raise self._full(f"table {self._table}: all {_PAGE_LIMIT} page numbers are in use; split the store")
        if number + 1 > self._capacity:
            self._reserve(2 * self._capacity)
        self.count += 1
        self.live += 1
        self._released.discard(number)
        self._create_page(number)
        return number

    cdef uint32_t allocate(self) except 0xFFFFFFFF:
        """Create a zeroed page, with a free number if possible, else a new one, and return the number."""
        self._require_writable()
        cdef uint32_t number
        if not self._free and self._last_free < self.count:
            numbers = [free for free in self._list_more(self._last_free) if free not in self._reused]
            self._free.extend(reversed(numbers))
            self._last_free = max(numbers) if numbers else self.count
        if not self._free:
            return self.append()
        number = self._free.pop()
        self._vacant.discard(number)
        if not 0 < number < self.count or self._pages[number] != NULL:
            raise self.make_error(f"page {number} is on the free list, but is in use")
        if number in self._released:
            self._released.discard(number)
        else:
            self._reused.add(number)
        self.live += 1
        self._create_page(number)
        return number

    cdef int release(self, uint32_t number) except -1:
        """Free a page and its number."""
        self._require_writable()
        self._drop(number)
        self._vacant.add(number)
        self.live -= 1
        if number in self._reused:
            self._reused.discard(number)
        else:
            self._released.add(number)
        self._free.append(number)
        return 0

    cdef int truncate(self, uint32_t count) except -1:
        """Free the pages with numbers of at least ``count``."""
        self._require_writable()
        while self.count > count:
            self.count -= 1
            self.live -= 1
            self._drop(self.count)
            self._released.add(self.count)
        return 0

    cdef inline int _require_writable(self) except -1:
        """Raise ValueError if the pages are those of a snapshot."""
        if not self._writable:
            raise ValueError(f"table {self._table}: the pages of a snapshot cannot be changed")
        return 0

    cdef object make_error(self, str reason):
        """Return the error for damage in this table, which ``reason`` describes."""
        return self._error(f"table {self._table}: {reason}; run CHECK, and restore from a backup")

    cdef void _drop(self, size_t number) noexcept:
        """Free the memory of a page, if it was read."""
        if self._pages[number] != NULL:
            free(self._pages[number] - _PAGE_OVERHEAD)
            self._pages[number] = NULL

    cdef uint8_t* _allocate_copy(self) except NULL:
        """Allocate the memory of a page, aligned to cache lines."""
        cdef void* memory = NULL
        if posix_memalign(&memory, 64, _PAGE_BYTES + _PAGE_OVERHEAD) != 0:
            raise MemoryError()
        return <uint8_t*> memory + _PAGE_OVERHEAD

    cdef int _create_page(self, uint32_t number) except -1:
        """Create an empty page, and mark it as changed."""
        cdef uint8_t* page = self._allocate_copy()
        cdef const uint8_t* encoding = self._encoding
        memset(page, 0, _PAGE_BYTES)
        memcpy(page, encoding, 4)
        kv_put32(page + _NUMBER, number)
        self._pages[number] = page
        if not self._changed[number]:
            self._changed[number] = 1
            self._dirty.push_back(number)
        return 0

    cdef int _reserve(self, size_t capacity) except -1:
        """Enlarge the arrays to ``capacity`` pages."""
        cdef uint8_t** pages = <uint8_t**> realloc(self._pages, capacity * sizeof(uint8_t*))
        if pages == NULL:
            raise MemoryError()
        self._pages = pages
        cdef uint8_t* changed = <uint8_t*> realloc(self._changed, capacity)
        if changed == NULL:
            raise MemoryError()
        self._changed = changed
        memset(pages + self._capacity, 0, (capacity - self._capacity) * sizeof(uint8_t*))
        memset(changed + self._capacity, 0, capacity - self._capacity)
        self._capacity = capacity
        return 0

    def mark_changed(self, number: int) -> None:
        """Mark a page as changed."""
        self.get_writable(number)

    def count_loaded(self) -> int:
        """Return the number of pages that have been read or created."""
        cdef size_t number, count = 0
        for number in range(self._capacity):
            count += self._pages[number] != NULL
        return count

    def take_changed(self) -> list:
        """Return (number, writable buffer) of each page changed since the last call, in order of the numbers."""
        cdef uint32_t number
        result = []
        for number in sorted(set(self._dirty)):
            self._changed[number] = 0
            if self._pages[number] != NULL and number < self.count:
                result.append((number, PyMemoryView_FromMemory(<char*> self._pages[number], _PAGE_BYTES, PyBUF_WRITE)))
        self._dirty.clear()
        return result

    def take_freed(self) -> tuple:
        """Return the page numbers released, and those taken from the stored free list, since the last call."""
        result = sorted(self._released), sorted(self._reused)
        self._vacant.clear()
        self._released.clear()
        self._reused.clear()
        # The pages read from the stored free list are out of date: read the list again from its beginning.
        self._free.clear()
        self._last_free = -1
        return result

    def list_used(self, listed) -> list:
        """Return the numbers of the pages in use, ascending. ``listed`` is the stored free list."""
        free = (set(listed) - self._reused) | self._released
        return [number for number in range(self.count) if number not in free]

    def get_page(self, number: int) -> memoryview:
        """Return the bytes of a page. The caller must not use them after the snapshot or transaction ends."""
        return PyMemoryView_FromMemory(<char*> self.read(number), _PAGE_BYTES, PyBUF_READ)
