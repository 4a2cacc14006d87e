# A bucket page: a cuckoo table of 126 buckets of four slots (partial-key cuckoo hashing: Fan, Andersen, Kaminsky and
# Mitzenmacher, CoNEXT 2014). 48 bytes of header, then the buckets; FORMAT.md has the layout.
#
# Of a name's hash, bits 0..19 ("further bits") and 52..63 (the fingerprint) are its tag, kept in the slot's upper half;
# bits 20..51 choose its first bucket. The second is (2 (fingerprint mod 63) + 1 - first) mod 126, an involution whose
# two buckets always differ, because their sum is odd and 126 is even. The slot's lower half is the head of the block
# list. The used slots of a bucket come first, in the order of their temperatures when they were last sorted.

cdef enum:
    _BUCKETS = 126
    _SLOTS = 504
    _STORED_BITS = 20
    _BP_DEPTH = 12
    _BP_ENTRIES = 14
    _BP_PREFIX = 16
    _BP_KICKS = 24
    _BP_SPLITS = 28
    _BP_HEADER = 48


cdef bint is_bucket_page_consistent(const uint8_t* page) noexcept nogil:
    """True if the header of a bucket page agrees with its buckets, and used slots come first in each bucket."""
    cdef const uint64_t* buckets = <const uint64_t*> (page + _BP_HEADER)
    cdef int bucket, used = 0
    for bucket in range(_BUCKETS):
        used += count_used(buckets + 4 * bucket)
        if count_used(buckets + 4 * bucket) < 4 and buckets[4 * bucket + count_used(buckets + 4 * bucket)]:
            return False
    return (used == kv_get16(page + _BP_ENTRIES) and page[_BP_DEPTH] <= 64
            and kv_get64(page + _BP_PREFIX) == get_low_bits(kv_get64(page + _BP_PREFIX), page[_BP_DEPTH]))


cdef inline uint64_t get_low_bits(uint64_t h, int n) noexcept nogil:
    """Return the ``n`` lowest bits of a hash."""
    return h if n >= 64 else h & ((<uint64_t> 1 << n) - 1)


cdef inline uint32_t get_tag(uint64_t h) noexcept nogil:
    """Return the tag of a hash: the bits that a slot stores, to distinguish the names in one bucket."""
    return <uint32_t> ((h >> 52) << _STORED_BITS | (h & ((1 << _STORED_BITS) - 1)))


cdef inline uint32_t get_first_bucket(uint64_t h) noexcept nogil:
    """Return the index of the first of the two buckets of a page that can contain a hash."""
    return <uint32_t> (<uint64_t> <uint32_t> (h >> 20) * <uint64_t> _BUCKETS >> 32)


cdef inline uint32_t get_other_bucket(uint32_t tag, uint32_t bucket) noexcept nogil:
    """Return the index of the other bucket that can contain a tag; applied twice, it returns ``bucket``."""
    cdef uint32_t total = 2 * ((tag >> _STORED_BITS) % 63) + 1
    return total - bucket if total >= bucket else total + _BUCKETS - bucket


cdef inline const uint64_t* get_bucket(const uint8_t* page, uint32_t bucket) noexcept nogil:
    """Return the four slots of a bucket."""
    return <const uint64_t*> (page + _BP_HEADER) + 4 * bucket


cdef inline uint32_t find_bucket_head(const uint64_t* bucket, uint32_t tag) noexcept nogil:
    """Return the reference to the first record of a name with ``tag`` (bits of its hash) in one bucket; 0 if absent."""
    cdef uint32_t head = 0
    cdef int k
    for k in range(4):
        head |= <uint32_t> bucket[k] if <uint32_t> (bucket[k] >> 32) == tag else 0
    return head


cdef inline int find_bucket_slot(const uint64_t* bucket, uint32_t tag) noexcept nogil:
    """Return the index of the slot with ``tag`` (bits of a name's hash) in one bucket; -1 if the tag is absent."""
    cdef int k
    for k in range(4):
        if bucket[k] != 0 and <uint32_t> (bucket[k] >> 32) == tag:
            return k
    return -1


cdef inline int count_used(const uint64_t* bucket) noexcept nogil:
    """Return the number of used slots of a bucket."""
    return (bucket[0] != 0) + (bucket[1] != 0) + (bucket[2] != 0) + (bucket[3] != 0)


cdef void remove_slot(uint64_t* bucket, int k) noexcept nogil:
    """Remove the slot with index ``k`` (0 to 3) from a bucket; the others keep their order."""
    while k < 3:
        bucket[k] = bucket[k + 1]
        k += 1
    bucket[3] = 0


cdef int insert_slot(uint8_t* page, uint64_t slot, uint32_t first) noexcept nogil:
    """Put a slot (tag and reference) into one of its two buckets, moving others along the shortest path if necessary.

    ``first`` is one of the two buckets; the tag determines the other.

    Returns the number of moved slots ("kicks"), or -1 with the page unchanged if both buckets and all that can be
    reached from them are full. The search is breadth-first and visits each of the 126 buckets at most once, so it is
    bounded. It prefers to move the coldest slots.
    """
    cdef uint64_t* buckets = <uint64_t*> (page + _BP_HEADER)
    cdef uint8_t queue[_BUCKETS]
    cdef uint8_t parent[_BUCKETS]   # queue position of the bucket whose slot would move here
    cdef uint8_t parent_slot[_BUCKETS]
    cdef uint8_t seen[_BUCKETS]
    cdef uint32_t second = get_other_bucket(<uint32_t> (slot >> 32), first)
    cdef uint32_t bucket, target
    cdef int head = 0, tail = 2, index, k, kicks = 0
    if count_used(buckets + 4 * second) < count_used(buckets + 4 * first):
        first, second = second, first
    k = count_used(buckets + 4 * first)
    if k < 4:
        buckets[4 * first + k] = slot
        kv_put16(page + _BP_ENTRIES, kv_get16(page + _BP_ENTRIES) + 1)
        return 0
    memset(seen, 0, _BUCKETS)
    queue[0], queue[1] = first, second
    parent[0] = parent[1] = 0xFF
    seen[first] = seen[second] = 1
    while head < tail:
        bucket = queue[head]
        for k in range(3, -1, -1):
            target = get_other_bucket(<uint32_t> (buckets[4 * bucket + k] >> 32), bucket)
            if target >= _BUCKETS or seen[target]:
                continue
            seen[target] = 1
            queue[tail], parent[tail], parent_slot[tail] = target, head, k
            tail += 1
            if buckets[4 * target + 3] == 0:
                index = tail - 1
                while parent[index] != 0xFF:
                    target, bucket, k = queue[index], queue[parent[index]], parent_slot[index]
                    buckets[4 * target + count_used(buckets + 4 * target)] = buckets[4 * bucket + k]
                    remove_slot(buckets + 4 * bucket, k)
                    kicks += 1
                    index = parent[index]
                target = queue[index]
                buckets[4 * target + 3] = slot
                kv_put16(page + _BP_ENTRIES, kv_get16(page + _BP_ENTRIES) + 1)
                kv_put32(page + _BP_KICKS, kv_get32(page + _BP_KICKS) + kicks)
                return kicks
        head += 1
    return -1


cdef void divide_page(uint8_t* page, uint8_t* new_page, int bit) noexcept nogil:
    """Split a page: move the slots in whose tag the bit ``bit`` is set to the same buckets of ``new_page``.

    A slot has the tag (bits of the hash) of a name and the reference to its record.
    """
    cdef uint64_t* old = <uint64_t*> (page + _BP_HEADER)
    cdef uint64_t* new = <uint64_t*> (new_page + _BP_HEADER)
    cdef int bucket, k, num_kept, num_moved, total_moved = 0
    cdef uint64_t slot
    for bucket in range(_BUCKETS):
        num_kept = num_moved = 0
        for k in range(4):
            slot = old[4 * bucket + k]
            if slot == 0:
                break
            if slot >> (32 + bit) & 1:
                new[4 * bucket + num_moved] = slot
                num_moved += 1
            else:
                old[4 * bucket + num_kept] = slot
                num_kept += 1
        for k in range(num_kept, 4):
            old[4 * bucket + k] = 0
        total_moved += num_moved
    kv_put16(new_page + _BP_ENTRIES, total_moved)
    kv_put16(page + _BP_ENTRIES, kv_get16(page + _BP_ENTRIES) - total_moved)
