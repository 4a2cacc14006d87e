"""Relations of entities in the entity forest as text, and the chunks that assert them. The *entity forest* has trees of
parent and child entities, such as *tug* under *ship*; an entity can have several *nodes* in it. Documents *assert* an
edge (child, parent) at positions in their texts.

In: normal forms of names. Out: :class:`RenderedRelations`, a sentence per forest node and the relations around it, each
with the position at which a document asserts it; and the chunks at those positions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from ...retrieval.dense_search import compute_cosines
from ...retrieval.evidence_sentence import select_best_assertions
from ...retrieval.hierarchy import Hierarchy
from ...retrieval.ordered_addresses import sort_nodes
from ...structures.forest.forest import USER, Forest
from ...structures.read_requests import ReadRequest, Vector
from ...structures.state import State


class RelationMention(NamedTuple):
    """A relation as text ("child under parent"), the document that asserts it, and the byte offset in its text."""

    relation: str
    document: int
    start: int


@dataclass(frozen=True, slots=True)
class RenderedRelations:
    """The relations of some entities as text.

    ``node_counts`` has the number of forest nodes used for each entity, and ``sentences`` describe these nodes.
    ``relations`` are the edges to ancestors and descendants of the nodes, if documents assert them.
    """

    node_counts: list[int]
    sentences: list[str]
    relations: list[RelationMention]


class RelationsRequest(ReadRequest[RenderedRelations]):
    """A request for the relations of entities. ``names`` are the normal forms of the names of each entity. Uses at most
    ``max_nodes`` nodes of each entity, and at most ``max_relatives`` ancestors and as many descendants of each node.
    This is the context of CFT-RAG (section 3.4, Algorithm 3). Each edge that a document asserts is also a relation,
    such as "a under b", with its place in the text.
    """

    names: Sequence[Sequence[str]]
    max_nodes: int
    max_relatives: int

    def fetch(self, state: State) -> RenderedRelations:
        hierarchy = Hierarchy(state, self.max_relatives)
        forest = state.forest
        # The nodes of each entity: each of its names has a node in every tree that contains it.
        node_groups = [
            sort_nodes(state, chain.from_iterable(hierarchy.find_nodes(names)))[: self.max_nodes]
            for names in self.names
        ]
        nodes = list(chain.from_iterable(node_groups))
        edges = [edge for node in nodes for edge in _iter_edges(forest, node, self.max_relatives)]  # (child, parent)
        assertions = select_best_assertions(state, edges)
        keys = forest.get_keys(set(chain.from_iterable(edges)))
        relations = []
        for child, parent in edges:
            assertion = assertions[child, parent]
            if assertion.document != USER:  # an edge that only the user asserted has no document to cite
                relation = f"{keys[child]} under {keys[parent]}"
                relations.append(RelationMention(relation, assertion.document, assertion.start))
        return RenderedRelations(list(map(len, node_groups)), hierarchy.build_sentences(nodes), relations)


def _iter_edges(forest: Forest, node: int, max_relatives: int) -> Iterator[tuple[int, int]]:
    """Yield the edges (child, parent) to the nearest ancestors of a forest node, then to its nearest descendants.

    There are at most ``max_relatives`` of each.
    """
    # The walk reaches ``relative.node`` from ``relative.via``.
    for relative in islice(forest.walk([node], up=True, depth=max_relatives), max_relatives):
        yield relative.via, relative.node
    for relative in islice(forest.walk([node], up=False, depth=max_relatives), max_relatives):
        yield relative.node, relative.via


class ScoredRelation(NamedTuple):
    """The first relation that a chunk asserts, as text ("child under parent"), and the chunk's cosine."""

    relation: str
    cosine: float


class RelationChunksRequest(ReadRequest[dict[int, ScoredRelation]]):
    """A request for the chunks that assert ``relations``, each with its first relation and its cosine with ``vector``.
    A relation is an edge of the entity forest as text ("child under parent"). ``vector`` is the question's vector, of
    unit length. Relations of documents without text are omitted. A chunk asserts a relation if it contains its byte
    offset in the document.
    """

    relations: Sequence[RelationMention]
    vector: Vector

    def fetch(self, state: State) -> dict[int, ScoredRelation]:
        documents = state.documents.get_many(relation.document for relation in self.relations)
        chunk_relations: dict[int, str] = {}
        for relation in self.relations:
            chunk_ids = list(documents[relation.document].chunk_ids())
            index = bisect_right(chunk_ids, relation.start, key=lambda chunk: state.chunks.get(chunk).start)
            if index:  # otherwise no chunk starts at or before the offset, as in a document with edges and no text
                chunk_relations.setdefault(chunk_ids[index - 1], relation.relation)
        cosines = compute_cosines(state, np.array(list(chunk_relations), np.uint64), self.vector)
        return {
            chunk: ScoredRelation(relation, cosine)
            for (chunk, relation), cosine in zip(chunk_relations.items(), cosines.tolist(), strict=True)
        }

    def list_chunks(self, answer: dict[int, ScoredRelation]) -> Iterable[int]:
        """Return the ids of the chunks in ``answer``, which are its keys."""
        return answer
