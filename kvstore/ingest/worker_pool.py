"""Workers that read, extract and embed, watched by the process that ingests.

In: sources, a :class:`~kvstore.ingest.worker.Job`, and the engine (:mod:`.engines`) where workers run. Out: what is
found in each source, in the order of the sources, however the workers share them. Memory is bounded: what comes before
its turn waits here up to a limit, and then with its worker, which waits with it. A worker that is silent for longer
than the time limit while it reads costs the file it was at: a failure; another takes its place and goes on behind that
file. A worker that ends costs its file too: where it had several, each is tried again by itself, to find out which.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Self

from .. import errors
from .engines import Engine, SourceRanges, WorkerHandle
from .file_documents import Failure, FileItem
from .sources import Source
from .transport import Inbox
from .worker import SHORTAGE_MESSAGE, Job, Limits

#: A task holds at most so many files and bytes: enough to keep a worker busy while what was found is committed.
MAX_TASK_FILES = 256
MAX_TASK_BYTES = 1 << 20
#: Bytes of messages that may wait for their turn.
MAX_WAITING_BYTES = 64 << 20

#: Seconds after which the time limit is looked at again.
_MAX_WAIT_SECONDS = 0.5


class _WatchedWorker:
    """A worker, the files it has yet to finish, and when it was last heard."""

    def __init__(self, handle: WorkerHandle) -> None:
        self.handle = handle
        self.inbox = Inbox()
        self.task: SourceRanges = []
        #: The task that it goes on with then.
        self.next_task: SourceRanges = []
        #: The number of the file it is reading, if it is reading one.
        self.current_file: int | None = None
        self.is_ready = False
        #: Whether it loads its models.
        self.is_loading = False
        self.last_heard = time.monotonic()

    def finish_file(self, number: int) -> None:
        """Have it be done with a file, be it of its next task: what is sent one after the other may come in another
        order."""
        self.task = [entry for entry in self.task if entry[0] != number]
        self.next_task = [entry for entry in self.next_task if entry[0] != number]
        if not self.task:
            self.task, self.next_task = self.next_task, []


class WorkerPool:
    """Workers that share a list of sources; a context manager, which ends them when it is left."""

    def __init__(self, job: Job, sources: Sequence[Source], engine: Engine, limits: Limits) -> None:
        self._job = job
        self._limits = limits
        self._engine = engine
        self._tasks = deque(_split_into_tasks(sources, engine.workers))
        self._sources = sources
        self._workers: list[_WatchedWorker] = []
        self._items_by_source: list[deque[tuple[FileItem, int]]] = [deque() for _ in sources]
        self._num_received = [0] * len(sources)
        self._is_done = [False] * len(sources)
        #: Files that are tried again by themselves.
        self._isolated_files: set[int] = set()
        #: How often a worker ended at a file that it had alone.
        self._num_crashes: Counter[int] = Counter()
        self._failed_starts = 0
        self._waiting_bytes = 0
        self._current_source = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.handle.end()

    def iter_items(self) -> Iterator[FileItem | None]:
        """What each source holds, in order; None says that there is no more in it.

        Raises what ended a worker: EmbedderError, OutOfMemoryError, LanguageError, CorruptionError.
        """
        while self._current_source < len(self._items_by_source):
            pending = self._items_by_source[self._current_source]
            while pending:
                item, size = pending.popleft()
                self._waiting_bytes -= size
                yield item
            if self._is_done[self._current_source]:
                self._current_source += 1
                yield None
            else:
                self._assign_tasks()
                self._poll_workers()

    def _assign_tasks(self) -> None:
        """Give every worker something to do, and start those that are wanted and missing."""
        num_busy = sum(bool(worker.task) for worker in self._workers)
        while len(self._workers) < min(self._engine.workers, num_busy + len(self._tasks)):
            self._workers.append(_WatchedWorker(self._engine.start(self._job, self._limits)))
        for worker in self._workers:
            if worker.is_ready and not worker.task and self._tasks and self._waiting_bytes < MAX_WAITING_BYTES:
                worker.task = self._tasks.popleft()
                worker.last_heard = time.monotonic()
                worker.handle.assign(worker.task)
        for worker in self._workers:
            if self._can_queue_task(worker):
                worker.next_task = self._tasks.popleft()
                worker.handle.assign(worker.next_task)

    def _can_queue_task(self, worker: _WatchedWorker) -> bool:
        """Whether a worker gets its next task while it is at the one before, lest it wait while this process commits.

        Not where few are left, which had better be shared, nor with a file that shows by itself whether it can be read.
        """
        return (
            bool(worker.task)
            and not worker.next_task
            and len(self._tasks) > len(self._workers)
            and self._waiting_bytes < MAX_WAITING_BYTES // 2
            and self._isolated_files.isdisjoint(number for number, _, _ in (*worker.task, *self._tasks[0]))
        )

    def _poll_workers(self) -> None:
        """Take what workers say, and replace those that have ended or are silent for too long."""
        # Past the limit only the one is heard whose turn it is, and who has nothing yet; the others wait.
        polled = {
            worker.handle: worker
            for worker in self._workers
            if self._waiting_bytes < MAX_WAITING_BYTES
            or not worker.is_ready
            or (worker.task and worker.task[0][0] <= self._current_source)
        }
        ready_handles = self._engine.wait_for_output(list(polled), _MAX_WAIT_SECONDS)
        now = time.monotonic()
        for handle in ready_handles:
            worker = polled[handle]
            data = handle.read()
            if data:
                worker.last_heard = now
                self._handle_messages(worker, data)
            elif data is not None:
                self._remove_worker(worker, self._describe_ending(handle.end()), None)
        for worker in polled.values():
            if (
                worker in self._workers
                and worker.current_file is not None
                and now - worker.last_heard > self._limits.seconds
            ):
                worker.handle.end()
                self._remove_worker(
                    worker,
                    f"took longer than {self._limits.seconds:g} seconds; raise the time limit if it is worth the time",
                    worker.current_file,
                )

    def _handle_messages(self, worker: _WatchedWorker, data: bytes) -> None:
        for message, size in worker.inbox.feed(data):
            match message:
                case ("ready",):
                    worker.is_ready, self._failed_starts = True, 0
                case ("begin", number):
                    worker.current_file = number
                case ("busy",):
                    worker.current_file = None
                case ("loading" | "loaded" as event,):
                    worker.is_loading = event == "loading"
                case ("found", number, item):
                    self._num_received[number] += 1
                    self._add_item(number, item, size)
                case ("done", number):
                    self._is_done[number] = True
                    worker.finish_file(number)
                case ("absent", number):
                    worker.finish_file(number)
                    self._send_content(number)
                case ("failed", kind, reason):
                    raise getattr(errors, kind)(reason)

    def _add_item(self, number: int, item: FileItem, size: int) -> None:
        self._items_by_source[number].append((item, size))
        self._waiting_bytes += size

    def _send_content(self, number: int) -> None:
        """Have a file that its worker does not see sent to it."""
        source = self._sources[number]
        reason = self._engine.send_content(source)
        if reason is None:
            self._tasks.appendleft([(number, self._num_received[number], source)])
        else:
            self._fail_file(source, number, reason)

    def _fail_file(self, source: Source, number: int, reason: str) -> None:
        self._add_item(number, Failure(source.place, reason), 0)
        self._is_done[number] = True

    def _remove_worker(self, worker: _WatchedWorker, reason: str, culprit: int | None) -> None:
        """Go on without a worker: the file that ended it failed, if it is known, and the others are another's."""
        self._workers.remove(worker)
        task, next_task = worker.task, worker.next_task
        if culprit in {number for number, _, _ in next_task}:
            task, next_task = next_task, task
        if next_task:
            # Another's as it is: if the worker was at it after all, that one ends at it too.
            self._tasks.appendleft([(number, self._num_received[number], source) for number, _, source in next_task])
        unfinished = {number: (number, self._num_received[number], source) for number, _, source in task}
        if not worker.is_ready or worker.is_loading:
            self._failed_starts += 1
            if self._failed_starts > self._engine.max_failed_starts:
                raise self._build_start_error(reason, worker)
            if unfinished:
                self._tasks.appendleft(list(unfinished.values()))
            return
        if culprit is None and not next_task:
            culprit = next(iter(unfinished)) if len(unfinished) == 1 else None
            if culprit is not None:
                self._num_crashes[culprit] += 1
                if self._num_crashes[culprit] < self._engine.max_tries:
                    culprit = None
        if culprit in unfinished:
            number, _, source = unfinished.pop(culprit)
            self._fail_file(source, number, reason)
            if unfinished:
                self._tasks.appendleft(list(unfinished.values()))
        else:
            # It reads one file while it extracts and embeds others: each must show by itself whether it can be read.
            self._isolated_files |= unfinished.keys()
            self._tasks.extendleft([item] for item in reversed(unfinished.values()))

    def _build_start_error(self, reason: str, worker: _WatchedWorker) -> errors.KvstoreError:
        if worker.is_loading:
            shortage = SHORTAGE_MESSAGE.format(self._limits.get_memory_bytes(self._engine.workers) / 1e6)
            return errors.OutOfMemoryError(f"a worker ended while it loaded its models: {shortage}")
        return errors.KvstoreError(f"{reason}; it could not even start: ingest with workers = 0, in this process")

    def _describe_ending(self, ending: str) -> str:
        limit = f"{self._limits.get_memory_bytes(self._engine.workers) / 1e6:,.0f} MB"
        return (
            f"the process that read it {ending}; it may need more memory than a worker may take ({limit}: raise the "
            "memory limit), or make its reader crash"
        )


def _split_into_tasks(sources: Sequence[Source], workers: int) -> Iterator[SourceRanges]:
    """The files in tasks, of fewer files towards the end, so that all workers end together."""
    task: SourceRanges = []
    size = max_files = 0
    for number, source in enumerate(sources):
        if not task:
            size, max_files = 0, max(1, min(MAX_TASK_FILES, (len(sources) - number) // (4 * workers)))
        size += source.size
        task.append((number, 0, source))
        if len(task) >= max_files or size >= MAX_TASK_BYTES:
            yield task
            task = []
    if task:
        yield task
