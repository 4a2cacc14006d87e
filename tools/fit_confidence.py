"""Fit and measure the confidence of answers, with questions that a store can answer (its *own*) and questions that it
cannot. *Features* are the inputs of the confidence, such as the similarity of the best hit; *tuning* questions are
those that its weights are fitted on.

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
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt
from evaluation.manual import make_manual_sets
from evaluation.question_sets import QuestionSet, fill_store, load, read_json_lines

import kvstore
from kvstore.answering.confidence_weights import SIMILARITY_WEIGHTS, WORD_WEIGHTS
from kvstore.evaluation.asked_questions import compute_area_under_curve
from kvstore.sql.literals import format_literal

#: The maximum number of questions of another set that a store, and a small store, is asked.
_MAX_FOREIGN_QUESTIONS, _MAX_SMALL_STORE_QUESTIONS = 20, 20
NOTES = Path(__file__).resolve().parent / "note_folders"
_NUM_SMALL_STORE_PASSAGES = 10
#: The end of the name of a store in which several passages are one document.
_MIXED_SUFFIX = ", mixed"
#: How much large weights are held back.
_RIDGE = 1e-4
_STEPS = 30
#: The names of an option and of a parameter.
_OPTION, _PARAMETER = re.compile(r"(?<=--)[a-z][\w-]+"), re.compile(r"[a-z]+(?:_[a-z]+)+")

Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class QuestionLabels(NamedTuple):
    """The names of a store, of a group of questions, and of the data sets that the store and the questions are from."""

    store: str
    questions: str
    set: str
    question_set: str


@dataclass(frozen=True)
class QuestionFeatures:
    """One question asked of one store, and the features of its confidence by name.

    For the first four fields, see :class:`QuestionLabels`. ``is_withheld`` is True if the documents with the answer
    were excluded from the search.
    """

    store: str
    questions: str
    set: str
    question_set: str
    features: dict[str, float]
    is_own: bool
    is_tuning: bool
    is_withheld: bool = False


@dataclass(frozen=True)
class AskedStore:
    """A store, and the question sets that it can answer; ``manual`` is True if they are generated from a manual."""

    name: str
    store: kvstore.Store
    own_sets: Sequence[QuestionSet]
    manual: bool = False

    @property
    def origin(self) -> str:
        """The data set that the store was built from, which a store of merged passages shares."""
        return self.name.removesuffix(_MIXED_SUFFIX)


@click.command()
@click.option("--data", multiple=True, required=True, metavar="FOLDER[:N]", help="A question set.")
@click.option(
    "--manual",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Archive of a manual of HTML pages; questions about options and headings are generated from it.",
)
@click.option("--small", default=20, show_default=True, help="Number of stores of ten passages.")
@click.option("--mixed", default=4, show_default=True, help="Number of passages per document in a mixed store.")
@click.option(
    "--store", "store_folder", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used."
)
@click.option("--least", "min_confidence", default=0.5, show_default=True, help="The minimum confidence of an answer.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: tuple[str, ...],
    manual: Path | None,
    small: int,
    mixed: int,
    store_folder: Path | None,
    min_confidence: float,
    as_json: bool,
) -> None:
    """Fit the weights of the confidence, and measure them on other questions."""
    sets = [load(path) for path in data]
    passage_sets = [question_set for question_set in sets if not question_set.details]
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stores:
        folder = store_folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        asked_stores = []
        merged_sets = [merge_passages(question_set, mixed) for question_set in passage_sets] if mixed else []
        for question_set in [*sets, *merged_sets]:
            store = stores.enter_context(kvstore.open(folder / question_set.name.replace(":", "-")))
            fill_store(store, question_set, triples=False, log=lambda text: None)
            asked_stores.append(AskedStore(question_set.name, store, [question_set]))
        if manual is not None:
            store = stores.enter_context(kvstore.open(folder / "manual"))
            _, manual_sets = make_manual_sets(store, manual, Path(scratch), lambda text: None)
            asked_stores.append(AskedStore("manual", store, manual_sets, manual=True))
        questions_features = [
            question for asked_store in asked_stores for question in ask_store(asked_store, asked_stores)
        ]
        for questions_file in sorted(NOTES.glob("*.jsonl")):
            questions_features += ask_notes(folder, questions_file, asked_stores)
        questions_features += [
            features
            for index in range(small if passage_sets else 0)
            for features in ask_small_store(folder, passage_sets, index)
        ]
    report = {
        name: fit_and_evaluate(
            questions_features, [feature for feature in weights if feature != "constant"], min_confidence
        )
        for name, weights in (("with similarity", SIMILARITY_WEIGHTS), ("words alone", WORD_WEIGHTS))
    }
    print(json.dumps(report) if as_json else json.dumps(report, indent=1))


def merge_passages(question_set: QuestionSet, count: int) -> QuestionSet:
    """Return a question set in which each ``count`` consecutive passages are one document, as in notes.

    The ids in ``gold`` become those of the merged documents.
    """
    documents, new_ids = [], {}
    for start in range(0, len(question_set.passages), count):
        group = question_set.passages[start : start + count]
        documents.append({"id": f"notes-{start}", "text": "\n\n".join(passage["text"] for passage in group)})
        new_ids |= {passage["id"]: f"notes-{start}" for passage in group}
    new_questions = [
        replace(question, gold=frozenset(new_ids[passage_id] for passage_id in question.gold))
        for question in question_set.questions
    ]
    return replace(
        question_set, name=f"{question_set.name}{_MIXED_SUFFIX}", passages=documents, questions=new_questions
    )


def ask_store(asked_store: AskedStore, other_stores: Sequence[AskedStore]) -> list[QuestionFeatures]:
    """Return the features of a store's own questions, and of samples of the questions of other stores.

    Own questions that need whole documents are also asked with these documents excluded from the search.
    """
    all_features = []
    # Questions about the same data set are left out, because this store may answer them.
    question_sources = [store for store in other_stores if store is asked_store or store.origin != asked_store.origin]
    if asked_store.manual:
        unanswerable_sets = make_unanswerable_sets(asked_store.own_sets)
        question_sources.append(AskedStore(asked_store.name, asked_store.store, unanswerable_sets))
    for other_store in question_sources:
        is_own = other_store is asked_store
        for questions in other_store.own_sets:
            interval = 1 if is_own else max(1, len(questions.questions) // _MAX_FOREIGN_QUESTIONS)
            for index, question in enumerate(questions.questions[::interval]):
                labels = QuestionLabels(asked_store.name, questions.name, asked_store.origin, other_store.origin)
                is_tuning = index % 2 == 0
                all_features.append(compute_features(asked_store.store, labels, question.text, is_own, is_tuning))
                if is_own and not questions.details and not asked_store.manual:
                    where = f"key NOT IN ({', '.join(map(format_literal, sorted(question.gold)))})"
                    withheld_features = compute_features(
                        asked_store.store, labels, question.text, is_own=False, is_tuning=is_tuning, where=where
                    )
                    all_features.append(replace(withheld_features, is_withheld=True))
    return all_features


def ask_notes(folder: Path, questions_file: Path, other_stores: Sequence[AskedStore]) -> list[QuestionFeatures]:
    """Ingest a folder of notes; return the features of the questions about it, and of samples of other questions.

    ``questions_file`` is next to the folder of the notes, and has its name; ``folder`` contains the stores.
    """
    notes_folder, all_features = questions_file.with_suffix(""), []
    with kvstore.open(folder / notes_folder.name) as store:
        store.ingest(notes_folder, workers=0)
        rows = read_json_lines(questions_file)
        for index, question in enumerate(sorted(rows, key=lambda question: question["answer"] is None)):
            kind = "questions" if question["answer"] else "questions on what is not there"
            labels = QuestionLabels(notes_folder.name, kind, set=notes_folder.name, question_set=notes_folder.name)
            all_features.append(
                compute_features(
                    store, labels, question["question"], is_own=question["answer"] is not None, is_tuning=index % 2 == 0
                )
            )
        # Its own questions were asked above.
        all_features += ask_store(AskedStore(notes_folder.name, store, own_sets=[]), other_stores)
    return all_features


def make_unanswerable_sets(sets: Sequence[QuestionSet]) -> list[QuestionSet]:
    """Return the questions of a manual about options and parameters with these names reversed, so they do not exist."""
    (options,) = [questions for questions in sets if questions.name == "manual-options"]
    questions = []
    for question in options.questions:
        pattern = _OPTION if _OPTION.search(question.text) else _PARAMETER
        questions.append(replace(question, text=pattern.sub(lambda match: match.group()[::-1], question.text)))
    return [replace(options, name="made-up options", questions=questions)]


def ask_small_store(folder: Path, sets: Sequence[QuestionSet], store_index: int) -> list[QuestionFeatures]:
    """Build a store of ten passages around one question; return the features of this and other questions of its set.

    ``store_index`` chooses the set and the question. A question with only some of its passages in the store is skipped.
    """
    question_set = sets[store_index % len(sets)]
    # The stores take questions from different parts of the set.
    question = question_set.questions[(store_index * 7) % len(question_set.questions)]
    passages = _select_passages(question_set, question.gold)
    stored_keys = {passage["id"] for passage in passages}
    all_features = []
    with kvstore.open(folder / f"small-{store_index}") as store:
        if not store.keys(limit=1):
            with store.transaction() as transaction:
                for passage in passages:
                    transaction.put(passage["id"], passage["text"], title=passage.get("title"))
        interval = max(1, len(question_set.questions) // _MAX_SMALL_STORE_QUESTIONS)
        for question_index, other in enumerate([question, *question_set.questions[::interval]]):
            if other.gold <= stored_keys or other.gold.isdisjoint(stored_keys):
                is_own = other.gold <= stored_keys
                labels = QuestionLabels("small", question_set.name, question_set.name, question_set.name)
                all_features.append(
                    compute_features(
                        store, labels, other.text, is_own, is_tuning=(question_index + store_index) % 2 == 0
                    )
                )
    return all_features


def _select_passages(question_set: QuestionSet, gold: frozenset[str]) -> list[dict[str, Any]]:
    """Return _NUM_SMALL_STORE_PASSAGES passages in order: the gold ones, and those from three before the first on."""
    gold_indexes = [index for index, passage in enumerate(question_set.passages) if passage["id"] in gold]
    following = range(max(0, gold_indexes[0] - 3), len(question_set.passages))
    indexes = list(dict.fromkeys([*gold_indexes, *following]))[:_NUM_SMALL_STORE_PASSAGES]
    return [question_set.passages[index] for index in sorted(indexes)]


def compute_features(
    store: kvstore.Store, labels: QuestionLabels, text: str, is_own: bool, is_tuning: bool, where: str | None = None
) -> QuestionFeatures:
    """Search a store for the question ``text``, and return the features of the confidence of an answer.

    ``where`` restricts the search.
    """
    _, confidence = store.weigh(text, where=where)
    feature_names = sorted((SIMILARITY_WEIGHTS.keys() | WORD_WEIGHTS.keys()) - {"constant"})
    return QuestionFeatures(
        *labels, {feature: getattr(confidence, feature) or 0.0 for feature in feature_names}, is_own, is_tuning
    )


def fit_and_evaluate(
    questions: Sequence[QuestionFeatures], feature_names: Sequence[str], min_confidence: float
) -> dict[str, Any]:
    """Fit weights on the tuning questions, and return them with the figures of the other questions.

    A question is answered if its confidence is at least ``min_confidence``. ``area_tune`` is the only figure of the
    tuning questions. For each set in ``held_out``, the weights are fitted without that set, and all of its questions
    count.
    """
    withheld_features = _build_table([question for question in questions if question.is_withheld], feature_names)
    questions = [question for question in questions if not question.is_withheld]
    features = _build_table(questions, feature_names)
    is_own = np.array([question.is_own for question in questions], float)
    is_tuning = np.array([question.is_tuning for question in questions])
    weights = _fit_weights(questions, features, is_tuning)
    confidence = _predict(features, weights)
    is_answered = confidence >= min_confidence
    is_reported = ~is_tuning
    held_out = {}
    for name in sorted({question.set for question in questions}):
        is_held_out = np.array([name in (question.set, question.question_set) for question in questions])
        held_out_weights = _fit_weights(questions, features, is_tuning & ~is_held_out)
        is_answered_held_out = _predict(features, held_out_weights) >= min_confidence
        held_out[name] = _compute_answered_shares(questions, is_answered_held_out, is_held_out)
    return {
        "weights": {
            name: round(float(value), 2) for name, value in zip([*feature_names, "constant"], weights, strict=True)
        },
        "area_tune": round(compute_area_under_curve(confidence[is_tuning], is_own[is_tuning]), 4),
        "area_report": round(compute_area_under_curve(confidence[is_reported], is_own[is_reported]), 4),
        "answered_own": round(float(is_answered[is_reported & (is_own == 1)].mean()), 4),
        "answered_others": round(float(is_answered[is_reported & (is_own == 0)].mean()), 4),
        "answered_withheld": round(float((_predict(withheld_features, weights) > min_confidence).mean()), 4)
        if len(withheld_features)
        else None,
        "answered": _compute_answered_shares(questions, is_answered, is_reported),
        "held_out": held_out,
    }


def _predict(features: Numbers, weights: Numbers) -> Numbers:
    """Return the confidence of each question by a logistic model."""
    return 1 / (1 + np.exp(-(features @ weights)))


def _build_table(questions: Sequence[QuestionFeatures], feature_names: Sequence[str]) -> Numbers:
    """Return the named features of each question and a constant 1, shape (questions, names + 1)."""
    rows = [[*(question.features[name] for name in feature_names), 1.0] for question in questions]
    return np.array(rows).reshape(len(questions), len(feature_names) + 1)


def _fit_weights(questions: Sequence[QuestionFeatures], features: Numbers, is_selected: Mask) -> Numbers:
    """Return the weights of the features in a logistic model of ``is_own``, fitted on selected questions.

    The weight of the constant is last.
    """
    is_own = np.array([question.is_own for question in questions], float)
    question_weights = _compute_question_weights(questions, is_selected)
    weights = np.zeros(features.shape[1])
    # The constant is not regularized; its small value only makes the matrix invertible.
    ridge = np.diag([*([2 * _RIDGE] * (len(weights) - 1)), 1e-12])
    for _ in range(_STEPS):  # Newton's method
        predicted = _predict(features, weights)
        gradient = features.T @ (question_weights * (predicted - is_own)) + ridge @ weights
        hessian = (features.T * (question_weights * predicted * (1 - predicted))) @ features + ridge
        weights -= np.linalg.solve(hessian, gradient)
    return weights


def _compute_question_weights(questions: Sequence[QuestionFeatures], is_selected: Mask) -> Numbers:
    """Return the weight of each question in the fit, 0 for those that are not selected.

    The weights of the answerable questions add up to 1, and so do those of the unanswerable ones.
    """
    # A question weighs 1 / the size of its group, so that large sets of questions do not dominate. Among unanswerable
    # questions, those on the topics of the store weigh as much as those on other topics.
    groups = [
        (question.store, question.is_own, question.question_set == question.set, question.questions)
        for question in questions
    ]
    num_questions = Counter(group for group, is_used in zip(groups, is_selected, strict=True) if is_used)
    num_groups = Counter((store, is_own, is_same_set) for store, is_own, is_same_set, _ in num_questions)
    num_topics = Counter((store, is_own) for store, is_own, _ in num_groups)  # 2 if on its topics and on others
    question_weights = np.array(
        [
            is_used / max(1, num_questions[group] * num_groups[group[:3]] * num_topics[group[:2]])
            for group, is_used in zip(groups, is_selected, strict=True)
        ]
    )
    is_own = np.array([question.is_own for question in questions], bool)
    for is_in_class in (~is_own, is_own):
        question_weights[is_in_class] /= question_weights[is_in_class].sum()
    return question_weights


def _compute_answered_shares(
    questions: Sequence[QuestionFeatures], is_answered: Mask, is_counted: Mask
) -> dict[str, float]:
    """Return the share of answered questions among those that are counted, by "STORE asked QUESTIONS"."""
    outcomes: dict[str, list[bool]] = {}
    for question, is_included, was_answered in zip(questions, is_counted, is_answered, strict=True):
        if is_included:
            kind = "its own " if question.is_own else "others of " if question.store == "small" else ""
            label = "its own" if question.is_own and question.store == "small" else f"{kind}{question.questions}"
            outcomes.setdefault(f"{question.store} asked {label}", []).append(bool(was_answered))
    return {label: round(sum(was_answered) / len(was_answered), 3) for label, was_answered in sorted(outcomes.items())}


if __name__ == "__main__":
    main()
