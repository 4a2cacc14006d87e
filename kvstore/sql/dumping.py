"""What a store's content follows from, as statements of the language.

In: one state of a store. Out: a script that, run on a new store of the same settings, states the same facts
(:mod:`kvstore.changes.facts`); and what of them no statement can say.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..changes import facts
from ..structures.state import State
from ..systems.fact import BoundStatement
from .literals import literal


def dump_statements(state: State) -> Iterator[str]:
    """The statements, one a line unless a text has more; those of comments begin with ``--``."""
    yield f"-- embedder {state.settings.embedder}"
    yield "BEGIN;"
    for fact in facts.list_fact_kinds():
        yield from (f"{_format_statement(statement)};" for statement in fact.to_statements(state))
    yield "COMMIT;"


def find_inexpressible(state: State) -> Iterator[str]:
    """What the statements cannot say, one message each."""
    for fact in facts.list_fact_kinds():
        yield from map(_format_statement, fact.find_inexpressible(state))


def _format_statement(statement: BoundStatement) -> str:
    """A statement or sentence with its values in their places."""
    text, values = statement
    first, *pieces = text.split("?")
    return first + "".join(literal(value) + piece for value, piece in zip(values, pieces, strict=True))
