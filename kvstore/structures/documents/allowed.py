"""Sets of allowed documents (those that match a query's condition), and of their chunks. Chunk ids are assigned in
*groups* of GROUP_SIZE consecutive ids. All ids of a group belong to one document, and the groups of a document are
consecutive.

In: document ids, and the groups that each document owns. Out: for any number of chunk ids, whether each is allowed. A
chunk is allowed if its group is: one lookup in a table of one byte per group, however many documents there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .chunks import GROUP_SIZE
from .documents import DocumentRecord

Ids = npt.NDArray[np.uint64]


class ChunkList:
    """A set of chunks, given by their ids, ascending."""

    def __init__(self, ids: Ids) -> None:
        """Create the set of the chunks ``ids``, distinct and ascending."""
        self._ids = ids
        self.num_chunks = len(ids)

    def get_chunk_mask(self, chunks: Ids) -> npt.NDArray[np.bool_]:
        """Return a mask of ``chunks``: True for each chunk that is in the set."""
        return np.isin(chunks, self._ids)

    def find_positions(self, chunks: Ids) -> npt.NDArray[np.int64]:
        """Return the positions in ``chunks`` (ascending) of the chunks that are in the set, by binary search."""
        if not len(chunks):
            return np.empty(0, np.int64)
        positions = chunks.searchsorted(self._ids)
        is_present: npt.NDArray[np.bool_] = chunks.take(positions, mode="clip") == self._ids
        return positions[is_present].astype(np.int64)


class AllowedDocuments:
    """The documents that a query allows: their ids (``documents``), ascending, and their number of chunks. ``starts``
    and ``stops`` limit the chunk ids of each document: ``start <= id < stop``, including unused ids. Instances are
    immutable, so threads can share them.
    """

    def __init__(self, documents: Ids, first_groups: Ids, group_counts: Ids, num_chunks: int) -> None:
        """Create the set of ``documents``, ids ascending, which have ``num_chunks`` chunks together.

        The chunk ids of a document form consecutive groups of GROUP_SIZE ids each. ``first_groups`` and
        ``group_counts`` are the number of the first group and the number of groups of each document.
        """
        self.documents = documents
        #: The range of chunk ids of each document, ascending; some of the ids are unused.
        self.starts: Ids = first_groups * np.uint64(GROUP_SIZE)
        self.stops: Ids = (first_groups + group_counts) * np.uint64(GROUP_SIZE)
        self.num_chunks = num_chunks

    @classmethod
    def from_records(cls, records: Iterable[DocumentRecord]) -> AllowedDocuments:
        """Create the set of the documents with these records, in any order."""
        rows = sorted((record.id, record.first_group, len(record.groups), sum(record.groups)) for record in records)
        columns = np.array(rows, np.uint64).reshape(-1, 4)
        return cls(columns[:, 0], columns[:, 1], columns[:, 2], int(columns[:, 3].sum()))

    @cached_property
    def group_flags(self) -> npt.NDArray[np.uint8]:
        """A flag for each group of GROUP_SIZE consecutive chunk ids: 1 if its document is in the set, else 0.

        The group of a chunk is its id // GROUP_SIZE. Groups beyond the end of the array are not in the set.
        """
        group_size = np.uint64(GROUP_SIZE)
        length = int(self.stops[-1] // group_size) if len(self.stops) else 0
        # +1 at the start of each run and -1 at its end. A document may have no chunks.
        nonempty = self.starts < self.stops
        deltas = np.zeros(length + 1, np.int8)
        deltas[(self.starts[nonempty] // group_size).astype(np.intp)] += 1
        deltas[(self.stops[nonempty] // group_size).astype(np.intp)] -= 1
        return np.cumsum(deltas[:length], dtype=np.int8).view(np.uint8)

    def get_chunk_mask(self, chunks: Ids) -> npt.NDArray[np.bool_]:
        """Return a mask of ``chunks``: True for each chunk of a document that the query allows.

        All chunk ids of a group of GROUP_SIZE ids belong to one document, so the flag of the group decides.
        """
        flags = self.group_flags
        if not len(flags):
            return np.zeros(len(chunks), np.bool_)
        groups = chunks // np.uint64(GROUP_SIZE)
        is_allowed: npt.NDArray[np.bool_] = flags.view(np.bool_).take(groups.astype(np.intp), mode="clip")
        return is_allowed & (groups < len(flags))

    def is_chunk_allowed(self, chunk: int) -> bool:
        """True if the chunk belongs to a document that the query allows."""
        group = chunk // GROUP_SIZE  # the ids of a group all belong to one document
        return group < len(self.group_flags) and bool(self.group_flags[group])

    def __contains__(self, document: object) -> bool:
        """True if the query allows the document with this id."""
        if not isinstance(document, int):
            return False
        position = int(np.searchsorted(self.documents, np.uint64(document)))
        return position < len(self.documents) and int(self.documents[position]) == document

    def __len__(self) -> int:
        """Return the number of documents that the query allows."""
        return len(self.documents)


#: A set of chunks that restricts a vector or keyword search: it has a number of chunks and tests membership.
ChunkSet: TypeAlias = AllowedDocuments | ChunkList
