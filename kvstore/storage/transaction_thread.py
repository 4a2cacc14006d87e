"""The thread of a store in which its write transactions begin and end.

LMDB begins a write transaction by locking a mutex that only the thread that locked it can unlock, so a transaction of
one thread could be ended by no other: not by a ``close()`` elsewhere, not by the thread that happens to drop the last
reference to it. Therefore one thread begins and ends them all, and between the two any thread may use them. In:
functions of no arguments. Out: what they return or raise.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Task:
    """A function to be called, and what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        # A plain lock: a finaliser may wait for it wherever it runs.
        self._done_lock = threading.Lock()
        self._done_lock.acquire()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error
        del self._function
        self._done_lock.release()

    def wait(self) -> BaseException | None:
        """Wait until the function is over; returns what interrupted the waiting, such as Ctrl-C, if anything did."""
        interruption: BaseException | None = None
        while True:
            try:
                self._done_lock.acquire()
                return interruption
            except BaseException as error:
                interruption = error


class TransactionThread:
    """Calls functions in one thread, which is started for the first; any thread may ask for that."""

    def __init__(self) -> None:
        self._start_lock = threading.Lock()
        self._tasks: SimpleQueue[_Task | None] | None = None
        self._thread: int | None = None

    def run(self, function: Callable[[], Result], undo: Callable[[Result], object] | None = None) -> Result:
        """What ``function`` returns or raises, called in the thread.

        An interruption (Ctrl-C) is raised when the function is over; its result is given to ``undo`` before.
        """
        tasks = self._ensure_started()
        if tasks is None:
            return function()
        task = _Task(function)
        tasks.put(task)
        interruption = task.wait()
        error, task.error = task.error, None
        try:
            if error is not None:
                raise error
            if interruption is not None:
                if undo is not None:
                    result: Result = task.result
                    self.run(lambda: undo(result))
                raise interruption
            return task.result  # type: ignore[no-any-return]
        finally:
            del task, error, interruption  # an error leads to this frame, which must not lead back to it

    def stop(self) -> None:
        """Let the thread end when it has done what it was asked for."""
        with self._start_lock:
            tasks, self._tasks, self._thread = self._tasks, None, None
        if tasks is not None:
            tasks.put(None)

    def _ensure_started(self) -> SimpleQueue[_Task | None] | None:
        """Where to put errands; None where whoever asks runs them: the thread itself, and the last thread of a process
        that is ending."""
        if sys.is_finalizing() or threading.get_ident() == self._thread:
            return None
        tasks = self._tasks
        if tasks is not None:
            return tasks
        with self._start_lock:
            if self._tasks is None:
                tasks = SimpleQueue()
                thread = threading.Thread(target=_run_tasks, args=(tasks,), name="kvstore transactions", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the process is ending
                    return None
                self._tasks, self._thread = tasks, thread.ident
            return self._tasks

    def __del__(self) -> None:
        if self._tasks is not None:
            self._tasks.put(None)


def _run_tasks(tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task
