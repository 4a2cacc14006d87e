"""Stemmers of languages that Snowball lacks: ``korean`` and ``ukrainian`` remove endings, ``indic`` also joins words.
A *vowel sign* of an Indic script, such as that of Hindi, follows its consonant. A *final* is a consonant that ends a
Korean syllable.

In: words in normal form or, for Indic scripts, runs of a text in normal form. Out: their stems. Without the ``indic``
stemmer, an Indic word ends at each vowel sign.
"""

from __future__ import annotations

from functools import lru_cache

from .patterns import compile_lazily

#: Words of the Indic scripts, from Devanagari to Malayalam, with their vowel signs, digits and joiners.
INDIC_RUN_PATTERN = compile_lazily(
    r"[\u0900-\u0963\u0966-\u096f\u0971-\u0d7f][\u0900-\u0963\u0966-\u0d7f\u200c\u200d]*"
)
#: The vowels at the end of an Indic word, except in its first two letters. Case, number and gender change them.
_INDIC_ENDING_PATTERN = compile_lazily(r"(?<=..)(?:[\u0907\u0908]\u092f)?[\u0905-\u0914\u0985-\u0994]+\Z")
#: Replaces vowel signs by their vowels and digits by ASCII digits, and drops signs that spelling can omit (nasal marks,
#: nukta, virama and joiners). All Indic scripts have their 128 characters in the same order.
_INDIC_LETTERS = {0x200C: "", 0x200D: ""}
for _first in range(0x0900, 0x0D80, 0x80):
    _INDIC_LETTERS |= {_first + offset: "" for offset in (0, 1, 2, 3, 0x3C, 0x4D)}
    _INDIC_LETTERS |= {_first + offset: chr(_first + offset - 0x38) for offset in range(0x3E, 0x4D)}
    _INDIC_LETTERS |= {_first + 0x66 + digit: str(digit) for digit in range(10)}
#: Ukrainian endings of verbs, nouns and adjectives.
_UKRAINIAN_ENDING_PATTERN = compile_lazily(
    r"(?<=\w\w\w)(?:(?:(?:[ую]ва|[аеиіїуюєя])(?:ти(?:м\w+)?|в|ла|ло|ли|ння|но|ть|мо|те|ш)|[уюая]ть)(?:ся|сь)?"
    r"|[ая]ми|[оеє]ві|ь?ого|ь?ому|[иі]ми|[иіїя]й|[аияі]х|[аоеєяиі]м|[оеє]ю|[оеє]ї|і[їяєю]|[еії]в|ок|[аяоуюеєиіїьй])\Z"
)
#: Korean particles: after a syllable with a final, after one without, and after any.
_AFTER_FINAL = frozenset("은 을 이 과 으로 이나 이랑 이라도 이라는 이다 이에요".split())
_AFTER_VOWEL = frozenset("는 를 가 와 로 나 랑 라도 라는 예요".split())
_AFTER_ANY = frozenset(
    """
    에 에는 에도 에서 에서는 에서도 에게 에게서 에게는 께 께서 한테 의 도 만 까지 까지는 부터 마다 보다 처럼 밖에
    입니다 입니까 인가요 으로는 로는
    """.split()
)
#: Endings of Korean verbs that are made of a noun and *hada* or *doeda*, and of other verbs.
_KOREAN_VERB_PATTERN = compile_lazily(
    r"(?<=[가-힣][가-힣])[하했한할함합해되된될됨됩됐][가-힣]*\Z"
    r"|(?<=[가-힣])(?:습니다|습니까|어야|아야|나요|어요|아요|는데|었다|았다|지만|어서|아서|으면|거나|세요|네요)\Z"
)
_FIRST_SYLLABLE, _NUM_FINALS = ord("가"), 28
_MAX_CACHED_STEMS = 1 << 14


@lru_cache(maxsize=_MAX_CACHED_STEMS)
def stem_indic_run(run: str) -> tuple[str, ...]:
    """Return the stem of an Indic word in normal form, as a tuple of one (empty if nothing remains); cached.

    It is a tuple because a :class:`~.segmenters.Segmenter` expects the words of a run. A vowel sign becomes the letter
    of its vowel, digits become ASCII, and signs that spelling omits are removed.

    >>> stem_indic_run("चाबियों") == stem_indic_run("चाबी"), stem_indic_run("१२")
    (True, ('12',))
    """
    word = run.translate(_INDIC_LETTERS)
    return (_INDIC_ENDING_PATTERN.sub("", word),) if word else ()


def stem_ukrainian(word: str) -> str:
    """Return a Ukrainian word in normal form without its ending; its first three letters remain.

    >>> [stem_ukrainian(word) for word in ("знижкою", "знижки", "працював", "працюватимуть")]
    ['знижк', 'знижк', 'прац', 'прац']
    """
    return _UKRAINIAN_ENDING_PATTERN.sub("", word)


@lru_cache(maxsize=_MAX_CACHED_STEMS)
def stem_korean(word: str) -> str:
    """Return a Korean word in normal form without its particles and verb endings; cached.

    A particle is removed only if no verb ending was.

    >>> [stem_korean(word) for word in ("도서관에서는", "책은", "가을을", "예약하려면", "반대했다", "e05가")]
    ['도서관', '책', '가을', '예약', '반대', 'e05']
    """
    shorter_word = _KOREAN_VERB_PATTERN.sub("", word)
    if shorter_word == word:  # no verb ending was removed
        for length in range(1, min(5, len(word))):
            stem, particle = word[:-length], word[-length:]
            syllable = ord(stem[-1]) - _FIRST_SYLLABLE  # negative for a digit or Latin letter, whose sound is unknown
            has_final = syllable % _NUM_FINALS > 0
            if (
                (particle in _AFTER_FINAL and (has_final or syllable < 0))
                or (particle in _AFTER_VOWEL and (not has_final or syllable < 0))
                or (particle in _AFTER_ANY and len(word) > 2)
            ):
                shorter_word = stem  # the longest particle wins
    # Endings can follow each other, so the rest is stemmed again.
    return word if shorter_word == word else stem_korean(shorter_word)
