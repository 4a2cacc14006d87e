"""The query language for programs that edit, show or complete it: the shell, and any other.

In: text, half-typed text included. Out: its tokens, whether it is complete, what may follow it, and values as the
language writes them. To run statements use :meth:`kvstore.Store.execute`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .query.tokens import Token, is_complete, tokens

if TYPE_CHECKING:
    from .query.cursor import Cursor
    from .query.literals import literal, name
    from .query.syntax import expected, keywords

__all__ = ["Cursor", "Token", "expected", "is_complete", "keywords", "literal", "name", "tokens"]

#: Where the rest lives: loaded when first used, so that a prompt need not wait for the parser.
_HOMES = {
    "Cursor": ".query.cursor",
    "expected": ".query.syntax",
    "keywords": ".query.syntax",
    "literal": ".query.literals",
    "name": ".query.literals",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __package__), name)
