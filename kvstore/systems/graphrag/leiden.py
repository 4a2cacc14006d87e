"""Leiden communities, as in the published systems (Traag et al. 2019), by graspologic-native. A *partition* is an array
with the group of each node.

In: edges between nodes. Out: partitions, the finest first. The result of Leiden depends on the numbering of nodes and
the order of edges. Nodes are therefore numbered by their rank in the caller's order, and edges are sorted. Adding or
removing one document changes more than half of the groups, because the random numbers drawn depend on the number of
nodes. The method exists for comparison with the papers.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from ...errors import InputError
from ...extensions.extras import format_install
from ...structures.clustering.affinity import Edges, Partition, renumber_clusters

#: The seed of the published systems.
SEED = 0xDEADBEEF


def partition_by_leiden(count: int, edges: Edges, *, largest: int, levels: int) -> list[Partition]:
    """Return at most ``levels`` partitions of ``count`` nodes, finest first, by Leiden (Traag et al. 2019).

    A partition has the group of each node. A group of more than ``largest`` nodes is split again if possible. Raises
    InputError if graspologic-native is not installed.
    """
    library = require_leiden()
    if not len(edges.weights):  # the library rejects an empty graph
        return []
    columns = (column.tolist() for column in edges)
    edge_list = [(str(first), str(second), float(weight)) for first, second, weight in zip(*columns, strict=True)]
    # Level 0 is the coarsest. A finer level has entries only for the nodes whose cluster was split.
    clusters = library.hierarchical_leiden(edge_list, max_cluster_size=largest, seed=SEED)
    partitions: list[Partition] = []
    labels: Partition = np.arange(count) + len(clusters)  # labels of isolated nodes, above all cluster labels
    for level in range(min(levels, 1 + max(cluster.level for cluster in clusters))):
        labels = labels.copy()
        for cluster in clusters:
            if cluster.level == level:
                labels[int(cluster.node)] = cluster.cluster
        partitions.append(labels)
    return [renumber_clusters(labels) for labels in reversed(partitions)]


def run_leiden_round(count: int, edges: Edges, *, largest: int) -> Partition:
    """Return the finest partition of ``count`` nodes by Leiden; groups of more than ``largest`` are split if possible.

    A graph without edges has a group for each node.
    """
    partitions = partition_by_leiden(count, edges, largest=largest, levels=count)
    return partitions[0] if partitions else np.arange(count)


def require_leiden() -> ModuleType:
    """Import and return graspologic-native; raises InputError if it is not installed."""
    try:
        import graspologic_native
    except ImportError as error:
        raise InputError(
            f"method = leiden needs graspologic-native; install it with {format_install('communities')}, or use "
            "method = affinity"
        ) from error
    module: ModuleType = graspologic_native
    return module
