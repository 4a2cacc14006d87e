"""Vectors of entities and communities, and edges weighted by them (ArchRAG: Wang et al. 2025, sections 3.1 and 3.2). A
*node* is an entity, given by its index in the graph. The *code* of an edge is first node · number of nodes + second.
Cosines and weights are integers in units of 2^-16.

In: an :class:`~.entity_graph.EntityGraph` and the stored vectors of chunks. Out: the vector of each node, the
strength-weighted centroid of the chunks that mention it, so nothing new is embedded. Also the edges weighted by cosine,
plus edges between similar nodes that share no chunk (KNN augmentation).

The paper's algorithm 1 weights edges by 1 - cosine, which is a distance, but clustering needs a similarity. kvstore
uses the cosine. Cosines that decide an edge are first rounded to 2^-16, and ties are broken by the order of the nodes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...structures.clustering.affinity import FIXED_ONE, Edges, IntArray
from ...structures.clustering.nearest_rows import find_near_rows
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from .entity_graph import EntityGraph, find_group_starts

#: The number of vectors read, or pairs multiplied, at a time.
_BATCH_SIZE = 8192
#: The minimum cosine of joined nodes if the graph has no edges to derive it from.
_DEFAULT_MIN_COSINE = 0.8
#: The number of nearest nodes compared for each edge that a node can get.
_CANDIDATE_FACTOR = 1.5
#: The minimum cosine is rounded down to a multiple of this, so that adding one document seldom changes it.
_COSINE_STEP = 1 / 64


def load_chunk_vectors(state: State, graph: EntityGraph) -> Matrix:
    """Return the vectors of the chunks of a graph, in its order, shape (chunks, dimension)."""
    vectors = np.empty((len(graph.chunks), state.settings.dimension), np.float32)
    for first in range(0, len(vectors), _BATCH_SIZE):
        locations = state.chunks.get_vector_locations(graph.chunks[first : first + _BATCH_SIZE].tolist())
        vectors[first : first + _BATCH_SIZE] = state.vectors.gather(locations)
    return vectors


def compute_entity_vectors(graph: EntityGraph, chunk_vectors: Matrix) -> Matrix:
    """Return unit vectors of the nodes (entities), shape (nodes, dimension).

    The vector of a node is the centroid of the chunks that mention it, weighted by the strength of the mentions.
    ``chunk_vectors`` has the vectors of the graph's chunks, in its order.
    """
    order = np.argsort(graph.mention_nodes, kind="stable")
    starts = np.searchsorted(graph.mention_nodes[order], np.arange(len(graph.entities) + 1))
    sums = np.zeros((len(graph.entities), chunk_vectors.shape[1]), np.float64)
    first = 0
    while first < len(sums):  # a batch of nodes with at most _BATCH_SIZE mentions, or of one node with more
        stop = max(first + 1, int(np.searchsorted(starts, starts[first] + _BATCH_SIZE, "right")) - 1)
        mentions = order[starts[first] : starts[stop]]
        weighted_vectors = chunk_vectors[graph.mention_chunks[mentions]] * graph.strengths[mentions, None]
        sums[first:stop] = np.add.reduceat(weighted_vectors, starts[first:stop] - starts[first])
        first = stop
    return normalize_rows(sums)


def compute_centroids(groups: IntArray, count: int, vectors: Matrix, masses: IntArray) -> Matrix:
    """Return the unit centroids of ``count`` groups of vectors, shape (count, dimension).

    ``groups`` is the group of each vector, and ``masses`` its weight. Vectors with group -1 are ignored.
    """
    order = np.argsort(groups, kind="stable")
    order = order[np.searchsorted(groups[order], 0) :]
    sums = np.zeros((count, vectors.shape[1]), np.float64)
    for first in range(0, len(order), _BATCH_SIZE):
        rows = order[first : first + _BATCH_SIZE]
        row_groups = groups[rows]
        starts = find_group_starts(row_groups)  # a group can continue in the next batch
        weighted_vectors = vectors[rows] * masses[rows, None].astype(np.float64)
        sums[row_groups[starts]] += np.add.reduceat(weighted_vectors, starts)
    return normalize_rows(sums)


def normalize_rows(sums: npt.NDArray[np.float64]) -> Matrix:
    """Return the rows of a matrix, scaled to length 1; a zero row stays zero."""
    norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    norms[norms == 0] = 1
    normalized: Matrix = (sums / norms[:, None]).astype(np.float32)
    return normalized


def augment_edges(count: int, edges: Edges, vectors: Matrix, quantile: float) -> Edges:
    """Weight the edges of ``count`` nodes by the cosines of their ends, and join similar nodes (ArchRAG, algorithm 1).

    Communities then group entities that are related or similar. Let m be the mean degree of the nodes that have edges.
    Each node is joined to at most m of its ⌊1.5 m⌋ + 1 nearest nodes. Their cosine must exceed the ``quantile`` (0 to
    1) of the cosines of the existing edges. Without any edge, m is ⌊√count / 2⌋ and the minimum cosine is fixed.
    ``vectors`` has the unit vector of each node.
    """
    weights = _compute_cosines(vectors, edges.first, edges.second)
    if len(weights):
        min_cosine = np.floor(float(np.quantile(weights / FIXED_ONE, quantile)) / _COSINE_STEP) * _COSINE_STEP
        ends = np.concatenate((edges.first, edges.second))
        degrees = np.bincount(ends, minlength=count)
        max_neighbors = max(1, int(degrees.sum() // np.count_nonzero(degrees)))
    else:
        min_cosine, max_neighbors = _DEFAULT_MIN_COSINE, max(1, int(np.sqrt(count) // 2))
    edge_codes = edges.first * count + edges.second  # one number for each pair of nodes
    new_codes, new_weights = _find_new_edges(edge_codes, vectors, max_neighbors, min_cosine)
    all_codes, all_weights = np.concatenate((edge_codes, new_codes)), np.concatenate((weights, new_weights))
    order = np.argsort(all_codes)
    # The weight of an edge is positive, even if the cosine is not.
    return Edges(all_codes[order] // count, all_codes[order] % count, np.maximum(all_weights[order], 1))


def _find_new_edges(
    edge_codes: IntArray, vectors: Matrix, max_neighbors: int, min_cosine: float
) -> tuple[IntArray, IntArray]:
    """Return the codes and the weights of edges from nodes to similar nodes, at most ``max_neighbors`` per node.

    ``edge_codes`` are the codes of the existing edges, which are not returned; a code is one number for a pair of
    nodes. ``vectors`` has the unit vector of each node, and the cosine of a new edge exceeds ``min_cosine``.
    """
    count = len(vectors)
    # Some of the nearest are already joined by edges, so more are needed than are added (-1: no more neighbors).
    neighbor_rows = find_near_rows(vectors, int(_CANDIDATE_FACTOR * max_neighbors) + 1)
    first = np.repeat(np.arange(count), neighbor_rows.shape[1])
    neighbors = neighbor_rows.ravel()
    is_valid = neighbors >= 0
    first, neighbors = first[is_valid], neighbors[is_valid]
    cosines = _compute_cosines(vectors, first, neighbors)
    codes = np.minimum(first, neighbors) * count + np.maximum(first, neighbors)
    is_new = (cosines > min_cosine * FIXED_ONE) & ~np.isin(codes, edge_codes)
    # Sort the new edges by node, then by descending cosine; keep the first ``max_neighbors`` edges of each node.
    order = np.lexsort((neighbors, -cosines, first))
    order = order[is_new[order]]
    order = order[_mask_first(first[order], max_neighbors)]
    new_codes, unique_rows = np.unique(codes[order], return_index=True)  # two nodes can be neighbors of each other
    return new_codes, cosines[order][unique_rows]


def _mask_first(groups: IntArray, limit: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the first ``limit`` elements of each group; ``groups`` has the group of each, ascending."""
    starts = np.searchsorted(groups, groups)  # the index of the first element of the group
    return np.arange(len(groups)) - starts < limit


def _compute_cosines(vectors: Matrix, first: IntArray, second: IntArray) -> IntArray:
    """Return the cosines of pairs of vectors as integers in units of 2^-16.

    ``first`` and ``second`` are the indexes of the vectors of each pair.
    """
    cosines = np.empty(len(first), np.int64)
    for start in range(0, len(first), _BATCH_SIZE):
        batch = slice(start, start + _BATCH_SIZE)
        first_vectors = vectors[first[batch]].astype(np.float64)
        second_vectors = vectors[second[batch]].astype(np.float64)
        cosines[batch] = np.rint(np.einsum("ij,ij->i", first_vectors, second_vectors) * FIXED_ONE).astype(np.int64)
    return cosines
