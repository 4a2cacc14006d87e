"""Measure whole answers: are they right, in the first sentence, short, and refused where the store has none?

    python tools/evaluate_answers.py SET ... [--limit N] [--store FOLDER] [--data FOLDER] [--details FILE] [--json]

A SET is ``squad2`` (held-out articles, all passages in one store, with the near misses that people wrote),
``squad2:choose`` (the articles that thresholds are chosen on), ``notes`` (tools/note_folders), ``folders`` (three real
folders), or ``hotpotqa``; ``notes:NAME`` and ``folders:NAME`` are one store of these. ``--limit`` takes so many
questions of each kind, with a fixed seed. Every question is asked with the defaults.

Figures, for each store and for each SET of several stores:
- ``hit@k``: the documents of the first k hits have the answer (all documents that are needed).
- Of the questions with an answer that are answered: ``first`` (the first sentence, item or row holds it; the whole text
  for answers that need several), ``right`` (the text holds it), ``words``. ``first_all`` and ``right_all`` are of all
  questions with an answer. The measure of text is a necessary sign of a right answer, not a proof.
- ``answered``, ``near_refused``, ``foreign_refused``: shares of the questions of each kind.
- ``auc``: how often a question with an answer has more confidence than a near miss; ``auc_plain``: of questions without
  a negation. ``near_refused_at_90``: near misses below the confidence that 90 % of the questions with an answer reach.
- ``ece``: expected calibration error of ``confidence`` over all answers given (ten bins); right means that the first
  sentence holds the answer.
- ``cpu_ms``: processor time of an ASK, all threads, the first excepted.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from evaluation.answer_sets import AnswerQuestion, AnswerSet, load_answer_sets
from evaluation.answers import compute_area_under_curve

import kvstore
from kvstore.text.sentences import split_sentences

_CITATION_PATTERN = re.compile(r"\s*\[\d+(?:, \d+)*\]")
_HITS = (1, 3, 8)
_NUM_BINS = 10


@dataclass(frozen=True)
class AskedQuestion:
    """A question with its answer: the text, its first sentence, and what is measured of it."""

    question: AnswerQuestion
    text: str
    first: str
    answered: bool
    confidence: float
    documents: list[str]
    cpu_ms: float

    @property
    def is_first_right(self) -> bool:
        """True if the first sentence holds the answer, or the whole text if the answer needs several."""
        return self.question.is_right(self.text if self.question.is_long else self.first)

    def has_hit(self, depth: int) -> bool:
        """True if the first ``depth`` hits have the documents that answer."""
        found, gold = set(self.documents[:depth]), self.question.gold
        return gold <= found if self.question.needs_all_gold else bool(gold & found)


@click.command()
@click.argument("sets", nargs=-1, required=True, metavar="SET...")
@click.option("--data", type=click.Path(exists=True, path_type=Path), default=Path("/work/shared/data"))
@click.option("--limit", type=int, help="The most questions of each kind and store.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep stores in this folder, and use them again.")
@click.option("--details", type=click.Path(path_type=Path), help="Write every question with its answer, as JSON lines.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON only.")
def main(
    sets: tuple[str, ...], data: Path, limit: int | None, store: Path | None, details: Path | None, as_json: bool
) -> None:
    """Ask every question of the sets, and print the figures of each."""
    rows: list[dict[str, Any]] = []
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = store or Path(scratch)
        folder.mkdir(exist_ok=True)
        for name in sets:
            asked_of_set: list[AskedQuestion] = []
            answer_sets = load_answer_sets(name, data, limit)
            for answer_set in answer_sets:
                asked = ask_set(answer_set, folder)
                rows.append({"set": answer_set.name, **summarize(asked)})
                asked_of_set += asked
                lines += [{"set": answer_set.name, **_describe(each)} for each in asked]
            if len(answer_sets) > 1:
                rows.append({"set": name, **summarize(asked_of_set)})
    if details is not None:
        details.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    print(json.dumps({"rows": rows}) if as_json else format_table(rows))


def ask_set(answer_set: AnswerSet, folder: Path) -> list[AskedQuestion]:
    """Ask a store all its questions."""
    name = re.sub(r"\W+", "-", answer_set.name.removesuffix(":choose").removesuffix(":report"))
    with kvstore.open(folder / name) as opened:
        if not opened.keys(limit=1):
            answer_set.fill(opened)
        opened.ask(answer_set.questions[0].text)  # load models and caches
        outcomes = []
        for number, question in enumerate(answer_set.questions, 1):
            started = time.process_time()
            answer = opened.ask(question.text)
            elapsed = 1000 * (time.process_time() - started)
            text = _CITATION_PATTERN.sub("", answer.text)
            documents = list(dict.fromkeys(hit.document for hit in answer.evidence.hits))
            outcomes.append(
                AskedQuestion(
                    question, text, _cut_first(text), not answer.abstained, answer.confidence, documents, elapsed
                )
            )
            if sys.stderr.isatty():
                print(f"\r{answer_set.name}: {number} of {len(answer_set.questions)}", end="", file=sys.stderr)
    return outcomes


def _cut_first(text: str) -> str:
    """Return the first sentence, item or row of an answer."""
    line = text.strip().partition("\n")[0]
    return next((line[start:end] for start, end in split_sentences(line)), line)


def summarize(asked: Sequence[AskedQuestion]) -> dict[str, Any]:
    """Return the figures of some questions; a figure that no question shows is left out."""
    answerable = [outcome for outcome in asked if outcome.question.kind == "answerable"]
    near = [outcome for outcome in asked if outcome.question.kind == "near"]
    foreign = [outcome for outcome in asked if outcome.question.kind == "foreign"]
    with_gold = [outcome for outcome in answerable if outcome.question.gold]
    answered = [outcome for outcome in answerable if outcome.answered]
    figures: dict[str, Any] = {"answerable": len(answerable), "near": len(near), "foreign": len(foreign)}
    if with_gold:
        figures |= {f"hit@{depth}": _mean([outcome.has_hit(depth) for outcome in with_gold]) for depth in _HITS}
    figures["answered"] = _mean([outcome.answered for outcome in answerable])
    figures["first"] = _mean([outcome.is_first_right for outcome in answered])
    figures["right"] = _mean([outcome.question.is_right(outcome.text) for outcome in answered])
    figures["first_all"] = _mean([outcome.answered and outcome.is_first_right for outcome in answerable])
    figures["right_all"] = _mean(
        [outcome.answered and outcome.question.is_right(outcome.text) for outcome in answerable]
    )
    figures["words"] = _mean([len(outcome.text.split()) for outcome in answered])
    if near:
        figures["near_refused"] = _mean([not outcome.answered for outcome in near])
        figures["auc"] = compute_auc([*answerable, *near])
        figures["auc_plain"] = compute_auc(
            [outcome for outcome in (*answerable, *near) if not outcome.question.is_negated]
        )
        threshold = float(np.quantile([outcome.confidence for outcome in answerable], 0.1))
        figures["near_refused_at_90"] = _mean([outcome.confidence < threshold for outcome in near])
    if foreign:
        figures["foreign_refused"] = _mean([not outcome.answered for outcome in foreign])
    weighed = [(outcome.confidence, outcome.is_first_right) for outcome in asked if outcome.answered]
    figures["ece"] = compute_calibration_error(weighed)
    figures["cpu_ms"] = round(statistics.mean(outcome.cpu_ms for outcome in asked))
    return {name: value for name, value in figures.items() if value is not None}


def compute_auc(asked: Sequence[AskedQuestion]) -> float | None:
    """Return the area under the ROC curve of the confidence, with questions that have an answer as positives."""
    truth = [float(outcome.question.kind == "answerable") for outcome in asked]
    if len(set(truth)) < 2:
        return None
    return round(compute_area_under_curve([outcome.confidence for outcome in asked], truth), 3)


def compute_calibration_error(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Return the mean distance of confidence and share of right answers over ten bins, weighted by their sizes.

    >>> compute_calibration_error([(0.9, True), (0.9, False)])
    0.4
    """
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, is_right in pairs:
        bins.setdefault(min(_NUM_BINS - 1, int(confidence * _NUM_BINS)), []).append((confidence, is_right))
    distances = [
        len(own) * abs(statistics.mean(c for c, _ in own) - statistics.mean(r for _, r in own)) for own in bins.values()
    ]
    return round(sum(distances) / len(pairs), 3) if pairs else None


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.mean(map(float, values)), 3) if values else None


def _describe(asked: AskedQuestion) -> dict[str, Any]:
    """Return a question with its answer for the file of details."""
    question = asked.question
    return {
        "question": question.text, "kind": question.kind, "part": question.part, "answered": asked.answered,
        "confidence": round(asked.confidence, 4), "first_right": asked.is_first_right,
        "right": question.is_right(asked.text), "text": asked.text,
        "hit@8": asked.has_hit(8) if question.gold else None,
    }  # fmt: skip


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table with a line for each figure and a column for each set."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "set"))
    width = max(map(len, names))
    widths = [max(8, len(row["set"])) for row in rows]
    heads = [row["set"].rjust(size) for row, size in zip(rows, widths, strict=True)]
    lines = [" " * width + "  " + "  ".join(heads)]
    for name in names:
        cells = [str(row.get(name, "")).rjust(size) for row, size in zip(rows, widths, strict=True)]
        lines.append(f"{name:{width}}  {'  '.join(cells)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
