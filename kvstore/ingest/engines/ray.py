"""Workers as actors of Ray, on this machine or on those of a cluster (the extra ``ray``; Ray core, not Ray Data).

In: a name, ``ray://local`` or ``ray://HOST:PORT`` (the address of Ray Client). Out: what :class:`.Engine` says. An
actor runs the worker in a thread and keeps what it says until it is fetched; what does not fit waits with the worker,
so that neither side piles up. It reserves one processor of the cluster, and keeps to it. Actors open no store: with
each task come the digests of the documents of its files, and the derivations that the store keeps. A file that is not
where an actor looks, or another than here, is sent along, up to :data:`MAX_SENT_BYTES` bytes. Ray itself restarts
nothing and tries nothing again: that is the pool's to decide, which knows the file (:mod:`..worker_pool`).
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any, Self, cast

from ...errors import EngineError
from ...extras import import_extra
from ...structures.state import State
from ...systems.kept_derivations import StoredDerivation, get_derivation, list_maintained_derivations
from ..sources import Source
from ..transport import Inbox, frame_message
from ..worker import Job, Limits, limit_memory, run_worker
from . import SourceRanges, WorkerHandle

_LOCAL_NAME = "ray://local"
#: A file that workers do not see is sent to them up to so many bytes.
MAX_SENT_BYTES = 8 << 20
#: Bytes of messages that wait in an actor, and that are fetched at once: what it says while the process that ingests is
#: busy with a commit.
_MAX_WAITING_BYTES = 8 << 20

#: Bytes up to which what is sent and fetched does without Ray's store of objects.
_MAX_DIRECT_BYTES = 4 * _MAX_WAITING_BYTES
#: Of a cluster of one's own. Ray ends this process, without a word, so long after the head is lost; by itself after a
#: minute, in which neither a commit nor Ray's own end is through where much else runs. So it does at once where its
#: store of objects is lost with the head and this process asks that for something.
_LOCAL_OPTIONS: Mapping[str, Any] = {
    "include_dashboard": False,
    "_system_config": {
        "gcs_rpc_server_reconnect_timeout_s": 3600,
        "max_direct_call_object_size": _MAX_DIRECT_BYTES,
        "task_rpc_inlined_bytes_limit": _MAX_DIRECT_BYTES,
    },
}
#: How often a cluster is asked for a server of one's own, which it starts for each that connects and gives up on where
#: its head is busy.
_MAX_CONNECTS = 3
#: Seconds for which Ray's end is waited for when its head is lost.
_LOST_SHUTDOWN_SECONDS = 10.0
#: Seconds after which it is looked whether the head is there still.
_HEAD_CHECK_SECONDS = 5.0
#: Seconds after which an actor that has nothing to say says so.
_HEARTBEAT_SECONDS = 1.0


class RayEngine:
    """The engine of a Ray cluster; what is connected or started here is given up at the end."""

    max_tries = 2
    # Machines come and go, and a worker is not at fault for it.
    max_failed_starts = 10

    def __init__(self, name: str, workers: int | None, open_state: Callable[[], AbstractContextManager[State]]) -> None:
        ray = self._ray = import_extra("ray", "ray", f"the engine {name}", error=EngineError)
        self._name = name
        self._open_state = open_state
        self._sends_content = False
        self.is_lost = False
        self._head_checked_at = time.monotonic()
        self._is_connected = False
        self._release_thread: threading.Thread | None = None
        try:
            if not ray.is_initialized():
                self._connect({"num_cpus": workers, **_LOCAL_OPTIONS} if name == _LOCAL_NAME else {"address": name})
            self.workers = workers or max(1, min(64, int(ray.cluster_resources().get("CPU", 1))))
        except Exception as error:
            raise EngineError(
                f"the engine {name} cannot be had: {error}; check its address, and the token if it asks for one"
            ) from error
        self._actor: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, max_concurrency=2)(WorkerActor)

    def _connect(self, options: Mapping[str, Any]) -> None:
        """Start a cluster or connect to one, again where it was reached and its server for us did not begin in time."""
        for attempt in range(_MAX_CONNECTS):
            try:
                self._ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
            except ConnectionAbortedError:
                if attempt == _MAX_CONNECTS - 1:
                    raise
            else:
                self._is_connected = True
                return

    def start(self, job: Job, limits: Limits) -> RayWorker:
        """Start an actor, as soon as the cluster has a free processor."""
        memory = limits.megabytes and int(min(limits.megabytes * 1e6, 1 << 62))
        actor = self._actor.remote(frame_message(job.to_message()), memory, self.workers)
        return RayWorker(self, self._ray, actor)

    def wait_for_output(self, workers: Sequence[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        """Those of which something was fetched, or that have ended; raises EngineError where the cluster is lost."""
        workers_by_fetch = {cast(RayWorker, worker).start_fetch(): worker for worker in workers}
        try:
            ready, _ = (
                self._ray.wait(list(workers_by_fetch), num_returns=len(workers_by_fetch), timeout=0)
                if workers_by_fetch
                else ([], [])
            )
            if not ready and workers_by_fetch:
                ready, _ = self._ray.wait(list(workers_by_fetch), num_returns=1, timeout=seconds)
            if not ready:
                self._check_head()
        except Exception as error:
            self.is_lost = True
            raise EngineError(
                f"the engine {self._name} was lost ({error}); what was committed is kept, and the same ingest goes on "
                "from there"
            ) from error
        return [workers_by_fetch[fetch] for fetch in ready]

    def _check_head(self) -> None:
        """Raise OSError where the head of a cluster of one's own is gone, which Ray goes on waiting for."""
        if self._name == _LOCAL_NAME and time.monotonic() > self._head_checked_at + _HEAD_CHECK_SECONDS:
            self._head_checked_at = time.monotonic()
            host, _, port = self._ray.get_runtime_context().gcs_address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), _HEAD_CHECK_SECONDS).close()

    def send_content(self, source: Source) -> str | None:
        """Send files along from now on; not one that is too large."""
        if source.is_remote or source.size > MAX_SENT_BYTES:
            return (
                f"the worker does not see it, and more than {MAX_SENT_BYTES >> 20} MB are not sent: put it where all "
                "workers see it under the same path, or give its address (s3://..., file://...)"
            )
        self._sends_content = True
        return None

    def frame_task(self, task: SourceRanges) -> bytes:
        """A task with what its worker must know of the store and of the files."""
        with self._open_state() as state:
            derivations = [
                (derivation.name, dict(derivation.options)) for derivation in list_maintained_derivations(state.lmdb)
            ]
            digests: dict[str, bytes] = {}
            for _, _, source in task:
                file = state.ingested_files.get(source.location)
                for key in (source.key, *(file.documents if file else ())):
                    record = state.documents.find_by_key(key)
                    if record is not None:
                        digests[key] = record.digest
        signatures: dict[str, tuple[int, int]] = {}
        contents: dict[str, bytes] = {}
        # Workers have another working directory.
        entries = [
            (number, num_known, source if source.is_remote else replace(source, place=os.path.abspath(source.place)))
            for number, num_known, source in task
        ]
        for _, _, source in entries:
            with suppress(OSError):
                if not source.is_remote:
                    signatures[source.place] = _compute_signature(source.place)
                    if self._sends_content and signatures[source.place][0] <= MAX_SENT_BYTES:
                        with source.open() as stream:
                            contents[source.place] = stream.read()
        return frame_message((entries, digests, derivations, signatures, contents))

    def release(self) -> None:
        """Begin to give up what was connected or started here: Ray waits a second and more for its processes to end."""
        if self._is_connected and self._release_thread is None:
            self._release_thread = threading.Thread(target=self._shut_down, daemon=True)
            self._release_thread.start()

    def _shut_down(self) -> None:
        with suppress(Exception):
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        if self._release_thread is not None:
            self._release_thread.join(_LOST_SHUTDOWN_SECONDS if self.is_lost else None)


class RayWorker:
    """An actor, as the process that ingests sees it."""

    def __init__(self, engine: RayEngine, ray: Any, actor: Any) -> None:
        self._engine = engine
        self._ray = ray
        self._actor = actor
        self._pending_fetch: Any = None
        self._ending = "was lost"

    def start_fetch(self) -> Any:
        """What is being fetched of its messages, as Ray refers to it."""
        if self._pending_fetch is None:
            self._pending_fetch = self._actor.messages.remote()
        return self._pending_fetch

    def assign(self, task: SourceRanges) -> None:
        """Send it a task."""
        self._actor.assign.remote(self._engine.frame_task(task))

    def read(self) -> bytes | None:
        """What was fetched."""
        fetch, self._pending_fetch = self._pending_fetch, None
        try:
            return cast("bytes", self._ray.get(fetch)) or None
        except self._ray.exceptions.RayError as error:
            self._ending = "was lost: " + " ".join(str(error).split())[:300]
            return b""

    def end(self) -> str:
        """Kill the actor."""
        if not self._engine.is_lost:
            with suppress(Exception):
                self._ray.kill(self._actor)
        return self._ending


class WorkerActor:
    """The actor; Ray gives it a process."""

    def __init__(self, job: bytes, memory: int | None, workers: int) -> None:
        memory = Limits().get_memory_bytes(workers) if memory is None else memory
        limit_memory(memory)
        self._tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._messages: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._run_worker, args=(Job(*_read_message(job)), memory), daemon=True).start()

    def assign(self, task: bytes) -> None:
        """Take a task."""
        self._tasks.put(task)

    def messages(self) -> bytes:
        """What the worker has said since; waits a little for the first."""
        with self._changed:
            self._changed.wait_for(lambda: self._messages, _HEARTBEAT_SECONDS)
            data = b"".join(self._messages)
            self._messages.clear()
            self._waiting_bytes = 0
            self._changed.notify_all()
            return data

    def _run_worker(self, job: Job, memory: int) -> None:
        run_worker(job, self._send_message, memory, self._get_task, has_one_processor=True)
        with self._changed:
            # What it has said last is fetched before it ends.
            self._changed.wait_for(lambda: not self._messages, 10 * _HEARTBEAT_SECONDS)
        os._exit(1)

    def _get_task(self) -> tuple[list[Any], _SentContext]:
        task, *context_fields = _read_message(self._tasks.get())
        return task, _SentContext(*context_fields)

    def _send_message(self, message: tuple[Any, ...]) -> None:
        framed = frame_message(message)
        with self._changed:
            self._changed.wait_for(
                lambda: not self._messages or self._waiting_bytes + len(framed) <= _MAX_WAITING_BYTES
            )
            self._messages.append(framed)
            self._waiting_bytes += len(framed)
            self._changed.notify_all()


class _SentContext:
    """What an actor was told of the store and of the files of a task."""

    def __init__(
        self,
        digests: Mapping[str, bytes],
        derivations: Sequence[tuple[str, Mapping[str, float | str]]],
        signatures: Mapping[str, tuple[int, int]],
        contents: Mapping[str, bytes],
    ) -> None:
        self._digests = digests
        self._derivations = [StoredDerivation(get_derivation(name), options) for name, options in derivations]
        self._signatures = signatures
        self._contents = contents

    def get_digest(self, key: str) -> bytes | None:
        return self._digests.get(key)

    def list_derivations(self) -> Sequence[StoredDerivation]:
        return self._derivations

    def get_content(self, source: Source) -> bytes | None:
        found = self._contents.get(source.place)
        if found is None and not source.is_remote and source.place in self._signatures:
            try:
                signature = _compute_signature(source.place)
            except OSError:
                signature = None
            if signature != tuple(self._signatures[source.place]):
                raise FileNotFoundError(source.place)
        return found


def _compute_signature(path: str) -> tuple[int, int]:
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns


def _read_message(framed: bytes) -> Any:
    ((message, _),) = Inbox().feed(framed)
    return message
