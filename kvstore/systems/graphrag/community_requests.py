"""Requests of the GraphRAG strategies to the communities (groups of related entities) and the passage graph of a state.
A chunk is assigned to the community in which its names have the most weight; its *share* is the fraction of its names'
weight that is there.

In: entities, chunks or communities found before, or the vector of a question. Out: their chunks, members, titles and
sentences, as far as the state contains them. Reports are requested by :class:`~.report_hits.CommunityReportsRequest`,
and the tree of communities by :mod:`.tree_requests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...derived.passage_graph.edges import Degrees, EntityRows
from ...derived.passage_graph.structure import GRAPH
from ...retrieval.cover import CoverSentence, collect_cover_sentences, read_chunk_positions
from ...retrieval.hierarchy import Hierarchy
from ...retrieval.ordered_addresses import sort_nodes
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...structures.vectors.vectors import Vector
from .community_reports import read_slices
from .report_hits import require_communities


class EntityChunkRows(NamedTuple):
    """The chunks of entities, and the degrees (numbers of chunks) of the entities."""

    rows: EntityRows
    degrees: Degrees


class EntityChunksRequest(ReadRequest[EntityChunkRows]):
    """A request for the chunks that mention entities; the list is empty if there are more than ``max_chunks``. The
    answer also has the degree (number of chunks) of each entity.
    """

    entities: npt.NDArray[np.uint32]
    max_chunks: int

    def fetch(self, state: State) -> EntityChunkRows:
        graph = state.get_part(GRAPH)
        degrees = graph.read_degrees(self.entities)
        return EntityChunkRows(graph.read_entity_rows(self.entities, degrees, self.max_chunks), degrees)

    def list_chunks(self, answer: EntityChunkRows) -> Iterable[int]:
        """Return the ids of the chunks in ``answer``, the rows that were read for this request."""
        chunks: list[int] = answer.rows.chunks.tolist()
        return chunks


class FinestCommunity(NamedTuple):
    """The finest community of an entity, and ten times its rating (0 to 100), which grows with its number of chunks."""

    community: int
    rating: int


class FinestCommunitiesRequest(ReadRequest[list[FinestCommunity | None]]):
    """A request for the finest community of each entity, None if it is in no community. Each has ten times its rating,
    which grows with its number of chunks.
    """

    entities: Sequence[int]

    def fetch(self, state: State) -> list[FinestCommunity | None]:
        communities = require_communities(state)
        ratings = communities.tree.ratings
        return [
            None if community is None else FinestCommunity(community, int(ratings[community]))
            for community in communities.find_finest(self.entities)
        ]


class NearbyCommunity(NamedTuple):
    """A community near a question: its id, its title and its strongest members, strongest first."""

    community: int
    title: str
    members: list[int]


class NearestCommunitiesRequest(ReadRequest[list[NearbyCommunity]]):
    """A request for the ``count`` communities nearest to a unit vector, each with at most ``max_members`` members."""

    vector: Vector
    count: int
    max_members: int

    def fetch(self, state: State) -> list[NearbyCommunity]:
        communities = require_communities(state)
        community_ids = [community for community, _ in communities.find_nearest(self.vector, self.count)]
        titles = communities.get_titles(community_ids)
        members = communities.list_strongest_members(community_ids, self.max_members)
        return list(map(NearbyCommunity, community_ids, titles, members))


class HierarchySentencesRequest(ReadRequest[list[list[str]]]):
    """A request for sentences about names (normal forms) from the entity forest, the trees of parent and child. Each
    name has the sentences of its first ``max_nodes`` nodes, with at most ``max_relatives`` ancestors and as many
    descendants in each sentence.
    """

    names: Sequence[str]
    max_nodes: int
    max_relatives: int

    def fetch(self, state: State) -> list[list[str]]:
        hierarchy = Hierarchy(state, self.max_relatives)
        return [
            hierarchy.build_sentences(sort_nodes(state, nodes)[: self.max_nodes])
            for nodes in hierarchy.find_nodes(self.names)
        ]


class CommunityLabel(NamedTuple):
    """The key, the title and the level of a community."""

    key: str
    title: str
    level: int


class CommunityLabelsRequest(ReadRequest[list[CommunityLabel]]):
    """A request for the keys, titles and levels of communities."""

    communities: Sequence[int]

    def fetch(self, state: State) -> list[CommunityLabel]:
        communities = require_communities(state)
        keys, titles = communities.get_keys(self.communities), communities.get_titles(self.communities)
        levels = (communities.get(community).level for community in self.communities)
        return list(map(CommunityLabel, keys, titles, levels))


class CommunityChunksRequest(ReadRequest[list[list[int]]]):
    """A request for the chunks assigned to each community or to its descendants, largest share first. The share of a
    chunk is the fraction of its names, by weight, that belong to the community it is assigned to.
    """

    communities: Sequence[int]

    def fetch(self, state: State) -> list[list[int]]:
        chunk_groups = require_communities(state).list_chunk_groups(self.communities)
        return [[chunk for chunk, _ in group] for group in chunk_groups]  # without the shares


class CoverCandidates(NamedTuple):
    """The sentences of groups of chunks: candidates for a cover, the sentences that together have most of the content.

    ``positions`` has the document key and the ordinal of each chunk with sentences.
    """

    groups: list[list[CoverSentence]]
    positions: dict[int, tuple[str, int]]


class CoverSentencesRequest(ReadRequest[CoverCandidates]):
    """A request for the sentences of groups of chunks, by document key and offset within each group. The answer also
    has the document key and the ordinal of each chunk with any.
    """

    chunk_groups: Sequence[Sequence[int]]

    def fetch(self, state: State) -> CoverCandidates:
        groups = [collect_cover_sentences(state, chunks) for chunks in self.chunk_groups]
        chunks = dict.fromkeys(sentence.chunk for sentence in chain.from_iterable(groups))
        return CoverCandidates(groups, read_chunk_positions(state, chunks))


class ChunkTextsRequest(ReadRequest[list[str]]):
    """A request for the texts of chunks."""

    chunks: Sequence[int]

    def fetch(self, state: State) -> list[str]:
        records = state.chunks.get_many(self.chunks)
        return read_slices(state.documents, [(record.document, record.start, record.end) for record in records])
