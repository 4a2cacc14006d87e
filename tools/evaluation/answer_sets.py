"""Stores with questions, to measure whole answers. A question is *answerable*, a *near miss* (on the topic of a store
that does not answer it) or *foreign* (on another topic). A set has one or more stores; a *part* selects one of them.

In: the name of a set: ``squad2`` or ``squad2:choose`` (articles of the file of questions with and without an answer
that are in no training row), ``everyday`` (sections of invented documents that the reader was not trained on),
``notes`` (tools/note_folders), ``languages`` (tools/language_folders: German and French), ``ranges``
(tools/range_folders: questions with a number in a range, and with a superlative), ``folders`` or ``folders:NAME``
(archives of real documents), ``hotpotqa`` or ``musique`` (questions that need several passages). Out: an
:class:`AnswerSet` for each store: its name, a function that fills it, and its questions.
"""

from __future__ import annotations

import json
import lzma
import random
import re
import tarfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click

import kvstore
from kvstore.evaluation import Question, contains_words

from .question_sets import fill_store, load, read_json_lines

NOTES = Path(__file__).resolve().parents[1] / "note_folders"
FOREIGN_NOTES, RANGES = NOTES.with_name("language_folders"), NOTES.with_name("range_folders")
EVERYDAY_QUESTIONS = NOTES.with_name("everyday_questions") / "held_out.jsonl"
#: Articles of SQuAD 2.0 that no reader was trained on: thresholds are chosen on the first, the others are reported.
CHOICE_ARTICLES = ("2008 sichuan earthquake", "geology", "harvard university", "victoria (australia)")
REPORT_ARTICLES = (
    *("force", "pharmacy", "private school", "sino-tibetan relations during the ming dynasty", "southern california"),
)
#: Kinds of answers whose facts are in several sentences or items.
_LONG_ANSWERS = frozenset(("steps", "list"))


@dataclass(frozen=True)
class AnswerSet:
    """A store and its questions; ``fill`` puts the documents into an empty store."""

    name: str
    fill: Callable[[kvstore.Store], object]
    questions: Sequence[Question]


class _SetDocument(NamedTuple):
    """A document of a set, which is stored as it is."""

    key: str
    title: str
    text: str


def load_answer_sets(name: str, data: Path, limit: int | None) -> list[AnswerSet]:
    """Return the stores of a set, each with at most ``limit`` questions of each kind.

    ``name`` is the name of a set, and after a colon that of one of its parts, if it has parts (``squad2:choose``).
    Raises UsageError for an unknown set.
    """
    set_name, _, part = name.partition(":")
    loaders: dict[str, Callable[[Path, str], Iterator[AnswerSet]]] = {
        "squad2": _load_squad2,
        "everyday": lambda data, part: _load_everyday(),
        "notes": lambda data, part: _load_notes("notes", NOTES, part),
        "languages": lambda data, part: _load_notes("languages", FOREIGN_NOTES, part),
        "ranges": lambda data, part: _load_notes("ranges", RANGES, part),
        "folders": _load_folders,
        "hotpotqa": lambda data, part: _load_multi_hop(data, "hotpotqa"),
        "musique": lambda data, part: _load_multi_hop(data, "musique"),
    }
    if set_name not in loaders:
        raise click.UsageError(f"there is no set {set_name!r}; there are {', '.join(loaders)}")
    return [
        AnswerSet(answer_set.name, answer_set.fill, _sample(answer_set.questions, limit))
        for answer_set in loaders[set_name](data, part)
    ]


def _sample(questions: Sequence[Question], limit: int | None) -> list[Question]:
    """Return at most ``limit`` questions of each kind, chosen with a fixed seed."""
    sample = []
    for kind in ("answerable", "near", "foreign"):
        questions_of_kind = [question for question in questions if question.kind == kind]
        random.Random("answers").shuffle(questions_of_kind)
        sample += questions_of_kind[:limit]
    return sample


def _load_squad2(data: Path, part: str) -> Iterator[AnswerSet]:
    """Yield one store of all held-out articles, with the questions about some of them.

    If ``part`` is ``choose``, these are the articles that thresholds are chosen on, else the reported ones.
    """
    question_articles = CHOICE_ARTICLES if part == "choose" else REPORT_ARTICLES
    with lzma.open(data / "reader" / "train.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    documents: dict[str, _SetDocument] = {}  # by text
    questions: dict[str, Question] = {}
    for row in rows:
        title = (row.get("title") or "").replace("_", " ")
        article = title.lower()
        if article not in (*CHOICE_ARTICLES, *REPORT_ARTICLES) or not row["source"].startswith("squad2"):
            continue
        text = row["passage"]
        document = documents.setdefault(text, _SetDocument(f"squad2-{len(documents)}", title, text))
        if article not in question_articles or row["question"] in questions:
            continue
        gold_answers = sorted({answer for _, answer in row["answers"]})
        questions[row["question"]] = Question(
            row["question"].strip(),
            "answerable" if gold_answers else "near",
            _make_word_check(gold_answers),
            frozenset((document.key,)) if gold_answers else frozenset(),
            part=article,
        )
    yield AnswerSet(f"squad2:{part or 'report'}", _make_fill(documents.values()), list(questions.values()))


def _load_everyday() -> Iterator[AnswerSet]:
    """Yield the store of the sections of invented documents that the reader was not trained on."""
    documents: list[_SetDocument] = []
    questions = []
    for row in read_json_lines(EVERYDAY_QUESTIONS):
        key = f"everyday-{len(documents)}"
        documents.append(_SetDocument(key, row["title"], _render_section(row["heading"], row["snippets"])))
        questions += [
            Question(question, "answerable", _make_word_check([answer]), frozenset((key,)))
            for question, _, answer in row["answered"]
        ]
        questions += [Question(question, "near") for question, _ in row["near_misses"]]
    yield AnswerSet("everyday", _make_fill(documents), questions)


def _make_fill(documents: Collection[_SetDocument]) -> Callable[[kvstore.Store], object]:
    """Return a function that stores documents in one transaction."""

    def fill(store: kvstore.Store) -> None:
        """Store the documents."""
        with store.transaction() as transaction:
            for key, title, text in documents:
                transaction.put(key, text, title=title)

    return fill


def _render_section(heading: str, snippets: Sequence[str]) -> str:
    """Return a section as Markdown: its heading, sentences in paragraphs, and other snippets as items of a list."""
    text = f"## {heading}" if heading else ""
    previous_kind = ""
    for snippet in snippets:
        kind = "sentence" if snippet[-1:] in ".!?" else "item"
        separator = "\n\n" if kind != previous_kind else " " if kind == "sentence" else "\n"
        text += f"{separator}{'- ' if kind == 'item' else ''}{snippet}"
        previous_kind = kind
    return text.strip()


def _load_notes(name: str, folder: Path, part: str) -> Iterator[AnswerSet]:
    """Yield a store for each subfolder ``NAME`` of a folder, or only for the subfolder ``part``.

    Its questions are in ``NAME.jsonl``. A right answer contains the ``answer`` of its row, or matches the ``pattern``.
    A row without either is a near miss, or a question of another ``kind``.
    """
    for path in sorted(folder.glob(f"{part or '*'}.jsonl")):
        questions = []
        for row in read_json_lines(path):
            pattern = row.get("pattern") or re.escape(row.get("answer") or "")
            kind = row.get("kind", "answerable" if pattern else "near")
            questions.append(Question(row["question"], kind, _make_pattern_check([pattern] if pattern else [])))
        yield AnswerSet(f"{name}:{path.stem}", _make_folder_ingest(path.with_suffix("")), questions)


def _load_folders(data: Path, part: str) -> Iterator[AnswerSet]:
    """Yield a store for each archive of real documents, or only for the archive ``part``."""
    for path in sorted((data / "folders").glob(f"{part or '*'}-questions.jsonl")):
        name = path.name.removesuffix("-questions.jsonl")
        questions = []
        for row in read_json_lines(path):
            questions.append(
                Question(
                    row["question"],
                    row["kind"] if row["kind"] in ("near", "foreign") else "answerable",
                    _make_pattern_check(row.get("patterns", ())),
                    frozenset(row.get("gold", ())),
                    needs_all_gold=row["kind"] == "two",
                    is_long=row["kind"] == "two" or row["asks"] in _LONG_ANSWERS,
                    part=row["kind"],
                )
            )
        yield AnswerSet(f"folders:{name}", _make_archive_ingest(path.with_name(f"{name}.tar.xz"), name), questions)


def _load_multi_hop(data: Path, name: str) -> Iterator[AnswerSet]:
    """Yield the store of the question set ``name``, whose questions need several passages.

    Yes-or-no questions are omitted.
    """
    question_set = load(str(data / "qa" / name))
    questions = [
        Question(
            question.text,
            "answerable",
            _make_word_check([question.answer]),
            question.gold,
            needs_all_gold=True,
            is_long=True,
        )
        for question in question_set.questions
        if question.answer and question.answer not in ("yes", "no")
    ]
    yield AnswerSet(
        name, lambda store: fill_store(store, question_set, triples=False, log=lambda text: None), questions
    )


def _make_word_check(answers: Collection[str]) -> Callable[[str], bool]:
    """Return a function that checks if a text contains the words of any of the answers."""
    return lambda text: any(contains_words(answer, text) for answer in answers)


def _make_pattern_check(patterns: Collection[str]) -> Callable[[str], bool]:
    """Return a function that checks if a text matches all patterns, ignoring case; False if there are no patterns."""
    return lambda text: bool(patterns) and all(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _make_folder_ingest(folder: Path) -> Callable[[kvstore.Store], object]:
    """Return a function that ingests a folder into a store."""
    return lambda store: _ingest_all(store, folder)


def _make_archive_ingest(archive: Path, name: str) -> Callable[[kvstore.Store], object]:
    """Return a function that unpacks an archive and ingests the folder ``name`` in it."""

    def ingest(store: kvstore.Store) -> None:
        """Unpack the archive into a temporary folder, and ingest it."""
        import tempfile

        with tempfile.TemporaryDirectory() as scratch:
            with tarfile.open(archive) as files:
                files.extractall(scratch, filter="data")
            _ingest_all(store, Path(scratch) / name)

    return ingest


def _ingest_all(store: kvstore.Store, folder: Path) -> None:
    """Ingest a folder. If files cannot be read, empty the store and raise a ClickException that names them.

    Questions about such files have no answer, so the figures would be wrong. Empty files are skipped.
    """
    problems = [problem for problem in store.ingest(folder, workers=0).problems if ": is empty; " not in problem]
    if problems:
        store.delete_many(list(store.keys()))
        raise click.ClickException("\n".join(["these files cannot be read:", *problems]))
