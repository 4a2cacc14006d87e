"""Question words of languages other than English, from ``questions/LANGUAGE.toml`` (the *word file*). An
*interrogative* (*how much*) or a *noun* (*telephone number*) shows the *kind* of answer, such as ``time``. The *form*
of a kind is a pattern of answers. A *gap* (``…``) in a phrase is other words.

In: one file per language, named after its Snowball stemmer. Every value is a list of phrases, separated by commas;
``german.toml`` has comments. Out: :class:`QuestionVocabulary`. To add a language, copy a file, translate it, and add a
row to ``tests/test_question_words.py``.

In a phrase, ``*`` at the start or end of a word is any letters or none (``*hundert``, ``kost*``), and ``(am/an)`` is
one of several words. A phrase in a question can have one ``…``, which is a few other words of the same clause: the
phrase ``wie viel … gekostet`` is in *Wie viel hat das neue Dach gekostet?*. Only the words before the ``…`` ask.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .function_words import FUNCTION_WORDS_BY_LANGUAGE
from .normalize import fold_text
from .patterns import compile_lazily

FOLDER = Path(__file__).parent / "questions"

#: Numbers that are not telephone numbers: 2026-03-03, 01.04.2026, 04/2026, 2025/26, 412.700.
_DATE_OR_AMOUNT = (
    r"(?:19|20)\d\d[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-] ?\d{1,2}[./-] ?(?:(?:19|20)?\d\d(?!\d))?"
    r"|\d{1,2}[./-](?:19|20)\d\d|(?:19|20)\d\d ?[/-] ?(?:19|20)?\d\d|[1-9]\d{0,2}(?:\.\d{3})+(?![./-]?\d)"
)
_TELEPHONE_PATTERN = rf"(?<!\d)(?<!\d[./-])(?<!\d\. )(?!(?:{_DATE_OR_AMOUNT})(?!\d))[+(]?\d[\d ()/.-]{{4,}}\d"
_MAIL_PATTERN = r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"
_ADDRESS_PATTERN = r"\bhttps?://\S+|\bwww\.\w\S+|(?<!\w)(?<!\w-)\b[\w-]++\.(?:com|org|net|edu|gov|io|[a-z]{2})\b"
#: The lower-case letters of Latin, Greek and Cyrillic script, such as *ż* and *ş*.
_LOWER_CASE = "".join(filter(str.islower, map(chr, range(0x530))))
#: A capitalized word that does not begin a sentence, and the titles of persons before a period: *M. Brunel*.
_CAPITAL = rf"(?=[^\W\d_])[^\W\d_{_LOWER_CASE}]"
_CAPITALIZED = rf"(?<![.!?] )(?<!^)(?<!\w){_CAPITAL}[\w'’.-]*\w"
_TITLES = "M|MM|Mmes?|Mlle|Mevr|Mr|Drs?|Dra|Sra?|Sig|Dott|Prof|Ing|Avv"
_CURRENCIES = "[€£¥$₽₺₹₩₴]"
#: The codes of currencies, in all languages.
_CURRENCY_CODES = ("chf", "eur", "gbp", "usd")
#: The start and end of a word. In Indic scripts, vowel signs are part of a word.
_WORD_START, _WORD_END = r"(?<![\w\u0900-\u0963\u0971-\u0dff])", r"(?![\w\u0900-\u0963\u0971-\u0dff])"
#: Words between *million* and a currency.
_CURRENCY_LINK = r"(?:d['’]|US-|(?:de|di|von) )?"
#: A price without a currency, such as 49,00 or, after a year, *2025: 18*, unless a unit follows, and a share, which
#: answers "how much of the pay".
_BARE_PRICE = (
    r"\d\s?%|(?<![\d.,])\d{1,3}(?:[. ]?\d{3})*(?:,\d\d|[.,][-–—])(?![\d.,]*\d)|(?<!\w)20\d\d: \d++(?![.,:/-]\d{3,}|:)"
)
_AFTER_MEASURE = r"\s?(?:[%°]|[ckm]?[mglt]²?(?!\w)|kilo|met|lit|gram|mil|mio|mrd)"
#: The units of weight in all languages.
_WEIGHT_UNITS = (
    r"(?:(?<![^\W\d_])(?:[kmµ]?g|gr|t|lbs?|[kq]u?ilo(?:s|gram\w*)?|chil[io]|chilogramm[io]|gram(?:m?[aeio]?s?|y|ów)"
    r"|pond|pfund|ton(?:n?e[ns]?|nellat[ae]|eladas?|[asy]|ów)?|к?г|т|(?:кило)?грамм?\w*|кило|тонн\w*"
    r"|كجم|كغ|كيلو|(?:كيلو)?غرام\w*|طن)(?!\w)|公斤|千克|克|吨|噸|キロ(?!メ)|グラム|トン)"
)
#: The end of the name of a column or field with its unit, and a number in it: *Dauer (Wochen): 3*.
_FIELD_END = r"[^:;.\d]{0,12}: ?[^\w:;\s]?\d"
#: A number of cents, and the name of a column with its unit, and a number in it: *26 ct*, *Preis ct/kWh (brutto): 26*.
_CENTS = rf"\d\s?(?-i:ct)(?!\w)|(?<!\w)(?-i:ct)/kWh{_FIELD_END}"
#: Hours and dates in digits: 18h, 9h30; 3.5., 3.5.24, 15/10.
_CLOCK_TIME = r"(?<![\d.,])\d{1,2}(?:[:.]\d\d(?!\d|\s?[%€])|\s?h(?:\d\d)?(?!\w))"
_DIGITAL_TIME = (
    r"(?<![\d.,/])\d{1,2}(?:\.\d{1,2}\.(?!\d{3})|/\d{1,2}(?!\d)|[.-]\d{1,2}[.-]\d\d(?!\d))"
    rf"|{_CLOCK_TIME}"
)
#: A number before a word for the hour in several languages: 14 Uhr, 10 heures.
_NUMBER_WITH_HOUR = r"\d\s?(?:uhr|uur|heures?|час(?:ов|а)?)(?!\w)|\d\s?[点點时時]"
#: A year, but not a round number such as 1900, and the years, months and days of Chinese and Japanese.
_YEAR = r"(?<![\d.,])(?:1[5-9]|20)\d\d(?<!00)(?![.,]?\d)|\d{1,4}\s?[年月日]"
#: The number of a clause that begins a line (*5.1 Prices*), and a number after capitals: *MC 0306*, *AU-77/26*.
_CODE = r"(?m:^)[^\w\n]{0,8}\d{1,2}(?:\.\d{1,2})+\.?\s(?!\d)|(?-i:\b[A-Z]{2,}[ -]?\d[\d/.-]*)"
_LETTERS_PATTERN = compile_lazily(r"[^\W\d_]+")
_CLAUSE_END_PATTERN = compile_lazily(r"[.?!;:,]")
#: The end of a text before a word that continues its clause; at most two characters.
_CLAUSE_PATTERN = compile_lazily(r"\w\W?\Z")
#: One of several words in a phrase.
_CHOICE_PATTERN = compile_lazily(r"\(([^()]*)\)")
#: The ``…`` of a phrase: the maximum number of words that it is, and of characters in writing without spaces.
_GAP, _MAX_GAP_WORDS, _MAX_GAP_CHARACTERS = " … ", 10, 12
#: The maximum for a noun, which belongs to the words before it.
_MAX_NOUN_GAP_WORDS = 3


class _QuestionPatterns(NamedTuple):
    """The patterns of the question words of a language. Each phrase is a named group of its pattern.

    ``interrogatives`` matches interrogative phrases (*how much*), which are not searched for. ``answer_nouns`` matches
    phrases that name the kind of answer (*telephone number*); it takes precedence. ``kinds`` maps the name of each
    group to the kind of answer, such as ``time``. ``initial_groups`` are the groups that ask only at the start of a
    clause. ``summary_requests`` matches phrases that ask for a summary, and ``general_words`` the words for documents
    and their contents that say nothing about a subject.
    """

    interrogatives: re.Pattern[str]
    answer_nouns: re.Pattern[str]
    kinds: Mapping[str, str]
    initial_groups: frozenset[str]
    summary_requests: re.Pattern[str]
    general_words: re.Pattern[str]

    def iter_matches(self, pattern: re.Pattern[str], question: str) -> Iterator[re.Match[str]]:
        """Yield the matches of a pattern (``interrogatives`` or ``answer_nouns``) in a question in lower case.

        A phrase that asks only at the start of a clause (``initial_groups``) is omitted elsewhere.
        """
        for match in pattern.finditer(question):
            start = match.start()
            if match.lastgroup in self.initial_groups and _CLAUSE_PATTERN.search(question, max(0, start - 2), start):
                continue  # a word before it continues its clause
            yield match


class QuestionVocabulary(NamedTuple):
    """The question words of a language, and the forms of the answers.

    ``patterns`` match its question words, and ``patterns_without_accents`` those for questions that are typed without
    accents (None if they are the same). ``forms`` are the patterns of answers by kind; an answer of a kind without a
    form is not recognized in texts. ``label`` matches a number that is a name, as in *Article 7*, and ``date`` one that
    is part of a date, or of a code such as *MC 0306*.
    """

    patterns: _QuestionPatterns
    patterns_without_accents: _QuestionPatterns | None
    forms: Mapping[str, re.Pattern[str]]
    label: re.Pattern[str]
    date: re.Pattern[str]
    function_words: frozenset[str]

    def find_kind(self, question: str) -> str | None:
        """Return the kind of answer that a question asks for, such as ``time``, or None if no known phrase shows it.

        >>> load_question_words("german").find_kind("In welchem Jahr wurde die Brücke gebaut?")
        'time'
        >>> load_question_words("spanish").find_kind("cuanto cuesta la entrada")
        'money'
        """
        question = _to_lower_same_length(question)
        patterns = self._select_patterns(question)
        # A noun is more exact than an interrogative: "Which telephone number" does not ask for a number.
        matches = (
            match
            for pattern in (patterns.answer_nouns, patterns.interrogatives)
            for match in patterns.iter_matches(pattern, question)
        )
        match = next(matches, None)
        return None if match is None or match.lastgroup is None else patterns.kinds[match.lastgroup]

    def remove_interrogatives(self, question: str) -> str:
        """Return a question with each interrogative phrase replaced by a space.

        >>> load_question_words("french").remove_interrogatives("Combien de temps dure le préavis ?")
        '  dure le préavis ?'
        """
        lower = _to_lower_same_length(question)
        patterns = self._select_patterns(lower)
        matches = patterns.iter_matches(patterns.interrogatives, lower)
        for match in reversed(list(matches)):  # from the end, so that the other offsets stay valid
            question = f"{question[: match.start()]} {question[match.end() :]}"
        return question

    def find_asked_noun(self, question: str, kind: str) -> str | None:
        """Return the noun after "how many" or "who is" in a question, in lower case; None if it asks for no ``kind``.

        >>> load_question_words("french").find_asked_noun("Combien y a-t-il de places dans la salle ?", "number")
        'places'
        """
        lower = _to_lower_same_length(question)
        patterns = self._select_patterns(lower)
        for match in patterns.iter_matches(patterns.interrogatives, lower):
            if match.lastgroup is not None and patterns.kinds[match.lastgroup] == kind:
                words = _LETTERS_PATTERN.findall(_CLAUSE_END_PATTERN.split(lower[match.end() :], 1)[0])
                return next((word for word in words if fold_text(word) not in self.function_words), None)
        return None

    def remove_summary_request(self, question: str) -> str | None:
        """Return a request for a summary in lower case without its general words; what remains can name the subject.

        General words ask for a summary, or mean documents and their contents. Returns None if the
        question asks for no summary.

        >>> load_question_words("german").remove_summary_request("Fasse das Handbuch in 3 Sätzen zusammen.").split()
        ['das', 'handbuch', 'in', '.']
        """
        lower = _to_lower_same_length(question)
        patterns = self._select_patterns(lower)
        if not patterns.summary_requests.search(lower):
            return None
        return patterns.general_words.sub(" ", patterns.summary_requests.sub(" ", lower))

    def _select_patterns(self, question: str) -> _QuestionPatterns:
        """Return the patterns for a question in lower case: those without accents if it has none."""
        if self.patterns_without_accents is None:  # the language has no accents
            return self.patterns
        return self.patterns if _fold_words(question) != question else self.patterns_without_accents


def build_count_pattern(noun: str) -> re.Pattern[str]:
    """Return a pattern for a number in digits, at most one other word, and a form of the noun, or a field of that name.

    >>> texts = "25 jeunes élèves", "Élèves : 25; Salle : 3", "Les élèves ont 25 livres", "Élèves : 5 €"
    >>> [bool(build_count_pattern("élèves").search(text)) for text in texts]
    [True, True, False, False]
    """
    forms = _escape_forms(noun)
    field = rf"(?<!\w){forms} ?: ?(?!0\d)\d{{1,3}}(?:[.,' ]?\d{{3}})*(?=[^\S\n]*(?:[;\n]|\Z))"
    return re.compile(rf"\d[^\S\n](?:[^\W\d_]+[^\S\n])?{forms}|{field}", re.IGNORECASE)


def build_role_pattern(noun: str) -> re.Pattern[str]:
    """Return a pattern for a form of the noun next to a name: *tesorera: Ana Gil*, *Ana Gil (tesorera)*.

    >>> pattern = build_role_pattern("tesorera")
    >>> [bool(pattern.search(text)) for text in ("Tesorera: Ana Gil", "Ana Gil, tesorera", "la tesorera de Lugo")]
    [True, True, False]
    """
    role, name = f"(?i:{_escape_forms(noun)})", rf"{_CAPITAL}[\w'’.-]*\w"
    return re.compile(rf"(?<!\w){role}[,:]?[^\S\n]{name}|{name}[^\S\n]{name},?[^\S\n]\(?{role}")


def _escape_forms(noun: str) -> str:
    """Return a regular expression for the forms of a noun: other cases and numbers, which end in other letters."""
    return rf"{re.escape(noun[: max(min(len(noun), 4), len(noun) - 2)])}\w{{0,4}}(?!\w)"


def _to_lower_same_length(text: str) -> str:
    """Return a text in lower case with plain apostrophes, in which all offsets are the same as in the original.

    The case is unchanged if lower case would change the length.
    """
    lower = text.lower().replace("’", "'")
    return lower if len(lower) == len(text) else text.replace("’", "'")


@cache
def read_language_file(language: str) -> Mapping[str, Any] | None:
    """Read the word file of a language; return None if the language, such as English, has no file. Cached."""
    path = FOLDER / f"{language}.toml"
    if not path.is_file():
        return None
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def load_question_words(language: str | None) -> QuestionVocabulary | None:
    """Read the question words of a language; the result is cached.

    Returns None for English (or None), whose words are in the code, and for a language without a word file.
    """
    data = None if language is None else read_language_file(language)
    if language is None or data is None:
        return None
    answers = {name: split_phrases(phrases) for name, phrases in data["answers"].items()}
    has_spaces = bool(data["spaced"])
    labels, months = (_build_alternation(answers[name], has_spaces) for name in ("labels", "months"))
    function_words = FUNCTION_WORDS_BY_LANGUAGE.get(language, frozenset())
    return QuestionVocabulary(
        patterns=_build_question_patterns(data, has_spaces, str),  # ``str`` changes no phrase
        patterns_without_accents=(
            _build_question_patterns(data, has_spaces, _fold_words) if _has_accents(data) else None
        ),
        forms=_build_answer_patterns(answers, has_spaces, bool(data["capitalizes_names"]), function_words),
        label=compile_lazily(rf"(?:{labels}) ?\d[\d.,/-]*|§+ ?\d+", re.IGNORECASE),
        date=compile_lazily(
            rf"(?:(?:\b\d{{1,2}}[.º°]?\s?(?:[-–]\s?|[^\W\d_]{{1,3}}\s))?\b\d{{1,2}}[.º°]?\s(?:de\s)?)?(?:{months})"
            rf"(?:\s\d{{1,2}}(?![\d.,]*\d))?|{_YEAR}|{_DIGITAL_TIME}|{_CODE}",
            re.IGNORECASE,
        ),
        function_words=function_words,
    )


def split_phrases(text: str) -> list[str]:
    """Split a list of phrases at its commas, and return the phrases with single spaces.

    Spaces after a slash, which separates the alternatives of a phrase, are removed.
    """
    return [" ".join(phrase.split()).replace("/ ", "/") for phrase in text.split(",") if phrase.strip()]


def _fold_words(text: str) -> str:
    """Return a text with its words in normal form, without accents; ASCII text is returned unchanged."""
    return (
        text if text.isascii() else _LETTERS_PATTERN.sub(lambda match: fold_text(match.group()).replace("ё", "е"), text)
    )


def _has_accents(data: Mapping[str, Any]) -> bool:
    """True if a word file has a question word with an accent."""
    phrases = " ".join([*data["asks"].values(), *data["nouns"].values(), data["summaries"]["requests"]])
    return _fold_words(phrases) != phrases


def _build_question_patterns(
    word_file: Mapping[str, Any], has_spaces: bool, fold_phrase: Callable[[str], str]
) -> _QuestionPatterns:
    """Return the patterns of the question words of a language; ``word_file`` is the content of its word file.

    ``fold_phrase`` is applied to each phrase; it removes accents or changes nothing. Without its accent, an
    interrogative (French *où*, Spanish *cuándo*) asks only at the start of a clause; elsewhere, it can be a
    conjunction. ``has_spaces`` is True if the language separates words by spaces.
    """

    def fold_by_kind(section: str) -> dict[str, list[str]]:
        """Return the phrases in a section of the word file, each after ``fold_phrase``, by the kind of answer."""
        return {kind: list(map(fold_phrase, split_phrases(phrases))) for kind, phrases in word_file[section].items()}

    asking, asking_groups = _build_phrase_pattern("asking", fold_by_kind("asks"), has_spaces, _MAX_GAP_WORDS)
    noun, noun_groups = _build_phrase_pattern("noun", fold_by_kind("nouns"), has_spaces, _MAX_NOUN_GAP_WORDS)
    words = {phrase for phrases in word_file["asks"].values() for phrase in split_phrases(phrases) if phrase.isalpha()}
    initial_words = set(map(fold_phrase, words)) - words  # the interrogatives that have lost an accent
    requests = {"summary": list(map(fold_phrase, split_phrases(word_file["summaries"]["requests"])))}
    summary, _ = _build_phrase_pattern("summary", requests, has_spaces, _MAX_GAP_WORDS)
    general = _build_alternation(map(fold_phrase, split_phrases(word_file["summaries"]["general"])), has_spaces)
    groups = asking_groups | noun_groups
    return _QuestionPatterns(
        interrogatives=compile_lazily(asking),
        answer_nouns=compile_lazily(noun),
        kinds={group: phrase.kind for group, phrase in groups.items()},
        initial_groups=frozenset(
            group
            for group, phrase in asking_groups.items()
            if phrase.words in initial_words and not phrase.words_after_gap
        ),
        summary_requests=compile_lazily(summary),
        general_words=compile_lazily(rf"(?:(?<!\d)\d{{1,3}}\s*)?{general}"),  # with a count: "3 sentences"
    )


class _SplitPhrase(NamedTuple):
    """A phrase in a question, split at its ``…`` (a few other words), and the kind of answer that it asks for.

    ``words_after_gap`` is empty if the phrase has no ``…``.
    """

    words: str
    words_after_gap: str
    kind: str


def _measure_phrase(phrase: str, has_spaces: bool) -> int:
    """Return the length of a phrase in words, or in characters if its language writes no spaces between words.

    Each choice between options in the phrase counts as its longest option.
    """

    def measure(text: str) -> int:
        """Return the number of words or characters of a text."""
        return len(re.findall(r"\w+", text)) if has_spaces else len(text)

    return measure(_CHOICE_PATTERN.sub(lambda choice: max(choice[1].split("/"), key=measure), phrase))


def _build_phrase_pattern(
    name: str, phrases_by_kind: Mapping[str, Iterable[str]], has_spaces: bool, max_gap_words: int
) -> tuple[str, dict[str, _SplitPhrase]]:
    """Return the source of a pattern for the phrases of questions, and the phrase of each of its named groups.

    A gap (``…``) matches at most ``max_gap_words`` words (or a few characters, without spaces between words), and a
    match ends before it. At the same offset, a phrase for an hour or a deadline takes precedence, and then the phrase
    with the most words before its gap. The name of each group begins with ``name``. ``has_spaces`` is True if the
    language separates words by spaces.
    """
    phrases: list[_SplitPhrase] = []
    for kind, kind_phrases in phrases_by_kind.items():
        for kind_phrase in kind_phrases:
            words, _, words_after_gap = kind_phrase.partition(_GAP)
            phrases.append(_SplitPhrase(words, words_after_gap, kind))

    def get_sort_key(phrase: _SplitPhrase) -> tuple[Any, ...]:
        """Return the key by which phrases are sorted. An hour or a deadline is more exact than a time."""
        num_words = _measure_phrase(phrase.words, has_spaces)
        return (
            phrase.kind != "time of day",
            phrase.kind != "deadline",
            -num_words,
            -len(phrase.words_after_gap),
            -len(phrase.words),
            phrase,
        )

    phrases.sort(key=get_sort_key)
    gap = (
        rf"(?:[^\w.?!;:؟]+\w++){{0,{max_gap_words}}}?[^\w.?!;:؟]+"
        if has_spaces
        else rf"[^。？！?!]{{0,{_MAX_GAP_CHARACTERS}}}?"
    )
    start = _WORD_START if has_spaces else ""
    alternatives, groups = [], {}
    for index, phrase in enumerate(phrases):
        words, words_after_gap, _ = phrase
        group = f"{name}{index}"
        lookahead = f"(?={gap}{_escape_phrase(words_after_gap, has_spaces)})" if words_after_gap else ""
        alternatives.append(f"(?P<{group}>{_escape_phrase(words, has_spaces)}{lookahead})")
        groups[group] = phrase
    return f"{start}(?:{'|'.join(alternatives)})", groups


def _build_alternation(phrases: Iterable[str], has_spaces: bool) -> str:
    """Return a regular expression that matches any of the phrases, the longest first.

    If ``has_spaces`` (the language separates words by spaces), it matches whole words only. It matches nothing without
    phrases.
    """
    sorted_phrases = sorted(set(phrases), key=lambda phrase: (-len(phrase), phrase))
    if not sorted_phrases:
        return r"(?!)"
    alternatives = "|".join(_escape_phrase(phrase, has_spaces) for phrase in sorted_phrases)
    return rf"{_WORD_START}(?:{alternatives})" if has_spaces else rf"(?:{alternatives})"


def _escape_phrase(phrase: str, has_spaces: bool) -> str:
    """Return a regular expression for a phrase, in which ``*`` is any letters and ``(am/an)`` is one of several words.

    If the language ``has_spaces`` between words, the last word matches only as a whole; after a final apostrophe, the
    next word can follow directly (*l'année*).
    """
    pattern = re.escape(phrase)
    for mark, expression in ((r"\*", r"\w*"), (r"\ ", r"\s"), (r"\(", "(?:"), ("/", "|"), (r"\)", ")")):
        pattern = pattern.replace(mark, expression)
    ends_with_word = phrase[-1].isalnum() or phrase[-1] in "*)"
    return rf"{pattern}{_WORD_END}" if has_spaces and ends_with_word else pattern


def _build_answer_patterns(
    answers: Mapping[str, list[str]], has_spaces: bool, capitalizes_names: bool, function_words: frozenset[str]
) -> dict[str, re.Pattern[str]]:
    """Return a pattern for each kind of answer (``time``, ``money``, ...), by kind.

    ``answers`` are the phrases that answers in a language contain, by the key in its word file, such as ``months``.
    ``has_spaces`` is True if the language separates words by spaces, and ``capitalizes_names`` if it capitalizes names
    and no other words inside a sentence. ``function_words`` are those of the language.
    """
    # The mark after a long number ends its sentence; after a short one, it can be that of an ordinal.
    number = rf"(?:(?<!\d)(?<!\d[.,])\d[\d.,]*+(?<!\d\d\d[.,])|{_build_alternation(answers['numbers'], has_spaces)})"
    units, shares, ages = (_build_alternation(answers[name], has_spaces) for name in ("units", "shares", "ages"))
    currencies = _build_alternation([*answers["currencies"], *_CURRENCY_CODES], has_spaces)
    gap = r"[\s-]" if has_spaces else r"\s?"
    middle = r"\)?(?:[\s-]\(?[^\W\d]+\.?)?" if has_spaces else ""  # a word between the number and the unit
    amount = rf"{number}{middle}{gap}"
    times = _build_alternation([*answers["months"], *answers["days"], *answers["times"]], has_spaces)
    hours = rf"{_build_alternation(answers['before_hours'], has_spaces)}\s?{number}"
    time = rf"(?<!\d)(?:1\d|20)\d\d(?!\d)|{_DIGITAL_TIME}|{amount}(?:{units}|{times})|{hours}|{times}"
    deadlines = _build_alternation(answers["deadlines"], has_spaces)
    words_between = r"(?:[^\w.;!?]+\w+){0,3}?[^\w.;!?]*" if has_spaces else r".{0,6}?"
    expressions = {
        "time": time,
        "time of day": rf"(?<!:){_CLOCK_TIME}(?![./:]\d)|{hours}|{_NUMBER_WITH_HOUR}",
        # The word for a deadline precedes the time ("until 3 May") or, in some languages, follows it.
        "deadline": rf"{deadlines}{words_between}(?:{time})|(?:{time}){words_between}{deadlines}",
        "duration": rf"{amount}(?:{units})|{units}{_FIELD_END}",
        "weight": rf"{number}{middle}{gap}?{_WEIGHT_UNITS}|{_WEIGHT_UNITS}{_FIELD_END}",
        "number": number,
        # An age is with a year or its noun: *12 years old*, *born on 3 May 1990*; or it follows a name: *Ana Gil (42)*.
        "age": (
            rf"(?:{number}|(?<![\d.,])\d{{1,3}}{middle}){gap}(?:{ages})"
            rf"|(?:{ages})[^.;!?。\n\d]{{0,24}}(?:\d{{1,2}}(?!\d)|(?:19|200)\d)|(?<=\w) \(\d{{1,2}}\)"
        ),
        "frequency": rf"{number}|{_build_alternation(answers['frequencies'], has_spaces)}(?:{gap}{units})?",
        "percentage": rf"\d\s?%|{shares}",
        "money": (
            rf"{number}{middle}{gap}?{_CURRENCY_LINK}(?:{currencies})"
            rf"|{_CENTS}|{number}\s?{_CURRENCIES}|(?:{_CURRENCIES}|{currencies})(?:\s?\d|{_FIELD_END})"
            rf"|{_BARE_PRICE}(?!{_AFTER_MEASURE}|{gap}?{units})"
            rf"|{_build_alternation(answers['free'], has_spaces)}"
        ),
        "reason": _build_alternation(answers["reasons"], has_spaces),
        "telephone number": _TELEPHONE_PATTERN,
        "e-mail address": _MAIL_PATTERN,
        "web address": _ADDRESS_PATTERN,
    }
    patterns = {kind: compile_lazily(pattern, re.IGNORECASE) for kind, pattern in expressions.items()}
    return patterns | _build_name_patterns(
        answers.get("titles", []), answers.get("places", []), has_spaces, capitalizes_names, function_words
    )


def _build_name_patterns(
    titles: Sequence[str],
    places: Sequence[str],
    has_spaces: bool,
    capitalizes_names: bool,
    function_words: frozenset[str],
) -> dict[str, re.Pattern[str]]:
    """Return a pattern for each kind of answer that is a name: ``place``, and ``person`` if persons can be recognized.

    ``titles`` are words before the name of a person, and ``places`` words before the name of a place. Persons can be
    recognized by capitals if the language ``capitalizes_names``, else by titles in Latin script. ``has_spaces`` is True
    if it separates words by spaces. ``function_words`` are those of the language.
    """
    patterns: dict[str, re.Pattern[str]] = {}
    if capitalizes_names:
        patterns["person"] = compile_lazily(rf"{_CAPITALIZED}|{_build_titled_name(function_words)}")
        # A place without a name is known by the word before it: "behind the gym".
        place_pattern = rf"(?i:{_build_alternation(places, has_spaces)}) (?:\w+ )?[^\W\d_]+" if places else r"(?!)"
        patterns["place"] = compile_lazily(rf"{_CAPITALIZED}|{place_pattern}")
    elif has_spaces:
        if any(title.isascii() for title in titles):  # other scripts have no capitals
            word = r"[A-ZÄÖÜ][\w'’-]+"
            patterns["person"] = compile_lazily(rf"(?i:{_build_alternation(titles, has_spaces)}) {word}|{word} {word}")
        patterns["place"] = compile_lazily(rf"(?i:{_build_alternation(places, has_spaces)}) (?:\w+ )?\w+")
    else:
        patterns["place"] = compile_lazily(_build_alternation(places, has_spaces))
    return patterns


def _build_titled_name(function_words: frozenset[str]) -> str:
    """Return a regular expression for the name of a person after a title: *Dr. Brunel*, *M. Brunel*.

    The name is not in ``function_words``, those of the language, so *bâtiment M. Elles …* has no name.
    """
    name = rf"(?!(?i:{'|'.join(sorted(function_words))})(?!\w)){_CAPITAL}[\w'’.-]*\w"
    return rf"(?<!\w)(?:{_TITLES})\. {name}"
