"""The sentences of a store by whom they name: the leaves of the second tree of topics.

In: passages, and a state that says where they name entities. Out: for each entity that two passages or more name, its
sentences, in canonical order. Which entities those are is told as for communities: not those that are only mentioned in
lower case, nor those of very many passages; names of one entity are one. Entities come in the order of normal forms.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...structures.clustering.affinity import Partition
from ...structures.shown_entities import shown_entities
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from ..graphrag.entity_graph import FEWEST_PASSAGES, naming_graph
from .topic_building import NamingSentences, Passages


@dataclass(frozen=True)
class NamePlaces:
    """Where passages name entities (ids, in the order of normal forms): of each passage, from ``bounds`` on, the places
    of entities in that order and the bytes of the passage at which they are named, shape (n, 2)."""

    entities: list[int]
    bounds: Partition
    places: Partition

    @staticmethod
    def of(state: State, passages: Passages) -> NamePlaces:
        """Those of the state that the passages are of."""
        graph = naming_graph(state)
        shown = shown_entities(state)
        entities = graph.entities.tolist()
        bounds = graph.naming.searchsorted(range(len(passages) + 1)).tolist()
        named = graph.named
        stops, places = array("q", [0]), array("q")
        for passage, chunk in enumerate(passages.chunks.tolist()):
            here = {entities[node]: node for node in named[bounds[passage] : bounds[passage + 1]].tolist()}
            for entity, start, _ in state.mentions.in_chunk(chunk) if here else ():
                node = here.get(shown.one(entity))
                if node is not None:
                    places.extend((node, start))
            stops.append(len(places) // 2)
        return NamePlaces(entities, np.frombuffer(stops, np.int64), np.frombuffer(places, np.int64).reshape(-1, 2))


def naming_sentences(passages: Passages, names: NamePlaces) -> list[NamingSentences]:
    """The sentences of each entity that has some in two passages; entities that share all of theirs share them."""
    rows = array("q")
    for passage in np.flatnonzero(np.diff(names.bounds)).tolist():
        places = names.places[names.bounds[passage] : names.bounds[passage + 1]].tolist()
        for _, start, end, _ in passages.told(passage):
            for entity in sorted({entity for entity, place in places if start <= place < end}):
                rows.extend((entity, passage, start, end))
    table: Partition = np.frombuffer(rows, np.int64).reshape(-1, 4)
    table = table[np.argsort(table[:, 0], kind="stable")]
    bounds = np.searchsorted(table[:, 0], np.arange(len(names.entities) + 1))
    found: dict[bytes, NamingSentences] = {}
    for entity, first, last in zip(names.entities, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        own = table[first:last, 1:]
        if len(np.unique(own[:, 0])) >= FEWEST_PASSAGES:
            found.setdefault(own.tobytes(), NamingSentences([], own)).entities.append(entity)
    return list(found.values())


def leaf_vectors(vectors: Matrix, leaves: Sequence[NamingSentences]) -> Matrix:
    """The centroids of the passages of each leaf, at length one, of ``vectors`` of all passages; shape (leaves,
    dimension)."""
    found: Matrix = np.zeros((len(leaves), vectors.shape[1]), np.float32)
    for row, leaf in zip(found, leaves, strict=True):
        centre = vectors[leaf.passages].astype(np.float64).sum(axis=0)
        row[:] = centre / max(np.sqrt((centre * centre).sum()), 1e-12)
    return found
