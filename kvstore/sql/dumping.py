"""The facts of a store (documents, edges, aliases and others that users state) as statements of the language.

In: one state of a store. Out: a script that, run on a new store with the same settings, states the same facts
(:mod:`kvstore.changes.facts`), and the facts that no statement can express.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..changes import facts
from ..registry.fact import BoundStatement
from ..structures.state import State
from .literals import format_literal


def dump_statements(state: State) -> Iterator[str]:
    """Yield the statements that recreate the content of a store, and a comment (``--``) with its embedder first.

    Facts that no statement can express are omitted; :func:`iter_dump_comments` lists them.
    """
    yield f"-- embedder {state.settings.embedder}"
    yield "BEGIN;"
    for fact_kind in facts.list_fact_kinds():
        yield from (f"{_format_statement(statement)};" for statement in fact_kind.iter_dump_statements(state))
    yield "COMMIT;"


def iter_dump_comments(state: State) -> Iterator[str]:
    """Yield comments, with their values inserted, on the facts that :func:`dump_statements` omits.

    A comment is a sentence on one fact, or on all such facts of a kind.
    """
    for fact_kind in facts.list_fact_kinds():
        yield from map(_format_statement, fact_kind.iter_dump_comments(state))


def _format_statement(statement: BoundStatement) -> str:
    """Return the text of a statement, or of a comment, with its values as literals in place of each ``?``."""
    text, values = statement
    beginning, *pieces = text.split("?")
    return beginning + "".join(format_literal(value) + piece for value, piece in zip(values, pieces, strict=True))
