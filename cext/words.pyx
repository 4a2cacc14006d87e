# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Splitting of a text into words in one pass, to count terms and tokens and to find pieces of names.

In: any string. Letters, digits and white space are those of Python's regular expressions (``\\w`` and so on, as quoted
below). A character of Chinese or Japanese writing, which has no spaces, is a word by itself. Out: counts, a size,
words, pieces of the text. No object is created for a word that is only counted or skipped.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.vector cimport vector

cdef enum:
    MAX_TOKEN_CHARACTERS = 64  # a longer word is several tokens
    MAX_CODE_CHARACTERS = 100
    MAX_EMPHASIS_CHARACTERS = 60
    MAX_GAP_WORDS = 3  # words in lower case after a capitalized word that can still be part of a name
    MIN_COLUMN_SPACES = 4  # so many spaces separate columns


cdef struct Word:
    uint64_t hash
    Py_ssize_t start
    Py_ssize_t end
    Py_ssize_t count
    bint parts  # it contains an underscore
    bint exact  # a technical token


cdef bint[128] WORD_CHARACTERS
for _code in range(128):
    WORD_CHARACTERS[_code] = chr(_code).isalnum() or chr(_code) == "_"


cdef inline bint _is_word_character(Py_UCS4 c) noexcept:
    """True if a character is a letter, a digit or another character of words."""
    return WORD_CHARACTERS[c] if c < 128 else c.isalnum()


cdef inline bint _is_unspaced(Py_UCS4 c) noexcept:
    """True if a character of a word is a word by itself: one of writing without spaces
    (kvstore.text.words.UNSPACED)."""
    if c < 0x2E80:
        return c >= 0x0E00 and (c <= 0x0EFF or 0x1000 <= c <= 0x109F or 0x1780 <= c <= 0x17FF)
    return (
        c <= 0x30FF or 0x3100 <= c <= 0x312F or 0x31A0 <= c <= 0x31BF or 0x31F0 <= c <= 0x31FF
        or 0x3400 <= c <= 0x4DBF or 0x4E00 <= c <= 0x9FFF or 0xF900 <= c <= 0xFAFF or 0x20000 <= c <= 0x3FFFF
    )


def count_tokens(str text) -> int:
    """Count the matches of ``[UNSPACED]|[^\\W UNSPACED]{1,64}|[^\\w\\s]``: words, long ones in parts, and marks."""
    cdef Py_ssize_t size = len(text), at = 0, start, count = 0
    while at < size:
        start = at
        while at < size and _is_word_character(text[at]) and not _is_unspaced(text[at]):
            at += 1
        count += (at - start + MAX_TOKEN_CHARACTERS - 1) // MAX_TOKEN_CHARACTERS
        if at == start:
            count += not text[at].isspace()
            at += 1
    return count


def find_words(str text not None) -> list:
    """Return the matches of ``[UNSPACED]|[^\\W UNSPACED]+`` in a text, in order."""
    cdef Py_ssize_t size = len(text), at = 0, start
    words = []
    while at < size:
        start = at
        while at < size and _is_word_character(text[at]) and not _is_unspaced(text[at]):
            at += 1
        if at > start:
            words.append(text[start:at])
        if at < size:
            if _is_unspaced(text[at]) and _is_word_character(text[at]):
                words.append(text[at:at + 1])
            at += 1
    return words


def find_term_words(str text not None) -> list:
    """Return the words of a text for its question terms, in order.

    These are the matches of ``[^\\W UNSPACED]+``, each pair of consecutive ``[UNSPACED]`` characters, and each
    ``[UNSPACED]`` character without such a neighbor.
    """
    cdef Py_ssize_t size = len(text), at = 0, start
    cdef bint paired = False  # the previous character is in a pair
    words = []
    while at < size:
        start = at
        while at < size and _is_word_character(text[at]) and not _is_unspaced(text[at]):
            at += 1
        if at > start:
            words.append(text[start:at])
            paired = False
        if at < size:
            if not _is_word_character(text[at]):
                paired = False
            elif at + 1 < size and _is_word_character(text[at + 1]) and _is_unspaced(text[at + 1]):
                words.append(text[at:at + 2])
                paired = True
            elif not paired:
                words.append(text[at:at + 1])
            at += 1
    return words


cdef class WordSet:
    """A set of words that is matched against texts, case-sensitively."""

    cdef frozenset _words
    cdef vector[uint64_t] _hashes  # a hash table; 0 is a free slot, and at most half of the slots are used
    cdef Py_ssize_t _longest

    def __cinit__(self, words) -> None:
        cdef uint64_t hash
        cdef size_t slot
        cdef str word
        self._words = frozenset(words)
        self._longest = max(map(len, self._words), default=0)
        self._hashes.assign(1 << (2 * len(self._words)).bit_length(), 0)
        for word in self._words:
            hash = _hash_word(word, 0, len(word))
            slot = hash & (self._hashes.size() - 1)
            while self._hashes[slot]:
                slot = (slot + 1) & (self._hashes.size() - 1)
            self._hashes[slot] = hash

    def count(self, str text not None) -> tuple[int, int, int]:
        """Return how many of the runs of letters (``[^\\W\\d_]+``) in a text are in the set, how many runs there are,
        and the number of their letters."""
        cdef Py_ssize_t size = len(text), at = 0, start, among = 0, runs = 0, letters = 0
        while at < size:
            start = at
            while at < size and _is_letter(text, at):
                at += 1
            if at == start:
                at += 1
                continue
            runs += 1
            letters += at - start
            if at - start <= self._longest and self._contains(text, start, at):
                among += text[start:at] in self._words
        return among, runs, letters

    cdef bint _contains(self, str text, Py_ssize_t start, Py_ssize_t end) noexcept:
        """True if the set has a word with the hash of this part of a text: the word itself, except for collisions."""
        cdef uint64_t hash = _hash_word(text, start, end)
        cdef size_t slot = hash & (self._hashes.size() - 1)
        while self._hashes[slot]:
            if self._hashes[slot] == hash:
                return True
            slot = (slot + 1) & (self._hashes.size() - 1)
        return False


cdef inline uint64_t _hash_word(str text, Py_ssize_t start, Py_ssize_t end) noexcept:
    """Return the hash of a word, never 0 (FNV-1a)."""
    cdef uint64_t hash = 0xCBF29CE484222325ULL
    for at in range(start, end):
        hash = (hash ^ <uint64_t> <Py_UCS4> text[at]) * 0x100000001B3ULL
    return (hash ^ hash >> 32) | 1


def count_terms(str text, stem, excluded, bint technical=False) -> dict:
    """Count the stems of the words (``[UNSPACED]{1,2}|[^\\W UNSPACED]+``) of a text, in order of first occurrence.
    The words in ``excluded`` are not counted. In writing without spaces, each character and each pair of consecutive
    characters is a word.

    With ``technical``, also count technical tokens unchanged, each before the words in it, and the stems of the parts
    that underscores join, after the whole: see kvstore.text.words.
    """
    cdef Py_ssize_t size = len(text), at = 0, last_end = 0, stop
    cdef vector[Word] words
    cdef vector[int32_t] slots  # a hash table: the number of a word, -1 if free; at most half are used
    cdef Word word
    cdef size_t slots_wanted = 4
    cdef Py_UCS4 c
    while slots_wanted <= <size_t> (size if text.isascii() else 2 * size):
        slots_wanted *= 2
    slots.assign(slots_wanted, -1)
    while at < size:
        word.start, word.hash = at, 0xCBF29CE484222325ULL  # FNV-1a
        word.parts = word.exact = False
        while at < size:
            c = text[at]
            if not _is_word_character(c):
                break
            if _is_unspaced(c):
                if at == word.start:
                    word.hash = (word.hash ^ <uint64_t> c) * 0x100000001B3ULL
                    at += 1
                break
            word.parts |= c == u"_"
            word.hash = (word.hash ^ <uint64_t> c) * 0x100000001B3ULL
            at += 1
        word.end = at
        if word.end == word.start:
            at += 1
            continue
        if technical and word.start >= last_end:
            stop = _count_technical_token(text, word.start, words, slots)
            last_end = max(last_end, stop)
        _count_word(text, word, words, slots)
        if (
            at < size and word.end == word.start + 1 and _is_unspaced(text[at]) and _is_word_character(text[at])
            and _is_unspaced(text[word.start])
        ):
            word.end += 1
            word.hash = (word.hash ^ <uint64_t> <Py_UCS4> text[at]) * 0x100000001B3ULL
            _count_word(text, word, words, slots)
    counts = {}
    for word in words:
        written = text[word.start:word.end]
        if word.exact:
            counts[written] = counts.get(written, 0) + word.count
        elif written not in excluded:
            term = stem(written)
            counts[term] = counts.get(term, 0) + word.count
            if technical and word.parts:
                for part in written.split("_"):
                    if part and part != written:
                        term = stem(part)
                        counts[term] = counts.get(term, 0) + word.count
    return counts


cdef inline Py_ssize_t _count_technical_token(str text, Py_ssize_t start, vector[Word]& words, vector[int32_t]& slots) except -1:
    """Count the technical token whose first word starts at ``start``. Returns its end; 0 if no token starts there."""
    cdef Word token
    cdef Py_ssize_t at, end = start, next
    cdef Py_ssize_t first = _find_prefix_start(text, start)
    cdef bint marked = first < start
    cdef Py_UCS4 c
    while True:
        while end < len(text) and _is_word_character(text[end]):
            end += 1
        if end >= len(text):
            break
        c = text[end]
        if c not in u"-./\\@:":
            break
        next = end + 2 if c == u":" and _has_character(text, end + 1, u":") else end + 1
        if next >= len(text) or not _is_word_character(text[next]):
            break
        marked |= c != u"-"
        end = next
    next = _find_suffix_end(text, end)
    if not marked and next == end:
        return 0
    token.start, token.end, token.hash = first, next, 0xCBF29CE484222325ULL
    token.exact, token.parts = True, False
    for at in range(first, next):
        token.hash = (token.hash ^ <uint64_t> <Py_UCS4> text[at]) * 0x100000001B3ULL
    _count_word(text, token, words, slots)
    return end


cdef inline Py_ssize_t _find_prefix_start(str text, Py_ssize_t start) noexcept:
    """Return the start of a technical token whose first word starts at ``start``:
    ``(?<![\\w-])--?(?=[^\\W\\d])|(?<!\\w)[$@#%\\\\](?=\\w)|(?<![\\w/.~])(?:~|\\.{1,2})?/(?=\\w)``"""
    cdef Py_ssize_t at
    cdef Py_UCS4 c = text[start - 1] if start > 0 else u" "
    if c == u"-":
        at = start - 2 if start > 1 and text[start - 2] == u"-" else start - 1
        if text[start].isdecimal() or (at > 0 and (text[at - 1] == u"-" or _is_word_character(text[at - 1]))):
            return start
        return at
    if c in u"$@#%\\":
        return start if start > 1 and _is_word_character(text[start - 2]) else start - 1
    if c == u"/":
        at = start - 1
        if at > 0 and text[at - 1] == u"~":
            at -= 1
        elif at > 0 and text[at - 1] == u".":
            at -= 2 if at > 1 and text[at - 2] == u"." else 1
        return start if at > 0 and (text[at - 1] in u"/.~" or _is_word_character(text[at - 1])) else at
    return start


cdef inline Py_ssize_t _find_suffix_end(str text, Py_ssize_t end) noexcept:
    """Return the end of a technical token whose last word ends at ``end``: ``\\(\\w{0,2}\\)|\\+\\+(?!\\w)|#(?!\\w)``"""
    cdef Py_ssize_t at = end + 1
    if _has_character(text, end, u"("):
        while at < len(text) and at < end + 3 and _is_word_character(text[at]):
            at += 1
        return at + 1 if _has_character(text, at, u")") else end
    if _has_character(text, end, u"+"):
        return at + 1 if _has_character(text, at, u"+") and not (at + 1 < len(text) and _is_word_character(text[at + 1])) else end
    if _has_character(text, end, u"#"):
        return end if at < len(text) and _is_word_character(text[at]) else at
    return end


cdef inline int _count_word(str text, Word word, vector[Word]& words, vector[int32_t]& slots) except -1:
    """Count a word in its slot or, if another word has it, in the next free one."""
    cdef size_t slot = (word.hash ^ word.hash >> 32) & (slots.size() - 1)
    while slots[slot] >= 0:
        if _are_equal(text, words[slots[slot]], word):
            words[slots[slot]].count += 1
            return 0
        slot = (slot + 1) & (slots.size() - 1)
    slots[slot] = <int32_t> words.size()
    word.count = 1
    words.push_back(word)
    return 0


cdef inline bint _are_equal(str text, Word word, Word other) noexcept:
    """True if two words of a text are equal."""
    cdef Py_ssize_t i
    if word.hash != other.hash or word.end - word.start != other.end - other.start:
        return False
    for i in range(word.end - word.start):
        if text[word.start + i] != text[other.start + i]:
            return False
    return True


# -- Pieces of names


def list_name_pieces(str text, set lower, set upper) -> list:
    """Return the pieces of a sentence that may be part of a name, end one, or open the sentence, in order.

    A piece is a word (with inner hyphens, apostrophes and dots, and a final dot), an option (``-O``), code in
    backticks, a term in asterisks, white space as wide as between columns (four spaces), a hyphen at the end of a word
    with the space after it, or any other mark. Words more than three words after the last one that begins with a
    capital or a digit, or after a mark, are left out. All words in lower case are added to ``lower``, unless they are
    part of an address or a path. Words that begin with a capital and do not open the sentence are added to ``upper``,
    without final dots. The word after a number that opens the sentence, an identifier with an underscore, a colon, a
    bar, an opening bracket or a column also opens the sentence.
    """
    cdef Py_ssize_t size = len(text), at = 0, end, bare
    cdef Py_ssize_t gap = MAX_GAP_WORDS  # words since the last one after which a name may continue
    cdef bint opened = False, identifier
    cdef Py_UCS4 c
    pieces = []
    while at < size:
        c = text[at]
        if c.isspace():
            end = at
            while end < size and text[end] == u" ":
                end += 1
            if end >= at + MIN_COLUMN_SPACES and at > 0 and not text[at - 1].isspace():
                pieces.append(text[at:end])
                gap, opened = MAX_GAP_WORDS, False
            at = max(end, at + 1)
            continue
        if c != u"_" and _is_word_character(c):
            end = bare = _find_word_end(text, at)
            while text[bare - 1] == u".":
                bare -= 1
            if c.islower():
                if not _is_in_address(text, at, end):
                    lower.add(text[at:bare])
            elif opened and c.isupper():
                upper.add(text[at:bare])
            gap = 0 if c.isupper() or c.isdigit() else gap + 1
            identifier = text.find(u"_", at, end) >= 0
            if gap <= MAX_GAP_WORDS or not opened or identifier:
                pieces.append(text[at:end])
            opened = not identifier and (opened or not c.isdigit())
        else:
            end = at + 1
            if c == u"`":
                end = _find_code_end(text, at)
            elif c == u"*":
                end = _find_emphasis_end(text, at)
            elif c == u"-":
                end = _find_option_end(text, at)
                if at > 0 and _is_word_character(text[at - 1]) and at + 1 < size and text[at + 1] in u" \n":
                    end = at + 2
            # The pieces in between show whether a word directly follows a slash, an ampersand or a broken word.
            gap = MAX_GAP_WORDS - (c in u"/&" or (c == u"-" and text[end - 1] in u" \n"))
            opened = (opened or (end > at + 1 and c in u"`*")) and c not in u":|(["
            pieces.append(text[at:end])
        at = end
    return pieces


cdef inline bint _is_letter(str text, Py_ssize_t at) noexcept:
    """True if the text has a letter at an offset, which may be its end."""
    cdef Py_UCS4 c = text[at] if at < len(text) else u" "
    if c < 128:
        return u"a" <= c <= u"z" or u"A" <= c <= u"Z"
    return c.isalnum() and not c.isdecimal()


cdef inline bint _has_character(str text, Py_ssize_t at, Py_UCS4 c) noexcept:
    """True if the text has this character at an offset, which may be its end."""
    return at < len(text) and text[at] == c


cdef Py_ssize_t _find_word_end(str text, Py_ssize_t start) noexcept:
    """Return the end of a match of
    ``(?:[^\\W\\d_]\\.){2,}|[^\\W_]\\w*(?:(?:[-'’&](?=\\w)|\\.(?=[^\\W\\d_]\\.))\\w*)*\\.?``."""
    cdef Py_ssize_t size = len(text), at = start
    cdef Py_UCS4 c
    while _is_letter(text, at) and _has_character(text, at + 1, u"."):
        at += 2
    if at >= start + 4:
        return at
    at = start
    while at < size:
        c = text[at]
        if not (
            _is_word_character(c)
            or (c in u"-'’&" and at + 1 < size and _is_word_character(text[at + 1]))
            or (c == u"." and _is_letter(text, at + 1) and _has_character(text, at + 2, u"."))
        ):
            break
        at += 1
    return at + _has_character(text, at, u".")


cdef inline bint _is_in_address(str text, Py_ssize_t start, Py_ssize_t end) noexcept:
    """True for ``(?<=[@/\\\\.~])WORD|WORD(?=[@/\\\\])|WORD(?<=\\.)(?=\\w)``: in ``ada@example.org``, ``/usr/lib``."""
    if start > 0 and text[start - 1] in u"@/\\.~":
        return True
    return end < len(text) and (text[end] in u"@/\\" or (text[end - 1] == u"." and _is_word_character(text[end])))


cdef Py_ssize_t _find_option_end(str text, Py_ssize_t start) noexcept:
    """Return the end of ``(?<![^\\s(\\[|,])--?(?=[^\\W\\d_])WORD``, or of its first mark if that does not match."""
    cdef Py_ssize_t at = start + 1
    if start > 0 and not (text[start - 1].isspace() or text[start - 1] in u"([|,"):
        return start + 1
    at += _has_character(text, at, u"-")
    return _find_word_end(text, at) if _is_letter(text, at) else start + 1


cdef Py_ssize_t _find_code_end(str text, Py_ssize_t start) noexcept:
    """Return the end of ```[^`\\n]{1,100}```, or of its first mark if that does not match."""
    cdef Py_ssize_t at = start + 1
    while at < len(text) and at <= start + MAX_CODE_CHARACTERS and text[at] not in u"`\n":
        at += 1
    return at + 1 if at > start + 1 and _has_character(text, at, u"`") else start + 1


cdef Py_ssize_t _find_emphasis_end(str text, Py_ssize_t start) noexcept:
    """Return the end of ``(?<![\\w*])\\*{1,2}(?=[^\\s*])[^*\\n]{2,60}?(?<=[^\\s*])\\*{1,2}(?![\\w*])``, or of its
    first mark if that does not match."""
    cdef Py_ssize_t begin, end, behind
    if start > 0 and (text[start - 1] == u"*" or _is_word_character(text[start - 1])):
        return start + 1
    begin = end = _find_stars_end(text, start)
    while end < len(text) and end <= begin + MAX_EMPHASIS_CHARACTERS and text[end] not in u"*\n":
        end += 1
    behind = _find_stars_end(text, end)
    if (
        begin - start > 2
        or not 2 <= end - begin <= MAX_EMPHASIS_CHARACTERS
        or text[begin].isspace()
        or text[end - 1].isspace()
        or not 1 <= behind - end <= 2
        or (behind < len(text) and _is_word_character(text[behind]))
    ):
        return start + 1
    return behind


cdef inline Py_ssize_t _find_stars_end(str text, Py_ssize_t at) noexcept:
    """Return the position after the asterisks at a position."""
    while _has_character(text, at, u"*"):
        at += 1
    return at
