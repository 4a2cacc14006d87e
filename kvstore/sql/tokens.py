"""The tokenizer of the language: text in, tokens and complete statements out.

In: any text, including incomplete input. Out: tokens with their offsets, and the statements of a script, each ending at
its ``;``. Invalid input is never rejected here: an invalid character becomes a ``bad`` token, and an unclosed quote a
token up to the end of the text. :mod:`~kvstore.language.parser` reports the errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..text.patterns import compile_lazily

_TOKEN_PATTERN = compile_lazily(
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
    """A token, from character ``start`` to ``end`` of the text.

    ``kind`` is one of space, comment, string, quoted, number, word, parameter, semicolon, operator, bad.
    """

    kind: str
    text: str
    start: int
    end: int

    @property
    def is_closed(self) -> bool:
        """True unless the token is a string, a quoted name or a block comment without an end."""
        if self.kind == "string":
            return self.text.count("'") % 2 == 0  # quotes inside a string are doubled
        if self.kind == "quoted":
            if self.text[0] == '"':
                return self.text.count('"') % 2 == 0
            return len(self.text) > 1 and self.text[-1] == {"`": "`", "[": "]"}[self.text[0]]
        if self.text.startswith("/*"):
            return len(self.text) >= len("/**/") and self.text.endswith("*/")
        return True


def iter_tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Yield every token of ``text`` from ``start`` on, including white space and comments.

    The texts of the tokens, joined, are the text.
    """
    for match in _TOKEN_PATTERN.finditer(text, start):
        assert match.lastgroup is not None  # every alternative is a named group
        yield Token(match.lastgroup, match.group(), match.start(), match.end())


def split_statements(text: str) -> Iterator[list[Token]]:
    """Yield the tokens of each statement of a script, without ``;``, white space and comments.

    Empty statements are omitted. A comment that is not closed is kept, so that the parser reports it.
    """
    statement: list[Token] = []
    for token in iter_tokens(text):
        if token.kind == "semicolon":
            if statement:
                yield statement
            statement = []
        elif token.kind not in ("space", "comment") or not token.is_closed:
            statement.append(token)
    if statement:
        yield statement


def is_complete(text: str) -> bool:
    """True if every statement in ``text`` ends with ``;`` and no string, quoted name or comment is left open.

    A text without statements is complete.

    >>> is_complete("LOOKUP 'a;'"), is_complete("LOOKUP 'a'; -- done")
    (False, True)
    """
    is_closed = True
    for token in iter_tokens(text):
        if not token.is_closed:
            return False
        if token.kind == "semicolon":
            is_closed = True
        elif token.kind not in ("space", "comment"):
            is_closed = False
    return is_closed


def unquote(text: str) -> str:
    """Return the content of a string or a quoted name, given with its quotes.

    >>> unquote("'it''s'")
    "it's"
    """
    quote, inner = text[0], text[1:-1]
    return inner.replace(quote * 2, quote) if quote in "'\"" else inner
