"""COMPACT: return the free space of the data file to the file system.

The change buffer is merged, vectors are packed into as few blocks as possible, stale quotes are removed from indexes,
and the data file is copied without its free pages.

In: an open environment and the dimension of the store's vectors. On disk: first ordinary commits, each of which
leaves a valid store; then a new ``data.mdb`` (see ``open_file.py``). Out: the file's size before and after. Obstacles
raise the errors of :meth:`Environment.compact`.

A store that grows in many commits, or is rebuilt, leaves much of its file free, because LMDB never changes a page in
place. Its used pages are half full, because LMDB splits a full page in halves. kvstore returns this space at the end of
such work, but only if no process has to wait for it.
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

#: The number of vector blocks that one commit empties; the vectors of these blocks are in memory at once.
MAX_EMPTIED_BLOCKS = 32

#: The smallest saving that is worth a new file.
MIN_SAVED_BYTES = 1 << 20
#: The largest content that is copied without a request: other processes that open the store wait for the copy, by
#: default a few seconds.
MAX_AUTOMATIC_BYTES = 1 << 29


def compact_store(environment: Environment, dimension: int, timeout: float | None = None) -> CompactReport:
    """Pack the vectors, remove stale quotes from indexes, merge the change buffer, and compact the data file.

    The report has the size of the data file before the packing and at the end. Each step waits at most ``timeout``
    seconds for another writer (default: the store's lock timeout). Raises the errors of :meth:`Environment.compact`.
    """
    bytes_before = environment.statistics().bytes
    # Each commit processes one batch.
    while environment.write_with_growth(lambda view: _pack_vectors(view, dimension), timeout):
        pass
    while environment.write_with_growth(_remove_stale_quotes, timeout):
        pass
    # The buffer has the texts of deleted documents. So it is merged even if that makes the file larger, as in a store
    # of a few documents: each of its tables then takes a page.
    environment.write_with_growth(WriteTransaction.merge_buffer, timeout)
    return replace(environment.compact(timeout), bytes_before=bytes_before)


class GrowthTracker:
    """Compacts a store's file if it has grown much since it was opened or last compacted here."""

    def __init__(self, environment: Environment) -> None:
        """Create a tracker that measures growth from the current size of the file."""
        self._environment = environment
        self._baseline_bytes = environment.statistics().used_bytes

    def compact_if_grown(self) -> None:
        """Compact the file if its used pages have more than doubled since the store was opened or compacted here.

        Copying then costs little compared to the growth itself. It saves space even if no page is free, because pages
        that were just written are only half full. A small or very large file, or a file that another process has open,
        is left unchanged.
        """
        has_grown = self._environment.statistics().used_bytes > max(2 * self._baseline_bytes, MIN_SAVED_BYTES)
        if has_grown and _try_compact(self._environment, only_if_sparse=False):
            self._baseline_bytes = self._environment.statistics().used_bytes


def compact_if_sparse(environment: Environment) -> None:
    """Compact the file if more than a quarter of it is free.

    The change buffer is merged first. Any obstacle, such as another process that has the store open, leaves the file
    unchanged. A large store is compacted only on request.
    """
    _try_compact(environment, only_if_sparse=True)


def _try_compact(environment: Environment, *, only_if_sparse: bool) -> bool:
    """Merge the change buffer, and compact the file unless it is large; return True if it was compacted.

    With ``only_if_sparse``, the file is compacted only if more than a quarter of it is free. Any obstacle, such as
    another writer, leaves the file unchanged.
    """
    with suppress(KvstoreError):
        if _count_occupied_bytes(environment) > MAX_AUTOMATIC_BYTES:
            return False  # merging the change buffer would already change most pages
        environment.write_with_growth(WriteTransaction.merge_buffer, timeout=0)
        used_bytes, occupied_bytes = environment.statistics().used_bytes, _count_occupied_bytes(environment)
        if only_if_sparse and used_bytes - occupied_bytes <= max(used_bytes // 4, MIN_SAVED_BYTES):
            return False
        environment.compact(timeout=0)
        return True
    return False


def _count_occupied_bytes(environment: Environment) -> int:
    """Return the number of bytes of the pages that contain records."""
    with environment.snapshot() as snapshot:
        tables = snapshot.get_table_statistics().values()
    return sum(
        table["psize"] * (table["branch_pages"] + table["leaf_pages"] + table["overflow_pages"]) for table in tables
    )


def _remove_stale_quotes(view: WriteView) -> bool:
    """Remove a batch of index rows that quote texts of an earlier state of the store. Return False if none exist."""
    from ..registry import list_generation_indexes
    from ..structures.indexes.generation_building import remove_stale_quotes

    return remove_stale_quotes(view, list_generation_indexes())


def _pack_vectors(view: WriteView, dimension: int) -> bool:
    """Move vectors from the last blocks of each vector space to free rows of earlier blocks.

    The vectors of chunks are a space, and so are the vectors of each derivation. At most :data:`MAX_EMPTIED_BLOCKS`
    blocks of a space are emptied. Returns False if no vector was moved.
    """
    from ..registry.derivation import list_stored_derivations
    from ..structures.derived_parts import DerivedPartWriter
    from ..structures.documents.chunks import ChunkWriter
    from ..structures.vectors.vectors import VectorWriter

    derived_writers = [
        DerivedPartWriter(view, stored_derivation.derivation, dimension)
        for stored_derivation in list_stored_derivations(view)
    ]
    spaces: list[tuple[VectorWriter, ChunkWriter | DerivedPartWriter]]
    spaces = [
        (VectorWriter(view, dimension), ChunkWriter(view)),
        *((parts.vectors, parts) for parts in derived_writers),
    ]
    has_moved = False
    for vectors, owner in spaces:
        moves = vectors.empty_last_blocks(MAX_EMPTIED_BLOCKS)
        owner.update_locations(moves)
        vectors.flush()
        has_moved = has_moved or bool(moves)
    return has_moved
