"""Names in a question, as written, and if a passage contains them. A name is words with capitals or digits ("Duke of
York"), or a technical token (``--force``). A *link* is a word without a capital inside it. The *normal form* of a word
has no capitals and accents. A *piece* is a word or mark.

In: a question; the words of a passage. Out: a :class:`QuestionName` for each name, and whether the passage contains it
as a whole. A text with the words "good" and "people" somewhere says nothing about the film Good People.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, takewhile
from typing import NamedTuple

from ..text.everyday_words import is_everyday
from ..text.languages import capitalizes_nouns
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.words import (
    FUNCTION_WORDS,
    can_cross_words,
    find_marked_titles,
    get_function_words,
    is_bigram,
    list_informative_words,
    segment_words,
    separate_unspaced,
    split_written_words,
)

#: Options, numbers with separators (2,500; 3.5; 10:30; v1.2), words, and marks.
_PIECE_PATTERN = compile_lazily(
    r"(?<![\w-])--?[^\W\d][\w-]+|(?<!\w)v?\d+(?:[.,:/]\d+)+(?!\w)|\w(?:[\w'’-]*\w)?|[^\w\s]"
)
#: The pronoun "I" with a verb, such as "I'm".
_CONTRACTION_PATTERN = compile_lazily(r"I['’](?:d|ll|m|ve)")
_POSSESSIVE_PATTERN = compile_lazily(r"['’]s\Z")
#: The plural of an abbreviation, such as "DVDs".
_PLURAL_ABBREVIATION_PATTERN = compile_lazily(r"[A-Z]{2,}s")
#: Technical tokens: options, and words with an underscore or with digits among letters.
_TOKEN_PATTERN = compile_lazily(r"--?[^\W\d][\w-]+|\w*[^\W_]_[^\W_]\w*|(?=\w*\d)\w*[^\W\d_]\w*")
#: Words without a capital that join the parts of a name, and symbols that do not end a name.
_LINK_WORDS = frozenset("of the de la le du di da del der van von bin".split())
_JOINING_MARKS = frozenset("-&")
#: The maximum number of consecutive link words within a name.
_MAX_LINKS = 2
#: The maximum number of words that a text can have between two words of a name: a second name or an initial.
_MAX_WORDS_BETWEEN = 1
#: The maximum number of words after a noun that can be its numbers: "Haus 5 und 7".
_MAX_NUMBER_WORDS = 8
_HIRAGANA_PATTERN = compile_lazily("[\u3041-\u309f]+")
#: The minimum number of words in a question in title case.
_MIN_TITLE_WORDS = 3
#: German nouns before a name, which do not belong to it.
_GERMAN_TITLES = frozenset("doktor dr familie firma frau graf herr herrn herzog kaiser könig prof professor".split())
#: German nouns before a number that are no part of a name: documents can lack them ("8. Kaution", "Ahornweg 8").
_GERMAN_LABELS = frozenset(
    """
    absatz abschnitt anhang anlage artikel hausnr hausnummer kapitel klausel nr nummer paragraf paragraph punkt satz
    seite ziffer
    """.split()
)
#: Titles before the surname of a person in other languages, in normal form.
_TITLES = frozenset(
    """
    dhr dona frau fru herr herrn m madame mevr mevrouw mme monsieur pan pani senhor senhora senor senora sig signor
    signora sr sra
    """.split()
)
#: Abbreviations between a noun and its number in other languages.
_NUMBER_LABELS = frozenset("n no nº num numero".split())
#: Nouns before a decade (*los años 80*), without accents.
_YEAR_NOUNS = frozenset("annees anni anos jaren lata".split())
#: A noun and its number, at the end of a clause or before a word of at most three letters.
_NUMBERED_NOUN_PATTERN = compile_lazily(
    r"(?<![\w-])(?P<noun>[^\W\d_]{3,})\s(?:n\.?[ºo°]?\s?)?(?P<number>\d{1,3})(?=\s*(?:[?!,;:]|\Z)|\s[^\W\d_]{1,3}\s)"
)
#: A number that is part of the German name before it, such as a house number; longer ones are mostly years.
_NAME_NUMBER_PATTERN = compile_lazily(r"\d{1,3}")
#: The signs before, and the units after, the number of an amount.
_CURRENCY_SIGNS = frozenset("$€£¥")
_UNIT_PATTERN = compile_lazily(
    r"[$€£¥%]|(?:euro|dollar|pound|cent|second|minute|hour|day|night|week|month|year|person|met(?:er|re)|mile|page)s?"
    r"|people|[ckm]?[glm]",
    re.IGNORECASE,
)


class QuestionName(NamedTuple):
    """A name as a question writes it.

    ``words`` are its words in normal form, and ``forms`` the same words as written. ``is_token`` is True for a
    technical token. ``opens_sentence`` is True if its first word opens a sentence: its capital may then not mean that
    it is part of the name. ``can_include_nouns`` is True if common nouns are capitalized too, as in German, so that one
    of the words can be an ordinary noun next to the name. ``title`` is the German title before it ("frau"), in normal
    form, or empty.
    """

    text: str
    words: tuple[str, ...]
    forms: tuple[str, ...]
    is_token: bool = False
    opens_sentence: bool = False
    can_include_nouns: bool = False
    title: str = ""

    @property
    def number_indexes(self) -> list[int]:
        """The indexes of the numbers that belong to the word before them, as in the German "Haus 7"."""
        if not self.can_include_nouns:
            return []
        return [index for index in range(1, len(self.words)) if _NAME_NUMBER_PATTERN.fullmatch(self.words[index])]


@dataclass
class PassageWords:
    """The words of a passage, for finding names in it: ``words`` in normal form, and ``forms`` as written.

    The plural of an abbreviation ("DVDs") counts as the singular. If the normal form splits the text into other words,
    ``forms`` are the words in normal form too. ``stem`` makes the forms of a name equal in languages that inflect
    names. ``function_words`` are the function words of the passage's language.
    """

    text: str
    stem: Callable[[str], str] = str
    function_words: frozenset[str] = FUNCTION_WORDS
    words: list[str] = field(init=False)
    forms: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Split the text into words, in normal form and as written."""
        self.words, self.forms = _list_words_and_forms(self.text)

    def has_name(self, name: QuestionName) -> bool:
        """True if the passage contains a name from a question as a whole, with its words capitalized.

        A technical token can occur anywhere in the text, in any case. If a name opens a sentence, its first word may be
        missing, because its capital may mean nothing. In German, two adjacent words of a longer name are enough,
        because the others can be ordinary nouns, and a number must directly follow its noun.
        """
        if name.is_token:
            return name.text.lower() in self.text.lower()
        num_words = len(name.words)
        if name.number_indexes:  # "Haus 7" is neither "7 Uhr" nor "Haus 8", whatever else the passage has
            return all(self._has_numbered_noun(name, index) for index in name.number_indexes)
        if name.can_include_nouns and num_words > 2:
            # One pair of adjacent words is enough, because another word can be a noun next to the name.
            pairs = (slice(first, first + 2) for first in range(num_words - 1))
            return any(self._has_words(name, pair) for pair in pairs)
        if self._has_words(name, slice(None)):
            return True
        can_lack_first = name.opens_sentence and num_words > 1
        return can_lack_first and self._has_words(name, slice(1, None))

    def has_person(self, name: QuestionName) -> bool:
        """True if the passage has the title and the first word of a name; the second can be an ordinary German noun.

        An example is "Frau Blum" for the name "Blum Geburtstag" after the title "Frau".
        """
        if not (name.title and len(name.words) == 2):
            return False
        person = (name.title, self.stem(name.words[0]))
        return any((title, stem) == person for title, stem in zip(self.words, self._stems[1:], strict=False))

    def has_titled_surname(self, name: QuestionName) -> bool:
        """True if the passage has the last of two or more words of a name after a title: "Mme Blum" for "Eva Blum"."""
        if len(name.words) < 2:
            return False
        surname = self.stem(name.words[-1])
        return any(word in _TITLES and stem == surname for word, stem in zip(self.words, self._stems[1:], strict=False))

    @cached_property
    def _stems(self) -> list[str]:
        """The stem of each word; the words themselves if the language has no stemmer."""
        return self.words if self.stem is str else list(map(self.stem, self.words))

    def _has_numbered_noun(self, name: QuestionName, index: int) -> bool:
        """True if the passage has the number at ``index`` of a name directly after the word before it in the name.

        A label ("Haus Nr. 7"), or other numbers with a function word before each next one ("Haus 5 und 7"), can be
        between them. In "Haus 5 bis 7", the numbers between the others count too. The number can also be an ordinal
        before the word ("5. Klasse").
        """
        number, noun_form = name.words[index], name.forms[index - 1]
        if f"{number}. {noun_form}" in self.text:
            return True
        noun_stem = self.stem(name.words[index - 1])
        ranges = self.list_number_ranges(noun_stem, form=noun_form)
        return any(first <= int(number) <= last for first, last in ranges)

    def list_number_ranges(self, noun_stem: str, *, form: str | None = None) -> list[tuple[int, int]]:
        """Return the lowest and the highest number after each occurrence of a noun that numbers follow.

        A label ("Haus Nr. 7"), or other numbers with a function word before each next one ("Haus 5 und 7"), can be
        between them. With ``form``, only occurrences with this form count, see :meth:`_matches_form`.
        """
        ranges = []
        for position, stem in enumerate(self._stems):
            if stem != noun_stem or (form is not None and not self._matches_form(position, form)):
                continue
            following = self.words[position + 1 : position + 1 + _MAX_NUMBER_WORDS]
            if following and following[0] in _GERMAN_LABELS | _NUMBER_LABELS:
                del following[0]
            numbers = list(takewhile(str.isdecimal, following[::2]))
            num_links = len(list(takewhile(self.function_words.__contains__, following[1::2])))
            values = list(map(int, numbers[: num_links + 1]))
            if values:
                ranges.append((min(values), max(values)))
        return ranges

    def _has_words(self, name: QuestionName, indexes: slice) -> bool:
        """True if the passage has the words of a name that the slice ``indexes`` selects, in order and almost adjacent.

        At most ``_MAX_WORDS_BETWEEN`` other words are between two consecutive ones.
        """
        stems = map(self.stem, name.words[indexes])
        (first_stem, first_form), *following = zip(stems, name.forms[indexes], strict=True)
        return first_stem in self._stems and any(
            self._matches_form(position, first_form) and self._is_followed_by(position, following)
            for position, stem in enumerate(self._stems)
            if stem == first_stem
        )

    def _is_followed_by(self, position: int, words: Sequence[tuple[str, str]]) -> bool:
        """True if ``words``, pairs of a stem and the form in the question, follow the word at ``position`` in order.

        At most ``_MAX_WORDS_BETWEEN`` other words precede each of them. A word with the stem counts only if its form
        matches, see :meth:`_matches_form`.
        """
        for stem, form in words:
            candidates = range(position + 1, min(position + 2 + _MAX_WORDS_BETWEEN, len(self.words)))
            next_position = next(
                (index for index in candidates if self._stems[index] == stem and self._matches_form(index, form)),
                None,
            )
            if next_position is None:
                return False
            position = next_position
        return True

    def _matches_form(self, index: int, form: str) -> bool:
        """True if the word of the passage at ``index`` can be a word of a name that the question writes as ``form``.

        It is written in the same way, or is capitalized, or does not begin with a letter, or is a function word. The
        caller has compared the stems.
        """
        own_form = self.forms[index]
        can_begin_name = own_form[0].isupper() or not own_form[0].isalpha()
        return own_form == form or can_begin_name or self.words[index] in self.function_words


def find_question_names(question: str, language: str | None = None) -> list[QuestionName]:
    """Return the names and technical tokens (``pg_dump``) of a question in a language (None: English), in order.

    Titles between Chinese and Japanese title marks come last. In German, which capitalizes all nouns, a single
    capitalized word is not a name unless it has a digit or an inner capital. In a question in title case ("What Is the
    Best Way to Make Tea?"), capitals mark no names.

    >>> question = "Who wrote the Duke of York and what does --no-owner do in pg_dump?"
    >>> [name.text for name in find_question_names(question)]
    ['Duke of York', '--no-owner', 'pg_dump']
    >>> [name.text for name in find_question_names("谁写了《红楼梦》？")]
    ['红楼梦']
    >>> [name.text for name in find_question_names("Wo ist das Auto von Elise Voss im Plan der NASA?", "german")]
    ['Elise Voss', 'NASA']
    """
    function_words = get_function_words(language)
    pieces = [match.group() for match in _PIECE_PATTERN.finditer(separate_unspaced(question))]
    has_capital_nouns = capitalizes_nouns(language)
    in_names = _mark_names(pieces, function_words, has_capital_nouns=has_capital_nouns)
    builder = _NameBuilder(function_words, has_capital_nouns=has_capital_nouns)
    at_sentence_start, title = True, ""
    for piece, is_in_name in zip(pieces, in_names, strict=True):
        base = _POSSESSIVE_PATTERN.sub("", piece)
        if _PLURAL_ABBREVIATION_PATTERN.fullmatch(base):  # "DVDs"
            base = base[:-1]
        is_capitalized_function_word = at_sentence_start and not list_informative_words(base, function_words)
        if _TOKEN_PATTERN.fullmatch(base):
            builder.add_token(base)
        elif not piece[0].isalnum():
            if piece not in _JOINING_MARKS:
                builder.end_name()
        elif is_in_name and not is_capitalized_function_word:
            builder.add_word(base, at_sentence_start, title)
            if base != piece:  # nothing can follow a possessive
                builder.end_name()
        elif not builder.try_add_link(piece):
            builder.end_name()
        at_sentence_start = not piece[0].isalnum() and piece in ".?!:¿¡"
        if piece != ".":  # "Dr. Voss"
            title = fold_text(piece) if has_capital_nouns and fold_text(piece) in _GERMAN_TITLES else ""
    builder.end_name()
    titles_with_words = ((title, *_list_words_and_forms(title)) for title in find_marked_titles(question))
    titles = (QuestionName(title, tuple(words), tuple(forms)) for title, words, forms in titles_with_words)
    return list(dict.fromkeys([*builder.names, *titles]))


def find_numbered_nouns(question: str, language: str | None) -> list[tuple[str, int]]:
    """Return the nouns of a question that a number follows, as in *línea 4*, each with its number.

    German nouns are omitted, because they are names with the number (:func:`find_question_names`), and so are decades.
    A noun can be a name, as in *Senta 4*.

    >>> find_numbered_nouns("¿Quién limpia el aula 12 de la planta 3?", "spanish")
    [('aula', 12), ('planta', 3)]
    >>> find_numbered_nouns("¿Hay descuento para 3 personas con 12 años?", "spanish")
    []
    """
    if capitalizes_nouns(language):
        return []
    function_words = get_function_words(language)
    return [
        (fold_text(match["noun"]), int(match["number"]))
        for match in _NUMBERED_NOUN_PATTERN.finditer(question)
        if fold_text(match["noun"]) not in function_words | _YEAR_NOUNS
    ]


class _NameBuilder:
    """Builds the names in a question from its pieces, added in order. ``names`` are the finished names. The current
    name has words, and after them at most two links (words without a capital, such as ``of the``), which belong to the
    name if another word of it follows.
    """

    def __init__(self, function_words: frozenset[str], *, has_capital_nouns: bool) -> None:
        """Create a builder for a question in a language with these function words.

        ``has_capital_nouns`` is True if the language capitalizes common nouns, as German does.
        """
        self.names: list[QuestionName] = []
        self._function_words = function_words
        self._has_capital_nouns = has_capital_nouns
        self._words: list[str] = []
        self._link_words: list[str] = []
        self._opens_sentence, self._title = True, ""

    def add_token(self, token: str) -> None:
        """End the current name, and add a technical token, such as ``pg_dump``, as a separate name."""
        self.end_name()
        words, forms = tuple(segment_words(token)), tuple(split_written_words(token))
        self.names.append(QuestionName(token, words, forms, is_token=True))

    def add_word(self, word: str, opens_sentence: bool, title: str) -> None:
        """Add a word to the current name, after the link words that precede it.

        ``opens_sentence`` is True if the word is the first of its sentence, and ``title`` is the title before the word
        or empty; for later words of a name, both are ignored. A name does not begin with an elided article or
        preposition (*l'Arno*, *dell'Arno*), because texts can have another one before it.
        """
        if not self._words:
            self._opens_sentence, self._title = opens_sentence, title
            elided, _, rest = word.replace("’", "'").partition("'")
            if rest and elided.islower() and elided in self._function_words:
                word = rest
        self._words += [*self._link_words, word]
        self._link_words.clear()

    def try_add_link(self, word: str) -> bool:
        """Add a link word, such as ``of``, if another word of the current name may follow, and return True.

        Return False if there is no current name, if it has ``_MAX_LINKS`` links already, or if the word is not a link.
        """
        if not (self._words and word in _LINK_WORDS and len(self._link_words) < _MAX_LINKS):
            return False
        self._link_words.append(word)
        return True

    def end_name(self) -> None:
        """Add the current name, if any, to ``names``, without the link words (such as ``of``) at its end.

        The name is dropped if it has only function words, if it is an ordinary word at the start of a sentence, or if
        its normal form has another number of words.
        """
        forms = [form for word in self._words for form in split_written_words(word)]
        words = [part for word in self._words for part in segment_words(word)]
        is_ordinary_word = self._opens_sentence and len(words) == 1 and "".join(forms)[1:].islower()
        has_content = any(fold_text(word) not in self._function_words for word in self._words)
        if has_content and not is_ordinary_word and len(forms) == len(words):
            self.names.append(
                QuestionName(
                    " ".join(self._words),
                    tuple(_make_singular(words, forms)),
                    tuple(forms),
                    opens_sentence=self._opens_sentence,
                    can_include_nouns=self._has_capital_nouns,
                    title=self._title,
                )
            )
        self._words.clear()
        self._link_words.clear()


def _list_words_and_forms(text: str) -> tuple[list[str], list[str]]:
    """Return two lists of equal length: the words of a text in normal form, and the same words as written.

    Abbreviations in normal form are in the singular. If the normal form has more or fewer words than the text, both
    lists are the words in normal form.
    """
    words, forms = segment_words(text), split_written_words(text)
    return (_make_singular(words, forms), forms) if len(forms) == len(words) else (words, words)


def _make_singular(words: Sequence[str], forms: Sequence[str]) -> list[str]:
    """Return words in normal form, with abbreviations in the singular. ``forms`` are the same words as written."""
    return [
        word.removesuffix("s") if _PLURAL_ABBREVIATION_PATTERN.fullmatch(form) else word
        for word, form in zip(words, forms, strict=True)
    ]


def _mark_names(pieces: Sequence[str], function_words: frozenset[str], *, has_capital_nouns: bool) -> list[bool]:
    """Return a bool for each piece of a question: True if it has the form of a word of a name.

    It then has a capital or begins with a digit. In German (``has_capital_nouns``), other rules hold, and in title case
    no piece does.
    """
    content_pieces = [piece for piece in pieces if piece[0].isalpha() and fold_text(piece) not in function_words]
    is_capitalized = len(content_pieces) >= _MIN_TITLE_WORDS and all(piece[0].isupper() for piece in content_pieces)
    if is_capitalized and 2 * sum(map(is_everyday, content_pieces)) > len(content_pieces):
        return [False] * len(pieces)
    if has_capital_nouns:
        in_names = _mark_german_names(pieces, function_words)
    else:
        in_names = [
            piece[0].isdigit() or (any(map(str.isupper, piece)) and not _CONTRACTION_PATTERN.fullmatch(piece))
            for piece in pieces
        ]
    # An amount of a question ("$700", "12 days") is rarely in the document, which gives a limit ("up to $1,000").
    for index, piece in enumerate(pieces):
        if piece[0].isdigit():
            previous, following = pieces[index - 1 : index] or [""], pieces[index + 1 : index + 2] or [""]
            is_amount = previous[0] in _CURRENCY_SIGNS or _UNIT_PATTERN.fullmatch(following[0]) is not None
            in_names[index] &= not is_amount
    return in_names


def _mark_german_names(pieces: Sequence[str], function_words: frozenset[str]) -> list[bool]:
    """Return a bool for each piece (word or mark) of a German question: True if it belongs to a name.

    A word that begins with a digit or has an inner capital does. Because all nouns have capitals, a noun does only if
    another noun is next to it, as in "Elise Voss", or a short number follows it, as in "Haus 7", unless a unit or
    another noun is next ("7 Euro"). In "Frau Voss", only the second word does.
    """
    in_name = list(map(_has_digit_or_inner_capital, pieces))
    words = list(map(fold_text, pieces))
    is_noun = [
        piece[0].isupper() and word not in function_words and not (is_marked or _TOKEN_PATTERN.fullmatch(piece))
        for piece, word, is_marked in zip(pieces, words, in_name, strict=True)
    ]
    for index, (word, next_word) in enumerate(pairwise(words)):
        if is_noun[index] and is_noun[index + 1]:
            in_name[index] |= word not in _GERMAN_TITLES
            in_name[index + 1] |= next_word not in _GERMAN_TITLES
    for index, next_piece in enumerate(pieces[1:]):
        following = pieces[index + 2 : index + 4]
        is_ordinal = len(following) > 1 and following[0] == "."
        is_amount = bool(following) and (is_noun[index + 2] or _UNIT_PATTERN.fullmatch(following[0]) is not None)
        if is_noun[index] and _NAME_NUMBER_PATTERN.fullmatch(next_piece) and not (is_amount or is_ordinal):
            in_name[index] |= words[index] not in _GERMAN_TITLES | _GERMAN_LABELS
    return in_name


def _has_digit_or_inner_capital(piece: str) -> bool:
    """True if a word begins with a digit, or has a capital after another letter or digit.

    ``NASA`` and ``iPhone`` do, but not ``Auto`` or ``Bus-Depot``.
    """
    return piece[0].isdigit() or any(letter.isupper() and before.isalnum() for before, letter in pairwise(piece))


def drop_crossing_bigrams(terms: list[str], counts: Mapping[str, int]) -> list[str]:
    """Return the terms in a question without bigrams of hiragana and bigrams that cross a word boundary.

    Terms in writing without spaces are bigrams of characters. A bigram of hiragana is usually an ending or a particle.
    ``counts`` has the number of chunks with each bigram. A bigram in no chunk crosses a boundary if it overlaps two
    bigrams in chunks, or if one of its characters can be a function word.
    """
    remaining_terms = []
    for previous_term, term, next_term in zip(["", *terms], terms, [*terms[1:], ""], strict=False):
        if is_bigram(term):
            are_neighbors_known = bool(counts.get(previous_term) and counts.get(next_term))
            overlaps_known = are_neighbors_known and previous_term[1] + next_term[0] == term
            crosses_words = not counts[term] and (overlaps_known or can_cross_words(term))
            if crosses_words or _HIRAGANA_PATTERN.fullmatch(term):
                continue
        remaining_terms.append(term)
    return remaining_terms
