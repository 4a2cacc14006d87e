"""The normal form of names and text: NFKC, case folding, letters without accents. To *fold* is to convert to it. A
*key* is the normal form of a name, with single spaces. Offsets map the folded text, as UTF-8, back to the original. A
*cluster* is a character with its combining marks.

Letters of Arabic and Hebrew have no vowel signs, one form of alef, yeh, kaf and final letters, and digits are ASCII.

In: a ``str``. Out: :func:`to_entity_key`, the key under which a name is stored, or :class:`FoldedText`, a whole text in
the same form as UTF-8, with the mapping back to byte offsets of the original. A name *occurs* in a text where its key
occurs in the folded text: runs of white space count as one space, neither end divides a word, and there is no blank
line inside.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from array import array
from functools import lru_cache
from typing import Literal, NamedTuple

from kvstore_cext.folding import fold_pieces

from .patterns import compile_lazily

#: Words of up to this many characters repeat often, and their normal forms are cached.
_MAX_CACHED_LENGTH = 40


#: Letters with a stroke and ligatures, which no decomposition covers.
_STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d"})
#: Letters of Latin and Greek that can carry accents in one character, and combining accents after any of them. In
#: other scripts the marks are part of the letter ("й", "が").
_ACCENTED_PATTERN = compile_lazily(
    "[\u00c0-\u024f\u1e00-\u1fff\u0370-\u03ff]|(?<=[a-z\u00c0-\u024f\u1e00-\u1fff\u0370-\u03ff])[\u0300-\u036f]+"
)


#: Letters of Arabic (with those of Persian keyboards) and Hebrew that are written in several ways, digits, and the mark
#: that stretches Arabic words. Teh marbuta stays, because the stemmer removes it: with heh in its place, hit@1 by words
#: falls from .88 to .85 on 548 Arabic questions of XQuAD.
_LETTER_FORMS = str.maketrans(
    {
        **dict.fromkeys("\u0623\u0625\u0622\u0671", "\u0627"),  # alef with hamza, madda or wasla
        **dict.fromkeys("\u0649\u06cc\u0626", "\u064a"),  # alef maksura, Persian yeh, yeh with hamza
        "\u0624": "\u0648",  # waw with hamza
        "\u06a9": "\u0643",  # Persian kaf
        "\u0640": None,  # tatweel
        **dict(zip("\u05da\u05dd\u05df\u05e3\u05e5", "\u05db\u05de\u05e0\u05e4\u05e6", strict=True)),  # final letters
        **{chr(zero + digit): str(digit) for zero in (0x0660, 0x06F0) for digit in range(10)},
    }
)
#: Vowel signs and other marks above and below letters of Hebrew and Arabic.
_VOWEL_SIGN_PATTERN = compile_lazily(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]+"
)
#: Words of Latin letters and punctuation. These characters do not combine with each other, so the normal form of such a
#: word consists of the normal forms of its characters.
_SEPARATE_PATTERN = compile_lazily("[\\x00-\u024f\u2010-\u203a]+")
#: Runs of at least this many combining marks are ordered before they are normalized; no real text has such runs.
_MIN_ORDERED_MARKS = 64
#: Letters, and ranges without combining marks: ASCII, punctuation, symbols, emoji.
_NO_MARK = r"\x00-\u02ff\u2000-\u20cf\u2100-\u2cee\u2e00-\u3029\uff00-\uffff\U0001f000-\U0001ffff\w\s"
_POSSIBLE_MARK_PATTERN = compile_lazily(f"[^{_NO_MARK}]")
_LONG_MARKS_PATTERN = compile_lazily(f"[^{_NO_MARK}]{{{_MIN_ORDERED_MARKS},}}")
#: The first and last character of Hebrew and Arabic.
SEMITIC_RANGE = ("\u0590", "\u06ff")
_SEMITIC_PATTERN = compile_lazily(f"[{'-'.join(SEMITIC_RANGE)}]")


def to_nfc(text: str) -> str:
    """Return a text in Unicode normal form C, in which an accented letter is one character."""
    return text if text.isascii() else normalize("NFC", text)


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a Unicode normal form, in linear time.

    ``unicodedata.normalize`` sorts the marks after a letter by insertion, in quadratic time. Decomposed and ordered
    marks have the same normal forms, so long runs of them are ordered first.
    """
    # The sample of every 64th character has a character of each long run.
    if len(text) >= _MIN_ORDERED_MARKS and _POSSIBLE_MARK_PATTERN.search(text[::_MIN_ORDERED_MARKS]):
        text = _LONG_MARKS_PATTERN.sub(_order_marks, text)
    return unicodedata.normalize(form, text)


def _order_marks(match: re.Match[str]) -> str:
    """Return the matched characters decomposed, with consecutive combining marks in canonical order."""
    decomposed = "".join(unicodedata.normalize("NFD", character) for character in match.group())
    runs = itertools.groupby(decomposed, key=lambda character: unicodedata.combining(character) > 0)
    return "".join("".join(sorted(run, key=unicodedata.combining)) for _, run in runs)


def fold_without_offsets(text: str) -> str:
    """Return a text in normal form (NFKC, case folding, no accents) with its white space unchanged.

    The whole text is folded at once, so no offsets in the original are known.
    """
    if text.isascii():
        return text.lower()
    # Case folding can undo composition, and composition can create characters that fold again. Doing both twice reaches
    # a fixed point for all of Unicode 15.
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    folded = _ACCENTED_PATTERN.sub(_strip_accents, normalize("NFKC", folded.casefold()))
    if _SEMITIC_PATTERN.search(folded) is None:
        return folded
    return _VOWEL_SIGN_PATTERN.sub("", folded).translate(_LETTER_FORMS)


def _strip_accents(match: re.Match[str]) -> str:
    """Return the matched letter or combining marks without accents, strokes and ligatures."""
    decomposed = unicodedata.normalize("NFD", match.group())
    # From U+0300 to U+036F are the combining diacritical marks.
    letters = "".join(character for character in decomposed if not "\u0300" <= character <= "\u036f")
    return letters.translate(_STROKES)


def to_entity_key(name: str) -> str:
    """Return the normal form of ``name`` (case folded, without accents, single spaces); equal keys are one entity.

    >>> to_entity_key("  Ludwig\\u00a0van  BEETHOVEN ")
    'ludwig van beethoven'
    """
    return " ".join((name.lower() if name.isascii() else fold_text(name)).split())


def fold_text(text: str) -> str:
    """Return a text in normal form (NFKC, case folding, no accents), with its white space unchanged.

    The normal forms of short words are cached.
    """
    if text.isascii():
        return text.lower()
    try:
        return fold_to_bytes(text).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, which a question can contain
        return fold_without_offsets(text)


class FoldedText(NamedTuple):
    """A text in normal form with its white space unchanged.

    ``data`` is its UTF-8. ``offsets[i]`` is the byte of the original text at which byte ``i`` of ``data`` begins
    (``len(data) + 1`` numbers), or None if they agree byte for byte.
    """

    data: bytes
    offsets: array[int] | None

    def to_original_span(self, start: int, end: int) -> tuple[int, int]:
        """Convert a span of ``data``, which must not be empty, to (start, end) in the original text.

        All offsets are in bytes. If the span has only a part of what one character became, such as the "l" of "l·" for
        "\\u013f" (an L with a dot), the result has the whole character.
        """
        if self.offsets is None:
            return start, end
        while self.offsets[end] == self.offsets[start]:
            end += 1
        return self.offsets[start], self.offsets[end]


def _split_clusters(text: str) -> list[str]:
    """Split a text into clusters: each is a character with the combining characters that follow it."""
    starts = [index for index, character in enumerate(text) if index == 0 or not unicodedata.combining(character)]
    return [text[start:end] for start, end in itertools.pairwise([*starts, len(text)])]


def fold(text: str) -> FoldedText:
    """Return ``text`` in normal form (NFKC, case folding, no accents), with the original offset of each of its bytes.

    There are no offsets (None) for ASCII, because each byte keeps its offset.
    """
    if text.isascii():
        return FoldedText(text.lower().encode(), offsets=None)
    data, packed_offsets = fold_pieces(text, _fold_word)
    offsets = array("Q")  # of 64 bits, as fold_pieces packs them
    offsets.frombytes(packed_offsets)
    return FoldedText(data, offsets)


def fold_to_bytes(text: str) -> bytes:
    """Return ``text`` in normal form (NFKC, case folding, no accents) as UTF-8, without the offsets of :func:`fold`."""
    if text.isascii():
        return text.lower().encode()
    data, _ = fold_pieces(text, _fold_word, with_offsets=False)
    return data


#: A word in normal form as UTF-8, the offset in the original word of each of its bytes, and the size of the original
#: word in bytes. A plain tuple, because the kernel unpacks it faster than a NamedTuple.
_FoldedWord = tuple[bytes, list[int], int]


def _fold_word(word: str) -> _FoldedWord:
    """Return (UTF-8, original offset of each byte, original size) of the normal form of a word, in bytes.

    ``word`` is a word or a run of white space. The result is cached if it is short.
    """
    if len(word) <= _MAX_CACHED_LENGTH:
        return _fold_cached_word(word)
    return _fold_cached_word.__wrapped__(word)  # without the cache


@lru_cache(maxsize=8192)
def _fold_cached_word(word: str) -> _FoldedWord:
    """Return (UTF-8, original offset of each byte, original size) of the normal form of a word, in bytes; cached."""
    # No character of such a word combines with another, so each is a cluster of its own.
    is_separate = _SEPARATE_PATTERN.fullmatch(word) is not None
    clusters = word if is_separate else _split_clusters(word)
    # Long clusters bypass the cache.
    sized_clusters = [
        _fold_cluster(cluster) if len(cluster) <= _MAX_CACHED_LENGTH else _fold_cluster.__wrapped__(cluster)
        for cluster in clusters
    ]
    folded = b"".join([folded_cluster for folded_cluster, _ in sized_clusters])
    if not is_separate and folded != (folded_word := fold_without_offsets(word).encode()):
        # Characters compose across clusters (Hangul jamo), so every byte gets the offset of the start of the word.
        folded, sized_clusters = folded_word, [(folded_word, len(word.encode()))]
    offsets: list[int] = []
    position = 0
    for folded_cluster, original_size in sized_clusters:
        offsets += [position] * len(folded_cluster)
        position += original_size
    return folded, offsets, position


@lru_cache(maxsize=4096)
def _fold_cluster(cluster: str) -> tuple[bytes, int]:
    """Return (normal form as UTF-8, original size in bytes) of a character with its combining marks; cached."""
    return fold_without_offsets(cluster).encode(), len(cluster.encode())
