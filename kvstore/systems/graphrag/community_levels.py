"""Which entities belong together, at every level: the partitions that communities are made of.

In: an :class:`~.entity_graph.EntityGraph`, and with ``neighbours = knn`` the vectors of its nodes. Out: partitions of
the nodes, the coarsest first. One builder for GraphRAG (Edge et al. 2024; ``neighbours = none``: what stands together)
and ArchRAG (Wang et al. 2025, algorithm 1; ``neighbours = knn``: what stands together and means the same), by affinity
clustering or by the Leiden algorithm of the papers.
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


@dataclass(frozen=True, slots=True)
class CommunityOptions:
    """How communities are found.

    ``largest`` members are in a group of one level at most (nodes, or groups of the level below); a level of fewer than
    ``least`` groups is left out, and there are ``levels`` at most. ``percentile``: of the cosines of all edges, the one
    that two nodes without an edge must exceed to be joined.
    """

    method: str = AFFINITY
    neighbours: str = NONE
    percentile: float = 0.7
    largest: int = 15
    least: int = 10
    levels: int = 4


def partition_entities(graph: EntityGraph, vectors: Matrix | None, options: CommunityOptions) -> list[Partition]:
    """Partitions of the nodes of a graph, the coarsest first; none where there are no nodes.

    ``vectors`` are those of the nodes, which ``neighbours = knn`` needs.
    """
    count = len(graph.entities)
    if options.neighbours == KNN and vectors is not None:
        partitions = _partition_by_vectors(count, graph.edges, vectors, options)
    elif options.method == LEIDEN:
        partitions = partition_by_leiden(count, graph.edges, largest=options.largest, levels=options.levels)
    else:
        partitions = cluster_graph(count, graph.edges, size=options.largest, levels=options.levels)
    coarser = [labels for labels in partitions[1:] if labels.max() + 1 >= options.least]
    return [*reversed(coarser), *partitions[:1]]


def _partition_by_vectors(count: int, edges: Edges, vectors: Matrix, options: CommunityOptions) -> list[Partition]:
    """Partitions, the finest first: round after round over a graph of the groups so far, weighed by their vectors."""
    partitions: list[Partition] = []
    node_labels: Partition = np.arange(count)
    masses = np.ones(count, np.int64)
    while len(partitions) < options.levels and len(vectors) > 1:
        weighted_edges = augment_edges(len(vectors), edges, vectors, options.percentile)
        if options.method == LEIDEN:
            labels = run_leiden_round(len(vectors), weighted_edges, largest=options.largest)
        else:
            rounds = cluster_graph(len(vectors), weighted_edges, size=options.largest, levels=1)
            labels = rounds[0] if rounds else np.arange(len(vectors))
        if labels.max() + 1 == len(vectors):
            break
        groups = int(labels.max()) + 1
        vectors = compute_centroids(labels, groups, vectors, masses)
        masses = np.bincount(labels, masses, groups).astype(np.int64)
        edges = contract_edges(labels, edges)
        node_labels = labels[node_labels]
        partitions.append(node_labels)
    return partitions
