"""The layout of the map: clusters of vectors as separate discs, or UMAP if it is installed. A cluster's *center* is the
mean direction of its vectors. Its *disc* is its circle on the map, and its *axes* are the two directions in which its
vectors vary most.

In: a sample of vectors, shape (vectors, dimension). Out: a layout, which assigns each vector a position and a cluster.
Clusters are those of spherical k-means (Dhillon and Modha 2001, "Concept decompositions for large sparse text data
using clustering") on centered vectors. Their centers are placed by classical scaling (Torgerson 1952) of their cosines
and then moved apart until their discs do not overlap; the area of a disc is proportional to the size of its cluster. In
its disc, a vector is placed by the two principal axes of its cluster. With the ``umap-learn`` package, positions are
those of UMAP (McInnes, Healy and Melville 2018) instead.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

#: The maximum number of clusters, one less than the stylesheet has colors.
MAX_CLUSTERS = 11
#: The number of starts and of steps of the clustering.
_NUM_STARTS, _NUM_STEPS = 4, 30
#: The maximum number of vectors that the axes of a cluster are computed from, and the gap between discs.
_MAX_MEMBERS = 1000
_GAP = 0.25
#: The number of steps that move discs apart. A step moves a disc by a share of its overlaps, so that positions
#: converge, and by a share of its distance from the center, which keeps the map compact.
_NUM_MOVES, _PUSH_SHARE, _PULL_SHARE = 400, 0.25, 0.004
#: The distance between discs whose centers are equal before they are moved apart.
_MIN_DISTANCE = 1e-3
#: A vector is divided by its length, but by no less than this, so never by 0.
_MIN_LENGTH = 1e-9
#: The minimum number of vectors for UMAP.
_MIN_UMAP_VECTORS = 30

#: Vectors in float32, one per row.
MapVectors = npt.NDArray[np.float32]


class MapLayout:
    """A layout, computed from a sample of vectors: the centers, discs and axes of ``num_clusters`` clusters, or a UMAP
    model, which then places all vectors. ``method`` is ``clusters`` or ``UMAP``.
    """

    def __init__(self, sample: MapVectors) -> None:
        """Compute the clusters of a sample of vectors, shape (vectors, dimension), which may be empty.

        A cluster gets a disc on the map, and two axes, which place its vectors in the disc. If UMAP is installed and
        the sample is not small, UMAP is also fitted to it, and then places all vectors instead.
        """
        num_vectors, dimension = sample.shape
        self._mean = sample.mean(0) if num_vectors else np.zeros(dimension, np.float32)
        vectors = self._normalize(sample)
        # A rule of thumb: the square root of half the number of vectors.
        self.num_clusters = min(MAX_CLUSTERS, max(1, round((num_vectors / 2) ** 0.5)))
        self._centers = (
            _find_centers(vectors, self.num_clusters) if num_vectors else np.zeros((1, dimension), np.float32)
        )
        clusters = self.assign_clusters(sample)
        sizes = np.bincount(clusters, minlength=self.num_clusters)
        self._radii = np.sqrt(sizes / max(1, num_vectors))
        self._disc_centers = _place_discs(self._centers, self._radii)
        self._axes = [_find_axes(vectors[clusters == cluster]) for cluster in range(self.num_clusters)]
        self._umap = _fit_umap(sample)
        self.method = "clusters" if self._umap is None else "UMAP"

    def _normalize(self, vectors: MapVectors) -> MapVectors:
        """Return vectors minus the mean of the sample, scaled to length 1."""
        centered_vectors = vectors - self._mean
        lengths = np.maximum(np.linalg.norm(centered_vectors, axis=1, keepdims=True), _MIN_LENGTH)
        return np.asarray(centered_vectors / lengths, np.float32)

    def assign_clusters(self, vectors: MapVectors) -> npt.NDArray[np.intp]:
        """Return the index of the cluster with the nearest center for each vector."""
        return np.asarray(np.argmax(self._normalize(vectors) @ self._centers.T, 1))

    def compute_cosines(self, vectors: MapVectors) -> npt.NDArray[np.float32]:
        """Return the cosine of each vector, once centered, with the center of its cluster."""
        return np.asarray((self._normalize(vectors) @ self._centers.T).max(1), np.float32)

    def project(self, vectors: MapVectors) -> npt.NDArray[np.float32]:
        """Return the position of each vector, shape (vectors, 2): by UMAP, or on the disc of the vector's cluster."""
        if self._umap is not None:
            return np.asarray(self._umap.transform(vectors), np.float32)
        clusters, unit_vectors = self.assign_clusters(vectors), self._normalize(vectors)
        points = self._disc_centers[clusters].astype(np.float32)
        for cluster, (axes, scale) in enumerate(self._axes):
            members = clusters == cluster
            offsets = (unit_vectors[members] - self._centers[cluster]) @ axes / scale
            distances = np.linalg.norm(offsets, axis=1, keepdims=True)
            directions = offsets / np.maximum(distances, _MIN_LENGTH)
            # tanh keeps every member inside the disc of its cluster.
            points[members] += directions * np.tanh(distances) * self._radii[cluster]
        return points


def _find_centers(vectors: MapVectors, num_clusters: int) -> MapVectors:
    """Return the unit vectors of up to ``num_clusters`` cluster centers, by descending size of the cluster.

    Runs spherical k-means from several random starts, and selects the run with the greatest sum of cosines.
    ``vectors`` have length 1.
    """
    generator = np.random.default_rng(0)
    best_score, best_centers = -np.inf, vectors[:1]
    for _ in range(_NUM_STARTS):
        centers = _refine_centers(vectors, _choose_start(vectors, num_clusters, generator))
        score = float((vectors @ centers.T).max(1).sum())
        if score > best_score + 1e-6:  # by more than rounding errors
            best_score, best_centers = score, centers
    sizes = np.bincount(np.argmax(vectors @ best_centers.T, 1), minlength=len(best_centers))
    return best_centers[np.argsort(-sizes, kind="stable")]


def _choose_start(vectors: MapVectors, num_clusters: int, generator: np.random.Generator) -> MapVectors:
    """Return random vectors as the first cluster centers, by k-means++: far from each other rather than near.

    The next center is a vector with a probability in proportion to its distance, 1 - cosine, from the nearest center.
    """
    centers = vectors[[generator.integers(len(vectors))]]
    while len(centers) < num_clusters:
        distances = np.maximum(1 - (vectors @ centers.T).max(1), 0).astype(np.float64)
        total = distances.sum()
        index = generator.choice(len(vectors), p=distances / total) if total > 0 else 0
        centers = np.concatenate([centers, vectors[[index]]])
    return centers


def _refine_centers(vectors: MapVectors, centers: MapVectors) -> MapVectors:
    """Return the centers to which spherical k-means moves ``centers``.

    A step moves each center to the mean direction of the vectors that are nearest to it.
    """
    for _ in range(_NUM_STEPS):
        clusters = np.argmax(vectors @ centers.T, 1)
        is_member = (clusters == np.arange(len(centers))[:, None]).astype(np.float32)
        sums = is_member @ vectors  # much faster than np.add.at
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        next_centers = np.where(norms > 0, sums / np.maximum(norms, _MIN_LENGTH), centers).astype(np.float32)
        if np.allclose(next_centers, centers, atol=1e-5):  # they no longer move
            break
        centers = next_centers
    return centers


def _place_discs(centers: MapVectors, radii: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the centers of the discs in the plane, shape (clusters, 2); similar clusters are near each other.

    Classical scaling gives the first positions; then overlapping discs are pushed apart.
    """
    positions = _scale_cosines(centers)
    # Separate equal centers a bit.
    angles = np.arange(len(positions))
    positions += _MIN_DISTANCE * np.stack([np.cos(angles), np.sin(angles)], 1)
    min_distances = radii[:, None] + radii + _GAP * radii.mean()
    for _ in range(_NUM_MOVES):
        # The identity matrix: a disc does not overlap itself, and its distance from itself must not be 0, a divisor.
        differences = positions[:, None] - positions
        distances = np.linalg.norm(differences, axis=2) + np.eye(len(positions))
        overlaps = np.maximum(min_distances - distances, 0) * (1 - np.eye(len(positions)))
        pushes = (differences / distances[:, :, None] * overlaps[:, :, None]).sum(1)
        positions += pushes * _PUSH_SHARE
        positions -= (positions - positions.mean(0)) * _PULL_SHARE
    return positions


def _scale_cosines(centers: MapVectors) -> npt.NDArray[np.float64]:
    """Return a point in the plane for each of ``centers``, by classical scaling: the higher their cosine, the nearer.

    The coordinates are the eigenvectors of the two greatest eigenvalues of the centered cosines.
    """
    cosines = (centers @ centers.T).astype(np.float64)
    centered_cosines = cosines - cosines.mean(0) - cosines.mean(1)[:, None] + cosines.mean()
    eigenvalues, eigenvectors = np.linalg.eigh(centered_cosines)  # in ascending order
    points = np.zeros((len(centers), 2))
    count = min(2, len(centers))
    points[:, :count] = eigenvectors[:, ::-1][:, :count] * np.sqrt(np.maximum(eigenvalues[::-1][:count], 0))
    _fix_signs(points)
    return points


def _fix_signs(axes: npt.NDArray[Any]) -> None:
    """Multiply each of two axes (columns of a matrix) by 1 or -1, so that its largest component is positive.

    The largest component has the largest absolute value. The sign of an eigenvector or a principal axis is arbitrary.
    """
    axes *= np.where(axes[np.abs(axes).argmax(0), np.arange(2)] < 0, -1.0, 1.0).astype(axes.dtype)


def _find_axes(members: MapVectors) -> tuple[MapVectors, float]:
    """Return the two principal axes of a cluster, shape (dimension, 2), and the scale of its members on them.

    The scale is the mean distance of the projected members from their center. A cluster of fewer than two members has
    axes of zeros and the scale 1.
    """
    axes = np.zeros((members.shape[1], 2), np.float32)
    if len(members) < 2:
        return axes, 1.0
    sample = members[:: -(-len(members) // _MAX_MEMBERS)]  # a step rounded up, for at most _MAX_MEMBERS
    centered = sample - sample.mean(0)
    # The eigenvectors of the covariance, in ascending order, are computed much faster than the singular vectors.
    _, directions = np.linalg.eigh((centered.T @ centered).astype(np.float64))
    axes[:, : len(directions[:2])] = directions[:, ::-1][:, :2]
    _fix_signs(axes)
    scale = float(np.linalg.norm(centered @ axes, axis=1).mean())
    return axes, max(scale, 1e-6)  # not 0, because it is a divisor


def _fit_umap(sample: MapVectors) -> Any:
    """Return a UMAP model fitted to a sample of vectors, or None if UMAP is not installed or the sample is small."""
    if len(sample) < _MIN_UMAP_VECTORS or find_spec("umap") is None:
        return None
    return import_module("umap").UMAP(metric="cosine", random_state=0, n_jobs=1).fit(sample)
