# Lookup of single names, and the changes of a write transaction.

cdef enum:
    _MAX_SHORT_LIST = 16        # a list of at most this many addresses is stored in its record
    _MAX_SHRUNK_LIST = 8        # a long list that shrinks to this many is stored in its record again
    _MAX_LEGACY_SHORT_LIST = 64     # most addresses that earlier versions stored in a record
    _MAX_TEMPERATURE = 0xFFFFFFFF

cdef struct Location:
    uint32_t page           # bucket page
    int slot                # 0..503 within it
    uint32_t reference      # the record
    uint32_t previous       # the record before it in its chain; 0 when the slot refers to it


cdef inline bint has_key(const uint8_t* record, const uint8_t* key, uint32_t length) noexcept nogil:
    """True if a record belongs to the name ``key``, of ``length`` bytes."""
    return kv_get16(record + _R_KEY_LENGTH) == length and memcmp(record + _R_HEADER, key, length) == 0


cdef const uint8_t* get_utf8(str key, Py_ssize_t* n) except NULL:
    """Return the UTF-8 of a name, which the string owns, and set its size ``n``.

    A name with lone surrogates gives the empty name, which no record has.
    """
    try:
        return <const uint8_t*> PyUnicode_AsUTF8AndSize(key, n)
    except UnicodeEncodeError:
        n[0] = 0
        return <const uint8_t*> b""


@cython.final
cdef class EntityIndex:
    """All names of one state.

    ``lists`` stores the long lists. Its ``change_many`` takes, by entity, the addresses to remove and to add, and
    returns the numbers removed and added. Its ``take(entity)`` returns all addresses as bytes and drops the list.
    ``as_addresses`` converts the caller's addresses to an array of u64. ``counts`` are the numbers of entities and
    addresses.
    """

    cdef NameHash hasher
    cdef Directory directory
    cdef BlockStore blocks
    cdef object lists, as_addresses
    cdef readonly uint64_t entities, addresses

    def __cinit__(self, NameHash hasher not None, Directory directory not None, BlockStore blocks not None, lists,
                  as_addresses, counts):
        """Combine the parts of an index; raise ValueError if the directory uses other blocks or another hash."""
        if directory.blocks is not blocks or directory.hasher is not hasher:
            raise ValueError("the directory belongs to other block lists or to another hash")
        self.hasher, self.directory, self.blocks = hasher, directory, blocks
        self.lists, self.as_addresses = lists, as_addresses
        self.entities, self.addresses = counts

    # -- Lookup of one name

    cdef const uint8_t* _find(self, str key) except? NULL:
        """Return the record of a name: its entity, counts and short list of addresses; NULL if the name is absent."""
        cdef Py_ssize_t n
        cdef const uint8_t* data = get_utf8(key, &n)
        cdef uint64_t h
        cdef const uint8_t* page
        cdef uint32_t first, tag, reference
        if not 0 < n <= _KEY_BYTES:
            return NULL
        h = self.hasher.hash_bytes(data, n)
        page = self.directory.get_page(h)
        first, tag = get_first_bucket(h), get_tag(h)
        reference = find_bucket_head(get_bucket(page, first), tag) | find_bucket_head(
            get_bucket(page, get_other_bucket(tag, first)), tag
        )
        return self._find_in_chain(reference, data, n, NULL) if reference else NULL

    cdef const uint8_t* _find_in_chain(
        self, uint32_t reference, const uint8_t* key, size_t n, Location* location
    ) except? NULL:
        """Return the record of a name in a chain, the linked records of names with equal tags; NULL if it is absent.

        The chain begins at ``reference``. Unless ``location`` is NULL, it gets the references of the record found and
        of the record before it.
        """
        cdef const uint8_t* record
        cdef uint64_t steps = 0
        cdef uint32_t previous = 0
        while reference:
            record = self.blocks.get_record(reference)
            if has_key(record, key, <uint32_t> n):
                if location != NULL:
                    location.reference, location.previous = reference, previous
                return record
            steps += 1
            if steps > self.blocks.pages.live * <uint64_t> 256:
                raise self.blocks.pages.make_error("a chain of names is cyclic")
            previous, reference = reference, kv_get32(record + _R_NEXT)
        return NULL

    cdef const uint8_t* _locate(self, str key, Location* location) except? NULL:
        """Return the record (entity, counts, short list of addresses) of a name; NULL if the name is absent.

        Sets ``location`` to the bucket page, the slot and the references that lead to the record.
        """
        cdef Py_ssize_t n
        cdef const uint8_t* data = get_utf8(key, &n)
        cdef uint64_t h
        cdef uint32_t reference
        if not 0 < n <= _KEY_BYTES:
            return NULL
        h = self.hasher.hash_bytes(data, n)
        reference = self._find_slot(h, location)
        return self._find_in_chain(reference, data, n, location) if reference else NULL

    cdef uint32_t _find_slot(self, uint64_t h, Location* location) except? 0xFFFFFFFF:
        """Return the reference to the first record with the tag of a hash (the bits that a slot stores).

        Sets ``location`` to the page and the slot. Returns 0 if no slot has this tag.
        """
        cdef uint32_t tag = get_tag(h), bucket = get_first_bucket(h)
        cdef const uint8_t* page
        cdef int k, turn
        location.page = self.directory.get_page_number(h)
        if location.page == 0:
            return 0
        page = self.directory.buckets.read(location.page)
        for turn in range(2):
            k = find_bucket_slot(get_bucket(page, bucket), tag)
            if k >= 0:
                location.slot = <int> (4 * bucket + k)
                return <uint32_t> get_bucket(page, bucket)[k]
            bucket = get_other_bucket(tag, bucket)
        return 0

    def find(self, str key) -> tuple | None:
        """Return the entity, the number of addresses and the temperature (lookup count) of a name; None if absent."""
        cdef const uint8_t* record = self._find(key)
        if record == NULL:
            return None
        return kv_get32(record + _R_ENTITY), kv_get32(record + _R_COUNT), kv_get32(record + _R_TEMPERATURE)

    def look_up(self, str key, uint32_t limit, uint64_t start) -> tuple | None:
        """Return the entity, number of addresses and temperature (lookup count) of a name, and some of its addresses.

        These are at most ``limit`` addresses of at least ``start``, packed as u64; None if the list is long, so that it
        is not in the record. Returns None if the name is absent.
        """
        cdef const uint8_t* record = self._find(key)
        cdef const uint8_t* cursor
        cdef uint32_t count, num_skipped = 0
        cdef Py_ssize_t size
        if record == NULL:
            return None
        count = kv_get32(record + _R_COUNT)
        addresses = None
        if not record[_R_LONG]:
            cursor = record + _R_HEADER + kv_get16(record + _R_KEY_LENGTH)
            while num_skipped < count and kv_get64(cursor + 8 * num_skipped) < start:
                num_skipped += 1
            size = 8 * <Py_ssize_t> min(limit, count - num_skipped)
            addresses = PyBytes_FromStringAndSize(<const char*> cursor + 8 * num_skipped, size)
        return kv_get32(record + _R_ENTITY), count, kv_get32(record + _R_TEMPERATURE), addresses

    # -- Changes

    def find_invalid(self, keys) -> int:
        """Return the index of the first name that cannot be stored (empty, too long, not UTF-8); -1 if all can."""
        cdef Py_ssize_t n, i
        for i in range(len(keys)):
            get_utf8(keys[i], &n)
            if not 0 < n <= _KEY_BYTES:
                return i
        return -1

    def insert_many(self, keys, const uint32_t[::1] entities not None) -> None:
        """Add absent names, with one entity each. Raises ValueError for a name that cannot be stored."""
        cdef Py_ssize_t i, n = len(keys)
        if n != entities.shape[0]:
            raise ValueError(f"{n} names, but {entities.shape[0]} entities")
        for i in range(n):
            self._insert(keys[i], entities[i])

    cdef int _insert(self, str key, uint32_t entity) except -1:
        """Add the record of a new name, without addresses, at the beginning of its chain."""
        cdef Py_ssize_t n
        cdef const uint8_t* data = get_utf8(key, &n)
        if not 0 < n <= _KEY_BYTES:
            raise ValueError(f"a name must have 1 to {_KEY_BYTES} bytes of UTF-8, not {n}")
        cdef uint64_t h = self.hasher.hash_bytes(data, n)
        cdef Location location
        cdef uint32_t head = self._find_slot(h, &location), reference
        cdef uint8_t* record
        cdef uint64_t* slot
        reference = self.blocks.add(_R_HEADER + n, &record)
        memset(record, 0, _R_HEADER)
        kv_put32(record + _R_ENTITY, entity)
        kv_put32(record + _R_NEXT, head)
        kv_put16(record + _R_KEY_LENGTH, n)
        memcpy(record + _R_HEADER, data, n)
        if head:
            slot = <uint64_t*> (self.directory.buckets.get_writable(location.page) + _BP_HEADER) + location.slot
            slot[0] = slot[0] >> 32 << 32 | reference
        else:
            self.directory.insert(h, reference)
        self.entities += 1
        return 0

    def delete(self, str key) -> int:
        """Remove a name with its short list. Return -1 if it is absent, its entity if its list is long, else 0."""
        cdef Location location
        cdef const uint8_t* record = self._locate(key, &location)
        cdef uint32_t result, next_reference
        cdef uint8_t* page
        if record == NULL:
            return -1
        result = kv_get32(record + _R_ENTITY) if record[_R_LONG] else 0
        next_reference = kv_get32(record + _R_NEXT)
        self.entities -= 1
        self.addresses -= kv_get32(record + _R_COUNT)
        self.blocks.remove(location.reference)
        if next_reference or location.previous:
            self._replace_reference(&location, next_reference)
        else:
            page = self.directory.buckets.get_writable(location.page)
            remove_slot(<uint64_t*> (page + _BP_HEADER) + location.slot // 4 * 4, location.slot % 4)
            kv_put16(page + _BP_ENTRIES, kv_get16(page + _BP_ENTRIES) - 1)
            self.directory.merge(location.page)
        return result

    cdef int _replace_reference(self, Location* location, uint32_t reference) except -1:
        """Replace the reference that leads to the record at ``location``: in its slot, or in the record before it."""
        cdef uint64_t* slot
        if location.previous:
            kv_put32(self.blocks.get_writable(location.previous) + _R_NEXT, reference)
        else:
            slot = <uint64_t*> (self.directory.buckets.get_writable(location.page) + _BP_HEADER) + location.slot
            slot[0] = slot[0] >> 32 << 32 | reference
        return 0

    def change_addresses(self, keys, addresses, bint adding) -> tuple:
        """Add addresses to the lists of some names or, if not ``adding``, remove them.

        Returns the number of changed addresses, and the index of the first absent name or -1. Removal skips absent
        names. Adding stops at the first absent name.
        """
        cdef Location location
        cdef const uint8_t* record
        cdef vector[uint64_t] sorted_addresses
        cdef int64_t changed = 0
        cdef Py_ssize_t position, absent = -1
        pending: dict = {}  # changes of long lists by entity, which are read and written together
        names: dict = {}
        for position, (key, name_addresses) in enumerate(zip(keys, addresses, strict=True)):
            record = self._locate(key, &location)
            if record == NULL:
                absent = position if absent < 0 else absent
                if adding:
                    break
                continue
            sorted_addresses.clear()
            self._sort_addresses(name_addresses, &sorted_addresses)
            if sorted_addresses.size() == 0:
                continue
            if record[_R_LONG]:
                entity = kv_get32(record + _R_ENTITY)
                if entity in pending:  # the name occurs twice in keys
                    changed += self._change_long(names, pending)
                    record = self._locate_existing(key, &location)  # it may have moved, and its list may be short now
                if record[_R_LONG]:
                    names[entity] = key
                    pending[entity] = ((), list(sorted_addresses)) if adding else (list(sorted_addresses), ())
                    continue
            changed += self._change_short(&location, record, sorted_addresses, adding)
        changed += self._change_long(names, pending)
        return changed, absent

    cdef const uint8_t* _locate_existing(self, str key, Location* location) except NULL:
        """Return the record of a name, and set ``location`` to where it is; raise an error if the name is absent."""
        cdef const uint8_t* record = self._locate(key, location)
        if record == NULL:
            raise self.blocks.pages.make_error("a name has disappeared while its addresses change")
        return record

    cdef int64_t _change_short(
        self, Location* location, const uint8_t* record, vector[uint64_t]& sorted_addresses, bint adding
    ) except -1:
        """Add addresses to a short list (in the record of its name), or remove them; return the number of changes.

        If the list grows too long, it moves to ``lists``.
        """
        cdef vector[uint64_t] present, merged
        cdef uint32_t count = kv_get32(record + _R_COUNT)
        cdef int64_t changed
        present.resize(count)
        kv_copy(present.data(), record + _R_HEADER + kv_get16(record + _R_KEY_LENGTH), 8 * <size_t> count)
        merged.resize(count + sorted_addresses.size())
        if adding:
            merged.resize(set_union(
                present.begin(), present.end(), sorted_addresses.begin(), sorted_addresses.end(), merged.begin()
            ) - merged.begin())
        else:
            merged.resize(set_difference(
                present.begin(), present.end(), sorted_addresses.begin(), sorted_addresses.end(), merged.begin()
            ) - merged.begin())
        changed = <int64_t> merged.size() - count
        if merged.size() > _MAX_SHORT_LIST:
            self.lists.change_many({kv_get32(record + _R_ENTITY): ((), list(merged))})
            self._store_addresses(location, merged, True)
        elif changed:
            self._store_addresses(location, merged, False)
        self.addresses += changed
        return abs(changed)

    cdef int64_t _change_long(self, dict names, dict pending) except -1:
        """Apply and clear the ``pending`` changes of long lists, by entity. Return the number of changed addresses.

        Long lists are stored in ``lists``, not in the records of names. ``names`` has the name of each entity. A list
        that shrinks enough moves to its record.
        """
        cdef Location location
        cdef vector[uint64_t] remaining
        cdef uint32_t count
        cdef int64_t changed, total = 0
        cdef bytes packed
        if not pending:
            return 0
        for entity, (removed, new) in self.lists.change_many(pending).items():
            count = kv_get32(self._locate_existing(names[entity], &location) + _R_COUNT)
            changed = new - removed
            count += changed
            if changed < 0 and count <= _MAX_SHRUNK_LIST:
                packed = self.lists.take(entity)
                remaining.resize(count)
                if len(packed) != 8 * count:
                    raise self.blocks.pages.make_error(f"entity {entity} has {len(packed) // 8} addresses, not {count}")
                kv_copy(remaining.data(), PyBytes_AS_STRING(packed), 8 * <size_t> count)
                self._store_addresses(&location, remaining, False)
            elif changed:
                kv_put32(self.blocks.get_writable(location.reference) + _R_COUNT, count)
            self.addresses += changed
            total += abs(changed)
        pending.clear()
        names.clear()
        return total

    cdef int _sort_addresses(self, addresses, vector[uint64_t]* sorted_addresses) except -1:
        """Append addresses, sorted and without duplicates, to ``sorted_addresses``, which is empty."""
        cdef Py_buffer buffer
        cdef uint64_t address
        cdef size_t i
        cdef bint is_ordered = True
        if type(addresses) is list:
            try:
                for address in <list> addresses:
                    sorted_addresses.push_back(address)
                addresses = None
            except (OverflowError, TypeError):
                sorted_addresses.clear()  # as_addresses raises the error for an invalid address
        if addresses is not None:
            addresses = self.as_addresses(addresses)
            PyObject_GetBuffer(addresses, &buffer, PyBUF_SIMPLE)
            try:
                if buffer.len % 8:
                    raise ValueError(f"{buffer.len} bytes of addresses are not a multiple of 8")
                sorted_addresses.resize(buffer.len // 8)
                kv_copy(sorted_addresses.data(), buffer.buf, buffer.len)
            finally:
                PyBuffer_Release(&buffer)
        for i in range(1, sorted_addresses.size()):
            if sorted_addresses[0][i - 1] >= sorted_addresses[0][i]:
                is_ordered = False
                break
        if not is_ordered:
            sort(sorted_addresses.begin(), sorted_addresses.end())
            sorted_addresses.resize(unique(sorted_addresses.begin(), sorted_addresses.end()) - sorted_addresses.begin())
        return 0

    cdef int _store_addresses(self, Location* location, vector[uint64_t]& addresses, bint long_list) except -1:
        """Store addresses and their number in the record of a name, which may move the record.

        With ``long_list``, only the number is stored, because ``lists`` has the addresses.
        """
        cdef uint8_t* record
        cdef size_t n = kv_get16(self.blocks.get_record(location.reference) + _R_KEY_LENGTH)
        cdef size_t stored_bytes = 0 if long_list else 8 * addresses.size()
        cdef uint32_t reference = self.blocks.resize(location.reference, _R_HEADER + n + stored_bytes, &record)
        record[_R_LONG] = long_list
        kv_put32(record + _R_COUNT, <uint32_t> addresses.size())
        kv_copy(record + _R_HEADER + n, addresses.data(), stored_bytes)
        if reference != location.reference:
            self._replace_reference(location, reference)
        return 0

    def add_hits(self, str key, uint64_t hits, bint order) -> bool:
        """Add ``hits`` to the temperature (lookup count) of a name; return False if the name is absent.

        With ``order``, also sort the slots of its bucket by temperature.
        """
        cdef Location location
        cdef const uint8_t* record = self._locate(key, &location)
        cdef const uint64_t* bucket
        cdef uint64_t slots[4]
        cdef uint32_t temperatures[4]
        cdef uint64_t temperature
        cdef int i, k, used
        if record == NULL:
            return False
        temperature = kv_get32(record + _R_TEMPERATURE) + min(hits, <uint64_t> _MAX_TEMPERATURE)
        temperature = min(temperature, <uint64_t> _MAX_TEMPERATURE)
        kv_put32(self.blocks.get_writable(location.reference) + _R_TEMPERATURE, <uint32_t> temperature)
        if not order:
            return True
        bucket = get_bucket(self.directory.buckets.read(location.page), location.slot // 4)
        used = count_used(bucket)
        for i in range(used):
            chain_temperature = self._get_chain_temperature(<uint32_t> bucket[i])
            k = i
            while k and temperatures[k - 1] < chain_temperature:
                slots[k], temperatures[k] = slots[k - 1], temperatures[k - 1]
                k -= 1
            slots[k], temperatures[k] = bucket[i], chain_temperature
        if memcmp(slots, bucket, 8 * used) != 0:
            self.directory.buckets.get_writable(location.page)
            memcpy(<void*> bucket, slots, 8 * used)
        return True

    cdef uint32_t _get_chain_temperature(self, uint32_t reference) except? 0xFFFFFFFF:
        """Return the highest temperature (lookup count) of the records in a chain, the names with one tag."""
        cdef uint32_t max_temperature = 0
        cdef uint64_t steps = 0
        cdef const uint8_t* record
        while reference:
            record = self.blocks.get_record(reference)
            max_temperature = max(max_temperature, kv_get32(record + _R_TEMPERATURE))
            reference = kv_get32(record + _R_NEXT)
            steps += 1
            if steps > self.blocks.pages.live * <uint64_t> 256:
                raise self.blocks.pages.make_error("a chain of names is cyclic")
        return max_temperature

    def list_records(self, number: int) -> list:
        """Return (name, entity, number of addresses, lookup count) of each record of a block-list page, by slot."""
        cdef const uint8_t* page = self.blocks.pages.read(number)
        cdef const uint8_t* record
        cdef uint32_t slot
        result = []
        for slot in range(kv_get16(page + _LP_SLOTS)):
            if kv_get16(page + _LP_HEADER + 2 * slot):
                record = self.blocks.get_record(<uint32_t> number << 8 | slot)
                try:
                    key = PyUnicode_DecodeUTF8(<const char*> record + _R_HEADER, kv_get16(record + _R_KEY_LENGTH), NULL)
                except UnicodeDecodeError:
                    reason = f"the key of record {number}:{slot} is not valid UTF-8"
                    raise self.blocks.pages.make_error(reason) from None
                result.append((
                    key, kv_get32(record + _R_ENTITY), kv_get32(record + _R_COUNT), kv_get32(record + _R_TEMPERATURE)))
        return result
