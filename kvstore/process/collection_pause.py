"""A pause of the interpreter's cyclic garbage collection, for code that creates many long-lived objects.

Each collection scans every object that has survived so far. Loading creates hundreds of thousands of objects that are
freed together at the end of a batch, by their reference counts. Searching for cycles among them took a sixth of the
time. Cycles that other threads leave behind wait for the duration of a batch.

Imported objects and, for a while, data derived from many documents stay alive, but the first collection after a pause
would scan all of them. :func:`promote_objects` avoids that. The interpreter keeps three generations (documentation of
``gc.freeze``), and a collection of the youngest, which comes soon, scans no object of the oldest.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from types import ModuleType

#: A program that freezes its objects has more frozen ones: a bare interpreter has 5,000 objects, and Python 3.12 starts
#: with 375 frozen.
_MIN_FROZEN = 1000

_lock = Lock()
_num_pauses = 0
_was_enabled = False


@contextmanager
def pause_collection() -> Iterator[None]:
    """Disable automatic garbage collection in all threads within the block. Blocks can overlap.

    If the program had already disabled collection, it remains disabled after the block.
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


def import_with_gc_paused(name: str) -> ModuleType:
    """Import a module and return it; pause garbage collection during the import, because an import leaves no garbage.

    The imported objects are promoted, so that the next collection of the youngest generation does not scan them.
    """
    if name in sys.modules:
        return import_module(name)  # waits if another thread is still importing it
    with pause_collection():
        module = import_module(name)
        promote_objects()
    return module


def promote_objects() -> None:
    """Move all existing objects to the oldest generation of the garbage collector, without scanning them.

    Does nothing if the program itself has frozen objects (``gc.freeze``), because they must stay frozen.
    """
    if gc.get_freeze_count() < _MIN_FROZEN:
        gc.freeze()
        gc.unfreeze()  # moves frozen objects to the oldest generation
