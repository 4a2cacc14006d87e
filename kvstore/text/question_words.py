"""The question words of languages other than English: what a question asks for, and the form of its answer.

In: ``questions/LANGUAGE.toml``, one file per language, named after its Snowball stemmer. Every value is a list of
phrases, separated by commas; ``german.toml`` has comments. Out: :class:`QuestionVocabulary`. To add a language, copy a
file, translate it, and add a row to ``tests/test_question_words.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .function_words import FUNCTION_WORDS_BY_LANGUAGE
from .patterns import compile_lazily

FOLDER = Path(__file__).parent / "questions"

_TELEPHONE_PATTERN = r"[+(]?\d[\d ()/.-]{4,}\d"
_MAIL_PATTERN = r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"
_ADDRESS_PATTERN = r"\bhttps?://\S+|\bwww\.\w\S+|(?<!\w)(?<!\w-)\b[\w-]++\.(?:com|org|net|edu|gov|io|[a-z]{2})\b"
#: A capitalized word that does not begin a sentence.
_CAPITALIZED = r"(?<![.!?] )(?<!^)(?<!\w)(?=[^\W\d_])[^\W\d_a-zà-öø-ÿа-яё][\w'’.-]*\w"
_CURRENCIES = "[€£¥$₽₺]"
#: Words between *million* and a currency.
_CURRENCY_LINK = r"(?:d['’]|US-|(?:de|di|von) )?"


class QuestionVocabulary(NamedTuple):
    """The question words of a language.

    ``asking`` matches interrogative phrases (*how much*), which are not searched for. ``noun`` matches phrases that
    name the kind of answer (*telephone number*); it takes precedence. ``kinds`` maps each phrase to the kind of answer,
    such as ``time``. ``forms`` are the patterns of answers by kind; an answer of a kind without a form is not
    recognized in texts.
    """

    asking: re.Pattern[str]
    noun: re.Pattern[str]
    kinds: Mapping[str, str]
    forms: Mapping[str, re.Pattern[str]]
    function_words: frozenset[str]

    def find_kind(self, question: str) -> str | None:
        """Return the kind of answer that a question asks for, such as ``time``, or None if no known phrase shows it.

        >>> load_question_words("german").find_kind("In welchem Jahr wurde die Brücke gebaut?")
        'time'
        """
        question = _to_lower_same_length(question)
        # A noun is more exact than an interrogative: "Which telephone number" does not ask for a number.
        match = self.noun.search(question) or self.asking.search(question)
        return None if match is None else self.kinds[match.group()]

    def remove_interrogatives(self, question: str) -> str:
        """Return a question with each interrogative phrase replaced by a space.

        >>> load_question_words("french").remove_interrogatives("Combien de temps dure le préavis ?")
        '  dure le préavis ?'
        """
        matches = self.asking.finditer(_to_lower_same_length(question))
        for match in reversed(list(matches)):  # from the end, so that the other offsets stay valid
            question = f"{question[: match.start()]} {question[match.end() :]}"
        return question


def _to_lower_same_length(text: str) -> str:
    """Return a text in lower case with plain apostrophes, so that offsets in it are offsets in the original.

    The case is unchanged if lower case would change the length.
    """
    lower = text.lower().replace("’", "'")
    return lower if len(lower) == len(text) else text.replace("’", "'")


def remove_interrogatives(question: str, language: str | None) -> str:
    """Return a question without its interrogative phrases (*combien de*).

    English questions, and those in a ``language`` without a word file, are returned unchanged.
    """
    words = load_question_words(language)
    return question if words is None else words.remove_interrogatives(question)


@cache
def read_language_file(language: str) -> Mapping[str, Any] | None:
    """Read the word file of a language; return None if there is no such file (English has none). Cached."""
    path = FOLDER / f"{language}.toml"
    if not path.is_file():
        return None
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def load_question_words(language: str | None) -> QuestionVocabulary | None:
    """Read the question words of a language, or return None for English and languages without a file. Cached."""
    data = None if language is None else read_language_file(language)
    if language is None or data is None:
        return None
    asks = {kind: split_phrases(phrases) for kind, phrases in data["asks"].items()}
    nouns = {kind: split_phrases(phrases) for kind, phrases in data["nouns"].items()}
    answers = {name: split_phrases(phrases) for name, phrases in data["answers"].items()}
    has_spaces = bool(data["spaced"])
    kinds = {phrase: kind for kinds in (asks, nouns) for kind, phrases in kinds.items() for phrase in phrases}
    return QuestionVocabulary(
        asking=compile_lazily(_build_alternation(_flatten(asks), has_spaces)),
        noun=compile_lazily(_build_alternation(_flatten(nouns), has_spaces)),
        kinds=kinds,
        forms=_build_answer_patterns(answers, has_spaces, bool(data["capitalizes_names"])),
        function_words=FUNCTION_WORDS_BY_LANGUAGE.get(language, frozenset()),
    )


def split_phrases(text: str) -> list[str]:
    """Split a list of phrases at its commas, and return the phrases with single spaces."""
    return [" ".join(phrase.split()) for phrase in text.split(",") if phrase.strip()]


def _flatten(phrases_by_kind: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the phrases of all kinds as one list."""
    return [phrase for phrases in phrases_by_kind.values() for phrase in phrases]


def _build_alternation(phrases: Iterable[str], has_spaces: bool) -> str:
    """Return a regular expression that matches any of the phrases, the longest first.

    If ``has_spaces`` (the language separates words by spaces), it matches whole words only. The next word can follow a
    final apostrophe directly, as in *l'année*.
    """
    ordered = sorted(set(phrases), key=lambda phrase: (-len(phrase), phrase))
    alternatives = "|".join(
        re.escape(phrase) if phrase[-1] == "'" or not has_spaces else rf"{re.escape(phrase)}(?!\w)"
        for phrase in ordered
    )
    return rf"(?<!\w)(?:{alternatives})" if has_spaces else rf"(?:{alternatives})"


def _build_answer_patterns(
    answers: Mapping[str, list[str]], has_spaces: bool, capitalizes_names: bool
) -> dict[str, re.Pattern[str]]:
    """Return a pattern for each kind of answer (``time``, ``money``, ...), by kind.

    ``answers`` are the phrases that answers in a language contain, by the key in its word file, such as ``months``.
    ``has_spaces``: the language separates words by spaces. ``capitalizes_names``: it capitalizes names and no other
    words inside a sentence.
    """
    number = rf"(?:(?<!\d)(?<!\d[.,])\d[\d.,]*+|{_build_alternation(answers['numbers'], has_spaces)})"
    units, currencies = (
        _build_alternation(answers["units"], has_spaces),
        _build_alternation(answers["currencies"], has_spaces),
    )
    gap = r"[ -]" if has_spaces else " ?"
    middle = r"(?:[ -][^\W\d]+\.?)?" if has_spaces else ""  # a word between the number and the unit
    amount = rf"{number}{middle}{gap}"
    expressions = {
        "time": (
            rf"(?<!\d)(?:1\d|20)\d\d(?!\d)|(?<!\d)\d{{1,2}}[:.h]\d\d(?!\d)|{amount}(?:{units})|"
            + _build_alternation([*answers["months"], *answers["days"], *answers["times"]], has_spaces)
        ),
        "duration": rf"{amount}(?:{units})",
        "number": number,
        "money": (
            rf"{number}{middle}{gap}?{_CURRENCY_LINK}(?:{currencies})"
            rf"|{number} ?{_CURRENCIES}|{_CURRENCIES} ?\d"
        ),
        "reason": _build_alternation(answers["reasons"], has_spaces),
        "telephone number": _TELEPHONE_PATTERN,
        "e-mail address": _MAIL_PATTERN,
        "web address": _ADDRESS_PATTERN,
    }
    patterns = {kind: compile_lazily(pattern, re.IGNORECASE) for kind, pattern in expressions.items()}
    return patterns | _build_name_patterns(
        answers.get("titles", []), answers.get("places", []), has_spaces, capitalizes_names
    )


def _build_name_patterns(
    titles: Sequence[str], places: Sequence[str], has_spaces: bool, capitalizes_names: bool
) -> dict[str, re.Pattern[str]]:
    """Return the patterns of answers that are a person or a place.

    ``titles`` are words before a person, and ``places`` words before a place. Persons are omitted if neither capitals
    nor titles show them.
    """
    patterns: dict[str, re.Pattern[str]] = {}
    if capitalizes_names:
        patterns["person"] = patterns["place"] = compile_lazily(_CAPITALIZED)
    elif has_spaces:
        if any(title.isascii() for title in titles):  # other scripts have no capitals
            word = r"[A-ZÄÖÜ][\w'’-]+"
            patterns["person"] = compile_lazily(rf"(?i:{_build_alternation(titles, has_spaces)}) {word}|{word} {word}")
        patterns["place"] = compile_lazily(rf"(?i:{_build_alternation(places, has_spaces)}) (?:\w+ )?\w+")
    else:
        patterns["place"] = compile_lazily(_build_alternation(places, has_spaces))
    return patterns
