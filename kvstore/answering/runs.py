"""Runs: the snippets of an answer, each with what it needs to be understood.

In: passages and a score for each snippet that can be chosen. Out: a few runs of adjacent snippets, about as many words
as people read of an answer. The best snippet comes first. Another one is added if it is nearly as good, with a lower
bar next to an existing run. Each brings the sentence before it if it begins with a connective, and the block that it
introduces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .passages import Passage
from .snippets import Snippet

#: Words that an answer has at most, unless its best snippet alone has more; most have no more than 90.
MAX_WORDS = 118
#: Runs of an answer, at most.
MAX_RUNS = 3
#: How much less than the best a snippet may score, and what standing beside a run adds to its score.
_MAX_SCORE_GAP = 2.4
#: Words up to which an answer is so short that a snippet may score less than the best by twice as much.
_SHORT_ANSWER_WORDS = 30
_ADJACENCY_BONUS = 1.5
#: Sentences before a snippet that it can bring, and of the definition that it belongs to.
_MAX_SENTENCES_BEFORE, _MAX_DEFINITION_SENTENCES = 2, 4
#: Words of a block that an announcing sentence brings, or of a definition that its first sentence does, and of a
#: sentence that does nothing but announce one.
_MAX_ANNOUNCED_WORDS, _MAX_LEAD_IN_WORDS = 60, 4

#: Number of a passage, and of a snippet in it.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Run:
    """Snippets ``first`` to ``last`` of passage number ``passage``, and the score of the best of them."""

    passage: int
    first: int
    last: int
    score: float


def select_runs(passages: Sequence[Passage], scores: Mapping[Place, float], words: int = MAX_WORDS) -> list[Run]:
    """The runs that make the answer, best first."""
    if not scores:
        return []
    best = max(scores.values())
    selected: dict[Place, float] = {}
    used_texts: set[str] = set()  # the same page may be there twice
    num_words = 0
    candidates = dict(scores)
    while candidates:
        place = max(candidates, key=lambda at: (_adjust_score(passages, at, candidates[at], selected), -at[0], -at[1]))
        score = _adjust_score(passages, place, candidates.pop(place), selected)
        if score < best - (_MAX_SCORE_GAP if num_words >= _SHORT_ANSWER_WORDS else 2 * _MAX_SCORE_GAP):
            break
        if passages[place[0]].snippets[place[1]].text in used_texts:
            continue
        required = _list_required(passages[place[0]], place)
        if not selected:
            required += _list_definition_rest(passages[place[0]], place, required)
        added = [at for at in required if at not in selected]
        size = sum(passages[at[0]].snippets[at[1]].words for at in added)
        if selected and (num_words + size > words or len(_merge_places(passages, [*selected, *added])) > MAX_RUNS):
            continue
        for at in added:
            selected[at] = max(selected.get(at, score), score if at == place else scores.get(at, score))
            candidates.pop(at, None)
            used_texts.add(passages[at[0]].snippets[at[1]].text)
        num_words += size
    runs = [
        Run(passage, first, last, max(selected[passage, at] for at in range(first, last + 1)))
        for passage, first, last in _merge_places(passages, list(selected))
    ]
    return sorted(runs, key=lambda run: (-run.score, run.passage, run.first))


def _adjust_score(passages: Sequence[Passage], place: Place, score: float, selected: Mapping[Place, float]) -> float:
    """A snippet's score, with what it gains beside a run; the next definition of a list is another matter."""
    number, at = place
    snippets = passages[number].snippets
    for adjacent in (at - 1, at + 1):
        if (number, adjacent) in selected and _belong_together(snippets[at], snippets[adjacent]):
            return score + _ADJACENCY_BONUS
    return score


def _belong_together(one: Snippet, other: Snippet) -> bool:
    return one.section == other.section and one.term == other.term


def _list_required(passage: Passage, place: Place) -> list[Place]:
    """A snippet with those that it brings."""
    number, at = place
    snippets = passage.snippets
    first = at
    while first > 0 and snippets[first - 1].section == snippets[at].section:
        # The first sentence of a definition names the subject of the others.
        defines = bool(snippets[first].label) and snippets[first - 1].term == snippets[at].term
        if at - first >= (_MAX_DEFINITION_SENTENCES if defines else _MAX_SENTENCES_BEFORE) or not (
            defines or snippets[first].needs_previous
        ):
            break
        first -= 1
    last = at
    if _is_bare_lead_in(snippets, at + 1) and not snippets[at].is_lead_in:
        last = at + 1
    if snippets[at].is_question and at + 1 < len(snippets) and snippets[at + 1].section == snippets[at].section:
        last = max(last, at + 1)
    if snippets[last].is_lead_in:
        room = _MAX_ANNOUNCED_WORDS
        while last + 1 < len(snippets) and snippets[last + 1].kind in ("code", "item", "table"):
            if snippets[last + 1].section != snippets[at].section:
                break
            opened = not snippets[last].is_lead_in
            if snippets[last + 1].kind == "code" and opened and snippets[last].kind != "code":
                break
            room -= snippets[last + 1].words
            if room < 0 and opened:
                break
            last += 1
            if snippets[last].kind == "code":
                break
    return [(number, index) for index in range(first, last + 1)]


def _list_definition_rest(passage: Passage, place: Place, needed: Sequence[Place]) -> list[Place]:
    """Return the rest of a definition that the best snippet opens, as far as there is room."""
    number, at = place
    snippets = passage.snippets
    first_snippet = snippets[at]
    if not first_snippet.label or (at and _belong_together(first_snippet, snippets[at - 1])):
        return []
    places, room = [], _MAX_ANNOUNCED_WORDS - sum(snippets[index].words for _, index in needed)
    for index in range(needed[-1][1] + 1, len(snippets)):
        room -= snippets[index].words
        if room < 0 or not _belong_together(first_snippet, snippets[index]):
            break
        places.append((number, index))
    return places


def _is_bare_lead_in(snippets: Sequence[Snippet], at: int) -> bool:
    """True if a snippet of a few words ("For example:") only introduces what follows its paragraph."""
    if at >= len(snippets) or snippets[at].words > _MAX_LEAD_IN_WORDS:
        return False
    return snippets[at].is_lead_in and snippets[at].block == snippets[at - 1].block


def _merge_places(passages: Sequence[Passage], places: Sequence[Place]) -> list[tuple[int, int, int]]:
    """Return runs of adjacent snippets: passage, first and last of each."""
    spans: list[tuple[int, int, int]] = []
    for passage, number in sorted(places):
        is_adjacent = bool(spans) and spans[-1][0] == passage and spans[-1][2] == number - 1
        snippets = passages[passage].snippets
        if is_adjacent and snippets[number].section == snippets[number - 1].section:
            spans[-1] = (passage, spans[-1][1], number)
        else:
            spans.append((passage, number, number))
    return spans
