"""The sentences of a store by whom they name: the leaves of the second tree of topics.

In: passages, and a state that says where they name entities. Out: for each entity that two passages or more name, its
sentences, in canonical order. Which entities those are is told as for communities: not those that are only mentioned in
lower case, nor those of very many passages; names of one entity are one. Entities come in the order of normal forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...retrieval.cover import told_sentences
from ...structures.shown_entities import shown_entities
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from ..graphrag.entity_graph import FEWEST_PASSAGES, naming_graph
from .topic_building import NamingSentences, Passages, TopicSentence


@dataclass(frozen=True)
class NamePlaces:
    """Where passages name entities (ids, in the order of normal forms): of each passage the places of entities in that
    order, and the bytes of the passage at which they are named."""

    entities: list[int]
    places: list[list[tuple[int, int]]]

    @staticmethod
    def of(state: State, passages: Passages) -> NamePlaces:
        """Those of the state that the passages are of."""
        graph = naming_graph(state)
        shown = shown_entities(state)
        entities = graph.entities.tolist()
        bounds = graph.naming.searchsorted(range(len(passages.chunks) + 1)).tolist()
        named = graph.named.tolist()
        places: list[list[tuple[int, int]]] = []
        for passage, chunk in enumerate(passages.chunks):
            here = {entities[node]: node for node in named[bounds[passage] : bounds[passage + 1]]}
            mentions = state.mentions.in_chunk(chunk) if here else ()
            found = ((here.get(shown.one(entity)), start) for entity, start, _ in mentions)
            places.append([(node, start) for node, start in found if node is not None])
        return NamePlaces(entities, places)


def naming_sentences(passages: Passages, names: NamePlaces) -> list[NamingSentences]:
    """The sentences of each entity that has some in two passages; entities that share all of theirs share them."""
    of_entity: list[list[TopicSentence]] = [[] for _ in names.entities]
    for passage, places in enumerate(names.places):
        if places:
            text = passages.texts[passage].decode()
            for start, end, _, words in told_sentences(text, passages.formats[passage]):
                sentence = TopicSentence(passage, start, end, words)
                for entity in sorted({entity for entity, place in places if start <= place < end}):
                    of_entity[entity].append(sentence)
    found: dict[tuple[tuple[int, int], ...], NamingSentences] = {}
    for entity, sentences in zip(names.entities, of_entity, strict=True):
        if len({sentence.passage for sentence in sentences}) >= FEWEST_PASSAGES:
            same = tuple((sentence.passage, sentence.start) for sentence in sentences)
            found.setdefault(same, NamingSentences([], sentences)).entities.append(entity)
    return list(found.values())


def leaf_vectors(passages: Passages, leaves: Sequence[NamingSentences]) -> Matrix:
    """The centroids of the passages of each leaf, at length one; shape (leaves, dimension)."""
    vectors: Matrix = np.zeros((len(leaves), passages.vectors.shape[1]), np.float32)
    for row, leaf in zip(vectors, leaves, strict=True):
        centre = passages.vectors[leaf.passages].astype(np.float64).sum(axis=0)
        row[:] = centre / max(np.sqrt((centre * centre).sum()), 1e-12)
    return vectors
