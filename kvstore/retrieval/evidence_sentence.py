"""The sentence that asserts an edge of the entity forest. An *edge* is a child node and its parent. An *assertion*
records that a document, data or the user states an edge, and where.

In: edges, as (child node, parent node). Out: the assertion shown for each edge, and its text: the sentence itself if
prose asserts the edge, otherwise a sentence from a template.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..structures.forest.edge_filter import Edge
from ..structures.forest.forest import DATA_KINDS, USER, Assertion
from ..structures.state import State
from ..text.blocks import to_plain_text, unwrap_links


def select_best_assertions(state: State, edges: Iterable[Edge]) -> dict[Edge, Assertion]:
    """Return the assertion with the highest confidence of each edge (child, parent); unknown edges are omitted.

    Ties are broken by document key and offset.
    """
    assertions_by_edge = state.forest.get_assertions(edges)
    return {edge: _select_most_confident(state, assertions) for edge, assertions in assertions_by_edge.items()}


def _select_most_confident(state: State, assertions: Sequence[Assertion]) -> Assertion:
    """Return the assertion with the highest confidence; ties are broken by document key and offset."""
    max_confidence = max(assertion.confidence for assertion in assertions)
    candidates = [assertion for assertion in assertions if assertion.confidence == max_confidence]
    if len(candidates) == 1:  # no document key needs to be read
        return candidates[0]
    keys = state.documents.get_keys(assertion.document for assertion in candidates if assertion.document != USER)

    def build_sort_key(assertion: Assertion) -> tuple[str, int]:
        """Return the document key, empty for an assertion of the user, and the offset."""
        return "" if assertion.document == USER else keys[assertion.document], assertion.start

    return min(candidates, key=build_sort_key)


def format_evidence_sentence(state: State, assertion: Assertion, names: tuple[str, str]) -> str:
    """Return the sentence of prose that asserts an edge, or ``child is under parent`` if data or the user asserts it.

    ``names`` are the names of child and parent.
    """
    if assertion.kind in DATA_KINDS:
        child, parent = names
        return f"{child} is under {parent}"
    sentence = state.documents.read_text_slice(assertion.document, assertion.start, assertion.end)
    return to_plain_text(unwrap_links(sentence))
