"""Requests of the strategy ``graph``: the relations that documents state, and whether an index exists.

In: chunks. Out: for each of their documents, in order of the chunks, the stated relations in words: imported triples
and edges of the forest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from ...derived.passage_graph.rows import iter_stated_relations
from ...registry.structure_versions import has_index
from ...structures.read_requests import ReadRequest
from ...structures.state import State

#: (normal form of a name, relation, normal form of another name). The relation is "" for an edge of the forest.
RelationInWords = tuple[str, str, str]


class StatedRelations(ReadRequest[list[RelationInWords]]):
    """A request for the relations that the documents of ``chunks`` state.

    Returns, per document, at most ``max_relations`` imported triples and then at most as many edges, sorted by name.
    """

    chunks: Sequence[int]
    max_relations: int

    def fetch(self, state: State) -> list[RelationInWords]:
        """Read the relations that the documents of the chunks state."""
        documents = dict.fromkeys(chunk.document for chunk in state.chunks.get_many(self.chunks))
        return list(chain.from_iterable(self._iter_document_relations(state, document) for document in documents))

    def _iter_document_relations(self, state: State, document: int) -> Iterator[RelationInWords]:
        """Yield the relations that a document states: its triples, then its edges sorted by name."""
        yield from iter_stated_relations(state, document, self.max_relations)
        edges = state.forest.list_document_edges(document)
        keys = state.forest.get_keys(set(chain.from_iterable(edges)))
        for child, parent in sorted((keys[child], keys[parent]) for child, parent in edges)[: self.max_relations]:
            yield child, "", parent


class HasIndex(ReadRequest[bool]):
    """A request for whether the store has an index of a kind, given by its name in CREATE INDEX.

    The module of that kind of index is not imported.
    """

    kind: str

    def fetch(self, state: State) -> bool:
        """Return True if the index was created."""
        return has_index(state.lmdb, self.kind)
