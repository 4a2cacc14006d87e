"""Words of a text, and the terms that postings are kept by.

In: any text. Out: words in normal form (letters, digits and underscores, see :mod:`.normalize`), and their stems.
Every word of a name that occurs in a chunk is among the chunk's terms.

Chinese and Japanese set no spaces between words: each of their characters is a word here. Technical tokens, which are
known by their marks (``--no-owner``, ``/etc/hosts``, ``initdb(1)``, ``postgresql.conf``, ``c++``), are terms of their
own beside the words in them, and so are the parts of a word that underscores join (``max_wal_size``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from threading import Lock

from kvstore_cext.stemming import english_stem
from kvstore_cext.words import count_terms, count_tokens, words_of

from ..errors import InputError
from .normalize import fold_case

_WORD = re.compile(r"\w+")
#: Characters of writing without spaces: ideographs and kana.
UNSPACED = (
    "\u2e80-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
#: Words that marks join to one, or that a mark stands before or behind. Hyphens alone make none.
_JOINED = re.compile(
    r"(?P<mark>(?<![\w-])--?(?=[^\W\d])|(?<!\w)[$@#%\\](?=\w)|(?<![\w/.~])(?:~|\.{1,2})?/(?=\w))?"
    r"\w+(?:(?:[-./\\@]|::?)\w+)*(?P<end>\(\w{0,2}\)|\+\+(?!\w)|\#(?!\w))?"
)
#: One of these is in every technical token.
_MARK = re.compile(r"[-./\\@:$#%~(+]")
_INFORMATIVE = re.compile(r"[^\w-]")
#: Words with a digit that marks join, but for decimals, and for numbers with a unit ("32-foot").
_NUMBER = re.compile(
    r"(?<![\w./-])(?=[\w./-]*\d)(?!\d+\.\d+(?![\w./-]))(?![\d.]+-[^\W\d]{3})\w+(?:[-./]\w+)+(?![\w/-])"
)

#: What questions ask for texts with: they say nothing about what is asked.
_ASKING = frozenset(
    """
    answer anything define defined definition describe described describes detail details discuss discussed discussing
    discussion everything example examples explain explained explains explanation find found give given happen happened
    happens information introduce introduction know known learn list look mean meaning means meant mention mentioned
    need nothing overview please purpose read said say says see show shown shows something summarise summarised
    summarize summarized summary talk talked tell tells thing things understand want
    document documentation documents manual page text
    """.split()
)

#: English function words: they open sentences without being names, and say nothing about what a text is about.
FUNCTION_WORDS = frozenset(
    """
    a about above after again against all also although always am an and any are as at be because been before being
    below between both but by can cannot could did do does doing down during each either else even every few finally
    for from further had has have having he hence her here hers herself him himself his how however i if in instead
    into is it its itself just later let like many may me meanwhile might more most much must my myself neither
    never no nor not note now of off often on once one only or other others our ours ourselves out over own per
    perhaps please rather same several shall she should since so some sometimes soon such than that the their theirs
    them themselves then there therefore these they this those though through thus to today together too under
    unless until up upon us use used using very was we were what when whenever where whereas whether which while who
    whom whose why will with within without would yes yet you your yours yourself yourselves
    """.split()
)


def words(text: str) -> list[str]:
    """Words of a text in normal form, in order."""
    return _WORD.findall(fold_case(text))


def token_count(text: str) -> int:
    """Size of a text in tokens, as chunks are measured."""
    return count_tokens(text)


#: Words whose stems are remembered: a process that meets ever new names must not grow by them for long, and of the
#: words of real texts most are among the last so many.
_REMEMBERED = 1 << 14


@lru_cache(maxsize=8)
def stemmer(language: str) -> Callable[[str], str]:
    """The stemming function of a Snowball language (``none`` keeps words as they are), for all threads.

    English is stemmed by a kernel; what others have stemmed is remembered.
    """
    if language == "none":
        return str
    if language.lower() == "english":
        return english_stem
    import snowballstemmer

    try:
        stemmed = snowballstemmer.stemmer(language).stemWord
    except KeyError:
        known = ", ".join(sorted(snowballstemmer.algorithms()))
        raise InputError(f"there is no stemmer {language!r}; there are none, {known}") from None
    alone = Lock()  # the word being stemmed is kept in the stemmer

    @lru_cache(maxsize=_REMEMBERED)
    def stem(word: str) -> str:
        with alone:
            return str(stemmed(word))

    return stem


def segments(text: str) -> list[str]:
    """Words of a text in normal form, in order, as terms are made of them: without spaces, each character is one."""
    return words_of(fold_case(text))


def written(text: str) -> list[str]:
    """Words of a text as they are written, in order, parted as :func:`segments` parts normal form."""
    return words_of(text)


def technical_tokens(text: str) -> list[str]:
    """The technical tokens of a text in normal form, in order.

    >>> technical_tokens("Use --no-owner, see initdb(1) and /etc/hosts.")
    ['--no-owner', 'initdb(1)', '/etc/hosts']
    """
    folded = fold_case(text)
    if _MARK.search(folded) is None:  # as in most questions
        return []
    return [
        match.group()
        for match in _JOINED.finditer(folded)
        if match["mark"] or match["end"] or _INFORMATIVE.search(match.group())
    ]


def reference_numbers(text: str) -> list[str]:
    """What a text names by a number with marks in it, in normal form, in order: an invoice, an order, a version, a day.

    >>> reference_numbers("Who paid INV-2024/017 of 2025-03-04, 3.5 percent of the 32-foot cutter, in 2.1.0?")
    ['inv-2024/017', '2025-03-04', '2.1.0']
    """
    return [match.group() for match in _NUMBER.finditer(fold_case(text))]


def joined_parts(word: str) -> list[str]:
    """What underscores join in a word; empty where there are none."""
    return [part for part in word.split("_") if part] if "_" in word else []


def terms(text: str, stem: Callable[[str], str]) -> list[str]:
    """Terms of a text in order: the stem of every word."""
    return [stem(word) for word in segments(text)]


def content_terms(text: str, stem: Callable[[str], str]) -> list[str]:
    """Terms of a text without its function words; all of them where nothing else is left."""
    every = segments(text)
    return [stem(word) for word in every if word not in FUNCTION_WORDS] or [stem(word) for word in every]


def informative_words(text: str) -> list[str]:
    """Words of a part of a question in order, without function words, and without those that any question could
    have."""
    return [word for word in segments(text) if word not in FUNCTION_WORDS and word not in _ASKING]


def informative_terms(text: str, stem: Callable[[str], str]) -> set[str]:
    """Terms of the informative words of a part of a question."""
    return set(map(stem, informative_words(text)))


def term_counts(text: str, stem: Callable[[str], str], leaving_out: frozenset[str] = frozenset()) -> dict[str, int]:
    """The terms of a text, counted, without those of some words; in order of their first occurrences."""
    return count_terms(fold_case(text), stem, leaving_out)


def chunk_terms(title: str | None, headings: Iterable[str], text: str, stem: Callable[[str], str]) -> dict[str, int]:
    """The terms a chunk is found by, counted: those of its text, of its document's title and of the headings above
    it; technical tokens and what underscores join among them."""
    found = count_terms(fold_case(text), stem, frozenset(), True)
    for term, count in terms_above(title, headings, stem).items():
        found[term] = found.get(term, 0) + count
    return found


def terms_above(title: str | None, headings: Iterable[str], stem: Callable[[str], str]) -> Mapping[str, int]:
    """The terms of a title and of the headings above a chunk, counted; equal ones are read once."""
    return _terms_above(tuple(dict.fromkeys([title or "", *headings])), stem)


@lru_cache(maxsize=64)  # one chunk stands under the same headings as the next
def _terms_above(texts: tuple[str, ...], stem: Callable[[str], str]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for text in texts:
        found.update(count_terms(fold_case(text), stem, frozenset(), True))
    return found
