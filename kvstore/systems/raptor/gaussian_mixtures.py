"""Clustering as in RAPTOR: Gaussian mixtures whose size minimizes the Bayesian information criterion. A *node* is a
vector to group: of a chunk, or the centroid of a finer group. A *partition* has the group of each vector. A node can be
in several groups; its *own* group has the nearest centroid.

In: unit vectors in canonical order. Out: partitions, the finest first. As in Sarthi et al. (ICLR 2024, section 3), a
mixture is fitted to all nodes of a layer, then one within each of its clusters, and again within clusters that are too
large. The resulting clusters are the nodes of the next layer. Principal components replace the paper's UMAP, whose
result depends on the order of its rows even with a fixed seed. Adding or removing one document moves every cluster, so
REFRESH asks a model for nearly all texts again. ``affinity`` is therefore the default.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...extensions.extras import format_install
from ...structures.clustering.affinity import IntArray, Partition, renumber_clusters
from ...structures.vectors.vectors import Matrix

#: The number of principal components, and the minimum number of nodes that are split into groups.
_NUM_COMPONENTS = 10
_MIN_NODES = 12
#: The minimum probability with which a node belongs to a cluster: the threshold of the published code.
_MIN_PROBABILITY = 0.1
#: Cosines are rounded to this many steps before they are compared.
_COSINE_STEPS = 10_000
#: The numbers of clusters tried.
_CLUSTER_COUNTS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 33, 41, 50)

Points = npt.NDArray[np.float64]


class Mixtures(NamedTuple):
    """The groups of vectors at several levels, found by Gaussian mixtures.

    ``partitions`` hold the group of each vector, finest first, shape (n,) each. A vector can also be in other groups of
    the finest partition: ``second_groups`` has a row (group, vector) for each of them, shape (m, 2).
    """

    partitions: list[Partition]
    second_groups: IntArray


def fit_gaussian_mixtures(vectors: Matrix, size: int, levels: int) -> Mixtures:
    """Group unit vectors in at most ``levels`` levels; a finest group has at most ``size`` vectors if it can be split.

    This is the clustering of RAPTOR (section 3), with Gaussian mixtures. Raises InputError if scikit-learn is not
    installed.
    """
    mixture_class = _require_mixture_class()
    partitions: list[Partition] = []
    second_groups: IntArray = np.empty((0, 2), np.int64)
    # The nodes of the finest level are the vectors; the nodes of any other level are the centroids of the groups below.
    # ``node_labels`` has the node of each vector.
    nodes = vectors.astype(np.float64)
    node_labels: Partition = np.arange(len(vectors))
    while len(partitions) < levels and len(nodes) > 1:
        all_nodes = np.arange(len(nodes))
        outer_groups = _split_once(mixture_class, nodes, all_nodes, _CLUSTER_COUNTS)
        groups = [
            group for members in outer_groups for group in _split_recursively(mixture_class, nodes, members, size)
        ]
        labels, memberships = _label_nodes(nodes, groups)
        if labels.max() + 1 == len(nodes):
            break  # every group has a single node
        if not partitions:
            second_groups = memberships
        node_labels = labels[node_labels]
        partitions.append(node_labels)
        nodes = _compute_centroids(nodes, labels)
    return Mixtures(partitions, second_groups)


def _require_mixture_class() -> Any:
    """Import and return scikit-learn's GaussianMixture; raises InputError if the package is not installed."""
    try:
        from sklearn.mixture import GaussianMixture  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError(
            f"method = gmm needs scikit-learn; install it with {format_install('gmm')}, or use method = affinity"
        ) from error
    return GaussianMixture


def _split_recursively(mixture_class: Any, nodes: Points, members: IntArray, size: int) -> list[IntArray]:
    """Return the clusters of ``members`` in a mixture, each split again while it has more than ``size`` nodes.

    ``members`` are indexes of nodes, and ``mixture_class`` is scikit-learn's GaussianMixture.
    """
    min_count = 1 if len(members) <= size else 2
    max_count = max(2, 2 * len(members) // size)  # enough for clusters of half the size
    counts = [count for count in _CLUSTER_COUNTS if min_count <= count <= max_count]
    groups = _split_once(mixture_class, nodes, members, counts)
    if len(groups) == 1 or any(len(group) == len(members) for group in groups):
        return [members]  # the split separated nothing
    final_groups: list[IntArray] = []
    for group in groups:
        final_groups += _split_recursively(mixture_class, nodes, group, size) if len(group) > size else [group]
    return final_groups


def _split_once(mixture_class: Any, nodes: Points, members: IntArray, counts: Sequence[int]) -> list[IntArray]:
    """Return the clusters of ``members`` (indexes of nodes) in the best Gaussian mixture (``mixture_class``).

    A mixture is fitted for each of these ``counts`` of clusters; the best one minimizes the Bayesian information
    criterion. A node is in its most probable cluster, and in every other cluster that has a probability of at least
    :data:`_MIN_PROBABILITY` for it. Fewer than :data:`_MIN_NODES` nodes are a single cluster.
    """
    if len(members) < _MIN_NODES:
        return [members]
    rows = _compute_components(nodes[members])
    candidates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings that a fit did not converge
        for count in (count for count in counts if 2 * count <= len(rows)):
            mixture = mixture_class(count, random_state=0, reg_covar=1e-4).fit(rows)
            candidates.append((float(mixture.bic(rows)), count, mixture))
    _, _, best_mixture = min(candidates, key=lambda candidate: candidate[:2])  # by criterion, then by count
    probabilities = best_mixture.predict_proba(rows)
    is_member = probabilities >= _MIN_PROBABILITY
    is_member[np.arange(len(rows)), probabilities.argmax(axis=1)] = True
    return [members[column] for column in is_member.T if column.any()]


def _label_nodes(nodes: Points, groups: Sequence[IntArray]) -> tuple[Partition, IntArray]:
    """Return the own group of each node, and rows (group, node) for the other groups that contain the node.

    The own group is the one with the nearest centroid. A group that is no node's own is dropped, and the others are
    numbered by their first node.
    """
    best_cosines = np.full(len(nodes), -np.inf)
    labels: Partition = np.zeros(len(nodes), np.int64)
    for label, group in enumerate(groups):
        total = nodes[group].sum(axis=0)
        norm = max(float(np.sqrt(total @ total)), 1e-12)  # not 0, because it is a divisor
        cosines = np.rint(nodes[group] @ total / norm * _COSINE_STEPS)
        is_better = cosines > best_cosines[group]
        labels[group[is_better]], best_cosines[group[is_better]] = label, cosines[is_better]
    new_labels = renumber_clusters(labels)
    new_by_old_label = dict(zip(labels.tolist(), new_labels.tolist(), strict=True))
    memberships = sorted(
        (new_by_old_label[label], node)
        for label, group in enumerate(groups)
        if label in new_by_old_label  # the group is the nearest one of some node
        for node in group[labels[group] != label].tolist()
    )
    return new_labels, np.array(memberships, np.int64).reshape(-1, 2)


def _compute_centroids(nodes: Points, labels: Partition) -> Points:
    """Return the unit centroid of each group of nodes; ``labels`` has the group of each node, from 0."""
    sums = np.zeros((labels.max() + 1, nodes.shape[1]))
    np.add.at(sums, labels, nodes)
    norms = np.sqrt((sums * sums).sum(axis=1, keepdims=True))
    return np.asarray(sums / np.where(norms == 0, 1, norms))


def _compute_components(nodes: Points) -> Points:
    """Return the coordinates of nodes along the first principal components.

    Each axis is oriented so that its largest component is positive, which makes the result reproducible.
    """
    centered = nodes - nodes.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)  # the columns, by ascending variance
    axes = vectors[:, ::-1][:, : min(_NUM_COMPONENTS, len(nodes) - 1)]
    largest_rows = np.abs(axes).argmax(axis=0)
    signs = np.sign(axes[largest_rows, np.arange(axes.shape[1])])
    return np.asarray(centered @ (axes * signs))
