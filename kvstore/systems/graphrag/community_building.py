"""Construction of communities (groups of related entities) from a state: members, home chunks and vectors. A *node* is
an entity, given by its index in the graph. A *partition* has the group of each node at one level. A chunk's *home* is
the community in which its names have the most weight.

In: a state and options. Out: a :class:`CommunityTree`, a function of documents, edges, aliases and options, and with
``neighbours = knn`` also of vectors. Communities are numbered level by level from the coarsest, within a level by their
smallest member. Nodes and chunks are in the order of the entity graph.

A group of one entity is not a community. A community that the next level does not split exists only at the coarser of
the two levels, as in GraphRAG. A chunk has one home community at each level, chosen from the top down. The weight of a
name is its strength in the chunk, divided by the square root of the number of chunks that mention it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...structures.clustering.affinity import FIXED_ONE, Edges, IntArray, Partition
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from .attributes import compute_centroids, compute_entity_vectors, load_chunk_vectors
from .community_levels import CommunityOptions, partition_entities
from .entity_graph import EntityGraph, build_entity_graph

#: Marks the absence of a community.
NO_COMMUNITY = -1


class MemberArrays(NamedTuple):
    """Members of communities in parallel arrays: community, node, and total weight of the node's edges inside it."""

    communities: IntArray
    nodes: IntArray
    weights: IntArray


@dataclass(frozen=True)
class CommunityTree:
    """The communities of an entity graph. ``partitions`` holds the community of each node at each level, coarsest
    first, shape (levels, nodes). ``levels`` and ``parents`` have the level and parent of each community, ``homes`` the
    home of each chunk, and ``shares`` the fraction of its names' weight there.

    If a node has no new community at a level, the community of the coarser level is repeated; a node in no community
    has :data:`NO_COMMUNITY`. ``vectors`` are unit vectors of the communities, the centroids of their members' vectors.
    """

    graph: EntityGraph
    options: CommunityOptions
    partitions: Partition
    levels: IntArray
    parents: IntArray
    homes: IntArray
    shares: npt.NDArray[np.float64]
    vectors: Matrix

    def __len__(self) -> int:
        """Return the number of communities; ``levels`` has the level of each."""
        return len(self.levels)

    @property
    def finest(self) -> IntArray:
        """The finest community of each node (entity of the graph); :data:`NO_COMMUNITY` (-1) if it is in none."""
        return self.partitions[-1] if len(self.partitions) else np.full(len(self.graph.entities), NO_COMMUNITY)

    def group_members(self) -> MemberArrays:
        """Return the members of all communities, sorted by community, descending weight and node."""
        members_by_level = []
        for level, node_communities in enumerate(self.partitions):
            weights = _sum_inner_weights(self.graph.edges, node_communities)
            members = np.flatnonzero(_mask_level(node_communities, self.levels, level))
            members_by_level.append((node_communities[members], members, weights[members]))
        if not members_by_level:
            empty = np.empty(0, np.int64)
            return MemberArrays(empty, empty, empty)
        communities, nodes, weights = (np.concatenate(column) for column in zip(*members_by_level, strict=True))
        order = np.lexsort((nodes, -weights, communities))
        return MemberArrays(communities[order], nodes[order], weights[order])


def _mask_level(node_communities: IntArray, community_levels: IntArray, level: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the nodes whose community is of a level.

    ``node_communities`` is the partition of that level, which repeats the coarser communities that it does not split.
    ``community_levels`` has the level of each community.
    """
    mask: npt.NDArray[np.bool_] = (node_communities != NO_COMMUNITY) & (community_levels[node_communities] == level)
    return mask


def _sum_inner_weights(edges: Edges, node_communities: IntArray) -> IntArray:
    """Return, for each node, the total weight of its edges to nodes of its own community.

    ``node_communities`` has the community of each node (:data:`NO_COMMUNITY`: none).
    """
    weights = np.zeros(len(node_communities), np.int64)
    first_communities, second_communities = node_communities[edges.first], node_communities[edges.second]
    is_inside = (first_communities == second_communities) & (first_communities != NO_COMMUNITY)
    for ends in (edges.first, edges.second):
        np.add.at(weights, ends[is_inside], edges.weights[is_inside])
    return weights


def build_communities(state: State, options: CommunityOptions | None = None) -> CommunityTree:
    """Group the entities of a store into communities at several levels, and assign each chunk to one of them.

    This is the graph partition of GraphRAG or ArchRAG. ``options`` are the method and the sizes of communities (None:
    the defaults). Raises InputError if the method needs a library that is not installed.
    """
    options = options or CommunityOptions()
    graph = build_entity_graph(state)
    vectors = compute_entity_vectors(graph, load_chunk_vectors(state, graph))
    partitions, levels, parents = _number_communities(partition_entities(graph, vectors, options), len(graph.entities))
    weights = compute_home_weights(graph.strengths, graph.degrees[graph.mention_nodes])
    homes, shares = assign_homes(len(graph.chunks), graph.mention_chunks, partitions[:, graph.mention_nodes], weights)
    return CommunityTree(
        graph=graph,
        options=options,
        partitions=partitions,
        levels=levels,
        parents=parents,
        homes=homes,
        shares=shares,
        vectors=_compute_community_vectors(partitions, levels, vectors),
    )


def _number_communities(groupings: list[Partition], count: int) -> tuple[Partition, IntArray, IntArray]:
    """Number the communities of ``count`` graph nodes over all levels, the coarsest first.

    ``groupings`` hold the group of each node at each level, coarsest first. Returns three arrays: the community of each
    node at each level, shape (levels, nodes), and the level and the parent of each community. A group of one node, or
    as large as its parent, is not a community: its nodes keep their community of the level before, or
    :data:`NO_COMMUNITY`.
    """
    node_communities: IntArray = np.full(count, NO_COMMUNITY)  # at the level before
    parent_sizes: IntArray = np.zeros(count, np.int64)
    partitions: list[Partition] = []
    levels: list[IntArray] = []
    parents: list[IntArray] = []
    total = 0
    for level, labels in enumerate(groupings):
        sizes = np.bincount(labels, minlength=1)[labels]  # of the group of each node
        # A group of the same size as its parent contains the same nodes, so it is not a new community.
        is_new = (sizes > 1) & ((node_communities == NO_COMMUNITY) | (sizes != parent_sizes))
        groups, first_nodes, group_indexes = np.unique(labels[is_new], return_index=True, return_inverse=True)
        levels.append(np.full(len(groups), level))
        parents.append(node_communities[np.flatnonzero(is_new)[first_nodes]])
        node_communities = node_communities.copy()
        node_communities[is_new] = total + group_indexes
        partitions.append(node_communities)
        parent_sizes = sizes
        total += len(groups)
    if not partitions:
        return np.empty((0, count), np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    return np.stack(partitions), np.concatenate(levels), np.concatenate(parents)


def compute_home_weights(strengths: npt.NDArray[np.float64], degrees: IntArray) -> IntArray:
    """Return the weights of mentions of names in the choice of a chunk's community, as integers from 1.

    The weight of a mention is its strength divided by the square root of the degree (number of chunks) of its name.
    Rare names thus count more. It is in units of 1 / ``FIXED_ONE``, because sums of integers are exact.
    """
    return np.maximum(np.rint(FIXED_ONE * strengths / np.sqrt(degrees.astype(np.float64))).astype(np.int64), 1)


def assign_homes(
    count: int, mention_chunks: IntArray, partitions: Partition, weights: IntArray
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return, for each of ``count`` chunks, its home and the fraction of its names' weight in it, as two arrays.

    The home is a community, found level by level from the coarsest: of the communities inside the home at the previous
    level, the one in which the chunk's names have the most weight. If several tie, it is the one with the lowest
    number. Element *i* is a mention: chunk ``mention_chunks[i]`` mentions a name with weight ``weights[i]``, whose
    communities by level are ``partitions[:, i]``. A chunk without a home has :data:`NO_COMMUNITY` and the fraction 0.
    """
    totals, home_sums = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(totals, mention_chunks, weights)
    homes: IntArray = np.full(count, NO_COMMUNITY)
    is_active = np.ones(len(mention_chunks), np.bool_)  # names that are members of the current home
    for mention_communities in partitions:
        is_active &= mention_communities != NO_COMMUNITY
        chunks, communities, sums = _sum_by_pair(
            mention_chunks[is_active], mention_communities[is_active], weights[is_active]
        )
        order = np.lexsort((communities, -sums, chunks))
        chunks, first = np.unique(chunks[order], return_index=True)
        best = order[first]  # the community with the greatest sum of each chunk
        homes[chunks], home_sums[chunks] = communities[best], sums[best]
        is_active &= mention_communities == homes[mention_chunks]
    return homes, np.round(home_sums / np.maximum(totals, 1), 4)


def _sum_by_pair(chunks: IntArray, communities: IntArray, weights: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the distinct pairs of a chunk and a community, and the sum of the weights of each, as three arrays."""
    stop = int(communities.max(initial=0)) + 1
    codes, code_indexes = np.unique(chunks * stop + communities, return_inverse=True)  # a pair as one number
    sums = np.zeros(len(codes), np.int64)
    np.add.at(sums, code_indexes, weights)
    distinct_chunks, distinct_communities = np.divmod(codes, stop)
    return distinct_chunks, distinct_communities, sums


def _compute_community_vectors(partitions: Partition, community_levels: IntArray, vectors: Matrix) -> Matrix:
    """Return the centroid of the members of each community.

    ``partitions`` holds the community of each node at each level, ``community_levels`` the level of each community, and
    ``vectors`` the vectors of the nodes.
    """
    count = len(community_levels)
    community_vectors = np.zeros((count, vectors.shape[1]), np.float32)
    equal_masses = np.ones(len(vectors), np.int64)
    for level, node_communities in enumerate(partitions):
        communities = np.flatnonzero(community_levels == level)
        is_of_level = _mask_level(node_communities, community_levels, level)
        groups = np.where(is_of_level, node_communities, NO_COMMUNITY)
        community_vectors[communities] = compute_centroids(groups, count, vectors, equal_masses)[communities]
    return community_vectors
