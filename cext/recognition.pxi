# Occurrences of known names in a text.
#
# The text is normalized UTF-8 with its white space. A word is a maximal run of letters, digits and underscores with
# the combining marks that follow them. Any other character except white space is a token by itself. A name occurs if
# tokens equal its key, where a run of white space counts as one space, and a run with two line ends is a barrier. The
# tokens are copied with that spacing into one buffer. The hash of any run of tokens follows from the polynomials at its
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
    _PUNCTUATION_LIMIT = 16   # most punctuation tokens in one name
    _END_OF_LOWER_MARKS = 0x1F000
    _MARK_BYTES = 0x3E00
    _FIRST_UPPER_MARK = 0xE0100     # variation selectors, the only marks above
    _LAST_UPPER_MARK = 0xE01EF

cdef struct Token:
    uint32_t start            # in the copy
    uint32_t end
    uint64_t source_start     # in the text
    uint64_t source_end
    uint64_t before           # the polynomials up to its start and its end
    uint64_t after
    bint word
    bint barrier              # a barrier precedes it

cdef uint8_t _marks[_MARK_BYTES]
cdef bint _marks_loaded = False


cdef int _load_marks() except -1:
    """Load the table of combining marks from the Unicode database of this interpreter."""
    global _marks_loaded
    cdef uint32_t ch
    for ch in range(0x300, <uint32_t> _END_OF_LOWER_MARKS):
        if category(chr(ch))[0] == "M":
            _marks[ch >> 3] |= 1 << (ch & 7)
    _marks_loaded = True
    return 0


cdef inline int _classify_character(uint32_t ch) noexcept nogil:
    """Return the class of a character: space, word character, mark or punctuation."""
    if ch < 128:
        if ch == 32 or 9 <= ch <= 13 or 28 <= ch <= 31:
            return _SPACE
        return _WORD if 97 <= ch <= 122 or 48 <= ch <= 57 or 65 <= ch <= 90 or ch == 95 else _PUNCTUATION
    if Py_UNICODE_ISALNUM(ch):
        return _WORD
    if Py_UNICODE_ISSPACE(ch):
        return _SPACE
    if ch < _END_OF_LOWER_MARKS:
        return _MARK if _marks[ch >> 3] >> (ch & 7) & 1 else _PUNCTUATION
    return _MARK if _FIRST_UPPER_MARK <= ch <= _LAST_UPPER_MARK else _PUNCTUATION


cdef inline uint32_t _decode_character(const uint8_t* data, size_t n, size_t* size) noexcept nogil:
    """Return the character at ``data``, of ``n`` bytes, and set its ``size`` in bytes; U+FFFD for an invalid byte."""
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


cdef int _tokenize(
    const uint8_t* data, size_t n, NameHash hasher, vector[Token]& tokens, vector[uint8_t]& copy
) except -1 nogil:
    """Split a text into ``tokens`` (words and marks), and copy it to ``copy`` with single spaces.

    White space with two line ends is a barrier, which no name crosses, and becomes "\\n". ``hasher`` computes the
    polynomials, from which hashes of runs of tokens follow; without it, they are 0.
    """
    cdef size_t position = 0, size, line_ends = 0
    cdef bint has_space = False
    cdef int kind
    cdef Token token
    cdef uint64_t total = 0
    cdef uint8_t separator
    copy.reserve(n + 8)
    tokens.reserve(n // 5 + 8)
    while position < n:
        kind = _classify_character(_decode_character(data + position, n - position, &size))
        if kind == _SPACE:
            has_space = True
            line_ends += data[position] == 10
            position += size
            continue
        token.barrier = line_ends > 1
        if has_space and tokens.size():
            separator = 10 if token.barrier else 32
            copy.push_back(separator)
            if hasher is not None:
                total = kv_append(total, &separator, 1, hasher.powers)
        has_space, line_ends = False, 0
        token.word = kind == _WORD
        token.source_start = position
        token.start = <uint32_t> copy.size()
        token.before = total
        position += size
        if token.word:
            while position < n:
                kind = _classify_character(_decode_character(data + position, n - position, &size))
                if kind < _WORD:
                    break
                position += size
        copy.insert(copy.end(), data + token.source_start, data + position)
        if hasher is not None:
            total = kv_append(total, data + token.source_start, position - token.source_start, hasher.powers)
        token.after = total
        token.end = <uint32_t> copy.size()
        token.source_end = position
        tokens.push_back(token)
    return 0


cdef int _prepare_text(bytes data) except -1:
    """Check the size of a text, and load the table of combining marks if the text can contain some."""
    if len(data) > 0xFFFFFFF0:
        raise ValueError("a text has at most 4 GiB")
    if not _marks_loaded and not data.isascii():
        _load_marks()
    return 0


cdef struct Match:
    int64_t start             # in the text
    int64_t end
    uint32_t entity
    bint has_word               # it contains a word


cdef int _recognize(EntityIndex index, bytes data, int max_words, vector[Match]& matches) except -1:
    """Append the occurrences of known names in a text, of at most ``max_words`` words, to ``matches``, in order."""
    cdef const uint8_t* text = data
    cdef size_t n = len(data), i, j
    cdef vector[Token] tokens
    cdef vector[uint8_t] copy
    cdef Query queries[_BATCH]
    cdef Match batch[_BATCH]
    cdef int count = 0, num_words, num_marks
    cdef uint32_t length
    _prepare_text(data)
    with nogil:
        _tokenize(text, n, index.hasher, tokens, copy)
        for i in range(tokens.size()):
            num_words = num_marks = 0
            j = i
            while j < tokens.size():
                if j > i and tokens[j].barrier:
                    break
                if tokens[j].word:
                    num_words += 1
                else:
                    num_marks += 1
                length = tokens[j].end - tokens[i].start
                if num_words > max_words or num_marks > _PUNCTUATION_LIMIT or length > _KEY_BYTES:
                    break
                queries[count].key = copy.data() + tokens[i].start
                queries[count].length = length
                queries[count].hash = index.hasher.hash_between(tokens[i].before, tokens[j].after, length)
                batch[count].start, batch[count].end = tokens[i].source_start, tokens[j].source_end
                batch[count].has_word = num_words > 0
                count += 1
                if count == _BATCH:
                    _collect_matches(index, queries, batch, count, matches)
                    count = 0
                j += 1
        _collect_matches(index, queries, batch, count, matches)
    return 0


cdef int _collect_matches(
    EntityIndex index, Query* queries, Match* batch, int n, vector[Match]& matches
) except -1 nogil:
    """Look up ``n`` runs of tokens (``queries``, ``batch``), and append those that are names to ``matches``."""
    cdef int k
    find_records(index, queries, n)
    for k in range(n):
        if queries[k].record != NULL:
            batch[k].entity = kv_get32(queries[k].record + _R_ENTITY)
            matches.push_back(batch[k])
    return 0


def recognize(EntityIndex index not None, bytes data not None, int max_words) -> tuple:
    """Return all occurrences of known names in a text: starts, ends and entities, in order of start and end.

    A name has at most ``max_words`` words and 16 punctuation marks. Starts and ends are offsets in ``data``, packed as
    i64; entities are packed as u32.
    """
    cdef vector[Match] matches
    cdef size_t i
    cdef vector[int64_t] starts, ends
    cdef vector[uint32_t] entities
    _recognize(index, data, max_words, matches)
    for i in range(matches.size()):
        starts.push_back(matches[i].start)
        ends.push_back(matches[i].end)
        entities.push_back(matches[i].entity)
    return (
        PyBytes_FromStringAndSize(<const char*> starts.data(), 8 * starts.size()),
        PyBytes_FromStringAndSize(<const char*> ends.data(), 8 * ends.size()),
        PyBytes_FromStringAndSize(<const char*> entities.data(), 4 * entities.size()),
    )


def find_mentions(
    EntityIndex index not None, bytes data not None, const uint64_t[::1] offsets, int max_words, kind not None,
    dict keys not None,
) -> list:
    """Return the occurrences of known names in a text, as tuples (entity, start, length), by start and end.

    Names that consist only of punctuation marks are left out. ``data`` is the text in normal form. ``kind`` is the
    class of the tuples. The normal forms of their entities are added to ``keys``. ``offsets`` maps each byte of
    ``data``, and its end, to its offset in another text; the last offset is the greatest. Starts and lengths then refer
    to that text (None: to ``data``).
    """
    cdef vector[Match] matches
    cdef size_t i
    cdef int64_t start, end
    cdef const uint8_t* text = data
    _recognize(index, data, max_words, matches)
    results = []
    make_tuple = tuple.__new__
    for i in range(matches.size()):
        if not matches[i].has_word:
            continue
        start, end = matches[i].start, matches[i].end
        entity = matches[i].entity
        if entity not in keys:
            key = PyUnicode_DecodeUTF8(<const char*> text + start, end - start, NULL)
            keys[entity] = " ".join(key.split())
        if offsets is not None:
            while offsets[end] == offsets[start]:  # a part of a character that has several in ``data``
                end += 1
            start, end = offsets[start], offsets[end]
        results.append(make_tuple(kind, (entity, start, end - start)))
    return results


cdef struct SearchKey:
    const uint8_t* key
    size_t length
    size_t token              # the start and length of its longest token
    size_t token_length


cdef bint _can_occur(bytes key, int max_words, SearchKey* search_key) except -1:
    """Prepare the search for a key, the normal form of a name: set ``search_key`` to its bytes and its longest token.

    Returns False if the key can never occur: it is not in normal form, too long, or has more than ``max_words`` words
    (0: any number) or 16 punctuation marks.
    """
    cdef size_t i, longest_token = 0
    cdef int num_words = 0, num_marks = 0
    cdef vector[Token] tokens
    cdef vector[uint8_t] copy
    search_key.key, search_key.length = key, len(key)
    _prepare_text(key)
    if not 0 < search_key.length <= _KEY_BYTES:
        return False
    _tokenize(search_key.key, search_key.length, None, tokens, copy)
    for i in range(tokens.size()):
        num_words += tokens[i].word
        num_marks += not tokens[i].word
        if tokens[i].end - tokens[i].start > tokens[longest_token].end - tokens[longest_token].start:
            longest_token = i
    if copy.size() != search_key.length or (max_words and num_words > max_words) or num_marks > _PUNCTUATION_LIMIT:
        return False
    search_key.token = tokens[longest_token].start
    search_key.token_length = tokens[longest_token].end - tokens[longest_token].start
    return True


cdef inline bint _is_ascii_space(uint8_t byte) noexcept:
    """True if a byte is white space in ASCII."""
    return byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31


cdef bint _may_match_forward(
    const uint8_t* text, const uint8_t* text_end, const uint8_t* key, const uint8_t* key_end
) noexcept:
    """True if a text may begin with a key, in which a space stands for any white space."""
    while key < key_end:
        if text == text_end:
            return False
        if key[0] == 32:
            if not _is_ascii_space(text[0]):
                return text[0] >= 128
            while text < text_end and _is_ascii_space(text[0]):
                text += 1
            if text < text_end and text[0] >= 128:
                return True
        elif text[0] == key[0]:
            text += 1
        else:
            return False
        key += 1
    return True


cdef bint _may_match_backward(
    const uint8_t* text_end, const uint8_t* text, const uint8_t* key_end, const uint8_t* key
) noexcept:
    """True if a text may end with a key, in which a space stands for any white space."""
    while key < key_end:
        if text == text_end:
            return False
        if (key_end - 1)[0] == 32:
            if not _is_ascii_space((text_end - 1)[0]):
                return (text_end - 1)[0] >= 128
            while text < text_end and _is_ascii_space((text_end - 1)[0]):
                text_end -= 1
            if text < text_end and (text_end - 1)[0] >= 128:
                return True
        elif (text_end - 1)[0] == (key_end - 1)[0]:
            text_end -= 1
        else:
            return False
        key_end -= 1
    return True


cdef class _SearchedText:
    """A text in which keys are searched; it is split into tokens when that is first needed."""

    cdef bytes data
    cdef bint is_tokenized
    cdef vector[Token] tokens
    cdef vector[uint8_t] copy

    def __cinit__(self, bytes data not None):
        """Prepare to search the text ``data``, which is in normal form."""
        _prepare_text(data)
        self.data, self.is_tokenized = data, False

    cdef bint may_contain(self, const SearchKey* search_key) except -1:
        """True unless the text has no such bytes as a key, with any white space for a space. Most searched texts do not.

        This is much faster than splitting the text into tokens. White space that is not ASCII is not recognized, so the
        bytes after a byte of it are assumed to be those of the key.
        """
        cdef const uint8_t* text = self.data
        cdef const uint8_t* end = text + len(self.data)
        cdef const uint8_t* token = search_key.key + search_key.token
        cdef const uint8_t* match = text
        while True:
            match = <const uint8_t*> memmem(match, end - match, token, search_key.token_length)
            if match == NULL:
                return False
            if _may_match_forward(match, end, token, search_key.key + search_key.length) and _may_match_backward(
                match, text, token, search_key.key
            ):
                return True
            match += 1

    cdef bint find_next(self, const SearchKey* search_key, size_t* first, size_t* last) except -1:
        """Find the next occurrence of a key from token ``first`` on, and set ``first`` and ``last`` to its tokens.

        Returns False if there is none.
        """
        cdef size_t i
        if not self.is_tokenized:
            self.is_tokenized = True
            _tokenize(<const uint8_t*> self.data, len(self.data), None, self.tokens, self.copy)
        for i in range(first[0], self.tokens.size()):
            if self.tokens[i].start + search_key.length > self.copy.size():
                break
            if self.copy[self.tokens[i].start] != search_key.key[0]:
                continue
            if memcmp(self.copy.data() + self.tokens[i].start, search_key.key, search_key.length):
                continue
            # A key contains no barrier, so a match crosses none. It must end at the end of a token.
            first[0] = last[0] = i
            while self.tokens[last[0]].end < self.tokens[i].start + search_key.length:
                last[0] += 1
            if self.tokens[last[0]].end == self.tokens[i].start + search_key.length:
                return True
        return False


cdef class SearchKeys:
    """Keys that are searched in many texts. Each search is for some of them, by their indexes.

    A key of more than ``max_words`` words (0: any number) or of more than 16 punctuation marks never occurs.
    """

    cdef list _keys
    cdef vector[SearchKey] _search_keys

    def __init__(self, list keys not None, int max_words=0):
        """Prepare the search for ``keys``, the normal forms of names in UTF-8; raise TypeError for any other type."""
        cdef SearchKey search_key
        cdef bytes key
        self._keys = keys[:]  # keeps the bytes alive
        for key in self._keys:
            if key is None:
                raise TypeError("a key must be bytes")
            if not _can_occur(key, max_words, &search_key):
                search_key.length = 0
            self._search_keys.push_back(search_key)

    def find_in_text(self, bytes data not None, list indexes not None) -> list:
        """Return (index, start, end) of each occurrence in a text of the keys with these indexes, key by key."""
        cdef _SearchedText text = _SearchedText(data)
        cdef SearchKey* search_key
        cdef size_t first, last
        results = []
        for index in indexes:
            if not 0 <= index < <Py_ssize_t> self._search_keys.size():
                raise IndexError(index)
            search_key = &self._search_keys[<size_t> index]
            if not search_key.length or not text.may_contain(search_key):
                continue
            first = 0
            while text.find_next(search_key, &first, &last):
                results.append((index, text.tokens[first].source_start, text.tokens[last].source_end))
                first += 1
        return results


def find_occurrences(bytes data not None, bytes key not None, int max_words=0) -> list:
    """Return (start, end) of each occurrence of one key, the normal form of a name, in a text; words are never divided.

    A key of more than ``max_words`` words (0: any number) or of more than 16 punctuation marks never occurs.
    """
    return [(start, end) for _, start, end in SearchKeys([key], max_words).find_in_text(data, [0])]


def select_occurring_keys(bytes data not None, list keys not None, int max_words=0) -> list:
    """Return those of ``keys``, normal forms of names, that occur in a text, with one pass over the text.

    A key of more than ``max_words`` words (0: any number) or of more than 16 punctuation marks never occurs.
    """
    cdef _SearchedText text = _SearchedText(data)
    cdef SearchKey search_key
    cdef size_t first, last
    cdef bytes key
    results = []
    for key in keys:
        first = 0
        if key is None or not _can_occur(key, max_words, &search_key) or not text.may_contain(&search_key):
            continue
        if text.find_next(&search_key, &first, &last):
            results.append(key)
    return results


def select_longest(const int64_t[::1] starts not None, const int64_t[::1] ends not None) -> list:
    """Return the indexes of non-overlapping matches, chosen from left to right: of those that begin first, the longest.

    The matches are sorted by start and end. Raises ValueError if the arrays differ in length.
    """
    cdef Py_ssize_t i, best = -1, n = starts.shape[0]
    if ends.shape[0] != n:
        raise ValueError(f"{n} starts, but {ends.shape[0]} ends")
    cdef int64_t end_of_last = 0
    result = []
    for i in range(n):
        if starts[i] < end_of_last:
            continue
        if best >= 0 and starts[i] == starts[best]:
            best = i
            continue
        if best >= 0:
            result.append(best)
            end_of_last = ends[best]
            best = -1
            if starts[i] < end_of_last:
                continue
        best = i
    if best >= 0:
        result.append(best)
    return result
