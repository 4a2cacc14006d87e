"""The sentence that states an edge of the forest.

In: edges, as (child node, parent node). Out: the assertion shown for each edge, and its text: the sentence itself if
prose states the edge, otherwise a sentence by template.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..structures.forest.edge_filter import Edge
from ..structures.forest.forest import DATA_KINDS, USER, Assertion
from ..structures.state import State
from ..text.blocks import to_plain_text


def select_best_assertions(state: State, edges: Iterable[Edge]) -> dict[Edge, Assertion]:
    """Return the most confident assertion of each edge, which must exist; ties go by document key and offset."""
    return {edge: _select_surest(state, assertions) for edge, assertions in state.forest.get_assertions(edges).items()}


def _select_surest(state: State, assertions: Sequence[Assertion]) -> Assertion:
    max_confidence = max(assertion.confidence for assertion in assertions)
    surest = [assertion for assertion in assertions if assertion.confidence == max_confidence]
    if len(surest) == 1:  # no document key needs to be read
        return surest[0]
    keys = state.documents.get_keys(one.document for one in surest if one.document != USER)
    return min(surest, key=lambda one: ("" if one.document == USER else keys[one.document], one.start))


def format_evidence_sentence(state: State, assertion: Assertion, names: tuple[str, str]) -> str:
    """Return the sentence that asserts an edge, or ``child is under parent`` if data or the user states it.

    ``names`` are the names of child and parent.
    """
    if assertion.kind in DATA_KINDS:
        return f"{names[0]} is under {names[1]}"
    return to_plain_text(state.documents.text_slice(assertion.document, assertion.start, assertion.end))
