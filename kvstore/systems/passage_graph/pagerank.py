"""Personalised PageRank over the stored graph of chunks and entities (HippoRAG; by forward push).

In: seeds, chunks and entities with masses; how much each kind of edge weighs. Out: the masses of all chunks and
entities that the walk touched. The kernel (:mod:`kvstore_cext.pagerank`) asks for the rows it lacks; they are read from
the store, many at a time, and weighed with the counts of this snapshot. What lies beyond is never read, so the cost is
that of the neighbourhood and of the error bound; the outcome does not depend on how anything is numbered. Seeds of no
mass, and options out of range, are InputErrors.

A walk goes from a chunk to an entity with a probability in proportion to body weight · rarity, from an entity to a
chunk in proportion to body and heading weight, from an entity to one it is linked with in proportion to weight ·
rarity of the other. Rarity is ln(1 + chunks / chunks of the entity), to the power of ``rarity_exponent``. Titles
and headings lead to their chunks and not away from them: they say what a chunk is about, its text what it leads to.
Dead ends lead back to the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kvstore_cext.pagerank import ForwardPush

from ...errors import InputError
from ...structures.state import State
from ..contract import RELATION_LINK, TRIPLE_LINK
from . import graph
from .graph import Degrees, PassageGraph
from .structure import GRAPH

_ENTITY = 1 << 63
#: What a chunk's row costs, in neighbours: about as many entities does a chunk name.
_CHUNK_SIZE = 16.0

Nodes = npt.NDArray[np.uint64]
Masses = npt.NDArray[np.float64]


def chunk_node(chunk: int) -> int:
    """The node of a chunk."""
    return chunk


def entity_node(entity: int) -> int:
    """The node of an entity."""
    return _ENTITY | entity


def is_entity(node: int) -> bool:
    """Whether a node is that of an entity; else it is a chunk's id."""
    return node >= _ENTITY


def entity_of(node: int) -> int:
    """The entity of a node that is one's."""
    return node ^ _ENTITY


@dataclass(frozen=True, slots=True)
class EdgeWeights:
    """How much the edges weigh.

    Body weight of a chunk and an entity: (mentions + ``lower`` · mentions in lower case) ^ ``count_exponent``, or
    ``inside`` where it is only mentioned inside longer names; plus ``triple_name`` where an imported triple names it.
    Mentions in lower case weigh as others do where an entity has no other chunks, but such an entity, a common noun
    for the most part, draws only the share ``common`` of its weight from a chunk; else such chunks count for its
    rarity as ``lower`` says. Heading weight: what the names of titles and headings, whole or part, add. Of two
    entities: the weight of the kind of link · how often it is said ^ ``count_exponent``. An entity in more than
    ``most_chunks`` is walked neither to nor through.
    """

    count_exponent: float = 0.5
    inside: float = 0.3
    lower: float = 0.0
    common: float = 0.1
    title_whole: float = 20.0
    title_part: float = 0.5
    heading_whole: float = 20.0
    heading_part: float = 0.5
    triple_name: float = 0.5
    title_link: float = 0.0
    triple_link: float = 0.3
    relation_link: float = 0.05
    rarity_exponent: float = 1.0
    most_chunks: int = 2000

    def of_link(self, kind: int) -> float:
        """The weight of one link of a kind."""
        weights = {
            graph.TITLE_LINK: self.title_link,
            TRIPLE_LINK: self.triple_link,
            RELATION_LINK: self.relation_link,
        }
        return weights[kind]

    @property
    def linking(self) -> bool:
        """Whether any links weigh anything."""
        return self.title_link > 0 or self.triple_link > 0 or self.relation_link > 0


DEFAULT_WEIGHTS = EdgeWeights()


@dataclass(frozen=True, slots=True)
class PageRank:
    """Masses of all chunks and entities touched, unordered; together with ``missing`` they come to 1.

    ``missing`` is the error, the L1 distance to the exact vector, and no mass is above the exact one. ``pushes``,
    ``rows`` (rows read) and ``rounds`` say what it cost.
    """

    chunks: Nodes
    chunk_masses: Masses
    entities: npt.NDArray[np.uint32]
    entity_masses: Masses
    missing: float
    pushes: int
    rows: int
    rounds: int
    _push: ForwardPush
    _view: State

    @property
    def cost(self) -> str:
        """What it cost, in words."""
        return f"{self.pushes} pushes over {self.rows} rows in {self.rounds} rounds, {self.missing:.1%} missing"

    def way(self, node: int) -> list[int]:
        """The likeliest walk from a seed to a node, both included; empty where none leads there.

        Of walks that are as likely one that begins later, and else what comes first by name, entities before chunks.
        """
        way = [node]
        while True:
            before = self._push.before(way[-1]).tolist()
            if not before:
                return []
            if way[-1] in before:
                return way[::-1]
            way.append(before[0] if len(before) == 1 else min(before, key=self._order))

    def _order(self, node: int) -> tuple[bool, str, int]:
        """What decides between nodes; within a document chunks are numbered as the text goes."""
        if is_entity(node):
            return False, self._view.entities.get(entity_of(node)).key, 0
        return True, self._view.documents.key_of(self._view.chunks.get(node).document), node


def personalised_pagerank(
    view: State,
    seeds: Mapping[int, float],
    *,
    restart: float = 0.2,
    epsilon: float = 1e-5,
    weights: EdgeWeights = DEFAULT_WEIGHTS,
    bias: Callable[[Nodes], Masses] | None = None,
) -> PageRank:
    """The PageRank of seeds, nodes with masses above 0 (which are made to sum to 1).

    ``bias`` gives factors above 0 for the steps from entities to some chunks.
    ``restart`` is the probability to go back to a seed; a node is expanded while what has arrived there exceeds
    ``epsilon`` for each of its edges, so that at most 1 / (restart · epsilon) edges are walked. Andersen, Chung, Lang
    2006, section 3.
    """
    total = math.fsum(seeds.values())
    if not seeds or not all(mass > 0 for mass in seeds.values()) or not np.isfinite(total):
        raise InputError("a PageRank needs one seed or more, each of a mass above 0")
    if not 0 < restart < 1 or not 0 < epsilon < 1:
        raise InputError(f"restart and epsilon lie between 0 and 1, not {restart} and {epsilon}")
    rows = _Rows(view.part(GRAPH), view.counters.chunks, weights, bias)
    nodes = np.array(list(seeds), np.uint64)
    masses = np.array(list(seeds.values()), np.float64) / total
    push = ForwardPush(nodes, masses, rows.sizes(nodes), restart, epsilon)
    rounds = 0
    while len(wanted := push.run()):
        rounds += 1
        entities = wanted >= np.uint64(_ENTITY)
        if not entities.all():
            push.add_rows(*rows.of_chunks(wanted[~entities]))
        if entities.any():
            push.add_rows(*rows.of_entities(wanted[entities]))
    found, masses, missing = push.masses()
    entities = found >= np.uint64(_ENTITY)
    return PageRank(
        found[~entities],
        masses[~entities],
        found[entities].astype(np.uint32),
        masses[entities],
        missing,
        push.pushes,
        push.rows,
        rounds,
        push,
        view,
    )


#: Rows as the kernel takes them: nodes, bounds, neighbours, weights, sizes of the neighbours.
_KernelRows = tuple[Nodes, npt.NDArray[np.int64], Nodes, Masses, Masses]


class _Rows:
    """Rows of one snapshot's graph, weighed."""

    def __init__(
        self, stored: PassageGraph, chunks: int, weights: EdgeWeights, bias: Callable[[Nodes], Masses] | None
    ) -> None:
        self._graph = stored
        self._bias = bias
        self._chunks = max(1, chunks)
        self._weights = weights
        self._outward, self._inward = _feature_weights(weights)

    def sizes(self, nodes: Nodes) -> Masses:
        """What the rows of nodes cost."""
        sizes = np.full(len(nodes), _CHUNK_SIZE)
        entities = nodes >= np.uint64(_ENTITY)
        sizes[entities] = self._sizes(self._graph.degrees(nodes[entities].astype(np.uint32)))
        return sizes

    def of_chunks(self, nodes: Nodes) -> _KernelRows:
        nodes = np.sort(nodes)
        bounds, entities, features = self._graph.chunk_rows(nodes)
        degrees = self._graph.degrees(entities)
        weights = self._outward[_only_lower(degrees), features] * self._rarity(degrees)
        return nodes, bounds, entities | np.uint64(_ENTITY), weights, self._sizes(degrees)

    def of_entities(self, nodes: Nodes) -> _KernelRows:
        entities = nodes.astype(np.uint32)
        degrees = self._graph.degrees(entities)
        bounds, chunks, features = self._graph.entity_rows(entities, degrees, self._weights.most_chunks)
        weights = self._inward[np.repeat(_only_lower(degrees), np.diff(bounds)), features]
        if self._bias is not None:
            weights = weights * self._bias(chunks)
        sizes = np.full(len(chunks), _CHUNK_SIZE)
        linked = np.flatnonzero(degrees.linked & self._weights.linking)
        if not len(linked):
            return nodes, bounds, chunks, weights, sizes
        return nodes, *self._with_links(entities, linked, bounds, chunks, weights, sizes)

    def _with_links(
        self,
        entities: npt.NDArray[np.uint32],
        linked: npt.NDArray[np.int64],
        bounds: npt.NDArray[np.int64],
        neighbours: Nodes,
        weights: Masses,
        sizes: Masses,
    ) -> tuple[npt.NDArray[np.int64], Nodes, Masses, Masses]:
        """Rows of entities with the links of some (by position) added."""
        exponent = self._weights.count_exponent
        links = [
            (row, link.other, self._weights.of_link(link.kind) * link.times**exponent)
            for row in linked.tolist()
            for link in self._graph.links(int(entities[row]))
        ]
        row, other, weight = (np.array(column) for column in zip(*links, strict=True))
        degrees = self._graph.degrees(other.astype(np.uint32))
        rows = np.concatenate((np.repeat(np.arange(len(entities)), np.diff(bounds)), row))
        order = np.argsort(rows, kind="stable")
        bounds = np.searchsorted(rows[order], np.arange(len(entities) + 1))
        neighbours = np.concatenate((neighbours, other.astype(np.uint64) | np.uint64(_ENTITY)))[order]
        weights = np.concatenate((weights, weight * self._rarity(degrees)))[order]
        sizes = np.concatenate((sizes, self._sizes(degrees)))[order]
        return bounds, neighbours, weights, sizes

    def _rarity(self, degrees: Degrees) -> Masses:
        lower = np.where(_only_lower(degrees), 1.0, self._weights.lower)
        totals = degrees.informative + lower * (degrees.total - degrees.informative)
        rarity = np.log1p(self._chunks / np.maximum(totals, 1)) ** self._weights.rarity_exponent
        return np.where(degrees.total > self._weights.most_chunks, 0.0, rarity)

    def _sizes(self, degrees: Degrees) -> Masses:
        return np.maximum(degrees.total, 1).astype(np.float64)


def _only_lower(degrees: Degrees) -> npt.NDArray[np.int64]:
    """1 for an entity that no chunk tells of but in lower case, else 0."""
    only: npt.NDArray[np.int64] = (degrees.informative == 0).astype(np.int64)
    return only


@lru_cache(maxsize=8)
def _feature_weights(weights: EdgeWeights) -> tuple[Masses, Masses]:
    """What each set of features weighs away from a chunk and towards it.

    Shape (2, features) each: the second row is for entities that are only mentioned in lower case.
    """
    features = np.arange(graph.FEATURE_SETS)
    capitalised = features & graph.CAPITALISED
    lower = (features & graph.LOWER) >> graph.LOWER_SHIFT
    counts = capitalised + np.array([[weights.lower], [1.0]]) * lower
    inside = np.where(features & graph.INSIDE, weights.inside, 0.0)
    outward = np.where(counts > 0, np.maximum(counts, 1e-9) ** weights.count_exponent, inside)
    outward += np.where(features & graph.TRIPLE, weights.triple_name, 0.0)
    inward = outward.copy()
    outward[1] *= weights.common
    for flag, weight in (
        (graph.TITLE_WHOLE, weights.title_whole),
        (graph.TITLE_PART, weights.title_part),
        (graph.HEADING_WHOLE, weights.heading_whole),
        (graph.HEADING_PART, weights.heading_part),
    ):
        inward += np.where(features & flag, weight, 0.0)
    return outward, inward
