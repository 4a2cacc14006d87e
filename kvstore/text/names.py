"""Names by rule: what a text names, without any language model.

In: sentences, headings and titles. Out: :class:`Name` (form and kind). The rules: runs of capitalised words joined
over particles, and the parts of such a run that stand for themselves; identifiers of code; emphasised terms; whole
titles and headings. An everyday word alone is a name only where the document shows it. All are a function of one
document, so that extraction can run anywhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from kvstore_cext.words import name_pieces

from .blocks import plain
from .everyday import NOUN, OTHER, VERB, everyday_kind, is_everyday
from .normalize import entity_key
from .words import FUNCTION_WORDS, words

#: Bytes of the longest key that becomes an entity.
LONGEST_KEY = 200

_CALENDAR = frozenset(
    """
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday spring summer autumn winter
    """.split()
)
#: Words in capitals that stand before or behind a name, and units: alone they are none.
_BESIDE_NAMES = frozenset(
    """
    mr mrs ms dr prof sir lord lady st jr sr mt inc ltd co corp llc gmbh plc vs maj gen col capt lt sgt rev hon gov sen
    rep bc ad bce ce am pm kb mb gb tb pb kib mib gib tib hz khz mhz ghz kg km cm mm ms no nos vol ed eds pp
    """.split()
)
#: An everyday word in capitals is a name where it stands alone more often than one shouts.
_SHOUTED = 2
#: Words of the longest run that is one name.
_LONGEST_RUN = 8
#: Ends of adjectives made from names.
_OF_NAMES = (
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
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
#: Words a name runs over when a capitalised word follows.
_PARTICLES = frozenset(
    """
    of de da do dos du des del della di la le las los von van der den ter ten zu bin ibn al el y e the for
    """.split()
)
#: Pairs of particles that may stand together inside a name.
_BRIDGES_TWO = frozenset(
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

#: Words that stand before an identifier and say what it is.
_CLASSES = frozenset(
    """
    argument option parameter variable field function command macro constant flag directive method attribute keyword
    version socket struct structure member module class type element
    """.split()
)
#: Words that tell a place in a text, or a step, with the number or letter behind them: no name, nor part of one.
_COUNTED = frozenset(
    """
    section chapter appendix part table figure fig page step example equation note item line volume vol column row
    listing version release level rule case question type
    """.split()
)
#: Adjectives of size, age, order, worth and comparison: they tell one from others and are no part of a name.
PASSING = frozenset(
    """
    large small big little huge tiny great vast tall short long wide narrow high low deep new old young recent ancient
    modern early late former current present main major minor important significant essential necessary
    key common typical usual general special particular specific certain various several numerous many few more most
    much less least such other another same different similar related respective own single double entire whole full
    complete total only very first second third next last final previous following good better best bad worst nice
    famous popular notable well-known known unknown possible potential available useful interesting simple complex
    easy difficult hard beautiful strong weak rich poor close near far
    """.split()
)
#: Adjectives of what is so here, or held so: a phrase that begins with one of them is no term.
PLAIN = PASSING | frozenset(
    """
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
#: Headings of parts of a text, not of its subjects.
PARTS_OF_TEXT = frozenset(
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

_IDENTIFIER = re.compile(r"(?:--?)?[$@.#%]?[A-Za-z_][\w$]*(?:(?:[.:/\-]|::|->)[A-Za-z_$][\w$]*)*(?:\(\))?")
_IN_TEXT = re.compile(
    r"(?<![\w`$./])(?:[A-Za-z]+_\w+|_\w+|[a-z]+[A-Z]\w*|[a-zA-Z_]\w+(?:\.[a-z_]\w+)*\(\)|--[a-z][\w-]+)"
)
#: What every identifier in running text has somewhere, found by a character that few texts have.
_CODE_LIKE = re.compile(r"[_A-Z(-](?:(?<=_)|(?<=[a-z][A-Z])|(?<=\()\)|(?<=-)-)")
#: Ends of words that end in an s and are no plurals, and of plurals that lose it alone.
_NO_PLURAL = (
    *("ss", "us", "is", "series", "species", "news", "means", "diabetes", "rabies", "measles", "mumps", "herpes"),
    *("headquarters", "barracks", "crossroads", "lens", "gas", "bias", "canvas", "atlas", "alias", "physics"),
    *("mathematics", "economics", "politics", "genetics", "linguistics", "logistics", "robotics", "electronics"),
)
_SHORT_PLURAL = ("caches", "aches", "niches", "avalanches", "axes")
#: What a term is made of: words, with the marks that stand inside one, and brackets that are closed again.
_TERM = re.compile(r"[\w.$@#%/+'’&:-]+(?: (?:[\w.$@#%/+'’&:-]+|\([\w .'’/-]+\)))*")
#: What a piece of code that is more than an identifier begins with: a call, or an option with what it takes.
_CALLED = re.compile(r"[A-Za-z_][\w$]+(?:(?:\.|::)[A-Za-z_]\w*)*(?= ?\()|-[A-Za-z?](?=[ ,=\[<])")
#: Names that a stroke is part of: ``SQL/MED``, ``TCP/IP``, ``PL/Perl``.
_STROKED = re.compile(r"(?<![\w/.`-])[A-Z]{2,}/[A-Z][A-Za-z]+(?![\w/-]|\.\w)")
#: What an item of a list explains: a few words before a colon.
_EXPLAINED = re.compile(r"\s*[-*+]\s+(?!`)([^:`*|]{3,40}): \S")
_BACKTICKED = re.compile(r"`([^`\n]{1,100})`")
_BRACKETED = re.compile(r"\s*\([^()]*\)\s*$")
_NUMBERED = re.compile(r"^(?:chapter|section|appendix|part)?\s*(?:[\dIVXLC]+|[A-Z])(?:\.\d+)*[.:)]\s+", re.IGNORECASE)


class Name(NamedTuple):
    """A name as written, and what made it one: title, heading, name, code or term."""

    form: str
    kind: str


def is_name_key(key: str, most_words: int) -> bool:
    """Whether a normal form may become an entity by rule: some letter in it, short enough to be recognised in a
    text."""
    return any(map(str.isalpha, key)) and len(key.encode()) <= LONGEST_KEY and len(words(key)) <= most_words


def title_forms(title: str) -> tuple[str, ...]:
    """A title or heading in plain words, without a number before it; then the same without a bracket at its end, where
    it has one. Empty where nothing is left."""
    whole = _NUMBERED.sub("", plain(title)).strip(" .:;,")
    shorter = _BRACKETED.sub("", whole)
    return tuple(dict.fromkeys(form for form in (whole, shorter) if form))


def title_names(title: str, kind: str, english: bool = True) -> Iterator[Name]:
    """The names a title or heading introduces: itself, without a trailing bracket, without a number, and its
    singular.

    A heading that is an everyday word, or that any text may have, is none; of one in another language than English
    only several words are a name.
    """
    forms = title_forms(title)
    if not forms or (kind == "heading" and not says_something(forms[-1], english)):
        return
    yield from (Name(form, kind) for form in forms)
    single = singular(forms[-1]) if english else None
    if single:
        yield Name(single, kind)


def says_something(heading: str, english: bool) -> bool:
    """Whether a heading tells a subject."""
    found = heading.split()
    if heading.casefold() in PARTS_OF_TEXT:
        return False
    if len(found) == 1:
        return _is_of_code(heading) or (
            english and not is_everyday(heading) and entity_key(heading) not in FUNCTION_WORDS
        )
    lower = [word.casefold() for word in found]
    return not all(word in PARTS_OF_TEXT or word in PLAIN or word in FUNCTION_WORDS for word in lower)


def _is_of_code(word: str) -> bool:
    """Whether a word is written as no word of a language is: with a mark, a digit or a capital inside."""
    return not word.isalpha() or not (word.islower() or word.istitle() or word.isupper())


def is_term(form: str) -> bool:
    """Whether a phrase may be a name by its form: words alone, no bracket cut off, no function word at an end."""
    if (
        not _TERM.fullmatch(form)
        or form[0] in "%-+/'’&:"
        or form[-1] in "-'’&:/"
        or (form[-1] == "." and form.islower())
    ):
        return False
    if form[-1] == "." and form.islower():
        return False
    found = entity_key(form).split()
    if form.split()[0].isupper() and found[0] in PARTS_OF_TEXT and len(found) > 1:
        return False  # the heading of a page of a manual, set before its text
    if len(found) == 2 and found[0] in _CLASSES and not is_everyday(found[1]):
        return False  # the argument addr: a class and what is meant
    if any(word[-1] in "-\u2010" or not any(map(str.isalnum, word)) for word in found):
        return False  # broken at the end of a line, or marks between words
    if found[0] in FUNCTION_WORDS or found[-1] in FUNCTION_WORDS or _ORDINAL.fullmatch(found[0]):
        return False
    if len(found) == 1 and (found[0].rstrip(".") in _BESIDE_NAMES or found[0].endswith(_OF_NAMES)):
        return False
    return not (found[0].rstrip("s") in _COUNTED and len(found) == 2 and (found[1][0].isdigit() or len(found[1]) == 1))


def singular(form: str) -> str | None:
    """The form with its last word in the singular, or None where that word is no plain English plural."""
    head, _, last = form.rpartition(" ")
    lower = last.lower()
    if len(lower) < 4 or not lower.isalpha() or not lower.endswith("s") or lower.endswith(_NO_PLURAL):
        return None
    if last.isupper():
        return None
    if lower.endswith("ies"):
        last = last[:-3] + "y"
    elif lower.endswith(("ches", "shes", "xes", "sses", "zzes")) and not lower.endswith(_SHORT_PLURAL):
        last = last[:-2]
    else:
        last = last[:-1]
    return f"{head} {last}" if head else last


#: Marks behind which a word is capitalised as at the start of a sentence.
OPENING = frozenset(":|([")


class _Run(NamedTuple):
    """Capitalised words in a row, particles between them, and whether the first opens a sentence."""

    words: list[str]
    at_start: bool


class SentenceNames:
    """Names in the sentences of one document.

    The document as a whole tells common words from names: a word also written in lower case in it is common, a word
    capitalised in the middle of a sentence is not.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        self._common: set[str] = set()
        self._capitalised: set[str] = set()
        self._pieces = [name_pieces(sentence, self._common, self._capitalised) for sentence in sentences]

    def names(self, sentence: int) -> Iterator[Name]:
        """The names that sentence number ``sentence`` introduces."""
        for number, found in enumerate(self._found(sentence)):
            if isinstance(found, _Run):
                yield from self._finish(found.words, found.at_start)
            elif found[0] == "`":
                code = found.strip("`")
                # An everyday word is an identifier where it is explained, or called: `name`: the name of the user.
                if number == 0 or not code.islower() or not code.isalpha() or not is_everyday(code):
                    yield from _code_names(code)
            else:
                term = plain(found)
                if _is_emphasised_term(term):
                    yield Name(term, "term")

    def _found(self, sentence: int) -> Iterator[_Run | str]:
        """The runs of capitalised words of a sentence, and its pieces of code and emphasis."""
        run: list[str] = []
        pending: list[str] = []
        first = at_start = True
        for piece in self._pieces[sentence]:
            if piece[0].isalnum():
                ended = piece.endswith(".") and not _keeps_dot(piece)
                word = piece[:-1] if ended else piece
                if _is_capitalised(word, bool(run) and not pending):
                    if pending == ["and"] and not is_everyday(word):
                        yield _Run(run, at_start)
                        run, pending = [], []
                    if not run:
                        at_start = first
                    run += [*pending, word]
                    pending = []
                elif run and not ended and (_may_bridge(pending, word) or _joins_two(run, pending, word)):
                    pending.append(word)
                else:
                    ended = True
                first = first and piece[0].isdigit()
                if not ended:
                    continue
            if run:
                yield _Run(run, at_start)
                run, pending = [], []
            if piece in OPENING:
                first = True
            elif len(piece) > 1 and piece[0] in "`*":
                first = False
                yield piece
        if run:
            yield _Run(run, at_start)

    def _finish(self, run: list[str], at_start: bool) -> Iterator[Name]:
        """The names a run makes: itself, and what stands for itself inside it."""
        whole = len(run)
        while run and at_start and self._only_opens(run):
            run, at_start = run[1:], False
            while run and run[0].lower() in _PARTICLES:
                run = run[1:]
        if len(run) > 1 and run[0].isupper() and run[0].lower() in PARTS_OF_TEXT:
            # The heading of a page of a manual, set before its text.
            run = run[1:]
            while run and run[0].lower() in FUNCTION_WORDS:
                run = run[1:]
        run = _without_sentence(run, at_start)
        if 1 < len(run) < whole and all(map(is_everyday, run)) and tuple(run) not in self._alone:
            return  # "Known Causes of Trouble": what was cut off belonged to it
        run = _without_place(_without_date(run))
        if len(run) == 1 and not self._stands_alone(re.sub("['’]s$", "", run[0]), at_start):
            return
        for index, word in enumerate(run):
            if word.endswith(("'s", "’s")):
                # "Nolan's Batman" names Nolan and Batman too; "St. Mary's Church" stays whole beside "St. Mary".
                opens = at_start and (len(run) == 1 or is_everyday(word[:-2]))
                if index or self._stands_alone(word[:-2], opens):
                    yield Name(" ".join([*run[:index], word[:-2]]), "name")
                yield from self._part(run[index + 1 :])
                if index == len(run) - 1:
                    return
        if run:
            if len(run) <= _LONGEST_RUN:
                yield Name(" ".join(run), "name")
            yield from self._parts(run)

    def _parts(self, run: list[str]) -> Iterator[Name]:
        """The names that a connecting word joins in a run (``the Analytical Engine of Charles Babbage``)."""
        segments = list(_split(run, "for"))
        for segment in segments:
            if len(segments) > 1 and ("of" in segment or self._is_known(segment)):
                # "Best Actress for House of Cards" names House of Cards, "Institute for Advanced Study" no study.
                yield Name(" ".join(segment), "name")
            parts = list(_split(segment, "of"))
            for number, part in enumerate(parts if len(parts) > 1 else ()):
                if number or self._is_known(part):
                    yield from self._part(part)
                elif len(part) > 1 and part[0].lower() not in PASSING and not any("'" in word for word in part):
                    # "Supreme Court of Canada", but not "Second Battle of Bull Run", nor "Bank of England".
                    yield Name(" ".join(part), "name")

    def _is_known(self, part: list[str]) -> bool:
        """Whether a part of a run stands alone somewhere as well."""
        return tuple(part) in self._alone and (len(part) > 1 or not is_everyday(part[0]))

    def _part(self, part: list[str]) -> Iterator[Name]:
        """A part of a run, where it stands for itself."""
        if not part or part[0].isdigit() or "and" in part or part[-1].endswith(("'s", "’s")):
            return
        if len(part) > 1 or (not is_everyday(part[0]) and self._stands_alone(part[0], False)):
            yield Name(" ".join(part), "name")

    @cached_property
    def _alone(self) -> Counter[tuple[str, ...]]:
        """How often each run stands alone in the document, not at the start of a sentence where it is a single word."""
        runs = (found for at in range(len(self._pieces)) for found in self._found(at) if isinstance(found, _Run))
        return Counter(tuple(run.words) for run in runs if len(run.words) > 1 or not run.at_start)

    def _only_opens(self, run: list[str]) -> bool:
        """Whether the first word of a run at the start of a sentence is capitalised for that alone."""
        word = run[0]
        if word.lower() in FUNCTION_WORDS:
            return True
        if len(run) == 1 or word in self._capitalised or word.isupper():
            return False
        return word.lower() in self._common or everyday_kind(word) in (VERB, OTHER) or word.endswith("ing")

    def _stands_alone(self, word: str, at_start: bool) -> bool:
        """Whether a single capitalised word is a name."""
        lower = word.lower()
        if lower in FUNCTION_WORDS or lower in _CALENDAR or lower in PARTS_OF_TEXT or len(lower.rstrip(".")) < 2:
            return False
        if lower.rstrip(".") in _BESIDE_NAMES or lower.endswith(_OF_NAMES):
            return False
        if word.isupper():
            return not is_everyday(word) or self._alone[word,] > _SHOUTED
        if at_start and word not in self._capitalised:
            return False
        # An everyday word is one where it is a noun that the document never writes in lower case.
        kind = everyday_kind(word)
        return kind is None or (kind == NOUN and not at_start and lower not in self._common)


def identifiers(text: str) -> Iterator[Name]:
    """Code identifiers in running text: snake_case, camelCase, calls() and --options."""
    if not _CODE_LIKE.search(text):  # as most texts
        return
    for match in _IN_TEXT.finditer(text):
        if _IDENTIFIER.fullmatch(match.group()):
            yield from _identifier(match.group())


def written_terms(text: str, kind: str) -> Iterator[Name]:
    """Names that their marks tell in a piece of English text: with a stroke in them, or explained by an item."""
    if "/" in text:
        yield from (Name(match.group(), "name") for match in _STROKED.finditer(text))
    explained = _EXPLAINED.match(text) if kind == "item" else None
    if explained:
        term = explained.group(1).strip()
        found = term.split()
        if 1 < len(found) <= 3 and is_term(term) and found[0].casefold() not in PLAIN and term[1:].islower():
            yield Name(term, "term")


def code_terms(text: str) -> Iterator[Name]:
    """What is written as code in a text, in whatever language the text is."""
    for match in _BACKTICKED.finditer(text):
        yield from _code_names(match.group(1))
    yield from identifiers(text)


def _code_names(code: str) -> Iterator[Name]:
    """The names in a piece of code: itself where it is one, else what it begins with and what looks like code in it."""
    code = " ".join(code.split())
    if code.isupper() and len(code) > 1 and all(word.isalpha() for word in code.split()):
        yield Name(code, "code")
    elif _IDENTIFIER.fullmatch(code):
        yield from _identifier(code)
    else:
        opening = _CALLED.match(code)
        if opening:
            yield from _identifier(opening.group())
        yield from identifiers(code)


def _identifier(code: str) -> Iterator[Name]:
    bare = code.removesuffix("()")
    if len(bare) > 1 and entity_key(bare) not in FUNCTION_WORDS:
        yield Name(bare, "code")


def _is_emphasised_term(term: str) -> bool:
    """Whether emphasised words are a term: a few words, and of everyday words alone only a noun as it is written in a
    definition."""
    found = term.split()
    if not term[:1].isalpha() or len(found) > 5 or not is_term(term) or term.casefold() in PARTS_OF_TEXT:
        return False
    if len(found) == 1:
        if term.endswith("ly"):
            return False
        return everyday_kind(term) is None or (term.islower() and everyday_kind(term) == NOUN)
    return found[0].casefold() not in PLAIN


def _without_sentence(run: list[str], at_start: bool) -> list[str]:
    """A run without the sentence that begins behind an identifier in it, as in lists of definitions: ``EFAULT The``,
    ``DT_STRSZ Size``, ``VmLib Shared``."""
    for at in range(1, len(run)):
        before, word = run[at - 1], run[at]
        if not word[0].isupper() or word.isupper():
            continue
        marked = "_" in before or (at_start and len(run) == 2 and _is_of_code(before) and "-" not in before)
        if (before.isupper() and word.lower() in FUNCTION_WORDS) or (marked and is_everyday(word)):
            return run[:at]
    return run


def _split(run: list[str], connecting: str) -> Iterator[list[str]]:
    """The parts of a run between the places of a connecting word, without the article behind it."""
    start = 0
    for at, word in enumerate(run):
        if word == connecting:
            yield run[start:at]
            start = at + 1 + (run[at + 1] == "the")
    yield run[start:]


def _without_date(run: list[str]) -> list[str]:
    """A run without a date at its end, or nothing of one that is a date: ``May 28``, ``July 2000``."""
    end = len(run)
    while end and (run[end - 1].isdigit() or run[end - 1].lower() in _CALENDAR):
        end -= 1
    dated = any(word.lower() in _CALENDAR for word in run[end:])
    return run[:end] if dated and (end == 0 or run[end - 1] not in _PARTICLES) else run


def _without_place(run: list[str]) -> list[str]:
    """A run without a place in a text at its end: ``Table 53``, ``Section 34``, ``Figure A``."""
    if len(run) > 1 and run[-2].lower().rstrip("s") in _COUNTED and (run[-1].isdigit() or len(run[-1]) == 1):
        return run[:-2]
    return run


def _keeps_dot(word: str) -> bool:
    """Whether the dot at the end belongs to the word: an initial or an abbreviation of letters."""
    return len(word) == 2 or "." in word[:-1] or word in ("St.", "Jr.", "Sr.", "Mt.", "Dr.", "Mr.", "Mrs.")


def _is_capitalised(word: str, inside: bool) -> bool:
    return word[0].isupper() or (inside and word.isdigit() and len(word) <= 4)


def _joins_two(run: list[str], pending: list[str], word: str) -> bool:
    """Whether an ``and`` may join two everyday words behind an ``of``: ``Bureau of Weights and Measures``."""
    return word == "and" and not pending and len(run) > 2 and run[-2] == "of" and is_everyday(run[-1])


def _may_bridge(pending: list[str], word: str) -> bool:
    lower = word.lower()
    if lower not in _PARTICLES or lower == "the":
        return len(pending) == 1 and (pending[0].lower(), lower) in _BRIDGES_TWO
    return not pending or (len(pending) == 1 and (pending[0].lower(), lower) in _BRIDGES_TWO)
