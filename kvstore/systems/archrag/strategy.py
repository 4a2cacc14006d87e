"""Strategy ``archrag``: the nearest entities and communities of every layer, and what they lead to (ArchRAG).

One descent over the layers gives the nearest of each (Wang et al. 2025, section 3.2.1): entities, and above them
communities from the finest to the coarsest. An entity leads to the passages that name it, a community to those at home
in it, the more the nearer it is; that is added to what a passage itself has in common with the question, as hybrid
search tells it. Behind the passages come reports of the nearest communities, of each layer by turns.

*Adaptive filtering* (section 3.2.2): with a model ASK has it take points from what each layer gave, layer by layer, and
writes the answer from them, the best first; the paper puts what the model says without any evidence beside them, which
is left out here. Without a model an answer has the best sentences of each layer.

What was found is looked up in the state that asks: who is gone leads nowhere, and more are asked for in its place; what
is newer than the communities is found by its own resemblance.

In: a query, the index ``communities`` and the file that goes with it. Out: evidence, with a group of hits a layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import numpy as np

from ...arguments import Option
from ...errors import IndexUnavailableError
from ...retrieval.distillation import Distiller, Point, distilled
from ...retrieval.evidence import Evidence, Hit, HitGroup
from ...retrieval.query import Query, evidence_of, option
from ...structures.indexes.index_reading import bound_index
from ...structures.ranking import best
from ...structures.vectors.vectors import Matrix
from ...text.words import count_text_tokens
from ..graphrag.communities import Communities
from ..graphrag.community_index import COMMUNITIES
from ..graphrag.local_search import narrowed
from ..graphrag.report_hits import build_community_report, ranked, require_communities
from ..hybrid.direct import DIRECT_OPTIONS, get_weights, search_directly
from ..passage_graph.edges import LOWER
from ..passage_graph.structure import GRAPH
from .layer_index import COMMUNITY_GRAPH, CommunityGraph, build_in_memory

#: Passages of an entity, and of a community, that leads anywhere in particular, at most.
_MAX_ENTITY_CHUNKS, _MAX_COMMUNITY_CHUNKS = 200, 50
#: How often more nodes are asked for in place of such as are gone.
_MAX_RETRIES = 3
#: Cosines are rounded to a multiple of this before they decide.
_STEP = 1 / (1 << 16)

#: Entities or communities with their cosines, best first.
_RankedNodes = list[tuple[int, float]]


@dataclass
class _ChunkSource:
    """What led to a passage: the layer (0: entities), the node, and its cosine as a share of the layer's best."""

    layer: int
    node: int
    share: float


@dataclass
class _NearestLayers:
    """The nearest of every layer: ``near[0]`` entities, above them communities from the finest level."""

    communities: Communities
    near: list[_RankedNodes]
    reached: dict[int, _ChunkSource] = field(default_factory=dict)

    def name(self, layer: int) -> str:
        """What a layer is called."""
        return f"communities of level {self.communities.levels - layer}" if layer else "entities"


class ArchragStrategy:
    """The nearest entities and communities of every layer, and the passages and reports they lead to."""

    name = "archrag"
    needs = COMMUNITIES.name
    description = "ArchRAG: the nearest entities and communities of every layer lead to passages and reports"
    options: Mapping[str, Option] = {
        "k": Option(5, 1, 100, "nearest entities, and communities of each layer"),
        "ef": Option(50, 1, 10_000, "candidates kept while a layer is walked"),
        "levels": Option(4, 0, 100, "layers of communities above the entities that are searched, from the finest"),
        "share": Option(0.1, 0, 10, "how much it counts what leads to a passage, beside its own resemblance"),
        "reports": Option(0.25, 0, 0.9, "share of what is found that reports of communities have"),
        **DIRECT_OPTIONS,
    }

    def retrieve(self, query: Query) -> Evidence:
        layers = self._nearest(query)
        reports = self._reports(query, layers)
        passages = self._passages(query, layers, [report for _, report in reports])
        last_score = passages.hits[-1].score if passages.hits else 1.0
        ranked_reports = [
            (layer, replace(report, score=max(0.0, last_score * report.score))) for layer, report in reports
        ]
        ranked_reports.sort(key=lambda one: (-one[1].score, one[1].document, one[1].start))
        hits = ranked([*passages.hits, *(report for _, report in ranked_reports)])
        hit_layers = [*(0 for _ in passages.hits), *(layer for layer, _ in ranked_reports)]
        groups = [
            HitGroup(
                layers.name(layer), tuple(index for index, hit_layer in enumerate(hit_layers) if hit_layer == layer)
            )
            for layer in sorted(set(hit_layers))
        ]
        return replace(passages, hits=hits, groups=groups)

    def distil(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """Have the model take points from what each layer gave, a call a layer."""
        with distiller.asked(evidence.question) as query:
            layers = self._nearest(query)
            layer_hits = [[hit for hit in evidence.hits if hit.kind != "report"]]
            layer_hits += [
                [report for node, _ in nearest if (report := _report(query, layers, layer, node))]
                for layer, nearest in enumerate(layers.near[1:], 1)
            ]
        points: list[Point] = []
        for hits in filter(None, layer_hits):
            points += distiller.read(evidence.question, hits).points
        return distilled(evidence, points, distiller.trace)

    def _nearest(self, query: Query) -> _NearestLayers:
        """The nearest that are still there of every layer."""
        communities = require_communities(query)
        num_nearest, ef = (int(option(query, self, name)) for name in ("k", "ef"))
        num_layers = 1 + min(communities.levels, int(option(query, self, "levels")))
        vector = np.ascontiguousarray(query.vector, np.float32)
        with query.trace.step("descend layers") as step:
            step.detail = f"the {num_nearest} nearest of each of {num_layers} layers, C-HNSW"
            try:
                graph = bound_index(query.view, COMMUNITY_GRAPH)
                if graph is None:
                    raise IndexUnavailableError("its file is missing, damaged or of other communities")
                found = _search_layers(query, communities, graph, vector, [num_nearest] * num_layers, ef)
            except IndexUnavailableError as problem:
                remedy = f"REFRESH INDEX {COMMUNITIES.name} makes it anew"
                try:
                    graph = build_in_memory(query.view, communities)
                except IndexUnavailableError as error:
                    message = f"index {COMMUNITY_GRAPH.name}: {problem}, and {error}; {remedy}"
                    raise IndexUnavailableError(message) from error
                step.detail += f", made in memory ({problem}; {remedy})"
                found = _search_layers(query, communities, graph, vector, [num_nearest] * num_layers, ef)
            step.count = sum(map(len, found))
        return _NearestLayers(communities, found)

    def _passages(self, query: Query, layers: _NearestLayers, reports: Sequence[Hit]) -> Evidence:
        """The passages that resemble the question or are led to, best first, as many as reports leave room for."""
        with query.trace.step("passages of entities and communities") as step:
            for layer, nearest in enumerate(layers.near):
                for (node, cosine), chunks in zip(nearest, _led_to(query, layers, layer), strict=True):
                    share = max(0.0, cosine) / (nearest[0][1] or 1.0)
                    for chunk in chunks:
                        previous = layers.reached.get(chunk)
                        if previous is None or previous.share < share:
                            layers.reached[chunk] = _ChunkSource(layer, node, share)
            led_chunks = np.array(sorted(layers.reached), np.uint64)
            led_chunks = led_chunks[query.mask_allowed(led_chunks)]
            step.detail, step.count = f"of {sum(map(len, layers.near))} entities and communities", len(led_chunks)
        direct = search_directly(query, get_weights(query, self), led_chunks)
        weight = option(query, self, "share")
        led_shares = [
            layers.reached[chunk].share if chunk in layers.reached else 0.0 for chunk in direct.chunks.tolist()
        ]
        ranking = best(query.view, direct.chunks, direct.scores + weight * np.array(led_shares), query.reach)
        direct_paths = direct.paths()
        paths = {
            chunk: _path(query, layers, chunk) if chunk in layers.reached else direct_paths.get(chunk, "")
            for chunk, _ in ranking
        }
        return evidence_of(narrowed(query, reports), self.name, ranking, paths, len(direct.chunks))

    def _reports(self, query: Query, layers: _NearestLayers) -> list[tuple[int, Hit]]:
        """Reports of the nearest communities, of each layer by turns, within their share; each with its layer."""
        share = option(query, self, "reports")
        max_reports = min(query.top - 1, math.ceil(share * query.top)) if share else 0
        token_budget = math.inf if query.within is None else share * query.within
        found: list[tuple[int, Hit]] = []
        with query.trace.step("reports of communities") as step:
            for layer, community in _interleave_layers(layers.near[1:]):
                if len(found) >= max_reports:
                    break
                report = _report(query, layers, layer, community)
                if report is not None and (size := count_text_tokens(report.text)) <= token_budget:
                    found.append((layer, report))
                    token_budget -= size
            step.count = len(found)
        return found


def _search_layers(
    query: Query, communities: Communities, graph: CommunityGraph, vector: Matrix, most: Sequence[int], ef: int
) -> list[_RankedNodes]:
    """The nearest of each layer that are still there: more are asked for in place of such as are gone."""
    counts = [*most, *(0 for _ in graph.nodes[len(most) :])]
    layers: list[_RankedNodes] = []
    for _ in range(_MAX_RETRIES + 1):
        near = graph.nearest(vector, counts, ef)[: len(most)]
        layers = [
            [(node, _round_cosine(cosine)) for node, cosine in layer if _is_there(query, communities, number, node)]
            for number, layer in enumerate(near)
        ]
        needs_more = [
            len(remaining) < min(count, len(nodes)) and len(layer) < len(nodes)
            for remaining, layer, nodes, count in zip(layers, near, graph.nodes, most, strict=False)
        ]
        if not any(needs_more):
            break
        counts[: len(most)] = [
            4 * count if is_short else count for count, is_short in zip(counts, needs_more, strict=False)
        ]
    return [layer[:count] for layer, count in zip(layers, most, strict=True)]


def _is_there(query: Query, communities: Communities, layer: int, node: int) -> bool:
    return communities.alive(node) if layer else node in query.view.entities


def _round_cosine(cosine: float) -> float:
    return round(cosine / _STEP) * _STEP


def _led_to(query: Query, layers: _NearestLayers, layer: int) -> Iterator[Sequence[int]]:
    """The passages that each of the nearest of a layer leads to."""
    nodes = [node for node, _ in layers.near[layer]]
    if layer:
        for community in nodes:
            is_specific = layers.communities.get(community).passages <= _MAX_COMMUNITY_CHUNKS
            yield [chunk for chunk, _ in layers.communities.passages(community)] if is_specific else []
        return
    graph = query.view.part(GRAPH)
    entities = np.array(nodes, np.uint32)
    rows = graph.read_entity_rows(entities, graph.degrees(entities), _MAX_ENTITY_CHUNKS)
    for number in range(len(nodes)):
        row = slice(rows.bounds[number], rows.bounds[number + 1])
        yield rows.chunks[row][(rows.features[row] & ~np.uint16(LOWER)) != 0].tolist()


def _interleave_layers(near: Sequence[_RankedNodes]) -> Iterator[tuple[int, int]]:
    """Communities with their layers: the nearest of each layer, then the next of each."""
    for turn in zip_longest(*near):
        for layer, scored_node in enumerate(turn, 1):
            if scored_node is not None:
                yield layer, scored_node[0]


def _report(query: Query, layers: _NearestLayers, layer: int, community: int) -> Hit | None:
    """The report of a community that was found."""
    cosine = dict(layers.near[layer])[community]
    return build_community_report(
        query, layers.communities, community, path=f"near the question, {layers.name(layer)}", score=cosine
    )


def _path(query: Query, layers: _NearestLayers, chunk: int) -> str:
    """What led to a passage."""
    source = layers.reached[chunk]
    entity = None if source.layer else query.view.entities.get(source.node).name
    homes = [source.node] if source.layer else layers.communities.of_entity(source.node)[-1:]
    parts = [
        f'community "{layers.communities.title(home)}" (level {layers.communities.get(home).level})'
        for home in homes
        if layers.communities.alive(home)
    ]
    return " → ".join([*parts, *([entity] if entity else [])])
