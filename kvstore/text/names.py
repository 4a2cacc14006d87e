"""Names by rule: what a text names, without a language model.

In: sentences, headings and titles. Out: :class:`Name` (form and kind). The rules: runs of capitalized words, joined
over particles, and the parts of such a run that can be names by themselves; code identifiers; emphasized terms; whole
titles and headings. An everyday word alone is a name only if the document shows it. Everything is a function of one
document, so extraction can run in any process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from kvstore_cext.capital_runs import CapitalRuns, RunRules, is_of_code
from kvstore_cext.words import name_pieces

from .blocks import to_plain_text
from .everyday_words import NOUN, get_everyday_kind, is_everyday
from .normalize import to_entity_key
from .words import FUNCTION_WORDS, split_words

#: The maximum length in bytes of a key that becomes an entity.
MAX_NAME_KEY_BYTES = 200

_CALENDAR_WORDS = frozenset(
    """
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday spring summer autumn winter
    """.split()
)
#: Abbreviated months and days: next to a number they are part of a date, alone they can be a person.
_CALENDAR_ABBREVIATIONS = frozenset(
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun".split()
)
#: Words in capitals before or after a name, and units: alone they are not names.
_TITLES_AND_UNITS = frozenset(
    """
    mr mrs ms dr prof sir lord lady st jr sr mt inc ltd co corp llc gmbh plc vs maj gen col capt lt sgt rev hon gov sen
    rep bc ad bce ce am pm kb mb gb tb pb kib mib gib tib hz khz mhz ghz kg km cm mm ms no nos vol ed eds pp kw mw gw
    kwh kv e.g i.e etc mph rpm dpi px fps psi utc gmt
    """.split()
)
#: Adjectives of peoples and places without a typical ending: alone they are not names.
_PEOPLE_ADJECTIVES = frozenset(
    """
    swiss dutch welsh czech greek thai afghan basque catalan croat cypriot filipino hindi icelandic kurd pakistani
    israeli iraqi kuwaiti qatari omani yemeni saudi bengali punjabi somali uzbek kazakh tajik turkmen azerbaijani serb
    slovak slovene frankish gallic hellenic nordic slavic celtic germanic semitic arabic arab olympic
    """.split()
)
_PEOPLE_ENDINGS = ("ish", "ese")
_NUMERALS = frozenset(
    """
    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion
    """.split()
)
#: Words for an organization at the end of its name (``Food and Drug Administration``) or before its subject
#: (``Institute for Advanced Study``).
_ORGANIZATION_WORDS = frozenset(
    """
    academy administration agency alliance assembly association authority bank board bureau campaign center centre
    church club coalition college commission committee company conference congress convention corporation council
    court department directorate division federation foundation fund group hospital initiative institute institution
    laboratory league library ministry movement museum network observatory office organisation organization party
    press programme program school secretariat service society trust union university
    award awards prize act bill fellowship medal network railway secretary minister
    """.split()
)
#: The maximum number of words of a run or title that is one name.
_MAX_RUN_WORDS = 8
#: Endings of adjectives derived from names.
_NAME_ADJECTIVE_ENDINGS = (
    "-based",
    "-specific",
    "-like",
    "-related",
    "-style",
    "-born",
    "-era",
    "-wide",
    "-compatible",
    "-only",
    "-centric",
    "-language",
)
#: Endings of words for an organization's subject, after its *of*.
_FIELD_ENDINGS = ("s", "ment", "tion", "sion", "ity", "ance", "ence", "ing", "ics")
_SAINTS = frozenset(("St", "St."))
#: Words of more than two characters with a final dot.
_DOTTED_WORDS = frozenset(("St.", "Jr.", "Sr.", "Mt.", "Dr.", "Mr.", "Mrs."))
_LATIN_PATTERN = re.compile("[A-Za-z]")
_DECADE_PATTERN = re.compile(r"(?:\d\d)?\d\ds")
_ORDINAL_PATTERN = re.compile(r"\d+(?:st|nd|rd|th)")
#: Words inside a name if a capitalized word follows.
_PARTICLES = frozenset(
    """
    of de da do dos du des del della di la le las los von van der den ter ten zu bin ibn al el y e the for
    """.split()
)
#: Pairs of particles that can occur together inside a name.
_PARTICLE_PAIRS = frozenset(
    {
        ("of", "the"),
        ("de", "la"),
        ("de", "las"),
        ("de", "los"),
        ("van", "der"),
        ("van", "den"),
        ("von", "der"),
        ("for", "the"),
    }
)

#: Words before an identifier that say its kind.
_CODE_CLASS_WORDS = frozenset(
    """
    argument option parameter variable field function command macro constant flag directive method attribute keyword
    version socket struct structure member module class type element
    """.split()
)
#: Words that refer to a place in a text or to a step, with a number or letter after them: not part of a name.
_NUMBERED_WORDS = frozenset(
    """
    section chapter appendix part table figure fig page step example equation note item line volume vol column row
    listing version release level rule case question type
    """.split()
)
#: Adjectives of size, age, order, worth and comparison: they distinguish things and are not part of a name.
QUALIFYING_ADJECTIVES = frozenset(
    """
    large small big little huge tiny great vast tall short long wide narrow high low deep new old young recent ancient
    modern early late former current present main major minor important significant essential necessary
    key common typical usual general special particular specific certain various several numerous many few more most
    much less least such other another same different similar related respective own single double entire whole full
    complete total only very first second third next last final previous following good better best bad worst nice
    famous popular notable future leading premier
    well-known known unknown possible potential available useful interesting simple complex
    easy difficult hard beautiful strong weak rich poor close near far
    """.split()
)
#: Adjectives of circumstance or opinion: a phrase that begins with one of them is not a term.
CONTEXTUAL_ADJECTIVES = QUALIFYING_ADJECTIVES | frozenset(
    """
    multiple subsequent
    additional further extra existing resulting corresponding appropriate suitable proper correct incorrect right wrong
    actual real true false given specified desired required requested expected intended preferred recommended proposed
    optional mandatory separate individual overall latest newest older newer larger smaller longer shorter higher lower
    greater bigger faster slower earlier later upcoming remaining nearby
    strange serious terrible wonderful incredible enormous slight brief quick sudden obvious clear apparent likely
    unlikely able unable ready sure aware happy sad afraid successful unsuccessful effective efficient sufficient
    enough equal equivalent identical distinct unique unusual normal ordinary reasonable relevant irrelevant
    considerable substantial increasing growing enabled disabled updated modified changed added removed renowned
    prominent wealthy local selected original debut quirky empty
    """.split()
)
#: Headings of parts of a text that are not its subjects.
GENERIC_HEADINGS = frozenset(
    """
    introduction overview summary abstract conclusion conclusions background contents content index appendix appendices
    preface foreword prologue epilogue acknowledgements acknowledgments references bibliography citations sources notes
    note footnotes examples example description synopsis parameters options arguments usage outputs output inputs input
    returns compatibility author authors links miscellaneous general details discussion results result method methods
    materials limitations caveats warnings tips faq changes changelog history prerequisites requirements motivation
    scope purpose definitions definition terminology outline part chapter section other others todo license licence
    contributing installation copyright copying bugs files name exit status environment diagnostics standards
    attributes availability colophon warning tip important caution hint remark remarks next previous prev home up back
    top search navigation menu download downloads comments comment versions version conforming errors library feedback
    contact help about news sidebar footer
    """.split()
) | {
    *("see also", "further reading", "external links", "related topics", "getting started", "quick start"),
    *("exit status", "return value", "return values", "reporting bugs", "table of contents", "release notes"),
    *("related articles", "skip to content", "edit this page", "read more", "first steps", "next steps"),
}

_IDENTIFIER_PATTERN = re.compile(r"(?:--?)?[$@.#%]?[A-Za-z_][\w$]*(?:(?:[.:/\-]|::|->)[A-Za-z_$][\w$]*)*(?:\(\))?")
#: A match does not continue past a line end after a free-standing hyphen.
_TEXT_IDENTIFIER_PATTERN = re.compile(
    r"(?<![\w`$./\u2010])(?<!\s-)(?:[A-Za-z]+_\w+|_\w+|[a-z]+[A-Z]\w*|[a-zA-Z_]\w+(?:\.[a-z_]\w+)*\(\)|--[a-z][\w-]+)"
    r"(?![\w-]*\u2010)"
)
#: A hyphen at the end of a line, or of a word before white space.
_BROKEN_HYPHENS = frozenset(("- ", "-\n"))
#: A key or a digest, written in letters and digits.
_DIGEST_PATTERN = re.compile(r"(?=\w*\d)(?=\w*[A-Za-z])(?:\w{24,}|[0-9a-f]{7,})")
#: The same, or a word enclosed in emphasis marks, as in plain text.
_NON_CODE_PATTERN = re.compile(rf"{_DIGEST_PATTERN.pattern}|_[A-Za-z]+_")
#: Contracted verbs and negations: *they're*, *don't*.
_CONTRACTION_PATTERN = re.compile(r"(?:n['’]t|['’](?:re|ll|ve|d|m))\.?$")
#: Signs of speech that titles rarely have: typical first words, contracted pronouns and
#: verbs in lower case.
_SPEECH_PATTERN = re.compile(
    r"(?:Yes|No|Oh|Ah|Well|Hello|Hi|Please|Thank)\b|(?:I|You|He|She|It|We|They|That|There|What|Who)['’]\w"
)
_SPEECH_VERBS = frozenset("am is are was were be has have had do does did will would can could should".split())
#: Addresses of pages and mails.
_URL_OR_MAIL_PATTERN = re.compile(r"[a-z]+://[^\s<>]+|<[^\s<>]+@[^\s<>]+>|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
#: A title of a work in quotation marks.
_QUOTED_TITLE_PATTERN = re.compile(r"(?:[\"“„]|``) ?([^\W_][\w .,'’!?&:;/-]{2,80}?) ?(?:[\"”“]|'')")
#: Characters of every identifier in running text; few texts contain them.
_CODE_HINT_PATTERN = re.compile(r"[_A-Z(-](?:(?<=_)|(?<=[a-z][A-Z])|(?<=\()\)|(?<=-)-)")
#: Endings of words in *s* that are not plurals, and of plurals that lose only the *s*.
_NON_PLURAL_ENDINGS = (
    *("ss", "us", "is", "series", "species", "news", "means", "diabetes", "rabies", "measles", "mumps", "herpes"),
    *("headquarters", "barracks", "crossroads", "lens", "gas", "bias", "canvas", "atlas", "alias", "physics"),
    *("mathematics", "economics", "politics", "genetics", "linguistics", "logistics", "robotics", "electronics"),
)
_SINGLE_S_PLURALS = ("caches", "aches", "niches", "avalanches", "axes")
#: The content of a term: words, with the marks inside words, and balanced brackets.
_TERM_PATTERN = re.compile(r"[\w.$@#%/+'’&:-]+(?: (?:[\w.$@#%/+'’&:-]+|\([\w .'’/-]+\)))*")
#: The start of code that is more than an identifier: a call, or an option with its value.
_CALL_PATTERN = re.compile(r"[A-Za-z_][\w$]+(?:(?:\.|::)[A-Za-z_]\w*)*(?= ?\()|-[A-Za-z?](?=[ ,=\[<])")
#: Names with a slash: ``SQL/MED``, ``TCP/IP``, ``PL/Perl``.
_SLASH_NAME_PATTERN = re.compile(r"(?<![\w/.`-])[A-Z]{2,}/[A-Z][A-Za-z]+(?![\w/-]|\.\w)")
#: What a list item explains: a few words before a colon.
_EXPLAINED_ITEM_PATTERN = re.compile(r"\s*[-*+]\s+(?!`)([^:`*|]{3,40}): \S")
_BACKTICK_PATTERN = re.compile(r"`([^`\n]{1,100})`")
_TRAILING_BRACKET_PATTERN = re.compile(r"\s*\([^()]*\)\s*$")
_HEADING_NUMBER_PATTERN = re.compile(
    r"^(?:chapter|section|appendix|part)?\s*(?:(?:[\dIVXLC]+|[A-Z])(?:\.\d+)*[.:)]|\d+(?:\.\d+)+(?=\s+(?-i:[A-Z])))\s+",
    re.IGNORECASE,
)
#: A person's name that begins with an initial, as opposed to a number before a heading.
_INITIAL_PATTERN = re.compile(r"[A-Z]\.\s+(?:[A-Z]\.|[A-Z][\w'’-]+(?: [A-Z][\w.'’-]*){0,2}$)")


#: Fields of a mail that name persons; an address; separators of addresses; prefixes of replies before a subject.
_PERSON_FIELDS = frozenset(("from", "to", "cc", "bcc", "sender", "reply-to"))
_MAIL_ADDRESS_PATTERN = re.compile(r"<[^<>]*>|\([^()]*\)")
_PERSON_PATTERN = re.compile(r"\"[^\"]+\"|[^\",;]+")
_REPLY_PREFIX_PATTERN = re.compile(r"^(?:(?:re|fwd?|aw|sv)(?:\[\d+\])?:\s*|\[[^\[\]]*\]\s*)+", re.IGNORECASE)


class Name(NamedTuple):
    """A name as written, and its source: title, heading, name, code or term."""

    form: str
    kind: str


#: ``Name._make`` for many names.
_make_name = partial(tuple.__new__, Name)


def is_name_key(key: str, max_words: int) -> bool:
    """True if a normal form can become an entity by rule: it contains a letter and is short enough to be recognized in
    a text."""
    # A character has at most four bytes, and there is one between two words.
    is_short = 4 * len(key) <= MAX_NAME_KEY_BYTES or len(key.encode()) <= MAX_NAME_KEY_BYTES
    has_few_words = (len(key) + 1) // 2 <= max_words or len(split_words(key)) <= max_words
    return is_short and has_few_words and any(map(str.isalpha, key))


@lru_cache(maxsize=1024)  # extraction, linking and the passage graph use the same titles
def get_title_forms(title: str) -> tuple[str, ...]:
    """Return a title or heading in plain words without a leading number, then the same without a trailing bracket, if
    any. Empty if nothing is left."""
    plain_title = to_plain_text(title)
    full_title = (plain_title if _has_initial(plain_title) else _HEADING_NUMBER_PATTERN.sub("", plain_title)).strip(
        " .:;,"
    )
    short_title = _TRAILING_BRACKET_PATTERN.sub("", full_title)
    return tuple(dict.fromkeys(form for form in (full_title, short_title) if form))


def _has_initial(title: str) -> bool:
    """True if a letter before a title is an initial: ``J. Lee Thompson``, but not ``A. Error Codes``."""
    if not _INITIAL_PATTERN.match(title):
        return False
    return title[4:5] == "." or not any(map(is_everyday, (title.split()[1], title.split()[-1])))


def extract_title_names(title: str, kind: str, english: bool = True) -> Iterator[Name]:
    """Yield the names that a title or heading introduces: itself, without a trailing bracket, without a number, and its
    singular.

    A heading that is an everyday word or a common section title is not a name. In another language than English only
    several words are a name.
    """
    forms = get_title_forms(title)
    if forms and forms[-1][0].isdigit() and forms[-1].lstrip("0123456789. ").casefold() in GENERIC_HEADINGS:
        return  # 1 Introduction
    if not forms or (kind == "heading" and not is_informative_heading(forms[-1], english)):
        return
    yield from (Name(form, kind) for form in forms)
    singular_form = to_singular(forms[-1]) if english else None
    if singular_form:
        yield Name(singular_form, kind)


def is_informative_heading(heading: str, english: bool) -> bool:
    """True if a heading names a subject."""
    words = heading.split()
    if heading.casefold() in GENERIC_HEADINGS:
        return False
    if len(words) == 1:
        return is_of_code(heading) or (
            english and not is_everyday(heading) and to_entity_key(heading) not in FUNCTION_WORDS
        )
    lower = [word.casefold() for word in words]
    return not all(
        word in GENERIC_HEADINGS or word in CONTEXTUAL_ADJECTIVES or word in FUNCTION_WORDS for word in lower
    )


def is_term(form: str) -> bool:
    """True if a phrase can be a name by its form: only words, no unbalanced bracket, no function word at an end."""
    if (
        not _TERM_PATTERN.fullmatch(form)
        or form[0] in "%-+/'’&:"
        or form[-1] in "-'’&:/"
        or (form[-1] == "." and form.islower())
    ):
        return False
    words = to_entity_key(form).split()
    if len(words) > 1 and _RULES.is_heading_of_page(form.split()):
        return False
    if len(words) == 2 and words[0] in _CODE_CLASS_WORDS and not is_everyday(words[1]):
        return False  # the argument addr: a class and its instance
    if any(word[-1] in "-\u2010" or not any(map(str.isalnum, word)) for word in words):
        return False  # broken at the end of a line, or marks between words
    if words[0] in FUNCTION_WORDS or words[-1] in FUNCTION_WORDS or _ORDINAL_PATTERN.fullmatch(words[0]):
        return False
    if len(words) == 1 and (words[0].rstrip(".") in _TITLES_AND_UNITS or words[0].endswith(_NAME_ADJECTIVE_ENDINGS)):
        return False
    if any(map(_is_contracted, words)) or (len(words) == 1 and _DECADE_PATTERN.fullmatch(words[0])):
        return False
    return not (
        words[0].rstrip("s") in _NUMBERED_WORDS and len(words) == 2 and (words[1][0].isdigit() or len(words[1]) == 1)
    )


def to_singular(form: str) -> str | None:
    """Return the form with its last word in the singular, or None if that word is not a regular English plural."""
    head, _, word = form.rpartition(" ")
    lower = word.lower()
    if len(lower) < 4 or not lower.isalpha() or not lower.endswith("s") or lower.endswith(_NON_PLURAL_ENDINGS):
        return None
    if word.isupper():
        return None
    if lower.endswith("ies"):
        word = word[:-3] + "y"
    elif lower.endswith(("ches", "shes", "xes", "sses", "zzes")) and not lower.endswith(_SINGLE_S_PLURALS):
        word = word[:-2]
    else:
        word = word[:-1]
    return f"{head} {word}" if head else word


#: Marks after which a word is capitalized as at the start of a sentence.
OPENING_MARKS = frozenset(":|([")


_RULES = RunRules(
    {
        "function": FUNCTION_WORDS,
        "particles": _PARTICLES,
        "bridges": _PARTICLE_PAIRS,
        "bodies": _ORGANIZATION_WORDS,
        "counted": _NUMBERED_WORDS,
        "calendar": _CALENDAR_WORDS,
        "calendar_short": _CALENDAR_ABBREVIATIONS,
        "beside_names": _TITLES_AND_UNITS,
        "peoples": _PEOPLE_ADJECTIVES,
        "numerals": _NUMERALS,
        "parts_of_text": frozenset(GENERIC_HEADINGS),
        "broken": _BROKEN_HYPHENS,
        "opening": OPENING_MARKS,
        "saints": _SAINTS,
        "keeping_dot": _DOTTED_WORDS,
    },
    {"peoples": _PEOPLE_ENDINGS, "adjectives": _NAME_ADJECTIVE_ENDINGS, "fields": _FIELD_ENDINGS},
    _MAX_RUN_WORDS,
    get_everyday_kind,
    _DIGEST_PATTERN.fullmatch,
    _CONTRACTION_PATTERN.search,
)


class SentenceNames:
    """Names in the sentences of one document.

    The whole document tells common words from names: a word that it also writes in lower case is common; a word
    capitalized in the middle of a sentence is not.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        common: set[str] = set()
        capitalised: set[str] = set()
        self._titles: dict[int, list[str]] = {}
        pieces: list[list[str]] = []
        for sentence in sentences:
            titles, remaining = replace_titles(sentence)
            if titles:
                self._titles[len(pieces)] = titles
            pieces.append(name_pieces(remaining, common, capitalised))
        self._runs = CapitalRuns(_RULES, pieces, common, capitalised)

    def iter_names(self, sentence: int) -> Iterator[Name]:
        """Yield the names that sentence number ``sentence`` introduces."""
        for title in self._titles.get(sentence, ()):
            yield Name(title, "name")
        for number, item in enumerate(self._runs.forms(sentence)):
            if not isinstance(item, str):
                for form in item:
                    yield _make_name((form, "name"))
            elif item[0] == "`":
                code = item.strip("`")
                # An everyday word is an identifier if it is explained or called: `name`: the name of the user.
                if number == 0 or not code.islower() or not code.isalpha() or not is_everyday(code):
                    yield from _extract_code_names(code)
            else:
                term = to_plain_text(item)
                if _is_emphasised_term(term):
                    yield Name(term, "term")


def find_identifiers(text: str) -> Iterator[Name]:
    """Yield code identifiers in running text: snake_case, camelCase, calls() and --options."""
    if not _CODE_HINT_PATTERN.search(text):  # most texts
        return
    text = _replace_addresses(text)
    for match in _TEXT_IDENTIFIER_PATTERN.finditer(text):
        if _IDENTIFIER_PATTERN.fullmatch(match.group()):
            yield from _make_code_name(match.group())


def find_written_terms(text: str, kind: str) -> Iterator[Name]:
    """Yield names that marks show in a piece of English text: with a slash, or explained by an item."""
    if "/" in text:
        yield from (Name(match.group(), "name") for match in _SLASH_NAME_PATTERN.finditer(text))
    item = _EXPLAINED_ITEM_PATTERN.match(text) if kind == "item" else None
    if item:
        term = item.group(1).strip()
        words = term.split()
        if (
            1 < len(words) <= 3
            and is_term(term)
            and words[0].casefold() not in CONTEXTUAL_ADJECTIVES
            and term[1:].islower()
        ):
            yield Name(term, "term")


def extract_mail_names(field: str, english: bool = True) -> Iterator[Name]:
    """Yield the names in a field of a mail header: the persons that it names, or its subject.

    >>> [name.form for name in extract_mail_names("From: Juno Ferreira <juno@example.org>")]
    ['Juno Ferreira']
    """
    label, _, value = field.partition(":")
    label, value = label.lower(), " ".join(value.split())
    if label == "subject":
        yield from extract_title_names(_REPLY_PREFIX_PATTERN.sub("", value), "heading", english)
    elif label in _PERSON_FIELDS:
        for person in _PERSON_PATTERN.findall(_MAIL_ADDRESS_PATTERN.sub(",", value)):
            form = " ".join(person.strip(" \"'").split())
            is_distinctive = " " in form or not is_everyday(form)
            if form[:1].isalpha() and "@" not in form and is_distinctive and is_term(form.replace(",", "")):
                yield Name(form, "name")


def find_code_terms(text: str) -> Iterator[Name]:
    """Yield what is written as code in a text of any language."""
    for match in _BACKTICK_PATTERN.finditer(text):
        yield from _extract_code_names(match.group(1))
    yield from find_identifiers(text)


def _extract_code_names(code: str) -> Iterator[Name]:
    """Yield the names in a piece of code: the piece itself if it is one, else its start and whatever looks like code in
    it."""
    code = " ".join(code.split())
    if code.isupper() and len(code) > 1 and all(word.isalpha() for word in code.split()):
        yield Name(code, "code")
    elif _IDENTIFIER_PATTERN.fullmatch(code):
        yield from _make_code_name(code)
    else:
        call = _CALL_PATTERN.match(code)
        if call:
            yield from _make_code_name(call.group())
        yield from find_identifiers(code)


def _make_code_name(code: str) -> Iterator[Name]:
    name = code.removesuffix("()")
    if (
        len(name) > 1
        and to_entity_key(name) not in FUNCTION_WORDS | _TITLES_AND_UNITS
        and not _NON_CODE_PATTERN.fullmatch(name)
    ):
        yield Name(name, "code")


def _is_emphasised_term(term: str) -> bool:
    """True if emphasized words are a term: a few words; everyday words alone only if they are a noun that is being
    defined."""
    words = term.split()
    if not term[:1].isalpha() or len(words) > 5 or not is_term(term) or term.casefold() in GENERIC_HEADINGS:
        return False
    if not _LATIN_PATTERN.search(term):
        return False
    if len(words) == 1:
        if term.endswith(("ly", "ed")):
            return False
        return get_everyday_kind(term) is None or (term.islower() and get_everyday_kind(term) == NOUN)
    return words[0].casefold() not in CONTEXTUAL_ADJECTIVES


def is_people_adjective(word: str) -> bool:
    """True if a word after others is an adjective of a people: ``South Korean``, ``African American``."""
    return _RULES.is_of_people(word)


def _is_contracted(word: str) -> bool:
    return ("'" in word or "’" in word) and _CONTRACTION_PATTERN.search(word) is not None


def _replace_addresses(text: str) -> str:
    """Return a text with each address of a page or a mail replaced by a mark."""
    return _URL_OR_MAIL_PATTERN.sub(",", text) if "://" in text or "@" in text else text


def replace_titles(sentence: str) -> tuple[list[str], str]:
    """Return the titles of works in quotation marks in a sentence, and the sentence with marks in place of them and of
    addresses."""
    sentence = _replace_addresses(sentence)
    if not any(mark in sentence for mark in ('"', "“", "„", "``")):
        return [], sentence
    titles: list[str] = []

    def replace_title(match: re.Match[str]) -> str:
        title = match.group(1).rstrip(",.")
        if not _is_title(title):
            return match.group()
        titles.append(title)
        return '""'

    return titles, _QUOTED_TITLE_PATTERN.sub(replace_title, sentence)


def _is_title(quoted: str) -> bool:
    """True if a quoted text is a title by its form: several words, all capitalized except function words inside."""
    words = quoted.split()
    if not 1 < len(words) <= _MAX_RUN_WORDS or not (words[-1][0].isupper() or words[-1][0].isdigit()):
        return False
    if _SPEECH_PATTERN.match(quoted) or not _SPEECH_VERBS.isdisjoint(words):
        return False
    return words[0][0].isupper() and all(
        word[0].isupper() or word[0].isdigit() or word in FUNCTION_WORDS or word in _PARTICLES for word in words
    )
