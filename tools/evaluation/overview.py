"""Measures for overview questions: how much of a reference answer a retrieved text contains. The *scope* of a question
is its document or the whole store; a *system* is a strategy, or "beginning": the first words of the documents.

In: a folder of whole documents, questions that ask for an overview of one (:func:`kvstore.retrieval.overview`), and
one or more reference answers for each. Out: for each system the shares of the reference words, and of their pairs of
adjacent words, that the first words of its result contain. Only words of four or more letters count, each once. Because
function words mean little, the share without them is also reported (``content``). A collection of words can score well
in words but not in pairs, so both are needed. ``beginning`` is the baseline without retrieval; for the whole store, it
has equal parts from the beginnings of all documents.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

import kvstore
from kvstore.registry import INDEXES
from kvstore.retrieval.overview import is_overview_question
from kvstore.text.words import FUNCTION_WORDS, count_text_tokens

from .question_sets import read_json_lines

#: The numbers of words at the beginning of a result that are measured.
WORD_LIMITS = (400, 1500)
#: Kinds of index that strategies for an overview may read.
_INDEX_KINDS = ("topics", "communities")
#: The maximum number of hits, large enough that the limit of length takes effect first.
_MAX_HITS = 200
#: The maximum number of requests for one result. The limit of a request counts tokens, whose number per word varies.
_MAX_TRIES = 4
_LENGTH_MARGIN = 1.1
_WORD = re.compile(r"\w+")
_MIN_LETTERS = 4


@dataclass(frozen=True)
class OverviewQuestion:
    """A question, the key of its document, and the reference answers."""

    text: str
    document: str
    answers: Sequence[str]


def load_overview_questions(folder: Path) -> list[OverviewQuestion]:
    """Return the questions of a folder that ask for an overview of one document."""
    questions = [
        OverviewQuestion(row["question"], row["gold"][0], row.get("answers") or [row["answer"]])
        for row in read_json_lines(folder / "questions.jsonl")
        if len(row["gold"]) == 1 and (row.get("answers") or row.get("answer")) and is_overview_question(row["question"])
    ]
    if not questions:
        raise click.UsageError(f"{folder}: no question asks for an overview and has a written answer")
    return questions


def build_overview_rows(
    store: kvstore.Store, folder: Path, strategies: Sequence[str], log: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return a row of figures for each scope (the question's document or the whole store) and system.

    The store must contain the documents of the folder; missing indexes for overviews are created. ``read_*w`` is the
    mean number of words of the results.
    """
    questions = load_overview_questions(folder)
    existing_kinds = {status.kind for status in store.indexes()}
    for kind in _INDEX_KINDS:
        if kind in INDEXES and kind not in existing_kinds:
            store.execute(f"CREATE INDEX {kind}")
    rows = []
    for scope in ("document", "store"):
        for system in [*strategies, "beginning"]:
            figures: dict[str, list[float]] = {}
            for num_asked, question in enumerate(questions, 1):
                for name, value in _measure_question(store, system, question, scope == "document").items():
                    figures.setdefault(name, []).append(value)
                log(f"{folder.name}, {system}: {num_asked} of {len(questions)} questions")
            means = {name: round(statistics.mean(values), 4) for name, values in figures.items()}
            rows.append(
                {"dataset": folder.name, "scope": scope, "strategy": system, "questions": len(questions), **means}
            )
    return rows


def _measure_question(
    store: kvstore.Store, system: str, question: OverviewQuestion, in_document: bool
) -> dict[str, float]:
    """Return the figures of one question for each number of words: time, shares of the answers, and words read."""
    figures: dict[str, float] = {}
    for limit in WORD_LIMITS:
        started = time.perf_counter()
        text = _retrieve_words(store, system, question, limit, in_document)
        figures[f"ms_{limit}w"] = 1000 * (time.perf_counter() - started)
        figures |= {f"{name}_{limit}w": share for name, share in compute_answer_shares(text, question.answers).items()}
        figures[f"read_{limit}w"] = len(text.split())
    return figures


def compute_answer_shares(text: str, answers: Sequence[str]) -> dict[str, float]:
    """Return the shares of the words, content words and bigrams of reference answers that a text contains.

    Words have at least _MIN_LETTERS letters; content words are those that are not function words. The shares are means
    over the answers.
    """
    text_words = _split_words(text)
    shares: dict[str, list[float]] = {}
    for answer in answers:
        answer_words = _split_words(answer)
        for name, (text_units, answer_units) in {
            "words": (_select_long_words(text_words), _select_long_words(answer_words)),
            "content": (_select_long_words(text_words), _select_long_words(answer_words) - FUNCTION_WORDS),
            "bigrams": (set(pairwise(text_words)), set(pairwise(answer_words))),
        }.items():
            shares.setdefault(name, []).append(len(text_units & answer_units) / max(1, len(answer_units)))
    return {name: statistics.mean(values) for name, values in shares.items()}


def _retrieve_words(
    store: kvstore.Store, system: str, question: OverviewQuestion, limit: int, in_document: bool
) -> str:
    """Return the first ``limit`` words that a system retrieves, from the question's document or from all.

    The system "beginning" takes the first words of the documents, equally many of each.
    """
    keys = [question.document] if in_document else store.keys()
    if system == "beginning":
        return " ".join(_truncate_words(_get_text(store, key), limit // len(keys)) for key in keys)
    clauses: dict[str, Any] = {"where": "key = ?", "parameters": (question.document,)} if in_document else {}
    document_text = _get_text(store, question.document)
    # Results are limited in tokens; the ratio of tokens to words is that of the document.
    token_limit = int(_LENGTH_MARGIN * limit * count_text_tokens(document_text) / len(document_text.split()))
    for _ in range(_MAX_TRIES):
        evidence = store.retrieve(question.text, using=system, top=_MAX_HITS, within=token_limit, **clauses)
        text = "\n".join(hit.text for hit in evidence.hits)
        num_words = len(text.split())
        if num_words <= limit:
            break
        # Retrieve again with a smaller limit: if hits are in the order of the text, cutting off words would only remove
        # the end of the document.
        token_limit = token_limit * limit // num_words
    return _truncate_words(text, limit)


def _get_text(store: kvstore.Store, key: str) -> str:
    """Return the text of an existing document."""
    document = store.get(key)
    assert document is not None
    return document.text


def _truncate_words(text: str, limit: int) -> str:
    """Return the first ``limit`` words of a text, separated by spaces."""
    return " ".join(text.split()[:limit])


def _split_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def _select_long_words(words: Sequence[str]) -> set[str]:
    """Return the distinct words of at least _MIN_LETTERS letters, which are usually content words."""
    return {word for word in words if len(word) >= _MIN_LETTERS}
