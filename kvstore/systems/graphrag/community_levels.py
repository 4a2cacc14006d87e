"""Partitions of the entities, one for each level, that communities are made from. A *node* is an entity, given by its
index in the graph. A *partition* is an array with the group of each node.

In: an :class:`~.entity_graph.EntityGraph`, and with ``neighbours = knn`` the vectors of its nodes. Out: partitions of
the nodes, the coarsest first. One builder serves both papers, with affinity clustering or with their Leiden algorithm.
GraphRAG (Edge et al. 2024) is ``neighbours = none``: entities are related if they occur together. ArchRAG (Wang et al.
2025, algorithm 1) is ``neighbours = knn``: similarity of vectors counts too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...structures.clustering.affinity import Edges, Partition, cluster_graph, contract_edges
from ...structures.vectors.vectors import Matrix
from .attributes import augment_edges, compute_centroids
from .entity_graph import EntityGraph
from .leiden import partition_by_leiden, run_leiden_round

AFFINITY, LEIDEN = "affinity", "leiden"
NONE, KNN = "none", "knn"
#: The maximum number of levels.
_MAX_LEVELS = 4
#: The quantile of the edges' cosines that two nodes without an edge must exceed to be joined.
_JOIN_QUANTILE = 0.7


@dataclass(frozen=True, slots=True)
class CommunityOptions:
    """Options of community detection.

    ``method`` is :data:`AFFINITY` or :data:`LEIDEN`. With ``neighbours`` = :data:`KNN` instead of :data:`NONE`, similar
    entities are joined by edges, and all edges are weighted by cosine. ``largest`` is the maximum number of members of
    a group within one level: nodes, or groups of the finer level. A level with fewer than ``least`` groups is omitted,
    unless it is the finest.
    """

    method: str = AFFINITY
    neighbours: str = NONE
    largest: int = 15
    least: int = 10


def partition_entities(graph: EntityGraph, vectors: Matrix | None, options: CommunityOptions) -> list[Partition]:
    """Cluster the nodes of a graph into communities, by level; return a partition per level, coarsest first.

    A partition has the group of each node. The list is empty for a graph that cannot be partitioned. ``vectors`` are
    the vectors of the nodes, used only with the ``neighbours = knn`` option; None: that option has no effect.
    """
    count = len(graph.entities)
    if options.neighbours == KNN and vectors is not None:
        partitions = _partition_by_vectors(count, graph.edges, vectors, options)
    elif options.method == LEIDEN:
        partitions = partition_by_leiden(count, graph.edges, largest=options.largest, levels=_MAX_LEVELS)
    else:
        partitions = cluster_graph(count, graph.edges, max_cluster_size=options.largest, max_levels=_MAX_LEVELS)
    # ``partitions`` are finest first. Coarser levels with too few groups are omitted.
    coarser = [labels for labels in partitions[1:] if labels.max() + 1 >= options.least]
    return [*reversed(coarser), *partitions[:1]]


def _partition_by_vectors(count: int, edges: Edges, vectors: Matrix, options: CommunityOptions) -> list[Partition]:
    """Return partitions of ``count`` nodes, finest first, clustered by edges and by ``vectors`` (ArchRAG, algorithm 1).

    A partition has the group of each node. Each round clusters the groups of the round before, with edges weighted by
    the cosines of their centroids.
    """
    partitions: list[Partition] = []
    node_labels: Partition = np.arange(count)
    masses = np.ones(count, np.int64)
    while len(partitions) < _MAX_LEVELS and len(vectors) > 1:
        weighted_edges = augment_edges(len(vectors), edges, vectors, _JOIN_QUANTILE)
        if options.method == LEIDEN:
            labels = run_leiden_round(len(vectors), weighted_edges, largest=options.largest)
        else:
            rounds = cluster_graph(len(vectors), weighted_edges, max_cluster_size=options.largest, max_levels=1)
            labels = rounds[0] if rounds else np.arange(len(vectors))
        if labels.max() + 1 == len(vectors):  # nothing was grouped
            break
        num_groups = int(labels.max()) + 1
        vectors = compute_centroids(labels, num_groups, vectors, masses)
        masses = np.bincount(labels, masses, num_groups).astype(np.int64)
        edges = contract_edges(labels, edges)
        node_labels = labels[node_labels]
        partitions.append(node_labels)
    return partitions
