# Block-list pages: the heads of the entities' block lists, many on one page.
#
# A page is slotted: 24 bytes of header, the offsets of the records (two bytes each, 0 for an empty slot), free space,
# and the records, packed at the end. A record has 20 bytes of header, the name's key, and, if its list is short, the
# addresses in ascending order. The addresses of a long list are separate blocks (table address_blocks). FORMAT.md has
# the layout. A reference to a record has 32 bits: 24 of page number, 8 of slot. Page 0 is never used, so 0 is not a
# reference.

cdef enum:
    _LP_SLOTS = 12
    _LP_TOP = 14      # offset of the lowest record
    _LP_USED = 16     # bytes of all records
    _LP_ROOMY = 18    # 1 if the page is on the list of pages with room
    _LP_HEADER = 24
    _R_ENTITY = 0
    _R_TEMPERATURE = 4
    _R_COUNT = 8
    _R_NEXT = 12
    _R_KEY_LENGTH = 16
    _R_LONG = 18
    _R_HEADER = 20
    _ROOMY_BYTES = 1020
    _CANDIDATE_PAGES = 4


cdef inline size_t get_record_size(const uint8_t* record) noexcept nogil:
    """Return the size in bytes of a record, which has a name and, unless they are in a separate list, its addresses."""
    cdef size_t size = _R_HEADER + kv_get16(record + _R_KEY_LENGTH)
    return size if record[_R_LONG] else size + 8 * <size_t> kv_get32(record + _R_COUNT)


cdef inline const uint8_t* get_page_record(const uint8_t* page, uint32_t slot) noexcept nogil:
    """Return the record (a name with its addresses) in ``slot`` of a consistent page; NULL if the slot is empty."""
    cdef uint32_t offset
    if slot >= kv_get16(page + _LP_SLOTS):
        return NULL
    offset = kv_get16(page + _LP_HEADER + 2 * slot)
    return page + offset if offset else NULL


cdef bint is_block_page_consistent(const uint8_t* page) noexcept nogil:
    """True if all records lie in the page after its offsets, and their sizes add up to the number in the header."""
    cdef uint32_t slots = kv_get16(page + _LP_SLOTS), top = kv_get16(page + _LP_TOP), slot, offset
    cdef size_t used = 0
    if slots > 256 or top < _LP_HEADER + 2 * slots or top > _PAGE_BYTES:
        return False
    for slot in range(slots):
        offset = kv_get16(page + _LP_HEADER + 2 * slot)
        if offset == 0:
            continue
        if offset < top or offset > _PAGE_BYTES - _R_HEADER or offset + get_record_size(page + offset) > _PAGE_BYTES:
            return False
        used += get_record_size(page + offset)
    return used == kv_get16(page + _LP_USED) and used <= _PAGE_BYTES - top


cdef bint are_records_disjoint(const uint8_t* page) noexcept nogil:
    """True if no two records of a consistent page overlap, so that changing one leaves the others unchanged."""
    cdef uint8_t used[_PAGE_BYTES]
    cdef uint32_t slot, offset
    cdef size_t i, size
    memset(used, 0, _PAGE_BYTES)
    for slot in range(kv_get16(page + _LP_SLOTS)):
        offset = kv_get16(page + _LP_HEADER + 2 * slot)
        if offset == 0:
            continue
        size = get_record_size(page + offset)
        for i in range(size):
            if used[offset + i]:
                return False
        memset(used + offset, 1, size)
    return True


cdef inline int count_free_bytes(const uint8_t* page) noexcept nogil:
    """Return how many bytes of a page are free for records and their offsets once its records are packed."""
    return _PAGE_BYTES - _LP_HEADER - 2 * kv_get16(page + _LP_SLOTS) - kv_get16(page + _LP_USED)


cdef void pack_records(uint8_t* page) noexcept nogil:
    """Move the records of a page to its end, without gaps, and zero the free bytes."""
    cdef uint8_t copy[_PAGE_BYTES]
    cdef uint32_t top = _PAGE_BYTES, first = _LP_HEADER + 2 * kv_get16(page + _LP_SLOTS), slot, offset
    cdef size_t size
    memcpy(copy, page, _PAGE_BYTES)
    for slot in range(kv_get16(page + _LP_SLOTS)):
        offset = kv_get16(copy + _LP_HEADER + 2 * slot)
        if offset:
            size = get_record_size(copy + offset)
            top -= <uint32_t> size
            memcpy(page + top, copy + offset, size)
            kv_put16(page + _LP_HEADER + 2 * slot, top)
    memset(page + first, 0, top - first)
    kv_put16(page + _LP_TOP, top)


cdef uint8_t* reserve_space(uint8_t* page, uint32_t slot, size_t size) noexcept nogil:
    """Reserve ``size`` bytes of a page for the record of an empty ``slot``, and return their address. They must fit."""
    cdef uint32_t top = kv_get16(page + _LP_TOP)
    if top < _LP_HEADER + 2 * kv_get16(page + _LP_SLOTS) + size:
        pack_records(page)
        top = kv_get16(page + _LP_TOP)
    top -= <uint32_t> size
    kv_put16(page + _LP_TOP, top)
    kv_put16(page + _LP_USED, kv_get16(page + _LP_USED) + size)
    kv_put16(page + _LP_HEADER + 2 * slot, top)
    return page + top


cdef void clear_slot(uint8_t* page, uint32_t slot) noexcept nogil:
    """Empty ``slot`` of a page, and zero its record, because a removed name must leave no trace."""
    cdef uint32_t offset = kv_get16(page + _LP_HEADER + 2 * slot)
    cdef uint32_t size = <uint32_t> get_record_size(page + offset)
    memset(page + offset, 0, size)
    kv_put16(page + _LP_USED, kv_get16(page + _LP_USED) - size)
    kv_put16(page + _LP_HEADER + 2 * slot, 0)
    if offset == kv_get16(page + _LP_TOP):
        kv_put16(page + _LP_TOP, offset + size)


cdef void free_slot_space(uint8_t* page, uint32_t slot) noexcept nogil:
    """Remove the record in ``slot`` of a page, and drop empty slots at the end of the list of slots."""
    cdef uint32_t slots = kv_get16(page + _LP_SLOTS)
    clear_slot(page, slot)
    while slots and kv_get16(page + _LP_HEADER + 2 * (slots - 1)) == 0:
        slots -= 1
    kv_put16(page + _LP_SLOTS, slots)


@cython.final
cdef class BlockStore:
    """The records of names with their addresses, on all block-list pages.

    ``more(after)`` returns the numbers of some stored pages with room for records, above the number ``after``.
    """

    cdef PageTable pages
    cdef object _list_more
    cdef list _pages_with_room
    cdef int64_t _last_listed_page
    cdef uint32_t _current

    def __cinit__(self, PageTable pages not None, more) -> None:
        """Read and write records on ``pages``, which must be block-list pages."""
        if pages._encoding != BLOCK_ENCODING:
            raise ValueError(f"table {pages._table} has pages of {pages._encoding!r}, not block-list pages")
        self.pages = pages
        self._list_more = more
        self.forget()

    cpdef int settle(self) except -1:
        """Stop filling the current page, and list it as a page with room if it has enough."""
        cdef uint32_t number = self._current
        self._current = 0
        if number:
            self._list_if_roomy(number)
        return 0

    def forget(self) -> None:
        """Forget the known pages with room, and read the stored list again from its beginning."""
        self._pages_with_room = []
        self._last_listed_page = -1
        self._current = 0

    cdef const uint8_t* get_record(self, uint32_t reference) except NULL:
        """Return the record with a reference (page number and slot). Raises the error of the table if it is missing."""
        cdef const uint8_t* record = get_page_record(self.pages.read(reference >> 8), reference & 0xFF)
        if record == NULL:
            raise self.pages.make_error(f"page {reference >> 8} has no record in slot {reference & 0xFF}")
        return record

    cdef uint8_t* get_writable(self, uint32_t reference) except NULL:
        """Return the record with a reference for the caller to change within its size; mark its page as changed."""
        cdef const uint8_t* record
        self.pages.get_writable(reference >> 8)
        record = self.get_record(reference)
        return <uint8_t*> record

    cdef uint32_t add(self, size_t size, uint8_t** record) except 0:
        """Reserve ``size`` bytes for a new record, and return its reference (page number and slot).

        Sets ``record`` to the address of the bytes.
        """
        cdef uint32_t number = self._current, slot
        cdef uint8_t* page
        if number == 0 or not self._fits(number, size):
            number = self._choose_page(size)
        page = self.pages.get_writable(number)
        slot = self._find_free_slot(page)
        record[0] = reserve_space(page, slot, size)
        return number << 8 | slot

    cdef int remove(self, uint32_t reference) except -1:
        """Remove the record of a name; release its page if that becomes empty, else list the page if it has room."""
        cdef uint32_t number = reference >> 8
        cdef uint8_t* page = self.pages.get_writable(number)
        self.get_record(reference)
        free_slot_space(page, reference & 0xFF)
        if kv_get16(page + _LP_SLOTS) == 0:
            if number == self._current:
                self._current = 0
            self.pages.release(number)
        else:
            self._list_if_roomy(number)
        return 0

    cdef uint32_t resize(self, uint32_t reference, size_t size, uint8_t** record) except 0:
        """Change the size of the record of a name, keep the bytes that fit, and return its reference: it may move.

        Sets ``record`` to its address.
        """
        cdef uint8_t copy[_PAGE_BYTES]
        cdef uint32_t number = reference >> 8, slot = reference & 0xFF
        cdef size_t old
        cdef uint8_t* page
        self.get_record(reference)
        page = self.pages.get_writable(number)
        old = get_record_size(self.get_record(reference))
        memcpy(copy, self.get_record(reference), old)
        if <size_t> count_free_bytes(page) + old >= size:
            # The slot stays, even if it is the last: reserve_space writes its offset again.
            clear_slot(page, slot)
            record[0] = reserve_space(page, slot, size)
            memcpy(record[0], copy, min(old, size))
            if size < old:
                self._list_if_roomy(number)
            return reference
        self.remove(reference)
        reference = self.add(size, record)
        memcpy(record[0], copy, min(old, size))
        return reference

    cdef bint _fits(self, uint32_t number, size_t size) except -1:
        """True if a page has room for a record of ``size`` bytes and a slot for it."""
        cdef const uint8_t* page = self.pages.read(number)
        return count_free_bytes(page) >= <int> size + 2 and (
            kv_get16(page + _LP_SLOTS) < 256 or self._find_free_slot(<uint8_t*> page) < 256
        )

    cdef uint32_t _find_free_slot(self, uint8_t* page) noexcept:
        """Return an empty slot of a page, which is appended if necessary; 256 if all slots are in use."""
        cdef uint32_t slot, slots = kv_get16(page + _LP_SLOTS)
        for slot in range(slots):
            if kv_get16(page + _LP_HEADER + 2 * slot) == 0:
                return slot
        if slots < 256:
            if kv_get16(page + _LP_TOP) < _LP_HEADER + 2 * (slots + 1):
                pack_records(page)
            kv_put16(page + _LP_SLOTS, slots + 1)
            kv_put16(page + _LP_HEADER + 2 * slots, 0)
        return slots

    cdef uint32_t _choose_page(self, size_t size) except 0:
        """Choose the next page to fill, a stored or new one with room for ``size`` bytes, and return its number."""
        cdef uint32_t number
        cdef uint8_t* page
        cdef int tries
        self.settle()
        skipped = []
        for tries in range(_CANDIDATE_PAGES):
            if not self._pages_with_room and self._last_listed_page < self.pages.count:
                numbers = self._list_more(self._last_listed_page)
                self._pages_with_room.extend(reversed(numbers))
                self._last_listed_page = max(numbers) if numbers else self.pages.count
            if not self._pages_with_room:
                break
            number = self._pages_with_room.pop()
            if number >= self.pages.count or number in self.pages._vacant:
                continue
            page = <uint8_t*> self.pages.read(number)
            if not page[_LP_ROOMY]:
                continue
            if self._fits(number, size):
                self.pages.get_writable(number)[_LP_ROOMY] = 0
                self._current = number
                break
            skipped.append(number)
        self._pages_with_room.extend(skipped)
        if self._current == 0:
            self._current = self.pages.allocate()
            kv_put16(self.pages.get_writable(self._current) + _LP_TOP, _PAGE_BYTES)
        return self._current

    cdef int _list_if_roomy(self, uint32_t number) except -1:
        """List a page as one with room if it has enough, unless it is the page being filled."""
        cdef uint8_t* page = <uint8_t*> self.pages.read(number)
        if number != self._current and not page[_LP_ROOMY] and count_free_bytes(page) >= _ROOMY_BYTES:
            self.pages.get_writable(number)[_LP_ROOMY] = 1
            self._pages_with_room.append(number)
        return 0
