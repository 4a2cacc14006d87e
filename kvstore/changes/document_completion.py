"""Derive and embed the missing data of documents to be stored. A *derivation* computes a *part*, such as a list of
sentences, from one document. Its label (name and options) also names the *vector space* of the texts in its parts. A
*fact* is data that a user adds, such as a triple.

In: pending documents and the stored facts about them. On disk: nothing. Out: documents that
:class:`~kvstore.changes.changes.Changes` can apply. If a document is put again, only its changed texts are embedded;
vectors that the user supplied are not reused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from ..extraction.extraction import ChunkedDocument, ExtractedDocument, chunk_document, extract_chunked
from ..models.embedder import ANY_SPACE, collect_vectors
from ..registry.chunked_text import ChunkedText, load_chunked_text
from ..registry.derivation import (
    StoredDerivation,
    build_embedding_texts,
    collect_missing_texts,
    derive_parts,
    list_context_facts,
    list_maintained_derivations,
)
from ..settings import FixedSettings
from ..structures.documents.documents import DocumentRecord
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix, Vector, Vectors
from . import facts
from .pending import EmbeddedPart, PendingChanges, PendingDocument

#: Vectors of texts, by vector space (the label of a derivation, or the chunks) and text.
TextVectors = dict[tuple[str, str], Vector]


def derive_documents(documents: Sequence[PendingDocument], settings: FixedSettings) -> list[PendingDocument]:
    """Return documents with their chunks, terms (stems), summaries, names and relations.

    Documents that already have them are unchanged. The prose of the others is parsed together, which is faster. Raises
    LanguageError if the language pipeline is missing.
    """
    contents = [
        document.content
        if isinstance(document.content, ChunkedDocument | ExtractedDocument)
        else chunk_document(document.content, settings)
        for document in documents
    ]
    derived_contents = iter(
        extract_chunked([content for content in contents if isinstance(content, ChunkedDocument)], settings)
    )
    return [
        replace(document, content=next(derived_contents) if isinstance(content, ChunkedDocument) else content)
        for document, content in zip(documents, contents, strict=True)
    ]


def embed_documents(
    documents: Sequence[PendingDocument],
    settings: FixedSettings,
    open_state: Callable[[], AbstractContextManager[State]],
    embed: Callable[[Sequence[str]], Matrix],
    facts_by_key: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[PendingDocument]:
    """Return documents with all derived parts (data computed from single documents) and vectors.

    A vector is reused if the stored document with the same key has a vector of the same text; other texts are embedded.
    ``facts_by_key`` has the facts about the documents, such as triples, by document key and kind of fact (None: no
    facts). The state is closed before ``embed`` is called, which can take long.
    """
    facts_by_key = facts_by_key or {}
    with open_state() as stored_state:
        derivations = list_maintained_derivations(stored_state.lmdb)
        derived_documents, missing_texts = [], []
        for document in documents:
            document_facts = facts_by_key.get(document.extracted.key, {})
            derived_document = _derive_parts(document, settings, derivations, document_facts)
            derived_documents.append(derived_document)
            missing_texts.append(
                collect_missing_texts(
                    derived_document.extracted, derived_document.vectors, settings, derivations, document_facts
                )
            )
        if not any(missing_texts):
            return derived_documents
        stored_vectors: TextVectors = {}
        for derived_document, texts_by_space in zip(derived_documents, missing_texts, strict=True):
            texts = set(chain(*texts_by_space.values()))
            record = stored_state.documents.find_by_key(derived_document.extracted.key) if texts else None
            if record is not None:
                stored_vectors.update(_read_stored_vectors(stored_state, record, texts))
    vectors = collect_vectors(missing_texts, embed, stored_vectors)
    return [
        replace(document, vectors={**document.vectors, **new_vectors})
        for document, new_vectors in zip(derived_documents, vectors, strict=True)
    ]


def _derive_parts(
    document: PendingDocument,
    settings: FixedSettings,
    derivations: Sequence[StoredDerivation],
    document_facts: Mapping[str, Any],
) -> PendingDocument:
    """Return a document with its derived parts, without the vectors of texts that changed.

    A part is what a derivation computes from the document, such as a list of sentences. ``document_facts`` are the
    facts that users added about the document, by name. Some, such as a context written by a model, are embedded
    together with the chunks, unless the user supplied the vectors of the chunks (``own_vectors``).
    """
    extracted = derive_parts(document.extracted, settings, derivations, document_facts)
    parts, previous_parts = extracted.parts, document.extracted.parts
    # derive_parts() returns the same object for an unchanged part. No part has the vectors of chunks, so they stay.
    valid_vectors = {
        name: rows for name, rows in document.vectors.items() if parts.get(name) is previous_parts.get(name)
    }
    if not document.own_vectors and any(fact.name in document_facts for fact in list_context_facts(settings)):
        # The chunks were embedded without the facts about the document.
        valid_vectors.pop(CHUNK_VECTORS.name, None)
    if extracted is document.extracted and len(valid_vectors) == len(document.vectors):
        return document
    return replace(document, content=extracted, vectors=valid_vectors)


def complete_pending(
    pending: PendingChanges,
    state: State,
    embed: Callable[[Sequence[str]], Matrix],
    find_vectors: Callable[[str, Set[str]], TextVectors] | None = None,
) -> None:
    """Derive and embed, in place, the missing data of pending changes, so that they can be applied to a state.

    This covers the new documents, and the derived parts of stored documents with changed facts. ``find_vectors`` takes
    a document key and texts, and returns the known vectors of these texts (None: no vectors are known).
    """
    for document in derive_documents(pending.new_documents, state.settings):
        pending.documents[document.document.key] = document
    derivations = list_maintained_derivations(state.lmdb)
    facts_by_key = _collect_relevant_facts(pending, state.settings, derivations)
    facts_of_new_documents = {
        key: {name: value for name, value in document_facts.items() if value is not None}
        for key, document_facts in facts_by_key.items()
    }
    # The caller's state stays open while the texts are embedded.
    for document in embed_documents(
        pending.new_documents, state.settings, lambda: nullcontext(state), embed, facts_of_new_documents
    ):
        pending.documents[document.extracted.key] = document
    changed_facts = {
        key: document_facts for key, document_facts in facts_by_key.items() if key not in pending.documents
    }
    pending.parts = {}
    if changed_facts:
        pending.parts = _derive_parts_from_changed_facts(state, derivations, changed_facts, embed, find_vectors)


def _collect_relevant_facts(
    pending: PendingChanges, settings: FixedSettings, derivations: Sequence[StoredDerivation]
) -> dict[str, dict[str, Any]]:
    """Return the changed facts on which derived parts or vectors of chunks depend, by document key and kind of fact.

    The value of a deleted fact is None.
    """
    relevant_kinds = {name for stored_derivation in derivations for name in stored_derivation.derivation.facts}
    relevant_kinds &= pending.facts.keys()
    relevant_kinds |= {fact.name for fact in list_context_facts(settings)}
    facts_by_key: dict[str, dict[str, Any]] = {}
    for kind in relevant_kinds:
        for key, value in pending.facts[kind].items():
            facts_by_key.setdefault(key, {})[kind] = value
    return facts_by_key


class _RederivedPart(NamedTuple):
    """A part derived again: the key of its document, the label of its derivation, the part, and its texts to embed."""

    key: str
    label: str
    part: Any
    texts: Sequence[str]


def _derive_parts_from_changed_facts(
    state: State,
    derivations: Sequence[StoredDerivation],
    changed_facts: Mapping[str, Mapping[str, Any]],
    embed: Callable[[Sequence[str]], Matrix],
    find_vectors: Callable[[str, Set[str]], TextVectors] | None,
) -> dict[str, dict[str, EmbeddedPart]]:
    """Derive the stored parts of documents that depend on ``changed_facts`` again, and embed their texts.

    Returns the parts (what each derivation computes from a document) by document key and label (name and options) of
    the derivation. ``changed_facts`` are the new values, such as triples, by document key and kind of fact, None for a
    deleted fact. ``find_vectors`` takes a document key and texts, and returns the known vectors of these texts.
    """
    new_parts: list[_RederivedPart] = []
    known_vectors: TextVectors = {}
    for key, document_facts in changed_facts.items():
        record = state.documents.find_by_key(key)
        if record is None:
            continue
        for stored_derivation in derivations:
            fact_names = stored_derivation.derivation.facts
            if document_facts.keys().isdisjoint(fact_names) or not stored_derivation.has_part(record.id):
                continue
            previous_text = read_chunked_text(state, record, fact_names)
            current_facts = {
                name: value for name, value in {**previous_text.facts, **document_facts}.items() if value is not None
            }
            document_text = replace(previous_text, facts=current_facts)
            part = stored_derivation.derive_part(document_text, state.settings)
            texts = stored_derivation.list_texts(part, document_text, state.settings)
            known_vectors.update(read_derived_vectors(state, record, set(texts)))
            known_vectors.update(find_vectors(key, set(texts)) if find_vectors else {})
            new_parts.append(_RederivedPart(key, stored_derivation.label, part, texts))
    embedded_parts: dict[str, dict[str, EmbeddedPart]] = {}
    vectors_by_part = collect_vectors([{part.label: part.texts} for part in new_parts], embed, known_vectors)
    for (key, label, part, _), vectors in zip(new_parts, vectors_by_part, strict=True):
        embedded_parts.setdefault(key, {})[label] = EmbeddedPart(part, vectors[label])
    return embedded_parts


def _read_stored_vectors(state: State, record: DocumentRecord, texts: Set[str]) -> TextVectors:
    """Return the stored vectors that the embedder computed for ``texts`` of a document, by vector space and text.

    Texts without a stored vector are left out. The vectors that the user supplied for chunks are not returned.
    """
    chunk_vectors = {} if record.own_vectors else _read_chunk_vectors(state, record, texts)
    # The embedder computed the vectors of the chunks, so they also serve the same texts of derived parts.
    return {
        **{(ANY_SPACE, text): vector for text, vector in chunk_vectors.items()},
        **read_derived_vectors(state, record, texts),
    }


def read_derived_vectors(state: State, record: DocumentRecord, texts: Set[str]) -> TextVectors:
    """Return the stored vectors of those ``texts`` that derivations computed from a document, by space and text.

    A vector space has the label (name and options) of its derivation. Texts without a vector are omitted.
    """
    vectors: TextVectors = {}
    for stored_derivation in list_maintained_derivations(state.lmdb):
        if not stored_derivation.has_part(record.id):
            continue
        parts = state.get_derived_parts(stored_derivation.derivation)
        part, vector_locations = parts.get(record.id)
        if not parts.has_part_vectors(record.id, vector_locations):
            continue  # damaged: these locations have vectors of other texts
        part_texts = stored_derivation.derivation.list_texts(
            part, read_chunked_text(state, record, stored_derivation.derivation.facts)
        )
        # In a store without an embedder, the texts have no vectors.
        part_vectors = _gather_vectors(parts.vectors, dict(zip(part_texts, vector_locations, strict=False)), texts)
        vectors.update({(stored_derivation.label, text): vector for text, vector in part_vectors.items()})
    return vectors


def read_chunked_text(state: State, record: DocumentRecord, fact_names: Collection[str]) -> ChunkedText:
    """Return a stored document with its text and chunks, and with the facts about it of these kinds."""
    stated_facts = facts.iter_document_facts(state, record) if fact_names else ()
    facts_by_name = {fact.name: value for fact, _, value in stated_facts if fact.name in fact_names}
    return load_chunked_text(state, record, facts_by_name)


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
    """Return the vectors of the ``texts`` that have a location (block, row) in ``vector_locations``, by text."""
    wanted_locations = {text: location for text, location in vector_locations.items() if text in texts}
    return dict(zip(wanted_locations, vectors.gather(list(wanted_locations.values())), strict=True))
