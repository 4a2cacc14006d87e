# Verification of all invariants of the pages, for CHECK. It uses Python objects and holds the GIL.

@cython.final
cdef class PageCheck:
    """Checks the directory, the bucket pages and the block-list pages of an index against each other.

    ``faults`` has a sentence for each violated invariant, ``long_lists`` the entities with long lists and their counts.
    """

    cdef EntityIndex index
    cdef Directory directory
    cdef readonly list faults
    cdef readonly dict long_lists
    cdef dict _visits
    cdef set _forks
    cdef vector[uint8_t] _reached
    cdef vector[uint32_t] _entities
    cdef object _error

    def __cinit__(self, EntityIndex index not None, bucket_pages, block_pages):
        """Check the pages of ``index`` at once, and set ``faults`` and ``long_lists``.

        ``bucket_pages`` and ``block_pages`` are the numbers of the pages in use.
        """
        self.index = index
        self.directory = index.directory
        self._error = index.blocks.pages._error
        self.faults, self.long_lists, self._visits, self._forks = [], {}, {}, set()
        self._reached.resize(<size_t> index.blocks.pages.count * 256)
        self._check_directory(set(bucket_pages))
        for number in sorted(self._visits):
            self._run_check(self._check_bucket_page, number)
        self._check_block_pages(block_pages)

    def _run_check(self, check, *arguments):
        """Call ``check`` with arguments. Damage that stops it is recorded as a fault."""
        try:
            check(*arguments)
        except self._error as error:
            self.faults.append(str(error))

    def _check_directory(self, bucket_pages):
        """Check all entries of the directory, and compare the pages they refer to with those in use."""
        for position in range(1 << self.directory.depth):
            self._run_check(self._check_entry, position, self.directory.depth, position)
        for number in sorted(bucket_pages - self._visits.keys()):
            self.faults.append(f"bucket page {number} is in use, but not in the directory")
        for number in sorted(self._visits.keys() - bucket_pages):
            self.faults.append(f"bucket page {number} is free, but in the directory")
        if len(self._forks) != self.directory.live_forks:
            self.faults.append(f"the directory has {len(self._forks)} forks, but counts {self.directory.live_forks}")

    def _check_entry(self, uint64_t position, int bits, uint64_t prefix):
        """Check the directory from the entry at ``position`` down: that it leads to bucket pages for its hashes.

        The entry is for the hashes whose ``bits`` low bits are ``prefix``. A fork leads to two further entries.
        """
        cdef uint32_t entry = self.directory._get_entry(position)
        cdef const uint8_t* page
        cdef int side
        if entry & _FORK:
            if bits > 63 or entry in self._forks:
                self.faults.append(f"fork {entry & _ENTRY_MASK} is reached twice, or is too deep")
                return
            self._forks.add(entry)
            for side in range(2):
                below = _AT_FORK | <uint64_t> (entry & _ENTRY_MASK) << 1 | side
                self._check_entry(below, bits + 1, prefix | <uint64_t> side << bits)
        elif entry:
            page = self.directory.buckets.read(entry)
            self._visits[entry] = self._visits.get(entry, 0) + 1
            if page[_BP_DEPTH] > bits or kv_get64(page + _BP_PREFIX) != get_low_bits(prefix, page[_BP_DEPTH]):
                self.faults.append(f"bucket page {entry} is reached by a prefix that is not its own")

    def _check_bucket_page(self, uint32_t number):
        """Check the number of directory entries that lead to a bucket page, its tags and the chains of its slots.

        Each tag must be unique in its two buckets. A chain links the records of the names with one tag.
        """
        cdef const uint8_t* page = self.directory.buckets.read(number)
        cdef const uint64_t* bucket
        cdef const uint64_t* other
        cdef int bucket_index, k
        cdef uint32_t tag
        expected = 1 << max(0, self.directory.depth - page[_BP_DEPTH])
        if self._visits[number] != expected:
            self.faults.append(f"bucket page {number} is reached by {self._visits[number]} entries, not {expected}")
        for bucket_index in range(_BUCKETS):
            bucket = get_bucket(page, bucket_index)
            for k in range(4):
                if bucket[k] == 0:
                    continue
                tag = <uint32_t> (bucket[k] >> 32)
                other = get_bucket(page, get_other_bucket(tag, bucket_index))
                if find_bucket_slot(bucket, tag) != k or find_bucket_slot(other, tag) >= 0:
                    self.faults.append(f"bucket {bucket_index} of page {number}: the tag of slot {k} occurs twice")
                self._run_check(self._check_chain, number, bucket_index, <uint32_t> bucket[k], tag)

    def _check_chain(self, uint32_t number, uint32_t bucket, uint32_t reference, uint32_t tag):
        """Check that the names with one tag belong to their bucket and page, and are different.

        ``reference`` leads to the first of their records, which form a chain. ``number`` is that of the bucket page.
        """
        cdef const uint8_t* page = self.directory.buckets.read(number)
        cdef const uint8_t* record
        cdef uint64_t name_hash
        names = []
        while reference:
            record = self.index.blocks.get_record(reference)
            if self._reached[reference]:
                self.faults.append(f"record {reference >> 8}:{reference & 0xFF} is reached twice")
                return
            self._reached[reference] = 1
            name_hash = self.directory._compute_hash(reference)
            if (get_tag(name_hash) != tag or get_low_bits(name_hash, page[_BP_DEPTH]) != kv_get64(page + _BP_PREFIX)
                    or bucket not in (get_first_bucket(name_hash), get_other_bucket(tag, get_first_bucket(name_hash)))):
                self.faults.append(f"bucket {bucket} of page {number} refers to a name that does not belong there")
            names.append(PyBytes_FromStringAndSize(<const char*> record + _R_HEADER, kv_get16(record + _R_KEY_LENGTH)))
            reference = kv_get32(record + _R_NEXT)
        if len(set(names)) != len(names):
            self.faults.append(f"bucket {bucket} of page {number}: a name is stored twice")

    def _check_block_pages(self, block_pages):
        """Check the records of all names, and compare their counts with those of the filter."""
        cdef size_t number
        entities = addresses = 0
        for page in block_pages:
            try:
                names, count = self._check_block_page(page)
            except self._error as error:
                self.faults.append(str(error))
                continue
            entities += names
            addresses += count
        sort(self._entities.begin(), self._entities.end())
        for number in range(self._entities.size()):
            if self._entities[number] == (self._entities[number - 1] if number else 0):
                self.faults.append(f"entity {self._entities[number]} has two names, or is 0")
        if entities != self.index.entities:
            self.faults.append(f"the filter has {entities} names, but counts {self.index.entities}")
        if addresses != self.index.addresses:
            self.faults.append(f"the filter has {addresses} addresses, but counts {self.index.addresses}")

    def _check_block_page(self, uint32_t number):
        """Check the records of a page. Return the numbers of its names and of their addresses."""
        cdef const uint8_t* page = self.index.blocks.pages.read(number)
        cdef const uint8_t* record
        cdef const uint8_t* cursor
        cdef uint32_t slot, i, count
        names = addresses = 0
        extents = []
        for slot in range(kv_get16(page + _LP_SLOTS)):
            if kv_get16(page + _LP_HEADER + 2 * slot) == 0:
                continue
            record = self.index.blocks.get_record(number << 8 | slot)
            count = kv_get32(record + _R_COUNT)
            names += 1
            addresses += count
            self._entities.push_back(kv_get32(record + _R_ENTITY))
            extents.append((record - page, record - page + get_record_size(record)))
            if not self._reached[number << 8 | slot]:
                self.faults.append(f"record {number}:{slot} is in no chain")
            if record[_R_LONG]:
                self.long_lists[kv_get32(record + _R_ENTITY)] = count
                continue
            cursor = record + _R_HEADER + kv_get16(record + _R_KEY_LENGTH)
            if count > _MAX_LEGACY_SHORT_LIST:
                self.faults.append(
                    f"record {number}:{slot} holds {count} addresses, more than {_MAX_LEGACY_SHORT_LIST}"
                )
            for i in range(1, count):
                if kv_get64(cursor + 8 * i - 8) >= kv_get64(cursor + 8 * i):
                    self.faults.append(f"record {number}:{slot}: the addresses are not in order")
                    break
        extents.sort()
        if any(end > start for (_, end), (start, _) in zip(extents, extents[1:])):
            self.faults.append(f"block-list page {number} has records that overlap")
        if not extents:
            self.faults.append(f"block-list page {number} is empty, but in use")
        return names, addresses
