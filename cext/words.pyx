# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""A text cut into words in one pass: its terms counted, its size in tokens, and what of it may be part of a name.

In: any string; letters, digits and white space are those of Python's regular expressions (``\\w`` and so on, as quoted
below). Out: counts, a size, pieces of the text. No object is made of a word that is only counted or passed over.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.vector cimport vector

cdef enum:
    LONGEST_TOKEN = 64
    LONGEST_CODE = 100
    LONGEST_EMPHASIS = 60
    LONGEST_GAP = 3


cdef struct Word:
    uint64_t hash
    Py_ssize_t start
    Py_ssize_t end
    Py_ssize_t count


cdef bint[128] WORD_CHARACTERS
for _code in range(128):
    WORD_CHARACTERS[_code] = chr(_code).isalnum() or chr(_code) == "_"


cdef inline bint _in_word(Py_UCS4 c) noexcept:
    return WORD_CHARACTERS[c] if c < 128 else c.isalnum()


def count_tokens(str text) -> int:
    """The matches of ``\\w{1,64}|[^\\w\\s]`` in a text: words, long ones in parts, and marks."""
    cdef Py_ssize_t size = len(text), at = 0, start, count = 0
    while at < size:
        start = at
        while at < size and _in_word(text[at]):
            at += 1
        count += (at - start + LONGEST_TOKEN - 1) // LONGEST_TOKEN
        if at == start:
            count += not text[at].isspace()
            at += 1
    return count


def count_terms(str text, stem, leaving_out) -> dict:
    """The stems of the words (``\\w+``) of a text, counted, in order of their first words; ``leaving_out`` are words
    that are not counted."""
    cdef Py_ssize_t size = len(text), at = 0
    cdef vector[Word] words
    cdef vector[int32_t] slots  # of a hash table: the number of a word, or -1; half of them at most are taken
    cdef Word word
    cdef size_t slots_wanted = 4
    cdef Py_UCS4 c
    while slots_wanted <= <size_t> size:
        slots_wanted *= 2
    slots.assign(slots_wanted, -1)
    while at < size:
        word.start, word.hash = at, 0xCBF29CE484222325ULL  # FNV-1a
        while at < size:
            c = text[at]
            if not _in_word(c):
                break
            word.hash = (word.hash ^ <uint64_t> c) * 0x100000001B3ULL
            at += 1
        word.end = at
        if word.end > word.start:
            _count(text, word, words, slots)
        at += 1
    found = {}
    for word in words:
        written = text[word.start:word.end]
        if written not in leaving_out:
            term = stem(written)
            found[term] = found.get(term, 0) + word.count
    return found


cdef inline int _count(str text, Word word, vector[Word]& words, vector[int32_t]& slots) except -1:
    """Count a word: in its slot, or, where another has that, in the next."""
    cdef size_t slot = (word.hash ^ word.hash >> 32) & (slots.size() - 1)
    while slots[slot] >= 0:
        if _equal(text, words[slots[slot]], word):
            words[slots[slot]].count += 1
            return 0
        slot = (slot + 1) & (slots.size() - 1)
    slots[slot] = <int32_t> words.size()
    word.count = 1
    words.push_back(word)
    return 0


cdef inline bint _equal(str text, Word one, Word other) noexcept:
    cdef Py_ssize_t i
    if one.hash != other.hash or one.end - one.start != other.end - other.start:
        return False
    for i in range(one.end - one.start):
        if text[one.start + i] != text[other.start + i]:
            return False
    return True


# -- Pieces that names are made of


def name_pieces(str text, set lower, set upper) -> list:
    """The pieces of a sentence that may be part of a name, end one or open the sentence, in order.

    A piece is a word (with the hyphens, apostrophes and dots inside it and a dot behind it), code in backticks, a term
    in asterisks, or any other mark. Left out are words further than three behind the last that begins with a capital
    or a digit, or behind a mark. All words in lower case are added to ``lower``, and to ``upper`` those that begin
    with a capital but do not open the sentence; there they have no dots behind them.
    """
    cdef Py_ssize_t size = len(text), at = 0, end, bare
    cdef Py_ssize_t gap = LONGEST_GAP  # words since one that a name may go on behind
    cdef bint opened = False
    cdef Py_UCS4 c
    pieces = []
    while at < size:
        c = text[at]
        if c.isspace():
            at += 1
            continue
        if c != u"_" and _in_word(c):
            end = bare = _word_end(text, at)
            while text[bare - 1] == u".":
                bare -= 1
            if c.islower():
                lower.add(text[at:bare])
            elif opened and c.isupper():
                upper.add(text[at:bare])
            gap = 0 if c.isupper() or c.isdigit() else gap + 1
            if gap <= LONGEST_GAP or not opened:
                pieces.append(text[at:end])
            opened = True
        else:
            end = _code_end(text, at) if c == u"`" else _emphasis_end(text, at) if c == u"*" else at + 1
            gap = LONGEST_GAP
            pieces.append(text[at:end])
        at = end
    return pieces


cdef inline bint _is_letter(str text, Py_ssize_t at) noexcept:
    cdef Py_UCS4 c = text[at] if at < len(text) else u" "
    return c.isalnum() and not c.isdecimal()


cdef inline bint _is(str text, Py_ssize_t at, Py_UCS4 c) noexcept:
    return at < len(text) and text[at] == c


cdef Py_ssize_t _word_end(str text, Py_ssize_t start) noexcept:
    """``(?:[^\\W\\d_]\\.){2,}|[^\\W_]\\w*(?:(?:[-'’&](?=\\w)|\\.(?=[^\\W\\d_]\\.))\\w*)*\\.?``"""
    cdef Py_ssize_t size = len(text), at = start
    cdef Py_UCS4 c
    while _is_letter(text, at) and _is(text, at + 1, u"."):
        at += 2
    if at >= start + 4:
        return at
    at = start
    while at < size:
        c = text[at]
        if not (
            _in_word(c)
            or (c in u"-'’&" and at + 1 < size and _in_word(text[at + 1]))
            or (c == u"." and _is_letter(text, at + 1) and _is(text, at + 2, u"."))
        ):
            break
        at += 1
    return at + _is(text, at, u".")


cdef Py_ssize_t _code_end(str text, Py_ssize_t start) noexcept:
    """```[^`\\n]{1,100}```, or the first mark of it alone."""
    cdef Py_ssize_t at = start + 1
    while at < len(text) and at <= start + LONGEST_CODE and text[at] not in u"`\n":
        at += 1
    return at + 1 if at > start + 1 and _is(text, at, u"`") else start + 1


cdef Py_ssize_t _emphasis_end(str text, Py_ssize_t start) noexcept:
    """``(?<![\\w*])\\*{1,2}(?=[^\\s*])[^*\\n]{2,60}?(?<=[^\\s*])\\*{1,2}(?![\\w*])``, or the first mark of it alone."""
    cdef Py_ssize_t begin, end, behind
    if start > 0 and (text[start - 1] == u"*" or _in_word(text[start - 1])):
        return start + 1
    begin = end = _stars_end(text, start)
    while end < len(text) and end <= begin + LONGEST_EMPHASIS and text[end] not in u"*\n":
        end += 1
    behind = _stars_end(text, end)
    if (
        begin - start > 2
        or not 2 <= end - begin <= LONGEST_EMPHASIS
        or text[begin].isspace()
        or text[end - 1].isspace()
        or not 1 <= behind - end <= 2
        or (behind < len(text) and _in_word(text[behind]))
    ):
        return start + 1
    return behind


cdef inline Py_ssize_t _stars_end(str text, Py_ssize_t at) noexcept:
    while _is(text, at, u"*"):
        at += 1
    return at
