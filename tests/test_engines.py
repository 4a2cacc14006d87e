"""Engines of an ingest: what comes of it is the same wherever workers run, and losing one costs nothing."""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_bulk_ingest import dump_store, replace_pdf_reader

import kvstore
from kvstore import errors
from kvstore.ingest.engines import Engine, WorkerHandle, WorkerTask
from kvstore.ingest.engines.processes import ProcessEngine
from kvstore.ingest.engines.ray import RayEngine
from kvstore.ingest.sources import Source, check_source
from kvstore.ingest.transport import frame_message
from kvstore.ingest.worker import Job, Limits
from kvstore.ingest.worker_pool import WorkerPool

MakeStore = Callable[..., kvstore.Store]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "harbours"
    (root / "more").mkdir(parents=True)
    for number in range(60):
        name = f"more/{number:02}.md" if number % 2 else f"{number:02}.md"
        (root / name).write_text(f"# Pier {number}\n\nPort Ellen built Pier {number} for Captain Reid.\n")
    rows = [{"id": f"row-{number}", "text": f"Captain Reid wrote letter {number}."} for number in range(100)]
    (root / "30.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (root / ".hidden.md").write_text("Nobody reads this.")
    (root / "empty.txt").write_text("")
    return root


# Names and addresses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "threads", "ray", "ray://", "ray://host", "ray://local/x", "http://local:1"])
def test_an_invalid_engine_is_refused_before_anything_is_read(store: kvstore.Store, folder: Path, name: str) -> None:
    with pytest.raises(errors.InputError, match="the engine must be processes, ray://local or ray://HOST:PORT"):
        store.ingest(folder, engine=name)
    with pytest.raises(errors.InputError, match="1 to 64, not 0"):
        store.ingest(folder, engine="ray://local", workers=0)
    assert store.keys() == []


def test_without_the_extra_an_error_names_it(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(errors.EngineError, match=r"kvstore-db\[ray\]"):
        store.execute(f"INGEST '{folder}' WITH (engine = 'ray://local')")
    report = store.ingest(f"file://{folder}")
    assert "kvstore-db[remote]" in report.failures[0].reason


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_addresses_are_read_through_fsspec(
    make_store: MakeStore, store: kvstore.Store, folder: Path, workers: int
) -> None:
    pytest.importorskip("fsspec")
    address = f"file://{folder}"
    report = store.ingest(address, workers=workers)
    assert (report.added, report.skipped_by, report.failures) == (160, {"empty": 1}, [])
    document = store.get("more/01.md")
    assert document is not None
    assert document.source == f"{address}/more/01.md"
    local_store = make_store("plain")
    local_store.ingest(folder, workers=0)
    texts = "SELECT key, text FROM documents JOIN chunks ON document = key ORDER BY key, ordinal"
    assert store.execute(texts).fetchall() == local_store.execute(texts).fetchall()
    again = store.ingest(address, workers=workers)
    assert (again.known, again.unchanged, again.added) == (61, 160, 0)
    (folder / "00.md").write_text("# Pier 0\n\nCaptain Reid tore it down.")
    (folder / "more" / "01.md").unlink()
    (folder / "empty.txt").write_text("Not any more.")
    report = store.ingest(address, workers=workers, prune=True)
    assert (report.added, report.changed, report.removed, report.failures) == (1, 1, 1, [])
    assert store.ingest(f"{address}/**/0*.md").unchanged == 9
    assert store.ingest(f"{address}/30.jsonl").unchanged == 100
    for wrong in ("file:///no/such", f"{address}/*.none", "nonsense://a/b", "https://example.org/a.html"):
        (failure,) = store.ingest(wrong).failures
        assert failure.place == wrong


def test_a_check_of_an_address_lists_no_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = pytest.importorskip("fsspec.implementations.local")
    monkeypatch.delattr(local.LocalFileSystem, "ls")
    monkeypatch.setattr(local.LocalFileSystem, "find", None)
    for path in ("", "/more", "/30.jsonl", "/more/*.md"):
        check_source(f"file://{folder}{path}")
    for wrong in ("file:///no/such", f"file://{folder}/no/*.md", "nonsense://a/b", "https://example.org/a.html"):
        with pytest.raises(errors.ReaderError):
            check_source(wrong)


def test_an_address_whose_size_is_unknown_is_read(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = pytest.importorskip("fsspec.implementations.local")

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no credentials for metadata")

    monkeypatch.setattr(local.LocalFileSystem, "info", refuse)
    report = store.ingest(f"file://{folder}/30.jsonl")
    assert (report.added, report.failures) == (100, [])


# Remote workers, without Ray ------------------------------------------------------------------------------------------


class _RemoteEngine:
    """An engine whose workers send the messages that a script returns for each task; None ends them."""

    max_failed_starts = 2

    def __init__(self, script: Callable[[WorkerTask], Sequence[object] | None], tries: int = 2) -> None:
        self.workers, self.max_attempts = 1, tries
        self.script = script
        self.content: list[str] = []
        self.tasks: list[list[int]] = []

    def start(self, job: Job, limits: Limits) -> _ScriptedWorker:
        return _ScriptedWorker(self)

    def wait_for_output(self, workers: Sequence[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        return [worker for worker in workers if isinstance(worker, _ScriptedWorker) and worker.messages]

    def start_sending_content(self, source: Source) -> str | None:
        self.content.append(source.key)
        return "too large" if source.key == "large" else None

    def release(self) -> None:
        pass

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _ScriptedWorker:
    def __init__(self, engine: _RemoteEngine) -> None:
        self.engine = engine
        self.messages = [frame_message(("ready",))]

    def assign(self, task: WorkerTask) -> None:
        self.engine.tasks.append([number for number, _, _ in task])
        answer = self.engine.script(task)
        self.messages += [b""] if answer is None else [frame_message(message) for message in answer]

    def read(self) -> bytes | None:
        return self.messages.pop(0)

    def kill(self) -> str:
        return "was lost"


def _run_script(
    script: Callable[[WorkerTask], Sequence[object] | None], keys: Sequence[str]
) -> tuple[list[object], _RemoteEngine]:
    engine = _RemoteEngine(script)
    return _read_sources(engine, keys), engine


def _read_sources(engine: Engine, keys: Sequence[str]) -> list[object]:
    sources = [Source(key, key, None, None, key) for key in keys]
    job = Job("", None, None, {}, None, [])  # type: ignore[arg-type]
    with WorkerPool(job, sources, engine, Limits()) as pool:
        return list(pool.iter_items())


def test_a_file_at_which_a_worker_ends_twice_fails_alone() -> None:
    def script(task: WorkerTask) -> Sequence[object] | None:
        return None if any(source.key == "bad" for _, _, source in task) else [("done", task[0][0])]

    items, engine = _run_script(script, ["a", "bad", "c"])
    assert [item and item.place for item in items] == [None, "bad", None, None]  # type: ignore[attr-defined]
    assert engine.tasks == [[0], [1], [1], [2]]


def test_a_file_is_retried_if_its_worker_was_lost_once() -> None:
    lost: list[bool] = []

    def script(task: WorkerTask) -> Sequence[object] | None:
        if task[0][2].key == "b" and not lost:
            lost.append(True)
            return None
        return [("done", task[0][0])]

    assert _run_script(script, ["a", "b"])[0] == [None, None]


class _QueuedWorker(_ScriptedWorker):
    """A worker that reports a task as done at its next message, in the order of ``task_numbers``."""

    def __init__(self, engine: _RemoteEngine) -> None:
        super().__init__(engine)
        self.task_numbers: list[int] = []

    @property
    def messages(self) -> list[bytes]:
        return self._messages or ([b"done"] if self.task_numbers else [])

    @messages.setter
    def messages(self, messages: list[bytes]) -> None:
        self._messages = messages

    def assign(self, task: WorkerTask) -> None:
        self.task_numbers += [number for number, _, _ in task]

    def read(self) -> bytes | None:
        return self._messages.pop(0) if self._messages else frame_message(("done", self.task_numbers.pop(0)))


class _QueueEngine(_RemoteEngine):
    """An engine with one such worker, of the class ``worker``."""

    def __init__(self, worker: type[_QueuedWorker]) -> None:
        super().__init__(lambda _: None)
        self._worker = worker
        self._waits = 0

    def start(self, job: Job, limits: Limits) -> _ScriptedWorker:
        return self._worker(self)

    def wait_for_output(self, workers: Sequence[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        self._waits += 1
        assert self._waits < 100, "nobody works, and nobody is given work"
        return super().wait_for_output(workers, 0)


def test_a_worker_has_its_next_task_queued_as_long_as_there_are_many() -> None:
    at: list[tuple[int, int]] = []

    class Slow(_QueuedWorker):
        def read(self) -> bytes | None:
            if not self._messages:
                at.append((self.task_numbers[0], len(self.task_numbers)))
            return super().read()

    assert _read_sources(_QueueEngine(Slow), "abcdef") == [None] * 6
    assert at == [(0, 2), (1, 2), (2, 2), (3, 2), (4, 1), (5, 1)]


def test_a_worker_may_get_tasks_in_another_order() -> None:
    """Two messages to an actor may be taken in either order: what was sent last may be done first."""

    class LastFirst(_QueuedWorker):
        def assign(self, task: WorkerTask) -> None:
            self.task_numbers[:0] = [number for number, _, _ in task]

    assert _read_sources(_QueueEngine(LastFirst), "abcdef") == [None] * 6


def test_a_file_that_was_sent_ahead_is_retried_alone() -> None:
    def script(task: WorkerTask) -> Sequence[object] | None:
        return None if any(source.key == "bad" for _, _, source in task) else [("done", task[0][0])]

    items, engine = _run_script(script, ["bad", *"abcdef"])
    assert [item and item.place for item in items] == ["bad", *[None] * 7]  # type: ignore[attr-defined]
    assert engine.tasks.count([0]) <= 3


def test_tasks_become_smaller_towards_the_end() -> None:
    """A worker has enough work during a commit, and no worker has much left when another has none."""
    items, engine = _run_script(lambda task: [("done", number) for number, _, _ in task], [str(n) for n in range(2000)])
    assert items == [None] * 2000
    sizes = [len(task) for task in engine.tasks]
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1], len(sizes) < 40) == (256, 1, True)
    assert [number for task in engine.tasks for number in task] == list(range(2000))


def test_tasks_queued_for_a_worker_that_ends_go_unchanged_to_another() -> None:
    def script(task: WorkerTask) -> Sequence[object] | None:
        bad = any(source.key == "bad" for _, _, source in task)
        return None if bad else [("done", number) for number, _, _ in task]

    items, engine = _run_script(script, ["bad", *(str(n) for n in range(99))])
    assert [item and item.place for item in items] == ["bad", *[None] * 100]  # type: ignore[attr-defined]
    first, ahead = engine.tasks[:2]
    assert len(first) > 1
    assert len(ahead) > 1
    assert engine.tasks.count(ahead) == 2
    assert all(engine.tasks.count([number]) == 1 for number in first[1:])


def test_resources_of_workers_are_released_while_the_last_batch_is_written(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, int]] = []

    def record_release(engine: ProcessEngine) -> None:
        events.append(("begun", len(store.keys())))

    def record_end(engine: ProcessEngine, *_: object) -> None:
        events.append(("waited for", len(store.keys())))

    monkeypatch.setattr(ProcessEngine, "release", record_release)
    monkeypatch.setattr(ProcessEngine, "__exit__", record_end)
    assert store.ingest(folder, workers=1).added == 160
    assert events == [("begun", 0), ("waited for", 160)]


def test_a_file_that_a_worker_does_not_see_is_sent_unless_it_is_too_large() -> None:
    missed: set[str] = set()

    def script(task: WorkerTask) -> Sequence[object]:
        ((number, _, source),) = task
        if source.key in ("small", "large") and source.key not in missed:
            missed.add(source.key)
            return [("begin", number), ("absent", number)]
        return [("done", number)]

    items, engine = _run_script(script, ["small", "large", "here"])
    assert engine.content == ["small", "large"]
    assert [item and (item.place, item.reason) for item in items] == [None, ("large", "too large"), None, None]  # type: ignore[attr-defined]


def test_workers_that_never_begin_end_the_ingest() -> None:
    class Dead(_RemoteEngine):
        def start(self, job: Job, limits: Limits) -> _ScriptedWorker:
            worker = _ScriptedWorker(self)
            worker.messages = [b""]
            return worker

    with pytest.raises(errors.KvstoreError, match="a worker could not start"):
        _read_sources(Dead(lambda _: None), "a")


# Ray ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_a_busy_cluster_without_a_server_in_time_is_retried(
    monkeypatch: pytest.MonkeyPatch, store: kvstore.Store, failures: int
) -> None:
    addresses: list[str] = []

    def init(address: str, **_: object) -> None:
        addresses.append(address)
        if len(addresses) <= failures:
            raise ConnectionAbortedError("Initialization failure from server:\nStarting Ray client server failed.")

    busy = SimpleNamespace(
        is_initialized=lambda: False,
        init=init,
        cluster_resources=lambda: {"CPU": 3.0},
        remote=lambda **_: lambda actor: actor,
        shutdown=lambda: None,
    )
    monkeypatch.setattr("kvstore.ingest.engines.ray.import_extra", lambda *_, **__: busy)
    if failures == 3:
        with pytest.raises(errors.EngineError, match="is unavailable: Initialization failure"):
            RayEngine("ray://head:10001", None, store.state)
    else:
        assert RayEngine("ray://head:10001", None, store.state).workers == 3
    assert addresses == ["ray://head:10001"] * min(failures + 1, 3)


def _list_ray_processes(name: bytes) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and name in (entry / "cmdline").read_bytes().split(b"\0", 1)[0]:
                yield int(entry.name)


@pytest.mark.slow
@pytest.mark.usefixtures("exclusive_ray")
def test_ray_gives_the_result_of_one_process_and_a_poison_file_fails_alone(
    make_store: MakeStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = make_store("alone")
    alone.create_index("units")
    alone.ingest(folder, workers=0)
    replace_pdf_reader(tmp_path, monkeypatch, "os.kill(os.getpid(), signal.SIGSEGV)")
    (folder / "07.pdf").write_bytes(b"%PDF-1.4")
    store = make_store("ray")
    store.create_index("units")
    report = store.ingest(folder, engine="ray://local", workers=2)
    assert {Path(failure.place).name for failure in report.failures} == {"07.pdf"}
    assert dump_store(store) == dump_store(alone)
    assert store.ingest(folder, engine="ray://local", workers=1, include="*.md").known == 60


@pytest.mark.slow
@pytest.mark.usefixtures("exclusive_ray")
def test_killed_workers_lose_nothing_and_double_nothing(make_store: MakeStore, folder: Path) -> None:
    for number in range(300):
        (folder / f"x{number:03}.md").write_text(f"# Ship {number}\n\n" + f"Captain Reid sailed Ship {number}. " * 200)
    alone = make_store("alone")
    alone.ingest(folder, workers=0)
    store = make_store("ray")
    kills: list[int] = []
    over = threading.Event()

    def kill() -> None:
        chosen = random.Random(11)
        while len(kills) < 10 and not over.wait(chosen.uniform(0.3, 1.0)):
            running = list(_list_ray_processes(b"ray::WorkerActor"))
            if running:
                with suppress(OSError):
                    os.kill(victim := chosen.choice(running), signal.SIGKILL)
                    kills.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        report = store.ingest(folder, engine="ray://local", workers=2)
    finally:
        over.set()
        killer.join()
    assert kills
    # A file at which a kill happens to strike twice fails, and the next run has all its documents.
    struck = sum(100 if failure.place.endswith(".jsonl") else 1 for failure in report.failures)
    assert (report.added, report.documents) == (460 - struck, 460 - struck)
    assert store.ingest(folder, workers=0).added == struck
    assert dump_store(store) == dump_store(alone)


_INGESTING = """
import sys, time, kvstore
def tell(now):
    print("at", now.documents, flush=True)
    time.sleep(0.03)
with kvstore.open(sys.argv[1], embedder="hashing", settings={"language": "rules"}) as store:
    store.ingest(sys.argv[2], engine="ray://local", workers=1, progress=tell)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("exclusive_ray")
@pytest.mark.long
def test_a_lost_head_leaves_a_store_that_the_next_run_completes(
    make_store: MakeStore, folder: Path, tmp_path: Path
) -> None:
    for number in range(1500):
        (folder / f"x{number:04}.md").write_text(f"# Ship {number}\n\n" + f"Captain Reid sailed Ship {number}. " * 20)
    where = tmp_path / "headless"
    process = subprocess.Popen(
        [sys.executable, "-c", _INGESTING, where, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while (line := process.stdout.readline()) and line.strip() in ("at 0", ""):
        pass
    heads = [*_list_ray_processes(b"gcs_server"), *_list_ray_processes(b"raylet")]
    assert heads
    for head in heads:
        with suppress(OSError):
            os.kill(head, signal.SIGKILL)
    _, stderr = process.communicate(timeout=600)
    # Workers may go on without a head until all is done.
    assert process.returncode == 0 or "EngineError: the engine ray://local was lost" in stderr
    with kvstore.open(where) as store:
        committed = len(store.keys())
        assert committed
        report = store.ingest(folder, workers=0)
        assert report.added + committed == 1660
        alone = make_store("alone")
        alone.ingest(folder, workers=0)
        assert dump_store(store) == dump_store(alone)


_INGESTING_ELSEWHERE = """
import sys, kvstore
from kvstore.ingest.engines import ray as engine
# As if the files that workers see were others: another copy, on another machine.
here = engine._compute_signature
engine._compute_signature = lambda path: (here(path)[0], 0)
with kvstore.open(sys.argv[1], embedder="hashing", settings={"language": "rules"}) as store:
    print(store.ingest(sys.argv[2], engine=sys.argv[3], workers=2).added)
"""


def _wait_for_port(port: int) -> None:
    """Wait until a server listens: a head starts before its server for clients."""
    for _ in range(600):
        with suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port)).close()
        time.sleep(0.2)
    raise AssertionError(f"nothing listens at {port}")


@pytest.mark.slow
@pytest.mark.usefixtures("exclusive_ray")
def test_a_cluster_is_reached_by_its_address_and_files_are_sent_to_it(
    make_store: MakeStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = shutil.which("ray", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert command is not None
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    # Other ports than another cluster on this machine would have.
    ports = ["--port=26379", "--ray-client-server-port=26001", "--include-dashboard=false", "--num-cpus=2"]
    subprocess.run([command, "start", "--head", *ports], check=True, capture_output=True, timeout=600)
    try:
        _wait_for_port(26001)
        code = [sys.executable, "-c", _INGESTING_ELSEWHERE, tmp_path / "sent", folder, "ray://127.0.0.1:26001"]
        ended = subprocess.run(code, capture_output=True, text=True, timeout=600)
    finally:
        subprocess.run([command, "stop", "--force"], check=False, capture_output=True, timeout=600)
    assert ended.stdout.strip() == "160", ended.stderr
    alone = make_store("alone")
    alone.ingest(folder, workers=0)
    with kvstore.open(tmp_path / "sent") as store:
        assert dump_store(store) == dump_store(alone)
