"""The laws of units: whatever the history, with the index made, interrupted, gone on with and dropped anywhere in it, a
store holds what a fresh one does; and a writer that is killed leaves a store that is whole."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore import errors
from kvstore.changes import facts, index_maintenance
from kvstore.changes.dump import dump
from kvstore.structures.derived_parts import split_vector_id
from kvstore.systems.cue.unit_derivation import UNIT_DERIVATION
from kvstore.systems.cue.written_units import WRITTEN_UNITS

from .killing import call_at_every_point, make_killer_at, run_until_killed
from .test_dump_law import FIRST, Model, dump_checked_store, transactions

MAKING: dict[str, Any] = {"embedder": "hashing:16", "settings": {"language": "rules", "chunk_tokens": 24}}
#: What happens between two transactions: the index is made or dropped, whole or interrupted after some batches; or
#: units of one of the documents come from a model, or are taken back.
upkeep = st.tuples(
    st.sampled_from(["nothing", "create", "create", "drop", "refresh", "write", "write", "take back"]),
    st.integers(0, 3),
)


@contextmanager
def interrupt_batches(batches: int) -> Iterator[None]:
    """Limit batches to one document and raise KeyboardInterrupt before the batch with this number; 0: never."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_maintenance, "_MAX_BATCH_DOCUMENTS", 1)
        begun: list[int] = []

        def wrap_method(method: Any) -> Any:
            def call_or_interrupt(*arguments: Any) -> Any:
                begun.append(1)
                if len(begun) == batches:
                    raise KeyboardInterrupt
                return method(*arguments)

            return call_or_interrupt

        for name in ("_store_batch", "_remove_batch"):
            patch.setattr(index_maintenance.MaintainedIndexBuilder, name, wrap_method(
                getattr(index_maintenance.MaintainedIndexBuilder, name)
            ))  # fmt: skip
        yield


def get_index_state(store: kvstore.Store) -> str | None:
    return next((index.state for index in store.indexes() if index.kind == "units"), None)


def maintain_index(store: kvstore.Store, action: str, batches: int) -> None:
    index_state = get_index_state(store)
    if action in ("write", "take back") and store.keys():
        key = store.keys()[batches % len(store.keys())]
        texts = [f"Ada Lovelace wrote {number} of these." for number in range(1 + batches)]
        value = WRITTEN_UNITS.parse_fields([[None, "a model", texts]] if action == "write" else [])
        with store.transaction() as transaction, suppress(errors.InputError):  # a document of pairs
            transaction._put_fact(WRITTEN_UNITS, key, value)
    try:
        with interrupt_batches(batches):
            if action == "create" and index_state is None:
                store.create_index("units")
            elif action == "drop" and index_state is not None:
                store.drop_index("units")
            elif action == "refresh":
                store.refresh("units") if index_state is not None else None
    except KeyboardInterrupt:
        pass


def map_texts_to_vectors(store: kvstore.Store) -> dict[tuple[str, int], bytes]:
    with store.state() as state:
        vectors = {}
        for ids, matrix in state.get_derived_parts(UNIT_DERIVATION).vectors.scan():
            for id, vector in zip(ids.tolist(), matrix, strict=True):
                document, text = split_vector_id(id)
                vectors[state.documents.get(document).key, text] = vector.tobytes()
        return vectors


def count_records(store: kvstore.Store) -> int:
    with store.state() as state:
        return sum(state.lmdb.count(f"units_{table}") for table in ("parts", "vectors", "vector_space"))


def apply_history(store: kvstore.Store, model: Model, history: list, upkeeps: list) -> Model:
    """Apply a history; return the surviving content."""
    for number, (steps, outcome) in enumerate([([("put", "a", FIRST)], "commit"), *history]):
        after = deepcopy(model)
        transaction = store.transaction()
        for step in steps:
            after.apply_step(transaction, *step)
        if outcome == "rollback":
            transaction.rollback()
        else:
            transaction.commit()
            model = after
        if number < len(upkeeps):
            maintain_index(store, *upkeeps[number])
    return model


def fill_from_model(store: kvstore.Store, model: Model, written_units: dict[str, Any]) -> None:
    for key in sorted(model.documents, reverse=True):
        store.put(key, **model.documents[key])
    for key, (triples, names) in model.triples.items():
        store.put_triples(key, triples, names=names)
    for edge in model.edges.values():
        store.put_edge(edge.child, edge.parent, tree=edge.tree)
    with store.transaction() as transaction:
        for alias in model.aliases.values():
            transaction._put_fact(facts.ALIASES, alias.key, alias)
        for key, value in written_units.items():
            transaction._put_fact(WRITTEN_UNITS, key, value)


def check_history(history: list, upkeeps: list) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with kvstore.open(folder / "lived", **MAKING) as lived:
            model = apply_history(lived, Model(), history, upkeeps)
            assert lived.check() == []
            lived.refresh()
            has_index = get_index_state(lived) is not None
            assert has_index or count_records(lived) == 0
            index_dump, vectors = dump_checked_store(lived), map_texts_to_vectors(lived)
            with lived.state() as state:
                written_units = dict(WRITTEN_UNITS.scan(state))
            lived.export(folder / "all.jsonl")
            assert lived.repair().rebuilt is None
            with lived.transaction() as transaction:
                transaction.delete_many(transaction.keys())
            assert count_records(lived) == 0, "no unit and no vector of what is deleted"
            with lived.state() as state:
                assert state.lmdb.count("unit_texts") == 0, "and no text"
        for number, way in enumerate(("put", "import")):
            with kvstore.open(folder / way, **MAKING) as fresh_store:
                if has_index and number == 0:
                    fresh_store.create_index("units")
                if way == "put":
                    fill_from_model(fresh_store, model, written_units)
                else:
                    fresh_store.import_(folder / "all.jsonl")
                if has_index and number == 1:
                    fresh_store.create_index("units")
                assert dump_checked_store(fresh_store) == index_dump
                assert map_texts_to_vectors(fresh_store) == vectors


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(transactions, st.lists(upkeep, max_size=10))
def test_any_history_gives_the_units_of_a_fresh_store(history: list, upkeeps: list) -> None:
    check_history(history, upkeeps)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
@settings(max_examples=num_examples(100), deadline=None)
@given(history=transactions, upkeeps=st.lists(upkeep, min_size=2, max_size=10))
def test_three_hundred_histories_give_the_units_of_a_fresh_store(part: int, history: list, upkeeps: list) -> None:
    check_history(history, upkeeps)


WORDS = "Ada Lovelace Bank Engine Harbour Pump Valve Ledger Payroll Uppsala Oslo".split()


def make_text(draw: random.Random, sentences: int) -> str:
    return " ".join(
        f"{draw.choice(WORDS)} {draw.choice(WORDS)} keeps the {draw.choice(WORDS)} of {draw.choice(WORDS)}."
        for _ in range(sentences)
    )


class WriteHistory:
    """Writes to a store with units and its content after each: built, interrupted, dropped, rebuilt."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.states: list[dict[str, Any]] = []
        self.points: list[int] = []
        passed = 0

        def record_point(point: str) -> None:
            nonlocal passed
            if point == "committed":
                self.states.append(self.read_content(store))
            self.points.append(len(self.states))
            passed += 1

        folder.mkdir()
        with kvstore.open(folder / "store", **MAKING) as store:
            self.states.append(self.read_content(store))
            with call_at_every_point(record_point):
                self.write(store)
            assert store.check() == []
        shutil.rmtree(folder)

    def write(self, store: kvstore.Store) -> None:
        """Make the changes of the history in a store."""
        draw = random.Random(self.seed)
        with store.transaction() as transaction:
            for number in range(6):
                transaction.put(f"d{number}", make_text(draw, draw.randint(1, 4)), title=draw.choice(WORDS))
        with interrupt_batches(3), pytest.raises(KeyboardInterrupt):
            store.create_index("units")
        store.put("d1", make_text(draw, 3))
        store.delete("d5")
        with interrupt_batches(0):
            store.refresh("units")
        with store.transaction() as transaction:
            transaction.put("d2", make_text(draw, 2), title="Engine")
            transaction.put("new", make_text(draw, 5))
            transaction.put_triples("d3", [("Ada", "knew", "Lovelace")])
        for key, more in (("d1", 2), ("d2", 3)):  # as EXTRACT commits what a model wrote of one after another
            texts = [f"{draw.choice(WORDS)} keeps {number} Ledgers." for number in range(more)]
            with store.transaction() as transaction:
                transaction._put_fact(WRITTEN_UNITS, key, WRITTEN_UNITS.parse_fields([[None, "a model", texts]]))
        store.update("d3", title="Bank")
        store.compact()
        with interrupt_batches(2), pytest.raises(KeyboardInterrupt):
            store.drop_index("units")
        store.delete("d0")
        with interrupt_batches(0):
            store.drop_index("units")
            store.create_index("units")
        store.delete("d3")

    @staticmethod
    def read_content(store: kvstore.Store) -> dict[str, Any]:
        with store.state() as state:
            return {**dump(state), "vectors": map_texts_to_vectors(store)}

    def kill_at(self, place: int) -> None:
        """Kill the writer at a point; assert that the store is valid, holds the commits, and accepts writes."""

        def write_until_killed() -> None:
            with kvstore.open(self.folder / "store", **MAKING) as store, call_at_every_point(make_killer_at(place)):
                self.write(store)

        self.folder.mkdir()
        try:
            assert run_until_killed(write_until_killed), place
            with kvstore.open(self.folder / "store", **MAKING) as store:
                assert store.check() == []
                assert self.read_content(store) == self.states[self.points[place] - 1]
                store.put("after", "The Harbour is open again, says Ada.")
                store.refresh()
                assert store.check() == []
                assert get_index_state(store) in (None, "exact")
                content = dump_checked_store(store)
                has = get_index_state(store) is not None
                store.export(self.folder / "all.jsonl")
            with kvstore.open(self.folder / "fresh", **MAKING) as fresh_store:
                if has:
                    fresh_store.create_index("units")
                fresh_store.import_(self.folder / "all.jsonl")
                assert dump_checked_store(fresh_store) == content
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.slow
def test_a_killed_writer_of_units_leaves_a_valid_store(tmp_path: Path) -> None:
    course = WriteHistory(0, tmp_path / "run")
    for place in random.Random(0).sample(range(len(course.points)), 6):
        course.kill_at(place)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_two_hundred_killed_writers_of_units(tmp_path: Path, seed: int) -> None:
    course = WriteHistory(seed, tmp_path / "run")
    draw = random.Random(seed)
    for place in draw.sample(range(len(course.points)), 50):
        course.kill_at(place)
