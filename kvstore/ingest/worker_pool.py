"""Workers: processes that read, extract and embed, watched by the one that ingests.

In: sources, and a :class:`~kvstore.ingest.worker.Job`. Out: what is found in each, in the order of the sources,
however the workers share them. Memory is bounded: what comes before its turn waits here up to a limit, and then in the
pipe, where its worker waits with it. A worker that is silent for longer than the time limit while it reads costs the
file it was at: a failure; another takes its place and goes on behind that file. A worker that ends costs its file too:
where it had several, each is tried again by itself, to find out which. Workers are new processes that run nothing of
the caller's program, and end with this one.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Self

from .. import errors
from .file_documents import Failure, Found
from .sources import Source
from .transport import Inbox, frame
from .worker import SHORTAGE, Job, Limits

#: A task holds at most so many files and bytes, so that what is embedded together is neither little nor long in coming.
TASK_FILES = 32
TASK_BYTES = 1 << 20
#: Bytes of messages that may wait for their turn.
MOST_WAITING = 64 << 20
#: Bytes of messages that a pipe may hold.
PIPE_BYTES = 1 << 20

#: Seconds after which the time limit is looked at again.
_LONGEST_WAIT = 0.5
_READ = 1 << 20
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {} import main; main(int(sys.argv[2]))"

Task = list[tuple[int, int, Source]]


class _WorkerProcess:
    """One process, the files it has yet to finish, and when it was last heard."""

    def __init__(self, job: Job, threads: int, memory: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START.format(f"{__package__}.worker"), json.dumps(sys.path), str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # glibc: memory that one thread has freed serves the other.
            env={"OMP_NUM_THREADS": str(threads), "MALLOC_ARENA_MAX": "1", **os.environ},
            process_group=0,  # Ctrl-C is for the process that ingests, which ends them
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self.output = self.process.stdin, self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            # A worker goes on while this process commits. Where the system allows less, it stays as it is.
            with suppress(OSError):
                fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.inbox = Inbox()
        self.task: Task = []
        #: The number of the file it is reading, if it is reading one.
        self.at: int | None = None
        self.started = False
        #: Whether it loads its models.
        self.loading = False
        self.heard = time.monotonic()
        self.tell(job.message())

    def tell(self, message: object) -> None:
        """Send a message; a worker that is gone is noticed when its output ends."""
        with suppress(BrokenPipeError):
            self._input.write(frame(message))
            self._input.flush()

    def end(self) -> int:
        """End the process, whatever it is doing; returns its exit status, negative where a signal ended it before."""
        status = self.process.poll()
        self.process.kill()
        with suppress(BrokenPipeError):
            self._input.close()
        self.output.close()
        return self.process.wait() if status is None else status


class WorkerPool:
    """Workers that share a list of sources; a context manager, which ends them when it is left."""

    def __init__(self, job: Job, sources: Sequence[Source], workers: int, limits: Limits) -> None:
        self._job = job
        self._time_limit = limits.seconds
        self._memory = limits.bytes_of_memory(workers)
        self._threads = max(1, (os.cpu_count() or 1) // workers)
        self._tasks = deque(_tasks(sources, workers))
        self._most = workers
        self._workers: list[_WorkerProcess] = []
        self._found: list[deque[tuple[Found, int]]] = [deque() for _ in sources]
        self._received = [0] * len(sources)
        self._done = [False] * len(sources)
        self._waiting = 0
        self._head = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def found(self) -> Iterator[Found | None]:
        """What each source holds, in order; None says that there is no more in it.

        Raises what ended a worker: EmbedderError, OutOfMemoryError, LanguageError, CorruptionError.
        """
        while self._head < len(self._found):
            waiting = self._found[self._head]
            while waiting:
                found, size = waiting.popleft()
                self._waiting -= size
                yield found
            if self._done[self._head]:
                self._head += 1
                yield None
            else:
                self._give_out()
                self._listen()

    def _give_out(self) -> None:
        """Give every worker something to do, and start those that are wanted and missing."""
        while self._tasks and len(self._workers) < self._most:
            self._workers.append(_WorkerProcess(self._job, self._threads, self._memory))
            self._assign(self._workers[-1])
        for worker in self._workers:
            if not worker.task and self._tasks and self._waiting < MOST_WAITING:
                self._assign(worker)

    def _assign(self, worker: _WorkerProcess) -> None:
        worker.task = self._tasks.popleft()
        worker.heard = time.monotonic()
        worker.tell(worker.task)

    def _listen(self) -> None:
        """Take what workers say, and replace those that have ended or are silent for too long."""
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                # Past the limit only the one is heard whose turn it is; the others wait.
                if self._waiting < MOST_WAITING or (worker.task and worker.task[0][0] <= self._head):
                    selector.register(worker.output, selectors.EVENT_READ, worker)
            listened = [key.data for key in selector.get_map().values()]
            heard = [key.data for key, _ in selector.select(_LONGEST_WAIT)]
        now = time.monotonic()
        for worker in heard:
            data = worker.output.read(_READ)
            worker.heard = now
            if data:
                worker.started = True
                self._hear(worker, data)
            elif data is not None:
                self._replace(worker, self._ending(worker.end()), None)
        for worker in listened:
            if worker not in heard and worker.at is not None and now - worker.heard > self._time_limit:
                worker.end()
                self._replace(
                    worker,
                    f"took longer than {self._time_limit:g} seconds; raise the time limit if it is worth the time",
                    worker.at,
                )

    def _hear(self, worker: _WorkerProcess, data: bytes) -> None:
        for message, size in worker.inbox.feed(data):
            match message:
                case ("begin", number):
                    worker.at = number
                case ("busy",):
                    worker.at = None
                case ("loading" | "loaded" as what,):
                    worker.loading = what == "loading"
                case ("found", number, found):
                    self._received[number] += 1
                    self._add(number, found, size)
                case ("done", number):
                    self._done[number] = True
                    worker.task = worker.task[1:]
                case ("failed", kind, reason):
                    raise getattr(errors, kind)(reason)

    def _add(self, number: int, found: Found, size: int) -> None:
        self._found[number].append((found, size))
        self._waiting += size

    def _replace(self, worker: _WorkerProcess, reason: str, culprit: int | None) -> None:
        """Go on without a worker: the file that ended it failed, if it is known, and the others are another's."""
        self._workers.remove(worker)
        if not worker.started:
            raise errors.KvstoreError(f"{reason}; it could not even start: ingest with workers = 0, in this process")
        if worker.loading:
            shortage = SHORTAGE.format(self._memory / 1e6)
            raise errors.OutOfMemoryError(f"a worker ended while it loaded its models: {shortage}")
        unfinished = {number: (number, self._received[number], source) for number, _, source in worker.task}
        if culprit is None and len(unfinished) == 1:
            culprit = next(iter(unfinished))
        if culprit in unfinished:
            number, _, source = unfinished.pop(culprit)
            self._add(number, Failure(str(source.path), reason), 0)
            self._done[number] = True
            if unfinished:
                self._tasks.appendleft(list(unfinished.values()))
        else:
            # It reads one file while it extracts and embeds others: each must show by itself whether it can be read.
            self._tasks.extendleft([item] for item in reversed(unfinished.values()))

    def _ending(self, status: int) -> str:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        limit = f"{self._memory / 1e6:,.0f} MB"
        return (
            f"the process that read it {how}; it may need more memory than a worker may take ({limit}: raise the "
            "memory limit), or make its reader crash"
        )


def _tasks(sources: Sequence[Source], workers: int) -> Iterator[Task]:
    most = max(1, min(TASK_FILES, len(sources) // (4 * workers)))
    task: Task = []
    size = 0
    for number, source in enumerate(sources):
        with suppress(OSError):
            size += source.path.stat().st_size
        task.append((number, 0, source))
        if len(task) >= most or size >= TASK_BYTES:
            yield task
            task, size = [], 0
    if task:
        yield task
