"""Questions that were written for the training, about invented everyday documents. A *section* has *snippets*:
sentences, list items and table rows. A *window* is a snippet after the title and heading (the *labels*), sometimes with
a neighbor. A *near miss* is a question that it only seems to answer.

In: a file of ``tools/everyday_questions`` with a section per line: its title, heading and snippets; its ``answered``
questions, each with the ordinals of the snippets that answer it and the words of the first of them that answer; its
``near_misses``, each with the ordinal of the snippet that most seems to answer. Out: the examples of a section, whose
windows have the form that kvstore reads.

Questions were removed until their words, and the share of them in the snippet, hardly predict a near miss: the area
under the ROC curve of a classifier of words is 0.54. In a check of 589 questions, a second annotator answered all
answered questions, and 2 of 303 near misses; 8 near misses were debatable. In ``prose.jsonl``, the annotator answered
all of 156 answered questions and 1 of 144 near misses; 4 were debatable.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rows import DrawnExamples, Example, Span, find_content_words, vary_form

#: The numbers of answered questions and of near misses of a section in a batch, and of other windows for each of them.
_NUM_ANSWERED, _NUM_NEAR_MISSES, _NUM_OTHERS, _NUM_OTHERS_OF_NEAR_MISS = 2, 2, 2, 1
#: The share of questions whose windows have the title, and the heading; of windows with the snippet before, and after.
_TITLE_SHARE, _HEADING_SHARE, _BEFORE_SHARE, _AFTER_SHARE = 0.75, 0.85, 0.15, 0.05
#: The share of other windows that resemble the question most; the rest are any of the section.
_SIMILAR_SHARE = 0.7


class AnsweredQuestion(NamedTuple):
    """A question, the ordinals of the snippets that answer it, and the words of the first of them that answer."""

    text: str
    snippets: list[int]
    answer: str


class NearMiss(NamedTuple):
    """A question that the section does not answer, and the ordinal of the snippet that most seems to answer it."""

    text: str
    snippet: int


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of an invented document with its questions."""

    title: str
    heading: str
    snippets: list[str]
    answered: list[AnsweredQuestion]
    near_misses: list[NearMiss]


def load_sections(path: Path) -> list[Section]:
    """Return the sections of a file."""
    return [
        Section(
            record["title"],
            record["heading"],
            record["snippets"],
            [AnsweredQuestion(*question) for question in record["answered"]],
            [NearMiss(*question) for question in record["near_misses"]],
        )
        for record in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    ]


def prepend_labels(labels: Iterable[str], text: str) -> str:
    """Return a text after its title and headings, as kvstore reads it."""
    sentences = (f"{label.rstrip('.')}{'' if label.endswith(('?', '!', ':')) else '.'} " for label in labels if label)
    return "".join(sentences) + text


def draw_examples(section: Section, rng: random.Random) -> DrawnExamples:
    """Return examples of random questions of a section, with the pairs to distinguish and the groups to choose from.

    All windows of a question have the same labels, and the form of all its examples is varied in the same way.
    """
    drawn = DrawnExamples([], [], [])
    for question in rng.sample(section.answered, min(_NUM_ANSWERED, len(section.answered))):
        _add_answered_question(drawn, section, question, rng)
    for near_miss in rng.sample(section.near_misses, min(_NUM_NEAR_MISSES, len(section.near_misses))):
        _add_near_miss(drawn, section, near_miss, rng)
    return drawn


def _add_answered_question(
    drawn: DrawnExamples, section: Section, question: AnsweredQuestion, rng: random.Random
) -> None:
    """Add a group: a window that answers the question, and others of the section that do not."""
    labels = _draw_labels(section, rng)
    others = _draw_others(section, question.text, question.snippets, _NUM_OTHERS, rng)
    examples = [_build_answered_example(section, question, rng.choice(question.snippets), labels, rng)]
    examples += [
        _build_unanswered_example(section, question.text, other, question.snippets, labels, rng) for other in others
    ]
    start = len(drawn.examples)
    drawn.groups.append(list(range(start, start + len(examples))))
    drawn.examples.extend(vary_form(examples, "", rng))


def _add_near_miss(drawn: DrawnExamples, section: Section, near_miss: NearMiss, rng: random.Random) -> None:
    """Add a pair: a near miss, and an answered question of the section, which has the same snippet if possible.

    Windows around other snippets are added between them.
    """
    labels = _draw_labels(section, rng)
    others = _draw_others(section, near_miss.text, [near_miss.snippet], _NUM_OTHERS_OF_NEAR_MISS, rng)
    examples = [
        _build_unanswered_example(section, near_miss.text, ordinal, [], labels, rng)
        for ordinal in (near_miss.snippet, *others)
    ]
    partners = [question for question in section.answered if near_miss.snippet in question.snippets]
    partner = rng.choice(partners or section.answered)
    start = len(drawn.examples)
    drawn.pairs.append((start + len(examples), start))
    ordinal = near_miss.snippet if partners else rng.choice(partner.snippets)
    examples.append(_build_answered_example(section, partner, ordinal, labels, rng))
    drawn.examples.extend(vary_form(examples, "", rng))


def _draw_labels(section: Section, rng: random.Random) -> list[str]:
    """Return the title and the heading of a section, each with the probability of its share."""
    labels_with_shares = ((section.title, _TITLE_SHARE), (section.heading, _HEADING_SHARE))
    return [label for label, share in labels_with_shares if rng.random() < share]


def _draw_others(section: Section, question: str, excluded: list[int], count: int, rng: random.Random) -> list[int]:
    """Return the ordinals of ``count`` snippets without the ``excluded`` ones, or of all if there are fewer.

    Most of them are the snippets that share the most words with the question.
    """
    ordinals = [ordinal for ordinal in range(len(section.snippets)) if ordinal not in excluded]
    rng.shuffle(ordinals)
    words = find_content_words(question)
    by_similarity = sorted(ordinals, key=lambda index: -len(words & find_content_words(section.snippets[index])))
    drawn: list[int] = []
    while len(drawn) < min(count, len(ordinals)):
        candidates = by_similarity if rng.random() < _SIMILAR_SHARE else ordinals
        drawn.append(next(ordinal for ordinal in candidates if ordinal not in drawn))
    return drawn


def _build_answered_example(
    section: Section, question: AnsweredQuestion, ordinal: int, labels: list[str], rng: random.Random
) -> Example:
    """Return the example of a question with a window around a snippet that answers it."""
    window, offset = _build_window(section, ordinal, [], labels, rng)
    spans: list[Span] = []
    start = section.snippets[ordinal].find(question.answer)
    if start >= 0:
        spans.append((offset + start, offset + start + len(question.answer)))
    return Example(question.text, window, answered=True, spans=spans)


def _build_unanswered_example(
    section: Section, question: str, ordinal: int, blocked: list[int], labels: list[str], rng: random.Random
) -> Example:
    """Return the example of a question with a window around the snippet ``ordinal``, which does not answer it.

    The window does not have the snippets with the ordinals ``blocked``, which answer it.
    """
    window, _ = _build_window(section, ordinal, blocked, labels, rng)
    return Example(question, window, answered=False, spans=[])


def _build_window(
    section: Section, ordinal: int, blocked: list[int], labels: list[str], rng: random.Random
) -> tuple[str, int]:
    """Return a window: the labels, the snippet, and sometimes its neighbors that are not ``blocked``.

    Also return the character offset of the snippet in the window.
    """
    before = prepend_labels(labels, "")
    if ordinal and ordinal - 1 not in blocked and rng.random() < _BEFORE_SHARE:
        before += f"{section.snippets[ordinal - 1]} "
    after = ""
    if ordinal + 1 < len(section.snippets) and ordinal + 1 not in blocked and rng.random() < _AFTER_SHARE:
        after = f" {section.snippets[ordinal + 1]}"
    return before + section.snippets[ordinal] + after, len(before)
