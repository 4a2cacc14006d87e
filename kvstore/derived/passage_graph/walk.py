"""A walk over chunks and entities that starts at the names in a question. A *node* is a chunk or an entity. A name in a
question has several entities: its own, and those of its aliases. The *degree* of an entity is its number of chunks.

In: the entities recognized in a question. Out: the masses of the start nodes, and a description of the path to each
chunk that the walk reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from ...retrieval.lexical_search import TermSetCountRequest
from ...retrieval.recognition import QuestionEntity
from ...structures.read_requests import BatchedReader
from ...text.words import FUNCTION_WORDS, segment_words
from .edges import Degrees
from .neighborhood import NameDegreesRequest, NodeName, NodeNamesRequest, is_entity, make_chunk_node, make_entity_node
from .pagerank import PageRank

#: If the rarest name in a question is in more chunks than this, its names get less weight.
_MAX_RARE_CHUNKS = 50


def make_degree_request(names: Sequence[QuestionEntity]) -> NameDegreesRequest:
    """Return a request for the degrees (numbers of chunks) of the entities of each name in a question."""
    return NameDegreesRequest([name.identity.entity_ids for name in names])


def map_degrees(names: Sequence[QuestionEntity], degrees: Sequence[Degrees]) -> dict[int, int]:
    """Return the number of chunks of each entity in a question, by the entity's node.

    ``degrees`` has the numbers of chunks of the entities of each of ``names``.
    """
    return {
        make_entity_node(entity): total
        for name, name_degrees in zip(names, degrees, strict=True)
        for entity, total in zip(name.identity.entity_ids, name_degrees.total.tolist(), strict=True)
    }


def compute_name_masses(
    names: Sequence[QuestionEntity], degrees: Sequence[Degrees], compared_names: Collection[str] = ()
) -> dict[int, float]:
    """Return the nodes of the names in a question with their masses (start probabilities), which sum to at most 1.

    ``degrees`` has the chunk counts of the entities of each of ``names``; it is the answer to
    :func:`make_degree_request`. The mass of a name is proportional to its specificity, 1 / the number of chunks that
    name it (HippoRAG, section 2.3, node specificity). Names that the question compares (``compared_names``, as keys)
    have equal masses. The mass of a name is divided equally among its entities that occur in chunks. If even the rarest
    name is in more than ``_MAX_RARE_CHUNKS`` chunks, the sum is below 1. The result is empty if no chunk contains any
    of the names.
    """
    specificities: dict[str, float] = {}  # by key of a name
    nodes: dict[str, list[int]] = {}
    for name, name_degrees in zip(names, degrees, strict=True):
        # Chunks that mention an entity only in lower case count only if there are no others.
        counts = np.where(name_degrees.informative, name_degrees.informative, name_degrees.total)
        if counts.any():
            specificities[name.key] = 1 / int(counts.sum())
            entity_counts = zip(name.identity.entity_ids, counts.tolist(), strict=True)
            nodes[name.key] = [make_entity_node(entity) for entity, count in entity_counts if count > 0]
    compared_keys = [key for key in compared_names if key in specificities]
    specificities |= dict.fromkeys(compared_keys, max((specificities[key] for key in compared_keys), default=0.0))
    total = math.fsum(specificities.values())
    total_mass = min(1.0, _MAX_RARE_CHUNKS * max(specificities.values(), default=0.0))
    return {
        node: total_mass * specificity / total / len(nodes[key])
        for key, specificity in specificities.items()
        for node in nodes[key]
    }


class Spread(NamedTuple):
    """The spread of a name: the approximate number of chunks that are about it; 0 if no chunk mentions it.

    ``is_proper`` is true if most of the chunks that mention it write it with capitals.
    """

    chunks: float
    is_proper: bool


def make_all_words_request(names: Sequence[QuestionEntity], stem: Callable[[str], str]) -> TermSetCountRequest:
    """Return a request for the number of chunks with all words of each name and alias, except function words."""
    return TermSetCountRequest(
        [
            {stem(word) for word in segment_words(alias) if word not in FUNCTION_WORDS}
            for name in names
            for alias, _ in name.identity.names
        ]
    )


def compute_spreads(
    names: Sequence[QuestionEntity], degrees: Sequence[Degrees], all_words_counts: Sequence[int]
) -> dict[str, Spread]:
    """Return the spread of each name in a question, a measure of how many chunks are about it, by the name's key.

    ``degrees`` has the chunk counts of the entities of each of ``names``; it is the answer to
    :func:`make_degree_request`. ``all_words_counts`` has the number of chunks with all words of a name, for each name
    and each of its aliases in turn; it is the answer to :func:`make_all_words_request`.

    The spread is the geometric mean of a count of the name and the number of chunks with all its words. The count of
    the name is the geometric mean of its number of chunks and its number of addresses, which is limited to the number
    of chunks. An address covers neighboring chunks of one document, so several chunks of one document count less than
    chunks of several documents. If the words of a name occur together in many more chunks than the name, its subject is
    common: "Industrial design" has a large spread if many texts mention designs that are industrial.
    """
    counts = iter(all_words_counts)
    spreads = {}
    for name, name_degrees in zip(names, degrees, strict=True):
        total, informative = int(name_degrees.total.sum()), int(name_degrees.informative.sum())
        name_count = math.sqrt(min(name.count, total) * (informative or total))
        all_words_count = sum(islice(counts, len(name.identity.names)))
        num_chunks = math.sqrt(name_count * (all_words_count or name_count))
        # ``informative`` counts the chunks that do not write the name in lower case only.
        spreads[name.key] = Spread(num_chunks, is_proper=2 * informative > total)
    return spreads


class Walk(NamedTuple):
    """A walk through the graph: its nodes from the start, and the names of all but the last; both empty for no walk."""

    nodes: list[int]
    names: list[str]


def find_walks(reader: BatchedReader, ranks: PageRank, nodes: Iterable[int]) -> dict[int, Walk]:
    """Return the likeliest walk from a start node of the PageRank ``ranks`` to each of ``nodes``, by node.

    The walk is empty if the PageRank did not reach the node. Of equally likely walks, the walk that starts nearest to
    the node is returned, ties by the names of its nodes, entities before chunks.
    """
    targets = list(nodes)
    predecessors = _collect_predecessors(ranks, targets)
    inner_nodes = list(  # all nodes that can be on a walk before its last node
        dict.fromkeys(
            predecessor
            for node, node_predecessors in predecessors.items()
            for predecessor in node_predecessors
            if predecessor != node
        )
    )
    names = dict(zip(inner_nodes, reader.fetch(NodeNamesRequest(inner_nodes)), strict=True)) if inner_nodes else {}
    walks = {}
    for target in targets:
        walk_nodes = _trace_walk(target, predecessors, names)
        first_names = (names[node] for node in walk_nodes[:-1])
        labels = [f"chunk {ordinal} of {name}" if is_chunk else name for is_chunk, name, ordinal in first_names]
        walks[target] = Walk(walk_nodes, labels)
    return walks


def _collect_predecessors(ranks: PageRank, targets: Iterable[int]) -> dict[int, list[int]]:
    """Return, for ``targets`` and every node before them on a likeliest walk, the node's predecessors on such walks.

    A node at which such a walk starts has itself among its predecessors. A node that the PageRank did not reach has no
    predecessors.
    """
    predecessors: dict[int, list[int]] = {}
    unvisited = list(targets)
    while unvisited:
        node = unvisited.pop()
        if node not in predecessors:
            predecessors[node] = ranks.list_predecessors(node)
            if node not in predecessors[node]:
                unvisited += predecessors[node]
    return predecessors


def _trace_walk(target: int, predecessors: Mapping[int, Sequence[int]], names: Mapping[int, NodeName]) -> list[int]:
    """Return the nodes of the likeliest walk to ``target``, from its start; empty if no walk leads there.

    ``predecessors`` is the result of :func:`_collect_predecessors`. Of several predecessors, all equally likely, the
    first by its name in ``names`` is used.
    """
    if not predecessors[target]:
        return []
    backward_walk = [target]
    while (node := backward_walk[-1]) not in predecessors[node]:  # until a walk can start at the node
        backward_walk.append(min(predecessors[node], key=names.__getitem__))
    return backward_walk[::-1]


def describe_paths(reader: BatchedReader, ranks: PageRank, chunks: Collection[int]) -> dict[int, str]:
    """Describe the likeliest walk to each chunk, by chunk; a description becomes the ``path`` of the chunk's hit.

    A description lists the nodes before the chunk, such as "ann lee → chunk 3 of KEY". The walk begins at a name in the
    question or at a chunk near the question; the description of the latter begins with "near the question".
    """
    walks = find_walks(reader, ranks, map(make_chunk_node, chunks))
    descriptions = {}
    for chunk in chunks:
        nodes, names = walks[make_chunk_node(chunk)]
        starts_at_entity = bool(nodes) and is_entity(nodes[0])
        descriptions[chunk] = " → ".join(names if starts_at_entity else ["near the question", *names])
    return descriptions
