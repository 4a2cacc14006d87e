"""Embedding reuse: if a document is put again, only its changed texts are embedded.

In: the current store, and the texts of incoming documents: chunks and derived texts. Out: the texts that the stored
documents also have, with their vectors. Vectors that the user supplied are not reused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set

from ..extraction.extraction import ANY_SPACE
from ..registry.chunk_texts import build_embedding_texts, list_context_facts
from ..registry.chunked_text import ChunkedText, load_chunked_text
from ..registry.stored_derivations import list_maintained_derivations
from ..structures.derived_parts import to_vector_id
from ..structures.documents.documents import DocumentRecord
from ..structures.state import State
from ..structures.vectors.vectors import Matrix, Vectors
from .facts import iter_document_facts


def find_reusable_embeddings(state: State, documents: Iterable[tuple[str, Set[str]]]) -> dict[tuple[str, str], Matrix]:
    """Return the vectors, by space and text, that new documents can take over from the stored ones that they replace.

    ``documents`` are the keys of the new documents, each with its texts to embed.
    """
    embeddings: dict[tuple[str, str], Matrix] = {}
    for key, texts in documents:
        record = state.documents.find_by_key(key)
        if record is not None:
            chunk_vectors = {} if record.own_vectors else _read_chunk_vectors(state, record, texts)
            embeddings.update({(ANY_SPACE, text): vector for text, vector in chunk_vectors.items()})
            embeddings.update(read_derived_vectors(state, record, texts))
    return embeddings


def read_derived_vectors(state: State, record: DocumentRecord, texts: Set[str]) -> dict[tuple[str, str], Matrix]:
    """Return the stored vectors of ``texts`` that occur in the derived parts of a document, by space and text.

    Texts without a stored vector are left out.
    """
    vectors: dict[tuple[str, str], Matrix] = {}
    for stored_derivation in list_maintained_derivations(state.lmdb):
        if not stored_derivation.has_part(record.id):
            continue
        parts = state.get_derived_parts(stored_derivation.derivation)
        part, vector_locations = parts.get(record.id)
        if parts.vectors.get_ids(vector_locations) != [
            to_vector_id(record.id, text) for text in range(len(vector_locations))
        ]:
            continue  # damaged: these locations have vectors of other texts
        part_texts = stored_derivation.derivation.list_texts(
            part, read_chunked_text(state, record, stored_derivation.derivation.facts)
        )
        part_vectors = _gather_vectors(parts.vectors, dict(zip(part_texts, vector_locations, strict=False)), texts)
        vectors.update({(stored_derivation.label, text): vector for text, vector in part_vectors.items()})
    return vectors


def read_chunked_text(state: State, record: DocumentRecord, fact_names: Collection[str]) -> ChunkedText:
    """Return a stored document as input of a derivation, with the named facts stated about it."""
    stated_facts = iter_document_facts(state, record) if fact_names else ()
    facts = {fact.name: value for fact, value in stated_facts if fact.name in fact_names}
    return load_chunked_text(state, record, facts)


def _read_chunk_vectors(state: State, record: DocumentRecord, texts: Set[str]) -> dict[str, Matrix]:
    """Return the stored vectors of ``texts`` that are embedding texts of a document's chunks, by text."""
    chunked_text = read_chunked_text(state, record, [fact.name for fact in list_context_facts(state.settings)])
    chunks = state.chunks.get_many(record.chunk_ids())
    texts_with_chunks = zip(build_embedding_texts(chunked_text, state.settings), chunks, strict=True)
    vector_locations = {text: (chunk.block, chunk.row) for text, chunk in texts_with_chunks}
    return _gather_vectors(state.vectors, vector_locations, texts)


def _gather_vectors(
    vectors: Vectors, vector_locations: dict[str, tuple[int, int]], texts: Set[str]
) -> dict[str, Matrix]:
    """Read the vectors of ``texts`` that have a location (block, row) in ``vector_locations``, by text."""
    wanted_locations = {text: location for text, location in vector_locations.items() if text in texts}
    return dict(zip(wanted_locations, vectors.gather(list(wanted_locations.values())), strict=True))
