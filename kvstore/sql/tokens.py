"""The words of the language: text in, tokens and whole statements out.

In: any text, half-typed text included. Out: tokens with their places, and the statements a script consists of, each
ending at its ``;``. Bad input is never refused here: a character that belongs to nothing becomes a ``bad`` token, an
unclosed quote a token that runs to the end of the text; :mod:`~kvstore.language.parser` says what is wrong with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN_PATTERN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<string>'[^']*(?:''[^']*)*(?:'|\Z))
    | (?P<quoted>"[^"]*(?:""[^"]*)*(?:"|\Z)|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z))
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<parameter>\?\d*|:[^\W\d]\w*)
    | (?P<semicolon>;)
    | (?P<operator>->>|->|\|\||<=|>=|<>|!=|==|<<|>>|[-+*/%<>=~&|(),.])
    | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: ``kind`` is one of space, comment, string, quoted, number, word, parameter, semicolon,
    operator, bad; ``start`` and ``end`` count characters from the beginning of the text."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def closed(self) -> bool:
        """False for a string, quoted name or block comment whose end is missing."""
        if self.kind == "string":
            return self.text.count("'") % 2 == 0
        if self.kind == "quoted":
            if self.text[0] == '"':
                return self.text.count('"') % 2 == 0
            return len(self.text) > 1 and self.text[-1] == {"`": "`", "[": "]"}[self.text[0]]
        if self.text.startswith("/*"):
            return len(self.text) >= 4 and self.text.endswith("*/")
        return True


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Every token of ``text`` from ``start`` on, white space and comments included; joined, they are the text."""
    for match in _TOKEN_PATTERN.finditer(text, start):
        assert match.lastgroup is not None  # every alternative is a named group
        yield Token(match.lastgroup, match.group(), match.start(), match.end())


def split_statements(text: str) -> Iterator[list[Token]]:
    """The statements of a script, each as its meaning tokens without the closing ``;``; empty ones are left out."""
    statement: list[Token] = []
    for token in tokens(text):
        if token.kind == "semicolon":
            if statement:
                yield statement
            statement = []
        elif token.kind not in ("space", "comment") or not token.closed:
            statement.append(token)
    if statement:
        yield statement


def is_complete(text: str) -> bool:
    """Whether every statement begun in ``text`` is closed by its ``;`` (true of blank text too).

    >>> is_complete("LOOKUP 'a;'"), is_complete("LOOKUP 'a'; -- done")
    (False, True)
    """
    complete = True
    for token in tokens(text):
        if not token.closed:
            return False
        if token.kind == "semicolon":
            complete = True
        elif token.kind not in ("space", "comment"):
            complete = False
    return complete


def unquote(text: str) -> str:
    """The characters that a string or a quoted name stands for.

    >>> unquote("'it''s'")
    "it's"
    """
    mark, inner = text[0], text[1:-1]
    return inner.replace(mark * 2, mark) if mark in "'\"" else inner
