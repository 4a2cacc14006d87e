"""Embedding reuse: a document that is put anew is embedded where its text has changed, and nowhere else.

In: the store as it is, and the texts of documents that are to come, of chunks and of what is derived. Out: those texts
that the stored documents have as well, with their vectors. A document's own vectors of its chunks are not taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set

from ..extraction.extraction import ANY_SPACE
from ..structures.derived_parts import vector_id
from ..structures.documents.documents import DocumentRecord
from ..structures.state import State
from ..structures.vectors.vectors import Matrix, Vectors
from ..systems.chunk_texts import chunk_texts, context_facts
from ..systems.chunked_text import ChunkedText, stored_text
from ..systems.kept_derivations import kept_derivations
from .facts import stated_of


def reusable_embeddings(view: State, documents: Iterable[tuple[str, Set[str]]]) -> dict[tuple[str, str], Matrix]:
    """The vectors, by space and text, that documents (keys and texts) can take over from those they take the place
    of."""
    kept: dict[tuple[str, str], Matrix] = {}
    for key, texts in documents:
        record = view.documents.find(key)
        if record is not None:
            exact = {} if record.own_vectors else _chunk_vectors(view, record, texts)
            kept.update({(ANY_SPACE, text): vector for text, vector in exact.items()})
            kept.update(derived_vectors(view, record, texts))
    return kept


def derived_vectors(view: State, record: DocumentRecord, texts: Set[str]) -> dict[tuple[str, str], Matrix]:
    """The vectors, by space and text, of those of some texts that are in the parts of a stored document."""
    kept: dict[tuple[str, str], Matrix] = {}
    for one in kept_derivations(view.lmdb):
        if not one.covers(record.id):
            continue
        parts = view.derived_parts(one.derivation)
        part, places = parts.get(record.id)
        if parts.vectors.ids_at(places) != [vector_id(record.id, text) for text in range(len(places))]:
            continue  # damaged: other vectors stand there
        stored = one.derivation.texts(part, text_of(view, record, one.derivation.facts))
        found = _vectors_at(parts.vectors, dict(zip(stored, places, strict=False)), texts)
        kept.update({(one.label, text): vector for text, vector in found.items()})
    return kept


def text_of(state: State, record: DocumentRecord, names: Collection[str]) -> ChunkedText:
    """A stored document as a derivation reads it, with the facts of these names that are stated of it."""
    facts = {fact.name: value for fact, value in (stated_of(state, record) if names else ()) if fact.name in names}
    return stored_text(state, record, facts)


def _chunk_vectors(view: State, record: DocumentRecord, texts: Set[str]) -> dict[str, Matrix]:
    stored = text_of(view, record, [fact.name for fact in context_facts(view.settings)])
    chunks = view.chunks.get_many(record.chunk_ids())
    made_from = zip(chunk_texts(stored, view.settings), chunks, strict=True)
    places = {text: (chunk.block, chunk.row) for text, chunk in made_from}
    return _vectors_at(view.vectors, places, texts)


def _vectors_at(vectors: Vectors, places: dict[str, tuple[int, int]], texts: Set[str]) -> dict[str, Matrix]:
    wanted = {text: place for text, place in places.items() if text in texts}
    return dict(zip(wanted, vectors.gather(list(wanted.values())), strict=True))
