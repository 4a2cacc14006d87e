"""The thread of a store that begins and ends its write transactions. LMDB begins one by locking a mutex that only the
same thread can unlock. A *task* is a function for this thread to run, for which the calling thread waits.

No other thread could end the transaction: not by a ``close()`` elsewhere, and not by dropping the last reference to it.
Therefore one thread begins and ends all of them, and any thread may use them in between. In: functions without
arguments. Out: their results or errors.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Seconds without a task after which a thread ends whose owner was garbage-collected: the same collection may still
#: finalize transactions of this thread.
_GRACE_SECONDS = 1.0


class _Task:
    """A function to call, and its outcome."""

    def __init__(self, function: Callable[[], Any]) -> None:
        """Wrap ``function`` as a task, which one thread runs once and another waits for."""
        self._function = function
        # Held until the function has ended. A plain lock, not an Event: a finalizer, which can run at any point, even
        # within the methods of an Event, may wait for it.
        self._done_lock = threading.Lock()
        self._done_lock.acquire()
        self._start_lock = threading.Lock()  # acquired by the first :meth:`run`, and never released
        #: True once the function has ended.
        self.is_done = False
        #: What the function returned, and the exception that it raised, or None.
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call the function, keep its result or error, and wake the thread that waits. Does nothing the second time."""
        if not self._start_lock.acquire(blocking=False):
            return
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error
        del self._function
        self.is_done = True
        self._done_lock.release()

    def wait(self) -> None:
        """Wait until the function has ended."""
        if not self.is_done:
            self._done_lock.acquire()  # :meth:`run` releases it at the end


class TransactionThread:
    """Runs functions in one thread, which is started on first use; any thread may call it."""

    def __init__(self) -> None:
        """Create a runner whose thread is started by the first call to :meth:`run`."""
        self._start_lock = threading.Lock()
        #: The queue of the thread, in which None ends it; None before the thread is started and after :meth:`stop`.
        self._tasks: SimpleQueue[_Task | None] | None = None
        self._thread: int | None = None  # its identifier

    def run(self, function: Callable[[], Result]) -> Result:
        """Run ``function`` in the transaction thread and return its result, or raise its error.

        An interruption (Ctrl-C) is raised once the function has ended, and loses its result. In the transaction thread
        itself, and while the process is ending, the function is simply called.
        """
        tasks = self._ensure_started()
        if tasks is None:
            return function()
        task = _Task(function)
        interruption: BaseException | None = None
        while not task.is_done:
            try:
                tasks.put(task)  # again after an interruption, which may have come first; a task runs only once
                task.wait()
            except BaseException as caught:
                interruption = caught
        error, task.error = task.error, None
        try:
            if error is not None:
                raise error
            if interruption is not None:
                raise interruption
            return task.result  # type: ignore[no-any-return]
        finally:
            del task, error, interruption  # an error refers to this frame, which must not refer back to it

    def stop(self) -> None:
        """Make the thread end after its pending tasks, without waiting for it."""
        with self._start_lock:
            tasks, self._tasks, self._thread = self._tasks, None, None
        if tasks is not None:
            tasks.put(None)

    def _ensure_started(self) -> SimpleQueue[_Task | None] | None:
        """Start the thread if necessary, and return its task queue; None if the caller must run the function.

        The caller must do that if it is itself this thread, and while the process is ending.
        """
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
        """Make the thread end once no further task arrives."""
        if self._tasks is not None:
            # The collector can finalize a transaction of this thread later, which then still has to be rolled back.
            self._tasks.put(_Task(partial(_run_remaining_tasks, self._tasks)))


def _run_tasks(tasks: SimpleQueue[_Task | None]) -> None:
    """Run the tasks of a queue, in order, until it returns None."""
    while (task := tasks.get()) is not None:
        task.run()
        del task  # so that its result is not kept alive while the thread waits


def _run_remaining_tasks(tasks: SimpleQueue[_Task | None]) -> None:
    """Run the tasks that arrive after the :class:`TransactionThread` was finalized, then end the thread.

    This is itself the last task of the thread, which ends once no task has arrived for :data:`_GRACE_SECONDS`.
    """
    with suppress(Empty):
        while (task := tasks.get(timeout=_GRACE_SECONDS)) is not None:
            task.run()
    tasks.put(None)  # ends :func:`_run_tasks`, the caller
