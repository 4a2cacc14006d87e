"""The parts that systems derive from one document alone, and the texts that get vectors, by vector space.

In: extracted documents, in any process, and the derivations of a store. Out: the documents with the parts of every
    derivation, and the texts to embed: those of chunks and those of parts, embedded together. Pure, so it can run in
    other processes. Parts and vectors in transit are keyed by the labels of stored derivations.

The text of a chunk's vector is the document's title, the headings above the chunk, and the chunk. In a store with
``chunk_context``, a sentence about the document comes between headings and chunk (spRAG's AutoContext). It is written
by a model for the document and the section; if no model wrote any, it is the first sentence of the document.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..extraction.chunking import get_sentence_language
from ..extraction.extraction import ExtractedDocument, build_embedding_text, get_first_sentence
from ..settings import FixedSettings
from ..structures.vectors.vectors import CHUNK_VECTORS
from . import SYSTEMS
from .chunked_text import ChunkedText, build_chunked_text
from .fact import DocumentFact
from .stored_derivations import StoredDerivation


def derive_parts(
    extracted: ExtractedDocument,
    settings: FixedSettings,
    derivations: Sequence[StoredDerivation],
    facts: Mapping[str, Any] | None = None,
) -> ExtractedDocument:
    """Return a document with the part of every derivation added.

    Existing parts stay, unless they depend on one of the stated ``facts``, which are keyed by name.
    """
    facts = facts or {}
    missing_derivations = [
        derivation
        for derivation in derivations
        if derivation.label not in extracted.parts or not facts.keys().isdisjoint(derivation.derivation.facts)
    ]
    if not missing_derivations:
        return extracted
    document = build_chunked_text(extracted, facts)
    parts = {derivation.label: derivation.derive_part(document, settings) for derivation in missing_derivations}
    return replace(extracted, parts={**extracted.parts, **parts})


def list_missing_texts(
    extracted: ExtractedDocument,
    embedded_spaces: Container[str],
    settings: FixedSettings,
    derivations: Sequence[StoredDerivation],
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Sequence[str]]:
    """Return the texts of a document to embed, by vector space.

    The texts of ``embedded_spaces`` have vectors already, and are left out.
    """
    chunk_space = CHUNK_VECTORS.name
    unembedded_derivations = [derivation for derivation in derivations if derivation.label not in embedded_spaces]
    if chunk_space in embedded_spaces and not unembedded_derivations:
        return {}
    document = build_chunked_text(extracted, facts or {})
    texts: dict[str, Sequence[str]] = {}
    if chunk_space not in embedded_spaces:
        texts[chunk_space] = build_embedding_texts(document, settings)
    for derivation in unembedded_derivations:
        texts[derivation.label] = derivation.list_texts(extracted.parts[derivation.label], document, settings)
    return texts


def list_context_facts(settings: FixedSettings) -> list[DocumentFact[Any]]:
    """Return the kinds of facts that the vectors of chunks depend on."""
    if not settings.chunk_context:
        return []
    all_facts = (fact for system in SYSTEMS.values() for fact in system.facts)
    return [fact for fact in all_facts if isinstance(fact, DocumentFact) and fact.gives_context]


def build_embedding_texts(document: ChunkedText, settings: FixedSettings) -> list[str]:
    """Return the text to embed for each chunk."""
    contexts = _build_contexts(document, settings)
    return [
        build_embedding_text(
            document.title, document.list_headings(ordinal), document.get_chunk_text(ordinal).decode(), context
        )
        for ordinal, context in enumerate(contexts)
    ]


def _build_contexts(document: ChunkedText, settings: FixedSettings) -> Sequence[str]:
    """Return the context of each chunk: the text to embed between its headings and its own text, or an empty text."""
    if not settings.chunk_context or not document.chunks:
        return [""] * len(document.chunks)
    first_sentence = get_first_sentence(
        document.get_chunk_text(0).decode(), get_sentence_language(document.language, settings)
    )
    fact_contexts = [
        fact.build_contexts(document.facts[fact.name], document)
        for fact in list_context_facts(settings)
        if fact.name in document.facts
    ]
    if not fact_contexts:
        return [first_sentence] * len(document.chunks)
    contexts = ("\n".join(filter(None, lines)) for lines in zip(*fact_contexts, strict=True))
    return [context or first_sentence for context in contexts]


def has_context(facts: Mapping[str, Any], settings: FixedSettings) -> bool:
    """True if ``facts`` (by name) has one that changes the embedding texts of its document's chunks."""
    return any(fact.name in facts for fact in list_context_facts(settings))
