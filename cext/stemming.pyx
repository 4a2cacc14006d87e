# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Stems of English words: Snowball's English stemmer ("Porter2"), version 3.1.

In: a word in lower case. Out: its stem. Source: M. Porter and R. Boulton, "The English (Porter2) stemming algorithm",
snowballstem.org, whose names of regions and steps this module uses. R1 is the part after the first consonant that
follows a vowel, R2 the same within R1. A consonant y is temporarily written Y. Characters without a rule, such as
digits and letters of other alphabets, count as consonants.
"""

from cpython.unicode cimport PyUnicode_AsUCS4, PyUnicode_FromKindAndData
from libcpp.vector cimport vector

cdef enum:
    _STACK = 64  # longest word that is stored on the stack
    _UCS4 = 4


cdef struct Word:
    Py_UCS4* text
    Py_ssize_t size
    Py_ssize_t r1
    Py_ssize_t r2


#: Words with exceptional stems.
cdef dict _EXCEPTIONS = {
    "skis": "ski", "skies": "sky", "idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli",
    "singly": "singl",
} | {word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")}


cdef inline bint _vowel(Py_UCS4 c) noexcept:
    return c == u"a" or c == u"e" or c == u"i" or c == u"o" or c == u"u" or c == u"y"


cdef inline bint _starts(Word* word, const char* prefix, Py_ssize_t length) noexcept:
    cdef Py_ssize_t i
    if word.size < length:
        return False
    for i in range(length):
        if word.text[i] != <Py_UCS4> prefix[i]:
            return False
    return True


cdef inline bint _ends_at(Word* word, Py_ssize_t end, const char* suffix, Py_ssize_t length) noexcept:
    """True if the characters before ``end`` are these."""
    cdef Py_ssize_t i
    if end < length:
        return False
    for i in range(1, length + 1):
        if word.text[end - i] != <Py_UCS4> suffix[length - i]:
            return False
    return True


cdef inline bint _ends(Word* word, const char* suffix, Py_ssize_t length) noexcept:
    return _ends_at(word, word.size, suffix, length)


cdef inline void _replace(Word* word, Py_ssize_t suffix, const char* other, Py_ssize_t length) noexcept:
    """Replace a suffix of the given length by another one that is not longer."""
    cdef Py_ssize_t i, start = word.size - suffix
    for i in range(length):
        word.text[start + i] = <Py_UCS4> other[i]
    word.size = start + length


cdef inline bint _vowel_before(Word* word, Py_ssize_t end) noexcept:
    cdef Py_ssize_t i
    for i in range(end):
        if _vowel(word.text[i]):
            return True
    return False


cdef bint _short_syllable(Word* word, Py_ssize_t end) noexcept:
    """True if the part before ``end`` ends in a short syllable."""
    cdef Py_UCS4 last
    if end >= 2 and _vowel(word.text[end - 2]):
        last = word.text[end - 1]
        if not _vowel(last) and (
            end == 2 or (not _vowel(word.text[end - 3]) and last != u"w" and last != u"x" and last != u"Y")
        ):
            return True
    return _ends_at(word, end, b"past", 4)


cdef inline Py_ssize_t _region(Word* word, Py_ssize_t at) noexcept:
    """Return the offset of the part after the first consonant that follows a vowel, from ``at`` on; -1 for none."""
    while at < word.size and not _vowel(word.text[at]):
        at += 1
    while at < word.size and _vowel(word.text[at]):
        at += 1
    return at + 1 if at < word.size else -1


cdef void _mark_regions(Word* word) noexcept:
    cdef Py_ssize_t at
    word.r1 = word.r2 = word.size
    if _starts(word, b"gener", 5) or _starts(word, b"inter", 5) or _starts(word, b"later", 5):
        at = 5
    elif _starts(word, b"organ", 5) or _starts(word, b"emerg", 5) or _starts(word, b"arsen", 5):
        at = 5
    elif _starts(word, b"past", 4):
        at = 4
    elif _starts(word, b"commun", 6):
        at = 6
    elif _starts(word, b"univers", 7):
        at = 7
    else:
        at = _region(word, 0)
    if at < 0:
        return
    word.r1 = at
    at = _region(word, at)
    if at >= 0:
        word.r2 = at


cdef void _step_1a(Word* word) noexcept:
    if _ends(word, b"'s'", 3):
        word.size -= 3
    elif _ends(word, b"'s", 2):
        word.size -= 2
    elif _ends(word, b"'", 1):
        word.size -= 1
    if _ends(word, b"sses", 4):
        word.size -= 2
    elif _ends(word, b"ied", 3) or _ends(word, b"ies", 3):
        word.size -= 2 if word.size >= 5 else 1
    elif _ends(word, b"s", 1) and not _ends(word, b"ss", 2) and not _ends(word, b"us", 2):
        if _vowel_before(word, word.size - 2):
            word.size -= 1


cdef void _step_1b(Word* word) noexcept:
    cdef Py_ssize_t suffix
    cdef Py_ssize_t at
    cdef Py_UCS4 last
    if _ends(word, b"eed", 3) or _ends(word, b"eedly", 5):
        suffix = 3 if word.text[word.size - 1] == u"d" else 5
        at = word.size - suffix
        if word.r1 <= at and not (
            (at == 4 and (_ends_at(word, at, b"succ", 4) or _ends_at(word, at, b"proc", 4)))
            or (at == 3 and _ends_at(word, at, b"exc", 3))
        ):
            word.size = at + 2
        return
    if _ends(word, b"ed", 2):
        suffix = 2
    elif _ends(word, b"edly", 4):
        suffix = 4
    elif _ends(word, b"ingly", 5):
        suffix = 5
    elif _ends(word, b"ing", 3):
        suffix = 3
        at = word.size - 3
        if at == 2 and word.text[1] == u"y" and not _vowel(word.text[0]):
            _replace(word, 4, b"ie", 2)
            return
        if (
            (at == 4 and (_starts(word, b"even", 4) or _starts(word, b"cann", 4)
                          or _starts(word, b"earr", 4) or _starts(word, b"herr", 4)))
            or (at == 3 and (_starts(word, b"inn", 3) or _starts(word, b"out", 3)))
        ):
            return
    else:
        return
    at = word.size - suffix
    if not _vowel_before(word, at):
        return
    word.size = at
    if _ends(word, b"at", 2) or _ends(word, b"bl", 2) or _ends(word, b"iz", 2):
        word.text[at] = u"e"
        word.size += 1
        return
    last = word.text[at - 1]
    if at >= 2 and last == word.text[at - 2] and (
        last == u"b" or last == u"d" or last == u"f" or last == u"g" or last == u"m" or last == u"n" or last == u"p"
        or last == u"r" or last == u"t"
    ):
        if not (at == 3 and (word.text[0] == u"a" or word.text[0] == u"e" or word.text[0] == u"o")):
            word.size -= 1
    elif at == word.r1 and _short_syllable(word, at):
        word.text[at] = u"e"
        word.size += 1


cdef void _step_1c(Word* word) noexcept:
    cdef Py_UCS4 last
    if word.size < 3:
        return
    last = word.text[word.size - 1]
    if (last == u"y" or last == u"Y") and not _vowel(word.text[word.size - 2]):
        word.text[word.size - 1] = u"i"


cdef struct Rule:
    const char* suffix
    Py_ssize_t length
    const char* other
    Py_ssize_t size


# The longest of the suffixes with the same end is first: only that one is tried.
cdef Rule[25] _STEP_2 = [
    Rule(b"ization", 7, b"ize", 3), Rule(b"ational", 7, b"ate", 3), Rule(b"fulness", 7, b"ful", 3),
    Rule(b"ousness", 7, b"ous", 3), Rule(b"iveness", 7, b"ive", 3), Rule(b"tional", 6, b"tion", 4),
    Rule(b"biliti", 6, b"ble", 3), Rule(b"lessli", 6, b"less", 4), Rule(b"entli", 5, b"ent", 3),
    Rule(b"ation", 5, b"ate", 3), Rule(b"alism", 5, b"al", 2), Rule(b"aliti", 5, b"al", 2),
    Rule(b"ousli", 5, b"ous", 3), Rule(b"iviti", 5, b"ive", 3), Rule(b"fulli", 5, b"ful", 3),
    Rule(b"ogist", 5, b"og", 2), Rule(b"enci", 4, b"ence", 4), Rule(b"anci", 4, b"ance", 4),
    Rule(b"abli", 4, b"able", 4), Rule(b"izer", 4, b"ize", 3), Rule(b"ator", 4, b"ate", 3),
    Rule(b"alli", 4, b"al", 2), Rule(b"bli", 3, b"ble", 3), Rule(b"ogi", 3, b"og", 2), Rule(b"li", 2, b"", 0),
]
cdef Rule[9] _STEP_3 = [
    Rule(b"ational", 7, b"ate", 3), Rule(b"tional", 6, b"tion", 4), Rule(b"alize", 5, b"al", 2),
    Rule(b"icate", 5, b"ic", 2), Rule(b"iciti", 5, b"ic", 2), Rule(b"ative", 5, b"", 0), Rule(b"ical", 4, b"ic", 2),
    Rule(b"ness", 4, b"", 0), Rule(b"ful", 3, b"", 0),
]
cdef Rule[18] _STEP_4 = [
    Rule(b"ement", 5, b"", 0), Rule(b"ment", 4, b"", 0), Rule(b"ance", 4, b"", 0), Rule(b"ence", 4, b"", 0),
    Rule(b"able", 4, b"", 0), Rule(b"ible", 4, b"", 0), Rule(b"ant", 3, b"", 0), Rule(b"ent", 3, b"", 0),
    Rule(b"ism", 3, b"", 0), Rule(b"ate", 3, b"", 0), Rule(b"iti", 3, b"", 0), Rule(b"ous", 3, b"", 0),
    Rule(b"ive", 3, b"", 0), Rule(b"ize", 3, b"", 0), Rule(b"ion", 3, b"", 0), Rule(b"al", 2, b"", 0),
    Rule(b"er", 2, b"", 0), Rule(b"ic", 2, b"", 0),
]


cdef inline Py_ssize_t _rule_for(Word* word, Rule* rules, Py_ssize_t count) noexcept:
    """Return the number of the first rule whose suffix the word has, or -1."""
    cdef Py_ssize_t i
    for i in range(count):
        if _ends(word, rules[i].suffix, rules[i].length):
            return i
    return -1


cdef void _step_2(Word* word) noexcept:
    cdef Py_ssize_t rule = _rule_for(word, _STEP_2, 25)
    cdef Py_ssize_t at
    cdef Py_UCS4 before
    if rule < 0:
        return
    at = word.size - _STEP_2[rule].length
    if word.r1 > at:
        return
    if rule >= 23:  # ogi, li
        before = word.text[at - 1] if at > 0 else u" "
        if rule == 23 and before != u"l":
            return
        if rule == 24 and before not in u"cdeghkmnrt":
            return
    _replace(word, _STEP_2[rule].length, _STEP_2[rule].other, _STEP_2[rule].size)


cdef void _step_3(Word* word) noexcept:
    cdef Py_ssize_t rule = _rule_for(word, _STEP_3, 9)
    cdef Py_ssize_t at
    if rule < 0:
        return
    at = word.size - _STEP_3[rule].length
    if word.r1 <= at and (rule != 5 or word.r2 <= at):  # ative
        _replace(word, _STEP_3[rule].length, _STEP_3[rule].other, _STEP_3[rule].size)


cdef void _step_4(Word* word) noexcept:
    cdef Py_ssize_t rule = _rule_for(word, _STEP_4, 18)
    cdef Py_ssize_t at
    if rule < 0:
        return
    at = word.size - _STEP_4[rule].length
    if word.r2 > at:
        return
    if rule == 14 and (at == 0 or (word.text[at - 1] != u"s" and word.text[at - 1] != u"t")):  # ion
        return
    word.size = at


cdef void _step_5(Word* word) noexcept:
    cdef Py_ssize_t at = word.size - 1
    if at < 0:
        return
    if word.text[at] == u"e":
        if word.r2 <= at or (word.r1 <= at and not _short_syllable(word, at)):
            word.size = at
    elif word.text[at] == u"l" and word.r2 <= at and at > 0 and word.text[at - 1] == u"l":
        word.size = at


cdef bint _stem(Word* word) noexcept:
    """Stem a word in place; True if a y was marked."""
    cdef Py_ssize_t i
    cdef bint marked = False
    if word.text[0] == u"'":
        word.text += 1
        word.size -= 1
    if word.text[0] == u"y":
        word.text[0] = u"Y"
        marked = True
    for i in range(1, word.size):
        if word.text[i] == u"y" and _vowel(word.text[i - 1]):
            word.text[i] = u"Y"
            marked = True
    _mark_regions(word)
    _step_1a(word)
    _step_1b(word)
    _step_1c(word)
    _step_2(word)
    _step_3(word)
    _step_4(word)
    _step_5(word)
    if marked:
        for i in range(word.size):
            if word.text[i] == u"Y":
                word.text[i] = u"y"
    return marked


def stem_english(str word not None) -> str:
    """Return the stem of an English word in lower case.

    >>> stem_english("organizations"), stem_english("queries"), stem_english("dying")
    ('organ', 'queri', 'die')
    """
    cdef Py_UCS4[_STACK] short
    cdef vector[Py_UCS4] long
    cdef Word buffer
    cdef Py_ssize_t size = len(word)
    if size < 3:
        return word
    if size <= 6:
        rule = _EXCEPTIONS.get(word)
        if rule is not None:
            return rule
    if size <= _STACK:
        buffer.text = &short[0]
    else:
        long.resize(size)
        buffer.text = long.data()
    PyUnicode_AsUCS4(word, buffer.text, size, False)
    buffer.size = size
    if not _stem(&buffer) and buffer.size == size:
        return word if buffer.text[size - 1] == word[size - 1] else PyUnicode_FromKindAndData(_UCS4, buffer.text, size)
    return PyUnicode_FromKindAndData(_UCS4, buffer.text, buffer.size)
