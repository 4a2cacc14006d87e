"""Fit what is made of the answer reader's logits: the score of a sentence, and the confidence of an answer.

    python tools/fit_answer_reader.py SET ... [--report SET] ... [--limit N] [--store FOLDER] [--data FOLDER]

A SET is one of ``tools/evaluate_answers.py``. Only its questions in even places are used, so that the others can be
reported. In: the signals of every sentence that the
reader reads for a question, and whether the sentence holds the answer. Out: the weights of the score, for which a
softmax over the sentences of a question gives the answering ones the most probability; then those of the confidence
that the best sentence answers, a logistic model. Every set has the same total weight. ``--report`` names sets that are
not fitted on. The weight of a sentence without the form that the question asks for is not fitted.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from evaluation.answer_sets import load_answer_sets

import kvstore
from kvstore.answering.answer_reader.reading import MISSING_CONFIDENCE, MISSING_SCORE
from kvstore.answering.confidence import estimate_confidence
from kvstore.answering.extractive import render_snippet
from kvstore.evaluation import Question
from kvstore.evaluation.asked_questions import compute_area_under_curve

Numbers = npt.NDArray[np.float64]
#: The signals of a sentence, and those of an answer that decide how likely its best sentence is right.
SENTENCE_SIGNALS = ("answered", "rules")
ANSWER_SIGNALS = ("answered", "rules")
_RIDGE, _STEPS, _RATE = 1e-3, 400, 0.1
#: The number of sentences of an answer.
_NUM_SHOWN = 3
#: The least confidences for which refusals are reported.
_THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5)


@click.command()
@click.argument("sets", nargs=-1, required=True, metavar="SET...")
@click.option("--report", "reported", multiple=True, metavar="SET", help="A set that is not fitted on.")
@click.option("--data", type=click.Path(exists=True, path_type=Path), default=Path("/work/shared/data"))
@click.option("--limit", type=int, help="The most questions of each kind and store.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep stores in this folder, and use them again.")
@click.option("--read", type=click.Path(path_type=Path), help="Keep what was read in this folder, and use it again.")
def main(
    sets: tuple[str, ...],
    reported: tuple[str, ...],
    data: Path,
    limit: int | None,
    store: Path | None,
    read: Path | None,
) -> None:
    """Fit the weights, and print them with the area under the curve and the shares refused."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in (*sets, *reported):
            file = (read or Path(scratch)) / (re.sub(r"\W+", "-", name) + ".jsonl")
            if not file.is_file():
                own = read_set(name, data, limit, store or Path(scratch))
                file.parent.mkdir(exist_ok=True)
                file.write_text("".join(json.dumps(row) + "\n" for row in own), encoding="utf-8")
            for line in file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                rows.append(row | {"is_fitted": row["is_fitted"] and name in sets})
    print(json.dumps(fit(rows), indent=1))


def read_set(name: str, data: Path, limit: int | None, folder: Path) -> list[dict[str, Any]]:
    """Return the signals of every question of a set."""
    rows = []
    for answer_set in load_answer_sets(name, data, limit):
        path = folder / re.sub(r"\W+", "-", answer_set.name.removesuffix(":choose").removesuffix(":report"))
        with kvstore.open(path) as opened:
            if not opened.keys(limit=1):
                answer_set.fill(opened)
            for number, question in enumerate(answer_set.questions):
                row = read_question(opened, question)
                if row is not None:
                    rows.append({"set": name, "is_fitted": number % 2 == 0, **row})
    return rows


def read_question(store: kvstore.Store, question: Question) -> dict[str, Any] | None:
    """Return the signals of the sentences read for a question, and which of them are right."""
    asker = store._make_asker()
    with asker._open_query(question.text, {}) as (strategy, query):
        evidence = asker._retrieve_evidence(strategy, query)
        _, reading = asker._read_evidence(query, evidence, {})
        if reading is None:
            return None
        by_rules = estimate_confidence(
            query, evidence.hits, evidence.context, lambda: reading.rule_scores.nearest
        ).value
    texts = [render_snippet(reading.passages[r.position[0]].snippets[r.position[1]]) for r in reading.readings]
    by_rules = min(max(by_rules, 1e-6), 1 - 1e-6)
    return {
        "question": question.text,
        "kind": question.kind,
        "signals": [[r.logit, r.rule_score] for r in reading.readings],
        "missing": [r.is_kind_missing for r in reading.readings],
        "right": [question.is_right(text) for text in texts],
        "is_long": question.is_long,
        "rules": math.log(by_rules / (1 - by_rules)),
        "texts": texts,
    }


def fit(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fitted weights, with figures of every set, apart for the questions that were fitted on."""
    chosen = [row for row in rows if row["is_fitted"]]
    sizes = {name: sum(row["set"] == name for row in chosen) for name in {row["set"] for row in chosen}}
    with_answer = [row for row in chosen if any(row["right"]) and not row["is_long"]]
    scale = np.array([1 / sizes[row["set"]] for row in with_answer])
    weights = fit_choice(with_answer, scale / scale.mean())
    for row in rows:
        scores = np.array(row["signals"]) @ weights + MISSING_SCORE * np.array(row["missing"], float)
        best = int(scores.argmax())
        # Several sentences answer a question that is_long.
        order = np.argsort(-scores)[: _NUM_SHOWN if row["is_long"] else 1]
        row["first"] = any(row["right"][index] for index in order)
        row["is_kind_missing"] = float(row["missing"][best])
        row["best"] = [row["signals"][best][0], row["rules"]]
    table = np.array([[*row["best"], 1.0] for row in rows])
    offset = MISSING_CONFIDENCE * np.array([row["is_kind_missing"] for row in rows])
    truth = np.array([float(row["first"]) for row in rows])
    is_fitted = np.array([row["is_fitted"] for row in rows])
    scale = np.array([1 / sizes[row["set"]] for row in chosen])
    values = fit_logistic(table[is_fitted], offset[is_fitted], truth[is_fitted], scale / scale.mean())
    confidence = 1 / (1 + np.exp(-(table @ values + offset)))
    figures: dict[str, Any] = {
        "score": dict(zip(SENTENCE_SIGNALS, np.round(weights, 3).tolist(), strict=True)),
        "confidence": dict(zip([*ANSWER_SIGNALS, "constant"], np.round(values, 3).tolist(), strict=True)),
    }
    for name in dict.fromkeys(row["set"] for row in rows):
        for half in (True, False):
            own = np.array([row["set"] == name and row["is_fitted"] == half for row in rows])
            if own.any():
                label = f"{name}, {'fitted on' if half else 'reported'}"
                kinds = np.array([row["kind"] for row in rows])
                figures[label] = measure(confidence[own], truth[own], kinds[own])
    return figures


def measure(confidence: Numbers, truth: Numbers, kinds: npt.NDArray[np.str_]) -> dict[str, Any]:
    """Return the figures of some questions."""
    answerable, near = kinds == "answerable", kinds == "near"
    figures: dict[str, Any] = {"questions": len(kinds), "first": round(float(truth[answerable].mean()), 3)}
    if near.any():
        both = answerable | near
        threshold = np.quantile(confidence[answerable], 0.1)
        figures |= {
            "auc": round(compute_area_under_curve(confidence[both], answerable[both].astype(float)), 3),
            "near_refused_at_90": round(float((confidence[near] < threshold).mean()), 3),
        }
    for least in _THRESHOLDS:
        answered = confidence >= least
        figures[f"at {least}"] = {
            "answered": round(float(answered[answerable].mean()), 3),
            "first_all": round(float((truth * answered)[answerable].mean()), 3),
            **({"near_refused": round(float((~answered[near]).mean()), 3)} if near.any() else {}),
        }
    return figures


def fit_choice(rows: list[dict[str, Any]], scale: Numbers) -> Numbers:
    """Return the weights for which a softmax over the sentences gives the right ones the most probability."""
    weights = np.zeros(len(SENTENCE_SIGNALS))
    tables = [
        (np.array(row["signals"]), MISSING_SCORE * np.array(row["missing"], float), np.array(row["right"], float))
        for row in rows
    ]
    for _ in range(_STEPS):
        slope = _RIDGE * weights
        for (table, offset, right), size in zip(tables, scale, strict=True):
            scores = table @ weights + offset
            share = np.exp(scores - scores.max())
            share /= share.sum()
            inside = share * right / (share * right).sum()
            slope -= size * (table.T @ (inside - share)) / len(tables)
        weights -= _RATE * slope
    return weights


def fit_logistic(table: Numbers, offset: Numbers, truth: Numbers, scale: Numbers) -> Numbers:
    """Return the weights of a logistic model, the constant last, by Newton's method; ``offset`` is added as it is."""
    values = np.zeros(table.shape[1])
    ridge = np.diag([*([2 * _RIDGE * len(table)] * (len(values) - 1)), 1e-9])
    for _ in range(30):
        expected = 1 / (1 + np.exp(-(table @ values + offset)))
        slope = table.T @ (scale * (expected - truth)) + ridge @ values
        curve = (table.T * (scale * expected * (1 - expected))) @ table + ridge
        values -= np.linalg.solve(curve, slope)
    return values


if __name__ == "__main__":
    main()
