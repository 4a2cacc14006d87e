"""Strategy ``archrag``: chunks and reports reached from the nearest entities and communities of every layer (ArchRAG).
A *community* is a group of related entities. Layer 0 has the entities, and each layer above a level of communities, the
finest first. A *node* is an entity or a community.

One descent over the layers returns the nearest nodes of each (Wang et al. 2025, section 3.2.1). An entity leads to the
chunks that mention it, and a community to its home chunks. The nearer the node, the more it adds to the chunk's own
score in hybrid search. Among the chunks are reports of the nearest communities, from alternating layers.

*Adaptive filtering* (section 3.2.2): with a model, ASK makes it extract points from the result of each layer, and write
the answer from them, best first. The paper also adds what the model says without any evidence; kvstore does not.
Without a model, the answer has the best sentences of each layer.

All nodes are looked up in the state of the query. A deleted node leads nowhere; the next nearest nodes are requested
instead. Chunks newer than the communities are ranked by their own scores.

In: a query, the ``communities`` index and its file. Out: evidence, with a group of hits for each layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np

from ...arguments import Option
from ...retrieval.distillation import Distiller, Point, build_distilled_evidence
from ...retrieval.evidence import Evidence, Hit, HitGroup
from ...retrieval.query import Query, evidence_of, option
from ...structures.ranking import Ranking
from ..graphrag.community_index import COMMUNITIES
from ..graphrag.report_hits import (
    CommunityReportsRequest,
    build_report_hit,
    insert_reports,
    select_reports,
)
from ..hybrid.direct_search import search_hybrid
from .layer_requests import (
    LayerNode,
    LayerSearch,
    LinkedChunksRequest,
    NearestNodesRequest,
    NodeLabel,
    NodeLabelsRequest,
    RankedNodes,
)


@dataclass
class _ChunkSource:
    """The node that led to a chunk, and its cosine divided by the best cosine of its layer."""

    node: LayerNode
    relative_cosine: float


#: The number of candidates that the search of a layer remembers.
_EF_SEARCH = 50


class ArchragStrategy:
    """A strategy that searches entities and communities of every layer, and the chunks and reports they lead to."""

    name = "archrag"
    needs = COMMUNITIES.name
    description = "ArchRAG: chunks and reports for the nearest entities, and for the nearest communities in every layer"
    options: Mapping[str, Option] = {
        "k": Option(5, 1, 100, "number of nearest entities, and of nearest communities of each layer"),
        "levels": Option(4, 0, 100, "number of layers of communities that are searched, from the finest"),
        "share": Option(0.1, 0, 10, "weight of the nearest node that leads to a chunk; hybrid search has weight 1"),
        "reports": Option(0.125, 0, 0.9, "share of the results that are reports on communities"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Return evidence of chunks and of reports on communities, grouped by layer (ArchRAG, section 3.2).

        The layers are the entities, and each level of communities. A chunk is in the group of the entities; a report is
        in the group of its community's level.
        """
        search = self._find_nearest_nodes(query)
        report_share = option(query, self, "reports")
        with query.trace.step("reports of communities") as step:
            community_layers = search.layers[1:]  # without layer 0, which has the entities
            layers_by_community = {community: layer for layer, (community, _) in _interleave_layers(community_layers)}
            candidates = [
                search.build_report_candidate(community, layer) for community, layer in layers_by_community.items()
            ]
            reports = select_reports(query, candidates, report_share)
            step.count = len(reports)
        # Chunks are searched with the limits (hits and tokens) that the reports leave. ``communities`` has the
        # community of each hit that is a report, None for a chunk.
        evidence, communities = insert_reports(
            query, report_share, reports, lambda limited_query: self._rank_chunks(limited_query, search)
        )
        hit_layers = [0 if community is None else layers_by_community[community] for community in communities]
        groups = [
            HitGroup(
                search.format_layer(layer),
                tuple(index for index, hit_layer in enumerate(hit_layers) if hit_layer == layer),
            )
            for layer in sorted(set(hit_layers))
        ]
        return replace(evidence, groups=groups)

    def distill(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """Return the evidence with the points (rated statements) that a model extracts from chunks and reports.

        This is adaptive filtering (ArchRAG, section 3.2.2): the answer is written from the best points instead of the
        texts. ``distiller`` runs the model. It reads the chunks in one call, and the reports of each level of
        communities in another.
        """
        with distiller.open_query(evidence.question) as query:
            layer_hits = [[hit for hit in evidence.hits if hit.kind != "report"], *self._build_all_reports(query)]
        points: list[Point] = []
        for hits in filter(None, layer_hits):
            points += distiller.extract_points(evidence.question, hits).points
        return build_distilled_evidence(evidence, points, distiller.trace)

    def _find_nearest_nodes(self, query: Query) -> LayerSearch:
        """Return the entities and communities nearest to the question that exist, by layer of the search graph.

        Layer 0 has the entities; each layer above has a level of communities (ArchRAG, section 3.2.1).
        """
        num_nearest, levels = int(option(query, self, "k")), int(option(query, self, "levels"))
        vector = np.ascontiguousarray(query.vector, np.float32)
        with query.trace.step("descend layers") as step:
            search = query.reading.fetch(NearestNodesRequest(vector, num_nearest, levels, _EF_SEARCH))
            step.detail = f"the {num_nearest} nearest of each of {len(search.layers)} layers, "
            step.detail += "graph search (C-HNSW)" if search.is_linked else "exact search, because they are few"
            if search.problem is not None:
                step.detail += f", built in memory ({search.problem})"
            step.count = sum(map(len, search.layers))
        return search

    def _rank_chunks(self, query: Query, search: LayerSearch) -> Evidence:
        """Rank chunks by their score in hybrid search plus the score of their best entity or community in ``search``.

        The score of an entity or community is its cosine with the question, relative to the best one of its layer.
        """
        with query.trace.step("chunks of entities and communities") as step:
            chunk_sources = _find_chunk_sources(query, search)
            candidates = np.array(sorted(chunk_sources), np.uint64)
            candidates = candidates[query.mask_allowed(candidates)]
            num_nodes = sum(map(len, search.layers))
            step.detail, step.count = f"of {num_nodes} entities and communities", len(candidates)
        hybrid = search_hybrid(query, extra_chunks=candidates)
        link_weight = option(query, self, "share")
        link_scores = [
            chunk_sources[chunk].relative_cosine if chunk in chunk_sources else 0.0 for chunk in hybrid.chunks.tolist()
        ]
        ranking = replace(hybrid, scores=hybrid.scores + link_weight * np.array(link_scores)).rank(query)
        hybrid_paths = hybrid.format_paths()
        # A node is a reason only if it added to the score, or if hybrid search did not return the chunk.
        nodes_by_chunk = {
            chunk: chunk_sources[chunk].node
            for chunk, _ in ranking
            if chunk in chunk_sources and (link_weight > 0 or chunk not in hybrid_paths)
        }
        paths = _join_paths(ranking, hybrid_paths, _format_paths(query, nodes_by_chunk))
        return evidence_of(query, self.name, ranking, paths=paths, pool=len(hybrid.chunks))

    def _build_all_reports(self, query: Query) -> list[list[Hit]]:
        """Return the reports on the communities nearest to the question, as hits: a list for each layer, finest first.

        Reports that cannot be shown are omitted.
        """
        search = self._find_nearest_nodes(query)
        candidates = [
            [search.build_report_candidate(community, layer) for community, _ in ranked_nodes]
            for layer, ranked_nodes in enumerate(search.layers[1:], 1)  # without layer 0, which has the entities
        ]
        # The reports of all layers are read together, and then taken in the order of the candidates.
        community_ids = [candidate.community for candidate in chain.from_iterable(candidates)]
        contents = iter(query.reading.fetch(CommunityReportsRequest(community_ids)))
        hits_by_layer: list[list[Hit]] = []
        for layer_candidates in candidates:
            hits = [build_report_hit(next(contents), path, score=0.0) for _, path in layer_candidates]
            hits_by_layer.append([hit for hit in hits if hit is not None])
        return hits_by_layer


def _interleave_layers(communities_by_layer: Sequence[RankedNodes]) -> Iterator[tuple[int, tuple[int, float]]]:
    """Yield (layer, (community, cosine)), alternating between the layers: first the nearest community of each layer.

    ``communities_by_layer`` are the ranked communities of each layer above the entities, numbered from 1.
    """
    for communities_of_rank in zip_longest(*communities_by_layer):
        for layer, scored_community in enumerate(communities_of_rank, 1):
            if scored_community is not None:
                yield layer, scored_community


def _find_chunk_sources(query: Query, search: LayerSearch) -> dict[int, _ChunkSource]:
    """Return, for each chunk of the nearest entities and communities, the node with the greatest relative cosine.

    The cosine of a node with the question is divided by the best cosine of its layer.
    """
    chunk_sources: dict[int, _ChunkSource] = {}
    nodes_by_layer = [[node for node, _ in nearest_nodes] for nearest_nodes in search.layers]
    linked_chunks = query.reading.fetch(LinkedChunksRequest(nodes_by_layer))
    for layer, (nearest_nodes, chunk_groups) in enumerate(zip(search.layers, linked_chunks, strict=True)):
        for (node, cosine), chunks in zip(nearest_nodes, chunk_groups, strict=True):
            _, best_cosine = nearest_nodes[0]
            relative_cosine = max(0.0, cosine) / (best_cosine or 1.0)  # 0 cannot be a divisor
            for chunk in chunks:
                previous = chunk_sources.get(chunk)
                if previous is None or previous.relative_cosine < relative_cosine:
                    chunk_sources[chunk] = _ChunkSource((layer, node), relative_cosine)
    return chunk_sources


def _join_paths(ranking: Ranking, *mappings: Mapping[int, str]) -> dict[int, str]:
    """Return, by chunk of a ranking, its paths in several mappings, joined by "; "; chunks without a path are omitted.

    A path in a mapping can be empty.
    """
    paths = {chunk: "; ".join(filter(None, (mapping.get(chunk) for mapping in mappings))) for chunk, _ in ranking}
    return {chunk: path for chunk, path in paths.items() if path}


def _format_paths(query: Query, nodes_by_chunk: Mapping[int, LayerNode]) -> dict[int, str]:
    """Return, by chunk, the path of its hit through the entity or community (node) that led to the chunk."""
    nodes = list(dict.fromkeys(nodes_by_chunk.values()))
    if not nodes:
        return {}
    paths = dict(zip(nodes, map(_format_path, query.reading.fetch(NodeLabelsRequest(nodes))), strict=True))
    return {chunk: paths[node] for chunk, node in nodes_by_chunk.items()}


def _format_path(label: NodeLabel) -> str:
    """Return a hit's path, such as 'community "Bergen" (level 1) → Oslo'; ``label`` is its node's label."""
    names = []
    if label.community is not None:
        title, level = label.community
        names.append(f'community "{title}" (level {level})')
    if label.entity:
        names.append(label.entity)
    return " → ".join(names)
