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

#: Questions of another set that a store is asked, at most, and those that a small store is asked.
_OTHERS, _OF_SMALL = 20, 20
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
    """One question asked of one store: the features of its confidence, if the store answers it, and its half.

    ``set`` is the data set of the store, and ``of`` that of the question.
    """

    store: str
    questions: str
    set: str
    of: str
    parts: dict[str, float]
    own: bool
    tuning: bool
    withheld: bool = False


@dataclass(frozen=True)
class Stored:
    """A store, the data set it was built from, and the sets of questions that it answers."""

    name: str
    store: kvstore.Store
    own: Sequence[QuestionSet]
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
@click.option("--small", default=20, show_default=True, help="How many stores of ten passages to make.")
@click.option("--mixed", default=4, show_default=True, help="How many passages are one document in a mixed store.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep stores in this folder, and use them again.")
@click.option("--least", default=0.5, show_default=True, help="The confidence from which on a question is answered.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: tuple[str, ...],
    manual: Path | None,
    small: int,
    mixed: int,
    store: Path | None,
    least: float,
    as_json: bool,
) -> None:
    """Fit the weights of the confidence, and measure them on other questions."""
    sets = [load(path, None) for path in data]
    passages = [questions for questions in sets if not questions.details]
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stores:
        folder = store or Path(scratch)
        folder.mkdir(exist_ok=True)
        stored = []
        for questions in [*sets, *(join_passages(questions, mixed) for questions in passages if mixed)]:
            opened_store = stores.enter_context(kvstore.open(folder / questions.name.replace(":", "-")))
            fill_store(opened_store, questions, False, lambda text: None)
            stored.append(Stored(questions.name, opened_store, [questions]))
        if manual is not None:
            opened_store = stores.enter_context(kvstore.open(folder / "manual"))
            stored.append(
                Stored(
                    "manual",
                    opened_store,
                    make_manual_sets(opened_store, manual, Path(scratch), lambda text: None)[1],
                    True,
                )
            )
        asked = [asked_question for stored_set in stored for asked_question in ask_store(stored_set, stored)]
        for questions in sorted(NOTES.glob("*.jsonl")):
            asked += ask_notes(folder, questions, stored)
        asked += [
            asked_question
            for number in range(small if passages else 0)
            for asked_question in ask_small_stores(folder, passages, number)
        ]
    report = {
        name: fit_and_evaluate(asked, [feature for feature in weights if feature != "constant"], least)
        for name, weights in (("with similarity", SIMILARITY_WEIGHTS), ("words alone", WORD_WEIGHTS))
    }
    print(json.dumps(report) if as_json else json.dumps(report, indent=1))


def join_passages(questions: QuestionSet, count: int) -> QuestionSet:
    """Return the same passages, with ``count`` passages in each document."""
    documents, within = [], {}
    for start in range(0, len(questions.passages), count):
        some = questions.passages[start : start + count]
        documents.append({"id": f"notes-{start}", "text": "\n\n".join(question["text"] for question in some)})
        within |= {question["id"]: f"notes-{start}" for question in some}
    joined_questions = [
        replace(question, gold=frozenset(map(within.__getitem__, question.gold))) for question in questions.questions
    ]
    return replace(questions, name=f"{questions.name}{_MIXED}", passages=documents, questions=joined_questions)


def ask_store(stored: Stored, others: Sequence[Stored]) -> list[Asked]:
    """Ask a store the questions of all sets."""
    asked_questions = []
    for other_store in [
        *others,
        *([Stored(stored.name, stored.store, make_unanswerable_sets(stored.own))] if stored.manual else []),
    ]:
        is_own = other_store is stored
        if other_store.origin == stored.origin and other_store in others and not is_own:
            continue
        for questions in other_store.own:
            interval = 1 if is_own else max(1, len(questions.questions) // _OTHERS)
            for position, question in enumerate(questions.questions[::interval]):
                names = (stored.name, questions.name, stored.origin, other_store.origin)
                asked_questions.append(ask(stored.store, names, question.text, is_own, position % 2 == 0))
                if is_own and not questions.details and not stored.manual:
                    left_out = f"key NOT IN ({', '.join(map(format_literal, sorted(question.gold)))})"
                    asked = ask(stored.store, names, question.text, False, position % 2 == 0, left_out)
                    asked_questions.append(replace(asked, withheld=True))
    return asked_questions


def ask_notes(folder: Path, questions: Path, others: Sequence[Stored]) -> list[Asked]:
    """Ask a store of a folder of notes the questions of the folder and those of some sets."""
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
        asked_questions += ask_store(Stored(notes.name, opened, []), others)
    return asked_questions


def make_unanswerable_sets(sets: Sequence[QuestionSet]) -> list[QuestionSet]:
    """Return questions on options and parameters that do not exist: each part of a name is reversed."""
    (options,) = [questions for questions in sets if questions.name == "manual-options"]
    questions = []
    for question in options.questions:
        form = _OPTION if _OPTION.search(question.text) else _PARAMETER
        questions.append(replace(question, text=form.sub(lambda match: match.group()[::-1], question.text)))
    return [replace(options, name="made-up options", questions=questions)]


def ask_small_stores(folder: Path, sets: Sequence[QuestionSet], number: int) -> list[Asked]:
    """Ask stores of ten passages the question that each was built around, and other questions of the same set."""
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
        interval = max(1, len(question_set.questions) // _OF_SMALL)
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
    """Return the features of one question; ``names`` are those of the store, the questions, and their sets."""
    _, weighed = store.weigh(text, where=where)
    feature_names = sorted((SIMILARITY_WEIGHTS.keys() | WORD_WEIGHTS.keys()) - {"constant"})
    return Asked(*names, {feature: getattr(weighed, feature) or 0.0 for feature in feature_names}, is_own, is_tuning)


def fit_and_evaluate(asked: Sequence[Asked], names: Sequence[str], min_confidence: float) -> dict[str, Any]:
    """Fit weights on the questions for fitting, and evaluate them on the others and on held-out sets."""
    withheld = _build_table([question for question in asked if question.withheld], names)
    asked = [question for question in asked if not question.withheld]
    features = _build_table(asked, names)
    is_own = np.array([question.own for question in asked], float)
    is_tuning = np.array([question.tuning for question in asked])
    weights = _fit_weights(asked, features, is_tuning)
    confidence = 1 / (1 + np.exp(-(features @ weights)))
    report = ~is_tuning
    held_out = {}
    for name in sorted({question.set for question in asked}):
        is_held_out = np.array([name in (question.set, question.of) for question in asked])
        confidences = 1 / (1 + np.exp(-(features @ _fit_weights(asked, features, is_tuning & ~is_held_out))))
        held_out[name] = _compute_answered_shares(asked, confidences >= min_confidence, is_held_out)
    return {
        "weights": {name: round(float(value), 2) for name, value in zip([*names, "constant"], weights, strict=True)},
        "area_tune": round(compute_area_under_curve(confidence[is_tuning], is_own[is_tuning]), 4),
        "area_report": round(compute_area_under_curve(confidence[report], is_own[report]), 4),
        "answered_own": round(float((confidence[report & (is_own == 1)] >= min_confidence).mean()), 4),
        "answered_others": round(float((confidence[report & (is_own == 0)] >= min_confidence).mean()), 4),
        "answered_withheld": round(
            float((withheld @ weights > np.log(min_confidence / (1 - min_confidence))).mean()), 4
        )
        if len(withheld)
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
    is_own = np.array([question.own for question in asked], float)
    # Of what a store does not answer, what is on its own matters counts as much as what is on others.
    groups = [(question.store, question.own, question.of == question.set, question.questions) for question in asked]
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


def _compute_answered_shares(asked: Sequence[Asked], answered: Mask, taken: Mask) -> dict[str, float]:
    """Return the share answered of some of the questions, by store and question set."""
    outcomes: dict[str, list[bool]] = {}
    for question, is_counted, is_answered in zip(asked, taken, answered, strict=True):
        if is_counted:
            kind = "its own " if question.own else "others of " if question.store == "small" else ""
            label = "its own" if question.own and question.store == "small" else f"{kind}{question.questions}"
            outcomes.setdefault(f"{question.store} asked {label}", []).append(bool(is_answered))
    return {label: round(sum(is_answered) / len(is_answered), 3) for label, is_answered in sorted(outcomes.items())}


if __name__ == "__main__":
    main()
