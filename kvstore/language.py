"""The query language for programs that edit, show or complete it: the shell, and any other.

In: text, half-typed text included. Out: its tokens, whether it is complete, what may follow it, and values as the
language writes them. To run statements use :meth:`kvstore.Store.execute`.
"""

from __future__ import annotations

from .query.cursor import Cursor
from .query.statements import literal, name
from .query.syntax import expected, keywords
from .query.tokens import Token, is_complete, tokens

__all__ = ["Cursor", "Token", "expected", "is_complete", "keywords", "literal", "name", "tokens"]
