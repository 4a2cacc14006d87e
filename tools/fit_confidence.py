"""Fit and measure the confidence of answers: stores asked their own questions, and those of others.

    python tools/fit_confidence.py --data FOLDER[:N] ... [--small N] [--store FOLDER] [--json]

Every set (see tools/evaluate.py) becomes a store, and is asked its own questions and those of all other sets.
``--small`` adds stores of ten passages each, made around a question's, so that size decides nothing. In: the parts of
:class:`~kvstore.answering.confidence.Confidence` for each question and store. Out: the weights of a logistic model,
fitted on the even questions of every pair, and for the odd ones the share answered of own and of other questions, and
the area under the ROC curve. Pairs count alike, own ones together as much as the others together.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from evaluation.answers import area_under_curve
from evaluation.question_sets import QuestionSet, fill, load

import kvstore
from kvstore.answering.confidence import WITH_SIMILARITY, WORDS_ALONE

#: Questions of another set that a store is asked, at most, and those that a small store is asked.
_OTHERS, _OF_SMALL = 50, 20
#: Passages of a small store.
_PASSAGES = 10
#: How much large weights are held back.
_RIDGE = 1e-4
_STEPS = 30

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """One question to one store: the parts of its confidence, whether the store answers it, and its half."""

    store: str
    questions: str
    parts: dict[str, float]
    own: bool
    tuning: bool


@click.command()
@click.option("--data", multiple=True, required=True, metavar="FOLDER[:N]", help="A question set.")
@click.option("--small", default=20, show_default=True, help="How many stores of ten passages to make.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep stores in this folder, and use them again.")
@click.option("--least", default=0.4, show_default=True, help="The confidence from which on a question is answered.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(data: tuple[str, ...], small: int, store: Path | None, least: float, as_json: bool) -> None:
    """Fit the weights of the confidence, and measure them on other questions."""
    sets = [load(place, None) for place in data]
    with tempfile.TemporaryDirectory() as scratch:
        folder = store or Path(scratch)
        folder.mkdir(exist_ok=True)
        asked = [each for questions in sets for each in of_store(folder, questions, sets)]
        asked += [each for number in range(small) for each in of_small(folder, sets, number)]
    report = {
        name: fitted(asked, [part for part in weights if part != "constant"], least)
        for name, weights in (("with similarity", WITH_SIMILARITY), ("words alone", WORDS_ALONE))
    }
    print(json.dumps(report) if as_json else json.dumps(report, indent=1))


def of_store(folder: Path, own: QuestionSet, sets: Sequence[QuestionSet]) -> list[Asked]:
    """What a store of one set says to the questions of all."""
    found = []
    with kvstore.open(folder / own.name.replace(":", "-")) as opened:
        if not opened.keys(limit=1):
            fill(opened, own, False, lambda text: None)
        for questions in sets:
            mine = questions is own
            step = 1 if mine else max(1, len(questions.questions) // _OTHERS)
            for number, question in enumerate(questions.questions[::step]):
                found.append(ask(opened, own.name, questions.name, question.text, mine, number % 2 == 0))
    return found


def of_small(folder: Path, sets: Sequence[QuestionSet], number: int) -> list[Asked]:
    """What a store of ten passages says to the question it was made around, and to others of the same set."""
    own = sets[number % len(sets)]
    question = own.questions[(number * 7) % len(own.questions)]
    places = [place for place, passage in enumerate(own.passages) if passage["id"] in question.gold]
    around = range(max(0, places[0] - 3), len(own.passages))
    chosen = list(dict.fromkeys([*places, *around]))[:_PASSAGES]
    taken = {own.passages[place]["id"] for place in chosen}
    found = []
    with kvstore.open(folder / f"small-{number}") as opened:
        if not opened.keys(limit=1):
            with opened.transaction() as transaction:
                for place in sorted(chosen):
                    passage = own.passages[place]
                    transaction.put(passage["id"], passage["text"], title=passage.get("title"))
        step = max(1, len(own.questions) // _OF_SMALL)
        for place, other in enumerate([question, *own.questions[::step]]):
            if other.gold <= taken or other.gold.isdisjoint(taken):
                mine = other.gold <= taken
                found.append(ask(opened, "small", own.name, other.text, mine, (place + number) % 2 == 0))
    return found


def ask(store: kvstore.Store, name: str, questions: str, text: str, own: bool, tuning: bool) -> Asked:
    """The parts of the confidence of one question."""
    store.set("least_confidence", 1)  # nothing has to be answered
    weighed = store.ask(text, model="none").weighed
    assert weighed is not None
    parts = {
        "similarity": weighed.similarity or 0.0,
        "coverage": weighed.coverage,
        "gathered": weighed.gathered,
        "agreement": weighed.agreement,
        "missing": weighed.missing,
        "unknown": weighed.unknown_share,
    }
    return Asked(name, questions, parts, own, tuning)


def fitted(asked: Sequence[Asked], names: Sequence[str], least: float) -> dict[str, Any]:
    """The weights that fit the questions for choosing, and how they do on the others."""
    parts = np.array([[*(each.parts[name] for name in names), 1.0] for each in asked])
    own = np.array([each.own for each in asked], float)
    tuning = np.array([each.tuning for each in asked])
    pairs = [(each.store, each.questions, each.own) for each in asked]
    weights = np.array([1 / pairs.count(pair) for pair in pairs])
    for kind in (0.0, 1.0):
        weights[own == kind] /= weights[own == kind].sum()

    values = np.zeros(len(names) + 1)
    ridge = np.diag([*([2 * _RIDGE] * len(names)), 1e-12])
    for _ in range(_STEPS):  # Newton's method
        told = 1 / (1 + np.exp(-(parts[tuning] @ values)))
        slope = parts[tuning].T @ (weights[tuning] * (told - own[tuning])) + ridge @ values
        curve = (parts[tuning].T * (weights[tuning] * told * (1 - told))) @ parts[tuning] + ridge
        values -= np.linalg.solve(curve, slope)
    confidence = 1 / (1 + np.exp(-(parts @ values)))
    report = ~tuning
    answered = {}
    for pair in sorted(set(pairs)):
        rows = report & np.array([each == pair for each in pairs])
        if rows.any():
            store, questions, mine = pair
            label = f"{store} asked {'its own' if mine else 'others of ' if store == 'small' else ''}"
            answered[f"{label}{'' if mine else questions}"] = round(float((confidence[rows] >= least).mean()), 3)
    return {
        "weights": {name: round(float(value), 2) for name, value in zip([*names, "constant"], values, strict=True)},
        "area_tune": round(area_under_curve(confidence[tuning], own[tuning]), 4),
        "area_report": round(area_under_curve(confidence[report], own[report]), 4),
        "answered_own": round(float((confidence[report & (own == 1)] >= least).mean()), 4),
        "answered_others": round(float((confidence[report & (own == 0)] >= least).mean()), 4),
        "answered": answered,
    }


if __name__ == "__main__":
    main()
