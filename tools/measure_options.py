"""Measure the effect of every option of the strategies on question sets.

    python tools/measure_options.py --data FOLDER[:N] ... [--strategy NAME ...] [--questions N] [--store FOLDER]

In: question sets as for ``evaluate.py``; every n-th question is asked if there are more than ``--questions``. Out: for
each option and each value, the largest change of a measure from the defaults. A number is tried at half and at twice
its default and at 0, a choice at its other words. The measures are those of eight results: recall@5 and all@8 of
documents, or hit@1, hit@3, hit@8 and the recall of 1,500 words of spans.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from evaluation.measures import DEPTH, compute_document_measures, compute_span_measures
from evaluation.passages import Passage, Texts
from evaluation.question_sets import QuestionSet, fill_store, load

import kvstore
from kvstore.arguments import Choice, Option
from kvstore.registry import STRATEGIES, get_strategy

#: The indexes that some strategies need.
INDEXES = ("units", "topics", "communities")
MEASURES = ("recall@5", "all@8", "hit@1", "hit@3", "hit@8", "recall_1500w")

Means = Mapping[str, float]


@click.command()
@click.option("--data", "folders", multiple=True, required=True, metavar="FOLDER[:N]", help="A question set.")
@click.option("--strategy", "strategies", multiple=True, help="Strategy to measure; by default each one.")
@click.option("--questions", default=125, show_default=True, help="Maximum number of questions of each set.")
@click.option(
    "--store", "stores_folder", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per value.")
def main(
    folders: Sequence[str], strategies: Sequence[str], questions: int, stores_folder: Path | None, as_json: bool
) -> None:
    """Measure every option of the strategies on each question set, and print a row for each value."""
    for folder in folders:
        question_set = load(folder)
        with tempfile.TemporaryDirectory() as scratch:
            path = (stores_folder or Path(scratch)) / question_set.name.replace(":", "-")
            with kvstore.open(path) as store:
                fill_store(store, question_set, triples=False, log=lambda message: click.echo(message, err=True))
                existing_kinds = {status.kind for status in store.indexes()}
                for kind in INDEXES:
                    if kind not in existing_kinds:
                        store.create_index(kind)
                for name in strategies or STRATEGIES:
                    for row in measure_strategy(store, question_set, name, questions):
                        click.echo(json.dumps(row) if as_json else format_row(row))


def measure_strategy(
    store: kvstore.Store, question_set: QuestionSet, strategy: str, max_questions: int
) -> list[dict[str, object]]:
    """Return a row for each tried value of each option of a strategy, with the changes of the measures by it.

    A change is from the mean with the defaults. ``largest`` is the one with the largest magnitude, with its sign.
    """
    options = get_strategy(strategy).options
    default_means = compute_means(store, question_set, strategy, max_questions, options={}) if options else {}
    rows: list[dict[str, object]] = []
    for name, option in options.items():
        for value in list_values(option):
            means = compute_means(store, question_set, strategy, max_questions, {name: value})
            changes = {key: round(means[key] - mean, 4) for key, mean in default_means.items()}
            rows.append(
                {
                    "data": question_set.name,
                    "strategy": strategy,
                    "option": name,
                    "default": option.default,
                    "value": value,
                    "largest": max(changes.values(), key=abs),
                    "changes": changes,
                }
            )
    return rows


def list_values(option: Option | Choice) -> list[float | str]:
    """Return values to compare with the default of an option: all other choices of a choice or a switch.

    For a number, these are half and twice the default and the minimum; for the default 0, fractions of the maximum.
    """
    if isinstance(option, Choice):
        return [choice for choice in option.choices if choice != option.default]
    default, low, high = option.default, option.low, option.high
    if (low, high) == (0, 1) and default in (0, 1):  # a switch
        return [1 - default]
    values = [default / 2, default * 2, low] if default else [high / 8, high / 2]
    if isinstance(default, int) and (low >= 1 or default >= 4):  # a count, not a weight written as a whole number
        values = [round(value) for value in values]
    return sorted({min(max(value, low), high) for value in values} - {default})


def compute_means(
    store: kvstore.Store,
    question_set: QuestionSet,
    strategy: str,
    max_questions: int,
    options: Mapping[str, float | str],
) -> Means:
    """Return the means of MEASURES over every n-th question, such that there are at most ``max_questions``."""
    texts = Texts(store) if question_set.details else None
    step = -(-len(question_set.questions) // max_questions)  # rounded up
    values: dict[str, list[float]] = defaultdict(list)
    for question in question_set.questions[::step]:
        evidence = store.retrieve(question.text, using=strategy, top=DEPTH, options=options)
        hits = [Passage(hit.document, hit.start, hit.end, hit.text) for hit in evidence.hits]
        measures = (
            compute_document_measures(question, hits) if texts is None else compute_span_measures(question, hits, texts)
        )
        for name in MEASURES:
            if name in measures:
                values[name].append(measures[name])
    return {name: statistics.mean(measure_values) for name, measure_values in values.items()}


def format_row(row: Mapping[str, Any]) -> str:
    """Format a row of the report as a line of text."""
    return "{data:14} {strategy:9} {option:10} {default} -> {value}: {largest:+.4f}".format(**row)


if __name__ == "__main__":
    main()
