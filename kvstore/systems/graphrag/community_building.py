"""Communities built from a state: who belongs to each, which passages are at home there, and what they are called by.

In: a state, and options. Out: a :class:`CommunityTree`, a function of documents, edges, aliases and options, and with
``neighbours = knn`` of vectors. Communities are numbered level by level from the coarsest, each by its least member;
all orders are those of the entity graph.

A group of one entity is no community; one that the next level does not part further stands at the coarser of the two
levels alone, as in GraphRAG. A passage is at home in one community of every level, from the top down: in the one whose
members it names most of what it names, each name counted by its strength there over the root of its passages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...structures.clustering.affinity import ONE, Partition
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from .attributes import centroids, compute_entity_vectors, load_chunk_vectors
from .community_levels import CommunityOptions, community_levels
from .entity_graph import EntityGraph, entity_graph

#: No community.
NOWHERE = -1


@dataclass(frozen=True)
class CommunityTree:
    """Communities over an entity graph.

    ``levels`` (coarsest first) are the community of every node at each level, shape (levels, nodes): where the level
    has no other, the one at the level above; :data:`NOWHERE` for a node in none.
    ``level`` and ``parent`` are those of each community. ``homes`` and ``shares`` are those of the passages: the finest
    community that each is at home in, and how much of what it names is there. ``vectors`` are unit vectors of the
    communities, the centroids of their members'.
    """

    graph: EntityGraph
    options: CommunityOptions
    levels: Partition
    level: Partition
    parent: Partition
    homes: Partition
    shares: npt.NDArray[np.float64]
    vectors: Matrix

    def __len__(self) -> int:
        return len(self.level)

    @property
    def finest(self) -> Partition:
        """The finest community of each node."""
        return self.levels[-1] if len(self.levels) else np.full(len(self.graph.entities), NOWHERE)

    def inside(self) -> tuple[Partition, Partition, Partition]:
        """Communities, their members (nodes), and the weight of the edges of each member that do not leave the
        community; in order of communities, weights from the greatest, and nodes."""
        edges, count = self.graph.edges, len(self.graph.entities)
        parts = []
        for number, row in enumerate(self.levels):
            weights = np.zeros(count, np.int64)
            is_inside = (row[edges.first] == row[edges.second]) & (row[edges.first] != NOWHERE)
            for ends in (edges.first, edges.second):
                np.add.at(weights, ends[is_inside], edges.weights[is_inside])
            here = np.flatnonzero((row != NOWHERE) & (self.level[row] == number))
            parts.append((row[here], here, weights[here]))
        if not parts:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        communities, nodes, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((nodes, -weights, communities))
        return communities[order], nodes[order], weights[order]


def build_communities(state: State, options: CommunityOptions | None = None) -> CommunityTree:
    """The communities of a state; raises InputError where the method needs a library that is not installed."""
    options = options or CommunityOptions()
    graph = entity_graph(state)
    vectors = compute_entity_vectors(graph, load_chunk_vectors(state, graph))
    partitions, level, parents = _numbered(community_levels(graph, vectors, options), len(graph.entities))
    weights = compute_home_weights(graph.strengths, graph.degrees[graph.named])
    homes, shares = assign_homes(len(graph.passages), graph.naming, partitions[:, graph.named], weights)
    community_vectors = _compute_community_vectors(partitions, level, vectors)
    return CommunityTree(graph, options, partitions, level, parents, homes, shares, community_vectors)


def _numbered(partitions: list[Partition], count: int) -> tuple[Partition, Partition, Partition]:
    """Of each node its community at each level; of each community its level and parent."""
    parent_labels: Partition = np.full(count, NOWHERE)
    parent_sizes: Partition = np.zeros(count, np.int64)
    levels: list[Partition] = []
    level: list[Partition] = []
    parents: list[Partition] = []
    total = 0
    for number, labels in enumerate(partitions):
        sizes = np.bincount(labels, minlength=1)[labels]
        is_new = (sizes > 1) & ((parent_labels == NOWHERE) | (sizes != parent_sizes))
        groups, first, positions = np.unique(labels[is_new], return_index=True, return_inverse=True)
        level.append(np.full(len(groups), number))
        parents.append(parent_labels[np.flatnonzero(is_new)[first]])
        parent_labels = parent_labels.copy()
        parent_labels[is_new] = total + positions
        levels.append(parent_labels)
        parent_sizes = sizes
        total += len(groups)
    if not levels:
        return np.empty((0, count), np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    return np.stack(levels), np.concatenate(level), np.concatenate(parents)


def compute_home_weights(strengths: npt.NDArray[np.float64], degrees: Partition) -> Partition:
    """How much each name of a passage says of where it is at home, as whole numbers."""
    return np.maximum(np.rint(ONE * strengths / np.sqrt(degrees.astype(np.float64))).astype(np.int64), 1)


def assign_homes(
    count: int, naming: Partition, levels: Partition, weights: Partition
) -> tuple[Partition, npt.NDArray[np.float64]]:
    """The finest community that each of ``count`` passages is at home in, and its share of what the passage names.

    Passage ``naming[i]`` names a member, with ``weights[i]``, of the communities ``levels[:, i]`` (coarsest first).
    """
    totals, home_sums = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(totals, naming, weights)
    homes: Partition = np.full(count, NOWHERE)
    is_active = np.ones(len(naming), np.bool_)  # the names that are members of the home so far
    for row in levels:
        is_active &= row != NOWHERE
        stop = int(row.max(initial=0)) + 1
        codes, positions = np.unique(naming[is_active] * stop + row[is_active], return_inverse=True)
        sums = np.zeros(len(codes), np.int64)
        np.add.at(sums, positions, weights[is_active])
        chunks, communities = np.divmod(codes, stop)
        order = np.lexsort((communities, -sums, chunks))
        chunks, first = np.unique(chunks[order], return_index=True)
        best = order[first]
        homes[chunks], home_sums[chunks] = communities[best], sums[best]
        is_active &= row == homes[naming]
    return homes, np.round(home_sums / np.maximum(totals, 1), 4)


def _compute_community_vectors(levels: Partition, level: Partition, vectors: Matrix) -> Matrix:
    """The vectors of the communities."""
    community_vectors = np.zeros((len(level), vectors.shape[1]), np.float32)
    ones = np.ones(len(vectors), np.int64)
    for number, row in enumerate(levels):
        here = np.flatnonzero(level == number)
        own_communities = np.where((row != NOWHERE) & (level[row] == number), row, NOWHERE)
        community_vectors[here] = centroids(own_communities, len(level), vectors, ones)[here]
    return community_vectors
