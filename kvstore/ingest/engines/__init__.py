"""Engines, which run the workers of an ingest. An engine starts workers, sends them *tasks* (lists of files to read)
and receives their messages. A *job* has the parameters of all tasks. The *pool* assigns tasks and orders the results.

The pool (:mod:`..worker_pool`) also handles a file at which a worker ends. All engines run the same
:class:`~kvstore.ingest.worker.Worker`. In: an engine's name, ``processes`` (this machine, the default), ``ray://local``
or ``ray://HOST:PORT`` (the ``ray`` extra). The result of an ingest is the same with each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, Self

from ...errors import InputError
from ...structures.state import State
from ..sources import Source
from ..worker import Job, Limits


class TaskFile(NamedTuple):
    """A file of a task. The ingesting process has already received the first ``num_received`` items of it.

    An item is a document, a fact, a failure or a skipped part of the file.
    """

    number: int
    num_received: int
    source: Source


WorkerTask = list[TaskFile]

PROCESSES = "processes"
#: The maximum number of workers.
_MAX_WORKERS = 64
_RAY_PATTERN = re.compile(r"ray://(local|[^/\s]+:[0-9]+)")  # ray://head:10001


class WorkerHandle(Protocol):
    """A worker as seen by the pool."""

    def assign(self, task: WorkerTask) -> None:
        """Send the worker a task, a list of files to read; if the worker has ended, only :meth:`read` reports it."""
        ...

    def read(self) -> bytes | None:
        """Return bytes that the worker sent, without waiting: None if there are no bytes yet, b"" if it has ended."""
        ...

    def kill(self) -> str:
        """Kill the worker, and return a description of how it ended, for error messages."""
        ...


class Engine:
    """A runner of workers; as a context manager, it ends the remaining workers on exit."""

    #: The maximum number of workers.
    workers: int
    #: The number of attempts at a file after which it is reported as failed. An attempt counts only if the worker died,
    #: and if the file was alone in its task, because otherwise another file may be the cause.
    max_attempts: int
    #: The maximum number of workers in a row that may end before they are ready.
    max_failed_starts: int

    def start(self, job: Job, limits: Limits) -> WorkerHandle:
        """Start a worker for a job. The limits restrict its memory and the time for a file."""
        raise NotImplementedError

    def wait_for_output(self, workers: Sequence[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        """Return the workers that have messages or have ended; wait up to ``seconds`` for the first."""
        raise NotImplementedError

    def start_sending_content(self, source: Source) -> str | None:
        """Begin to send the content of files along with tasks, because a worker cannot see the ``source`` file.

        Return the reason if this is impossible, else None.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Start to release the resources of workers that have ended, if any; ``__exit__`` waits for the release."""

    def __enter__(self) -> Self:
        """Return the engine itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the remaining workers, and wait until their resources are released; by default, all have ended."""


def check_engine(name: str) -> None:
    """Raise InputError for an invalid engine name."""
    if name != PROCESSES and not (isinstance(name, str) and _RAY_PATTERN.fullmatch(name)):
        raise InputError(f"the engine must be {PROCESSES}, ray://local or ray://HOST:PORT, not {name!r}")


def check_workers(workers: int | None, engine: str, limits: Limits) -> None:
    """Raise InputError for an invalid number of workers, name of an engine or limit of a worker."""
    if workers is not None and (not isinstance(workers, int) or not 0 <= workers <= _MAX_WORKERS):
        raise InputError(f"workers must be 0 (this process) to {_MAX_WORKERS} processes, not {workers!r}")
    if not isinstance(limits.seconds, (int, float)) or not limits.seconds > 0:
        raise InputError(f"the time limit must be a number of seconds above 0, not {limits.seconds!r}")
    if limits.megabytes is not None and (not isinstance(limits.megabytes, (int, float)) or not limits.megabytes > 0):
        raise InputError(f"the memory limit must be a number of megabytes above 0, not {limits.megabytes!r}")
    check_engine(engine)
    if engine != PROCESSES and workers == 0:
        raise InputError(
            f"workers of {engine} must be 1 to {_MAX_WORKERS}, not 0; to ingest in this process, remove the engine"
        )


def start_engine(name: str, workers: int | None, open_state: Callable[[], AbstractContextManager[State]]) -> Engine:
    """Start the engine named ``name`` with up to ``workers`` workers (None: one process, or the cluster's capacity).

    Workers that cannot open the store receive its data from ``open_state``. Raises InputError for an invalid name, and
    EngineError if the engine is unavailable.
    """
    check_engine(name)
    if name == PROCESSES:
        from .processes import ProcessEngine

        return ProcessEngine(1 if workers is None else workers)
    from .ray import RayEngine

    return RayEngine(name, workers, open_state)
