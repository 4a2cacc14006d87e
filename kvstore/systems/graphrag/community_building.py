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
from .attributes import centroids, entity_vectors, passage_vectors
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
            within = (row[edges.first] == row[edges.second]) & (row[edges.first] != NOWHERE)
            for ends in (edges.first, edges.second):
                np.add.at(weights, ends[within], edges.weights[within])
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
    vectors = entity_vectors(graph, passage_vectors(state, graph))
    levels, level, parent = _numbered(community_levels(graph, vectors, options), len(graph.entities))
    weights = home_weights(graph.strengths, graph.degrees[graph.named])
    homes, shares = homes_of(len(graph.passages), graph.naming, levels[:, graph.named], weights)
    sums = _centroids(levels, level, vectors)
    return CommunityTree(graph, options, levels, level, parent, homes, shares, sums)


def _numbered(partitions: list[Partition], count: int) -> tuple[Partition, Partition, Partition]:
    """Of each node its community at each level; of each community its level and parent."""
    above: Partition = np.full(count, NOWHERE)
    sizes_above: Partition = np.zeros(count, np.int64)
    levels: list[Partition] = []
    level: list[Partition] = []
    parent: list[Partition] = []
    total = 0
    for number, labels in enumerate(partitions):
        sizes = np.bincount(labels, minlength=1)[labels]
        new = (sizes > 1) & ((above == NOWHERE) | (sizes != sizes_above))
        groups, first, places = np.unique(labels[new], return_index=True, return_inverse=True)
        level.append(np.full(len(groups), number))
        parent.append(above[np.flatnonzero(new)[first]])
        above = above.copy()
        above[new] = total + places
        levels.append(above)
        sizes_above = sizes
        total += len(groups)
    if not levels:
        return np.empty((0, count), np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    return np.stack(levels), np.concatenate(level), np.concatenate(parent)


def home_weights(strengths: npt.NDArray[np.float64], degrees: Partition) -> Partition:
    """How much each name of a passage says of where it is at home, as whole numbers."""
    return np.maximum(np.rint(ONE * strengths / np.sqrt(degrees.astype(np.float64))).astype(np.int64), 1)


def homes_of(
    count: int, naming: Partition, levels: Partition, weights: Partition
) -> tuple[Partition, npt.NDArray[np.float64]]:
    """The finest community that each of ``count`` passages is at home in, and its share of what the passage names.

    Passage ``naming[i]`` names a member, with ``weights[i]``, of the communities ``levels[:, i]`` (coarsest first).
    """
    totals, inside = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(totals, naming, weights)
    homes: Partition = np.full(count, NOWHERE)
    left = np.ones(len(naming), np.bool_)  # the names that are members of the home so far
    for row in levels:
        left &= row != NOWHERE
        stop = int(row.max(initial=0)) + 1
        codes, places = np.unique(naming[left] * stop + row[left], return_inverse=True)
        sums = np.zeros(len(codes), np.int64)
        np.add.at(sums, places, weights[left])
        passages, communities = np.divmod(codes, stop)
        order = np.lexsort((communities, -sums, passages))
        passages, first = np.unique(passages[order], return_index=True)
        best = order[first]
        homes[passages], inside[passages] = communities[best], sums[best]
        left &= row == homes[naming]
    return homes, np.round(inside / np.maximum(totals, 1), 4)


def _centroids(levels: Partition, level: Partition, vectors: Matrix) -> Matrix:
    """The vectors of the communities."""
    found = np.zeros((len(level), vectors.shape[1]), np.float32)
    ones = np.ones(len(vectors), np.int64)
    for number, row in enumerate(levels):
        here = np.flatnonzero(level == number)
        own = np.where((row != NOWHERE) & (level[row] == number), row, NOWHERE)
        found[here] = centroids(own, len(level), vectors, ones)[here]
    return found
