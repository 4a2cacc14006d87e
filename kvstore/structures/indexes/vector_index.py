"""The index file of kind ``vectors``: a graph of chunk vectors, and how far it goes.

In: an index file, or chunks to be added. Out: candidates for a query vector, and the arrays of the next file. A file of
another dimension, epoch or history raises IndexUnavailableError.

What a graph covers is a list of (change, stop): every chunk with an id below ``stop`` that the store had at ``change``
is in the graph. Ids only grow and a chunk never changes, so what is there at a later state too is in the graph as well;
the rest begins at ``stop``. Chunks that are no more stay in the graph, for the states that still have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..vectors.hnsw import Graph, stored_vectors
from ..vectors.vectors import Ids, Matrix
from . import index_file
from .indexes import VECTORS, IndexRecord, graph_options

#: (change, stop) pairs, both ascending.
Coverage = tuple[tuple[int, int], ...]

#: Pairs kept; a state older than all of them is searched exactly.
_MOST_COVERED = 32


def reach(coverage: Coverage, change: int) -> int | None:
    """The id up to which a coverage holds what the store had at ``change``; None where it begins later."""
    return next((stop for covered, stop in reversed(coverage) if covered <= change), None)


def covered_further(coverage: Coverage, change: int, stop: int) -> Coverage:
    """A coverage to which the chunks below ``stop`` were added, as they were at ``change``."""
    return (*coverage, (change, stop))[-_MOST_COVERED:]


@dataclass(frozen=True)
class VectorIndex:
    """A graph of chunk vectors as it was read from its file."""

    graph: Graph
    labels: Ids
    vectors: Matrix
    coverage: Coverage
    token: bytes
    epoch: int
    options: Mapping[str, int]

    @classmethod
    def read(cls, path: Path, dimension: int, trusted: Callable[[bytes], bool]) -> VectorIndex:
        """Read an index file; ``trusted`` says whether a token stands in the store's record.

        Raises FileNotFoundError and IndexUnavailableError.
        """
        head, arrays = index_file.read(path, VECTORS, dimension, trusted)
        numbers = head["numbers"]
        labels, vectors = stored_vectors(numbers, arrays)
        coverage = tuple((int(change), int(stop)) for change, stop in head["coverage"])
        return cls(
            Graph.restored(numbers, arrays), labels, vectors, coverage, head["token"], head["epoch"], head["options"]
        )

    @property
    def change(self) -> int:
        """The last change whose chunks were added."""
        return self.coverage[-1][0]

    def rows_of(self, chunks: Ids) -> npt.NDArray[np.intp]:
        """The rows of those chunks that are in the graph."""
        order, labels = self._order
        places = np.minimum(np.searchsorted(labels, chunks), len(labels) - 1)
        rows: npt.NDArray[np.intp] = order[places[labels[places] == chunks]]
        return rows

    @cached_property
    def _order(self) -> tuple[npt.NDArray[np.intp], Ids]:
        order = np.argsort(self.labels)
        return order, self.labels[order]


def file_of(
    graph: Graph, coverage: Coverage, token: bytes, record: IndexRecord
) -> tuple[dict[str, Any], index_file.Arrays]:
    """Head and arrays of the file that holds a graph."""
    numbers, arrays = graph.parts()
    head = {
        "kind": VECTORS,
        "token": token,
        "epoch": record.epoch,
        "options": graph_options(record),
        "coverage": [list(pair) for pair in coverage],
        "numbers": numbers,
    }
    return head, arrays
