"""Compare the answers of stores that were filled with the same passages in different orders.

    python tools/shuffled_orders.py --data FOLDER[:N] ... [--orders N] [--strategy NAME ...] [--json]

``--data`` names question sets as in ``tools/evaluate.py``. Every passage is a document. Each order is seeded, and split
into transactions of random sizes, so that passages are embedded in different batches each time. A row for each set and
strategy has the number of questions with the same hits in the same order in all stores, the number that also have the
same paths, the largest difference of scores, and ``bits``, the number of questions with identical results.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import click
from evaluation.question_sets import QuestionSet, load

import kvstore
from kvstore.registry import STRATEGIES

#: The numbers of requested hits: for an answer, and in tools/evaluate.py.
TOPS = (8, 60)
#: The maximum number of texts in a transaction.
BATCH = 500


class Answers(NamedTuple):
    """The results for a question: the document and ordinal of each hit, its score and path, and the context."""

    hits: list[tuple[str, int]]
    scores: list[float]
    paths: list[str]
    context: list[str]


@click.command()
@click.option("--data", multiple=True, required=True, metavar="FOLDER[:N]", help="A question set.")
@click.option("--orders", default=5, show_default=True, help="Number of orders of the passages.")
@click.option("--strategy", multiple=True, default=tuple(STRATEGIES), help="Strategy to ask (default: all).")
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Embedder of the stores.")
@click.option("--language", default="en", show_default=True, help="Language setting of the stores.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: tuple[str, ...], orders: int, strategy: tuple[str, ...], embedder: str, language: str, as_json: bool
) -> None:
    """Compare the answers of stores that were filled with the same passages in different orders."""
    rows: list[dict[str, Any]] = []
    for path in data:
        question_set = load(path)
        answers_by_strategy: dict[str, list[list[Answers]]] = {name: [] for name in strategy}
        for order in range(orders):
            with tempfile.TemporaryDirectory() as folder:
                settings = {"language": language}
                with kvstore.open(Path(folder) / "store", embedder=embedder, settings=settings) as store:
                    fill_in_order(store, question_set, order)
                    for name in strategy:
                        answers_by_strategy[name].append(
                            [collect_answers(store, question.text, name) for question in question_set.questions]
                        )
            click.echo(f"{question_set.name}: order {order + 1} of {orders}", err=True)
        rows += [
            {"dataset": question_set.name, "strategy": name, **compare_answers(store_answers)}
            for name, store_answers in answers_by_strategy.items()
        ]
    if as_json:
        print(json.dumps({"orders": orders, "rows": rows}))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))


def fill_in_order(store: kvstore.Store, question_set: QuestionSet, seed: int) -> None:
    """Store every passage, in random order and in transactions of random sizes; ``seed`` determines both."""
    generator = random.Random(seed)
    passages = generator.sample(question_set.passages, len(question_set.passages))
    while passages:
        with store.transaction() as transaction:
            for passage in [passages.pop() for _ in range(min(len(passages), generator.randint(1, BATCH)))]:
                transaction.put(str(passage["id"]), passage["text"], title=passage.get("title") or None)


def collect_answers(store: kvstore.Store, question: str, strategy: str) -> Answers:
    """Retrieve with each number of hits in TOPS, and return the concatenated results."""
    evidence_by_top = [store.retrieve(question, using=strategy, top=top) for top in TOPS]
    hits = [hit for evidence in evidence_by_top for hit in evidence.hits]
    context = [line for evidence in evidence_by_top for line in evidence.context]
    return Answers(
        [(hit.document, hit.ordinal) for hit in hits], [hit.score for hit in hits], [hit.path for hit in hits], context
    )


def compare_answers(answers_by_store: list[list[Answers]]) -> dict[str, Any]:
    """Return the number of questions with the same answers in all stores, and the maximum difference of scores.

    ``same_hits`` counts the questions with the same hits in the same order, ``same_paths`` those with the same paths
    and context as well, and ``bits`` those with the same scores as well.
    """
    num_same_hits = num_same_paths = num_identical = 0
    max_difference = 0.0
    for answers in zip(*answers_by_store, strict=True):
        first, *others = answers
        has_same_hits = all(other.hits == first.hits for other in others)
        num_same_hits += has_same_hits
        num_same_paths += has_same_hits and all(
            (other.paths, other.context) == (first.paths, first.context) for other in others
        )
        num_identical += all(other == first for other in others)
        if has_same_hits:
            differences = (
                abs(score - other_score)
                for other in others
                for score, other_score in zip(first.scores, other.scores, strict=True)
            )
            max_difference = max(max_difference, max(differences, default=0.0))
    return {
        "questions": len(answers_by_store[0]),
        "same_hits": num_same_hits,
        "same_paths": num_same_paths,
        "bits": num_identical,
        "scores_apart": max_difference,
    }


if __name__ == "__main__":
    main()
