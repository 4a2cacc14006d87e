"""Where an edge of the forest is stated, and what it says there.

In: two nodes of a tree, child and parent. Out: the statement to show, and its text: the sentence itself where prose
states the edge, else a sentence by template.
"""

from __future__ import annotations

from ..structures.forest.forest import DATA_KINDS, USER, Statement
from ..structures.state import State
from ..text.blocks import plain


def best_statement(view: State, child: int, parent: int) -> Statement:
    """The surest statement of an edge that must exist; the first in order of document key and place among equals."""
    statements = list(view.forest.statements(child, parent))
    most = max(statement.confidence for statement in statements)
    surest = [statement for statement in statements if statement.confidence == most]
    if len(surest) == 1:  # then no document's key is read
        return surest[0]

    def order(statement: Statement) -> tuple[str, int]:
        key = "" if statement.document == USER else view.documents.key_of(statement.document)
        return key, statement.start

    return min(surest, key=order)


def stating_text(view: State, child: int, parent: int, names: tuple[str, str]) -> str:
    """The sentence that states an edge, or ``child is under parent`` where data or the user state it."""
    statement = best_statement(view, child, parent)
    if statement.kind in DATA_KINDS:
        return f"{names[0]} is under {names[1]}"
    return plain(view.documents.text_slice(statement.document, statement.start, statement.end))
