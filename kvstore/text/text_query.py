"""Full-text queries: which texts have these words, phrases, or words near to each other.

In: a query in the syntax of SQLite's FTS5 (https://sqlite.org/fts5.html, section 3), without its columns and ``^``:

- ``word`` is found in every form that has its stem, ``"a phrase"`` word for word as it is written, in any case;
- ``pre*`` and ``"a phr"*`` take the last word as the beginning of one; ``one + two`` is a phrase of both;
- ``NEAR(one "two three", 5)`` has at most five (10) words between the end of the first and the beginning of the last;
- ``AND``, ``OR``, ``NOT`` (but not) and parentheses; what only stands side by side is joined more tightly, by AND.

Out: a tree of the query, and whether a text matches it. Words are those of :func:`~kvstore.text.words.segments`. A text
that is no query is an InputError that says where.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TypeVar

from ..errors import InputError
from .words import segments, stemmer

#: Words that may stand between what is to be near.
NEAR = 10
#: How deep parentheses may stand in each other, and words of a query.
_DEEPEST = 50
_MAX_WORDS = 1000
#: Characters of a query that an error quotes.
_MAX_QUOTED = 80
# No pattern for white space: one that no token follows would be scanned again from each of its characters.
_TOKEN = re.compile(r'(?P<string>"(?:[^"]|"")*"?)|(?P<mark>[()+*,])|(?P<word>[^\s"()+*,]+)')


@dataclass(frozen=True, slots=True)
class WordPattern:
    """One word: in the form that is written (``exact``), in every form that has its stem, or as the beginning of one
    (``prefix``)."""

    word: str
    exact: bool = False
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words one after the other; one word is a phrase as well."""

    words: tuple[WordPattern, ...]


@dataclass(frozen=True, slots=True)
class Proximity:
    """Phrases in any order, with at most ``distance`` words between the end of the first and the beginning of the
    last."""

    phrases: tuple[Phrase, ...]
    distance: int


@dataclass(frozen=True, slots=True)
class Every:
    """All parts match."""

    parts: tuple[TextQuery, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of the parts matches."""

    parts: tuple[TextQuery, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """A part matches, and another does not."""

    wanted: TextQuery
    unwanted: TextQuery


TextQuery = Phrase | Proximity | Every | Either | Without

Found = TypeVar("Found")


def candidates(
    query: TextQuery,
    having: Callable[[Phrase | Proximity], Found],
    both: Callable[[Found, Found], Found],
    either: Callable[[Found, Found], Found],
) -> Found:
    """What may match a query, of what ``having`` finds for its phrases: sets of any kind, and how two of them join.

    What must not be there excludes nothing: words alone do not tell whether all of it is.

    >>> query = parse_text_query("leave OR holiday NOT sick")
    >>> sorted(candidates(query, lambda phrase: {phrase.words[0].word}, set.intersection, set.union))
    ['holiday', 'leave']
    """

    def of(part: TextQuery) -> Found:
        match part:
            case Every(parts):
                return reduce(both, map(of, parts))
            case Either(parts):
                return reduce(either, map(of, parts))
            case Without(wanted, _):
                return of(wanted)
        return having(part)

    return of(query)


def parse_text_query(text: str) -> TextQuery:
    """The tree of a full-text query; raises InputError for what is none.

    >>> parse_text_query('leave NOT "sick leave"')
    Without(wanted=Phrase(words=(WordPattern(word='leave', exact=False, prefix=False),)), \
unwanted=Phrase(words=(WordPattern(word='sick', exact=True, prefix=False), \
WordPattern(word='leave', exact=True, prefix=False))))
    """
    parser = _Parsing(text)
    found = parser.either()
    parser.end()
    return found


class _Parsing:
    """A query, token by token: kind, text and place of each."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup
            assert kind is not None  # every alternative is a named group
            self._tokens.append((kind, match[kind], match.start(kind)))
        self._place = 0
        self._depth = 0
        self._words = 0

    def either(self) -> TextQuery:
        """Parts joined by OR."""
        parts = [self._every()]
        while self._take("OR"):
            parts.append(self._every())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def end(self) -> None:
        if self._place < len(self._tokens):
            raise self._make_error("AND, OR, NOT or a word")

    def _every(self) -> TextQuery:
        """Parts joined by AND."""
        parts = [self._parse_not()]
        while self._take("AND"):
            parts.append(self._parse_not())
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _parse_not(self) -> TextQuery:
        query = self._parse_implicit_and()
        while self._take("NOT"):
            query = Without(query, self._parse_implicit_and())
        return query

    def _parse_implicit_and(self) -> TextQuery:
        parts = [self._part()]
        while self._is_part_start():
            parts.append(self._part())
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _is_part_start(self) -> bool:
        kind, token = self._peek()
        return kind == "string" or token == "(" or (kind == "word" and token not in ("AND", "OR", "NOT"))

    def _part(self) -> TextQuery:
        if self._take("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise InputError(f"a full-text query is more than {_DEEPEST} deep; say it with fewer parentheses")
            found = self.either()
            self._depth -= 1
            self._close()
            return found
        if self._peek() == ("word", "NEAR") and self._peek(1) == ("mark", "("):
            self._place += 2
            return self._near()
        return self._parse_phrase()

    def _near(self) -> TextQuery:
        phrases = [self._parse_phrase()]
        while self._peek()[0] in ("string", "word"):
            phrases.append(self._parse_phrase())
        distance = NEAR
        if self._take(","):
            kind, token = self._peek()
            if kind != "word" or not re.fullmatch("[0-9]{1,9}", token):
                raise self._make_error("how many words may stand between, a whole number")
            distance = int(token)
            self._place += 1
        self._close()
        return phrases[0] if len(phrases) == 1 else Proximity(tuple(phrases), distance)

    def _parse_phrase(self) -> Phrase:
        words = self._run()
        while self._take("+"):
            if words[-1].prefix:
                raise self._make_error("no + behind *: the last word of a phrase alone may be the beginning of one", -1)
            words += self._run()
        return Phrase(tuple(words))

    def _run(self) -> list[WordPattern]:
        """The words of one string, or of what stands without spaces."""
        kind, token = self._peek()
        if kind not in ("string", "word") or (kind == "word" and token in ("AND", "OR", "NOT")):
            raise self._make_error("a word or a phrase in double quotes")
        is_exact = kind == "string"
        if is_exact and (len(token) == 1 or token.count('"') % 2):
            raise self._make_error("a double quote that closes this one")
        if not is_exact and re.match(r"-\w", token):
            raise self._make_error(f"no mark before a word (NOT {token[1:]} leaves out texts that have it)")
        if not is_exact and re.fullmatch(r"\w+:.*", token):
            raise self._make_error("no name of a column; write 'title MATCH ...' beside it for another column")
        content = token[1:-1].replace('""', '"') if is_exact else token
        found = segments(content)
        if not found:
            raise self._make_error("a letter or digit in what is looked for")
        self._words += len(found)
        if self._words > _MAX_WORDS:
            raise InputError(f"a full-text query has more than {_MAX_WORDS:,} words; give fewer")
        self._place += 1
        is_prefix = self._take("*")
        last = len(found) - 1
        return [WordPattern(word, is_exact, is_prefix and index == last) for index, word in enumerate(found)]

    def _peek(self, further: int = 0) -> tuple[str, str]:
        index = self._place + further
        return self._tokens[index][:2] if index < len(self._tokens) else ("", "")

    def _take(self, token: str) -> bool:
        if self._peek()[1] == token:  # a string has its quotes
            self._place += 1
            return True
        return False

    def _close(self) -> None:
        if not self._take(")"):
            raise self._make_error("')'")

    def _make_error(self, expected: str, back: int = 0) -> InputError:
        index = self._place + back
        if index >= len(self._tokens):
            return InputError(f"full-text query: expected {expected}, met the end of {_shorten(self._text)!r}")
        _, token, start = self._tokens[index]
        return InputError(f"full-text query, character {start + 1}: expected {expected}, met {_shorten(token)!r}")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…"


#: Queries of one statement, each of which judges every row, may be hundreds.
_parsed = lru_cache(maxsize=1024)(parse_text_query)


def build_text_matcher(query: str | TextQuery, stemming: str) -> Callable[[str], bool]:
    """Whether a text matches a query, with the stems of a Snowball language; raises InputError for what is none."""
    parsed = _parsed(query) if isinstance(query, str) else query
    stem = stemmer(stemming)
    return lambda text: _is_match(parsed, _Words(text, stem))


class TextMatcher:
    """Whether texts match queries, with the stems of a Snowball language: of several queries in a row the text is
    split into words once."""

    def __init__(self, stemming: str) -> None:
        self._stem = stemmer(stemming)
        self._text: str | None = None
        self._words = _Words("", self._stem)

    def matches(self, query: str, text: str) -> bool:
        """Whether a text matches; raises InputError for what is no query."""
        if text != self._text:
            self._text, self._words = text, _Words(text, self._stem)
        return _is_match(_parsed(query), self._words)


def occurrences(phrase: Phrase, text: str, stem: Callable[[str], str]) -> int:
    """How often a text has a phrase."""
    return len(_Words(text, stem).starts(phrase))


class _Words:
    """The words of a text, and where phrases begin among them."""

    def __init__(self, text: str, stem: Callable[[str], str]) -> None:
        self._written = segments(text)
        self._stem = stem
        self._stemmed: list[str] | None = None
        self._starts: dict[Phrase, list[int]] = {}

    def starts(self, phrase: Phrase) -> list[int]:
        """The places of the words with which a phrase begins, ascending."""
        found = self._starts.get(phrase)
        if found is None:
            found = self._places(phrase.words[0])
            for distance, pattern in enumerate(phrase.words[1:], 1):
                if not found:
                    break
                next_starts = set(self._places(pattern))
                found = [start for start in found if start + distance in next_starts]
            self._starts[phrase] = found
        return found

    def _places(self, pattern: WordPattern) -> list[int]:
        if pattern.prefix:
            return [position for position, word in enumerate(self._written) if word.startswith(pattern.word)]
        if pattern.exact:
            return _places(self._written, pattern.word)
        if self._stemmed is None:
            self._stemmed = list(map(self._stem, self._written))
        return _places(self._stemmed, self._stem(pattern.word))


def _places(words: Sequence[str], wanted: str) -> list[int]:
    return [position for position, word in enumerate(words) if word == wanted] if wanted in words else []


def _is_match(query: TextQuery, words: _Words) -> bool:
    match query:
        case Phrase():
            return bool(words.starts(query))
        case Proximity(phrases, distance):
            return _near(phrases, distance, words)
        case Every(parts):
            return all(_is_match(part, words) for part in parts)
        case Either(parts):
            return any(_is_match(part, words) for part in parts)
        case Without(wanted, unwanted):
            return _is_match(wanted, words) and not _is_match(unwanted, words)


def _near(phrases: Sequence[Phrase], distance: int, words: _Words) -> bool:
    """Whether each phrase occurs, at most so far from the others: the one that ends first stands at each of its places
    in turn, and the others where they next end there or behind."""
    starts = [words.starts(phrase) for phrase in phrases]
    if not all(starts):
        return False
    sizes = [len(phrase.words) for phrase in phrases]
    for size, phrase_starts in zip(sizes, starts, strict=True):
        for start in phrase_starts:
            end = start + size
            next_indexes = [
                bisect_left(other_starts, end - length) for length, other_starts in zip(sizes, starts, strict=True)
            ]
            if all(
                next_index < len(other_starts) for next_index, other_starts in zip(next_indexes, starts, strict=True)
            ) and all(
                other_starts[next_index] <= end + distance
                for next_index, other_starts in zip(next_indexes, starts, strict=True)
            ):
                return True
    return False
