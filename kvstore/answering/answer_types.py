"""The answer type of a question: what it asks for, such as a person, a time, an amount of money or the meaning of a
word. The *form* of a type is text that can answer, such as digits or a capitalized word. A type is *missing* in a text
without that form. A *contrast* is a word with an opposite.

The other types are a place, time of day, color, number, duration, weight, length, area, volume, percentage, frequency,
command, reason, and values that have a name, such as a telephone number, a web address or a serial number.

In: a question. Out: an :class:`AnswerType`, which checks if a text contains something of the type that is not in the
question itself: "the Nobel Prize" does not answer "Who founded the Nobel Prize?". If no words in a question show a
type, any text may answer it. Also out: the words in a question that have an opposite, because a sentence about the
smallest port does not answer a question about the largest one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import NamedTuple

from ..text.patterns import compile_lazily, remove_long_runs
from ..text.question_words import QuestionVocabulary, load_question_words
from ..text.words import FUNCTION_WORDS, WORD_PATTERN, is_unspaced
from .answer_forms import (
    ANSWER_FORMS,
    AREA_UNITS,
    CURRENCIES,
    DISTANCE_UNITS,
    TIME_OR_EVENT_PATTERN,
    TIME_UNITS,
    VOLUME_UNITS,
    WEIGHT_UNITS,
)
from .question_form import AUXILIARIES
from .question_names import PassageWords, QuestionName

#: The function words that answer no question; "once" and "both" answer "how many".
_IGNORED_WORDS = FUNCTION_WORDS - {"once", "both"}


def _build_noun_pattern(nouns: str) -> str:
    """Return a regular expression for "what" or "which" before one of ``nouns``, also in the plural.

    ``nouns`` are words in the singular, separated by spaces.
    """
    return rf"\b(?:what|which) (?:{'|'.join(nouns.split())})s?\b"


def _build_unit_question(units: str) -> str:
    """Return a regular expression for "how many" before a unit, with at most one word between them."""
    return rf"\bhow many (?:[\w-]+ )?(?:{units})\b"


#: Types with a form of their own. A passage without a match of the form does not answer.
FIXED_FORM_TYPES = frozenset(
    ("telephone number", "e-mail address", "web address", "serial number", "license plate", "account number")
)
#: Types whose form a passage in a language other than English must have to answer.
FOREIGN_FORM_TYPES = FIXED_FORM_TYPES | {"age", "money", "weight"}
_AMOUNT_TYPES = frozenset(("number", "age", "money", "duration", "frequency", "percentage"))
#: Types whose form almost every sentence that answers has.
_REQUIRED_FORM_TYPES = FIXED_FORM_TYPES | _AMOUNT_TYPES | {"weight", "length", "area", "volume", "time of day", "color"}
#: Types whose form is in nearly every sentence that answers in a language other than English.
_FOREIGN_REQUIRED_FORM_TYPES = _REQUIRED_FORM_TYPES | {"time", "deadline", "person"}
#: The score of a text with a time that is not a deadline, if a question asks for a deadline.
_OTHER_TIME_SCORE = 0.25
_WHAT_IS = (
    r"\b(?:what|which)(?: is|'s|’s| was| are)(?: the| his| her| its| their| our| your| my|(?: [\w-]+){1,3}['’]s?)?"
)

#: The text after "when" in a question for a time: a verb, or the end of the question.
_WHEN_VERB = r"\s(?:did|was|were|is|are|does|do|will|has|had)"
_WHEN_ENDING = rf".{{0,40}}\?|{_WHEN_VERB}"
_PRICES = (
    "(?:prices?|costs?|fees?|salary|wages?|rent|budget|fine|deposit|premium|allowance|sum|bill|excess|penalty|surcharge"
    "|amount(?! of (?!money|cash)))"
)
_OTHER_QUESTION_WORD = r"\b(?:what|which|how|who|whom|whose|where|why)\b"
_YES_NO_START = rf"\W*(?:{AUXILIARIES})\b"
_REPORTING_VERB = r"\b(?:know|say|says|tell|remember|sure)\b"

#: The types with the patterns of their questions. The leftmost match decides, and of several there the first.
_QUESTION_PATTERNS = (
    ("telephone number", rf"{_WHAT_IS}(?: [\w-]+)? (?:(?:tele)?phone|fax|mobile) (?:numbers?|extensions?)\b"),
    ("e-mail address", rf"{_WHAT_IS}(?: [\w-]+)? e-?mail address(?:es)?\b"),
    (
        "web address",
        rf"{_WHAT_IS}(?: [\w-]+)? (?:web ?(?:site )?address|url)(?:es|s)?\b(?! of the| param| option| field)",
    ),
    ("serial number", rf"{_WHAT_IS}(?: [\w-]+)? serial (?:numbers?|no)\b"),
    ("license plate", rf"{_WHAT_IS}(?: [\w-]+)? (?:licen[cs]e plates?|number ?plates?|plate numbers?)\b"),
    ("account number", rf"{_WHAT_IS}(?: [\w-]+)? (?:(?:bank )?account numbers?|iban)\b"),
    ("weight", r"\bhow heavy\b|\bhow much (?:do|does|did)\b.{1,80}\bweigh\b|\bwhat (?:do|does|did)\b.{1,80}\bweigh\b"),
    ("weight", _build_unit_question(WEIGHT_UNITS)),
    ("length", _build_unit_question(DISTANCE_UNITS)),
    ("area", _build_unit_question(AREA_UNITS)),
    ("volume", _build_unit_question(VOLUME_UNITS)),
    (
        "duration",
        rf"\bhow long\b|{_build_unit_question(TIME_UNITS)}"
        r"|\bhow much (?:(?:advance|annual|paid|parental|prior|sick|written) )?"
        r"(?:holiday|leave|notice|time|vacation|warning)\b(?! (?:allowance|money|pay)\b)",
    ),
    ("percentage", _build_noun_pattern("percentage share proportion fraction") + r"|\bhow many per ?cent\b"),
    (
        "command",
        _build_noun_pattern("command option flag switch setting parameter function variable statement pragma keyword"),
    ),
    ("command", _build_noun_pattern("directive key method tool program signal syntax")),
    (
        "money",
        r"\bhow (?:much|high)\b(?=(?: [\w'’-]+){0,12}? (?:costs?|charged?|spen[dt]|pa(?:y|ys|id)|earns?|owed?"
        r"|money|cash|price|fees?|salary|budget|grants?|donated|allocated|(?:euro|dollar|pound|cent)s?)\b)"
        rf"|\bhow much(?: is| was| are| were)\b|\bhow many (?:[\w-]+ )?(?!pounds)(?:{CURRENCIES})(?!\w)",
    ),
    (
        "money",
        r"\bwhat (?:do|does|did|would|will|must|have)\b"
        r"(?=.{1,80} (?:costs?|(?<!in )charge|pay|earn|owe)\b)",
    ),
    (
        "money",
        r"\b(?:what|which|how high)(?:['’]s| is| was| are| were)(?: the| our| my| his| her| their)?"
        rf"(?: (?!name|kind|type|sort|difference|reason)[\w-]+){{0,3}}? {_PRICES}\b"
        rf"|\b(?:what|which) (?:(?:annual|average|daily|maximum|minimum|monthly|total|weekly) )?{_PRICES}\b",
    ),
    ("frequency", r"\bhow often\b"),
    ("number", r"\bhow (?:many|much|old|far|large|big|tall|high|fast|deep|wide|heavy|loud|hot|cold|thick)\b"),
    ("number", _build_noun_pattern("number amount population age limit") + r"(?<!limits)"),
    (
        "number",
        rf"{_WHAT_IS} (?:default|max(?:imum)?|min(?:imum)?)(?: [\w-]+){{0,2}}? (?:age|amount|capacity|count|depth"
        r"|distance|dose|duration|height|length|number|port|size|speed|temperature|timeout|weight|width)s?\b",
    ),
    # After another question word or an auxiliary verb, "when" begins a condition ("What do I do when it rains?").
    (
        "time",
        rf"(?:\A|[.!?;:]|\b(?:and|by|from|or|since|till|until))\W*when\b(?={_WHEN_ENDING})|,\s*when(?={_WHEN_VERB})",
    ),
    ("time", rf"\A(?!.*{_OTHER_QUESTION_WORD}|{_YES_NO_START}(?!.*{_REPORTING_VERB})).*\bwhen\b(?={_WHEN_ENDING})"),
    (
        "time of day",
        r"\b(?:what|which) time (?:am|are|can|do|does|is|may|must|shall|should|will)\b.{0,80}"
        r"\b(?:arrive|begin|close|depart|end|finish|leave|meet|open|return|start|stop)(?:s|ed|ing)?\b",
    ),
    ("color", _build_noun_pattern("color colour")),
    ("time", _build_noun_pattern("year date day month time century decade hour")),
    # After another question word, "who" begins a clause about a person ("the member who left").
    ("person", r"(?:\A|[.!?,;:]|\b(?:and|at|by|for|from|of|on|to|with))\W*(?:who|whom|whose)\b"),
    ("person", r"\A(?!.*\b(?:what|which|how|when|where|why)\b).*\b(?:who|whom|whose)\b"),
    ("place", r"\bwhere\b"),
    (
        "place",
        _build_noun_pattern(
            "city country place state county town directory folder file path location continent region village"
        ),
    ),
    ("command", r"\bhow (?:do|can|could|should|would) (?:i|you|we|one)\b|\bhow to\b"),
    ("reason", rf"\bwhy\b|{_build_noun_pattern('reason cause')}"),
)
_COMPILED_QUESTION_PATTERNS = tuple(
    (type_name, compile_lazily(pattern, re.IGNORECASE)) for type_name, pattern in _QUESTION_PATTERNS
)
_DEFINITION_PATTERN = compile_lazily(
    r"""(?:what\ (?:is|are|was|were)\ (?:an?\ |the\ )?(?:(?:purpose|meaning|use|point|role|function)\ of\ )?(?:the\ )?
    |what\ (?:does|do|did)\ (?=.+\ (?:do|mean|stand\ for|control|measure|store|contain)\s*\?*\Z)(?:an?\ |the\ )?
    |(?:define|explain|describe)\ )(?P<subject>.+?)
    (?:\ (?:do|mean|good\ for|for|stand\ for|used\ for|control|measure|store|contain))?\s*\?*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
#: The maximum number of words of a subject to explain.
_MAX_SUBJECT_WORDS = 5
#: The number of other words among the first words of a text that explains a subject.
_NUM_OPENING_WORDS = 3
#: "One" is mostly a pronoun, but a number before a noun that the question counts.
_ONE_PATTERN = compile_lazily(r"\bone ([a-z]+)")
#: A line of the header of an e-mail.
_MAIL_HEADER_PATTERN = compile_lazily(r"(?m)\b(?:From|To|Cc|Sent|Date): [^\n]*[@\d][^\n]*")
#: The number of characters of a question that decide its answer type. The end of a longer text asks.
_MAX_QUESTION_LENGTH = 4000
#: The numbers of characters before and after the name of a person that can have the person's age.
_MAX_BEFORE_PERSON, _MAX_AFTER_PERSON = 60, 120
#: A year of birth or, for a building that is named like a person, of construction.
_OLD_YEAR_PATTERN = compile_lazily(r"(?<![\d.,])1\d{3}(?![.,]?\d)")
#: A passage with an amount of money answers only if it covers this fraction of what the best passage covers.
_MIN_COVERAGE_FRACTION = 0.5


@dataclass(frozen=True, slots=True)
class AnswerType:
    """The expected answer type of a question: ``name`` is a type such as ``person``, or ``thing`` if it is unknown.
    ``words`` are the words in the question. ``subject`` are the words to be explained if the type is ``meaning`` ("What
    is leave?", "What does --force do?").
    """

    name: str
    words: frozenset[str]
    subject: frozenset[str] = frozenset()

    def is_missing_in(self, text: str, labels: str = "") -> bool:
        """True if a text cannot answer: answers of this type have a form, such as digits, and the text lacks it.

        Text of this form that is also in the question does not count. A time can also be an event ("after lunch"), and
        be in the ``labels`` of the text: its title, headings and file name. In the training data of the answer reader,
        4 % of the right sentences about a time lack both, and 22 % of the nearest sentences if the documents have no
        answer.
        """
        if self.name == "time":
            return not self._has_new_match(TIME_OR_EVENT_PATTERN, f"{labels} {text}")
        return self.name in _REQUIRED_FORM_TYPES and not self.is_present_in(text)

    def is_unlikely_in(self, text: str) -> bool:
        """Return False: for questions in English, a neural network (the answer reader) judges if a text can answer.

        It reads no other language, so :class:`ForeignAnswerType` overrides this method.
        """
        return False

    def is_present_in(self, text: str) -> bool:
        """True if a text contains something of the answer type, such as a date, that is not in the question.

        For the type ``meaning``, the text must begin with the subject, as a definition does. False for ``thing``.
        """
        if self.name == "meaning":
            first_words = WORD_PATTERN.findall(text.lower())[: len(self.subject) + _NUM_OPENING_WORDS]
            return self.subject.issubset(first_words)
        if self.name == "number" and any(f"{noun}s" in self.words for noun in _ONE_PATTERN.findall(text.lower())):
            return True
        pattern = ANSWER_FORMS.get(self.name)
        return pattern is not None and self._has_new_match(pattern, text)

    def score_match(self, text: str) -> float:
        """Return 1 if a text has an answer of this type that the question itself does not contain, and otherwise 0.

        :class:`ForeignAnswerType` returns a value in between if the question asks for a deadline and the text has
        another time.
        """
        return float(self.is_present_in(text))

    def _has_new_match(
        self, pattern: re.Pattern[str], text: str, function_words: frozenset[str] = _IGNORED_WORDS
    ) -> bool:
        """True if a match of a pattern in a text has a word that is neither in the question nor a function word."""
        matches = (match.group().lower() for match in pattern.finditer(remove_long_runs(text)))
        matched_words = (word for matched_text in matches for word in WORD_PATTERN.findall(matched_text))
        return any(word not in self.words and word not in function_words for word in matched_words)


@dataclass(frozen=True, slots=True)
class ForeignAnswerType(AnswerType):
    """The answer type of a question that is not in English. ``language_words`` has the forms of answers in its
    language: a pattern for each type (None: no forms are known).
    """

    language_words: QuestionVocabulary | None = None

    def is_unlikely_in(self, text: str) -> bool:
        """True if a text has no match of the answer type's pattern, which nearly all answers of the type have.

        An example is a text without digits if the question asks for a date. Words of the question do not count. False
        for a type without a pattern in the language, or with a pattern that many answers do not match.
        """
        has_form = self.language_words is not None and self.name in self.language_words.forms
        return has_form and self.name in _FOREIGN_REQUIRED_FORM_TYPES and not self.is_present_in(text)

    def is_present_in(self, text: str) -> bool:
        """True if a text contains something of the answer type that is not in the question.

        A reason may also be in the question, because Italian *perché* means both *why* and *because*. Any time counts
        as a deadline. False for a type without a form in the language.
        """
        vocabulary = self.language_words
        if not vocabulary or self.name not in vocabulary.forms:
            return False
        name = "time" if self.name == "deadline" else self.name
        if name in _AMOUNT_TYPES:  # the number of "Article 7" is not an amount
            text = vocabulary.label.sub(" ", text)
        if name == "place":  # the names in the header of an e-mail are not places
            text = _MAIL_HEADER_PATTERN.sub(" ", text)
        if name == "number":  # the number in a date is not a count
            text = vocabulary.date.sub(" ", text)
        if name == "reason":
            return vocabulary.forms[name].search(remove_long_runs(text)) is not None
        return self._has_new_match(vocabulary.forms[name], text, vocabulary.function_words)

    def list_texts_near_person(self, texts: Iterable[str], names: Iterable[QuestionName]) -> list[str]:
        """Return the parts of texts around the person whose age the question asks for, in any grammatical case.

        A person is a name of several words; in a script without capitals, the content words of the question count. The
        list is empty if the question asks for another age: that of a building can be the year of its construction.
        """
        words = [form for name in names if len(name.forms) > 1 for form in name.forms]
        if self.language_words is not None and all(word == word.upper() for word in self.words):
            words = [word for word in self.words - self.language_words.function_words if len(word) > 1]
        if not words:
            return []
        # Without spaces between words, the question is one word, whose first characters are the name.
        stems = (re.escape(word[: 2 if is_unspaced(word) else max(min(len(word), 3), len(word) - 4)]) for word in words)
        person = re.compile(rf"(?<!\w)(?:{'|'.join(stems)})")
        return [
            text[max(0, match.start() - _MAX_BEFORE_PERSON) : match.end() + _MAX_AFTER_PERSON]
            for text in texts
            for match in person.finditer(text)
        ]

    def score_match(self, text: str) -> float:
        """Return 1 if a text has something of the answer type, 0.25 for a time instead of a deadline, else 0."""
        vocabulary = self.language_words
        score = float(self.is_present_in(text))
        if self.name == "deadline" and score and vocabulary is not None:
            is_deadline = vocabulary.forms["deadline"].search(remove_long_runs(text)) is not None
            return 1.0 if is_deadline else _OTHER_TIME_SCORE
        return score


def detect_answer_type(question: str, language: str | None = None) -> AnswerType:
    """Return the expected answer type of a question: the type of the question words that come first in it.

    ``language`` is the language of the question (None: English). An English question without such words that asks what
    something is has the type ``meaning``. Any other question has the type ``thing``, which means unknown.

    >>> [detect_answer_type(text).name for text in ("Who was it?", "How long is leave?", "What is tea?")]
    ['person', 'duration', 'meaning']
    >>> detect_answer_type("What happens to a member who never answers?").name
    'thing'
    >>> detect_answer_type("Who founded the Nobel Prize?").is_present_in("The Nobel Prize was founded by Alfred Nobel.")
    True
    """
    question = remove_long_runs(question)[-_MAX_QUESTION_LENGTH:]
    words = frozenset(WORD_PATTERN.findall(question.lower()))
    language_words = load_question_words(language)  # None for English
    if language_words is not None:
        return ForeignAnswerType(language_words.find_kind(question) or "thing", words, language_words=language_words)
    matches = [
        (match.start(), rank)
        for rank, (_, pattern) in enumerate(_COMPILED_QUESTION_PATTERNS)
        if (match := pattern.search(question))
    ]
    if matches:
        _, rank = min(matches)
        return AnswerType(_COMPILED_QUESTION_PATTERNS[rank][0], words)
    definition = _DEFINITION_PATTERN.match(question.strip())
    if definition is not None:
        subject = frozenset(WORD_PATTERN.findall(definition["subject"].lower())) - FUNCTION_WORDS
        if 0 < len(subject) <= _MAX_SUBJECT_WORDS:
            return AnswerType("meaning", words, subject)
    return AnswerType("thing", words)


def find_missing_answer_type(
    answer_type: AnswerType,
    passages: Sequence[PassageWords],
    texts: Sequence[str],
    coverages: Sequence[float],
    *,
    names: Iterable[QuestionName],
    is_english: bool,
) -> str:
    """Return the type that a question asks for, such as ``telephone number``, if no relevant passage has such a text.

    Otherwise, or if answers of the type have no recognizable form, return an empty string. ``texts`` are the texts of
    the passages without their file names, and ``names`` the names in the question. ``coverages`` has the fraction of
    the question's terms in each passage. In English, all passages are relevant, because the answer reader (a network)
    judges what a number is about. In other languages, the passages with all names are relevant, or all passages if none
    has them. For money and weights, they are the passages with enough terms instead, and for the age of a person, the
    texts around the name.
    """
    asks_for_foreign_amount = answer_type.name in ("money", "weight") and not is_english
    texts_near_person: list[str] = []
    if answer_type.name == "age" and isinstance(answer_type, ForeignAnswerType):
        texts_near_person = answer_type.list_texts_near_person(texts, names)
    if not (answer_type.name in FIXED_FORM_TYPES or asks_for_foreign_amount or texts_near_person):
        return ""
    relevant_texts = texts_near_person or texts
    if asks_for_foreign_amount:
        min_coverage = _MIN_COVERAGE_FRACTION * max(coverages)
        pairs = zip(texts, coverages, strict=True)
        relevant_texts = [text for text, coverage in pairs if coverage >= min_coverage]
    elif not (is_english or texts_near_person):
        has_names = [all(passage.has_name(name) for name in names) for passage in passages]
        relevant_texts = list(compress(texts, has_names)) or texts
    if any(map(answer_type.is_present_in, relevant_texts)) or any(map(_OLD_YEAR_PATTERN.search, texts_near_person)):
        return ""
    return "amount of money" if answer_type.name == "money" else answer_type.name


#: Words and their opposites. Among the questions in SQuAD 2.0 outside the held-out articles, 3 % of the near misses
#: have an opposite in the sentence with the most words from the question, and 0.1 % of the others.
_PAIRS = """
    full-time part-time, annual monthly, annually monthly, minimum maximum, buy sell, buying selling, buyer seller,
    north south, northern southern, east west, eastern western, northeast southwest, northwest southeast,
    increase decrease, increased decreased, increases decreases, rise fall, rose fell, largest smallest,
    biggest smallest, highest lowest, oldest newest, oldest youngest, older younger,
    earliest latest, longest shortest, higher lower, larger smaller, greater smaller, male female, men women,
    public private, upper lower, positive negative, best worst, better worse, stronger weaker, inside outside,
    internal external, domestic foreign, import export, imports exports, urban rural, legal illegal,
    included excluded, accepted rejected, allowed forbidden, allowed prohibited, opened closed, majority minority,
    supported opposed, supporters opponents, successful unsuccessful, ancient modern, advantage disadvantage,
    advantages disadvantages, large small, high low, summer winter, spring autumn, adult child, adults children,
    undergraduate graduate, lend borrow, arrive depart, income expense, credit debit, employer employee,
    landlord tenant, temporary permanent, primary secondary
"""
#: Words that ask for a quantity ("how large is the harbor"): their opposite in a text does not change the answer.
_QUANTITY_PATTERN = compile_lazily(r"\bhow [a-z]+")
_HYPHENATED_WORD_PATTERN = compile_lazily(r"[a-z]+(?:-[a-z]+)*")


def _map_opposites(pairs: str) -> Mapping[str, frozenset[str]]:
    """Map each word to its opposites. ``pairs`` has two words per pair, and commas between the pairs."""
    opposites: dict[str, set[str]] = defaultdict(set)
    for pair in pairs.split(","):
        first, second = pair.split()
        opposites[first].add(second)
        opposites[second].add(first)
    return {word: frozenset(words) for word, words in opposites.items()}


_OPPOSITES = _map_opposites(_PAIRS)


class Contrast(NamedTuple):
    """A word in a question with its opposites, and the word after it that it may modify, or an empty string."""

    word: str
    opposites: frozenset[str]
    noun: str


def find_contrasts(question: str) -> list[Contrast]:
    """Return the words in a question that have an opposite, such as "largest", with their opposites and nouns.

    The noun is the next word, or an empty string if the next word is a function word or missing.

    >>> [contrast.noun for contrast in find_contrasts("Which is the largest port of the north?")]
    ['port', '']
    """
    words = _HYPHENATED_WORD_PATTERN.findall(_QUANTITY_PATTERN.sub("", question.lower()))
    return [
        Contrast(word, _OPPOSITES[word], "" if next_word in FUNCTION_WORDS else next_word)
        for word, next_word in pairwise([*words, ""])
        if word in _OPPOSITES
    ]


def is_contrary(contrasts: Sequence[Contrast], text: str) -> bool:
    """True if a text lacks a word from a question and has its opposite. ``contrasts`` are the words with opposites.

    A text without the word that the question's word modifies is about something else: a debit card does not contradict
    a credit union.

    >>> contrasts = find_contrasts("Which is the smallest port?")
    >>> texts = "The largest port is Bergen.", "Bergen is a port.", "The largest port is Bergen, the smallest Moss."
    >>> [is_contrary(contrasts, text) for text in (*texts, "Moss has the largest church.")]
    [True, False, False, False]
    """
    words = set(_HYPHENATED_WORD_PATTERN.findall(text.lower()))
    for contrast in contrasts:
        has_opposite = contrast.word not in words and not contrast.opposites.isdisjoint(words)
        if has_opposite and any(word.startswith(contrast.noun.removesuffix("s")) for word in words):
            return True
    return False
