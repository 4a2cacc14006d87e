"""Names in English texts by rule, without a language model. A *form* is a name as written, its *key* the normal form
(case-folded, without accents). A *run* is adjacent capitalized words. A *term* is a technical phrase in lower case
(*change buffer*). An *everyday word* is a common word (room, old).

In: sentences, headings and titles. Out: :class:`Name` (form and kind). The rules: runs, joined over particles, and the
parts of such a run that can be names by themselves; code identifiers; emphasized terms; whole titles and headings. An
everyday word alone is a name only if the document shows it. Everything is a function of one document, so extraction can
run in any process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from kvstore_cext.capital_runs import CapitalRuns, RunRules, is_code
from kvstore_cext.words import list_name_pieces

from .blocks import to_plain_text
from .everyday_words import NOUN, get_part_of_speech, is_everyday
from .name_words import (
    CALENDAR_ABBREVIATIONS,
    CALENDAR_WORDS,
    CODE_CLASS_WORDS,
    CONTEXTUAL_ADJECTIVES,
    DOTTED_WORDS,
    FIELD_ENDINGS,
    GENERIC_HEADINGS,
    MEASURING_UNITS,
    MIXED_CASE_UNITS,
    NAME_ADJECTIVE_ENDINGS,
    NON_PLURAL_ENDINGS,
    NUMBERED_WORDS,
    NUMERALS,
    ORGANIZATION_WORDS,
    PARTICLE_PAIRS,
    PARTICLES,
    PEOPLE_ADJECTIVES,
    PEOPLE_ENDINGS,
    SAINTS,
    SINGLE_S_PLURALS,
    TITLES_AND_UNITS,
)
from .normalize import to_entity_key, to_nfc
from .patterns import compile_lazily
from .words import FUNCTION_WORDS, find_marked_titles, split_words

#: The maximum length in bytes of a key that becomes an entity.
MAX_NAME_KEY_BYTES = 200

#: The maximum number of words of a run or title that is one name, and of an emphasized term.
_MAX_RUN_WORDS, _MAX_EMPHASIZED_WORDS = 8, 5
#: The minimum length of a plural that has a singular.
_MIN_PLURAL_LETTERS = 4
#: A heading of these words alone does not name a subject.
_GENERIC_HEADING_WORDS = GENERIC_HEADINGS | CONTEXTUAL_ADJECTIVES | FUNCTION_WORDS
#: Words in a code font that are not identifiers.
_NON_CODE_WORDS = FUNCTION_WORDS | TITLES_AND_UNITS
_LATIN_PATTERN = compile_lazily("[A-Za-z]")
_DECADE_PATTERN = compile_lazily(r"(?:\d\d)?\d\ds")  # 90s, 1990s
#: The end of a sentence such as *Serves 4.*
_DIGITS_END_PATTERN = compile_lazily(r"\d\.\Z")
_ORDINAL_PATTERN = compile_lazily(r"\d+(?:st|nd|rd|th)")  # 1st
#: An identifier, option or call in a code font: ``os.path``, ``--wait``, ``std::sort()``, ``$HOME``.
_IDENTIFIER_PATTERN = compile_lazily(r"(?:--?)?[$@.#%]?[A-Za-z_][\w$]*(?:(?:[.:/\-]|::|->)[A-Za-z_$][\w$]*)*(?:\(\))?")
#: An identifier in prose: ``max_size``, ``getName``, ``os.fork()``, ``--wait``. Words that a single hyphen precedes
#: (``-max_size``), or that a typographic hyphen joins to another word, are not identifiers.
_TEXT_IDENTIFIER_PATTERN = compile_lazily(
    r"(?<![\w`$./\u2010])(?<!\s-)(?:[A-Za-z]+_\w+|_\w+|[a-z]+[A-Z]\w*|[a-zA-Z_]\w+(?:\.[a-z_]\w+)*\(\)|--[a-z][\w-]+)"
    r"(?![\w-]*\u2010)"
)
#: A hyphen at the end of a line, or of a word before white space.
_BROKEN_HYPHENS = frozenset(("- ", "-\n"))
#: A key or a digest, written in letters and digits: ``3f5e9b1``.
_DIGEST_PATTERN = compile_lazily(r"(?=\w*\d)(?=\w*[A-Za-z])(?:\w{24,}|[0-9a-f]{7,})")
#: A key or a digest, or a word between underscores, which is emphasis in plain text.
_NON_CODE_PATTERN = compile_lazily(rf"{_DIGEST_PATTERN.pattern}|_[A-Za-z]+_")
#: Contracted verbs and negations: *they're*, *don't*.
_CONTRACTION_PATTERN = compile_lazily(r"(?:n['’]t|['’](?:re|ll|ve|d|m))\.?$")
#: Parts of direct speech that titles rarely have: typical first words, contracted pronouns and verbs in lower case.
_SPEECH_PATTERN = compile_lazily(
    r"(?:Yes|No|Oh|Ah|Well|Hello|Hi|Please|Thank)\b|(?:I|You|He|She|It|We|They|That|There|What|Who)['’]\w"
)
_SPEECH_VERBS = frozenset("am is are was were be has have had do does did will would can could should".split())
#: Addresses of pages and mails.
_URL_OR_MAIL_PATTERN = compile_lazily(
    r"(?<![a-z])[a-z]++://[^\s<>]+|<[^\s<>][^\s<>@]*+@[^\s<>]++>|(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"
)
#: A title of a work in quotation marks.
_QUOTED_TITLE_PATTERN = compile_lazily(r"(?:[\"“„]|``) ?([^\W_][\w .,'’!?&:;/-]{2,80}?) ?(?:[\"”“]|'')")
#: Characters that every identifier in running text contains; few texts contain them.
_CODE_HINT_PATTERN = compile_lazily(r"[_A-Z(-](?:(?<=_)|(?<=[a-z][A-Z])|(?<=\()\)|(?<=-)-)")
#: The content of a term: words, with the marks inside words, and balanced brackets.
_TERM_PATTERN = compile_lazily(r"[\w.$@#%/+'’&:-]+(?: (?:[\w.$@#%/+'’&:-]+|\([\w .'’/-]+\)))*")
#: The start of code that is more than an identifier: a call, or an option with its value.
_CALL_PATTERN = compile_lazily(r"[A-Za-z_][\w$]+(?:(?:\.|::)[A-Za-z_]\w*)*(?= ?\()|-[A-Za-z?](?=[ ,=\[<])")
#: Names with a slash: ``SQL/MED``, ``TCP/IP``, ``PL/Perl``.
_SLASH_NAME_PATTERN = compile_lazily(r"(?<![\w/.`-])[A-Z]{2,}/[A-Z][A-Za-z]+(?![\w/-]|\.\w)")
#: A list item with an explained term: a few words before a colon.
_EXPLAINED_ITEM_PATTERN = compile_lazily(r"\s*[-*+]\s+(?!`)([^:`*|]{3,40}): \S")
_BACKTICK_PATTERN = compile_lazily(r"`([^`\n]{1,100})`")
_TRAILING_BRACKET_PATTERN = compile_lazily(r"\s*\([^()]*\)\s*$")
_HEADING_NUMBER_PATTERN = compile_lazily(
    r"^(?:chapter|section|appendix|part)?\s*(?:(?:[\dIVXLC]+|[A-Z])(?:\.\d+)*[.:)]|\d+(?:\.\d+)+(?=\s+(?-i:[A-Z])))\s+"
    r"|^(?:article|artikel|artículo|articolo|artigo|art\.|§)\s*\d+(?:er|º|°)?(?:[.:)]\s|\s*[–—-]\s|\s+(?!(?-i:[a-z]|[A-Z]{2,}$))|\.?$)",
    re.IGNORECASE,
)
#: A person's name that begins with an initial, as opposed to a number before a heading.
_INITIAL_PATTERN = compile_lazily(r"[A-Z]\.\s+(?:[A-Z]\.|[A-Z][\w'’-]+(?: [A-Z][\w.'’-]*){0,2}$)")


#: The first word of a letter or mail, which is not part of the name after it: *Dear Ada,*
_SALUTATION_PATTERN = compile_lazily(
    r"(?:Dear|Hello|Hi|Hey) (?=[A-Z][\w.' -]{0,40}[,!:]?\s*\Z|[A-Z][\w.' -]{0,40}[,!:]\s*\n)"
)


class Name(NamedTuple):
    """A name as written, and the kind of its source.

    ``kind`` is ``title`` or ``heading`` (it is one), ``name`` (words with capitals), ``code`` (an identifier) or
    ``term`` (an emphasized or explained phrase).
    """

    form: str
    kind: str


#: ``Name._make`` without its overhead, for many names.
_make_name = partial(tuple.__new__, Name)


def is_name_key(key: str, max_words: int) -> bool:
    """True if ``key``, a name in normal form, can become an entity.

    It must contain a letter, and have at most ``MAX_NAME_KEY_BYTES`` bytes and ``max_words`` words. Longer names are
    not recognized in texts.
    """
    # Counting bytes and words is slow, so it is avoided for names that are short in characters: a character has at most
    # four bytes, and every second character can be a word.
    is_short = 4 * len(key) <= MAX_NAME_KEY_BYTES or len(key.encode()) <= MAX_NAME_KEY_BYTES
    has_few_words = (len(key) + 1) // 2 <= max_words or len(split_words(key)) <= max_words
    return is_short and has_few_words and (key[:1].isalpha() or any(map(str.isalpha, key)))


@lru_cache(maxsize=1024)  # extraction, linking and the passage graph use the same titles
def get_title_forms(title: str) -> tuple[str, ...]:
    """Return the names in a title or heading: without its number, and also without a part in parentheses.

    A number or letter that is a person's initial is kept (``J. Lee Thompson``). The second form is omitted if it equals
    the first. The result is empty if nothing is left.

    >>> get_title_forms("2.1 *Mercury* (planet)")
    ('Mercury (planet)', 'Mercury')
    """
    plain_title = to_nfc(to_plain_text(title))
    full_title = (plain_title if _has_initial(plain_title) else _HEADING_NUMBER_PATTERN.sub("", plain_title)).strip(
        " .:;,"
    )
    short_title = _TRAILING_BRACKET_PATTERN.sub("", full_title)
    return tuple(dict.fromkeys(form for form in (full_title, short_title) if form))


def _has_initial(title: str) -> bool:
    """True if a title begins with a person's initial (``J. Lee Thompson``), not a section's letter (``A. Errors``)."""
    if not _INITIAL_PATTERN.match(title):
        return False
    has_two_initials = title[4:5] == "."  # as in "J. K. Rowling"
    _, *words = title.split()
    return has_two_initials or not (is_everyday(words[0]) or is_everyday(words[-1]))


def extract_title_names(title: str, kind: str, is_english: bool = True) -> Iterator[Name]:
    """Yield the names that a title or heading introduces; ``kind`` is ``title`` or ``heading``.

    These are the title without its number, also without a part in parentheses at its end, and the singular of the
    shorter form. A heading that is an everyday word or a common section title is not a name. In another language than
    English, a heading of a single word is a name only if it looks like code.
    """
    forms = get_title_forms(title)
    is_numbered = bool(forms) and forms[-1][0].isdigit()
    if is_numbered and forms[-1].lstrip("0123456789. ").casefold() in GENERIC_HEADINGS:
        return  # 1 Introduction
    if not forms or (kind == "heading" and not is_informative_heading(forms[-1], is_english)):
        return
    yield from (Name(form, kind) for form in forms)
    singular_form = to_singular(forms[-1]) if is_english else None
    if singular_form:
        yield Name(singular_form, kind)


def is_informative_heading(heading: str, is_english: bool) -> bool:
    """True if a heading names a subject, not a part of the document (*Introduction*).

    A single word names a subject if it looks like code or, in an English heading (``is_english``), is neither an
    everyday word nor a function word. Several words do if one of them is not generic.
    """
    words = heading.split()
    if heading.casefold() in GENERIC_HEADINGS:
        return False
    if len(words) == 1:
        if is_code(heading):
            return True
        return is_english and not is_everyday(heading) and to_entity_key(heading) not in FUNCTION_WORDS
    return any(word.casefold() not in _GENERIC_HEADING_WORDS for word in words)


def is_term(form: str) -> bool:
    """True if a phrase has the form of a technical term, such as *change buffer*.

    It then consists of words, with balanced parentheses, and neither begins nor ends with a function word.
    Contractions, decades, numbered parts (*section 3*), units, titles of persons and phrases broken by a hyphen are not
    terms.
    """
    if not _TERM_PATTERN.fullmatch(form):
        return False
    if form[0] in "%-+/'’&:" or form[-1] in "-'’&:/":
        return False  # a mark that joins the phrase to the text before or after it
    if form[-1] == "." and form.islower():
        return False  # the end of a sentence
    words = to_entity_key(form).split()
    if len(words) > 1 and _RULES.starts_with_page_heading(form.split()):
        return False  # the page heading of a manual, and the text after it
    if len(words) == 2 and words[0] in CODE_CLASS_WORDS and not is_everyday(words[1]):
        return False  # the argument addr: a class and its instance
    if any(word[-1] in "-\u2010" or not any(map(str.isalnum, word)) for word in words):
        return False  # broken at the end of a line, or marks between words
    if form in MIXED_CASE_UNITS or (len(words) > 1 and words[0] in MEASURING_UNITS and form[0].islower()):
        return False  # "dB", "g flour"
    if words[0] in FUNCTION_WORDS or words[-1] in FUNCTION_WORDS or _ORDINAL_PATTERN.fullmatch(words[0]):
        return False  # "the buffer", "1st buffer"
    if len(words) == 1 and (words[0].rstrip(".") in TITLES_AND_UNITS or words[0].endswith(NAME_ADJECTIVE_ENDINGS)):
        return False  # "dr", "linux-based"
    if any(map(_is_contracted, words)) or (len(words) == 1 and _DECADE_PATTERN.fullmatch(words[0])):
        return False  # "don't", "1990s"
    is_part = len(words) == 2 and words[0].rstrip("s") in NUMBERED_WORDS
    return not (is_part and (words[1][0].isdigit() or len(words[1]) == 1))  # "section 3", "appendix B"


def to_singular(form: str) -> str | None:
    """Return the name ``form`` with its last word in the singular; None if the word is not a regular English plural."""
    words_before, _, word = form.rpartition(" ")
    lower = word.lower()
    if not lower.endswith("s") or lower.endswith(NON_PLURAL_ENDINGS):
        return None
    if len(lower) < _MIN_PLURAL_LETTERS or not lower.isalpha() or word.isupper():  # too short, or an abbreviation
        return None
    if lower.endswith("ies"):
        word = word[:-3] + "y"
    elif lower.endswith(("ches", "shes", "xes", "sses", "zzes")) and not lower.endswith(SINGLE_S_PLURALS):
        word = word[:-2]
    else:
        word = word[:-1]
    return f"{words_before} {word}" if words_before else word


#: Marks after which a word is capitalized as at the start of a sentence.
OPENING_MARKS = frozenset(":|([")


try:
    _RULES = RunRules(
        {
            "function": FUNCTION_WORDS,
            "particles": PARTICLES,
            "particle_pairs": PARTICLE_PAIRS,
            "organization_words": ORGANIZATION_WORDS,
            "numbered_words": NUMBERED_WORDS,
            "calendar": CALENDAR_WORDS,
            "calendar_abbreviations": CALENDAR_ABBREVIATIONS,
            "titles_and_units": TITLES_AND_UNITS,
            "demonyms": PEOPLE_ADJECTIVES,
            "numerals": NUMERALS,
            "parts_of_text": frozenset(GENERIC_HEADINGS),
            "broken_hyphens": _BROKEN_HYPHENS,
            "opening_marks": OPENING_MARKS,
            "saints": SAINTS,
            "dotted_words": DOTTED_WORDS,
        },
        {"demonyms": PEOPLE_ENDINGS, "adjectives": NAME_ADJECTIVE_ENDINGS, "fields": FIELD_ENDINGS},
        _MAX_RUN_WORDS,
        get_part_of_speech,
        _DIGEST_PATTERN.fullmatch,
        _CONTRACTION_PATTERN.search,
    )
except (KeyError, TypeError) as error:
    raise ImportError(
        f"the kernel capital_runs was built from other sources ({error!r}); build the kernels again with "
        "`python setup.py build_ext --inplace`, or install kvstore again"
    ) from error


class SentenceNames:
    """Names in the sentences of one document. The whole document distinguishes common words from names: a word that it
    also writes in lower case is common; a word capitalized in the middle of a sentence is not. Quoted titles of works
    are names too.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        """Parse the sentences of a document, to find names by their capitals."""
        common_words: set[str] = set()  # the words that the document also writes in lower case
        capitalized_words: set[str] = set()  # the words that it capitalizes inside a sentence
        self._titles: dict[int, list[str]] = {}  # quoted titles of works, by sentence index
        tokens_by_sentence: list[list[str]] = []  # the words and marks that can be part of a name or end one
        for sentence in sentences:
            salutation = _SALUTATION_PATTERN.match(sentence)
            titles, text = extract_titles(sentence[salutation.end() :] if salutation else sentence)
            if titles:
                self._titles[len(tokens_by_sentence)] = titles
            # This call also adds words to both sets.
            tokens_by_sentence.append(list_name_pieces(text, common_words, capitalized_words))
        self._runs = CapitalRuns(_RULES, tokens_by_sentence, common_words, capitalized_words)

    def iter_names(self, sentence_index: int) -> Iterator[Name]:
        """Yield the names in a sentence, given its index among the document's sentences.

        They are quoted titles, runs of capitalized words, code in backticks, and emphasized terms.
        """
        for title in self._titles.get(sentence_index, ()):
            yield Name(title, "name")
        for index, candidate in enumerate(self._runs.list_names(sentence_index)):
            if not isinstance(candidate, str):  # the names in a run of capitalized words: the run and parts of it
                for form in candidate:
                    yield _make_name((form, "name"))  # Name(form, "name"), but faster
            elif candidate[0] == "`":  # code
                code = candidate.strip("`")
                # An everyday word is an identifier only at the start of a sentence: `name`: the user's name.
                if index == 0 or not code.islower() or not code.isalpha() or not is_everyday(code):
                    yield from _extract_code_names(code)
            else:  # an emphasized phrase
                term = to_plain_text(candidate)
                if _is_emphasized_term(term):
                    yield Name(term, "term")


def find_identifiers(text: str) -> Iterator[Name]:
    """Yield the code identifiers in running text as names: ``snake_case``, ``camelCase``, ``call()``, ``--option``."""
    if not _CODE_HINT_PATTERN.search(text):  # most texts
        return
    text = _replace_addresses(text)
    for match in _TEXT_IDENTIFIER_PATTERN.finditer(text):
        if _IDENTIFIER_PATTERN.fullmatch(match.group()):
            yield from _iter_code_name(match.group())


def find_marked_names(text: str, kind: str) -> Iterator[Name]:
    """Yield the names in a block of English text (paragraph, list item, ...) that can be recognized by punctuation.

    These are names with a slash (``TCP/IP``), titles in Chinese and Japanese title marks, and a term of two or three
    words before the colon of a list item. ``kind`` is the kind of the block; ``item`` is a list item.
    """
    for title in find_marked_titles(text):
        yield Name(title, "name")
    if "/" in text:
        yield from (Name(match.group(), "name") for match in _SLASH_NAME_PATTERN.finditer(text))
    item = _EXPLAINED_ITEM_PATTERN.match(text) if kind == "item" else None
    if item:
        term = item.group(1).strip()
        words = term.split()
        is_common_noun = term[1:].islower() and words[0].casefold() not in CONTEXTUAL_ADJECTIVES
        if len(words) in (2, 3) and is_common_noun and is_term(term):
            yield Name(term, "term")


def find_code_terms(text: str) -> Iterator[Name]:
    """Yield the names in backticks and the code identifiers of a text of any language."""
    for match in _BACKTICK_PATTERN.finditer(text):
        yield from _extract_code_names(match.group(1))
    yield from find_identifiers(text)


def _extract_code_names(code: str) -> Iterator[Name]:
    """Yield the names in a code span: the whole span if it is an identifier, or words in capitals (``SELECT``).

    For any other code, yield the function or option that it begins with, and the identifiers in it.
    """
    code = " ".join(code.split())
    if code.isupper() and len(code) > 1 and all(word.isalpha() for word in code.split()):
        yield Name(code, "code")
    elif _IDENTIFIER_PATTERN.fullmatch(code):
        yield from _iter_code_name(code)
    else:
        call = _CALL_PATTERN.match(code)
        if call:
            yield from _iter_code_name(call.group())
        yield from find_identifiers(code)


def _iter_code_name(code: str) -> Iterator[Name]:
    """Yield an identifier or call as a name of kind ``code``, without its ``()``; nothing if it cannot be a name.

    A single character, a function word, a unit, a key or digest (``3f5e9b1``) and emphasis (``_word_``) cannot.
    """
    name = code.removesuffix("()")
    if len(name) < 2 or name in MIXED_CASE_UNITS or to_entity_key(name) in _NON_CODE_WORDS:
        return
    if not _NON_CODE_PATTERN.fullmatch(name):
        yield Name(name, "code")


def _is_emphasized_term(term: str) -> bool:
    """True if an emphasized phrase is a technical term: few words with Latin letters that are not a generic heading.

    A single word is a term if it is a noun in lower case or is missing from the lexicon of everyday words, and if it
    does not end like an adverb or participle. A phrase that begins with an adjective such as "additional" is not a
    term. Text that ends with a number ("Serves 4.") is a sentence, not a term.
    """
    words = term.split()
    if not term[:1].isalpha() or not _LATIN_PATTERN.search(term) or not is_term(term):
        return False
    if len(words) > _MAX_EMPHASIZED_WORDS or term.casefold() in GENERIC_HEADINGS:
        return False
    if _DIGITS_END_PATTERN.search(term):
        return False
    if len(words) == 1:
        if term.endswith(("ly", "ed")):  # an adverb or participle
            return False
        part_of_speech = get_part_of_speech(term)  # None: not an everyday word
        return part_of_speech is None or (term.islower() and part_of_speech == NOUN)
    return words[0].casefold() not in CONTEXTUAL_ADJECTIVES


def is_demonym(word: str) -> bool:
    """True if a word is a demonym, an adjective of a people or place, such as ``Korean``."""
    return _RULES.is_demonym(word)


def _is_contracted(word: str) -> bool:
    """True if a word is a contraction, such as ``don't``."""
    return ("'" in word or "’" in word) and _CONTRACTION_PATTERN.search(word) is not None


def _replace_addresses(text: str) -> str:
    """Return a text with each URL and email address replaced by a comma."""
    return _URL_OR_MAIL_PATTERN.sub(",", text) if "://" in text or "@" in text else text


def extract_titles(sentence: str) -> tuple[list[str], str]:
    """Return the titles of works in quotation marks in a sentence, and the sentence without them.

    Each title is replaced by ``""``, and each URL or email address by a comma.
    """
    sentence = _replace_addresses(sentence)
    has_quotes = '"' in sentence or "“" in sentence or "„" in sentence or "``" in sentence
    if not has_quotes:  # as in most sentences
        return [], sentence
    titles: list[str] = []

    def replace_title(match: re.Match[str]) -> str:
        """Append a quoted title to ``titles`` and return ``""``, or return any other quotation unchanged."""
        title = match.group(1).rstrip(",.")
        if not _is_title(title):
            return match.group()
        titles.append(title)
        return '""'

    return titles, _QUOTED_TITLE_PATTERN.sub(replace_title, sentence)


def _is_title(quotation: str) -> bool:
    """True if a quoted text can be the title of a work, and not speech.

    A title has two to eight words. The first is capitalized, and the last is capitalized or starts with a digit. So are
    the words between them, except function words and particles (*von*). A first word such as "Yes" or a verb such as
    "is" shows that the text is speech.
    """
    words = quotation.split()
    if not 1 < len(words) <= _MAX_RUN_WORDS:
        return False
    if _SPEECH_PATTERN.match(quotation) or not _SPEECH_VERBS.isdisjoint(words):
        return False
    other_words = [word for word in words if not (word[0].isupper() or word[0].isdigit())]
    if words[-1] in other_words or not words[0][0].isupper():
        return False
    return all(word in FUNCTION_WORDS or word in PARTICLES for word in other_words)
