"""The environment of a store: views, the one writer, growth, other processes, bad paths and bad files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import mmap
import os
import resource
import shutil
import signal
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import lmdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from other_process import BECOME_NOBODY, make_public_folder, read_line, requires_root, send_line, start_python

import kvstore
from kvstore.errors import (
    ClosedError,
    CorruptionError,
    InputError,
    KvstoreError,
    LockTimeoutError,
    NotAStoreError,
    ReadOnlyError,
    StoreFullError,
    StoreNotFoundError,
    TransactionError,
)
from kvstore.registry import get_buffered_tables
from kvstore.storage import change_buffer, data_file, mapped_pages, transaction_thread, write_transaction
from kvstore.storage import environment as environment_module
from kvstore.storage.change_buffer import ChangeBufferReader
from kvstore.storage.environment import Environment, WriteTransaction
from kvstore.storage.locks import MaintenanceThread, WriterLock
from kvstore.storage.meta_pages import find_first_leaf
from kvstore.storage.new_file import create_file_atomically
from kvstore.storage.open_file import TransactionGate
from kvstore.structures import tables
from kvstore_cext.pages import Pages

SMALL_MAP = 1 << 20


def put_record(environment: Environment, key: bytes, value: bytes, table: str = "a") -> None:
    with environment.write() as transaction:
        transaction.put(table, key, value)


def get_value(environment: Environment, key: bytes, table: str = "a") -> bytes | None:
    with environment.snapshot() as snapshot:
        value = snapshot.get(table, key)
        return None if value is None else bytes(value)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    opened = Environment.open(tmp_path / "store", lock_timeout=0.2, buffered_tables=get_buffered_tables())
    yield opened
    if not opened.closed:
        assert opened.verify() == []
        opened.close()


# -- Views

KEYS = st.sampled_from([b"k", b"key"]) | st.binary(min_size=1, max_size=3) | st.binary(min_size=1, max_size=511)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["a", tables.POSTINGS, tables.ENTITIES]),
        st.sampled_from(["put", "edit", "edit", "delete", "clear"]),
        KEYS,
        st.binary(max_size=9000),
    )
)
BOUNDS = st.tuples(
    st.sampled_from(["a", "c", tables.POSTINGS, tables.ENTITIES]), st.just(b"") | KEYS, st.none() | KEYS, st.booleans()
)


@settings(max_examples=num_examples(60), deadline=None)
@given(
    transactions=st.lists(st.tuples(CHANGES, st.booleans(), st.booleans()), max_size=6),
    ranges=st.lists(BOUNDS, max_size=6),
    parts=st.integers(1, 6),
)
def test_views_agree_with_sorted_dictionaries(
    tmp_path_factory: pytest.TempPathFactory,
    transactions: list[tuple[list[tuple[str, str, bytes, bytes]], bool, bool]],
    ranges: list[tuple[str, bytes, bytes | None, bool]],
    parts: int,
) -> None:
    def compare_with_models(view: Any, models: dict[str, dict[bytes, bytes]]) -> None:
        for table, start, stop, reverse in ranges:
            model = models.get(table, {})
            inside = [(k, v) for k, v in sorted(model.items()) if k >= start and (stop is None or k < stop)]
            scanned = [(bytes(k), bytes(v)) for k, v in view.scan(table, start, stop, reverse=reverse)]
            assert scanned == (inside[::-1] if reverse else inside)
            assert view.count(table) == len(model)
            if start:
                value = view.get(table, start)
                assert model.get(start) == (None if value is None else bytes(value))
                below = [(bytes(k), bytes(v)) for k, v in view.scan_prefixes(table, [start, start[:1]])]
                prefixes = (start, start[:1])
                assert below == [
                    (k, v) for prefix in prefixes for k, v in sorted(model.items()) if k.startswith(prefix)
                ]

    committed: dict[str, dict[bytes, bytes]] = {}
    with (
        mock.patch.object(change_buffer, "MAX_SEGMENTS", parts),
        mock.patch.object(change_buffer, "MAX_PATCHES", 2),
        mock.patch.object(change_buffer, "MIN_BYTES", 20_000),
        mock.patch.object(write_transaction, "MAX_SEGMENT_BYTES", 3_000),
        Environment.open(
            tmp_path_factory.mktemp("model") / "store", map_size=1 << 24, buffered_tables=get_buffered_tables()
        ) as environment,
    ):
        for changes, commits, forgets in transactions:
            current = {table: dict(model) for table, model in committed.items()}
            before = environment.snapshot()
            transaction = environment.write()
            for table, change, key, content in changes:
                model = current.setdefault(table, {})
                if change == "edit":  # most of a value stays as it is
                    old = model.get(key, bytes(range(256)))
                    content = old[: len(content) % 300] + content[:20] + old[len(content) % 200 :]
                if change in ("put", "edit"):
                    transaction.put(table, key, content)
                    model[key] = content
                elif change == "delete":
                    assert transaction.delete(table, key) == (model.pop(key, None) is not None)
                else:
                    transaction.clear(table)
                    model.clear()
            compare_with_models(transaction, current)
            if commits:
                transaction.commit()
            else:
                transaction.abort()
            compare_with_models(before, committed)
            before.close()
            committed = current if commits else committed
            if forgets:  # as another process, which has read nothing yet
                environment.buffer_reader = ChangeBufferReader(get_buffered_tables())
            with environment.snapshot() as after:
                compare_with_models(after, committed)
        assert environment.verify() == []


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list mappings")
def test_pages_that_were_read_are_let_go_and_read_again(environment: Environment) -> None:
    with environment.write() as transaction:
        transaction.put(tables.META, b"format", b"2")
        for number in range(500):
            transaction.put("a", b"%d" % number, bytes([number % 256]) * 9000)
    with environment.snapshot() as snapshot:
        records = [(key, bytes(value)) for key, value in snapshot.scan("a")]
        mapped = measure_mapped_kilobytes(environment)
        assert mapped > 4000
        environment.release_pages()
        assert measure_mapped_kilobytes(environment) < mapped / 4
        assert [(key, bytes(value)) for key, value in snapshot.scan("a")] == records
    mapped_pages.release_pages(memoryview(b"no page of a file"))
    mapped_pages.release_pages(memoryview(b""))


def measure_mapped_kilobytes(environment: Environment) -> int:
    """Return the size of the mapped pages of the data file that this process holds."""
    described = Path("/proc/self/smaps").read_text().split(str(environment.path / "data.mdb"))[1:]
    return sum(int(part.split("Rss:")[1].split()[0]) for part in described)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list mappings")
def test_pages_of_a_large_file_are_released_during_the_read(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4 << 20
    monkeypatch.setattr(mapped_pages, "MAX_MAPPED_BYTES", most)
    monkeypatch.setattr(mapped_pages, "MIN_TOTAL_BYTES", 0)
    keys = [b"%06d" % number for number in range(4000)]
    with environment.write() as transaction:
        for key in keys:
            transaction.put("a", key, key * 600)
    environment.release_pages()

    def is_bounded() -> bool:
        # Pages are looked at every 1,024 records, of which the largest may lie on two.
        return measure_mapped_kilobytes(environment) << 10 < most + 3 * 1024 * mmap.PAGESIZE

    ways = {
        "scan": lambda view: (value for _, value in view.scan("a")),
        "backwards": lambda view: (value for _, value in view.scan("a", reverse=True)),
        "many": lambda view: (view.get_many("a", [key])[0] for key in keys),
        "below": lambda view: (view.scan_prefixes("a", [key])[0][1] for key in keys),
        "last": lambda view: (view.get_last_many("a", [(key, key + b"0")])[0][1] for key in keys),
    }
    for way, read in ways.items():
        with environment.snapshot() as snapshot:
            for number, value in enumerate(read(snapshot)):
                assert bytes(value[:6]) in (keys[number], keys[-number - 1])
                assert number % 500 or is_bounded(), way
    for change in (b"", b"x", b"yy"):  # records, then patches of them, and the patches merged
        with environment.write() as transaction:
            for first in range(0, len(keys), 500):
                changes = {key: key * 400 + change + key * 200 for key in keys[first : first + 500]}
                transaction.change_many(tables.POSTINGS, changes)
                assert is_bounded()
            if change:
                transaction.merge_buffer()
                assert is_bounded()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list mappings")
def test_looked_up_pages_stay_while_the_process_is_small(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_pages, "MAX_MAPPED_BYTES", 1 << 20)
    monkeypatch.setattr(mapped_pages, "MIN_TOTAL_BYTES", 1 << 40)  # other tests may have made this process large
    keys = [b"%06d" % number for number in range(4000)]
    with environment.write() as transaction:
        for key in keys:
            transaction.put("a", key, key * 600)
    environment.release_pages()
    with environment.snapshot() as snapshot:
        for key in keys:
            snapshot.get_many("a", [key])
        assert measure_mapped_kilobytes(environment) > 8 << 10
        for _ in snapshot.scan("a"):
            pass
        assert measure_mapped_kilobytes(environment) < 8 << 10


@settings(max_examples=num_examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    merged=st.dictionaries(KEYS, st.binary(max_size=9), max_size=9),
    commits=st.lists(st.dictionaries(KEYS, st.none() | st.binary(max_size=9), max_size=6), max_size=3),
    ranges=st.lists(st.tuples(st.binary(max_size=2), KEYS), max_size=9),
)
def test_the_last_record_of_a_range_is_found_for_any_change_buffer(
    environment: Environment,
    merged: dict[bytes, bytes],
    commits: list[dict[bytes, bytes | None]],
    ranges: list[tuple[bytes, bytes]],
) -> None:
    with environment.write() as transaction:
        transaction.clear(tables.POSTINGS)
        transaction.change_many(tables.POSTINGS, merged)
        transaction.merge_buffer()
    model: dict[bytes, bytes | None] = {**merged}
    for changes in commits:
        model |= changes
        with environment.write() as transaction:
            transaction.change_many(tables.POSTINGS, changes)
    expected = [
        max(((k, v) for k, v in model.items() if v is not None and start <= k < stop), default=None)
        for start, stop in ranges
    ]

    def list_last(view: Any) -> list[Any]:
        records = view.get_last_many(tables.POSTINGS, ranges)
        return [record and (record[0], bytes(record[1])) for record in records]

    with environment.snapshot() as snapshot:
        assert list_last(snapshot) == expected
    with environment.write() as transaction:
        assert list_last(transaction) == expected
        transaction.merge_buffer()  # from here on, LMDB reads the table
        assert list_last(transaction) == expected


def test_an_unwritten_table_is_empty(environment: Environment) -> None:
    with environment.snapshot() as snapshot:
        assert snapshot.get("nothing", b"key") is None
        assert snapshot.count("nothing") == 0
        assert list(snapshot.scan("nothing")) == []
    with environment.write() as transaction:
        assert transaction.delete("nothing", b"key") is False


@pytest.mark.parametrize("key", [b"", b"k" * 512])
def test_a_key_that_lmdb_cannot_hold_is_refused_and_the_transaction_continues(
    environment: Environment, key: bytes
) -> None:
    with environment.write() as transaction:
        transaction.put("a", b"before", b"1")
        with pytest.raises(InputError, match="1 to 511 bytes"):
            transaction.put("a", key, b"value")
        transaction.put("a", b"after", b"2")
    assert get_value(environment, b"before") == b"1"
    assert get_value(environment, b"after") == b"2"


def test_an_error_in_the_block_rolls_back(environment: Environment) -> None:
    put_record(environment, b"key", b"old")
    with pytest.raises(ZeroDivisionError), environment.write() as transaction:
        transaction.put("a", b"key", b"new")
        transaction.put("new table", b"key", b"new")
        raise ZeroDivisionError
    assert get_value(environment, b"key") == b"old"
    put_record(environment, b"key", b"again", "new table")
    assert get_value(environment, b"key", "new table") == b"again"


def test_the_change_number_distinguishes_states(environment: Environment) -> None:
    put_record(environment, b"key", b"1")
    with environment.snapshot() as first, environment.snapshot() as second:
        assert first.change == second.change
        put_record(environment, b"key", b"2")
        with environment.snapshot() as third:
            assert third.change == first.change + 1


def test_a_change_during_a_scan_is_refused(environment: Environment) -> None:
    with environment.write() as transaction:
        for number in range(10):
            transaction.put("a", b"%d" % number, b"")
        with pytest.raises(TransactionError, match="list first"):
            for key, _ in transaction.scan("a"):
                transaction.delete("a", key)
        for key, _ in list(transaction.scan("a", b"5")):
            transaction.delete("a", key)
        assert transaction.count("a") == 4


def test_closed_views_refuse(environment: Environment) -> None:
    put_record(environment, b"key", b"value")
    snapshot = environment.snapshot()
    scan = snapshot.scan("a")
    snapshot.close()
    snapshot.close()
    assert snapshot.closed
    for use in (lambda: snapshot.get("a", b"key"), lambda: snapshot.scan("a"), lambda: snapshot.count("a")):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(ClosedError):
        next(scan)
    transaction = environment.write()
    transaction.commit()
    with pytest.raises(ClosedError):
        transaction.put("a", b"key", b"value")
    transaction.abort()


def test_a_forgotten_snapshot_ends_with_its_last_reference(environment: Environment) -> None:
    environment.snapshot()
    snapshot = environment.snapshot()
    del snapshot
    gc.collect()
    environment.close(timeout=0)


# -- Paths and files


def test_a_missing_store_is_created_only_on_request(tmp_path: Path) -> None:
    for options in ({"create": False}, {"readonly": True}):
        with pytest.raises(StoreNotFoundError, match="no store here"):
            Environment.open(tmp_path / "store", **options)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreNotFoundError, match="folder .* does not exist"):
        Environment.open(tmp_path / "missing" / "store")
    Environment.open(tmp_path / "store").close()
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["data.mdb", "lock.mdb", "writer.lock"]


@pytest.mark.parametrize("step", ["_lock_for_opening", "create_data_file"])
def test_a_store_deleted_while_it_is_opened_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "store"
    original = getattr(environment_module, step)

    def delete_around(*args: Any, **options: Any) -> Any:
        if step == "create_data_file":
            shutil.rmtree(path, ignore_errors=True)
        result = original(*args, **options)
        shutil.rmtree(path, ignore_errors=True)
        return result

    monkeypatch.setattr(environment_module, step, delete_around)
    with pytest.raises(StoreNotFoundError, match=r"deleted, moved or unmounted while it was being opened; check"):
        kvstore.open(path, embedder="hashing")
    monkeypatch.undo()
    kvstore.open(path, embedder="hashing").close()


def test_an_empty_directory_becomes_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match=r"data\.mdb is missing"):
        Environment.open(tmp_path, create=False)
    Environment.open(tmp_path).close()
    Environment.open(tmp_path, create=False).close()


def test_a_store_that_another_process_creates_while_the_directory_is_listed_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_and_list(path: Path) -> Iterator[Path]:
        monkeypatch.undo()
        with start_python("Environment.open(path).close()", path):
            pass
        return path.iterdir()

    monkeypatch.setattr(Path, "iterdir", create_and_list)
    Environment.open(tmp_path, create=False).close()


def test_index_files_of_any_kind_are_not_a_store_and_block_nothing(tmp_path: Path) -> None:
    for name in ("vectors.index", "communities.index", "communities.index.new"):
        (tmp_path / name).write_bytes(b"kept")
    with pytest.raises(StoreNotFoundError, match=r"data\.mdb is missing"):
        Environment.open(tmp_path, create=False)
    Environment.open(tmp_path).close()
    assert (tmp_path / "communities.index").read_bytes() == b"kept"
    Environment.open(tmp_path, create=False).close()


def test_a_store_has_room_for_256_tables(environment: Environment) -> None:
    for number in range(256):
        put_record(environment, b"k", b"%d" % number, f"table {number}")
    environment.close()
    with Environment.open(environment.path) as again, again.snapshot() as snapshot:
        assert len(snapshot.get_table_statistics()) == 256
        assert bytes(snapshot.get("table 255", b"k") or b"") == b"255"


def test_paths_with_other_content_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no store")
    with pytest.raises(NotAStoreError, match="this is a file"):
        Environment.open(file)
    with pytest.raises(NotAStoreError, match=r"data\.mdb is missing, but there is notes\.txt"):
        Environment.open(tmp_path)
    assert file.read_text() == "no store"
    (tmp_path / "folders" / "data.mdb.new").mkdir(parents=True)
    with pytest.raises(NotAStoreError, match=r"data\.mdb is missing, but there is data\.mdb\.new"):
        Environment.open(tmp_path / "folders")
    garbage = tmp_path / "garbage"
    garbage.mkdir()
    (garbage / "data.mdb").write_bytes(b"not LMDB at all " * 4096)
    with pytest.raises(NotAStoreError, match="not an LMDB"):
        Environment.open(garbage)


def test_the_lmdb_file_of_another_application_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other"
    with lmdb.open(str(path)) as other, other.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(NotAStoreError, match="another application"):
        Environment.open(path)
    assert (path / "data.mdb").read_bytes() == before


def test_a_list_of_tables_that_holds_other_records_ends_no_process(tmp_path: Path) -> None:
    """In a copy that cp made during a write, a page of this list can have records of a table, such as long values."""
    path = tmp_path / "store"
    with kvstore.open(path, embedder="hashing") as store:
        store.put("tea", "Tea is made from leaves.")
    with Environment.open(path) as environment:
        statistics = environment.statistics()
    page_size = 4096
    num_pages = statistics.used_bytes // page_size
    with (path / "data.mdb").open("r+b") as file:
        leaf = find_first_leaf(path, file.fileno(), page_size, statistics.change, lambda: None)
        assert leaf is not None
        file.seek(leaf * page_size + 16)
        node_offset = leaf * page_size + int.from_bytes(file.read(2), "little")
        file.seek(node_offset)
        file.write(struct.pack("<IH", page_size, 1))  # a value on pages of its own
        key_bytes = int.from_bytes(file.read(2), "little")
        for value_page in range(2, num_pages, num_pages // 8):
            file.seek(node_offset + 8 + key_bytes)
            file.write(struct.pack("<Q", value_page))
            file.flush()
            code = """
import kvstore
try:
    kvstore.open(path)
except kvstore.errors.NotAStoreError as error:
    print(error, flush=True)
"""
            with start_python(code, path) as process:
                assert "another application, or a damaged copy of a data file; choose" in read_line(process)


def test_one_process_opens_a_store_once(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(environment.path)
    for path in (environment.path, tmp_path / "link"):
        with pytest.raises(InputError, match="already open in this process"):
            Environment.open(path)
    environment.close()
    Environment.open(environment.path).close()


@pytest.mark.parametrize(
    "options",
    [{"durability": "none"}, {"max_bytes": 1000}, {"map_size": 0}, {"lock_timeout": -1}],
    ids=lambda options: next(iter(options)),
)
def test_options_out_of_range_are_named(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        Environment.open(tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_a_file_cut_anywhere_is_refused_unless_only_free_pages_are_gone(tmp_path: Path) -> None:
    original = tmp_path / "whole"
    contents = {b"%d" % number: os.urandom(1000) for number in range(60)}
    with Environment.open(original) as environment:
        for key, content in contents.items():
            put_record(environment, key, content)
    size = (original / "data.mdb").stat().st_size
    lengths = [0, 1, 4096, *range(8192, size, 4096), size - 1]
    refused = 0
    for length in lengths:
        cut = tmp_path / f"cut at {length}"
        shutil.copytree(original, cut)
        os.truncate(cut / "data.mdb", length)
        for readonly in (True, False):
            try:
                with Environment.open(cut, readonly=readonly) as environment, environment.snapshot() as snapshot:
                    assert {key: bytes(content) for key, content in snapshot.scan("a")} == contents
            except CorruptionError as error:
                assert "cut" in str(error)
                assert "backup" in str(error)
                assert (cut / "data.mdb").stat().st_size == length
                refused += 1
    assert refused >= 2 * len(lengths) - 8


def test_a_file_that_only_lacks_free_pages_is_sound(tmp_path: Path) -> None:
    """LMDB itself leaves such files: pages taken and freed in one transaction are never written."""
    path = tmp_path / "store"
    with lmdb.open(str(path), map_size=1 << 30, max_dbs=4, lib_version=0) as raw:
        table = raw.open_db(b"a")
        for number in range(400):
            with raw.begin(write=True) as transaction:
                transaction.put(b"kept", b"%d" % number, db=table)
                for key in range(number % 7 * 30):
                    transaction.put(b"%d" % key, b"x" * (300 + number % 5 * 3000), db=table)
                for key in range(number % 7 * 30):
                    transaction.delete(b"%d" % key, db=table)
            used = (raw.info()["last_pgno"] + 1) * raw.stat()["psize"]
            if (path / "data.mdb").stat().st_size < used:
                break
        else:
            pytest.fail("LMDB left no short file")
    with Environment.open(path, readonly=True) as environment:
        assert get_value(environment, b"kept") == b"%d" % number
    with Environment.open(path) as environment:
        assert get_value(environment, b"kept") == b"%d" % number
        assert environment.verify() == []
        assert environment.statistics().bytes == used


def test_commits_leave_no_short_file(environment: Environment) -> None:
    for number in range(60):
        with environment.write() as transaction:
            for key in range(number % 7 * 30):
                transaction.put("a", b"%d" % key, b"x" * (300 + number % 5 * 3000))
            for key in range(number % 7 * 30):
                transaction.delete("a", b"%d" % key)
        statistics = environment.statistics()
        assert statistics.bytes >= statistics.used_bytes


# -- One writer


def test_a_second_writer_in_another_thread_times_out_naming_the_first(environment: Environment) -> None:
    raised: list[BaseException] = []

    def write() -> None:
        try:
            environment.write(timeout=0.05)
        except KvstoreError as error:
            raised.append(error)

    with environment.write() as transaction:
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        transaction.put("a", b"key", b"value")
    assert isinstance(raised[0], LockTimeoutError)
    assert threading.current_thread().name in str(raised[0])
    assert str(os.getpid()) in str(raised[0])
    assert "0.05 s" in str(raised[0])


class _SlowlyReleasedLock:
    """A lock whose release waits until another thread has failed to acquire it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed = threading.Event()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        acquired = self._lock.acquire(blocking, timeout)
        if not acquired:
            self._failed.set()
        return acquired

    def release(self) -> None:
        self._failed.wait(60)
        self._lock.release()


def test_a_writer_whose_time_runs_out_while_the_lock_is_released_gets_it(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "writer.lock")
    lock._thread_lock = _SlowlyReleasedLock()  # type: ignore[assignment]
    lock.acquire(1)
    raised: list[BaseException] = []

    def write() -> None:
        try:
            with lock.hold(0.05):
                pass
        except KvstoreError as error:
            raised.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    lock.release()  # ends only after the thread's time has run out
    thread.join()
    assert not raised


def test_a_second_transaction_in_the_same_thread_is_refused_at_once(environment: Environment) -> None:
    with environment.write(), pytest.raises(TransactionError, match="this thread has"):
        environment.write(timeout=60)
    put_record(environment, b"key", b"value")


@pytest.mark.parametrize("upkeep", [True, False])
def test_a_writer_waits_for_the_upkeep_of_its_own_process_however_long_it_takes(
    environment: Environment, upkeep: bool
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def hold_transaction() -> None:
        with environment.write() as transaction:
            transaction.put("a", b"key", b"value")
            begun.set()
            ended.wait(60)

    thread = (MaintenanceThread if upkeep else threading.Thread)(target=hold_transaction)
    thread.start()
    assert begun.wait(60)
    with pytest.raises(LockTimeoutError):
        environment.write(timeout=0)
    threading.Timer(0.5, ended.set).start()
    if upkeep:
        with environment.write(timeout=0.05) as transaction:
            assert transaction.get("a", b"key") == b"value"
    else:
        with pytest.raises(LockTimeoutError, match="of this process"):
            environment.write(timeout=0.05)
    ended.set()
    thread.join()


def test_writers_in_threads_take_turns(environment: Environment) -> None:
    environment.lock_timeout = 30

    def increment_count() -> None:
        for _ in range(25):
            with environment.write() as transaction:
                count = int(bytes(transaction.get("a", b"count") or b"0"))
                transaction.put("a", b"count", b"%d" % (count + 1))

    threads = [threading.Thread(target=increment_count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get_value(environment, b"count") == b"100"


def test_a_transaction_belongs_to_its_thread(environment: Environment) -> None:
    transaction = environment.write()
    raised: list[BaseException] = []

    def call_methods() -> None:
        for call in (
            lambda: transaction.get("a", b"key"),
            lambda: transaction.put("a", b"k", b"v"),
            transaction.commit,
        ):
            try:
                call()
            except KvstoreError as error:
                raised.append(error)

    thread = threading.Thread(target=call_methods)
    thread.start()
    thread.join()
    assert [type(error) for error in raised] == [TransactionError] * 3
    transaction.put("a", b"key", b"value")
    transaction.commit()


HOLD = """
environment = Environment.open(path)
with environment.write() as transaction:
    transaction.put("a", b"key", b"theirs")
    print(os.getpid(), flush=True)
    sys.stdin.readline()
environment.close()
print("committed", flush=True)
"""


def test_a_second_process_waits_its_timeout_and_names_the_holder(environment: Environment) -> None:
    put_record(environment, b"key", b"ours")
    with start_python(HOLD, environment.path) as holder:
        pid = read_line(holder)
        with pytest.raises(LockTimeoutError, match=rf"process {pid} .* lock_timeout"):
            environment.write(timeout=0)
        assert get_value(environment, b"key") == b"ours"
        threading.Timer(0.2, send_line, [holder]).start()
        with environment.write(timeout=30) as transaction:
            assert bytes(transaction.get("a", b"key") or b"") == b"theirs"
        assert read_line(holder) == "committed"
    assert (environment.path / "writer.lock").read_bytes() == b""


def test_killing_a_writer_frees_its_lock_and_undoes_its_transaction(environment: Environment) -> None:
    put_record(environment, b"key", b"ours")
    with start_python(HOLD, environment.path) as holder:
        read_line(holder)
        holder.kill()
        holder.wait()
        put_record(environment, b"other", b"1")
    assert get_value(environment, b"key") == b"ours"


@pytest.mark.parametrize("round_", range(5))
def test_killing_a_busy_writer_loses_no_commit(environment: Environment, round_: int) -> None:
    code = """
environment = Environment.open(path, map_size=1 << 24)
for number in range(1_000_000):
    with environment.write() as transaction:
        transaction.put("numbers", b"%08d" % number, os.urandom(100 + number * 37 % 5000))
        transaction.put("last", b"last", b"%d" % number)
    print(number, flush=True)
"""
    with start_python(code, environment.path) as writer:
        acknowledged = -1
        while acknowledged < 7 * (round_ + 1):
            acknowledged = int(read_line(writer))
        writer.kill()
    last = int(get_value(environment, b"last", "last") or b"-1")
    assert last >= acknowledged
    with environment.snapshot() as snapshot:
        assert [int(key) for key, _ in snapshot.scan("numbers")] == list(range(last + 1))
    assert environment.verify() == []


# -- Readers in other processes


def test_a_store_opens_for_reading_and_later_writing_while_another_process_writes(environment: Environment) -> None:
    put_record(environment, b"key", b"old")
    environment.close()
    with start_python(HOLD, environment.path) as holder:
        read_line(holder)
        with Environment.open(environment.path, lock_timeout=0.1) as late:
            assert get_value(late, b"key") == b"old"
            with pytest.raises(LockTimeoutError):
                late.write()
            send_line(holder)
            assert read_line(holder) == "committed"
            with late.snapshot(), pytest.raises(TransactionError, match=r"opened again.*\(1\) are still open"):
                late.write()
            put_record(late, b"other", b"ours")
            assert get_value(late, b"key") == b"theirs"
            assert late.verify() == []


def test_a_store_opened_again_has_its_tables(environment: Environment) -> None:
    put_record(environment, b"key", b"value")
    environment.close()
    for readonly in (True, False):
        with Environment.open(environment.path, readonly=readonly) as again:
            assert get_value(again, b"key") == b"value"
    with Environment.open(environment.path) as again, again.write() as transaction:
        assert bytes(transaction.get("a", b"key") or b"") == b"value"
        transaction.put("b", b"key", b"value")


@pytest.mark.parametrize("commits", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_readers_in_other_processes_see_whole_commits(environment: Environment, commits: int) -> None:
    code = f"""
with Environment.open(path, readonly=True) as environment:
    print("ready", flush=True)
    seen = -1
    while seen < {commits}:
        with environment.snapshot() as snapshot:
            numbers = {{bytes(snapshot.get(table, b"number") or b"-1") for table in "abc"}}
        assert len(numbers) == 1, numbers
        number = int(numbers.pop())
        assert number >= seen
        seen = number
    print("done", flush=True)
"""
    with start_python(code, environment.path) as first, start_python(code, environment.path) as second:
        assert read_line(first) == read_line(second) == "ready"
        for number in range(commits + 1):
            with environment.write() as transaction:
                for table in "abc":
                    transaction.put(table, b"number", b"%d" % number)
        assert read_line(first) == read_line(second) == "done"


def test_a_snapshot_that_a_commit_overtakes_begins_again(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two commits later, the meta page that the snapshot reads is overwritten: with the roots first, its number last.
    put_record(environment, b"key", b"before")
    values = iter([b"first", b"second"])

    def read_pages_slowly(*arguments: int) -> Pages:
        pages = Pages(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(data_file, "Pages", Pages)
            if (new := next(values, None)) is not None:
                put_record(environment, b"key", new)
        return pages

    monkeypatch.setattr(data_file, "Pages", read_pages_slowly)
    with environment.snapshot() as snapshot:
        assert bytes(snapshot.get("a", b"key") or b"") == b"second"
        with environment.snapshot() as later:
            assert later.change == snapshot.change


def test_tables_created_by_another_process_appear(environment: Environment) -> None:
    put_record(environment, b"key", b"ours")
    with environment.snapshot() as before:
        with start_python(
            """
with Environment.open(path) as environment, environment.write() as transaction:
    transaction.put("theirs", b"key", b"value")
""",
            environment.path,
        ):
            pass
        assert before.get("theirs", b"key") is None
        assert get_value(environment, b"key", "theirs") == b"value"
        assert before.get("theirs", b"key") is None
    with environment.write() as transaction:
        assert bytes(transaction.get("theirs", b"key") or b"") == b"value"


def test_a_dead_reader_is_cleared_when_the_store_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "store"
    Environment.open(path).close()
    with start_python(
        "environment = Environment.open(path); snapshot = environment.snapshot(); print(1, flush=True); time.sleep(60)",
        path,
    ) as reader:
        read_line(reader)
        with Environment.open(path) as environment:
            assert environment.statistics().readers >= 1
        reader.kill()
        reader.wait()
    with Environment.open(path) as environment:
        assert environment.statistics().readers == 0


def test_a_reader_only_reads(environment: Environment) -> None:
    put_record(environment, b"key", b"value")
    environment.close()
    with Environment.open(environment.path, readonly=True) as reader:
        assert get_value(reader, b"key") == b"value"
        for change in (reader.write, lambda: reader.write_with_growth(lambda transaction: None)):
            with pytest.raises(ReadOnlyError, match="read-only"):
                change()


@requires_root
def test_a_user_without_the_right_to_write_reads_and_keeps_writers_out() -> None:
    """Such a reader cannot enter LMDB's table of readers, so it shares the writer's lock while it reads."""
    with make_public_folder() as folder, Environment.open(path := folder / "store", lock_timeout=0.05) as environment:
        put_record(environment, b"key", b"value")
        os.chmod(path, 0o755)
        code = (
            BECOME_NOBODY
            + """
try:
    Environment.open(path)
except Exception as error:
    print(type(error).__name__, flush=True)
environment = Environment.open(path, readonly=True)
snapshot = environment.snapshot()
print(bytes(snapshot.get("a", b"key")).decode(), flush=True)
sys.stdin.readline()
snapshot.close()
print("closed", flush=True)
environment.close()
"""
        )
        with start_python(code, path) as reader:
            assert read_line(reader) == "ReadOnlyError"
            assert read_line(reader) == "value"
            with pytest.raises(LockTimeoutError):
                environment.write()
            send_line(reader)
            assert read_line(reader) == "closed"
            put_record(environment, b"key", b"next")


@requires_root
def test_a_data_file_that_may_not_be_read_is_reported_and_left_as_it_is() -> None:
    with make_public_folder() as folder:
        with Environment.open(path := folder / "store") as environment:
            put_record(environment, b"key", b"value")
        os.chmod(path, 0o777)
        os.chmod(path / "data.mdb", 0)
        names = sorted(os.listdir(path))
        code = (
            BECOME_NOBODY
            + """
for readonly in (False, True):
    try:
        Environment.open(path, readonly=readonly)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
"""
        )
        with start_python(code, path) as reader:
            for _ in range(2):
                assert read_line(reader) == (
                    f"InputError {path}/data.mdb: cannot be read (Permission denied); check its permissions"
                )
        assert sorted(os.listdir(path)) == names


@requires_root
def test_a_store_is_created_in_a_directory_that_may_be_written_but_not_read() -> None:
    """The directory cannot be flushed then. The first attempt failed, although it had created the store."""
    with make_public_folder() as folder:
        (folder / "inbox").mkdir()
        os.chmod(folder / "inbox", 0o733)
        code = BECOME_NOBODY + 'Environment.open(path).close()\nprint("created", flush=True)\n'
        with start_python(code, folder / "inbox" / "store") as creator:
            assert read_line(creator) == "created"


# -- Growth


def put_numbered_records(transaction: WriteTransaction, count: int = 40) -> int:
    for number in range(count):
        transaction.put("a", b"%d" % number, os.urandom(100_000))
    return transaction.count("a")


def test_the_map_starts_far_larger_than_the_file(environment: Environment) -> None:
    statistics = environment.statistics()
    assert statistics.map_bytes == 16 << 30
    assert statistics.bytes < 1 << 20


def test_the_map_grows_under_a_transaction_that_needs_it(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store", map_size=SMALL_MAP) as environment:
        runs = []

        def change(transaction: WriteTransaction) -> int:
            runs.append(transaction.count("a"))
            return put_numbered_records(transaction)

        assert environment.write_with_growth(change) == 40
        assert environment.data.map_size >= 40 * 100_000
        assert len(runs) > 1
        assert set(runs) == {0}
        with environment.snapshot() as snapshot:
            assert snapshot.count("a") == 40
        assert environment.verify() == []


def test_a_plain_transaction_that_fills_the_map_is_rolled_back_with_an_error(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store", map_size=SMALL_MAP) as environment:
        put_record(environment, b"kept", b"value")
        transaction = environment.write()
        with pytest.raises(StoreFullError, match="nothing was changed"):
            put_numbered_records(transaction)
        with pytest.raises(ClosedError):
            transaction.put("a", b"more", b"")
        with environment.snapshot() as snapshot:
            assert [key for key, _ in snapshot.scan("a")] == [b"kept"]


def test_plain_transactions_grow_the_map_in_time(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store", map_size=SMALL_MAP) as environment:
        for number in range(100):
            put_record(environment, b"%d" % number, os.urandom(100_000))
        assert environment.data.map_size > 100 * 100_000


def test_an_open_snapshot_delays_growth_and_is_reported(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store", map_size=SMALL_MAP, lock_timeout=0.05) as environment:
        put_record(environment, b"key", b"value")
        with environment.snapshot() as snapshot:
            with pytest.raises(StoreFullError, match=r"snapshots, .*\(1\) are still open"):
                environment.write_with_growth(put_numbered_records)
            assert bytes(snapshot.get("a", b"key") or b"") == b"value"
        environment.write_with_growth(put_numbered_records)


def test_growth_waits_for_a_snapshot_of_another_thread(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store", map_size=SMALL_MAP, lock_timeout=30) as environment:
        snapshot = environment.snapshot()
        threading.Timer(0.2, snapshot.close).start()
        assert environment.write_with_growth(put_numbered_records) == 40


def test_max_bytes_is_the_limit_and_is_named(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store", max_bytes=2_000_000) as environment:
        put_record(environment, b"kept", b"value")
        with pytest.raises(StoreFullError, match=r"max_bytes=2000000, .* larger max_bytes"):
            environment.write_with_growth(put_numbered_records)
        assert environment.statistics().bytes <= 2_000_000
        assert get_value(environment, b"kept") == b"value"
        put_record(environment, b"kept", b"changed")
        assert environment.verify() == []
    with Environment.open(tmp_path / "store", max_bytes=10_000_000) as environment:
        assert environment.write_with_growth(put_numbered_records) == 41


def test_the_growth_of_another_process_is_adopted(tmp_path: Path) -> None:
    path = tmp_path / "store"
    code = """
def fill(transaction):
    for number in range(40):
        transaction.put("a", b"%d" % number, os.urandom(100_000))
with Environment.open(path, map_size=1 << 20) as environment:
    environment.write_with_growth(fill)
"""
    with (
        Environment.open(path, map_size=SMALL_MAP) as environment,
    ):
        with start_python(code, path):
            pass
        with environment.snapshot() as snapshot:
            assert sum(len(content) for _, content in snapshot.scan("a")) == 40 * 100_000
        put_record(environment, b"more", b"value")
        assert environment.verify() == []


def test_a_limited_address_space_gives_a_smaller_map(tmp_path: Path) -> None:
    code = """
environment = Environment.open(path)
print(environment.data.map_size)
try:
    environment.grow_map(1.0)
except Exception as error:
    print(type(error).__name__, "ulimit" in str(error))
with environment.write() as transaction:
    transaction.put("a", b"key", b"value")
with environment.snapshot() as snapshot:
    print(bytes(snapshot.get("a", b"key")).decode())
environment.close()
"""
    limit = 1 << 33
    with start_python(
        code, tmp_path / "store", preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    ) as run:
        assert SMALL_MAP < int(read_line(run)) < limit
        assert read_line(run) == "StoreFullError True"
        assert read_line(run) == "value"


def test_creation_without_memory_names_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise lmdb.MemoryError("mdb_env_open")

    monkeypatch.setattr(lmdb, "open", refuse)
    with pytest.raises(StoreFullError, match=r"no memory or address space left; .*\(ulimit -v\)"):
        Environment.open(tmp_path / "store")


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    code = """
environment = Environment.open(path)
with environment.write() as transaction:
    transaction.put("a", b"kept", b"value")
try:
    with environment.write() as transaction:
        for number in range(40):
            transaction.put("a", b"%d" % number, os.urandom(100_000))
except Exception as error:
    print(type(error).__name__, "disk is full" in str(error), flush=True)
with environment.write() as transaction:
    transaction.put("a", b"after", b"value")
with environment.snapshot() as snapshot:
    print([key for key, _ in snapshot.scan("a")] == [b"after", b"kept"], environment.verify(), flush=True)
environment.close()
"""
    limit = 1_000_000
    with start_python(
        code, tmp_path / "store", preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    ) as run:
        assert read_line(run) == "StoreFullError True"
        assert read_line(run) == "True []"
    with Environment.open(tmp_path / "store") as environment:
        assert get_value(environment, b"kept") == b"value"


# -- Closing, forking, copying


def test_closing_waits_for_snapshots_and_reports_a_timeout(environment: Environment) -> None:
    snapshot = environment.snapshot()
    with pytest.raises(TransactionError, match=r"snapshots, .*\(1\) are still open after 0\.05 s"):
        environment.close(timeout=0.05)
    put_record(environment, b"key", b"the environment stays open")
    threading.Timer(0.1, snapshot.close).start()
    environment.close(timeout=30)
    environment.close()
    for use in (environment.snapshot, environment.write, environment.verify, environment.statistics):
        with pytest.raises(ClosedError, match="it was closed"):
            use()


class _InterruptedTransaction:
    """A transaction whose end is interrupted by Ctrl-C."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def abort(self) -> None:
        self._transaction.abort()
        raise KeyboardInterrupt


def test_a_snapshot_whose_end_is_interrupted_is_open_no_more(environment: Environment) -> None:
    snapshot: Any = environment.snapshot()
    snapshot._transaction = _InterruptedTransaction(snapshot._transaction)
    with pytest.raises(KeyboardInterrupt):
        snapshot.close()
    assert environment.gate.num_open == 0
    # The same if it ends before the end is reported: it is reported when nothing holds the snapshot any more.
    snapshot = environment.snapshot()
    with (
        mock.patch.object(Environment, "release_view", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        snapshot.close()
    del snapshot
    gc.collect()
    assert environment.gate.num_open == 0
    environment.close(timeout=0.05)


class _InterruptedCall:
    """A function that raises Ctrl-C at its first call, before or after it does its work."""

    def __init__(self, function: Any, *, late: bool) -> None:
        self._function = function
        self._is_late = late
        self._is_interrupted = False

    def __call__(self, *args: Any, **options: Any) -> Any:
        is_first, self._is_interrupted = not self._is_interrupted, True
        if is_first and not self._is_late:
            raise KeyboardInterrupt
        result = self._function(*args, **options)
        if is_first:
            raise KeyboardInterrupt
        return result


class _InterruptedObject:
    """An object of which one method is interrupted once."""

    def __init__(self, wrapped: Any, method: str, *, late: bool) -> None:
        self._wrapped = wrapped
        setattr(self, method, _InterruptedCall(getattr(wrapped, method), late=late))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


def _check_that_others_can_write(environment: Environment) -> None:
    """Write a record in another thread, because a lock that is held for ever would block this one."""
    ended = threading.Event()

    def write_again() -> None:
        put_record(environment, b"key", b"other")
        ended.set()

    threading.Thread(target=write_again, daemon=True).start()
    assert ended.wait(10), "the interrupted transaction still holds a lock"
    assert environment.gate.num_open == 0


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("place", ["put", "wait"])
def test_ctrl_c_at_any_point_of_a_task_leaves_no_transaction_open(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, place: str, late: bool
) -> None:
    put_record(environment, b"key", b"value")
    runner: Any = environment.transaction_thread
    if place == "put":
        monkeypatch.setattr(runner, "_tasks", _InterruptedObject(runner._tasks, "put", late=late))
    else:
        wait = _InterruptedCall(transaction_thread._Task.wait, late=late)
        monkeypatch.setattr(transaction_thread._Task, "wait", lambda task: wait(task))
    with pytest.raises(KeyboardInterrupt):
        environment.write()
    _check_that_others_can_write(environment)


def _interrupt_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, late: bool) -> None:
    """Raise Ctrl-C at the first call of a method in the main thread, the only one that it reaches."""
    method = getattr(owner, name)
    interrupted = _InterruptedCall(method, late=late)

    def call(*args: Any, **options: Any) -> Any:
        function = interrupted if threading.current_thread() is threading.main_thread() else method
        return function(*args, **options)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (TransactionGate, "leave_if_counted"),
        (WriterLock, "release"),
        (Environment, "register_commit"),
        (transaction_thread.TransactionThread, "run"),
    ],
)
def test_ctrl_c_in_the_end_of_a_write_transaction_releases_its_locks(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, end: str, late: bool
) -> None:
    put_record(environment, b"key", b"value")
    transaction = environment.write()
    transaction.put("a", b"key", b"new value")
    with monkeypatch.context() as patch:
        _interrupt_once(patch, owner, name, late=late)
        with contextlib.suppress(KeyboardInterrupt):
            getattr(transaction, end)()
    _check_that_others_can_write(environment)  # while ``transaction`` is still referenced, as by a traceback
    transaction.abort()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Environment, "begin_transaction"),
        (data_file.DataFile, "wrap_read_transaction"),
        (environment_module, "ReadTransaction"),
    ],
)
def test_ctrl_c_in_the_begin_of_a_snapshot_ends_it(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, late: bool
) -> None:
    put_record(environment, b"key", b"value")
    with monkeypatch.context() as patch:
        _interrupt_once(patch, owner, name, late=late)
        with pytest.raises(KeyboardInterrupt) as caught:
            environment.snapshot()
        assert environment.gate.num_open == 0, "the snapshot is still counted as open"
    del caught
    with environment.snapshot() as snapshot:
        assert bytes(snapshot.get("a", b"key") or b"") == b"value"
        assert environment.gate.num_open == 1
    assert environment.gate.num_open == 0
    environment.close(timeout=0.05)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (transaction_thread.TransactionThread, "run"),
        (Environment, "_acquire_writer_lock"),
        (WriterLock, "_acquire_thread_lock"),
    ],
)
def test_ctrl_c_after_a_step_of_the_begin_of_a_write_transaction_releases_its_locks(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    put_record(environment, b"key", b"value")
    with monkeypatch.context() as patch:
        _interrupt_once(patch, owner, name, late=True)
        with pytest.raises(KeyboardInterrupt):
            environment.write()
    _check_that_others_can_write(environment)
    with environment.write(), pytest.raises(TransactionError, match="this thread has a write transaction open"):
        environment.write()  # the failed call does not release the lock of the first transaction
    _check_that_others_can_write(environment)


def test_ctrl_c_in_the_begin_of_a_view_ends_its_transaction_once(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_record(environment, b"key", b"value")
    interrupted = _InterruptedCall(write_transaction.get_ident, late=False)
    monkeypatch.setattr(write_transaction, "get_ident", interrupted)
    with pytest.raises(KeyboardInterrupt):
        environment.write()
    gc.collect()
    assert environment.gate.num_open == 0
    put_record(environment, b"key", b"other")


def test_closing_a_snapshot_waits_for_its_pins(environment: Environment) -> None:
    put_record(environment, b"key", b"value")
    snapshot = environment.snapshot()
    released = threading.Event()
    pinned = threading.Event()

    def compute() -> None:
        with snapshot.hold_open() as view:
            buffer = view.get("a", b"key")
            pinned.set()
            released.wait(30)
            assert bytes(buffer or b"") == b"value"

    thread = threading.Thread(target=compute)
    thread.start()
    pinned.wait(30)
    with pytest.raises(TransactionError, match="is in use by another thread or"):
        snapshot.close()
    released.set()
    snapshot.close()
    thread.join()
    with pytest.raises(ClosedError), snapshot.hold_open():
        pass


def test_a_forked_child_must_open_the_store_itself(environment: Environment) -> None:
    put_record(environment, b"key", b"value")
    snapshot = environment.snapshot()
    transaction = environment.write()
    transaction.put("a", b"key", b"parent")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        report = []
        for use in (environment.snapshot, environment.write, lambda: snapshot.get("a", b"key"), transaction.commit):
            try:
                use()
                report.append("no error")
            except ClosedError as error:
                report.append("fork" if "fork" in str(error) else str(error))
        try:
            environment.close()
            snapshot.close()
            with Environment.open(environment.path, lock_timeout=0) as own:
                report.append(str(get_value(own, b"key")))
                try:
                    own.write()
                except LockTimeoutError as error:
                    report.append(f"locked by {os.getppid()}" if str(os.getppid()) in str(error) else str(error))
        except BaseException as error:
            report.append(repr(error))
        os.write(writing, "|".join(report).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        assert pipe.read().split("|") == ["fork"] * 4 + ["b'value'", f"locked by {os.getpid()}"]
    assert bytes(snapshot.get("a", b"key") or b"") == b"value"
    snapshot.close()
    transaction.commit()
    assert get_value(environment, b"key") == b"parent"


def test_the_lock_of_a_killed_writer_does_not_live_on_in_its_children(environment: Environment) -> None:
    code = """
environment = Environment.open(path)
transaction = environment.write()
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
"""
    with start_python(code, environment.path) as holder:
        child = int(read_line(holder))
        holder.kill()
        holder.wait()
        try:
            put_record(environment, b"key", b"value")
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_copy_is_a_store_of_the_last_commit_made_while_others_write(environment: Environment, tmp_path: Path) -> None:
    with environment.write() as transaction:
        put_numbered_records(transaction)
    with environment.write() as transaction:
        for number in range(30):
            transaction.delete("a", b"%d" % number)
    with environment.write() as transaction:
        transaction.put("a", b"0", b"not committed")
        environment.copy_to(tmp_path / "compact")
        with pytest.raises(TransactionError):
            environment.copy_to(tmp_path / "whole", compact=False)
        transaction.abort()
    environment.copy_to(tmp_path / "whole", compact=False)
    for name in ("compact", "whole"):
        with Environment.open(tmp_path / name) as copy, copy.snapshot() as snapshot:
            assert sorted(key for key, _ in snapshot.scan("a")) == sorted(b"%d" % number for number in range(30, 40))
            assert copy.verify() == []
            smaller = copy.statistics().bytes < environment.statistics().bytes
            assert smaller == (name == "compact")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compact", "store", "whole"]


RECORDS = st.dictionaries(st.binary(min_size=1, max_size=40), st.binary(max_size=5000), max_size=80)


@settings(max_examples=num_examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables=st.dictionaries(st.sampled_from("abc"), RECORDS), batch=st.sampled_from([1, 20_000, 1 << 22]))
def test_a_copy_holds_every_record_on_pages_as_full_as_a_compacted_file(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, dict[bytes, bytes]], batch: int
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    with pytest.MonkeyPatch.context() as patch, Environment.open(folder / "store", durability="relaxed") as environment:
        patch.setattr("kvstore.storage.dense_copy.BATCH_BYTES", batch)
        for table, records in tables.items():
            with environment.write() as transaction:
                for key, stored in sorted(records.items(), key=lambda item: item[::-1]):
                    transaction.put(table, key, stored)
        environment.copy_to(folder / "copy")
        environment.compact()
        assert (folder / "copy" / "data.mdb").stat().st_size == environment.statistics().bytes
        with Environment.open(folder / "copy") as copy:
            for opened in (environment, copy):
                assert opened.verify() == []
                with opened.snapshot() as snapshot:
                    for table, records in tables.items():
                        assert {key: bytes(stored) for key, stored in snapshot.scan(table)} == records


def test_a_copy_replaces_nothing(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(InputError, match="already exists"):
        environment.copy_to(tmp_path / "here")
    with pytest.raises(InputError, match="folder .* does not exist"):
        environment.copy_to(tmp_path / "missing" / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "store"]


def test_a_copy_to_a_read_only_file_system_is_reported(environment: Environment, tmp_path: Path) -> None:
    error = OSError(errno.EROFS, os.strerror(errno.EROFS))  # even for removing a file that does not exist
    with (
        mock.patch.object(Path, "mkdir", side_effect=error),
        mock.patch.object(Path, "unlink", side_effect=error),
        pytest.raises(StoreFullError, match="cannot be written .Read-only file system"),
    ):
        environment.copy_to(tmp_path / "copy")


@pytest.mark.parametrize(("error_number", "is_written"), [(errno.EINVAL, True), (errno.EIO, False)])
def test_a_copy_does_not_need_a_file_system_that_flushes_folders(
    environment: Environment, tmp_path: Path, error_number: int, is_written: bool
) -> None:
    flush_file = os.fsync

    def refuse_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(error_number, os.strerror(error_number))
        flush_file(descriptor)

    with (
        mock.patch.object(os, "fsync", refuse_folders),
        contextlib.nullcontext() if is_written else pytest.raises(StoreFullError, match="Input/output error"),
    ):
        environment.copy_to(tmp_path / "copy")
    assert (tmp_path / "copy").exists() == is_written


@requires_root
def test_a_copy_to_a_folder_that_cannot_be_listed_is_refused() -> None:
    with make_public_folder() as folder:
        (folder / "drop").mkdir()
        os.chmod(folder / "drop", 0o733)
        with Environment.open(path := folder / "store") as environment:
            put_record(environment, b"key", b"value")
        os.chmod(path, 0o755)
        code = (
            BECOME_NOBODY
            + """
from pathlib import Path
try:
    Environment.open(path, readonly=True).copy_to(Path(path).parent / "drop" / "copy")
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""
        )
        with start_python(code, path) as copier:
            message = f"InputError {folder}/drop: cannot be read (Permission denied); check its permissions"
            assert read_line(copier) == message
        assert list((folder / "drop").iterdir()) == []


def test_relaxed_durability_keeps_commits_over_closing(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store", durability="relaxed") as environment:
        put_record(environment, b"key", b"value")
    with Environment.open(tmp_path / "store") as environment:
        assert get_value(environment, b"key") == b"value"


def test_verify_finds_damage(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Environment.open(path) as environment, environment.write() as transaction:
        for number in range(2000):
            transaction.put("a", b"%06d" % number, b"x" * 50)
    with open(path / "data.mdb", "r+b") as file:
        file.seek(5 * 4096)
        file.write(b"\xff" * 64)
    with Environment.open(path) as environment:
        assert environment.verify()


# -- The place of the store, and what a failing disk leaves


def test_a_lock_whose_file_cannot_be_emptied_is_released(environment: Environment) -> None:
    put_record(environment, b"key", b"1")
    with mock.patch("os.ftruncate", side_effect=OSError(5, "Input/output error")):
        put_record(environment, b"key", b"2")
    put_record(environment, b"key", b"3")
    thread = threading.Thread(target=put_record, args=(environment, b"key", b"4"))
    thread.start()
    thread.join()
    assert get_value(environment, b"key") == b"4"


def test_a_lock_whose_release_fails_does_not_hinder_other_threads(environment: Environment) -> None:
    def fail(descriptor: int) -> None:
        os.close(descriptor)
        raise OSError(5, "Input/output error")

    with mock.patch("kvstore.storage.locks.release_lock", fail), pytest.raises(OSError, match="Input/output"):
        put_record(environment, b"key", b"1")
    assert not environment._writer_lock._thread_lock.locked()


@pytest.mark.parametrize("change", ["deleted", "moved", "made again", "another folder"])
def test_a_file_that_was_moved_is_not_written_to(environment: Environment, change: str) -> None:
    put_record(environment, b"key", b"value")
    path = environment.path
    if change == "deleted":
        shutil.rmtree(path)
    else:
        path.rename(path.with_name("moved"))
    if change == "made again":
        with Environment.open(path) as other:
            put_record(other, b"other", b"value")
    if change == "another folder":
        path.mkdir()
    before = sorted(path.iterdir()) if path.exists() else None
    remedy = "open the path again" if change == "made again" else "open it where it is now"
    with pytest.raises(StoreNotFoundError, match=remedy):
        put_record(environment, b"key", b"lost")
    with pytest.raises(StoreNotFoundError, match=remedy):
        environment.compact()
    assert (sorted(path.iterdir()) if path.exists() else None) == before
    assert get_value(environment, b"key") == b"value"  # what is open can be read
    environment.close()
    if change != "deleted":
        with Environment.open(path.with_name("moved")) as moved:
            assert get_value(moved, b"key") == b"value"


def test_a_moved_store_is_recognized(environment: Environment) -> None:
    put_record(environment, b"key", b"value")
    moved = environment.path.rename(environment.path.with_name("moved"))
    with pytest.raises(InputError, match="already open in this process"):
        Environment.open(moved)
    environment.close()


class _PanickedEnvironment:
    """An LMDB environment that begins nothing more, because it could not write a meta page."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment

    def begin(self, **_: Any) -> Any:
        raise lmdb.PanicError("mdb_txn_begin")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)


@pytest.mark.parametrize("write", [False, True])
def test_after_a_meta_page_could_not_be_written_the_file_is_opened_again(environment: Environment, write: bool) -> None:
    put_record(environment, b"key", b"value")
    data: Any = environment.data
    data.environment = _PanickedEnvironment(data.environment)
    if write:
        put_record(environment, b"key", b"value")
    assert get_value(environment, b"key") == b"value"
    put_record(environment, b"more", b"value")
    assert environment.verify() == []


def test_a_map_that_was_too_small_grows_before_the_next_transaction(tmp_path: Path) -> None:
    with Environment.open(tmp_path / "store", map_size=SMALL_MAP) as environment:
        for size in (SMALL_MAP, 2 * SMALL_MAP, 4 * SMALL_MAP):
            with (
                pytest.raises(StoreFullError, match="run it again, and the map will grow"),
                environment.write() as view,
            ):
                view.put("a", b"key", bytes(size))
        with environment.write() as view:
            view.put("a", b"key", bytes(4 * SMALL_MAP))


def test_a_large_file_is_mapped_with_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstore.storage.open_options.MIN_MAP_BYTES", SMALL_MAP)
    with Environment.open(tmp_path / "store") as environment:
        environment.write_with_growth(put_numbered_records)
        size = environment.statistics().bytes
    for readonly in (True, False):
        with Environment.open(tmp_path / "store", readonly=readonly) as environment:
            assert environment.data.map_size >= 16 * size


@pytest.mark.slow
def test_readers_of_two_processes_read_on_while_the_map_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map of 1 MiB grows 100-fold under threads that read here and a process that reads the same file."""
    monkeypatch.setattr("kvstore.storage.open_options.MIN_MAP_BYTES", SMALL_MAP)
    code = """
import kvstore.storage.open_options as module
module.MIN_MAP_BYTES = 1 << 20
with Environment.open(path, readonly=True, lock_timeout=60) as environment:
    print("open", flush=True)
    seen = 0
    while seen < 100:
        with environment.snapshot() as snapshot:
            records = [len(content) for _, content in snapshot.scan("a")]
        assert len(records) >= seen and set(records) <= {1_000_000}, records
        seen = len(records)
    print(seen, flush=True)
"""
    with Environment.open(tmp_path / "store", lock_timeout=60) as environment:
        put_record(environment, b"%03d" % 0, bytes(1_000_000))
        stopped, failures = threading.Event(), []

        def read() -> None:
            try:
                while not stopped.is_set():
                    with environment.snapshot() as snapshot:
                        assert {len(content) for _, content in snapshot.scan("a")} == {1_000_000}
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        with start_python(code, tmp_path / "store") as other:
            assert read_line(other) == "open"
            for thread in threads:
                thread.start()
            for number in range(1, 100):
                environment.write_with_growth(
                    lambda view, number=number: view.put("a", b"%03d" % number, bytes(1_000_000))  # type: ignore[misc]
                )
            assert read_line(other) == "100"
        stopped.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert environment.data.map_size >= 100 * 1_000_000


OPEN_MANY = """
import kvstore, resource, shutil
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
number = int(sys.argv[2])
path = Path(path)
with kvstore.open(path / "first", embedder="hashing:16", settings={"language": "rules"}) as store:
    store.put("tea", "Tea is made from leaves.")
stores = []
for place in range(number):
    (path / str(place)).mkdir()
    shutil.copyfile(path / "first" / "data.mdb", path / str(place) / "data.mdb")
    stores.append(kvstore.open(path / str(place)))
for store in stores[::100]:
    store.put("milk", "Milk goes into tea.")
print(sum(len(store) for store in stores), flush=True)
for store in stores:
    store.close()
"""


@pytest.mark.parametrize("number", [200, pytest.param(4000, marks=[pytest.mark.slow, pytest.mark.long])])
def test_a_process_opens_many_stores_for_writing(tmp_path: Path, number: int) -> None:
    with start_python(OPEN_MANY, tmp_path, str(number)) as run:
        assert read_line(run) == str(number + number // 100)


OPEN_TOO_MANY = """
import resource
from pathlib import Path
from kvstore.errors import KvstoreError
environments = []
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
try:
    for place in range(60):
        environments.append(Environment.open(Path(path) / str(place)))
except KvstoreError as error:
    print(error, flush=True)
descriptors = []
try:
    while True:
        descriptors.append(os.dup(0))
except OSError:
    pass
try:
    environments[0].write()
except KvstoreError as error:
    print(error, flush=True)
for descriptor in descriptors:
    os.close(descriptor)
with environments[0].write() as transaction:
    transaction.put("a", b"key", b"value")
for environment in environments:
    environment.close()
"""


def test_a_process_that_opens_too_many_files_is_told_so(tmp_path: Path) -> None:
    remedy = "too many open files; close other stores, or raise the limit (ulimit -n)"
    with start_python(OPEN_TOO_MANY, tmp_path) as run:
        assert read_line(run).endswith(remedy)
        assert read_line(run) == f"{tmp_path / '0' / 'writer.lock'}: {remedy}"


def write_backup(environment: Environment, target: Path) -> None:
    environment.copy_to(target)


def write_export(environment: Environment, target: Path) -> None:
    with create_file_atomically(target) as partial:
        partial.write_text("all")


@pytest.mark.parametrize("write", [write_backup, write_export])
def test_leftovers_of_killed_copies_are_removed_by_the_next_in_the_same_folder(
    environment: Environment, tmp_path: Path, write: Any
) -> None:
    put_record(environment, b"key", b"value")
    target = tmp_path / "copy"
    with start_python("print(os.getpid(), flush=True)", tmp_path) as ended:
        gone = read_line(ended)
    # In a container, a new process often has the id of the killed one.
    folders = [tmp_path / f".copy.kvstore-{process_id}" for process_id in (gone, os.getpid())]
    for folder in folders:
        folder.mkdir()
        (folder / "data.mdb").write_bytes(b"half")
    files = [tmp_path / f".copy.kvstore-{gone}0000000", tmp_path / f".copy-of-monday.kvstore-{gone}"]
    for file in files:
        file.write_bytes(b"half")
    files.append(tmp_path / f".pipe.kvstore-{gone}")
    os.mkfifo(files[-1])  # opening it would wait for a writer
    others = [
        tmp_path / f".copy.kvstore-{os.getppid()}",
        tmp_path / f".other.partial-{gone}",
        tmp_path / f".other.kvstore-{gone}.jsonl",
        tmp_path / f"other.kvstore-{gone}",
    ]
    for other in others:
        other.write_bytes(b"half")
    locked = tmp_path / f".copy.kvstore-{gone}1111111"
    locked.write_bytes(b"half")
    with locked.open() as locked_file:
        fcntl.flock(locked_file, fcntl.LOCK_EX)
        write(environment, target)
    assert target.exists()
    assert not any(leftover.exists() for leftover in [*folders, *files])
    assert all(other.exists() for other in [*others, locked])


@pytest.mark.parametrize("write", [write_backup, write_export])
def test_a_copy_in_the_making_is_locked(environment: Environment, tmp_path: Path, write: Any) -> None:
    put_record(environment, b"key", b"value")
    partial = tmp_path / f".copy.kvstore-{os.getpid()}"
    locked_paths = []

    def rename(path: Path, target: Path) -> None:
        descriptor = os.open(partial, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        os.rename(path, target)
        locked_paths.append(path)

    with mock.patch.object(Path, "rename", rename):
        write(environment, tmp_path / "copy")
    assert locked_paths == [partial]


def test_a_transaction_that_is_collected_together_with_its_environment_is_rolled_back(tmp_path: Path) -> None:
    environment = Environment.open(tmp_path / "store")
    cycle: list[object] = [environment, environment.write()]
    cycle.append(cycle)
    del environment, cycle
    gc.collect()
    with Environment.open(tmp_path / "store", lock_timeout=5) as environment, environment.write() as transaction:
        transaction.put("a", b"key", b"value")
