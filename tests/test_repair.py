"""CHECK REPAIR: whatever is derived comes back from what users stated, and nothing else is touched."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from pytest import MonkeyPatch

import kvstore
from kvstore import errors
from kvstore.changes import facts
from kvstore.changes.dump import dump
from kvstore.models.language import get_language_version
from kvstore.registry import list_generation_indexes, list_store_tables
from kvstore.storage import records
from kvstore.structures import tables

FORMAT = Path(kvstore.__file__).parent / "storage" / "FORMAT.md"

MakeStore = Callable[..., kvstore.Store]

#: What a user states, which cannot be made again: FORMAT.md lists it. Of vectors it is the user's own.
STATED = {table for fact in facts.list_fact_kinds() for table in fact.tables} | {tables.INDEXES, tables.WRITTEN}
PRIMARY = STATED - {tables.VECTORS} | {tables.META}
#: What a store does without: files are read again.
DISPENSABLE = {tables.INGESTED_FILES}
#: What REFRESH makes, and no repair.
REFRESHED = {table for kind in list_generation_indexes() for table in kind.tables}


def fill_store(store: kvstore.Store, *, own_vectors: bool = True) -> None:
    store.put(
        "a", "# Pumps\n\nThe Vacuum Pump feeds the Cryostat.\n\n## Care\n\nAsk Maria Lindqvist.", format="markdown"
    )
    store.put("b", "The Cryostat keeps the Detector cold.", title="Cryostat", meta={"year": 2023})
    # The third edge says what the first two say, and the fourth closes a circle.
    pairs = "Vacuum Pump,Cryostat\nCryostat,Instrument\nVacuum Pump,Instrument\nInstrument,Vacuum Pump\n"
    store.put("c", pairs, format="pairs")
    if own_vectors:
        vector = np.linspace(-1, 1, store.settings.dimension)
        store.put("own", "A text whose vector its owner brought along.", vectors=[vector])
    store.put_edge("Maria Lindqvist", "Laboratory", tree="staff")
    store.alias("The Pump", "Vacuum Pump")
    store.put_triples("b", [("Cryostat", "cools", "Detector")])
    store.merge("Detector", "Instrument")
    store.create_index("synonyms", {"similarity": 0.9})
    store.create_index("units")
    store.lookup("Cryostat")
    store.flush()


def ingest_file(store: kvstore.Store, folder: Path) -> None:
    """Ingest a file as one that did not change just now."""
    path = folder / "file.txt"
    path.write_text("The Cryostat came in a file.")
    with MonkeyPatch.context() as patches:
        patches.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", -1.0)
        assert store.ingest(path).added == 1


def read_content(store: kvstore.Store) -> tuple[Any, ...]:
    """Return everything that a repair must preserve: the logical dump, vectors, times, and temperatures."""
    with store.state() as state:
        vectors = {
            (record.key, ordinal): state.vectors.gather([(stored.block, stored.row)]).tobytes()
            for record in state.documents.scan()
            for ordinal, stored in enumerate(map(state.chunks.get, record.chunk_ids()))
        }
        changed = {record.key: record.changed for record in state.documents.scan()}
        entries = state.filter.iter_entries()
        heat = {key: entry.temperature for key, entry in entries}
        return dump(state), vectors, changed, heat


def damage_row(store: kvstore.Store, table: str, change: Callable[[bytes], bytes | None]) -> None:
    """Change or delete one value in the middle of a table."""
    with store._session.environment.write() as transaction:
        rows = [(bytes(key), bytes(value)) for key, value in transaction.scan(table)]
        key, value = rows[len(rows) // 2]
        if not value and change is flip_bit:
            pytest.skip(f"the keys of {table} say everything")
        new_value = change(value)
        if new_value is None:
            transaction.delete(table, key)
        else:
            transaction.put(table, key, new_value)


def flip_bit(value: bytes) -> bytes:
    middle = len(value) // 2
    return value[:middle] + bytes([value[middle] ^ 0x10]) + value[middle + 1 :]


def remove_row(_: bytes) -> None:
    return None


@pytest.fixture(scope="module")
def make_closed_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Any]]:
    """Return a factory of closed stores to copy, each with its content; it builds each kind of store once."""

    @cache
    def build_store(own_vectors: bool, long_lists: bool) -> tuple[Path, Any]:
        path = tmp_path_factory.mktemp("filled") / "store"
        with kvstore.open(path, embedder="hashing", settings={"language": "rules", "chunk_tokens": 16}) as store:
            fill_store(store, own_vectors=own_vectors)
            if long_lists:  # so many places of one name that they are kept in blocks, and so are its postings
                parts = (f"## Part {n}\n\nThe Cryostat has it." for n in range(270))
                store.put("places", "\n\n".join(parts), format="markdown")
            return path, read_content(store)

    return build_store


@pytest.mark.matrix
@pytest.mark.parametrize("how", [flip_bit, remove_row])
@pytest.mark.parametrize(
    "table", sorted({table.name for table in list_store_tables()} - PRIMARY - DISPENSABLE - REFRESHED - {tables.RECENT})
)
def test_a_damaged_derived_table_is_found_and_rebuilt(
    make_store: MakeStore,
    make_closed_store: Callable[..., tuple[Path, Any]],
    tmp_path: Path,
    table: str,
    how: Callable[[bytes], bytes | None],
) -> None:
    path, before = make_closed_store(table != tables.VECTORS, table in (tables.ADDRESS_BLOCKS, tables.TERM_COUNTS))
    copytree(path, tmp_path / "store")
    store = make_store()
    with store.state() as view:
        assert view.lmdb.count(table), f"the store of this test has nothing in {table}"
    damage_row(store, table, how)
    report = store.repair()
    assert report.found, f"CHECK did not see the damage in {table}"
    assert (report.lost, report.remaining) == ([], [])
    after = read_content(store)
    if table in (tables.BUCKET_PAGES, tables.BLOCK_PAGES, tables.FILTER_DIRECTORY):
        before, after = before[:3], after[:3]  # where the filter is damaged its counts may go
    assert after == before


@pytest.mark.parametrize("how", [flip_bit, remove_row])
def test_a_damaged_segment_of_the_change_buffer_costs_the_changes_of_its_commit_alone(
    make_store: MakeStore, how: Callable[[bytes], bytes | None]
) -> None:
    survive = {
        "tea": "Robert Fortune brought tea to Darjeeling.",
        "ships": "The Clipper carried tea from Darjeeling, and Robert Fortune.",
        "late": "Robert Fortune sailed on a Clipper to Darjeeling again.",
    }
    store = make_store()
    store.put("tea", survive["tea"])
    store.put("ships", "The Clipper.")
    store.compact()
    store.put("ships", survive["ships"])
    store.put("lost", "Robert Fortune lost the Clipper in Darjeeling.")  # the segment in the middle
    store.put("late", survive["late"])
    damage_row(store, tables.RECENT, how)
    assert store.check()
    report = store.repair()
    (message,) = report.lost
    assert message.startswith("the changes of ")
    assert report.remaining == []
    fresh = make_store("fresh")
    for key, text in survive.items():
        fresh.put(key, text)
    assert read_content(store)[0] == read_content(fresh)[0]


def test_a_store_with_a_damaged_change_buffer_opens_and_is_repaired(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", embedder="hashing") as store:
        store.put("tea", "Robert Fortune brought tea to Darjeeling.")
        store.compact()
        store.put("ships", "The Clipper.")
        damage_row(store, tables.RECENT, flip_bit)
    with kvstore.open(tmp_path / "store") as store:
        problems = store.check()
        assert problems and len(problems) == len(set(problems))
        with pytest.raises(kvstore.errors.CorruptionError):
            store.put("late", "The Clipper sailed.")
        assert store.repair().remaining == []
        assert store.keys() == ["tea"]


@pytest.mark.parametrize(
    ("table", "lost"),
    [
        (tables.STATED_EDGES, "the user's edge between tree nodes"),
        (tables.ALIASES, "the alias "),
        (tables.TRIPLES, "the triples of document"),
        (tables.INDEXES, "the options of index 'units'"),
    ],
)
def test_damaged_statements_of_a_user_are_lost_and_reported(store: kvstore.Store, table: str, lost: str) -> None:
    fill_store(store)
    damage_row(store, table, flip_bit)
    report = store.repair()
    assert report.found
    (message,) = report.lost
    assert message.startswith(lost)
    assert store.check() == []


def test_a_damaged_record_of_a_file_costs_reading_the_file_again(store: kvstore.Store, tmp_path: Path) -> None:
    fill_store(store)
    ingest_file(store, tmp_path)
    before = read_content(store)
    damage_row(store, tables.INGESTED_FILES, flip_bit)
    report = store.repair()
    assert report.found
    assert (report.lost, report.remaining) == ([], [])
    assert read_content(store) == before
    assert store.ingest(tmp_path / "file.txt").unchanged == 1


def test_a_record_of_a_file_names_documents_that_the_file_did_not_produce(store: kvstore.Store, tmp_path: Path) -> None:
    ingest_file(store, tmp_path)
    store.put("other", "Port Ellen has a pier.", source="elsewhere.txt")
    with store._session.environment.write() as view:
        ((key, value),) = list(view.scan(tables.INGESTED_FILES))
        record = records.unpack(value, tables.INGESTED_FILES, key)
        documents = [*record["documents"], "other", "missing"]
        view.put(tables.INGESTED_FILES, key, records.pack({**record, "documents": documents}))
    other, missing = store.repair().found
    assert other.endswith("but its document 'other' has the source 'elsewhere.txt'")
    assert missing.endswith("but its document 'missing' is not stored")


def test_the_format_lists_data_that_cannot_be_rebuilt() -> None:
    (sentences,) = re.findall(
        r"cannot rebuild the settings and the following tables: (.*?) CHECK REPAIR", FORMAT.read_text(), re.S
    )
    assert set(re.findall(r"`(\w+)`", sentences)) == STATED


@pytest.mark.parametrize("how", [flip_bit, remove_row])
def test_vectors_of_the_user_cannot_be_rebuilt(store: kvstore.Store, how: Callable[[bytes], bytes | None]) -> None:
    fill_store(store)
    damage_row(store, tables.VECTORS, how)
    report = store.repair()
    assert report.lost == ["document 'own': the vectors supplied with it are lost; put it again with them"]
    assert report.remaining == []
    assert store.get("own") is not None


@pytest.mark.parametrize(("how", "problem"), [(flip_bit, "is damaged"), (remove_row, "is missing")])
def test_a_vector_block_that_cannot_be_read_is_reported_once(
    store: kvstore.Store, how: Callable[[bytes], bytes | None], problem: str
) -> None:
    with store.transaction() as transaction:
        for number in range(80):
            transaction.put(f"d{number}", f"The mast of ship {number} is {number} feet high.")
    store.delete("d79")
    with store._session.environment.snapshot() as snapshot:
        assert snapshot.count(tables.VECTORS) > 2
    damage_row(store, tables.VECTORS, how)
    (sentence,) = store.check()
    assert sentence.startswith("table vectors: vector block ") and problem in sentence
    assert store.repair().remaining == []


def test_vectors_of_other_chunks_are_not_carried_over(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(40):
            transaction.put(f"d{number}", f"The mast of ship {number} is {number} feet high.")
    before = read_content(store)
    with store._session.environment.write() as view:
        (first, _), (_, last) = [(bytes(key), bytes(value)) for key, value in view.scan(tables.VECTORS)][:2]
        view.put(tables.VECTORS, first, last)
    report = store.repair()
    assert report.found
    assert (report.lost, report.remaining) == ([], [])
    assert read_content(store) == before


def test_a_store_of_another_language_pipeline_version_is_recognized(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(
            "kvstore.structures.language_version.get_language_version", lambda name: "before" if name == "en" else ""
        )
        store = make_store(settings={"language": "en"})
    store.put("pier", "The pier is part of the harbour.")
    query = "SELECT value FROM settings WHERE name = 'language_version'"
    assert store.execute(query).fetchall() == [("before",)]
    (problem,) = store.check()
    assert "parsed by version before of the language pipeline 'en', but version " in problem
    assert store.repair().remaining == []
    assert store.execute(query).fetchall() == [(get_language_version("en"),)]
    # A store that was made before the version was recorded.
    store._session.environment.write_with_growth(lambda view: view.delete(tables.META, b"language_version"))
    assert store.execute(query).fetchall() == [("",)]
    assert store.check() == []


def test_repair_does_not_change_a_valid_store(store: kvstore.Store) -> None:
    fill_store(store)
    change = store.statistics()["change"]
    report = store.repair()
    assert (report.found, report.rebuilt) == ([], None)
    assert store.statistics()["change"] == change
    assert store.execute("CHECK REPAIR").message == "the store is sound"


def test_a_damaged_document_is_lost_and_reported(store: kvstore.Store) -> None:
    fill_store(store)
    with store._session.environment.write() as view:
        key, value = next((bytes(key), bytes(value)) for key, value in view.scan(tables.TEXTS))
        view.put(tables.TEXTS, key, flip_bit(value))
    cursor = store.execute("CHECK REPAIR")
    outcomes = {outcome for _, outcome in cursor}
    assert cursor.failed
    assert "lost" in outcomes
    assert "remains" not in outcomes
    assert store.get("a") is None
    assert store.get("b") is not None
    assert store.check() == []


def test_triples_of_a_damaged_document_are_lost_with_it(store: kvstore.Store) -> None:
    fill_store(store)
    with store._session.environment.write() as view:
        for key, value in [(bytes(key), bytes(value)) for key, value in view.scan(tables.TEXTS)]:
            view.put(tables.TEXTS, key, flip_bit(value))
    report = store.repair()
    assert any(re.match("the triples of document .*: document 'b' is lost", message) for message in report.lost)
    assert report.remaining == []
    assert store.names("detector") == []


def test_damaged_counters_are_counted_again_and_no_id_is_used_twice(store: kvstore.Store) -> None:
    fill_store(store)
    with store.state() as view:
        used = {chunk for record in view.documents.scan() for chunk in record.chunk_ids()}
    with store._session.environment.write() as view:
        value = view.get(tables.META, b"counters")
        assert value is not None
        view.put(tables.META, b"counters", flip_bit(bytes(value)))
    assert store.check()
    report = store.repair()
    assert (report.lost, report.remaining) == ([], [])
    with store.state() as view:
        assert used.isdisjoint(chunk for record in view.documents.scan() for chunk in record.chunk_ids())


def test_caches_from_before_damaged_counters_are_not_used(store: kvstore.Store) -> None:
    def find_keys(vector: np.ndarray, **restricted: Any) -> list[str]:
        return [hit.document for hit in store.retrieve("x", using="vector", top=1, vector=vector, **restricted).hits]

    late = {"where": "json_extract(meta, '$.year') > 1999"}
    vectors = np.eye(store.settings.dimension, dtype=np.float32)
    for number in range(12):
        store.put(f"d{number}", f"text {number}", vectors=vectors[number], meta={"year": 2000})
        assert find_keys(vectors[number], **late) == [f"d{number}"]
    for number in range(4, 12):  # so that their ids cannot be distinguished from unused ids
        store.delete(f"d{number}")
    assert find_keys(vectors[0]) == find_keys(vectors[0], **late) == ["d0"]
    with store._session.environment.write() as view:
        view.put(tables.META, b"counters", flip_bit(bytes(view.get(tables.META, b"counters") or b"")))
    assert store.repair().remaining == []
    for number in range(12, 32):
        store.put(f"d{number}", f"text {number}", vectors=vectors[number], meta={"year": 2000})
        assert find_keys(vectors[number]) == find_keys(vectors[number], **late) == [f"d{number}"]


def test_a_repair_is_refused_in_a_transaction_and_needs_to_write(make_store: MakeStore) -> None:
    store = make_store()
    fill_store(store)
    store.execute("BEGIN")
    with pytest.raises(errors.TransactionError, match="outside BEGIN"):
        store.execute("CHECK REPAIR")
    store.execute("ROLLBACK")
    damage_row(store, tables.MENTIONS, remove_row)
    store.close()
    store = make_store(readonly=True)
    with pytest.raises(errors.ReadOnlyError):
        store.repair()
    store.close()
    make_store().repair()


def test_failures_other_than_damage_lose_nothing(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_store(store)
    damage_row(store, tables.MENTIONS, remove_row)

    def fail_without_pipeline(*_: object, **__: object) -> None:
        raise errors.LanguageError("the pipeline is not installed")

    with monkeypatch.context() as patch:
        patch.setattr("kvstore.changes.repair.extract_document", fail_without_pipeline)
        with pytest.raises(errors.LanguageError):
            store.repair()
    assert store.keys() == ["a", "b", "c", "own"]
    assert store.repair().lost == []
