"""Names by rule: what a text names, without any language model.

In: sentences, headings and titles. Out: :class:`Name` (form and kind). The rules: runs of capitalised words joined
over particles, where a common word at the start of a sentence is none; identifiers of code; emphasised terms; whole
titles and headings. All are a function of one document, so that extraction can run anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kvstore_cext.words import name_pieces

from .blocks import plain
from .normalize import entity_key
from .words import FUNCTION_WORDS, words

#: Bytes of the longest key that becomes an entity.
LONGEST_KEY = 200

_CALENDAR = frozenset(
    """
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday spring summer autumn winter mr mrs ms dr prof sir lord lady
    """.split()
)
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

_IDENTIFIER = re.compile(r"(?:--?)?[$@.#%]?[A-Za-z_][\w$]*(?:(?:[.:/\-]|::|->)[A-Za-z_$][\w$]*)*(?:\(\))?")
_IN_TEXT = re.compile(
    r"(?<![\w`$.])(?:[A-Za-z]+_\w+|_\w+|[a-z]+[A-Z]\w*|[a-zA-Z_]\w+(?:\.[a-z_]\w+)*\(\)|--[a-z][\w-]+)"
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


def title_names(title: str, kind: str) -> Iterator[Name]:
    """The names a title or heading introduces: itself, without a trailing bracket, without a number, and its
    singular."""
    forms = title_forms(title)
    if not forms:
        return
    yield from (Name(form, kind) for form in forms)
    single = singular(forms[-1])
    if single:
        yield Name(single, kind)


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
        run: list[str] = []
        pending: list[str] = []
        first = at_start = True
        for piece in self._pieces[sentence]:
            if piece[0].isalnum():
                ended = piece.endswith(".") and not _keeps_dot(piece)
                word = piece[:-1] if ended else piece
                if _is_capitalised(word, bool(run)):
                    if not run:
                        at_start = first
                    run += [*pending, word]
                    pending = []
                elif run and not ended and _may_bridge(pending, word):
                    pending.append(word)
                else:
                    ended = True
                first = False
                if not ended:
                    continue
            if run:
                yield from self._finish(run, at_start)
                run, pending = [], []
            if len(piece) > 1 and piece[0] == "`":
                first = False
                yield from _code_names(piece.strip("`"))
            elif len(piece) > 1 and piece[0] == "*":
                first = False
                term = plain(piece)
                if len(term.split()) <= 5 and term[:1].isalpha() and entity_key(term) not in FUNCTION_WORDS:
                    yield Name(term, "term")
        yield from self._finish(run, at_start)

    def _finish(self, run: list[str], at_start: bool) -> Iterator[Name]:
        """The name a run makes, if it is one."""
        while run and at_start and (run[0].lower() in FUNCTION_WORDS or (len(run) > 1 and self._is_common(run[0]))):
            run, at_start = run[1:], False
            while run and run[0].lower() in _PARTICLES:
                run = run[1:]
        if not run:
            return
        lower = run[0].lower()
        if len(run) == 1:
            if lower in FUNCTION_WORDS or lower in _CALENDAR or len(lower) < 2:
                return
            if at_start and not (run[0] in self._capitalised or run[0].isupper()):
                return
        for index, word in enumerate(run):
            if word.endswith(("'s", "’s")):
                # "Nolan's Batman" names Nolan too; "St. Mary's Church" stays whole beside "St. Mary".
                yield Name(" ".join([*run[:index], word[:-2]]), "name")
                if index == len(run) - 1:
                    return
        yield Name(" ".join(run), "name")

    def _is_common(self, word: str) -> bool:
        return word.lower() in self._common and word not in self._capitalised


def identifiers(text: str) -> Iterator[Name]:
    """Code identifiers in running text: snake_case, camelCase, calls() and --options."""
    if not _CODE_LIKE.search(text):  # as most texts
        return
    for match in _IN_TEXT.finditer(text):
        yield from _code_names(match.group())


def _code_names(code: str) -> Iterator[Name]:
    code = " ".join(code.split())
    if code.isupper() and all(word.isalpha() for word in code.split()):
        yield Name(code, "code")
        return
    if _IDENTIFIER.fullmatch(code):
        bare = code.removesuffix("()")
        if len(bare) > 1 and entity_key(bare) not in FUNCTION_WORDS:
            yield Name(bare, "code")


def _keeps_dot(word: str) -> bool:
    """Whether the dot at the end belongs to the word: an initial or an abbreviation of letters."""
    return len(word) == 2 or "." in word[:-1] or word in ("St.", "Jr.", "Sr.", "Mt.", "Dr.", "Mr.", "Mrs.")


def _is_capitalised(word: str, inside: bool) -> bool:
    return word[0].isupper() or (inside and word[0].isdigit() and word.isdigit())


def _may_bridge(pending: list[str], word: str) -> bool:
    lower = word.lower()
    if lower not in _PARTICLES or lower == "the":
        return len(pending) == 1 and (pending[0].lower(), lower) in _BRIDGES_TWO
    return not pending or (len(pending) == 1 and (pending[0].lower(), lower) in _BRIDGES_TWO)
