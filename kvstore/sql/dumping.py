"""What a store's content follows from, as statements of the language.

In: one state of a store. Out: a script that, run on a new store of the same settings, states the same facts
(:mod:`kvstore.changes.facts`); and what of them no statement can say.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..changes import facts
from ..structures.state import State
from ..systems.fact import Said
from .literals import literal


def statements(view: State) -> Iterator[str]:
    """The statements, one a line unless a text has more; those of comments begin with ``--``."""
    yield f"-- embedder {view.settings.embedder}"
    yield "BEGIN;"
    for fact in facts.all_facts():
        yield from (f"{_written(statement)};" for statement in fact.said(view))
    yield "COMMIT;"


def unsaid(view: State) -> Iterator[str]:
    """What the statements cannot say, one message each."""
    for fact in facts.all_facts():
        yield from map(_written, fact.unsaid(view))


def _written(said: Said) -> str:
    """A statement or sentence with its values in their places."""
    text, values = said
    first, *pieces = text.split("?")
    return first + "".join(literal(value) + piece for value, piece in zip(values, pieces, strict=True))
