"""Measure a store on the user's questions, or on questions made by rule from its documents.

In: an open store. Out: an :class:`EvaluationReport` of strategies and settings, as a table, JSON or an HTML page.
``kvstore evaluate`` is the command.
"""

from __future__ import annotations

from .asked_questions import AskedQuestion, ask_questions
from .comparison import EvaluationReport, evaluate_store
from .question_files import Question, contains_words, read_questions, write_questions
from .question_making import make_questions

__all__ = [
    "AskedQuestion",
    "EvaluationReport",
    "Question",
    "ask_questions",
    "contains_words",
    "evaluate_store",
    "make_questions",
    "read_questions",
    "write_questions",
]
