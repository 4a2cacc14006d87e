"""Measure the cost of REFRESH of the indexes ``topics`` and ``communities``.

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
from kvstore.registry import list_generation_kinds
from kvstore.structures.indexes.generations import bind_generation

#: The number of documents replaced in a turn, and the number of turns with and without an index.
_COMMITS, _TURNS = 40, 4


@click.command()
@click.option("--data", help="A question set: FOLDER, or FOLDER:N.")
@click.option("--kind", "kinds", multiple=True, default=("topics", "communities"), show_default=True)
@click.option("--trials", default=5, show_default=True, help="Documents that are changed, one at a time.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the store in this folder, and use it again.")
@click.option("--opened", is_flag=True, help="Take the store as it is; nothing is put but what is measured.")
@click.option("--embedder", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    data: str | None,
    kinds: Sequence[str],
    trials: int,
    store: Path | None,
    opened: bool,
    embedder: str,
    as_json: bool,
) -> None:
    """Measure the cost of REFRESH."""
    if opened == (data is not None) or (opened and store is None):
        raise click.UsageError("name --data, or --store with --opened")
    with tempfile.TemporaryDirectory() as scratch:
        path = store or Path(scratch) / "store"
        with kvstore.open(path) if opened else kvstore.open(path, embedder=embedder) as opened_store:
            if data is not None:
                fill_store(opened_store, load(data, None), triples=False, log=lambda line: click.echo(line, err=True))
            rows = [measure_index(opened_store, kind, trials) for kind in kinds]
    if as_json:
        print(json.dumps({"rows": rows}))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))


def measure_index(store: kvstore.Store, kind: str, trials: int) -> dict[str, Any]:
    """Measure the cost of one kind.

    The store ends up unchanged, except for a sentence in the documents that were changed.
    """
    if any(index.kind == kind for index in store.indexes()):
        store.drop_index(kind)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    store.create_index(kind)
    seconds = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    texts = compute_input_digests(store, kind)
    (index,) = (index for index in store.indexes() if index.kind == kind)
    keys = sorted(store.keys(""))
    drawn = random.Random(0).sample(keys, min(trials, len(keys)))
    anew = [len(compute_input_digests_after_change(store, kind, key) - texts) for key in drawn]
    with_index, without = time_commits(store, kind, keys)
    return {
        "kind": kind,
        "chunks": store.statistics()["chunks"],
        "refresh_s": round(seconds, 2),
        "more_memory_mib": memory >> 10,
        "texts": len(texts),
        "texts_anew": round(statistics.mean(anew) / max(1, len(texts)), 4) if anew else None,
        "commit_ms_with": round(1000 * with_index, 3),
        "commit_ms_without": round(1000 * without, 3),
        "detail": index.detail,
    }


def compute_input_digests(store: kvstore.Store, kind: str) -> set[bytes]:
    """Return digests of the inputs of all texts that a model can write."""
    (generation_index,) = (index for index in list_generation_kinds() if index.name == kind)
    with store.state() as state:
        bound = bind_generation(state, generation_index)
        return set() if bound is None else {writing.digest for writing in generation_index.list_writing_tasks(bound)}


def compute_input_digests_after_change(store: kvstore.Store, kind: str, key: str) -> set[bytes]:
    """Return the same after changing a document, which is then restored."""
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
    """Return the median processor time of replacing a document, with and without an index; the index is dropped at the
    end.
    """
    seconds: dict[bool, list[float]] = {True: [], False: []}
    deque(time_replacements(store, keys[-_COMMITS:], "read first"), maxlen=0)  # load modules and caches first
    for turn in range(2 * _TURNS):
        there = turn % 2 == 0
        if there and turn:
            store.create_index(kind)
        elif not there:
            store.drop_index(kind)
        start = turn // 2 * _COMMITS  # the same documents with and without the index
        seconds[there] += time_replacements(store, keys[start:][:_COMMITS] or keys[:_COMMITS], f"turn {turn}")
    return statistics.median(seconds[True]), statistics.median(seconds[False])


def time_replacements(store: kvstore.Store, keys: Sequence[str], said: str) -> Iterator[float]:
    """Yield the processor time of each replacement."""
    for key in keys:
        text = get_text(store, key)
        started = time.process_time()
        store.update(key, text=f"{text} This is {said}.")
        yield time.process_time() - started


if __name__ == "__main__":
    main()
