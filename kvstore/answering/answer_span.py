"""The words of an answer that answer the question, and the parts of an answer to several questions in one."""

from __future__ import annotations

from typing import Literal

from ..process.frozen_dataclass import frozen_dataclass

#: The answer to a question that yes or no answers.
Verdict = Literal["yes", "no"]


@frozen_dataclass
class AnswerSpan:
    """The words that answer the question: ``text``, which is characters ``start`` to ``end`` of the answer's text."""

    text: str
    start: int
    end: int


@frozen_dataclass
class AnswerPart:
    """The answer to one part of a question that asks for several facts.

    ``question`` is the part as written. ``citation`` is the number of the citation of its sentence; None if no sentence
    answers it. ``span`` are the words that answer. ``verdict`` is the answer to a yes-no question if the sentence
    settles it.
    """

    question: str
    citation: int | None
    span: AnswerSpan | None
    verdict: Verdict | None
