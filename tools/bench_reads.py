"""Measure how often the strategies read for a question, and their processor time. A strategy sends *rounds* of
*requests*, each with all requests that do not depend on each other's answers; a *read* is a call to LMDB.

    python tools/bench_reads.py --data FOLDER[:N] [--questions N] [--strategy NAME]... [--store FOLDER] [--json]

The passages of ``--data`` become documents, unless ``--store`` has them already. An index that a strategy needs is
created. For each strategy, over all questions: *rounds*, the mean number of rounds of requests, and *most_rounds*, its
maximum; *requests*, the number of requests in them; *reads*, the number of calls to LMDB; *preparing*, the number of
those calls made before the strategy starts, such as for typing errors; *outside*, the number of those that the strategy
makes outside a request; *p50_ms*, the median processor time of a repeated question, the least of three runs.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from evaluation.question_sets import fill_store, load

import kvstore
from kvstore.database.question_retrieval import prepare_query
from kvstore.registry import get_strategy
from kvstore.settings import FixedSettings
from kvstore.storage.measured_view import MeasuredView
from kvstore.structures.read_requests import BatchedReader, ReadRequest
from kvstore.structures.state import State

#: The strategies measured by default, which need no index.
STRATEGIES = ("vector", "lexical", "hybrid", "bridge", "cft", "hipporag", "graph", "adaptive")


@click.command()
@click.option("--data", required=True, metavar="FOLDER[:N]", help="A question set, or its first N passages.")
@click.option("--questions", default=60, show_default=True, help="Number of questions to ask, from the first on.")
@click.option("--strategy", "strategies", multiple=True, default=STRATEGIES, help="Strategy to measure.")
@click.option(
    "--store", "store_folder", type=click.Path(path_type=Path), help="Folder of the store; an existing store is used."
)
@click.option("--embedder", default="hashing", show_default=True)
@click.option("--language", default=FixedSettings().language, show_default=True, help="Language setting of the store.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: str,
    questions: int,
    strategies: Sequence[str],
    store_folder: Path | None,
    embedder: str,
    language: str,
    as_json: bool,
) -> None:
    """Measure how often strategies read, and print a row for each."""
    question_set = load(data)
    with tempfile.TemporaryDirectory() as scratch:
        path = store_folder or Path(scratch) / "store"
        with kvstore.open(path, embedder=embedder, settings={"language": language}) as store:
            fill_store(store, question_set, triples=False, log=lambda message: click.echo(message, err=True))
            create_needed_indexes(store, strategies)
            texts = [question.text for question in question_set.questions[:questions]]
            rows = [measure_strategy(store, strategy, texts) for strategy in strategies]
    if as_json:
        click.echo(json.dumps({"data": data, "questions": len(texts), "rows": rows}))
        return
    columns = list(rows[0])
    for row in (columns, *(list(map(str, row.values())) for row in rows)):
        click.echo("  ".join(cell.ljust(12) for cell in row))


def create_needed_indexes(store: kvstore.Store, strategies: Sequence[str]) -> None:
    """Create the indexes that strategies need and the store lacks."""
    existing = {index.kind for index in store.indexes()}
    for kind in dict.fromkeys(getattr(get_strategy(name), "needs", None) for name in strategies):
        if kind is not None and kind not in existing:
            store.create_index(kind)
            store.refresh(kind)


class _CountingReader(BatchedReader):
    """A reader that counts the calls to LMDB made within its requests."""

    def __init__(self, state: State, lmdb: MeasuredView) -> None:
        """Read from ``state``, whose LMDB calls ``lmdb`` counts."""
        super().__init__(state)
        self._lmdb = lmdb
        self.reads = 0

    def fetch_all(self, requests: Sequence[ReadRequest[Any]]) -> list[Any]:
        """Answer requests, and add the LMDB reads that they need to :attr:`reads`."""
        reads_before = self._lmdb.reads
        answers = super().fetch_all(requests)
        self.reads += self._lmdb.reads - reads_before
        return answers


def measure_strategy(
    store: kvstore.Store,
    strategy: str,
    questions: Sequence[str],
    options: Mapping[str, Any] | None = None,
    *,
    repetitions: int = 3,
) -> dict[str, Any]:
    """Return the figures of a strategy over some questions, by the names that the module's docstring explains.

    The time of a question is the shortest of ``repetitions``.
    """
    rounds, requests, reads, reads_preparing, reads_outside, times = [], [], [], [], [], []
    for question in questions:
        with store.snapshot() as snapshot:
            lmdb = MeasuredView(snapshot._state.lmdb)
            state = State(lmdb, snapshot._state.settings, snapshot._state.open_indexes)
            strategy_object, query = prepare_query(snapshot._session, state, question, using=strategy, options=options)
            reads_preparing.append(lmdb.reads)
            query.reading = reader = _CountingReader(query.state, lmdb)
            strategy_object.retrieve(query)
        rounds.append(reader.rounds)
        requests.append(reader.requests)
        reads_outside.append(lmdb.reads - reader.reads - reads_preparing[-1])
        reads.append(lmdb.reads)
        times.append(min(_time_question(store, strategy, question, options) for _ in range(repetitions)))
    return {
        "strategy": strategy,
        "rounds": round(statistics.mean(rounds), 1),
        "most_rounds": max(rounds),
        "requests": round(statistics.mean(requests), 1),
        "reads": round(statistics.mean(reads), 1),
        "preparing": round(statistics.mean(reads_preparing), 1),
        "outside": round(statistics.mean(reads_outside), 1),
        "p50_ms": round(statistics.median(times), 2),
    }


def _time_question(store: kvstore.Store, strategy: str, question: str, options: Mapping[str, Any] | None) -> float:
    """Return the processor time of answering a question, in milliseconds."""
    started = time.process_time()
    store.retrieve(question, using=strategy, options=options)
    return 1000 * (time.process_time() - started)


if __name__ == "__main__":
    main()
