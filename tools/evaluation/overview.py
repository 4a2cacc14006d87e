"""Measures for overview questions: how much of a reference answer a retrieved text contains.

In: a folder of whole documents, questions that ask for an overview of one (:func:`kvstore.retrieval.overview`), and
one or more reference answers for each. Out: for each system the shares of the reference words, and of their pairs of
adjacent words, that the first words of its result contain. Only words of four or more letters count, each once. Because
function words mean little, the share without them is also reported (``content``). A collection of words can score well
in words but not in pairs, so both are needed. Every question is asked of its own document (WHERE) and, as ``store``, of
all documents together. ``beginning`` is the baseline without retrieval: the beginning of the document, or equal parts
from the beginnings of all.
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

from .question_sets import read_lines

#: Words of what is found that are read.
WORDS = (400, 1500)
#: Kinds of index that strategies for an overview may read.
_KINDS = ("topics", "communities")
#: Hits asked for: the length is what limits.
_MOST = 200
#: How often the length is corrected: it is given in tokens, of which texts have more or fewer to a word.
_TRIES = 4
_MORE = 1.1
_WORD = re.compile(r"\w+")
_LEAST_LETTERS = 4


@dataclass(frozen=True)
class OverviewQuestion:
    """A question, the key of its document, and the reference answers."""

    text: str
    document: str
    answers: Sequence[str]


def load_overview_questions(folder: Path) -> list[OverviewQuestion]:
    """Return the questions of a folder that ask for an overview of one document."""
    found = [
        OverviewQuestion(row["question"], row["gold"][0], row.get("answers") or [row["answer"]])
        for row in read_lines(folder / "questions.jsonl")
        if len(row["gold"]) == 1 and (row.get("answers") or row.get("answer")) and is_overview_question(row["question"])
    ]
    if not found:
        raise click.UsageError(f"{folder}: no question asks for an overview and has a written answer")
    return found


def build_overview_rows(
    store: kvstore.Store, folder: Path, strategies: Sequence[str], log: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return a row for each system and each of the two ways to ask; ``store`` contains the documents of the folder."""
    questions = load_overview_questions(folder)
    made = {status.kind for status in store.indexes()}
    for kind in _KINDS:
        if kind in INDEXES and kind not in made:
            store.execute(f"CREATE INDEX {kind}")
    rows = []
    for scope in ("document", "store"):
        for system in [*strategies, "beginning"]:
            figures: dict[str, list[float]] = {}
            for number, question in enumerate(questions, 1):
                for words in WORDS:
                    started = time.perf_counter()
                    text = _retrieve_words(store, system, question, words, scope == "document")
                    figures.setdefault(f"ms_{words}w", []).append(1000 * (time.perf_counter() - started))
                    for name, value in answer_shares(text, question.answers).items():
                        figures.setdefault(f"{name}_{words}w", []).append(value)
                    figures.setdefault(f"read_{words}w", []).append(len(text.split()))
                log(f"{folder.name}, {system}: {number} of {len(questions)} questions")
            means = {name: round(statistics.mean(values), 4) for name, values in figures.items()}
            rows.append(
                {"dataset": folder.name, "scope": scope, "strategy": system, "questions": len(questions), **means}
            )
    return rows


def answer_shares(text: str, answers: Sequence[str]) -> dict[str, float]:
    """Return the shares of reference answers that a text contains, as means over the answers."""
    mine = _split_words(text)
    shares: dict[str, list[float]] = {}
    for answer in answers:
        gold = _split_words(answer)
        for name, (has, wanted) in {
            "words": (_select_long_words(mine), _select_long_words(gold)),
            "content": (_select_long_words(mine), _select_long_words(gold) - FUNCTION_WORDS),
            "bigrams": (set(pairwise(mine)), set(pairwise(gold))),
        }.items():
            shares.setdefault(name, []).append(len(has & wanted) / max(1, len(wanted)))
    return {name: statistics.mean(values) for name, values in shares.items()}


def _retrieve_words(store: kvstore.Store, system: str, question: OverviewQuestion, words: int, alone: bool) -> str:
    """Return the first words that a system retrieves for a question, asked of its document or of all documents."""
    keys = [question.document] if alone else store.keys()
    if system == "beginning":
        return " ".join(_cut(_get_text(store, key), words // len(keys)) for key in keys)
    clauses: dict[str, Any] = {"where": "key = ?", "parameters": (question.document,)} if alone else {}
    document_text = _get_text(store, question.document)
    within = int(_MORE * words * count_text_tokens(document_text) / len(document_text.split()))
    for _ in range(_TRIES):
        evidence = store.retrieve(question.text, using=system, top=_MOST, within=within, **clauses)
        text = "\n".join(hit.text for hit in evidence.hits)
        read = len(text.split())
        if read <= words:
            break
        # What is cut off is the end of a document where hits come in the order of the text.
        within = within * words // read
    return _cut(text, words)


def _get_text(store: kvstore.Store, key: str) -> str:
    document = store.get(key)
    assert document is not None
    return document.text


def _cut(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _select_long_words(words: Sequence[str]) -> set[str]:
    return {word for word in words if len(word) >= _LEAST_LETTERS}
