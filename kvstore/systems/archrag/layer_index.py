"""The ``community_graph`` index file: entities and communities as one graph of near neighbors (C-HNSW). A *community*
is a group of related entities. Layer 0 has the entities; each layer above has a level of communities, the finest first.
A *node* is an entity or a community.

In: the communities of a store, and the stored vectors of the chunks that mention their members. Out: the arrays of
:mod:`~kvstore.structures.vectors.chnsw`, searched in place. The file is built after its generation of ``communities``
and is valid for that generation only. Every node found in it is looked up in the state of the query.

The vector of an entity is the centroid of the chunks that mention it, so nothing is embedded. ArchRAG embeds a text
that a model wrote about each entity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arguments import Option, format_count
from ...errors import IndexUnavailableError
from ...structures.indexes.index import BuildTools, FileIndex, IndexContent, IndexRecord, States
from ...structures.indexes.index_reading import bind_index
from ...structures.state import State
from ...structures.vectors.chnsw import CHECKED_IN_PLACE, LayeredVectors, build_layered_arrays
from ...structures.vectors.vectors import Matrix, Vector
from ..graphrag.attributes import compute_entity_vectors, load_chunk_vectors
from ..graphrag.communities import Communities
from ..graphrag.community_building import NO_COMMUNITY
from ..graphrag.community_index import COMMUNITIES
from ..graphrag.entity_graph import build_entity_graph

#: The links of a node in its layer, twice as many in the lowest.
_NUM_LINKS = 16
#: With fewer nodes there are no links, and all nodes are compared.
_EXACT_BELOW = 20_000


@dataclass(frozen=True)
class CommunityGraph:
    """The content of the index file: a search graph (C-HNSW) whose nodes are entities and communities. ``nodes`` are
    the ids of the entities (layer 0), then of the communities of each layer above. ``vectors`` searches their vectors.
    ``change`` is the number of the commit that the communities describe.
    """

    change: int
    nodes: list[npt.NDArray[np.uint32]]
    vectors: LayeredVectors

    def find_nearest(self, vector: Vector, counts: list[int], ef: int) -> list[list[tuple[int, float]]]:
        """Return the ``counts[i]`` nearest nodes of each layer i with their cosines, approximately, best first.

        This is the hierarchical search of ArchRAG (section 3.2.1), one descent through all layers. A node is the id of
        an entity in layer 0, else the id of a community. ``vector`` has length 1. ``ef`` is the number of candidates
        that the search remembers in each layer; more make it slower and more exact.
        """
        layers = self.vectors.find_nearest(vector, counts, ef)
        return [
            [(int(nodes[index]), cosine) for index, cosine in layer]
            for nodes, layer in zip(self.nodes, layers, strict=True)
        ]


class CommunityGraphIndex(FileIndex[CommunityGraph, CommunityGraph | None]):
    """The index of entities and communities by their vectors."""

    name = "community_graph"
    description = "entities and communities as one graph of near neighbors, for USING archrag"
    companion_of = COMMUNITIES.name
    building_detail = "until then, queries build it in memory if it is small"
    checked_in_place = CHECKED_IN_PLACE
    options: Mapping[str, Option] = {}

    def build(
        self, states: States, old: CommunityGraph | None, record: IndexRecord, tools: BuildTools
    ) -> IndexContent | None:
        """Build the search graph (C-HNSW: ArchRAG, section 3.1.3) over the entities and communities of the store.

        ``states()`` opens a snapshot of the store, and ``old`` is the content of the present file (None: no file).
        ``tools`` reports progress, and can cancel the build. Returns None if there are no communities, if ``old`` was
        built from them, or if the build was cancelled.
        """
        with states() as state:
            communities = bind_index(state, COMMUNITIES)
            if communities is None or (old is not None and old.change == communities.change):
                return None
            layers = _build_layers(state, communities)
        arrays = layers.build_arrays(tools.progress, tools.is_cancelled)
        return None if arrays is None else IndexContent({"change": communities.change}, arrays)

    def read(self, stored_content: IndexContent) -> CommunityGraph:
        """Return the search graph over entities and communities in an index file; its arrays are searched in place."""
        vectors = LayeredVectors(stored_content.arrays)
        ends = np.cumsum(vectors.sizes)[:-1]
        return CommunityGraph(stored_content.head["change"], np.split(stored_content.arrays["nodes"], ends), vectors)

    def bind(self, content: CommunityGraph, record: IndexRecord, state: State) -> CommunityGraph | None:
        """Return the graph over entities and communities if it was built from the current communities, else None."""
        communities = bind_index(state, COMMUNITIES)
        return content if communities is not None and communities.change == content.change else None

    def describe(self, content: CommunityGraph) -> str:
        """Return a summary for SHOW INDEXES: the numbers of entities, communities and layers, and the search method."""
        entities, *communities = content.vectors.sizes
        search_method = "graph search" if content.vectors.is_linked else "exact search"
        return (
            f"{format_count(entities, 'entity')} and {format_count(sum(communities), 'community')} in "
            f"{format_count(len(communities), 'layer')}, {search_method}"
        )


def build_graph_in_memory(state: State, communities: Communities) -> CommunityGraph:
    """Build the search graph of entities and communities in memory, without its index file.

    The graph is cached with the communities. Raises IndexUnavailableError if there are too many nodes, or if the store
    changed since the communities were built.
    """

    def build() -> CommunityGraph:
        """Build the graph of all communities, even if the query allows only some documents.

        Raises IndexUnavailableError if the graph would be too large, or the communities are outdated.
        """
        if state.counters.change != communities.change:
            raise IndexUnavailableError("the store has changed since the communities were built")
        if communities.entity_count + len(communities) >= _EXACT_BELOW:
            raise IndexUnavailableError("there are too many entities and communities to build the graph in memory")
        all_communities = bind_index(state.unrestricted, COMMUNITIES)  # queries with other conditions share the graph
        assert all_communities is not None
        arrays = _build_layers(state.unrestricted, all_communities).build_arrays()
        assert arrays is not None  # without a callback it cannot be cancelled
        return COMMUNITY_GRAPH.read(IndexContent({"change": communities.change}, arrays))

    return communities.get_cached(COMMUNITY_GRAPH.name, build)


@dataclass(frozen=True)
class _NodeLayers:
    """The input of the search graph: vectors, nodes (ids) and names of each layer; entities first, then communities.
    ``parents`` has, for each layer but the highest, the index of each node's parent in the layer above.
    """

    vectors: list[Matrix]
    parents: list[npt.NDArray[np.int64]]
    nodes: list[npt.NDArray[np.uint32]]
    names: list[list[str]]

    def build_arrays(
        self,
        progress: Callable[[int, int], None] = lambda num_done, total: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> dict[str, npt.NDArray[Any]] | None:
        """Build the search graph (C-HNSW); return the arrays of its index file, or None if cancelled.

        ``progress`` is called with the number of finished nodes and the number of all nodes.
        """
        arrays = build_layered_arrays(
            self.vectors,
            self.parents,
            list(map(_compute_digests, self.names)),
            m=_NUM_LINKS,
            exact_below=_EXACT_BELOW,
            progress=progress,
            is_cancelled=is_cancelled,
        )
        return None if arrays is None else {**arrays, "nodes": np.concatenate(self.nodes)}


def _build_layers(state: State, communities: Communities) -> _NodeLayers:
    """Return the layers of the search graph: the entities, then the communities of each level from the finest.

    The parent of an entity is its finest community.
    """
    graph = build_entity_graph(state)
    entity_vectors = compute_entity_vectors(graph, load_chunk_vectors(state, graph))
    layers = _NodeLayers(vectors=[entity_vectors], parents=[], nodes=[graph.entities], names=[graph.keys])
    # The communities of an entity are in order from the coarsest.
    parent_ids = [(communities.find_by_entity(entity) or [NO_COMMUNITY])[-1] for entity in graph.entities.tolist()]
    for community_ids in group_by_level(communities, range(len(communities))):
        index_by_id = {community: index for index, community in enumerate(community_ids)}
        # ``parent_ids`` are the parents of the nodes of the layer below.
        layers.parents.append(np.array([index_by_id.get(parent, NO_COMMUNITY) for parent in parent_ids], np.int64))
        parents = (communities.get(community).parent for community in community_ids)
        parent_ids = [NO_COMMUNITY if parent is None else parent for parent in parents]
        layers.vectors.append(communities.get_vectors(community_ids))
        layers.nodes.append(np.array(community_ids, np.uint32))
        layers.names.append([communities.get_key(community) for community in community_ids])
    return layers


def group_by_level(communities: Communities, community_ids: Iterable[int]) -> list[list[int]]:
    """Group communities by level; the lists are in order from the finest level to the coarsest, which is level 0."""
    levels: list[list[int]] = [[] for _ in range(communities.levels)]
    for community in community_ids:
        levels[communities.get(community).level].append(community)
    return levels[::-1]


def _compute_digests(names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Return a 64-bit digest of each name; the build uses digests as random numbers, so it is reproducible."""
    digests = [int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) for name in names]
    return np.array(digests, np.uint64)


#: The instance that the strategy uses.
COMMUNITY_GRAPH = CommunityGraphIndex()
