"""Formats and the steps between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

import kvstore_migrations as migrations
from kvstore.errors import CorruptionError, StoreFormatError
from kvstore.storage import records
from kvstore.storage.environment import Environment


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


def test_the_frozen_record_is_what_the_store_writes_today() -> None:
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
    def second(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
        transaction.put(b"second", b"done", db=environment.open_db(b"meta", txn=transaction))

    def third(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
        transaction.put(b"third", b"half", db=environment.open_db(b"meta", txn=transaction))
        environment.open_db(b"new table", txn=transaction)
        raise RuntimeError("power cut")

    steps = {1: migrations.STEPS[1], 2: second, 3: third}
    with pytest.raises(RuntimeError, match="power cut"):
        migrations.migrate(environment, steps)
    assert migrations.read_format(environment) == 2
    assert get_meta(environment, b"second") == b"done"
    assert get_meta(environment, b"third") is None
    with environment.begin() as transaction:
        assert transaction.get(b"new table") is None
    assert migrations.migrate(environment, {**steps, 3: second}) == [3]


@pytest.mark.parametrize("record", [b"", b"\x01", b"\x01\x1b\xdf\x05\xa4", b"\x02\x1b\xdf\x05\xa5", b"\x01" * 9])
def test_a_damaged_record_is_told_from_a_format(environment: lmdb.Environment, record: bytes) -> None:
    migrations.migrate(environment)
    put_meta(environment, b"format", record)
    with pytest.raises(CorruptionError, match="meta.*format.*backup"):
        migrations.read_format(environment)


def test_a_store_migrates_under_the_writers_lock(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store") as store:
        with store.raw() as raw:
            assert migrations.migrate(raw) == list(range(1, migrations.CURRENT_FORMAT + 1))
        with store.snapshot() as snapshot:
            assert bytes(snapshot.get("meta", b"format") or b"") == migrations.format_record(migrations.CURRENT_FORMAT)
