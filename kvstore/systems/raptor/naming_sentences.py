"""Sentences of a store by the entities they mention: the leaves of the second tree of topics. A *leaf* is the sentences
that mention one entity. Chunks are given by their index in canonical order (document key and ordinal), and entities by
their index in order of names.

In: chunks, and a state with the mentions of entities in them. Out: the sentences of each entity mentioned in at least
two chunks, in canonical order. The entities are the nodes of the graph for communities: entities mentioned only in
lower case or in very many chunks are omitted, and all names of an entity count as one. Entities are sorted by normal
form.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...structures.clustering.affinity import IntArray
from ...structures.display_entities import load_display_entities
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from ..graphrag.entity_graph import MIN_NODE_CHUNKS, NodeMentionReader, build_mention_graph
from .ordered_chunks import EntitySentences, OrderedChunks
from .topic_building import compute_centroid


@dataclass(frozen=True)
class EntityMentions:
    """Mentions of entities (ids, sorted by normal form) in chunks. ``rows`` has shape (n, 2): the index of the entity
    and the byte offset of the mention in the chunk. The mentions of chunk i are ``rows[starts[i] : starts[i + 1]]``.
    """

    entities: list[int]
    starts: IntArray
    rows: IntArray

    @staticmethod
    def from_state(state: State) -> EntityMentions:
        """Read the positions at which chunks mention the nodes of the entity graph: entities in several chunks.

        A mention of an alias counts for the entity that the alias refers to.
        """
        graph = build_mention_graph(state)
        mention_reader = NodeMentionReader(state, graph, load_display_entities(state))
        starts, rows = array("q", [0]), array("q")
        for chunk_index in range(len(graph.chunks)):  # in order of document keys and ordinals
            for node, start, _ in mention_reader.list_mentions(chunk_index):
                rows.extend((node, start))
            starts.append(len(rows) // 2)
        entities = graph.entities.tolist()
        return EntityMentions(entities, np.frombuffer(starts, np.int64), np.frombuffer(rows, np.int64).reshape(-1, 2))


def group_entity_sentences(chunks: OrderedChunks, mentions: EntityMentions) -> list[EntitySentences]:
    """Return the sentences of each entity that is mentioned in sentences of at least two chunks.

    Entities with exactly the same sentences share one element of the result.
    """
    # For each entity in each sentence: the indexes of the entity and the chunk, and the byte range of the sentence.
    rows = array("q")
    for chunk_index in np.flatnonzero(np.diff(mentions.starts)).tolist():
        chunk_mentions = mentions.rows[mentions.starts[chunk_index] : mentions.starts[chunk_index + 1]].tolist()
        for _, start, end, _ in chunks.iter_sentences(chunk_index):
            for entity_index in sorted({entity for entity, offset in chunk_mentions if start <= offset < end}):
                rows.extend((entity_index, chunk_index, start, end))
    table: IntArray = np.frombuffer(rows, np.int64).reshape(-1, 4)
    table = table[np.argsort(table[:, 0], kind="stable")]
    starts = np.searchsorted(table[:, 0], np.arange(len(mentions.entities) + 1)).tolist()
    sentences_by_spans: dict[bytes, EntitySentences] = {}
    for entity, (first, stop) in zip(mentions.entities, pairwise(starts), strict=True):
        spans = table[first:stop, 1:]
        if len(np.unique(spans[:, 0])) >= MIN_NODE_CHUNKS:
            sentences_by_spans.setdefault(spans.tobytes(), EntitySentences([], spans)).entities.append(entity)
    return list(sentences_by_spans.values())


def compute_leaf_vectors(vectors: Matrix, leaves: Sequence[EntitySentences]) -> Matrix:
    """Return a unit vector for each of ``leaves``, the sentences that mention an entity, shape (leaves, dimension).

    It is the centroid of the chunks that contain the sentences. ``vectors`` are the vectors of all chunks.
    """
    centroids: Matrix = np.zeros((len(leaves), vectors.shape[1]), np.float32)
    for centroid, leaf in zip(centroids, leaves, strict=True):
        centroid[:] = compute_centroid(vectors[leaf.chunk_indexes])
    return centroids
