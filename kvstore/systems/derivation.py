"""What the systems derive from one document alone, and the texts of which a document's vectors are made, by space.

In: extracted documents, wherever they are extracted. Out: the same with the parts of every derivation, and the texts to
embed: those of chunks and those in the parts, which are embedded together. Pure, so that it can run in other processes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from ..extraction.extraction import Extracted
from ..settings import FixedSettings
from ..structures.vectors.vectors import CHUNK_VECTORS
from . import derivations
from .contract import Derivation


def with_parts(extracted: Extracted, settings: FixedSettings) -> Extracted:
    """A document with what every derivation makes of it; the parts that it has already stay."""
    made = {one.name: one.derive(extracted, settings) for one in derivations() if one.name not in extracted.parts}
    return replace(extracted, parts={**extracted.parts, **made}) if made else extracted


def texts_of(derivation: Derivation, part: Any, settings: FixedSettings) -> Sequence[str]:
    """The texts of a part that have vectors: none in a store without an embedder."""
    return () if settings.embedder.startswith("none:") else derivation.texts(part)


def texts_without_vectors(
    extracted: Extracted, embedded: Container[str], settings: FixedSettings
) -> dict[str, Sequence[str]]:
    """The texts to embed of a document with parts, by the spaces that are not ``embedded``."""
    chunks = CHUNK_VECTORS.name
    found: dict[str, Sequence[str]] = {} if chunks in embedded else {chunks: extracted.embedding_texts()}
    for derivation in derivations():
        if derivation.name not in embedded:
            found[derivation.name] = texts_of(derivation, extracted.parts[derivation.name], settings)
    return found
