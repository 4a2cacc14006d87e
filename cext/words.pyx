# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Splitting of a text into words in one pass, to count terms and tokens and to find pieces of names.

In: any string. Letters, digits and white space are those of Python's regular expressions (``\\w`` and so on, as quoted
below). A character of Chinese or Japanese writing, which has no spaces, is a word by itself. Out: counts, a size,
words, pieces of the text. No object is created for a word that is only counted or skipped.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.vector cimport vector

cdef extern from "Python.h":
    # Unlike text[i], it is inlined.
    Py_UCS4 read_character "PyUnicode_READ_CHAR"(str text, Py_ssize_t position) noexcept

cdef enum:
    MAX_TOKEN_CHARACTERS = 64  # a longer word is several tokens
    MAX_CODE_CHARACTERS = 100
    MAX_EMPHASIS_CHARACTERS = 60
    MAX_GAP_WORDS = 3  # words in lower case after a capitalized word that can still be part of a name
    MIN_COLUMN_SPACES = 4  # so many spaces separate columns

#: The hash of no characters (FNV-1a).
cdef uint64_t EMPTY_HASH = 0xCBF29CE484222325ULL


cdef struct Word:
    uint64_t hash
    Py_ssize_t start
    Py_ssize_t end
    Py_ssize_t count
    bint has_underscore
    bint is_technical  # a technical token, which is counted unchanged


cdef bint[128] WORD_CHARACTERS
for _code in range(128):
    WORD_CHARACTERS[_code] = chr(_code).isalnum() or chr(_code) == "_"


cdef inline bint _is_word_character(Py_UCS4 c) noexcept:
    """True if a character is a letter, a digit or another character of words."""
    return WORD_CHARACTERS[c] if c < 128 else c.isalnum()


cdef inline bint _is_unspaced(Py_UCS4 c) noexcept:
    """True if a character belongs to writing without spaces (kvstore.text.words.UNSPACED): it is a word by itself."""
    if c < 0x2E80:
        return c >= 0x0E00 and (c <= 0x0EFF or 0x1000 <= c <= 0x109F or 0x1780 <= c <= 0x17FF)
    return (
        c <= 0x30FF or 0x3100 <= c <= 0x312F or 0x31A0 <= c <= 0x31BF or 0x31F0 <= c <= 0x31FF
        or 0x3400 <= c <= 0x4DBF or 0x4E00 <= c <= 0x9FFF or 0xF900 <= c <= 0xFAFF or 0x20000 <= c <= 0x3FFFF
    )


cdef inline bint _is_spaced(Py_UCS4 c) noexcept:
    """True if a character belongs to words of writing with spaces."""
    return WORD_CHARACTERS[c] if c < 128 else c.isalnum() and not _is_unspaced(c)


def count_tokens(str text) -> int:
    """Return the number of tokens, words and single marks, in a text.

    A token is a match of ``[UNSPACED]|[^\\W UNSPACED]{1,64}|[^\\w\\s]``.
    """
    cdef Py_ssize_t size = len(text), position = 0, start, count = 0
    while position < size:
        start = position
        while position < size and _is_spaced(read_character(text, position)):
            position += 1
        count += (position - start + MAX_TOKEN_CHARACTERS - 1) // MAX_TOKEN_CHARACTERS
        if position == start:
            count += not read_character(text, position).isspace()
            position += 1
    return count


def find_words(str text not None, Py_ssize_t min_length=1) -> list:
    """Return the words of a text, in order: the matches of ``[UNSPACED]|[^\\W UNSPACED]+``.

    Words of fewer than ``min_length`` characters are omitted, except those of writing without spaces.
    """
    cdef Py_ssize_t size = len(text), position = 0, start
    words = []
    while position < size:
        start = position
        while position < size and _is_spaced(read_character(text, position)):
            position += 1
        if position > start and position - start >= min_length:
            words.append(text[start:position])
        if position < size:
            if _is_unspaced(read_character(text, position)) and _is_word_character(read_character(text, position)):
                words.append(text[position:position + 1])
            position += 1
    return words


def find_term_words(str text not None) -> list:
    """Return the words of a text that become its question terms, in order.

    These are the matches of ``[^\\W UNSPACED]+``, each pair of consecutive ``[UNSPACED]`` characters, and each
    ``[UNSPACED]`` character without such a neighbor.
    """
    cdef Py_ssize_t size = len(text), position = 0, start
    cdef bint is_paired = False  # the previous character is in a pair
    words = []
    while position < size:
        start = position
        while position < size and _is_spaced(read_character(text, position)):
            position += 1
        if position > start:
            words.append(text[start:position])
            is_paired = False
        if position < size:
            if not _is_word_character(read_character(text, position)):
                is_paired = False
            elif (
                position + 1 < size and _is_word_character(read_character(text, position + 1))
                and _is_unspaced(read_character(text, position + 1))
            ):
                words.append(text[position:position + 2])
                is_paired = True
            elif not is_paired:
                words.append(text[position:position + 1])
            position += 1
    return words


cdef class WordSet:
    """A set of words that is matched against texts, case-sensitively."""

    cdef frozenset _words
    cdef vector[uint64_t] _hashes  # a hash table; 0 is a free slot, and at most half of the slots are used
    cdef Py_ssize_t _longest

    def __cinit__(self, words) -> None:
        """Build the hash table of the words."""
        cdef uint64_t hash
        cdef size_t slot
        cdef str word
        self._words = frozenset(words)
        self._longest = max(map(len, self._words), default=0)
        # A hash table with linear probing; it is at most half full, and 0 is a free slot.
        self._hashes.assign(1 << (2 * len(self._words)).bit_length(), 0)
        for word in self._words:
            hash = _hash_word(word, 0, len(word))
            slot = hash & (self._hashes.size() - 1)
            while self._hashes[slot]:
                slot = (slot + 1) & (self._hashes.size() - 1)
            self._hashes[slot] = hash

    def count(self, str text not None) -> tuple[int, int, int]:
        """Return three counts: runs of letters in a text that are in the set, all runs of letters, and their letters.

        A run of letters is a match of ``[^\\W\\d_]+``.
        """
        cdef Py_ssize_t size = len(text), position = 0, start, num_in_set = 0, num_runs = 0, num_letters = 0
        while position < size:
            start = position
            while position < size and _is_letter(text, position):
                position += 1
            if position == start:
                position += 1
                continue
            num_runs += 1
            num_letters += position - start
            if position - start <= self._longest and self._contains(_hash_word(text, start, position)):
                num_in_set += text[start:position] in self._words
        return num_in_set, num_runs, num_letters

    cdef bint _contains(self, uint64_t hash) noexcept:
        """True if the set has a word with this hash: almost always the same word."""
        cdef size_t slot = hash & (self._hashes.size() - 1)
        while self._hashes[slot]:
            if self._hashes[slot] == hash:
                return True
            slot = (slot + 1) & (self._hashes.size() - 1)
        return False


def count_members(str text not None, WordSet first_set not None, WordSet second_set not None) -> tuple[int, int]:
    """Return the numbers of words of a text that are in each set; the words are those of :func:`find_words`.

    No set may contain a single character that is not a word, such as ``-``: it would be counted like a word.
    """
    cdef Py_ssize_t size = len(text), position = 0, start, num_in_first = 0, num_in_second = 0
    cdef Py_ssize_t longest = max(first_set._longest, second_set._longest)
    cdef uint64_t hash
    while position < size:
        start = position
        while position < size and _is_spaced(read_character(text, position)):
            position += 1
        position += position == start  # a character of writing without spaces is a word by itself
        if position - start <= longest:
            hash = _hash_word(text, start, position)
            if first_set._contains(hash):
                num_in_first += text[start:position] in first_set._words
            if second_set._contains(hash):
                num_in_second += text[start:position] in second_set._words
    return num_in_first, num_in_second


cdef inline uint64_t _extend_hash(uint64_t hash, Py_UCS4 c) noexcept:
    """Return the hash of a word (FNV-1a), given the hash of the word without its last character ``c``."""
    return (hash ^ <uint64_t> c) * 0x100000001B3ULL


cdef inline uint64_t _hash_word(str text, Py_ssize_t start, Py_ssize_t end) noexcept:
    """Return the hash of the part of a text from ``start`` to ``end``, never 0."""
    cdef uint64_t hash = EMPTY_HASH
    for position in range(start, end):
        hash = _extend_hash(hash, read_character(text, position))
    return (hash ^ hash >> 32) | 1


def count_terms(str text, stem, excluded, bint technical=False) -> dict:
    """Return the number of occurrences of each stem of the words of a text, in order of first occurrence.

    ``stem`` is a function that returns the stem of a word.

    A word is a match of ``[UNSPACED]{1,2}|[^\\W UNSPACED]+``, where UNSPACED are the characters of writing without
    spaces, such as Chinese: each of them and each bigram is a word. The words in ``excluded`` are not counted.

    With ``technical``, also count technical tokens unchanged, each before the words in it, and the stems of the parts
    that underscores join, after the whole: see kvstore.text.words.
    """
    cdef Py_ssize_t size = len(text), position = 0, last_end = 0, stop
    cdef vector[Word] words
    cdef vector[int32_t] slots  # a hash table: the index of a word, -1 if free; at most half are used
    cdef Word word
    cdef size_t num_slots = 4
    cdef Py_UCS4 c
    while num_slots <= <size_t> (size if text.isascii() else 2 * size):
        num_slots *= 2
    slots.assign(num_slots, -1)
    while position < size:
        word.start, word.hash = position, EMPTY_HASH
        word.has_underscore = word.is_technical = False
        while position < size:
            c = read_character(text, position)
            if not _is_word_character(c):
                break
            if _is_unspaced(c):
                if position == word.start:
                    word.hash = _extend_hash(word.hash, c)
                    position += 1
                break
            word.has_underscore |= c == u"_"
            word.hash = _extend_hash(word.hash, c)
            position += 1
        word.end = position
        if word.end == word.start:
            position += 1
            continue
        if technical and word.start >= last_end:
            stop = _count_technical_token(text, word.start, words, slots)
            last_end = max(last_end, stop)
        _count_word(text, word, words, slots)
        if (
            position < size and word.end == word.start + 1 and _is_unspaced(read_character(text, position))
            and _is_word_character(read_character(text, position)) and _is_unspaced(read_character(text, word.start))
        ):
            word.end += 1
            word.hash = _extend_hash(word.hash, read_character(text, position))
            _count_word(text, word, words, slots)
    counts = {}
    for word in words:
        written = text[word.start:word.end]
        if word.is_technical:
            counts[written] = counts.get(written, 0) + word.count
        elif written not in excluded:
            term = stem(written)
            counts[term] = counts.get(term, 0) + word.count
            if technical and word.has_underscore:
                for part in written.split("_"):
                    if part and part != written:
                        term = stem(part)
                        counts[term] = counts.get(term, 0) + word.count
    return counts


cdef inline Py_ssize_t _count_technical_token(
    str text, Py_ssize_t start, vector[Word]& words, vector[int32_t]& slots
) except -1:
    """Count the technical token whose first word starts at ``start``. Return the end of its last word, or 0 for none.

    A token is technical if it has a prefix or suffix, or a mark other than a hyphen inside.
    """
    cdef Word token
    cdef Py_ssize_t end = start, next_end
    cdef Py_ssize_t token_start = _find_prefix_start(text, start)
    cdef bint is_marked = token_start < start
    cdef Py_UCS4 c
    while True:
        while end < len(text) and _is_word_character(read_character(text, end)):
            end += 1
        if end >= len(text):
            break
        c = read_character(text, end)
        if c not in u"-./\\@:":
            break
        next_end = end + 2 if c == u":" and _has_character(text, end + 1, u":") else end + 1
        if next_end >= len(text) or not _is_word_character(read_character(text, next_end)):
            break
        is_marked |= c != u"-"
        end = next_end
    next_end = _find_suffix_end(text, end)
    if not is_marked and next_end == end:
        return 0
    token.start, token.end, token.hash = token_start, next_end, _hash_word(text, token_start, next_end)
    token.is_technical, token.has_underscore = True, False
    _count_word(text, token, words, slots)
    return end


cdef inline Py_ssize_t _find_prefix_start(str text, Py_ssize_t start) noexcept:
    """Return the start of a technical token whose first word starts at ``start``, which may have a prefix.

    The prefix is a match of
    ``(?<![\\w-])--?(?=[^\\W\\d])|(?<!\\w)[$@#%\\\\](?=\\w)|(?<![\\w/.~])(?:~|\\.{1,2})?/(?=\\w)``.
    """
    cdef Py_ssize_t position
    cdef Py_UCS4 c = read_character(text, start - 1) if start > 0 else u" "
    if c == u"-":
        position = start - 2 if start > 1 and read_character(text, start - 2) == u"-" else start - 1
        if read_character(text, start).isdecimal() or (
            position > 0
            and (read_character(text, position - 1) == u"-" or _is_word_character(read_character(text, position - 1)))
        ):
            return start
        return position
    if c in u"$@#%\\":
        return start if start > 1 and _is_word_character(read_character(text, start - 2)) else start - 1
    if c == u"/":
        position = start - 1
        if position > 0 and read_character(text, position - 1) == u"~":
            position -= 1
        elif position > 0 and read_character(text, position - 1) == u".":
            position -= 2 if position > 1 and read_character(text, position - 2) == u"." else 1
        if position > 0 and (
            read_character(text, position - 1) in u"/.~" or _is_word_character(read_character(text, position - 1))
        ):
            return start
        return position
    return start


cdef inline Py_ssize_t _find_suffix_end(str text, Py_ssize_t end) noexcept:
    """Return the end of a technical token whose last word ends at ``end``, which may have a suffix.

    The suffix is a match of ``\\(\\w{0,2}\\)|\\+\\+(?!\\w)|#(?!\\w)``.
    """
    cdef Py_ssize_t position = end + 1
    if _has_character(text, end, u"("):
        while position < len(text) and position < end + 3 and _is_word_character(read_character(text, position)):
            position += 1
        return position + 1 if _has_character(text, position, u")") else end
    if _has_character(text, end, u"+"):
        if not _has_character(text, position, u"+"):
            return end
        position += 1
        return end if position < len(text) and _is_word_character(read_character(text, position)) else position
    if _has_character(text, end, u"#"):
        return end if position < len(text) and _is_word_character(read_character(text, position)) else position
    return end


cdef inline int _count_word(str text, Word word, vector[Word]& words, vector[int32_t]& slots) except -1:
    """Add 1 to the count of a word, which is in ``words``, or append it with the count 1.

    ``slots`` is the hash table of the indexes in ``words``, with linear probing.
    """
    cdef size_t slot = (word.hash ^ word.hash >> 32) & (slots.size() - 1)
    while slots[slot] >= 0:
        if _is_same_word(text, words[slots[slot]], word):
            words[slots[slot]].count += 1
            return 0
        slot = (slot + 1) & (slots.size() - 1)
    slots[slot] = <int32_t> words.size()
    word.count = 1
    words.push_back(word)
    return 0


cdef inline bint _is_same_word(str text, Word word, Word other) noexcept:
    """True if two words of a text have the same characters."""
    cdef Py_ssize_t i
    if word.hash != other.hash or word.end - word.start != other.end - other.start:
        return False
    for i in range(word.end - word.start):
        if read_character(text, word.start + i) != read_character(text, other.start + i):
            return False
    return True


# -- Pieces of names


def list_name_pieces(str text, set lower, set upper) -> list:
    """Return the pieces of a sentence that may be part of a name, end one, or open the sentence, in order.

    A piece is a word (with inner hyphens, apostrophes and dots, and a final dot), an option (``-O``), code in
    backticks, a term in asterisks, a gap between columns (four spaces or more), a hyphen at the end of a word with the
    space after it, or any other mark. After a word that begins with a capital or a digit, at most three words in lower
    case are pieces, and none after a mark (one after a slash, an ampersand or a hyphen at the end of a word). A word
    that opens the sentence and an identifier with an underscore are always pieces.

    All words in lower case are added to ``lower``, unless they are part of an address or a path. Words that begin with
    a capital and do not open the sentence are added to ``upper``, without final dots. The word after a number that
    opens the sentence, an identifier with an underscore, a colon, a bar, an opening bracket or a gap between columns
    also opens the sentence.
    """
    cdef Py_ssize_t size = len(text), position = 0, end, undotted_end
    cdef Py_ssize_t gap_words = MAX_GAP_WORDS  # words since the last one after which a name may continue
    cdef bint is_opened = False, identifier
    cdef Py_UCS4 c
    pieces = []
    while position < size:
        c = read_character(text, position)
        if c.isspace():
            end = position
            while end < size and read_character(text, end) == u" ":
                end += 1
            if (
                end >= position + MIN_COLUMN_SPACES and position > 0
                and not read_character(text, position - 1).isspace()
            ):
                pieces.append(text[position:end])
                gap_words, is_opened = MAX_GAP_WORDS, False
            position = max(end, position + 1)
            continue
        if c != u"_" and _is_word_character(c):
            end = undotted_end = _find_word_end(text, position)
            while read_character(text, undotted_end - 1) == u".":
                undotted_end -= 1
            if c.islower():
                if not _is_in_address(text, position, end):
                    lower.add(text[position:undotted_end])
            elif is_opened and c.isupper():
                upper.add(text[position:undotted_end])
            gap_words = 0 if c.isupper() or c.isdigit() else gap_words + 1
            identifier = text.find(u"_", position, end) >= 0
            if gap_words <= MAX_GAP_WORDS or not is_opened or identifier:
                pieces.append(text[position:end])
            is_opened = not identifier and (is_opened or not c.isdigit())
        else:
            end = position + 1
            if c == u"`":
                end = _find_code_end(text, position)
            elif c == u"*":
                end = _find_emphasis_end(text, position)
            elif c == u"-":
                end = _find_option_end(text, position)
                if (
                    position > 0 and _is_word_character(read_character(text, position - 1))
                    and position + 1 < size and read_character(text, position + 1) in u" \n"
                ):
                    end = position + 2
            # The pieces in between show whether a word directly follows a slash, an ampersand or a broken word.
            gap_words = MAX_GAP_WORDS - (c in u"/&" or (c == u"-" and read_character(text, end - 1) in u" \n"))
            is_opened = (is_opened or (end > position + 1 and c in u"`*")) and c not in u":|(["
            pieces.append(text[position:end])
        position = end
    return pieces


cdef inline bint _is_letter(str text, Py_ssize_t position) noexcept:
    """True if the text has a letter at an offset, which may be its end."""
    cdef Py_UCS4 c = read_character(text, position) if position < len(text) else u" "
    if c < 128:
        return u"a" <= c <= u"z" or u"A" <= c <= u"Z"
    return c.isalnum() and not c.isdecimal()


cdef inline bint _has_character(str text, Py_ssize_t position, Py_UCS4 c) noexcept:
    """True if the text has this character at an offset, which may be its end."""
    return position < len(text) and read_character(text, position) == c


cdef Py_ssize_t _find_word_end(str text, Py_ssize_t start) noexcept:
    """Return the end of the word that starts at ``start``.

    It is a match of
    ``(?:[^\\W\\d_]\\.){2,}|[^\\W_]\\w*(?:(?:[-'’&](?=\\w)|\\.(?=[^\\W\\d_]\\.))\\w*)*\\.?``.
    """
    cdef Py_ssize_t size = len(text), position = start
    cdef Py_UCS4 c
    while _is_letter(text, position) and _has_character(text, position + 1, u"."):
        position += 2
    if position >= start + 4:
        return position
    position = start
    while position < size:
        c = read_character(text, position)
        if not (
            _is_word_character(c)
            or (c in u"-'’&" and position + 1 < size and _is_word_character(read_character(text, position + 1)))
            or (c == u"." and _is_letter(text, position + 1) and _has_character(text, position + 2, u"."))
        ):
            break
        position += 1
    return position + _has_character(text, position, u".")


cdef inline bint _is_in_address(str text, Py_ssize_t start, Py_ssize_t end) noexcept:
    """True if a word is part of an address or a path, such as ``ada@example.org``, ``/usr/lib``.

    That is a match of ``(?<=[@/\\\\.~])WORD|WORD(?=[@/\\\\])|WORD(?<=\\.)(?=\\w)``.
    """
    cdef Py_UCS4 c
    if start > 0 and read_character(text, start - 1) in u"@/\\.~":
        return True
    if end == len(text):
        return False
    c = read_character(text, end)
    return c in u"@/\\" or (read_character(text, end - 1) == u"." and _is_word_character(c))


cdef Py_ssize_t _find_option_end(str text, Py_ssize_t start) noexcept:
    """Return the end of the option (``-O``, ``--all``) that starts at ``start``, else the end of the first hyphen.

    An option is a match of ``(?<![^\\s(\\[|,])--?(?=[^\\W\\d_])WORD``.
    """
    cdef Py_ssize_t position = start + 1
    if start > 0 and not (read_character(text, start - 1).isspace() or read_character(text, start - 1) in u"([|,"):
        return start + 1
    position += _has_character(text, position, u"-")
    return _find_word_end(text, position) if _is_letter(text, position) else start + 1


cdef Py_ssize_t _find_code_end(str text, Py_ssize_t start) noexcept:
    """Return the end of the code in backticks that starts at ``start``, or of its first backtick if it is not closed.

    Code has 1 to 100 characters on one line.
    """
    cdef Py_ssize_t position = start + 1
    while (
        position < len(text) and position <= start + MAX_CODE_CHARACTERS
        and read_character(text, position) not in u"`\n"
    ):
        position += 1
    return position + 1 if position > start + 1 and _has_character(text, position, u"`") else start + 1


cdef Py_ssize_t _find_emphasis_end(str text, Py_ssize_t start) noexcept:
    """Return the end of the emphasized text that starts at ``start``, or of its first asterisk if it is not emphasized.

    It is a match of ``(?<![\\w*])\\*{1,2}(?=[^\\s*])[^*\\n]{2,60}?(?<=[^\\s*])\\*{1,2}(?![\\w*])``.
    """
    cdef Py_ssize_t content_start, end, stars_end
    if start > 0 and (read_character(text, start - 1) == u"*" or _is_word_character(read_character(text, start - 1))):
        return start + 1
    content_start = end = _find_stars_end(text, start)
    while (
        end < len(text) and end <= content_start + MAX_EMPHASIS_CHARACTERS
        and read_character(text, end) not in u"*\n"
    ):
        end += 1
    stars_end = _find_stars_end(text, end)
    if (
        content_start - start > 2
        or not 2 <= end - content_start <= MAX_EMPHASIS_CHARACTERS
        or read_character(text, content_start).isspace()
        or read_character(text, end - 1).isspace()
        or not 1 <= stars_end - end <= 2
        or (stars_end < len(text) and _is_word_character(read_character(text, stars_end)))
    ):
        return start + 1
    return stars_end


cdef inline Py_ssize_t _find_stars_end(str text, Py_ssize_t end) noexcept:
    """Return the end of the asterisks that start at ``end``; ``end`` itself if there are none."""
    while _has_character(text, end, u"*"):
        end += 1
    return end
