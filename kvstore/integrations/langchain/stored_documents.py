"""LangChain's documents as documents of a store, and back.

In: documents with or without ids. In the store: one document each, whole, in the order given, one commit a batch; the
``origin`` says that it came through LangChain, for which namespace, and when it was confirmed last. Out: documents of
LangChain for hits and keys.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from langchain_core.documents import Document

from ... import Document as StoredDocument
from ... import Hit, Snapshot, Store
from ..blank_texts import warn_blank_texts
from ..hit_metadata import build_evidence, load_hit_documents

#: How the origin of a document begins that came through here.
ORIGIN_PREFIX = "langchain:"
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"
_TIME_LENGTH = len("2026-01-01T00:00:00.000000Z")


@dataclass(frozen=True, slots=True)
class DocumentOrigin:
    """Where a document came from: the namespace, and the moment of its last confirmation in seconds since 1970."""

    namespace: str
    confirmed: float

    def __str__(self) -> str:
        # Rounded up, so that what is read again is not before what was written.
        moment = datetime.fromtimestamp(math.ceil(self.confirmed * 1e6) / 1e6, UTC)
        return f"{ORIGIN_PREFIX}{moment.strftime(_TIME_FORMAT)}:{self.namespace}"

    @classmethod
    def parse(cls, origin: str | None) -> DocumentOrigin | None:
        """The origin that was written so; None for any other.

        >>> DocumentOrigin.parse(str(DocumentOrigin("wiki", 1763832000.25)))
        DocumentOrigin(namespace='wiki', confirmed=1763832000.25)
        """
        if origin is None or not origin.startswith(ORIGIN_PREFIX):
            return None
        moment, namespace = origin[len(ORIGIN_PREFIX) :][:_TIME_LENGTH], origin[len(ORIGIN_PREFIX) + _TIME_LENGTH + 1 :]
        try:
            return cls(namespace, datetime.strptime(moment, _TIME_FORMAT).replace(tzinfo=UTC).timestamp())
        except ValueError:
            return None


def add(
    store: Store,
    documents: Iterable[Document],
    ids: Sequence[str | None] | None,
    origin: DocumentOrigin,
    batch_size: int | None,
) -> list[str]:
    """Put documents, in place of those with the same ids; returns the ids of those that are stored.

    What has no id gets a random one; what has no text is skipped with a warning. One commit, or one for each
    ``batch_size`` documents.
    """
    document_list = list(documents)
    keys = assign_keys(document_list, ids)
    rows = [
        {
            "key": key,
            "text": document.page_content,
            "meta": document.metadata,
            "title": _get_text(document.metadata, "title"),
            "source": _get_text(document.metadata, "source"),
            "chunks": "whole",
            "origin": str(origin),
        }
        for key, document in zip(keys, document_list, strict=True)
    ]
    blank_keys = [row["key"] for row in rows if not row["text"].strip()]
    warn_blank_texts(blank_keys, len(rows), "documents")
    remaining = iter([row for row in rows if row["text"].strip()])
    while batch := list(islice(remaining, batch_size)):
        store.put_many(batch)
    return [key for key in keys if key not in set(blank_keys)]


def assign_keys(documents: Sequence[Document], ids: Sequence[str | None] | None = None) -> list[str]:
    """The keys that documents are put under: their ids, or those given in their place, and random ones for the rest."""
    document_ids = [document.id for document in documents] if ids is None else list(ids)
    if len(document_ids) != len(documents):
        raise ValueError(
            f"there are {len(documents):,} documents and {len(document_ids):,} ids; give one for each, or none"
        )
    return [key or str(uuid.uuid4()) for key in document_ids]


def _get_text(metadata: Mapping[str, Any], name: str) -> str | None:
    """A field of the metadata that is a text, and not blank."""
    value = metadata.get(name)
    return value if isinstance(value, str) and value.strip() else None


def load_documents(store: Store | Snapshot, keys: Sequence[str]) -> list[Document]:
    """The documents of some keys, in their order; what is not there is left out."""
    documents = store.get_many(list(dict.fromkeys(keys)))
    return [
        Document(id=document.key, page_content=document.text, metadata=document.meta)
        for document in documents
        if document is not None
    ]


def build_documents(state: Snapshot, hits: Sequence[Hit], *, evidence: bool) -> list[Document]:
    """What was found as documents; with ``evidence`` the metadata say why and where.

    A chunk of a document that has more than one says its place in any case.
    """
    documents_by_key = load_hit_documents(state, hits)
    return [_build_document(hit, documents_by_key[hit.document], evidence) for hit in hits]


def _build_document(hit: Hit, stored: StoredDocument, evidence: bool) -> Document:
    metadata = dict(stored.meta)
    is_whole = hit.kind == "chunk" and stored.chunks == 1
    if evidence or not is_whole:
        metadata.setdefault("source", stored.source or stored.key)
        metadata["evidence"] = build_evidence(hit)
    return Document(id=stored.key, page_content=stored.text if is_whole else hit.text, metadata=metadata)
