# Names to records, one at a time, and what a write transaction changes.

cdef enum:
    _SHORT_LIST = 16        # a list of at most this many addresses stays in its record
    _SHORT_AGAIN = 8        # a long list that has shrunk to this many returns to it
    _LONGEST_SHORT = 64     # addresses that earlier versions left in a record
    _HOTTEST = 0xFFFFFFFF

cdef struct Location:
    uint32_t page           # bucket page
    int slot                # 0..503 within it
    uint32_t reference      # the record
    uint32_t previous       # the record before it in its chain; 0 when the slot refers to it


cdef inline bint holds(const uint8_t* record, const uint8_t* key, uint32_t length) noexcept nogil:
    return kv_get16(record + _R_KEY_LENGTH) == length and memcmp(record + _R_HEADER, key, length) == 0


cdef const uint8_t* utf8_of(str key, Py_ssize_t* n) except NULL:
    """The UTF-8 of a name, kept by the string. A string with lone surrogates has none, and counts as the empty name."""
    try:
        return <const uint8_t*> PyUnicode_AsUTF8AndSize(key, n)
    except UnicodeEncodeError:
        n[0] = 0
        return <const uint8_t*> b""


@cython.final
cdef class EntityIndex:
    """Every name of one view.

    ``lists`` keeps the long lists: ``change_many`` takes, by entity, what goes of it and what comes, and tells how many
    did, ``take(entity)`` returns all addresses as bytes and drops the list. ``as_addresses`` makes an array of u64 of what a
    caller gives. ``counts`` are the numbers of entities and addresses.
    """

    cdef NameHash hasher
    cdef Directory directory
    cdef BlockStore blocks
    cdef object lists, as_addresses
    cdef readonly uint64_t entities, addresses

    def __cinit__(self, NameHash hasher not None, Directory directory not None, BlockStore blocks not None, lists,
                  as_addresses, counts):
        if directory.blocks is not blocks or directory.hasher is not hasher:
            raise ValueError("the directory is one of other block lists, or of another hash")
        self.hasher, self.directory, self.blocks = hasher, directory, blocks
        self.lists, self.as_addresses = lists, as_addresses
        self.entities, self.addresses = counts

    # -- One name

    cdef const uint8_t* _find(self, str key) except? NULL:
        """The record of a name; NULL when it is absent."""
        cdef Py_ssize_t n
        cdef const uint8_t* data = utf8_of(key, &n)
        cdef uint64_t h
        cdef const uint8_t* page
        cdef uint32_t first, tag, reference
        if not 0 < n <= _KEY_BYTES:
            return NULL
        h = self.hasher.of(data, n)
        page = self.directory.page_of(h)
        first, tag = first_bucket(h), tag_of(h)
        reference = head_in(bucket_at(page, first), tag) | head_in(bucket_at(page, other_bucket(tag, first)), tag)
        return self._chained(reference, data, n, NULL) if reference else NULL

    cdef const uint8_t* _chained(self, uint32_t reference, const uint8_t* key, size_t n, Location* found) except? NULL:
        """The record of a name in the chain that begins at ``reference``; NULL when it is not there."""
        cdef const uint8_t* record
        cdef uint64_t steps = 0
        cdef uint32_t previous = 0
        while reference:
            record = self.blocks.record(reference)
            if holds(record, key, <uint32_t> n):
                if found != NULL:
                    found.reference, found.previous = reference, previous
                return record
            steps += 1
            if steps > self.blocks.pages.live * <uint64_t> 256:
                raise self.blocks.pages.damage("a chain of names runs in a circle")
            previous, reference = reference, kv_get32(record + _R_NEXT)
        return NULL

    cdef const uint8_t* _locate(self, str key, Location* found) except? NULL:
        """As ``_find``, and tells where what leads to the record is."""
        cdef Py_ssize_t n
        cdef const uint8_t* data = utf8_of(key, &n)
        cdef uint64_t h
        cdef uint32_t reference
        if not 0 < n <= _KEY_BYTES:
            return NULL
        h = self.hasher.of(data, n)
        reference = self._slot(h, found)
        return self._chained(reference, data, n, found) if reference else NULL

    cdef uint32_t _slot(self, uint64_t h, Location* found) except? 0xFFFFFFFF:
        """The head in the slot with the tag of this hash, and where that slot is; 0 when there is none."""
        cdef uint32_t tag = tag_of(h), bucket = first_bucket(h)
        cdef const uint8_t* page
        cdef int k, turn
        found.page = self.directory.number_of(h)
        if found.page == 0:
            return 0
        page = self.directory.buckets.read(found.page)
        for turn in range(2):
            k = slot_in(bucket_at(page, bucket), tag)
            if k >= 0:
                found.slot = <int> (4 * bucket + k)
                return <uint32_t> bucket_at(page, bucket)[k]
            bucket = other_bucket(tag, bucket)
        return 0

    def find(self, str key) -> tuple | None:
        """Entity, address count and temperature of a name; None when it is absent."""
        cdef const uint8_t* record = self._find(key)
        if record == NULL:
            return None
        return kv_get32(record + _R_ENTITY), kv_get32(record + _R_COUNT), kv_get32(record + _R_TEMPERATURE)

    def look_up(self, str key, uint32_t limit, uint64_t after) -> tuple | None:
        """As ``find``, then at most ``limit`` addresses from ``after`` on as bytes; None instead for a long list."""
        cdef const uint8_t* record = self._find(key)
        cdef const uint8_t* at
        cdef uint32_t count, skipped = 0
        cdef Py_ssize_t taken
        if record == NULL:
            return None
        count = kv_get32(record + _R_COUNT)
        addresses = None
        if not record[_R_LONG]:
            at = record + _R_HEADER + kv_get16(record + _R_KEY_LENGTH)
            while skipped < count and kv_get64(at + 8 * skipped) < after:
                skipped += 1
            taken = 8 * <Py_ssize_t> min(limit, count - skipped)
            addresses = PyBytes_FromStringAndSize(<const char*> at + 8 * skipped, taken)
        return kv_get32(record + _R_ENTITY), count, kv_get32(record + _R_TEMPERATURE), addresses

    # -- Changes

    def first_unfit(self, keys) -> int:
        """The position of the first name that cannot be stored (empty, too long, no UTF-8); -1 when all can."""
        cdef Py_ssize_t n, i
        for i in range(len(keys)):
            utf8_of(keys[i], &n)
            if not 0 < n <= _KEY_BYTES:
                return i
        return -1

    def insert_many(self, keys, const uint32_t[::1] entities not None) -> None:
        """Add names that are all absent, one entity each; raises ValueError for a name that cannot be stored."""
        cdef Py_ssize_t i, n = len(keys)
        if n != entities.shape[0]:
            raise ValueError(f"{n} names have {entities.shape[0]} entities")
        for i in range(n):
            self._insert(keys[i], entities[i])

    cdef int _insert(self, str key, uint32_t entity) except -1:
        cdef Py_ssize_t n
        cdef const uint8_t* data = utf8_of(key, &n)
        if not 0 < n <= _KEY_BYTES:
            raise ValueError(f"a name is 1 to {_KEY_BYTES} bytes of UTF-8, not {n}")
        cdef uint64_t h = self.hasher.of(data, n)
        cdef Location found
        cdef uint32_t head = self._slot(h, &found), reference
        cdef uint8_t* record
        cdef uint64_t* slot
        reference = self.blocks.add(_R_HEADER + n, &record)
        memset(record, 0, _R_HEADER)
        kv_put32(record + _R_ENTITY, entity)
        kv_put32(record + _R_NEXT, head)
        kv_put16(record + _R_KEY_LENGTH, n)
        memcpy(record + _R_HEADER, data, n)
        if head:
            slot = <uint64_t*> (self.directory.buckets.own(found.page) + _BP_HEADER) + found.slot
            slot[0] = slot[0] >> 32 << 32 | reference
        else:
            self.directory.place(h, reference)
        self.entities += 1
        return 0

    def delete(self, str key) -> int:
        """Remove a name with its short list: -1 when absent, its entity when its list is long, else 0."""
        cdef Location found
        cdef const uint8_t* record = self._locate(key, &found)
        cdef uint32_t result, following
        cdef uint8_t* page
        if record == NULL:
            return -1
        result = kv_get32(record + _R_ENTITY) if record[_R_LONG] else 0
        following = kv_get32(record + _R_NEXT)
        self.entities -= 1
        self.addresses -= kv_get32(record + _R_COUNT)
        self.blocks.remove(found.reference)
        if following or found.previous:
            self._repoint(&found, following)
        else:
            page = self.directory.buckets.own(found.page)
            remove_slot(<uint64_t*> (page + _BP_HEADER) + found.slot // 4 * 4, found.slot % 4)
            kv_put16(page + _BP_ENTRIES, kv_get16(page + _BP_ENTRIES) - 1)
            self.directory.merge(found.page)
        return result

    cdef int _repoint(self, Location* found, uint32_t reference) except -1:
        """Let what led to a record lead to ``reference``."""
        cdef uint64_t* slot
        if found.previous:
            kv_put32(self.blocks.own(found.previous) + _R_NEXT, reference)
        else:
            slot = <uint64_t*> (self.directory.buckets.own(found.page) + _BP_HEADER) + found.slot
            slot[0] = slot[0] >> 32 << 32 | reference
        return 0

    def change_addresses(self, keys, addresses, bint adding) -> tuple:
        """Add to or remove from the lists of some names: how many addresses have changed in all, and the place of the
        first name that is absent, -1 where none is. Of an absent name nothing is removed; where one is to be added to,
        it and those behind it are left as they are."""
        cdef Location found
        cdef const uint8_t* record
        cdef vector[uint64_t] given
        cdef int64_t changed = 0
        cdef Py_ssize_t place, absent = -1
        waiting: dict = {}  # by entity, what changes of long lists: those are read and written together
        names: dict = {}
        for place, (key, some) in enumerate(zip(keys, addresses, strict=True)):
            record = self._locate(key, &found)
            if record == NULL:
                absent = place if absent < 0 else absent
                if adding:
                    break
                continue
            given.clear()
            self._sorted(some, &given)
            if given.size() == 0:
                continue
            if record[_R_LONG]:
                entity = kv_get32(record + _R_ENTITY)
                if entity in waiting:  # a name that was given twice
                    changed += self._change_long(names, waiting)
                    record = self._known(key, &found)  # which may have moved, and its list be short now
                if record[_R_LONG]:
                    names[entity] = key
                    waiting[entity] = ((), list(given)) if adding else (list(given), ())
                    continue
            changed += self._change_short(&found, record, given, adding)
        changed += self._change_long(names, waiting)
        return changed, absent

    cdef const uint8_t* _known(self, str key, Location* found) except NULL:
        """As ``_locate``, of a name that was there."""
        cdef const uint8_t* record = self._locate(key, found)
        if record == NULL:
            raise self.blocks.pages.damage("a name is gone while its addresses change")
        return record

    cdef int64_t _change_short(
        self, Location* found, const uint8_t* record, vector[uint64_t]& given, bint adding
    ) except -1:
        """Change a list that stays in its record, or did; the number of addresses that changed."""
        cdef vector[uint64_t] present, merged
        cdef uint32_t count = kv_get32(record + _R_COUNT)
        cdef int64_t changed
        present.resize(count)
        kv_copy(present.data(), record + _R_HEADER + kv_get16(record + _R_KEY_LENGTH), 8 * <size_t> count)
        merged.resize(count + given.size())
        if adding:
            merged.resize(set_union(
                present.begin(), present.end(), given.begin(), given.end(), merged.begin()) - merged.begin())
        else:
            merged.resize(set_difference(
                present.begin(), present.end(), given.begin(), given.end(), merged.begin()) - merged.begin())
        changed = <int64_t> merged.size() - count
        if merged.size() > _SHORT_LIST:
            self.lists.change_many({kv_get32(record + _R_ENTITY): ((), list(merged))})
            self._store(found, merged, True)
        elif changed:
            self._store(found, merged, False)
        self.addresses += changed
        return abs(changed)

    cdef int64_t _change_long(self, dict names, dict waiting) except -1:
        """Make the changes that wait, of long lists, and let none wait; the number of addresses that changed."""
        cdef Location found
        cdef vector[uint64_t] left
        cdef uint32_t count
        cdef int64_t changed, every = 0
        cdef bytes taken
        if not waiting:
            return 0
        for entity, (removed, new) in self.lists.change_many(waiting).items():
            count = kv_get32(self._known(names[entity], &found) + _R_COUNT)
            changed = new - removed
            count += changed
            if changed < 0 and count <= _SHORT_AGAIN:
                taken = self.lists.take(entity)
                left.resize(count)
                if len(taken) != 8 * count:
                    raise self.blocks.pages.damage(f"entity {entity} has {len(taken) // 8} addresses, not {count}")
                kv_copy(left.data(), PyBytes_AS_STRING(taken), 8 * <size_t> count)
                self._store(&found, left, False)
            elif changed:
                kv_put32(self.blocks.own(found.reference) + _R_COUNT, count)
            self.addresses += changed
            every += abs(changed)
        waiting.clear()
        names.clear()
        return every

    cdef int _sorted(self, addresses, vector[uint64_t]* given) except -1:
        """The addresses in order, each once; a list of them is read as it is."""
        cdef Py_buffer buffer
        cdef uint64_t number
        cdef size_t i
        cdef bint ordered = True
        if type(addresses) is list:
            try:
                for number in <list> addresses:
                    given.push_back(number)
                addresses = None
            except (OverflowError, TypeError):
                given.clear()  # what no address is, is refused below
        if addresses is not None:
            addresses = self.as_addresses(addresses)
            PyObject_GetBuffer(addresses, &buffer, PyBUF_SIMPLE)
            try:
                if buffer.len % 8:
                    raise ValueError(f"addresses of 8 bytes each do not have {buffer.len} in all")
                given.resize(buffer.len // 8)
                kv_copy(given.data(), buffer.buf, buffer.len)
            finally:
                PyBuffer_Release(&buffer)
        for i in range(1, given.size()):
            if given[0][i - 1] >= given[0][i]:
                ordered = False
                break
        if not ordered:
            sort(given.begin(), given.end())
            given.resize(unique(given.begin(), given.end()) - given.begin())
        return 0

    cdef int _store(self, Location* found, vector[uint64_t]& addresses, bint long_list) except -1:
        """Give a record these addresses, in it or (``long_list``) counted only."""
        cdef uint8_t* record
        cdef size_t n = kv_get16(self.blocks.record(found.reference) + _R_KEY_LENGTH)
        cdef size_t inline = 0 if long_list else 8 * addresses.size()
        cdef uint32_t reference = self.blocks.resize(found.reference, _R_HEADER + n + inline, &record)
        record[_R_LONG] = long_list
        kv_put32(record + _R_COUNT, <uint32_t> addresses.size())
        kv_copy(record + _R_HEADER + n, addresses.data(), inline)
        if reference != found.reference:
            self._repoint(found, reference)
        return 0

    def heat(self, str key, uint64_t hits, bint order) -> bool:
        """Add to a name's temperature and, with ``order``, put the hottest first in its bucket; False when absent."""
        cdef Location found
        cdef const uint8_t* record = self._locate(key, &found)
        cdef const uint64_t* bucket
        cdef uint64_t slots[4]
        cdef uint32_t heats[4]
        cdef uint64_t temperature
        cdef int i, k, taken
        if record == NULL:
            return False
        temperature = kv_get32(record + _R_TEMPERATURE) + min(hits, <uint64_t> _HOTTEST)
        kv_put32(self.blocks.own(found.reference) + _R_TEMPERATURE, <uint32_t> min(temperature, <uint64_t> _HOTTEST))
        if not order:
            return True
        bucket = bucket_at(self.directory.buckets.read(found.page), found.slot // 4)
        taken = taken_in(bucket)
        for i in range(taken):
            heat = self._heat_of(<uint32_t> bucket[i])
            k = i
            while k and heats[k - 1] < heat:
                slots[k], heats[k] = slots[k - 1], heats[k - 1]
                k -= 1
            slots[k], heats[k] = bucket[i], heat
        if memcmp(slots, bucket, 8 * taken) != 0:
            self.directory.buckets.own(found.page)
            memcpy(<void*> bucket, slots, 8 * taken)
        return True

    cdef uint32_t _heat_of(self, uint32_t reference) except? 0xFFFFFFFF:
        """The highest temperature in a chain."""
        cdef uint32_t hottest = 0
        cdef uint64_t steps = 0
        cdef const uint8_t* record
        while reference:
            record = self.blocks.record(reference)
            hottest = max(hottest, kv_get32(record + _R_TEMPERATURE))
            reference = kv_get32(record + _R_NEXT)
            steps += 1
            if steps > self.blocks.pages.live * <uint64_t> 256:
                raise self.blocks.pages.damage("a chain of names runs in a circle")
        return hottest

    def records_of(self, number: int) -> list:
        """Key, entity, count and temperature of every record of one block-list page, in order of the slots."""
        cdef const uint8_t* page = self.blocks.pages.read(number)
        cdef const uint8_t* record
        cdef uint32_t slot
        result = []
        for slot in range(kv_get16(page + _LP_SLOTS)):
            if kv_get16(page + _LP_HEADER + 2 * slot):
                record = self.blocks.record(<uint32_t> number << 8 | slot)
                try:
                    key = PyUnicode_DecodeUTF8(<const char*> record + _R_HEADER, kv_get16(record + _R_KEY_LENGTH), NULL)
                except UnicodeDecodeError:
                    raise self.blocks.pages.damage(f"the key of record {number}:{slot} is no UTF-8") from None
                result.append((
                    key, kv_get32(record + _R_ENTITY), kv_get32(record + _R_COUNT), kv_get32(record + _R_TEMPERATURE)))
        return result
