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
    _STACK_BUFFER_SIZE = 64  # the longest word that is stored on the stack
    _MAX_EXCEPTION_LENGTH = 6
    _UCS4 = 4
    # Indexes of rules with a further condition.
    _STEP_2_OGI = 23
    _STEP_2_LI = 24
    _STEP_3_ATIVE = 5
    _STEP_4_ION = 14


cdef struct Word:
    Py_UCS4* text
    Py_ssize_t size
    Py_ssize_t r1
    Py_ssize_t r2


#: Words with exceptional stems, of at most _MAX_EXCEPTION_LENGTH letters.
cdef dict _EXCEPTIONS = {
    "skis": "ski", "skies": "sky", "idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli",
    "singly": "singl",
} | {word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")}


cdef inline bint _is_vowel(Py_UCS4 c) noexcept:
    """True if a letter is a vowel; ``y`` counts as one, but not ``Y``, which marks a consonant y."""
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


cdef inline void _replace_suffix(Word* word, Py_ssize_t length, const char* new_suffix, Py_ssize_t new_length) noexcept:
    """Replace a suffix of ``length`` letters with another one, of ``new_length`` letters, that is not longer."""
    cdef Py_ssize_t i, start = word.size - length
    for i in range(new_length):
        word.text[start + i] = <Py_UCS4> new_suffix[i]
    word.size = start + new_length


cdef inline bint _has_vowel_before(Word* word, Py_ssize_t end) noexcept:
    """True if there is a vowel before the position ``end``."""
    cdef Py_ssize_t i
    for i in range(end):
        if _is_vowel(word.text[i]):
            return True
    return False


cdef bint _ends_in_short_syllable(Word* word, Py_ssize_t end) noexcept:
    """True if the part of a word before ``end`` ends in a short syllable, as Porter2 defines it."""
    cdef Py_UCS4 last
    if end >= 2 and _is_vowel(word.text[end - 2]):
        last = word.text[end - 1]
        if not _is_vowel(last) and (
            end == 2 or (not _is_vowel(word.text[end - 3]) and last != u"w" and last != u"x" and last != u"Y")
        ):
            return True
    return _has_suffix_at(word, end, b"past", 4)


cdef inline Py_ssize_t _find_region(Word* word, Py_ssize_t start) noexcept:
    """Return the offset after the first consonant that follows a vowel, from ``start`` on; -1 if it is missing."""
    while start < word.size and not _is_vowel(word.text[start]):
        start += 1
    while start < word.size and _is_vowel(word.text[start]):
        start += 1
    return start + 1 if start < word.size else -1


cdef void _mark_regions(Word* word) noexcept:
    """Set ``r1`` and ``r2``, the starts of Porter2's regions R1 and R2.

    Each begins after a consonant that follows a vowel, R2 within R1. After some prefixes, R1 begins by definition.
    """
    cdef Py_ssize_t start
    word.r1 = word.r2 = word.size
    if _has_prefix(word, b"gener", 5) or _has_prefix(word, b"inter", 5) or _has_prefix(word, b"later", 5):
        start = 5
    elif _has_prefix(word, b"organ", 5) or _has_prefix(word, b"emerg", 5) or _has_prefix(word, b"arsen", 5):
        start = 5
    elif _has_prefix(word, b"past", 4):
        start = 4
    elif _has_prefix(word, b"commun", 6):
        start = 6
    elif _has_prefix(word, b"univers", 7):
        start = 7
    else:
        start = _find_region(word, 0)
    if start < 0:
        return
    word.r1 = start
    start = _find_region(word, start)
    if start >= 0:
        word.r2 = start


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
        word.size -= 2 if word.size >= 5 else 1  # cries: cri; ties: tie
    elif _has_suffix(word, b"s", 1) and not _has_suffix(word, b"ss", 2) and not _has_suffix(word, b"us", 2):
        if _has_vowel_before(word, word.size - 2):
            word.size -= 1


cdef void _apply_step_1b(Word* word) noexcept:
    """Remove ``ed``, ``ing`` and their adverbs after a vowel, and restore the end of the verb: ``hoping``, ``hope``.

    ``eed`` and ``eedly`` in R1 become ``ee``.
    """
    cdef Py_ssize_t suffix
    cdef Py_ssize_t stem_end
    cdef Py_UCS4 last
    if _has_suffix(word, b"eed", 3) or _has_suffix(word, b"eedly", 5):
        suffix = 3 if word.text[word.size - 1] == u"d" else 5
        stem_end = word.size - suffix
        if word.r1 <= stem_end and not (  # succeed, proceed and exceed stay unchanged
            (stem_end == 4 and (_has_prefix(word, b"succ", 4) or _has_prefix(word, b"proc", 4)))
            or (stem_end == 3 and _has_suffix_at(word, stem_end, b"exc", 3))
        ):
            word.size = stem_end + 2
        return
    if _has_suffix(word, b"ed", 2):
        suffix = 2
    elif _has_suffix(word, b"edly", 4):
        suffix = 4
    elif _has_suffix(word, b"ingly", 5):
        suffix = 5
    elif _has_suffix(word, b"ing", 3):
        suffix = 3
        stem_end = word.size - 3
        if stem_end == 2 and word.text[1] == u"y" and not _is_vowel(word.text[0]):
            _replace_suffix(word, 4, b"ie", 2)  # dying: die
            return
        # evening, canning, earring, herring, inning and outing are nouns that stay unchanged.
        if (
            (stem_end == 4 and (_has_prefix(word, b"even", 4) or _has_prefix(word, b"cann", 4)
                          or _has_prefix(word, b"earr", 4) or _has_prefix(word, b"herr", 4)))
            or (stem_end == 3 and (_has_prefix(word, b"inn", 3) or _has_prefix(word, b"out", 3)))
        ):
            return
    else:
        return
    stem_end = word.size - suffix
    if not _has_vowel_before(word, stem_end):
        return
    word.size = stem_end
    if _has_suffix(word, b"at", 2) or _has_suffix(word, b"bl", 2) or _has_suffix(word, b"iz", 2):
        word.text[stem_end] = u"e"
        word.size += 1
        return
    last = word.text[stem_end - 1]
    if stem_end >= 2 and last == word.text[stem_end - 2] and (
        last == u"b" or last == u"d" or last == u"f" or last == u"g" or last == u"m" or last == u"n" or last == u"p"
        or last == u"r" or last == u"t"
    ):
        if not (stem_end == 3 and (word.text[0] == u"a" or word.text[0] == u"e" or word.text[0] == u"o")):
            word.size -= 1
    elif stem_end == word.r1 and _ends_in_short_syllable(word, stem_end):
        word.text[stem_end] = u"e"
        word.size += 1


cdef void _apply_step_1c(Word* word) noexcept:
    """Replace a final y with i after a consonant: ``cry``, ``cri``."""
    cdef Py_UCS4 last
    if word.size < 3:
        return
    last = word.text[word.size - 1]
    if (last == u"y" or last == u"Y") and not _is_vowel(word.text[word.size - 2]):
        word.text[word.size - 1] = u"i"


cdef struct Rule:
    const char* suffix
    Py_ssize_t length
    const char* replacement
    Py_ssize_t replacement_length


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
    """Return the index of the first rule whose suffix the word has, or -1."""
    cdef Py_ssize_t i
    for i in range(count):
        if _has_suffix(word, rules[i].suffix, rules[i].length):
            return i
    return -1


cdef void _apply_step_2(Word* word) noexcept:
    """Replace or remove a derivational suffix in R1: ``rationalization`` becomes ``rationalize``."""
    cdef Py_ssize_t rule = _find_rule(word, _STEP_2, sizeof(_STEP_2) // sizeof(Rule))
    cdef Py_ssize_t stem_end
    cdef Py_UCS4 before
    if rule < 0:
        return
    stem_end = word.size - _STEP_2[rule].length
    if word.r1 > stem_end:
        return
    if rule == _STEP_2_OGI or rule == _STEP_2_LI:
        before = word.text[stem_end - 1] if stem_end > 0 else u" "
        if rule == _STEP_2_OGI and before != u"l":
            return
        if rule == _STEP_2_LI and before not in u"cdeghkmnrt":
            return
    _replace_suffix(word, _STEP_2[rule].length, _STEP_2[rule].replacement, _STEP_2[rule].replacement_length)


cdef void _apply_step_3(Word* word) noexcept:
    """Shorten or remove a second derivational suffix in R1, or ``ative`` in R2."""
    cdef Py_ssize_t rule = _find_rule(word, _STEP_3, sizeof(_STEP_3) // sizeof(Rule))
    cdef Py_ssize_t stem_end
    if rule < 0:
        return
    stem_end = word.size - _STEP_3[rule].length
    if word.r1 <= stem_end and (rule != _STEP_3_ATIVE or word.r2 <= stem_end):
        _replace_suffix(word, _STEP_3[rule].length, _STEP_3[rule].replacement, _STEP_3[rule].replacement_length)


cdef void _apply_step_4(Word* word) noexcept:
    """Remove a derivational suffix in R2; ``ion`` only after s or t."""
    cdef Py_ssize_t rule = _find_rule(word, _STEP_4, sizeof(_STEP_4) // sizeof(Rule))
    cdef Py_ssize_t stem_end
    if rule < 0:
        return
    stem_end = word.size - _STEP_4[rule].length
    if word.r2 > stem_end:
        return
    if rule == _STEP_4_ION and (
        stem_end == 0 or (word.text[stem_end - 1] != u"s" and word.text[stem_end - 1] != u"t")
    ):
        return
    word.size = stem_end


cdef void _apply_step_5(Word* word) noexcept:
    """Remove a final e that follows no short syllable, and the second l of ``ll``."""
    cdef Py_ssize_t last = word.size - 1
    if last < 0:
        return
    if word.text[last] == u"e":
        if word.r2 <= last or (word.r1 <= last and not _ends_in_short_syllable(word, last)):
            word.size = last
    elif word.text[last] == u"l" and word.r2 <= last and last > 0 and word.text[last - 1] == u"l":
        word.size = last


cdef bint _stem_in_place(Word* word) noexcept:
    """Stem a word of at least three letters in place; return True if a consonant y was temporarily written Y.

    ``word.text`` then begins after a leading apostrophe.
    """
    cdef Py_ssize_t i
    cdef bint has_marked_y = False
    if word.text[0] == u"'":
        word.text += 1
        word.size -= 1
    if word.text[0] == u"y":
        word.text[0] = u"Y"
        has_marked_y = True
    for i in range(1, word.size):
        if word.text[i] == u"y" and _is_vowel(word.text[i - 1]):
            word.text[i] = u"Y"
            has_marked_y = True
    _mark_regions(word)
    _apply_step_1a(word)
    _apply_step_1b(word)
    _apply_step_1c(word)
    _apply_step_2(word)
    _apply_step_3(word)
    _apply_step_4(word)
    _apply_step_5(word)
    if has_marked_y:
        for i in range(word.size):
            if word.text[i] == u"Y":
                word.text[i] = u"y"
    return has_marked_y


def stem_english(str word not None) -> str:
    """Return the stem of an English word in lower case by Snowball's English stemmer (Porter2).

    >>> stem_english("organizations"), stem_english("queries"), stem_english("dying")
    ('organ', 'queri', 'die')
    """
    cdef Py_UCS4[_STACK_BUFFER_SIZE] stack_buffer
    cdef vector[Py_UCS4] heap_buffer
    cdef Word stem
    cdef bint has_marked_y
    cdef Py_ssize_t size = len(word)
    if size < 3:
        return word
    if size <= _MAX_EXCEPTION_LENGTH:
        exceptional_stem = _EXCEPTIONS.get(word)
        if exceptional_stem is not None:
            return exceptional_stem
    if size <= _STACK_BUFFER_SIZE:
        stem.text = &stack_buffer[0]
    else:
        heap_buffer.resize(size)
        stem.text = heap_buffer.data()
    PyUnicode_AsUCS4(word, stem.text, size, False)
    stem.size = size
    has_marked_y = _stem_in_place(&stem)
    # Return an unchanged word itself. Rules that keep the length change only the last letter; but if a y was written Y,
    # then a capital Y of the word is now a y.
    if not has_marked_y and stem.size == size and stem.text[size - 1] == word[size - 1]:
        return word
    return PyUnicode_FromKindAndData(_UCS4, stem.text, stem.size)
