# The pages of one LMDB table by number.
#
# In a snapshot a page is a pointer into the map, taken when the page is first needed and valid as long as the snapshot;
# other threads may read the array meanwhile: an entry goes from NULL to its pointer once, with the GIL held. In a write
# transaction every page is a private copy, because a buffer of the map goes stale at the next put; changed copies are
# handed back by `changed`. Copies are laid out like LMDB's own pages, so that buckets do not straddle cache lines.

@cython.final
cdef class PageTable:
    """Pages of ``PAGE_BYTES`` bytes by number.

    ``encoding`` is the name that pages begin with. ``load(number)`` returns the bytes of a stored page, its checksum
    verified, or raises; ``more(after)`` returns some numbers of free pages above ``after``, ascending, or nothing;
    ``error`` is the class raised for damage, ``full`` when the numbers are used up; ``count`` is one more than the highest
    number, ``live`` the pages in use. Raises ValueError for an encoding or for numbers that no table has, and for a
    change where it is not ``writable``.
    """

    cdef object _load, _more, _error, _full
    cdef str _table
    cdef bytes _encoding
    cdef bint _writable
    cdef uint8_t** _pages
    cdef uint8_t* _changed
    cdef readonly uint32_t count, live
    cdef size_t _capacity
    cdef vector[uint32_t] _dirty
    cdef list _kept         # what the pages of a snapshot lie in, where it is no map
    cdef list _free
    cdef set _vacant        # free now, and in use at some time since the last flush
    cdef set _taken         # in use, but on the stored list of free pages
    cdef set _released      # free, but not on that list
    cdef int64_t _last_free

    def __cinit__(self, table, encoding, load, more, error, full, count, live, writable) -> None:
        if len(encoding) != 4:
            raise ValueError(f"an encoding is four bytes, not {encoding!r}")
        if not 0 <= live <= count <= _PAGE_LIMIT:
            raise ValueError(f"{live} of {count} pages in use: a table has at most {_PAGE_LIMIT}")
        self._table = table
        self._encoding = encoding
        self._kept = []
        self._load = load
        self._more = more
        self._error = error
        self._full = full
        self._writable = writable
        self.count = count
        self.live = live
        self._free = []
        self._vacant = set()
        self._taken = set()
        self._released = set()
        self._last_free = -1
        self._capacity = self.count + 8
        self._pages = <uint8_t**> calloc(self._capacity, sizeof(uint8_t*))
        self._changed = <uint8_t*> calloc(self._capacity, 1) if writable else NULL
        if self._pages == NULL or (writable and self._changed == NULL):
            raise MemoryError()

    def __dealloc__(self) -> None:
        cdef size_t i
        if self._writable and self._pages != NULL:
            for i in range(self._capacity):
                self._drop(i)
        free(self._pages)
        free(self._changed)

    cdef inline const uint8_t* peek(self, uint32_t number) noexcept nogil:
        """The page if it has been read before; NULL otherwise."""
        return self._pages[number] if number < self.count else NULL

    cdef inline const uint8_t* read(self, uint32_t number) except NULL:
        if number < self.count and self._pages[number] != NULL:
            return self._pages[number]
        return self._fetch(number)

    cdef const uint8_t* _fetch(self, uint32_t number) except NULL:
        cdef Py_buffer buffer
        cdef uint8_t* page
        if number >= self.count:
            raise self.damage(f"page {number} is referred to, but there are {self.count}")
        if number in self._vacant:
            raise self.damage(f"page {number} is referred to, but is free")
        loaded = self._load(number)
        PyObject_GetBuffer(loaded, &buffer, PyBUF_SIMPLE)
        try:
            if buffer.len != _PAGE_BYTES:
                raise self.damage(f"page {number} has {buffer.len} bytes, not {_PAGE_BYTES}")
            if not self._sound(<const uint8_t*> buffer.buf):
                raise self.damage(f"page {number} contradicts itself")
            if self._writable:
                page = self._new_copy()
                memcpy(page, buffer.buf, _PAGE_BYTES)
            else:
                page = <uint8_t*> buffer.buf
                if not isinstance(loaded, memoryview) or (<object> loaded).obj is not None:
                    self._kept.append(loaded)
        finally:
            PyBuffer_Release(&buffer)
        self._pages[number] = page
        return page

    cdef bint _sound(self, const uint8_t* page) noexcept:
        """Whether a page may be worked on: whatever else is wrong with it, nothing in it leads outside it."""
        if self._encoding == BUCKET_ENCODING:
            return bucket_page_sound(page)
        if self._encoding == BLOCK_ENCODING:
            return block_page_sound(page) and (not self._writable or records_apart(page))
        return True

    cdef uint8_t* own(self, uint32_t number) except NULL:
        """The private copy of a page, to be changed."""
        self._require_writable()
        cdef uint8_t* page = <uint8_t*> self.read(number)
        if not self._changed[number]:
            self._changed[number] = 1
            self._dirty.push_back(number)
        return page

    cdef uint32_t append(self) except 0xFFFFFFFF:
        """A new zeroed page after the last one."""
        self._require_writable()
        cdef uint32_t number = self.count
        if number >= _PAGE_LIMIT:
            raise self._full(f"table {self._table}: all {_PAGE_LIMIT} page numbers are in use; split the store")
        if number + 1 > self._capacity:
            self._reserve(2 * self._capacity)
        self.count += 1
        self.live += 1
        self._released.discard(number)
        self._start(number)
        return number

    cdef uint32_t allocate(self) except 0xFFFFFFFF:
        """A zeroed page under a free number, or a new one."""
        self._require_writable()
        cdef uint32_t number
        if not self._free and self._last_free < self.count:
            found = [free for free in self._more(self._last_free) if free not in self._taken]
            self._free.extend(reversed(found))
            self._last_free = max(found) if found else self.count
        if not self._free:
            return self.append()
        number = self._free.pop()
        self._vacant.discard(number)
        if not 0 < number < self.count or self._pages[number] != NULL:
            raise self.damage(f"page {number} is on the free list, but is in use")
        if number in self._released:
            self._released.discard(number)
        else:
            self._taken.add(number)
        self.live += 1
        self._start(number)
        return number

    cdef int release(self, uint32_t number) except -1:
        """Give a page's number back."""
        self._require_writable()
        self._drop(number)
        self._vacant.add(number)
        self.live -= 1
        if number in self._taken:
            self._taken.discard(number)
        else:
            self._released.add(number)
        self._free.append(number)
        return 0

    cdef int truncate(self, uint32_t count) except -1:
        """Give back the pages from number ``count`` on."""
        self._require_writable()
        while self.count > count:
            self.count -= 1
            self.live -= 1
            self._drop(self.count)
            self._released.add(self.count)
        return 0

    cdef inline int _require_writable(self) except -1:
        if not self._writable:
            raise ValueError(f"table {self._table}: the pages of a snapshot cannot be changed")
        return 0

    cdef object damage(self, str what):
        return self._error(f"table {self._table}: {what}; run CHECK, and restore from a backup")

    cdef void _drop(self, size_t number) noexcept:
        if self._pages[number] != NULL:
            free(self._pages[number] - _PAGE_OVERHEAD)
            self._pages[number] = NULL

    cdef uint8_t* _new_copy(self) except NULL:
        cdef void* memory = NULL
        if posix_memalign(&memory, 64, _PAGE_BYTES + _PAGE_OVERHEAD) != 0:
            raise MemoryError()
        return <uint8_t*> memory + _PAGE_OVERHEAD

    cdef int _start(self, uint32_t number) except -1:
        cdef uint8_t* page = self._new_copy()
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

    def touch(self, number: int) -> None:
        """Count a page as changed."""
        self.own(number)

    def held(self) -> int:
        """How many pages have been read or made."""
        cdef size_t number, count = 0
        for number in range(self._capacity):
            count += self._pages[number] != NULL
        return count

    def changed(self) -> list:
        """Numbers and writable buffers of the pages changed since the last call, in order of their numbers."""
        cdef uint32_t number
        result = []
        for number in sorted(set(self._dirty)):
            self._changed[number] = 0
            if self._pages[number] != NULL and number < self.count:
                result.append((number, PyMemoryView_FromMemory(<char*> self._pages[number], _PAGE_BYTES, PyBUF_WRITE)))
        self._dirty.clear()
        return result

    def freed(self) -> tuple:
        """Numbers released and numbers taken from the free list since the last call."""
        result = sorted(self._released), sorted(self._taken)
        self._vacant.clear()
        self._released.clear()
        self._taken.clear()
        # What was read of the stored free list is out of date now: start again at its beginning.
        self._free.clear()
        self._last_free = -1
        return result

    def numbers(self, listed) -> list:
        """The numbers of the pages in use, ascending, given the stored list of free ones."""
        free = (set(listed) - self._taken) | self._released
        return [number for number in range(self.count) if number not in free]

    def page(self, number: int) -> memoryview:
        """The bytes of a page, which the caller must not keep beyond its view."""
        return PyMemoryView_FromMemory(<char*> self.read(number), _PAGE_BYTES, PyBUF_READ)
