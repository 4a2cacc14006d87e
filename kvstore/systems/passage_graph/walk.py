"""A walk over chunks and entities that starts at what a question names.

In: the entities recognised in a question. Out: masses to start with, and for each chunk reached the way that led
there, in words.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...retrieval.recognition import Seed
from ...structures.reading import Ids, Reading, Request
from ...structures.state import State
from ...text.words import FUNCTION_WORDS, segments, stemmer
from .graph import Degrees
from .neighbourhood import NodeNames, chunk_node, entity_node, is_entity
from .pagerank import PageRank
from .structure import GRAPH

#: Passages that may name the rarest name of a question before its names lose weight.
_COMMON = 50


@dataclass(frozen=True, slots=True)
class SeedDegrees(Request[list[Degrees]]):
    """The degrees of the entities of each of some names."""

    seeds: Sequence[Seed]

    def fetch(self, state: State) -> list[Degrees]:
        entities = [seed.identity.entities for seed in self.seeds]
        values = state.part(GRAPH).degrees(np.fromiter(chain.from_iterable(entities), np.uint32)).values
        return [Degrees(its) for its in np.split(values, np.cumsum(list(map(len, entities)))[:-1])] if entities else []


def masses_of_names(
    seeds: Sequence[Seed], degrees: Sequence[Degrees], compared: Collection[str] = ()
) -> dict[int, float]:
    """Nodes of the entities that some chunk names, with masses that sum to 1 or less; empty where there are none.

    ``degrees`` are those of :class:`SeedDegrees`. A name counts as much as it is specific: 1 / the number of chunks
    that name it (HippoRAG, section 2.3, node specificity). Names that the question compares count alike. Where even the
    rarest is in very many chunks, they weigh less in all.
    """
    specificity: dict[str, float] = {}
    nodes: dict[str, list[int]] = {}
    for seed, its in zip(seeds, degrees, strict=True):
        totals = np.where(its.informative, its.informative, its.total)
        if totals.any():
            specificity[seed.key] = 1 / int(totals.sum())
            named = zip(seed.identity.entities, totals.tolist(), strict=True)
            nodes[seed.key] = [entity_node(entity) for entity, total in named if total > 0]
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


def ways(reading: Reading, ranks: PageRank, nodes: Iterable[int]) -> dict[int, tuple[list[int], list[str]]]:
    """For each node the likeliest walk to it from a seed, both included, and what the nodes before it are called.

    Both are empty where no walk leads there. Of walks that are as likely one that begins later is taken, and else what
    comes first by name, entities before chunks.
    """
    wanted = list(nodes)
    before: dict[int, list[int]] = {}
    ahead = list(wanted)
    while ahead:
        node = ahead.pop()
        if node not in before:
            before[node] = ranks.before(node)
            if node not in before[node]:
                ahead += before[node]
    named = list(dict.fromkeys(other for node, others in before.items() for other in others if other != node))
    names = dict(zip(named, reading.fetch(NodeNames(named)), strict=True)) if named else {}
    found = {}
    for node in wanted:
        way = [node]
        while (others := before[way[-1]]) and way[-1] not in others:
            way.append(min(others, key=names.__getitem__))
        way = way[::-1] if others else []
        found[node] = way, [_name(*names[other]) for other in way[:-1]]
    return found


def _name(chunk: bool, name: str, ordinal: int) -> str:
    return f"chunk {ordinal} of {name}" if chunk else name


def paths(reading: Reading, ranks: PageRank, chunks: Iterable[int]) -> dict[int, str]:
    """For each chunk the likeliest walk to it from what the question names, or from a chunk near the question, in
    words; the chunk itself is not named again."""
    found = {}
    for node, (way, names) in ways(reading, ranks, map(chunk_node, chunks)).items():
        near = not way or not is_entity(way[0])
        found[node] = " → ".join([*(["near the question"] if near else []), *names])
    return found
