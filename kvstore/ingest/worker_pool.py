"""A pool of workers that read, extract and embed, supervised by the ingesting process. A *task* is a list of files for
one worker. An *item* of a file is a document, a fact, a failure or a skipped part. The *culprit* is the file at which a
worker died or was silent for too long.

In: sources, a :class:`~kvstore.ingest.worker.Job`, and the engine (:mod:`.engines`) that runs the workers. Out: the
items of each source, in the order of the sources, however the workers share them. Memory is bounded: early items wait
here up to a limit, and then in the worker, which blocks.

If a worker is silent for longer than the time limit while it reads a file, the file fails, and another worker continues
with the next file. If a worker dies, its file fails; if it had several files, each is retried in its own task to find
out which one failed.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Self

from .. import errors
from .engines import Engine, TaskFile, WorkerHandle, WorkerTask
from .file_documents import Failure, FileItem
from .sources import Source
from .transport import Inbox
from .worker import SHORTAGE_MESSAGE, Job, Limits

#: The maximum number of files and bytes of a task: enough to keep a worker busy during a commit.
MAX_TASK_FILES = 256
MAX_TASK_BYTES = 1 << 20
#: The maximum number of bytes of waiting messages.
MAX_WAITING_BYTES = 64 << 20

#: The seconds between two checks of the time limit.
_MAX_WAIT_SECONDS = 0.5


class _WatchedWorker:
    """A worker, its unfinished files, and the time of its last message."""

    def __init__(self, handle: WorkerHandle) -> None:
        """Watch the worker ``handle``, which has no task yet."""
        self.handle = handle
        self.inbox = Inbox()
        #: The unfinished files of its task, and the files of the next task.
        self.task: WorkerTask = []
        self.next_task: WorkerTask = []
        #: The number of the file that it is reading, or None.
        self.current_file: int | None = None
        self.is_ready = False
        #: True while it loads its models.
        self.is_loading = False
        self.last_heard = time.monotonic()

    def finish_file(self, file_number: int) -> None:
        """Remove a finished file from the tasks; if that finishes the current task, the next task becomes current."""
        self.task = [file for file in self.task if file.number != file_number]
        self.next_task = [file for file in self.next_task if file.number != file_number]
        if not self.task:
            self.task, self.next_task = self.next_task, []


class WorkerPool:
    """A pool of workers that share a list of sources; as a context manager, it ends them on exit. A busy worker can
    already have its next task.
    """

    def __init__(self, job: Job, sources: Sequence[Source], engine: Engine, limits: Limits) -> None:
        """Split ``sources`` into tasks of a job; ``engine`` starts workers, within ``limits``, at the first request."""
        self._job = job
        self._limits = limits
        self._engine = engine
        #: The tasks that are not assigned yet.
        self._tasks = deque(_split_into_tasks(sources, engine.workers))
        self._sources = sources
        self._workers: list[_WatchedWorker] = []
        #: The items of each source that are not yet delivered, each with the size of its message in bytes.
        self._items_by_source: list[deque[tuple[FileItem, int]]] = [deque() for _ in sources]
        #: The number of items received from each source: a worker that reads it again skips as many.
        self._num_received = [0] * len(sources)
        #: For each source, True if all its items are received.
        self._is_done = [False] * len(sources)
        #: Files that are retried in their own task.
        self._isolated_files: set[int] = set()
        #: The number of times a worker died at a file that was alone in its task.
        self._num_crashes: Counter[int] = Counter()
        #: The number of workers that died in succession before they were ready.
        self._num_failed_starts = 0
        #: The total size of the messages whose items are not yet delivered.
        self._waiting_bytes = 0
        #: The number of the source whose items are delivered next; items keep the order of sources.
        self._current_source = 0

    def __enter__(self) -> Self:
        """Return the pool itself; the first request for items starts workers."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the workers."""
        for worker in self._workers:
            worker.handle.kill()

    def iter_items(self) -> Iterator[FileItem | None]:
        """Yield the items of each source (extracted documents, facts, failures, skipped parts) in order, then None.

        Raises the error that ended a worker, such as EmbedderError, OutOfMemoryError, LanguageError or CorruptionError;
        KvstoreError if no worker can start; and EngineError if the Ray cluster that runs the workers stops answering.
        """
        while self._current_source < len(self._items_by_source):
            source_items = self._items_by_source[self._current_source]
            while source_items:
                item, message_bytes = source_items.popleft()
                self._waiting_bytes -= message_bytes
                yield item
            if self._is_done[self._current_source]:
                self._current_source += 1
                yield None
            else:
                self._assign_tasks()
                self._poll_workers()

    def _assign_tasks(self) -> None:
        """Start workers up to the number of tasks or the engine's limit, and assign a task to every idle worker.

        While many tasks are left, a busy worker gets its next task too. No task is assigned while too many messages
        wait for delivery.
        """
        num_busy = len([worker for worker in self._workers if worker.task])
        while len(self._workers) < min(self._engine.workers, num_busy + len(self._tasks)):
            self._workers.append(_WatchedWorker(self._engine.start(self._job, self._limits)))
        for worker in self._workers:
            is_idle = worker.is_ready and not worker.task
            if is_idle and self._tasks and self._waiting_bytes < MAX_WAITING_BYTES:
                worker.task = self._tasks.popleft()
                worker.last_heard = time.monotonic()
                worker.handle.assign(worker.task)
        for worker in self._workers:
            if self._can_queue_task(worker):
                worker.next_task = self._tasks.popleft()
                worker.handle.assign(worker.next_task)

    def _can_queue_task(self, worker: _WatchedWorker) -> bool:
        """True if a worker gets its next task early, so that it need not wait for one during a commit.

        False if few tasks are left, which are better shared, if many messages wait, or if a file of a task is being
        retried alone.
        """
        has_one_task = bool(worker.task) and not worker.next_task
        has_many_tasks_left = len(self._tasks) > len(self._workers)
        if not has_one_task or not has_many_tasks_left or self._waiting_bytes >= MAX_WAITING_BYTES // 2:
            return False
        return self._isolated_files.isdisjoint(file.number for file in (*worker.task, *self._tasks[0]))

    def _poll_workers(self) -> None:
        """Wait for messages of the workers and handle them; remove workers that died or are silent for too long."""
        polled_workers = {worker.handle: worker for worker in self._workers if self._is_polled(worker)}
        ready_handles = self._engine.wait_for_output(list(polled_workers), _MAX_WAIT_SECONDS)
        now = time.monotonic()
        for handle in ready_handles:
            worker = polled_workers[handle]
            output = handle.read()
            if output:
                worker.last_heard = now
                self._handle_messages(worker, output)
            elif output is not None:  # empty: the worker has ended
                self._remove_worker(worker, self._explain_worker_exit(handle.kill()), culprit=None)
        for worker in polled_workers.values():
            is_silent = worker.current_file is not None and now - worker.last_heard > self._limits.seconds
            if is_silent and worker in self._workers:
                worker.handle.kill()
                self._remove_worker(
                    worker,
                    f"took longer than {self._limits.seconds:g} seconds; raise the time limit to read it",
                    culprit=worker.current_file,
                )

    def _is_polled(self, worker: _WatchedWorker) -> bool:
        """True if the messages of a worker are read now.

        If too many bytes wait for delivery, only the worker at the first unfinished file, and workers that are not
        ready, are read. The others block once their buffers are full.
        """
        has_first_file = bool(worker.task) and worker.task[0].number <= self._current_source
        return self._waiting_bytes < MAX_WAITING_BYTES or not worker.is_ready or has_first_file

    def _handle_messages(self, worker: _WatchedWorker, output: bytes) -> None:
        """Process the messages in ``output``, bytes that a worker sent: update its state, queue the items of its files.

        Raises the error of a ``failed`` message, which ends the ingest.
        """
        for message, size in worker.inbox.feed(output):
            match message:
                case ("ready",):
                    worker.is_ready = True
                    self._num_failed_starts = 0
                case ("begin", file_number):  # it reads the file
                    worker.current_file = file_number
                case ("busy",):  # it works on several files at once
                    worker.current_file = None
                case ("loading" | "loaded" as event,):
                    worker.is_loading = event == "loading"
                case ("found", file_number, item):
                    self._num_received[file_number] += 1
                    self._add_item(file_number, item, size)
                case ("done", file_number):
                    self._is_done[file_number] = True
                    worker.finish_file(file_number)
                case ("absent", file_number):  # it cannot see the file
                    worker.finish_file(file_number)
                    self._retry_with_content(file_number)
                case ("failed", error_name, reason):
                    raise getattr(errors, error_name)(reason)

    def _add_item(self, file_number: int, item: FileItem, message_bytes: int) -> None:
        """Queue an item of a file (a document, a fact, a failure or a skipped part) until the files before it are done.

        ``message_bytes`` is the size of the message that it arrived in.
        """
        self._items_by_source[file_number].append((item, message_bytes))
        self._waiting_bytes += message_bytes

    def _retry_with_content(self, file_number: int) -> None:
        """Assign a file again and send its content, because its worker could not see it.

        The file fails if its content cannot be sent.
        """
        source = self._sources[file_number]
        reason = self._engine.start_sending_content(source)
        if reason is None:
            self._tasks.appendleft([TaskFile(file_number, self._num_received[file_number], source)])
        else:
            self._fail_file(source, file_number, reason)

    def _fail_file(self, source: Source, file_number: int, reason: str) -> None:
        """Add a failure with this reason as the last item of a file, which is then done."""
        self._add_item(file_number, Failure(source.path, reason), message_bytes=0)
        self._is_done[file_number] = True

    def _remove_worker(self, worker: _WatchedWorker, reason: str, culprit: int | None) -> None:
        """Remove a worker that ended for a ``reason``, fail the file that ended it, and reassign its other files.

        ``culprit`` is the number of that file. None means that it is unknown: each file is then retried in its own
        task, and fails after some attempts. Raises OutOfMemoryError or KvstoreError if too many workers in succession
        ended before they were ready or while they loaded their models.
        """
        self._workers.remove(worker)
        task, next_task = self._make_resumed_task(worker.task), self._make_resumed_task(worker.next_task)
        if culprit in {file.number for file in next_task}:
            task, next_task = next_task, task
        if next_task:
            # Reassign the next task unchanged: if one of its files killed the worker, the next worker dies at it too.
            self._tasks.appendleft(next_task)
        if not worker.is_ready or worker.is_loading:
            self._num_failed_starts += 1
            if self._num_failed_starts > self._engine.max_failed_starts:
                raise self._build_start_error(reason, worker)
            if task:
                self._tasks.appendleft(task)
            return
        if culprit is None and not next_task and len(task) == 1:  # the file was alone
            file_number = task[0].number
            self._num_crashes[file_number] += 1
            if self._num_crashes[file_number] >= self._engine.max_attempts:
                culprit = file_number
        self._fail_culprit(task, culprit, reason)

    def _fail_culprit(self, task: WorkerTask, culprit: int | None, reason: str) -> None:
        """Fail the file of a task that ended its worker, and reassign the other files.

        ``culprit`` is the number of the file. If it is not known to be in the task, each file is retried in its own
        task: a worker reads one file while it extracts and embeds others, so any of them can be the cause.
        """
        failed_file = next((file for file in task if file.number == culprit), None)
        if failed_file is None:
            self._isolated_files.update(file.number for file in task)
            self._tasks.extendleft([file] for file in reversed(task))
            return
        self._fail_file(failed_file.source, failed_file.number, reason)
        other_files = [file for file in task if file.number != culprit]
        if other_files:
            self._tasks.appendleft(other_files)

    def _make_resumed_task(self, task: WorkerTask) -> WorkerTask:
        """Return the task with the number of items received of each file, so that its next worker omits these items."""
        return [file._replace(num_received=self._num_received[file.number]) for file in task]

    def _build_start_error(self, reason: str, worker: _WatchedWorker) -> errors.KvstoreError:
        """Return the error for workers that end before they are ready; ``reason`` says how ``worker`` ended."""
        if worker.is_loading:
            shortage = SHORTAGE_MESSAGE.format(self._limits.get_memory_bytes(self._engine.workers) / 1e6)
            return errors.OutOfMemoryError(f"a worker ended while it loaded its models: {shortage}")
        return errors.KvstoreError(f"a worker could not start ({reason}); ingest with workers = 0, in this process")

    def _explain_worker_exit(self, ending: str) -> str:
        """Return the reason for the failure of a file whose worker exited; ``ending`` describes how it exited."""
        limit = f"{self._limits.get_memory_bytes(self._engine.workers) / 1e6:,.0f} MB"
        return (
            f"the process that read it {ending}; the file may crash its reader, or need more memory than a worker may "
            f"use ({limit}): raise the memory limit"
        )


def _split_into_tasks(sources: Sequence[Source], workers: int) -> Iterator[WorkerTask]:
    """Yield the files in tasks, which get smaller toward the end so that all workers end together.

    A task has a fourth of a worker's share of the remaining files, within the limits of a task.
    """
    task: WorkerTask = []
    task_bytes = max_files = 0
    for file_number, source in enumerate(sources):
        if not task:
            task_bytes, max_files = 0, max(1, min(MAX_TASK_FILES, (len(sources) - file_number) // (4 * workers)))
        task_bytes += source.size
        task.append(TaskFile(file_number, num_received=0, source=source))
        if len(task) >= max_files or task_bytes >= MAX_TASK_BYTES:
            yield task
            task = []
    if task:
        yield task
