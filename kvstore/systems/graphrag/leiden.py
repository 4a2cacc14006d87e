"""Leiden communities, as the published systems have them (Traag et al. 2019), by graspologic-native.

In: edges between nodes. Out: partitions, the finest first. Leiden depends on how nodes are numbered and in which order
edges come: nodes are named by their rank in the caller's order, and edges sorted. A document more or less changes more
than half of the groups, as the random numbers that are drawn follow from how many nodes there are: the method is there
for the papers' sake.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from ...errors import InputError
from ...structures.clustering.affinity import Edges, Partition, renumber_clusters

#: The seed of the published systems.
SEED = 0xDEADBEEF


def partition_by_leiden(count: int, edges: Edges, *, largest: int, levels: int) -> list[Partition]:
    """Partitions of ``count`` nodes, the finest first, at most ``levels``: a group of more than ``largest`` is parted
    again, where it can be. Raises InputError where graspologic-native is not installed."""
    library = require_leiden()
    if not len(edges.weights):  # which the library takes for an error
        return []
    columns = (column.tolist() for column in edges)
    edge_list = [(str(first), str(second), float(weight)) for first, second, weight in zip(*columns, strict=True)]
    clusters = library.hierarchical_leiden(edge_list, max_cluster_size=largest, seed=SEED)
    partitions: list[Partition] = []
    labels: Partition = np.arange(count) + len(clusters)  # above all numbers of groups
    for level in range(min(levels, 1 + max(cluster.level for cluster in clusters))):
        labels = labels.copy()
        for cluster in clusters:
            if cluster.level == level:
                labels[int(cluster.node)] = cluster.cluster
        partitions.append(labels)
    return [renumber_clusters(labels) for labels in reversed(partitions)]


def run_leiden_round(count: int, edges: Edges, *, largest: int) -> Partition:
    """One partition of ``count`` nodes, a group of more than ``largest`` parted as far as it can be."""
    partitions = partition_by_leiden(count, edges, largest=largest, levels=count)
    return partitions[0] if partitions else np.arange(count)


def require_leiden() -> ModuleType:
    """graspologic-native; raises InputError where it is not installed."""
    try:
        import graspologic_native
    except ImportError as error:
        raise InputError(
            "communities by method = leiden need graspologic-native; pip install 'kvstore[communities]', or leave out "
            "the method: affinity needs nothing"
        ) from error
    module: ModuleType = graspologic_native
    return module
