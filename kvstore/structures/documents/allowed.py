"""Which documents may answer, as sets of their chunks.

In: ids of documents, and the leaf groups that each owns. Out: for ids of chunks in any number, whether they may answer.
Documents and their groups are numbered upwards together, so that the chunks of some documents are as many runs of ids,
and a chunk may answer where its group may: one look at a table of a byte a group, however many documents there are.
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
    """Chunks by their ids, ascending."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.count = len(ids)

    def mask(self, chunks: Ids) -> npt.NDArray[np.bool_]:
        return np.isin(chunks, self._ids)

    def find_positions(self, chunks: Ids) -> npt.NDArray[np.int64]:
        """Where they stand among some chunks, which ascend: the others, however many, are not looked at."""
        positions = chunks.searchsorted(self._ids)
        is_present = chunks.take(positions, mode="clip") == self._ids if len(chunks) else positions < 0
        return positions[is_present].astype(np.int64)


class AllowedDocuments:
    """The documents that may answer; never changed once it is made, so that threads can share it.

    ``documents`` are their ids, ascending; ``starts`` and ``stops``, one a document, where its chunks begin and end:
    ``start <= id < stop``, holes included. ``count`` is the number of their chunks, holes left out.
    """

    def __init__(self, documents: Ids, first_groups: Ids, groups: Ids, count: int) -> None:
        self.documents = documents
        self.starts: Ids = first_groups * np.uint64(GROUP_SIZE)
        self.stops: Ids = (first_groups + groups) * np.uint64(GROUP_SIZE)
        self.count = count

    @classmethod
    def from_records(cls, records: Iterable[DocumentRecord]) -> AllowedDocuments:
        """The documents of some records."""
        rows = sorted((record.id, record.first_group, len(record.groups), record.chunk_count) for record in records)
        columns = np.array(rows, np.uint64).reshape(-1, 4)
        return cls(columns[:, 0].copy(), columns[:, 1], columns[:, 2], int(columns[:, 3].sum()))

    @cached_property
    def groups(self) -> npt.NDArray[np.uint8]:
        """1 for a leaf group that may answer, by its number (``chunk // 5``); what lies beyond the end may not."""
        group = np.uint64(GROUP_SIZE)
        length = int(self.stops[-1] // group) if len(self.stops) else 0
        # +1 where a run begins and -1 where it ends; a document may be without chunks.
        nonempty = self.starts < self.stops
        deltas = np.zeros(length + 1, np.int8)
        deltas[(self.starts[nonempty] // group).astype(np.intp)] += 1
        deltas[(self.stops[nonempty] // group).astype(np.intp)] -= 1
        return np.cumsum(deltas[:length], dtype=np.int8).view(np.uint8)

    def mask(self, chunks: Ids) -> npt.NDArray[np.bool_]:
        """Which of some chunks may answer, in their order."""
        table = self.groups
        if not len(table):
            return np.zeros(len(chunks), np.bool_)
        groups = chunks // np.uint64(GROUP_SIZE)
        is_allowed: npt.NDArray[np.bool_] = table.view(np.bool_).take(groups.astype(np.intp), mode="clip")
        return is_allowed & (groups < len(table))

    def has_chunk(self, chunk: int) -> bool:
        """Whether one chunk may answer."""
        group = chunk // GROUP_SIZE
        return group < len(self.groups) and bool(self.groups[group])

    def get_document_mask(self, documents: Ids) -> npt.NDArray[np.bool_]:
        """Which of some documents may answer, in their order."""
        return np.isin(documents, self.documents)

    def has_chunk_between(self, first: int, last: int) -> bool:
        """Whether any chunk from ``first`` to ``last``, both included, may answer."""
        position = int(np.searchsorted(self.stops, np.uint64(first), "right"))
        return position < len(self.starts) and int(self.starts[position]) <= last

    def __contains__(self, document: object) -> bool:
        """Whether the document of this id may answer."""
        if not isinstance(document, int):
            return False
        position = int(np.searchsorted(self.documents, np.uint64(document)))
        return position < len(self.documents) and int(self.documents[position]) == document

    def __len__(self) -> int:
        """How many documents may answer."""
        return len(self.documents)


#: Some chunks, for whoever compares their vectors or scores their words: how many, and which of others are among them.
ChunkSet: TypeAlias = AllowedDocuments | ChunkList
