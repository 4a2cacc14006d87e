"""A writer that can be killed at a named point, for crash tests.

A point is a moment in a write: a record about to be put, the filter about to give up its pages, a commit about to
begin or just over, a file about to be flushed or renamed.
``call_at_every_point`` patches the store's own code to call a function at each of them; the store has no code for this.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest import MonkeyPatch

from kvstore.changes.changes import Changes
from kvstore.changes.linking import Linker
from kvstore.ingest import document_batch, file_visit
from kvstore.storage import change_buffer
from kvstore.storage.data_file import DataFile
from kvstore.storage.write_transaction import WriteTransaction
from kvstore.structures.filter.entity_filter import EntityFilter
from kvstore.structures.postings import PostingWriter
from kvstore.structures.vectors.vectors import VectorWriter

#: Called with the name of a point that is reached.
PointCallback = Callable[[str], None]

#: Where a point lies: before a call, or after it.
POINTS: list[tuple[str, Any, str, bool]] = [
    ("put", WriteTransaction, "put", False),
    ("delete", WriteTransaction, "delete", False),
    ("change many", WriteTransaction, "change_many", False),
    ("clear", WriteTransaction, "clear", False),
    ("merge buffer", WriteTransaction, "merge_buffer", False),
    ("buffer merged", WriteTransaction, "merge_buffer", True),
    ("commit", WriteTransaction, "commit", False),
    ("committed", WriteTransaction, "commit", True),
    ("finish", Changes, "finish", False),
    ("link older", Linker, "link_new_names", False),
    ("flush postings", PostingWriter, "flush", False),
    ("flush vectors", VectorWriter, "flush", False),
    ("flush filter", EntityFilter, "flush", False),
    ("write copy", DataFile, "_write_successor", False),
    ("copied", DataFile, "_write_successor", True),
    ("fsync", os, "fsync", False),
    ("rename", os, "rename", False),
    ("renamed", os, "rename", True),
    ("rename path", Path, "rename", False),
    ("renamed path", Path, "rename", True),
]


@contextmanager
def call_at_every_point(on_point: PointCallback) -> Iterator[None]:
    """Call ``on_point`` at every point; a run then passes the same points each time."""

    def wrap_before(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            on_point(name)
            return function(*arguments, **options)

        return call

    def wrap_after(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            on_point(name)
            return result

        return call

    with MonkeyPatch.context() as patch:
        # Files count as ingested once they have been left alone for a while: here at once, so that a run is the same
        # however long it takes.
        patch.setattr(file_visit, "SETTLED_SECONDS", 0)
        # A history is short: the change buffer is merged more often than it is in a long one, and a few files are
        # several batches.
        patch.setattr(change_buffer, "MAX_SEGMENTS", 3)
        patch.setattr(document_batch, "BATCH_DOCUMENTS", 16)
        for name, owner, attribute, is_after in POINTS:
            patch.setattr(owner, attribute, (wrap_after if is_after else wrap_before)(name, getattr(owner, attribute)))
        yield


def run_until_killed(work: Callable[[], None], *, seconds: float | None = None) -> bool:
    """Return True if a child that runs ``work`` is killed, by itself or after so many seconds.

    An error in the child fails the test.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if seconds is not None:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
            work()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    _, result = os.waitpid(child, 0)
    if os.WIFSIGNALED(result):
        assert os.WTERMSIG(result) in (signal.SIGKILL, signal.SIGALRM), (
            f"the writer died of signal {os.WTERMSIG(result)}"
        )
        return True
    assert os.WEXITSTATUS(result) == 0, "the writer failed; its traceback is above"
    return False


def make_killer_at(number: int) -> PointCallback:
    """Return a callback that kills this process with SIGKILL at the point of this number."""
    reached = -1

    def on_point(_: str) -> None:
        nonlocal reached
        reached += 1
        if reached == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_point
