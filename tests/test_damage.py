"""A bit flipped in any value: every question gets a typed error or the right answer, never a wrong one, and in time."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvstore
from kvstore.errors import KvstoreError
from kvstore.registry import STRATEGIES, list_store_tables
from kvstore.storage.environment import Environment

QUESTION = "Who keeps the Cryostat cold in Uppsala?"

Ask = Callable[[kvstore.Store], object]

#: Every way to read, each giving something that can be compared.
QUESTIONS: dict[str, Ask] = {
    "keys": lambda store: store.keys(),
    "get": lambda store: [store.get(key) for key in ("pumps", "cold", "own", "parts", "nothing")],
    "names": lambda store: store.names(""),
    "aliases": lambda store: store.aliases(),
    "lookup": lambda store: store.lookup("Cryostat", "Maria Lindqvist", "The Pump", limit=20),
    "unknown": lambda store: [bool(store.lookup(name)) for name in ("Nobody", "Absent Name", "Zz")],
    "expand": lambda store: [store.expand(name, depth=3) for name in ("Cryostat", "Turbine", "Maria Lindqvist")],
    "tree": lambda store: store.expand("Cryostat", depth=3, tree="parts"),
    **{
        f"retrieve {name}": lambda store, name=name: store.retrieve(QUESTION, using=name, top=4).hits  # type: ignore[misc]
        for name in STRATEGIES
    },
    "ask": lambda store: (store.ask(QUESTION).text, store.ask(QUESTION).citations),
    **{
        f"select {table}": lambda store, table=table: store.execute(f"SELECT * FROM {table}").fetchall()  # type: ignore[misc]
        for table in ("documents", "chunks", "abstracts", "entities", "mentions", "trees", "nodes", "edges", "aliases")
    },
    "where": lambda store: store.execute("SELECT * FROM documents WHERE key = 'cold'").fetchall(),
    "entity": lambda store: store.execute("SELECT * FROM entities WHERE name = 'Cryostat'").fetchall(),
    "statistics": lambda store: store.statistics()["documents"],
}


class TimeLimitError(BaseException):
    """A call that exceeds its time limit."""


@contextmanager
def limit_time(seconds: int) -> Iterator[None]:
    def raise_error(*_: object) -> None:
        raise TimeLimitError

    previous_handler = signal.signal(signal.SIGALRM, raise_error)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous_handler)


@pytest.fixture(scope="module")
def stored_answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the path of a store with rows in every table, and its answers."""
    path = tmp_path_factory.mktemp("damage") / "store"
    with kvstore.open(path, embedder="hashing:32", settings={"chunk_tokens": 16, "language": "rules"}) as store:
        store.create_index("units")
        store.put(
            "pumps",
            "# Pumps\n\nThe Vacuum Pump feeds the Cryostat. It was built in Uppsala by Maria Lindqvist.\n\n## Care\n\n"
            "Ask Maria Lindqvist before the Vacuum Pump is opened. The Turbine is next to it.\n\n"
            + "The Cryostat stands in Uppsala and the Turbine turns. "
            * 12,
            title="Vacuum Pump",
            format="markdown",
        )
        store.put("cold", "The Cryostat keeps the Detector cold in Uppsala.", title="Cryostat", meta={"year": 2023})
        store.put("parts", "Vacuum Pump,Cryostat\nCryostat,Turbine\nTurbine,Instrument\n", format="pairs")
        store.put("own", "A text whose vector its owner brought along.", vectors=[np.linspace(-1, 1, 32)])
        store.put("names", " ".join(f"Alpha{number} is Beta{number}." for number in range(300)))
        store.put("gone", "The Old Harbour is deleted again.")
        store.put_edge("Maria Lindqvist", "Laboratory", tree="staff")
        store.alias("The Pump", "Vacuum Pump")
        store.merge("Turbine", "Instrument")
        store.create_index("communities")
        store.create_index("topics")
        store.delete("gone")
        assert store.check() == []
    with kvstore.open(path, readonly=True) as store:
        return path, {name: ask(store) for name, ask in QUESTIONS.items()}


def flip_bit(path: Path, draw: random.Random) -> str:
    """Flip one bit of one value of a random table; return its place."""
    with Environment.open(path) as environment, environment.write() as transaction:
        table = draw.choice([table.name for table in list_store_tables() if transaction.count(table.name)])
        records = [(bytes(key), bytes(value)) for key, value in transaction.scan(table) if len(value)]
        if not records:
            return f"{table}: no values"
        key, value = draw.choice(records)
        place, bit = draw.randrange(len(value)), draw.randrange(8)
        transaction.put(table, key, value[:place] + bytes([value[place] ^ 1 << bit]) + value[place + 1 :])
    return f"{table}, key {key!r}, byte {place} of {len(value)}, bit {bit}"


def is_noticed(path: Path, place: str, expected: dict[str, Any]) -> bool:
    """True if a damaged store reports the damage when it is asked everything."""
    noticed = False
    try:
        store = kvstore.open(path, readonly=True)
    except KvstoreError:
        return True
    with store:
        for name, ask in QUESTIONS.items():
            try:
                with limit_time(20):
                    answer = ask(store)
            except KvstoreError:
                noticed = True
            else:
                assert answer == expected[name], f"{place}: a wrong answer to {name}"
        with limit_time(60):
            problems = store.check()
        assert problems or not noticed, f"{place}: a question met damage, CHECK did not"
    return noticed


def check_damages(stored_answers: tuple[Path, dict[str, Any]], folder: Path, seeds: range) -> None:
    path, expected = stored_answers
    for seed in seeds:
        copy = folder / "copy"
        copy.mkdir()
        for file in (path / "data.mdb", *path.glob("*.index")):
            shutil.copy(file, copy)
        place = flip_bit(copy, random.Random(seed))
        is_noticed(copy, f"seed {seed}: {place}", expected)
        shutil.rmtree(copy)


@pytest.mark.slow
def test_a_flipped_bit_gives_no_wrong_answer(stored_answers: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    check_damages(stored_answers, tmp_path, range(40))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 25))
def test_a_thousand_flipped_bits_give_no_wrong_answer(
    stored_answers: tuple[Path, dict[str, Any]], tmp_path: Path, part: int
) -> None:
    """With the quick test's forty, a thousand."""
    check_damages(stored_answers, tmp_path, range(40 * part, 40 * (part + 1)))
