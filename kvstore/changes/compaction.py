"""COMPACT: the change buffer is merged, vectors go into as few blocks as hold them, what indexes still quote of
documents that have changed is removed, then the data file loses what is empty in it.

In: an open environment and the dimension of the store's vectors. On disk: first ordinary commits, after each of which
the store is whole; then another ``data.mdb`` (see ``open_file.py``). Out: the file's size before and after. What stands
in the way raises the error of :meth:`Environment.compact`.

What grows a store in many commits, or makes all of it again, leaves much of the file free, because LMDB never changes a
page in place, and the pages in use half full, because it halves a full one that something is put into. That is given
back at its end, but only where nobody has to wait for it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import KvstoreError
from ..storage.environment import CompactReport, Environment, WriteTransaction, WriteView

if TYPE_CHECKING:
    from ..structures.derived_parts import DerivedPartWriter
    from ..structures.documents.chunks import ChunkWriter
    from ..structures.vectors.vectors import VectorWriter

#: Vector blocks that one commit empties; it holds those that take their vectors in memory.
MAX_EMPTIED_BLOCKS = 32

#: Bytes that are worth another file, and bytes of pages that are copied to it in the few seconds that whoever opens the
#: store meanwhile waits by default.
WORTHWHILE, SOON_COPIED = 1 << 20, 1 << 29


def compact_store(environment: Environment, dimension: int) -> CompactReport:
    """Give the space of deleted data back to the file system; raises what :meth:`Environment.compact` raises."""
    bytes_before = environment.statistics().bytes
    while environment.write_with_growth(lambda view: _pack_vectors(view, dimension)):
        pass
    while environment.write_with_growth(_remove_stale_quotes):
        pass
    environment.write_with_growth(WriteTransaction.merge_buffer)
    return replace(environment.compact(), bytes_before=bytes_before)


class GrowthTracker:
    """How much of a store's file was made since it was opened, or since it was compacted for its growth."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._baseline_bytes = environment.statistics().used_bytes

    def compact_if_grown(self) -> None:
        """Compact the file where it has more than doubled, for which copying it is little work.

        As :func:`compact_if_sparse`, however little is free: the pages in use are half full.
        """
        has_grown = self._environment.statistics().used_bytes > max(2 * self._baseline_bytes, WORTHWHILE)
        if has_grown and _try_compact(self._environment, sparse=False):
            self._baseline_bytes = self._environment.statistics().used_bytes


def compact_if_sparse(environment: Environment) -> None:
    """Compact the file where more than a quarter of it is free.

    Whatever stands in the way, such as another process that has the store open, leaves the file as it is, and a large
    store is not compacted unasked.
    """
    _try_compact(environment, sparse=True)


def _try_compact(environment: Environment, *, sparse: bool) -> bool:
    """Compact the file unless it is large, with ``sparse`` where much of it is free; says whether that was done."""
    with suppress(KvstoreError):
        if _count_occupied_bytes(environment) > SOON_COPIED:
            return False  # before the change buffer is merged, which may change most of the pages
        environment.write_with_growth(WriteTransaction.merge_buffer, timeout=0)
        used_bytes, occupied_bytes = environment.statistics().used_bytes, _count_occupied_bytes(environment)
        if sparse and used_bytes - occupied_bytes <= max(used_bytes // 4, WORTHWHILE):
            return False
        environment.compact(timeout=0)
        return True
    return False


def _count_occupied_bytes(environment: Environment) -> int:
    """Bytes of the pages that hold records."""
    kinds = ("branch_pages", "leaf_pages", "overflow_pages")
    with environment.snapshot() as snapshot:
        return sum(table["psize"] * sum(table[kind] for kind in kinds) for table in snapshot.tables().values())


def _remove_stale_quotes(view: WriteView) -> bool:
    """Remove some of what indexes quote of documents that have changed; False when there was none to remove."""
    from ..structures.indexes.generation_building import remove_stale_quotes
    from ..systems import list_generation_kinds

    return remove_stale_quotes(view, list_generation_kinds())


def _pack_vectors(view: WriteView, dimension: int) -> bool:
    """Empty some vector blocks of each space; False when there was none to empty."""
    from ..structures.derived_parts import DerivedPartWriter
    from ..structures.documents.chunks import ChunkWriter
    from ..structures.vectors.vectors import VectorWriter
    from ..systems.kept_derivations import list_stored_derivations

    derived = [
        DerivedPartWriter(view, kept_derivation.derivation, dimension)
        for kept_derivation in list_stored_derivations(view)
    ]
    spaces: list[tuple[VectorWriter, ChunkWriter | DerivedPartWriter]]
    spaces = [(VectorWriter(view, dimension), ChunkWriter(view)), *((parts.vectors, parts) for parts in derived)]
    has_emptied = False
    for vectors, owner in spaces:
        moves = vectors.pack(MAX_EMPTIED_BLOCKS)
        owner.update_locations(moves)
        vectors.flush()
        has_emptied = has_emptied or bool(moves)
    return has_emptied
