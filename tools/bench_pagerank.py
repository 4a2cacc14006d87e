"""Measure the cost of personalized PageRank, and that it depends on the neighborhood, not on the store's size. A *push*
moves rank from a node of the graph of chunks and entities to its neighbors; a *row* is a list of neighbors read.

    python tools/bench_pagerank.py --data FOLDER [--copies N] [--limit-corpus N] [--epsilon E]

``--data`` names a folder with ``corpus.jsonl`` (id, title, text) and ``questions.jsonl`` (question). The tool stores
the corpus and runs a PageRank with the entities of every question as seeds. It then adds N copies of the corpus with
altered words, and measures again in the same run. Pushes and rows are counted without rarity, which depends on the
store's size, and must then be equal. Times are those of the default weights, as processor time of the thread. Prints
one JSON object.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import click

import kvstore
from kvstore.derived.passage_graph.neighborhood import make_entity_node
from kvstore.derived.passage_graph.pagerank import EdgeWeights, compute_personalized_pagerank
from kvstore.structures.filter.entity_filter import select_longest_matches
from kvstore.structures.read_requests import BatchedReader
from kvstore.text.normalize import fold

_WORD = re.compile(r"\w+")


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--copies", default=3, show_default=True, help="Number of copies with altered words.")
@click.option("--limit-corpus", type=int, help="Use only the first N passages.")
@click.option("--epsilon", default=1e-5, show_default=True, help="Error bound of the push.")
def main(data: Path, copies: int, limit_corpus: int | None, epsilon: float) -> None:
    """Measure PageRanks over a corpus, first alone, then among copies of itself."""
    passages = [json.loads(line) for line in (data / "corpus.jsonl").read_text("utf-8").splitlines()][:limit_corpus]
    questions = [json.loads(line)["question"] for line in (data / "questions.jsonl").read_text("utf-8").splitlines()]
    with (
        tempfile.TemporaryDirectory() as scratch,
        kvstore.open(Path(scratch) / "store", embedder="hashing:16") as store,
    ):
        report: dict[str, Any] = {"dataset": data.name, "questions": len(questions), "epsilon": epsilon}
        store_copy(store, passages, 0)
        report["alone"] = measure_pageranks(store, questions, epsilon)
        for copy in range(1, copies + 1):
            store_copy(store, passages, copy)
        report["among copies"] = measure_pageranks(store, questions, epsilon)
    print(json.dumps(report))


def store_copy(store: kvstore.Store, passages: list[dict[str, Any]], copy: int) -> None:
    """Store the passages as copy number ``copy``; words are altered, except in copy 0, so copies share no entities."""

    def alter_words(text: str) -> str:
        """Append ``q`` and the number of the copy to every word, numbers included."""
        return _WORD.sub(lambda match: f"{match.group()}q{copy}", text) if copy else text

    with store.transaction() as transaction:
        for passage in passages:
            transaction.put(
                f"{copy}/{passage['id']}", alter_words(passage["text"]), title=alter_words(passage["title"])
            )


def measure_pageranks(store: kvstore.Store, questions: list[str], epsilon: float) -> dict[str, Any]:
    """Run a PageRank from the known entities of every question that has any; return its figures over all questions.

    These are the sums of pushes and rows, and the median and 95th percentile of the processor time.
    """
    times, costs = [], []
    for question in questions:
        with store.snapshot() as snapshot:
            state = snapshot._state
            matches = select_longest_matches(state.filter.recognize(fold(question), state.settings.name_words))
            seeds = {make_entity_node(entity): 1.0 for entity in set(matches.entity.tolist())}
            if not seeds:
                continue
            # Counted without rarity, which depends on the store's size; timed with the default weights.
            ranks = compute_personalized_pagerank(
                BatchedReader(state), seeds, epsilon=epsilon, weights=EdgeWeights(rarity_exponent=0)
            )
            costs.append((ranks.pushes, ranks.rows))
        with store.snapshot() as snapshot:
            started = time.thread_time()
            compute_personalized_pagerank(BatchedReader(snapshot._state), seeds, epsilon=epsilon)
            times.append(1000 * (time.thread_time() - started))
    return {
        "passages": int(store.statistics()["chunks"]),
        "ranked": len(times),
        "pushes": sum(pushes for pushes, _ in costs),
        "rows": sum(rows for _, rows in costs),
        "p50_ms": round(statistics.median(times), 2),
        "p95_ms": round(statistics.quantiles(times, n=20)[-1], 2),
    }


if __name__ == "__main__":
    main()
