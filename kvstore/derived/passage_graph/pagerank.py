"""Personalized PageRank over the stored graph of chunks and entities (HippoRAG; by forward push). A *node* is a chunk
or an entity. Its *row* has its edges, and its *cost* is their number. The *mention bits* of an edge say how the chunk
mentions the entity. The *degree* of an entity counts its chunks.

In: start nodes (chunks and entities with masses), and the weights of the kinds of edges. Out: the masses of all chunks
and entities that the walk reached. Compiled code (:mod:`kvstore_cext.pagerank`) requests the rows it lacks. They are
read from the store in batches and weighted with the counts of this snapshot. More distant rows are never read, so the
cost depends on the neighborhood and on the error bound. The result does not depend on internal ids. Start nodes without
mass, and options out of range, raise InputError.

The probabilities of the steps of a walk are in proportion to these weights: from a chunk to an entity, body weight ·
rarity; from an entity to a chunk, body and heading weight; from an entity to a linked one, weight of the link · rarity
of the other. Rarity is ln(1 + chunks / chunks of the entity), to the power of ``rarity_exponent``. Titles and headings
lead to their chunks and not away from them: they describe a chunk, and only its text leads on. Dead ends lead back to
the start nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kvstore_cext.pagerank import ForwardPush

from ...errors import InputError
from ...process.frozen_dataclass import frozen_dataclass
from ...registry.contract import RELATION_LINK, TRIPLE_LINK
from ...structures.id_sets import merge_distinct
from ...structures.read_requests import BatchedReader, Ids, Matrix, Vector
from . import edges
from .edges import Degrees, LinkRows
from .neighborhood import (
    ChunkNeighborhood,
    EntityDegreesRequest,
    EntityNeighborhood,
    Neighborhood,
    NeighborhoodRequest,
    Nodes,
    is_entity,
    make_entity_nodes,
    mask_entities,
)

#: The cost of a chunk's row, in neighbors: the typical number of entities that a chunk mentions.
_CHUNK_ROW_COST = 16.0

#: The mass per edge that a node may leave unspread. A tenth of it gives the same rankings and takes longer.
DEFAULT_EPSILON = 1e-4

Masses = npt.NDArray[np.float64]
#: Numbers of edges to read.
Costs = npt.NDArray[np.float64]


class Bias(Protocol):
    """The bias of a random walk: a step to a chunk is likelier, the higher its cosine with a vector (the question's).

    Each chunk has a positive factor, by which the weights of the steps to it are multiplied.
    """

    @property
    def vector(self) -> Vector:
        """The unit vector that chunks are compared with; the walk prefers chunks with a higher cosine."""
        ...

    @property
    def chunks(self) -> Ids:
        """The chunks whose cosines with :attr:`vector` are stored already, ids ascending."""
        ...

    def add_cosines(self, chunks: Ids, cosines: Matrix) -> None:
        """Store the cosines of more chunks (ids ascending) with :attr:`vector`."""
        ...

    def get_factors(self, chunks: Ids) -> Masses:
        """Return the factor by which the weight of every step to each chunk is multiplied.

        :meth:`add_cosines` must have added the cosines of the chunks.
        """
        ...


@frozen_dataclass
class EdgeWeights:
    """The weights of edges.

    - Body weight of a chunk and an entity: (mentions + ``lower`` · mentions in lower case) ^ ``count_exponent``, or
      ``inside`` if it is only mentioned inside longer names; plus ``triple_name`` if an imported triple mentions it.
    - If an entity is mentioned only in lower case, these mentions weigh as much as others. But such an entity, usually
      a common noun, gets only the fraction ``common`` of its weight from a chunk. For any other entity, chunks that
      mention it in lower case count for its rarity with the weight ``lower``.
    - Heading weight: the sum for the names in titles and headings, whole or part.
    - Link weight of two entities: the weight of the kind of link · count ^ ``count_exponent``. Links between synonyms
      exist if the store has the ``synonyms`` index.

    The walk neither enters nor crosses an entity in more than ``max_chunks`` chunks.
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
    triple_link: float = 0.05
    relation_link: float = 0.05
    synonym_link: float = 0.0
    rarity_exponent: float = 1.0
    max_chunks: int = 2000

    @property
    def has_links(self) -> bool:
        """True if any stored kind of link between entities has a weight above 0; links of synonyms are not stored."""
        return self.title_link > 0 or self.triple_link > 0 or self.relation_link > 0


DEFAULT_WEIGHTS = EdgeWeights()


@frozen_dataclass
class PageRank:
    """Masses of all reached chunks and entities, unordered; together with ``missing_mass`` they sum to 1.

    ``missing_mass`` is the error, the L1 distance to the exact vector, and no mass exceeds the exact one. ``pushes``,
    ``rows`` (rows read) and ``rounds`` measure the cost.
    """

    chunks: Nodes
    chunk_masses: Masses
    entities: npt.NDArray[np.uint32]
    entity_masses: Masses
    missing_mass: float
    pushes: int
    rows: int
    rounds: int
    _push: ForwardPush

    @property
    def cost(self) -> str:
        """The cost for EXPLAIN: push operations, rows read, rounds of reads, and the missing mass (the error)."""
        return f"{self.pushes} pushes over {self.rows} rows in {self.rounds} rounds, {self.missing_mass:.1%} missing"

    def list_predecessors(self, node: int) -> list[int]:
        """Return the possible predecessors of a node on the likeliest walk from a start node to it.

        Contains the node itself if the walk begins there, and several nodes if walks are equally likely. Empty if no
        walk reaches the node.
        """
        predecessors: list[int] = self._push.get_predecessors(node).tolist()
        return predecessors


def compute_personalized_pagerank(
    reader: BatchedReader,
    starts: Mapping[int, float],
    *,
    restart: float = 0.2,
    epsilon: float = DEFAULT_EPSILON,
    weights: EdgeWeights = DEFAULT_WEIGHTS,
    bias: Bias | None = None,
    rows_read: Sequence[RowsRead] = (),
    degrees: Mapping[int, int] | None = None,
) -> PageRank:
    """Compute the personalized PageRank of the graph from ``starts``, the masses of the nodes where walks start.

    The masses are normalized to sum to 1. ``weights`` are the weights of the kinds of edges, and ``bias`` draws the
    walk from entities toward some chunks (None: it does not). ``restart`` is the probability of returning to a start
    node. A node is expanded while the mass that has arrived there exceeds ``epsilon`` per edge. At most
    1 / (restart · epsilon) edges are therefore walked (Andersen, Chung, Lang 2006, section 3).

    To save rounds of reads, the caller can pass ``rows_read``, requests for graph rows with their answers. It can also
    pass ``degrees``, the number of chunks of each start node that is an entity, by node. Raises InputError if there are
    no starts, a mass is not above 0, or ``restart`` or ``epsilon`` is not between 0 and 1.
    """
    total = math.fsum(starts.values())
    if not starts or not all(mass > 0 for mass in starts.values()) or not np.isfinite(total):
        raise InputError("a PageRank needs one seed or more, each with a mass above 0")
    if not 0 < restart < 1 or not 0 < epsilon < 1:
        raise InputError(f"restart and epsilon must be between 0 and 1, not {restart} and {epsilon}")
    rows = _WeightedRows(reader, weights, bias)
    nodes = np.array(list(starts), np.uint64)
    masses = np.array(list(starts.values()), np.float64) / total
    push = ForwardPush(nodes, masses, rows.compute_costs(nodes, degrees or {}), restart, epsilon)
    prefetched_rows = [walk_rows for request, answer in rows_read for walk_rows in rows.weight_rows(request, answer)]
    rounds = 0
    # Each run continues until it lacks the rows of some nodes, and returns them; it returns none at the end.
    while len(pending_nodes := push.run()):
        rounds += 1
        for walk_rows in _take_rows(prefetched_rows, pending_nodes):
            push.add_rows(*walk_rows)
            pending_nodes = pending_nodes[~np.isin(pending_nodes, walk_rows.nodes)]
        if len(pending_nodes):
            for walk_rows in rows.read_rows(pending_nodes):
                push.add_rows(*walk_rows)
    reached_nodes, masses, missing_mass = push.get_masses()
    is_reached_entity = mask_entities(reached_nodes)
    return PageRank(
        chunks=reached_nodes[~is_reached_entity],
        chunk_masses=masses[~is_reached_entity],
        entities=reached_nodes[is_reached_entity].astype(np.uint32),
        entity_masses=masses[is_reached_entity],
        missing_mass=missing_mass,
        pushes=push.pushes,
        rows=push.rows,
        rounds=rounds,
        _push=push,
    )


#: A request for rows, and its answer.
RowsRead = tuple[NeighborhoodRequest, Neighborhood]


class _WalkRows(NamedTuple):
    """Rows of nodes for the compiled PageRank code: the edges of node *i* are from ``bounds[i]`` to ``bounds[i + 1]``.

    ``costs`` has for each edge the cost of the neighbor's own row, in edges.
    """

    nodes: Nodes
    bounds: npt.NDArray[np.int64]
    neighbors: Nodes
    weights: Masses
    costs: Costs


def make_start_request(
    starts: Mapping[int, float], degrees: Mapping[int, int], vector: Vector | None
) -> NeighborhoodRequest:
    """Return a request for the rows (edges) of the start nodes that PageRank will expand first.

    ``starts`` are start nodes with their masses, and need not be all of them. ``degrees`` has the number of chunks of
    each entity among them, by node. The request includes the cosines of the chunks with ``vector``, by which the walk
    prefers similar chunks (None: no cosines).
    """
    total = math.fsum(starts.values())
    # A node is expanded if its mass exceeds epsilon per edge.
    expanded_nodes = [
        node for node, mass in starts.items() if mass > DEFAULT_EPSILON * total * degrees.get(node, _CHUNK_ROW_COST)
    ]
    return _make_row_request(np.array(expanded_nodes, np.uint64), DEFAULT_WEIGHTS, vector)


def _make_row_request(nodes: Nodes, weights: EdgeWeights, vector: Vector | None) -> NeighborhoodRequest:
    """Return the request for the rows of nodes (chunks and entities), with the kinds of edges that have ``weights``.

    It also requests the cosines of the chunks with ``vector``, by which a walk prefers similar chunks (None: no
    cosines).
    """
    is_entity_node = mask_entities(nodes)
    return NeighborhoodRequest(
        chunks=np.sort(nodes[~is_entity_node]),
        entities=nodes[is_entity_node].astype(np.uint32),
        max_chunks=weights.max_chunks,
        with_links=weights.has_links,
        vector=vector,
        with_synonyms=weights.synonym_link > 0,
    )


def _take_rows(prefetched_rows: list[_WalkRows], nodes: Nodes) -> list[_WalkRows]:
    """Remove the rows (weighted edges) of ``nodes`` from the prefetched rows in place, and return them.

    Rows of other nodes stay prefetched until the walk needs them, because the order in which rows are added to the walk
    changes the masses.
    """
    taken_rows, remaining_rows = [], []
    for walk_rows in prefetched_rows:
        is_needed = np.isin(walk_rows.nodes, nodes)
        if is_needed.all():
            taken_rows.append(walk_rows)
        elif is_needed.any():
            taken_rows.append(_select_rows(walk_rows, is_needed))
            remaining_rows.append(_select_rows(walk_rows, ~is_needed))
        else:
            remaining_rows.append(walk_rows)
    prefetched_rows[:] = remaining_rows
    return taken_rows


def _select_rows(rows: _WalkRows, mask: npt.NDArray[np.bool_]) -> _WalkRows:
    """Return the rows (weighted edges) of the nodes for which ``mask``, with a flag per node, is true."""
    nodes, bounds, neighbors, weights, costs = rows
    lengths = np.diff(bounds)
    edge_mask = np.repeat(mask, lengths)
    selected_bounds = np.concatenate(([0], np.cumsum(lengths[mask])))
    return _WalkRows(
        nodes[mask], selected_bounds, neighbors=neighbors[edge_mask], weights=weights[edge_mask], costs=costs[edge_mask]
    )


class _WeightedRows:
    """A reader of rows of one snapshot's graph that computes the weights of their edges."""

    def __init__(self, reader: BatchedReader, weights: EdgeWeights, bias: Bias | None) -> None:
        """Prepare the weights of all kinds of edges; ``bias`` draws the walk toward some chunks (None: no bias)."""
        self._reader = reader
        self._bias = bias
        self._num_chunks = max(1, reader.counters.chunks)
        self._weights = weights
        #: The weights of steps, both ways, by the mention bits of an edge; see :func:`_compute_mention_weights`.
        self._chunk_to_entity_weights, self._entity_to_chunk_weights = _compute_mention_weights(weights)
        #: The weight of each kind of link, by its number.
        self._link_weights = np.zeros(1 + max(edges.TITLE_LINK, TRIPLE_LINK, RELATION_LINK, edges.SYNONYM_LINK))
        self._link_weights[edges.TITLE_LINK] = weights.title_link
        self._link_weights[TRIPLE_LINK] = weights.triple_link
        self._link_weights[RELATION_LINK] = weights.relation_link
        self._link_weights[edges.SYNONYM_LINK] = weights.synonym_link

    def compute_costs(self, nodes: Nodes, degrees: Mapping[int, int]) -> Costs:
        """Return the approximate number of edges of each node.

        ``degrees`` has the number of chunks of some of the entities, by node. For other entities, it is read. All
        chunks have the same cost, a typical number of entities.
        """
        costs = np.array([max(1.0, degrees.get(node, _CHUNK_ROW_COST)) for node in nodes.tolist()], np.float64)
        unknown = [index for index, node in enumerate(nodes.tolist()) if is_entity(node) and node not in degrees]
        if unknown:
            request = EntityDegreesRequest(nodes[unknown].astype(np.uint32))
            costs[unknown] = self._compute_entity_costs(self._reader.fetch(request))
        return costs

    def read_rows(self, nodes: Nodes) -> Iterator[_WalkRows]:
        """Read the rows (edges) of nodes in one request, and yield them with weights: chunks first, then entities."""
        request = _make_row_request(nodes, self._weights, None if self._bias is None else self._bias.vector)
        if self._bias is not None:
            request = replace(request, known_chunks=self._bias.chunks)
        return self.weight_rows(request, self._reader.fetch(request))

    def weight_rows(self, request: NeighborhoodRequest, neighborhood: Neighborhood) -> Iterator[_WalkRows]:
        """Compute the weights of the edges in ``neighborhood``, the answer to ``request``, and yield the edges.

        The edges of chunks come first, then the edges of entities.
        """
        if neighborhood.chunks is not None:
            yield self._weight_chunk_rows(request.chunks, neighborhood.chunks)
        if neighborhood.entities is not None:
            yield self._weight_entity_rows(request.entities, neighborhood.entities)

    def _weight_chunk_rows(self, nodes: Nodes, neighborhood: ChunkNeighborhood) -> _WalkRows:
        """Return the rows of chunks (``nodes``) for the compiled code; ``neighborhood`` has them without weights."""
        (bounds, entities, mention_bits), degrees = neighborhood
        weights = self._chunk_to_entity_weights[_flag_lower_only(degrees), mention_bits] * self._compute_rarity(degrees)
        return _WalkRows(
            nodes,
            bounds,
            neighbors=make_entity_nodes(entities),
            weights=weights,
            costs=self._compute_entity_costs(degrees),
        )

    def _weight_entity_rows(self, entities: npt.NDArray[np.uint32], neighborhood: EntityNeighborhood) -> _WalkRows:
        """Return the rows (edges) of entities for the compiled code: steps to chunks and linked entities, with weights.

        The weight of a step to a chunk depends on the mention bits, which say how the chunk mentions the entity. If
        there is a bias, it gets the cosines of the chunks, and multiplies the weights by its factors.
        """
        nodes = make_entity_nodes(entities)
        (bounds, chunks, mention_bits), degrees = neighborhood.rows, neighborhood.degrees
        weights = self._entity_to_chunk_weights[np.repeat(_flag_lower_only(degrees), np.diff(bounds)), mention_bits]
        if self._bias is not None:
            self._bias.add_cosines(neighborhood.cosine_chunks, neighborhood.cosines)
            weights = weights * self._bias.get_factors(chunks)
        rows = _WalkRows(nodes, bounds, neighbors=chunks, weights=weights, costs=np.full(len(chunks), _CHUNK_ROW_COST))
        links, other_degrees = neighborhood.links, neighborhood.other_degrees
        if links is None or other_degrees is None:
            return rows
        return self._append_links(rows, entities, links, other_degrees)

    def _append_links(
        self, rows: _WalkRows, entities: npt.NDArray[np.uint32], links: LinkRows, other_degrees: Degrees
    ) -> _WalkRows:
        """Return the rows of entities with the links of each after its chunks.

        ``other_degrees`` has the degrees (numbers of chunks) of the linked entities.
        """
        # For each edge, find the index of its entity, then sort by it; a stable sort keeps chunks before links.
        entity_order = np.argsort(entities, kind="stable")
        link_indexes = entity_order[np.searchsorted(entities, links.entities, sorter=entity_order)]
        row_indexes = np.concatenate((np.repeat(np.arange(len(entities)), np.diff(rows.bounds)), link_indexes))
        order = np.argsort(row_indexes, kind="stable")
        link_weights = self._compute_link_weights(links) * self._compute_rarity(other_degrees)
        return _WalkRows(
            rows.nodes,
            bounds=np.searchsorted(row_indexes[order], np.arange(len(entities) + 1)),
            neighbors=np.concatenate((rows.neighbors, make_entity_nodes(links.other_entities)))[order],
            weights=np.concatenate((rows.weights, link_weights))[order],
            costs=np.concatenate((rows.costs, self._compute_entity_costs(other_degrees)))[order],
        )

    def _compute_link_weights(self, links: LinkRows) -> Masses:
        """Return the weight of each link: its kind's weight times its multiplicity to the power ``count_exponent``."""
        distinct_multiplicities = merge_distinct(links.multiplicities)  # ascending
        powers = np.array([number**self._weights.count_exponent for number in distinct_multiplicities.tolist()])
        link_powers = powers[np.searchsorted(distinct_multiplicities, links.multiplicities)]
        link_weights: Masses = self._link_weights[links.kinds] * link_powers
        return link_weights

    def _compute_rarity(self, degrees: Degrees) -> Masses:
        """Return the rarity of entities (a power of the IDF) from their chunk counts; 0 beyond ``max_chunks`` chunks.

        Chunks that mention an entity only in lower case count with the weight ``lower``, unless there are no others.
        """
        # ``total`` counts all chunks of an entity, and ``informative`` those that do not write it in lower case only.
        num_lower_chunks = degrees.total - degrees.informative
        lower_weights = np.where(_flag_lower_only(degrees), 1.0, self._weights.lower)
        weighted_counts = degrees.informative + lower_weights * num_lower_chunks
        rarity = np.log1p(self._num_chunks / np.maximum(weighted_counts, 1)) ** self._weights.rarity_exponent
        return np.where(degrees.total > self._weights.max_chunks, 0.0, rarity)

    def _compute_entity_costs(self, degrees: Degrees) -> Costs:
        """Return the number of edges to read for the row of each entity: the number of its chunks, at least 1."""
        return np.maximum(degrees.total, 1).astype(np.float64)


def _flag_lower_only(degrees: Degrees) -> npt.NDArray[np.int64]:
    """Return, for each entity, 1 if all its chunks mention it only in lower case, else 0.

    The number is the row of the entity in the tables of weights that :func:`_compute_mention_weights` returns.
    """
    is_lower_only: npt.NDArray[np.int64] = (degrees.informative == 0).astype(np.int64)
    return is_lower_only


@lru_cache(maxsize=8)
def _compute_mention_weights(weights: EdgeWeights) -> tuple[Masses, Masses]:
    """Return two tables of weights: of steps from chunk to entity, and from entity to chunk.

    A table has a column for each value of the mention bits of an edge, which say how the chunk mentions the entity. It
    has two rows; the second row is for entities that the store mentions only in lower case.
    """
    mention_bits = np.arange(edges.NUM_MENTION_VALUES)
    # The lowest bits count the mentions in the chunk, by spelling.
    num_capitalized = mention_bits & edges.CAPITALIZED
    num_lower = (mention_bits & edges.LOWER) >> edges.LOWER_SHIFT
    counts = num_capitalized + np.array([[weights.lower], [1.0]]) * num_lower
    inside = np.where(mention_bits & edges.INSIDE, weights.inside, 0.0)
    # The exponent can be negative, so 0 is replaced; ``np.where`` drops the result for it.
    chunk_to_entity = np.where(counts > 0, np.maximum(counts, 1e-9) ** weights.count_exponent, inside)
    chunk_to_entity += np.where(mention_bits & edges.TRIPLE, weights.triple_name, 0.0)
    entity_to_chunk = chunk_to_entity.copy()
    chunk_to_entity[1] *= weights.common
    for flag, weight in (
        (edges.TITLE_WHOLE, weights.title_whole),
        (edges.TITLE_PART, weights.title_part),
        (edges.HEADING_WHOLE, weights.heading_whole),
        (edges.HEADING_PART, weights.heading_part),
    ):
        entity_to_chunk += np.where(mention_bits & flag, weight, 0.0)
    return chunk_to_entity, entity_to_chunk
