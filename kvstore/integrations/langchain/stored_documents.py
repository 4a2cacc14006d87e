"""Conversion between LangChain documents and documents of a store. The *origin* of a document marks it as added through
LangChain, with its namespace and the time at which a run of LangChain's indexing last found it in its source.

In: documents with or without ids. In the store: one document of one chunk each, in the given order, one commit per
batch. Out: LangChain documents for hits and keys.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

from langchain_core.documents import Document

from ... import Document as StoredDocument
from ... import Hit, Snapshot, Store
from ...arguments import check_integer, format_count, format_value
from ...errors import ArgumentError
from ..blank_texts import get_text_field, skip_blank_texts
from ..hit_metadata import build_hit_metadata, load_hit_documents

Item = TypeVar("Item")

#: The prefix of the origin of documents added through LangChain.
ORIGIN_PREFIX = "langchain:"
#: The format of the time in an origin, and the number of its characters.
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"
_TIME_LENGTH = len("2026-01-01T00:00:00.000000Z")


@dataclass(frozen=True, slots=True)
class DocumentOrigin:
    """The origin of a document: its namespace, and the time (seconds since 1970) at which a run last confirmed it.

    A run of LangChain's indexing confirms the documents that it finds in its source.
    """

    namespace: str
    confirmed_at: float

    def __str__(self) -> str:
        """Return the origin as text, which the store records: a prefix, a UTC time, a colon and the namespace."""
        # Rounded up, so that the parsed time is not before the written one.
        moment = datetime.fromtimestamp(math.ceil(self.confirmed_at * 1e6) / 1e6, UTC)
        return f"{ORIGIN_PREFIX}{moment.strftime(_TIME_FORMAT)}:{self.namespace}"

    @classmethod
    def parse(cls, origin: str | None) -> DocumentOrigin | None:
        """Parse an origin (a prefix, a UTC time, a separator and the namespace); return None for any other.

        >>> DocumentOrigin.parse(str(DocumentOrigin("wiki", 1763832000.25)))
        DocumentOrigin(namespace='wiki', confirmed_at=1763832000.25)
        """
        if origin is None or not origin.startswith(ORIGIN_PREFIX):
            return None
        time_and_namespace = origin.removeprefix(ORIGIN_PREFIX)
        moment, namespace = time_and_namespace[:_TIME_LENGTH], time_and_namespace[_TIME_LENGTH + 1 :]
        try:
            return cls(namespace, datetime.strptime(moment, _TIME_FORMAT).replace(tzinfo=UTC).timestamp())
        except ValueError:
            return None


def put_documents(
    store: Store,
    documents: Iterable[Document],
    ids: Sequence[str | None] | None,
    origin: DocumentOrigin,
    batch_size: int | None,
) -> list[str]:
    """Put documents, replacing those with the same ids; return the ids of the stored documents.

    ``ids`` replace the ids of the documents (None: no change). Documents without an id get a random one; documents
    without text are skipped with a warning. The store records ``origin`` with each. There is one commit per
    ``batch_size`` documents (None: one in total). Raises ArgumentError for anything but LangChain documents, and
    InputError for a ``batch_size`` that is not at least 1.
    """
    if batch_size is not None:
        check_integer("batch_size", batch_size, low=1)
    document_list = list(documents)
    for document in document_list:
        if not isinstance(document, Document):
            raise ArgumentError(
                f"documents must be LangChain documents, not {format_value(document)}; to add strings, use add_texts"
            )
    keys = assign_keys(document_list, ids)
    rows = [
        {
            "key": key,
            "text": document.page_content,
            "meta": document.metadata,
            "title": get_text_field(document.metadata, "title"),
            "source": get_text_field(document.metadata, "source"),
            "chunks": "whole",
            "origin": str(origin),
        }
        for key, document in zip(keys, document_list, strict=True)
    ]
    rows = skip_blank_texts(rows, "documents")
    for batch in split_batches(rows, batch_size):
        store.put_many(batch)
    return [row["key"] for row in rows]


def split_batches(items: Iterable[Item], size: int | None) -> Iterator[list[Item]]:
    """Yield the items in lists of at most ``size`` (None: in one list)."""
    remaining_items = iter(items)
    while batch := list(islice(remaining_items, size)):
        yield batch


def assign_keys(documents: Sequence[Document], ids: Sequence[str | None] | None = None) -> list[str]:
    """Return a key for each document: its id, or its element of ``ids`` if given. A missing id becomes a random key.

    Raises ValueError if the numbers of ids and documents differ.
    """
    document_ids = [document.id for document in documents] if ids is None else list(ids)
    if len(document_ids) != len(documents):
        raise ValueError(
            f"got {format_count(len(documents), 'document')} but {format_count(len(document_ids), 'id')}; pass one "
            "per document, or none"
        )
    return [key or str(uuid.uuid4()) for key in document_ids]


def load_documents(store: Store | Snapshot, keys: Sequence[str]) -> list[Document]:
    """Return the documents with these keys, each once, in the order of ``keys``. Missing documents are omitted."""
    documents = store.get_many(list(dict.fromkeys(keys)))
    return [
        Document(id=document.key, page_content=document.text, metadata=document.meta)
        for document in documents
        if document is not None
    ]


def build_documents(state: Snapshot, hits: Sequence[Hit], *, evidence: bool) -> list[Document]:
    """Return hits as documents; with ``evidence`` the metadata includes their paths and offsets.

    A chunk of a document with several chunks always includes its offsets.
    """
    return [_build_document(hit, stored_document, evidence) for hit, stored_document in load_hit_documents(state, hits)]


def _build_document(hit: Hit, stored_document: StoredDocument, evidence: bool) -> Document:
    """Convert a hit to a document: the whole document if it is a single chunk, else the text of the hit.

    With ``evidence``, or for a part of a document, the metadata says where the hit was found.
    """
    metadata = dict(stored_document.meta)
    is_whole = hit.kind == "chunk" and stored_document.chunks == 1
    if evidence or not is_whole:
        metadata.setdefault("source", stored_document.source or stored_document.key)
        metadata["evidence"] = build_hit_metadata(hit)
    return Document(
        id=stored_document.key, page_content=stored_document.text if is_whole else hit.text, metadata=metadata
    )
