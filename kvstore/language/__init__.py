"""The query language, for programs that edit, display or complete statements, such as the shell.

In: text, including incomplete text. Out: its tokens, whether it is complete, the terminals that may follow it, and
values formatted as literals. To run statements use :meth:`kvstore.Store.execute`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..sql.tokens import Token, is_complete, tokens
from .questions import find_unquoted_question, plain_question

if TYPE_CHECKING:
    from ..ingest import formats
    from ..sql.literals import literal, name
    from .cursor import Cursor
    from .description_handlers import described_kinds, strategy_names
    from .document_handlers import counted
    from .extraction_handlers import extraction_kinds
    from .grammar_parsing import expected, keywords
    from .index_handlers import index_kinds, outlined_kinds
    from .parser import can_fill_store

__all__ = [
    "Cursor",
    "Token",
    "can_fill_store",
    "check_condition",
    "counted",
    "described_kinds",
    "expected",
    "extraction_kinds",
    "find_unquoted_question",
    "formats",
    "index_kinds",
    "is_complete",
    "keywords",
    "literal",
    "name",
    "outlined_kinds",
    "plain_question",
    "strategy_names",
    "tokens",
]

#: The modules of the remaining names. They load on first use, so that a prompt need not wait for the parser.
_HOMES = {
    "Cursor": ".cursor",
    "can_fill_store": ".parser",
    "check_condition": "..sql.condition",
    "counted": ".document_handlers",
    "described_kinds": ".description_handlers",
    "expected": ".grammar_parsing",
    "extraction_kinds": ".extraction_handlers",
    "formats": "..ingest",
    "index_kinds": ".index_handlers",
    "keywords": ".grammar_parsing",
    "literal": "..sql.literals",
    "name": "..sql.literals",
    "outlined_kinds": ".index_handlers",
    "strategy_names": ".description_handlers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __package__), name)
