"""Strategy ``archrag``: chunks and reports reached from the nearest entities and communities of every layer (ArchRAG).

One descent over the layers returns the nearest nodes of each (Wang et al. 2025, section 3.2.1): entities, then
communities from the finest to the coarsest. An entity leads to the chunks that mention it, and a community to its home
chunks. The nearer the node, the more it adds to the chunk's own score, which is that of hybrid search. After the chunks
come reports of the nearest communities, taken from each layer in turn.

*Adaptive filtering* (section 3.2.2): with a model, ASK makes it extract points from the result of each layer, and write
the answer from them, best first. The paper also adds what the model says without any evidence; kvstore does not.
Without a model, the answer has the best sentences of each layer.

All nodes are looked up in the state of the query. A deleted node leads nowhere, and further ones are requested in its
place. Chunks newer than the communities are found by their own scores.

In: a query, the index ``communities`` and its file. Out: evidence, with a group of hits for each layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import numpy as np

from ...arguments import Option
from ...derived.passage_graph.edges import LOWER
from ...derived.passage_graph.structure import GRAPH
from ...errors import IndexUnavailableError
from ...retrieval.distillation import Distiller, Point, build_distilled_evidence
from ...retrieval.evidence import Evidence, Hit, HitGroup
from ...retrieval.query import Query, evidence_of, option
from ...structures.indexes.index_reading import bind_index
from ...structures.ranking import best
from ...structures.vectors.vectors import Matrix
from ...text.words import count_text_tokens
from ..graphrag.communities import Communities
from ..graphrag.community_index import COMMUNITIES
from ..graphrag.local_search import narrow_query
from ..graphrag.report_hits import build_community_report, renumber_hits, require_communities
from ..hybrid.direct_search import search_directly
from .layer_index import COMMUNITY_GRAPH, CommunityGraph, build_in_memory

#: The maximum number of chunks of an entity, and of a community, that is specific enough to lead to them.
_MAX_ENTITY_CHUNKS, _MAX_COMMUNITY_CHUNKS = 200, 50
#: The maximum number of retries with larger counts to replace deleted nodes.
_MAX_RETRIES = 3
#: Cosines are rounded to a multiple of this before they are compared.
_COSINE_STEP = 1 / (1 << 16)

#: Entities or communities with their cosines, best first.
_RankedNodes = list[tuple[int, float]]


@dataclass
class _ChunkSource:
    """The node that led to a chunk: its layer (0: entities), its id, and its cosine as a share of the layer's best."""

    layer: int
    node: int
    share: float


@dataclass
class _NearestLayers:
    """The nearest nodes of every layer: ``near[0]`` are entities, the others communities, from the finest level."""

    communities: Communities
    nearest: list[_RankedNodes]
    chunk_sources: dict[int, _ChunkSource] = field(default_factory=dict)

    def format_layer(self, layer: int) -> str:
        """Return the name of a layer."""
        return f"communities of level {self.communities.levels - layer}" if layer else "entities"


#: The candidates kept while a layer is walked.
_EF_SEARCH = 50


class ArchragStrategy:
    """A strategy that searches entities and communities of every layer, and the chunks and reports they lead to."""

    name = "archrag"
    needs = COMMUNITIES.name
    description = "ArchRAG: the nearest entities and communities of every layer lead to passages and reports"
    options: Mapping[str, Option] = {
        "k": Option(5, 1, 100, "nearest entities, and communities of each layer"),
        "levels": Option(4, 0, 100, "layers of communities above the entities that are searched, from the finest"),
        "share": Option(0.1, 0, 10, "how much it counts what leads to a passage, beside its own resemblance"),
        "reports": Option(0.25, 0, 0.9, "share of what is found that reports of communities have"),
    }

    def retrieve(self, query: Query) -> Evidence:
        layers = self._find_nearest(query)
        reports = self._select_reports(query, layers)
        passages = self._rank_chunks(query, layers, [report for _, report in reports])
        last_score = passages.hits[-1].score if passages.hits else 1.0
        ranked_reports = [
            (layer, replace(report, score=max(0.0, last_score * report.score))) for layer, report in reports
        ]
        ranked_reports.sort(key=lambda one: (-one[1].score, one[1].document, one[1].start))
        hits = renumber_hits([*passages.hits, *(report for _, report in ranked_reports)])
        hit_layers = [*(0 for _ in passages.hits), *(layer for layer, _ in ranked_reports)]
        groups = [
            HitGroup(
                layers.format_layer(layer),
                tuple(index for index, hit_layer in enumerate(hit_layers) if hit_layer == layer),
            )
            for layer in sorted(set(hit_layers))
        ]
        return replace(passages, hits=hits, groups=groups)

    def distil(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """Make the model extract points from the result of each layer, one call for each layer."""
        with distiller.open_state_with_query(evidence.question) as query:
            layers = self._find_nearest(query)
            layer_hits = [[hit for hit in evidence.hits if hit.kind != "report"]]
            layer_hits += [
                [report for node, _ in nearest if (report := _build_report(query, layers, layer, node))]
                for layer, nearest in enumerate(layers.nearest[1:], 1)
            ]
        points: list[Point] = []
        for hits in filter(None, layer_hits):
            points += distiller.read(evidence.question, hits).points
        return build_distilled_evidence(evidence, points, distiller.trace)

    def _find_nearest(self, query: Query) -> _NearestLayers:
        """Return the nearest nodes of every layer that still exist."""
        communities = require_communities(query)
        num_nearest = int(option(query, self, "k"))
        num_layers = 1 + min(communities.levels, int(option(query, self, "levels")))
        vector = np.ascontiguousarray(query.vector, np.float32)
        with query.trace.step("descend layers") as step:
            step.detail = f"the {num_nearest} nearest of each of {num_layers} layers, C-HNSW"
            try:
                graph = bind_index(query.view, COMMUNITY_GRAPH)
                if graph is None:
                    raise IndexUnavailableError("its file is missing, damaged or of other communities")
                layers = _search_layers(query, communities, graph, vector, [num_nearest] * num_layers, _EF_SEARCH)
            except IndexUnavailableError as problem:
                remedy = f"REFRESH INDEX {COMMUNITIES.name} rebuilds it"
                try:
                    graph = build_in_memory(query.view, communities)
                except IndexUnavailableError as error:
                    message = f"index {COMMUNITY_GRAPH.name}: {problem}, and {error}; {remedy}"
                    raise IndexUnavailableError(message) from error
                step.detail += f", made in memory ({problem}; {remedy})"
                layers = _search_layers(query, communities, graph, vector, [num_nearest] * num_layers, _EF_SEARCH)
            step.count = sum(map(len, layers))
        return _NearestLayers(communities, layers)

    def _rank_chunks(self, query: Query, layers: _NearestLayers, reports: Sequence[Hit]) -> Evidence:
        """Return the best chunks, by their own score and the nodes that lead to them, leaving room for reports."""
        with query.trace.step("passages of entities and communities") as step:
            for layer, nearest in enumerate(layers.nearest):
                for (node, cosine), chunks in zip(nearest, _iter_led_chunks(query, layers, layer), strict=True):
                    share = max(0.0, cosine) / (nearest[0][1] or 1.0)
                    for chunk in chunks:
                        previous = layers.chunk_sources.get(chunk)
                        if previous is None or previous.share < share:
                            layers.chunk_sources[chunk] = _ChunkSource(layer, node, share)
            led_chunks = np.array(sorted(layers.chunk_sources), np.uint64)
            led_chunks = led_chunks[query.mask_allowed(led_chunks)]
            step.detail, step.count = f"of {sum(map(len, layers.nearest))} entities and communities", len(led_chunks)
        direct = search_directly(query, extra_chunks=led_chunks)
        weight = option(query, self, "share")
        led_shares = [
            layers.chunk_sources[chunk].share if chunk in layers.chunk_sources else 0.0
            for chunk in direct.chunks.tolist()
        ]
        ranking = best(query.view, direct.chunks, direct.scores + weight * np.array(led_shares), query.reach)
        direct_paths = direct.format_paths()
        paths = {
            chunk: _format_path(query, layers, chunk) if chunk in layers.chunk_sources else direct_paths.get(chunk, "")
            for chunk, _ in ranking
        }
        return evidence_of(narrow_query(query, reports), self.name, ranking, paths, len(direct.chunks))

    def _select_reports(self, query: Query, layers: _NearestLayers) -> list[tuple[int, Hit]]:
        """Return reports of the nearest communities with their layers, from each layer in turn, within their share."""
        share = option(query, self, "reports")
        max_reports = min(query.top - 1, math.ceil(share * query.top)) if share else 0
        token_budget = math.inf if query.within is None else share * query.within
        reports: list[tuple[int, Hit]] = []
        with query.trace.step("reports of communities") as step:
            for layer, community in _interleave_layers(layers.nearest[1:]):
                if len(reports) >= max_reports:
                    break
                report = _build_report(query, layers, layer, community)
                if report is not None and (size := count_text_tokens(report.text)) <= token_budget:
                    reports.append((layer, report))
                    token_budget -= size
            step.count = len(reports)
        return reports


def _search_layers(
    query: Query, communities: Communities, graph: CommunityGraph, vector: Matrix, limits: Sequence[int], ef: int
) -> list[_RankedNodes]:
    """Return the nearest nodes of each layer that still exist, requesting more in place of deleted ones."""
    counts = [*limits, *(0 for _ in graph.nodes[len(limits) :])]
    layers: list[_RankedNodes] = []
    for _ in range(_MAX_RETRIES + 1):
        nearest = graph.find_nearest(vector, counts, ef)[: len(limits)]
        layers = [
            [(node, _round_cosine(cosine)) for node, cosine in layer if _is_present(query, communities, number, node)]
            for number, layer in enumerate(nearest)
        ]
        needs_more = [
            len(remaining) < min(count, len(nodes)) and len(layer) < len(nodes)
            for remaining, layer, nodes, count in zip(layers, nearest, graph.nodes, limits, strict=False)
        ]
        if not any(needs_more):
            break
        counts[: len(limits)] = [
            4 * count if is_short else count for count, is_short in zip(counts, needs_more, strict=False)
        ]
    return [layer[:count] for layer, count in zip(layers, limits, strict=True)]


def _is_present(query: Query, communities: Communities, layer: int, node: int) -> bool:
    return communities.is_alive(node) if layer else node in query.view.entities


def _round_cosine(cosine: float) -> float:
    return round(cosine / _COSINE_STEP) * _COSINE_STEP


def _iter_led_chunks(query: Query, layers: _NearestLayers, layer: int) -> Iterator[Sequence[int]]:
    """Yield the chunks that each of the nearest nodes of a layer leads to."""
    nodes = [node for node, _ in layers.nearest[layer]]
    if layer:
        for community in nodes:
            is_specific = layers.communities.get(community).chunk_count <= _MAX_COMMUNITY_CHUNKS
            yield [chunk for chunk, _ in layers.communities.list_chunks(community)] if is_specific else []
        return
    graph = query.view.get_part(GRAPH)
    entities = np.array(nodes, np.uint32)
    rows = graph.read_entity_rows(entities, graph.read_degrees(entities), _MAX_ENTITY_CHUNKS)
    for number in range(len(nodes)):
        row = slice(rows.bounds[number], rows.bounds[number + 1])
        yield rows.chunks[row][(rows.features[row] & ~np.uint16(LOWER)) != 0].tolist()


def _interleave_layers(nearest: Sequence[_RankedNodes]) -> Iterator[tuple[int, int]]:
    """Yield layers and communities: first the nearest of each layer, then the second nearest of each, and so on."""
    for turn in zip_longest(*nearest):
        for layer, scored_node in enumerate(turn, 1):
            if scored_node is not None:
                yield layer, scored_node[0]


def _build_report(query: Query, layers: _NearestLayers, layer: int, community: int) -> Hit | None:
    """Return the report of one of the nearest communities."""
    cosine = dict(layers.nearest[layer])[community]
    return build_community_report(
        query, layers.communities, community, path=f"near the question, {layers.format_layer(layer)}", score=cosine
    )


def _format_path(query: Query, layers: _NearestLayers, chunk: int) -> str:
    """Describe the node that led to a chunk."""
    source = layers.chunk_sources[chunk]
    entity = None if source.layer else query.view.entities.get(source.node).name
    communities = [source.node] if source.layer else layers.communities.find_by_entity(source.node)[-1:]
    parts = [
        f'community "{layers.communities.get_title(community)}" (level {layers.communities.get(community).level})'
        for community in communities
        if layers.communities.is_alive(community)
    ]
    return " → ".join([*parts, *([entity] if entity else [])])
