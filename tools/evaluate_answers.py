"""Measure whole answers: how often they, or their first sentences, are right, how long they are, and how often a store
refuses a question that it cannot answer. A *set* has one or more stores with questions.

    python tools/evaluate_answers.py SET ... [--limit N] [--store FOLDER] [--data FOLDER] [--details FILE]
                                      [--rules] [--json]

For the names of sets, see :mod:`evaluation.answer_sets`. ``--limit`` draws this number of questions of each kind, with
a fixed seed. Every question is asked with the defaults; ``--rules`` disables the answer reader.

Figures, for each store, for each SET of several stores, and for all SETs together:
- ``hit@k``: the documents of the first k hits have the answer (all documents that are needed).
- Of the answerable questions that are answered: ``first`` (the first sentence, item or row contains the answer; the
  whole text for answers that need several), ``right`` (the text contains it), ``words``. ``first_all`` and
  ``right_all`` are of all answerable questions. A text that contains the answer may still be wrong.
- ``answered``, ``near_refused``, ``foreign_refused``: shares of the questions of each kind.
- ``auc``: how often an answerable question has more confidence than a near miss; ``auc_plain``: of questions without a
  negation. ``near_refused_at_90``: near misses below the confidence that 90 % of the answerable questions reach.
- ``ece``: expected calibration error of ``confidence`` over all answers given (ten bins); right means that the first
  sentence contains the answer. ``ece_by_chance``: the error that exact confidences would have with so few answers.
- ``cpu_ms``: processor time of an ASK, all threads, the first excepted.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from evaluation.answer_sets import AnswerSet, load_answer_sets
from measured_on import ROOT

import kvstore
from kvstore.evaluation import AskedQuestion, ask_questions
from kvstore.evaluation.asked_questions import compute_metrics


@click.command()
@click.argument("sets", nargs=-1, required=True, metavar="SET...")
@click.option("--data", type=click.Path(path_type=Path), default=ROOT.parent / "shared" / "data", help="Data folder.")
@click.option("--limit", type=int, help="Maximum number of questions of each kind and store.")
@click.option(
    "--store", "store_folder", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used."
)
@click.option("--details", type=click.Path(path_type=Path), help="Write every question with its answer, as JSON lines.")
@click.option("--rules", is_flag=True, help="Ask without the answer reader.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    sets: tuple[str, ...],
    data: Path,
    limit: int | None,
    store_folder: Path | None,
    details: Path | None,
    rules: bool,
    as_json: bool,
) -> None:
    """Ask every question of the sets, and print the figures of each."""
    rows: list[dict[str, Any]] = []
    details_rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = store_folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        all_questions: list[AskedQuestion] = []
        for name in sets:
            set_questions: list[AskedQuestion] = []
            answer_sets = load_answer_sets(name, data, limit)
            if not answer_sets:
                raise click.UsageError(f"{data} has no questions of the set {name!r}; pass its folder with --data")
            for answer_set in answer_sets:
                asked_questions = ask_set(answer_set, folder, rules)
                rows.append({"set": answer_set.name, **compute_metrics(asked_questions)})
                set_questions += asked_questions
                details_rows += [
                    {"set": answer_set.name, **_build_details_row(question)} for question in asked_questions
                ]
            if len(answer_sets) > 1:
                rows.append({"set": name, **compute_metrics(set_questions)})
            all_questions += set_questions
        if len(sets) > 1:
            rows.append({"set": "all", **compute_metrics(all_questions)})
    if details is not None:
        details.write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in details_rows), encoding="utf-8"
        )
    print(json.dumps({"rows": rows}) if as_json else format_table(rows))


def ask_set(answer_set: AnswerSet, folder: Path, rules: bool) -> list[AskedQuestion]:
    """Ask the store of a set all its questions, and return them with their answers.

    The store is created in ``folder`` unless it exists. ``rules`` disables the answer reader.
    """
    # Both parts of a set have the same store.
    name = re.sub(r"\W+", "-", answer_set.name.removesuffix(":choose").removesuffix(":report"))
    with kvstore.open(folder / name) as store:
        if not store.keys(limit=1):
            answer_set.fill(store)
        if rules:
            store.set("answer_reader", "off")

        def show_progress(num_asked: int) -> None:
            """Print the number of the current question if standard error is a terminal."""
            if sys.stderr.isatty():
                print(f"\r{answer_set.name}: {num_asked} of {len(answer_set.questions)}", end="", file=sys.stderr)

        return ask_questions(store, answer_set.questions, show_progress)


def _build_details_row(asked_question: AskedQuestion) -> dict[str, Any]:
    """Return a question with its answer for the file of details."""
    question = asked_question.question
    return {
        "question": question.text, "kind": question.kind, "part": question.part, "answered": asked_question.answered,
        "confidence": round(asked_question.confidence, 4), "first_right": asked_question.is_first_right,
        "right": asked_question.is_right, "text": asked_question.text,
        "hit@8": asked_question.has_hit(8) if question.gold else None,
    }  # fmt: skip


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text table with a line for each figure and a column for each row of ``rows``, headed by its set."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "set"))
    width = max(map(len, names))
    widths = [max(8, len(row["set"])) for row in rows]
    headings = [row["set"].rjust(size) for row, size in zip(rows, widths, strict=True)]
    lines = [" " * width + "  " + "  ".join(headings)]
    for name in names:
        cells = [str(row.get(name, "")).rjust(size) for row, size in zip(rows, widths, strict=True)]
        lines.append(f"{name:{width}}  {'  '.join(cells)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
