"""A walk over chunks and entities that starts at what a question names.

In: the entities recognised in a question. Out: masses to start with, and for each chunk reached the way that led
there, in words.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from ...retrieval.recognition import Seed
from ...structures.state import State
from ...structures.vectors.vectors import Ids
from ...text.words import FUNCTION_WORDS, segments, stemmer
from .pagerank import PageRank, chunk_node, entity_node, entity_of, is_entity
from .structure import GRAPH

#: Passages that may name the rarest name of a question before its names lose weight.
_COMMON = 50


def masses_of_names(view: State, seeds: Sequence[Seed], compared: Collection[str] = ()) -> dict[int, float]:
    """Nodes of the entities that some chunk names, with masses that sum to 1 or less; empty where there are none.

    A name counts as much as it is specific: 1 / the number of chunks that name it (HippoRAG, section 2.3, node
    specificity). Names that the question compares count alike. Where even the rarest is in very many chunks, they
    weigh less in all.
    """
    specificity: dict[str, float] = {}
    nodes: dict[str, list[int]] = {}
    for seed in seeds:
        entities = np.array(seed.identity.entities, np.uint32)
        degrees = view.part(GRAPH).degrees(entities)
        totals = np.where(degrees.informative, degrees.informative, degrees.total)
        if totals.any():
            specificity[seed.key] = 1 / int(totals.sum())
            nodes[seed.key] = [entity_node(entity) for entity in entities[totals > 0].tolist()]
    alike = [key for key in compared if key in specificity]
    specificity |= dict.fromkeys(alike, max((specificity[key] for key in alike), default=0.0))
    total = sum(specificity.values())
    together = min(1.0, _COMMON * max(specificity.values(), default=0.0))
    return {node: together * mass / total / len(nodes[key]) for key, mass in specificity.items() for node in nodes[key]}


class Spread(NamedTuple):
    """In about how many chunks a name is, 0 for none, and whether most of them write it as a name: with capitals."""

    chunks: float
    proper: bool


def spread_of(view: State, seed: Seed) -> Spread:
    """How a name is spread: over the geometric mean of the chunks that have it as a name and of those that have all
    its words.

    The former are themselves the geometric mean of the chunks that name it and of its places. Places count
    neighbouring chunks of one document once, so that a document about a name is less than as many documents that
    mention it. A name whose words stand together in many more chunks ("industrial design", where everybody speaks of
    the design that is industrial) is a rare form of something common.
    """
    degrees = view.part(GRAPH).degrees(np.array(seed.identity.entities, np.uint32))
    total, informative = int(degrees.total.sum()), int(degrees.informative.sum())
    named = math.sqrt(min(seed.count, total) * (informative or total))
    return Spread(math.sqrt(named * (_with_all_words(view, seed) or named)), 2 * informative > total)


def _with_all_words(view: State, seed: Seed) -> int:
    """How many chunks have every word of a name, function words left out; those of its other names are added."""
    stem = stemmer(view.settings.stemmer)
    found = 0
    for key, _ in seed.identity.names:
        terms = {stem(word) for word in segments(key) if word not in FUNCTION_WORDS}
        if len(terms) == 1:
            found += view.postings.count(terms.pop())
        elif terms:
            found += len(reduce(_in_both, sorted((view.postings.get(term).chunks for term in terms), key=len)))
    return found


def _in_both(few: Ids, many: Ids) -> Ids:
    """What is in both of two ascending arrays."""
    if not len(many):
        return many
    common: Ids = few[many[np.minimum(np.searchsorted(many, few), len(many) - 1)] == few]
    return common


def paths(view: State, ranks: PageRank, chunks: Iterable[int]) -> dict[int, str]:
    """For each chunk the likeliest walk to it from what the question names, or from a chunk near the question."""
    label = _Labels(view)
    return {chunk: label.of_way(ranks.way(chunk_node(chunk))) for chunk in chunks}


class _Labels:
    """What nodes are called in a path."""

    def __init__(self, view: State) -> None:
        self._view = view

    def of_way(self, way: Sequence[int]) -> str:
        """A walk that ends at a chunk, which is not named again."""
        near = not way or not is_entity(way[0])
        return " → ".join([*(["near the question"] if near else []), *map(self._of_node, way[:-1])])

    def _of_node(self, node: int) -> str:
        if is_entity(node):
            return self._view.entities.get(entity_of(node)).key
        chunk = self._view.chunks.get(node)
        return f"chunk {chunk.ordinal} of {self._view.documents.key_of(chunk.document)}"
