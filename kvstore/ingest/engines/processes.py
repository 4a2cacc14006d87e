"""Workers as local processes, which do not run the caller's program and end with it. A *job* has the parameters of all
*tasks*, which are lists of files to read.

In and out: messages of :mod:`..transport` through a worker's standard input and output. If the pipe is full, the worker
blocks. A worker opens the store itself, read-only.
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
from typing import cast

from ...errors import EngineError
from ..sources import Source
from ..transport import frame_message
from ..worker import Job, Limits
from . import Engine, WorkerHandle, WorkerTask

#: The capacity in bytes of a worker's output pipe.
MAX_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
#: The program of a worker, with a field for the module of its ``main``. The arguments are the folders that Python
#: imports modules from, as JSON, and the memory limit in bytes.
_START_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {} import main; main(int(sys.argv[2]))"


class ProcessEngine(Engine):
    """The engine of local processes."""

    max_attempts = 1
    max_failed_starts = 0

    def __init__(self, workers: int) -> None:
        """Prepare an engine for this number of worker processes."""
        self.workers = workers

    def start(self, job: Job, limits: Limits) -> WorkerProcess:
        """Start a worker process for a job, with its share of the processor cores and of the memory in ``limits``.

        Raises EngineError if the system refuses, because of its limits, for example.
        """
        num_threads = max(1, (os.cpu_count() or 1) // self.workers)
        try:
            return WorkerProcess(job, num_threads, limits.get_memory_bytes(self.workers))
        except OSError as error:
            raise EngineError(
                f"a worker process cannot be started ({error.strerror}); ingest with workers=0 (on the command line: "
                "--workers 0), or raise the limits of processes and open files (ulimit -u and -n)"
            ) from error

    def wait_for_output(self, workers: Sequence[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        """Return the workers whose pipes have data or are closed; wait up to ``seconds`` for the first."""
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(cast(WorkerProcess, worker).output, selectors.EVENT_READ, worker)
            return [key.data for key, _ in selector.select(seconds)]

    def start_sending_content(self, source: Source) -> str | None:
        """Return why the content of a file is not sent: a local worker can read every file that was not deleted."""
        return "the file was deleted during the ingest"


class WorkerProcess:
    """The ingesting process's handle of a worker process."""

    def __init__(self, job: Job, num_threads: int, memory_bytes: int) -> None:
        """Start the process with ``num_threads`` threads for models and at most ``memory_bytes`` of private memory."""
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _START_CODE.format("kvstore.ingest.worker"),
                json.dumps(sys.path),
                str(memory_bytes),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # glibc: lets memory freed by one thread serve another.
            env={"OMP_NUM_THREADS": str(num_threads), "MALLOC_ARENA_MAX": "1", **os.environ},
            process_group=0,  # Ctrl-C goes to the ingesting process, which ends its workers
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self.output = self.process.stdin, self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            # Lets a worker continue while this process commits. If the system allows less, keep its limit.
            with suppress(OSError):
                fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, MAX_PIPE_BYTES)
        self._send_message(job.to_message())

    def assign(self, task: WorkerTask) -> None:
        """Send the worker a task through its standard input."""
        self._send_message(task)

    def read(self) -> bytes | None:
        """Return data of the output pipe without waiting: None if it is empty, b"" if the process has ended."""
        return self.output.read(_READ_BYTES)

    def kill(self) -> str:
        """Kill the process, and return a description of how it ended, for error messages."""
        status = self.process.poll()
        self.process.kill()
        with suppress(BrokenPipeError):
            self._input.close()
        self.output.close()
        if status is None:
            status = self.process.wait()
        return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def _send_message(self, message: object) -> None:
        """Write a message to the worker's standard input, unless the worker has ended."""
        with suppress(BrokenPipeError):
            self._input.write(frame_message(message))
            self._input.flush()
