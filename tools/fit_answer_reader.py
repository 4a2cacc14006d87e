"""Fit the weights of the answer reader: those of the score of a sentence, and of the confidence of an answer. The
*signals* of a sentence are the reader's logit and a score by rule; a *right* sentence contains the answer. It can lack
the *type* of answer that is asked for, such as an amount.

    python tools/fit_answer_reader.py SET ... [--report SET] ... [--limit N] [--store FOLDER] [--data FOLDER]

A SET is one of ``tools/evaluate_answers.py``. Every second question is fitted on; the others are reported. In: the
signals of every sentence that the reader reads for a question, and if it is right. Out: the weights of the score, for
which a softmax over the sentences of a question gives the right ones the most probability; then those of the confidence
that the best sentence is right, a logistic model. Every set has the same total weight. ``--report`` names sets that are
not fitted on. The penalty of a sentence without the type of answer is not fitted.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from evaluation.answer_sets import load_answer_sets
from measured_on import ROOT

import kvstore
from kvstore.answering.answer_reader.reading import MISSING_TYPE_LOGIT, MISSING_TYPE_SCORE
from kvstore.evaluation import Question
from kvstore.evaluation.asked_questions import compute_area_under_curve

Numbers = npt.NDArray[np.float64]
#: The signals of a sentence, and those of an answer that decide how likely its best sentence is right.
SENTENCE_SIGNALS = ("answered", "rules")
ANSWER_SIGNALS = ("answered",)
#: The ridge penalty of all weights, and the steps and the rate of gradient descent.
_RIDGE, _STEPS, _RATE = 1e-3, 400, 0.1
_NEWTON_STEPS = 30
#: The number of sentences of an answer.
_NUM_SHOWN = 3
#: The least confidences for which refusals are reported.
_THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5)


@click.command()
@click.argument("sets", nargs=-1, required=True, metavar="SET...")
@click.option("--report", "reported_sets", multiple=True, metavar="SET", help="A set that is not fitted on.")
@click.option("--data", type=click.Path(path_type=Path), default=ROOT.parent / "shared" / "data", help="Data folder.")
@click.option("--limit", type=int, help="Maximum number of questions of each kind and store.")
@click.option(
    "--store", "store_folder", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used."
)
@click.option(
    "--read", "signals_folder", type=click.Path(path_type=Path), help="Keep the signals in this folder, and reuse them."
)
def main(
    sets: tuple[str, ...],
    reported_sets: tuple[str, ...],
    data: Path,
    limit: int | None,
    store_folder: Path | None,
    signals_folder: Path | None,
) -> None:
    """Fit the weights, and print them with the area under the ROC curve and the shares of refused questions."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in (*sets, *reported_sets):
            signals_file = (signals_folder or Path(scratch)) / (re.sub(r"\W+", "-", name) + ".jsonl")
            if not signals_file.is_file():
                set_rows = collect_signals(name, data, limit, store_folder or Path(scratch))
                signals_file.parent.mkdir(exist_ok=True)
                signals_file.write_text("".join(json.dumps(row) + "\n" for row in set_rows), encoding="utf-8")
            for line in signals_file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                rows.append(row | {"is_fitted": row["is_fitted"] and name in sets})
    print(json.dumps(fit_weights(rows), indent=1))


def collect_signals(name: str, data: Path, limit: int | None, folder: Path) -> list[dict[str, Any]]:
    """Return a row of signals for each question of a set, except questions for which the reader reads no sentence.

    Every second question is marked as one to fit on (``is_fitted``).
    """
    rows = []
    for answer_set in load_answer_sets(name, data, limit):
        path = folder / re.sub(r"\W+", "-", answer_set.name.removesuffix(":choose").removesuffix(":report"))
        with kvstore.open(path) as store:
            if not store.keys(limit=1):
                answer_set.fill(store)
            for index, question in enumerate(answer_set.questions):
                row = compute_signals(store, question)
                if row is not None:
                    rows.append({"set": name, "is_fitted": index % 2 == 0, **row})
    return rows


def compute_signals(store: kvstore.Store, question: Question) -> dict[str, Any] | None:
    """Return the row of a question: the signals of the sentences that the answer reader reads, and which are right.

    ``missing`` marks sentences without the type of answer. Return None if the reader reads nothing.
    """
    asker = store._make_asker()
    with asker.open_query(question.text, {}) as (strategy, query):
        evidence = asker.retrieve_evidence(strategy, query)
        _, reading = asker._read_evidence(query, evidence, {})
        if reading is None:
            return None
    positions = (sentence.position for sentence in reading.candidates)
    texts = [reading.passages[passage].snippets[snippet].labeled_text for passage, snippet in positions]
    return {
        "question": question.text,
        "kind": question.kind,
        "signals": [[sentence.logit, sentence.rule_score] for sentence in reading.candidates],
        "missing": [sentence.lacks_answer_type for sentence in reading.candidates],
        "right": [question.is_right(text) for text in texts],
        "is_long": question.is_long,
        "texts": texts,
    }


def fit_weights(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Fit the weights of the score and of the confidence; return them, and the figures of every set.

    ``rows`` are those of :func:`collect_signals`, one for each question. The figures of a set are separate for the
    questions that were fitted on and for the others.
    """
    fitted_rows = [row for row in rows if row["is_fitted"]]
    set_sizes = Counter(row["set"] for row in fitted_rows)
    answered_rows = [row for row in fitted_rows if any(row["right"]) and not row["is_long"]]
    sentence_weights = fit_sentence_weights(answered_rows, _compute_row_weights(answered_rows, set_sizes))
    for row in rows:
        _add_best_sentence(row, sentence_weights)
    features = np.array([[*row["best"], 1.0] for row in rows])
    offsets = MISSING_TYPE_LOGIT * np.array([row["lacks_answer_type"] for row in rows])
    is_right = np.array([float(row["first"]) for row in rows])
    is_fitted = np.array([row["is_fitted"] for row in rows])
    row_weights = _compute_row_weights(fitted_rows, set_sizes)
    confidence_weights = fit_logistic(features[is_fitted], offsets[is_fitted], is_right[is_fitted], row_weights)
    confidence = 1 / (1 + np.exp(-(features @ confidence_weights + offsets)))
    figures: dict[str, Any] = {
        "score": dict(zip(SENTENCE_SIGNALS, np.round(sentence_weights, 3).tolist(), strict=True)),
        "confidence": dict(zip([*ANSWER_SIGNALS, "constant"], np.round(confidence_weights, 3).tolist(), strict=True)),
    }
    kinds = np.array([row["kind"] for row in rows])
    for name in dict.fromkeys(row["set"] for row in rows):
        for are_fitted in (True, False):
            is_selected = np.array([row["set"] == name and row["is_fitted"] == are_fitted for row in rows])
            if is_selected.any():
                label = f"{name}, {'fitted on' if are_fitted else 'reported'}"
                figures[label] = compute_figures(confidence[is_selected], is_right[is_selected], kinds[is_selected])
    return figures


def _compute_row_weights(rows: list[dict[str, Any]], set_sizes: Mapping[str, int]) -> Numbers:
    """Return the weight of each question, 1 on average; a set has the same weight, however many questions it has."""
    weights = np.array([1 / set_sizes[row["set"]] for row in rows])
    return weights / weights.mean()


def _add_best_sentence(row: dict[str, Any], sentence_weights: Numbers) -> None:
    """Add what the confidence needs to the row of a question: the keys ``best``, ``lacks_answer_type`` and ``first``.

    ``best`` has the ANSWER_SIGNALS of the sentence with the highest score, and ``lacks_answer_type`` is 1 if that
    sentence lacks the type of answer. ``first`` is True if a shown sentence is right.
    """
    scores = np.array(row["signals"]) @ sentence_weights + MISSING_TYPE_SCORE * np.array(row["missing"], float)
    best_index = int(scores.argmax())
    # Several sentences are shown for a question that asks for more than one.
    shown_indexes = np.argsort(-scores)[: _NUM_SHOWN if row["is_long"] else 1]
    row["first"] = any(row["right"][index] for index in shown_indexes)
    row["lacks_answer_type"] = float(row["missing"][best_index])
    row["best"] = [row["signals"][best_index][0]]


def compute_figures(confidence: Numbers, is_right: Numbers, kinds: npt.NDArray[np.str_]) -> dict[str, Any]:
    """Return the figures of some questions, given the confidence, the outcome and the kind of each.

    The kind is ``answerable`` or ``near`` (a near miss: the documents do not answer it). ``first`` is the share of the
    answerable questions with a right first sentence. ``first_all`` is the share that is also answered at a minimum
    confidence. ``auc`` compares answerable questions with near misses, and ``near_refused_at_90`` is the share of
    refused near misses if 90 % of the answerable questions are answered.
    """
    is_answerable, is_near = kinds == "answerable", kinds == "near"
    figures: dict[str, Any] = {"questions": len(kinds), "first": round(float(is_right[is_answerable].mean()), 3)}
    if is_near.any():
        is_compared = is_answerable | is_near
        # 90 % of the questions with an answer reach this confidence.
        threshold = np.quantile(confidence[is_answerable], 0.1)
        figures |= {
            "auc": round(
                compute_area_under_curve(confidence[is_compared], is_answerable[is_compared].astype(float)), 3
            ),
            "near_refused_at_90": round(float((confidence[is_near] < threshold).mean()), 3),
        }
    for min_confidence in _THRESHOLDS:
        is_answered = confidence >= min_confidence
        figures[f"at {min_confidence}"] = {
            "answered": round(float(is_answered[is_answerable].mean()), 3),
            "first_all": round(float((is_right * is_answered)[is_answerable].mean()), 3),
            **({"near_refused": round(float((~is_answered[is_near]).mean()), 3)} if is_near.any() else {}),
        }
    return figures


def fit_sentence_weights(rows: list[dict[str, Any]], row_weights: Numbers) -> Numbers:
    """Return the weights for which a softmax over the sentences gives the right ones the most probability.

    Gradient descent maximizes the log-likelihood. Every question of ``rows`` has a right sentence; ``row_weights`` has
    the weight of each question.
    """
    weights = np.zeros(len(SENTENCE_SIGNALS))
    examples = [
        (np.array(row["signals"]), MISSING_TYPE_SCORE * np.array(row["missing"], float), np.array(row["right"], float))
        for row in rows
    ]
    for _ in range(_STEPS):
        gradient = _RIDGE * weights
        for (features, offset, is_right), row_weight in zip(examples, row_weights, strict=True):
            scores = features @ weights + offset
            probabilities = np.exp(scores - scores.max())
            probabilities /= probabilities.sum()
            right_probabilities = probabilities * is_right / (probabilities * is_right).sum()
            gradient -= row_weight * (features.T @ (right_probabilities - probabilities)) / len(examples)
        weights -= _RATE * gradient
    return weights


def fit_logistic(features: Numbers, offsets: Numbers, is_right: Numbers, row_weights: Numbers) -> Numbers:
    """Return the weights of the features in a logistic model of ``is_right``, by Newton's method.

    The last feature is the constant. ``offsets`` are added to the logit and not fitted.
    """
    weights = np.zeros(features.shape[1])
    # The constant has almost no penalty.
    ridge = np.diag([*([2 * _RIDGE * len(features)] * (len(weights) - 1)), 1e-9])
    for _ in range(_NEWTON_STEPS):
        predicted = 1 / (1 + np.exp(-(features @ weights + offsets)))
        gradient = features.T @ (row_weights * (predicted - is_right)) + ridge @ weights
        hessian = (features.T * (row_weights * predicted * (1 - predicted))) @ features + ridge
        weights -= np.linalg.solve(hessian, gradient)
    return weights


if __name__ == "__main__":
    main()
