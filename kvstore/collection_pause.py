"""A pause of the interpreter's cyclic garbage collection, while many objects are made that all live on.

Each collection looks at every object that has survived so far. Loading makes hundreds of thousands that are freed
together at the end of a batch, by their reference counts: to look for cycles among them meanwhile cost a sixth of it.
What other threads leave in cycles waits as long, which is the time of a batch.

What is imported stays, and so does for a while what is derived of many documents, but the first collection behind a
pause would look at all of it. :func:`promote_objects` spares that: of the three generations that the interpreter keeps
(documentation of ``gc.freeze``), a collection of the youngest, which comes soon, looks at no object of the oldest.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_num_pauses = 0
_was_enabled = False


@contextmanager
def pause_collection() -> Iterator[None]:
    """Have no garbage collected automatically within the block, in any thread; blocks may overlap.

    A program that has switched collection off finds it off behind the block as well.
    """
    global _num_pauses, _was_enabled
    with _lock:
        if not _num_pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _num_pauses += 1
    try:
        yield
    finally:
        with _lock:
            _num_pauses -= 1
            if not _num_pauses and _was_enabled:
                gc.enable()


def promote_objects() -> None:
    """Count every object there is among those that have survived many collections, without a look at them.

    What a program has frozen stays so, and then nothing is done.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
