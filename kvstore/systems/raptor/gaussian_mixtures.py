"""Clustering as in RAPTOR: Gaussian mixtures whose size minimizes the Bayesian information criterion.

In: unit vectors in canonical order. Out: partitions, the finest first. As in Sarthi et al. (ICLR 2024, section 3), a
mixture is fitted to all nodes of a layer, then one within each of its clusters. The resulting clusters are the nodes of
the next layer. Principal components replace the paper's UMAP, whose result depends on the order of its rows even with a
fixed seed. Adding or removing one document moves every cluster, so REFRESH asks a model for nearly all texts again.
``affinity`` is therefore the default.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...extensions.extras import format_install
from ...structures.clustering.affinity import Partition, renumber_clusters
from ...structures.vectors.vectors import Matrix

#: The number of principal components, and the minimum number of nodes that are split into groups.
_NUM_COMPONENTS = 10
_MIN_NODES = 12
#: The numbers of clusters tried.
_CLUSTER_COUNTS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 33, 41, 50)


def fit_gaussian_mixtures(vectors: Matrix, levels: int) -> list[Partition]:
    """Return partitions of unit vectors, finest first: the group of each vector, shape (n,).

    Raises InputError if scikit-learn is not installed.
    """
    try:
        from sklearn.mixture import GaussianMixture  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError(
            f"method = gmm needs scikit-learn; install it with {format_install('gmm')}, or use method = affinity"
        ) from error
    partitions: list[Partition] = []
    nodes = vectors.astype(np.float64)
    node_labels: Partition = np.arange(len(vectors))
    while len(partitions) < levels and len(nodes) > 1:
        labels = np.zeros(len(nodes), np.int64)
        groups = 0
        outer = _fit_mixture(GaussianMixture, nodes)
        for cluster in range(outer.max() + 1):
            members = np.flatnonzero(outer == cluster)
            inner = _fit_mixture(GaussianMixture, nodes[members])
            labels[members] = groups + inner
            groups += int(inner.max()) + 1
        labels = renumber_clusters(labels)
        if labels.max() + 1 == len(nodes):
            break
        node_labels = labels[node_labels]
        partitions.append(node_labels)
        sums = np.zeros((labels.max() + 1, nodes.shape[1]))
        np.add.at(sums, labels, nodes)
        norms = np.sqrt((sums * sums).sum(axis=1, keepdims=True))
        nodes = sums / np.where(norms == 0, 1, norms)
    return partitions


def _fit_mixture(mixture_class: Any, nodes: npt.NDArray[np.float64]) -> Partition:
    """Return the cluster of each node in the mixture whose size minimizes the Bayesian information criterion."""
    if len(nodes) < _MIN_NODES:
        return np.zeros(len(nodes), np.int64)
    points = _compute_components(nodes)
    candidates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings that a fit did not converge
        for count in (count for count in _CLUSTER_COUNTS if 2 * count <= len(points)):
            mixture = mixture_class(count, random_state=0, reg_covar=1e-4).fit(points)
            candidates.append((float(mixture.bic(points)), count, mixture))
    _, _, best_mixture = min(candidates, key=lambda candidate: candidate[:2])
    return renumber_clusters(best_mixture.predict(points))


def _compute_components(nodes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the coordinates along the first principal components, with signs fixed by the largest coordinate."""
    centered = nodes - nodes.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    axes = vectors[:, ::-1][:, : min(_NUM_COMPONENTS, len(nodes) - 1)]
    largest = np.abs(axes).argmax(axis=0)
    return np.asarray(centered @ (axes * np.sign(axes[largest, np.arange(axes.shape[1])])))
