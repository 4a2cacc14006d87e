"""Formats and the steps between them."""

from __future__ import annotations

import errno
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

import kvstore
import kvstore_migrations as migrations
from kvstore.changes.dump import dump
from kvstore.errors import CorruptionError, StoreFormatError, StoreFullError
from kvstore.storage import records
from kvstore.storage.environment import Environment
from kvstore.store.migration import Migrated


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[lmdb.Environment]:
    with lmdb.open(str(tmp_path / "store"), map_size=1 << 24, max_dbs=8, lib_version=0) as opened:
        yield opened


def put_meta(environment: lmdb.Environment, key: bytes, value: bytes) -> None:
    meta = environment.open_db(b"meta")
    with environment.begin(write=True) as transaction:
        transaction.put(key, value, db=meta)


def get_meta(environment: lmdb.Environment, key: bytes) -> bytes | None:
    meta = environment.open_db(b"meta")
    with environment.begin() as transaction:
        return transaction.get(key, db=meta)


def test_an_empty_environment_becomes_the_first_format(environment: lmdb.Environment) -> None:
    assert migrations.read_format(environment) == 0
    assert migrations.migrate(environment, {1: migrations.STEPS[1]}) == [1]
    assert migrations.read_format(environment) == 1
    assert get_meta(environment, b"format") == bytes.fromhex("011bdf05a5")


def test_a_second_run_does_nothing(environment: lmdb.Environment) -> None:
    migrations.migrate(environment)
    before = environment.info()["last_txnid"]
    assert migrations.migrate(environment) == []
    assert environment.info()["last_txnid"] == before


def test_the_frozen_record_equals_the_current_format() -> None:
    for number in range(migrations.CURRENT_FORMAT + 1):
        assert migrations.format_record(number) == records.pack(number)


def test_every_format_up_to_the_current_one_has_a_step() -> None:
    assert sorted(migrations.STEPS) == list(range(1, migrations.CURRENT_FORMAT + 1))


def test_the_current_format_is_accepted_and_others_name_the_remedy() -> None:
    migrations.check_format(migrations.CURRENT_FORMAT)
    with pytest.raises(StoreFormatError, match="newer kvstore.*upgrade"):
        migrations.check_format(migrations.CURRENT_FORMAT + 1)
    with pytest.raises(StoreFormatError, match="kvstore migrate STORE"):
        migrations.check_format(migrations.CURRENT_FORMAT - 1)


def test_a_newer_store_is_left_alone(environment: lmdb.Environment) -> None:
    migrations.migrate(environment)
    put_meta(environment, b"format", migrations.format_record(migrations.CURRENT_FORMAT + 1))
    with pytest.raises(StoreFormatError, match="newer"):
        migrations.migrate(environment)
    assert migrations.read_format(environment) == migrations.CURRENT_FORMAT + 1


def test_a_step_that_fails_leaves_nothing_and_the_steps_before_it_stay(environment: lmdb.Environment) -> None:
    def write_second(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
        transaction.put(b"second", b"done", db=environment.open_db(b"meta", txn=transaction))

    def fail_in_third(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
        transaction.put(b"third", b"half", db=environment.open_db(b"meta", txn=transaction))
        environment.open_db(b"new table", txn=transaction)
        raise RuntimeError("power cut")

    steps = {1: migrations.STEPS[1], 2: write_second, 3: fail_in_third}
    with pytest.raises(RuntimeError, match="power cut"):
        migrations.migrate(environment, steps)
    assert migrations.read_format(environment) == 2
    assert get_meta(environment, b"second") == b"done"
    assert get_meta(environment, b"third") is None
    with environment.begin() as transaction:
        assert transaction.get(b"new table") is None
    assert migrations.migrate(environment, {**steps, 3: write_second}) == [3]


@pytest.mark.parametrize("record", [b"", b"\x01", b"\x01\x1b\xdf\x05\xa4", b"\x02\x1b\xdf\x05\xa5", b"\x01" * 9])
def test_a_damaged_record_is_distinguished_from_an_old_format(environment: lmdb.Environment, record: bytes) -> None:
    migrations.migrate(environment)
    put_meta(environment, b"format", record)
    with pytest.raises(CorruptionError, match="meta.*format.*backup"):
        migrations.read_format(environment)


def test_a_store_migrates_under_the_writers_lock(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store") as store:
        with store.hold_lmdb() as raw:
            assert migrations.migrate(raw) == list(range(1, migrations.CURRENT_FORMAT + 1))
        with store.snapshot() as snapshot:
            assert bytes(snapshot.get("meta", b"format") or b"") == migrations.format_record(migrations.CURRENT_FORMAT)


# Stores that older versions wrote ------------------------------------------------------------------------------------


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """Return the path of a store of format 1, written by a version of that format; see ``tests/stores/README.md``."""
    return unpack_store(1, tmp_path / "notes")


def unpack_store(number: int | str, path: Path) -> Path:
    """Return the path of an unpacked store in an older format, or by older rules."""
    path.mkdir()
    folder = f"format_{number}" if isinstance(number, int) else number
    packed = Path(__file__).parent / "stores" / folder / "data.mdb.xz"
    (path / "data.mdb").write_bytes(lzma.decompress(packed.read_bytes()))
    return path


def recreate_old_store(path: Path) -> kvstore.Store:
    """Return a new store with the content of ``old_store``."""
    store = kvstore.open(path, embedder="hashing:32", settings={"chunk_tokens": 24, "language": "rules"})
    with kvstore.open(path.with_name("notes"), readonly=True) as old, store.transaction() as transaction:
        keys = old.keys()
        for key in keys:
            document = old.get(key)
            assert document is not None
            transaction.put(
                key,
                document.text,
                title=document.title,
                source=document.source,
                meta=document.meta,
                format=document.format,
                vectors=[[0.5] * 32] if key == "own" else None,
            )
        transaction.put_edge("Maria Lindqvist", "People Office", tree="staff")
        transaction.put_edge("Vacuum Pump", "Instrument", tree="parts")
    store.alias("The Pump", "Vacuum Pump")
    store.merge("Control Room", "Instrument")
    return store


def dump_store(store: kvstore.Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_migrated_store_equals_a_new_one(number: int, tmp_path: Path) -> None:
    old_store = unpack_store(number, tmp_path / "notes")
    added = ["café.md"] if number > 1 else []
    with pytest.raises(StoreFormatError, match="kvstore migrate"):
        kvstore.open(old_store)
    done = kvstore.migrate(old_store)
    assert done.formats == list(range(number + 1, migrations.CURRENT_FORMAT + 1))
    assert done.rebuilt is not None
    assert (done.rebuilt.documents, done.rebuilt.lost, done.rebuilt.embedded) == (5 + len(added), [], 0)
    with kvstore.open(old_store) as store:
        assert store.check() == []
        assert store.keys() == [*added, "hr/leave.md", "lab/parts.csv", "lab/vacuum.txt", "leave-2", "own"]
        for question in ("cafe", "etc/hosts", "wal size", "東"):
            assert [hit.document for hit in store.search(question, using="lexical")] == added
        assert {row.entity: row.temperature for row in store.lookup("Cryostat")} == {"Cryostat": 3}
        mine = dump_store(store)
    with recreate_old_store(old_store.with_name("afresh")) as fresh:
        assert mine == dump_store(fresh)
    assert kvstore.migrate(old_store) == Migrated([])


def dump_rebuilt_store(path: Path, old: Path) -> dict[str, Any]:
    """Return the dump of a new store with the documents of an old one."""
    with (
        kvstore.open(old, readonly=True) as before,
        kvstore.open(
            path,
            embedder="hashing:32",
            settings={"chunk_tokens": 24, "language": "rules", "stemmer": before.settings.stemmer},
        ) as fresh,
    ):
        keys = before.keys()
        for key in keys:
            document = before.get(key)
            assert document is not None
            fresh.put(key, document.text, title=document.title)
        return dump_store(fresh)


def test_a_store_without_unspaced_writing_opens_as_before_whatever_rules_it_names(tmp_path: Path) -> None:
    path = unpack_store("words_2_english", tmp_path / "notes")
    with kvstore.open(path, readonly=True) as store:
        before = store.ask("Who approves parental leave?")
        assert not before.abstained
    assert kvstore.migrate(path) == Migrated([])
    with kvstore.open(path) as store:
        assert store.settings.tokenizer == "words-4"
        assert store.check() == []
        after = store.ask("Who approves parental leave?")
        assert (after.text, after.confidence) == (before.text, before.confidence)
        mine = dump_store(store)
        store.put("港", "港はとても古い。")
        assert store.check() == []
    with Environment.open(path) as environment, environment.snapshot() as snapshot:
        value = snapshot.get("meta", b"settings")
        assert value is not None
        assert records.unpack(value, "meta", b"settings")["tokenizer"] == "words-4"
    second_path = unpack_store("words_2_english", tmp_path / "other")
    assert mine == dump_rebuilt_store(tmp_path / "afresh", second_path)


def test_a_store_whose_terms_are_single_characters_is_migrated(tmp_path: Path) -> None:
    path = unpack_store("words_2_japanese", tmp_path / "notes")
    for readonly in (False, True):
        with pytest.raises(StoreFormatError, match=r"without spaces by other rules.*kvstore migrate"):
            kvstore.open(path, readonly=readonly)
    done = kvstore.migrate(path)
    assert done.backup is not None
    assert done.rebuilt is not None
    assert (done.formats, done.rebuilt.documents, done.rebuilt.lost, done.rebuilt.embedded) == ([], 3, [], 0)
    assert kvstore.migrate(path) == Migrated([])
    with kvstore.open(path) as store:
        assert store.check() == []
        assert "3776" in store.ask("富士山の標高は何メートルですか？").text
        mine = dump_store(store)
    assert mine == dump_rebuilt_store(tmp_path / "afresh", path)


def test_a_store_with_unnormalized_arabic_letters_is_migrated(tmp_path: Path) -> None:
    path = unpack_store("words_3_arabic", tmp_path / "notes")
    with pytest.raises(StoreFormatError, match=r"Arabic and Hebrew by other rules.*kvstore migrate"):
        kvstore.open(path)
    kvstore.migrate(path)
    with kvstore.open(path) as store:
        assert store.check() == []
        assert [hit.document for hit in store.search("احمد الهاشمى", using="lexical", top=1)] == ["الميناء"]
        mine = dump_store(store)
    assert mine == dump_rebuilt_store(tmp_path / "afresh", path)


def test_a_migration_leaves_no_index_file_of_before_in_use(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((40, 32)).astype(np.float32)

    def rank_by_vector(store: kvstore.Store, number: int) -> list[tuple[str, float]]:
        hits = store.retrieve("x", using="vector", top=40, vector=vectors[number]).hits
        return [(hit.document, hit.score) for hit in hits]

    with kvstore.open(tmp_path / "notes", embedder="none:32", settings={"language": "rules"}) as store:
        for number, vector in enumerate(vectors):
            store.put(f"d{number:02}", f"text {number}", vectors=vector)
        store.create_index("vectors", {"exact_below": 1, "ef_search": 10})
        before = [rank_by_vector(store, number) for number in range(40)]
        with store.state() as view:
            chunks = {chunk for record in view.documents.scan() for chunk in record.chunk_ids()}
        store.compact()
    with Environment.open(tmp_path / "notes") as old, old.write() as transaction:
        transaction.put("meta", b"format", migrations.format_record(migrations.CURRENT_FORMAT - 1))
    kvstore.migrate(tmp_path / "notes")
    with kvstore.open(tmp_path / "notes") as store:
        with store.state() as view:
            assert chunks.isdisjoint(chunk for record in view.documents.scan() for chunk in record.chunk_ids())
        assert [index.state for index in store.indexes() if index.kind == "vectors"] == ["damaged"]
        assert [rank_by_vector(store, number) for number in range(40)] == before
        assert store.refresh() == ["vectors"]
        assert [rank_by_vector(store, number) for number in range(40)] == before


def test_a_damaged_setting_is_reported_by_the_migration_to_format_3(tmp_path: Path) -> None:
    old_store = unpack_store(2, tmp_path / "notes")
    with Environment.open(old_store) as store, store.write() as view:
        view.put("meta", b"settings", bytes(view.get("meta", b"settings") or b"")[:-1] + b"?")
    with Environment.open(old_store) as store, store.hold_lmdb() as raw, pytest.raises(CorruptionError, match="backup"):
        migrations.migrate(raw)


def test_a_migration_leaves_a_file_without_free_pages(old_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstore.changes.compaction.MIN_SAVED_BYTES", 0)
    kvstore.migrate(old_store)
    migrated = (old_store / "data.mdb").stat().st_size
    with kvstore.open(old_store) as store:
        assert store.compact().bytes_after == pytest.approx(migrated, rel=0.02)


def test_a_copy_of_the_store_as_it_was_is_kept(old_store: Path) -> None:
    done = kvstore.migrate(old_store)
    assert done.backup == old_store.with_name("notes.format-1")
    with Environment.open(done.backup) as copy, copy.snapshot() as snapshot:
        assert bytes(snapshot.get("meta", b"format") or b"") == migrations.format_record(1)
    again = kvstore.migrate(done.backup)
    assert again.backup == old_store.with_name("notes.format-1.format-1")
    assert kvstore.migrate(done.backup, backup=False) == Migrated([])


def test_a_store_that_cannot_be_copied_is_left_alone(old_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as context:
        context.setattr(Path, "mkdir", refuse)  # as in a folder of another user
        with pytest.raises(StoreFullError) as error:
            kvstore.migrate(old_store)
    assert str(error.value) == (
        f"{old_store}.format-1: the copy of the old store cannot be written (Permission denied); fix this, or "
        f"migrate without a copy: kvstore migrate --no-backup {old_store}"
    )
    with pytest.raises(StoreFormatError, match=f"{re.escape(str(old_store))}: the store has format 1"):
        kvstore.open(old_store)
    assert kvstore.migrate(old_store, backup=False).backup is None
    assert [path.name for path in old_store.parent.iterdir()] == ["notes"]


def test_a_rebuild_that_fails_is_finished_by_the_next_migration(
    old_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_power(*_: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as context, pytest.raises(RuntimeError, match="power cut"):
        context.setattr("kvstore.changes.repair.Changes.finish", cut_power)
        kvstore.migrate(old_store)
    with pytest.raises(StoreFormatError, match="interrupted.*kvstore migrate"):
        kvstore.open(old_store)
    done = kvstore.migrate(old_store)
    assert (done.formats, done.backup) == ([], None), "the copy was kept before the first attempt"
    with kvstore.open(old_store) as store:
        assert store.check() == []
        assert len(store.keys()) == 5


def test_a_newer_store_is_refused_and_left_alone(old_store: Path) -> None:
    kvstore.migrate(old_store)
    with Environment.open(old_store) as store, store.write() as view:
        view.put("meta", b"format", migrations.format_record(migrations.CURRENT_FORMAT + 1))
    for open_it in (kvstore.open, kvstore.migrate):
        with pytest.raises(StoreFormatError, match=r"newer kvstore.*upgrade"):
            open_it(old_store)
