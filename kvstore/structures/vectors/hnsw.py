"""Graphs of near neighbours: hierarchical navigable small worlds (Malkov and Yashunin 2018), by hnswlib.

In: unit vectors under labels of 64 bits, and later a query vector. Out: the labels of largest cosine, approximately,
and the graph as named arrays that an index file keeps. hnswlib is loaded when a graph is first made or read;
where it is missing an IndexUnavailableError says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...errors import IndexUnavailableError
from .vectors import Ids, Matrix

if TYPE_CHECKING:
    import hnswlib

#: Decides the layers that vectors are drawn into, so that a graph is the same whenever it is built of the same.
SEED = 0x6B76
#: What a graph is built with, after which it cannot have others.
GRAPH_OPTIONS: Mapping[str, Option] = {
    "m": Option(16, 4, 100, "links that a vector has in a layer of the graph; twice as many in the lowest"),
    "ef_construction": Option(200, 8, 2000, "candidates looked at for the links of a new vector"),
}
#: A graph is built anew when more than this share of it is what is no more.
MOST_DEAD = 0.2
#: What of a graph is numbers, and what arrays, in hnswlib's words.
_ARRAYS = ("label_lookup_external", "label_lookup_internal", "element_levels", "data_level0", "link_lists")


def _library() -> Any:
    try:
        import hnswlib
    except ImportError as error:
        raise IndexUnavailableError(
            "hnswlib is not installed, so no index can be built or read; pip install hnswlib"
        ) from error
    return hnswlib


class HnswGraph:
    """Vectors and the links between near ones. Any number of threads may search it while none adds."""

    def __init__(self, index: hnswlib.Index) -> None:
        self._index = index

    @classmethod
    def new(cls, dimension: int, *, m: int, ef_construction: int) -> HnswGraph:
        """A graph of nothing; ``m`` links a vector and layer (twice as many in the lowest), ``ef_construction``
        candidates looked at for them."""
        index = _library().Index("ip", dimension)
        index.init_index(1024, M=m, ef_construction=ef_construction, random_seed=SEED)
        return cls(index)

    @classmethod
    def restored(cls, numbers: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> HnswGraph:
        """The graph that :meth:`parts` took apart; a copy, which later changes of the arrays do not touch."""
        kind = _library().Index
        index = kind.__new__(kind)
        index.__setstate__(({**numbers, **{name: arrays[name] for name in _ARRAYS}},))
        return cls(index)

    def parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """The graph as numbers and arrays; none may add meanwhile."""
        state: dict[str, Any] = self._index.__getstate__()[0]
        arrays = {name: state.pop(name) for name in _ARRAYS}
        return state, arrays

    def __len__(self) -> int:
        return int(self._index.element_count)

    def add(self, labels: Ids, vectors: Matrix) -> None:
        """Add unit vectors, shape (n, dimension), under labels that are not in use."""
        needed = len(self) + len(labels)
        if needed > self._index.max_elements:
            self._index.resize_index(max(needed, self._index.max_elements * 3 // 2))
        self._index.add_items(vectors, labels, num_threads=1)

    def search(self, query: Matrix, count: int) -> tuple[Ids, Matrix]:
        """About the ``count`` labels of largest cosine and their cosines, best first.

        ``count`` candidates are kept while the graph is walked, so asking for more than is wanted makes the first ones
        surer. It may give fewer, where a part of the graph cannot be reached from the rest.
        """
        count = min(count, len(self))
        while count:
            try:
                labels, distances = self._index.knn_query(query, k=count, num_threads=1)
            except RuntimeError:  # hnswlib's word for having found fewer
                count //= 2
            else:
                return labels[0].astype(np.uint64), 1 - distances[0]
        return np.empty(0, np.uint64), np.empty(0, np.float32)


def stored_vectors(numbers: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[Ids, Matrix]:
    """Labels (n) and vectors (n, dimension; a view) of a graph taken apart, in the order they were added."""
    count, stride = numbers["cur_element_count"], numbers["size_data_per_element"]
    if not count:
        return np.empty(0, np.uint64), np.empty((0, numbers["dim"]), np.float32)
    buffer = arrays["data_level0"].view(np.uint8).data
    labels: Ids = np.ndarray((count,), "<u8", buffer, numbers["label_offset"], (stride,)).copy()
    vectors: Matrix = np.ndarray((count, numbers["dim"]), "<f4", buffer, numbers["offset_data"], (stride, 4))
    return labels, vectors
