"""COMPACT: the file shrinks, nothing is lost, and no process is left behind in the old file."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from other_process import BECOME_NOBODY, NOBODY, make_public_folder, read_line, requires_root, send_line, start_python

import kvstore
from kvstore import Store
from kvstore.changes import compaction
from kvstore.changes.dump import dump
from kvstore.database import exchange
from kvstore.errors import (
    ClosedError,
    CorruptionError,
    InputError,
    LockTimeoutError,
    NotAStoreError,
    ReadOnlyError,
    StoreFullError,
    StoreNotFoundError,
    TransactionError,
)
from kvstore.ingest import document_batch
from kvstore.storage import locks, open_file
from kvstore.storage.environment import Environment
from kvstore.storage.locks import WriterLock
from kvstore.structures import tables
from kvstore.structures.state import State
from kvstore.structures.vectors.vectors import FREE_ID, Vectors, VectorWriter, compute_block_shape

OPEN = """
environment = Environment.open(path, readonly=READONLY)
print("open", flush=True)
sys.stdin.readline()
environment.close()
print("closed", flush=True)
sys.stdin.readline()
"""

Contents = dict[bytes, bytes]


def read_contents(environment: Environment) -> Contents:
    with environment.snapshot() as snapshot:
        return {key: bytes(value) for key, value in snapshot.scan("a")}


def put_record(environment: Environment, key: bytes, value: bytes) -> None:
    with environment.write() as transaction:
        transaction.put("a", key, value)


def make_wasteful_store(path: Path) -> Contents:
    """Make a store of about 4 MB at ``path``, nine tenths of it free pages; return its contents."""
    with Environment.open(path) as environment:
        with environment.write() as transaction:
            for number in range(200):
                transaction.put("a", b"%03d" % number, os.urandom(20_000))
        with environment.write() as transaction:
            for number in range(200):
                if number % 10:
                    transaction.delete("a", b"%03d" % number)
        return read_contents(environment)


def measure_size(path: Path) -> int:
    return (path / "data.mdb").stat().st_size


def list_names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


FILES = ["data.mdb", "lock.mdb", "writer.lock"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def public_path() -> Iterator[Path]:
    """Yield a path where other users can read a store."""
    with make_public_folder() as folder:
        path = folder / "store"
        path.mkdir(mode=0o755)
        yield path


# -- What it does


def write_document(number: int) -> str:
    names = [f"Distillery {number}", f"Warehouse {number % 7}", f"Port Ellen {number % 3}"]
    return "\n\n".join(f"{name} lies at {names[-1]}. It was founded in {1800 + number}. " * 12 for name in names)


def read_vectors(state: State) -> dict[int, bytes]:
    return {
        chunk: state.vectors.gather([(record.block, record.row)]).tobytes() for chunk, record in state.chunks.scan()
    }


@pytest.mark.slow
def test_a_store_shrinks_to_the_size_of_a_fresh_one_and_holds_the_same(
    make_store: Callable[..., Store], tmp_path: Path
) -> None:
    store, fresh_store = make_store("old"), make_store("fresh")
    for number in range(60):
        store.put(f"d{number}", write_document(number))
    for number in range(60):
        if number % 6:
            assert store.delete(f"d{number}")
        else:
            fresh_store.put(f"d{number}", write_document(number))
    with store.snapshot() as snapshot:
        content, vectors = dump(snapshot._state), read_vectors(snapshot._state)
    with fresh_store.snapshot() as snapshot:
        assert content == dump(snapshot._state)
    large = measure_size(store.path)

    report = store.compact()

    fresh_store.backup(tmp_path / "copy")
    assert (report.bytes_before, report.bytes_after) == (large, measure_size(store.path))
    assert report.bytes_after <= 1.15 * measure_size(tmp_path / "copy") < large
    assert list_names(store.path) == FILES
    for _ in range(2):
        with store.snapshot() as snapshot:
            assert dump(snapshot._state) == content
            assert read_vectors(snapshot._state) == vectors
        assert store.check() == []
        assert store._session.environment.verify() == []
        store.close()
        store = make_store("old")
    assert store.put("another", write_document(1))
    assert [hit.document for hit in store.search("Distillery 1", using="lexical", top=1)] == ["another"]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_no_word_of_a_deleted_document_is_left_in_the_files_of_a_small_store(
    make_store: Callable[..., Store], count: int
) -> None:
    store = make_store()
    for number in range(count):
        store.put(f"d{number}", write_document(number))
    store.put("secret", "Quintessential marmalade.", title="Zanzibar", meta={"password": "hunter2"})
    store.delete("secret")
    store.compact()
    content = b"".join(path.read_bytes().lower() for path in store.path.iterdir())
    words = (b"secret", b"quintessential", b"marmalad", b"zanzibar", b"hunter2")
    assert [word for word in words if word in content] == []


def test_an_empty_store_can_be_compacted(path: Path) -> None:
    with Environment.open(path) as environment:
        for _ in range(2):
            environment.compact()
            assert read_contents(environment) == {}
        put_record(environment, b"key", b"value")
        environment.compact()
        assert read_contents(environment) == {b"key": b"value"}
        assert environment.verify() == []


@settings(max_examples=num_examples(25), deadline=None)
@given(added=st.integers(0, 200), removed=st.sets(st.integers(0, 199)), limit=st.integers(1, 5))
def test_vectors_move_into_as_few_blocks_as_hold_them(
    tmp_path_factory: pytest.TempPathFactory, added: int, removed: set[int], limit: int
) -> None:
    dimension = 1000
    _, rows = compute_block_shape(dimension)
    path = tmp_path_factory.mktemp("vectors") / "store"
    with Environment.open(path, durability="relaxed") as environment:
        with environment.write() as transaction:
            vectors = VectorWriter(transaction, dimension)
            places = {chunk: vectors.add(chunk, np.full(dimension, chunk), chunk // rows) for chunk in range(added)}
            vectors.flush()
            for chunk in removed & places.keys():
                vectors.remove(*places.pop(chunk))
            vectors.flush()
        moved = True
        while moved:
            with environment.write() as transaction:
                vectors = VectorWriter(transaction, dimension)
                moves = vectors.empty_last_blocks(limit)
                vectors.flush()
            moved = bool(moves)
            places.update({chunk: (block, row) for chunk, block, row in moves})
        with environment.snapshot() as snapshot:
            assert snapshot.count(tables.VECTORS) == -(-len(places) // rows)
            stored = Vectors(snapshot, dimension)
            assert stored.gather(list(places.values()))[:, [0, -1]].tolist() == [[chunk, chunk] for chunk in places]
            blocks = {
                chunk: (number, row)
                for number in stored.scan_block_numbers()
                for row, chunk in enumerate(stored.get_row_ids(number).tolist())
            }
            assert {chunk: place for chunk, place in blocks.items() if chunk != FREE_ID} == places


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "compact", "reopen"]), st.integers(0, 20), st.integers(0, 30_000)
    ),
    max_size=25,
)


@settings(max_examples=num_examples(40), deadline=None)
@given(steps=STEPS)
def test_compacting_between_changes_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("model") / "store"
    environment = Environment.open(path, durability="relaxed")
    model: Contents = {}
    try:
        for step, number, length in steps:
            key = b"%d" % number
            with environment.snapshot() as snapshot:
                change = snapshot.change
            assert environment.statistics().change == change
            if step == "compact":
                report = environment.compact()
                assert report.bytes_after == environment.statistics().bytes <= report.bytes_before
            elif step == "reopen":
                environment.close()
                environment = Environment.open(path, durability="relaxed")
            elif step == "put":
                model[key] = bytes([number]) * length
                put_record(environment, key, model[key])
            else:
                with environment.write() as transaction:
                    assert transaction.delete("a", key) == (model.pop(key, None) is not None)
            assert read_contents(environment) == model
            with environment.snapshot() as snapshot:
                assert step == "reopen" or snapshot.change in (change, change + (step in ("put", "delete")))
        assert environment.verify() == []
    finally:
        environment.close()


def test_the_file_keeps_its_mode(path: Path) -> None:
    make_wasteful_store(path)
    os.chmod(path / "data.mdb", 0o640)
    with Environment.open(path) as environment:
        environment.compact()
    assert (path / "data.mdb").stat().st_mode & 0o7777 == 0o640


@requires_root
def test_the_file_keeps_its_owner(path: Path) -> None:
    make_wasteful_store(path)
    os.chown(path / "data.mdb", NOBODY, NOBODY)
    with Environment.open(path) as environment:
        environment.compact()
    assert ((path / "data.mdb").stat().st_uid, (path / "data.mdb").stat().st_gid) == (NOBODY, NOBODY)


# -- At the end of an ingest


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of 600 documents, which an ingest or import stores in many commits."""
    monkeypatch.setattr(compaction, "MIN_SAVED_BYTES", 0)
    monkeypatch.setattr(document_batch, "BATCH_DOCUMENTS", 32)
    monkeypatch.setattr(exchange, "_BATCH_LINES", 32)
    rows = ({"id": f"note {number}", "text": write_document(number)[:300]} for number in range(600))
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


@pytest.mark.slow
def test_an_ingest_that_made_the_store_leaves_a_file_without_free_pages(
    make_store: Callable[..., Store], notes: Path, tmp_path: Path
) -> None:
    store = make_store(embedder="hashing:32")
    assert store.ingest(notes, workers=0).added == 600
    dense = measure_size(store.path)
    assert store.compact().bytes_after == pytest.approx(dense, rel=0.02)
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"id": "last", "text": write_document(602)}))
    old_size = measure_size(store.path)
    assert store.ingest(more, workers=0).added == 1
    assert measure_size(store.path) > old_size, "it made little of the file"
    store.export(tmp_path / "all")
    imported = make_store("imported", embedder="hashing:32")
    assert imported.import_(tmp_path / "all").documents == 601
    dense = measure_size(imported.path)
    assert imported.compact().bytes_after == pytest.approx(dense, rel=0.02)


def test_a_store_that_was_made_in_transactions_is_closed_without_free_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MIN_SAVED_BYTES", 1 << 17)
    path = tmp_path / "store"
    with kvstore.open(path, embedder="hashing:32", settings={"language": "rules"}) as store:
        for first in range(0, 300, 20):
            with store.transaction() as transaction:
                for number in range(first, first + 20):
                    transaction.put(f"note {number}", write_document(number)[:300])
    dense = measure_size(path)
    with kvstore.open(path) as store:
        assert store.compact().bytes_after == pytest.approx(dense, rel=0.02)
        assert store.put("last", write_document(602))
    assert measure_size(path) > dense, "it made little of the file"
    with kvstore.open(path) as store:
        assert len(store.keys()) == 301
        assert store.check() == []


def test_a_store_that_others_have_open_is_closed_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MIN_SAVED_BYTES", 0)
    path = tmp_path / "store"
    store = kvstore.open(path, embedder="hashing:32", settings={"language": "rules"})
    with start_python(OPEN.replace("READONLY", "True"), path) as process:
        assert read_line(process) == "open"
        for first in range(0, 100, 10):
            with store.transaction() as transaction:
                for number in range(first, first + 10):
                    transaction.put(f"note {number}", write_document(number)[:300])
        old_size = measure_size(path)
        store.close()
        assert measure_size(path) >= old_size, "merging the change buffer is all that is done"
    closed_size = measure_size(path)
    with kvstore.open(path) as store:
        assert store.compact().bytes_after < 0.75 * closed_size


@pytest.mark.slow
def test_a_repair_leaves_a_file_without_free_pages(make_store: Callable[..., Store], notes: Path) -> None:
    store = make_store(embedder="hashing:32")
    assert store.ingest(notes, workers=0).added == 600
    store._session.environment.write_with_growth(lambda transaction: transaction.clear(tables.POSTINGS))
    sparse = {}
    for name in ("left", "compacted"):
        copy = store.path.with_name(name)
        store.backup(copy)
        damaged = make_store(name)
        if name == "left":
            with damaged.snapshot():  # is in the way
                assert damaged.repair().remaining == []
        else:
            assert damaged.repair().remaining == []
        sparse[name] = measure_size(copy)
    store.close()
    assert sparse["compacted"] < 0.75 * sparse["left"]
    assert damaged.compact().bytes_after == pytest.approx(sparse["compacted"], rel=0.02)


@pytest.mark.slow
def test_an_ingest_succeeds_if_its_file_cannot_be_compacted(
    make_store: Callable[..., Store], notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, other_store = (make_store(name, embedder="hashing:32") for name in ("reader", "other"))
    with reader.snapshot() as snapshot:
        assert reader.ingest(notes, workers=0).added == 600
        assert snapshot.keys() == []
    with start_python(OPEN.replace("READONLY", "True"), other_store.path) as process:
        assert read_line(process) == "open"
        assert other_store.ingest(notes, workers=0).added == 600
    large = make_store("large", embedder="hashing:32")
    monkeypatch.setattr(compaction, "MAX_AUTOMATIC_BYTES", 1000)
    assert large.ingest(notes, workers=0).added == 600
    # In the large one the change buffer was not merged either, so that its file was never as sparse.
    for store, share in ((reader, 0.75), (other_store, 0.75), (large, 1.0)):
        assert len(store.keys()) == 600
        report = store.compact()
        assert report.bytes_after < share * report.bytes_before


# -- Other processes


@pytest.mark.parametrize("readonly", [True, False])
def test_it_is_refused_while_another_process_has_the_store_open(path: Path, readonly: bool) -> None:
    contents = make_wasteful_store(path)
    with Environment.open(path, lock_timeout=0) as environment:
        file = (path / "data.mdb").stat()
        with start_python(OPEN.replace("READONLY", str(readonly)), path) as other_process:
            assert read_line(other_process) == "open"
            for _ in range(2):
                with pytest.raises(TransactionError, match="another process has this store open.*close the store"):
                    environment.compact()
            assert (path / "data.mdb").stat() == file
            assert list_names(path) == FILES
            put_record(environment, b"more", b"value")
            send_line(other_process)
            assert read_line(other_process) == "closed"
            environment.compact()
        assert read_contents(environment) == {**contents, b"more": b"value"}
        assert measure_size(path) < file.st_size / 5


def test_a_process_that_was_refused_is_still_reckoned_with(path: Path) -> None:
    make_wasteful_store(path)
    code = """
environment = Environment.open(path)
print("open", flush=True)
for _ in range(2):
    sys.stdin.readline()
    try:
        print(environment.compact().bytes_after, flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""
    with start_python(code, path) as other_process:
        assert read_line(other_process) == "open"
        with Environment.open(path) as environment:
            with pytest.raises(TransactionError):
                environment.compact()
            send_line(other_process)
            assert read_line(other_process) == "TransactionError"
        send_line(other_process)
        assert int(read_line(other_process)) == measure_size(path)


@requires_root
def test_it_is_refused_while_a_process_without_the_right_to_write_reads(public_path: Path) -> None:
    path = public_path
    make_wasteful_store(path)
    code = BECOME_NOBODY + OPEN.replace("READONLY", "True")
    with Environment.open(path) as environment, start_python(code, path) as other_process:
        assert read_line(other_process) == "open"
        with pytest.raises(TransactionError, match="another process"):
            environment.compact()
        send_line(other_process)
        assert read_line(other_process) == "closed"
        environment.compact()


def test_a_forked_child_counts_only_when_it_opens_the_store_itself(path: Path) -> None:
    contents = make_wasteful_store(path)
    with Environment.open(path) as environment:
        orders, to_parent = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.read(orders[0], 1)
                with Environment.open(path, readonly=True) as own_environment:
                    os.write(to_parent[1], b"o")
                    os.read(orders[0], 1)
                    os._exit(0 if read_contents(own_environment) == contents else 1)
            finally:
                os._exit(2)
        environment.compact()
        os.write(orders[1], b"o")
        assert os.read(to_parent[0], 1) == b"o"
        with pytest.raises(TransactionError, match="another process"):
            environment.compact()
        os.write(orders[1], b"c")
        assert os.waitpid(child, 0)[1] == 0
        environment.compact()
        assert read_contents(environment) == contents
        for descriptor in (*orders, *to_parent):
            os.close(descriptor)


def test_a_child_that_outlives_its_killed_parent_is_not_in_the_way(path: Path) -> None:
    contents = make_wasteful_store(path)
    code = """
environment = Environment.open(path)
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
sys.stdin.readline()
"""
    with start_python(code, path) as parent:
        child = int(read_line(parent))
        parent.kill()
        parent.wait()
        try:
            with Environment.open(path) as environment:
                environment.compact()
                assert read_contents(environment) == contents
        finally:
            os.kill(child, signal.SIGKILL)


def test_opening_meanwhile_waits_and_meets_the_new_file(path: Path) -> None:
    contents = make_wasteful_store(path)
    code = """
def rename(*names, rename=os.rename):
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    rename(*names)
environment = Environment.open(path)
os.rename = rename
environment.compact()
print("compacted", flush=True)
sys.stdin.readline()
with environment.snapshot() as snapshot:
    print(bytes(snapshot.get("a", b"more")).decode(), flush=True)
environment.close()
"""
    old_inode = (path / "data.mdb").stat().st_ino
    with start_python(code, path) as compacting:
        pid = read_line(compacting)
        for readonly in (True, False):
            with pytest.raises(LockTimeoutError, match=rf"process {pid} has been compacting .* 0\.05 s.*lock_timeout"):
                Environment.open(path, readonly=readonly, lock_timeout=0.05)
        assert (path / "data.mdb").stat().st_ino == old_inode
        threading.Timer(0.2, send_line, [compacting]).start()
        with Environment.open(path, lock_timeout=30) as environment:
            assert (path / "data.mdb").stat().st_ino != old_inode
            assert read_contents(environment) == contents
            assert read_line(compacting) == "compacted"
            put_record(environment, b"more", b"seen by both")
            send_line(compacting)
            assert read_line(compacting) == "seen by both"


def test_processes_that_open_write_and_compact_at_will_split_nothing(path: Path) -> None:
    """Every process counts its writes in one store; a write into a file without a name would be missing at the end."""
    code = """
from kvstore.errors import TransactionError
compacted = 0
for number in range(25):
    with Environment.open(path, lock_timeout=30) as environment:
        with environment.write() as transaction:
            count = int(bytes(transaction.get("a", b"count") or b"0"))
            transaction.put("a", b"count", b"%d" % (count + 1))
            transaction.put("a", b"filling", os.urandom(100_000))
        try:
            environment.compact()
            compacted += 1
        except TransactionError:
            pass
print(compacted, flush=True)
"""
    Environment.open(path).close()
    with start_python(code, path) as first, start_python(code, path) as second, start_python(code, path) as third:
        assert sum(int(read_line(process)) for process in (first, second, third)) > 0
    with Environment.open(path) as environment:
        assert read_contents(environment)[b"count"] == b"75"
        assert environment.verify() == []


def test_a_store_opened_while_another_process_wrote_can_be_compacted_later(path: Path) -> None:
    contents = make_wasteful_store(path)
    code = """
with Environment.open(path) as environment, environment.write() as transaction:
    transaction.put("a", b"more", b"theirs")
    print("writing", flush=True)
    sys.stdin.readline()
print("closed", flush=True)
"""
    with start_python(code, path) as writer:
        assert read_line(writer) == "writing"
        with Environment.open(path, lock_timeout=0.05) as environment:
            with pytest.raises(LockTimeoutError):
                environment.compact()
            send_line(writer)
            assert read_line(writer) == "closed"
            environment.compact()
            assert read_contents(environment) == {**contents, b"more": b"theirs"}


# -- This process


def test_it_waits_for_snapshots_and_reports_a_timeout(path: Path) -> None:
    contents = make_wasteful_store(path)
    with Environment.open(path, lock_timeout=0.05) as environment:
        snapshot = environment.snapshot()
        with pytest.raises(TransactionError, match=r"COMPACT.*snapshots, transactions .*\(1\) are still open"):
            environment.compact()
        assert {key: bytes(value) for key, value in snapshot.scan("a")} == contents
        environment.lock_timeout = 30
        threading.Timer(0.1, snapshot.close).start()
        environment.compact()
        assert read_contents(environment) == contents


def test_it_is_refused_within_a_transaction(path: Path) -> None:
    with Environment.open(path) as environment:
        with environment.write() as transaction:
            transaction.put("a", b"key", b"value")
            with pytest.raises(TransactionError, match="this thread has"):
                environment.compact()
        environment.compact()
        assert read_contents(environment) == {b"key": b"value"}


def test_it_is_refused_if_nothing_may_be_written(path: Path) -> None:
    make_wasteful_store(path)
    with (
        Environment.open(path, readonly=True) as environment,
        pytest.raises(ReadOnlyError, match="for writing"),
    ):
        environment.compact()
    with pytest.raises(ClosedError):
        environment.compact()


@pytest.mark.slow
def test_threads_read_and_write_on_around_it(path: Path) -> None:
    failures: list[BaseException] = []
    finished = threading.Event()
    with Environment.open(path, lock_timeout=30) as environment:
        put_record(environment, b"count", b"0")

        def repeat(use: Callable[[], None]) -> None:
            try:
                while not finished.is_set():
                    use()
            except BaseException as error:
                failures.append(error)

        def read_count() -> None:
            with environment.snapshot() as snapshot:
                assert snapshot.get("a", b"count") is not None
            assert environment.statistics().bytes > 0

        def increment_count() -> None:
            with environment.write() as transaction:
                count = int(bytes(transaction.get("a", b"count") or b""))
                transaction.put("a", b"count", b"%d" % (count + 1))
            counts.append(count + 1)

        counts: list[int] = []
        threads = [threading.Thread(target=repeat, args=[use]) for use in (read_count, read_count, increment_count)]
        for thread in threads:
            thread.start()
        for _ in range(40):
            environment.compact()
        finished.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert counts == list(range(1, len(counts) + 1))
        assert read_contents(environment)[b"count"] == b"%d" % len(counts)


# -- What goes wrong

KILL = """
environment = Environment.open(path)
calls = 0
def killing(*arguments, call=os.FUNCTION):
    global calls
    calls += 1
    if calls == CALL and "WHEN" == "before":
        os.kill(os.getpid(), 9)
    call(*arguments)
    if calls == CALL and "WHEN" == "after":
        os.kill(os.getpid(), 9)
os.FUNCTION = killing
environment.compact()
print("survived", flush=True)
"""


@pytest.mark.parametrize(
    ("function", "call", "when", "renamed"),
    [
        ("fchmod", 1, "after", False),
        ("fsync", 1, "before", False),
        ("rename", 1, "before", False),
        ("rename", 1, "after", True),
        ("fsync", 2, "before", True),
        ("fsync", 2, "after", True),
    ],
    ids=[
        "with an empty copy",
        "with a copy not yet durable",
        "before the renaming",
        "after the renaming",
        "before the name is durable",
        "before the new file is open",
    ],
)
def test_killed_at_any_point_it_leaves_one_whole_file(
    path: Path, function: str, call: int, when: str, renamed: bool
) -> None:
    contents = make_wasteful_store(path)
    large = measure_size(path)
    code = KILL.replace("FUNCTION", function).replace("CALL", str(call)).replace("WHEN", when)
    with start_python(code, path) as process:
        assert read_line(process) == ""
    assert process.returncode == -signal.SIGKILL
    assert (measure_size(path) < large) == renamed
    assert ("data.mdb.new" in list_names(path)) != renamed
    with Environment.open(path, readonly=True) as environment:
        assert read_contents(environment) == contents
        assert environment.verify() == []
    with Environment.open(path) as environment:
        assert list_names(path) == FILES
        assert read_contents(environment) == contents
        environment.compact()
        assert read_contents(environment) == contents
    assert measure_size(path) < large / 5


@pytest.mark.parametrize("round_", range(6))
def test_killed_at_random_it_loses_no_commit(path: Path, round_: int) -> None:
    code = """
environment = Environment.open(path, map_size=1 << 26)
for number in range(1_000_000):
    with environment.write() as transaction:
        transaction.put("a", b"%08d" % number, os.urandom(20_000))
        if number >= 10:
            transaction.delete("a", b"%08d" % (number - 10))
    print(number, flush=True)
    environment.compact()
"""
    with start_python(code, path) as process:
        acknowledged = -1
        while acknowledged < 5 + 3 * round_:
            acknowledged = int(read_line(process))
        if round_ % 2:
            threading.Event().wait(0.002 * round_)
        process.kill()
    with Environment.open(path) as environment:
        numbers = [int(key) for key in read_contents(environment)]
        assert numbers[-1] >= acknowledged
        assert numbers == list(range(max(0, numbers[-1] - 9), numbers[-1] + 1))
        assert environment.verify() == []
    assert list_names(path) == FILES


def test_a_lock_that_a_killed_holder_left_makes_the_directory_durable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.mkdir()
    flushed: list[Path] = []
    monkeypatch.setattr(locks, "flush", flushed.append)
    lock = WriterLock(path / "writer.lock")
    with lock.hold(0):
        assert flushed == []
    (path / "writer.lock").write_text("123\n")
    with lock.hold(0):
        assert flushed == [path]
    with lock.hold(0):
        assert flushed == [path]


def test_a_leftover_is_removed_by_the_next_writer_only(path: Path) -> None:
    contents = make_wasteful_store(path)
    leftover = path / "data.mdb.new"
    leftover.write_bytes(b"half a copy")
    with Environment.open(path, readonly=True) as environment:
        assert read_contents(environment) == contents
    assert leftover.exists()
    Environment.open(path).close()
    assert list_names(path) == FILES


def test_a_copy_without_its_store_is_left_alone(path: Path) -> None:
    """Somebody took the data file away: what is left may be the only copy."""
    make_wasteful_store(path)
    (path / "data.mdb").rename(path / "data.mdb.new")
    with pytest.raises(NotAStoreError, match=r"data\.mdb is missing, but there is data\.mdb\.new"):
        Environment.open(path)
    assert list_names(path) == ["data.mdb.new", "lock.mdb", "writer.lock"]


def test_a_full_disk_leaves_the_old_file(path: Path) -> None:
    contents = make_wasteful_store(path)
    large = measure_size(path)
    code = """
environment = Environment.open(path)
try:
    environment.compact()
except Exception as error:
    print(type(error).__name__, "free some space" in str(error), flush=True)
with environment.snapshot() as snapshot:
    print(snapshot.count("a"), environment.verify(), flush=True)
print(len(os.listdir(path)), flush=True)
environment.close()
"""
    limit = 200_000
    with start_python(code, path, preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) as process:
        assert read_line(process) == "StoreFullError True"
        assert read_line(process) == f"{len(contents)} []"
        assert read_line(process) == "3"
    assert measure_size(path) == large
    with Environment.open(path) as environment:
        assert read_contents(environment) == contents


@requires_root
def test_without_the_right_to_replace_the_file_it_is_refused(public_path: Path) -> None:
    path = public_path
    contents = make_wasteful_store(path)
    code = (
        BECOME_NOBODY
        + """
environment = Environment.open(path)
with environment.write() as transaction:
    transaction.put("a", b"more", b"value")
try:
    environment.compact()
except Exception as error:
    print(type(error).__name__, "COMPACT as the file's owner" in str(error), flush=True)
with environment.write() as transaction:
    transaction.put("a", b"more", b"again")
"""
    )
    for file in path.iterdir():
        os.chmod(file, 0o666)
    for mode in (0o755, 0o777):  # no right to write to the directory; none to give the new file to its owner
        os.chmod(path, mode)
        with start_python(code, path) as process:
            assert read_line(process) == "ReadOnlyError True"
        with Environment.open(path) as environment:
            assert read_contents(environment) == {**contents, b"more": b"again"}
            assert list_names(path) == FILES


def test_a_failure_to_open_the_new_file_ends_the_environment_and_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = make_wasteful_store(path)
    environment = Environment.open(path)

    def raise_store_full(_: object) -> None:
        raise StoreFullError("no address space")

    with monkeypatch.context() as patches, pytest.raises(StoreFullError):
        patches.setattr("kvstore.storage.data_file.DataFile.open_successor", raise_store_full)
        environment.compact()
    assert environment.closed
    with pytest.raises(ClosedError, match="open it again"):
        environment.snapshot()
    environment.close()
    with Environment.open(path, lock_timeout=0) as environment:
        assert read_contents(environment) == contents
        environment.compact()


def test_a_symbolic_link_is_not_replaced(path: Path, tmp_path: Path) -> None:
    contents = make_wasteful_store(path)
    (path / "data.mdb").rename(tmp_path / "elsewhere")
    (path / "data.mdb").symlink_to(tmp_path / "elsewhere")
    with Environment.open(path) as environment:
        with pytest.raises(InputError, match="symbolic link"):
            environment.compact()
        assert read_contents(environment) == contents
    assert (path / "data.mdb").is_symlink()


def test_a_file_that_was_put_in_place_of_the_open_one_is_not_destroyed(path: Path, tmp_path: Path) -> None:
    make_wasteful_store(path)
    shutil.copytree(path, tmp_path / "backup")
    with Environment.open(path) as environment:
        put_record(environment, b"more", b"value")
        (tmp_path / "backup" / "data.mdb").rename(path / "data.mdb")
        with pytest.raises(StoreNotFoundError, match="another store has replaced"):
            environment.compact()
    with Environment.open(path) as environment:
        assert b"more" not in read_contents(environment)


def test_pages_that_are_neither_used_nor_free_are_released(path: Path) -> None:
    contents = make_wasteful_store(path)
    file = path / "data.mdb"
    image = bytearray(file.read_bytes())
    for page in (0, 4096):
        # The last page's number, after the page's header (16 bytes), magic, version, address, map size and two roots.
        place = page + 16 + 4 + 4 + 8 + 8 + 2 * 48
        struct.pack_into("<Q", image, place, struct.unpack_from("<Q", image, place)[0] + 1)
    file.write_bytes(image + bytes(4096))
    with Environment.open(path) as environment:
        assert environment.verify() != []
        environment.compact()
        assert environment.verify() == []
        assert read_contents(environment) == contents


def test_a_store_that_lacks_records_is_not_replaced(path: Path) -> None:
    contents = make_wasteful_store(path)
    with Environment.open(path) as environment, environment.snapshot() as snapshot:
        table = snapshot.get_table_statistics()["a"]
    # How LMDB describes a table in the record that names it.
    described = ("depth", "branch_pages", "leaf_pages", "overflow_pages", "entries")
    old_counts, new_counts = (
        struct.pack("<HQQQQ", *(table[name] for name in described[:-1]), table["entries"] + n) for n in (0, 1)
    )
    image = (path / "data.mdb").read_bytes()
    assert old_counts in image
    (path / "data.mdb").write_bytes(image.replace(old_counts, new_counts))
    with Environment.open(path) as environment:
        with pytest.raises(CorruptionError, match="only 20 of the 21 records in table a .* nothing was changed"):
            environment.compact()
        assert read_contents(environment) == contents
    assert list_names(path) == FILES
    assert measure_size(path) == len(image)


def test_a_write_that_begins_while_another_thread_compacts_succeeds(
    make_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    store.put("a", "Tea comes from China.")
    compacting = threading.Thread(target=store.compact)
    get_file_identity = open_file.get_file_identity

    def compact_meanwhile(path: Path) -> object:
        identity = get_file_identity(path)
        if not compacting.ident:
            compacting.start()
            compacting.join(0.5)
        return identity

    monkeypatch.setattr(open_file, "get_file_identity", compact_meanwhile)
    assert store.put("b", "Tea grows in India.")
    compacting.join()
    assert store.keys() == ["a", "b"]
