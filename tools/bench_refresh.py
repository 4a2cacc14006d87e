"""Measure the cost of REFRESH of the indexes ``topics`` and ``communities``. A language model can write *texts* for
them: summaries and reports. An *input digest* identifies the inputs of such a text.

    python tools/bench_refresh.py --data FOLDER[:N] [--kind NAME]... [--trials N] [--store FOLDER] [--json]
    python tools/bench_refresh.py --store STORE --opened [--kind NAME]... [--json]

The passages of ``--data`` become documents (``--opened``: use the existing store). For each kind: *refresh_s*, the
processor time of a complete build; *more_memory_mib*, the memory that it adds to the peak of the process (including
mapped pages of the store); *texts*, the number of texts that a model would write; *texts_anew*, the share of those
that it would write again after a sentence is added to one document, the mean of ``--trials`` draws; *commit_ms_with*
and *commit_ms_without*, the median processor time of replacing a document with and without the index, in turns.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from evaluation.question_sets import fill_store, load

import kvstore
from kvstore.registry import list_generation_indexes
from kvstore.structures.indexes.generations import bind_generation

#: The number of documents replaced in a turn, and the number of turns with and without an index.
_NUM_COMMITS, _NUM_TURNS = 40, 4


@click.command()
@click.option("--data", help="A question set: FOLDER, or FOLDER:N for its first N passages.")
@click.option("--kind", "kinds", multiple=True, default=("topics", "communities"), show_default=True)
@click.option("--trials", default=5, show_default=True, help="Number of documents that are changed, one at a time.")
@click.option(
    "--store", "store_folder", type=click.Path(path_type=Path), help="Folder of the store; an existing store is used."
)
@click.option(
    "--opened", "use_existing", is_flag=True, help="Use the existing store; only measured changes are written."
)
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: str | None,
    kinds: Sequence[str],
    trials: int,
    store_folder: Path | None,
    use_existing: bool,
    embedder: str,
    as_json: bool,
) -> None:
    """Measure the cost of REFRESH of each kind of index, and print a row for each."""
    if use_existing == (data is not None) or (use_existing and store_folder is None):
        raise click.UsageError("use either --data, or --store with --opened")
    with tempfile.TemporaryDirectory() as scratch:
        path = store_folder or Path(scratch) / "store"
        with kvstore.open(path) if use_existing else kvstore.open(path, embedder=embedder) as store:
            if data is not None:
                fill_store(store, load(data), triples=False, log=lambda line: click.echo(line, err=True))
            rows = [measure_index(store, kind, trials) for kind in kinds]
    if as_json:
        print(json.dumps({"rows": rows}))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))


def measure_index(store: kvstore.Store, kind: str, trials: int) -> dict[str, Any]:
    """Return the costs of an index of one kind, which is dropped at the end.

    The documents of the timed commits end with an additional sentence afterwards.
    """
    if any(index.kind == kind for index in store.indexes()):
        store.drop_index(kind)
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    store.create_index(kind)
    seconds = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before
    digests = compute_input_digests(store, kind)
    (index,) = (index for index in store.indexes() if index.kind == kind)
    keys = sorted(store.keys(""))
    changed_keys = random.Random(0).sample(keys, min(trials, len(keys)))
    num_new_digests = [len(compute_input_digests_after_change(store, kind, key) - digests) for key in changed_keys]
    commit_with_index, commit_without_index = time_commits(store, kind, keys)
    return {
        "kind": kind,
        "chunks": store.statistics()["chunks"],
        "refresh_s": round(seconds, 2),
        "more_memory_mib": memory >> 10,  # getrusage reports KiB
        "texts": len(digests),
        "texts_anew": round(statistics.mean(num_new_digests) / max(1, len(digests)), 4) if num_new_digests else None,
        "commit_ms_with": round(1000 * commit_with_index, 3),
        "commit_ms_without": round(1000 * commit_without_index, 3),
        "detail": index.detail,
    }


def compute_input_digests(store: kvstore.Store, kind: str) -> set[bytes]:
    """Return the input digests of all texts that a model can write for an index of a kind."""
    (generation_index,) = (index for index in list_generation_indexes() if index.name == kind)
    with store.state() as state:
        generation = bind_generation(state, generation_index)
        return (
            set() if generation is None else {task.digest for task in generation_index.list_writing_tasks(generation)}
        )


def compute_input_digests_after_change(store: kvstore.Store, kind: str, key: str) -> set[bytes]:
    """Return the input digests after a sentence is added to a document, which is then restored."""
    text = get_text(store, key)
    store.update(key, text=f"{text} It was looked at again last week.")
    store.refresh(kind)
    digests = compute_input_digests(store, kind)
    store.update(key, text=text)
    store.refresh(kind)
    return digests


def get_text(store: kvstore.Store, key: str) -> str:
    """Return the text of an existing document."""
    document = store.get(key)
    assert document is not None
    return document.text


def time_commits(store: kvstore.Store, kind: str, keys: Sequence[str]) -> tuple[float, float]:
    """Return the median processor time of replacing a document, with and without an index.

    The index must exist, and is dropped at the end.
    """
    seconds: dict[bool, list[float]] = {True: [], False: []}
    deque(time_replacements(store, keys[-_NUM_COMMITS:], "read first"), maxlen=0)  # loads modules and caches
    for turn in range(2 * _NUM_TURNS):
        has_index = turn % 2 == 0
        if has_index and turn:
            store.create_index(kind)
        elif not has_index:
            store.drop_index(kind)
        # The same documents with and without the index; the first ones again if there are no more.
        start = turn // 2 * _NUM_COMMITS
        seconds[has_index] += time_replacements(
            store, keys[start:][:_NUM_COMMITS] or keys[:_NUM_COMMITS], f"turn {turn}"
        )
    return statistics.median(seconds[True]), statistics.median(seconds[False])


def time_replacements(store: kvstore.Store, keys: Sequence[str], statement: str) -> Iterator[float]:
    """Append "This is ``statement``." to each document, and yield the processor time of each replacement."""
    for key in keys:
        text = get_text(store, key)
        started = time.process_time()
        store.update(key, text=f"{text} This is {statement}.")
        yield time.process_time() - started


if __name__ == "__main__":
    main()
