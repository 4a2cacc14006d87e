"""The index file of kind ``synonyms``: the names of entities as vectors, and the pairs that mean much the same.

In: an index file, made by :mod:`.synonym_building`. Out: entities near to another or to a vector, those alone that the
state asked has. It is as new as the last REFRESH: names that came later are not in it, and those that went are left
out.

A name is a row; the graph's labels are rows. A row whose entity is 0 is of a name that is no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...storage.view import View
from ..counters import Counters
from ..names.entities import Entities
from ..vectors.hnsw import Graph, stored_vectors
from ..vectors.vectors import Matrix, cosines
from . import index_file
from .index_file import LoadedFile, being_drafted
from .indexes import SYNONYMS, Indexes, IndexRecord, IndexStatus

#: The arrays of the file beside those of the graph.
COLUMNS = ("entities", "digests", "first", "second", "cosines")
#: Candidates kept during a search, at least.
SEARCHED = 64

Rows = npt.NDArray[np.uint32]


class NameState(Protocol):
    """The parts of one state that a search of names reads."""

    @property
    def lmdb(self) -> View: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def indexes(self) -> Indexes: ...


@dataclass(frozen=True)
class SynonymIndex:
    """What the file holds: names as rows, and pairs of rows, each pair in both directions and in order of the first.

    ``digests`` tell the form of a name that its vector is of.
    """

    graph: Graph
    vectors: Matrix
    entities: Rows
    digests: npt.NDArray[np.uint64]
    first: Rows
    second: Rows
    cosines: Matrix
    change: int
    epoch: int
    options: dict[str, float]

    @classmethod
    def read(cls, path: Path, dimension: int, trusted: Callable[[bytes], bool]) -> SynonymIndex:
        """Read an index file; raises FileNotFoundError and IndexUnavailableError."""
        head, arrays = index_file.read(path, SYNONYMS, dimension, trusted)
        _, vectors = stored_vectors(head["numbers"], arrays)
        return cls(
            graph=Graph.restored(head["numbers"], arrays),
            vectors=vectors,
            change=head["change"],
            epoch=head["epoch"],
            options=head["options"],
            **{name: arrays[name] for name in COLUMNS},
        )

    def row_of(self, entity: int) -> int | None:
        """The row of an entity's name, or None."""
        order, entities = self._order
        place = int(np.searchsorted(entities, entity))
        return int(order[place]) if entity and place < len(order) and entities[place] == entity else None

    @cached_property
    def _order(self) -> tuple[npt.NDArray[np.intp], Rows]:
        order = np.argsort(self.entities)
        return order, self.entities[order]


class SynonymSearch:
    """The synonyms of one open store; ``trusted`` says whether a token stands in the newest record."""

    def __init__(self, directory: Path, dimension: int, trusted: Callable[[bytes], bool]) -> None:
        path = index_file.path_of(directory, SYNONYMS)
        self.file = LoadedFile(path, lambda path: SynonymIndex.read(path, dimension, trusted))

    def of(self, state: NameState) -> Synonyms | None:
        """The synonyms as a state may use them; None where there is no index, or no file of it that can be used."""
        record = state.indexes.get(SYNONYMS)
        index = None if record is None else self._index(record)
        return None if index is None else Synonyms(index, state.lmdb)

    def status(self, state: NameState) -> IndexStatus | None:
        """How the index stands, as the state sees it; None where the store has none."""
        record, change = state.indexes.get(SYNONYMS), state.counters.change
        if record is None:
            return None
        index = self._index(record)
        built = 0 if index is None else index.change
        if being_drafted(self.file.path):
            return IndexStatus(SYNONYMS, "building", built, max(0, change - built))
        if index is None:
            return self.file.missing(SYNONYMS, change)
        names = int(np.count_nonzero(index.entities))
        return IndexStatus(
            SYNONYMS, "ready", built, max(0, change - built), f"{names:,} names, {len(index.first) // 2:,} pairs"
        )

    def _index(self, record: IndexRecord) -> SynonymIndex | None:
        """What the file holds, unless ids were handed out anew since."""
        index = self.file.get()
        return index if index is not None and index.epoch == record.epoch else None


class Synonyms:
    """The synonym index as one view may use it: it never names an entity that the view does not have."""

    def __init__(self, index: SynonymIndex, view: View) -> None:
        self._index = index
        self._entities = Entities(view)

    def neighbours(self, entity: int) -> list[tuple[int, float]]:
        """Entities whose names mean much the same as that of ``entity``, with their cosines, the nearest first."""
        row = self._index.row_of(entity)
        if row is None:
            return []
        index = self._index
        start, stop = np.searchsorted(index.first, [row, row + 1])
        others = index.entities[index.second[start:stop]].tolist()
        found = list(zip(others, index.cosines[start:stop].tolist(), strict=True))
        return self._in_order(self._present(found))

    def nearest(self, vector: Matrix, count: int) -> list[tuple[int, float]]:
        """The ``count`` entities whose names are nearest to a unit vector, with their cosines, best first."""
        wanted = max(SEARCHED, 2 * count)
        while True:
            labels, _ = self._index.graph.search(vector, wanted)
            rows = labels.astype(np.intp)
            # The graph only proposes: what it finds is compared again, as chunks are.
            named, nearest = self._index.entities[rows].tolist(), cosines(self._index.vectors[rows], vector).tolist()
            found = self._present(list(zip(named, nearest, strict=True)))
            if len(found) >= count or len(rows) < wanted:
                return self._in_order(found)[:count]
            wanted *= 4

    def _in_order(self, found: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Entities by cosine, equals by name."""
        return sorted(found, key=lambda item: (-item[1], self._entities.get(item[0]).key))

    def _present(self, found: list[tuple[int, float]]) -> list[tuple[int, float]]:
        return [(entity, cosine) for entity, cosine in found if entity and entity in self._entities]
