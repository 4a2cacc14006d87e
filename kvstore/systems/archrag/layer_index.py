"""The index file ``community_graph``: entities and communities as one graph of near neighbours (C-HNSW).

In: the communities of a store, and the stored vectors of the passages that name their members. Out: the arrays of
:mod:`~kvstore.structures.vectors.chnsw`, walked where they lie; layer 0 are the entities, above it the communities from
the finest level to the coarsest. It is made after the generation of ``communities`` that it belongs to, and used with
no other; whatever it says is looked up in the state that asks.

An entity's vector is the centroid of the passages that name it (ArchRAG embeds a text that a model wrote of each), so
that nothing is embedded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...storage.index_file import Arrays, FileHead
from ...structures.indexes.index import BuildTools, Content, FileIndex, IndexRecord, States
from ...structures.indexes.index_reading import bound_index
from ...structures.state import State
from ...structures.vectors.chnsw import CHECKED_IN_PLACE, LAYERED_OPTIONS, LayeredVectors, layered_arrays
from ...structures.vectors.vectors import Matrix
from ..graphrag.attributes import entity_vectors, passage_vectors
from ..graphrag.communities import Communities
from ..graphrag.community_building import NOWHERE
from ..graphrag.community_index import COMMUNITIES
from ..graphrag.entity_graph import entity_graph


@dataclass(frozen=True)
class CommunityGraph:
    """What the file holds: ``nodes`` are the entities of layer 0 and the communities of each layer above, by layer;
    ``change`` is the change number of the communities that it belongs to."""

    change: int
    nodes: list[npt.NDArray[np.uint32]]
    vectors: LayeredVectors

    def nearest(self, vector: Matrix, counts: list[int], ef: int) -> list[list[tuple[int, float]]]:
        """Entities and communities of largest cosine by layer, as :meth:`LayeredVectors.nearest` gives them."""
        found = self.vectors.nearest(vector, counts, ef)
        return [
            [(int(nodes[number]), cosine) for number, cosine in layer]
            for nodes, layer in zip(self.nodes, found, strict=True)
        ]


class CommunityGraphIndex(FileIndex[CommunityGraph, CommunityGraph | None]):
    """Entities and communities by their vectors."""

    name = "community_graph"
    description = "entities and communities as one graph of near neighbours, for USING archrag"
    beside = COMMUNITIES.name
    building = "communities are compared one by one meanwhile"
    checked_in_place = CHECKED_IN_PLACE
    options: Mapping[str, Option] = LAYERED_OPTIONS

    def build(
        self, states: States, old: CommunityGraph | None, record: IndexRecord, tools: BuildTools
    ) -> Content | None:
        with states() as state:
            communities = bound_index(state, COMMUNITIES)
            if communities is None or (old is not None and old.change == communities.change):
                return None
            graph = entity_graph(state)
            layers = [entity_vectors(graph, passage_vectors(state, graph))]
            nodes, names = [graph.entities], [graph.keys]
            of = [(communities.of_entity(entity) or [NOWHERE])[-1] for entity in graph.entities.tolist()]
            parents = []
            for numbers in layers_of(communities):
                places = {number: place for place, number in enumerate(numbers)}
                parents.append(np.array([places.get(parent, NOWHERE) for parent in of], np.int64))
                above = (communities.get(number).parent for number in numbers)
                of = [NOWHERE if parent is None else parent for parent in above]
                layers.append(communities.vectors(numbers))
                nodes.append(np.array(numbers, np.uint32))
                names.append([communities.key(number) for number in numbers])
        digests = list(map(_digests, names))
        tell, stop, options = tools.progress, tools.cancelled, record.counts(LAYERED_OPTIONS)
        arrays = layered_arrays(layers, parents, digests, progress=tell, cancelled=stop, **options)
        if arrays is None:
            return None
        return Content({"change": communities.change}, {**arrays, "nodes": np.concatenate(nodes)})

    def read(self, arrays: Arrays, head: FileHead) -> CommunityGraph:
        vectors = LayeredVectors(arrays)
        ends = np.cumsum(vectors.sizes)[:-1]
        return CommunityGraph(head["change"], np.split(arrays["nodes"], ends), vectors)

    def bound(self, read: CommunityGraph, record: IndexRecord, state: State) -> CommunityGraph | None:
        communities = bound_index(state, COMMUNITIES)
        return read if communities is not None and communities.change == read.change else None

    def describe(self, read: CommunityGraph) -> str:
        entities, *communities = read.vectors.sizes
        how = "by links" if read.vectors.linked else "all compared"
        return f"{entities:,} entities and {sum(communities):,} communities in {len(communities)} layers, {how}"


def layers_of(communities: Communities) -> list[list[int]]:
    """The communities of each level, from the finest to the coarsest."""
    found: list[list[int]] = [[] for _ in range(communities.levels)]
    for number in range(len(communities)):
        found[communities.get(number).level].append(number)
    return found[::-1]


def _digests(names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """An order of names that follows nothing they say, and is that of each whatever others there are."""
    numbers = [int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) for name in names]
    return np.array(numbers, np.uint64)


#: The one that the strategy asks for.
COMMUNITY_GRAPH = CommunityGraphIndex()
