"""Measure the shell and SELECT on large stores.

    python tools/bench_shell.py --json

In: the numbers of chunks and of entities of the two stores that it builds in a temporary folder. One has texts of
common words, with the ``hashing`` embedder and ``language = rules``; the other has generated entities (seeded), written
through the storage layer without documents. Out: a table, or with ``--json`` one object whose keys include the units.
The time of the prompt is measured in a pseudo-terminal, from the start of the process until the prompt is drawn. A
completion is what the shell computes at a keystroke for the text before the cursor: the figure is the slowest one over
every prefix of several statements, with the parser loaded. Other figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import pexpect
from made_names import select_distinct_names

import kvstore
from kvstore.storage.environment import WriteTransaction
from kvstore.structures.counters import Counters
from kvstore.structures.filter.entity_filter import EntityFilter
from kvstore.structures.names.entities import KINDS, EntityRecord, EntityWriter
from kvstore_shell.completion import complete
from kvstore_shell.console import Console
from kvstore_shell.repl import LiveCatalog

SEED = 4
BATCH = 20_000
WORDS = "leave wages vacuum index table query document chunk store key office month year day of the and is in".split()
PARAGRAPHS = 200
PROMPTS = 7
QUERIES = 2000

#: The maximum of each figure that has a target.
TARGETS = {"prompt_ms": 400.0, "completion_ms": 30.0, "select_by_key_us": 200.0, "count_chunks_s": 0.3}


def fill_chunks(path: Path, min_chunks: int) -> int:
    """Build a store of at least ``min_chunks`` chunks of random words; return its number of chunks."""
    generator = random.Random(SEED)
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}, durability="relaxed") as store:
        chunks = num_documents = 0
        while chunks < min_chunks:
            with store.transaction() as transaction:
                for _ in range(10):
                    text = "\n\n".join(" ".join(generator.choices(WORDS, k=150)) + "." for _ in range(PARAGRAPHS))
                    transaction.put(f"document/{num_documents:06}", text, title=f"Document {num_documents}")
                    num_documents += 1
            chunks = int(store.statistics()["chunks"])
    return chunks


def fill_entities(path: Path, names: list[str]) -> None:
    """Build a store without documents whose entities have these names."""
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}, durability="relaxed") as store:
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            store._session.environment.write_with_growth(
                lambda transaction, batch=batch, start=start: put_entities(
                    transaction, store.settings.hash_seed, start + 1, batch
                )
            )


def put_entities(transaction: WriteTransaction, hash_seed: int, first: int, names: list[str]) -> None:
    """Write names as entities with the ids from ``first`` on, as commits of documents do."""
    entities = range(first, first + len(names))
    entity_filter = EntityFilter(transaction, hash_seed=hash_seed)
    entity_filter.insert_many(names, entities)
    entity_filter.flush()
    writer = EntityWriter(transaction)
    names_by_entity = dict(zip(entities, names, strict=True))
    writer.put_many(
        {entity: EntityRecord([name.title(), KINDS.index("name"), 1]) for entity, name in names_by_entity.items()}
    )
    writer.put_names(dict(zip(names, entities, strict=True)))
    counters = Counters.load(transaction)
    counters.entities += len(names)
    counters.next_entity = first + len(names)
    counters.save(transaction)


def measure_prompt_ms(path: Path, folder: Path) -> float:
    """Return the milliseconds from the start of ``kvstore shell`` to its prompt."""
    variables = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"), "TERM": "xterm"}
    command = ["-c", "from kvstore_shell.cli import main; main()", "shell", str(path)]
    times = []
    for _ in range(PROMPTS + 1):
        start = perf_counter()
        child = pexpect.spawn(sys.executable, command, env={**os.environ, **variables}, encoding="utf-8", timeout=60)
        while child.expect(["kvstore>", re.escape("\x1b[6n")]) == 1:
            child.send("\x1b[1;1R")  # the cursor position, which the shell requests from the terminal
        times.append(1000 * (perf_counter() - start))
        child.close(force=True)
    return statistics.median(times[1:])  # the first time does not count


def measure_completion_ms(store: kvstore.Store, names: list[str]) -> Iterator[float]:
    """Yield the milliseconds of the completion at every keystroke of several statements.

    The cache of the catalog is cleared before each statement.
    """
    catalog = LiveCatalog(Console(store))
    sampled_names = random.Random(SEED).sample(names, 20)
    quoted_names = (name.replace("'", "''") for name in sampled_names)
    statements = [f"LOOKUP '{name}' LIMIT 5;" for name in quoted_names]
    statements += ["ASK 'what' USING bridge TOP 5 WHERE key LIKE 'a%' WITH (pool = 1);", "DESCRIBE ENTITY 'a';"]
    statements += ["SELECT name, kind FROM entities WHERE name = 'a' ORDER BY mentions;", "EXPAND 'new' IN TREE 'x';"]
    for statement in statements:
        catalog.clear_cache()
        for end in range(len(statement) + 1):
            start = perf_counter()
            complete(statement[:end], catalog)
            yield 1000 * (perf_counter() - start)


def measure_median_seconds(function: Callable[[], object], num_calls: int) -> float:
    """Return the median time of ``num_calls`` calls, after one call that does not count."""
    function()
    seconds = []
    for _ in range(num_calls):
        start = perf_counter()
        function()
        seconds.append(perf_counter() - start)
    return statistics.median(seconds)


def make_key_query(store: kvstore.Store, names: list[str]) -> Callable[[], object]:
    """Return a function that selects one row of ``entities`` by its key, a random one in each call."""
    generator = random.Random(SEED)

    def query() -> None:
        """Select the row of a random name, and check it."""
        name = generator.choice(names)
        rows = store.execute("SELECT name, kind FROM entities WHERE key = ?", (name,)).fetchall()
        assert rows == [(name.title(), "name")]

    return query


def measure_all(chunks: int, entities: int) -> dict[str, float]:
    """Build both stores, and return the figures of all measurements by name."""
    with tempfile.TemporaryDirectory(prefix="bench-shell-") as scratch:
        folder = Path(scratch)
        figures: dict[str, float] = {"chunks": fill_chunks(folder / "chunks", chunks), "entities": entities}
        names = select_distinct_names(entities, None, SEED)
        fill_entities(folder / "entities", names)
        figures["prompt_ms"] = measure_prompt_ms(folder / "chunks", folder)
        figures["prompt_of_entities_ms"] = measure_prompt_ms(folder / "entities", folder)
        with kvstore.open(folder / "chunks", readonly=True) as store:
            figures["count_chunks_s"] = measure_median_seconds(
                lambda: store.execute("SELECT count(*) FROM chunks").fetchall(), 5
            )
        with kvstore.open(folder / "entities", readonly=True) as store:
            figures["select_by_key_us"] = 1e6 * measure_median_seconds(make_key_query(store, names), QUERIES)
            keystrokes = list(measure_completion_ms(store, names))
            figures["completion_ms"] = max(keystrokes)
            figures["completion_median_ms"] = statistics.median(keystrokes)
    return figures


def main() -> int:
    """Print the figures of all measurements; return the exit status, 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    figures = measure_all(options.chunks, options.entities)
    missed = [name for name, target in TARGETS.items() if figures[name] > target]
    if options.json:
        print(json.dumps({**figures, "targets": TARGETS, "missed": missed}))
    else:
        for name, value in figures.items():
            note = f"  (target {TARGETS[name]:g}{', missed' if name in missed else ''})" if name in TARGETS else ""
            print(f"{name:>24} {value:>14,.3f}{note}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
