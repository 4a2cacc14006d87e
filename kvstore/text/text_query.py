"""Full-text queries: words, phrases, and words near each other (NEAR). A *phrase* is one or more adjacent words. A
*string* is a phrase in double quotes. A word matches another one with the same *stem*, unless it is in a string or a
*prefix* (``pre*``). A *candidate* is a text that may match.

In: a query in the syntax of SQLite's FTS5 (https://sqlite.org/fts5.html, section 3), without columns or ``^``:

- ``word`` matches every form with its stem; ``"a phrase"`` matches word for word as written, in any case;
- ``pre*`` and ``"a phr"*`` match words that begin with the last word; ``one + two`` is a phrase of both;
- ``NEAR(one "two three", 5)`` allows at most five (default 10) words between the end of the first and the start of the
  last;
- ``AND``, ``OR``, ``NOT`` (but not) and parentheses; adjacent parts are joined by AND, which binds more tightly.

Out: a tree of the query, and whether a text matches it. Words are split by :func:`~kvstore.text.words.segment_words`.
An invalid query raises an InputError that names the position.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import NamedTuple, TypeVar

from ..errors import InputError, shorten
from ..process.frozen_dataclass import frozen_dataclass
from .patterns import compile_lazily
from .words import get_stemmer, segment_words

#: The default number of words between the phrases of NEAR.
DEFAULT_DISTANCE = 10
#: The maximum nesting of parentheses, and the maximum number of words in a query.
_MAX_DEPTH = 50
_MAX_WORDS = 1000
#: The number of characters of a query that an error quotes.
_MAX_QUOTED = 80
# White space has no pattern: white space without a token after it would be scanned again from each of its characters.
_TOKEN_PATTERN = compile_lazily(r'(?P<string>"(?:[^"]|"")*"?)|(?P<mark>[()+*,])|(?P<word>[^\s"()+*,]+)')


@frozen_dataclass
class WordPattern:
    """A pattern that matches words.

    It matches words that equal ``word`` (``is_exact``), that begin with it (``is_prefix``), or that have the same stem
    (neither).
    """

    word: str
    is_exact: bool = False
    is_prefix: bool = False


@frozen_dataclass
class Phrase:
    """Adjacent words; a single word is a phrase too."""

    words: tuple[WordPattern, ...]


@frozen_dataclass
class Proximity:
    """A query for phrases near each other, in any order (NEAR).

    At most ``distance`` words are between the end of the first and the start of the last.
    """

    phrases: tuple[Phrase, ...]
    distance: int


@frozen_dataclass
class AndQuery:
    """A query that matches if all operands match."""

    operands: tuple[TextQuery, ...]


@frozen_dataclass
class OrQuery:
    """A query that matches if at least one operand matches."""

    operands: tuple[TextQuery, ...]


@frozen_dataclass
class NotQuery:
    """A query that matches if ``included`` matches and ``excluded`` does not."""

    included: TextQuery
    excluded: TextQuery


TextQuery = Phrase | Proximity | AndQuery | OrQuery | NotQuery

Candidates = TypeVar("Candidates")


def find_candidates(
    query: TextQuery,
    find_phrase: Callable[[Phrase | Proximity], Candidates],
    intersect: Callable[[Candidates, Candidates], Candidates],
    unite: Callable[[Candidates, Candidates], Candidates],
) -> Candidates:
    """Return a superset of the matches of a query, from the candidates that ``find_phrase`` returns for each phrase.

    Candidates are sets of any type, such as arrays of chunk ids; ``intersect`` and ``unite`` combine two of them.
    A query after NOT excludes nothing, because its candidates may not match it.

    >>> query = parse_text_query("leave OR holiday NOT sick")
    >>> sorted(find_candidates(query, lambda phrase: {phrase.words[0].word}, set.intersection, set.union))
    ['holiday', 'leave']
    """

    def collect_candidates(subquery: TextQuery) -> Candidates:
        """Return a superset of the matches of the query or of one of its subqueries."""
        match subquery:
            case AndQuery(operands):
                return reduce(intersect, map(collect_candidates, operands))
            case OrQuery(operands):
                return reduce(unite, map(collect_candidates, operands))
            case NotQuery(included, _):
                return collect_candidates(included)
        return find_phrase(subquery)

    return collect_candidates(query)


def parse_text_query(text: str) -> TextQuery:
    """Parse a full-text query. Raises InputError for an invalid query.

    >>> parse_text_query('leave NOT "sick leave"')
    NotQuery(included=Phrase(words=(WordPattern(word='leave', is_exact=False, is_prefix=False),)), \
excluded=Phrase(words=(WordPattern(word='sick', is_exact=True, is_prefix=False), \
WordPattern(word='leave', is_exact=True, is_prefix=False))))
    """
    parser = _Parser(text)
    query = parser.parse_or()
    parser.expect_end()
    return query


class _QueryToken(NamedTuple):
    """A part of a query: its kind (``string``, ``mark`` or ``word``), its text, and its offset in the query."""

    kind: str
    text: str
    offset: int


class _Parser:
    """A recursive-descent parser of a query. OR binds least, then AND, NOT, and adjacent operands (an implicit AND). An
    *operand* is a phrase, NEAR, or a query in parentheses.
    """

    def __init__(self, text: str) -> None:
        """Split the query ``text`` into tokens."""
        self._text = text
        self._tokens: list[_QueryToken] = []
        for match in _TOKEN_PATTERN.finditer(text):
            kind = match.lastgroup
            assert kind is not None  # every alternative is a named group
            self._tokens.append(_QueryToken(kind, match[kind], match.start(kind)))
        self._index = 0  # of the next token
        self._depth = 0  # the number of open parentheses
        self._num_words = 0

    def parse_or(self) -> TextQuery:
        """Parse one or more queries joined by OR, and return them as one query."""
        operands = [self._parse_and()]
        while self._accept("OR"):
            operands.append(self._parse_and())
        return operands[0] if len(operands) == 1 else OrQuery(tuple(operands))

    def expect_end(self) -> None:
        """Raise InputError if the query continues after its last complete expression."""
        if self._index < len(self._tokens):
            raise self._make_expectation_error("AND, OR, NOT or a word")

    def _parse_and(self) -> TextQuery:
        """Parse one or more queries joined by AND, and return them as one query."""
        operands = [self._parse_not()]
        while self._accept("AND"):
            operands.append(self._parse_not())
        return operands[0] if len(operands) == 1 else AndQuery(tuple(operands))

    def _parse_not(self) -> TextQuery:
        """Parse one or more queries joined by NOT (but not), and return them as one query."""
        query = self._parse_implicit_and()
        while self._accept("NOT"):
            query = NotQuery(query, self._parse_implicit_and())
        return query

    def _parse_implicit_and(self) -> TextQuery:
        """Parse adjacent queries without an operator, which are joined by AND, and return them as one query."""
        operands = [self._parse_operand()]
        while self._has_operand():
            operands.append(self._parse_operand())
        return operands[0] if len(operands) == 1 else AndQuery(tuple(operands))

    def _has_operand(self) -> bool:
        """True if the next token begins an operand: a phrase, NEAR or a query in parentheses."""
        kind, token = self._peek()
        return kind == "string" or token == "(" or (kind == "word" and token not in ("AND", "OR", "NOT"))

    def _parse_operand(self) -> TextQuery:
        """Parse a query in parentheses, NEAR, or a phrase.

        Raises InputError for anything else, an unclosed parenthesis and too many nested parentheses.
        """
        if self._accept("("):
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise InputError(
                    f"a full-text query has more than {_MAX_DEPTH} nested parentheses; use fewer parentheses"
                )
            query = self.parse_or()
            self._depth -= 1
            self._expect_close()
            return query
        if self._peek() == ("word", "NEAR") and self._peek(1) == ("mark", "("):
            self._index += 2
            return self._parse_near()
        return self._parse_phrase()

    def _parse_near(self) -> TextQuery:
        """Parse the phrases and the distance (if given) of NEAR and its ``)``; ``NEAR(`` is parsed already.

        A phrase alone is returned as it is. Raises InputError for anything else.
        """
        phrases = [self._parse_phrase()]
        kind, _ = self._peek()
        while kind in ("string", "word"):
            phrases.append(self._parse_phrase())
            kind, _ = self._peek()
        distance = DEFAULT_DISTANCE
        if self._accept(","):
            kind, token = self._peek()
            if kind != "word" or not re.fullmatch("[0-9]{1,9}", token):
                raise self._make_expectation_error("a whole number, the maximum number of words between the phrases")
            distance = int(token)
            self._index += 1
        self._expect_close()
        return phrases[0] if len(phrases) == 1 else Proximity(tuple(phrases), distance)

    def _parse_phrase(self) -> Phrase:
        """Parse a phrase: words, possibly joined by ``+``.

        Raises InputError for any other token, and for a ``+`` after ``*``.
        """
        words = self._parse_words()
        while self._accept("+"):
            if words[-1].is_prefix:
                self._index -= 1
                raise self._make_error("`+` cannot follow `*`; only the last word of a phrase can be a prefix")
            words += self._parse_words()
        return Phrase(tuple(words))

    def _parse_words(self) -> list[WordPattern]:
        """Parse one token, a string in double quotes or text without spaces, and a ``*`` after it; return its words.

        Raises InputError if the next token is neither or is invalid, such as an unclosed string, or if the query has
        too many words.
        """
        kind, token = self._peek()
        if kind not in ("string", "word") or (kind == "word" and token in ("AND", "OR", "NOT")):
            raise self._make_expectation_error("a word or a phrase in double quotes")
        is_exact = kind == "string"
        if is_exact and (len(token) == 1 or token.count('"') % 2):
            raise self._make_error("this double quote is not closed; add one after the phrase")
        if not is_exact and re.match(r"-\w", token):
            raise self._make_error(f"`-` cannot precede a word; NOT {token[1:]} excludes texts that contain it")
        if not is_exact and re.fullmatch(r"\w+:.*", token):
            raise self._make_error("a query cannot name a column; add a condition such as title MATCH '...'")
        content = token[1:-1].replace('""', '"') if is_exact else token
        words = segment_words(content)
        if not words:
            raise self._make_error(f"{shorten(token, _MAX_QUOTED)!r} has no letter or digit; a query consists of words")
        self._num_words += len(words)
        if self._num_words > _MAX_WORDS:
            raise InputError(f"a full-text query has more than {_MAX_WORDS:,} words; use fewer")
        self._index += 1
        is_prefix = self._accept("*")
        last = len(words) - 1
        return [WordPattern(word, is_exact, is_prefix and index == last) for index, word in enumerate(words)]

    def _peek(self, offset: int = 0) -> tuple[str, str]:
        """Return the kind and text of the token ``offset`` tokens after the next one; empty strings at the end."""
        index = self._index + offset
        return self._tokens[index][:2] if index < len(self._tokens) else ("", "")

    def _accept(self, token: str) -> bool:
        """If the next token is ``token``, skip it and return True. Otherwise, return False."""
        _, next_token = self._peek()  # a string includes its quotes
        if next_token != token:
            return False
        self._index += 1
        return True

    def _expect_close(self) -> None:
        """Skip a closing parenthesis. Raises InputError if the next token is not one."""
        if not self._accept(")"):
            raise self._make_expectation_error("')'")

    def _make_expectation_error(self, expected: str) -> InputError:
        """Return the error that the query needs ``expected``, at the next token or at its end."""
        if self._index >= len(self._tokens):
            return InputError(
                f"full-text query: expected {expected} at the end of {shorten(self._text, _MAX_QUOTED)!r}"
            )
        return self._make_error(f"expected {expected}, found {shorten(self._tokens[self._index].text, _MAX_QUOTED)!r}")

    def _make_error(self, problem: str) -> InputError:
        """Return the error for a problem at the next token; its message begins with the token's position."""
        return InputError(f"full-text query, character {self._tokens[self._index].offset + 1}: {problem}")


#: The number of cached queries: one statement can have hundreds of queries that each check every row.
_parse_cached = lru_cache(maxsize=1024)(parse_text_query)


def build_text_matcher(query: str | TextQuery, stemmer: str) -> Callable[[str], bool]:
    """Return a predicate that is true for texts that match ``query``, a text as typed or a parsed query.

    ``stemmer`` is the name of a stemmer: words match if their stems are equal. Raises InputError for an invalid query.
    """
    parsed_query = _parse_cached(query) if isinstance(query, str) else query
    stem = get_stemmer(stemmer)
    return lambda text: _is_match(parsed_query, _TextWords(text, stem))


class TextMatcher:
    """Matches texts against queries.

    The words of the last text are cached, because a condition often has several queries.
    """

    def __init__(self, stemmer: str) -> None:
        """Create a matcher that compares stems of words; ``stemmer`` is the name of a stemmer."""
        self._stem = get_stemmer(stemmer)
        #: A cache: the text of the last call and its words.
        self._text: str | None = None
        self._words = _TextWords("", self._stem)

    def matches(self, query: str, text: str) -> bool:
        """True if ``text`` matches ``query``, a query as typed. Raises InputError for an invalid query.

        The words of ``text`` are cached for the next call.
        """
        if text != self._text:
            self._text, self._words = text, _TextWords(text, self._stem)
        return _is_match(_parse_cached(query), self._words)


def count_occurrences(phrase: Phrase, text: str, stem: Callable[[str], str]) -> int:
    """Return the number of occurrences of a phrase in a text; ``stem`` maps a word to its stem."""
    return len(_TextWords(text, stem).find_starts(phrase))


class _TextWords:
    """The words of a text, and the positions of phrases among them, which are cached."""

    def __init__(self, text: str, stem: Callable[[str], str]) -> None:
        """Split a text into words. They are stemmed by ``stem`` when a query first compares stems."""
        self._words = segment_words(text)
        self._stem = stem
        self._stems: list[str] | None = None  # of the words, in the same order
        self._starts_by_phrase: dict[Phrase, list[int]] = {}

    def find_starts(self, phrase: Phrase) -> list[int]:
        """Return the position (in words) at which each occurrence of a phrase starts, ascending. Cached."""
        starts = self._starts_by_phrase.get(phrase)
        if starts is None:
            starts = self._find_matches(phrase.words[0])
            for distance, pattern in enumerate(phrase.words[1:], 1):
                if not starts:
                    break
                positions = set(self._find_matches(pattern))
                starts = [start for start in starts if start + distance in positions]  # the next word matches too
            self._starts_by_phrase[phrase] = starts
        return starts

    def _find_matches(self, pattern: WordPattern) -> list[int]:
        """Return the positions of the words of the text that match a pattern, ascending.

        The first pattern that compares stems also stems all words, once.
        """
        if pattern.is_prefix:
            return [position for position, word in enumerate(self._words) if word.startswith(pattern.word)]
        if pattern.is_exact:
            return _find_positions(self._words, pattern.word)
        if self._stems is None:
            self._stems = list(map(self._stem, self._words))
        return _find_positions(self._stems, self._stem(pattern.word))


def _find_positions(words: Sequence[str], target: str) -> list[int]:
    """Return the positions of ``target`` in a list of words, ascending."""
    return [position for position, word in enumerate(words) if word == target] if target in words else []


def _is_match(query: TextQuery, words: _TextWords) -> bool:
    """True if the words of a text match a query."""
    match query:
        case Phrase():
            return bool(words.find_starts(query))
        case Proximity(phrases, distance):
            return _is_near(phrases, distance, words)
        case AndQuery(operands):
            return all(_is_match(operand, words) for operand in operands)
        case OrQuery(operands):
            return any(_is_match(operand, words) for operand in operands)
        case NotQuery(included, excluded):
            return _is_match(included, words) and not _is_match(excluded, words)


def _is_near(phrases: Sequence[Phrase], distance: int, words: _TextWords) -> bool:
    """True if one occurrence of each phrase can be chosen so that all are near each other, as NEAR defines it.

    At most ``distance`` words are between the first end and the last start of the chosen occurrences. The end of each
    occurrence is tried as the first end. Each phrase then contributes its first occurrence that ends there or later,
    which must begin at most ``distance`` words after it.
    """
    # The number of words of each phrase, and the positions at which it starts.
    occurrences = [(len(phrase.words), words.find_starts(phrase)) for phrase in phrases]

    def is_within_distance(first_end: int, size: int, starts: Sequence[int]) -> bool:
        """True if a phrase of ``size`` words ends at ``first_end`` or later and begins within the distance."""
        index = bisect_left(starts, first_end - size)
        return index < len(starts) and starts[index] <= first_end + distance

    return any(
        all(is_within_distance(start + size, *occurrence) for occurrence in occurrences)
        for size, starts in occurrences
        for start in starts
    )
