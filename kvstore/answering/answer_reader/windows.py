"""The windows that the answer reader reads: one snippet each, after its title and heading.

A snippet that refers to the sentence before it is read with that.

In: passages, and the question's terms with their rarity. Out: the likeliest windows, at most :data:`MAX_WINDOWS`,
chosen by the terms that they share with the question, by the rank of their hits, and by what the question asks for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from ...text.words import find_reference_numbers, list_terms
from ..extractive import SnippetScorer, list_candidates, render_snippet
from ..passages import Passage
from ..question_kinds import QuestionKind
from ..runs import SnippetPosition, find_required_span
from ..snippets import Snippet

MAX_WINDOWS = 16
#: The weights of a term in the title or headings of a snippet, of 1 / (1 + half the rank of its hit), and of a snippet
#: without what the question asks for. A term in the snippet itself has weight 1.
_TITLE_WEIGHT, _RANK_WEIGHT, _MISSING_WEIGHT = 0.5, 0.5, -0.5


class Window(NamedTuple):
    """A snippet as the reader reads it: ``text``, in which the snippet begins at character ``offset``.

    ``is_kind_missing`` is True if the snippet lacks what the question asks for, such as an amount of money.
    """

    position: SnippetPosition
    text: str
    offset: int
    is_kind_missing: bool


def select_windows(kind: QuestionKind, passages: Sequence[Passage], scorer: SnippetScorer) -> list[Window]:
    """Return the windows to read, at most ``MAX_WINDOWS`` with different texts, likeliest first.

    ``kind`` is the kind of thing that the question asks for.
    """
    rarities, stem = scorer.rarities, scorer.stem
    total = math.fsum(rarities.values()) or 1.0

    def list_question_terms(text: str) -> set[str]:
        """Return the distinct terms of a text that the question has too."""
        return set(list_terms(text, stem)) & rarities.keys()

    def compute_rarity_fraction(terms: set[str]) -> float:
        """Return the fraction of the question's total rarity that the terms have."""
        return math.fsum(rarities[term] for term in terms) / total

    title_terms = [
        list_question_terms(f"{passage.title or passage.document} {passage.heading}") for passage in passages
    ]

    def estimate_score(position: SnippetPosition, is_kind_missing: bool) -> float:
        """Return the score of a snippet from its terms, its rank and the kind of thing that the question asks for."""
        snippet = passages[position[0]].snippets[position[1]]
        assert snippet.hit is not None
        own_terms = list_question_terms(render_snippet(snippet))
        above_terms = list_question_terms(snippet.heading)
        if snippet.heading.endswith("?"):  # the question that the snippet answers
            own_terms |= above_terms
        above_terms |= title_terms[position[0]]
        return (
            compute_rarity_fraction(own_terms)
            + _TITLE_WEIGHT * compute_rarity_fraction(above_terms - own_terms)
            + _RANK_WEIGHT / (1 + snippet.hit.rank / 2)
            + _MISSING_WEIGHT * is_kind_missing
        )

    numbers = frozenset(find_reference_numbers(scorer.question))
    # Each candidate, with True if it lacks what the question asks for, even with the block that it introduces.
    candidates = {
        (passage_index, index): kind.is_missing_in(_render_with_block(passages[passage_index].snippets, index))
        for passage_index, index in list_candidates(passages)
        if not passages[passage_index].snippets[index].is_question
    }
    scores = {position: estimate_score(position, is_missing) for position, is_missing in candidates.items()}
    windows: dict[str, Window] = {}  # by text, because documents can repeat each other
    for position in sorted(candidates, key=lambda position: (-scores[position], position)):
        text, offset = _build_text(passages[position[0]], position[1], numbers)
        windows.setdefault(text, Window(position, text, offset, candidates[position]))
        if len(windows) == MAX_WINDOWS:
            break
    return list(windows.values())


def _build_text(passage: Passage, index: int, numbers: Collection[str]) -> tuple[str, int]:
    """Return the text of the window of a snippet, and the character offset at which the snippet begins in it.

    The title, the headings and a sentence that the snippet refers to precede it. The name of the document is first if
    it has one of the reference ``numbers`` of the question.
    """
    snippets = passage.snippets
    snippet = snippets[index]
    name = PurePosixPath(passage.document).stem
    document_name = "" if set(numbers).isdisjoint(find_reference_numbers(name)) else name
    labels = [document_name, *passage.list_labels(index)]
    before = "".join(
        f"{label.rstrip('.')}{'' if label.endswith(('?', '!', ':')) else '.'} "
        for label in dict.fromkeys(filter(None, labels))
    )
    if (snippet.needs_previous or snippet.needs_subject) and _has_previous(snippets, index):
        before += f"{render_snippet(snippets[index - 1])} "
    return before + _render_with_block(snippets, index), len(before)


def build_context_text(window: Window, passages: Sequence[Passage]) -> str | None:
    """Return the text of a window with the sentence before its snippet inserted, if both are prose of one section.

    Returns None otherwise, and if the window has that sentence already.
    """
    passage_index, index = window.position
    snippets = passages[passage_index].snippets
    snippet = snippets[index]
    if snippet.needs_previous or snippet.needs_subject or not _has_previous(snippets, index):
        return None
    if not snippet.kind == snippets[index - 1].kind == "prose":
        return None
    return f"{window.text[: window.offset]}{render_snippet(snippets[index - 1])} {window.text[window.offset :]}"


def _has_previous(snippets: Sequence[Snippet], index: int) -> bool:
    """True if a snippet precedes the one at ``index`` in the same section."""
    return index > 0 and snippets[index - 1].section == snippets[index].section


def _render_with_block(snippets: Sequence[Snippet], index: int) -> str:
    """Return the text of a snippet, with the items or rows that it introduces."""
    text = render_snippet(snippets[index])
    if not snippets[index].is_lead_in:
        return text
    _, last = find_required_span(snippets, index)
    block = [render_snippet(snippet) for snippet in snippets[index + 1 : last + 1] if snippet.kind != "code"]
    return " ".join([text, "; ".join(block)]).strip()
