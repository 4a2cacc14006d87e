"""Conversion between Haystack documents and documents of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haystack.dataclasses import Document

from ... import Document as StoredDocument
from ... import Hit, Snapshot
from ..blank_texts import get_text_field
from ..hit_metadata import build_hit_metadata, load_hit_documents

#: The origin of a document whose vector is the embedding that it came with.
_EMBEDDED_ORIGIN = "haystack:embedding"


def to_put_arguments(document: Document) -> dict[str, Any]:
    """Convert a document to the arguments of ``put``.

    If the document has an embedding, it becomes the vector, and the origin records this.
    """
    has_embedding = document.embedding is not None
    return {
        "key": document.id,
        "text": document.content or "",
        "meta": document.meta,
        "title": get_text_field(document.meta, "title"),
        "source": get_text_field(document.meta, "file_path"),
        "chunks": "whole",
        "vectors": [document.embedding] if has_embedding else None,
        "origin": _EMBEDDED_ORIGIN if has_embedding else None,
    }


def load_documents(state: Snapshot, keys: Sequence[str]) -> list[Document]:
    """Return the documents with these keys in ``state``, in order. Missing documents are omitted.

    A document that was written with an embedding has it again, scaled to length 1: it is the vector of its only chunk.
    """
    stored_documents = [document for document in state.get_many(keys) if document is not None]
    embedded_keys = [document.key for document in stored_documents if document.origin == _EMBEDDED_ORIGIN]
    vectors = state.vectors([(key, 0) for key in embedded_keys])
    embeddings = {key: vector.tolist() for key, vector in zip(embedded_keys, vectors, strict=True)}
    return [
        Document(id=document.key, content=document.text, meta=document.meta, embedding=embeddings.get(document.key))
        for document in stored_documents
    ]


def build_hit_documents(state: Snapshot, hits: Sequence[Hit]) -> list[Document]:
    """Return hits as documents with scores; ``meta["evidence"]`` has their paths and offsets."""
    return [_build_hit_document(hit, stored_document) for hit, stored_document in load_hit_documents(state, hits)]


def _build_hit_document(hit: Hit, stored_document: StoredDocument) -> Document:
    """Convert a hit to a document: the whole document if it is one chunk, else the hit's text with a new id."""
    is_whole = hit.kind == "chunk" and stored_document.chunks == 1
    return Document(
        id=stored_document.key if is_whole else f"{stored_document.key}#{hit.start}-{hit.end}",
        content=stored_document.text if is_whole else hit.text,
        meta={**stored_document.meta, "evidence": build_hit_metadata(hit)},
        score=hit.score,
    )
