"""Fit and measure the confidence of answers, with questions that a store can answer and questions that it cannot.

    python tools/fit_confidence.py --data FOLDER[:N] ... [--manual ARCHIVE] [--small N] [--mixed N] [--store FOLDER]
                                   [--json]

Every set (see tools/evaluate.py) becomes a store, which is asked its own questions and those of all other sets. A
``--manual`` is one store with both sets that are generated from it. ``--small`` adds stores of ten passages, each built
around a question, so that the model does not depend on the size of a store; ``--mixed`` adds a store for each set in
which several passages form one document. The folders of ``tools/note_folders`` are stores too: realistic files, with
questions that they answer and similar ones that they do not.

In: the features of :class:`~kvstore.answering.confidence.Confidence` for each question and store. Out: the weights of
a logistic model, fitted on the even questions of every pair, and, for the odd questions, the share answered of own and
of other questions, and the area under the ROC curve. ``answered_withheld`` is the share answered of own questions whose
documents a WHERE excludes; they are not used for fitting, because other documents may answer them. A manual is also
asked about options that do not exist: the reversed names of its own. All stores have the same
weight, and so have the question sets that a store is asked; the sets that it answers have together the same weight as
the others together. ``held_out`` has the same figures for every set, with weights fitted without its store and its
questions.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from evaluation.manual import make_manual_sets
from evaluation.question_sets import QuestionSet, fill_store, load, read_lines

import kvstore
from kvstore.answering.confidence import SIMILARITY_WEIGHTS, WORD_WEIGHTS
from kvstore.evaluation.asked_questions import compute_area_under_curve
from kvstore.sql.literals import format_literal

#: The maximum number of questions of another set that a store, and a small store, is asked.
_FOREIGN_QUESTIONS, _SMALL_STORE_QUESTIONS = 20, 20
NOTES = Path(__file__).resolve().parent / "note_folders"
#: Passages of a small store.
_PASSAGES = 10
#: The end of the name of a store in which several passages are one document.
_MIXED = ", mixed"
#: How much large weights are held back.
_RIDGE = 1e-4
_STEPS = 30
#: The names of an option and of a parameter.
_OPTION, _PARAMETER = re.compile(r"(?<=--)[a-z][\w-]+"), re.compile(r"[a-z]+(?:_[a-z]+)+")

Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """One question asked of one store, and the features of its confidence (``parts``).

    ``set`` is the data set of the store, and ``question_set`` that of the question. ``is_own`` is True if the store
    contains the answer, ``is_tuning`` if the question is in the half for fitting, and ``is_withheld`` if the documents
    with the answer were excluded from the search.
    """

    store: str
    questions: str
    set: str
    question_set: str
    parts: dict[str, float]
    is_own: bool
    is_tuning: bool
    is_withheld: bool = False


@dataclass(frozen=True)
class AskedStore:
    """A store, the data set it was built from, and the sets of questions that it answers."""

    name: str
    store: kvstore.Store
    own_sets: Sequence[QuestionSet]
    manual: bool = False

    @property
    def origin(self) -> str:
        """The data set of its questions, which another store may also have."""
        return self.name.removesuffix(_MIXED)


@click.command()
@click.option("--data", multiple=True, required=True, metavar="FOLDER[:N]", help="A question set.")
@click.option(
    "--manual",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A manual of HTML pages, in an archive: questions on options and headings are made from it.",
)
@click.option("--small", default=20, show_default=True, help="Number of stores of ten passages.")
@click.option("--mixed", default=4, show_default=True, help="Number of passages per document in a mixed store.")
@click.option("--store", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used.")
@click.option("--least", "min_confidence", default=0.5, show_default=True, help="The minimum confidence of an answer.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: tuple[str, ...],
    manual: Path | None,
    small: int,
    mixed: int,
    store: Path | None,
    min_confidence: float,
    as_json: bool,
) -> None:
    """Fit the weights of the confidence, and measure them on other questions."""
    sets = [load(path, None) for path in data]
    passages = [questions for questions in sets if not questions.details]
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stores:
        folder = store or Path(scratch)
        folder.mkdir(exist_ok=True)
        asked_stores = []
        for questions in [*sets, *(join_passages(questions, mixed) for questions in passages if mixed)]:
            opened_store = stores.enter_context(kvstore.open(folder / questions.name.replace(":", "-")))
            fill_store(opened_store, questions, triples=False, log=lambda text: None)
            asked_stores.append(AskedStore(questions.name, opened_store, [questions]))
        if manual is not None:
            opened_store = stores.enter_context(kvstore.open(folder / "manual"))
            asked_stores.append(
                AskedStore(
                    "manual",
                    opened_store,
                    make_manual_sets(opened_store, manual, Path(scratch), lambda text: None)[1],
                    manual=True,
                )
            )
        asked = [question for store_asked in asked_stores for question in ask_store(store_asked, asked_stores)]
        for questions in sorted(NOTES.glob("*.jsonl")):
            asked += ask_notes(folder, questions, asked_stores)
        asked += [
            asked_question
            for number in range(small if passages else 0)
            for asked_question in ask_small_stores(folder, passages, number)
        ]
    report = {
        name: fit_and_evaluate(asked, [feature for feature in weights if feature != "constant"], min_confidence)
        for name, weights in (("with similarity", SIMILARITY_WEIGHTS), ("words alone", WORD_WEIGHTS))
    }
    print(json.dumps(report) if as_json else json.dumps(report, indent=1))


def join_passages(questions: QuestionSet, count: int) -> QuestionSet:
    """Return the same set with ``count`` consecutive passages in each document, as in files of several notes."""
    documents, joined_keys = [], {}
    for start in range(0, len(questions.passages), count):
        group = questions.passages[start : start + count]
        documents.append({"id": f"notes-{start}", "text": "\n\n".join(question["text"] for question in group)})
        joined_keys |= {question["id"]: f"notes-{start}" for question in group}
    joined_questions = [
        replace(question, gold=frozenset(map(joined_keys.__getitem__, question.gold)))
        for question in questions.questions
    ]
    return replace(questions, name=f"{questions.name}{_MIXED}", passages=documents, questions=joined_questions)


def ask_store(store_asked: AskedStore, others: Sequence[AskedStore]) -> list[Asked]:
    """Ask a store its own questions and samples of the questions of other sets, which it cannot answer.

    The store is also asked its own questions without the documents that answer them, if the set needs whole documents.
    """
    asked_questions = []
    for other_store in [
        *others,
        *(
            [AskedStore(store_asked.name, store_asked.store, make_unanswerable_sets(store_asked.own_sets))]
            if store_asked.manual
            else []
        ),
    ]:
        is_own = other_store is store_asked
        if other_store.origin == store_asked.origin and other_store in others and not is_own:
            continue
        for questions in other_store.own_sets:
            interval = 1 if is_own else max(1, len(questions.questions) // _FOREIGN_QUESTIONS)
            for position, question in enumerate(questions.questions[::interval]):
                names = (store_asked.name, questions.name, store_asked.origin, other_store.origin)
                asked_questions.append(ask(store_asked.store, names, question.text, is_own, position % 2 == 0))
                if is_own and not questions.details and not store_asked.manual:
                    left_out = f"key NOT IN ({', '.join(map(format_literal, sorted(question.gold)))})"
                    asked = ask(store_asked.store, names, question.text, False, position % 2 == 0, left_out)
                    asked_questions.append(replace(asked, is_withheld=True))
    return asked_questions


def ask_notes(folder: Path, questions: Path, others: Sequence[AskedStore]) -> list[Asked]:
    """Ask a store of a folder of notes the questions about the folder, and samples of the questions of other stores."""
    notes, asked_questions = questions.with_suffix(""), []
    with kvstore.open(folder / notes.name) as opened:
        opened.ingest(notes, workers=0)
        rows = read_lines(questions)
        for position, question in enumerate(sorted(rows, key=lambda question: question["answer"] is None)):
            kind = "questions" if question["answer"] else "questions on what is not there"
            names = (notes.name, kind, notes.name, notes.name)
            asked_questions.append(
                ask(opened, names, question["question"], question["answer"] is not None, position % 2 == 0)
            )
        asked_questions += ask_store(AskedStore(notes.name, opened, []), others)
    return asked_questions


def make_unanswerable_sets(sets: Sequence[QuestionSet]) -> list[QuestionSet]:
    """Return the questions on options and parameters with each of their names reversed, so that the name does not
    exist.
    """
    (options,) = [questions for questions in sets if questions.name == "manual-options"]
    questions = []
    for question in options.questions:
        form = _OPTION if _OPTION.search(question.text) else _PARAMETER
        questions.append(replace(question, text=form.sub(lambda match: match.group()[::-1], question.text)))
    return [replace(options, name="made-up options", questions=questions)]


def ask_small_stores(folder: Path, sets: Sequence[QuestionSet], number: int) -> list[Asked]:
    """Build the store of ten passages around one question, and ask it this question and others of the same set.

    ``number`` chooses the set and the question. Questions with only some of their passages in the store are left out.
    """
    question_set = sets[number % len(sets)]
    question = question_set.questions[(number * 7) % len(question_set.questions)]
    gold_indexes = [index for index, passage in enumerate(question_set.passages) if passage["id"] in question.gold]
    following = range(max(0, gold_indexes[0] - 3), len(question_set.passages))
    indexes = list(dict.fromkeys([*gold_indexes, *following]))[:_PASSAGES]
    stored_keys = {question_set.passages[index]["id"] for index in indexes}
    asked_questions = []
    with kvstore.open(folder / f"small-{number}") as opened:
        if not opened.keys(limit=1):
            with opened.transaction() as transaction:
                for index in sorted(indexes):
                    passage = question_set.passages[index]
                    transaction.put(passage["id"], passage["text"], title=passage.get("title"))
        interval = max(1, len(question_set.questions) // _SMALL_STORE_QUESTIONS)
        for index, other in enumerate([question, *question_set.questions[::interval]]):
            if other.gold <= stored_keys or other.gold.isdisjoint(stored_keys):
                is_own = other.gold <= stored_keys
                names = ("small", question_set.name, question_set.name, question_set.name)
                asked_questions.append(ask(opened, names, other.text, is_own, (index + number) % 2 == 0))
    return asked_questions


def ask(
    store: kvstore.Store,
    names: tuple[str, str, str, str],
    text: str,
    is_own: bool,
    is_tuning: bool,
    where: str | None = None,
) -> Asked:
    """Return one question with the features of its confidence.

    ``names`` are the fields ``store``, ``questions``, ``set`` and ``question_set`` of :class:`Asked`; ``where``
    restricts the search.
    """
    _, weighed = store.weigh(text, where=where)
    feature_names = sorted((SIMILARITY_WEIGHTS.keys() | WORD_WEIGHTS.keys()) - {"constant"})
    return Asked(*names, {feature: getattr(weighed, feature) or 0.0 for feature in feature_names}, is_own, is_tuning)


def fit_and_evaluate(asked: Sequence[Asked], names: Sequence[str], min_confidence: float) -> dict[str, Any]:
    """Fit weights on the questions for fitting, and evaluate them on the others and on held-out sets."""
    is_withheld = _build_table([question for question in asked if question.is_withheld], names)
    asked = [question for question in asked if not question.is_withheld]
    features = _build_table(asked, names)
    is_own = np.array([question.is_own for question in asked], float)
    is_tuning = np.array([question.is_tuning for question in asked])
    weights = _fit_weights(asked, features, is_tuning)
    confidence = 1 / (1 + np.exp(-(features @ weights)))
    report = ~is_tuning
    held_out = {}
    for name in sorted({question.set for question in asked}):
        is_held_out = np.array([name in (question.set, question.question_set) for question in asked])
        confidences = 1 / (1 + np.exp(-(features @ _fit_weights(asked, features, is_tuning & ~is_held_out))))
        held_out[name] = _compute_answered_shares(asked, confidences >= min_confidence, is_held_out)
    return {
        "weights": {name: round(float(value), 2) for name, value in zip([*names, "constant"], weights, strict=True)},
        "area_tune": round(compute_area_under_curve(confidence[is_tuning], is_own[is_tuning]), 4),
        "area_report": round(compute_area_under_curve(confidence[report], is_own[report]), 4),
        "answered_own": round(float((confidence[report & (is_own == 1)] >= min_confidence).mean()), 4),
        "answered_others": round(float((confidence[report & (is_own == 0)] >= min_confidence).mean()), 4),
        "answered_withheld": round(
            float((is_withheld @ weights > np.log(min_confidence / (1 - min_confidence))).mean()), 4
        )
        if len(is_withheld)
        else None,
        "answered": _compute_answered_shares(asked, confidence >= min_confidence, report),
        "held_out": held_out,
    }


def _build_table(asked: Sequence[Asked], names: Sequence[str]) -> Numbers:
    """Return the named features of each question and a constant 1, shape (questions, names + 1)."""
    rows = [[*(question.parts[name] for name in names), 1.0] for question in asked]
    return np.array(rows).reshape(len(asked), len(names) + 1)


def _fit_weights(asked: Sequence[Asked], features: Numbers, selected: Mask) -> Numbers:
    """Return the weights that fit some of the questions; the constant is last."""
    is_own = np.array([question.is_own for question in asked], float)
    # Among unanswerable questions, those on the topics of the store weigh as much as those on other topics.
    groups = [
        (question.store, question.is_own, question.question_set == question.set, question.questions)
        for question in asked
    ]
    counts = Counter(group for group, is_selected in zip(groups, selected, strict=True) if is_selected)
    sets = Counter(group[:3] for group in counts)
    counts_by_outcome = Counter(group[:2] for group in sets)
    weights = np.array(
        [
            is_selected / max(1, counts[group] * sets[group[:3]] * counts_by_outcome[group[:2]])
            for group, is_selected in zip(groups, selected, strict=True)
        ]
    )
    for outcome in (0.0, 1.0):
        weights[is_own == outcome] /= weights[is_own == outcome].sum()
    fitted = np.zeros(features.shape[1])
    ridge = np.diag([*([2 * _RIDGE] * (len(fitted) - 1)), 1e-12])
    for _ in range(_STEPS):  # Newton's method
        predicted = 1 / (1 + np.exp(-(features @ fitted)))
        slope = features.T @ (weights * (predicted - is_own)) + ridge @ fitted
        curve = (features.T * (weights * predicted * (1 - predicted))) @ features + ridge
        fitted -= np.linalg.solve(curve, slope)
    return fitted


def _compute_answered_shares(asked: Sequence[Asked], answered: Mask, counted: Mask) -> dict[str, float]:
    """Return the share of answered questions by store and question set; only ``counted`` questions count."""
    outcomes: dict[str, list[bool]] = {}
    for question, is_counted, is_answered in zip(asked, counted, answered, strict=True):
        if is_counted:
            kind = "its own " if question.is_own else "others of " if question.store == "small" else ""
            label = "its own" if question.is_own and question.store == "small" else f"{kind}{question.questions}"
            outcomes.setdefault(f"{question.store} asked {label}", []).append(bool(is_answered))
    return {label: round(sum(is_answered) / len(is_answered), 3) for label, is_answered in sorted(outcomes.items())}


if __name__ == "__main__":
    main()
