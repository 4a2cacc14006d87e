"""Measure the ``vectors`` index: recall against exact search, time of a query, time and size of a build.

    python tools/bench_vectors.py --data FOLDER [--vectors N] [--engine hnswlib] [--cache FILE.npz] [--json]

``--data`` names the folder of question sets (``qa/*/corpus.jsonl`` with title and text, ``qa/*/questions.jsonl``).
Their passages are embedded with the default embedder, repeated with seeded noise until there are N vectors, and stored
as the user's vectors; the questions are the queries. ``--cache`` keeps the computed vectors. Both searches run in one
process and one thread, each query twice; the second time counts. hnswlib builds with a thread per core, so that its
processor time is comparable and its wall time is not. A query ends when the ids of the chunks are known.
"""

from __future__ import annotations

import json
import os
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

import kvstore
from kvstore.models.embedder import open_embedder
from kvstore.structures.indexes.vector_search import find_nearest_chunks

#: The length of the noise relative to the vector's: two copies of a vector have a cosine of about 0.8.
NOISE = 0.5
#: The number of requested neighbors.
TOP = 10
#: The number of documents per commit.
BATCH = 2000

Matrix = npt.NDArray[np.float32]


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--vectors", "count", default=200_000, show_default=True, help="Vectors in the store.")
@click.option("--queries", default=300, show_default=True, help="Maximum number of questions.")
@click.option("--m", default=16, show_default=True, help="Option m of the index.")
@click.option("--ef-construction", default=200, show_default=True, help="Option ef_construction of the index.")
@click.option("--ef-search", default=400, show_default=True, help="Option ef_search of the index.")
@click.option("--engine", default="builtin", show_default=True, help="Option engine of the index.")
@click.option("--noise", default=NOISE, show_default=True, help="Length of the noise added to each vector.")
@click.option("--cache", type=click.Path(path_type=Path), help="File (.npz) of the vectors; an existing file is used.")
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True, help="Embedder that computes the vectors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: Path,
    count: int,
    queries: int,
    m: int,
    ef_construction: int,
    ef_search: int,
    engine: str,
    noise: float,
    cache: Path | None,
    embedder: str,
    as_json: bool,
) -> None:
    """Build an index over many vectors, and compare it with exact search."""
    passages, questions = load_or_compute_vectors(data, embedder, cache)
    options: dict[str, Any] = {"exact_below": 0, "m": m, "ef_construction": ef_construction, "ef_search": ef_search}
    options["engine"] = engine
    with tempfile.TemporaryDirectory() as scratch:
        report = measure_index(
            Path(scratch), generate_noisy_copies(passages, count, noise), count, questions[:queries], options
        )
    report["noise"] = noise
    if as_json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:14} {value}")


def load_or_compute_vectors(data: Path, embedder: str, cache: Path | None) -> tuple[Matrix, Matrix]:
    """Return unit vectors of the passages and of the questions of all sets in ``data``, from ``cache`` if it exists."""
    if cache is not None and cache.exists():
        with np.load(cache) as stored:
            return stored["passages"], stored["questions"]
    passages = [f"{row.get('title') or ''}\n{row['text']}" for row in iter_rows(data, "corpus.jsonl")]
    questions = [row["question"] for row in iter_rows(data, "questions.jsonl")]
    if not passages or not questions:
        raise click.UsageError(f"{data} has no qa/*/corpus.jsonl or no qa/*/questions.jsonl")
    print(f"embedding {len(passages):,} passages and {len(questions):,} questions", file=sys.stderr)
    model = open_embedder(embedder)
    vectors = np.unique(model.embed(passages), axis=0), model.embed(questions)
    if cache is not None:
        np.savez(cache, passages=vectors[0], questions=vectors[1])
    return vectors


def iter_rows(data: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in the files ``name`` of all question sets."""
    for path in sorted(data.glob(f"qa/*/{name}")):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def generate_noisy_copies(vectors: Matrix, count: int, noise: float) -> Iterator[Matrix]:
    """Yield ``count`` unit vectors in batches: ``vectors`` repeated, each time with new seeded noise."""
    generator = np.random.default_rng(0)
    for start in range(0, count, BATCH):
        batch_vectors = vectors[np.arange(start, min(start + BATCH, count)) % len(vectors)]
        noisy = batch_vectors + generator.standard_normal(batch_vectors.shape, np.float32) * (
            noise / np.sqrt(batch_vectors.shape[1])
        )
        yield (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)


def measure_index(
    folder: Path, batches: Iterator[Matrix], count: int, questions: Matrix, options: dict[str, Any]
) -> dict[str, Any]:
    """Fill a store, build its vector index, and return recall, times and size of the index.

    Every query is run both with the index and with exact search. ``count`` is the number of vectors in ``batches``.
    """
    settings = {"dimension": questions.shape[1]}
    with kvstore.open(folder / "store", embedder=f"none:{questions.shape[1]}", settings=settings) as store:
        store.drop_index("vectors")  # otherwise it would grow while the store is filled
        store_vectors(store, batches, count)
        wall_started, cpu_started = time.perf_counter(), time.process_time()
        store.create_index("vectors", options, progress=print_progress)
        build_seconds, cpu_seconds = time.perf_counter() - wall_started, time.process_time() - cpu_started
        print(file=sys.stderr)
        with store.snapshot() as snapshot:
            exact_results, exact_times = run_queries(snapshot, questions, exact=True)
            index_results, times = run_queries(snapshot, questions, exact=False)
        size = sum(path.stat().st_size for path in store.path.glob("vectors*.index"))
    overlaps = [
        len(set(exact_ids) & set(index_ids)) / len(exact_ids)
        for exact_ids, index_ids in zip(exact_results, index_results, strict=True)
    ]
    return {
        "vectors": count,
        "dimension": questions.shape[1],
        "queries": len(questions),
        **{name: value for name, value in options.items() if name != "exact_below"},
        "build_s": round(build_seconds, 1),
        "build_cpu_s": round(cpu_seconds, 1),
        "recall_at_10": round(statistics.mean(overlaps), 4),
        "p50_ms": round(1000 * statistics.median(times), 3),
        "p95_ms": round(1000 * float(np.quantile(times, 0.95)), 3),
        "exact_p50_ms": round(1000 * statistics.median(exact_times), 3),
        "file_mb": round(size / 1e6, 1),
    }


def store_vectors(store: kvstore.Store, batches: Iterator[Matrix], count: int) -> None:
    """Store a short document for each vector, and print the progress; ``count`` is the number of vectors."""
    num_stored = 0
    for batch in batches:
        with store.transaction() as transaction:
            for vector in batch:
                transaction.put(str(num_stored), f"passage {num_stored}", vectors=vector)
                num_stored += 1
        print(f"\r{num_stored:,} of {count:,} vectors stored", end="", file=sys.stderr, flush=True)


def print_progress(progress: kvstore.IndexProgress) -> None:
    """Print the progress of the build on one line."""
    print(f"\r{progress.done:,} of {progress.total:,} in the graph ", end="", file=sys.stderr, flush=True)


def run_queries(snapshot: kvstore.Snapshot, questions: Matrix, *, exact: bool) -> tuple[list[list[int]], list[float]]:
    """Return the ids of the nearest chunks of each question, and the seconds of each question.

    Every question is asked twice, and the second run counts. ``exact`` compares all vectors instead of using the index.
    """
    for _ in range(2):
        results, times = [], []
        for question in questions:
            started = time.perf_counter()
            ranking, _ = find_nearest_chunks(snapshot._state, question, TOP, exact=exact)
            times.append(time.perf_counter() - started)
            results.append([chunk for chunk, _ in ranking])
    return results, times


if __name__ == "__main__":
    main()
