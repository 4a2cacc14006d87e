"""Sentences by rule, as spans in characters. A mark such as a period ends a sentence unless an abbreviation, an initial
or an *ordinal* (*am 3. Mai*) precedes it. A *label* is a word before the number of a part of the text (*article 7*).
*Word files* (``questions/LANGUAGE.toml``) have such words.

In: running text, and its language if it is not English. Out: spans, in order, that cover everything but white space. A
mark ends a sentence if white space and then anything but a lower-case letter follows. A mark of Chinese or Japanese
needs no white space after it. A blank line always ends a sentence. The number of an English caption that begins a line
(*Table 2.1.*) is part of the sentence after it. In languages other than English, the number of an item, and the number
and title of an article, are too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from .patterns import compile_lazily
from .words import FUNCTION_WORDS

# The search for the first character is fast, and that character decides what follows. A run of marks is examined from
# its first one only; otherwise a text of such marks would take quadratic time.
_SENTENCE_END_SOURCE = (
    r"[.!?…。！？｡\n](?:(?<=[.!?…])(?<![.!?…]{2})[.!?…]*+[\"'”’)\]*`~]*(?=\s)"
    r"|(?<=[。！？｡])[。！？｡]*+[」』”’）)】》〉]*+[。！？｡]*+|(?<=\n)\s*\n)"
)
_SENTENCE_END_PATTERN = compile_lazily(_SENTENCE_END_SOURCE)
#: The same for languages other than English, with the marks of Arabic, Urdu, Hindi and Armenian.
_FOREIGN_SENTENCE_END_PATTERN = compile_lazily(_SENTENCE_END_SOURCE.replace("!?", "!?\u061f\u06d4\u0964\u0965\u0589"))
#: The same with the Greek question mark, which looks like a semicolon.
_GREEK_SENTENCE_END_PATTERN = compile_lazily(_SENTENCE_END_SOURCE.replace("!?", "!?;"))
_LAST_WORD_PATTERN = compile_lazily(r"[\w.\u0900-\u0963]+\Z")
_WORD_BEFORE_PATTERN = compile_lazily(r"(\w+)[.,]?\s+\Z")
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st sr jr vs no vol fig figs eq ed eds e.g i.e cf al approx ca dept est gen col capt lt sgt rev
    hon cllr ald messrs mme mlle supt insp cmdr adm inc ltd co corp jan feb mar apr jun jul aug sep sept oct nov dec u.s
    u.k a.m p.m pp p ch sec art mt ft
    """.split()
)
#: English abbreviations that often end a sentence. They do so before a function word with a capital: *at 3 p.m. The*.
_FINAL_ABBREVIATIONS = frozenset("a.m p.m inc ltd co corp u.s u.k jr sr".split())
_FIRST_WORD_PATTERN = compile_lazily(r"[A-Z][a-z]+\b")

#: The numbers of characters after a period, and before it or the word before it, that are examined.
_MAX_AFTER, _MAX_BEFORE = 40, 20
#: Abbreviations before names in texts of any language.
_TITLES = frozenset("mr mrs ms dr prof st jr".split())
#: The number of a part of a text: 7, 7.2 or IV.
_LABEL_NUMBER_PATTERN = compile_lazily(r"\d{1,3}(?:\.\d{1,3})*[a-z]?|[IVXLC]+")
#: The maximum number of words of the title of an article, and of characters of its label, number and title.
_MAX_TITLE_WORDS, _MAX_TITLE_LENGTH = 6, 80
#: The number of an English caption at the start of a line, which precedes its text: "Example 8.5. A crontab file".
_CAPTION_NUMBER_PATTERN = compile_lazily(
    r"(?:^|(?=[^\S\n]*\n))[\s*_]{0,40}(?:Example|Figure|Listing|Table) \d{1,3}(?:[.-]\d{1,3})+", re.MULTILINE
)
#: A number in digits or Roman numerals at the end of a text.
_NUMBER_END_PATTERN = compile_lazily(r"(?:\d|\b[IVXLC]+)\s*\Z")
#: A date with spaces, as in "3. 5. 2024".
_DATE_PATTERN = compile_lazily(r"\d{1,2}\.\s?\d{1,2}\.\s?(?:19|20)\d\d(?!\d)")


class _SentenceRules(NamedTuple):
    """The words of a language that decide if a period ends a sentence, in lower case and without their periods.

    No sentence ends at one of ``abbreviations``, or at one of ``abbreviations_before_numbers`` (*Art.*) before a digit.
    One can end at one of ``abbreviations_after_numbers`` (*г.*, a year or a town) only after a number. A number with a
    period is an ordinal before one of ``months``, and after one of ``words_before_ordinals``. ``labels`` are words
    before the number of a part of the text (*article*).
    """

    abbreviations: frozenset[str]
    abbreviations_before_numbers: frozenset[str] = frozenset()
    abbreviations_after_numbers: frozenset[str] = frozenset()
    months: frozenset[str] = frozenset()
    words_before_ordinals: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()

    def is_ordinal(self, word: str, text_before: str, text_after: str) -> bool:
        """True if ``word``, which a period follows, is an ordinal in digits (*am 3. Mai*): the period ends no sentence.

        The words at the end of ``text_before`` and at the start of ``text_after`` decide.
        """
        if not word.isdigit() or len(word) > 2:
            return False
        next_word = re.match(r"\w+", text_after)
        word_before = _WORD_BEFORE_PATTERN.search(text_before)
        return (next_word is not None and next_word.group().lower() in self.months) or (
            word_before is not None and word_before[1].lower() in self.words_before_ordinals
        )

    def is_number_or_title(self, text: str) -> bool:
        """True if a text is only the number of an item (*7*), or an article's number (*Art. 7*, *Art. 7. Voting*).

        A title can follow an article's number. ``text`` precedes a period, which then ends no sentence: the text is
        part of the next sentence.
        """
        label, *words = text.strip("*_ \n").split() or [""]
        if not words:
            return _LABEL_NUMBER_PATTERN.fullmatch(label) is not None
        number, *title = words
        has_label = label.lower().rstrip(".") in self.labels
        has_number = _LABEL_NUMBER_PATTERN.fullmatch(number.rstrip(".:-")) is not None
        if not (has_label and has_number):
            return False
        if not title:
            return True
        is_title = len(title) <= _MAX_TITLE_WORDS and not any(word.endswith(".") for word in title)
        return is_title and number.endswith(".")


_ENGLISH_RULES = _SentenceRules(
    _ABBREVIATIONS, abbreviations_before_numbers=frozenset(("ext", "tel", "nos", "max", "min"))
)


@cache
def _load_rules(language: str) -> _SentenceRules:
    """Return the words that decide where sentences of a language end; if it has no word file, the English words.

    The result is cached.
    """
    from .question_words import read_language_file, split_phrases

    data = read_language_file(language)
    if data is None:
        return _ENGLISH_RULES
    words = {name: split_phrases(phrases) for name, phrases in data["sentences"].items()}
    # No sentence ends after the "z." of "z. B." either.
    abbreviations = {
        part
        for phrase in words["abbreviations"]
        for part in re.findall(r"[\w.\u0900-\u0963]*[\w\u0900-\u0963]", phrase)
    }
    return _SentenceRules(
        abbreviations=_TITLES | abbreviations,
        abbreviations_before_numbers=frozenset(words["before_numbers"]),
        abbreviations_after_numbers=frozenset(words["after_numbers"]),
        # Other words after an ordinal have the same effect as a month.
        months=frozenset((*split_phrases(data["answers"]["months"]), *words["after_ordinals"])),
        words_before_ordinals=frozenset(words["before_ordinals"]),
        labels=frozenset(label.rstrip(".") for label in split_phrases(data["answers"]["labels"])),
    )


def split_sentences(text: str, language: str | None = None) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each sentence of ``text`` in characters, without the white space around it, in order.

    ``language`` is the English name of the text's language in lower case (None: English).

    >>> text = "Am 3. Mai kam z. B. Frau Dr. Solms. Sie blieb."
    >>> [text[start:end] for start, end in split_sentences(text, "german")]
    ['Am 3. Mai kam z. B. Frau Dr. Solms.', 'Sie blieb.']
    """
    is_english = language in (None, "english")
    rules = _ENGLISH_RULES if language is None or is_english else _load_rules(language)
    pattern = _GREEK_SENTENCE_END_PATTERN if language == "greek" else _FOREIGN_SENTENCE_END_PATTERN
    start = 0
    for match in (_SENTENCE_END_PATTERN if is_english else pattern).finditer(text):
        can_be_caption = is_english and match[0] == "."
        is_caption_number = can_be_caption and _CAPTION_NUMBER_PATTERN.fullmatch(text, start, match.start()) is not None
        if is_caption_number or not _is_sentence_end(text, match, rules):
            continue
        can_be_title = rules.labels and match[0].startswith(".") and match.start() - start <= _MAX_TITLE_LENGTH
        if can_be_title and rules.is_number_or_title(text[start : match.start()]):
            continue
        yield from _trim_span(text, start, match.end())
        start = match.end()
    yield from _trim_span(text, start, len(text))


def _is_sentence_end(text: str, match: re.Match[str], rules: _SentenceRules) -> bool:
    """True if matched punctuation ends a sentence, and not a quotation or a text in brackets inside a sentence.

    A period can also belong to an abbreviation or an initial. ``rules`` has the abbreviations of the text's language.
    """
    mark = match.group()  # with the quotation marks and brackets after it
    # A Japanese quotation is part of the sentence around it, and so is a text in brackets.
    if mark[-1] in "」』" and text.startswith(("と", "って"), match.end()):
        return False
    if mark[0] in "。！？｡" and mark[-1] in "）)】":
        return not text[match.end() : match.end() + 1].strip()
    if not mark.startswith("."):
        following = text[match.end() : match.end() + 2].strip()
        # "Really?" he asked: the sentence continues in lower case after a closing quote.
        return mark[-1] not in "\"'”’;" or not following[:1].islower()
    return _is_full_stop(text, match, rules)


def _is_full_stop(text: str, match: re.Match[str], rules: _SentenceRules) -> bool:
    """True if a matched period ends a sentence, and does not belong to an abbreviation, an initial or an ordinal."""
    mark = match.group()
    text_after = text[match.end() : match.end() + _MAX_AFTER].lstrip()
    is_leader = mark.startswith("....") and text[match.start() - 1 : match.start()].isspace()  # dots between columns
    if is_leader or text_after[:1].islower():
        return False
    last_word = _LAST_WORD_PATTERN.search(text, max(0, match.start() - _MAX_BEFORE), match.start())
    word = last_word.group() if last_word else ""
    text_before = text[max(0, match.start() - len(word) - _MAX_BEFORE) : match.start() - len(word)]
    if word.lower() in rules.abbreviations_after_numbers:  # as in "1990 г.", in the year 1990
        return _NUMBER_END_PATTERN.search(text_before) is not None
    if word.lower() in rules.abbreviations_before_numbers and text_after[:1].isdigit():
        return False
    if rules is _ENGLISH_RULES and word.lower() in _FINAL_ABBREVIATIONS:
        first_word = _FIRST_WORD_PATTERN.match(text_after)
        return first_word is not None and first_word[0].lower() in FUNCTION_WORDS
    is_initial = len(word) == 1 and word.isupper()
    if is_initial or word.lower() in rules.abbreviations:
        return False
    for date_start in (word, text_before[-4:].lstrip() + word):
        if date_start[:1].isdecimal() and _DATE_PATTERN.match(f"{date_start}.{text_after}"):
            return False
    return not (rules.words_before_ordinals and rules.is_ordinal(word, text_before, text_after))


def _trim_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of a span without the white space at its ends; nothing if the span is blank."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end
