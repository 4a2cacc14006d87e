"""The words of an answer that answer the question."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """The words that answer the question: ``text``, which is characters ``start`` to ``end`` of the answer's text."""

    text: str
    start: int
    end: int
