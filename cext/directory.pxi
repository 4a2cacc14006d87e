# The directory: from the low bits of a hash to a bucket page (extendible hashing: Fagin, Nievergelt, Pippenger and
# Strong, TODS 1979).
#
# A flat table of 2^depth entries of three bytes is stored in directory pages of 1,024 entries. An entry is a bucket
# page, 0 (no name yet), or a *fork*: two entries that one more bit of the hash selects from. Forks keep the table small
# if many names agree in more bits than it has (an attack, or a poor seed). The table doubles only while it has at most
# four entries per page.

cdef enum:
    _ENTRIES = 1024
    _DP_HEADER = 16
    _FORK = 0x800000
    _ENTRY_MASK = 0x7FFFFF
    _MAX_DEPTH = 22       # most bits of the flat table
    _MERGE_ENTRIES = 190  # two buddy pages with at most this many slots in all are merged
    _NO_ENTRY = 0xFFFFFFFF

cdef struct Member:
    uint64_t hash
    uint32_t reference
    int slot

cdef uint8_t _EMPTY_PAGE[_PAGE_BYTES]


@cython.final
cdef class Directory:
    """The mapping of hashes to bucket pages.

    The position of an entry is its index in the table, or ``_AT_FORK`` + 2 * fork + side for an entry of a fork.
    """

    cdef PageTable table, forks, buckets
    cdef BlockStore blocks
    cdef NameHash hasher
    cdef readonly int depth
    cdef readonly uint32_t fork_count, free_fork, live_forks
    cdef readonly uint64_t kicks, splits, merges

    def __cinit__(self, PageTable table not None, PageTable forks not None, PageTable buckets not None,
                  BlockStore blocks not None, NameHash hasher not None, head):
        """Read the directory from its pages; ``head`` has the stored fields, as :attr:`state` returns them.

        ``blocks`` are the records of names. Raises the error of a table if the counts contradict its pages.
        """
        for pages, encoding in (table, DIRECTORY_ENCODING), (forks, FORK_ENCODING), (buckets, BUCKET_ENCODING):
            if (<PageTable> pages)._encoding != encoding:
                raise ValueError(f"a directory needs pages of {encoding!r}, not of {(<PageTable> pages)._encoding!r}")
        self.table, self.forks, self.buckets = table, forks, buckets
        self.blocks, self.hasher = blocks, hasher
        (self.depth, self.fork_count, self.free_fork, self.live_forks,
         self.kicks, self.splits, self.merges) = head
        if not 0 <= self.depth <= <int> _MAX_DEPTH or table.count < ((1 << self.depth) + _ENTRIES - 1) // _ENTRIES:
            raise table.make_error(f"a depth of {self.depth} contradicts {table.count} directory pages")
        if self.fork_count > <uint64_t> forks.count * _ENTRIES // 2 or self.free_fork > self.fork_count:
            raise table.make_error(f"{self.fork_count} forks contradict {forks.count} pages of forks")

    @property
    def state(self) -> tuple:
        """The fields that must be stored besides the pages, in the order of the constructor's ``head``."""
        return self.depth, self.fork_count, self.free_fork, self.live_forks, self.kicks, self.splits, self.merges

    # -- Lookup

    cdef inline const uint8_t* get_cached_page(self, uint64_t h) noexcept nogil:
        """Return the bucket page of a hash; NULL if a page on the way has not been read yet."""
        cdef uint32_t index = <uint32_t> get_low_bits(h, self.depth), entry
        cdef const uint8_t* page = self.table.peek(index >> 10)
        cdef int bit = self.depth
        if page == NULL:
            return NULL
        entry = kv_get24(page + _DP_HEADER + 3 * (index & (_ENTRIES - 1)))
        while entry & _FORK:
            page = self.forks.peek((entry & _ENTRY_MASK) >> 9)
            if page == NULL or bit > 63:
                return NULL
            entry = kv_get24(page + _DP_HEADER + 3 * ((entry & 511) << 1 | (h >> bit & 1)))
            bit += 1
        return self.buckets.peek(entry) if entry else _EMPTY_PAGE

    cdef const uint8_t* get_page(self, uint64_t h) except NULL:
        """Return the bucket page of a hash, read if necessary; an empty page if the hash has none yet."""
        cdef const uint8_t* page = self.get_cached_page(h)
        if page != NULL:
            return page
        cdef uint32_t number = self.get_page_number(h)
        return self.buckets.read(number) if number else _EMPTY_PAGE

    cdef uint32_t get_page_number(self, uint64_t h) except? _NO_ENTRY:
        """Return the number of the bucket page of a hash; 0 if the hash has none yet."""
        cdef int bit
        return self._get_entry(self._find_position(h, 64, &bit))

    cdef uint64_t _find_position(self, uint64_t h, int depth, int* num_bits) except? 0:
        """Return the position of the directory entry for the low ``depth`` bits of a hash.

        Sets ``num_bits`` to the number of these bits that lead to the entry.
        """
        cdef uint64_t index = get_low_bits(h, self.depth)
        cdef uint32_t entry
        cdef int bit = self.depth
        while bit < depth:
            entry = self._get_entry(index)
            if not entry & _FORK:
                break
            if bit > 63:
                raise self.forks.make_error("forks go deeper than the hash")
            index = _AT_FORK | <uint64_t> (entry & _ENTRY_MASK) << 1 | (h >> bit & 1)
            bit += 1
        num_bits[0] = bit
        return index

    cdef uint32_t _get_entry(self, uint64_t index) except? _NO_ENTRY:
        """Return the entry at a position: of the forks if the position has the bit ``_AT_FORK``, else of the table."""
        cdef uint64_t i = index & ~_AT_FORK
        cdef const uint8_t* page = (self.forks if index & _AT_FORK else self.table).read(<uint32_t> (i >> 10))
        return kv_get24(page + _DP_HEADER + 3 * (i & (_ENTRIES - 1)))

    cdef int _set_entry(self, uint64_t index, uint32_t entry) except -1:
        """Replace the entry at a position: of the forks if the position has the bit ``_AT_FORK``, else of the table."""
        cdef uint64_t i = index & ~_AT_FORK
        cdef uint8_t* page = (self.forks if index & _AT_FORK else self.table).get_writable(<uint32_t> (i >> 10))
        kv_put24(page + _DP_HEADER + 3 * (i & (_ENTRIES - 1)), entry)
        return 0

    # -- Changing entries

    cdef uint32_t _create_fork(self, uint32_t left, uint32_t right) except? _NO_ENTRY:
        """Store a fork: two entries that one more bit of the hash selects from. Return the entry that refers to it.

        The place of a freed fork is used if there is one.
        """
        cdef uint32_t fork
        if self.free_fork:
            fork = self.free_fork - 1
            self.free_fork = self._get_entry(_AT_FORK | <uint64_t> fork << 1)
        else:
            fork = self.fork_count
            if fork >> 9 >= self.forks.count:
                self.forks.append()
            self.fork_count += 1
        self.live_forks += 1
        self._set_entry(_AT_FORK | <uint64_t> fork << 1, left)
        self._set_entry(_AT_FORK | <uint64_t> fork << 1 | 1, right)
        return _FORK | fork

    cdef int _drop_fork(self, uint32_t entry) except -1:
        """Free the fork (a pair of entries) that an entry refers to, for reuse."""
        cdef uint32_t fork = entry & _ENTRY_MASK
        self._set_entry(_AT_FORK | <uint64_t> fork << 1, self.free_fork)
        self._set_entry(_AT_FORK | <uint64_t> fork << 1 | 1, 0)
        self.free_fork = fork + 1
        self.live_forks -= 1
        return 0

    cdef int _set_region(self, uint64_t prefix, int depth, uint32_t entry) except -1:
        """Make all hashes whose low ``depth`` bits are ``prefix`` lead to ``entry``, a bucket page.

        Creates the forks (pairs of entries for one more bit) that this requires, and frees those it replaces.
        """
        cdef uint64_t position, step
        cdef uint32_t old_entry
        cdef int bit
        if depth <= self.depth:
            position, step = prefix, <uint64_t> 1 << depth
            while position < <uint64_t> 1 << self.depth:
                old_entry = self._get_entry(position)
                self._set_entry(position, entry)
                if old_entry & _FORK:
                    self._drop_fork(old_entry)
                position += step
            return 0
        position = self._find_position(prefix, depth, &bit)
        while bit < depth:
            old_entry = self._get_entry(position)
            old_entry = self._create_fork(old_entry, old_entry)
            self._set_entry(position, old_entry)
            position = _AT_FORK | <uint64_t> (old_entry & _ENTRY_MASK) << 1 | (prefix >> bit & 1)
            bit += 1
        old_entry = self._get_entry(position)
        self._set_entry(position, entry)
        if old_entry & _FORK:
            self._drop_fork(old_entry)
        return 0

    cdef uint32_t _find_common_entry(self, uint64_t prefix, int depth) except? _NO_ENTRY:
        """Return the single entry of all hashes whose low ``depth`` bits are ``prefix``.

        Returns a fork if there are several.
        """
        cdef uint64_t position, step
        cdef uint32_t entry
        cdef int bit
        if depth > self.depth:
            return self._get_entry(self._find_position(prefix, depth, &bit))
        position, step = prefix, <uint64_t> 1 << depth
        entry = self._get_entry(position)
        while position < <uint64_t> 1 << self.depth:
            if self._get_entry(position) != entry:
                return _FORK
            position += step
        return entry

    cdef int _double(self) except -1:
        """Double the table by one more bit; forks on that bit become entries."""
        cdef uint64_t size = <uint64_t> 1 << self.depth, position
        cdef uint32_t entry, left, right
        while self.table.count * <uint64_t> _ENTRIES < 2 * size:
            self.table.append()
        for position in range(size):
            entry = left = right = self._get_entry(position)
            if entry & _FORK:
                left = self._get_entry(_AT_FORK | <uint64_t> (entry & _ENTRY_MASK) << 1)
                right = self._get_entry(_AT_FORK | <uint64_t> (entry & _ENTRY_MASK) << 1 | 1)
                self._drop_fork(entry)
                self._set_entry(position, left)
            self._set_entry(position + size, right)
        self.depth += 1
        return 0

    cdef int _halve(self) except -1:
        """Halve the table by one bit; entries that differ in that bit become forks."""
        cdef uint64_t size = <uint64_t> 1 << (self.depth - 1), position
        cdef uint32_t left, right
        for position in range(size):
            left, right = self._get_entry(position), self._get_entry(position + size)
            if left != right:
                self._set_entry(position, self._create_fork(left, right))
        self.depth -= 1
        self.table.truncate(<uint32_t> ((size + _ENTRIES - 1) // _ENTRIES))
        return 0

    # -- Changing pages

    cdef int insert(self, uint64_t h, uint32_t reference) except -1:
        """Add the name with the hash ``h`` and the record at ``reference``; split its bucket page until there is room.

        No other name in its two buckets may have the same tag (the bits of the hash that a slot stores).
        """
        cdef uint64_t slot = <uint64_t> get_tag(h) << 32 | reference
        cdef uint32_t number
        cdef uint64_t position
        cdef int kicks, bit
        cdef uint8_t* page
        while True:
            position = self._find_position(h, 64, &bit)
            number = self._get_entry(position)
            if number == 0:
                number = self._create_page(get_low_bits(h, bit), bit)
                self._set_entry(position, number)
            page = self.buckets.get_writable(number)
            if page[_BP_DEPTH] > bit or kv_get64(page + _BP_PREFIX) != get_low_bits(h, page[_BP_DEPTH]):
                raise self.buckets.make_error(f"page {number} is reached by a prefix that is not its own")
            kicks = insert_slot(page, slot, get_first_bucket(h))
            if kicks >= 0:
                self.kicks += kicks
                return 0
            self._split(number, h)

    cdef uint32_t _create_page(self, uint64_t prefix, int depth) except 0:
        """Allocate a bucket page for the hashes whose low ``depth`` bits are ``prefix``; return its number."""
        cdef uint32_t number = self.buckets.allocate()
        cdef uint8_t* page = self.buckets.get_writable(number)
        kv_put64(page + _BP_PREFIX, prefix)
        page[_BP_DEPTH] = depth
        return number

    cdef int _split(self, uint32_t number, uint64_t h) except -1:
        """Split a full bucket page, which has no room for a name with the hash ``h``.

        The page is split by the lowest bit, of those not used yet, in which ``h`` and the hashes of its names differ.
        """
        cdef uint8_t* page = self.buckets.get_writable(number)
        cdef uint8_t* new_page
        cdef int depth = page[_BP_DEPTH], bit = -1, i
        cdef uint64_t differing = 0, slot
        cdef uint32_t new_number
        cdef vector[Member] members
        if depth < _STORED_BITS:
            for i in range(_SLOTS):
                slot = (<uint64_t*> (page + _BP_HEADER))[i]
                if slot:
                    differing |= (slot >> 32) ^ get_tag(h)
            differing = get_low_bits(differing, _STORED_BITS) >> depth
            if differing:
                bit = depth + kv_lowest_bit(differing)
        if bit < 0:
            # The stored bits are used up: hash the names.
            self._list_members(page, &members)
            differing = 0
            for i in range(<int> members.size()):
                differing |= members[i].hash ^ h
            differing = 0 if depth > 63 else differing >> depth
            if differing == 0:
                raise self.buckets.make_error(f"page {number} is full of slots with equal hashes")
            bit = depth + kv_lowest_bit(differing)
        new_number = self._create_page(get_low_bits(h, bit) | <uint64_t> 1 << bit, bit + 1)
        new_page = self.buckets.get_writable(new_number)
        if members.size():
            self._divide_members(page, new_page, members, bit)
        else:
            divide_page(page, new_page, bit)
        kv_put64(page + _BP_PREFIX, get_low_bits(h, bit))
        page[_BP_DEPTH] = bit + 1
        kv_put32(page + _BP_SPLITS, kv_get32(page + _BP_SPLITS) + 1)
        kv_put32(new_page + _BP_SPLITS, kv_get32(page + _BP_SPLITS))
        self.splits += 1
        while self.depth <= bit and self.depth < <int> _MAX_DEPTH and (
            self.depth < 10 or <uint64_t> 2 << self.depth <= 4 * <uint64_t> self.buckets.live
        ):
            self._double()
        if bit > depth:
            self._set_region(get_low_bits(h, depth), depth, 0)
            self._set_region(get_low_bits(h, bit), bit + 1, number)
        self._set_region(get_low_bits(h, bit) | <uint64_t> 1 << bit, bit + 1, new_number)
        return 0

    cdef int _list_members(self, const uint8_t* page, vector[Member]* members) except -1:
        """Append all names of a page, with their full hashes, to ``members``, in the order of slots and chains."""
        cdef Member member
        cdef int i
        for i in range(_SLOTS):
            member.reference = <uint32_t> (<const uint64_t*> (page + _BP_HEADER))[i]
            while member.reference:
                member.slot = i
                member.hash = self._compute_hash(member.reference)
                members.push_back(member)
                if members.size() > self.blocks.pages.live * <size_t> 256:
                    raise self.blocks.pages.make_error("a chain of names is cyclic")
                member.reference = kv_get32(self.blocks.get_record(member.reference) + _R_NEXT)
        return 0

    cdef uint64_t _compute_hash(self, uint32_t reference) except? 0:
        """Return the hash of the name in a record."""
        cdef const uint8_t* record = self.blocks.get_record(reference)
        return self.hasher.hash_bytes(record + _R_HEADER, kv_get16(record + _R_KEY_LENGTH))

    cdef int _divide_members(self, uint8_t* page, uint8_t* new_page, vector[Member]& members, int bit) except -1:
        """Split a page: move the ``members`` (names) in whose hash the bit ``bit`` is set to ``new_page``.

        Slots do not store this bit, so names of one slot, which form a chain, can be separated.
        """
        cdef uint64_t* old = <uint64_t*> (page + _BP_HEADER)
        cdef uint64_t* new = <uint64_t*> (new_page + _BP_HEADER)
        cdef uint64_t tags[_SLOTS]
        cdef uint32_t last_records[2]
        cdef uint64_t* target
        cdef int counts[2]
        cdef int side, slot = -1
        cdef Member member
        cdef size_t i
        memcpy(tags, old, sizeof(tags))
        memset(old, 0, sizeof(tags))
        counts[0] = counts[1] = 0
        for i in range(members.size()):
            member = members[i]
            side = <int> (member.hash >> bit & 1)
            if member.slot != slot:
                slot = member.slot
                last_records[0] = last_records[1] = 0
            if last_records[side]:
                self._set_next(last_records[side], member.reference)
            else:
                target = (new if side else old) + slot // 4 * 4
                target[count_used(target)] = tags[slot] >> 32 << 32 | member.reference
                counts[side] += 1
            self._set_next(member.reference, 0)
            last_records[side] = member.reference
        kv_put16(page + _BP_ENTRIES, counts[0])
        kv_put16(new_page + _BP_ENTRIES, counts[1])
        return 0

    cdef int _set_next(self, uint32_t reference, uint32_t next_reference) except -1:
        """Make ``next_reference`` the next record of a chain; a record that refers to it already is not written."""
        if kv_get32(self.blocks.get_record(reference) + _R_NEXT) != next_reference:
            kv_put32(self.blocks.get_writable(reference) + _R_NEXT, next_reference)
        return 0

    cdef int merge(self, uint32_t number) except -1:
        """Merge a bucket page with its buddy, whose hashes differ in the last bit, while both are nearly empty.

        This repeats with the merged page. Also halves the directory while it is much larger than the pages need.
        """
        cdef const uint8_t* page = self.buckets.read(number)
        cdef const uint8_t* buddy_page
        cdef uint8_t scratch[_PAGE_BYTES]
        cdef int depth
        cdef uint64_t prefix
        cdef uint32_t buddy
        while page[_BP_DEPTH] and kv_get16(page + _BP_ENTRIES) <= _MERGE_ENTRIES:
            depth = page[_BP_DEPTH]
            prefix = kv_get64(page + _BP_PREFIX)
            buddy = self._find_common_entry(prefix ^ <uint64_t> 1 << (depth - 1), depth)
            if buddy & _FORK or buddy == number:
                return 0
            memcpy(scratch, page, _PAGE_BYTES)
            if buddy:
                buddy_page = self.buckets.read(buddy)
                if (buddy_page[_BP_DEPTH] != depth
                        or kv_get16(page + _BP_ENTRIES) + kv_get16(buddy_page + _BP_ENTRIES) > _MERGE_ENTRIES
                        or not self._absorb(scratch, buddy_page)):
                    return 0
                self.buckets.release(buddy)
                self.merges += 1
            prefix = get_low_bits(prefix, depth - 1)
            scratch[_BP_DEPTH] = depth - 1
            kv_put64(scratch + _BP_PREFIX, prefix)
            page = self.buckets.get_writable(number)
            memcpy(<uint8_t*> page, scratch, _PAGE_BYTES)
            self._set_region(prefix, depth - 1, number)
        while self.depth > 10 and <uint64_t> 1 << self.depth >= 32 * <uint64_t> self.buckets.live:
            self._halve()
        return 0

    cdef bint _absorb(self, uint8_t* page, const uint8_t* buddy_page) except -1:
        """Add the slots (names) of ``buddy_page`` to ``page``; return False, with ``page`` unusable, if not all fit."""
        cdef const uint64_t* slots = <const uint64_t*> (buddy_page + _BP_HEADER)
        cdef uint64_t* buckets = <uint64_t*> (page + _BP_HEADER)
        cdef uint32_t tag, bucket, joined
        cdef int i, k, kicks
        chains = []
        for i in range(_SLOTS):
            if slots[i] == 0:
                continue
            tag = <uint32_t> (slots[i] >> 32)
            for bucket in (i // 4, get_other_bucket(tag, i // 4)):
                k = find_bucket_slot(buckets + 4 * bucket, tag)
                if k >= 0:
                    chains.append((<uint32_t> buckets[4 * bucket + k], <uint32_t> slots[i]))
                    break
            else:
                kicks = insert_slot(page, slots[i], i // 4)
                if kicks < 0:
                    return False
                self.kicks += kicks
        for joined, bucket in chains:
            while kv_get32(self.blocks.get_record(joined) + _R_NEXT):
                joined = kv_get32(self.blocks.get_record(joined) + _R_NEXT)
            self._set_next(joined, bucket)
        return True
