"""Workers as processes of this machine, which run nothing of the caller's program and end with it.

In and out: messages of :mod:`..transport` through a worker's standard input and output. What does not fit into a pipe
waits with the worker. A worker opens the store itself, to read.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Self, cast

from ..sources import Source
from ..transport import frame_message
from ..worker import Job, Limits
from . import SourceRanges, WorkerHandle

#: Bytes of messages that a pipe may hold.
MAX_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_START_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {} import main; main(int(sys.argv[2]))"


class ProcessEngine:
    """The engine of this machine's own processes."""

    max_tries = 1
    max_failed_starts = 0

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def start(self, job: Job, limits: Limits) -> WorkerProcess:
        """Start a process."""
        return WorkerProcess(job, max(1, (os.cpu_count() or 1) // self.workers), limits.get_memory_bytes(self.workers))

    def wait_for_output(self, workers: Sequence[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        """Those whose pipes have something, or have ended."""
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(cast(WorkerProcess, worker).output, selectors.EVENT_READ, worker)
            return [key.data for key, _ in selector.select(seconds)]

    def send_content(self, source: Source) -> str | None:
        """A process of this machine sees every file that there is."""
        return "it is not there any more"

    def release(self) -> None:
        """Nothing was started but the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left when the workers have ended."""


class WorkerProcess:
    """One process."""

    def __init__(self, job: Job, threads: int, memory: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START_CODE.format("kvstore.ingest.worker"), json.dumps(sys.path), str(memory)],
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
                fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, MAX_PIPE_BYTES)
        self._send_message(job.to_message())

    def assign(self, task: SourceRanges) -> None:
        """Give it a task."""
        self._send_message(task)

    def read(self) -> bytes | None:
        """What stands in its pipe."""
        return self.output.read(_READ_BYTES)

    def end(self) -> str:
        """Kill it."""
        status = self.process.poll()
        self.process.kill()
        with suppress(BrokenPipeError):
            self._input.close()
        self.output.close()
        if status is None:
            status = self.process.wait()
        return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def _send_message(self, message: object) -> None:
        with suppress(BrokenPipeError):
            self._input.write(frame_message(message))
            self._input.flush()
