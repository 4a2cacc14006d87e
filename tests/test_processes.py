"""Several processes on one store: readers see whole commits, and a second writer waits or gets the holder's name."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from other_process import read_line, send_line, start_python

import kvstore
from kvstore import errors
from kvstore.storage.change_buffer import MAX_SEGMENTS

SPAWN = multiprocessing.get_context("spawn")
DOCUMENTS = 5
MAKING: dict[str, Any] = {"embedder": "hashing:32", "settings": {"language": "rules"}}


def _make_text(generation: int) -> str:
    return f"This is generation {generation} at Port Ellen. " + f"Here stands mark{generation} alone. " * 40


def _write_generations(path: str, stop_after: int) -> None:
    with kvstore.open(path) as store:
        for generation in range(1, stop_after + 1):
            with store.transaction() as transaction:
                for number in range(DOCUMENTS):
                    transaction.put(f"d{number}", _make_text(generation), title=f"Port Ellen {generation}")


def _read_generations(
    path: str, finished: multiprocessing.synchronize.Event, faults: multiprocessing.queues.Queue[str]
) -> None:
    generations_read = set()
    with kvstore.open(path, readonly=True) as store:
        while not finished.is_set() or not generations_read:
            with store.snapshot() as snapshot:
                texts = {snapshot.get(f"d{number}").text.split()[3] for number in range(DOCUMENTS)}  # type: ignore[union-attr]
                hit_marks = {
                    re.search(r"mark(\d+)", hit.text)[1]  # type: ignore[index]
                    for hit in snapshot.search("Port Ellen", using="vector", top=50)
                }
                documents = {row.document for row in snapshot.lookup("Port Ellen", limit=50)}
                generations = {name.rsplit(" ", 1)[1] for name in snapshot.names("Port Ellen")} - {"Ellen"}
                if len(texts) != 1 or len(documents) != DOCUMENTS or generations != texts or hit_marks != texts:
                    faults.put(f"{texts} {documents} {generations} {hit_marks}")
                    return
                generations_read |= texts
    if len(generations_read) < 2:
        faults.put(f"only {generations_read} was seen")


@pytest.mark.slow
def test_readers_in_other_processes_see_complete_generations(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with kvstore.open(path, **MAKING) as store, store.transaction() as transaction:
        for number in range(DOCUMENTS):
            transaction.put(f"d{number}", _make_text(0), title="Port Ellen 0")
    finished = SPAWN.Event()
    faults = SPAWN.Queue()
    readers = [SPAWN.Process(target=_read_generations, args=(path, finished, faults)) for _ in range(2)]
    for reader in readers:
        reader.start()
    time.sleep(1)
    writer = SPAWN.Process(target=_write_generations, args=(path, 40))
    writer.start()
    writer.join(60)
    time.sleep(0.3)
    finished.set()
    for process in readers:
        process.join(30)
    assert writer.exitcode == 0
    assert [reader.exitcode for reader in readers] == [0, 0]
    assert faults.empty(), faults.get()
    with kvstore.open(path) as store:
        assert store.check() == []


_PUTS = """
import kvstore
with kvstore.open(path) as store:
    for line in sys.stdin:
        number = line.strip()
        store.put(f"other {number}", f"Captain Reid{number} met Port Ellen{number} at the pier of Ardbeg.")
        print(number, flush=True)
"""


def test_writers_that_take_turns_see_each_others_names(tmp_path: Path) -> None:
    """Caches of a process from its last commit are invalid after a commit of another process."""
    path = tmp_path / "s"
    with (
        kvstore.open(path, **MAKING) as store,
        start_python(_PUTS, path) as second_process,
    ):
        for number in range(12):
            store.put(f"own {number}", f"Doctor Silva{number} met Captain Reid{number} at the pier of Ardbeg.")
            if number % 3:
                send_line(second_process, str(number))
                read_line(second_process)
            if number % 4 == 1:
                with store.transaction() as transaction:
                    transaction.put("gone", f"Lady Brown{number} met nobody at Ardbeg.")
                    transaction.rollback()
            if number % 4 == 2:
                store.delete(f"own {number - 1}")
                assert store.check() == []
        assert not store.names("Lady Brown")
        assert len({row.document for row in store.lookup("Ardbeg", limit=50)}) == 12 - 3 + 8
        assert {row.document for row in store.lookup("Port Ellen7", limit=9)} == {"other 7"}
        assert store.check() == []


STATEMENTS = {
    "search": "SEARCH 'generation at Port Ellen' USING vector TOP 40",
    "words": "SEARCH 'generation' USING lexical TOP 40",
    "bridge": "RETRIEVE 'What is at Port Ellen?' USING bridge TOP 40",
    "default": "RETRIEVE 'What is at Port Ellen?' TOP 40",
    "lookup": "LOOKUP 'Port Ellen' LIMIT 100",
    "chunks": "SELECT text FROM chunks",
    "joined": "SELECT c.text, d.title FROM chunks c JOIN documents d ON d.key = c.document",
    "ask": "ASK 'Which generation is at Port Ellen?'",
}


def _find_generations(cursor: kvstore.Cursor) -> set[str]:
    return set(re.findall(r"(?:mark|generation |Port Ellen )(\d+)", repr(cursor.fetchall())))


def _read_statements(path: str, number: int, seconds: float, faults: multiprocessing.queues.Queue[str]) -> None:
    """Execute every kind of statement for some seconds; each must see one generation, never an older one again."""
    generations: list[int] = []
    count = 0
    with kvstore.open(path, readonly=True) as store:
        end = time.monotonic() + seconds
        while time.monotonic() < end or (len(set(generations)) < 2 and time.monotonic() < end + 60):
            for kind, statement in STATEMENTS.items():
                current = _find_generations(store.execute(statement))
                if len(current) != 1 or (generations and int(min(current)) < generations[-1]):
                    faults.put(f"reader {number}, {kind}: generations {current} after {generations[-1:]}")
                    return
                generations.append(int(min(current)))
                count += 1
    if len(set(generations)) < 2 or count < len(STATEMENTS):
        faults.put(f"reader {number} saw {len(set(generations))} generations in {count} statements")


def _replace_documents(path: str, finished: multiprocessing.synchronize.Event) -> None:
    generation = 0
    with kvstore.open(path) as store:
        while not finished.is_set():
            generation += 1
            with store.transaction() as transaction:
                for number in range(DOCUMENTS):
                    transaction.put(f"d{number}", _make_text(generation), title=f"Port Ellen {generation}")


def _die_while_reading(path: str) -> None:
    store = kvstore.open(path, readonly=True)
    store.execute("SELECT text FROM chunks").fetchone()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.long
def test_no_statement_of_four_readers_sees_two_generations(tmp_path: Path) -> None:
    """While one process replaces all documents again and again, and readers die in the middle of a statement."""
    seconds = 30
    path = str(tmp_path / "s")
    with kvstore.open(path, **MAKING) as store, store.transaction() as transaction:
        for number in range(DOCUMENTS):
            transaction.put(f"d{number}", _make_text(0), title="Port Ellen 0")
    faults = SPAWN.Queue()
    finished = SPAWN.Event()
    readers = [SPAWN.Process(target=_read_statements, args=(path, n, seconds, faults)) for n in range(4)]
    writer = SPAWN.Process(target=_replace_documents, args=(path, finished))
    for process in (writer, *readers):
        process.start()
    for _ in range(3):
        dying = SPAWN.Process(target=_die_while_reading, args=(path,))
        dying.start()
        dying.join(60)
        assert dying.exitcode == -signal.SIGKILL
    for process in readers:
        process.join(seconds + 120)
    finished.set()
    writer.join(60)
    assert faults.empty(), faults.get()
    assert [process.exitcode for process in (writer, *readers)] == [0] * 5
    with kvstore.open(path) as store:
        assert store.check() == []
        # Snapshots of the dead would keep every page that was replaced since: the space is used again instead.
        sizes = []
        for generation in range(2 * MAX_SEGMENTS):
            with store.transaction() as transaction:
                for number in range(DOCUMENTS):
                    transaction.put(f"d{number}", _make_text(generation), title=f"Port Ellen {generation}")
            sizes.append(store.statistics()["file_bytes"])
        assert max(sizes[MAX_SEGMENTS:]) < 1.25 * max(sizes[:MAX_SEGMENTS])


def _hold_lock(
    path: str, acquired: multiprocessing.synchronize.Event, release: multiprocessing.synchronize.Event
) -> None:
    with kvstore.open(path) as store, store.transaction() as transaction:
        transaction.put("held", "Held for a while.")
        acquired.set()
        release.wait(30)


def test_a_second_writer_gets_the_holder_or_waits(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    kvstore.open(path, **MAKING).close()
    acquired, release = SPAWN.Event(), SPAWN.Event()
    holder = SPAWN.Process(target=_hold_lock, args=(path, acquired, release))
    holder.start()
    assert acquired.wait(30)
    with kvstore.open(path, lock_timeout=0.2) as store:
        with pytest.raises(errors.LockTimeoutError, match=str(holder.pid)):
            store.put("mine", "Mine too.")
        assert store.keys() == [], "reading goes on"
        threading.Timer(0.3, release.set).start()
        with store.transaction(timeout=20) as transaction:
            transaction.put("mine", "Mine too.")
        assert store.keys() == ["held", "mine"]
        assert store.check() == []
    holder.join(10)


def test_threads_share_a_store(store: kvstore.Store) -> None:
    store.put("tea", "Robert Fortune brought tea to Darjeeling.", title="Tea")
    failures: list[BaseException] = []

    def read_store() -> None:
        try:
            for _ in range(60):
                assert store.lookup("Robert Fortune")
                assert store.ask("Who brought tea to Darjeeling?").citations
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read_store) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        store.put(f"other-{number}", f"Other text number {number} of Kirkwall.")
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("point", ["before the format", "before the settings"])
def test_a_reader_waits_while_another_process_creates_the_store(tmp_path: Path, point: str) -> None:
    code = f"""
import kvstore, kvstore_migrations
migrate = kvstore_migrations.migrate
def migrate_slowly(environment):
    if {point == "before the settings"}:
        migrate(environment)
    print("creating", flush=True)
    sys.stdin.readline()
    if {point == "before the format"}:
        migrate(environment)
kvstore_migrations.migrate = migrate_slowly
with kvstore.open(path, embedder="hashing:32", settings={{"language": "rules"}}) as store:
    store.put("tea", "Tea is made from leaves.")
"""
    with start_python(code, tmp_path / "store") as creator:
        assert read_line(creator) == "creating"
        with pytest.raises(errors.NotAStoreError, match="still creating it, .* try again later"):
            kvstore.open(tmp_path / "store", readonly=True, lock_timeout=0.2)
        timer = threading.Timer(0.5, send_line, [creator])
        timer.start()
        with kvstore.open(tmp_path / "store", readonly=True, lock_timeout=30) as store:
            timer.join()
            creator.wait(timeout=60)
            assert store.keys() == ["tea"]
