"""C-HNSW: one graph over all layers of a hierarchy of unit vectors (ArchRAG, arXiv 2502.09891, section 3.1.3).

In: the vectors of each layer, the widest first, who is a member of whom, and a digest of each node's name. Out: named
arrays that an index file keeps, and the nearest nodes of every layer in one descent over these arrays where they lie,
read or mapped. The kernel ``kvstore_cext.chnsw`` says how they are built and walked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kvstore_cext.chnsw import NONE, LayeredGraph, LayeredGraphBuilder, checksums

from ...arguments import Option
from ...errors import IndexUnavailableError
from .vectors import Matrix

#: What it is built with.
LAYERED_OPTIONS: Mapping[str, Option] = {
    "m": Option(16, 4, 100, "links that a node has in its layer; twice as many in the lowest"),
    "exact_below": Option(20_000, 0, 10**9, "with fewer nodes there are no links, and all nodes are compared"),
}
#: Arrays of which the kernel verifies what it meets, node by node: nobody need read them before.
CHECKED_IN_PLACE = ("vectors", "links0", "links", "down")
#: Candidates looked at for the links of a node.
_EF_CONSTRUCTION = 100
#: Nodes inserted between two looks at whether to go on.
_INSERT_BATCH = 500


def build_layered_arrays(
    layers: Sequence[Matrix],
    parents: Sequence[npt.NDArray[np.int64]],
    digests: Sequence[npt.NDArray[np.uint64]],
    *,
    m: int,
    exact_below: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> dict[str, npt.NDArray[Any]] | None:
    """The arrays of a graph over unit vectors, shape (nodes, dimension) a layer, layer 0 first; None once cancelled.

    A function of the vectors, of ``parents``, which say of all layers but the highest for each node which one of the
    next layer it is a member of (-1: none), and of ``digests``, which say for each node when it is inserted, ties by
    number: an order that does not follow the names' and does not change with what else there is. ``progress`` hears
    nodes done of all.
    """
    layer_starts = np.cumsum([0, *map(len, layers)], dtype=np.uint32)
    vectors = np.ascontiguousarray(np.concatenate(layers), np.float32)
    bounds, members = _group_members(layer_starts.astype(np.int64), parents)
    arrays: dict[str, npt.NDArray[Any]] = {
        "layers": layer_starts,
        "vectors": vectors,
        "bounds": bounds,
        "members": members,
    }
    if len(vectors) < exact_below:
        num_upper = len(vectors) - len(layers[0])
        arrays |= {"links0": np.empty((len(layers[0]), 0), np.uint32), "links": np.empty((num_upper, 0), np.uint32)}
        arrays |= {"down": np.full(num_upper, NONE, np.uint32), "entry": layer_starts[:-1].copy()}
        return {**arrays, "checks": checksums(layer_starts, vectors)}
    order = np.concatenate(
        [start + np.argsort(keys, kind="stable") for start, keys in zip(layer_starts.tolist(), digests, strict=False)]
    )
    builder = LayeredGraphBuilder(layer_starts, vectors, order.astype(np.uint32), m, _EF_CONSTRUCTION)
    remaining = builder.advance(0)
    while remaining:
        if is_cancelled():
            return None
        remaining = builder.advance(_INSERT_BATCH)
        progress(len(vectors) - remaining, len(vectors))
    graph_arrays = zip(("links0", "links", "down", "entry", "checks"), builder.arrays(), strict=True)
    return arrays | dict(graph_arrays)


def _group_members(
    layer_starts: npt.NDArray[np.int64], parents: Sequence[npt.NDArray[np.int64]]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Where the members of each node above layer 0 begin and end, and all of them."""
    owner_arrays = [
        np.where(layer_parents < 0, -1, layer_parents + start)
        for layer_parents, start in zip(parents, layer_starts[1:], strict=False)
    ]
    owners = np.concatenate((*owner_arrays, np.empty(0, np.int64)))
    members = np.argsort(owners, kind="stable")
    sorted_owners = owners[members]
    bounds = np.searchsorted(sorted_owners, np.arange(layer_starts[1], layer_starts[-1] + 1))
    return bounds.astype(np.uint32), members.astype(np.uint32)


class LayeredVectors:
    """The graph that :func:`build_layered_arrays` made, searched where its arrays lie; any number of threads may.

    Raises IndexUnavailableError where the arrays do not fit each other.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        names = ("layers", "vectors", "links0", "links", "down", "entry", "checks", "bounds", "members")
        try:
            self._graph = LayeredGraph(*(arrays[name] for name in names))
        except (TypeError, ValueError) as error:
            raise IndexUnavailableError(f"the layers of the graph contradict each other: {error}") from error
        self._layer_starts = arrays["layers"].tolist()
        #: Whether a search walks links; else all nodes are compared.
        self.is_linked = arrays["links0"].shape[1] > 0

    @property
    def sizes(self) -> list[int]:
        """Nodes of each layer, layer 0 first."""
        return [layer_stop - layer_start for layer_start, layer_stop in pairwise(self._layer_starts)]

    def find_nearest(self, query: Matrix, counts: Sequence[int], ef: int) -> list[list[tuple[int, float]]]:
        """About the ``counts[l]`` nodes of largest cosine of each layer l and their cosines, best first.

        Nodes are numbered within their layer. ``query`` is a unit vector; ``ef`` candidates are kept while a layer is
        walked. Raises IndexUnavailableError where a node that is met fails its checksum.
        """
        try:
            nodes, cosines, bounds, _ = self._graph.search(query, np.array(counts, np.int64), ef)
        except ValueError as error:
            raise IndexUnavailableError(str(error)) from error
        return [
            list(zip((nodes[low:high] - first).tolist(), cosines[low:high].tolist(), strict=True))
            for first, (low, high) in zip(self._layer_starts, pairwise(bounds.tolist()), strict=False)
        ]
