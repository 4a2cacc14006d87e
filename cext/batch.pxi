# Lookup of many names at once.
#
# A batch is processed in passes. Each pass prefetches what the next one reads, so that the cache misses of many names
# overlap: find the bucket page, compare the tags, find the record, compare the key. The passes run without the GIL.
# They take it only to read a page for the first time and to follow a chain.
cdef enum:
    _BATCH = 256

cdef struct Query:
    const uint8_t* key
    uint32_t length
    uint32_t reference
    uint64_t hash
    const uint64_t* first
    const uint64_t* second
    const uint8_t* record   # the result; NULL for an absent name


cdef int find_records(EntityIndex index, Query* queries, int n) except -1 nogil:
    """Look up the names of up to ``_BATCH`` queries, and set the record of each; NULL if the name is absent.

    A record has the entity and the addresses of a name. The hashes, keys and lengths of the queries must be set.
    """
    cdef int i
    cdef uint32_t reference
    cdef const uint8_t* page
    cdef const uint8_t* record
    find_heads(index, queries, n)
    for i in range(n):
        queries[i].record = NULL
        reference = queries[i].reference
        if reference:
            page = index.blocks.pages.peek(reference >> 8)
            if page == NULL:
                with gil:
                    page = index.blocks.pages.read(reference >> 8)
            kv_prefetch(page + kv_get16(page + _LP_HEADER + 2 * (reference & 0xFF)))
    for i in range(n):
        if queries[i].reference:
            reference = queries[i].reference
            record = get_page_record(index.blocks.pages.peek(reference >> 8), reference & 0xFF)
            if record != NULL and has_key(record, queries[i].key, queries[i].length):
                queries[i].record = record
            elif record == NULL or kv_get32(record + _R_NEXT):
                with gil:
                    queries[i].record = index._find_in_chain(reference, queries[i].key, queries[i].length, NULL)
    return 0


cdef int find_heads(EntityIndex index, Query* queries, int n) except -1 nogil:
    """Set the reference of each query to the first candidate for its name; 0 if the name is absent.

    A candidate is the record of a name with the same tag (bits of the hash); its key is not compared here. A reference
    is the number of a page and a slot in it. All records with one tag are linked to a chain.
    """
    cdef int i
    cdef uint32_t tag, bucket
    cdef const uint8_t* page
    for i in range(n):
        page = index.directory.get_cached_page(queries[i].hash)
        if page == NULL:
            with gil:
                page = index.directory.get_page(queries[i].hash)
        tag, bucket = get_tag(queries[i].hash), get_first_bucket(queries[i].hash)
        queries[i].first = get_bucket(page, bucket)
        queries[i].second = get_bucket(page, get_other_bucket(tag, bucket))
        kv_prefetch(queries[i].first)
        kv_prefetch(queries[i].second)
    for i in range(n):
        tag = get_tag(queries[i].hash)
        queries[i].reference = find_bucket_head(queries[i].first, tag) | find_bucket_head(queries[i].second, tag)
        if queries[i].reference:
            page = index.blocks.pages.peek(queries[i].reference >> 8)
            if page != NULL:
                kv_prefetch(page + _LP_HEADER + 2 * (queries[i].reference & 0xFF))
    return 0


def find_many(EntityIndex index not None, keys, uint32_t[::1] entities not None,
              uint64_t[::1] first_addresses=None) -> list:
    """Write the entity of each name (0 if absent) to ``entities``, and its first address to ``first_addresses``.

    No addresses are written if ``first_addresses`` is None. Returns the positions of the names with long lists, whose
    first addresses are not written because they are not in the record of the name. Raises ValueError if an array does
    not have one element for each name.
    """
    cdef Query queries[_BATCH]
    cdef PyObject* owned_keys[_BATCH]
    cdef Py_ssize_t total = len(keys), start, length
    cdef int i, n
    cdef const uint8_t* record
    if entities.shape[0] != total or (first_addresses is not None and first_addresses.shape[0] != total):
        raise ValueError(f"the arrays must have one element for each of the {total} names")
    long_lists = []
    for start in range(0, total, _BATCH):
        n = 0
        try:
            while n < <int> _BATCH and start + n < total:
                key = keys[start + n]
                queries[n].key = get_utf8(key, &length)
                # A name that is too long to be stored gets length 0, which no record has.
                queries[n].length = <uint32_t> length if length <= _KEY_BYTES else 0
                Py_INCREF(key)
                owned_keys[n] = <PyObject*> key
                n += 1
            with nogil:
                for i in range(n):
                    queries[i].hash = index.hasher.hash_bytes(queries[i].key, queries[i].length)
                find_records(index, queries, n)
                for i in range(n):
                    record = queries[i].record
                    entities[start + i] = kv_get32(record + _R_ENTITY) if record != NULL else 0
            if first_addresses is not None:
                for i in range(n):
                    record = queries[i].record
                    if record == NULL or kv_get32(record + _R_COUNT) == 0:
                        continue
                    if record[_R_LONG]:
                        long_lists.append(start + i)
                    else:
                        first_addresses[start + i] = kv_get64(
                            record + _R_HEADER + kv_get16(record + _R_KEY_LENGTH))
        finally:
            for i in range(n):
                Py_DECREF(<object> owned_keys[i])
    return long_lists


def list_addresses_below(EntityIndex index not None, keys, uint64_t stop) -> list:
    """Return for each name a tuple of its addresses below ``stop``, ascending.

    Returns None for a name with a long list, because its addresses are not in its record.
    """
    cdef Query query
    cdef Py_ssize_t length
    cdef uint32_t count, i, n
    cdef const uint8_t* cursor
    results = []
    for key in keys:
        query.key = get_utf8(key, &length)
        query.length = <uint32_t> length if length <= _KEY_BYTES else 0
        query.hash = index.hasher.hash_bytes(query.key, query.length)
        find_records(index, &query, 1)
        count = kv_get32(query.record + _R_COUNT) if query.record != NULL else 0
        if count and query.record[_R_LONG]:
            results.append(None)
            continue
        n = 0
        if count:
            cursor = query.record + _R_HEADER + kv_get16(query.record + _R_KEY_LENGTH)
            while n < count and kv_get64(cursor + 8 * n) < stop:
                n += 1
        results.append(tuple([kv_get64(cursor + 8 * i) for i in range(n)]))
    return results


def count_candidates(EntityIndex index not None, const uint64_t[::1] hashes not None) -> int:
    """Return how many hashes have a candidate in the filter: a name with the same tag. Keys are not compared."""
    cdef Query queries[_BATCH]
    cdef Py_ssize_t start = 0, total = hashes.shape[0], num_candidates = 0
    cdef int i, n
    with nogil:
        while start < total:
            n = <int> min(<Py_ssize_t> _BATCH, total - start)
            for i in range(n):
                queries[i].hash = hashes[start + i]
            find_heads(index, queries, n)
            for i in range(n):
                num_candidates += queries[i].reference != 0
            start += n
    return num_candidates
