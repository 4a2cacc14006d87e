"""The parts that systems derive from one document alone, and the texts that get vectors, by vector space.

In: extracted documents, in any process, and the derivations of a store. Out: the documents with the parts of every
    derivation, and the texts to embed: those of chunks and those of parts, embedded together. Pure, so it can run in
    other processes. Parts and vectors in transit are keyed by the labels of stored derivations.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..extraction.extraction import ExtractedDocument
from ..settings import FixedSettings
from ..structures.vectors.vectors import CHUNK_VECTORS
from .chunk_texts import build_embedding_texts
from .chunked_text import build_chunked_text
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
    """Return the texts of a document to embed, by vector space, except those of ``embedded_spaces``, which have
    vectors already."""
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
