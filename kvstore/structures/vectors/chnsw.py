"""C-HNSW: one graph over all layers of a hierarchy of unit vectors (ArchRAG, arXiv 2502.09891, section 3.1.3). Layer 0
has the most nodes; each node may have a parent in the next layer. *Links* join near nodes. A small graph has no links,
and a search compares all of its nodes.

In: the vectors of each layer, the widest first, the parent of each node in the next layer, and a digest of each node's
name. Out: named arrays for an index file, and the nearest nodes of every layer in one descent. The search uses the
arrays in place, read or memory-mapped. The kernel ``kvstore_cext.chnsw`` documents how graphs are built and searched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kvstore_cext.chnsw import NONE, LayeredGraph, LayeredGraphBuilder, compute_checksums

from ...errors import IndexUnavailableError
from .vectors import Matrix

#: Arrays that the kernel verifies node by node during a search, so that they need not be read in advance.
CHECKED_IN_PLACE = ("vectors", "links0", "links", "down")
#: Candidates examined for the links of a node.
_EF_CONSTRUCTION = 100
#: Nodes inserted between two checks for cancellation.
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
    """Build the arrays of a C-HNSW graph (ArchRAG) over unit vectors; return None if ``is_cancelled`` returns true.

    ``layers`` has the vectors of each layer from layer 0, shape (nodes, dimension). ``parents`` holds for each node,
    except in the highest layer, the index of its parent in the next layer (-1: none). ``m`` sets the number of links of
    a node. A graph of fewer than ``exact_below`` nodes has no links, and a search compares all nodes. ``digests``
    determine the order of insertion, ties by index, so this order does not depend on the order of the nodes.
    ``progress`` receives the counts of completed and of all nodes. The result depends only on the vectors, ``parents``,
    ``digests`` and the parameters.
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
        num_upper = len(vectors) - len(layers[0])  # nodes above layer 0
        arrays |= {"links0": np.empty((len(layers[0]), 0), np.uint32), "links": np.empty((num_upper, 0), np.uint32)}
        arrays |= {"down": np.full(num_upper, NONE, np.uint32), "entry": layer_starts[:-1].copy()}
        return {**arrays, "checks": compute_checksums(layer_starts, vectors)}
    # Nodes are inserted layer by layer, in the order of their digests; ``layer_starts`` also has the end of the last.
    order = np.concatenate(
        [start + np.argsort(keys, kind="stable") for start, keys in zip(layer_starts.tolist(), digests, strict=False)]
    )
    builder = LayeredGraphBuilder(layer_starts, vectors, order.astype(np.uint32), m, _EF_CONSTRUCTION)
    num_unlinked = builder.link_nodes(0)
    while num_unlinked:
        if is_cancelled():
            return None
        num_unlinked = builder.link_nodes(_INSERT_BATCH)
        progress(len(vectors) - num_unlinked, len(vectors))
    graph_arrays = zip(("links0", "links", "down", "entry", "checks"), builder.build_arrays(), strict=True)
    return arrays | dict(graph_arrays)


def _group_members(
    layer_starts: npt.NDArray[np.int64], parents: Sequence[npt.NDArray[np.int64]]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Group the nodes by parent: return (bounds, members), the bounds of each group and the nodes sorted by parent.

    Nodes without a parent come first, and are in no group. The members of the i-th node above layer 0 are
    ``members[bounds[i]:bounds[i + 1]]``.
    """
    # The parents, numbered over all layers; -1 for a node without a parent.
    parent_arrays = [
        np.where(layer_parents < 0, -1, layer_parents + start)
        for layer_parents, start in zip(parents, layer_starts[1:], strict=False)
    ]
    all_parents = np.concatenate((*parent_arrays, np.empty(0, np.int64)))
    members = np.argsort(all_parents, kind="stable")
    sorted_parents = all_parents[members]
    bounds = np.searchsorted(sorted_parents, np.arange(layer_starts[1], layer_starts[-1] + 1))
    return bounds.astype(np.uint32), members.astype(np.uint32)


class LayeredVectors:
    """A graph built by :func:`build_layered_arrays`, searched in place; any number of threads may search it."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Open a graph with several layers (C-HNSW); ``arrays`` are the arrays of an index file, by name.

        Raises IndexUnavailableError if the arrays are inconsistent.
        """
        names = ("layers", "vectors", "links0", "links", "down", "entry", "checks", "bounds", "members")
        try:
            self._graph = LayeredGraph(*(arrays[name] for name in names))
        except (TypeError, ValueError) as error:
            raise IndexUnavailableError(f"the layers of the graph contradict each other: {error}") from error
        self._layer_starts = arrays["layers"].tolist()
        #: True for a graph search, which follows links; False for an exact search, which compares all nodes.
        self.is_linked = arrays["links0"].shape[1] > 0

    @property
    def sizes(self) -> list[int]:
        """The number of nodes of each layer, layer 0 first."""
        return [layer_stop - layer_start for layer_start, layer_stop in pairwise(self._layer_starts)]

    def find_nearest(self, query: Matrix, counts: Sequence[int], ef: int) -> list[list[tuple[int, float]]]:
        """Return (node, cosine) of the ``counts[l]`` nodes with the largest cosines in each layer l, best first.

        The result is approximate. A node is numbered within its layer. This is the search of C-HNSW (ArchRAG,
        section 3.2.1), one descent from the highest layer. ``query`` is a unit vector. The search keeps ``ef``
        candidates per layer. Raises IndexUnavailableError if a visited node fails its checksum.
        """
        try:
            nodes, cosines, bounds, _ = self._graph.search(query, np.array(counts, np.int64), ef)
        except ValueError as error:
            raise IndexUnavailableError(str(error)) from error
        nearest_by_layer = []
        for first_node, (start, stop) in zip(self._layer_starts, pairwise(bounds.tolist()), strict=False):
            nodes_in_layer = nodes[start:stop] - first_node
            nearest_by_layer.append(list(zip(nodes_in_layer.tolist(), cosines[start:stop].tolist(), strict=True)))
        return nearest_by_layer
