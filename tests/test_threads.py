"""One store shared by threads: whose a transaction is, how it ends, and what is counted meanwhile."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from other_process import read_line, start_python

import kvstore
from kvstore import errors
from kvstore.models import language
from kvstore.models.hashing import HashingEmbedder
from kvstore.models.language import LanguagePipeline
from kvstore.storage.change_buffer import ChangeBuffer
from kvstore.storage.locks import WriterLock

TEXT = "Robert Fortune brought tea plants from China to Darjeeling."

REAL_LOAD = language._load_pipeline


@pytest.fixture
def run_in_thread() -> Iterator[Callable[..., Any]]:
    """Yield a function that runs a function in another thread of the test and returns its result."""
    with ThreadPoolExecutor(1, "other") as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


# Counts


def test_hits_are_counted_once_whatever_threads_commit(store: kvstore.Store) -> None:
    store.put("tea", TEXT)
    rounds, readers, writers = 150, 3, 3
    failed: list[BaseException] = []

    def look_up() -> None:
        for _ in range(rounds):
            store.lookup("Robert Fortune")

    def put_edges(number: int) -> None:
        for again in range(rounds // 6):
            store.put_edge(f"Leaf {number} {again}", "Tree")

    def run_and_record(function: Callable[..., None], *arguments: int) -> None:
        try:
            function(*arguments)
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run_and_record, args=(look_up,)) for _ in range(readers)]
        threads += [threading.Thread(target=run_and_record, args=(put_edges, number)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failed == []
    store.flush()
    assert store.lookup("Robert Fortune")[0].temperature == rounds * readers


def test_a_buffer_can_be_read_while_it_is_copied() -> None:
    buffers = [ChangeBuffer()]
    buffers[0].get_table("names").add({b"%06d" % number: b"" for number in range(4000)})
    failed: list[BaseException] = []

    def read(reader: int) -> None:
        try:
            for number in range(4000):
                if failed or len(buffers) > 400:
                    return
                buffers[-1].get_table(f"empty {reader} {number}")
                list(buffers[-1].get_table("names").iter_keys(b"x"))
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(3)]
    try:
        for thread in threads:
            thread.start()
        for number in range(400):
            buffer = buffers[-1].copy()
            table = buffer.get_table("names")
            table.add({b"y%06d" % number: b""})
            assert sum(1 for _ in table.iter_keys(b"y")) == number + 1
            buffers.append(buffer)
    finally:
        buffers += buffers[-1:] * 400
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert failed == []


def test_the_next_commit_merges_the_rest_after_a_failed_commit(store: kvstore.Store) -> None:
    store.put("tea", TEXT)
    store.lookup("Robert Fortune")
    with (
        mock.patch(
            "kvstore.storage.write_transaction.WriteTransaction.commit", side_effect=errors.StoreFullError("full")
        ),
        pytest.raises(errors.StoreFullError),
    ):
        store.put("more", "More of it.")
    store.lookup("Robert Fortune")
    with store.transaction() as transaction:
        transaction.keys()  # commits nothing
    store.put("more", "More of it.")
    assert store.lookup("Robert Fortune")[0].temperature == 2


def test_a_failed_flush_does_not_keep_a_store_open(
    make_store: Callable[..., kvstore.Store], caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store()
    store.put("tea", TEXT)
    store.lookup("Robert Fortune")
    with mock.patch("kvstore.changes.changes.Changes.finish", side_effect=OverflowError("too large")):
        with pytest.raises(OverflowError):
            store.flush()
        with caplog.at_level(logging.WARNING, "kvstore"):
            store.close()
    assert "too large" in caplog.text
    assert store.closed
    assert make_store().keys() == ["tea"]


# Whose a transaction is


def test_another_thread_cannot_end_a_transaction(store: kvstore.Store, run_in_thread: Callable[..., Any]) -> None:
    transaction = store.transaction()
    transaction.put("tea", TEXT)
    for method in (transaction.commit, transaction.rollback, transaction.keys, lambda: transaction.delete("tea")):
        with pytest.raises(errors.TransactionError, match="MainThread"):
            run_in_thread(method)
    assert transaction.open
    transaction.commit()
    assert store.keys() == ["tea"]
    run_in_thread(transaction.rollback)  # does nothing, in any thread, when it is over
    with pytest.raises(errors.ClosedError, match="ended"):
        run_in_thread(transaction.commit)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_another_thread_cannot_end_a_transaction_of_begin(
    store: kvstore.Store, run_in_thread: Callable[..., Any], end: str
) -> None:
    store.execute("BEGIN; INSERT DOCUMENT 'tea' TEXT 'Tea is made of leaves.'")
    with pytest.raises(errors.TransactionError, match="only thread 'MainThread', which opened one"):
        run_in_thread(store.execute, end)
    assert store.in_transaction
    assert not run_in_thread(lambda: store.in_transaction)
    store.execute("COMMIT")
    assert store.keys() == ["tea"]
    with pytest.raises(errors.TransactionError, match="no transaction is open"):
        run_in_thread(store.execute, end)


def test_others_read_the_last_commit_while_one_has_begun(
    store: kvstore.Store, run_in_thread: Callable[..., Any]
) -> None:
    store.put("tea", TEXT)
    store.execute("BEGIN; DELETE DOCUMENT 'tea'")
    for statement in (
        "SELECT count(*) FROM documents",
        "LOOKUP 'Robert Fortune'",
        "SEARCH 'tea plants' USING lexical",
        "RETRIEVE 'Who brought tea?'",
        "ASK 'Who brought tea?'",
        "SHOW STATS",
        "DESCRIBE DOCUMENT 'tea'",
        "EXPLAIN ANALYZE SELECT key FROM documents",
    ):
        assert run_in_thread(lambda: store.execute(statement).fetchall()), statement  # noqa: B023
    assert run_in_thread(store.keys) == ["tea"]
    assert store.execute("SELECT count(*) FROM documents").fetchall() == [(0,)]
    with pytest.raises(errors.LockTimeoutError, match="MainThread"):
        run_in_thread(lambda: store.transaction(timeout=0))
    store.execute("ROLLBACK")
    assert run_in_thread(store.execute, "DELETE DOCUMENT 'tea'").rowcount == 1


def test_a_thread_that_ends_rolls_back_its_transaction(store: kvstore.Store) -> None:
    thread = threading.Thread(target=store.execute, args=("BEGIN; INSERT DOCUMENT 'tea' TEXT 'Tea.'",))
    thread.start()
    thread.join()
    with store.transaction(timeout=0) as transaction:
        assert transaction.keys() == []


# How it ends


def test_a_dropped_transaction_is_rolled_back_at_once(store: kvstore.Store) -> None:
    gc.disable()
    try:
        transaction = store.transaction()
        transaction.put("tea", TEXT)
        transaction.lookup("Robert Fortune")
        del transaction
        with store.transaction(timeout=0) as another:
            assert another.keys() == []
        store.transaction().put("tea", TEXT)
        assert store.put("coffee", "Coffee is roasted.")
    finally:
        gc.enable()
    assert store.keys() == ["coffee"]


def test_a_transaction_may_be_dropped_by_another_thread(
    store: kvstore.Store, run_in_thread: Callable[..., Any]
) -> None:
    transactions = [run_in_thread(store.transaction)]
    assert run_in_thread(lambda: transactions[0].put("tea", TEXT))
    transactions.clear()
    with store.transaction(timeout=0) as transaction:
        assert transaction.keys() == []
    transactions = [store.transaction()]
    run_in_thread(transactions.clear)
    assert run_in_thread(store.put, "coffee", "Coffee is roasted.")


def test_a_transaction_that_cannot_begin_lets_the_lock_go(store: kvstore.Store) -> None:
    with (
        mock.patch("kvstore.database.batched_changes.Changes", side_effect=errors.CorruptionError("damaged")),
        pytest.raises(errors.CorruptionError) as caught,
    ):
        store.transaction()
    assert store.transaction(timeout=0).keys() == []
    del caught


def test_close_rolls_back_the_open_transaction(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(lock_timeout=600.0)
    transaction = store.transaction()
    transaction.put("tea", TEXT)
    store.close()
    with pytest.raises(errors.ClosedError, match="store was closed"):
        transaction.commit()
    transaction.rollback()
    store = make_store()
    with pytest.raises(errors.ClosedError, match="store was closed"), store.transaction() as transaction:
        transaction.put("tea", TEXT)
        store.close()
    assert make_store().keys() == []


def test_close_rolls_back_the_transaction_of_another_thread(
    make_store: Callable[..., kvstore.Store], run_in_thread: Callable[..., Any]
) -> None:
    store = make_store(lock_timeout=600.0)
    transaction = run_in_thread(store.transaction)
    run_in_thread(lambda: transaction.put("tea", TEXT))
    store.close()
    with pytest.raises(errors.ClosedError, match="store was closed"):
        run_in_thread(transaction.commit)
    store = make_store(lock_timeout=600.0)
    run_in_thread(store.execute, "BEGIN; INSERT DOCUMENT 'tea' TEXT 'Tea.'")
    store.close()
    with pytest.raises(errors.KvstoreError):
        run_in_thread(store.execute, "COMMIT")
    assert make_store().put("tea", TEXT)


def test_close_does_not_interrupt_a_method(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(lock_timeout=0.05)
    at_work, go_on = threading.Event(), threading.Event()

    def embed(texts: list[str]) -> Any:
        at_work.set()
        assert go_on.wait(60)
        return HashingEmbedder(256).embed(texts)

    def put_document() -> None:
        with store.transaction() as transaction:
            transaction.put("tea", TEXT)
            transaction.keys()

    with mock.patch.object(store._session.store.embedder, "embed", embed):
        thread = threading.Thread(target=put_document, name="worker")
        thread.start()
        assert at_work.wait(60)
        with pytest.raises(errors.TransactionError, match="'worker' is executing a method"):
            store.close()
        assert not store.closed
        go_on.set()
        thread.join()
    assert store.keys() == ["tea"]


def test_any_thread_may_drop_an_unfinished_dump_of_a_transaction(
    make_store: Callable[..., kvstore.Store], recwarn: pytest.WarningsRecorder
) -> None:
    store = make_store(lock_timeout=0.05)
    transaction = store.transaction()
    transaction.put("tea", TEXT)
    dumps = [transaction.dump()]
    next(dumps[0])
    closing_errors = []

    def close_store() -> None:
        try:
            store.close()
        except errors.TransactionError as error:
            closing_errors.append(str(error))

    for function in (close_store, dumps.clear):
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()
    assert len(closing_errors) == 1 and "has not finished its dump()" in closing_errors[0]
    assert not recwarn.list  # an error in the end of the dump would be one
    transaction.commit()
    assert store.keys() == ["tea"]


def test_an_error_that_ended_a_transaction_is_not_passed_over(store: kvstore.Store) -> None:
    with pytest.raises(errors.ClosedError, match="no room"), store.transaction() as transaction:
        transaction.put("tea", TEXT)
        with (
            mock.patch("kvstore.changes.changes.Changes.apply", side_effect=errors.StoreFullError("no room")),
            pytest.raises(errors.StoreFullError),
        ):
            transaction.keys()
    assert store.keys() == []


def test_a_child_process_drops_the_transaction_of_its_parent(store: kvstore.Store) -> None:
    transaction = store.transaction()
    transaction.put("tea", TEXT)
    child = os.fork()
    if child == 0:
        try:
            del transaction
            gc.collect()
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    transaction.commit()
    assert store.keys() == ["tea"]


def test_a_child_process_opens_a_store_that_a_thread_of_its_parent_was_reading(store: kvstore.Store) -> None:
    store.put("tea", TEXT)
    reading, stop = threading.Event(), threading.Event()

    def hold_reader(environment: Any) -> None:
        with environment.begin() as transaction:  # as during a query: the frame holds LMDB's own objects
            reading.set()
            stop.wait(60)
            assert transaction.stat()["entries"]

    thread = threading.Thread(target=hold_reader, args=[store._session.environment.data.environment])
    thread.start()
    reading.wait(60)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with kvstore.open(store.path) as own:
                own.put("milk", "Milk is white.")
                grandchild = os.fork()
                if grandchild == 0:
                    with kvstore.open(store.path) as its_own:
                        os._exit(0 if its_own.keys() == ["milk", "tea"] else 1)
                status = os.waitpid(grandchild, 0)[1] and 1
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    stop.set()
    thread.join()
    assert status == 0
    assert store.keys() == ["milk", "tea"]


def test_a_fork_does_not_wait_for_operations_of_other_threads(store: kvstore.Store) -> None:
    """LMDB's binding waits for them before it ends a transaction, and they never end in the child."""
    for number in range(20):
        store.put(f"tea {number}", TEXT)
    reading, writing = os.pipe()
    copy = store._session.environment.data.environment.copyfd  # ends when all of the file was read from the pipe
    thread = threading.Thread(target=copy, args=[writing])
    thread.start()
    os.read(reading, 1)
    transaction = store.transaction()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with kvstore.open(store.path) as own:
                status = len(own) - 20
        finally:
            os._exit(status)
    deadline = time.monotonic() + 10
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.set_blocking(reading, False)
    while thread.is_alive():
        with suppress(BlockingIOError):
            os.read(reading, 1 << 20)
        thread.join(0.01)
    transaction.rollback()
    assert ended == (child, 0)
    os.close(reading)
    os.close(writing)


# Models


@pytest.mark.slow
def test_models_are_loaded_before_the_lock_is_taken(make_store: Callable[..., kvstore.Store], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "tea.txt").write_text(TEXT)
    source = make_store("source")
    source.put("tea", TEXT)
    source.export(tmp_path / "all.jsonl")
    puts: list[Callable[[kvstore.Store], Any]] = [
        lambda store: store.put("tea", TEXT),
        lambda store: store.transaction().put("tea", TEXT),
        lambda store: store.ingest(str(tmp_path / "in"), workers=0),
        lambda store: store.import_(tmp_path / "all.jsonl"),
        lambda store: store.execute("INSERT DOCUMENT 'tea' TEXT 'Robert Fortune brought tea.'"),
        lambda store: store.execute("BEGIN; INSERT DOCUMENT 'tea' TEXT 'Robert Fortune brought tea.'; COMMIT"),
    ]
    for number, put in enumerate(puts):
        loaded: list[str] = []
        pipeline = LanguagePipeline("en")
        embedder = LoadedEmbedder(loaded)
        with kvstore.open(tmp_path / f"store {number}", embedder=embedder) as store:
            lock = store._session.environment._writer_lock
            embedder.is_lock_held = lambda lock=lock: lock._holder is not None

            def record_load(name: str, lock: WriterLock = lock, loaded: list[str] = loaded) -> Any:
                assert lock._holder is None, "the pipeline is loaded while the lock is held"
                loaded.append("pipeline")
                return REAL_LOAD(name)

            with (
                mock.patch("kvstore.models.language.open_language", lambda name, pipeline=pipeline: pipeline),
                mock.patch("kvstore.extraction.extraction.open_language", lambda name, pipeline=pipeline: pipeline),
                mock.patch("kvstore.models.language._load_pipeline", record_load),
            ):
                put(store)
        assert loaded[:2] in (["pipeline", "embedder"], ["embedder", "pipeline"]), number


class LoadedEmbedder(HashingEmbedder):
    """An embedder that must be loaded and records its loading."""

    def __init__(self, loaded: list[str]) -> None:
        super().__init__(256)
        self._loaded = loaded
        self.is_lock_held: Callable[[], bool] = lambda: False

    def load(self) -> None:
        if "embedder" not in self._loaded:
            assert not self.is_lock_held(), "the embedder is loaded while the lock is held"
            self._loaded.append("embedder")

    def embed(self, texts: Any) -> Any:
        self.load()
        return super().embed(texts)


def test_a_transaction_without_derivation_loads_nothing(
    make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    store = make_store()
    store.put("tea", TEXT)
    store.export(tmp_path / "export.jsonl")
    (tmp_path / "tea.md").write_text(TEXT, encoding="utf-8")
    with mock.patch.object(store._session.store, "load_models", side_effect=AssertionError("loaded")):
        store.put("tea", TEXT)
        store.put_edge("Assam", "India")
        store.execute("ALIAS 'Bharat' FOR 'India'")
        store.execute("DELETE DOCUMENT 'tea'")
        store.import_(tmp_path / "export.jsonl")
        store.ingest(tmp_path / "tea.md", workers=1)  # its worker has the models
    assert store.keys() == ["tea", "tea.md"]


# All of it at once


FIRST_USE = """
import sys, threading, kvstore
store = kvstore.open(path)
calls = [
    lambda: store.put("tea", "Robert Fortune brought tea plants from China to Darjeeling."),
    lambda: store.delete("coffee"),
    lambda: store.execute("SELECT count(*) FROM documents").fetchall(),
    lambda: store.search("tea"),
    lambda: store.ask("Who brought tea plants?"),
    lambda: store.execute("RETRIEVE 'tea' USING hipporag").fetchall(),
    lambda: store.ingest(sys.argv[2]),
    lambda: store.check(),
]
errors, barrier = [], threading.Barrier(16)
def run(index):
    barrier.wait()
    try:
        calls[index % len(calls)]()
    except Exception as error:
        errors.append(repr(error))
threads = [threading.Thread(target=run, args=(index,)) for index in range(16)]
sys.setswitchinterval(1e-5)  # so that threads alternate within an import
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(errors)
store.close()
"""


def test_the_first_calls_of_a_process_can_come_from_many_threads(
    make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    # A module that another thread is still importing must not be used, and no finder of modules must be skipped.
    make_store().close()
    (tmp_path / "note.html").write_text("<p>Dan lives in Oslo.</p>")
    for _ in range(2):
        with start_python(FIRST_USE, tmp_path / "store", tmp_path / "note.html") as process:
            assert read_line(process) == "[]"


@pytest.mark.slow
@pytest.mark.long
def test_sixteen_threads_use_one_store_for_a_minute(tmp_path: Path) -> None:
    store = kvstore.open(tmp_path / "store", embedder="hashing:32", settings={"language": "rules"}, lock_timeout=0.2)
    until = time.monotonic() + 60
    failed: list[str] = []
    done: list[str] = []
    documented = (errors.LockTimeoutError, errors.TransactionError, errors.DocumentNotFoundError)

    def act_repeatedly(number: int) -> None:
        chance = random.Random(number)
        while time.monotonic() < until and not failed:
            name, act = chance.choice(acts)
            try:
                act(store, chance, tmp_path)
                done.append(name)
            except documented:
                pass
            except BaseException as error:
                failed.append(f"{name}: {error!r}")

    acts = sorted(ACTS.items())
    threads = [threading.Thread(target=act_repeatedly, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert set(done) == set(ACTS), "each has succeeded at least once"
    assert store.check() == []
    assert store.lookup("Kelloe")[0].temperature >= 0
    store.close()
    assert store.closed


def make_key(chance: random.Random) -> str:
    return f"document {chance.randrange(30)}"


def make_text(chance: random.Random) -> str:
    names = ["Robert Fortune", "Ada Lovelace", "Darjeeling", "the Analytical Engine", "Kelloe"]
    return " ".join(f"{chance.choice(names)} met {chance.choice(names)}." for _ in range(chance.randrange(1, 12)))


def execute_transaction(store: kvstore.Store, chance: random.Random, folder: Path) -> None:
    store.execute("BEGIN")
    try:
        store.execute("INSERT DOCUMENT ? TEXT ?", (f"begun {chance.random()}", make_text(chance)))
        store.execute("SELECT count(*) FROM documents").fetchall()
    finally:
        store.execute(chance.choice(["COMMIT", "ROLLBACK"]))


def put_and_delete(store: kvstore.Store, chance: random.Random, folder: Path) -> None:
    with store.transaction() as transaction:
        transaction.put(make_key(chance), make_text(chance), title=chance.choice([None, "Ada Lovelace"]))
        transaction.delete(make_key(chance))
        transaction.lookup("Darjeeling")
        if chance.random() < 0.2:
            transaction.rollback()


def put_triples(store: kvstore.Store, chance: random.Random, folder: Path) -> None:
    for key in store.keys(limit=1):
        with suppress(errors.DocumentNotFoundError):  # another thread has deleted it
            store.put_triples(key, [("Robert Fortune", "visited", "Kelloe")])


def export_store(store: kvstore.Store, chance: random.Random, folder: Path) -> None:
    path = folder / f"{chance.random()}.jsonl"
    store.export(path)
    if chance.random() < 0.2:
        with suppress(errors.InputError):  # triples of a document that another thread has deleted meanwhile
            store.import_(path)
    path.unlink()


def copy_store(store: kvstore.Store, chance: random.Random, folder: Path) -> None:
    store.backup(folder / f"copy {chance.random()}")


def lose_handle(store: kvstore.Store, chance: random.Random, folder: Path) -> None:
    transaction = store.transaction(timeout=0.05)
    transaction.put(make_key(chance), make_text(chance))


#: What the threads do; every method of a store and the statements of a transaction.
ACTS: dict[str, Callable[[kvstore.Store, random.Random, Path], Any]] = {
    "put": lambda s, r, f: s.put(make_key(r), make_text(r)),
    "put with a title": lambda s, r, f: s.put(make_key(r), make_text(r), title="Kelloe", meta={"n": r.random()}),
    "update": lambda s, r, f: [s.update(key, title=f"T{r.random()}") for key in s.keys("begun", 1)],
    "delete": lambda s, r, f: s.delete(make_key(r)),
    "delete where": lambda s, r, f: s.delete_where("key LIKE ?", (f"begun 0.{r.randrange(100):02}%",)),
    "edges": lambda s, r, f: (s.put_edge("Darjeeling", "India"), s.delete_edge("Darjeeling", "India")),
    "triples": put_triples,
    "begin": execute_transaction,
    "several": put_and_delete,
    "lost": lose_handle,
    "get": lambda s, r, f: s.get(make_key(r)),
    "keys": lambda s, r, f: (s.keys(), s.names("r"), s.aliases(), s.indexes()),
    "lookup": lambda s, r, f: s.lookup("Robert Fortune", "Kelloe"),
    "expand": lambda s, r, f: s.execute("SELECT name FROM entities LIMIT 3").fetchall(),
    "search": lambda s, r, f: s.search("Who met Ada?", using=r.choice(["lexical", "vector", "hybrid"])),
    "retrieve": lambda s, r, f: s.retrieve("Whom did Ada Lovelace meet?"),
    "ask": lambda s, r, f: s.ask("Whom did Robert Fortune meet?"),
    "explain": lambda s, r, f: s.explain("RETRIEVE 'Who met Ada?'", analyze=True),
    "select": lambda s, r, f: s.execute("SELECT key, chunks FROM documents ORDER BY key").fetchall(),
    "statistics": lambda s, r, f: (s.statistics(), s.settings_table(), s.set("top", r.randrange(1, 9))),
    "snapshot": lambda s, r, f: [(snapshot.keys(), snapshot.close()) for snapshot in [s.snapshot()]],
    "flush": lambda s, r, f: s.flush(),
    "check": lambda s, r, f: s.check(),
    "export": export_store,
    "backup": copy_store,
    "compact": lambda s, r, f: s.compact() if r.random() < 0.05 else None,
    "refresh": lambda s, r, f: s.refresh(),
}
