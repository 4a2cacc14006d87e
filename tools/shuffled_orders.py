"""Ask the same of stores that were given the same passages in different orders.

    python tools/shuffled_orders.py --data FOLDER[:N] ... [--orders N] [--strategy NAME ...] [--json]

``--data`` names question sets as ``tools/evaluate.py`` takes them. Every passage is a document; each order is seeded,
and cut into transactions of random sizes, so that passages are embedded in other company each time. A row for each set
and strategy says on how many questions every order gave the same hits in the same order, with the same paths, and how
far scores were apart at most; ``bits`` says on how many all was the same to the last bit.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import click
from evaluation.question_sets import QuestionSet, load

import kvstore
from kvstore.registry import STRATEGIES

#: The numbers of requested hits: that of an answer, and that of tools/evaluate.py.
TOPS = (8, 60)
#: The maximum number of texts in a transaction.
BATCH = 500

#: For a question: document and position of every hit, scores and paths.
Answers = tuple[list[tuple[str, int]], list[float], list[str], list[str]]


@click.command()
@click.option("--data", multiple=True, required=True, metavar="FOLDER[:N]", help="A question set.")
@click.option("--orders", default=5, show_default=True, help="Orders that passages are put in.")
@click.option("--strategy", multiple=True, default=tuple(STRATEGIES), help="Strategy to ask (default: all).")
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Embedder of the stores.")
@click.option("--language", default="en", show_default=True, help="Language setting of the stores.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: tuple[str, ...], orders: int, strategy: tuple[str, ...], embedder: str, language: str, as_json: bool
) -> None:
    """Compare the answers of stores with the same texts."""
    rows: list[dict[str, Any]] = []
    for path in data:
        questions = load(path, None)
        found: dict[str, list[list[Answers]]] = {name: [] for name in strategy}
        for order in range(orders):
            with tempfile.TemporaryDirectory() as folder:
                settings = {"language": language}
                with kvstore.open(Path(folder) / "store", embedder=embedder, settings=settings) as store:
                    fill_in_order(store, questions, order)
                    for name in strategy:
                        found[name].append(
                            [collect_answers(store, question.text, name) for question in questions.questions]
                        )
            click.echo(f"{questions.name}: order {order + 1} of {orders}", err=True)
        rows += [{"dataset": questions.name, "strategy": name, **compare_answers(each)} for name, each in found.items()]
    if as_json:
        print(json.dumps({"orders": orders, "rows": rows}))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))


def fill_in_order(store: kvstore.Store, questions: QuestionSet, seed: int) -> None:
    """Put every text into a store, in an order given by the seed."""
    rng = random.Random(seed)
    passages = rng.sample(questions.passages, len(questions.passages))
    while passages:
        with store.transaction() as transaction:
            for passage in [passages.pop() for _ in range(min(len(passages), rng.randint(1, BATCH)))]:
                transaction.put(str(passage["id"]), passage["text"], title=passage.get("title") or None)


def collect_answers(store: kvstore.Store, question: str, strategy: str) -> Answers:
    """Return the results of a strategy for a question, for each number of hits."""
    answers = [store.retrieve(question, using=strategy, top=top) for top in TOPS]
    hits = [hit for evidence in answers for hit in evidence.hits]
    context = [line for evidence in answers for line in evidence.context]
    return (
        [(hit.document, hit.ordinal) for hit in hits],
        [hit.score for hit in hits],
        [hit.path for hit in hits],
        context,
    )


def compare_answers(found: list[list[Answers]]) -> dict[str, Any]:
    """Compare the answers of several stores, question by question."""
    same = paths = bits = 0
    max_difference = 0.0
    for answers in zip(*found, strict=True):
        first, *others = answers
        alike = all(other[0] == first[0] for other in others)
        same += alike
        paths += alike and all(other[2:] == first[2:] for other in others)
        bits += all(other == first for other in others)
        if alike:
            differences = (abs(a - b) for other in others for a, b in zip(first[1], other[1], strict=True))
            max_difference = max(max_difference, max(differences, default=0.0))
    return {
        "questions": len(found[0]),
        "same_hits": same,
        "same_paths": paths,
        "bits": bits,
        "scores_apart": max_difference,
    }


if __name__ == "__main__":
    main()
