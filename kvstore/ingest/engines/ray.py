"""Workers as Ray actors, on this machine or in a cluster (the ``ray`` extra; Ray core, not Ray Data). A *job* has the
parameters of all *tasks*, which are lists of files to read. The *head* is the main process of a cluster; a *frame* is
an encoded message.

In: a name, ``ray://local`` or ``ray://HOST:PORT`` (the address of Ray Client). Out: see :class:`.Engine`. An actor runs
the worker in a thread and buffers its messages until they are fetched. If the buffer is full, the worker blocks, so
that memory is bounded on both sides. An actor reserves one processor of the cluster and uses only that.

Actors do not open the store: each task carries the digests of the stored documents of its files, and the derivations
that the store keeps. A file that is missing or different on the actor's machine is sent along, up to
:data:`MAX_SENT_BYTES` bytes. Ray's own restarts and retries are disabled: the pool, which knows the file, decides about
them (:mod:`..worker_pool`).
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
from typing import Any, cast

from ...errors import EngineError
from ...extensions.extras import import_extra
from ...registry.derivation import StoredDerivation, get_derivation, list_maintained_derivations
from ...structures.state import State
from ..sources import Source
from ..transport import Inbox, frame_message
from ..worker import Job, Limits, limit_memory, run_worker
from . import Engine, TaskFile, WorkerHandle, WorkerTask

_LOCAL_NAME = "ray://local"
#: The maximum size in bytes of a file that is sent to workers.
MAX_SENT_BYTES = 8 << 20
#: The maximum number of bytes of messages that wait in an actor and are fetched at once: its output during a commit of
#: the ingesting process.
_MAX_WAITING_BYTES = 8 << 20

#: The maximum number of bytes of a call or result that bypasses Ray's object store.
_MAX_DIRECT_BYTES = 4 * _MAX_WAITING_BYTES
#: Options of a local cluster. Ray ends this process without a message this long after its head is lost. Its default is
#: a minute, which is too short for a commit, or for Ray's own shutdown, on a busy machine. Ray also ends it at
#: once if this process asks for something in an object store that was lost with the head.
_LOCAL_OPTIONS: Mapping[str, Any] = {
    "include_dashboard": False,
    "_system_config": {
        "gcs_rpc_server_reconnect_timeout_s": 3600,
        "max_direct_call_object_size": _MAX_DIRECT_BYTES,
        "task_rpc_inlined_bytes_limit": _MAX_DIRECT_BYTES,
    },
}
#: The maximum number of workers by default.
_MAX_DEFAULT_WORKERS = 64
#: The maximum length of Ray's reason for the loss of an actor.
_MAX_REASON_CHARACTERS = 300
#: The number of attempts to get a server from a cluster, which starts one per client and gives up if its head is busy.
_MAX_CONNECTS = 3
#: The seconds to wait for Ray's shutdown if its head is lost.
_LOST_SHUTDOWN_SECONDS = 10.0
#: The seconds between two checks of the head.
_HEAD_CHECK_SECONDS = 5.0
#: The seconds after which an idle actor returns an empty reply.
_HEARTBEAT_SECONDS = 1.0


class RayEngine(Engine):
    """The engine of a Ray cluster; on exit it closes the connection or cluster that it opened."""

    max_attempts = 2
    # Machines come and go without a fault of the worker.
    max_failed_starts = 10

    def __init__(self, name: str, workers: int | None, open_state: Callable[[], AbstractContextManager[State]]) -> None:
        """Connect to the cluster ``name``, or start a local cluster.

        ``workers`` is the number of workers (None: the processors of the cluster, up to a maximum). ``open_state``
        opens the state of the store. Raises EngineError if the cluster is unavailable or Ray is not installed.
        """
        ray = self._ray = import_extra("ray", "ray", f"the engine {name}", error=EngineError)
        self._name = name
        self._open_state = open_state
        #: True if workers cannot read the files, so that their content is sent.
        self._sends_content = False
        #: True once the cluster no longer answers.
        self.is_lost = False
        self._head_checked_at = time.monotonic()
        #: True if this engine connected Ray, and therefore disconnects it.
        self._is_connected = False
        #: The thread that disconnects Ray, if begun.
        self._release_thread: threading.Thread | None = None
        try:
            if not ray.is_initialized():
                self._connect({"num_cpus": workers, **_LOCAL_OPTIONS} if name == _LOCAL_NAME else {"address": name})
            self.workers = workers or max(1, min(_MAX_DEFAULT_WORKERS, int(ray.cluster_resources().get("CPU", 1))))
        except Exception as error:
            raise EngineError(
                f"the engine {name} is unavailable: {error}; check its address, and the token if it needs one"
            ) from error
        #: The class of the actors, as Ray starts them.
        self._actor_class: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, max_concurrency=2)(
            WorkerActor
        )

    def _connect(self, options: Mapping[str, Any]) -> None:
        """Start a cluster or connect to a running one; retry if its server for this client did not start in time."""
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
        """Start an actor for a job, as soon as the cluster has a free processor; ``limits`` bound its memory."""
        # Without a limit, the actor computes its share of the memory of its machine.
        memory_bytes = None if limits.megabytes is None else limits.get_memory_bytes(self.workers)
        actor = self._actor_class.remote(frame_message(job.to_message()), memory_bytes, self.workers)
        return RayWorker(self, self._ray, actor)

    def wait_for_output(self, workers: Sequence[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        """Return the workers that have messages or have ended; wait up to ``seconds`` for the first.

        Raises EngineError, and sets ``is_lost``, if the cluster does not answer.
        """
        workers_by_fetch = {cast(RayWorker, worker).start_fetch(): worker for worker in workers}
        fetches, ready = list(workers_by_fetch), []
        try:
            if fetches:  # all that are ready now, or else the first that becomes ready
                ready, _ = self._ray.wait(fetches, num_returns=len(fetches), timeout=0)
                if not ready:
                    ready, _ = self._ray.wait(fetches, num_returns=1, timeout=seconds)
            if not ready:
                self._check_head()
        except Exception as error:
            self.is_lost = True
            raise EngineError(
                f"the engine {self._name} was lost ({error}); committed documents are kept; run the same "
                "ingest again to continue"
            ) from error
        return [workers_by_fetch[fetch] for fetch in ready]

    def _check_head(self) -> None:
        """Raise OSError if the head (the main process) of a local cluster is gone, since Ray would keep waiting for it.

        It is checked at most once in ``_HEAD_CHECK_SECONDS`` seconds.
        """
        if self._name == _LOCAL_NAME and time.monotonic() > self._head_checked_at + _HEAD_CHECK_SECONDS:
            self._head_checked_at = time.monotonic()
            host, _, port = self._ray.get_runtime_context().gcs_address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), _HEAD_CHECK_SECONDS).close()

    def start_sending_content(self, source: Source) -> str | None:
        """Send the content of files along with tasks from now on, because a worker cannot see the ``source`` file.

        Return None, or the reason why the file cannot be sent: it is remote or too large.
        """
        if source.is_remote or source.size > MAX_SENT_BYTES:
            return (
                f"the worker cannot access it, and files of more than {MAX_SENT_BYTES >> 20} MB are not sent; "
                "put it at a path that all workers can access, or specify its address (s3://..., file://...)"
            )
        self._sends_content = True
        return None

    def frame_task(self, task: WorkerTask) -> bytes:
        """Encode a task with the data that its worker needs and cannot read itself.

        These are the digests of the stored documents of the files, the derivations (data computed from documents) that
        the store maintains, and the size, time and perhaps content of each file.
        """
        with self._open_state() as state:
            derivations = [
                (derivation.name, dict(derivation.options)) for derivation in list_maintained_derivations(state.lmdb)
            ]
            digests = _read_digests(state, task)
        signatures: dict[str, tuple[int, int]] = {}
        contents: dict[str, bytes] = {}
        sent_task: WorkerTask = []
        for file_number, num_received, source in task:
            if not source.is_remote:
                source = replace(source, path=os.path.abspath(source.path))  # workers have another working directory
                with suppress(OSError):
                    size, mtime_ns = _compute_signature(source.path)
                    signatures[source.path] = size, mtime_ns
                    if self._sends_content and size <= MAX_SENT_BYTES:
                        with source.open() as stream:
                            contents[source.path] = stream.read()
            sent_task.append(TaskFile(file_number, num_received, source))
        return frame_message((sent_task, digests, derivations, signatures, contents))

    def release(self) -> None:
        """Close the connection or cluster of this engine in a thread, since Ray waits a second for its processes."""
        if self._is_connected and self._release_thread is None:
            self._release_thread = threading.Thread(target=self._shut_down, daemon=True)
            self._release_thread.start()

    def _shut_down(self) -> None:
        """Close the connection or cluster that this engine opened."""
        with suppress(Exception):
            self._ray.shutdown()

    def __exit__(self, *_: object) -> None:
        """Close the connection or cluster that this engine opened, and wait for that."""
        self.release()
        if self._release_thread is not None:
            self._release_thread.join(_LOST_SHUTDOWN_SECONDS if self.is_lost else None)


class RayWorker:
    """The ingesting process's handle of an actor, which is a worker in a process of the cluster."""

    def __init__(self, engine: RayEngine, ray: Any, actor: Any) -> None:
        """Watch an actor of ``engine``; ``ray`` is the Ray module."""
        self._engine = engine
        self._ray = ray
        self._actor = actor
        #: Ray's reference to the messages that were requested and not yet received, or None.
        self._pending_fetch: Any = None
        self._exit_reason = "was lost"

    def start_fetch(self) -> Any:
        """Return Ray's reference to the pending request for the actor's messages; send a request if none is pending."""
        if self._pending_fetch is None:
            self._pending_fetch = self._actor.take_messages.remote()
        return self._pending_fetch

    def assign(self, task: WorkerTask) -> None:
        """Send the actor a task, a list of files, with the data of the store that it needs."""
        self._actor.assign.remote(self._engine.frame_task(task))

    def read(self) -> bytes | None:
        """Return the messages of the finished fetch, which is then no longer pending.

        Return None if there were no messages yet. If the actor is lost, store the reason for :meth:`kill`, and return
        b"".
        """
        fetch, self._pending_fetch = self._pending_fetch, None
        try:
            return cast("bytes", self._ray.get(fetch)) or None
        except self._ray.exceptions.RayError as error:
            self._exit_reason = "was lost: " + " ".join(str(error).split())[:_MAX_REASON_CHARACTERS]
            return b""

    def kill(self) -> str:
        """Kill the actor, unless the cluster is lost, and return a description of how it ended."""
        if not self._engine.is_lost:
            with suppress(Exception):
                self._ray.kill(self._actor)
        return self._exit_reason


class WorkerActor:
    """A worker as an actor, which Ray runs in its own process, perhaps on another machine."""

    def __init__(self, job: bytes, memory_bytes: int | None, workers: int) -> None:
        """Start the worker of ``job``, a job encoded as a message, with at most ``memory_bytes`` of memory.

        If ``memory_bytes`` is None, the limit is the share of one of ``workers`` workers on this machine.
        """
        memory_bytes = Limits().get_memory_bytes(workers) if memory_bytes is None else memory_bytes
        limit_memory(memory_bytes)
        self._tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        #: The messages not yet taken, and their size; the worker pauses at a limit.
        self._messages: deque[bytes] = deque()
        self._waiting_bytes = 0
        #: Notified when messages are added or taken.
        self._changed = threading.Condition()
        threading.Thread(target=self._run_worker, args=(Job(*_decode_message(job)), memory_bytes), daemon=True).start()

    def assign(self, task: bytes) -> None:
        """Queue ``task``, an encoded task with the data that it needs, for the thread that runs the worker."""
        self._tasks.put(task)

    def take_messages(self) -> bytes:
        """Remove the worker's messages since the last call from the buffer, and return them; wait for the first.

        Return b"" if there are none after ``_HEARTBEAT_SECONDS``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._messages, _HEARTBEAT_SECONDS)
            data = b"".join(self._messages)
            self._messages.clear()
            self._waiting_bytes = 0
            self._changed.notify_all()
            return data

    def _run_worker(self, job: Job, memory_bytes: int) -> None:
        """Run the worker of a job, which may use ``memory_bytes`` bytes, until it ends; then end the process."""
        run_worker(job, self._send_message, memory_bytes, self._take_task, has_one_processor=True)
        with self._changed:
            # Wait until the last messages are fetched.
            self._changed.wait_for(lambda: not self._messages, 10 * _HEARTBEAT_SECONDS)
        os._exit(1)

    def _take_task(self) -> tuple[list[Any], _SentContext]:
        """Wait for the next task, remove it from the queue, and return its files and the data sent with them.

        A file is (number, num_received, source). Its first ``num_received`` items, such as documents, are skipped,
        because they were received before.
        """
        task, *context_fields = _decode_message(self._tasks.get())
        return task, _SentContext(*context_fields)

    def _send_message(self, message: tuple[Any, ...]) -> None:
        """Add a message to the buffer; wait while the buffer is full."""
        frame = frame_message(message)
        with self._changed:
            self._changed.wait_for(lambda: not self._messages or self._waiting_bytes + len(frame) <= _MAX_WAITING_BYTES)
            self._messages.append(frame)
            self._waiting_bytes += len(frame)
            self._changed.notify_all()


class _SentContext:
    """The data that an actor received about the store and the files of a task."""

    def __init__(
        self,
        digests: Mapping[str, bytes],
        derivations: Sequence[tuple[str, Mapping[str, float | str]]],
        signatures: Mapping[str, tuple[int, int]],
        contents: Mapping[str, bytes],
    ) -> None:
        """Store the data that was sent with a task.

        ``digests`` has the digests of stored documents by key, and ``derivations``, data that the store computes from
        documents, are (name, options). ``signatures`` and ``contents`` are those of files by path; a file without a
        signature is remote, or could not be accessed.
        """
        self._digests = digests
        self._derivations = [StoredDerivation(get_derivation(name), options) for name, options in derivations]
        self._signatures = signatures
        self._contents = contents

    def get_digest(self, key: str) -> bytes | None:
        """Return the digest of the stored document with this key, or None if it is not stored."""
        return self._digests.get(key)

    def list_derivations(self) -> Sequence[StoredDerivation]:
        """Return the derivations (data computed from documents) that ingestion must keep up to date."""
        return self._derivations

    def get_content(self, source: Source) -> bytes | None:
        """Return the content of a file if it was sent; None if the worker reads the file itself.

        Raises FileNotFoundError if this machine does not have the same file.
        """
        content = self._contents.get(source.path)
        if content is None and not source.is_remote and source.path in self._signatures:
            try:
                signature = _compute_signature(source.path)
            except OSError:
                signature = None
            if signature != tuple(self._signatures[source.path]):
                raise FileNotFoundError(source.path)
        return content


def _read_digests(state: State, task: WorkerTask) -> dict[str, bytes]:
    """Return the digests of the stored documents of a task's files, by document key."""
    digests: dict[str, bytes] = {}
    for _, _, source in task:
        ingested_file = state.ingested_files.get(source.location)
        for key in (source.key, *(ingested_file.documents if ingested_file else ())):
            record = state.documents.find_by_key(key)
            if record is not None:
                digests[key] = record.digest
    return digests


def _compute_signature(path: str) -> tuple[int, int]:
    """Return the size and the modification time of a file."""
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns


def _decode_message(frame: bytes) -> Any:
    """Decode the only message in ``frame``, which :func:`.frame_message` encoded."""
    ((message, _),) = Inbox().feed(frame)
    return message
