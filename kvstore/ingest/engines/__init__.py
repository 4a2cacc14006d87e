"""Engines: where the workers of an ingest run.

An engine starts workers, carries tasks to them and brings what they say; the pool (:mod:`..worker_pool`) decides what
each is given, in which order what they find is told, and what becomes of a file at which one ends. All engines run the
same :class:`~kvstore.ingest.worker.Worker`. In: an engine's name, ``processes`` (this machine, the default),
``ray://local`` or ``ray://HOST:PORT`` (the extra ``ray``). What is ingested is the same with each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self

from ...errors import InputError
from ...structures.state import State
from ..sources import Source
from ..worker import Job, Limits

#: Of each file of a task its number, how many of its items are known already, and the file.
SourceRanges = list[tuple[int, int, Source]]

PROCESSES = "processes"
_RAY_PATTERN = re.compile(r"ray://(local|[^/\s]+:[0-9]+)")


class WorkerHandle(Protocol):
    """A worker as its engine sees it."""

    def assign(self, task: SourceRanges) -> None:
        """Give it a task; one that is gone is noticed when it is read."""
        ...

    def read(self) -> bytes | None:
        """Some of what it says, without waiting: nothing new is None, and nothing any more is empty."""
        ...

    def end(self) -> str:
        """End it, whatever it is doing; says how it had ended where it had."""
        ...


class Engine(Protocol):
    """Where workers run; a context manager, whose end is theirs if they were not ended before."""

    @property
    def workers(self) -> int:
        """How many there may be."""
        ...

    @property
    def max_tries(self) -> int:
        """A worker may end at a file, by itself in its task, for reasons that are not the file's: so often it is tried
        in all."""
        ...

    @property
    def max_failed_starts(self) -> int:
        """How many workers in a row may end before they have begun."""
        ...

    def start(self, job: Job, limits: Limits) -> WorkerHandle:
        """Start a worker."""
        ...

    def wait_for_output(self, workers: Sequence[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        """Those of some workers that have something to say, or have ended; waits until one does, so long at most."""
        ...

    def send_content(self, source: Source) -> str | None:
        """Take note of a file that a worker does not see: it is sent along with its task from now on. Says why not,
        where that cannot be."""
        ...

    def release(self) -> None:
        """Begin to give up what was started for the workers, which have ended; the end of the context waits for it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def check_engine(name: str) -> None:
    """Raise InputError for what names no engine."""
    if name != PROCESSES and not (isinstance(name, str) and _RAY_PATTERN.fullmatch(name)):
        raise InputError(f"an engine is {PROCESSES}, ray://local or ray://HOST:PORT, not {name!r}")


def start_engine(name: str, workers: int | None, open_state: Callable[[], AbstractContextManager[State]]) -> Engine:
    """The engine of a name, with so many workers (None: what it has room for); workers that cannot open the store are
    told what is in its ``open_state``. Raises InputError for the name of none, and EngineError where it cannot be had."""
    check_engine(name)
    if name == PROCESSES:
        from .processes import ProcessEngine

        return ProcessEngine(1 if workers is None else workers)
    from .ray import RayEngine

    return RayEngine(name, workers, open_state)
