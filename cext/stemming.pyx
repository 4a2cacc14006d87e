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


cdef inline bint _is_vowel(Py_UCS4 c) noexcept:
    """True if a lower-case letter is a vowel; y counts as one."""
    return c == u"a" or c == u"e" or c == u"i" or c == u"o" or c == u"u" or c == u"y"


cdef inline bint _has_prefix(Word* word, const char* prefix, Py_ssize_t length) noexcept:
    """True if a word begins with ``prefix``."""
    cdef Py_ssize_t i
    if word.size < length:
        return False
    for i in range(length):
        if word.text[i] != <Py_UCS4> prefix[i]:
            return False
    return True


cdef inline bint _has_suffix_at(Word* word, Py_ssize_t end, const char* suffix, Py_ssize_t length) noexcept:
    """True if the part of a word before ``end`` ends in ``suffix``."""
    cdef Py_ssize_t i
    if end < length:
        return False
    for i in range(1, length + 1):
        if word.text[end - i] != <Py_UCS4> suffix[length - i]:
            return False
    return True


cdef inline bint _has_suffix(Word* word, const char* suffix, Py_ssize_t length) noexcept:
    """True if a word ends in ``suffix``."""
    return _has_suffix_at(word, word.size, suffix, length)


cdef inline void _replace(Word* word, Py_ssize_t suffix, const char* other, Py_ssize_t length) noexcept:
    """Replace a suffix of the given length by another one that is not longer."""
    cdef Py_ssize_t i, start = word.size - suffix
    for i in range(length):
        word.text[start + i] = <Py_UCS4> other[i]
    word.size = start + length


cdef inline bint _has_vowel_before(Word* word, Py_ssize_t end) noexcept:
    """True if there is a vowel before the position ``end``."""
    cdef Py_ssize_t i
    for i in range(end):
        if _is_vowel(word.text[i]):
            return True
    return False


cdef bint _ends_in_short_syllable(Word* word, Py_ssize_t end) noexcept:
    """True if the part before ``end`` ends in a short syllable."""
    cdef Py_UCS4 last
    if end >= 2 and _is_vowel(word.text[end - 2]):
        last = word.text[end - 1]
        if not _is_vowel(last) and (
            end == 2 or (not _is_vowel(word.text[end - 3]) and last != u"w" and last != u"x" and last != u"Y")
        ):
            return True
    return _has_suffix_at(word, end, b"past", 4)


cdef inline Py_ssize_t _find_region(Word* word, Py_ssize_t at) noexcept:
    """Return the offset of the part after the first consonant that follows a vowel, from ``at`` on; -1 for none."""
    while at < word.size and not _is_vowel(word.text[at]):
        at += 1
    while at < word.size and _is_vowel(word.text[at]):
        at += 1
    return at + 1 if at < word.size else -1


cdef void _mark_regions(Word* word) noexcept:
    """Set the starts of R1 and R2; the algorithm lists prefixes after which R1 begins."""
    cdef Py_ssize_t at
    word.r1 = word.r2 = word.size
    if _has_prefix(word, b"gener", 5) or _has_prefix(word, b"inter", 5) or _has_prefix(word, b"later", 5):
        at = 5
    elif _has_prefix(word, b"organ", 5) or _has_prefix(word, b"emerg", 5) or _has_prefix(word, b"arsen", 5):
        at = 5
    elif _has_prefix(word, b"past", 4):
        at = 4
    elif _has_prefix(word, b"commun", 6):
        at = 6
    elif _has_prefix(word, b"univers", 7):
        at = 7
    else:
        at = _find_region(word, 0)
    if at < 0:
        return
    word.r1 = at
    at = _find_region(word, at)
    if at >= 0:
        word.r2 = at


cdef void _apply_step_1a(Word* word) noexcept:
    """Remove the endings of possessives and plurals."""
    if _has_suffix(word, b"'s'", 3):
        word.size -= 3
    elif _has_suffix(word, b"'s", 2):
        word.size -= 2
    elif _has_suffix(word, b"'", 1):
        word.size -= 1
    if _has_suffix(word, b"sses", 4):
        word.size -= 2
    elif _has_suffix(word, b"ied", 3) or _has_suffix(word, b"ies", 3):
        word.size -= 2 if word.size >= 5 else 1
    elif _has_suffix(word, b"s", 1) and not _has_suffix(word, b"ss", 2) and not _has_suffix(word, b"us", 2):
        if _has_vowel_before(word, word.size - 2):
            word.size -= 1


cdef void _apply_step_1b(Word* word) noexcept:
    """Remove ``ed``, ``ing`` and their adverbs after a vowel, and restore the end of the verb: ``hoping``, ``hope``."""
    cdef Py_ssize_t suffix
    cdef Py_ssize_t at
    cdef Py_UCS4 last
    if _has_suffix(word, b"eed", 3) or _has_suffix(word, b"eedly", 5):
        suffix = 3 if word.text[word.size - 1] == u"d" else 5
        at = word.size - suffix
        if word.r1 <= at and not (
            (at == 4 and (_has_suffix_at(word, at, b"succ", 4) or _has_suffix_at(word, at, b"proc", 4)))
            or (at == 3 and _has_suffix_at(word, at, b"exc", 3))
        ):
            word.size = at + 2
        return
    if _has_suffix(word, b"ed", 2):
        suffix = 2
    elif _has_suffix(word, b"edly", 4):
        suffix = 4
    elif _has_suffix(word, b"ingly", 5):
        suffix = 5
    elif _has_suffix(word, b"ing", 3):
        suffix = 3
        at = word.size - 3
        if at == 2 and word.text[1] == u"y" and not _is_vowel(word.text[0]):
            _replace(word, 4, b"ie", 2)
            return
        if (
            (at == 4 and (_has_prefix(word, b"even", 4) or _has_prefix(word, b"cann", 4)
                          or _has_prefix(word, b"earr", 4) or _has_prefix(word, b"herr", 4)))
            or (at == 3 and (_has_prefix(word, b"inn", 3) or _has_prefix(word, b"out", 3)))
        ):
            return
    else:
        return
    at = word.size - suffix
    if not _has_vowel_before(word, at):
        return
    word.size = at
    if _has_suffix(word, b"at", 2) or _has_suffix(word, b"bl", 2) or _has_suffix(word, b"iz", 2):
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
    elif at == word.r1 and _ends_in_short_syllable(word, at):
        word.text[at] = u"e"
        word.size += 1


cdef void _apply_step_1c(Word* word) noexcept:
    """Replace a final y by i after a consonant: ``cry``, ``cri``."""
    cdef Py_UCS4 last
    if word.size < 3:
        return
    last = word.text[word.size - 1]
    if (last == u"y" or last == u"Y") and not _is_vowel(word.text[word.size - 2]):
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


cdef inline Py_ssize_t _find_rule(Word* word, Rule* rules, Py_ssize_t count) noexcept:
    """Return the number of the first rule whose suffix the word has, or -1."""
    cdef Py_ssize_t i
    for i in range(count):
        if _has_suffix(word, rules[i].suffix, rules[i].length):
            return i
    return -1


cdef void _apply_step_2(Word* word) noexcept:
    """Shorten a derivational suffix in R1: ``rationalize``, ``rational`` plus ``ize``."""
    cdef Py_ssize_t rule = _find_rule(word, _STEP_2, 25)
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


cdef void _apply_step_3(Word* word) noexcept:
    """Shorten or remove a second derivational suffix in R1, or ``ative`` in R2."""
    cdef Py_ssize_t rule = _find_rule(word, _STEP_3, 9)
    cdef Py_ssize_t at
    if rule < 0:
        return
    at = word.size - _STEP_3[rule].length
    if word.r1 <= at and (rule != 5 or word.r2 <= at):  # ative
        _replace(word, _STEP_3[rule].length, _STEP_3[rule].other, _STEP_3[rule].size)


cdef void _apply_step_4(Word* word) noexcept:
    """Remove a derivational suffix in R2; ``ion`` only after s or t."""
    cdef Py_ssize_t rule = _find_rule(word, _STEP_4, 18)
    cdef Py_ssize_t at
    if rule < 0:
        return
    at = word.size - _STEP_4[rule].length
    if word.r2 > at:
        return
    if rule == 14 and (at == 0 or (word.text[at - 1] != u"s" and word.text[at - 1] != u"t")):  # ion
        return
    word.size = at


cdef void _apply_step_5(Word* word) noexcept:
    """Remove a final e that follows no short syllable, and the second l of ``ll``."""
    cdef Py_ssize_t at = word.size - 1
    if at < 0:
        return
    if word.text[at] == u"e":
        if word.r2 <= at or (word.r1 <= at and not _ends_in_short_syllable(word, at)):
            word.size = at
    elif word.text[at] == u"l" and word.r2 <= at and at > 0 and word.text[at - 1] == u"l":
        word.size = at


cdef bint _stem_in_place(Word* word) noexcept:
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
        if word.text[i] == u"y" and _is_vowel(word.text[i - 1]):
            word.text[i] = u"Y"
            marked = True
    _mark_regions(word)
    _apply_step_1a(word)
    _apply_step_1b(word)
    _apply_step_1c(word)
    _apply_step_2(word)
    _apply_step_3(word)
    _apply_step_4(word)
    _apply_step_5(word)
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
    if not _stem_in_place(&buffer) and buffer.size == size:
        return word if buffer.text[size - 1] == word[size - 1] else PyUnicode_FromKindAndData(_UCS4, buffer.text, size)
    return PyUnicode_FromKindAndData(_UCS4, buffer.text, buffer.size)
