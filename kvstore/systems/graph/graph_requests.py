"""Requests of the ``graph`` strategy: the triples of documents, and the existence of an index. A *triple* (subject,
relation, object) was imported with a document, or written by a model.

In: chunks. Out: the triples of their documents, in order of the chunks.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...registry.structure_versions import has_index
from ...structures import tables
from ...structures.documents.document_triples import Triples
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...text.normalize import to_entity_key

#: The number of triples read per document.
_MAX_TRIPLES = 200

#: A triple of names: normal form of the subject, relation as written, normal form of the object.
NameTriple = tuple[str, str, str]


class HasTriplesRequest(ReadRequest[bool]):
    """A request that returns True if any document has triples."""

    def fetch(self, state: State) -> bool:
        return any(map(state.lmdb.count, (tables.TRIPLES, tables.WRITTEN_TRIPLES)))


class TriplesRequest(ReadRequest[list[NameTriple]]):
    """A request for the triples (subject, relation, object) of the documents of some chunks, in order of the chunks.
    Subject and object are normal forms of names. At most ``_MAX_TRIPLES`` triples of each document are returned.
    """

    chunks: Sequence[int]

    def fetch(self, state: State) -> list[NameTriple]:
        if not HasTriplesRequest().fetch(state):
            return []
        documents = dict.fromkeys(chunk.document for chunk in state.chunks.get_many(self.chunks))  # distinct, in order
        triples = Triples(state.lmdb)
        return [
            (to_entity_key(triple.subject), triple.relation, to_entity_key(triple.object))
            for document in documents
            for triple in triples.get(document).triples[:_MAX_TRIPLES]
        ]


class HasIndexRequest(ReadRequest[bool]):
    """A request that returns True if the store has an index of a kind, which is named as in CREATE INDEX. The module of
    that kind of index is not imported.
    """

    kind: str

    def fetch(self, state: State) -> bool:
        return has_index(state.lmdb, self.kind)
