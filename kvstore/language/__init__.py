"""The query language, for programs that edit, display or complete statements, such as the shell.

In: text, including incomplete text. Out: its tokens, whether it is complete, the terminals that may follow it, and
values formatted as literals. To run statements use :meth:`kvstore.Store.execute`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..sql.tokens import Token, is_complete, iter_tokens
from .questions import find_plain_question, find_unquoted_question

if TYPE_CHECKING:
    from ..arguments import format_count
    from ..database.handle import delete_unused_store
    from ..ingest import list_formats
    from ..ingest.engines import check_engine
    from ..ingest.ingest_interface import list_ingest_patterns
    from ..ingest.ingest_log import read_ingests
    from ..ingest.sources import check_source
    from ..readers import ReadOptions
    from ..registry import get_strategy
    from ..sql.condition import check_condition
    from ..sql.diagnosis import locate_in_condition
    from ..sql.literals import format_identifier, format_literal
    from .cursor import Cursor
    from .description_handlers import list_described_kinds, list_strategy_names
    from .document_handlers import list_ingest_options
    from .extraction_handlers import list_extraction_kinds
    from .grammar_parsing import get_keywords, list_expected_terminals
    from .index_handlers import list_index_kinds, list_outlined_kinds
    from .parser import can_fill_store

__all__ = [
    "Cursor",
    "ReadOptions",
    "Token",
    "can_fill_store",
    "check_condition",
    "check_engine",
    "check_source",
    "delete_unused_store",
    "find_plain_question",
    "find_unquoted_question",
    "format_count",
    "format_identifier",
    "format_literal",
    "get_keywords",
    "get_strategy",
    "is_complete",
    "iter_tokens",
    "list_described_kinds",
    "list_expected_terminals",
    "list_extraction_kinds",
    "list_formats",
    "list_index_kinds",
    "list_ingest_options",
    "list_ingest_patterns",
    "list_outlined_kinds",
    "list_strategy_names",
    "locate_in_condition",
    "read_ingests",
]

#: The module and the attribute of each remaining name. They load on first use, so that a prompt need not wait for
#: the parser.
_LAZY_ATTRIBUTES = {
    "Cursor": ".cursor:Cursor",
    "ReadOptions": "..readers:ReadOptions",
    "can_fill_store": ".parser:can_fill_store",
    "check_condition": "..sql.condition:check_condition",
    "check_engine": "..ingest.engines:check_engine",
    "check_source": "..ingest.sources:check_source",
    "delete_unused_store": "..database.handle:delete_unused_store",
    "format_count": "..arguments:format_count",
    "format_identifier": "..sql.literals:format_identifier",
    "format_literal": "..sql.literals:format_literal",
    "list_formats": "..ingest:list_formats",
    "get_keywords": ".grammar_parsing:get_keywords",
    "get_strategy": "..registry:get_strategy",
    "list_described_kinds": ".description_handlers:list_described_kinds",
    "list_expected_terminals": ".grammar_parsing:list_expected_terminals",
    "list_extraction_kinds": ".extraction_handlers:list_extraction_kinds",
    "list_index_kinds": ".index_handlers:list_index_kinds",
    "list_ingest_options": ".document_handlers:list_ingest_options",
    "list_ingest_patterns": "..ingest.ingest_interface:list_ingest_patterns",
    "list_outlined_kinds": ".index_handlers:list_outlined_kinds",
    "list_strategy_names": ".description_handlers:list_strategy_names",
    "locate_in_condition": "..sql.diagnosis:locate_in_condition",
    "read_ingests": "..ingest.ingest_log:read_ingests",
}
#: Deprecated names, and their successors.
_RENAMED = {
    "counted": "format_count",
    "described_kinds": "list_described_kinds",
    "expected": "list_expected_terminals",
    "extraction_kinds": "list_extraction_kinds",
    "index_kinds": "list_index_kinds",
    "keywords": "get_keywords",
    "literal": "format_literal",
    "name": "format_identifier",
    "outlined_kinds": "list_outlined_kinds",
    "plain_question": "find_plain_question",
    "strategy_names": "list_strategy_names",
    "tokens": "iter_tokens",
}


def __getattr__(name: str) -> Any:
    """Import an attribute at its first use; a deprecated name returns the attribute that replaces it.

    Raises AttributeError for an unknown name.
    """
    if name in _RENAMED:
        return globals().get(_RENAMED[name]) or __getattr__(_RENAMED[name])
    if name not in _LAZY_ATTRIBUTES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _LAZY_ATTRIBUTES[name].partition(":")
    return getattr(import_module(module, __package__), attribute)
