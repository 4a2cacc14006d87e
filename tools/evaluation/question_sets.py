"""Question sets: texts, and questions with the evidence needed to answer them. *Gold* documents are all those needed;
a question can also have *spans*, the characters in them that answer.

In: a folder with ``corpus.jsonl`` (id, title, text), ``questions.jsonl`` (question, gold: ids of every document needed;
optionally spans: [id, first character, last], answer or answers, kind) and optionally ``triples.jsonl``. Out: a
:class:`QuestionSet`, and a store with each text as one document.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import kvstore

from .passages import TextSpan

_BATCH = 500
#: The kind of question that no span of a document answers.
GENERAL = "general"


@dataclass(frozen=True)
class Question:
    """A question, the keys of all documents needed to answer it, its answer if known, and the spans that answer."""

    text: str
    gold: frozenset[str]
    answer: str | None
    spans: tuple[TextSpan, ...] = ()


@dataclass(frozen=True)
class QuestionSet:
    """Texts and the questions that can be answered from them.

    ``details`` is True if its questions ask for spans in documents instead of documents.
    """

    name: str
    folder: Path
    passages: list[dict[str, Any]]
    questions: list[Question]
    details: bool = False


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def load(path: str, limit: int | None = None) -> QuestionSet:
    """Load the question set at the path ``FOLDER``, with its first ``limit`` texts, or ``FOLDER:N``, with its first N.

    Questions that need other texts are dropped. If some questions have spans, only those are loaded: the others ask
    about whole documents. Raises UsageError for a folder without a set, or if no question is left.
    """
    folder_part, colon, count = path.rpartition(":")
    folder = Path(folder_part) if colon and count.isdigit() else Path(path)
    if colon and count.isdigit():
        limit = int(count)
    if not (folder / "corpus.jsonl").is_file() or not (folder / "questions.jsonl").is_file():
        raise click.UsageError(f"{folder} has no corpus.jsonl and questions.jsonl")
    passages = read_json_lines(folder / "corpus.jsonl")[:limit]
    passage_ids = {passage["id"] for passage in passages}
    rows = [row for row in read_json_lines(folder / "questions.jsonl") if passage_ids.issuperset(row["gold"])]
    span_rows = [row for row in rows if row.get("spans") and row.get("kind") != GENERAL]
    questions = [
        Question(
            row["question"],
            frozenset(row["gold"]),
            row.get("answer") or next(iter(row.get("answers", ())), None),
            tuple(TextSpan(*span) for span in row.get("spans", ())),
        )
        for row in span_rows or rows
    ]
    if not questions:
        raise click.UsageError(f"{folder}: none of the questions has all its passages among the {len(passages)} taken")
    name = folder.name if limit is None else f"{folder.name}:{len(passages)}"
    return QuestionSet(name, folder, passages, questions, details=bool(span_rows))


def fill_store(store: kvstore.Store, question_set: QuestionSet, triples: bool, log: Callable[[str], None]) -> float:
    """Put the texts of a set into a store, and its triples if ``triples``; return the seconds.

    A store that already has all texts is left unchanged, unless triples are added.
    """
    started = time.perf_counter()
    passages = question_set.passages
    if set(store.keys()).issuperset(passage["id"] for passage in passages) and not triples:
        return time.perf_counter() - started
    for start in range(0, len(passages), _BATCH):
        with store.transaction() as transaction:
            for passage in passages[start : start + _BATCH]:
                transaction.put(passage["id"], passage["text"], title=passage.get("title"))
        log(f"{question_set.name}: {min(start + _BATCH, len(passages))} of {len(passages)} passages")
    if triples:
        store.ingest(question_set.folder / "triples.jsonl", format="triples")
    return time.perf_counter() - started
