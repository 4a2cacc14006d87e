"""COMPACT: vectors into as few blocks as hold them, then the data file without what is empty in it.

In: an open environment and the dimension of the store's vectors. On disk: first ordinary commits, after each of which
the store is whole; then another ``data.mdb`` (see ``open_file.py``). Out: the file's size before and after. What stands
in the way raises the error of :meth:`Environment.compact`.
"""

from __future__ import annotations

from dataclasses import replace

from .chunks import ChunkWriter
from .environment import CompactReport, Environment, WriteView
from .vectors import VectorWriter

#: Vector blocks that one commit empties; it holds those that take their vectors in memory.
BLOCKS = 32


def compact(environment: Environment, dimension: int) -> CompactReport:
    """Give the space of deleted data back to the file system; raises what :meth:`Environment.compact` raises."""
    before = environment.statistics().bytes
    while environment.write_with_growth(lambda view: _pack_vectors(view, dimension)):
        pass
    return replace(environment.compact(), bytes_before=before)


def _pack_vectors(view: WriteView, dimension: int) -> bool:
    """Empty some vector blocks; False when there was none to empty."""
    vectors, chunks = VectorWriter(view, dimension), ChunkWriter(view)
    moved = vectors.pack(BLOCKS)
    for chunk, block, row in moved:
        chunks.put(chunk, chunks.get(chunk)._replace(block=block, row=row))
    vectors.flush()
    return bool(moved)
