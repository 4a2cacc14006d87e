# Where known names occur in a text.
#
# The text is UTF-8 in normal form, white space kept. A word is a maximal run of letters, digits and underscores with
# the combining marks that follow them; any other character but white space is a token by itself. A name occurs where
# tokens equal its key, a run of white space counting as one space and a run with two line ends as a barrier. The tokens
# are copied with that spacing into one buffer, where the hash of any run of them follows from the polynomials at its
# two ends.

cdef extern from "Python.h":
    bint Py_UNICODE_ISALNUM(uint32_t ch) noexcept nogil
    bint Py_UNICODE_ISSPACE(uint32_t ch) noexcept nogil

cdef extern from "string.h":
    void* memmem(const void* text, size_t size, const void* wanted, size_t length) noexcept nogil

cdef enum:
    _SPACE = 0
    _PUNCTUATION = 1
    _WORD = 2
    _MARK = 3
    _PUNCTUATION_LIMIT = 16   # punctuation tokens within one name
    _MARKS_BELOW = 0x1F000
    _MARK_BYTES = 0x3E00
    _MARKS_FROM = 0xE0100     # variation selectors, the only marks further up
    _MARKS_TO = 0xE01EF

cdef struct Token:
    uint32_t start            # in the copy
    uint32_t end
    uint64_t source_start     # in the text
    uint64_t source_end
    uint64_t before           # the polynomial up to its start and to its end
    uint64_t after
    bint word
    bint barrier              # a barrier stands before it

cdef uint8_t _marks[_MARK_BYTES]
cdef bint _marks_known = False


cdef int _learn_marks() except -1:
    """Note which characters are combining marks, as this interpreter's Unicode database has it."""
    global _marks_known
    cdef uint32_t ch
    for ch in range(0x300, <uint32_t> _MARKS_BELOW):
        if category(chr(ch))[0] == "M":
            _marks[ch >> 3] |= 1 << (ch & 7)
    _marks_known = True
    return 0


cdef inline int _kind(uint32_t ch) noexcept nogil:
    if ch < 128:
        if ch == 32 or 9 <= ch <= 13 or 28 <= ch <= 31:
            return _SPACE
        return _WORD if 97 <= ch <= 122 or 48 <= ch <= 57 or 65 <= ch <= 90 or ch == 95 else _PUNCTUATION
    if Py_UNICODE_ISALNUM(ch):
        return _WORD
    if Py_UNICODE_ISSPACE(ch):
        return _SPACE
    if ch < _MARKS_BELOW:
        return _MARK if _marks[ch >> 3] >> (ch & 7) & 1 else _PUNCTUATION
    return _MARK if _MARKS_FROM <= ch <= _MARKS_TO else _PUNCTUATION


cdef inline uint32_t _decode(const uint8_t* data, size_t n, size_t* size) noexcept nogil:
    """The character at ``data`` and its length in bytes; a byte that is no UTF-8 counts as one unknown character."""
    cdef uint32_t ch = data[0]
    cdef size_t k
    if ch < 0x80:
        size[0] = 1
        return ch
    size[0] = 2 if ch < 0xE0 else 3 if ch < 0xF0 else 4
    if ch < 0xC0 or size[0] > n:
        size[0] = 1
        return 0xFFFD
    for k in range(1, size[0]):
        if data[k] & 0xC0 != 0x80:
            size[0] = 1
            return 0xFFFD
    if size[0] == 2:
        return (ch & 0x1F) << 6 | (data[1] & 0x3F)
    if size[0] == 3:
        return (ch & 0x0F) << 12 | (data[1] & 0x3F) << 6 | (data[2] & 0x3F)
    return (ch & 0x07) << 18 | (data[1] & 0x3F) << 12 | (data[2] & 0x3F) << 6 | (data[3] & 0x3F)


cdef int _tokenise(
    const uint8_t* data, size_t n, NameHash hasher, vector[Token]& tokens, vector[uint8_t]& copy
) except -1 nogil:
    """The tokens of a text, and their copy with single spaces, "\\n" for a barrier; no sums without ``hasher``."""
    cdef size_t at = 0, size, line_ends = 0
    cdef bint spaced = False
    cdef int kind
    cdef Token token
    cdef uint64_t total = 0
    cdef uint8_t separator
    copy.reserve(n + 8)
    tokens.reserve(n // 5 + 8)
    while at < n:
        kind = _kind(_decode(data + at, n - at, &size))
        if kind == _SPACE:
            spaced = True
            line_ends += data[at] == 10
            at += size
            continue
        token.barrier = line_ends > 1
        if spaced and tokens.size():
            separator = 10 if token.barrier else 32
            copy.push_back(separator)
            if hasher is not None:
                total = kv_append(total, &separator, 1, hasher.powers)
        spaced, line_ends = False, 0
        token.word = kind == _WORD
        token.source_start = at
        token.start = <uint32_t> copy.size()
        token.before = total
        at += size
        if token.word:
            while at < n:
                kind = _kind(_decode(data + at, n - at, &size))
                if kind < _WORD:
                    break
                at += size
        copy.insert(copy.end(), data + token.source_start, data + at)
        if hasher is not None:
            total = kv_append(total, data + token.source_start, at - token.source_start, hasher.powers)
        token.after = total
        token.end = <uint32_t> copy.size()
        token.source_end = at
        tokens.push_back(token)
    return 0


cdef int _begin(bytes data) except -1:
    if len(data) > 0xFFFFFFF0:
        raise ValueError("a text is at most 4 GiB")
    if not _marks_known and not data.isascii():
        _learn_marks()
    return 0


cdef struct Match:
    int64_t start             # in the text
    int64_t end
    uint32_t entity
    bint worded               # a word is in it


cdef int _recognise(EntityIndex index, bytes data, int max_words, vector[Match]& matches) except -1:
    """Every occurrence of a known name of at most ``max_words`` words (and 16 punctuation marks), in order of start and
    end."""
    cdef const uint8_t* text = data
    cdef size_t n = len(data), i, j
    cdef vector[Token] tokens
    cdef vector[uint8_t] copy
    cdef Query queries[_BATCH]
    cdef Match waiting[_BATCH]
    cdef int count = 0, words, marks
    cdef uint32_t length
    _begin(data)
    with nogil:
        _tokenise(text, n, index.hasher, tokens, copy)
        for i in range(tokens.size()):
            words = marks = 0
            j = i
            while j < tokens.size():
                if j > i and tokens[j].barrier:
                    break
                if tokens[j].word:
                    words += 1
                else:
                    marks += 1
                length = tokens[j].end - tokens[i].start
                if words > max_words or marks > _PUNCTUATION_LIMIT or length > _KEY_BYTES:
                    break
                queries[count].key = copy.data() + tokens[i].start
                queries[count].length = length
                queries[count].hash = index.hasher.between(tokens[i].before, tokens[j].after, length)
                waiting[count].start, waiting[count].end = tokens[i].source_start, tokens[j].source_end
                waiting[count].worded = words > 0
                count += 1
                if count == _BATCH:
                    _collect(index, queries, waiting, count, matches)
                    count = 0
                j += 1
        _collect(index, queries, waiting, count, matches)
    return 0


cdef int _collect(EntityIndex index, Query* queries, Match* waiting, int n, vector[Match]& matches) except -1 nogil:
    cdef int k
    answer(index, queries, n)
    for k in range(n):
        if queries[k].record != NULL:
            waiting[k].entity = kv_get32(queries[k].record + _R_ENTITY)
            matches.push_back(waiting[k])
    return 0


def recognise(EntityIndex index not None, bytes data not None, int max_words) -> tuple:
    """Every occurrence of a known name of at most ``max_words`` words (and 16 punctuation marks) in a text.

    Returns the bytes of three arrays, in order of start and end: starts and ends (int64, offsets in ``data``) and
    entities (uint32).
    """
    cdef vector[Match] matches
    cdef size_t i
    cdef vector[int64_t] starts, ends
    cdef vector[uint32_t] entities
    _recognise(index, data, max_words, matches)
    for i in range(matches.size()):
        starts.push_back(matches[i].start)
        ends.push_back(matches[i].end)
        entities.push_back(matches[i].entity)
    return (
        PyBytes_FromStringAndSize(<const char*> starts.data(), 8 * starts.size()),
        PyBytes_FromStringAndSize(<const char*> ends.data(), 8 * ends.size()),
        PyBytes_FromStringAndSize(<const char*> entities.data(), 4 * entities.size()),
    )


def mentions(
    EntityIndex index not None, bytes data not None, const uint64_t[::1] offsets, int max_words, kind not None,
    dict keys not None,
) -> list:
    """As ``recognise``, for names with a word in them: a ``kind`` (a tuple of entity, start and length) for each, and
    the normal forms of the entities that ``keys`` does not know put into it.

    ``offsets`` say where each byte of ``data`` begins in another text, which starts and lengths are then of (None: of
    ``data``).
    """
    cdef vector[Match] matches
    cdef size_t i
    cdef int64_t start, end
    cdef const uint8_t* text = data
    _recognise(index, data, max_words, matches)
    found = []
    made = tuple.__new__
    for i in range(matches.size()):
        if not matches[i].worded:
            continue
        start, end = matches[i].start, matches[i].end
        entity = matches[i].entity
        if entity not in keys:
            key = PyUnicode_DecodeUTF8(<const char*> text + start, end - start, NULL)
            keys[entity] = " ".join(key.split())
        if offsets is not None:
            start, end = offsets[start], offsets[end]
        found.append(made(kind, (entity, start, end - start)))
    return found


cdef struct Sought:
    const uint8_t* key
    size_t length
    size_t token              # where its longest token begins, and how long that is
    size_t token_length


cdef bint _may_be_found(bytes key, int max_words, Sought* sought) except -1:
    """Whether a key can occur anywhere: as ``recognise`` finds names, of at most ``max_words`` words (0: any number)."""
    cdef size_t i, longest_token = 0
    cdef int words = 0, marks = 0
    cdef vector[Token] tokens
    cdef vector[uint8_t] copy
    sought.key, sought.length = key, len(key)
    _begin(key)
    if not 0 < sought.length <= _KEY_BYTES:
        return False
    _tokenise(sought.key, sought.length, None, tokens, copy)
    for i in range(tokens.size()):
        words += tokens[i].word
        marks += not tokens[i].word
        if tokens[i].end - tokens[i].start > tokens[longest_token].end - tokens[longest_token].start:
            longest_token = i
    if copy.size() != sought.length or (max_words and words > max_words) or marks > _PUNCTUATION_LIMIT:
        return False
    sought.token = tokens[longest_token].start
    sought.token_length = tokens[longest_token].end - tokens[longest_token].start
    return True


cdef class _SearchedText:
    """A text that keys are looked for in; it is cut into tokens when that is first needed."""

    cdef bytes data
    cdef bint read
    cdef vector[Token] tokens
    cdef vector[uint8_t] copy

    def __cinit__(self, bytes data not None):
        _begin(data)
        self.data, self.read = data, False

    cdef bint has(self, const Sought* sought) except -1:
        """Whether a key may occur here. Most texts that are searched lack the name: one search for its longest token
        tells, and costs next to nothing."""
        cdef const uint8_t* text = self.data
        return memmem(text, len(self.data), sought.key + sought.token, sought.token_length) != NULL

    cdef bint next(self, const Sought* sought, size_t* first, size_t* last) except -1:
        """Move on from token ``first`` to the next place of a key: its first and last token; False for none."""
        cdef size_t i
        if not self.read:
            self.read = True
            _tokenise(<const uint8_t*> self.data, len(self.data), None, self.tokens, self.copy)
        for i in range(first[0], self.tokens.size()):
            if self.tokens[i].start + sought.length > self.copy.size():
                break
            if self.copy[self.tokens[i].start] != sought.key[0]:
                continue
            if memcmp(self.copy.data() + self.tokens[i].start, sought.key, sought.length):
                continue
            # A key holds no barrier, so a match crosses none; it must end where a token does.
            first[0] = last[0] = i
            while self.tokens[last[0]].end < self.tokens[i].start + sought.length:
                last[0] += 1
            if self.tokens[last[0]].end == self.tokens[i].start + sought.length:
                return True
        return False


cdef class SoughtKeys:
    """Some keys that are looked for in many texts, in each a few of them, by their numbers.

    A key of more than ``max_words`` words (0: any number) or of more than 16 punctuation marks occurs nowhere.
    """

    cdef list _keys
    cdef vector[Sought] _sought

    def __init__(self, list keys not None, int max_words=0):
        cdef Sought sought
        cdef bytes key
        self._keys = keys[:]  # which hold the bytes
        for key in self._keys:
            if key is None:
                raise TypeError("a key is bytes")
            if not _may_be_found(key, max_words, &sought):
                sought.length = 0
            self._sought.push_back(sought)

    def places(self, bytes data not None, list numbers not None) -> list:
        """Every place in a text where one of some keys occurs: the number of the key, start and end, key by key."""
        cdef _SearchedText text = _SearchedText(data)
        cdef Sought* sought
        cdef size_t first, last
        found = []
        for number in numbers:
            if not 0 <= number < <Py_ssize_t> self._sought.size():
                raise IndexError(number)
            sought = &self._sought[<size_t> number]
            if not sought.length or not text.has(sought):
                continue
            first = 0
            while text.next(sought, &first, &last):
                found.append((number, text.tokens[first].source_start, text.tokens[last].source_end))
                first += 1
        return found


def occurrences(bytes data not None, bytes key not None, int max_words=0) -> list:
    """Every place (start, end) in a text where one key occurs, as ``recognise`` would find it.

    A key of more than ``max_words`` words (0: any number) or of more than 16 punctuation marks occurs nowhere.
    """
    return [(start, end) for _, start, end in SoughtKeys([key], max_words).places(data, [0])]


def occurring_keys(bytes data not None, list keys not None, int max_words=0) -> list:
    """Those of some keys that occur in a text, as ``occurrences`` finds them; the text is read once for all."""
    cdef _SearchedText text = _SearchedText(data)
    cdef Sought sought
    cdef size_t first, last
    cdef bytes key
    found = []
    for key in keys:
        first = 0
        if key is None or not _may_be_found(key, max_words, &sought) or not text.has(&sought):
            continue
        if text.next(&sought, &first, &last):
            found.append(key)
    return found


def longest(const int64_t[::1] starts not None, const int64_t[::1] ends not None) -> list:
    """Positions of the matches that remain when, from left to right, the longest of those that begin first is taken.

    The matches are in order of start and end; raises ValueError where not each has both.
    """
    cdef Py_ssize_t i, best = -1, n = starts.shape[0]
    if ends.shape[0] != n:
        raise ValueError(f"{n} matches begin, and {ends.shape[0]} end")
    cdef int64_t taken = 0
    result = []
    for i in range(n):
        if starts[i] < taken:
            continue
        if best >= 0 and starts[i] == starts[best]:
            best = i
            continue
        if best >= 0:
            result.append(best)
            taken = ends[best]
            best = -1
            if starts[i] < taken:
                continue
        best = i
    if best >= 0:
        result.append(best)
    return result
