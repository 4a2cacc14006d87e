"""Measure ``bridge`` against exact dense search over all chunks, as the corpus grows. It grows by *copies* of its
passages, with altered names and noisy vectors.

    python tools/bench_bridge.py --data FOLDER [--copies N ...] [--cache FILE.npz] [--json]

``--data`` names a question set (``corpus.jsonl`` with id, title and text, ``questions.jsonl``). The store contains its
passages and N - 1 copies of each: every capitalized word gets an ending of its copy, and the vector gets seeded noise.
The questions are answered by ``bridge`` and by ``vector`` with ``exact`` (naive RAG, Bridge-RAG section 5.1) in turn,
in one process and one thread; the second time counts. The vectors of questions are computed before. One vector, of
title and text, is used for all chunks of a passage. ``--cache`` keeps the computed vectors.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Set before numpy is loaded, so that a single thread is measured.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import click
import numpy as np
import numpy.typing as npt
from evaluation.question_sets import QuestionSet, load

import kvstore
from kvstore.models.embedder import open_embedder
from kvstore.text.words import FUNCTION_WORDS

#: The length of the noise relative to the vector's.
NOISE = 0.5
#: The number of documents per commit.
BATCH = 2000
#: The number of texts per call to the embedder.
EMBED_BATCH = 256
_CAPITALIZED_WORD = re.compile(r"\b[A-Z][a-z]\w*")

Matrix = npt.NDArray[np.float32]


@click.command()
@click.option("--data", required=True, help="A question set: FOLDER, or FOLDER:N for its first N passages.")
@click.option(
    "--copies", multiple=True, type=int, default=(1, 10), show_default=True, help="Sizes, as multiples of the corpus."
)
@click.option("--cache", type=click.Path(path_type=Path), help="File (.npz) of the vectors; an existing file is used.")
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Embedder that computes the vectors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(data: str, copies: tuple[int, ...], cache: Path | None, embedder: str, as_json: bool) -> None:
    """Compare the times of bridge and of exact dense search on the same questions, for each number of copies."""
    question_set = load(data)
    passages, question_vectors = load_or_compute_vectors(question_set, embedder, cache)
    rows = []
    for num_copies in copies:
        with tempfile.TemporaryDirectory() as scratch:
            settings = {"language": "rules"}
            with kvstore.open(
                Path(scratch) / "store", embedder=f"none:{passages.shape[1]}", settings=settings
            ) as store:
                store_copies(store, question_set, passages, num_copies)
                rows.append(
                    {
                        "copies": num_copies,
                        "chunks": store.statistics()["chunks"],
                        **time_searches(store, question_set, question_vectors),
                    }
                )
    if as_json:
        print(json.dumps({"data": question_set.name, "questions": len(question_set.questions), "rows": rows}))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))


def load_or_compute_vectors(question_set: QuestionSet, embedder: str, cache: Path | None) -> tuple[Matrix, Matrix]:
    """Return the vectors of the passages and of the questions, one row each, in order.

    They are read from the ``cache`` file if it exists; otherwise they are computed and written there, if it is given.
    """
    if cache is not None and cache.exists():
        with np.load(cache) as cached:
            return cached["passages"], cached["questions"]
    model = open_embedder(embedder)
    texts = [f"{passage.get('title') or ''}\n{passage['text']}" for passage in question_set.passages]
    batches = (texts[start : start + EMBED_BATCH] for start in range(0, len(texts), EMBED_BATCH))
    passages = np.concatenate([model.embed(batch) for batch in batches])
    question_vectors = np.stack([model.embed_query(question.text) for question in question_set.questions])
    if cache is not None:
        np.savez(cache, passages=passages, questions=question_vectors)
    return passages, question_vectors


def iter_copies(question_set: QuestionSet, vectors: Matrix, num_copies: int) -> Iterator[tuple[str, str, str, Matrix]]:
    """Yield (key, title, text, vector) of each passage of each copy.

    Copy 0 is unaltered. In the others, capitalized words have an ending and the vectors have noise.
    """
    generator = np.random.default_rng(0)
    for copy in range(num_copies):
        # English words do not end like this, and each copy has its own ending.
        ending = "" if copy == 0 else "q" + chr(ord("a") + copy % 26) + "x" * (copy // 26)
        for passage, vector in zip(question_set.passages, vectors, strict=True):
            title, text = (alter_capitalized_words(passage.get(part) or "", ending) for part in ("title", "text"))
            yield f"{copy}/{passage['id']}", title, text, add_noise(vector, generator) if copy else vector


def add_noise(vector: Matrix, generator: np.random.Generator) -> Matrix:
    """Return a unit vector with noise of the length NOISE, normalized again."""
    noise = generator.standard_normal(len(vector)).astype(np.float32)
    noisy: Matrix = vector + NOISE * noise / np.sqrt(len(vector))
    return noisy / np.linalg.norm(noisy)


def alter_capitalized_words(text: str, ending: str) -> str:
    """Return a text with ``ending`` appended to its capitalized words, except to function words."""

    def append_ending(match: re.Match[str]) -> str:
        """Return the word with the ending, or unchanged if it is a function word."""
        word = match.group()
        return word if word.lower() in FUNCTION_WORDS else word + ending

    return _CAPITALIZED_WORD.sub(append_ending, text) if ending else text


def store_copies(store: kvstore.Store, question_set: QuestionSet, vectors: Matrix, num_copies: int) -> None:
    """Store ``num_copies`` copies of the passages; all copies but the first are altered."""
    documents = list(iter_copies(question_set, vectors, num_copies))
    for start in range(0, len(documents), BATCH):
        with store.transaction() as transaction:
            for key, title, text, vector in documents[start : start + BATCH]:
                transaction.put(key, text, title=title or None, vectors=vector)
        if sys.stderr.isatty():
            print(f"\r{start} of {len(documents)} passages", end="", file=sys.stderr)


def time_searches(store: kvstore.Store, question_set: QuestionSet, vectors: Matrix) -> dict[str, Any]:
    """Return the median, 95th percentile and mean milliseconds of both searches, and the speedup of bridge.

    Also return the median number of chunks that bridge ranked (``median_pool``).
    """
    options_by_name: dict[str, dict[str, Any]] = {"bridge": {}, "exact": {"exact": 1}}
    times: dict[str, list[float]] = {name: [] for name in options_by_name}
    pool_sizes = []
    with store.snapshot() as snapshot:
        for question, vector in zip(question_set.questions, vectors, strict=True):
            for name, options in options_by_name.items():
                strategy = "vector" if name == "exact" else name
                # The first call warms the caches and is not timed.
                snapshot.retrieve(question.text, using=strategy, options=options, vector=vector)
                started = time.perf_counter()
                evidence = snapshot.retrieve(question.text, using=strategy, options=options, vector=vector)
                times[name].append(1000 * (time.perf_counter() - started))
                if name == "bridge":
                    pool_sizes.append(evidence.pool)
    figures: dict[str, Any] = {}
    for name, values in times.items():
        figures[f"{name}_p50_ms"] = round(statistics.median(values), 3)
        figures[f"{name}_p95_ms"] = round(float(np.percentile(values, 95)), 3)
        figures[f"{name}_mean_ms"] = round(statistics.mean(values), 3)
    for figure in ("p50", "mean"):
        figures[f"times_as_fast_{figure}"] = round(figures[f"exact_{figure}_ms"] / figures[f"bridge_{figure}_ms"], 2)
    return figures | {"median_pool": statistics.median(pool_sizes)}


if __name__ == "__main__":
    main()
