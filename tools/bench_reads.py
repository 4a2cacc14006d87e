"""Measure how often the strategies read for a question, and their processor time.

    python tools/bench_reads.py --data FOLDER[:N] [--questions N] [--strategy NAME]... [--store FOLDER] [--json]

The passages of ``--data`` become documents, unless ``--store`` has them already. Of each strategy, over all questions:
*rounds*, the reads that depend on one another, and *most_rounds*, of the question that takes most; *requests*, what is
asked for in them; *reads*, how often LMDB is asked; *p50_ms*, the median processor time of a question that was asked
before, the least of three times.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from evaluation.question_sets import fill, load

import kvstore
from kvstore.database.question_retrieval import prepare_query
from kvstore.settings import FixedSettings
from kvstore.storage.measured_view import MeasuredView
from kvstore.structures.state import State

#: The strategies that need no index.
STRATEGIES = ("vector", "lexical", "hybrid", "bridge", "cft", "hipporag", "graph", "adaptive")


@click.command()
@click.option("--data", required=True, metavar="FOLDER[:N]", help="A question set, perhaps its first N passages only.")
@click.option("--questions", default=60, show_default=True, help="Questions that are asked, the first ones.")
@click.option("--strategy", "strategies", multiple=True, default=STRATEGIES, help="Strategy to measure.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the store in this folder, and use it again.")
@click.option("--embedder", default="hashing", show_default=True)
@click.option("--language", default=FixedSettings().language, show_default=True, help="Language setting of the store.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: str,
    questions: int,
    strategies: Sequence[str],
    store: Path | None,
    embedder: str,
    language: str,
    as_json: bool,
) -> None:
    """Measure how often strategies read."""
    found = load(data, None)
    with tempfile.TemporaryDirectory() as scratch:
        path = store or Path(scratch) / "store"
        with kvstore.open(path, embedder=embedder, settings={"language": language}) as opened:
            fill(opened, found, False, lambda said: click.echo(said, err=True))
            asked = [question.text for question in found.questions[:questions]]
            rows = [measured(opened, strategy, asked) for strategy in strategies]
    if as_json:
        click.echo(json.dumps({"data": data, "questions": len(asked), "rows": rows}))
        return
    columns = list(rows[0])
    for row in (columns, *(list(map(str, row.values())) for row in rows)):
        click.echo("  ".join(cell.ljust(12) for cell in row))


def measured(store: kvstore.Store, strategy: str, questions: Sequence[str]) -> dict[str, Any]:
    """Measure the number of reads of a strategy for some questions, and its time."""
    rounds, requests, reads, times = [], [], [], []
    for question in questions:
        with store.snapshot() as snapshot:
            view = MeasuredView(snapshot._state.lmdb)
            state = State(view, snapshot._state.settings, snapshot._state.open_indexes)
            chosen, query = prepare_query(snapshot._session, state, question, using=strategy)
            chosen.retrieve(query)
        rounds.append(query.reading.rounds)
        requests.append(query.reading.requests)
        reads.append(view.reads)
        times.append(min(_milliseconds(store, strategy, question) for _ in range(3)))
    return {
        "strategy": strategy,
        "rounds": round(statistics.mean(rounds), 1),
        "most_rounds": max(rounds),
        "requests": round(statistics.mean(requests), 1),
        "reads": round(statistics.mean(reads), 1),
        "p50_ms": round(statistics.median(times), 2),
    }


def _milliseconds(store: kvstore.Store, strategy: str, question: str) -> float:
    started = time.process_time()
    store.retrieve(question, using=strategy)
    return 1000 * (time.process_time() - started)


if __name__ == "__main__":
    main()
