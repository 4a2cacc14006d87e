# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A reader of the pages of an LMDB 0.9 file that verifies every page before it uses it.

In: the address of the mapped file, the size of its pages, and a change number, which selects the meta page. The meta
page has the record of the main tree, and this tree the records of the tables. Out: values as memoryviews into the map.
A page must have its own number and the kind that its position in the tree requires, and every node must lie within its
page. So a zeroed, swapped or copied page raises :class:`PageError` before its content is used. LMDB itself would follow
such a page, and then crash the process or not find stored records.

Page: number u64, pad u16, flags u16, lower u16 and upper u16 (in an overflow page, the number of its pages u32 instead
of both), offsets of nodes u16. Node: low and high half of a size u16, flags u16, size of the key u16, key, value. In a
branch page, size and flags are the number of the child, and the key of the first node is not used.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char* memory, Py_ssize_t size, int flags)
    int PyBUF_READ

cdef enum:
    # The size of the header of a page, and the offsets of its fields.
    _HEADER_SIZE = 16
    _PAGE_FLAGS = 10
    _PAGE_LOWER = 12
    _PAGE_RUN = 12
    _PAGE_UPPER = 14
    # The flags of a page, one of which is set: its kind.
    _BRANCH = 1
    _LEAF = 2
    _OVERFLOW = 4
    _META = 8
    # The size of the header of a node, and the offsets of its fields.
    _NODE_HEADER_SIZE = 8
    _NODE_FLAGS = 4
    _NODE_KEY_SIZE = 6
    # The flags of a node: its value is in overflow pages, or it is the record of a table.
    _BIG = 1
    _TABLE = 2
    # The offsets of the fields of a meta page, after its header: the records of the list of free pages and of the main
    # tree, the number of the last page, and the number of the commit (LMDB's ``MDB_meta``).
    _META_FREE_LIST = 24
    _META_MAIN_TREE = 72
    _META_LAST_PAGE = 120
    _META_CHANGE = 128
    _NUM_META_PAGES = 2
    _TABLE_RECORD_SIZE = 48
    _MAX_DEPTH = 32

cdef uint64_t _NO_PAGE = <uint64_t> -1


class PageError(Exception):
    """A page is damaged, or its transaction is closed."""


cdef inline uint16_t _read_u16(const uint8_t* cursor) noexcept:
    """Read an unsigned 16-bit integer in native byte order; ``cursor`` need not be aligned."""
    cdef uint16_t number
    memcpy(&number, cursor, 2)
    return number


cdef inline uint64_t _read_u64(const uint8_t* cursor) noexcept:
    """Read an unsigned 64-bit integer in native byte order; ``cursor`` need not be aligned."""
    cdef uint64_t number
    memcpy(&number, cursor, 8)
    return number


cdef inline int _count_nodes(const uint8_t* page) noexcept:
    """Return the number of nodes of a verified page, whose offsets (u16) follow its header."""
    return (_read_u16(page + _PAGE_LOWER) - _HEADER_SIZE) >> 1


cdef inline int _compare_to_node(const uint8_t* key, Py_ssize_t size, const uint8_t* node) noexcept:
    """Compare a key with the key of a node, as LMDB sorts them: negative, 0 or positive."""
    cdef Py_ssize_t node_size = _read_u16(node + _NODE_KEY_SIZE)
    cdef int order = memcmp(key, node + _NODE_HEADER_SIZE, min(size, node_size))
    return order if order else (size > node_size) - (size < node_size)


def get_address(const uint8_t[::1] value not None):
    """Return the address in memory of the first byte of ``value``; 0 if it is empty."""
    return <size_t> &value[0] if value.shape[0] else 0


cdef class Pages:
    """The committed pages of a mapped file in the state of one transaction, until :meth:`close`."""

    cdef const uint8_t* _base
    cdef uint32_t _page_size
    cdef uint64_t _num_pages
    cdef bint _is_open
    cdef Tree _main_tree
    cdef dict _trees
    #: The change number of the meta page. It differs from the requested one if a later commit has overwritten the page.
    cdef readonly uint64_t change

    def __init__(self, size_t address, uint32_t page_size, uint64_t change):
        """Read the meta page that commit ``change`` wrote; the file is mapped at ``address``.

        Raises PageError if it is not a meta page.
        """
        cdef const uint8_t* page
        self._base = <const uint8_t*> address
        self._page_size = page_size
        page = self._base + (change & 1) * page_size
        if _read_u64(page) != change & 1 or not _read_u16(page + _PAGE_FLAGS) & _META:
            raise PageError(f"page {change & 1} is not a meta page")
        page += _HEADER_SIZE
        self._num_pages = _read_u64(page + _META_LAST_PAGE) + 1
        self.change = _read_u64(page + _META_CHANGE)
        self._is_open = True
        self._trees = {}
        self._main_tree = _make_tree(self, page + _META_MAIN_TREE)

    def close(self):
        """Refuse all further reads: from now on the pages may change or be unmapped."""
        self._is_open = False

    def get(self, str table not None):
        """Return the tree of a table, or None if it does not exist. Raises PageError for a damaged page or record."""
        cdef Tree tree
        cdef const uint8_t* record
        cdef const uint8_t* page
        cdef int index = -1
        cdef Py_ssize_t size = 0
        cdef bytes name
        cdef PyObject* known = PyDict_GetItem(self._trees, table)
        if known != NULL:
            return <object> known
        tree = None
        name = table.encode("utf-8", "surrogateescape")
        page = self._main_tree._find_leaf(<const uint8_t*> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), &index)
        if page != NULL and index >= 0:
            record = self._get_value(page, index, self._get_node(page, index), &size)
            if size != _TABLE_RECORD_SIZE or _read_u16(record + 4):  # kvstore's tables have no LMDB flags
                raise PageError(f"the record of table {table} is damaged")
            tree = _make_tree(self, record)
        self._trees[table] = tree
        return tree

    def names(self):
        """Return the names of all tables."""
        return [name.decode("utf-8", "surrogateescape") for name, _ in Cursor(self._main_tree, False)]

    cdef const uint8_t* _get_page(self, uint64_t number, int kind) except NULL:
        """Return the page with a number. Raises PageError unless it is a valid page of ``kind``, branch or leaf."""
        cdef const uint8_t* page
        cdef int lower, upper, min_nodes
        if not self._is_open:
            raise PageError("the transaction is closed")
        if number < _NUM_META_PAGES or number >= self._num_pages:
            raise PageError(f"page {number} is referred to, but the file has {self._num_pages} pages")
        page = self._base + number * self._page_size
        if _read_u64(page) != number:
            raise PageError(f"page {number} is overwritten: it has the number {_read_u64(page)}")
        if _read_u16(page + _PAGE_FLAGS) != kind:
            raise PageError(f"page {number} has the flags {_read_u16(page + _PAGE_FLAGS)} instead of {kind}")
        lower, upper = _read_u16(page + _PAGE_LOWER), _read_u16(page + _PAGE_UPPER)
        min_nodes = 2 if kind == _BRANCH else 1
        # The offsets of the nodes, of two bytes each, are before ``lower``.
        if not (_HEADER_SIZE + 2 * min_nodes <= lower <= upper <= <int> self._page_size) or lower & 1:
            raise PageError(f"page {number} has invalid bounds of its nodes, {lower} and {upper}")
        return page

    cdef const uint8_t* _get_node(self, const uint8_t* page, int index) except NULL:
        """Return a node of a page. Raises PageError unless its header and key lie within the page."""
        cdef uint32_t offset = _read_u16(page + _HEADER_SIZE + 2 * index)
        if offset < _read_u16(page + _PAGE_UPPER) or offset + _NODE_HEADER_SIZE > self._page_size or \
                offset + _NODE_HEADER_SIZE + _read_u16(page + offset + _NODE_KEY_SIZE) > self._page_size:
            raise PageError(f"page {_read_u64(page)}: node {index} is not within the page")
        return page + offset

    cdef const uint8_t* _get_value(
        self, const uint8_t* page, int index, const uint8_t* node, Py_ssize_t* size
    ) except NULL:
        """Return the value of node ``index`` of a leaf, and set its size. Raises PageError if it is not valid."""
        cdef Py_ssize_t length = _read_u16(node) | <Py_ssize_t> _read_u16(node + 2) << 16
        cdef const uint8_t* value = node + _NODE_HEADER_SIZE + _read_u16(node + _NODE_KEY_SIZE)
        cdef const uint8_t* first
        cdef uint16_t flags = _read_u16(node + _NODE_FLAGS)
        cdef uint64_t number, pages
        cdef uint32_t run
        if flags & ~(_BIG | _TABLE) or flags == (_BIG | _TABLE):
            raise PageError(f"page {_read_u64(page)}: node {index} has invalid flags, {flags}")
        size[0] = length
        if value + (8 if flags & _BIG else length) > page + self._page_size:
            raise PageError(f"page {_read_u64(page)}: node {index} is not within the page")
        if not flags & _BIG:
            return value
        number, pages = _read_u64(value), (_HEADER_SIZE - 1 + length) // self._page_size + 1
        if number < _NUM_META_PAGES or number >= self._num_pages or number + pages > self._num_pages:
            raise PageError(f"page {number} is referred to, but the file has {self._num_pages} pages")
        first = self._base + number * self._page_size
        memcpy(&run, first + _PAGE_RUN, 4)
        if _read_u64(first) != number or _read_u16(first + _PAGE_FLAGS) != _OVERFLOW or run != pages:
            raise PageError(f"page {number} is overwritten: it is not the first of {pages} of a value")
        return first + _HEADER_SIZE

    cdef int _search(
        self, const uint8_t* page, const uint8_t* key, Py_ssize_t size, bint branch, bint* exact
    ) except -1:
        """Return the index of the first node of a leaf whose key is at least ``key``.

        In a branch page, return the index of the last node whose key is at most ``key``: the way to that leaf. Sets
        ``exact`` to True if a node has this key.
        """
        cdef int low = 1 if branch else 0
        cdef int high = _count_nodes(page), middle, order
        cdef const uint8_t* node
        exact[0] = False
        while low < high:
            middle = (low + high) >> 1
            node = self._get_node(page, middle)
            order = _compare_to_node(key, size, node)
            if order == 0:
                exact[0] = True
                return middle
            if order > 0:
                low = middle + 1
            else:
                high = middle
        return low - 1 if branch else low

    cdef const uint8_t* _find_stop(
        self, const uint8_t* page, int index, bint exact, const uint8_t* stop
    ) except? NULL:
        """Return the node whose key is the lowest that ends the range of keys that lead to the child at ``index``.

        :meth:`_search` found ``index``, and ``exact``, for the first key of the range. ``stop`` is the result for the
        pages above (NULL: no end), and is returned if its key is lower. The keys that the search compared are compared
        here again, and no others, so a search for any key of the range takes the same steps, even in a damaged page.
        """
        cdef int low = 1, high = _count_nodes(page), middle
        cdef const uint8_t* node
        if exact:  # for a greater key, the search compares other nodes
            return self._get_node(page, index)
        while low < high:
            middle = (low + high) >> 1
            if middle <= index:
                low = middle + 1
                continue
            high = middle
            node = self._get_node(page, middle)
            if stop == NULL or _compare_to_node(
                node + _NODE_HEADER_SIZE, _read_u16(node + _NODE_KEY_SIZE), stop
            ) < 0:
                stop = node
        return stop

    cdef uint64_t _get_child(self, const uint8_t* page, int index) except 0:
        """Return the number of the page that a node of a branch page leads to."""
        cdef const uint8_t* node = self._get_node(page, index)
        cdef uint64_t number = (
            _read_u16(node) | <uint64_t> _read_u16(node + 2) << 16 | <uint64_t> _read_u16(node + 4) << 32
        )
        if number < _NUM_META_PAGES:
            raise PageError(f"page {_read_u64(page)}: node {index} leads to an invalid page, {number}")
        return number


cdef class Tree:
    """One table, or the main tree, whose values are the records of the tables."""

    cdef Pages _pages
    cdef uint64_t _root
    cdef int _depth
    cdef uint64_t _num_branch_pages, _num_leaf_pages, _num_overflow_pages
    #: The number of records.
    cdef readonly uint64_t entries

    @property
    def statistics(self):
        """LMDB's counts of the pages and records of the tree, by LMDB's names."""
        return {
            "psize": self._pages._page_size,
            "depth": self._depth,
            "branch_pages": self._num_branch_pages,
            "leaf_pages": self._num_leaf_pages,
            "overflow_pages": self._num_overflow_pages,
            "entries": self.entries,
        }

    cdef const uint8_t* _descend(self, const uint8_t* key, Py_ssize_t size, const uint8_t** stop) except? NULL:
        """Return the leaf that can contain a key; NULL in an empty tree.

        Unless ``stop`` is NULL, sets it to a node of a branch page, or to NULL: every key from this one up to the key
        of that node, exclusive, leads to the leaf on the same path. If the node is NULL, every greater key does.
        """
        cdef int level, index
        cdef bint exact = False
        cdef uint64_t number = self._root
        cdef const uint8_t* page
        if not self._pages._is_open:
            raise PageError("the transaction is closed")
        if stop != NULL:
            stop[0] = NULL
        if number == _NO_PAGE:
            return NULL
        for level in range(1, self._depth):
            page = self._pages._get_page(number, _BRANCH)
            index = self._pages._search(page, key, size, True, &exact)
            if stop != NULL:
                stop[0] = self._pages._find_stop(page, index, exact, stop[0])
            number = self._pages._get_child(page, index)
        return self._pages._get_page(number, _LEAF)

    cdef const uint8_t* _find_leaf(self, const uint8_t* key, Py_ssize_t size, int* index) except? NULL:
        """Return the leaf that can contain a key, and set ``index`` to the key's node or -1; NULL in an empty tree."""
        cdef bint exact = False
        cdef const uint8_t* page = self._descend(key, size, NULL)
        if page == NULL:
            return NULL
        index[0] = self._pages._search(page, key, size, False, &exact)
        if not exact:
            index[0] = -1
        return page

    def get(self, bytes key not None):
        """Return the value for a key, or None."""
        cdef int index = -1
        cdef Py_ssize_t size = 0
        cdef const uint8_t* value
        cdef const uint8_t* page = self._find_leaf(
            <const uint8_t*> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), &index
        )
        if page == NULL or index < 0:
            return None
        value = self._pages._get_value(page, index, self._pages._get_node(page, index), &size)
        return PyMemoryView_FromMemory(<char*> value, size, PyBUF_READ)

    def get_many(self, list keys not None):
        """Return the value for each key, or None."""
        cdef bytes key
        return [self.get(key) for key in keys]

    def scan_prefixes(self, list prefixes not None, bint skip_damage=False):
        """Return for each prefix the list of the records (key, value) whose keys begin with it, in key order.

        With ``skip_damage``, damaged pages are skipped.
        """
        cdef Cursor cursor = Cursor(self, skip_damage)
        cdef bytes prefix
        return [cursor._list_records(prefix) for prefix in prefixes]

    def find_last(self, list ranges not None, bint skip_damage=False):
        """Return for each range (start, stop) the last record (key, value) with ``start <= key < stop``, or None.

        With ``skip_damage``, damaged pages are skipped.
        """
        cdef Cursor cursor = Cursor(self, skip_damage)
        cdef bytes start, stop, key
        cdef bint has_record
        records = []
        for start, stop in ranges:
            has_record = cursor._move(-1) if cursor.set_range(stop) else cursor._go_to_end(-1)
            key = cursor.key() if has_record else None
            records.append((key, cursor.value()) if has_record and key >= start else None)
        return records

    def cursor(self, bint skip_damage=False):
        """Create a cursor. With ``skip_damage`` it skips damaged pages and records the damage."""
        return Cursor(self, skip_damage)

    def verify_paths(self, list keys not None, bint siblings=False):
        """Verify the pages that lead to some keys, and their values; fastest if the keys are in order.

        With ``siblings``, also verify the pages that LMDB may merge with these when the keys are removed. Raises
        PageError for a damaged page; a missing key is not an error.
        """
        cdef const uint8_t* page = NULL
        cdef const uint8_t* stop = NULL
        cdef const uint8_t* key_bytes
        cdef Py_ssize_t size, value_size = 0
        cdef int index
        cdef bint exact = False
        cdef bytes key, last_key = b""
        for key in keys:
            key_bytes, size = <const uint8_t*> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
            if page == NULL or key < last_key or (stop != NULL and _compare_to_node(key_bytes, size, stop) >= 0):
                page = self._descend(key_bytes, size, &stop)
                if siblings:
                    self._verify_siblings(key)
            if page != NULL:
                index = self._pages._search(page, key_bytes, size, False, &exact)
                if exact:
                    self._pages._get_value(page, index, self._pages._get_node(page, index), &value_size)
            last_key = key

    cdef int _verify_siblings(self, bytes key) except -1:
        """Verify the pages before and after those that lead to a key, each down to its first leaf."""
        cdef int level, index, step
        cdef bint exact = False
        cdef uint64_t number = self._root
        cdef const uint8_t* page
        for level in range(1, self._depth):
            page = self._pages._get_page(number, _BRANCH)
            index = self._pages._search(
                page, <const uint8_t*> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), True, &exact
            )
            for step in range(-1, 2, 2):  # the siblings before and after
                if 0 <= index + step < _count_nodes(page):
                    self._verify_down_to_leaf(self._pages._get_child(page, index + step), level + 1)
            number = self._pages._get_child(page, index)
        return 0

    cdef int _verify_down_to_leaf(self, uint64_t number, int level) except -1:
        """Verify a page of a level and the pages from it down to its first leaf."""
        while level < self._depth:
            number = self._pages._get_child(self._pages._get_page(number, _BRANCH), 0)
            level += 1
        self._pages._get_page(number, _LEAF)
        return 0

    def verify_near(self, bytes key not None, bint forward=True):
        """Verify the leaf for a key, and the leaf after it or, if not ``forward``, before it.

        Returns the last key of the leaf for the key or, if not ``forward``, its first: from there, a cursor can move to
        the next record without reaching other pages. None if no leaf follows in this direction.
        """
        cdef Cursor cursor = Cursor(self, False)
        if not cursor._descend_to(<const uint8_t*> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)):
            return None
        cursor._indexes[cursor._leaf_level] = _count_nodes(cursor._path[cursor._leaf_level]) - 1 if forward else 0
        limit = cursor.key()
        return limit if cursor._move(1 if forward else -1) else None

    def verify_around(self, list keys not None):
        """Verify the leaf for each key, and the leaves before and after it.

        A cursor can then move to the first record at or above a key, and from there to the previous record.
        """
        cdef Cursor cursor = Cursor(self, False)
        cdef const uint8_t* page = NULL
        cdef bytes key
        for key in keys:
            if not cursor._descend_to(<const uint8_t*> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)):
                return
            if cursor._path[cursor._leaf_level] != page:
                page = cursor._path[cursor._leaf_level]
                self.verify_near(key, True)
                self.verify_near(key, False)

    def verify(self):
        """Verify the pages that LMDB reads when it clears the table.

        These are the branch pages and, only if the tree has overflow pages, the leaves and overflow pages.
        """
        if self._root != _NO_PAGE:
            self._verify_below(self._root, 1)

    cdef int _verify_below(self, uint64_t number, int level) except -1:
        """Verify a page of a level (1 is the root's), and the pages below it.

        Of a leaf, only the long values in overflow pages are verified.
        """
        cdef const uint8_t* page
        cdef Py_ssize_t size = 0
        cdef int index
        if number >= self._pages._num_pages:
            raise PageError(f"page {number} is referred to, but the file has {self._pages._num_pages} pages")
        if level == self._depth and not self._num_overflow_pages:
            return 0  # no leaf has a value in overflow pages, so the leaf need not be read
        page = self._pages._get_page(number, _LEAF if level == self._depth else _BRANCH)
        for index in range(_count_nodes(page)):
            if level == self._depth:
                self._pages._get_value(page, index, self._pages._get_node(page, index), &size)
            else:
                self._verify_below(self._pages._get_child(page, index), level + 1)
        return 0


cdef Tree _make_tree(Pages pages, const uint8_t* record):
    """Create the tree that a record of 48 bytes describes."""
    cdef Tree tree = Tree.__new__(Tree)
    tree._pages = pages
    # The offsets of the fields of LMDB's ``MDB_db``.
    tree._depth = _read_u16(record + 6)
    tree._num_branch_pages, tree._num_leaf_pages = _read_u64(record + 8), _read_u64(record + 16)
    tree._num_overflow_pages = _read_u64(record + 24)
    tree.entries = _read_u64(record + 32)
    tree._root = _read_u64(record + 40)
    if tree._root == _NO_PAGE:
        tree._depth = 0
    elif not 0 < tree._depth <= _MAX_DEPTH:
        raise PageError(f"a table has an invalid depth, {tree._depth}")
    return tree


cdef class Cursor:
    """A position in a tree, which moves from record to record."""

    cdef Tree _tree
    cdef Pages _pages
    cdef bint _skip_damage
    cdef bint _is_placed
    cdef int _leaf_level
    cdef const uint8_t* _path[_MAX_DEPTH]
    cdef int _indexes[_MAX_DEPTH]
    #: Descriptions of the damage that was skipped.
    cdef readonly list damage

    def __init__(self, Tree tree not None, bint skip_damage):
        """Place the cursor on no record. With ``skip_damage``, it skips damaged pages and lists the damage."""
        self._tree = tree
        self._pages = tree._pages
        self._skip_damage = skip_damage
        self._is_placed = False
        self._leaf_level = tree._depth - 1
        self.damage = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Do nothing: LMDB's cursors, which have the same methods, must be closed."""

    def __iter__(self):
        self._go_to_end(1)
        return Records(self, 1)

    cdef bint _is_empty(self) except -1:
        """True if the tree has no page; raises PageError if the transaction is closed."""
        if not self._pages._is_open:
            raise PageError("the transaction is closed")
        return self._tree._root == _NO_PAGE

    cdef bint _enter_page(self, int level, uint64_t number) except -1:
        """Make a page the cursor's page at a level of the tree; return False if the page is damaged and skipped."""
        try:
            self._path[level] = self._pages._get_page(number, _LEAF if level == self._leaf_level else _BRANCH)
        except PageError as error:
            if not self._skip_damage or not self._pages._is_open:
                raise
            self.damage.append(str(error))
            return False
        return True

    cdef bint _enter_child(self, int level) except -1:
        """Make the child of the current node at a level the cursor's page below; False if it is damaged and skipped."""
        cdef uint64_t number
        try:
            number = self._pages._get_child(self._path[level], self._indexes[level])
        except PageError as error:
            if not self._skip_damage:
                raise
            self.damage.append(str(error))
            return False
        return self._enter_page(level + 1, number)

    cdef bint _descend(self, int level, int step) except -1:
        """Go to the first leaf below the current node at a level, or to the last one if ``step`` is -1.

        Skips damaged pages. Returns False if no leaf is left.
        """
        while level < self._leaf_level:
            if self._enter_child(level):
                level += 1
                self._indexes[level] = 0 if step > 0 else _count_nodes(self._path[level]) - 1
                continue
            while True:  # to the next node, in a page above if this page has none
                self._indexes[level] += step
                if 0 <= self._indexes[level] < _count_nodes(self._path[level]):
                    break
                level -= 1
                if level < 0:
                    return False
        return True

    cdef bint _move(self, int step) except -1:
        """Go to the next record, or to the previous one if ``step`` is -1; False if there are no more."""
        if not self._pages._is_open:
            raise PageError("the transaction is closed")
        self._is_placed = self._move_from(self._leaf_level, step)
        return self._is_placed

    cdef bint _move_from(self, int level, int step) except -1:
        """Move past the current node at a level and everything below it, in the direction of ``step``.

        Returns False at the end.
        """
        while level >= 0:
            self._indexes[level] += step
            if 0 <= self._indexes[level] < _count_nodes(self._path[level]):
                return self._descend(level, step)
            level -= 1
        return False

    cdef bint _go_to_end(self, int step) except -1:
        """Go to the first record, or to the last one if ``step`` is negative; False without records."""
        self._is_placed = False
        if self._is_empty() or not self._enter_page(0, self._tree._root):
            return False
        self._indexes[0] = 0 if step > 0 else _count_nodes(self._path[0]) - 1
        self._is_placed = self._descend(0, step)
        return self._is_placed

    cdef bint _descend_to(self, const uint8_t* key, Py_ssize_t size) except -1:
        """Go to the leaf in which a key belongs, at its first record that is not below the key, or past the last.

        Returns False if the tree is empty, or if damage leaves no leaf.
        """
        cdef int level
        cdef bint exact = False
        self._is_placed = False
        if self._is_empty() or not self._enter_page(0, self._tree._root):
            return False
        for level in range(self._leaf_level):
            self._indexes[level] = self._pages._search(self._path[level], key, size, True, &exact)
            if not self._enter_child(level):  # records after the damage are not below the key
                self._is_placed = self._move_from(level, 1)
                return self._is_placed
        self._indexes[self._leaf_level] = self._pages._search(self._path[self._leaf_level], key, size, False, &exact)
        self._is_placed = True
        return True

    def first(self):
        """Go to the first record; False in an empty tree."""
        return self._go_to_end(1)

    def last(self):
        """Go to the last record; False in an empty tree."""
        return self._go_to_end(-1)

    cpdef bint set_range(self, bytes key) except -1:
        """Go to the first record whose key is not below a key; False at the end."""
        if not self._descend_to(<const uint8_t*> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)):
            return False
        if self._indexes[self._leaf_level] == _count_nodes(self._path[self._leaf_level]):
            self._indexes[self._leaf_level] -= 1
            return self._move(1)
        return True

    cdef list _list_records(self, bytes prefix):
        """Return the records whose keys begin with a prefix, in key order."""
        cdef list records = []
        cdef const uint8_t* node
        cdef const uint8_t* key
        cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
        cdef bint placed = self.set_range(prefix)
        while placed:
            node = self._pages._get_node(self._path[self._leaf_level], self._indexes[self._leaf_level])
            key = node + _NODE_HEADER_SIZE
            if _read_u16(node + _NODE_KEY_SIZE) < size or memcmp(key, PyBytes_AS_STRING(prefix), size):
                break
            records.append((self.key(), self.value()))
            placed = self._move(1)
        return records

    def next(self):
        """Go to the next record; False at the end."""
        return self._is_placed and self._move(1)

    def prev(self):
        """Go to the previous record; False at the beginning."""
        return self._is_placed and self._move(-1)

    def get(self, bytes key not None):
        """Return the value for a key, or None."""
        return self._tree.get(key)

    cpdef key(self):
        """Return the key of the record."""
        if not self._is_placed or not self._pages._is_open:
            raise PageError("the cursor is at no record, or its transaction is closed")
        cdef const uint8_t* node = self._pages._get_node(self._path[self._leaf_level], self._indexes[self._leaf_level])
        return PyBytes_FromStringAndSize(<const char*> node + _NODE_HEADER_SIZE, _read_u16(node + _NODE_KEY_SIZE))

    cpdef value(self):
        """Return the value of the record; empty if the value is damaged and the cursor skips damage."""
        cdef Py_ssize_t size = 0
        cdef const uint8_t* page
        cdef const uint8_t* node
        cdef const uint8_t* value
        if not self._is_placed or not self._pages._is_open:
            raise PageError("the cursor is at no record, or its transaction is closed")
        page = self._path[self._leaf_level]
        try:
            node = self._pages._get_node(page, self._indexes[self._leaf_level])
            value = self._pages._get_value(page, self._indexes[self._leaf_level], node, &size)
        except PageError:
            if not self._skip_damage:
                raise
            return memoryview(b"")
        return PyMemoryView_FromMemory(<char*> value, size, PyBUF_READ)

    def iternext(self):
        """Iterate over the records from this one on."""
        return Records(self, 1)

    def iterprev(self):
        """Iterate over the records from this one backward."""
        return Records(self, -1)


cdef class Records:
    """An iterator over records, as pairs of key and value, from the position of a cursor on; it moves the cursor."""

    cdef Cursor _cursor
    cdef int _step
    cdef bint _has_begun

    def __init__(self, Cursor cursor not None, int step):
        """Begin at the cursor's record; ``step`` is 1 to go forward, -1 to go backward."""
        self._cursor = cursor
        self._step = step
        self._has_begun = False

    def __iter__(self):
        return self

    def __next__(self):
        if not self._cursor._is_placed or (self._has_begun and not self._cursor._move(self._step)):
            raise StopIteration
        self._has_begun = True
        return self._cursor.key(), self._cursor.value()


def verify_free_list(Pages pages not None):
    """Verify the list of free pages. LMDB reuses them without reading them, so a wrong entry overwrites used pages."""
    cdef const uint8_t* meta = pages._base + (pages.change & 1) * pages._page_size + _HEADER_SIZE
    cdef Tree tree = _make_tree(pages, meta + _META_FREE_LIST)
    cdef Cursor cursor = Cursor(tree, False)
    cdef bytearray listed = bytearray(pages._num_pages // 8 + 1)  # one bit for each page of the file
    cdef uint8_t* marks = listed
    cdef const uint8_t* page
    cdef const uint8_t* numbers
    cdef Py_ssize_t size = 0, index
    cdef uint64_t number, previous
    cdef bint has_record = cursor.first()
    while has_record:
        page = cursor._path[cursor._leaf_level]
        index = cursor._indexes[cursor._leaf_level]
        numbers = pages._get_value(page, <int> index, pages._get_node(page, <int> index), &size)
        # A record of the list is a count, followed by that many page numbers in descending order.
        if size < 8 or size % 8 or _read_u64(numbers) != <uint64_t> size // 8 - 1:
            raise PageError("the list of free pages is damaged")
        previous = pages._num_pages
        for index in range(1, size // 8):
            number = _read_u64(numbers + 8 * index)
            if number < _NUM_META_PAGES or number >= previous or marks[number >> 3] >> (number & 7) & 1:
                raise PageError(f"the list of free pages is damaged at page {number}")
            marks[number >> 3] |= 1 << (number & 7)
            previous = number
        has_record = cursor._move(1)
