"""The texts from which the vectors of a document's chunks are made.

In: a document cut into chunks, with those of its facts that give chunks context. Out: one text per chunk: the
    document's title, the headings above the chunk, and the chunk. In a store with ``chunk_context``, a sentence about
    the document comes between headings and chunk (spRAG's AutoContext). It is written by a model for the document and
    the section; if no model wrote any, it is the first sentence of the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..extraction.chunking import get_sentence_language
from ..extraction.extraction import build_embedding_text, get_first_sentence
from ..settings import FixedSettings
from . import SYSTEMS
from .chunked_text import ChunkedText
from .fact import DocumentFact


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
    """Return the context of each chunk: text to embed between its headings and its own text; empty for none."""
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
