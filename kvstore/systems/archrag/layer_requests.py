"""Requests of ``archrag``: the nearest nodes of each layer, the chunks they lead to, and their names. A *node* is an
entity (layer 0) or a *community* of related entities (a layer for each level, the finest first). A model can have
written a *report* on a community.

In: the vector of a question, or nodes found before. Out: the nodes that exist in a state, their chunks and names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from ...derived.passage_graph.edges import mask_informative
from ...derived.passage_graph.structure import GRAPH
from ...errors import IndexUnavailableError
from ...structures.indexes.index_reading import bind_index
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...structures.vectors.vectors import Vector
from ..graphrag.communities import Communities
from ..graphrag.community_index import COMMUNITIES
from ..graphrag.report_hits import ReportCandidate, require_communities
from .layer_index import COMMUNITY_GRAPH, CommunityGraph, build_graph_in_memory, group_by_level

#: The maximum number of chunks of an entity, and of a community, that is specific enough to lead to them.
_MAX_ENTITY_CHUNKS, _MAX_COMMUNITY_CHUNKS = 200, 50
#: The maximum number of retries to replace deleted nodes, and the factor by which each requests more nodes.
_MAX_RETRIES, _RETRY_FACTOR = 3, 4
#: Cosines are rounded to a multiple of this before they are compared.
_COSINE_STEP = 1 / (1 << 16)

#: Entities or communities with their cosines, best first.
RankedNodes = list[tuple[int, float]]
#: A node: its layer (0: entities) and its id.
LayerNode = tuple[int, int]


class LayerSearch(NamedTuple):
    """The nearest nodes of the searched layers, entities first, then communities from the finest level.

    ``levels`` is the number of levels of communities. ``is_linked`` is False if there are so few nodes that all were
    compared. ``problem`` is the reason why the graph was built in memory, or None.
    """

    levels: int
    layers: list[RankedNodes]
    is_linked: bool
    problem: str | None

    def format_layer(self, layer: int) -> str:
        """Return the name of a layer for EXPLAIN: 0 is the entities, 1 the finest level of communities, and so on."""
        return f"communities of level {self.levels - layer}" if layer else "entities"

    def build_report_candidate(self, community: int, layer: int) -> ReportCandidate:
        """Return a community as a candidate for a report; ``layer`` is its layer, which EXPLAIN shows as the reason."""
        return ReportCandidate(community, f"near the question, {self.format_layer(layer)}")


class NearestNodesRequest(ReadRequest[LayerSearch]):
    """A request for the ``count`` nodes of each layer that are nearest to a unit vector and still exist, in the
    entities and at most ``levels`` levels of communities. ``ef`` is the number of candidates that the search of a layer
    remembers. This is the hierarchical search of ArchRAG, section 3.2.1. If the file of the search graph is unusable,
    the graph is built in memory. Raises IndexUnavailableError if that is not possible either.
    """

    vector: Vector
    count: int
    levels: int
    ef: int

    def fetch(self, state: State) -> LayerSearch:
        communities = require_communities(state)
        problem: str | None = None
        try:
            graph = bind_index(state, COMMUNITY_GRAPH)
            if graph is None:
                raise IndexUnavailableError("its file is missing, damaged or belongs to other communities")
            layers = self._search_layers(state, communities, graph)
        except IndexUnavailableError as file_error:
            remedy = f"run REFRESH INDEX {COMMUNITIES.name} to rebuild it"
            problem = f"{file_error}; {remedy}"
            try:
                graph = build_graph_in_memory(state, communities)
            except IndexUnavailableError as error:
                message = f"index {COMMUNITY_GRAPH.name}: {file_error}, and {error}; {remedy}"
                raise IndexUnavailableError(message) from error
            layers = self._search_layers(state, communities, graph)
        return LayerSearch(communities.levels, layers, graph.vectors.is_linked, problem)

    def _search_layers(self, state: State, communities: Communities, graph: CommunityGraph) -> list[RankedNodes]:
        """Return the nearest nodes of each searched layer that exist, best first.

        ``graph`` is the search graph over all nodes. Communities with a report by a model are ranked by the vector of
        the report.
        """
        num_layers = 1 + min(communities.levels, self.levels)
        # Only centroids of communities are in the graph; those with a report are compared by the report's vector.
        reported_layers = [[], *group_by_level(communities, communities.text_vectors)][:num_layers]
        # The communities with a report are ranked again below, so one more node is requested for each of them.
        counts = [self.count + len(community_ids) for community_ids in reported_layers]
        layers = [
            _merge_reported_communities(communities, layer, community_ids, self.vector) if community_ids else layer
            for layer, community_ids in zip(
                self._find_existing_nodes(state, communities, graph, counts), reported_layers, strict=True
            )
        ]
        return [layer[: self.count] for layer in layers]

    def _find_existing_nodes(
        self, state: State, communities: Communities, graph: CommunityGraph, counts: Sequence[int]
    ) -> list[RankedNodes]:
        """Return the nearest nodes of each layer that exist, best first.

        ``counts`` has the number of nodes to request of each searched layer. Nodes can have been deleted since
        ``graph`` was built. If fewer than ``self.count`` of the nodes of a layer exist, the search is repeated with a
        larger count, at most :data:`_MAX_RETRIES` times.
        """
        num_layers = len(counts)
        unsearched_counts = [0] * (len(graph.nodes) - num_layers)
        layers: list[RankedNodes] = []
        for _ in range(_MAX_RETRIES + 1):
            nearest_by_layer = graph.find_nearest(self.vector, [*counts, *unsearched_counts], self.ef)[:num_layers]
            layers = [
                _select_existing_nodes(state, communities, layer, nodes) for layer, nodes in enumerate(nearest_by_layer)
            ]
            # A layer needs more nodes if too few of them exist, and not all of the layer were returned yet.
            needs_more_flags = [
                len(existing_nodes) < min(self.count, len(all_nodes)) and len(nodes) < len(all_nodes)
                for existing_nodes, nodes, all_nodes in zip(
                    layers, nearest_by_layer, graph.nodes[:num_layers], strict=True
                )
            ]
            if not any(needs_more_flags):
                break
            counts = [
                _RETRY_FACTOR * count if needs_more else count
                for count, needs_more in zip(counts, needs_more_flags, strict=True)
            ]
        return layers


def _select_existing_nodes(
    state: State, communities: Communities, layer: int, nodes: Sequence[tuple[int, float]]
) -> RankedNodes:
    """Return the ``nodes`` of a layer that still exist, with rounded cosines, in the same order.

    The nodes of layer 0 are entities, and those of other layers are communities. The others were deleted after the
    graph was built.
    """
    ids = [node for node, _ in nodes]
    if layer:  # communities
        existing_ids = set(communities.filter_visible(np.array(ids, np.int64)).tolist())
    else:
        existing_ids = {node for node, exists in zip(ids, state.entities.has_many(ids), strict=True) if exists}
    return [(node, _round_cosine(cosine)) for node, cosine in nodes if node in existing_ids]


def _merge_reported_communities(
    communities: Communities, layer: RankedNodes, reported_communities: Sequence[int], vector: Vector
) -> RankedNodes:
    """Return the communities of a layer, best first, with ``reported_communities`` ranked by their reports.

    A language model wrote these reports, whose vectors are compared with ``vector``, the question's vector. Other
    communities have the cosine of their centroid, which is in ``layer``.
    """
    visible_communities = communities.filter_visible(np.array(reported_communities, np.int64))
    cosines = communities.compute_cosines(visible_communities, vector).tolist()
    ranked_nodes = [
        # Nodes whose report a model wrote are among ``reported_communities``.
        *((node, cosine) for node, cosine in layer if node not in communities.text_vectors),
        *((node, _round_cosine(cosine)) for node, cosine in zip(visible_communities.tolist(), cosines, strict=True)),
    ]

    def get_sort_key(ranked_node: tuple[int, float]) -> tuple[float, str]:
        """Return the sort key of a node: descending cosine, ties by the key of the community."""
        community, cosine = ranked_node
        return -cosine, communities.get_key(community)

    return sorted(ranked_nodes, key=get_sort_key)


def _round_cosine(cosine: float) -> float:
    """Round a cosine to a multiple of :data:`_COSINE_STEP`, so that nearly equal cosines tie."""
    return round(cosine / _COSINE_STEP) * _COSINE_STEP


class LinkedChunksRequest(ReadRequest[list[list[list[int]]]]):
    """A request for the chunks of the nodes of each layer: entities (the first layer) and communities (all others). An
    entity has the chunks that mention it, and a community the chunks assigned to it; a node with too many chunks gets
    none. ``layers`` has the ids of the nodes.
    """

    layers: Sequence[Sequence[int]]

    def fetch(self, state: State) -> list[list[list[int]]]:
        entities, *community_layers = self.layers
        communities = require_communities(state)
        community_ids = list(chain.from_iterable(community_layers))
        communities.preload(community_ids)
        specific_ids = [
            community for community in community_ids if communities.get(community).chunk_count <= _MAX_COMMUNITY_CHUNKS
        ]
        groups = zip(specific_ids, communities.list_chunk_groups(specific_ids), strict=True)
        chunks_by_community = {community: [chunk for chunk, _ in group] for community, group in groups}
        return [
            _list_entity_chunks(state, entities),
            *([chunks_by_community.get(community, []) for community in layer] for layer in community_layers),
        ]

    def list_chunks(self, answer: list[list[list[int]]]) -> Iterable[int]:
        """Return the ids of all chunks in ``answer``, which has, by layer and node, the chunks of each node."""
        return (chunk for layer in answer for chunks in layer for chunk in chunks)


def _list_entity_chunks(state: State, entities: Sequence[int]) -> list[list[int]]:
    """Return the chunks that mention each entity, except chunks that mention it only in lower case.

    The list is empty for an entity with more than :data:`_MAX_ENTITY_CHUNKS` chunks.
    """
    graph = state.get_part(GRAPH)
    entity_ids = np.array(entities, np.uint32)
    rows = graph.read_entity_rows(entity_ids, graph.read_degrees(entity_ids), _MAX_ENTITY_CHUNKS)
    is_informative = mask_informative(rows.mention_bits)
    ranges = pairwise(rows.bounds.tolist())  # of the chunks of each entity
    return [rows.chunks[start:stop][is_informative[start:stop]].tolist() for start, stop in ranges]


class NodeLabel(NamedTuple):
    """The names of a node.

    ``entity`` is None for a community. ``community`` is the title and level of the community itself or, for an entity,
    of its finest community; None if there is no such community.
    """

    entity: str | None
    community: tuple[str, int] | None


class NodeLabelsRequest(ReadRequest[list[NodeLabel]]):
    """A request for the names of nodes, each (layer, id): an entity of layer 0 or a community; all must exist. A
    community has its title and level, and no entity name. An entity gets its finest community; its title and level are
    None if there is none, or if it is hidden because all its chunks or members were deleted.
    """

    nodes: Sequence[LayerNode]

    def fetch(self, state: State) -> list[NodeLabel]:
        communities = require_communities(state)
        entities = [node for layer, node in self.nodes if not layer]
        names = dict(zip(entities, (record.name for record in state.entities.get_many(entities)), strict=True))
        finest = dict(zip(entities, communities.find_finest(entities), strict=True))
        # The community of an entity is the finest one that contains it, if any.
        node_communities = [node if layer else finest[node] for layer, node in self.nodes]
        community_ids = np.array(list({community for community in node_communities if community is not None}), np.int64)
        visible_communities = communities.filter_visible(community_ids).tolist()
        communities.preload(visible_communities)
        titles = zip(visible_communities, communities.get_titles(visible_communities), strict=True)
        labels = {community: (title, communities.get(community).level) for community, title in titles}
        return [
            NodeLabel(None if layer else names[node], None if community is None else labels.get(community))
            for (layer, node), community in zip(self.nodes, node_communities, strict=True)
        ]
