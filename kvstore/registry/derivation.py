"""The derivations of a store. A derivation computes a *part* from one document alone: data with texts to embed. Every
store keeps the derivations of systems; CREATE INDEX adds that of an index. A *label* is the name of a derivation with
its options, the key of its parts and of their new vectors.

The derivations of a store are the derivations that every store keeps, and the derivations that CREATE INDEX added. In:
a state of the store. Out: each derivation with the options of its index, and the documents that have its parts.

Deriving: in: extracted documents, in any process. Out: the documents with the parts of every derivation, and the texts
that get vectors, by vector space: the texts of chunks and of parts, embedded together. Pure, so it can run in other
processes.

The text of a chunk's vector is the document's title, the headings above the chunk, and the chunk. In a store with
``chunk_context``, a sentence about the document comes between headings and chunk (spRAG's AutoContext). It is written
by a model for the document and the section; if no model wrote any, it is the first sentence of the document.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ..extraction.extraction import ExtractedDocument, build_embedding_text, get_first_sentence
from ..process.frozen_dataclass import frozen_dataclass
from ..settings import FixedSettings
from ..storage.view import View
from ..structures.indexes.index import Indexes
from ..structures.vectors.vectors import CHUNK_VECTORS
from . import (
    INDEXES,
    SYSTEMS,
    list_maintained_index_names,
    list_systems_with_derivations,
    list_systems_with_own_derivations,
)
from .chunked_text import ChunkedText, build_chunked_text
from .contract import Derivation, MaintainedIndex
from .fact import DocumentFact
from .structure_versions import has_index


@frozen_dataclass
class StoredDerivation:
    """A derivation (data computed from each document) of a store. ``options`` are all options of its index.

    While its index is being built, the documents with ids in ``unbuilt_documents`` have no part (derived data) yet. If
    ``is_maintained`` is False, the derivation is being dropped; its remaining parts are deleted with their documents.
    """

    derivation: Derivation
    options: Mapping[str, float | str] = field(default_factory=dict)
    unbuilt_documents: range = range(0)
    is_maintained: bool = True

    @property
    def name(self) -> str:
        """The name of the derivation."""
        return self.derivation.name

    @property
    def label(self) -> str:
        """The name and the options of the derivation as one string, the key of its part in a document's ``parts``."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in sorted(self.options.items()))])

    def has_part(self, document: int) -> bool:
        """True if the stored document with this id has a part."""
        return self.is_maintained and document not in self.unbuilt_documents

    def derive_part(self, document: ChunkedText, settings: FixedSettings) -> Any:
        """Compute and return the part of a document, with the options of this store."""
        return self.derivation.derive(document, settings, self.options)

    def list_texts(self, part: Any, document: ChunkedText, settings: FixedSettings) -> Sequence[str]:
        """Return the texts of a part (derived data) that have vectors: none in a store without an embedder."""
        return () if settings.embedder.startswith("none:") else self.derivation.list_texts(part, document)


def get_derivation(name: str) -> Derivation:
    """Return the derivation with this name, which must exist. It belongs to a system or to an index."""
    systems = list_systems_with_derivations()
    derivations = (derivation for system in systems for derivation in system.list_derivations())
    return next(derivation for derivation in derivations if derivation.name == name)


def list_stored_derivations(view: View) -> list[StoredDerivation]:
    """Return the derivations of the store that ``view`` reads, with their options.

    They belong to systems, and to the store's indexes, including an index that is being dropped.
    """
    systems = list_systems_with_own_derivations()
    derivations = [StoredDerivation(derivation) for system in systems for derivation in system.derivations]
    for name in list_maintained_index_names():
        if not has_index(view, name):
            continue
        index = INDEXES[name]  # imports the package of its system
        record = Indexes(view).get(index)
        if isinstance(index, MaintainedIndex) and record is not None:
            progress = record.state
            derivations.append(
                StoredDerivation(
                    index.derivation,
                    {key: record.options.get(key, option.default) for key, option in index.options.items()},
                    unbuilt_documents=range(progress.get("built", 0), progress.get("until", 0)),
                    is_maintained=not progress.get("dropping"),
                )
            )
    return derivations


def list_maintained_derivations(view: View) -> list[StoredDerivation]:
    """Return the derivations of the store that ``view`` reads, except those of indexes that are being dropped."""
    return [derivation for derivation in list_stored_derivations(view) if derivation.is_maintained]


def derive_parts(
    extracted_document: ExtractedDocument,
    settings: FixedSettings,
    derivations: Sequence[StoredDerivation],
    facts: Mapping[str, Any] | None = None,
) -> ExtractedDocument:
    """Return ``extracted_document`` with the parts that derivations compute from it, by label, in its ``parts``.

    A part that it already has is not computed again, unless it depends on one of ``facts``. These are the facts (such
    as triples) that users or models stated about the document, by kind (None: no facts). The document is copied if
    anything is computed.
    """
    facts = facts or {}
    missing_derivations = [
        derivation
        for derivation in derivations
        if derivation.label not in extracted_document.parts or not facts.keys().isdisjoint(derivation.derivation.facts)
    ]
    if not missing_derivations:
        return extracted_document
    document = build_chunked_text(extracted_document, facts)
    parts = {derivation.label: derivation.derive_part(document, settings) for derivation in missing_derivations}
    return replace(extracted_document, parts={**extracted_document.parts, **parts})


def collect_missing_texts(
    extracted_document: ExtractedDocument,
    embedded_spaces: Container[str],
    settings: FixedSettings,
    derivations: Sequence[StoredDerivation],
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Sequence[str]]:
    """Return the texts of ``extracted_document`` that need vectors, by the name of the vector space.

    There is a vector space for the chunks, and one for each derivation, which is named by the derivation's label. Texts
    of ``embedded_spaces`` already have vectors and are omitted. ``facts`` has the document's facts, if any, by kind.
    """
    chunk_space = CHUNK_VECTORS.name
    unembedded_derivations = [derivation for derivation in derivations if derivation.label not in embedded_spaces]
    if chunk_space in embedded_spaces and not unembedded_derivations:
        return {}
    document = build_chunked_text(extracted_document, facts or {})
    texts: dict[str, Sequence[str]] = {}
    if chunk_space not in embedded_spaces:
        texts[chunk_space] = build_embedding_texts(document, settings)
    for derivation in unembedded_derivations:
        texts[derivation.label] = derivation.list_texts(extracted_document.parts[derivation.label], document, settings)
    return texts


def list_context_facts(settings: FixedSettings) -> list[DocumentFact[Any]]:
    """Return the kinds of facts whose texts are embedded with each chunk as its context.

    There are none if the setting ``chunk_context`` is off.
    """
    if not settings.chunk_context:
        return []
    all_facts = (fact for system in SYSTEMS.values() for fact in system.facts)
    return [fact for fact in all_facts if isinstance(fact, DocumentFact) and fact.gives_context]


def build_embedding_texts(document: ChunkedText, settings: FixedSettings) -> list[str]:
    """Return the text to embed for each chunk: the document's title, the headings, the context and the chunk.

    In a store with the setting ``chunk_context``, the context is what facts about the document say about the chunk, or
    else the document's first sentence. Otherwise, it is empty.
    """
    contexts = _build_contexts(document, settings) if settings.chunk_context else [""] * len(document.chunks)
    return [
        build_embedding_text(
            document.title, document.list_headings(ordinal), document.get_chunk_text(ordinal).decode(), context
        )
        for ordinal, context in enumerate(contexts)
    ]


def _build_contexts(document: ChunkedText, settings: FixedSettings) -> Sequence[str]:
    """Return the context of each chunk: the text to embed between its headings and its own text.

    It is what the document's facts say about the chunk, or else the first sentence of the document.
    """
    if not document.chunks:
        return []
    first_sentence = get_first_sentence(
        document.get_chunk_text(0).decode(), settings.get_sentence_language(document.language)
    )
    fact_contexts = [
        fact.build_contexts(document.facts[fact.name], document)
        for fact in list_context_facts(settings)
        if fact.name in document.facts
    ]
    if not fact_contexts:
        return [first_sentence] * len(document.chunks)
    # For each chunk, join the texts of all kinds of facts.
    contexts = ("\n".join(filter(None, chunk_texts)) for chunk_texts in zip(*fact_contexts, strict=True))
    return [context or first_sentence for context in contexts]
