"""What the systems derive from one document alone, and the texts of which a document's vectors are made, by space.

In: extracted documents, wherever they are extracted, and what a store keeps. Out: the same with the parts of every
derivation, and the texts to embed: those of chunks and those in the parts, which are embedded together. Pure, so that
it can run in other processes. Parts and vectors on their way go by the labels of what is kept.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..extraction.extraction import Extracted
from ..settings import FixedSettings
from ..structures.vectors.vectors import CHUNK_VECTORS
from .chunk_texts import chunk_texts
from .chunked_text import build_chunked_text
from .kept_derivations import StoredDerivation


def derive_parts(
    extracted: Extracted,
    settings: FixedSettings,
    kept: Sequence[StoredDerivation],
    facts: Mapping[str, Any] | None = None,
) -> Extracted:
    """A document with what every derivation makes of it; the parts that it has already stay, but for those that follow
    one of the ``facts`` stated of it."""
    facts = facts or {}
    follows_facts = [not facts.keys().isdisjoint(one.derivation.facts) for one in kept]
    pending = [
        one
        for one, is_outdated in zip(kept, follows_facts, strict=True)
        if is_outdated or one.label not in extracted.parts
    ]
    if not pending:
        return extracted
    document = build_chunked_text(extracted, facts)
    made = {one.label: one.derive(document, settings) for one in pending}
    return replace(extracted, parts={**extracted.parts, **made})


def list_missing_texts(
    extracted: Extracted,
    embedded: Container[str],
    settings: FixedSettings,
    kept: Sequence[StoredDerivation],
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Sequence[str]]:
    """The texts to embed of a document with parts, by the spaces that are not ``embedded``."""
    chunks = CHUNK_VECTORS.name
    missing = [derivation for derivation in kept if derivation.label not in embedded]
    if chunks in embedded and not missing:
        return {}
    document = build_chunked_text(extracted, facts or {})
    found: dict[str, Sequence[str]] = {} if chunks in embedded else {chunks: chunk_texts(document, settings)}
    for derivation in missing:
        found[derivation.label] = derivation.texts(extracted.parts[derivation.label], document, settings)
    return found
