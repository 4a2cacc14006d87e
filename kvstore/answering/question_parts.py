"""The parts of a question that asks for several facts: "Who approves it, and by when?".

In: a question. Out: its parts, each with the question to ask for it. A part that refers to the rest of the question is
asked with the words of the first part.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..text.patterns import compile_lazily
from ..text.words import list_content_words

_ASKING_WORDS = "who|whom|whose|what|which|when|where|why|how"
_PREPOSITIONS = "after|at|before|by|for|from|in|of|on|since|to|under|until|up to|with|within"
_START = rf"(?:(?:{_PREPOSITIONS})\s+)?(?:{_ASKING_WORDS})\b(?!\s+to\b)"
_START_PATTERN = compile_lazily(_START, re.IGNORECASE)
_BOUNDARY_PATTERN = compile_lazily(rf"\s*[,;]?\s+and\s+(?={_START})", re.IGNORECASE)
#: Words by which a part refers to another.
_REFERENCE_PATTERN = compile_lazily(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|that|those|ones?|there)\b", re.IGNORECASE
)
#: The minimum number of content words of a part that is asked alone.
_MIN_CONTENT_WORDS = 2


class QuestionPart(NamedTuple):
    """A part of a question: its ``text``, and the ``question`` that is asked for it."""

    text: str
    question: str


def split_question(question: str) -> list[QuestionPart]:
    """Return the parts of a question, in order; the whole question if it asks for one fact.

    >>> [part.text for part in split_question("Who approves the leave, and by when?")]
    ['Who approves the leave?', 'by when?']
    >>> [part.question for part in split_question("What is the fee and who collects the money?")]
    ['What is the fee?', 'who collects the money?']
    >>> len(split_question("Who explains what to do and how to do it?"))
    1
    """
    texts = [text.strip(" ?") for text in _BOUNDARY_PATTERN.split(question)]
    if len(texts) < 2 or not _START_PATTERN.match(texts[0]):
        return [QuestionPart(question, question)]
    return [QuestionPart(f"{text}?", _build_part_question(texts, index)) for index, text in enumerate(texts)]


def _build_part_question(texts: list[str], index: int) -> str:
    """Return the question for part ``index``.

    The words of the first part are appended if the part refers to another one or is short.
    """
    text = texts[index]
    is_complete = index == 0 or (
        not _REFERENCE_PATTERN.search(text) and len(list_content_words(text)) >= _MIN_CONTENT_WORDS
    )
    return f"{text}?" if is_complete else f"{text}? {_START_PATTERN.sub('', texts[0], count=1).strip()}"
