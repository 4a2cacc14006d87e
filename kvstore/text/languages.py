"""The language of texts, in particular English: the rules that distinguish names from other words are for English only.

In: texts. Out: a language, or True or False. A text is not English if it contains more function words of other
languages than of English, or if most of its letters belong to another script with capitals. A part with hardly any
function words (tables, lists of names, code) has the language of the text around it, or is English if that is unknown.
Scripts without capitals are not detected: nothing in them is taken for a name except Latin names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvstore_cext.words import WordSet

from .function_words import FUNCTION_WORDS_BY_LANGUAGE, MARKING_WORDS
from .words import FUNCTION_WORDS, detect_word_language, segment_words

#: Function words of other languages that English texts rarely contain.
_NON_ENGLISH_WORDS = MARKING_WORDS - frozenset("die ne non par por sin con ale men pro bin im ab kun cho".split())
_FOREIGN_WORD_SET, _ENGLISH_WORD_SET = WordSet(_NON_ENGLISH_WORDS), WordSet(FUNCTION_WORDS)
_OTHER_SCRIPT_PATTERN = re.compile(r"[\u0370-\u058f\u10a0-\u10ff\u1c90-\u1cbf\u1f00-\u1fff\u2c80-\u2cff]")
_LANGUAGES_WITH_CAPITAL_NOUNS = frozenset(("german", "luxembourgish"))
#: Languages that their script shows, and the minimum share of letters in it. Japanese also uses Chinese characters.
_SCRIPTS = (
    ("japanese", re.compile("[\u3040-\u30ff]"), 0.1),
    ("chinese", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"), 0.5),
    ("korean", re.compile("[\u1100-\u11ff\uac00-\ud7af]"), 0.5),
)
#: The minimum number of function words that shows the language of a text.
_MIN_FUNCTION_WORDS = 4


def detect_english(texts: Sequence[str]) -> list[bool]:
    """Return for each part of a document whether it is English.

    >>> detect_english(["It is not for you, and it is old.", "Der Name der Rose ist nicht neu und auch nicht alt."])
    [True, False]
    """
    foreign_counts = [_count_foreign_words(text) for text in texts]
    num_foreign = sum(foreign_counts)
    if not num_foreign:
        return [True] * len(texts)
    english_counts = [_ENGLISH_WORD_SET.count(text)[0] for text in texts]
    is_document_english = sum(english_counts) >= num_foreign or num_foreign < _MIN_FUNCTION_WORDS
    return [
        english_count >= foreign_count
        if max(english_count, foreign_count) >= _MIN_FUNCTION_WORDS
        else is_document_english
        for english_count, foreign_count in zip(english_counts, foreign_counts, strict=True)
    ]


def detect_language(text: str) -> str | None:
    """Return the language of a text: its Snowball name, ``chinese``, ``japanese`` or ``korean``; None if it is unclear.

    >>> detect_language("Die Heizung ist im Keller, und der Druck wird dort gemessen.")
    'german'
    """
    if (language := detect_script_language(text)) is not None:
        return language
    words = segment_words(text)
    language = detect_word_language(words)
    function_words = FUNCTION_WORDS if language == "english" else FUNCTION_WORDS_BY_LANGUAGE.get(language or "", ())
    return language if sum(word in function_words for word in words) >= _MIN_FUNCTION_WORDS else None


def detect_script_language(text: str) -> str | None:
    """Return the language that the script of a text shows: ``chinese``, ``japanese`` or ``korean``; None for others.

    >>> detect_script_language("图书馆什么时候闭馆？"), detect_script_language("Wann?")
    ('chinese', None)
    """
    letters = 0 if text.isascii() else sum(map(str.isalpha, text))
    return next((name for name, script, share in _SCRIPTS if len(script.findall(text)) > share * letters), None)


def detect_question_language(question: str, likely: str | None = None) -> str | None:
    """Return the language of a question, by its script or its function words; ``likely`` wins ties."""
    return detect_script_language(question) or detect_word_language(segment_words(question), likely=likely)


def is_latin(text: str) -> bool:
    """True if most letters of a text are Latin.

    >>> is_latin("Où est Győr?"), is_latin("Где Győr находится?"), is_latin("東京 Tower")
    (True, False, True)
    """
    letters = "" if text.isascii() else [character for character in text if character.isalpha()]
    return 2 * sum(character > "\u024f" for character in letters) <= len(letters)


def capitalizes_nouns(language: str | None) -> bool:
    """True if a language writes every noun with a capital, so that a capital does not mark a name."""
    return language in _LANGUAGES_WITH_CAPITAL_NOUNS


def _count_foreign_words(text: str) -> int:
    """Return how many words of a text are function words of other languages; in another script, all words count."""
    num_foreign, num_words, num_letters = _FOREIGN_WORD_SET.count(text)
    if not text.isascii() and 2 * len(_OTHER_SCRIPT_PATTERN.findall(text)) > num_letters:
        num_foreign += num_words
    return num_foreign
